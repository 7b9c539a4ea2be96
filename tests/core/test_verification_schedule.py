"""Edited and focused units are verified by themselves; one verification at a time, of the present artifact only."""

from __future__ import annotations

import pytest

from ckwatch.core.events import (
    CancelRequested,
    FocusChanged,
    VerifyFinished,
    VerifyRequested,
    WorkDropped,
    WorkKind,
)
from ckwatch.model.diagnostics import Severity
from ckwatch.model.verification import VerificationDepth
from core.language import TOML
from core.workspace import H1, K1, T1, A, B, built, unit
from core.world import QUICK, World

VERIFY = "settings 0\njobs 2\nverify gfx942"
ALL_BUT_VERIFYING = (*QUICK, WorkKind.CHECK, WorkKind.COMPILE)
SPILLING = "template t1\ninstance a 5\ninstance b 2"
"""Texts in which the simulated emulator finds a race."""


def verifications(lines: list[str]) -> list[str]:
    return [line for line in lines if "verify" in line]


def edited(toml: str = VERIFY, **files: str) -> tuple[World, list[str]]:
    """A world in which the units of k1 have just been compiled after an edit, and what it then began to verify."""
    world = built(**{TOML: toml} | files)
    world.save(T1, "include macros\nheader h1\ntoken 2")
    return world, verifications(world.run(*ALL_BUT_VERIFYING))


def answer(world: World) -> list[str]:
    world.answer(world.find(WorkKind.VERIFY))
    return verifications(world.run(*ALL_BUT_VERIFYING))


def codes(world: World, name: str) -> list[str]:
    return [one.code for one in unit(world, name).diagnostics]


def test_edited_units_are_verified_one_after_the_other() -> None:
    world, log = edited()
    assert len(log) == 1
    assert sorted([*log, *answer(world)]) == ["verify k1/a", "verify k1/b"]
    assert answer(world) == []
    latest, result = unit(world, A).verification.latest, unit(world, A).compile.result
    assert latest is not None
    assert result is not None
    assert latest.artifact == result.artifact
    world.drain()


def test_nothing_is_verified_by_itself_for_other_archs() -> None:
    _, log = edited("settings 0\njobs 2\nverify gfx90a")
    assert log == []


def test_what_is_looked_at_is_verified_and_comes_before_what_was_edited() -> None:
    world = built(**{TOML: VERIFY})
    assert verifications(world.take_log()) == []
    world.send(FocusChanged("ann", frozenset({B})))
    assert verifications(world.run(*QUICK)) == ["verify k1/b"]
    world.drain()


def test_compilers_come_first_but_not_before_a_request() -> None:
    world = built(**{TOML: VERIFY})
    world.save(T1, "include macros\nheader h1\ntoken 2")
    world.run(*QUICK)  # compilers are at work
    world.answer(world.find(WorkKind.COMPILE, A))
    assert verifications(world.run(*QUICK)) == []
    world.send(VerifyRequested(1, (A,)))
    assert verifications(world.run(*QUICK)) == ["verify k1/a"]
    assert world.state.is_compiling
    world.drain()


def test_a_new_artifact_ends_the_verification_and_drops_its_result() -> None:
    world, _ = edited()
    key = world.works[world.find(WorkKind.VERIFY)].effect.work.key
    world.save(T1, "include macros\nheader h1\ntoken 3")
    assert any(line.startswith("stop verify") for line in world.run(*QUICK))
    world.drain()
    state = world.state.find(key)
    assert state is not None
    assert state.verification.latest is not None
    assert state.built is not None
    assert state.verification.latest.artifact == state.built.artifact


def test_a_changed_header_ends_it_and_blanks_do_not() -> None:
    world, _ = edited()
    world.save(T1, "blank\ninclude macros\nheader h1\ntoken 2")
    assert not any(line.startswith("stop verify") for line in world.run(*QUICK))
    world.save(H1, "token 5")
    assert any(line.startswith("stop verify") for line in world.run(*QUICK))
    world.drain()


def test_findings_are_shown_at_the_instance_and_in_the_template_until_there_is_another_artifact() -> None:
    world, _ = edited(**{K1: SPILLING})
    world.drain()
    found = [one for one in unit(world, A).diagnostics if one.code == "verify/lds-race"]
    assert [one.span.path for one in found] == [K1, "/ws/templates/m1"]
    assert {one.severity for one in found} == {Severity.ERROR}
    assert found[0].related[-1].span == found[1].span
    assert found[1].related[-1].span == found[0].span
    assert codes(world, B).count("verify/lds-race") == 0
    world.save(K1, "template t1\ninstance a 3\ninstance b 2")
    world.run(*ALL_BUT_VERIFYING)
    assert "verify/lds-race" not in codes(world, A)
    world.drain()


