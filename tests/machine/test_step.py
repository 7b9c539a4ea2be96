"""What a step asks for, exactly: one row, or one short story, for each thing that matters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ckwatch.events import (
    BuildRequested,
    CancelRequested,
    ClientLost,
    FilesChanged,
    Focused,
    MemoryMeasured,
    Options,
    OptionsChanged,
    OverlayChanged,
    Record,
    RequestDropped,
    Scanned,
    WorkKind,
)
from ckwatch.machine.state import Phase, State, UnitState
from ckwatch.model.outcome import Outcome
from machine.language import TOML
from machine.world import QUICK, World

K1, K2 = "/ws/k1.kernel.toml", "/ws/k2.kernel.toml"
T1, T2, MACROS = "/ws/templates/t1", "/ws/templates/t2", "/ws/templates/macros"
H1, H2, H3 = "/ck/h1", "/ck/h2", "/ck/h3"
FILES = {
    TOML: "settings 0\njobs 2",
    K1: "template t1\ninstance a 1\ninstance b 2",
    K2: "template t2\ninstance c 1",
    T1: "include macros\nheader h1",
    T2: "token 0\nheader h2",
    MACROS: "token 0",
    H1: "token 0",
    H2: "token 0",
    H3: "token 0",
}
A, B, C = "k1/a@gfx942", "k1/b@gfx942", "k2/c@gfx942"
Act = Callable[[World], None]


def built(**changes: str) -> World:
    """A world in which everything is built."""
    world = World(FILES | changes, State(root="/ws"))
    world.send(BuildRequested("all", "", None))
    world.drain()
    world.heard()
    world.audience.requests.clear()
    return world


def unit(world: World, name: str, client: str = "") -> UnitState:
    seen = world.state.seen(client, name)
    assert seen is not None
    return seen


def story(world: World, name: str) -> list[str]:
    """The causes of a unit's state, newest first, as `explain` prints them."""
    return [cause.what for cause in unit(world, name).cause.chain]


def lend(world: World, client: str, path: str, text: str | None) -> None:
    world.send(OverlayChanged(client, path, text, text))


def edited(path: str, text: str | None) -> Act:
    return lambda world: world.save(path, text)


