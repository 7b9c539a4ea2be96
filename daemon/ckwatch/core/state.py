"""The daemon's state: plain values that only `step` changes.

Work queues return the most wanted unit first, and priorities may change. `begin`, `stop` and `release` keep the record
of running work, and of the file changes that running work may have missed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from ckwatch.codeobject.report_diff import warning_diagnostics
from ckwatch.core.effects import Cancel, Effect
from ckwatch.core.events import (
    MAIN,
    AnalysisDepth,
    ArtifactFigures,
    AutoBuild,
    BenchmarkPolicy,
    Cause,
    CompileFacts,
    KernelUnits,
    LoadedWorkspace,
    RememberedUnit,
    RenderFacts,
    ShapeTiming,
    UnitKey,
    ViewOverrides,
    Work,
    WorkKind,
)
from ckwatch.core.graph import DependencyGraph
from ckwatch.model.diagnostics import Diagnostic, Source
from ckwatch.model.kernels import Outcome, Unit

Priority = tuple[int, int, int]
"""Rank (0: looked at, 1: asked for, 2: edited, 3: the rest), negated recency of its edit, order of arrival."""


class WorkQueue:
    """Units by priority. Adding one again moves it, unless only its order of arrival is another."""

    def __init__(self) -> None:
        self._heap: list[tuple[Priority, UnitKey]] = []
        self._priority: dict[UnitKey, Priority] = {}

    def __len__(self) -> int:
        return len(self._priority)

    def __contains__(self, key: UnitKey) -> bool:
        return key in self._priority

    def add(self, key: UnitKey, priority: Priority) -> None:
        """Put the unit at its place."""
        known = self._priority.get(key)
        if known is None or known[:2] != priority[:2]:
            self._priority[key] = priority
            heapq.heappush(self._heap, (priority, key))

    def remove(self, key: UnitKey) -> None:
        """Take the unit out, if it is in."""
        self._priority.pop(key, None)

    def first(self) -> UnitKey | None:
        """The unit that comes next, which stays in the queue."""
        heap, current = self._heap, self._priority
        while heap and current.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def pop(self) -> UnitKey:
        """Take out the unit that comes next. Raises IndexError when there is none."""
        key = self.first()
        if key is None:
            raise IndexError("the queue is empty")
        heapq.heappop(self._heap)
        del self._priority[key]
        return key

    @property
    def keys(self) -> frozenset[UnitKey]:
        """The units in it."""
        return frozenset(self._priority)


COMPILER_MEMORY_BYTES = 2_500_000_000
"""Peak of one hipcc on a CK GEMM instance, measured at 1.5 to 2.2 GB, rounded up; until a unit's own peak is known."""


Effects = list[Effect]
"""What a step asks for so far."""


class Phase(StrEnum):
    """Where a unit is."""

    WAITING = "waiting"
    RENDERING = "rendering"
    LOOKING = "looking"
    IDLE = "idle"
    QUEUED = "queued"
    COMPILING = "compiling"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class TimingRequest:
    """A shape that is to be timed. `requested`: somebody asked, so that no budget counts; `force`: also again."""

    requested: bool = False
    force: bool = False
    device: str | None = None


NO_TIMINGS: Mapping[str, ShapeTiming] = MappingProxyType({})


