"""AMD devices: `hip:N`, through hip-python.

HIP must not be initialised in a process that forks afterwards; nothing here does, and whoever opens a device must not.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ckwatch.bench.runtimes import hip_calls, hip_devices, hip_processes
from ckwatch.bench.runtimes.amdsmi_readings import Readings
from ckwatch.bench.runtimes.hip_calls import binding, call
from ckwatch.bench.runtimes.hip_errors import AFTER_A_LAUNCH
from ckwatch.bench.runtimes.hip_gate import Gate
from ckwatch.bench.runtimes.hip_gemm import blas_gemm
from ckwatch.bench.runtimes.hip_library import Candidate, Vendor, vendors
from ckwatch.bench.runtimes.protocol import Bytes, Event, Launch, RuntimeFailure
from ckwatch.timing.problem import Problem
from ckwatch.timing.report import DeviceFacts, FailureKind, Reading

EVENTS: Mapping[int, str] = {0x20000000: "without system fence", 0: "with system fence"}
"""Flags of events, the better first. By default HIP writes back and invalidates the L2 cache at each event, which would
be timed and would leave no cache hot; `hipEventDisableSystemFence` (hip_runtime_api.h, ROCm 5.7 and newer) does not."""

_TRIALS = 3
"""Launches of each of the library's candidates, for the choice between them."""


def find() -> tuple[DeviceFacts, ...]:
    """All AMD devices, the best first.

    RuntimeFailure: NO_DRIVER without HIP or hip-python, or with one that does not fit; NO_DEVICE when HIP sees none.
    """
    return hip_devices.find()


def open(device: DeviceFacts, *, gate: bool = True) -> HipRuntime:  # noqa: A001  # the protocol's word
    """Open a device that `find` found; `gate` off: streams are never held back.

    RuntimeFailure as `find`, and NO_DEVICE when the device is not there any more.
    """
    hip_calls.check_version()
    ordinal = hip_devices.ordinal_of(device)
    if ordinal is None:
        raise RuntimeFailure(FailureKind.NO_DEVICE, f"{device.description} at {device.pci} is not there any more")
    return HipRuntime(device, ordinal, gate=gate)


