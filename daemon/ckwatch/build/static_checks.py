"""What a rendered unit shows before any compiler runs."""

from __future__ import annotations

from ckwatch.lint import unused_parameters
from ckwatch.model.diagnostic import Diagnostic
from ckwatch.model.kernel import Unit
from ckwatch.render.outcome import Rendered
from ckwatch.rules.diagnosis import diagnose


def static_checks(unit: Unit, rendered: Rendered, *, rules: bool) -> tuple[Diagnostic, ...]:
    """Parameters that nothing reads and, with `rules`, instances that Composable Kernel would reject."""
    return (*unused_parameters(unit, rendered), *(diagnose(unit, rendered.text) if rules else ()))
