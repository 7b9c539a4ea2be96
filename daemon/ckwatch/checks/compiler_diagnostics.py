"""Turns compiler messages into diagnostics at the places where the mistakes were made.

- In rendered text: the template span behind clang's range.
- In a header: the innermost place of the template backtrace that lies in the rendered text, else the `#include` line.
- In a header, about the instance (`ck_findings`): the parameter in the kernel file. One diagnostic per parameter: what
  else fails because of it, and other errors inside CK or CUTLASS, which rarely have another cause, are related
  information.
- Nowhere (driver, linker, back end): the kernel file's template or instance.

Repeats of one mistake, in one pass or in the host and device passes, become one diagnostic: the first.

Clang's text output carries no identifiers, so `code_of` gives each message a stable code: a warning has the name of its
option, frequent errors have the names in `ERROR_CODES`, the rest that of their category.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ckwatch.checks.ck_findings import CkFinding, find_ck_finding
from ckwatch.checks.ck_parameters import InstanceParameters, value_text
from ckwatch.checks.clang_output import (
    TRANSIENT_KINDS,
    ClangMessage,
    ClangPosition,
    ClangSeverity,
    MessageKind,
    position_in,
    transient_kind,
)
from ckwatch.checks.places import ReadLine, RenderedFile, SourcePlace, source_span
from ckwatch.checks.type_names import shorten
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.source_map import SourceMap
from ckwatch.model.text import Position, Span

ERROR_CODES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), slug)
    for pattern, slug in (
        (r"use of undeclared", "undeclared-identifier"),
        (r"unknown type name", "unknown-type-name"),
        (r"no (?:member|type|template) named", "no-member"),
        (r"'.*' file not found", "file-not-found"),
        (r"expected '.*'|expected ", "expected-token"),
        (r"static (?:assertion|_assert) failed|static assertion", "static-assertion"),
        (r"no matching ", "no-matching-function"),
        (r"no viable ", "no-viable-conversion"),
        (r"call to .* is ambiguous|ambiguous", "ambiguous"),
        (r"too (?:few|many) template arguments", "template-argument-count"),
        (r"template argument for", "template-argument"),
        (r"too (?:few|many) arguments", "argument-count"),
        (r"implicit instantiation of undefined template", "undefined-template"),
        (r"redefinition of", "redefinition"),
        (r"incomplete type", "incomplete-type"),
        (r"constexpr variable .* must be initialized|not (?:an integral )?constant expression", "constant-expression"),
        (r"cannot initialize|assigning to", "conversion"),
        (r"invalid operands", "invalid-operands"),
        (r"reference to (?:__host__|__device__|__global__)", "host-device"),
        (r".*exceeds limit", "resource-limit"),
        (r"undefined (?:hidden |protected )?symbol|undefined reference", "undefined-symbol"),
        (r"duplicate symbol|multiple definition", "duplicate-symbol"),
        (r"unable to find library|cannot find -l", "library-not-found"),
        (r"cannot find ROCm|cannot find HIP|cannot find CUDA", "rocm-not-found"),
        (r"unsupported option|unknown argument", "unknown-option"),
        (r"invalid target ID|unsupported (?:HIP|CUDA) gpu", "unknown-arch"),
        (r"no such file or directory", "no-such-file"),
    )
)

_CODE_PREFIXES = {
    MessageKind.LINKER: "linker",
    MessageKind.DRIVER: "driver",
    MessageKind.OUT_OF_MEMORY: "host",
    MessageKind.NO_SPACE: "host",
    MessageKind.KILLED: "host",
    MessageKind.CRASH: "host",
}


def code_of(message: ClangMessage) -> str:
    """The stable code of `message`: `clang/unused-variable`, `linker/undefined-symbol`, `host/crash`."""
    prefix = _CODE_PREFIXES.get(message.kind, "clang")
    if prefix == "host":
        return f"host/{message.kind}"
    if message.option:
        return f"{prefix}/{slug(message.option)}"
    for pattern, name in ERROR_CODES:
        if pattern.match(message.text) or (message.position is None and pattern.search(message.text)):
            return f"{prefix}/{name}"
    return f"{prefix}/{slug(message.category) or 'error'}"


def slug(text: str) -> str:
    """Lower case, words joined by hyphens."""
    return re.sub(r"[^a-z0-9+=]+", "-", text.lower()).strip("-")


RELATED_LIMIT = 40
"""Notes of one diagnostic that are kept as related information; the rest is in its detail."""

DETAIL_LIMIT = 65_536
"""Characters of `detail`."""

_SEVERITIES = {
    ClangSeverity.FATAL: Severity.ERROR,
    ClangSeverity.ERROR: Severity.ERROR,
    ClangSeverity.WARNING: Severity.WARNING,
    ClangSeverity.REMARK: Severity.INFORMATION,
    ClangSeverity.NOTE: Severity.INFORMATION,
}
_CK_HEADER = re.compile(r"/(?:ck|ck_tile|cutlass|cute)/")
_FINDING = "finding"
_SUMMARIES = ("command failed", "ld returned", "frontend command failed", "unable to execute command")
_FAULT_TEXT = {
    MessageKind.OUT_OF_MEMORY: "the compiler ran out of memory",
    MessageKind.NO_SPACE: "no space left on the device",
    MessageKind.KILLED: "the compiler was killed, most likely for want of memory",
    MessageKind.CRASH: "the compiler crashed",
}


def diagnose(
    messages: Iterable[ClangMessage],
    *,
    unit: Unit,
    source_path: str,
    source_map: SourceMap,
    read_line: ReadLine,
    header_warnings: bool = False,
) -> tuple[Diagnostic, ...]:
    """Place `messages` of one unit's passes and join the repeats, in the order of their first appearance.

    `source_path` is the rendered file as the compiler names it: an absolute path without symbolic links.
    `read_line(path, line)` gives the text of a header's line, counted from zero, or None. Warnings in headers are left
    out unless `header_warnings`.
    """
    mapper = _DiagnosticMapper(unit, RenderedFile(source_path, source_map), read_line, header_warnings)
    found: dict[tuple[object, ...], Diagnostic] = {}
    consequences: list[Diagnostic] = []
    for message in _without_summaries(messages):
        placed = mapper.diagnostic(message)
        if placed is None:
            continue
        key, diagnostic = placed
        if mapper.is_inside_ck(message) and key[0] != _FINDING:
            consequences.append(diagnostic)
        elif key in found and key[0] == _FINDING and found[key].message != diagnostic.message:
            found[key] = _with_related(found[key], "also fails: " + diagnostic.message)
        else:
            found.setdefault(key, diagnostic)
    first = next((key for key in found if key[0] == _FINDING), None)
    for diagnostic in consequences:
        if first is None:
            found.setdefault((diagnostic.code, diagnostic.message, diagnostic.span), diagnostic)
        else:
            found[first] = _with_related(found[first], "in consequence: " + diagnostic.message)
    return tuple(found.values())


def _with_related(diagnostic: Diagnostic, text: str) -> Diagnostic:
    if any(entry.message == text for entry in diagnostic.related):
        return diagnostic
    return replace(diagnostic, related=(*diagnostic.related, Related(text, None)))


def _without_summaries(messages: Iterable[ClangMessage]) -> list[ClangMessage]:
    """Drop "linker command failed" and its like where the reason is known; keep one report of a host fault."""
    everything = [message for message in messages if message.severity is not ClangSeverity.NOTE]
    reasons = [message for message in everything if message.is_error and not _is_summary(message)]
    kept = [message for message in everything if not (reasons and _is_summary(message)) and not _is_idle_flag(message)]
    fault = transient_kind(kept)
    shown = next((message for message in kept if message.kind is fault), None)
    return [message for message in kept if message.kind not in TRANSIENT_KINDS or message is shown]


def _is_idle_flag(message: ClangMessage) -> bool:
    """A flag without effect in one of the passes: they all get the same flags."""
    return message.position is None and message.option == "unused-command-line-argument"


def _is_summary(message: ClangMessage) -> bool:
    return (
        message.position is None
        and message.kind not in TRANSIENT_KINDS
        and any(text in message.text for text in _SUMMARIES)
    )


@dataclass(frozen=True, slots=True)
class _DiagnosticMapper:
    unit: Unit
    rendered: RenderedFile
    read_line: ReadLine
    header_warnings: bool

    def diagnostic(self, message: ClangMessage) -> tuple[tuple[object, ...], Diagnostic] | None:
        """The diagnostic with the key that its repeats share, None when it is not shown."""
        here = self.rendered.is_at(message.path)
        if message.path and not here and not message.is_error and not self.header_warnings:
            return None
        parameters = InstanceParameters(self.unit)
        # A template's own static_assert about parameters is the instance's mistake, as CK's are.
        if message.is_error and (not here or "static assertion failed" in message.text):
            finding = find_ck_finding(message, parameters, self.unit.arch, self.line_at)
            if finding is not None:
                return (_FINDING, finding.blamed or finding.key), self.of_finding(message, finding, parameters)
        if here:
            place = self.rendered.place(message)
            diagnostic = self.built(message, place or self.fallback(message), parameters, ())
        elif message.path:
            place = self.instantiation(message) or self.inclusion(message) or self.fallback(message)
            diagnostic = self.built(message, place, parameters, self.header_related(message))
        else:
            diagnostic = self.built(message, self.fallback(message), parameters, ())
        return (diagnostic.severity, diagnostic.code, message.text, diagnostic.span), diagnostic

    def is_inside_ck(self, message: ClangMessage) -> bool:
        """Whether `message` is an error in one of CK's or CUTLASS's own headers."""
        return (
            message.is_error and _CK_HEADER.search(message.path) is not None and not self.rendered.is_at(message.path)
        )

    def line_at(self, path: str, number: int) -> str | None:
        """A line of the rendered file or of a header."""
        return self.rendered.line(number) if self.rendered.is_at(path) else self.read_line(path, number)

    def built(
        self, message: ClangMessage, place: SourcePlace, parameters: InstanceParameters, header: tuple[Related, ...]
    ) -> Diagnostic:
        text = _FAULT_TEXT.get(message.kind) or shorten(message.text)
        return Diagnostic(
            severity=_SEVERITIES[message.severity],
            source=_source(message),
            code=code_of(message),
            message=text,
            span=place.span,
            related=_limited((*header, *self.parameter_related(place, parameters), *place.chain, *self.notes(message))),
            detail=self.detail(message, text),
            fixes=self.fixes(message),
            units=(self.unit.id,),
            unit_count=1,
            approximate=place.approximate,
        )

    def of_finding(self, message: ClangMessage, finding: CkFinding, parameters: InstanceParameters) -> Diagnostic:
        """An error about the instance, at the parameter that is to blame."""
        blamed = finding.blamed
        span = parameters.spans.get(blamed, self.unit.instance.span) if blamed else self.unit.instance.span
        related = []
        for name in dict.fromkeys([*([blamed] if blamed else []), *finding.parameters]):
            text = f"{name} = {value_text(parameters.values[name])}"
            if name != blamed and name in parameters.spans:
                related.append(Related(text, parameters.spans[name]))
            printed = self.rendered.argument_place(name)
            if printed is not None:
                related.append(Related(f"{text}, printed here", printed))
        instantiation = self.instantiation(message)
        if instantiation is not None:
            related.append(Related("instantiated here", instantiation.span))
        return Diagnostic(
            severity=Severity.ERROR,
            source=Source.CLANG,
            code=finding.code,
            message=finding.message,
            span=span,
            related=_limited((*related, *self.header_related(message), *self.notes(message))),
            detail=self.detail(message, finding.message),
            units=(self.unit.id,),
            unit_count=1,
        )

    def instantiation(self, message: ClangMessage) -> SourcePlace | None:
        """The innermost place of the backtrace in rendered text; a plain note there serves when there is no other."""
        inside = [note for note in message.notes if self.rendered.is_at(note.path)]
        context = [note for note in inside if _is_context(note)]
        return next((place for note in (*context, *inside) if (place := self.rendered.place(note))), None)

    def inclusion(self, message: ClangMessage) -> SourcePlace | None:
        """The `#include` line of the rendered text that led to the message's file."""
        for step in message.include_chain:
            if self.rendered.is_at(step.path):
                return self.rendered.place_of_line(step.line - 1)
        return None

    def fallback(self, message: ClangMessage) -> SourcePlace:
        """The kernel file: its template's line for the host's and linker's messages, else the instance."""
        about_host = message.kind in TRANSIENT_KINDS or message.kind in (MessageKind.DRIVER, MessageKind.LINKER)
        return SourcePlace(self.unit.kernel.template_span if about_host else self.unit.instance.span)

    def header_related(self, message: ClangMessage) -> tuple[Related, ...]:
        span = self.span_of(message)
        return () if span is None else (Related(shorten(message.text), span),)

    def parameter_related(self, place: SourcePlace, parameters: InstanceParameters) -> list[Related]:
        """The kernel file's places of the parameters that were printed at `place`."""
        return [
            Related(f"{name} = {value_text(parameters.values[name])} is set here", parameters.spans[name])
            for name in place.names
            if name in parameters.spans and name in parameters.values
        ]

    def notes(self, message: ClangMessage) -> list[Related]:
        return [Related(shorten(note.text), self.span_of(note)) for note in message.notes]

    def span_of(self, message: ClangMessage) -> Span | None:
        if self.rendered.is_at(message.path):
            place = self.rendered.place(message)
            return None if place is None else place.span
        return None if not message.path or message.path.startswith("<") else source_span(self.line_at, message)

    def fixes(self, message: ClangMessage) -> tuple[Fix, ...]:
        """Clang's fix-its where they lie wholly in template text; none when one of them does not."""
        fixes = []
        for fixit in message.fixits:
            if not self.rendered.is_at(fixit.path):
                return ()
            start, end = (self.position(place) for place in (fixit.range.start, fixit.range.end))
            span = self.rendered.exact_span(start, end)
            if span is None:
                return ()
            fixes.append(Fix(span, fixit.text))
        return tuple(fixes)

    def position(self, place: ClangPosition) -> Position:
        return position_in(self.rendered.line(place.line - 1), place)

    def detail(self, message: ClangMessage, text: str) -> str:
        """The compiler's own words, where `text` or a note says less."""
        if text == message.text and not message.tail and all(shorten(note.text) == note.text for note in message.notes):
            return ""
        lines = [_as_printed(message), *message.tail, *(_as_printed(note) for note in message.notes)]
        return "\n".join(lines)[:DETAIL_LIMIT]


def _is_context(note: ClangMessage) -> bool:
    return "requested here" in note.text or note.text.startswith(("in instantiation", "in evaluation", "while "))


def _source(message: ClangMessage) -> Source:
    if message.kind is MessageKind.LINKER:
        return Source.LINKER
    return Source.HOST if message.kind in TRANSIENT_KINDS or message.kind is MessageKind.DRIVER else Source.CLANG


def _limited(related: tuple[Related, ...]) -> tuple[Related, ...]:
    if len(related) <= RELATED_LIMIT:
        return related
    return (*related[:RELATED_LIMIT], Related(f"and {len(related) - RELATED_LIMIT} more notes", None))


def _as_printed(message: ClangMessage) -> str:
    place = f"{message.path}:{message.position.line}:{message.position.column}: " if message.position else ""
    return f"{place}{message.severity}: {message.text}"
