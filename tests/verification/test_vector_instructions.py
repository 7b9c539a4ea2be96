"""Every vector instruction against numpy: ordinary and special values, modifiers, SDWA, DPP, lanes that are off."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.each_row import each_row
from references.instruction_text import Text, exec_lanes, lanes_of, mask_of, parse, put_words, results_of, source_words
from references.rdna_references import OF_GFX12, RDNA, RENAMED, reference_of, usual
from references.vector_references import KEEPING, VECTOR, Reference
from references.wave_emulator import ARCHITECTURES, DENORMALS, EXEC, LANES, VCC, WaveEmulator, WaveState, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"
Array = NDArray[Any]

LINES: dict[str, list[tuple[str, str]]] = {}
for target in ARCHITECTURES:
    for one in recorded(DATA, target):
        LINES.setdefault(parse(one).base, []).append((target, one))

SPECIAL = [0, -0.0, 1, -1, 0.5, 2, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 1.17549435e-38, 3.4028235e38, -3.4028235e38,
           65504, 65520, 1e-7, 255.5, 2147483648.0, -2147483648.0, 4294967296.0, 16777216.0, 0.49999997, 1.5, 2.5]  # fmt: skip
SPECIAL_F64 = np.array([*SPECIAL, 5e-324, 1e-310, 1.7e308, 1e18])
SPECIAL_F32 = np.array(SPECIAL, np.float32).view(np.uint32)
with np.errstate(over="ignore"):
    SPECIAL_F16 = np.array(SPECIAL).astype(np.float16)
SPECIAL_INTEGERS = np.array([0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFF, 0x8000, 0xFFFF, 0x00010000, 31, 32, 63, 64,
                             0x7FFF8000, 0x80007FFF, 0xFF, 0x80, 0x7F, 0x800000, 0x7FFFFF], np.uint32)  # fmt: skip


def words_for(kind: str, random: np.random.Generator, registers: int) -> NDArray[np.uint32]:
    """Return lanes of registers, a row for each: special values, ordinary ones, and bits of any kind."""
    shape = (registers, LANES)
    words = random.integers(0, 1 << 32, shape, dtype=np.uint32)
    some = random.random(shape)

    def special(values: Array, *each: int) -> Array:
        return values[random.integers(0, len(values), (*shape, *each))]

    if kind == "bf16x2":
        ordinary = random.standard_normal((2, *shape)).astype(np.float32).view(np.uint32)
        packed: Array = ordinary[0] >> np.uint32(16) | ordinary[1] & np.uint32(0xFFFF0000)
        return packed
    if kind in ("f32", "s32", "f32x2"):
        ordinary = (random.standard_normal(shape) * 10.0 ** random.integers(-4, 5, shape)).astype(np.float32)
        return np.where(some < 0.3, special(SPECIAL_F32), np.where(some < 0.8, ordinary.view(np.uint32), words))
    if kind in ("f16", "h16", "f16x2"):
        with np.errstate(over="ignore"):
            halves = random.standard_normal((*shape, 2)) * 10.0 ** random.integers(-3, 4, (*shape, 2))
            ordinary = halves.astype(np.float16).view(np.uint32)[..., 0]
        chosen = special(SPECIAL_F16, 2).view(np.uint32)[..., 0]
        return np.where(some < 0.3, chosen, np.where(some < 0.8, ordinary, words))
    small = random.integers(0, 200, shape, dtype=np.uint32)
    return np.where(some < 0.3, special(SPECIAL_INTEGERS), np.where(some < 0.4, small, words))


def doubles(random: np.random.Generator) -> NDArray[np.uint32]:
    """Return lanes of the two registers of a double: special values and ordinary ones."""
    values = random.standard_normal(LANES) * 10.0 ** random.integers(-8, 9, LANES)
    special = SPECIAL_F64[random.integers(0, len(SPECIAL_F64), LANES)]
    return np.where(random.random(LANES) < 0.3, special, values).view(np.uint32).reshape(LANES, 2).T


def state_for(reference: Reference, seed: int) -> WaveState:
    return _state(reference.results[0], reference.sources, "div_scale" in reference.name, seed).copy()


@lru_cache(maxsize=256)
def _state(result: str, sources: tuple[str, ...], scales: bool, seed: int) -> WaveState:
    random = np.random.default_rng(seed)
    state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.scalars[:102] = random.integers(0, 1 << 32, 102, dtype=np.uint32)
    state.put_pair(VCC, int(random.integers(0, 1 << 63)))
    for number, kind in [(-1, result), *enumerate(sources)]:
        words = doubles(random) if kind == "f64" else words_for(kind, random, 5)
        for first in (20 + 10 * number, 276 + 10 * number):
            state.vectors[first : first + min(len(words), 4)] = words[:4]
        if kind not in ("m", "f64") and number >= 0:
            state.scalars[20] = words[4, 0]
    if scales:
        random.shuffle(chosen := np.arange(LANES) % 2 == 0)
        for part in range(2):
            state.vectors[20 + part] = np.where(chosen, state.vectors[30 + part], state.vectors[40 + part])
    if seed % 2:
        state.exec_mask = int(random.integers(0, 1 << 63)) | 1
    return state


def signed_of(words: Array, bits: int) -> Array:
    values = words.astype(np.int64) & ((1 << bits) - 1)
    return values - ((values >> (bits - 1)) << bits)


def source(text: Text, state: WaveState, number: int, kind: str) -> Any:
    """A source's values, with the modifiers of its type."""
    operand = text.operands[number + results_of(text)]
    if kind == "m":
        if operand.kind == "l":
            return lanes_of(int(operand.text, 0))
        return lanes_of(state.pair(operand.index))
    if kind == "f32":
        words = source_words(text, state, number, 0, True)
        return negated(words, operand, 0x80000000).view(np.float32)
    if kind == "s32":
        return negated(source_words(text, state, number, 0, True), operand, 0x80000000).astype(np.int64)
    if kind in ("f16", "h16", "u16", "i16"):
        words = source_words(text, state, number, 0, kind in ("f16", "h16"), 16)
        if text.bits("op_sel")[number] and operand.kind != "l":
            words = words >> np.uint32(16)
        words = negated(words & np.uint32(0xFFFF), operand, 0x8000)
        if kind == "f16":
            return words.astype(np.uint16).view(np.float16).astype(np.float64)
        return signed_of(words, 16) if kind == "i16" else words.astype(np.int64)
    if kind in ("u32", "p16", "p8", "p4"):
        return source_words(text, state, number, 0).astype(np.int64)
    if kind == "i32":
        return signed_of(source_words(text, state, number, 0), 32)
    if kind in ("f64", "u64", "i64"):
        low, high = (source_words(text, state, number, part, kind == "f64", 64) for part in (0, 1))
        high = negated(high, operand, 0x80000000)
        bits = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        return bits.view(np.float64) if kind == "f64" else bits.view(np.int64) if kind == "i64" else bits
    if kind == "u128":
        parts = [source_words(text, state, number, part).astype(object) for part in range(4)]
        return parts[0] | parts[1] << 32 | parts[2] << 64 | parts[3] << 96
    chosen = [text.bits("op_sel")[number], text.bits("op_sel_hi", 1)[number]]
    flips = [text.bits("neg_lo")[number], text.bits("neg_hi")[number]]
    if kind == "f32x2":
        pair = [source_words(text, state, number, half, True) for half in chosen]
        return [np.where(flip, -w.view(np.float32), w.view(np.float32)) for w, flip in zip(pair, flips, strict=True)]
    words = source_words(text, state, number, 0, True, 32)
    if operand.kind == "l" and "." in operand.text and kind == "f16x2":
        words = source_words(text, state, number, 0, True, 16)
    halves = [words >> np.uint32(16 * half) & np.uint32(0xFFFF) for half in chosen]
    halves = [half ^ np.uint32(0x8000 * flip) for half, flip in zip(halves, flips, strict=True)]
    if kind == "f16x2":
        return [half.astype(np.uint16).view(np.float16).astype(np.float64) for half in halves]
    if kind == "bf16x2":
        return [(half << np.uint32(16)).view(np.float32).astype(np.float64) for half in halves]
    return [signed_of(half, 16) if kind == "i16x2" else half.astype(np.int64) for half in halves]


