"""Exported GEMMs of the host on numpy arrays, against the reference of the templates' tests."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cases.export_case import Export
from cases.gemm_case import GemmCase, GemmRun, Size
from cases.gemm_rows import CASES, sizes

NATIVE = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
"""numpy's own element types; other elements are passed as their bits."""

WITH_BIAS = GemmCase("f32", "f32", "f32", bias="row", bias_dtype="f32", activation="relu")
FULL_BIAS = CASES["f32 alpha beta"]

Array = npt.NDArray[Any]


def matrix(buffer: Array, dtype: str, layout: str, shape: tuple[int, int], leading: int) -> Array:
    """The view of a matrix with a leading dimension."""
    elements = buffer.view(NATIVE.get(dtype, buffer.dtype))
    size = elements.dtype.itemsize
    steps = (leading * size, size) if layout == "row" else (size, leading * size)
    return np.lib.stride_tricks.as_strided(elements, shape, steps)


def arguments_of(run: GemmRun) -> list[Array]:
    """The inputs of a run as arrays, in the order of the operation."""
    case, size = run.case, run.size
    a_layout, b_layout, _ = case.layouts.split()
    w_buffer = run.buffers["X" if case.same_buffer else "W"]
    given = [
        matrix(run.buffers["X"], case.a, a_layout, (size.M, size.K), run.leading["LDA"]),
        matrix(w_buffer, case.b, b_layout, (size.K, size.N), run.leading["LDB"]),
    ]
    given += [run.buffers[name] for name in ("inv_scale_x", "inv_scale_w") if name in run.buffers]
    if case.bias is not None and case.bias.startswith("full"):
        layout = case.bias.split()[-1]
        given.append(matrix(run.buffers["Bias"], case.bias_dtype, layout, (size.M, size.N), run.leading["LDD"]))
    elif case.bias is not None:
        bias = run.buffers["Bias"]
        given.append(bias.view(NATIVE.get(case.bias_dtype, bias.dtype)))
    return given


def y_of(run: GemmRun) -> Array:
    """The output of a run as an array."""
    layout, shape = run.case.layouts.split()[2], (run.size.M, run.size.N)
    return matrix(run.y_buffer, run.case.c, layout, shape, run.leading["LDC"])


@pytest.mark.parametrize(
    "name", ["bf16 bias relu", "f32 alpha beta", "f8 row scales", "one buffer", "f64", "reordered", "i8"]
)
def test_results(name: str, export: Export) -> None:
    case = CASES[name]
    module = export(case)
    for seed, size in enumerate(sizes(name)):
        run = GemmRun(case, size, seed)
        out = y_of(run)
        assert module.gemm(*arguments_of(run), out=out, kBatch=size.kBatch) is out
        run.check()


@pytest.mark.parametrize(
    ("case", "dtype"), [(WITH_BIAS, np.float32), (FULL_BIAS, np.float32), (CASES["bf16 bias relu"], np.uint16)]
)
def test_outputs_are_made(case: GemmCase, dtype: type, export: Export) -> None:
    run = GemmRun(case, Size(33, 20, 50, kBatch=2, padding=3))
    module = export(case)
    y = module.gemm(*arguments_of(run), kBatch=2)
    assert (y.shape, y.dtype) == ((33, 20), dtype)
    assert (y if case.layouts.split()[2] == "row" else y.T).flags.c_contiguous
    y_of(run)[...] = y
    run.check()
    wide = module.gemm(*arguments_of(run), kBatch=2, LDC=40)
    assert max(wide.strides) == 40 * wide.itemsize
    assert np.array_equal(wide, y)


def test_other_libraries_types_are_kept(export: Export) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    run = GemmRun(CASES["bf16 bias relu"], Size(9, 10, 11))
    given = [array.view(ml_dtypes.bfloat16) for array in arguments_of(run)]
    y = export(run.case).gemm(*given)
    assert y.dtype == ml_dtypes.bfloat16
    y_of(run)[...] = y.view(np.uint16)
    run.check()


