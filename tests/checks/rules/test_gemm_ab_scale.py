"""The GEMM with scales per block: where its rules differ from those of the universal one."""

from __future__ import annotations

import pytest

from benchmarks.gemm_samples import Arguments, instance
from ckwatch.checks.rules.checker import OPERATIONS, check_instance, value_of
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.reference import parameter_description
from helpers.each_row import each_row

SCALED = "DeviceGemmMultiD_ABScale_Xdl_CShuffle_V3"
GEMM = "DeviceGemmMultiD_Xdl_CShuffle_V3"
SCALES: Arguments = {
    "AScaleDataType": "F32",
    "BScaleDataType": "F32",
    "ScaleBlockM": 1,
    "ScaleBlockN": 128,
    "ScaleBlockK": 128,
}
V3 = "256 128 128 128 16 16 32 2x2 8x32 16 8x32 16 0 1x1 32x8 8 Intrawave v3"
V1 = "256 64 256 128 16 16 32 2x2 8x32 16 8x32 16 0 1x1 32x8 8 Intrawave v1"


def scaled(text: str = V3, **changes: object) -> Arguments:
    """An instance of f8 with scales per 1×128 and 128×128, with some arguments changed."""
    return {**instance(text, "Row", "Col", "F8"), "CDataType": "BF16", **SCALES, **changes}  # type: ignore[dict-item]


def broken(arguments: Arguments, arch: str = "gfx950") -> dict[str, str]:
    return {found.rule: str(found.severity) for found in check_instance(SCALED, arguments, arch)}


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("text", [V3, V1])
def test_good_instances_are_accepted(text: str, arch: str) -> None:
    assert broken(scaled(text), arch) == {}


@each_row(
    ("text", "change", "rule", "severity"),
    [
        (V3, {"BlkGemmPipelineVer": "v4"}, "block-scales-pipeline", "error"),
        (V3, {"BlkGemmPipelineVer": "v2"}, "block-scales-launch", "warning"),
        (V1, {"BlkGemmPipeSched": "Interwave"}, "block-scales-scheduler", "error"),
        (V3, {"AScaleDataType": "F16"}, "block-scales-type", "warning"),
        (V3, {"ScaleBlockM": 128}, "block-scales-rows", "warning"),
        (V3, {"ScaleBlockK": 256}, "block-scales-depth", "warning"),
        (
            V1,
            {
                "ScaleBlockK": 64,
                "BLayout": "Row",
                "BBlockTransferSrcVectorDim": 1,
                "BBlockTransferSrcScalarPerVector": 8,
            },
            "block-scales-vector",
            "warning",
        ),
        (V1, {"ScaleBlockN": 96}, "block-scales-columns", "warning"),
        (V1, {"ScaleBlockN": 64}, "block-scales-columns", "warning"),
        (V3, {"ScaleBlockN": 192}, "block-scales-columns", "warning"),
        (V3, {"ScaleBlockK": 64}, "block-scales-v3-k", "error"),
        (V1, {"BlkGemmPipelineVer": "v3"}, "block-scales-v3-n", "error"),
        (V1, {"ScaleBlockK": 16}, "block-scales-step", "warning"),
        (V1, {"ABlockTransferSrcScalarPerVector": 64}, "block-scales-a-loads", "error"),
    ],
)
def test_a_rule_of_its_own(text: str, change: Arguments, rule: str, severity: str) -> None:
    assert broken(scaled(text, **change)).get(rule) == severity


def test_what_the_template_asserts_is_an_error() -> None:
    source = 'static_assert(128 == 1, "CK reads one scale for each row of X: the block of scale_a must have one row");'
    (found,) = check_instance(SCALED, scaled(ScaleBlockM=128), "gfx942", source=source)
    assert (found.rule, found.severity) == ("block-scales-rows", "error")


def test_padding_in_lds_lies_between_rows_and_is_not_always_there() -> None:
    assert value_of(SCALED, "ALdsElements", scaled(), "gfx950") == 128 * 128
    assert value_of(GEMM, "ALdsElements", scaled(), "gfx950") == 7 * 129 * 16 + 128 * 16
    assert value_of(SCALED, "ALdsElements", scaled(ABlockLdsExtraM=True), "gfx950") == 7 * 16 + 127 * 129 + 16


def test_rules_of_the_universal_gemm_name_this_ones_headers() -> None:
    rules = {rule.slug: rule for rule in OPERATIONS[SCALED].rules}
    assert "multi_d_ab_scale.hpp" in rules["m-per-block"].source
    assert "c-vector-atomic" not in rules
    assert parameter_description(SCALED, "MPerBlock") == parameter_description(GEMM, "MPerBlock")


def test_names_of_the_parameters() -> None:
    text = f"using Gemm = ck::tensor_operation::device::{SCALED}</* BScaleDataType */ F32, /* ScaleBlockK */ 128>;"
    (found,) = rendered_instances(text)
    assert found.arguments == {"BScaleDataType": "F32", "ScaleBlockK": 128}
    names = list(OPERATIONS[SCALED].parameters)
    first = names.index("BlockSize")
    assert names[first : first + 5] == ["BlockSize", "ScaleBlockM", "ScaleBlockN", "ScaleBlockK", "MPerBlock"]
