"""The query parameters that routes take; others are refused."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from ckwatch.wire.messages import ClientId, FilePath, Name


class NoQuery(BaseModel):
    """None."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AsClient(NoQuery):
    """As the client sees it, with its unsaved text; else as it is on disk."""

    client: ClientId | None = None


class SinceQuery(AsClient):
    """What comes after a number; without it, after now."""

    after: Annotated[int, Field(ge=0, lt=2**63)] | None = None


class UnitsQuery(AsClient):
    """Patterns as on the command line, or none for all."""

    pattern: list[Name] | None = None


class SourceQuery(AsClient):
    """`map`: also where each piece came from."""

    map: bool = False


class IsaQuery(AsClient):
    """A kernel by its readable name or its symbol, the main one without. `lines`: with source lines, for which the
    device code may be compiled once more."""

    symbol: Name | None = None
    lines: bool = True


class RunsQuery(NoQuery):
    """The newest so many."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 20


class FileQuery(AsClient):
    """The file's absolute path."""

    path: FilePath


class LogQuery(NoQuery):
    """The last so many lines."""

    lines: Annotated[int, Field(ge=1, le=100_000)] = 100


class DevicesQuery(NoQuery):
    """`again`: look anew."""

    again: bool = False


class TimingsQuery(NoQuery):
    """The newest so many of a unit, `KERNEL/INSTANCE@ARCH`, on one shape or on all."""

    unit: Name
    shape: Name | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] = 50


class RankingQuery(NoQuery):
    """A kernel's name, and a shape's."""

    kernel: Name
    shape: Name | None = None


class PredictedQuery(NoQuery):
    """A kernel's name, a shape's, an arch that it is compiled for, and a part (`MI300X`), the fastest without."""

    kernel: Name
    shape: Name
    arch: Name | None = None
    part: Annotated[str, Field(max_length=64)] = ""


class CompareQuery(NoQuery):
    """A unit, what it is compared with, and a shape's name."""

    unit: Name
    against: Name
    shape: Name | None = None


async def takes_no_query(_query: Annotated[NoQuery, Query()]) -> None:
    """Refuses all query parameters of a route that has none."""
