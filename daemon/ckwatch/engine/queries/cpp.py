"""Questions about C++: the unit whose text answers, its render and command, and one clangd for each arch."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

import ckwatch_templates
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import MAIN, UnitKey, WarningChanged
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.language import LanguageQueries
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.kernels import Unit
from ckwatch.model.text import Position
from ckwatch.render.outcome import Rendered
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file
from ckwatch.wire.cpp import ABOUT_CALL, CppAnswer, CppHover, CppRequest, OtherValue, Side

if TYPE_CHECKING:  # what the daemon loads with the first question
    from ckwatch.compile.toolchain.clangd import ClangdProgram
    from ckwatch.cpp.mappings import RenderedSource
    from ckwatch.cpp.questions import Question
    from ckwatch.cpp.supervisor import ClangdSupervisor

SOURCES_KEPT = 32
"""Maps of rendered texts."""

ATTEMPTS = 5
"""Times that a question is asked again because the text has changed meanwhile."""

TYPED = frozenset({"completion", "signatures"})
"""Questions that follow each character that is typed."""

OTHERS = 8
"""Other instances that a hover compares."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A unit's render: the text with its map, the digests of the files that it was made of and its own, and how it is
    compiled. `unit` and the unsaved texts, `overlays`, are what it was made with."""

    generation: int
    rendered: RenderedSource
    read: Mapping[str, str]
    digest: str
    request: CompileRequest
    unit: Unit
    overlays: Mapping[str, str]


@dataclass(slots=True)
class _Asking:
    """What is being asked, for the answer of one whose patience is over."""

    status: Callable[[], str] = field(default=lambda: "the template is being rendered")


class CppQueries:
    """Fits `ckwatch.server.engine_api.CppEngine`. `run` has to run."""

    def __init__(
        self,
        root: Path,
        settings_folder: Path,
        loop: EngineLoop,
        tools: BuildTools,
        view_loader: ViewLoader,
        renders: RenderHandler,
        lookup: UnitLookup,
        language: LanguageQueries,
    ) -> None:
        self._root = root
        self._settings_folder = settings_folder
        self._loop = loop
        self._tools = tools
        self._view_loader = view_loader
        self._renders = renders
        self._lookup = lookup
        self._language = language
        self._tasks: TaskGroup | None = None
        self._supervisors: dict[str, tuple[str, ClangdSupervisor]] = {}
        """By arch, each with the identity of the compiler that it fits."""
        self._sources: OrderedDict[UnitKey, _Source] = OrderedDict()
        self._compared = anyio.Lock()

    async def run(self) -> None:
        """Keep running what was started, until this is cancelled."""
        async with anyio.create_task_group() as self._tasks:
            await anyio.sleep_forever()

    async def ask(self, request: CppRequest) -> CppAnswer:
        """The answer; one that is not `ready` when the request's patience is over.

        Raises UnknownUnitError, ToolchainError where there is no compiler or no clangd, and CkwatchError.
        """
        answer: CppAnswer | None = None
        asking = _Asking()
        with anyio.move_on_after(request.patience_s):
            answer = await self._answer(request, asking)
        return CppAnswer(ready=False, reason=asking.status()) if answer is None else answer

    async def _answer(self, request: CppRequest, asking: _Asking) -> CppAnswer:
        from ckwatch.cpp.clangd import OvertakenError
        from ckwatch.cpp.mappings import NotForwardedError
        from ckwatch.cpp.questions import about_call

        about: Mapping[str, Any] = {}
        if request.question in ABOUT_CALL:
            about = about_call(request.call)
            request = request.model_copy(update={name: about[name] for name in ("unit", "side", "path")})
        for _ in range(ATTEMPTS):
            unit = await self._unit(request)
            try:
                return await self._answer_of(request, unit, about, asking)
            except NotForwardedError as refused:
                kept = self._sources.get(unit.key)
                digest = "" if kept is None else kept.read.get(request.path or "", "")
                return CppAnswer(unit=unit.key.unit, digest=digest, reason=refused.message)
            except OvertakenError:
                continue
        return CppAnswer(ready=False, reason="the text changes faster than it is read")

    async def _answer_of(
        self, request: CppRequest, unit: UnitState, about: Mapping[str, Any], asking: _Asking
    ) -> CppAnswer:
        from ckwatch.cpp.mappings import NotForwardedError

        typed = self._typed_source(request, unit)
        if typed is not None:
            with suppress(NotForwardedError):
                return await self._answer_from(typed, request, unit, about, asking)
        return await self._answer_from(await self._source(unit), request, unit, about, asking)

    async def _answer_from(
        self, source: _Source, request: CppRequest, unit: UnitState, about: Mapping[str, Any], asking: _Asking
    ) -> CppAnswer:
        from ckwatch.cpp.arguments import SIDES

        supervisor = self._supervisor(unit)
        possible = list(SIDES[source.request.language])
        wanted = [request.side] if request.side in possible else possible
        answer = CppAnswer()
        for side in wanted:
            question = await self._question(request, unit, source, supervisor, side, about, asking)
            answer = (await question.answer()).model_copy(update={"side": side})
            if not await self._is_skipped(question, supervisor):
                break
        if request.others and answer.hover is not None:
            hover = await self._compare(request, unit, answer.side, answer.hover, asking)
            answer = answer.model_copy(update={"hover": hover})
        digest = source.digest if request.path is None else source.read.get(request.path, "")
        return answer.model_copy(update={"unit": unit.key.unit, "digest": digest})

    async def _is_skipped(self, question: Question, supervisor: ClangdSupervisor) -> bool:
        """Whether the preprocessor passes over what is asked about."""
        skipped = (await supervisor.ready()).skipped.get(question.text.uri, ())
        return any(each.holds(position) for position in question.positions()[:1] for each in skipped)

    async def _question(
        self,
        request: CppRequest,
        unit: UnitState,
        source: _Source,
        supervisor: ClangdSupervisor,
        side: Side,
        about: Mapping[str, Any],
        asking: _Asking,
        slot: str = "",
    ) -> Question:
        """`slot` tells texts apart that are lent to clangd beside each other."""
        from ckwatch.cpp.arguments import clangd_arguments
        from ckwatch.cpp.clangd import LentText
        from ckwatch.cpp.places import LENT, KernelFilePlaces, Places, TemplatePlaces
        from ckwatch.cpp.questions import METHODS, Question, header_places

        path = request.path
        is_header = path is not None and not path.endswith((".j2", ".kernel.toml")) and path not in source.read
        uri_path = f"{LENT}/{slot or unit.key.scope}/{side}/{unit.unit.kernel.template}"
        uri_path = f"{uri_path.removesuffix('.j2')}.{source.request.language.value}"
        common = (Path(uri_path).as_uri(), unit.key.unit, source.rendered, _is_built_in)
        places: Places
        if path is None or is_header:
            places = Places(*common)
        elif path == unit.unit.kernel.path:
            instance = unit.unit.instance
            own = {name: span for name, span in instance.spans.items() if span.path == path}
            values = {name: (span, instance.parameters[name]) for name, span in own.items()}
            places = KernelFilePlaces(*common, path, values)
        else:
            places = TemplatePlaces(*common, path)
        if not is_header and request.start is not None and METHODS[request.question][1]:
            places.forward(_position(request), METHODS[request.question][1])  # before anything is started for it
        asking.status = lambda: supervisor.status
        program = await supervisor.program()
        compiler = self._require_compiler().toolchain
        cuda = compiler.nvcc.resolve().parents[1] if isinstance(compiler, NvccToolchain) else None
        arguments = clangd_arguments(source.request, compiler, side, resources=program.resource_folder, cuda=cuda)
        text = LentText(uri_path, source.rendered.text, arguments, self._root)
        if is_header and path is not None:
            text = LentText(path, await to_thread.run_sync(_header_text, path), arguments, self._root)
            places = header_places(text)
        where = {"unit": unit.key.unit, "side": side, "path": path}
        return Question(request, text, places, supervisor, {**where, **about})

    async def _compare(
        self, request: CppRequest, unit: UnitState, side: Side, hover: CppHover, asking: _Asking
    ) -> CppHover:
        """The hover with what differs in other instances of the template; those that give the same text are not asked.

        One comparison at a time, of which clangd keeps one text.
        """
        from ckwatch.cpp.answers import gist
        from ckwatch.cpp.mappings import NotForwardedError

        said = gist(hover.markdown)
        found: dict[str, list[str]] = {}
        path = request.path or ""
        names = [name for name in await self._language.readers(request.client, path) if name != unit.key.unit]
        texts = {(await self._source(unit)).digest}
        async with self._compared:
            for name in names:
                other = await self._lookup.one(request.client or MAIN, name)
                if other.unit.arch != unit.unit.arch or len(texts) > OTHERS:
                    continue
                try:
                    source = await self._source(other)
                    if source.digest in texts:
                        continue
                    texts.add(source.digest)
                    asked = request.model_copy(update={"unit": name, "others": False})
                    supervisor = self._supervisor(other)
                    question = await self._question(asked, other, source, supervisor, side, {}, asking, "others")
                    answer = await question.answer()
                except NotForwardedError:
                    continue
                if answer.hover is not None and (own := gist(answer.hover.markdown)) != said and own:
                    found.setdefault(own, []).append(name)
        others = tuple(OtherValue(text=text, units=tuple(units)) for text, units in found.items())
        return hover.model_copy(update={"others": (*hover.others, *others)})

    async def _unit(self, request: CppRequest) -> UnitState:
        """Whose text answers. Raises CkwatchError where nothing is made of the file."""
        name = request.unit
        if name is None and request.path is not None:
            name = next(iter(await self._language.readers(request.client, request.path)), None)
        if name is None:
            raise CkwatchError(f"no unit is made of {request.path}", "name the unit whose text is meant")
        return await self._lookup.one(request.client or MAIN, name)

    async def _source(self, unit: UnitState) -> _Source:
        """Raises NotForwardedError while the template has errors, and ToolchainError where there is no compiler."""
        from ckwatch.cpp.mappings import RenderedSource

        self._require_compiler()
        kept = self._sources.get(unit.key)
        if kept is not None and kept.generation == unit.input.generation:
            self._sources.move_to_end(unit.key)
            return kept
        while unit.render.work is not None:  # the core renders what has changed by itself
            await self._loop.feed.wait(self._loop.feed.seq)
        generation, given = unit.input.generation, unit.unit
        overlays = dict(self._loop.state.views[unit.key.scope].overlays)
        rendered, read = await self._rendered(unit)
        request = compile_request(self._view_loader.workspace(unit.key.scope), given, rendered)
        source = await to_thread.run_sync(RenderedSource, rendered.text, rendered.source_map)
        made = _Source(generation, source, read, _digest(rendered.text), request, given, overlays)
        self._sources[unit.key] = made
        self._sources.move_to_end(unit.key)
        while len(self._sources) > SOURCES_KEPT:
            self._sources.popitem(last=False)
        return made

    async def _rendered(self, unit: UnitState) -> tuple[Rendered, Mapping[str, str]]:
        """The unit's present text and what it was made of. Raises NotForwardedError."""
        from ckwatch.cpp.mappings import NotForwardedError

        kept = self._renders.text_cache.get(unit.key, unit.input.generation)
        if kept is not None and unit.render.facts is not None:
            return kept, unit.render.facts.reads
        outcome = await self._renders.present(self._loop.state, unit)
        if outcome.rendered is None:
            errors = (one.message for one in outcome.diagnostics if one.severity is Severity.ERROR)
            raise NotForwardedError(f"the template has errors: {next(errors, 'it gives no text')}")
        return outcome.rendered, outcome.read

    def _typed_source(self, request: CppRequest, unit: UnitState) -> _Source | None:
        """What the render will be after what was typed, so that nobody who types waits for it; None where only the
        render can tell, or has come."""
        path, kept = request.path, self._sources.get(unit.key)
        if request.question not in TYPED or path is None or kept is None or kept.unit != unit.unit:
            return None
        overlays = self._loop.state.views[unit.key.scope].overlays
        before, after = kept.overlays.get(path), overlays.get(path)
        if kept.generation == unit.input.generation or before is None or after is None:
            return None
        if {**kept.overlays, path: after} != overlays:
            return None
        rendered = kept.rendered.edited(path, before, after)
        if rendered is None:
            return None
        read = {**kept.read, path: _digest(after)}
        return replace(kept, rendered=rendered, read=read, digest=_digest(rendered.text))

    def _require_compiler(self) -> CompilerWithStore:
        compiler = self._tools.compiler
        if compiler is None:
            message, _, hint = (self._tools.problem or "there is no compiler").rpartition("\n")
            raise ToolchainError(message or hint, hint if message else None)
        return compiler

    def _supervisor(self, unit: UnitState) -> ClangdSupervisor:
        """The clangd of the unit's arch; another after the compiler has changed."""
        from ckwatch.cpp.supervisor import ClangdLimits, ClangdSupervisor

        toolchain = self._require_compiler().toolchain
        arch = unit.unit.arch
        known = self._supervisors.get(arch)
        if known is not None and known[0] == toolchain.identity:
            return known[1]
        assert self._tasks is not None  # noqa: S101  # `run` runs as long as the daemon answers
        if known is not None:
            self._tasks.start_soon(known[1].end)
        workspace = self._view_loader.workspace(MAIN)

        async def find(tell: Callable[[str], None]) -> ClangdProgram:
            return await _find_or_fetch(toolchain, workspace.settings.toolchain.clangd, tell)

        made = ClangdSupervisor(
            find,
            toolchain.environment,
            self._root,
            self._settings_folder,
            self._tasks,
            lambda text: self._loop.post_soon(WarningChanged(f"clangd for {arch}", text, at=time.time())),
            ClangdLimits(workspace.settings.cpp.memory_limit_bytes),
        )
        self._supervisors[arch] = (toolchain.identity, made)
        return made


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _is_built_in(path: str) -> bool:
    return Path(path).is_relative_to(ckwatch_templates.ROOT)