def test_places_are_found_again_when_only_the_text_changed() -> None:
    world, _ = edited(**{K1: SPILLING})
    world.drain()
    world.take_log()
    world.save(T1, "blank\ninclude macros\nheader h1\ntoken 2")
    log = verifications(world.run(*ALL_BUT_VERIFYING))
    assert log == ["verify k1/a"], "k1/b has no findings to place"
    assert codes(world, A).count("verify/lds-race") == 1, "not in the template meanwhile"
    world.drain()
    assert codes(world, A).count("verify/lds-race") == 2


def test_other_shapes_are_verified_though_the_artifact_is_the_same() -> None:
    world, _ = edited()
    world.drain()
    world.take_log()
    world.save(K1, "template t1\nshape 64\ninstance a 1\ninstance b 2")
    assert len(verifications(world.run())) == 2
    world.drain()


def test_a_request_is_answered_by_what_is_known() -> None:
    world, _ = edited()
    world.drain()
    world.take_log()
    for number, (force, log) in enumerate(((False, ["verify k1/a"]), (False, []), (True, ["verify k1/a"])), start=1):
        world.send(VerifyRequested(number, (A,), force=force))
        assert verifications(world.run(*QUICK)) == log, "what is verified by itself is not thorough"
        world.drain()
        world.take_log()
    assert world.state.verify_requests == 3


def test_a_request_waits_for_a_thorough_verification_though_another_one_runs() -> None:
    world, (log,) = edited()
    unit_id = A if log.endswith("/a") else B
    world.send(VerifyRequested(1, (unit_id,)))
    assert answer(world)[0] == log, "once more"
    world.drain()
    latest = unit(world, unit_id).verification.latest
    assert latest is not None
    assert latest.verification.depth is VerificationDepth.THOROUGH


def test_a_dropped_request_ends_it_and_an_automatic_one_goes_on() -> None:
    world, _ = edited()
    world.send(WorkDropped(WorkKind.VERIFY, (A, B)))
    assert verifications(world.run(*QUICK)) == []
    world.send(WorkDropped(WorkKind.VERIFY, (A, B), everything=True))
    assert any(line.startswith("stop verify") for line in verifications(world.run(*ALL_BUT_VERIFYING)))
    world.drain()
    assert unit(world, A).verification.latest is None
    world.send(FocusChanged("ann", frozenset({A})))
    assert verifications(world.run(*QUICK)) == []


def test_what_cannot_be_verified_is_tried_again_on_request_only() -> None:
    world, log = edited()
    name = f"{log[0].removeprefix('verify ')}@gfx942"
    number = world.find(WorkKind.VERIFY)
    work = world.works.pop(number).effect.work
    world.send(VerifyFinished(work, None, "there is no compiler for the emulator"))
    world.drain()
    assert unit(world, name).verification.unverified_because == "there is no compiler for the emulator"
    world.send(FocusChanged("ann", frozenset({name})))
    assert verifications(world.run(*QUICK)) == []
    world.send(VerifyRequested(1, (name,)))
    world.drain()
    assert unit(world, name).verification.latest is not None


def test_a_cancelled_build_is_not_verified() -> None:
    world = built(**{TOML: VERIFY})
    world.save(T1, "include macros\nheader h1\ntoken 2")
    world.send(CancelRequested("", frozenset({A, B})))
    assert verifications(world.run(*ALL_BUT_VERIFYING)) == []
    assert all(unit(world, name).verification.latest is None for name in (A, B))


@pytest.mark.parametrize("kernels", ["template t1\ninstance a 1\ninstance b 2", SPILLING])
def test_a_verification_that_is_never_what_was_asked_for_ends_its_request(kernels: str) -> None:
    world = built(**{TOML: VERIFY, K1: kernels})
    world.workers.contrary = True
    world.save(T1, "include macros\nheader h1\ntoken 2")
    world.drain()
    world.send(VerifyRequested(1, (A, B)))
    world.drain()
    world.send(VerifyRequested(2, (A, B), force=True))
    world.drain()
    assert {unit(world, name).verification.request for name in (A, B)} == {None}
    world.save(T1, "blank\ninclude macros\nheader h1\ntoken 2")
    world.drain()
