"""Instructions of gfx1201 that gfx1100 lacks: scalar floats, counters by kind, barriers in two parts, WMMA with other
layouts, SWMMAC, small scalar loads, buffers; and those of gfx1250. Vector instructions with references are in test_vector_instructions.py."""

from __future__ import annotations

import json
import operator
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.each_row import each_row
from references.vector_references import VECTOR
from references.wave_emulator import EXEC, LANES, M0, SCC, WaveEmulator, WaveState, recorded

ARCH = "gfx1201"
LINES = recorded(Path(__file__).parent.parent / "data" / "instructions", ARCH)
WIDE = "gfx1250"
WIDE_LINES = recorded(Path(__file__).parent.parent / "data" / "instructions", WIDE)
WAVE = 32
Array = NDArray[Any]
SINGLES = np.array(
    [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800000, 0x3F000001, 0x7F7FFFFF,
     0x7F800000, 0xFF800000, 0x7FC00000, 0x4F000000, 0xCF000001, 0x4F800000, 0xC0490FDB, 0x33800000], np.uint32
)  # fmt: skip
HALVES = np.array(
    [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x3555, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xC248]
)


def line_of(beginning: str) -> str:
    (found,) = {line for line in LINES if line.startswith(beginning)}
    return found


def random_state(seed: int) -> WaveState:
    random = np.random.default_rng(seed)
    state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.scalars[:102] = random.integers(0, 1 << 32, 102, dtype=np.uint32)
    state.exec_mask = (1 << WAVE) - 1
    return state


def with_scalars(**values: int) -> WaveState:
    state = random_state(1)
    for name, value in values.items():
        state.scalars[int(name[1:])] = value
    return state


# ---- Scalar floats ---------------------------------------------------------------------------------------------------


def smaller(a: Any, b: Any) -> Any:
    if np.isnan(a) or np.isnan(b):
        return b if np.isnan(a) else a
    return (a if np.signbit(a) else b) if a == b else min(a, b)


def larger(a: Any, b: Any) -> Any:
    return -smaller(-a, -b)


def propagating(choose: Any) -> Any:
    return lambda a, b: a if np.isnan(a) else b if np.isnan(b) else choose(a, b)


BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min_num": smaller, "max_num": larger,
    "minimum": propagating(smaller), "maximum": propagating(larger),
}  # fmt: skip
UNARY = {"ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "rndne": np.rint}


def same(bits: int, want: Any, kind: str) -> bool:
    float_type, word = (np.float32, np.uint32) if kind == "f32" else (np.float16, np.uint16)
    got = np.array([bits], np.uint32).astype(word).view(float_type)[0]
    with np.errstate(all="ignore"):
        wanted = float_type(want)
    return bool((np.isnan(got) and np.isnan(wanted)) or got.view(word) == wanted.view(word))


@each_row("kind", ["f32", "f16"])
@each_row("name", [*BINARY, *UNARY])
def test_scalar_floats(emulator: WaveEmulator, name: str, kind: str) -> None:
    line = line_of(f"s_{name}_{kind} s10, s20" + (", s21" if name in BINARY else ""))
    values = SINGLES.view(np.float32) if kind == "f32" else HALVES.astype(np.uint16).view(np.float16)
    word = np.uint32 if kind == "f32" else np.uint16
    for a, b in product(values, values if name in BINARY else values[:1]):
        state = with_scalars(s20=int(a.view(word)), s21=int(b.view(word)))
        with np.errstate(all="ignore"):
            want = BINARY[name](a, b) if name in BINARY else UNARY[name](a)
        got = int(emulator.run([line], ARCH, state).scalars[10])
        assert same(got, want, kind), (line, a, b, hex(got))


def test_scalar_floats_flush_as_mode_says(emulator: WaveEmulator) -> None:
    line = line_of("s_mul_f32 s10, s20, s21")
    tiny, small, large = (int(np.float32(x).view(np.uint32)) for x in (2.0**-130, 2.0**-120, 2.0**100))
    for mode, from_tiny, to_tiny in (
        (0xF0, 2.0**-30, 2.0**-140),
        (0xC0, 0, 0),
        (0xD0, 2.0**-30, 0),
        (0xE0, 0, 2.0**-140),
    ):
        for a, b, want in ((tiny, large, from_tiny), (small, int(np.float32(2.0**-20).view(np.uint32)), to_tiny)):
            state = with_scalars(s20=a, s21=b)
            state.mode = mode
            assert emulator.run([line], ARCH, state).scalars[10].view(np.float32) == np.float32(want), hex(mode)


def test_fused_scalars_round_once(emulator: WaveEmulator) -> None:
    random = np.random.default_rng(2)
    for _ in range(40):
        a, b, c = (np.float32(x) for x in random.standard_normal(3))
        state = with_scalars(**{f"s{n}": int(x.view(np.uint32)) for n, x in ((20, a), (21, b), (10, c))})
        pi = float(np.uint32(0x40490FDB).view(np.float32))
        for beginning, want in {
            "s_fmac_f32": float(a) * float(b) + float(c),
            "s_fmamk_f32": float(a) * pi + float(b),
            "s_fmaak_f32": float(a) * float(b) + pi,
        }.items():
            got = emulator.run([line_of(beginning)], ARCH, state).scalars[10].view(np.float32)
            assert abs(float(got) - want) <= np.spacing(np.float32(abs(want)) or np.float32(1e-30)), beginning
        halves = random.integers(0, 0x7C00, 3).astype(np.uint16)
        state = with_scalars(s20=int(halves[0]), s21=int(halves[1]), s10=int(halves[2]))
        wide = [np.array([h], np.uint16).view(np.float16).astype(np.float64) for h in halves]
        with np.errstate(all="ignore"):
            half = np.asarray(VECTOR["v_fma_f16"].compute(*wide)).astype(np.float16)
        assert int(emulator.run([line_of("s_fmac_f16")], ARCH, state).scalars[10]) == int(half.view(np.uint16)[0])


def test_scalar_conversions(emulator: WaveEmulator) -> None:
    def run(beginning: str, a: int, b: int = 0) -> int:
        return int(emulator.run([line_of(beginning)], ARCH, with_scalars(s20=a, s21=b)).scalars[10])

    for bits in SINGLES:
        x = float(bits.view(np.float32))
        cut = 0 if np.isnan(x) else int(np.clip(np.trunc(x), -(1 << 31), (1 << 31) - 1)) if np.isfinite(x) else 0
        if np.isinf(x):
            cut = (1 << 31) - 1 if x > 0 else -(1 << 31)
        assert run("s_cvt_i32_f32", int(bits)) == cut & 0xFFFFFFFF
        unsigned = 0 if np.isnan(x) or x <= 0 else 0xFFFFFFFF if x >= 2.0**32 else int(x)
        assert run("s_cvt_u32_f32", int(bits)) == unsigned
        with np.errstate(all="ignore"):
            assert same(run("s_cvt_f16_f32", int(bits)), np.float16(bits.view(np.float32)), "f16")
    for bits in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x01000001):
        assert same(run("s_cvt_f32_u32", bits), np.float32(bits), "f32")
        assert same(run("s_cvt_f32_i32", bits), np.float32(np.uint32(bits).view(np.int32)), "f32")
    for half in HALVES:
        want = np.array([half], np.uint16).view(np.float16)[0]
        assert same(run("s_cvt_f32_f16", int(half)), want, "f32")
        assert same(run("s_cvt_hi_f32_f16", int(half) << 16 | 0x1234), want, "f32")
    third, large = (int(np.float32(x).view(np.uint32)) for x in (1 / 3, -70000.0))
    assert run("s_cvt_pk_rtz", third, large) == 0x3555 | 0xFBFF << 16


