"""Waits on all paths: what is reported of code that is not executed, and what is not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from references.wave_emulator import ALL_ARCHITECTURES, WaveEmulator

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


@pytest.mark.parametrize("name", EVERYWHERE)
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
