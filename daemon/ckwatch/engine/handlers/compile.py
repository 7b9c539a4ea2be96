"""Looks up, checks and compiles units.

Diagnostics are reported while the compiler still runs. Five thousand results have twenty thousand files: their paths
are put together when asked for.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from sys import intern

import anyio
import anyio.to_thread
from anyio import CapacityLimiter, to_thread

import ckwatch_templates
from ckwatch.checks.places import ReadLine
from ckwatch.checks.static_checks import static_checks
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.rendered_unit import build_diagnostics, compile_request, live_diagnostics
from ckwatch.compile.request import BuildOutcome, CompileFault, CompileRequest
from ckwatch.compile.store.content_hashes import ContentSnapshot
from ckwatch.core.effects import Check, Compile, Load, LookUp, Render, Scan
from ckwatch.core.events import (
    AnyEvent,
    CheckFinished,
    CompileFacts,
    CompileFinished,
    CompilerOutput,
    CompileStarted,
    LoadFinished,
    LookUpFinished,
    PassFinished,
    RenderFacts,
    RenderFinished,
    ScanFinished,
    UnitKey,
    ViewOverrides,
    WarningChanged,
)
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.file_changes import changed_digests
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import SharedReads, TextCache
from ckwatch.model.diagnostics import Diagnostic, Source
from ckwatch.model.errors import plain_errors
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.render.cache import RenderCache
from ckwatch.render.outcome import Rendered as Text
from ckwatch.render.outcome import RenderLimits, RenderOutcome
from ckwatch.workspace.files import writable_by_others
from ckwatch.workspace.loading import Workspace


class ArtifactFiles(Mapping[str, str]):
    """Absolute paths by kind: files called `names` in `folder`, as they are now; for a thread."""

    __slots__ = ("_folder", "_names", "_stamp")

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self._folder = str(folder)
        self._names = _shared_names(tuple(names.items()))
        self._stamp = self._look()

    def __getitem__(self, kind: str) -> str:
        return f"{self._folder}{os.sep}{self._names[kind]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def untouched(self) -> bool:
        """Whether the files are there and, as far as their times and sizes tell, nobody has written to them since."""
        return self._stamp == self._look() is not None

    def _look(self) -> int | None:
        try:
            states = [os.stat(path) for path in self.values()]  # noqa: PTH116  # thousands of these are made
        except OSError:
            return None
        return hash(tuple((one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in states))


@lru_cache(maxsize=64)
def _shared_names(names: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(names)


COALESCE_S = 0.02
"""A message and its notes come in several pieces; so long they are waited for."""

REPORT_INTERVAL_S = 0.25
"""After the first message others are told at most so often: reading a long log again takes a while."""


class LiveDiagnostics:
    """Gathers the lines of both passes, and tells the diagnostics in them.

    `place` makes diagnostics of a log; it runs in a thread. `tell` gets them, only when there are others than before.
    """

    def __init__(
        self, place: Callable[[str], tuple[Diagnostic, ...]], tell: Callable[[tuple[Diagnostic, ...]], None]
    ) -> None:
        self._place = place
        self._tell = tell
        self._lines: dict[PassSide | None, list[str]] = {}
        self._news = anyio.Event()
        self._told: tuple[Diagnostic, ...] = ()

    def said(self, side: PassSide | None, line: str) -> None:
        """A line of a pass."""
        self._lines.setdefault(side, []).append(line)
        if "error: " in line:
            self._news.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Tell while the body runs."""
        async with plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            yield
            tasks.cancel_scope.cancel()

    async def _listen(self) -> None:
        while True:
            await self._news.wait()
            await anyio.sleep(COALESCE_S)
            self._news = anyio.Event()
            sides = sorted(self._lines.items(), key=lambda one: one[0] is PassSide.DEVICE)
            log = "".join(f"{line}\n" for _, lines in sides for line in lines)
            found = await anyio.to_thread.run_sync(self._place, log)
            if found and found != self._told:
                self._told = found
                self._tell(found)
            await anyio.sleep(REPORT_INTERVAL_S)


SNAPSHOT_S = 0.5
"""Headers are looked at once for all look-ups within this time; later changes come as news of their own."""

LOAD_WAIT_S = 2.0
"""Renders wait for an urgent load at most so long. It may change what is to be rendered, and beside a thousand of them
it would take three times as long."""

CACHE_DELAY_S = 0.2
FEW_RENDERS = 20
"""A render is written to disk so long after it, when there are no more than these; each holds its text."""

NOTHING: frozenset[str] = frozenset()

PostEvent = Callable[[AnyEvent], None]


