"""Questions about C++: the unit whose text answers, its render and command, and one clangd for each arch."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio import CancelScope, to_thread
from anyio.abc import TaskGroup

import ckwatch_templates
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import MAIN, UnitKey, WarningChanged
from ckwatch.core.phases import Phase
from ckwatch.core.unit_state import InputState, UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.language import LanguageQueries
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.kernels import Unit
from ckwatch.model.targets import Language, language_of
from ckwatch.model.text import LineIndex, Position, Range, text_digest
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file
from ckwatch.wire import state as wire
from ckwatch.wire.cpp import ABOUT_CALL, CppAnswer, CppRequest, OtherValue, Place, Side

if TYPE_CHECKING:  # what the daemon loads with the first question
    from ckwatch.compile.toolchain.clangd import ClangdProgram
    from ckwatch.cpp.mappings import RenderedSource
    from ckwatch.cpp.questions import Question
    from ckwatch.cpp.supervisor import ClangdSupervisor

log = logging.getLogger(__name__)

Item = TypeVar("Item")

SOURCES_KEPT = 32
"""Maps of rendered texts."""

ATTEMPTS = 5
"""Times that a question is asked again because the text has changed meanwhile."""

TYPED = frozenset({"completion", "signatures"})
"""Questions that follow each character that is typed."""

OTHERS = 4
"""Other instances that a hover is compared with: clangd needs a second or so for each."""

GISTS_KEPT = 1000

OF_BOTH_SIDES = frozenset({"references", "rename"})
"""What both sides answer where the first one passes over some of the text: half of a name's places are no answer."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A unit's render: the text with its map, the digests of the files that it was made of and its own, and how it is
    compiled. `input` is the unit's own, which counts from one again when a view of it is made anew. `unit` and the
    unsaved texts, `overlays`, are what it was made with."""

    input: InputState
    generation: int
    rendered: RenderedSource
    read: Mapping[str, str]
    digest: str
    request: CompileRequest
    unit: Unit
    overlays: Mapping[str, str]

    def is_of(self, unit: UnitState) -> bool:
        """Whether it is the present text."""
        return self.input is unit.input and self.generation == unit.input.generation

    def edited(self, path: str, before: str, after: str) -> _Source | None:
        """What it will be after an edit of a template; None where only a render can tell. For a thread."""
        rendered = self.rendered.edited(path, before, after)
        if rendered is None:
            return None
        read = {**self.read, path: text_digest(after)}
        return replace(self, rendered=rendered, read=read, digest=text_digest(rendered.text))

    def digest_of(self, path: str | None) -> str:
        """Of a file that it was made of, empty for any other; None: of itself."""
        return self.digest if path is None else self.read.get(path, "")


@dataclass(slots=True)
class _Asking:
    """What is being asked, for the answer of one whose patience is over."""

    status: Callable[[], str] = field(default=lambda: "the template is being rendered")
    known: CppAnswer | None = None
    """All but what other instances say."""
    compared: _Comparison | None = None


@dataclass(slots=True)
class _Comparison:
    """What other instances say so far, each with those that do."""

    of: str
    """The digest of the text that others are compared with."""
    key: tuple[object, ...]
    scope: CancelScope = field(default_factory=CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    units: dict[str, list[str]] = field(default_factory=dict)

    def added_to(self, answer: CppAnswer) -> CppAnswer:
        """The answer with it."""
        if answer.hover is None:
            return answer
        others = (OtherValue(text=text, units=tuple(names)) for text, names in self.units.items())
        hover = answer.hover.model_copy(update={"others": (*answer.hover.others, *others)})
        return answer.model_copy(update={"hover": hover})


class CppQueries:
    """Questions about C++. `run` has to run."""

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
        self._supervisors: dict[str, tuple[object, ClangdSupervisor]] = {}
        """By arch, each with the identity of the compiler and the settings that it fits."""
        self._sources: OrderedDict[UnitKey, _Source] = OrderedDict()
        self._comparison: _Comparison | None = None
        self._gists: OrderedDict[tuple[object, ...], str] = OrderedDict()
        """What hovers say, by the text, the side and the place."""

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
        if answer is None and asking.known is not None and asking.compared is not None:
            return asking.compared.added_to(asking.known)
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
                digest = "" if kept is None else kept.digest_of(request.path)
                return CppAnswer(unit=unit.key.unit, digest=digest, reason=refused.message)
            except OvertakenError:
                continue
        return CppAnswer(ready=False, reason="the text changes faster than it is read")

    async def _answer_of(
        self, request: CppRequest, unit: UnitState, about: Mapping[str, Any], asking: _Asking
    ) -> CppAnswer:
        from ckwatch.cpp.mappings import NotForwardedError

        typed = await self._typed_source(request, unit)
        if typed is not None:
            with suppress(NotForwardedError):
                return await self._answer_from(typed, request, unit, about, asking)
        return await self._answer_from(await self._source(unit), request, unit, about, asking)

    async def _answer_from(
        self, source: _Source, request: CppRequest, unit: UnitState, about: Mapping[str, Any], asking: _Asking
    ) -> CppAnswer:
        from ckwatch.cpp.answers import gist
        from ckwatch.cpp.arguments import SIDES
        from ckwatch.cpp.clangd import ClangdRefusalError

        if self._comparison is not None and self._comparison.of != source.digest:
            self._comparison.scope.cancel()  # it would take the processor from this
        supervisor = self._supervisor(unit)
        possible = list(SIDES[source.request.language])
        wanted = [request.side] if request.side in possible else possible
        answer: CppAnswer | None = None
        passed_over: list[Sequence[Range]] = []
        elsewhere: list[tuple[Side, Sequence[Range]]] = []
        for side in wanted:
            question = await self._question(request, unit, source, supervisor, side, about, asking)
            refusal: ClangdRefusalError | None = None
            try:
                own = (await question.answer()).model_copy(update={"side": side})
            except ClangdRefusalError as error:
                refusal = error
            skipped = await self._skipped(question, supervisor)
            passed_over.append(skipped)
            is_skipped = any(each.holds(position) for position in question.positions()[:1] for each in skipped)
            if is_skipped and (side != wanted[-1] or answer is not None):
                elsewhere.append((side, skipped))
                continue
            if refusal is not None:
                raise refusal
            answer = own if answer is None else _of_both(answer, own)
            if request.question not in OF_BOTH_SIDES or not skipped:
                break
        assert answer is not None  # noqa: S101  # the last side answers or raises
        for side, skipped in elsewhere if request.question in OF_BOTH_SIDES else ():
            seen = _first_seen(answer, source.rendered, skipped)
            if seen is not None:  # what stands where was asked is known to this side by another declaration
                there = request.model_copy(update=seen)
                question = await self._question(there, unit, source, supervisor, side, about, asking)
                answer = _of_both(answer, await question.answer())
        if request.question == "rename":
            await self._refuse_partial(answer, unit, source, _in_all(passed_over))
        answer = answer.model_copy(update={"unit": unit.key.unit, "digest": source.digest_of(request.path)})
        if request.others and answer.hover is not None and (said := gist(answer.hover.markdown)):
            asking.known = answer
            others = await self._others(request, unit)
            texts = tuple((other.key, other.input.generation) for other in others)
            key = (request.path, request.start, answer.side, texts)
            asking.compared = self._comparison_of(
                source.digest, key, partial(self._compare, request, others, answer.side, said)
            )
            await asking.compared.ended.wait()
            return asking.compared.added_to(answer)
        return answer

    def _comparison_of(
        self, digest: str, key: tuple[object, ...], compare: Callable[[_Comparison], Awaitable[None]]
    ) -> _Comparison:
        """The comparison with the text of this digest that `key` tells from others.

        It goes on when nobody waits for it any more, until there is another one.
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
                    await compare(made)
            except CkwatchError as error:
                log.info("a comparison with other instances was given up: %s", error)
            except Exception:  # it must not be the end of the daemon
                log.exception("a comparison with other instances failed")
            finally:
                made.ended.set()

        self._tasks.start_soon(run)
        return made

    async def _refuse_partial(
        self, answer: CppAnswer, unit: UnitState, source: _Source, skipped: Sequence[Range]
    ) -> None:
        """Raise NotForwardedError where a rename would leave some of the name in a branch that this unit does not
        render or compile, and OvertakenError where a file has changed since it was rendered."""
        from ckwatch.cpp.clangd import OvertakenError
        from ckwatch.cpp.mappings import NotForwardedError
        from ckwatch.cpp.renaming import left_behind

        overlays = dict(self._loop.state.views[unit.key.scope].overlays)
        edits: dict[str, list[Range]] = {}
        for one in answer.edits:
            edits.setdefault(one.span.path, []).append(_range_of(one.span))
        for path, own in edits.items():
            text, digest = await to_thread.run_sync(_template_text, path, overlays.get(path))
            if digest != source.read.get(path):
                raise OvertakenError(f"{path} has changed meanwhile")
            lines = LineIndex(text)
            for name in {text[lines.offset(each.start) : lines.offset(each.end)] for each in own}:
                reason = await to_thread.run_sync(left_behind, name, path, text, own, source.rendered, skipped)
                if reason is not None:
                    raise NotForwardedError(reason)

    async def _skipped(self, question: Question, supervisor: ClangdSupervisor) -> Sequence[Range]:
        """What the preprocessor passes over in the text."""
        return (await supervisor.ready()).skipped.get(question.text.uri, ())

    async def _question(
        self,
        request: CppRequest,
        unit: UnitState,
        source: _Source,
        supervisor: ClangdSupervisor,
        side: Side,
        about: Mapping[str, Any],
        asking: _Asking,
        slot: str = "main",
    ) -> Question:
        """`slot` tells texts of a template apart that are lent to clangd beside each other."""
        from ckwatch.cpp.arguments import clangd_arguments
        from ckwatch.cpp.clangd import LentText
        from ckwatch.cpp.places import LENT, HeaderPlaces, KernelFilePlaces, Places, TemplatePlaces
        from ckwatch.cpp.questions import METHODS, Question

        path = request.path
        is_header = path is not None and not path.endswith((".j2", ".kernel.toml")) and path not in source.read
        # One text for all views and instances of a template: what clangd has read of the headers fits them all.
        uri_path = f"{LENT}/{slot}/{side}/{unit.unit.kernel.template}"
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
        compiler = self._tools.present_compiler().toolchain
        cuda: tuple[str, ...] = ()
        if isinstance(compiler, NvccToolchain):
            cuda = await to_thread.run_sync(_cuda_arguments, compiler, self._settings_folder / "cuda")
        arguments = clangd_arguments(source.request, compiler, side, resources=program.resource_folder, cuda=cuda)
        text = LentText(uri_path, source.rendered.text, arguments, self._root, source.generation)
        if is_header and path is not None:
            content = await to_thread.run_sync(_header_text, path)
            text = LentText(path, content, arguments, self._root, source.generation, is_lent=False)
            places = HeaderPlaces(text.uri)
        where = {"unit": unit.key.unit, "side": side, "path": path}
        return Question(request, text, places, supervisor, {**where, **about})

    async def _compare(
        self, request: CppRequest, others: Sequence[UnitState], side: Side, said: str, compared: _Comparison
    ) -> None:
        """Find out what the hover says in other instances of the template.

        A newer comparison ends this one: clangd reads each instance anew for it.
        """
        from ckwatch.cpp.answers import gist
        from ckwatch.cpp.mappings import NotForwardedError

        for other in others:
            name = other.key.unit
            asked = request.model_copy(update={"unit": name, "others": False})
            try:
                source = await self._source(other)
                supervisor = self._supervisor(other)
                question = await self._question(asked, other, source, supervisor, side, {}, _Asking(), "others")
                key = (source.digest, side, *question.positions()[:1])
                if key not in self._gists:
                    hover = (await question.answer()).hover
                    self._gists[key] = "" if hover is None else gist(hover.markdown)
                    while len(self._gists) > GISTS_KEPT:
                        self._gists.popitem(last=False)
            except NotForwardedError:
                continue
            own = self._gists[key]
            if own not in ("", said):
                compared.units.setdefault(own, []).append(name)

    async def _others(self, request: CppRequest, unit: UnitState) -> list[UnitState]:
        """The instances that a hover is compared with; those whose tensors have other element types come first."""
        by_types: dict[tuple[str, ...], list[str]] = {}
        readers = await self._language.readers(request.client, request.path or unit.unit.kernel.path)
        members = self._loop.state.members(request.client or MAIN)
        for name in readers:
            other = members[name]
            if name != unit.key.unit and other.arch == unit.unit.arch:
                by_types.setdefault(_element_types(other), []).append(name)
        alike = by_types.pop(_element_types(unit.unit), [])
        rest = (name for names in by_types.values() for name in names[1:])
        names = [*(names[0] for names in by_types.values()), *alike, *rest][:OTHERS]
        others = (self._loop.state.seen(request.client or MAIN, name) for name in names)
        return [other for other in others if other is not None]

    async def _unit(self, request: CppRequest) -> UnitState:
        """Whose text answers. Raises CkwatchError where nothing is made of the file."""
        scope = request.client or MAIN
        if request.unit is not None or request.path is None:
            return await self._lookup.one(scope, request.unit or "")
        names = await self._readers(request.client, request.path)
        if not names:
            raise CkwatchError(f"no unit is made of {request.path}", "name the unit whose text is meant")
        if request.start is not None:  # of a kernel file, the instance that stands there
            units = (self._loop.state.seen(scope, name) for name in names)
            place = _position(request)
            here = (unit for unit in units if unit is not None and _has_value_at(unit, request.path, place))
            if (found := next(here, None)) is not None:
                return found
        return await self._lookup.one(scope, names[0])

    async def _readers(self, client: str | None, path: str) -> list[str]:
        """The units that are made of a file; who reads a template is known when it has been rendered."""
        state, scope = self._loop.state, client or MAIN
        while not (names := await self._language.readers(client, path)):
            units = (state.seen(scope, name) for name in state.members(scope))
            if all(unit is None or unit.phase not in (Phase.WAITING, Phase.RENDERING) for unit in units):
                break
            await self._loop.feed.wait(self._loop.feed.seq)
        return names

    async def _source(self, unit: UnitState) -> _Source:
        """Raises NotForwardedError while the template has errors, and ToolchainError where there is no compiler."""
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
        given, overlays = unit.unit, dict(self._loop.state.views[unit.key.scope].overlays)
        outcome = await self._renders.awaited(self._loop.state, unit)
        rendered = outcome.rendered
        if rendered is None:
            errors = (one.message for one in outcome.diagnostics if one.severity is Severity.ERROR)
            raise NotForwardedError(f"the template has errors: {next(errors, 'it gives no text')}")
        request = compile_request(self._view_loader.workspace(unit.key.scope), given, rendered)
        source = await to_thread.run_sync(RenderedSource, rendered.text, rendered.source_map)
        digest = await to_thread.run_sync(text_digest, rendered.text)
        made = _Source(unit.input, generation, source, outcome.read, digest, request, given, overlays)
        self._sources[unit.key] = made
        self._sources.move_to_end(unit.key)
        while len(self._sources) > SOURCES_KEPT:
            self._sources.popitem(last=False)
        return made

    async def _typed_source(self, request: CppRequest, unit: UnitState) -> _Source | None:
        """What the render will be after what was typed, so that nobody who types waits for it; None where only the
        render can tell, or has come."""
        path, kept = request.path, self._sources.get(unit.key)
        if request.question not in TYPED or path is None or kept is None or kept.unit != unit.unit:
            return None
        overlays = self._loop.state.views[unit.key.scope].overlays
        before, after = kept.overlays.get(path), overlays.get(path)
        if kept.is_of(unit) or before is None or after is None:
            return None
        if {**kept.overlays, path: after} != overlays:
            return None
        return await to_thread.run_sync(kept.edited, path, before, after)

    def _supervisor(self, unit: UnitState) -> ClangdSupervisor:
        """The clangd of the unit's arch; another after the compiler or the settings have changed."""
        from ckwatch.cpp.supervisor import ClangdLimits, ClangdSupervisor

        toolchain = self._tools.present_compiler().toolchain
        arch = unit.unit.arch
        settings = self._view_loader.workspace(MAIN).settings
        configured, limit_bytes = settings.toolchain.clangd, settings.cpp.memory_limit_bytes
        fits = (toolchain.identity, configured, limit_bytes)
        known = self._supervisors.get(arch)
        if known is not None and known[0] == fits:
            return known[1]
        assert self._tasks is not None  # noqa: S101  # `run` runs as long as the daemon answers
        if known is not None:
            self._tasks.start_soon(known[1].end)

        async def find(tell: Callable[[str], None]) -> ClangdProgram:
            return await _find_or_fetch(toolchain, configured, tell)

        made = ClangdSupervisor(
            find,
            toolchain.environment,
            self._root,
            self._settings_folder,
            self._tasks,
            lambda text: self._loop.post_soon(WarningChanged(f"clangd for {arch}", text, at=time.time())),
            ClangdLimits(limit_bytes),
        )
        self._supervisors[arch] = (fits, made)
        return made


