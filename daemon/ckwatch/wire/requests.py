"""Requests whose JSON is declared as a whole; that of others follows from their endpoints."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ckwatch.wire.schema import FilePath, Name, Request

OVERLAY_LIMIT = 16 * 1024 * 1024
"""Characters of one unsaved text."""


class OverlayRequest(Request):
    """Use the unsaved text of an editor in place of a file; null: the file again."""

    path: FilePath
    text: Annotated[str, Field(max_length=OVERLAY_LIMIT)] | None


class FocusRequest(Request):
    """A client's view: these units (patterns), and those of these files, come first.

    `everything`: it also wants every unit built, as long as it is connected. `unsaved`: which units that its unsaved
    texts have changed are compiled without a request: all, those that it views, or none.
    """

    units: list[Name] = Field(default_factory=list)
    files: list[Name] = Field(default_factory=list)
    everything: bool = False
    unsaved: Literal["edited", "looked-at", "none"] = "edited"


class ViewRequest(Request):
    """How a client's view differs from the workspace, besides unsaved text."""

    archs: list[Name] = Field(default_factory=list)
    rules: bool = True
    header_warnings: bool | None = None


class EditorRequest(Request):
    """A client's declaration that it is an editor. `shows`: it shows places, and its event stream has the topic
    `show`."""

    shows: bool = False
