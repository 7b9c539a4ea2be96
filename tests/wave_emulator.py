"""One wave of the emulator: registers in, a few instructions, registers out."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

LANES = 64
VCC, M0, EXEC, SCC = 106, 124, 126, 128
ARCHITECTURES = ("gfx90a", "gfx942", "gfx950")
DENORMALS = 0xF0
"""MODE with denormals of all types, as HIP sets it."""
FP16_OVFL = 1 << 23


@dataclass
class WaveState:
    """Rows of `vectors` are v0…v255 and a0…a255; `scalars` has VCC, M0, EXEC and SCC at their places."""

    vectors: Words = field(default_factory=lambda: np.zeros((512, LANES), np.uint32))
    scalars: Words = field(default_factory=lambda: np.zeros(160, np.uint32))
    lds: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    exec_mask: int = (1 << LANES) - 1
    mode: int = DENORMALS

    def pair(self, index: int) -> int:
        """Two scalar registers as one number."""
        return int(self.scalars[index]) | int(self.scalars[index + 1]) << 32

    def put_pair(self, index: int, value: int) -> None:
        self.scalars[index] = value & 0xFFFFFFFF
        self.scalars[index + 1] = value >> 32

    def copy(self) -> WaveState:
        return WaveState(self.vectors.copy(), self.scalars.copy(), self.lds.copy(), self.exec_mask, self.mode)


class WaveEmulator:
    """The library, for single waves."""

    def __init__(self, library: Path) -> None:
        native = ctypes.CDLL(str(library))
        self._run = native.ckwatch_emulator_run_wave
        self._run.argtypes = [
            *(ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32),
            *(ctypes.c_uint32, ctypes.c_int),
        ]
        self._finding = native.ckwatch_emulator_finding
        self._finding.argtypes, self._finding.restype = [ctypes.c_uint32], ctypes.c_void_p
        self._free = native.ckwatch_emulator_free
        self._free.argtypes = [ctypes.c_void_p]
        self._instruction = native.ckwatch_emulator_instruction
        self._instruction.argtypes, self._instruction.restype = [ctypes.c_int, ctypes.c_uint32], ctypes.c_char_p

    def run(self, lines: list[str], architecture: str, state: WaveState, *, checked: bool = False) -> WaveState:
        """The state after the recorded lines (`text // words`)."""
        after = state.copy()
        after.put_pair(EXEC, state.exec_mask)
        status = self._run(
            disassembly_of(lines).encode(),
            ARCHITECTURES.index(architecture),
            after.vectors.ctypes.data,
            after.scalars.ctypes.data,
            after.lds.ctypes.data,
            after.lds.size,
            state.mode,
            checked,
        )
        assert status == 0, f"{lines}: {self.finding() if status == 1 else 'cannot be decoded'}"
        after.exec_mask = after.pair(EXEC)
        return after

    def finding(self) -> str:
        """The first one of the last run, as JSON."""
        text = self._finding(0)
        if not text:
            return ""
        try:
            return ctypes.string_at(text).decode()
        finally:
            self._free(text)

    def instructions(self, table: int) -> list[str]:
        """The names of a table: 0 vector, 1 scalar, 2 matrix, 3 memory."""
        names: list[str] = []
        while name := self._instruction(table, len(names)):
            names.append(name.decode())
        return names


def disassembly_of(lines: list[str]) -> str:
    """As llvm-objdump prints it."""
    address, printed = 0, []
    for line in lines:
        text, _, words = line.partition(" // ")
        printed.append(f"\t{text} // {address:012X}: {words}")
        address += 4 * len(words.split())
    return "\n".join(printed) + "\n"


def recorded(folder: Path, architecture: str) -> list[str]:
    """The lines of a target, one instruction each."""
    return (folder / f"{architecture}.txt").read_text().splitlines()
