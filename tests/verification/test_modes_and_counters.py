"""Denormals and output modifiers as MODE says, what counters can hold, loads that are partly out of bounds, and vector
registers by M0."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers.each_row import each_row
from references.wave_emulator import DENORMALS, LANES, M0, WaveEmulator, WaveState

TINY, SMALL = 2.0**-140, 2.0**-120
IEEE = 1 << 9
ALLOWED, SOURCES_ONLY, RESULTS_ONLY, FLUSHED = 0xF0, 0xD0, 0xE0, 0xC0


def floats(**rows: float) -> WaveState:
    state = WaveState()
    for name, value in rows.items():
        state.vectors[int(name[1:])] = np.float32(value).view(np.uint32)
    return state


@each_row("architecture", ["gfx942", "gfx1100"])
@each_row(
    ("line", "a", "b", "source_counts", "result"),
    [
        ("v_add_f32_e32 v10, v20, v30", TINY, 0.0, True, TINY),
        ("v_mul_f32_e32 v10, v20, v30", SMALL, 2.0**-20, False, TINY),
        ("v_mul_f32_e32 v10, v20, v30", TINY, 2.0**100, True, 2.0**-40),
        ("v_max_f32_e32 v10, v20, v30", -TINY, -1.0, True, -TINY),
        ("v_fma_f32 v10, v20, v30, v30", SMALL, 2.0**-20, False, 2.0**-20),
        ("v_fma_mix_f32 v10, v20, v30, v30", TINY, 0.0, True, 0.0),
    ],
)
def test_denormals_are_as_mode_says(
    emulator: WaveEmulator, architecture: str, line: str, a: float, b: float, source_counts: bool, result: float
) -> None:
    denormal = 0 < abs(result) < 2.0**-126
    for mode in (ALLOWED, SOURCES_ONLY, RESULTS_ONLY, FLUSHED):
        state = floats(v20=a, v30=b)
        state.mode = mode
        flushed = (source_counts and not mode & 0x10) or (denormal and not mode & 0x20)
        got = emulator.run([f"{line} // 0"], architecture, state).vectors[10, 0].view(np.float32)
        assert got == (0.0 if flushed else np.float32(result)), hex(mode)
        if flushed:
            assert np.signbit(got) == (a < 0)


def test_comparisons_read_flushed_sources_and_selections_do_not(emulator: WaveEmulator) -> None:
    state = floats(v20=TINY, v30=0.0)
    compare, select = "v_cmp_lt_f32_e64 s[10:11], v30, v20 // 0 0", "v_cndmask_b32_e64 v10, v20, v20, s[10:11] // 0 0"
    for mode, less in ((ALLOWED, True), (FLUSHED, False)):
        state.mode = mode
        after = emulator.run([compare, select], "gfx942", state)
        assert (after.pair(10) != 0) is less
        assert after.vectors[10, 0] == np.float32(TINY).view(np.uint32)


@pytest.mark.parametrize(("mode", "factor"), [(DENORMALS, 1), (FLUSHED, 2), (FLUSHED | IEEE, 1), (SOURCES_ONLY, 2)])
def test_output_modifiers_count_without_denormal_results_and_ieee(
    emulator: WaveEmulator, mode: int, factor: int
) -> None:
    state = floats(v20=1.5, v30=0.25)
    state.mode = mode
    got = emulator.run(["v_add_f32_e64 v10, v20, v30 mul:2 // 0 0"], "gfx942", state).vectors[10, 0]
    assert got.view(np.float32) == 1.75 * factor
    state = floats(v20=-0.0, v30=1.0)
    state.mode = mode
    got = emulator.run(["v_mul_f32_e64 v10, v20, v30 mul:2 // 0 0"], "gfx942", state).vectors[10, 0]
    assert np.signbit(got.view(np.float32)) == (factor == 1)


@pytest.mark.parametrize(
    ("architecture", "counter", "most"),
    [
        ("gfx90a", "lgkm", 15),
        ("gfx942", "lgkm", 15),
        ("gfx950", "vm", 63),
        ("gfx1100", "lgkm", 63),
        ("gfx1100", "vm", 63),
    ],
)
def test_what_a_counter_cannot_count_has_waited(
    emulator: WaveEmulator, architecture: str, counter: str, most: int
) -> None:
    """A load, and then as many as the counter holds: the first has arrived. One fewer, and it may not have."""
    rdna = architecture == "gfx1100"
    lds, memory = ("ds_load_b32", "global_load_b32") if rdna else ("ds_read_b32", "global_load_dword")
    for younger, found in ((most, False), (most - 1, True)):
        state = WaveState(lds=np.zeros(256, np.uint8), memory=np.zeros(1024, np.uint8))
        if rdna:
            state.exec_mask = (1 << 32) - 1
        place = np.full(LANES, emulator.memory_address, np.uint64)
        state.vectors[20:22] = place.view(np.uint32).reshape(LANES, 2).T
        state.vectors[22] = np.arange(LANES) * 4
        load = [f"{lds} v{{}}, v22 // 0 0" if counter == "lgkm" else f"{memory} v{{}}, v[20:21], off // 0 0"][0]
        lines = [load.format(10), *[load.format(11)] * younger, "v_mov_b32_e32 v12, v10 // 0"]
        emulator.run(lines, architecture, state, checked=True, reports=True)
        assert ("missing-wait" in emulator.finding()) is found, younger


@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_what_is_there_of_a_load_arrives(emulator: WaveEmulator, architecture: str) -> None:
    words = np.arange(1, 7, dtype=np.uint32) * np.uint32(0x01010101)
    state = WaveState(memory=words.view(np.uint8).copy())
    state.exec_mask = 3
    place = np.full(LANES, emulator.memory_address, np.uint64)
    place[1] += 16
    state.vectors[20:22] = place.view(np.uint32).reshape(LANES, 2).T
    name = "global_load_b128" if architecture == "gfx1100" else "global_load_dwordx4"
    after = emulator.run([f"{name} v[10:13], v[20:21], off // 0 0"], architecture, state, checked=True, reports=True)
    assert after.vectors[10:14, :2].T.tolist() == [words[:4].tolist(), [*words[4:].tolist(), 0, 0]]
    found = json.loads(emulator.finding())
    assert (found["kind"], found["lane"], found["bytes"]) == ("out-of-bounds-read", 1, 16)


def test_what_is_there_for_a_store_is_written(emulator: WaveEmulator) -> None:
    state = WaveState(memory=np.zeros(24, np.uint8), undefined=np.ones(24, np.uint8))
    state.exec_mask = 1
    state.vectors[20:22] = np.full(LANES, emulator.memory_address + 16, np.uint64).view(np.uint32).reshape(LANES, 2).T
    state.vectors[10:14] = 0x04030201
    line = "global_store_dwordx4 v[20:21], v[10:13], off // 0 0"
    after = emulator.run([line], "gfx942", state, checked=True, reports=True)
    assert after.memory.tolist() == [0] * 16 + [1, 2, 3, 4] * 2
    assert after.undefined.tolist() == [1] * 16 + [0] * 8
    assert json.loads(emulator.finding())["kind"] == "out-of-bounds-write"


@pytest.mark.parametrize(
    ("name", "m0", "result", "source"),
    [("movreld", 3, 13, 20), ("movrels", 4, 10, 24), ("movrelsd", 5, 15, 25), ("movrelsd_2", 2 << 16 | 7, 12, 27)],
)
def test_vector_registers_by_m0(emulator: WaveEmulator, name: str, m0: int, result: int, source: int) -> None:
    state = WaveState(np.random.default_rng(1).integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.exec_mask = 0xFF
    state.scalars[M0] = m0
    after = emulator.run([f"v_{name}_b32_e32 v10, v20 // 0"], "gfx1100", state, checked=True)
    want = state.vectors.copy()
    want[result, :8] = want[source, :8]
    assert np.array_equal(after.vectors, want)
    state.scalars[M0] = 300 | 300 << 16
    emulator.run([f"v_{name}_b32_e32 v10, v20 // 0"], "gfx1100", state, checked=True, reports=True)
    assert "beyond the vector registers" in json.loads(emulator.finding())["note"]
