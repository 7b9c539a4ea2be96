"""Edited units are timed by themselves; one measurement at a time, of the present artifact only."""

from __future__ import annotations

from dataclasses import replace

from ckwatch.bench.job import Race
from ckwatch.core.effects import Measure
from ckwatch.core.events import (
    BuildRequested,
    DevicesFound,
    FocusChanged,
    MeasureFinished,
    MeasureRequested,
    WorkAborted,
    WorkDropped,
    WorkKind,
)
from ckwatch.core.timing_schedule import OVER_BUDGET
from ckwatch.model.diagnostics import Source
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.python_references import MistakeKind, ReferenceMistake
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


def test_what_is_written_as_sizes_is_timed_whether_the_file_has_it_or_not() -> None:
    world, _ = edited(toml="settings 0\njobs 2")
    world.send(MeasureRequested(1, (A,), ("M=3", "64", "none")))
    assert measurements(world.run(*QUICK)) == ["measure k1/a 64"]
    assert measurements(answer(world)) == ["measure k1/a M=3"]
    assert answer(world) == []
    assert unit(world, A).timing.by_shape.keys() == {"64", "M=3"}
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
    world.send(WorkDropped(WorkKind.MEASURE, (A,)))
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


# Several devices that are alike.

GPU0 = DeviceFacts(name="hip:0", description="MI300X", arch="gfx942", pci="0000:c1:00.0")
GPU1 = replace(GPU0, name="hip:1", pci="0000:c2:00.0")
OLDER = DeviceFacts(name="hip:2", description="MI210", arch="gfx90a", pci="0000:c3:00.0")
FAR = replace(GPU0, machine="gpu-box")
CPU = DeviceFacts(name="cpu", description="x86-64", arch="host")
HIP = "/ws/templates/t1.hip.j2"
ON_GPU = "template t1.hip.j2\nshape 64\ninstance a 1\ninstance b 2\ninstance c 3"
NAMES = tuple(f"k1/{name}@gfx942" for name in "abc")


def with_devices(*devices: DeviceFacts, kernel: str = ON_GPU) -> World:
    """A world with three units for a GPU, in which nothing is timed by itself."""
    world = built(**{K1: kernel, HIP: "token 0", TOML: "settings 0\njobs 2"})
    world.send(DevicesFound(devices))
    return world


def measure(world: World, *units: str, number: int = 1, force: bool = False, device: str | None = None) -> None:
    world.send(MeasureRequested(number, units, force=force, device=device))
    world.run(*QUICK)


def places(world: World) -> dict[str, str]:
    """By device the unit that is being timed on it."""
    return {device: work.key.unit for device, work in world.state.measuring.items()}


def effect_of(world: World, unit_name: str) -> Measure:
    effect = world.works[world.find(WorkKind.MEASURE, unit_name)].effect
    assert isinstance(effect, Measure)
    return effect


def end(world: World, unit_name: str, problem: str = "", device: DeviceFacts | None = None) -> None:
    """The measurement of a unit ends, with a timing or because its device could not be used."""
    number = world.find(WorkKind.MEASURE, unit_name)
    if problem:
        work = world.works.pop(number).effect.work
        world.send(MeasureFinished(work, None, problem, "" if device is None else device.address))
    else:
        world.answer(number)
    world.run(*QUICK)


def test_devices_that_are_alike_work_side_by_side() -> None:
    world = with_devices(GPU0, GPU1, OLDER, CPU)
    measure(world, *NAMES)
    assert places(world) == {GPU0.address: NAMES[0], GPU1.address: NAMES[1]}
    assert effect_of(world, NAMES[1]).place == GPU1
    end(world, NAMES[1])
    assert places(world) == {GPU0.address: NAMES[0], GPU1.address: NAMES[2]}
    world.drain()


def test_the_best_that_fits_says_which_devices_count() -> None:
    world = with_devices(OLDER, GPU0)
    measure(world, *NAMES)
    assert set(places(world)) == {GPU0.address}
    world.drain()


def test_a_shape_goes_back_to_its_device_and_waits_for_it() -> None:
    world = with_devices(GPU0, GPU1)
    measure(world, *NAMES)
    for name in NAMES:
        end(world, name)
    devices = {name: unit(world, name).timing.by_shape["64"].device for name in NAMES}
    assert devices == {NAMES[0]: GPU0.address, NAMES[1]: GPU1.address, NAMES[2]: GPU0.address}
    measure(world, NAMES[2], NAMES[0], number=2, force=True)
    assert places(world) == {GPU0.address: NAMES[2]}
    assert not effect_of(world, NAMES[2]).has_others
    measure(world, NAMES[1], number=3, force=True)
    assert places(world) == {GPU0.address: NAMES[2], GPU1.address: NAMES[1]}
    end(world, NAMES[2])
    assert places(world)[GPU0.address] == NAMES[0]
    world.drain()


def test_a_named_device_is_the_only_one() -> None:
    world = with_devices(GPU0, GPU1, FAR)
    measure(world, *NAMES, device="hip:1")
    assert places(world) == {GPU1.address: NAMES[0]}
    world.send(MeasureRequested(2, (NAMES[1],), device="gpu-box/hip:0"))
    assert places(world) == {GPU1.address: NAMES[0], FAR.address: NAMES[1]}
    world.drain()


