"""C++ as text: lists, scopes and definitions, without a compiler and without the headers that it needs."""

from __future__ import annotations

import re

from ckwatch.headers.masked_text import split_list
from ckwatch.model.lazy_dataclass import dataclass

_SCOPE = re.compile(r"\bnamespace\b\s*(?:\[\[.*?\]\]\s*)?(?P<name>[\w:]*)\s*\{|(?P<bracket>[{}])", re.DOTALL)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]+)$", re.MULTILINE)
_ALIAS = re.compile(
    r"\busing\s+(\w+)\s*=\s*([^;]+);|\btypedef\s+([^;{}]+?)\s*\b(\w+)\s*;|\btemplate\s*<[^;{]*>\s*using\s"
)


def line_of(text: str, offset: int) -> int:
    """The line of an offset, from 1."""
    return text.count("\n", 0, offset) + 1


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
