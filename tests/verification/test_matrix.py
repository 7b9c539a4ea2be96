"""Matrix instructions against sums in float64, laid out as "Matrix Arithmetic Instructions" of the ISA documents says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.each_row import each_row
from references.instruction_text import Text, parse
from references.vector_references import VALUES, width_of
from references.wave_emulator import ARCHITECTURES, FP16_OVFL, LANES, WaveEmulator, WaveState, Words, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"
Array = NDArray[Any]
LINES: dict[tuple[str, str], list[str]] = {}
for target in ARCHITECTURES:
    for one in recorded(DATA, target):
        if "mfma" in one or "smfmac" in one:
            LINES.setdefault((target, parse(one).base), []).append(one)

NAME = re.compile(r"v_(mfma|smfmac)_(?:scale_)?(f32|i32|f64)_(\d+)x\d+x(\d+)_?(?:(\d+)b_)?(.*)$")
FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
BITS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "fp8": 8, "bf8": 8}


def unpacked(rows: Words, width: int) -> Array:
    """[element][lane]"""
    if width in (8, 16, 32):
        kind = {8: np.uint8, 16: np.uint16, 32: np.uint32}[width]
        return np.ascontiguousarray(rows.T).view(kind).T.astype(np.int64)
    bits = np.unpackbits(np.ascontiguousarray(rows.T).view(np.uint8), axis=1, bitorder="little")
    count = bits.shape[1] // width
    return np.asarray((bits[:, : count * width].reshape(LANES, count, width) * (1 << np.arange(width))).sum(axis=2).T)


def values_of(rows: Words, kind: str, target: str) -> Array:
    """The elements of A, B, C or D."""
    if kind == "f32":
        return rows.view(np.float32).astype(np.float64)
    if kind == "xf32":
        return (rows & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if kind == "f64":
        return np.ascontiguousarray(rows.T).view(np.float64).T
    if kind == "i32":
        return rows.view(np.int32).astype(np.float64)
    if kind == "f16":
        return unpacked(rows, 16).astype(np.uint16).view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (unpacked(rows, 16) << 16).astype(np.uint32).view(np.float32).astype(np.float64)
    if kind == "i8":
        return unpacked(rows, 8).astype(np.uint8).view(np.int8).astype(np.float64)
    table = kind if target == "gfx950" else f"{kind}z"
    return VALUES[table][unpacked(rows, width_of(table))]


def fill(state: WaveState, rows: range, kind: str, target: str, random: np.random.Generator) -> None:
    """Finite values."""
    count = len(rows)
    if kind in ("f32", "xf32"):
        state.vectors[rows] = random.standard_normal((count, LANES)).astype(np.float32).view(np.uint32)
    elif kind == "f64":
        state.vectors[rows] = random.standard_normal((LANES, count // 2)).view(np.uint32).T
    elif kind == "f16":
        state.vectors[rows] = random.standard_normal((count, 2 * LANES)).astype(np.float16).view(np.uint32)
    elif kind == "bf16":
        words = random.standard_normal((count, 2 * LANES)).astype(np.float32).view(np.uint32) >> np.uint32(16)
        state.vectors[rows] = words[:, ::2] | words[:, 1::2] << np.uint32(16)
    elif kind in ("fp8", "bf8"):
        table = VALUES[kind if target == "gfx950" else f"{kind}z"]
        finite = np.flatnonzero(np.isfinite(table)).astype(np.uint8)
        state.vectors[rows] = random.choice(finite, (count, 4 * LANES)).view(np.uint32)
    else:
        state.vectors[rows] = random.integers(0, 1 << 32, (count, LANES), dtype=np.uint32)


def result_items(size: int, blocks: int, wide: bool) -> tuple[Array, Array]:
    """Register (or pair) and lane of each item [block][row][column] of C and D."""
    group = 1 if wide else 4  # rows in a row
    per_register = -(-LANES // (size * size // group))
    rows_across = LANES // per_register // size
    groups = size // (group * rows_across)
    b, i, j = np.meshgrid(np.arange(blocks), np.arange(size), np.arange(size), indexing="ij")
    register = i % group + group * (i // (group * rows_across) + groups * (b // per_register))
    return register, j + size * (i // group % rows_across + rows_across * (b % per_register))


def matrix_of(values: Array, size: int, blocks: int, depth: int, chunk: int | None = None) -> Array:
    """A or B as [block][row][k]; `chunk` elements of k are side by side in a lane."""
    chunk = chunk or depth * size * blocks // LANES
    across = LANES // (size * blocks)
    b, i, k = np.meshgrid(np.arange(blocks), np.arange(size), np.arange(depth), indexing="ij")
    return np.asarray(
        values[k // (chunk * across) * chunk + k % chunk, i + size * (b + blocks * (k // chunk % across))]
    )


def number(text: Text, name: str) -> int:
    return int(text.modifiers.get(name, "0"))


def registers(text: Text, operand: int) -> range:
    o = text.operands[operand]
    return range(o.index, o.index + o.count)


def exchanged(pattern: int) -> list[int]:
    """The lane of B that each lane reads, by BLGP."""
    lanes = range(LANES)
    return [
        [lane, lane % 32, lane % 32 + 32, (lane + 16) % 64, *(lane % 16 + 16 * n for n in range(4))][pattern]
        for lane in lanes
    ]


def compare(line: str, got: Array, want: Array, magnitude: Array, tolerance: float) -> None:
    error = np.abs(got - want) / np.maximum(magnitude, 1e-30)
    assert error.max() < tolerance, (line, error.max(), got.flat[error.argmax()], want.flat[error.argmax()])


def wrapped(values: Array) -> Array:
    return (values + 2**31) % 2**32 - 2**31


@each_row(("target", "name"), [key for key in LINES if "f8f6f4" not in key[1]])
def test_matrix(emulator: WaveEmulator, target: str, name: str) -> None:
    match = NAME.match(name)
    assert match
    size, depth, types = int(match[3]), int(match[4]), match[6].replace("_1k", "").split("_")
    ta, tb, out = types[0], types[-1], match[2]
    random = np.random.default_rng(1)
    for line in LINES[target, name]:
        text = parse(line)
        state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
        d, a, b = (registers(text, n) for n in range(3))
        blocks = len(d) * LANES // (size * size) // (2 if out == "f64" else 1) if match[1] == "mfma" else 1
        cbsz, abid, blgp = (number(text, key) for key in ("cbsz", "abid", "blgp"))
        one_block = out != "f64" and blocks == 1 and ta != "f32" and target != "gfx90a"
        if (cbsz and match[1] == "mfma" and 1 << cbsz > blocks) or (
            blgp and (one_block or (out, target) == ("f64", "gfx90a"))
        ):
            continue  # refused: not told, or told not to be
        fill(state, a, ta, target, random)
        fill(state, b, tb, target, random)
        for rows in (d, registers(text, 3)) if match[1] == "mfma" else (d,):
            if rows.start:
                fill(state, rows, out, target, random)
        sparse = match[1] == "smfmac"
        left, right = values_of(state.vectors[a], ta, target), values_of(state.vectors[b], tb, target)
        signs = np.where(
            np.array(text.bits("neg")[:3]) | [blgp >> n & 1 if out == "f64" else 0 for n in range(3)], -1, 1
        )
        if sparse:
            c_values = state.vectors[d]
            matrix_a, matrix_b = sparse_matrices(state, text, left, right, size, depth, ta)
        else:
            if cbsz:
                span = size << cbsz  # lanes of the blocks that share one block's A
                left = left[:, [lane // span * span + size * abid + lane % size for lane in range(LANES)]]
            if out != "f64":
                right = right[:, exchanged(blgp)]
            matrix_a, matrix_b = matrix_of(left, size, blocks, depth), matrix_of(right, size, blocks, depth)
            c_values = state.vectors[registers(text, 3)] if text.operands[3].kind == "v" else np.zeros(0, np.uint32)
        products = np.einsum("bik,bjk->bij", signs[0] * matrix_a, signs[1] * matrix_b)
        magnitude = np.einsum("bik,bjk->bij", np.abs(matrix_a), np.abs(matrix_b)) + 1
        register, lane = result_items(size, blocks, out == "f64")
        if text.operands[3].kind == "l" and not sparse:
            c = np.full(products.shape, 0x3F800000 if out == "i32" else 1.0)
        else:
            c = values_of(c_values, out, target)[register, lane]
        got_state = emulator.run([line], target, state)
        got = values_of(got_state.vectors[d], out, target)[register, lane]
        want = signs[2] * c + products
        if out == "i32":
            compare(line, got, wrapped(want), np.ones(got.shape), 0.5)
        else:
            compare(line, got, want, magnitude + np.abs(c), 3e-15 if out == "f64" else 1e-6)
        same = np.ones(512, bool)
        same[d] = False
        assert np.array_equal(got_state.vectors[same], state.vectors[same]), line


def sparse_matrices(
    state: WaveState, text: Text, left: Array, right: Array, size: int, depth: int, kind: str
) -> tuple[Array, Array]:
    """A with its zeros: two indices of two bits choose the places of two elements among four."""
    random = np.random.default_rng(2)
    pairs = np.array([0 | n << 2 for n in (1, 2, 3)] + [1 | n << 2 for n in (2, 3)] + [2 | 3 << 2])
    chosen = random.choice(pairs, (8, LANES))
    indices = state.vectors[text.operands[3].index]
    indices[:] = (chosen << 4 * np.arange(8)[:, None]).sum(axis=0)
    per_lane = depth * size // LANES // 2
    sets = 32 // (2 * per_lane)
    chosen_set = 0 if number(text, "cbsz") or sets == 1 else number(text, "abid") % sets
    matrix = np.zeros((1, size, depth))
    for element in range(per_lane):
        place = indices.astype(np.int64) >> (chosen_set * 2 * per_lane + 2 * element) & 3
        lane = np.arange(LANES)
        matrix[0, lane % size, lane // size * 2 * per_lane + element // 2 * 4 + place] = left[element]
    return matrix, matrix_of(right, size, 1, depth, 8 if BITS[kind] == 16 else 16)


@pytest.mark.parametrize("name", [key[1] for key in LINES if "f8f6f4" in key[1]])
def test_small_floats(emulator: WaveEmulator, name: str) -> None:
    match = NAME.match(name)
    assert match
    size, depth = int(match[3]), int(match[4])
    random = np.random.default_rng(3)
    for line in LINES["gfx950", name]:
        text = parse(line)
        state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
        kinds = [FORMATS[number(text, "cbsz")], FORMATS[number(text, "blgp")]]
        d, a, b, c = (registers(text, n) for n in range(4))
        matrices = []
        for side, (rows, kind) in enumerate(zip((a, b), kinds, strict=True)):
            fill(state, rows, kind, "gfx950", random)
            values = values_of(state.vectors[rows], kind, "gfx950")
            matrix = matrix_of(values, size, 1, depth, 16 if kind in ("fp8", "bf8") else 32)
            if "scale" in name:  # of 32 elements in a row; the byte of the register by op_sel and op_sel_hi
                scales = random.integers(117, 138, (LANES, 4)).astype(np.uint8)
                state.vectors[200 + side] = scales.view(np.uint32)[:, 0]
                byte = text.bits("op_sel")[side] + 2 * text.bits("op_sel_hi")[side]
                i, k = np.meshgrid(np.arange(size), np.arange(depth), indexing="ij")
                matrix = matrix * 2.0 ** (scales[i + size * (k // 32), byte].astype(np.float64) - 127)
            matrices.append(matrix)
        fill(state, c, "f32", "gfx950", random)
        register, lane = result_items(size, 1, False)
        addend = values_of(state.vectors[c], "f32", "gfx950")[register, lane]
        want = addend + np.einsum("bik,bjk->bij", *matrices)
        magnitude = np.abs(addend) + np.einsum("bik,bjk->bij", *np.abs(matrices))
        got = values_of(emulator.run([line], "gfx950", state).vectors[d], "f32", "gfx950")[register, lane]
        compare(line, got, want, magnitude, 1.1e-6)


def test_overflow_saturates_when_the_mode_says_so(emulator: WaveEmulator) -> None:
    line = next(line for line in LINES["gfx942", "v_smfmac_f32_16x16x32_bf16"] if "abid" not in line)
    state = WaveState(np.full((512, LANES), 0x7F7F7F7F, np.uint32))
    state.vectors[202] = 0x4444
    state.vectors[4:8] = 0
    assert np.isinf(emulator.run([line], "gfx942", state).vectors[4:8].view(np.float32)).all()
    state.mode |= FP16_OVFL
    assert (emulator.run([line], "gfx942", state).vectors[4:8] == 0x7F7FFFFF).all()
