"""Which shapes an instance of CK's MoE GEMM supports.

What CK checks at run time, in DeviceMoeGemm::IsSupportedArgument and GridwiseMoeGemm::CheckValidity (Composable Kernel
7.2), and what the template refuses besides: `ck/moe_gemm_refusal.j2`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ckwatch.checks.supported_shapes.family import Refusal, ShapeRules, sizes_near
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.tensors import DTYPES
from ckwatch.model.tiles import tile_of

TWO_GIB = 1 << 31
MOST_TILES = 65535


def refusals(parameters: Mapping[str, ParameterValue], problem: KernelProblem) -> Iterator[Refusal]:
    """Why an instance does not support a problem of kind `moe_gemm`."""
    tile, rows = tile_of(parameters), problem.rows
    if tile is None or rows is None or rows.reference != "moe_gemm":
        return
    sizes, first = dict(rows.sizes), dict(rows.options)["stage"] == 1
    for name, size, least, what in (
        ("N", sizes["N"], tile.n, "NPerBlock"),
        ("K", sizes["K"], tile.k, "KPerBlock"),
        ("sorted_size", sizes["sorted_size"], tile.m, "MPerBlock"),
    ):
        if size % least:
            yield Refusal(f"{name} = {size} is not a multiple of {what} = {least}", sizes_near(name, size, least))
    if sizes["sorted_size"] // tile.m > MOST_TILES:
        yield Refusal(f"sorted_size = {sizes['sorted_size']} are more than {MOST_TILES} tiles of {tile.m}")
    pairs, tokens = (sizes["tokens"] + 1) * sizes["topk"], sizes["tokens"] + 1
    reached = (
        ("X", "x", (tokens if first else pairs) * sizes["K"]),
        ("Y", "y", (pairs if first else tokens) * sizes["N"]),
        ("an expert's W", "w", sizes["N"] * sizes["K"]),
    )
    for name, role, elements in reached:
        if elements * DTYPES[problem.buffer(rows.view(role).buffer).dtype].size_bytes >= TWO_GIB:
            yield Refusal(f"{name} reaches beyond 2 GiB")
    if prod((sizes["experts"], sizes["N"], sizes["K"], 2 if first else 1)) >= TWO_GIB:
        yield Refusal("W has more than 2^31 - 1 elements")


MOE_GEMM = ShapeRules(
    describes=lambda parameters: "NSwizzle" in parameters and "MPerBlock" in parameters,
    refusals=refusals,
    splits_k=lambda _: False,
    needs_whole=lambda _parameters, _problem: "a tile's rows go to many places",
)
