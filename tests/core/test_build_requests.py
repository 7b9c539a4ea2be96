"""Who comes first, who waits for what, and what is given up."""

from __future__ import annotations

import pytest

from ckwatch.core.effects import Check, Compile
from ckwatch.core.events import (
    AnyEvent,
    BuildRequested,
    CancelRequested,
    FilesChanged,
    FocusChanged,
    MemoryMeasured,
    RequestDropped,
    WorkKind,
)
from ckwatch.core.phases import Phase
from ckwatch.core.state import State
from core.language import TOML
from core.workspace import (
    FILES,
    K1,
    MACROS,
    T2,
    A,
    B,
    C,
    built,
    unit,
)
from core.world import QUICK, World


def test_in_focus_then_requested_then_edited_the_latest_first() -> None:
    kernels = "template t1\n" + "\n".join(f"instance {name} {number}" for number, name in enumerate("abcdef"))
    world = built(**{K1: kernels, TOML: "settings 0\njobs 1"})
    world.send(FocusChanged("ann", frozenset({"k1/e@gfx942"})))
    world.save(MACROS, "token 1")
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.send(BuildRequested("r", "", ("k1/b",)))
    world.run(*QUICK)
    order = ["compile k1/e"]
    for _ in range(6):
        world.answer(world.find(WorkKind.COMPILE))
        order += [line for line in world.run(*QUICK) if line.startswith("compile")]
    assert [line.split("/")[1] for line in order][:3] == ["e", "b", "c"], "in focus, requested, edited last"
    world.drain()


def test_another_focus_moves_the_queue() -> None:
    world = built(**{TOML: "settings 0\njobs 1"})
    world.send(FocusChanged("ann", frozenset({A})))
    world.save(MACROS, "token 1")
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    assert [one.effect.work.key.unit for one in world.works.values()] == [A]
    world.send(FocusChanged("ann", frozenset({B})))
    world.answer(world.find(WorkKind.COMPILE))
    assert "compile k1/b" in world.take_log()
    world.drain()


def test_one_compiler_runs_however_little_memory_there_is() -> None:
    world = built()
    world.send(MemoryMeasured(10))
    world.save(MACROS, "token 1")
    assert [line for line in world.run(*QUICK) if line.startswith("compile")] == ["compile k1/b"]
    world.send(MemoryMeasured(2_000))  # the last ones took 1,000 bytes each
    assert world.take_log() == ["compile k1/a"]
    world.drain()


def test_one_render_at_a_time_runs_beside_the_search_for_what_is_requested() -> None:
    world = World(dict(FILES), State(root="/ws", renders=3))
    world.drain()
    world.take_log()
    world.write(MACROS, "token 1")
    world.send(BuildRequested("r", "", ("k1/a",)))
    world.deliver()
    assert [line for line in world.take_log() if line.startswith("render")] == ["render k1/b"]
    world.answer(world.find(WorkKind.SCAN))
    assert "render k1/a" in world.run(WorkKind.LOAD)
    world.drain()


def test_a_request_waits_for_the_disk_and_the_workspace() -> None:
    world = built()
    world.write(T2, "token 1\nheader h2")  # the watcher has not reported it
    world.send(BuildRequested("r", "", ("k2",)))
    assert world.log == ["scan"]
    world.answer(world.find(WorkKind.SCAN))
    assert world.log == ["scan", "load", "render k2/c"]
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c", "notify r k2/c", "notify r end"]
    world.drain()


def test_a_request_does_not_wait_for_a_load_that_can_wait() -> None:
    world = built()
    world.save(MACROS, "token 1")
    lazy = world.find(WorkKind.LOAD)
    world.send(BuildRequested("r", "", ("k2",)))
    world.answer(world.find(WorkKind.SCAN))
    assert world.works[lazy].cancelled
    world.drain()


def test_its_units_are_known_before_any_is_reported() -> None:
    world = built()
    world.send(BuildRequested("r", "", None))
    world.answer(world.find(WorkKind.SCAN))
    world.answer(world.find(WorkKind.LOAD))
    assert world.state.requests["r"].pending == {A, B, C}
    assert world.run() == ["notify r k1/a", "notify r k1/b", "notify r k2/c", "notify r end"]


def test_without_a_compiler_builds_are_answered_so_and_checks_are_not() -> None:
    world = built()
    world.save(TOML, "settings 0\njobs 2\nno-compiler")
    world.run()
    world.send(BuildRequested("build", "", ("k2",)))
    world.send(BuildRequested("check", "", ("k2",), check_only=True))
    assert world.run() == [
        "notify build k2/c no compiler",
        "notify build end",
        "notify check k2/c",
        "notify check end",
    ]


def test_a_forced_build_of_a_broken_template_is_over_with_its_answer() -> None:
    world = built()
    world.save(T2, "broken")
    world.drain()
    world.send(BuildRequested("forced", "", ("k2",), force=True))
    world.run()
    world.send(BuildRequested("plain", "", ("k2",)))
    assert world.run()[-2:] == ["notify plain k2/c", "notify plain end"]


def test_cancelling_a_forced_build_looks_in_the_store_again() -> None:
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
    assert world.take_log() == []
    world.audience.requests["one"].done = True
    assert world.run() == ["notify other k2/c", "notify other end"]


