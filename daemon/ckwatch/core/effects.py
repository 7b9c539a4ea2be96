"""The effects that the core asks for: a closed union.

Work (`Load`, `Scan`, `Render`, `LookUp`, `Check`, `Compile`, `Analyze`, `Measure`, `Record`) runs as a task and ends
in exactly one event, also when it fails or is cancelled. All other effects are done at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.core.events import AnalysisDepth, CompileFacts, ViewOverrides, Work
from ckwatch.model.kernels import Unit


@dataclass(frozen=True, slots=True)
class Load:
    """Read the workspace as `work.key.scope` sees it. What is not urgent may wait for a quiet moment."""

    work: Work
    overlays: Mapping[str, str]
    options: ViewOverrides
    urgent: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    """Look whether tracked files still are what they were."""

    work: Work


@dataclass(frozen=True, slots=True)
class Render:
    """Render and check a unit."""

    work: Work
    unit: Unit
    overlays: Mapping[str, str]
    options: ViewOverrides


@dataclass(frozen=True, slots=True)
class LookUp:
    """See whether the store has what the unit compiles to."""

    work: Work
    unit: Unit
    overlays: Mapping[str, str]
    options: ViewOverrides


@dataclass(frozen=True, slots=True)
class Check:
    """Run a unit's host pass: its mistakes are known long before the device pass has ended."""

    work: Work
    unit: Unit
    overlays: Mapping[str, str]
    options: ViewOverrides


@dataclass(frozen=True, slots=True)
class Compile:
    """Compile a unit. `side_by_side`: both passes at a time. So many others are `waiting` for a compiler."""

    work: Work
    unit: Unit
    overlays: Mapping[str, str]
    options: ViewOverrides
    force: bool
    side_by_side: bool = False
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Analyze:
    """Look into the code object that a unit compiled to. `before`: the artifact that it had last, if that is known."""

    work: Work
    unit: Unit
    result: CompileFacts
    depth: AnalysisDepth
    before: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """Time what a unit compiled to on a shape; with `force` also when the history has the timing. `device` None: the
    workspace's choice."""

    work: Work
    unit: Unit
    result: CompileFacts
    shape: str
    force: bool
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Write results to the history: unit ids whose state changed, and those that are no more."""

    work: Work
    units: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop a task; its end still comes as an event."""

    work: Work


@dataclass(frozen=True, slots=True)
class Changed:
    """Tell followers of `scope` (MAIN: all) that the state under `topic` is another: `unit/ID`, `file/PATH`, …"""

    scope: str
    topic: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell whoever made `request` that `unit` is settled, or, for None, that all are.

    `problem`: why the unit has no result; without a unit, the pattern that means none.
    """

    request: str
    unit: str | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateWatches:
    """The set of files to be watched has changed."""


@dataclass(frozen=True, slots=True)
class Continue:
    """Send `Continued` after whatever else waits."""


Effect = (
    Load | Scan | Render | LookUp | Check | Compile | Analyze | Measure | Record | Cancel | Changed | Notify | UpdateWatches
    | Continue
)  # fmt: skip
