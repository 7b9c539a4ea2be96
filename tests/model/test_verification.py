"""Summaries of verifications."""

from __future__ import annotations

import pytest

from ckwatch.model.emulated_archs import emulated_device
from ckwatch.model.verification import (
    EmulatedFinding,
    FindingKind,
    ProblemOutcome,
    Verification,
    VerificationOutcome,
    VerifiedProblem,
)
from helpers.each_row import each_row


def problem(outcome: ProblemOutcome, message: str | None = None) -> VerifiedProblem:
    return VerifiedProblem(name="ragged", shape="M=5 N=3 K=7", outcome=outcome, message=message)


def finding(kind: FindingKind) -> EmulatedFinding:
    return EmulatedFinding(
        kind=kind, message=f"it is {kind.value}", problem="ragged", kernel="k", workgroup=(0, 0, 0), wave=0, lane=3,
        instruction="s_endpgm", code_address=256,
    )  # fmt: skip


RIGHT, WRONG = problem(ProblemOutcome.RIGHT), problem(ProblemOutcome.WRONG, "3 elements are wrong")
REFUSED = problem(ProblemOutcome.REFUSED, "K is odd")
LARGE = problem(ProblemOutcome.NOT_TRIED, "it is too large")
UNCOMPARED = problem(ProblemOutcome.NOT_COMPARED, "no result was compared")
UNKNOWN = problem(ProblemOutcome.NOT_VERIFIED, "the emulator does not know `v_foo`")


@each_row(
    ("problems", "kinds", "outcome", "summary"),
    [
        ((RIGHT, REFUSED), (), "verified", "✓ verified (emulated gfx942)"),
        ((RIGHT, WRONG), (), "failed", "✗ ragged: 3 elements are wrong (emulated gfx942)"),
        ((RIGHT, UNKNOWN), (), "not verified", "cannot verify (emulated gfx942): the emulator does not know `v_foo`"),
        ((WRONG, UNKNOWN), (), "failed", "✗ ragged: 3 elements are wrong (emulated gfx942)"),
        (
            (REFUSED,),
            (),
            "not verified",
            "cannot verify (emulated gfx942): the kernel refuses every shape that was tried",
        ),
        ((RIGHT, LARGE), (), "verified", "✓ verified (emulated gfx942)"),
        ((LARGE,), (), "not verified", "cannot verify (emulated gfx942): it is too large"),
        ((UNCOMPARED,), (), "not verified", "clean, but not compared (emulated gfx942): no result was compared"),
        ((UNCOMPARED,), (FindingKind.LDS_RACE,), "failed", "✗ it is lds-race (emulated gfx942)"),
        ((), (), "not verified", "cannot verify (emulated gfx942): no shape could be tried"),
        ((RIGHT,), (FindingKind.LDS_RACE,), "failed", "✗ it is lds-race (emulated gfx942)"),
        ((RIGHT,), (FindingKind.NON_FINITE,), "verified", "✓ verified (emulated gfx942)"),
        ((UNKNOWN,), (FindingKind.UNKNOWN_INSTRUCTION,), "not verified", None),
    ],
)
def test_the_outcome_is_that_of_all_problems_and_findings(
    problems: tuple[VerifiedProblem, ...], kinds: tuple[FindingKind, ...], outcome: str, summary: str | None
) -> None:
    verification = Verification(
        device="emulated:gfx942", problems=problems, findings=tuple(finding(kind) for kind in kinds)
    )
    assert verification.outcome is VerificationOutcome(outcome)
    assert summary is None or verification.summary == summary


@pytest.mark.parametrize(
    ("arch", "device"),
    [
        ("gfx942", "emulated:gfx942"),
        ("gfx90a:xnack-", "emulated:gfx90a"),
        ("gfx1100", "emulated:gfx1100"),
        ("gfx1250", "emulated:gfx1250"),
        ("gfx1200", "emulated:gfx1200"),
        ("gfx908", None),
        ("sm_90", None),
    ],
)
def test_which_archs_are_emulated(arch: str, device: str | None) -> None:
    assert emulated_device(arch) == device


@pytest.mark.parametrize(
    ("problems", "kinds", "final"),
    [
        ((RIGHT, LARGE, UNCOMPARED, WRONG), (), True),
        ((RIGHT, UNKNOWN), (), False),
        ((RIGHT, UNKNOWN), (FindingKind.UNKNOWN_INSTRUCTION,), True),
    ],
)
def test_what_a_worker_left_out_is_worth_another_try(
    problems: tuple[VerifiedProblem, ...], kinds: tuple[FindingKind, ...], final: bool
) -> None:
    findings = tuple(finding(kind) for kind in kinds)
    assert Verification(device="emulated:gfx942", problems=problems, findings=findings).is_final is final
