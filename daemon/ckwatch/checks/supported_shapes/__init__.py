"""Which shapes an instance supports; on others it returns without computing anything.

Each family of kernels is a module that makes `ShapeRules`; a row in `FAMILIES` makes it known everywhere.
"""

from __future__ import annotations

from ckwatch.checks.supported_shapes.ck_tile_gemm import CK_TILE_GEMM
from ckwatch.checks.supported_shapes.family import Parameters, ShapeRules, slices_of
from ckwatch.checks.supported_shapes.grouped_convolution import GROUPED_CONVOLUTION
from ckwatch.checks.supported_shapes.universal_gemm import UNIVERSAL_GEMM
from ckwatch.model.kernel_problem import KernelProblem

__all__ = ["FAMILIES", "Parameters", "ShapeRules", "shape_rules", "slices_of", "unsupported_reason"]

FAMILIES: tuple[ShapeRules, ...] = (GROUPED_CONVOLUTION, UNIVERSAL_GEMM, CK_TILE_GEMM)
"""The first one that describes an instance counts."""


def shape_rules(parameters: Parameters) -> ShapeRules | None:
    """What is known of the shapes that an instance supports; None for a kernel of one's own."""
    return next((family for family in FAMILIES if family.describes(parameters)), None)


def unsupported_reason(parameters: Parameters, problem: KernelProblem) -> str:
    """Why an instance does not support a problem, empty if it does or its family is not known."""
    family = shape_rules(parameters)
    return "" if family is None else next(family.reasons(parameters, problem), "")
