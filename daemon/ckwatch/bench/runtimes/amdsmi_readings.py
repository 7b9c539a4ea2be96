"""Clocks, power, temperature and throttling of an AMD device, as its firmware tells them to amdsmi.

One table of metrics holds all of it. The device is found by its PCI address: amdsmi, HIP and the kernel driver number
devices differently.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ckwatch.timing.report import Reading

RESIDENCIES: Mapping[str, str] = {
    "ppt_residency_acc": "power",
    "socket_thm_residency_acc": "temperature",
    "hbm_thm_residency_acc": "memory temperature",
    "vr_thm_residency_acc": "voltage regulator temperature",
    "prochot_residency_acc": "processor hot",
}
"""Counters of amdgpu's gpu_metrics (v1.5 and newer, MI300) that grow while a limit holds the clock down."""

STATUSES = ("throttle_status", "indep_throttle_status")
"""Whether anything holds the clock down, on devices whose metrics are older (MI200)."""


class Readings:
    """amdsmi for one device; `version` is its library's, or why it cannot be used."""

    def __init__(self, pci: str) -> None:
        self.version = ""
        self._smi: Any = None
        self._handle: Any = None
        self._residency: dict[str, int] = {}
        try:
            self._start(pci)
        except Exception as error:  # noqa: BLE001  # absent, of another version, or refused: each in its own way
            self.version = f"none: {_said(error)}"
            self.close()
        else:
            self.read()  # counters are compared with those before

    @property
    def are_there(self) -> bool:
        """Whether anything can be read."""
        return self._handle is not None

    def read(self) -> Reading:
        """The present state; nothing in it where amdsmi cannot be used or fails."""
        if self._handle is None:
            return Reading()
        try:
            metrics = self._smi.amdsmi_get_gpu_metrics_info(self._handle)
        except Exception:  # noqa: BLE001  # a reading that fails is one that says nothing
            return Reading()
        return self._reading(metrics)

    def close(self) -> None:
        """Give the library back."""
        smi, self._smi, self._handle = self._smi, None, None
        if smi is not None:
            with contextlib.suppress(Exception):
                smi.amdsmi_shut_down()

    def _start(self, pci: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # without its library it prints that, and fails
            smi = importlib.import_module("amdsmi")
        smi.amdsmi_init(smi.AmdSmiInitFlags.INIT_AMD_GPUS)
        self._smi = smi
        version = smi.amdsmi_get_lib_version()
        for handle in smi.amdsmi_get_processor_handles():
            if str(smi.amdsmi_get_gpu_device_bdf(handle)).lower() == pci:
                self._handle = handle
                self.version = f"{version['major']}.{version['minor']}.{version['release']}"
                return
        raise LookupError(f"amdsmi has no device at {pci}")

    def _reading(self, metrics: Mapping[str, Any]) -> Reading:
        clocks = list(_numbers(metrics.get("current_gfxclks")))  # one for each die
        return Reading(
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
        return named or (("a limit that is not told",) if unnamed else ())


def _first(metrics: Mapping[str, Any], *keys: str) -> float | None:
    """The first of these metrics that is known; unknown ones are `N/A`, or 0 where that cannot be."""
    return next((value for key in keys for value in _numbers([metrics.get(key)])), None)


def _numbers(values: object) -> Iterable[float]:
    if isinstance(values, list):
        yield from (float(value) for value in values if isinstance(value, int | float) and value > 0)


def _said(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return "amdsmi is not installed"
    if isinstance(error, KeyError):
        return "amdsmi finds no libamd_smi.so"
    return " ".join(str(error).split()) or type(error).__name__
