"""Semantic tokens, outline, folds, selections, highlights, links."""

from __future__ import annotations

import pytest

from ckwatch_lsp.protocol.text_parts import TOKEN_MODIFIERS, TOKEN_TYPES, TextSymbol
from ckwatch_lsp.templates.language.outline import folds, highlights, outline, selection
from ckwatch_lsp.templates.language.semantic_tokens import semantic_tokens
from ckwatch_lsp.templates.language.syntax import TemplateTree
from helpers.each_row import each_row
from helpers.marked_templates import index_of

TOKENS = [
    ("{{ a }}", "{{/macro a/parameter+readonly }}/macro"),
    ("{{ arg_name(X) }}", "{{/macro arg_name/function+defaultLibrary (/operator X/variable+defaultLibrary )/operator }}/macro"),
    (
        "{%- set x = 1 -%}",
        "{%-/macro set/keyword x/variable+declaration =/operator 1/number -%}/macro",
    ),
    (
        "{% set x = 1 %}{% set x = 2 %}",
        (
            "{%/macro set/keyword x/variable+declaration =/operator 1/number %}/macro"
            " {%/macro set/keyword x/variable+modification =/operator 2/number %}/macro"
        ),
    ),
    ("{{ 'a' | upper }}", "{{/macro 'a'/string |/operator upper/function+defaultLibrary }}/macro"),
    (
        "{{ template_argument('M') }}",
        (
            "{{/macro template_argument/function+defaultLibrary (/operator '/string M/parameter+readonly '/string"
            " )/operator }}/macro"
        ),
    ),
    ("{{ X.dtype }}", "{{/macro X/variable+defaultLibrary ./operator dtype/property }}/macro"),
    (
        "{% import 'm.j2' as m %}{{ m.f(a=1) }}",
        (
            "{%/macro import/keyword 'm.j2'/string as/keyword m/namespace+declaration %}/macro"
            " {{/macro m/namespace ./operator f/function (/operator a/parameter =/operator 1/number )/operator }}/macro"
        ),
    ),
    ("a {# b\nc #} d", "{# b/comment c #}/comment"),
    ("{% raw %}{{ a }}{% endraw %}", "{% raw %}/macro {% endraw %}/macro"),
    ("{{ not a }}", "{{/macro not/keyword a/parameter+readonly }}/macro"),
    ("{% block b %}{% endblock %}", "{%/macro block/keyword b/class+declaration %}/macro {%/macro endblock/keyword %}/macro"),
    (
        "{% for i in s %}{{ loop.index }}",
        (
            "{%/macro for/keyword i/variable+declaration in/keyword s/parameter+readonly %}/macro"
            " {{/macro loop/variable+defaultLibrary ./operator index/property }}/macro"
        ),
    ),
]  # fmt: skip


@each_row(("text", "expected"), TOKENS)
def test_semantic_tokens(text: str, expected: str) -> None:
    index, _, _ = index_of({"a.hip.j2": text, "m.j2": "{% macro f(a) %}{% endmacro %}"})
    lines = text.split("\n")
    found = [
        "/".join(
            (
                lines[one.range.start.line][one.range.start.column : one.range.end.column],
                "+".join((one.type, *one.modifiers)),
            )
        )
        for one in semantic_tokens(index, "a.hip.j2")
    ]
    assert {one.type for one in semantic_tokens(index, "a.hip.j2")} <= {*TOKEN_TYPES}
    assert {each for one in semantic_tokens(index, "a.hip.j2") for each in one.modifiers} <= {*TOKEN_MODIFIERS}
    assert " ".join(found) == expected


def test_tokens_of_a_range_are_those_of_all_in_it() -> None:
    text = "{{ a }}\n{# x\ny\nz #}\n{{ b }}\n{{ c }}"
    index, _, _ = index_of({"a.hip.j2": text})
    everything = semantic_tokens(index, "a.hip.j2")
    for first in range(6):
        for last in range(first, 6):
            expected = [token for token in everything if first <= token.range.start.line <= last]
            assert semantic_tokens(index, "a.hip.j2", first, last) == expected


KINDS = {"Function": "macro", "Class": "block", "Variable": "variable", "Module": "module", "File": "include"}


def entries(found: tuple[TextSymbol, ...]) -> list[object]:
    return [
        f"{KINDS[each.kind.name]} {each.name}{each.detail if each.kind.name == 'Function' else ''}"
        if not each.children
        else [f"{KINDS[each.kind.name]} {each.name}", *entries(each.children)]
        for each in found
    ]


OUTLINES: list[tuple[str, list[object]]] = [
    ("{% set x = 1 %}{% set x = 2 %}", ["variable x"]),
    ("{% macro f(a, b=1) %}{% endmacro %}", ["macro f(a, b=1)"]),
    ("{% macro f() %}{% set x = 1 %}{% endmacro %}{% set y = 1 %}", [["macro f", "variable x"], "variable y"]),
    ("{% block a %}{% block b %}{% endblock %}{% endblock %}", [["block a", "block b"]]),
    ("{% for i in s %}{% set x = 1 %}{% endfor %}", []),
    ("{% import 'm.j2' as m %}{% include 'b.j2' %}", ["module m", "include b.j2"]),
    ("{% macro f( %}{% set x = 1", [["macro f", "variable x"]]),
    ("{% macro f() %}{% set x = 1 %}", [["macro f", "variable x"]]),
    ("{% extends 'b.j2' %}", ["include b.j2"]),
]


