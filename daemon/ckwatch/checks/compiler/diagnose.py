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

import posixpath
import re
from collections.abc import Iterable
from dataclasses import replace

from ckwatch.checks.ck_findings import CkFinding, find_ck_finding
from ckwatch.checks.ck_parameters import InstanceParameters
from ckwatch.checks.clang_output import TRANSIENT_KINDS, ClangMessage, ClangSeverity, MessageKind, transient_kind
from ckwatch.checks.compiler import locate
from ckwatch.checks.compiler.clang_builtins import of_other_clang
from ckwatch.checks.compiler.clarify import as_unterminated, clarified, with_brace, with_column
from ckwatch.checks.compiler.fixes import flag_fixes, parameter_fixes, text_fixes
from ckwatch.checks.compiler.joining import (
    INSTANCE,
    RELATED_LIMIT,
    ErrorCause,
    Placed,
    without_consequences,
    without_repeats,
)
from ckwatch.checks.compiler.sources import NO_INPUTS, CompilerInputs, Sources
from ckwatch.checks.compiler.symbol_places import symbol_place
from ckwatch.checks.flag_places import blamed_flag
from ckwatch.checks.known_headers import NOT_FOUND, header_advice
from ckwatch.checks.linker_symbols import demangled, symbol_of
from ckwatch.checks.parameter_values import value_words
from ckwatch.checks.places import ReadLine, RenderedFile, SourcePlace
from ckwatch.checks.reasons import explained, under_fast_math
from ckwatch.checks.type_names import shorten
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.source_map import SourceMap
from ckwatch.model.targets import not_compiled

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


DETAIL_LIMIT = 65_536
"""Characters of `detail`."""

_SEVERITIES = {
    ClangSeverity.FATAL: Severity.ERROR,
    ClangSeverity.ERROR: Severity.ERROR,
    ClangSeverity.WARNING: Severity.WARNING,
}
_ASSERTION = re.compile(r"static assertion failed due to requirement '.*': (?P<text>.*\S)")
_REFUSED_ARCH = re.compile(
    r"(?:invalid target ID '|unsupported HIP gpu architecture: |cannot find ROCm device library for )([\w:+-]+)"
)
_MADE_UP_PLACE = re.compile(r"\((?P<what>lambda|(?:anonymous|unnamed) \w+) at [^()\s]+:\d+:\d+\)")
_SUMMARIES = re.compile(
    "command failed|ld returned|unable to execute command|final link failed|assembly aborted due to errors|"
    "use the --help option for usage information|isn't defined|can not be used when making a shared object"
)
_FAULT_TEXT = {
    MessageKind.OUT_OF_MEMORY: "the compiler ran out of memory",
    MessageKind.NO_SPACE: "no space left on the device",
    MessageKind.KILLED: "the compiler was killed, most likely because memory ran out",
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
    inputs: CompilerInputs = NO_INPUTS,
) -> tuple[Diagnostic, ...]:
    """Place `messages` of one unit's passes and join the repeats, in the order of their first appearance.

    `source_path` is the rendered file as the compiler names it: an absolute path without symbolic links.
    `read_line(path, line)` gives the text of a header's line, counted from zero, or None. Warnings in headers that are
    not the workspace's own are left out unless `header_warnings`.
    """
    sources = Sources(unit, RenderedFile(source_path, source_map), read_line, inputs)
    parameters = InstanceParameters(unit, inputs.worked)
    clear = (clarified(one, sources) for one in with_brace(without_summaries(messages), sources))
    shown = (one for one in clear if header_warnings or not _is_foreign_warning(one, sources))
    placed = (
        _about_arch(one, sources)
        or _about_flag(one, sources)
        or _about_instance(one, parameters, sources)
        or _about_text(one, parameters, sources)
        for one in shown
    )
    return tuple(one.diagnostic for one in without_consequences(without_repeats(placed), sources))


def without_summaries(messages: Iterable[ClangMessage]) -> list[ClangMessage]:
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
    is_fault = message.kind in TRANSIENT_KINDS
    return message.position is None and not is_fault and _SUMMARIES.search(message.text) is not None


def _is_foreign_warning(message: ClangMessage, sources: Sources) -> bool:
    foreign = bool(message.path) and not sources.is_users(message.path) and not message.is_error
    return foreign and blamed_flag(message, sources.inputs.flags) is None


