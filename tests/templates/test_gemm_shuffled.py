"""`ck/gemm_preshuffled.hip.j2` and `ck/gemm_microscaled.hip.j2`: what they render, by the kernel files of the examples."""

from __future__ import annotations

from pathlib import Path

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.model.kernels import Unit
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from ckwatch_templates import ROOT
from helpers.each_row import each_row

EXAMPLES = Path(__file__).parents[2] / "examples"


def units(example: str) -> list[Unit]:
    found = load_workspace(EXAMPLES / example)
    assert found.diagnostics == ()
    return list(found.units)


def rendered(unit: Unit) -> str:
    outcome = Renderer((ROOT,)).render(unit)
    assert outcome.rendered is not None, outcome.diagnostics
    return outcome.rendered.text


@each_row("unit", [*units("preshuffled_gemm"), *units("microscaled_gemm")])
def test_instances_of_the_examples_break_no_rule(unit: Unit) -> None:
    text = rendered(unit)
    (instance,) = rendered_instances(text)
    assert check_instance(instance.device_operation, instance.arguments, unit.arch, source=text) == ()


def test_weights_are_addressed_by_all_of_k() -> None:
    texts = {unit.instance.parameters["BlkGemmPipelineVer"]: rendered(unit) for unit in units("preshuffled_gemm")}
    for version, text in texts.items():
        assert "argument.c_element_op, first_block, whole_k);" in text
        assert ("Run_2Lds" in text) == (version != "v1")
        assert "LDB" not in text


def test_scales_are_read_where_the_slice_begins() -> None:
    for unit in units("microscaled_gemm"):
        text = rendered(unit)
        assert "a, a_scale, b, b_scale, c, lds" in text
        assert "N must be a multiple of 32" in text
