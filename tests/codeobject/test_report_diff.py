"""Changes between two artifacts, and those that deserve a warning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.codeobject.report import CodeObjectReport, KernelReport, OccupancyLimit
from ckwatch.codeobject.report_diff import (
    FIGURES,
    KernelWarning,
    all_figures,
    changed_figures,
    compare_kernels,
    match_kernels,
    warning_diagnostics,
    warnings_of,
)
from ckwatch.model.diagnostics import Severity, Source
from helpers.each_row import each_row
from helpers.kernel_reports import kernel, loop, occupancy, report
from helpers.units import place


@each_row(
    ("before", "now", "expected"),
    [
        (kernel(), kernel(), []),
        # the issue's own example
        (
            kernel(vgprs=189),
            kernel(vgprs=201, with_loop=loop(matrix_use=0.88)),
            ["VGPR 189 → 201", "predicted MFMA use 95 % → 88 %"],
        ),
        (kernel(), kernel(sgprs=40), ["SGPR 33 → 40"]),
        (kernel(waves=3), kernel(waves=2, lds_bytes=65536), ["LDS 32768 B → 65536 B", "occupancy 3 → 2"]),
        (kernel(), kernel(kernarg_bytes=176), ["kernarg 168 B → 176 B"]),
        (
            kernel(),
            kernel(vgpr_spills=4, scratch_bytes=20),
            ["spilled VGPR 0 → 4", "scratch 0 B → 20 B"],
        ),
        (kernel(with_loop=loop(clocks=1080.2)), kernel(with_loop=loop(clocks=1080.4)), []),
        (
            kernel(with_loop=loop(global_load_bytes=8192)),
            kernel(with_loop=loop(global_load_bytes=16384)),
            ["loop global loads 8192 B → 16384 B", "loop FLOP/B 64 → 32"],
        ),
        (
            kernel(with_loop=loop(clocks=None, matrix_use=None)),
            kernel(),
            ["predicted loop clocks unknown → 1080", "predicted MFMA use unknown → 95 %"],
        ),
        (kernel(waves=None), kernel(waves=2), ["occupancy unknown → 2", "limited by unknown → VGPR"]),
    ],
)
def test_changes(before: KernelReport, now: KernelReport, expected: list[str]) -> None:
    assert changed_figures(before, now) == expected


def test_an_occupancy_that_is_not_known_is_not_told() -> None:
    assert changed_figures(kernel(waves=None), kernel(waves=None, vgprs=201)) == ["VGPR 189 → 201"]


def test_all_figures_are_there_side_by_side() -> None:
    found = {each.name: (each.before, each.now, each.worse) for each in all_figures(kernel(), kernel(vgprs=201))}
    assert found["VGPR"] == ("189", "201", True)
    assert found["SGPR"][0] == found["SGPR"][1]
    assert {f"loop: {kind}" for kind in loop().mix} <= {*found}
    alone = {each.name: (each.before, each.now) for each in all_figures(None, kernel())}
    assert alone["VGPR"] == ("unknown", "189")


def test_what_limits_the_occupancy_is_a_figure_too() -> None:
    by_lds = replace(kernel(), occupancy=occupancy(limited_by=OccupancyLimit.LDS))
    assert changed_figures(kernel(), by_lds) == ["limited by VGPR → LDS"]


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (kernel(), kernel(vgprs=201), {"VGPR": True}),
        (kernel(), kernel(vgprs=180), {"VGPR": False}),
        (kernel(waves=3), kernel(waves=2), {"occupancy": True}),
        (kernel(waves=2), kernel(waves=3), {"occupancy": False}),
        (kernel(), kernel(with_loop=loop(matrix_use=0.88)), {"predicted MFMA use": True}),
        (kernel(), kernel(with_loop=loop(clocks=1200.0)), {"predicted loop clocks": None}),
        (kernel(), kernel(workgroup_size=128), {"workgroup": None}),
        (kernel(waves=None), kernel(waves=2), {"occupancy": None, "limited by": None}),
    ],
)
def test_what_is_worse(before: KernelReport, now: KernelReport, worse: dict[str, bool | None]) -> None:
    assert {each.name: each.worse for each in compare_kernels(before, now)} == worse


def test_a_loop_that_is_gone_is_told_figure_by_figure() -> None:
    told = changed_figures(kernel(), kernel(with_loop=None))
    assert "predicted MFMA use 95 % → unknown" in told
    assert all(text.endswith("→ unknown") for text in told)


def test_figures_have_names_of_their_own() -> None:
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


def named(symbol: str, name: str = "", vgprs: int = 100) -> KernelReport:
    return kernel(symbol=symbol, name=name or symbol, vgprs=vgprs)


@each_row(
    ("before", "now", "expected"),
    [
        # by symbol, whatever the order
        ((named("a"), named("b")), (named("b"), named("a")), [("b", "b"), ("a", "a")]),
        # by name, where the symbol changed
        (
            (named("a1", "even"), named("b1", "odd")),
            (named("b2", "odd"), named("a2", "even")),
            [("b1", "b2"), ("a1", "a2")],
        ),
        # in order, where nothing is left but as many
        ((named("a"), named("b1")), (named("b2"), named("a")), [("b1", "b2"), ("a", "a")]),
        # those that do the work, where a pipeline has others and more of them
        ((named("full"),), (named("odd"), named("even")), [("full", "odd"), (None, "even")]),
        ((named("odd"), named("even")), (named("full"),), [("odd", "full"), ("even", None)]),
        # new ones and gone ones, where their numbers differ
        ((named("a"),), (named("a"), named("b")), [("a", "a"), (None, "b")]),
        ((named("a"), named("b")), (named("b"),), [("b", "b"), ("a", None)]),
        ((), (named("a"),), [(None, "a")]),
        ((named("a"),), (), [("a", None)]),
        # the same kernel twice
        ((named("a"), named("a")), (named("a"), named("a")), [("a", "a"), ("a", "a")]),
    ],
)
def test_kernels_are_matched(
    before: tuple[KernelReport, ...], now: tuple[KernelReport, ...], expected: list[tuple[str | None, str | None]]
) -> None:
    found = [
        (old and old.resources.symbol, new and new.resources.symbol)
        for old, new in match_kernels(report(*before), report(*now))
    ]
    assert found == expected


KERNEL = "gemm_universal<true, Full>"


@each_row(
    ("now", "before", "limit", "expected"),
    [
        (report(kernel()), None, 65536, []),
        (
            report(kernel(vgpr_spills=12, scratch_bytes=52)),
            None,
            None,
            [("performance/spill", "12 VGPRs spilled (52 B of scratch per lane)")],
        ),
        (
            report(kernel(vgpr_spills=1, sgpr_spills=2)),
            None,
            None,
            [("performance/spill", "1 VGPR and 2 SGPRs spilled")],
        ),
        # scratch alone is an array on the stack
        (report(kernel(scratch_bytes=64)), None, None, []),
        (
            report(kernel(lds_bytes=65537)),
            None,
            65536,
            [("performance/lds", "65537 B of LDS: a workgroup may have at most 65536 B")],
        ),
        (report(kernel(lds_bytes=65536)), None, 65536, []),
        (report(kernel(lds_bytes=1 << 20)), None, None, []),
        (
            report(kernel(waves=2)),
            report(kernel(waves=3)),
            None,
            [
                (
                    "performance/occupancy",
                    "occupancy 3 → 2 waves per SIMD, limited by VGPR; 21 VGPR fewer → 3 waves",
                )
            ],
        ),
        (report(kernel(waves=3)), report(kernel(waves=2)), None, []),
        (report(kernel(waves=2)), report(kernel(waves=None)), None, []),
        (report(), report(kernel()), None, []),
        # a spill that was there before is still one
        (
            report(kernel(sgpr_spills=3)),
            report(kernel(sgpr_spills=3)),
            None,
            [("performance/spill", "3 SGPRs spilled")],
        ),
    ],
)
def test_warnings(
    now: CodeObjectReport, before: CodeObjectReport | None, limit: int | None, expected: list[tuple[str, str]]
) -> None:
    found = warnings_of(now, before, limit)
    assert [(each.code, each.message) for each in found] == expected
    assert {each.kernel for each in found} <= {KERNEL}


def test_warnings_lie_at_the_instance_and_equal_ones_are_one() -> None:
    warned = (
        KernelWarning(code="performance/spill", message="4 VGPRs spilled", kernel="even"),
        KernelWarning(code="performance/spill", message="4 VGPRs spilled", kernel="odd"),
        KernelWarning(code="performance/spill", message="5 VGPRs spilled", kernel="tail"),
    )
    first, second = warning_diagnostics(warned, unit="k/one@gfx942", span=place(9), source=Source.CLANG)
    assert (first.severity, first.code, first.message) == (Severity.WARNING, "performance/spill", "4 VGPRs spilled")
    assert first.detail == "in even\nin odd"
    assert (first.span, first.units, first.unit_count) == (place(9), ("k/one@gfx942",), 1)
    assert second.detail == "in tail"
    assert warning_diagnostics((), unit="k/one@gfx942", span=place(9), source=Source.CLANG) == ()
