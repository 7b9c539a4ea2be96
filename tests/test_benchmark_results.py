"""The page of benchmark results: what is kept, and what is marked as older than the code that it measures."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import choosing, reporting
from benchmarks.reporting import PROVEN, Row, code_of, doubt_of, row
from helpers.each_row import each_row

ROOT = Path(__file__).parent.parent


class Repository:
    """A git repository in a folder, whose results are the page's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.results = folder / "results"
        self.results.mkdir()
        self.write_rows()
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        who = {f"GIT_{who}_{what}": "somebody" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = os.environ | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(["git", *arguments], cwd=self.folder, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, name: str) -> str:
        """Change a file; the commit."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{path.read_text()}more\n" if path.exists() else "")
        self.git("add", name)
        self.git("commit", "--quiet", "--message", name)
        return self.git("rev-parse", "HEAD")

    def write_rows(self, *rows: dict[str, object]) -> None:
        (self.results / "latest.json").write_text(json.dumps({"rows": rows}))

    @property
    def rows(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads((self.results / "latest.json").read_text())["rows"]
        return found

    @property
    def page(self) -> str:
        return (self.results / "latest.md").read_text()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path)
    monkeypatch.setattr(reporting, "REPOSITORY", tmp_path)
    monkeypatch.setattr(reporting, "RESULTS", made.results)
    return made


def measured(name: str, runs: int = PROVEN, *, met: bool = True) -> Row:
    return row(name, [1.0] * runs, [2.0] * runs, reference_name="another", unit="s", goal="less", met=lambda *_: met)


def programs() -> tuple[ModuleType, ...]:
    from benchmarks.__main__ import PROGRAMS  # with Chromium's driver and an editor's

    return PROGRAMS


@each_row("program", programs)
def test_what_a_program_measures_is_there(program: ModuleType) -> None:
    assert [path for path in code_of(program.__name__.rpartition(".")[2]) if not (ROOT / path).exists()] == []


def test_code_that_has_changed_since_is_told_with_its_first_commit(repository: Repository) -> None:
    measured_at = repository.commit("code/a.py")
    repository.commit("docs/a.md")
    assert doubt_of(measured_at, ("code",)) == ""
    first = repository.commit("code/b.py")
    date = repository.git("log", "-1", "--format=%cs")
    assert doubt_of(measured_at, ("code",)).endswith(f"once on {date} in {first[:9]}")
    repository.commit("code/a.py")
    assert doubt_of(measured_at, ("code",)).endswith(f"2 times, first on {date} in {first[:9]}")
    assert doubt_of(measured_at, ("code/nothing.py",)) == ""


def test_what_no_history_tells_is_told(repository: Repository) -> None:
    here = repository.commit("code/a.py")
    assert doubt_of("0" * 40, ("code",)) == "the commit is not in this repository's history"
    assert doubt_of(here, ("code",), dirty=True) == "measured with changes that were not committed"


def test_rows_belong_to_their_program(repository: Repository) -> None:
    commit = repository.commit("daemon/ckwatch/core/step.py")
    reporting.write("idle", [measured("went"), measured("stays")])
    reporting.write("followers", [measured("another's")])
    reporting.write("idle", [measured("stays")])
    assert [(entry["program"], entry["name"]) for entry in repository.rows] == [
        ("idle", "stays"),
        ("followers", "another's"),
    ]
    assert repository.rows[0]["commit"] == commit
    assert {"date", "runs", "goal", "cpu", "cores", "dirty"} <= repository.rows[0].keys()
    assert "†" not in repository.page.partition("## idle")[2]


def test_a_row_older_than_its_code_is_marked(repository: Repository) -> None:
    repository.commit("daemon/ckwatch/core/step.py")
    reporting.write("idle", [measured("old")])
    reporting.write("analysis", [measured("of other code")])
    repository.commit("daemon/ckwatch/core/step.py")
    reporting.write_page()
    page = repository.page
    assert "\n† older than the code" in page.partition("## idle")[2].partition("## analysis")[0]
    assert "| yes† | 5 |" in page
    assert "†" not in page.partition("## analysis")[2]


def test_rows_of_many_cores_are_a_column_beside_those_of_few(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("code/a.py")
    for cores, names in ((2, ("both", "few")), (16, ("both", "many")), (2, ("both",))):
        monkeypatch.setattr(reporting, "machine", lambda cores=cores: {"cpu": "x", "cores": cores})
        reporting.write("idle", [measured(name) for name in names])
    assert [(entry["name"], entry["cores"]) for entry in repository.rows] == [("both", 2), ("both", 16), ("many", 16)]
    first, second = repository.page.split("## idle")[1:]
    assert "\nOn 16 cores or more: " in first
    assert "| both | 1 s | 2 s (another) | 0.5 | 0.5 (1 s) | less | yes | 5 |" in first
    assert "| many | 1 s | 2 s (another) | 0.5 | less | yes | 5 |" in second


@pytest.mark.parametrize(
    ("few", "many", "verdict"),
    [(True, True, ""), (True, False, ", missed"), (False, True, ", met"), (False, False, "")],
)
def test_a_goal_that_only_many_cores_miss_or_meet_is_shown(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, few: bool, many: bool, verdict: str
) -> None:
    repository.commit("code/a.py")
    for cores, met in ((2, few), (16, many)):
        monkeypatch.setattr(reporting, "machine", lambda cores=cores: {"cpu": "x", "cores": cores})
        reporting.write("idle", [measured("both", met=met)])
    assert f"| 0.5 | 0.5 (1 s){verdict} | less | {'yes' if few else 'no'} | 5 |" in repository.page


def test_many_cores_have_goals_of_their_own(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.commit("code/a.py")
    monkeypatch.setitem(reporting.GOALS_ON_MANY, "both", ("more", lambda mine, ratio: (mine, ratio) == (1.0, 0.25)))
    for cores in (15, 16):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        reporting.write("idle", [measured("both")])
    assert "| both | 1 s | 2 s (another) | 0.5 | 0.5 (1 s), missed: more | less | yes | 5 |" in repository.page


def test_the_goals_of_many_cores_are_those_of_rows_that_there_are() -> None:
    rows = json.loads((reporting.RESULTS / "latest.json").read_text())["rows"]
    assert reporting.GOALS_ON_MANY.keys() <= {entry["name"] for entry in rows if entry["cores"] >= reporting.MANY}
    for entry in rows:
        if entry["cores"] >= reporting.MANY and (found := reporting.GOALS_ON_MANY.get(entry["name"])):
            goal, met = found
            assert (entry["goal"], entry["met"]) == (goal, met(entry["ours"], entry["ratio"]))


def test_rows_of_a_program_that_is_gone_go(repository: Repository) -> None:
    repository.commit("code/a.py")
    reporting.write("idle", [measured("stays")])
    repository.write_rows(*repository.rows, repository.rows[0] | {"program": "of_last_year"})
    reporting.write_page()
    assert [entry["program"] for entry in repository.rows] == ["idle"]
    assert "of_last_year" not in repository.page


def test_fewer_runs_than_proof_takes_are_shown_and_not_kept(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.commit("code/a.py")
    choosing.report("idle", [measured("whole"), measured("tried", PROVEN - 1)])
    assert repository.rows == []
    assert "4 of 5 runs: not written" in capsys.readouterr().out
    choosing.report("idle", [measured("whole")])
    assert [entry["name"] for entry in repository.rows] == ["whole"]


def test_the_runs_of_a_row_are_those_of_what_was_measured_less_often() -> None:
    found = row("a", [1.0, 2.0, 3.0], [1.0, 4.0], reference_name="b", unit="s", goal="")
    assert (found.runs, found.ours, found.reference) == (2, 2.0, 2.5)


@pytest.mark.parametrize(("alike", "ratio"), [(False, 8 / 16), (True, 2 / 8)])
def test_runs_that_differ_are_compared_one_by_one(alike: bool, ratio: float) -> None:
    found = row("", [2.0, 9.0, 8.0], [8.0, 90.0, 16.0], reference_name="", unit="s", goal="", alike=alike)
    assert (found.ratio, found.runs) == (ratio, 3)
