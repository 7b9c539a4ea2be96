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

from ckwatch.events import (
    BuildRequested,
    CancelRequested,
    Cause,
    ClientLost,
    CompileBegan,
    Focused,
    MemoryMeasured,
    Options,
    OptionsChanged,
    OverlayChanged,
    Remembered,
    RequestDropped,
    Warned,
    WorkKind,
)
from ckwatch.machine.state import State
from machine.audience import CLIENTS
from machine.language import TOML
from machine.world import World

EXAMPLES = int(os.environ.get("CKWATCH_MACHINE_EXAMPLES", "60"))
STEPS = int(os.environ.get("CKWATCH_MACHINE_STEPS", "60"))

K1, K2, K3 = (f"/ws/k{number}.kernel.toml" for number in (1, 2, 3))
T1, T2, M1, M2 = (f"/ws/templates/{name}" for name in ("t1", "t2", "m1", "m2"))
OVER_M1 = "/ws/over/m1"
H1, H2, FIRST_H1 = "/ck/h1", "/ck/h2", "/ck/first/h1"

FILES = {
    TOML: "settings 0\njobs 2",
    K1: "template t1\ninstance a 1\ninstance b 2",
    K2: "template t2\ninstance c 1",
    T1: "include m1\nheader h1",
    T2: "include m1\ninclude m2\nheader h2",
    M1: "token 0",
    M2: "token 0\nheader h1",
    H1: "token 0",
    H2: "token 0\nheader h1",
}
TEMPLATES = (T1, T2, M1, M2, OVER_M1)
HEADERS = (H1, H2, FIRST_H1)
KERNELS = (K1, K2, K3)

template_lines = st.lists(
    st.sampled_from(
        [
            "token 0",
            "token 1",
            "blank",
            "include m1",
            "include m2",
            "header h1",
            "header h2",
            "warn",
            "hint",
            "fail",
            "broken",
        ]
    ),
    max_size=4,
)
header_lines = st.lists(st.sampled_from(["token 0", "token 1", "header h2", "warn", "fail"]), max_size=2)
instances = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from((1, 2, 13))), max_size=3, unique_by=lambda one: one[0]
)
kernel_texts = st.builds(
    lambda head, template, flags, found: "\n".join(
        [*head, f"template {template}", *flags, *(f"instance {name} {value}" for name, value in found)]
    ),
    st.sampled_from(((), ("blank",), ("broken",), ())),
    st.sampled_from(("t1", "t2", "m1", "gone")),
    st.sampled_from(((), ("flags x",))),
    instances,
)
toml_texts = st.builds(
    lambda number, jobs, more: "\n".join([f"settings {number}", f"jobs {jobs}", *more]),
    st.integers(0, 1),
    st.integers(1, 3),
    st.sampled_from(((), (), (), ("no-compiler",), ("everything",))),
)
edits = st.one_of(
    st.tuples(st.sampled_from(TEMPLATES), st.one_of(st.none(), template_lines.map("\n".join))),
    st.tuples(st.sampled_from(TEMPLATES), template_lines.map("\n".join)),
    st.tuples(st.sampled_from(HEADERS), st.one_of(st.none(), header_lines.map("\n".join))),
    st.tuples(st.sampled_from(KERNELS), st.one_of(st.none(), kernel_texts)),
    st.tuples(st.just(TOML), st.one_of(toml_texts, toml_texts, toml_texts, st.none())),
)
overlays = st.one_of(
    st.tuples(st.sampled_from(TEMPLATES), template_lines.map("\n".join)),
    st.tuples(st.sampled_from(KERNELS), kernel_texts),
    st.tuples(st.just(TOML), toml_texts),
)
unit_ids = [f"k{kernel}/{name}@gfx942" for kernel in (1, 2, 3) for name in "abc"]
patterns = st.sampled_from((None, ("k1",), ("k1/a", "k2"), ("k2/*",), ("k3",), ("*/c@gfx942",), ("nothing",)))
clients = st.sampled_from(CLIENTS)
scopes = st.sampled_from(("", *CLIENTS))
seeds = st.one_of(st.just(0), st.integers(1, 20))


