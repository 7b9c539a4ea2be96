"""Predictions against stored timings. No device took them: their numbers are round, and the devices are made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benches.timing_records import record
from benches.timing_records import report as measurement
from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.timings import TimingRecord, Timings
from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.core.events import Cause, CompileFacts, ShapeTiming, UnitKey
from ckwatch.core.phases import Phase
from ckwatch.core.unit_state import CompileState, TimingState, UnitState
from ckwatch.engine.queries.analysis import calibration_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Outcome, Shape
from ckwatch.model.timings import Timing
from ckwatch.wire.analysis import Calibrated
from helpers.kernel_reports import TILE_128, kernel, report
from helpers.units import place, unit

NAME = "k/first@gfx942"
FAKE = "a made-up MI300X"
SIZES = dict.fromkeys(("M", "N", "K", "LDA", "LDB", "LDC", "LDD"), 4096)
SHAPE = Shape("4096", SIZES, {"kBatch": 1}, place())


def timing(median_us: float = 150.0, **changes: Any) -> Timing:
    fields: dict[str, Any] = {
        "id": 1, "unit": NAME, "kernel": "k", "instance": "first", "arch": "gfx942", "shape": "4096", "cache": "cold",
        "device": "hip:0", "device_description": FAKE, "median_us": median_us, "artifact_key": "a",
    }  # fmt: skip
    return Timing(**(fields | changes))


def state(*rows: Timing, fresh: bool = True, artifact: str = "a") -> UnitState:
    """A unit with these timings of the artifact `artifact`; the present one is `a`."""
    parameters: dict[str, Any] = dict(TILE_128)
    model = unit("k.hip.j2", **parameters)
    model = replace(model, kernel=replace(model.kernel, shapes=(SHAPE,)))
    return UnitState(
        UnitKey("", NAME),
        model,
        Cause("test", 0.0),
        Phase.DONE if fresh else Phase.WAITING,
        compile=CompileState(CompileFacts(Outcome.BUILT, "t", "a")),
        timing=TimingState({"4096": ShapeTiming("4096", artifact, tuple(rows))}),
    )


class Stored(Timings):
    """Timings in memory; `found` None: the history cannot be used."""

    def __init__(self, found: TimingRecord | None) -> None:
        self._record = found

    def one(self, number: int) -> TimingRecord | None:
        assert number == 1
        if self._record is None:
            raise HistoryError("the history is damaged")
        return self._record


def on_device(units: int) -> Stored:
    device = replace(measurement().device, description=FAKE, compute_units=units)
    return Stored(record(NAME, report=measurement(device=device)))


async def report_of(_unit: UnitState) -> CodeObjectReport:
    return report(kernel())


async def calibrated(*units: UnitState, timings: Timings | None = None) -> Calibrated:
    return await calibration_of(units, report_of, timings)


async def test_a_timing_with_its_prediction() -> None:
    found = await calibrated(state(timing()))
    assert (found.timed, found.notes) == (1, ())
    assert found.calibration is not None
    (pair,) = found.calibration.pairs
    assert (pair.unit, pair.shape, pair.device) == (NAME, "4096", f"hip:0 ({FAKE})")
    assert (pair.measured_us, found.calibration.ratio) == (150.0, 150.0 / pair.predicted_us)
    assert pair.bound_us is not None
    assert 100 < pair.bound_us <= pair.predicted_us < 150


async def test_a_part_of_a_device_is_predicted_as_that() -> None:
    whole = await calibrated(state(timing()), timings=on_device(304))
    part = await calibrated(state(timing()), timings=on_device(38))
    assert whole.calibration is not None
    assert part.calibration is not None
    assert part.calibration.pairs[0].predicted_us > 6 * whole.calibration.pairs[0].predicted_us
    assert whole == await calibrated(state(timing()), timings=Stored(None))


@pytest.mark.parametrize(
    "unit_state",
    [
        state(),
        state(timing(), fresh=False),
        state(timing(), artifact="b"),
        state(timing(cache="hot")),
        state(timing(0.0, failure="wrong result")),
    ],
    ids=["not timed", "edited", "other artifact", "hot", "failed"],
)
async def test_what_is_no_fresh_timing(unit_state: UnitState) -> None:
    assert await calibrated(unit_state) == Calibrated()


async def test_why_a_timing_has_no_prediction() -> None:
    unknown = await calibrated(state(timing(device_description="a made-up GPU")))
    assert unknown == Calibrated(timed=1, notes=("no predictions for a made-up GPU (gfx942)",))

    async def no_loop(_unit: UnitState) -> CodeObjectReport:
        return report(kernel(with_loop=None))

    found = await calibration_of([state(timing())], no_loop, None)
    assert found == Calibrated(timed=1, notes=(f"{NAME} on 4096: no main loop was found: only a bound",))

    async def gone(_unit: UnitState) -> CodeObjectReport:
        raise CkwatchError("it was evicted", "build it")

    assert await calibration_of([state(timing())], gone, None) == Calibrated(timed=1, notes=("it was evicted",))
