"""Time traces by the daemon, with a compiler that is a script."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from benches.daemon_bench import SECONDS, TEMPLATE, Bench
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import CkwatchError, ToolchainError, UnknownUnitError
from helpers.in_own_task import in_own_task

TRACES = Path(__file__).parent.parent / "data/timetrace"
UNIT = "k/one@gfx942"

# The scripts of the bench, with a trace of the pass that is asked for.
TRACES_TOO = """\
for argument; do
    case "$argument" in
    -ftime-trace=*) cp "{traces}/${{argument#-ftime-trace=}}" . || exit 1 ;;
    esac
done
echo "$@" >> "{folder}/commands"
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    shutil.copytree(TRACES, tmp_path / "traces")
    script = tmp_path / "hipcc"
    first, _, rest = script.read_text().partition("\n")
    script.write_text(f"{first}\n{TRACES_TOO.format(folder=tmp_path, traces=tmp_path / 'traces')}{rest}")
    return made


@pytest.fixture
async def daemon(bench: Bench) -> AsyncIterator[Daemon]:
    async with in_own_task(bench.open()) as daemon:
        yield daemon


def commands(bench: Bench) -> list[list[str]]:
    path = bench.folder / "commands"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def checked(daemon: Daemon, client: str = MAIN) -> None:
    """Return when the daemon knows the files as they are."""
    async with daemon.builds.build(client, [UNIT], force=False, check_only=True) as lines:
        assert [line.event async for line in lines][-1] == "done"


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".partial"))


async def test_where_the_time_goes(daemon: Daemon, bench: Bench) -> None:
    found = await daemon.time_traces.time_trace(MAIN, UNIT, None)
    assert (found.unit, found.diagnostics, found.path) == (UNIT, (), None)
    device, host = found.passes
    assert (device.name, host.name) == ("device pass (gfx942)", "host pass")
    assert device.stages["optimizer"] == pytest.approx(7.594, abs=0.002)
    assert host.templates[0].name == "std::reverse_iterator"
    assert (device.template_count, device.instantiation_count) == (12, 21)
    assert 0 < device.seconds < SECONDS


async def test_each_pass_is_compiled_as_the_unit_is_and_nothing_is_kept(daemon: Daemon, bench: Bench) -> None:
    await daemon.time_traces.time_trace(MAIN, UNIT, None)
    told = {
        side: next(line for line in commands(bench) if f"--offload-{side}-only" in line) for side in ("device", "host")
    }
    assert len(commands(bench)) == 2
    for side, line in told.items():
        assert f"-ftime-trace={side}.json" in line
        assert {"-O2", "--offload-arch=gfx942", "kernel.hip"} <= set(line)
    assert await daemon.units.artifact(MAIN, UNIT) is None
    assert "built" not in {run.outcome for run in await daemon.units.runs(UNIT, 5)}


async def test_a_file_for_chrome(daemon: Daemon, bench: Bench, tmp_path: Path) -> None:
    target = tmp_path / "out ü" / "trace.json"
    target.parent.mkdir()
    target.write_text("old")
    found = await daemon.time_traces.time_trace(MAIN, UNIT, str(target))
    assert found.path == str(target)
    written: dict[str, Any] = json.loads(target.read_text())
    names = [event["args"]["name"] for event in written["traceEvents"] if event["name"] == "process_name"]
    assert names == ["device pass (gfx942)", "host pass"]
    assert sum(event["name"] == "ExecuteCompiler" for event in written["traceEvents"]) == 2
    assert leftovers(target.parent) == []


async def test_a_link_stays_one(daemon: Daemon, tmp_path: Path) -> None:
    link, real = tmp_path / "link.json", tmp_path / "real.json"
    link.symlink_to(real)
    await daemon.time_traces.time_trace(MAIN, UNIT, str(link))
    assert link.is_symlink()
    assert json.loads(real.read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone/t.json", "cannot write .*/gone/t.json: No such file or directory"),
        ("folder", "cannot write .*/folder: it is a folder"),
        ("file/t.json", "cannot write .*/file/t.json: Not a directory"),
        ("pipe", "cannot write .*/pipe: it is not a regular file"),
        ("x" * 300, "cannot write .*x: File name too long"),
    ],
)
async def test_a_file_that_cannot_be_written_is_reported_before_the_compile(
    daemon: Daemon, bench: Bench, tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CkwatchError, match=message):
        await daemon.time_traces.time_trace(MAIN, UNIT, str(tmp_path / name))
    assert commands(bench) == []


