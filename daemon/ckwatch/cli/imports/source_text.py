"""C++ as text: brackets, lists, scopes and definitions, without a compiler and without the headers that it needs.

Offsets in a masked text are those in the text itself: what is no code is blank there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NO_CODE = re.compile(
    r"""//(?:[^\n\\]|\\.)*|/\*.*?\*/|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.){1,4}'""",
    re.DOTALL | re.VERBOSE,
)
_CONTINUED = re.compile(r"\\(?=\r?\n)")
_SCOPE = re.compile(r"\bnamespace\b\s*(?:\[\[.*?\]\]\s*)?(?P<name>[\w:]*)\s*\{|(?P<bracket>[{}])", re.DOTALL)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)$", re.MULTILINE)
_ALIAS = re.compile(
    r"\busing\s+(\w+)\s*=\s*([^;]+);|\btypedef\s+([^;{}]+?)\s*\b(\w+)\s*;|\btemplate\s*<[^;{]*>\s*using\s"
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BRACKETS = {opening: re.compile(f"[{re.escape(opening + end)}]") for opening, end in _CLOSING.items()}


def masked(text: str) -> str:
    """The text with blanks for comments, strings and the ends of lines that go on."""

    def blank(found: re.Match[str]) -> str:
        if (
            "'" in found[0]
            and re.fullmatch(r"'[\w.]+'", found[0])
            and text[found.start() - 1 : found.start()].isdigit()
        ):
            return found[0]  # 1'000'000
        return re.sub(r"[^\r\n]", " ", found[0])

    return _CONTINUED.sub(" ", _NO_CODE.sub(blank, text))


def line_of(text: str, offset: int) -> int:
    """The line of an offset, from 1."""
    return text.count("\n", 0, offset) + 1


def closing(text: str, start: int) -> int:
    """The index of the bracket that closes the one at `start`; -1 where none does. A `<` is taken for a bracket."""
    opening = text[start]
    if opening == "<":
        return _closing_angle(text, start)
    depth = 0
    for one in _BRACKETS[opening].finditer(text, start):
        depth += 1 if one[0] == opening else -1
        if not depth:
            return one.start()
    return -1


def _closing_angle(text: str, start: int) -> int:
    at, depth = start, 0
    while at < len(text):
        character = text[at]
        if character in _CLOSING:
            at = closing(text, at)
            if at < 0:
                return -1
        elif character in ";{}":
            return -1
        elif text.startswith(("<<", "<=", ">=", "->"), at) and not text.startswith("<<<", at):
            at += 1
        elif character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
            if not depth:
                return at
        at += 1
    return -1


def split_list(text: str) -> Iterator[tuple[int, int]]:
    """Bounds of the elements of a list with commas, without the blanks around them; none of an empty list."""
    start = at = 0
    bounds: list[tuple[int, int]] = []
    while at < len(text):
        character = text[at]
        if character in _CLOSING or (
            character == "<" and re.search(r"\w\s*$", text[:at]) and text[at + 1 : at + 2] != "<"
        ):
            end = closing(text, at)
            at = end if end > 0 else at
        elif character == ",":
            bounds.append((start, at))
            start = at + 1
        at += 1
    if text.strip():
        bounds.append((start, len(text)))
    for begin, end in bounds:
        inside = text[begin:end]
        yield begin + len(inside) - len(inside.lstrip()), end - (len(inside) - len(inside.rstrip()))


def elements(text: str) -> list[str]:
    """The elements of a list with commas, each on one line."""
    return [one_line(text[start:end]) for start, end in split_list(text)]


def one_line(text: str) -> str:
    """The text with single blanks."""
    return " ".join(text.split())


def namespaces(text: str, offset: int) -> tuple[str, ...]:
    """The named namespaces around an offset of a masked text, from the outermost."""
    stack: list[str] = []
    for found in _SCOPE.finditer(text, 0, offset):
        if found["bracket"] == "}":
            if stack:
                stack.pop()
        else:
            stack.append(found["name"] or "" if found["bracket"] is None else "")
    return tuple(name for name in stack if name)


@dataclass(frozen=True, slots=True)
class Constants:
    """Macros without arguments, and types by their other names, of a masked text."""

    macros: dict[str, str]
    aliases: dict[str, str]

    @classmethod
    def of(cls, text: str) -> Constants:
        """Those that have one meaning in the text."""
        macros: dict[str, set[str]] = {}
        for name, value in _DEFINE.findall(text):
            macros.setdefault(name, set()).add(value.strip())
        aliases: dict[str, set[str]] = {}
        for found in _ALIAS.finditer(text):
            name, value = (found[1], found[2]) if found[1] else (found[4], found[3])
            if name:
                aliases.setdefault(name, set()).add(one_line(value))
        return cls(_certain(macros), _certain(aliases))

    def resolved(self, name: str) -> str:
        """A type by the name that is behind its other ones."""
        for _ in range(8):
            following = self.aliases.get(name) or self.macros.get(name)
            if following is None or following == name:
                break
            name = following.removeprefix("typename ")
        return name


def _certain(values: dict[str, set[str]]) -> dict[str, str]:
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}