@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_scalar_comparisons(emulator: WaveEmulator, kind: str) -> None:
    def opposite(test: Any) -> Any:
        return lambda a, b: not test(a, b)

    ordered: dict[str, Any] = {
        "lt": operator.lt,
        "eq": operator.eq,
        "le": operator.le,
        "gt": operator.gt,
        "ge": operator.ge,
    }
    tests: dict[str, Any] = {
        **ordered, "lg": lambda a, b: a < b or a > b, "o": lambda a, b: a == a and b == b,
        "u": lambda a, b: a != a or b != b, "neq": operator.ne, "nlg": lambda a, b: not (a < b or a > b),
        **{f"n{name}": opposite(test) for name, test in ordered.items() if name != "eq"},
    }  # fmt: skip
    values = SINGLES.view(np.float32) if kind == "f32" else HALVES.astype(np.uint16).view(np.float16)
    word = np.uint32 if kind == "f32" else np.uint16
    assert len(tests) == 14
    for name, test in tests.items():
        line = line_of(f"s_cmp_{name}_{kind}")
        for a, b in product(values[::2], values[1::3]):
            state = with_scalars(s20=int(a.view(word)), s21=int(b.view(word)))
            assert emulator.run([line], ARCH, state).scalars[SCC] == int(test(a, b)), (line, a, b)


@pytest.mark.parametrize("name", ["exp", "log", "rcp", "rsq", "sqrt"])
def test_transcendental_functions_of_scalars(emulator: WaveEmulator, name: str) -> None:
    functions: dict[str, Any] = {
        "exp": np.exp2, "log": np.log2, "rcp": lambda x: 1 / x, "rsq": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt,
    }  # fmt: skip
    for kind, values in (("f32", [0.5, 2.0, 3.0, np.inf, np.nan]), ("f16", [0.5, 2.0, 3.0])):
        for x in values:
            float_type, word = (np.float32, np.uint32) if kind == "f32" else (np.float16, np.uint16)
            state = with_scalars(s20=int(float_type(x).view(word)))
            got = np.array(
                [emulator.run([line_of(f"v_s_{name}_{kind} s10, s20 //")], ARCH, state).scalars[10]], np.uint32
            )
            with np.errstate(all="ignore"):
                assert np.allclose(
                    got.astype(word).view(float_type)[0], functions[name](float_type(x)), rtol=1e-3, equal_nan=True
                )
    state = with_scalars(s20=int(np.float32(3).view(np.uint32)))
    assert emulator.run([line_of("v_s_exp_f32 s10, -|s20|")], ARCH, state).scalars[10].view(np.float32) == 0.125
    state.scalars[20] = np.float32(0.25).view(np.uint32)
    assert emulator.run([line_of("v_s_rcp_f32 s10, s20 clamp")], ARCH, state).scalars[10].view(np.float32) == 1


def test_wide_scalars(emulator: WaveEmulator) -> None:
    state = random_state(3)
    a, b, ones = state.pair(20), state.pair(22), (1 << 64) - 1
    for beginning, want in {
        "s_add_nc_u64": a + b, "s_sub_nc_u64": a - b, "s_mul_u64 s[10:11], s[20:21], s[22:23]": a * b,
        "s_mul_u64 s[10:11], s[20:21], -3": a * -3,
    }.items():  # fmt: skip
        after = emulator.run([line_of(beginning)], ARCH, state, checked=True)
        assert (after.pair(10), after.scalars[SCC]) == (want & ones, state.scalars[SCC]), beginning
    state.scalars[SCC] = 1
    low, other = int(state.scalars[20]), int(state.scalars[21])
    for beginning, want in {
        "s_add_co_u32": low + other, "s_add_co_ci_u32": low + other + 1, "s_sub_co_u32": low - other,
        "s_sub_co_ci_u32": low - other - 1, "s_add_co_i32": low + other, "s_sub_co_i32": low - other,
    }.items():  # fmt: skip
        after = emulator.run([line_of(beginning)], ARCH, state)
        assert after.scalars[10] == want & 0xFFFFFFFF, beginning
        if beginning.endswith("u32"):
            assert after.scalars[SCC] == (want >> 32 != 0), beginning
    after = emulator.run([line_of("s_addk_co_i32")], ARCH, state)
    assert after.scalars[10] == (int(state.scalars[10]) + 0x1234) & 0xFFFFFFFF


# ---- Waits and barriers ------------------------------------------------------------------------------------------------


def memory_state(emulator: WaveEmulator, size: int = 512) -> WaveState:
    state = WaveState(
        memory=np.random.default_rng(4).integers(0, 256, size, dtype=np.uint8), lds=np.zeros(512, np.uint8)
    )
    state.exec_mask = (1 << WAVE) - 1
    place = emulator.memory_address + np.arange(LANES, dtype=np.uint64) % WAVE * 4 + 8
    state.vectors[20:22] = place.view(np.uint32).reshape(LANES, 2).T
    state.put_pair(20, emulator.memory_address)
    return state


