"""Counts of each instruction on the emulator: the rules that it gets, and its counts as values."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ckwatch.codeobject.lds_banks import WIDTHS, bank_rule
from ckwatch.model.instruction_counts import InstructionCounts, KernelCounts, WorstRequest

CACHE_LINE_BYTES = {"gfx90a": 64}
"""Bytes of a line of the vector L1 cache, where it is not 128: 64 by the white paper "AMD CDNA 2 Architecture"; 128 by
"AMD CDNA 3 Architecture", which doubled it, and by "RDNA Architecture" for RDNA's L0."""

USUAL_LINE_BYTES = 128
_PHASES = 8
_LANES = 64
COUNT_FIELDS = 11
"""Of an instruction: those of `InstructionCounts`, and the address of its worst request or 0."""


class _BankRule(ctypes.Structure):
    _fields_ = (("banks", ctypes.c_uint32), ("phase_count", ctypes.c_uint32), ("phases", ctypes.c_uint64 * _PHASES))


class CountingRules(ctypes.Structure):
    """`CountingRules` of native/counting.h."""

    _fields_ = (("line_bytes", ctypes.c_uint32), ("rules", _BankRule * len(WIDTHS) * 2))


class _WorstRequest(ctypes.Structure):
    """`WorstRequest` of native/counting.h."""

    _fields_ = (
        ("lanes", ctypes.c_uint64),
        ("at", ctypes.c_uint64 * _LANES),
        *((name, ctypes.c_uint32) for name in ("size_bytes", "banks", "cost", "least")),
    )


def cache_line_bytes(arch: str) -> int:
    return CACHE_LINE_BYTES.get(arch.partition(":")[0], USUAL_LINE_BYTES)


def counting_rules(arch: str) -> CountingRules:
    """The rules of an arch whose kernels have its usual wave size: RDNA's of 32 lanes, others of 64."""
    lanes = 32 if arch.startswith("gfx1") else 64
    rules = CountingRules(line_bytes=cache_line_bytes(arch))
    for writes in (False, True):
        for place, size_bytes in enumerate(WIDTHS):
            rule = bank_rule(arch, lanes, writes=writes, size_bytes=size_bytes)
            masks = [sum(1 << lane for lane in phase) for phase in rule.phases]
            rules.rules[writes][place] = _BankRule(rule.banks, len(masks), (ctypes.c_uint64 * _PHASES)(*masks))
    return rules


def declare_counting(library: ctypes.CDLL) -> None:
    """The types of the library's functions. Raises AttributeError where it has none."""
    number, count, pointer = ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p
    library.ckwatch_emulator_count.argtypes = (ctypes.POINTER(CountingRules),)
    library.ckwatch_emulator_count.restype = None
    library.ckwatch_emulator_counted_kernels.restype = number
    library.ckwatch_emulator_counted_kernel.argtypes = (number, ctypes.POINTER(number), count, count, count)
    library.ckwatch_emulator_counted_kernel.restype = ctypes.c_char_p
    library.ckwatch_emulator_read_counts.argtypes = (number, pointer, pointer)
    library.ckwatch_emulator_read_counts.restype = None


def counts_of(row: np.ndarray[Any, np.dtype[np.uint64]]) -> InstructionCounts:
    """The counts of an instruction's fields."""
    return InstructionCounts(*map(int, row[:-1]))


def worst_of(row: np.ndarray[Any, np.dtype[np.uint64]]) -> WorstRequest | None:
    """The worst request of an instruction's fields, as long as the library has it; None without one."""
    if not row[-1]:
        return None
    found = _WorstRequest.from_address(int(row[-1]))
    lanes = tuple(lane for lane in range(_LANES) if found.lanes >> lane & 1)
    first = 0 if found.banks else min(found.at[lane] for lane in lanes)
    return WorstRequest(
        lanes=lanes,
        places=tuple(found.at[lane] - first for lane in lanes),
        size_bytes=found.size_bytes,
        banks=found.banks,
        cost=found.cost,
        least=found.least,
    )


def read_counts(library: ctypes.CDLL) -> tuple[KernelCounts, ...]:
    """The counts since counting began, by kernels, the one that was launched first at first."""
    found = []
    for kernel in range(library.ckwatch_emulator_counted_kernels()):
        instructions, numbers = ctypes.c_uint32(), [ctypes.c_uint64() for _ in range(3)]
        name = library.ckwatch_emulator_counted_kernel(kernel, ctypes.byref(instructions), *map(ctypes.byref, numbers))
        addresses = np.zeros(instructions.value, np.uint64)
        counts = np.zeros((instructions.value, COUNT_FIELDS), np.uint64)
        library.ckwatch_emulator_read_counts(kernel, addresses.ctypes.data, counts.ctypes.data)
        launches, workgroups, all_workgroups = (one.value for one in numbers)
        issued = {int(addresses[row]): counts[row] for row in np.flatnonzero(counts[:, 0])}
        found.append(
            KernelCounts(
                symbol=name.decode(errors="replace"),
                launches=launches,
                workgroups=workgroups,
                all_workgroups=all_workgroups,
                instructions={address: counts_of(row) for address, row in issued.items()},
                worst={address: one for address, row in issued.items() if (one := worst_of(row)) is not None},
            )
        )
    return tuple(reversed(found))
