"""Figures belong to the present input of a unit or are marked, whichever query shows them, however the unit stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from benches.daemon_bench import Follower, build, following
from benches.timing_records import measured, record, report
from ckwatch.bench.history.runs import History
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.workspace.loading import load_workspace
from engine.code_workspace import CodeBench
from helpers.workspaces import gemm_kernel

ONE = "k/one@gfx942"


def kernel(tile: int | str) -> str:
    """The kernel file; `size` is the shape that it is ranked on."""
    shapes = {"size": {"M": 256, "N": 256, "K": 256}}
    return gemm_kernel("k.hip.j2", {"one": {"Tile": tile}, "two": {"Tile": 2}}, shapes=shapes)


async def refused(bench: CodeBench, _daemon: Daemon, seen: Follower) -> None:
    """The template has an error: no compiler is asked."""
    bench.write("k.kernel.toml", kernel(7).replace("Tile = 7", "Til = 7"))
    await seen.until(lambda s: s.units["one"].errors == 1 and s.units["one"].fresh)


async def does_not_compile(bench: CodeBench, _daemon: Daemon, seen: Follower) -> None:
    bench.write("k.kernel.toml", kernel("BROKEN"))
    await seen.until(lambda s: s.units["one"].outcome == "failed" and s.units["one"].fresh)


async def compiling(bench: CodeBench, _daemon: Daemon, seen: Follower) -> None:
    bench.will("slow")
    bench.write("k.kernel.toml", kernel(3))
    await seen.until(lambda s: s.units["one"].phase == "compiling")


async def cancelled(bench: CodeBench, daemon: Daemon, seen: Follower) -> None:
    """Checked, and not compiled since it changed."""
    await compiling(bench, daemon, seen)
    await daemon.builds.cancel(MAIN, None)
    await seen.until(lambda s: s.units["one"].phase == "idle")


EDITS: dict[Callable[[CodeBench, Daemon, Follower], Awaitable[None]], str] = {
    refused: "no template reads the parameter 'Til'",
    does_not_compile: "BROKEN is no type",
    compiling: "it is being built",
    cancelled: "it was not built since it changed",
}
"""Ways in which a unit that was built can change, and why it has no rank then."""


@pytest.mark.parametrize(("edit", "why"), EDITS.items(), ids=[edit.__name__ for edit in EDITS])
async def test_no_figure_of_an_earlier_input_is_shown_as_the_present_ones(
    edit: Callable[[CodeBench, Daemon, Follower], Awaitable[None]], why: str, tmp_path: Path
) -> None:
    bench = CodeBench(tmp_path)
    bench.write("k.kernel.toml", kernel(1))
    async with bench.open() as daemon:
        unit = (await build(daemon))["one"].unit
        assert unit is not None
        assert unit.figures is not None
    (shape,) = load_workspace(bench.root).kernels[0].shapes
    taken: dict[str, Any] = {
        "shape": "size",
        "sizes": shape.sizes,
        "runtime": shape.runtime,
        "report": report(measured(ONE)),
    }
    history = History(bench.history)
    history.open()
    history.timings.add([record(ONE, artifact_key=unit.figures.artifact_key, **taken)])
    history.close()
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon)
        await seen.until(lambda s: "one" in s.units)
        assert await standings(daemon) == {"fresh"}
        await edit(bench, daemon, seen)
        assert await standings(daemon) == {"stale"}
        written = ",".join(f"{name}={shape.sizes[name]}" for name in "MNK")
        ranking = await daemon.analyses.predicted(MAIN, "k", written, None, "")
        assert ranking == await daemon.analyses.predicted(MAIN, "k", None, None, ""), "the first shape"
        with pytest.raises(UnknownUnitError, match="there is no kernel 'k/one'") as raised:
            await daemon.analyses.predicted(MAIN, "k/one", None, None, "")
        assert raised.value.hint == "did you mean 'k'?"
        assert ranking.shape == "size"
        (row,) = [row for row in ranking.rows if row.name == "one"]
        assert (row.place, ranking.measured_us) == (None, {})
        assert ranking.intensity is not None
        assert why in row.because
        assert (await daemon.analyses.calibration()).timed == 0
        if edit is not compiling:
            state = next(iter(await daemon.snapshots.units(MAIN, [ONE])))
            assert (state.key is None) == (edit is not does_not_compile), "that of another input"
        with pytest.raises(CkwatchError, match=r"has changed since it was built|has not been built"):
            await daemon.units.runner(MAIN, ONE, str(tmp_path / "runner"))
        await daemon.builds.cancel(MAIN, None)


async def standings(daemon: Daemon) -> set[str]:
    """Return the unit's figures from each query that shows any."""
    (unit,) = await daemon.snapshots.units(MAIN, [ONE])
    assert unit.figures is not None
    assert unit.timings
    found = {unit.figures.standing, *(timing.standing for timing in unit.timings)}
    found |= {timing.standing for timing in await daemon.benchmarks.timings(ONE, None, 1)}
    found |= {row.timing.standing for row in await daemon.benchmarks.best("k", None) if row.timing is not None}
    fresh = []
    if unit.outcome != "failed" or unit.key is None:  # else the compiler's result has no code object
        analysis = await daemon.analysis(MAIN, ONE)
        assert bool(analysis.shapes) is analysis.fresh, "predictions take the present parameters"
        fresh = [analysis.fresh]
        artifact = await daemon.units.artifact(MAIN, ONE)
        assert artifact is not None
        fresh.append(artifact.fresh)
    return found | {"fresh" if one else "stale" for one in fresh}
