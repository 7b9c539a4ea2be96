"""Questions about C++: which unit's text answers, its render, and what other instances say."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import MAIN, UnitKey, WarningChanged
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.language import LanguageQueries
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language, language_of
from ckwatch.model.text import Position, Range, text_digest
from ckwatch.wire.cpp import CppAnswer, CppRequest, Side

if TYPE_CHECKING:  # what the daemon loads with the first question
    from ckwatch.cpp.asking import AskedSource, UnitSource
    from ckwatch.cpp.supervisor import Clangds

log = logging.getLogger(__name__)

SOURCES_KEPT = 32
"""Maps of rendered texts."""

ATTEMPTS = 5
"""Times that a question is asked again because the text has changed meanwhile."""

TYPED = frozenset({"completion", "signatures"})
"""Questions that follow each character that is typed."""

OTHERS = 4
"""Other instances that a hover is compared with: clangd needs a second or so for each."""

GISTS_KEPT = 1000


@dataclass(slots=True)
class _Asking:
    """A question in progress, for the answer of one whose patience is over."""

    scope: str
    status: Callable[[], str] = field(default=lambda: "the template is being rendered")
    known: CppAnswer | None = None
    """The answer without those of other instances."""
    compared: _Comparison | None = None


@dataclass(slots=True)
class _Comparison:
    """The other answers so far, each with the instances that give it."""

    of: str
    """The digest of the text that others are compared with."""
    key: tuple[object, ...]
    scope: CancelScope = field(default_factory=CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    units: dict[str, list[str]] = field(default_factory=dict)

    def added_to(self, answer: CppAnswer) -> CppAnswer:
        """The answer with it."""
        others = [{"text": text, "units": names} for text, names in self.units.items()]
        result = {**answer.result, "others": [*answer.result["others"], *others]}
        return replace(answer, result=result)


@dataclass(eq=False)
class CppQueries:
    """Questions about C++. `run` has to run."""

    _root: Path
    _settings_folder: Path
    _loop: EngineLoop
    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _lookup: UnitLookup
    _language: LanguageQueries
    _tasks: TaskGroup | None = field(default=None, init=False)
    _clangds: Clangds | None = field(default=None, init=False)
    _sources: OrderedDict[UnitKey, UnitSource] = field(default_factory=OrderedDict, init=False)
    _comparison: _Comparison | None = field(default=None, init=False)
    _gists: OrderedDict[tuple[object, ...], str] = field(default_factory=OrderedDict, init=False)
    """The gist of a hover by the text, the side and the place."""

    async def run(self) -> None:
        """Keep running what was started, until this is cancelled."""
        async with anyio.create_task_group() as self._tasks:
            await anyio.sleep_forever()

    async def ask(self, scope: str, request: CppRequest) -> CppAnswer:
        """The answer; one that is not `ready` when the request's patience is over. Raises UnknownUnitError,
        ToolchainError where there is no compiler or no clangd, and CkwatchError."""
        asking = _Asking(scope)
        with anyio.move_on_after(request.patience_s):
            return await self._answer(request, asking)
        if asking.known is not None and asking.compared is not None:
            return asking.compared.added_to(asking.known)
        return CppAnswer(ready=False, reason=asking.status())

    async def _answer(self, request: CppRequest, asking: _Asking) -> CppAnswer:
        from ckwatch.cpp.clangd import OvertakenError
        from ckwatch.cpp.mappings import NotForwardedError

        if request.call is not None:
            about = {name: getattr(request.call, name) for name in ("unit", "side", "path")}
            request = request.model_copy(update=about)
        for _ in range(ATTEMPTS):
            unit = await self._unit(asking.scope, request)
            try:
                typed = await self._typed_source(request, unit)
                if typed is not None:
                    with suppress(NotForwardedError):
                        return await self._answer_from(typed, request, unit, asking)
                return await self._answer_from(await self._source(unit), request, unit, asking)
            except NotForwardedError as refused:
                kept = self._sources.get(unit.key)
                digest = kept.digest_of(request.path) if kept is not None and kept.is_of(unit) else ""
                return CppAnswer(unit=unit.key.unit, digest=digest, reason=refused.message)
            except OvertakenError:
                continue
        return CppAnswer(ready=False, reason="the text changes faster than it is read")

    async def _answer_from(
        self, source: UnitSource, request: CppRequest, unit: UnitState, asking: _Asking
    ) -> CppAnswer:
        from ckwatch.cpp.answers import gist

        if self._comparison is not None and self._comparison.of != source.digest:
            self._comparison.scope.cancel()  # it would take the processor from this
        asked = self._asked(unit, source)
        asking.status = lambda: asked.supervisor.status
        answer = await asked.answer(request, self._overlays(unit))
        if request.others and answer.result and (asked_gist := gist(answer.result)):
            asking.known = answer
            others = await self._others(asking.scope, request, unit)
            texts = tuple((other.key, other.input.generation) for other in others)
            key = (request.path, request.start, answer.side, texts)
            asking.compared = self._compared(source.digest, key, request, others, answer.side, asked_gist)
            await asking.compared.ended.wait()
            return asking.compared.added_to(answer)
        return answer

    def _asked(self, unit: UnitState, source: UnitSource) -> AskedSource:
        from ckwatch.cpp.asking import AskedSource
        from ckwatch.cpp.supervisor import Clangds

        if self._clangds is None:
            assert self._tasks is not None  # noqa: S101  # `run` runs as long as the daemon answers
            self._clangds = Clangds(self._root, self._settings_folder, self._tasks, self._warn)
        compiler, settings = self._tools.present_compiler().toolchain, self._view_loader.workspace(MAIN).settings
        supervisor = self._clangds.of(unit.unit.arch, compiler, settings)
        return AskedSource(unit, source, supervisor, compiler, self._root, self._settings_folder / "cuda")

    def _warn(self, arch: str, text: str | None) -> None:
        self._loop.post_soon(WarningChanged(f"clangd for {arch}", text))

    def _overlays(self, unit: UnitState) -> dict[str, str]:
        return dict(self._loop.state.views[unit.key.scope].overlays)

    def _compared(
        self,
        digest: str,
        key: tuple[object, ...],
        request: CppRequest,
        others: Sequence[UnitState],
        side: Side,
        asked_gist: str,
    ) -> _Comparison:
        """The comparison with the text of this digest that `key` tells from others.

        It continues when no client waits for it any more, until there is another one.
        """
        assert self._tasks is not None  # noqa: S101  # `run` runs as long as the daemon answers
        last = self._comparison
        if last is not None and (last.of, last.key) == (digest, key) and not last.scope.cancel_called:
            return last
        if last is not None:
            last.scope.cancel()
        made = self._comparison = _Comparison(digest, key)

        async def run() -> None:
            try:
                with made.scope:
                    await self._compare(request, others, side, asked_gist, made)
            except CkwatchError as error:
                log.info("a comparison with other instances was given up: %s", error)
            except Exception:  # it must not be the end of the daemon
                log.exception("a comparison with other instances failed")
            finally:
                made.ended.set()

        self._tasks.start_soon(run)
        return made

    async def _compare(
        self, request: CppRequest, others: Sequence[UnitState], side: Side, asked_gist: str, compared: _Comparison
    ) -> None:
        """Find the gist of the hover in other instances of the template.

        A newer comparison ends this one: clangd reads each instance anew for it.
        """
        from ckwatch.cpp.answers import gist
        from ckwatch.cpp.mappings import NotForwardedError

        for other in others:
            try:
                source = await self._source(other)
                question = await self._asked(other, source).question(request, side, "others")
                key = (source.digest, side, *question.positions()[:1])
                if key not in self._gists:
                    hover = (await question.answer()).result
                    self._gists[key] = "" if hover is None else gist(hover)
                    while len(self._gists) > GISTS_KEPT:
                        self._gists.popitem(last=False)
            except NotForwardedError:
                continue
            own = self._gists[key]
            if own not in ("", asked_gist):
                compared.units.setdefault(own, []).append(other.key.unit)

    async def _others(self, scope: str, request: CppRequest, unit: UnitState) -> list[UnitState]:
        """The instances that a hover is compared with; those whose tensors have other element types come first."""
        by_types: dict[tuple[str, ...], list[str]] = {}
        readers = await self._language.readers(scope, request.path or unit.unit.kernel.path)
        members = self._loop.state.members(scope)
        for name in readers:
            other = members[name]
            if name != unit.key.unit and other.arch == unit.unit.arch:
                by_types.setdefault(_element_types(other), []).append(name)
        alike = by_types.pop(_element_types(unit.unit), [])
        rest = (name for names in by_types.values() for name in names[1:])
        names = [*(names[0] for names in by_types.values()), *alike, *rest][:OTHERS]
        others = (self._loop.state.seen(scope, name) for name in names)
        return [other for other in others if other is not None]

    async def _unit(self, scope: str, request: CppRequest) -> UnitState:
        """The unit whose text answers. Raises CkwatchError where nothing is made of the file."""
        if request.unit is not None or request.path is None:
            return await self._lookup.one(scope, request.unit or "")
        names = await self._readers(scope, request.path)
        if not names:
            raise CkwatchError(f"no unit is made of {request.path}", "name the unit")
        if request.start is not None:  # of a kernel file, the instance that stands there
            units = (self._loop.state.seen(scope, name) for name in names)
            place = Position(request.start.line, request.start.character)
            here = (unit for unit in units if unit is not None and _has_value_at(unit, request.path, place))
            if (found := next(here, None)) is not None:
                return found
        return await self._lookup.one(scope, names[0])

    async def _readers(self, scope: str, path: str) -> list[str]:
        """The units that are made of a file; who reads a template is known when it has been rendered."""
        state = self._loop.state
        while not (names := await self._language.readers(scope, path)):
            units = (state.seen(scope, name) for name in state.members(scope))
            if all(unit is None or not unit.unrendered for unit in units):
                break
            await self._loop.feed.wait(self._loop.feed.seq)
        return names

    async def _source(self, unit: UnitState) -> UnitSource:
        """Raises NotForwardedError while the template has errors, and ToolchainError where there is no compiler."""
        from ckwatch.cpp.asking import UnitSource
        from ckwatch.cpp.mappings import NotForwardedError, RenderedSource

        generation = unit.input.generation
        kept = self._sources.get(unit.key)
        if kept is not None and kept.is_of(unit):
            self._sources.move_to_end(unit.key)
            return kept
        compiler = self._tools.present_compiler()
        language = language_of(unit.unit.kernel.template)
        if (language is Language.CU) is not isinstance(compiler.toolchain, NvccToolchain):
            raise ToolchainError(f"{compiler.toolchain.clang_version} does not compile {unit.unit.kernel.template}")
        given, overlays = unit.unit, self._overlays(unit)
        outcome = await self._renders.awaited(self._loop.state, unit)
        rendered = outcome.rendered
        if rendered is None:
            errors = (one.message for one in outcome.diagnostics if one.severity is Severity.ERROR)
            raise NotForwardedError(f"the template has errors: {next(errors, 'it gives no text')}")
        request = compile_request(self._view_loader.workspace(unit.key.scope), given, rendered)
        source = await to_thread.run_sync(RenderedSource, rendered.text, rendered.source_map)
        digest = await to_thread.run_sync(text_digest, rendered.text)
        made = UnitSource(unit.input, generation, source, outcome.templates, digest, request, given, overlays)
        self._sources[unit.key] = made
        self._sources.move_to_end(unit.key)
        while len(self._sources) > SOURCES_KEPT:
            self._sources.popitem(last=False)
        return made

    async def _typed_source(self, request: CppRequest, unit: UnitState) -> UnitSource | None:
        """The last good render with what was typed since, so that typing does not wait for the next one, or has no
        answer while the template has errors; None where only the render can tell, or has come."""
        place, kept = request.start, self._sources.get(unit.key) or self._sources.get(UnitKey(MAIN, unit.key.unit))
        if request.question not in TYPED or request.path is None or place is None or kept is None:
            return None
        if kept.is_of(unit) or kept.unit != unit.unit or self._renders.known(unit) is not None:
            return None
        cursor = Position(place.line, place.character)
        return await to_thread.run_sync(kept.edited, request.path, self._overlays(unit), cursor)


def _element_types(unit: Unit) -> tuple[str, ...]:
    operation = unit.kernel.operation
    return tuple(tensor.dtype for _, tensor in (*operation.inputs, *operation.outputs) if tensor is not None)


def _has_value_at(unit: UnitState, path: str, place: Position) -> bool:
    spans = unit.unit.instance.spans.values() if unit.unit.kernel.path == path else ()
    return any(each.path == path and Range(each.start, each.end).holds(place) for each in spans)
