"""`ck/gemm_universal.hip.j2`: what it renders to, and what its host code and epilogue compute on a stand-in for CK.

`ck_on_host` takes the place of CK's headers and `hip_on_host` that of HIP's, so that the results show the template's own
part: arguments, D tensors, leading dimensions, slices of K, the workspace and the sum over it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from cases.gemm_case import GemmCase, GemmLibrary, GemmRun, Size
from ckwatch.compile.flags import compile_flags, include_flags
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import ToolchainError
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.model.targets import Language
from ckwatch.render.renderer import Renderer
from fakes.host_compiler import HostCompiler
from helpers.gemm_build import SCALARS, VECTORS, both_passes, render
from helpers.hip_compiles import compiled

TEMPLATE = "ck/gemm_universal.hip.j2"

Parameters = Mapping[str, ParameterValue]

CASES: dict[str, GemmCase] = {
    "f16": GemmCase(),
    "f16 col row": GemmCase(layouts="col row row", activation="tanh"),
    "f16 to col": GemmCase(layouts="row col col", bias="col"),
    "bf16 bias relu": GemmCase("bf16", "bf16", "bf16", bias="row", bias_dtype="bf16", activation="relu"),
    "alpha beta": GemmCase(c="f32", bias="full row", bias_dtype="f32", alpha=-1.5, beta=0.25, activation="gelu"),
    "full col bias": GemmCase(bias="full col", bias_dtype="f32", activation="silu"),
    "bias per row": GemmCase(bias="col", bias_dtype="bf16", activation="gelu_tanh"),
    "row scales": GemmCase(
        "f8", "f8", "bf16", scale_a="row", scale_b="row", bias="row", bias_dtype="bf16", arch="gfx950"
    ),
    "tensor scales": GemmCase("f8", "f8", "f16", scale_a="tensor", scale_b="tensor", activation="sigmoid"),
    "to f8": GemmCase("f8", "f8", "f8", scale_a="tensor", scale_b="tensor", arch="gfx950"),
    "to f8 fnuz": GemmCase("f16", "f16", "f8", alpha=40.0, arch="gfx90a"),
    "one buffer": GemmCase(same_buffer=True, bias="row"),
    "reordered": GemmCase(bias="row", scale_a="row", scale_b="row", input_reorder=(4, 0, 1, 2, 3)),
}

ODD = [
    Size(1, 1, 1),
    Size(32, 32, 32),
    Size(33, 31, 17),
    Size(3, 70, 5, padding=8),
    Size(40, 36, 100, padding=3, ldd_zero=True),
]
SPLIT = [
    *(dataclasses.replace(size, kBatch=1) for size in ODD),
    Size(33, 20, 200, kBatch=3, padding=3),
    Size(64, 64, 64, kBatch=2),
    Size(5, 9, 1000, kBatch=7, ldd_zero=True),
]

Compile = Callable[[Unit, GemmCase], GemmLibrary]


def unit_of(case: GemmCase, parameters: Parameters, **settings: Any) -> Unit:
    """The unit of a case with more keys of `[operation]`."""
    unit = case.unit(TEMPLATE, parameters)
    operation = dataclasses.replace(unit.kernel.operation, settings={**unit.kernel.operation.settings, **settings})
    return dataclasses.replace(unit, kernel=dataclasses.replace(unit.kernel, operation=operation))


@pytest.fixture(scope="module")
def compile_on_host(renderer: Renderer, ck_compiler: HostCompiler, tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compile a unit to a shared library for the host."""
    built: dict[tuple[str, GemmCase], GemmLibrary] = {}

    def build_unit(unit: Unit, case: GemmCase) -> GemmLibrary:
        rendered = render(renderer, unit)
        key = (rendered.symbol, case)
        if key not in built:
            library = tmp_path_factory.mktemp("unit") / "unit.so"
            ck_compiler.link([ck_compiler.compile(both_passes(rendered.text))], library, "-shared")
            built[key] = GemmLibrary(library, rendered.symbol, case)
        return built[key]

    return build_unit


def run_and_check(library: GemmLibrary, run: GemmRun, workspace_bytes: int) -> None:
    """Query the workspace, run with it, compare, and see that nothing was written beyond it."""
    size = ctypes.c_size_t(12345)
    assert library.call(run, None, size) == 0
    assert size.value == workspace_bytes
    workspace = np.full(size.value + 64, 0xFF, np.uint8)
    assert library.call(run, workspace.ctypes.data, None) == 0
    assert (workspace[size.value :] == 0xFF).all(), "wrote beyond the workspace"
    run.check()


