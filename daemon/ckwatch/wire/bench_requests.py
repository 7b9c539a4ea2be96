"""What clients ask of benchmarks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ckwatch.wire.messages import ClientId, Name, Request

DeviceName = Annotated[
    str, Field(pattern=r"^(auto|cpu|(hip|cuda):\d{1,3}|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])$")
]
BaselineName = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f:]+$")]


class BenchRequest(Request):
    """Build units and time them. `units`: patterns, or null for all; `shapes`: names, or null for all. `force` measures
    what is known too; `device` is another than the workspace's choice."""

    units: list[Name] | None = None
    shapes: list[Name] | None = None
    device: DeviceName | None = None
    force: bool = False
    client: ClientId | None = None


class BaselineRequest(Request):
    """What a baseline shall hold: the latest timings of these units (patterns), or of all for null."""

    units: list[Name] | None = None
