"""`ckwatch check` of one saved mistake, the whole command from its start to its end, with a daemon that runs.

Goal: 0.15 s. The mistakes are an undeclared name in a tag of the template, and a tile parameter that an instance rule
refuses; each is saved right before the command, and taken back, and checked again, after it. The reference is the start
of Python with the event loop and the validation that other commands load.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ckwatch_templates
from benchmarks.rebuilding import CKWATCH, EIGHT, EXAMPLE, environment
from benchmarks.reporting import Row, row, write

RUNS = 15
ONE = EIGHT[0]
LOADED = "import anyio._backends._asyncio, ckwatch.wire.messages"


def seconds_of(command: list[str], workspace: Path, status: int) -> float:
    """What one whole command takes, which ends with this status."""
    start_s = time.perf_counter()
    done = subprocess.run(command, cwd=workspace, capture_output=True, check=False, env=environment(workspace))
    seconds = time.perf_counter() - start_s
    assert done.returncode == status, done.stderr.decode()
    return seconds


def measure() -> list[Row]:
    """Two rows."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "gemm"
        shutil.copytree(EXAMPLE, workspace)
        template = workspace / "templates/ck/gemm_universal.hip.j2"
        template.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ckwatch_templates.ROOT / "ck/gemm_universal.hip.j2", template)
        kernel_file = workspace / "gemm_f16.kernel.toml"
        texts = {path: path.read_text() for path in (template, kernel_file)}
        check = [CKWATCH, "check", ONE]
        seconds_of([*check, "--trust"], workspace, 0)
        mistakes: dict[str, tuple[Path, Callable[[int], str]]] = {
            "undeclared name in a tag": (template, lambda run: f"{texts[template]}// {{{{ undeclared_{run} }}}}\n"),
            "tile parameter that a rule refuses": (
                kernel_file,
                lambda run: texts[kernel_file].replace("MPerBlock = 128", f"MPerBlock = {131 + 2 * run}", 1),
            ),
        }
        rows = []
        for name, (path, mistaken) in mistakes.items():
            ours, reference = [], []
            for run in range(RUNS):
                path.write_text(mistaken(run))
                ours.append(seconds_of(check, workspace, 1))
                path.write_text(texts[path])
                seconds_of([CKWATCH, "check"], workspace, 0)
                reference.append(seconds_of([sys.executable, "-c", LOADED], workspace, 0))
            rows.append(
                row(
                    f"`ckwatch check` of one saved mistake, whole command: {name}",
                    ours,
                    reference,
                    reference_name="starting Python with an event loop and the wire types",
                    unit="s",
                    goal="at most 0.15 s",
                    met=lambda seconds, _: seconds <= 0.15,
                )
            )
        subprocess.run([CKWATCH, "stop"], cwd=workspace, env=environment(workspace), check=True, capture_output=True)
    return rows


if __name__ == "__main__":
    write(measure())
