"""Compiled units are analyzed, beside compilers and one at a time; stored ones only on request."""

from __future__ import annotations

from ckwatch.core.events import (
    AnalyzeFinished,
    AnalyzeRequested,
    BuildRequested,
    FocusChanged,
    MeasureRequested,
    OptionsChanged,
    OverlayChanged,
    RequestDropped,
    ViewOverrides,
    WorkKind,
)
from ckwatch.core.state import State
from ckwatch.model.diagnostics import Severity, Source
from core.workers import figures
from core.workspace import FILES, H1, K1, T1, A, B, C, built, unit
from core.world import QUICK, World

ALL_BUT_ANALYSES = tuple(kind for kind in WorkKind if kind is not WorkKind.ANALYZE)
HURRIED = tuple(kind for kind in QUICK if kind is not WorkKind.ANALYZE)
SPILLING = "template t1\ninstance a 5\ninstance b 2"
EDIT = "include macros\nheader h1\ntoken 2"


def log(world: World) -> list[str]:
    """Return the machine's analyses and its answers."""
    lines = [line for line in world.log if "analyze" in line or line.startswith("notify")]
    world.log.clear()
    return lines


def ready(world: World, *kinds: WorkKind) -> list[str]:
    """Return its work until only other works are left."""
    while True:
        numbers = [number for number, one in world.works.items() if one.effect.work.kind in kinds or one.cancelled]
        if world.continues:
            world.proceed()
        elif numbers:
            world.answer(numbers[0], cancelled=world.works[numbers[0]].cancelled)
        else:
            return log(world)


def found_in_the_store(files: dict[str, str] | None = None) -> World:
    """A daemon that starts anew: all of its units are built, and no client wanted them yet."""
    before = World(FILES | (files or {}), State(root="/ws"))
    before.send(BuildRequested("all", "", None))
    before.drain()
    world = World(before.disk.files, State(root="/ws"))
    world.workers.store = before.workers.store
    world.drain()
    world.log.clear()
    return world


def test_what_is_compiled_is_analyzed_and_then_reported() -> None:
    world = World(FILES, State(root="/ws"))
    world.send(BuildRequested("r", "", ("k1",)))
    assert ready(world, *ALL_BUT_ANALYSES) == ["analyze k1/a whole"]
    assert ready(world, WorkKind.ANALYZE) == [
        "notify r k1/a", "analyze k1/b whole", "notify r k1/b", "notify r end",
    ]  # fmt: skip
    result, known = unit(world, A).compile.result, unit(world, A).figures.latest
    assert result is not None
    assert known is not None
    assert known.artifact == result.artifact
    world.drain()


def test_checks_do_not_wait_for_it() -> None:
    world = World(FILES, State(root="/ws"))
    world.send(BuildRequested("r", "", ("k1",)))
    ready(world, *ALL_BUT_ANALYSES)
    world.send(BuildRequested("c", "", ("k1",), check_only=True))
    assert ready(world, *HURRIED) == ["notify c k1/a", "notify c k1/b", "notify c end"]
    world.drain()


def test_nothing_that_a_daemon_finds_is_looked_into() -> None:
    world = found_in_the_store()
    assert unit(world, A).figures.latest is None
    assert world.log == []


def test_who_asks_for_what_the_store_has_waits_for_what_is_kept_and_for_some_of_the_rest() -> None:
    world = found_in_the_store()
    world.state.analyses_awaited = 1
    result = unit(world, A).compile.result
    assert result is not None
    world.workers.kept.add(result.artifact)
    world.send(BuildRequested("r", "", None))
    assert ready(world, *HURRIED) == ["analyze k1/a kept"]
    assert ready(world, WorkKind.ANALYZE) == [
        "notify r k1/a", "analyze k1/b kept", "analyze k2/c kept", "notify r k2/c",
        "analyze k1/b whole", "notify r k1/b", "notify r end", "analyze k2/c whole",
    ]  # fmt: skip
    assert unit(world, C).figures.latest is not None
    world.drain()


def test_what_no_client_waits_for_comes_when_no_compiler_runs() -> None:
    world = found_in_the_store()
    world.state.analyses_awaited = 0
    world.send(BuildRequested("r", "", ("k2",)))
    ready(world, *HURRIED)
    world.save(T1, EDIT)
    ready(world, *HURRIED)
    assert world.find(WorkKind.COMPILE, "k1/a")
    world.answer(world.find(WorkKind.ANALYZE, "k2/c"))
    assert log(world) == ["notify r k2/c", "notify r end"]
    later = ready(world, *ALL_BUT_ANALYSES) + ready(world, WorkKind.ANALYZE)
    assert sorted(later[:2]) == ["analyze k1/a whole", "analyze k1/b whole"]
    assert later[2:] == ["analyze k2/c whole"]
    world.drain()