async def test_a_unit_that_does_not_compile(daemon: Daemon, bench: Bench, tmp_path: Path) -> None:
    path = bench.write("templates/k.hip.j2", TEMPLATE + "\nBROKEN x;\n")
    target = tmp_path / "t.json"
    await checked(daemon)
    found = await daemon.time_traces.time_trace(MAIN, UNIT, str(target))
    assert found.passes == ()
    (error,) = found.diagnostics
    assert (error.span.path, error.span.start.line, error.severity) == (path, 4, "error")
    assert "BROKEN" in error.message
    assert not target.exists()
    assert leftovers(tmp_path) == []


async def test_a_unit_that_does_not_render(daemon: Daemon, bench: Bench) -> None:
    path = bench.write("templates/k.hip.j2", TEMPLATE.replace("Tile", "Tyle"))
    await checked(daemon)
    found = await daemon.time_traces.time_trace(MAIN, UNIT, None)
    assert (found.passes, [error.span.path for error in found.diagnostics]) == ((), [path])
    assert commands(bench) == []


async def test_as_a_client_sees_it(daemon: Daemon, bench: Bench) -> None:
    await daemon.requests.overlay("ann", str(bench.root / "templates/macros.j2"), "BROKEN unsaved;\n")
    await checked(daemon, "ann")
    assert (await daemon.time_traces.time_trace("ann", UNIT, None)).diagnostics
    assert (await daemon.time_traces.time_trace(MAIN, UNIT, None)).passes


async def test_an_unknown_unit(daemon: Daemon) -> None:
    with pytest.raises(UnknownUnitError, match="is called 'k/on@gfx942'"):
        await daemon.time_traces.time_trace(MAIN, "k/on@gfx942", None)


async def test_a_compiler_without_traces(daemon: Daemon, bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "traces/host.json").write_text('{"traceEvents": 3}')
    target = tmp_path / "t.json"
    with pytest.raises(ToolchainError, match="trace cannot be read: it has no list"):
        await daemon.time_traces.time_trace(MAIN, UNIT, str(target))
    assert (target.exists(), leftovers(tmp_path)) == (False, [])


async def test_a_compiler_that_is_killed(daemon: Daemon, bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "hipcc").write_text("#!/bin/sh\nkill -KILL $$\n")
    with pytest.raises(ToolchainError, match="was killed"):
        await daemon.time_traces.time_trace(MAIN, UNIT, None)


async def test_cancelled_with_its_client(daemon: Daemon, bench: Bench, tmp_path: Path) -> None:
    bench.will("slow")
    target = tmp_path / "t.json"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(daemon.time_traces.time_trace, MAIN, UNIT, str(target))
        await bench.started(2)
        tasks.cancel_scope.cancel()
    assert bench.alive == []
    assert (target.exists(), leftovers(tmp_path)) == (False, [])
    bench.will("slow", now=False)
    assert (await daemon.time_traces.time_trace(MAIN, UNIT, None)).passes


async def test_cancelled_by_another_client(daemon: Daemon, bench: Bench) -> None:
    with anyio.fail_after(SECONDS):
        while not ((units := daemon.loop.state.main.units) and all(one.settled for one in units.values())):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    bench.will("slow")
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            with pytest.raises(CkwatchError, match="was cancelled"):
                await daemon.time_traces.time_trace(MAIN, UNIT, None)

        tasks.start_soon(ask)
        await bench.started(2)
        assert UNIT not in await daemon.builds.cancel(MAIN, ["k/two"])
        assert await daemon.builds.cancel(MAIN, ["k/one"]) == [UNIT]
    assert bench.alive == []
    assert await daemon.builds.cancel(MAIN, None) == []


async def test_a_compiler_that_is_gone(daemon: Daemon, bench: Bench) -> None:
    (bench.folder / "hipcc").unlink()
    with pytest.raises(ToolchainError, match=r"cannot start .*hipcc"):
        await daemon.time_traces.time_trace(MAIN, UNIT, None)
