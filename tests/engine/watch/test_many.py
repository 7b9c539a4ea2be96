"""Thousands of changes are one batch, or few."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio.to_thread

from benches.watching import watching

WRITE = """
import sys
for number in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/{number}.j2", "w") as file:
        file.write("1")
"""


async def test_what_happens_at_once_is_one_batch(workspace: Path) -> None:
    count = 3000
    async with watching([workspace]) as reports:
        for number in range(count):
            (workspace / f"{number}.j2").write_text("1")
        await reports.until(lambda: len(reports.paths) == count)
        # Or few, where what watches is behind what writes for longer than the quiet.
        assert len(reports.batches) < count / 10
        assert reports.paths == {str(workspace / f"{number}.j2") for number in range(count)}


async def test_a_checkout_by_another_process(workspace: Path) -> None:
    count = 3000
    async with watching([workspace]) as reports:
        await anyio.to_thread.run_sync(
            lambda: subprocess.run([sys.executable, "-c", WRITE, str(workspace), str(count)], check=True)
        )
        await reports.until(lambda: len(reports.paths) == count)
        # One, unless the machine is so busy that the writer pauses at its beginning, or longer than the quiet.
        assert len(reports.batches) < count / 10
        assert all(batch.complete for batch in reports.batches)