def way(*units: str, to: str = "compile") -> list[str]:
    """Units one after the other on their way, as far as `to`."""
    steps = ["render", "look-up", "compile"]
    return [f"{step} {name}" for name in units for step in steps[: steps.index(to) + 1]]


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        pytest.param(edited(MACROS, "token 1"), way("k1/a", "k1/b"), id="a macro file touches its users"),
        pytest.param(edited(T2, "token 1\nheader h2"), way("k2/c"), id="a template touches its units"),
        pytest.param(edited(T2, "blank\ntoken 0\nheader h2"), ["render k2/c"], id="a comment costs a render"),
        pytest.param(edited(T2, "broken"), ["render k2/c"], id="an error needs no compiler"),
        pytest.param(edited(T2, None), ["render k2/c"], id="a template that is gone"),
        pytest.param(edited("/ws/over/t2", "token 2"), way("k2/c"), id="a file where one was looked for in vain"),
        pytest.param(edited("/ws/templates/other", "token 2"), [], id="a file that nobody reads"),
        pytest.param(edited(H1, "token 1"), way("k1/a", "k1/b"), id="a header touches those who included it"),
        pytest.param(edited("/ck/first/h2", "token 1"), way("k2/c"), id="a header that shadows one"),
        pytest.param(edited(H3, "token 1"), [], id="a header that nobody reads"),
        pytest.param(
            edited(K1, "template t1\ninstance a 5\ninstance b 2"), way("k1/a"), id="one instance edited: one unit"
        ),
        pytest.param(
            edited(K1, "template t1\ninstance a 1\ninstance b 2\ninstance d 4"), way("k1/d"), id="a new instance"
        ),
        pytest.param(edited(K1, "template t1\ninstance b 2"), [], id="an instance less"),
        pytest.param(edited(K1, "blank\ntemplate t1\ninstance a 1\ninstance b 2"), [], id="places that moved"),
        pytest.param(
            edited(K2, "template t2\nflags x\ninstance c 1"), way("k2/c"), id="flags: the same tokens, another result"
        ),
        pytest.param(edited(K2, "broken"), [], id="a kernel file that cannot be read has no units"),
        pytest.param(
            edited(TOML, "settings 1\njobs 2"),
            way("k1/a", "k1/b", "k2/c", to="look-up"),
            id="settings: what nobody asks for is not compiled",
        ),
        pytest.param(edited(TOML, "settings 0\njobs 4"), [], id="more cores"),
        pytest.param(edited(TOML, None), [], id="no ckwatch.toml: all stays as it was"),
        pytest.param(lambda world: lend(world, "ann", T2, FILES[T2]), [], id="a file opened in an editor"),
        pytest.param(
            lambda world: lend(world, "ann", T2, "blank\ntoken 0\nheader h2"),
            ["ann: render k2/c"],
            id="a comment in an editor",
        ),
        pytest.param(
            lambda world: lend(world, "ann", K1, "template t1\ninstance a 5\ninstance b 2"),
            ["ann: render k1/a", "ann: look-up k1/a", "ann: compile k1/a"],
            id="an instance edited in an editor",
        ),
        pytest.param(
            lambda world: world.send(OptionsChanged("ann", Options(archs=("gfx90a",)))),
            [f"ann: {step} {name}@gfx90a" for name in ("k1/a", "k1/b", "k2/c") for step in ("render", "look-up")],
            id="other archs",
        ),
        pytest.param(lambda world: world.send(Focused("ann", frozenset({A}))), [], id="a unit that is built looked at"),
        pytest.param(
            lambda world: world.send(BuildRequested("r", "", ("k2",), force=True)),
            ["render k2/c", "compile k2/c", "tell r k2/c", "tell r end"],
            id="force compiles again",
        ),
        pytest.param(
            lambda world: world.send(BuildRequested("r", "", ("k2",), force=True, check_only=True)),
            ["tell r k2/c", "tell r end"],
            id="checks force nothing",
        ),
    ],
)
def test_what_follows(act: Act, expected: list[str]) -> None:
    world = built()
    act(world)
    # Units go their ways side by side; each goes its own in order.
    heard = world.run()
    assert sorted(heard, key=lambda line: line.rsplit(maxsplit=1)[-1]) == sorted(
        expected, key=lambda line: line.rsplit(maxsplit=1)[-1]
    )
    world.drain()


@pytest.mark.parametrize(
    ("act", "name", "expected"),
    [
        (edited(MACROS, "token 1"), A, ["compiled in 1.0 s: built", "templates/macros changed"]),
        (edited(MACROS, None), A, ["the template or the instance has errors", "templates/macros is gone"]),
        (edited("/ws/over/t2", "token 2"), C, ["compiled in 1.0 s: built", "over/t2 appeared"]),
        (edited(H1, "fail"), A, ["compiled in 1.0 s: failed", "/ck/h1 changed"]),
        (edited(T2, "blank\n" + FILES[T2]), C, ["rendered with the same tokens: nothing to compile", "templates/t2 changed"]),
        (
            edited(K1, "template t1\ninstance a 5\ninstance b 2"),
            A,
            ["compiled in 1.0 s: built", "k1.kernel.toml: p 1 → 5"],
        ),
        (edited(K2, "template t1\ninstance c 1"), C, ["found in the store: built", "k2.kernel.toml: template t2 → t1"]),
        (edited(K2, "template t2\nflags x\ninstance c 1"), C, ["compiled in 1.0 s: built", "k2.kernel.toml: the flags changed"]),
        (
            edited(TOML, "settings 1\njobs 2"),
            A,
            ["not in the store, and nobody has asked for it", "the settings or the compiler changed"],
        ),
        (
            edited(TOML, "settings 1\njobs 2\nno-compiler"),
            A,
            ["checked; there is no compiler", "the settings or the compiler changed"],
        ),
    ],
)  # fmt: skip
def test_every_state_tells_its_story(act: Act, name: str, expected: list[str]) -> None:
    world = built()
    act(world)
    world.drain()
    assert story(world, name) == expected


def test_what_was_there_before_is_found_again() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.drain()
    world.heard()
    world.save(T2, FILES[T2])
    assert world.run() == ["render k2/c", "look-up k2/c"]
    assert story(world, C) == ["found in the store: built", "templates/t2 changed"]


