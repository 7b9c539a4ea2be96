"""What a benchmark is asked and what came of it, as plain values; what the numbers mean.

A `Job` goes to a worker, a `Report` or a `Failure` comes back. All of it is made of frozen dataclasses that
`ckwatch.bench.frames` writes as JSON.
"""
