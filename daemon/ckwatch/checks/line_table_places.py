"""Reads the places that back ends and linkers know only when code was compiled with line tables.

    error: kernel.hip:2:0: stack frame size (280016) exceeds limit (131056) in function '_Z1kPfi'

    error: Illegal instruction detected: Invalid dpp_ctrl value
    renamable $vgpr0 = V_MOV_B32_dpp …, debug-location !23; own.hpp:2:53 @[ kernel.hip:5:10 ]

    lld: error: undefined symbol: other(float)
    >>> referenced by own.hpp:5 (./own.hpp:5)
    >>>               device.o:(k(float*))

GNU's linker prints `own.hpp:9: undefined reference to …`, which `clang_output` reads. A column of 0 means that only the
line is known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, ClangSeverity, MessageKind
from ckwatch.checks.linker_symbols import SymbolProblem, symbol_of

_PLACE = r"(?P<path>[^\s:@<>()]+):(?P<line>\d+)"
_PREFIX = re.compile(rf"{_PLACE}:(?P<column>\d+): (?P<text>.+)", re.DOTALL)
_DEBUG_LOCATION = re.compile(
    rf"(?P<instruction>.*?)(?:,? debug-location ![\w]+;|,) {_PLACE}:(?P<column>\d+)(?P<inlined>(?: @\[.*)?)$"
)
_INLINED = re.compile(rf"@\[ {_PLACE}:(?P<column>\d+)")
_REFERENCE = re.compile(rf">>> referenced by (?P<short>[^\s()]+:\d+)(?: \({_PLACE}\))?$")
_WITHOUT_FILE = re.compile(r"(?P<path>[^\s()]+):(?P<line>\d+)$")
_OBJECT = re.compile(r">>>\s+[^(]*\((?P<function>.+)\)\s*$")
_NO_LOCATION = re.compile(r"Cannot select: intrinsic ")


def with_line_table_places(messages: Iterable[ClangMessage]) -> list[ClangMessage]:
    """Return `messages` with the places of line tables; an undefined symbol once for each place that uses it."""
    return [placed for message in messages for placed in _placed(message)]


def lacks_place(messages: Iterable[ClangMessage]) -> bool:
    """Return True if an error has no place, and would have one if the code had line tables."""
    return any(message.is_error and message.position is None and _may_have_place(message) for message in messages)


def _may_have_place(message: ClangMessage) -> bool:
    if message.kind is MessageKind.LINKER:
        symbol = symbol_of(message)
        return symbol is not None and symbol.problem in (SymbolProblem.UNDEFINED, SymbolProblem.TYPE)
    return message.kind is MessageKind.BACKEND and _NO_LOCATION.search(message.text) is None


def _placed(message: ClangMessage) -> Iterator[ClangMessage]:
    if not message.is_error or message.position is not None:
        yield message
    elif message.kind is MessageKind.LINKER:
        yield from _references(message)
    elif message.kind in (MessageKind.BACKEND, MessageKind.COMPILER):
        yield _in_back_end(message)
    else:
        yield message


def _references(message: ClangMessage) -> Iterator[ClangMessage]:
    found: dict[tuple[str, int], ClangMessage] = {}
    for at, line in enumerate(message.tail):
        reference = _REFERENCE.match(line)
        place = reference and (_WITHOUT_FILE.match(reference["short"]) if reference["path"] is None else reference)
        if place is None or not int(place["line"]):
            continue
        behind = _OBJECT.match(message.tail[at + 1]) if at + 1 < len(message.tail) else None
        path, position = _path(place["path"]), ClangPosition(int(place["line"]), 0)
        function = "" if behind is None else behind["function"]
        one = replace(message, path=path, position=position, function=function)
        found.setdefault((path, position.line), one)
    yield from found.values() or (message,)


def _in_back_end(message: ClangMessage) -> ClangMessage:
    prefixed = _PREFIX.match(message.text)
    if prefixed is not None:
        return replace(message, text=prefixed["text"], path=_path(prefixed["path"]), position=_position(prefixed))
    for line in (message.text, *message.tail):
        found = _DEBUG_LOCATION.match(line)
        if found is None:
            continue
        notes = [_note("inlined here", one) for one in _INLINED.finditer(found["inlined"])]
        instruction = found["instruction"].strip()
        if line is not message.text:
            notes.insert(0, ClangMessage(ClangSeverity.NOTE, "", None, (), f"the instruction is {instruction}"))
        text = instruction if line is message.text else message.text
        notes = [*message.notes, *notes]
        return replace(message, text=text, notes=tuple(notes), path=_path(found["path"]), position=_position(found))
    return message


def _note(text: str, place: re.Match[str]) -> ClangMessage:
    return ClangMessage(ClangSeverity.NOTE, _path(place["path"]), _position(place), (), text)


def _position(match: re.Match[str]) -> ClangPosition:
    return ClangPosition(int(match["line"]), int(match["column"]))


def _path(path: str) -> str:
    return posixpath.normpath(path)
