"""Stages of a mixture of experts: their tensors, their sizes, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Kernel
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.shapes import wrong_sizes
from helpers.workspaces import INSTANCE, TOP, workspace

SHAPE = "tokens = 5\ntopk = 2\nexperts = 3\nN = 32\nK = 64"


def operation(more: str) -> str:
    return TOP + f'[operation]\nkind = "moe_gemm"\nblock_m = 16\n{more}\n' + INSTANCE


def loaded(root: Path, more: str, shape: str = SHAPE) -> Kernel:
    found = workspace(root, {"k.kernel.toml": operation(more) + f"\n[[shape]]\n{shape}\n"})
    assert found.diagnostics == ()
    return found.kernels[0]


def sizes_of(kernel: Kernel) -> dict[str, int]:
    problem = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    return {buffer.name: buffer.elements for buffer in problem.buffers}


def test_stage_1_writes_a_row_for_each_pair(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, 'stage = 1\ndtype = "f8"')
    assert sizes_of(kernel) == {
        "X": 5 * 64,
        "W": 3 * 64 * 64,
        "SortedTokenIds": 48,
        "SortedExpertIds": 3,
        "NumValidIds": 1,
        "ScaleX": 5,
        "ScaleW": 3 * 64,
        "Y": 5 * 2 * 32,
    }
    assert kernel.shapes[0].sizes["sorted_size"] == (10 + 3 * 15) // 16 * 16
    assert problem_of(kernel.operation, kernel.shapes[0], "gfx942").flops == 2 * 10 * 64 * 64
    assert kernel.operation.settings["activation"] == "silu"
    assert dict(kernel.operation.outputs)["Y"].dtype == "f16"


def test_stage_2_adds_pairs_up(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, 'stage = 2\ndtype = "bf16"')
    found = sizes_of(kernel)
    assert (found["X"], found["W"], found["SortedWeights"], found["Y"]) == (5 * 2 * 64, 3 * 32 * 64, 48, 5 * 32)
    assert kernel.operation.settings["preshuffled"] == (16, 8)
    assert kernel.operation.rows is not None
    assert kernel.operation.rows.depth == "K + topk * 131072"


def test_one_scale_of_x_and_one_of_each_expert(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, 'stage = 2\ndtype = "i8"\nscales = "tensor"\nweighted = false')
    found = sizes_of(kernel)
    assert (found["ScaleX"], found["ScaleW"]) == (1, 3)
    assert "SortedWeights" not in found
    assert kernel.operation.accumulator == "i32"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('stage = 1\ndtype = "f32"', "experts are multiplied in f16, bf16, f8, i8, not in f32"),
        ('stage = 1\ndtype = "f16"\ndtype_y = "f32"', "Y of stage 1 is f16 or bf16, not f32"),
        ('stage = 2\ndtype = "f16"\nactivation = "silu"', "stage 2 has no activation"),
        ('stage = 1\ndtype = "f16"\nactivation = "relu"', "unknown activation `relu`"),
        ('stage = 1\ndtype = "f16"\nscales = "column"', "unknown scaling `column`"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, more: str, message: str) -> None:
    found = workspace(tmp_path, {"k.kernel.toml": operation(more)})
    assert any(message in one.message for one in found.diagnostics), found.diagnostics


def test_sizes_that_cannot_be(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, 'stage = 1\ndtype = "f16"')
    sizes = dict(kernel.shapes[0].sizes)
    assert list(wrong_sizes(kernel.operation, sizes)) == []
    assert list(wrong_sizes(kernel.operation, sizes | {"sorted_size": 16})) == []  # a routing may need less
    found = dict(wrong_sizes(kernel.operation, sizes | {"topk": 4, "tokens": 1 << 24}))
    assert found["topk"] == "`topk` must be at most experts = 3: a token meets each expert once"
    assert found["tokens"].startswith("`tokens` must be below 2^24")
    assert "topk" in dict(wrong_sizes(kernel.operation, sizes | {"topk": 128, "experts": 256}))


def test_units_are_verified_on_twenty_sizes(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, 'stage = 1\ndtype = "f16"')
    verified_sizes = KINDS["moe_gemm"].verified_sizes
    assert verified_sizes is not None
    found = verified_sizes(kernel.operation, {"NPerBlock": 64, "KPerBlock": 128})
    assert len(found) >= 20
    assert {1, 3, 17, 33} <= {sizes["tokens"] for sizes in found.values()}
    assert all(sizes["topk"] <= sizes["experts"] for sizes in found.values())
