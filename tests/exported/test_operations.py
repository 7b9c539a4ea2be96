"""Exported kernels of operations with more axes than a matrix has: batches, convolutions, and all element types."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cases.export_case import ExportCustom, custom, exported_of, imported, tensor
from ckwatch.render.renderer import Renderer
from helpers.gemm_build import TEMPLATES, compile_source, render
from references.naive_kernels import BATCHED_GEMM, CONVOLUTION, naive_unit
from references.naive_kernels import TEMPLATES as NAIVE

ExportKernel = Callable[[str], Any]


@pytest.fixture(scope="module")
def export_kernel(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> ExportKernel:
    """Export a kernel file of `naive_kernels`."""

    def export_text(text: str) -> Any:
        folder = tmp_path_factory.mktemp("exported")
        unit = naive_unit(folder, text)
        rendered = render(Renderer((NAIVE, TEMPLATES)), unit)
        source, library = folder / "unit.cpp", folder / "unit.so"
        source.write_text(rendered.text)
        compile_source(compiler, source, library, ["-fPIC", "-shared", "-fvisibility=hidden"])
        return imported(exported_of(unit.kernel.operation, "cpp", rendered.text, rendered.symbol, {}), library, folder)

    return export_text


@pytest.fixture(scope="module")
def batched(export_kernel: ExportKernel) -> Any:
    """A batched GEMM that takes the strides between matrices."""
    return export_kernel(BATCHED_GEMM)


@pytest.fixture(scope="module")
def convolution(export_kernel: ExportKernel) -> Any:
    """A convolution, channels last."""
    return export_kernel(CONVOLUTION)


def random(*shape: int) -> Any:
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)


def columns(*shape: int) -> Any:
    """The last two axes are stored transposed."""
    return random(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)


def channels_last(*shape: int) -> Any:
    return np.moveaxis(random(shape[0], *shape[2:], shape[1]), -1, 1)


def test_a_batch(batched: Any) -> None:
    x, w, bias = random(3, 5, 7), columns(3, 7, 4), random(4)
    expected = np.einsum("bmk,bkn->bmn", x, w) + bias
    np.testing.assert_allclose(batched.gemm(x, w, bias), expected, rtol=1e-5, atol=1e-5)
    gaps = random(3, 6, 9)[:, :5, :7]
    np.testing.assert_allclose(batched.gemm(gaps, w, bias), np.einsum("bmk,bkn->bmn", gaps, w) + bias, 1e-5, 1e-5)
    line_by_line = random(5, 3, 7).swapaxes(0, 1)
    out = np.empty((5, 3, 4), np.float32).swapaxes(0, 1)
    assert batched.gemm(line_by_line, w, bias, out=out) is out
    np.testing.assert_allclose(out, np.einsum("bmk,bkn->bmn", line_by_line, w) + bias, rtol=1e-5, atol=1e-5)
    one_for_all = np.broadcast_to(x[:1], x.shape)
    np.testing.assert_allclose(batched.gemm(one_for_all, w, bias), np.einsum("mk,bkn->bmn", x[0], w) + bias, 1e-5, 1e-5)


BATCH_ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a matrix": ({"X": random(5, 7)}, ValueError, "X has the shape (5, 7); it must have 3 axes: B × M × K"),
    "two batches": ({"X": random(2, 5, 7)}, ValueError, "B is 3 by the size of W along axis 0, but 2 by the size of X"),
    "rows": ({"W": random(3, 7, 4)}, ValueError, "W has the strides (28, 4, 1); they must be (BatchStrideB, 1, LDB)"),
    "one output": (
        {"out": np.broadcast_to(random(1, 5, 4), (3, 5, 4)).copy()[:1]},
        ValueError,
        "B is 1 by the size of Y",
    ),
    "numbers": ({"X": random(3, 5, 7).astype(np.float64)}, TypeError, "X has the dtype float64; it must be float32"),
}


@pytest.mark.parametrize("what", BATCH_ERRORS)
def test_errors_of_a_batch(what: str, batched: Any) -> None:
    changed, kind, message = BATCH_ERRORS[what]
    with pytest.raises(kind, match=re.escape(message)):
        batched.gemm(**{"X": random(3, 5, 7), "W": columns(3, 7, 4), "Bias": random(4)} | changed)


def convolved(x: Any, w: Any, groups: int, stride: int, dilation: int, padding: int) -> Any:
    """A two-dimensional convolution as a sum over the filter."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    (images, channels, height, width), (filters, _, taps_y, taps_x) = padded.shape, w.shape
    rows, across = (
        (size - dilation * (taps - 1) - 1) // stride + 1 for size, taps in ((height, taps_y), (width, taps_x))
    )
    grouped = padded.reshape(images, groups, channels // groups, height, width)
    weights = w.reshape(groups, filters // groups, channels // groups, taps_y, taps_x)
    y = np.zeros((images, groups, filters // groups, rows, across))
    for i in range(taps_y):
        for j in range(taps_x):
            top, left = i * dilation, j * dilation
            taken = grouped[..., top : top + stride * rows : stride, left : left + stride * across : stride]
            y += np.einsum("ngchw,gkc->ngkhw", taken, weights[..., i, j])
    return y.reshape(images, filters, rows, across)


@pytest.mark.parametrize(("groups", "stride", "dilation", "padding"), [(1, 1, 1, 0), (2, 2, 1, 1), (3, 1, 2, 2)])
def test_a_convolution(groups: int, stride: int, dilation: int, padding: int, convolution: Any) -> None:
    x, w, bias = channels_last(2, 6, 9, 8), channels_last(12, 6 // groups, 3, 2), random(12)
    given = {f"{name}_{axis}": value for axis in (0, 1) for name, value in (
        ("ConvolutionStrides", stride), ("Dilations", dilation), ("LeftPads", padding), ("RightPads", padding),
    )}  # fmt: skip
    y = convolution.gemm(x, w, bias, GroupCount=groups, **given)
    expected = convolved(x, w, groups, stride, dilation, padding) + bias[:, None, None]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    assert np.moveaxis(y, 1, -1).flags.c_contiguous
    assert convolution.gemm(x, w, bias, out=y, GroupCount=groups, **given) is y
    if (groups, stride, dilation, padding) == (1, 1, 1, 0):
        np.testing.assert_array_equal(convolution.gemm(x, w, bias), y)


def test_channels_first(export_kernel: ExportKernel) -> None:
    text = CONVOLUTION.replace('a = { dtype = "f32" }', 'a = { dtype = "f32", layout = "NGCHW" }')
    text = text.replace('b = { dtype = "f32" }', 'b = { dtype = "f32", layout = "GKCYX" }')
    module = export_kernel(text.replace('c = { dtype = "f32" }', 'c = { dtype = "f32", layout = "NGKHW" }'))
    x, w, bias = random(2, 6, 9, 8), random(12, 3, 3, 2), random(12)
    y = module.gemm(x, w, bias, GroupCount=2)
    np.testing.assert_allclose(y, convolved(x, w, 2, 1, 1, 0) + bias[:, None, None], rtol=1e-5, atol=1e-5)
    assert y.flags.c_contiguous
    with pytest.raises(ValueError, match=r"X has the strides \(432, 1, 48, 6\); they must be \(NInChannels"):
        module.gemm(channels_last(2, 6, 9, 8), w, bias, GroupCount=2)


CONVOLUTION_ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "channels first": ({"X": random(2, 6, 9, 8)}, "X has the strides (432, 72, 8, 1); they must be (InputSize_0 * InputSize_1"),
    "transposed": ({"X": channels_last(2, 6, 8, 9).swapaxes(2, 3)}, "X has the strides (432, 1, 6, 54); they must be"),
    "gaps": ({"X": channels_last(2, 6, 10, 8)[:, :, :9]}, "the stride of X along axis 0 is 480; it must be InputSize_0"),
    "three axes": ({"X": random(6, 9, 8)}, "X has the shape (6, 9, 8); it must have 4 axes: NBatch × NInChannels ×"),
    "groups": ({"GroupCount": 2}, "the size of W along axis 1 is 6; it must be NInChannels / GroupCount, which is 3"),
    "no groups": ({"GroupCount": 0}, "NInChannels / GroupCount has no value where its divisor is 0"),
    "filters": ({"Bias": random(9)}, "NOutChannels is 9 by the size of Bias along axis 0, but 12 by the size of W"),
    "steps of 0": ({"ConvolutionStrides_1": 0}, "/ ConvolutionStrides_1 has no value where its divisor is 0"),
    "negative pads": ({"LeftPads_0": -1}, "LeftPads_0 is -1; it must be from 0 to 2147483647"),
    "a large filter": ({"Dilations_0": 7}, "Y would have the shape (2, 12, -5, 7) with GroupCount=1, NBatch=2,"),
    "a wrong output": ({"out": channels_last(2, 12, 7, 8)}, "the size of Y along axis 3 is 8; it must be (InputSize_1"),
}  # fmt: skip


@pytest.mark.parametrize("what", CONVOLUTION_ERRORS)
def test_errors_of_a_convolution(what: str, convolution: Any) -> None:
    changed, message = CONVOLUTION_ERRORS[what]
    given = {"X": channels_last(2, 6, 9, 8), "W": channels_last(12, 6, 3, 2), "Bias": random(12)}
    with pytest.raises(ValueError, match=re.escape(message)):
        convolution.gemm(**given | changed)


def test_an_output_without_elements(convolution: Any) -> None:
    x, w, bias = channels_last(2, 6, 2, 8), channels_last(12, 6, 3, 2), random(12)
    assert convolution.gemm(x, w, bias).shape == (2, 12, 0, 7)


def test_what_a_convolution_says_of_itself(convolution: Any) -> None:
    text = " ".join(convolution.gemm.__doc__.split())
    assert "X: NBatch × NInChannels × InputSize_0 × InputSize_1, layout NHWGC, float32" in text
    assert "Without these, GroupCount is 1, ConvolutionStrides_0 is 1," in text


class Exporting:
    """An array that can nothing but export itself by DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__()


CHOOSE = """
#include <cstddef>
#include <cstdint>
extern "C" int symbol(const bool* Which, const int64_t* X, const uint32_t* Small, int64_t* Y, bool* Chosen, int32_t N,
                      size_t* size, uint8_t* workspace, void* stream) {
    (void)workspace; (void)stream;
    if (size != nullptr) { *size = 0; return 0; }
    for (int i = 0; i < N; ++i) { Y[i] = Which[i] ? X[i] : Small[i]; Chosen[i] = !Which[i]; }
    return 0;
}"""


@pytest.mark.parametrize("by", [lambda array: array, Exporting], ids=["numpy", "dlpack"])
def test_integers_and_bool(by: Callable[[Any], Any], export_custom: ExportCustom) -> None:
    vectors = {name: tensor(name, dtype, ("N",), ("1",)) for name, dtype in (
        ("Which", "bool"), ("X", "i64"), ("Small", "u32"), ("Y", "i64"), ("Chosen", "bool"),
    )}  # fmt: skip
    inputs = {name: vectors[name] for name in ("Which", "X", "Small")}
    module = export_custom(custom(inputs, {name: vectors[name] for name in ("Y", "Chosen")}, ("N",), {}), CHOOSE)
    which, x, small = (
        np.array([True, False, True]),
        np.array([2**40, 1, -(2**62)]),
        np.array([3, 2**32 - 1, 4], np.uint32),
    )
    out = (np.zeros(3, np.int64), np.zeros(3, np.bool_))
    module.gemm(by(which), by(x), by(small), out=out)
    assert [one.tolist() for one in out] == [[2**40, 2**32 - 1, -(2**62)], [False, True, False]]
    if by is not Exporting:
        made = module.gemm(which, x, small)
        assert [one.dtype for one in made] == [np.int64, np.bool_]
    with pytest.raises(TypeError, match="Small has the dtype bool; it must be uint32"):
        module.gemm(by(which), by(x), by(which), out=out)
