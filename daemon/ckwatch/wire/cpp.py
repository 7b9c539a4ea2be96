"""Questions about the C++ in templates, kernel files, rendered sources and headers, and their answers.

Answers are those of the Language Server Protocol, as JSON. Places are in the file that is asked about, and count code
points. `rendered:KERNEL/INSTANCE@ARCH` is the URI of a unit's rendered source, where no template has a place.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ckwatch.wire.schema import ClientId, Coordinate, FilePath, Name, Request
from ckwatch.wire.values import Value

CppQuestion = Literal[
    "hover",
    "completion",
    "signatures",
    "definition",
    "type-definition",
    "implementation",
    "references",
    "highlights",
    "symbols",
    "tokens",
    "hints",
    "prepare-rename",
    "rename",
    "actions",
    "prepare-calls",
    "incoming-calls",
    "outgoing-calls",
]

ABOUT_DOCUMENT = frozenset({"symbols", "tokens"})
ABOUT_CALL = frozenset({"incoming-calls", "outgoing-calls"})

RENDERED = "rendered:"
"""Begins the URI of a unit's rendered source."""

Side = Literal["host", "device"]
"""As what HIP and CUDA compile a text: each side passes over some of it."""


class Place(Request):
    """A place between two code points of a line; both count from zero."""

    line: Coordinate
    character: Coordinate


class FunctionItem(Request):
    """The `data` of a `CallHierarchyItem`: where clangd's text is, and the function there in clangd's own words."""

    unit: Name
    side: Side
    path: FilePath | None
    item: dict[str, Any]

    @model_validator(mode="after")
    def _complete(self) -> FunctionItem:
        if not isinstance(self.item.get("uri"), str):
            raise ValueError("`item` has no `uri`")
        return self


class CppRequest(Request):
    """A question about the C++ at a place.

    `path` is a template, a kernel file or a header; without it the rendered source of `unit` is meant. `unit` is whose
    text answers: without it the first that is made of the file. `start` is the place, `end` the other end of a range
    (`actions`, `hints`). `side`: without it the host, or the device where the host passes over the text. `trigger` is
    the character that has just been typed (`completion`, `signatures`), `name` the new one (`rename`), `call` the
    `data` of the function (`incoming-calls`, `outgoing-calls`). `declaration`: `references` include it. `others`: a
    hover also says where the type or value is different in other instances. An answer that needs longer than
    `patience_s` is one with `ready` false.
    """

    question: CppQuestion
    path: FilePath | None = None
    unit: Name | None = None
    start: Place | None = None
    end: Place | None = None
    side: Side | None = None
    trigger: Annotated[str, Field(max_length=1)] = ""
    name: Annotated[str, Field(max_length=4096)] = ""
    call: FunctionItem | None = None
    declaration: bool = True
    others: bool = False
    patience_s: Annotated[float, Field(ge=0, le=600)] | None = None
    client: ClientId | None = None

    @model_validator(mode="after")
    def _complete(self) -> CppRequest:
        if self.question in ABOUT_CALL:
            if self.call is None:
                raise ValueError(f"`{self.question}` needs `call`")
        elif self.path is None and self.unit is None:
            raise ValueError("give `path` or `unit`")
        elif self.start is None and self.question not in {*ABOUT_DOCUMENT, "hints"}:
            raise ValueError(f"`{self.question}` needs `start`")
        if self.question == "rename" and not self.name:
            raise ValueError("`rename` needs `name`")
        return self


class CppAnswer(Value):
    """The answer to a question; `result` is None or empty where there is none, which `reason` explains.

    `result` is what the protocol has, with the following differences. A hover also has `produced`, the text in the
    rendered source where the template has an expression or the kernel file a value, and `others`: each `text` with the
    `units` in which it is the type or value there, none where it is that of another round of a loop. A token is its
    line, its place in it, its length, its type and its modifiers, by name.

    `unit` and `side` are whose text answered. `digest` is the SHA-256 of the asked file's text that the answer is
    about, in UTF-8; empty where no text of the unit comes from it. Not `ready`: clangd is being fetched or started, or
    reads the headers; ask again.
    """

    unit: str = ""
    side: Side = "host"
    digest: str = ""
    ready: bool = True
    reason: str = ""
    result: Any = None
