"""Benchmarks: a disposable worker per measurement, statistics of its samples, and the history of results.

The daemon's side: `worker_session` starts a worker, bounds its time, and turns every way in which it
can end into a `BenchmarkReport` or a `BenchmarkFailure`. The worker's side: `worker` takes one `Job`, `run_job` does it
on a device (`runtimes`) that it has leased (`leases`), with inputs and references from `numerics`. They talk in the
frames of `worker_protocol`. `stats` says what samples mean, `history` keeps them.

`ckwatch.verification` has a worker of its own with another job, of which nothing is ever a timing.
"""