class WorkHandlers:
    """Performs loads, scans, renders, look-ups and compiles of one workspace."""

    def __init__(self, root: Path, tools: BuildTools, post: PostEvent) -> None:
        self.loads = ViewLoader(root, tools)
        self.texts = TextCache()
        self._reads = SharedReads()
        self._tools = tools
        self._post = post
        self._threads = CapacityLimiter(4)
        self._loads: dict[int, anyio.Event] = {}
        self._to_keep: dict[int, Callable[[], None]] = {}
        self._look: ContentSnapshot | None = None
        self._look_at = 0.0
        self._full: str | None = None
        self.compiled = 0
        self.on_request: Callable[[CompileRequest, bool, bool], None] = lambda _request, _built, _compiled: None
        """Is called with what was compiled or looked up, whether it compiles, and whether it was compiled just now."""

    async def load(self, effect: Load) -> LoadFinished:
        """Read the workspace. Raises CkwatchError when that is not possible."""
        scope = effect.work.key.scope
        read = partial(self.loads.load, scope, effect.overlays, effect.options)
        if not effect.urgent:
            return LoadFinished(effect.work, await to_thread.run_sync(read, limiter=self._threads), at=time.time())
        known = self._loads[effect.work.number] = anyio.Event()
        try:
            return LoadFinished(effect.work, await to_thread.run_sync(read, limiter=self._threads), at=time.time())
        finally:
            del self._loads[effect.work.number]
            known.set()

    async def scan(self, effect: Scan, known: Mapping[str, str | None], always: frozenset[str]) -> ScanFinished:
        """Look at every tracked file. `known`: what was last read; `always`: files to report in any case."""
        store = self._tools.store
        if store is None:
            return ScanFinished(effect.work, {}, at=time.time())
        self._look = None
        look = partial(changed_digests, known, always, store.contents.digest)
        return ScanFinished(effect.work, await to_thread.run_sync(look, limiter=self._threads), at=time.time())

    async def render(self, effect: Render) -> RenderFinished:
        """Render a unit and check it without a compiler: when it is known which units there are, or that takes long."""
        if self._loads:
            with anyio.move_on_after(LOAD_WAIT_S):
                for load in list(self._loads.values()):
                    await load.wait()
        scope = effect.work.key.scope
        workspace = self.loads.workspace(scope)
        outcome, keep = await self._outcome(workspace, effect.unit, effect.overlays, effect.options)
        text = outcome.rendered
        if text is not None:
            self.texts.put(effect.work.key, effect.work.generation, text)
        if keep is not None:
            self._to_keep[effect.work.number] = keep
        reads = outcome.read
        if not reads:
            reads = await to_thread.run_sync(_template_digest, effect.unit, workspace, limiter=self._threads)
        failed = text is None or any(diagnostic.severity == "error" for diagnostic in outcome.diagnostics)
        facts = RenderFacts(
            not failed,
            outcome.diagnostics,
            self._reads.shared(reads),
            frozenset(map(intern, outcome.missed)) if outcome.missed else NOTHING,
            "" if text is None else intern(f"{text.symbol}:{text.token_key}"),
            "" if text is None else text.symbol,
        )
        return RenderFinished(effect.work, facts, at=time.time())

    async def finish(self, effect: Render) -> None:
        """Keep what was rendered for the next daemon: after an edit not before its compiler has started."""
        if effect.work.number not in self._to_keep:
            return
        try:
            if len(self._to_keep) <= FEW_RENDERS:
                await anyio.sleep(CACHE_DELAY_S)
        finally:
            keep = self._to_keep.pop(effect.work.number)
        await to_thread.run_sync(keep, limiter=self._threads)

    async def look_up(self, effect: LookUp) -> LookUpFinished:
        """See what the store has."""
        compiler = self._compiler()
        text = await self.text(effect.work.key, effect.work.generation, effect.unit, effect.overlays, effect.options)
        if text is None or f"{text.symbol}:{text.token_key}" != effect.work.tokens:
            return LookUpFinished(effect.work, None, at=time.time())
        workspace = self.loads.workspace(effect.work.key.scope)
        take = partial(self._facts_now, effect, text)
        request = compile_request(workspace, effect.unit, text)
        facts = await compiler.builder.find_and(request, take, self._recent_look(compiler))
        self.on_request(request, facts is not None and facts.outcome is Outcome.BUILT, False)
        return LookUpFinished(effect.work, facts, at=time.time())

    async def check(self, effect: Check) -> CheckFinished:
        """Run a unit's host pass. Raises CkwatchError when the host cannot."""
        compiler = self._compiler()
        text = await self.text(effect.work.key, effect.work.generation, effect.unit, effect.overlays, effect.options)
        if text is None or f"{text.symbol}:{text.token_key}" != effect.work.tokens:
            return CheckFinished(effect.work, at=time.time())  # as for `compile`, which comes next and tells
        request = compile_request(self.loads.workspace(effect.work.key.scope), effect.unit, text)
        listener = self._listener(effect, text)
        async with listener.listening():
            result = await compiler.builder.check(request, listener.said)
        if result is None or result.ok or result.transient:
            return CheckFinished(effect.work, at=time.time())
        found = await to_thread.run_sync(self._placing(effect, text), result.log, limiter=self._threads)
        return CheckFinished(effect.work, found, at=time.time())

    def _listener(self, effect: Check | Compile, text: Text) -> LiveDiagnostics:
        return LiveDiagnostics(
            self._placing(effect, text), lambda found: self._post(CompilerOutput(effect.work, found, at=time.time()))
        )

    def _placing(self, effect: Check | Compile, text: Text) -> Callable[[str], tuple[Diagnostic, ...]]:
        """What makes diagnostics of what a compiler of this unit says."""
        return partial(
            self._placed, effect.unit, text, line_reader(effect.overlays), self._shows_header_warnings(effect)
        )

    def _placed(
        self, unit: Unit, text: Text, read_line: ReadLine, header_warnings: bool, log: str
    ) -> tuple[Diagnostic, ...]:
        return live_diagnostics(unit, text, log, read_line, header_warnings=header_warnings)

    def _shows_header_warnings(self, effect: LookUp | Check | Compile) -> bool:
        chosen = effect.options.header_warnings
        settings = self.loads.workspace(effect.work.key.scope).settings
        return settings.compile.header_warnings if chosen is None else chosen

    async def compile(self, effect: Compile) -> CompileFinished:
        """Compile a unit, or take what the store has by now. Raises CkwatchError when the host cannot."""
        compiler = self._compiler()
        text = await self.text(effect.work.key, effect.work.generation, effect.unit, effect.overlays, effect.options)
        if text is None or f"{text.symbol}:{text.token_key}" != effect.work.tokens:
            # A template changed in the meantime; the news of it is on its way.
            facts = CompileFacts(Outcome.FAULTED, effect.work.tokens, finished_at=time.time())
            return CompileFinished(effect.work, facts, at=time.time())
        workspace = self.loads.workspace(effect.work.key.scope)
        request = compile_request(workspace, effect.unit, text)
        listener = self._listener(effect, text)
        async with listener.listening():
            result = await compiler.builder.build(
                request,
                force=effect.force,
                on_said=listener.said,
                on_start=lambda: self._post(CompileStarted(effect.work, at=time.time())),
                on_narrow=lambda: self._post(PassFinished(effect.work, at=time.time())),
                look=self._recent_look(compiler),
                side_by_side=effect.side_by_side,
                waiting=effect.waiting,
            )
        self.compiled += 1
        self.on_request(request, result.ok, True)
        full = result.message if result.fault is CompileFault.NO_SPACE else None
        if full != self._full:
            self._full = full
            self._post(WarningChanged("store", full, at=time.time()))
        return CompileFinished(effect.work, await self._facts(effect, text, result), at=time.time())

    async def text(
        self, key: UnitKey, generation: int, unit: Unit, overlays: Mapping[str, str], options: ViewOverrides
    ) -> Text | None:
        """The unit's text: the kept one, else rendered again; None when the template has errors."""
        kept = self.texts.get(key, generation)
        if kept is not None:
            return kept
        outcome = await self.outcome(key, unit, overlays, options)
        if outcome.rendered is not None:
            self.texts.put(key, generation, outcome.rendered)
        return outcome.rendered

    async def outcome(
        self, key: UnitKey, unit: Unit, overlays: Mapping[str, str], options: ViewOverrides
    ) -> RenderOutcome:
        """A render with all that is known of it."""
        outcome, keep = await self._outcome(self.loads.workspace(key.scope), unit, overlays, options)
        if keep is not None:
            await to_thread.run_sync(keep, limiter=self._threads)
        return outcome

    def _compiler(self) -> CompilerWithStore:
        compiler = self._tools.compiler
        if compiler is None:
            raise RuntimeError("compiling was asked for without a compiler")
        return compiler

    async def _outcome(
        self, workspace: Workspace, unit: Unit, overlays: Mapping[str, str], options: ViewOverrides
    ) -> tuple[RenderOutcome, Callable[[], None] | None]:
        """The render, and what is to be called in a thread to keep it."""
        cache = None
        if not overlays and options.rules:
            cache = self._tools.render_cache(workspace.template_folders)
            if cache is not None:
                get = partial(_cached_render, cache, unit, workspace)
                kept = await to_thread.run_sync(get, limiter=self._threads)
                if kept is not None:
                    return kept, None
        settings = workspace.settings.render
        limits = RenderLimits(settings.time_limit_s, settings.output_limit_bytes)
        outcome = await self._tools.renderers(workspace.template_folders).render(unit, limits, overlays)
        if outcome.rendered is not None:
            checks = partial(_with_static_checks, unit, outcome, workspace, overlays, rules=options.rules)
            outcome = await to_thread.run_sync(checks, limiter=self._threads)
        return outcome, None if cache is None else partial(cache.put, unit, outcome)

    def _recent_look(self, compiler: CompilerWithStore) -> ContentSnapshot:
        now = time.monotonic()
        if self._look is None or now - self._look_at > SNAPSHOT_S:
            self._look, self._look_at = compiler.builder.look(), now
        return self._look

    async def _facts(self, effect: LookUp | Compile, text: Text, result: BuildOutcome) -> CompileFacts:
        return await to_thread.run_sync(partial(self._facts_now, effect, text, result), limiter=self._threads)

    def _facts_now(self, effect: LookUp | Compile, text: Text, result: BuildOutcome) -> CompileFacts:
        quiet = result.ok and not result.log.strip()
        shown = self._shows_header_warnings(effect)
        diagnostics = (
            ()
            if quiet
            else build_diagnostics(effect.unit, text, result, line_reader(effect.overlays), header_warnings=shown)
        )
        artifact = result.artifact
        outcome = Outcome.BUILT if result.ok else Outcome.FAILED
        if result.fault is not None:
            outcome = Outcome.FAULTED
        if artifact is None:
            return CompileFacts(
                outcome, effect.work.tokens, result.key, diagnostics, quiet=quiet, finished_at=time.time(),
                seconds=0.0 if result.outcome is None else result.outcome.duration_s,
            )  # fmt: skip
        return CompileFacts(
            outcome,
            effect.work.tokens,
            result.key,
            diagnostics,
            ArtifactFiles(artifact.folder, artifact.products),
            self._tools.headers_of(artifact),
            result.from_store,
            quiet,
            artifact.record.duration_s,
            artifact.record.peak_memory_bytes,
            _log_time(artifact.log_file) if result.from_store else time.time(),
        )


