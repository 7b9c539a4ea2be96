"""A second build of unchanged instances, and a build after an edit of a comment, against hipcc on one of them.

Goal: 8 unchanged instances in under 0.5 s in all, from the start of the command to its end, through a daemon that runs
and without one; editing a comment or white space starts no compiler. The reference is what one instance costs without a
store: the wall time of its compile, as recorded when it was compiled.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ckwatch_templates
from benchmarks.reporting import Row, row, write

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


def environment(workspace: Path) -> dict[str, str]:
    """The user's, with state and trust of the benchmark's own.

    Python writes its bytecode as it does for users; without it every start would compile ckwatch itself.
    """
    own = {"XDG_STATE_HOME": str(workspace.parent / "state"), "CKWATCH_TRUST_FILE": str(workspace.parent / "trusted")}
    env = os.environ | own
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env.pop("CKWATCH_NO_DAEMON", None)
    return env


def build(workspace: Path, *options: str) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of one whole command, and the units' results."""
    start = time.perf_counter()
    done = subprocess.run(
        [CKWATCH, "build", *EIGHT, "--json", *options],
        cwd=workspace, capture_output=True, text=True, check=True, env=environment(workspace),
    )  # fmt: skip
    seconds = time.perf_counter() - start
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return seconds, [line for line in lines if line["event"] == "unit"]


def compile_seconds(workspace: Path, unit: str) -> float:
    """What compiling `unit` took."""
    done = subprocess.run(
        [CKWATCH, "explain", unit, "--json"],
        cwd=workspace, capture_output=True, text=True, check=True, env=environment(workspace),
    )  # fmt: skip
    return float(json.loads(done.stdout)["state"]["compiled_in_s"])


def measure() -> list[Row]:
    """Three rows."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "gemm"
        shutil.copytree(EXAMPLE, workspace)
        (workspace / "templates/ck").mkdir(parents=True, exist_ok=True)
        template = workspace / "templates/ck/gemm_universal.hip.j2"
        shutil.copy(ckwatch_templates.ROOT / "ck/gemm_universal.hip.j2", template)
        _, units = build(workspace, "--trust")
        assert len(units) == len(EIGHT)
        again, after_edit, alone = [], [], []
        for number in range(RUNS):
            seconds, units = build(workspace)
            assert all(unit["from_store"] for unit in units)
            again.append(seconds)
            alone.append(build(workspace, "--no-daemon")[0])
            text = template.read_text()
            template.write_text(f"{text}\n// a comment, number {number}   \n\n")
            seconds, units = build(workspace)
            assert all(unit["from_store"] for unit in units), "editing a comment started a compiler"
            after_edit.append(seconds)
        reference = [compile_seconds(workspace, units[0]["unit"])]
        subprocess.run([CKWATCH, "stop"], cwd=workspace, env=environment(workspace), check=True, capture_output=True)
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
            alone,
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
    write(measure())
