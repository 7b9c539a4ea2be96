"""The base of requests, and the types of their arguments and fields."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ckwatch.model.targets import DEVICE

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
SourceText = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
DeviceName = Annotated[str, Field(pattern=f"^({DEVICE})$")]
BaselineName = Annotated[
    str, Field(min_length=1, max_length=120, pattern=r"^[^\x00-\x1f\x7f:/]+$", description="a baseline's name")
]
LimitUs = Annotated[float, Field(gt=0, allow_inf_nan=False)]

CANDIDATE_LIMIT = 1000
"""Values that one request may have checked."""

READERS_LIMIT = 1000
"""Files that one request may ask about."""

TIMED_LIMIT = 200
"""Units whose timings one request may ask for: a few milliseconds for twenty of each."""

UnitIds = Annotated[list[Name], Field(max_length=TIMED_LIMIT)]
Paths = Annotated[list[FilePath], Field(max_length=READERS_LIMIT)]
CandidateValues = Annotated[list[Any], Field(max_length=CANDIDATE_LIMIT)]
ParameterValues = Annotated[dict[Name, Any], Field(max_length=CANDIDATE_LIMIT)]


class Request(BaseModel):
    """The body of a request; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
