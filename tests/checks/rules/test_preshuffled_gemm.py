"""Rules of the GEMM with a preshuffled W: each by an instance that breaks it, and instances that break none."""

from __future__ import annotations

import pytest

from benchmarks.gemm_samples import Arguments
from cases.rule_instances import OPERATION as GEMM
from cases.rule_instances import row_col
from ckwatch.checks.rules.checker import OPERATIONS, check_instance, value_of
from ckwatch.checks.rules.reference import DESCRIPTIONS
from ckwatch.model.diagnostics import Severity

NAME = "DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle"
OPERATION = OPERATIONS[NAME]
ASSERTING = "".join(f'static_assert(b, "{rule.asserted_by}");' for rule in OPERATION.rules if rule.asserted_by)
F8: Arguments = {
    **dict.fromkeys(("ADataType", "BDataType", "ComputeTypeA", "ComputeTypeB", "LDSTypeA", "LDSTypeB"), "F8"),
    "AK1": 16, "BK1": 16, "ABlockTransferSrcScalarPerVector": 16, "BBlockTransferSrcScalarPerVector": 16,
    "ABlockTransferDstScalarPerVector_AK1": 16, "MPerXDL": 16, "NPerXDL": 16, "KPerBlock": 128, "MXdlPerWave": 8,
    "NXdlPerWave": 2, "CDataType": "BF16", "CShuffleMXdlPerWavePerShuffle": 2,
}  # fmt: skip
V1: Arguments = {"BlkGemmPipelineVer": "ck::BlockGemmPipelineVersion::v1"}


def preshuffled(**changes: object) -> Arguments:
    """v3 in f8: 128×128×128 of four waves along N."""
    return {**row_col(**F8), **changes}  # type: ignore[dict-item]  # test data


def version(name: str) -> str:
    return f"ck::BlockGemmPipelineVersion::{name}"


GOOD = [
    ({}, "gfx942"),
    ({}, "gfx950"),
    (V1, "gfx942"),
    ({"BlkGemmPipelineVer": version("v2")}, "gfx950"),
    ({"ABlockLdsExtraM": True}, "gfx942"),
    # what says how W would be copied to LDS is ignored
    ({"BBlockTransferThreadClusterLengths_BK0_N_BK1": (3, 5, 7), "BBlockTransferSrcVectorDim": 0}, "gfx942"),
    ({**V1, "MXdlPerWave": 2, "MPerBlock": 32}, "gfx942"),
    ({**V1, "AK1": 8, "ABlockTransferSrcScalarPerVector": 8}, "gfx942"),
]

ROWS = [
    ({"BlkGemmPipelineVer": version("v4")}, "gfx942", "preshuffled-pipeline"),
    ({"BlkGemmPipeSched": "ck::BlockGemmPipelineScheduler::Interwave"}, "gfx942", "preshuffled-scheduler"),
    ({"MXdlPerWave": 2, "MPerBlock": 32}, "gfx942", "preshuffled-v3-rows"),
    ({"BK1": 8}, "gfx942", "preshuffled-b-k1"),
    ({**V1, "BK1": 32}, "gfx950", "preshuffled-b-k1"),
    ({**V1, "AK1": 8, "ABlockTransferSrcScalarPerVector": 8}, "gfx950", "preshuffled-a-groups"),
    ({"BBlockTransferSrcScalarPerVector": 32}, "gfx942", "preshuffled-b-vector"),
    ({"BBlockTransferSrcScalarPerVector": 32}, "gfx942", "preshuffled-b-vector-size"),
    ({"ABlockTransferSrcScalarPerVector": 8}, "gfx942", "preshuffled-v3-stores"),
]


@pytest.mark.parametrize(("change", "arch"), GOOD)
def test_nothing_is_broken(change: Arguments, arch: str) -> None:
    assert [one.rule for one in check_instance(NAME, preshuffled(**change), arch, source=ASSERTING)] == []


@pytest.mark.parametrize(("change", "arch", "slug"), ROWS)
def test_a_rule_is_broken(change: Arguments, arch: str, slug: str) -> None:
    found = {one.rule: one for one in check_instance(NAME, preshuffled(**change), arch, source=ASSERTING)}
    assert slug in found
    assert found[slug].severity is Severity.ERROR
    assert found[slug].blame in OPERATION.parameters


def test_parameters_are_those_of_the_universal_gemm() -> None:
    assert list(OPERATION.parameters) == list(OPERATIONS[GEMM].parameters)
    assert DESCRIPTIONS[NAME] == DESCRIPTIONS[GEMM]


def test_a_lane_reads_two_groups_where_an_instruction_takes_32_values() -> None:
    values = {arch: value_of(NAME, "KGroup", preshuffled(), arch) for arch in ("gfx942", "gfx950")}
    assert values == {"gfx942": 1, "gfx950": 2}
    assert value_of(NAME, "KPackPerGroup", preshuffled(), "gfx950") == 16


def test_only_a_lies_in_lds() -> None:
    assert value_of(NAME, "ABBytes", preshuffled(), "gfx942") == 128 * 128


def test_every_rule_has_a_row_or_says_why_not() -> None:
    own = {rule.slug for rule in OPERATION.rules if rule.slug.startswith("preshuffled-")}
    # no instance of a tile that CK has breaks these alone
    elsewhere = {"preshuffled-a-k1", "preshuffled-k-group", "preshuffled-v3-loads", "preshuffled-v3-cycles"}
    assert own - elsewhere == {slug for _, _, slug in ROWS}
