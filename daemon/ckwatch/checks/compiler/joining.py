"""Keeps the diagnostics of mistakes: those that only follow from another become its related information.

A wrong flag explains everything; a wrong parameter what fails in text that the user has not written; of several such
failures without a known reason the first explains the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum

from ckwatch.checks.clang_output import ClangMessage, ClangSeverity
from ckwatch.checks.compiler.consequences import PlacedMessage, is_reason, leader_of, warning_follows
from ckwatch.checks.compiler.locate import is_context
from ckwatch.checks.compiler.sources import Sources
from ckwatch.checks.fold import but_for_values, in_one_line
from ckwatch.model.diagnostics import Diagnostic, Related, Severity
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span

RELATED_LIMIT = 40
"""Notes of one diagnostic that are kept as related information; the rest is in its detail."""

INSTANCE = "instance"

LINES_OF_STATEMENT = 100
"""How many lines of a statement are read to find what it declares."""


class ErrorCause(IntEnum):
    """The cause of an error, the most telling last."""

    VAGUE = 0
    """In a header that the user has not written, and nothing tells which line of theirs led there."""
    ELSEWHERE = 1
    """In a header or template that the user has not written, and nothing tells why."""
    TEXT = 2
    GUESSED = 3
    """In a built-in template, at a parameter that stands in the line."""
    PARAMETER = 4
    FLAG = 5


@dataclass(slots=True)
class Placed:
    """A message and what is shown of it. `key` is that of its repeats: in other passes and instantiations; with
    `INSTANCE` first, it is one about a parameter."""

    key: tuple[object, ...]
    message: ClangMessage
    diagnostic: Diagnostic
    cause: ErrorCause

    @property
    def is_error(self) -> bool:
        """True where it is shown as an error."""
        return self.diagnostic.severity is Severity.ERROR

    def add(self, text: str, span: Span | None) -> None:
        """Add related information, unless it is there or there is enough of it."""
        related = self.diagnostic.related
        same = (one for one in related if one.message == text and (text != "also here" or one.span == span))
        if next(same, None) is None and len(related) < RELATED_LIMIT:
            self.diagnostic = replace(self.diagnostic, related=(*related, Related(text, span)))

    def add_consequence(self, other: Diagnostic) -> None:
        """Add a diagnostic that only follows from this one."""
        same = other.message == self.diagnostic.message
        if same and other.span == self.diagnostic.span:
            return
        self.add("also here" if same else f"in consequence: {in_one_line(other.message)}", other.span)


def without_repeats(placed: Iterable[Placed]) -> list[Placed]:
    """The first of each mistake; of one about the instance with what else fails because of it."""
    found: dict[tuple[object, ...], Placed] = {}
    for one in placed:
        known = found.setdefault(one.key, one)
        if one.key[0] == INSTANCE and known.diagnostic.message != one.diagnostic.message:
            known.add(f"also fails: {one.diagnostic.message.rpartition(chr(10))[2]}", None)
    return list(found.values())


def without_consequences(placed: list[Placed], sources: Sources) -> list[Placed]:
    """The diagnostics that follow from no other, with those that do as their related information."""
    placed = _with_reasons_first(placed, sources)
    errors = [one for one in placed if one.is_error]
    flag, parameter, guessed = (
        next((one for one in errors if one.cause is cause), None)
        for cause in (ErrorCause.FLAG, ErrorCause.PARAMETER, ErrorCause.GUESSED)
    )
    elsewhere: dict[Span, Placed] = {}
    leaders: list[tuple[Placed, PlacedMessage]] = []
    """Every diagnostic that may have consequences with the one that it follows from, or itself."""
    kept: set[int] = set()

    def leader_of_error(one: Placed, mine: PlacedMessage) -> Placed | None:
        if flag is not None:
            return flag
        if one.cause is ErrorCause.GUESSED:
            return parameter or guessed
        if one.cause <= ErrorCause.ELSEWHERE:
            known = parameter or guessed or elsewhere.setdefault(one.diagnostic.span, one)
            if known is not one:
                return known
        at = leader_of(mine, [shown for _, shown in leaders])
        return None if at is None else leaders[at][0]

    def leader_of_warning(one: Placed, mine: PlacedMessage) -> Placed | None:
        if flag is not None and flag.diagnostic.span == one.diagnostic.span:
            return flag
        follows = (known for known, shown in leaders if _is_alike(known, one) or warning_follows(mine, shown))
        return next(follows, None)

    for one in sorted(placed, key=lambda one: not one.is_error):
        mine = _shown(one, sources)
        leader = leader_of_error(one, mine) if one.is_error else leader_of_warning(one, mine)
        leader = leader or next((known for known, _ in leaders if _is_alike(known, one)), None) or one
        if one.is_error or leader is one:
            leaders.append((leader, mine))
        if leader is one:
            kept.add(id(one))
        else:
            leader.add_consequence(one.diagnostic)
    return [one for one in placed if id(one) in kept]


def _with_reasons_first(placed: list[Placed], sources: Sources) -> list[Placed]:
    """With each warning that is the reason for errors as the error that it is, in front of these."""
    found = list(placed)
    for one in placed:
        if one.message.severity is not ClangSeverity.WARNING:
            continue
        warning = _shown(one, sources)
        errors = (other for other in found if other.is_error and is_reason(warning, _shown(other, sources)))
        first = next(errors, None)
        if first is not None:
            one.message = replace(one.message, severity=ClangSeverity.ERROR)
            one.diagnostic = replace(one.diagnostic, severity=Severity.ERROR)
            found = [other for other in found if other is not one]
            found.insert(next(at for at, other in enumerate(found) if other is first), one)
    return found


def _is_alike(known: Placed, one: Placed) -> bool:
    """Return True if both report the same at one place, apart from the types and numbers of a loop's round or an
    instantiation."""
    mine, other = one.diagnostic, known.diagnostic
    if one.message.tool == known.message.tool == "ptxas" and mine.span == other.span and one.message.is_error:
        return True
    return (
        (mine.span, mine.severity, mine.code) == (other.span, other.severity, other.code)
        and not mine.code.startswith("host/")
        and but_for_values(mine.message) == but_for_values(other.message)
    )


def _shown(one: Placed, sources: Sources) -> PlacedMessage:
    """Return the parts of a message that `consequences` compares; one in a foreign header is placed where the
    user's code led to it."""
    message = one.message
    foreign = bool(message.path) and not sources.is_users(message.path)
    if one.cause <= ErrorCause.ELSEWHERE:
        led = (note for note in message.notes if is_context(note) and sources.rendered.is_at(note.path))
        user = next(led, message)
        message = replace(message, path=user.path, position=user.position)
    line = sources.line_of(message)
    statement = [line]
    number = message.position.line - 2 if message.position is not None else -1
    while number >= 0 and len(statement) <= LINES_OF_STATEMENT:
        text = (sources.line_at(message.path, number) or "").partition("//")[0].rstrip()
        if not text or text[-1] in ";{}:" or text.lstrip().startswith("#"):
            break
        statement.insert(0, text)
        number -= 1
    return PlacedMessage(message, line, "\n".join(statement), one.cause is ErrorCause.VAGUE, foreign)
