"""Signature help: what is called, and which parameter the argument is for."""

from __future__ import annotations

from ckwatch_lsp.templates.language.signatures import signatures
from helpers.each_row import each_row
from helpers.marked_templates import index_of

MACRO = "{# Adds\n   two. #}\n{% macro add(a, b=1, c='x,y') %}{% endmacro %}"

ROWS: list[tuple[str, tuple[str, int | None] | None]] = [
    ("{{ add(‸) }}", ("add(a, b=1, c='x,y')", 0)),
    ("{{ add(1, ‸) }}", ("add(a, b=1, c='x,y')", 1)),
    ("{{ add(1, ‸", ("add(a, b=1, c='x,y')", 1)),
    ("{{ add(1, 2‸, 3) }}", ("add(a, b=1, c='x,y')", 1)),
    ("{{ add(c=‸) }}", ("add(a, b=1, c='x,y')", 2)),
    ("{{ add(1, c=2, ‸) }}", ("add(a, b=1, c='x,y')", 2)),
    ("{{ add(d=‸) }}", ("add(a, b=1, c='x,y')", None)),
    ("{{ add(1, 2, 3, ‸) }}", ("add(a, b=1, c='x,y')", None)),
    ("{{ add((1, 2, ‸)) }}", ("add(a, b=1, c='x,y')", 0)),
    ("{{ add([1, 2], ‸) }}", ("add(a, b=1, c='x,y')", 1)),
    ("{{ add(arg_name(‸)) }}", ("arg_name(tensor)", 0)),
    ("{{ add(arg_name(X), ‸) }}", ("add(a, b=1, c='x,y')", 1)),
    ('{{ add("a, (b", ‸) }}', ("add(a, b=1, c='x,y')", 1)),
    ("{{ def_kernel(\n    inputs=[X, W],\n    outputs=[‸],\n) }}", None),
    ("{{ kernel.arg_name(‸) }}", ("arg_name(tensor)", 0)),
    ("{{ X | default(‸) }}", ('default(default_value="", boolean=false)', 0)),
    ("{{ X | default(1, ‸) }}", ('default(default_value="", boolean=false)', 1)),
    ("{% call add(‸) %}{% endcall %}", ("add(a, b=1, c='x,y')", 0)),
    ("{{ ‸add(1) }}", None),
    ("{{ add(1)‸ }}", None),
    ("{{ unknown(‸) }}", None),
    ("{{ (‸) }}", None),
    ("f(‸)", None),
]


@each_row(("text", "expected"), ROWS)
def test_signatures(text: str, expected: tuple[str, int | None] | None) -> None:
    index, path, position = index_of({"a.hip.j2": MACRO + text})
    found = [(each.callable.label, each.active) for each in signatures(index, path, position)]
    if "def_kernel" in text:
        assert [each[1] for each in found] == [1]
    else:
        assert found == ([expected] if expected is not None else [])


def test_a_macro_is_told_by_the_comment_above_it() -> None:
    index, path, position = index_of({"a.hip.j2": MACRO + "{{ add(‸) }}"})
    assert [each.callable.doc for each in signatures(index, path, position)] == ["Adds\ntwo."]


def test_a_macro_of_a_module() -> None:
    texts = {"a.hip.j2": "{% import 'm.j2' as m %}{{ m.add(1, ‸) }}", "m.j2": MACRO}
    index, path, position = index_of(texts)
    assert [(each.callable.name, each.active) for each in signatures(index, path, position)] == [("add", 1)]
