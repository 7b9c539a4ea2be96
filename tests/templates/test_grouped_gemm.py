"""`ck_tile/grouped_gemm.hip.j2`: what it renders, and one unit under the real compiler and the emulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.ck_tile_gemm import OPERATION as RULES
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.cli import main
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.kernels import ParameterValue
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.toml import toml_value
from helpers.gemm_build import render

PARAMETERS: dict[str, ParameterValue] = {
    "TileM": 64, "TileN": 64, "TileK": 32, "WarpM": 2, "WarpN": 2, "WarpK": 1,
    "WarpTileM": 16, "WarpTileN": 16, "WarpTileK": 16, "kPadM": True, "kPadN": True, "kPadK": True,
    "Pipeline": "CompV3", "Scheduler": "Intrawave", "Epilogue": "CShuffle",
}  # fmt: skip
KERNEL = """template = "ck_tile/grouped_gemm.hip.j2"

[operation]
kind = "grouped_gemm"
a = { dtype = "bf16" }
b = { dtype = "bf16", layout = "row" }
c = { dtype = "bf16" }
"""
EPILOGUE = """scale_a = { per = "row" }
scale_b = { per = "row" }
bias = { dtype = "f32" }
activation = "silu"
"""


def kernel_file(more: str = "", **parameters: ParameterValue) -> str:
    values = {"name": "i", **PARAMETERS, **parameters}
    return (
        KERNEL
        + more
        + "\n[[instance]]\n"
        + "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items())
    )


def text(root: Path, renderer: Renderer, more: str = "", **parameters: ParameterValue) -> str:
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "grouped.kernel.toml").write_text(kernel_file(more, **parameters))
    (unit,) = load_workspace(root).units
    return render(renderer, unit).text


def test_the_rules_are_those_of_a_gemm(tmp_path: Path, renderer: Renderer) -> None:
    source = text(tmp_path, renderer, PersistentBlocks=304)
    (found,) = rendered_instances(source)
    assert list(found.arguments) == list(RULES.parameters)
    assert found.arguments["PersistentBlocks"] == 304
    assert check_instance(found.device_operation, found.arguments, "gfx942", source=source) == ()
    source = text(tmp_path, renderer, TileM=48)
    (found,) = rendered_instances(source)
    assert [one.rule for one in check_instance(found.device_operation, found.arguments, "gfx942", source=source)] == [
        "m-warps"
    ]


def test_its_c_function(tmp_path: Path, renderer: Renderer) -> None:
    source = text(tmp_path, renderer, EPILOGUE)
    names = ("X", "W", "Offsets", "inv_scale_x", "inv_scale_w", "Bias", "Y", "G", "M", "N", "K", "LDA", "LDB", "LDC")
    declared = re.search(r'extern "C" PT_EXPORT\s+int \w+\(([^)]*)\)', source)
    assert declared is not None
    found = [one.split()[-1].lstrip("*") for one in declared[1].split(",")]
    assert tuple(found) == (*names, "workspace_size", "workspace", "stream")


def test_what_a_group_has_of_its_own(tmp_path: Path, renderer: Renderer) -> None:
    plain, whole = text(tmp_path, renderer), text(tmp_path, renderer, EPILOGUE)
    one_scale = text(tmp_path, renderer, "scale_a = {}\nscale_b = {}\n")
    for moved in ("operands.inv_scale_x +=", "operands.inv_scale_w +=", "operands.bias +="):
        assert moved not in plain + one_scale
        assert moved in whole
    assert "apply_epilogue" not in plain
    assert "apply_epilogue" in one_scale


def test_blocks_take_one_tile_or_tile_after_tile(tmp_path: Path, renderer: Renderer) -> None:
    assert "return;  // there is a block for each tile" in text(tmp_path, renderer)
    assert "return;  // there is a block for each tile" not in text(tmp_path, renderer, PersistentBlocks=8)


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_the_emulator_finds_it_right(tmp_path: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (tmp_path / "grouped.kernel.toml").write_text(kernel_file(EPILOGUE, PersistentBlocks=3))
    assert main(["verify", "grouped", "-C", str(tmp_path), "--no-daemon", "--trust"]) == 0
    found = re.search(r"verified \(emulated gfx942\) +(\d+) shapes right", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 20