def test_the_device_of_the_settings_is_the_only_one() -> None:
    world = built(**{K1: ON_GPU, HIP: "token 0", TOML: "settings 0\njobs 2\ndevice hip:1"})
    world.send(DevicesFound((GPU0, GPU1)))
    measure(world, *NAMES)
    assert places(world) == {GPU1.address: NAMES[0]}
    world.save(TOML, "settings 0\njobs 2")
    world.run(*QUICK)
    assert places(world) == {GPU1.address: NAMES[0], GPU0.address: NAMES[1]}
    world.drain()


def test_devices_that_become_known_are_used_at_once() -> None:
    world = with_devices()
    measure(world, *NAMES)
    assert places(world) == {"": NAMES[0]}
    assert effect_of(world, NAMES[0]).place is None
    world.send(DevicesFound((GPU0, GPU1)))
    assert places(world) == {GPU0.address: NAMES[0], GPU1.address: NAMES[1]}
    end(world, NAMES[0])
    assert places(world) == {GPU0.address: NAMES[2], GPU1.address: NAMES[1]}
    world.drain()


def test_what_began_without_a_device_goes_back_to_its_own() -> None:
    world = with_devices(GPU0, GPU1)
    measure(world, NAMES[0], device="hip:1")
    end(world, NAMES[0])
    world.send(DevicesFound(()))
    measure(world, *NAMES[:2], number=2, force=True)
    assert effect_of(world, NAMES[0]).last_device == GPU1.address
    world.send(DevicesFound((GPU0, GPU1)))
    assert places(world) == {GPU1.address: NAMES[0], GPU0.address: NAMES[1]}
    world.drain()


def test_devices_here_come_before_those_of_other_machines() -> None:
    world = with_devices(GPU0, FAR)
    measure(world, NAMES[0])
    assert set(places(world)) == {GPU0.address}
    measure(world, NAMES[1], number=2)
    assert set(places(world)) == {GPU0.address, FAR.address}
    world.drain()


def test_a_device_that_cannot_be_used_is_tried_once_and_others_come_first() -> None:
    world = with_devices(GPU0, GPU1)
    measure(world, *NAMES)
    assert effect_of(world, NAMES[0]).has_others
    end(world, NAMES[0], "the device is in use", GPU0)
    assert places(world) == {GPU1.address: NAMES[1]}, "nothing else goes to a device that could not be used"
    end(world, NAMES[1])
    world.drain()
    assert {unit(world, name).timing.by_shape["64"].device for name in NAMES} == {GPU1.address}
    measure(world, NAMES[0], number=2, device="hip:0")
    assert set(places(world)) == {GPU0.address}
    world.drain()


def test_two_devices_that_cannot_be_used_are_the_end_of_it() -> None:
    world = with_devices(GPU0, FAR)
    measure(world, NAMES[0])
    end(world, NAMES[0], "the device is in use", GPU0)
    assert places(world) == {FAR.address: NAMES[0]}
    assert not effect_of(world, NAMES[0]).has_others
    end(world, NAMES[0], "gpu-box is gone", FAR)
    assert unit(world, NAMES[0]).timing.untimed_because == "gpu-box is gone"
    assert not unit(world, NAMES[0]).timing.requested
    world.drain()


def test_the_only_device_is_not_tried_again() -> None:
    world = with_devices(GPU0, OLDER)
    measure(world, NAMES[0])
    end(world, NAMES[0], "device lost", GPU0)
    assert unit(world, NAMES[0]).timing.untimed_because == "device lost"
    assert places(world) == {}
    world.drain()


def test_a_kernel_without_a_device_is_tried_alone() -> None:
    world = with_devices(OLDER, CPU)
    measure(world, *NAMES)
    assert places(world) == {"": NAMES[0]}
    world.drain()


def test_a_named_processor_of_another_machine_needs_no_silence_here() -> None:
    far = replace(CPU, machine="gpu-box")
    host = ON_GPU.replace("t1.hip.j2", "t1.cpp.j2")
    world = built(**{K1: host, "/ws/templates/t1.cpp.j2": "token 0", TOML: "settings 0\njobs 2"})
    units = [one.key.unit for one in world.state.all_units() if one.key.unit.startswith("k1/")]
    world.send(DevicesFound((replace(CPU, arch="gfx942"), replace(far, arch="gfx942"))))
    measure(world, units[0], device="gpu-box/cpu")
    measure(world, units[1], number=2)
    assert places(world) == {"gpu-box/cpu": units[0]}
    assert not world.state.measuring["gpu-box/cpu"].exclusive
    end(world, units[0])
    assert world.state.measuring["cpu"].exclusive
    world.drain()


def test_a_mistake_of_the_reference_stands_at_its_line_until_it_is_right() -> None:
    world = with_devices(GPU0, GPU1)
    measure(world, NAMES[0])
    mistake = ReferenceMistake(kind=MistakeKind.RAISES, message="KeyError: 3", path="/w/r.py", line=7, problem="64")
    work = world.works.pop(world.find(WorkKind.MEASURE)).effect.work
    world.send(MeasureFinished(work, None, "the reference is wrong: r.py:7: KeyError: 3", mistake=mistake))
    state = world.state.find(work.key)
    assert state is not None
    shown = [one for one in state.diagnostics if one.source is Source.REFERENCE]
    assert [(one.code, one.span.path, one.span.start.line) for one in shown] == [("reference/raises", "/w/r.py", 6)]
    assert [one.message for one in shown[0].related] == ["on 64", "in this instance"]
    assert not places(world), "no other device would find it right"
    measure(world, NAMES[0], number=2)
    end(world, NAMES[0])
    assert not [one for one in state.diagnostics if one.source is Source.REFERENCE]
    world.drain()
