"""A stand-in for another machine: what Python processes are told of processors and caches. Nothing is faster or larger.

Python loads it when it starts, where this folder is on PYTHONPATH (`python tests/other_machine` puts it there), workers
and daemons included. `os` reports CORES processors; more of them share the real ones. ckwatch reads the caches in the
folder SYSTEM, which looks like sysfs. What compilers, kernels and other programs ask the system is the real machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec
from types import FunctionType, ModuleType

CORES = "OTHER_MACHINE_CORES"
SYSTEM = "OTHER_MACHINE_SYSTEM"
REAL = "OTHER_MACHINE_REAL_PROCESSORS"
"""The processors that the first process could use: a process that is bound to some of them does not know the others."""

PROCESSORS = "ckwatch.bench.runtimes.processors"


def report_processors(cores: int, real: Sequence[int]) -> None:
    """`os` has `cores` processors; number n of them is the n-th of `real`, again and again."""
    all_reported = set(range(cores))
    get, bind = os.sched_getaffinity, os.sched_setaffinity
    asked_for: dict[frozenset[int], set[int]] = {}

    def sched_getaffinity(pid: int, /) -> set[int]:
        now = frozenset(get(pid))
        known = asked_for.get(now)
        if known is not None:
            return set(known)
        return {number for number in all_reported if real[number % len(real)] in now} or set(all_reported)

    def sched_setaffinity(pid: int, mask: Iterable[int], /) -> None:
        reported = set(mask) & all_reported
        bind(pid, {real[number % len(real)] for number in reported})
        asked_for[frozenset(get(pid))] = reported

    os.cpu_count = lambda: cores
    os.sched_getaffinity, os.sched_setaffinity = sched_getaffinity, sched_setaffinity
    if hasattr(os, "process_cpu_count"):
        os.process_cpu_count = lambda: len(sched_getaffinity(0))


class ProcessorsLoader(SourceFileLoader):
    """Loads ckwatch's module that reads sysfs, and has it read SYSTEM; a quota of the real machine does not count."""

    def exec_module(self, module: ModuleType) -> None:
        """Run it and change where it looks."""
        from pathlib import Path

        super().exec_module(module)
        vars(module)["_quota"] = lambda: None
        real, other = vars(module)["SYSTEM"], Path(os.environ[SYSTEM])
        for one in vars(module).values():
            if isinstance(one, FunctionType) and one.__defaults__:
                one.__defaults__ = tuple(other if value is real else value for value in one.__defaults__)


class ProcessorsFinder:
    """Finds that module, and no other."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _: ModuleType | None = None) -> ModuleSpec | None:
        """As the import system asks."""
        if name != PROCESSORS:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.origin is not None:
            spec.loader = ProcessorsLoader(name, spec.origin)
        return spec


def load_the_next_one() -> None:
    """The sitecustomize that Python would have loaded, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib is not loaded for this
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != here])  # noqa: PTH100
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


if CORES in os.environ:
    report_processors(int(os.environ[CORES]), [int(number) for number in os.environ[REAL].split(",")])
    sys.meta_path.insert(0, ProcessorsFinder)
load_the_next_one()