def negated(words: Array, operand: Any, sign: int) -> Array:
    if operand.absolute:
        words = words & np.uint32(0xFFFFFFFF ^ sign)
    return words ^ np.uint32(sign) if operand.negative else words


def old_value(text: Text, state: WaveState, kind: str) -> Any:
    words = state.vectors[text.operands[0].index]
    if kind == "f32":
        return words.view(np.float32)
    if kind == "f16":
        words = words >> np.uint32(16 * text.bits("op_sel")[len(text.operands) - 1])
        return (words & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float64)
    if kind == "f64":
        both = words.astype(np.uint64) | state.vectors[text.operands[0].index + 1].astype(np.uint64) << np.uint64(32)
        return both.view(np.float64)
    if kind == "f16x2":
        halves = [words >> np.uint32(shift) & np.uint32(0xFFFF) for shift in (0, 16)]
        return [half.astype(np.uint16).view(np.float16).astype(np.float64) for half in halves]
    return signed_of(words, 32) if kind == "i32" else words.astype(np.int64)


def output(text: Text, values: Array) -> Array:
    """omod and clamp of floats."""
    if "mul" in text.modifiers:
        values = values * values.dtype.type(text.modifiers["mul"])
    if "div" in text.modifiers:
        values = values / values.dtype.type(2)
    if text.has("clamp"):
        values = np.where(values > 0, np.minimum(values, 1), 0).astype(values.dtype)
    return values


