"""Check: runs the host pass of a unit, whose errors are known long before the device pass ends."""

from __future__ import annotations

import time
from dataclasses import dataclass

from anyio import CapacityLimiter, to_thread

from ckwatch.compile.build_events import CompilerSaid
from ckwatch.compile.rendered_unit import compile_request, compiler_inputs
from ckwatch.core.effects import Check
from ckwatch.core.events import CheckFinished
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.compiler_messages import PostEvent, placing, reporting_for
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler


@dataclass(eq=False)
class CheckHandler:
    """Runs host passes."""

    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _post: PostEvent
    _threads: CapacityLimiter

    async def run(self, effect: Check) -> CheckFinished:
        """The errors of the host pass. Raises CkwatchError when the host cannot run it."""
        compiler = self._tools.require_compiler()
        text = await self._renders.text_of(effect)
        if text is None:
            return CheckFinished(effect.work, at=time.time())  # `compile` comes next and reports it
        scope = effect.work.key.scope
        workspace = self._view_loader.workspace(scope)
        request = compile_request(workspace, effect.unit, text, awaited=effect.awaited)
        header_warnings = self._view_loader.shows_header_warnings(scope, effect.options)
        place = placing(effect, text, header_warnings, compiler_inputs(workspace, effect.unit, text))
        async with reporting_for(effect, place, self._post) as lines:
            result = await compiler.builder.check(
                request,
                lambda event: lines.add_line(event.side, event.line) if isinstance(event, CompilerSaid) else None,
            )
        if result is None or result.ok or result.transient:
            return CheckFinished(effect.work, at=time.time())
        found = await to_thread.run_sync(place, result.log, limiter=self._threads)
        return CheckFinished(effect.work, found, at=time.time())
