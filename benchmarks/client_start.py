"""What the client adds to the start of a command, and what one question costs, against httpx doing the same.

Imports are measured in fresh processes, on top of anyio's event loop, which both need. The question is the daemon's
status, over the same socket, with a connection of its own each time (ckwatch) and with one that is kept (httpx).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
import httpx

from benchmarks.quick_daemon import own_trust
from benchmarks.reporting import Row, row, write
from ckwatch.client import Client, connect

IMPORTS = 15
QUESTIONS = 300

IMPORT = """
import time
import anyio._backends._asyncio
began = time.perf_counter()
import {module}
print((time.perf_counter() - began) * 1e3)
"""


def imported_ms(module: str) -> float:
    """Importing `module` in a fresh interpreter."""
    answer = subprocess.run([sys.executable, "-c", IMPORT.format(module=module)], capture_output=True, check=True)
    return float(answer.stdout)


def measure_imports() -> list[Row]:
    """Both modules by turns."""
    ours, reference = [], []
    for _ in range(IMPORTS):
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
                for _ in range(QUESTIONS):
                    began = time.perf_counter()
                    await client.log(1)
                    between = time.perf_counter()
                    (await other.get("/log", params={"lines": "1"})).raise_for_status()
                    reference.append((time.perf_counter() - between) * 1e3)
                    ours.append((between - began) * 1e3)
    goal = "no more than httpx"
    return [row("a question", ours, reference, reference_name="httpx", unit="ms", goal=goal, met=lambda _, r: r <= 1.1)]


async def _socket(client: Client) -> Path:
    return await client._connection._find(None, start=False)


if __name__ == "__main__":
    write([*measure_imports(), *anyio.run(measure_questions)])
