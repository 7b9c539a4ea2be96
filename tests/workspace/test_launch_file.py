"""Mistakes in descriptions of launches, each at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.errors import DiagnosedError
from ckwatch.workspace.launch_file import read_launch_file

DESCRIPTION = """\
kernel = "scale"
grid = ["(N + BLOCK - 1) / BLOCK"]
block = [256]
arguments = ["Y", "X", "A", "N", "null"]

[parameters]
BLOCK = 1024

[operation]
sizes = ["N"]
runtime = { A = "float" }

[[operation.input]]
name = "X"
dtype = "f32"
sizes = ["N"]

[[operation.output]]
name = "Y"
dtype = "f32"
sizes = ["N"]

[[shape]]
N = 512
A = 0.5
"""


def test_a_description(tmp_path: Path) -> None:
    path = tmp_path / "args.toml"
    path.write_text(DESCRIPTION)
    found = read_launch_file(path)
    assert (found.kernel.operation.kind, found.constants, found.problems.found) == ("custom", {"BLOCK": 1024}, [])
    assert [(dict(one.sizes), dict(one.runtime)) for one in found.kernel.shapes] == [({"N": 512}, {"A": 0.5})]
    assert found.table.arguments == ["Y", "X", "A", "N", "null"]


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("N + BLOCK", "M + BLOCK", "2:9", "unknown size `M`"),
        ("[256]", "[]", "3:9", "`block` must not be empty"),
        ("[256]", '["BLOK"]', "3:10", "unknown size `BLOK`; did you mean `BLOCK`?"),
        ("block =", "blok =", "3:1", "unknown key `blok`; did you mean `block`?"),
        ("grid = [", 'grid = ["?"]  # ckwatch: say how many\n# [', "2:8", "say how many"),
        ('kernel = "scale"', "sizes = 1", "1:1", "`sizes` belongs in [operation]"),
        ('sizes = ["N"]\nruntime', "runtime", "9:1", "`sizes` is missing in [operation]"),
        ('dtype = "f32"', 'dtype = "half"', "15:9", "did you mean `f16`?"),
        ("A = 0.5", "A = 0.5\nB = 1", "26:1", "B"),
        ("runtime =", 'reference = "r.py:f"\nruntime =', "11:13", "there is no file"),
    ],
)
def test_mistakes_are_at_their_places(old: str, new: str, place: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "args.toml"
    assert old in DESCRIPTION
    path.write_text(DESCRIPTION.replace(old, new, 1))
    with pytest.raises(DiagnosedError) as caught:
        read_launch_file(path)
    (found,) = [one for one in caught.value.diagnostics if said in one.message]
    assert f"{found.span.start.line + 1}:{found.span.start.column + 1}" == place
