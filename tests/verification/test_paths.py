"""Waits on all paths: what is reported of code that is not executed, and what is not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count, takewhile

import numpy as np
import pytest

from helpers.each_row import each_row
from references.wave_emulator import ALL_ARCHITECTURES, LANES, WaveEmulator, WaveState

GFX9, GFX12 = ("gfx90a", "gfx942", "gfx950"), ("gfx1201", "gfx1250")
RDNA = ("gfx1100", *GFX12)
END, BARRIER = "s_endpgm", "s_barrier"
LOAD, OTHER_LOAD = "global_load_dword v1, v[2:3], off", "global_load_dword v9, v[2:3], off"
READ, OTHER_READ = "ds_read_b32 v1, v2", "ds_read_b32 v9, v2"
SCALAR = "s_load_dword s4, s[0:1], 0x0"
STORE = "global_store_dword v[2:3], v8, off"
USE, OVERWRITE, SCALAR_USE = "v_mov_b32_e32 v5, v1", "v_mov_b32_e32 v1, v5", "s_mov_b32 s5, s4"
V1_READ, V1_OVERWRITTEN = "v1 is read before its load has arrived", "v1 is overwritten before its load has arrived"
S4_READ = "s4 is read before its load has arrived (lgkmcnt)"


def wait(architecture: str, vm: int | None = None, lgkm: int | None = None) -> str:
    if architecture in GFX12:
        opcode, counter, count = (0xBFC0, "load", vm) if vm is not None else (0xBFC6, "ds", lgkm)
        return f"s_wait_{counter}cnt {count:#x} // {opcode:04X}{count:04X}"
    if architecture in GFX9:
        vm, lgkm = 63 if vm is None else vm, 15 if lgkm is None else lgkm
        immediate = vm & 15 | (vm >> 4) << 14 | 7 << 4 | lgkm << 8
    else:
        immediate = (63 if vm is None else vm) << 10 | (63 if lgkm is None else lgkm) << 4 | 7
    return f"s_waitcnt {immediate} // {0xBF8C0000 | immediate:08X}"


def lines_of(lines: Sequence[str], architecture: str) -> list[str]:
    """Lines with their words. `vm(N)` and `lgkm(N)` are waits; `s_cbranch_… +N` and `s_branch -N` skip N lines."""
    written = []
    for at, line in enumerate(lines):
        if waits := re.fullmatch(r"(vm|lgkm)\((\d+)\)", line):
            written.append(wait(architecture, **{waits[1]: int(waits[2])}))
        elif jump := re.fullmatch(r"(s_c?branch\w*) ([+-]\d+)", line):
            by = int(jump[2])
            passed = lines[at + 1 : at + 1 + by] if by > 0 else lines[at + 1 + by : at + 1]
            offset = (-1 if by < 0 else 1) * sum(2 if is_long(one) else 1 for one in passed) & 0xFFFF
            written.append(f"{jump[1]} {offset} // {0xBF840000 | offset:08X}")
        else:
            written.append(line if "//" in line else f"{line} // 00000000{' 00000000' if is_long(line) else ''}")
    return written


def is_long(line: str) -> bool:
    return bool(re.match(r"(global|buffer|flat|scratch|ds|s_load|s_add)_", line)) or "0x" in line


def found(emulator: WaveEmulator, lines: Sequence[str], architecture: str) -> list[tuple[str, str, str]]:
    """The instruction, the load and the note of each finding."""
    findings = emulator.check_paths(lines_of(lines, architecture), architecture)
    assert all(one["kind"] == "missing-wait" and one["workgroup"] is None for one in findings)
    return [(one["instruction"], one["other_instruction"], one["note"]) for one in findings]


def gfx12_names(lines: Sequence[str], notes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines and notes with the counters of gfx12, where LDS and scalar memory have one each."""
    renamed = ["s_barrier_wait -1" if line == BARRIER else line for line in lines]
    if SCALAR in lines and READ not in lines:
        renamed = ["s_wait_kmcnt 0 // BFC70000" if line == "lgkm(0)" else line for line in renamed]
    of_notes = [
        note.replace("vmcnt", "loadcnt").replace("lgkmcnt", "kmcnt" if note[0] == "s" else "dscnt") for note in notes
    ]
    return renamed, of_notes


