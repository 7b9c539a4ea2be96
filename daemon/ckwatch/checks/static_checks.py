"""Checks a unit before any compiler runs: its parameters' names and values, and the instance rules.

Six checks: parameters of the instance that no template reads, values that are none of a parameter's type, element
types and layouts that are not those of the operation (`ckwatch.checks.operands`), keys of the operation that a template
calls `unsupported`, instances that Composable Kernel would reject (`ckwatch.checks.rules`), and what its headers do
not have (`ckwatch.checks.header_features`). Their diagnostics stand
at the place of the parameter or the key in the kernel file. A type is what a template declares
(`ckwatch.model.parameter_types`), or what the template argument wants that the rendered text makes of the parameter.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ckwatch.checks.blame import parameter_behind
from ckwatch.checks.header_features import lacking_features
from ckwatch.checks.operands import kernel_file_error, operand_mismatches
from ckwatch.checks.parameter_values import ValueProblem, value_problem, value_words
from ckwatch.checks.rule_diagnostics import rule_diagnostics, unchecked_diagnostics
from ckwatch.checks.rules.argument_types import SourceNames, violated_type
from ckwatch.checks.rules.candidates import substituted
from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.rule import folded
from ckwatch.headers.searched_headers import SearchedHeaders
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.model.parameter_types import ParameterDeclaration, ParameterType, ValueKind
from ckwatch.model.text import Span
from ckwatch.render.outcome import Rendered, RenderOutcome
from ckwatch.workspace.toml import toml_value

UNSUPPORTED = re.compile(r'static_assert\(false, "((?:[^"\\]|\\.)*)"\);  // \[operation\] ?([\w. ]*)$', re.MULTILINE)
"""The output of the hook `unsupported`."""

FOREIGN = 3
"""So many parameters that no instance sets are those of another template."""

_DEFINED = re.compile(r"\bint\s+(\w+)\s*\([^(){};]*\)\s*\{")

UNDEFINED = re.compile(r"^'(\w+)' is undefined|^the instance sets no parameter '(\w+)'")


def static_checks(
    unit: Unit,
    outcome: RenderOutcome,
    *,
    rules: bool,
    builtin: str,
    passed: Mapping[str, ParameterValue] | None = None,
    headers: SearchedHeaders | None = None,
) -> RenderOutcome:
    """The outcome of a render with what can be said of it without a compiler.

    That is parameters that nothing reads and, with `rules`, wrong values and instances that Composable Kernel would
    reject. `builtin` is the folder of the built-in templates: an error in one of them has its cause in the kernel file,
    and is shown there. `passed` are the parameters with which the unit last had no error, if that is known. A
    feature of Composable Kernel that `headers` lack is all that is said of a unit that needs it.
    """
    rendered = outcome.rendered
    wrong = wrong_values(unit, outcome, builtin) if rules else {}
    if rendered is None:
        if (other := _other_template(unit, outcome, builtin)) is not None:
            return replace(outcome, diagnostics=(*wrong.values(), other))
        kept = tuple(_at_its_cause(unit, one, outcome, builtin) for one in outcome.diagnostics)
        if wrong:
            kept = tuple(one for one in kept if not _follows(one, wrong, builtin))
        return replace(outcome, diagnostics=(*wrong.values(), *kept))
    wrong = {**operand_mismatches(unit, rendered.mentioned), **wrong}
    found = [*not_exported(rendered), *unused_parameters(unit, rendered), *unsupported_operations(unit, rendered)]
    found += wrong.values()
    lacking = None if headers is None or not rules else lacking_features(unit, rendered, headers)
    if lacking is not None:
        found = [lacking]
    elif rules:
        found += rule_diagnostics(unit, rendered.text, rendered.source_map, wrong=wrong, passed=passed)
        if not any(one.severity is Severity.ERROR for one in found):
            found += unchecked_diagnostics(unit, rendered.text)
        found = _without_unsupported(unit, found)
    every = (*outcome.diagnostics, *found)
    if unit.instance.sweep is not None and is_refused_by_rules(every):
        return replace(outcome, diagnostics=tuple(map(_as_information, every)), skipped=True)
    return replace(outcome, diagnostics=every)


def _without_unsupported(unit: Unit, found: list[Diagnostic]) -> list[Diagnostic]:
    """Without keys of the operation that do not go with a parameter whose value is wrong by itself."""
    errors = {one.span for one in found if one.severity is Severity.ERROR}
    wrong = {name for name, span in unit.instance.spans.items() if span in errors}
    return [
        one
        for one in found
        if one.code != "kernel-file/unsupported" or wrong.isdisjoint(re.findall(r"\w+", one.message))
    ]


def is_refused_by_rules(found: Iterable[Diagnostic]) -> bool:
    """Return True if there are errors, and all of them come from instance rules."""
    errors = [one.source for one in found if one.severity is Severity.ERROR]
    return bool(errors) and all(source is Source.RULE for source in errors)


def _as_information(one: Diagnostic) -> Diagnostic:
    return replace(one, severity=Severity.INFORMATION) if one.severity is Severity.ERROR else one


def not_exported(rendered: Rendered) -> tuple[Diagnostic, ...]:
    """An error for a kernel that is defined without `extern "C" PT_EXPORT`: nothing could find it in the library.

    Any macro whose name speaks of an export, and the attribute that it stands for, count as `PT_EXPORT`.
    """
    text = rendered.text
    for declared in _DEFINED.finditer(text):
        if declared[1] != rendered.symbol:
            continue
        before = text[: declared.start()]
        plain = re.sub(r"^[ \t]*#[^\n]*$|//[^\n]*$|/\*.*?\*/", "", before[-2000:], flags=re.MULTILINE | re.DOTALL)
        head = re.split(r"[;{}]", plain)[-1]
        missing = []
        if not re.search(r"extern\s+\"C\"", head) and not re.search(r"extern\s+\"C\"\s*\{", before):
            missing.append('extern "C"')
        if not re.search(r"EXPORT|visibility|declspec", head, re.IGNORECASE):
            missing.append("PT_EXPORT")
        if missing and (origin := rendered.source_map.origin_of_range(declared.start(), declared.start() + 1)):
            words = " ".join(missing)
            message = f"`{words}` is missing in front of the kernel: the compiled library would not offer it"
            start = origin.span.start
            at = Span(origin.span.path, start, start)
            # what is missing stands before PT_EXPORT, and the fix inserts behind it
            fixes = () if missing == ['extern "C"'] and head.strip() else (Fix(at, f"{words} "),)
            return (
                Diagnostic(*(Severity.ERROR, Source.JINJA, "template/not-exported", message, origin.span), fixes=fixes),
            )
    return ()


def unsupported_operations(unit: Unit, rendered: Rendered) -> Iterator[Diagnostic]:
    """An error for each `unsupported` in the text, at the first of its keys that the kernel file has."""
    kernel = unit.kernel
    for found in UNSUPPORTED.finditer(rendered.text):
        places = (kernel.operation_spans[key] for key in found[2].split() if key in kernel.operation_spans)
        origin = rendered.source_map.origin_of_range(found.start(), found.start() + 1)
        related = () if origin is None else (Related("the template says so here", origin.span),)
        message = re.sub(r"\\(.)", r"\1", found[1])
        yield kernel_file_error(unit, "unsupported", message, next(places, kernel.template_span), related)


def unused_parameters(unit: Unit, rendered: Rendered) -> tuple[Diagnostic, ...]:
    """An error for each parameter of the instance that no template mentions: it would be ignored silently.

    A template that looks at `parameters` as a whole may read any of them.
    """
    if "parameters" in rendered.mentioned:
        return ()
    known = {folded(name): name for name in sorted(rendered.mentioned)}
    unused = sorted(unit.instance.parameters.keys() - rendered.mentioned)
    return tuple(_misspelt(unit, name, _nearest(name, known)) for name in unused)


def _misspelt(unit: Unit, name: str, meant: str | None) -> Diagnostic:
    """The error for a parameter that no template reads, at its key."""
    span = unit.kernel.key_span(unit.instance, name)
    hint = f"; did you mean '{meant}'?" if meant else ""
    fixable = meant is not None and meant not in unit.instance.parameters and span in unit.kernel.key_spans.values()
    related = (Related(f"the template is '{unit.kernel.template}'", unit.kernel.template_span),)
    fixes = (Fix(span, meant),) if fixable and meant is not None else ()
    message = f"no template reads the parameter '{name}'{hint}"
    return kernel_file_error(unit, "unused-parameter", message, span, related, fixes)


def wrong_values(unit: Unit, outcome: RenderOutcome, builtin: str) -> dict[str, Diagnostic]:
    """Values of the instance that are none of their parameter's type, by parameter.

    A declaration binds where it is the kernel's own template's, and where no other template stands between it and the
    kernel file. Of a built-in template that one of the user's includes, it binds for parameters that no template of the
    user's mentions, and for all when rendering failed in it.
    """
    parameters = unit.instance.parameters
    found: dict[str, Diagnostic] = {}
    for name, declared in declared_types(unit, outcome, builtin).items():
        if name not in parameters:
            continue
        if (swept := _swept_elements(unit, name, declared)) is not None:
            found[name] = swept
        elif (problem := value_problem(name, declared, parameters[name])) is not None:
            found[name] = _wrong_value(unit, name, problem)
    if outcome.rendered is not None:
        for name, declared in _violated_types(unit, outcome.rendered):
            if name not in found and (problem := _scoped_problem(name, declared, parameters[name])) is not None:
                found[name] = _wrong_value(unit, name, problem)
    return {name: found[name] for name in parameters if name in found}


def _swept_elements(unit: Unit, name: str, declared: ParameterType) -> Diagnostic | None:
    """The error for an array that a sweep takes for the values of its elements' parameter, at its key."""
    value, sweep = unit.instance.parameters[name], unit.instance.sweep
    if sweep is None or declared.kind is not ValueKind.ARRAY or declared.or_integer or type(value) is not int:
        return None
    span = unit.kernel.key_span(unit.instance, name)
    if unit.instance.is_derived(name) or span == unit.instance.spans.get(name):
        return None
    length = "integers" if declared.length is None else f"{declared.length} integers"
    message = (
        f"`{name}` must be an array of {length}, and a sweep takes each element by itself: write [[…]] for one array"
    )
    return kernel_file_error(unit, "wrong-type", message, span)


