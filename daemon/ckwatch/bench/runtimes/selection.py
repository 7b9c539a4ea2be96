"""Selects the device that a job runs on. The module of a kind of device is imported when that kind is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from ckwatch.bench.job import Job, SelfTestJob
from ckwatch.bench.report import Devices, FailureKind, UnavailableKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, RuntimeModule
from ckwatch.model.devices import can_run
from ckwatch.model.gpu_specs import DeviceFacts

RUNTIMES = {
    "hip": "ckwatch.bench.runtimes.hip",
    "cuda": "ckwatch.bench.runtimes.cuda",
    "cpu": "ckwatch.bench.runtimes.cpu",
}
"""The kinds of device, the best first."""

AUTO = "auto"


def runtime_module(kind: str) -> RuntimeModule:
    """The module of a kind of device. Raises BenchmarkError: NO_DEVICE for an unknown kind, NO_DRIVER."""
    if kind not in RUNTIMES:
        raise BenchmarkError(FailureKind.NO_DEVICE, f"there is no kind of device called {kind}")
    try:
        return cast("RuntimeModule", import_module(RUNTIMES[kind]))
    except ImportError as error:
        raise BenchmarkError(
            FailureKind.NO_DRIVER,
            f"devices of the kind {kind} cannot be used: {error}",
            f"Install ckwatch with what {kind} devices need.",
        ) from error


def find_all_devices() -> Devices:
    """All devices of this machine, the best first; which kinds there are not, and why."""
    devices: list[DeviceFacts] = []
    absent: list[UnavailableKind] = []
    for kind in RUNTIMES:
        try:
            found = runtime_module(kind).find()
        except BenchmarkError as failure:
            absent.append(UnavailableKind(kind=kind, why=failure.message, hint=failure.hint))
            continue
        devices += found
        if not found:
            absent.append(UnavailableKind(kind=kind, why="no device"))
    return Devices(devices=tuple(devices), absent=tuple(absent))


def select_device(job: Job | SelfTestJob) -> DeviceFacts:
    """The device that `job` asks for: by name, by PCI address, or the best that runs its artifacts. Raises
    BenchmarkError: NO_DRIVER, NO_DEVICE, or WRONG_ARCH for a device that the artifacts are not made for."""
    found = runtime_module(job.kind).find()
    if not found:
        raise BenchmarkError(FailureKind.NO_DEVICE, f"there is no {job.kind} device")
    if job.device == AUTO or job.device == job.kind:
        for device in found:
            if can_run(job.arch, device):
                return device
        raise _wrong_arch(job, found)
    for device in found:
        if job.device == device.name or job.device.lower() == (device.pci or "").lower():
            if not can_run(job.arch, device):
                raise _wrong_arch(job, (device,))
            return device
    kind, _, _ = job.device.partition(":")
    if kind in RUNTIMES and kind != job.kind:
        raise BenchmarkError(
            FailureKind.NO_DEVICE, f"{job.device} is asked for, and the artifacts are for {job.kind} devices"
        )
    raise BenchmarkError(
        FailureKind.NO_DEVICE, f"there is no device {job.device}", f"There are: {_device_list(found)}.", ""
    )


def _wrong_arch(job: Job | SelfTestJob, found: Sequence[DeviceFacts]) -> BenchmarkError:
    return BenchmarkError(
        FailureKind.WRONG_ARCH,
        f"the artifacts are made for {job.arch}, and there is {_device_list(found)}",
        "Compile for the device's arch, or choose a device of this one.",
    )


def _device_list(found: Sequence[DeviceFacts]) -> str:
    return ", ".join(f"{device.name} ({device.arch}, {device.pci or device.description})" for device in found)
