"""`ck_tile/rmsnorm.hip.j2` and `ck_tile/layernorm.hip.j2`: what they render, and units under the real compiler and the
emulator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cases.normalization_case import EVERYTHING, unit_of
from ckwatch.checks.rules.checker import OPERATIONS, check_instance
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.cli import main
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.kernels import ParameterValue
from ckwatch.render.renderer import Renderer
from helpers.gemm_build import render

NAMES = {"rms": "CkTileRmsnorm2d", "layer": "CkTileLayernorm2d"}


def text(root: Path, renderer: Renderer, norm: str, more: str = "", **parameters: ParameterValue) -> str:
    return render(renderer, unit_of(root, norm, more, **parameters)).text


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("norm", NAMES)
def test_the_rules_find_the_instance(tmp_path: Path, renderer: Renderer, norm: str, more: bool) -> None:
    source = text(tmp_path, renderer, norm, EVERYTHING[norm] if more else "")
    (found,) = rendered_instances(source)
    assert found.device_operation == NAMES[norm]
    assert list(found.arguments) == list(OPERATIONS[NAMES[norm]].parameters)
    assert check_instance(found.device_operation, found.arguments, "gfx942", source=source) == ()


@pytest.mark.parametrize("norm", NAMES)
def test_two_passes_do_not_quantise(tmp_path: Path, renderer: Renderer, norm: str) -> None:
    source = text(tmp_path, renderer, norm, 'quantize = { dtype = "i8" }\n', kTwoPass=True)
    (found,) = rendered_instances(source)
    broken = check_instance(found.device_operation, found.arguments, "gfx942", source=source)
    assert [one.rule for one in broken] == ["two-pass-quant"]


@pytest.mark.parametrize("norm", NAMES)
def test_every_assertion_of_the_template_is_a_rule(tmp_path: Path, renderer: Renderer, norm: str) -> None:
    asserted = set(re.findall(r'static_assert\([^;]*?"([^"]*)"\);', text(tmp_path, renderer, norm)))
    assert asserted == {rule.asserted_by for rule in OPERATIONS[NAMES[norm]].rules if rule.asserted_by}


@pytest.mark.parametrize(
    ("norm", "names"),
    [
        ("rms", "X Residual Gamma SmoothScale Y ResidualOut YScale YUnquantized InvRms"),
        ("layer", "X Residual XBias Gamma Beta SmoothScale Y ResidualOut YScale Mean InvStd"),
    ],
)
def test_its_c_function(tmp_path: Path, renderer: Renderer, norm: str, names: str) -> None:
    source = text(tmp_path, renderer, norm, EVERYTHING[norm])
    declared = re.search(r'extern "C" PT_EXPORT\s+int \w+\(([^)]*)\)', source)
    assert declared is not None
    found = [one.split()[-1].lstrip("*") for one in declared[1].split(",")]
    sizes = ["M", "N", "x_stride", "xr_stride", "y_stride", "yr_stride"]
    assert found == [*names.split(), *sizes, "workspace_size", "workspace", "stream"]


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("norm", NAMES)
def test_the_emulator_finds_it_right(
    tmp_path: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str], norm: str
) -> None:
    unit_of(tmp_path, norm, EVERYTHING[norm])
    assert main(["verify", "norm", "-C", str(tmp_path), "--no-daemon", "--trust"]) == 0
    found = re.search(r"verified \(emulated gfx942\) +(\d+) shapes right", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 20
