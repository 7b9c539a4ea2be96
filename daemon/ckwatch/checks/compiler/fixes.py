"""The fixes that compilers offer, where they lie in text that the user has written."""

from __future__ import annotations

import re
from functools import partial

from ckwatch.checks.ck_parameters import InstanceParameters
from ckwatch.checks.clang_output import ClangFixit, ClangMessage, ClangPosition, ClangRange, byte_column, position_in
from ckwatch.checks.compiler.sources import Sources
from ckwatch.checks.reasons import missing_header
from ckwatch.model.compiler_flags import GivenFlag
from ckwatch.model.diagnostics import Fix
from ckwatch.model.text import Position, Span
from ckwatch.workspace.toml import toml_string

_WORD = re.compile(r"\w+")
_NAME = re.compile(r"['‘]([\w:]+)['’]")
_MEANT_FLAG = re.compile(r"'(?P<flag>-[^']+)'; did you mean '(?P<meant>-[^']+)'\?")


def text_fixes(message: ClangMessage, sources: Sources) -> tuple[Fix, ...]:
    """Clang's fix-its where they lie wholly in text of the user: of templates, exactly, and of own headers. None
    when one of them does not."""
    fixes: list[Fix] = []
    if missing_header(message.text, sources.rendered.source_map.text) is not None:
        return ()
    for fixit in message.fixits or _meant(message, sources):
        start, end = _extent(fixit, sources)
        if sources.rendered.is_at(fixit.path):
            span = sources.rendered.exact_span(start, end)
        else:
            span = Span(fixit.path, start, end) if sources.is_own_header(fixit.path) else None
        if span is None or sources.is_built_in(span.path):
            return ()
        fixes.append(Fix(span, fixit.text))
    return tuple(fixes)


def parameter_fixes(
    message: ClangMessage, name: str, parameters: InstanceParameters, sources: Sources
) -> tuple[Fix, ...]:
    """Clang's fix-it where it replaces just what a parameter printed."""
    value, span = parameters.values[name], parameters.spans[name]
    if len(message.fixits) != 1 or not isinstance(value, str) or not sources.rendered.is_at(message.fixits[0].path):
        return ()
    map_ = sources.rendered.source_map
    start, end = map(map_.lines.offset, _extent(message.fixits[0], sources))
    return (Fix(span, toml_string(message.fixits[0].text)),) if map_.text[start:end] == value else ()


def flag_fixes(message: ClangMessage, flag: GivenFlag) -> tuple[Fix, ...]:
    """The flag that a driver believes is meant, for which it has no fix-it."""
    meant = _MEANT_FLAG.search(message.text)
    return (Fix(flag.span, toml_string(meant["meant"])),) if meant is not None and meant["flag"] == flag.text else ()


def _meant(message: ClangMessage, sources: Sources) -> tuple[ClangFixit, ...]:
    """The fix-it of a "did you mean" that comes without one, as gcc's do, and clang's within C macros."""
    wrong, separator, meant = message.text.partition("; did you mean ")
    new = _NAME.match(meant)
    if not separator or new is None:
        return ()
    for one in (message, *(note for note in message.notes if "expanded from macro" in note.text)):
        line = sources.line_of(one)
        old = _WORD.match(line, sources.column_of(one))
        if one.position is not None and old is not None and old[0] in _NAME.findall(wrong):
            end = ClangPosition(one.position.line, byte_column(line, old.end()))
            return (ClangFixit(one.path, ClangRange(one.position, end), new[1]),)
    return ()


def _extent(fixit: ClangFixit, sources: Sources) -> tuple[Position, Position]:
    """Return the range that a fix-it replaces, in the file that it names."""
    line_at = partial(sources.line_at, fixit.path)
    start, end = (position_in(line_at(at.line - 1), at) for at in (fixit.range.start, fixit.range.end))
    return start, end
