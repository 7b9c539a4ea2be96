"""The daemon's status of its workspace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benches.daemon_bench import Bench
from ckwatch.core.events import MAIN


async def test_the_folders_of_headers_are_the_compilers(tmp_path: Path) -> None:
    """Without those that hold everything on the machine."""
    bench = Bench(tmp_path)
    bench.toolchain = replace(bench.toolchain, include_folders=(Path("/usr"), bench.header.parent))
    async with bench.open() as daemon:
        assert (await daemon.statuses.workspace(MAIN)).header_folders == (str(bench.header.parent),)
