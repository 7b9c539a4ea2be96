"""The daemon's state: plain values that only `step` changes.

`begin`, `stop` and `release` keep the record of running work, and of the file changes that it may have missed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ckwatch.core import events
from ckwatch.core.effects import Cancel, Effect
from ckwatch.core.graph import DependencyGraph
from ckwatch.core.unit_state import UnitState
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.unit_patterns import select_units

COMPILING = (events.WorkKind.CHECK, events.WorkKind.COMPILE, events.WorkKind.CHECK_WITH)
"""Work that runs compilers."""

Priority = tuple[int, int, int]
"""Rank (`ckwatch.core.demand`), negated order of its last edit, order of arrival; the smallest comes first."""


class WorkQueue:
    """Units by priority. Adding one again moves it, unless only its order of arrival differs."""

    def __init__(self) -> None:
        self._heap: list[tuple[Priority, events.UnitKey]] = []
        self._priority: dict[events.UnitKey, Priority] = {}

    def __len__(self) -> int:
        return len(self._priority)

    def __contains__(self, key: events.UnitKey) -> bool:
        return key in self._priority

    def add(self, key: events.UnitKey, priority: Priority) -> None:
        """Add the unit, or move it."""
        known = self._priority.get(key)
        if known is None or known[:2] != priority[:2]:
            self._priority[key] = priority
            heapq.heappush(self._heap, (priority, key))

    def remove(self, key: events.UnitKey) -> None:
        """Remove the unit, if the queue has it."""
        self._priority.pop(key, None)

    def first(self) -> events.UnitKey | None:
        """The next unit, which stays in the queue."""
        heap, current = self._heap, self._priority
        while heap and current.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    @property
    def rank(self) -> int | None:
        """That of the next unit; None when the queue is empty."""
        return None if self.first() is None else self._heap[0][0][0]

    def pop(self) -> events.UnitKey:
        """Remove and return the next unit. Raises IndexError when the queue is empty."""
        key = self.first()
        if key is None:
            raise IndexError("the queue is empty")
        heapq.heappop(self._heap)
        del self._priority[key]
        return key

    def next_ones(self, count: int) -> list[events.UnitKey]:
        """The next units, in order, at most so many."""
        return heapq.nsmallest(count, self._priority, key=lambda key: (self._priority[key], key))

    @property
    def keys(self) -> frozenset[events.UnitKey]:
        """The units in the queue."""
        return frozenset(self._priority)


Effects = list[Effect]
"""The effects that a step has requested so far."""


@dataclass(slots=True)
class View:
    """The workspace as one client sees it. MAIN is the workspace's own view: the files on disk.

    A client's view holds states only of units that differ from MAIN's.
    """

    name: str
    """MAIN or the client's."""

    # How it differs from MAIN.
    overlays: dict[str, str] = field(default_factory=dict)
    """Unsaved texts by path."""
    digests: dict[str, str | None] = field(default_factory=dict)
    """Their SHA-256."""
    changed_at: dict[str, int] = field(default_factory=dict)
    """When each unsaved text was last changed or dropped, in the order of `State.order`."""
    options: events.ViewOverrides = field(default_factory=events.ViewOverrides)
    """The client's archs, rules and warnings."""
    alike: bool = True
    """The workspace's settings were MAIN's when the view was last loaded."""
    leaving: bool = False
    """The client has no view any more; its units are removed piece by piece."""

    # The last load.
    workspace: events.LoadedWorkspace | None = None
    """None before the first."""
    problem: str | None = None
    """Why the workspace cannot be loaded."""
    diagnostics: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)
    """The load's own diagnostics by path."""
    found: dict[str, events.KernelUnits] = field(default_factory=dict)
    """Its kernels by name."""

    # What is made of it, piece by piece.
    pending: dict[str, None] = field(default_factory=dict)
    """Names of the kernels to take over, or to compare with MAIN's."""
    taking: list[tuple[str, Unit | None]] = field(default_factory=list)
    """Units to take over of the present kernel, the last first; None for removed ones."""
    kernels: dict[str, events.KernelUnits] = field(default_factory=dict)
    """The kernels taken over."""
    members: dict[str, Unit] = field(default_factory=dict)
    """The units taken over, by id."""
    units: dict[str, UnitState] = field(default_factory=dict)
    """The states of those that differ from MAIN's; of MAIN's, all."""
    started: bool = False
    """The first load is taken over: a unit that comes later was written just now."""

    # The present load.
    loading: events.Work | None = None
    """The running load."""
    urgent: bool = False
    """A client waits for it."""
    load_again: bool | None = None
    """Set while a load runs and another is due; True when a client waits for that."""
    aside: events.LoadedWorkspace | None = None
    """A client's load, to be taken over after MAIN's own that is under way."""

    @property
    def is_plain(self) -> bool:
        """Return True if a client's view is the same as MAIN."""
        options = self.options
        return not self.overlays and not options.archs and options.rules and options.header_warnings is None

    @property
    def is_current(self) -> bool:
        """Return True if everything that a load found is taken over, and no load is awaited."""
        awaited = self.load_again or (self.loading is not None and self.urgent) or self.aside is not None
        return not (awaited or self.pending or self.taking)


