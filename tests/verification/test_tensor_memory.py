"""Tensors whose rows lie far apart, in the memory of the emulator as it is built from its sources."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benches.bench_kernels import gemm_problem
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.verification.device import (
    ARCH_VARIABLE,
    ERRORS_VARIABLE,
    LIMIT_VARIABLE,
    OBJDUMP_VARIABLE,
    EmulatedDevice,
)
from ckwatch.verification.tensor_memory import TensorMemory, TensorPiece, pieces_of

FAR = 3 << 30
"""Bytes from one row to the next: two of them are beyond 2^32."""


@pytest.fixture
def device(library: Path, monkeypatch: pytest.MonkeyPatch) -> EmulatedDevice:
    for name in (OBJDUMP_VARIABLE, ARCH_VARIABLE, LIMIT_VARIABLE, ERRORS_VARIABLE):
        monkeypatch.setenv(name, "")
    return EmulatedDevice(str(library), "/llvm-objdump", "gfx942")


def apart(dense: KernelProblem, strides: tuple[int, int]) -> KernelProblem:
    return replace(dense, views=(replace(dense.views[0], strides=strides), *dense.views[1:]))


def test_rows_are_pieces_and_columns_too() -> None:
    dense = gemm_problem()
    rows, columns = dense.views[0].sizes
    near = dense.views[0].strides[0]
    assert pieces_of(dense, apart(dense, (5000, 1)), "X") == [
        TensorPiece(4 * near * row, 20000 * row, 4 * columns) for row in range(rows)
    ]
    assert len(pieces_of(dense, apart(dense, (5000, 2)), "X")) == rows * columns


def test_memory_is_reserved_and_not_filled(device: EmulatedDevice) -> None:
    """More than this machine may have, written at its ends; all else counts as written by nobody."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    address = device.reserve(20 * FAR)
    device.mark_undefined(address, 20 * FAR)
    memory = TensorMemory(device, address, [TensorPiece(4 * row, FAR * row, 4) for row in range(20)])
    written = np.arange(80, dtype=np.uint8)
    memory.upload(written)
    found = np.zeros_like(written)
    memory.download(found)
    assert np.array_equal(found, written)
    assert not memory.undefined(80).any()
    assert device.undefined(address + 19 * FAR - 4, 12).tolist() == [True] * 4 + [False] * 4 + [True] * 4
    memory.mark_undefined()
    assert memory.undefined(80).all()
    device.upload(address, np.zeros(1 << 27, np.uint8))  # as large as what is mapped anew at once
    assert device.undefined(address + (1 << 27) - 8, 16).tolist() == [False] * 8 + [True] * 8
    device.free(address)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
