"""The universal GEMMs by WMMA: which rules instances break on gfx11 and gfx12."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckwatch.checks.rules.checker import OPERATIONS, check_instance
from ckwatch.checks.rules.instances import rendered_instances
from helpers.each_row import each_row

ONE = "DeviceGemm_Wmma_CShuffleV3"
D_TENSORS = "DeviceGemmMultipleD_Wmma_CShuffleV3"

A_CLUSTER = "ABlockTransferThreadClusterLengths_AK0_M_AK1"
C_CLUSTER = "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"
C_VECTOR = "CShuffleBlockTransferScalarPerVector_NPerBlock"
LOAD = "ABlockTransferSrcScalarPerVector"

TEXT = f"""
using Gemm = ck::tensor_operation::device::{ONE}<
    Row, Col, Row, F16, F16, F16, F32, F16, PassThrough, PassThrough, PassThrough, GemmSpecialization::MNKPadding,
    256, 128, 128, 32, 8, 8, 16, 16, 4, 2,
    S<4, 64, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 8, 8, true, S<4, 64, 1>, S<1, 0, 2>, S<1, 0, 2>, 2, 8, 8, true,
    1, 1, S<1, 32, 1, 8>, 8, ck::BlockGemmPipelineScheduler::Intrawave, ck::BlockGemmPipelineVersion::v1>;
"""
"""The first instance of CK's own list for f16, by position."""
(GOOD,) = rendered_instances(TEXT)


def broken(arch: str, **changes: Any) -> list[str]:
    found = check_instance(ONE, {**GOOD.arguments, **changes}, arch)
    return [one.rule if one.severity == "error" else f"({one.rule})" for one in found]


@dataclass(frozen=True)
class Row:
    """A change, and what it breaks on gfx1100 and on gfx1201."""

    changes: dict[str, Any]
    on_gfx11: list[str]
    on_gfx12: list[str]


EIGHT_BITS = dict.fromkeys(("ADataType", "BDataType", "ComputeTypeA", "ComputeTypeB"), "F8")
ONE_SLICE = {A_CLUSTER: (1, 128, 1), "BBlockTransferThreadClusterLengths_BK0_N_BK1": (1, 128, 1)}
BY_WAVES = {"GemmSpec": "GemmSpecialization::Default", A_CLUSTER: (8, 32, 1)}

ROWS = [
    Row({}, [], []),
    Row({"MPerWmma": 32, "MRepeat": 2}, ["wmma-tile"], ["wmma-tile"]),
    Row({"MRepeat": 3}, ["m-per-block"], ["m-per-block"]),
    Row({"NRepeat": 3}, ["n-per-block"], ["n-per-block"]),
    Row({"MRepeat": 2}, ["block-size"], ["block-size"]),
    # two groups of lanes share K on gfx12
    Row({"AK1": 16, A_CLUSTER: (2, 64, 1)}, [], ["wmma-a-k-pack"]),
    Row({"KPerBlock": 8, **ONE_SLICE}, ["wmma-k-per-block"], ["wmma-k-per-block"]),
    Row({"KPerBlock": 24, **ONE_SLICE}, ["(k-per-block)"], ["(k-per-block)"]),
    Row({"KPerBlock": 48, **ONE_SLICE}, [], []),
    Row({A_CLUSTER: (8, 32, 1)}, ["a-cluster-k0"], ["a-cluster-k0"]),
    Row({LOAD: 3}, ["a-vector"], ["a-vector"]),
    Row({"CShuffleMRepeatPerShuffle": 3}, ["c-shuffle-m"], ["c-shuffle-m"]),
    Row({C_CLUSTER: (1, 24, 1, 8)}, ["c-cluster-m"], ["c-cluster-m"]),
    Row({C_VECTOR: 16}, ["c-vector"], ["c-vector"]),
    Row({"BlkGemmPipelineVer": "v4"}, ["wmma-pipeline"], ["wmma-pipeline"]),
    Row({"BlkGemmPipelineVer": "v3", "BlkGemmPipeSched": "Interwave"}, ["scheduler"], ["scheduler"]),
    Row({"ComputeTypeA": "F32", "ComputeTypeB": "F32"}, ["wmma-types"], ["wmma-types"]),
    Row({"AccDataType": "F16"}, [], ["wmma-accumulator"]),
    Row({"PermuteA": True}, ["a-permuted"], ["a-permuted"]),
    Row(EIGHT_BITS, ["(wmma-f8-arch)"], []),
    # on gfx12 waves copy A, whatever the thread cluster is
    Row(BY_WAVES, ["a-cluster-k0"], []),
    Row({"ALayout": "Col", "ABlockLdsExtraM": False, "KPerBlock": 16, LOAD: 1, A_CLUSTER: (2, 64, 1),
         "ABlockTransferSrcVectorDim": 1, "BBlockTransferThreadClusterLengths_BK0_N_BK1": (2, 64, 1)},
        ["a-lds-fold"], ["a-lds-fold"]),
]  # fmt: skip


@each_row("row", ROWS)
def test_what_instances_break(row: Row) -> None:
    assert (broken("gfx1100", **row.changes), broken("gfx1201", **row.changes)) == (row.on_gfx11, row.on_gfx12)
    assert broken("gfx1151", **row.changes) == row.on_gfx11


def test_archs_without_such_instructions() -> None:
    assert broken("gfx942") == broken("gfx1030") == ["(wmma-arch)"]
    assert broken("gfx1250") == [], "whose instructions are others: the headers do not know it"


def test_a_wrong_tile_is_told_at_its_parameter() -> None:
    (found,) = check_instance(ONE, {**GOOD.arguments, "MPerWmma": 32, "MRepeat": 2}, "gfx1201")
    assert (found.blame, found.message) == (
        "MPerWmma",
        "WMMA computes tiles of 16x16.\nMPerWmma == 16 and NPerWmma == 16: 32 == 16 and 16 == 16",
    )


def test_d_tensors_have_names_of_their_own() -> None:
    renamed = {"CLayout": "ELayout", "CDataType": "EDataType", C_CLUSTER: f"CDE{C_CLUSTER.removeprefix('C')}"}
    given = {renamed.get(name, name): value for name, value in GOOD.arguments.items() if name != C_VECTOR}
    given |= {"CDEShuffleBlockTransferScalarPerVectors": (16,), "DsLayout": "Tuple<>", "DsDataType": "Tuple<>"}
    assert given.keys() - {"CElementwiseOperation"} <= OPERATIONS[D_TENSORS].parameters.keys()
    (found,) = check_instance(D_TENSORS, given, "gfx1201")
    assert (found.rule, found.blame) == ("c-vector", "CDEShuffleBlockTransferScalarPerVectors")