def rdna_names(lines: Sequence[str]) -> list[str]:
    names = {"global_load_dword ": "global_load_b32 ", "global_store_dword ": "global_store_b32 ",
             "ds_read_b32": "ds_load_b32", "s_load_dword ": "s_load_b32 "}  # fmt: skip
    written = list(lines)
    for old, new in names.items():
        written = [line.replace(old, new) for line in written]
    return written


EVERYWHERE: dict[str, tuple[list[str], list[str]]] = {
    "no wait at all": ([LOAD, USE, END], [f"{V1_READ} (vmcnt)"]),
    "it is overwritten": ([LOAD, OVERWRITE, END], [f"{V1_OVERWRITTEN} (vmcnt)"]),
    "reported once": ([LOAD, USE, USE, END], [f"{V1_READ} (vmcnt)"]),
    "a wait": ([LOAD, "vm(0)", USE, END], []),
    "a wait on both branches": ([LOAD, "s_cbranch_scc1 +2", "vm(0)", "s_branch +1", "vm(0)", USE, END], []),
    "a wait on one branch": ([LOAD, "s_cbranch_scc1 +1", "vm(0)", USE, END], [f"{V1_READ} (vmcnt)"]),
    "a use on the branch alone": ([LOAD, "s_cbranch_execz +1", USE, "vm(0)", USE, END], [f"{V1_READ} (vmcnt)"]),
    "a load on one branch": (["s_cbranch_vccnz +1", LOAD, USE, END], [f"{V1_READ} (vmcnt)"]),
    "two decisions may exclude each other": (
        [LOAD, "s_cbranch_scc1 +1", "s_nop 0", "s_cbranch_scc1 +1", "vm(0)", USE, END],
        [],
    ),
    "a decision before the load": (
        ["s_cbranch_scc1 +1", "s_nop 0", LOAD, "s_cbranch_vccz +1", "vm(0)", USE, END],
        [f"{V1_READ} (vmcnt)"],
    ),
    "masks decide nothing": (
        [LOAD, "s_cbranch_execz +1", "s_nop 0", "s_cbranch_scc1 +1", "vm(0)", "s_cbranch_execnz +1", "s_nop 0", USE, END],
        [f"{V1_READ} (vmcnt)"],
    ),
    "no lane is left, behind a decision": (
        [LOAD, "s_cbranch_scc0 +1", "vm(0)", "s_cbranch_execnz +1", "s_branch +1", "vm(0)", USE, END],
        [],
    ),
    "no lane is left": ([LOAD, "s_cbranch_execnz +1", "s_branch +1", "vm(0)", USE, END], [f"{V1_READ} (vmcnt)"]),
    "behind the end": ([LOAD, END, USE], []),
    "round a loop": ([USE, LOAD, "s_cbranch_scc0 -3", "vm(0)", END], [f"{V1_READ} (vmcnt)"]),
    "round a loop with a wait": (["vm(0)", USE, LOAD, "s_cbranch_scc0 -4", "vm(0)", END], []),
    "two loads, one of them waited for": ([LOAD, OTHER_LOAD, "vm(1)", USE, END], []),
    "the younger of two": ([OTHER_LOAD, LOAD, "vm(1)", USE, END], [f"{V1_READ} (vmcnt)"]),
    "the other load on one branch": (
        [LOAD, "s_cbranch_scc1 +1", OTHER_LOAD, "vm(1)", USE, END], [f"{V1_READ} (vmcnt)"],
    ),
    "another load on each branch": (
        [LOAD, "s_cbranch_scc1 +2", OTHER_LOAD, "s_branch +1", OTHER_LOAD, "vm(1)", USE, END], [],
    ),
    "loads arrive in their order": ([LOAD, LOAD, "vm(0)", USE, END], []),
    "a load over what LDS brings": ([READ, LOAD, "vm(0)", END], [f"{V1_OVERWRITTEN} (lgkmcnt)"]),
    "LDS": ([READ, "s_cbranch_scc1 +1", "lgkm(0)", USE, END], [f"{V1_READ} (lgkmcnt)"]),
    "LDS behind LDS": ([READ, OTHER_READ, "lgkm(1)", USE, END], []),
    "a scalar load": ([SCALAR, "s_cbranch_scc1 +1", "lgkm(0)", SCALAR_USE, END], [S4_READ]),
    "scalar loads arrive in any order": ([SCALAR, READ, "lgkm(1)", SCALAR_USE, "lgkm(0)", END], [S4_READ]),
    "a scalar load does not hide LDS": ([READ, SCALAR, "lgkm(1)", USE, "lgkm(0)", END], [f"{V1_READ} (lgkmcnt)"]),
    "the address of a load": ([LOAD, "global_load_dword v7, v[0:1], off", END], [f"{V1_READ} (vmcnt)"]),
    "what a store stores": ([LOAD, "global_store_dword v[2:3], v1, off", END], [f"{V1_READ} (vmcnt)"]),
    "a barrier waits for no load": ([LOAD, BARRIER, USE, END], [f"{V1_READ} (vmcnt)"]),
    "a call": ([LOAD, "s_swappc_b64 s[30:31], s[4:5]", USE, END], []),
    "an unknown instruction": ([LOAD, "v_unheard_of v1", USE, END], []),
    "two flat loads, VM alone": (
        ["flat_load_dword v1, v[2:3]", "vm(0)", USE, END], [f"{V1_READ} (lgkmcnt)"],
    ),
    "lanes are not told apart": ([LOAD, "s_mov_b64 exec, 0", USE, END], [f"{V1_READ} (vmcnt)"]),
}  # fmt: skip