class HipRuntime:
    """An AMD device that is open (`protocol.Runtime`)."""

    def __init__(self, facts: DeviceFacts, ordinal: int, *, gate: bool) -> None:
        self._facts = facts
        self._memory: set[int] = set()
        self._events: list[int] = []
        self._vendors: list[Vendor] | None = None
        self._library_name = ""
        call("hipSetDevice", ordinal)
        self._event_flags = _event_flags()
        self._gate = Gate(ordinal, wanted=gate)
        self._stream = int(call("hipStreamCreateWithFlags", binding().hipStreamNonBlocking))
        self._readings = Readings(facts.pci or "")
        hip_calls.forget_last_error()  # what was tried and refused until now is no failure of a launch

    @property
    def facts(self) -> DeviceFacts:
        return self._facts

    @property
    def stream(self) -> int:
        return self._stream

    @property
    def versions(self) -> dict[str, str]:
        """Versions; and how the stream is gated (`gate`) and what events do (`events`), which timings depend on."""
        return {
            "runtime": self._facts.runtime,
            "driver": self._facts.driver,
            "hip-python": _binding_version(),
            "amdsmi": self._readings.version,
            "gate": self._gate.state,
            "events": EVENTS[self._event_flags],
        }

    def free_memory_bytes(self) -> int:
        return int(call("hipMemGetInfo")[0])

    def allocate(self, size_bytes: int) -> int:
        name, results = hip_calls.status("hipMalloc", max(size_bytes, 1))
        if name == "hipErrorOutOfMemory":
            hip_calls.forget_last_error()
            free, total = call("hipMemGetInfo")
            raise RuntimeFailure(
                FailureKind.NO_MEMORY,
                f"{_mib(size_bytes)} of device memory are wanted, {_mib(free)} of {_mib(total)} are free",
                "a smaller shape, or a device that nobody else uses",
            )
        if name != "hipSuccess":
            raise hip_calls.failure("hipMalloc", name)
        address = int(results[0])
        self._memory.add(address)
        return address

    def free(self, address: int) -> None:
        self._memory.discard(address)
        call("hipFree", address)

    def upload(self, address: int, data: Bytes) -> None:
        self.synchronize()
        call("hipMemcpy", address, _address(data), data.nbytes, binding().hipMemcpyKind.hipMemcpyHostToDevice)

    def download(self, address: int, data: Bytes) -> None:
        self.synchronize()
        call("hipMemcpy", _address(data), address, data.nbytes, binding().hipMemcpyKind.hipMemcpyDeviceToHost)

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        call("hipMemsetAsync", address, value, size_bytes, self._stream)

    def event(self) -> Event:
        event = int(call("hipEventCreateWithFlags", self._event_flags))
        self._events.append(event)
        return event

    def record(self, event: Event) -> None:
        call("hipEventRecord", event, self._stream)

    def elapsed_us(self, begin: Event, end: Event) -> float:
        name, results = hip_calls.status("hipEventElapsedTime", begin, end)
        if name == "hipErrorNotReady":
            self.synchronize()
            name, results = hip_calls.status("hipEventElapsedTime", begin, end)
        if name != "hipSuccess":
            raise hip_calls.failure("hipEventElapsedTime", name)
        return float(results[0]) * 1000.0

    def wait(self, event: Event) -> None:
        call("hipEventSynchronize", event)
        self._require_launched()

    def synchronize(self) -> None:
        call("hipStreamSynchronize", self._stream)
        self._require_launched()

    def _require_launched(self) -> None:
        # A launch that failed in the artifact is told to nobody but the thread.
        name = hip_calls.last_error()
        if name in AFTER_A_LAUNCH:
            raise hip_calls.failure("a launch", name)

    def gate(self) -> AbstractContextManager[None]:
        return self._gate.closed(self._stream)

    def reading(self) -> Reading:
        return self._readings.read()

    def others(self) -> tuple[str, ...]:
        return hip_processes.others(self._facts.pci or "")

    def library(self, problem: Problem, addresses: dict[str, int]) -> Launch | None:
        """The fastest of hipBLASLt's and rocBLAS's candidates, by a short trial of each on the buffers."""
        gemm = blas_gemm(problem)
        if gemm is None:
            return None
        tried: list[tuple[float, Candidate]] = []
        for vendor in self._started():
            for candidate in vendor.candidates(gemm, addresses):
                took_us = self._trial(candidate)
                if took_us is not None:
                    tried.append((took_us, candidate))
        hip_calls.forget_last_error()
        if not tried:
            return None
        best = min(tried, key=lambda one: one[0])[1]
        self._library_name = best.library
        return best.launch

    @property
    def library_name(self) -> str:
        """With its version: that of the last `library`, before that those that are there."""
        return self._library_name or ", ".join(vendor.name for vendor in self._started())

    def loaded(self) -> None:
        """To be called when an artifact has been loaded: RuntimeFailure (UNLOADABLE) when it brought another
        libamdhip64 with it, whose streams are not those of this one."""
        libraries = _mapped("libamdhip64.so")
        if len(libraries) > 1:
            raise RuntimeFailure(
                FailureKind.UNLOADABLE,
                "the artifact is linked with another HIP than the one that is loaded",
                "compile it with the ROCm whose libamdhip64.so is used here, or set ROCM_PATH to the one that it needs",
                "\n".join(libraries),
            )

    def close(self) -> None:
        with contextlib.suppress(RuntimeFailure):
            call("hipStreamSynchronize", self._stream)
        for vendor in self._vendors or ():
            vendor.close()
        self._vendors = []
        for event in self._events:
            hip_calls.status("hipEventDestroy", event)
        self._events.clear()
        for address in self._memory:
            hip_calls.status("hipFree", address)
        self._memory.clear()
        self._gate.close()
        if self._stream:
            hip_calls.status("hipStreamDestroy", self._stream)
            self._stream = 0
        self._readings.close()

    def _started(self) -> list[Vendor]:
        if self._vendors is None:
            self._vendors = vendors(self._stream, self.allocate)
            hip_calls.forget_last_error()
        return self._vendors

    def _trial(self, candidate: Candidate) -> float | None:
        """Microseconds of `_TRIALS` launches after a first one; None when the library refuses."""
        begin, end = self.event(), self.event()
        try:
            candidate.launch()
            self.synchronize()
            with self.gate():
                self.record(begin)
                for _ in range(_TRIALS):
                    candidate.launch()
                self.record(end)
            self.synchronize()
        except RuntimeFailure as failure:
            if failure.kind is FailureKind.BROKEN:
                return None
            raise RuntimeFailure(FailureKind.LOST, f"{candidate.library}: {failure.message}", failure.hint) from failure
        return self.elapsed_us(begin, end)


def _event_flags() -> int:
    """The best flags of events that this HIP takes."""
    for flags in EVENTS:
        name, results = hip_calls.status("hipEventCreateWithFlags", flags)
        if name == "hipSuccess":
            hip_calls.status("hipEventDestroy", int(results[0]))
            return flags
        if name != "hipErrorInvalidValue":
            raise hip_calls.failure("hipEventCreateWithFlags", name)
    raise hip_calls.failure("hipEventCreateWithFlags", "hipErrorInvalidValue")


def _address(data: Bytes) -> int:
    if not data.flags.c_contiguous:
        raise ValueError("an array that is copied to or from a device must be contiguous")
    return int(data.ctypes.data)


def _mib(size_bytes: Any) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


def _mapped(name: str) -> list[str]:
    """Paths of the libraries of this name that are mapped into this process, each once."""
    lines = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    found = {
        (words[3], words[4]): words[5] for words in lines if len(words) == 6 and Path(words[5]).name.startswith(name)
    }
    return sorted(found.values())


@functools.cache
def _binding_version() -> str:
    try:
        return importlib.metadata.version("rocm-bindings-hip")
    except importlib.metadata.PackageNotFoundError:
        return "?"
