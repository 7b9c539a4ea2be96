"""Builds and sweeps: their lines as units settle, and their results by unit and by file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ckwatch.client.connection import parsed
from ckwatch.client.errors import DaemonGoneError
from ckwatch.client.http import Exchange
from ckwatch.model.kernels import ParameterValue

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.client.sweep import Parameters
    from ckwatch.wire.messages import BuildLine
    from ckwatch.wire.state import Diagnostic, Unit


@dataclass(frozen=True, slots=True)
class UnitResult:
    """A unit that has settled.

    `unit` is its state then, None for a unit that is no more. `diagnostics` are those of this unit. `problem` says why
    it has no result: it was `cancelled` or `removed`. `parameters` are those that a sweep gave it.
    """

    id: str
    unit: Unit | None
    diagnostics: tuple[Diagnostic, ...] = ()
    problem: str | None = None
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it compiled, or, where it was only checked, has no errors."""
        if self.problem is not None or self.unit is None:
            return False
        return self.unit.outcome in ("built", "checked") and self.unit.errors == 0

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(found for found in self.diagnostics if found.severity == "error")


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Every unit of a build, in the order of the kernel files."""

    units: tuple[UnitResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every unit is."""
        return all(result.ok for result in self.units)

    @property
    def failed(self) -> tuple[UnitResult, ...]:
        """The units that are not `ok`."""
        return tuple(result for result in self.units if not result.ok)

    @property
    def diagnostics(self) -> dict[str, tuple[Diagnostic, ...]]:
        """By file, in the order of their places. Equal ones of several units are one that names these units."""
        return by_file(self.units)


def unit_result(line: BuildLine, parameters: Mapping[str, ParameterValue] | None = None) -> UnitResult:
    """The result that a `unit` line of a build tells."""
    unit_id = line.id or (line.unit.id if line.unit is not None else "")
    return UnitResult(unit_id, line.unit, line.diagnostics, line.problem, parameters or {})


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
        joined = found.model_copy(update={"units": tuple(units[key]), "unit_count": len(results)})
        files.setdefault(found.span.path, []).append(joined)
    return {path: tuple(sorted(files[path], key=_place)) for path in sorted(files)}


def _place(found: Diagnostic) -> tuple[int, int]:
    return found.span.start.line, found.span.start.column


class BuildLines:
    """Iterates over `start`, a `unit` for each that settles, and `done`. May be waited for with a time limit."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._done = False

    def __aiter__(self) -> BuildLines:
        return self

    async def __anext__(self) -> BuildLine:
        """The next line. Raises DaemonGoneError when the daemon ends before the build."""
        from ckwatch.wire.messages import BuildLine

        while not self._done:
            data = await self._exchange.line()
            if data is None:
                raise DaemonGoneError("the daemon was stopped during the build", began=True)
            line = parsed(BuildLine, data)
            self._done = line.event == "done"
            if line.event != "heartbeat":
                return line
        raise StopAsyncIteration


class Sweep:
    """Iterates over the results of a sweep as they settle. `units` are the parameters of all its units, by id."""

    def __init__(self, lines: BuildLines, units: Mapping[str, Parameters]) -> None:
        self.units = units
        self._lines = lines

    def __aiter__(self) -> Sweep:
        return self

    async def __anext__(self) -> UnitResult:
        """The next result. Raises as `BuildLines`."""
        async for line in self._lines:
            if line.event == "unit":
                result = unit_result(line)
                return unit_result(line, self.units.get(result.id))
        raise StopAsyncIteration
