"""Every parameter that a kernel file gives is described, in the page of the template too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ckwatch
from ckwatch.rules import OPERATIONS
from ckwatch.rules.descriptions import described, described_parameters, kind_of

PAGE = (Path(ckwatch.__file__).parents[2] / "docs/templates.md").read_text()
OPERATION = "DeviceGemmMultiD_Xdl_CShuffle_V3"
GIVEN_BY_THE_OPERATION = {
    *("ALayout", "BLayout", "CLayout", "DsLayout", "ADataType", "BDataType", "CDataType", "DsDataType"),
    *("GemmAccDataType", "AElementwiseOperation", "BElementwiseOperation", "CElementwiseOperation"),
    *("LDSTypeA", "LDSTypeB"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_that_kernel_files_give_is_described(operation: str) -> None:
    parameters = set(OPERATIONS[operation].parameters)
    assert set(described_parameters(operation)) == parameters - GIVEN_BY_THE_OPERATION


def test_the_page_names_each() -> None:
    table = PAGE.partition("### Parameters")[2].partition("### Keys")[0]
    words = set(re.findall(r"`…?_?(\w+)`", table))
    for name in described_parameters(OPERATION):
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
    assert kind_of(OPERATION, parameter) == kind
    assert kind_of("Device", parameter) == ""


def test_allowed_values_are_of_the_kind() -> None:
    for name, description in described_parameters(OPERATION).items():
        kinds = {type(value) for value in description.values}
        assert len(kinds) <= 1, name
        if kinds:
            expected = {"integer": int, "true or false": bool, "array of integers": tuple, "string": str}
            assert kinds == {expected[kind_of(OPERATION, name)]}, name
    assert described(OPERATION, "NoSuch") is None
