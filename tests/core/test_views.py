"""Unsaved texts and options: who sees what."""

from __future__ import annotations

import pytest

from ckwatch.core.effects import Changed
from ckwatch.core.events import AutoBuild, BuildRequested, ClientLost, FocusChanged, UnitKey, WorkKind
from ckwatch.core.phases import Phase
from ckwatch.core.state import State
from ckwatch.model.kernels import Outcome
from ckwatch.model.topics import Topic
from core.language import TOML
from core.workspace import FILES, H1, K1, K2, MACROS, T1, T2, A, B, C, built, set_overlay, story, unit
from core.world import QUICK, World


def test_what_is_saved_goes_on_compiling() -> None:
    world = built()
    set_overlay(world, "ann", T2, "broken")
    world.run()
    set_overlay(world, "ann", T2, "token 1\nheader h2")
    assert world.run(*QUICK) == ["ann: render k2/c", "ann: look-up k2/c", "ann: compile k2/c"]
    world.save(T2, "token 1\nheader h2")
    assert world.run(*QUICK) == ["render k2/c"]
    assert unit(world, C, "ann") is unit(world, C)
    assert unit(world, C).phase is Phase.COMPILING
    assert world.run() == ["look-up k2/c"]
    assert story(world, C)[1:] == [
        "its unsaved text was saved: the compiler goes on",
        "templates/t2 changed",
    ]


@pytest.mark.parametrize("other", [{}, {MACROS: "blank"}], ids=["alone", "with another file"])
def test_a_kernel_file_that_is_saved_goes_on_compiling(other: dict[str, str]) -> None:
    world = built()
    text = "template t2\ninstance c 5"
    set_overlay(world, "ann", K2, text)
    assert world.run(*QUICK) == ["ann: render k2/c", "ann: look-up k2/c", "ann: compile k2/c"]
    for path, changed in ({K2: text} | other).items():
        world.save(path, changed)
    log = world.run(*QUICK)
    assert [line for line in log if "k2/c" in line] == ["render k2/c"]
    assert unit(world, C, "ann") is unit(world, C)
    assert unit(world, C).phase is Phase.COMPILING
    world.drain()
    assert unit(world, C).outcome is Outcome.BUILT
    assert "its unsaved text was saved: the compiler goes on" in story(world, C)


def test_a_comment_typed_while_the_file_is_compiled_leaves_no_unit_idle() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    set_overlay(world, "ann", T2, "blank\ntoken 1\nheader h2")
    world.drain()
    assert unit(world, C, "ann").outcome is Outcome.BUILT
    assert len(world.workers.compiled) == 3 + 1, "the store has what the other one compiled"


def test_texts_of_two_clients_do_not_mix() -> None:
    world = built()
    for client in ("ann", "bob"):
        set_overlay(world, client, T2, f"token {client}")
    world.drain()
    tokens = [unit(world, C, client).render.tokens for client in ("ann", "bob", "")]
    assert tokens == ["t2 p=1 ann", "t2 p=1 bob", "t2 p=1 0 #h2"]


def test_a_client_that_is_lost_leaves_nothing_behind() -> None:
    world = built()
    set_overlay(world, "ann", T2, "token 1")
    world.run(*QUICK)
    world.send(FocusChanged("ann", frozenset({C})))
    world.send(BuildRequested("r", "ann", ("k1",), force=True))
    world.run(*QUICK)
    world.audience.requests["r"].done = True
    world.send(ClientLost("ann"))
    assert set(world.take_log()) == {"ann: stop compile k2/c", "stop compile k1/a", "look-up k1/b"}
    world.drain()
    assert world.state.views.keys() == {""}
    assert not (world.state.focus)
    assert not (world.state.requests)
    assert not (world.state.waiting)
    assert all(key.scope == "" for key in world.state.graph.readers(T2))


def test_a_request_for_a_view_goes_on_for_the_workspace_when_the_view_is_dropped() -> None:
    world = World(FILES, State(root="/ws"))
    set_overlay(world, "ann", T2, "token 1\nheader h2")
    world.run()
    world.save(TOML, "settings 1\njobs 2")  # nothing of it is in the store
    world.run()
    world.send(BuildRequested("r", "ann", ("k2",)))
    world.run(*QUICK)
    set_overlay(world, "ann", T2, None)
    assert world.run()[-3:] == ["compile k2/c", "notify r k2/c", "notify r end"]


