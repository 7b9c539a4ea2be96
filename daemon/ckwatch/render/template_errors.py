"""Turns an exception in a template into diagnostics, with the macro calls and includes that led there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType

from jinja2 import TemplateNotFound, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError

from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span
from ckwatch.render.environment import ROUNDS, ModuleTables, RenderLimitError, TemplateEnvironment
from ckwatch.render.hooks import HookError
from ckwatch.render.lexer import LocatedLine, SourceTag, TemplateSource
from ckwatch.render.loader import UnreadableTemplateError
from ckwatch.render.syntax_errors import syntax_mistake
from ckwatch.render.values import did_you_mean, in_words, near
from ckwatch.system.user_files import broken_link, is_file

ATTEMPTED = "<lambda>"
"""The name of generated code that is an expression only, in a place that its caller has as well."""

CHAIN_BEGINNING = 6
CHAIN_END = 2
"""Places of a long chain of calls and includes that are shown; the rest is counted."""


@dataclass(frozen=True, slots=True)
class RenderFailure:
    """An exception of a render and what is needed to explain it. `names` are what the unit's template may use."""

    error: BaseException
    unit: Unit
    environment: TemplateEnvironment
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Place:
    """A tag, or a whole line, that was being executed; `node` is the expression within it, if that is known."""

    source: TemplateSource
    tag: SourceTag | None
    span: Span
    node: nodes.Expr | None


def diagnostics_of(failure: RenderFailure, places: Sequence[Place] | None = None) -> tuple[Diagnostic, ...]:
    """The diagnostics for a failure: one, at the innermost template place, with its chain.

    `places` are those that were being executed, outermost first; by default those of the error's traceback.
    """
    error = failure.error
    if isinstance(error, UnreadableTemplateError):
        return (error.diagnostic,)
    if places is None:
        places = places_of_traceback(error.__traceback__)
    if isinstance(error, TemplateSyntaxError):
        return (_syntax_error(error, failure, places),)
    if not places:
        return (_at_kernel_file(failure),)
    if isinstance(error, RecursionError) and (diagnostic := _circle(places)):
        return (diagnostic,)
    code, message, hint = _wording(failure)
    if _NOT_PROVIDED.search(message) and len(places) > 1:
        *places, used = places
        message = _NOT_PROVIDED.sub(r"the macro needs '\1'", message)
        hint_at: tuple[Related, ...] = (Related("used here", used.span),)
    else:
        hint_at = ()
    innermost = places[-1]
    name = _missing_name(error)
    is_elsewhere = isinstance(error, UndefinedError) and bool(name) and _name_span(innermost, name) is None
    if is_elsewhere and (made := _use_of(name, failure.environment, innermost.source)) is not None:
        # it was given to another name, in a statement that went well
        hint_at = (*hint_at, Related("needed here", _node_span(innermost) or innermost.span))
        innermost = made
    span = _name_span(innermost, name) or _argument_span(innermost, error) or _node_span(innermost) or innermost.span
    related = (*([Related(hint, None)] if hint else ()), *hint_at, *_chain(places[:-1]))
    diagnostic = Diagnostic(Severity.ERROR, Source.JINJA, code, message, span, related)
    if isinstance(error, UndefinedError) and name:
        return (_explain_undefined(diagnostic, name, failure, innermost),)
    if isinstance(error, TemplateNotFound):
        return (_explain_not_found(diagnostic, failure, innermost),)
    if unknown := _NO_NAME.search(message):
        return (_unknown_name(diagnostic, unknown[1], unknown[2], failure.environment, innermost),)
    if unexpected := _NO_KEYWORD.search(message):
        arguments = _arguments_of(message.split("'")[1], failure.environment)
        return (replace(diagnostic, message=message + did_you_mean(unexpected[1], arguments)),)
    return (diagnostic,)


