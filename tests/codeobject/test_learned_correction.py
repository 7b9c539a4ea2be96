"""The factor that public measurements say, and where it applies."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from ckwatch.codeobject.gemm_time import GemmSizes, estimated_figures, gemm_time
from ckwatch.codeobject.learned_correction import (
    PredictionRecord,
    features,
    instance_key,
    is_learned_for,
    learned_correction,
    read_correction,
)
from gemm_instances import INSTANCE, MACHINE

SIZES = GemmSizes(m=100, n=1024, k=1024, x_bytes=1, w_bytes=1, y_bytes=2)
FOUND = gemm_time(INSTANCE, estimated_figures(INSTANCE, SIZES), SIZES, MACHINE)
RECORD = '{"shapes": 396, "first": 0.64, "first_five": 0.92, "off": 0.084}'


def test_a_factor_is_the_sum_of_weights() -> None:
    text = (
        '{"source": "us", "weights": {"always": 0.1, "used rows": 2.0}, "records": {"learned": %s},'
        ' "instances": {"256x128x128x128_32x32_2x2_intrawave_v3": 0.2}}'
    )
    known = read_correction(text % RECORD)
    assert log(known.factor(INSTANCE, SIZES, FOUND, 64)) == pytest.approx(0.1 + 2 * log(100 / 128) + 0.2)
    other = replace(INSTANCE, pipeline="v1")
    assert log(known.factor(other, SIZES, FOUND, 64)) == pytest.approx(0.1 + 2 * log(100 / 128))
    assert str(known.records["learned"]) == (
        "right first choice 64 %, among the first five 92 %, times off by 8 % in the median, over 396 shapes"
    )


def test_features_have_names() -> None:
    found = features(INSTANCE, SIZES, FOUND, 64)
    assert found["v3 intrawave"] == 1.0
    assert found["CUs in use"] == pytest.approx(log(8 / 64))
    assert found["tile's depth"] == found["16×16 instructions"] == 0.0
    assert "slices of K" not in found


def test_what_ships_was_judged_on_what_its_fit_had_not_seen() -> None:
    known = learned_correction()
    assert set(known.records) == {"formulas", "learned", "learned, other N and K"}
    assert all(isinstance(record, PredictionRecord) for record in known.records.values())
    assert known.weights.keys() >= features(INSTANCE, SIZES, FOUND, 64).keys()
    assert instance_key(INSTANCE) in known.instances
    assert 0.3 < known.factor(INSTANCE, SIZES, FOUND, 64) < 3


@pytest.mark.parametrize(
    ("x", "w", "arch", "matrices", "expected"),
    [
        ("i8", "i8", "gfx950", 1, True),
        ("f8", "f8", "gfx942", 1, True),
        ("f8", "bf8", "gfx950", 1, False),
        ("f16", "f16", "gfx950", 1, False),
        ("i8", "i8", "gfx90a", 1, False),
        ("i8", "i8", "gfx950", 16, False),
    ],
)
def test_where_it_applies(x: str, w: str, arch: str, matrices: int, expected: bool) -> None:
    assert is_learned_for(x, w, arch, matrices) is expected
