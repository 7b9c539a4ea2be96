"""Meaning of names in one template."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateError, meta, nodes

from ckwatch_lsp.templates.language.names import SPECIAL_NAMES, TemplateNames
from ckwatch_lsp.templates.language.syntax import TemplateTree
from ckwatch_lsp.templates.language.tags import Role
from helpers.each_row import each_row
from helpers.marked_templates import BUILT_IN, JINJA, unmarked

ROWS = [
    # set: before and after, the right-hand side reads what was there before
    ("{% set x = 1 %}{{ ‸x }}", (0, "x", [7])),
    ("{{ ‸x }}{% set x = 1 %}", None),
    ("{% set x = ‸x | default(1) %}{{ x }}", None),
    ("{% set x = x | default(1) %}{{ ‸x }}", (0, "x", [7])),
    ("{% set x %}a{% endset %}{{ ‸x }}", (0, "x", [7])),
    ("{% set x = 1 %}{% set x = ‸x + 1 %}", (0, "x", [7, 22])),
    ("{% set a, b = 1, 2 %}{{ ‸b }}", (0, "b", [10])),
    # branches
    ("{% if a %}{% set x = 1 %}{% endif %}{{ ‸x }}", (0, "x", [17])),
    ("{% if a %}{% set x = 1 %}{% else %}{{ ‸x }}{% endif %}", None),
    ("{% if a %}{% set x = 1 %}{% elif ‸x %}{% endif %}", None),
    ("{% if a %}{% set x = 1 %}{{ ‸x }}{% endif %}", (0, "x", [17])),
    # loops
    ("{% for i in s %}{{ ‸i }}{% endfor %}", (1, "i", [7])),
    ("{% for i in s %}{% endfor %}{{ ‸i }}", None),
    ("{% for i in ‸i %}{% endfor %}", None),
    ("{% for i in s if ‸i %}{% endfor %}", (1, "i", [7])),
    ("{% for a, (b, c) in s %}{{ ‸c }}{% endfor %}", (1, "c", [14])),
    ("{% for i in s %}{% set x = 1 %}{% endfor %}{{ ‸x }}", None),
    ("{% for i in s %}{{ ‸loop.index }}{% endfor %}", (1, "loop", [])),
    ("{% for i in s %}{% else %}{{ ‸i }}{% endfor %}", None),
    ("{{ ‸loop }}", None),
    # macros
    ("{% macro f(a, b=‸a) %}{% endmacro %}", (1, "a", [11])),
    ("{% macro f(a) %}{{ ‸a }}{% endmacro %}", (1, "a", [11])),
    ("{% macro f(a) %}{% endmacro %}{{ ‸f(1) }}", (0, "f", [9])),
    ("{% macro f() %}{{ ‸x }}{% endmacro %}{% set x = 1 %}", (0, "x", [43])),
    ("{% macro f() %}{% set y = 1 %}{% endmacro %}{{ ‸y }}", None),
    ("{% macro f() %}{{ ‸caller() }}{% endmacro %}", (1, "caller", [])),
    ("{% call(x) f() %}{{ ‸x }}{% endcall %}", (1, "x", [8])),
    ("{% call(x) ‸x() %}{% endcall %}", None),
    # the other statements with scopes
    ("{% with a = 1 %}{{ ‸a }}{% endwith %}", (1, "a", [8])),
    ("{% with a = 1, b = ‸a %}{% endwith %}", None),
    ("{% filter upper %}{% set x = 1 %}{% endfilter %}{{ ‸x }}", None),
    ("{% for i in s %}{% block b %}{{ ‸i }}{% endblock %}{% endfor %}", None),
    ("{% for i in s %}{% block b scoped %}{{ ‸i }}{% endblock %}{% endfor %}", (1, "i", [7])),
    ("{% block b %}{{ ‸super() }}{% endblock %}", (1, "super", [])),
    # imports
    ("{% import 'a' as m %}{{ ‸m.f() }}", (0, "m", [17])),
    ("{% from 'a' import f as g, h with context %}{{ ‸g() }}{{ h }}", (0, "g", [24])),
    ("{% from 'a' import f as g %}{{ ‸f() }}", None),
    # unfinished
    ("{% set x = 1 %}{{ ‸x", (0, "x", [7])),
    ("{% for i in s %}{{ ‸i", (1, "i", [7])),
    ("{% set x %}{{ ‸x }}", (0, "x", [7])),
    ("{% macro f(a, %}{{ ‸a }}", (1, "a", [11])),
    ("{% if a %}{% for i in s %}{{ i }}{% endif %}{{ ‸i }}", None),
]


@each_row(("text", "expected"), ROWS)
def test_symbols(text: str, expected: tuple[int, str, list[int]] | None) -> None:
    plain, at = unmarked(text)
    mention = TemplateNames(TemplateTree(plain)).mention_at(at)
    assert mention is not None
    symbol = mention.symbol
    found = symbol and (symbol.scope.index, symbol.name, [binding.start for binding in symbol.bindings])
    assert found == expected


PARAMETERS = [
    ('{{ template_argument("MPerBlock") }}', ["MPerBlock"]),
    ('{{ kernel.template_argument("MPerBlock") }}', ["MPerBlock"]),
    ('{{ template_argument("MPerBlock", 2) }}', []),
    ("{{ parameters.MPerBlock }}", ["MPerBlock"]),
    ("{{ parameters['MPerBlock'] }}", ["MPerBlock"]),
    ("{{ parameters.get('MPerBlock', 1) }}", ["MPerBlock"]),
    ("{% for n in parameters.items() %}{% endfor %}", []),
    ("{% set parameters = {} %}{{ parameters.MPerBlock }}", []),
    ('{{ template_argument("not a name") }}', []),
]


@pytest.mark.parametrize(("text", "expected"), PARAMETERS)
def test_parameters_named_by_strings(text: str, expected: list[str]) -> None:
    mentions = TemplateNames(TemplateTree(text)).mentions
    assert [mention.name for mention in mentions if mention.role is Role.PARAMETER] == expected


@each_row("name", BUILT_IN)
def test_as_jinja_parses(name: str) -> None:
    tree = JINJA.parse(BUILT_IN[name])
    names = TemplateNames(TemplateTree(BUILT_IN[name]))

    def found(*roles: Role) -> list[str]:
        return sorted(mention.name for mention in names.mentions if mention.role in roles)

    macros = list(tree.find_all(nodes.Macro))
    assert found(Role.MACRO) == sorted(macro.name for macro in macros)
    assert found(Role.MACRO_PARAMETER) == sorted(argument.name for macro in macros for argument in macro.args)
    assert found(Role.BLOCK) == sorted(block.name for block in tree.find_all(nodes.Block))
    loaded = [node.name for node in tree.find_all(nodes.Name) if node.ctx == "load"]
    namespaces = list(tree.find_all(nodes.NSRef))
    assert found(Role.LOAD) == sorted([*loaded, *(namespace.name for namespace in namespaces)])
    stored = [node.name for node in tree.find_all(nodes.Name) if node.ctx == "store"]
    assert found(Role.SET, Role.FOR) == sorted(stored)
    assert found(Role.FILTER) == sorted(node.name for node in tree.find_all(nodes.Filter))
    assert found(Role.TEST) == sorted(node.name for node in tree.find_all(nodes.Test))
    assert found(Role.ATTRIBUTE, Role.PARAMETER) == sorted(
        [node.attr for node in tree.find_all(nodes.Getattr)]
        + [namespace.attr for namespace in namespaces]
        + [mention.name for mention in names.mentions if mention.role is Role.PARAMETER]
    )


NAME = st.sampled_from(["a", "b", "c"])

EXPRESSION = st.one_of(
    NAME,
    st.builds("{} + {}".format, NAME, NAME),
    st.builds("{}.b".format, NAME),
    st.builds("{}(b={})".format, NAME, NAME),
    st.builds("{} | default({})".format, NAME, NAME),
    st.builds("{} if {} else {}".format, NAME, NAME, NAME),
    st.builds("{} is not divisibleby({})".format, NAME, NAME),
    st.builds("{{'a': {}, 'b': [{}]}}".format, NAME, NAME),
    st.builds("not {} in ({}, {})".format, NAME, NAME, NAME),
)


def statements(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Statements with a body."""
    return st.one_of(
        st.builds("{{% if {} %}}{}{{% endif %}}".format, EXPRESSION, children),
        st.builds("{{% for {} in {} %}}{}{{% endfor %}}".format, NAME, NAME, children),
        st.builds(
            "{{% for {} in {} if {} %}}{}{{% else %}}{}{{% endfor %}}".format, NAME, NAME, NAME, children, children
        ),
        st.builds("{{% for {}, z in {} recursive %}}{}{{% endfor %}}".format, NAME, NAME, children),
        st.builds("{{% macro m({}, z={}) %}}{}{{% endmacro %}}".format, NAME, NAME, children),
        st.builds("{{% macro {}() %}}{}{{% endmacro %}}".format, NAME, children),
        st.builds("{{% call({}) {}({}) %}}{}{{% endcall %}}".format, NAME, NAME, NAME, children),
        st.builds("{{% set {} %}}{}{{% endset %}}".format, NAME, children),
        st.builds("{{% set {} | upper %}}{}{{% endset %}}".format, NAME, children),
        st.builds("{{% with {} = {} %}}{}{{% endwith %}}".format, NAME, EXPRESSION, children),
        st.builds("{{% with {} = {}, z = {} %}}{}{{% endwith %}}".format, NAME, NAME, NAME, children),
        st.builds("{{% filter default({}) %}}{}{{% endfilter %}}".format, NAME, children),
        st.lists(children, max_size=3).map("".join),
    )


