"""The reference of a mixture of experts, against sums written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.references import REFERENCES, Given
from ckwatch.model.kernel_problem import problem_of
from helpers.workspaces import INSTANCE, TOP, workspace

REFERENCE = REFERENCES["moe_gemm"]


def given_of(root: Path, more: str, shape: str, seed: int = 0) -> Given:
    text = TOP + f'[operation]\nkind = "moe_gemm"\nblock_m = 4\n{more}\n' + INSTANCE + f"\n[[shape]]\n{shape}\n"
    kernel = workspace(root, {"k.kernel.toml": text}).kernels[0]
    problem = problem_of(kernel.operation, kernel.shapes[0], "gfx942")
    return Given(problem, make_inputs(problem, seed))


def pairs_of(given: Given) -> dict[tuple[int, int], tuple[int, int]]:
    """The place and the expert of each pair of a token and a slot."""
    found = {}
    for place in range(int(given.integers("valid", 0))):
        pair = int(given.integers("token_ids", place))
        token, slot = pair & 0xFFFFFF, pair >> 24
        if token < given.sizes["tokens"]:
            found[token, slot] = place, int(given.integers("expert_ids", place // 4))
    return found


def weights_of(given: Given, expert: int) -> np.ndarray:
    blocks = given.read("w", expert)
    columns, rows = blocks.shape[2:]
    found = np.empty((blocks.shape[0] * columns, blocks.shape[1] * rows))
    for n, k in np.ndindex(*found.shape):
        found[n, k] = blocks[n // columns, k // rows, n % columns, k % rows]
    return found


@pytest.mark.parametrize("tokens", [1, 3, 17])
@pytest.mark.parametrize("experts", [2, 5, 9])
def test_every_pair_is_sorted_once_by_its_expert(tmp_path: Path, tokens: int, experts: int) -> None:
    given = given_of(
        tmp_path,
        'stage = 1\ndtype = "f16"',
        f"tokens = {tokens}\ntopk = 2\nexperts = {experts}\nN = 16\nK = 8",
        seed=3,
    )
    pairs = pairs_of(given)
    assert sorted(pairs) == [(token, slot) for token in range(tokens) for slot in range(2)]
    assert all(pairs[token, 0][1] != pairs[token, 1][1] for token in range(tokens))
    valid = int(given.integers("valid", 0))
    tiles = given.integers("expert_ids")
    assert valid % 4 == 0
    assert list(tiles[: valid // 4]) == sorted(tiles[: valid // 4])
    assert set(tiles[valid // 4 :]) <= {-1}
    assert set(given.integers("token_ids")[valid:]) <= {tokens | 2 << 24}


def test_stage_1(tmp_path: Path) -> None:
    given = given_of(
        tmp_path,
        'stage = 1\ndtype = "f16"\nscales = "row"\nweighted = true',
        "tokens = 3\ntopk = 2\nexperts = 3\nN = 16\nK = 8",
    )
    found = REFERENCE.expected(given, "y", np.arange(6))
    for (token, slot), (place, expert) in pairs_of(given).items():
        sums = weights_of(given, expert) @ given.read("x", token)
        sums *= given.read("scale_x", token) * given.read("scale_w", expert) * given.read("weights", place)
        gate, up = sums[:16], sums[16:]
        np.testing.assert_allclose(found[2 * token + slot], gate / (1 + np.exp(-gate)) * up, rtol=1e-12)
    assert REFERENCE.left_out is not None
    assert not REFERENCE.left_out(given, "y").any()


def test_stage_2(tmp_path: Path) -> None:
    given = given_of(
        tmp_path,
        'stage = 2\ndtype = "i8"\nscales = "tensor"',
        "tokens = 3\ntopk = 2\nexperts = 4\nN = 16\nK = 16",
    )
    expected = np.zeros((3, 16))
    for (token, slot), (place, expert) in pairs_of(given).items():
        sums = weights_of(given, expert) @ given.read("x", token, slot)
        expected[token] += (
            sums * given.read("scale_x", 0) * given.read("scale_w", expert) * given.read("weights", place)
        )
    np.testing.assert_allclose(REFERENCE.expected(given, "y", np.array([2, 0])), expected[[2, 0]], rtol=1e-12)


def test_pairs_without_a_place_are_left_out(tmp_path: Path) -> None:
    given = given_of(
        tmp_path,
        'stage = 1\ndtype = "f16"',
        "tokens = 9\ntopk = 1\nexperts = 1\nN = 16\nK = 8\nsorted_size = 8",
    )
    assert REFERENCE.left_out is not None
    assert list(REFERENCE.left_out(given, "y")) == [False] * 8 + [True]
    assert np.isnan(REFERENCE.expected(given, "y", np.arange(9))).any(axis=1).tolist() == [False] * 8 + [True]
