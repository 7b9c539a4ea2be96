"""Questions about the C++ in templates, kernel files, rendered sources and headers, and their answers.

Places are in the file that is asked about; numbers of kinds are those of the Language Server Protocol.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ckwatch.wire.schema import ClientId, Coordinate, FilePath, Name, Request, Value
from ckwatch.wire.state import Fix, Position

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

Side = Literal["host", "device"]
"""As what HIP and CUDA compile a text: each side passes over some of it."""


class Place(Request):
    """A place between two code points of a line; both count from zero."""

    line: Coordinate
    column: Coordinate


class CppRequest(Request):
    """A question about the C++ at a place.

    `path` is a template, a kernel file or a header; without it the rendered source of `unit` is meant. `unit` is whose
    text answers: without it the first that is made of the file. `start` is the place, `end` the other end of a range
    (`actions`, `hints`). `side`: without it the host, or the device where the host passes over the text. `trigger` is
    the character that has just been typed (`completion`, `signatures`), `name` the new one (`rename`), `call` the
    `CppCall.data` of the function (`incoming-calls`, `outgoing-calls`). `others`: a hover also says where the type or
    value is different in other instances. An answer that needs longer than `patience_s` is one with `ready` false.
    """

    question: CppQuestion
    path: FilePath | None = None
    unit: Name | None = None
    start: Place | None = None
    end: Place | None = None
    side: Side | None = None
    trigger: Annotated[str, Field(max_length=1)] = ""
    name: Annotated[str, Field(max_length=4096)] = ""
    call: Annotated[str, Field(max_length=65536)] = ""
    others: bool = False
    patience_s: Annotated[float, Field(ge=0, le=600)] | None = None
    client: ClientId | None = None

    @model_validator(mode="after")
    def _complete(self) -> CppRequest:
        if self.question in ABOUT_CALL:
            if not self.call:
                raise ValueError(f"`{self.question}` needs `call`")
        elif self.path is None and self.unit is None:
            raise ValueError("give `path` or `unit`")
        elif self.start is None and self.question not in {*ABOUT_DOCUMENT, "hints"}:
            raise ValueError(f"`{self.question}` needs `start`")
        if self.question == "rename" and not self.name:
            raise ValueError("`rename` needs `name`")
        return self


class Range(Value):
    """From `start` up to `end`, which is not part of it."""

    start: Position
    end: Position


class OtherValue(Value):
    """What a hover says in other instances: `text` is the type or value, `units` are those that have it."""

    text: str
    units: tuple[str, ...]


class CppHover(Value):
    """What stands at a place, as Markdown; `range` where it stands, if it can be said.

    `produced` is the text that stands in the rendered source, where the template has an expression or the kernel file a
    value. `others`: where that is different in other instances; empty until they are known.
    """

    markdown: str
    range: Range | None = None
    produced: str = ""
    others: tuple[OtherValue, ...] = ()


class CppCompletion(Value):
    """What could be written. `text` replaces `range`; if `snippet`, it has placeholders (`${1:value}`)."""

    label: str
    detail: str = ""
    kind: int = 1
    documentation: str = ""
    text: str
    snippet: bool = False
    range: Range
    filter_text: str = ""
    sort_text: str = ""
    deprecated: bool = False


class CppCompletions(Value):
    """`incomplete`: there are more, or others after another character."""

    items: tuple[CppCompletion, ...] = ()
    incomplete: bool = False


class CppSignature(Value):
    """`parameters` are ranges of `label` in code points; `active` is the one that the cursor is in."""

    label: str
    documentation: str = ""
    parameters: tuple[tuple[int, int], ...] = ()


class CppSignatures(Value):
    """Signatures of a call, the likeliest at `active`."""

    signatures: tuple[CppSignature, ...]
    active: int = 0
    active_parameter: int = 0


class CppLocation(Value):
    """A place in a file. With a `unit` it is one of that unit's rendered source, where no template has it: `path` is
    empty then."""

    path: str
    range: Range
    unit: str = ""


class CppHighlight(Value):
    """Another place of what was asked about. `kind`: 1 text, 2 read, 3 written."""

    range: Range
    kind: int = 1


class CppSymbol(Value):
    """What is declared: `range` is the whole of it, `name_range` its name. `kind` is a SymbolKind."""

    name: str
    detail: str = ""
    kind: int
    range: Range
    name_range: Range
    children: tuple[CppSymbol, ...] = ()


CppToken = tuple[int, int, int, str, tuple[str, ...]]
"""Line, column and length of a name, its semantic token type and modifiers in the words of the protocol."""


class CppHint(Value):
    """A short text to show at a place. `kind`: 1 type, 2 parameter, 0 neither."""

    position: Position
    label: str
    kind: int = 0
    space_before: bool = False
    space_after: bool = False


class CppAction(Value):
    """A change of the code that is offered. `refused` says why it cannot be made here; then there are no `edits`."""

    title: str
    kind: str
    edits: tuple[Fix, ...] = ()
    refused: str = ""


class CppCall(Value):
    """A function in a call hierarchy. `ranges` are the calls, in the caller (incoming) or the one asked about
    (outgoing). `data` is for the next question."""

    name: str
    detail: str = ""
    kind: int
    location: CppLocation
    name_range: Range
    ranges: tuple[Range, ...] = ()
    data: str


class AboutCall(Request):
    """What `CppCall.data` holds, as JSON: where clangd's text is, and the function there in clangd's own words."""

    unit: Name
    side: Side
    path: FilePath | None
    item: dict[str, Any]

    @model_validator(mode="after")
    def _complete(self) -> AboutCall:
        if not isinstance(self.item.get("uri"), str):
            raise ValueError("`item` has no `uri`")
        return self


class CppName(Value):
    """A name that can be changed, and where it stands."""

    text: str
    range: Range


class CppAnswer(Value):
    """The answer to a question, in the field of its kind; all empty where there is none, which `reason` explains.

    `unit` and `side` are whose text answered. `digest` is the SHA-256 of the asked file's text that the answer is
    about, in UTF-8; empty where no text of the unit comes from it. Not `ready`: clangd is being fetched or started, or
    reads the headers; ask again.
    """

    unit: str = ""
    side: Side = "host"
    digest: str = ""
    ready: bool = True
    reason: str = ""
    hover: CppHover | None = None
    completions: CppCompletions | None = None
    signatures: CppSignatures | None = None
    locations: tuple[CppLocation, ...] = ()
    highlights: tuple[CppHighlight, ...] = ()
    symbols: tuple[CppSymbol, ...] = ()
    tokens: tuple[CppToken, ...] = ()
    hints: tuple[CppHint, ...] = ()
    name: CppName | None = None
    edits: tuple[Fix, ...] = ()
    actions: tuple[CppAction, ...] = ()
    calls: tuple[CppCall, ...] = ()
