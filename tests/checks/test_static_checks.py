"""Parameters that no template reads."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gemm_samples import Arguments
from cases.rule_instances import OPERATION, row_col
from ckwatch.checks.rule_diagnostics import rule_diagnostics, unchecked_diagnostics
from ckwatch.checks.static_checks import not_exported, unsupported_operations, unused_parameters
from ckwatch.model.diagnostics import Severity, Source
from ckwatch.model.kernels import Instance, Kernel, Operation, Unit
from ckwatch.model.text import Span, span
from ckwatch.render.renderer import Renderer
from helpers.units import place, unit

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


@pytest.mark.parametrize(
    ("keys", "line"), [("'a.dtype'", 3), ("'split_k', 'a.dtype'", 3), ("'split_k'", 1), ("", 1), ("'a.dtype', 'x'", 3)]
)
def test_what_a_template_does_not_support_is_an_error_at_the_key(tmp_path: Path, keys: str, line: int) -> None:
    comma = ", " if keys else ""
    (tmp_path / "t.hip.j2").write_text(
        "// {{ MPerBlock }}\n{{ unsupported('no \"split\" here'" + comma + keys + ") }}\n"
    )
    subject = unit_diagnosis({"MPerBlock": 20}, MPerBlock=128)
    outcome = Renderer((tmp_path,)).render(replace(subject, kernel=replace(subject.kernel, template="t.hip.j2")))
    assert outcome.rendered is not None, outcome.diagnostics
    (found,) = unsupported_operations(subject, outcome.rendered)
    assert (found.severity, found.code, found.message) == (Severity.ERROR, "kernel-file/unsupported", 'no "split" here')
    assert found.span == place_diagnosis(line)
    assert found.related[0].span == span(
        str(tmp_path / "t.hip.j2"), 1, 0, 1, len("{{ unsupported('no \"split\" here'" + comma + keys + ") }}")
    )


FILE = "/w/gemm.kernel.toml"


def place_diagnosis(line: int) -> Span:
    return span(FILE, line, 12, line, 15)


def unit_diagnosis(given: dict[str, int], **changes: object) -> Unit:
    """A unit whose kernel file gives the parameters in `given`, each on its line."""
    operation = Operation("gemm", (), (), "f32", (), ())
    parameters = {name: value for name, value in row_col(**changes).items() if name in given}
    instance = Instance(
        "v3", parameters, place_diagnosis(20), {name: place_diagnosis(line) for name, line in given.items()}
    )
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
        if isinstance(value, bool):
            return str(value).lower()
        return f"S<{', '.join(map(str, value))}>" if isinstance(value, tuple) else str(value)

    lines = ",\n".join(f"    /* {name} */ {text(value)}" for name, value in arguments.items())
    return f"using G = ck::tensor_operation::device::{OPERATION}<\n{lines}>;\n"


def test_the_place_is_the_blamed_parameter() -> None:
    given = {"MPerBlock": 21, "MPerXDL": 22, "MXdlPerWave": 23}
    (diagnostic,) = rule_diagnostics(unit_diagnosis(given, MXdlPerWave=3), rendered(row_col(MXdlPerWave=3)))
    assert diagnostic.code == "rule/m-per-block"
    assert diagnostic.message == (
        "A wave computes MPerXDL * MXdlPerWave rows of the block tile; whole waves must cover it.\n"
        "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"
    )
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


INDUCTOR_NAMES = {
    "ALayout": "a_layout", "DsLayout": "ds_layouts", "ADataType": "a_element_dtype", "DsDataType": "ds_element_dtypes",
    "GemmAccDataType": "acc_dtype", "GemmSpec": "gemm_specialization", "MPerBlock": "m_per_block",
    "MXdlPerWave": "m_xdl_per_wave", "AK1": "a_k1", "BlkGemmPipelineVer": "block_gemm_pipeline_version",
    "BlkGemmPipeSched": "block_gemm_pipeline_scheduler", "ComputeTypeA": "a_compute_dtype",
    "CDEShuffleBlockTransferScalarPerVectors": "c_shuffle_block_transfer_scalar_per_vector_n_per_block",
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": "a_block_transfer_thread_cluster_lengths_ak0_m_ak1",
}  # fmt: skip
"""Fields of ck4inductor's CKGemmOperation, as its template writes them in comments."""


