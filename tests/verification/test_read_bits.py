"""Which bits an instruction reads: a bit counts if another value of it changes a result. Each instruction of each
architecture is executed as it is and with one bit of a source the other way, in each lane another bit; where only that
bit is undefined, the checks must call undefined what differs, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from references.instruction_text import Operand, parse, results_of
from references.wave_emulator import ALL_ARCHITECTURES, ARCHITECTURES, EXEC, LANES, WaveEmulator, WaveState, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"
MATRIX = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")
"""Known by rows and columns; test_matrix.py has them."""
OTHERS = ("v_movrel", "v_cmpx", "v_nop", "v_dual_", "v_permlane64")
"""Registers by M0, what ends in EXEC and is reported at once, pairs."""
UNDEFINED, MASK, PLACE, COPY = 240, 241, 242, 244
ROW = 4 * LANES


def lines(architecture: str) -> Iterator[str]:
    """One of each form of each instruction: what has the same text but for registers is executed alike."""
    seen: set[tuple[str, ...]] = set()
    for line in recorded(DATA, architecture):
        text = parse(line)
        kinds = "".join(operand.kind for operand in text.operands)
        form = (
            text.name,
            kinds,
            *sorted(text.modifiers),
            *(operand.text[-2:] for operand in text.operands if ".h" in line),
        )
        if not line.startswith("v_") or text.base.startswith(MATRIX + OTHERS) or form in seen:
            continue
        seen.add(form)
        yield line


def register(piece: str) -> Operand | None:
    """The operand of a piece, with gfx1100's halves as whole registers."""
    operand = parse(f"x {piece.removesuffix('.l').removesuffix('.h')}").operands[0]
    return operand if operand.kind == "v" else None


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
def test_a_bit_counts_if_it_changes_a_result(emulator: WaveEmulator, architecture: str) -> None:
    wrong, tried = [], 0
    for number, line in enumerate(lines(architecture)):
        text = parse(line)
        pieces = [operand.text for operand in text.operands]
        sources = [found for piece in pieces[results_of(text) :] if (found := register(piece))]
        both_written = "swap" in text.base
        results = [found for piece in pieces[: 2 if both_written else results_of(text)] if (found := register(piece))]
        masks = [operand for operand in text.operands[: results_of(text)] if operand.kind == "s"]
        for source in sources[number % max(len(sources), 1) :][:1]:
            index = source.index + number // 3 % source.count
            if index >= 256:
                continue
            tried += 1
            got, want = undefined_and_changed(emulator, architecture, line, index, results, masks, number)
            if not np.array_equal(got, want):
                lane = int(np.flatnonzero((got != want).any(axis=(0, 2)))[0])
                wrong.append(f"{line}: v{index}, lane {lane}: {got[:, lane]} instead of {want[:, lane]}")
    assert wrong == []
    assert tried > (300 if architecture in ("gfx942", "gfx1100", "gfx1201") else 10)


def undefined_and_changed(
    emulator: WaveEmulator,
    architecture: str,
    line: str,
    index: int,
    results: list[Operand],
    masks: list[Operand],
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """By result, lane and byte: what the checks call undefined, and what another value of the bit changes."""
    random = np.random.default_rng(seed)
    lanes = 64 if architecture in ARCHITECTURES else 32
    state = WaveState(random.integers(0, 1 << 32, (512, LANES), dtype=np.uint32))
    state.vectors[:, ::3] &= np.uint32(0x807FFFFF)
    state.vectors[:, ::3] |= np.uint32(0x3F800000)  # numbers near 1
    state.scalars[:102] = random.integers(0, 1 << 32, 102, dtype=np.uint32)
    state.exec_mask = (1 << lanes) - 1
    bits = np.uint32(1) << ((np.arange(LANES) * 7 + seed) % 32).astype(np.uint32)
    rows = [first + part for o in results for first, part in ((o.index, p) for p in range(o.count))]
    copies = [mask.index + part for mask in masks for part in range(lanes // 32)]
    flipped = state.copy()
    flipped.vectors[index] ^= bits
    before, after = (emulator.run([line], architecture, s, reports=True) for s in (state, flipped))
    differ = [before.vectors[row] ^ after.vectors[row] for row in rows]
    differ += [np.full(LANES, before.scalars[s] ^ after.scalars[s], np.uint32) for s in copies]
    assert before.pair(EXEC) == after.pair(EXEC)

    state.vectors[MASK] = bits
    size = 1 + len(differ)
    place = emulator.memory_address + np.arange(LANES, dtype=np.uint64) * 4
    state.vectors[PLACE : PLACE + 2] = place.view(np.uint32).reshape(LANES, 2).T
    state.memory = np.concatenate([state.vectors[index].view(np.uint8), np.zeros(ROW * (size - 1), np.uint8)])
    state.undefined = np.ones(ROW * size, np.uint8)
    load, store = (
        ("global_load_b32", "global_store_b32") if lanes == 32 else ("global_load_dword", "global_store_dword")
    )
    program = [
        f"{load} v{UNDEFINED}, v[{PLACE}:{PLACE + 1}], off // 0 0",
        "s_waitcnt vmcnt(0) // BF890000" if lanes == 32 else "s_waitcnt vmcnt(0) // BF8C0000",
        f"v_bfi_b32 v{index}, v{MASK}, v{UNDEFINED}, v{index} // 0 0",
        line,
    ]
    stored = list(rows)
    for number, scalar in enumerate(copies):
        program.append(f"v_mov_b32_e32 v{COPY + number}, {named(scalar)} // 0")
        stored.append(COPY + number)
    for number, row in enumerate(stored):
        program.append(f"{store} v[{PLACE}:{PLACE + 1}], {vector(row)}, off offset:{ROW * (number + 1)} // 0 0")
    checked = emulator.run(program, architecture, state, checked=True, reports=True)
    got = checked.undefined[ROW:].reshape(-1, LANES, 4)[:, :lanes] != 0
    want = np.array(differ, np.uint32).view(np.uint8).reshape(-1, LANES, 4)[:, :lanes] != 0
    return got, want


def vector(index: int) -> str:
    return f"a{index - 256}" if index >= 256 else f"v{index}"


def named(scalar: int) -> str:
    return {106: "vcc_lo", 107: "vcc_hi"}.get(scalar, f"s{scalar}")
