"""The main loop of a kernel. Three kernels are checked by hand: the reasoning is beside the figures."""

from __future__ import annotations

import random

import pytest

from cases.disassemblies import function_of, text_of
from ckwatch.codeobject.control_flow import control_flow_of
from ckwatch.codeobject.disassembly import DisassembledFunction, Instruction, functions
from ckwatch.codeobject.main_loop import main_loop, waits_of
from ckwatch.codeobject.report import MainLoop


def loop_of(name: str, symbol: str) -> MainLoop:
    arch = name.rpartition(".")[2]
    found = main_loop(function_of(name, symbol), 32 if arch.startswith("gfx11") else 64, arch).loop
    assert found is not None
    return found


def test_gemm_of_one_wave_by_hand() -> None:
    """CK's v1 pipeline, 16×16×128, f16, 64 threads: one wave makes the whole tile.

    A round takes a tile of K. A's and B's tiles are 16 · 128 · 2 = 4096 bytes each: the wave loads both from memory,
    writes both to LDS, and reads both from there, since nobody shares the work: 8192 bytes each time. With 16 bytes a
    lane that is 8192 / (64 · 16) = 8 instructions. FLOPs: 2 · 16 · 16 · 128 = 65536, or 8 MFMA of 2 · 16 · 16 · 16.
    In the listing: 14 waits (6 for LDS, 8 for memory, one before each use), 2 barriers around the reads of LDS,
    50 vector instructions (32 that put zeros beyond the matrices' edges, 4 for each of 8 loads, and 18 of addresses),
    10 scalar ones (8 conditions, the counter and its comparison) and the branch back: 109 in all.
    """
    loop = loop_of("gemm_f16.v1_16x16x128.gfx942", "gemm_universalILb1E")
    assert (loop.first, loop.last) == (290, 398)
    assert loop.mix == {
        "mfma": 8, "valu": 50, "salu": 10, "lds read": 8, "lds write": 8, "global load": 8, "wait": 14, "barrier": 2,
        "branch": 1,
    }  # fmt: skip
    assert loop.lds_read_bytes == loop.lds_write_bytes == loop.global_load_bytes == 8192
    assert loop.global_store_bytes == 0
    assert loop.flops == 2 * 16 * 16 * 128
    assert loop.intensity == 8
    # The first two reads are waited for at once, and at +36 the one of +33: no MFMA is issued meanwhile.
    assert "+29 lgkmcnt(0): ds_read_b128 1 instructions before" in loop.waits
    # Lanes 0 to 15 read 16 bytes each, lanes 16 to 31 the same 272 bytes on (a row of 16 and one for padding). Of the
    # group of lanes 0 to 3 and 20 to 23, the first read the words 0 to 15, the others (272 + 4 · 16) / 4 = 84 to 99,
    # in the banks 20 to 31 and 0 to 3: each of the latter has two words.
    assert loop.hints == (
        "2 waits for an LDS read with no matrix instruction since it was issued",
        "LDS bank conflicts in 8 of 16 accesses whose addresses are known: +27 ds_read_b128 takes 2 times as long",
    )
    # Each load is waited for after all 8 MFMA, the first 60 - 7 = 53 instructions later.
    assert "+60 vmcnt(7): buffer_load_dwordx4 53 instructions before, 8 matrix instructions between" in loop.waits


