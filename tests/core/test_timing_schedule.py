"""What was edited is timed by itself; one measurement at a time, of the present artifact only."""

from __future__ import annotations

from ckwatch.bench.job import Race
from ckwatch.core.events import (
    BuildRequested,
    FocusChanged,
    MeasureDropped,
    MeasureFinished,
    MeasureRequested,
    WorkAborted,
    WorkKind,
)
from ckwatch.core.timing_schedule import OVER_BUDGET
from core.language import TOML
from core.workspace import H1, K1, T1, A, B, built, unit
from core.world import QUICK, World

BENCH = "settings 0\njobs 2\nbench 100"
SHAPED = "template t1\nshape 64\nshape 128\ninstance a 1\ninstance b 2"
ON_HOST = "template t1.cpp.j2\nshape 64\ninstance a 1"
ALL_BUT_MEASURING = (*QUICK, WorkKind.CHECK, WorkKind.COMPILE)


def measurements(lines: list[str]) -> list[str]:
    return [line for line in lines if "measure" in line]


def edited(text: str = SHAPED, toml: str = BENCH) -> tuple[World, list[str]]:
    """A world in which the units of k1 have just been compiled after an edit, and what it then began to time."""
    world = built(**{K1: text, TOML: toml})
    world.save(T1, "include macros\nheader h1\ntoken 2")
    return world, measurements(world.run(*ALL_BUT_MEASURING))


def answer(world: World) -> list[str]:
    world.answer(world.find(WorkKind.MEASURE))
    return measurements(world.run(*ALL_BUT_MEASURING))


def test_shapes_of_edited_units_are_timed_one_after_the_other() -> None:
    world, log = edited()
    assert len(log) == 1
    order = [log[0], *answer(world), *answer(world), *answer(world)]
    assert sorted(order) == ["measure k1/a 128", "measure k1/a 64", "measure k1/b 128", "measure k1/b 64"]
    assert answer(world) == []
    state = unit(world, A)
    assert state.compile.result is not None
    assert {timing.artifact for timing in state.timing.by_shape.values()} == {state.compile.result.artifact}
    world.drain()


def test_nothing_is_timed_by_itself_on_request_only() -> None:
    world, log = edited(toml="settings 0\njobs 2")
    assert log == []
    world.send(MeasureRequested(1, (A,), ("128",)))
    assert measurements(world.run(*QUICK)) == ["measure k1/a 128"]
    assert answer(world) == []
    assert unit(world, A).timing.by_shape.keys() == {"128"}
    world.drain()


def test_what_was_built_before_the_daemon_began_is_not_timed() -> None:
    world = built(**{K1: SHAPED, TOML: BENCH})
    assert measurements(world.take_log()) == []
    assert not unit(world, A).timing.requested
    world.send(FocusChanged("ann", frozenset({A})))
    assert measurements(world.run(*QUICK)) == ["measure k1/a 64"]
    world.drain()


def test_what_is_in_focus_comes_first() -> None:
    world, log = edited()
    other = B if "k1/a" in log[0] else A
    world.send(FocusChanged("ann", frozenset({other})))
    assert other.removesuffix("@gfx942") in answer(world)[0]
    world.drain()


def test_an_edit_ends_the_measurement_and_drops_its_result() -> None:
    world, _ = edited()
    number = world.find(WorkKind.MEASURE)
    work = world.works[number].effect.work
    world.save(T1, "include macros\nheader h1\ntoken 3")
    log = world.run(*QUICK)
    assert any(line.startswith("stop measure") for line in log)
    world.drain()
    state = world.state.find(work.key)
    assert state is not None
    assert state.compile.result is not None
    assert {timing.artifact for timing in state.timing.by_shape.values()} == {state.compile.result.artifact}


def test_a_result_that_comes_after_the_edit_is_not_shown() -> None:
    world, _ = edited()
    number = world.find(WorkKind.MEASURE)
    work = world.works[number].effect.work
    world.save(T1, "include macros\nheader h1\ntoken 3")
    world.answer(number)
    state = world.state.find(work.key)
    assert state is not None
    assert state.timing.by_shape == {} or {timing.artifact for timing in state.timing.by_shape.values()} == {
        work.tokens
    }
    world.drain()


def test_blanks_do_not_end_a_measurement() -> None:
    world, _ = edited()
    world.save(T1, "blank\ninclude macros\nheader h1\ntoken 2")
    log = world.run(*QUICK)
    assert not any(line.startswith("stop measure") for line in log)
    world.drain()


def test_a_changed_header_ends_it() -> None:
    world, _ = edited()
    world.save(H1, "token 5")
    assert any(line.startswith("stop measure") for line in world.run(*QUICK))
    world.drain()


