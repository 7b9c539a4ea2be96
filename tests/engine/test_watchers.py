"""The daemon on the other watcher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ckwatch.engine.bootstrap as module
from ckwatch.engine.watch import Watcher, make_watcher
from daemon_bench import Bench, build, following


async def test_an_edit_rebuilds_what_it_affects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def noted(*arguments: Any, **options: Any) -> Watcher:
        watcher = make_watcher(*arguments, **options)
        made.append(type(watcher).__name__)
        return watcher

    monkeypatch.setattr(module, "make_watcher", noted)
    bench = Bench(tmp_path)
    settings = bench.root / "ckwatch.toml"
    bench.write("ckwatch.toml", settings.read_text() + '[daemon]\nwatcher = "watchfiles"\n')
    async with bench.open() as daemon, following(daemon) as follower:
        await build(daemon)
        bench.write("templates/macros.j2", "int edited;\n")
        await follower.until(lambda seen: len(bench.runs) == 4 and not seen.workspace.busy)
        bench.header.write_text("int header_edited;\n")  # outside of the workspace
        await follower.until(lambda seen: len(bench.runs) == 6 and not seen.workspace.busy)
        assert {unit.outcome for unit in follower.units.values()} == {"built"}
    assert made == ["WatchfilesWatcher"]
