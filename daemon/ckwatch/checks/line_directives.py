"""Undoes the `#line` directives of a text: compilers name the lines that these declare, not those of the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, ClangRange, code_point_column
from ckwatch.model.lazy_dataclass import dataclass

_DIRECTIVE = re.compile(r'[ \t]*#[ \t]*(?:line[ \t]+)?(?P<number>\d+)(?:[ \t]+"(?P<name>[^"]*)")?[ \t\d]*$')
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class _Region:
    """The lines [`start`, `end`) of the text, counted from one, are called `first` and following of the file `name`."""

    start: int
    end: int
    name: str
    first: int

    def line(self, path: str, number: int) -> int | None:
        """The text's line for a line as it is called, None when it is none of these."""
        line = self.start + number - self.first
        called = path == self.name or path.endswith(f"/{self.name}")
        return line if called and self.start <= line < self.end else None


def without_line_directives(messages: Iterable[ClangMessage], path: str, text: str) -> list[ClangMessage]:
    """`messages` about the file `path` that contains `text`, at the lines where they stand."""
    lines = text.split("\n")
    regions = [_Region(1, len(lines) + 1, path, 1)]
    for number, line in enumerate(lines, 1):
        directive = _DIRECTIVE.match(line.rstrip("\r")) if "#" in line else None
        if directive is not None:
            last = regions[-1]
            regions[-1] = replace(last, end=number + 1)
            regions.append(
                _Region(number + 1, len(lines) + 1, directive["name"] or last.name, int(directive["number"]))
            )
    if len(regions) == 1:
        return list(messages)
    return [_moved(message, path, regions, lines) for message in messages]


def _moved(message: ClangMessage, path: str, regions: list[_Region], lines: list[str]) -> ClangMessage:
    notes = tuple(_moved(note, path, regions, lines) for note in message.notes)
    chain = tuple(
        replace(step, path=path, line=line)
        if (line := next((at for one in regions if (at := one.line(step.path, step.line)) is not None), None))
        else step
        for step in message.include_chain
    )
    message = replace(message, notes=notes, include_chain=chain)
    if message.position is None:
        return message
    found = [line for one in regions if (line := one.line(message.path, message.position.line)) is not None]
    if not found:
        return message
    # A directive without a name may call two lines the same.
    column = message.position.column
    best = max(found, key=lambda line: _names_word_at(message.text, lines[line - 1], column))
    shift = best - message.position.line
    ranges = tuple(ClangRange(_shifted(one.start, shift), _shifted(one.end, shift)) for one in message.ranges)
    fixits = tuple(
        replace(one, path=path, range=ClangRange(_shifted(one.range.start, shift), _shifted(one.range.end, shift)))
        if one.path == message.path
        else one
        for one in message.fixits
    )
    position = _shifted(message.position, shift)
    return replace(message, path=path, position=position, ranges=ranges, fixits=fixits)


def _shifted(place: ClangPosition, lines: int) -> ClangPosition:
    return ClangPosition(place.line + lines, place.column)


def _names_word_at(text: str, line: str, column: int) -> bool:
    """Return True if a message has the word at a byte column of a line."""
    word = _WORD.match(line, code_point_column(line, column))
    return word is not None and word[0] in text
