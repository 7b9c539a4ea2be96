"""Which device a job gets, and what it is told when there is none."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace

import pytest

from benches.bench_kernels import job
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes import selection
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.runtimes.selection import RUNTIMES, find_all_devices, runtime_module, select_device
from ckwatch.model.gpu_specs import DeviceFacts

MI300 = DeviceFacts(name="hip:0", description="MI300X", arch="gfx942:sramecc+:xnack-", pci="0000:c1:00.0")
MI210 = DeviceFacts(name="hip:1", description="MI210", arch="gfx90a:sramecc+:xnack-", pci="0000:03:00.0")
H200 = DeviceFacts(name="cuda:0", description="H200", arch="sm_90", pci="0000:0a:00.0")
CPU = DeviceFacts(name="cpu", description="EPYC", arch="host")


def no_driver() -> tuple[DeviceFacts, ...]:
    raise BenchmarkError(FailureKind.NO_DRIVER, "libamdhip64.so cannot be loaded", "Install ROCm.")


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes the kinds of device find these."""

    def set_up(**found: Callable[[], tuple[DeviceFacts, ...]]) -> None:
        modules = {RUNTIMES[kind]: types.SimpleNamespace(find=find) for kind, find in found.items()}
        monkeypatch.setattr(selection, "import_module", modules.__getitem__)

    return set_up


@pytest.mark.parametrize(
    ("device", "kind", "arch", "expected"),
    [
        ("auto", "hip", "gfx942", "hip:0"),
        ("auto", "hip", "gfx90a", "hip:1"),
        ("hip", "hip", "gfx90a", "hip:1"),
        ("hip:1", "hip", "gfx90a:xnack-", "hip:1"),
        ("0000:C1:00.0", "hip", "gfx942", "hip:0"),
        ("auto", "cuda", "sm_90a", "cuda:0"),
        ("auto", "cpu", "host", "cpu"),
        ("cpu", "cpu", "host", "cpu"),
    ],
)
def test_chosen(present: Callable[..., None], device: str, kind: str, arch: str, expected: str) -> None:
    present(hip=lambda: (MI300, MI210), cuda=lambda: (H200,), cpu=lambda: (CPU,))
    assert select_device(replace(job(), device=device, kind=kind, arch=arch)).name == expected


@pytest.mark.parametrize(
    ("device", "kind", "arch", "failure", "told"),
    [
        ("auto", "hip", "gfx950", FailureKind.WRONG_ARCH, "made for gfx950, and there is hip:0"),
        ("hip:0", "hip", "gfx90a", FailureKind.WRONG_ARCH, "and there is hip:0 (gfx942:sramecc+:xnack-, 0000:c1:00.0)"),
        ("hip:0", "hip", "gfx942:xnack+", FailureKind.WRONG_ARCH, "made for gfx942:xnack+"),
        ("hip:7", "hip", "gfx942", FailureKind.NO_DEVICE, "there is no device hip:7"),
        ("0000:ff:00.0", "hip", "gfx942", FailureKind.NO_DEVICE, "there is no device 0000:ff:00.0"),
        ("cpu", "hip", "gfx942", FailureKind.NO_DEVICE, "cpu is asked for, and the artifacts are for hip devices"),
        ("auto", "cuda", "sm_90", FailureKind.NO_DEVICE, "there is no cuda device"),
        ("auto", "tpu", "v4", FailureKind.NO_DEVICE, "no kind of device called tpu"),
    ],
)
def test_refused(
    present: Callable[..., None], device: str, kind: str, arch: str, failure: FailureKind, told: str
) -> None:
    present(hip=lambda: (MI300, MI210), cuda=lambda: (), cpu=lambda: (CPU,))
    with pytest.raises(BenchmarkError) as caught:
        select_device(replace(job(), device=device, kind=kind, arch=arch))
    assert caught.value.kind is failure
    assert told in caught.value.message


def test_all_the_best_first_and_why_not(present: Callable[..., None]) -> None:
    present(hip=no_driver, cuda=lambda: (), cpu=lambda: (CPU,))
    found = find_all_devices()
    assert found.devices == (CPU,)
    assert [(absence.kind, absence.why, absence.hint) for absence in found.absent] == [
        ("hip", "libamdhip64.so cannot be loaded", "Install ROCm."),
        ("cuda", "no device", ""),
    ]
    present(hip=lambda: (MI300,), cuda=lambda: (H200,), cpu=lambda: (CPU,))
    assert find_all_devices().devices == (MI300, H200, CPU)


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIMES, "hip", "no_such_package_here.hip")
    with pytest.raises(BenchmarkError, match="No module named 'no_such_package_here'") as caught:
        runtime_module("hip")
    assert caught.value.kind is FailureKind.NO_DRIVER
