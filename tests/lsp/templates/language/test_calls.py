"""Who calls macros and includes templates."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ckwatch.model.text import Position, Range
from ckwatch_lsp.templates.language.calls import CallItem, Calls, extent, incoming, items_at, outgoing
from ckwatch_lsp.templates.language.index import TemplateIndex, TemplatePlace, Variable
from ckwatch_lsp.templates.language.tags import Role
from helpers.each_row import each_row
from helpers.marked_templates import BUILT_IN, index_of, text_at

F = "{% macro f() %}{% endmacro %}"


def name_of(item: CallItem) -> str:
    return item.path if item.macro is None else f"{item.path}:{item.macro.name}"


def shown(index: TemplateIndex, calls: list[Calls], caller: CallItem | None = None) -> list[str]:
    """`ITEM: names by which it is called`; `caller`: in whose file these are, if not in the item's."""
    return [
        f"{name_of(each.item)}: "
        + " ".join(text_at(index, TemplatePlace((caller or each.item).path, reach, Role.LOAD)) for reach in each.ranges)
        for each in calls
    ]


ITEMS: list[tuple[Mapping[str, str], list[str]]] = [
    ({"a.hip.j2": "{% macro ‸f() %}{% endmacro %}"}, ["a.hip.j2:f"]),
    ({"a.hip.j2": F + "{{ ‸f() }}"}, ["a.hip.j2:f"]),
    ({"a.hip.j2": F + "{% set g = ‸f %}"}, ["a.hip.j2:f"]),
    ({"a.hip.j2": "{% import 'b.j2' as m %}{{ m.‸f() }}", "b.j2": F}, ["b.j2:f"]),
    ({"a.hip.j2": "{% import 'b.j2' as m %}{{ ‸m.f() }}", "b.j2": F}, ["b.j2"]),
    ({"a.hip.j2": "{% from 'b.j2' import f as g %}{{ ‸g() }}", "b.j2": F}, ["b.j2:f"]),
    ({"a.hip.j2": "{% from 'b.j2' import ‸f as g %}", "b.j2": F}, ["b.j2:f"]),
    ({"a.hip.j2": "{% from 'b.j2' import f as ‸g %}", "b.j2": F}, ["b.j2:f"]),
    ({"a.hip.j2": F + "{% call(x) ‸f() %}{% endcall %}"}, ["a.hip.j2:f"]),
    ({"a.hip.j2": "{% include '‸b.j2' %}", "b.j2": ""}, ["b.j2"]),
    ({"a.hip.j2": "{% from '‸b.j2' import f %}", "b.j2": F}, ["b.j2"]),
    ({"a.hip.j2": "{% extends '‸b.j2' %}", "b.j2": ""}, ["b.j2"]),
    ({"a.hip.j2": "{{ header('‸ck') }}", "hooks/header_ck.j2": ""}, ["hooks/header_ck.j2"]),
    ({"a.hip.j2": "{% include '‸b.j2' %}"}, []),
    ({"a.hip.j2": "int ‸x;"}, ["a.hip.j2"]),
    ({"a.hip.j2": "{% set ‸x = 1 %}"}, ["a.hip.j2"]),
    ({"a.hip.j2": "{% block b %}‸{% endblock %}"}, ["a.hip.j2"]),
    ({"a.hip.j2": "{% macro f() %}{{ ‸caller() }}{% endmacro %}"}, ["a.hip.j2:f"]),
    ({"a.hip.j2": "{% macro f(a) %}int ‸x;{% endmacro %}"}, ["a.hip.j2:f"]),
    ({"a.hip.j2": "{% macro f() %}{% macro g() %}‸{% endmacro %}{% endmacro %}"}, ["a.hip.j2:g"]),
    ({"a.hip.j2": "{% macro %}‸{% endmacro %}"}, ["a.hip.j2"]),
    # what includes a template gives it its macros
    (
        {"a.hip.j2": F + "{% include 'c.j2' %}", "b.hip.j2": F + "{% include 'c.j2' %}", "c.j2": "{{ ‸f() }}"},
        ["a.hip.j2:f", "b.hip.j2:f"],
    ),
]


@each_row(("texts", "expected"), ITEMS)
def test_items(texts: Mapping[str, str], expected: list[str]) -> None:
    index, path, position = index_of(texts)
    assert [name_of(item) for item in items_at(index, path, position)] == expected


