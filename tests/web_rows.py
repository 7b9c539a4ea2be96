"""Units as the page has them, made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ckwatch_web.feed import Feed, TimingRow, UnitRow
from ckwatch_web.places import TextPlace

HOSTILE = "<img src=x onerror=alert(1)>"


def unit_row(name: str = "k/one@gfx942", **fields: Any) -> UnitRow:
    """A unit that was built, unless `fields` say otherwise."""
    kernel, _, rest = name.partition("/")
    instance, _, arch = rest.rpartition("@")
    values: dict[str, Any] = {
        "id": name, "kernel": kernel, "instance": instance, "arch": arch, "place": TextPlace("/w/k.kernel.toml", 4, 8),
        "phase": "done", "outcome": "built", "fresh": True, "errors": 0, "warnings": 0, "seconds": 0.0,
        "finished_at": 0.0, "cause": "", "measuring": "", "to_measure": 0, "unmeasured": "", "headline": "",
        "artifact": "", "verification": "", "verification_outcome": "", "verifying": False, "slow": "", "timings": (),
    }  # fmt: skip
    return UnitRow(**(values | fields))


def timing_row(**fields: Any) -> TimingRow:
    """A timing of 10 µs, unless `fields` say otherwise."""
    values: dict[str, Any] = {
        "id": 1, "shape": "small", "cache": "cold", "device": "MI300X", "median_us": 10.0, "minimum_us": 9.9,
        "q3_us": 10.1, "tflops": None, "gbps": None, "bound_us": None, "bound_percent": None, "verified": True,
        "standing": "fresh", "taken_at": 1.0, "failure": "", "message": "", "baseline": "", "baseline_verdict": "",
        "baseline_ratio": None, "previous_verdict": "", "previous_ratio": None,
    }  # fmt: skip
    return TimingRow(**(values | fields))


def feed_of(*rows: UnitRow, client: Any = None) -> Feed:
    """A feed that knows these units, and asks `client`."""
    feed = Feed(cast("Any", client or SimpleNamespace(root="/w")))
    feed.units = {row.id: row for row in rows}
    feed.loaded = feed.connected = True
    return feed
