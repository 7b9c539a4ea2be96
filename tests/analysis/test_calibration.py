"""How far predictions were off."""

from __future__ import annotations

import pytest

from ckwatch.analysis.calibration import Pair, calibrate


def pair(unit: str, predicted: float, measured: float, shape: str = "s", bound: float | None = None) -> Pair:
    return Pair(unit=unit, shape=shape, device="hip:0", predicted_us=predicted, measured_us=measured, bound_us=bound)


def test_without_pairs_there_is_nothing() -> None:
    assert calibrate(()) is None


def test_the_worst_comes_first_and_a_common_ratio_is_not_off() -> None:
    good, fair, bad = pair("good", 100, 120), pair("fair", 200, 240), pair("bad", 100, 480)
    found = calibrate((good, fair, bad))
    assert found is not None
    assert found.pairs == (bad, fair, good)
    assert found.ratio == pytest.approx(1.2)
    # 1, 1 and 4 times the common ratio
    assert found.off == pytest.approx(4 ** (1 / 3))


def test_too_slow_a_prediction_is_as_wrong_as_too_fast_a_one() -> None:
    found = calibrate((pair("slow", 100, 50), pair("fast", 100, 200), pair("right", 100, 100)))
    assert found is not None
    assert found.ratio == 1.0
    assert found.off == pytest.approx(2 ** (2 / 3))


@pytest.mark.parametrize(
    ("pairs", "order"),
    [
        ((pair("a", 1, 10), pair("b", 2, 20), pair("c", 3, 30)), 1.0),
        ((pair("a", 1, 30), pair("b", 2, 20), pair("c", 3, 10)), 0.0),
        ((pair("a", 1, 10), pair("b", 2, 30), pair("c", 3, 20)), 2 / 3),
        # a tie in the prediction puts nothing in order; one in the measurement asks nothing
        ((pair("a", 1, 10), pair("b", 1, 20)), 0.0),
        ((pair("a", 1, 10), pair("b", 2, 10)), None),
        ((pair("a", 1, 10), pair("b", 2, 20, shape="t")), None),
    ],
)
def test_orders(pairs: tuple[Pair, ...], order: float | None) -> None:
    found = calibrate(pairs)
    assert found is not None
    assert found.order == (None if order is None else pytest.approx(order))


def test_what_is_below_its_bound_stands_out() -> None:
    wrong = pair("wrong", 100, 80, bound=90)
    found = calibrate((wrong, pair("right", 100, 95, bound=90), pair("unknown", 100, 10)))
    assert found is not None
    assert found.below_bound == (wrong,)