VECTOR_LOAD, LDS_LOAD = "global_load_b32 v10, v[20:21], off", "ds_load_b32 v10, v20"
SCALAR_LOAD = "s_load_b32 s10, s[20:21], 0x8"


@each_row(
    ("load", "wait", "found"),
    [
        (VECTOR_LOAD, "", "loadcnt"), (VECTOR_LOAD, "s_wait_loadcnt 0x0", ""), (VECTOR_LOAD, "s_wait_dscnt 0x0", "loadcnt"),
        (VECTOR_LOAD, "s_wait_loadcnt 0x1", "loadcnt"), (VECTOR_LOAD, "s_wait_loadcnt_dscnt 0x1", ""),
        (VECTOR_LOAD, "s_wait_loadcnt_dscnt 0x100", "loadcnt"), (VECTOR_LOAD, "s_wait_idle", ""),
        (LDS_LOAD, "", "dscnt"), (LDS_LOAD, "s_wait_dscnt 0x0", ""), (LDS_LOAD, "s_wait_loadcnt 0x0", "dscnt"),
        (LDS_LOAD, "s_wait_loadcnt_dscnt 0x100", ""), (LDS_LOAD, "s_wait_storecnt_dscnt 0x0", ""),
        (LDS_LOAD, "s_wait_kmcnt 0x0", "dscnt"), (LDS_LOAD, "s_wait_idle", ""),
        (SCALAR_LOAD, "", "kmcnt"), (SCALAR_LOAD, "s_wait_kmcnt 0x0", ""), (SCALAR_LOAD, "s_wait_dscnt 0x0", "kmcnt"),
        (SCALAR_LOAD, "s_wait_idle", ""),
    ],
)  # fmt: skip
def test_each_counter_waits_for_its_own(emulator: WaveEmulator, load: str, wait: str, found: str) -> None:
    state = memory_state(emulator)
    if load == LDS_LOAD:
        state.vectors[20] = np.arange(LANES) % WAVE * 4
    first = line_of(f"{load} //")
    use = line_of("s_mov_b32 s12, s10" if load == SCALAR_LOAD else "v_mov_b32_e32 v12, v10")
    waits = [line_of(f"{wait} //")] if wait else []
    emulator.run([first, *waits, use], ARCH, state, checked=True, reports=True)
    assert f"({found})" in emulator.finding() if found else emulator.finding() == ""


def test_an_invalidation_counts_and_a_store_does_not(emulator: WaveEmulator) -> None:
    first, use = line_of("global_load_b32 v11, v[20:21], off "), line_of("v_mov_b32_e32 v12, v10").replace("v10", "v11")
    for between, missing in (("global_inv", False), ("global_store_b32", True), ("global_wb ", True)):
        lines = [first, line_of(between), line_of("s_wait_loadcnt 0x1"), use]
        emulator.run(lines, ARCH, memory_state(emulator), checked=True, reports=True)
        assert ("missing-wait" in emulator.finding()) is missing, between


def test_barriers_in_two_parts(emulator: WaveEmulator) -> None:
    for beginning, scc in (("s_barrier_signal -1", 0), ("s_barrier_signal_isfirst", 1)):
        after = emulator.run([line_of(beginning), line_of("s_barrier_wait")], ARCH, random_state(5), checked=True)
        assert after.scalars[SCC] == scc
    emulator.run([line_of("s_barrier_signal m0")], ARCH, random_state(5), reports=True)
    assert "a barrier other than the workgroup's" in json.loads(emulator.finding())["note"]


def test_what_changes_nothing(emulator: WaveEmulator) -> None:
    state = random_state(6)
    beginnings = ("s_wait_", "s_sleep_var", "s_prefetch", "s_buffer_prefetch", "global_wb", "global_inv")
    nothing = [line for line in LINES if line.startswith(beginnings)]
    assert len(nothing) == 23
    after = emulator.run(nothing, ARCH, state, checked=True)
    assert np.array_equal(after.scalars[:EXEC], state.scalars[:EXEC])
    assert np.array_equal(after.vectors, state.vectors)


def test_the_time_is_told(emulator: WaveEmulator) -> None:
    message, cycles = line_of("s_sendmsg_rtn_b64"), line_of("s_getreg_b32")
    wait, use = line_of("s_wait_kmcnt 0x0"), line_of("s_mov_b32 s12, s10")
    assert emulator.run([cycles, message, wait, use], ARCH, random_state(7), checked=True).pair(10) < 100
    emulator.run([message, use], ARCH, random_state(7), checked=True, reports=True)
    assert "kmcnt" in emulator.finding()


# ---- Memory ------------------------------------------------------------------------------------------------------------


def test_small_scalar_loads(emulator: WaveEmulator) -> None:
    state = memory_state(emulator)
    state.memory[6:8] = (0x91, 0xA2)
    for name, want in (("u8", 0x91), ("i8", 0xFFFFFF91), ("u16", 0xA291), ("i16", 0xFFFFA291)):
        assert emulator.run([line_of(f"s_load_{name}")], ARCH, state, checked=True).scalars[10] == want
    words = state.memory.view(np.uint32)
    after = emulator.run([line_of("s_load_b96")], ARCH, state, checked=True)
    assert np.array_equal(after.scalars[12:15], words[2:5])
    state.scalars[16] = 16
    assert emulator.run([line_of("s_load_b64")], ARCH, state, checked=True).pair(10) == int(
        state.memory[24:32].view(np.uint64)[0]
    )


RAW = 3 << 28


def buffer_state(emulator: WaveEmulator, records: int, flags: int = RAW) -> WaveState:
    state = memory_state(emulator)
    state.put_pair(8, emulator.memory_address)
    state.put_pair(10, records | flags << 32)
    state.scalars[16] = 4
    state.vectors[20] = np.arange(LANES) % WAVE * 4
    state.vectors[30:34] = np.random.default_rng(8).integers(0, 1 << 32, (4, LANES), dtype=np.uint32)
    return state


