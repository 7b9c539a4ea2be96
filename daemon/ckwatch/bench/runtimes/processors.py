"""The processors that a CPU benchmark runs on: which to use, binding threads to them, and what the kernel says of them.

OpenMP and BLAS libraries read the variables that bind their threads when they are loaded, so `occupy` comes before
numpy is imported and before any artifact is loaded.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")
_TICKS = os.sysconf("SC_CLK_TCK")
_NEIGHBOURS_S = 0.1
_SETTLE_S = 0.1
_LOOK_S = 0.0005


def choose(threads: int | None, system: Path = SYSTEM) -> tuple[int, ...]:
    """The processors for `threads` threads, ascending: first one of each core, then the cores' other threads.

    None: one of each core, at most as many as the control group's quota allows. Fewer than `threads` where the process
    may not use more.
    """
    usable = sorted(os.sched_getaffinity(0))
    first: list[int] = []
    others: list[int] = []
    cores: set[frozenset[int]] = set()
    for cpu in usable:
        core = frozenset(cpu_list(_text(system / f"cpu{cpu}/topology/thread_siblings_list")) or [cpu])
        (others if core in cores else first).append(cpu)
        cores.add(core)
    if threads is None:
        return tuple(sorted(first[: max(1, _quota() or len(first))]))
    return tuple(sorted([*first, *others][:threads]))


def occupy(cpus: tuple[int, ...]) -> None:
    """Run on `cpus` only, one thread of OpenMP bound to each; BLAS libraries get as many threads."""
    count = str(len(cpus))
    os.environ.update(
        OMP_NUM_THREADS=count,
        OMP_PROC_BIND="true",
        OMP_PLACES=",".join(f"{{{cpu}}}" for cpu in cpus),
        OMP_DYNAMIC="false",
        OPENBLAS_NUM_THREADS=count,
        OPENBLAS_THREAD_TIMEOUT="20",  # 2^20 cycles: its threads look for work for less than a millisecond, not for 30
        MKL_NUM_THREADS=count,
        BLIS_NUM_THREADS=count,
    )
    for overriding in ("OMP_THREAD_LIMIT", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"):
        os.environ.pop(overriding, None)
    os.sched_setaffinity(0, cpus)


def model_name() -> str:
    """The processor as it calls itself."""
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return os.uname().machine


def last_level_cache_bytes(cpus: Iterable[int], system: Path = SYSTEM) -> int:
    """The sum of the last-level caches that `cpus` have; 0 where the kernel does not say."""
    found: dict[tuple[int, str], int] = {}
    for cpu in cpus:
        best: tuple[int, str, int] | None = None
        for index in (system / f"cpu{cpu}/cache").glob("index*"):
            level, kind, size = (_text(index / name) for name in ("level", "type", "size"))
            if level.isdigit() and kind != "Instruction" and (best is None or int(level) > best[0]):
                best = (int(level), _text(index / "shared_cpu_list") or str(cpu), _bytes(size))
        if best is not None:
            found[best[0], best[1]] = best[2]
    highest = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == highest)


def highest_clock_mhz(cpus: Iterable[int], system: Path = SYSTEM) -> float:
    """The highest clock that the kernel lets `cpus` have; 0 where it does not say, as in most virtual machines."""
    return max((_mhz(_text(system / f"cpu{cpu}/cpufreq/cpuinfo_max_freq")) or 0.0 for cpu in cpus), default=0.0)


def clock_reader(cpus: tuple[int, ...], system: Path = SYSTEM) -> Callable[[], float | None]:
    """Return a reader of the lowest present clock of `cpus` in MHz: the slowest thread holds up the others.

    The clock in /proc/cpuinfo is believed only of processors that count their cycles (`aperfmperf`): that of a virtual
    machine is a constant.
    """
    files = [system / f"cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in cpus]
    if all(_mhz(_text(file)) for file in files):
        return lambda: min((mhz for file in files if (mhz := _mhz(_text(file)))), default=None)
    if "aperfmperf" in _text(Path("/proc/cpuinfo")):
        return lambda: _slowest(cpus)
    return lambda: None


def temperature_c() -> float | None:
    """The processor's temperature, where a sensor is known as one of its own."""
    file = _sensor()
    with suppress(ValueError):
        return int(_text(file)) / 1000 if file is not None else None
    return None


def throttle_count(cpus: Iterable[int], system: Path = SYSTEM) -> int:
    """How often `cpus` were slowed down because of heat or power since the machine started."""
    total = 0
    for cpu in cpus:
        for name in ("core_throttle_count", "package_throttle_count"):
            text = _text(system / f"cpu{cpu}/thermal_throttle/{name}")
            total += int(text) if text.isdigit() else 0
    return total