def test_gemm_of_four_waves_by_hand() -> None:
    """CK's v3 pipeline, 128×128×64, f16, 256 threads: four waves, 2 × 2, each with 64 × 64 of the tile.

    A's and B's tiles are 128 · 64 · 2 = 16384 bytes each, 32768 together, of which each wave loads a quarter, 8192,
    and writes as much to LDS. It reads 64 rows of A and 64 columns of B: 2 · 64 · 64 · 2 = 16384 bytes. FLOPs:
    2 · 64 · 64 · 64 = 524288, or 16 MFMA of 2 · 32 · 32 · 16.
    """
    loop = loop_of("gemm_f16.v3_128x128x64.gfx950", "gemm_universal")
    assert (loop.first, loop.last) == (399, 517)
    assert loop.mix == {
        "mfma": 16, "valu": 50, "salu": 10, "lds read": 16, "lds write": 8, "global load": 8, "wait": 8, "barrier": 2,
        "branch": 1,
    }  # fmt: skip
    assert loop.lds_read_bytes == 2 * 64 * 64 * 2
    assert loop.lds_write_bytes == loop.global_load_bytes == 2 * 128 * 64 * 2 // 4
    assert loop.flops == 2 * 64 * 64 * 64
    assert loop.intensity == 64
    # Both barriers come after the wait for LDS; the first one waits for the last read of the round before.
    assert loop.waits[:2] == ("+10 lgkmcnt(0): ds_read_b128 16 instructions before", "+11 s_barrier")
    # The load at +34 is the first of the round; its wait is the first for memory of the next: 119 - 34 + 12 = 97.
    assert loop.waits[2] == "+12 vmcnt(7): buffer_load_dwordx4 97 instructions before, 15 matrix instructions between"


def test_gemm_without_matrix_instructions_by_hand() -> None:
    """The HIP template, 64×64×16 in tiles of 4×4 a thread, f8 that becomes f32 in LDS: two loops, one in the other.

    The inner one takes 8 of the 16 steps of K. Each step reads 4 values of A and 4 of B a lane, f32: 8 · 8 · 4 = 256
    bytes a lane, 16384 a wave, 16 instructions of 16 bytes. Each step makes 4 · 4 multiply-adds a lane: 8 · 16 · 2 = 256
    FLOPs, 16384 a wave, or 64 of `v_pk_fma_f32`, which makes two. The outer loop brings the next tile from memory:
    (64 + 64) · 16 bytes of f8 among 4 waves are 512 a wave.
    """
    function = function_of("gemm_f8_row_scales.tiles_64_64_4_4.gfx942", "gemm_tiled")
    found = main_loop(function, 64, "gfx942")
    loop = found.loop
    assert loop is not None
    assert loop.mix == {"valu": 114, "salu": 2, "lds read": 16, "wait": 16, "branch": 1}
    assert sum(instruction.mnemonic == "v_pk_fma_f32" for instruction in found.body) == 64
    assert loop.lds_read_bytes == 8 * (4 + 4) * 4 * 64
    assert loop.flops == 8 * 4 * 4 * 2 * 64
    assert loop.global_load_bytes == 0
    assert loop.intensity is None
    assert loop.hints == ("no matrix instructions: FLOPs are those of the VALU",)
    assert found.notes == (
        "the main loop is inside another one of 276 more instructions, which load at most 512 bytes a round",
        "no LDS bank conflicts in 16 of 16 accesses, whose addresses are known",
    )


def test_wmma_in_a_wave_of_32_by_hand() -> None:
    """A lane loads 16 f16 of A and 16 of B: 64 bytes, 2048 a wave of 32. One WMMA makes 2 · 16 · 16 · 16 FLOPs."""
    loop = loop_of("wmma.gfx1100", "wmma_row_column")
    assert loop.mix["mfma"] == 1
    assert loop.global_load_bytes == 32 * 64
    assert loop.flops == 2 * 16 * 16 * 16
    assert loop.hints == ("the wait at +16 for a load from memory with no matrix instruction since it was issued",)


