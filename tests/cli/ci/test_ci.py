"""`ckwatch ci` on small repositories: git, renders and the store are real, the compiler is a script, and the emulator is
made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from benches.daemon_bench import TEMPLATE, Bench, BenchToolchain
from ckwatch.bench.job import Job
from ckwatch.bench.report import (
    BenchmarkFailure,
    BenchmarkReport,
    ContestantResult,
    Devices,
    FailureKind,
    Samples,
)
from ckwatch.cli import main
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.engine import timed_changes
from ckwatch.engine.handlers import measure as measuring
from ckwatch.engine.workspace_outcomes import OutcomeTools
from ckwatch.model.errors import ToolchainError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.verification import ProblemOutcome
from ckwatch.workspace.trust import trust
from fakes.fake_verifications import problem_of, verification_of
from helpers.git_repositories import git
from helpers.workspaces import gemm_kernel

Capture = pytest.CaptureFixture[str]
ONE, TWO = "k/one@gfx942", "k/two@gfx942"


@dataclass(frozen=True)
class MovableToolchain(BenchToolchain):
    """Keeps paths in the workspace short, as real ones do: keys are the same in each tree."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "roots", {**self.roots, "workspace": self.workspace})


class Repository:
    """The workspace of a `Bench` with one commit on `main`, in a repository of its own or in the folder `outer` of
    one."""

    def __init__(self, bench: Bench, capsys: Capture, outer: Path | None = None) -> None:
        self.bench, self.root, self._capsys = bench, bench.root, capsys
        script, headers = bench.toolchain.hipcc, bench.header.parent
        found = MovableToolchain(script, script, roots={"fake": headers}, include_folders=(headers,))
        find = cast("Callable[..., Toolchain]", lambda _choice, _environment: found)
        self.tools = OutcomeTools(environment={}, find_toolchain=find, emulate=bench.emulator)
        git(outer or self.root, "init", "--quiet", "--initial-branch", "main")
        self.commit()
        trust(self.root)

    def commit(self) -> None:
        """Commit everything."""
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", "…")

    def edit(self, name: str, before: str, after: str) -> None:
        """Replace a text in a file of the workspace."""
        text = (self.root / name).read_text()
        assert before in text
        self.bench.write(name, text.replace(before, after))

    def run(self, *arguments: str, status: int = 0) -> str:
        """What the command prints, and where it fails on stderr."""
        self._capsys.readouterr()
        given = ["ci", "-C", str(self.root), *arguments]
        assert main(given, outcome_tools=self.tools) == status, self._capsys.readouterr()
        printed = self._capsys.readouterr()
        return printed.out or printed.err

    def report(self, *arguments: str, status: int = 0) -> dict[str, Any]:
        """The report."""
        found: dict[str, Any] = json.loads(self.run(*arguments, "--json", status=status))
        return found

    def verdicts(self, *arguments: str, status: int = 0) -> dict[str, str]:
        """The verdict of each affected unit, checked without a compiler."""
        found = self.report("--no-build", *arguments, status=status)
        return {one["id"]: one["change"]["verdict"] for one in found["units"]}


@pytest.fixture
def repository(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name in ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "CHANGE_TARGET"):
        monkeypatch.delenv(name, raising=False)
    return Repository(Bench(tmp_path), capsys)


def test_both_states_are_built_and_the_store_has_them_then(repository: Repository) -> None:
    repository.edit("templates/k.hip.j2", "int tile = {{ Tile }};", "int tile = {{ Tile + (10 if Tile == 1 else 0) }};")
    found = repository.report()
    assert [(one["id"], one["because"]) for one in found["units"]] == [(ONE, ["templates/k.hip.j2"])]
    assert (found["unaffected"], found["head"]["dirty"], found["base"]["name"]) == (1, True, "main")
    assert sorted(repository.bench.runs) == ["1", "11"]
    again = repository.report()["units"][0]["change"]
    assert [again[side]["from_store"] for side in ("before", "after")] == [True, True]
    assert len(repository.bench.runs) == len(repository.bench.emulator.runs) == 2


