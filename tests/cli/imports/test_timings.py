"""`ckwatch import timings`, and what others measured in `best`. No figure here was measured by anyone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benches.timing_client import TimingClient
from ckwatch.bench.imports.records import LeftOut
from ckwatch.wire.imported_timings import MatchedKernel, TimingsImport
from fakes.fake_imported_timings import imported_file, imported_timing

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TimingClient:
    made = TimingClient(tmp_path, "gemm/a@gfx942", "gemm/a@gfx950")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("CKWATCH_NO_DAEMON", raising=False)
    monkeypatch.chdir(tmp_path)
    return made


def test_what_became_of_a_file(client: TimingClient, capsys: Capture, tmp_path: Path) -> None:
    client.report = TimingsImport(
        file=imported_file("/t.csv"),
        matches={"gemm": MatchedKernel(timings=1, instances=1)},
        unused=tuple(LeftOut(line=line, why="us is empty") for line in range(3, 15)),
        unused_count=1012,
        failed={"compile": 2},
    )
    assert client.run("import", "timings", "t.csv", "--format", "aiter", "--source", "AITER 1") == 0
    assert client.of("import_timings") == [(str(tmp_path / "t.csv"), "aiter", "AITER 1", None, None)]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "/t.csv: 1 timing of AITER, 1 on MI300X",
        "  gemm: 1 on its shapes, 1 of them with its instances",
        "  2 configurations failed there: compile",
        "  left out: /t.csv:3: us is empty",
    ]
    assert lines[-1] == "  and 1,002 more"


def test_a_file_about_nothing_here(client: TimingClient, capsys: Capture) -> None:
    client.report = TimingsImport(file=imported_file())
    assert client.run("import", "timings", "t.csv") == 0
    assert "no kernel here has this operation on such sizes; they are kept" in capsys.readouterr().out


def test_list_and_remove(client: TimingClient, capsys: Capture, tmp_path: Path) -> None:
    assert client.run("import", "timings", "--list") == 0
    assert "no timings were imported" in capsys.readouterr().out
    client.files = [imported_file()]
    assert client.run("import", "timings", "--list") == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["SOURCE", "DEVICES", "TIMINGS", "IMPORTED", "FILE"]
    assert line.split()[:3] == ["AITER", "MI300X", "1"]
    assert client.run("import", "timings", "--remove", "t.csv") == 0
    assert client.of("remove_imported") == [(str(tmp_path / "t.csv"),)]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "name a file"),
        (["--list", "t.csv"], "--list takes no files"),
        (["--remove", "t.csv", "--source", "x"], "--source says how to read a file"),
        (["t.csv", "--no-daemon"], "without the daemon nothing is kept"),
    ],
)
def test_mistakes(client: TimingClient, capsys: Capture, arguments: list[str], why: str) -> None:
    assert client.run("import", "timings", *arguments) == 2
    assert why in capsys.readouterr().err


def test_best_sets_others_timings_apart(client: TimingClient, capsys: Capture) -> None:
    client.imported = [
        imported_timing(instances=("a",)),
        imported_timing(time_us=20.0, instance="slower"),
        imported_timing(device="MI355X", arch="gfx950", time_us=9.5, runtime={"kBatch": 4}),
        imported_timing(device="H100", arch="sm_90"),
    ]
    assert client.run("best", "gemm") == 0
    assert capsys.readouterr().out.splitlines() == [
        "gemm",
        "  no timings; `ckwatch bench` takes them",
        "",
        "test, gfx942",
        "  measured by others: AITER, MI300X: 15.10 µs with a",
        "",
        "test, gfx950",
        "  measured by others: AITER, MI355X: 9.500 µs with theirs, kBatch = 4, not in the kernel file",
    ]
    assert client.run("best", "gemm", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["ranked"] == []
    assert [one["device"] for one in printed["imported"]] == ["MI300X", "MI300X", "MI355X", "H100"]
