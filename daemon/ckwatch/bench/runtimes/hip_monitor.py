"""Monitors an AMD device: clocks, power, temperature and throttling by amdsmi, other processes by the driver (KFD).

amdsmi reads one table of metrics from the firmware. The device is found by its PCI address: amdsmi, HIP and the kernel
driver number devices differently. A process that computes has a folder under `/sys/class/kfd/kfd/proc` with one file
per device, `vram_GPU-ID`: the bytes of device memory that it holds.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ckwatch.bench.report import DeviceReading
from ckwatch.bench.runtimes.monitor import PROCESSES, VendorReadings, process_name

RESIDENCIES: Mapping[str, str] = {
    "ppt_residency_acc": "power",
    "socket_thm_residency_acc": "temperature",
    "hbm_thm_residency_acc": "memory temperature",
    "vr_thm_residency_acc": "voltage regulator temperature",
    "prochot_residency_acc": "processor hot",
}
"""Counters of amdgpu's gpu_metrics (v1.5 and newer, MI300) that grow while a limit holds the clock down."""

STATUSES = ("throttle_status", "indep_throttle_status")
"""Metrics that show a throttled clock, on devices whose metrics are older (MI200)."""


class AmdsmiReadings(VendorReadings):
    """amdsmi for one device."""

    PACKAGE = "amdsmi"

    def __init__(self, pci: str) -> None:
        self._pci = pci
        self._residency: dict[str, int] = {}
        super().__init__(pci)
        self.read()  # counters are compared with those before

    def read(self) -> DeviceReading:
        if self._handle is None:
            return DeviceReading()
        try:
            metrics = self._library.amdsmi_get_gpu_metrics_info(self._handle)
        except Exception:  # noqa: BLE001  # a reading that fails is one that says nothing
            return DeviceReading()
        return self._reading(metrics)

    def others(self) -> tuple[str, ...]:
        return other_processes(self._pci)

    def _start(self, pci: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # without its library it prints that, and fails
            smi = importlib.import_module("amdsmi")
        smi.amdsmi_init(smi.AmdSmiInitFlags.INIT_AMD_GPUS)
        self._library = smi
        version = smi.amdsmi_get_lib_version()
        for handle in smi.amdsmi_get_processor_handles():
            if str(smi.amdsmi_get_gpu_device_bdf(handle)).lower() == pci:
                self._handle = handle
                self.version = f"{version['major']}.{version['minor']}.{version['release']}"
                return
        raise LookupError(f"amdsmi has no device at {pci}")

    def _error_text(self, error: Exception) -> str:
        return "amdsmi finds no libamd_smi.so" if isinstance(error, KeyError) else super()._error_text(error)

    def _reading(self, metrics: Mapping[str, Any]) -> DeviceReading:
        clocks = list(_known_values(metrics.get("current_gfxclks")))  # one for each die
        return DeviceReading(
            clock_mhz=sum(clocks) / len(clocks)
            if clocks
            else _first(metrics, "current_gfxclk", "average_gfxclk_frequency"),
            memory_clock_mhz=_first(metrics, "current_uclk", "average_uclk_frequency"),
            power_w=_first(metrics, "current_socket_power", "average_socket_power"),
            temperature_c=_first(metrics, "temperature_hotspot", "temperature_edge"),
            throttled_by=self._throttled_by(metrics),
        )

    def _throttled_by(self, metrics: Mapping[str, Any]) -> tuple[str, ...]:
        before, self._residency = (
            self._residency,
            {key: int(metrics[key]) for key in RESIDENCIES if isinstance(metrics.get(key), int)},
        )
        named = tuple(
            name for key, name in RESIDENCIES.items() if self._residency.get(key, 0) > before.get(key, sys.maxsize)
        )
        unnamed = not self._residency and any(metrics.get(key) is True for key in STATUSES)
        return named or (("an unnamed limit",) if unnamed else ())


def _first(metrics: Mapping[str, Any], *keys: str) -> float | None:
    """The first of these metrics that is known; unknown ones are `N/A`, or 0 where that cannot be."""
    return next((value for key in keys for value in _known_values([metrics.get(key)])), None)


def _known_values(values: object) -> Iterable[float]:
    if isinstance(values, list):
        yield from (float(value) for value in values if isinstance(value, int | float) and value > 0)


KFD = Path("/sys/class/kfd/kfd")


def other_processes(pci: str, kfd: Path = KFD, processes: Path = PROCESSES, own: int | None = None) -> tuple[str, ...]:
    """`PID NAME` of each other process that has memory on the device at the PCI address; empty where that cannot be
    seen. `own`: this process (default).

    In a container the driver's process numbers may be those of the host: then the others are counted, and none is
    named.
    """
    own = os.getpid() if own is None else own
    gpu = _gpu_id(pci, kfd)
    if gpu is None:
        return ()
    holders = sorted(
        pid for pid in _numbered_entries(kfd / "proc") if _read_number(kfd / "proc" / str(pid) / f"vram_{gpu}")
    )
    if own in _numbered_entries(kfd / "proc"):
        return tuple(f"{pid} {process_name(pid, processes)}" for pid in holders if pid != own)
    return ("a process outside of this container",) * (len(holders) - 1)


def _gpu_id(pci: str, kfd: Path) -> int | None:
    """KFD's number of the device. A node tells its address as domain and `bus << 8 | device << 3 | function`."""
    domain, bus, rest = pci.split(":")
    device, _, function = rest.partition(".")
    location = int(bus, 16) << 8 | int(device, 16) << 3 | int(function or "0", 16)
    for node in _numbered_entries(kfd / "topology/nodes"):
        folder = kfd / "topology/nodes" / str(node)
        properties = _node_properties(folder / "properties")
        if properties.get("location_id") == location and properties.get("domain", 0) == int(domain, 16):
            return _read_number(folder / "gpu_id") or None
    return None


def _node_properties(path: Path) -> dict[str, int]:
    try:
        words = (line.split() for line in path.read_text().splitlines())
        return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdecimal()}
    except OSError:
        return {}


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _numbered_entries(folder: Path) -> list[int]:
    try:
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
    except OSError:
        return []
