"""Parameters of instances in the Python functions that kernel files name."""

from __future__ import annotations

import pytest

from ckwatch_lsp.kernel_files.language.document import KernelFileText
from ckwatch_lsp.kernel_files.language.reference_names import argument_places, reference_of

MODULE = """\
Tile = 3

def other(Tile):
    return Tile

def tiles(x, *, Tile):
    é = "Tile"; rows = x.shape[0] // Tile
    return [Tile for _ in range(rows)]

def inputs(rng, shape, Tile=4):
    return rng(Tile)
"""


def marked(places: list[tuple[int, int]]) -> list[tuple[int, str]]:
    lines = MODULE.split("\n")
    return [(line, lines[line][column : column + 4]) for line, column in places]


def test_the_argument_and_its_uses() -> None:
    found = sorted((one.start.line, one.start.column) for one in argument_places(MODULE, "tiles", "Tile"))
    assert marked(found) == [(5, "Tile"), (6, "Tile"), (7, "Tile"), (9, "Tile"), (10, "Tile")]


@pytest.mark.parametrize(("function", "name"), [("tiles", "rows"), ("none", "x"), ("tiles", "Size")])
def test_what_is_no_argument(function: str, name: str) -> None:
    assert list(argument_places(MODULE, function, name)) == []


def test_a_name_that_is_taken() -> None:
    assert [one.start.line for one in argument_places(MODULE, "tiles", "rows", taken=True)]
    assert not list(argument_places(MODULE + "def broken(", "tiles", "Tile"))


@pytest.mark.parametrize(
    ("value", "file"),
    [('"sub/r.py:tiles"', "sub/r.py"), ("'r.py:tiles'", "r.py"), ('"tiles"', None), ('"r.py:', None), ("3", None)],
)
def test_the_reference_of_a_kernel_file(value: str, file: str | None) -> None:
    text = f'[operation]\nkind = "custom"\nreference = {value}\n'
    found = reference_of(KernelFileText(text))
    assert (found and found.file) == file
    if found is not None:
        start, end = found.range.start, found.range.end
        assert text.split("\n")[start.line][start.column : end.column] == file
