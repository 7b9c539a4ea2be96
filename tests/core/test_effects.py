"""Exact effects of each event: rows of an event and the work and news that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ckwatch.core.effects import Cancel, Compile, Continue, Effect, Load, LookUp, Notify, Record, Render, Scan
from ckwatch.core.events import (
    AnyEvent,
    BuildRequested,
    CancelRequested,
    ClientLost,
    CompileFacts,
    CompileFinished,
    Continued,
    FilesChanged,
    FocusChanged,
    HeaderFacts,
    KernelUnits,
    LoadedWorkspace,
    LoadFinished,
    LookUpFinished,
    MemoryMeasured,
    OverlayChanged,
    RecordFinished,
    RenderFacts,
    RenderFinished,
    ScanFinished,
    WorkAborted,
)
from ckwatch.core.phases import Phase
from ckwatch.core.state import State
from ckwatch.core.step import start, step
from ckwatch.model.kernels import Instance, Kernel, Outcome, units_of
from core.invariants import check_invariants, is_at_rest
from helpers.units import place, unit

HEADER = HeaderFacts("h1", {"/ck.hpp": "c1"}, frozenset({"/first/ck.hpp"}))
Answer = Callable[[Effect], AnyEvent | None]


def kernel(name: str, **tiles: int) -> Kernel:
    """A kernel with an instance per tile. Its template reads `/NAME.j2` and `/macros.j2`."""
    made = tuple(Instance(instance, {"Tile": tile}, place(), {}) for instance, tile in tiles.items())
    return replace(unit("k.hip.j2").kernel, name=name, instances=made, path=f"/ws/{name}.kernel.toml")


class Daemon:
    """The machine, and what it learns of the world: answers are those of a world without surprises."""

    def __init__(self, *kernels: Kernel, **settings: int) -> None:
        self.state = State(root="/ws")
        self.files = {"/macros.j2": "m1"} | {f"/{one.name}.j2": "t1" for one in kernels}
        self.store: set[str] = set()
        self.kernels: dict[str, KernelUnits] = {}
        self.jobs = settings.get("jobs", 2)
        self.load(*kernels)
        self.waiting: list[Effect] = []
        self.done: list[str] = []
        self.hold: tuple[type, ...] = ()
        self._take(start(self.state))
        self.run()
        self.done.clear()

    def load(self, *kernels: Kernel) -> None:
        """From the next load on there are these kernels."""
        known = self.kernels
        self.kernels = {}
        for one in kernels:
            old = known.get(one.name)
            same = old is not None and old.kernel is one
            self.kernels[one.name] = old if same and old is not None else KernelUnits(one, units_of(one, ("gfx942",)))

    def send(self, event: AnyEvent) -> list[str]:
        """One event, and the work that follows until there is none; answers are among what is returned."""
        self.done.clear()
        self._take(step(self.state, event))
        check_invariants(self.state)
        self.run()
        return list(self.done)

    def run(self) -> None:
        """Answer all work but what is held back."""
        while ready := [effect for effect in self.waiting if not isinstance(effect, self.hold)]:
            effect = ready[0]
            self.waiting.remove(effect)
            self.answer(effect)

    def answer(self, effect: Effect) -> None:
        """Answer one piece of work as the world is now."""
        self._take(step(self.state, self._event(effect)))
        check_invariants(self.state)

    def outstanding(self, kind: type) -> list[Effect]:
        """Work of this kind that is not answered."""
        return [effect for effect in self.waiting if isinstance(effect, kind)]

    def phase(self, name: str, scope: str = "") -> Phase:
        """The unit as a client sees it."""
        found = self.state.seen(scope, name)
        assert found is not None
        return found.phase

    def _take(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Load() | Scan() | Render() | LookUp() | Compile() | Record() | Continue():
                    self.waiting.append(effect)
            match effect:
                case Render() | LookUp() | Compile():
                    kind = {Render: "render", LookUp: "look up", Compile: "compile"}[type(effect)]
                    scope = effect.work.key.scope
                    self.done.append(f"{kind} {scope + ':' if scope else ''}{effect.unit.instance.name}")
                case Cancel(work):
                    self.done.append(f"cancel {work.kind} {work.key.unit.partition('/')[2].partition('@')[0]}")
                    for one in self.waiting:
                        if getattr(one, "work", None) is work:
                            self.waiting.remove(one)
                            self._take(step(self.state, WorkAborted(work)))
                            break
                case Notify(request, name, problem):
                    named = "all" if name is None else name.partition("/")[2].partition("@")[0]
                    self.done.append(f"notify {request} {named}{' ' + problem if problem else ''}")

    def _reads(self, effect: Render) -> dict[str, str]:
        files = self.files | {path: f"unsaved {text}" for path, text in effect.overlays.items()}
        return {path: files[path] for path in (f"/{effect.unit.kernel.name}.j2", "/macros.j2") if path in files}

    def _event(self, effect: Effect) -> AnyEvent:
        match effect:
            case Load():
                settings, kernels = "", tuple(self.kernels.values())
                return LoadFinished(effect.work, LoadedWorkspace(kernels, (), (), settings, self.jobs))
            case Scan():
                return ScanFinished(effect.work, {})
            case Render():
                reads = self._reads(effect)
                missed = frozenset({"/macros.j2"} - reads.keys())
                # A digest that ends in "c" differs in comments only.
                tokens = f"{effect.unit.instance.parameters}{sorted(value.rstrip('c') for value in reads.values())}"
                return RenderFinished(effect.work, RenderFacts("bad" not in tokens, (), reads, missed, tokens, "k"))
            case LookUp():
                found = effect.work.tokens in self.store
                facts = CompileFacts(Outcome.BUILT, effect.work.tokens, "key", headers=HEADER, without_output=True)
                return LookUpFinished(effect.work, facts if found else None)
            case Compile():
                self.store.add(effect.work.tokens)
                memory = 1000
                return CompileFinished(
                    effect.work,
                    CompileFacts(
                        Outcome.BUILT,
                        effect.work.tokens,
                        "key",
                        headers=HEADER,
                        without_output=True,
                        peak_memory_bytes=memory,
                        seconds=5.0 if effect.unit.instance.name == "two" else 1.0,
                    ),
                )
            case Record():
                return RecordFinished(effect.work)
            case Continue():
                return Continued()
        raise AssertionError(effect)


def changed(**digests: str | None) -> FilesChanged:
    return FilesChanged({f"/{name.replace('_', '.')}": digest for name, digest in digests.items()})


@pytest.fixture
def daemon() -> Daemon:
    """Kernels `a` (one, two) and `b` (three), all built."""
    made = Daemon(kernel("a", one=1, two=2), kernel("b", three=3))
    made.send(BuildRequested("r", "", None))
    assert {made.phase(f"{name}@gfx942") for name in ("a/one", "a/two", "b/three")} == {Phase.DONE}
    return made


def save(daemon: Daemon, path: str, digest: str) -> list[str]:
    daemon.files[path] = digest
    return daemon.send(FilesChanged({path: digest}))


def test_the_start_compiles_nothing() -> None:
    daemon = Daemon(kernel("a", one=1))
    assert daemon.phase("a/one@gfx942") is Phase.IDLE
    assert daemon.send(BuildRequested("r", "", ("a",))) == [
        "look up one",
        "compile one",
        "notify r one",
        "notify r all",
    ]


def test_an_edit_touches_the_units_that_read_the_file(daemon: Daemon) -> None:
    assert save(daemon, "/b.j2", "t2") == ["render three", "look up three", "compile three"]
    done = save(daemon, "/macros.j2", "m2")
    assert sorted(done) == sorted(
        f"{what} {name}" for name in ("one", "two", "three") for what in ("render", "look up", "compile")
    )


def test_a_comment_touches_no_compiler(daemon: Daemon) -> None:
    assert save(daemon, "/b.j2", "t1c") == ["render three"]
    assert [cause.what for cause in daemon.state.main.units["b/three@gfx942"].cause.chain] == [
        "rendered with the same tokens: nothing to compile",
        "/b.j2 changed",
    ]


def test_the_same_contents_touch_nothing(daemon: Daemon) -> None:
    assert save(daemon, "/b.j2", "t1") == []


def test_an_edit_of_one_instance_touches_one_unit(daemon: Daemon) -> None:
    daemon.load(kernel("a", one=1, two=5), daemon.kernels["b"].kernel)
    assert daemon.send(FilesChanged({}, reload=True)) == ["render two", "look up two", "compile two"]
    assert daemon.state.main.units["a/two@gfx942"].cause.chain[-1].what == "a.kernel.toml: Tile 2 → 5"


def test_units_stand_in_the_order_of_the_kernel_files(daemon: Daemon) -> None:
    daemon.load(kernel("a", zero=9, two=2, one=1), daemon.kernels["b"].kernel)
    daemon.send(FilesChanged({}, reload=True))
    ids = ["a/zero@gfx942", "a/two@gfx942", "a/one@gfx942"]
    assert list(daemon.state.members("")) == list(daemon.state.main.units) == [*ids, "b/three@gfx942"]


def test_what_was_built_before_comes_from_the_store(daemon: Daemon) -> None:
    save(daemon, "/b.j2", "t2")
    assert save(daemon, "/b.j2", "t1") == ["render three", "look up three"]


def test_a_header_recompiles_though_the_tokens_are_the_same(daemon: Daemon) -> None:
    daemon.store.clear()
    done = daemon.send(FilesChanged({"/ck.hpp": "c2"}))
    assert "compile one" in done
    assert daemon.state.main.units["b/three@gfx942"].cause.chain[-1].what == "/ck.hpp changed"


def test_a_file_that_appears_where_it_was_looked_for(daemon: Daemon) -> None:
    del daemon.files["/macros.j2"]
    save_gone = daemon.send(FilesChanged({"/macros.j2": None}))
    assert "render one" in save_gone
    assert save(daemon, "/macros.j2", "m1")[0].startswith("render")
    assert daemon.state.main.units["a/one@gfx942"].cause.chain[-1].what == "/macros.j2 appeared"


def test_a_newer_edit_kills_the_older_compiler(daemon: Daemon) -> None:
    daemon.hold = (Compile,)
    assert save(daemon, "/b.j2", "t2") == ["render three", "look up three", "compile three"]
    assert save(daemon, "/b.j2", "t3") == ["render three", "cancel compile three", "look up three", "compile three"]


def test_a_comment_leaves_the_compiler_at_work(daemon: Daemon) -> None:
    daemon.hold = (Compile,)
    save(daemon, "/b.j2", "t2")
    assert save(daemon, "/b.j2", "t2c") == ["render three"]
    daemon.hold = ()
    daemon.done.clear()
    daemon.run()
    assert daemon.done == ["look up three"], "its messages are placed in the present text"
    assert daemon.phase("b/three@gfx942") is Phase.DONE


def test_a_header_kills_the_compiler_at_once(daemon: Daemon) -> None:
    daemon.hold = (Compile,)
    save(daemon, "/b.j2", "t2")
    daemon.hold = (Compile, Render)
    assert "cancel compile three" in daemon.send(FilesChanged({"/ck.hpp": "c2"}))


def test_a_result_that_missed_a_change_is_void(daemon: Daemon) -> None:
    daemon.hold = (Render,)
    save(daemon, "/b.j2", "t2")
    (late,) = daemon.outstanding(Render)
    daemon.waiting.remove(late)
    answer = daemon._event(late)
    # The change is known before the answer that was made without it arrives.
    daemon.files["/b.j2"] = "t3"
    daemon._take(step(daemon.state, FilesChanged({"/b.j2": "t3"})))
    daemon.hold = ()
    daemon._take(step(daemon.state, answer))
    check_invariants(daemon.state)
    daemon.run()
    found = daemon.state.main.units["b/three@gfx942"].compile.result
    assert found is not None
    assert "t3" in found.tokens


def test_bounded_by_jobs_the_unit_looked_at_first(daemon: Daemon) -> None:
    daemon.jobs = 1
    daemon.send(FilesChanged({}, reload=True))
    daemon.send(FocusChanged("me", frozenset({"b/three@gfx942"})))
    daemon.hold = (Compile,)
    done = save(daemon, "/macros.j2", "m2")
    assert [one for one in done if one.startswith("compile")] == ["compile three"]
    assert done[0] == "render three"


def test_a_compile_that_would_not_fit_waits(daemon: Daemon) -> None:
    daemon.send(MemoryMeasured(1500))  # each needs 1000, as its last compile did
    daemon.hold = (Compile,)
    save(daemon, "/macros.j2", "m2")
    assert len(daemon.outstanding(Compile)) == 1
    daemon.send(MemoryMeasured(2000))
    assert len(daemon.outstanding(Compile)) == 2


def test_a_compile_knows_how_long_those_of_its_kernel_took(daemon: Daemon) -> None:
    daemon.hold = (Compile,)
    daemon.send(BuildRequested("again", "", None, force=True))
    compiles = [one for one in daemon.outstanding(Compile) if isinstance(one, Compile)]
    assert [one.usual_s for one in compiles] == [5.0, 5.0]  # the longest


def test_an_unsaved_text_makes_units_of_its_client(daemon: Daemon) -> None:
    overlay = OverlayChanged("ann", "/b.j2", "new", "unsaved new")
    assert daemon.send(overlay) == ["render ann:three", "look up ann:three", "compile ann:three"]
    assert daemon.state.seen("", "b/three@gfx942") is not daemon.state.seen("ann", "b/three@gfx942")
    assert daemon.state.seen("", "a/one@gfx942") is daemon.state.seen("ann", "a/one@gfx942")
    # What is saved meanwhile does not show through the unsaved text.
    assert save(daemon, "/b.j2", "t2") == ["render three", "look up three", "compile three"]
    assert daemon.send(ClientLost("ann")) == []
    assert "ann" not in daemon.state.views


def test_two_clients_do_not_mix(daemon: Daemon) -> None:
    daemon.send(OverlayChanged("ann", "/b.j2", "ann's", "unsaved ann's"))
    daemon.send(OverlayChanged("ben", "/b.j2", "ben's", "unsaved ben's"))
    results = [daemon.state.seen(scope, "b/three@gfx942") for scope in ("", "ann", "ben")]
    tokens = [one.compile.result.tokens for one in results if one is not None and one.compile.result is not None]
    assert ["t1" in tokens[0], "ann's" in tokens[1], "ben's" in tokens[2]] == [True] * 3


def test_a_dropped_request_stops_what_no_other_wants() -> None:
    daemon = Daemon(kernel("a", one=1, two=2))
    daemon.hold = (Compile,)
    daemon.send(BuildRequested("r", "me", None))
    assert sorted(daemon.send(ClientLost("me"))) == ["cancel compile one", "cancel compile two"]
    assert daemon.phase("a/one@gfx942") is Phase.IDLE
    assert is_at_rest(daemon.state)


def test_what_has_begun_finishes_where_its_client_asked_for_that() -> None:
    """Waiting work is dropped, like a compile whose unit has a newer text."""
    for newer in (False, True):
        daemon = Daemon(kernel("a", one=1, two=2, three=3), jobs=1)
        daemon.hold = (Compile,)
        daemon.send(BuildRequested("r", "me", None, finish=True))
        (begun,) = daemon.outstanding(Compile)
        assert isinstance(begun, Compile)
        assert daemon.send(ClientLost("me")) == []
        phases = {name: daemon.phase(f"a/{name}@gfx942") for name in ("one", "two", "three")}
        assert sorted(phases.values()) == [Phase.COMPILING, Phase.IDLE, Phase.IDLE]
        if newer:
            assert f"cancel compile {begun.unit.instance.name}" in save(daemon, "/a.j2", "t2")
            continue
        daemon.hold = ()
        daemon.run()
        assert daemon.phase(begun.unit.id) is Phase.DONE


def test_a_watcher_that_leaves_drops_no_compile_that_has_begun() -> None:
    daemon = Daemon(kernel("a", one=1, two=2), jobs=1)
    daemon.hold = (Compile,)
    daemon.send(FocusChanged("me", frozenset(), everything=True))
    assert daemon.send(ClientLost("me")) == []
    assert sorted(daemon.phase(f"a/{name}@gfx942") for name in ("one", "two")) == [Phase.COMPILING, Phase.IDLE]


def test_a_cancelled_unit_is_reported_to_those_who_wait() -> None:
    daemon = Daemon(kernel("a", one=1))
    daemon.hold = (Compile,)
    daemon.send(BuildRequested("r", "", None))
    done = daemon.send(CancelRequested("", frozenset({"a/one@gfx942"})))
    assert done == ["cancel compile one", "notify r one cancelled", "notify r all"]


def test_checks_do_not_wait_for_the_compiler() -> None:
    daemon = Daemon(kernel("a", one=1))
    assert daemon.send(BuildRequested("r", "", None, check_only=True)) == ["notify r one", "notify r all"]


def test_force_compiles_what_is_in_the_store(daemon: Daemon) -> None:
    done = daemon.send(BuildRequested("r", "", ("b",), force=True))
    assert done == ["render three", "compile three", "notify r three", "notify r all"]


def test_a_pattern_that_means_nothing(daemon: Daemon) -> None:
    assert daemon.send(BuildRequested("r", "", ("c",))) == ["notify r all c"]


def test_a_removed_unit_is_reported(daemon: Daemon) -> None:
    daemon.hold = (Compile,)
    daemon.send(BuildRequested("r", "", ("b",), force=True))
    daemon.load(daemon.kernels["a"].kernel)
    assert sorted(daemon.send(FilesChanged({}, reload=True))) == [
        "cancel compile three",
        "notify r all",
        "notify r three removed",
    ]


def test_a_fault_is_tried_again_with_the_next_request(daemon: Daemon) -> None:
    daemon.hold = (Compile,)
    save(daemon, "/b.j2", "t2")
    (broken,) = daemon.outstanding(Compile)
    assert isinstance(broken, Compile)
    daemon.waiting.remove(broken)
    daemon.send(WorkAborted(broken.work, "out of memory"))
    assert daemon.state.main.units["b/three@gfx942"].outcome is Outcome.FAULTED
    daemon.hold = ()
    assert "compile three" in daemon.send(BuildRequested("r", "", ("b",)))