def _position(request: CppRequest) -> Position:
    assert request.start is not None  # noqa: S101  # the caller has looked
    return Position(request.start.line, request.start.column)


def _header_text(path: str) -> str:
    """For a thread. Raises CkwatchError for what cannot be read."""
    try:
        return read_file(path, SIDE_FILE_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise CkwatchError(f"{path} cannot be read: {error.strerror}") from error


async def _find_or_fetch(
    toolchain: Toolchain | NvccToolchain, configured: Path | None, tell: Callable[[str], None]
) -> ClangdProgram:
    """Raises ToolchainError where there is none and none can be fetched."""
    from ckwatch.compile.toolchain.clangd import fetch_clangd, find_clangd, major_to_fetch
    from ckwatch.compile.toolchain.install_steps import InstallStep

    def on_progress(step: InstallStep) -> None:
        share = f" {100 * step.done // step.total} %" if step.total else ""
        tell(f"clangd is being fetched: {step.title}{share}")

    find = partial(find_clangd, toolchain, toolchain.environment, configured)
    found = await to_thread.run_sync(find)
    if found is None:
        await fetch_clangd(major_to_fetch(toolchain), on_progress)
        found = await to_thread.run_sync(find)
    if found is None:
        raise ToolchainError("the clangd that was fetched does not run", "`ckwatch doctor` says more")
    return found
