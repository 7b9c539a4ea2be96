"""Exported kernels that are no GEMM: formulas of sizes, several outputs, runtime arguments, names that Python keeps."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cases.export_case import ExportCustom, custom, tensor
from ckwatch.model.kernels import Tensor

PAIRS = custom(
    {
        "in": tensor("in", "f32", ("B", "2 * N"), ("LD", "1")),
        "gone": None,
        "twin": Tensor("twin", "f32", "row", ("B", "2 * N"), ("LD", "1"), "in"),
        "table": tensor("table", "i32", ("N", "4"), ("1", "(N + 1) / 2 * 2"), "col"),
    },
    {
        "out": tensor("out", "f64", ("B", "N"), ("N", "1")),
        "sums": tensor("sums", "f32", ("B", "G % 8"), ("G % 8", "1")),
    },
    ("B", "N", "LD", "G"),
    {"lambda": "float", "wide": "int64_t", "flip": "bool"},
    input_reorder=(3, 2, 1, 0),
)
PAIRS_SOURCE = """
#include <cstddef>
#include <cstdint>
extern "C" int symbol(
    const int32_t* table, const float* twin,  /* one buffer */
    double* out_, float * sums,
    int32_t B, int32_t N, int32_t LD, int32_t G,  // sizes
    float lambda, int64_t wide, bool flip,
    size_t* workspace_size, uint8_t* workspace, void* stream)
{
    (void)stream; (void)workspace;
    if (workspace_size != nullptr) { *workspace_size = 0; return 0; }
    const int step = (N + 1) / 2 * 2;
    for (int b = 0; b < B; ++b) {
        for (int n = 0; n < N; ++n) {
            const double pair = static_cast<double>(twin[b * LD + 2 * n]) + twin[b * LD + 2 * n + 1];
            out_[b * N + n] = (flip ? -pair : pair) * lambda + static_cast<double>(wide) + table[n + 3 * step];
        }
        for (int g = 0; g < G % 8; ++g) sums[b * (G % 8) + g] = static_cast<float>(g);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def pairs(export_custom: ExportCustom) -> Any:
    """Sums of neighbours."""
    return export_custom(PAIRS, PAIRS_SOURCE, kernel="print")


def given(batch: int = 3, n: int = 5) -> tuple[Any, Any]:
    """`in` and `table`."""
    table = np.zeros((4, (n + 1) // 2 * 2), np.int32).T[:n]
    table[:, 3] = np.arange(n)
    return np.arange(batch * 2 * n, dtype=np.float32).reshape(batch, 2 * n), table


def test_a_custom_kernel(pairs: Any) -> None:
    x, table = given()
    out, sums = pairs.print_kernel(x, x, table, G=10, lambda_=0.5, wide=2**40, flip=True)
    np.testing.assert_array_equal(out, -0.5 * (x[:, ::2] + x[:, 1::2].astype(np.float64)) + 2**40 + np.arange(5))
    assert sums.tolist() == [[0.0, 1.0]] * 3
    mine = np.empty((3, 2), np.float32)
    again, same = pairs.print_kernel(x, x, table, out=(None, mine), G=10, lambda_=0.5, wide=2**40, flip=True)
    assert same is mine
    np.testing.assert_array_equal(again, out)


ROWS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no size": ({"G": None}, TypeError, "no argument gives G: add G=…"),
    "odd": (
        {"in_": given()[0][:, :9]},
        ValueError,
        "the size of in along axis 1 is 9; it must be 2 * N, which is 10",
    ),
    "formula's stride": ({"table": np.ones((4, 5), np.int32).T}, ValueError, "it must be (N + 1) / 2 * 2, which is 6"),
    "number": (
        {"table": np.ones((3, 6), np.int32).T[:5]},
        ValueError,
        "table has the shape (5, 3); its size along axis 1 must be 4",
    ),
    "two buffers": ({"twin": np.ones((3, 10), np.float32)}, ValueError, "twin must be the same memory as in"),
    "float": ({"lambda_": "1"}, TypeError, "lambda is '1'; it must be a number (float)"),
    "int64_t": ({"wide": 2**63}, ValueError, "wide is 9223372036854775808; it must be from"),
    "bool": ({"flip": 2}, ValueError, "flip is 2; it must be from 0 to 1 (bool)"),
}


@pytest.mark.parametrize("what", ROWS)
def test_errors(what: str, pairs: Any) -> None:
    changed, kind, message = ROWS[what]
    x, table = given()
    arguments: dict[str, Any] = {"in_": x, "twin": x, "table": table, "G": 10, "lambda_": 0.5, "wide": 1, "flip": False}
    with pytest.raises(kind, match=re.escape(message)):
        pairs.print_kernel(**arguments | changed)


def test_leading_dimensions_that_the_kernel_does_not_take(export_custom: ExportCustom) -> None:
    operation = custom(
        {"X": tensor("X", "f32", ("M", "N"), ("LD", "1"))}, {"Y": tensor("Y", "f32", ("M", "N"), ("N", "1"))},
        ("M", "N", "LD"), {},
    )  # fmt: skip
    text = """
        #include <cstddef>
        #include <cstdint>
        extern "C" int symbol(const float* X, float* Y, int32_t M, int32_t N, size_t* size, uint8_t* workspace, void*stream) {
            (void)workspace; (void)stream;
            if (size != nullptr) { *size = 0; return 0; }
            for (int i = 0; i < M * N; ++i) Y[i] = X[i];
            return 0;
        }"""
    module = export_custom(operation, text)
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(module.gemm(x), x)
    with pytest.raises(ValueError, match="LD is 5, but the kernel does not take it and uses 3"):
        module.gemm(x[:, :3])


def test_a_kernel_without_inputs(export_custom: ExportCustom) -> None:
    text = """
        #include <cstddef>
        #include <cstdint>
        extern "C" int symbol(float* Y, int32_t N, size_t* size, uint8_t* workspace, void* stream) {
            (void)workspace; (void)stream;
            if (size != nullptr) { *size = 0; return 0; }
            for (int i = 0; i < N; ++i) Y[i] = 3;
            return 0;
        }"""
    module = export_custom(custom({}, {"Y": tensor("Y", "f32", ("N",), ("1",))}, ("N",), {}), text)
    assert module.gemm(out=np.zeros(3, np.float32)).tolist() == [3.0, 3.0, 3.0]
