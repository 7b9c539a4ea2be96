"""Parameters that no template reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.gemm_samples import Arguments
from ckwatch.checks.static_checks import rule_diagnostics, unused_parameters
from ckwatch.model.diagnostics import Severity, Source
from ckwatch.model.kernels import Instance, Kernel, Operation, Unit
from ckwatch.model.text import Span, span
from ckwatch.render.renderer import Renderer
from rule_instances import OPERATION, row_col
from units import place, unit

ROWS = [
    ("{{ MPerBlock }}", []),
    ("{% if false %}{{ MPerBlock }}{% endif %}", []),
    ("{{ template_argument('MPerBlock') }}", []),
    ("{% for name, value in parameters.items() %}{{ name }}{% endfor %}", []),
    ("{{ arch }}", ["no template reads the parameter 'MPerBlock'"]),
    ("{{ m_per_block is defined }}", ["no template reads the parameter 'MPerBlock'; did you mean 'm_per_block'?"]),
]


@pytest.mark.parametrize(("template", "expected"), ROWS)
def test_unused_parameters(tmp_path: Path, template: str, expected: list[str]) -> None:
    (tmp_path / "a.hip.j2").write_text(template)
    subject = unit("a.hip.j2", MPerBlock=128)
    rendered = Renderer((tmp_path,)).render(subject).rendered
    assert rendered is not None
    diagnostics = unused_parameters(subject, rendered)
    assert [diagnostic.message for diagnostic in diagnostics] == expected
    assert all(diagnostic.span == place(10) for diagnostic in diagnostics)


FILE = "/w/gemm.kernel.toml"


def place_diagnosis(line: int) -> Span:
    return span(FILE, line, 12, line, 15)


def unit_diagnosis(given: dict[str, int]) -> Unit:
    """A unit whose kernel file gives the parameters in `given`, each on its line."""
    operation = Operation("gemm", (), (), "f32", (), ())
    instance = Instance("v3", {}, place_diagnosis(20), {name: place_diagnosis(line) for name, line in given.items()})
    kernel = Kernel(
        "gemm",
        FILE,
        "t.j2",
        place_diagnosis(1),
        operation,
        {"a.dtype": place_diagnosis(3)},
        (),
        (instance,),
        ("gfx942",),
    )
    return Unit(kernel, instance, "gfx942")


def rendered(arguments: Arguments) -> str:
    def text(value: object) -> str:
        return f"S<{', '.join(map(str, value))}>" if isinstance(value, tuple) else str(value)

    lines = ",\n".join(f"    /* {name} */ {text(value)}" for name, value in arguments.items())
    return f"using G = ck::tensor_operation::device::{OPERATION}<\n{lines}>;\n"


def test_the_place_is_the_blamed_parameter() -> None:
    given = {"MPerBlock": 21, "MPerXDL": 22, "MXdlPerWave": 23}
    (diagnostic,) = rule_diagnostics(unit_diagnosis(given), rendered(row_col(MXdlPerWave=3)))
    assert diagnostic.code == "rule/m-per-block"
    assert diagnostic.message == "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"
    assert (diagnostic.severity, diagnostic.source) == (Severity.ERROR, Source.RULE)
    assert diagnostic.span == place_diagnosis(23)
    assert [(related.message, related.span) for related in diagnostic.related[:2]] == [
        ("MPerBlock = 128", place_diagnosis(21)),
        ("MPerXDL = 32", place_diagnosis(22)),
    ]
    assert diagnostic.related[-1].message.startswith("ck/tensor_operation/")
    assert diagnostic.units == ("gemm/v3@gfx942",)


def test_what_several_rules_name_is_blamed() -> None:
    arguments = row_col(KPerBlock=16)
    places = {
        diagnostic.span
        for diagnostic in rule_diagnostics(unit_diagnosis({"KPerBlock": 30, "AK1": 31, "BK1": 32}), rendered(arguments))
    }
    assert places == {place_diagnosis(30)}


def test_without_the_blamed_parameter_another_has_the_place() -> None:
    (diagnostic,) = rule_diagnostics(unit_diagnosis({"MPerBlock": 21}), rendered(row_col(MXdlPerWave=3)))
    assert diagnostic.span == place_diagnosis(21)


def test_a_dtype_leads_to_the_operation() -> None:
    (diagnostic,) = rule_diagnostics(unit_diagnosis({}), rendered(row_col(ComputeTypeA="I32", ComputeTypeB="I32")))
    assert (diagnostic.code, diagnostic.span) == ("rule/xdl-tile", place_diagnosis(3))


def test_without_any_place_the_instance_has_it() -> None:
    (diagnostic,) = rule_diagnostics(unit_diagnosis({}), rendered(row_col(MXdlPerWave=3)))
    assert diagnostic.span == place_diagnosis(20)


def test_an_instance_emitted_twice_is_diagnosed_once() -> None:
    text = rendered(row_col(MXdlPerWave=3))
    assert len(rule_diagnostics(unit_diagnosis({"MXdlPerWave": 23}), text + text)) == 1


def test_a_good_instance_has_no_diagnostics() -> None:
    assert rule_diagnostics(unit_diagnosis({}), rendered(row_col())) == ()