class Sequences(RuleBasedStateMachine):
    """What may happen, in any order."""

    @initialize(
        at_once=st.sampled_from((1, 2, 50)), settled=st.sampled_from((True, True, False)), remembered=st.booleans()
    )
    def begin(self, at_once: int, settled: bool, remembered: bool) -> None:
        state = State(root="/ws", units_at_once=at_once, paths_at_once=at_once, renders=2)
        if remembered:
            earlier = Cause("new in the workspace", 1.0)
            state.remembered = {
                "k1/a@gfx942": Remembered("other tokens", {T1: "other", M1: FILES[M1]}, earlier, 3_000_000_000),
                "k1/b@gfx942": Remembered("t1 p=2 0 #h1", {T1: FILES[T1], M1: FILES[M1]}, earlier, 1_000),
            }
        self.world = World(FILES, state)
        self.requests = 0
        if settled:
            self.world.send(BuildRequested("first", "", None))
            self.world.drain()

    @rule(edit=edits)
    def edit(self, edit: tuple[str, str | None]) -> None:
        self.world.write(*edit)

    @rule(edit=edits)
    def edit_and_notice(self, edit: tuple[str, str | None]) -> None:
        self.world.write(*edit)
        self.world.deliver()

    def _tweaked(self, path: str, number: int) -> str:
        """The file with another token, or a kernel file with another parameter: nothing breaks."""
        text = self.world.disk.files.get(path) or FILES.get(path, "")
        if path in KERNELS:
            return re.sub(r"instance (\w) \d+", rf"instance \1 {number}", text or FILES[K1], count=1)
        return "\n".join([line for line in text.split("\n") if "token" not in line] + [f"token {number}"]).strip()

    @rule(path=st.sampled_from((*TEMPLATES, *HEADERS, K1, K2)), number=st.integers(2, 5), told=st.booleans())
    def tweak(self, path: str, number: int, told: bool) -> None:
        self.world.write(path, self._tweaked(path, number))
        if told:
            self.world.deliver()

    @rule(client=clients, path=st.sampled_from((*TEMPLATES, K1)), number=st.integers(2, 5))
    def lend_tweaked(self, client: str, path: str, number: int) -> None:
        text = self._tweaked(path, number)
        self.world.send(OverlayChanged(client, path, text, text))

    @rule(path=st.sampled_from(sorted(FILES)), back=st.integers(1, 3))
    def revert(self, path: str, back: int) -> None:
        history = self.world.disk.history[path]
        self.world.write(path, history[-min(back, len(history))][1])

    @rule(path=st.sampled_from(TEMPLATES))
    def comment(self, path: str) -> None:
        text = self.world.disk.files.get(path)
        if text is not None and text.count("blank") < 3:
            self.world.write(path, f"blank\n{text}")
            self.world.deliver()

    @rule()
    def notice(self) -> None:
        self.world.notice()

    @rule()
    def deliver(self) -> None:
        self.world.deliver()

    @precondition(lambda self: self.world.works)
    @rule(which=st.integers(0, 9), seed=seeds)
    def answer(self, which: int, seed: int) -> None:
        self.world.answer(self._work(which), seed=seed)

    @precondition(lambda self: self.world.works)
    @rule(count=st.integers(2, 20), seed=seeds)
    def answer_several(self, count: int, seed: int) -> None:
        for number in range(count):
            if self.world.works:
                self.world.answer(self._work(number), seed=seed)

    @rule(seed=seeds, count=st.integers(5, 60))
    def answer_all_but_compilers(self, seed: int, count: int) -> None:
        for _ in range(count):
            quick = [number for number, one in self.world.works.items() if one.effect.work.kind is not WorkKind.COMPILE]
            if self.world.continues:
                self.world.proceed()
            elif quick:
                self.world.answer(min(quick), seed=seed)

    @precondition(lambda self: self.world.works)
    @rule(which=st.integers(0, 9), fault=st.sampled_from((None, None, "out of memory")))
    def end(self, which: int, fault: str | None) -> None:
        number = self._work(which)
        if fault is not None or self.world.works[number].cancelled:
            self.world.answer(number, fault=fault, cancelled=fault is None)

    @precondition(lambda self: self.world.works)
    @rule()
    def compiler_began(self) -> None:
        for one in list(self.world.works.values()):
            if one.effect.work.kind is WorkKind.COMPILE:
                self.world.send(CompileBegan(one.effect.work))

    def _work(self, which: int) -> int:
        numbers = sorted(self.world.works)
        return numbers[which % len(numbers)]

    @precondition(lambda self: self.world.continues)
    @rule()
    def proceed(self) -> None:
        self.world.proceed()

    @rule(scope=scopes, patterns=patterns, force=st.booleans(), check_only=st.booleans())
    def build(self, scope: str, patterns: tuple[str, ...] | None, force: bool, check_only: bool) -> None:
        self.requests += 1
        self.world.send(BuildRequested(f"r{self.requests}", scope, patterns, force, check_only))

    @precondition(lambda self: self.requests)
    @rule(which=st.integers(0, 9))
    def drop(self, which: int) -> None:
        name = f"r{which % self.requests + 1}"
        self.world.audience.requests[name].done = True
        self.world.send(RequestDropped(name))

    @rule(scope=scopes, units=st.frozensets(st.sampled_from(unit_ids)))
    def cancel(self, scope: str, units: frozenset[str]) -> None:
        self.world.send(CancelRequested(scope, units))

    @rule(client=clients, units=st.frozensets(st.sampled_from(unit_ids), max_size=3), everything=st.booleans())
    def focus(self, client: str, units: frozenset[str], everything: bool) -> None:
        self.world.send(Focused(client, units, everything))

    @rule(client=clients, overlay=overlays)
    def lend(self, client: str, overlay: tuple[str, str]) -> None:
        path, text = overlay
        self.world.send(OverlayChanged(client, path, text, text))

    @rule(client=clients, path=st.sampled_from(TEMPLATES + KERNELS))
    def lend_as_it_is(self, client: str, path: str) -> None:
        text = self.world.disk.files.get(path)
        if text is not None:
            self.world.send(OverlayChanged(client, path, text, text))

    @rule(client=clients, which=st.integers(0, 9))
    def save(self, client: str, which: int) -> None:
        view = self.world.state.scopes.get(client)
        if view is not None and view.overlays:
            path = sorted(view.overlays)[which % len(view.overlays)]
            self.world.write(path, view.overlays[path])
            self.world.deliver()

    @rule(client=clients, path=st.sampled_from((*TEMPLATES, K1)), number=st.integers(2, 5), works=st.integers(0, 40))
    def write_and_save(self, client: str, path: str, number: int, works: int) -> None:
        self.lend_tweaked(client, path, number)
        self.answer_all_but_compilers(0, works)
        self.world.write(path, self._tweaked(path, number))
        self.world.deliver()
        self.answer_all_but_compilers(0, works)

    @rule(path=st.sampled_from((*TEMPLATES, *HEADERS)), number=st.integers(2, 5), seed=st.integers(1, 20))
    def overtake(self, path: str, number: int, seed: int) -> None:
        """A file changes while a compiler runs, which may have read the old one."""
        compilers = [number for number, one in self.world.works.items() if one.effect.work.kind is WorkKind.COMPILE]
        if compilers:
            self.tweak(path, number, told=True)
            self.world.answer(compilers[0], seed=seed)

    @rule(client=clients, which=st.integers(0, 9))
    def take_back(self, client: str, which: int) -> None:
        view = self.world.state.scopes.get(client)
        if view is not None and view.overlays:
            path = sorted(view.overlays)[which % len(view.overlays)]
            self.world.send(OverlayChanged(client, path, None, None))

    @rule(
        client=clients,
        archs=st.sampled_from(((), (), ("gfx90a",), ("gfx942", "gfx90a"))),
        rules=st.booleans(),
        warnings=st.sampled_from((None, None, True, False)),
    )
    def options(self, client: str, archs: tuple[str, ...], rules: bool, warnings: bool | None) -> None:
        self.world.send(OptionsChanged(client, Options(archs, rules, warnings)))

    @rule(client=clients)
    def lose(self, client: str) -> None:
        for asked in self.world.audience.requests.values():
            asked.done = asked.done or asked.event.scope == client
        self.world.send(ClientLost(client))

    @rule(capacity=st.sampled_from((0, 2_500_000_000, 6_000_000_000)))
    def memory(self, capacity: int) -> None:
        self.world.send(MemoryMeasured(capacity))

    @rule(message=st.sampled_from((None, "the disk is full")))
    def warn(self, message: str | None) -> None:
        self.world.send(Warned("store", message))

    @rule()
    def rest(self) -> None:
        self.world.drain()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


TestSequences = pytest.mark.timeout(120 + EXAMPLES)(Sequences.TestCase)
TestSequences.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize="CKWATCH_MACHINE_EXAMPLES" not in os.environ,
    print_blob=True,
)
