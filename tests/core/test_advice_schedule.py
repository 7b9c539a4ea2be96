"""Units whose kernels spill are looked into, one at a time, when nothing else is to be done."""

from __future__ import annotations

from ckwatch.core.events import AdviceRequested, FocusChanged, WorkKind
from core.language import TOML
from core.workspace import K1, T1, A, B, built, unit
from core.world import QUICK, World

ADVISE = "settings 0\njobs 2\nadvise"
ALL_BUT_ADVISING = (*QUICK, WorkKind.CHECK, WorkKind.COMPILE)
SPILLING = "template t1\ninstance a 5\ninstance b 2"
"""Texts of which the simulated compiler makes a kernel that spills, and one that does not."""


def advised(lines: list[str]) -> list[str]:
    return [line for line in lines if "advise" in line]


def edited(toml: str = ADVISE, kernel: str = SPILLING) -> tuple[World, list[str]]:
    """A world in which the units of k1 have just been compiled after an edit, and what it then looked into."""
    world = built(**{TOML: toml, K1: kernel})
    world.save(T1, "include macros\nheader h1\ntoken 2")
    return world, advised(world.run(*ALL_BUT_ADVISING))


def codes(world: World, name: str) -> list[str]:
    return [one.code for one in unit(world, name).advice_diagnostics]


def test_an_edited_unit_that_spills_is_looked_into_once() -> None:
    world, log = edited()
    assert log == ["advise k1/a"]
    world.answer(world.find(WorkKind.ADVISE))
    assert codes(world, A) == ["performance/launch-bounds"]
    assert advised(world.run()) == []


def test_nothing_is_looked_into_where_the_workspace_does_not_want_it() -> None:
    _, log = edited("settings 0\njobs 2")
    assert log == []


def test_an_edit_stops_the_search_and_its_result_is_not_shown() -> None:
    world, _ = edited()
    world.save(T1, "include macros\nheader h1\ntoken 3")
    assert advised(world.run(*ALL_BUT_ADVISING)) == ["stop advise k1/a", "advise k1/a"]
    assert codes(world, A) == []


def test_a_compile_of_another_unit_stops_the_search_until_it_has_ended() -> None:
    world, _ = edited()
    world.save(K1, "template t1\ninstance a 5\ninstance b 4")
    log = world.run(*ALL_BUT_ADVISING)
    assert advised(log) == ["stop advise k1/a", "advise k1/a"]
    assert log.index("compile k1/b") < log.index("advise k1/a")


def test_what_could_not_be_found_out_is_tried_again_when_a_client_asks() -> None:
    world, _ = edited()
    world.answer(world.find(WorkKind.ADVISE), seed=6)
    assert advised(world.run()) == []
    world.send(AdviceRequested(1, (A, B)))
    assert advised(world.run()) == ["advise k1/a"]
    assert world.state.advice_requests == 1


def test_a_unit_in_focus_is_looked_into_although_nobody_edited_it() -> None:
    world = built(**{TOML: ADVISE, K1: SPILLING})
    assert unit(world, A).advice.latest is None
    world.send(FocusChanged("editor", frozenset({A})))
    assert "advise k1/a" in world.run()
    assert codes(world, A) == ["performance/launch-bounds"]
