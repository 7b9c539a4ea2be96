"""What could be written at a place of a kernel file or of `ckwatch.toml`."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ckwatch.wire.language import Key, ParameterDetail, ParameterValue
from ckwatch_lsp.kernel_file.document import KernelFile, is_parameter
from ckwatch_lsp.kernel_file.keys import ARRAYS, Keys
from ckwatch_lsp.kernel_file.names import words_of
from ckwatch_lsp.kernel_file.spots import Spot, SpotKind, spot_at
from ckwatch_lsp.kernel_file.syntax import Kind
from ckwatch_lsp.kernel_file.toml_text import toml_key, toml_value
from ckwatch_lsp.text import Position, Range


class CandidateKind(enum.Enum):
    """What is offered."""

    KEY = "key"
    PARAMETER = "parameter"
    TABLE = "table"
    VALUE = "value"
    TEMPLATE = "template"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that could be written: `text` replaces what is at `range`. `order`: lower ones come first.

    `filter` is what an editor compares with what is written so far. `refused`: a rule speaks against it, as `doc` says.
    """

    label: str
    text: str
    range: Range
    kind: CandidateKind
    detail: str = ""
    doc: str = ""
    order: int = 0
    refused: bool = False
    filter: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What completion stands on: the file's keys, template names, the template's parameters, and values that the daemon
    judged for the parameter that is being written."""

    keys: Keys
    templates: Sequence[str] = ()
    parameters: Sequence[ParameterDetail] = ()
    values: Sequence[ParameterValue] = field(default_factory=tuple)


def parameter_at(document: KernelFile, position: Position) -> str | None:
    """The template parameter whose value is being written; None elsewhere."""
    spot = spot_at(document.toml, position)
    if spot.kind is not SpotKind.VALUE or not spot.path:
        return None
    return spot.path[-1] if is_parameter(spot.path[:-1], spot.path[-1]) else None


def complete(document: KernelFile, position: Position, known: Known) -> list[Candidate]:
    """Everything that could be written at `position`."""
    spot = spot_at(document.toml, position)
    settings = {"operation.kind": document.kind}
    match spot.kind:
        case SpotKind.KEY:
            return list(_keys(document, spot, known, settings))
        case SpotKind.VALUE:
            return list(_values(document, spot, position, known, settings))
        case SpotKind.HEADER:
            return list(_headers(document, spot, known, settings))
        case _:
            return []


def _keys(document: KernelFile, spot: Spot, known: Known, settings: Mapping[str, str]) -> Iterator[Candidate]:
    there = {*spot.siblings, *_tables_within(document, spot)}
    has_equals = spot.pair is not None and spot.pair.equals is not None
    for at, key in enumerate(known.keys.of_table(spot.path, settings)):
        name = key.path.rpartition(".")[2]
        if name == "*":
            yield from _parameter_keys(document, spot, known, there, equals=has_equals)
        elif name not in there and not (key.type == ARRAYS and not spot.path):
            order = at if key.required else 100 + at
            detail = ("required, " if key.required else "") + key.type
            text = name + ("" if has_equals else " = ")
            yield Candidate(name, text, spot.range, CandidateKind.KEY, detail, _doc(key), order, filter=name)


def _parameter_keys(
    document: KernelFile, spot: Spot, known: Known, there: set[str], *, equals: bool
) -> Iterator[Candidate]:
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
        yield Candidate(
            parameter.name,
            text,
            spot.range,
            CandidateKind.PARAMETER,
            detail,
            parameter.doc,
            order,
            filter=parameter.name,
        )


def _values(
    document: KernelFile, spot: Spot, position: Position, known: Known, settings: Mapping[str, str]
) -> Iterator[Candidate]:
    name = spot.path[-1] if spot.path else ""
    if is_parameter(spot.path[:-1], name):
        yield from _parameter_values(document, spot, known, name)
        return
    match spot.path:
        case ("template",):
            yield from (_string(spot, one, CandidateKind.TEMPLATE, at) for at, one in enumerate(known.templates))
        case ("sweep", "base"):
            names = enumerate(document.instance_names)
            yield from (_string(spot, one, CandidateKind.INSTANCE, at) for at, one in names)
        case ("sweep", "where"):
            yield from _condition(document, spot, position, known)
        case ("operation", _, "same_as"):
            others = [one for one in ("a", "b", "bias") if one != spot.path[1]]
            yield from (_string(spot, one, CandidateKind.VALUE, at) for at, one in enumerate(others))
        case _:
            key = known.keys.key(spot.path, settings)
            if key is None or (key.type.startswith("array") and not spot.element):
                return
            for at, text in enumerate(key.values):
                preferred = 0 if text == key.default else 1
                detail = "default" if text == key.default else ""
                yield _value(spot, text, detail, "", preferred * 100 + at)


def _parameter_values(document: KernelFile, spot: Spot, known: Known, name: str) -> Iterator[Candidate]:
    in_sweep = spot.path[:-1] == ("sweep", "parameters")
    if in_sweep and not spot.element and spot.value is None:
        return
    if known.values:
        for at, judged in enumerate(known.values):
            text = toml_value(judged.value)
            detail = "" if judged.accepted else "refused: " + ", ".join(judged.refused_by)
            order = at if judged.accepted else 1000 + at
            yield _value(spot, text, detail, judged.why_not, order, refused=not judged.accepted)
        return
    described = next((one for one in known.parameters if one.name == name), None)
    allowed = () if described is None else described.values
    for at, text in enumerate(dict.fromkeys([*allowed, *_used(document, name)])):
        yield _value(spot, text, "", "", at)


def _used(document: KernelFile, name: str) -> Iterator[str]:
    """The values that a parameter has in the file, on one line each."""
    for table, value in document.parameter_values(name):
        if not value.closed or value.kind is Kind.OTHER:
            continue
        swept = table.path[0] == "sweep" and value.kind is Kind.ARRAY
        yield from (one.text for one in (value.items if swept else (value,)) if "\n" not in one.text)


def _condition(document: KernelFile, spot: Spot, position: Position, known: Known) -> Iterator[Candidate]:
    """Names of parameters within a condition."""
    if not spot.inside or spot.value is None:
        return
    offset = document.toml.offset(position)
    word = next(((start, end) for _, start, end in words_of(spot.value) if start <= offset <= end), (offset, offset))
    sweep = document.sweep_at(position)
    own = {} if sweep is None else sweep.parameters
    names = dict.fromkeys([*own, *(one.name for one in known.parameters)])
    for at, name in enumerate(names):
        detail = "swept" if name in own else ""
        yield Candidate(name, name, document.toml.range(*word), CandidateKind.PARAMETER, detail, order=at, filter=name)


def _headers(document: KernelFile, spot: Spot, known: Known, settings: Mapping[str, str]) -> Iterator[Candidate]:
    once = {".".join(table.path) for table in document.toml.tables if table.index is None and table is not spot.table}
    before = [table.path for table in document.toml.tables if table.start < spot.table.start]
    for at, key in enumerate(known.keys.headers(settings)):
        array = key.type == ARRAYS
        if key.path in once and key.path != "sweep.parameters":
            continue
        if key.path == "sweep.parameters" and ("sweep",) not in before:
            continue
        text = f"[[{key.path}]]" if array else f"[{key.path}]"
        yield Candidate(text, text, spot.range, CandidateKind.TABLE, "", key.doc, at, filter=text)


def _string(spot: Spot, text: str, kind: CandidateKind, order: int) -> Candidate:
    written = toml_value(text)
    return Candidate(text, written, spot.range, kind, order=order, filter=written if _quoted(spot) else text)


def _value(spot: Spot, text: str, detail: str, doc: str, order: int, *, refused: bool = False) -> Candidate:
    label = text[1:-1] if text.startswith('"') else text
    shown = text if _quoted(spot) or not text.startswith('"') else label
    return Candidate(label, text, spot.range, CandidateKind.VALUE, detail, doc, order, refused, shown)


def _quoted(spot: Spot) -> bool:
    return spot.value is not None and spot.value.kind is Kind.STRING


def _tables_within(document: KernelFile, spot: Spot) -> Iterator[str]:
    """Keys of the table at a spot that have a header of their own; those of an array's table stand right below it."""
    depth = len(spot.path)
    for table in document.toml.tables:
        if spot.table.index is not None and table.start <= spot.table.start:
            continue
        if table.path[:depth] == spot.path and len(table.path) > depth:
            yield table.path[depth]
        elif spot.table.index is not None:
            return


def _doc(key: Key) -> str:
    return key.doc + (f"\n\nDefault: `{key.default}`" if key.default else "")
