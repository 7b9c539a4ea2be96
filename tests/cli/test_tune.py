"""Results of a run as files; options that cannot be."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import anyio
import pytest

from ckwatch.cli import main
from ckwatch.cli.parser import make_parser
from ckwatch.cli.tune import budget_of, csv_text, json_text, write_aiter
from ckwatch.model.errors import CkwatchError
from ckwatch.tuning.journal import TuningJournal
from ckwatch.tuning.results import EvaluationStatus
from ckwatch.tuning.runner import Tuning
from fakes.tuning_stand_in import DEVICES, FakeTunedClient, TunedWorkspace, numbers, tuning, workspace


@pytest.fixture
async def run(tmp_path: Path) -> Tuning:
    """A run that has ended, of which one instance in three fails."""
    journal = TuningJournal(tmp_path / "tuning.sqlite")
    client = FakeTunedClient(lambda unit, _shape: "crashed" if numbers(unit)[2] == 2 else 1.0 + numbers(unit)[0])
    found = tuning(workspace(tmp_path), client, journal, measurements=12)
    await found.run()
    found.close()
    journal.close()
    return found


async def test_tables_have_every_result(run: Tuning) -> None:
    record = run.record
    rows = list(csv.DictReader(io.StringIO(csv_text(record))))
    assert len(rows) == sum(len(point.results) for point in record.points) >= 12
    assert {row["status"] for row in rows} <= {status.value for status in EvaluationStatus}
    assert all(row["reason"] for row in rows if row["status"] == "crashed")
    assert all(row["MPerBlock"] == row["instance"].split("_")[1] for row in rows)
    content = json.loads(json_text(record))
    assert content["kernel"] == "slow"
    assert content["best"]["one"]["instance"] == getattr(run.best("one"), "instance", None)
    assert len(content["points"]) == len(record.points)


async def test_winners_are_appended_to_the_kernel_file(run: Tuning) -> None:
    path = anyio.Path(run.tuned.kernel.path)
    before = await path.read_text()
    written = await run.write_winners()
    after = await path.read_text()
    assert written
    assert after.startswith(before)
    assert all(f'name = "{name}"' in after for name in written)


async def test_aiter_has_no_names_for_other_kernels(run: Tuning, tmp_path: Path) -> None:
    with pytest.raises(CkwatchError, match="AITER has no name for 's_"):
        write_aiter(tmp_path / "out.csv", run.tuned, run.record, DEVICES[0])
    assert not (tmp_path / "out.csv").exists()


def test_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    report = tmp_path / "r.html"
    command = ["tune", "slow", "--measurements", "9", "--report", str(report), "--export", str(tmp_path / "r.csv")]
    assert main(command, connected=TunedWorkspace(workspace(tmp_path)).connected) == 0
    printed = capsys.readouterr().out
    for text in (
        "tuning slow@host: 2 shapes, 96 points, on cpu0 (a stand-in)",
        "refused:   4.2%  `MPerBlock >= 2 * MPerThread`",
        "all measurements of the budget are done",
        "SHAPE  BEST",
        "the fewest instances within 2% of the best on all shapes: s_",
        f"wrote {report}",
    ):
        assert text in printed
    assert report.read_text().startswith("<!")


def test_nothing_could_be_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = TunedWorkspace(workspace(tmp_path), lambda _unit, _shape: "compile")
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "slow"], connected=broken.connected) == 1
    assert "compile-failed: no such tile" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--report", "a.pdf"], "the name of a.pdf does not end in .html"),
        (["--export", "a.txt"], "does not end in .csv or .json"),
        (["--aiter", "gone/a.csv"], "there is no folder"),
    ],
)
def test_files_that_cannot_be_written(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], small: Path
) -> None:
    assert main(["tune", "k", "-C", str(small), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("20m", 1200.0), ("1.5h", 5400.0), ("7", 7.0), ("2 min", 120.0)]
)
def test_budgets(text: str, seconds: float) -> None:
    assert make_parser().parse_args(["tune", "k", "--budget", text]).budget == seconds


@pytest.mark.parametrize(
    ("budget_s", "spend", "price", "expected"),
    [
        (None, None, None, None),
        (60.0, None, None, 60.0),
        (None, 5.0, 2.5, 7200.0),
        (60.0, 5.0, 2.5, 60.0),
        (9000.0, 5.0, 2.5, 7200.0),
    ],
)
def test_money_is_a_budget(
    budget_s: float | None, spend: float | None, price: float | None, expected: float | None
) -> None:
    assert budget_of(budget_s, spend, price) == expected


@pytest.mark.parametrize(("given", "missing"), [("--spend", "--price"), ("--price", "--spend")])
def test_money_needs_a_price(given: str, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "k", given, "2.5"]) == 2
    assert f"{given} needs {missing}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0", "x", "1e3", "-"])
def test_amounts_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["tune", "k", "--spend", text])
    assert "is not an amount above zero" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["soon", "0", "1d"])
def test_budgets_that_are_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["tune", "k", "--budget", text])
    assert "is not a time: write 90s, 20m or 2h" in capsys.readouterr().err
