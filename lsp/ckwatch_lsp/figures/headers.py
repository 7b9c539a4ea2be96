"""Where figures stand in a document: the tables of a kernel file, the kernel's definition and macros of a template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ckwatch.wire.values import Unit

_MARK = re.compile(
    r"""^[ \t]*(?:\[\[[ \t]*(instance|sweep)[ \t]*\]\][ \t]*(?:\#[^\n]*?)?(?=\r?$)
      | name[ \t]*=[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*')
      | \[)""",
    re.MULTILINE | re.VERBOSE,
)
"""A header of a table of instances, a name, or another header."""

_FENCES = ('"""', "'''")
_ESCAPE = re.compile(r'\\(["\\])')

_DEFINITION = re.compile(r"\bdef_kernel\s*\(")
_MACRO = re.compile(r"\{%[-+]?\s*macro\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Header:
    """`[[instance]]` or `[[sweep]]` on line `line`, which ends at `column`; its name stands on `name_line`, from
    `name_start` to `name_end`."""

    kind: Literal["instance", "sweep"]
    line: int
    column: int
    name: str
    name_line: int
    name_start: int
    name_end: int


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro's definition begins on this line."""

    name: str
    line: int


def headers(text: str) -> list[Header]:
    """The named tables of a kernel file, however broken it is."""
    found: list[Header] = []
    kind: Literal["instance", "sweep"] | None = None
    at = column = line = passed = 0
    text = _without_long_strings(text)
    for mark in _MARK.finditer(text):
        start = mark.start()
        line += text.count("\n", passed, start)
        passed = start
        if mark.group(1):
            kind = "instance" if mark.group(1) == "instance" else "sweep"
            at, column = line, mark.end() - start
        elif kind is not None and mark.group(2):
            first, last = mark.span(2)
            found.append(Header(kind, at, column, _value(mark.group(2)), line, first - start, last - start))
            kind = None
        elif not mark.group(2):
            kind = None
    return found


def definition_line(text: str) -> int:
    """The line of the template's first call of `def_kernel`; the first line where there is none."""
    for call in _DEFINITION.finditer(text):
        at = call.start()
        in_comment = text.rfind("{#", 0, at) > text.rfind("#}", 0, at)
        begins = max(text.rfind("{{", 0, at), text.rfind("{%", 0, at))
        in_tag = begins > max(text.rfind("}}", 0, at), text.rfind("%}", 0, at))
        if in_tag and not in_comment:
            return text.count("\n", 0, at)
    return 0


def defines_kernel(text: str) -> bool:
    """Whether the template calls `def_kernel`, as far as the words tell."""
    return _DEFINITION.search(text) is not None


def macros(text: str) -> list[Macro]:
    """The macros of a template, comments left out."""
    found = []
    line = passed = 0
    for macro in _MACRO.finditer(text):
        if text.rfind("{#", 0, macro.start()) <= text.rfind("#}", 0, macro.start()):
            line += text.count("\n", passed, macro.start())
            passed = macro.start()
            found.append(Macro(macro.group(1), line))
    return found


def units_by_header(found: Sequence[Header], units: Iterable[Unit]) -> list[tuple[Header, list[Unit]]]:
    """The units of each header, by their names, so that they are found also where the text was edited since."""
    by_name: dict[str, list[Unit]] = {}
    for unit in units:
        by_name.setdefault(unit.instance, []).append(unit)
    written = {header.name for header in found if header.kind == "instance"}
    sweeps = frozenset(header.name for header in found if header.kind == "sweep")
    swept: dict[str, list[Unit]] = {}
    if sweeps:
        for name, here in by_name.items():
            if name not in written and (sweep := _sweep_of(name, sweeps)) is not None:
                swept.setdefault(sweep, []).extend(here)
    return [(header, (by_name if header.kind == "instance" else swept).get(header.name, [])) for header in found]


def _sweep_of(name: str, sweeps: frozenset[str]) -> str | None:
    """The sweep with the longest name that `name` begins with: its values follow, each after `_`."""
    end = len(name)
    while end > 0:
        if name[:end] in sweeps:
            return name[:end]
        end = name.rfind("_", 0, end)
    return None


def _without_long_strings(text: str) -> str:
    """The same lines, those within a string of several lines empty."""
    if not any(fence in text for fence in _FENCES):
        return text
    lines = text.split("\n")
    fence = ""
    for number, line in enumerate(lines):
        if fence:
            lines[number] = ""
            fence = "" if fence in line else fence
        elif not line.lstrip().startswith("#"):
            fence = next((each for each in _FENCES if line.count(each) % 2), "")
    return "\n".join(lines)


def _value(written: str) -> str:
    return _ESCAPE.sub(r"\1", written[1:-1]) if written[0] == '"' else written[1:-1]