def test_what_is_cancelled_while_it_is_looked_up_is_not_compiled() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(WorkKind.RENDER)
    world.send(FocusChanged("ann", frozenset({C})))
    world.send(CancelRequested("", frozenset({C})))
    assert world.run() == []
    assert unit(world, C).phase is Phase.IDLE
    world.send(BuildRequested("r", "", ("k2",)))
    assert world.run() == ["look-up k2/c", "compile k2/c", "notify r k2/c", "notify r end"]


def test_what_is_cancelled_while_it_is_rendered_is_not_compiled() -> None:
    world = built()
    world.send(FocusChanged("ann", frozenset({C})))
    world.drain()
    world.save(T2, "token 1\nheader h2")
    world.take_log()
    world.send(CancelRequested("", frozenset({C})))
    assert "compile k2/c" not in world.run()
    assert unit(world, C).phase is Phase.IDLE
    world.save(T2, "token 2\nheader h2")
    assert "compile k2/c" in world.run()


def test_what_was_cancelled_is_in_focus_again_after_an_edit() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.send(CancelRequested("", frozenset({C})))
    world.save(T2, "token 2\nheader h2")
    world.drain()
    world.save(TOML, "settings 1\njobs 2")
    world.drain()
    world.take_log()
    world.send(FocusChanged("ann", frozenset({C})))
    assert world.run() == ["look-up k2/c", "compile k2/c"]


def test_no_request_is_answered_before_all_changes_of_the_disk_are_acted_upon() -> None:
    world = built()
    world.state.paths_at_once = 1
    world.write(T2, "token 5")
    world.send(BuildRequested("r", "", ("k2",)))
    world.send(FilesChanged({f"/other/{number}": "1" for number in range(9)}))
    # The news of the template waits behind those files when the workspace has been read.
    world.answer(world.find(WorkKind.SCAN))
    while loads := [number for number, one in world.works.items() if one.effect.work.kind is WorkKind.LOAD]:
        world.answer(loads[0])
    assert world.run()[-3:] == ["compile k2/c", "notify r k2/c", "notify r end"]


def test_what_is_no_longer_in_focus_is_not_begun() -> None:
    world = World(FILES | {TOML: "settings 0\njobs 1"}, State(root="/ws", units_at_once=1))
    world.send(FocusChanged("ann", frozenset(), everything=True))
    world.run(*QUICK)
    world.send(FocusChanged("ann", frozenset()))
    world.answer(world.find(WorkKind.COMPILE))
    assert not [line for line in world.run() if line.startswith("compile")][1:]
    assert [one.phase for one in world.state.all_units()] == [Phase.DONE, Phase.IDLE, Phase.IDLE]


def test_what_is_cancelled_before_its_turn_is_not_asked_for() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(WorkKind.RENDER)
    world.send(CancelRequested("", frozenset({C})))
    world.run()
    assert unit(world, C).phase is Phase.IDLE
    world.send(BuildRequested("r", "", None))
    world.send(CancelRequested("", frozenset({C})))
    assert world.run()[-4:] == ["notify r k1/a", "notify r k1/b", "notify r k2/c cancelled", "notify r end"]
    assert unit(world, C).phase is Phase.IDLE
    world.send(BuildRequested("later", "", ("k2",)))
    assert world.run()[-2:] == ["notify later k2/c", "notify later end"]


def test_a_check_goes_on_when_its_units_are_cancelled() -> None:
    world = built()
    world.send(BuildRequested("r", "", ("k2",), check_only=True))
    world.send(CancelRequested("", frozenset({C})))
    assert world.run()[-2:] == ["notify r k2/c", "notify r end"]


def test_who_begins_to_want_everything_gets_what_was_cancelled() -> None:
    world = built()
    world.send(FocusChanged("ann", frozenset(), everything=True))
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.send(CancelRequested("", frozenset({C})))
    world.run()
    world.send(FocusChanged("ann", frozenset({A}), everything=True))
    assert world.run() == [], "nothing that ann wants is new"
    world.send(FocusChanged("bob", frozenset(), everything=True))
    assert world.run() == ["look-up k2/c", "compile k2/c"]


@pytest.mark.parametrize(
    ("event", "awaited", "lines"),
    [
        (FocusChanged("ann", frozenset({A})), False, False),
        (BuildRequested("r", "", ("k2",), force=True), True, False),
        (BuildRequested("r", "", ("k2",), force=True, lines=True), True, True),
        (FocusChanged("ann", frozenset({C})), True, True),
        (FocusChanged("ann", frozenset(), everything=True), True, False),
    ],
)
def test_compiles_that_a_client_waits_for_or_shows_are_awaited(event: AnyEvent, awaited: bool, lines: bool) -> None:
    """Their compilers are not niced, the host pass alone neither. Units in focus have line tables, and requested ones."""
    for apart in (False, True):
        world = built()
        world.state.passes_apart = apart
        world.send(event)
        world.run(*QUICK)
        world.save(T2, "token new\nheader h2")
        world.run(*QUICK)
        (effect,) = [
            one.effect for one in world.works.values() if isinstance(one.effect, Compile | Check) and not one.cancelled
        ]
        assert effect.awaited is awaited
        assert not isinstance(effect, Compile) or effect.lines is lines
        world.drain()
