"""`ck_tile/fmha_forward.hip.j2`: what it renders, and one unit under the real compiler and the emulator."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.ck_tile_fmha import OPERATION as RULES
from ckwatch.checks.rules.instances import rendered_instances, unchecked_operations
from ckwatch.cli import main
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.kernels import Unit
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from helpers.gemm_build import render

EXAMPLE = Path(__file__).parents[2] / "examples" / "attention"
UNITS = {unit.id: unit for unit in load_workspace(EXAMPLE).units}


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest) -> Unit:
    return UNITS[request.param]


def test_the_rules_find_each_instance_and_nothing_wrong(renderer: Renderer, unit: Unit) -> None:
    source = render(renderer, unit).text
    (found,) = rendered_instances(source)
    assert list(found.arguments) == list(RULES.parameters)
    assert unchecked_operations(source) == []
    assert check_instance(found.device_operation, found.arguments, unit.arch, source=source) == ()


def test_every_assertion_of_the_template_is_a_rule(renderer: Renderer, unit: Unit) -> None:
    source = render(renderer, unit).text
    asserted = set(re.findall(r'static_assert\([^;]*?"([^"]*)"\);', source))
    assert asserted == {rule.asserted_by for rule in RULES.rules if rule.asserted_by} | {"the arch has no MFMA"}


def test_fast_math_is_an_error(renderer: Renderer, unit: Unit) -> None:
    assert "#if __FINITE_MATH_ONLY__\n#error" in render(renderer, unit).text
    assert "-fno-fast-math" in unit.kernel.flags


@pytest.mark.parametrize(("arch", "largest"), [("gfx942", "240.0f"), ("gfx950", "448.0f")])
def test_probabilities_fill_the_range_of_f8(renderer: Renderer, arch: str, largest: str) -> None:
    unit = replace(UNITS["forward_f8/qr_128x128@gfx942"], arch=arch)
    source = render(renderer, unit).text
    assert f"largest_probability = {largest};" in source
    assert "argument.problem.scale_o *= *argument.scale_v;" in source


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("forward_f16/qr_128x128@gfx942", "NO_MASK"),
        ("forward_bf16_causal/qr_128x128@gfx942", "MASK_FROM_BOTTOM_RIGHT"),
    ],
)
def test_masks(renderer: Renderer, name: str, mask: str) -> None:
    assert f"GenericAttentionMaskEnum::{mask})," in render(renderer, UNITS[name]).text


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_the_emulator_finds_it_right(tmp_path: Path, toolchain: Toolchain, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ckwatch.toml", "forward_f16_sliding.kernel.toml"):
        shutil.copy(EXAMPLE / name, tmp_path)
    pattern = "forward_f16_sliding/async_128x64"
    assert main(["verify", pattern, "-C", str(tmp_path), "--no-daemon", "--trust"]) == 0
    found = re.search(r"verified \(emulated gfx942\) +(\d+) shapes right", capsys.readouterr().out)
    assert found is not None
    assert int(found[1]) >= 20
