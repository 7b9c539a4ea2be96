"""Common part of HIP's and CUDA's runtimes: an open device with a gated stream. Nothing is given back: the end of the
process does that, whatever state it is in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast

from ckwatch.bench.report import DeviceReading
from ckwatch.bench.runtimes.device_runtime import DeviceEvent
from ckwatch.bench.runtimes.monitor import VendorReadings
from ckwatch.bench.runtimes.stream_gate import GateSignal, StreamGate
from ckwatch.bench.runtimes.vendor_api import VendorApi
from ckwatch.model.gpu_specs import DeviceFacts

_US_PER_MS = 1e3


class GpuRuntime:
    """A device whose context is the thread's, with a stream (`DeviceRuntime`)."""

    fill_function = ""
    copy_function = ""

    def __init__(
        self,
        facts: DeviceFacts,
        api: VendorApi,
        readings: VendorReadings,
        signal: GateSignal | str,
        event_flags: int = 0,
    ) -> None:
        self.facts = facts
        self._api = api
        self._event_flags = event_flags
        self._gate = StreamGate(signal)
        self._stream: Any = api.new_stream()
        self._readings = readings

    @property
    def stream(self) -> int:
        return int(self._stream)

    def loaded(self) -> None:
        """Nothing that an artifact brings along matters here."""

    def free_memory_bytes(self) -> int:
        return int(self._call("MemGetInfo")[0])

    def fill(self, address: int, value: int, size_bytes: int) -> None:
        if size_bytes:
            self._api.call(self.fill_function, address, value, size_bytes, self._stream)

    def copy(self, target: int, source: int, size_bytes: int) -> None:
        if size_bytes:
            self._api.call(self.copy_function, target, source, size_bytes, self._stream)

    def event(self) -> DeviceEvent:
        return cast("DeviceEvent", self._api.call(self._api.create_event, self._event_flags))

    def record(self, event: DeviceEvent) -> None:
        self._call("EventRecord", event, self._stream)

    def elapsed_us(self, begin: DeviceEvent, end: DeviceEvent) -> float:
        function = f"{self._api.prefix}EventElapsedTime"
        name, results = self._api.status(function, begin, end)
        if name == self._api.not_ready:
            self.synchronize()
            name, results = self._api.status(function, begin, end)
        if name != self._api.success:
            raise self._api.failure(function, name)
        return float(results[0]) * _US_PER_MS

    def wait(self, event: DeviceEvent) -> None:
        self._call("EventSynchronize", event)
        self._require_launched()

    def synchronize(self) -> None:
        self._call("StreamSynchronize", self._stream)
        self._require_launched()

    def gate(self) -> AbstractContextManager[None]:
        return self._gate.closed(self._stream)

    def reading(self) -> DeviceReading:
        return self._readings.read()

    def others(self) -> tuple[str, ...]:
        return self._readings.others()

    def _require_launched(self) -> None:
        """BenchmarkError for a launch that failed, where a wait does not tell."""

    def _call(self, function: str, *arguments: Any) -> Any:
        return self._api.call(self._api.prefix + function, *arguments)
