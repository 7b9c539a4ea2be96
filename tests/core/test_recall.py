"""Knowledge of an earlier daemon: taken over without renders, in pieces, and not where anything is in doubt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ckwatch.core.events import BuildRequested, WorkKind
from ckwatch.core.phases import Phase
from ckwatch.core.state import State
from core.language import TOML
from core.workspace import FILES, H1, K1, MACROS, T1, A, edited, set_overlay, unit
from core.world import World
from helpers.each_row import each_row

Act = Callable[[World], None]


def started(*, at_once: int = 50) -> World:
    """A daemon that has loaded the workspace, and an earlier one has built everything."""
    world = World(FILES, State(root="/ws", recallable=True, units_at_once=at_once, paths_at_once=at_once))
    world.run(WorkKind.LOAD)
    return world


@pytest.mark.parametrize("at_once", [1, 2, 50])
def test_all_is_taken_over_without_a_render(at_once: int) -> None:
    world = started(at_once=at_once)
    assert {one.phase for one in world.state.all_units()} == {Phase.WAITING}
    assert world.run(WorkKind.RECALL) == []
    assert {one.phase for one in world.state.all_units()} == {Phase.DONE}
    assert world.state.recalling is None
    assert not world.state.unrecorded
    world.drain()
    assert world.take_log() == []


def test_it_answers_requests() -> None:
    world = started()
    world.send(BuildRequested("all", "", None))
    assert world.run() == ["notify all k1/a", "notify all k1/b", "notify all k2/c", "notify all end"]


def test_what_follows_an_edit_is_as_ever() -> None:
    world = started()
    world.drain()
    world.take_log()
    world.save(H1, "token 1")
    assert "compile k1/a" in world.run()
    world.drain()


@each_row(
    ("act", "renders"),
    [
        pytest.param(edited(T1, "include macros\nheader h2"), {"k1/a", "k1/b"}, id="a template"),
        pytest.param(edited(MACROS, "token 1"), {"k1/a", "k1/b"}, id="a macro file"),
        pytest.param(edited(H1, "token 1"), {"k1/a", "k1/b"}, id="a header"),
        pytest.param(edited(K1, "template t1\ninstance a 1\ninstance b 5"), {"k1/b"}, id="an instance"),
        pytest.param(edited(K1, "blank\ntemplate t1\ninstance a 1\ninstance b 2"), {"k1/a", "k1/b"}, id="moved"),
        pytest.param(edited(K1, "template t1\nflags x\ninstance a 1\ninstance b 2"), {"k1/a", "k1/b"}, id="flags"),
        pytest.param(edited(TOML, "settings 1\njobs 2"), {"k1/a", "k1/b", "k2/c"}, id="settings"),
        pytest.param(
            lambda world: world.send(BuildRequested("r", "", (A,), force=True)), {"k1/a"}, id="a forced build"
        ),
    ],
)
@each_row("found_before", [True, False])
def test_what_changes_meanwhile_is_rendered(act: Act, renders: set[str], found_before: bool) -> None:
    world = started()
    if found_before:  # the results were compared with the files as they were
        event = world.workers.end(world.works[number := world.find(WorkKind.RECALL)], 0)
        act(world)
        log = world.run(WorkKind.LOAD, WorkKind.SCAN)
        del world.works[number]
        world.send(event)
    else:
        act(world)
        log = world.run(WorkKind.LOAD, WorkKind.SCAN)
    log += world.run()
    rendered = {line.removeprefix("render ") for line in log if line.startswith("render")}
    assert not found_before or rendered == renders
    world.drain()


def test_another_view_is_rendered() -> None:
    world = started()
    set_overlay(world, "ann", MACROS, "token 2")
    world.run()
    assert unit(world, A, "ann").key.scope == "ann"
    assert unit(world, A).phase is Phase.DONE
    world.drain()


def test_where_it_fails_all_is_rendered() -> None:
    world = started()
    world.answer(world.find(WorkKind.RECALL), fault="no")
    assert {"render k1/a", "render k1/b", "render k2/c"} <= {*world.run()}
    world.drain()


def settled(*, files: int = 2) -> World:
    """A daemon at rest that looks at remembered results when so many files have changed at once."""
    world = World(FILES, State(root="/ws", recallable=True, recall_after_files=files))
    world.drain()
    world.take_log()
    return world


def changed_together(world: World) -> None:
    """As a checkout changes files: all are written before the first is noticed."""
    world.write(T1, "include macros\nheader h2")
    world.write(MACROS, "token 1")
    world.deliver()


def test_many_files_changed_at_once_are_taken_over_without_a_render() -> None:
    world = settled()
    changed_together(world)
    assert unit(world, A).phase is Phase.WAITING
    world.answer(world.find(WorkKind.RECALL))
    assert not [line for line in world.run() if line.startswith(("render", "compile"))]
    assert {one.phase for one in world.state.all_units()} == {Phase.DONE}
    world.drain()


def test_few_are_rendered_at_once() -> None:
    world = settled(files=3)
    changed_together(world)
    assert "render k1/a" in world.run()


def test_unsaved_text_does_not_wait_for_it() -> None:
    world = settled()
    changed_together(world)
    set_overlay(world, "ann", T1, "include macros")
    world.run(WorkKind.LOAD)
    assert world.find(WorkKind.RECALL)
    assert "ann" in {
        one.effect.work.key.scope for one in world.works.values() if one.effect.work.kind is WorkKind.RENDER
    }
    world.drain()


def test_a_change_while_they_are_looked_at_is_rendered() -> None:
    world = settled()
    changed_together(world)
    event = world.workers.end(world.works[number := world.find(WorkKind.RECALL)], 0)
    world.save(T1, "include macros\nheader h1")
    del world.works[number]
    world.send(event)
    assert "render k1/a" in world.run()
    world.drain()
