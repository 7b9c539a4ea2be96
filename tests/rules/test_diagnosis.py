"""Violations as diagnostics at the parameter's place in the kernel file."""

from __future__ import annotations

from benchmarks.gemm_samples import Arguments
from ckwatch.model.diagnostic import Severity, Source
from ckwatch.model.kernel import Instance, Kernel, Operation, Unit
from ckwatch.model.text import Span, span
from ckwatch.rules import diagnose
from rule_instances import OPERATION, row_col

FILE = "/w/gemm.kernel.toml"


def place(line: int) -> Span:
    return span(FILE, line, 12, line, 15)


def unit(given: dict[str, int]) -> Unit:
    """A unit whose kernel file gives the parameters in `given`, each on its line."""
    operation = Operation("gemm", (), (), "f32", (), ())
    instance = Instance("v3", {}, place(20), {name: place(line) for name, line in given.items()})
    kernel = Kernel("gemm", FILE, "t.j2", place(1), operation, {"a.dtype": place(3)}, (), (instance,), ("gfx942",))
    return Unit(kernel, instance, "gfx942")


def rendered(arguments: Arguments) -> str:
    def text(value: object) -> str:
        return f"S<{', '.join(map(str, value))}>" if isinstance(value, tuple) else str(value)

    lines = ",\n".join(f"    /* {name} */ {text(value)}" for name, value in arguments.items())
    return f"using G = ck::tensor_operation::device::{OPERATION}<\n{lines}>;\n"


def test_the_place_is_the_blamed_parameter() -> None:
    given = {"MPerBlock": 21, "MPerXDL": 22, "MXdlPerWave": 23}
    (diagnostic,) = diagnose(unit(given), rendered(row_col(MXdlPerWave=3)))
    assert diagnostic.code == "rule/m-per-block"
    assert diagnostic.message == "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"
    assert (diagnostic.severity, diagnostic.source) == (Severity.ERROR, Source.RULE)
    assert diagnostic.span == place(23)
    assert [(related.message, related.span) for related in diagnostic.related[:2]] == [
        ("MPerBlock = 128", place(21)),
        ("MPerXDL = 32", place(22)),
    ]
    assert diagnostic.related[-1].message.startswith("ck/tensor_operation/")
    assert diagnostic.units == ("gemm/v3@gfx942",)


def test_what_several_rules_name_is_blamed() -> None:
    arguments = row_col(KPerBlock=16)
    places = {
        diagnostic.span for diagnostic in diagnose(unit({"KPerBlock": 30, "AK1": 31, "BK1": 32}), rendered(arguments))
    }
    assert places == {place(30)}


def test_without_the_blamed_parameter_another_has_the_place() -> None:
    (diagnostic,) = diagnose(unit({"MPerBlock": 21}), rendered(row_col(MXdlPerWave=3)))
    assert diagnostic.span == place(21)


def test_a_dtype_leads_to_the_operation() -> None:
    (diagnostic,) = diagnose(unit({}), rendered(row_col(ComputeTypeA="I32", ComputeTypeB="I32")))
    assert (diagnostic.code, diagnostic.span) == ("rule/xdl-tile", place(3))


def test_without_any_place_the_instance_has_it() -> None:
    (diagnostic,) = diagnose(unit({}), rendered(row_col(MXdlPerWave=3)))
    assert diagnostic.span == place(20)


def test_an_instance_emitted_twice_is_diagnosed_once() -> None:
    text = rendered(row_col(MXdlPerWave=3))
    assert len(diagnose(unit({"MXdlPerWave": 23}), text + text)) == 1


def test_a_good_instance_has_no_diagnostics() -> None:
    assert diagnose(unit({}), rendered(row_col())) == ()