def declared_types(unit: Unit, outcome: RenderOutcome, builtin: str) -> dict[str, ParameterType]:
    """The types that a kernel's parameters have by its template; see `wrong_values` for which declarations bind."""
    own_root = posixpath.join(builtin, unit.kernel.template) not in outcome.read
    failed_in = {one.span.path for one in outcome.diagnostics if one.severity is Severity.ERROR}
    failed_inside = any(_is_within(path, builtin) for path in failed_in)
    users = {name for path, names in outcome.mentions.items() if not _is_within(path, builtin) for name in names}
    found: dict[str, ParameterType] = {}
    # what a template says of one parameter counts more than what it says of all
    for declared in sorted(outcome.declared, key=lambda one: not one.operation):
        handed_on = own_root and _is_within(declared.path, builtin) and not failed_inside
        found.update((name, kind) for name, kind in _types_of(declared) if not (handed_on and name in users))
    return found


def _types_of(declared: ParameterDeclaration) -> Iterator[tuple[str, ParameterType]]:
    if declared.type is not None:
        yield declared.name, declared.type
    elif (operation := OPERATIONS.get(declared.operation)) is not None:
        for parameter in operation.parameters.values():
            if parameter.type is not None:
                yield parameter.name, parameter.type


def _violated_types(unit: Unit, rendered: Rendered) -> Iterator[tuple[str, ParameterType]]:
    """The parameters that stand as they are in a template argument that they cannot be."""
    names = SourceNames(rendered.text)
    for emitted in rendered_instances(rendered.text):
        operation = OPERATIONS.get(emitted.device_operation)
        for name, argument in emitted.arguments.items() if operation is not None else ():
            parameter = operation.parameters.get(name) if operation is not None else None
            declared = None if parameter is None else violated_type(parameter, argument, names)
            if declared is None:
                continue
            own = parameter_behind(unit, emitted, name, rendered.source_map)
            if own is None:
                continue
            value = unit.instance.parameters[own]
            if argument == value_words(value) or substituted(argument, value, value) is not None:
                yield own, declared


