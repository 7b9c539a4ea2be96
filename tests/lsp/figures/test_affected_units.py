"""Who calls a macro."""

from __future__ import annotations

from ckwatch_lsp.figures.affected_units import callers
from ckwatch_lsp.templates.language.index import TemplateFile, TemplateIndex, builtin_words

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
    assert callers(index, "/t/macros.j2", ["a", "b", "c", "unused"]) == {
        "a": {"/t/one.hip.j2", "/t/two.hip.j2"},
        "b": {"/t/two.hip.j2"},
        "c": {"/t/macros.j2"},
        "unused": frozenset(),
    }
