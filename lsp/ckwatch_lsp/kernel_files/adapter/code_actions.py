"""Code actions in kernel files: accepted values, sweeps, measured parameters, instances of higher occupancy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import anyio
from lsprotocol import types

from ckwatch.model.amounts import count
from ckwatch.model.delays import CODE_ACTIONS
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position, Range
from ckwatch.wire.analysis import OccupancyChange, OccupancySteps, ResourceEstimate
from ckwatch.wire.benchmarks import RankedTiming
from ckwatch.wire.state import Unit
from ckwatch.workspace.toml import toml_value
from ckwatch_lsp.kernel_files.adapter.cache import DaemonAnswers, ParsedKernelFiles, subject_of
from ckwatch_lsp.kernel_files.adapter.conversion import text_edits
from ckwatch_lsp.kernel_files.language.completion import parameter_at
from ckwatch_lsp.kernel_files.language.document import (
    CursorContext,
    InstanceTable,
    KernelFileText,
    SweepEntry,
    cursor_context,
    values_of,
)
from ckwatch_lsp.kernel_files.language.edits import (
    KernelFileEdit,
    ValueChange,
    add_instance,
    apply_parameters,
    combinations,
    set_parameter,
    set_value,
    to_instances,
    to_sweep,
)
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import LanguageProvider, is_requested
from ckwatch_lsp.session.session import Session

OFFERED = 3
"""Accepted values of one parameter that are offered."""

SWEPT_LIMIT = 200
"""Instances of a sweep that are written out at most."""


class KernelFileActions(LanguageProvider):
    """Accepted values, sweeps and back, the best instance's parameters, instances of higher occupancy."""

    def __init__(self, session: Session, files: ParsedKernelFiles, answers: DaemonAnswers) -> None:
        self._session = session
        self._files = files
        self._answers = answers

    async def actions(
        self, document: TextDocument, within: Range, context: types.CodeActionContext
    ) -> Sequence[types.CodeAction]:
        """Return the actions for a range."""
        if document.kind is not DocumentKind.KERNEL_FILE:
            return ()
        file = await self._files.of(document)
        found: list[types.CodeAction] = []
        folder = self._session.folder_for(document)
        if is_requested(context.only, types.CodeActionKind.QuickFix) and folder is not None:
            for diagnostic in context.diagnostics:
                if str(diagnostic.code or "").startswith("rule/"):
                    found += await self._accepted(folder, document, file, diagnostic)
        if is_requested(context.only, types.CodeActionKind.RefactorRewrite):
            found += self._rewrites(folder, document, file, within.start)
        instance = file.instance_at(within.start)
        if folder is not None and instance is not None and _on_name(file, instance, within.start):
            with anyio.move_on_after(CODE_ACTIONS.seconds), suppress(CkwatchError):
                if is_requested(context.only, types.CodeActionKind.RefactorRewrite):
                    found += await self._best(folder, document, file, instance)
                if is_requested(context.only, types.CodeActionKind.Refactor):
                    found += await self._of_higher_occupancy(folder, document, file, instance)
        return found

    async def _accepted(
        self, folder: WorkspaceFolder, document: TextDocument, file: KernelFileText, diagnostic: types.Diagnostic
    ) -> list[types.CodeAction]:
        """The nearest values that the rules accept for the parameter that a diagnostic stands at."""
        position = document.codec.decode(diagnostic.range.start)
        spot = cursor_context(file.toml, position)
        name = parameter_at(file, position)
        if name is None:
            return []
        unit = _refused(folder, document, position, diagnostic)
        unit = unit or self._files.unit_of(folder, document, subject_of(file, position, name))
        if unit is None:
            return []
        parameters = await self._parameters(folder, file, position, unit.id)
        values, _ = await self._answers.values(folder, unit, name, parameters, wait_s=CODE_ACTIONS.seconds)
        instance = file.instance(unit.instance)
        made = []
        for one in [each for each in values if each.accepted][:OFFERED]:
            edit = self._setting(file, spot, instance, name, one.value)
            if edit is not None:
                title = f"Set {name} to {toml_value(one.value)}"
                made.append(self._action(document, title, [edit], types.CodeActionKind.QuickFix, diagnostic))
        if made:
            made[0].is_preferred = True
        return made

    def _setting(
        self, file: KernelFileText, spot: CursorContext, instance: InstanceTable | None, name: str, value: Any
    ) -> KernelFileEdit | None:
        """Return the place for a value: the old one's place, but one of `[defaults]` is set for this instance only."""
        if spot.table.path == ("defaults",):
            return None if instance is None else set_parameter(file, instance.table, name, value)
        return None if spot.value is None else set_value(file, spot.value, value)

    async def _parameters(
        self, folder: WorkspaceFolder, file: KernelFileText, position: Position, unit: str
    ) -> dict[str, Any]:
        """The parameters of the instance at a place as the text has them; of a sweep's unit as the daemon does."""
        instance = file.instance_at(position)
        if instance is None:
            instance = file.instance(unit.partition("/")[2].rpartition("@")[0])
        if instance is not None:
            return file.effective(instance)
        try:
            return dict((await folder.ready.unit(unit)).parameters)
        except CkwatchError:
            return values_of(file.defaults)

    def _rewrites(
        self, folder: WorkspaceFolder | None, document: TextDocument, file: KernelFileText, position: Position
    ) -> Iterator[types.CodeAction]:
        kind = types.CodeActionKind.RefactorRewrite
        instance, sweep = file.instance_at(position), file.sweep_at(position)
        if instance is not None:
            spot = cursor_context(file.toml, position)
            on = spot.pair.name if spot.pair is not None and spot.pair.name in instance.parameters else None
            edits = to_sweep(file, instance, on)
            if edits:
                title = f"Sweep over {on}" if on is not None else f"Turn {instance.name} into a sweep"
                yield self._action(document, title, edits, kind)
        if sweep is not None:
            instances = self._made(folder, document, file, sweep)
            edits = to_instances(file, sweep, instances) if 0 < len(instances) <= SWEPT_LIMIT else []
            if edits:
                one = "Write the instance out" if len(instances) == 1 else f"Write {len(instances)} instances out"
                yield self._action(document, one, edits, kind)

    def _made(
        self, folder: WorkspaceFolder | None, document: TextDocument, file: KernelFileText, sweep: SweepEntry
    ) -> dict[str, dict[str, Any]]:
        """The instances of a sweep; where it has conditions, those of its combinations that the daemon knows."""
        made = combinations(sweep) or {}
        name = sweep.table.value("name")
        if not sweep.has_conditions or name is None:
            return made
        line = file.toml.line_of(name.start)
        units = () if folder is None else folder.units_at(document.path or "")
        known = {unit.instance for unit in units if unit.place.start.line == line}
        return {instance: parameters for instance, parameters in made.items() if instance in known}

    async def _best(
        self, folder: WorkspaceFolder, document: TextDocument, file: KernelFileText, instance: InstanceTable
    ) -> list[types.CodeAction]:
        unit = self._files.unit_of(folder, document, instance)
        if unit is None or not any(each.timings for each in folder.units_at(document.path or "")):
            return []
        best = _first(await folder.ready.best(unit.kernel), self._session.settings.shape)
        if best is None or best.instance == instance.name or best.timing is None:
            return []
        detail = await folder.ready.unit(best.unit)
        parameters = {name: _plain(value) for name, value in detail.parameters.items()}
        edits = apply_parameters(file, instance, parameters)
        if not edits or best.timing.median_us is None:
            return []
        title = f"Apply the parameters of {best.instance} ({best.timing.median_us:.4g} µs on {best.shape})"
        return [self._action(document, title, edits, types.CodeActionKind.RefactorRewrite)]

    async def _of_higher_occupancy(
        self, folder: WorkspaceFolder, document: TextDocument, file: KernelFileText, instance: InstanceTable
    ) -> list[types.CodeAction]:
        """New instances behind this one, by its built unit's next step."""
        unit = self._files.unit_of(folder, document, instance)
        figures = None if unit is None or unit.instance != instance.name else unit.figures
        if unit is None or figures is None or figures.standing != "fresh" or not figures.next_step:
            return []
        steps = await self._answers.occupancy_steps(folder, unit, figures.artifact_key)
        if steps is None:
            return []
        taken = {one.name for one in file.instances} | {one.instance for one in folder.units_at(document.path or "")}
        made = []
        for change in steps.changes:
            changes = [ValueChange(one.name, one.before, one.after) for one in change.parameters]
            edit = add_instance(file, instance, changes, _meant(steps, change), taken)
            if edit is not None:
                title = f"Add an instance that may reach {_gain(steps)}: {', '.join(map(str, changes))}"
                made.append(self._action(document, title, [edit], types.CodeActionKind.Refactor))
        return made

    def _action(
        self,
        document: TextDocument,
        title: str,
        edits: Sequence[KernelFileEdit],
        kind: types.CodeActionKind,
        diagnostic: types.Diagnostic | None = None,
    ) -> types.CodeAction:
        return types.CodeAction(
            title=title,
            kind=kind,
            diagnostics=None if diagnostic is None else [diagnostic],
            edit=self._session.workspace_edit(text_edits(document, edits)),
        )


