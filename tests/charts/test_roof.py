"""The roofline as far as timings show it. Peaks and bandwidths are round numbers that no device has."""

from __future__ import annotations

import pytest

from ckwatch.charts.roof import Point, Roof, points_of, roof_of
from ckwatch.wire.timings import Timing

PEAK, BANDWIDTH = 100.0, 2.0


def point(intensity: float, cache: str = "cold", bound: float | None = -1.0) -> Point:
    """A point below the roof of PEAK and BANDWIDTH."""
    roof = min(PEAK, BANDWIDTH * intensity)
    return Point(
        shape=f"s{intensity}",
        cache=cache,
        intensity=intensity,
        tflops=roof / 2,
        bound_tflops=roof if bound == -1.0 else bound,
    )


@pytest.mark.parametrize(
    ("intensities", "expected"),
    [
        ([], (None, None)),
        ([10.0], (None, None)),  # one bound may be either's
        ([80.0], (None, None)),
        ([10.0, 20.0], (BANDWIDTH, None)),
        ([60.0, 90.0], (None, PEAK)),
        ([10.0, 90.0], (BANDWIDTH, PEAK)),
        ([10.0, 20.0, 60.0, 90.0], (BANDWIDTH, PEAK)),
        ([10.0, 10.0], (None, None)),
    ],
)
def test_the_roof(intensities: list[float], expected: tuple[float | None, float | None]) -> None:
    roof = roof_of([point(intensity) for intensity in intensities])
    assert (roof.bandwidth_tbs, roof.peak_tflops) == expected
    assert roof.ridge == (50.0 if None not in expected else None)


def test_hot_caches_and_unknown_bounds_say_nothing() -> None:
    points = [point(10.0, bound=None), point(20.0, "hot"), point(90.0, "hot")]
    assert roof_of(points) == Roof(bandwidth_tbs=None, peak_tflops=None)


def timing(**changes: object) -> Timing:
    fields: dict[str, object] = {
        "id": 1, "unit": "k/a@gfx942", "kernel": "k", "instance": "a", "arch": "gfx942", "shape": "s", "cache": "cold",
        "device": "hip:0", "device_description": "test device", "median_us": 100.0, "tflops": 40.0, "gbps": 1000.0,
        "bound_us": 50.0,
    }  # fmt: skip
    return Timing.model_validate(fields | changes)


def test_points() -> None:
    # 40 TFLOP/s at 1 TB/s are 40 operations for each byte
    assert points_of([timing()]) == [Point(shape="s", cache="cold", intensity=40.0, tflops=40.0, bound_tflops=80.0)]
    assert [one.bound_tflops for one in points_of([timing(bound_us=None)])] == [None]
    left_out = [timing(failure="wrong result"), timing(tflops=None), timing(gbps=None), timing(tflops=0.0)]
    assert points_of(left_out) == []
