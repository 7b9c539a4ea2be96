"""Finds the brace that is one too many, and the brace or list of template arguments that is not closed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|R\"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)\"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'|[{}]",
    re.DOTALL,
)
_ASIDE = re.compile(r"//[^\n]*|/\*[^\n]*?\*/|\"(?:[^\"\\\n]|\\.)*\"")
_ANGLE = re.compile(r"(?<=\w)<(?![<=])|(?<![-=])>(?!=)")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|else|elif|endif)", re.MULTILINE)
_ENDS_NAMESPACE = re.compile(r"\}\s*(?://|/\*)\s*(?:end\s+)?namespace\b")
_NAMESPACE = re.compile(r'\bnamespace\b|\bextern\s+"C"')
_DEFINITION = re.compile(r"^(?:template\b|extern\b|__global__|__device__|(?:inline|static|constexpr)\b)", re.MULTILINE)


def stray_brace(text: str) -> int | None:
    """The offset of the `}` that is one too many in C++ `text`; None when none is.

    It is the first that begins a line at another indentation than the line of its `{`, or else ends such a line, if the
    braces do not match up in the end; else the one without a `{`.
    """
    opened: list[int] = []
    suspected: int | None = None
    trailing: int | None = None
    for at, indentation, begins in _braces(text):
        if text[at] == "{":
            opened.append(indentation)
        elif not opened:
            return next(one for one in (suspected, trailing, at) if one is not None)
        elif opened.pop() != indentation:
            if begins and suspected is None:
                suspected = at
            elif not begins and trailing is None:
                trailing = at
    return None


def unclosed_brace(text: str) -> int | None:
    """The offset of the `{` in C++ `text` that is not closed; None when all are.

    It is the first whose `}` begins a line that is indented less than its own or ends a namespace that it does not
    begin, or behind which another function begins without any indentation, if the braces do not match up in the end;
    else the last that is open at the end.
    """
    opened: list[tuple[int, int]] = []
    suspected: int | None = None
    for at, indentation, begins in _braces(text):
        if text[at] == "{":
            outer = opened[-1] if opened else None
            if suspected is None and outer is not None and indentation == outer[1] == 0:
                line = text[text.rfind("\n", 0, at) + 1 : at]
                if _DEFINITION.match(line) and not _is_namespace(text, outer[0]):
                    suspected = outer[0]
            opened.append((at, indentation))
            continue
        if not opened:
            return None
        start, own = opened.pop()
        misplaced = own > indentation or (_ENDS_NAMESPACE.match(text, at) and not _is_namespace(text, start))
        if suspected is None and begins and misplaced:
            suspected = start
    if not opened:
        return None
    return opened[-1][0] if suspected is None else suspected


def unclosed_angle(text: str, end: int) -> int | None:
    """The offset of the `<` in the statement before `end` that its line does not close; None when there is none.

    It begins a list of template arguments with something behind it in its line, and the next line is not indented more.
    """
    start = max(text.rfind(";", 0, end), text.rfind("\n\n", 0, end)) + 1
    code = _ASIDE.sub(lambda match: " " * len(match[0]), text[start:end])
    opened: list[int] = []
    lines = re.finditer(r"[^\n]*\n?", code)
    for line, following in pairwise(lines):
        for match in _ANGLE.finditer(line[0]):
            if match[0] == "<":
                opened.append(line.start() + match.start())
            elif opened:
                opened.pop()
        inside = opened and opened[-1] >= line.start() and code[opened[-1] + 1 : line.end()].strip()
        here, below = (text[start + one.start() : start + one.end()] for one in (line, following))
        if inside and following[0].strip() and _indentation(below) <= _indentation(here):
            return start + opened[-1]
    return None


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_namespace(text: str, brace: int) -> bool:
    """Return True if a `{` opens a block whose content is usually not indented."""
    start = max(text.rfind(end, 0, brace) for end in ";{}") + 1
    return _NAMESPACE.search(text, start, brace) is not None


def _braces(text: str) -> Iterator[tuple[int, int, bool]]:
    """The offset of each brace, the indentation of its line, and whether it begins the line. Of the alternatives of a
    conditional directive only the first counts."""
    skipped = _alternatives(text)
    for match in _TOKEN.finditer(text):
        if match[0] not in "{}" or any(start <= match.start() < end for start, end in skipped):
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start : match.start()]
        yield match.start(), _indentation(line), not line.strip()


def _alternatives(text: str) -> list[tuple[int, int]]:
    """The text between an `#else` or the first `#elif` and its `#endif`, for each that is not inside of another."""
    found = []
    starts: list[int | None] = []
    for match in _DIRECTIVE.finditer(text):
        if match[1] == "if":
            starts.append(None)
        elif starts and match[1] != "endif":
            starts[-1] = starts[-1] or match.start()
        elif starts:
            start = starts.pop()
            if start is not None and not any(starts):
                found.append((start, match.start()))
    return found
