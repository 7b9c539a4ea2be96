"""Programs of planted bugs, compiled by the real hipcc: every mistake at its line, and no right kernel reported."""

from __future__ import annotations

import re

import pytest

from planted_bugs.programs import LOOKS_ATOMIC, Program, can_be_found, is_planted, judge_program, programs, run_program

PROGRAMS = {program.path.stem: program for program in programs()}


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("across_workgroups", "gfx90a"),
        ("across_workgroups", "gfx942"),
        ("across_workgroups", "gfx1100"),
        ("across_workgroups", "gfx1201"),
        ("lanes_and_values", "gfx90a"),
        ("lanes_and_values", "gfx1100"),
        ("overflow", "gfx942"),
        ("shared_memory", "gfx942"),
        ("shared_memory", "gfx1100"),
    ],
)
def test_every_mistake_at_its_line_and_no_right_kernel(name: str, arch: str) -> None:
    run = run_program(PROGRAMS[name], arch)
    assert run.is_understood, run.printed
    assert [str(verdict) for verdict in judge_program([run]) if not verdict.right] == []


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=str)
def test_each_kind_has_a_mistake_at_a_line_and_a_right_twin(program: Program) -> None:
    kinds = {kernel.partition("::")[0] for kernel in program.kernels}
    for kind in kinds:
        kernels = [kernel for kernel in program.kernels if kernel.startswith(f"{kind}::")]
        assert {is_planted(kernel) for kernel in kernels} == {True, False}
    text = "\n".join(program.lines)
    assert set(re.findall(r"^    (\w+)::run\(\);$", text, re.MULTILINE)) == kinds
    assert all(f" {kernel.partition('::')[2]}<<<" in text for kernel in program.kernels)
    assert len(program.planted) >= len(kinds)


def test_there_are_enough_kinds_that_cross_workgroups_and_overflow() -> None:
    kinds = {stem: {kernel.partition("::")[0] for kernel in program.kernels} for stem, program in PROGRAMS.items()}
    assert len(kinds["across_workgroups"]) >= 20
    assert len(kinds["overflow"]) >= 10
    planted = {kernel for program in PROGRAMS.values() for kernel in program.kernels}
    assert planted >= LOOKS_ATOMIC
    assert not any(can_be_found(kernel, "gfx90a") for kernel in LOOKS_ATOMIC)
