"""Which shapes an instance of CK's grouped convolution supports.

What CK checks at run time, in IsSupportedArgument of DeviceGroupedConvFwdMultipleABD_Xdl_CShuffle_V3 (Composable Kernel
7.2), and what `ck/grouped_convolution.hip.j2` refuses because CK would compute it wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ckwatch.checks.supported_shapes import universal_gemm
from ckwatch.checks.supported_shapes.family import Parameters, Refusal, ShapeRules
from ckwatch.model.kernel_problem import Gemm, KernelProblem

MOST_GROUPS = 65535
CDE_VECTOR = "CDEBlockTransferScalarPerVector_NPerBlock"


def refusals(parameters: Parameters, problem: KernelProblem) -> Iterator[Refusal]:
    """Why an instance does not support a problem, whose operation is a convolution."""
    case = universal_gemm.gemm_case(parameters, problem)
    sizes = {one.name: int(one.value) for one in problem.arguments if one.buffer is None and one.value is not None}
    if case is None or "GroupCount" not in sizes:
        return
    yield from _specialization(str(parameters.get("ConvForwardSpecialization")), sizes)
    yield from _vectors(case, sizes)
    yield from universal_gemm.unpadded_depth(case)
    yield from universal_gemm.too_few_rounds(case)
    grid = case.grid
    if not case.pads("N") and grid.n % grid.tile.n:
        yield case.unpadded(f"{grid.n} output channels per group are", f"NPerBlock = {grid.tile.n}", "N", "them")
    if sizes["GroupCount"] > MOST_GROUPS:
        most = f"{MOST_GROUPS}, the most that a grid has along an axis"
        yield Refusal(f"GroupCount = {sizes['GroupCount']} is above {most}")
    for what, size_bytes in (
        ("pixels × taps × channels of X", grid.m * grid.k * case.x.size_bytes),
        ("pixels × channels of Y", grid.m * grid.n * case.y.size_bytes),
    ):
        if size_bytes > universal_gemm.TWO_GIB:
            yield Refusal(f"{what} are more than 2 GiB: CK counts them as those of a matrix")


def _axes(sizes: Mapping[str, int], name: str) -> list[tuple[str, int]]:
    return [(key, value) for key, value in sizes.items() if key.startswith(f"{name}_")]


def _specialization(word: str, sizes: Mapping[str, int]) -> Iterator[Refusal]:
    needed: dict[str, int] = {}
    fix = 'ConvForwardSpecialization = "Default"'
    if word in ("Filter1x1Pad0", "Filter1x1Stride1Pad0"):
        needed = {"FilterSize": 1, "LeftPads": 0, "RightPads": 0}
    if word == "Filter1x1Stride1Pad0":
        needed["ConvolutionStrides"] = 1
    if word == "Filter3x3":
        needed["FilterSize"] = 3
        if sizes["NInChannels"] != sizes["GroupCount"]:
            yield Refusal("Filter3x3 needs one input channel per group", fix)
    for name, value in needed.items():
        for key, size in _axes(sizes, name):
            if size != value:
                yield Refusal(f"{word} needs {key} = {value}, and it is {size}", fix)


def _vectors(case: universal_gemm.GemmCase, sizes: Mapping[str, int]) -> Iterator[Refusal]:
    groups = sizes["GroupCount"]
    channels, filters = sizes["NInChannels"] // groups, sizes["NOutChannels"] // groups
    rows = [
        (channels, "input channels per group", "ABlockTransferSrcScalarPerVector"),
        (channels, "input channels per group", "BBlockTransferSrcScalarPerVector"),
        (filters, "output channels per group", CDE_VECTOR),
    ]
    if _is_transposed(case.gemm):
        image = prod(size for _, size in _axes(sizes, "InputSize"))
        output = prod(size for size, _ in case.gemm.y.rows[1:])
        rows += [
            (channels, "input channels per group", CDE_VECTOR),
            (image, "elements of an image", CDE_VECTOR),
            (output, "elements of an output image", CDE_VECTOR),
        ]
    for size, what, name in rows:
        if size % case.number(name):
            yield universal_gemm.too_wide(f"{size} {what} are", size, name, case.number(name))


def _is_transposed(gemm: Gemm) -> bool:
    """Return True if CK computes in copies with channels last: pixels and taps lie side by side, and not in one
    dimension."""
    steps = (gemm.x.rows[-1][1] // gemm.x.windows[-1].row_step, gemm.w.rows[-2][1], gemm.y.rows[-1][1])
    return steps == (1, 1, 1) and len(gemm.x.windows) > 1


GROUPED_CONVOLUTION = ShapeRules(
    describes=lambda parameters: isinstance(parameters.get("ConvForwardSpecialization"), str),
    refusals=refusals,
    splits_k=lambda _: False,
    needs_whole=lambda _, problem: "all of X is transposed" if problem.gemm and _is_transposed(problem.gemm) else "",
)