@dataclass(frozen=True, slots=True)
class Invalidation:
    """A unit's new input, noted but not yet acted upon."""

    cause: events.Cause
    recompile: bool
    """Equal tokens do not prove that the last result holds."""
    edit: bool
    """A file changed just now."""


@dataclass(frozen=True, slots=True)
class Unwanted:
    """A unit that a client does not want any more."""

    scope: str
    unit: str
    cause: events.Cause
    pause: bool = False
    """Nor is anybody else to get it."""
    spare: bool = False
    """A compiler that runs already may go on."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A unit that a client wants."""

    scope: str
    unit: str
    cause: events.Cause
    anew: bool = False
    """Although it was cancelled."""


@dataclass(slots=True)
class PendingBuild:
    """A build request that is not answered yet."""

    name: str
    scope: str
    patterns: tuple[str, ...] | None
    force: bool
    check_only: bool
    finish: bool = False
    """Compilers that have begun go on when the client goes."""
    lines: bool = False
    """It wants line tables beside what is compiled for it."""
    pending: set[str] | None = None
    """The units it waits for; None until they are known."""
    not_yet_asked: list[str] = field(default_factory=list)
    """Those of `pending` that are still to be asked for, the last first."""
    cancelled: frozenset[str] = frozenset()
    """Units that were cancelled after the request was made; they are not asked for."""
    scan: int = 0
    """The number of a scan that began after the request; when it has ended, the files are known as they were then."""
    awaits_analysis_of: set[str] = field(default_factory=set)
    """Units from the store whose analysis it waits for."""

    @property
    def awaits_asking(self) -> bool:
        """Return True if units are still to be requested: they are not known yet, or have not all had their turn."""
        return self.pending is None or bool(self.not_yet_asked)


@dataclass(slots=True)
class Focus:
    """The files and units that a client has in view."""

    units: frozenset[str]
    everything: bool
    """It wants every unit built."""
    auto_build: events.AutoBuild = events.AutoBuild.EDITED
    """Which units that its unsaved texts change are compiled without a request."""


