"""Converts the daemon's answers about C++, JSON of the protocol, to the editor's: other URIs, other columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lsprotocol import types

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.client_capabilities import EditorCapabilities
from ckwatch_lsp.protocol.position_encoding import PositionCodec

Json = Mapping[str, Any]

TOKEN_TYPES = {
    **{name: name for name in ("variable", "parameter", "function", "method", "property", "class", "enum")},
    **{name: name for name in ("enumMember", "type", "namespace", "typeParameter", "macro")},
    "struct": "class",
    "interface": "class",
    "concept": "type",
}
"""The type in the legend by clangd's. Brackets, operators, labels, comments and what clangd does not know are left to
the editor."""

_PLACEHOLDER = re.compile(r"(\$\{\d+)")
_ESCAPED = re.compile(r"\\([$}\\])")


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text of the daemon's as the editor has it: `below` lines further down, with `codec`, unless it cannot be
    read."""

    uri: str
    codec: PositionCodec | None
    below: int = 0

    def position(self, given: Json) -> Position:
        """A place in our terms."""
        return Position(given["line"] + self.below, given["character"])

    def range(self, given: Json) -> Range:
        """A range in our terms."""
        return Range(self.position(given["start"]), self.position(given["end"]))

    def encoded(self, given: Json) -> Json:
        """A place in the editor's terms."""
        at = self.position(given)
        shown = types.Position(at.line, at.column) if self.codec is None else self.codec.encode(at)
        return {"line": shown.line, "character": shown.character}


def uris_in(value: Any) -> Iterator[str]:
    """The URIs that an answer names, some of them several times."""
    match value:
        case list():
            for each in value:
                yield from uris_in(each)
        case {"changes": dict(changes)}:
            yield from changes
        case dict():
            if "uri" in value:
                yield value["uri"]
            yield from uris_in([each for key, each in value.items() if key != "data"])


def in_editor(value: Any, text: ShownText, texts: Mapping[str, ShownText], root: str) -> Any:
    """An answer with the editor's places. `text` is the one that places without a URI are in; `root`, the workspace's
    folder, is added to functions, whose `data` returns to the daemon."""
    match value:
        case list():
            return [in_editor(each, text, texts, root) for each in value]
        case {"line": int(), "character": int()}:
            return text.encoded(value)
        case {"changes": dict(changes)}:
            named = ((texts[uri], edits) for uri, edits in changes.items())
            return {"changes": {one.uri: in_editor(edits, one, texts, root) for one, edits in named}}
        case {"from": {"uri": str(uri)}} | {"uri": str(uri)}:
            text = texts[uri]
        case dict():
            pass
        case _:
            return value
    made = {key: in_editor(each, text, texts, root) for key, each in value.items() if key != "data"}
    if "uri" in value:
        made["uri"] = text.uri
    if "data" in value:
        made["data"] = {"language": "cpp", "root": root, "uri": value["uri"], "call": value["data"]}
    return made


def hover_text(hover: Json, unit: str, *, several: bool) -> str:
    """The text of a hover, with the instance if there are `several`; then where it is something else."""
    parts = [hover["contents"]["value"].strip()]
    if hover["produced"]:
        parts.append(f"in `{unit}`: {_quoted(hover['produced'])}")
    elif several:
        parts.append(f"in `{unit}`")
    elsewhere = [_quoted(_said(each["text"])) for each in hover["others"] if not each["units"]]
    others = [_other(each["text"], each["units"]) for each in hover["others"] if each["units"]]
    if elsewhere:
        parts.append(f"where it stands again: {', '.join(elsewhere)}")
    if others:
        parts.append(f"other instances: {', '.join(others)}")
    return "\n\n".join(part for part in parts if part)


def _other(text: str, units: Sequence[str]) -> str:
    more = f", and {len(units) - 1} more" if len(units) > 1 else ""
    return f"{_quoted(_said(text))} (`{units[0]}`{more})"


def _said(text: str) -> str:
    """Type and value in one line."""
    return ", ".join(line.strip() for line in text.removeprefix("Type: ").splitlines())


def _quoted(text: str) -> str:
    if "\n" in text.strip():
        fence = "````" if "```" in text else "```"
        return f"\n\n{fence}cpp\n{text.strip()}\n{fence}\n\n"
    return text if "`" in text else f"`{text.strip()}`"


def completion_list(found: Json, text: ShownText, able: EditorCapabilities) -> types.CompletionList:
    """Completions. They are built here, as there are many of them each time."""
    items = [_item(item, text, able) for item in found["items"]]
    return types.CompletionList(is_incomplete=found["isIncomplete"], items=items)


def _item(item: Json, text: ShownText, able: EditorCapabilities) -> types.CompletionItem:
    edit, places = (
        item["textEdit"],
        {key: types.Position(**text.encoded(at)) for key, at in item["textEdit"]["range"].items()},
    )
    is_snippet = types.InsertTextFormat(item["insertTextFormat"]) is types.InsertTextFormat.Snippet
    written = plain_text(edit["newText"]) if is_snippet and not able.snippets else edit["newText"]
    given = item.get("documentation", "")
    said = given if isinstance(given, str) else given["value"]
    markdown = types.MarkupKind.Markdown if able.completion_markdown else types.MarkupKind.PlainText
    return types.CompletionItem(
        label=item["label"],
        kind=types.CompletionItemKind(item.get("kind", 1)),
        detail=item.get("detail"),
        documentation=types.MarkupContent(markdown, said) if said else None,
        deprecated=item.get("deprecated"),
        filter_text=item.get("filterText"),
        sort_text=item.get("sortText"),
        insert_text_format=types.InsertTextFormat.Snippet if is_snippet and able.snippets else None,
        text_edit=types.TextEdit(types.Range(**places), written),
    )


def plain_text(snippet: str) -> str:
    """A snippet for editors that have none: up to its first placeholder."""
    before, placeholder, _ = (
        _PLACEHOLDER.split(snippet, maxsplit=1) if _PLACEHOLDER.search(snippet) else (snippet, "", "")
    )
    text = before.rstrip("(<{ ") if placeholder else before
    return _ESCAPED.sub(r"\1", text.removesuffix("$0"))


def signature(given: Json, able: EditorCapabilities) -> Json:
    """A signature whose parameters are ranges of its label in the editor's columns, or texts."""
    label = given["label"]
    codec = PositionCodec([label], able.encoding)

    def shown(parameter: str | Sequence[int]) -> str | list[int]:
        if isinstance(parameter, str):
            return parameter
        if not able.signature_offsets:
            return str(label[slice(*parameter)])
        return [codec.encode(Position(0, at)).character for at in parameter]

    return {**given, "parameters": [{"label": shown(each["label"])} for each in given.get("parameters", ())]}
