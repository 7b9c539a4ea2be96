"""Units are checked with other toolchains when nothing of the workspace's own is left to do, or on request."""

from __future__ import annotations

from ckwatch.core.events import CheckWithRequested, FocusChanged, MeasureRequested, WorkDropped, WorkKind
from ckwatch.model.kernels import Outcome
from core.language import TOML
from core.workers import header_with
from core.workspace import K1, T1, A, B, C, built, unit
from core.world import QUICK, World

ALSO = "settings 0\njobs 2\nalso old new"
ALL_BUT_CHECKING = (*QUICK, WorkKind.CHECK, WorkKind.COMPILE)


def checks(lines: list[str]) -> list[str]:
    return sorted(line for line in lines if "check-with" in line)


def edited(toml: str = ALSO, token: int = 2) -> tuple[World, list[str]]:
    """A world in which the units of k1 have just been compiled after an edit, and the checks that it began then."""
    world = built(**{TOML: toml})
    world.save(T1, f"include macros\nheader h1\ntoken {token}")
    return world, checks(world.run(*ALL_BUT_CHECKING))


def messages(world: World, name: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.message, one.toolchains) for one in unit(world, name).diagnostics]


def outcomes(world: World, name: str) -> dict[str, Outcome]:
    return {toolchain: one.outcome for toolchain, one in unit(world, name).toolchains.results.items()}


def test_edited_units_are_checked_with_each_toolchain_side_by_side() -> None:
    world, log = edited()
    assert log == ["check-with k1/a old", "check-with k1/b old"]
    assert checks(world.run()) == ["check-with k1/a new", "check-with k1/b new"]
    assert outcomes(world, A) == {"old": Outcome.CHECKED, "new": Outcome.CHECKED}
    assert not messages(world, A)


def test_they_are_built_where_the_workspace_says_so() -> None:
    world, _ = edited(f"{ALSO}\nalso-built")
    world.run()
    assert outcomes(world, A) == {"old": Outcome.BUILT, "new": Outcome.BUILT}


def test_an_error_that_one_has_is_shown_with_its_name() -> None:
    world, _ = edited(token=7)
    world.run()
    assert messages(world, A) == [("only with old: no member named '7'", ("old",))]
    assert unit(world, A).outcome is Outcome.BUILT


def test_an_error_that_all_have_is_shown_once_without_names() -> None:
    world = built(**{TOML: ALSO})
    world.save(T1, "include macros\nheader h1\nfail")
    world.run()
    assert [toolchains for _, toolchains in messages(world, A)] == [()]


def test_nothing_is_checked_that_nobody_edits_or_looks_at() -> None:
    world = built(**{TOML: ALSO})
    assert outcomes(world, A) == {}
    world.send(FocusChanged("editor", frozenset({A})))
    assert checks(world.run()) == ["check-with k1/a new", "check-with k1/a old"]


def test_an_edit_stops_checks_and_its_compiles_come_first() -> None:
    world, _ = edited()
    world.save(T1, "include macros\nheader h1\ntoken 3")
    log = world.run(*ALL_BUT_CHECKING)
    assert checks(log)[2:] == ["stop check-with k1/a", "stop check-with k1/b"]
    assert log.index("compile k1/b") < log.index("check-with k1/a old")


def test_errors_of_an_earlier_text_are_not_shown() -> None:
    world, _ = edited(token=7)
    world.run()
    world.save(T1, "blank\ninclude macros\nheader h1\ntoken 7")
    assert len(messages(world, A)) == 1, "stale, while the unit is at work"
    world.run(*ALL_BUT_CHECKING)
    assert not messages(world, A)
    world.run()
    assert len(messages(world, A)) == 1


def test_a_toolchain_that_is_no_longer_named_is_forgotten() -> None:
    world, _ = edited(token=7)
    world.run()
    world.save(TOML, "settings 0\njobs 2\nalso new")
    assert checks(world.run()) == []
    assert not messages(world, A)


def test_a_request_names_any_toolchain_and_shows_nothing_to_others() -> None:
    world = built(**{TOML: "settings 0\njobs 1"})
    world.save(T1, "include macros\nheader h1\ntoken 7")
    world.run()
    world.send(CheckWithRequested(1, (A, C), ("older",), build=True))
    assert checks(world.run()) == ["check-with k1/a older", "check-with k2/c older"]
    assert outcomes(world, A) == {"older": Outcome.FAILED}
    assert not messages(world, A)


def test_a_request_waits_for_no_measurement_and_a_check_in_the_background_does() -> None:
    world, _ = edited(f"{ALSO}\nbench 100")
    world.run()
    world.save(K1, "template t1\nshape 64\ninstance a 5\ninstance b 2")
    world.run(*ALL_BUT_CHECKING)
    world.send(MeasureRequested(1, (A,), None))
    assert "check-with" not in [one.effect.work.kind for one in world.works.values() if not one.cancelled]
    world.send(CheckWithRequested(1, (B,), ("older",)))
    assert world.find(WorkKind.CHECK_WITH) in world.works


def test_a_request_for_a_build_is_not_answered_by_a_check() -> None:
    world, _ = edited()
    world.send(CheckWithRequested(1, (A,), ("old",), build=True))
    world.answer(world.find(WorkKind.CHECK_WITH, A))
    world.run()
    assert unit(world, A).toolchains.results["old"].outcome is Outcome.BUILT


def test_what_is_dropped_is_not_checked_until_the_unit_has_another_input() -> None:
    world, _ = edited()
    world.send(WorkDropped(WorkKind.CHECK_WITH, (A, B), everything=True))
    assert checks(world.run()) == ["stop check-with k1/a", "stop check-with k1/b"]
    world.save(T1, "include macros\nheader h1\ntoken 3")
    assert "check-with k1/a old" in world.run()


def test_a_check_that_broke_down_is_not_repeated() -> None:
    world, _ = edited("settings 0\njobs 1\nalso old")
    world.answer(world.find(WorkKind.CHECK_WITH, B), fault="the disk is full")
    assert checks(world.run()) == ["check-with k1/a old"]
    assert unit(world, B).toolchains.results["old"].problem == "the disk is full"
    assert not messages(world, B)


def test_an_edited_header_of_a_toolchain_concerns_that_toolchain_alone() -> None:
    world, _ = edited()
    world.run()
    world.save(header_with("old"), "fail")
    log = world.run()
    assert sorted(log) == checks(log) == ["check-with k1/a old", "check-with k1/b old"]
    assert messages(world, A) == [("only with old: /old/ck fails", ("old",))]
    world.save(header_with("old"), "token 1")
    assert messages(world, A) == [("only with old: /old/ck fails", ("old",))], "until it is known better"
    world.run()
    assert not messages(world, A)


def test_a_header_that_changes_during_a_check_makes_it_void() -> None:
    world, _ = edited("settings 0\njobs 1\nalso old")
    world.save(header_with("old"), "fail")
    world.run()
    assert outcomes(world, A) == {"old": Outcome.FAILED}


def test_what_a_toolchain_could_not_do_is_tried_again_when_it_is_another() -> None:
    world, _ = edited("settings 0\njobs 1\nalso old")
    world.answer(world.find(WorkKind.CHECK_WITH, B), fault="it is gone")
    world.run()
    world.save(TOML, "settings 0\njobs 1")
    world.run()
    world.save(TOML, "settings 0\njobs 1\nalso old")
    assert checks(world.run()) == ["check-with k1/b old"]
    assert outcomes(world, B) == {"old": Outcome.CHECKED}
