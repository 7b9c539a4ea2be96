"""A simulated world around the state machine: disk, watcher, store, workers and clients.

Work is answered when the test wants it, with what was on disk at any time since it began. After each step the state is
checked, and so is what clients have received: nothing is shown that was not published, and what is called current
is what the world would give now.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ckwatch.core.effects import (
    Advise,
    Analyze,
    Cancel,
    Changed,
    Check,
    CheckWith,
    Compile,
    Continue,
    Effect,
    Load,
    LookUp,
    Measure,
    Notify,
    Recall,
    Record,
    Render,
    Scan,
    Verify,
    WorkEffect,
)
from ckwatch.core.events import (
    MAIN,
    AnyEvent,
    ArtifactsLost,
    BuildRequested,
    CancelRequested,
    CompilerOutput,
    Continued,
    FilesChanged,
    UnitKey,
    Work,
    WorkAborted,
    WorkKind,
)
from ckwatch.core.files import is_quiet
from ckwatch.core.state import State
from ckwatch.core.step import start, step
from ckwatch.model.kernels import Outcome
from core.audience import Asked, Audience
from core.disk import Disk
from core.invariants import ProgressCheck, check_invariants, is_at_rest
from core.judge import verify_answer, verify_fresh, verify_rest
from core.language import TOML
from core.workers import Outstanding, Workers

STEPS_TO_REST = 5000
QUICK = (
    *(WorkKind.LOAD, WorkKind.SCAN, WorkKind.RECALL, WorkKind.RENDER, WorkKind.LOOK_UP, WorkKind.ANALYZE),
    WorkKind.RECORD,
)
"""All but compilers."""


class World:
    """Everything but the machine.

    `inbox` holds news that the watcher has posted, `unread` the views whose last load failed, `broken`
    the artifacts of which an analysis did. `log` is what the
    machine did since it was last asked: `render k1/a`, `ann: compile k1/a`, `stop compile k1/a`, `notify r k1/a`.
    """

    def __init__(self, files: Mapping[str, str], state: State | None = None) -> None:
        self.disk = Disk(files)
        self.state = state or State(root="/ws")
        self.workers = Workers(self.disk)
        self.audience = Audience(self.state)
        self.progress = ProgressCheck()
        self.works: dict[int, Outstanding] = {}
        self.inbox: list[FilesChanged] = []
        self.continues = 0
        self.unread: set[str] = set()
        self.rested: dict[str, str] = {}
        self.broken: set[str] = set()
        self.log: list[str] = []
        self.take(start(self.state))

    # The disk and its watcher.

    def write(self, path: str, text: str | None) -> None:
        """Someone saves a file, or removes it."""
        self.disk.write(path, text)
        if path == TOML:
            self.rested = {}  # other settings make units idle without an edit

    def notice(self) -> None:
        """The watcher looks at the files that changed; the news of it lies in the inbox from now on."""
        unseen = self.disk.unseen
        reload = any(path.endswith(".toml") for path in unseen)
        self.inbox.append(FilesChanged({path: self.disk.files.get(path) for path in unseen}, reload=reload))
        unseen.clear()

    def deliver(self) -> None:
        """The oldest news reaches the machine."""
        if not self.inbox:
            self.notice()
        self.send(self.inbox.pop(0))

    def save(self, path: str, text: str | None) -> None:
        """A file is written, and the machine notified at once."""
        self.write(path, text)
        self.deliver()

    def lose(self, artifacts: Collection[str]) -> None:
        """The store loses these, and the machine is notified."""
        self.workers.lose(artifacts)
        self.send(ArtifactsLost(frozenset(artifacts)))

    # The machine.

    def send(self, event: AnyEvent) -> None:
        """One step, checked."""
        if isinstance(event, CancelRequested):
            self.rested = {}
        if isinstance(event, BuildRequested):
            self.audience.requests[event.request] = Asked(event, self.disk.version, self.state.order)
        effects = step(self.state, event)
        check_invariants(self.state)
        self.progress.follow(self.state, event, effects)
        self.take(effects)
        self.audience.verify()
        if not self.disk.unseen and not self.inbox and is_quiet(self.state):
            verify_fresh(self.state, self.disk, self.unread)

    def take(self, effects: tuple[Effect, ...]) -> None:
        """Note the machine's requests as outstanding; log what it does."""
        for effect in effects:
            match effect:
                case (
                    Load()
                    | Scan()
                    | Recall()
                    | Render()
                    | LookUp()
                    | Check()
                    | Compile()
                    | Analyze()
                    | Measure()
                    | Verify()
                    | Advise()
                    | CheckWith()
                    | Record()
                ):
                    self._begin(effect)
                case Cancel(work):
                    assert not self.works[work.number].cancelled, "stopped twice"
                    self.works[work.number].cancelled = True
                    self.log.append(f"{_scope(work.key)}stop {work.kind} {_short(work.key.unit)}".strip())
                case Changed():
                    self.audience.changed(effect)
                case Notify(request, unit, problem):
                    verify_answer(self.state, self.disk, effect, self.audience.answered(effect))
                    self.log.append(f"notify {request} {_short(unit or 'end')} {problem or ''}".strip())
                case Continue():
                    self.continues += 1
                case _:
                    pass

    def _begin(self, effect: WorkEffect) -> None:
        work = effect.work
        assert work.number not in self.works
        more = f" {effect.shape}" if isinstance(effect, Measure) else ""
        more = f" {effect.depth}" if isinstance(effect, Analyze) else more
        more = f" {effect.toolchain.name}" if isinstance(effect, CheckWith) else more
        self.log.append(f"{_scope(work.key)}{work.kind} {_short(work.key.unit)}{more}".strip())
        known, disputed = self.state.graph.known_digests()
        workspace = self.workers.loaded(work.key.scope)
        self.works[work.number] = Outstanding(effect, self.disk.version, known, disputed, workspace)
        if isinstance(effect, Check | Compile):
            self._verify_compiler(effect)
        if isinstance(effect, Analyze | Measure | Verify | Advise):
            self._verify_present(effect)

    def report_output(self, number: int) -> None:
        """A compiler reports what it has found so far."""
        one = self.works[number]
        assert isinstance(one.effect, Check | Compile)
        found = self.workers.reported(one, one.effect, self.disk.reader(one.version, 0))
        if found:
            self.send(CompilerOutput(one.effect.work, found))

    def _verify_compiler(self, effect: Check | Compile) -> None:
        work = effect.work
        looked = (work.key, work.generation) in self.workers.not_found
        forced = isinstance(effect, Compile) and effect.force
        unit = self.state.find(work.key)
        assert forced or looked or (unit is not None and unit.demand.force), "compiled without a look at the store"
        kinds = (WorkKind.CHECK, WorkKind.COMPILE)
        if isinstance(effect, Compile) and effect.on_farm:
            assert unit is None or not unit.compile.not_on_farm, "what the farm could not do goes there again"
            assert len(self.state.on_farm - self.state.storing) <= self.state.farm_slots, "the farm has room"
            return
        works = [
            one.effect.work
            for number, one in self.works.items()
            if one.effect.work.kind in kinds and number not in self.state.on_farm
        ]
        compiling = [work for work in works if work.number not in self.state.storing]
        processes = sum(2 if self._is_wide(work) else 1 for work in compiling)
        assert processes <= self.state.jobs
        if len(compiling) > 1 and self.state.memory_bytes is not None:
            assert sum(one.expected_memory_bytes for one in compiling) <= self.state.memory_bytes
        if not self.state.wants and not self._is_in_focus(work.key):
            waiting = [key for key in self.state.compile_queue.keys if self._is_in_focus(key)]
            assert not waiting, "units in focus come first"

    def _verify_present(self, effect: Analyze | Measure | Verify | Advise) -> None:
        unit = self.state.find(effect.work.key)
        assert unit is not None
        assert unit.settled, "the present artifact is analyzed or timed"
        assert unit.compile.result is effect.result
        if not isinstance(effect, Measure):
            assert unit.outcome is Outcome.BUILT
            return
        names = {shape.name for shape in unit.unit.kernel.shapes}
        assert effect.shape in names or "=" in effect.shape, "one of the file, or sizes"

    def _is_wide(self, work: Work) -> bool:
        """True if both passes run at a time."""
        effect = self.works[work.number].effect
        return (
            isinstance(effect, Compile) and effect.side_by_side and work.number not in self.state.single_pass_compiles
        )

    def _is_in_focus(self, key: UnitKey) -> bool:
        unit = self.state.find(key)
        return any(
            key.unit in focus.units and self.state.seen(client, key.unit) is unit
            for client, focus in self.state.focus.items()
        )

    # Time passes.

    def answer(self, number: int, *, seed: int = 0, fault: str | None = None, cancelled: bool = False) -> None:
        """A work ends: as it should (with a seed: not having seen all that is on disk), broken down, or cancelled."""
        work = self.works[number].effect.work
        ended = fault is not None or cancelled
        event: AnyEvent = WorkAborted(work, fault) if ended else self.workers.end(self.works[number], seed)
        del self.works[number]
        if work.kind is WorkKind.ANALYZE and ended:
            self.broken.add(work.tokens)
        if work.kind is WorkKind.LOAD:
            (self.unread.add if fault else self.unread.discard)(work.key.scope)
        self.send(event)

    def proceed(self) -> None:
        """The machine goes on with what was too much for one step."""
        self.continues -= 1
        self.send(Continued())

    def find(self, kind: WorkKind, unit: str = "") -> int:
        """The number of the only outstanding work of this kind that is not stopped."""
        (number,) = [
            number
            for number, one in self.works.items()
            if one.effect.work.kind is kind and not one.cancelled and unit in one.effect.work.key.unit
        ]
        return number

    def run(self, *kinds: WorkKind) -> list[str]:
        """Answer all works of these kinds (all for none given) in order, and return what the machine did meanwhile."""
        for _ in range(STEPS_TO_REST):
            ready = [
                number
                for number, one in self.works.items()
                if not kinds or one.effect.work.kind in kinds or one.cancelled
            ]
            if self.continues:
                self.proceed()
            elif ready:
                self.answer(ready[0], cancelled=self.works[ready[0]].cancelled)
            else:
                return self.take_log()
        raise AssertionError(f"no rest: {list(self.works.values())[:3]}")

    def take_log(self) -> list[str]:
        """Return what the machine did since the last call, except loads, scans, recalls, records and analyses."""
        quiet = ("load", "scan", "recall", "record")
        log = [line for line in self.log if not line.endswith(quiet) and "analyze" not in line]
        self.log.clear()
        return log

    def drain(self) -> None:
        """Let everything that is under way come to its end, and look at what came of it."""
        self.run()
        while self.disk.unseen or self.inbox or self.unread & self.state.views.keys():
            if self.disk.unseen or self.inbox:
                self.deliver()
            else:
                self.unread.clear()
                self.send(FilesChanged({}, reload=True))
            self.run()
        assert is_at_rest(self.state)
        for asked in self.audience.requests.values():
            assert asked.done, f"{asked.event.request} was never answered"
        verify_rest(self.state, self.disk, set(self.audience.units), self.rested, self.broken)
        self.rested = {name: unit.render.tokens for name, unit in self.state.main.units.items() if unit.render.tokens}


def _scope(key: UnitKey) -> str:
    return f"{key.scope}: " if key.scope != MAIN else ""


def _short(unit: str) -> str:
    return unit.removesuffix("@gfx942")
