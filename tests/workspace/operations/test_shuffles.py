"""Operands that lie as matrix instructions read them: where each element is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckwatch.bench.numerics.storage import matrix_offsets
from ckwatch.model.contractions import MatrixView
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from helpers.workspaces import INSTANCE, TOP, workspace

OPERATION = """
[operation]
kind = "gemm"
a = { dtype = "f8", layout = "row" }
b = { dtype = "f8", B }
c = { dtype = "bf16" }
"""
BLOCKS = OPERATION.replace("B }", "preshuffled = [16, 8] }")
SCALES = """
scale_a = { dtype = "e8m0", per = "block", block = [1, 32], preshuffled = 16 }
scale_b = { dtype = "e8m0", per = "block", block = [32, 1], preshuffled = 16 }
"""
MICROSCALED = OPERATION.replace(", B }", ', layout = "col" }') + SCALES


def problem(root: Path, operation: str, sizes: dict[str, int]) -> KernelProblem:
    shape = "\n".join(f"{name} = {size}" for name, size in sizes.items())
    found = workspace(root, {"k.kernel.toml": f"{TOP}{operation}{INSTANCE}\n[[shape]]\n{shape}\n"})
    assert found.diagnostics == ()
    kernel = found.kernels[0]
    return problem_of(kernel.operation, kernel.shapes[0], "gfx950")


def offsets(view: MatrixView) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
    rows, columns = (np.arange(size) for size in view.sizes)
    return matrix_offsets(view, 0, rows, columns)


def test_weights_lie_in_blocks(tmp_path: Path) -> None:
    found = problem(tmp_path, BLOCKS, {"M": 5, "N": 48, "K": 40})
    gemm = found.gemm
    assert gemm is not None
    w = np.arange(40 * 48).reshape(40, 48)
    # as a user shuffles them: N and K in blocks, the blocks of K inside of those of N, and K inside of a block
    shuffled = w.T.reshape(3, 16, 5, 8).transpose(0, 2, 1, 3).reshape(-1)
    assert (shuffled[offsets(gemm.w)] == w).all()
    assert found.buffer("W").elements == 40 * 48
    assert "LDB" not in {argument.name for argument in found.arguments}


def test_sizes_that_do_not_divide_have_room(tmp_path: Path) -> None:
    found = problem(tmp_path, BLOCKS, {"M": 5, "N": 17, "K": 9})
    assert found.buffer("W").elements == 2 * 2 * 128


def test_scales_of_two_tiles_lie_together(tmp_path: Path) -> None:
    sizes = {"M": 48, "N": 64, "K": 512}
    gemm = problem(tmp_path, MICROSCALED, sizes).gemm
    assert gemm is not None
    assert gemm.x_scale is not None
    assert gemm.w_scale is not None
    scales = np.arange(64 * 16).reshape(64, 16)
    words = scales.reshape(2, 2, 16, 2, 2, 4).transpose(0, 3, 5, 2, 4, 1).reshape(-1)
    np.testing.assert_array_equal(words[offsets(gemm.w_scale)].T, np.repeat(scales, 32, axis=1))
    # those of X are there for whole 32 rows
    rows, columns = np.arange(48), np.arange(512)
    assert (words[matrix_offsets(gemm.x_scale, 0, rows, columns)] == np.repeat(scales, 32, axis=1)[:48]).all()
    assert gemm.x_scale.sizes == (64, 512)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("preshuffled = [16, 8]", 'preshuffled = [16, 8], layout = "col"'), "a preshuffled W has no layout"),
        (("preshuffled = [16, 8]", 'preshuffled = [16, 8], same_as = "a"'), "shares its buffer with no other input"),
    ],
)
def test_weights_that_are_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    found = workspace(tmp_path, {"k.kernel.toml": TOP + BLOCKS.replace(*change) + INSTANCE})
    assert any(message in one.message for one in found.diagnostics)


PACKED = MICROSCALED.replace('"f8"', '"f4"')


def test_two_elements_of_f4_share_a_byte(tmp_path: Path) -> None:
    found = problem(tmp_path, PACKED, {"M": 48, "N": 64, "K": 512})
    assert [found.buffer(name).size_bytes for name in "XW"] == [48 * 256, 64 * 256]
    assert found.bytes_moved == (48 + 64) * 256 + 2 * (64 * 16) + 48 * 64 * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            PACKED.replace('b = { dtype = "f4"', 'b = { dtype = "f8"'),
            "X is f4 and the other operand f8: both must be f4",
        ),
        (PACKED.replace('layout = "row"', 'layout = "col"'), "two elements of X along K share a byte"),
        (PACKED.replace('"f4", layout = "col"', '"f4"'), "two elements of W along K share a byte"),
        (PACKED.replace(SCALES, ""), "X is f4: it needs scale_a and scale_b for each 32 elements along K, shuffled"),
        (PACKED.replace(", preshuffled = 16", ""), "X is f4: it needs scale_a and scale_b for each 32 elements"),
        (PACKED.replace('"bf16"', '"f4"'), "`f4` has two elements in a byte: only `a` and `b` of kind `gemm` take it"),
        (
            PACKED.replace('"gemm"', '"batched_gemm"'),
            "`f4` has two elements in a byte: only `a` and `b` of kind `gemm`",
        ),
    ],
)
def test_f4_is_refused_elsewhere(tmp_path: Path, text: str, message: str) -> None:
    found = workspace(tmp_path, {"k.kernel.toml": TOP + text + INSTANCE})
    assert any(message in one.message for one in found.diagnostics)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[32, 1], preshuffled = 16", "[32, 1], preshuffled = 32"), "shuffled for 16 rows and scale_b for 32"),
        (("[32, 1], preshuffled = 16", "[32, 1]"), "shuffled for 16 rows and scale_b for no;"),
        (("[1, 32]", "[2, 32]"), "only scales of blocks in one row of X and one column of W are shuffled"),
    ],
)
def test_scales_that_are_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    found = workspace(tmp_path, {"k.kernel.toml": TOP + MICROSCALED.replace(*change) + INSTANCE})
    assert any(message in one.message for one in found.diagnostics)
