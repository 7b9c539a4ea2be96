"""Answers that are read without pydantic: the same values as with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic import ValidationError

from benches.timed_units import wire_timing
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.figures import Figures
from ckwatch.model.text import span
from ckwatch.model.topics import Topic
from ckwatch.questions.endpoint import AnyEndpoint
from ckwatch.questions.table import ENDPOINTS
from ckwatch.wire.decoding import Record, build_line, workspace_detail
from ckwatch.wire.encoding import adapter, to_json
from ckwatch.wire.state import BuildLine, Cause, Status, Unit, WorkspaceDetail
from fakes.fake_engine import figures_of, unit_of
from helpers.each_row import each_row

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PLACE = span("/ws/é.j2", 1, 2, 1, 3)
FOUND = Diagnostic(
    Severity.ERROR, Source.JINJA, "x", "m", PLACE, (Related("r", None),), fixes=(Fix(PLACE, ";"),), units=("k/a@x",)
)
UNIT = unit_of(
    products={"shared-object": "/store/a.so"},
    cause=(Cause(what="w", at=1.5),),
    timings=(wire_timing(),),
    figures=figures_of(),
)
LINE = BuildLine(event="unit", id="k/a@x", diagnostics=(FOUND,), unit=UNIT)


def same(record: object, value: object) -> bool:
    if is_dataclass(value) and isinstance(record, Record):
        return all(same(getattr(record, one.name), getattr(value, one.name)) for one in fields(value))
    if isinstance(value, tuple) and isinstance(record, list):
        return len(record) == len(value) and all(map(same, record, value))
    return record == value


def test_a_line_is_read_as_it_was_sent() -> None:
    data = to_json(LINE)
    assert adapter(BuildLine).validate_json(data) == LINE
    assert same(build_line(data), LINE)
    assert build_line(data).diagnostics == (FOUND,)
    assert build_line(data).diagnostics[0].severity is Severity.ERROR


def test_fields_of_a_newer_daemon_are_passed_over() -> None:
    sent = json.loads(to_json(LINE))
    sent["diagnostics"][0]["later"] = sent["later"] = 1
    data = json.dumps(sent).encode()
    assert adapter(BuildLine).validate_json(data) == LINE
    assert build_line(data).diagnostics == (FOUND,)


@pytest.mark.parametrize("data", [b"<html>", b"[]", b"{}", b'{"diagnostics": [1]}', b'{"diagnostics": [{}]}'])
def test_what_is_no_answer(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"Expecting value|no answer"):
        workspace_detail(data)


def test_what_a_record_does_not_have() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = Record(a=1).nothing


@pytest.mark.parametrize("kind", [BuildLine, Unit, Cause, WorkspaceDetail, Status, Figures])
def test_no_field_is_called_like_a_method_of_dictionaries(kind: type[DataclassInstance]) -> None:
    assert not {one.name for one in fields(kind)} & {*dir(dict)}


ANSWERING = [one for one in ENDPOINTS if one.answer is not None]
SCALARS = {str: "é", int: 7, float: 0.5, bool: True, type(None): None, Any: {"any": [1]}, Topic: Topic("unit/k/a@x")}


def samples(kind: Any) -> list[Any]:
    """Values of a type that have, taken together, each part in each of its types, and once no optional part."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if is_dataclass(origin):
        return objects(origin, get_type_hints(kind if isinstance(kind, type) else origin), arguments)
    if origin is Annotated:
        return samples(arguments[0])
    if origin is Literal:
        return list(arguments)
    if origin in (Union, UnionType):
        return [value for one in arguments for value in samples(one)]
    if origin in (list, tuple):
        many = origin is list or arguments[-1] is ...
        return [origin(samples(arguments[0]))] if many else [origin(samples(one)[0] for one in arguments)]
    if hasattr(origin, "_make"):  # a NamedTuple
        parts = [samples(one) for one in get_type_hints(origin).values()]
        return [origin._make(some[at] for some in parts) for at in (0, -1)]
    if origin in (dict, Mapping):
        return [dict.fromkeys(samples(arguments[0]), samples(arguments[1])[-1])]
    return list(origin)[:2] if isinstance(origin, type) and issubclass(origin, Enum) else [SCALARS[kind]]


def objects(origin: Any, hints: dict[str, Any], arguments: tuple[Any, ...]) -> list[Any]:
    own = {one.name: hints[one.name] for one in fields(origin) if one.init}
    parts = {
        name: samples(hint[arguments] if getattr(hint, "__parameters__", ()) else hint) for name, hint in own.items()
    }
    made = [
        {name: some[min(at, len(some) - 1)] for name, some in parts.items()}
        for at in range(max(map(len, parts.values())))
    ]
    required = {one.name for one in fields(origin) if one.default is MISSING and one.default_factory is MISSING}
    return [origin(**values) for values in [*made, {name: some for name, some in made[0].items() if name in required}]]


@each_row("endpoint", ANSWERING)
def test_every_answer_is_read_as_pydantic_reads_it(endpoint: AnyEndpoint) -> None:
    for value in samples(endpoint.sent):
        sent = adapter(endpoint.sent).dump_json(value)
        assert endpoint.decode(json.loads(sent)) == endpoint.adapter.validate_json(sent)


@each_row("endpoint", ANSWERING)
def test_other_contents_are_refused(endpoint: AnyEndpoint) -> None:
    other: tuple[Any, ...] = (None, True, 1.5, "text", [{}], {"event": "none"})
    for value in other:
        with suppress(ValidationError):
            endpoint.adapter.validate_json(json.dumps(value), strict=True)
            continue
        with pytest.raises(ValueError, match=r"."):
            endpoint.decode(value)