def _scoped_problem(name: str, declared: ParameterType, value: ParameterValue) -> ValueProblem | None:
    """The problem of a value that may carry its enumeration's scope, as PyTorch Inductor writes it."""
    scope, colons, last = value.rpartition("::") if isinstance(value, str) else ("", "", value)
    problem = value_problem(name, declared, last)
    if problem is None:
        return None
    meant = f"{scope}{colons}{problem.meant}" if colons and problem.meant is not None else problem.meant
    return replace(problem, meant=meant)


def _wrong_value(unit: Unit, name: str, problem: ValueProblem) -> Diagnostic:
    span, meant = unit.instance.spans.get(name), problem.meant
    fixable = span is not None and meant is not None and not unit.instance.is_derived(name)
    fixes = (Fix(span, toml_value(meant)),) if fixable and span is not None and meant is not None else ()
    return kernel_file_error(unit, problem.code, problem.message, span or unit.instance.span, fixes=fixes)


def _follows(one: Diagnostic, wrong: Mapping[str, Diagnostic], builtin: str) -> bool:
    """Return True if a template's error follows from wrong values: the template is right, or names one of them."""
    return _is_within(one.span.path, builtin) or any(f"'{name}'" in one.message for name in wrong)


def _other_template(unit: Unit, outcome: RenderOutcome, builtin: str) -> Diagnostic | None:
    """The error for a built-in template that needs much of which no instance has anything; None if it is another's."""
    undefined = (UNDEFINED.search(one.message) for one in outcome.diagnostics)
    missing = dict.fromkeys(found[1] or found[2] for found in undefined if found is not None)
    given = {name for one in (unit.instance, *unit.kernel.instances) for name in one.parameters}
    if len(missing) < FOREIGN or not given.isdisjoint(missing):
        return None
    if posixpath.join(builtin, unit.kernel.template) not in outcome.read:
        return None
    names = ", ".join(f"`{name}`" for name in missing)
    message = (
        f"no instance sets {names}, which `{unit.kernel.template}` needs: these are parameters of another template"
    )
    return kernel_file_error(unit, "other-template", message, unit.kernel.template_span)


