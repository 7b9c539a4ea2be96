"""The roof above timings, and what limits each of them."""

from __future__ import annotations

import pytest

from ckwatch.model.roofline_points import Roofline, RooflinePoint, roof_of

PEAK, BANDWIDTH = 100.0, 2.0


def point(intensity: float, cache: str = "cold", bound: float | None = -1.0) -> RooflinePoint:
    """A point below the roof of PEAK and BANDWIDTH."""
    roof = min(PEAK, BANDWIDTH * intensity)
    return RooflinePoint(
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
    assert roof_of(points) == Roofline(bandwidth_tbs=None, peak_tflops=None)


def test_what_limits_a_point_is_the_part_of_the_roof_that_its_bound_lies_on() -> None:
    points = [point(10.0), point(90.0), point(90.0, "hot"), point(10.0, bound=None)]
    roof = roof_of(points)
    assert [roof.limit_of(one) for one in points] == ["memory", "matrix", "", ""]
    assert roof_of(points[:1]).limit_of(points[0]) == ""
