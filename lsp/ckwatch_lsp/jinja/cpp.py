"""The C++ around the tags, as far as brackets and comments go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ckwatch_lsp.jinja.syntax import Template

_PIECE = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.){1,8}'"""
    r"""|^[ \t]*\#[ \t]*(?:if|ifdef|ifndef|elif|else|endif)\b[^\n]*|[()\[\]{}]""",
    re.DOTALL | re.MULTILINE,
)
_OPENERS = {")": "(", "]": "[", "}": "{"}


class Pair(NamedTuple):
    """A bracket at `start` and the one that closes it at `end`, a comment, or a branch of `#if` with its directives."""

    kind: str
    start: int
    end: int


def pairs(template: Template) -> list[Pair]:
    """Brackets (`(`, `[`, `{`), comments of several lines (`/*`) and branches of `#if` that are closed, by their ends.

    Where branches of Jinja or of the preprocessor hold unequal brackets, those that do not fit are passed over.
    """
    found: list[Pair] = []
    brackets: list[tuple[str, int]] = []
    directives: list[int] = []
    for start, end in _pieces_of_text(template):
        for match in _PIECE.finditer(template.text, start, end):
            piece, at = match.group(), match.start()
            if piece.startswith("/*"):
                found.append(Pair("/*", at, match.end()))
            elif piece in "([{":
                brackets.append((piece, at))
            elif piece in _OPENERS:
                for index in range(len(brackets) - 1, max(len(brackets) - 9, -1), -1):
                    if brackets[index][0] == _OPENERS[piece]:
                        found.append(Pair(_OPENERS[piece], brackets[index][1], at + 1))
                        del brackets[index:]
                        break
            elif piece.lstrip().startswith("#"):
                directive = piece.lstrip()[1:].lstrip()
                if not directive.startswith("if") and directives:
                    found.append(Pair("#", directives.pop(), at))
                if not directive.startswith("endif"):
                    directives.append(match.end())
    return found


def _pieces_of_text(template: Template) -> Iterator[tuple[int, int]]:
    at = 0
    for tag in template.tags:
        if tag.start > at:
            yield at, tag.start
        at = tag.end
    if at < len(template.text):
        yield at, len(template.text)
