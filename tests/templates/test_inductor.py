"""PyTorch Inductor's templates get every variable, and with it their own text, unchanged."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ckwatch_templates
from cases.inductor_text import InductorText, fetch_inductor_text
from ckwatch.cli import main
from ckwatch.compile.flags import compile_flags, include_flags
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.composable_kernel import find_sources
from ckwatch.compile.toolchain.installations import cache_folder
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.headers.features import FEATURES
from ckwatch.model.kernels import Operation
from ckwatch.model.targets import Language
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.operations.grouped_convolution import convolution_operation
from ckwatch.workspace.toml import toml_value
from helpers.hip_compiles import compiled
from helpers.units import gemm, tensor, unit
from helpers.workspaces import workspace

GEMM_BASE = '{% extends "inductor/ck_gemm.j2" %}\n{% block kernel %}\n', "\n{% endblock %}\n"
CONVOLUTION_BASE = '{% extends "inductor/ck_conv.j2" %}\n{% block kernel %}\n', "\n{% endblock %}\n"
TILE_BASE = '{% extends "inductor/ck_tile_gemm.j2" %}\n{% block kernel %}\n', "\n{% endblock %}\n"
TILE_PARTS = (
    '{% extends "inductor/ck_tile_gemm.j2" %}{% block instance_definition %}\n',
    "\n{% endblock %}{% block kernel_launch %}\n",
    "\n{% endblock %}{% block kernel %}\n",
    "\n{% endblock %}\n",
)
SIZES = ("M", "N", "K", "LDA", "LDB", "LDC", "LDD")

GEMM_INSTANCE: dict[str, Any] = {
    "a_layout": "Row", "b_layout": "Col", "ds_layouts": (), "c_layout": "Row",
    "a_element_dtype": "F16", "b_element_dtype": "F16", "ds_element_dtypes": (), "c_element_dtype": "F16",
    "acc_dtype": "F32", "c_shuffle_dtype": "F16",
    "a_elementwise_op": "PassThrough", "b_elementwise_op": "PassThrough", "c_elementwise_op": "PassThrough",
    "gemm_specialization": "GemmSpecialization::MNKPadding", "block_size": 256,
    "m_per_block": 128, "n_per_block": 128, "k_per_block": 64, "a_k1": 8, "b_k1": 8,
    "m_per_xdl": 32, "n_per_xdl": 32, "m_xdl_per_wave": 2, "n_xdl_per_wave": 2,
    "a_block_transfer_thread_cluster_lengths_ak0_m_ak1": (8, 32, 1),
    "a_block_transfer_thread_cluster_arrange_order": (1, 0, 2), "a_block_transfer_src_access_order": (1, 0, 2),
    "a_block_transfer_src_vector_dim": 2, "a_block_transfer_src_scalar_per_vector": 8,
    "a_block_transfer_dst_scalar_per_vector_ak1": 8, "a_block_lds_extra_m": 0,
    "b_block_transfer_thread_cluster_lengths_bk0_n_bk1": (8, 32, 1),
    "b_block_transfer_thread_cluster_arrange_order": (1, 0, 2), "b_block_transfer_src_access_order": (1, 0, 2),
    "b_block_transfer_src_vector_dim": 2, "b_block_transfer_src_scalar_per_vector": 8,
    "b_block_transfer_dst_scalar_per_vector_bk1": 8, "b_block_lds_extra_n": 0,
    "c_shuffle_m_xdl_per_wave_per_shuffle": 1, "c_shuffle_n_xdl_per_wave_per_shuffle": 1,
    "c_shuffle_block_transfer_cluster_lengths_m_block_m_per_block_n_block_n_per_block": (1, 32, 1, 8),
    "c_shuffle_block_transfer_scalar_per_vector_n_per_block": 8,
    "block_gemm_pipeline_scheduler": "BlockGemmPipelineScheduler::Intrawave",
    "block_gemm_pipeline_version": "BlockGemmPipelineVersion::v3",
}  # fmt: skip
TILE_INSTANCE: dict[str, Any] = {
    "layout_a": "Row", "layout_b": "Col", "layout_c": "Row",
    "datatype_a": "F16", "datatype_b": "F16", "datatype_c": "F16",
    "tile_m": 256, "tile_n": 256, "tile_k": 32, "warp_m": 2, "warp_n": 2, "warp_k": 1,
    "warp_tile_m": 32, "warp_tile_n": 32, "warp_tile_k": 16,
    "m_is_padded": "true", "n_is_padded": "true", "k_is_padded": "true",
    "pipeline": "CompV3", "scheduler": "Intrawave", "epilogue": "CShuffle",
}  # fmt: skip


def gemm_operation(
    *, bias: tuple[str, ...] = (), scales: str = "", batched: bool = False, **settings: Any
) -> Operation:
    operation = gemm(settings={"alpha": 2.0, "beta": 0.5, **settings})
    inputs = dict(operation.inputs)
    if bias:
        inputs["Bias"] = tensor("Bias", "f32", sizes=bias, strides=("LDD", "1")[2 - len(bias) :])
    if scales:
        for name, size in (("inv_scale_x", "M"), ("inv_scale_w", "N")):
            inputs[name] = tensor(name, "f32", sizes=(size if scales == "row" else "1",), strides=("1",))
    sizes = ("B", *SIZES) if batched else SIZES
    return replace(operation, inputs=tuple(inputs.items()), size_arguments=sizes)


def tile_operation() -> Operation:
    operation = gemm(kind="ck_tile_gemm", settings={})
    return replace(operation, inputs=operation.inputs[:2], size_arguments=SIZES[:6])


def channels_last() -> Operation:
    layouts = {"X": "NHWGC", "W": "GKYXC", "Y": "NHWGK"}
    return convolution_operation(2, dict.fromkeys("XWY", "f16"), layouts, None, "f32", {"dimensions": 2})


def rendered(
    folder: Path,
    text: str,
    operation: Operation,
    parameters: dict[str, Any],
    header_folders: tuple[Path, ...] = (),
) -> str:
    (folder / "own.hip.j2").write_text(text)
    renderer = Renderer((folder, ckwatch_templates.ROOT), header_folders=header_folders)
    outcome = renderer.render(unit("own.hip.j2", operation, **parameters))
    assert outcome.rendered is not None, outcome.diagnostics
    return outcome.rendered.text


def newest_headers(folder: Path) -> Path:
    """A folder that holds what the template asks of headers, as it is since ROCm 7.14."""
    problem = "template <class AElementWise_, class BElementWise_> struct UniversalGemmPipelineProblem {};"
    pipeline = FEATURES["gemm-CompV3"]
    for name, text in (
        ("ck_tile/core.hpp", ""),
        (FEATURES["gemm-tails"].header, problem),
        (FEATURES["cshuffle-memory-operation"].header, "template <bool T_> struct CShuffleEpilogueProblem {};"),
        (pipeline.header, f"template <class Problem> struct {pipeline.name} {{}};"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


GEMM_VALUES = (
    *("version_comment", "instance_type", "is_batched", "a_element_dtype", "b_element_dtype", "c_element_dtype"),
    *("bias_element_dtype", "alpha", "beta", "has_bias", "a_elementwise_op", "b_elementwise_op", "epilogue", "ds_size"),
    *("ds_names", "ds_strides", "ds_batch_strides"),
)
GEMM_BODY = "{{headers}}\n{{globals}}\n{{instance_definition}}\n{{kernel_definition}}\n" + "\n".join(
    f"// {name} = {{{{ {name} }}}}" for name in GEMM_VALUES
)

GEMMS: dict[str, tuple[dict[str, Any], dict[str, str], list[str]]] = {
    "plain": (
        {},
        {"epilogue": "PassThrough {}", "ds_size": "0", "ds_names": "", "ds_strides": "", "is_batched": "False"},
        ["/* c_shuffle_dtype */ F16", "scalar_per_vector_n_per_block */ S<8>"],
    ),
    "a bias for each column": (
        {"bias": ("N",)},
        {"epilogue": "Bilinear { 2.0, 0.5 }", "ds_size": "1", "ds_names": "Bias", "ds_strides": "0"},
        ["/* ds_layouts */ Tuple<Row>", "/* ds_element_dtypes */ Tuple<F32>", "/* c_shuffle_dtype */ F32"],
    ),
    "a whole bias": ({"bias": ("M", "N")}, {"ds_strides": "LDD", "bias_element_dtype": "F32"}, ["S<8, 8>"]),
    "a scale": ({"scales": "tensor"}, {"ds_size": "0"}, ["/* c_elementwise_op */ Scale,"]),
    "a scale and a bias": (
        {"scales": "tensor", "bias": ("N",)},
        {"ds_size": "1", "ds_names": "Bias"},
        ["/* c_elementwise_op */ ScaleAdd,"],
    ),
    "scales of rows": (
        {"scales": "row"},
        {"epilogue": "MultiplyMultiply {}", "ds_names": "inv_scale_x, inv_scale_w", "ds_strides": "0, 0"},
        ["/* ds_layouts */ Tuple<Col, Row>", "S<8, 1, 1>"],
    ),
    "scales of rows and a bias": (
        {"scales": "row", "bias": ("M", "N")},
        {"epilogue": "MultiplyMultiplyAdd {}", "ds_size": "3", "ds_strides": "0, 0, LDD"},
        ["/* ds_layouts */ Tuple<Col, Row, Row>", "S<8, 1, 1, 8>"],
    ),
    "batched": (
        {"batched": True},
        {"is_batched": "True"},
        [
            "DeviceBatchedGemmMultiD_Xdl_CShuffle_V3<",
            "device_batched_gemm_multiple_d_xdl_cshuffle_v3.hpp",
            "int32_t B,",
        ],
    ),
}


@pytest.mark.parametrize("name", GEMMS)
def test_variables_of_a_gemm(name: str, tmp_path: Path) -> None:
    options, expected, parts = GEMMS[name]
    text = rendered(tmp_path, GEMM_BODY.join(GEMM_BASE), gemm_operation(**options), GEMM_INSTANCE)
    found = dict(re.findall(r"// (\w+) = ?(.*)", text))
    assert {key: found[key] for key in expected} == expected
    assert [part for part in parts if part not in text] == []
    assert f"/* c_elementwise_op */ {found['epilogue'].partition(' ')[0]}," in text
    assert re.findall(r"/\* (\w+) \*/", text) == list(GEMM_INSTANCE)


def test_layouts_and_types_follow_the_operation(tmp_path: Path) -> None:
    given = {key: value for key, value in GEMM_INSTANCE.items() if not re.search("layout|dtype|elementwise", key)}
    body = "{{instance_definition}}{{kernel_definition}}".join(GEMM_BASE)
    operation = gemm_operation()
    assert rendered(tmp_path, body, operation, given) == rendered(tmp_path, body, operation, GEMM_INSTANCE)


def test_a_missing_field_is_reported_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "own.hip.j2").write_text("{{instance_definition}}".join(GEMM_BASE))
    given = {**GEMM_INSTANCE, "m_per_blck": GEMM_INSTANCE["m_per_block"]}
    del given["m_per_block"]
    renderer = Renderer((tmp_path, ckwatch_templates.ROOT))
    found = renderer.render(unit("own.hip.j2", gemm_operation(), **given)).diagnostics
    assert any("'m_per_block'; did you mean 'm_per_blck'?" in one.message for one in found)


@pytest.mark.parametrize("new_api", [False, True])
def test_parts_of_a_ck_tile_gemm(new_api: bool, tmp_path: Path) -> None:
    names = ("pipeline_problem", "scheduler", "universal_gemm_problem", "pipeline", "epilogue", "kernel")
    definition = "".join(f"{{{{rendered_{name}}}}}" for name in names)
    operation = tile_operation()
    header_folders = (newest_headers(tmp_path / "include"),) if new_api else ()
    bodies = (definition, "launch {{instance_namespace}}", "{{kernel_launch}}{{instance_definition}}", "")
    parts = map("".join, zip(TILE_PARTS, bodies, strict=True))
    text = rendered(tmp_path, "".join(parts), operation, TILE_INSTANCE, header_folders)
    assert text.index("launch ck_tile_gemm_universal") < text.index("GemmPipelineScheduler::Intrawave")
    assert [word in text for word in ("TailNumber", "memory_operation_enum::set")] == [not new_api, not new_api]
    source = "{{kernel_definition}}{{kernel_launch}}".join(TILE_BASE)
    whole = rendered(tmp_path, source, operation, TILE_INSTANCE, header_folders)
    assert "int32_t LDC, int32_t kBatch" in whole
    gemm_text = rendered(tmp_path, "{{kernel_definition}}".join(TILE_BASE), gemm_operation(), TILE_INSTANCE)
    assert "int32_t LDC, int32_t LDD, int32_t kBatch" in gemm_text
    assert ("TailHandler" in whole) == (not new_api)


@pytest.fixture(scope="module")
def inductor() -> InductorText:
    return fetch_inductor_text()


def ck4inductor() -> None:
    """Make ck4inductor importable, or skip."""
    sources = find_sources(cache_folder(os.environ))
    if sources is None:
        pytest.skip("ck4inductor is not installed; `ckwatch toolchain install` fetches it")
    if str(sources.python) not in sys.path:
        sys.path.append(str(sources.python))


def instance(operation: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(operation).items() if value is not None}


def universal() -> dict[str, Any]:
    ck4inductor()
    from ck4inductor.universal_gemm.gen_instances import gen_ops_library  # type: ignore[import-not-found]

    wanted = {
        "a_layout": "Row",
        "b_layout": "Col",
        "c_layout": "Row",
        "a_element_dtype": "F16",
        "c_element_dtype": "F16",
    }
    return next(one for one in map(instance, gen_ops_library()) if wanted.items() <= one.items())


def batched() -> dict[str, Any]:
    ck4inductor()
    from ck4inductor.batched_universal_gemm.gen_instances import gen_ops_library  # type: ignore[import-not-found]

    return next(one for one in map(instance, gen_ops_library()) if one["a_element_dtype"] == "BF16")


def convolution() -> dict[str, Any]:
    ck4inductor()
    from ck4inductor.grouped_conv_fwd.gen_instances import gen_conv_ops_library  # type: ignore[import-not-found]

    wanted = {"n_dim_spatial": 2, "a_layout": "NHWGC", "a_element_dtype": "F16", "e_element_dtype": "F16"}
    return next(one for one in map(instance, gen_conv_ops_library()) if wanted.items() <= one.items())


def unchanged(name: str, text: InductorText) -> tuple[str, list[str], Operation, dict[str, Any]]:
    """The template with Inductor's text, that text, and what it is rendered for."""
    match name:
        case "universal GEMM":
            return text.gemm.join(GEMM_BASE), [text.gemm], gemm_operation(), universal()
        case "batched GEMM":
            parameters = batched()
            tensors = {key: tensor(key, "bf16", layout="col" if key == "W" else "row") for key in ("X", "W")}
            operation = gemm_operation(batched=True)
            inputs = tuple((key, tensors.get(key, value)) for key, value in operation.inputs)
            operation = replace(operation, inputs=inputs, outputs=(("Y", tensor("Y", "bf16")),))
            return text.gemm.join(GEMM_BASE), [text.gemm], operation, parameters
        case "grouped convolution":
            return text.convolution.join(CONVOLUTION_BASE), [text.convolution], channels_last(), convolution()
        case _:
            bodies = [text.tile_definition, text.tile_launch, text.tile_gemm]
            whole = "".join(map("".join, zip(TILE_PARTS, [*bodies, ""], strict=True)))
            return whole, bodies, tile_operation(), TILE_INSTANCE


