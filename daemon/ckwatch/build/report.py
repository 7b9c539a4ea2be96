"""What came of building units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ckwatch.model.diagnostic import Diagnostic, Severity
from ckwatch.model.kernel import Unit
from ckwatch.model.outcome import Outcome
from ckwatch.render.outcome import Rendered
from ckwatch.store import Artifact


class Phase(StrEnum):
    """Where a unit is."""

    RENDERING = "rendering"
    CHECKED = "checked"
    COMPILING = "compiling"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class UnitReport:
    """One unit's result. `reads` maps the template files that were read to their content hashes."""

    unit: Unit
    outcome: Outcome
    diagnostics: tuple[Diagnostic, ...]
    rendered: Rendered | None = None
    artifact: Artifact | None = None
    key: str = ""
    from_store: bool = False
    seconds: float = 0.0
    reads: Mapping[str, str] | None = None
    missed: frozenset[str] = frozenset()

    @property
    def failed(self) -> bool:
        """Whether the kernel itself has errors."""
        return self.outcome is Outcome.FAILED


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The results of one command; `workspace_diagnostics` are those of configuration and kernel files."""

    units: tuple[UnitReport, ...]
    workspace_diagnostics: tuple[Diagnostic, ...]
    seconds: float

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All messages, each once: the same one from several units names them."""
        from ckwatch.diagnostics.fold import fold

        per_unit: Mapping[str, Sequence[Diagnostic]] = {report.unit.id: report.diagnostics for report in self.units}
        return (*self.workspace_diagnostics, *fold(per_unit, len(self.units)))

    def count(self, outcome: Outcome) -> int:
        """Units that ended so."""
        return sum(report.outcome is outcome for report in self.units)

    @property
    def exit_status(self) -> int:
        """1 for errors in kernels; 2 where the host failed and no kernel did."""
        errors = any(diagnostic.severity is Severity.ERROR for diagnostic in self.workspace_diagnostics)
        if errors or any(report.failed for report in self.units):
            return 1
        return 2 if self.count(Outcome.FAULTED) else 0
