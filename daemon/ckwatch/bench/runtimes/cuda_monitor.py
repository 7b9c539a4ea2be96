"""Monitors an NVIDIA device by NVML: clocks, power, temperature, throttling, and other processes that compute on it.

The device is found by its PCI address: NVML and CUDA number devices differently.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Mapping
from typing import Any

from ckwatch.bench.report import DeviceReading
from ckwatch.bench.runtimes.monitor import VendorReadings, process_name

REASONS: Mapping[int, str] = {
    0x02: "application clocks",
    0x04: "power",
    0x08: "hardware slowdown",
    0x10: "boost of a group",
    0x20: "temperature",
    0x40: "hardware temperature",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of nvmlClocksEventReasons (nvml.h) that hold a clock down; bit 0 is an idle device."""

_MILLI = 1e-3


class NvmlReadings(VendorReadings):
    """NVML for one device."""

    PACKAGE = "nvidia-ml-py"

    def __init__(self, pci: str, load: Callable[[str], Any] = importlib.import_module) -> None:
        self._load = load
        super().__init__(pci)

    def _start(self, pci: str) -> None:
        nvml = self._load("pynvml")
        nvml.nvmlInit()
        self._library = nvml
        self._handle = nvml.nvmlDeviceGetHandleByPciBusId(pci)
        version = nvml.nvmlSystemGetDriverVersion()
        self.version = version.decode() if isinstance(version, bytes) else str(version)

    def read(self) -> DeviceReading:
        nvml, handle = self._library, self._handle
        if handle is None:
            return DeviceReading()
        power_mw = _read(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        return DeviceReading(
            clock_mhz=_read(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            memory_clock_mhz=_read(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            power_w=None if power_mw is None else power_mw * _MILLI,
            temperature_c=_read(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            throttled_by=self._throttled_by(),
        )

    def highest_clocks_mhz(self) -> tuple[float, float]:
        """The highest clocks of processors and memory that the specification allows; 0 for what is not reported."""
        nvml, handle = self._library, self._handle
        if handle is None:
            return 0.0, 0.0
        core = _read(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))
        memory = _read(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM))
        return core or 0.0, memory or 0.0

    def others(self) -> tuple[str, ...]:
        nvml, handle = self._library, self._handle
        if handle is None:
            return ()
        with contextlib.suppress(Exception):
            found = {int(process.pid) for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)}
            return tuple(f"{pid} {process_name(pid)}" for pid in sorted(found - {os.getpid()}))
        return ()

    def _throttled_by(self) -> tuple[str, ...]:
        nvml, handle = self._library, self._handle
        # the older name of the same call
        ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        ask = ask or getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        bits = None if ask is None else _read(lambda: ask(handle))
        return tuple(name for bit, name in REASONS.items() if int(bits or 0) & bit)


def _read(ask: Callable[[], Any]) -> float | None:
    """A number that NVML reports; None where this device has none or the call fails."""
    try:
        return float(ask())
    except Exception:  # noqa: BLE001  # a reading that fails is one that says nothing
        return None
