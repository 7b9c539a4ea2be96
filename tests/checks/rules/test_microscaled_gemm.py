"""Rules of the GEMM of microscaled operands: each by an instance that breaks it, and instances that break none."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.checks.rules.checker import OPERATIONS, check_instance
from ckwatch.checks.rules.gemm_mx_xdl_cshuffle_v3 import C_VECTOR
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.reference import DESCRIPTIONS
from ckwatch.model.diagnostics import Severity
from helpers.each_row import each_row

NAME = "DeviceGemmMX_Xdl_CShuffleV3"
OPERATION = OPERATIONS[NAME]
ASSERTING = "".join(f'static_assert(b, "{rule.asserted_by}");' for rule in OPERATION.rules if rule.asserted_by)

F8: dict[str, Any] = {
    "ALayout": "Row", "BLayout": "Col", "CLayout": "Row", "ADataType": "F8", "AScaleDataType": "E8M0",
    "BDataType": "F8", "BScaleDataType": "E8M0", "CDataType": "F16", "GemmAccDataType": "F32",
    "CShuffleDataType": "F16", "AElementwiseOperation": "PassThrough", "BElementwiseOperation": "PassThrough",
    "CElementwiseOperation": "Epilogue", "GemmSpec": "GemmSpecialization::Default", "ScaleBlockSize": 32,
    "BlockSize": 256, "MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 256, "AK1": 16, "BK1": 16, "MPerXDL": 16,
    "NPerXDL": 16, "MXdlPerWave": 4, "NXdlPerWave": 4,
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": (16, 16, 1), "ABlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "ABlockTransferSrcAccessOrder": (1, 0, 2), "ABlockTransferSrcVectorDim": 2, "ABlockTransferSrcScalarPerVector": 16,
    "ABlockTransferDstScalarPerVector_AK1": 16, "ABlockLdsExtraM": True,
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": (16, 16, 1), "BBlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "BBlockTransferSrcAccessOrder": (1, 0, 2), "BBlockTransferSrcVectorDim": 2, "BBlockTransferSrcScalarPerVector": 16,
    "BBlockTransferDstScalarPerVector_BK1": 16, "BBlockLdsExtraN": True, "CShuffleMXdlPerWavePerShuffle": 2,
    "CShuffleNXdlPerWavePerShuffle": 2,
    "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock": (1, 32, 1, 8), C_VECTOR: 8,
    "BlkGemmPipeSched": "ck::BlockGemmPipelineScheduler::Intrawave",
    "BlkGemmPipelineVer": "ck::BlockGemmPipelineVersion::v3",
}  # fmt: skip
F4 = {
    "ADataType": "F4", "BDataType": "F4", "KPerBlock": 128,
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": (8, 32, 1),
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": (8, 32, 1),
}  # fmt: skip
PRESHUFFLED = {**F4, "BLayout": "MFMA"}
V1 = {"BlkGemmPipelineVer": "ck::BlockGemmPipelineVersion::v1"}
C_CLUSTER = "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"

GOOD: list[dict[str, Any]] = [
    {},
    V1,
    F4,
    {"BDataType": "BF8"},
    {**PRESHUFFLED, "BBlockLdsExtraN": False, "BBlockTransferThreadClusterLengths_BK0_N_BK1": (1, 1, 1)},
    {"MPerXDL": 32, "NPerXDL": 32, "MXdlPerWave": 2, "NXdlPerWave": 2},
]

ROWS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "gfx942", "mx-arch"),
    ({"BDataType": "F4"}, "gfx950", "mx-types"),
    ({"ADataType": "F16", "BDataType": "F16"}, "gfx950", "mx-types"),
    ({"ScaleBlockSize": 16}, "gfx950", "mx-scale-block"),
    ({"MPerXDL": 64, "MXdlPerWave": 2}, "gfx950", "mx-xdl-tile"),
    ({"KPerBlock": 64}, "gfx950", "mx-k-per-block"),
    ({"KPerBlock": 128}, "gfx950", "mx-k-pairs"),
    ({"MPerBlock": 32, "MXdlPerWave": 1}, "gfx950", "mx-tile-pairs"),
    ({"CShuffleMXdlPerWavePerShuffle": 1}, "gfx950", "mx-c-shuffle"),
    ({"BlkGemmPipelineVer": "ck::BlockGemmPipelineVersion::v4"}, "gfx950", "mx-pipeline"),
    ({"BlkGemmPipeSched": "ck::BlockGemmPipelineScheduler::Interwave"}, "gfx950", "mx-scheduler"),
    ({"ABlockTransferThreadClusterLengths_AK0_M_AK1": (16, 16)}, "gfx950", "mx-a-cluster-rank"),
    ({"BBlockTransferThreadClusterArrangeOrder": (1, 1, 2)}, "gfx950", "mx-b-cluster-rank"),
    ({"ABlockTransferThreadClusterLengths_AK0_M_AK1": (16, 32, 1)}, "gfx950", "mx-a-cluster-threads"),
    ({"BBlockTransferThreadClusterLengths_BK0_N_BK1": (16, 32, 1)}, "gfx950", "mx-b-cluster-threads"),
    ({"ABlockTransferSrcScalarPerVector": 8}, "gfx950", "mx-a-load"),
    ({"BBlockTransferSrcScalarPerVector": 8}, "gfx950", "mx-b-load"),
    ({"ABlockTransferThreadClusterArrangeOrder": (0, 1, 2)}, "gfx950", "mx-a-order"),
    ({"BBlockTransferSrcVectorDim": 1}, "gfx950", "mx-b-order"),
    ({"ABlockTransferThreadClusterLengths_AK0_M_AK1": (8, 32, 1)}, "gfx950", "mx-a-depth"),
    ({"BBlockTransferThreadClusterLengths_BK0_N_BK1": (8, 32, 1)}, "gfx950", "mx-b-depth"),
    ({"ABlockTransferSrcScalarPerVector": 4}, "gfx950", "mx-a-vector"),
    ({"BBlockTransferSrcScalarPerVector": 4}, "gfx950", "mx-b-vector"),
    ({"ABlockTransferThreadClusterLengths_AK0_M_AK1": (16, 8, 1)}, "gfx950", "mx-a-threads"),
    ({"BBlockTransferThreadClusterLengths_BK0_N_BK1": (16, 8, 1)}, "gfx950", "mx-b-threads"),
    (
        {
            "MPerBlock": 384,
            "MXdlPerWave": 12,
            "BlockSize": 512,
            "ABlockTransferThreadClusterLengths_AK0_M_AK1": (16, 20, 1),
        },
        "gfx950",
        "mx-a-rows",
    ),
    (
        {
            "NPerBlock": 384,
            "NXdlPerWave": 12,
            "BlockSize": 512,
            "BBlockTransferThreadClusterLengths_BK0_N_BK1": (16, 20, 1),
        },
        "gfx950",
        "mx-b-rows",
    ),
    ({"ABlockLdsExtraM": False}, "gfx950", "mx-a-extra"),
    ({"BBlockLdsExtraN": False}, "gfx950", "mx-b-extra"),
    ({**PRESHUFFLED, **V1}, "gfx950", "mx-preshuffled-pipeline"),
    ({"BLayout": "MFMA"}, "gfx950", "mx-preshuffled-types"),
    ({**PRESHUFFLED, "BK1": 8}, "gfx950", "mx-preshuffled-b-k1"),
    ({**PRESHUFFLED, "BBlockTransferSrcScalarPerVector": 32}, "gfx950", "mx-preshuffled-b-vector"),
    ({C_CLUSTER: (1, 32, 2, 4)}, "gfx950", "mx-c-cluster"),
    ({C_CLUSTER: (1, 64, 1, 8)}, "gfx950", "mx-c-cluster-threads"),
    ({C_VECTOR: 32}, "gfx950", "mx-c-vector"),
    ({"MPerBlock": 256, "NPerBlock": 256, "MXdlPerWave": 8, "NXdlPerWave": 8}, "gfx950", "mx-lds"),
]


def found(change: dict[str, Any], arch: str) -> dict[str, Severity]:
    return {one.rule: one.severity for one in check_instance(NAME, {**F8, **change}, arch, source=ASSERTING)}


@pytest.mark.parametrize("change", GOOD)
def test_nothing_is_broken(change: dict[str, Any]) -> None:
    assert found(change, "gfx950") == {}


@each_row(("change", "arch", "slug"), ROWS)
def test_a_rule_is_broken(change: dict[str, Any], arch: str, slug: str) -> None:
    assert found(change, arch).get(slug) == Severity.ERROR


def test_every_rule_has_a_row() -> None:
    own = {rule.slug for rule in OPERATION.rules if rule.slug.startswith("mx-")}
    assert own == {slug for _, _, slug in ROWS}


def test_parameters_stand_in_the_order_of_the_headers() -> None:
    text = f"using Gemm = ck::tensor_operation::device::{NAME}<Row, Col, Row, F8, E8M0, F8, /* BScaleDataType */ E8M0>;"
    (instance,) = rendered_instances(text)
    assert instance.arguments["BScaleDataType"] == "E8M0"
    assert list(OPERATION.parameters)[-4:] == ["BlkGemmPipeSched", "BlkGemmPipelineVer", "ComputeTypeA", "ComputeTypeB"]
    assert set(DESCRIPTIONS[NAME]) <= set(OPERATION.parameters) | {"CShuffleDataType"}
