"""The emulated device's library, called through a stand-in that executes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.runtimes.selection import RUNTIMES
from ckwatch.verification.device import (
    ARCH_VARIABLE,
    ERRORS_VARIABLE,
    LIMIT_VARIABLE,
    OBJDUMP_VARIABLE,
    EmulatedDevice,
)
from fakes.emulator_stand_in import build_stand_in
from helpers.emulator_findings import TOLD


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables, which are set for the whole process, end with the test."""
    for name in (OBJDUMP_VARIABLE, ARCH_VARIABLE, LIMIT_VARIABLE, ERRORS_VARIABLE):
        monkeypatch.setenv(name, "")


@pytest.fixture
def device(tmp_path: Path) -> EmulatedDevice:
    return EmulatedDevice(str(build_stand_in(tmp_path)), "/llvm-objdump", "gfx942:xnack-")


def test_the_library_is_told_the_arch_and_the_disassembler(device: EmulatedDevice) -> None:
    assert device is not None
    assert (os.environ[ARCH_VARIABLE], os.environ[OBJDUMP_VARIABLE]) == ("gfx942", "/llvm-objdump")


def test_memory(device: EmulatedDevice) -> None:
    written = np.arange(100, dtype=np.uint8)
    address = device.allocate(100)
    assert address % 256 == 0
    device.upload(address, written)
    device.mark_undefined(address, 100)
    assert not device.undefined(address, 100).any()  # the stand-in does not know
    found = np.zeros_like(written)
    device.download(address, found)
    assert np.array_equal(found, written)
    device.free(address)


def test_what_a_launch_ends_with(device: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    device.configure(checked=True, traced=False, workgroups=None, seed=1)
    device.synchronize()
    assert device.findings() == []
    assert device.problem() == ""
    monkeypatch.setenv("CKWATCH_STAND_IN_FINDING", json.dumps(TOLD))
    monkeypatch.setenv("CKWATCH_STAND_IN_ERROR", "719")
    monkeypatch.setenv("CKWATCH_STAND_IN_PROBLEM", "no code")
    monkeypatch.setenv("CKWATCH_STAND_IN_OF", "4")
    with pytest.raises(BenchmarkError, match="hipErrorLaunchFailure") as failed:
        device.synchronize()
    assert failed.value.kind is FailureKind.FAULT
    assert device.findings() == [TOLD]
    assert (device.workgroups(), device.problem()) == ((1, 4), "no code")
    device.clear()
    assert device.findings() == []


def test_a_sample(device: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    device.begin_sample(8, 1)
    assert device.end_sample() == ""
    monkeypatch.setenv("CKWATCH_STAND_IN_NEEDS_WHOLE", "a launch reads")
    assert device.end_sample() == "a launch reads"
    address = device.allocate(4)
    assert device.sampled(address, 4).all()
    device.watch(address, 4)
    device.watch(0, 0)
    device.free(address)
    assert device.whole_cost() == 1000


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="the emulator cannot be loaded") as failed:
        EmulatedDevice(str(tmp_path / "nothing.so"), "", "gfx942")
    assert failed.value.kind is FailureKind.BROKEN


def test_nothing_can_be_timed_on_it() -> None:
    assert "emulated" not in RUNTIMES
    assert not hasattr(EmulatedDevice, "elapsed_us")
