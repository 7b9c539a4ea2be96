"""Turns an exception in a template into diagnostics, with the macro calls and includes that led there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import TracebackType

from jinja2 import TemplateNotFound, TemplateSyntaxError, UndefinedError
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.filters import FILTERS

from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.text import Span, span
from ckwatch.render.environment import ModuleTables, RenderLimitError, TemplateEnvironment
from ckwatch.render.hooks import HookError
from ckwatch.render.lexer import LocatedLine, SourceTag, TemplateSource
from ckwatch.render.loader import UnreadableTemplateError


@dataclass(frozen=True, slots=True)
class RenderFailure:
    """An exception of a render and what is needed to explain it."""

    error: BaseException
    unit: Unit
    environment: TemplateEnvironment


@dataclass(frozen=True, slots=True)
class _Place:
    """A tag, or a whole line, that was being executed."""

    source: TemplateSource
    tag: SourceTag | None
    span: Span


_UNDEFINED = re.compile(r"^'(?P<name>[^']*)' is undefined|has no attribute '(?P<attribute>[^']*)'")
_UNKNOWN_FILTER = re.compile(r"^No (filter|test) named '([^']*)'")


def diagnostics_of(failure: RenderFailure) -> tuple[Diagnostic, ...]:
    """The diagnostics for a failure: one, at the innermost template place, with its chain."""
    error = failure.error
    if isinstance(error, UnreadableTemplateError):
        return (error.diagnostic,)
    if isinstance(error, TemplateSyntaxError):
        return (_syntax_error(error, failure),)
    places = list(_places(error.__traceback__))
    if not places:
        return (_at_kernel_file(failure),)
    code, message, hint = _wording(failure)
    innermost = places[-1]
    place, exact_name = _name_span(innermost, error)
    related = [Related(hint, None)] if hint else []
    related += [Related(_called_from(outer), outer.span) for outer in reversed(places[:-1])]
    diagnostic = Diagnostic(Severity.ERROR, Source.JINJA, code, message, place, tuple(related))
    if exact_name and isinstance(error, UndefinedError):
        diagnostic = _explain_undefined(diagnostic, exact_name, failure)
    return (diagnostic,)


def _places(traceback: TracebackType | None) -> Iterator[_Place]:
    """The template places on the stack, outermost first."""
    while traceback is not None:
        tables = traceback.tb_frame.f_globals.get("_tables")
        if isinstance(tables, ModuleTables):
            offset = tables.offset_of_code_line(traceback.tb_lineno)
            if offset >= 0:
                source = tables.source
                tag = source.tag_at(offset)
                where = source.span(tag.start, tag.end) if tag else source.line_span(source.lines.position(offset).line)
                yield _Place(source, tag, where)
        traceback = traceback.tb_next


def _name_span(place: _Place, error: BaseException) -> tuple[Span, str]:
    """The undefined name within the tag, or the tag."""
    match = _UNDEFINED.search(str(error))
    if isinstance(error, UndefinedError) and match and place.tag is not None:
        wanted = match["name"] or match["attribute"]
        for name, offset in place.tag.names:
            if name == wanted:
                return place.source.span(offset, offset + len(name)), wanted
    return place.span, ""


def _called_from(place: _Place) -> str:
    body = place.tag.body.split("\n")[0] if place.tag else "here"
    keyword = body.split()[0] if body.split() else ""
    if keyword in ("include", "extends", "import", "from"):
        return f"{keyword}d here: {body}" if keyword == "include" else f"from here: {body}"
    return f"called from here: {body}"


def _wording(failure: RenderFailure) -> tuple[str, str, str]:
    """(code, message, hint) for a run-time failure."""
    error = failure.error
    text = str(error) or type(error).__name__
    if isinstance(error, UndefinedError):
        return "template/undefined", text, ""
    if isinstance(error, TemplateNotFound):
        looked = ", ".join(sorted(failure.environment.lookups.missed)) or "nowhere"
        return "template/not-found", f"template '{error.name}' is not found", f"looked for: {looked}"
    if isinstance(error, RenderLimitError):
        return "template/limit", text, ""
    if isinstance(error, HookError):
        return "template/hook", text, ""
    if isinstance(error, SecurityError):
        return "template/forbidden", text, "templates run in a sandbox: no underscore attributes, no mutation of values"
    if isinstance(error, RecursionError):
        return "template/recursion", "macros or includes call each other without end", ""
    if isinstance(error, MemoryError):
        return "template/limit", "rendering needs more memory than a template may use", ""
    if isinstance(error, OverflowError):
        return "template/limit", text, ""
    if isinstance(error, TemplateRuntimeError):
        return "template/error", text, ""
    return "template/error", f"{type(error).__name__}: {text}", ""


def _explain_undefined(diagnostic: Diagnostic, name: str, failure: RenderFailure) -> Diagnostic:
    """Say where the name could come from: the instance that lacks it, or a name like it."""
    unit = failure.unit
    parameters = unit.instance.parameters
    near = _near(name, [*parameters, *dict(unit.kernel.operation.inputs), *dict(unit.kernel.operation.outputs)])
    message = diagnostic.message
    if near:
        message += f"; did you mean '{near}'?"
    related = diagnostic.related
    place = unit.instance.spans.get(near, unit.instance.span) if near else unit.instance.span
    related += (Related(f"instance '{unit.instance.name}' sets no parameter '{name}'", place),)
    return replace(diagnostic, message=message, related=related)


def _near(name: str, known: list[str]) -> str:
    folded = {re.sub("_", "", candidate).lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(re.sub("_", "", name).lower(), folded, n=1, cutoff=0.75)
    return folded[matches[0]] if matches else ""


def _syntax_error(error: TemplateSyntaxError, failure: RenderFailure) -> Diagnostic:
    path = error.filename or error.name or failure.unit.kernel.template
    line = error.lineno
    message = error.message or "syntax error"
    text = error.source or ""
    unknown = _UNKNOWN_FILTER.search(message)
    if unknown:
        near = _near(unknown[2], list(FILTERS if unknown[1] == "filter" else failure.environment.tests))
        message += f" Did you mean '{near}'?" if near else ""
    related = tuple(Related(_called_from(outer), outer.span) for outer in reversed(list(_places(error.__traceback__))))
    column = line.column if isinstance(line, LocatedLine) else 0
    width = _token_width(text, line - 1, column)
    place = span(path, line - 1, column, line - 1, column + width)
    return Diagnostic(Severity.ERROR, Source.JINJA, "template/syntax", message, place, related)


def _token_width(text: str, line: int, column: int) -> int:
    lines = text.splitlines()
    if not 0 <= line < len(lines):
        return 1
    match = re.compile(r"\w+|[{}%#]{2}|\S").match(lines[line], column)
    return len(match[0]) if match else 1


def _at_kernel_file(failure: RenderFailure) -> Diagnostic:
    """No template line was being executed: the template itself is missing or refused."""
    code, message, hint = _wording(failure)
    related = (Related(hint, None),) if hint else ()
    return Diagnostic(Severity.ERROR, Source.JINJA, code, message, failure.unit.kernel.template_span, related)
