"""Time that the client adds to the start of a command, that a question takes, and a whole command that finds a mistake.

Imports are measured in fresh processes, on top of anyio's event loop, which both need; against httpx. The question is
for the log, over the same socket, with a connection of its own each time (ckwatch) and with one that is kept (httpx).

The command is `ckwatch check UNIT` in the GEMM example, whose daemon runs, at once behind the save of a tile that CK
rejects, and of a template that uses an undeclared name: from its start until it has printed the diagnostic and ended.
Goal: at most 0.15 s. The
alternative is the same command with `--no-daemon`; an interpreter that does nothing is printed beside them.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
import httpx

import ckwatch_templates
from benchmarks.choosing import alone, asked_runs
from benchmarks.quick_daemon import own_trust
from benchmarks.rebuilding import command, environment, example
from benchmarks.reporting import DAEMON_CODE, Row, row
from benchmarks.saving import save
from ckwatch.client import Client, connect

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/cli")

IMPORTS = 15
QUESTIONS = 300
CHECKS = 11
UNIT = "gemm_f16/v3_128x128x64_intrawave"

IMPORT = """
import time
import anyio._backends._asyncio
began = time.perf_counter()
import {module}
print((time.perf_counter() - began) * 1e3)
"""


def imported_ms(module: str) -> float:
    """Importing `module` in a fresh interpreter."""
    answer = subprocess.run(
        [sys.executable, "-c", IMPORT.format(module=module)], capture_output=True, check=True, env=environment()
    )
    return float(answer.stdout)


def measure_imports() -> list[Row]:
    """Both modules by turns."""
    ours, reference = [], []
    for _ in range(asked_runs(IMPORTS)):
        ours.append(imported_ms("ckwatch.client"))
        reference.append(imported_ms("httpx"))
    goal = "less than httpx alone"
    return [
        row(
            "import of the client",
            ours,
            reference,
            reference_name="httpx",
            unit="ms",
            goal=goal,
            met=lambda _, r: r < 1,
        )
    ]


async def measure_questions() -> list[Row]:
    """Both clients by turns, on one daemon."""
    with own_trust(), tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ckwatch.toml").touch()
        async with connect(folder, private=True, trust=True, client_name="benchmark") as client:
            transport = httpx.AsyncHTTPTransport(uds=os.fspath(await _socket(client)))
            async with httpx.AsyncClient(transport=transport, base_url="http://ckwatch/v1") as other:
                ours, reference = [], []
                for _ in range(asked_runs(QUESTIONS)):
                    began = time.perf_counter()
                    await client.log(1)
                    between = time.perf_counter()
                    (await other.get("/log", params={"lines": "1"})).raise_for_status()
                    reference.append((time.perf_counter() - between) * 1e3)
                    ours.append((between - began) * 1e3)
    goal = "no more than httpx"
    return [row("a question", ours, reference, reference_name="httpx", unit="ms", goal=goal, met=lambda _, r: r <= 1.1)]


def measure_check() -> list[Row]:
    """The command by turns with the daemon and without; the mistake is another one each time."""
    bare, rows = [], []
    with example() as workspace:
        kernel_file, template = workspace / "gemm_f16.kernel.toml", workspace / "templates/ck/gemm_universal.hip.j2"
        template.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ckwatch_templates.ROOT / "ck/gemm_universal.hip.j2", template)
        tile, text = kernel_file.read_text(), template.read_text()
        command(workspace, "build", UNIT, "--trust")
        mistakes = (
            ("a tile that CK rejects", "[rule/", kernel_file, tile, "NPerBlock = 128", "NPerBlock = {}"),
            ("an undeclared name", "undeclared", template, text, "", "{{{{ undeclared_{} }}}}\n"),
        )
        for name, shown, path, right, before, after in mistakes:
            ours, reference = list[float](), list[float]()
            for number in range(asked_runs(CHECKS)):
                for options, times in (((), ours), (("--no-daemon",), reference)):
                    save(path, right.replace(before, after.format(97 + 4 * number + 2 * len(options)), 1))
                    seconds, printed = command(workspace, "check", UNIT, *options, status=1)
                    assert shown in printed, printed
                    times.append(seconds)
                began = time.perf_counter()
                subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
                bare.append(time.perf_counter() - began)
            save(path, right)
            command(workspace, "check", UNIT)
            rows.append(
                row(
                    f"`ckwatch check UNIT` of a saved mistake, the whole command: {name}",
                    ours,
                    reference,
                    reference_name="the same with `--no-daemon`",
                    unit="s",
                    goal="at most 0.15 s",
                    met=lambda seconds, _: seconds <= 0.15,
                )
            )
    print(f"an interpreter that does nothing: {statistics.median(bare):.3f} s")
    return rows


def measure() -> list[Row]:
    """Four rows."""
    return [*measure_imports(), *anyio.run(measure_questions), *measure_check()]


async def _socket(client: Client) -> Path:
    return await client._connection._find(None, start=False)


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
