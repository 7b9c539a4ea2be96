"""clangd's answers with each place in the asked file, through its `Places`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ckwatch.cpp.mappings import Forwarding, NotForwardedError
from ckwatch.cpp.places import (
    MEMORY_FOLDER,
    Location,
    Places,
    in_memory,
    memory_path,
    path_of,
    range_from,
    range_to_lsp,
    to_lsp,
    uri_of,
)
from ckwatch.model.text import Position, Range

Json = Mapping[str, Any]

_JINJA = re.compile(r"\{[{%#]")
_NAME = re.compile(r"[\w:~]*")
_SAID = re.compile(r"^(?:Type|Value|Size): .*|^Value = .*|^→ .*", re.MULTILINE)

SNIPPET, PLAIN = 2, 1
"""How a completion is written (`InsertTextFormat`)."""


def hover(result: Json | None, places: Places, asked: Position) -> dict[str, Any] | None:
    """A hover; `asked` is a place of clangd's text."""
    if not result:
        return None
    contents = result["contents"]
    text = contents["value"] if isinstance(contents, dict) else str(contents)
    made = {"contents": {"kind": "markdown", "value": text}, "produced": places.produced(asked), "others": []}
    about = places.own(range_from(result["range"]), Forwarding.NAVIGATION) if "range" in result else None
    return made if about is None else {**made, "range": range_to_lsp(about)}


def gist(found: Json) -> str:
    """The type and the value that a hover tells, to compare it with that of another instance."""
    return "  \n".join(line.rstrip() for line in _SAID.findall(found["contents"]["value"]))


def completions(result: Json | Sequence[Json] | None, places: Places, cursor: Position) -> dict[str, Any]:
    """The completions that can be made in the file; `cursor` is where clangd was asked."""
    items: Sequence[Json] = result["items"] if isinstance(result, Mapping) else result or ()
    incomplete = isinstance(result, Mapping) and bool(result.get("isIncomplete"))
    made = (_completion(item, places, cursor) for item in items)
    return {"isIncomplete": incomplete, "items": [item for item in made if item is not None]}


def _completion(item: Json, places: Places, cursor: Position) -> dict[str, Any] | None:
    edit = item.get("textEdit")
    if edit is None:
        return None
    try:
        place, before = places.typed(range_from(edit.get("range") or edit["insert"]), cursor)
    except NotForwardedError:
        return None
    text, kind = edit["newText"], item.get("insertTextFormat", PLAIN)
    if places.takes_names_only:
        text, kind = _NAME.match(text)[0], PLAIN  # type: ignore[index]  # it matches everything
    if not text.startswith(before) or _JINJA.search(text):
        return None
    kept = {key: item[key] for key in ("kind", "detail", "documentation", "sortText", "deprecated") if item.get(key)}
    return {
        **kept,
        "label": item["label"].strip(),
        "insertTextFormat": kind,
        "textEdit": {"range": range_to_lsp(place), "newText": text[len(before) :]},
        "filterText": item.get("filterText", "").removeprefix(before) or None,
    }


def locations(result: Json | Sequence[Json] | None, places: Places) -> list[Location]:
    """Locations, each once."""
    found = (places.location(one) for one in _named(result))
    return list(dict.fromkeys(one for one in found if one is not None))


def are_in_another_text(result: Json | Sequence[Json] | None, places: Places) -> bool:
    """Return True if one is in a text of clangd's memory that was not asked about: a name of another instance or side
    that clangd takes for the same."""
    return any(in_memory(one.uri) and one.uri != places.uri for one in _named(result))


def files(result: Json | Sequence[Json] | None) -> list[str]:
    """The paths of locations that are in files, not in texts that only clangd has."""
    return [path for one in _named(result) if (path := path_of(one.uri)) is not None]


def _named(result: Json | Sequence[Json] | None) -> Iterator[Location]:
    listed: Sequence[Json] = [result] if isinstance(result, Mapping) else result or ()
    return map(Location.of, listed)


