"""What clangd answers → what clients get, each place through the asked file's `Places`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ckwatch.cpp.mappings import Forwarding, NotForwardedError
from ckwatch.cpp.places import (
    LspLocation,
    Places,
    is_lent,
    path_of,
    path_of_lent,
    range_from,
    to_wire,
)
from ckwatch.model.text import Position, Range
from ckwatch.wire.cpp import (
    CppAction,
    CppCall,
    CppCompletion,
    CppCompletions,
    CppHighlight,
    CppHint,
    CppHover,
    CppLocation,
    CppName,
    CppSignature,
    CppSignatures,
    CppSymbol,
    CppToken,
)
from ckwatch.wire.places import position_to_wire, span_to_wire
from ckwatch.wire.state import Fix

Json = Mapping[str, Any]

_JINJA = re.compile(r"\{[{%#]")
_NAME = re.compile(r"[\w:~]*")
_SAID = re.compile(r"^(?:Type|Value|Size): .*|^Value = .*|^→ .*", re.MULTILINE)


def hover(result: Json | None, places: Places, asked: Position) -> CppHover | None:
    """What stands at `asked`, a place of clangd's text."""
    if not result:
        return None
    contents = result["contents"]
    text = contents["value"] if isinstance(contents, dict) else str(contents)
    about = places.own(range_from(result["range"]), Forwarding.NAVIGATION) if "range" in result else None
    return CppHover(markdown=text, range=None if about is None else to_wire(about), produced=places.produced(asked))


def gist(markdown: str) -> str:
    """The type and the value that a hover tells, to compare it with that of another instance."""
    return "  \n".join(line.rstrip() for line in _SAID.findall(markdown))


def completions(result: Json | Sequence[Json] | None, places: Places, cursor: Position) -> CppCompletions:
    """`cursor` is where clangd was asked."""
    items: Sequence[Json] = result["items"] if isinstance(result, Mapping) else result or ()
    incomplete = isinstance(result, Mapping) and bool(result.get("isIncomplete"))
    found = []
    for item in items:
        edit = item.get("textEdit")
        if edit is None:
            continue
        try:
            place, before = places.typed(range_from(edit.get("range") or edit["insert"]), cursor)
        except NotForwardedError:
            continue
        text, is_snippet = edit["newText"], item.get("insertTextFormat") == 2
        if places.takes_names_only:
            text, is_snippet = _NAME.match(text)[0], False  # type: ignore[index]  # it matches everything
        if not text.startswith(before) or _JINJA.search(text):
            continue
        documentation = item.get("documentation", "")
        found.append(
            CppCompletion.model_construct(
                label=item["label"].strip(),
                detail=item.get("detail", ""),
                kind=item.get("kind", 1),
                documentation=documentation["value"] if isinstance(documentation, dict) else documentation,
                text=text[len(before) :],
                snippet=is_snippet,
                range=to_wire(place),
                filter_text=item.get("filterText", "").removeprefix(before),
                sort_text=item.get("sortText", ""),
                deprecated=bool(item.get("deprecated")),
            )
        )
    return CppCompletions.model_construct(items=tuple(found), incomplete=incomplete)


def signatures(result: Json | None) -> CppSignatures | None:
    """The calls that are possible."""
    if not result or not result.get("signatures"):
        return None
    found = []
    for one in result["signatures"]:
        documentation = one.get("documentation", "")
        found.append(
            CppSignature(
                label=one["label"],
                documentation=documentation["value"] if isinstance(documentation, dict) else documentation,
                parameters=tuple(_parameter(one["label"], each["label"]) for each in one.get("parameters", ())),
            )
        )
    return CppSignatures(
        signatures=tuple(found),
        active=result.get("activeSignature") or 0,
        active_parameter=result.get("activeParameter") or 0,
    )


def _parameter(label: str, given: str | Sequence[int]) -> tuple[int, int]:
    if isinstance(given, str):
        start = max(label.find(given), 0)
        return start, start + len(given)
    return given[0], given[1]


