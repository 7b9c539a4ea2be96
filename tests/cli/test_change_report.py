"""Reports of changes as text and Markdown."""

from __future__ import annotations

import argparse

import pytest

from ckwatch.cli.change_report import COMMENT_CHARACTERS, markdown_report, print_changes
from ckwatch.cli.output import Output
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import span
from ckwatch.wire.unit_changes import UnitChange, UnitOutcome, change_summary, unit_change
from helpers.kernel_reports import kernel, report

REWRITE = "`Problem` no longer has `Tail_`; write `Problem<A, B | C>`"
ERROR = Diagnostic(
    Severity.ERROR, Source.CLANG, "clang/semantic", "no type named `x` in <T|U>", span("/w/t/gemm.hip.j2", 11, 0, 11, 4)
)
BUILT = UnitOutcome(outcome="built", report=report(kernel(vgprs=189)))
MORE = UnitOutcome(outcome="built", report=report(kernel(vgprs=201, vgpr_spills=8)))
FAILED = UnitOutcome(outcome="failed", problem=ERROR.message, errors=(ERROR,))


def changes(broken: int = 2) -> list[UnitChange]:
    """Two units with figures, one that is the same, and `broken` ones."""
    found = [unit_change(f"gemm/b{number}@gfx942", BUILT, FAILED, (REWRITE,)) for number in range(broken)]
    found.append(unit_change("gemm/same@gfx942", BUILT, BUILT))
    found.append(unit_change("gemm/spills@gfx942", BUILT, MORE))
    return found


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = changes()
    print_changes(Output(argparse.Namespace(color="never")), found, change_summary(found))
    text = capsys.readouterr().out
    first, *lines = text.splitlines()
    assert first == "/w/t/gemm.hip.j2:12:1: error: no type named `x` in <T|U> [clang/semantic]"
    assert f"2 units: {REWRITE}" in lines
    assert [line for line in lines if line.startswith("✗")] == [
        "✗ gemm/b0@gfx942  no longer compiles: no type named `x` in <T|U>",
        "✗ gemm/b1@gfx942  no longer compiles: no type named `x` in <T|U>",
        "✗ gemm/spills@gfx942  new spills: 0 → 8 registers spilled: VGPR 189 → 201, spilled VGPR 0 → 8",
    ]
    assert "  VGPR                  378     390  +3.2 %     1" in lines
    assert lines[-1] == "4 units: no longer compile: 2, new spills: 1, the same: 1"


MARKDOWN = """\
## What changes

- to ROCm 7.3 at /opt/rocm\\_7

**no longer compile: 2, new spills: 1, the same: 1**

| figure | before | after | change | more | less |
|---|--:|--:|--:|--:|--:|
| VGPR | 378 | 390 | +3.2 % | 1 |  |
"""
SECTIONS = """\
- 2 units: `Problem` no longer has `Tail_`; write `Problem<A, B | C>`

### No longer compile (2)

- ``no type named `x` in <T|U>`` at `t/gemm.hip.j2:12`: `gemm/b0@gfx942`, `gemm/b1@gfx942`

### New spills (1)

| unit | what changes |
|---|---|
| `gemm/spills@gfx942` | 0 → 8 registers spilled; VGPR 189 → 201, spilled VGPR 0 → 8 |

### The same (1)

`gemm/same@gfx942`
"""


def test_markdown() -> None:
    found = changes()
    text = markdown_report("What changes", ["to ROCm 7.3 at /opt/rocm_7"], found, change_summary(found), root="/w")
    assert text.startswith(MARKDOWN)
    assert text.endswith(SECTIONS)


def test_markdown_of_many_units_fits_a_comment() -> None:
    many = [unit_change(f"gemm/{number:04}_{'x' * 60}@gfx942", BUILT, MORE) for number in range(2000)]
    text = markdown_report("Many", [], many, change_summary(many))
    assert COMMENT_CHARACTERS - 1000 < len(text) <= COMMENT_CHARACTERS
    shown = text.count("| `gemm/")
    assert text.endswith(f"characters: new spills: {2000 - shown}. `--json` has all.\n")
    assert "**new spills: 2000**" in text
