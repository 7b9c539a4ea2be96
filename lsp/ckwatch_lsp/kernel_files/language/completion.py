"""Completes keys and values of kernel files and `ckwatch.toml`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from lsprotocol import types

from ckwatch.model.amounts import time_of
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position
from ckwatch.wire.language import KeyDescription, ParameterDetail, ParameterValue
from ckwatch.workspace.toml import TomlKind, toml_key, toml_value
from ckwatch_lsp.kernel_files.language.document import (
    DERIVED,
    CursorContext,
    CursorContextKind,
    KernelFileText,
    cursor_context,
    is_parameter,
    words_of,
)
from ckwatch_lsp.protocol.text_parts import CompletionCandidate

ARRAYS = "array of tables"


class KeyTable:
    """The known keys of one kind of file, by table."""

    def __init__(self, keys: Iterable[KeyDescription]) -> None:
        self._by_table: dict[str, list[KeyDescription]] = {}
        self._by_path: dict[str, list[KeyDescription]] = {}
        for key in keys:
            table, _, _ = key.path.rpartition(".")
            self._by_table.setdefault(table, []).append(key)
            self._by_path.setdefault(key.path, []).append(key)

    def of_table(self, path: Sequence[str], settings: Mapping[str, str]) -> list[KeyDescription]:
        """The keys of the table at `path`, `*` for any name among them. `settings` decides about those that depend."""
        found = self._by_table.get(".".join(path)) or self._by_table.get(".".join((*path[:-1], "*")), [])
        return [key for key in found if _applies(key, settings)]

    def key(self, path: Sequence[str], settings: Mapping[str, str]) -> KeyDescription | None:
        """Return the description of the key at `path`; None if there is none."""
        exact = self._by_path.get(".".join(path), ())
        found = next((key for key in exact if _applies(key, settings)), None)
        if found is not None or not path:
            return found
        *table, name = path
        begin = name[: name.find("_") + 1]
        patterns = ((*table, f"{begin}*"), (*table, "*"), (*table[:-1], "*", name))
        known = (key for pattern in patterns for key in self._by_path.get(".".join(pattern), ()))
        return next((key for key in known if _applies(key, settings)), None)

    def headers(self, settings: Mapping[str, str]) -> list[KeyDescription]:
        """The keys that are tables, which can have a header of their own."""
        found = [key for keys in self._by_path.values() for key in keys if key.type in ("table", ARRAYS)]
        return [key for key in found if _applies(key, settings) and "*" not in key.path]


def _applies(key: KeyDescription, settings: Mapping[str, str]) -> bool:
    return all(settings.get(path, value) == value for path, value in key.when.items())


Kind = types.CompletionItemKind


@dataclass(frozen=True, slots=True)
class CompletionFacts:
    """The facts for completion: the file's keys, template names, the template's parameters, and values that the daemon
    judged for the parameter that is being written."""

    keys: KeyTable
    templates: Sequence[str] = ()
    parameters: Sequence[ParameterDetail] = ()
    values: Sequence[ParameterValue] = field(default_factory=tuple)


def parameter_at(document: KernelFileText, position: Position) -> str | None:
    """The template parameter whose value is being written; None elsewhere."""
    spot = cursor_context(document.toml, position)
    if spot.kind is not CursorContextKind.VALUE:
        return None
    given = spot.path[:-1] != DERIVED and is_parameter(spot.path[:-1], spot.path[-1])
    return spot.path[-1] if given else None


def complete(document: KernelFileText, position: Position, known: CompletionFacts) -> list[CompletionCandidate]:
    """Everything that could be written at `position`."""
    spot = cursor_context(document.toml, position)
    settings = {"operation.kind": document.kind}
    match spot.kind:
        case CursorContextKind.KEY:
            return list(_keys(document, spot, known, settings))
        case CursorContextKind.VALUE:
            return list(_values(document, spot, position, known, settings))
        case CursorContextKind.HEADER:
            return list(_headers(document, spot, known, settings))
        case _:
            return []


def _keys(
    document: KernelFileText, spot: CursorContext, known: CompletionFacts, settings: Mapping[str, str]
) -> Iterator[CompletionCandidate]:
    there = {*spot.siblings, *_tables_within(document, spot)}
    has_equals = spot.pair is not None and spot.pair.equals is not None
    for at, key in enumerate(known.keys.of_table(spot.path, settings)):
        name = key.path.rpartition(".")[2]
        if name == "*":
            yield from _parameter_keys(document, spot, known, there, equals=has_equals)
        elif "*" not in name and name not in there and not (key.type == ARRAYS and not spot.path):
            order = at if key.required else 100 + at
            detail = ("required, " if key.required else "") + key.type
            text = name + ("" if has_equals else " = ")
            doc = key.doc + (f"\n\nDefault: `{key.default}`" if key.default else "")
            yield CompletionCandidate(name, Kind.Property, detail, doc, text, order, spot.range, name)


def _parameter_keys(
    document: KernelFileText, spot: CursorContext, known: CompletionFacts, there: set[str], *, equals: bool
) -> Iterator[CompletionCandidate]:
    if not is_parameter(spot.path, "*"):
        return
    given = document.defaults if spot.path != ("defaults",) else {}
    for at, parameter in enumerate(known.parameters):
        if parameter.name in there:
            continue
        # what has a default already is less likely to be meant
        order = 200 + at + (200 if parameter.default is not None else 0) + (400 if parameter.name in given else 0)
        text = toml_key(parameter.name) + ("" if equals else " = ")
        detail = parameter.kind + (", optional" if parameter.default is not None else "")
        if parameter.name in given:
            detail += ", given in [defaults]"
        name = parameter.name
        yield CompletionCandidate(name, Kind.Field, detail, parameter.doc, text, order, spot.range, name)


def _values(
    document: KernelFileText,
    spot: CursorContext,
    position: Position,
    known: CompletionFacts,
    settings: Mapping[str, str],
) -> Iterator[CompletionCandidate]:
    name = spot.path[-1]
    if spot.path[:-1] == DERIVED:
        yield from _names_in_expression(document, spot, position, known)
        return
    if is_parameter(spot.path[:-1], name):
        yield from _parameter_values(document, spot, known, name)
        return
    match spot.path:
        case ("template",):
            yield from (_string(spot, one, Kind.File, at) for at, one in enumerate(known.templates))
        case ("sweep", "base"):
            names = enumerate(document.instance_names)
            yield from (_string(spot, one, Kind.Reference, at) for at, one in names)
        case ("sweep", "where"):
            yield from _names_in_expression(document, spot, position, known)
        case ("operation", _, "same_as"):
            others = [one for one in ("a", "b", "bias") if one != spot.path[1]]
            yield from (_string(spot, one, Kind.Value, at) for at, one in enumerate(others))
        case _:
            key = known.keys.key(spot.path, settings)
            if key is None or (key.type.startswith("array") and not spot.element):
                return
            for at, text in enumerate(key.values):
                preferred = 0 if text == key.default else 1
                detail = "default" if text == key.default else ""
                yield _value(spot, text, detail, "", preferred * 100 + at)


def _parameter_values(
    document: KernelFileText, spot: CursorContext, known: CompletionFacts, name: str
) -> Iterator[CompletionCandidate]:
    in_sweep = spot.path[:-1] == ("sweep", "parameters")
    if in_sweep and not spot.element and spot.value is None:
        return
    if known.values:
        for at, judged in enumerate(ranked_values(known.values)):
            text = toml_value(judged.value)
            detail = "" if judged.predicted_us is None else f"{time_of(judged.predicted_us)} predicted"
            detail = detail if judged.accepted else "refused: " + ", ".join(judged.refused_by)
            order = at if judged.accepted else 1000 + at
            yield _value(spot, text, detail, judged.why_not, order, refused=not judged.accepted)
        return
    described = next((one for one in known.parameters if one.name == name), None)
    allowed = () if described is None else described.values
    for at, text in enumerate(dict.fromkeys([*allowed, *_used(document, name)])):
        yield _value(spot, text, "", "", at)


def ranked_values(values: Sequence[ParameterValue]) -> list[ParameterValue]:
    """Those that the rules accept by predicted time, then those without a prediction, then the refused ones."""

    def rank(one: ParameterValue) -> tuple[bool, float]:
        return not one.accepted, math.inf if one.predicted_us is None else one.predicted_us

    return sorted(values, key=rank)


def ghost_text(document: KernelFileText, position: Position, values: Sequence[ParameterValue]) -> str | None:
    """Find the text to show behind a cursor at the end of a line: the rest of the first accepted value that begins with
    what is there, quotes included."""
    spot = cursor_context(document.toml, position)
    line = document.toml.line_of(document.toml.offset(position))
    offset = document.toml.offset(position)
    if document.toml.text[offset : document.toml.line_end(line)].strip() or spot.pair is None:
        return None
    written = document.toml.text[spot.pair.equals + 1 : offset].lstrip() if spot.pair.equals is not None else ""
    texts = (toml_value(one.value) for one in ranked_values(values) if one.accepted)
    found = next((text for text in texts if text.startswith(written) and text != written), None)
    if found is None:
        return None
    blank = "" if written or document.toml.text[offset - 1 : offset] in " \t" else " "
    return blank + found[len(written) :]


def _used(document: KernelFileText, name: str) -> Iterator[str]:
    """The values that a parameter has in the file, on one line each."""
    for table, value in document.parameter_values(name):
        if not value.closed or value.kind is TomlKind.OTHER:
            continue
        swept = table.path[0] == "sweep" and value.kind is TomlKind.ARRAY
        yield from (one.text for one in (value.items if swept else (value,)) if "\n" not in one.text)


def _names_in_expression(
    document: KernelFileText, spot: CursorContext, position: Position, known: CompletionFacts
) -> Iterator[CompletionCandidate]:
    """Names of parameters within a condition or an expression."""
    if not spot.inside or spot.value is None:
        return
    offset = document.toml.offset(position)
    word = next(((start, end) for _, start, end in words_of(spot.value) if start <= offset <= end), (offset, offset))
    sweep = document.sweep_at(position)
    own = {} if sweep is None else sweep.parameters
    names = dict.fromkeys([*own, *(one.name for one in known.parameters)])
    for at, name in enumerate(names):
        detail = "swept" if name in own else ""
        yield CompletionCandidate(name, Kind.Field, detail, order=at, range=document.toml.range(*word), filter=name)


def _headers(
    document: KernelFileText, spot: CursorContext, known: CompletionFacts, settings: Mapping[str, str]
) -> Iterator[CompletionCandidate]:
    once = {".".join(table.path) for table in document.toml.tables if table.index is None and table is not spot.table}
    before = [table.path for table in document.toml.tables if table.start < spot.table.start]
    for at, key in enumerate(known.keys.headers(settings)):
        array = key.type == ARRAYS
        of_sweep = key.path in ("sweep.parameters", "sweep.derived")
        if (key.path in once and not of_sweep) or (of_sweep and ("sweep",) not in before):
            continue
        text = f"[[{key.path}]]" if array else f"[{key.path}]"
        yield CompletionCandidate(text, Kind.Module, "", key.doc, text, at, spot.range, text)


def _string(spot: CursorContext, text: str, kind: Kind, order: int) -> CompletionCandidate:
    written = toml_value(text)
    return CompletionCandidate(text, kind, "", "", written, order, spot.range, written if _quoted(spot) else text)


def _value(
    spot: CursorContext, text: str, detail: str, doc: str, order: int, *, refused: bool = False
) -> CompletionCandidate:
    label = text[1:-1] if text.startswith('"') else text
    shown = text if _quoted(spot) or not text.startswith('"') else label
    return CompletionCandidate(label, Kind.Value, detail, doc, text, order, spot.range, shown, refused)


def _quoted(spot: CursorContext) -> bool:
    return spot.value is not None and spot.value.kind is TomlKind.STRING


def _tables_within(document: KernelFileText, spot: CursorContext) -> Iterator[str]:
    """Keys of the table at a spot that have a header of their own; those of an array's table stand right below it."""
    depth = len(spot.path)
    for table in document.toml.tables:
        if spot.table.index is not None and table.start <= spot.table.start:
            continue
        if table.path[:depth] == spot.path and len(table.path) > depth:
            yield table.path[depth]
        elif spot.table.index is not None:
            return
