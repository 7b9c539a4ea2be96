"""Which devices this machine has, without loading any device runtime, and what `native` means as an arch.

AMD: the kernel's KFD topology in sysfs (the fields are those of the amdkfd documentation). NVIDIA: `nvidia-smi`.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import ARCHS, CUDA_ARCH, Language
from ckwatch.system.processes import ProcessStartError, run_blocking

_KFD = Path("/sys/class/kfd/kfd/topology/nodes")


@dataclass(frozen=True, slots=True)
class DetectedDevice:
    """A device by ckwatch's name for it (`hip:0`, `cuda:0`, `cpu`); `pci` is its PCI address, `arch` what it runs."""

    name: str
    description: str
    arch: str
    pci: str | None = None


def find_devices(env: Mapping[str, str], *, kfd: Path = _KFD) -> tuple[DetectedDevice, ...]:
    """Every device, AMD first, the CPU last; a source that cannot be read has no devices."""
    return (*amd_devices(kfd), *nvidia_devices(env), cpu_device())


def amd_devices(kfd: Path = _KFD) -> tuple[DetectedDevice, ...]:
    """AMD GPUs in the order of KFD's nodes, which is HIP's when HIP_VISIBLE_DEVICES is not set."""
    found: list[DetectedDevice] = []
    nodes = [node for node in kfd.glob("*") if node.name.isdigit()]
    for node in sorted(nodes, key=lambda node: int(node.name)):
        try:
            fields = dict(line.split(None, 1) for line in (node / "properties").read_text().splitlines() if " " in line)
            numbers = {key: int(value) for key, value in fields.items() if value.strip().isdigit()}
        except OSError:
            continue
        if not numbers.get("simd_count"):
            continue  # a CPU
        arch = gfx_name(numbers.get("gfx_target_version", 0))
        units = numbers["simd_count"] // (numbers.get("simd_per_cu") or 4)
        location, domain = numbers.get("location_id", 0), numbers.get("domain", 0)
        pci = f"{domain:04x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
        found.append(DetectedDevice(f"hip:{len(found)}", f"AMD {arch}, {units} CU", arch, pci))
    return tuple(found)


def gfx_name(version: int) -> str:
    """KFD's `gfx_target_version` as clang names it: 90402 → gfx942, 90010 → gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def nvidia_devices(env: Mapping[str, str]) -> tuple[DetectedDevice, ...]:
    """NVIDIA GPUs in the order of nvidia-smi."""
    program = shutil.which("nvidia-smi", path=env.get("PATH", os.defpath))
    if program is None:
        return ()
    command = [program, "--query-gpu=index,name,compute_cap,pci.bus_id", "--format=csv,noheader"]
    try:
        done = run_blocking(command, environment=os.environ, timeout_s=20)
    except (ProcessStartError, TimeoutError):
        return ()
    rows = csv.reader(done.stdout.splitlines() if done.returncode == 0 else [], skipinitialspace=True)
    return tuple(
        DetectedDevice(f"cuda:{row[0]}", row[1], f"sm_{row[2].replace('.', '')}", row[3].lower()[-12:])
        for row in rows
        if len(row) == 4
    )


def cpu_device(cpuinfo: Path = Path("/proc/cpuinfo")) -> DetectedDevice:
    """The host's processor."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    cores = len(os.sched_getaffinity(0))
    return DetectedDevice("cpu", f"{found[1].strip() if found else 'CPU'}, {cores} logical cores", os.uname().machine)


def is_importable(*names: str) -> bool:
    """Return True if one of these modules is there; it is not imported, since that would not show that it works."""
    for name in names:
        with suppress(ImportError, ValueError):
            if importlib.util.find_spec(name) is not None:
                return True
    return False


def native_arch(language: Language, env: Mapping[str, str] | None = None, *, kfd: Path = _KFD) -> str | None:
    """The arch of the machine's first GPU of a language's vendor; without one `CUDA_ARCH` for CUDA, and None for HIP.

    CUDA's is the one with all of the device's instructions (`sm_90a`) where there is such. It may ask nvidia-smi.
    """
    if language is not Language.CU:
        return next((device.arch for device in amd_devices(kfd) if device.arch), None)
    found = next((device.arch for device in nvidia_devices(os.environ if env is None else env)), CUDA_ARCH)
    return f"{found}a" if f"{found}a" in ARCHS else found
