"""Rule violations of a rendered unit as diagnostics at the parameter's place in the kernel file."""

from __future__ import annotations

from ckwatch.model.diagnostic import Diagnostic, Related, Source
from ckwatch.model.kernel import Unit
from ckwatch.model.text import Span
from ckwatch.rules.checking import check
from ckwatch.rules.emission import EmittedInstance, emitted_instances
from ckwatch.rules.model import Violation

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


def diagnose(unit: Unit, rendered_text: str) -> tuple[Diagnostic, ...]:
    """The rules that the instances in `rendered_text` break, in the rules' order, each mistake once.

    The place is the blamed parameter's value in the kernel file. Where the kernel file does not give it, the place is
    another parameter that takes part, then the operation's key, then the instance.
    """
    found: dict[tuple[str, Span], Diagnostic] = {}
    for emitted in emitted_instances(rendered_text):
        for violation in check(emitted.device_operation, emitted.arguments, unit.arch, source=rendered_text):
            diagnostic = _diagnostic(unit, emitted, violation)
            found.setdefault((diagnostic.message, diagnostic.span), diagnostic)
    return tuple(found.values())


def _diagnostic(unit: Unit, emitted: EmittedInstance, violation: Violation) -> Diagnostic:
    named = (violation.blame, *(name for name in violation.parameters if name != violation.blame))
    places = {name: span for name in named if (span := _place(unit, name)) is not None}
    shown = next(iter(places), None)
    related = tuple(
        Related(f"{name} = {_text(emitted.arguments[name])}" if name in emitted.arguments else name, span)
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


def _place(unit: Unit, name: str) -> Span | None:
    span = unit.instance.spans.get(name)
    if span is None and name in OPERATION_KEYS:
        span = unit.kernel.operation_spans.get(OPERATION_KEYS[name])
    return span


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"S<{', '.join(map(str, value))}>"
    return str(value).lower() if isinstance(value, bool) else str(value)
