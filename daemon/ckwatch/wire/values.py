"""The base of answers and of their parts: dataclasses, so that a client reads them without loading pydantic."""

from __future__ import annotations

from dataclasses import field
from typing import dataclass_transform

from ckwatch.model.lazy_dataclass import dataclass


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Value:
    """A part of an answer; its classes are frozen dataclasses. Newer daemons may add fields."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)
