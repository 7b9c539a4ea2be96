"""The rules of a grouped convolution: its own by an instance that breaks them, and those that it has of the GEMM."""

from __future__ import annotations

import pytest

from ckwatch.checks.rules.checker import OPERATIONS, check_instance
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.grouped_conv_fwd_xdl_cshuffle_v3 import CDE_CLUSTER, CDE_VECTOR, OPERATION
from ckwatch.model.diagnostics import Severity
from ckwatch.model.kernels import ParameterValue
from helpers.each_row import each_row

A_CLUSTER = "ABlockTransferThreadClusterLengths_AK0_M_AK1"
B_CLUSTER = "BBlockTransferThreadClusterLengths_BK0_N_BK1"
LAUNCHED = "static_assert(true);"
"""A source that launches the gridwise GEMM itself, and asserts nothing."""

Arguments = dict[str, ParameterValue | str]


def operand(side: str, cluster: str, k1: str, rows: str) -> Arguments:
    transfer = f"{side}BlockTransfer"
    return {
        cluster: (8, 32, 1),
        f"{transfer}ThreadClusterArrangeOrder": (1, 0, 2),
        f"{transfer}SrcAccessOrder": (1, 0, 2),
        f"{transfer}SrcVectorDim": 2,
        f"{transfer}SrcScalarPerVector": 8,
        f"{transfer}DstScalarPerVector_{k1}": 8,
        f"{side}BlockLdsExtra{rows}": False,
    }


CONVOLUTION: Arguments = {
    "NDimSpatial": 2, "ALayout": "layouts::NHWGC", "BLayout": "layouts::GKYXC", "DsLayout": "Tuple<>",
    "ELayout": "layouts::NHWGK", "ADataType": "F16", "BDataType": "F16", "AccDataType": "F32",
    "CShuffleDataType": "F16", "DsDataType": "Tuple<>", "EDataType": "F16", "AElementwiseOperation": "PassThrough",
    "BElementwiseOperation": "PassThrough", "CDEElementwiseOperation": "PassThrough",
    "ConvForwardSpecialization": "ConvolutionForwardSpecialization::Default",
    "GemmSpec": "GemmSpecialization::MNKPadding", "BlockSize": 256, "MPerBlock": 128, "NPerBlock": 128,
    "KPerBlock": 64, "AK1": 8, "BK1": 8, "MPerXDL": 32, "NPerXDL": 32, "MXdlPerWave": 2, "NXdlPerWave": 2,
    **operand("A", A_CLUSTER, "AK1", "M"), **operand("B", B_CLUSTER, "BK1", "N"),
    "CShuffleMXdlPerWavePerShuffle": 1, "CShuffleNXdlPerWavePerShuffle": 1, CDE_CLUSTER: (1, 32, 1, 8), CDE_VECTOR: 8,
    "BlkGemmPipeSched": "BlockGemmPipelineScheduler::Intrawave",
    "BlkGemmPipelineVer": "BlockGemmPipelineVersion::v3", "AComputeDataType": "F16", "BComputeDataType": "F16",
    "DirectLoad": False,
}  # fmt: skip
CHANNELS_FIRST: Arguments = {"ALayout": "NGCHW", "BLayout": "GKCYX", "ELayout": "NGKHW"}
ONE_TAP = "ConvolutionForwardSpecialization::Filter1x1Stride1Pad0"


def broken(changes: Arguments, arch: str = "gfx942", source: str = LAUNCHED) -> dict[str, Severity]:
    found = check_instance(OPERATION.name, CONVOLUTION | changes, arch, source=source)
    return {one.rule: one.severity for one in found}


