"""What the emulator counts of each instruction: the rules that it gets, and its counts as values."""

from __future__ import annotations

import ctypes

import numpy as np

from ckwatch.codeobject.lds_banks import WIDTHS, bank_rule
from ckwatch.model.instruction_counts import InstructionCounts, KernelCounts

CACHE_LINE_BYTES = {"gfx90a": 64}
"""Bytes of a line of the vector L1 cache, where it is not 128: 64 by the white paper "AMD CDNA 2 Architecture"; 128 by
"AMD CDNA 3 Architecture", which doubled it, and by "RDNA Architecture" for RDNA's L0."""

USUAL_LINE_BYTES = 128
_PHASES = 8
_FIELDS = 10


class _BankRule(ctypes.Structure):
    _fields_ = (("banks", ctypes.c_uint32), ("phase_count", ctypes.c_uint32), ("phases", ctypes.c_uint64 * _PHASES))


class CountingRules(ctypes.Structure):
    """`CountingRules` of native/counting.h."""

    _fields_ = (("line_bytes", ctypes.c_uint32), ("rules", _BankRule * len(WIDTHS) * 2))


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


def read_counts(library: ctypes.CDLL) -> tuple[KernelCounts, ...]:
    """What was counted since counting began, by kernels, the one that was launched first at first."""
    found = []
    for kernel in range(library.ckwatch_emulator_counted_kernels()):
        instructions, told = ctypes.c_uint32(), [ctypes.c_uint64() for _ in range(3)]
        name = library.ckwatch_emulator_counted_kernel(kernel, ctypes.byref(instructions), *map(ctypes.byref, told))
        addresses = np.zeros(instructions.value, np.uint64)
        counts = np.zeros((instructions.value, _FIELDS), np.uint64)
        library.ckwatch_emulator_read_counts(kernel, addresses.ctypes.data, counts.ctypes.data)
        launches, workgroups, all_workgroups = (one.value for one in told)
        found.append(
            KernelCounts(
                symbol=name.decode(errors="replace"),
                launches=launches,
                workgroups=workgroups,
                all_workgroups=all_workgroups,
                instructions={
                    int(addresses[row]): InstructionCounts(*map(int, counts[row]))
                    for row in np.flatnonzero(counts[:, 0])
                },
            )
        )
    return tuple(reversed(found))
