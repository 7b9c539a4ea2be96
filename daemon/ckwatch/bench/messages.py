"""What a worker and its session say to one another, each message one frame (`frames`)."""

from __future__ import annotations

from dataclasses import dataclass

from ckwatch.timing.job import Job
from ckwatch.timing.report import Devices, Failure, Report

PROTOCOL = 1
"""Grows with every change that the other side would not understand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The worker's first word."""

    protocol: int
    version: str
    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The device is leased by somebody else, as far as that can be told."""

    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the worker does now: a hang and a crash are told with it. `contestant` where it is one's own."""

    name: str
    contestant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The session's first word, followed by `artifacts` frames of bytes: shared objects. `job` None: which devices?"""

    protocol: int
    job: Job | None
    artifacts: int = 0


WorkerMessage = Hello | Waiting | Stage | Devices | Report | Failure