def _refused(
    folder: WorkspaceFolder, document: TextDocument, position: Position, diagnostic: types.Diagnostic
) -> Unit | None:
    """The unit in which the daemon found a diagnostic."""
    for one in folder.diagnostics(document.path or ""):
        if one.code == diagnostic.code and one.span.start.line == position.line:
            return next((folder.units[name] for name in one.units if name in folder.units), None)
    return None


def _first(ranked: Sequence[RankedTiming], shape: str) -> RankedTiming | None:
    """The best on the chosen shape, else on the first."""
    first = [one for one in ranked if one.rank == 1]
    return next((one for one in first if one.shape == shape), next(iter(first), None))


def _on_name(file: KernelFileText, instance: InstanceTable, position: Position) -> bool:
    """Return True if a place is on the table's header or its name."""
    offset = file.toml.offset(position)
    name = instance.table.pair("name")
    return offset <= instance.table.header_end or (name is not None and name.start <= offset <= name.end)


def _gain(steps: OccupancySteps) -> str:
    return f"{steps.workgroups} workgroups" if steps.waves is None else count(steps.waves, "wave")


def _meant(steps: OccupancySteps, change: OccupancyChange) -> str:
    """`meant to reach 3 waves/SIMD: LDS 64 → 32 KiB by estimate`."""
    of = "CU" if steps.waves is None else "SIMD"
    return f"meant to reach {_gain(steps)}/{of}: {', '.join(map(_estimate, change.estimates))} by estimate"


def _estimate(one: ResourceEstimate) -> str:
    if one.resource == "LDS":
        return f"LDS {one.present / 1024:.3g} → {one.estimated / 1024:.3g} KiB"
    return f"{one.resource} {one.present} → {one.estimated}"


def _plain(value: Any) -> Any:
    return [_plain(element) for element in value] if isinstance(value, tuple) else value
