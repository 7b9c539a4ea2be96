"""Benchmarks on devices: a disposable worker per measurement, and the session that speaks with it.

Daemon's side: `session` starts a worker, bounds it, and turns every way in which it can end into a `Report` or a
`Failure`. Worker's side: `worker` takes one job, `measuring` does it on a `runtimes.protocol.Runtime`, `numerics` makes
inputs and references, `lease` keeps others off the device. `frames` is the language between them.
"""
