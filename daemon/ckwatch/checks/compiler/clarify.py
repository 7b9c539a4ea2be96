"""Puts messages where the mistake is, with words about what is written there.

Compilers point to where they noticed: the end of a file for a brace that is missing in its middle, the next line for a
missing `;`, a macro's use for a wrong name in its text, or what a macro of CUDA or HIP stands for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ckwatch.checks.braces import stray_brace, unclosed_angle, unclosed_brace
from ckwatch.checks.clang_output import (
    ClangFixit,
    ClangMessage,
    ClangPosition,
    ClangRange,
    ClangSeverity,
    byte_column,
    position_in,
)
from ckwatch.checks.compiler.consequences import UNKNOWN_NAME
from ckwatch.checks.compiler.sources import Sources
from ckwatch.checks.linker_symbols import last_name
from ckwatch.checks.places import SourcePlace
from ckwatch.model.text import Position

_STRAY_BRACE = re.compile(r"extraneous closing brace|expected a declaration$")
_UNCLOSED_ANGLE = re.compile(r"expected (?:a )?['\"]>['\"]$")
_UNCLOSED_BRACE = re.compile(r"expected (?:a )?['\"]\}['\"]$")
_UNTERMINATED = re.compile(r"unterminated|missing terminating|missing closing quote|comment unclosed")
_COORDINATE = re.compile(r"reference to __device__ function '__get_(?P<axis>[xyz])' in (?P<where>.*)")
_LAUNCH_BOUND = re.compile(
    r"'(?P<attribute>amdgpu_flat_work_group_size|amdgpu_waves_per_eu)' attribute (?:argument )?"
    r"(?:requires parameter \d+ to )?(?P<what>(?:is|be|must) .*)"
)
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*([^,()]+?|[^,]+?)\s*(?:,\s*(.*?)\s*)?\)")
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\([^()\n]*\))?(?P<body>(?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE
)
_CALLED = re.compile(r"expected '\(' for function-style cast|called object type '.*' is not a function")
_EXPECTED = re.compile(r'expected an? "(?P<what>[;)\]])"')
_ATTRIBUTES = re.compile(
    r"\s*(?:(?:__(?:device|host|global|shared|constant|forceinline|noinline)__|__attribute__\s*\(\(.*?\)\)|"
    r"__launch_bounds__\s*\([^()]*\)|\[\[.*?\]\])\s*)+"
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def clarified(message: ClangMessage, sources: Sources) -> ClangMessage:
    """The message as one about what is written; others as they are."""
    for step in (_at_coordinate, _at_launch_bound, _in_macro):
        message = step(message, sources)
    return message


def with_brace(messages: Sequence[ClangMessage], sources: Sources) -> list[ClangMessage]:
    """`messages` with the complaint of a brace too many or too few where this brace is, before what follows."""
    if any(_UNTERMINATED.match(one.text) for one in messages):
        return [*messages]
    for told, message in enumerate(messages):
        wrong = _wrong_brace(message, sources) if _is_about_braces(message, sources) else None
        if wrong is None:
            continue
        path, offset = wrong
        place, brace = sources.position_at(path, offset), sources.text_of(path)[offset]
        said = "extraneous closing brace ('}')" if brace == "}" else f"{message.text} for this '{brace}'"
        moved = replace(message, text=said, path=path, position=place, ranges=(), fixits=(), notes=())
        others = [*messages[:told], *messages[told + 1 :]]
        follows = (
            at
            for at, one in enumerate(others[:told])
            if one.is_error and one.position is not None and (one.path != path or one.position >= place)
        )
        others.insert(next(follows, told), moved)
        return others
    return [*messages]


def _is_about_braces(message: ClangMessage, sources: Sources) -> bool:
    """Return True if a compiler reports a brace too many, a missing `>`, or, at the end of the text, a missing
    brace."""
    if _STRAY_BRACE.match(message.text):
        return sources.is_users(message.path)
    if _UNCLOSED_ANGLE.match(message.text):
        return sources.rendered.is_at(message.path) and message.position is not None
    if not _UNCLOSED_BRACE.match(message.text):
        return False
    if message.position is None:
        return True
    behind = sources.rendered.lines[message.position.line :]
    return sources.rendered.is_at(message.path) and not any(line.strip() for line in behind)


def _wrong_brace(message: ClangMessage, sources: Sources) -> tuple[str, int] | None:
    """The file of the brace that a message complains of, and its offset; None when nothing tells which it is."""
    path = message.path or sources.rendered.path
    if _STRAY_BRACE.match(message.text):
        found = [(path, stray_brace(sources.text_of(path)))]
    elif _UNCLOSED_ANGLE.match(message.text) and message.position is not None:
        end = position_in(sources.line_of(message), message.position)
        found = [(path, unclosed_angle(sources.text_of(path), sources.rendered.source_map.lines.offset(end)))]
    else:
        found = [(one, unclosed_brace(text)) for one, text in sources.users_texts()]
    return next(((one, offset) for one, offset in found if offset is not None), None)


def _at_coordinate(message: ClangMessage, sources: Sources) -> ClangMessage:
    """The message about the function that `threadIdx.x` stands for as one about `threadIdx.x`."""
    about = _COORDINATE.match(message.text)
    line, column = sources.line_of(message), sources.column_of(message)
    if about is None:
        return message
    written = re.search(r"\w+\.$", line[:column])
    if written is None or not line.startswith(about["axis"], column):
        return message
    text = f"reference to __device__ variable '{written[0].strip()}{about['axis']}' in {about['where']}"
    return sources.at_column(replace(message, text=text), written.start())


def _at_launch_bound(message: ClangMessage, sources: Sources) -> ClangMessage:
    """The message about an attribute that `__launch_bounds__` stands for as one about its argument."""
    about = _LAUNCH_BOUND.match(message.text)
    if about is None or not any("__launch_bounds__" in one.text for one in message.notes):
        return message
    number = ("amdgpu_flat_work_group_size", "amdgpu_waves_per_eu").index(about["attribute"])
    argument = _BOUNDS.match(sources.line_of(message), sources.column_of(message))
    what = re.sub("^be", "must be", about["what"])
    message = replace(message, text=f"the {('first', 'second')[number]} argument of __launch_bounds__ {what}")
    if argument is None or argument[number + 1] is None:
        return message
    return sources.at_column(message, argument.start(number + 1))


def _in_macro(message: ClangMessage, sources: Sources) -> ClangMessage:
    """The message about an unknown name in the text of a macro of the user at this name, instead of at the macro's
    use."""
    unknown = UNKNOWN_NAME.search(message.text)
    if unknown is None:
        return message
    used = replace(message, severity=ClangSeverity.NOTE, text="expanded here", notes=(), fixits=())
    if sources.is_cuda:
        return _in_replaced_macro(message, unknown["name"], used, sources)
    for note in message.notes:
        if not sources.is_users(note.path) or note.position is None or "expanded from macro" not in note.text:
            continue
        name = re.compile(rf"{re.escape(unknown['name'])}\b")
        if name.match(sources.line_of(note), sources.column_of(note)):
            notes = (used, *(other for other in message.notes if other is not note))
            return replace(message, path=note.path, position=note.position, ranges=note.ranges, notes=notes)
    return message


def _in_replaced_macro(message: ClangMessage, name: str, used: ClangMessage, sources: Sources) -> ClangMessage:
    """Do the work of `_in_macro` for nvcc, which prints lines with their macros replaced: find the macro of the line
    that has the missing name."""
    line = sources.line_of(message)
    missing = re.compile(rf"\b{re.escape(name)}\b")
    if missing.search(line):
        return message
    for path, text in sources.users_texts():
        for macro in _MACRO.finditer(text):
            found = missing.search(text, macro.start("body"), macro.end("body"))
            if found is not None and re.search(rf"\b{macro['name']}\b", line):
                place = sources.position_at(path, found.start())
                return replace(message, path=path, position=place, ranges=(), notes=(used, *message.notes))
    return message


def with_column(message: ClangMessage, sources: Sources) -> ClangMessage:
    """A message of nvcc at the name, or the open quote, in its line that it speaks of: it prints no column, or that
    of the line in which macros are replaced. Without such a name, at the line's begin."""
    if message.position is None or not sources.is_cuda:
        return message
    line = sources.line_of(message)
    printed = sources.column_of(message) if message.position.column else None
    column = len(line) - len(line.lstrip()) if printed is None else printed
    if message.text.startswith("missing closing quote"):
        alone = re.search("[\"']", _QUOTED.sub(lambda pair: " " * len(pair[0]), line))
        column = column if alone is None else alone.start()
    for quoted in re.findall(r"[\"']([^\"']+)[\"']", message.text):
        name = last_name(quoted)
        found = [match.start() for match in re.finditer(rf"\b{re.escape(name)}\b", line)] if name else []
        if found and (printed is None or "undefined" in message.text):
            column = min(found, key=lambda at: abs(at - (printed or 0)))
            break
    return sources.at_column(message, column)