def _cached_render(cache: RenderCache, unit: Unit, workspace: Workspace) -> RenderOutcome | None:
    kept = cache.get(unit)
    return None if kept is None else _refuse_foreign_files(kept, workspace, {})


def _with_static_checks(
    unit: Unit, outcome: RenderOutcome, workspace: Workspace, overlays: Mapping[str, str], *, rules: bool
) -> RenderOutcome:
    """The render with what shows without a compiler."""
    assert outcome.rendered is not None  # noqa: S101  # the caller has looked
    found = static_checks(unit, outcome.rendered, rules=rules)
    outcome = replace(outcome, diagnostics=(*outcome.diagnostics, *found))
    return _refuse_foreign_files(outcome, workspace, overlays)


def _refuse_foreign_files(outcome: RenderOutcome, workspace: Workspace, overlays: Mapping[str, str]) -> RenderOutcome:
    """The render, if nobody else can write the templates that it read: what is compiled of them is run here."""
    builtin = f"{ckwatch_templates.ROOT}{os.sep}"
    for path, digest in outcome.read.items():
        refusal = None if path in overlays or path.startswith(builtin) else workspace.writers.refusal(path)
        if refusal is not None:
            found = writable_by_others(path, Source.JINJA, refusal)
            # Another mode changes no contents: any news of the file is to be looked at.
            return RenderOutcome(None, (found,), {**outcome.read, path: f"{digest} refused"}, outcome.missed)
    return outcome


def _log_time(log: Path) -> float:
    try:
        return log.stat().st_mtime
    except OSError:  # evicted at this moment
        return time.time()


def _template_digest(unit: Unit, workspace: Workspace) -> dict[str, str]:
    """What a render that was stopped has read at the least: its template. Mending it must set things going again."""
    for folder in workspace.template_folders:
        path = folder / unit.kernel.template
        try:
            return {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}
        except OSError:
            continue
    return {}


def line_reader(overlays: Mapping[str, str]) -> ReadLine:
    """Reads lines for the placing of one result's messages; each file once."""
    files: dict[str, list[str]] = {}

    def read_line(path: str, line: int) -> str | None:
        lines = files.get(path)
        if lines is None:
            text = overlays.get(path)
            if text is None:
                try:
                    text = Path(path).read_bytes().decode("utf-8-sig", "replace")
                except OSError:
                    text = ""
            lines = files[path] = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return lines[line] if 0 <= line < len(lines) else None

    return read_line