def test_an_unsaved_text_hides_the_file() -> None:
    world = built()
    set_overlay(world, "ann", T2, "token 1")
    world.drain()
    world.take_log()
    world.save(T2, "token 2")
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c"]


def test_a_text_that_is_edited_while_its_reader_is_rendered_is_not_missed() -> None:
    world = built()
    set_overlay(world, "ann", T2, "include macros")
    assert world.take_log() == ["ann: render k2/c"]
    set_overlay(world, "ann", MACROS, "token 7")  # it is not known yet that the unit reads it
    world.drain()
    assert unit(world, C, "ann").render.tokens == "t2 p=1 7"


def test_a_render_of_an_unsaved_text_does_not_mind_the_file() -> None:
    world = built()
    set_overlay(world, "ann", T2, "token 1")
    assert world.take_log() == ["ann: render k2/c"]
    world.save(T2, "token 2")
    assert [line for line in world.run() if line.startswith("ann")] == ["ann: look-up k2/c", "ann: compile k2/c"]


def test_what_was_compiled_under_other_flags_does_not_go_on_for_the_workspace() -> None:
    world = built(**{TOML: "settings 0\njobs 1"})
    world.send(FocusChanged("ann", frozenset({C})))
    set_overlay(world, "ann", K2, "template t2\nflags x\ninstance c 1")
    world.run()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    assert unit(world, C).phase is Phase.QUEUED
    assert unit(world, C, "ann").phase is Phase.COMPILING
    set_overlay(world, "ann", K2, None)
    assert world.run() == ["ann: stop compile k2/c", "compile k2/c"]


def test_a_kernel_that_is_saved_as_it_was_edited_is_followed() -> None:
    world = built()
    set_overlay(world, "ann", K1, "template t1\ninstance a 5\ninstance b 2")
    world.drain()
    assert unit(world, A, "ann") is not unit(world, A)
    world.save(K1, "template t1\ninstance a 5\ninstance b 2")
    world.drain()
    assert unit(world, A, "ann") is unit(world, A)


def test_a_kernel_file_that_is_removed_under_an_unsaved_one_takes_nothing_away() -> None:
    world = built()
    set_overlay(world, "ann", K2, FILES[K2])
    world.drain()
    world.send(BuildRequested("r", "ann", ("k2",), force=True))
    world.run(*QUICK)
    world.save(K2, None)
    log = world.run(*QUICK) + world.run()
    assert [line for line in log if line.startswith("notify")] == ["notify r k2/c", "notify r end"]
    assert world.state.seen("", C) is None
    assert unit(world, C, "ann").outcome is Outcome.BUILT


def test_an_unsaved_kernel_file_keeps_its_places_when_those_of_the_file_move() -> None:
    world = built()
    set_overlay(world, "ann", K1, FILES[K1])
    world.drain()
    world.save(K1, f"blank\n{FILES[K1]}")
    world.drain()
    assert [unit(world, A, client).unit.instance.span.start.line for client in ("", "ann")] == [2, 1]


def test_a_new_unit_is_seen_by_clients_with_views_too() -> None:
    world = built()
    set_overlay(world, "ann", T2, FILES[T2])
    world.drain()
    world.save(K2, "template t2\ninstance c 1\ninstance d 3")
    world.drain()  # the audience is checked
    assert unit(world, "k2/d@gfx942", "ann") is unit(world, "k2/d@gfx942")


def test_what_a_view_had_before_it_was_read_goes_when_it_is_not_in_it() -> None:
    world = built()
    set_overlay(world, "ann", K2, "template t2")
    set_overlay(world, "ann", T2, "token 1")
    assert unit(world, C, "ann") is not unit(world, C)
    world.drain()
    assert world.state.seen("ann", C) is None
    assert world.state.views["ann"].units == {}


def test_other_settings_reach_a_view_that_was_not_read_yet() -> None:
    world = built()
    set_overlay(world, "ann", T2, "token 1")
    world.run(WorkKind.RENDER, WorkKind.LOOK_UP, WorkKind.COMPILE, WorkKind.RECORD)
    world.save(TOML, "settings 1\njobs 2")
    world.answer(next(number for number, one in world.works.items() if one.effect.work.key == UnitKey("", "")))
    world.drain()
    assert unit(world, C, "ann").phase is Phase.IDLE


