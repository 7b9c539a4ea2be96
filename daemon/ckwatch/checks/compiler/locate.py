"""Finds the place of a message in the user's files, and the parameter that is to blame for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ckwatch.checks.ck_parameters import InstanceParameters
from ckwatch.checks.clang_output import TRANSIENT_KINDS, ClangMessage, Inclusion, MessageKind
from ckwatch.checks.compiler.consequences import UNKNOWN_NAME
from ckwatch.checks.compiler.sources import Sources
from ckwatch.checks.parameter_values import value_words
from ckwatch.checks.places import SourcePlace
from ckwatch.model.diagnostics import Related
from ckwatch.model.text import Span, span

_ABOUT_VALUE = re.compile(
    r"negative size|zero size|array (?:bound|size|is too large)|division by zero|out of range|too large|invalid suffix|"
    r"invalid digit|not (?:an integral )?constant|integral constant|shift count"
)
ZERO = re.compile(r"(?:division|remainder|modulo) by zero|modulus by zero")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def is_context(note: ClangMessage) -> bool:
    """Return True for a note of the template backtrace."""
    return "requested here" in note.text or note.text.startswith(("in instantiation", "in evaluation", "while "))


def place_in_text(message: ClangMessage, sources: Sources) -> SourcePlace | None:
    """The place of a message in the rendered file: a wrong template argument is at the macro call that printed it, for
    it stands in the wrong position; what a macro's argument printed is at that argument."""
    if message.position is not None and message.text.startswith("template argument for "):
        called = sources.rendered.call_of(message.position)
        if called is not None:
            return called
    place = sources.rendered.place(message)
    if place is None or not place.calls:
        return place
    unknown = UNKNOWN_NAME.search(message.text)
    for call in place.calls:
        for words in (unknown and unknown["name"], sources.rendered.printed_at(message)):
            found = _written_in(call, words, sources) if words else None
            if found is not None:
                return replace(place, span=found, chain=(Related("printed here", place.span), *place.chain))
    return place


def _written_in(call: Span, words: str, sources: Sources) -> Span | None:
    """The only place in a call at which `words` stand in quotes as they were printed; None where there is none."""
    found = []
    printed = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
    for number in range(call.start.line, call.end.line + 1):
        line = sources.read_line(call.path, number) or ""
        first = call.start.column if number == call.start.line else 0
        last = call.end.column if number == call.end.line else len(line)
        for string in _QUOTED.finditer(line, first, last):
            places = printed.finditer(line, string.start(), string.end())
            found += [span(call.path, number, at.start(), number, at.end()) for at in places]
    return found[0] if len(found) == 1 else None


def place_in_own_header(message: ClangMessage, sources: Sources) -> SourcePlace | None:
    """The place of a message in a header of the workspace, with the `#include` lines that lead there, the innermost
    first."""
    found = sources.span_of(message)
    return None if found is None else SourcePlace(found, way_of(message.include_chain, sources))


def way_of(chain: Sequence[Inclusion], sources: Sources) -> tuple[Related, ...]:
    """The `#include` lines of a chain whose outermost is first, the innermost first."""
    way = []
    for step in reversed(chain):
        if sources.rendered.is_at(step.path):
            place = sources.rendered.place_of_line(step.line - 1)
            way += [Related("included here", place.span)] if place is not None else []
        elif not step.path.startswith("<"):
            line = sources.read_line(step.path, step.line - 1) or ""
            way.append(Related("included here", span(step.path, step.line - 1, 0, step.line - 1, len(line))))
    return tuple(way)


def instantiation(message: ClangMessage, sources: Sources) -> SourcePlace | None:
    """The innermost place of the backtrace in the user's text; a plain note there serves when there is no other."""
    inside = [note for note in message.notes if sources.is_users(note.path)]
    for note in sorted(inside, key=lambda note: not is_context(note)):
        found = sources.span_of(note)
        place = sources.rendered.place(note) or (None if found is None else SourcePlace(found))
        if place is not None:
            return place
    return None


def inclusion(message: ClangMessage, sources: Sources) -> SourcePlace | None:
    """The `#include` line of the rendered text that led to the message's file."""
    lines = [step.line for step in message.include_chain if sources.rendered.is_at(step.path)]
    return sources.rendered.place_of_line(lines[0] - 1) if lines else None


def kernel_file_place(message: ClangMessage, sources: Sources) -> SourcePlace:
    """The kernel file: its template's line for the host's and linker's messages, else the instance."""
    about_host = message.kind in (*TRANSIENT_KINDS, MessageKind.DRIVER, MessageKind.LINKER)
    return SourcePlace(sources.unit.kernel.template_span if about_host else sources.unit.instance.span)


def blamed_parameter(
    message: ClangMessage, place: SourcePlace, parameters: InstanceParameters, sources: Sources
) -> str | None:
    """The parameter of the kernel file that is the reason for an error at `place`.

    In a built-in template, which is right, it is whatever was printed there or what the line speaks of. In others
    the error must lie inside of what a parameter printed, and be about its value.
    """
    rendered = sources.rendered
    known = [name for name in place.names if name in parameters.spans and name in parameters.values]
    if sources.is_built_in(place.span.path):
        line = sources.line_of(message) if rendered.is_at(message.path) else ""
        meant = (parameters.same_as(word) for word in re.findall(r"[A-Za-z_]\w*", line))
        return next((name for name in (*known, *meant) if name is not None and name in parameters.spans), None)
    for zero in (message, *message.notes):
        if ZERO.search(zero.text) and zero.position is not None and rendered.is_at(zero.path):
            blamed = next((name for name in rendered.zero_at(zero.position) if name in parameters.spans), None)
            if blamed is not None:
                return blamed
    printed = rendered.printed_at(message)
    for name in known if printed is not None else ():
        value = value_words(parameters.values[name])
        words = [word for word in re.findall(r"[A-Za-z_]\w*", value) if re.search(rf"'{word}[<']", message.text)]
        if value == printed and (words or _ABOUT_VALUE.search(message.text)):
            return name
    return None