def test_a_unit_that_no_longer_compiles(repository: Repository) -> None:
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.edit("templates/macros.j2", "// nothing yet", '{{ "BROKEN" if Tile == 2 }}')
    repository.commit()
    shown = repository.run(status=1)
    assert "templates/macros.j2:1" in shown
    assert f"✗ {TWO}  no longer compiles: BROKEN is no type" in shown
    assert shown.splitlines()[-1] == "1 of 2 units affected: no longer compile: 1"
    found = repository.report("--fail-on", "wrong")
    (broken,) = found["units"]
    assert (broken["fails"], found["exit_status"]) == (False, 0)
    assert [one["code"] for one in broken["diagnostics"]] == ["clang/semantic-issue"]


def test_a_wrong_result_stands_at_the_unit(repository: Repository) -> None:
    wrong = verification_of(problems=(problem_of(outcome=ProblemOutcome.WRONG, message="element 3 is 7"),))
    answers = [wrong, verification_of()]  # it is executed now first, then at the base
    repository.bench.emulator.answer = lambda _run: answers.pop(0)
    repository.edit("templates/k.hip.j2", "{{ Tile }};", "{{ Tile + (10 if Tile == 1 else 0) }};")
    (unit,) = repository.report(status=1)["units"]
    assert (unit["change"]["verdict"], unit["fails"]) == ("wrong", True)
    assert [one["code"] for one in unit["diagnostics"]] == ["verify/wrong-result"]


KERNEL = gemm_kernel("{name}.hip.j2", {"one": {"Tile": 1}, "two": {"Tile": 2}})
TEXT = '#include "{name}.h"\nint tile = {{{{ Tile }}}};\nint {{{{ KERNEL_NAME }}}}();\n'
NEW = '\n[[instance]]\nname = "ten"\n'
EDITS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "comment": (".hip.j2", "int tile", "/* … */ int tile", {}),
    "text": (".hip.j2", "int tile", "long tile", {"one": "same", "two": "same"}),
    "undefined": (".hip.j2", "{{ Tile }}", "{{ Tail if Tile == 2 else 1 }}", {"two": "broken"}),
    "header": (".h", "int a;", "int b;", {"one": "same", "two": "same"}),
    "no_header": (".h", "", "", {"one": "same", "two": "same"}),
    "no_template": (".hip.j2", "", "", {"one": "broken", "two": "broken"}),
    "value": (".kernel.toml", "Tile = 2", "Tile = 3", {"two": "same"}),
    "name": (".kernel.toml", '"two"', '"zwei"', {"zwei": "same"}),
    "more": (".kernel.toml", "Tile = 2", f"Tile = 2\n{NEW}Tile = 10", {"ten": "new"}),
    "bad_one": (".kernel.toml", "Tile = 2", f"Tile = 2\n{NEW}Tail = 10", {"ten": "broken"}),
    "mistake": (".kernel.toml", "Tile = 2", "Tile = [", {"two": "broken"}),
    "gone": (".kernel.toml", "", "", {"one": "removed", "two": "removed"}),
}
"""Edits by the kernel that they are made to: of which file, before and after, or without the file; the verdicts by
instance."""


def test_which_units_a_change_affects(repository: Repository) -> None:
    for name in EDITS:
        repository.bench.write(f"{name}.kernel.toml", KERNEL.replace("{name}", name))
        repository.bench.write(f"templates/{name}.hip.j2", TEXT.format(name=name))
        repository.bench.write(f"templates/{name}.h", "int a;\n")
    repository.commit()
    expected: dict[str, str] = {}
    for name, (end, before, after, verdicts) in EDITS.items():
        file = f"{name}{end}" if end.endswith("toml") else f"templates/{name}{end}"
        if before:
            repository.edit(file, before, after)
        else:
            (repository.root / file).unlink()
        expected |= {f"{name}/{instance}@gfx942": verdict for instance, verdict in verdicts.items()}
    assert repository.verdicts(status=1) == expected


