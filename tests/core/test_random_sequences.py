"""Random sequences of everything that can happen to a daemon; `World` checks after each step.

`CKWATCH_MACHINE_EXAMPLES=5000` looks longer.
"""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ckwatch.core.events import (
    AdviceRequested,
    AnalyzeRequested,
    BuildRequested,
    CancelRequested,
    Cause,
    CheckWithRequested,
    ClientLost,
    CompilerEnded,
    DevicesFound,
    FarmChanged,
    FilesChanged,
    FocusChanged,
    MeasureRequested,
    MemoryMeasured,
    OptionsChanged,
    OverlayChanged,
    PassFinished,
    RememberedUnit,
    RequestDropped,
    VerifyRequested,
    ViewOverrides,
    WarningChanged,
    WorkDropped,
    WorkKind,
)
from ckwatch.core.state import State
from ckwatch.model.gpu_specs import DeviceFacts
from core.audience import CLIENTS
from core.language import TOML
from core.workers import header_with
from core.world import World

EXAMPLES = int(os.environ.get("CKWATCH_MACHINE_EXAMPLES", "80"))
STEPS = 40

K1, K2, K3 = KERNELS = tuple(f"/ws/k{number}.kernel.toml" for number in (1, 2, 3))
T1, T2, T3, M1, M2 = (f"/ws/templates/{name}" for name in ("t1.hip.j2", "t2.hip.j2", "t3.cpp.j2", "m1", "m2"))
TEMPLATES = (T1, T2, T3, M1, M2, "/ws/over/m1")
H1, H2, *_ = HEADERS = ("/ck/h1", "/ck/h2", "/ck/first/h1", header_with("old"))

DEVICES = tuple(
    DeviceFacts(name=f"hip:{number}", description="test data", arch="gfx942", machine=machine)
    for machine in ("", "gpu-box")
    for number in (0, 1)
)

FILES = {
    TOML: "settings 0\njobs 2",
    K1: "template t1.hip.j2\nshape 64\nshape 128\ninstance a 1\ninstance b 2",
    K2: "template t2.hip.j2\ninstance c 1",
    T1: "include m1\nheader h1",
    T2: "include m1\ninclude m2\nheader h2",
    T3: "include m1",
    M1: "token 0",
    M2: "token 0\nheader h1",
    H1: "token 0",
    H2: "token 0\nheader h1",
}
TEMPLATE_TEXTS = (
    *("", "token 1", "header h1", "header h2", "include m1", "include m2\nheader h1", "include m2\ninclude m1"),
    *("warn", "hint", "fail", "broken", "warn\nheader h2", "hint\nheader h1\ninclude m2"),
)
HEADER_TEXTS = ("token 0", "token 1", "header h2", "warn", "fail", "token 1\nheader h2")
KERNEL_TEXTS = (
    *("template t1.hip.j2\ninstance a 1", "template t1.hip.j2\ninstance b 2\ninstance a 1", "template t2.hip.j2\ninstance a 1"),
    *("template t1.hip.j2\nflags x\ninstance a 1\ninstance b 2", "blank\ntemplate t1.hip.j2\ninstance a 1\ninstance b 2"),
    *("template t2.hip.j2\nflags x\ninstance c 1", "blank\ntemplate t2.hip.j2\ninstance c 1\ninstance d 4", "template m1\ninstance c 1"),
    *("template t1.hip.j2\ninstance a 13", "template gone\ninstance c 1", "broken", "template t1.hip.j2"),
    *("template t3.cpp.j2\nshape 64\ninstance a 1", "template t1.hip.j2\nshape 64\nshape 256\ninstance a 1\ninstance b 2"),
    *("template t3.cpp.j2\nshape 64\nshape 8\ninstance a 1\ninstance c 3", "template t2.hip.j2\nshape 32\ninstance c 1"),
)  # fmt: skip
TOML_TEXTS = (
    *("settings 0\njobs 2", "settings 1\njobs 2", "settings 0\njobs 1", "settings 1\njobs 3"),
    *("settings 0\njobs 2\nno-compiler", "settings 0\njobs 2\neverything"),
    *("settings 0\njobs 2\nbench 100", "settings 0\njobs 3\nbench 2\napart"),
    *("settings 0\njobs 2\nverify gfx942", "settings 0\njobs 2\nbench 100\nverify gfx942\nunchecked"),
    *("settings 0\njobs 2\nadvise", "settings 0\njobs 2\nadvise\nverify gfx942\nbench 100"),
    *("settings 0\njobs 2\nalso old new", "settings 0\njobs 3\nalso old\nalso-built\nadvise\nbench 100"),
    *("settings 0\njobs 2\napart", "settings 0\njobs 3\napart", "settings 0\njobs 1\napart\neverything"),
)