def locations(result: Json | Sequence[Json] | None, places: Places) -> tuple[CppLocation, ...]:
    """Each place once."""
    found = (places.location(one.uri, one.range) for one in _named(result))
    return tuple(dict.fromkeys(one for one in found if one is not None))


def files(result: Json | Sequence[Json] | None) -> list[str]:
    """The paths of locations that are in files, not in texts that are lent to clangd."""
    return [path for one in _named(result) if (path := path_of(one.uri)) is not None]


def _named(result: Json | Sequence[Json] | None) -> Iterator[LspLocation]:
    listed: Sequence[Json] = [result] if isinstance(result, Mapping) else result or ()
    return map(LspLocation.of, listed)


def highlights(result: Sequence[Json] | None, places: Places) -> tuple[CppHighlight, ...]:
    """Those in the asked file, each once; a name that an expression writes, or part of it, where it is in one line."""
    found: dict[Range, int] = {}
    for one in result or ():
        place = places.own(range_from(one["range"]), Forwarding.NAVIGATION)
        if place is not None and place.start.line == place.end.line:
            found.setdefault(place, one.get("kind", 1))
    return tuple(CppHighlight(range=to_wire(place), kind=kind) for place, kind in sorted(found.items()))


def symbols(result: Sequence[Json] | None, places: Places) -> tuple[CppSymbol, ...]:
    """Those whose name stands in the asked file; what they contain takes the place of those whose name does not."""
    return tuple(_symbols(result or (), places, set()))


def _symbols(listed: Iterable[Json], places: Places, seen: set[Range]) -> Iterator[CppSymbol]:
    for one in listed:
        own_name = range_from(one["selectionRange"])
        name = places.own(own_name, Forwarding.SEMANTIC) or places.own(own_name, Forwarding.NAVIGATION)
        if name is None or name in seen:
            yield from _symbols(one.get("children", ()), places, seen)
            continue
        seen.add(name)
        whole = places.own(range_from(one["range"]), Forwarding.NAVIGATION)
        if whole is None or not whole.covers(name):
            whole = name
        inside = tuple(_symbols(one.get("children", ()), places, seen))
        yield CppSymbol(
            name=one["name"],
            detail=one.get("detail", ""),
            kind=one["kind"],
            range=to_wire(whole),
            name_range=to_wire(name),
            children=inside,
        )


def tokens(result: Json | None, places: Places, types: Sequence[str], modifiers: Sequence[str]) -> tuple[CppToken, ...]:
    """Those that stand in the asked file, in order, each once. `types` and `modifiers` are clangd's legend."""
    found: dict[tuple[int, int], CppToken] = {}
    for place, kind, marks in _decoded(() if not result else result["data"]):
        own = places.own(place, Forwarding.SEMANTIC)
        if own is None or own.start.line != own.end.line or kind >= len(types):
            continue
        named = tuple(name for bit, name in enumerate(modifiers) if marks >> bit & 1)
        key = (own.start.line, own.start.column)
        found.setdefault(key, (*key, own.end.column - own.start.column, types[kind], named))
    return tuple(found[key] for key in sorted(found))


def _decoded(data: Sequence[int]) -> Iterator[tuple[Range, int, int]]:
    line = column = 0
    for at in range(0, len(data) - 4, 5):
        lines, columns, length, kind, marks = data[at : at + 5]
        line, column = line + lines, columns if lines else column + columns
        yield Range(Position(line, column), Position(line, column + length)), kind, marks


