"""The element of a kernel file under a cursor."""

from __future__ import annotations

import pytest

from ckwatch.model.text import Range
from ckwatch.workspace.toml import parse_toml
from ckwatch_lsp.kernel_files.language.document import (
    KernelFileText,
    cursor_context,
    places_at,
    why_no_instance_name,
    why_no_parameter_name,
)
from ckwatch_lsp.kernel_files.language.outline import (
    HIGHLIGHT_LIMIT,
    folds,
    highlights,
    selections,
    symbols,
)
from ckwatch_lsp.protocol.text_parts import TextSymbol
from helpers.each_row import each_row
from helpers.marked import marked


@each_row(
    ("text", "kind", "path", "word", "replaced"),
    [
        ("‸", "key", "", "", ""),
        ("na‸me = 1", "key", "", "na", "name"),
        ("name ‸= 1", "nothing", "", "", ""),
        ("name =‸", "value", "name", "", ""),
        ("name = ‸\n[x]", "value", "name", "", ""),
        ("name = ‸ # c", "value", "name", "", ""),
        ('name = "a‸b"', "value", "name", '"a', '"ab"'),
        ('name = "ab"‸', "value", "name", '"ab"', '"ab"'),
        ('name = "ab" ‸', "nothing", "", "", ""),
        ('name = "ab" # c‸', "comment", "", "", ""),
        ("a = 12‸8", "value", "a", "12", "128"),
        ("a = ‸128", "value", "a", "", "128"),
        ("[x]\n‸\n[y]", "key", "x", "", ""),
        ("[x]\na = 1\n\n  ‸", "key", "x", "", ""),
        ("[x‸", "header", "x", "[x", "[x"),
        ("[[‸]]", "header", "", "[[", "[[]]"),
        ("[‸", "header", "", "[", "["),
        ("[[instance]]‸\na = 1", "header", "instance", "[[instance]]", "[[instance]]"),
        ("[[instance]] ‸\na = 1", "nothing", "instance", "", ""),
        ("[o]\na = { dt‸ }", "key", "o.a", "dt", "dt"),
        ("[o]\na = { ‸ }", "key", "o.a", "", ""),
        ("[o]\na = { dtype = ‸}", "value", "o.a.dtype", "", ""),
        ('[o]\na = { dtype = "f‸16", layout = "row" }', "value", "o.a.dtype", '"f', '"f16"'),
        ('[o]\na = { dtype = "f16", ‸ }', "key", "o.a", "", ""),
        ("a = [1, ‸]", "value", "a", "", ""),
        ("a = [1, 2‸2, 3]", "value", "a", "2", "22"),
        ("a = ‸[1]", "value", "a", "", "[1]"),
        ("a.b‸ = 1", "key", "a", "b", "b"),
        ("MPer‸\n[x]", "key", "", "MPer", "MPer"),
        ("a = [1,\n  ‸", "value", "a", "", ""),
        ("a = [{ b = ‸", "value", "a.b", "", ""),
        ("# c‸omment\na = 1", "comment", "", "", ""),
        ("a = 1\n‸# comment", "key", "", "", ""),
    ],
)
def test_spots(text: str, kind: str, path: str, word: str, replaced: str) -> None:
    plain, position = marked(text)
    file = parse_toml(plain)
    spot = cursor_context(file, position)
    start, end = file.offset(spot.range.start), file.offset(spot.range.end)
    written = plain[start : file.offset(position)]
    assert (spot.kind.value, ".".join(spot.path), written, plain[start:end]) == (kind, path, word, replaced)


@pytest.mark.parametrize(
    ("text", "siblings"),
    [
        ("[x]\na = 1\n‸\nb = 2\n[y]\nc = 1", ("a", "b")),
        ("[x]\na = 1\nb‸ = 2", ("a",)),
        ("[x]\na = { p = 1, ‸, q = 2 }\nb = 1", ("p", "q")),
    ],
)
def test_keys_that_are_there_already(text: str, siblings: tuple[str, ...]) -> None:
    plain, position = marked(text)
    assert cursor_context(parse_toml(plain), position).siblings == siblings


@pytest.mark.parametrize(
    ("text", "element", "inside"),
    [
        ("a = [1, ‸]", True, False),
        ('a = ["x‸"]', True, True),
        ('a = "x‸"', False, True),
        ('a = "x"‸', False, False),
        ('a = "x‸', False, True),
    ],
)
def test_elements_and_quotes(text: str, element: bool, inside: bool) -> None:
    plain, position = marked(text)
    spot = cursor_context(parse_toml(plain), position)
    assert (spot.element, spot.inside) == (element, inside)


TEXT = """\
# one
# two
template = "k.hip.j2"

[defaults]
Tile = 1

[[instance]]
name = "i"
Tile = 2
"Odd key" = 3

[[sweep]]
name = "s"
base = "i"
where = ["Tile > 1 and max(Tile, 2) == 'Tile'", "Order[0] | first == 1"]

[sweep.parameters]
Tile = [
  1, # first
  2,
]
Order = [[1, 0], [0, 1]]
"""


def texts(document: KernelFileText, ranges: tuple[Range, ...]) -> list[str]:
    return [document.text[document.toml.offset(one.start) : document.toml.offset(one.end)] for one in ranges]