@each_row("name", EVERYWHERE)
@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_a_wait_is_missing_on_some_path_or_on_none(emulator: WaveEmulator, architecture: str, name: str) -> None:
    lines, expected = EVERYWHERE[name]
    if architecture in GFX12:
        lines, expected = gfx12_names(lines, expected)
    if architecture in RDNA:
        lines = [line.replace("flat_load_dword", "flat_load_b32") for line in rdna_names(lines)]
    assert [note for _, _, note in found(emulator, lines, architecture)] == expected


def test_the_use_and_its_load_are_told(emulator: WaveEmulator) -> None:
    lines = [LOAD, "vm(0)", LOAD.replace("off", "off offset:4"), "s_cbranch_scc1 +1", "vm(0)", USE, END]
    assert found(emulator, lines, "gfx942") == [(USE, LOAD.replace("off", "off offset:4"), f"{V1_READ} (vmcnt)")]


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_stores_have_a_counter_of_their_own_on_rdna(emulator: WaveEmulator, architecture: str) -> None:
    lines = [LOAD, STORE, "vm(1)", USE, END]
    expected = [f"{V1_READ} (vmcnt)"] if architecture in RDNA else []
    if architecture in GFX12:
        lines, expected = gfx12_names(lines, expected)
    lines = rdna_names(lines) if architecture in RDNA else lines
    assert [note for _, _, note in found(emulator, lines, architecture)] == expected


@pytest.mark.parametrize(("architecture", "most"), [("gfx942", 63), ("gfx1100", 63)])
def test_what_a_counter_cannot_count_has_waited(emulator: WaveEmulator, architecture: str, most: int) -> None:
    for younger, is_found in ((most, False), (most - 1, True)):
        lines = [LOAD, *[OTHER_LOAD] * younger, USE, END]
        lines = rdna_names(lines) if architecture in RDNA else lines
        assert bool(found(emulator, lines, architecture)) is is_found


def test_the_value_from_before_an_atomic_is_waited_for(emulator: WaveEmulator) -> None:
    for line, expected in {
        "global_atomic_add v1, v[2:3], v4, off sc0": [f"{V1_READ} (vmcnt)"],
        "global_atomic_add v[2:3], v1, off": [],
        "buffer_atomic_cmpswap v[1:2], v4, s[8:11], 0 offen sc0": [f"{V1_READ} (vmcnt)"],
        "ds_add_rtn_u32 v1, v2, v3": [f"{V1_READ} (lgkmcnt)"],
        "ds_add_u32 v2, v1": [],
        "buffer_load_dword v1, s[8:11], 0 offen lds": [],
    }.items():
        assert [note for _, _, note in found(emulator, [line, USE, END], "gfx942")] == expected, line


def test_functions_are_gone_through_where_their_address_is_computed(emulator: WaveEmulator) -> None:
    """The function begins 24 bytes behind what s_getpc returns."""
    call = [
        "s_getpc_b64 s[4:5]",
        "s_add_u32 s4, s4, 0x18",
        "s_addc_u32 s5, s5, 0x0",
        "s_swappc_b64 s[30:31], s[4:5]",
        END,
    ]
    function = [LOAD, USE, "s_setpc_b64 s[30:31]"]
    assert [note for _, _, note in found(emulator, [LOAD, *call, *function], "gfx942")] == [f"{V1_READ} (vmcnt)"]
    assert found(emulator, [LOAD, END, *function], "gfx942") == []


