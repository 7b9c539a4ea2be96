"""Render: has units rendered and checked without a compiler, and keeps the texts that will be needed again soon.

Five thousand texts would not fit in memory; they can be rendered again. What renders have read is kept once for all
units that have read the same.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from sys import intern
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

import ckwatch_templates
from ckwatch.checks.blame import operation_number, passed_values
from ckwatch.checks.static_checks import static_checks
from ckwatch.compile.rendered_unit import has_all_headers, lacking_headers
from ckwatch.core.effects import Check, Compile, LookUp, Render, RenderPriority
from ckwatch.core.events import RenderFacts, RenderFinished, UnitKey, ViewOverrides
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.render_request import Checks, RenderAnswer
from ckwatch.headers.searched_headers import SearchedHeaders, searched_headers
from ckwatch.model.diagnostics import Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.render.outcome import Rendered, RenderLimits, RenderOutcome
from ckwatch.system.user_files import read_file
from ckwatch.workspace.files import writable_by_others
from ckwatch.workspace.loading import Workspace

CHARACTERS_KEPT = 8_000_000
"""Their maps take three times as much."""

CHARACTERS_AT_REST = 500_000
"""Of them, while nothing happens."""

TEXTS_AT_REST = 50
"""The same in texts, also of those whose artifact is known: of short ones it is the names and the map that take
memory."""

READS_KEPT = 50

UNITS_KEPT = 10_000

BUILTIN = str(ckwatch_templates.ROOT)

NOTHING: frozenset[str] = frozenset()

_Values = TypeVar("_Values")


class TextCache:
    """The most recently used texts, by unit and generation."""

    def __init__(self, limit: int = CHARACTERS_KEPT) -> None:
        self._limit = limit
        self._size = 0
        self._texts: OrderedDict[UnitKey, tuple[int, Rendered]] = OrderedDict()
        self._settled: deque[tuple[UnitKey, int]] = deque()

    def put(self, key: UnitKey, generation: int, rendered: Rendered) -> None:
        """Keep the text of this generation, and drop the least recently used ones."""
        self.drop(key)
        self._texts[key] = (generation, rendered)
        self._size += len(rendered.text)
        self._shrink(self._limit, self._limit)

    def get(self, key: UnitKey, generation: int) -> Rendered | None:
        """The text of this generation, if it is kept."""
        kept = self._texts.get(key)
        if kept is None or kept[0] != generation:
            return None
        self._texts.move_to_end(key)
        return kept[1]

    def settle(self, key: UnitKey, generation: int) -> None:
        """No compiler needs the text of this generation any more: only the last few of these are kept."""
        self._settled.append((key, generation))
        if len(self._settled) > TEXTS_AT_REST:
            key, generation = self._settled.popleft()
            if key in self._texts and self._texts[key][0] == generation:
                self.drop(key)

    def rest(self) -> None:
        """Keep a few."""
        self._shrink(CHARACTERS_AT_REST, TEXTS_AT_REST)

    def _shrink(self, limit: int, texts: int) -> None:
        """Drop the least recently used ones, until so many characters and texts are left, or one text."""
        while (self._size > limit or len(self._texts) > texts) and len(self._texts) > 1:
            _, (_, oldest) = self._texts.popitem(last=False)
            self._size -= len(oldest.text)

    def drop(self, key: UnitKey) -> None:
        """Forget the unit's text."""
        kept = self._texts.pop(key, None)
        if kept is not None:
            self._size -= len(kept[1].text)


class SharedReads:
    """The reads of the last renders: units of one template are rendered one after the other."""

    def __init__(self) -> None:
        self._last: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}

    def shared(self, reads: Mapping[str, str]) -> Mapping[str, str]:
        """Equal to `reads`, and the same object as before if it can be."""
        key = frozenset(reads.items())
        known = self._last.get(key)
        if known is None:
            known = self._last[key] = {intern(path): intern(digest) for path, digest in reads.items()}
            if len(self._last) > READS_KEPT:
                del self._last[next(iter(self._last))]
        return known