def test_buffers_end_where_their_descriptor_says(emulator: WaveEmulator) -> None:
    state = buffer_state(emulator, records=64)
    padded = np.concatenate([state.memory[:64], np.zeros(512, np.uint8)])
    at = np.arange(WAVE) * 4
    kinds = {
        "u8": (1, np.uint8),
        "i8": (1, np.int8),
        "u16": (2, np.uint16),
        "i16": (2, np.int16),
        "b32": (4, np.uint32),
    }
    for name, (size, kind) in kinds.items():  # with s16 and offset:8
        line = line_of(f"buffer_load_{name} v10, v20, s[8:11], s16 offen offset:8")
        got = emulator.run([line], ARCH, state, checked=True).vectors[10, :WAVE]
        values = [int(padded[place : place + size].view(kind)[0]) & 0xFFFFFFFF for place in at + 12]
        assert got.tolist() == values, name
    got = emulator.run([line_of("buffer_load_b128")], ARCH, state, checked=True).vectors[10:14, :WAVE]
    assert np.array_equal(got.T, [padded[place : place + 16].view(np.uint32) for place in at])
    got = emulator.run([line_of("buffer_load_b32 v10, off")], ARCH, state, checked=True).vectors[10, :WAVE]
    assert (got == padded[4:8].view(np.uint32)[0]).all()
    old = state.vectors[10, :WAVE]
    half = np.array([padded[place : place + 2].view(np.uint16)[0] for place in at], np.uint32)
    got = emulator.run([line_of("buffer_load_d16_b16")], ARCH, state, checked=True).vectors[10, :WAVE]
    assert np.array_equal(got, old & np.uint32(0xFFFF0000) | half)
    got = emulator.run([line_of("buffer_load_d16_hi_b16")], ARCH, state, checked=True).vectors[10, :WAVE]
    assert np.array_equal(got, old & np.uint32(0xFFFF) | half << np.uint32(16))
    after = emulator.run([line_of("buffer_store_b32")], ARCH, state, checked=True)
    assert np.array_equal(after.memory[:64].view(np.uint32), state.vectors[30, :16])
    assert np.array_equal(after.memory[64:], state.memory[64:])
    state.exec_mask = 0x00001001
    after = emulator.run([line_of("buffer_store_b128")], ARCH, state, checked=True)
    assert np.array_equal(after.memory[48:64].view(np.uint32), state.vectors[30:34, 12])
    after = emulator.run([line_of("buffer_atomic_add_u32")], ARCH, state, checked=True)
    assert after.vectors[30, 12] == state.memory[48:52].view(np.uint32)[0]
    assert (
        after.memory[48:52].view(np.uint32)[0] == (int(state.vectors[30, 12]) + int(after.vectors[30, 12])) & 0xFFFFFFFF
    )
    for name, want in (("u8", 0x91), ("i8", 0xFFFFFF91), ("u16", 0xA291), ("i16", 0xFFFFA291)):
        state.memory[6:8] = (0x91, 0xA2)
        assert emulator.run([line_of(f"s_buffer_load_{name}")], ARCH, state, checked=True).scalars[24] == want
    words = state.memory.view(np.uint32)
    assert np.array_equal(emulator.run([line_of("s_buffer_load_b96")], ARCH, state).scalars[24:27], words[2:5])


@pytest.mark.parametrize(
    ("beginning", "flags", "why"),
    [
        ("buffer_load_b32 v10, v20, s[8:11], null idxen", RAW, "an index into a buffer"),
        ("buffer_load_b128", 0, "not tested as that of raw memory"),
        ("buffer_load_b128", RAW | 1 << 23, "a swizzled buffer"),
    ],
)
def test_other_buffers_are_refused(emulator: WaveEmulator, beginning: str, flags: int, why: str) -> None:
    emulator.run([line_of(beginning)], ARCH, buffer_state(emulator, 64, flags), reports=True)
    assert why in json.loads(emulator.finding())["note"]


