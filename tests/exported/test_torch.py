"""Host kernels on tensors of the real PyTorch, where it is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases.export_case import Export
from cases.gemm_case import GemmCase
from cases.gemm_rows import CASES

torch: Any = pytest.importorskip("torch")

CASE = GemmCase("f32", "f32", "f32", bias="row", bias_dtype="f32", activation="relu")


def test_tensors(export: Export) -> None:
    x, weight, bias = torch.randn(33, 40), torch.randn(50, 40), torch.randn(50)
    y = export(CASE).gemm(x, weight.t(), bias, kBatch=2)
    assert type(y) is torch.Tensor
    torch.testing.assert_close(y, torch.relu(x @ weight.t() + bias))
    out = torch.empty(33, 64)[:, :50]
    assert export(CASE).gemm(x, weight.t(), bias, out=out) is out
    torch.testing.assert_close(out, y)


def test_bfloat16(export: Export) -> None:
    x, w, bias = (torch.randn(size).to(torch.bfloat16) for size in ((9, 16), (16, 24), (24,)))
    y = export(CASES["bf16 bias relu"]).gemm(x, w, bias)
    torch.testing.assert_close(y, torch.relu(x @ w + bias), rtol=2e-2, atol=2e-2)


def test_parameters_and_gradients(export: Export) -> None:
    layer = torch.nn.Linear(40, 50)
    x = torch.randn(33, 40)
    with pytest.raises(ValueError, match="W requires a gradient"):
        export(CASE).gemm(x, layer.weight.t(), layer.bias)
    with torch.no_grad():
        torch.testing.assert_close(export(CASE).gemm(x, layer.weight.t(), layer.bias), torch.relu(layer(x)))


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda x: x.double(), TypeError, "X has the dtype float64"),
        (lambda x: x.to("meta"), ValueError, "X is on meta"),
        (lambda x: x.to_sparse(), TypeError, "X has the layout torch.sparse_coo"),
        (lambda x: x[0], ValueError, "it must have 2 axes"),
        (lambda x: x.t().contiguous().t(), ValueError, r"X has the strides \(1, 33\); they must be \(LDA, 1\)"),
    ],
)
def test_errors(change: Any, kind: type[Exception], message: str, export: Export) -> None:
    with pytest.raises(kind, match=message):
        export(CASE).gemm(change(torch.randn(33, 40)), torch.randn(50, 40).t(), torch.randn(50))


def test_tensors_and_arrays_together(export: Export) -> None:
    x, weight, bias = torch.randn(3, 4), np.ones((5, 4), np.float32), torch.zeros(5)
    y = export(CASE).gemm(x, weight.T, bias)
    assert type(y) is torch.Tensor