def _unknown_name(
    diagnostic: Diagnostic, kind: str, name: str, environment: TemplateEnvironment, place: Place
) -> Diagnostic:
    """The error for a filter or test that is only looked for when a template runs, at its name."""
    span = _name_span(place, name) or diagnostic.span
    known = environment.filters if kind == "filter" else environment.tests
    meant = near(name, known)
    fixes = (Fix(span, meant),) if meant and span != diagnostic.span else ()
    message = f"there is no {kind} '{name}'{did_you_mean(name, known)}"
    return replace(diagnostic, message=message, span=span, fixes=fixes)


def _arguments_of(macro: str, environment: TemplateEnvironment) -> set[str]:
    """Names in the definitions of macros called `macro`."""
    tags = (tag for one in environment.sources_read for tag in one.tags)
    found = ([name for name, _ in tag.names] for tag in tags if not tag.is_variable)
    return {name for names in found if names[:2] == ["macro", macro] for name in names[2:]}


_LOADING = ("include", "extends", "import", "from")
"""Statements that load another template."""

_NOT_PROVIDED = re.compile(r"^parameter '(\w+)' was not provided$")
_UNDEFINED = re.compile(r"^'(?P<name>[^']*)' is undefined|has no attribute '(?P<attribute>[^']*)'")
_NO_NAME = re.compile(r"^No (filter|test) named '([^']*)'")
_NO_KEYWORD = re.compile(r"^macro '(?:\w+)' takes no keyword argument '(\w+)'")
_UNSAFE = re.compile(r"access to attribute '(?P<attribute>\w+)'")


def places_of_traceback(traceback: TracebackType | None) -> list[Place]:
    """The template places of an error, outermost first."""
    found: list[Place] = []
    while traceback is not None:
        place = _place(traceback.tb_frame, traceback.tb_lineno, traceback.tb_lasti)
        if place is not None:
            if traceback.tb_frame.f_code.co_name == ATTEMPTED and found:
                found.pop()
            found.append(place)
        traceback = traceback.tb_next
    return found


def places_of_frame(frame: FrameType | None) -> list[Place]:
    """The template places from `frame` outwards, outermost first."""
    found = []
    within = False
    while frame is not None:
        place = _place(frame, frame.f_lineno, frame.f_lasti)
        if place is not None:
            if not within:
                found.append(place)
            within = frame.f_code.co_name == ATTEMPTED
        frame = frame.f_back
    return found[::-1]


def _place(frame: FrameType, line: int, instruction: int) -> Place | None:
    tables = frame.f_globals.get("_tables")
    if not isinstance(tables, ModuleTables):
        return None
    offset = tables.offset_of_code_line(line)
    if offset < 0:
        return None
    source = tables.source
    tag = source.tag_at(offset)
    where = source.span(tag.start, tag.end) if tag else source.line_span(source.lines.position(offset).line)
    return Place(source, tag, where, _expression(tables, frame.f_code, instruction))


