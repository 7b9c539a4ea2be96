"""Performance claims, as programs. `python -m benchmarks` runs them all and writes `benchmarks/results/latest.*`.

Each claim is a ratio against a named alternative, measured in the same run.
"""
