"""Answers that are read without pydantic: the same values as with it."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import pytest

from benches.timed_units import wire_timing
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.figures import Figures
from ckwatch.model.text import span
from ckwatch.wire.decoding import Record, build_line, workspace_detail
from ckwatch.wire.encoding import adapter, to_json
from ckwatch.wire.state import BuildLine, Cause, Status, Unit, WorkspaceDetail
from fakes.fake_engine import figures_of, unit_of

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
