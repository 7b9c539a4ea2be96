"""Changes that may raise the occupancy of the GEMM example, whose kernel has been compiled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benches.daemon_bench import PLACEHOLDER, build
from benches.gemm_bench import GEMM
from benches.gemm_bench import PLACEHOLDER as GEMM_PLACEHOLDER
from ckwatch.compile.toolchain.model import HeaderLibrary
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.wire.analysis import OccupancySteps
from engine.code_workspace import CodeBench, with_figures
from fakes.fake_compiler import dynamic_symbols, elf

UNIT = "gemm_f16/v3_128x128x64_intrawave@gfx942"
NAME = UNIT.partition("/")[2].partition("@")[0]
FILE = (GEMM / "gemm_f16.kernel.toml").read_text()


@pytest.fixture
def bench(tmp_path: Path) -> CodeBench:
    """The example, compiled to what clang makes of its first instance: 194 VGPR, 32 KiB of LDS, 2 waves per SIMD."""
    bench = CodeBench(tmp_path)
    (bench.root / "k.kernel.toml").unlink()
    bench.write("gemm_f16.kernel.toml", FILE)
    script = tmp_path / "hipcc"
    script.write_text(script.read_text().replace(PLACEHOLDER, GEMM_PLACEHOLDER))
    headers = HeaderLibrary(bench.header.parent, "1.2.0", "here")
    bench.toolchain = replace(bench.toolchain, ck=headers)  # type: ignore[call-arg]  # a real one, of scripts
    (tmp_path / "so").write_bytes(elf(dynamic_symbols((GEMM_PLACEHOLDER, 1, 0, 5))))
    return bench


def shown(steps: OccupancySteps) -> list[dict[str, tuple[object, object]]]:
    return [{one.name: (one.before, one.after) for one in change.parameters} for change in steps.changes]


A = "ABlockTransferThreadClusterLengths_AK0_M_AK1"
B = "BBlockTransferThreadClusterLengths_BK0_N_BK1"
HALF_K = {"KPerBlock": (64, 32), A: ([8, 32, 1], [4, 64, 1]), B: ([8, 32, 1], [4, 64, 1])}


async def test_the_nearest_changes(bench: CodeBench) -> None:
    async with bench.open() as daemon:
        line = (await build(daemon, UNIT))[NAME]
        assert line.unit is not None
        assert line.unit.figures is not None
        steps = await daemon.occupancy.steps(MAIN, UNIT)
        assert (steps.unit, steps.artifact_key) == (UNIT, line.unit.figures.artifact_key)
        assert line.unit.figures.next_step == "26 VGPR and 11,264 bytes of LDS fewer → 3 waves"
        assert (steps.waves, steps.workgroups) == (3, 3)
        assert HALF_K in shown(steps)
        assert len(steps.changes) == 3
        estimates = steps.changes[shown(steps).index(HALF_K)].estimates
        assert [(one.resource, one.present) for one in estimates] == [("VGPR", 194), ("LDS", 32768)]
        assert estimates[0].estimated <= 168
        assert estimates[1].estimated == 16384


async def test_what_is_there_already_is_not_proposed(bench: CodeBench) -> None:
    own = f"MPerBlock = 128\nNPerBlock = 128\nKPerBlock = 32\nMXdlPerWave = 2\nNXdlPerWave = 2\n{A} = [4, 64, 1]\n"
    bench.write(
        "gemm_f16.kernel.toml",
        f'{FILE}\n[[instance]]\nname = "half"\n{own}{B} = [4, 64, 1]\nBlkGemmPipelineVer = "v3"\n',
    )
    async with bench.open() as daemon:
        await build(daemon, UNIT)
        steps = await daemon.occupancy.steps(MAIN, UNIT)
        assert steps.changes
        assert HALF_K not in shown(steps)


async def test_nothing_is_proposed_where_nothing_would_help(bench: CodeBench) -> None:
    bench.compiles_to(with_figures(vgpr_count=64, group_segment_fixed_size=8192))
    async with bench.open() as daemon:
        line = (await build(daemon, UNIT))[NAME]
        assert line.unit is not None
        assert line.unit.figures is not None
        assert (line.unit.figures.occupancy, line.unit.figures.next_step) == (8, "")
        steps = await daemon.occupancy.steps(MAIN, UNIT)
        assert (steps.waves, steps.workgroups, steps.changes) == (None, None, ())


async def checked(daemon: Daemon, client: str = MAIN) -> None:
    async with daemon.builds.build(client, [UNIT], force=False, check_only=True) as lines:
        async for _ in lines:
            pass


async def refused(daemon: Daemon, unit: str, client: str = MAIN) -> str:
    with pytest.raises(CkwatchError) as error:
        await daemon.occupancy.steps(client, unit)
    return error.value.message


async def test_a_unit_that_is_not_built_as_it_is(bench: CodeBench) -> None:
    async with bench.open() as daemon:
        await checked(daemon)
        assert await refused(daemon, UNIT) == f"'{UNIT}' cannot be inspected: it was not built"
        await build(daemon, UNIT)
        path = str(bench.root / "gemm_f16.kernel.toml")
        await daemon.requests.overlay("editor", path, FILE.replace('PipelineVer = "v3"', 'PipelineVer = "v1"', 1))
        await checked(daemon, "editor")
        assert await refused(daemon, UNIT, "editor") == f"'{UNIT}' was not built since it changed"
        with pytest.raises(UnknownUnitError):
            await daemon.occupancy.steps(MAIN, "gemm_f16/none@gfx942")
