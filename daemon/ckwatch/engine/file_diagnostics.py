"""The diagnostics of a file: which units have some in it, folded into one list."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from ckwatch.checks.fold import fold
from ckwatch.checks.refused_shapes import ShapeRefusals
from ckwatch.checks.skipped import skip_summaries
from ckwatch.core.events import MAIN, UnitKey
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.model.diagnostics import Diagnostic

DiagnosticsByUnit = Mapping[str, tuple[Diagnostic, ...]]


def fold_diagnostics(
    workspace: Iterable[Diagnostic],
    fresh: DiagnosticsByUnit,
    stale: DiagnosticsByUnit,
    unit_count: int,
    shapes: Callable[[], Iterable[Diagnostic]] = tuple,
) -> tuple[Diagnostic, ...]:
    """The workspace's own diagnostics, those of `shapes`, then the units', equal ones once.

    A diagnostic is stale when all units in which it arises are being worked on.
    """
    units = fold({**fresh, **stale}, unit_count)
    marked = (one if any(unit in fresh for unit in one.units) else replace(one, stale=True) for one in units)
    return (*workspace, *shapes(), *marked)


class DiagnosedFiles:
    """Which units have diagnostics in which file, kept up to date unit by unit."""

    def __init__(self) -> None:
        self._files: dict[UnitKey, frozenset[str]] = {}
        self._units: dict[tuple[str, str], dict[str, None]] = {}

    def update(self, key: UnitKey, files: frozenset[str]) -> None:
        """The unit has diagnostics in `files` and in no others."""
        old = self._files.get(key, frozenset())
        if old == files:
            return
        for path in old - files:
            units = self._units[key.scope, path]
            units.pop(key.unit, None)
            if not units:
                del self._units[key.scope, path]
        for path in files - old:
            self._units.setdefault((key.scope, path), {})[key.unit] = None
        if files:
            self._files[key] = files
        else:
            self._files.pop(key, None)

    def units(self, scope: str, path: str) -> list[str]:
        """The units of exactly this scope."""
        return list(self._units.get((scope, path), ()))

    def paths(self, scope: str) -> list[str]:
        """The files in which units of exactly this scope have diagnostics."""
        return [path for name, path in self._units if name == scope]


def file_diagnostics(
    state: State, diagnosed: DiagnosedFiles, scope: str, path: str
) -> tuple[tuple[Diagnostic, ...], DiagnosticsByUnit, DiagnosticsByUnit, int]:
    """The arguments of `fold_diagnostics` for a file. What sweeps skip is summed up with the workspace's own."""
    view = state.views.get(scope, state.main)
    own = view if view.workspace is not None else state.main
    units = _units_with_diagnostics(state, diagnosed, scope, path)
    fresh: dict[str, tuple[Diagnostic, ...]] = {}
    stale: dict[str, tuple[Diagnostic, ...]] = {}
    for name, unit in units.items():
        here = tuple(one for one in unit.diagnostics if one.span.path == path)
        if here and not _is_skipped(unit):
            (fresh if unit.settled or unit.compile.live_diagnostics else stale)[name] = here
    readers = sum(key.scope == MAIN for key in state.graph.readers(path))
    kernels = sum(len(kernel.units) for kernel in own.kernels.values() if kernel.kernel.path == path)
    skipped = _skip_summaries(units.values())
    workspace = (*own.diagnostics.get(path, ()), *(one for one in skipped if one.span.path == path))
    return workspace, fresh, stale, max(readers, kernels, len(units))


def refused_shapes(
    state: State, diagnosed: DiagnosedFiles, refusals: ShapeRefusals, scope: str, path: str = ""
) -> Callable[[], Iterable[Diagnostic]] | None:
    """A function that makes the warnings about shapes that instances refuse, for a thread; None where there is none to
    make. Those of one file, or of all. Instances with an error in their kernel file do not count."""
    view = state.views.get(scope, state.main)
    own = view if view.workspace is not None else state.main
    kernels = [one.kernel for one in own.kernels.values() if one.kernel.shapes and path in ("", one.kernel.path)]
    if not kernels or not view.options.rules:
        return None
    failing: dict[str, set[str]] = {}
    for kernel in kernels:
        for unit in _units_with_diagnostics(state, diagnosed, scope, kernel.path).values():
            if unit.render.facts is not None and not unit.render.facts.ok:
                failing.setdefault(kernel.name, set()).add(unit.unit.instance.name)
    return lambda: [one for each in kernels for one in refusals.warnings(each, failing.get(each.name, ()))]


def skipped_in_sweeps(state: State, diagnosed: DiagnosedFiles, scope: str) -> tuple[Diagnostic, ...]:
    """Return what the sweeps of all kernel files skip, as diagnostics."""
    view = state.views.get(scope, state.main)
    own = view if view.workspace is not None else state.main
    paths = dict.fromkeys(
        kernel.kernel.path for kernel in own.kernels.values() if any(one.sweep for one in kernel.kernel.instances)
    )
    units = [unit for path in paths for unit in _units_with_diagnostics(state, diagnosed, scope, path).values()]
    return _skip_summaries(units)


def _skip_summaries(units: Collection[UnitState]) -> tuple[Diagnostic, ...]:
    reported = (one for unit in units if not _is_skipped(unit) for one in unit.diagnostics)
    return skip_summaries(((unit.unit, unit.diagnostics) for unit in units if _is_skipped(unit)), reported)


def _units_with_diagnostics(state: State, diagnosed: DiagnosedFiles, scope: str, path: str) -> dict[str, UnitState]:
    names = dict.fromkeys(diagnosed.units(MAIN, path))
    if scope != MAIN:
        names |= dict.fromkeys(diagnosed.units(scope, path))
    seen = {name: state.seen(scope, name) for name in names}
    return {name: unit for name, unit in seen.items() if unit is not None}


def _is_skipped(unit: UnitState) -> bool:
    return unit.render.facts is not None and unit.render.facts.skipped


def normal_path(path: str) -> str:
    """An absolute path without `..` and doubled slashes; links are not followed."""
    return os.path.normpath(path)