def test_what_is_in_focus_is_analyzed() -> None:
    world = found_in_the_store()
    world.send(FocusChanged("ann", frozenset({C})))
    assert ready(world, *QUICK) == ["analyze k2/c kept", "analyze k2/c whole"]
    assert unit(world, C).figures.latest is not None
    world.send(FocusChanged("ann", frozenset({C, A})))
    assert ready(world, *QUICK) == ["analyze k1/a kept", "analyze k1/a whole"], "known figures are not computed again"
    world.drain()


def test_an_edit_stops_an_analysis_and_its_figures_are_dropped() -> None:
    world = built()
    log(world)
    world.save(T1, EDIT)
    ready(world, *ALL_BUT_ANALYSES)
    number = world.find(WorkKind.ANALYZE)
    work = world.works[number].effect.work
    world.save(T1, "include macros\nheader h1\ntoken 3")
    assert "stop analyze " + work.key.unit.removesuffix("@gfx942") in ready(world, *HURRIED, WorkKind.COMPILE)
    known = world.state.find(work.key)
    assert known is not None
    assert known.figures.latest is None or known.figures.latest.artifact != work.tokens
    world.drain()


def test_a_result_that_comes_after_it_was_stopped_is_dropped() -> None:
    world = built()
    log(world)
    world.save(T1, EDIT)
    ready(world, *ALL_BUT_ANALYSES)
    number = world.find(WorkKind.ANALYZE)
    world.save(H1, "token 7")
    work = world.works.pop(number).effect.work
    world.send(AnalyzeFinished(work, figures(work.tokens)))
    known = world.state.find(work.key)
    assert known is not None
    assert known.figures.latest is None or known.figures.latest.artifact != work.tokens
    world.drain()


def test_blanks_do_not_end_it() -> None:
    world = built()
    log(world)
    world.save(T1, EDIT)
    ready(world, *ALL_BUT_ANALYSES)
    world.save(T1, f"blank\n{EDIT}")
    assert ready(world, *HURRIED) == []
    world.drain()


def test_a_warning_stands_at_the_instance_and_goes_with_its_artifact() -> None:
    world = built(**{K1: SPILLING})
    (warning,) = unit(world, A).diagnostics
    assert (warning.severity, warning.source, warning.code) == (
        Severity.WARNING, Source.PERFORMANCE, "performance/spill",
    )  # fmt: skip
    assert warning.span == unit(world, A).unit.instance.span
    assert warning.units == (A,)
    assert unit(world, A).outcome == "built"
    world.save(K1, f"blank\n{SPILLING}")
    world.drain()
    (moved,) = unit(world, A).diagnostics
    assert moved.span.start.line == warning.span.start.line + 1
    world.save(K1, SPILLING.replace("5", "6"))
    ready(world, *HURRIED)
    assert [one.code for one in unit(world, A).diagnostics] == ["performance/spill"], "stale until there is another"
    world.run(WorkKind.COMPILE)
    assert unit(world, A).diagnostics == ()
    world.drain()


def test_what_cannot_be_analyzed_is_tried_once() -> None:
    world = World(FILES, State(root="/ws"))
    world.send(BuildRequested("r", "", ("k2",)))
    ready(world, *ALL_BUT_ANALYSES)
    work = world.works.pop(world.find(WorkKind.ANALYZE)).effect.work
    world.send(AnalyzeFinished(work, None))
    assert log(world) == ["notify r k2/c", "notify r end"]
    world.send(FocusChanged("ann", frozenset({C})))
    assert ready(world, *QUICK) == []
    world.send(AnalyzeRequested("", (C,)))
    assert ready(world, *QUICK) == ["analyze k2/c whole"], "but whoever asks gets it tried again"
    world.drain()


def test_a_breakdown_fails_no_build() -> None:
    world = World(FILES, State(root="/ws"))
    world.send(BuildRequested("r", "", ("k2",)))
    ready(world, *ALL_BUT_ANALYSES)
    world.answer(world.find(WorkKind.ANALYZE), fault="OSError: no more processes")
    assert log(world) == ["notify r k2/c", "notify r end"]
    assert unit(world, C).outcome == "built"
    assert unit(world, C).diagnostics == ()
    world.send(FocusChanged("ann", frozenset({C})))
    assert ready(world, *QUICK) == ["analyze k2/c whole"], "it is tried again when it is wanted"
    world.drain()