@dataclass(slots=True)
class UnitState:
    """A unit in a scope.

    `render` and `result` are the last ones; `fresh` tells whether they belong to the present input. `reusable`: equal
    tokens prove that `result` holds (no header, flag or compiler has changed since). `working` is the render or look-up
    of the present generation, `compiler` the running compile, perhaps of an older generation with the same tokens.
    `edited` orders edits, 0 for never; `edited_now`: it was since the last good render, whose tokens are `tokens`.
    `wanted`: compile it without being asked; `held`: somebody does not want it compiled until it is edited or asked
    for. `checked`: the host pass over the present tokens has ended. `heard` is what the compilers of the present
    generation have said so far. `shown` are the files in which it has diagnostics.

    `timings` are the last ones by shape, of the present artifact or an earlier one; `to_measure` the shapes that wait
    to be timed, `measuring` the work of the first of them. `unmeasured` says why there are no timings by themselves.

    `figures` are what the code object of the present artifact, or of an earlier one, tells; `to_analyze` is set while
    that of the present one is to be looked into, `analyzing` is the work that does. `unanalyzed` is the artifact of
    which nothing can be told.
    """

    key: UnitKey
    unit: Unit
    cause: Cause
    generation: int = 1
    phase: Phase = Phase.WAITING
    render: RenderFacts | None = None
    result: CompileFacts | None = None
    fresh: bool = False
    reusable: bool = False
    force: bool = False
    wanted: bool = False
    held: bool = False
    edited: int = 0
    edited_now: bool = False
    tokens: str = ""
    working: Work | None = None
    compiler: Work | None = None
    checked: bool = False
    heard: tuple[Diagnostic, ...] = ()
    shown: frozenset[str] = frozenset()
    timings: Mapping[str, ShapeTiming] = field(default_factory=lambda: NO_TIMINGS)
    to_measure: dict[str, TimingRequest] = field(default_factory=dict)
    measuring: Work | None = None
    unmeasured: str = ""
    figures: ArtifactFigures | None = None
    to_analyze: AnalysisDepth | None = None
    analyzing: Work | None = None
    unanalyzed: str = ""

    @property
    def settled(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.phase is Phase.DONE or self.phase is Phase.IDLE

    @property
    def outcome(self) -> Outcome | None:
        """What is known of the unit; of an earlier input when it is not fresh."""
        if self.render is not None and not self.render.ok:
            return Outcome.FAILED
        if self.fresh and self.phase is Phase.IDLE:
            return Outcome.CHECKED
        return None if self.result is None else self.result.outcome

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The messages to show; those of the compiler only where rendering went well."""
        found = () if self.render is None else self.render.diagnostics
        failed = self.render is not None and not self.render.ok
        unbuilt = self.fresh and self.phase is Phase.IDLE
        if self.heard and not failed:
            return (*found, *self.heard)
        if failed or unbuilt or self.result is None:
            return found
        return (*found, *self.result.diagnostics, *self._figure_diagnostics, *self._timing_diagnostics)

    def has_built(self, artifact: str) -> bool:
        """Whether this still is the unit's artifact, as far as is known."""
        result, render = self.result, self.render
        if result is None or result.artifact != artifact or result.outcome is not Outcome.BUILT or not self.reusable:
            return False
        return self.phase in (Phase.WAITING, Phase.RENDERING) or (render is not None and render.tokens == result.tokens)

    @property
    def _figure_diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the code object of the last artifact warns of, at the instance wherever it stands now."""
        figures = self.figures
        if figures is None or not figures.warned or self.result is None or figures.artifact != self.result.artifact:
            return ()
        span = self.unit.instance.span
        return warning_diagnostics(figures.warned, unit=self.unit.id, span=span, source=Source.PERFORMANCE)

    @property
    def _timing_diagnostics(self) -> tuple[Diagnostic, ...]:
        """What timings of the last artifact have shown."""
        if not self.timings or self.result is None:
            return ()
        artifact = self.result.artifact
        return tuple(
            one for timing in self.timings.values() if timing.artifact == artifact for one in timing.diagnostics
        )


@dataclass(slots=True)
class View:
    """The workspace as somebody sees it: MAIN as it is on disk, others with a client's unsaved texts and options.

    A view holds states only of units that differ from MAIN's. `workspace` is the last load, None before the first.
    `overlays` and `digests` are the texts lent and their SHA-256, `lent` tells when each was lent or taken back.
    """

    name: str
    overlays: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str | None] = field(default_factory=dict)
    lent: dict[str, int] = field(default_factory=dict)
    options: ViewOverrides = field(default_factory=ViewOverrides)
    workspace: LoadedWorkspace | None = None
    problem: str | None = None
    kernels: dict[str, KernelUnits] = field(default_factory=dict)
    units: dict[str, UnitState] = field(default_factory=dict)
    members: dict[str, Unit] = field(default_factory=dict)
    diagnostics: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)
    loading: Work | None = None
    urgent: bool = False
    """Whether somebody waits for the load that runs."""
    load_again: bool | None = None
    """Set while a load runs and another is due; True when it is urgent."""
    aside: LoadedWorkspace | None = None
    """A view's load that waits for the workspace's own to be compared with."""
    found: dict[str, KernelUnits] = field(default_factory=dict)
    """The kernels of the last load by name."""
    pending: dict[str, None] = field(default_factory=dict)
    """Names of kernels that have to be taken over or compared with the workspace's."""
    taking: list[tuple[str, Unit | None]] = field(default_factory=list)
    """Units of the kernel that is being taken over, the last first; None for those that are gone."""
    started: bool = False
    """Whether all kernels of the first load were taken over: a unit that comes later was written just now."""
    alike: bool = True
    """Whether a view had the workspace's settings when it was last read."""
    leaving: bool = False
    """The client has no view any more; what is left of it is cleared away."""

    @property
    def is_plain(self) -> bool:
        """Whether a view is like the workspace."""
        options = self.options
        return not self.overlays and not options.archs and options.rules and options.header_warnings is None

    @property
    def is_current(self) -> bool:
        """Whether everything that a load found is taken over, and no load is awaited."""
        awaited = self.load_again or (self.loading is not None and self.urgent) or self.aside is not None
        return not (awaited or self.pending or self.taking)


@dataclass(frozen=True, slots=True)
class Invalidation:
    """A unit that has a new input, noted but not yet acted upon."""

    cause: Cause
    recompile: bool
    edit: bool


@dataclass(frozen=True, slots=True)
class Unwanted:
    """A unit that somebody does not want any more. `hold`: nor is anybody else to get it; `spare`: a compiler that runs
    already may go on."""

    scope: str
    unit: str
    cause: Cause
    hold: bool = False
    spare: bool = False


@dataclass(slots=True)
class PendingBuild:
    """Somebody waits for `pending`; None while it is not yet known which units are meant."""

    name: str
    scope: str
    patterns: tuple[str, ...] | None
    force: bool
    check_only: bool
    pending: set[str] | None = None
    unasked: list[str] = field(default_factory=list)
    """Those of `pending` that have not been looked at yet, the last first."""
    scan: int = 0
    """The number of a scan that begins after the request; files are as they are on disk when it has ended."""
    patient: set[str] = field(default_factory=set)
    """Units of the store whose code objects it waits for to be looked into."""


@dataclass(slots=True)
class Focus:
    """What a client looks at, and what of its unsaved texts is compiled."""

    units: frozenset[str]
    everything: bool
    unsaved: AutoBuild = AutoBuild.EDITED


@dataclass(slots=True)
class State:
    """Everything.

    One step acts on `units_at_once` units of each kind of news, half a millisecond, and `paths_at_once` files.
    `order` counts works, edits and changes of files, so that their sequence can be told. News is noted at once and
    acted upon piece by piece: `changed` files, `touched` units, `compares` (units of views that may differ from the
    workspace's), `wants` and `unwanted` (units that somebody wants, or does not want, since a moment ago). `recent` are
    the changes that running work may have missed. `waiting` maps unit names to the requests that wait. `heirs` are the
    units that took over another's compiler. `narrow` are the compiles of which one pass runs at a time, where
    `passes_apart` lets two.
    """

    root: str = "/"
    renders: int = 1
    look_ups: int = 2
    jobs: int = 1
    units_at_once: int = 50
    paths_at_once: int = 200
    memory_bytes: int | None = None
    build_everything: bool = False
    passes_apart: bool = False
    benchmarks: BenchmarkPolicy = field(default_factory=BenchmarkPolicy)
    settled: deque[UnitKey] = field(default_factory=deque)
    measure_queue: WorkQueue = field(default_factory=WorkQueue)
    measuring: Work | None = None
    measured_s: float = 0.0
    measure_requests: int = 0
    analyze_queue: WorkQueue = field(default_factory=WorkQueue)
    analyzing: Work | None = None
    remembered_figures: Mapping[str, ArtifactFigures] = field(default_factory=dict)
    remembered_timings: Mapping[str, Mapping[str, ShapeTiming]] = field(default_factory=dict)
    remembered: Mapping[str, RememberedUnit] = field(default_factory=dict)
    order: int = 0
    scopes: dict[str, View] = field(default_factory=lambda: {MAIN: View(MAIN)})
    graph: DependencyGraph = field(default_factory=DependencyGraph)
    followed: int = -1
    running: dict[int, Work] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    narrow: set[int] = field(default_factory=set)
    render_queue: WorkQueue = field(default_factory=WorkQueue)
    look_queue: WorkQueue = field(default_factory=WorkQueue)
    compile_queue: WorkQueue = field(default_factory=WorkQueue)
    changed: deque[tuple[str, str | None, float]] = field(default_factory=deque)
    touched: dict[UnitKey, Invalidation] = field(default_factory=dict)
    compares: deque[tuple[str, str, Cause]] = field(default_factory=deque)
    wants: deque[tuple[str, str, Cause]] = field(default_factory=deque)
    unwanted: deque[Unwanted] = field(default_factory=deque)
    heirs: dict[int, UnitKey] = field(default_factory=dict)
    continuing: bool = False
    recent: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    requests: dict[str, PendingBuild] = field(default_factory=dict)
    scanning: Work | None = None
    scan_again: bool = False
    scanned: int = 0
    recording: Work | None = None
    waiting: dict[str, set[str]] = field(default_factory=dict)
    focus: dict[str, Focus] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    unrecorded: dict[str, None] = field(default_factory=dict)
    removed: dict[str, None] = field(default_factory=dict)

    def next(self) -> int:
        """The next number."""
        self.order += 1
        return self.order

    @property
    def main(self) -> View:
        """The workspace as it is on disk."""
        return self.scopes[MAIN]

    def find(self, key: UnitKey) -> UnitState | None:
        """The state of exactly this unit in exactly this scope."""
        scope = self.scopes.get(key.scope)
        return None if scope is None else scope.units.get(key.unit)

    def seen(self, scope: str, unit: str) -> UnitState | None:
        """The unit as a client sees it: its own view's state, else the workspace's."""
        view = self.scopes.get(scope, self.main)
        if view.started and unit not in view.members:
            return None
        return view.units.get(unit) or self.main.units.get(unit)

    def members(self, scope: str) -> Mapping[str, Unit]:
        """The units that a client sees, by id."""
        view = self.scopes.get(scope, self.main)
        return view.members if view.started else self.main.members

    @property
    def views(self) -> list[View]:
        """The views of clients."""
        return [scope for scope in self.scopes.values() if scope.name != MAIN and not scope.leaving]

    def touch(self, keys: Iterable[UnitKey], touch: Invalidation) -> None:
        """Note that the units have a new input. What is already noted is not weakened."""
        found = dict.fromkeys(keys, touch)
        for key in self.touched.keys() & found.keys() if self.touched else ():
            known = self.touched[key]
            if (known.recompile and not touch.recompile) or (known.edit and not touch.edit):
                found[key] = Invalidation(touch.cause, known.recompile or touch.recompile, known.edit or touch.edit)
        self.touched.update(found)

    def all_units(self) -> Iterator[UnitState]:
        """Every unit's state in every scope."""
        for scope in self.scopes.values():
            yield from scope.units.values()

    def at_work(self, kind: WorkKind) -> int:
        """Tasks of this kind, those that are being stopped included."""
        return sum(work.kind is kind for work in self.running.values())

    @property
    def has_news(self) -> bool:
        """Whether there is news that has not been acted upon."""
        return bool(
            self.changed
            or self.touched
            or self.compares
            or self.wants
            or self.unwanted
            or any(scope.pending or scope.taking or scope.leaving for scope in self.scopes.values())
            or any(request.unasked for request in self.requests.values())
        )

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits to run."""
        queues = (self.render_queue, self.look_queue, self.compile_queue, self.analyze_queue, self.measure_queue)
        return bool(self.running or any(queues) or self.has_news)


def begin(
    state: State,
    kind: WorkKind,
    key: UnitKey,
    generation: int = 0,
    tokens: str = "",
    memory: int = 0,
    *,
    exclusive: bool = False,
) -> Work:
    """A new task, running from now on."""
    work = Work(state.next(), kind, key, generation, tokens, memory, exclusive)
    state.running[work.number] = work
    return work


def stop(state: State, out: Effects, work: Work | None) -> None:
    """End a task; does nothing when it has ended or is ending."""
    if work is not None and work.number in state.running and work.number not in state.cancelled:
        state.cancelled.add(work.number)
        out.append(Cancel(work))


def release(state: State, work: Work) -> bool:
    """Note the end of a task; whether it ran to its end without being stopped."""
    oldest = min(state.running)
    del state.running[work.number]
    state.heirs.pop(work.number, None)
    stopped = work.number in state.cancelled
    state.cancelled.discard(work.number)
    state.narrow.discard(work.number)
    if not state.running:
        state.recent.clear()
    elif state.recent and work.number == oldest:
        oldest = min(state.running)
        state.recent = {path: change for path, change in state.recent.items() if change[0] > oldest}
    return not stopped