Edit = tuple[str, str | None]
COMPILERS = (WorkKind.CHECK, WorkKind.COMPILE)


def texts_of(path: str) -> tuple[str, ...]:
    """Strategy: contents of a file."""
    kinds = {TEMPLATES: TEMPLATE_TEXTS, HEADERS: HEADER_TEXTS, KERNELS: KERNEL_TEXTS, (TOML,): TOML_TEXTS}
    return next(texts for paths, texts in kinds.items() if path in paths)


def edits(*paths: str) -> st.SearchStrategy[Edit]:
    return st.sampled_from([(path, text) for path in paths for text in texts_of(path)])


writable = (*TEMPLATES, *HEADERS, *KERNELS)
changes = st.one_of(edits(*TEMPLATES), edits(*HEADERS), edits(*KERNELS), edits(TOML))
overlays = st.one_of(edits(*TEMPLATES), edits(*TEMPLATES), edits(*KERNELS), edits(TOML))
unit_ids = [f"k{kernel}/{name}@gfx942" for kernel in (1, 2, 3) for name in "abc"]
units = st.frozensets(st.sampled_from(unit_ids), max_size=3)
patterns = st.sampled_from((None, None, ("k1",), ("k1/a", "k2"), ("k2/*",), ("k3",), ("*/c@gfx942",), ("nothing",)))
clients = st.sampled_from(CLIENTS)
scopes = st.sampled_from(("", *CLIENTS))
seeds = st.sampled_from((0, 0, *range(1, 20)))
told = st.sampled_from((True, True, False))
works = st.sampled_from((0, 1, 2, 3, 5, 8, 13, 30))
"""How many works end before the next thing happens; compilers take longer."""


