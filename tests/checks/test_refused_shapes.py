"""Which instances refuse a shape: counted in one warning, worked out again only where something changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from ckwatch.checks.refused_shapes import ShapeRefusals
from ckwatch.model.kernels import Kernel, ParameterValue
from ckwatch.workspace.loading import load_workspace

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def kernels_of(folder: Path) -> tuple[Kernel, ...]:
    return tuple(load_workspace(folder).kernels)


def kernel_of(example: str, name: str) -> Kernel:
    return next(one for one in kernels_of(EXAMPLES / example) if one.name == name)


def sized(kernel: Kernel, shape: str, sizes: Mapping[str, int]) -> Kernel:
    """The kernel with this shape alone, in other sizes."""
    one = next(one for one in kernel.shapes if one.name == shape)
    return replace(kernel, shapes=(replace(one, sizes={**one.sizes, **sizes}),))


def test_instances_with_errors_do_not_count() -> None:
    kernel, refusals = kernel_of("ck_tile", "gemm_f16"), ShapeRefusals()
    (found,) = refusals.warnings(kernel)
    assert "1 of 8 instances refuse this shape (`v3_256x256x32_unpadded`): K = 1048" in found.message
    assert found.span == next(one.span for one in kernel.shapes if one.name == "odd")
    assert not list(refusals.warnings(kernel, {"v3_256x256x32_unpadded"}))
    assert not list(refusals.warnings(replace(kernel, instances=())))
    assert not list(refusals.warnings(replace(kernel, shapes=())))


def test_only_what_changed_is_worked_out_again() -> None:
    kernel, refusals = kernel_of("ck_tile", "gemm_f16"), ShapeRefusals()
    assert list(refusals.warnings(kernel))
    first, *others = kernel.instances
    edited = replace(kernel, instances=(replace(first, parameters={**first.parameters, "TileK": 3000}), *others))
    longer = sized(kernel, "odd", {"K": 1056})
    for version in (
        edited,
        longer,
        kernel,
        replace(edited, operation=kernel_of("ck_tile", "gemm_f8_scaled").operation),
    ):
        assert list(refusals.warnings(version)) == list(ShapeRefusals().warnings(version))


@pytest.mark.parametrize("example", ["attention", "convolution", "gemm", "moe", "normalization"])
def test_parameters_of_any_family_in_any_operation(example: str) -> None:
    # a template and a kind that do not go together are reported elsewhere
    kernels = [one for folder in sorted(EXAMPLES.iterdir()) for one in kernels_of(folder)]
    operations = [one for one in kernels if Path(one.path).parent.name == example and one.shapes]
    odd: dict[str, ParameterValue] = {
        "TileK": 0,
        "KPerBlock": "x",
        "kPadK": False,
        "Vector_N": 0,
        "AK1": (),
        "GemmSpec": 3,
    }
    for operation in operations:
        for donor in kernels:
            for extra in (odd, {}):
                instances = tuple(replace(one, parameters={**one.parameters, **extra}) for one in donor.instances)
                list(ShapeRefusals().warnings(replace(operation, instances=instances)))
    assert operations
