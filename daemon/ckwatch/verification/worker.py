"""The worker that verifies, `python -m ckwatch.verification.worker`: one of `ckwatch.bench` with another job."""

from ckwatch.bench.job import RunnerDataJob, VerifyJob
from ckwatch.bench.worker import main

if __name__ == "__main__":
    main(
        {
            VerifyJob: ("ckwatch.verification.verify_job", "verify_job"),
            RunnerDataJob: ("ckwatch.bench.runner_data", "runner_data"),
        }
    )
