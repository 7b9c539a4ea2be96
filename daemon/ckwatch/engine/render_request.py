"""The protocol of the pipe between the daemon and a render worker: one request, and its answer.

What many requests have in common (the kernel, who may write the workspace) is sent once, and named by a number then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

from ckwatch.model.kernels import Instance, Kernel, ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.render.outcome import RenderLimits, RenderOutcome
from ckwatch.workspace.writers import Writers

KERNELS_SENT = 32
WRITERS_SENT = 4

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Checks:
    """How to check a render without a compiler.

    `rules`: with the instance rules. `passed` are the parameters with which the unit last had no error, `writers` those
    who may write the workspace. `cache` is the folder of kept renders; None: neither look there nor keep it.
    """

    rules: bool
    passed: Mapping[str, ParameterValue] | None
    writers: Writers
    cache: Path | None


@dataclass(frozen=True, slots=True)
class SentChecks:
    """The same, with a number in place of the writers; these where the worker does not have them."""

    rules: bool
    passed: Mapping[str, ParameterValue] | None
    number: int
    writers: Writers | None
    cache: Path | None


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """A unit to render. `kernel` is None where the worker has the one of this `number`. `header_folders` hold the
    headers that templates and checks ask for features."""

    number: int
    kernel: Kernel | None
    instance: Instance
    arch: str
    limits: RenderLimits
    overlays: Mapping[str, str]
    checks: SentChecks | None
    header_folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderAnswer:
    """The outcome as the template gives it. `is_clean`: the checks were done, and have nothing to say.

    `broken` is what broke down in the checks, empty if nothing did.
    """

    outcome: RenderOutcome
    is_clean: bool
    broken: str = ""


class Sent(Generic[_Value]):
    """The side that sends: which number a value has, and whether it is to be sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._next = 0
        self._known: dict[int, tuple[int, object]] = {}

    def number(self, value: object, send: Callable[[], _Value]) -> tuple[int, _Value | None]:
        """The number of `value`, and what `send` makes to stand for it, where the other side does not have it."""
        known = self._known.get(id(value))
        if known is not None:
            return known[0], None
        self._next += 1
        sent = send()
        self._known[id(value)] = (self._next, value)  # which lives as long, so that no other has its identity
        if len(self._known) > self._limit:
            del self._known[next(iter(self._known))]
        return self._next, sent


class Received(Generic[_Value]):
    """The side that receives: it forgets as the other does."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[int, _Value] = {}

    def value(self, number: int, sent: _Value | None) -> _Value:
        """The value of that number."""
        if sent is not None:
            self._known[number] = sent
            if len(self._known) > self._limit:
                del self._known[next(iter(self._known))]
        return self._known[number]
