"""Devices that run code, and which of them are alike."""

from __future__ import annotations

from dataclasses import replace

from ckwatch.model.devices import can_run, devices_for, preferred
from ckwatch.model.gpu_specs import DeviceFacts
from helpers.each_row import each_row

FIRST = DeviceFacts(name="hip:0", description="MI300X", arch="gfx942:sramecc+:xnack-", pci="0000:c1:00.0")
SECOND = replace(FIRST, name="hip:1", pci="0000:c2:00.0")
OLDER = DeviceFacts(name="hip:2", description="MI210", arch="gfx90a:sramecc+:xnack-", pci="0000:c3:00.0")
OTHER_PRODUCT = replace(FIRST, name="hip:3", description="MI325X", pci="0000:c4:00.0")
CPU = DeviceFacts(name="cpu", description="x86-64", arch="host")
FAR = replace(FIRST, machine="gpu-box")
FAR_CPU = replace(CPU, machine="gpu-box")
ALL = (FAR, FIRST, SECOND, OLDER, OTHER_PRODUCT, CPU, FAR_CPU)


@each_row(
    ("arch", "device", "expected"),
    [
        ("gfx942", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack-", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack+", "gfx942:sramecc+:xnack-", False),
        ("gfx942:xnack+", "gfx942", True),
        ("gfx94", "gfx942", False),
        ("gfx11-generic", "gfx1103", True),
        ("gfx11-generic", "gfx1201", False),
        ("gfx9-4-generic:xnack+", "gfx950:sramecc+:xnack-", False),
        ("sm_80", "sm_86", True),
        ("sm_86", "sm_80", False),
        ("sm_80", "sm_90", False),
        ("sm_90a", "sm_90", True),
        ("sm_90a", "sm_91", False),
        ("sm_100f", "sm_103", True),
        ("sm_100a", "sm_103", False),
        ("sm_120", "sm_120", True),
        ("strange", "sm_90", False),
        ("host", "host", True),
    ],
)
def test_what_runs(arch: str, device: str, expected: bool) -> None:
    name = {"g": "hip:0", "s": "cuda:0", "h": "cpu"}[device[0]]
    assert can_run(arch, DeviceFacts(name=name, description="", arch=device)) is expected


@each_row(
    ("kind", "arch", "wanted", "expected"),
    [
        ("hip", "gfx942", "auto", (FIRST, SECOND, FAR)),
        ("hip", "gfx90a", "auto", (OLDER,)),
        ("hip", "gfx950", "auto", ()),
        ("hip", "gfx942", "hip:1", (SECOND,)),
        ("hip", "gfx942", "hip:3", (OTHER_PRODUCT,)),
        ("hip", "gfx942", "hip:2", ()),
        ("hip", "gfx942", "gpu-box/hip:0", (FAR,)),
        ("hip", "gfx942", "gpu-box/0000:c1:00.0", (FAR,)),
        ("hip", "gfx942", "0000:c1:00.0", (FIRST,)),
        ("hip", "gfx942", "elsewhere/hip:0", ()),
        ("cpu", "host", "auto", (CPU,)),
        ("cpu", "host", "hip:1", (CPU,)),
        ("cpu", "host", "gpu-box/cpu", (FAR_CPU,)),
    ],
)
def test_devices_that_are_alike(kind: str, arch: str, wanted: str, expected: tuple[DeviceFacts, ...]) -> None:
    assert devices_for(ALL, kind, arch, wanted) == expected


def test_other_machines_are_enough() -> None:
    assert devices_for((FAR, CPU), "hip", "gfx942") == (FAR,)


def test_what_was_used_before_is_preferred() -> None:
    assert preferred((FIRST, FAR), FAR.address) == FAR
    assert preferred((FIRST, FAR), "0000:99:00.0") == FIRST


def test_names() -> None:
    assert (FIRST.label, FIRST.address) == ("hip:0", "0000:c1:00.0")
    assert (FAR.label, FAR.address) == ("hip:0 on gpu-box", "gpu-box/0000:c1:00.0")
    assert CPU.address == "cpu"
