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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial

from ckwatch.checks.braces import stray_brace, unclosed_angle, unclosed_brace
from ckwatch.checks.ck_findings import CkFinding, find_ck_finding
from ckwatch.checks.ck_parameters import InstanceParameters, value_text
from ckwatch.checks.clang_output import (
    TRANSIENT_KINDS,
    ClangFixit,
    ClangMessage,
    ClangPosition,
    ClangRange,
    ClangSeverity,
    MessageKind,
    byte_column,
    position_in,
    transient_kind,
)
from ckwatch.checks.consequences import UNKNOWN_NAME, PlacedMessage, is_reason, leader_of, warning_follows
from ckwatch.checks.flag_places import blamed_flag
from ckwatch.checks.fold import but_for_values
from ckwatch.checks.linker_symbols import (
    INLINE_ASSEMBLY,
    SymbolProblem,
    assembly,
    declaration,
    demangled,
    last_name,
    symbol_of,
    uses,
)
from ckwatch.checks.places import ReadLine, RenderedFile, SourcePlace, source_span
from ckwatch.checks.reasons import explained, missing_header
from ckwatch.checks.type_names import shorten
from ckwatch.model.compiler_flags import GivenFlag
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.source_map import SourceMap
from ckwatch.model.targets import Language, language_of
from ckwatch.model.text import LineIndex, Position, Span, span
from ckwatch.workspace.toml import toml_string

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
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
_ABOUT_VALUE = re.compile(
    r"negative size|zero size|array (?:bound|size|is too large)|division by zero|out of range|too large|invalid suffix|"
    r"invalid digit|not (?:an integral )?constant|integral constant|shift count"
)
_CALLED = re.compile(r"expected '\(' for function-style cast|called object type '.*' is not a function")
_EXPECTED = re.compile(r'expected an? "(?P<what>[;)\]])"')
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"['‘]([\w:]+)['’]")
_MEANT_FLAG = re.compile(r"'(?P<flag>-[^']+)'; did you mean '(?P<meant>-[^']+)'\?")
_STRAY_BRACE = re.compile(r"extraneous closing brace|expected a declaration$")
_LAUNCH_BOUND = re.compile(
    r"'(?P<attribute>amdgpu_flat_work_group_size|amdgpu_waves_per_eu)' attribute (?:argument )?"
    r"(?:requires parameter \d+ to )?(?P<what>(?:is|be|must) .*)"
)
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*([^,()]+?|[^,]+?)\s*(?:,\s*(.*?)\s*)?\)")
_UNCLOSED_ANGLE = re.compile(r"expected (?:a )?['\"]>['\"]$")
_ASSERTION = re.compile(r"static assertion failed due to requirement '.*': (?P<text>.*\S)")
_ATTRIBUTES = re.compile(
    r"\s*(?:(?:__(?:device|host|global|shared|constant|forceinline|noinline)__|__attribute__\s*\(\(.*?\)\)|"
    r"__launch_bounds__\s*\([^()]*\)|\[\[.*?\]\])\s*)+"
)
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\([^()\n]*\))?(?P<body>(?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE
)
_COORDINATE = re.compile(r"reference to __device__ function '__get_(?P<axis>[xyz])' in (?P<where>.*)")
_UNTERMINATED = re.compile(r"unterminated|missing terminating|missing closing quote|comment unclosed")
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_UNCLOSED_BRACE = re.compile(r"expected (?:a )?['\"]\}['\"]$")
_MADE_UP_PLACE = re.compile(r"\((?P<what>lambda|(?:anonymous|unnamed) \w+) at [^()\s]+:\d+:\d+\)")
_AT_END = re.compile(r"expected a \"\}\"|unterminated|the #endif for this directive is missing|missing closing")
_ZERO = re.compile(r"(?:division|remainder|modulo) by zero|modulus by zero")
LINES_OF_STATEMENT = 100
"""How many lines of a statement are read to find what it declares."""
HEADERS_SEARCHED = 64
HEADER_LINES = 20_000
"""How many own headers are searched for a symbol, and how much of each."""
_SUMMARIES = (
    *("command failed", "ld returned", "frontend command failed", "unable to execute command", "final link failed"),
    *("use the --help option for usage information", "isn't defined", "can not be used when making a shared object"),
    "assembly aborted due to errors",
)
_FAULT_TEXT = {
    MessageKind.OUT_OF_MEMORY: "the compiler ran out of memory",
    MessageKind.NO_SPACE: "no space left on the device",
    MessageKind.KILLED: "the compiler was killed, most likely because memory ran out",
    MessageKind.CRASH: "the compiler crashed",
}


@dataclass(frozen=True, slots=True)
class CompilerInputs:
    """The inputs of a compiler besides the rendered text: the flags of `ckwatch.toml` and the kernel file with their
    places, the folders of the workspace's own headers, and the folder of the built-in templates."""

    flags: tuple[GivenFlag, ...] = ()
    folders: tuple[str, ...] = ()
    built_in: str = ""


NO_INPUTS = CompilerInputs()


class _Cause(IntEnum):
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
class _Placed:
    message: ClangMessage
    diagnostic: Diagnostic
    cause: _Cause


def diagnose(
    messages: Iterable[ClangMessage],
    *,
    unit: Unit,
    source_path: str,
    source_map: SourceMap,
    read_line: ReadLine,
    header_warnings: bool = False,
    inputs: CompilerInputs = NO_INPUTS,
) -> tuple[Diagnostic, ...]:
    """Place `messages` of one unit's passes and join the repeats, in the order of their first appearance.

    `source_path` is the rendered file as the compiler names it: an absolute path without symbolic links.
    `read_line(path, line)` gives the text of a header's line, counted from zero, or None. Warnings in headers that are
    not the workspace's own are left out unless `header_warnings`.
    """
    mapper = _DiagnosticMapper(unit, RenderedFile(source_path, source_map), read_line, header_warnings, inputs)
    found: dict[tuple[object, ...], _Placed] = {}
    for message in mapper.with_brace(_without_summaries(messages)):
        for key, placed in mapper.diagnostic(message):
            known = found.get(key)
            if known is None:
                found[key] = placed
            elif key[0] == _FINDING and known.diagnostic.message != placed.diagnostic.message:
                known.diagnostic = _with_related(known.diagnostic, f"also fails: {placed.diagnostic.message}")
    return tuple(placed.diagnostic for placed in _without_consequences(list(found.values()), mapper))


def _without_consequences(placed: list[_Placed], mapper: _DiagnosticMapper) -> list[_Placed]:
    """Errors that follow from another become its related information.

    A wrong flag explains everything; a wrong parameter what fails in text that the user has not written; of several
    such failures without a known reason the first explains the others.
    """
    placed = _with_reasons_first(placed, mapper)
    errors = [one for one in placed if one.diagnostic.severity is Severity.ERROR]
    flag = next((one for one in errors if one.cause is _Cause.FLAG), None)
    parameter = next((one for one in errors if one.cause is _Cause.PARAMETER), None)
    guessed = next((one for one in errors if one.cause is _Cause.GUESSED), None)
    elsewhere: dict[Span, _Placed] = {}
    kept: set[int] = set()
    leaders: list[tuple[_Placed, PlacedMessage]] = []
    """Every error with the one that it follows from, or itself."""
    for one in errors:
        mine = mapper.placed_message(one)
        leader = flag
        if leader is None and one.cause is _Cause.GUESSED:
            leader = parameter or guessed
        if leader is None and one.cause in (_Cause.VAGUE, _Cause.ELSEWHERE):
            leader = parameter or guessed or elsewhere.setdefault(one.diagnostic.span, one)
            leader = None if leader is one else leader
        if leader is None:
            at = leader_of(mine, [known for _, known in leaders])
            leader = None if at is None else leaders[at][0]
        leader = leader or next((known for known, _ in leaders if _is_alike(known, one)), None)
        leaders.append((leader or one, mine))
        if leader is None or leader is one:
            kept.add(id(one))
        else:
            leader.diagnostic = _with_consequence(leader.diagnostic, one.diagnostic)
    for one in placed:
        if one.diagnostic.severity is Severity.ERROR:
            continue
        mine = mapper.placed_message(one)
        leader = flag if flag is not None and flag.diagnostic.span == one.diagnostic.span else None
        follows = (known for known, told in leaders if _is_alike(known, one) or warning_follows(mine, told))
        leader = leader or next(follows, None)
        if leader is None:
            kept.add(id(one))
            leaders.append((one, mine))
        else:
            leader.diagnostic = _with_consequence(leader.diagnostic, one.diagnostic)
    return [one for one in placed if id(one) in kept]


def _with_reasons_first(placed: list[_Placed], mapper: _DiagnosticMapper) -> list[_Placed]:
    """With each warning that is the reason for errors as the error that it is, in front of these."""
    found = list(placed)
    for one in placed:
        if one.message.severity is not ClangSeverity.WARNING:
            continue
        warning = mapper.placed_message(one)
        explained = (
            other
            for other in found
            if other.diagnostic.severity is Severity.ERROR and is_reason(warning, mapper.placed_message(other))
        )
        first = next(explained, None)
        if first is not None:
            one.message = replace(one.message, severity=ClangSeverity.ERROR)
            one.diagnostic = replace(one.diagnostic, severity=Severity.ERROR)
            found = [other for other in found if other is not one]
            at = next(number for number, other in enumerate(found) if other is first)
            found.insert(at, one)
    return found


def _is_alike(known: _Placed, one: _Placed) -> bool:
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


def _with_consequence(diagnostic: Diagnostic, other: Diagnostic) -> Diagnostic:
    text = "also here" if other.message == diagnostic.message else f"in consequence: {other.message}"
    if text == "also here" and all(entry.span != other.span for entry in diagnostic.related):
        others = (*diagnostic.related, Related(text, other.span))
        return replace(diagnostic, related=others[:RELATED_LIMIT])
    if any(entry.message == text for entry in diagnostic.related) or len(diagnostic.related) >= RELATED_LIMIT:
        return diagnostic
    return replace(diagnostic, related=(*diagnostic.related, Related(text, other.span)))


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
    inputs: CompilerInputs

    def diagnostic(self, message: ClangMessage) -> list[tuple[tuple[object, ...], _Placed]]:
        """The diagnostic with the key that its repeats share, none when it is not shown."""
        message = self.in_macro(self.at_launch_bound(self.at_coordinate(message)))
        here = self.rendered.is_at(message.path)
        own = not here and self.is_own_header(message.path)
        flag = blamed_flag(message, self.inputs.flags)
        parameters = InstanceParameters(self.unit)
        if flag is not None:
            diagnostic = self.built(message, SourcePlace(flag.span), parameters, ())
            diagnostic = replace(diagnostic, fixes=_flag_fixes(message, flag))
            return [self.keyed(message, diagnostic, _Cause.FLAG)]
        if message.path and not here and not own and not message.is_error and not self.header_warnings:
            return []
        # A template's own static_assert about parameters is the instance's mistake, as CK's are.
        if message.is_error and (not here or "static assertion failed" in message.text):
            finding = find_ck_finding(message, parameters, self.unit.arch, self.line_at)
            said = _ASSERTION.match(message.text) if here or own else None
            if finding is not None and said is not None:
                place = self.rendered.place(message) if here else None
                built_in = place is not None and self.is_built_in(place.span.path)
                code = finding.code if built_in else "clang/static-assertion"
                finding = replace(finding, code=code, message=f"{said['text']} ({finding.message})")
            if finding is not None:
                placed = _Placed(message, self.of_finding(message, finding, parameters), _Cause.PARAMETER)
                return [((_FINDING, finding.blamed or finding.key), placed)]
        message, place = self.as_unterminated(message) or (self.with_column(message), self.symbol_place(message))
        related: tuple[Related, ...] = ()
        cause = _Cause.TEXT
        if place is not None:
            pass
        elif here:
            place = self.call_of(message) or self.in_argument(message, self.rendered.place(message))
        elif own:
            span = self.span_of(message)
            place = None if span is None else SourcePlace(span, self.way_to(message))
        elif message.path:
            place = self.instantiation(message)
            cause = _Cause.VAGUE if place is None else _Cause.ELSEWHERE
            place = place or self.inclusion(message)
            related = self.header_related(message)
        place = place or self.fallback(message)
        if message.is_error or _ZERO.search(message.text):
            blamed = self.blamed_parameter(message, place, parameters)
            if blamed is not None:
                named = (Related(shorten(message.text), place.span), *place.chain)
                diagnostic = self.built(message, SourcePlace(parameters.spans[blamed], named), parameters, related)
                text = f"{diagnostic.message} ({blamed} = {value_text(parameters.values[blamed])})"
                fixes = self.parameter_fixes(message, blamed, parameters)
                diagnostic = replace(diagnostic, message=text, fixes=fixes)
                cause = _Cause.GUESSED if self.is_built_in(place.span.path) else _Cause.PARAMETER
                return [((_FINDING, blamed), _Placed(message, diagnostic, cause))]
            if message.is_error and self.is_built_in(place.span.path):
                named = (
                    Related(f"{shorten(message.text)}, in the template '{self.unit.kernel.template}'", place.span),
                )
                place = SourcePlace(self.unit.instance.span, (*named, *place.chain))
                cause = _Cause.ELSEWHERE
        return [self.keyed(message, self.built(message, place, parameters, related), cause)]

    def with_brace(self, messages: list[ClangMessage]) -> list[ClangMessage]:
        """`messages` with the complaint of a brace too many or too few where this brace is, before what follows."""
        if any(_UNTERMINATED.match(one.text) for one in messages):
            return messages
        told, path, offset = next(
            (
                (at, *found)
                for at, one in enumerate(messages)
                if self.is_about_braces(one) and (found := self.wrong_brace(one)) is not None
            ),
            (None, "", 0),
        )
        if told is None:
            return messages
        text = self.text_of(path)
        at = LineIndex(text).position(offset)
        place = ClangPosition(at.line + 1, byte_column(self.line_at(path, at.line) or "", at.column))
        said = (
            "extraneous closing brace ('}')"
            if text[offset] == "}"
            else f"{messages[told].text} for this '{text[offset]}'"
        )
        moved = replace(messages[told], text=said, path=path, position=place, ranges=(), fixits=(), notes=())
        first = next(
            number
            for number, one in enumerate(messages)
            if number == told
            or (one.is_error and one.position is not None and (one.path != path or one.position >= place))
        )
        return [*messages[:first], moved, *messages[first:told], *messages[told + 1 :]]

    def in_macro(self, message: ClangMessage) -> ClangMessage:
        """The message about an unknown name in the text of a macro of the user at this name, instead of at the macro's
        use; others as they are."""
        unknown = UNKNOWN_NAME.search(message.text)
        if unknown is None:
            return message
        if language_of(self.unit.kernel.template) is Language.CU:
            return self.in_replaced_macro(message, unknown["name"])
        for note in message.notes:
            users = self.rendered.is_at(note.path) or self.is_own_header(note.path)
            if not users or note.position is None or "expanded from macro" not in note.text:
                continue
            line = self.line_of(note)
            if re.compile(rf"{re.escape(unknown['name'])}\b").match(line, position_in(line, note.position).column):
                used = replace(message, severity=ClangSeverity.NOTE, text="expanded here", notes=(), fixits=())
                notes = (used, *(other for other in message.notes if other is not note))
                return replace(message, path=note.path, position=note.position, ranges=note.ranges, notes=notes)
        return message

    def in_replaced_macro(self, message: ClangMessage, name: str) -> ClangMessage:
        """Do the work of `in_macro` for nvcc, which prints lines with their macros replaced: find the macro of the line
        that has the missing name."""
        line = self.line_of(message)
        if re.search(rf"\b{re.escape(name)}\b", line):
            return message
        for path, text in ((self.rendered.path, self.rendered.source_map.text), *self.own_headers()):
            for macro in _MACRO.finditer(text):
                found = re.compile(rf"\b{re.escape(name)}\b").search(text, macro.start("body"), macro.end("body"))
                if found is not None and re.search(rf"\b{macro['name']}\b", line):
                    at = LineIndex(text).position(found.start())
                    column = byte_column(self.line_at(path, at.line) or "", at.column)
                    used = replace(message, severity=ClangSeverity.NOTE, text="expanded here", notes=(), fixits=())
                    place = ClangPosition(at.line + 1, column)
                    return replace(message, path=path, position=place, ranges=(), notes=(used, *message.notes))
        return message

    def at_coordinate(self, message: ClangMessage) -> ClangMessage:
        """The message about the function that `threadIdx.x` stands for as one about `threadIdx.x`."""
        about = _COORDINATE.match(message.text)
        if about is None or message.position is None:
            return message
        line = self.line_of(message)
        column = position_in(line, message.position).column
        written = re.search(r"\w+\.$", line[:column])
        if written is None or not line.startswith(about["axis"], column):
            return message
        place = ClangPosition(message.position.line, byte_column(line, written.start()))
        text = f"reference to __device__ variable '{written[0].strip()}{about['axis']}' in {about['where']}"
        return replace(message, text=text, position=place, ranges=())

    def at_launch_bound(self, message: ClangMessage) -> ClangMessage:
        """The message about an attribute that `__launch_bounds__` stands for as one about its argument."""
        about = _LAUNCH_BOUND.match(message.text)
        if (
            about is None
            or message.position is None
            or not any("__launch_bounds__" in one.text for one in message.notes)
        ):
            return message
        number = ("amdgpu_flat_work_group_size", "amdgpu_waves_per_eu").index(about["attribute"])
        line = self.line_of(message)
        argument = _BOUNDS.match(line, position_in(line, message.position).column)
        text = (
            f"the {('first', 'second')[number]} argument of __launch_bounds__ {re.sub('^be', 'must be', about['what'])}"
        )
        if argument is None or argument[number + 1] is None:
            return replace(message, text=text)
        column = byte_column(line, argument.start(number + 1))
        return replace(message, text=text, position=ClangPosition(message.position.line, column), ranges=())

    def is_about_braces(self, message: ClangMessage) -> bool:
        """Return True if a compiler reports a brace too many, a missing `>`, or, at the end of the text, a missing
        brace."""
        if _STRAY_BRACE.match(message.text):
            return self.rendered.is_at(message.path) or self.is_own_header(message.path)
        if _UNCLOSED_ANGLE.match(message.text):
            return self.rendered.is_at(message.path) and message.position is not None
        if not _UNCLOSED_BRACE.match(message.text):
            return False
        if message.position is None:
            return True
        behind = self.rendered.lines[message.position.line - 1 :]
        return self.rendered.is_at(message.path) and not any(line.strip() for line in behind[1:])

    def wrong_brace(self, message: ClangMessage) -> tuple[str, int] | None:
        """The file of the brace that a message complains of, and its offset; None when nothing tells which it is."""
        path = message.path or self.rendered.path
        if _STRAY_BRACE.match(message.text):
            offset = stray_brace(self.text_of(path))
            return None if offset is None else (path, offset)
        if _UNCLOSED_ANGLE.match(message.text) and message.position is not None:
            end = position_in(self.line_of(message), message.position)
            offset = unclosed_angle(self.text_of(path), self.rendered.source_map.lines.offset(end))
            return None if offset is None else (path, offset)
        texts = [(self.rendered.path, self.rendered.source_map.text), *self.own_headers()]
        found = ((one, unclosed_brace(text)) for one, text in texts)
        return next(((one, offset) for one, offset in found if offset is not None), None)

    def with_column(self, message: ClangMessage) -> ClangMessage:
        """A message of nvcc at the name, or the open quote, in its line that it speaks of: it prints no column, or that
        of the line in which macros are replaced. Without such a name, at the line's begin."""
        if message.position is None or language_of(self.unit.kernel.template) is not Language.CU:
            return message
        line = self.line_of(message)
        printed = position_in(line, message.position).column if message.position.column else None
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
        return replace(message, position=ClangPosition(message.position.line, byte_column(line, column)))

    def call_of(self, message: ClangMessage) -> SourcePlace | None:
        """The macro call that printed a template argument of the wrong kind: it stands in the wrong position."""
        if message.position is None or not message.text.startswith("template argument for "):
            return None
        return self.rendered.call_of(message.position)

    def in_argument(self, message: ClangMessage, place: SourcePlace | None) -> SourcePlace | None:
        """`place`, or where the wrong text that a macro of the template prints there stands in its call."""
        if place is None or not place.calls:
            return place
        unknown = UNKNOWN_NAME.search(message.text)
        for call in place.calls:
            for words in (unknown and unknown["name"], self.rendered.printed_at(message)):
                found = None if not words else self.written_in(call, words)
                if found is not None:
                    return replace(place, span=found, chain=(Related("printed here", place.span), *place.chain))
        return place

    def written_in(self, call: Span, words: str) -> Span | None:
        """The only place in a call at which `words` stand in quotes as they were printed; None where there is none."""
        found = []
        for number in range(call.start.line, call.end.line + 1):
            line = self.read_line(call.path, number) or ""
            first = call.start.column if number == call.start.line else 0
            last = call.end.column if number == call.end.line else len(line)
            for string in _QUOTED.finditer(line, first, last):
                found += [
                    span(call.path, number, at.start(), number, at.end())
                    for at in re.compile(rf"(?<!\w){re.escape(words)}(?!\w)").finditer(
                        line, string.start(), string.end()
                    )
                ]
        return found[0] if len(found) == 1 else None

    def placed_message(self, one: _Placed) -> PlacedMessage:
        """Return the parts of a message that `consequences` compares; one in a foreign header is placed where the
        user's code led to it."""
        message = one.message
        vague = one.cause is _Cause.VAGUE
        foreign = bool(message.path) and not self.rendered.is_at(message.path) and not self.is_own_header(message.path)
        if one.cause in (_Cause.VAGUE, _Cause.ELSEWHERE):
            led = (note for note in message.notes if _is_context(note) and self.rendered.is_at(note.path))
            user = next(led, message)
            message = replace(message, path=user.path, position=user.position)
        line = self.line_of(message)
        above: list[str] = []
        number = message.position.line - 2 if message.position is not None else -1
        while number >= 0 and len(above) < LINES_OF_STATEMENT:
            text = (self.line_at(message.path, number) or "").partition("//")[0].rstrip()
            if not text or text[-1] in ";{}:" or text.lstrip().startswith("#"):
                break
            above.insert(0, text)
            number -= 1
        return PlacedMessage(message, line, "\n".join([*above, line]), vague, foreign)

    def as_unterminated(self, message: ClangMessage) -> tuple[ClangMessage, SourcePlace] | None:
        """The error of a statement whose `;` is missing at the end of a line, and which is reported in the next: clang
        takes one that begins with `(` for a call, and attributes for those of a class. None for any other."""
        if message.position is None or not self.rendered.is_at(message.path):
            return None
        number = message.position.line - 1
        line = self.rendered.line(number) or ""
        expected = _EXPECTED.match(message.text)
        column = position_in(line, message.position).column
        if message.text.startswith("expected ';' after ") and _ATTRIBUTES.fullmatch(line, 0, column):
            pass  # clang takes the attributes of what follows for those of what ends
        elif expected is not None:  # nvcc's front end points to what it found instead
            if line[:column].strip():
                return None
        elif not _CALLED.match(message.text) or not line.lstrip().startswith("("):
            return None
        before = ""
        while number > 0 and not before:
            number -= 1
            before = (self.rendered.line(number) or "").partition("//")[0].rstrip()
        if not re.search(r"[\w)}\]\"']$", before) or before.lstrip().startswith("#"):
            return None
        place = self.rendered.place_of(Position(number, len(before) - 1), Position(number, len(before)))
        if place is None:
            return None
        end = ClangPosition(number + 1, byte_column(before, len(before)))
        if expected is not None and expected["what"] != ";":
            return message, place
        fixit = ClangFixit(message.path, ClangRange(end, end), ";")
        text = "expected ';' at the end of this line" if _CALLED.match(message.text) else message.text
        return replace(message, text=text, notes=(), fixits=(fixit,)), place

    def keyed(self, message: ClangMessage, diagnostic: Diagnostic, cause: _Cause) -> tuple[tuple[object, ...], _Placed]:
        """With the key that repeats share: those of other passes and instantiations."""
        symbol = symbol_of(message) if message.position is None else None
        about = symbol.spelled if symbol is not None else message.text
        return (diagnostic.severity, diagnostic.code, about, diagnostic.span), _Placed(message, diagnostic, cause)

    def is_built_in(self, path: str) -> bool:
        """Return True if a file is one of the built-in templates."""
        return bool(self.inputs.built_in) and path.startswith(f"{self.inputs.built_in}/")

    def is_own_header(self, path: str) -> bool:
        """Return True if a header is one of the workspace's own; a copy of CK in it is not."""
        below = any(path.startswith(f"{folder}/") for folder in self.inputs.folders)
        return below and not _CK_HEADER.search(path) and not self.is_built_in(path)

    def blamed_parameter(self, message: ClangMessage, place: SourcePlace, parameters: InstanceParameters) -> str | None:
        """The parameter of the kernel file that is the reason for an error at `place`.

        In a built-in template, which is right, it is whatever was printed there or what the line speaks of. In others
        the error must lie inside of what a parameter printed, and be about its value.
        """
        known = [name for name in place.names if name in parameters.spans and name in parameters.values]
        if self.is_built_in(place.span.path):
            line = self.line_of(message) if self.rendered.is_at(message.path) else ""
            known += [
                own
                for word in re.findall(r"[A-Za-z_]\w*", line)
                if (own := parameters.same_as(word)) is not None and own in parameters.spans
            ]
            return known[0] if known else None
        for zero in (message, *message.notes):
            if _ZERO.search(zero.text) and zero.position is not None and self.rendered.is_at(zero.path):
                names = self.rendered.zero_at(zero.position)
                blamed = next((name for name in names if name in parameters.spans), None)
                if blamed is not None:
                    return blamed
        printed = self.rendered.printed_at(message)
        if printed is None:
            return None
        for name in known:
            value = value_text(parameters.values[name])
            words = [word for word in re.findall(r"[A-Za-z_]\w*", value) if re.search(rf"'{word}[<']", message.text)]
            if value == printed and (words or _ABOUT_VALUE.search(message.text)):
                return name
        return None

    def way_to(self, message: ClangMessage) -> tuple[Related, ...]:
        """The `#include` lines that lead to an own header, the innermost first."""
        found = []
        for step in reversed(message.include_chain):
            if self.rendered.is_at(step.path):
                place = self.rendered.place_of_line(step.line - 1)
                if place is not None:
                    found.append(Related("included here", place.span))
            elif not step.path.startswith("<"):
                line = self.read_line(step.path, step.line - 1) or ""
                found.append(Related("included here", span(step.path, step.line - 1, 0, step.line - 1, len(line))))
        return tuple(found)

    def symbol_place(self, message: ClangMessage) -> SourcePlace | None:
        """Return the place where the symbol that a linker or assembler names is used, or the kernel defined; None for
        other messages."""
        in_assembly = message.path == INLINE_ASSEMBLY
        if (message.position is not None and not in_assembly) or message.kind in TRANSIENT_KINDS:
            return None
        if _AT_END.match(message.text) and message.kind is MessageKind.COMPILER:
            end = len(self.rendered.source_map.text.rstrip())
            return self.rendered.place_at(max(end - 1, 0), end)
        symbol = symbol_of(message)
        if symbol is None:
            of_assembler = in_assembly or message.tool == "ptxas" or message.kind is MessageKind.BACKEND
            string = assembly(self.rendered.source_map.text, message) if of_assembler else None
            return None if string is None else self.rendered.place_at(string.start, string.end)
        declared: tuple[Related, ...] = ()
        text = self.rendered.source_map.text
        if symbol.problem is SymbolProblem.UNDEFINED and (one := declaration(text, symbol)) is not None:
            place = self.rendered.place_at(one.start, one.end)
            declared = () if place is None else (Related("declared here, and defined nowhere", place.span),)
        found = uses(text, symbol)
        if not found or (symbol.problem is SymbolProblem.UNDEFINED and not found[0].function):
            for path, header in self.own_headers():
                inside = [one for one in uses(header, symbol) if one.function or one.of_type or one.defines]
                if inside:
                    lines = LineIndex(header)
                    at = Span(path, lines.position(inside[0].start), lines.position(inside[0].end))
                    return SourcePlace(at, declared)
        if not found:
            return None
        place = self.rendered.place_at(found[0].start, found[0].end)
        return None if place is None else replace(place, chain=(*declared, *place.chain))

    def own_headers(self) -> Iterator[tuple[str, str]]:
        """The own headers that the rendered text includes, and what these include, with their texts."""
        seen: set[str] = set()
        pending = [("", self.rendered.source_map.text)]
        while pending and len(seen) < HEADERS_SEARCHED:
            path, text = pending.pop(0)
            beside = [path.rpartition("/")[0]] if path else []
            for name in _INCLUDE.findall(text):
                candidates = (f"{folder}/{name}" for folder in (*beside, *self.inputs.folders))
                header = next((one for one in candidates if self.read_line(one, 0) is not None), None)
                if header is not None and header not in seen:
                    seen.add(header)
                    content = self.text_of(header)
                    pending.append((header, content))
                    yield header, content

    def text_of(self, path: str) -> str:
        """The text of the rendered file or of a header."""
        if self.rendered.is_at(path):
            return self.rendered.source_map.text
        lines: list[str] = []
        while len(lines) < HEADER_LINES and (line := self.read_line(path, len(lines))) is not None:
            lines.append(line)
        return "\n".join(lines)

    def line_of(self, message: ClangMessage) -> str:
        """The line at which a message stands, "" when it has no place."""
        if message.position is None:
            return ""
        return self.line_at(message.path, message.position.line - 1) or ""

    def line_at(self, path: str, number: int) -> str | None:
        """A line of the rendered file or of a header."""
        return self.rendered.line(number) if self.rendered.is_at(path) else self.read_line(path, number)

    def built(
        self, message: ClangMessage, place: SourcePlace, parameters: InstanceParameters, header: tuple[Related, ...]
    ) -> Diagnostic:
        text = _FAULT_TEXT.get(message.kind) or shorten(demangled(self.worded(message)))
        source, code = _source(message), code_of(message)
        if source is Source.CLANG and language_of(self.unit.kernel.template) is Language.CU:
            source, code = Source.NVCC, code.replace("clang/", "nvcc/")
        return Diagnostic(
            severity=_SEVERITIES[message.severity],
            source=source,
            code=code,
            message=text,
            span=place.span,
            related=_limited((*header, *self.parameter_related(place, parameters), *place.chain, *self.notes(message))),
            detail=self.detail(message, text),
            fixes=self.fixes(message),
            units=(self.unit.id,),
            unit_count=1,
            approximate=place.approximate,
        )

    def worded(self, message: ClangMessage) -> str:
        """The message with its reason, and without places in the rendered text, which nobody knows."""
        return _MADE_UP_PLACE.sub(r"(\g<what>)", explained(message, self.rendered.source_map.text))

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
        inside = [note for note in message.notes if self.rendered.is_at(note.path) or self.is_own_header(note.path)]
        context = [note for note in inside if _is_context(note)]
        for note in (*context, *inside):
            span = self.span_of(note)
            place = self.rendered.place(note) or (None if span is None else SourcePlace(span))
            if place is not None:
                return place
        return None

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
        """Clang's fix-its where they lie wholly in text of the user: of templates, exactly, and of own headers. None
        when one of them does not."""
        fixes = []
        if missing_header(message.text, self.rendered.source_map.text) is not None:
            return ()
        for fixit in message.fixits or self.meant(message):
            start, end = self.extent_of(fixit)
            if self.rendered.is_at(fixit.path):
                span = self.rendered.exact_span(start, end)
            else:
                span = Span(fixit.path, start, end) if self.is_own_header(fixit.path) else None
            if span is None or self.is_built_in(span.path):
                return ()
            fixes.append(Fix(span, fixit.text))
        return tuple(fixes)

    def parameter_fixes(self, message: ClangMessage, name: str, parameters: InstanceParameters) -> tuple[Fix, ...]:
        """Clang's fix-it where it replaces just what a parameter printed."""
        value, span = parameters.values[name], parameters.spans[name]
        if len(message.fixits) != 1 or not isinstance(value, str) or not self.rendered.is_at(message.fixits[0].path):
            return ()
        start, end = map(self.rendered.source_map.lines.offset, self.extent_of(message.fixits[0]))
        printed = self.rendered.source_map.text[start:end] == value
        return (Fix(span, toml_string(message.fixits[0].text)),) if printed else ()

    def meant(self, message: ClangMessage) -> tuple[ClangFixit, ...]:
        """The fix-it of a "did you mean" that comes without one, as gcc's do, and clang's within C macros."""
        wrong, said, meant = message.text.partition("; did you mean ")
        new = _NAME.match(meant)
        if not said or new is None:
            return ()
        for one in (message, *(note for note in message.notes if "expanded from macro" in note.text)):
            line = None if one.position is None else self.line_at(one.path, one.position.line - 1)
            if line is None or one.position is None:
                continue
            old = _WORD.match(line, position_in(line, one.position).column)
            if old is not None and old[0] in _NAME.findall(wrong):
                end = ClangPosition(one.position.line, byte_column(line, old.end()))
                return (ClangFixit(one.path, ClangRange(one.position, end), new[1]),)
        return ()

    def extent_of(self, fixit: ClangFixit) -> tuple[Position, Position]:
        """Return the range that a fix-it replaces, in the file that it names."""
        start, end = fixit.range.start, fixit.range.end
        line_at = partial(self.line_at, fixit.path)
        return position_in(line_at(start.line - 1), start), position_in(line_at(end.line - 1), end)

    def detail(self, message: ClangMessage, text: str) -> str:
        """The compiler's own words, where `text` or a note says less."""
        whole = text.startswith(message.text) and all(shorten(note.text) == note.text for note in message.notes)
        if whole and not message.tail:
            return ""
        lines = [_as_printed(message), *message.tail, *(_as_printed(note) for note in message.notes)]
        return "\n".join(lines)[:DETAIL_LIMIT]


def _flag_fixes(message: ClangMessage, flag: GivenFlag) -> tuple[Fix, ...]:
    """The flag that a driver believes is meant, for which it has no fix-it."""
    meant = _MEANT_FLAG.search(message.text)
    return (Fix(flag.span, toml_string(meant["meant"])),) if meant is not None and meant["flag"] == flag.text else ()


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
