"""C++ with blanks for what is no code; offsets are those of the text itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NO_CODE = re.compile(
    r"""//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z)|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*\""""
    r"""|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.){1,4}'""",
    re.DOTALL,
)
_CONTINUED = re.compile(r"\\(?=\r?\n)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def masked(text: str) -> str:
    """Return the text with blanks for comments, strings and the marks of lines that go on."""
    return _CONTINUED.sub(" ", _NO_CODE.sub(lambda found: re.sub(r"[^\r\n]", " ", found[0]), text))


def closing(code: str, start: int) -> int:
    """The offset of the bracket that closes the one at `start`; -1 where none does."""
    opening, depth = code[start], 0
    for found in re.compile(f"[{re.escape(opening + _CLOSING[opening])}]").finditer(code, start):
        depth += 1 if found[0] == opening else -1
        if not depth:
            return found.start()
    return -1


def closing_angle(code: str, start: int) -> int:
    """The offset of the `>` that closes the template arguments or parameters from `start`; -1 where none does."""
    depth, at = 0, start
    while at < len(code) and code[at] not in ";{}":
        if code[at] in "([":
            at = closing(code, at)
            if at < 0:
                return -1
        elif code.startswith(("<=", ">=", "->"), at):
            at += 1
        elif code[at] == "<":
            depth += 1
        elif code[at] == ">":
            depth -= 1
            if not depth:
                return at
        at += 1
    return -1


def elements(code: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The bounds of the elements of the list with commas in [`start`, `end`), without the blanks around them."""
    begin = at = start
    while at <= end:
        if at == end or code[at] == ",":
            inside = code[begin:at]
            if inside.strip():
                yield begin + len(inside) - len(inside.lstrip()), begin + len(inside.rstrip())
            begin = at + 1
        elif code[at] in _CLOSING:
            at = max(closing(code, at), at)
        elif code[at] == "<" and re.search(r"\w\s*$", code[begin:at]):
            found = closing_angle(code, at)
            at = found if at < found < end else at
        at += 1
