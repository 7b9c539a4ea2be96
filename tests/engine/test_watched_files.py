"""The daemon watches templates, and headers outside of the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon_bench import Bench, build, following


@pytest.mark.parametrize("watcher", ["", 'watcher = "inotify"', 'watcher = "watchfiles"'], ids=["none", "old", "same"])
async def test_an_edit_rebuilds_what_it_affects(tmp_path: Path, watcher: str) -> None:
    bench = Bench(tmp_path)
    settings = bench.root / "ckwatch.toml"
    bench.write("ckwatch.toml", settings.read_text() + f"[daemon]\n{watcher}\n")
    async with bench.open() as daemon, following(daemon) as follower:
        await build(daemon)
        bench.write("templates/macros.j2", "int edited;\n")
        await follower.until(lambda seen: len(bench.runs) == 4 and not seen.workspace.busy)
        bench.header.write_text("int header_edited;\n")  # outside of the workspace
        await follower.until(lambda seen: len(bench.runs) == 6 and not seen.workspace.busy)
        assert {unit.outcome for unit in follower.units.values()} == {"built"}
