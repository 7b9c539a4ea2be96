"""Every instruction of memory against its definition: what it reads and writes, which lanes, and what it reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.each_row import each_row
from references.instruction_text import Text, parse
from references.memory_references import (
    ADDRESS,
    AROUND,
    BEYOND,
    CACHES,
    DATA,
    DATA_2,
    RESOURCE,
    RESULT,
    SCALAR_ADDRESS,
    SCALAR_BASE,
    SCALAR_OFFSET,
    SCALAR_RESULT,
    TIMES,
    active,
    has_reference,
    is_refused,
    places,
    put_register,
    reference,
)
from references.wave_emulator import (
    ARCHITECTURES,
    DENORMALS,
    LANES,
    M0,
    PRIVATE_BASE,
    SHARED_BASE,
    WaveEmulator,
    WaveState,
    recorded,
)

FOLDER = Path(__file__).parent.parent / "data" / "instructions"
LINES = [(target, line) for target in ARCHITECTURES for line in recorded(FOLDER, target)]
TESTED = [found for found in LINES if has_reference(found[1])]
REFUSED = [found for found in LINES if is_refused(found[1])]
BY_NAME: dict[str, list[tuple[str, str]]] = {}
for found in TESTED:
    BY_NAME.setdefault(parse(found[1]).base, []).append(found)
NAMES = sorted(BY_NAME)
ROOM = 8192
FORMATS = {(4, 1): 4, (4, 2): 11, (4, 3): 13, (4, 4): 14, (2, 1): 2, (2, 2): 5, (2, 4): 12}
"""BUF_DATA_FORMAT by bytes of a component and their number."""
IN_ORDER = 4 | 5 << 3 | 6 << 6 | 7 << 9
SWIZZLE, BY_LANE = 1 << 31, 1 << 23


def line_of(start: str) -> str:
    return next(line for _, line in LINES if line.startswith(start))


def exchanges(name: str) -> bool:
    return "atomic" in name or (name.startswith("ds_") and not name.startswith(("ds_read", "ds_write")))


def put_pairs(state: WaveState, row: int, values: Any) -> None:
    values = np.asarray(values, np.uint64)
    state.vectors[row], state.vectors[row + 1] = values & np.uint64(0xFFFFFFFF), values >> np.uint64(32)


def state_for(emulator: WaveEmulator, line: str, seed: int) -> WaveState:
    """Each lane's own bytes, with even seeds aligned and in all lanes; atomics share them with seeds from 2."""
    random, text = np.random.default_rng(seed), parse(line)
    state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.scalars[:102] = random.integers(0, 1 << 32, 102, dtype=np.uint32)
    state.lds, state.memory = random.integers(0, 256, (2, ROOM), dtype=np.uint8)
    state.scratch = random.integers(0, 256, (LANES, 256), dtype=np.uint8)
    state.scalars[[M0, SHARED_BASE + 1, PRIVATE_BASE + 1, SCALAR_OFFSET]] = 0x140, 0x10000, 0x20000, 64
    if seed % 2:
        state.exec_mask = int(random.integers(1, 1 << 63)) | 1 << 63
    space, base = text.base.split("_")[0], emulator.memory_address
    place = random.integers(0, 8, LANES) if exchanges(text.base) and seed >= 2 else random.permutation(LANES)
    step = random.integers(0, 4) if seed % 2 and not any(word in line for word in ("atomic", "buffer", "_tr_")) else 0
    step = 0 if space == "ds" and exchanges(text.base) else step
    where = place * (np.uint32(int(line.split(" ")[0][-2:]) // 8) if "st64" in line else 32) + step
    state.vectors[ADDRESS] = where
    state.put_pair(SCALAR_BASE, base + 512)
    state.put_pair(SCALAR_ADDRESS, base + 512)
    if space in ("buffer", "tbuffer"):
        describe_buffer(state, text, line, seed, base + 256, place)
    elif space == "s":
        state.put_pair(RESOURCE, base + 256 | (4 << 48 if seed >= 2 else 0))
        state.scalars[RESOURCE + 2] = (0x40, 512, 10, 512)[seed]
        state.scalars[SCALAR_OFFSET] = 2 if "scratch" in line else 64 + seed
    elif space == "scratch":
        state.vectors[ADDRESS] = random.integers(4, 40, LANES) * 4 + step
    elif space == "flat":
        kinds = random.integers(0, 2 if "atomic" in line else 3, LANES)
        low = np.where(kinds == 2, where % 193, where)
        put_pairs(state, ADDRESS, np.choose(kinds, [low + base, low + (0x10000 << 32), low + (0x20000 << 32)]))
    elif space == "global" and "s[18:19]" not in line:
        put_pairs(state, ADDRESS, where.astype(np.uint64) + np.uint64(base + 512))
    if exchanges(text.base):
        fill_operands(state, text, line, seed, base)
    return state


def describe_buffer(state: WaveState, text: Text, line: str, seed: int, base: int, place: Any) -> None:
    random = np.random.default_rng(seed)
    name, records, stride, flags, more = text.base, ROOM - 1024, 0, 0, IN_ORDER
    if "format" in name:
        size = 2 if "d16" in name else 4
        more |= FORMATS.get((size, len(name.rpartition("_")[2])), 12) << 15 | 7 << 12
    small = not any(word in name for word in ("x2", "x3", "x4", "f64", "format"))
    if text.has("idxen"):
        state.vectors[ADDRESS] = place
        state.vectors[ADDRESS + 1] = random.integers(0, 3, LANES) * 8
        records, stride = 48, 32
        if small and seed >= 2:
            flags, more = SWIZZLE, more | seed << 21
    elif seed == 3 and small and text.has("offen") and "atomic" not in name:
        state.vectors[ADDRESS] = random.integers(0, 7, LANES) * 4
        stride, flags, more = 32, SWIZZLE, more | 2 << 21 | BY_LANE
    elif seed == 2 and "atomic" not in name and text.has("offen"):
        state.vectors[ADDRESS] = random.integers(0, 3, LANES) * 4
        stride, more = 32, more | BY_LANE
    elif text.has("offen"):
        records = (ROOM - 1024, 1044)[seed % 2]
    if " off, s[" in line or " s[8:11], 0 offset:16 lds" in line:
        records = (1024, 16)[seed % 2]
        if "store" in name:  # of all lanes to one place
            state.exec_mask = 1 << 7
    state.put_pair(RESOURCE, base | (stride | flags >> 16) << 48)
    state.scalars[RESOURCE + 2], state.scalars[RESOURCE + 3] = records, more


def fill_operands(state: WaveState, text: Text, line: str, seed: int, base: int) -> None:
    """Floating-point values for sums of these, and what compares equal in every other lane."""
    random, name = np.random.default_rng(seed + 10), text.base
    size = 8 if name.endswith(("x2", "64")) else 4
    kind = name.rpartition("_")[2]
    if kind[0] in "fb" and kind[1:] in ("f16", "16", "32", "64") and kind not in ("b32", "b64"):
        values = (random.standard_normal((3, ROOM // size)) * 10.0 ** random.integers(-3, 3, ROOM // size)).astype(
            f"f{size}" if kind[1:] != "16" and kind[1:] != "f16" else "f4"
        )
        values[:, ::7], values[2, ::5] = 0.0, -0.0
        if kind == "f16":
            values = np.ascontiguousarray(values.astype(np.float16).repeat(2, axis=1))
        elif kind == "bf16":
            values = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16).repeat(2, axis=1)
        state.memory[:], state.lds[:] = values[0].view(np.uint8)[:ROOM], values[1].view(np.uint8)[:ROOM]
        state.vectors[DATA : DATA + size // 4] = values[2].view(np.uint32)[: LANES * size // 4].reshape(LANES, -1).T
    if "cmp" in name:
        for lane in range(0, LANES, 2):
            if name.startswith("ds_"):
                at = int(state.vectors[ADDRESS, lane]) + int(text.modifiers.get("offset", "0"))
                old = int.from_bytes(state.lds[at : at + size].tobytes(), "little")
                put_register(state, DATA, lane, size, old)
            elif not name.startswith("s_"):
                old = places(text, state, lane, base, size, whole=True).get()
                put_register(state, DATA + size // 4, lane, size, old)
        if name.startswith("s_") and seed % 2:
            at = (512 if name.startswith("s_atomic") else 256) + 16
            words = state.memory[at : at + size].view(np.uint32)
            state.scalars[SCALAR_RESULT + size // 4 : SCALAR_RESULT + size // 2] = words


def same(got: WaveState, want: WaveState, line: str) -> None:
    for part in ("vectors", "lds", "memory", "scratch"):
        found, right = getattr(got, part), getattr(want, part)
        wrong = np.argwhere(found != right)
        assert not len(wrong), f"{line}: {part}{wrong[0]}: {found[tuple(wrong[0])]}, not {right[tuple(wrong[0])]}"
    assert np.array_equal(got.scalars[:102], want.scalars[:102]), line


@each_row("name", NAMES)
def test_instruction(emulator: WaveEmulator, name: str) -> None:
    for target, line in BY_NAME[name]:
        for seed in range(4 if "buffer" in name or exchanges(name) else 2):
            state = state_for(emulator, line, seed)
            want = reference(line, state, emulator.memory_address)
            for checked in (False, True):
                same(emulator.run([line], target, state, checked=checked), want, f"{target}: {line}, seed {seed}")


@each_row("text", CACHES)
def test_caches_are_not_modelled(emulator: WaveEmulator, text: str) -> None:
    target, line = next(found for found in LINES if found[1].split(" ")[0] == text.split(" ")[0])
    state = state_for(emulator, line, 0)
    same(emulator.run([line], target, state, checked=True), state, line)


def test_time_goes_on(emulator: WaveEmulator) -> None:
    got = emulator.run([line_of(name) for name in sorted(TIMES, reverse=True)], "gfx942", WaveState())
    assert got.pair(26) > got.pair(24)


@pytest.mark.parametrize(("target", "line"), REFUSED)
def test_refusals(emulator: WaveEmulator, target: str, line: str) -> None:
    emulator.run([line], target, state_for(emulator, line, 0), reports=True)
    assert json.loads(emulator.finding())["kind"] == "unknown-instruction"


PLACED = [name for name in NAMES if name not in ("ds_swizzle_b32", "ds_permute_b32", "ds_bpermute_b32")]
LOADS_AND_STORES = [name for name in PLACED if not exchanges(name) and "ds_wr" not in name.replace("write", "")]
ALIGNED = [
    name for name in PLACED
    if exchanges(name) and name not in ("ds_append", "ds_consume", "ds_condxchg32_rtn_b64")
    and (not name.startswith("s_") or name.endswith("_x2"))
]  # fmt: skip
"""Architectures that do not leave out an address's last bits."""


def told(emulator: WaveEmulator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while text := emulator.finding(len(found)):
        found.append(json.loads(text))
    return found


@each_row("name", PLACED)
def test_beyond_an_allocation(emulator: WaveEmulator, name: str) -> None:
    """The lanes that reach beyond do nothing and are reported; those beside them do what they do."""
    target, line = BY_NAME[name][0]
    for seed, room in ((0, 400), (1, 1280), (1, 528)):
        state = state_for(emulator, line, seed)
        state.memory, state.lds = state.memory[:room].copy(), state.lds[:room].copy()
        state.scratch = state.scratch[:, :64].copy()
        want = reference(line, state, emulator.memory_address)
        for checked in (False, True):
            same(emulator.run([line], target, state, checked=checked, reports=True), want, line)
            findings = told(emulator)
            assert bool(findings) == bool(BEYOND), line
            for finding in findings:
                assert finding["kind"] in ("out-of-bounds-read", "out-of-bounds-write", "lds-out-of-bounds")
                assert finding["lane"] is None or finding["lane"] in active(state)
                address = int(finding["address"] or 0)
                assert (
                    address in BEYOND | {emulator.memory_address + at for at in BEYOND} or "scratch" in finding["note"]
                )


@each_row("name", ALIGNED)
def test_atomics_are_aligned(emulator: WaveEmulator, name: str) -> None:
    target, line = BY_NAME[name][0]
    state = state_for(emulator, line, 0)
    state.vectors[ADDRESS] += np.uint32(2)
    state.scalars[[RESOURCE, SCALAR_BASE]] += np.uint32(4 if name.endswith(("x2", "64")) else 2)
    got = emulator.run([line], target, state, checked=True, reports=True)
    assert {finding["kind"] for finding in told(emulator)} == {"misaligned"}
    assert np.array_equal(got.memory, state.memory)
    assert np.array_equal(got.lds, state.lds)


@each_row("name", LOADS_AND_STORES)
def test_what_is_undefined(emulator: WaveEmulator, name: str) -> None:
    """Undefined bytes travel as values do, so that the reference moves them as well."""
    target, line = BY_NAME[name][0]
    before, wait, _, _, after = (line_of(text) for text in AROUND)
    again = ["ds_read_addtid_b32 v10 offset:16"] if parse(line).has("lds") or "load_lds" in name else []
    again += ["scratch_load_dwordx4 v[10:13], v20, off offset:4 "] if name.startswith("scratch_store") else []
    again += ["ds_read_b128 v[10:13], v20 /"] if name.startswith("ds_write") and "addtid" not in name else []
    again += ["ds_read_addtid_b32 v10 offset:16"] if name == "ds_write_addtid_b32" else []
    lines = [line, *(line_of(text) for text in again)]
    for seed in range(1 if "_tr_" in name else 2):  # what lanes bring that are off is not defined
        state = state_for(emulator, line, seed)
        state.undefined = np.random.default_rng(seed + 5).integers(0, 2, ROOM, dtype=np.uint8).repeat(3)[:ROOM]
        put_pairs(state, 60, np.arange(LANES) * 16 + emulator.memory_address + 6144)
        on = active(state)
        shadow = state.copy()
        shadow.memory, shadow.lds[:], shadow.scratch[:] = state.undefined * np.uint8(255), 255, 255
        shadow.vectors[RESULT : RESULT + 4] = shadow.scalars[SCALAR_RESULT : SCALAR_RESULT + 4, None] = 0
        shadow.vectors[DATA : DATA + 4, on] = shadow.memory[6144:7168].view(np.uint32).reshape(LANES, 4).T[:, on]
        shadow.vectors[DATA_2 : DATA_2 + 4] = 0
        for moved in lines:
            shadow = reference(moved, shadow, emulator.memory_address)
        stored = shadow.memory[7168:].view(np.uint32).reshape(LANES, 4)
        stored[on] = shadow.vectors[RESULT : RESULT + 4].T[on]
        got = emulator.run([before, wait, *(x for each in lines for x in (each, wait)), after], target, state,
                           checked=True, reports=True)  # fmt: skip
        wrong = np.flatnonzero(got.undefined != (shadow.memory != 0))
        assert not len(wrong), f"{line}, seed {seed}: {wrong[:8]}"
        assert {finding["kind"] for finding in told(emulator)} <= {"undefined-value", "write-conflict"}


@each_row("name", [name for name in NAMES if " v10" in BY_NAME[name][-1][1] or "s_" in name[:2]])
def test_results_are_waited_for(emulator: WaveEmulator, name: str) -> None:
    """By the counter that counts them, and by flat instructions in both."""
    target, line = BY_NAME[name][-1]
    state = state_for(emulator, line, 0)
    use = line_of("s_store_dword s24" if name.startswith("s_") else "v_swap_b32 v10, v20")
    both, memory, lds = (line_of(f"{text} //") for text in AROUND[1:4])
    right, wrong = (both, memory) if name.startswith("flat") else (memory, lds)
    if name.startswith(("s_", "ds_")):
        right, wrong = lds, memory
    emulator.run([line, right, use], target, state, checked=True)
    emulator.run([line, wrong, use], target, state, checked=True, reports=True)
    expected = ["missing-wait"] if not name.startswith("s_") or "load" in name or "glc" in line else []
    assert [finding["kind"] for finding in told(emulator)][:1] == expected


def test_denormals(emulator: WaveEmulator) -> None:
    """f32 atomics of memory flush them on gfx90a alone, those of LDS by MODE."""
    line, shared = line_of("global_atomic_add_f32 v20, v30, s[18:19] offset:24"), line_of("ds_add_f32 v20, v30 ")
    for target, mode, small in (("gfx90a", DENORMALS, 0), ("gfx942", DENORMALS, 3), ("gfx942", 0, 3)):
        state = state_for(emulator, line, 0)
        state.mode = mode
        state.memory, state.lds = np.ones((2, ROOM // 4), np.uint32).view(np.uint8)
        state.vectors[DATA] = 2
        got = emulator.run([line, shared], target, state)
        at = np.sort(state.vectors[ADDRESS])
        assert (got.memory.view(np.uint32)[(at + 512 + 24) // 4] == small).all()
        assert (got.lds.view(np.uint32)[at // 4] == (3 if mode else 0)).all()


def test_far_lds(emulator: WaveEmulator) -> None:
    """M0 has more bits where there is more LDS."""
    line = next(
        line for _, line in LINES if line.startswith("buffer_load_dwordx4 v20, s[8:11], s16 offen offset:8 lds")
    )
    state = state_for(emulator, line, 0)
    state.lds, state.scalars[M0] = np.zeros(160 << 10, np.uint8), 100_000
    same(emulator.run([line], "gfx950", state), reference(line, state, emulator.memory_address), line)
