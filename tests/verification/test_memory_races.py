"""Races between workgroups in `memory_races.hip`, compiled by the real hipcc: every mistake at its line, and no twin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ckwatch.cli import main

SOURCE = Path(__file__).with_name("memory_races.hip")
TEXT = SOURCE.read_text("utf-8")
KERNELS = frozenset(re.findall(r"__global__ void (\w+)\(", TEXT))
MISTAKES = frozenset(kernel for kernel in KERNELS if kernel.startswith("race_"))
LINES = frozenset(number for number, line in enumerate(TEXT.splitlines(), 1) if line.endswith("// race"))
FOUND = re.compile(rf"^\S*{re.escape(SOURCE.name)}:(\d+):\d+: error: (\w+): .*\[verify/memory-race\]$", re.MULTILINE)


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_every_mistake_at_its_line_and_no_twin(capfd: pytest.CaptureFixture[str], arch: str) -> None:
    capfd.readouterr()
    assert main(["emulate", "--arch", arch, "--flags=-O2 -gline-tables-only", str(SOURCE)]) == 1
    printed = capfd.readouterr()
    assert printed.out == "0 wrong\n"
    found = FOUND.findall(printed.err)
    assert len(found) == printed.err.count(": error: ")
    assert {kernel for _, kernel in found} == MISTAKES
    assert {int(line) for line, _ in found} <= LINES


def test_the_program_has_mistakes_and_twins() -> None:
    assert len(MISTAKES) >= 14
    assert len(KERNELS - MISTAKES) >= 18
    assert all(kernel.startswith("right_") for kernel in KERNELS - MISTAKES)
