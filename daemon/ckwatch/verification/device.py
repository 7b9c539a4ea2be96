"""The emulated device: our libamdhip64, loaded into this process before the artifact that is linked with it.

It is no `DeviceRuntime`, and no kind of device that `selection` knows: nothing on it can be timed.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Bytes
from ckwatch.bench.runtimes.hip_api import HIP
from ckwatch.model.instruction_counts import KernelCounts
from ckwatch.model.verification import INSTRUCTION_LIMIT
from ckwatch.verification.counting import CountingRules, declare_counting, read_counts

_TO_DEVICE, _FROM_DEVICE = 1, 2  # hipMemcpyKind
_NON_BLOCKING = 1
OBJDUMP_VARIABLE = "CKWATCH_EMULATOR_OBJDUMP"
ARCH_VARIABLE = "CKWATCH_EMULATOR_ARCH"
LIMIT_VARIABLE = "CKWATCH_EMULATOR_LIMIT"
ERRORS_VARIABLE = "CKWATCH_EMULATOR_ERRORS"
"""A descriptor for its last words: standard error is captured while a kernel runs."""


class EmulatedDevice:
    """The loaded library: memory of the device, and what its checks found. Raises BenchmarkError.

    `objdump` is the disassembler that it runs, `arch` the device that it says it is, `instruction_limit` when a
    workgroup counts as one without end.
    """

    def __init__(self, library: str, objdump: str, arch: str, instruction_limit: int = INSTRUCTION_LIMIT) -> None:
        self._kernels: dict[tuple[int, str], tuple[bytes, int]] = {}
        self._stream = 0
        os.environ |= {OBJDUMP_VARIABLE: objdump, ARCH_VARIABLE: arch.partition(":")[0]}
        os.environ |= {LIMIT_VARIABLE: str(instruction_limit), ERRORS_VARIABLE: str(os.dup(2))}
        try:
            # An artifact asks for it by its name, and gets what has this name and is loaded, whatever the machine has.
            self._library = ctypes.CDLL(library)
            self._declare()
        except (OSError, AttributeError) as error:
            raise BenchmarkError(FailureKind.BROKEN, f"the emulator cannot be loaded: {error}") from None

    def _declare(self) -> None:
        library, pointer, size = self._library, ctypes.c_void_p, ctypes.c_size_t
        counter = ctypes.POINTER(ctypes.c_uint64)
        for name, result, arguments in (
            ("hipMalloc", ctypes.c_int, (ctypes.POINTER(pointer), size)),
            ("hipFree", ctypes.c_int, (pointer,)),
            ("hipMemcpy", ctypes.c_int, (pointer, pointer, size, ctypes.c_int)),
            ("hipDeviceSynchronize", ctypes.c_int, ()),
            ("hipStreamCreateWithFlags", ctypes.c_int, (ctypes.POINTER(pointer), ctypes.c_uint)),
            ("hipStreamSynchronize", ctypes.c_int, (pointer,)),
            ("hipGetLastError", ctypes.c_int, ()),
            ("hipGetErrorName", ctypes.c_char_p, (ctypes.c_int,)),
            ("hipModuleLoadData", ctypes.c_int, (ctypes.POINTER(pointer), ctypes.c_char_p)),
            ("hipModuleGetFunction", ctypes.c_int, (ctypes.POINTER(pointer), pointer, ctypes.c_char_p)),
            (
                "hipModuleLaunchKernel",
                ctypes.c_int,
                (pointer, *[ctypes.c_uint] * 7, pointer, ctypes.POINTER(pointer), pointer),
            ),
            ("ckwatch_emulator_reserve", ctypes.c_int, (ctypes.POINTER(pointer), ctypes.c_uint64)),
            ("ckwatch_emulator_mark_undefined", None, (pointer, ctypes.c_uint64)),
            ("ckwatch_emulator_undefined", None, (pointer, ctypes.c_uint64, pointer)),
            ("ckwatch_emulator_set_checked", None, (ctypes.c_int,)),
            ("ckwatch_emulator_set_traced", None, (ctypes.c_int,)),
            ("ckwatch_emulator_set_judged", None, (ctypes.c_int,)),
            ("ckwatch_emulator_hold_others", None, (pointer,)),
            ("ckwatch_emulator_choose", None, (ctypes.c_uint32, ctypes.c_uint64)),
            ("ckwatch_emulator_begin_sample", None, (ctypes.c_uint32, ctypes.c_uint64)),
            ("ckwatch_emulator_end_sample", ctypes.c_char_p, ()),
            ("ckwatch_emulator_sampled", None, (pointer, ctypes.c_uint64, pointer)),
            ("ckwatch_emulator_whole_cost", ctypes.c_uint64, ()),
            ("ckwatch_emulator_watch", None, (pointer, ctypes.c_uint64)),
            ("ckwatch_emulator_counts", None, (counter, counter, counter)),
            ("ckwatch_emulator_clear", None, ()),
            ("ckwatch_emulator_problem", ctypes.c_char_p, ()),
            ("ckwatch_emulator_finding_count", ctypes.c_uint32, ()),
            ("ckwatch_emulator_finding", pointer, (ctypes.c_uint32,)),
            ("ckwatch_emulator_free", None, (pointer,)),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    def allocate(self, size_bytes: int) -> int:
        """Memory of exactly this size, aligned to 256 bytes."""
        address = ctypes.c_void_p()
        self._call("hipMalloc", ctypes.byref(address), max(size_bytes, 1))
        return address.value or 0

    def reserve(self, size_bytes: int) -> int:
        """Memory as of `allocate` that may be more than this machine has, as long as little of it is touched."""
        address = ctypes.c_void_p()
        self._call("ckwatch_emulator_reserve", ctypes.byref(address), max(size_bytes, 1))
        return address.value or 0

    def free(self, address: int) -> None:
        self._call("hipFree", address)

    def upload(self, address: int, data: Bytes) -> None:
        """Write memory, which defines it."""
        self._call("hipMemcpy", address, data.ctypes.data, data.nbytes, _TO_DEVICE)

    def download(self, address: int, data: Bytes) -> None:
        """Read memory, written or not."""
        self._call("hipMemcpy", data.ctypes.data, address, data.nbytes, _FROM_DEVICE)

    def kernel(self, code_object: bytes, symbol: str) -> int:
        """The kernel of a code object, which is loaded once."""
        key = (id(code_object), symbol)  # by identity, which the reference keeps
        if key not in self._kernels:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self._call("hipModuleLoadData", ctypes.byref(module), code_object)
            self._call("hipModuleGetFunction", ctypes.byref(function), module, symbol.encode())
            self._kernels[key] = (code_object, function.value or 0)
        return self._kernels[key][1]

    def launch(self, kernel: int, extents: Sequence[int], dynamic_lds: int, arguments: Sequence[bytes]) -> None:
        """Launch a kernel: `extents` of the grid, in workgroups, and of the block; its arguments' bytes in order."""
        copies = [ctypes.create_string_buffer(one, len(one)) for one in arguments]
        pointers = (ctypes.c_void_p * len(copies))(*map(ctypes.addressof, copies))
        self._call("hipModuleLaunchKernel", kernel, *extents, dynamic_lds, None, pointers, None)

    def mark_undefined(self, address: int, size_bytes: int) -> None:
        """From now on a kernel must write this memory before it reads it."""
        self._library.ckwatch_emulator_mark_undefined(address, size_bytes)

    def undefined(self, address: int, size_bytes: int) -> npt.NDArray[np.bool_]:
        """Which bytes nothing has written since they were marked."""
        found = np.empty(size_bytes, np.uint8)
        self._library.ckwatch_emulator_undefined(address, size_bytes, found.ctypes.data)
        return found.astype(np.bool_)

    def configure(
        self, *, checked: bool, traced: bool, judged: bool = False, workgroups: int | None, seed: int
    ) -> None:
        """How launches run from now on; `traced`: report where non-finite values arise, `judged`: reads of clocks, and
        sleep."""
        self._library.ckwatch_emulator_set_judged(judged)
        self._library.ckwatch_emulator_set_checked(checked)
        self._library.ckwatch_emulator_set_traced(traced)
        self._library.ckwatch_emulator_choose(workgroups or 0, seed)

    def count(self, rules: CountingRules | None) -> None:
        """From now on launches are counted, instruction by instruction, and not checked; no longer with None."""
        declare_counting(self._library)
        self._library.ckwatch_emulator_count(None if rules is None else ctypes.byref(rules))

    def counts(self) -> tuple[KernelCounts, ...]:
        """Return what was counted."""
        return read_counts(self._library)

    @contextmanager
    def others_held_back(self) -> Iterator[int]:
        """Work on other streams than the one that it gives begins only when something waits for it, or at the end."""
        if not self._stream:
            stream = ctypes.c_void_p()
            self._call("hipStreamCreateWithFlags", ctypes.byref(stream), _NON_BLOCKING)
            self._stream = stream.value or 0
        self._library.ckwatch_emulator_hold_others(self._stream)
        try:
            yield self._stream
        finally:
            self._library.ckwatch_emulator_hold_others(None)

    @staticmethod
    def bytes_at(address: int, size_bytes: int) -> bytes:
        """Return the bytes there now, whatever is still to be done on any stream."""
        return ctypes.string_at(address, size_bytes)

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for launches, all or those on a stream. Raises what they ended with."""
        if stream is None:
            self._call("hipDeviceSynchronize")
        else:
            self._call("hipStreamSynchronize", stream)
        error = self._library.hipGetLastError()
        if error:
            raise self._failure("a launch", error)

    def executed(self) -> int:
        """Instructions that waves of all launches since `clear` have executed."""
        executed = ctypes.c_uint64()
        self._library.ckwatch_emulator_counts(ctypes.byref(executed), None, None)
        return executed.value

    def workgroups(self) -> tuple[int, int]:
        """Return how many workgroups of all launches since `clear` were computed, and how many there were."""
        computed, all_of_them = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.ckwatch_emulator_counts(None, ctypes.byref(computed), ctypes.byref(all_of_them))
        return computed.value, all_of_them.value

    def whole_cost(self) -> int:
        """Return the instructions of all workgroups since `clear`, as many as the computed ones had, by their costs."""
        return int(self._library.ckwatch_emulator_whole_cost())

    def begin_sample(self, workgroups: int, seed: int) -> None:
        """Compute about so many workgroups of each launch from now on: the corners of the grid, and some between."""
        self._library.ckwatch_emulator_begin_sample(workgroups, seed)

    def end_sample(self) -> str:
        """End it, and return why all workgroups are needed; empty if each did what it does among all of them."""
        sentence: bytes | None = self._library.ckwatch_emulator_end_sample()
        return (sentence or b"").decode()

    def sampled(self, address: int, size_bytes: int) -> npt.NDArray[np.bool_]:
        """Return which bytes a kernel of the last sample has written."""
        found = np.empty(size_bytes, np.uint8)
        self._library.ckwatch_emulator_sampled(address, size_bytes, found.ctypes.data)
        return found.astype(np.bool_)

    def watch(self, address: int, size_bytes: int) -> None:
        """Have later launches report their last writer of this memory as a finding; of none with a size of 0."""
        self._library.ckwatch_emulator_watch(address, size_bytes)

    def problem(self) -> str:
        """Why the artifact's device code cannot be executed at all; empty if it can."""
        sentence: bytes | None = self._library.ckwatch_emulator_problem()
        return (sentence or b"").decode(errors="replace")

    def findings(self) -> list[Mapping[str, Any]]:
        """Return the findings since `clear`, in the form of native/findings.c."""
        found = []
        for number in range(self._library.ckwatch_emulator_finding_count()):
            text = self._library.ckwatch_emulator_finding(number)
            if text:
                found.append(json.loads(ctypes.string_at(text)))
                self._library.ckwatch_emulator_free(text)
        return found

    def clear(self) -> None:
        """Forget findings, counts and errors."""
        self._library.ckwatch_emulator_clear()
        self._library.hipGetLastError()

    def _call(self, function: str, *arguments: Any) -> None:
        error = getattr(self._library, function)(*arguments)
        if error:
            self._library.hipGetLastError()
            raise self._failure(function, error)

    def _failure(self, function: str, error: int) -> BenchmarkError:
        name = (self._library.hipGetErrorName(error) or b"?").decode(errors="replace")
        kind, meaning = HIP.kind_of(name)
        return BenchmarkError(kind, f"{meaning} ({function}: {name})")
