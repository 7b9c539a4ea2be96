"""Units and timings as the page knows them, made up."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from ckwatch.model.timings import Timing
from ckwatch.wire.rows import TimingRow, UnitRow
from ckwatch_web.feed import Feed

DEVICE = "test device"
HOSTILE = "<img src=x onerror=alert(1)>"


def timing_row(shape: str = "s", median_us: float = 100.0, **changes: Any) -> TimingRow:
    """A cold, fresh and verified timing at 40 TFLOP/s and 1 TB/s, half of its bound."""
    fields: dict[str, Any] = {
        "id": 1, "shape": shape, "cache": "cold", "device": DEVICE, "median_us": median_us,
        "tflops": 40.0, "gbps": 1000.0, "bound_us": median_us / 2, "bound_percent": 50.0, "verified": True, "standing": "fresh", "taken_at": 1e9,
        "failure": "", "message": "", "baseline_verdict": "", "baseline_ratio": None,
        "previous_verdict": "", "previous_ratio": None,
    }  # fmt: skip
    return TimingRow(**(fields | changes))


def failed_row(shape: str = "s", failure: str = "wrong result", device: str = DEVICE) -> TimingRow:
    """A benchmark of which nothing came."""
    return timing_row(
        shape, 0.0, cache="", device=device, failure=failure, message=f"{failure}: at 1\nand more", tflops=None,
        gbps=None, bound_us=None, bound_percent=None, verified=False,
    )  # fmt: skip


def unit_row(instance: str = "a", timings: Iterable[TimingRow] = (), **changes: Any) -> UnitRow:
    """A unit that was built."""
    kernel, arch = changes.pop("kernel", "k"), changes.pop("arch", "gfx942")
    known = tuple(timings)
    fields: dict[str, Any] = {
        "id": f"{kernel}/{instance}@{arch}", "kernel": kernel, "instance": instance, "arch": arch,
        "place": "/w/k.kernel.toml:7:8", "phase": "done", "outcome": "built", "fresh": True, "errors": 0,
        "seconds": 1.0, "finished_at": 1e9, "cause": "", "measuring": "", "to_measure": 0,
        "unmeasured": "", "headline": "64 VGPR", "artifact": "a1", "verification": "", "verification_outcome": "",
        "verifying": False, "slow": "", "timings": known,
        "timed_at": max((timing.taken_at for timing in known), default=0.0),
    }  # fmt: skip
    return UnitRow(**(fields | changes))


def wire_timing(number: int = 1, median_us: float = 100.0, **changes: Any) -> Timing:
    """A timing as the client gives it."""
    fields: dict[str, Any] = {
        "id": number, "unit": "k/a@gfx942", "kernel": "k", "instance": "a", "arch": "gfx942", "shape": "s",
        "cache": "cold", "device": "hip:0", "device_description": DEVICE, "median_us": median_us,
        "minimum_us": 0.9 * median_us, "q3_us": 1.1 * median_us, "samples": 20, "verified": True, "artifact_key": "a1",
        "taken_at": 1e9 + 3600 * number, "commit": "c0ffee12345678",
    }  # fmt: skip
    return Timing(**(fields | changes))


def feed_of(units: Iterable[UnitRow], **answers: Any) -> Feed:
    """Feed that knows these units; `answers` are what the client's methods return or raise, or functions."""

    def method(answer: Any) -> Any:
        async def ask(*given: Any, **named: Any) -> Any:
            found = answer(*given, **named) if callable(answer) else answer
            if isinstance(found, Exception):
                raise found
            return found

        return ask

    feed = Feed(
        cast("Any", SimpleNamespace(root="/nowhere", **{name: method(answer) for name, answer in answers.items()}))
    )
    feed.units = {unit.id: unit for unit in units}
    return feed
