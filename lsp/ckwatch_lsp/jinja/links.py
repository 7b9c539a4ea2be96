"""Strings that name other templates."""

from __future__ import annotations

from dataclasses import dataclass

from ckwatch_lsp.jinja.index import File
from ckwatch_lsp.text import Range


@dataclass(frozen=True, slots=True)
class TemplateLink:
    """The string at `range`, within its quotes, names the template `name`; `statement` is the tag's keyword, or
    `hook` for `header("ck")` and `globals("ck")`."""

    range: Range
    name: str
    statement: str


def links(file: File) -> list[TemplateLink]:
    """All links of `file`, in order."""
    lines = file.template.lines
    return [
        TemplateLink(lines.range(link.start, link.end), link.name, link.keyword)
        for link in sorted(file.names.links, key=lambda link: link.start)
    ]
