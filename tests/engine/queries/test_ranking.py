"""Which instance is the best on a shape, and why others have no place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benches.bench_kernels import gemm_problem
from benches.timing_records import DEVICE, PROBLEM, failed, measured, record, report, samples
from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import FailureKind
from ckwatch.engine.queries.ranking import rank_units
from ckwatch.model.roofline import CacheState
from ckwatch.wire.benchmarks import RankedTiming
from ckwatch.wire.encoding import adapter, to_json
from helpers.each_row import each_row

A, B, C = (f"gemm/{name}@gfx942" for name in "abc")
PRESENT: dict[str, str | None] = {A: "a1", B: "a1", C: "a1"}


def timed(unit: str, time_us: float, number: int, **changes: Any) -> TimingRecord:
    return record(unit, [time_us] * 20, problem=None, id=number, **changes)


def short(rows: list[RankedTiming]) -> list[tuple[str, str, int | None, str]]:
    return [(row.shape, row.instance, row.rank, row.why_not) for row in rows]


def verdict(row: RankedTiming) -> str | None:
    return None if row.timing is None or not row.timing.comparisons else row.timing.comparisons[0].verdict


def test_the_fastest_first() -> None:
    records = [timed(A, 120.0, 1), timed(B, 100.0, 2), timed(C, 100.1, 3)]
    rows = rank_units(records, PRESENT, {})
    assert short(rows) == [("small", "b", 1, ""), ("small", "c", 2, ""), ("small", "a", 3, "")]
    assert [verdict(row) for row in rows] == [None, "SAME", "SLOW"]
    assert rows[2].timing is not None
    (found,) = rows[2].timing.comparisons
    assert (found.against, found.ratio) == ("b", 1.2)
    assert adapter(RankedTiming).validate_json(to_json(rows[2])) == rows[2]


def test_shapes_and_archs_apart() -> None:
    other = "gemm/a@gfx90a"
    records = [
        timed(A, 5.0, 1, shape="later"),
        timed(A, 5.0, 2),
        timed(B, 6.0, 3),
        timed(other, 1.0, 4),
    ]
    rows = rank_units(records, {A: "a1", other: "a1", B: "a1"}, {})
    assert [(row.shape, row.unit, row.rank) for row in rows] == [
        ("later", A, 1),
        ("later", B, None),
        ("later", other, None),
        ("small", A, 1),
        ("small", B, 2),
        ("small", other, 1),
    ]


@each_row(
    ("records", "expected"),
    [
        # a kernel's fault, in whatever order it is given
        ([timed(A, 1.0, 1), failed(A, id=2)], (None, "it is wrong result")),
        ([failed(A, id=2), timed(A, 1.0, 1)], (None, "it is wrong result")),
        ([failed(A, id=1), timed(A, 1.0, 2)], (1, "")),
        # the machine's fault says nothing of the kernel
        ([timed(A, 1.0, 1), failed(A, FailureKind.LOST, id=2)], (1, "")),
        ([failed(A, FailureKind.NO_MEMORY, id=2)], (None, "it is too little device memory")),
        ([], (None, "not timed on this shape")),
        ([timed(A, 1.0, 1, shape="other")], (None, "not timed on this shape")),
        ([timed(A, 1.0, 1, sizes={"M": 99})], (None, "timed when the shape had other sizes")),
        (
            [timed(A, 1.0, 1, report=report(measured(A), device=replace(DEVICE, description="MI210")))],
            (None, "timed on another device only"),
        ),
        (
            [timed(A, 1.0, 1, report=report(measured(A, samples(CacheState.HOT))))],
            (None, "not timed on this shape"),
        ),
    ],
)
def test_why_a_unit_has_no_place(records: list[TimingRecord], expected: tuple[int | None, str]) -> None:
    rows = rank_units([*records, timed(B, 2.0, 50)], {A: "a1", B: "a1"}, {})
    (row,) = [row for row in rows if row.unit == A and row.shape == "small"]
    assert (row.rank, row.why_not) == expected
    if row.rank is None:
        assert row.timing is None or row.timing.failure is not None


def test_a_unit_that_does_not_compile_has_no_place() -> None:
    rows = rank_units([timed(A, 1.0, 1), timed(B, 2.0, 2)], PRESENT | {A: None}, {A: "128 is not divisible by 96"})
    assert short(rows) == [
        ("small", "b", 1, ""),
        ("small", "a", None, "128 is not divisible by 96"),
        ("small", "c", None, "not timed on this shape"),
    ]


def test_the_device_of_the_newest_timing() -> None:
    elsewhere = report(measured(A, samples(CacheState.COLD, 9.0)), device=replace(DEVICE, description="MI210"))
    old = timed(A, 1.0, 1)
    rows = rank_units([timed(A, 0, 3, report=elsewhere), timed(B, 2.0, 2), old], {A: "a1", B: "a1"}, {})
    assert [(row.unit, row.timing and row.timing.median_us, row.why_not) for row in rows] == [
        (A, 9.0, ""),
        (B, None, "timed on another device only"),
    ]


def test_devices_of_the_same_product_are_ranked_together_and_named() -> None:
    other = replace(DEVICE, name="hip:1", pci="0000:99:00.0")
    far = replace(DEVICE, machine="gpu-box")
    elsewhere = timed(A, 0, 3, report=report(measured(A, samples(CacheState.COLD, 9.0)), device=other))
    rows = rank_units([elsewhere, timed(B, 2.0, 2)], {A: "a1", B: "a1"}, {})
    assert [(row.unit, row.devices) for row in rows] == [(B, ("hip:1", "hip:7")), (A, ("hip:1", "hip:7"))]
    assert rows[1].timing is not None
    assert [one.other_device for one in rows[1].timing.comparisons] == [DEVICE.name]
    # a timing on the device of the newest one comes first
    rows = rank_units([elsewhere, timed(A, 4.0, 1), timed(B, 2.0, 4)], {A: "a1", B: "a1"}, {})
    assert [(row.timing and row.timing.median_us, row.devices) for row in rows] == [(2.0, ()), (4.0, ())]
    newest = timed(A, 0, 5, report=report(measured(A, samples(CacheState.COLD, 1.0)), device=far))
    rows = rank_units([newest, timed(B, 2.0, 4)], {A: "a1", B: "a1"}, {})
    assert rows[0].devices == (DEVICE.name, f"{DEVICE.name} on gpu-box")


def test_stale_ones_are_marked_and_units_that_are_gone_left_out() -> None:
    rows = rank_units([timed(A, 1.0, 1, artifact_key="a0"), timed(B, 2.0, 2)], {A: "a1"}, {})
    assert [(row.unit, row.rank, row.timing and row.timing.standing) for row in rows] == [(A, 1, "stale")]
    assert rank_units([timed(A, 1.0, 1)], {}, {}) == []
    assert rank_units([], PRESENT, {}) == []


def test_another_cache_state() -> None:
    both = [
        timed(
            unit, 0, number, report=report(measured(unit, samples(CacheState.COLD, cold), samples(CacheState.HOT, hot)))
        )
        for number, (unit, cold, hot) in enumerate([(A, 1.0, 9.0), (B, 2.0, 8.0)], 1)
    ]
    present: dict[str, str | None] = {A: "a1", B: "a1"}
    assert [row.unit for row in rank_units(both, present, {})] == [A, B]
    assert [row.unit for row in rank_units(both, present, {}, CacheState.HOT)] == [B, A]


GEMM = replace(PROBLEM, computed=gemm_problem(dtype="f16").computed, buffers=gemm_problem(dtype="f16").buffers)
MI300X = replace(DEVICE, description="AMD Instinct MI300X", compute_units=304)


def on_a_gpu(unit: str, time_us: float, number: int, library_us: float | None = None) -> TimingRecord:
    """A timing on a device whose bound is known: 50,000 bytes at 5.3 TB/s take 9.4 ns, 2 MFLOP 1.5 ns."""
    every = [measured(unit, samples(CacheState.COLD, *[time_us] * 20))]
    if library_us is not None:
        every.append(measured("library", samples(CacheState.COLD, *[library_us] * 20)))
    return record(unit, problem=GEMM, id=number, report=report(*every, device=MI300X))


def test_the_share_of_the_gap_to_the_bound() -> None:
    rows = rank_units([on_a_gpu(A, 10.0, 1, library_us=10.0), on_a_gpu(B, 5.0, 2)], {A: "a1", B: "a1"}, {})
    bound_us = rows[0].timing.bound_us if rows[0].timing is not None else None
    assert bound_us is not None
    scores = {row.unit: row.sol_score for row in rows}
    assert scores[A] == pytest.approx(0.5)
    assert scores[B] == pytest.approx((10 - bound_us) / (10 - bound_us + 5 - bound_us))
    assert {(row.sol_baseline, row.sol_baseline_us) for row in rows} == {("library", 10.0)}


def test_without_a_library_the_named_baseline_counts() -> None:
    baselines = {A: [on_a_gpu(A, 20.0, 1)], B: [replace(on_a_gpu(B, 20.0, 2), sizes={"M": 1})]}
    records = [on_a_gpu(A, 10.0, 3), on_a_gpu(B, 5.0, 4)]
    rows = {
        row.unit: row for row in rank_units(records, {A: "a1", B: "a1"}, {}, baseline_of=lambda unit: baselines[unit])
    }
    assert (rows[A].sol_baseline, rows[A].sol_baseline_us) == ("baseline", 20.0)
    assert (rows[A].sol_score or 0.0) > 0.5
    assert (rows[B].sol_score, rows[B].sol_baseline, rows[B].sol_baseline_us) == (None, "", None)


def test_there_is_no_score_without_a_bound() -> None:
    (row,) = rank_units([timed(A, 100.0, 1)], {A: "a1"}, {})
    assert row.sol_score is None


def test_timings_with_and_without_a_flush_of_instruction_caches_are_ranked_apart() -> None:
    flushed = record(A, problem=None, id=2, report=report(measured(A, samples()), flushed_instructions=True))
    rows = rank_units([timed(B, 90.0, 1), flushed], {A: "a1", B: "a1"}, {})
    assert short(rows) == [("small", "a", 1, ""), ("small", "b", None, "timed on another device only")]