def test_slices_of_larger_arrays(export: Export) -> None:
    rng = np.random.default_rng(3)
    x, w, bias = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((40, 60), (30, 60), (30,)))
    gemm = export(WITH_BIAS).gemm
    part, weight = x[5:25, 7:47], w[:, 7:47].T
    expected = np.maximum(part @ weight + bias, 0)
    np.testing.assert_allclose(gemm(part, weight, bias), expected, rtol=1e-4, atol=1e-5)
    target = np.full((20, 99), 7, np.float32)
    gemm(part, weight, bias, out=target[:, 11:41])
    np.testing.assert_allclose(target[:, 11:41], expected, rtol=1e-4, atol=1e-5)
    assert (target[:, :11] == 7).all()
    assert (target[:, 41:] == 7).all()


def test_vectors_as_rows_and_single_rows(export: Export) -> None:
    rng = np.random.default_rng(4)
    x, w, bias = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((1, 60), (30, 60), (1, 30)))
    expected = np.maximum(x @ w.T + bias, 0)
    # The strides of a single row are of no use to anybody, and libraries put there what they like.
    odd = np.lib.stride_tricks.as_strided(x, (1, 60), (12, 4))
    np.testing.assert_allclose(export(WITH_BIAS).gemm(odd, w.T, bias), expected, rtol=1e-4, atol=1e-5)


def test_a_bias_whose_rows_are_one(export: Export) -> None:
    run = GemmRun(FULL_BIAS, Size(8, 9, 10, ldd_zero=True))
    x, w, _ = arguments_of(run)
    export(FULL_BIAS).gemm(x, w, np.broadcast_to(run.buffers["Bias"], (8, 9)), out=y_of(run))
    run.check()


def test_nothing_to_compute(export: Export) -> None:
    gemm = export(WITH_BIAS).gemm
    x, w, bias = np.ones((0, 5), np.float32), np.ones((7, 5), np.float32), np.ones(7, np.float32)
    assert gemm(x, w.T, bias).shape == (0, 7)


def test_pointers_and_sizes(export: Export) -> None:
    run = GemmRun(WITH_BIAS, Size(12, 20, 31, padding=2))
    given = [array.ctypes.data for array in arguments_of(run)]
    sizes = {name: run.leading[name] for name in ("LDA", "LDB", "LDC")}
    module = export(WITH_BIAS)
    address = run.y_buffer.ctypes.data
    assert module.gemm(*given, out=address, M=12, N=20, K=31, **sizes) == address
    run.check()


def test_workspaces(export: Export) -> None:
    module = export(WITH_BIAS)
    assert module.workspace_size(M=12, N=20, K=31) == 0
    assert module.workspace_size(M=12, N=20, K=31, kBatch=3) == 3 * 12 * 20 * 4
    run = GemmRun(WITH_BIAS, Size(12, 20, 31, kBatch=3))
    asked = []

    def allocate(size: int) -> Array:
        asked.append(size)
        return np.empty(size, np.uint8)

    for _ in range(2):
        module.gemm(*arguments_of(run), out=y_of(run), kBatch=3, workspace=allocate)
    run.check()
    assert asked == [2880]
    module.gemm(*arguments_of(run), out=y_of(run), kBatch=3, workspace=np.empty(720, np.float32))
    with pytest.raises(ValueError, match="workspace has 2876 bytes; it must have 2880"):
        module.gemm(*arguments_of(run), out=y_of(run), kBatch=3, workspace=np.empty(719, np.float32))


def test_threads_have_workspaces_of_their_own(export: Export) -> None:
    module = export(WITH_BIAS)
    runs = [GemmRun(WITH_BIAS, Size(40, 50, 300, kBatch=4), seed) for seed in range(4)]
    together = threading.Barrier(len(runs))

    def work(run: GemmRun) -> None:
        given, out = arguments_of(run), y_of(run)
        together.wait()
        for _ in range(20):
            module.gemm(*given, out=out, kBatch=4)

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for run in runs:
        run.check()
