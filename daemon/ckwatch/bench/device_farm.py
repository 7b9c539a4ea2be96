"""Other machines as the daemon uses them to time kernels on their devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ckwatch.bench.job import Job
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport
from ckwatch.bench.worker_session import OnMessage
from ckwatch.model.gpu_specs import DeviceFacts


class DeviceFarm(Protocol):
    """Machines that announce devices. `MeasureRunner.farm_changed` is called whenever `devices` changes."""

    def devices(self) -> Sequence[DeviceFacts]:
        """The devices there are now, each with its `machine`. Cheap, without I/O."""
        ...

    async def measure(
        self,
        job: Job,
        artifacts: Sequence[bytes],
        device: DeviceFacts,
        *,
        time_limit_s: float,
        on_message: OnMessage | None,
    ) -> BenchmarkReport | BenchmarkFailure:
        """As `ckwatch.bench.worker_session.measure`, by a worker of the device's machine.

        Raises CkwatchError where the machine cannot, or is not there any more.
        """
        ...
