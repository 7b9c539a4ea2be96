"""Diagnostics for the instance rules that a rendered unit breaks: which parameter to change, and to what.

A condition has several parameters, and any of them can be the mistake: `ckwatch.checks.blame` finds the one to show.
Its fix is a value with which no rule is broken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ckwatch.checks.blame import Blame, Culprit
from ckwatch.checks.fold import in_one_line
from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.instances import RenderedInstance, rendered_instances, unchecked_operations
from ckwatch.checks.rules.rule import Violation
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.model.source_map import SourceMap
from ckwatch.model.text import Span
from ckwatch.workspace.toml import toml_value


def rule_diagnostics(
    unit: Unit,
    rendered_text: str,
    source_map: SourceMap | None = None,
    *,
    wrong: Collection[str] = (),
    passed: Mapping[str, ParameterValue] | None = None,
) -> tuple[Diagnostic, ...]:
    """The rules that the instances in `rendered_text` break, each mistake once.

    The place is the blamed parameter's value in the kernel file, else the operation's key, then the instance. All rules
    that one value breaks are one message, to which the others are related. Rules about the parameters in `wrong` are
    left out: their values are wrong in themselves. `passed` are the parameters with which the unit last broke no rule.
    """
    found: dict[Span, Diagnostic] = {}
    for emitted in rendered_instances(rendered_text):
        broken = check_instance(emitted.device_operation, emitted.arguments, unit.arch, source=rendered_text)
        if not broken:
            continue
        blame = Blame(unit, emitted, rendered_text, source_map, passed)
        kept = [one for one in broken if not any(blame.own(name) in wrong for name in one.parameters)]
        for culprit in blame.culprits(kept):
            diagnostic = _diagnostic(unit, emitted, blame, culprit)
            first = found.setdefault(diagnostic.span, diagnostic)
            known = {first.message, *(one.message for one in first.related)}
            if not known & {diagnostic.message, in_one_line(diagnostic.message)}:
                note = Related(in_one_line(diagnostic.message), None)
                found[diagnostic.span] = replace(first, related=(*first.related, note))
    return tuple(found.values())


def unchecked_diagnostics(unit: Unit, rendered_text: str) -> tuple[Diagnostic, ...]:
    """A hint where the kernel file names its template: what the rules did not check, so that silence is no approval."""
    left = unchecked_operations(rendered_text)
    if not left:
        return ()
    message = f"{'; '.join(left)}: only the compiler checks that"
    span = unit.kernel.template_span
    return (Diagnostic(Severity.HINT, Source.RULE, "rule/not-checked", message, span, units=(unit.id,)),)


def _diagnostic(unit: Unit, emitted: RenderedInstance, blame: Blame, found: Culprit | Violation) -> Diagnostic:
    culprit = found if isinstance(found, Culprit) else None
    violation, *others = found.violations if isinstance(found, Culprit) else (found,)
    shown = culprit.argument if culprit is not None else ""
    named = dict.fromkeys((violation.blame, *(violation.terms or violation.parameters), shown))
    places = {name: span for name in named if (span := blame.span_of(name)) is not None}
    if culprit is None:
        shown = next(iter(places), "")
    related = [
        Related(f"{name} = {_argument_text(emitted.arguments[name])}", span)
        if name in emitted.arguments
        else Related(name, span)
        for name, span in places.items()
        if name != shown
    ]
    related += [Related(in_one_line(one.message), None) for one in others]
    fixes: tuple[Fix, ...] = ()
    if culprit is not None and culprit.own is not None and culprit.value is not None:
        value = toml_value(culprit.value)
        related.append(Related(f"no rule is broken with {culprit.own} = {value}", None))
        if culprit.everywhere and not unit.instance.is_derived(culprit.own):
            fixes = (Fix(culprit.span, value),)
    span = places.get(shown) if culprit is None else culprit.span
    if span is None:
        arch_span = unit.kernel.arch_spans.get(unit.arch, unit.kernel.template_span)
        span = unit.instance.span if violation.parameters else arch_span
    return Diagnostic(
        severity=violation.severity,
        source=Source.RULE,
        code=f"rule/{violation.rule}",
        message=violation.message,
        span=span,
        related=(*related, Related(violation.source, None)),
        detail=violation.explanation,
        fixes=fixes,
        units=(unit.id,),
    )


def _argument_text(value: object) -> str:
    if isinstance(value, tuple):
        return f"S<{', '.join(map(str, value))}>"
    return str(value).lower() if isinstance(value, bool) else str(value)