class Neighbours:
    """How much of `cpus` others use: other processes, and other virtual machines of the same host."""

    def __init__(self, cpus: tuple[int, ...], times: Callable[[], tuple[float, float, float]] | None = None) -> None:
        """`times`: in place of what the kernel says, seconds of the clock, of work on `cpus`, and of this process's."""
        self._names = {f"cpu{cpu}" for cpu in cpus}
        self._times = times or self._now
        self._last = self._times()
        self._share = 0.0

    def share(self) -> float:
        """Of the processors' time since about a tenth of a second; 0 where the kernel does not tell."""
        now = self._times()
        seconds = now[0] - self._last[0]
        if seconds >= _NEIGHBOURS_S and self._names:
            others_s = (now[1] - self._last[1]) - (now[2] - self._last[2])
            self._share = max(0.0, others_s / (seconds * len(self._names)))
            self._last = now
        return self._share

    def _now(self) -> tuple[float, float, float]:
        """Seconds: of the clock, of work on the processors, of this process's own work."""
        busy = 0
        for line in _text(Path("/proc/stat")).splitlines():
            name, _, rest = line.partition(" ")
            if name in self._names:
                # user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)); guests are in the first two
                ticks = [int(field) for field in rest.split()[:8]]
                busy += sum(ticks) - sum(ticks[3:5])
        own = os.times()
        return time.monotonic(), busy / _TICKS, own.user + own.system


def settle(look: Callable[[], list[str]] | None = None, patience_s: float = _SETTLE_S) -> None:
    """Wait until no other thread of this process runs, for `patience_s` at most; `look` returns their states.

    Threads of OpenMP and of BLAS libraries look for more work for some milliseconds, and keep their processor busy.
    """
    look = look or _other_threads
    deadline = time.monotonic() + patience_s
    while "R" in look() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _other_threads() -> list[str]:
    """The states of this process's other threads, letters of proc_pid_stat(5)."""
    own = str(threading.get_native_id())
    texts = [_text(task / "stat") for task in Path("/proc/self/task").iterdir() if task.name != own]
    return [text.rpartition(")")[2].split()[0] for text in texts if text]


def memory() -> tuple[int, int]:
    """Bytes of memory, and how many of them can be had; control groups that the process is in are minded."""
    values = {}
    for line in _text(Path("/proc/meminfo")).splitlines():
        key, _, value = line.partition(":")
        values[key] = value.split()
    total = int(values.get("MemTotal", ["0"])[0]) * 1024
    free = int(values.get("MemAvailable", ["0"])[0]) * 1024
    for group in _control_groups():
        limit, used = _text(group / "memory.max"), _text(group / "memory.current")
        if limit.isdigit() and used.isdigit():
            total = min(total, int(limit))
            free = min(free, max(0, int(limit) - int(used) + _reclaimable(group)))
    return total, free


def cpu_list(text: str) -> list[int]:
    """`0-3,8` as numbers, the form of sysfs; empty for what is none."""
    cpus: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            cpus.extend(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            return []
    return cpus


def _slowest(cpus: tuple[int, ...]) -> float | None:
    clocks = {}
    cpu = -1
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        key, _, value = line.partition(":")
        with suppress(ValueError):
            if key.strip() == "processor":
                cpu = int(value)
            elif key.strip() == "cpu MHz":
                clocks[cpu] = float(value)
    return min((clocks[cpu] for cpu in cpus if cpu in clocks), default=None)


@cache
def _sensor() -> Path | None:
    for driver in ("coretemp", "k10temp", "zenpower", "cpu_thermal"):
        for folder in sorted(Path("/sys/class/hwmon").glob("hwmon*")):
            if _text(folder / "name") == driver and (folder / "temp1_input").exists():
                return folder / "temp1_input"
    for zone in sorted(Path("/sys/class/thermal").glob("thermal_zone*")):
        if _text(zone / "type") in ("x86_pkg_temp", "cpu-thermal", "cpu_thermal"):
            return zone / "temp"
    return None


def _quota() -> int | None:
    """Whole processors that the control groups allow, None without a limit."""
    least: int | None = None
    for group in _control_groups():
        quota, _, period = _text(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            least = min(least or 2**30, max(1, int(quota) // int(period)))
    return least


def _control_groups() -> list[Path]:
    """The process's control group (version 2) and those above it."""
    for line in _text(Path("/proc/self/cgroup")).splitlines():
        if line.startswith("0::/"):
            own = Path("/sys/fs/cgroup") / line[4:]
            return [own, *(parent for parent in own.parents if parent.is_relative_to("/sys/fs/cgroup"))]
    return []


def _reclaimable(group: Path) -> int:
    for line in _text(group / "memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key == "inactive_file" and value.isdigit():
            return int(value)
    return 0


def _bytes(size: str) -> int:
    unit = {"K": 2**10, "M": 2**20, "G": 2**30}.get(size[-1:], 1)
    number = size.rstrip("KMG")
    return int(number) * unit if number.isdigit() else 0


def _mhz(khz: str) -> float | None:
    return int(khz) / 1000 if khz.isdigit() and int(khz) else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