def test_settings_concern_all_units_and_their_mistakes_none(repository: Repository) -> None:
    repository.edit("ckwatch.toml", "[compile]\n", '[compile]\ndefines = { A = "1" }\n')
    assert repository.verdicts() == {ONE: "same", TWO: "same"}
    git(repository.root, "checkout", "--quiet", ".")
    repository.edit("ckwatch.toml", "jobs = 2", 'jobs = "x"')
    found = repository.report("--no-build", status=1)
    assert (found["units"], found["new_mistakes"]) == ([], 1)
    assert [one["span"]["path"] for one in found["diagnostics"]] == [str(repository.root / "ckwatch.toml")]


def test_a_renamed_unit_says_what_it_was(repository: Repository) -> None:
    repository.edit("k.kernel.toml", '"two"', '"zwei"')
    assert f"= k/zwei@gfx942  the same: it was {TWO}" in repository.run("--no-build")


def test_a_base_with_mistakes_is_what_was_mended(repository: Repository) -> None:
    repository.edit("templates/k.hip.j2", "{{ Tile }}", "{{ Tail }}")
    repository.edit("k.kernel.toml", '"two"', "two")
    repository.commit()
    git(repository.root, "checkout", "--quiet", "HEAD~1", "--", ".")
    found = repository.report("--no-build")
    assert [one["change"]["verdict"] for one in found["units"]] == ["fixed", "fixed"]
    first = [one["change"]["before"]["errors"][0]["span"]["path"] for one in found["units"]]
    assert first == [str(repository.root / name) for name in ("templates/k.hip.j2", "k.kernel.toml")]


def test_a_workspace_that_the_base_does_not_have(repository: Repository) -> None:
    git(repository.root, "rm", "-r", "--cached", "--quiet", ".")
    git(repository.root, "commit", "--quiet", "--message", "empty")
    shown = repository.run("--no-build")
    assert "note: The base has no ckwatch.toml here: all units are new." in shown
    assert "2 of 2 units affected: new: 2" in shown


def test_a_workspace_in_a_folder_of_the_repository(tmp_path: Path, capsys: Capture) -> None:
    bench = Bench(tmp_path)
    outer = tmp_path / "outer"
    outer.mkdir()
    bench.root = bench.root.rename(outer / bench.root.name)
    (outer / "shared").mkdir()
    (outer / "shared/size.h").write_text("int size = 1;\n")
    settings = (bench.root / "ckwatch.toml").read_text()
    bench.write("ckwatch.toml", settings.replace("[compile]\n", '[compile]\nflags = ["-I../shared"]\n'))
    bench.write("templates/k.hip.j2", f'#include "size.h"\n{TEMPLATE}')
    repository = Repository(bench, capsys, outer)
    assert repository.report("--no-verify")["units"] == []
    (outer / "shared/size.h").write_text("int size = 2;\n")
    found = repository.report("--no-verify")
    assert [one["because"] for one in found["units"]] == [["shared/size.h"]] * 2
    assert found["repository"] == str(outer)


def test_paths_choose_what_depends_on_them(repository: Repository) -> None:
    repository.bench.write("other.kernel.toml", (repository.root / "k.kernel.toml").read_text())
    repository.commit()
    root = repository.root
    assert list(repository.verdicts(str(root / "other.kernel.toml"))) == ["other/one@gfx942", "other/two@gfx942"]
    assert len(repository.verdicts(str(root / "templates"))) == 4
    assert len(repository.verdicts(str(root / "ckwatch.toml"))) == 4
    assert f"there is no {root}/nothing" in repository.run(str(root / "nothing"), status=2)
    (root / "other.kernel.toml").unlink()
    assert set(repository.verdicts(str(root / "other.kernel.toml")).values()) == {"removed"}


