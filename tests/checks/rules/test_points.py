"""Rules give the same verdict for a point whether or not it is rendered."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import ckwatch
import ckwatch_templates
from ckwatch.checks.rules.candidates import instance_errors
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.points import Parameters, PointRules
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace

GEMM = Path(ckwatch.__file__).parents[2] / "examples/gemm"


@pytest.fixture(scope="module")
def units() -> list[Unit]:
    return [unit for unit in load_workspace(GEMM).units if unit.kernel.name == "gemm_f16"]


RENDERER = Renderer((Path(ckwatch_templates.__file__).parent,))


@pytest.fixture(scope="module")
def examples(units: list[Unit]) -> list[tuple[Parameters, str]]:
    return [(unit.instance.parameters, text_of(unit, unit.instance.parameters)) for unit in units[:4]]


def text_of(unit: Unit, parameters: Parameters) -> str:
    instance = replace(unit.instance, parameters=parameters)
    outcome = RENDERER.render(replace(unit, instance=instance))
    assert outcome.rendered is not None
    return outcome.rendered.text


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"MPerBlock": 96},
        {"KPerBlock": 32},
        {"MXdlPerWave": 3},
        {"BlkGemmPipelineVer": "v5"},
        {"BlkGemmPipeSched": "Interwave"},
        {"ABlockTransferThreadClusterLengths_AK0_M_AK1": (16, 16, 1)},
        {"NPerBlock": 512, "MPerBlock": 512},
    ],
)
def test_refusals_are_those_of_the_rendered_instance(
    units: list[Unit], examples: list[tuple[Parameters, str]], changed: Parameters
) -> None:
    rules = PointRules.of(examples, "gfx942")
    assert rules is not None
    parameters = {**units[0].instance.parameters, **changed}
    text = text_of(units[0], parameters)
    expected = instance_errors(rendered_instances(text), text, "gfx942")
    found = rules.refusal(parameters)
    assert bool(found) == bool(expected)
    if expected:
        assert found.startswith(f"rule/{expected[0].rule}: ")


def test_broken_rules_name_the_parameters_that_take_part(units: list[Unit]) -> None:
    parameters = units[0].instance.parameters
    rules = PointRules.of([(parameters, text_of(units[0], parameters))], "gfx942")
    assert rules is not None
    assert rules.broken(parameters) == {}
    a, b = "ABlockTransferThreadClusterLengths_AK0_M_AK1", "BBlockTransferThreadClusterLengths_BK0_N_BK1"
    assert rules.broken({**parameters, "KPerBlock": 32}) == {
        "a-cluster-k0": ("KPerBlock", "AK1", a),
        "b-cluster-k0": ("KPerBlock", "BK1", b),
    }
    # what cannot be put in
    assert rules.broken({**parameters, "BlkGemmPipelineVer": 3}) is None


def test_conditions_hold_where_no_rule_refuses(units: list[Unit], examples: list[tuple[Parameters, str]]) -> None:
    rules = PointRules.of(examples, "gfx942")
    assert rules is not None
    conditions = rules.conditions()
    rng, seen = random.Random(1), set[bool]()  # noqa: S311  # a sample
    values: dict[str, list[ParameterValue]] = {
        "BlockSize": [64, 256],
        "MPerBlock": [32, 128],
        "KPerBlock": [32, 64],
        "MXdlPerWave": [1, 2],
        "BlkGemmPipelineVer": ["v1", "v3", "v5"],
        "BlkGemmPipeSched": ["Intrawave", "Interwave"],
    }
    for _ in range(60):
        parameters = {**units[0].instance.parameters, **{name: rng.choice(own) for name, own in values.items()}}
        broken = [one for one in conditions if not one.holds({name: parameters[name] for name in one.names})]
        seen.add(allowed := not rules.refusal(parameters))
        assert allowed == (not broken), (parameters, broken)
    assert seen == {True, False}


def test_a_template_that_does_more_than_to_pass_parameters_on(units: list[Unit]) -> None:
    parameters = dict(units[0].instance.parameters)
    text = text_of(units[0], parameters)
    doubled = text_of(units[0], {**parameters, "MPerBlock": 2 * int(str(parameters["MPerBlock"]))})
    assert PointRules.of([(parameters, text), (parameters, text)], "gfx942") is not None
    assert PointRules.of([(parameters, text), (parameters, doubled)], "gfx942") is None
    assert PointRules.of([(parameters, "int main() {}")], "gfx942") is None
    assert PointRules.of([], "gfx942") is None
