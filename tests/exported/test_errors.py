"""Errors of an exported module for impossible arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cases.export_case import Export
from cases.gemm_case import GemmCase
from cases.gemm_rows import CASES
from helpers.each_row import each_row

CASE = GemmCase("f32", "f32", "f32", bias="row", bias_dtype="f32", activation="relu")


def ones(*shape: int) -> Any:
    """An array of f32."""
    return np.ones(shape, np.float32)


GOOD: dict[str, Any] = {"X": ones(4, 8), "W": ones(6, 8).T, "Bias": ones(6)}

ROWS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "none": ({"X": None}, TypeError, "X is None; it takes a torch tensor, a numpy array"),
    "a list": ({"Bias": [1.0]}, TypeError, "Bias is of type list"),
    "a flag": ({"X": True}, TypeError, "X is of type bool"),
    "dtype": ({"X": ones(4, 8).astype(np.float64)}, TypeError, "X has the dtype float64; it must be float32"),
    "big-endian": ({"X": ones(4, 8).astype(">f4")}, TypeError, "X has the dtype >f4; it must be float32"),
    "dtype of out": ({"out": np.ones((4, 6), np.int32)}, TypeError, "Y has the dtype int32"),
    "axes": ({"X": ones(8)}, ValueError, "X has the shape (8,); it must have 2 axes: M × K"),
    "batched": ({"X": ones(2, 4, 8)}, ValueError, "X has the shape (2, 4, 8); it must have 2 axes"),
    "K": ({"X": ones(4, 9)}, ValueError, "K is 8 by the size of W along axis 0, but 9 by the size of X along axis 1"),
    "N": ({"Bias": ones(5)}, ValueError, "N is 5 by the size of Bias along axis 0, but 6 by the size of W"),
    "out": ({"out": ones(4, 7)}, ValueError, "N is 7 by the size of Y along axis 1, but 6 by the size of W"),
    "given": ({"M": 5}, ValueError, "M is 4 by the size of X along axis 0, but 5 by M=5"),
    "transposed": ({"W": ones(8, 6)}, ValueError, "W has the strides (6, 1); they must be (1, LDB)"),
    "steps": ({"Bias": ones(12)[::2]}, ValueError, "Bias has the strides (2,); they must be (1)"),
    "backwards": ({"X": ones(4, 8)[::-1]}, ValueError, "X has negative strides (-8, 1)"),
    "half elements": (
        {"X": np.ndarray((2, 2), np.float32, bytes(32), strides=(6, 4))}, ValueError, "X has strides of (6, 4) bytes",
    ),
    "not aligned": (
        {"Bias": np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float32)}, ValueError, "not aligned to 4 bytes",
    ),
    "read-only out": ({"out": np.broadcast_to(np.float32(0), (4, 6))}, ValueError, "Y is written, and the array"),
    "overlapping out": (
        {"out": np.lib.stride_tricks.as_strided(ones(6), (4, 6), (0, 4))}, ValueError, "elements of it are one",
    ),
    "masked": ({"X": np.ma.masked_less(ones(4, 8), 2)}, TypeError, "X is a masked array"),
    "too large": ({"LDC": 2**31}, ValueError, "LDC is 2147483648; it must be from 0 to 2147483647"),
    "kBatch": ({"kBatch": 1.5}, TypeError, "kBatch is 1.5; it must be an integer (int32_t)"),
    "large kBatch": ({"kBatch": 2**31}, ValueError, "kBatch is 2147483648; it must be from"),
    "pointer without out": ({"X": 64, "W": 64, "Bias": 64, "M": 4, "N": 6, "K": 8}, TypeError, "Y cannot be made"),
    "pointer without sizes": ({"X": 64, "out": 64}, TypeError, "no argument gives M: add M=…"),
    "null pointer": ({"X": 0}, ValueError, "X is not a pointer: 0"),
}  # fmt: skip


@each_row("what", ROWS)
def test_errors(what: str, export: Export) -> None:
    changed, kind, message = ROWS[what]
    with pytest.raises(kind, match=re.escape(message)):
        export(CASE).gemm(**GOOD | changed)


def test_an_output_that_is_also_an_operand(export: Export) -> None:
    square = ones(6, 6)
    with pytest.raises(ValueError, match="Y must not lie where X does"):
        export(CASE).gemm(square, ones(6, 6).T, ones(6), out=square)


def test_one_buffer_must_be_one(export: Export) -> None:
    module = export(CASES["one buffer"])
    x = ones(6, 8)
    assert module.gemm(x, x.T, ones(6)).tolist() == [[9.0] * 6] * 6
    with pytest.raises(ValueError, match="W must be the same memory as X"):
        module.gemm(x, ones(6, 8).T, ones(6))


def test_scales_may_be_none_and_nothing_else(export: Export) -> None:
    case = CASES["reordered"]
    half = np.float16
    module = export(case)
    y = module.gemm(np.ones((4, 8), half), np.ones((6, 8), half).T, None, None, np.ones(6, half))
    assert (y == 9).all()
    y = module.gemm(np.ones((4, 8), half), np.ones((6, 8), half).T, 2 * ones(4, 1), 3 * ones(1, 6), np.ones(6, half))
    assert (y == 49).all()
    with pytest.raises(TypeError, match="Bias is None"):
        module.gemm(np.ones((4, 8), half), np.ones((6, 8), half).T, None, None, None)


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "kBatch": (lambda call: call(kBatch=0), "M=4, N=6, K=8, LDA=8, LDB=8, LDC=6, LDD=0, kBatch=0"),
    "repeated rows": (lambda call: call(X=np.broadcast_to(ones(8), (4, 8))), "LDA=0"),
    "no K": (lambda call: call(X=ones(4, 0), W=ones(6, 0).T), "K=0"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals(what: str, export: Export, capfd: pytest.CaptureFixture[str]) -> None:
    call, values = REFUSED[what]
    module = export(CASE)
    with pytest.raises(module.UnsupportedError, match="does not support M=4") as caught:
        call(lambda **changed: module.gemm(**GOOD | changed))
    assert values in str(caught.value)
    assert caught.value.code == -23
    assert isinstance(caught.value, module.KernelError)
    assert "LDA is smaller" in capfd.readouterr().err or what != "repeated rows"


def test_a_refusal_is_not_remembered_as_an_answer(export: Export) -> None:
    module = export(CASE)
    for _ in range(2):
        with pytest.raises(module.UnsupportedError):
            module.workspace_size(M=4, N=6, K=8, kBatch=0)
        with pytest.raises(module.UnsupportedError):
            module.gemm(**GOOD, kBatch=0)
    assert (module.gemm(**GOOD) == 9).all()
