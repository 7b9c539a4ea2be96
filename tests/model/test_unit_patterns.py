"""Which units a pattern means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.model.kernels import Instance, Kernel, units_of
from ckwatch.model.unit_patterns import may_name, select_units, suggest_pattern
from helpers.each_row import each_row
from helpers.units import place, unit


def kernel(name: str, *instances: str, path: str) -> Kernel:
    made = tuple(Instance(instance, {}, place(), {}) for instance in instances)
    return replace(unit("k.hip.j2").kernel, name=name, instances=made, path=path)


UNITS = {
    one.id: one
    for one in (
        *units_of(kernel("gemm", "v1", "v3_a", "v3_b", path="/ws/a/gemm.kernel.toml"), ("gfx942", "gfx950")),
        *units_of(kernel("host_gemm", "one", path="/ws/b/host.kernel.toml"), ("host",)),
    )
}
ALL = list(UNITS)


@each_row(
    ("patterns", "expected"),
    [
        (None, ALL),
        ([], []),
        (["gemm"], ALL[:6]),
        (["gemm/v1"], ["gemm/v1@gfx942", "gemm/v1@gfx950"]),
        (["gemm/v3_*@gfx950"], ["gemm/v3_a@gfx950", "gemm/v3_b@gfx950"]),
        (["*gemm/?*@host"], ["host_gemm/one@host"]),
        (["host_gemm", "gemm/v1@gfx950"], ["gemm/v1@gfx950", "host_gemm/one@host"]),
        (["/ws/b"], ["host_gemm/one@host"]),
        (["/ws/a/gemm.kernel.toml"], ALL[:6]),
        (["/ws/"], ALL),
    ],
)
def test_patterns(patterns: list[str] | None, expected: list[str]) -> None:
    assert select_units(UNITS, patterns) == (expected, None)


@pytest.mark.parametrize("pattern", ["gem", "gemm/", "gemm/v2", "/ws/c", "/ws/a/gemm", "Gemm", ""])
def test_a_pattern_that_means_nothing(pattern: str) -> None:
    assert select_units(UNITS, ["gemm", pattern]) == ([], pattern)


@pytest.mark.parametrize(
    ("word", "hint"), [("gem", "did you mean 'gemm'?"), ("zzz", "kernels of this workspace: gemm, host_gemm")]
)
def test_what_may_have_been_meant(word: str, hint: str) -> None:
    assert suggest_pattern(UNITS.values(), word) == hint


@each_row(
    ("pattern", "may"),
    [
        ("gemm", True),
        ("gemm/any@gfx942", True),
        ("gemm/v3_*", True),
        ("gem?", True),
        ("ge*942", True),
        ("*", True),
        ("*_x/v1", True),
        ("gemm_f16", False),
        ("gemm_*", False),
        ("other/gemm*", False),
        ("/ws/a", True),
        ("/ws/a/gemm.kernel.toml", True),
        ("/ws/b", False),
    ],
)
def test_what_may_name_a_unit_of_a_kernel_of_which_nothing_else_is_known(pattern: str, may: bool) -> None:
    assert may_name(pattern, "gemm", "/ws/a/gemm.kernel.toml") is may