ROWS: list[tuple[Arguments, str, str, str]] = [
    ({"MXdlPerWave": 3}, "m-per-block", "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32", "MXdlPerWave"),
    ({A_CLUSTER: (3, 32, 1)}, "a-cluster-k0", f"KPerBlock / AK1 % {A_CLUSTER}[0] == 0: 64 / 8 % 3 = 2", A_CLUSTER),
    ({CDE_CLUSTER: (1, 48, 1, 8)}, "c-cluster-m", f"CShuffleM % {CDE_CLUSTER}[1] == 0: 64 % 48 = 16", CDE_CLUSTER),
    ({CDE_VECTOR: 16}, "c-vector", f"CShuffleN / {CDE_CLUSTER}[3] % {CDE_VECTOR} == 0: 64 / 8 % 16 = 8", CDE_VECTOR),
    ({"BComputeDataType": "BF16"}, "compute-types", "F16 == BF16", "BComputeDataType"),
    ({"ALayout": "NHWC"}, "a-layout", "ALayout in ALayouts: ALayout = NHWC", "ALayout"),
    ({"BLayout": "GKXC"}, "b-layout", "BLayout in BLayouts: BLayout = GKXC", "BLayout"),
    ({"NDimSpatial": 3, "ALayout": "NDHWGC", "BLayout": "GKZYXC"}, "e-layout", "ELayout in ELayouts", "ELayout"),
    (
        {"ALayout": "NGCHW"},
        "a-channels-first",
        "ConvForwardSpecialization == 'Filter1x1Stride1Pad0': ConvForwardSpecialization = Default",
        "ConvForwardSpecialization",
    ),
    (
        {"ALayout": "NGCHW", "ELayout": "NGKHW", "ConvForwardSpecialization": ONE_TAP},
        "channels-first-copies",
        "Transposed == 1: Transposed = 0",
        "BLayout",
    ),
    ({"BLayout": "GKCYX"}, "b-channels-first", "ConvForwardSpecialization = Default", "ConvForwardSpecialization"),
    (
        {"ABlockTransferSrcVectorDim": 1, "ABlockTransferSrcScalarPerVector": 1},
        "a-vector-channels",
        "ABlockTransferSrcVectorDim == 2: ABlockTransferSrcVectorDim = 1",
        "ABlockTransferSrcVectorDim",
    ),
    (
        {"BBlockTransferSrcVectorDim": 1, "BBlockTransferSrcScalarPerVector": 1},
        "b-vector-channels",
        "BBlockTransferSrcVectorDim == 2: BBlockTransferSrcVectorDim = 1",
        "BBlockTransferSrcVectorDim",
    ),
    (
        {"ALayout": "NGCHW", "ConvForwardSpecialization": ONE_TAP},
        "a-channels-apart",
        "ABlockTransferSrcScalarPerVector == 1: ABlockTransferSrcScalarPerVector = 8",
        "ABlockTransferSrcScalarPerVector",
    ),
    ({"ELayout": "NGKHW"}, "e-channels-apart", f"{CDE_VECTOR} == 1: {CDE_VECTOR} = 8", CDE_VECTOR),
    (
        {"ConvForwardSpecialization": "Filter3x3"},
        "filter-3x3-channels",
        "8 == 1 and 8 == 1",
        "ABlockTransferSrcScalarPerVector",
    ),
    ({"DirectLoad": True, "BlkGemmPipelineVer": "v1"}, "direct-load-arch", "target == 'gfx950': target = gfx942", "DirectLoad"),
    ({"DirectLoad": True}, "direct-load-pipeline", "BlkGemmPipelineVer in ('v1', 'v4')", "BlkGemmPipelineVer"),
    (
        {"DirectLoad": True, "BlkGemmPipelineVer": "v1", "BlkGemmPipeSched": "Interwave"},
        "direct-load-scheduler",
        "BlkGemmPipeSched == 'Intrawave': BlkGemmPipeSched = Interwave",
        "BlkGemmPipeSched",
    ),
]  # fmt: skip


