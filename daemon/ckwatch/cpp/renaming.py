"""Places of a name in a template besides the places that a rename changes.

clangd knows one render. What stands in the branch that another instance takes is not in it, nor what the preprocessor
passes over.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from ckwatch.cpp.mappings import RenderedSource
from ckwatch.model.text import LineIndex, Position, Range

_QUOTED = r'"(?:\\.|[^"\\\n])*"' + "|" + r"'(?:\\.|[^'\\\n])*'"
_CPP = (
    r"//[^\n]*|/\*.*?(?:\*/|\Z)" + "|" + r'"(?:\\.|[^"\\\n])*"' + "|" + r"'(?:\\.|[^'\\\n])'" + "|" + r"(?P<word>\w+)"
)
_JINJA = (
    r"\{%-?\s*raw\s*-?%\}(?P<raw>.*?)\{%-?\s*endraw\s*-?%\}"
    r"|\{#.*?(?:#\}|\Z)"
    rf"|\{{%(?:{_QUOTED}|.)*?(?:%\}}|\Z)"
    rf"|\{{\{{(?:{_QUOTED}|.)*?(?:\}}\}}|\Z)"
)
_IN_RAW = re.compile(_CPP, re.DOTALL)
_IN_TEMPLATE = re.compile(f"{_JINJA}|{_CPP}", re.DOTALL)
"""Words of C++, outside of comments, strings and Jinja's tags."""


def left_behind(
    name: str, path: str, text: str, edits: Collection[Range], source: RenderedSource, skipped: Sequence[Range]
) -> str | None:
    """Why renaming `name` by `edits` in the template at `path` would leave some of it behind, for a person.

    `text` is the template's, `skipped` are the ranges of the rendered source that the preprocessor passes over.
    """
    lines = LineIndex(text)
    for start, end in _occurrences(name, text):
        place = lines.range(start, end)
        if place in edits:
            continue
        rendered = [source.lines.position(at) for at in source.covers(path, place.start)]
        where = f"`{name}` also stands at {_named(path, place.start)}"
        if not rendered:
            return f"{where}, which this instance does not render"
        if any(region.start <= position < region.end for region in skipped for position in rendered):
            return f"{where}, which the preprocessor passes over"
    return None


def _occurrences(name: str, text: str) -> Iterator[tuple[int, int]]:
    for found in _IN_TEMPLATE.finditer(text):
        if found["word"] == name:
            yield found.span()
        elif found["raw"] is not None:
            inside = _IN_RAW.finditer(text, *found.span("raw"))
            yield from (one.span() for one in inside if one["word"] == name)


def _named(path: str, position: Position) -> str:
    return f"{path.rpartition('/')[2]}:{position}"
