"""Benchmarks in memory: what is asked is noted in the engine's list. No figure here was measured."""

from __future__ import annotations

from typing import Any

from ckwatch.model.timings import Timing

UNIT = "gemm/m128@gfx942"


def timing_of(unit: str = UNIT, **fields: Any) -> Timing:
    """A timing of test data."""
    kernel, _, rest = unit.partition("/")
    instance, _, arch = rest.partition("@")
    values: dict[str, Any] = {
        "id": 1, "unit": unit, "kernel": kernel, "instance": instance, "arch": arch, "shape": "test", "cache": "cold",
        "device": "hip:0", "device_description": "test data, no device", "median_us": 10.0, "minimum_us": 9.0,
        "q1_us": 9.5, "q3_us": 10.5, "samples": 20,
    }  # fmt: skip
    return Timing(**(values | fields))