# Supersession.


def test_other_tokens_stop_the_compiler_as_soon_as_they_are_known() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.save(T2, "token 2\nheader h2")
    assert world.heard() == ["render k2/c"]
    world.answer(world.find(WorkKind.RENDER))
    assert world.heard() == ["stop compile k2/c", "look-up k2/c"]
    world.drain()


def test_the_same_tokens_leave_the_compiler_at_work_and_its_messages_move() -> None:
    world = built()
    world.save(T2, "token 1\nwarn\nheader h2")
    world.run(*QUICK)
    world.save(T2, "blank\ntoken 1\nwarn\nheader h2")
    assert world.run(*QUICK) == ["render k2/c"]
    assert unit(world, C).phase is Phase.COMPILING
    assert world.run() == ["look-up k2/c"]
    (warning,) = unit(world, C).diagnostics
    assert warning.span.start.line == 1
    assert story(world, C) == [
        "found in the store: built",
        "rendered with the same tokens: the compiler goes on",
        "templates/t2 changed",
    ]


@pytest.mark.parametrize("act", [edited(H2, "token 1"), edited(TOML, "settings 1\njobs 2")])
def test_what_only_the_compiler_sees_stops_it_at_once(act: Act) -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    act(world)
    assert "stop compile k2/c" in world.run(WorkKind.LOAD)
    world.drain()
    assert unit(world, C).phase is Phase.DONE


def test_a_result_that_has_not_seen_a_header_that_changed_is_void() -> None:
    world = built()
    world.save(T2, "token 1\nheader h3")  # nobody has included it before: the machine cannot know who will
    world.run(*QUICK)
    world.save(H3, "token 1")
    assert world.heard() == []
    missing = next(seed for seed in range(1, 20) if world.disk.reader(world.disk.version - 1, seed)(H3) == "token 0")
    world.answer(world.find(WorkKind.COMPILE), seed=missing)
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c"]
    assert story(world, C) == ["compiled in 1.0 s: built", "/ck/h3 changed meanwhile"]


def test_a_scan_does_not_hide_what_was_told_later() -> None:
    world = built()
    world.save(T2, "token 0\ninclude late\nheader h2")
    world.send(FilesChanged({}, complete=False))
    scan = world.works.pop(world.find(WorkKind.SCAN)).effect.work
    world.write("/ws/templates/late", "token 1")
    render = world.find(WorkKind.RENDER)
    stale = world.workers.end(world.works.pop(render), 0)
    world.save("/ws/templates/late", "token 2")
    world.send(Scanned(scan, {"/ws/templates/late": "token 1"}))
    world.send(stale)
    world.drain()
    assert "token 2" in unit(world, C).render.reads.values()  # type: ignore[union-attr]


# Order and room.


def test_looked_at_then_asked_for_then_edited_the_latest_first() -> None:
    kernels = "template t1\n" + "\n".join(f"instance {name} {number}" for number, name in enumerate("abcdef"))
    world = built(**{K1: kernels, TOML: "settings 0\njobs 1"})
    world.send(Focused("ann", frozenset({"k1/e@gfx942"})))
    world.save(MACROS, "token 1")
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.send(BuildRequested("r", "", ("k1/b",)))
    world.run(*QUICK)
    order = ["compile k1/e"]
    for _ in range(6):
        world.answer(world.find(WorkKind.COMPILE))
        order += [line for line in world.run(*QUICK) if line.startswith("compile")]
    assert [line.split("/")[1] for line in order][:3] == ["e", "b", "c"], "looked at, asked for, edited last"
    world.drain()


def test_who_looks_elsewhere_moves_the_queue() -> None:
    world = built(**{TOML: "settings 0\njobs 1"})
    world.send(Focused("ann", frozenset({A})))
    world.save(MACROS, "token 1")
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    assert [one.effect.work.key.unit for one in world.works.values()] == [A]
    world.send(Focused("ann", frozenset({B})))
    world.answer(world.find(WorkKind.COMPILE))
    assert "compile k1/b" in world.heard()
    world.drain()


