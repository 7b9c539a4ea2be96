"""What a rendered unit shows before any compiler runs, beside the instance rules: parameters that nothing reads."""

from __future__ import annotations

import difflib

from ckwatch.model.diagnostic import Diagnostic, Related, Severity, Source
from ckwatch.model.kernel import Unit
from ckwatch.render.outcome import Rendered


def unused_parameters(unit: Unit, rendered: Rendered) -> tuple[Diagnostic, ...]:
    """An error for each parameter of the instance that no template mentions: it would be ignored silently.

    A template that looks at `parameters` as a whole may read any of them.
    """
    if "parameters" in rendered.mentioned:
        return ()
    unused = sorted(unit.instance.parameters.keys() - rendered.mentioned)
    return tuple(_unused(unit, name, rendered.mentioned) for name in unused)


def _unused(unit: Unit, name: str, template_names: frozenset[str]) -> Diagnostic:
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
