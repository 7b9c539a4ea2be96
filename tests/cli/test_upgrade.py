"""`ckwatch upgrade`, with a daemon that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.timing_client import TimingClient
from ckwatch.wire.unit_changes import UnitOutcome, unit_change
from helpers.kernel_reports import kernel, report

A, B = "gemm/a@gfx942", "gemm/b@gfx942"
BUILT = UnitOutcome(outcome="built", report=report(kernel()))
SPILLS = UnitOutcome(outcome="built", report=report(kernel(vgpr_spills=8)))
FEWER_WAVES = UnitOutcome(outcome="built", report=report(kernel(1)))
FAILED = UnitOutcome(outcome="failed", problem="no type")
FAULTED = UnitOutcome(outcome="faulted", problem="out of memory")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TimingClient:
    monkeypatch.chdir(tmp_path)
    return TimingClient(tmp_path, A, B)


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (BUILT, BUILT, 0),
        (BUILT, FEWER_WAVES, 0),
        (FAILED, FAILED, 0),
        (BUILT, FAILED, 1),
        (BUILT, SPILLS, 1),
        (BUILT, FAULTED, 2),
    ],
)
def test_what_is_certain_decides_the_exit_status(
    client: TimingClient, before: UnitOutcome, after: UnitOutcome, status: int
) -> None:
    client.changes = [unit_change(A, before, after), unit_change(B, BUILT, BUILT)]
    assert client.run("upgrade", "--to", "/opt/newer", "--no-verify") == status
    assert client.asked[-1] == ("upgrade", (), "/opt/newer", False)


def test_the_toolchains_and_the_units_in_the_order_of_the_kernel_files(client: TimingClient, capsys: Capture) -> None:
    client.changes = [unit_change(B, BUILT, FEWER_WAVES), unit_change(A, BUILT, FEWER_WAVES)]
    assert client.run("upgrade", "--to", "/opt/newer") == 0
    first, second, *lines = capsys.readouterr().out.splitlines()
    assert (first, second) == ("from ROCm 7.2.4 at /a", "to   ROCm 7.14 at /b")
    assert [line for line in lines if line.startswith("↓")] == [
        "↓ gemm/a@gfx942  worse: occupancy 2 → 1",
        "↓ gemm/b@gfx942  worse: occupancy 2 → 1",
    ]


@pytest.mark.parametrize(
    ("to", "asked"),
    [("new", "{here}/new"), ("rocm-6.4", "rocm-6.4"), ("ck-1.1.0", "ck-1.1.0"), ("./a+ck-1.1.0", "{here}/a+ck-1.1.0")],
)
def test_folders_are_those_of_the_command(client: TimingClient, to: str, asked: str) -> None:
    assert client.run("upgrade", "--to", to) == 0
    assert client.asked[-1] == ("upgrade", (), asked.format(here=client.root), True)


def test_markdown_is_all_that_is_printed(client: TimingClient, capsys: Capture) -> None:
    client.changes = [unit_change(A, BUILT, SPILLS)]
    assert client.run("upgrade", "--to", "/opt/newer", "--markdown") == 1
    out = capsys.readouterr().out
    assert out.startswith("## What this upgrade would change\n\n- from ROCm 7.2.4 at /a\n- to ROCm 7.14 at /b\n")
    assert out.endswith("| `gemm/a@gfx942` | 0 → 8 registers spilled; spilled VGPR 0 → 8 |\n")