def test_both_parts_of_a_pair_are_looked_at(emulator: WaveEmulator) -> None:
    pair = "v_dual_mov_b32 v6, v7 :: v_dual_mov_b32 v5, v1"
    ((instruction, _, note),) = found(emulator, rdna_names([LOAD, pair, END]), "gfx1100")
    assert (instruction, note) == (pair, f"{V1_READ} (vmcnt)")


def test_findings_are_read_as_json(emulator: WaveEmulator) -> None:
    emulator.check_paths(lines_of([LOAD, USE, END], "gfx942"), "gfx942")
    told = json.loads(emulator.finding())
    assert (told["pc"], told["other_pc"], told["wave"], told["lane"]) == (8, 0, None, None)


def test_moves_by_relative_registers_load_nothing(emulator: WaveEmulator) -> None:
    assert found(emulator, ["v_movrels_b32_e32 v1, v2", USE, END], "gfx1100") == []


LOW, HIGH = "global_load_d16_b16 v1, v[2:3], off", "global_load_d16_hi_b16 v1, v[2:3], off"
WHOLE = "global_load_b32 v1, v[2:3], off"
HALVES: dict[str, tuple[str, str, bool]] = {
    "stored to LDS": ("ds_store_b16 v4, v1", "ds_store_b16_d16_hi v4, v1", False),
    "a byte of it": ("ds_store_b8 v4, v1", "ds_store_b8_d16_hi v4, v1", False),
    "stored": ("global_store_b16 v[6:7], v1, off", "global_store_d16_hi_b16 v[6:7], v1, off", False),
    "named": ("v_mov_b16_e32 v5.l, v1.l", "v_mov_b16_e32 v5.l, v1.h", False),
    "compared": ("v_cmp_eq_u16_e32 vcc_lo, v1.l, v5.l", "v_cmp_eq_u16_e32 vcc_lo, v1.h, v5.l", False),
    "the only one there is": ("v_cvt_f32_f16_e32 v5, v1", "v_cvt_f32_f16_e32 v5, v1.h", False),
    "chosen": ("v_add_f16_e64 v5, v1, v1", "v_add_f16_e64 v5, v1, v1 op_sel:[1,1,0]", False),
    "compared, chosen": ("v_cmp_eq_u16_e64 s5, v1, v5", "v_cmp_eq_u16_e64 s5, v1, v5 op_sel:[1,0]", False),
    "twice": ("v_pk_add_f16 v5, v1, v1 op_sel_hi:[0,0]", "v_pk_add_f16 v5, v1, v1 op_sel:[1,1]", False),
    "widened": ("v_fma_mix_f32 v5, v1, v6, v7 op_sel_hi:[1,0,0]", "v_fma_mix_f32 v5, v1, v6, v7 op_sel:[1,0,0] op_sel_hi:[1,0,0]", False),
    "packed": ("v_pack_b32_f16 v5, v1, v6", "v_pack_b32_f16 v5, v1, v6 op_sel:[1,0,0]", False),
    "lanes exchanged": ("v_mov_b16_dpp v5.l, v1.l row_shr:1 row_mask:0xf bank_mask:0xf // 7E0A38FA FF011101", "v_mov_b16_dpp v5.l, v1.h row_shr:1 row_mask:0xf bank_mask:0xf // 7E0A38FA FF011181", False),
    "overwritten": ("v_mov_b16_e32 v1.l, v5.l", "v_mov_b16_e32 v1.h, v5.l", True),
    "overwritten, chosen": ("v_add_f16_e64 v1, v5, v6", "v_add_f16_e64 v1, v5, v6 op_sel:[0,0,1]", True),
    "overwritten by LDS": ("ds_load_u16_d16 v1, v4", "ds_load_u16_d16_hi v1, v4", True),
}  # fmt: skip
"""A use of the lower half of v1 alone, one of the upper half, and if it is written."""


