"""Convolutions: their tensors and layouts, what is computed, and sizes that make no sense."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckwatch.bench.numerics.verification import Reference
from ckwatch.model.contractions import usual_steps
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Kernel, Shape
from ckwatch.model.tensors import evaluate_size
from ckwatch.model.text import span
from ckwatch.workspace.operations.grouped_convolution import (
    DIMENSIONS,
    FILTER,
    FILTER_LAYOUTS,
    GROUPED_CONVOLUTION,
    IMAGE,
    INPUT_LAYOUTS,
    OUTPUT_LAYOUTS,
    convolution_operation,
)
from ckwatch.workspace.shapes import ragged_shapes, with_defaults, wrong_sizes
from helpers.each_row import each_row
from helpers.workspaces import INSTANCE, TOP, unmarked, workspace

HEAD = TOP + '\n[operation]\nkind = "grouped_convolution"\n'
CHANNELS_LAST = HEAD + 'a = { dtype = "f16" }\nb = { dtype = "f16" }\nc = { dtype = "f16" }\n'
SHAPE = "NBatch = 2\nNOutChannels = 8\nNInChannels = 6\nFilterSize_0 = 3\nFilterSize_1 = 3\nInputSize_0 = 5\nInputSize_1 = 7\n"
PLACE = span("/k", 0, 0, 0, 0)


def loaded(root: Path, more: str = "", shape: str = SHAPE) -> Kernel:
    found = workspace(root, {"k.kernel.toml": CHANNELS_LAST + more + INSTANCE + f"\n[[shape]]\n{shape}"})
    assert found.diagnostics == ()
    return found.kernels[0]


def test_arguments_are_those_of_inductor(tmp_path: Path) -> None:
    kernel = loaded(tmp_path)
    assert kernel.operation.size_arguments == (
        "GroupCount", "NBatch", "NOutChannels", "NInChannels", "FilterSize_0", "FilterSize_1", "InputSize_0",
        "InputSize_1", "ConvolutionStrides_0", "ConvolutionStrides_1", "Dilations_0", "Dilations_1", "LeftPads_0",
        "LeftPads_1", "RightPads_0", "RightPads_1",
    )  # fmt: skip
    assert kernel.operation.runtime_arguments == ()
    assert tuple(kernel.shapes[0].sizes.values()) == (1, 2, 8, 6, 3, 3, 5, 7, 1, 1, 1, 1, 0, 0, 0, 0)
    problem = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    assert [buffer.elements for buffer in problem.buffers] == [2 * 5 * 7 * 6, 8 * 3 * 3 * 6, 2 * 3 * 5 * 8]
    assert problem.flops == 2 * (2 * 3 * 5) * 8 * (3 * 3 * 6)


@each_row("dimensions", DIMENSIONS)
@each_row("layouts", [(0, 0, 0), (1, 1, 1), (2, 2, 2), (0, 2, 1)])
@each_row("biased", [False, True])
def test_the_reference_is_a_convolution(dimensions: int, layouts: tuple[int, int, int], biased: bool) -> None:
    """Against loops over the filter, in every layout: with groups, steps, gaps and pads of one side."""
    chosen = {
        name: known[dimensions][index]
        for (name, known), index in zip(
            (("X", INPUT_LAYOUTS), ("W", FILTER_LAYOUTS), ("Y", OUTPUT_LAYOUTS)), layouts, strict=True
        )
    }
    bias, steps = ("f32", usual_steps(bias="Bias")) if biased else (None, ())
    operation = convolution_operation(dimensions, dict.fromkeys("XWY", "f32"), chosen, bias, "f32", {}, steps=steps)
    axes = range(dimensions)
    given = {"GroupCount": 2, "NBatch": 2, "NOutChannels": 6, "NInChannels": 4}
    spatial = {
        "FilterSize": (3, 2, 3), "InputSize": (5, 7, 6), "ConvolutionStrides": (2, 1, 3), "Dilations": (2, 3, 1),
        "LeftPads": (1, 0, 2), "RightPads": (0, 2, 1),
    }  # fmt: skip
    given |= {f"{name}_{axis}": values[axis] for name, values in spatial.items() for axis in axes}
    shape = Shape("", with_defaults(operation, given), {}, PLACE)
    problem = problem_of(operation, shape, "gfx942")
    random = np.random.default_rng(1)
    inputs = {
        buffer.name: random.uniform(-1, 1, buffer.elements).astype(np.float32)
        for buffer in problem.buffers
        if not buffer.output
    }
    x = by_letters(chosen["X"], inputs["X"], f"NGC{IMAGE[dimensions]}", shape.sizes)
    w = by_letters(chosen["W"], inputs["W"], f"GKC{FILTER[dimensions]}", shape.sizes)
    taken = {name: [spatial[name][axis] for axis in axes] for name in spatial}
    y = convolved(x, w, taken)
    if biased:
        y += inputs["Bias"].reshape(1, 2, 3, *[1] * dimensions)
    order = [f"NGK{IMAGE[dimensions]}".index(letter) for letter in chosen["Y"]]
    result = {"Y": np.ascontiguousarray(y.transpose(order)).reshape(-1).astype(np.float32)}
    assert problem.flops == 2 * y.size * w[0, 0].size
    assert Reference(problem, inputs).check(result).compared == y.size


def by_letters(
    layout: str, flat: np.ndarray[tuple[int], np.dtype[np.float32]], order: str, sizes: Mapping[str, int]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The tensor of a layout with its axes in another order."""
    extents = {"G": 2, "N": 2, "C": 2, "K": 3}
    spatial = [letter for letter in order if letter not in "NGCK"]
    name = "FilterSize" if "K" in order else "InputSize"
    extents |= {letter: sizes[f"{name}_{axis}"] for axis, letter in enumerate(spatial)}
    tensor = flat.reshape([extents[letter] for letter in layout]).astype(np.float64)
    return tensor.transpose([layout.index(letter) for letter in order])