def as_unterminated(message: ClangMessage, sources: Sources) -> tuple[ClangMessage, SourcePlace] | None:
    """The error of a statement whose `;` is missing at the end of a line, and which is reported in the next: clang
    takes one that begins with `(` for a call, and attributes for those of a class. None for any other."""
    if message.position is None or not sources.rendered.is_at(message.path):
        return None
    number = message.position.line - 1
    line = sources.line_of(message)
    expected, called = _EXPECTED.match(message.text), _CALLED.match(message.text)
    before = line[: sources.column_of(message)]
    # clang takes the attributes of what follows for those of what ends; nvcc points to what it found instead
    of_class = message.text.startswith("expected ';' after ") and _ATTRIBUTES.fullmatch(before)
    if not of_class and not (called and line.lstrip().startswith("(") if expected is None else not before.strip()):
        return None
    before = ""
    while number > 0 and not before:
        number -= 1
        before = (sources.rendered.line(number) or "").partition("//")[0].rstrip()
    if not re.search(r"[\w)}\]\"']$", before) or before.lstrip().startswith("#"):
        return None
    place = sources.rendered.place_of(Position(number, len(before) - 1), Position(number, len(before)))
    if place is None:
        return None
    if expected is not None and expected["what"] != ";":
        return message, place
    end = ClangPosition(number + 1, byte_column(before, len(before)))
    fixit = ClangFixit(message.path, ClangRange(end, end), ";")
    text = "expected ';' at the end of this line" if called else message.text
    return replace(message, text=text, notes=(), fixits=(fixit,)), place
