"""The rules as documented, and what a parameter takes part in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ckwatch
from cases.rule_instances import OPERATION
from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.rules.reference import (
    DESCRIPTIONS,
    parameter_description,
    parameter_kind_name,
    rules_of,
    rules_page,
)
from ckwatch.checks.rules.rule import rules
from helpers.each_row import each_row


def test_the_page_is_that_of_the_rules() -> None:
    path = Path(__file__).parents[3] / "docs" / "rules.md"
    assert path.read_text() == rules_page(), "write it again: python -m ckwatch.checks.rules > docs/rules.md"


@pytest.mark.parametrize(
    "text",
    ["slug :must: M > 0  :source: here", "slug: Text.  :must: M > 0  :source: here  :is: new", "slug: Text.  :must: M"],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a rule"):
        rules(text)


def test_rules_of_a_parameter_reach_through_definitions() -> None:
    slugs = {rule.slug for rule in rules_of(OPERATION, "MXdlPerWave")}
    assert {"m-per-block", "block-size", "lds", "c-cluster-m"} <= slugs
    assert "b-cluster-threads" not in slugs
    assert rules_of(OPERATION, "Nobody") == ()
    assert rules_of("Nothing", "MPerBlock") == ()


def test_tables_are_sound() -> None:
    for operation in OPERATIONS.values():
        known = {*operation.parameters, *operation.definitions, "target", "Invoker"}
        seen: set[str] = set()
        for definition in operation.definitions.values():
            assert set(definition.uses) <= known, definition.name
        for rule in operation.rules:
            assert {*rule.expression.names, *rule.guard.names} <= known, rule.slug
            assert set(rule.blame) <= set(operation.parameters_of(rule.names)), rule.slug
            assert set(rule.after) <= seen, rule.slug
            assert rule.slug not in seen
            seen.add(rule.slug)


PAGE = (Path(ckwatch.__file__).parents[2] / "docs/templates.md").read_text()
OPERATION_RULE_DESCRIPTIONS = "DeviceGemmMultiD_Xdl_CShuffle_V3"
GIVEN_BY_THE_OPERATION = {
    *("QKVDataType", "ODataType", "Head", "HeadV", "BlockMask", "BiasEnum", "kIsGroupMode", "kHasLogitsSoftCap"),
    "kStoreLSE",
    *("XDataType", "YDataType", "kXbias", "kFusedAdd", "kFusedQuant", "kSaveInvRms", "kSaveUnquant", "kSaveMeanInvStd"),
    *("ALayout", "BLayout", "CLayout", "DsLayout", "ADataType", "BDataType", "CDataType", "DsDataType"),
    *("GemmAccDataType", "AElementwiseOperation", "BElementwiseOperation", "CElementwiseOperation"),
    *("LDSTypeA", "LDSTypeB", "AScaleDataType", "BScaleDataType", "ScaleBlockM", "ScaleBlockN", "ScaleBlockK"),
    *("ActivationOP", "IsInputGemm", "MulRoutedWeight", "PerTokenQuant", "IndexType"),
    *("ScaleBlockSize", "XDataType", "YDataType", "kFusedAdd", "kFusedQuant"),
    *("kSaveInvRms", "kSaveUnquant", "kSaveMeanInvStd", "kXbias"),
    *("NDimSpatial", "ELayout", "EDataType", "AccDataType", "CDEElementwiseOperation"),
}


@each_row("operation", OPERATIONS)
def test_all_that_kernel_files_give_is_described(operation: str) -> None:
    parameters = set(OPERATIONS[operation].parameters)
    given = GIVEN_BY_THE_OPERATION | ({"ComputeTypeA", "ComputeTypeB"} if "GemmMX" in operation else set())
    assert set(DESCRIPTIONS[operation]) == parameters - given


def test_the_page_names_each() -> None:
    table = PAGE.partition("### Parameters")[2].partition("### Keys")[0]
    words = set(re.findall(r"`…?_?(\w+)`", table))
    for name in DESCRIPTIONS[OPERATION_RULE_DESCRIPTIONS]:
        spelled = re.sub(r"^B(?=Block)", "A", name).replace("BK0_N_BK1", "AK0_M_AK1").replace("_BK1", "_AK1")
        spelled = spelled.replace("ExtraN", "ExtraM").removeprefix("ABlockTransferThreadCluster")
        assert name in table or any(word.endswith(spelled) for word in words), name


@pytest.mark.parametrize(
    ("parameter", "kind"),
    [
        ("MPerBlock", "integer"),
        ("ABlockLdsExtraM", "true or false"),
        ("BBlockTransferSrcAccessOrder", "array of integers"),
        ("BlkGemmPipelineVer", "string"),
        ("Nothing", ""),
    ],
)
def test_kinds(parameter: str, kind: str) -> None:
    assert parameter_kind_name(OPERATION_RULE_DESCRIPTIONS, parameter) == kind
    assert parameter_kind_name("Device", parameter) == ""


def test_allowed_values_are_of_the_kind() -> None:
    for name, description in DESCRIPTIONS[OPERATION_RULE_DESCRIPTIONS].items():
        kinds = {type(value) for value in description.values}
        assert len(kinds) <= 1, name
        if kinds:
            expected = {"integer": int, "true or false": bool, "array of integers": tuple, "string": str}
            assert kinds == {expected[parameter_kind_name(OPERATION_RULE_DESCRIPTIONS, name)]}, name
    assert parameter_description(OPERATION_RULE_DESCRIPTIONS, "NoSuch") is None