class RenderHandler:
    """Renders units for the core, for the other handlers, and for queries."""

    def __init__(self, tools: BuildTools, view_loader: ViewLoader, threads: CapacityLimiter) -> None:
        self._tools = tools
        self._view_loader = view_loader
        self._threads = threads
        self._reads = SharedReads()
        self._mentioned: dict[frozenset[str], frozenset[str]] = {}
        self._passed: dict[str, tuple[Mapping[str, ParameterValue], int]] = {}
        """The parameters and operations with which units last had no error: what differs was changed since."""
        self._worked: dict[str, Mapping[str, ParameterValue]] = {}
        """The parameters with which units last compiled."""
        self.text_cache = TextCache()

    async def run(self, effect: Render) -> RenderFinished:
        """Render a unit and check it without a compiler, after any urgent load."""
        await self._view_loader.wait_for_urgent()
        workspace = self._view_loader.workspace(effect.work.key.scope)
        outcome = await self._outcome(workspace, effect.unit, effect.overlays, effect.options, effect.priority)
        text = outcome.rendered
        if text is not None:
            if len(self._mentioned) > READS_KEPT:
                self._mentioned.clear()
            text = replace(text, mentioned=self._mentioned.setdefault(text.mentioned, text.mentioned))
            self.text_cache.put(effect.work.key, effect.work.generation, text)
        reads = outcome.read
        if not reads:
            reads = await to_thread.run_sync(_template_digest, effect.unit, workspace, limiter=self._threads)
        facts = RenderFacts(
            outcome.ok,
            outcome.diagnostics,
            self._reads.shared(reads),
            frozenset(map(intern, outcome.missed)) if outcome.missed else NOTHING,
            "" if text is None else intern(f"{text.symbol}:{text.token_key}"),
            "" if text is None else text.symbol,
            outcome.skipped,
            "" if text is None else await self._lacking(workspace, effect.unit, text),
            frozenset(map(intern, outcome.headers)) if outcome.headers else NOTHING,
        )
        return RenderFinished(effect.work, facts)

    def note_passed(self, unit: Unit) -> None:
        """The unit has no error with the parameters that it has now."""
        _note(self._passed, unit, (unit.instance.parameters, operation_number(unit.kernel.operation)))

    def note_worked(self, unit: Unit) -> None:
        """The unit has compiled with the parameters that it has now."""
        _note(self._worked, unit, unit.instance.parameters)

    def worked(self, unit: Unit) -> Mapping[str, ParameterValue] | None:
        """The parameters with which the unit last compiled; None if that is not known."""
        return self._worked.get(unit.id)

    async def _lacking(self, workspace: Workspace, unit: Unit, text: Rendered) -> str:
        compiler = self._tools.compiler
        if compiler is None or has_all_headers(compiler.toolchain):
            return ""
        return intern(await to_thread.run_sync(lacking_headers, compiler.toolchain, workspace, unit, text))

    async def text_of(self, effect: LookUp | Check | Compile) -> Rendered | None:
        """The text with the effect's tokens; None when the template changed since, or has errors now."""
        work = effect.work
        text = await self.text(work.key, work.generation, effect.unit, effect.overlays, effect.options)
        return None if text is None or f"{text.symbol}:{text.token_key}" != work.tokens else text

    async def text(
        self, key: UnitKey, generation: int, unit: Unit, overlays: Mapping[str, str], options: ViewOverrides
    ) -> Rendered | None:
        """The unit's text: the kept one, else rendered again; None when the template has errors."""
        kept = self.text_cache.get(key, generation)
        if kept is not None:
            return kept
        outcome = await self.outcome(key, unit, overlays, options)
        if outcome.rendered is not None:
            self.text_cache.put(key, generation, outcome.rendered)
        return outcome.rendered

    async def outcome(
        self,
        key: UnitKey,
        unit: Unit,
        overlays: Mapping[str, str],
        options: ViewOverrides,
        *,
        header_folders: tuple[Path, ...] | None = None,
    ) -> RenderOutcome:
        """The unit's render with its diagnostics, for a compiler with these headers; by default the workspace's own."""
        workspace = self._view_loader.workspace(key.scope)
        return await self._outcome(workspace, unit, overlays, options, header_folders=header_folders)

    async def present(self, state: State, unit: UnitState) -> RenderOutcome:
        """The render of a unit as its view has it now."""
        view = state.views[unit.key.scope]
        return await self.outcome(unit.key, unit.unit, dict(view.overlays), view.options)

    def known(self, unit: UnitState) -> RenderOutcome | None:
        """The render of a unit as its view has it now, if that is over, without errors, and kept."""
        facts, kept = unit.render.facts, self.text_cache.get(unit.key, unit.input.generation)
        if kept is None or facts is None or unit.unrendered:
            return None
        return RenderOutcome(kept, facts.diagnostics, facts.reads, facts.missed, headers=facts.headers)

    async def awaited(self, state: State, unit: UnitState) -> RenderOutcome:
        """The render of a unit as its view has it now, before other renders and without any checks: a person waits."""
        known = self.known(unit)
        if known is not None:
            return known
        overlays = dict(state.views[unit.key.scope].overlays)
        workspace = self._view_loader.workspace(unit.key.scope)
        return await self.unchecked(workspace, unit.unit, overlays, RenderPriority.LOOKED_AT)

    async def unchecked(
        self,
        workspace: Workspace,
        unit: Unit,
        overlays: Mapping[str, str],
        priority: RenderPriority = RenderPriority.OTHERS,
    ) -> RenderOutcome:
        """A render within the workspace's limits, as the worker gives it."""
        return (await self._rendered(workspace, unit, overlays, priority)).outcome

    async def _rendered(
        self,
        workspace: Workspace,
        unit: Unit,
        overlays: Mapping[str, str],
        priority: RenderPriority,
        checks: Checks | None = None,
        header_folders: tuple[Path, ...] | None = None,
    ) -> RenderAnswer:
        settings = workspace.settings.render
        limits = RenderLimits(settings.time_limit_s, settings.output_limit_bytes)
        renderers = self._tools.renderers(workspace.template_folders)
        return await renderers.render(
            *(unit, limits, overlays),
            priority=priority,
            checks=checks,
            header_folders=self._tools.searched_for_headers(workspace, header_folders),
        )

    async def _outcome(
        self,
        workspace: Workspace,
        unit: Unit,
        overlays: Mapping[str, str],
        options: ViewOverrides,
        priority: RenderPriority = RenderPriority.OTHERS,
        *,
        header_folders: tuple[Path, ...] | None = None,
    ) -> RenderOutcome:
        known = self._passed.get(unit.id)
        passed = None if known is None else passed_values(*known)
        cache = None if overlays or not options.rules else self._tools.render_cache_folder
        checks = Checks(options.rules, passed, workspace.writers, cache)
        answer = await self._rendered(workspace, unit, overlays, priority, checks, header_folders)
        outcome = answer.outcome
        if answer.broken:
            raise CkwatchError(f"the checks of the render broke down:\n{answer.broken}")
        if not answer.is_clean:
            # Messages speak of the kernel's other instances, which the worker does not know.
            with_checks = partial(
                _with_static_checks,
                *(unit, outcome, workspace, overlays, passed),
                rules=options.rules,
                headers=searched_headers(
                    unit.kernel.flags, self._tools.searched_for_headers(workspace, header_folders)
                ),
            )
            outcome = await to_thread.run_sync(with_checks, limiter=self._threads)
        if outcome.ok:
            self.note_passed(unit)
        return outcome