def _about_arch(message: ClangMessage, sources: Sources) -> Placed | None:
    """The driver's refusal of the unit's arch, at its place in the kernel file or `ckwatch.toml`."""
    kernel, arch = sources.unit.kernel, sources.unit.arch
    refused = _REFUSED_ARCH.search(message.text) if message.position is None else None
    if refused is None or refused[1] != arch:
        return None
    places = {**sources.inputs.arch_spans, **kernel.arch_spans}
    place = SourcePlace(places.get(arch, kernel.template_span))
    diagnostic = replace(_built(message, place, sources), message=not_compiled(arch))
    return Placed(_key(message, diagnostic), message, diagnostic, ErrorCause.FLAG)


def _about_flag(message: ClangMessage, sources: Sources) -> Placed | None:
    """A message about a flag of `ckwatch.toml` or the kernel file, at this flag."""
    flag = blamed_flag(message, sources.inputs.flags)
    if flag is None:
        return None
    diagnostic = _built(message, SourcePlace(flag.span), sources)
    diagnostic = replace(diagnostic, fixes=flag_fixes(message, flag))
    return Placed(_key(message, diagnostic), message, diagnostic, ErrorCause.FLAG)


def _about_instance(message: ClangMessage, parameters: InstanceParameters, sources: Sources) -> Placed | None:
    """An error of CK's headers about the instance, at the parameter that is to blame. A template's own static_assert
    about parameters is the instance's mistake, as CK's are."""
    here = sources.rendered.is_at(message.path)
    if not message.is_error or (here and "static assertion failed" not in message.text):
        return None
    finding = find_ck_finding(message, parameters, sources.unit.arch, sources.line_at)
    if finding is None:
        return None
    said = _ASSERTION.match(message.text) if sources.is_users(message.path) else None
    if said is not None:
        place = sources.rendered.place(message) if here else None
        built_in = place is not None and sources.is_built_in(place.span.path)
        code = finding.code if built_in else "clang/static-assertion"
        finding = replace(finding, code=code, message=f"{said['text']}\n{finding.message}")
    elif finding.formula:
        blamed = finding.blamed and f"{finding.blamed} = {value_words(parameters.values[finding.blamed])}"
        failing = f"{blamed or 'the instance'} fails a check of {posixpath.basename(message.path) or 'the compiler'}"
        finding = replace(finding, message=f"{failing}\n{finding.message}")
    diagnostic = _of_finding(message, finding, parameters, sources)
    key = (INSTANCE, finding.blamed or finding.key)
    return Placed(key, message, diagnostic, ErrorCause.PARAMETER)


def _about_text(message: ClangMessage, parameters: InstanceParameters, sources: Sources) -> Placed:
    """A message at its place in the user's text, or at the parameter that printed what it is about."""
    unterminated = as_unterminated(message, sources)
    message, place = unterminated or (with_column(message, sources), symbol_place(message, sources))
    related: tuple[Related, ...] = ()
    cause = ErrorCause.TEXT
    if place is not None:
        pass
    elif sources.rendered.is_at(message.path):
        place = locate.place_in_text(message, sources)
    elif sources.is_own_header(message.path):
        place = locate.place_in_own_header(message, sources)
    elif message.path:
        place = locate.instantiation(message, sources)
        cause = ErrorCause.VAGUE if place is None else ErrorCause.ELSEWHERE
        place = place or locate.inclusion(message, sources)
        related = _header_related(message, sources)
    place = place or locate.kernel_file_place(message, sources)
    built_in = sources.is_built_in(place.span.path)
    blamed = None
    if message.is_error or locate.ZERO.search(message.text):
        blamed = locate.blamed_parameter(message, place, parameters, sources)
    if blamed is not None:
        named = (Related(shorten(message.text), place.span), *place.chain)
        diagnostic = _built(message, SourcePlace(parameters.spans[blamed], named), sources, related)
        text = f"{diagnostic.message} ({blamed} = {value_words(parameters.values[blamed])})"
        fixes = parameter_fixes(message, blamed, parameters, sources)
        diagnostic = replace(diagnostic, message=text, fixes=fixes)
        cause = ErrorCause.GUESSED if built_in else ErrorCause.PARAMETER
        return Placed((INSTANCE, blamed), message, diagnostic, cause)
    if message.is_error and built_in:
        said = f"{shorten(message.text)}, in the template '{sources.unit.kernel.template}'"
        place = SourcePlace(sources.unit.instance.span, (Related(said, place.span), *place.chain))
        cause = ErrorCause.ELSEWHERE
    # the kernel file's places of the parameters that were printed there
    related += tuple(
        Related(f"{name} = {value_words(parameters.values[name])} is set here", parameters.spans[name])
        for name in place.names
        if name in parameters.spans and name in parameters.values
    )
    diagnostic = _built(message, place, sources, related)
    return Placed(_key(message, diagnostic), message, diagnostic, cause)


