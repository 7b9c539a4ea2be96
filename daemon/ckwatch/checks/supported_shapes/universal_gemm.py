"""Which shapes an instance of CK's universal GEMM supports, and of those with batches and with a preshuffled W.

What CK checks at run time, in GridwiseGemmMultiD_xdl_cshuffle_v3::CheckValidity (Composable Kernel 7.2), by the
template parameters and the sizes alone. With a preshuffled W these are
GridwiseGemmMultiD_xdl_cshuffle_v3_b_preshuffle::CheckValidity and DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle's
IsSupportedArgument, with microscaled operands GridwiseGemmMX_xdl_cshuffle_v3::CheckValidity and what its scales need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd, lcm

from ckwatch.checks.supported_shapes.family import Refusal, ShapeRules, contiguous_axis, sizes_near, slices_of
from ckwatch.model.kernel_problem import Gemm, KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import DTYPES, Dtype
from ckwatch.model.tiles import LaunchGrid, tile_of

PREFETCH_STAGES: Mapping[str, int] = {"v3": 2, "v4": 3, "v5": 3}
"""PrefetchStages in blockwise_gemm_pipeline_xdlops_v*.hpp. v1 has a form without a main loop, v2 works it out."""

PRESHUFFLED_PREFETCH_STAGES: Mapping[str, int] = {"v1": 2, "v2": 3, "v3": 2}
"""PrefetchStages in blockwise_gemm_pipeline_xdlops_b_preshuffle_v*.hpp."""

SCALE_PADDING = 32
"""Rows in whose multiples CK takes scales of X to be there."""

BLOCK_AXES, SCALE_AXES = 2, 3
"""Of columns of a preshuffled W, and of rows of shuffled scales (ckwatch.workspace.operations.shuffles)."""

TWO_GIB = 1 << 31
MOST_MATRICES = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmCase:
    """An instance and a product of matrices."""

    parameters: Mapping[str, ParameterValue]
    gemm: Gemm
    grid: LaunchGrid
    x: Dtype
    w: Dtype
    y: Dtype

    @property
    def is_preshuffled(self) -> bool:
        """Return True if W lies in blocks."""
        return len(self.gemm.w.rows) == len(self.gemm.w.columns) == BLOCK_AXES

    @property
    def scales_together(self) -> int:
        """Rows of X and columns of W whose scales lie in one word's tiles; 0 where operands are not microscaled."""
        scale = self.gemm.x_scale
        if scale is None or len(scale.rows) != SCALE_AXES:
            return 0
        (_, _), (tiles, _), (instruction, _) = scale.rows
        return tiles * instruction

    def number(self, name: str) -> int:
        """A parameter above zero; 1, which divides everything, where it is none."""
        value = self.parameters.get(name)
        value = value[0] if isinstance(value, tuple) and value else value
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1

    def pads(self, dimension: str) -> bool:
        """Return True if GemmSpec pads M, N or K; any other word than CK's own might."""
        word = self.parameters.get("GemmSpec")
        if not isinstance(word, str) or not (word == "Default" or word.endswith("Padding")):
            return True
        return dimension in word.removesuffix("Padding") if word != "Default" else False

    def unpadded(self, size: str, step: str, dimension: str, pronoun: str = "it") -> Refusal:
        """That a size is not a multiple of a step, and which GemmSpec pads its dimension."""
        padded = "".join(one for one in "MNK" if one == dimension or self.pads(one))
        return Refusal(
            f"{size} not a multiple of {step}, and GemmSpec does not pad {pronoun}", f'GemmSpec = "{padded}Padding"'
        )


def refusals(parameters: Mapping[str, ParameterValue], problem: KernelProblem) -> Iterator[Refusal]:
    """Why an instance does not support a problem, whose operation is a product of matrices."""
    case = gemm_case(parameters, problem)
    if case is not None:
        for check in _CHECKS:
            yield from check(case)


