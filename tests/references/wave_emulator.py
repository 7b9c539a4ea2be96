"""One wave of the emulator: registers in, a few instructions, registers out."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ckwatch.verification.counting import counting_rules, declare_counting

Words = NDArray[np.uint32]
Bytes = NDArray[np.uint8]
Counts = NDArray[np.uint64]

LANES = 64
VCC, M0, EXEC, SCC = 106, 124, 126, 128
SHARED_BASE, PRIVATE_BASE = 132, 136
ARCHITECTURES = ("gfx90a", "gfx942", "gfx950")
ALL_ARCHITECTURES = (*ARCHITECTURES, "gfx1100", "gfx1201", "gfx1250")
"""As Arch of machine.h has them."""
DENORMALS = 0xF0
"""MODE with denormals of all types, as HIP sets it."""
FP16_OVFL = 1 << 23
MEMORY_ROOM, MEMORY_GUARD, GUARD = 1 << 16, 1 << 14, 0xA5
"""Of memory, and how much of it is kept as it is before what waves may access."""


@dataclass
class WaveState:
    """Rows of `vectors` are v0…v255 and a0…a255; `scalars` has VCC, M0, EXEC and SCC at their places.

    `memory` is where WaveEmulator.memory_address says, `undefined` has a 1 for each of its bytes that nothing has
    written, and `scratch` a row for each lane.
    """

    vectors: Words = field(default_factory=lambda: np.zeros((512, LANES), np.uint32))
    scalars: Words = field(default_factory=lambda: np.zeros(160, np.uint32))
    lds: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    memory: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    undefined: Bytes = field(default_factory=lambda: np.zeros(0, np.uint8))
    scratch: Bytes = field(default_factory=lambda: np.zeros((LANES, 0), np.uint8))
    exec_mask: int = (1 << LANES) - 1
    mode: int = DENORMALS

    def pair(self, index: int) -> int:
        """Two scalar registers as one number."""
        return int(self.scalars[index]) | int(self.scalars[index + 1]) << 32

    def put_pair(self, index: int, value: int) -> None:
        self.scalars[index] = value & 0xFFFFFFFF
        self.scalars[index + 1] = value >> 32

    def copy(self) -> WaveState:
        arrays: dict[str, Any] = {
            name: value.copy() for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        return replace(self, **arrays)


class _SingleWave(ctypes.Structure):
    """SingleWave of single_wave.c."""

    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("vectors", "scalars", "lds", "memory", "undefined", "scratch", "counts")
        ),
        *(
            (name, ctypes.c_uint32)
            for name in ("lds_bytes", "memory_bytes", "scratch_bytes", "mode", "arch", "checked", "traced")
        ),
    ]


class WaveEmulator:
    """The library, for single waves."""

    def __init__(self, library: Path) -> None:
        native = ctypes.CDLL(str(library))
        declare_counting(native)
        self._count = native.ckwatch_emulator_count
        self._run = native.ckwatch_emulator_run_wave
        self._run.argtypes = [ctypes.c_char_p, ctypes.POINTER(_SingleWave)]
        self._memory, self._scratch = np.zeros(MEMORY_ROOM, np.uint8), np.zeros(MEMORY_ROOM, np.uint8)
        self.memory_address = -(-(self._memory.ctypes.data + MEMORY_GUARD) // 4096) * 4096
        self.scratch_address = -(-self._scratch.ctypes.data // 4096) * 4096
        self._check_paths = native.ckwatch_emulator_check_paths
        self._check_paths.argtypes, self._check_paths.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_bool
        self._finding = native.ckwatch_emulator_finding
        self._finding.argtypes, self._finding.restype = [ctypes.c_uint32], ctypes.c_void_p
        self._free = native.ckwatch_emulator_free
        self._free.argtypes = [ctypes.c_void_p]
        self._instruction = native.ckwatch_emulator_instruction
        self._instruction.argtypes, self._instruction.restype = [ctypes.c_int, ctypes.c_uint32], ctypes.c_char_p

    def run(
        self,
        lines: list[str],
        architecture: str,
        state: WaveState,
        *,
        checked: bool = False,
        reports: bool = False,
        traced: bool = False,
        counts: Counts | None = None,
    ) -> WaveState:
        """The state after the recorded lines (`text // words`), which may yield findings if it `reports`.

        `counts`: `COUNT_FIELDS` of each line, to which is added what its accesses cost.
        """
        after = state.copy()
        after.put_pair(EXEC, state.exec_mask)
        start = self.memory_address - self._memory.ctypes.data
        memory = self._memory[start : start + state.memory.size]
        start = self.scratch_address - self._scratch.ctypes.data
        scratch = self._scratch[start : start + state.scratch.size].view(np.uint32).reshape(-1, LANES)
        self._memory[:] = GUARD
        memory[:] = state.memory
        scratch[:] = state.scratch.copy().view(np.uint32).T  # dwords of the lanes next to each other
        wave = _SingleWave(
            after.vectors.ctypes.data, after.scalars.ctypes.data, after.lds.ctypes.data, self.memory_address,
            after.undefined.ctypes.data if after.undefined.size else None, self.scratch_address,
            None if counts is None else counts.ctypes.data, after.lds.size,
            memory.size, scratch.size // LANES * 4, state.mode, ALL_ARCHITECTURES.index(architecture), checked, traced,
        )  # fmt: skip
        if counts is not None:
            self._count(counting_rules(architecture))
        status = self._run(disassembly_of(lines).encode(), wave)
        after.memory = memory.copy()
        after.scratch = np.ascontiguousarray(scratch.T).view(np.uint8)
        memory[:] = GUARD
        assert (self._memory == GUARD).all(), f"{lines}: memory beyond the allocation is written"
        assert status == 0 or (status == 1 and reports), f"{lines}: {self.finding() or 'cannot be decoded'}"
        after.exec_mask = after.pair(EXEC)
        return after

    def check_paths(self, lines: list[str], architecture: str) -> list[dict[str, Any]]:
        """The findings on all paths of the recorded lines, which are not executed."""
        assert self._check_paths(disassembly_of(lines).encode(), ALL_ARCHITECTURES.index(architecture)), lines
        return [json.loads(text) for text in takewhile(bool, map(self.finding, count()))]

    def finding(self, number: int = 0) -> str:
        """One of the last run, as JSON; empty after the last."""
        text = self._finding(number)
        if not text:
            return ""
        try:
            return ctypes.string_at(text).decode()
        finally:
            self._free(text)

    def instructions(self, table: int) -> list[str]:
        """The names of a table: 0 vector, 1 scalar, 2 matrix, 3 memory, 4 gfx1100."""
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
