"""The state of a workspace as clients see it: units, files, and how they change."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ckwatch.wire.benchmarks import Timing
from ckwatch.wire.schema import Value


class Position(Value):
    """A place between two code points."""

    line: int
    column: int


class Span(Value):
    """A half-open range of the file at the absolute `path`."""

    path: str
    start: Position
    end: Position


class Related(Value):
    """One link of the chain that explains a diagnostic."""

    message: str
    span: Span | None


class Fix(Value):
    """Replace the text at `span` by `text`."""

    span: Span
    text: str


class Diagnostic(Value):
    """One message at one place; the fields of `ckwatch build --json`.

    `units` are those in which it arises, of `unit_count` that were examined. `stale`: it is about an input that has
    been replaced; its unit is being worked on.
    """

    severity: Literal["error", "warning", "information", "hint"]
    source: str
    code: str
    message: str
    span: Span
    related: tuple[Related, ...] = ()
    detail: str = ""
    fixes: tuple[Fix, ...] = ()
    units: tuple[str, ...] = ()
    unit_count: int = 0
    approximate: bool = False
    stale: bool = False


class Cause(Value):
    """An event and its time (Unix seconds)."""

    what: str
    at: float


class Figures(Value):
    """Figures of the main kernel in the code object of a unit's last artifact.

    `standing`: whether it belongs to the unit's present artifact. `kernel` is the main kernel's readable name, of
    `kernels` in all. `vgprs` to `sgpr_spills` count registers, bytes are per lane (`scratch_bytes`) or per workgroup
    (`lds_bytes`). `occupancy` is in waves per SIMD, None when the arch is not known; `next_step` is what would raise
    it (`12 VGPR fewer → 3 waves`). `matrix_use` (0 to 1) and `loop_clocks` are llvm-mca's prediction for one wave and
    one iteration of the main loop. `changes` are the figures that changed since the previous artifact,
    `baseline_changes` since the artifact that the baseline was set with: `VGPR 189 → 201`. `headline` is a summary in
    one line.
    """

    artifact_key: str
    standing: Literal["fresh", "stale"]
    kernel: str
    kernels: int
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int
    lds_bytes: int
    occupancy: int | None = None
    limited_by: str = ""
    next_step: str = ""
    matrix_use: float | None = None
    loop_clocks: float | None = None
    changes: tuple[str, ...] = ()
    baseline_changes: tuple[str, ...] = ()
    headline: str = ""


class VerificationBrief(Value):
    """The last verification of a unit by an emulator (`Client.verify` has all of it).

    `standing`: whether it belongs to the unit's present artifact. `summary` is one line, `problems` counts the shapes
    that were tried, `findings` what was found besides results. It has no time: an emulator's says nothing of a GPU.
    """

    artifact_key: str
    standing: Literal["fresh", "stale"]
    outcome: Literal["verified", "failed", "not verified"]
    device: str
    summary: str
    problems: int
    findings: int


Phase = Literal["waiting", "rendering", "looking", "idle", "queued", "compiling", "done"]
"""`waiting` to be rendered, `looking` in the store, `idle`: neither built nor requested, `queued` for a compiler."""

OutcomeName = Literal["built", "failed", "skipped", "faulted", "checked"]
"""`skipped`: an instance rule refuses what a sweep makes; `faulted`: the host failed."""


class Unit(Value):
    """A unit's state.

    `outcome` is the last result's; `fresh` says whether it belongs to the present input. `products` are absolute paths
    in the store by kind (`shared-object`, `code-object`, …), of the last result that has any. `cause` is the chain of
    events that led to the present state, newest first. `seconds` is the compile time. `edited` counts edits: higher is
    more recent. `timings` are the last ones of each shape, including stale ones; `measuring` is the shape that is being
    timed, `to_measure` are all that wait for it, and `unmeasured` says why the unit is not timed automatically.
    `figures` are those of the last artifact's code object, None when it was not analyzed. `verification` is the last
    one by an emulator, `verifying` says that one runs or waits, and `unverified` why there is none. `slow` says that it
    is being compiled for far longer than usual, and with which flags; `waits_for` says what its compile waits
    for.
    """

    kind: Literal["unit"] = "unit"
    id: str
    kernel: str
    instance: str
    arch: str
    place: Span
    phase: Phase
    outcome: OutcomeName | None
    fresh: bool
    generation: int
    errors: int
    warnings: int
    symbol: str | None = None
    key: str | None = None
    from_store: bool = False
    seconds: float = 0.0
    finished_at: float | None = None
    products: dict[str, str] = Field(default_factory=dict)
    cause: tuple[Cause, ...] = ()
    edited: int = 0
    timings: tuple[Timing, ...] = ()
    measuring: str | None = None
    to_measure: tuple[str, ...] = ()
    unmeasured: str = ""
    figures: Figures | None = None
    verification: VerificationBrief | None = None
    verifying: bool = False
    unverified: str = ""
    slow: str = ""
    waits_for: str = ""


class File(Value):
    """The diagnostics of a file, equal ones of several units merged.

    `generations`: the generation of each unit that they are about, without units whose diagnostics are stale.
    """

    kind: Literal["file"] = "file"
    path: str
    diagnostics: tuple[Diagnostic, ...]
    generations: dict[str, int] = Field(default_factory=dict)


class Workspace(Value):
    """The workspace as a whole. `warnings`: what limits the daemon, by topic. `waits_for`: what `queued` units wait
    for.

    `imported_at`: when timings of others were imported or removed last (Unix seconds), null if not since the daemon has
    started. `editors`: clients that show places.
    """

    kind: Literal["workspace"] = "workspace"
    root: str
    loaded: bool
    busy: bool
    unit_count: int
    jobs: int
    compiling: int
    problem: str | None = None
    warnings: dict[str, str] = Field(default_factory=dict)
    imported_at: float | None = None
    waits_for: str = ""
    editors: int = 0


class ShownPlace(Value):
    """A place that an editor is to show: `column` code points into the line; both count from zero."""

    kind: Literal["place"] = "place"
    path: str
    line: int
    column: int


State = Annotated[Unit | File | Workspace | ShownPlace, Field(discriminator="kind")]


class Change(Value):
    """A line of the event stream: the state of `topic` (`unit/ID`, `file/PATH`, `workspace`) since `seq`; null when it
    was removed. Editors that show places get the topic `show`, too: it is in no snapshot.

    Topics `heartbeat` (nothing happened) and `reset` (too much was missed: take a new snapshot) have no state.
    """

    seq: int
    topic: str
    state: State | None = None


class Snapshot(Value):
    """Everything, as of `seq`: following the events after `seq` misses nothing."""

    seq: int
    states: dict[str, State]