def hints(result: Sequence[Json] | None, places: Places, within: Range | None = None) -> tuple[CppHint, ...]:
    """Those in the asked file, or in a range of it, each place once; `…` where another round of a loop or call of a
    macro has another."""
    found: dict[Position, CppHint] = {}
    for one in result or ():
        at = Position(one["position"]["line"], one["position"]["character"])
        place = places.own(Range(at, at), Forwarding.SEMANTIC)
        if place is None or (within is not None and not within.holds(place.start)):
            continue
        label = one["label"] if isinstance(one["label"], str) else "".join(part["value"] for part in one["label"])
        known = found.get(place.start)
        if known is not None:
            if known.label not in (label, f"{label} …"):
                found[place.start] = known.model_copy(update={"label": f"{known.label.removesuffix(' …')} …"})
            continue
        found[place.start] = CppHint(
            position=position_to_wire(place.start),
            label=label,
            kind=one.get("kind", 0),
            space_before=one.get("paddingLeft", False),
            space_after=one.get("paddingRight", False),
        )
    return tuple(found.values())


def name_at(result: Json, places: Places, text: str) -> CppName:
    """What would be renamed; `text` is how it is called. Raises NotForwardedError."""
    given = range_from(result.get("range", result))
    places.exact(places.uri, given)
    own = places.own(given, Forwarding.EDIT)
    if own is None:
        raise NotForwardedError("the name stands in another file")
    return CppName(text=text, range=to_wire(own))


def in_own_words(message: str, places: Places) -> str:
    """A message of clangd's with places (`PATH:LINE:COLUMN`, from one) of the asked text as the client knows them."""

    def own(found: re.Match[str]) -> str:
        at = Position(int(found[1]) - 1, int(found[2]) - 1)
        location = places.location(places.uri, Range(at, at))
        assert location is not None  # noqa: S101  # it has one in its own text
        start = location.range.start
        return f"{location.path or 'the rendered source'}:{start.line + 1}:{start.column + 1}"

    return re.sub(rf"{re.escape(path_of_lent(places.uri))}:(\d+):(\d+)", own, message)


def edits(result: Json | None, places: Places) -> tuple[Fix, ...]:
    """The edits of a change. Raises NotForwardedError where one of them cannot be made in a template.

    Those of other texts that are lent to clangd are left out: they are the same template, or none of this unit's.
    """
    found: list[Fix] = []
    for uri, changes in _changes(result or {}):
        if is_lent(uri) and uri != places.uri:
            continue
        for one in changes:
            place = range_from(one["range"])
            span = places.exact(uri, place)
            if _JINJA.search(places.in_template(place, one["newText"])):
                raise NotForwardedError("the new text would be read as Jinja")
            found.append(Fix(span=span_to_wire(span), text=one["newText"]))
    return tuple(found)


def _changes(result: Json) -> Iterator[tuple[str, Sequence[Json]]]:
    yield from result.get("changes", {}).items()
    for one in result.get("documentChanges", ()):
        if "textDocument" not in one:
            raise NotForwardedError("a file would have to be made, renamed or removed")
        yield one["textDocument"]["uri"], one["edits"]


def action(title: str, kind: str, result: Json | None, places: Places) -> CppAction | None:
    """What is offered, with its edits or why they cannot be made; None where it changes nothing."""
    try:
        made = edits(result, places)
    except NotForwardedError as refused:
        return CppAction(title=title, kind=kind, refused=refused.message)
    return CppAction(title=title, kind=kind, edits=made) if made else None


def calls(items: Iterable[tuple[Json, str, Sequence[Json]]], places: Places, about: Json) -> tuple[CppCall, ...]:
    """Functions, each with the file and the ranges of the calls. `about` is what finds the text again."""
    found = []
    for item, uri, ranges in items:
        location = places.location(item["uri"], range_from(item["range"]))
        name = places.location(item["uri"], range_from(item["selectionRange"]))
        if location is None or name is None or location.path != name.path:
            continue
        inside = [places.location(uri, range_from(each)) for each in ranges]
        found.append(
            CppCall(
                name=item["name"],
                detail=item.get("detail", ""),
                kind=item["kind"],
                location=location,
                name_range=name.range,
                ranges=tuple(each.range for each in inside if each is not None),
                data=json.dumps({**about, "item": item}),
            )
        )
    return tuple(found)
