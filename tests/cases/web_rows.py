"""Units as the page has them, by their names, that were neither compiled nor timed here; made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from benches import timed_units
from benches.timed_units import HOSTILE
from ckwatch.wire.rows import UnitRow
from ckwatch_web.feed import Feed

__all__ = ["HOSTILE", "feed_of", "unit_row"]

FROM_THE_STORE: dict[str, Any] = {"seconds": 0.0, "finished_at": 0.0, "headline": "", "artifact": ""}


def unit_row(name: str = "k/one@gfx942", **fields: Any) -> UnitRow:
    """A unit that was built, unless `fields` say otherwise."""
    kernel, _, rest = name.partition("/")
    instance, _, arch = rest.rpartition("@")
    named: dict[str, Any] = {"kernel": kernel, "arch": arch, "place": "/w/k.kernel.toml:5:9"}
    return timed_units.unit_row(instance, **(FROM_THE_STORE | named | fields))


def feed_of(*rows: UnitRow, client: Any = None) -> Feed:
    """A feed that knows these units, and asks `client`."""
    feed = Feed(cast("Any", client or SimpleNamespace(root="/w")))
    feed.units = {row.id: row for row in rows}
    feed.loaded = feed.timed = feed.connected = True
    return feed
