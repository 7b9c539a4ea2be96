"""`ckwatch import profile`: what is printed of real files, lines of a unit's text at its template, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.cli.imports.profile import UnitText
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Span
from ckwatch.wire.messages import RenderedText, Segment

PROFILES = Path(__file__).parents[2] / "data" / "profiles"
TEMPLATE = "/w/k.hip.j2"


def test_lines_of_a_real_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "profile", str(PROFILES / "pc_sampling_stochastic_debug.csv"), "--top", "1"]) == 0
    title, head, first, more = capsys.readouterr().out.splitlines()
    assert title.endswith("pc_sampling_stochastic_debug.csv: PC sampling, stochastic, 97 samples")
    assert head.split() == ["share", "samples", "issued", "otherwise"]
    assert first.split()[:7] == ["23.7", "%", "23", "1", "21", "waitcnt,", "1"]
    assert first.endswith("vector-ops.cpp:82")
    assert more == "  and 13 more; --top shows them"


def test_several_files_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(PROFILES / f"pc_sampling_host_trap{kind}.csv") for kind in ("", "_debug")]
    assert main(["import", "profile", *files, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["profiles"]
    assert [(Path(one["file"]).name, one["total"]) for one in found] == [
        ("pc_sampling_host_trap.csv", 79),
        ("pc_sampling_host_trap_debug.csv", 21),
    ]
    assert found[0]["lines"][0]["line"] is None


@pytest.mark.parametrize(
    ("name", "why"), [("none.csv", "cannot read"), ("text.csv", "is no profile: it has no column")]
)
def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str) -> None:
    (tmp_path / "text.csv").write_text("a,b\n")
    assert main(["import", "profile", str(tmp_path / name)]) == 2
    assert why in capsys.readouterr().err


def piece(start: int, end: int, line: int, *, verbatim: bool = True) -> Segment:
    at = Position(line, 0)
    return Segment(
        start=start,
        end=end,
        verbatim=verbatim,
        exact=True,
        position=at,
        span=Span(TEMPLATE, at, at),
        label="",
        chain=(),
    )


def test_lines_of_a_text_are_those_of_its_template() -> None:
    text = "first\n  second\nthree four\n"
    segments = (piece(0, 15, 3), piece(15, 20, 9, verbatim=False), piece(20, 26, 5))
    found = UnitText(RenderedText(unit="k/one@gfx942", text=text, map=segments, source_name="kernel.hip"))
    assert [found.place(line) for line in range(-1, 5)] == [
        None,
        (TEMPLATE, 3),
        (TEMPLATE, 4),
        (TEMPLATE, 9),
        (TEMPLATE, 6),
        None,
    ]


def test_a_unit_without_text_is_said() -> None:
    with pytest.raises(CkwatchError, match="its template has errors"):
        UnitText(RenderedText(unit="k/one@gfx942", text=None))