@dataclass(slots=True)
class State:
    """Everything the daemon knows.

    News is noted at once and acted upon piece by piece: one step takes `units_at_once` of each kind, half a
    millisecond, and `paths_at_once` files.
    """

    # Limits.
    root: str = "/"
    """The workspace's folder."""
    renders: int = 1
    """Renders at a time."""
    look_ups: int = 2
    """Look-ups in the store at a time."""
    jobs: int = 1
    """Compiler processes at a time."""
    memory_bytes: int | None = None
    """Memory that compilers may use together; None before it is measured."""
    analyses_awaited: int = 30
    """How many artifacts from the store a build request waits for to be analyzed: some seconds."""
    recall_after_files: int = 20
    """Remembered results are looked at when so many files have changed at once."""
    units_at_once: int = 50
    paths_at_once: int = 200

    # How the workspace wants its units built and timed, from its last load.
    edits_unwatched: bool = True
    """Compile what is edited also while no client looks at anything."""
    build_everything: bool = False
    """Compile every unit, wanted or not."""
    passes_apart: bool = False
    """The compiler can run its host pass before the device pass, or both at a time."""
    benchmarks: events.BenchmarkPolicy = field(default_factory=events.BenchmarkPolicy)
    verification: events.VerificationPolicy = field(default_factory=events.VerificationPolicy)
    advice: bool = True
    """Find out why kernels use scratch or have few waves."""
    toolchains: events.ToolchainPolicy = field(default_factory=events.ToolchainPolicy)
    """The toolchains that units are checked with besides."""

    # From earlier runs of the daemon, by unit id.
    remembered: Mapping[str, events.RememberedUnit] = field(default_factory=dict)
    remembered_timings: Mapping[str, Mapping[str, events.ShapeTiming]] = field(default_factory=dict)
    remembered_figures: Mapping[str, events.ArtifactFigures] = field(default_factory=dict)
    recallable: bool = False
    """Results are remembered."""

    # Units, and what they depend on.
    views: dict[str, View] = field(default_factory=lambda: {events.MAIN: View(events.MAIN)})
    """The views by name: MAIN, and those of clients."""
    graph: DependencyGraph = field(default_factory=DependencyGraph)
    followed: int = -1
    """The version of the graph whose files are watched."""

    # Running work.
    order: int = 0
    """Counts works, edits and changes of files, so that it is known which came first."""
    running: dict[int, events.Work] = field(default_factory=dict)
    """Every task by number, those that are being stopped included."""
    cancelled: set[int] = field(default_factory=set)
    """Running tasks that are being stopped."""
    at_work: dict[events.WorkKind, int] = field(default_factory=lambda: dict.fromkeys(events.WorkKind, 0))
    """Running tasks of each kind, those that are being stopped included."""
    compilers: dict[int, events.Work] = field(default_factory=dict)
    """Running tasks whose compilers take cores and memory of this machine."""
    single_pass_compiles: set[int] = field(default_factory=set)
    """Compiles that run one pass at a time, or of whose two passes one has ended."""
    storing: set[int] = field(default_factory=set)
    """Compiles whose compilers have ended."""
    farm_slots: int = 0
    """Compiles that the farm has room for."""
    on_farm: set[int] = field(default_factory=set)
    """Compiles that workers of the farm do."""
    waits_for: str = ""
    """The resource that units in QUEUED wait for."""
    compile_seconds: dict[str, float] = field(default_factory=dict)
    """By kernel, the longest compile that is known of its units."""
    adopted: dict[int, events.UnitKey] = field(default_factory=dict)
    """Compilers that go on for another unit than they began for, with that unit."""
    recent_changes: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    """Changed files that running work may have missed: when, by `order`, and the SHA-256."""

    # Units that wait for their turn.
    render_queue: WorkQueue = field(default_factory=WorkQueue)
    look_queue: WorkQueue = field(default_factory=WorkQueue)
    compile_queue: WorkQueue = field(default_factory=WorkQueue)
    analyze_queue: WorkQueue = field(default_factory=WorkQueue)
    measure_queue: WorkQueue = field(default_factory=WorkQueue)
    verify_queue: WorkQueue = field(default_factory=WorkQueue)
    advise_queue: WorkQueue = field(default_factory=WorkQueue)
    with_queue: WorkQueue = field(default_factory=WorkQueue)
    """Units to be checked with other toolchains."""

    # News that is still to be acted upon.
    changed: deque[tuple[str, str | None, float]] = field(default_factory=deque)
    """Changed files: path, SHA-256 and when."""
    invalidated: dict[events.UnitKey, Invalidation] = field(default_factory=dict)
    """Units with a new input."""
    files_changed: int = 0
    """How many files have changed since all news was acted upon."""
    unrecalled: dict[str, None] = field(default_factory=dict)
    """Units of the workspace with a new input that wait for a render: a remembered result may be theirs."""
    compares: deque[tuple[str, str, events.Cause]] = field(default_factory=deque)
    """Units of clients' views that may differ from MAIN's, or not any more."""
    wants: deque[Wanted] = field(default_factory=deque)
    """Units that a client has just begun to want."""
    unwanted: deque[Unwanted] = field(default_factory=deque)
    """Units that a client has just stopped wanting."""
    newly_settled: deque[events.UnitKey] = field(default_factory=deque)
    """Units that may have to be timed now; empty after each step."""
    continuing: bool = False
    """`Continue` was asked for, and `Continued` has not come yet."""

    # Clients.
    requests: dict[str, PendingBuild] = field(default_factory=dict)
    """Build requests by name."""
    waiting: dict[str, set[str]] = field(default_factory=dict)
    """Names of the requests that wait for a unit, by the unit's id."""
    focus: dict[str, Focus] = field(default_factory=dict)
    """By client."""
    editors: frozenset[str] = frozenset()
    """Clients that show places."""
    shown: events.ShowRequested | None = None
    """The place that they were asked to show last."""

    # Tasks of which one runs at a time.
    recalling: events.Work | None = None
    """It ends when all of `recalled` has been taken over. Until then no unit of the workspace is rendered."""
    recalled: dict[str, events.RecalledUnit] = field(default_factory=dict)
    """Recalled units that are still to be taken over, by unit."""
    scanning: events.Work | None = None
    scan_again: bool = False
    """A scan is to follow the running one."""
    scanned: int = 0
    """The number of the last scan that has ended."""
    analyzing: events.Work | None = None
    measuring: dict[str, events.Work] = field(default_factory=dict)
    """One at a time on each device, by its key. Of what began when the devices were not known, or has none, the name
    that its request gave, empty for the workspace's choice."""
    devices: tuple[DeviceFacts, ...] = ()
    """The devices that units can be timed on, the best first; none before they are known."""
    fitting_devices: dict[tuple[str, str, str], dict[str, DeviceFacts]] = field(default_factory=dict)
    """Those of `devices`, by key, that code of a kind for an arch is timed on, by what is wanted; as far as asked."""
    doubtful_devices: set[str] = field(default_factory=set)
    """Keys of devices that could not be used: others come first until nothing waits for a device any more."""
    device_seconds_used: float = 0.0
    """Device time that automatic benchmarks have used since the last edit, the sum over all devices."""
    measure_requests: int = 0
    """The number of the last request for timings that was seen."""
    verifying: events.Work | None = None
    verify_requests: int = 0
    """The number of the last request for verifications that was seen."""
    advising: events.Work | None = None
    advice_requests: int = 0
    """The number of the last request for advice that was seen."""
    check_requests: int = 0
    """The number of the last request for checks with other toolchains that was seen."""
    recording: events.Work | None = None
    unrecorded: dict[str, None] = field(default_factory=dict)
    """Units whose results are to be written to the history."""
    removed: dict[str, None] = field(default_factory=dict)
    """Units to be removed from the history's present ones."""

    warnings: dict[str, str] = field(default_factory=dict)
    """Limits of the daemon on this host, by topic."""
    imported_at: float | None = None
    """When timings of others were imported or removed last, since the daemon has started."""

    def next(self) -> int:
        """The next number."""
        self.order += 1
        return self.order

    @property
    def main(self) -> View:
        """The workspace as it is on disk."""
        return self.views[events.MAIN]

    def find(self, key: events.UnitKey) -> UnitState | None:
        """The state that exactly this view has of the unit."""
        view = self.views.get(key.scope)
        return None if view is None else view.units.get(key.unit)

    def seen(self, scope: str, unit: str) -> UnitState | None:
        """The unit as a client sees it: its own view's state, else the workspace's."""
        view = self.views.get(scope, self.main)
        if view.started and unit not in view.members:
            return None
        return view.units.get(unit) or self.main.units.get(unit)

    def members(self, scope: str) -> Mapping[str, Unit]:
        """The units that a client sees, by id."""
        view = self.views.get(scope, self.main)
        return view.members if view.started else self.main.members

    def meant(self, scope: str, patterns: Sequence[str] | None) -> list[UnitState]:
        """The units that the patterns mean, as a client sees them; all for None."""
        names, _ = select_units(self.members(scope), patterns)
        return [unit for name in names if (unit := self.seen(scope, name)) is not None]

    @property
    def client_views(self) -> list[View]:
        """The views of clients."""
        return [view for view in self.views.values() if view.name != events.MAIN and not view.leaving]

    def invalidate(self, keys: Iterable[events.UnitKey], invalidation: Invalidation) -> None:
        """Note that the units have a new input. What is already noted is not weakened."""
        found = dict.fromkeys(keys, invalidation)
        for key in self.invalidated.keys() & found.keys() if self.invalidated else ():
            known = self.invalidated[key]
            recompile, edit = known.recompile or invalidation.recompile, known.edit or invalidation.edit
            if (recompile, edit) != (invalidation.recompile, invalidation.edit):
                found[key] = Invalidation(invalidation.cause, recompile, edit)
        self.invalidated.update(found)

    def all_units(self) -> Iterator[UnitState]:
        """Every unit's state in every view."""
        for view in self.views.values():
            yield from view.units.values()

    @property
    def is_compiling(self) -> bool:
        """Return True if a compiler is at work, or a unit is on its way to one."""
        running = self.at_work[events.WorkKind.CHECK] + self.at_work[events.WorkKind.COMPILE]
        return bool(running) or bool(self.compile_queue or self.render_queue or self.look_queue)

    @property
    def is_measuring_alone(self) -> bool:
        """Return True if a measurement is running that needs this machine's processor for itself."""
        return any(work.exclusive for work in self.measuring.values())

    @property
    def has_news(self) -> bool:
        """Return True if there is news that has not been acted upon."""
        return bool(
            self.changed
            or self.invalidated
            or self.compares
            or self.wants
            or self.unwanted
            or self.recalled
            or any(view.pending or view.taking or view.leaving for view in self.views.values())
            or any(request.not_yet_asked for request in self.requests.values())
        )

    @property
    def busy(self) -> bool:
        """Return True if anything runs or waits to run."""
        before = (self.render_queue, self.look_queue, self.compile_queue)
        after = (self.analyze_queue, self.measure_queue, self.verify_queue, self.advise_queue, self.with_queue)
        queues = (*before, *after)
        return bool(self.running or any(queues) or self.has_news)


