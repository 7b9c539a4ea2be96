"""Which device a unit is timed on, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.bench.report import Devices, UnavailableKind
from ckwatch.engine.handlers.measure import suitable_devices
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernels import Unit
from helpers.units import unit as make_unit

MI300X = DeviceFacts(name="hip:0", description="test data", arch="gfx942:sramecc+:xnack-", pci="0000:c1:00.0")
MI210 = DeviceFacts(name="hip:1", description="test data", arch="gfx90a:sramecc+:xnack-", pci="0000:c2:00.0")
H200 = DeviceFacts(name="cuda:0", description="test data", arch="sm_90", pci="0000:00:06.0")
CPU = DeviceFacts(name="cpu", description="test data", arch="host")
ALL = Devices(devices=(MI300X, MI210, H200, CPU))
NO_HIP = Devices(devices=(CPU,), absent=(UnavailableKind(kind="hip", why="no libamdhip64.so", hint="set ROCM_PATH"),))


def unit(template: str, arch: str) -> Unit:
    made = make_unit("text", arch=arch)
    return replace(made, kernel=replace(made.kernel, template=template))


@pytest.mark.parametrize(
    ("template", "arch", "wanted", "device"),
    [
        ("k.hip.j2", "gfx942", "auto", MI300X),
        ("k.hip.j2", "gfx90a", "auto", MI210),
        ("k.hip.j2", "gfx942:xnack-", "auto", MI300X),
        ("k.hip.j2", "gfx90a", "hip:1", MI210),
        ("k.hip.j2", "gfx90a", "0000:c2:00.0", MI210),
        ("k.cu.j2", "sm_90a", "auto", H200),
        ("k.cpp.j2", "host", "auto", CPU),
        ("k.cpp.j2", "host", "hip:0", CPU),
    ],
)
def test_the_best_that_fits(template: str, arch: str, wanted: str, device: DeviceFacts) -> None:
    assert suitable_devices(ALL, unit(template, arch), wanted) == (device,)


def test_code_of_an_older_version_does_not_run() -> None:
    assert suitable_devices(ALL, unit("k.cu.j2", "sm_80"), "auto") == "no device for sm_80: there is cuda:0 (sm_90)"


@pytest.mark.parametrize(
    ("found", "arch", "wanted", "says"),
    [
        (ALL, "gfx950", "auto", "no device for gfx950: there is hip:0 (gfx942:sramecc+:xnack-), hip:1"),
        (ALL, "gfx942:xnack+", "auto", "no device for gfx942:xnack+"),
        (ALL, "gfx942", "hip:1", "no device for gfx942: there is hip:1"),
        (ALL, "gfx942", "hip:7", "there is no device hip:7; there are hip:0, hip:1"),
        (ALL, "gfx942", "0000:99:00.0", "there is no device 0000:99:00.0"),
        (NO_HIP, "gfx942", "auto", "no hip device: no libamdhip64.so\nset ROCM_PATH"),
    ],
)
def test_why_there_is_none(found: Devices, arch: str, wanted: str, says: str) -> None:
    problem = suitable_devices(found, unit("k.hip.j2", arch), wanted)
    assert isinstance(problem, str)
    assert problem.startswith(says)
