"""`ck/gemm_block_scaled.hip.j2`: what it asks of CK, and what it asserts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from helpers.gemm_build import ROOT, render

EXAMPLE = ROOT / "examples/scaled_gemm/gemm_f8_block_scales.kernel.toml"


def rendered(renderer: Renderer, folder: Path, change: tuple[str, str] = ("", "")) -> str:
    """The text of the example's first instance."""
    (folder / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (folder / "k.kernel.toml").write_text(EXAMPLE.read_text().replace(*change, 1) if change[0] else EXAMPLE.read_text())
    workspace = load_workspace(folder)
    assert not list(workspace.errors)
    return render(renderer, next(iter(workspace.units))).text


def test_scales_are_arguments_of_cks_operation(renderer: Renderer, tmp_path: Path) -> None:
    text = rendered(renderer, tmp_path)
    assert "DeviceGemmMultiD_ABScale_Xdl_CShuffle_V3<" in text
    assert "/* ScaleBlockM */ 1,\n        /* ScaleBlockN */ 128,\n        /* ScaleBlockK */ 128," in text
    assert "/* DsDataType */ Tuple<>" in text
    call = text[text.index("Gemm::MakeArgument(") :].partition(";")[0]
    assert "inv_scale_x,\n        inv_scale_w," in call
    assert "kBatch" not in call
    assert "SplitKBatchOffset" not in text
    assert "static_assert(false" not in text


@pytest.mark.parametrize(
    ("change", "asserted"),
    [
        (('c = { dtype = "bf16", layout = "row" }', 'c = { dtype = "bf16" }\nsplit_k = true'), "static_assert(false"),
        (("block = [1, 128]", "block = [4, 128]"), "static_assert(4 == 1"),
        (('BlkGemmPipelineVer = "v3"', 'BlkGemmPipelineVer = "v2"'), "static_assert(false"),
        (("KPerBlock = 128", "KPerBlock = 64"), "static_assert(64 % 128 == 0"),
    ],
)
def test_what_ck_takes_for_granted_is_asserted(
    change: tuple[str, str], asserted: str, renderer: Renderer, tmp_path: Path
) -> None:
    assert asserted in rendered(renderer, tmp_path, change)
