"""Answers that are read without pydantic."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from ckwatch.wire.messages import BuildLine, Status, WorkspaceDetail
from ckwatch.wire.record import Record, build_line, record_of, workspace_detail
from ckwatch.wire.state import Cause, Diagnostic, Figures, Position, Span, Unit

PLACE = Span(path="/ws/é.j2", start=Position(line=1, column=2), end=Position(line=1, column=3))
FOUND = Diagnostic(severity="error", source="jinja", code="x", message="m", span=PLACE, units=("k/a@x",))
LINE = BuildLine(
    event="unit",
    id="k/a@x",
    diagnostics=(FOUND,),
    unit=Unit(
        id="k/a@x",
        kernel="k",
        instance="a",
        arch="x",
        place=PLACE,
        phase="done",
        outcome="built",
        fresh=True,
        generation=1,
        errors=0,
        warnings=0,
        products={"shared-object": "/store/a.so"},
        cause=(Cause(what="w", at=1.5),),
    ),
)


def models_below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from models_below(kind)


def same(record: object, value: object) -> bool:
    if isinstance(value, BaseModel):
        return all(same(getattr(record, name), getattr(value, name)) for name in type(value).model_fields)
    if isinstance(value, tuple) and isinstance(record, list):
        return len(record) == len(value) and all(map(same, record, value))
    return record == value


def test_a_record_is_read_as_the_wire_type() -> None:
    for record in (build_line(LINE.model_dump_json().encode()), record_of(LINE)):
        assert same(record, LINE)
        assert record.unit is not None
        assert record.unit.products["shared-object"] == "/store/a.so"
        assert BuildLine.model_validate(record) == LINE


def test_it_is_json() -> None:
    assert json.loads(json.dumps(record_of(FOUND))) == FOUND.model_dump(mode="json")


def test_what_it_does_not_have() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = Record(a=1).nothing
    with pytest.raises(ValueError, match="Expecting value"):
        workspace_detail(b"<html>")


@pytest.mark.parametrize("model", [BuildLine, WorkspaceDetail, Status, Figures])
def test_no_field_is_called_like_a_method_of_dictionaries(model: type[BaseModel]) -> None:
    for one in models_below(model):
        assert not {*one.model_fields} & {*dir(dict)}
