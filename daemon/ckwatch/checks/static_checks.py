"""Checks a rendered unit before any compiler runs.

Two checks: parameters of the instance that no template reads, and instances that Composable Kernel would reject
(`ckwatch.checks.rules`). Their diagnostics stand at the parameter's place in the kernel file.
"""

from __future__ import annotations

import difflib

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.instances import RenderedInstance, rendered_instances
from ckwatch.checks.rules.rule import Violation
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.model.text import Span
from ckwatch.render.outcome import Rendered


def static_checks(unit: Unit, rendered: Rendered, *, rules: bool) -> tuple[Diagnostic, ...]:
    """Parameters that nothing reads and, with `rules`, instances that Composable Kernel would reject."""
    return (*unused_parameters(unit, rendered), *(rule_diagnostics(unit, rendered.text) if rules else ()))


def unused_parameters(unit: Unit, rendered: Rendered) -> tuple[Diagnostic, ...]:
    """An error for each parameter of the instance that no template mentions: it would be ignored silently.

    A template that looks at `parameters` as a whole may read any of them.
    """
    if "parameters" in rendered.mentioned:
        return ()
    unused = sorted(unit.instance.parameters.keys() - rendered.mentioned)
    return tuple(_unused_parameter(unit, name, rendered.mentioned) for name in unused)


def _unused_parameter(unit: Unit, name: str, template_names: frozenset[str]) -> Diagnostic:
    folded = {candidate.replace("_", "").lower(): candidate for candidate in sorted(template_names)}
    near = difflib.get_close_matches(name.replace("_", "").lower(), folded, n=1, cutoff=0.75)
    hint = f"; did you mean '{folded[near[0]]}'?" if near else ""
    return Diagnostic(
        Severity.ERROR,
        Source.KERNEL_FILE,
        "kernel-file/unused-parameter",
        f"no template reads the parameter '{name}'{hint}",
        unit.instance.spans.get(name, unit.instance.span),
        (Related(f"the template is '{unit.kernel.template}'", unit.kernel.template_span),),
    )


OPERATION_KEYS = {
    "ADataType": "a.dtype",
    "ALayout": "a.layout",
    "BDataType": "b.dtype",
    "BLayout": "b.layout",
    "CDataType": "c.dtype",
    "CLayout": "c.layout",
    "GemmAccDataType": "accumulator",
    "DsDataType": "bias.dtype",
    "DsLayout": "bias.layout",
    "ComputeTypeA": "a.dtype",
    "ComputeTypeB": "b.dtype",
    "LDSTypeA": "a.dtype",
    "LDSTypeB": "b.dtype",
    "CShuffleDataType": "c.dtype",
}
"""Template parameters that a kernel file gives under `[operation]`, by the key that settles them."""


def rule_diagnostics(unit: Unit, rendered_text: str) -> tuple[Diagnostic, ...]:
    """The rules that the instances in `rendered_text` break, in the rules' order, each mistake once.

    The place is the blamed parameter's value in the kernel file. Where the kernel file does not give it, the place is
    another parameter that takes part, then the operation's key, then the instance.
    """
    found: dict[tuple[str, Span], Diagnostic] = {}
    for emitted in rendered_instances(rendered_text):
        for violation in check_instance(emitted.device_operation, emitted.arguments, unit.arch, source=rendered_text):
            diagnostic = _rule_diagnostic(unit, emitted, violation)
            found.setdefault((diagnostic.message, diagnostic.span), diagnostic)
    return tuple(found.values())


def _rule_diagnostic(unit: Unit, emitted: RenderedInstance, violation: Violation) -> Diagnostic:
    named = (violation.blame, *(name for name in violation.parameters if name != violation.blame))
    places = {name: span for name in named if (span := _parameter_span(unit, name)) is not None}
    shown = next(iter(places), None)
    related = tuple(
        Related(f"{name} = {_argument_text(emitted.arguments[name])}" if name in emitted.arguments else name, span)
        for name, span in places.items()
        if name != shown
    )
    return Diagnostic(
        severity=violation.severity,
        source=Source.RULE,
        code=f"rule/{violation.rule}",
        message=violation.message,
        span=places[shown] if shown is not None else unit.instance.span,
        related=(*related, Related(violation.source, None)),
        detail=violation.explanation,
        units=(unit.id,),
    )


def _parameter_span(unit: Unit, name: str) -> Span | None:
    span = unit.instance.spans.get(name)
    if span is None and name in OPERATION_KEYS:
        span = unit.kernel.operation_spans.get(OPERATION_KEYS[name])
    return span


def _argument_text(value: object) -> str:
    if isinstance(value, tuple):
        return f"S<{', '.join(map(str, value))}>"
    return str(value).lower() if isinstance(value, bool) else str(value)