@pytest.mark.parametrize(
    ("symbol", "body", "notes"),
    [
        # closed by s_setpc to a constant
        ("far_branch", (2, 9), ("the main loop has 2 blocks; all of them count as if each ran once a round",)),
        ("indirect", (3, 4), ("1 indirect branch or call: a loop through it is not seen",)),
        (
            "into_the_middle",
            None,
            ("no loop in 6 instructions", "1 branch backwards to what has another way in: not seen as a loop"),
        ),
        (
            "three_loops",
            (5, 13),
            (
                "the main loop has 3 blocks; all of them count as if each ran once a round",
                "the main loop is inside another one of 3 more instructions, which load at most 1024 bytes a round",
                "1 more loop has matrix instructions; this one the most",
            ),
        ),
        ("to_lds", (0, 2), ()),
    ],
)
def test_odd_loops(symbol: str, body: tuple[int, int] | None, notes: tuple[str, ...]) -> None:
    found = main_loop(function_of("odd.gfx942", symbol), 64, "gfx942")
    assert (found.loop and (found.loop.first, found.loop.last)) == body
    assert found.notes == notes


def test_what_the_instructions_say_against_a_loop() -> None:
    assert loop_of("odd.gfx942", "three_loops").hints == (
        "1 access of scratch memory: spills, or arrays",
        "the wait at +7 for a load from memory with no matrix instruction since it was issued",
        "the wait at +7 for an LDS read with no matrix instruction since it was issued",
        "1 move between VGPR and AGPR",
        "narrower than 4 bytes a lane: 1 of 1 LDS reads",
        "narrower than 4 bytes a lane: 1 of 1 LDS writes",
    )


def test_loads_to_lds_count_as_both() -> None:
    loop = loop_of("odd.gfx942", "to_lds")
    assert (loop.global_load_bytes, loop.lds_write_bytes) == (2 * 4 * 64, 2 * 4 * 64)


def test_without_a_loop_there_is_a_reason() -> None:
    straight = main_loop(function_of("gemm_f16.v1_16x16x128.gfx942", "gemm_universalILb0E"), 64, "gfx942")
    assert straight.loop is None
    assert straight.notes == ("no loop in 322 instructions; 8 matrix instructions run once",)
    empty = main_loop(DisassembledFunction("kernel", 0, ()), 64, "gfx942")
    assert empty.notes == ("no instructions in the disassembly",)
    damaged = main_loop(
        DisassembledFunction("kernel", 0, (Instruction(0, "s_endpgm", "s_endpgm", 4),), unknown=2), 64, "gfx942"
    )
    assert damaged.notes == ("no loop in 1 instructions", "left out: 2 words that the disassembler does not know")


@pytest.mark.parametrize("seed", range(8))
def test_damage_raises_nothing(seed: int) -> None:
    """Characters replaced, lines cut, copied and exchanged; most of it still has loops."""
    chance = random.Random(seed)  # noqa: S311  # the same in every run
    loops = 0
    for name in ("odd.gfx942", "wmma.gfx1100"):
        lines = text_of(name).splitlines()
        for _ in range(40):
            damaged = list(lines)
            for _ in range(10):
                at, other = chance.randrange(len(damaged)), chance.randrange(len(damaged))
                line = damaged[at]
                cut = chance.randrange(len(line) + 1)
                damaged[at] = chance.choice(
                    (line[:cut], line[:cut] + chance.choice("019af,[]: svx") + line[cut + 1 :], damaged[other])
                )
            found = [main_loop(function, 64, "gfx942") for function in functions("\n".join(damaged))]
            assert all(each.loop is not None or each.notes for each in found)
            loops += sum(each.loop is not None for each in found)
    assert loops > 100


def test_nested_loops_and_their_levels() -> None:
    loops = control_flow_of(function_of("odd.gfx942", "three_loops").instructions).loops
    assert [(loop.blocks, loop.own, loop.depth, loop.parent) for loop in loops] == [
        ((0,), (0,), 1, None), ((1, 2, 3, 4, 5), (1, 5), 1, None), ((2, 3, 4), (2, 3, 4), 2, 1),
    ]  # fmt: skip