def spelled(arguments: Arguments, how: str) -> str:
    """The instance as PyTorch Inductor or CK's own lists spell it."""
    text = rendered(arguments)
    if how == "by position":
        return re.sub(r"/\* \w+ \*/ ", "", text)
    if how == "constants":
        value = arguments["MXdlPerWave"]
        return f"constexpr int kWaves = {value};\n" + text.replace(f"MXdlPerWave */ {value}", "MXdlPerWave */ kWaves")
    names = {**{name: re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in arguments}, **INDUCTOR_NAMES}
    return re.sub(r"/\* (\w+) \*/", lambda found: f"/* {names[found[1]]} */", text)


@pytest.mark.parametrize("how", ["by position", "snake case", "constants"])
def test_rules_apply_however_an_instance_is_spelled(how: str) -> None:
    subject = unit_diagnosis({})
    assert rule_diagnostics(subject, spelled(row_col(), how)) == ()
    assert unchecked_diagnostics(subject, spelled(row_col(), how)) == ()
    (found,) = rule_diagnostics(subject, spelled(row_col(MXdlPerWave=3), how))
    assert found.code == "rule/m-per-block"


def test_a_parameter_in_inductors_spelling_has_its_place_and_a_fix() -> None:
    subject = unit_diagnosis({})
    instance = replace(
        subject.instance,
        parameters={"m_per_block": 128, "m_xdl_per_wave": 3},
        spans={"m_per_block": place_diagnosis(30), "m_xdl_per_wave": place_diagnosis(31)},
    )
    (found,) = rule_diagnostics(replace(subject, instance=instance), spelled(row_col(MXdlPerWave=3), "snake case"))
    assert (found.span, [fix.text for fix in found.fixes]) == (place_diagnosis(31), ["2"])


def test_what_was_changed_since_the_unit_passed_is_shown() -> None:
    given = {"MPerBlock": 21, "MXdlPerWave": 23}
    subject = unit_diagnosis(given, MPerBlock=192)
    text = rendered(row_col(MPerBlock=192, MXdlPerWave=4))
    parameters = {"MPerBlock": 192, "MXdlPerWave": 4}
    subject = replace(subject, instance=replace(subject.instance, parameters=parameters))
    for changed, line in (("MPerBlock", 21), ("MXdlPerWave", 23)):
        passed = {**parameters, changed: 1}
        (found,) = rule_diagnostics(subject, text, passed=passed)
        assert found.span == place_diagnosis(line)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "using G = ck::tensor_operation::device::DeviceGroupedConvFwd<2>;",
            "no instance rules for DeviceGroupedConvFwd",
        ),
        (
            f"using G = ck::tensor_operation::device::{OPERATION}<Arguments...;",
            f"arguments of {OPERATION} could not be",
        ),
        (rendered(row_col(MXdlPerWave="kWaves * 2")), f"MXdlPerWave of {OPERATION} could not be read"),
        (rendered(row_col()), ""),
        ("// ck::tensor_operation::device::DeviceGroupedConvFwd<2>", ""),
    ],
)
def test_what_the_rules_did_not_check_is_said_once(text: str, words: str) -> None:
    found = unchecked_diagnostics(unit_diagnosis({}), text)
    assert [(one.severity, one.span) for one in found] == ([(Severity.HINT, place_diagnosis(1))] if words else [])
    assert all(words in one.message for one in found)


CALL = "{{ def_kernel([X], [Y]) }}"
EXPORTS = [
    (f'extern "C" PT_EXPORT {CALL} {{}}', None, ""),
    (f'extern "C" {{\nPT_EXPORT {CALL} {{}}\n}}', None, ""),
    (f'#if 1\ninline\n#else\nextern "C" PT_EXPORT\n#endif\n{CALL} {{}}', None, ""),
    (f'extern "C" __attribute__((visibility("default"))) {CALL} {{}}', None, ""),
    (f'extern "C" {CALL};', None, ""),
    (f"int x;  {CALL} {{}}", "1:9", 'extern "C" PT_EXPORT '),
    (f'extern "C" {CALL} {{}}', "1:12", "PT_EXPORT "),
    (f"\nPT_EXPORT {CALL} {{}}", "2:11", ""),
]


@pytest.mark.parametrize(("template", "start", "fix"), EXPORTS)
def test_kernels_that_are_not_exported(tmp_path: Path, template: str, start: str | None, fix: str) -> None:
    (tmp_path / "a.hip.j2").write_text(template)
    outcome = Renderer((tmp_path,)).render(unit("a.hip.j2")).rendered
    assert outcome is not None
    found = not_exported(outcome)
    assert [str(one.span.start) for one in found] == ([] if start is None else [start])
    assert [mend.text for one in found for mend in one.fixes] == ([fix] if fix else [])
