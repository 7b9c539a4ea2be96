"""Instances found in rendered C++, with the places of their arguments."""

from __future__ import annotations

from ckwatch.checks.rules.instances import argument_value, rendered_instances
from ckwatch.model.kernels import ParameterValue
from helpers.each_row import each_row

RENDERED = """\
// DeviceGemmMultiD_Xdl_CShuffle_V3< /* MPerBlock */ 1 > in a comment is none
using Gemm = ck::tensor_operation::device::DeviceGemmMultiD_Xdl_CShuffle_V3<
    /* ALayout */ Row,
    /* DsDataType */ ck::Tuple<F16, std::pair<int, S<1, 2>>>,
    /* MPerBlock */ 128, // a comment, with a comma and a >
    /* KPerBlock */ (4 > 3 ? 32 : 64),
    /* Cluster */ S<4, 64, 1>,
    /* ABlockLdsExtraM */ true,
    "unnamed, >",
    /* BlkGemmPipelineVer */ ck::BlockGemmPipelineVersion::v3
>;
const char* text = "DeviceGemm< /* MPerBlock */ 5 >";
using Other = DeviceConv</* MPerBlock */64>;
using Unclosed = DeviceGemm< /* MPerBlock */ 64;
template <typename T> using DeviceAlias = T;
"""


def test_instances_and_their_arguments() -> None:
    gemm, other = rendered_instances(RENDERED)
    assert (gemm.device_operation, other.device_operation) == ("DeviceGemmMultiD_Xdl_CShuffle_V3", "DeviceConv")
    assert gemm.arguments == {
        "ALayout": "Row",
        "DsDataType": "ck::Tuple<F16, std::pair<int, S<1, 2>>>",
        "MPerBlock": 128,
        "KPerBlock": "(4 > 3 ? 32 : 64)",
        "Cluster": (4, 64, 1),
        "ABlockLdsExtraM": True,
        "BlkGemmPipelineVer": "ck::BlockGemmPipelineVersion::v3",
    }
    assert other.arguments == {"MPerBlock": 64}


def test_offsets_lead_back_to_the_text() -> None:
    gemm = rendered_instances(RENDERED)[0]
    found = {name: RENDERED[start:end] for name, (start, end) in gemm.offsets.items()}
    assert found["MPerBlock"] == "128"
    assert found["Cluster"] == "S<4, 64, 1>"
    assert found["BlkGemmPipelineVer"] == "ck::BlockGemmPipelineVersion::v3"
    assert RENDERED[gemm.start : gemm.end].startswith("DeviceGemmMultiD_Xdl_CShuffle_V3<")
    assert RENDERED[gemm.end - 1 : gemm.end + 1] == ">;"


@each_row(
    ("text", "expected"),
    [
        ("128", 128),
        ("0x20u", 32),
        ("010", 8),
        ("-1", -1),
        ("true", True),
        ("S<1, 2,3>", (1, 2, 3)),
        ("ck::Sequence<8>{}", (8,)),
        ("S<>", ()),
        ("S<kTile, 2>", "S<kTile, 2>"),
        ("ck::Number<4>{}", 4),
        ("kTile", "kTile"),
        ("ck::Tuple< F16,\n F32 >", "ck::Tuple< F16, F32 >"),
    ],
)
def test_argument_values(text: str, expected: ParameterValue) -> None:
    value = argument_value(text)
    assert value == expected
    assert type(value) is type(expected)


def test_nothing_in_nothing() -> None:
    assert rendered_instances("") == []
