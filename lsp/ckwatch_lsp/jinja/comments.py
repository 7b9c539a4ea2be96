"""What a template's comments say."""

from __future__ import annotations

from textwrap import dedent

from ckwatch_lsp.jinja.syntax import Template


def comment_above(template: Template, tag: int) -> str:
    """The text of the comment that ends right above a tag, or on its line; empty where there is none."""
    start = template.tags[tag].start
    if tag == 0:
        return ""
    before = template.tags[tag - 1]
    between = template.text[before.end : start]
    if before.body.kind != "comment" or between.strip() or between.count("\n") > 1:
        return ""
    return comment_text(before.body.source)


def comment_text(source: str) -> str:
    """The text of `{# … #}`."""
    inner = source.removeprefix("{#").removesuffix("#}").strip("-+")
    first, newline, rest = inner.partition("\n")
    return (first.strip() + newline + dedent(rest)).strip()