def test_one_compiler_runs_however_little_memory_there_is() -> None:
    world = built()
    world.send(MemoryMeasured(10))
    world.save(MACROS, "token 1")
    assert [line for line in world.run(*QUICK) if line.startswith("compile")] == ["compile k1/b"]
    world.send(MemoryMeasured(2_000))  # the last ones took 1,000 bytes each
    assert world.heard() == ["compile k1/a"]
    world.drain()


# Requests.


def test_a_request_waits_for_the_disk_and_the_workspace() -> None:
    world = built()
    world.write(T2, "token 1\nheader h2")  # the watcher has not told of it
    world.send(BuildRequested("r", "", ("k2",)))
    assert world.said == ["scan"]
    world.answer(world.find(WorkKind.SCAN))
    assert world.said == ["scan", "load", "render k2/c"]
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c", "tell r k2/c", "tell r end"]
    world.drain()


def test_a_request_does_not_wait_for_a_load_that_can_wait() -> None:
    world = built()
    world.save(MACROS, "token 1")
    lazy = world.find(WorkKind.LOAD)
    world.send(BuildRequested("r", "", ("k2",)))
    world.answer(world.find(WorkKind.SCAN))
    assert world.works[lazy].cancelled
    world.drain()


def test_its_units_are_known_before_any_is_told() -> None:
    world = built()
    world.send(BuildRequested("r", "", None))
    world.answer(world.find(WorkKind.SCAN))
    world.answer(world.find(WorkKind.LOAD))
    assert world.state.requests["r"].pending == {A, B, C}
    assert world.run() == ["tell r k1/a", "tell r k1/b", "tell r k2/c", "tell r end"]


def test_without_a_compiler_builds_are_told_so_and_checks_are_not() -> None:
    world = built()
    world.save(TOML, "settings 0\njobs 2\nno-compiler")
    world.run()
    world.send(BuildRequested("build", "", ("k2",)))
    world.send(BuildRequested("check", "", ("k2",), check_only=True))
    assert world.run() == [
        "tell build k2/c no compiler",
        "tell build end",
        "tell check k2/c",
        "tell check end",
    ]


def test_a_forced_build_of_a_broken_template_is_over_with_its_answer() -> None:
    world = built()
    world.save(T2, "broken")
    world.drain()
    world.send(BuildRequested("forced", "", ("k2",), force=True))
    world.run()
    world.send(BuildRequested("plain", "", ("k2",)))
    assert world.run()[-2:] == ["tell plain k2/c", "tell plain end"]


def test_giving_up_a_forced_build_looks_at_the_store_again() -> None:
    world = built(**{TOML: "settings 0\njobs 1"})
    world.send(BuildRequested("plain", "", ("k1",), force=True))
    world.send(BuildRequested("forced", "", ("k2",), force=True))
    world.run(*QUICK)
    world.send(RequestDropped("forced"))
    world.audience.requests["forced"].done = True
    assert world.run(*QUICK) == ["look-up k2/c"]
    assert unit(world, C).phase is Phase.DONE
    world.drain()


def test_what_one_gives_up_another_still_gets() -> None:
    world = World(FILES, State(root="/ws"))
    world.send(BuildRequested("one", "", ("k2",)))
    world.send(BuildRequested("other", "", ("k2",)))
    world.run(*QUICK)
    world.send(RequestDropped("one"))
    assert world.heard() == []
    world.audience.requests["one"].done = True
    assert world.run() == ["tell other k2/c", "tell other end"]


def test_what_is_cancelled_while_it_is_looked_up_is_not_compiled() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(WorkKind.RENDER)
    world.send(Focused("ann", frozenset({C})))
    world.send(CancelRequested("", frozenset({C})))
    assert world.run() == []
    assert unit(world, C).phase is Phase.IDLE
    world.send(BuildRequested("r", "", ("k2",)))
    assert world.run() == ["look-up k2/c", "compile k2/c", "tell r k2/c", "tell r end"]


# Faults of the host.


@pytest.mark.parametrize("kind", [WorkKind.RENDER, WorkKind.LOOK_UP, WorkKind.COMPILE])
def test_a_fault_says_nothing_of_the_kernel_and_is_tried_again(kind: WorkKind) -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    others = [other for other in QUICK if other is not kind]
    world.run(*others)
    world.answer(world.find(kind), fault="out of memory")
    assert world.run() == []
    assert unit(world, C).outcome is Outcome.FAULTED
    assert story(world, C) == [f"{kind} broke down", "templates/t2 changed"]
    # Whatever is told of its files, be it what was read before, is a reason to try again.
    world.save(T2, FILES[T2])
    world.drain()
    assert unit(world, C).outcome is Outcome.BUILT