def highlights(result: Sequence[Json], places: Places) -> list[Json]:
    """Those in the asked file, each once; a name that an expression writes, or part of it, where it is in one line."""
    found: dict[Range, int] = {}
    for one in result:
        place = places.own(range_from(one["range"]), Forwarding.NAVIGATION)
        if place is not None and place.start.line == place.end.line:
            found.setdefault(place, one.get("kind", 1))
    return [{"range": range_to_lsp(place), "kind": kind} for place, kind in sorted(found.items())]


def symbols(result: Sequence[Json] | None, places: Places) -> list[Json]:
    """Those whose name stands in the asked file; what they contain takes the place of those whose name does not."""
    return list(_symbols(result or (), places, set()))


def _symbols(listed: Iterable[Json], places: Places, seen: set[Range]) -> Iterator[Json]:
    for one in listed:
        own_name = range_from(one["selectionRange"])
        name = places.own(own_name, Forwarding.SEMANTIC) or places.own(own_name, Forwarding.NAVIGATION)
        inside = one.get("children", ())
        if name is None or name in seen:
            yield from _symbols(inside, places, seen)
            continue
        seen.add(name)
        whole = places.own(range_from(one["range"]), Forwarding.NAVIGATION)
        if whole is None or not whole.covers(name):
            whole = name
        yield {
            **{key: one[key] for key in ("kind", "detail") if key in one},
            "name": one["name"] or "?",
            "range": range_to_lsp(whole),
            "selectionRange": range_to_lsp(name),
            "children": list(_symbols(inside, places, seen)),
        }


def tokens(result: Json | None, places: Places, types: Sequence[str], modifiers: Sequence[str]) -> list[list[Any]]:
    """Those that stand in the asked file, in order, each once: line, place, length, type and modifiers. `types` and
    `modifiers` are clangd's legend."""
    found: dict[Position, list[Any]] = {}
    for place, kind, marks in _decoded(() if not result else result["data"]):
        own = places.own(place, Forwarding.SEMANTIC)
        if own is None or own.start.line != own.end.line or kind >= len(types):
            continue
        line, column = own.start.line, own.start.column
        named = [name for bit, name in enumerate(modifiers) if marks >> bit & 1]
        found.setdefault(own.start, [line, column, own.end.column - column, types[kind], named])
    return [found[start] for start in sorted(found)]


def _decoded(data: Sequence[int]) -> Iterator[tuple[Range, int, int]]:
    line = column = 0
    for at in range(0, len(data) - 4, 5):
        lines, columns, length, kind, marks = data[at : at + 5]
        line, column = line + lines, columns if lines else column + columns
        yield Range(Position(line, column), Position(line, column + length)), kind, marks


def hints(result: Sequence[Json] | None, places: Places, within: Range | None = None) -> list[Json]:
    """Those in the asked file, or in a range of it, each place once; `…` where another round of a loop or call of a
    macro has another."""
    found: dict[Position, dict[str, Any]] = {}
    for one in result or ():
        at = Position(one["position"]["line"], one["position"]["character"])
        place = places.own(Range(at, at), Forwarding.SEMANTIC)
        if place is None or (within is not None and not within.holds(place.start)):
            continue
        label = one["label"] if isinstance(one["label"], str) else "".join(part["value"] for part in one["label"])
        kept = {key: one[key] for key in ("kind", "paddingLeft", "paddingRight") if key in one}
        known = found.setdefault(place.start, {**kept, "position": to_lsp(place.start), "label": label})
        if known["label"] not in (label, f"{label} …"):
            known["label"] = f"{known['label'].removesuffix(' …')} …"
    return list(found.values())


def name_at(result: Json, places: Places, text: str) -> Json:
    """The name that would be changed; `text` is how it is called. Raises NotForwardedError."""
    given = range_from(result.get("range", result))
    places.exact(places.uri, given)
    own = places.own(given, Forwarding.EDIT)
    if own is None:
        raise NotForwardedError("the name stands in another file")
    return {"placeholder": text, "range": range_to_lsp(own)}


_IN_MEMORY = re.compile(rf"{MEMORY_FOLDER}/[^\n\"'`]*?\.(?:hip|cpp|cu)(?!\.?\w)(?::\d+:\d+)?")