def test_the_base_is_the_branch_that_a_pipeline_names(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    git(repository.root, "checkout", "--quiet", "-b", "release")
    repository.edit("templates/macros.j2", "// nothing yet", "int b;")
    repository.commit()
    monkeypatch.setenv("GITHUB_BASE_REF", "release")
    found = repository.report("--no-build")
    assert (found["base"]["name"], found["units"]) == ("release", [])
    assert "nothing differs. `--base HEAD~1`" in found["notes"][0]
    assert len(repository.verdicts("--base", "HEAD~1")) == 2
    monkeypatch.setenv("GITHUB_BASE_REF", "gone")
    assert "`git fetch origin gone:refs/remotes/origin/gone` fetches it" in repository.run(status=2)


def test_a_base_that_a_shallow_clone_does_not_have(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.bench.write("notes.md", "…")
    repository.commit()
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(clone))
    trust(clone)
    repository.root = clone
    shown = repository.run("--base", "main", status=2)
    assert "there is no commit 'main' in this shallow clone" in shown
    assert "`git fetch --unshallow origin main:refs/remotes/origin/main` fetches it." in shown


def test_before_the_first_commit_everything_is_new(tmp_path: Path, capsys: Capture) -> None:
    bench = Bench(tmp_path)
    trust(bench.root)
    assert main(["ci", "-C", str(bench.root)]) == 2
    assert "is not in a git repository" in capsys.readouterr().err
    git(bench.root, "init", "--quiet")
    assert main(["ci", "-C", str(bench.root), "--no-build", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["presence"] for one in found["units"]] == ["new", "new"]


def test_reports_go_to_files(repository: Repository, tmp_path: Path) -> None:
    repository.edit("templates/k.hip.j2", "{{ Tile }}", "{{ Tail }}")
    shown = repository.run(
        "--no-build", "--report", "markdown", "--report", f"text={tmp_path}/r/text", "--report", f"json={tmp_path}/r/json",
        status=1,
    )  # fmt: skip
    assert shown.startswith("## What this change does to kernels\n\n- base: main (")
    assert "at `templates/k.hip.j2:2`" in shown
    assert "\n2 of 2 units affected: no longer compile: 2\n" in (tmp_path / "r/text").read_text()
    assert json.loads((tmp_path / "r/json").read_text())["exit_status"] == 1


def test_without_a_compiler(repository: Repository) -> None:
    def find(_choice: object, _environment: object) -> Toolchain:
        raise ToolchainError("there is no ROCm")

    repository.tools = OutcomeTools(environment={}, find_toolchain=find, emulate=repository.bench.emulator)
    assert "there is no ROCm" in repository.run(status=2)
    assert repository.verdicts() == {}


HIP = DeviceFacts(name="hip:0", description="test data", arch="gfx942", pci="0000:c1:00.0")


class Worker:
    """Takes the place of processes that measure: `slower` is what the new state's times are multiplied with, or why
    it fails. No figure here was measured."""

    def __init__(self, slower: float | BenchmarkFailure = 1.0) -> None:
        self.slower = slower
        self.jobs: list[Job] = []

    async def find_devices(self, _start: object) -> Devices:
        return Devices(devices=(HIP,))

    async def measure(self, job: Job, artifacts: Sequence[bytes], *_: object, **__: object) -> Any:
        self.jobs.append(job)
        assert len(set(artifacts)) == 2
        if isinstance(self.slower, BenchmarkFailure):
            return self.slower
        factors = dict(zip((one.name for one in job.contestants), (1.0, self.slower), strict=True))
        measured = [
            ContestantResult(
                contestant=name,
                samples=tuple(
                    Samples(cache=cache, times_us=tuple(100 * factor + at % 7 / 50 for at in range(240)), blocks=24)
                    for cache in job.caches
                ),
            )
            for name, factor in factors.items()
        ]
        return BenchmarkReport(device=HIP, measured=tuple(measured))


def _content(products: dict[str, str], load: Callable[[Path], bytes]) -> bytes:
    """What the script that compiles has written, which has no code."""
    return load(Path(products[ProductKind.SHARED_OBJECT.value]))


@pytest.fixture
def timed_repository(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A workspace whose units have a shape, and a worker of its own for the device."""
    monkeypatch.setattr(timed_changes, "measured_code", _content)
    repository.bench.write("ckwatch.toml", (repository.root / "ckwatch.toml").read_text() + '[bench]\nworker = ["w"]\n')
    kernel = repository.root / "k.kernel.toml"
    repository.bench.write("k.kernel.toml", kernel.read_text() + '[[shape]]\nname = "a"\nM = 8\nN = 8\nK = 8\n')
    repository.commit()
    trust(repository.root)  # a worker is a command
    repository.edit("templates/k.hip.j2", "int tile = {{ Tile }};", "int tile = {{ Tile + (10 if Tile == 1 else 0) }};")
    return repository


@pytest.mark.parametrize(
    ("slower", "verdict", "rows"),
    [
        (1.05, "slower", ["SLOW", "SLOW"]),
        (1.0, "same", ["SAME", "SAME"]),
        (BenchmarkFailure(kind=FailureKind.WRONG, message="C is wrong", contestant=ONE), "wrong", []),
        (BenchmarkFailure(kind=FailureKind.WRONG, message="C is wrong", contestant="before"), "same", []),
        (BenchmarkFailure(kind=FailureKind.BUSY, message="it is in use"), "same", []),
    ],
)
def test_both_states_are_timed_in_turns_where_there_is_a_device(
    timed_repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    slower: float | BenchmarkFailure,
    verdict: str,
    rows: list[str],
) -> None:
    worker = Worker(slower)
    monkeypatch.setattr(measuring, "find_devices", worker.find_devices)
    monkeypatch.setattr(measuring, "measure", worker.measure)
    found = timed_repository.report(status=int(verdict == "wrong"))
    (unit,) = found["units"]
    assert unit["change"]["verdict"] == verdict
    assert [one["verdict"] for one in unit["change"]["timed"]["timings"]] == rows
    (job,) = worker.jobs
    assert [one.name for one in job.contestants] == ["before", ONE]
    assert found["notes"] == ([] if rows or verdict == "wrong" else [f"1 unit not timed: {why_not(slower)}"])


def why_not(failure: float | BenchmarkFailure) -> str:
    """The reason of a failure that is none of the new state."""
    assert isinstance(failure, BenchmarkFailure)
    return f"{'at the base, ' if failure.contestant else ''}a on hip:0: {failure.message}"


def test_what_is_slower_is_a_warning_or_fails(
    timed_repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    worker = Worker(1.05)
    monkeypatch.setattr(measuring, "find_devices", worker.find_devices)
    monkeypatch.setattr(measuring, "measure", worker.measure)
    shown = timed_repository.run(
        "--fail-on", "slower", "--report", "text", "--report", f"github={tmp_path}/gh", status=1
    )
    assert "timed in turns on hip:0: 2 comparisons, 2 SLOW\n" in shown
    assert f"↓ {ONE}  slower: time on a, cold cache, hip:0 100.1 µs → 105.1 µs (+5.0 %, SLOW)" in shown
    assert "::error file=k.kernel.toml,line=" in (tmp_path / "gh").read_text()
    assert timed_repository.report("--no-bench")["units"][0]["change"]["timed"] is None
    assert len(worker.jobs) == 1


def test_why_nothing_is_timed_is_said_in_a_line(timed_repository: Repository) -> None:
    notes = [line for line in timed_repository.run().splitlines() if line.startswith("note: ")]
    assert len(notes) == 1
    assert notes[0].startswith("note: 1 unit not timed: ")
    assert timed_repository.report("--device", "hip:0", status=2)["exit_status"] == 2


def test_a_page_needs_its_extra_before_anything_is_built(repository: Repository, tmp_path: Path) -> None:
    given = ["ci", "-C", str(repository.root), "--page", str(tmp_path / "page")]
    assert main(given, outcome_tools=repository.tools, find_spec=lambda _name: None) == 2
    assert not repository.bench.runs
