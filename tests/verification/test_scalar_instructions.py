"""Every scalar instruction against its definition in Python's integers; branches and jumps by what is executed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.each_row import each_row
from references.instruction_text import literal_bits, parse
from references.scalar_references import SAVES_EXEC, SCALAR, ScalarReference
from references.wave_emulator import DENORMALS, EXEC, M0, SCC, VCC, WaveEmulator, WaveState, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"
LINES = [line for line in recorded(DATA, "gfx942") if line.startswith("s_")]
MOVE = next(line for line in LINES if line.startswith("s_mov_b32 s10, 1 "))
MOVE_TWO = next(line for line in LINES if line.startswith("s_mov_b32 s11, 2 "))
SPECIAL = [
    0,
    1,
    2,
    31,
    32,
    63,
    64,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0xFFFF,
    0x8000,
    0x10000,
    0x200008,
    0x7F0000,
    0x10001F,
]


def named(name: str) -> list[str]:
    return [line for line in LINES if line.split()[0] == name]


def line_of(start: str) -> str:
    return next(line for line in LINES if line.startswith(start))


def state_of(random: np.random.Generator) -> WaveState:
    state = WaveState()
    state.scalars[:102] = random.integers(0, 1 << 32, 102, dtype=np.uint32)
    special = random.random(102) < 0.6
    state.scalars[:102][special] = random.choice(np.array(SPECIAL, np.uint32), int(special.sum()))
    state.scalars[SCC] = random.integers(2)
    return state


def read(state: WaveState, text: str, bits: int) -> int:
    operand = parse(f"x {text}").operands[0]
    if operand.kind == "l":
        return literal_bits(operand.text, bits, False)
    return int(state.scalars[operand.index]) if bits == 32 else state.pair(operand.index)


def expected(reference: ScalarReference, line: str, state: WaveState) -> tuple[int, int]:
    """The result and SCC."""
    operands = [operand.text for operand in parse(line).operands]
    sources = operands[1:] if reference.result else operands
    values = [read(state, text, bits) for text, bits in zip(sources, reference.sources, strict=True)]
    if reference.old:
        values.insert(0, read(state, operands[0], reference.result))
    scc = int(state.scalars[SCC])
    if reference.scc_in:
        values.append(scc)
    result = reference.compute(*values) & ((1 << reference.result) - 1)
    return result, reference.scc(result, *values) if reference.scc else scc


@each_row("name", sorted(SCALAR))
def test_instruction(emulator: WaveEmulator, name: str) -> None:
    reference, random = SCALAR[name], np.random.default_rng(3)
    assert named(name)
    for line in named(name):
        if line in (MOVE, MOVE_TWO):
            continue
        for _ in range(25):
            state = state_of(random)
            result, scc = expected(reference, line, state)
            got = emulator.run([line], "gfx942", state)
            want = state.copy()
            want.put_pair(EXEC, state.exec_mask)
            if reference.result == 32:
                want.scalars[10] = result
            elif reference.result:
                want.put_pair(10, result)
            want.scalars[SCC] = scc
            changed = np.flatnonzero(got.scalars != want.scalars)
            wrong = [(int(n), hex(got.scalars[n]), hex(want.scalars[n])) for n in changed]
            assert not wrong, f"{line} of {state.scalars[[20, 21, 30, 31, SCC]]}: {wrong}"


@each_row("name", sorted(SAVES_EXEC))
def test_saving_exec(emulator: WaveEmulator, name: str) -> None:
    random = np.random.default_rng(4)
    for _ in range(10):
        state = state_of(random)
        state.exec_mask = int(random.integers(0, 1 << 63)) << 1
        got = emulator.run(named(name), "gfx942", state)
        new = SAVES_EXEC[name](state.pair(20), state.exec_mask) & ((1 << 64) - 1)
        assert got.exec_mask == new
        assert got.pair(10) == (new if "wrexec" in name else state.exec_mask)
        assert got.scalars[SCC] == (new != 0)


@pytest.mark.parametrize(
    ("name", "register", "zero"),
    [("scc0", SCC, True), ("scc1", SCC, False), ("vccz", VCC, True), ("vccnz", VCC, False), ("execz", EXEC, True),
     ("execnz", EXEC, False)],
)  # fmt: skip
def test_branches(emulator: WaveEmulator, name: str, register: int, zero: bool) -> None:
    for value in (0, 1):
        state = WaveState()
        state.scalars[register] = value
        state.exec_mask = value if register == EXEC else state.exec_mask
        got = emulator.run([*named(f"s_cbranch_{name}"), MOVE, MOVE_TWO], "gfx942", state)
        taken = (value == 0) == zero
        assert (got.scalars[10], got.scalars[11]) == (0 if taken else 1, 2)


def test_jumps(emulator: WaveEmulator) -> None:
    program = [*named("s_branch"), MOVE, MOVE_TWO]
    assert list(emulator.run(program, "gfx942", WaveState()).scalars[10:12]) == [0, 2]
    assert list(emulator.run([*named("s_endpgm"), MOVE], "gfx942", WaveState()).scalars[10:12]) == [0, 0]
    assert list(emulator.run([*named("s_endpgm_saved"), MOVE], "gfx942", WaveState()).scalars[10:12]) == [0, 0]
    got = emulator.run([*named("s_call_b64"), MOVE, MOVE_TWO], "gfx942", WaveState())
    assert (list(got.scalars[10:12]), got.pair(12)) == ([0, 2], 4)
    assert emulator.run([MOVE, *named("s_getpc_b64")], "gfx942", WaveState()).pair(12) == 8
    state = WaveState()
    state.put_pair(20, 8)
    assert list(emulator.run([*named("s_setpc_b64"), MOVE, MOVE_TWO], "gfx942", state).scalars[10:12]) == [0, 2]
    got = emulator.run([*named("s_swappc_b64"), MOVE, MOVE_TWO], "gfx942", state)
    assert (list(got.scalars[10:12]), got.pair(12)) == ([0, 2], 4)


def test_relative_registers(emulator: WaveEmulator) -> None:
    state = state_of(np.random.default_rng(5))
    state.scalars[M0] = 6
    got = {name: emulator.run(named(name), "gfx942", state) for name in
           ("s_movrels_b32", "s_movrels_b64", "s_movreld_b32", "s_movreld_b64")}  # fmt: skip
    assert got["s_movrels_b32"].scalars[10] == state.scalars[26]
    assert got["s_movrels_b64"].pair(10) == state.pair(26)
    assert got["s_movreld_b32"].scalars[16] == state.scalars[20]
    assert got["s_movreld_b64"].pair(16) == state.pair(20)


def test_relative_vector_registers(emulator: WaveEmulator) -> None:
    state = WaveState(np.arange(512 * 64, dtype=np.uint32).reshape(512, 64))
    state.scalars[20] = 7
    move = next(line for line in recorded(DATA, "gfx942") if line.startswith("v_mov_b32_e32 v10, v20 "))
    program = [*named("s_set_gpr_idx_on"), move, *named("s_set_gpr_idx_off")]
    got = emulator.run(program, "gfx942", state)
    assert np.array_equal(got.vectors[10], state.vectors[27])


def test_mode(emulator: WaveEmulator) -> None:
    state = WaveState(mode=DENORMALS)
    state.scalars[20] = 0x3
    program = [
        line_of("s_setreg_b32 "),
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 4), 5 // BA001A01 00000005",
        line_of("s_getreg_b32 s10"),
        line_of("s_getreg_b32 s11"),
    ]
    got = emulator.run(program, "gfx942", state)
    assert got.scalars[10] == 0x530
    assert got.scalars[11] == 0x530 >> 2 & 31


def test_rounding_other_than_to_nearest_even_is_refused(emulator: WaveEmulator) -> None:
    line = line_of("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 5")
    emulator.run([line], "gfx942", WaveState(), reports=True)
    assert '"unknown-instruction"' in emulator.finding()


@each_row(
    "name",
    ["s_nop", "s_sleep", "s_setprio", "s_barrier", "s_waitcnt", "s_sethalt", "s_icache_inv", "s_incperflevel",
     "s_decperflevel", "s_ttracedata", "s_wakeup", "s_sendmsg"],
)  # fmt: skip
def test_nothing_changes(emulator: WaveEmulator, name: str) -> None:
    state = state_of(np.random.default_rng(6))
    got = emulator.run([*named(name), MOVE], "gfx942", state)
    state.scalars[10] = 1
    state.put_pair(EXEC, state.exec_mask)
    assert np.array_equal(got.scalars, state.scalars)
