"""Convolutions that CK refuses, and those next to them that it does not."""

from __future__ import annotations

import pytest

from ckwatch.checks.supported_shapes import shape_rules, unsupported_reason
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import ParameterValue, Shape
from ckwatch.model.text import span
from ckwatch.workspace.operations.grouped_convolution import (
    FILTER_LAYOUTS,
    INPUT_LAYOUTS,
    OUTPUT_LAYOUTS,
    convolution_operation,
)
from ckwatch.workspace.shapes import with_defaults
from helpers.each_row import each_row

Parameters = dict[str, ParameterValue]

WIDE: Parameters = {
    "ConvForwardSpecialization": "Default", "GemmSpec": "MNKPadding", "BlockSize": 256, "MPerBlock": 128,
    "NPerBlock": 64, "KPerBlock": 32, "AK1": 8, "BK1": 8, "ABlockTransferSrcScalarPerVector": 8,
    "BBlockTransferSrcScalarPerVector": 4, "CDEBlockTransferScalarPerVector_NPerBlock": 8, "BlkGemmPipelineVer": "v1",
}  # fmt: skip
ANY: Parameters = WIDE | {
    "ABlockTransferSrcScalarPerVector": 1, "BBlockTransferSrcScalarPerVector": 1,
    "CDEBlockTransferScalarPerVector_NPerBlock": 1,
}  # fmt: skip
SIZES = {
    "GroupCount": 2, "NBatch": 2, "NOutChannels": 32, "NInChannels": 16, "FilterSize_0": 3, "FilterSize_1": 3,
    "InputSize_0": 8, "InputSize_1": 8, "LeftPads_0": 1, "LeftPads_1": 1, "RightPads_0": 1, "RightPads_1": 1,
}  # fmt: skip
ONE_TAP = {"FilterSize_0": 1, "FilterSize_1": 1} | dict.fromkeys(
    ("LeftPads_0", "LeftPads_1", "RightPads_0", "RightPads_1"), 0
)


def problem(sizes: dict[str, int], layout: int = 0, dimensions: int = 2) -> KernelProblem:
    layouts = {
        name: known[dimensions][layout]
        for name, known in (("X", INPUT_LAYOUTS), ("W", FILTER_LAYOUTS), ("Y", OUTPUT_LAYOUTS))
    }
    operation = convolution_operation(dimensions, dict.fromkeys("XWY", "f16"), layouts, None, "f32", {})
    return problem_of(operation, Shape("", with_defaults(operation, sizes), {}, span("/k", 0, 0, 0, 0)), "gfx942")


