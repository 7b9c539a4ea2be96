"""LDS instructions against a model in bytes: reads, writes, atomics, permutations."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruction_text import parse
from wave_emulator import LANES, M0, WaveEmulator, WaveState, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"
LINES = [line for line in recorded(DATA, "gfx942") if line.startswith("ds_")]
SIZES = {"b8": 1, "u8": 1, "i8": 1, "b16": 2, "u16": 2, "i16": 2, "b32": 4, "b64": 8, "b96": 12, "b128": 16}
BYTES = 8192


def state_for(seed: int, alignment: int = 16, *, shared: bool = False) -> WaveState:
    """Addresses in v20, each lane's own unless `shared`; data in v30…, v40…"""
    random = np.random.default_rng(seed)
    state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.lds = random.integers(0, 256, BYTES, dtype=np.uint8)
    places = random.integers(0, 8, LANES) if shared else random.permutation(LANES)
    state.vectors[20] = places * max(alignment, 16)
    state.scalars[M0] = 0xFFFFFFFF
    state.exec_mask = int(random.integers(1, 1 << 63)) if seed % 2 else state.exec_mask
    return state


def lanes(state: WaveState) -> list[int]:
    return [lane for lane in range(LANES) if state.exec_mask >> lane & 1]


def put(state: WaveState, lane: int, row: int, data: bytes) -> None:
    for n in range(0, len(data), 4):
        state.vectors[row + n // 4, lane] = int.from_bytes(data[n : n + 4], "little")


def data_of(state: WaveState, lane: int, row: int, size: int) -> bytes:
    return state.vectors[row : row + -(-size // 4), lane].tobytes()[:size]


def named(prefix: str) -> list[str]:
    found = [line for line in LINES if line.split()[0] == prefix]
    assert found, prefix
    return found


def same(emulator: WaveEmulator, line: str, state: WaveState, want: WaveState) -> None:
    got = emulator.run([line], "gfx942", state)
    assert np.array_equal(got.vectors, want.vectors), line
    assert np.array_equal(got.lds, want.lds), line
    checked = emulator.run([line], "gfx942", state, checked=True)
    assert np.array_equal(checked.vectors, want.vectors), line
    assert np.array_equal(checked.lds, want.lds), line


READS = sorted({line.split()[0] for line in LINES if line.startswith("ds_read_")})
WRITES = sorted({line.split()[0] for line in LINES if line.startswith("ds_write_")})


@pytest.mark.parametrize("name", READS)
def test_reads(emulator: WaveEmulator, name: str) -> None:
    kind, *half = name.removeprefix("ds_read_").split("_")
    size = SIZES[kind]
    for seed, line in enumerate(named(name)):
        state = state_for(seed)
        want, offset = state.copy(), int(parse(line).modifiers.get("offset", "0"))
        for lane in lanes(state):
            at = int(state.vectors[20, lane]) + offset
            data = state.lds[at : at + size].tobytes()
            if size >= 4:
                put(want, lane, 10, data)
                continue
            value = int.from_bytes(data, "little", signed=kind[0] == "i")
            if half:  # registers with ECC are written as a whole: the other half with zero
                value = (value & 0xFFFF) << (16 if "hi" in half else 0)
            want.vectors[10, lane] = value & 0xFFFFFFFF
        same(emulator, line, state, want)


@pytest.mark.parametrize("name", WRITES)
def test_writes(emulator: WaveEmulator, name: str) -> None:
    kind, *half = name.removeprefix("ds_write_").split("_")
    size = SIZES[kind]
    for seed, line in enumerate(named(name)):
        state = state_for(seed)
        want, offset = state.copy(), int(parse(line).modifiers.get("offset", "0"))
        for lane in lanes(state):
            at = int(state.vectors[20, lane]) + offset
            data = data_of(state, lane, 30, max(size, 4))[2 if half else 0 :][:size]
            want.lds[at : at + size] = np.frombuffer(data, np.uint8)
        same(emulator, line, state, want)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("stride", ["", "st64"])
def test_pairs(emulator: WaveEmulator, bits: int, stride: str) -> None:
    size = bits // 8
    step = size * (64 if stride else 1)
    (read,), (write,) = named(f"ds_read2{stride}_b{bits}"), named(f"ds_write2{stride}_b{bits}")
    for seed in range(2):
        state = state_for(seed, 64)
        if stride:
            state.vectors[20] = state.vectors[20] // 64 * size
        want = state.copy()
        for lane in lanes(state):
            at = int(state.vectors[20, lane])
            for n, offset in enumerate((1, 3)):
                put(want, lane, 10 + n * size // 4, state.lds[at + offset * step :][:size].tobytes())
        same(emulator, read, state, want)
        want = state.copy()
        for lane in lanes(state):
            at = int(state.vectors[20, lane])
            for row, offset in ((30, 2), (40, 1)):
                want.lds[at + offset * step :][:size] = np.frombuffer(data_of(state, lane, row, size), np.uint8)
        same(emulator, write, state, want)


INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda m, d: m + d, "sub": lambda m, d: m - d, "rsub": lambda m, d: d - m, "and": lambda m, d: m & d,
    "inc": lambda m, d: 0 if m >= d else m + 1, "dec": lambda m, d: d if m == 0 or m > d else m - 1,
    "or": lambda m, d: m | d, "xor": lambda m, d: m ^ d, "min": min, "max": max,
}  # fmt: skip
ATOMICS = sorted({
    line.split()[0] for line in LINES
    if "_rtn" not in line and line.split()[0].removeprefix("ds_").split("_")[0] in INTEGERS and "addtid" not in line
})  # fmt: skip


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics(emulator: WaveEmulator, name: str) -> None:
    operation, kind = name.removeprefix("ds_").split("_")
    size, function = int(kind[1:]) // 8, INTEGERS[operation]
    form = (
        f"<{ {'f4': 'f', 'f8': 'd', 'i4': 'i', 'i8': 'q'}.get(f'{kind[0]}{size}', 'I' if size == 4 else 'Q') }".replace(
            " ", ""
        )
    )
    returning = name.replace(f"_{kind}", f"_rtn_{kind}")
    for seed, line in enumerate([*named(name), *named(returning)] * 2):
        state = state_for(seed, shared=kind[0] != "f")
        if kind[0] == "f":
            values = np.random.default_rng(seed).standard_normal(BYTES // size).astype(f"f{size}")
            state.lds = values.view(np.uint8).copy()
            for row in range(30, 30 + size // 4):
                state.vectors[row] = values.view(np.uint32)[row - 30 :: size // 4][:LANES]
        want, offset = state.copy(), int(parse(line).modifiers.get("offset", "0"))
        for lane in lanes(state):
            at = int(state.vectors[20, lane]) + offset
            (memory,) = struct.unpack(form, want.lds[at : at + size].tobytes())
            (data,) = struct.unpack(form, data_of(state, lane, 30, size))
            if "rtn" in line:
                put(want, lane, 10, want.lds[at : at + size].tobytes())
            made = function(memory, data)
            if kind[0] == "f":
                made = np.dtype(f"f{size}").type(made)
                want.lds[at : at + size] = np.frombuffer(made.tobytes(), np.uint8)
            else:
                made &= (1 << 8 * size) - 1
                want.lds[at : at + size] = np.frombuffer(made.to_bytes(size, "little"), np.uint8)
        same(emulator, line, state, want)


@pytest.mark.parametrize("bits", [32, 64])
def test_exchanges(emulator: WaveEmulator, bits: int) -> None:
    size = bits // 8
    for seed in range(2):
        state = state_for(seed, shared=True)
        for lane in range(0, LANES, 2):  # some compare equal
            at = int(state.vectors[20, lane])
            put(state, lane, 30, state.lds[at : at + size].tobytes())
        swapped, compared = state.copy(), state.copy()
        for lane in lanes(state):
            at = int(state.vectors[20, lane])
            put(swapped, lane, 10, swapped.lds[at : at + size].tobytes())
            swapped.lds[at : at + size] = np.frombuffer(data_of(state, lane, 30, size), np.uint8)
            old = compared.lds[at : at + size].tobytes()
            put(compared, lane, 10, old)
            if old == data_of(state, lane, 30, size):
                compared.lds[at : at + size] = np.frombuffer(data_of(state, lane, 40, size), np.uint8)
        (exchange,), (compare,) = named(f"ds_wrxchg_rtn_b{bits}"), named(f"ds_cmpst_rtn_b{bits}")
        same(emulator, exchange, state, swapped)
        same(emulator, compare, state, compared)


def test_permutations(emulator: WaveEmulator) -> None:
    for seed in range(4):
        state = state_for(seed)
        state.vectors[20] = np.random.default_rng(seed).integers(0, 1 << 10, LANES, dtype=np.uint32)
        on = lanes(state)
        for line in named("ds_bpermute_b32"):
            want, offset = state.copy(), int(parse(line).modifiers.get("offset", "0"))
            for lane in on:
                source = int(state.vectors[20, lane] + offset) // 4 % LANES
                want.vectors[10, lane] = state.vectors[30, source] if source in on else 0
            same(emulator, line, state, want)
        (line,) = named("ds_permute_b32")
        want = state.copy()
        pushed: dict[int, Any] = {int(state.vectors[20, lane]) // 4 % LANES: state.vectors[30, lane] for lane in on}
        for lane in on:
            want.vectors[10, lane] = pushed.get(lane, 0)
        same(emulator, line, state, want)


def test_swizzles(emulator: WaveEmulator) -> None:
    for seed in range(2):
        state = state_for(seed)
        on = lanes(state)
        for line in named("ds_swizzle_b32"):
            pattern, want = int(line.split(" // ")[1].split()[0], 16) & 0xFFFF, state.copy()
            for lane in on:
                if pattern & 0x8000:  # four lanes
                    source = lane & ~3 | pattern >> 2 * (lane & 3) & 3
                else:  # masks in 32 lanes
                    within = (lane & 31 & pattern | pattern >> 5 & 31) ^ (pattern >> 10 & 31)
                    source = lane & 32 | within & 31
                want.vectors[10, lane] = state.vectors[30, source] if source in on else 0
            same(emulator, line, state, want)
