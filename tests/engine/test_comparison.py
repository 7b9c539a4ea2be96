"""A unit's timings against what the history has of others, in a real file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benches.timing_records import DEVICE, failed, measured, record, report, samples
from ckwatch.bench.history.timings import TimingRecord, Timings
from ckwatch.bench.report import ContestantResult
from ckwatch.engine.comparison import compare_interleaved_results, compare_results, compare_timings
from ckwatch.model.errors import CkwatchError
from ckwatch.model.roofline import CacheState
from ckwatch.wire.benchmarks import Compared
from ckwatch.wire.encoding import adapter, to_json
from helpers.own_timings import OwnTimings

UNIT, OTHER = "gemm/m128@gfx942", "gemm/m256@gfx942"
SLOW, FAST = [110.0, 110.1, 110.2] * 10, [100.0, 100.1, 100.2] * 10


@pytest.fixture
def timings(tmp_path: Path) -> Iterator[Timings]:
    made = OwnTimings(tmp_path / "history.sqlite")
    made.open()
    with closing(made):
        yield made


def timed(times_us: list[float], unit: str = UNIT, **changes: Any) -> TimingRecord:
    return record(unit, times_us, problem=None, **changes)


def against(timings: Timings, other: str, shape: str | None = None) -> list[Compared]:
    return compare_timings(timings, UNIT, other, shape, present={UNIT: "a1", OTHER: "a1"})


def verdicts(rows: list[Compared]) -> list[tuple[str, str, str]]:
    return [(row.shape, row.cache, row.why_not if row.comparison is None else row.comparison.verdict) for row in rows]


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(SLOW, FAST, "SLOW"), (FAST, SLOW, "FAST"), (FAST, FAST, "SAME"), (FAST, [90.0, 101.0, 200.0] * 10, "UNSURE")],
)
def test_another_unit(timings: Timings, ours: list[float], theirs: list[float], verdict: str) -> None:
    timings.add([timed(ours), timed(theirs, OTHER)])
    (row,) = against(timings, OTHER)
    assert row.comparison is not None
    assert (row.comparison.verdict, row.comparison.against, row.why_not) == (verdict, OTHER, "")
    assert row.comparison.ratio == pytest.approx(sorted(ours)[15] / sorted(theirs)[15], rel=1e-3)
    assert (row.ours, row.theirs, row.shape, row.cache) == (UNIT, OTHER, "small", "cold")
    assert row.timing is not None
    assert row.other is not None
    assert (row.timing.unit, row.other.unit) == (UNIT, OTHER)
    assert row.other.median_us == row.comparison.other_median_us
    assert adapter(Compared).validate_json(to_json(row)) == row


def test_only_what_is_alike_is_compared(timings: Timings) -> None:
    elsewhere = report(measured(OTHER), device=type(DEVICE)(name="hip:1", description="another", arch="gfx942"))
    timings.add(
        [
            *(timed(FAST, shape=shape) for shape in ("alike", "only ours", "sizes", "split", "device", "failed")),
            timed(SLOW, OTHER, shape="alike"),
            timed(SLOW, OTHER, shape="sizes", sizes={"M": 11}),
            timed(SLOW, OTHER, shape="split", runtime={"kBatch": 2}),
            timed(SLOW, OTHER, shape="device", report=elsewhere),
            failed(OTHER, shape="failed"),
            timed(SLOW, OTHER, shape="only theirs"),
        ]
    )
    assert sorted(verdicts(against(timings, OTHER))) == [
        ("alike", "cold", "FAST"),
        ("device", "cold", f"{OTHER} was timed on another device"),
        ("failed", "cold", f"{OTHER} has no timing on this shape"),
        ("only ours", "cold", f"{OTHER} has no timing on this shape"),
        ("sizes", "cold", f"{OTHER} was timed when the shape had other sizes"),
        ("split", "cold", f"{OTHER} was timed when the shape had other sizes"),
    ]
    assert verdicts(against(timings, OTHER, "alike")) == [("alike", "cold", "FAST")]
    # a device of the same product stands in, and is named
    like = report(measured(OTHER), device=replace(DEVICE, name="hip:1", pci="0000:99:00.0", machine="gpu-box"))
    timings.add([timed(SLOW, OTHER, shape="only ours", report=like)])
    (row,) = against(timings, OTHER, "only ours")
    assert row.comparison is not None
    assert row.comparison.other_device == "hip:1 on gpu-box"
    timings.add([timed(SLOW, OTHER, shape="only ours")])
    (row,) = against(timings, OTHER, "only ours")
    assert row.comparison is not None
    assert row.comparison.other_device == ""


def test_each_cache_state_by_itself(timings: Timings) -> None:
    both = report(measured(UNIT, samples(CacheState.COLD, *FAST), samples(CacheState.HOT, *FAST)))
    timings.add([timed([], report=both), timed(SLOW, OTHER)])
    assert verdicts(against(timings, OTHER)) == [
        ("small", "cold", "FAST"),
        ("small", "hot", f"{OTHER} was not timed with a hot cache"),
    ]


def test_the_artifact_before(timings: Timings) -> None:
    timings.add(
        [
            timed([300.0] * 30, artifact_key="a-1"),
            timed(SLOW, artifact_key="a0"),
            failed(artifact_key="a00"),
            timed([1.0] * 30, OTHER, artifact_key="a0"),
            timed([1.0] * 30, artifact_key="a0", shape="large"),
            timed(FAST),
            timed(FAST),
        ]
    )
    (small, large) = against(timings, "previous")
    assert small.comparison is not None
    assert (small.comparison.verdict, small.comparison.other_median_us, small.theirs) == ("FAST", 110.1, "previous")
    assert small.other is not None
    assert (small.other.standing, small.timing and small.timing.standing) == ("stale", "fresh")
    assert large.why_not == "no other artifact was timed"


def test_baselines(timings: Timings) -> None:
    timings.add([timed(SLOW, artifact_key="a0")])
    timings.set_baseline(UNIT, "old", 1.0)
    timings.add([timed(FAST, artifact_key="a0.5")])
    timings.set_baseline(UNIT, "new", 2.0)
    timings.add([timed(FAST), timed(FAST)])
    assert verdicts(against(timings, "baseline:old")) == [("small", "cold", "FAST")]
    assert verdicts(against(timings, "baseline:new")) == [("small", "cold", "SAME")]
    assert verdicts(against(timings, "baseline")) == [("small", "cold", "SAME")]
    assert [row.theirs for row in against(timings, "baseline:old")] == ["baseline old"]


BLOCKS = 24


def in_turns(level: float, blocks: int = BLOCKS) -> list[float]:
    """Blocks of ten samples of a clock that drifts by a tenth from the first to the last."""
    return [level * (1 + 0.1 * at / (10 * blocks)) for at in range(10 * blocks)]


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [((BLOCKS, BLOCKS), ("SLOW", True)), ((1, 1), ("UNSURE", False)), ((BLOCKS, 1), ("UNSURE", False))],
)
def test_the_library_took_turns(timings: Timings, blocks: tuple[int, int], expected: tuple[str, bool]) -> None:
    ours = measured(UNIT, samples(CacheState.COLD, *in_turns(102.0), blocks=blocks[0]))
    library = measured("library", samples(CacheState.COLD, *in_turns(100.0), blocks=blocks[1]))
    timings.add([timed([], report=report(ours, library))])
    (row,) = against(timings, "library")
    assert row.comparison is not None
    assert (row.comparison.verdict, row.comparison.interleaved) == expected
    assert (row.other, row.theirs) == (None, "library")
    assert row.comparison.other_median_us == pytest.approx(105, abs=0.1)


def test_few_turns_are_none() -> None:
    ours, theirs = (measured(name, samples(CacheState.COLD, *times)) for name, times in (("a", FAST), ("b", SLOW)))
    found = compare_interleaved_results(ours, theirs, CacheState.COLD, "b", 4)
    assert found is not None
    assert (found.verdict, found.interleaved) == ("FAST", False)
    assert compare_interleaved_results(ours, theirs, CacheState.HOT, "b", 20) is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(None, measured("b")), (measured("a"), None), (measured("a"), measured("b", samples(CacheState.HOT)))],
)
def test_nothing_to_compare(ours: ContestantResult | None, theirs: ContestantResult | None) -> None:
    assert compare_results(ours, theirs, CacheState.COLD, "b") is None


@pytest.mark.parametrize(
    ("other", "shape", "message"),
    [
        (OTHER, None, f"'{OTHER}' has no timings"),
        (OTHER, "nowhere", f"'{UNIT}' has no timings on the shape 'nowhere'"),
        ("previous", None, "has timings of one artifact only"),
        ("library", None, "no library was timed beside"),
        ("baseline", None, f"'{UNIT}' has no timings in any baseline"),
        ("baseline:v1", None, f"'{UNIT}' has no timings in the baseline 'v1'"),
    ],
)
def test_what_is_not_there_is_said(timings: Timings, other: str, shape: str | None, message: str) -> None:
    timings.add([timed(FAST), failed(shape="other")])
    with pytest.raises(CkwatchError) as caught:
        against(timings, other, shape)
    assert message in caught.value.message
    assert caught.value.hint is not None


def test_a_timing_is_not_compared_with_itself(timings: Timings) -> None:
    timings.add([timed(FAST)])
    timings.set_baseline(UNIT, "now", 1.0)
    assert verdicts(against(timings, "baseline")) == [
        ("small", "cold", "baseline has this very timing: nothing was measured since")
    ]


def test_some_shapes_with_a_library(timings: Timings) -> None:
    both = report(measured(UNIT, samples(CacheState.COLD, *FAST)), measured("library", samples(CacheState.COLD, *SLOW)))
    timings.add([timed([], report=both), timed(FAST, shape="large")])
    assert sorted(verdicts(against(timings, "library"))) == [
        ("large", "cold", "no library was timed beside it"),
        ("small", "cold", "FAST"),
    ]