def gemm_case(parameters: Mapping[str, ParameterValue], problem: KernelProblem) -> GemmCase | None:
    """None where the tile or what is computed is not known."""
    gemm = problem.gemm
    if gemm is None:
        return None
    x, w, y = (DTYPES[problem.buffer(view.buffer).dtype] for view in (gemm.x, gemm.w, gemm.y))
    tile = tile_of(parameters, x.packed)
    if tile is None:
        return None
    (m, k), n = gemm.x.sizes, gemm.y.sizes[1]
    grid = LaunchGrid(tile=tile, m=m, n=n, k=k, slices=slices_of(problem))
    return GemmCase(parameters=parameters, gemm=gemm, grid=grid, x=x, w=w, y=y)


def _unpadded(case: GemmCase) -> Iterator[Refusal]:
    grid, tile = case.grid, case.grid.tile
    if not case.pads("M") and contiguous_axis(case.gemm.x) == 0 and grid.m % tile.m:
        yield case.unpadded(f"M = {grid.m} is", f"MPerBlock = {tile.m}", "M")
    if not case.pads("N") and contiguous_axis(case.gemm.w) == 1 and grid.n % tile.n:
        yield case.unpadded(f"N = {grid.n} is", f"NPerBlock = {tile.n}", "N")


def _whole_blocks(case: GemmCase) -> Iterator[Refusal]:
    grid, tile = case.grid, case.grid.tile
    if not case.is_preshuffled:
        return
    if grid.n % tile.n:
        reason = f"N = {grid.n} is not a multiple of NPerBlock = {tile.n}, as a preshuffled W needs"
        yield Refusal(reason, sizes_near("N", grid.n, tile.n))
    if grid.k % (grid.slices * tile.k):
        step = grid.slices * tile.k
        reason = f"K = {grid.k} is not a multiple of kBatch · KPerBlock = {step}, as a preshuffled W needs"
        yield Refusal(reason, sizes_near("K", grid.k, step))


