"""How a build goes about it, and what it tells meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ckwatch.compile.request import BuildOutcome, CompileOutcome, CompileRequest
from ckwatch.compile.store.content_hashes import ContentSnapshot
from ckwatch.model.lazy_dataclass import dataclass

if TYPE_CHECKING:  # loaded when something must be compiled
    from ckwatch.compile.driver_plan import PassSide

CompileElsewhere = Callable[[CompileRequest, Path], Awaitable[CompileOutcome]]
"""Compiles into the folder, as `compile_source`, on another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How to build.

    `look`: a view of the header files that was taken before; without one they are read now. `force`: compile whatever
    the store has. `side_by_side`: both passes at a time. `waiting`: so many others wait for a compiler; for many it is
    worth to make precompiled headers first. `elsewhere` compiles in place of this machine's compiler; its errors pass.
    """

    look: ContentSnapshot | None = None
    force: bool = False
    side_by_side: bool = True
    waiting: int = 0
    elsewhere: CompileElsewhere | None = None


DEFAULT_OPTIONS = BuildOptions()


@dataclass(frozen=True, slots=True)
class CompilerStarting:
    """A compiler is about to start; the store does not have the source."""


@dataclass(frozen=True, slots=True)
class OnePassLeft:
    """From now on only one process runs at a time."""


@dataclass(frozen=True, slots=True)
class CompilersEnded:
    """No compiler runs any more; the rest is storing."""


@dataclass(frozen=True, slots=True)
class CompilerLine:
    """A line that a compiler has written; `side` is None where the passes are not apart. The pass repeats a line
    that is `early`, perhaps with more in it."""

    side: PassSide | None
    line: str
    early: bool = False


@dataclass(frozen=True, slots=True)
class ProcessorUsed:
    """A process that does `stage` has used so many seconds of the processor."""

    stage: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BuildWaits:
    """The build waits for something; for nothing when it goes on."""

    what: str


@dataclass(frozen=True, slots=True)
class BuildStored:
    """The products are in the store. Sent by the thread that stored them."""

    outcome: BuildOutcome


BuildEvent = CompilerStarting | OnePassLeft | CompilersEnded | CompilerLine | ProcessorUsed | BuildWaits | BuildStored
OnBuildEvent = Callable[[BuildEvent], None]


def ignore(_event: BuildEvent) -> None:
    """Take no notice."""