def convolved(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    w: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    spatial: Mapping[str, list[int]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """N, G, C, image ∗ G, K, C, filter, tap by tap."""
    pads = list(zip(spatial["LeftPads"], spatial["RightPads"], strict=True))
    padded = np.pad(x, [(0, 0)] * 3 + pads)
    steps, gaps, taps = spatial["ConvolutionStrides"], spatial["Dilations"], w.shape[3:]
    sizes = [
        (size - gap * (tap - 1) - 1) // step + 1
        for size, gap, tap, step in zip(padded.shape[3:], gaps, taps, steps, strict=True)
    ]
    y = np.zeros((x.shape[0], x.shape[1], w.shape[1], *sizes))
    for tap in product(*map(range, taps)):
        places = tuple(
            slice(gap * at, gap * at + step * (size - 1) + 1, step)
            for gap, at, step, size in zip(gaps, tap, steps, sizes, strict=True)
        )
        at_pixels: Any = (..., *places)
        at_tap: Any = (..., *tap)
        y += np.einsum("ngc...,gkc->ngk...", padded[at_pixels], w[at_tap])
    return y


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("GroupCount = 4\n", "`NInChannels` must be a multiple of GroupCount: 6 is none of 4"),
        ("GroupCount = 0\n", "`GroupCount` must be at least 1"),
        ("ConvolutionStrides_1 = 0\n", "`ConvolutionStrides_1` must be at least 1"),
        ("Dilations_0 = 0\n", "`Dilations_0` must be at least 1"),
        ("Dilations_0 = 3\n", "FilterSize_0 = 3, with Dilations_0 = 3 7 elements, is larger than the input"),
        ("LeftPads_0 = -1\n", "`LeftPads_0` must be at least 0"),
    ],
)
def test_sizes_without_a_result(tmp_path: Path, changed: str, message: str) -> None:
    text = CHANNELS_LAST + INSTANCE + f"\n[[shape]]\n{SHAPE}{changed}"
    found = workspace(tmp_path, {"k.kernel.toml": text})
    assert found.diagnostics[0].code == "kernel-file/out-of-range"
    assert message in found.diagnostics[0].message


def test_a_filter_larger_than_its_input_is_marked(tmp_path: Path) -> None:
    text, place = unmarked(
        CHANNELS_LAST + INSTANCE + "\n[[shape]]\n" + SHAPE.replace("FilterSize_1 = 3", "FilterSize_1 = «9»"),
        str(tmp_path / "k.kernel.toml"),
    )
    (found,) = workspace(tmp_path, {"k.kernel.toml": text}).diagnostics
    assert (found.span, found.message) == (
        place,
        "Y has no elements: FilterSize_1 = 9 is larger than the input, InputSize_1 = 7",
    )


def test_a_layout_of_other_dimensions(tmp_path: Path) -> None:
    text = (
        HEAD + 'dimensions = 3\na = { dtype = "f16", layout = "NHWGC" }\nb = { dtype = "f16" }\nc = { dtype = "f16" }\n'
    )
    (found,) = workspace(tmp_path, {"k.kernel.toml": text + INSTANCE}).diagnostics
    assert found.message == "`NHWGC` is not a layout in 3 dimensions: use NDHWGC, GNDHWC, NGCDHW"


def test_an_unknown_layout(tmp_path: Path) -> None:
    text = CHANNELS_LAST.replace('b = { dtype = "f16" }', 'b = { dtype = "f16", layout = "KYXC" }')
    (found,) = workspace(tmp_path, {"k.kernel.toml": text + INSTANCE}).diagnostics
    assert "unknown layout `KYXC`; did you mean" in found.message


