"""Host passes come before device passes that no client waits for; what compilers report is shown before they end."""

from __future__ import annotations

from dataclasses import replace

from ckwatch.core.effects import Compile
from ckwatch.core.events import (
    BuildRequested,
    CompilerEnded,
    CompileWaits,
    FocusChanged,
    MemoryMeasured,
    PassFinished,
    WorkKind,
)
from ckwatch.core.phases import Phase
from ckwatch.engine.to_wire import compile_wait, shown_phase
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import span
from core.language import TOML
from core.workspace import H2, K1, MACROS, T1, T2, A, B, C, built, story, unit
from core.world import QUICK, World

APART = "settings 0\njobs 2\napart"
FOUR = "template t1\n" + "\n".join(f"instance {name} {number}" for number, name in enumerate("abcd"))


def compilers(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith(("check", "compile"))]


def answer(world: World, kind: WorkKind, unit: str = "") -> list[str]:
    world.answer(world.find(kind, unit))
    return compilers(world.run(*QUICK))


def wide(world: World, name: str) -> bool:
    effect = world.works[world.find(WorkKind.COMPILE, name)].effect
    assert isinstance(effect, Compile)
    return effect.side_by_side


def test_all_host_passes_come_before_the_first_device_pass() -> None:
    world = built(**{K1: FOUR, TOML: APART})
    world.save(T1, "include macros\nheader h1\ntoken 2")
    order = compilers(world.run(*QUICK))
    while world.works:
        world.answer(next(iter(world.works)))
        order += compilers(world.run(*QUICK))
    kinds = [line.split()[0] for line in order]
    assert kinds == ["check"] * 4 + ["compile"] * 4
    assert sorted(line.split("/")[1] for line in order[4:]) == ["a", "b", "c", "d"]
    world.drain()


def test_a_compile_that_has_begun_is_shown_as_one_until_it_ends() -> None:
    """Between its passes it waits for a compiler, and says so; only a newer text leads back."""
    world = built(**{K1: FOUR, TOML: APART})
    world.save(T1, "include macros\nheader h1\ntoken 2")
    world.run(*QUICK)
    shown: dict[str, list[str]] = {}
    between = set()
    while True:
        for name in (f"k1/{one}@gfx942" for one in "abcd"):
            phase = shown_phase(unit(world, name)).value
            between.add(compile_wait(unit(world, name)))
            phases = shown.setdefault(name, [])
            if phases[-1:] != [phase]:
                phases.append(phase)
        if not world.works:
            break
        world.answer(next(iter(world.works)))
        world.run(*QUICK)
    assert {tuple(phases) for phases in shown.values()} == {
        ("compiling", "done"), ("queued", "compiling", "done"),
    }  # fmt: skip
    assert between == {"", "a compiler for its device pass"}


def test_what_waits_says_for_what() -> None:
    world = built(**{K1: FOUR, TOML: "settings 0\njobs 1"})
    world.send(FocusChanged("ann", frozenset(), everything=True))
    world.save(T1, "include macros\nheader h1\ntoken 2")
    world.run(*QUICK)
    assert world.state.waits_for == "a compiler: 1 run, of 1 at a time"
    world.state.jobs = 2
    world.send(MemoryMeasured(1))
    assert world.state.waits_for == "memory for another compiler"
    work = world.works[world.find(WorkKind.COMPILE)].effect.work
    for what in ("headers that are precompiled", ""):
        world.send(CompileWaits(work, what))
        assert {compile_wait(one) for one in world.state.all_units()} == {what, ""}
    world.drain()
    assert world.state.waits_for == ""


def test_one_unit_alone_has_both_passes_side_by_side() -> None:
    world = built(**{TOML: APART})
    world.save(T2, "token 1\nheader h2")
    assert compilers(world.run(*QUICK)) == ["compile k2/c"]
    assert wide(world, "k2/c")
    world.drain()


def test_whoever_waits_gets_the_whole_compile() -> None:
    world = built(**{K1: FOUR, TOML: APART})
    world.save(MACROS, "token 1")
    world.send(BuildRequested("r", "", ("k1/d",)))
    world.run(*QUICK)
    world.drain()
    assert world.audience.requests["r"].done


