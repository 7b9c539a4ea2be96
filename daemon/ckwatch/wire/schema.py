"""Base classes of requests and answers, and the types of their fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

ClientId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
"""Chosen by the client; unique among the daemon's clients."""


FilePath = Annotated[str, Field(min_length=2, max_length=4096, pattern=r"^/[^\x00]+$")]
"""An absolute path."""


Coordinate = Annotated[int, Field(ge=0, lt=2**31)]
"""A line or a column; both count from zero."""


Name = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]
PartName = Annotated[str, Field(max_length=64)]
Count = Annotated[int, Field(ge=1, le=10_000)]
Seed = Annotated[int, Field(ge=0, lt=2**63, description="what is drawn follows from it")]
LineCount = Annotated[int, Field(ge=1, le=100_000)]
Seq = Annotated[int, Field(ge=0, lt=2**63)]
TimingNumber = Annotated[int, Field(ge=1, lt=2**63, description="a measurement's number in the history")]


class Value(BaseModel):
    """A part of an answer. Newer daemons may add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Request(BaseModel):
    """The body of a request; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
