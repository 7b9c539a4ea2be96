"""Which changes may end a kernel's spills, when a compile has confirmed one, and LDS that keeps workgroups out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ckwatch.checks.device_code.declarations import kernel_declarations
from ckwatch.codeobject.limit_hints import is_better, lds_limit, need_of, remedies, spill_sentence
from ckwatch.codeobject.occupancy import occupancy_of
from ckwatch.codeobject.report import KernelReport
from helpers.each_row import each_row
from helpers.kernel_reports import kernel, report

PLAIN = "__global__ void k() { }"


def of(arch: str = "gfx942", **figures: Any) -> KernelReport:
    """A kernel with these resources and the occupancy that they allow."""
    wave = 32 if arch.startswith("gfx1") else 64
    made = kernel().resources
    resources = replace(made, **{"agprs": 0, "wavefront_size": wave, **figures})
    return KernelReport(resources=resources, occupancy=occupancy_of(resources, arch))


def changed(text: str, spilling: KernelReport, threads: int | None) -> list[str]:
    """The text after each remedy."""
    found = []
    for remedy in remedies(spilling, kernel_declarations(text)[0], threads):
        made = text
        for edit in sorted(remedy.edits, key=lambda one: -one.start):
            made = made[: edit.start] + edit.text + made[edit.end :]
        found.append(made)
    return found


@each_row(
    ("text", "allowed", "threads", "expected"),
    [
        (PLAIN, 1024, 256, ["__global__ __launch_bounds__(256) void k() { }"]),
        (PLAIN, 1024, None, ["__global__ __launch_bounds__(256) void k() { }"]),
        (PLAIN, 1024, 1024, []),
        (PLAIN, 256, 512, []),
        (
            "__global__ __launch_bounds__(1024) void k() { }",
            1024,
            64,
            ["__global__ __launch_bounds__(64) void k() { }"],
        ),
        ("__global__ __launch_bounds__(1024) void k() { }", 1024, None, []),
        (
            "__global__ __launch_bounds__(512, 4) void k() { }",
            512,
            256,
            ["__global__ __launch_bounds__(256, 4) void k() { }", "__global__ __launch_bounds__(512, 1) void k() { }"],
        ),
        ("__global__ __launch_bounds__(256, 1) void k() { }", 256, 256, []),
        (
            "__attribute__((amdgpu_flat_work_group_size(1, 1024))) __global__ void k() { }",
            1024,
            128,
            ["__attribute__((amdgpu_flat_work_group_size(1, 128))) __global__ void k() { }"],
        ),
        (
            "[[clang::amdgpu_waves_per_eu(8)]] __global__ void k() { }",
            256,
            256,
            ["[[clang::amdgpu_waves_per_eu(1)]] __global__ void k() { }"],
        ),
    ],
)
def test_remedies_bound_threads_by_the_launch_and_ask_for_less_occupancy(
    text: str, allowed: int, threads: int | None, expected: list[str]
) -> None:
    assert changed(text, of(vgpr_spills=66, workgroup_size=allowed), threads) == expected


def test_a_kernel_without_spills_needs_no_remedy() -> None:
    assert changed(PLAIN, of(scratch_bytes=64, workgroup_size=1024), 256) == []


@pytest.mark.parametrize(
    ("figures", "better"),
    [
        ({"vgpr_spills": 0, "scratch_bytes": 0, "workgroup_size": 256}, True),
        ({"vgpr_spills": 65, "scratch_bytes": 236, "workgroup_size": 256}, True),
        ({"vgpr_spills": 66, "scratch_bytes": 0, "workgroup_size": 256}, False),
        ({"vgpr_spills": 0, "scratch_bytes": 240, "workgroup_size": 256}, False),
        ({"vgpr_spills": 0, "scratch_bytes": 0, "workgroup_size": 1024}, False),  # the bound is another kernel's
    ],
)
def test_a_remedy_is_confirmed_by_fewer_spills_without_more_scratch(figures: dict[str, int], better: bool) -> None:
    before = of(vgpr_spills=66, scratch_bytes=236, workgroup_size=1024)
    (remedy,) = remedies(before, kernel_declarations(PLAIN)[0], 256)

    assert is_better(before.resources, of("gfx942", **figures).resources, remedy) is better


def test_the_sentence_has_the_figures_of_both_compiles() -> None:
    before = of(vgprs=128, vgpr_spills=66, scratch_bytes=236, workgroup_size=1024, lds_bytes=0)
    after = of(vgprs=190, vgpr_spills=0, scratch_bytes=0, workgroup_size=256, lds_bytes=0)
    (remedy,) = remedies(before, kernel_declarations(PLAIN)[0], 256)

    assert spill_sentence(before, after, remedy) == (
        "66 VGPRs spilled: a launch of 1,024 threads must be possible; compiled with `__launch_bounds__(256)`: "
        "VGPR 128 → 190, spilled VGPR 66 → 0, scratch 236 B → 0 B, occupancy 4 → 2"
    )


@pytest.mark.parametrize(
    ("arch", "figures", "threads", "sentence"),
    [
        (
            "gfx942",
            {"vgprs": 128, "lds_bytes": 40960, "workgroup_size": 256},
            None,
            (
                "40,960 bytes of LDS per workgroup allow 1 workgroup per CU (4 waves); registers would allow 4: with at most "
                "32,768 bytes there would be 2"
            ),
        ),
        ("gfx950", {"vgprs": 128, "lds_bytes": 40960, "workgroup_size": 256}, None, None),
        (
            "gfx1100",
            {"vgprs": 96, "lds_bytes": 65536, "workgroup_size": 256},
            None,
            (
                "65,536 bytes of LDS per workgroup allow 2 workgroups per WGP (16 waves); registers would allow 8: with at "
                "most 43,008 bytes there would be 3"
            ),
        ),
        ("gfx942", {"vgprs": 256, "lds_bytes": 32768, "workgroup_size": 256}, None, None),
        ("gfx942", {"vgprs": 64, "lds_bytes": 0, "workgroup_size": 256}, None, None),
        ("gfx942", {"vgprs": 64, "lds_bytes": 20480, "workgroup_size": 1024}, None, None),
        (
            "gfx942",
            {"vgprs": 64, "lds_bytes": 20480, "workgroup_size": 1024},
            64,
            "20,480 bytes of LDS per workgroup allow 3 workgroups per CU (3 waves); registers would allow 32",
        ),
        ("gfx0", {"vgprs": 64, "lds_bytes": 40960, "workgroup_size": 256}, None, None),
    ],
)
def test_lds_limits_where_registers_would_allow_more(
    arch: str, figures: dict[str, int], threads: int | None, sentence: str | None
) -> None:
    found = lds_limit(of(arch, **figures), arch, threads)

    assert (found is None) is (sentence is None)
    assert sentence is None or str(found).startswith(sentence)


def test_what_needs_advice_lies_in_scratch_or_is_kept_out_by_lds() -> None:
    spilled = of(vgpr_spills=66, scratch_bytes=236)
    limited = of(vgprs=128, lds_bytes=40960, workgroup_size=256)
    free = of(vgprs=256, lds_bytes=0)

    assert [need_of(report(one)) for one in (spilled, limited, free)] == [264, 1, 0]