def test_blocks_on_every_way_to_another() -> None:
    flow = control_flow_of(function_of("odd.gfx942", "three_loops").instructions)
    assert flow.dominating(4) == [0, 1, 2, 4]
    # reached by an indirect branch only: an entry of its own
    assert control_flow_of(function_of("odd.gfx942", "indirect").instructions).dominating(2) == [1, 2]


def body(*texts: str) -> list[Instruction]:
    return [Instruction(4 * place, text.partition(" ")[0], text, 4) for place, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("arch", "texts", "expected"),
    [
        # the (N+1)-th last load, of the round before
        (
            "gfx942",
            ("s_waitcnt vmcnt(1)", "buffer_load_dword v0", "v_mfma_f32_32x32x8_f16 v0", "buffer_load_dwordx4 v1"),
            [(0, "vmcnt", 1, "buffer_load_dword", 3, 1)],
        ),
        # stores count with the loads on gfx9, apart from them later
        (
            "gfx942",
            ("global_load_dword v0", "global_store_dword v0", "s_waitcnt vmcnt(0)"),
            [(2, "vmcnt", 0, "global_store_dword", 1, 0)],
        ),
        (
            "gfx1100",
            ("global_load_b32 v0", "global_store_b32 v0", "s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0"),
            [(2, "vmcnt", 0, "global_load_b32", 2, 0), (3, "vscnt", 0, "global_store_b32", 2, 0)],
        ),
        # scalar loads count with LDS up to gfx11
        (
            "gfx942",
            ("ds_read_b32 v0", "s_load_dword s0", "s_waitcnt lgkmcnt(0)"),
            [(2, "lgkmcnt", 0, "s_load_dword", 1, 0)],
        ),
        (
            "gfx1201",
            ("ds_load_b32 v0", "s_load_b32 s0", "global_load_b32 v1", "s_wait_dscnt 0x0", "s_wait_kmcnt 0x0",
             "s_wait_loadcnt_dscnt 0x0"),
            [(3, "dscnt", 0, "ds_load_b32", 3, 0), (4, "kmcnt", 0, "s_load_b32", 3, 0),
             (5, "loadcnt", 0, "global_load_b32", 3, 0), (5, "dscnt", 0, None, 0, 0)],
        ),
        (
            "gfx942",
            ("s_waitcnt vmcnt(0) lgkmcnt(0)", "flat_load_dword v0"),
            [(0, "vmcnt", 0, "flat_load_dword", 1, 0), (0, "lgkmcnt", 0, "flat_load_dword", 1, 0)],
        ),
        ("gfx942", ("s_waitcnt vmcnt(3)", "global_load_dword v0"), [(0, "vmcnt", 3, None, 0, 0)]),
        ("gfx942", ("s_waitcnt expcnt(0)", "global_load_dword v0"), []),
    ],
)  # fmt: skip
def test_what_a_wait_waits_for(
    arch: str, texts: tuple[str, ...], expected: list[tuple[int, str, int, str | None, int, int]]
) -> None:
    assert [
        (wait.at, wait.counter, wait.left, wait.producer and wait.producer.mnemonic, wait.distance, wait.matrix)
        for wait in waits_of(body(*texts), arch)
    ] == expected


def test_alignment_is_no_way_into_a_loop() -> None:
    """`s_nop` between a jump and an aligned block, of which the loop's header is not the first."""
    text = """\
0000000000000000 <k>:
\ts_branch 3 // 000000000000: BF820003
\ts_nop 0 // 000000000004: BF800000
\ts_nop 0 // 000000000008: BF800000
\tv_mov_b32 v0, v1 // 00000000000C: 7E000301
\tv_mov_b32 v0, v2 // 000000000010: 7E000302
\ts_cbranch_scc1 65533 // 000000000014: BF85FFFD
\ts_endpgm // 000000000018: BF810000
"""
    (function,) = functions(text)
    flow = control_flow_of(function.instructions)
    assert (flow.irreducible, [list(flow.members(loop.blocks)) for loop in flow.loops]) == (0, [[3, 4, 5]])
