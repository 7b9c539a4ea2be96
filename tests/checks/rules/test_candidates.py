"""Which values are considered for a parameter, and what the rules say of each."""

from __future__ import annotations

from pathlib import Path

import pytest

import ckwatch
import ckwatch_templates
from ckwatch.checks.rules.candidates import (
    MAX_CANDIDATES,
    candidate_values,
    check_candidates,
    nearest_first,
    substituted,
)
from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import load_workspace
from helpers.each_row import each_row

GEMM = Path(ckwatch.__file__).parents[2] / "examples/gemm"


@pytest.fixture(scope="module")
def units() -> dict[str, Unit]:
    return {unit.instance.name: unit for unit in load_workspace(GEMM).units if unit.kernel.name == "gemm_f16"}


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer((Path(ckwatch_templates.__file__).parent,))


@each_row(
    ("present", "allowed", "others", "expected"),
    [
        (128, (), (96,), [128, 112, 144, 96, 160]),
        (2, (), (), [2, 1, 3, 4]),
        (True, (), (), [True, False]),
        ("v3", ("v1", "v2", "v3"), (), ["v3", "v1", "v2"]),
        ("a", (), ("b",), ["a", "b"]),
        (None, (), (64,), [64, 1, 2]),
        (None, (), (), []),
        ((8, 32, 1), (), (), [(8, 32, 1), (4, 32, 1)]),
        (1.5, (), (2.5,), [1.5, 2.5]),
        (0, (), (), [0, 1]),
    ],
)
def test_candidates(
    present: ParameterValue | None,
    allowed: tuple[ParameterValue, ...],
    others: tuple[ParameterValue, ...],
    expected: list[ParameterValue],
) -> None:
    found = candidate_values(present, allowed, others)
    assert len(found) <= MAX_CANDIDATES
    assert len({(type(value), value) for value in found}) == len(found)
    if isinstance(present, (int, tuple)) and not isinstance(present, bool):
        assert set(expected) <= set(found)
        assert found[0] == present
    else:
        assert found[: len(expected)] == expected


def test_nearest_first() -> None:
    assert nearest_first([256, 64, 128, 96, 512], 128) == [128, 96, 64, 256, 512]
    assert nearest_first([(4, 64, 1), (8, 32, 1), (4, 32, 1)], (8, 32, 1)) == [(8, 32, 1), (4, 32, 1), (4, 64, 1)]
    assert nearest_first(["b", "a", "c"], "c") == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("argument", "present", "value", "expected"),
    [
        (128, 128, 64, 64),
        (True, 1, 2, None),
        ((8,), 8, 4, (4,)),
        ((8, 1), 8, 4, None),
        ("GemmSpecialization::Default", "Default", "MPadding", "GemmSpecialization::MPadding"),
        ("F16", "F16", "F32", "F32"),
        ("half_t", "F16", "F32", None),
        ((8, 32, 1), (8, 32, 1), (4, 64, 1), (4, 64, 1)),
    ],
)
def test_a_value_in_place_of_another(
    argument: ParameterValue, present: ParameterValue, value: ParameterValue, expected: ParameterValue | None
) -> None:
    assert substituted(argument, present, value) == expected


@pytest.mark.parametrize(
    ("instance", "parameter", "accepted", "refused"),
    [
        ("v3_128x128x64_intrawave", "MPerBlock", [128, 64], [96, 144, 256]),
        ("v3_128x128x64_intrawave", "MXdlPerWave", [2, 4], [3]),
        ("v3_128x128x64_intrawave", "BlkGemmPipeSched", ["Intrawave"], ["Interwave"]),
        ("v1_128x128x64_interwave", "BlkGemmPipelineVer", ["v1", "v2"], ["v3", "v4", "v5"]),
        ("v3_128x128x64_intrawave", "ABlockTransferThreadClusterLengths_AK0_M_AK1", [(8, 32, 1), (8, 16, 1)], [(8, 64, 1)]),
    ],
)  # fmt: skip
def test_values_in_a_real_instance(
    units: dict[str, Unit],
    renderer: Renderer,
    instance: str,
    parameter: str,
    accepted: list[ParameterValue],
    refused: list[ParameterValue],
) -> None:
    unit = units[instance]
    rendered = renderer.render(unit).rendered
    assert rendered is not None
    emitted = rendered_instances(rendered.text)
    present = unit.instance.parameters[parameter]
    judged = check_candidates(emitted, rendered.text, unit.arch, parameter, present, [*accepted, *refused])
    assert judged is not None
    assert [one.value for one in judged if not one.refused_by] == accepted
    assert all(parameter in one.refused_by[0].parameters for one in judged if one.refused_by)


def test_what_rendering_says_agrees(units: dict[str, Unit], renderer: Renderer) -> None:
    """The substituted argument is what the template would have made of the value."""
    unit = units["v3_256x256x32_intrawave"]
    rendered = renderer.render(unit).rendered
    assert rendered is not None
    emitted = rendered_instances(rendered.text)
    for parameter, present in unit.instance.parameters.items():
        for value in candidate_values(present, (), ())[:3]:
            changed = Unit(
                unit.kernel,
                type(unit.instance)("x", {**unit.instance.parameters, parameter: value}, unit.instance.span, {}),
                unit.arch,
            )
            again = renderer.render(changed).rendered
            judged = check_candidates(emitted, rendered.text, unit.arch, parameter, present, [value])
            assert judged is not None
            assert again is not None
            broken = {
                found.rule
                for one in rendered_instances(again.text)
                for found in check_instance(one.device_operation, one.arguments, unit.arch, source=again.text)
                if found.severity == "error"
            }
            assert {found.rule for found in judged[0].refused_by} == broken, (parameter, value)


def test_a_parameter_without_an_argument_of_its_own(units: dict[str, Unit], renderer: Renderer) -> None:
    unit = units["v3_256x256x32_intrawave"]
    rendered = renderer.render(unit).rendered
    assert rendered is not None
    emitted = rendered_instances(rendered.text)
    assert check_candidates(emitted, rendered.text, unit.arch, "NoSuch", 1, [2]) is None
    assert check_candidates(emitted, rendered.text, unit.arch, "MPerBlock", 1, [2]) is None