def test_what_is_in_focus_is_not_checked_first() -> None:
    world = built(**{K1: FOUR, TOML: APART})
    world.send(FocusChanged("ann", frozenset({"k1/c@gfx942"})))
    world.save(MACROS, "token 1")
    lines = compilers(world.run(*QUICK))
    assert "check k1/c" not in lines
    while "compile k1/c" not in lines:
        world.answer(next(iter(world.works)))
        lines += compilers(world.run(*QUICK))
    assert "check k1/c" not in lines
    world.drain()


def test_a_pass_that_has_ended_makes_room() -> None:
    world = built(**{TOML: APART})
    world.send(BuildRequested("r", "", (A, C), force=True))
    assert compilers(world.run(*QUICK)) == ["compile k1/a"]
    assert wide(world, "k1/a")
    world.send(PassFinished(world.works[world.find(WorkKind.COMPILE)].effect.work))
    assert compilers(world.run(*QUICK)) == ["compile k2/c"]
    assert not wide(world, "k2/c"), "one process is left for it"
    world.drain()


def test_what_is_being_stored_leaves_its_cores_to_others() -> None:
    world = built(**{TOML: APART})
    world.send(BuildRequested("r", "", (A, C), force=True))
    assert compilers(world.run(*QUICK)) == ["compile k1/a"]
    world.send(CompilerEnded(world.works[world.find(WorkKind.COMPILE)].effect.work))
    assert compilers(world.run(*QUICK)) == ["compile k2/c"]
    assert wide(world, "k2/c"), "both cores are free"
    world.drain()


def test_two_passes_need_the_memory_of_both() -> None:
    world = built(**{TOML: APART})
    world.send(MemoryMeasured(1_200))  # the last compile took 1,000
    world.save(T2, "token 1\nheader h2")
    assert compilers(world.run(*QUICK)) == ["compile k2/c"]
    assert not wide(world, "k2/c")
    world.drain()


def test_messages_are_shown_while_the_compiler_runs() -> None:
    world = built(**{TOML: APART})
    world.save(H2, "fail")
    world.run(*QUICK)
    before = unit(world, C)
    assert (before.phase, before.settled) == (Phase.COMPILING, False)
    world.report_output(world.find(WorkKind.COMPILE))
    assert [one.code for one in unit(world, C).compile.live_diagnostics]
    assert unit(world, C).diagnostics == unit(world, C).compile.live_diagnostics
    world.drain()
    assert unit(world, C).compile.live_diagnostics == ()
    assert unit(world, C).outcome == "failed"


def test_a_hint_of_what_only_the_compiler_checks_is_not_shown_beside_its_errors() -> None:
    world = built(**{TOML: APART})
    state = unit(world, C)
    hint = Diagnostic(
        Severity.HINT, Source.RULE, "rule/not-checked", "only the compiler checks that", span("/k", 0, 0, 0, 1)
    )
    assert state.render.facts is not None
    state.render.facts = replace(state.render.facts, diagnostics=(hint,))
    assert hint in state.diagnostics
    state.compile.live_diagnostics = (replace(hint, severity=Severity.ERROR, code="clang/x"),)
    assert [one.code for one in state.diagnostics] == ["clang/x"]


def test_messages_of_an_older_generation_are_dropped() -> None:
    world = built(**{TOML: APART})
    world.save(H2, "fail")
    world.run(*QUICK)
    number = world.find(WorkKind.COMPILE)
    world.write(T2, "token 0\nblank\nheader h2")
    world.deliver()
    world.run(*QUICK)
    assert unit(world, C).compile.compiler is not None, story(world, C)
    world.report_output(number)
    assert unit(world, C).compile.live_diagnostics == ()
    world.drain()


def test_a_failed_host_pass_is_shown_before_the_device_pass_ends() -> None:
    world = built(**{K1: FOUR, TOML: APART})
    world.save(MACROS, "fail")
    world.run(*QUICK)
    checked = [one.effect.work.key.unit for one in world.works.values() if one.effect.work.kind is WorkKind.CHECK]
    assert checked
    world.answer(world.find(WorkKind.CHECK, checked[0]))
    state = unit(world, checked[0])
    assert (bool(state.compile.live_diagnostics), state.compile.host_pass_done) == (True, True)
    assert state.phase in (Phase.QUEUED, Phase.COMPILING)
    world.drain()
    assert {unit(world, name).outcome for name in (A, B)} == {"failed"}
