"""Who calls a macro."""

from __future__ import annotations

from ckwatch_lsp.figures.affected_units import callers
from ckwatch_lsp.templates.language.index import TemplateFile, TemplateIndex, Variable, builtin_words

FILES = {
    "macros.j2": "{% macro a() %}{% endmacro %}{% macro b() %}{{ c() }}{% endmacro %}{% macro c() %}{% endmacro %}"
    "{% macro unused() %}{% endmacro %}",
    "one.hip.j2": '{% import "macros.j2" as m %}{{ m.a() }}',
    "two.hip.j2": '{% from "macros.j2" import b, a as other, unused %}{{ b() }}{{ other() }}',
    "three.hip.j2": "{{ a() }}",
}


def test_files_that_call_a_macro() -> None:
    files = {f"/t/{name}": TemplateFile(f"/t/{name}", text) for name, text in FILES.items()}
    index = TemplateIndex(files, lambda name: f"/t/{name}" if name in FILES else None, builtin_words())
    macros = {name: Variable("/t/macros.j2", 0, name) for name in ("a", "b", "c", "unused")}
    assert callers(index, macros.values()) == {
        macros["a"]: {"/t/one.hip.j2", "/t/two.hip.j2"},
        macros["b"]: {"/t/two.hip.j2"},
        macros["c"]: {"/t/macros.j2"},
        macros["unused"]: set(),
    }
