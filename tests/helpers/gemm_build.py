"""Renders GEMM units and compiles them with the host's own compiler."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from cases.gemm_case import GemmCase, GemmLibrary
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.render.outcome import Rendered
from ckwatch.render.renderer import Renderer
from helpers.kept_builds import content, identity, kept

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "templates" / "ckwatch_templates"
HIP_ON_HOST = Path(__file__).parent.parent / "templates" / "hip_on_host"
"""Include folder of the stand-in for HIP's runtime."""
CK_ON_HOST = HIP_ON_HOST.with_name("ck_on_host")
"""That of the stand-in for Composable Kernel."""

Build = Callable[[Unit, GemmCase], GemmLibrary]


VECTORS: dict[str, ParameterValue] = {
    "GemmSpec": "MNKPadding",
    "BlockSize": 64,
    "MPerBlock": 32,
    "NPerBlock": 32,
    "KPerBlock": 32,
    "AK1": 8,
    "BK1": 8,
    "MPerXDL": 32,
    "NPerXDL": 32,
    "MXdlPerWave": 1,
    "NXdlPerWave": 1,
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": (4, 16, 1),
    "ABlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "ABlockTransferSrcAccessOrder": (1, 0, 2),
    "ABlockTransferSrcVectorDim": 2,
    "ABlockTransferSrcScalarPerVector": 8,
    "ABlockTransferDstScalarPerVector_AK1": 8,
    "ABlockLdsExtraM": False,
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": (4, 16, 1),
    "BBlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "BBlockTransferSrcAccessOrder": (1, 0, 2),
    "BBlockTransferSrcVectorDim": 2,
    "BBlockTransferSrcScalarPerVector": 8,
    "BBlockTransferDstScalarPerVector_BK1": 8,
    "BBlockLdsExtraN": False,
    "CShuffleMXdlPerWavePerShuffle": 1,
    "CShuffleNXdlPerWavePerShuffle": 1,
    "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock": (1, 8, 1, 8),
    "CDEShuffleBlockTransferScalarPerVectors": (4,),
    "BlkGemmPipeSched": "Intrawave",
    "BlkGemmPipelineVer": "v1",
}
"""An instance of CK that moves vectors."""
SCALARS: dict[str, ParameterValue] = VECTORS | {
    "ABlockTransferSrcScalarPerVector": 1,
    "BBlockTransferSrcScalarPerVector": 1,
    "CDEShuffleBlockTransferScalarPerVectors": (1,),
}
"""One that moves single elements, and so takes any sizes."""


def render(renderer: Renderer, unit: Unit) -> Rendered:
    """Render a unit that must be without mistakes."""
    outcome = renderer.render(unit)
    assert outcome.rendered is not None, outcome.diagnostics
    return outcome.rendered


def both_passes(text: str) -> str:
    """The text of a CK unit for one compile that stands for both passes: what is the host's alone is there as well where
    the macro of the device pass is set."""
    return text.replace("#if !defined(__HIP_DEVICE_COMPILE__)", "#if 1")


def compile_source(compiler: str, source: Path, output: Path, flags: Sequence[str]) -> None:
    """Compile one source with warnings as errors."""
    usual = ["-std=c++17", "-O1", "-x", "c++", "-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror"]

    def make(target: Path) -> None:
        command = [compiler, *usual, *flags, str(source), "-o", str(target)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr

    made_of = [content(Path(flag[2:])) if flag.startswith("-I") else flag for flag in [*usual, *flags]]
    shutil.copy(kept("libraries", (*identity(compiler), *made_of, source.read_text()), make), output)
