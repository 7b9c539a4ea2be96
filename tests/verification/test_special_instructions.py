"""Vector instructions that no formula of one lane describes: lanes that move, small floats, mixed formats, divisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.each_row import each_row
from references.instruction_lists import DIVISION_F64
from references.instruction_text import exec_lanes, parse
from references.vector_references import VALUES, bfloat_bits, fma, half_of, small_code, small_codes, width_of
from references.wave_emulator import ARCHITECTURES, FP16_OVFL, LANES, VCC, WaveEmulator, WaveState, Words, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"
LINES = [(target, line) for target in ARCHITECTURES for line in recorded(DATA, target)]
Array = NDArray[Any]


def named(name: str) -> list[tuple[str, str]]:
    found = [(target, line) for target, line in LINES if parse(line).base == name]
    assert found, name
    return found


def random_state(seed: int) -> WaveState:
    random = np.random.default_rng(seed)
    state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.scalars[:102] = random.integers(0, 1 << 32, 102, dtype=np.uint32)
    state.exec_mask = int(random.integers(1, 1 << 63)) if seed % 2 else state.exec_mask
    return state


def put_floats(state: WaveState, rows: list[int], seed: int, low: int = -3, high: int = 3) -> None:
    """f32's around one, and some that are special."""
    random = np.random.default_rng(seed)
    for row in rows:
        values = (random.standard_normal(LANES) * 10.0 ** random.integers(low, high, LANES)).astype(np.float32)
        values[:7] = [0, -0.0, np.inf, -np.inf, np.nan, 3e38, 1e-40]
        state.vectors[row] = random.permutation(values).view(np.uint32)


def merged(state: WaveState, row: int, words: Array) -> Words:
    """A result in the lanes of EXEC."""
    return np.where(exec_lanes(state), words.astype(np.uint32), state.vectors[row])


def test_lanes_to_scalars(emulator: WaveEmulator) -> None:
    for seed in range(4):
        state = random_state(seed)
        first = int(np.flatnonzero(exec_lanes(state))[0])
        ((target, line),) = named("v_readfirstlane_b32")
        assert emulator.run([line], target, state).scalars[10] == state.vectors[20, first]
        for target, line in named("v_readlane_b32"):
            lane = 5 if line.split(" //")[0].endswith("5") else int(state.scalars[21]) & 63
            assert emulator.run([line], target, state).scalars[10] == state.vectors[20, lane]
        for target, line in named("v_writelane_b32"):
            constant = "-3" in line
            want = state.vectors.copy()
            want[10, 63 if constant else int(state.scalars[21]) & 63] = 0xFFFFFFFD if constant else state.scalars[20]
            assert np.array_equal(emulator.run([line], target, state).vectors, want)


@pytest.mark.parametrize(
    ("name", "width"), [("v_permlane32_swap_b32", 32), ("v_permlane16_swap_b32", 16), ("v_swap_b32", 0)]
)
def test_swaps(emulator: WaveEmulator, name: str, width: int) -> None:
    for seed in range(4):
        state = random_state(seed)
        ((target, line),) = named(name)
        a, b = state.vectors[10].copy(), state.vectors[20].copy()
        if width:
            a, b = a.reshape(-1, width), b.reshape(-1, width)
            a[1::2], b[0::2] = b[0::2].copy(), a[1::2].copy()
        else:
            a, b = b, a
        got = emulator.run([line], target, state)
        assert np.array_equal(got.vectors[10], merged(state, 10, a.reshape(-1)))
        assert np.array_equal(got.vectors[20], merged(state, 20, b.reshape(-1)))


def test_packed_moves(emulator: WaveEmulator) -> None:
    for seed, (target, line) in enumerate(named("v_pk_mov_b32")):
        state, text = random_state(seed), parse(line)
        got, (first, second, *_) = emulator.run([line], target, state), text.bits("op_sel")
        assert np.array_equal(got.vectors[10], merged(state, 10, state.vectors[20 + first]))
        assert np.array_equal(got.vectors[11], merged(state, 11, state.vectors[30 + second]))


