"""The action for GitHub's workflows, step by step: its scripts are run as a runner runs them, other actions are not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

from ckwatch.cli.parser import FAILING
from ckwatch.cli.reports import FORMATS
from helpers.action_steps import ACTION, action, run_action

STUB = """\
import json, pathlib, sys
name = pathlib.Path(sys.argv[0]).name
with open({record!r}, "a") as file:
    file.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
if name == "gh":
    sys.exit({gh_status})
for word in sys.argv[1:]:
    if word.startswith("--report="):
        _, kind, path = word.split("=", 2)
        pathlib.Path(path).write_text({{"github": "::error file=k::bad\\n"}}.get(kind, kind + " report\\n"))
print("::warning::this is what a compiler printed")
sys.exit({status} if sys.argv[1:2] == ["ci"] else 0)
"""


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "record"


def programs(tmp_path: Path, record: Path, *, status: int = 0, gh_status: int = 0) -> Path:
    """A folder with a `ckwatch` and a `gh` that only note how they were called."""
    folder = tmp_path / "programs"
    folder.mkdir()
    text = STUB.format(record=str(record), status=status, gh_status=gh_status)
    for name in ("ckwatch", "gh"):
        (folder / name).write_text(f"#!{sys.executable}\n{text}")
        (folder / name).chmod(0o755)
    return folder


def calls(record: Path) -> list[list[str]]:
    return [json.loads(line) for line in record.read_text().splitlines()]


SCRIPTS = {step["name"]: step["run"] for step in action()["runs"]["steps"] if "run" in step}


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_expression_stands_in_a_script(name: str) -> None:
    assert "${{" not in SCRIPTS[name]
    subprocess.run(["bash", "-n", "-c", SCRIPTS[name]], check=True)


def test_every_input_is_used_and_described() -> None:
    written = action()
    steps = json.dumps(written["runs"])
    for name, one in written["inputs"].items():
        assert f"inputs.{name}" in steps
        assert one["description"]


HOSTILE = "x\"; touch owned; $(touch owned) `touch owned` '"


def test_inputs_are_words_whatever_they_hold(tmp_path: Path, record: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    given = {"workspace": HOSTILE, "base": HOSTILE, "fail-on": f"broken {HOSTILE}", "archs": "gfx942 --json *"}
    found = run_action(
        tmp_path / "run", {**given, "version": "installed", "verify": "false", "comment": "true"},
        programs=programs(tmp_path, record), checkout=checkout, github={"event": {"pull_request": {"number": 7}}},
    )  # fmt: skip
    assert found.status == 0
    assert not list(tmp_path.rglob("owned"))
    (ci,) = (call for call in calls(record) if call[:2] == ["ckwatch", "ci"])
    assert ci[2:5] == [f"--workspace={HOSTILE}", "--trust-once", f"--base={HOSTILE}"]
    assert "--fail-on=broken" in ci
    assert [word for word in ci if word.startswith("--arch=")] == ["--arch=gfx942", "--arch=--json", "--arch=*"]


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_run(tmp_path: Path, record: Path, status: int) -> None:
    found = run_action(
        tmp_path / "run",
        {"version": "installed"},
        programs=programs(tmp_path, record, status=status),
        checkout=tmp_path,
    )
    assert found.status == status
    assert found.outputs == {"exit-status": str(status), "reports": str(tmp_path / "run/temporary/ckwatch-reports")}
    assert found.ran == ("Install a toolchain", "Compare with the base", "Export the page", "Report the result")
    assert {path.name for path in Path(found.outputs["reports"]).iterdir()} == {
        "ckwatch.sarif", "junit.xml", "code-quality.json", "report.md", "report.json",
    }  # fmt: skip
    assert found.summary == "markdown report\n"
    # what is printed by compilers is no command, annotations are
    log = found.log[found.log.index("::stop-commands::") :]
    (token,) = re.findall(r"::stop-commands::(\w{32})\n", log)
    assert log.index("::warning::this is what") < log.index(f"::{token}::") < log.index("::error file=k::bad")
    (web,) = (call for call in calls(record) if call[:2] == ["ckwatch", "web"])
    assert "--trust-once" in web


@pytest.mark.parametrize(("gh_status", "said"), [(0, False), (1, True)])
def test_a_comment(tmp_path: Path, record: Path, gh_status: int, *, said: bool) -> None:
    found = run_action(
        tmp_path / "run", {"version": "installed", "comment": "true", "page": "false", "toolchain": "false"},
        programs=programs(tmp_path, record, gh_status=gh_status), checkout=tmp_path,
        github={"event": {"pull_request": {"number": 7}}},
    )  # fmt: skip
    assert (found.status, "needs pull-requests: write" in found.log) == (0, said)
    gh = [call for call in calls(record) if call[0] == "gh"]
    assert gh[0][1:4] == ["api", "--paginate", "repos/someone/kernels/issues/7/comments"]
    assert len(gh) == (1 if said else 2)


def test_nothing_is_commented_without_a_pull_request(tmp_path: Path, record: Path) -> None:
    given = {"version": "installed", "comment": "true"}
    found = run_action(tmp_path / "run", given, programs=programs(tmp_path, record), checkout=tmp_path)
    assert "Comment on the pull request" not in found.ran


def test_the_real_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = tmp_path / "a checkout"
    shutil.copytree(ACTION.parent / "examples/cpp", checkout / "kernels")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(checkout)]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    settings = checkout / "kernels/ckwatch.toml"
    settings.write_text(settings.read_text() + "\nx = [\n")
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "ckwatch").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ckwatch "$@"\n')
    (folder / "ckwatch").chmod(0o755)
    monkeypatch.setenv("CKWATCH_TRUST_FILE", str(tmp_path / "trusted"))
    given = {"version": "installed", "workspace": "kernels", "toolchain": "false", "page": "false", "verify": "false"}
    found = run_action(tmp_path / "run", given, programs=folder, checkout=checkout)
    assert found.status == 1, found.log
    assert "\n::error file=kernels/ckwatch.toml,line=" in found.log
    assert "1 new error in kernel files" in found.summary
    reports = Path(found.outputs["reports"])
    (run,) = json.loads((reports / "ckwatch.sarif").read_text())["runs"]
    assert [one["ruleId"] for one in run["results"]] == ["workspace/syntax"]
    assert not (tmp_path / "trusted").exists()


def test_the_page_names_all_inputs_formats_and_verdicts() -> None:
    page = (ACTION.parent / "docs/ci.md").read_text()
    for name in action()["inputs"]:
        assert f"| `{name}` |" in page
    for name in (*FORMATS, "text", "markdown", "json"):
        assert f"| `{name}` |" in page
    for verdict in FAILING:
        assert f"| `{verdict}` |" in page


def test_the_page_has_workflows_that_can_be_pasted() -> None:
    page = (ACTION.parent / "docs/ci.md").read_text()
    blocks: list[Any] = [
        yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ]
    steps = [step for one in blocks for job in one.get("jobs", {}).values() for step in job["steps"]]
    own = [step["with"] for step in steps if step.get("uses", "").startswith("ckwatch/ckwatch@") and "with" in step]
    assert own
    for given in own:
        assert {*given} <= {*action()["inputs"]}
