"""`ck/batched_gemm.hip.j2` on the stand-ins for CK and HIP: strides between matrices, split-K of each, and refusals."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ckwatch.cli import main
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.contractions import MatrixView
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import ParameterValue
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.toml import toml_value
from fakes.host_compiler import HostCompiler
from helpers.gemm_build import ROOT, SCALARS, VECTORS, both_passes, render
from helpers.workspaces import workspace

Floats = npt.NDArray[np.float32]

OPERATION = """template = "ck/batched_gemm.hip.j2"

[operation]
kind = "batched_gemm"
a = { dtype = "DTYPE", layout = "row" }
b = { dtype = "DTYPE", layout = "col" }
c = { dtype = "DTYPE", layout = "row" }
"""
STRIDES = "batch_strides = true\n"
BIAS = 'bias = { dtype = "f32", full = true }\nbeta = 0.5\n'
SIZES = {"B": 3, "M": 33, "N": 20, "K": 50}


class Unit:
    """A unit on the host, and the calls of it."""

    def __init__(self, library: Path, symbol: str, problem: Callable[[dict[str, int]], KernelProblem]) -> None:
        self._function = getattr(ctypes.CDLL(str(library)), symbol)
        self.problem = problem

    def __call__(self, problem: KernelProblem, buffers: dict[str, Floats], **sizes: int) -> tuple[int, int]:
        """The status of a run, or of the workspace query if that refuses, and the bytes of the workspace."""
        size = ctypes.c_size_t()
        status = self._call(problem, {}, sizes, ctypes.byref(size), None)
        if status or not buffers:
            return status, size.value
        workspace = np.full(size.value + 64, 0xFF, np.uint8)
        status = self._call(problem, buffers, sizes, None, workspace.ctypes.data)
        assert (workspace[size.value :] == 0xFF).all(), "wrote beyond the workspace"
        return status, size.value

    def _call(self, problem: KernelProblem, buffers: dict[str, Floats], sizes: dict[str, int], *workspace: Any) -> int:
        arguments: list[Any] = []
        for argument in problem.arguments:
            if argument.buffer is None:
                arguments.append(ctypes.c_int32(sizes.get(argument.name, int(argument.value or 0))))
            else:
                data = buffers[argument.buffer].ctypes.data if buffers else None
                arguments.append(ctypes.c_void_p(data))
        size, memory = workspace
        return int(self._function(*arguments, size, ctypes.c_void_p(memory), ctypes.c_void_p()))


MakeUnit = Callable[..., Unit]


@pytest.fixture
def unit(renderer: Renderer, ck_compiler: HostCompiler, tmp_path: Path) -> MakeUnit:
    """Compile a unit for the host."""

    def made(more: str, parameters: dict[str, ParameterValue], dtype: str = "f32") -> Unit:
        operation = OPERATION.replace("DTYPE", dtype)
        instance = "".join(f"{name} = {toml_value(value)}\n" for name, value in parameters.items())

        def loaded(sizes: dict[str, int]) -> Any:
            shape = "".join(f"{name} = {value}\n" for name, value in sizes.items())
            text = f'{operation}{more}\n[[shape]]\n{shape}\n[[instance]]\nname = "one"\n{instance}'
            found = workspace(tmp_path, {"ckwatch.toml": '[workspace]\narchs = ["gfx942"]\n', "k.kernel.toml": text})
            assert found.diagnostics == ()
            return next(iter(found.units))

        rendered = render(renderer, loaded(SIZES))
        library = tmp_path / "unit.so"
        ck_compiler.link([ck_compiler.compile(both_passes(rendered.text))], library, "-shared")

        def problem(sizes: dict[str, int]) -> KernelProblem:
            kernel = loaded(sizes).kernel
            return problem_of(kernel.operation, kernel.shapes[0], "gfx942")

        return Unit(library, rendered.symbol, problem)

    return made


def matrices(view: MatrixView, buffer: Floats) -> Floats:
    """The batch of matrices that a view is, with one axis each."""
    axes = (view.batch[0], view.rows[0], view.columns[0])
    strides = [4 * stride for _, stride in axes]
    return np.lib.stride_tricks.as_strided(buffer, [size for size, _ in axes], strides)


def run_and_check(unit: Unit, sizes: dict[str, int]) -> int:
    """Run on random elements and compare; the bytes of the workspace."""
    problem = unit.problem(SIZES | sizes)
    gemm = problem.gemm
    assert gemm is not None
    generator = np.random.default_rng(1)
    buffers = {one.name: generator.uniform(-1, 1, one.elements).astype(np.float32) for one in problem.buffers}
    buffers["Y"][:] = np.nan
    status, workspace_bytes = unit(problem, buffers)
    assert status == 0
    expected = matrices(gemm.x, buffers["X"]).astype(float) @ matrices(gemm.w, buffers["W"]).astype(float)
    for step in gemm.steps:
        assert step.kind == "add"
        assert step.operand is not None
        expected = expected + step.factor * matrices(step.operand, buffers["Bias"])
    y = matrices(gemm.y, buffers["Y"])
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
    y[...] = np.nan
    assert np.isnan(buffers["Y"]).all(), "wrote beside Y"
    return workspace_bytes


STRIDED: dict[str, dict[str, int]] = {
    "behind one another": {},
    "with gaps": {"LDA": 52, "BatchStrideA": 1800, "BatchStrideB": 1001, "LDC": 24, "BatchStrideC": 900},
    "one W and one Bias": {"BatchStrideB": 0, "BatchStrideD": 0},
    "a row of Bias for each matrix": {"LDD": 0, "BatchStrideD": 20},
    "within each other": {"LDA": 150, "BatchStrideA": 50, "LDC": 60, "BatchStrideC": 20},
    "one matrix": {"B": 1, "BatchStrideC": 0},
}


@pytest.mark.parametrize("split_k", [False, True])
def test_strides_between_matrices(split_k: bool, unit: MakeUnit) -> None:
    made = unit(STRIDES + BIAS + f"split_k = {str(split_k).lower()}\n", SCALARS)
    for sizes in STRIDED.values():
        slices = {"kBatch": 3} if split_k else {}
        workspace_bytes = run_and_check(made, sizes | slices)
        assert workspace_bytes == (4 * 3 * 33 * 20 * sizes.get("B", 3) if split_k else 0)


def test_matrices_without_strides_lie_behind_one_another(unit: MakeUnit) -> None:
    made = unit(BIAS, SCALARS)
    run_and_check(made, {})
    run_and_check(made, {"LDA": 60, "LDB": 51, "LDC": 32, "LDD": 30})
    run_and_check(made, {"LDD": 0})


REFUSED: dict[str, tuple[dict[str, int], str]] = {
    "no matrix": ({"B": 0}, "B must lie between 1 and 65535"),
    "more than a grid has": ({"B": 65536}, "B must lie between 1 and 65535"),
    "a negative stride": ({"BatchStrideA": -64}, "BatchStrideA is negative"),
    "vectors that are not aligned": ({"BatchStrideB": 1281}, "BatchStrideB is not aligned for vectors of 8"),
    "matrices of Y in one place": ({"BatchStrideC": 0}, "the matrices of Y overlap: BatchStrideC is too small"),
    "matrices of Y that overlap": ({"BatchStrideC": 1020}, "the matrices of Y overlap: BatchStrideC is too small"),
    "lines of Y that overlap": ({"BatchStrideC": 20, "LDC": 56}, "the matrices of Y overlap"),
    "kBatch": ({"kBatch": 2}, "kBatch must be 1 without split_k = true"),
    "a size of CK's": ({"K": 63}, "the instance does not support these sizes"),
}


def test_refusals(unit: MakeUnit, capfd: pytest.CaptureFixture[str]) -> None:
    made = unit(STRIDES, VECTORS, dtype="f16")
    problem = made.problem({"B": 3, "M": 52, "N": 20, "K": 64})
    assert made(problem, {}) == (0, 0)
    for what, (sizes, message) in REFUSED.items():
        assert made(problem, {}, **sizes)[0] == -23, what
        said = capfd.readouterr().err
        assert message in said, what
        assert "B=" in said
        assert "BatchStrideD=" in said


EMULATED = (
    "ragged",
    "M = 1",
    "padded rows",
    "NaN in the padding",
    "misaligned vectors",
    "many tiles",
    "padding of W alone",
    "one matrix",
    "many matrices",
)
"""Shapes in which matrices, strides and masks of a batch can go wrong; `make verify-shipped` tries all of them."""


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
def test_the_emulator_finds_it_right(toolchain: Toolchain, trusted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(ROOT / "examples/batched_gemm", trusted / "batched_gemm")
    with (folder / "ckwatch.toml").open("a") as settings:
        settings.write("\n[verify]\ntime_limit_s = 1500.0\n")  # however busy the machine is
    shapes = [option for shape in EMULATED for option in ("--shape", shape)]
    assert main(["verify", "batched_f16/v1_16x16x128_intrawave", "-C", str(folder), *shapes]) == 0
    assert f"verified (emulated gfx942)  {len(EMULATED)} shapes right" in capsys.readouterr().out