def test_a_save_may_cost_so_much() -> None:
    world, log = edited(toml="settings 0\njobs 2\nbench 2")
    assert len([*log, *answer(world), *answer(world)]) == 2
    reasons = {unit(world, name).timing.untimed_because for name in (A, B)}
    assert OVER_BUDGET in reasons
    world.send(MeasureRequested(1, (A, B)))
    assert len(measurements(world.run())) == 2, "who asks is not bound by the budget"
    assert {len(unit(world, name).timing.by_shape) for name in (A, B)} == {2}
    world.drain()


def test_no_device_is_reported_and_not_tried_for_each_shape() -> None:
    world, _ = edited()
    number = world.find(WorkKind.MEASURE)
    work = world.works.pop(number).effect.work
    world.send(MeasureFinished(work, None, "no device for gfx942"))
    state = world.state.find(work.key)
    assert state is not None
    assert state.timing.untimed_because == "no device for gfx942"
    assert not state.timing.requested
    world.drain()


def test_a_failure_is_reported() -> None:
    world, _ = edited()
    number = world.find(WorkKind.MEASURE)
    work = world.works.pop(number).effect.work
    world.send(WorkAborted(work, "OSError: no more processes"))
    state = world.state.find(work.key)
    assert state is not None
    assert state.timing.untimed_because == "OSError: no more processes"
    world.drain()


def test_what_is_known_is_measured_again_only_by_force() -> None:
    world, _ = edited()
    world.drain()
    world.take_log()
    world.send(MeasureRequested(1, (A,), ("64",)))
    assert measurements(world.run()) == []
    world.send(MeasureRequested(2, (A,), ("64",), force=True))
    assert measurements(world.run()) == ["measure k1/a 64"]
    world.drain()


def test_whoever_asked_may_give_up() -> None:
    world, _ = edited(toml="settings 0\njobs 2")
    world.send(MeasureRequested(1, (A,)))
    world.run(*QUICK)
    world.send(MeasureDropped((A,)))
    assert world.run() == ["stop measure k1/a"]
    assert not unit(world, A).timing.requested
    world.drain()


def test_the_processor_is_timed_when_no_compiler_runs() -> None:
    files = {K1: ON_HOST, "/ws/templates/t1.cpp.j2": "token 0", TOML: BENCH}
    world = built(**files)
    world.save("/ws/templates/t1.cpp.j2", "token 1")
    world.run(*ALL_BUT_MEASURING)
    assert world.find(WorkKind.MEASURE)
    world.save(T1, "token 9")  # k1 does not read it
    world.save("/ws/templates/t2", "token 7\nheader h2")
    log = world.run(*QUICK)
    assert "stop measure k1/a" in log, "a compiler that is wanted comes first"
    log += world.run(WorkKind.COMPILE, *QUICK)
    assert log.index("compile k2/c") > log.index("stop measure k1/a")
    assert log[-1] == "measure k1/a 64", "and then it is timed after all"
    world.drain()


def test_a_new_shape_is_timed() -> None:
    world, _ = edited()
    world.drain()
    world.take_log()
    world.save(K1, SHAPED.replace("shape 128", "shape 256"))
    assert sorted(measurements(world.run())) == ["measure k1/a 256", "measure k1/b 256"]
    assert unit(world, A).timing.by_shape.keys() == {"64", "256"}
    world.drain()


def test_a_request_for_a_unit_that_fails_leaves_nothing_behind() -> None:
    world = built(**{K1: SHAPED, TOML: "settings 0\njobs 2"})
    world.save(T1, "fail")
    world.send(MeasureRequested(1, (A,)))
    world.send(BuildRequested("r", "", ("k1",)))
    assert measurements(world.run()) == []
    assert not unit(world, A).timing.requested
    world.drain()


def test_devices_that_requests_name_are_timed_on_side_by_side() -> None:
    world = built(**{K1: SHAPED, TOML: "settings 0\njobs 2"})
    world.send(MeasureRequested(1, (A,), ("64",), device="hip:0"))
    world.send(MeasureRequested(2, (B,), ("64",), device="hip:1"))
    assert measurements(world.run(*QUICK)) == ["measure k1/a 64", "measure k1/b 64"]
    assert set(world.state.measuring) == {"hip:0", "hip:1"}
    world.send(MeasureRequested(3, (B,), ("128",), device="hip:0"))
    assert measurements(world.run(*QUICK)) == []  # a unit is timed on one device at a time
    world.drain()


def test_one_device_is_timed_on_for_one_at_a_time() -> None:
    world = built(**{K1: SHAPED, TOML: "settings 0\njobs 2"})
    world.send(MeasureRequested(1, (A, B), ("64",), device="hip:0"))
    assert len(measurements(world.run(*QUICK))) == 1
    assert len(answer(world)) == 1
    world.drain()


def test_a_race_is_asked_for_whatever_is_known() -> None:
    world = built(**{K1: SHAPED, TOML: "settings 0\njobs 2"})
    for number in (1, 2):
        world.send(MeasureRequested(number, (A,), ("64",), race=Race(limit_us=5.0)))
        assert measurements(world.run(*QUICK)) == ["measure k1/a 64"]
        assert answer(world) == []
    world.drain()
