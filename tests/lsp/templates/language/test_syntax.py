"""Blocks, places, comments and tags at a place."""

from __future__ import annotations

import pytest

from ckwatch.model.text import Position
from ckwatch_lsp.templates.language.syntax import DEPTH_LIMIT, TemplateBlock, TemplateTree, TextLines, comment_above
from helpers.each_row import each_row
from helpers.marked_templates import unmarked


def shown(block: TemplateBlock, template: TemplateTree) -> str:
    """`keyword[what is in it]`, `?` where nothing closes it, `|` for each branch."""
    inner = " ".join(shown(child, template) for child in block.children)
    mark = "" if block.closer >= 0 or block.parent is None else "?"
    return f"{block.keyword}{'|' * len(block.branches)}{mark}[{inner}]"


BLOCKS = [
    ("{% if a %}{% endif %}", "[if[]]"),
    ("{% if a %}{% elif b %}{% else %}{% endif %}", "[if||[]]"),
    ("{% for i in s %}{% if a %}{% else %}{% endif %}{% else %}{% endfor %}", "[for|[if|[]]]"),
    ("{% set x = 1 %}{% set y %}{% endset %}", "[set[]]"),
    ("{% set x %}{% if a %}{% endif %}", "[set?[if[]]]"),
    ("{% macro f() %}{% call g() %}{% endcall %}{% endmacro %}", "[macro[call[]]]"),
    ("{% block a %}{% filter upper %}{% endfilter %}{% endblock a %}", "[block[filter[]]]"),
    ("{% with a = 1 %}{% autoescape false %}{% endautoescape %}{% endwith %}", "[with[autoescape[]]]"),
    ("{% if a %}", "[if?[]]"),
    ("{% if a %}{% for i in s %}{% endif %}{% endfor %}", "[if[for?[]]]"),
    ("{% endif %}{% else %}{% if a %}{% endif %}", "[if[]]"),
    ("{% macro f() %}{% if a %}{% endmacro %}{% if b %}{% endif %}", "[macro[if?[]] if[]]"),
    ("{% if a %}{% macro f() %}{% else %}{% endif %}", "[if[macro?[]]]"),
    ("{% if a %}{% raw %}{% endif %}{% endraw %}{% endif %}", "[if[]]"),
    ("{% if a %}{# {% endif %} #}", "[if?[]]"),
    ("{% if a", "[if?[]]"),
]


@each_row(("text", "expected"), BLOCKS)
def test_blocks(text: str, expected: str) -> None:
    template = TemplateTree(text)
    assert shown(template.root, template) == expected


def test_blocks_end_where_what_closes_them_begins() -> None:
    text = "{% if a %}b{% for i in s %}c{% endif %}d"
    root = TemplateTree(text).root
    assert (root.children[0].start, root.children[0].end) == (0, text.index("{% endif"))
    assert root.children[0].children[0].end == text.index("{% endif")


def test_depth_is_limited() -> None:
    block, depth = TemplateTree("{% if a %}" * (2 * DEPTH_LIMIT)).root, 0
    while block.children:
        block, depth = block.children[0], depth + 1
    assert depth == DEPTH_LIMIT - 1


INNERMOST = [
    ("‸a{% if a %}b{% endif %}", ""),
    ("a‸{% if a %}b{% endif %}", "if"),
    ("{% if a %}‸b{% endif %}", "if"),
    ("{% if‸ a %}b{% endif %}", "if"),
    ("{% if a %}b{% end‸if %}", "if"),
    ("{% if a %}b{% endif %}‸", ""),
    ("{% if a %}{% for i in s %}{% endfor %}‸{% endif %}", "if"),
    ("{% if a %}{% for i in s %}‸{% endfor %}{% endif %}", "for"),
]


@pytest.mark.parametrize(("text", "expected"), INNERMOST)
def test_block_at(text: str, expected: str) -> None:
    plain, at = unmarked(text)
    assert TemplateTree(plain).block_at(at).keyword == expected


TAGS = [
    ("‸{{ a }}", None),
    ("{‸{ a }}", "{{ a }}"),
    ("{{ a }‸}", "{{ a }}"),
    ("{{ a }}‸", None),
    ("{{ a }}‸{{ b }}", None),
    ("{{ a ‸", "{{ a "),
    ("{{ a\n‸", None),
    ("a‸", None),
]


@pytest.mark.parametrize(("text", "expected"), TAGS)
def test_tag_at(text: str, expected: str | None) -> None:
    plain, at = unmarked(text)
    tag = TemplateTree(plain).tag_at(at)
    assert (tag.body.source if tag is not None else None) == expected


COMMENTS = [
    ("{# Adds. #}\n{% macro f() %}", "Adds."),
    ("{#- Adds. -#}\n{%- macro f() %}", "Adds."),
    ("{# Adds. #}{% macro f() %}", "Adds."),
    ("{#\n    Adds\n      two.\n#}\n{% macro f() %}", "Adds\n  two."),
    ("{# Adds. #}\n\n{% macro f() %}", ""),
    ("{# Adds. #} int x;\n{% macro f() %}", ""),
    ("{{ a }}\n{% macro f() %}", ""),
    ("{% macro f() %}", ""),
]


@pytest.mark.parametrize(("text", "expected"), COMMENTS)
def test_comment_above(text: str, expected: str) -> None:
    template = TemplateTree(text)
    assert comment_above(template, len(template.tags) - 1) == expected


PLACES = [
    ("", 0, (0, 0)),
    ("ab", 2, (0, 2)),
    ("a\nb", 1, (0, 1)),
    ("a\nb", 2, (1, 0)),
    ("a\n", 2, (1, 0)),
    ("é🙂x", 2, (0, 2)),
    ("a\rb", 2, (0, 2)),
    ("a\r\nb", 3, (1, 0)),
]


@pytest.mark.parametrize(("text", "offset", "expected"), PLACES)
def test_lines(text: str, offset: int, expected: tuple[int, int]) -> None:
    lines = TextLines(text)
    assert lines.position(offset) == Position(*expected)
    assert lines.offset(Position(*expected)) == offset


def test_places_outside_are_clamped() -> None:
    lines = TextLines("ab\r\nc")
    assert lines.offset(Position(0, 99)) == 2
    assert lines.offset(Position(9, 0)) == 5
    assert lines.offset(Position(1, 9)) == 5
    assert lines.offset(Position(-1, 3)) == 0
    assert lines.offset(Position(0, -1)) == 0
    assert lines.position(99) == Position(1, 1)
    assert lines.position(-1) == Position(0, 0)
    assert lines.count == 2
