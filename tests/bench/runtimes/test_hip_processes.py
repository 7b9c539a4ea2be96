"""Who else computes on a device, by trees that look like the kernel driver's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.bench.runtimes.hip_processes import others

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
    return others(pci, kfd, kfd.parent / "proc", own)


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
    assert others(PCI, tmp_path / "none", tmp_path / "proc", 10) == ()


def test_an_unknown_device_has_nobody(kfd: Path) -> None:
    running(kfd, 20, "train.py", gpu4711=5000)
    assert seen(kfd, "0000:e1:00.0") == ()
