"""The operations and sizes that every plain C++ GEMM template is tried on."""

from __future__ import annotations

import random

from tests.templates.gemm_case import GemmCase, Size

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
    "f64": GemmCase("f64", "f64", "f64", "row col col", accumulator="f64", bias="full col", bias_dtype="f64", beta=-2.0),
    "reordered": GemmCase(bias="row", scale_a="row", scale_b="row", input_reorder=(4, 0, 1, 2, 3)),
}


def sizes(seed: str) -> list[Size]:
    """Sizes by hand and at random: single elements, whole tiles, ragged edges, more slices than tiles of K."""
    rng = random.Random(seed)
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