SIMPLE = st.one_of(
    st.builds("{{{{ {} }}}}".format, EXPRESSION),
    st.builds("{{% set {} = {} %}}".format, NAME, EXPRESSION),
    st.builds("{{% set {}, z = {}, 1 %}}".format, NAME, NAME),
    st.builds("{{% do {}({}) %}}".format, NAME, NAME),
    st.builds("{{% import 'm' as {} %}}".format, NAME),
    st.builds("{{% from 'm' import {} as {} with context %}}".format, NAME, NAME),
    st.builds("{{% include {} %}}".format, NAME),
)

TEMPLATES = st.recursive(SIMPLE, statements, max_leaves=8)


def free_names(text: str) -> set[str]:
    names = TemplateNames(TemplateTree(text))
    return {mention.name for mention in names.mentions if mention.role is Role.LOAD and mention.symbol is None}


def jinjas(text: str) -> set[str]:
    return meta.find_undeclared_variables(JINJA.parse(text)) - SPECIAL_NAMES


@settings(max_examples=200, deadline=None)
@given(TEMPLATES)
def test_free_names(text: str) -> None:
    try:
        expected = jinjas(text)
    except TemplateError:
        return
    found = free_names(text)
    assert found <= expected
    # what only one branch binds may come from outside, too, says Jinja2; here it is what that branch binds
    if "{% if" not in text:
        assert found == expected


def test_free_names_of_the_built_in_templates() -> None:
    for text in BUILT_IN.values():
        assert free_names(text) <= jinjas(text) | set(JINJA.globals)
        assert jinjas(text) - free_names(text) <= set(TemplateNames(TemplateTree(text)).top.symbols)
