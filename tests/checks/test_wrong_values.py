"""Values that are none of their parameter's type: found before any compiler, at the value, with the one that was meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.rules.reference import DESCRIPTIONS
from ckwatch.model.diagnostics import Severity
from ckwatch.model.parameter_types import declarations
from ckwatch.workspace.loading import load_workspace
from helpers.static_diagnostics import BUILTIN, EXAMPLES, changed_example, diagnostics_of, text_at

CK, HIP, CPP, CUDA = "gemm/gemm_f16", "hip/gemm_f8_row_scales", "cpp/gemm_f32", "cuda/gemm_f16"
VERSION = 'BlkGemmPipelineVer = "v3"'
A_CLUSTER = "ABlockTransferThreadClusterLengths_AK0_M_AK1 = "
VECTORS = "CDEShuffleBlockTransferScalarPerVectors = "

ROWS = [
    # example, text, its replacement, code, the value that is underlined, what the fix writes there ("": no fix)
    (CK, VERSION, 'BlkGemmPipelineVer = "v6"', "unknown-value", '"v6"', '"v5"'),
    (CK, VERSION, 'BlkGemmPipelineVer = "V3"', "unknown-value", '"V3"', '"v3"'),
    (CK, VERSION, "BlkGemmPipelineVer = 3", "unknown-value", "3", '"v3"'),
    (CK, VERSION, 'BlkGemmPipelineVer = "fast"', "unknown-value", '"fast"', ""),
    (CK, '"MNKPadding"', '"MNKPad"', "unknown-value", '"MNKPad"', '"MNKPadding"'),
    (CK, '"Intrawave"', '"intrawave"', "unknown-value", '"intrawave"', '"Intrawave"'),
    (CK, VERSION, f'{VERSION}\nComputeTypeA = "bf8"', "unknown-value", '"bf8"', '"BF8"'),
    (CK, VERSION, f'{VERSION}\nComputeTypeB = "fp16"', "unknown-value", '"fp16"', '"F16"'),
    (CK, VERSION, f"{VERSION}\nCShuffleDataType = 32", "wrong-type", "32", ""),
    (CK, "AK1 = 8\n", "AK1 = 8.0\n", "wrong-type", "8.0", "8"),
    (CK, "AK1 = 8\n", "AK1 = 8.5\n", "wrong-type", "8.5", ""),
    (CK, "AK1 = 8\n", "AK1 = true\n", "wrong-type", "true", ""),
    (CK, "AK1 = 8\n", "AK1 = [8]\n", "wrong-type", "[8]", "8"),
    (CK, "BlockSize = 256\n", 'BlockSize = "256"\n', "wrong-type", '"256"', "256"),
    (CK, "BlockSize = 256\n", "BlockSize = -256\n", "out-of-range", "-256", "256"),
    (CK, "MPerBlock = 128\n", "MPerBlock = 0\n", "out-of-range", "0", ""),
    (CK, "KPerBlock = 64\n", "KPerBlock = 4294967296\n", "out-of-range", "4294967296", ""),
    (CK, "ABlockLdsExtraM = false", 'ABlockLdsExtraM = "false"', "wrong-type", '"false"', "false"),
    (CK, "ABlockLdsExtraM = false", "ABlockLdsExtraM = 2", "wrong-type", "2", ""),
    (CK, f"{A_CLUSTER}[8, 32, 1]", f"{A_CLUSTER}8", "wrong-type", "8", ""),
    (CK, f"{A_CLUSTER}[8, 32, 1]", f'{A_CLUSTER}"S<4,64,1>"', "wrong-type", '"S<4,64,1>"', "[4, 64, 1]"),
    (CK, f"{A_CLUSTER}[8, 32, 1]", f"{A_CLUSTER}[8, 32]", "wrong-length", "[8, 32]", ""),
    (CK, f"{A_CLUSTER}[8, 32, 1]", f"{A_CLUSTER}[8, -32, 1]", "out-of-range", "[8, -32, 1]", ""),
    (CK, f"{VECTORS}[8]", f"{VECTORS}[]", "wrong-length", "[]", ""),
    (CK, f"{VECTORS}[8]", f"{VECTORS}[8, 8]", "wrong-length", "[8, 8]", ""),
    (CK, f"{VECTORS}[8]", f'{VECTORS}"8"', "wrong-type", '"8"', "[8]"),
    (HIP, "KPerBlock = 16", "KPerBlock = 0", "out-of-range", "0", ""),
    (HIP, "KPerBlock = 16", "KPerBlock = 16.0", "wrong-type", "16.0", "16"),
    (HIP, "NPerBlock = [64, 128]", "NPerBlock = [64.0, 128]", "wrong-type", "64.0", "64"),
    (CPP, "NPerThread = 16", 'NPerThread = "16"', "wrong-type", '"16"', "16"),
    (CPP, "Threads = 1", "Threads = -1", "out-of-range", "-1", "1"),
    (CUDA, "Stages = 4", "Stages = 2", "out-of-range", "2", ""),
    (CUDA, "SwizzleSize = 8", 'SwizzleSize = 8\nAlignmentC = "8"', "wrong-type", '"8"', "8"),
    (CUDA, "SwizzleSize = 8", 'SwizzleSize = 8\nOperator = "opMultiplyAdd"', "unknown-value", '"opMultiplyAdd"', '"OpMultiplyAdd"'),
]  # fmt: skip


@pytest.mark.parametrize(("example", "old", "new", "code", "underlined", "meant"), ROWS, ids=[row[2] for row in ROWS])
def test_one_error_at_the_value(
    example: str, old: str, new: str, code: str, underlined: str, meant: str, tmp_path: Path
) -> None:
    _, units = changed_example(tmp_path, example, {old: new})
    found = {one for unit in units[:2] for one in diagnostics_of(unit) if one.severity is Severity.ERROR}
    assert {(one.code, text_at(one.span)) for one in found} == {(f"kernel-file/{code}", underlined)}
    fixes = {(text_at(fix.span), fix.text) for one in found for fix in one.fixes}
    assert fixes == ({(underlined, meant)} if meant else set())


def test_no_shipped_unit_is_refused() -> None:
    count = 0
    for example in EXAMPLES.iterdir():
        workspace = load_workspace(example)
        for unit in workspace.units:
            assert [
                one.message
                for one in diagnostics_of(unit, workspace.template_folders)
                if one.severity is Severity.ERROR
            ] == []
            count += 1
    assert count > 30


def test_every_parameter_of_a_built_in_template_has_a_type() -> None:
    declared = {
        path.relative_to(BUILTIN).as_posix(): {one.name for one in declarations(str(path), path.read_text())}
        for path in BUILTIN.rglob("*.j2")
    }
    assert declared["hip/gemm_tiled.hip.j2"] >= {"BlockSize", "MPerBlock", "NPerBlock", "KPerBlock", "MPerThread"}
    assert declared["cpp/gemm_blocked.cpp.j2"] >= {"MPerBlock", "NPerBlock", "KPerBlock", "NPerThread", "Threads"}
    assert declared["cutlass/gemm_universal.cu.j2"] >= {"ThreadblockM", "WarpK", "Stages", "Operator", "AlignmentA"}
    assert "Parameters" in declared["ck/gemm_instance.j2"]
    for operation in OPERATIONS.values():
        names = DESCRIPTIONS[operation.name]
        assert [name for name in names if operation.parameters[name].type is None] == []


USERS = """\
{{% from "ck/gemm_instance.j2" import y_width with context %}}
{mentioned}
{{{{ header("ck") }}}}
{{{{ globals("ck") }}}}
{text}
"""
OWN_VALUES = {VERSION: 'BlkGemmPipelineVer = "lds2"', "AK1 = 8\n": "AK1 = 0.5\n", '"MNKPadding"': '"none"'}
PASSED = (
    "using G = DeviceGemmMultiD_Xdl_CShuffle_V3<\n"
    '{{ template_argument("AK1") }},\n/* GemmSpec */ GemmSpecialization::{{ GemmSpec }}>;'
)
MAPPED = (
    "using G = DeviceGemmMultiD_Xdl_CShuffle_V3<\n/* AK1 */ {{ (AK1 * 16) | int }},\n"
    '/* GemmSpec */ GemmSpecialization::{{ {"none": "Default"}[GemmSpec] }}>;'
)


@pytest.mark.parametrize(
    ("text", "refused"),
    [("", set()), (MAPPED, set()), (PASSED, {"0.5", '"none"'})],
    ids=["not handed on", "mapped to what CK takes", "handed on as they are"],
)
def test_a_users_own_template_has_its_own_idea_of_a_parameter(text: str, refused: set[str], tmp_path: Path) -> None:
    _, (first, *_) = changed_example(tmp_path, CK, OWN_VALUES)
    templates = tmp_path / "templates"
    templates.mkdir()
    mentioned = "\n".join(f"{{% set _ = {name} %}}" for name in first.instance.parameters)
    (templates / "own.hip.j2").write_text(USERS.format(mentioned=mentioned, text=text))
    unit = replace(first, kernel=replace(first.kernel, template="own.hip.j2"))
    found = [one for one in diagnostics_of(unit, (templates, BUILTIN)) if one.severity is Severity.ERROR]
    assert {text_at(one.span) for one in found} == refused, found


def test_types_hold_behind_a_template_that_only_includes_the_built_in_one(tmp_path: Path) -> None:
    changes = {"AK1 = 8\n": 'AK1 = "8"\n', "ABlockLdsExtraM = false": 'ABlockLdsExtraM = "no"'}
    _, (first, *_) = changed_example(tmp_path, CK, changes)
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "own.hip.j2").write_text('{% include "ck/gemm_universal.hip.j2" %}\n')
    unit = replace(first, kernel=replace(first.kernel, template="own.hip.j2"))
    found = [one for one in diagnostics_of(unit, (templates, BUILTIN)) if one.severity is Severity.ERROR]
    assert {text_at(one.span) for one in found} == {'"8"', '"no"'}, found


def test_a_value_that_breaks_an_included_built_in_template_is_shown_and_not_the_template(tmp_path: Path) -> None:
    _, (first, *_) = changed_example(tmp_path, CK, {f"{VECTORS}[8]": f"{VECTORS}[]"})
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "own.hip.j2").write_text('{% from "ck/gemm_instance.j2" import y_width with context %}{{ y_width() }}')
    unit = replace(first, kernel=replace(first.kernel, template="own.hip.j2"))
    assert [(one.code, text_at(one.span)) for one in diagnostics_of(unit, (templates, BUILTIN))] == [
        ("kernel-file/wrong-length", "[]")
    ]


def test_a_parameter_that_a_built_in_template_needs_is_missed_at_the_instance(tmp_path: Path) -> None:
    _, (first, *_) = changed_example(tmp_path, CK, {'GemmSpec = "MNKPadding"\n': ""})
    (found,) = diagnostics_of(first)
    assert text_at(found.span) == '"v3_128x128x64_intrawave"'
    assert found.message == "the instance sets no parameter `GemmSpec`, which `ck/gemm_instance.j2` needs"


def test_no_fix_of_a_missing_parameter_changes_a_built_in_template(tmp_path: Path) -> None:
    _, (first, *_) = changed_example(tmp_path, CK, {'BlkGemmPipeSched = "Intrawave"\n': ""})
    found = [one for one in diagnostics_of(first) if "sets no parameter `BlkGemmPipeSched`" in one.message]
    assert found
    assert [one.fixes for one in found] == [()] * len(found)
