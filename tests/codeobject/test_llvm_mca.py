"""Requests to llvm-mca and the meaning of its answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cases.disassemblies import FOLDER, function_of
from ckwatch.codeobject.disassembly import Instruction
from ckwatch.codeobject.llvm_mca import (
    LoopCycles,
    clocks_per_cycle,
    first_error,
    loop_cycles_of,
    mca_arguments,
    mca_source,
    rejected_instructions,
    unknown_cpu,
    unmodelled_matrix,
)
from ckwatch.codeobject.main_loop import main_loop
from helpers.each_row import each_row

MFMA = "v_mfma_f32_32x32x8_f16 v[50:65], v[158:159], v[154:155], v[50:65]"


def body(*texts: str) -> list[Instruction]:
    return [Instruction(4 * place, text.partition(" ")[0], text, 4) for place, text in enumerate(texts)]


def answer(name: str) -> str:
    return (FOLDER / f"{name}.mca.json").read_text()


def loop_body(name: str, symbol: str, wavefront_size: int) -> tuple[Instruction, ...]:
    return main_loop(function_of(name, symbol), wavefront_size, name.rpartition(".")[2]).body


def test_the_loop_once_and_twice() -> None:
    assert mca_source(body("v_mov_b32 v0, v1", "s_nop 0", "s_branch 65533"), left_out={1}) == (
        "# LLVM-MCA-BEGIN once\nv_mov_b32 v0, v1\ns_branch 65533\n# LLVM-MCA-END once\n"
        "# LLVM-MCA-BEGIN twice\nv_mov_b32 v0, v1\ns_branch 65533\nv_mov_b32 v0, v1\ns_branch 65533\n"
        "# LLVM-MCA-END twice\n"
    )


def test_the_arch_goes_without_its_features() -> None:
    assert "-mcpu=gfx942" in mca_arguments("gfx942:sramecc+:xnack-", "loop.s")


def test_a_round_of_mfma() -> None:
    """16 MFMA of 8 passes keep the unit busy for 128 of 158 cycles, and a pass is a cycle of the model."""
    loop = loop_body("gemm_f16.v3_128x128x64.gfx950", "gemm_universal", 64)
    prediction = loop_cycles_of(answer("gemm_f16.v3_128x128x64.gfx950"), loop)
    assert prediction == LoopCycles(cycles=158, matrix_cycles=16 * 8)
    assert prediction.matrix_use == 128 / 158
    assert not unmodelled_matrix(prediction, loop)


def test_a_model_that_does_not_know_wmma() -> None:
    """It gives a WMMA one cycle, like an addition."""
    loop = loop_body("wmma.gfx1100", "wmma", 32)
    prediction = loop_cycles_of(answer("wmma.gfx1100"), loop)
    assert prediction.matrix_cycles is None
    assert prediction.matrix_use is None
    assert unmodelled_matrix(prediction, loop)


def test_without_matrix_instructions_nothing_is_missing() -> None:
    assert not unmodelled_matrix(LoopCycles(cycles=5, matrix_cycles=None), body("v_mov_b32 v0, v1"))


def region(name: str, cycles: int, usages: list[tuple[int, int, float]]) -> dict[str, Any]:
    return {
        "Name": name,
        "SummaryView": {"TotalCycles": cycles, "Iterations": 4},
        "ResourcePressureView": {
            "ResourcePressureInfo": [
                {"InstructionIndex": at, "ResourceIndex": resource, "ResourceUsage": used}
                for at, resource, used in usages
            ]
        },
    }


def document(once: dict[str, Any], twice: dict[str, Any]) -> str:
    return json.dumps({"CodeRegions": [once, twice], "TargetInfo": {"Resources": ["HWRC", "HWVALU", "HWXDL"]}})


def test_the_difference_of_both_is_a_round() -> None:
    # Instruction 0 is no MFMA, 3 is the sum that llvm-mca adds, HWRC is the bus that results return on.
    usages = [(0, 1, 9.0), (1, 2, 8.0), (1, 0, 50.0), (2, 2, 8.0), (3, 2, 16.0)]
    found = loop_cycles_of(
        document(region("once", 540, usages), region("twice", 620, usages)), body("v_mov_b32 v0, v1", MFMA, MFMA)
    )
    assert found == LoopCycles(cycles=20, matrix_cycles=16)
    assert found.matrix_use == 0.8


def test_places_count_without_what_was_left_out() -> None:
    usages = [(0, 2, 8.0), (1, 1, 9.0)]
    found = loop_cycles_of(
        document(region("once", 100, usages), region("twice", 180, usages)),
        body("v_foo v0", MFMA, "v_mov_b32 v0, v1"),
        left_out={0},
    )
    assert found.matrix_cycles == 8


ONE = region("once", 100, [])


@each_row(
    "output",
    [
        "",
        "null",
        "[]",
        "{",
        '{"CodeRegions": []}',
        json.dumps({"CodeRegions": [ONE], "TargetInfo": {"Resources": []}}),
        document(ONE, {"Name": "twice"}),
        document(ONE, region("twice", 100, [])),
        document(region("once", 100, [(0, 9, 8.0)]), region("twice", 180, [])),
        document({**ONE, "SummaryView": {"TotalCycles": 1, "Iterations": 0}}, region("twice", 180, [])),
    ],
)
def test_answers_that_are_none(output: str) -> None:
    with pytest.raises(ValueError, match="llvm-mca's answer"):
        loop_cycles_of(output, body(MFMA))


# As llvm-mca 22 prints them for a body of four instructions, of which it does not know the second: it is in lines 3, 9
# and 13 of the file.
PARSE = """\
loop.s:3:1: error: invalid instruction
v_foo v0
^
loop.s:9:1: error: invalid instruction
v_foo v0
^
loop.s:13:1: error: invalid instruction
v_foo v0
^
error: Assembly input parsing had errors, use -skip-unsupported-instructions=parse-failure to drop failing lines.
"""
NO_MODEL = """\
error: found an unsupported instruction in the input assembly sequence, use -skip-unsupported-instructions=lack-sched
note: instruction: \tv_foo v0
"""
KNOWN = "v_mov_b32 v0, v1"


@pytest.mark.parametrize(
    ("stderr", "texts", "left_out", "expected"),
    [
        (PARSE, (KNOWN, "v_foo v0", MFMA, "s_branch 3"), (), {1: "invalid instruction"}),
        (PARSE.replace(":3:", ":4:").replace(":9:", ":10:").replace(":13:", ":14:"),
         (KNOWN, "v_bar v0", MFMA, "v_foo v0", "s_branch 3"), (1,), {3: "invalid instruction"}),
        (NO_MODEL, (KNOWN, "v_foo v0", "v_foo  v0"), (),
         {1: "no scheduling information", 2: "no scheduling information"}),
        ("loop.s:99:1: error: invalid instruction", (), (), {}),
        ("error: no target", (KNOWN,), (), {}),
        ("", (KNOWN,), (), {}),
    ],
)  # fmt: skip
def test_what_was_rejected(
    stderr: str, texts: tuple[str, ...], left_out: tuple[int, ...], expected: dict[int, str]
) -> None:
    assert rejected_instructions(stderr, body(*texts), left_out) == expected


def test_an_arch_that_it_does_not_know() -> None:
    assert unknown_cpu("'gfx9999' is not a recognized processor for this target (ignoring processor)\n")
    assert not unknown_cpu(PARSE)


@pytest.mark.parametrize(
    ("stderr", "words"),
    [("note: x\nerror: bad\n", "error: bad"), ("\n  strange\n", "strange"), ("", "no output")],
)
def test_its_complaint(stderr: str, words: str) -> None:
    assert first_error(stderr) == words


@pytest.mark.parametrize(
    ("arch", "clocks"), [("gfx90a", 4), ("gfx942", 4), ("gfx950", 4), ("gfx1100", 1), ("gfx1201", 1)]
)
def test_clocks_of_a_cycle(arch: str, clocks: int) -> None:
    assert clocks_per_cycle(arch) == clocks
