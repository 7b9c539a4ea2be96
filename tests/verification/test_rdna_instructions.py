"""Instructions of gfx1100 that gfx9 lacks; those that only have another name are in test_vector_instructions.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.each_row import each_row
from references.wave_emulator import EXEC, LANES, SCC, VCC, WaveEmulator, WaveState, recorded

ARCH = "gfx1100"
LINES = recorded(Path(__file__).parent.parent / "data" / "instructions", ARCH)
WAVE = 32
Array = NDArray[Any]


def line_of(beginning: str) -> str:
    (found,) = {line for line in LINES if line.startswith(beginning)}
    return found


def random_state(seed: int, lanes: int = WAVE) -> WaveState:
    random = np.random.default_rng(seed)
    state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.scalars[:102] = random.integers(0, 1 << 32, 102, dtype=np.uint32)
    state.put_pair(VCC, int(random.integers(0, 1 << 32)))
    state.exec_mask = (1 << lanes) - 1
    return state


def bits_of(mask: int) -> Array:
    return np.array([mask >> lane & 1 for lane in range(WAVE)], bool)


def test_comparisons_write_one_register(emulator: WaveEmulator) -> None:
    state = random_state(1)
    state.vectors[30, ::3] = state.vectors[20, ::3]
    equal = state.vectors[20, :WAVE] == state.vectors[30, :WAVE]
    after = emulator.run([line_of("v_cmp_eq_u32_e64 s5")], ARCH, state)
    assert np.array_equal(bits_of(int(after.scalars[5])), equal)
    assert after.scalars[6] == state.scalars[6]
    after = emulator.run([line_of("v_cmpx_gt_i32_e64 s20")], ARCH, state, checked=True)
    signed = state.vectors[30, :WAVE].view(np.int32)
    assert np.array_equal(bits_of(after.exec_mask), state.scalars[20].view(np.int32) > signed)
    assert np.array_equal(after.scalars[:EXEC], state.scalars[:EXEC])


@each_row("name", ["and", "or", "xor", "nand", "nor", "xnor", "and_not0", "and_not1", "or_not0", "or_not1"])
def test_saveexec(emulator: WaveEmulator, name: str) -> None:
    state = random_state(2)
    state.exec_mask = 0x0F0F1234
    a, e, ones = int(state.scalars[20]), state.exec_mask, 0xFFFFFFFF
    want = {
        "and": a & e, "or": a | e, "xor": a ^ e, "nand": ~(a & e), "nor": ~(a | e), "xnor": ~(a ^ e),
        "and_not0": ~a & e, "and_not1": a & ~e, "or_not0": ~a | e, "or_not1": a | ~e,
    }[name] & ones  # fmt: skip
    after = emulator.run([line_of(f"s_{name}_saveexec_b32")], ARCH, state, checked=True)
    assert (after.exec_mask, after.scalars[10], after.scalars[11]) == (want, e, state.scalars[11])
    assert after.scalars[SCC] == 1


def test_scalars(emulator: WaveEmulator) -> None:
    state = random_state(3)
    a, b = int(state.scalars[20]), int(state.scalars[21])
    for beginning, want in {
        "s_pack_hl_b32_b16": a >> 16 | (b & 0xFFFF) << 16,
        "s_and_not1_b32": a & ~b,
        "s_clz_i32_u32": 32 - a.bit_length(),
        "s_ctz_i32_b32": (a & -a).bit_length() - 1,
    }.items():
        assert emulator.run([line_of(beginning)], ARCH, state).scalars[10] == want, beginning
    modes = [line_of(name) for name in ("s_round_mode", "s_denorm_mode", "s_getreg_b32")]
    assert emulator.run(modes, ARCH, state).scalars[10] == 0xA0
    nothing = [
        line
        for line in LINES
        if line.startswith(
            ("s_delay", "s_clause", "s_waitcnt", "s_set", "buffer_gl", "v_permlane64", "s_gl1_inv", "s_dcache")
        )
    ]
    assert len(nothing) == 16
    after = emulator.run(nothing, ARCH, state, checked=True)
    assert np.array_equal(after.scalars[:EXEC], state.scalars[:EXEC])
    assert np.array_equal(after.vectors, state.vectors)


def test_dot_products_that_are_rounded_to_bf16(emulator: WaveEmulator) -> None:
    state = random_state(12)
    pairs = np.random.default_rng(12).integers(-8, 9, (3, 2, WAVE)).astype(np.float32)
    for row, (low, high) in zip((20, 30, 40), pairs, strict=True):
        state.vectors[row, :WAVE] = low.view(np.uint32) >> np.uint32(16) | high.view(np.uint32)
    got = emulator.run([line_of("v_dot2_bf16_bf16")], ARCH, state, checked=True).vectors[10, :WAVE]
    (a, b, c), kept = pairs, state.vectors[10, :WAVE] & np.uint32(0xFFFF0000)
    want = (a[0] * b[0] + a[1] * b[1] + c[1]).view(np.uint32) >> np.uint32(16)
    assert np.array_equal(got, kept | want)


def test_pairs_read_before_they_write(emulator: WaveEmulator) -> None:
    state = random_state(4)
    for row in (10, 20, 21, 30, 31):
        state.vectors[row] = np.random.default_rng(row).standard_normal(LANES).astype(np.float32).view(np.uint32)
    before = {row: state.vectors[row, :WAVE].copy() for row in (10, 20, 21, 30, 31)}
    floats = {row: words.view(np.float32) for row, words in before.items()}

    def after(beginning: str) -> tuple[Array, Array]:
        got = emulator.run([line_of(beginning)], ARCH, state, checked=True).vectors
        return got[10, :WAVE], got[21, :WAVE]

    first, second = after("v_dual_mov_b32")
    assert np.array_equal(first, before[21])
    assert np.array_equal(second, before[10])
    first, second = after("v_dual_add_f32")
    assert np.array_equal(first.view(np.float32), floats[20] + floats[30])
    assert np.array_equal(second.view(np.float32), floats[10] * floats[31])
    first, second = after("v_dual_cndmask_b32")
    mask = bits_of(state.pair(VCC))
    assert np.array_equal(first, np.where(mask, before[30], before[20]))
    wide = floats[10].astype(np.float64) * floats[31] + floats[21]
    assert np.allclose(second.view(np.float32), wide, rtol=1e-6)


def test_halves_and_lanes(emulator: WaveEmulator) -> None:
    state = random_state(5)
    old, a, b = (state.vectors[row, :WAVE] for row in (10, 20, 30))
    got = emulator.run([line_of("v_cndmask_b16")], ARCH, state, checked=True).vectors[10, :WAVE]
    half = np.where(bits_of(int(state.scalars[20])), b >> np.uint32(16), a & np.uint32(0xFFFF))
    assert np.array_equal(got, old & np.uint32(0xFFFF) | half << np.uint32(16))
    select = int(state.scalars[20]) | int(state.scalars[21]) << 32
    for name, other in (("v_permlane16", 0), ("v_permlanex16", 16)):
        got = emulator.run([line_of(f"{name}_b32")], ARCH, state).vectors[10, :WAVE]
        assert np.array_equal(got, [a[(lane & 16 ^ other) | select >> 4 * (lane % 16) & 15] for lane in range(WAVE)])
    state.exec_mask = 0xFFFFFF00
    got = emulator.run([line_of("v_mov_b32_dpp")], ARCH, state).vectors[10, :WAVE]
    assert np.array_equal(got[8:16], np.repeat(a[3], 8))  # row_share of a lane that is off, with fi
    assert np.array_equal(got[:8], old[:8])
    state.vectors[30] = np.arange(LANES) % 7
    state.vectors[20] = np.float32(1.5).view(np.uint32)
    state.vectors[20, :WAVE] = np.arange(WAVE).astype(np.float32).view(np.uint32)
    state.vectors[30] = np.float32(0.25).view(np.uint32)
    state.exec_mask = (1 << WAVE) - 1
    got = emulator.run([line_of("v_add_f32_e64_dpp")], ARCH, state).vectors[10, :WAVE].view(np.float32)
    assert np.array_equal(got, (np.arange(WAVE) ^ 5) + 0.25)


def test_halves_of_a_wave_of_64_are_swapped(emulator: WaveEmulator) -> None:
    """By a wave of gfx942, which has 64 lanes, as a single wave of gfx1100 has 32."""
    state = random_state(7, LANES)
    state.exec_mask = 0xFFFF0000FFFFFF00
    want = state.vectors[10].copy()
    on = np.array([state.exec_mask >> lane & 1 for lane in range(LANES)], bool)
    want[on] = np.roll(state.vectors[20], 32)[on]
    got = emulator.run([line_of("v_permlane64_b32")], "gfx942", state).vectors
    assert np.array_equal(got[10], want)


def test_lds(emulator: WaveEmulator) -> None:
    state = random_state(6)
    state.lds = np.random.default_rng(6).integers(0, 256, 512, dtype=np.uint8)
    words = state.lds.view(np.uint32).copy()
    lanes = np.arange(LANES)
    state.vectors[20] = lanes * 4
    wait = line_of("s_waitcnt lgkmcnt(0)")
    got = emulator.run([line_of("ds_load_2addr_b32"), wait], ARCH, state, checked=True).vectors
    assert np.array_equal(got[10, :WAVE], words[:WAVE])
    assert np.array_equal(got[11, :WAVE], words[1 : WAVE + 1])
    state.vectors[40, ::2] = words[:LANES:2]  # what is compared to is the second
    after = emulator.run([line_of("ds_cmpstore_rtn_b32"), wait], ARCH, state)
    assert np.array_equal(after.vectors[10, :WAVE], words[:WAVE])
    stored = np.where(lanes[:WAVE] % 2 == 0, state.vectors[30, :WAVE], words[:WAVE])
    assert np.array_equal(after.lds.view(np.uint32)[:WAVE], stored)
    state.vectors[20] = (lanes + 5) * 4
    got = emulator.run([line_of("ds_bpermute_b32"), wait], ARCH, state).vectors
    assert np.array_equal(got[10, :WAVE], state.vectors[30, (lanes[:WAVE] + 5) % WAVE])


def memory_state(emulator: WaveEmulator) -> WaveState:
    state = random_state(7)
    state.memory = np.random.default_rng(7).integers(0, 256, 1024, dtype=np.uint8)
    addresses = np.uint64(emulator.memory_address) + np.arange(LANES, dtype=np.uint64) * np.uint64(8)
    state.vectors[20], state.vectors[21] = addresses & np.uint64(0xFFFFFFFF), addresses >> np.uint64(32)
    return state


def test_loads_of_16_bits_keep_the_other_half(emulator: WaveEmulator) -> None:
    state = memory_state(emulator)
    loaded = state.memory.view(np.uint16)[: WAVE * 4 : 4].astype(np.uint32)
    low, high = line_of("global_load_d16_b16"), line_of("global_load_d16_hi_b16")
    for lines, want in {
        (low,): state.vectors[10, :WAVE] & np.uint32(0xFFFF0000) | loaded,
        (high,): state.vectors[10, :WAVE] & np.uint32(0xFFFF) | loaded << np.uint32(16),
        (high, low): loaded << np.uint32(16) | loaded,
    }.items():
        got = emulator.run([*lines, line_of("s_waitcnt vmcnt(0)")], ARCH, state, checked=True).vectors
        assert np.array_equal(got[10, :WAVE], want)


def test_stores_are_no_loads_to_wait_for(emulator: WaveEmulator) -> None:
    state = memory_state(emulator)
    load, other, store = line_of("global_load_b32 v10"), line_of("global_load_b32 v11"), line_of("global_store_b32")
    use, one, none = line_of("v_mov_b32_e32 v12"), line_of("s_waitcnt vmcnt(1)"), line_of("s_waitcnt_vmcnt null, 0x0")
    emulator.run([load, other, store, one, use], ARCH, state, checked=True)
    emulator.run([load, store, none, use], ARCH, state, checked=True)
    emulator.run([load, store, one, use], ARCH, state, checked=True, reports=True)
    found = json.loads(emulator.finding())
    assert (found["kind"], "vmcnt" in found["note"]) == ("missing-wait", True)


def test_raw_buffers(emulator: WaveEmulator) -> None:
    """Whose range is tested as that of raw memory; others are refused."""
    random, size = np.random.default_rng(7), 4 * LANES
    state = random_state(7)
    state.memory = random.integers(0, 256, size, dtype=np.uint8)
    state.vectors[20] = 4 * np.arange(LANES)
    state.put_pair(8, emulator.memory_address)
    state.put_pair(10, 64 | 3 << 60)
    state.scalars[16] = 8
    line = line_of("buffer_load_b32 v10, v20, s[8:11], s16 offen offset:4 glc")
    got = emulator.run([line], ARCH, state, checked=True).vectors[10, :WAVE]
    words = np.concatenate([state.memory[:64].view(np.uint32), np.zeros(WAVE, np.uint32)])
    assert np.array_equal(got, words[3 : 3 + WAVE])
    state.scalars[11] = 0
    emulator.run([line], ARCH, state, reports=True)
    assert "not tested as that of raw memory" in json.loads(emulator.finding())["note"]


def test_the_time_arrives_as_a_scalar_load_does(emulator: WaveEmulator) -> None:
    message = line_of("s_sendmsg_rtn_b64")
    assert emulator.run([message], ARCH, random_state(8), checked=True).pair(10) < 10
    emulator.run([message, "s_mov_b32 s12, s10 // 0"], ARCH, random_state(8), checked=True, reports=True)
    assert "lgkmcnt" in json.loads(emulator.finding())["note"]
    emulator.run([line_of("s_sendmsg_rtn_b32")], ARCH, random_state(8), reports=True)
    assert "something else than the time" in json.loads(emulator.finding())["note"]


# ---- WMMA ------------------------------------------------------------------------------------------------------------
# AMD's Matrix Instruction Calculator, gfx1100: A[i][k] and B[k][j] are in lanes i and j, and again 16 lanes on, with k in
# order; D[i][j] is in register i / 2 of lane j + 16 · (i % 2).


def packed(matrix: Array, bits: int) -> NDArray[np.uint32]:
    """A row for each register of 16 lanes' elements, [lane][k]."""
    whole = matrix.astype(np.int64) & ((1 << bits) - 1)
    each = 32 // bits
    words = sum(whole[:, part::each] << bits * part for part in range(each))
    return np.asarray(words, np.int64).astype(np.uint32).T


