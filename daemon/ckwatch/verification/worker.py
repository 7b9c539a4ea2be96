"""The worker that verifies, `python -m ckwatch.verification.worker`: one of `ckwatch.bench` with another job."""

from __future__ import annotations

from ckwatch.bench.job import VerifyJob
from ckwatch.bench.report import BenchmarkFailure
from ckwatch.bench.worker import Send, main
from ckwatch.bench.worker_protocol import VerificationDone


def verify(job: VerifyJob, artifacts: list[bytes], tell: Send) -> VerificationDone | BenchmarkFailure:
    """Verify on the emulator; each problem's result is told at once."""
    from ckwatch.bench.progress import Progress, or_failure
    from ckwatch.verification.verify_job import verify_job

    progress = Progress(tell)
    return or_failure(progress, lambda: verify_job(job, artifacts[0], progress.at, tell))


if __name__ == "__main__":
    main({VerifyJob: verify})
