"""Replays searches on measured spaces: how many evaluations until a configuration is within 10, 5 and 1 % of the best.

    python -m benchmarks.search [FILE…] [--seeds 100] [--with-kernel-tuner PYTHON | --from-results]

A file is CSV: columns that end in `_ms` are GPUs, all others parameters; an empty time is a configuration that did not
run, which costs an evaluation like any other.
"""