def _at_its_cause(unit: Unit, one: Diagnostic, outcome: RenderOutcome, builtin: str) -> Diagnostic:
    """An error of a template that lacks a parameter, at the instance that does not give it.

    Of the user's own templates these are parameters that other instances give: else the template may have the mistake.
    """
    undefined = UNDEFINED.search(one.message)
    if undefined is None:
        return one
    name = undefined[1] or undefined[2]
    of_others = any(name in other.parameters for other in unit.kernel.instances)
    if not of_others and not _is_within(one.span.path, builtin):
        return one
    if (given := _slip_of(unit, name, outcome)) is not None:
        return replace(_misspelt(unit, given, name), units=(unit.id,))
    own_root = posixpath.join(builtin, unit.kernel.template) not in outcome.read
    if (
        own_root
        and not of_others
        and name not in {known for declared in outcome.declared for known, _ in _types_of(declared)}
    ):
        return one
    inside = _is_within(one.span.path, builtin)
    template = posixpath.relpath(one.span.path, builtin) if inside else posixpath.basename(one.span.path)
    message = f"the instance sets no parameter `{name}`, which `{template}` needs"
    related = (Related("needed here", one.span), *(more for more in one.related if more.span != unit.instance.span))
    return replace(one, message=message, span=unit.instance.span, related=related, fixes=(), units=(unit.id,))


def _slip_of(unit: Unit, name: str, outcome: RenderOutcome) -> str | None:
    """The parameter of the instance that is probably the missing `name`: like it, and none that is known otherwise."""
    known = {declared for one in outcome.declared for declared, _ in _types_of(one)}
    others = {given for one in unit.kernel.instances if name in one.parameters for given in one.parameters}
    return _nearest(name, {folded(given): given for given in unit.instance.parameters.keys() - known - others})


def _nearest(name: str, known: Mapping[str, str]) -> str | None:
    """The one of `known` names, by how they are folded, that `name` was probably meant to be."""
    near = difflib.get_close_matches(folded(name), known, n=1, cutoff=0.75)
    return known[near[0]] if near else None


def _is_within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