def found_twice(emulator: WaveEmulator, lines: Sequence[str], architecture: str) -> list[str]:
    """The notes, which are the same of the paths and of a wave that executes the lines."""
    notes = [note for _, _, note in found(emulator, lines, architecture)]
    state = WaveState(memory=np.zeros(1024, np.uint8), lds=np.zeros(1024, np.uint8))
    addresses = np.uint64(emulator.memory_address) + np.arange(LANES, dtype=np.uint64) * np.uint64(4)
    for first, offset in ((2, 0), (6, 512)):
        state.vectors[first : first + 2] = (addresses + np.uint64(offset)).view(np.uint32).reshape(LANES, 2).T
    state.vectors[4] = np.arange(LANES) * 4
    state.exec_mask = (1 << (32 if architecture in RDNA else LANES)) - 1
    emulator.run(lines_of(lines, architecture), architecture, state, checked=True, reports=True)
    executed = [json.loads(text) for text in takewhile(bool, map(emulator.finding, count()))]
    assert [one["note"] for one in executed if one["kind"] == "missing-wait"] == notes
    return notes


@each_row("use", HALVES)
@each_row("architecture", ["gfx1100", "gfx1201"])
def test_a_load_into_one_half_leaves_the_other(emulator: WaveEmulator, architecture: str, use: str) -> None:
    low, high, is_written = HALVES[use]
    how, counter = "overwritten" if is_written else "read", "loadcnt" if architecture in GFX12 else "vmcnt"
    missing = [f"v1 is {how} before its load has arrived ({counter})"]
    for load, right, wrong in ((HIGH, low, high), (LOW, high, low)):
        assert found_twice(emulator, [load, right, "vm(0)", END], architecture) == []
        assert found_twice(emulator, [load, wrong, "vm(0)", END], architecture) == missing
        assert found_twice(emulator, [load, "vm(0)", wrong, END], architecture) == []
    for one in (low, high):
        assert found_twice(emulator, [WHOLE, one, "vm(0)", END], architecture) == missing
        assert found_twice(emulator, [LOW, HIGH, one, "vm(0)", END], architecture) == missing


def test_two_loads_into_the_halves_of_one_register(emulator: WaveEmulator) -> None:
    low, high = "v_mov_b16_e32 v5.l, v1.l", "v_mov_b16_e32 v5.l, v1.h"
    missing = [f"{V1_READ} (vmcnt)"]
    for lines, expected in (
        ([LOW, HIGH, "vm(0)", USE], []),
        ([LOW, HIGH, USE, "vm(0)"], missing),
        ([LOW, HIGH, "vm(1)", USE], missing),
        ([LOW, HIGH, "vm(1)", low], []),
        ([LOW, HIGH, "vm(1)", high], missing),
        ([WHOLE, HIGH, "vm(1)", low], []),
        ([WHOLE, HIGH, low], missing),
        ([WHOLE, HIGH, "vm(1)", high], missing),
        ([LOW, "ds_load_u16_d16_hi v1, v4", "vm(0)", low], []),
        ([LOW, "ds_load_u16_d16_hi v1, v4", "vm(0)", high], [f"{V1_READ} (lgkmcnt)"]),
        ([HIGH, "v_and_b32_e32 v5, 0xffff, v1"], missing),  # as compilers wait
    ):
        assert found_twice(emulator, [*lines, END], "gfx1100") == expected, lines


@pytest.mark.parametrize("architecture", GFX9)
def test_registers_with_ecc_are_loaded_as_a_whole(emulator: WaveEmulator, architecture: str) -> None:
    low, high = LOW.replace("d16_b16", "short_d16"), HIGH.replace("d16_hi_b16", "short_d16_hi")
    assert found_twice(emulator, [low, high, "vm(0)", USE, END], architecture) == []
    for load in (low, high):
        for use in ("ds_write_b16 v4, v1", "ds_write_b16_d16_hi v4, v1", "v_cvt_f32_f16_e32 v5, v1",
                    "v_add_f16_sdwa v5, v1, v1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:WORD_1"):  # fmt: skip
            assert found_twice(emulator, [load, use, "vm(0)", END], architecture) == [f"{V1_READ} (vmcnt)"]
            assert found_twice(emulator, [load, "vm(0)", use, END], architecture) == []


def test_gfx1250_has_registers_with_ecc(emulator: WaveEmulator) -> None:
    for load in (LOW, HIGH):
        for use in HALVES["stored to LDS"][:2]:
            assert found_twice(emulator, [load, use, "vm(0)", END], "gfx1250") == [f"{V1_READ} (loadcnt)"]
            assert found_twice(emulator, [load, "vm(0)", use, END], "gfx1250") == []