def put_matrix(state: WaveState, first: int, matrix: Array, bits: int) -> None:
    for register, words in enumerate(packed(matrix, bits)):
        state.vectors[first + register, :WAVE] = np.tile(words, 2)


def result_places(rows: Array) -> Array:
    """[16][16] from eight registers."""
    return np.array([[rows[i // 2, j + 16 * (i % 2)] for j in range(16)] for i in range(16)])


def float_bits(values: Array, brain: bool) -> Array:
    if brain:
        return np.asarray(values.astype(np.float32).view(np.uint32) >> np.uint32(16))
    return np.asarray(values.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("kind", ["f32_16x16x16_f16", "f32_16x16x16_bf16", "f16_16x16x16_f16", "bf16_16x16x16_bf16"])
def test_float_matrices(emulator: WaveEmulator, kind: str) -> None:
    line, random, brain = line_of(f"v_wmma_{kind}"), np.random.default_rng(9), "_bf16" in kind
    state = random_state(9, lanes=7)  # the mask does not count
    a, b, c = (random.integers(-8, 9, (16, 16)) / 4 for _ in range(3))
    put_matrix(state, 20, float_bits(a, brain), 16)
    put_matrix(state, 30, float_bits(b.T, brain), 16)
    narrow, upper = not kind.startswith("f32"), "op_sel" in line
    first = 40 if upper else 50
    for i in range(16):
        for j in range(16):
            place = first + i // 2, j + 16 * (i % 2)
            bits = (
                int(float_bits(c[i : i + 1, j], brain)[0])
                if narrow
                else int(c[i, j].astype(np.float32).view(np.uint32))
            )
            kept = int(state.vectors[place]) & (0xFFFF if upper else 0xFFFF0000) if narrow else 0
            state.vectors[place] = kept | bits << (16 if upper else 0)
    got = emulator.run([line], ARCH, state, checked=True).vectors[40:48]
    want = a @ b + (0 if line.partition(" //")[0].endswith(", 0") else c)
    if narrow:
        shift = np.uint32(16 if upper else 0)
        assert np.array_equal(result_places(got >> shift & np.uint32(0xFFFF)), float_bits(want, brain))
        other = np.uint32(0xFFFF if upper else 0xFFFF0000)
        assert np.array_equal(got[:, :WAVE] & other, state.vectors[40:48, :WAVE] & other)
    else:
        assert np.array_equal(result_places(got.view(np.float32)), want)


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("v_wmma_i32")])
def test_integer_matrices(emulator: WaveEmulator, line: str) -> None:
    random, bits = np.random.default_rng(10), 8 if "iu8" in line else 4
    signs = [int(digit) for digit in line.partition("neg_lo:[")[2][:3:2]]
    a, b = (random.integers(0, 1 << bits, (16, 16)) for _ in range(2))
    c = random.integers(-(1 << 31), 1 << 31, (16, 16))
    state = random_state(10)
    put_matrix(state, 20, a, bits)
    put_matrix(state, 30, b.T, bits)
    for i in range(16):
        for j in range(16):
            state.vectors[50 + i // 2, j + 16 * (i % 2)] = int(c[i, j]) & 0xFFFFFFFF
    signed = [np.where(sign & (m >> (bits - 1)), m - (1 << bits), m) for m, sign in zip((a, b), signs, strict=True)]
    want = signed[0] @ signed[1] + c
    want = np.clip(want, -(1 << 31), (1 << 31) - 1) if "clamp" in line else want
    got = result_places(emulator.run([line], ARCH, state, checked=True).vectors[40:48])
    assert np.array_equal(got, want & 0xFFFFFFFF)


def test_a_matrix_that_is_not_repeated_is_refused(emulator: WaveEmulator) -> None:
    state = random_state(11)
    emulator.run([line_of("v_wmma_f32_16x16x16_f16")], ARCH, state, reports=True)
    assert "do not repeat" in json.loads(emulator.finding())["note"]


@pytest.mark.parametrize(("halves", "shifts"), [(("l", "h"), (0, 16)), (("h", "h"), (16, 16))])
def test_halves_change_places(emulator: WaveEmulator, halves: tuple[str, str], shifts: tuple[int, int]) -> None:
    state = random_state(4)
    name = "v_swap_b16"
    line = line_of(f"{name} v10.{halves[0]}, v20.{halves[1]}")
    after = emulator.run([line], ARCH, state)
    a, b = state.vectors[10, :WAVE], state.vectors[20, :WAVE]
    low, high = (values >> np.uint32(by) & np.uint32(0xFFFF) for values, by in zip((a, b), shifts, strict=True))
    kept = [values & ~np.uint32(0xFFFF << by) for values, by in zip((a, b), shifts, strict=True)]
    assert np.array_equal(after.vectors[10, :WAVE], kept[0] | high << np.uint32(shifts[0]))
    assert np.array_equal(after.vectors[20, :WAVE], kept[1] | low << np.uint32(shifts[1]))