@pytest.mark.parametrize(("text", "expected"), OUTLINES)
def test_outline(text: str, expected: list[object]) -> None:
    index, _, _ = index_of({"a.hip.j2": text})
    assert entries(outline(index.files["a.hip.j2"])) == expected


FOLDS = [
    ("{% if a %}\nb\n{% endif %}", [(0, 1, "region")]),
    ("{% if a %}\nb\n{% else %}\nc\nd\n{% endif %}", [(0, 1, "region"), (2, 4, "region")]),
    ("{#\n a\n#}", [(0, 2, "comment")]),
    ("int f() {\n    return 1;\n}", [(0, 1, "region")]),
    ("f(\n  1,\n  2)", [(0, 1, "region")]),
    ("/*\n a\n*/", [(0, 2, "comment")]),
    ("#if A\nint a;\n#else\nint b;\n#endif", [(0, 1, "region"), (2, 3, "region")]),
    ("{{ f(\n  a,\n  b,\n) }}", [(0, 2, "region")]),
    ("{% import 'a' as a %}\n{% include 'b' %}\n{% include 'c' %}\nint x;", [(0, 2, "imports")]),
    ("{% if a %}b{% endif %}", []),
    ("{% if a %}\n{% for i in s %}\nb", [(0, 1, "region")]),
    ("// {\nint x = '{';\nconst char* s = \"{\";\n}", []),
    ("{% if a %}\nvoid f() {\n{% else %}\nvoid g() {\n{% endif %}\n  x;\n}", [(0, 1, "region"), (2, 3, "region")]),
]


@each_row(("text", "expected"), FOLDS)
def test_folds(text: str, expected: list[tuple[int, int, str]]) -> None:
    found = [(fold.start_line, fold.end_line, fold.kind) for fold in folds(TemplateTree(text))]
    if "void g" in text:
        found = [fold for fold in found if fold[0] in (0, 2)]
    assert found == expected


SELECTIONS = [
    (
        "int x = {{ f(a + ‸b, c) }};",
        ["b", "a + b", "a + b, c", "(a + b, c)", "f(a + b, c)", "{{ f(a + b, c) }}", "int x = {{ f(a + b, c) }};"],
    ),
    (
        "{% if a %} x = ‸y; {% endif %}",
        ["y", " x = y; ", "{% if a %} x = y; {% endif %}"],
    ),
    ("f(‸a, b);", ["a", "a, b", "(a, b)", "f(a, b);"]),
    ("{{ 'a ‸b' }}", ["a b", "'a b'", "{{ 'a b' }}"]),
    ("‸", [""]),
]


@pytest.mark.parametrize(("text", "expected"), SELECTIONS)
def test_selection(text: str, expected: list[str]) -> None:
    index, path, position = index_of({"a.hip.j2": text})
    template = index.files[path].template
    found = selection(template, position)
    offsets = [(template.lines.offset(each.start), template.lines.offset(each.end)) for each in found]
    assert [template.text[start:end] for start, end in offsets] == expected


HIGHLIGHTS = [
    ("{% set x = 1 %}{{ ‸x }}{{ y }}", [("x", "write"), ("x", "read")]),
    ("{{ ‸M }}{{ template_argument('M') }}", [("M", "read"), ("M", "read")]),
    ("{% ‸if a %}{% else %}{% endif %}", [("if", "text"), ("else", "text"), ("endif", "text")]),
    ("{% for i in s %}{% ‸endfor %}", [("for", "text"), ("endfor", "text")]),
    ("{{ X.‸name }}", []),
    ("int ‸x;", []),
]


@pytest.mark.parametrize(("text", "expected"), HIGHLIGHTS)
def test_highlights(text: str, expected: list[tuple[str, str]]) -> None:
    index, path, position = index_of({"a.hip.j2": text})
    plain = index.files[path].template.text
    found = highlights(index, path, position)
    assert [(plain[reach.start.column : reach.end.column], kind.name.lower()) for reach, kind in found] == expected


def test_links() -> None:
    text = "{% include 'a.j2' %}{% from \"b.j2\" import f %}{{ header('ck') }}{% include ['c.j2', 'd.j2'] %}{% include x %}"
    index, path, _ = index_of({"a.hip.j2": text})
    found = index.files[path or "a.hip.j2"].names.links
    assert [(text[each.start : each.end], each.name) for each in sorted(found, key=lambda one: one.start)] == [
        ("a.j2", "a.j2"),
        ("b.j2", "b.j2"),
        ("ck", "hooks/header_ck.j2"),
        ("c.j2", "c.j2"),
        ("d.j2", "d.j2"),
    ]