def _element_types(unit: Unit) -> tuple[str, ...]:
    operation = unit.kernel.operation
    return tuple(tensor.dtype for _, tensor in (*operation.inputs, *operation.outputs) if tensor is not None)


def _in_all(passed_over: Sequence[Sequence[Range]]) -> list[Range]:
    """Lines that every side passes over."""
    lines = [{line for each in one for line in range(each.start.line, each.end.line + 1)} for one in passed_over]
    both = sorted(set.intersection(*lines)) if lines else []
    return [Range(Position(line, 0), Position(line + 1, 0)) for line in both]


def _of_both(one: CppAnswer, other: CppAnswer) -> CppAnswer:
    locations, edits = (*one.locations, *other.locations), (*one.edits, *other.edits)
    return one.model_copy(update={"locations": _each_once(locations), "edits": _each_once(edits)})


def _first_seen(answer: CppAnswer, source: RenderedSource, skipped: Sequence[Range]) -> dict[str, object] | None:
    """`path` and `start` of a place of the answer in text that is not `skipped`."""
    edits = [(one.span.path, one.span.start) for one in answer.edits]
    for path, start in (*edits, *((one.path, one.range.start) for one in answer.locations)):
        offsets = source.covers(path, Position(start.line, start.column))
        for position in map(source.lines.position, offsets):
            if not any(each.holds(position) for each in skipped):
                return {"path": path, "start": Place(line=start.line, column=start.column)}
    return None


