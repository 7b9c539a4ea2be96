"""The includes of a C++ text that are read whatever is defined."""

from __future__ import annotations

import re
from collections.abc import Iterator

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*)$", re.MULTILINE)
_NAME = re.compile(r'"([^"\n]+)"|<([^>\n]+)>')


def sure_includes(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """The includes that are read for sure: line and column (from one), the name, and whether it is in quotes."""
    plain = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    depth = 0
    first = True
    for directive in _DIRECTIVE.finditer(plain):
        word, rest = directive[1], directive[2].strip()
        if word in ("if", "ifdef", "ifndef"):
            guard = (
                first
                and word == "ifndef"
                and re.match(rf"\s*#\s*define\s+{re.escape(rest)}\b", plain[directive.end() :])
            )
            depth += 0 if guard else 1
        elif word == "endif":
            depth = max(0, depth - 1)
        elif word == "include" and depth == 0 and (name := _NAME.match(plain, directive.start(2))):
            line = plain.count("\n", 0, directive.start()) + 1
            column = name.start() - plain.rfind("\n", 0, name.start())
            yield line, column, name[1] or name[2], name[1] is not None
        first = False
