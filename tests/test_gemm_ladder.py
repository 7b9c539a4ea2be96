"""A GEMM of Composable Kernel compiled in parts, with what another instance of it has instantiated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileRequest, CompileStatus
from ckwatch.compile.single_call import compile_source
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.discover import discover
from ckwatch.render.renderer import Renderer
from ckwatch.system.async_processes import run_process
from ckwatch.workspace.loading import load_workspace
from helpers.gemm_build import render

ROOT = Path(__file__).parent.parent
INSTANCE = "v1_64x64x32_any_size"
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(3600)]


def requests(folder: Path) -> list[CompileRequest]:
    """Return the source of the example's smallest instance, and of one with another pipeline."""
    text = (ROOT / "examples/gemm/gemm_f16.kernel.toml").read_text()
    head, *instances = re.split(r"(?m)^(?=\[\[instance\]\])", text)
    one = next(instance for instance in instances if f'"{INSTANCE}"' in instance)
    other = one.replace(INSTANCE, "sibling").replace('BlkGemmPipelineVer = "v1"', 'BlkGemmPipelineVer = "v3"')
    (folder / "ckwatch.toml").write_text("")
    (folder / "gemm_f16.kernel.toml").write_text(head + one + other)
    workspace = load_workspace(folder)
    assert workspace.errors == ()
    renderer = Renderer(workspace.template_folders)
    units = [unit for unit in workspace.units if unit.arch == "gfx942"]
    return [compile_request(workspace, unit, render(renderer, unit)) for unit in units]


async def test_the_same_code_from_a_sibling_s_header(tmp_path: Path) -> None:
    """Byte for byte, where the precompiled header was made of the sibling; and the same headers were read."""
    (tmp_path / "ws").mkdir()
    toolchain = discover()
    one, sibling = requests(tmp_path / "ws")
    with ArtifactStore(tmp_path / "store") as store:
        ladder = StagedCompiler(toolchain, store, run_process)
        plan = await ladder.plan(one)
        assert plan is not None
        ladder.warming.built(sibling, plan)
        # The host's is tested on a small source: each takes 20 s.
        (wanted,) = ladder.warming.lacking(one, plan, [PassSide.DEVICE])
        assert f"{sibling.symbol}_warm_up" in wanted.text
        assert await ladder.warming.make(wanted, sibling, plan)
        warm = await ladder.compile(one, store.work_folder())
        assert sum("-include-pch" in command.arguments for command in warm.commands) == 1
        plain = await compile_source(one, toolchain, folder=store.work_folder())
        assert (warm.status, warm.log, warm.exports) == (plain.status, plain.log, plain.exports)
        assert (plain.status, plain.exports) == (CompileStatus.OK, (one.symbol,))
        assert warm.headers == plain.headers
        code, expected = (outcome.files[ProductKind.CODE_OBJECT].read_bytes() for outcome in (warm, plain))
        assert code == expected