class Sequences(RuleBasedStateMachine):
    """Strategy: events, in any order."""

    @initialize(
        at_once=st.sampled_from((1, 2, 50)),
        settled=told,
        remembered=st.booleans(),
        recallable=st.booleans(),
        recall_after_files=st.sampled_from((1, 2, 20)),
        toml=st.sampled_from(TOML_TEXTS),
        contrary=st.booleans(),
    )
    def begin(
        self,
        at_once: int,
        settled: bool,
        remembered: bool,
        recallable: bool,
        recall_after_files: int,
        toml: str,
        contrary: bool,
    ) -> None:
        state = State(root="/ws", renders=2, recallable=recallable, recall_after_files=recall_after_files)
        state.units_at_once = state.paths_at_once = at_once
        if remembered:
            earlier = Cause("new in the workspace", 1.0)
            state.remembered = {
                "k1/a@gfx942": RememberedUnit("other tokens", {T1: "other", M1: FILES[M1]}, earlier, 3_000_000_000),
                "k1/b@gfx942": RememberedUnit("t1.hip.j2 p=2 0 #h1", {T1: FILES[T1], M1: FILES[M1]}, earlier, 1_000),
            }
        self.world = World(FILES | {TOML: toml}, state)
        self.world.workers.contrary = contrary
        self.requests = 0
        if settled:
            self.world.send(BuildRequested("first", "", None))
            self.world.drain()

    # Files.

    @rule(edit=changes, told=told, works=works, seed=seeds)
    def edit(self, edit: Edit, told: bool, works: int, seed: int) -> None:
        self._write(*edit, told=told)
        self._go_on(works, seed)

    @rule(path=st.sampled_from((*writable, TOML)), told=told, works=works)
    def remove(self, path: str, told: bool, works: int) -> None:
        self._write(path, None, told=told)
        self._go_on(works)

    @rule(path=st.sampled_from(writable), number=st.integers(2, 5), told=told, works=works, seed=seeds)
    def tweak(self, path: str, number: int, told: bool, works: int, seed: int) -> None:
        self._write(path, self._tweaked(path, number), told=told)
        self._go_on(works, seed)

    @rule(path=st.sampled_from(sorted(FILES)), back=st.integers(1, 3), told=told, works=works)
    def revert(self, path: str, back: int, told: bool, works: int) -> None:
        history = self.world.disk.history[path]
        self._write(path, history[-min(back, len(history))][1], told=told)
        self._go_on(works)

    @rule(path=st.sampled_from((*TEMPLATES, *KERNELS)), works=works)
    def comment(self, path: str, works: int) -> None:
        text = self.world.disk.files.get(path)
        if text is not None and text.count("blank") < 3:
            self._write(path, f"blank\n{text}", told=True)
        self._go_on(works)

    @rule(noticed=st.booleans(), complete=told)
    def watch(self, noticed: bool, complete: bool) -> None:
        self.world.notice() if noticed else self.world.deliver()
        if not complete:
            self.world.send(FilesChanged({}, complete=False))

    def _write(self, path: str, text: str | None, *, told: bool) -> None:
        self.world.write(path, text)
        if told:
            self.world.deliver()

    def _tweaked(self, path: str, number: int) -> str:
        """The file with another token, or a kernel file with another parameter: nothing breaks."""
        text = self.world.disk.files.get(path) or FILES.get(path, "")
        if path in KERNELS:
            return re.sub(r"instance (\w) \d+", rf"instance \1 {number}", text or FILES[K1], count=1)
        return "\n".join([line for line in text.split("\n") if line and "token" not in line] + [f"token {number}"])

    # Workers.

    @rule(works=works, seed=seeds)
    def time_passes(self, works: int, seed: int) -> None:
        self._go_on(works, seed)

    def _go_on(self, works: int, seed: int = 0) -> None:
        for _ in range(works):
            quick = [number for number, one in self.world.works.items() if one.effect.work.kind is not WorkKind.COMPILE]
            if self.world.continues:
                self.world.proceed()
            elif quick:
                self.world.answer(min(quick), seed=seed)

    @precondition(lambda self: self.world.works)
    @rule(which=st.integers(0, 9), seed=seeds, fault=st.sampled_from((None, None, None, "out of memory")))
    def end(self, which: int, seed: int, fault: str | None) -> None:
        number = self._work(which)
        self.world.answer(number, seed=seed, fault=fault)

    @precondition(lambda self: any(one.cancelled for one in self.world.works.values()))
    @rule()
    def stop(self) -> None:
        for number, one in list(self.world.works.items()):
            if one.cancelled:
                self.world.answer(number, cancelled=True)

    @precondition(lambda self: self.world.works)
    @rule(count=st.integers(2, 20), seed=seeds)
    def end_several(self, count: int, seed: int) -> None:
        for number in range(count):
            if self.world.works:
                self.world.answer(self._work(number), seed=seed)

    @precondition(lambda self: self._compilers())
    @rule(which=st.integers(0, 3), seed=seeds)
    def compiled(self, which: int, seed: int) -> None:
        compilers = self._compilers()
        self.world.answer(compilers[which % len(compilers)], seed=seed)

    @precondition(lambda self: self._compilers())
    @rule(path=st.sampled_from((*TEMPLATES, *HEADERS)), number=st.integers(2, 5), seed=st.integers(1, 20))
    def overtake(self, path: str, number: int, seed: int) -> None:
        """A file changes while a compiler runs, which may have read the old one."""
        self._write(path, self._tweaked(path, number), told=True)
        self.world.answer(self._compilers()[0], seed=seed)

    def _work(self, which: int) -> int:
        numbers = sorted(self.world.works)
        return numbers[which % len(numbers)]

    def _compilers(self) -> list[int]:
        return [number for number, one in self.world.works.items() if one.effect.work.kind is WorkKind.COMPILE]

    # The store.

    @rule(unit=st.sampled_from(unit_ids), everything=st.booleans(), works=works)
    def lose_artifacts(self, unit: str, everything: bool, works: int) -> None:
        """The store loses what a unit compiled to, or all that it has."""
        results = [
            (one.key.unit, one.compile.result) for one in self.world.state.all_units() if one.compile.result is not None
        ]
        lost = {result.artifact for name, result in results if everything or name == unit}
        self.world.lose(lost)
        self._go_on(works)

    # Analyses and benchmarks.

    @rule(scope=scopes, units=units, again=st.booleans(), works=works)
    def analyze(self, scope: str, units: frozenset[str], again: bool, works: int) -> None:
        self.world.send(AnalyzeRequested(scope, tuple(sorted(units)), again))
        self._go_on(works)

    @rule(
        units=units,
        shapes=st.sampled_from((None, ("64",), ("128", "none"))),
        force=st.booleans(),
        device=st.sampled_from((None, None, "hip:1")),
        works=works,
    )
    def measure(
        self, units: frozenset[str], shapes: tuple[str, ...] | None, force: bool, device: str | None, works: int
    ) -> None:
        number = self.world.state.measure_requests + 1
        self.world.send(MeasureRequested(number, tuple(sorted(units)), shapes, force, device))
        self._go_on(works)

    @rule(devices=st.frozensets(st.sampled_from(DEVICES)), works=works)
    def find_devices(self, devices: frozenset[DeviceFacts], works: int) -> None:
        self.world.send(DevicesFound(tuple(sorted(devices, key=lambda device: device.address))))
        self._go_on(works)

    @rule(units=units)
    def drop_measurements(self, units: frozenset[str]) -> None:
        self.world.send(WorkDropped(WorkKind.MEASURE, tuple(sorted(units))))

    @rule(scope=scopes, units=units, force=st.booleans(), works=works)
    def verify(self, scope: str, units: frozenset[str], force: bool, works: int) -> None:
        number = self.world.state.verify_requests + 1
        self.world.send(VerifyRequested(number, tuple(sorted(units)), force, scope))
        self._go_on(works)

    @rule(scope=scopes, units=units, everything=st.booleans())
    def drop_verifications(self, scope: str, units: frozenset[str], everything: bool) -> None:
        self.world.send(WorkDropped(WorkKind.VERIFY, tuple(sorted(units)), everything, scope))

    @rule(scope=scopes, units=units, works=works)
    def request_advice(self, scope: str, units: frozenset[str], works: int) -> None:
        number = self.world.state.advice_requests + 1
        self.world.send(AdviceRequested(number, tuple(sorted(units)), scope))
        self._go_on(works)

    @rule(scope=scopes, units=units, build=st.booleans(), force=st.booleans(), works=works)
    def check_with(self, scope: str, units: frozenset[str], build: bool, force: bool, works: int) -> None:
        number = self.world.state.check_requests + 1
        toolchains = ("old", "main") if works % 2 else ("new",)
        self.world.send(CheckWithRequested(number, tuple(sorted(units)), toolchains, build, force, scope))
        self._go_on(works)

    @rule(scope=scopes, units=units, everything=st.booleans())
    def drop_checks(self, scope: str, units: frozenset[str], everything: bool) -> None:
        self.world.send(WorkDropped(WorkKind.CHECK_WITH, tuple(sorted(units)), everything, scope))

    # Clients.

    @rule(scope=scopes, patterns=patterns, force=st.booleans(), check_only=st.booleans(), works=works)
    def build(self, scope: str, patterns: tuple[str, ...] | None, force: bool, check_only: bool, works: int) -> None:
        self.requests += 1
        self.world.send(BuildRequested(f"r{self.requests}", scope, patterns, force, check_only))
        self._go_on(works)

    @precondition(lambda self: self.requests)
    @rule(back=st.integers(0, 2))
    def drop(self, back: int) -> None:
        name = f"r{max(self.requests - back, 1)}"
        self.world.audience.requests[name].done = True
        self.world.send(RequestDropped(name))

    @rule(scope=scopes, units=units)
    def cancel(self, scope: str, units: frozenset[str]) -> None:
        self.world.send(CancelRequested(scope, units))

    @precondition(lambda self: any(one.effect.work.kind in COMPILERS for one in self.world.works.values()))
    @rule(pick=st.integers(0, 5), ended=st.sampled_from((None, PassFinished, CompilerEnded)), works=works)
    def report_output(self, pick: int, ended: type[PassFinished | CompilerEnded] | None, works: int) -> None:
        """A compiler reports what it has found, or that one of its passes or all have ended."""
        numbers = [number for number, one in self.world.works.items() if one.effect.work.kind in COMPILERS]
        number = numbers[pick % len(numbers)]
        if ended is not None:
            self.world.send(ended(self.world.works[number].effect.work))
        else:
            self.world.report_output(number)
        self._go_on(works)

    @rule(client=clients, units=units, everything=st.booleans(), works=works)
    def focus(self, client: str, units: frozenset[str], everything: bool, works: int) -> None:
        self.world.send(FocusChanged(client, units, everything))
        self._go_on(works)

    @rule(client=clients, overlay=overlays, works=works, seed=seeds)
    def set_overlay(self, client: str, overlay: tuple[str, str], works: int, seed: int) -> None:
        self._set_overlay(client, *overlay)
        self._go_on(works, seed)

    @rule(client=clients, path=st.sampled_from((*TEMPLATES, *KERNELS)), number=st.integers(1, 5), works=works)
    def write(self, client: str, path: str, number: int, works: int) -> None:
        """Typing in an editor; at first the text is the file's."""
        text = self.world.disk.files.get(path)
        if number > 1 or text is None:
            text = self._tweaked(path, number)
        self._set_overlay(client, path, text)
        self._go_on(works)

    @rule(client=clients, which=st.integers(0, 9), works=works)
    def save(self, client: str, which: int, works: int) -> None:
        path = self._overlaid(client, which)
        if path is not None:
            self._write(path, self.world.state.views[client].overlays[path], told=True)
        self._go_on(works)

    @rule(client=clients, path=st.sampled_from((*TEMPLATES, K1)), number=st.integers(2, 5), before=works, works=works)
    def write_and_save(self, client: str, path: str, number: int, before: int, works: int) -> None:
        text = self._tweaked(path, number)
        self._set_overlay(client, path, text)
        self._go_on(before)
        self._write(path, text, told=True)
        self._go_on(works)

    @rule(client=clients, which=st.integers(0, 9), works=works)
    def take_back(self, client: str, which: int, works: int) -> None:
        path = self._overlaid(client, which)
        if path is not None:
            self.world.send(OverlayChanged(client, path, None, None))
        self._go_on(works)

    def _set_overlay(self, client: str, path: str, text: str) -> None:
        self.world.send(OverlayChanged(client, path, text, text))

    def _overlaid(self, client: str, which: int) -> str | None:
        view = self.world.state.views.get(client)
        paths = sorted(view.overlays) if view is not None else []
        return paths[which % len(paths)] if paths else None

    @rule(
        client=clients,
        archs=st.sampled_from(((), (), ("gfx90a",), ("gfx942", "gfx90a"))),
        rules=told,
        warnings=st.sampled_from((None, None, True)),
        works=works,
    )
    def options(self, client: str, archs: tuple[str, ...], rules: bool, warnings: bool | None, works: int) -> None:
        self.world.send(OptionsChanged(client, ViewOverrides(archs, rules, warnings)))
        self._go_on(works)

    @rule(client=clients, works=works)
    def lose(self, client: str, works: int) -> None:
        for asked in self.world.audience.requests.values():
            asked.done = asked.done or asked.event.scope == client
        self.world.send(ClientLost(client))
        self._go_on(works)

    # The host.

    @rule(
        capacity=st.sampled_from((0, 2_500_000_000, 6_000_000_000)),
        message=st.sampled_from((None, "the disk is full")),
        slots=st.integers(0, 3),
    )
    def host(self, capacity: int, message: str | None, slots: int) -> None:
        self.world.send(FarmChanged(slots))
        self.world.send(MemoryMeasured(capacity))
        self.world.send(WarningChanged("store", message))

    @rule()
    def rest(self) -> None:
        self.world.drain()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


TestSequences = pytest.mark.timeout(600 + 10 * EXAMPLES)(Sequences.TestCase)
TestSequences.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="CKWATCH_MACHINE_EXAMPLES" not in os.environ,
    print_blob=True,
)
