"""Rules of CK's MoE GEMM: each by an instance that breaks it, and instances that break none."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.checks.rules.checker import OPERATIONS, check_instance
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_b_preshuffle import OPERATION as PRESHUFFLED
from ckwatch.checks.rules.moe_gemm_xdl_cshuffle_v3 import OPERATION
from ckwatch.checks.rules.reference import parameter_description
from ckwatch.model.diagnostics import Severity
from helpers.each_row import each_row

NAME = "DeviceMoeGemm"

F16: dict[str, Any] = {
    "ALayout": "Row", "BLayout": "Col", "DsLayout": "Tuple<Row, Col, Row>", "CLayout": "Row",
    "ADataType": "F16", "BDataType": "F16", "DsDataType": "Tuple<F32, F32, F32>", "CDataType": "F16",
    "GemmAccDataType": "F32", "CShuffleDataType": "F32",
    "AElementwiseOperation": "PassThrough", "BElementwiseOperation": "PassThrough", "CElementwiseOperation": "Narrowed",
    "GemmSpec": "GemmSpecialization::Default",
    "BlockSize": 256, "MPerBlock": 64, "NPerBlock": 128, "KPerBlock": 64, "AK1": 8, "BK1": 8,
    "MPerXDL": 16, "NPerXDL": 16, "MXdlPerWave": 4, "NXdlPerWave": 2,
    "ABlockTransferThreadClusterLengths_AK0_M_AK1": (8, 32, 1), "ABlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "ABlockTransferSrcAccessOrder": (1, 0, 2), "ABlockTransferSrcVectorDim": 2, "ABlockTransferSrcScalarPerVector": 8,
    "ABlockTransferDstScalarPerVector_AK1": 8, "ABlockLdsExtraM": False,
    "BBlockTransferThreadClusterLengths_BK0_N_BK1": (8, 32, 1), "BBlockTransferThreadClusterArrangeOrder": (1, 0, 2),
    "BBlockTransferSrcAccessOrder": (1, 0, 2), "BBlockTransferSrcVectorDim": 2, "BBlockTransferSrcScalarPerVector": 8,
    "BBlockTransferDstScalarPerVector_BK1": 8, "BBlockLdsExtraN": False,
    "CShuffleMXdlPerWavePerShuffle": 2, "CShuffleNXdlPerWavePerShuffle": 2,
    "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock": (1, 32, 1, 8),
    "CDEShuffleBlockTransferScalarPerVectors": (8, 1, 1, 1),
    "BlkGemmPipeSched": "BlockGemmPipelineScheduler::Intrawave",
    "BlkGemmPipelineVer": "BlockGemmPipelineVersion::v3",
    "ActivationOP": "Activation::silu_and_mul", "NSwizzle": False, "IsInputGemm": True, "MulRoutedWeight": False,
    "PerTokenQuant": False, "IndexType": "ck::index_t", "ComputeTypeA": "F16", "ComputeTypeB": "F16",
}  # fmt: skip
STAGE_2 = {
    "IsInputGemm": False,
    "CDEShuffleBlockTransferScalarPerVectors": (2, 1, 1, 1),
    "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock": (1, 8, 1, 32),
}
V1 = {"BlkGemmPipelineVer": "BlockGemmPipelineVersion::v1"}
V2 = {"BlkGemmPipelineVer": "BlockGemmPipelineVersion::v2"}
ASSERTING = "".join(f'static_assert(b, "{rule.asserted_by}");' for rule in OPERATION.rules if rule.asserted_by)
C_CLUSTER = "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"
C_VECTORS = "CDEShuffleBlockTransferScalarPerVectors"

ROWS: list[tuple[dict[str, Any], str, str]] = [
    # change, arch, rule that is broken
    (V2, "gfx942", "moe-pipeline"),
    ({**STAGE_2, **V2}, "gfx942", "moe-pipeline-rounds"),
    ({"BlkGemmPipelineVer": "BlockGemmPipelineVersion::v4"}, "gfx942", "preshuffled-pipeline"),
    ({"BlkGemmPipeSched": "BlockGemmPipelineScheduler::Interwave"}, "gfx942", "preshuffled-scheduler"),
    ({"MXdlPerWave": 2, "CShuffleMXdlPerWavePerShuffle": 1, "MPerBlock": 32}, "gfx942", "preshuffled-v3-rows"),
    ({"MXdlPerWave": 3}, "gfx942", "m-per-block"),
    ({**V1, "AK1": 16, "ABlockTransferThreadClusterLengths_AK0_M_AK1": (4, 64, 1)}, "gfx942", "preshuffled-b-k1"),
    ({"ABlockTransferThreadClusterArrangeOrder": (0, 1, 2)}, "gfx942", "moe-a-order"),
    ({"ABlockTransferThreadClusterLengths_AK0_M_AK1": (8, 16, 1)}, "gfx942", "moe-a-threads"),
    ({C_CLUSTER: (1, 16, 1, 8)}, "gfx942", "moe-c-threads"),
    ({"NSwizzle": True}, "gfx942", "moe-swizzle"),
    ({**STAGE_2, C_CLUSTER: (1, 32, 1, 8), C_VECTORS: (16, 1, 1, 1)}, "gfx942", "moe-c-vector-atomic"),
    ({**STAGE_2, "CDataType": "F32", C_CLUSTER: (1, 32, 1, 8), C_VECTORS: (8, 1, 1, 1)}, "gfx942", "moe-c-vector-atomic"),
    ({**STAGE_2, C_VECTORS: (1, 1, 1, 1)}, "gfx942", "moe-c-vector-pairs"),
    ({**STAGE_2, "CDataType": "BF16"}, "gfx90a", "moe-atomic-arch"),
    ({"GemmSpec": "GemmSpecialization::Default", "CShuffleMXdlPerWavePerShuffle": 3}, "gfx942", "c-shuffle-m"),
    ({C_CLUSTER: (1, 16, 1, 16), C_VECTORS: (16, 1, 1, 1)}, "gfx942", "c-vector"),
]  # fmt: skip

GOOD: list[tuple[dict[str, Any], str]] = [
    ({}, "gfx942"),
    ({}, "gfx950"),
    ({}, "gfx90a"),
    (V1, "gfx942"),
    (STAGE_2, "gfx942"),
    (STAGE_2, "gfx90a"),
    ({**STAGE_2, "CDataType": "BF16"}, "gfx942"),
    ({**STAGE_2, "CDataType": "F32", C_VECTORS: (1, 1, 1, 1)}, "gfx942"),
]


@each_row(("change", "arch", "rule"), ROWS)
def test_each_rule_is_broken_by_an_instance(change: dict[str, Any], arch: str, rule: str) -> None:
    found = check_instance(NAME, F16 | change, arch, source=ASSERTING)
    assert rule in [one.rule for one in found], found
    assert all(one.severity is Severity.ERROR for one in found)


@pytest.mark.parametrize(("change", "arch"), GOOD)
def test_instances_that_break_none(change: dict[str, Any], arch: str) -> None:
    assert check_instance(NAME, F16 | change, arch, source=ASSERTING) == ()


def test_what_only_the_template_refuses_is_a_warning_without_it() -> None:
    (found,) = check_instance(NAME, F16 | {"NSwizzle": True}, "gfx942", source="")
    assert (found.rule, found.severity, found.blame) == ("moe-swizzle", Severity.WARNING, "NSwizzle")


def test_gate_and_up_are_loaded_between_matrix_instructions() -> None:
    few: dict[str, Any] = {
        "NPerXDL": 32,
        "MPerXDL": 32,
        "MPerBlock": 128,
        "NXdlPerWave": 1,
        "KPerBlock": 16,
        "BK1": 8,
        "AK1": 8,
    }
    few |= {"ABlockTransferThreadClusterLengths_AK0_M_AK1": (2, 128, 1), "CShuffleMXdlPerWavePerShuffle": 1}
    few |= {"BBlockTransferThreadClusterLengths_BK0_N_BK1": (2, 128, 1), "CShuffleNXdlPerWavePerShuffle": 1}
    few |= {"BBlockTransferSrcScalarPerVector": 1}
    found = check_instance(NAME, F16 | few, "gfx942", source=ASSERTING)
    assert [one.rule for one in found] == ["moe-v3-interval"]


def test_parameters_are_in_the_order_of_the_operation() -> None:
    names = list(OPERATIONS[NAME].parameters)
    assert names[names.index("BlkGemmPipelineVer") :] == [
        *("BlkGemmPipelineVer", "ActivationOP", "NSwizzle", "IsInputGemm", "MulRoutedWeight", "PerTokenQuant"),
        *("IndexType", "ComputeTypeA", "ComputeTypeB", "LDSTypeA", "LDSTypeB"),
    ]
    own = {rule.slug for rule in OPERATION.rules}
    assert {rule.slug for rule in PRESHUFFLED.rules} - own == {"c-vector-atomic"}
    described = parameter_description(NAME, "MPerBlock")
    assert described is not None
    assert "block_m" in described.doc