def _note(kept: dict[str, _Values], unit: Unit, values: _Values) -> None:
    kept.pop(unit.id, None)
    kept[unit.id] = values
    if len(kept) > UNITS_KEPT:
        del kept[next(iter(kept))]


def _with_static_checks(
    unit: Unit,
    outcome: RenderOutcome,
    workspace: Workspace,
    overlays: Mapping[str, str],
    passed: Mapping[str, ParameterValue] | None,
    *,
    rules: bool,
    headers: SearchedHeaders,
) -> RenderOutcome:
    """The render with the diagnostics that need no compiler; refused where others can write a template it read."""
    outcome = static_checks(unit, outcome, rules=rules, builtin=BUILTIN, passed=passed, headers=headers)
    outcome = outcome.with_headers(headers)
    foreign = workspace.writers.foreign(outcome.templates, overlays, BUILTIN)
    if foreign is None:
        return outcome
    # What is compiled of it runs here. A new mode leaves the contents as they are: any event of the file has to lead to
    # another render.
    path, refusal = foreign
    read = {**outcome.read, path: f"{outcome.read[path]} refused"}
    return RenderOutcome(None, (writable_by_others(path, Source.JINJA, refusal),), read, outcome.missed)


def _template_digest(unit: Unit, workspace: Workspace) -> dict[str, str]:
    """Return the least that a stopped render has read: its template. A fix of it has to lead to another render."""
    for folder in workspace.template_folders:
        path = folder / unit.kernel.template
        try:
            return {str(path): hashlib.sha256(read_file(path)).hexdigest()}
        except OSError:
            continue
    return {}