def test_nop(emulator: WaveEmulator) -> None:
    state = random_state(0)
    ((target, line),) = named("v_nop")
    assert np.array_equal(emulator.run([line], target, state).vectors, state.vectors)


@pytest.mark.parametrize("name", ["v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"])
def test_mixed_formats(emulator: WaveEmulator, name: str) -> None:
    for number, (target, line) in enumerate(named(name)):
        state, text = random_state(number), parse(line)
        put_floats(state, [20, 30, 40], number)
        values = []
        for source, operand in enumerate(text.operands[1:]):
            words = state.vectors[operand.index]
            if text.bits("op_sel_hi")[source]:  # f16, of either half
                half = words >> np.uint32(16 * text.bits("op_sel")[source]) & np.uint32(0xFFFF)
                with np.errstate(invalid="ignore"):  # signalling NaN
                    value = half_of(half).astype(np.float32)
            else:
                value = words.view(np.float32)
            value = np.abs(value) if operand.absolute else value
            values.append(-value if operand.negative else value)
        with np.errstate(all="ignore"):
            total = fma(*values)
            if text.has("clamp"):
                total = np.where(total > 0, np.minimum(total, 1), 0).astype(np.float32)
            got = emulator.run([line], target, state).vectors[10]
            lanes = exec_lanes(state)
            if name == "v_fma_mix_f32":
                same = (got == total.view(np.uint32)) | (np.isnan(got.view(np.float32)) & np.isnan(total))
            else:
                shift = 16 if "hi" in name else 0
                half = (got >> np.uint32(shift) & np.uint32(0xFFFF)).astype(np.uint16)
                want = total.astype(np.float16)
                same = (half == want.view(np.uint16)) | (np.isnan(half.view(np.float16)) & np.isnan(want))
                kept = np.uint32(0xFFFF << 16 - shift)
                same &= (got & kept) == (state.vectors[10] & kept)
        assert same[lanes].all(), (line, np.flatnonzero(~same & lanes))
        assert np.array_equal(got[~lanes], state.vectors[10][~lanes])


@pytest.mark.parametrize("name", ["v_bitop3_b32", "v_bitop3_b16"])
def test_truth_tables(emulator: WaveEmulator, name: str) -> None:
    for seed, (target, line) in enumerate(named(name)):
        state, text = random_state(seed), parse(line)
        table, width = int(text.modifiers["bitop3"], 0), int(name[-2:])
        sources = [state.vectors[row].astype(np.int64) for row in (20, 30, 40)]
        if width == 16:
            sources = [s >> 16 * bit & 0xFFFF for s, bit in zip(sources, text.bits("op_sel"), strict=False)]
        want = np.zeros(LANES, np.int64)
        for bit in range(width):
            a, b, c = (s >> bit & 1 for s in sources)
            want |= (table >> (a << 2 | b << 1 | c) & 1) << bit
        old = state.vectors[10].astype(np.int64)
        if width == 16:
            want = old & 0xFFFF | want << 16 if text.bits("op_sel")[3] else old & 0xFFFF0000 | want
        assert np.array_equal(emulator.run([line], target, state).vectors[10], merged(state, 10, want)), line


def small(name: str, target: str) -> str:
    """The format that a mnemonic means."""
    kind = next(kind for kind in ("fp8", "bf8", "fp6", "bf6", "fp4") if kind in name)
    return kind if target == "gfx950" else f"{kind}z"


