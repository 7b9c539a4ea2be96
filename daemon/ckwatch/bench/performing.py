"""A job from beginning to end, in the worker: choose a device, get hold of it, open it, measure.

Imported when the worker knows its job, since numpy comes with it.
"""

from __future__ import annotations

import getpass
import os
import platform
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ckwatch.bench.measuring import measure
from ckwatch.bench.messages import Stage, Waiting
from ckwatch.bench.runtimes.choosing import choose, find_all, runtime_module
from ckwatch.bench.runtimes.protocol import Runtime, RuntimeFailure
from ckwatch.device.lease import Lease, lease
from ckwatch.errors import CkwatchError
from ckwatch.timing.job import Job
from ckwatch.timing.report import DeviceFacts, Devices, Failure, FailureKind, Report

Answer = TypeVar("Answer")
Tell = Callable[[Stage | Waiting], None]

_OTHERS_POLL_S = 0.25


@dataclass(slots=True)
class _Whereabouts:
    """What is being done, for whoever is told of a failure."""

    tell: Tell
    stage: str = ""
    contestant: str = ""
    device: DeviceFacts | None = None

    def at(self, stage: str, contestant: str = "") -> None:
        if (stage, contestant) != (self.stage, self.contestant):
            self.stage, self.contestant = stage, contestant
            self.tell(Stage(name=stage, contestant=contestant))


def devices(tell: Tell) -> Devices | Failure:
    """What devices there are."""
    whereabouts = _Whereabouts(tell)
    whereabouts.at("looking for devices")
    return _guarded(whereabouts, find_all)


def perform(job: Job, artifacts: Sequence[bytes], tell: Tell) -> Report | Failure:
    """Measure `job`. The device and its lease stay this process's until it ends."""
    whereabouts = _Whereabouts(tell)
    return _guarded(whereabouts, lambda: _perform(job, artifacts, whereabouts))


_held: list[tuple[Lease, Runtime]] = []  # nothing is closed: the end of the process does that, whatever state it is in


def _perform(job: Job, artifacts: Sequence[bytes], whereabouts: _Whereabouts) -> Report:
    whereabouts.at("looking for the device")
    facts = whereabouts.device = choose(job)
    deadline = time.monotonic() + job.lease_wait_s
    held = _leased(facts, deadline, whereabouts)
    whereabouts.at("opening the device")
    options = {"threads": job.threads} if facts.kind == "cpu" else {}
    runtime = runtime_module(facts.kind).open(facts, **options)
    _held.append((held, runtime))
    whereabouts.device = runtime.facts
    beside = _wait_for_others(job, runtime, deadline, whereabouts)
    report = measure(runtime, job, artifacts, whereabouts.at)
    return replace(report, notes=(*beside, *report.notes))


def _leased(facts: DeviceFacts, deadline: float, whereabouts: _Whereabouts) -> Lease:
    whereabouts.at("waiting for the device")
    holders = [""]

    def waiting(holder: str) -> None:
        holders.append(holder)
        whereabouts.tell(Waiting(holder=holder))

    holder = f"{_user()}@{platform.node()}, process {os.getpid()}"
    wait_s = max(0.0, deadline - time.monotonic())
    held = lease(facts.identity, holder, wait_s=wait_s, waiting=waiting)
    if held is None:
        by = f" by {holders[-1]}" if holders[-1] else ""
        raise RuntimeFailure(
            FailureKind.BUSY,
            f"{facts.name} is measured on{by}, and was not free after {wait_s:.0f} s",
            "Benchmarks on a device are done one after the other.",
        )
    return held


def _wait_for_others(job: Job, runtime: Runtime, deadline: float, whereabouts: _Whereabouts) -> tuple[str, ...]:
    """Until nobody else computes on the device. What is to be noted."""
    told: tuple[str, ...] = ()
    while others := runtime.others():
        if job.shared:
            return (f"measured beside other processes on the device: {', '.join(others)}",)
        if others != told:
            told = others
            whereabouts.tell(Waiting(holder=", ".join(others)))
        if time.monotonic() >= deadline:
            raise RuntimeFailure(
                FailureKind.BUSY,
                f"other processes compute on {runtime.facts.name}: {', '.join(others)}",
                "Wait until they have ended, choose another device, or allow measuring beside them.",
            )
        time.sleep(_OTHERS_POLL_S)
    return ()


def _guarded(whereabouts: _Whereabouts, do: Callable[[], Answer]) -> Answer | Failure:
    """What `do` returns, or the failure that an exception is."""
    try:
        return do()
    except RuntimeFailure as failure:
        return _failure(whereabouts, failure.kind, failure.message, failure.hint, failure.detail)
    except CkwatchError as error:
        return _failure(whereabouts, FailureKind.BROKEN, error.message, error.hint or "", "")
    except MemoryError as error:
        what = f"{whereabouts.stage}: the worker's machine has too little memory"
        return _failure(whereabouts, FailureKind.NO_MEMORY, what, "A smaller shape fits.", str(error))
    except Exception as error:  # noqa: BLE001  # a bug of ours: told, not lost
        what = f"the worker failed while {whereabouts.stage or 'starting'}: {type(error).__name__}: {error}"
        return _failure(whereabouts, FailureKind.BROKEN, what, "This is a bug in ckwatch.", traceback.format_exc())


def _failure(whereabouts: _Whereabouts, kind: FailureKind, message: str, hint: str, detail: str) -> Failure:
    return Failure(
        kind=kind,
        message=message,
        hint=hint,
        detail=detail,
        contestant=whereabouts.contestant,
        device=whereabouts.device,
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