def _whole_scales(case: GemmCase) -> Iterator[Refusal]:
    grid, together = case.grid, case.scales_together
    if not together:
        return
    if grid.n % together:
        reason = f"N = {grid.n} is not a multiple of {together}, whose scales lie together"
        yield Refusal(reason, sizes_near("N", grid.n, together))
    if together > SCALE_PADDING and -(-grid.m // SCALE_PADDING) % (together // SCALE_PADDING):
        reason = f"M = {grid.m}, in whole {SCALE_PADDING}, is not a multiple of {together}, whose scales lie together"
        yield Refusal(reason, sizes_near("M", grid.m, together))
    step = grid.slices * grid.tile.k
    if grid.k % step:
        block = "2 · KPerBlock" if case.x.packed == 2 else "KPerBlock"
        reason = f"K = {grid.k} is not a multiple of kBatch · {block} = {step}, as scales per block need"
        yield Refusal(reason, sizes_near("K", grid.k, step))
    name = "CShuffleBlockTransferScalarPerVector_NPerBlock"
    if contiguous_axis(case.gemm.y) == 1 and grid.n % case.number(name):
        yield too_wide(f"N = {grid.n} is", grid.n, name, case.number(name))


def too_wide(what: str, size: int, name: str, vector: int) -> Refusal:
    """That a size is not a multiple of a vector's width, which must divide it."""
    return Refusal(f"{what} not a multiple of {name} = {vector}", f"{name} = {gcd(size, vector)}")


def unpadded_depth(case: GemmCase) -> Iterator[Refusal]:
    """K that the tile does not divide, and slices of K without any."""
    grid = case.grid
    if not case.pads("K"):
        step = grid.slices * grid.tile.k
        if grid.k % step:
            yield case.unpadded(f"K = {grid.k} is", f"kBatch · KPerBlock = {step}", "K")
        return
    vector = lcm(case.number("AK1"), case.number("BK1"))
    read = -(-grid.k // (grid.slices * vector)) * vector
    if read * (grid.slices - 1) >= grid.k:
        yield Refusal(f"K = {grid.k} is too small for {grid.slices} slices (kBatch)", "a lower kBatch")


def _vectors(case: GemmCase) -> Iterator[Refusal]:
    grid = case.grid
    rows = (
        (case.gemm.x, ("M", grid.m), ("K", grid.k), "ABlockTransferSrcScalarPerVector"),
        (case.gemm.w, ("K", grid.k), ("N", grid.n), "BBlockTransferSrcScalarPerVector"),
        (case.gemm.y, ("M", grid.m), ("N", grid.n), "CDEShuffleBlockTransferScalarPerVectors"),
    )
    for view, *axes, name in rows:
        axis = contiguous_axis(view)
        if axis is not None:
            dimension, size = axes[axis]
            if size % case.number(name):
                yield too_wide(f"{dimension} = {size} is", size, name, case.number(name))


def too_few_rounds(case: GemmCase) -> Iterator[Refusal]:
    """K of less rounds than the pipeline prefetches."""
    version = case.parameters.get("BlkGemmPipelineVer")
    if case.scales_together and not case.is_preshuffled:
        stages = 0  # its pipelines have a form for each number of rounds
    elif case.is_preshuffled:
        stages = PRESHUFFLED_PREFETCH_STAGES.get(str(version), 0)
    else:
        stages = _stages_of_v2(case) if version == "v2" else PREFETCH_STAGES.get(str(version), 0)
    if version == "v4" and case.parameters.get("DirectLoad") is True:
        stages -= 1
    if stages and case.grid.rounds <= stages:
        slices = f" in each of {case.grid.slices} slices" if case.grid.slices > 1 else ""
        rounds = f"K = {case.grid.k} is {case.grid.rounds} × KPerBlock{slices}"
        fix = "a lower kBatch" if slices else f"K = {(stages + 1) * case.grid.tile.k}"
        yield Refusal(f"{rounds}: pipeline {version} needs more than {stages}", fix)


def _stages_of_v2(case: GemmCase) -> int:
    tile = case.grid.tile
    workgroups = max(1, 4 * 64 // case.number("BlockSize"))
    loaded = (tile.m * case.x.size_bytes + tile.n * case.w.size_bytes) * tile.k
    return min(8, max(2, -(-(32768 // workgroups) // loaded)))


def _large(case: GemmCase) -> Iterator[Refusal]:
    grid, matrices = case.grid, case.gemm.y.matrices
    if matrices > MOST_MATRICES:
        yield Refusal(f"B = {matrices} is above {MOST_MATRICES}, the most that a grid has along an axis")
    sizes = (
        ("X", case.x.bytes_for(grid.m * grid.k)),
        ("W", case.w.bytes_for(grid.n * grid.k)),
        ("Y", case.y.bytes_for(grid.m * grid.n)),
    )
    for name, size_bytes in sizes:
        if size_bytes > TWO_GIB:
            yield Refusal(f"{name} is larger than 2 GiB")
    yield from _beyond_two_gib(case)


def _beyond_two_gib(case: GemmCase) -> Iterator[Refusal]:
    """That CK's offsets, signed 32-bit bytes, do not reach all of a matrix, with the padding of its last tiles."""
    gemm, tile = case.gemm, case.grid.tile
    matrices = [(gemm.x, case.x, tile.m, tile.k), (gemm.w, case.w, tile.k, tile.n), (gemm.y, case.y, tile.m, tile.n)]
    for view, dtype, row_tile, column_tile in matrices:
        if len(view.rows) != 1 or len(view.columns) != 1:
            continue
        sides = ((*view.rows[0], row_tile), (*view.columns[0], column_tile))
        last = sum((-(-size // tile) * tile - 1) * stride for size, stride, tile in sides)
        if dtype.bytes_for(last + 1) > TWO_GIB:
            yield Refusal(f"{view.buffer} reaches beyond 2 GiB")


_CHECKS: tuple[Callable[[GemmCase], Iterator[Refusal]], ...] = (
    _whole_blocks,
    _whole_scales,
    _unpadded,
    unpadded_depth,
    _vectors,
    too_few_rounds,
    _large,
)

UNIVERSAL_GEMM = ShapeRules(
    describes=lambda parameters: isinstance(parameters.get("BlkGemmPipelineVer"), str),
    refusals=refusals,
    splits_k=lambda operation: operation.settings.get("split_k") is True,
)