TEMPLATES = ("universal GEMM", "batched GEMM", "grouped convolution", "CK Tile GEMM")


@pytest.mark.network
@pytest.mark.parametrize("name", TEMPLATES)
def test_text_of_inductor_renders_unchanged(name: str, inductor: InductorText, tmp_path: Path) -> None:
    template, bodies, operation, parameters = unchanged(name, inductor)
    added = template
    for body in bodies:
        assert body in added
        added = added.replace(body, "\n", 1)
    assert len([line for line in added.splitlines() if line.strip()]) <= 5
    text = rendered(tmp_path, template, operation, parameters)
    assert "{{" not in text.replace("{{}}", "")
    assert re.search(r"PT_EXPORT int own_\w+\(const uint16_t\*", text)


@pytest.mark.network
@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TEMPLATES)
def test_text_of_inductor_is_good_cpp(name: str, inductor: InductorText, toolchain: Toolchain, tmp_path: Path) -> None:
    template, _, operation, parameters = unchanged(name, inductor)
    text = rendered(tmp_path, template, operation, parameters)
    request = CompileRequest(text, "unit", Language.HIP, "gfx942")
    flags = [*compile_flags(request, toolchain), *include_flags(request, toolchain)]
    compiled(text, toolchain, *flags, "--offload-host-only", "-fsyntax-only")


