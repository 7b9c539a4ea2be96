"""The view *Verification*: what an emulator said, always as such."""

from __future__ import annotations

import pytest

from cases.web_rows import HOSTILE, feed_of, unit_row
from ckwatch.model.text import span
from ckwatch.model.verification import ProblemOutcome
from ckwatch.wire.rows import UnitRow
from ckwatch.wire.verification import UnitVerification
from ckwatch_web.content import PLACE, UNIT, Action, Note
from ckwatch_web.views import verification
from ckwatch_web.views.verification import (
    findings,
    outcome_plot,
    outcomes,
    problems,
    state_of,
    unit_blocks,
    units_table,
)
from fakes.fake_verifications import finding_of, problem_of, unit_verification, verification_of

ONE = "k/one@gfx942"


def verified(name: str = ONE, outcome: str = "verified", *, fresh: bool = True) -> UnitRow:
    return unit_row(name, verification=f"{outcome} ({HOSTILE})", verification_outcome=outcome, verification_fresh=fresh)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (unit_row(), "none"), (verified(), "verified"), (verified(outcome="failed"), "failed"),
        (verified(fresh=False), "stale"), (unit_row(verifying=True, verification_outcome="failed"), "verifying"),
    ],
)  # fmt: skip
def test_states(row: UnitRow, expected: str) -> None:
    assert state_of(row) == expected


def test_wrong_units_come_first() -> None:
    rows = [*(verified(f"k/{at}@gfx942") for at in range(5000)), verified("k/bad@gfx942", "failed")]
    table = units_table(rows)
    assert (table.rows[0]["unit"], table.rows[0][PLACE]) == ("k/bad@gfx942", "/w/k.kernel.toml:5:9")
    assert dict(outcomes(rows).facts) == {"failed": "1", "verified": "5000"}
    plot = outcome_plot(rows)
    assert plot is not None
    assert plot.summary == "Emulated: of 5001 units 1 failed, 5000 verified."
    assert outcome_plot([unit_row()]) is None
    assert len(units_table([]).rows) == 0


def test_of_very_many_kernels_some_are_drawn() -> None:
    plot = outcome_plot([verified(f"k{at}/one@gfx942") for at in range(100)])
    assert plot is not None
    assert "40 of 100 kernels are drawn." in plot.summary


def test_findings_lead_to_the_text() -> None:
    one = finding_of(
        message=HOSTILE, place=span("/w/k.hip.j2", 3, 0, 3, 5), other_instruction="ds_write_b32 v1, v2",
        other_code_address=0x1900, other_wave=3,
    )  # fmt: skip
    (row,) = findings(verification_of(one), ONE).rows
    assert (row[PLACE], row[UNIT]) == ("/w/k.hip.j2:4:1", ONE)
    assert row["who"] == "workgroup 1, 0, 0; wave 2; lane 17"
    assert row["instruction"] == "001940 buffer_load_dword v1, v2, s[0:3], 0 offen"
    assert row["other"] == "001900 ds_write_b32 v1, v2, wave 3"
    (alone,) = findings(verification_of(finding_of(lane=None)), ONE).rows
    assert (alone[PLACE], alone["who"], alone["other"]) == (None, "workgroup 1, 0, 0; wave 2", "")
    (possible,) = findings(verification_of(finding_of(workgroup=None, wave=None, lane=None)), ONE).rows
    assert possible["who"] == "not executed"


def test_what_went_wrong_comes_first() -> None:
    wrong = problem_of("ragged", outcome=ProblemOutcome.WRONG, message="Y[3, 5] is 2.0, not 1.0", share=0.25)
    table = problems(verification_of(problems=(problem_of(), wrong)))
    assert [(row["name"], row["outcome"], row["wrong"], row["share"]) for row in table.rows] == [
        ("ragged", "wrong", True, 25.0), ("exact", "right", False, 100.0),
    ]  # fmt: skip
    assert table.rows[0]["message"] == "Y[3, 5] is 2.0, not 1.0"


def test_an_earlier_build_is_said_to_be_one() -> None:
    nothing = UnitVerification(unit=ONE, outcome="not verified", summary="it was not verified yet")
    blocks = unit_blocks(nothing, verified(fresh=False))
    assert [block.key for block in blocks] == ["unit", "stale"]
    fresh = unit_blocks(unit_verification(verification_of(finding_of()), ONE), verified(outcome="failed"))
    assert [block.key for block in fresh] == ["unit", "findings", "problems", "limits"]


class VerifyingClient:
    """Answers as the client; `executed` are the units that an emulator would be set to work for."""

    def __init__(self) -> None:
        self.executed: list[str] = []

    async def verification(self, unit: str) -> UnitVerification:
        return unit_verification(unit=unit)

    async def verify(self, unit: str) -> list[UnitVerification]:
        self.executed.append(unit)
        return [unit_verification(unit=unit)]


async def test_showing_executes_nothing() -> None:
    client = VerifyingClient()
    feed = feed_of(unit_row(ONE), verified("k/two@gfx942", "failed"), client=client)
    content = await verification.show(feed, {})
    assert content.title == "k/two@gfx942 (emulated)", "the first that is wrong"
    assert client.executed == []
    assert any(isinstance(block, Note) and "no GPU was used" in block.text for block in content.blocks)
    assert [(one.key, one.changes) for one in content.blocks if isinstance(one, Action)] == [("verify", True)]
    assert "emulated" in await verification.verify(feed, {"unit": ONE})
    assert client.executed == [ONE]
    assert (await verification.show(feed_of(), {})).tables == []


def test_it_is_shown_again_when_a_verification_changed() -> None:
    before = verification.depends(feed_of(verified()), {})
    assert verification.depends(feed_of(unit_row(ONE, phase="compiling")), {}) != before
    assert verification.depends(feed_of(verified()), {}) == before
    assert verification.depends(feed_of(verified(fresh=False)), {}) != before