@each_row(
    ("parameters", "changes", "expected"),
    [
        (WIDE, {}, ""),
        (ANY, {"NInChannels": 6, "NOutChannels": 10, "InputSize_0": 5}, ""),
        (WIDE, {"NInChannels": 8}, "4 input channels per group are not a multiple of ABlockTransferSrcScalarPerVector = 8"),
        (
            WIDE | {"ABlockTransferSrcScalarPerVector": 2},
            {"NInChannels": 4},
            "2 input channels per group are not a multiple of BBlockTransferSrcScalarPerVector = 4",
        ),
        (
            WIDE,
            {"NOutChannels": 24},
            "12 output channels per group are not a multiple of CDEBlockTransferScalarPerVector_NPerBlock = 8",
        ),
        (WIDE | {"ConvForwardSpecialization": "Filter1x1Pad0"}, ONE_TAP | {"ConvolutionStrides_0": 2}, ""),
        (
            WIDE | {"ConvForwardSpecialization": "Filter1x1Pad0"},
            ONE_TAP | {"RightPads_1": 1},
            "Filter1x1Pad0 needs RightPads_1 = 0, and it is 1",
        ),
        (WIDE | {"ConvForwardSpecialization": "Filter1x1Stride1Pad0"}, ONE_TAP, ""),
        (
            WIDE | {"ConvForwardSpecialization": "Filter1x1Stride1Pad0"},
            ONE_TAP | {"ConvolutionStrides_0": 2},
            "Filter1x1Stride1Pad0 needs ConvolutionStrides_0 = 1, and it is 2",
        ),
        (
            WIDE | {"ConvForwardSpecialization": "Filter1x1Stride1Pad0"},
            {},
            "Filter1x1Stride1Pad0 needs FilterSize_0 = 1, and it is 3",
        ),
        (ANY | {"ConvForwardSpecialization": "Filter3x3"}, {"NInChannels": 2}, ""),
        (ANY | {"ConvForwardSpecialization": "Filter3x3"}, {}, "Filter3x3 needs one input channel per group"),
        (WIDE | {"ConvForwardSpecialization": "OddC"}, {}, ""),
        # 9 taps of 8 channels are 2.25 rounds of 32
        (WIDE | {"BlkGemmPipelineVer": "v3"}, {}, ""),
        (WIDE | {"BlkGemmPipelineVer": "v3"}, ONE_TAP, "K = 8 is 1 × KPerBlock: pipeline v3 needs more than 2"),
        (WIDE | {"BlkGemmPipelineVer": "v4"}, {}, "K = 72 is 3 × KPerBlock: pipeline v4 needs more than 3"),
        (WIDE | {"BlkGemmPipelineVer": "v4", "DirectLoad": True}, {}, ""),
        # without padding
        (WIDE | {"GemmSpec": "MNPadding"}, {}, "K = 72 is not a multiple of kBatch · KPerBlock = 32, and GemmSpec does not"),
        (WIDE | {"GemmSpec": "MKPadding"}, {}, "16 output channels per group are not a multiple of NPerBlock = 64"),
        (WIDE | {"GemmSpec": "NKPadding"}, {}, ""),
        (WIDE, {"GroupCount": 65536, "NInChannels": 8 << 16, "NOutChannels": 8 << 16}, "GroupCount = 65536 is above"),
        (WIDE, {"NInChannels": 512, "InputSize_0": 1024, "InputSize_1": 1024}, "pixels × taps × channels of X are more"),
    ],
)  # fmt: skip
def test_channels_last(parameters: Parameters, changes: dict[str, int], expected: str) -> None:
    found = unsupported_reason(parameters, problem(SIZES | changes))
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("parameters", "changes", "expected"),
    [
        (WIDE, {}, ""),
        (ANY, {"InputSize_0": 5, "NInChannels": 6}, ""),
        (WIDE, {"InputSize_0": 7, "InputSize_1": 7}, "49 elements of an image are not a multiple of CDEBlockTransferScalar"),
        (
            WIDE,
            {"InputSize_0": 16, "ConvolutionStrides_0": 3, "ConvolutionStrides_1": 3},
            "18 elements of an output image are not a multiple of CDEBlockTransferScalarPerVector_NPerBlock = 8",
        ),
        (
            WIDE | {"ABlockTransferSrcScalarPerVector": 4},
            {"NInChannels": 8},
            "4 input channels per group are not a multiple of CDEBlockTransferScalarPerVector_NPerBlock = 8",
        ),
        (WIDE, ONE_TAP | {"InputSize_0": 1, "InputSize_1": 1}, "1 elements of an image are not a multiple"),
    ],
)  # fmt: skip
def test_channels_first_are_transposed(parameters: Parameters, changes: dict[str, int], expected: str) -> None:
    found = unsupported_reason(parameters, problem(SIZES | changes, layout=2))
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


def test_of_channels_first_no_part_can_be_computed() -> None:
    family = shape_rules(WIDE)
    assert family is not None
    assert [family.needs_whole(WIDE, problem(SIZES, layout)) for layout in range(3)] == [
        "",
        "",
        "all of X is transposed",
    ]


def test_one_dimension_is_not_transposed() -> None:
    sizes = {name: size for name, size in SIZES.items() if not name.endswith("_1")} | ONE_TAP
    sizes = {name: size for name, size in sizes.items() if not name.endswith("_1")} | {"InputSize_0": 7}
    assert unsupported_reason(WIDE, problem(sizes, layout=2, dimensions=1)) == ""


def test_an_instance_is_known_by_its_specialization() -> None:
    family = shape_rules(WIDE)
    assert family is not None
    assert not family.splits_k(convolution_operation(1, dict.fromkeys("XWY", "f16"), {"X": "NWGC", "W": "GKXC", "Y": "NWGK"}, None, "f32", {}))  # fmt: skip
    assert family is not shape_rules({name: value for name, value in WIDE.items() if name[:4] != "Conv"})
