"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import rebuilding, rendering
from benchmarks.reporting import write

write([*rendering.measure(), *rebuilding.measure()])