def _expression(tables: ModuleTables, code: CodeType, instruction: int) -> nodes.Expr | None:
    position = next(islice(code.co_positions(), max(instruction, 0) // 2, None), None)
    if position is None:
        return None
    line, end_line, column, end_column = position
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return tables.expression_at((line, column), (end_line, end_column))


def _missing_name(error: BaseException) -> str:
    """The name or attribute that is not there, or that is not to be used."""
    if isinstance(error, HookError):
        return error.name
    pattern = _UNDEFINED if isinstance(error, UndefinedError) else _UNSAFE
    match = pattern.search(str(error))
    return next(filter(None, match.groups()), "") if match else ""


def _name_span(place: Place, wanted: str) -> Span | None:
    """Return the place of the name `wanted` in the tag."""
    for name, offset in place.tag.names if place.tag is not None and wanted else ():
        if name == wanted and place.source.text.startswith(wanted, offset):
            return place.source.span(offset, offset + len(name))
    return None


def _use_of(name: str, environment: TemplateEnvironment, first: TemplateSource) -> Place | None:
    """The first tag of a template that was read, of `first` if it is there, with `name` in it."""
    for source in (first, *environment.sources_read):
        for tag in source.tags:
            if any(word == name and source.text.startswith(name, offset) for word, offset in tag.names):
                return Place(source, tag, source.span(tag.start, tag.end), None)
    return None


def _argument_span(place: Place, error: BaseException) -> Span | None:
    """Return the place of the argument that a hook rejects."""
    argument, call = getattr(error, "argument", None), place.node
    if unexpected := _NO_KEYWORD.search(str(error)):
        argument = unexpected[1]
    if argument is None or not isinstance(call, nodes.Call):
        return None
    if isinstance(argument, int):
        keyword = None
        node = call.args[argument] if argument < len(call.args) else None
        if node is None and argument == 0 and call.kwargs:
            node = call.kwargs[0].value
    else:
        keyword = next((one for one in call.kwargs if one.key == argument), None)
        node = keyword.value if keyword else None
    if keyword is not None and (unexpected or " has no argument " in str(error)):
        start = _start(keyword.value)
        before = re.search(rf"\b{re.escape(keyword.key)}\s*=\s*\Z", place.source.text[:start])
        if before:
            return place.source.span(before.start(), before.start() + len(keyword.key))
    element = getattr(error, "element", None)
    if element is not None and isinstance(node, nodes.List | nodes.Tuple) and element < len(node.items):
        node = node.items[element]
    return _span_of(place.source, node) if node is not None else None


def _node_span(place: Place) -> Span | None:
    return _span_of(place.source, place.node) if place.node is not None else None


def _span_of(source: TemplateSource, node: nodes.Node) -> Span | None:
    """Return the place that a reader expects for `node`: of a call the callee, of a filter its name."""
    if isinstance(node, nodes.Filter) and node.name == ROUNDS and node.node is not None:
        return _span_of(source, node.node)
    if isinstance(node, nodes.Call):
        return _span_of(source, node.node)
    at = _own_offset(node)
    if at is None:
        return None
    if isinstance(node, nodes.Getattr):
        at = source.text.find(node.attr, at)
        return source.span(at, at + len(node.attr))
    if isinstance(node, nodes.Filter):
        return source.span(at, at + len(node.name))
    start, end = _start(node), _end(source, node)
    return source.span(start, max(end, start + 1))


def _own_offset(node: nodes.Node) -> int | None:
    return node.lineno.offset if isinstance(node.lineno, LocatedLine) else None


def _start(node: nodes.Node) -> int:
    offsets = [offset for one in (node, *node.find_all(nodes.Expr)) if (offset := _own_offset(one)) is not None]
    return min(offsets, default=0)


_TOKEN = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[\w.]+|\S")


def _end(source: TemplateSource, node: nodes.Node) -> int:
    ends = []
    for one in (node, *node.find_all(nodes.Expr)):
        offset = _own_offset(one)
        token = _TOKEN.match(source.text, offset) if offset is not None else None
        if token:
            ends.append(token.end())
    return max(ends, default=0)


def _chain(places: Sequence[Place]) -> tuple[Related, ...]:
    """The places that led to another one, innermost first; of a long chain its beginning and its end."""
    related = [Related(_called_from(outer), outer.span) for outer in reversed(places)]
    left_out = len(related) - CHAIN_BEGINNING - CHAIN_END
    if left_out <= 1:
        return tuple(related)
    return (*related[:CHAIN_BEGINNING], Related(f"and {left_out} more", None), *related[-CHAIN_END:])


def _called_from(place: Place) -> str:
    body = place.tag.body.split("\n")[0] if place.tag else "here"
    keyword = body.split()[0] if body.split() else ""
    if keyword in _LOADING:
        return f"{keyword}d here: {body}" if keyword == "include" else f"from here: {body}"
    return f"called from here: {body}"


def _circle(places: Sequence[Place]) -> Diagnostic | None:
    """Templates that include each other, or a macro that calls itself, without end: where the circle closes."""
    seen: list[tuple[str, int]] = []
    for index, place in enumerate(places):
        start = place.tag.start if place.tag else -1
        if (place.source.path, start) in seen:
            closing = places[index - 1]
            first = seen.index((place.source.path, start))
            break
        seen.append((place.source.path, start))
    else:
        return None
    circle = places[first:index]
    word = closing.tag.body.split()[0] if closing.tag and closing.tag.body.split() else ""
    name = Path(closing.source.path).name
    if word in _LOADING:
        done = {"include": "includes", "extends": "extends"}.get(word, "imports")
        names = [Path(one.source.path).name for one in circle]
        chain = f"{name} {done} itself" if len(set(names)) == 1 else f"{' → '.join([*names, names[0]])}"
        message = f"{chain}: templates that include each other have no end"
        span = closing.span
    else:
        message = "this calls itself without end"
        span = _node_span(closing) or closing.span
    related = _chain(places[:index])[1:] if len(circle) > 1 else ()
    return Diagnostic(Severity.ERROR, Source.JINJA, "template/recursion", message, span, related)


def _wording(failure: RenderFailure) -> tuple[str, str, str]:
    """(code, message, hint) for a run-time failure."""
    error = failure.error
    text = str(error)
    if isinstance(error, UndefinedError):
        return "template/undefined", text, ""
    if isinstance(error, TemplateNotFound):
        missed = sorted(failure.environment.lookups.missed)
        looked = ", ".join(missed) or "nowhere"
        links = (broken_link(path) for path in missed if path.endswith(f"/{error.name}"))
        if link := next(filter(None, links), ""):
            return "template/not-found", f"template '{error.name}' is {link}", ""
        return "template/not-found", f"template '{error.name}' is not found", f"looked for: {looked}"
    if isinstance(error, RenderLimitError):
        return "template/limit", text, ""
    if isinstance(error, HookError):
        return "template/hook", text, ""
    if isinstance(error, SecurityError):
        name = _missing_name(error)
        message = f"access to attribute '{name}' is unsafe" if name else "this is not allowed in templates"
        return "template/forbidden", message, "templates run in a sandbox: no underscore attributes, no changed values"
    if isinstance(error, RecursionError):
        return "template/recursion", "macros or includes call each other without end", ""
    if isinstance(error, MemoryError):
        return "template/limit", "rendering needs more memory than a template may use", ""
    if isinstance(error, OverflowError):
        return "template/limit", text.replace("MAX_RANGE ", ""), ""
    if isinstance(error, TemplateRuntimeError):
        hint = "{% set NAME = namespace(…) %} makes a namespace" if "non-namespace" in text else ""
        return "template/error", text, hint
    return "template/error", in_words(error), ""


def _explain_undefined(diagnostic: Diagnostic, name: str, failure: RenderFailure, place: Place) -> Diagnostic:
    """Say where the name could come from: the instance that lacks it, a name like it, or the import's context."""
    unit = failure.unit
    parameters = unit.instance.parameters
    if "has no attribute" in diagnostic.message:
        return diagnostic
    if name in failure.names and (importing := _import_of(place.source, failure.environment)):
        return _without_context(diagnostic, name, importing)
    if wrong := _wrong_import(name, place.source, failure.environment):
        return replace(wrong, related=(Related(f"'{name}' is used here", diagnostic.span),))
    if place.tag and place.tag.names and place.tag.names[0][0] in _LOADING:
        return _without_quotes(diagnostic, place, place.tag)
    set_by_others = [one for one in unit.kernel.instances if name in one.parameters]
    if set_by_others and name not in parameters:
        message = f"{diagnostic.message}: the instance '{unit.instance.name}' does not set it"
        lacking = Related(f"instance '{unit.instance.name}' sets no parameter '{name}'", unit.instance.span)
        return replace(diagnostic, message=message, related=(*diagnostic.related, lacking))
    known = {*failure.names}.union(*map(_names_made_in, _with_extended(place.source, failure.environment)))
    message = diagnostic.message + did_you_mean(name, known)
    if (meant := near(name, known)) and meant not in parameters:
        return replace(diagnostic, message=message, fixes=(Fix(diagnostic.span, meant),))
    where = unit.instance.spans.get(meant, unit.instance.span)
    related = (*diagnostic.related, Related(f"instance '{unit.instance.name}' sets no parameter '{name}'", where))
    # a parameter that no template mentions is the one that is misspelt, unless the template has its name only once
    read = failure.environment.sources_read
    is_slip = any(meant in one.mentioned for one in read) or _mentions(name, read) == 1
    fixes = (Fix(diagnostic.span, meant),) if meant and is_slip else ()
    return replace(diagnostic, message=message, related=related, fixes=fixes)


_PATH = re.compile(r"[\w./-]+")


def _without_quotes(diagnostic: Diagnostic, place: Place, tag: SourceTag) -> Diagnostic:
    """The error of a statement that names a template without quotes, at the whole name, once."""
    start = tag.names[1][1] if len(tag.names) > 1 else tag.start
    written = _PATH.match(place.source.text, start, tag.end)
    end = written.end() if written else tag.end
    span, name = place.source.span(start, end), place.source.text[start:end]
    message = f'the name of a template stands in quotes: `"{name}"`'
    fixes = (Fix(span, f'"{name}"'),) if written and "." in name else ()
    return replace(diagnostic, message=message, span=span, fixes=fixes)


def _mentions(name: str, sources: Iterable[TemplateSource]) -> int:
    """How often `name` stands in templates, comments included."""
    return sum(one.words[name] for one in sources)


def _wrong_import(name: str, source: TemplateSource, environment: TemplateEnvironment) -> Diagnostic | None:
    """A name like `name` that `source` imports from a template that has no such name."""
    for tag in source.tags:
        words = [word for word, _ in tag.names]
        if words[:1] != ["from"] or len(words) < 4 or "import" not in words:
            continue
        target = environment.loader.found.get(words[1])
        exporting = environment.sources.get(target.path) if target else None
        if exporting is None:
            continue
        exported = _names_made_in(exporting)
        for word, offset in tag.names[words.index("import") + 1 :]:
            if word not in exported and near(word, [name]) and word not in ("with", "without", "context", "as"):
                span = source.span(offset, offset + len(word))
                meant = near(word, exported)
                message = f"'{words[1]}' has no '{word}'{did_you_mean(word, exported)}"
                fixes = (Fix(span, meant),) if meant else ()
                return Diagnostic(Severity.ERROR, Source.JINJA, "template/undefined", message, span, fixes=fixes)
    return None


_UNDEFINED_NAME = re.compile(r"'(\w+)' is undefined")


def definitions_once(found: Sequence[Diagnostic], sources: Sequence[TemplateSource]) -> tuple[Diagnostic, ...]:
    """`found`, with one error for all uses of a name whose definition is misspelt: it is in none of its uses."""
    if len(found) < 2:  # nothing to merge, and a template may have hundreds of names
        return tuple(found)
    made = {name for source in sources for name in _names_made_in(source)}
    unused = [name for name in made if _mentions(name, sources) == 1]
    alike: dict[object, list[Diagnostic]] = {}
    for one in found:
        name = _UNDEFINED_NAME.match(one.message) if one.code == "template/undefined" else None
        alike.setdefault(name[1] if name and near(name[1], unused) else one, []).append(one)
    return tuple(
        replace(first, related=(*first.related, *(Related("used here, too", one.span) for one in others)))
        for first, *others in alike.values()
    )


_QUOTED = re.compile(r"[\"']([^\"']+)[\"']")


def _with_extended(source: TemplateSource, environment: TemplateEnvironment) -> Iterator[TemplateSource]:
    """The template and those that it extends: its blocks see the names of all of them."""
    waiting, seen = [source], set()
    while waiting:
        one = waiting.pop()
        seen.add(one.path)
        yield one
        for tag in one.tags:
            if tag.names and tag.names[0][0] == "extends" and (named := _QUOTED.search(one.text, tag.start, tag.end)):
                found = environment.loader.found.get(named[1])
                other = environment.sources.get(found.path) if found is not None else None
                if other is not None and other.path not in seen:
                    waiting.append(other)


def _names_made_in(source: TemplateSource) -> set[str]:
    """Names that the statements of a template may define."""
    makers = ("set", "macro", "for", "from", "import", "with", "call")
    return {name for tag in source.tags if not tag.is_variable and tag.names and tag.names[0][0] in makers
            for name, _ in tag.names[1:] if name.isidentifier()}  # fmt: skip


def _import_of(source: TemplateSource, environment: TemplateEnvironment) -> Place | None:
    """The statement that brings `source` in without its context."""
    names = {name for name, found in environment.loader.found.items() if found.path == source.path}
    for other in environment.sources_read:
        for tag in other.tags:
            words = [name for name, _ in tag.names]
            if not words or words[0] not in ("import", "from", "include") or not names.intersection(words):
                continue
            if "without" in words or (words[0] != "include" and words[-2:] != ["with", "context"]):
                return Place(other, tag, other.span(tag.start, tag.end), None)
    return None


def _without_context(diagnostic: Diagnostic, name: str, importing: Place) -> Diagnostic:
    tag = importing.tag
    if tag is None:
        return diagnostic
    source = importing.source
    related = (Related(f"'{name}' is used here", diagnostic.span),)
    close = re.compile(r"\s*[-+]?%\}\Z").search(source.text, tag.start, tag.end)
    if tag.body.startswith("include") or close is None:
        message = f"'{name}' is not known in this include: leave `without context` out"
        return replace(diagnostic, message=message, span=importing.span, related=related)
    fixed = re.sub(r"\s+without\s+context$", "", tag.body) + " with context"
    message = f"'{name}' is not known in what is imported without context: write `{fixed}`"
    without = re.compile(r"\s+without\s+context\s*[-+]?%\}\Z").search(source.text, tag.start, tag.end)
    start = without.start() if without else close.start()
    fix = Fix(source.span(start, close.start()), " with context")
    return replace(diagnostic, message=message, span=importing.span, related=related, fixes=(fix,))


def _explain_not_found(diagnostic: Diagnostic, failure: RenderFailure, place: Place) -> Diagnostic:
    """At the name of the template, with one that is like it."""
    name = str(getattr(failure.error, "name", ""))
    span = diagnostic.span
    for written, offset in place.tag.names if place.tag else ():
        if written == name and place.source.text[offset : offset + 1] in "\"'":
            span = place.source.span(offset, offset + len(name) + 2)
    meant = near(name, _template_names(failure.environment))
    message = diagnostic.message + (f"; did you mean '{meant}'?" if meant else "")
    fixes = (Fix(span, f'"{meant}"'),) if meant and span != diagnostic.span else ()
    return replace(diagnostic, message=message, span=span, fixes=fixes)


TEMPLATES_COMPARED = 2000


def _template_names(environment: TemplateEnvironment) -> list[str]:
    found: list[str] = []
    for folder in environment.loader.folders:
        paths = (path for path in folder.rglob("*") if path.suffix in (".j2", ".jinja", ".jinja2", ".inc"))
        found += (path.relative_to(folder).as_posix() for path in islice(filter(is_file, paths), TEMPLATES_COMPARED))
    overlaid = (Path(path) for path in environment.loader.overlays)
    for path in overlaid:
        found += (path.relative_to(one).as_posix() for one in environment.loader.folders if path.is_relative_to(one))
    return found


def _syntax_error(error: TemplateSyntaxError, failure: RenderFailure, places: Sequence[Place]) -> Diagnostic:
    path = error.filename or error.name or failure.unit.kernel.template
    mistake = syntax_mistake(error, failure.environment)
    source, chain = mistake.lines, _chain(places)
    place = Span(path, source.position(mistake.start), source.position(mistake.end))
    related = tuple(
        Related(text, Span(path, source.position(at), source.position(at + 1))) for text, at in mistake.related
    )
    fixes = () if mistake.replacement is None else (Fix(place, mistake.replacement),)
    return Diagnostic(
        Severity.ERROR, Source.JINJA, "template/syntax", mistake.message, place, (*related, *chain), fixes=fixes
    )


def _at_kernel_file(failure: RenderFailure) -> Diagnostic:
    """No template line was being executed: the template itself is missing or refused."""
    code, message, hint = _wording(failure)
    related = (Related(hint, None),) if hint else ()
    return Diagnostic(Severity.ERROR, Source.JINJA, code, message, failure.unit.kernel.template_span, related)
