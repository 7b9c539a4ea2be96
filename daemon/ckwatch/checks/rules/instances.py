"""Finds instances in rendered C++: `DeviceGemmMultiD_Xdl_CShuffle_V3< /* ALayout */ Row, /* MPerBlock */ 128, … >`.

The template arguments are told apart by the `/* name */` comment before each, so neither order nor completeness
matters. Texts are kept with their offsets: an argument leads back to its place in the template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ckwatch.model.kernels import ParameterValue

_HEAD = re.compile(r"\b(Device\w+)\s*<(?=\s*/\*)")
_NAME = re.compile(r"/\*\s*(\w+)\s*\*/")
_SKIPPED = re.compile(
    r"""/\*.*?(?:\*/|\Z)          # comments, strings and characters hold no brackets that count
      | //[^\n]*
      | "(?:\\.|[^"\\\n])*"?
      | '(?:\\.|[^'\\\n])*'
    """,
    re.DOTALL | re.VERBOSE,
)
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*")
_SEQUENCE = re.compile(r"(?:\w+\s*::\s*)*(?:S|Sequence)\s*<([^<>]*)>(?:\s*\{\s*\})?")
_NUMBER = re.compile(r"(?:\w+\s*::\s*)*Number\s*<([^<>]*)>(?:\s*\{\s*\})?")


@dataclass(frozen=True, slots=True)
class RenderedInstance:
    """One instance in a rendered text. `offsets` gives each argument's half-open range, without its comment."""

    device_operation: str
    arguments: Mapping[str, ParameterValue]
    offsets: Mapping[str, tuple[int, int]]
    start: int
    end: int


def rendered_instances(rendered_text: str) -> list[RenderedInstance]:
    """The instances in `rendered_text` whose arguments carry names, in order. What cannot be read is left out."""
    blank = _SKIPPED.sub(lambda match: " " * len(match.group()), rendered_text)
    found = []
    for head in _HEAD.finditer(rendered_text):
        if blank[head.start(1) : head.end(1)] != head.group(1):
            continue
        pieces = _arguments(blank, head.end())
        if pieces is None:
            continue
        arguments: dict[str, ParameterValue] = {}
        offsets: dict[str, tuple[int, int]] = {}
        for start, end in pieces:
            name = _NAME.search(rendered_text, start, end)
            span = _stripped(blank, start, end)
            if name is not None and span is not None:
                arguments[name.group(1)] = argument_value(rendered_text[slice(*span)])
                offsets[name.group(1)] = span
        found.append(RenderedInstance(head.group(1), arguments, offsets, head.start(1), pieces[-1][1] + 1))
    return found


def argument_value(text: str) -> ParameterValue:
    """The value of a template argument's C++ text: integer, boolean, the tuple of `S<…>`, else the text itself."""
    text = text.strip()
    if text in {"true", "false"}:
        return text == "true"
    number = _integer(text)
    if number is not None:
        return number
    if match := _NUMBER.fullmatch(text):
        number = _integer(match.group(1))
        return text if number is None else number
    if match := _SEQUENCE.fullmatch(text):
        body = match.group(1).strip()
        elements = [_integer(element) for element in body.split(",")] if body else []
        known = tuple(element for element in elements if element is not None)
        return known if len(known) == len(elements) else text
    return " ".join(text.split())


def _arguments(blank: str, start: int) -> list[tuple[int, int]] | None:
    """Ranges of the arguments that begin at `start`, just inside `<`; None when the bracket is never closed.

    A `>` inside parentheses is a comparison, as it is for the compiler.
    """
    pieces = []
    closers: list[str] = []
    begin = start
    for at in range(start, len(blank)):
        character = blank[at]
        if character in "<([{":
            if character != "<" or not closers or closers[-1] == ">":
                closers.append({"<": ">", "(": ")", "[": "]", "{": "}"}[character])
        elif character == ">" and not closers:
            pieces.append((begin, at))
            return pieces
        elif closers and character == closers[-1]:
            closers.pop()
        elif character == "," and not closers:
            pieces.append((begin, at))
            begin = at + 1
        elif character == ";" and not closers:
            return None
    return None


def _integer(text: str) -> int | None:
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.rstrip("uUlL")
    try:
        return int(digits, 0)
    except ValueError:  # a leading zero: octal in C++
        return int(digits, 8) if re.fullmatch(r"[-+]?[0-7]+", digits) else None


def _stripped(blank: str, start: int, end: int) -> tuple[int, int] | None:
    text = blank[start:end]
    if not text.strip():
        return None
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())