def result_words(text: Text, reference: Reference, kind: str, values: Any) -> list[NDArray[np.uint32]]:
    if kind == "f32":
        return [output(text, np.asarray(values, np.float32)).view(np.uint32)]
    if kind == "f16":
        return [output(text, np.asarray(values, np.float64)).astype(np.float16).view(np.uint16).astype(np.uint32)]
    if kind == "f64":
        bits = output(text, np.asarray(values, np.float64)).view(np.uint64)
        return [(bits >> np.uint64(shift)).astype(np.uint32) for shift in (0, 32)]
    if kind == "f32x2":
        return [output(text, np.asarray(half, np.float32)).view(np.uint32) for half in values]
    if kind == "f16x2":
        low, high = (output(text, half).astype(np.float16).view(np.uint16).astype(np.uint32) for half in values)
        return [low | high << np.uint32(16)]
    if kind.endswith("x2"):
        low, high = (integer(text, reference, kind[:3], half) for half in values)
        return [(low | high << 16).astype(np.uint32)]
    cut, width = integer(text, reference, kind, values), max(int(kind[1:]), 32)
    return [np.array([int(x) >> shift & 0xFFFFFFFF for x in cut], np.uint32) for shift in range(0, width, 32)]


def integer(text: Text, reference: Reference, kind: str, values: Array) -> Array:
    bits = int(kind[1:])
    if text.has("clamp") and reference.clamps:
        low, high = (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        values = np.clip(values, low, high)
    return np.asarray(values) & ((1 << bits) - 1)


def expected_state(text: Text, reference: Reference, state: WaveState) -> WaveState:
    """By the references; the state of the emulator is not looked at."""
    with np.errstate(all="ignore"):
        sources = [source(text, state, n, kind) for n, kind in enumerate(reference.sources)]
        if reference.old:
            sources.append(old_value(text, state, reference.results[0]))
        computed = reference.compute(*sources)
        after = state.copy()
        after.put_pair(EXEC, state.exec_mask)
        values = [computed] if len(reference.results) == 1 else list(computed)
        for number, (kind, value) in enumerate(zip(reference.results, values, strict=True)):
            if kind == "m":
                mask = mask_of(np.asarray(value, bool) & exec_lanes(state))
                after.put_pair(text.operands[number].index, mask)
                if reference.name.startswith("v_cmpx"):
                    after.put_pair(EXEC, mask)
                continue
            words = result_words(text, reference, kind, value)
            if kind in ("f16", "u16", "i16") and not text.sdwa and not text.dpp:
                words = [placed_half(text, reference, state, words[0])]
            for part, row in enumerate(words):
                put_words(text, after, number, part, row)
    return after


def placed_half(text: Text, reference: Reference, state: WaveState, words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    row = state.vectors[text.operands[0].index]
    if text.bits("op_sel")[len(reference.sources)]:
        return np.asarray(row & np.uint32(0xFFFF) | words << np.uint32(16))
    return row & np.uint32(0xFFFF0000) | words if reference.name in KEEPING else words


def close(kind: str, got: Array, want: Array, ulps: int) -> Array:
    """Equal bits, both NaN, or near enough."""
    same = got == want
    with np.errstate(all="ignore"):
        if kind in ("f16", "f16x2"):
            parts = [
                [(words >> np.uint32(s) & np.uint32(0xFFFF)).astype(np.uint16) for words in (got, want)]
                for s in (0, 16)
            ]
            near = [
                near_floats(g.view(np.float16), w.view(np.float16), g.view(np.int16), w.view(np.int16), ulps)
                for g, w in parts
            ]
            return np.asarray(same | near[0] & near[1])
        if kind in ("f32", "f32x2"):
            return np.asarray(
                same
                | near_floats(
                    got.view(np.float32), want.view(np.float32), got.view(np.int32), want.view(np.int32), ulps
                )
            )
        if kind == "f64":
            return np.asarray(
                same
                | near_floats(
                    got.view(np.float64), want.view(np.float64), got.view(np.int64), want.view(np.int64), ulps
                )
            )
    return np.asarray(same)


def near_floats(got: Array, want: Array, got_bits: Array, want_bits: Array, ulps: int) -> Array:
    if ulps < 0:  # of sums, whose order is not told: relative to what one f32 can be off
        near = np.abs(got.astype(np.float64) - want) <= 1e-5 * np.abs(want) + 1e-3
    else:
        near = (np.abs(got_bits.astype(np.int64) - want_bits) <= ulps) if ulps else got_bits == want_bits
    return near | (np.isnan(got) & np.isnan(want))


def check(emulator: WaveEmulator, target: str, line: str, seed: int) -> None:
    text = parse(line)
    reference = VECTOR[text.base]
    state = state_for(reference, seed)
    flushes = "mul" in text.modifiers or "div" in text.modifiers
    state.mode = 0x50 if flushes else DENORMALS  # denormal sources, no denormal results
    want = expected_state(text, reference, state)
    got = emulator.run([line], target, state, checked=seed % 2 == 1)
    for number, kind in enumerate(reference.results):
        if kind == "m":
            continue
        first = text.operands[number].index
        rows = range(first, first + text.operands[number].count)
        if kind == "f64":
            pairs = [
                s.vectors[first].astype(np.uint64) | s.vectors[first + 1].astype(np.uint64) << np.uint64(32)
                for s in (got, want)
            ]
            good = close(kind, pairs[0], pairs[1], reference.ulps)
        else:
            good = np.all([close(kind, got.vectors[row], want.vectors[row], reference.ulps) for row in rows], axis=0)
            if flushes:
                good |= np.abs(want.vectors[first].view(np.float32)) < 1e-37
        bad = np.flatnonzero(~good)
        if bad.size:
            lane = int(bad[0])
            read = [source(text, state, n, k) for n, k in enumerate(reference.sources)]
            values = [r[lane] if isinstance(r, np.ndarray) else [half[lane] for half in r] for r in read]
            found = [[hex(s.vectors[row][lane]) for row in rows] for s in (got, want)]
            pytest.fail(f"{target} {line}: lane {lane} of {values}: {found[0]}, not {found[1]} ({bad.size} lanes)")
        got.vectors[list(rows)] = want.vectors[list(rows)]
    assert np.array_equal(got.vectors, want.vectors), f"{line}: another register has changed"
    changed = np.flatnonzero(got.scalars != want.scalars)
    assert not changed.size, (
        f"{target} {line}: {[(int(n), hex(got.scalars[n]), hex(want.scalars[n])) for n in changed]}"
    )


@each_row("name", sorted(VECTOR))
def test_instruction(emulator: WaveEmulator, name: str) -> None:
    assert LINES.get(name), f"no target has {name}"
    for number, (target, line) in enumerate(LINES[name]):
        for seed in range(4 if number < 2 else 2):
            check(emulator, target, line, 10 * number + seed)


# ---- gfx1100 and gfx1201: waves of 32 lanes, results of 16 bits that keep the other half -----------------------------------------

WAVE = 32
RDNA_APART = (
    "v_swap_b16",
    "v_cmpx",
    "v_dual",
    "v_wmma",
    "v_swmmac",
    "v_dot4_f32",
    "v_s_",
    "fp8",
    "bf8",
    "v_permlane",
    "v_cndmask_b16",
    "v_movrel",
    "v_dot2_bf16_bf16",
    "_dpp ",
    "v_cmp_eq_u32_e64 s5",
    "v_mov_b32_e32 v12",
)
RDNA_LINES = {
    target: [
        line
        for line in recorded(DATA, target)
        if line.startswith("v_") and not any(word in line for word in RDNA_APART)
    ]
    for target in ("gfx1100", "gfx1201")
}


@each_row(("target", "line"), [(target, line) for target, lines in RDNA_LINES.items() for line in lines])
def test_instruction_of_rdna(emulator: WaveEmulator, target: str, line: str) -> None:
    text = usual(line)
    reference = reference_of(text)
    for seed in range(2):
        state = state_for(reference, seed)
        state.exec_mask &= (1 << WAVE) - 1
        state.scalars[VCC + 1] = 0
        want = expected_state(text, reference, state)
        got = emulator.run([line], target, state, checked=seed == 1)
        for number, kind in enumerate(reference.results):
            operand = text.operands[number]
            if kind == "m":
                assert got.scalars[operand.index] == want.scalars[operand.index]
                continue
            rows = range(operand.index, operand.index + operand.count)
            if kind in ("f16", "u16", "i16"):  # the other half is kept
                upper = text.bits("op_sel")[len(reference.sources)]
                kept = state.vectors[operand.index] & np.uint32(0xFFFF if upper else 0xFFFF0000)
                half = want.vectors[operand.index] & np.uint32(0xFFFF0000 if upper else 0xFFFF)
                want.vectors[operand.index] = kept | half
                assert np.array_equal(got.vectors[operand.index] & np.uint32(0xFFFF if upper else 0xFFFF0000), kept)
            if kind == "f64":
                pairs = [s.vectors[rows[0]].astype(np.uint64) | s.vectors[rows[1]].astype(np.uint64) << np.uint64(32)
                         for s in (got, want)]  # fmt: skip
                good = close(kind, pairs[0], pairs[1], reference.ulps)
            else:
                compared = "f16x2" if kind == "f16" else kind
                good = np.all(
                    [close(compared, got.vectors[row], want.vectors[row], reference.ulps) for row in rows], axis=0
                )
            assert good[:WAVE].all(), f"{line}: lanes {np.flatnonzero(~good[:WAVE])}"
            got.vectors[list(rows), :WAVE] = want.vectors[list(rows), :WAVE]
        assert np.array_equal(got.vectors[:, :WAVE], want.vectors[:, :WAVE]), f"{line}: another register has changed"
        assert np.array_equal(got.vectors[:, WAVE:], state.vectors[:, WAVE:]), f"{line}: a lane that there is not"


def test_every_name_is_tried() -> None:
    names = {target: {usual(line).base for line in lines} for target, lines in RDNA_LINES.items()}
    assert set(RDNA) - OF_GFX12 <= names["gfx1100"]
    assert names["gfx1201"] >= OF_GFX12
    assert {name for name in RENAMED if name in VECTOR and "cmpx" not in name} <= names["gfx1100"]