@pytest.mark.parametrize("name", CASES)
def test_results(name: str, compile_on_host: Compile) -> None:
    case = CASES[name]
    library = compile_on_host(unit_of(case, SCALARS), case)
    for seed, size in enumerate(ODD):
        run_and_check(library, GemmRun(case, size, seed), 0)


@pytest.mark.parametrize("name", ["f16 to col", "alpha beta", "full col bias", "row scales", "to f8", "one buffer"])
def test_results_of_split_k(name: str, compile_on_host: Compile) -> None:
    case = CASES[name]
    library = compile_on_host(unit_of(case, SCALARS, split_k=True), case)
    for seed, size in enumerate(SPLIT):
        run_and_check(library, GemmRun(case, size, seed), size.kBatch * size.M * size.N * 4)


@pytest.mark.parametrize("version", ["v1", "v2", "v3", "v4", "v5"])
@pytest.mark.parametrize("rounds", range(5, 10))
def test_each_pipeline_launches_the_kernel_for_its_tail(version: str, rounds: int, compile_on_host: Compile) -> None:
    case = GemmCase(bias="row")
    library = compile_on_host(unit_of(case, VECTORS | {"BlkGemmPipelineVer": version}), case)
    run_and_check(library, GemmRun(case, Size(48, 40, 32 * rounds - 8, padding=4)), 0)