def in_own_words(given: Any, places: Places) -> Any:
    """Return a message or an answer of clangd's without names of texts in its memory: places of the asked text
    (`PATH:LINE:COLUMN`, from one) as the client knows them, others as what they are."""
    if isinstance(given, dict):
        return {key: value if key in _KEPT else in_own_words(value, places) for key, value in given.items()}
    if isinstance(given, list):
        return [in_own_words(one, places) for one in given]
    if not isinstance(given, str) or MEMORY_FOLDER not in given:
        return given

    def own(found: re.Match[str]) -> str:
        if found[1] is None:
            return path_of(places.uri) or "the rendered source"
        at = Position(int(found[1]) - 1, int(found[2]) - 1)
        location = places.location(Location(places.uri, Range(at, at)))
        path = None if location is None else path_of(location.uri)
        start = at if location is None else location.range.start
        return f"{path or 'the rendered source'}:{start.line + 1}:{start.column + 1}"

    shown = re.sub(rf"{re.escape(memory_path(places.uri))}(?::(\d+):(\d+)|(?!\.?\w))", own, given)
    return _IN_MEMORY.sub("another rendered source", shown)


_KEPT = frozenset({"data", "uri", "changes"})
"""Fields of an answer that find a text again, or say where it is."""


Edits = Sequence[tuple[Location, str]]
"""Places, each with its new text."""


def edits(result: Json | None, places: Places) -> Edits:
    """The edits of a change. Raises NotForwardedError where one of them cannot be made in a template.

    Those of other texts that only clangd has are left out: they are the same template, or none of this unit's.
    """
    found = []
    for uri, changes in _changes(result or {}):
        if in_memory(uri) and uri != places.uri:
            continue
        for one in changes:
            place = range_from(one["range"])
            span = places.exact(uri, place)
            if _JINJA.search(places.in_template(place, one["newText"])):
                raise NotForwardedError("the new text would be read as Jinja")
            if MEMORY_FOLDER in one["newText"]:
                raise NotForwardedError("the new text would name a file that does not exist")
            found.append((Location(uri_of(span.path), Range(span.start, span.end)), one["newText"]))
    return found


def _changes(result: Json) -> Iterator[tuple[str, Sequence[Json]]]:
    yield from result.get("changes", {}).items()
    for one in result.get("documentChanges", ()):
        if "textDocument" not in one:
            raise NotForwardedError("a file would have to be made, renamed or removed")
        yield one["textDocument"]["uri"], one["edits"]


def workspace_edit(made: Edits) -> Json | None:
    """Edits as the protocol has them."""
    changes: dict[str, list[Json]] = {}
    for place, text in made:
        changes.setdefault(place.uri, []).append({"range": range_to_lsp(place.range), "newText": text})
    return {"changes": changes} if changes else None


def action(title: str, kind: str, result: Json | None, places: Places) -> Json | None:
    """A change that is offered, with its edits or why they cannot be made; None where it changes nothing."""
    offered = {"title": title, "kind": kind}
    try:
        edit = workspace_edit(edits(result, places))
    except NotForwardedError as refused:
        return {**offered, "disabled": {"reason": refused.message}}
    return None if edit is None else {**offered, "edit": edit}


def function(item: Json, places: Places, about: Json) -> Json | None:
    """A function of a call hierarchy; `about` is what finds the text again."""
    whole = places.location(Location.of(item))
    name = places.location(Location(item["uri"], range_from(item["selectionRange"])))
    if whole is None or name is None or whole.uri != name.uri:
        return None
    kept = {key: item[key] for key in ("name", "kind", "detail") if key in item}
    data = {**about, "item": item}
    return {**kept, **whole.json, "selectionRange": range_to_lsp(name.range), "data": data}


def calls(result: Sequence[Json] | None, places: Places, item: Json, about: Json, side: str) -> list[Json]:
    """The calls of or in the function `item` of clangd's; `side` is `from` or `to`, the other function."""
    found: list[Json] = []
    for one in result or ():
        other = function(one[side], places, about)
        caller = one["from"] if side == "from" else item
        inside = (places.location(Location(caller["uri"], range_from(each))) for each in one["fromRanges"])
        if other is not None:
            ranges = [range_to_lsp(each.range) for each in inside if each is not None]
            found.append({side: other, "fromRanges": ranges})
    return found
