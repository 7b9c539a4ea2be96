"""Places of tags: as Jinja2 says where it accepts the text, and tolerably where it does not."""

from __future__ import annotations

import re
from itertools import pairwise

from ckwatch_lsp.templates.language.lexer import TAG_COUNT_LIMIT, extents, tokens_of
from helpers.each_row import each_row
from helpers.marked_templates import BUILT_IN, JINJA

EXACT = [
    "{{ a }}",
    "{{ {'a': {'b': 1}} }}",
    "{{ {'a': 1}}}",
    "{{{ 'a': 1 }}}",
    "{{ '}}' }} {{ \"{%\" }}",
    "{{ 'it\\'s }}' }}",
    "{%- set x = '%}' -%}  b {{+ c -}} d",
    "{% raw %}{{ a }}{% endraw %}{{ b }}",
    "{%- raw -%} {% if %} {%- endraw -%} {{ b }}",
    "{# {{ a }} #}{{ b }}{#- c -#}",
    "{{ 'two\nlines' }}{{ b }}",
    "{{ def_kernel(\n    inputs=[X],\n    outputs=[Y],\n) }} { int x; }",
    "{ {%- for d in ds %}{{ d }}{% endfor -%} };",
    "{{ 0x1F // 2 ** 3 ~ 1_000.5e-3 % b }}",
    "{{ a\n% b }}",
    "std::array<int, 2>{ {{ x }}, { {{ y }} } }",
]

TOLERANT = [
    ("{{ foo(", ["{{ foo("]),
    ("a {{ foo(\nint x;\n{{ b }}", ["{{ foo(", "{{ b }}"]),
    ("{{ foo(\n    a,\nint x = 1;\n{{ b }}", ["{{ foo(\n    a,", "{{ b }}"]),
    ('{{ foo("abc }}\nint x;\n', ['{{ foo("abc }}']),
    ('{{ foo("abc\nint x = "1";\n', ['{{ foo("abc']),
    ("{{ a {{ b }}", ["{{ a ", "{{ b }}"]),
    ("{{ a  \r\nint x;", ["{{ a  "]),
    ("{{ foo(  \n", ["{{ foo(  "]),
    ("{% if a\nint x;\n{% endif %}", ["{% if a", "{% endif %}"]),
    ("{% if a }}", ["{% if a }}"]),
    ("{{ a ; }} b", ["{{ a ; }}"]),
    ("{{ foo( }} int x;", ["{{ foo( }}"]),
    ("{{ a ] }} int x;", ["{{ a ] }}"]),
    ("{{", ["{{"]),
    ("{%", ["{%"]),
    ("{{ '{{' + ( }} b", ["{{ '{{' + ( }}"]),
    ("{# a\nb {{ c }}", ["{# a", "{{ c }}"]),
    ("{% raw %} {{ a }}", ["{% raw %} {{ a }}"]),
    ("{{ a.\n}", ["{{ a."]),
]


def jinja_extents(text: str) -> list[str]:
    """The tags of `text` by Jinja2's own lexer."""
    at = 0
    found: list[str] = []
    start = 0
    for _, kind, value in JINJA.lexer.tokeniter(text, None):
        at = text.index(value, at)
        if kind.endswith("_begin"):
            start = at
        at += len(value)
        if kind.endswith("_end"):
            found.append(text[start:at].rstrip())
    return found


@each_row("text", [*EXACT, *BUILT_IN.values()])
def test_extents_are_jinjas(text: str) -> None:
    assert [text[extent.start : extent.end] for extent in extents(text)] == jinja_extents(text)
    assert all(extent.closed for extent in extents(text))


@each_row("text", [*EXACT, *BUILT_IN.values()])
def test_tokens_are_jinjas(text: str) -> None:
    expected = [
        (kind, value)
        for _, kind, value in JINJA.lexer.tokeniter(text, None)
        if kind in ("name", "string", "integer", "float", "operator")
    ]
    found = []
    for extent in extents(text):
        source = text[extent.start : extent.end]
        found += [(token.kind, source[token.start : token.end]) for token in tokens_of(source, extent.kind, True)]
    assert [token for token in found if token[0] not in ("begin", "end", "comment", "raw")] == expected


@each_row(("text", "expected"), TOLERANT)
def test_unfinished_tags_end_early(text: str, expected: list[str]) -> None:
    assert [text[extent.start : extent.end] for extent in extents(text)] == expected


def test_many_unclosed_comments_and_tags_take_linear_time() -> None:
    text = "{# a\n" * 10_000 + "{{ 'a\n" * 10_000 + "{% if (\n" * 10_000
    assert sum(1 for _ in extents(text)) == 30_000


def test_what_comes_after_too_many_tags_is_text() -> None:
    found = list(extents("{{ a }}" * (TAG_COUNT_LIMIT + 10)))
    assert len(found) == TAG_COUNT_LIMIT


def test_binary_is_text() -> None:
    text = bytes(range(256)).decode("latin-1") * 3
    found = list(extents(text))
    assert all(before.end <= after.start for before, after in pairwise(found))
    assert re.search(r"\{[{%#]", text) is not None or not found
