"""The program that a profiler runs: `python -m ckwatch.bench.profiled_launch FOLDER` launches one unit's kernels.

`FOLDER` holds the job and the artifacts (`write_job`); what became of it is written there, too (`read_result`). Unlike
a benchmark's worker it ends as programs do, because profilers write their files then.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter
from pydantic_core import to_json

from ckwatch.bench.job import Job
from ckwatch.bench.progress import Progress, or_failure
from ckwatch.bench.report import BenchmarkFailure
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.python_process import module_command
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, read_file

_JOB, _RESULT = "job.json", "result.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLaunch:
    """A launch of a job's one contestant on its first seed, which is repeated for `seconds` (0: once). `artifacts`: the
    number of files that go along."""

    job: Job
    artifacts: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchesDone:
    """The outcome: `launches` on `device`, or the failure."""

    launches: int = 0
    device: DeviceFacts | None = None
    failure: BenchmarkFailure | None = None


def launch_command(folder: Path) -> tuple[str, ...]:
    """The command that does the job in `folder`."""
    return module_command("ckwatch.bench.profiled_launch", str(folder))


def write_job(folder: Path, launch: ProfiledLaunch, artifacts: Sequence[bytes]) -> None:
    """Write a job with its artifacts to `folder`, which exists. Raises OSError."""
    (folder / _JOB).write_bytes(to_json(launch, inf_nan_mode="constants"))
    for number, content in enumerate(artifacts):
        _artifact(folder, number).write_bytes(content)


def read_result(folder: Path) -> LaunchesDone | None:
    """The outcome of the job; None for a program that ended before it could say."""
    try:
        return TypeAdapter(LaunchesDone).validate_json(read_file(folder / _RESULT))
    except (OSError, ValueError):
        return None


def _artifact(folder: Path, number: int) -> Path:
    return folder / f"artifact{number}.so"


def main(folder: Path) -> None:
    """Do the job in `folder`."""
    launch = TypeAdapter(ProfiledLaunch).validate_json(read_file(folder / _JOB))
    artifacts = [read_file(_artifact(folder, number), BINARY_LIMIT_BYTES) for number in range(launch.artifacts)]
    whereabouts = Progress(lambda _: None)
    done = or_failure(whereabouts, lambda: _launched(launch, artifacts, whereabouts))
    found = LaunchesDone(failure=done) if isinstance(done, BenchmarkFailure) else done
    (folder / _RESULT).write_bytes(to_json(found, inf_nan_mode="constants"))


def _launched(launch: ProfiledLaunch, artifacts: Sequence[bytes], whereabouts: Progress) -> LaunchesDone:
    from ckwatch.bench.run_job import Measurement, open_device  # numpy comes with it

    _, runtime = open_device(launch.job, time.monotonic() + launch.job.lease_wait_s, whereabouts)
    launches = Measurement(runtime, launch.job, whereabouts.at).launch_for(artifacts, launch.seconds)
    return LaunchesDone(launches=launches, device=runtime.facts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
