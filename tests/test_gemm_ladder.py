"""A GEMM of Composable Kernel compiled in parts, with what another instance of it has instantiated."""

from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path

import pytest
from anyio import from_thread, to_thread

import ckwatch.compile
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompileStatus
from ckwatch.compile.single_call import compile_source
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.render.renderer import Renderer
from ckwatch.system.async_processes import run_process
from ckwatch.workspace.loading import load_workspace
from helpers.gemm_build import render
from helpers.hip_compiles import identity
from helpers.kept_builds import content, kept

ROOT = Path(__file__).parent.parent
PACKAGE = Path(ckwatch.compile.__path__[0])
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


async def by_one_call(request: CompileRequest, toolchain: Toolchain, store: ArtifactStore) -> str:
    """Return what one call of the compiler makes: the hash of the code, the log and the headers. It takes a minute, and
    is kept for later runs as long as the compiler, its headers, the source and the code that calls it are the same."""

    def make(target: Path) -> None:
        plain = from_thread.run(partial(compile_source, request, toolchain, folder=store.work_folder()))
        assert (plain.status, plain.exports) == (CompileStatus.OK, (request.symbol,))
        target.write_text(told(plain))

    made_of = (identity(toolchain), content(PACKAGE, "*.py"), request.source, request.arch)
    return (await to_thread.run_sync(kept, "one-call", made_of, make)).read_text()


def told(outcome: CompileOutcome) -> str:
    code = outcome.files[ProductKind.CODE_OBJECT].read_bytes()
    return json.dumps([hashlib.sha256(code).hexdigest(), outcome.log, *outcome.headers])


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
        assert await ladder.warming.make(wanted, sibling, plan, nice=0)
        warm = await ladder.compile(one, store.work_folder())
        assert sum("-include-pch" in command.arguments for command in warm.commands) == 1
        assert (warm.status, warm.exports) == (CompileStatus.OK, (one.symbol,))
        assert told(warm) == await by_one_call(one, toolchain, store)
