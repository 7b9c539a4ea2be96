"""Figures of code objects in the state of units: a real history and store, code objects that clang made, no GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from benches.daemon_bench import KERNEL, Bench, Follower, build, following
from benches.timing_records import measured, record, report
from ckwatch.bench.history.runs import History
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import CkwatchError
from ckwatch.model.figures import Figures
from engine.code_workspace import CodeBench, with_figures

ONE, TWO = "k/one@gfx942", "k/two@gfx942"
SPILLS = {"vgpr_spill_count": 9}
MORE_LDS = {"group_segment_fixed_size": 65280}


@pytest.fixture
def bench(tmp_path: Path) -> CodeBench:
    return CodeBench(tmp_path)


def figures(follower: Follower, name: str = "one") -> Figures:
    found = follower.units[name].figures
    assert found is not None
    return found


def tile(bench: CodeBench, number: int) -> None:
    bench.write("k.kernel.toml", KERNEL.replace("Tile = 1", f"Tile = {number}"))


async def seen_fresh(follower: Follower, key: str | None = None) -> Figures:
    """The figures of the unit `one` when they are those of its present artifact, which is not `key`."""

    def fresh(s: Follower) -> bool:
        found = s.units["one"].figures if "one" in s.units else None
        return found is not None and found.standing == "fresh" and found.artifact_key != key

    await follower.until(fresh)
    return figures(follower)


async def test_a_build_reports_figures_and_warnings(bench: CodeBench) -> None:
    bench.compiles_to(with_figures(**SPILLS), tile=2)
    async with bench.open() as daemon:
        lines = await build(daemon)
        one, two = lines["one"].unit, lines["two"].unit
        assert one is not None
        assert two is not None
        assert one.figures is not None
        found = one.figures
        assert (found.vgprs, found.agprs, found.lds_bytes, found.occupancy, found.limited_by) == (
            194, 0, 32768, 2, "VGPR",
        )  # fmt: skip
        assert (found.standing, found.kernels, found.changes, found.baseline_changes) == ("fresh", 1, (), ())
        assert found.next_step == "26 VGPR and 11,264 bytes of LDS fewer → 3 waves"
        assert found.headline == "194 VGPR, 32768 B LDS, 2 waves/SIMD (VGPR)"
        assert found.kernel.startswith("gemm_universal<")
        assert (found.matrix_use, found.loop_clocks) == (None, None), "without a disassembly"
        assert lines["one"].diagnostics == ()
        (warning,) = lines["two"].diagnostics
        assert (warning.severity, warning.source, warning.code) == ("warning", "performance", "performance/spill")
        assert warning.message == "9 VGPRs spilled"
        assert warning.span == two.place
        assert (two.outcome, two.errors, two.warnings) == ("built", 0, 1)
        file = await daemon.snapshots.file(MAIN, two.place.path)
        assert [one.code for one in file.diagnostics] == ["performance/spill"]
        detail = await daemon.units.unit(MAIN, TWO)
        assert [one.code for one in detail.diagnostics] == ["performance/spill"]


async def test_the_next_daemon_shows_them_without_a_look(bench: CodeBench) -> None:
    bench.compiles_to(with_figures(**SPILLS), tile=2)
    async with bench.open() as daemon:
        await build(daemon)
    assert bench.looks == 2
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: len(s.units) == 2 and all(unit.fresh for unit in s.units.values()))
        assert figures(seen, "two").standing == "fresh"
        assert figures(seen, "two").vgpr_spills == 9
        assert seen.units["two"].warnings == 1
        assert (await build(daemon))["two"].diagnostics[0].code == "performance/spill"
    assert bench.looks == 2


async def test_reports_outlive_the_history(bench: CodeBench) -> None:
    async with bench.open() as daemon:
        await build(daemon)
    bench.history.unlink()
    async with bench.open() as daemon, following(daemon) as seen:
        await seen.until(lambda s: len(s.units) == 2 and all(unit.fresh for unit in s.units.values()))
        assert seen.units["one"].figures is None, "nothing has asked for it yet"
        unit = (await build(daemon, "k/one"))["one"].unit
        assert unit is not None
        assert unit.from_store
        assert unit.figures is not None
    assert bench.looks == 2


async def test_a_damaged_report_is_worked_out_again(bench: CodeBench) -> None:
    async with bench.open() as daemon:
        await build(daemon, "k/one")
    (path,) = bench.store.glob("artifacts/*/*/*/report.json")
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"vgprs":194', b'"vgprs":914'))
    bench.history.unlink()
    async with bench.open() as daemon:
        await build(daemon, "k/one")
        found = await daemon.analysis(MAIN, ONE)
        assert found.report.kernels[0].resources.vgprs == 194
    assert bench.looks == 2
    assert path.read_bytes() == content


async def test_an_edit_is_compared_with_what_was_before_across_a_restart(bench: CodeBench) -> None:
    bench.compiles_to(with_figures(**MORE_LDS), tile=3)
    bench.compiles_to(with_figures(vgpr_count=200), tile=4)
    async with bench.open() as daemon:
        await build(daemon, "k/one")
    async with bench.open() as daemon, following(daemon) as seen:
        before = await seen_fresh(seen)
        tile(bench, 3)
        await seen.until(lambda s: figures(s).standing == "stale")
        assert figures(seen).headline == before.headline, "the last figures stay, marked"
        now = await seen_fresh(seen, before.artifact_key)
        assert now.changes == ("LDS 32768 B → 65280 B", "occupancy 2 → 1", "limited by VGPR → LDS")
        path = seen.units["one"].place.path
        await seen.until(lambda s: path in s.files and bool(s.files[path].diagnostics))
        (drop,) = seen.files[path].diagnostics
        assert drop.code == "performance/occupancy"
        assert drop.message.startswith("occupancy 2 → 1 waves per SIMD, limited by LDS")
    async with bench.open() as daemon, following(daemon) as seen:
        assert (await seen_fresh(seen)).changes == now.changes, "also when nothing changed since"
        tile(bench, 4)
        after = await seen_fresh(seen, now.artifact_key)
        assert after.changes[:2] == ("VGPR 194 → 200", "LDS 65280 B → 32768 B")
        await seen.until(lambda s: not s.files[path].diagnostics)
        tile(bench, 3)
        back = await seen_fresh(seen, after.artifact_key)
        assert back.changes[0] == "VGPR 200 → 194", "what was before is not what was before it once"


async def test_unsaved_text_is_compared_with_the_file(bench: CodeBench) -> None:
    bench.compiles_to(with_figures(vgpr_count=200), tile=3)
    async with bench.open() as daemon, following(daemon, "ann") as ann:
        await build(daemon, "k/one")
        path = str(bench.root / "k.kernel.toml")
        before = await seen_fresh(ann)
        await daemon.requests.overlay("ann", path, KERNEL.replace("Tile = 1", "Tile = 3"))
        assert (await seen_fresh(ann, before.artifact_key)).changes[0] == "VGPR 194 → 200"
        units = await daemon.snapshots.units(MAIN, ["k/one"])
        assert next(iter(units)).figures == before
        await daemon.forget("ann")


async def baseline(daemon: Daemon, bench: Bench) -> None:
    """A baseline of what `one` has compiled to, by a timing that was never taken."""
    (unit,) = await daemon.snapshots.units(MAIN, ["k/one"])
    assert unit.figures is not None
    history = History(bench.history)
    history.open()
    history.timings.add([record(ONE, artifact_key=unit.figures.artifact_key, report=report(measured(ONE)))])
    history.close()
    assert await daemon.benchmarks.set_baseline("first", ["k/one"]) == [ONE]


async def test_and_with_the_baseline(bench: CodeBench) -> None:
    bench.compiles_to(with_figures(vgpr_count=200), tile=3)
    bench.compiles_to(with_figures(vgpr_count=210), tile=4)
    async with bench.open() as daemon, following(daemon) as seen:
        await build(daemon, "k/one")
        await baseline(daemon, bench)
        before = await seen_fresh(seen)
        assert before.baseline_changes == ()
        tile(bench, 3)
        second = await seen_fresh(seen, before.artifact_key)
        tile(bench, 4)
        third = await seen_fresh(seen, second.artifact_key)
        assert (third.changes[0], third.baseline_changes[0]) == ("VGPR 200 → 210", "VGPR 194 → 210")
        found = await daemon.analysis(MAIN, ONE)
        assert found.baseline is not None
        assert found.previous is not None
        vgprs = [one.kernels[0].resources.vgprs for one in (found.baseline, found.previous, found.report)]
        assert (vgprs, found.baseline_name) == ([194, 200, 210], "first")
        looks = bench.looks
        await daemon.benchmarks.remove_baseline("first")
        await seen.until(lambda s: figures(s).baseline_changes == ())
        assert bench.looks == looks
        assert (await daemon.analysis(MAIN, ONE)).baseline is None


async def test_an_evicted_artifact_is_not_compared_with(bench: CodeBench) -> None:
    async with bench.open() as daemon:
        await build(daemon, "k/one")
    (path,) = bench.store.glob("artifacts/*/*/*/report.json")
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    tile(bench, 3)
    async with bench.open() as daemon:
        unit = (await build(daemon, "k/one"))["one"].unit
        assert unit is not None
        assert unit.figures is not None
        assert unit.figures.changes == ()


async def test_a_tool_that_is_killed_fails_no_build_and_is_asked_again(bench: CodeBench) -> None:
    bench.will("killed")
    async with bench.open() as daemon:
        line = (await build(daemon, "k/one"))["one"]
        assert line.unit is not None
        assert line.unit.outcome == "built"
        assert line.unit.figures is not None, "what the metadata says is known"
        assert line.unit.figures.vgprs == 194
    assert not list(bench.store.glob("artifacts/*/*/*/report.json"))
    bench.will("killed", now=False)
    async with bench.open() as daemon:
        await build(daemon, "k/one")
        assert (await daemon.analysis(MAIN, ONE)).report.notes == ()
    assert list(bench.store.glob("artifacts/*/*/*/report.json"))


async def test_an_edit_ends_the_tools(bench: CodeBench) -> None:
    bench.will("hanging")
    async with bench.open() as daemon, following(daemon) as seen:
        async with daemon.builds.build(MAIN, ["k/one"], force=False, check_only=False):
            await bench.started(1)
            await seen.until(lambda s: s.units["one"].phase == "done")
            bench.will("hanging", now=False)
            tile(bench, 3)
            await seen_fresh(seen)
        assert not bench.alive


async def test_a_code_object_that_cannot_be_read(bench: CodeBench) -> None:
    bench.compiles_to(b"\x7fELF" + bytes(60))
    async with bench.open() as daemon:
        line = (await build(daemon, "k/one"))["one"]
        assert line.unit is not None
        assert (line.unit.outcome, line.unit.figures, line.diagnostics) == ("built", None, ())
        found = await daemon.analysis(MAIN, ONE)
        assert found.report.kernels == ()
        assert found.report.notes
    assert bench.looks == 0


async def test_a_unit_that_is_not_built_has_none(bench: CodeBench) -> None:
    async with bench.open() as daemon:
        assert next(iter(await daemon.snapshots.units(MAIN, None))).figures is None
        with pytest.raises(CkwatchError, match="cannot be inspected") as raised:
            await daemon.analysis(MAIN, ONE)
        assert raised.value.hint == "build it first"


async def test_a_unit_that_does_not_compile_is_not_to_be_built_first(bench: CodeBench) -> None:
    bench.write("templates/macros.j2", "BROKEN\n")
    async with bench.open() as daemon:
        await build(daemon, "k/one")
        with pytest.raises(CkwatchError, match="cannot be inspected: BROKEN is no type") as raised:
            await daemon.analysis(MAIN, ONE)
        assert raised.value.hint == f"`ckwatch explain {ONE}` shows its errors"


@pytest.mark.toolchain
async def test_with_the_real_tools(bench: CodeBench) -> None:
    """32 MFMA of 8 passes in the main loop of the v3 128×128×64 f16 kernel: 1,024 clocks of the matrix unit."""
    real = discover()
    toolchain = cast("Toolchain", bench.toolchain)
    tools = replace(toolchain, objdump=real.objdump, mca=real.mca, environment=real.environment)
    bench.toolchain = tools  # type: ignore[assignment]  # as in `CodeBench`
    async with bench.open() as daemon:
        unit = (await build(daemon, "k/one"))["one"].unit
        assert unit is not None
        assert unit.figures is not None
        assert unit.figures.matrix_use is not None
        assert unit.figures.loop_clocks is not None
        assert unit.figures.matrix_use * unit.figures.loop_clocks == pytest.approx(1024)
        assert unit.figures.headline.endswith("% predicted")
    async with bench.open() as daemon:
        again = (await build(daemon, "k/one"))["one"].unit
        assert again is not None
        assert again.figures == unit.figures
