"""`cutlass/gemm_universal.cu.j2`: what it renders to, what it refuses, and that nvcc compiles it.

What it computes is only seen on an NVIDIA GPU: `benchmarks/measurement.py` verifies it there.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases.gemm_case import GemmCase
from ckwatch.checks.static_checks import unused_parameters
from ckwatch.compile.builder import Builder
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.model.errors import ToolchainError
from ckwatch.model.kernels import Unit
from ckwatch.model.targets import Language
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from helpers.gemm_build import render

TEMPLATE = "cutlass/gemm_universal.cu.j2"
EXAMPLE = Path(__file__).parents[2] / "examples/cuda"
TILES = {"ThreadblockM": 128, "ThreadblockN": 64, "ThreadblockK": 32, "WarpM": 64, "WarpN": 32, "Stages": 3}


def unit_of(case: GemmCase, *, split_k: bool = False, **parameters: Any) -> Unit:
    unit = replace(case, arch="sm_90a").unit(TEMPLATE, {**TILES, **parameters})
    operation = unit.kernel.operation
    settings = {**operation.settings, "split_k": split_k}
    return replace(unit, kernel=replace(unit.kernel, operation=replace(operation, settings=settings)))


def text_of(renderer: Renderer, unit: Unit) -> str:
    rendered = render(renderer, unit)
    assert unused_parameters(unit, rendered) == ()
    return rendered.text


def test_the_example() -> None:
    workspace = load_workspace(EXAMPLE)
    assert workspace.diagnostics == ()
    kernels = {kernel.name: kernel for kernel in workspace.kernels}
    assert len(kernels["gemm_f16"].instances) >= 4
    assert len(kernels["gemm_f16"].shapes) >= 10
    renderer = Renderer(workspace.template_folders)
    for unit in workspace.units:
        assert unit.arch == "sm_90a"
        assert "static_assert(false" not in text_of(renderer, unit)


def test_the_function(renderer: Renderer) -> None:
    text = text_of(renderer, unit_of(GemmCase(bias="row")))
    assert re.search(
        r'extern "C" PT_EXPORT int cutlass_gemm_universal_\w+\(const uint16_t\* X, const uint16_t\* W, '
        r"const uint16_t\* Bias, uint16_t\* Y, int32_t M, int32_t N, int32_t K, int32_t LDA, int32_t LDB, int32_t LDC, "
        r"int32_t LDD, int32_t kBatch, size_t\* workspace_size, uint8_t\* workspace, cudaStream_t stream\)",
        text,
    )
    assert "#include <cuda_runtime.h>" in text
    assert "kBatch must be 1 without split_k" in text
    assert "sum_slices" not in text


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        (
            GemmCase(),
            ["F16, Row,", "F16, Col,", "LinearCombination<Output, 8, Accumulator, float>", "/* AlignmentA */ 8"],
        ),
        (
            GemmCase(a="f32", b="f32", c="f32"),
            ["InstructionK = /* InstructionK */ 8", "OpMultiplyAddFastF32", "/* AlignmentA */ 4"],
        ),
        (GemmCase(a="bf16", b="bf16", c="bf16", activation="silu"), ["cutlass::epilogue::thread::SiLu, Output, 8"]),
        # CUTLASS computes the transpose: its rows are the columns of Y
        (GemmCase(layouts="row col col"), ["GemmShape<ThreadblockN, ThreadblockM, ThreadblockK>"]),
        (GemmCase(bias="row", alpha=2.0, beta=0.5), ["{static_cast<float>(2.0), static_cast<float>(0.5)}"]),
        (GemmCase(alpha=2.0), ["{static_cast<float>(2.0), static_cast<float>(0)}"]),
        (GemmCase(bias="full row"), ["\n        LDD,\n", "LDD is smaller than N"]),
    ],
)
def test_what_is_rendered(renderer: Renderer, case: GemmCase, parts: list[str]) -> None:
    text = " ".join(text_of(renderer, unit_of(case)).split())
    for part in parts:
        assert " ".join(part.split()) in text


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (GemmCase(a="f8", b="f8"), "X and W are both f16, bf16 or f32"),
        (GemmCase(a="f16", b="bf16"), "X and W are both f16, bf16 or f32"),
        (GemmCase(scale_a="row"), "no scales of X and W"),
        (GemmCase(bias="col"), "Bias must have the dtype and layout of Y"),
        (GemmCase(bias="row", bias_dtype="f32"), "Bias must have the dtype and layout of Y"),
    ],
)
def test_what_cannot_be_computed(renderer: Renderer, case: GemmCase, reason: str) -> None:
    refused = re.findall(r'static_assert\(false, "(.*)"\);', text_of(renderer, unit_of(case)))
    assert len(refused) == 1
    assert reason in refused[0]


def test_split_k(renderer: Renderer) -> None:
    text = text_of(renderer, unit_of(GemmCase(bias="row", activation="relu"), split_k=True))
    assert "kGemmSplitKParallel" in text
    assert "activation::relu(value)" in text
    assert "/* batch strides */ 0, 0, 0, int64_t{M} * N," in text


@pytest.mark.toolchain
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("case", "split_k", "parameters"),
    [
        (GemmCase(layouts="col row col", alpha=2.0, activation="silu"), True, {}),
        (GemmCase(a="bf16", b="bf16", c="bf16", bias="full row", bias_dtype="bf16", activation="gelu_tanh"), False, {}),
        (
            GemmCase(a="f32", b="f32", c="f32", layouts="row row col", bias="col", bias_dtype="f32"),
            *(False, {"Operator": "OpMultiplyAdd", "SwizzleSize": 4}),
        ),
    ],
    ids=["f16 split-K", "bf16 bias", "TF32"],
)
async def test_nvcc_compiles_it(
    renderer: Renderer, case: GemmCase, split_k: bool, parameters: dict[str, Any], tmp_path: Path
) -> None:
    toolchain = cutlass_toolchain()
    rendered = render(renderer, unit_of(case, split_k=split_k, **parameters))
    request = CompileRequest(rendered.text, rendered.symbol, Language.CU, "sm_90a")
    with ArtifactStore(tmp_path) as store:
        built = await Builder(toolchain, store).build(request)
        assert built.ok, built.log
        assert built.log == ""
        assert built.artifact is not None
        assert built.artifact.record.exports == (rendered.symbol,)


def cutlass_toolchain() -> NvccToolchain:
    try:
        found = find_nvcc()
    except ToolchainError:
        pytest.skip("no nvcc here")
    if found.cutlass is None:
        pytest.skip("nvidia-cutlass is not installed")
    return found
