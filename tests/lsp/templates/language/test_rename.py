"""Renaming changes names and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position
from ckwatch_lsp.templates.language.index import TemplateIndex
from ckwatch_lsp.templates.language.rename import rename
from helpers.each_row import each_row
from helpers.marked_templates import BUILT_IN, index_of


def renamed(index: TemplateIndex, path: str, position: Position, name: str) -> tuple[dict[str, str], list[str]]:
    """The texts after the edit, and the parameters that kernel files must rename."""
    renaming = rename(index, path, position, name)
    texts = {own: file.template.text for own, file in index.files.items()}
    for place in reversed(renaming.places):
        lines = index.files[place.path].template.lines
        start, end = lines.offset(place.range.start), lines.offset(place.range.end)
        texts[place.path] = texts[place.path][:start] + name + texts[place.path][end:]
    return texts, [parameter.name for parameter in renaming.parameters]


ROWS: list[tuple[Mapping[str, str], Mapping[str, str], list[str]]] = [
    (
        {"a.hip.j2": "{% set ‸x = 1 %}{{ x + x }} x {# x #}"},
        {"a.hip.j2": "{% set new = 1 %}{{ new + new }} x {# x #}"},
        [],
    ),
    ({"a.hip.j2": "{% set x = x | default(1) %}{{ ‸x }}"}, {"a.hip.j2": "{% set new = x | default(1) %}{{ new }}"}, []),
    (
        {"a.hip.j2": "{% set x = ‸x | default(1) %}{{ x }}"},
        {"a.hip.j2": "{% set x = new | default(1) %}{{ x }}"},
        ["x"],
    ),
    (
        {"a.hip.j2": "{% for x in x %}{{ ‸x }}{% endfor %}{{ x }}"},
        {"a.hip.j2": "{% for new in x %}{{ new }}{% endfor %}{{ x }}"},
        [],
    ),
    (
        {"a.hip.j2": "{% import 'm.j2' as m %}{{ m.‸f(a=1) }}", "m.j2": "{% macro f(a) %}{{ f() }}{% endmacro %}"},
        {"a.hip.j2": "{% import 'm.j2' as m %}{{ m.new(a=1) }}", "m.j2": "{% macro new(a) %}{{ new() }}{% endmacro %}"},
        [],
    ),
    (
        {"a.hip.j2": "{% import 'm.j2' as m %}{{ m.f(a=1) }}", "m.j2": "{% macro f(‸a) %}{{ a }}{% endmacro %}{{ a }}"},
        {"a.hip.j2": "{% import 'm.j2' as m %}{{ m.f(new=1) }}", "m.j2": "{% macro f(new) %}{{ new }}{% endmacro %}{{ a }}"},
        [],
    ),
    (
        {"a.hip.j2": "{% from 'm.j2' import f %}{{ ‸f() }}", "m.j2": "{% macro f() %}{% endmacro %}"},
        {"a.hip.j2": "{% from 'm.j2' import new %}{{ new() }}", "m.j2": "{% macro new() %}{% endmacro %}"},
        [],
    ),
    (
        {"a.hip.j2": "{% from 'm.j2' import f as g %}{{ ‸g() }}", "m.j2": "{% macro f() %}{% endmacro %}"},
        {"a.hip.j2": "{% from 'm.j2' import f as new %}{{ new() }}", "m.j2": "{% macro f() %}{% endmacro %}"},
        [],
    ),
    (
        {"a.hip.j2": "{% set x = 1 %}{% include 'b.j2' %}", "b.j2": "{{ ‸x }}"},
        {"a.hip.j2": "{% set new = 1 %}{% include 'b.j2' %}", "b.j2": "{{ new }}"},
        [],
    ),
    (
        # what two templates include ties their variables together
        {
            "a.hip.j2": "{% set x = 1 %}{% include 'c.j2' %}",
            "b.hip.j2": "{{ ‸x }}{% include 'c.j2' %}",
            "c.j2": "{{ x }}",
        },
        {
            "a.hip.j2": "{% set new = 1 %}{% include 'c.j2' %}",
            "b.hip.j2": "{{ new }}{% include 'c.j2' %}",
            "c.j2": "{{ new }}",
        },
        ["x"],
    ),
    (
        {"a.hip.j2": "{% extends 'b.j2' %}{% block ‸c %}{% endblock c %}", "b.j2": "{% block c %}{% endblock %}{{ self.c() }}"},
        {"a.hip.j2": "{% extends 'b.j2' %}{% block new %}{% endblock new %}", "b.j2": "{% block new %}{% endblock %}{{ self.new() }}"},
        [],
    ),
    (
        {"a.hip.j2": "{{ ‸M }}{{ template_argument('M') }}{{ parameters.M }}{{ X.M }}{{ 'M' }}"},
        {"a.hip.j2": "{{ new }}{{ template_argument('new') }}{{ parameters.new }}{{ X.M }}{{ 'M' }}"},
        ["M"],
    ),
    (
        {
            "a.hip.j2": "{# M: rows, of M\n  MN: other\n M (integer) : x #}{{ ‸M }}{% include 'b.j2' %}// M: text",
            "b.j2": "{#-M: rows-#}{# see M: #}",
            "c.hip.j2": "{# M: another #}{{ M }}",
        },
        {
            "a.hip.j2": "{# new: rows, of M\n  MN: other\n new (integer) : x #}{{ new }}{% include 'b.j2' %}// M: text",
            "b.j2": "{#-new: rows-#}{# see M: #}",
            "c.hip.j2": "{# M: another #}{{ M }}",
        },
        ["M"],
    ),
    ({"a.hip.j2": "{{ ‸M }}", "b.hip.j2": "{{ M }}"}, {"a.hip.j2": "{{ new }}", "b.hip.j2": "{{ M }}"}, ["M"]),
]  # fmt: skip


@each_row(("texts", "expected", "parameters"), ROWS)
def test_rename(texts: Mapping[str, str], expected: Mapping[str, str], parameters: list[str]) -> None:
    index, path, position = index_of(texts)
    assert renamed(index, path, position, "new") == (expected, parameters)


REFUSED = [
    ("{{ ‸arg_name(X) }}", "new", "'arg_name' is a hook, which has this name everywhere"),
    ("{{ X | ‸upper }}", "new", "'upper' is a filter, which has this name everywhere"),
    ("{{ ‸X }}", "new", "'X' is a global, which has this name everywhere"),
    (
        "{% for i in s %}{{ ‸loop }}{% endfor %}",
        "new",
        "'loop' is a variable of Jinja2, which has this name everywhere",
    ),
    ("{% include '‸b.j2' %}", "new", "rename a template by renaming its file"),
    ("{% ‸if x %}", "new", "there is nothing here that can be renamed"),
    ("int ‸x;", "new", "there is nothing here that can be renamed"),
    ("{{ ‸x }}", "1a", "'1a' is not a name: letters, digits and underscores, no digit first"),
    ("{{ ‸x }}", "a b", "'a b' is not a name: letters, digits and underscores, no digit first"),
    ("{{ ‸x }}", "", "'' is not a name: letters, digits and underscores, no digit first"),
    ("{{ ‸x }}", "not", "'not' is a word of Jinja2"),
    ("{{ ‸x }}", "loop", "'loop' is a word of Jinja2"),
    ("{{ ‸x }}", "arg_name", "'arg_name' is a name that every template has"),
    ("{% set x = 1 %}{{ ‸x }}\n{{ y }}", "y", "'y' means something else in a.hip.j2, line 2"),
    (
        "{% set y = 1 %}\n{% for x in s %}{{ ‸x }}{{ y }}{% endfor %}",
        "y",
        "'y' means something else in a.hip.j2, line 2",
    ),
    ("{% macro f(‸a) %}{% set b = 1 %}{{ a }}{% endmacro %}", "b", "'b' means something else in a.hip.j2, line 1"),
    ("{{ ‸M }} {{ N }}", "N", "'N' means something else in a.hip.j2, line 1"),
]


@each_row(("text", "name", "reason"), REFUSED)
def test_refused(text: str, name: str, reason: str) -> None:
    index, path, position = index_of({"a.hip.j2": text})
    with pytest.raises(CkwatchError) as refused:
        rename(index, path, position, name)
    assert str(refused.value) == reason


NAMED = [(name, mention.start) for name, file in index_of(BUILT_IN)[0].files.items() for mention in file.names.mentions]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(NAMED))
def test_what_is_renamed_keeps_its_places(place: tuple[str, int]) -> None:
    path, offset = place
    index, _, _ = index_of(BUILT_IN)
    position = index.files[path].template.lines.position(offset)
    try:
        texts, _ = renamed(index, path, position, "quite_new")
    except CkwatchError:
        return
    before = rename(index, path, position, "quite_new").places
    again, _, _ = index_of(texts)
    shift = sum(
        len("quite_new") - (each.range.end.column - each.range.start.column)
        for each in before
        if each.path == path and each.range.start < position and each.range.start.line == position.line
    )
    after = rename(again, path, Position(position.line, position.column + shift), "other").places
    assert [(each.path, each.range.start.line, each.role) for each in after] == [
        (each.path, each.range.start.line, each.role) for each in before
    ]
    meaning = index.meaning(path, position)
    assert meaning is not None
    if meaning.name in {*index.words.hooks, *index.words.globals}:
        return  # it hid a name that every template has, which nothing may be renamed to
    back, _ = renamed(again, path, Position(position.line, position.column + shift), meaning.name)
    assert back == BUILT_IN
