"""Readings through the real amdsmi package, on a stand-in for its library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckwatch.bench.report import DeviceReading
from ckwatch.bench.runtimes.hip_monitor import AmdsmiReadings, other_processes
from fakes.hip_stand_in import build_amdsmi, build_hip, environment, scenario

NOTHING: dict[str, Any] = {
    "clock_mhz": None,
    "memory_clock_mhz": None,
    "power_w": None,
    "temperature_c": None,
    "throttled_by": [],
}


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("rocm.bindings.hip")
    rocm = build_hip(tmp_path_factory.mktemp("rocm"))
    build_amdsmi(rocm)
    return rocm


def readings(rocm: Path, folder: Path, *tables: dict[str, Any]) -> Any:
    answer = scenario("readings", environment(rocm), str(folder / "metrics"), tables)
    assert answer["version"] == "26.1.0"
    assert answer["readings"][-1] == NOTHING  # the table is gone
    return answer["readings"][:-1]


def test_an_mi300_is_read(rocm: Path, tmp_path: Path) -> None:
    table = {
        "current_gfxclks": [2100, 2000, 2050, 2050, 0, 0, 0, 0],
        "current_uclk": 1300,
        "current_socket_power": 612,
        "temperature_hotspot": 71,
    }
    assert readings(rocm, tmp_path, table) == [
        {"clock_mhz": 2050.0, "memory_clock_mhz": 1300.0, "power_w": 612.0, "temperature_c": 71.0, "throttled_by": []}
    ]


def test_an_older_table_is_read(rocm: Path, tmp_path: Path) -> None:
    table = {
        "current_gfxclk": 1650,
        "average_uclk_frequency": 1600,
        "average_socket_power": 280,
        "temperature_edge": 55,
        "throttle_status": 4,
    }
    assert readings(rocm, tmp_path, table) == [
        {
            "clock_mhz": 1650.0,
            "memory_clock_mhz": 1600.0,
            "power_w": 280.0,
            "temperature_c": 55.0,
            "throttled_by": ["an unnamed limit"],
        }
    ]


def test_what_held_the_clock_down_since_the_last_reading_is_told(rocm: Path, tmp_path: Path) -> None:
    first = {"ppt_residency_acc": 100, "socket_thm_residency_acc": 5, "hbm_thm_residency_acc": 0}
    more_power = first | {"ppt_residency_acc": 130}
    hotter = more_power | {"socket_thm_residency_acc": 6, "hbm_thm_residency_acc": 2}
    answers = readings(rocm, tmp_path, first, more_power, more_power, hotter)
    assert [answer["throttled_by"] for answer in answers] == [[], ["power"], [], ["temperature", "memory temperature"]]


def test_nothing_is_made_up(rocm: Path, tmp_path: Path) -> None:
    assert readings(rocm, tmp_path, {}) == [NOTHING]


def test_without_the_library_nothing_is_read(tmp_path: Path) -> None:
    rocm = build_hip(tmp_path)
    assert scenario("versions", environment(rocm))["amdsmi"].startswith("none: amdsmi ")


def test_another_address_is_another_device(rocm: Path) -> None:
    versions = scenario("versions", environment(rocm, DEVICES="2"), 1)
    assert versions["amdsmi"] == "none: amdsmi has no device at 0000:c9:00.0"


def test_readings_that_cannot_be_had_are_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    readings = AmdsmiReadings("0000:c1:00.0")
    assert not readings.are_there
    assert readings.read() == DeviceReading()


PCI = "0000:c1:00.0"
GPU = 4711


@pytest.fixture
def kfd(tmp_path: Path) -> Path:
    nodes = {"0": (0, 0, 0), "1": (GPU, 0xC100, 0), "2": (4712, 0xC900, 0), "3": (4713, 0xC100, 1)}
    for node, (gpu, location, domain) in nodes.items():
        folder = tmp_path / "kfd/topology/nodes" / node
        folder.mkdir(parents=True)
        (folder / "gpu_id").write_text(f"{gpu}\n")
        (folder / "properties").write_text(f"simd_count 440\nlocation_id {location}\ndomain {domain}\n")
    return tmp_path / "kfd"


def running(kfd: Path, pid: int, name: str, **vram: int) -> None:
    """A process that computes; `vram` bytes by KFD's number of the device, as `gpu4711`."""
    folder = kfd / "proc" / str(pid)
    folder.mkdir(parents=True)
    for gpu, size in vram.items():
        (folder / f"vram_{gpu.removeprefix('gpu')}").write_text(f"{size}\n")
    (kfd.parent / "proc" / str(pid)).mkdir(parents=True)
    (kfd.parent / "proc" / str(pid) / "comm").write_text(f"{name}\n")


def seen(kfd: Path, pci: str = PCI, own: int = 10) -> tuple[str, ...]:
    return other_processes(pci, kfd, kfd.parent / "proc", own)


def test_others_are_those_with_memory_on_this_device(kfd: Path) -> None:
    running(kfd, 10, "worker", gpu4711=1000)
    running(kfd, 20, "train.py", gpu4711=5000)
    running(kfd, 30, "elsewhere", gpu4711=0, gpu4712=5000)
    running(kfd, 40, "on domain 1", gpu4713=5000)
    assert seen(kfd) == ("20 train.py",)


def test_a_device_is_told_from_another_by_its_whole_address(kfd: Path) -> None:
    running(kfd, 10, "worker", gpu4711=1000)
    running(kfd, 40, "on domain 1", gpu4713=5000)
    assert seen(kfd, "0001:c1:00.0") == ("40 on domain 1",)


def test_alone(kfd: Path) -> None:
    running(kfd, 10, "worker", gpu4711=1000)
    assert seen(kfd) == ()


def test_in_a_container_others_are_counted(kfd: Path) -> None:
    running(kfd, 81234, "worker", gpu4711=1000)
    assert seen(kfd) == ()
    running(kfd, 81300, "train.py", gpu4711=1000)
    assert seen(kfd) == ("a process outside of this container",)


def test_a_process_that_has_just_ended_has_no_name(kfd: Path) -> None:
    running(kfd, 10, "worker", gpu4711=1000)
    running(kfd, 20, "train.py", gpu4711=5000)
    (kfd.parent / "proc/20/comm").unlink()
    assert seen(kfd) == ("20 ?",)


def test_without_the_driver_nobody_is_seen(tmp_path: Path) -> None:
    assert other_processes(PCI, tmp_path / "none", tmp_path / "proc", 10) == ()


def test_an_unknown_device_has_nobody(kfd: Path) -> None:
    running(kfd, 20, "train.py", gpu4711=5000)
    assert seen(kfd, "0000:e1:00.0") == ()
