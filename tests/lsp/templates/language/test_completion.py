"""Completion at a place of a template."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ckwatch_lsp.templates.language.completion import CompletionContext, completion
from helpers.each_row import each_row
from helpers.marked_templates import index_of

AROUND = CompletionContext((("MPerBlock", "128"), ("NPerBlock", "64")), ("ck/a.j2", "common/b.j2"), ("hip", "ck"))

MODULE = {"m.j2": "{# Adds. #}\n{% macro add(a, b=1) %}{% endmacro %}{% set one = 1 %}{% set _own = 2 %}"}

ROWS: list[tuple[str, str, list[str], list[str]]] = [
    # text, where, some that are there, some that are not
    ("int ‸x;", "text", [], ["MPerBlock"]),
    ("{# ‸ #}", "nothing", [], ["MPerBlock"]),
    ("{{ ‸ }}", "expression", ["MPerBlock", "arg_name", "X", "range", "true", "not"], ["loop", "upper", "if"]),
    ("{{ MPer‸ }}", "expression", ["MPerBlock", "NPerBlock"], []),
    ("{{ MPer‸", "expression", ["MPerBlock"], []),
    ("{{‸", "expression", ["MPerBlock"], []),
    ("{{ 1 + ‸ }}", "expression", ["MPerBlock"], ["and"]),
    ("{{ MPerBlock ‸ }}", "operator", ["and", "is", "if"], ["MPerBlock"]),
    ("{% if ‸ %}", "expression", ["MPerBlock"], []),
    ("{% if MPerBlock and ‸ %}", "expression", ["NPerBlock"], []),
    ("{% set x = 1 %}{{ ‸ }}", "expression", ["x"], []),
    ("{{ ‸ }}{% set x = 1 %}", "expression", [], ["x"]),
    ("{% for i in s %}{{ ‸ }}{% endfor %}", "expression", ["i", "loop"], []),
    ("{% for i in s %}{% endfor %}{{ ‸ }}", "expression", [], ["i", "loop"]),
    ("{% macro f(a, b) %}{{ ‸ }}{% endmacro %}", "expression", ["a", "b", "caller", "f"], []),
    ("{% macro f(a, b) %}{% endmacro %}{{ f(‸) }}", "expression", ["a", "b", "MPerBlock"], []),
    ("{{ def_kernel(‸) }}", "expression", ["inputs", "names_str", "X"], []),
    ("{{ def_kernel(inputs=[‸]) }}", "expression", ["X"], ["names_str"]),
    # after a dot, a pipe, `is`
    ("{% for i in s %}{{ loop.‸ }}{% endfor %}", "attribute", ["index", "first"], ["MPerBlock"]),
    ("{{ X.‸ }}", "attribute", ["dtype", "layout"], []),
    ("{{ X.la‸", "attribute", ["layout"], []),
    ("{{ operation.‸ }}", "attribute", ["accumulator"], []),
    ("{{ operation.settings.‸ }}", "attribute", ["get"], ["accumulator"]),
    ("{{ parameters.‸ }}", "attribute", ["MPerBlock", "get"], []),
    ("{{ kernel.‸ }}", "attribute", ["def_kernel"], ["X"]),
    ("{% block a %}{% endblock %}{{ self.‸ }}", "attribute", ["a"], []),
    ("{% import 'm.j2' as m %}{{ m.‸ }}", "attribute", ["add", "one"], ["_own", "MPerBlock"]),
    ("{% set x = [] %}{{ x.‸ }}", "attribute", [], ["add", "MPerBlock"]),
    ("{{ X | ‸ }}", "filter", ["upper", "default"], ["MPerBlock"]),
    ("{{ X | up‸", "filter", ["upper"], []),
    ("{% filter ‸ %}", "filter", ["upper"], []),
    ("{{ X is ‸ }}", "test", ["defined", "not"], ["MPerBlock"]),
    ("{{ X is not ‸ }}", "test", ["defined"], ["not"]),
    # statements
    ("{% ‸ %}", "statement", ["if", "for", "set", "include"], ["endif", "else"]),
    ("{% in‸", "statement", ["include"], []),
    ("{% if a %}{% ‸ %}", "statement", ["endif", "else", "elif"], ["endfor"]),
    ("{% for i in s %}{% ‸", "statement", ["endfor", "else"], ["elif"]),
    ("{% if a %}{% for i in s %}{% endfor %}{% ‸ %}", "statement", ["endif"], ["endfor"]),
    ("{% if a %}{% end‸if %}", "statement", ["endif"], []),
    ("{% macro ‸", "nothing", [], ["MPerBlock"]),
    ("{% set ‸ %}", "nothing", [], ["MPerBlock"]),
    ("{% set x = ‸ %}", "expression", ["MPerBlock"], []),
    ("{% for ‸ %}", "nothing", [], ["MPerBlock"]),
    ("{% for i ‸ %}", "operator", ["in"], []),
    ("{% for i in ‸ %}", "expression", ["MPerBlock"], []),
    ("{% for i in s ‸ %}", "operator", ["if", "recursive"], []),
    # other templates
    ("{% include '‸' %}", "template", ["ck/a.j2", "common/b.j2"], []),
    ('{% include "ck/‸', "template", ["ck/a.j2"], []),
    ("{% include 'ck/a.j2' ‸ %}", "operator", ["ignore missing"], ["and"]),
    ("{% import 'm.j2' ‸ %}", "operator", ["as"], []),
    ("{% from 'm.j2' ‸ %}", "operator", ["import"], []),
    ("{% from 'm.j2' import ‸ %}", "import", ["add", "one"], ["_own", "MPerBlock"]),
    ("{% from 'm.j2' import add, ‸ %}", "import", ["one"], []),
    ("{% from 'm.j2' import add ‸ %}", "operator", ["as", "with context"], []),
    ("{{ header('‸') }}", "family", ["hip", "ck"], []),
    ("{{ template_argument('‸') }}", "parameter", ["MPerBlock"], ["arg_name"]),
    ('{{ template_argument("MPer‸', "parameter", ["MPerBlock"], []),
    ("{{ parameters['‸'] }}", "parameter", ["MPerBlock"], []),
    ("{{ 'any ‸text' }}", "nothing", [], ["MPerBlock"]),
]


@each_row(("text", "where", "there", "absent"), ROWS)
def test_completion(text: str, where: str, there: list[str], absent: list[str]) -> None:
    index, path, position = index_of({"a.hip.j2": text, **MODULE})
    found = completion(index, path, position, AROUND)
    labels = [candidate.label for candidate in found.candidates]
    assert found.where == where
    assert set(there) <= set(labels)
    assert not set(absent) & set(labels)
    assert len(set(labels)) == len(labels)


REPLACED = [
    ("{{ MP‸er }}", "MPer"),
    ("{{ a + ‸ }}", ""),
    ("{{ X.lay‸ }}", "lay"),
    ("{% inc‸ %}", "inc"),
    ("{% include 'ck/‸a.j2' %}", "ck/a.j2"),
    ("{% include 'ck/‸", "ck/"),
    ("{{ template_argument('M‸') }}", "M"),
]


@pytest.mark.parametrize(("text", "replaced"), REPLACED)
def test_what_is_replaced(text: str, replaced: str) -> None:
    index, path, position = index_of({"a.hip.j2": text})
    reach = completion(index, path, position, AROUND).range
    assert text.replace("‸", "")[reach.start.column : reach.end.column] == replaced


def detail(texts: Mapping[str, str], label: str) -> tuple[str, str, str]:
    index, path, position = index_of(texts)
    candidates = completion(index, path, position, AROUND).candidates
    return next((each.kind.name, each.detail, each.doc) for each in candidates if each.label == label)


def test_details() -> None:
    assert detail({"a.hip.j2": "{% import 'm.j2' as m %}{{ m.‸ }}", **MODULE}, "add") == (
        "Function",
        "add(a, b=1)",
        "Adds.",
    )
    assert detail({"a.hip.j2": "{% set x = 1 + 2 %}{{ ‸ }}"}, "x") == ("Variable", "set x = 1 + 2", "")
    assert detail({"a.hip.j2": "{{ ‸ }}"}, "MPerBlock") == ("Constant", "128", "")
    assert detail({"a.hip.j2": "{% set ds = 1 %}{% include 'b.j2' %}", "b.j2": "{{ ‸ }}"}, "ds")[0] == "Variable"


def test_an_included_template_knows_the_modules_of_those_that_include_it() -> None:
    texts = {"a.hip.j2": "{% import 'm.j2' as m %}{% include 'b.j2' %}", "b.j2": "{{ m.‸ }}", **MODULE}
    assert detail(texts, "add")[0] == "Function"


def test_variables_come_first() -> None:
    index, path, position = index_of({"a.hip.j2": "{% set zeta = 1 %}{{ ‸ }}"})
    assert completion(index, path, position, AROUND).candidates[0].label == "zeta"
