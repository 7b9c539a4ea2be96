"""Whatever the text, there are answers, and what they say lies within it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckwatch.model.text import Position, Range
from ckwatch_lsp.protocol.text_parts import TextSymbol
from ckwatch_lsp.templates.language.completion import CompletionContext, completion
from ckwatch_lsp.templates.language.index import InstanceParameter, TemplateIndex
from ckwatch_lsp.templates.language.outline import folds, highlights, outline, selection
from ckwatch_lsp.templates.language.semantic_tokens import semantic_tokens
from ckwatch_lsp.templates.language.signatures import signatures
from ckwatch_lsp.templates.language.syntax import TemplateTree
from helpers.marked_templates import BUILT_IN, index_of

TEXTS = list(BUILT_IN.values())

FRAGMENTS = st.sampled_from(
    [
        *("{{", "}}", "{%", "%}", "{#", "#}", "{% raw %}", "{% endraw %}", "-%}", "{%-", "'", '"', "\\", "(", ")", "["),
        *(
            "]",
            "{",
            "}",
            ",",
            ".",
            "|",
            "=",
            " ",
            "\n",
            "\r\n",
            "a",
            "MPerBlock",
            "loop",
            "1",
            "1.5",
            "is",
            "not",
            "in",
        ),
        *("if", "for", "endfor", "endif", "else", "set", "macro f(a)", "endmacro", "block b", "endblock", "call", ";"),
        *("import 'a.hip.j2' as m", "include 'a.hip.j2'", "extends 'a.hip.j2'", "from 'a.hip.j2' import f", "m.f(a=1)"),
        *(
            "with",
            "filter upper",
            "template_argument('M')",
            "parameters['M']",
            "header('ck')",
            "self.b()",
            "é",
            "🙂",
            "\0",
        ),
    ]
)


@st.composite
def edited(draw: st.DrawFn) -> str:
    """A built-in template cut off, or with something put in or left out, or something made of fragments."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return "".join(draw(st.lists(FRAGMENTS, max_size=30)))
    text = draw(st.sampled_from(TEXTS))
    at = draw(st.integers(0, len(text)))
    if kind == 1:
        return text[:at]
    if kind == 2:
        return text[:at] + "".join(draw(st.lists(FRAGMENTS, max_size=3))) + text[at:]
    return text[:at] + text[at + draw(st.integers(1, 40)) :]


def check_all(text: str, offset: int) -> None:
    index, _, _ = index_of({**BUILT_IN, "a.hip.j2": text})
    path = "a.hip.j2"
    template = index.files[path].template
    check_syntax(template)
    end = template.lines.position(len(text))

    def check(reach: Range) -> None:
        assert Position(0, 0) <= reach.start <= reach.end <= end
        for position in (reach.start, reach.end):
            assert template.lines.position(template.lines.offset(position)) == position

    check_tokens(index, path)
    position = template.lines.position(min(offset, len(text)))
    position = template.lines.position(template.lines.offset(position))
    meaning = index.meaning(path, position)
    if meaning is not None:
        check(meaning.range)
        for entity in meaning.entities:
            for place in index.places(entity):
                if place.path == path:
                    check(place.range)
    check(completion(index, path, position, CompletionContext((("M", "1"),), ("a.j2",))).range)
    for around in pairwise(found := selection(template, position)):
        assert around[1].covers(around[0])
    assert found[-1] == Range(Position(0, 0), end)
    for reach, _ in highlights(index, path, position):
        check(reach)
    for link in index.files[path].names.links:
        check(template.lines.range(link.start, link.end))
    for fold in folds(template):
        assert 0 <= fold.start_line < fold.end_line < template.lines.count
    check_outline(outline(index.files[path]), Range(Position(0, 0), end))
    for signature in signatures(index, path, position):
        assert signature.active is None or 0 <= signature.active < len(signature.callable.arguments)


def check_syntax(template: TemplateTree) -> None:
    text = template.text
    assert all(before.end <= after.start for before, after in pairwise(template.tags))
    for tag in template.tags:
        assert 0 <= tag.start < tag.end <= len(text)
        assert text[tag.start : tag.end] == tag.body.source
        assert all(before.end <= after.start for before, after in pairwise(tag.body.tokens))
        for word in tag.body.words:
            assert tag.body.source[word.start : word.end] == word.text
    for block in template.blocks[1:]:
        assert block.parent is not None
        assert block.parent.start <= block.start <= block.end <= block.parent.end


def check_tokens(index: TemplateIndex, path: str) -> None:
    lines = index.files[path].template.text.split("\n")
    tokens = semantic_tokens(index, path)
    for token in tokens:
        reach = token.range
        assert 0 <= reach.start.column < reach.end.column <= len(lines[reach.start.line])
    assert all(before.range.end <= after.range.start for before, after in pairwise(tokens))


def check_outline(entries: tuple[TextSymbol, ...], within: Range) -> None:
    for entry in entries:
        assert within.covers(entry.range)
        assert entry.range.covers(entry.selection)
        check_outline(entry.children, entry.range)


@settings(max_examples=150, deadline=None)
@given(edited(), st.integers(0, 3000))
def test_any_text_is_answered_for(text: str, offset: int) -> None:
    check_all(text, offset)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="{}%#-+'\"()[] \na.|=,1é", max_size=60), st.integers(0, 60))
def test_any_punctuation_is_answered_for(text: str, offset: int) -> None:
    check_all(text, offset)


@settings(max_examples=60, deadline=None)
@given(edited())
def test_text_outside_the_changed_tag_is_read_as_before(text: str) -> None:
    """A text with a broken tag at its end has the tags that it had without it."""
    closed = TemplateTree(text)
    if closed.tags and not closed.tags[-1].body.closed:
        return
    longer = TemplateTree(text + "\n{{ foo(")
    assert longer.tags[: len(closed.tags)] == closed.tags


@pytest.mark.parametrize(
    "text", ["{% end %}", "{% end{{if %}", "{% if a %}{% end %}{% endif %}{% end %}{% if b %}{% endif %}"]
)
def test_an_end_of_nothing_ends_nothing(text: str) -> None:
    check_all(text, len(text))
    assert TemplateTree(text).root.end == len(text)


def test_ten_megabytes() -> None:
    for text in ("int x;\n" * 1_500_000, "{" * 3_000_000, "\0" * 10_000_000):
        template = TemplateTree(text)
        assert template.root.end == len(text)


def test_deep_and_long() -> None:
    for text in (
        "{% if a %}" * 4_000 + "{% endfor %}" * 4_000,
        "{% for i in s %}" * 4_000 + "{% elif a %}" * 4_000,
        "{% set x = x + 1 %}" * 4_000,
        "{{ f(" * 4_000,
        "{{ f(" + "(" * 30_000 + " }}",
    ):
        index, path, position = index_of({"a.hip.j2": text + "‸"})
        assert semantic_tokens(index, path)
        assert selection(index.files[path].template, position)
        check_outline(outline(index.files[path]), Range(Position(0, 0), position))


def test_many_ways_to_a_template_take_no_longer_than_one() -> None:
    texts = {"top.hip.j2": "{% include 'a0.j2' %}{% include 'b0.j2' %}"}
    for at in range(60):
        body = f"{{% include 'a{at + 1}.j2' %}}{{% include 'b{at + 1}.j2' %}}"
        texts |= {f"a{at}.j2": body, f"b{at}.j2": body}
    index, _, _ = index_of({**texts, "a60.j2": "{{ x }}", "b60.j2": ""})
    assert index.free("a60.j2", "x") == (InstanceParameter("x", frozenset(("top.hip.j2",))),)