def test_channels_of_all_groups_are_one_axis_where_they_can_be() -> None:
    def tensors(layouts: tuple[str, str, str]) -> list[tuple[str, ...]]:
        chosen = dict(zip("XWY", layouts, strict=True))
        operation = convolution_operation(2, dict.fromkeys("XWY", "f16"), chosen, None, "f32", {})
        return [tensor.sizes[:3] for tensor in operation.tensors]

    assert tensors(("NHWGC", "GKYXC", "NGKHW"))[:2] == [
        ("NBatch", "NInChannels", "InputSize_0"),
        ("NOutChannels", "NInChannels / GroupCount", "FilterSize_0"),
    ]
    assert tensors(("GNHWC", "KYXGC", "GNHWK"))[:2] == [
        ("GroupCount", "NBatch", "NInChannels / GroupCount"),
        ("GroupCount", "NOutChannels / GroupCount", "NInChannels / GroupCount"),
    ]


@pytest.mark.parametrize("dimensions", DIMENSIONS)
def test_special_sizes_make_sense(dimensions: int) -> None:
    layouts = {
        "X": INPUT_LAYOUTS[dimensions][0],
        "W": FILTER_LAYOUTS[dimensions][0],
        "Y": OUTPUT_LAYOUTS[dimensions][0],
    }
    operation = convolution_operation(dimensions, dict.fromkeys("XWY", "f16"), layouts, None, "f32", {})
    assert GROUPED_CONVOLUTION.special_sizes is not None
    for name, given in GROUPED_CONVOLUTION.special_sizes(operation, 128, 64, 32).items():
        sizes = with_defaults(operation, given)
        assert list(wrong_sizes(operation, sizes)) == [], name
        problem: KernelProblem = problem_of(operation, Shape(name, sizes, {}, PLACE), "gfx942")
        assert problem.flops is not None
        assert problem.flops < 4e9, name


def test_derived_sizes_are_a_product(tmp_path: Path) -> None:
    kernel = loaded(tmp_path)
    for shape in ragged_shapes(kernel.operation, kernel.shapes[0]):
        gemm = problem_of(kernel.operation, shape, "gfx942").gemm
        assert gemm is not None
        assert (gemm.x.sizes, gemm.w.sizes, gemm.y.matrices) == (
            (shape.sizes["InputSize_1"], shape.sizes["NInChannels"] // 2),
            (shape.sizes["NInChannels"] // 2, shape.sizes["NOutChannels"] // 2),
            2,
        )


@pytest.mark.parametrize(
    ("filter_size", "stride", "dilation", "touched"),
    [(1, 1, 1, 12), (1, 3, 1, 4), (2, 3, 1, 8), (3, 2, 2, 6), (3, 2, 1, 12)],
)
def test_what_steps_skip_is_not_moved(filter_size: int, stride: int, dilation: int, touched: int) -> None:
    operation = convolution_operation(
        1, dict.fromkeys("XWY", "f16"), {"X": "NWGC", "W": "GKXC", "Y": "NWGK"}, None, "f32", {}
    )
    given = {"NBatch": 1, "NOutChannels": 1, "NInChannels": 8, "FilterSize_0": filter_size, "InputSize_0": 12}
    sizes = with_defaults(operation, given | {"ConvolutionStrides_0": stride, "Dilations_0": dilation})
    problem = problem_of(operation, Shape("", sizes, {}, PLACE), "gfx942")
    outputs = (12 - dilation * (filter_size - 1) - 1) // stride + 1
    assert problem.bytes_moved == 2 * (8 * touched + 8 * filter_size + outputs)


def test_an_output_without_elements_has_a_size_below_one() -> None:
    operation = convolution_operation(
        1, dict.fromkeys("XWY", "f16"), {"X": "NWGC", "W": "GKXC", "Y": "NWGK"}, None, "f32", {}
    )
    size = operation.tensors[-1].sizes[-1]
    for filter_size, stride in product(range(1, 12), (1, 2, 5)):
        given = {"NBatch": 1, "NOutChannels": 1, "NInChannels": 1, "FilterSize_0": filter_size, "InputSize_0": 5}
        sizes = with_defaults(operation, given | {"ConvolutionStrides_0": stride})
        expected = (5 - filter_size) // stride + 1 if filter_size <= 5 else 0
        assert max(0, evaluate_size(size, sizes)) == expected


def test_shapes_that_differ_in_a_default_alone_have_names_of_their_own(tmp_path: Path) -> None:
    more = f"\n[[shape]]\n{SHAPE}ConvolutionStrides_0 = 2\n[[shape]]\n{SHAPE}LeftPads_0 = 2\nGroupCount = 2\n"
    names = [shape.name for shape in loaded(tmp_path, shape=SHAPE + more).shapes]
    assert names == ["2x8x6x3x3x5x7", "2x8x6x3x3x5x7x2", "2x2x8x6x3x3x5x7x2"]
