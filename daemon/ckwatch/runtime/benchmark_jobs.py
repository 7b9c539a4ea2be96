"""What a worker is asked for a unit, how it is started, and what makes two benchmarks one."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ckwatch.bench.messages import PROTOCOL
from ckwatch.bench.runtimes.choosing import runs
from ckwatch.bench.session import WORKER
from ckwatch.compile.elf import code_digest
from ckwatch.compile.request import ProductKind
from ckwatch.config.settings import BenchSection
from ckwatch.errors import CkwatchError
from ckwatch.model.kernel import Unit
from ckwatch.model.language import Language, language_of
from ckwatch.timing.job import Cache, Contestant, Job, Precision
from ckwatch.timing.problem import Problem
from ckwatch.timing.report import DeviceFacts, Devices

Load = Callable[[Path], bytes]
"""Reads a file of an artifact as it was stored: `ckwatch.store.verified`."""

KINDS = {Language.HIP: "hip", Language.CU: "cuda", Language.CPP: "cpu"}
"""The kind of device that runs what a template of a language renders to."""


@dataclass(frozen=True, slots=True)
class Worker:
    """How a worker is started: `launcher` in front of `command`."""

    launcher: tuple[str, ...]
    command: tuple[str, ...]

    @classmethod
    def of(cls, settings: BenchSection) -> Worker:
        """The workspace's choice. Behind a launcher this Python's path means nothing."""
        default = ("python3", *WORKER[1:]) if settings.launcher else WORKER
        return cls(tuple(settings.launcher), tuple(settings.worker) or default)


def kind_of(unit: Unit) -> str:
    """`hip`, `cuda` or `cpu`."""
    return KINDS[language_of(unit.kernel.template)]


def suitable(found: Devices, unit: Unit, wanted: str) -> DeviceFacts | str:
    """The device that the unit is timed on, or why there is none. `wanted` is `[bench] device`; it chooses among
    devices of the kind that it names."""
    kind = kind_of(unit)
    devices = [device for device in found.devices if device.kind == kind]
    absent = next((one for one in found.absent if one.kind == kind), None)
    if not devices:
        why = f": {absent.why}" if absent is not None else ""
        hint = f"\n{absent.hint}" if absent is not None and absent.hint else ""
        return f"no {kind} device{why}{hint}"
    named = [device for device in devices if wanted in (device.name, device.pci)]
    if not named and (wanted == kind or wanted.startswith((f"{kind}:", "0000:"))) and wanted != "auto":
        return f"there is no device {wanted}; there are {', '.join(device.name for device in devices)}"
    choice = named or devices
    fitting = [device for device in choice if runs(unit.arch, device)]
    if not fitting:
        there = ", ".join(f"{device.name} ({device.arch})" for device in choice)
        return f"no device for {unit.arch}: there is {there}"
    return fitting[0]


def job_of(
    unit: Unit, problem: Problem, device: DeviceFacts, contestants: tuple[Contestant, ...], settings: BenchSection
) -> Job:
    """The measurement of these contestants on one device."""
    return Job(
        device=device.identity if device.pci is not None else device.name,
        kind=device.kind,
        arch=unit.arch,
        problem=problem,
        contestants=contestants,
        caches=tuple(Cache(cache) for cache in dict.fromkeys(settings.caches)),
        precision=Precision(
            budget_s=settings.budget_s,
            minimum_s=min(Precision().minimum_s, settings.budget_s),
            relative_error=settings.relative_error,
        ),
        lease_wait_s=settings.lease_wait_s,
        shared=settings.shared,
        threads=settings.threads,
    )


def benchmark_key(
    products: Mapping[str, str], load: Load, problem: Problem, device: DeviceFacts, settings: BenchSection
) -> str:
    """Equal where the same code was measured on the same problem, device and driver, in the same way; for a thread.

    `load` reads a file of the artifact, and what it raises passes. Raises CkwatchError for one that is no object.
    """
    path = products.get(ProductKind.OBJECT.value) or products[ProductKind.SHARED_OBJECT.value]
    try:
        code = code_digest(load(Path(path)))
    except ValueError as error:
        raise CkwatchError(f"{path} cannot be read: {error}", "build the unit with --force") from error
    machine = [*settings.launcher] or [socket.gethostname()]
    place = (device.identity, device.description, device.arch, device.driver, device.runtime)
    parts = (PROTOCOL, code, asdict(problem), place, machine, settings.caches, settings.threads)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