def test_a_fault_of_an_older_compiler_is_nothing_to_the_newer_input() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.save(T2, "blank\ntoken 1\nheader h2")
    world.answer(world.find(WorkKind.COMPILE), fault="killed")
    assert unit(world, C).phase is Phase.RENDERING
    world.drain()
    assert unit(world, C).outcome is Outcome.BUILT


# Views.


def test_what_is_saved_goes_on_compiling() -> None:
    world = built()
    lend(world, "ann", T2, "token 1\nheader h2")
    assert world.run(*QUICK) == ["ann: render k2/c", "ann: look-up k2/c", "ann: compile k2/c"]
    world.save(T2, "token 1\nheader h2")
    assert world.run(*QUICK) == ["render k2/c"]
    assert unit(world, C, "ann") is unit(world, C)
    assert unit(world, C).phase is Phase.COMPILING
    assert world.run() == ["look-up k2/c"]
    assert story(world, C)[1:] == [
        "what an editor's text was compiled to is the same: the compiler goes on",
        "templates/t2 changed",
    ]


def test_texts_of_two_clients_do_not_mix() -> None:
    world = built()
    for client in ("ann", "bob"):
        lend(world, client, T2, f"token {client}")
    world.drain()
    tokens = [unit(world, C, client).tokens for client in ("ann", "bob", "")]
    assert tokens == ["t2 p=1 ann", "t2 p=1 bob", "t2 p=1 0 #h2"]


def test_a_client_that_is_lost_leaves_nothing_behind() -> None:
    world = built()
    lend(world, "ann", T2, "token 1")
    world.run(*QUICK)
    world.send(Focused("ann", frozenset({C})))
    world.send(BuildRequested("r", "ann", ("k1",), force=True))
    world.run(*QUICK)
    world.audience.requests["r"].done = True
    world.send(ClientLost("ann"))
    assert set(world.heard()) == {"ann: stop compile k2/c", "stop compile k1/a", "look-up k1/b"}
    world.drain()
    assert world.state.scopes.keys() == {""}
    assert not (world.state.focus)
    assert not (world.state.requests)
    assert not (world.state.waiting)
    assert all(key.scope == "" for key in world.state.graph.readers(T2))


def test_a_request_for_a_view_goes_on_for_the_workspace_when_the_view_is_dropped() -> None:
    world = World(FILES, State(root="/ws"))
    lend(world, "ann", T2, "token 1\nheader h2")
    world.run()
    world.save(TOML, "settings 1\njobs 2")  # nothing of it is in the store
    world.run()
    world.send(BuildRequested("r", "ann", ("k2",)))
    world.run(*QUICK)
    lend(world, "ann", T2, None)
    assert world.run()[-3:] == ["compile k2/c", "tell r k2/c", "tell r end"]


def test_a_lent_text_hides_the_file() -> None:
    world = built()
    lend(world, "ann", T2, "token 1")
    world.drain()
    world.heard()
    world.save(T2, "token 2")
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c"]


def test_a_text_that_is_lent_while_its_reader_is_rendered_is_not_missed() -> None:
    world = built()
    lend(world, "ann", T2, "include macros")
    assert world.heard() == ["ann: render k2/c"]
    lend(world, "ann", MACROS, "token 7")  # it is not known yet that the unit reads it
    world.drain()
    assert unit(world, C, "ann").tokens == "t2 p=1 7"


# The history.


def test_what_changed_is_recorded_once_it_is_settled() -> None:
    world = built()
    world.save(K1, "template t1\ninstance b 2")
    world.save(T2, "token 1\nheader h2")
    recorded = []
    while world.works or world.continues:
        records = [one.effect for one in world.works.values() if isinstance(one.effect, Record)]
        recorded += [(record.units, record.removed) for record in records]
        world.run(*{one.effect.work.kind for one in world.works.values()}) if not records else world.answer(
            records[0].work.number
        )
    assert recorded == [((), (A,)), ((C,), ())]
