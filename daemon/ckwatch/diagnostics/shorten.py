"""Shortens monstrous C++ type names in messages: `DeviceGemmMultiD_Xdl_CShuffle_V3<…>`.

A template-id longer than the limit keeps its name and loses its arguments, outermost first, so that what stays is the
part a person recognises; namespaces in front of such a name go too.
"""

from __future__ import annotations

import re

LONGEST_TYPE = 80
"""Template-ids longer than this are shortened, in characters."""

_NAME = re.compile(r"(?:\b[A-Za-z_]\w*::)*\b[A-Za-z_]\w*$")
_OPERATORS = re.compile(r"operator\s*(?:<=>|<<=?|>>=?|<=?|>=?|->\*?|-=?|\(\))$")
_WITH = re.compile(r" \[with .*\]$|(?<=.) \[[A-Z]\w* = .{80,}\]")


def shorten(text: str, limit: int = LONGEST_TYPE) -> str:
    """`text` with every template-id longer than `limit` characters reduced to `Name<…>`.

    Text that holds no such name comes back unchanged. Unbalanced angle brackets (comparisons) are left alone.
    """
    if len(text) <= limit:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        start = text.find("<", at)
        if start < 0:
            break
        end = _closing(text, start)
        head = text[:start]
        name = _NAME.search(head, at)
        if name is None or _OPERATORS.search(head, at) or end < 0:
            out.append(text[at : start + 1])
            at = start + 1
            continue
        if end + 1 - name.start() > limit:
            out.append(text[at : name.start()] + name.group().rsplit("::", 1)[-1] + "<…>")
        else:
            out.append(text[at : end + 1])
        at = end + 1
    out.append(text[at:])
    return _WITH.sub("", "".join(out))


def _closing(text: str, start: int) -> int:
    """The index of the `>` that closes the `<` at `start`, -1 when there is none."""
    depth = 0
    nested = 0
    for at in range(start, len(text)):
        char = text[at]
        if char in "([{":
            nested += 1
        elif char in ")]}":
            nested -= 1
            if nested < 0:
                return -1
        elif char == "<" and nested == 0 and text[at + 1 : at + 2] != "=" and text[at - 1] != " ":
            depth += 1
        elif char == ">" and nested == 0 and text[at - 1] != "-" and text[at + 1 : at + 2] != "=":
            depth -= 1
            if depth == 0:
                return at
    return -1
