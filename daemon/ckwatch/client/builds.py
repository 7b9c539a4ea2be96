"""The results of builds and sweeps, by unit and by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_values import ParameterValue

if TYPE_CHECKING:  # the wire types load pydantic
    from collections.abc import AsyncIterator

    from ckwatch.client.sweep import Parameters
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.state import BuildLine, Unit


@dataclass(frozen=True, slots=True)
class UnitResult:
    """A unit that has settled.

    `unit` is its state then, None for a unit that is no more. `diagnostics` are those of this unit. `problem` says why
    it has no result: it was `cancelled` or `removed`. `parameters` are those that a sweep gave it. `checked`: it was no
    more than checked, whatever it compiled to before. `swept`: a sweep of this client made it.
    """

    id: str
    unit: Unit | None
    diagnostics: tuple[Diagnostic, ...] = ()
    problem: str | None = None
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    checked: bool = False
    swept: bool = False

    @property
    def skipped(self) -> bool:
        """True if it is one of a sweep, and instance rules refuse it: there is nothing to compile, and no mistake."""
        errors = [found for found in self.diagnostics if found.severity == "error"]
        refused = self.swept and bool(errors) and all(found.source == "rule" for found in errors)
        return refused or (self.unit is not None and self.problem is None and self.unit.outcome == "skipped")

    @property
    def ok(self) -> bool:
        """True if it compiled, or, if it was only checked, has no errors."""
        if self.problem is not None or self.unit is None or self.skipped:
            return False
        if self.checked:
            return not self.errors
        return self.unit.outcome in ("built", "checked") and self.unit.errors == 0

    @property
    def errors(self) -> int:
        """How many diagnostics are errors, as `errors` of a unit."""
        return sum(found.severity == "error" for found in self.diagnostics)

    @property
    def first_error(self) -> Diagnostic | None:
        """The first of them."""
        return next((found for found in self.diagnostics if found.severity == "error"), None)


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Every unit of a build, in the order of the kernel files."""

    units: tuple[UnitResult, ...]

    @property
    def ok(self) -> bool:
        """True if every unit is, apart from skipped ones."""
        return not self.failed

    @property
    def failed(self) -> tuple[UnitResult, ...]:
        """The units that are neither `ok` nor `skipped`."""
        return tuple(result for result in self.units if not result.ok and not result.skipped)

    @property
    def diagnostics(self) -> dict[str, tuple[Diagnostic, ...]]:
        """By file, in the order of their places. Equal ones of several units are one that names these units."""
        return by_file(self.units)


def unit_result(
    line: BuildLine, parameters: Mapping[str, Parameters] | None = None, *, checked: bool = False
) -> UnitResult:
    """The result in a `unit` line of a build, or of a check; `parameters` are those of a sweep's units."""
    unit_id = line.id or (line.unit.id if line.unit is not None else "")
    own = (parameters or {}).get(unit_id, {})
    return UnitResult(
        unit_id, line.unit, line.diagnostics, line.problem, own, checked=checked, swept=parameters is not None
    )


def by_file(results: tuple[UnitResult, ...]) -> dict[str, tuple[Diagnostic, ...]]:
    """The diagnostics of `results` by file, equal ones joined."""
    first: dict[tuple[object, ...], Diagnostic] = {}
    units: dict[tuple[object, ...], dict[str, None]] = {}
    for result in results:
        for found in result.diagnostics:
            key: tuple[object, ...] = (found.severity, found.source, found.code, found.message, found.span)
            first.setdefault(key, found)
            units.setdefault(key, {}).update(dict.fromkeys(found.units or (result.id,)))
    files: dict[str, list[Diagnostic]] = {}
    for key, found in first.items():
        joined = replace(found, units=tuple(units[key]), unit_count=len(results))
        files.setdefault(found.span.path, []).append(joined)
    return {path: tuple(sorted(files[path], key=_place)) for path in sorted(files)}


def _place(found: Diagnostic) -> tuple[int, int]:
    return found.span.start.line, found.span.start.column


class Sweep:
    """Iterates over the results of a sweep as they settle. `units` are the parameters of all its units, by id.

    `skipped` are the units so far that instance rules refuse, each with the code of the first rule that it breaks.
    """

    def __init__(
        self, lines: AsyncIterator[BuildLine], units: Mapping[str, Parameters], *, checked: bool = False
    ) -> None:
        self.units = units
        self.skipped: dict[str, str] = {}
        self._broken: list[tuple[str, str]] = []
        self._lines = lines
        self._checked = checked

    @property
    def summary(self) -> str:
        """`12 of 48 combinations are skipped, which break rules: 8 × …`; empty as long as none is."""
        from ckwatch.checks.skipped import skipped_text

        return skipped_text(len(self.units), self._broken) if self.skipped else ""

    def __aiter__(self) -> Sweep:
        return self

    async def __anext__(self) -> UnitResult:
        """The next result. Raises as `LineIterator`."""
        async for line in self._lines:
            if line.event == "unit":
                result = unit_result(line, self.units, checked=self._checked)
                if result.skipped:
                    error = result.first_error
                    code, message = ("", "") if error is None else (error.code, error.message)
                    self.skipped[result.id] = code
                    self._broken.append((code, message))
                return result
        raise StopAsyncIteration
