"""Units with figures that no device gave and no compiler made: round numbers, to see how they are written."""

from __future__ import annotations

from typing import Any

from ckwatch.model.figures import Figures
from ckwatch.model.text import Position, Span
from ckwatch.model.timings import Comparison, Timing, VerdictName
from ckwatch.wire.state import Cause, Unit, VerificationBrief

PATH = "/ws/k.kernel.toml"


def timing(median_us: float = 50.0, shape: str = "4096", **changes: Any) -> Timing:
    """100 TFLOP/s and half of the bound, with an error of 1 %."""
    fields: dict[str, Any] = {
        "id": 1, "unit": "k/one@gfx942", "kernel": "k", "instance": "one", "arch": "gfx942", "shape": shape,
        "cache": "cold", "device": "none", "device_description": "made up for a test", "median_us": median_us,
        "minimum_us": median_us, "q1_us": median_us, "q3_us": median_us, "relative_error": 0.01, "samples": 10,
        "tflops": 100.0, "bound_us": 25.0, "bound_percent": 50.0, "artifact_key": "a1",
    }  # fmt: skip
    return Timing(**(fields | changes))


def compared(ratio: float, verdict: VerdictName = "FAST", against: str = "previous") -> Comparison:
    """With something else that took 100 µs."""
    return Comparison(verdict=verdict, ratio=ratio, against=against, other_median_us=100.0)


def figures(**changes: Any) -> Figures:
    """Of a kernel that nobody compiled."""
    fields: dict[str, Any] = {
        "artifact_key": "a1", "standing": "fresh", "kernel": "k", "kernels": 1, "vgprs": 100, "agprs": 0, "sgprs": 50,
        "vgpr_spills": 0, "sgpr_spills": 0, "scratch_bytes": 0, "lds_bytes": 1000, "occupancy": 5, "limited_by": "VGPR",
        "matrix_use": 0.5, "loop_clocks": 200.0,
    }  # fmt: skip
    return Figures(**(fields | changes))


def verified(**changes: Any) -> VerificationBrief:
    """Of a kernel that nobody executed."""
    fields: dict[str, Any] = {
        "artifact_key": "a1", "standing": "fresh", "outcome": "verified", "device": "emulated:gfx942",
        "summary": "✓ verified (emulated gfx942)", "problems": 12, "findings": 0,
    }  # fmt: skip
    return VerificationBrief(**(fields | changes))


def unit(name: str = "one", line: int = 0, **changes: Any) -> Unit:
    """The unit `k/NAME@gfx942`, built; its name stands on `line` of the kernel file."""
    arch = changes.get("arch", "gfx942")
    place = Span(path=PATH, start=Position(line=line, column=7), end=Position(line=line, column=12))
    fields: dict[str, Any] = {
        "id": f"k/{name}@{arch}", "kernel": "k", "instance": name, "arch": arch, "place": place, "phase": "done",
        "outcome": "built", "fresh": True, "generation": 1, "errors": 0, "warnings": 0, "seconds": 2.0,
        "cause": (Cause(what="k.hip.j2 changed", at=1.0),),
    }  # fmt: skip
    return Unit(**(fields | changes))
