"""C++ with blanks for what is no code, its brackets and its lists; offsets are those of the text itself."""

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
_IN_ANGLES = re.compile(r"<<<|<<|<=|>=|->|[<>()\[\]{};]")


def masked(text: str) -> str:
    """Return the text with blanks for comments, strings and the marks of lines that go on."""
    return _CONTINUED.sub(" ", _NO_CODE.sub(lambda found: re.sub(r"[^\r\n]", " ", found[0]), text))


def closing(code: str, start: int) -> int:
    """The offset of the bracket that closes the one at `start`; -1 where none does. A `<` is taken for a bracket."""
    opening, depth = code[start], 0
    if opening == "<":
        return _closing_angle(code, start)
    for found in re.compile(f"[{re.escape(opening + _CLOSING[opening])}]").finditer(code, start):
        depth += 1 if found[0] == opening else -1
        if not depth:
            return found.start()
    return -1


def _closing_angle(code: str, start: int) -> int:
    at, depth = start, 0
    while found := _IN_ANGLES.search(code, at):
        sign, at = found[0], found.end()
        if sign in _CLOSING:
            at = closing(code, found.start()) + 1
        elif sign in ("<", "<<<"):
            depth += len(sign)
        elif sign == ">":
            depth -= 1
            if not depth:
                return found.start()
        if not (at and depth) or sign in ")]};":
            return -1
    return -1


def split_list(code: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Bounds of the elements of a list with commas, without the blanks around them; none of an empty list."""
    text = code[start:end]
    begin, at = 0, 0 if text.strip() else len(text) + 1
    while at <= len(text):
        if at == len(text) or text[at] == ",":
            inside = text[begin:at]
            yield start + begin + len(inside) - len(inside.lstrip()), start + begin + len(inside.rstrip())
            begin = at + 1
        elif text[at] in _CLOSING or (text[at] == "<" and re.search(r"\w\s*$", text[begin:at])):
            at = max(closing(text, at), at)
        at += 1