INCOMING: list[tuple[Mapping[str, str], list[str]]] = [
    ({"a.hip.j2": "{% macro ‸f() %}{% endmacro %}{{ f() }}{{ f }}{{ f() }}"}, ["a.hip.j2: f f"]),
    (
        {
            "a.hip.j2": "{% import 'b.j2' as m %}{{ m.f(m.f()) }}{% macro g() %}{{ m.f() }}{% endmacro %}",
            "b.j2": "{% macro ‸f(x) %}{% endmacro %}",
        },
        ["a.hip.j2: f f", "a.hip.j2:g: f"],
    ),
    # under another name, in the template that imports it and in one that this includes
    (
        {
            "a.hip.j2": "{% from 'b.j2' import f as g %}{{ g() }}{% include 'c.j2' %}",
            "b.j2": "{% macro ‸f() %}{% endmacro %}",
            "c.j2": "{{ g() }}",
            "d.hip.j2": "{% from 'b.j2' import f %}{{ f() }}{{ g() }}",
        },
        ["a.hip.j2: g", "c.j2: g", "d.hip.j2: f"],
    ),
    # another macro of this name
    ({"a.hip.j2": F + "{{ f() }}", "b.hip.j2": "{% macro ‸f() %}{% endmacro %}"}, []),
    # recursion, and the default of a parameter
    (
        {"a.hip.j2": "{% macro ‸f(n) %}{{ f(n - 1) }}{% endmacro %}{% macro g(a=f(1)) %}{% endmacro %}"},
        ["a.hip.j2:f: f", "a.hip.j2:g: f"],
    ),
    # the body of a call block belongs to what is around it, and `caller` to nobody
    (
        {
            "a.hip.j2": (
                "{% macro box() %}{{ caller() }}{% endmacro %}{% macro ‸f() %}{% endmacro %}"
                "{% macro g() %}{% call(x) box() %}{{ f() }}{% endcall %}{% endmacro %}"
                "{% call f() %}{% endcall %}"
            )
        },
        ["a.hip.j2:g: f", "a.hip.j2: f"],
    ),
    (
        {"a.hip.j2": "{% macro f() %}{{ caller() }}{% endmacro %}{% macro ‸g() %}{% call f() %}{% endcall %}{% endmacro %}"},
        [],
    ),
    (
        {
            "a.hip.j2": "‸{% include 'a.hip.j2' %}",
            "b.hip.j2": "{% extends 'a.hip.j2' %}",
            "c.j2": "{% macro f() %}{% include 'a.hip.j2' %}{% import 'a.hip.j2' as a %}{% endmacro %}",
            "d.j2": "{% from 'a.hip.j2' import f %}",
        },
        ["a.hip.j2: a.hip.j2", "b.hip.j2: a.hip.j2", "c.j2:f: a.hip.j2 a.hip.j2", "d.j2: a.hip.j2"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "expected"), INCOMING)
def test_incoming(texts: Mapping[str, str], expected: list[str]) -> None:
    index, path, position = index_of(texts)
    (item,) = items_at(index, path, position)
    assert shown(index, incoming(index, item)) == expected


OUTGOING: list[tuple[Mapping[str, str], list[str]]] = [
    (
        {
            "a.hip.j2": (
                "‸{% extends 'b.j2' %}{% import 'c.j2' as c %}{{ c.f() }}{% include ['no.j2', 'd.j2'] %}{{ c.f() }}"
                "{{ c.g() }}{{ upper() }}"
            ),
            "b.j2": "",
            "c.j2": F,
            "d.j2": "",
        },
        ["b.j2: b.j2", "c.j2: c.j2", "c.j2:f: f f", "d.j2: d.j2"],
    ),
    # what a macro calls is the macro's
    ({"a.hip.j2": "‸x{% macro f() %}{{ f() }}{% endmacro %}"}, []),
    (
        {
            "a.hip.j2": (
                "{% macro ‸f() %}{{ caller() }}{{ f() }}{% call g() %}{{ h() }}{% endcall %}{% include 'b.j2' %}"
                "{% macro h() %}{{ g() }}{% endmacro %}{% endmacro %}{% macro g() %}{% endmacro %}"
            ),
            "b.j2": "",
        },
        ["a.hip.j2:f: f", "a.hip.j2:g: g", "a.hip.j2:h: h", "b.j2: b.j2"],
    ),
    # both definitions of a macro
    (
        {
            "a.hip.j2": (
                "{% if x %}{% macro ‸f() %}{{ g() }}{% endmacro %}{% else %}{% macro f() %}{{ g() }}{% endmacro %}"
                "{% endif %}{% macro g() %}{% endmacro %}"
            )
        },
        ["a.hip.j2:g: g g"],
    ),
]


@pytest.mark.parametrize(("texts", "expected"), OUTGOING)
def test_outgoing(texts: Mapping[str, str], expected: list[str]) -> None:
    index, path, position = index_of(texts)
    (item,) = items_at(index, path, position)
    assert shown(index, outgoing(index, item), item) == expected


def test_the_extent_of_a_macro_and_of_a_template() -> None:
    index, path, _ = index_of({"a.hip.j2": "x\n{%- macro f() %}\n{% endmacro %}\n‸"})
    macro = CallItem(path, Variable(path, 0, "f"))
    assert extent(index, macro) == (Range(Position(1, 0), Position(2, 14)), Range(Position(1, 10), Position(1, 11)))
    assert extent(index, CallItem(path)) == (
        Range(Position(0, 0), Position(3, 0)),
        Range(Position(0, 0), Position(0, 0)),
    )


def test_what_is_not_there_any_more() -> None:
    index, path, _ = index_of({"a.hip.j2": "‸{{ f() }}"})
    for item in (CallItem(path, Variable(path, 0, "f")), CallItem("b.j2"), CallItem("b.j2", Variable("b.j2", 0, "f"))):
        assert extent(index, item) is None
        assert incoming(index, item) == []
        assert outgoing(index, item) == []


def test_what_goes_in_comes_out_in_the_built_in_templates() -> None:
    index, _, _ = index_of(BUILT_IN)
    items = {CallItem(path) for path in index.files}
    edges = set()
    for item in (found := list(items)):
        for calls in outgoing(index, item):
            edges.add((item, calls.item, calls.ranges))
            if calls.item not in items:
                items.add(calls.item)
                found.append(calls.item)
    back = {(calls.item, item, calls.ranges) for item in items for calls in incoming(index, item)}
    assert {edge for edge in back if edge[0] in items} == edges
    assert any(called.macro is not None for _, called, _ in edges)
    assert any(caller.macro is not None for caller, _, _ in edges)
