"""The daemon watches templates, and headers outside of the workspace, and its log names what changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.daemon_bench import Bench, build, following
from ckwatch.engine.watched_files import RelevantChanges, describe_changes


@pytest.mark.parametrize("watcher", ["", 'watcher = "inotify"', 'watcher = "watchfiles"'], ids=["none", "old", "same"])
async def test_an_edit_rebuilds_what_it_affects(tmp_path: Path, watcher: str) -> None:
    bench = Bench(tmp_path)
    settings = bench.root / "ckwatch.toml"
    bench.write("ckwatch.toml", settings.read_text() + f"{watcher}\n")
    async with bench.open() as daemon, following(daemon) as follower:
        await build(daemon)
        bench.write("templates/macros.j2", "int edited;\n")
        await follower.until(lambda seen: len(bench.runs) == 4 and not seen.workspace.busy)
        bench.header.write_text("int header_edited;\n")  # outside of the workspace
        await follower.until(lambda seen: len(bench.runs) == 6 and not seen.workspace.busy)
        assert {unit.outcome for unit in follower.units.values()} == {"built"}


@pytest.mark.parametrize(
    ("paths", "digests", "reload", "complete", "line"),
    [
        (["/w/t/a.j2"], {"/w/t/a.j2": "1"}, False, True, "changed: t/a.j2"),
        (["/w/a\n.j2", "/ck/h.h"], {"/w/a\n.j2": "1", "/ck/h.h": None}, False, True, "changed: /ck/h.h (gone), 'a\\n.j2'"),
        (["/w/a.j2", "/w/x", "/w/y"], {"/w/a.j2": "1"}, False, True, "changed: a.j2; 2 paths that no unit has read"),
        (["/w/new.kernel.toml"], {}, True, True, "changed: new.kernel.toml; the workspace is read again"),
        ([], {}, False, False, "changed: unknown; all files are compared"),
        (
            [f"/w/{n}" for n in range(7)], {f"/w/{n}": "1" for n in range(7)}, True, False,
            "changed: 0, 1, 2, 3, 4, and 2 more; the workspace is read again; all files are compared",
        ),
    ],
)  # fmt: skip
def test_the_log_names_what_changed(
    paths: list[str], digests: dict[str, str | None], reload: bool, complete: bool, line: str
) -> None:
    assert describe_changes(paths, RelevantChanges(digests, reload, complete), Path("/w"), complete=complete) == line