def test_a_k_shorter_than_the_prefetch_is_refused(compile_on_host: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    case = GemmCase(bias="row")
    library = compile_on_host(unit_of(case, VECTORS | {"BlkGemmPipelineVer": "v4"}), case)
    assert library.call(GemmRun(case, Size(32, 32, 128)), None, ctypes.c_size_t()) == -23
    assert "the instance does not support these sizes" in capfd.readouterr().err


REFUSED: dict[str, tuple[dict[str, int], str]] = {
    "no rows": ({"M": 0}, "M, N and K must be at least 1"),
    "negative K": ({"K": -8}, "M, N and K must be at least 1"),
    "LDA": ({"LDA": 15}, "LDA is smaller than K"),
    "LDB": ({"LDB": 15}, "LDB is smaller than K"),
    "LDC": ({"LDC": 31}, "LDC is smaller than N"),
    "LDD": ({"LDD": 31}, "LDD is smaller than N"),
    "odd LDA": ({"LDA": 65}, "X or LDA is not aligned for vectors of 8"),
    "odd LDC": ({"LDC": 33}, "Y or LDC is not aligned for vectors of 4"),
    "a K that vectors do not divide": ({"K": 63}, "the instance does not support these sizes"),
    "an N that vectors do not divide": ({"N": 31}, "the instance does not support these sizes"),
    "an X beyond 2 GiB": ({"M": 40000, "LDA": 40000}, "X reaches beyond 2 GiB"),
    "a Y whose padding is beyond 2 GiB": ({"M": 33, "LDC": 2**25}, "Y reaches beyond 2 GiB"),
    "kBatch": ({"kBatch": 2}, "kBatch must be 1 without split_k = true"),
    "kBatch 0": ({"kBatch": 0}, "kBatch must be 1 without split_k = true"),
}
"""Name → changed arguments of a 32×32×64 product, and the message."""


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str, compile_on_host: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    case = GemmCase(bias="full row", bias_dtype="f32")
    library = compile_on_host(unit_of(case, VECTORS), case)
    arguments, message = REFUSED[what]
    run = GemmRun(case, Size(32, 32, 64))
    run.arguments |= arguments
    assert library.call(run, None, ctypes.c_size_t()) == -23
    assert message in capfd.readouterr().err


SPLIT_REFUSED: dict[str, tuple[dict[str, int], str]] = {
    "kBatch 0": ({"kBatch": 0}, "kBatch must lie between 1 and 65535"),
    "kBatch 65536": ({"kBatch": 65536}, "kBatch must lie between 1 and 65535"),
    "more slices than vectors of K": ({"kBatch": 9}, "the instance does not support these sizes"),
    "large slices": ({"M": 30000, "N": 30000, "LDC": 30000}, "a slice's product is larger than 2 GiB"),
}


@pytest.mark.parametrize("what", SPLIT_REFUSED)
def test_refusals_of_split_k(what: str, compile_on_host: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    case = GemmCase()
    library = compile_on_host(unit_of(case, VECTORS, split_k=True), case)
    arguments, message = SPLIT_REFUSED[what]
    run = GemmRun(case, Size(32, 32, 64))
    run.arguments |= arguments
    assert library.call(run, None, ctypes.c_size_t()) == -23
    assert message in capfd.readouterr().err


def test_split_k_needs_its_workspace(compile_on_host: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    case = GemmCase()
    library = compile_on_host(unit_of(case, VECTORS, split_k=True), case)
    assert library.call(GemmRun(case, Size(32, 32, 64)), None, None) == -23
    assert "the workspace is null or not aligned" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["X", "W", "Bias", "Y"])
def test_null_tensors(name: str, compile_on_host: Compile, capfd: pytest.CaptureFixture[str]) -> None:
    case = GemmCase(bias="row")
    library = compile_on_host(unit_of(case, VECTORS), case)
    assert library.call(GemmRun(case, Size(32, 32, 64)), None, None, null=(name,)) != 0
    assert f"{name} is null" in capfd.readouterr().err


def test_a_null_scale_of_one_value_counts_as_one(compile_on_host: Compile) -> None:
    case = CASES["tensor scales"]
    run = GemmRun(case, Size(32, 32, 64))
    run.scales = np.ones_like(run.scales)
    library = compile_on_host(unit_of(case, VECTORS), case)
    assert library.call(run, None, None, null=("inv_scale_x", "inv_scale_w")) == 0
    run.check()


@pytest.mark.parametrize(("kernel", "split_k"), [("gemm_universal", False), ("sum_slices", True)])
def test_a_launch_error_is_returned_and_named(
    kernel: str,
    split_k: bool,
    compile_on_host: Compile,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = GemmCase()
    library = compile_on_host(unit_of(case, VECTORS, split_k=split_k), case)
    workspace = np.zeros(32 * 32 * 4, np.uint8)
    # the stand-in knows the first kernel by the name of the variable that holds it
    monkeypatch.setenv("HIP_ON_HOST_FAILING_KERNEL", "sum_slices" if split_k else "kernel")
    assert library.call(GemmRun(case, Size(32, 32, 64)), workspace.ctypes.data, None) == 719
    assert f"launch of {kernel}: hipErrorLaunchFailure" in capfd.readouterr().err


SIZES = (
    "int32_t M, int32_t N, int32_t K, int32_t LDA, int32_t LDB, int32_t LDC, int32_t LDD, int32_t kBatch, "
    "size_t* workspace_size, uint8_t* workspace, hipStream_t stream"
)

SIGNATURES: dict[str, tuple[GemmCase, str]] = {
    "plain": (GemmCase(), "const uint16_t* X, const uint16_t* W, uint16_t* Y"),
    "bias": (GemmCase(bias="row"), "const uint16_t* X, const uint16_t* W, const uint16_t* Bias, uint16_t* Y"),
    "scales": (
        GemmCase("f8", "f8", "bf16", scale_a="tensor", scale_b="tensor"),
        "const uint8_t* X, const uint8_t* W, const float* inv_scale_x, const float* inv_scale_w, uint16_t* Y",
    ),
    "reordered": (
        GemmCase(bias="row", bias_dtype="f32", input_reorder=(4, 0, 1, 2, 3)),
        "const float* Bias, const uint16_t* X, const uint16_t* W, uint16_t* Y",
    ),
    "one buffer": (GemmCase(same_buffer=True), "const uint16_t* X, uint16_t* Y"),
}


@pytest.mark.parametrize("name", SIGNATURES)
@pytest.mark.parametrize("split_k", [False, True])
def test_signature(name: str, split_k: bool, renderer: Renderer) -> None:
    case, arguments = SIGNATURES[name]
    rendered = render(renderer, unit_of(case, VECTORS, split_k=split_k))
    exported = f'extern "C" PT_EXPORT\n#endif\nint {rendered.symbol}({arguments}, {SIZES}) {{'
    assert exported in rendered.text
    assert rendered.text.count('extern "C" PT_EXPORT') == 1


INSTANCES: dict[str, tuple[GemmCase, dict[str, Any], dict[str, str]]] = {
    "plain": (
        GemmCase(),
        {},
        {"DsLayout": "Tuple<>", "CShuffleDataType": "F16", "CDEShuffleBlockTransferScalarPerVectors": "S<4>"},
    ),
    "epilogue": (
        GemmCase("f8", "f8", "bf16", scale_a="row", scale_b="row", bias="row"),
        {},
        {
            "DsLayout": "Tuple<Col, Row, Row>",
            "DsDataType": "Tuple<F32, F32, F16>",
            "CShuffleDataType": "F32",
            "CElementwiseOperation": "Epilogue",
            "CDEShuffleBlockTransferScalarPerVectors": "S<4, 1, 4, 4>",
            "ComputeTypeA": "F8",
        },
    ),
    "split-K": (
        GemmCase(bias="row"),
        {"split_k": True},
        {"DsLayout": "Tuple<>", "CDataType": "F32", "CElementwiseOperation": "PassThrough", "CLayout": "Row"},
    ),
    "f8 output": (GemmCase(c="f8"), {}, {"CDataType": "I8", "CShuffleDataType": "F32"}),
    "mixed": (GemmCase("f8", "f16", "f16"), {}, {"ADataType": "F8", "ComputeTypeA": "F16", "ComputeTypeB": "F16"}),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_template_arguments(name: str, renderer: Renderer) -> None:
    case, settings, expected = INSTANCES[name]
    text = render(renderer, unit_of(case, VECTORS, **settings)).text
    arguments = dict(re.findall(r"^ +/\* (\w+) \*/ (.+?)[,>]?;?$", text, re.MULTILINE))
    assert len(arguments) == 46
    assert arguments | expected == arguments


@pytest.mark.parametrize(("arch", "ocp"), [("gfx950", 1), ("gfx942", 0), ("gfx90a", 0)])
def test_the_kind_of_f8_follows_the_arch(arch: str, ocp: int, renderer: Renderer) -> None:
    text = render(renderer, unit_of(GemmCase("f8", "f8", "f16", arch=arch), VECTORS)).text
    assert text.startswith(f"#define CK_USE_OCP_FP8 {ocp}\n#define CK_USE_FNUZ_FP8 {1 - ocp}\n")
    assert "FP8" not in render(renderer, unit_of(GemmCase(arch=arch), VECTORS)).text


@pytest.mark.parametrize("split_k", [False, True])
def test_the_map_is_exact(split_k: bool, renderer: Renderer) -> None:
    case = GemmCase("f8", "f8", "f8", scale_a="row", scale_b="tensor", bias="full row", alpha=2.0, beta=3.0)
    assert render(renderer, unit_of(case, VECTORS, split_k=split_k)).source_map.exact


def test_no_kernel_has_internal_linkage(renderer: Renderer) -> None:
    """The name of an internal kernel holds a hash of the compiler's arguments, which differ between host and device."""
    assert "namespace {" not in render(renderer, unit_of(GemmCase(bias="row"), VECTORS, split_k=True)).text


WRONG: dict[str, tuple[GemmCase, dict[str, ParameterValue], str]] = {
    "A vectors across the rows": (GemmCase(layouts="col col row"), {}, "must be 1 for a col-major A"),
    "B vectors across the rows": (GemmCase(layouts="row row row"), {}, "must be 1 for a row-major B"),
    "vectors of a col-major Y": (GemmCase(layouts="row col col"), {}, "a col-major Y needs"),
    "vectors of a col-major Bias": (GemmCase(bias="full col"), {}, "a col-major Bias needs"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_ck_would_compute_wrongly_does_not_compile(
    what: str, renderer: Renderer, ck_compiler: HostCompiler
) -> None:
    case, parameters, message = WRONG[what]
    assert message in ck_compiler.refusal(render(renderer, unit_of(case, VECTORS | parameters)).text)


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_the_real_ck_accepts_it(renderer: Renderer) -> None:
    """The host pass alone, which reads all of CK's headers and instantiates everything that is not device code."""
    try:
        toolchain = discover()
    except ToolchainError as error:
        pytest.skip(str(error))
    case = GemmCase("f8", "f8", "bf16", scale_a="row", scale_b="tensor", bias="row", activation="gelu", arch="gfx950")
    text = render(renderer, unit_of(case, VECTORS, split_k=True)).text
    request = CompileRequest(text, "unused", Language.HIP, case.arch)
    flags = [*compile_flags(request, toolchain), *include_flags(request, toolchain)]
    compiled(text, toolchain, *flags, "--offload-host-only", "-fsyntax-only")
