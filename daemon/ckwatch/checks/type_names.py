"""Shortens monstrous C++ type names in messages: `DeviceGemmMultiD_Xdl_CShuffle_V3<…>`.

A template-id longer than the limit keeps its name and loses its arguments, outermost first, so that what stays is the
part a person recognises; namespaces in front of such a name go too.
"""

from __future__ import annotations

import re

LONGEST_TYPE = 80
"""Template-ids longer than this are shortened, in characters."""

LONGEST_NAME = 400
"""How far before a `<` its name may begin, in characters."""

_NAME = re.compile(r"(?:\b[A-Za-z_]\w*::)*\b[A-Za-z_]\w*$")
_OPERATORS = re.compile(r"operator\s*(?:<=>|<<=?|>>=?|<=?|>=?|->\*?|-=?|\(\))$")
_WITH = re.compile(r" \[with .*\]$|(?<=.) \[[A-Z]\w* = .{80,}\]")


def shorten(text: str, limit: int = LONGEST_TYPE) -> str:
    """`text` with every template-id longer than `limit` characters reduced to `Name<…>`.

    Text that holds no such name comes back unchanged. Unbalanced angle brackets (comparisons) are left alone.
    """
    if len(text) <= limit:
        return text
    closings = _closings(text)
    out: list[str] = []
    at = 0
    while at < len(text):
        start = text.find("<", at)
        if start < 0:
            break
        end = closings.get(start, -1)
        head = text[max(at, start - LONGEST_NAME) : start]
        name = _NAME.search(head) if end >= 0 else None
        if name is None or _OPERATORS.search(head):
            out.append(text[at : start + 1])
            at = start + 1
            continue
        first = start - len(head) + name.start()
        if end + 1 - first > limit:
            out.append(text[at:first] + name.group().rsplit("::", 1)[-1] + "<…>")
        else:
            out.append(text[at : end + 1])
        at = end + 1
    out.append(text[at:])
    return _WITH.sub("", "".join(out))


def _closings(text: str) -> dict[int, int]:
    """The index of the `>` that closes each `<`; a `<` that is never closed is missing."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for at, char in enumerate(text):
        if char in "([{":
            opened.append(at)
        elif char in ")]}":
            while opened and text[opened.pop()] == "<":
                pass
        elif char == "<" and text[at + 1 : at + 2] != "=" and text[at - 1 : at] != " ":
            opened.append(at)
        elif char == ">" and text[at - 1 : at] != "-" and text[at + 1 : at + 2] != "=":
            innermost = opened[-1] if opened else -1
            if innermost >= 0 and text[innermost] == "<":
                found[opened.pop()] = at
    return found
