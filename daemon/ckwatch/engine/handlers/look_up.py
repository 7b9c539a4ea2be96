"""LookUp: asks the store for what a unit compiles to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.rendered_unit import compile_request, compiler_inputs
from ckwatch.compile.store.content_hashes import ContentSnapshot
from ckwatch.core.effects import LookUp
from ckwatch.core.events import LookUpFinished
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.compile_facts import facts_of
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.model.kernels import Outcome

SNAPSHOT_S = 0.5
"""All look-ups within this time share one look at the headers; later changes come as events of their own."""


class RecentSnapshot:
    """The contents of files as they were at most half a second ago."""

    def __init__(self) -> None:
        self._snapshot: ContentSnapshot | None = None
        self._taken_at = 0.0

    def of(self, compiler: CompilerWithStore) -> ContentSnapshot:
        """The last snapshot, or a new one when that is too old."""
        now = time.monotonic()
        if self._snapshot is None or now - self._taken_at > SNAPSHOT_S:
            self._snapshot, self._taken_at = compiler.builder.look(), now
        return self._snapshot

    def reset(self) -> None:
        """Take a new one next time."""
        self._snapshot = None


@dataclass(eq=False)
class LookUpHandler:
    """Finds results in the store."""

    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _snapshot: RecentSnapshot
    _background_pch: BackgroundPch

    async def run(self, effect: LookUp) -> LookUpFinished:
        """Look up the unit in the store; nothing when the unit's text changed meanwhile."""
        compiler = self._tools.require_compiler()
        text = await self._renders.text_of(effect)
        if text is None:
            return LookUpFinished(effect.work, None, at=time.time())
        scope = effect.work.key.scope
        header_warnings = self._view_loader.shows_header_warnings(scope, effect.options)
        workspace = self._view_loader.workspace(scope)
        inputs = compiler_inputs(workspace, effect.unit, text)
        take = partial(facts_of, self._tools, effect, text, header_warnings, inputs)
        request = compile_request(workspace, effect.unit, text)
        facts = await compiler.builder.find_and(request, take, self._snapshot.of(compiler))
        found = facts is not None and facts.outcome is Outcome.BUILT
        self._background_pch.note(request, effect.unit.id, self._tools.ladder_of, built=found, compiled=False)
        return LookUpFinished(effect.work, facts, at=time.time())