@each_row(("changes", "slug", "message", "blamed"), ROWS)
def test_rule(changes: Arguments, slug: str, message: str, blamed: str) -> None:
    (found, *_) = check_instance(OPERATION.name, CONVOLUTION | changes, "gfx942", source=LAUNCHED)
    assert (found.rule, found.blame) == (slug, blamed)
    assert message in found.message


def test_every_own_rule_has_a_row() -> None:
    own = {rule.slug for rule in OPERATION.rules} - {rule.slug for rule in GEMM.rules}
    assert own <= {slug for _, slug, _, _ in ROWS}


@each_row(
    "changes",
    [
        {},
        {"ALayout": "GNHWC", "ELayout": "GNHWK"},
        {"BLayout": "KYXGC"},
        CHANNELS_FIRST,
        {"NDimSpatial": 3, "ALayout": "NGCDHW", "BLayout": "GKCZYX", "ELayout": "NGKDHW"},
        {"NDimSpatial": 1, "ALayout": "NWGC", "BLayout": "GKXC", "ELayout": "NWGK"},
        {"BLayout": "GKCYX", "ConvForwardSpecialization": ONE_TAP},
        {"ALayout": "NGCHW", "ConvForwardSpecialization": ONE_TAP, "ABlockTransferSrcScalarPerVector": 1},
        {"ELayout": "NGKHW", CDE_VECTOR: 1},
        {"BlkGemmPipelineVer": "v4"},
        {"ALayout": "MyLayout<2>"},
    ],
)
@each_row("arch", ["gfx90a", "gfx942", "gfx950"])
def test_no_rule_is_broken(changes: Arguments, arch: str) -> None:
    assert broken(changes, arch) == {}


@pytest.mark.parametrize("pipeline", ["v1", "v4"])
def test_direct_loads_are_for_gfx950(pipeline: str) -> None:
    changes: Arguments = {"DirectLoad": True, "BlkGemmPipelineVer": pipeline}
    assert broken(changes, "gfx950") == {}
    assert broken(changes) == {"direct-load-arch": Severity.WARNING}
    asserting = 'static_assert(!Gridwise::DirectLoadEnabled, "DirectLoad needs gfx950: CK would run an empty kernel");'
    assert broken(changes, source=asserting) == {"direct-load-arch": Severity.ERROR}


def test_names_of_inductor() -> None:
    names = {
        "n_dim_spatial": "NDimSpatial", "a_layout": "ALayout", "ds_layout": "DsLayout", "e_layout": "ELayout",
        "a_element_dtype": "ADataType", "acc_dtype": "AccDataType", "c_shuffle_dtype": "CShuffleDataType",
        "ds_element_dtype": "DsDataType", "e_element_dtype": "EDataType", "a_elementwise_op": "AElementwiseOperation",
        "cde_elementwise_op": "CDEElementwiseOperation", "conv_forward_specialization": "ConvForwardSpecialization",
        "gemm_specialization": "GemmSpec", "ak1": "AK1", "m_xdl_per_wave": "MXdlPerWave",
        "cde_block_transfer_cluster_lengths_m_block_m_per_block_n_block_n_per_block": CDE_CLUSTER,
        "cde_block_transfer_scalar_per_vector_n_per_block": CDE_VECTOR,
        "block_gemm_pipeline_version": "BlkGemmPipelineVer", "a_compute_dtype": "AComputeDataType",
        "direct_load": "DirectLoad",
    }  # fmt: skip
    assert {name: OPERATION.canonical(name) for name in names} == names


def test_no_name_of_the_gemm_is_left() -> None:
    gone = set(GEMM.parameters) - set(OPERATION.parameters)
    texts = [text for rule in OPERATION.rules for text in (rule.condition, rule.when, rule.explanation, *rule.blame)]
    texts += [
        text for one in OPERATION.definitions.values() for text in (one.name, one.formula, one.meaning, *one.uses)
    ]
    assert [(name, text) for name in gone for text in texts if name in text] == []
    assert OPERATIONS[OPERATION.name] is OPERATION