def begin(
    state: State,
    kind: events.WorkKind,
    key: events.UnitKey,
    generation: int = 0,
    tokens: str = "",
    memory: int = 0,
    *,
    exclusive: bool = False,
) -> events.Work:
    """A new task, running from now on."""
    work = events.Work(state.next(), kind, key, generation, tokens, memory, exclusive)
    state.running[work.number] = work
    state.at_work[kind] += 1
    if kind in COMPILING:
        state.compilers[work.number] = work
    return work


def stop(state: State, out: Effects, work: events.Work | None) -> None:
    """End a task; does nothing when it has ended or is ending."""
    if work is not None and work.number in state.running and work.number not in state.cancelled:
        state.cancelled.add(work.number)
        out.append(Cancel(work))


def release(state: State, work: events.Work) -> bool:
    """Note the end of a task; whether it ran to its end without being stopped."""
    oldest = min(state.running)
    del state.running[work.number]
    state.at_work[work.kind] -= 1
    state.compilers.pop(work.number, None)
    state.adopted.pop(work.number, None)
    stopped = work.number in state.cancelled
    state.cancelled.discard(work.number)
    state.single_pass_compiles.discard(work.number)
    state.storing.discard(work.number)
    state.on_farm.discard(work.number)
    if not state.running:
        state.recent_changes.clear()
    elif state.recent_changes and work.number == oldest:
        oldest = min(state.running)
        state.recent_changes = {path: change for path, change in state.recent_changes.items() if change[0] > oldest}
    return not stopped
