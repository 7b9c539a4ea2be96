"""Which shapes an instance supports; on others it returns without computing anything.

Each family of kernels is a module that makes `ShapeRules`; a row in `families` makes it known everywhere.
"""

from __future__ import annotations

from functools import cache

from ckwatch.checks.supported_shapes.family import Parameters, Refusal, ShapeRules, slices_of
from ckwatch.model.kernel_problem import KernelProblem

__all__ = [
    "Parameters",
    "Refusal",
    "ShapeRules",
    "families",
    "named_as_ck",
    "shape_rules",
    "slices_of",
    "unsupported_reason",
]


@cache
def families() -> tuple[ShapeRules, ...]:
    """Return the families; the first one that describes an instance counts.

    The instance rules come with them, which whoever imports a prediction's types does not need.
    """
    from ckwatch.checks.supported_shapes.ck_tile_fmha import CK_TILE_FMHA
    from ckwatch.checks.supported_shapes.ck_tile_gemm import CK_TILE_GEMM
    from ckwatch.checks.supported_shapes.grouped_convolution import GROUPED_CONVOLUTION
    from ckwatch.checks.supported_shapes.moe_gemm import MOE_GEMM
    from ckwatch.checks.supported_shapes.normalization import NORMALIZATION
    from ckwatch.checks.supported_shapes.universal_gemm import UNIVERSAL_GEMM

    return (GROUPED_CONVOLUTION, MOE_GEMM, UNIVERSAL_GEMM, CK_TILE_GEMM, CK_TILE_FMHA, NORMALIZATION)


def shape_rules(parameters: Parameters) -> ShapeRules | None:
    """Return the rules about the shapes that an instance supports; None for a kernel of another family."""
    return next((family for family in families() if family.describes(parameters)), None)


def named_as_ck(parameters: Parameters) -> Parameters:
    """Parameters of a device operation that have PyTorch Inductor's names under CK's own; any others as they are.

    A kernel with Inductor's names calls CK by other code than the templates here, and may refuse what these do not.
    """
    from ckwatch.checks.rules.checker import OPERATIONS  # as in `families`

    for operation in OPERATIONS.values():
        names = {name: operation.canonical(name) for name in parameters}
        if parameters and all(names.values()):
            return {
                str(names[name]): value.rpartition("::")[2] if isinstance(value, str) else value
                for name, value in parameters.items()
            }
    return parameters


def unsupported_reason(parameters: Parameters, problem: KernelProblem) -> str:
    """Why an instance does not support a problem, empty if it does or its family is not known."""
    family = shape_rules(parameters)
    return "" if family is None else next(family.refusals(parameters, problem), Refusal("")).reason
