"""`ck_tile/gemm_universal.hip.j2`: what it renders, and one unit under the real compiler and the emulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ckwatch_templates
from cases.gemm_case import GemmCase
from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.ck_tile_gemm import OPERATION as RULES
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.cli import main
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.headers.features import FEATURES
from ckwatch.headers.searched_headers import SearchedHeaders
from ckwatch.model.kernels import ParameterValue
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.toml import toml_value
from helpers.gemm_build import render
from helpers.newest_ck_tile import changed_copy

TEMPLATE = "ck_tile/gemm_universal.hip.j2"
PARAMETERS: dict[str, ParameterValue] = {
    "TileM": 64, "TileN": 64, "TileK": 32, "WarpM": 2, "WarpN": 2, "WarpK": 1,
    "WarpTileM": 16, "WarpTileN": 16, "WarpTileK": 16, "kPadM": True, "kPadN": True, "kPadK": True,
    "Pipeline": "CompV3", "Scheduler": "Intrawave", "Epilogue": "CShuffle",
}  # fmt: skip
KERNEL = """template = "ck_tile/gemm_universal.hip.j2"

[operation]
kind = "ck_tile_gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "row" }
c = { dtype = "bf16", layout = "row" }
bias = { dtype = "f32", layout = "row" }
activation = "gelu"

[[instance]]
name = "persistent"
PersistentBlocks = 3
"""


def text(renderer: Renderer, case: GemmCase, **parameters: ParameterValue) -> str:
    return render(renderer, case.unit(TEMPLATE, {**PARAMETERS, **parameters})).text


def test_the_rules_find_the_instance(renderer: Renderer) -> None:
    source = text(renderer, GemmCase())
    (found,) = rendered_instances(source)
    assert {name: found.arguments[name] for name in ("TileM", "kPadK", "PersistentBlocks")} == {
        "TileM": 64,
        "kPadK": True,
        "PersistentBlocks": 0,
    }
    assert list(found.arguments) == list(RULES.parameters)
    assert check_instance(found.device_operation, found.arguments, "gfx942", source=source) == ()


@pytest.mark.parametrize(("arch", "dtype", "warp_tile_k"), [("gfx950", "bf16", 16), ("gfx90a", "i8", 32)])
def test_what_ck_tile_leaves_empty_is_asserted(renderer: Renderer, arch: str, dtype: str, warp_tile_k: int) -> None:
    accumulator = "i32" if dtype == "i8" else "f32"
    case = GemmCase(dtype, dtype, dtype, accumulator=accumulator, arch=arch)
    source = text(renderer, case, WarpTileK=warp_tile_k)
    (found,) = rendered_instances(source)
    (broken,) = check_instance(found.device_operation, found.arguments, arch, source=source)
    assert (broken.rule, broken.severity) == ("warp-tile-instruction", "error")


def test_every_assertion_of_the_template_is_a_rule(renderer: Renderer) -> None:
    asserted = set(re.findall(r'static_assert\([^;]*?"([^"]*)"\);', text(renderer, GemmCase())))
    assert asserted == {rule.asserted_by for rule in RULES.rules if rule.asserted_by}


def test_the_epilogue_is_computed_only_where_there_is_one(renderer: Renderer) -> None:
    assert "apply_epilogue" not in text(renderer, GemmCase())
    assert "apply_epilogue" in text(renderer, GemmCase(bias="col"))
    assert "apply_epilogue" in text(renderer, GemmCase(c="f8"))


def test_stream_k_replaces_the_kernel_and_split_k(renderer: Renderer) -> None:
    source = text(renderer, GemmCase(bias="row"), StreamKBlocks=304)
    assert "gemm_universal<" not in source
    assert "sum_partials" in source
    assert "sum_partials" not in text(renderer, GemmCase(bias="row"))
    assert "sum_slices" not in source
    assert '"kBatch must be 1 with StreamKBlocks"' in source
    (found,) = rendered_instances(source)
    assert found.arguments["StreamKBlocks"] == 304
    assert check_instance(found.device_operation, found.arguments, "gfx942", source=source) == ()


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_the_emulator_finds_stream_k_right(
    tmp_path: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    parameters = "".join(f"{name} = {toml_value(value)}\n" for name, value in PARAMETERS.items())
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    kernel = KERNEL.replace("PersistentBlocks = 3", "StreamKBlocks = 7") + parameters
    (tmp_path / "tile.kernel.toml").write_text(kernel + "[[shape]]\nM = 300\nN = 200\nK = 328\n")
    assert main(["verify", "tile", "-C", str(tmp_path), "--no-daemon", "--trust"]) == 0
    found = re.search(r"verified \(emulated gfx942\) +(\d+) shapes right", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 30


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_the_emulator_finds_it_right(tmp_path: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str]) -> None:
    parameters = "".join(f"{name} = {toml_value(value)}\n" for name, value in PARAMETERS.items())
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (tmp_path / "tile.kernel.toml").write_text(KERNEL + parameters)
    assert main(["verify", "tile", "-C", str(tmp_path), "--no-daemon", "--trust"]) == 0
    found = re.search(r"verified \(emulated gfx942\) +(\d+) shapes right", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 30


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_it_is_right_with_headers_changed_as_those_of_rocm_7_14(
    tmp_path: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    assert toolchain.ck_tile is not None
    headers = changed_copy(toolchain.ck_tile.folder, tmp_path / "include")
    known = SearchedHeaders((str(headers),))
    gone = ("gemm-tails", "cshuffle-memory-operation", "gemm-tensor-views", "gemm-second-lds")
    asked = [name for name in FEATURES if name.startswith(("gemm", "cshuffle"))]
    assert [name for name in asked if not known.feature(name).has] == list(gone)
    lines = "".join(f"{name} = {toml_value(value)}\n" for name, value in PARAMETERS.items())
    settings = f'[workspace]\narchs = ["gfx942"]\n[toolchain]\nck_tile = {toml_value(str(headers))}\n'
    (tmp_path / "ckwatch.toml").write_text(settings)
    (tmp_path / "tile.kernel.toml").write_text(KERNEL.replace("PersistentBlocks = 3\n", "") + lines)
    assert main(["verify", "tile", "-C", str(tmp_path), "--no-daemon", "--trust"]) == 0
    found = re.search(r"verified \(emulated gfx942\) +(\d+) shapes right", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 30


def test_pipelines_that_headers_lack(tmp_path: Path) -> None:
    problem = FEATURES["gemm-tails"].header
    for name, declared in (
        ("ck_tile/core.hpp", ""),
        (problem, "template <class A> struct UniversalGemmPipelineProblem {};"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(declared)
    found = Renderer((ckwatch_templates.ROOT,), header_folders=(tmp_path,)).render(
        GemmCase().unit(TEMPLATE, PARAMETERS)
    )
    assert found.rendered is not None
    assert "takes no `AElementWise`" in found.rendered.text
    assert "GemmPipelineAgBgCrMem" not in found.rendered.text
    assert set(found.headers) == {str(tmp_path / problem)}
