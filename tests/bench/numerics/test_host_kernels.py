"""Real kernels pass: the host's GEMM template on generated inputs, called by the problem's arguments."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from cases.gemm_case import GemmCase, GemmRun, Size
from cases.gemm_rows import BLOCKED_SMALL, CASES, sizes
from ckwatch.bench.numerics.comparison import WrongResultError
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.storage import Storage, poison
from ckwatch.bench.numerics.verification import Reference
from ckwatch.bench.report import FailureKind
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Shape
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.shapes import with_defaults
from fakes.host_compiler import WARNINGS, HostCompiler
from helpers.gemm_build import TEMPLATES, render
from helpers.units import place
from references.naive_kernels import BATCHED_GEMM, CONVOLUTION, naive_unit
from references.naive_kernels import TEMPLATES as NAIVE

GUARD = 64
NAMES = ("f8 row scales", "to bf8 fnuz", "i8 to i8", "f64", "reordered", "one buffer")
SCALARS: dict[str, Callable[[Any], Any]] = {"int32_t": ctypes.c_int32}


def shape_of(case: GemmCase, size: Size) -> Shape:
    arguments = GemmRun(case, size).arguments
    return Shape("s", {key: value for key, value in arguments.items() if key != "kBatch"}, {"kBatch": size.kBatch}, place())  # fmt: skip


@pytest.fixture(scope="module")
def compiler() -> Iterator[HostCompiler]:
    """The host's C++ compiler."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no host C++ compiler")
    with TemporaryDirectory() as folder:
        yield HostCompiler(found, ["-std=c++17", "-O1", *WARNINGS, "-fPIC", "-pthread"], Path(folder))


@pytest.mark.parametrize("name", NAMES)
def test_a_real_kernel_passes(name: str, compiler: HostCompiler, tmp_path: Path) -> None:
    case = CASES[name]
    rendered = render(Renderer((TEMPLATES,)), case.unit("cpp/gemm_blocked.cpp.j2", BLOCKED_SMALL))
    library = compiler.link([compiler.compile(rendered.text)], tmp_path / "unit.so", "-shared")
    function = ctypes.CDLL(str(library))[rendered.symbol]
    for size in sizes(name):
        if case.same_buffer and size.M != size.N:
            continue
        problem = problem_of(case.operation(), shape_of(case, size), case.arch)
        for seed in (1, 2):
            inputs = make_inputs(problem, seed)
            reference = Reference(problem, inputs)
            y = poison(problem.buffer("Y"), case.fnuz, GUARD)
            call(function, problem, inputs | {"Y": y})
            checked = reference.check({"Y": y})
            assert checked.compared == size.M * size.N
        if size.padding and size.M > 1:
            with pytest.raises(WrongResultError) as caught:
                reference.check({"Y": np.zeros_like(y)})
            assert caught.value.kind is FailureKind.OUT_OF_BOUNDS


@pytest.mark.parametrize("text", [BATCHED_GEMM, CONVOLUTION])
def test_kernels_of_other_operations_pass(text: str, compiler: HostCompiler, tmp_path: Path) -> None:
    """On sizes that only these operations have: groups, pads, steps, matrices within each other."""
    unit = naive_unit(tmp_path, text)
    rendered = render(Renderer((NAIVE, TEMPLATES)), unit)
    library = compiler.link([compiler.compile(rendered.text)], tmp_path / "unit.so", "-shared")
    function = ctypes.CDLL(str(library))[rendered.symbol]
    operation = unit.kernel.operation
    special_sizes = KINDS[operation.kind].special_sizes
    assert special_sizes is not None
    for sizes_of_one in (unit.kernel.shapes[0].sizes, *special_sizes(operation, 16, 8, 8).values()):
        runtime = dict.fromkeys(operation.runtime_arguments, 1)
        problem = problem_of(operation, Shape("s", with_defaults(operation, sizes_of_one), runtime, place()), "host")
        inputs = make_inputs(problem, 1)
        y = poison(problem.buffer("Y"), fnuz=False, guard_elements=GUARD)
        call(function, problem, inputs | {"Y": y})
        reference = Reference(problem, inputs)
        assert reference.check({"Y": y}).compared > 0
        wrong = y.copy()
        wrong[0] += 1
        with pytest.raises(WrongResultError, match="are wrong"):
            reference.check({"Y": wrong})


def call(function: Callable[..., int], problem: KernelProblem, buffers: dict[str, Storage]) -> None:
    """The workspace query, then the run."""
    values = [
        ctypes.c_void_p(buffers[argument.buffer].ctypes.data)
        if argument.buffer is not None
        else SCALARS[argument.c_type](argument.value)
        for argument in problem.arguments
    ]
    size = ctypes.c_size_t(0)
    assert function(*values, ctypes.byref(size), None, None) == 0
    workspace = np.empty(size.value, np.uint8)
    assert function(*values, None, ctypes.c_void_p(workspace.ctypes.data if size.value else None), None) == 0