def smallest(library: str, dtype: str) -> dict[str, Any]:
    """Of ck4inductor's instances for a row-major X and a col-major W that take any M and K, one that compiles fast."""
    ck4inductor()
    operations = import_module(f"ck4inductor.{library}.gen_instances").gen_ops_library()
    wanted = {"a_layout": "Row", "b_layout": "Col", "a_element_dtype": dtype, "c_element_dtype": dtype}
    wanted |= {"gemm_specialization": "GemmSpecialization::MNKPadding"}
    wanted |= {"block_gemm_pipeline_version": "BlockGemmPipelineVersion::v1"}
    fitting = (one for one in map(instance, operations) if wanted.items() <= one.items())
    return min(fitting, key=lambda one: int(one["m_per_block"] * one["n_per_block"] * one["k_per_block"]))


def kernel_file(kind: str, dtype: str, more: str, parameters: dict[str, Any], shapes: str) -> str:
    tensors = f'a = {{ dtype = "{dtype}" }}\nb = {{ dtype = "{dtype}", layout = "col" }}\nc = {{ dtype = "{dtype}" }}\n'
    values = "".join(f"{name} = {toml_value(value)}\n" for name, value in parameters.items())
    operation = f'[operation]\nkind = "{kind}"\n{tensors}{more}'
    return f'template = "own.hip.j2"\n\n{operation}\n{shapes}\n[[instance]]\nname = "one"\n{values}'


@pytest.mark.network
@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_text_of_inductor_computes_what_it_says(
    inductor: InductorText, toolchain: Toolchain, trusted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ragged = '[[shape]]\nname = "ragged tiles"\nM = 33\nN = 40\nK = 200\n'
    with_bias = 'bias = { dtype = "f16" }\nalpha = 0.5\nbeta = 2.0\n'
    files = {
        "ckwatch.toml": '[workspace]\narchs = ["gfx942"]\n',
        "templates/own.hip.j2": inductor.gemm.join(GEMM_BASE),
        "universal.kernel.toml": kernel_file("gemm", "f16", with_bias, smallest("universal_gemm", "F16"), ragged),
        "batched.kernel.toml": kernel_file(
            "batched_gemm", "bf16", "", smallest("batched_universal_gemm", "BF16"), f"{ragged}B = 3\n"
        ),
    }
    assert workspace(trusted, files).diagnostics == ()
    status = main(["verify", "-C", str(trusted), "--shape", "ragged tiles", "--details"])
    printed = capsys.readouterr().out
    assert (status, printed.count("verified (emulated gfx942)")) == (0, 2), printed
