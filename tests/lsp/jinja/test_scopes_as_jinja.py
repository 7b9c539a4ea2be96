"""Which names come from outside: as Jinja2's own compiler says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateError, meta

from ckwatch_lsp.jinja.names import SPECIAL_NAMES, Names
from ckwatch_lsp.jinja.syntax import Template
from ckwatch_lsp.jinja.tags import Role
from marked_templates import BUILT_IN, JINJA

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
    names = Names(Template(text))
    return {mention.name for mention in names.mentions if mention.role is Role.LOAD and mention.symbol is None}


def jinjas(text: str) -> set[str]:
    return meta.find_undeclared_variables(JINJA.parse(text)) - SPECIAL_NAMES


@settings(max_examples=400, deadline=None)
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
        assert jinjas(text) - free_names(text) <= set(Names(Template(text)).top.symbols)
