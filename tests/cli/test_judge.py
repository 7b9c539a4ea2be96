"""`ckwatch judge`, with a daemon that is made up, and of what Triton compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benches.timing_client import TimingClient
from ckwatch.cli import main
from ckwatch.model.timings import Comparison
from ckwatch.model.verification import ProblemOutcome, Verification
from ckwatch.wire.benchmarks import BenchLine, Compared, Device, Devices
from ckwatch.wire.verification import UnitVerification, VerifyLine
from cli.test_code_file_verification import DESCRIPTIONS, REFERENCE, TRITON
from fakes.fake_verifications import finding_of, problem_of, unit_verification, verification_of

A, B = "gemm/a@gfx942", "gemm/b@gfx942"
Capture = pytest.CaptureFixture[str]
RIGHT = verification_of(problems=(problem_of("drawn 1"), problem_of("shape 4096")))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TimingClient:
    made = TimingClient(tmp_path, A, B)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)
    return made


def verified(unit: str, found: Verification = RIGHT) -> VerifyLine:
    return VerifyLine(event="unit", unit=unit, outcome="built", result=unit_verification(found, unit))


def judge(client: TimingClient, *words: str) -> int:
    return client.run("judge", A, "--against", B, "--seed", "5", *words)


def test_what_is_right_is_accepted_whatever_its_speed(client: TimingClient, capsys: Capture) -> None:
    client.verified = (verified(B), verified(A))
    assert judge(client, "--right-only") == 0
    out = capsys.readouterr().out
    assert f"✓ {A} against {B}: accepted (2 problems right)" in out
    assert "`--seed 5` judges on the same problems again" in out
    assert client.asked[-1] == ("verify", (A, B), B, 5)


def test_each_reason_is_at_its_place(client: TimingClient, capsys: Capture) -> None:
    client.verified = (verified(B), verified(A, verification_of(finding_of())))
    assert judge(client) == 1
    out = capsys.readouterr().out
    assert "[verify/out-of-bounds-read]" in out
    assert f"✗ {A} against {B}: refused" in out


def test_a_wrong_reference_is_no_measure(client: TimingClient, capsys: Capture) -> None:
    wrong = problem_of("ragged", outcome=ProblemOutcome.WRONG, message="37 elements are wrong")
    client.verified = (verified(B, verification_of(problems=(wrong,))), verified(A))
    assert judge(client) == 2
    assert "the reference cannot be judged by: ✗ ragged: 37 elements are wrong" in capsys.readouterr().out


@pytest.mark.parametrize(("unit", "outcome", "status"), [(A, "failed", 1), (B, "failed", 2), (A, "skipped", 2)])
def test_what_is_not_built(client: TimingClient, capsys: Capture, unit: str, outcome: str, status: int) -> None:
    result = UnitVerification(unit=unit, outcome="not verified", summary="it was not built")
    other = B if unit == A else A
    line = VerifyLine(event="unit", unit=unit, outcome=outcome, text="it was not built", result=result)
    client.verified = (line, verified(other))
    assert judge(client) == status
    assert f"{unit}: it was not built [judge/not-built]" in capsys.readouterr().out


@pytest.mark.parametrize(("verdict", "status", "said"), [("FAST", 0, "accepted"), ("SAME", 1, "it is not faster")])
def test_timings_decide_where_there_is_a_device(
    client: TimingClient, capsys: Capture, verdict: str, status: int, said: str
) -> None:
    client.verified = (verified(B), verified(A))
    client.found = Devices(devices=(Device(name="hip:0", description="a GPU", arch="gfx942"),))
    client.lines = [BenchLine(event="stage", unit=A, shape="4096", text="timing")]
    comparison = Comparison(verdict=verdict, ratio=0.9, against=B, other_median_us=2.0)  # type: ignore[arg-type]
    client.compared = [Compared(shape="4096", cache="cold", ours=A, theirs=B, comparison=comparison)]
    assert judge(client) == status
    out = capsys.readouterr().out
    assert "speed, timed on hip:0" in out
    assert said in out
    assert client.asked[-1] == ("compare", A, B, "4096")
    client.compared = [Compared(shape="4096", cache="cold", ours=A, theirs=B, why_not="not timed")]
    assert judge(client) == 2
    assert "whether it is faster is not known: not timed" in capsys.readouterr().out


def test_what_does_not_go_together(client: TimingClient, capsys: Capture) -> None:
    assert client.run("judge", A, "--against", A) == 2
    assert "cannot be judged against itself" in capsys.readouterr().err
    assert client.run("judge", A, "--against", B, "--args", "a.toml") == 2
    assert "--args is for files with code objects" in capsys.readouterr().err
    assert client.run("judge", A, "--against", str(TRITON / "add_kernel.hsaco")) == 2
    assert "a unit is judged against a unit, and a file against a file" in capsys.readouterr().err
    path = str(TRITON / "add_kernel.hsaco")
    assert main(["judge", path, "--against", path]) == 2
    assert "--args is missing" in capsys.readouterr().err


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("planted", "verdict", "code"), [(False, "accepted", ""), (True, "refused", "out-of-bounds-write")]
)
def test_kernels_of_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, planted: bool, verdict: str, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reference.py").write_text(REFERENCE)
    Path("add.toml").write_text(DESCRIPTIONS["add"] + "[operation.limits]\nn = { max = 2000 }\n")
    folder = TRITON.parent / "planted_triton" if planted else TRITON
    Path("new.hsaco").write_bytes((folder / "add_kernel.hsaco").read_bytes())
    command = ["judge", "new.hsaco", "--against", str(TRITON / "add_kernel.hsaco")]
    status = main([*command, "--args", "add.toml", "--trust", "--right-only", "--seed", "3", "--json"])
    *_, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (status, last["verdict"]) == (int(verdict == "refused"), verdict), last["reasons"]
    assert not code or f"verify/{code}" in {one["code"] for one in last["reasons"]}
