"""Runs the steps of `action.yml` one after the other, as a runner does, but without one: only those with a script.

Steps that use other actions are skipped. Expressions are those that the action has: names, comparisons with a text, `&&`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # its stubs are a package of their own

ACTION = Path(__file__).parents[2] / "action.yml"

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def action() -> dict[str, Any]:
    """The action as it is written."""
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return found


@dataclass(frozen=True)
class ActionRun:
    """Status and log of a run, the names of the steps that ran, the outputs of the action and the job's summary."""

    status: int
    log: str
    ran: tuple[str, ...]
    outputs: Mapping[str, str]
    summary: str


def run_action(
    folder: Path, inputs: Mapping[str, str], *, programs: Path, checkout: Path, github: Mapping[str, Any] | None = None
) -> ActionRun:
    """Run the scripts in `checkout` with `programs` first on PATH, and the runner's files in `folder`."""
    written = action()
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
    context: dict[str, Any] = {
        "inputs": {name: _text(one.get("default", "")) for name, one in written["inputs"].items()} | dict(inputs),
        "github": {"action_path": str(ACTION.parent), "token": "secret", "event": {}} | dict(github or {}),
        "runner": {"temp": str(temporary), "os": "Linux", "arch": "X64"},
        "steps": {},
    }
    status, log, ran = 0, "", []
    for step in written["runs"]["steps"]:
        if status or "run" not in step or not _holds(step.get("if", "true"), context):
            continue
        ran.append(step["name"])
        for path in files.values():
            path.touch()
        added = [line for line in files["GITHUB_PATH"].read_text().splitlines() if line]
        environment = {
            **os.environ,
            **{name: str(path) for name, path in files.items()},
            "RUNNER_TEMP": str(temporary),
            "GITHUB_REPOSITORY": "someone/kernels",
            "PATH": os.pathsep.join([str(programs), *added, os.environ["PATH"]]),
            **{name: _filled(value, context) for name, value in step.get("env", {}).items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        status, log = done.returncode, log + done.stdout
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
        context["steps"][step.get("id", "")] = {"outputs": outputs}
        files["GITHUB_OUTPUT"].unlink()
    found = {name: _filled(one["value"], context) for name, one in written["outputs"].items()}
    return ActionRun(status, log, tuple(ran), found, files["GITHUB_STEP_SUMMARY"].read_text())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filled(text: object, context: Mapping[str, Any]) -> str:
    return _EXPRESSION.sub(lambda found: str(_value(found[1], context) or ""), _text(text))


def _holds(condition: object, context: Mapping[str, Any]) -> bool:
    return all(_value(part.strip(), context) for part in _text(condition).split("&&"))


def _value(expression: str, context: Mapping[str, Any]) -> Any:
    if found := re.fullmatch(r"(.+?) (==|!=) '(.*)'", expression):
        return (_value(found[1], context) == found[3]) is (found[2] == "==")
    if expression == "true":
        return True
    value: Any = context
    for name in expression.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