def _each_once(values: tuple[Item, ...]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(values))


def _is_built_in(path: str) -> bool:
    return Path(path).is_relative_to(ckwatch_templates.ROOT)


def _has_value_at(unit: UnitState, path: str, place: Position) -> bool:
    spans = unit.unit.instance.spans.values() if unit.unit.kernel.path == path else ()
    return any(each.path == path and Range(each.start, each.end).holds(place) for each in spans)


def _range_of(given: wire.Span) -> Range:
    return Range(Position(given.start.line, given.start.column), Position(given.end.line, given.end.column))


def _template_text(path: str, unsaved: str | None) -> tuple[str, str]:
    """A template's text as Jinja counts its lines, and the digest of the whole file. For a thread."""
    try:
        content = (
            read_file(path, SIDE_FILE_LIMIT_BYTES) if unsaved is None else unsaved.encode("utf-8", "surrogatepass")
        )
    except OSError as error:
        raise CkwatchError(f"{path} cannot be read: {error.strerror}") from error
    text = content.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n"), hashlib.sha256(content).hexdigest()


def _position(request: CppRequest) -> Position:
    assert request.start is not None  # noqa: S101  # the caller has looked
    return Position(request.start.line, request.start.column)


def _cuda_arguments(toolchain: NvccToolchain, substitutes: Path) -> tuple[str, ...]:
    """For a thread."""
    from ckwatch.cpp.arguments import CUDA_SUBSTITUTES, cuda_arguments

    substitutes.mkdir(parents=True, exist_ok=True)
    for name in CUDA_SUBSTITUTES:
        (substitutes / name).touch()
    return cuda_arguments(toolchain.nvcc.resolve().parents[1], substitutes)


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