@pytest.mark.parametrize("name", [f"v_cvt_{wide}_{kind}" for wide in ("f32", "pk_f32") for kind in ("fp8", "bf8")])
def test_small_floats_widened(emulator: WaveEmulator, name: str) -> None:
    for target, line in named(name):
        state, text = random_state(0), parse(line)
        state.vectors[20] = np.arange(LANES) * 0x04040404 + 0x03020100
        selection = text.modifiers.get("src0_sel", "DWORD")
        shift = {"DWORD": 0, "BYTE_1": 8, "BYTE_2": 16, "WORD_1": 16}[selection]
        got = emulator.run([line], target, state).vectors[10:12].view(np.float32)
        for n in range(2 if "pk" in name else 1):
            codes = state.vectors[20] >> np.uint32(shift + 8 * n) & np.uint32(255)
            np.testing.assert_array_equal(got[n], VALUES[small(name, target)][codes].astype(np.float32))


@pytest.mark.parametrize("name", [f"v_cvt_{way}_{kind}_f32" for way in ("pk", "sr") for kind in ("fp8", "bf8")])
def test_small_floats_narrowed(emulator: WaveEmulator, name: str) -> None:
    for seed, (target, line) in enumerate(named(name)):
        state, text, kind = random_state(seed), parse(line), small(name, target)
        put_floats(state, [20] if "sr" in name else [20, 30], seed)
        values = []
        for operand in text.operands[1:]:
            value = state.vectors[operand.index].view(np.float32)
            value = np.abs(value) if operand.absolute else value
            values.append(-value if operand.negative else value)
        bits = text.bits("op_sel")
        old = state.vectors[10].astype(np.int64)
        if "sr" in name:
            shift, mask = 8 * (bits[2] + 2 * bits[3]), 0xFF
            codes = small_codes(kind, values[0], state.vectors[30])
        else:
            shift, mask = 16 * bits[2], 0xFFFF
            codes = small_codes(kind, values[0]) | small_codes(kind, values[1]) << 8
        want = merged(state, 10, old & ~(mask << shift) | codes << shift)
        got = emulator.run([line], target, state).vectors[10]
        assert np.array_equal(got, want), (target, line, np.flatnonzero(got != want))


def test_small_floats_saturate(emulator: WaveEmulator) -> None:
    for target, line in named("v_cvt_pk_fp8_f32")[:1]:
        state = random_state(0)
        state.vectors[20], state.vectors[30] = np.float32(1e6).view(np.uint32), np.float32(-np.inf).view(np.uint32)
        state.mode |= FP16_OVFL
        largest = small_code(small("fp8", target), 240.0)
        assert (
            emulator.run([line], target, state).vectors[10] & np.uint32(0xFFFF) == (largest | (largest | 0x80) << 8)
        ).all()


@pytest.mark.parametrize("name", ["v_cvt_sr_f16_f32", "v_cvt_sr_bf16_f32"])
def test_stochastic_halves(emulator: WaveEmulator, name: str) -> None:
    for seed, (target, line) in enumerate(named(name)):
        state = random_state(seed)
        put_floats(state, [20], seed)
        values, randoms = state.vectors[20].view(np.float32), state.vectors[30]
        got = emulator.run([line], target, state).vectors[10]
        shift = 16 * parse(line).bits("op_sel")[2]
        lanes = exec_lanes(state)
        kept = np.uint32(0xFFFF << 16 - shift)
        assert np.array_equal(got & kept, state.vectors[10] & kept)
        half = (got >> np.uint32(shift) & np.uint32(0xFFFF)).astype(np.uint16)
        if "bf16" in name:
            want = np.where(
                np.isfinite(values), state.vectors[20].astype(np.int64) + (randoms >> np.uint32(16)) >> 16, 0
            )
            usual = np.isfinite(values)
        else:
            bits = state.vectors[20].astype(np.int64) + (randoms >> np.uint32(19))
            with np.errstate(all="ignore"):  # cut off, by masking what f16 has no place for
                want = (
                    (bits & ~0x1FFF)
                    .astype(np.uint32)
                    .view(np.float32)
                    .astype(np.float16)
                    .view(np.uint16)
                    .astype(np.int64)
                )
            usual = (np.abs(values) < 60000) & ((np.abs(values) > 1e-4) | (values == 0))
        assert np.array_equal(half[lanes & usual], want[lanes & usual]), line


