"""The state of a workspace as clients see it: units, files, and how they change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.figures import Figures
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span
from ckwatch.model.timings import Timing
from ckwatch.model.topics import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """An event and its time (Unix seconds)."""

    what: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationBrief:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitToolchain:
    """A unit with another toolchain than the workspace's: `checked` or `built` where it compiles.

    `outcome` is None before the first result; `fresh`: it belongs to the present input. `working`: it is being checked,
    or waits for that. `problem`: why there is no result. `products`: as those of a unit, where it was built.
    """

    name: str
    outcome: OutcomeName | None = None
    fresh: bool = False
    errors: int = 0
    working: bool = False
    problem: str = ""
    key: str | None = None
    from_store: bool = False
    seconds: float = 0.0
    products: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Unit:
    """A unit's state.

    `outcome` is the last result's; `fresh` says whether it belongs to the present input. `products` are absolute paths
    in the store by kind (`shared-object`, `code-object`, …), of the last result that has any. `cause` is the chain of
    events that led to the present state, newest first. `seconds` is the compile time. `edited` counts edits: higher is
    more recent. `timings` are the last ones of each shape, including stale ones; `measuring` is the shape that is being
    timed, `to_measure` are all that wait for it, and `unmeasured` says why the unit is not timed automatically.
    `figures` are those of the last artifact's code object, None when it was not analyzed. `verification` is the last
    one by an emulator, `verifying` says that one runs or waits, and `unverified` why there is none. `slow` says that it
    is being compiled for far longer than usual, and with which flags; `waits_for` says what its compile waits
    for. `profiled_at`: when a profile from a device was taken or imported last (Unix seconds), null if not since the
    daemon has started. `toolchains`: with each of `[toolchain] also`.
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
    products: dict[str, str] = field(default_factory=dict)
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
    profiled_at: float | None = None
    toolchains: tuple[UnitToolchain, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class File:
    """The diagnostics of a file, equal ones of several units merged.

    `generations`: the generation of each unit that they are about, without units whose diagnostics are stale.
    """

    kind: Literal["file"] = "file"
    path: str
    diagnostics: tuple[Diagnostic, ...]
    generations: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Workspace:
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
    warnings: dict[str, str] = field(default_factory=dict)
    imported_at: float | None = None
    waits_for: str = ""
    editors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class ShownPlace:
    """A place that an editor is to show: `column` code points into the line; both count from zero."""

    kind: Literal["place"] = "place"
    path: str
    line: int
    column: int


class _ByKind:
    """Lets pydantic look at `kind` where it would try all types; it need not be loaded for that."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: Any) -> Any:
        choices = {kind: handler.generate_schema(state) for kind, state in STATES.items()}
        return {"type": "tagged-union", "discriminator": "kind", "choices": choices}


State = Unit | File | Workspace | ShownPlace
TaggedState = Annotated[State, _ByKind]

STATES: Mapping[str, type[State]] = {"unit": Unit, "file": File, "workspace": Workspace, "place": ShownPlace}
"""By `kind`."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Change:
    """A line of the event stream: the state of `topic` (`unit/ID`, `file/PATH`, `workspace`) since `seq`; null when it
    was removed. Editors that show places get the topic `show`, too: it is in no snapshot.

    Topics `heartbeat` (nothing happened) and `reset` (too much was missed: take a new snapshot) have no state.
    """

    seq: int
    topic: Topic
    state: TaggedState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything, as of `seq`: following the events after `seq` misses nothing."""

    seq: int
    states: Mapping[Topic, TaggedState]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildLine:
    """A line of a build's answer: `start` (the units), then `unit` for each as it settles, then `done`.

    `problem` on `unit`: why it has no result (`cancelled`, `removed`). `seq` on `done`: the number of the
    last event that led to this state. `toolchains` on `unit`: with each toolchain that was asked for.
    """

    event: Literal["start", "unit", "done", "heartbeat"]
    seq: int = 0
    units: tuple[str, ...] = ()
    unit: Unit | None = None
    id: str | None = None
    problem: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    toolchains: tuple[UnitToolchain, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceDetail:
    """The workspace itself. `diagnostics` are those of `ckwatch.toml` and of kernel files.

    `kernel_names`: the kernel's name by the kernel file's path, also where mistakes leave nothing to compile.
    `toolchain_problem`: why nothing can be compiled. `header_folders` hold
    the headers that come with the compiler.
    """

    root: str
    problem: str | None
    diagnostics: tuple[Diagnostic, ...]
    files: tuple[str, ...]
    template_folders: tuple[str, ...]
    toolchain: str | None
    toolchain_problem: str | None
    kernel_names: dict[str, str] = field(default_factory=dict)
    header_folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmStatus:
    """The farm that compiles run on: `slots` at once on so many `workers`, of which the daemon uses `compiling`."""

    address: str
    workers: int
    slots: int
    compiling: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The daemon itself. `precompiling`: it makes precompiled headers in the background, or checks which are needed.
    `other_toolchains`: units by outcome with each of `[toolchain] also`."""

    version: str
    pid: int
    root: str
    started_at: float
    uptime_s: float
    seq: int
    unit_count: int
    phases: dict[str, int]
    outcomes: dict[str, int]
    busy: bool
    precompiling: bool = False
    clients: int
    memory_bytes: int
    idle_exit_s: float
    log_file: str | None
    toolchain: str | None
    warnings: dict[str, str]
    farm: FarmStatus | None = None
    other_toolchains: dict[str, dict[str, int]] = field(default_factory=dict)
