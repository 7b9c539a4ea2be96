"""Timings of a run's instances, each on a device that has nothing else to do for the run."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from glob import escape
from typing import TYPE_CHECKING

import anyio

from ckwatch.bench.report import KERNEL_FAILURES, FailureKind
from ckwatch.model.errors import LOST_ERRORS, CkwatchError
from ckwatch.tuning.client import TRIES
from ckwatch.tuning.results import INTERVAL_ERRORS, EvaluationStatus, ShapeResult

if TYPE_CHECKING:
    from ckwatch.model.timings import Timing
    from ckwatch.tuning.client import TuningClient
    from ckwatch.wire.benchmarks import Device

STATUS_OF: Mapping[str, EvaluationStatus] = {
    **{kind.value: EvaluationStatus.CRASHED for kind in KERNEL_FAILURES},
    **{
        kind.value: EvaluationStatus.WRONG
        for kind in (
            *(FailureKind.WRONG, FailureKind.UNWRITTEN, FailureKind.OUT_OF_BOUNDS, FailureKind.NONDETERMINISTIC),
            FailureKind.IMPOSSIBLE,
        )
    },
    FailureKind.HUNG.value: EvaluationStatus.HUNG,
    FailureKind.REFUSED.value: EvaluationStatus.REFUSED,
    FailureKind.LOCAL_MEMORY.value: EvaluationStatus.REFUSED,
}
"""The status of an instance whose measurement failed, by the kind of the failure."""


class Measurements:
    """The devices of a run, and timings on them."""

    def __init__(self, client: TuningClient, devices: Sequence[Device], retry_s: float) -> None:
        self._client = client
        self._retry_s = retry_s
        self._free = deque(devices)
        self._turns = anyio.Semaphore(len(devices))

    @asynccontextmanager
    async def device(self) -> AsyncIterator[Device]:
        """A device that nothing else of this run is timed on meanwhile."""
        async with self._turns:
            device = self._free.popleft()
            try:
                yield device
            finally:
                self._free.append(device)

    async def result(self, unit: str, shape: str, device: Device, limit_us: float | None) -> ShapeResult:
        """Time a unit on a shape. Raises CkwatchError where the machine, not the kernel, is why that fails."""
        why = ""
        for attempt in range(TRIES):
            if attempt:
                await anyio.sleep(self._retry_s)
            racing = self._client.bench(
                escape(unit), shapes=[shape], device=device.address, race=True, limit_us=limit_us
            )
            try:
                async with racing as lines:
                    async for line in lines:
                        if line.event == "timing" and line.timing is not None:
                            if line.timing.failure is None or line.timing.failure in STATUS_OF:
                                return shape_result(line.timing, shape)
                            why = line.timing.message
                        elif line.event == "skipped":
                            why = line.text
            except LOST_ERRORS as error:
                why = error.message
        raise CkwatchError(f"'{unit}' could not be timed on {device.label}: {why}")


def shape_result(timing: Timing, shape: str) -> ShapeResult:
    """Convert a timing to an instance's result; its interval holds the true median with a probability of 95 %."""
    if timing.failure is not None:
        status = STATUS_OF.get(timing.failure, EvaluationStatus.CRASHED)
        return ShapeResult(shape=shape, status=status, reason=timing.message)
    if not timing.verified:
        return ShapeResult(shape=shape, status=EvaluationStatus.WRONG, reason="its result was not verified")
    away_us = INTERVAL_ERRORS / 2 * timing.relative_error * timing.median_us
    return ShapeResult(
        shape=shape,
        status=EvaluationStatus.DROPPED if timing.given_up else EvaluationStatus.MEASURED,
        median_us=timing.median_us,
        low_us=timing.median_us - away_us,
        high_us=timing.median_us + away_us,
        reason="clearly slower than the best" if timing.given_up else "",
    )
