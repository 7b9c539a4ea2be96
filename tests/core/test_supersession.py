"""A newer input and the work for an older one; faults of the host; what is recorded."""

from __future__ import annotations

import pytest

from ckwatch.core.effects import Record
from ckwatch.core.events import Cause, FilesChanged, ScanFinished, UnitKey, WorkKind
from ckwatch.core.phases import Phase
from ckwatch.core.state import Invalidation, State
from ckwatch.model.kernels import Outcome
from core.language import TOML
from core.workspace import FILES, H2, H3, K1, T1, T2, A, Act, C, built, edited, old_reader, story, unit
from core.world import QUICK


def test_other_tokens_stop_the_compiler_as_soon_as_they_are_known() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.save(T2, "token 2\nheader h2")
    assert world.take_log() == ["render k2/c"]
    world.answer(world.find(WorkKind.RENDER))
    assert world.take_log() == ["stop compile k2/c", "look-up k2/c"]
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


def test_a_change_of_a_header_that_is_reported_twice_stops_no_compiler() -> None:
    world = built()
    world.save(H2, "token 1")
    world.run(*QUICK)
    assert unit(world, C).phase is Phase.COMPILING
    world.take_log()
    world.send(FilesChanged({H2: world.disk.files[H2]}))
    assert "stop compile k2/c" not in world.take_log()
    world.save(H2, "token 2")
    assert "stop compile k2/c" in world.take_log()
    world.drain()
    assert unit(world, C).phase is Phase.DONE


def test_a_result_that_has_not_seen_a_header_that_changed_is_void() -> None:
    world = built()
    world.save(T2, "token 1\nheader h3")  # nobody has included it before: the machine cannot know who will
    world.run(*QUICK)
    world.save(H3, "token 1")
    assert world.take_log() == []
    world.answer(world.find(WorkKind.COMPILE), seed=old_reader(world, H3, "token 0"))
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c"]
    assert story(world, C) == ["compiled in 1.0 s: built", "/ck/h3 changed meanwhile"]


def test_a_scan_does_not_hide_what_was_reported_later() -> None:
    world = built()
    world.save(T2, "token 0\ninclude late\nheader h2")
    world.send(FilesChanged({}, complete=False))
    scan = world.works.pop(world.find(WorkKind.SCAN)).effect.work
    world.write("/ws/templates/late", "token 1")
    render = world.find(WorkKind.RENDER)
    stale = world.workers.end(world.works.pop(render), 0)
    world.save("/ws/templates/late", "token 2")
    world.send(ScanFinished(scan, {"/ws/templates/late": "token 1"}))
    world.send(stale)
    world.drain()
    assert "token 2" in unit(world, C).render.facts.reads.values()  # type: ignore[union-attr]


def test_messages_move_with_what_is_no_input_to_the_compiler() -> None:
    world = built(**{T2: "warn\nheader h2"})
    world.save(T2, "blank\nwarn\nheader h2")
    assert world.run() == ["render k2/c", "look-up k2/c"]
    (warning,) = unit(world, C).diagnostics
    assert warning.span.start.line == 1


def test_an_older_compiler_that_ends_does_not_disturb_the_newer_render() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.save(T2, "blank\ntoken 1\nheader h2")
    world.take_log()
    world.answer(world.find(WorkKind.COMPILE))
    assert world.take_log() == []
    assert world.run() == ["look-up k2/c"]


def test_a_look_up_that_has_not_seen_a_header_that_changed_is_void() -> None:
    with_h3 = "token 1\nheader h3"
    world = built(**{T2: with_h3})
    world.save(T2, FILES[T2])
    world.drain()
    world.save(T2, with_h3)  # it is in the store, and nobody includes h3 now
    world.run(WorkKind.LOAD, WorkKind.RENDER, WorkKind.RECORD)
    world.save(H3, "token 1")
    world.take_log()
    world.answer(world.find(WorkKind.LOOK_UP), seed=old_reader(world, H3, "token 0"))
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c"]


def test_news_that_waits_makes_results_void_already() -> None:
    world = built()
    for text in ("token 1\nheader h2", FILES[T2], "token 1\nheader h2"):
        world.run()
        world.save(T2, text)
    world.run(WorkKind.LOAD, WorkKind.RENDER, WorkKind.RECORD)
    world.state.paths_at_once = 1
    world.write(T2, FILES[T2])
    # One file is acted upon in each step; that of the unit comes third.
    world.send(FilesChanged({"/one": "1", "/two": "1", T2: FILES[T2]}))
    world.answer(world.find(WorkKind.LOOK_UP))
    assert not unit(world, C).settled
    world.disk.unseen.clear()
    world.drain()


def test_what_an_older_work_has_seen_to_its_end_may_have_been_missed_by_a_younger_one() -> None:
    world = built()
    world.save(T1, "token 1")
    world.run(*QUICK)
    older = {number for number, one in world.works.items() if one.effect.work.kind is WorkKind.COMPILE}
    world.answer(max(older))  # the other one goes on
    world.save(T2, "header h3")
    world.run(*QUICK)
    (younger,) = {number for number, one in world.works.items() if one.effect.work.kind is WorkKind.COMPILE} - older
    world.save(H3, "token 1")
    world.answer(min(older))
    world.answer(younger, seed=old_reader(world, H3, "token 0"))
    world.drain()
    assert story(world, C) == ["compiled in 1.0 s: built", "/ck/h3 changed meanwhile"]


@pytest.mark.parametrize(
    ("first", "second", "noted"),
    [
        ((False, True), (False, True), (False, True)),
        ((True, False), (False, True), (True, True)),
        ((False, True), (True, False), (True, True)),
        ((True, True), (False, False), (True, True)),
    ],
)
def test_weaker_news_does_not_replace_stronger(
    first: tuple[bool, bool], second: tuple[bool, bool], noted: tuple[bool, bool]
) -> None:
    state, key = State(), UnitKey("", C)
    for recompile, edit in (first, second):
        state.invalidate([key], Invalidation(Cause("news", 0.0), recompile, edit))
    assert (state.invalidated[key].recompile, state.invalidated[key].edit) == noted


@pytest.mark.parametrize("kind", [WorkKind.RENDER, WorkKind.LOOK_UP, WorkKind.COMPILE])
def test_a_fault_is_not_the_kernels_and_is_tried_again(kind: WorkKind) -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    others = [other for other in QUICK if other is not kind]
    world.run(*others)
    world.answer(world.find(kind), fault="out of memory")
    assert world.run() == []
    assert unit(world, C).outcome is Outcome.FAULTED
    assert story(world, C) == [f"the {kind} failed", "templates/t2 changed"]
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


def test_a_fault_after_news_that_was_no_news_is_tried_again() -> None:
    world = built()
    world.save(T2, "token 1\nheader h2")
    world.run(*QUICK)
    world.write(T2, "token 2\nheader h2")
    world.save(T2, "token 1\nheader h2")  # back before anybody looked; the compiler may have met the other text
    world.take_log()
    world.answer(world.find(WorkKind.COMPILE), fault="the text changed")
    assert world.run() == ["render k2/c", "look-up k2/c", "compile k2/c"]


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
