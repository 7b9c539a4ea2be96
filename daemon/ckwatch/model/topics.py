"""Topics that a client follows: a unit, a file, the workspace. Nothing else writes or reads the text of a topic."""

from __future__ import annotations

from typing import Any, Final, Literal, Self, cast

Kind = Literal["unit", "file", "workspace", "show", "heartbeat", "reset"]
"""Subjects of topics; `heartbeat` and `reset` are about the stream itself."""


class Topic(str):
    """The text of a topic: `unit/ID`, `file/PATH`, or a kind alone."""

    __slots__ = ()

    @classmethod
    def unit(cls, name: str) -> Self:
        """The topic of a unit by its id."""
        return cls(f"unit/{name}")

    @classmethod
    def file(cls, path: str) -> Self:
        """The topic of a file."""
        return cls(f"file/{path}")

    @property
    def kind(self) -> Kind:
        """Its subject."""
        return cast("Kind", self.partition("/")[0])

    @property
    def name(self) -> str:
        """The unit's id or the file's path; empty for others."""
        return self.partition("/")[2]

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, handler: Any) -> Any:
        return {"type": "function-after", "function": {"type": "no-info", "function": cls}, "schema": handler(str)}


WORKSPACE: Final = Topic("workspace")
SHOW: Final = Topic("show")
"""The place that editors are to show."""
HEARTBEAT: Final = Topic("heartbeat")
"""Nothing happened."""
RESET: Final = Topic("reset")
"""Too much was missed: take a new snapshot."""
