"""A second build of unchanged instances, and a build after an edit of a comment, against hipcc on one of them.

Goal: 8 unchanged instances in under 0.5 s in all, from the start of the command to its end, through a daemon that runs
and without one; editing a comment or white space starts no compiler. The reference is what one instance costs without a
store: the wall time of its compile, as recorded when it was compiled, the median of the eight.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ckwatch_templates
from benchmarks.choosing import alone, asked_runs
from benchmarks.reporting import DAEMON_CODE, Row, row

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/cli", "daemon/ckwatch/compile")

EXAMPLE = Path(__file__).parent.parent / "examples" / "gemm"
CKWATCH = str(Path(sys.executable).with_name("ckwatch"))
EIGHT = [
    f"gemm_f16/{name}"
    for name in (
        *("v3_128x128x64_intrawave", "v1_128x128x64_intrawave", "v1_128x128x64_interwave", "v2_128x128x64_interwave"),
        *("v4_128x128x64_intrawave", "v5_128x128x64_intrawave", "v3_256x256x32_intrawave", "v3_256x224x64_intrawave"),
    )
]
RUNS = 7


def environment(folder: Path | None = None) -> dict[str, str]:
    """The user's, with state and trust of the benchmark's own in `folder`."""
    own = {"XDG_STATE_HOME": f"{folder}/state", "CKWATCH_TRUST_FILE": f"{folder}/trusted"} if folder else {}
    return {name: value for name, value in (os.environ | own).items() if name != "CKWATCH_NO_DAEMON"}


def command(workspace: Path, *arguments: str, status: int = 0) -> tuple[float, str]:
    """Seconds of one whole `ckwatch` command, and what it printed. Raises AssertionError for another exit status."""
    start = time.perf_counter()
    own = environment(workspace.parent)
    done = subprocess.run([CKWATCH, *arguments], cwd=workspace, capture_output=True, text=True, check=False, env=own)
    seconds = time.perf_counter() - start
    assert done.returncode == status, f"{done.args}: {done.returncode}\n{done.stdout}{done.stderr}"
    return seconds, done.stdout


@contextmanager
def example() -> Iterator[Path]:
    """A copy of the GEMM example, whose daemon ends with the body."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "gemm"
        shutil.copytree(EXAMPLE, workspace)
        try:
            yield workspace
        finally:
            command(workspace, "stop")


def build(workspace: Path, *options: str) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of one whole command, and the units' results."""
    seconds, printed = command(workspace, "build", *EIGHT, "--json", *options)
    lines = [json.loads(line) for line in printed.splitlines()]
    return seconds, [line for line in lines if line["event"] == "unit"]


def compile_seconds(workspace: Path, unit: str) -> float:
    """Time to compile `unit`."""
    _, printed = command(workspace, "explain", unit, "--json")
    return float(json.loads(printed)["state"]["compiled_in_s"])


def measure() -> list[Row]:
    """Three rows."""
    with example() as workspace:
        (workspace / "templates/ck").mkdir(parents=True, exist_ok=True)
        template = workspace / "templates/ck/gemm_universal.hip.j2"
        shutil.copy(ckwatch_templates.ROOT / "ck/gemm_universal.hip.j2", template)
        _, units = build(workspace, "--trust")
        assert len(units) == len(EIGHT)
        again, after_edit, without_daemon = [], [], []
        for number in range(asked_runs(RUNS)):
            seconds, units = build(workspace)
            assert all(unit["from_store"] for unit in units)
            again.append(seconds)
            without_daemon.append(build(workspace, "--no-daemon")[0])
            text = template.read_text()
            template.write_text(f"{text}\n// a comment, number {number}   \n\n")
            seconds, units = build(workspace)
            assert all(unit["from_store"] for unit in units), "editing a comment started a compiler"
            after_edit.append(seconds)
        reference = [compile_seconds(workspace, unit["unit"]) for unit in units]
    common: dict[str, Any] = {"reference_name": "compiling one of them", "unit": "s"}
    return [
        row(
            "second build of 8 unchanged instances, the whole command",
            again,
            reference,
            goal="under 0.5 s in all",
            met=lambda seconds, _: seconds < 0.5,
            **common,
        ),
        row(
            "the same without the daemon (`--no-daemon`)",
            without_daemon,
            reference,
            goal="reported only",
            **common,
        ),
        row(
            "build of 8 instances after an edit of a comment, the whole command",
            after_edit,
            reference,
            goal="starts no compiler (asserted)",
            met=lambda _, ratio: ratio < 1,
            **common,
        ),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