def test_another_baseline_is_looked_into_again() -> None:
    world = built()
    world.log.clear()
    world.send(AnalyzeRequested("", (A, B)))
    assert ready(world, *QUICK) == []
    world.send(AnalyzeRequested("", (A, "k1/none@gfx942"), again=True))
    assert log(world) == ["analyze k1/a whole"]
    world.send(AnalyzeRequested("", (A,), again=True))
    assert ready(world, *QUICK) == ["stop analyze k1/a", "analyze k1/a whole"], (
        "what began before may have seen the old one"
    )
    world.drain()


def test_a_request_that_is_given_up_leaves_nothing_to_look_into() -> None:
    world = found_in_the_store()
    world.send(BuildRequested("r", "", None))
    ready(world, *HURRIED)
    world.audience.requests["r"].done = True
    world.send(RequestDropped("r"))
    assert [line for line in ready(world, *HURRIED) if not line.startswith("notify")] == ["stop analyze k1/a"]
    assert not world.state.analyze_queue
    world.drain()


def test_unsaved_text_is_looked_into_too() -> None:
    world = built()
    world.log.clear()
    world.send(OverlayChanged("ann", T1, EDIT, EDIT))
    lines = ready(world, *ALL_BUT_ANALYSES, WorkKind.ANALYZE)
    assert sorted(lines) == ["ann: analyze k1/a whole", "ann: analyze k1/b whole"]
    own = unit(world, A, "ann")
    assert own.compile.result is not None
    assert own.figures.latest is not None
    assert own.figures.latest.artifact == own.compile.result.artifact
    assert unit(world, A).figures.latest is not own.figures.latest
    world.drain()


def test_the_figures_of_an_earlier_run_are_there_at_once() -> None:
    before = built()
    state = State(root="/ws")
    known = unit(before, A).figures.latest
    assert known is not None
    state.remembered_figures = {A: known}
    world = World(before.disk.files, state)
    world.workers.store = before.workers.store
    world.drain()
    assert unit(world, A).figures.latest is known
    world.log.clear()
    world.send(BuildRequested("r", "", ("k1/a",)))
    assert ready(world, *QUICK) == ["notify r k1/a", "notify r end"]
    world.drain()


def test_a_host_kernel_has_no_code_object() -> None:
    host = "/ws/templates/t1.cpp.j2"
    world = World(FILES | {K1: "template t1.cpp.j2\ninstance a 1", host: "token 0"}, State(root="/ws"))
    world.send(BuildRequested("r", "", ("k1",)))
    assert ready(world, *ALL_BUT_ANALYSES) == ["notify r k1/a", "notify r end"]
    world.drain()


def test_nothing_is_looked_into_while_the_processor_is_timed() -> None:
    host = "/ws/templates/t1.cpp.j2"
    world = found_in_the_store({K1: "template t1.cpp.j2\nshape 64\ninstance a 1", host: "token 0"})
    world.send(MeasureRequested(1, (A,)))
    world.send(BuildRequested("r", "", ("k2",)))
    assert ready(world, *HURRIED) == []
    world.answer(world.find(WorkKind.MEASURE))
    assert log(world) == ["analyze k2/c kept"]
    world.drain()


def test_what_is_in_focus_comes_first() -> None:
    world = found_in_the_store()
    world.send(BuildRequested("r", "", None))
    assert ready(world, *HURRIED) == ["analyze k1/a kept"]
    world.send(FocusChanged("ann", frozenset({C})))
    ready(world, *HURRIED)
    world.answer(world.find(WorkKind.ANALYZE))
    assert log(world) == ["analyze k2/c kept"]
    world.drain()


def test_another_baseline_is_not_forgotten_meanwhile() -> None:
    world = built()
    log(world)
    world.send(AnalyzeRequested("", (A, B), again=True))
    world.send(FocusChanged("ann", frozenset({B})))
    assert ready(world, *QUICK) == ["analyze k1/a whole", "analyze k1/b whole"]
    world.drain()


def test_what_nvcc_made_is_no_code_object_of_amd() -> None:
    world = built()
    world.send(OptionsChanged("ann", ViewOverrides(("sm_90",))))
    ready(world, *ALL_BUT_ANALYSES, WorkKind.ANALYZE)
    world.send(BuildRequested("r", "ann", ("k2",)))
    assert ready(world, *ALL_BUT_ANALYSES) == ["notify r k2/c@sm_90", "notify r end"]
    world.drain()


def test_a_client_of_everything_gets_the_figures_that_are_kept() -> None:
    world = found_in_the_store()
    result = unit(world, A).compile.result
    assert result is not None
    world.workers.kept.add(result.artifact)
    world.send(FocusChanged("ann", frozenset(), everything=True))
    assert ready(world, *QUICK) == ["analyze k1/a kept", "analyze k1/b kept", "analyze k2/c kept"]
    assert unit(world, A).figures.latest is not None
    assert unit(world, B).figures.latest is None, "thousands of units are not analyzed"
    world.drain()
