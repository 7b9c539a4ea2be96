"""The operations and sizes that every plain C++ GEMM template is tried on."""

from __future__ import annotations

import ctypes
import random

import pytest

from cases.gemm_case import GemmCase, GemmLibrary, GemmRun, Size

TILED_SMALL = {"BlockSize": 64, "MPerBlock": 32, "NPerBlock": 32, "KPerBlock": 8, "MPerThread": 4, "NPerThread": 4}
"""Parameters of `hip/gemm_tiled.hip.j2`."""

BLOCKED_SMALL = {"MPerBlock": 24, "NPerBlock": 32, "KPerBlock": 32, "MPerThread": 6, "NPerThread": 16, "Threads": 0}
"""Parameters of `cpp/gemm_blocked.cpp.j2`."""

CASES: dict[str, GemmCase] = {
    "f16": GemmCase(),
    "f16 col row row": GemmCase(layouts="col row row", bias="col", activation="tanh"),
    "bf16 bias relu": GemmCase("bf16", "bf16", "bf16", "row row row", bias="row", bias_dtype="bf16", activation="relu"),
    "f32 alpha beta": GemmCase(
        "f32", "f32", "f32", "col row col", bias="full row", bias_dtype="f32", alpha=-1.5, beta=0.25, activation="gelu"
    ),
    "f16 full col bias": GemmCase(layouts="col col row", bias="full col", bias_dtype="f32", activation="silu"),
    "f16 to f32": GemmCase(c="f32", layouts="row row col", bias="col", bias_dtype="bf16", activation="gelu_tanh"),
    "f8 row scales": GemmCase(
        "f8", "f8", "bf16", scale_a="row", scale_b="row", bias="row", bias_dtype="bf16", arch="gfx950"
    ),
    "f8 fnuz tensor scales": GemmCase("f8", "bf8", "f16", scale_a="tensor", scale_b="tensor", activation="sigmoid"),
    "to f8": GemmCase("bf8", "f8", "f8", scale_a="tensor", scale_b="row", arch="gfx950"),
    "to f8 fnuz": GemmCase("f16", "f16", "f8", alpha=40.0, arch="gfx90a"),
    "to bf8": GemmCase("bf16", "bf16", "bf8", arch="gfx1100"),
    "to bf8 fnuz": GemmCase("f8", "f8", "bf8", alpha=4096.0),
    "one buffer": GemmCase("f32", "f32", "f32", same_buffer=True, bias="row", bias_dtype="f32"),
    "i8": GemmCase("i8", "i8", "i32", accumulator="i32"),
    "i8 to i8": GemmCase("i8", "i8", "i8", "row row row", accumulator="i32", scale_a="row", scale_b="row", alpha=0.1),
    "f64": GemmCase(
        "f64", "f64", "f64", "row col col", accumulator="f64", bias="full col", bias_dtype="f64", beta=-2.0
    ),
    "reordered": GemmCase(bias="row", scale_a="row", scale_b="row", input_reorder=(4, 0, 1, 2, 3)),
}


def sizes(seed: str) -> list[Size]:
    """Sizes by hand and at random: single elements, whole tiles, ragged edges, more slices than tiles of K."""
    rng = random.Random(seed)  # noqa: S311  # sizes, no secrets
    rows = [
        Size(1, 1, 1),
        Size(64, 64, 64),
        Size(65, 63, 17, kBatch=2),
        Size(3, 130, 5, kBatch=7, padding=3),
        Size(33, 20, 200, kBatch=3, ldd_zero=True),
    ]
    for _ in range(6):
        m, n, k = (int(2 ** rng.uniform(0, 7)) for _ in range(3))
        rows.append(Size(m, n, k, rng.choice((1, 1, 2, 3, 5)), rng.choice((0, 0, 1, 8)), rng.random() < 0.3))
    return rows


REFUSAL_CASE = GemmCase(layouts="row col row", bias="full row", bias_dtype="f32", scale_a="row", scale_b="row")

REFUSED: dict[str, tuple[dict[str, int], tuple[str, ...], int, str]] = {
    "no rows": ({"M": 0}, (), -23, "M, N and K must be at least 1"),
    "negative K": ({"K": -4}, (), -23, "M, N and K must be at least 1"),
    "LDA": ({"LDA": 15}, (), -23, "LDA is smaller than K"),
    "LDB": ({"LDB": 15}, (), -23, "LDB is smaller than K"),
    "LDC": ({"LDC": 11}, (), -23, "LDC is smaller than N"),
    "LDD": ({"LDD": 11}, (), -23, "LDD is neither 0 nor at least N"),
    "kBatch 0": ({"kBatch": 0}, (), -23, "kBatch must be at least 1"),
    "kBatch 65536": ({"kBatch": 65536}, (), -23, "kBatch must be at most 65535"),
    "no workspace": ({"kBatch": 2}, (), -23, "kBatch > 1 needs the workspace"),
    "no X": ({}, ("X",), -1, "X is null"),
    "no bias": ({}, ("Bias",), -1, "Bias is null"),
    "no Y": ({}, ("Y",), -1, "Y is null"),
    "no scales": ({}, ("inv_scale_x", "inv_scale_w"), 0, ""),
}
"""Name → changed arguments, null tensors, the call's status, and its message."""


def check_refusal(library: GemmLibrary, what: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The run is refused as it should, with a line that says why, and so is the query where sizes are at fault."""
    arguments, null, status, message = REFUSED[what]
    run = GemmRun(REFUSAL_CASE, Size(10, 12, 16))
    run.arguments |= arguments
    assert library.call(run, None, None, null=null) == status
    assert message in capfd.readouterr().err
    about_sizes = bool(arguments) and what != "no workspace"
    assert library.call(run, None, ctypes.c_size_t()) == (status if about_sizes else 0)