def as_float(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def as_bits(value: Any) -> int:
    return int(np.float32(value).view(np.uint32))


def packed_sum(a: int, b: int, brain: bool) -> int:
    def widened(bits: int) -> Any:
        return as_float(bits << 16) if brain else np.uint16(bits).view(np.float16)

    halves = [widened(a >> shift & 0xFFFF) + widened(b >> shift & 0xFFFF) for shift in (0, 16)]
    words = [as_bits(x) >> 16 if brain else int(np.float16(x).view(np.uint16)) for x in halves]
    return words[0] | words[1] << 16


ATOMICS: dict[str, Any] = {
    "add_u32": lambda old, data: old + data, "sub_u32": lambda old, data: old - data,
    "min_i32": lambda old, data: min(old, data, key=lambda x: x - (x >> 31 << 32)), "max_u32": max,
    "and_b32": operator.and_, "or_b32": operator.or_, "xor_b32": operator.xor, "swap_b32": lambda _old, data: data,
    "inc_u32": lambda old, data: 0 if old >= data else old + 1,
    "dec_u32": lambda old, data: data if old == 0 or old > data else old - 1,
    "sub_clamp_u32": lambda old, data: max(old - data, 0), "cond_sub_u32": lambda old, data: old - data if old >= data else old,
    "add_f32": lambda old, data: as_bits(as_float(old) + as_float(data)),
    "min_num_f32": lambda old, data: as_bits(smaller(as_float(old), as_float(data))),
    "max_num_f32": lambda old, data: as_bits(larger(as_float(old), as_float(data))),
    "pk_add_f16": lambda old, data: packed_sum(old, data, brain=False),
    "pk_add_bf16": lambda old, data: packed_sum(old, data, brain=True),
}  # fmt: skip


def atomic_values(name: str, seed: int) -> Array:
    random = np.random.default_rng(seed)
    if name.startswith("pk_add"):
        small = random.integers(-8, 9, (WAVE, 2)).astype(np.float16 if name.endswith("_f16") else np.float32)
        bits = small.view(np.uint16) if name.endswith("_f16") else small.view(np.uint32) >> np.uint32(16)
        return np.asarray(bits[:, 0].astype(np.uint32) | bits[:, 1].astype(np.uint32) << np.uint32(16))
    if "f32" in name:
        return random.standard_normal(WAVE).astype(np.float32).view(np.uint32)
    return random.integers(0, 1 << 32, WAVE, dtype=np.uint32)


@each_row("name", list(ATOMICS))
def test_atomics_return_with_a_temporal_hint(emulator: WaveEmulator, name: str) -> None:
    state = memory_state(emulator)
    old, data = atomic_values(name, 9), atomic_values(name, 10)
    data[::5] = old[::5]
    state.memory[8 : 8 + 4 * WAVE] = old.view(np.uint8)
    state.vectors[30, :WAVE] = data
    after = emulator.run([line_of(f"global_atomic_{name} v10")], ARCH, state, checked=True)
    assert np.array_equal(after.vectors[10, :WAVE], old)
    want = [ATOMICS[name](int(a), int(b)) & 0xFFFFFFFF for a, b in zip(old, data, strict=True)]
    assert after.memory[8 : 8 + 4 * WAVE].view(np.uint32).tolist() == want


def test_wide_and_flat_atomics(emulator: WaveEmulator) -> None:
    state = memory_state(emulator)
    state.vectors[31] = state.vectors[30] = 5
    state.exec_mask = 1
    before = state.memory[8:16].copy()
    after = emulator.run([line_of("global_atomic_add_u64")], ARCH, state, checked=True)
    assert int(after.vectors[10, 0]) | int(after.vectors[11, 0]) << 32 == before.view(np.uint64)[0]
    assert after.memory[8:16].view(np.uint64)[0] == before.view(np.uint64)[0] + np.uint64(5 << 32 | 5)
    for beginning in ("global_atomic_add_u32 v[20:21]", "flat_atomic_add_u32"):
        after = emulator.run([line_of(beginning)], ARCH, state, checked=True)
        assert after.memory[8:12].view(np.uint32)[0] == before[:4].view(np.uint32)[0] + np.uint32(5)
    state.vectors[31, 0] = before[:4].view(np.uint32)[0]
    after = emulator.run([line_of("global_atomic_cmpswap_b32")], ARCH, state, checked=True)
    assert (after.vectors[10, 0], after.memory[8:12].view(np.uint32)[0]) == (state.vectors[31, 0], 5)


def test_lds(emulator: WaveEmulator) -> None:
    state = memory_state(emulator)
    state.vectors[20] = np.arange(LANES) % WAVE * 4
    for name in ("cond_sub_rtn_u32", "sub_clamp_rtn_u32", "max_num_rtn_f32", "pk_add_rtn_f16", "add_rtn_u32"):
        plain = name.replace("_rtn", "")
        old, data = atomic_values(plain, 11), atomic_values(plain, 12)
        state.lds[: 4 * WAVE] = old.view(np.uint8)
        state.vectors[30, :WAVE] = data
        after = emulator.run([line_of(f"ds_{name}")], ARCH, state)
        want = [ATOMICS[plain](int(a), int(b)) & 0xFFFFFFFF for a, b in zip(old, data, strict=True)]
        assert after.lds[: 4 * WAVE].view(np.uint32).tolist() == want, name
        assert np.array_equal(after.vectors[10, :WAVE], old)
        if "sub" in name:
            after = emulator.run([line_of(f"ds_{plain}")], ARCH, state)
            assert after.lds[: 4 * WAVE].view(np.uint32).tolist() == want
    state.vectors[20] = 4 * ((np.arange(LANES) * 7) % WAVE)
    state.exec_mask = 0x0000FFFF
    source = state.vectors[20, :16] // 4
    for name, seen in (("bpermute_b32", source < 16), ("bpermute_fi_b32", source < WAVE)):
        after = emulator.run([line_of(f"ds_{name}")], ARCH, state)
        assert np.array_equal(after.vectors[10, :16], np.where(seen, state.vectors[30, source], 0)), name


def test_a_transposing_load(emulator: WaveEmulator) -> None:
    """Lane j of eight gets element j of each of them."""
    state = memory_state(emulator, 1024)
    place = emulator.memory_address + np.arange(LANES, dtype=np.uint64) % WAVE * 16
    state.vectors[20:22] = place.view(np.uint32).reshape(LANES, 2).T
    elements = state.memory[: 16 * WAVE].view(np.uint16).reshape(WAVE // 8, 8, 8)
    line = line_of("global_load_tr_b128")
    after = emulator.run([line], ARCH, state, checked=True)
    got = after.vectors[10:14, :WAVE].T.copy().view(np.uint16).reshape(WAVE // 8, 8, 8)
    assert np.array_equal(got, elements.transpose(0, 2, 1))
    state.undefined = np.zeros(1024, np.uint8)
    state.undefined[2:4] = 1  # element 1 of lane 0: that of lane 1
    store = line_of("global_store_b32").replace("v30", "v10")
    for lane, found in ((1, True), (0, False), (8, False)):
        narrowed = [line, line_of("s_wait_loadcnt 0x0"), f"s_mov_b32 exec_lo, {1 << lane:#x} // 0", store]
        emulator.run(narrowed, ARCH, state, checked=True, reports=True)
        assert ("undefined-value" in emulator.finding()) is found, lane
    state.exec_mask = 1
    emulator.run([line], ARCH, state, reports=True)
    assert "lanes that are off" in emulator.finding()


def test_permutations_by_a_register(emulator: WaveEmulator) -> None:
    state = random_state(13)
    select = state.vectors[30, :WAVE] & np.uint32(15)
    for name, other in (("v_permlane16_var", 0), ("v_permlanex16_var", 16)):
        got = emulator.run([line_of(name)], ARCH, state).vectors[10, :WAVE]
        assert np.array_equal(got, state.vectors[20, (np.arange(WAVE) & 16 ^ other) | select]), name


# ---- Floats of 8 bits: E4M3 and E5M2 of OCP ------------------------------------------------------------------------------


def small_float(bits: int, kind: str) -> float:
    mantissa = 3 if kind == "fp8" else 2
    bias = 7 if kind == "fp8" else 15
    exponent, fraction = bits >> mantissa & (0x7F >> mantissa), bits & ((1 << mantissa) - 1)
    sign = -1.0 if bits & 0x80 else 1.0
    if kind == "fp8" and bits & 0x7F == 0x7F:
        return float("nan")
    if kind == "bf8" and exponent == 31:
        return sign * float("inf") if fraction == 0 else float("nan")
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - mantissa)
    return sign * (1 + fraction / (1 << mantissa)) * 2.0 ** (exponent - bias)


@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_small_floats(emulator: WaveEmulator, kind: str) -> None:
    state = random_state(14)
    state.vectors[20, :WAVE] = np.arange(WAVE, dtype=np.uint32) * np.uint32(0x08080808) + np.uint32(0x07020100)
    words = state.vectors[20, :WAVE].copy()

    def values(shift: int) -> Array:
        return np.array([small_float(int(word) >> shift & 255, kind) for word in words], np.float32)

    def floats(beginning: str, row: int = 10) -> Array:
        return emulator.run([line_of(beginning)], ARCH, state, checked=True).vectors[row, :WAVE].view(np.float32)

    assert np.array_equal(floats(f"v_cvt_f32_{kind}_e32"), values(0), equal_nan=True)
    for byte in range(1, 4):
        assert np.array_equal(
            floats(f"v_cvt_f32_{kind}_e64 v10, v20 byte_sel:{byte}"), values(8 * byte), equal_nan=True
        )
    for suffix, shift in (("_e32", 0), ("_e64", 16)):
        for row in (10, 11):
            got = floats(f"v_cvt_pk_f32_{kind}{suffix}", row)
            assert np.array_equal(got, values(shift + 8 * (row - 10)), equal_nan=True)
    state.vectors[20, :WAVE] = values(0).view(np.uint32)  # what is exact stays what it is
    state.vectors[30, :WAVE] = values(8).view(np.uint32)
    finite = np.isfinite(values(0)) & np.isfinite(values(8))
    old = state.vectors[10, :WAVE]
    pair = words & np.uint32(0xFFFF)
    for half, want in (
        ("", old & np.uint32(0xFFFF0000) | pair),
        (" op_sel:[0,0,1]", old & np.uint32(0xFFFF) | pair << np.uint32(16)),
    ):
        got = emulator.run([line_of(f"v_cvt_pk_{kind}_f32 v10, v20, v30{half} //")], ARCH, state).vectors[10, :WAVE]
        assert np.array_equal(got[finite], want[finite])
    for byte in range(4):
        suffix = f" byte_sel:{byte} //" if byte else " //"
        got = emulator.run([line_of(f"v_cvt_sr_{kind}_f32 v10, v20, v30{suffix}")], ARCH, state).vectors[10, :WAVE]
        kept = old & np.uint32(0xFFFFFFFF ^ (255 << 8 * byte))
        assert np.array_equal(got[finite], (kept | (words & np.uint32(255)) << np.uint32(8 * byte))[finite])


@pytest.mark.parametrize(("a", "b"), list(product(("fp8", "bf8"), ("fp8", "bf8"))))
def test_dot_products_of_small_floats(emulator: WaveEmulator, a: str, b: str) -> None:
    state = random_state(15)
    random = np.random.default_rng(15)
    codes = random.integers(0x20, 0x40, (2, WAVE, 4)) | random.integers(0, 2, (2, WAVE, 4)) << 7
    for row, bytes_of in zip((20, 30), codes, strict=True):
        state.vectors[row, :WAVE] = bytes_of.astype(np.uint8).view(np.uint32)[:, 0]
    state.vectors[40, :WAVE] = random.standard_normal(WAVE).astype(np.float32).view(np.uint32)
    want = [
        sum(small_float(int(x), a) * small_float(int(y), b) for x, y in zip(xs, ys, strict=True))
        for xs, ys in zip(*codes, strict=True)
    ]
    got = emulator.run([line_of(f"v_dot4_f32_{a}_{b}")], ARCH, state, checked=True).vectors[10, :WAVE].view(np.float32)
    assert np.allclose(got, np.array(want) + state.vectors[40, :WAVE].view(np.float32), rtol=1e-5, atol=1e-6)


# ---- Matrices ------------------------------------------------------------------------------------------------------------
# AMD's Matrix Instruction Calculator, gfx1201: a lane has elements of row l % 16 of A and column l % 16 of B; D[i][j] is
# in register i % 8 of lane j + 16 · (i / 8), two rows of 16 bits to a register.

WIDTHS = {"f16": 16, "bf16": 16, "fp8": 8, "bf8": 8, "iu8": 8, "iu4": 4}


def value_of(bits: int, kind: str, signed: bool = False) -> float:
    if kind == "f16":
        return float(np.array([bits], np.uint16).view(np.float16)[0])
    if kind == "bf16":
        return float(as_float(bits << 16))
    if kind in ("fp8", "bf8"):
        return small_float(bits, kind)
    return float(bits - (1 << WIDTHS[kind]) if signed and bits >> (WIDTHS[kind] - 1) else bits)


def code_of(value: int, kind: str) -> int:
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    if kind == "bf16":
        return as_bits(value) >> 16
    if kind in ("fp8", "bf8"):
        return next(code for code in range(256) if small_float(code, kind) == value)
    return value & ((1 << WIDTHS[kind]) - 1)


def put_elements(state: WaveState, first: int, codes: Array, kind: str) -> None:
    """Codes are [lane][element]."""
    width = WIDTHS[kind]
    for word in range(codes.shape[1] * width // 32):
        part = codes[:, word * 32 // width : (word + 1) * 32 // width].astype(np.uint64)
        state.vectors[first + word, :WAVE] = np.sum(
            [part[:, n] << np.uint64(n * width) for n in range(32 // width)], axis=0
        ).astype(np.uint32)


def matrices(state: WaveState, a: str, b: str, elements: tuple[int, int], seed: int) -> tuple[Array, Array]:
    """Small whole numbers in both; the values of what is in the registers, [lane][element]."""
    random, both = np.random.default_rng(seed), []
    for first, kind, count in ((20, a, elements[0]), (30, b, elements[1])):
        low, high = (0, 1 << WIDTHS[kind]) if kind.startswith("iu") else (-4, 5)
        numbers = random.integers(low, high, (WAVE, count))
        codes = np.vectorize(lambda x, kind=kind: code_of(int(x), kind))(numbers)
        put_elements(state, first, codes, kind)
        both.append(codes)
    return both[0], both[1]


def result_of(vectors: Array, narrow: bool) -> Array:
    """[16][16] words, or halves."""
    rows = []
    for i in range(16):
        register = vectors[40 + (i % 8 // 2 if narrow else i % 8), i // 8 * 16 : i // 8 * 16 + 16]
        rows.append(register >> np.uint32(16 * (i % 2)) & np.uint32(0xFFFF) if narrow else register)
    return np.array(rows)


def put_addend(state: WaveState, first: int, words: Array, narrow: bool) -> None:
    for i in range(16):
        lanes = slice(i // 8 * 16, i // 8 * 16 + 16)
        if narrow:
            shift, row = np.uint32(16 * (i % 2)), first + i % 8 // 2
            state.vectors[row, lanes] = (
                state.vectors[row, lanes] & ~(np.uint32(0xFFFF) << shift) | words[i].astype(np.uint32) << shift
            )
        else:
            state.vectors[first + i % 8, lanes] = words[i]


@each_row(
    ("target", "line"),
    [
        (target, line)
        for target, lines in ((ARCH, LINES), (WIDE, WIDE_LINES))
        for line in lines
        if line.startswith(("v_wmma", "v_swmmac"))
    ],
)
def test_matrices(emulator: WaveEmulator, target: str, line: str) -> None:
    text = line.partition("//")[0]
    name = text.split()[0].removeprefix("v_")
    sparse, kinds = name.startswith("swmmac"), name.split("_")[3:]
    result, depth, a_kind, b_kind = name.split("_")[1], int(name.split("x")[2].split("_")[0]), kinds[0], kinds[-1]
    narrow, integer = result in ("f16", "bf16"), result == "i32"
    signs = [int(bit) for bit in text.partition("neg_lo:[")[2][:3:2]] or [0, 0]
    highs = [int(bit) for bit in text.partition("neg_hi:[")[2][:3:2]] or [0, 0]
    state = random_state(16)
    state.exec_mask = 0xFF  # the mask does not count
    per_lane = depth // 2
    a_codes, b_codes = matrices(state, a_kind, b_kind, (per_lane // (2 if sparse else 1), per_lane), 16)
    random = np.random.default_rng(17)
    c = random.integers(-(1 << 31), 1 << 31, (16, 16)) if integer else random.integers(-9, 10, (16, 16))
    if integer:
        words = c & 0xFFFFFFFF
    elif narrow:
        words = np.vectorize(lambda x: code_of(int(x), result))(c)
    else:
        words = c.astype(np.float32).view(np.uint32)
    put_addend(state, 40 if sparse else 50, words, narrow)
    if ", 1.0" in text:
        c = np.ones((16, 16), int)
    values = []
    for codes, kind, low, high in ((a_codes, a_kind, signs[0], highs[0]), (b_codes, b_kind, signs[1], highs[1])):
        decoded = np.vectorize(lambda x, kind=kind, low=low: value_of(int(x), kind, bool(low)))(codes)
        if not integer:
            decoded[:, ::2] *= -1 if low else 1
            decoded[:, 1::2] *= -1 if high else 1
        values.append(decoded)
    key = 16 if "index_key:1" in text else 0
    want = c.astype(np.float64)
    for i, j, half in product(range(16), range(16), (0, 16)):
        row, column = values[0][i + half], values[1][j + half]
        if sparse:
            indices = int(state.vectors[60, i + half]) >> key
            column = np.array([column[n // 2 * 4 + (indices >> 2 * n & 3)] for n in range(len(row))])
        want[i, j] += float(row @ column)
    got = result_of(emulator.run([line], target, state, checked=True).vectors, narrow)
    if integer:
        limited = np.clip(want, -(1 << 31), (1 << 31) - 1) if "clamp" in text else want
        assert np.array_equal(got, limited.astype(np.int64) & 0xFFFFFFFF)
    elif narrow:
        assert np.array_equal(np.vectorize(lambda x: value_of(int(x), result))(got), want)
    else:
        assert np.array_equal(got.view(np.float32), want)


def test_undefined_rows_and_columns_of_a_product(emulator: WaveEmulator) -> None:
    """One lane of A makes a row undefined, one of B a column."""
    line, load = (
        line_of("v_wmma_f32_16x16x16_f16 v[40:47], v[20:23], v[30:33], v[50:57]"),
        "global_load_b32 v{}, v[60:61], off // 0 0",
    )
    for register, lane in ((21, 5), (32, 27)):
        state = memory_state(emulator)
        state.vectors[60:62] = state.vectors[20:22]
        state.vectors[20:60] = 0
        state.undefined = np.zeros(512, np.uint8)
        state.undefined[8 + 4 * lane] = 1
        state.memory[8 : 8 + 4 * WAVE] = 0
        for i, j in ((5, 3), (6, 3), (12, 11), (3, 11)):
            store = f"global_store_b32 v[60:61], v{40 + i % 8}, off // 0 0"
            mask = f"s_mov_b32 exec_lo, {1 << (j + i // 8 * 16):#x} // 0"
            program = [load.format(register), "s_wait_loadcnt 0x0 // BFC00000", line, mask, store]
            emulator.run(program, ARCH, state, checked=True, reports=True)
            expected = i == lane if register < 30 else j == lane % 16
            assert ("undefined-value" in emulator.finding()) is expected, (register, i, j)


def test_m0_is_no_barrier(emulator: WaveEmulator) -> None:
    state = random_state(18)
    state.scalars[M0] = 0
    emulator.run([line_of("s_barrier_signal m0")], ARCH, state, reports=True)
    assert json.loads(emulator.finding())["kind"] == "unknown-instruction"


# ---- gfx1250: sums of 64 bits, bf16, more registers, offsets that are scaled -------------------------------------------------


def wide_line(beginning: str) -> str:
    (found,) = {line for line in WIDE_LINES if line.startswith(beginning)}
    return found


def pairs_of(state: WaveState, row: int) -> list[int]:
    return [int(low) | int(high) << 32 for low, high in zip(*state.vectors[row : row + 2, :WAVE], strict=True)]


def signed(value: int, bits: int = 64) -> int:
    return value - (value >> (bits - 1) << bits)


def test_wide_vectors(emulator: WaveEmulator) -> None:
    state = random_state(19)
    a, b, c = pairs_of(state, 20), pairs_of(state, 30), pairs_of(state, 40)
    low = [[int(x) for x in state.vectors[row, :WAVE]] for row in (20, 30, 40)]
    every = range(WAVE)
    want: dict[str, list[int]] = {
        "v_add_nc_u64": [a[n] + b[n] for n in every], "v_sub_nc_u64": [a[n] - b[n] for n in every],
        "v_mul_u64": [a[n] * b[n] for n in every], "v_min_u64": [min(a[n], b[n]) for n in every],
        "v_max_u64": [max(a[n], b[n]) for n in every], "v_min_i64": [min(a[n], b[n], key=signed) for n in every],
        "v_max_i64": [max(a[n], b[n], key=signed) for n in every],
        "v_mad_nc_u64_u32": [low[0][n] * low[1][n] + c[n] for n in every],
        "v_mad_nc_i64_i32": [signed(low[0][n], 32) * signed(low[1][n], 32) + c[n] for n in every],
    }  # fmt: skip
    for name, values in want.items():
        got = emulator.run([wide_line(name)], WIDE, state, checked=True)
        assert pairs_of(got, 10) == [value & (1 << 64) - 1 for value in values], name
    sums = emulator.run([wide_line("v_mad_u32")], WIDE, state, checked=True).vectors[10, :WAVE]
    assert sums.tolist() == [low[0][n] * low[1][n] + low[2][n] & 0xFFFFFFFF for n in every]
    pair = emulator.run([wide_line("v_dual_mov_b32")], WIDE, state, checked=True).vectors
    assert np.array_equal(pair[10, :WAVE], state.vectors[20, :WAVE] ^ state.vectors[30, :WAVE])
    assert np.array_equal(pair[11, :WAVE], state.vectors[20, :WAVE])


def test_sums_of_doubles_with_a_constant(emulator: WaveEmulator) -> None:
    state = random_state(20)
    values = np.random.default_rng(20).standard_normal((2, LANES))
    for row, doubles in zip((20, 30), values, strict=True):
        state.vectors[row : row + 2] = doubles.view(np.uint32).reshape(LANES, 2).T
    for name, want in (("v_fmamk_f64", values[0] * 2 + values[1]), ("v_fmaak_f64", values[0] * values[1] + 2)):
        got = emulator.run([wide_line(name)], WIDE, state, checked=True)
        assert np.allclose(np.array(pairs_of(got, 10), np.uint64).view(np.float64), want[:WAVE], rtol=1e-14)
    whole = "v_add_f64_e64 v[10:11], v[20:21], 0x400921fb54442d18 // 0 0"
    got = emulator.run([whole], WIDE, state)
    assert np.array_equal(np.array(pairs_of(got, 10), np.uint64).view(np.float64), values[0, :WAVE] + np.pi)


def test_brain_floats(emulator: WaveEmulator) -> None:
    state = random_state(21)
    numbers = np.random.default_rng(21).integers(-8, 9, (3, 2, LANES)).astype(np.float32)  # low and high halves
    for row, (low, high) in zip((20, 30, 40), numbers, strict=True):
        state.vectors[row] = low.view(np.uint32) >> np.uint32(16) | high.view(np.uint32)
    a, b, c = numbers[:, :, :WAVE]
    packed = {"add": a + b, "mul": a * b, "min_num": np.minimum(a, b), "max_num": np.maximum(a, b), "fma": a * b + c}
    for name, (low, high) in packed.items():
        got = emulator.run([wide_line(f"v_pk_{name}_bf16")], WIDE, state, checked=True).vectors[10, :WAVE]
        halves = (got << np.uint32(16)).view(np.float32), (got & np.uint32(0xFFFF0000)).view(np.float32)
        assert np.array_equal(halves[0], low), name
        assert np.array_equal(halves[1], high), name
    single = state.copy()
    single.vectors[40] = numbers[2, 0].view(np.uint32)
    got = emulator.run([wide_line("v_fma_mix_f32_bf16")], WIDE, single, checked=True).vectors[10, :WAVE]
    assert np.array_equal(got.view(np.float32), a[1] * b[0] + c[0])
    single = state.copy()
    single.vectors[30] = numbers[1, 0].view(np.uint32)
    for name, shift in (("mixlo", 16), ("mixhi", 0)):
        got = emulator.run([wide_line(f"v_fma_{name}_bf16")], WIDE, single, checked=True).vectors[10, :WAVE]
        half = (got << np.uint32(shift) & np.uint32(0xFFFF0000)).view(np.float32)
        assert np.array_equal(half, a[0] * b[0] + c[0]), name


def test_hyperbolic_tangents(emulator: WaveEmulator) -> None:
    state = random_state(22)
    values = np.linspace(-4, 4, LANES)
    state.vectors[20] = values.astype(np.float32).view(np.uint32)
    got = emulator.run([wide_line("v_tanh_f32")], WIDE, state).vectors[10, :WAVE].view(np.float32)
    assert np.allclose(got, np.tanh(values[:WAVE]), rtol=1e-6)
    state.vectors[20] = values.astype(np.float16).view(np.uint16)
    got = emulator.run([wide_line("v_tanh_f16")], WIDE, state).vectors[10, :WAVE].astype(np.uint16).view(np.float16)
    assert np.allclose(got, np.tanh(values[:WAVE].astype(np.float16)), rtol=2e-3)


def test_registers_beyond_256(emulator: WaveEmulator) -> None:
    """As the disassembler tells them in a comment."""
    state = random_state(23)
    lines = [line for line in WIDE_LINES if line.startswith(("s_set_vgpr_msb", "v_mov_b32"))]
    after = emulator.run(lines, WIDE, state, checked=True)
    for row in (299, 10):
        assert np.array_equal(after.vectors[row, :WAVE], state.vectors[20, :WAVE])
    assert np.array_equal(after.vectors[43], state.vectors[43])


def test_offsets_in_units_of_what_is_accessed(emulator: WaveEmulator) -> None:
    state = memory_state(emulator)
    words = state.memory.view(np.uint32)
    state.vectors[20] = np.arange(LANES) % WAVE
    got = emulator.run([wide_line("global_load_b32")], WIDE, state, checked=True).vectors[10, :WAVE]
    assert np.array_equal(got, words[2 : 2 + WAVE])
    got = emulator.run([wide_line("flat_load_b32")], WIDE, state, checked=True).vectors[10, :WAVE]
    assert np.array_equal(got, words[:WAVE])
    state.scalars[16] = 5
    assert emulator.run([wide_line("s_load_b32")], WIDE, state, checked=True).scalars[10] == words[7]


def test_waits_and_hints_of_gfx1250_change_nothing(emulator: WaveEmulator) -> None:
    state = random_state(24)  # whose addresses are no memory's
    lines = [line for line in WIDE_LINES if re.match(r"s_wait|s_setreg_imm32_b32|\w+_prefetch_b8", line)]
    after = emulator.run([*lines, wide_line("s_get_pc_i64")], WIDE, state, checked=True)
    assert np.array_equal(after.vectors, state.vectors)
    assert len(lines) == 7
    assert after.pair(10) == 60
