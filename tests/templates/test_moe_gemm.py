"""`ck/moe_gemm.hip.j2`: what it renders, and one unit under the real compiler and the emulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.moe_gemm_xdl_cshuffle_v3 import OPERATION as RULES
from ckwatch.cli import main
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.kernels import ParameterValue
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import toml_value
from helpers.gemm_build import render

PARAMETERS: dict[str, ParameterValue] = {
    "GemmSpec": "Default", "BlockSize": 256, "MPerBlock": 32, "NPerBlock": 64, "KPerBlock": 128, "AK1": 8, "BK1": 8,
    "MPerXDL": 16, "NPerXDL": 16, "MXdlPerWave": 2, "NXdlPerWave": 1,
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": (16, 16, 1), "ABlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "ABlockTransferSrcAccessOrder": (1, 0, 2), "ABlockTransferSrcVectorDim": 2, "ABlockTransferSrcScalarPerVector": 8,
    "ABlockTransferDstScalarPerVector_AK1": 8, "ABlockLdsExtraM": False,
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": (16, 16, 1), "BBlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "BBlockTransferSrcAccessOrder": (1, 0, 2), "BBlockTransferSrcVectorDim": 2, "BBlockTransferSrcScalarPerVector": 8,
    "BBlockTransferDstScalarPerVector_BK1": 8, "BBlockLdsExtraN": False,
    "CShuffleMXdlPerWavePerShuffle": 2, "CShuffleNXdlPerWavePerShuffle": 1,
    "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock": (1, 8, 1, 32),
    "CDEShuffleBlockTransferScalarPerVectors": (2,), "BlkGemmPipeSched": "Intrawave", "BlkGemmPipelineVer": "v1",
    "NSwizzle": False,
}  # fmt: skip
STAGE_1 = 'stage = 1\ndtype = "f16"\nblock_m = 32\n'
STAGE_2 = 'stage = 2\ndtype = "f16"\nblock_m = 32\n'


def kernel_file(more: str, **parameters: ParameterValue) -> str:
    values = {"name": "i", **PARAMETERS, **parameters}
    return (
        'template = "ck/moe_gemm.hip.j2"\n\n[operation]\nkind = "moe_gemm"\n'
        + more
        + "\n[[instance]]\n"
        + "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items())
    )


def text(root: Path, renderer: Renderer, more: str, **parameters: ParameterValue) -> str:
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "moe.kernel.toml").write_text(kernel_file(more, **parameters))
    (unit,) = load_workspace(root).units
    return render(renderer, unit).text


def broken(source: str, arch: str = "gfx942") -> list[str]:
    (found,) = rendered_instances(source)
    return [one.rule for one in check_instance(found.device_operation, found.arguments, arch, source=source)]


@pytest.mark.parametrize("more", [STAGE_1, STAGE_2, STAGE_1 + 'scales = "row"\nweighted = true\nactivation = "gelu"\n'])
def test_the_rules_know_every_argument(tmp_path: Path, renderer: Renderer, more: str) -> None:
    source = text(tmp_path, renderer, more)
    (found,) = rendered_instances(source)
    named = [name for name in RULES.parameters if not name.startswith("LDSType")]
    assert list(found.arguments) == named
    assert found.arguments["IsInputGemm"] is ("stage = 1" in more)
    assert found.arguments["PerTokenQuant"] is ("row" in more)
    assert broken(source) == []


def test_what_the_template_itself_refuses(tmp_path: Path, renderer: Renderer) -> None:
    assert broken(text(tmp_path, renderer, STAGE_1, NSwizzle=True)) == ["moe-swizzle"]
    assert broken(text(tmp_path, renderer, STAGE_2, BlkGemmPipelineVer="v2")) == ["moe-pipeline-rounds"]
    order: dict[str, ParameterValue] = {"ABlockTransferThreadClusterArrangeOrder": (0, 1, 2)}
    assert broken(text(tmp_path, renderer, STAGE_1, **order)) == ["moe-a-order"]
    bf16 = STAGE_2.replace("f16", "bf16")
    assert broken(text(tmp_path, renderer, bf16), "gfx90a") == ["moe-atomic-arch"]
    assert broken(text(tmp_path, renderer, bf16)) == []
    refused = text(tmp_path, renderer, STAGE_1, MPerBlock=64)
    assert (
        'static_assert(false, "MPerBlock = 64 must be block_m: CK takes one expert for each tile");  // [operation] block_m'
        in refused
    )
    assert "must be block_m" not in text(tmp_path, renderer, STAGE_1)


def test_its_c_function(tmp_path: Path, renderer: Renderer) -> None:
    source = text(tmp_path, renderer, STAGE_2 + 'scales = "tensor"\n')
    declared = re.search(r'extern "C" PT_EXPORT\s+int \w+\(([^)]*)\)', source)
    assert declared is not None
    assert [one.split()[-1].lstrip("*") for one in declared[1].split(",")] == [
        *("X", "W", "SortedTokenIds", "SortedExpertIds", "NumValidIds", "ScaleX", "ScaleW", "SortedWeights", "Y"),
        *("tokens", "topk", "experts", "N", "K", "sorted_size", "workspace_size", "workspace", "stream"),
    ]


def test_stage_2_clears_what_it_adds_to(tmp_path: Path, renderer: Renderer) -> None:
    assert "hipMemsetAsync" in text(tmp_path, renderer, STAGE_2)
    assert "hipMemsetAsync" not in text(tmp_path, renderer, STAGE_1)


def test_pipelines_have_one_buffer_or_two(tmp_path: Path, renderer: Renderer) -> None:
    assert "::template Run<" in text(tmp_path, renderer, STAGE_1)
    big: dict[str, ParameterValue] = {"MPerBlock": 64, "MXdlPerWave": 4, "BlkGemmPipelineVer": "v3"}
    source = text(tmp_path, renderer, STAGE_1.replace("32", "64"), **big)
    assert "::template Run_2Lds<" in source
    assert broken(source) == []


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_the_emulator_finds_it_right(tmp_path: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (tmp_path / "moe.kernel.toml").write_text(kernel_file(STAGE_2))
    assert main(["verify", "moe", "-C", str(tmp_path), "--no-daemon", "--trust"]) == 0
    found = re.search(r"verified \(emulated gfx942\) +(\d+) shapes right", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 20
