"""What all answers have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A part of an answer. Newer daemons may add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")
