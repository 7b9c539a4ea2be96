"""`ckwatch verify`, with a daemon that is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benches.timing_client import TimingClient
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.python_references import MistakeKind, ReferenceMistake
from ckwatch.model.text import span
from ckwatch.model.verification import ProblemOutcome, Verification
from ckwatch.wire.verification import UnitVerification, VerifyLine
from fakes.fake_verifications import finding_of, problem_of, unit_verification, verification_of

A, B = "gemm/a@gfx942", "gemm/b@gfx942"
Capture = pytest.CaptureFixture[str]
REFUSED = problem_of("odd sizes", outcome=ProblemOutcome.REFUSED)
WRONG = problem_of("ragged", shape="M=389 N=277 K=323", outcome=ProblemOutcome.WRONG, message="37 elements are wrong")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TimingClient:
    made = TimingClient(tmp_path, A, B)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return made


def line(unit: str = A, found: Verification | None = None, *, known: bool = False) -> VerifyLine:
    return VerifyLine(
        event="unit",
        unit=unit,
        outcome="built",
        known=known,
        result=unit_verification(found or verification_of(), unit),
    )


def without(unit: str, why: str, outcome: str = "built") -> VerifyLine:
    result = UnitVerification(unit=unit, outcome="not verified", summary=why)
    return VerifyLine(event="unit", unit=unit, outcome=outcome, text=why, result=result)


def test_what_is_right_is_a_line(client: TimingClient, capsys: Capture) -> None:
    client.verified = (line(A, verification_of(problems=(problem_of(), problem_of("ragged"), REFUSED))), line(B))
    assert client.run("verify") == 0
    out = capsys.readouterr().out
    assert "✓ gemm/a@gfx942  verified (emulated gfx942)  2 shapes right, 1 refused" in out
    assert "2 units: 2 verified" in out
    assert client.asked[1:] == [("verify", (), False)]


def test_what_is_wrong_is_shown_at_its_line(client: TimingClient, capsys: Capture) -> None:
    kernel = client.root / "templates.hip.j2"
    kernel.write_text("one\n  X[i + 1]\n")
    place = span(str(kernel), 1, 2, 1, 10)
    client.verified = (line(A, verification_of(finding_of(place=place), problems=(problem_of(), WRONG))), line(B))
    assert client.run("verify", "gemm", "--force", "--details") == 1
    out = capsys.readouterr().out
    assert "✗ gemm/a@gfx942  reads 4 bytes beyond the end of X (4,096 bytes) (emulated gfx942)" in out
    assert "ragged  M=389 N=277 K=323  wrong  whole  37 elements are wrong" in out
    for words in ("verify/out-of-bounds-read", "templates.hip.j2:2", "X[i + 1]", "verify/wrong-result"):
        assert words in out
    assert "2 units: 1 verified, 1 wrong" in out
    assert client.asked[1:] == [("verify", ("gemm",), True)]


@pytest.mark.parametrize(
    ("lines", "status", "words"),
    [
        ((without(A, "it was not built", "failed"), line(B)), 1, "2 units: 1 verified, 1 not built"),
        ((without(A, "gfx1100 is not emulated", "built"), line(B)), 2, "2 units: 1 verified, 1 not verified"),
        ((without(A, "removed", "removed"), line(B)), 2, "1 not built"),
        ((without(A, "its sweep skips it", "skipped"), line(B)), 0, "2 units: 1 verified, 1 skipped"),
        ((without(A, "no emulator"), line(B, verification_of(problems=(WRONG,)))), 1, "1 wrong, 1 not verified"),
    ],
)
def test_the_exit_status(
    lines: tuple[VerifyLine, ...], status: int, words: str, client: TimingClient, capsys: Capture
) -> None:
    client.verified = lines
    assert client.run("verify") == status
    assert words in capsys.readouterr().out


def test_why_a_unit_was_not_built_is_printed(client: TimingClient, capsys: Capture) -> None:
    client.verified = (without(A, "it was not built", "failed"), line(B))
    place = span(str(client.root / "k.hip.j2"), 3, 0, 3, 4)
    client.mistakes = {A: (Diagnostic(Severity.ERROR, Source.LINKER, "linker/error", "no exported function", place),)}
    assert client.run("verify") == 1
    assert "k.hip.j2:4:1: error: no exported function [linker/error]" in capsys.readouterr().out


def test_shapes_are_asked_for(client: TimingClient, capsys: Capture) -> None:
    client.verified = (line(A), line(B))
    assert client.run("verify", "gemm", "--shape", "exact", "--shape", "M=1,N=8,K=8") == 0
    assert client.asked[1:] == [("verify", ("gemm",), "exact", "M=1,N=8,K=8", False)]
    assert "2 units: 2 verified" in capsys.readouterr().out


def test_what_was_not_tried_or_not_compared_says_so(client: TimingClient, capsys: Capture) -> None:
    large = problem_of("long", outcome=ProblemOutcome.NOT_TRIED, message="it is too large", share=0.0)
    unknown = UNKNOWN
    client.verified = (
        line(A, verification_of(problems=(problem_of(), large))),
        line(B, verification_of(problems=(unknown,))),
    )
    assert client.run("verify", "--details") == 3
    out = capsys.readouterr().out
    assert "verified (emulated gfx942)  1 shape right, 1 not tried" in out
    assert "clean, but not compared (emulated gfx942): no result was compared  0 shapes right, 1 not compared" in out
    assert "it is too large" in out


UNKNOWN = problem_of("small", outcome=ProblemOutcome.NOT_COMPARED, message="no result was compared")
MISTAKE = ReferenceMistake(kind=MistakeKind.RAISES, message="ValueError: no", path="/w/reference.py", line=2)


@pytest.mark.parametrize(
    ("found", "others", "status", "words"),
    [
        (verification_of(problems=(UNKNOWN,)), (), 3, "1 not compared"),
        (verification_of(problems=(UNKNOWN, REFUSED)), (line(B),), 3, "1 verified, 1 not compared"),
        (verification_of(problems=(UNKNOWN,)), (without(B, "no emulator"),), 2, "1 not compared, 1 not verified"),
        (verification_of(problems=(UNKNOWN,)), (line(B, verification_of(problems=(WRONG,))),), 1, "1 wrong"),
        (verification_of(finding_of(), problems=(UNKNOWN,)), (), 1, "1 wrong"),
        (verification_of(problems=(UNKNOWN,), reference_mistakes=(MISTAKE,)), (), 1, "1 not verified"),
    ],
)
def test_clean_but_not_compared_has_a_status_of_its_own(
    found: Verification,
    others: tuple[VerifyLine, ...],
    status: int,
    words: str,
    client: TimingClient,
    capsys: Capture,
) -> None:
    client.verified = (line(A, found), *others)
    assert client.run("verify") == status
    out = capsys.readouterr().out
    assert words in out
    assert ("`reference = " in out) == found.is_uncompared
    assert client.run("verify", "--allow-uncompared") == (0 if status == 3 else status)
    capsys.readouterr()
    client.run("verify", "--json")
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["exit_status"] == status
    assert bool(summary["not_compared"]) == bool(summary["hint"])


def test_what_is_not_modelled_is_said_once(client: TimingClient, capsys: Capture) -> None:
    client.verified = (line(A), line(B))
    said = []
    for details in ((), (), ("--details",)):
        client.run("verify", *details)
        said.append(capsys.readouterr().out.count("not modelled: "))
    assert said == [1, 0, 1]


def test_without_a_compiler_it_says_what_is_missing(client: TimingClient, capsys: Capture) -> None:
    client.no_compiler = "there is no ROCm\n`ckwatch toolchain install`"
    client.verified = (without(A, "no compiler", "checked"), without(B, "no compiler", "checked"))
    assert client.run("verify") == 2
    assert "there is no ROCm" in capsys.readouterr().err


def test_json_has_no_time(client: TimingClient, capsys: Capture) -> None:
    client.verified = (
        VerifyLine(event="began", unit=A),
        VerifyLine(event="stage", unit=A, text="verifying exact"),
        line(A, verification_of(finding_of())),
        without(B, "it was not built", "failed"),
    )
    assert client.run("verify", "--json") == 1
    printed = capsys.readouterr().out
    start, _, stage, first, second, summary = [json.loads(each) for each in printed.splitlines()]
    assert (start["event"], start["units"], stage["text"]) == ("start", 2, "verifying exact")
    assert first["verification"]["findings"][0]["kind"] == "out-of-bounds-read"
    assert (second["outcome"], second["verification"], second["built_as"]) == ("not verified", None, "failed")
    assert (summary["verified"], summary["failed"], summary["not_verified"], summary["exit_status"]) == (0, 1, 1, 1)
    assert not any(word in printed for word in ('seconds"', '_us"', '_s"', '_at"'))
