"""A preload for `dask worker`: as `farm_worker`, on a machine called gpu-box with a GPU that is a stand-in.

What would be measured is made up, so that the way there and back is tested; no figure here was measured.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from distributed import Worker

sys.path.insert(0, str(Path(__file__).parent.parent))

from ckwatch.bench.job import Job
from ckwatch.bench.report import BenchmarkReport, ContestantResult, Devices, NumericsVerification, Samples
from ckwatch.bench.worker_protocol import WorkerMessage, WorkerStage
from ckwatch.farm import worker as farm_worker
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts

GPU = DeviceFacts(name="hip:0", description="test data", arch="gfx942", pci="0000:c1:00.0")
RIGHT = NumericsVerification(
    seeds=(1,), compared=1, worst_error=0.0, relative_tolerance=0.0, absolute_tolerance=0.0, reference="test data"
)


async def find_devices(_start: object) -> Devices:
    """In place of a worker that looks."""
    return Devices(devices=(GPU,))


async def measure(
    job: Job, artifacts: Sequence[bytes], _start: object, *, on_message: Callable[[WorkerMessage], None], **_: object
) -> BenchmarkReport:
    """In place of a worker that measures: as many microseconds as the artifact has bytes."""
    on_message(WorkerStage(name="timing", contestant=job.contestants[0].name))
    samples = tuple(Samples(cache=cache, times_us=(float(len(artifacts[0])),) * 40) for cache in job.caches)
    measured = tuple(
        ContestantResult(contestant=one.name, samples=samples, verification=RIGHT) for one in job.contestants
    )
    return BenchmarkReport(device=GPU, measured=measured)


async def dask_setup(worker: Worker) -> None:
    """Called by dask before the worker registers."""
    socket.gethostname = lambda: "gpu-box"
    vars(farm_worker).update(find_devices=find_devices, measure=measure)

    def no_toolchain() -> None:
        raise CkwatchError("a GPU box needs none")

    plugin = farm_worker.FarmWorker(find_toolchain=no_toolchain)  # type: ignore[arg-type]
    await worker.plugin_add(plugin, name=farm_worker.NAME, catch_errors=False)
