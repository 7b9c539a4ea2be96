"""Meaning of names across templates."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ckwatch.engine.queries.language_templates import template_detail
from ckwatch.workspace.operations import KINDS
from ckwatch_lsp.templates.language.index import (
    TOP_LEVEL,
    BlockName,
    BuiltinName,
    InstanceParameter,
    TemplateTarget,
    Variable,
    parameters_of,
    printing_tags,
)
from helpers.each_row import each_row
from helpers.marked_templates import BUILT_IN, TEMPLATES, index_of, only, text_at

TOP = frozenset(("a.hip.j2",))

ROWS: list[tuple[Mapping[str, str], object]] = [
    ({"a.hip.j2": "{{ ‸MPerBlock }}"}, InstanceParameter("MPerBlock", TOP)),
    ({"a.hip.j2": "{{ template_argument('‸MPerBlock') }}"}, InstanceParameter("MPerBlock", TOP)),
    ({"a.hip.j2": "{{ ‸arg_name(X) }}"}, BuiltinName("hook", "arg_name")),
    ({"a.hip.j2": "{{ kernel.‸arg_name(X) }}"}, BuiltinName("hook", "arg_name")),
    ({"a.hip.j2": "{{ arg_name(‸X) }}"}, BuiltinName("global", "X")),
    ({"a.hip.j2": "{{ X | ‸upper }}"}, BuiltinName("filter", "upper")),
    ({"a.hip.j2": "{{ X is ‸defined }}"}, BuiltinName("test", "defined")),
    ({"a.hip.j2": "{% include 'b‸.j2' %}", "b.j2": ""}, TemplateTarget("b.j2", "b.j2")),
    ({"a.hip.j2": "{% include 'b‸.j2' %}"}, TemplateTarget("b.j2", None)),
    # an include sees what was set before it
    ({"a.hip.j2": "{% set x = 1 %}{% include 'b.j2' %}", "b.j2": "{{ ‸x }}"}, Variable("a.hip.j2", 0, "x")),
    ({"a.hip.j2": "{% include 'b.j2' %}{% set x = 1 %}", "b.j2": "{{ ‸x }}"}, InstanceParameter("x", TOP)),
    (
        {"a.hip.j2": "{% set x = 1 %}{% include 'b.j2' without context %}", "b.j2": "{{ ‸x }}"},
        InstanceParameter("x", frozenset(("b.j2",))),
    ),
    (
        {"a.hip.j2": "{% for x in s %}{% include 'b.j2' %}{% endfor %}", "b.j2": "{{ ‸x }}"},
        Variable("a.hip.j2", 1, "x"),
    ),
    (
        {"a.hip.j2": "{% set x = 1 %}{% include 'b.j2' %}", "b.j2": "{% include 'c.j2' %}", "c.j2": "{{ ‸x }}"},
        Variable("a.hip.j2", 0, "x"),
    ),
    # what an include sets stays there
    ({"a.hip.j2": "{% include 'b.j2' %}{{ ‸x }}", "b.j2": "{% set x = 1 %}"}, InstanceParameter("x", TOP)),
    # imports
    (
        {"a.hip.j2": "{% import 'b.j2' as m %}{{ m.‸f() }}", "b.j2": "{% macro f() %}{% endmacro %}"},
        Variable("b.j2", 0, "f"),
    ),
    (
        {"a.hip.j2": "{% from 'b.j2' import f %}{{ ‸f() }}", "b.j2": "{% macro f() %}{% endmacro %}"},
        Variable("b.j2", 0, "f"),
    ),
    (
        {"a.hip.j2": "{% from 'b.j2' import f as g %}{{ ‸g() }}", "b.j2": "{% macro f() %}{% endmacro %}"},
        Variable("a.hip.j2", 0, "g"),
    ),
    (
        {"a.hip.j2": "{% from 'b.j2' import ‸f as g %}", "b.j2": "{% macro f() %}{% endmacro %}"},
        Variable("b.j2", 0, "f"),
    ),
    (
        {"a.hip.j2": "{% import 'b.j2' as m with context %}", "b.j2": "{% macro f() %}{{ ‸MPerBlock }}{% endmacro %}"},
        InstanceParameter("MPerBlock", TOP),
    ),
    (
        {"a.hip.j2": "{% import 'b.j2' as m %}{{ m.f(‸a=1) }}", "b.j2": "{% macro f(a) %}{% endmacro %}"},
        Variable("b.j2", 1, "a"),
    ),
    # blocks
    (
        {"a.hip.j2": "{% extends 'b.j2' %}{% block ‸c %}{% endblock %}", "b.j2": "{% block c %}{% endblock %}"},
        BlockName("c", frozenset(("a.hip.j2", "b.j2"))),
    ),
    ({"a.hip.j2": "{% block c %}{% endblock %}{{ self.‸c() }}"}, BlockName("c", TOP)),
    (
        {"a.hip.j2": "{% extends 'b.j2' %}{% set x = 1 %}", "b.j2": "{{ ‸x }}"},
        Variable("a.hip.j2", 0, "x"),
    ),
    (
        {
            "a.hip.j2": "{% extends 'b.j2' %}{% block c %}{{ ‸x }}{% endblock %}",
            "b.j2": "{% set x = 1 %}{% block c %}{% endblock %}",
        },
        Variable("b.j2", 0, "x"),
    ),
    # a circle
    ({"a.hip.j2": "{% include 'b.j2' %}", "b.j2": "{% include 'a.hip.j2' %}{{ ‸x }}"}, InstanceParameter("x", TOP)),
    ({"a.hip.j2": "{% include 'a.hip.j2' %}{{ ‸x }}"}, InstanceParameter("x", TOP)),
]


@each_row(("texts", "expected"), ROWS)
def test_meaning(texts: Mapping[str, str], expected: object) -> None:
    index, path, position = index_of(texts)
    meaning = index.meaning(path, position)
    assert meaning is not None
    assert only(meaning.entities) == expected


NOTHING = ["‸int x;", "{{ x.‸y }}", "{‸% if x %}", "{% i‸f x %}", "{# ‸x #}", "{{ 1 ‸+ 2 }}"]


@pytest.mark.parametrize("text", NOTHING)
def test_no_meaning(text: str) -> None:
    index, path, position = index_of({"a.hip.j2": text})
    assert index.meaning(path, position) is None


def test_an_include_of_two_templates_sees_the_variables_of_both() -> None:
    index, path, position = index_of(
        {
            "a.hip.j2": "{% set x = 1 %}{% include 'c.j2' %}",
            "b.hip.j2": "{% include 'c.j2' %}",
            "c.j2": "{{ ‸x }}",
        }
    )
    meaning = index.meaning(path, position)
    assert meaning is not None
    assert meaning.entities == (
        Variable("a.hip.j2", 0, "x"),
        InstanceParameter("x", frozenset(("a.hip.j2", "b.hip.j2"))),
    )


def test_places_in_the_built_in_templates() -> None:
    texts = {
        path: text for path, text in BUILT_IN.items() if path != "ck/gemm_microscaled.hip.j2"
    }  # it has a `ds`, too
    texts["ck/split_k.j2"] = texts["ck/split_k.j2"].replace("in ds", "in ‸ds", 1)
    index, path, position = index_of(texts)
    meaning = index.meaning(path, position)
    assert meaning is not None
    places = list(index.places(only(meaning.entities)))
    others = {"ck/gemm_kernel.j2", "ck/split_k.j2", "ck/epilogue.j2"}
    assert {place.path for place in places} == {"ck/gemm_universal.hip.j2", *others}
    assert {text_at(index, place) for place in places} == {"ds"}
    assert {place.path for place in index.definitions(only(meaning.entities))} == {"ck/gemm_universal.hip.j2"}


def test_a_parameter_of_unrelated_templates_is_two() -> None:
    index, path, position = index_of({"a.hip.j2": "{{ ‸M }}", "b.hip.j2": "{{ M }}"})
    meaning = index.meaning(path, position)
    assert meaning is not None
    assert [place.path for place in index.places(only(meaning.entities))] == ["a.hip.j2"]


TENSORS = tuple({name for kind in KINDS.values() for name in kind.tensors})


@each_row("name", [name for name in BUILT_IN if name.endswith(TOP_LEVEL)])
def test_the_daemon_says_the_same(name: str) -> None:
    detail = template_detail(name, [TEMPLATES], {}, TENSORS, [])
    assert detail is not None
    index, _, _ = index_of({own: BUILT_IN[own] for own in detail.files})
    assert parameters_of(index, name) == sorted(parameter.name for parameter in detail.parameters)


def test_what_is_being_written_does_not_count() -> None:
    index, path, position = index_of({"a.hip.j2": "{{ MPer‸ }}{{ N }}{% include 'b.j2' %}", "b.j2": "{{ L }}"})
    offset = index.files[path].template.lines.offset(position)
    assert parameters_of(index, path, besides=offset) == ["L", "N"]
    assert parameters_of(index, path) == ["L", "MPer", "N"]


def test_parameters_of_other_templates_do_not_count() -> None:
    index, _, _ = index_of({"a.hip.j2": "{{ M }}", "b.hip.j2": "{{ N }}"})
    assert parameters_of(index, "a.hip.j2") == ["M"]


def test_where_a_name_is_printed_as_it_is() -> None:
    text = "{% set ‸x = 1 %}{{ x }}{{ x + 1 }}{{- x -}}{{ f(x) }}{{ y }}"
    index, path, position = index_of({"a.hip.j2": text})
    meaning = index.meaning(path, position)
    assert meaning is not None
    found = printing_tags(index, path, only(meaning.entities))
    plain = index.files[path].template.text
    assert [plain[each.start.column : each.end.column] for each in found] == ["{{ x }}", "{{- x -}}"]
