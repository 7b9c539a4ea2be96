"""Small kernels in C that follow the ABI, right ones and wrong ones, and jobs that measure them on the CPU."""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ckwatch.bench.job import Contestant, Job, Precision
from ckwatch.model.contractions import MatrixView, matrix_view
from ckwatch.model.kernel_problem import Buffer, Gemm, KernelArgument, KernelProblem, TensorView
from ckwatch.model.roofline import CacheState
from helpers.kept_builds import identity, kept

M, N, K = 24, 20, 32
LDC = N + 4  # gaps in Y

SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int runs = 0;
%(globals)s
__attribute__((visibility("default"))) int gemm(
    const float* X, const float* W, float* Y, int32_t M, int32_t N, int32_t K, int32_t LDA, int32_t LDB, int32_t LDC,
    int32_t kBatch, size_t* workspace_size, uint8_t* workspace, void* stream) {
    (void)workspace; (void)stream; (void)kBatch;
    %(check)s
    if (workspace_size != NULL) { *workspace_size = %(workspace)s; return 0; }
    ++runs;
    %(before)s
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += X[m * LDA + k] * W[k * LDB + n];
            Y[m * LDC + n] = sum;
        }
    %(after)s
    return 0;
}
"""


@functools.cache
def shared_object(
    check: str = "", before: str = "", after: str = "", workspace: str = "0", *, declarations: str = "", flags: str = ""
) -> bytes:
    """A GEMM as a shared object, with C statements at three places of it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    places = {"check": check, "before": before, "after": after, "workspace": workspace, "globals": declarations}
    command = (compiler, "-O1", "-shared", "-fPIC", "-fvisibility=hidden", *flags.split(), "-x", "c", "-", "-o")
    text = SOURCE % places

    def make(target: Path) -> None:
        subprocess.run([*command, target], input=text.encode(), check=True)

    return kept("kernels", (*identity(compiler), *command, text), make).read_bytes()


def gemm_of(x: TensorView, w: TensorView, y: TensorView, accumulator: str = "f32") -> Gemm:
    """Y = X · W."""
    return Gemm(x=matrix_of(x), w=matrix_of(w), y=matrix_of(y), accumulator=accumulator)


def matrix_of(view: TensorView) -> MatrixView:
    """A tensor of two axes as a matrix."""
    (rows, columns), (down, right) = view.sizes, view.strides
    return matrix_view(view.buffer, (rows, columns), (down, right))


def gemm_problem(m: int = M, n: int = N, k: int = K, ldc: int | None = None, dtype: str = "f32") -> KernelProblem:
    """Y = X · W, all row-major; Y has gaps of four elements."""
    ldc = n + 4 if ldc is None else ldc
    views = (
        TensorView(buffer="X", sizes=(m, k), strides=(k, 1)),
        TensorView(buffer="W", sizes=(k, n), strides=(n, 1)),
        TensorView(buffer="Y", sizes=(m, n), strides=(ldc, 1)),
    )
    sizes = {"M": m, "N": n, "K": k, "LDA": k, "LDB": n, "LDC": ldc, "kBatch": 1}
    return KernelProblem(
        buffers=(
            Buffer(name="X", dtype=dtype, elements=m * k),
            Buffer(name="W", dtype=dtype, elements=k * n),
            Buffer(name="Y", dtype=dtype, elements=(m - 1) * ldc + n, output=True),
        ),
        views=views,
        arguments=(
            KernelArgument(name="X", c_type="const float*", buffer="X"),
            KernelArgument(name="W", c_type="const float*", buffer="W"),
            KernelArgument(name="Y", c_type="float*", buffer="Y"),
            *(KernelArgument(name=name, c_type="int32_t", value=value) for name, value in sizes.items()),
        ),
        computed=gemm_of(*views),
        flops=2 * m * n * k,
        bytes_moved=4 * (m * k + k * n + m * n),
    )


QUICK = Precision(warm_up_s=0.005, minimum_s=0.0, budget_s=3600.0, minimum_samples=5, maximum_samples=5)
"""Ends by the number of samples, which no machine has an influence on: a flush of a large cache takes long."""

LIMITS_S = (3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 192.0)
"""Time limits for what must run into one, but only after it got somewhere: the first that suffices on this machine."""


def job(*names: str, library: bool = False, **changes: Any) -> Job:
    """A job on the CPU for artifacts 0, 1, … under these names; quick, hot unless told otherwise."""
    contestants = [
        Contestant(name=name, artifact=index, symbol="gemm") for index, name in enumerate(names or ("ours",))
    ]
    if library:
        contestants.append(Contestant(name="library"))
    usual = Job(
        device="auto",
        kind="cpu",
        arch="host",
        problem=gemm_problem(),
        contestants=tuple(contestants),
        caches=(CacheState.HOT,),
        precision=QUICK,
        lease_wait_s=60.0,
    )
    return replace(usual, **changes)