def test_a_view_is_compared_when_the_workspace_has_been_read() -> None:
    world = built()
    set_overlay(world, "ann", T2, FILES[T2])
    world.drain()
    world.take_log()
    world.save(TOML, "settings 1\njobs 2")
    loads = {one.effect.work.key.scope: number for number, one in world.works.items()}
    world.answer(loads["ann"])
    assert "ann: render k2/c" not in world.run()
    assert world.state.views["ann"].units == {}


def test_what_only_a_view_wanted_is_not_compiled_for_the_workspace() -> None:
    world = World(FILES | {TOML: "settings 0\njobs 1"}, State(root="/ws"))
    world.run()
    world.send(BuildRequested("r", "ann", None))
    world.run(*QUICK)
    set_overlay(world, "ann", T2, "token 1")
    world.drain()
    assert UnitKey("", C) not in world.workers.compiled
    assert UnitKey("ann", C) in world.workers.compiled


def test_a_result_that_a_header_has_overtaken_is_not_inherited() -> None:
    world = built()
    world.state.units_at_once = 1
    world.write(H1, "token 1")
    set_overlay(world, "ann", MACROS, "blank\ntoken 0")  # one unit is compared now, the other when the header is news
    world.deliver()
    world.drain()
    results = [unit(world, name, "ann").compile.result for name in (A, B)]
    assert all(result is not None and "token 1" in result.key for result in results)


def test_what_is_wrong_in_the_file_is_shown_again_when_a_text_without_it_is_taken_back() -> None:
    world = built()
    world.save(T2, "broken")
    world.drain()
    set_overlay(world, "ann", T2, "token 1\nheader h2")
    world.drain()
    (path,) = unit(world, C).published_files
    assert not unit(world, C, "ann").published_files
    published: list[Changed] = []
    listen = world.audience.changed

    def changed(change: Changed) -> None:
        published.append(change)
        listen(change)

    world.audience.changed = changed  # type: ignore[method-assign]  # it only listens
    set_overlay(world, "ann", T2, None)
    world.run()
    assert Changed("ann", Topic(f"file/{path}")) in published


def test_of_unsaved_texts_no_more_is_compiled_than_is_wanted() -> None:
    compiled = {}
    for unsaved in AutoBuild:
        world = built()
        world.send(FocusChanged("ann", frozenset({A}), auto_build=unsaved))
        set_overlay(world, "ann", T1, "token 1")
        set_overlay(world, "ann", T2, "token 1\nheader h2")
        compiled[unsaved] = sorted(line for line in world.run() if "compile" in line)
        world.drain()
        for name in (A, B, C):
            assert unit(world, name, "ann").outcome is not None
        world.send(BuildRequested("r", "ann", ("k2",)))
        world.drain()
        assert unit(world, C, "ann").settled, "what is asked for is compiled"
    assert compiled[AutoBuild.EDITED] == ["ann: compile k1/a", "ann: compile k1/b", "ann: compile k2/c"]
    assert compiled[AutoBuild.IN_FOCUS] == ["ann: compile k1/a"]
    assert compiled[AutoBuild.NONE] == []


def test_what_is_saved_is_compiled_whatever_is_wanted_of_unsaved_texts() -> None:
    world = built()
    world.send(FocusChanged("ann", frozenset(), auto_build=AutoBuild.NONE))
    set_overlay(world, "ann", T2, "token 1\nheader h2")
    assert "ann: compile k2/c" not in world.run()
    world.save(T2, "token 1\nheader h2")
    set_overlay(world, "ann", T2, None)
    assert "compile k2/c" in world.run()


@pytest.mark.parametrize(("path", "text", "urgent"), [(T2, "token 1", False), (K2, "template t2", True)])
def test_renders_of_a_first_unsaved_text_wait_for_a_load_only_where_it_may_change_them(
    path: str, text: str, urgent: bool
) -> None:
    world = built()
    set_overlay(world, "ann", path, text)
    assert world.state.views["ann"].loading is not None
    assert world.state.views["ann"].urgent is urgent