@pytest.mark.parametrize(
    ("before", "kind", "name", "count"),
    [
        ('i"\nTile', "instance", "i", 2),
        ('i"\nwhere', "instance", "i", 2),
        ("Tile = 1", "parameter", "Tile", 5),
        ("Tile > 1", "parameter", "Tile", 5),
        ("Tile, 2", "parameter", "Tile", 5),
        ("Order = ", "parameter", "Order", 2),
        ("Order[0]", "parameter", "Order", 2),
        ("k.hip.j2", "template", "k.hip.j2", 1),
        ('Odd key"', "parameter", "Odd key", 1),
    ],
)
def test_all_places_of_a_name(before: str, kind: str, name: str, count: int) -> None:
    text, position = marked(TEXT.replace(before, "‸" + before, 1))
    document = KernelFileText(text)
    found = places_at(document, position)
    assert found is not None
    assert (found.kind.value, found.name) == (kind, name)
    assert texts(document, tuple(place.range for place in found.places)) == [name] * count
    assert highlights(document, position) == tuple(sorted(place.range for place in found.places))


DERIVING = """\
[[sweep]]
[sweep.parameters]
A = [1]
[sweep.derived]
B = "A // 2"
C = "max(B, A)"
[[sweep]]
derived = { D = "A" }
"""


@pytest.mark.parametrize(("before", "name", "count"), [("B, A", "B", 2), ("A // 2", "A", 4), ("C = ", "C", 1)])
def test_derived_parameters_are_renamed_in_expressions(before: str, name: str, count: int) -> None:
    text, position = marked(DERIVING.replace(before, "‸" + before, 1))
    document = KernelFileText(text)
    found = places_at(document, position)
    assert found is not None
    assert (found.kind.value, found.name) == ("parameter", name)
    assert texts(document, tuple(place.range for place in found.places)) == [name] * count
    first, second = document.sweeps
    assert (list(first.derived), list(second.derived)) == (["B", "C"], ["D"])
    assert document.sweep_at(position) is not None
    below = [one.name for one in symbols(document.toml)[0].children]
    assert below[-2:] == ["sweep.parameters", "sweep.derived"]


@pytest.mark.parametrize("before", ["max(", "and", "'Tile'\"", "first", "# one", "[[instance]]", "name = ", 's"\nbase'])
def test_no_names(before: str) -> None:
    text, position = marked(TEXT.replace(before, "‸" + before, 1))
    assert places_at(KernelFileText(text), position) is None


def test_names_that_can_be_taken() -> None:
    document = KernelFileText(TEXT + '[[instance]]\nname = "j"\n')
    assert why_no_instance_name(document, "i", "i") is None
    assert why_no_instance_name(document, "ü 2", "i") is None
    for name in ("", " a", "a/b", "a@b", "..", "x" * 121, "j", "a\nb"):
        assert why_no_instance_name(document, name, "i"), name
    assert why_no_parameter_name("Tile_2") is None
    for name in ("", "2", "a b", "not", "ü"):
        assert why_no_parameter_name(name), name


def shown(symbol: TextSymbol) -> object:
    return [symbol.name, *(shown(child) for child in symbol.children)] if symbol.children else symbol.name


def test_symbols() -> None:
    document = KernelFileText(TEXT)
    found = symbols(document.toml)
    assert [shown(one) for one in found] == [
        "template",
        ["defaults", "Tile"],
        ["i", "Tile", "Odd key"],
        ["s", "base", "where", ["sweep.parameters", "Tile", "Order"]],
    ]
    assert [one.kind.name for one in found] == ["Property", "Namespace", "Object", "Array"]
    for one in found:
        assert one.range.covers(one.selection)
        assert all(one.range.covers(child.range) for child in one.children)
    assert texts(document, (found[2].selection,)) == ['"i"']
    assert symbols(KernelFileText("[[instance]]\n[[instance]]\n[\n").toml)[1].name == "instance 2"


def test_folds() -> None:
    found = [(one.start_line, one.end_line, one.kind == "comment") for one in folds(KernelFileText(TEXT).toml)]
    assert found == [(0, 1, True), (4, 5, False), (7, 10, False), (12, 15, False), (17, 22, False), (18, 21, False)]


def test_selections() -> None:
    text, position = marked(TEXT.replace("  2,", "  ‸2,"))
    document = KernelFileText(text)
    found = texts(document, selections(document.toml, position))
    assert found[0] == "2"
    assert found[1] == "  2,"
    assert found[2].startswith("1, # first") or found[2].startswith("[\n")
    assert found[-2].startswith("[sweep.parameters]")
    assert found[-1] == TEXT
    text, position = marked('name = "a‸b" # c\n')
    document = KernelFileText(text)
    assert texts(document, selections(document.toml, position)) == [
        "ab",
        '"ab"',
        'name = "ab"',
        'name = "ab" # c',
        text,
    ]


def test_only_the_nearest_places_of_a_name_are_shown() -> None:
    text = "".join(f'[[instance]]\nname = "i{number}"\nTile = {number}\n' for number in range(1000))
    document = KernelFileText(text)
    position = document.toml.position(text.index("Tile = 500"))
    found = highlights(document, position)
    assert len(found) == HIGHLIGHT_LIMIT
    assert {abs(one.start.line - position.line) <= 1.5 * HIGHLIGHT_LIMIT for one in found} == {True}
    assert list(found) == sorted(found)