def _key(message: ClangMessage, diagnostic: Diagnostic) -> tuple[object, ...]:
    symbol = symbol_of(message) if message.position is None or message.kind is MessageKind.LINKER else None
    about = symbol.spelled if symbol is not None else message.text
    return diagnostic.severity, diagnostic.code, about, diagnostic.span


def _built(
    message: ClangMessage, place: SourcePlace, sources: Sources, related: tuple[Related, ...] = ()
) -> Diagnostic:
    # users do not know places in the rendered text
    said = sources.is_hip and _worded_for_hip(message, sources)
    worded = _MADE_UP_PLACE.sub(r"(\g<what>)", said or explained(message, sources.rendered.source_map.text))
    text = _FAULT_TEXT.get(message.kind) or shorten(demangled(worded))
    source, code = _source(message), code_of(message)
    if source is Source.CLANG and sources.is_cuda:
        source, code = Source.NVCC, code.replace("clang/", "nvcc/")
    return Diagnostic(
        severity=_SEVERITIES.get(message.severity, Severity.INFORMATION),
        source=source,
        code=code,
        message=text,
        span=place.span,
        related=_limited((*related, *place.chain, *_notes(message, sources))),
        detail=_detail(message, text),
        fixes=text_fixes(message, sources),
        units=(sources.unit.id,),
        unit_count=1,
        approximate=place.approximate,
    )


def _worded_for_hip(message: ClangMessage, sources: Sources) -> str | None:
    """The message where ckwatch knows more than the compiler of what HIP has, or of the defaults; else None."""
    missing = NOT_FOUND.fullmatch(message.text)
    if missing is not None:
        advice = header_advice(missing["name"], sources.has_library)
        return None if advice is None else f"{message.text}: {advice}"
    flags = (flag.text for flag in sources.inputs.flags)
    return of_other_clang(message, sources) or under_fast_math(message, flags)


def _of_finding(
    message: ClangMessage, finding: CkFinding, parameters: InstanceParameters, sources: Sources
) -> Diagnostic:
    instance_span = sources.unit.instance.span
    related = []
    for name in dict.fromkeys([*([finding.blamed] if finding.blamed else []), *finding.parameters]):
        text = f"{name} = {value_words(parameters.values[name])}"
        if name != finding.blamed and name in parameters.spans:
            related.append(Related(text, parameters.spans[name]))
        printed = sources.rendered.argument_place(name)
        if printed is not None:
            related.append(Related(f"{text}, printed here", printed))
    led = locate.instantiation(message, sources)
    if led is not None:
        related.append(Related("instantiated here", led.span))
    return Diagnostic(
        severity=Severity.ERROR,
        source=Source.CLANG,
        code=finding.code,
        message=finding.message,
        span=parameters.spans.get(finding.blamed or "", instance_span),
        related=_limited((*related, *_header_related(message, sources), *_notes(message, sources))),
        detail=_detail(message, finding.message),
        units=(sources.unit.id,),
        unit_count=1,
    )


def _header_related(message: ClangMessage, sources: Sources) -> tuple[Related, ...]:
    span = sources.span_of(message)
    return () if span is None else (Related(shorten(message.text), span),)


def _notes(message: ClangMessage, sources: Sources) -> list[Related]:
    return [Related(shorten(note.text), sources.span_of(note)) for note in message.notes]


def _source(message: ClangMessage) -> Source:
    if message.kind is MessageKind.LINKER:
        return Source.LINKER
    return Source.HOST if message.kind in TRANSIENT_KINDS or message.kind is MessageKind.DRIVER else Source.CLANG


def _limited(related: tuple[Related, ...]) -> tuple[Related, ...]:
    if len(related) <= RELATED_LIMIT:
        return related
    return (*related[:RELATED_LIMIT], Related(f"and {len(related) - RELATED_LIMIT} more notes", None))


def _detail(message: ClangMessage, text: str) -> str:
    """The compiler's own words, where `text` or a note says less."""
    whole = text.startswith(message.text) and all(shorten(note.text) == note.text for note in message.notes)
    if whole and not message.tail:
        return ""
    lines = [_as_printed(message), *message.tail, *map(_as_printed, message.notes)]
    return "\n".join(lines)[:DETAIL_LIMIT]


def _as_printed(message: ClangMessage) -> str:
    place = f"{message.path}:{message.position.line}:{message.position.column}: " if message.position else ""
    return f"{place}{message.severity}: {message.text}"