SCALED = sorted({parse(line).base for _, line in LINES if line.startswith("v_cvt_scalef32_")})


def elements(state: WaveState, rows: range, width: int, count: int) -> Array:
    """Packed elements of consecutive registers: [element][lane]."""
    whole = np.zeros(LANES, dtype=object)
    for n, row in enumerate(rows):
        whole |= state.vectors[row].astype(object) << 32 * n
    return np.array([[int(x) >> width * n & ((1 << width) - 1) for x in whole] for n in range(count)])


def wide_values(state: WaveState, rows: range, wide: str, count: int) -> Array:
    if wide == "f32":
        return state.vectors[rows.start : rows.start + count].view(np.float32).astype(np.float64)
    bits = elements(state, rows, 16, count)
    if wide == "f16":
        return half_of(bits)
    return (bits << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def prng(x: Array) -> Array:
    return (x << 1 & 0xFFFFFFFF) ^ np.where(x >> 31, 197, 0)


@each_row("name", SCALED)
def test_scaled_conversions(emulator: WaveEmulator, name: str) -> None:
    for seed, (target, line) in enumerate(named(name)):
        state, text = random_state(seed), parse(line)
        kind, width = small(name, target), width_of(small(name, target))
        parts = name.removeprefix("v_cvt_scalef32_").split("_")
        narrows = parts[-1] in ("f32", "f16", "bf16")
        wide = parts[-1] if narrows else parts[-2]
        count = 32 if "pk32" in name or "2xpk16" in name else 2 if "pk" in name else 1
        result, scale = text.operands[0], text.operands[-1]
        exponents = np.random.default_rng(seed).integers(120, 135, LANES)
        state.vectors[scale.index] = exponents << 23 | 0x1234
        factor = 2.0 ** (exponents - 127)
        sources = [range(o.index, o.index + o.count) for o in text.operands[1:-1]]
        if narrows:
            for rows in sources[: 1 if "sr" in name else None]:
                for row in rows:
                    fill(state, row, wide, seed + row)
        bits = text.bits("op_sel")
        with np.errstate(all="ignore"):
            if narrows:
                want = narrowed(name, kind, width, wide, count, state, sources, factor, bits)
            else:
                shift = (
                    8 * (bits[0] + 2 * bits[1]) if count * width == 8 else 16 * bits[0] if count * width == 16 else 0
                )
                codes = elements(state, sources[0], width, count + shift // width)[shift // width :]
                want = widened(
                    VALUES[kind][codes] * factor, wide, state.vectors[result.index], bits[2] if count == 1 else None
                )
        got = emulator.run([line], target, state)
        for n, words in enumerate(want):
            found = got.vectors[result.index + n]
            good = (found == merged(state, result.index + n, words)) | unordered(found, wide, narrows)
            assert good.all(), (line, n, [(hex(found[i]), hex(int(words[i]))) for i in np.flatnonzero(~good)[:3]])


def fill(state: WaveState, row: int, wide: str, seed: int) -> None:
    put_floats(state, [row], seed, -2, 2)
    if wide != "f32":
        values = np.random.default_rng(seed).standard_normal((2, LANES)).astype(np.float32)
        halves = bfloat_bits(values) if wide == "bf16" else values.astype(np.float16).view(np.uint16).astype(np.int64)
        state.vectors[row] = halves[0] | halves[1] << 16


def unordered(words: Words, wide: str, narrows: bool) -> Array:
    """NaN's payloads are not told."""
    if narrows:
        return np.zeros(LANES, bool)
    if wide == "f32":
        return np.isnan(words.view(np.float32))
    low, high = (words & np.uint32(0x7FFF)), words >> np.uint32(16) & np.uint32(0x7FFF)
    infinity = 0x7C00 if wide == "f16" else 0x7F80
    return (low > infinity) | (high > infinity)


def widened(values: Array, wide: str, old: Words, upper: int | None) -> list[Array]:
    if wide == "f32":
        return list(values.astype(np.float32).view(np.uint32))
    if wide == "f16":
        halves = values.astype(np.float16).view(np.uint16).astype(np.int64)
    else:
        halves = bfloat_bits(values.astype(np.float32))
    if upper is not None:
        old = old.astype(np.int64)
        return [old & 0xFFFF | halves[0] << 16 if upper else old & 0xFFFF0000 | halves[0]]
    return [halves[n] | halves[n + 1] << 16 for n in range(0, len(halves), 2)]


def narrowed(
    name: str,
    kind: str,
    width: int,
    wide: str,
    count: int,
    state: WaveState,
    sources: list[range],
    factor: Array,
    bits: list[int],
) -> list[Array]:
    if "2xpk16" in name:  # the elements of the two sources take turns
        values = np.stack([wide_values(state, rows, wide, 16) for rows in sources], axis=1).reshape(32, LANES)
    elif "sr" not in name and wide == "f32":
        values = np.stack([wide_values(state, rows, wide, 1)[0] for rows in sources])
    else:
        values = wide_values(state, sources[0], wide, count)
    random = state.vectors[sources[1].start].astype(np.int64) if "sr" in name else None
    whole = np.zeros(LANES, dtype=object)
    for n in range(count):
        codes = small_codes(kind, (values[n] / factor).astype(np.float32), random)
        whole |= codes.astype(object) << width * n
        random = None if random is None else prng(random)
    if count == 32:
        return [np.array([int(x) >> 32 * n & 0xFFFFFFFF for x in whole]) for n in range(6)]
    if count * width == 8:
        shift, mask = 8 * (bits[2] + 2 * bits[3]), 0xFF
    else:
        shift, mask = 16 * bits[3 if wide == "f32" else 2], 0xFFFF
    return [state.vectors[10].astype(np.int64) & ~(mask << shift) | whole.astype(np.int64) << shift]


def test_division(emulator: WaveEmulator) -> None:
    """The compiler's sequence is correctly rounded, whatever the operands."""
    text = recorded(DATA, "gfx942")
    start = next(n for n, line in enumerate(text) if line.startswith("v_div_scale_f32 v50"))
    program = text[start : start + 11]
    assert program[-1].startswith("v_div_fixup_f32 v10, v50, v30, v20")
    for seed in range(20):
        random = np.random.default_rng(seed)
        state = random_state(0)
        for row in (20, 30):
            words = random.integers(0, 1 << 32, LANES, dtype=np.uint32)
            words[:20] = (
                (random.standard_normal(20) * 10.0 ** random.integers(-40, 38, 20)).astype(np.float32).view(np.uint32)
            )
            state.vectors[row] = words
        put_floats(state, [20] if seed % 3 == 0 else [], seed)
        got = emulator.run(program, "gfx942", state).vectors[10].view(np.float32)
        with np.errstate(all="ignore"):
            want = state.vectors[20].view(np.float32) / state.vectors[30].view(np.float32)
        # Denormal quotients are rounded twice: before they are scaled down, and then.
        near = np.abs(got.view(np.int32).astype(np.int64) - want.view(np.int32)) <= (np.abs(want) < 1.2e-38)
        assert (near | (np.isnan(got) & np.isnan(want))).all(), (
            state.vectors[20:31:10, ~near],
            got[~near],
            want[~near],
        )


def test_division_in_f64(emulator: WaveEmulator) -> None:
    lines = {line.partition(" // ")[0]: line for line in recorded(DATA, "gfx942")}
    program = [lines[text] for text in DIVISION_F64]
    for seed in range(20):
        random = np.random.default_rng(seed)
        state = random_state(0)
        operands = []
        for row in (20, 30):
            values = random.integers(0, 1 << 64, LANES, dtype=np.uint64).view(np.float64)
            values[:20] = random.standard_normal(20) * 10.0 ** random.integers(-300, 300, 20)
            values[20:24] = [0, np.inf, 5e-324, 1.7e308]
            values = random.permutation(values)
            state.vectors[row : row + 2] = values.view(np.uint32).reshape(LANES, 2).T
            operands.append(values)
        rows = emulator.run(program, "gfx942", state).vectors[10:12]
        got = np.ascontiguousarray(rows.T).view(np.float64)[:, 0]
        with np.errstate(all="ignore"):
            want = operands[0] / operands[1]
        near = np.abs(got.view(np.int64) - want.view(np.int64)) <= (np.abs(want) < 2.3e-308)
        good = near | (np.isnan(got) & np.isnan(want))
        assert good.all(), (operands[0][~good], operands[1][~good], got[~good], want[~good])


@pytest.mark.parametrize(("name", "kind"), [("v_div_fmas_f32", np.float32), ("v_div_fmas_f64", np.float64)])
def test_scaled_fma(emulator: WaveEmulator, name: str, kind: type) -> None:
    target, line = next(found for found in named(name) if " v20," in found[1] or "v[20:21]" in found[1])
    state = WaveState()
    values: list[Array] = [np.random.default_rng(n).standard_normal(LANES).astype(kind) for n in range(3)]
    values[2] = np.where(np.arange(LANES) % 4 < 2, values[2] * 1e9, 1e-9 * values[2]).astype(kind)
    for n, value in enumerate(values):
        rows = np.ascontiguousarray(value).view(np.uint32).reshape(LANES, -1).T
        state.vectors[20 + 10 * n : 20 + 10 * n + len(rows)] = rows
    state.put_pair(VCC, 0x5555555555555555)
    step = 64 if kind is np.float32 else 128
    power = np.where(np.abs(values[2]) >= 2, step, -step)
    want = np.where(np.arange(LANES) % 2 == 0, np.ldexp(fma(*values), power), fma(*values))
    rows = emulator.run([line], target, state).vectors[10 : 10 + values[0].itemsize // 4]
    assert np.array_equal(np.ascontiguousarray(rows.T).view(kind)[:, 0], want)


def test_literals_of_packed_operands(emulator: WaveEmulator) -> None:
    """LLVM: 1.0 is a number of 16 bits where the elements are floats, and one of 32 where they are integers."""
    state = WaveState()
    lines = ["v_pk_add_u16 v10, v1, 1.0 // D38A400A 1801E501", "v_pk_add_f16 v11, v1, 1.0 // D38F400B 1801E501"]
    got = emulator.run(lines, "gfx942", state)
    assert (got.vectors[10] == 0x3F800000).all()
    assert (got.vectors[11] == 0x3C00).all()


def test_a_dot_product_subtracts(emulator: WaveEmulator) -> None:
    state = WaveState()
    state.vectors[1:3], state.vectors[3] = 0x3C003C00, 0x3F800000
    line = "v_dot2_f32_f16 v10, v1, v2, v3 neg_lo:[0,0,1] neg_hi:[0,0,1] // D3A3440A 9C0E0501"
    assert (emulator.run([line], "gfx942", state).vectors[10] == 0x3F800000).all()


def test_a_denormal_quotient_is_rounded_once(emulator: WaveEmulator) -> None:
    """Half of the last bit of a denormal, and a little more: the sum alone rounds that little away."""
    state = WaveState()
    state.put_pair(VCC, (1 << LANES) - 1)
    for row, value in ((20, 2.0**-500), (22, 2.0**-501), (24, 2.0**-947 * 5)):
        state.vectors[row : row + 2] = np.full(LANES, value).view(np.uint32).reshape(LANES, 2).T
    line = "v_div_fmas_f64 v[10:11], v[20:21], v[22:23], v[24:25] // D1E3000A 04622D14"
    got = emulator.run([line], "gfx942", state).vectors[10:12].T.copy().view(np.uint64)
    assert (got == 3).all()  # 2.5 units and 2 ** -1001 before scaling
