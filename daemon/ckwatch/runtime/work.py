"""Doing what the machine asks for: each piece of work ends in one event."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from sys import intern

import anyio
from anyio import CapacityLimiter, to_thread

import ckwatch_templates
from ckwatch.build.asking import compile_request
from ckwatch.build.messages import heard, placed
from ckwatch.build.static_checks import static_checks
from ckwatch.compile.request import BuildResult, CompileRequest, Fault
from ckwatch.config.document import not_used
from ckwatch.config.workspace import Workspace
from ckwatch.diagnostics.places import ReadLine
from ckwatch.effects import Check, Compile, Load, LookUp, Render, Scan
from ckwatch.events import (
    AnyEvent,
    Checked,
    CompileBegan,
    Compiled,
    CompileFacts,
    Loaded,
    LookedUp,
    Narrowed,
    Options,
    Rendered,
    RenderFacts,
    Said,
    Scanned,
    UnitKey,
    Warned,
)
from ckwatch.model.diagnostic import Diagnostic, Source
from ckwatch.model.kernel import Unit
from ckwatch.model.outcome import Outcome
from ckwatch.render.cache import RenderCache
from ckwatch.render.outcome import Rendered as Text
from ckwatch.render.outcome import RenderLimits, RenderOutcome
from ckwatch.runtime.changes import differences
from ckwatch.runtime.listening import Listener
from ckwatch.runtime.loads import Loads
from ckwatch.runtime.products import Products
from ckwatch.runtime.texts import Reads, Texts
from ckwatch.runtime.tools import Compiler, Tools
from ckwatch.store.contents import Look

LOOK_S = 0.5
"""Headers are looked at once for all look-ups within this time; later changes come as news of their own."""

HELD_S = 2.0
"""Renders wait for an urgent load at most so long. It may change what is to be rendered, and beside a thousand of them
it would take three times as long."""

KEEP_AFTER_S = 0.2
FEW = 20
"""A render is written to disk so long after it, when there are no more than these; each holds its text."""

NOTHING: frozenset[str] = frozenset()

Post = Callable[[AnyEvent], None]


class Workshop:
    """Performs loads, scans, renders, look-ups and compiles of one workspace."""

    def __init__(self, root: Path, tools: Tools, post: Post) -> None:
        self.loads = Loads(root, tools)
        self.texts = Texts()
        self._reads = Reads()
        self._tools = tools
        self._post = post
        self._threads = CapacityLimiter(4)
        self._loads: dict[int, anyio.Event] = {}
        self._to_keep: dict[int, Callable[[], None]] = {}
        self._look: Look | None = None
        self._look_at = 0.0
        self._full: str | None = None
        self.compiled = 0
        self.on_request: Callable[[CompileRequest, bool, bool], None] = lambda _request, _built, _compiled: None
        """Is called with what was compiled or looked up, whether it compiles, and whether it was compiled just now."""

    async def load(self, effect: Load) -> Loaded:
        """Read the workspace. Raises CkwatchError when that is not possible."""
        scope = effect.work.key.scope
        read = partial(self.loads.load, scope, effect.overlays, effect.options)
        if not effect.urgent:
            return Loaded(effect.work, await to_thread.run_sync(read, limiter=self._threads), at=time.time())
        known = self._loads[effect.work.number] = anyio.Event()
        try:
            return Loaded(effect.work, await to_thread.run_sync(read, limiter=self._threads), at=time.time())
        finally:
            del self._loads[effect.work.number]
            known.set()

    async def scan(self, effect: Scan, known: Mapping[str, str | None], always: frozenset[str]) -> Scanned:
        """Look at every tracked file. `known`: what was last read; `always`: files to report in any case."""
        store = self._tools.store
        if store is None:
            return Scanned(effect.work, {}, at=time.time())
        self._look = None
        look = partial(differences, known, always, store.contents.digest)
        return Scanned(effect.work, await to_thread.run_sync(look, limiter=self._threads), at=time.time())

    async def render(self, effect: Render) -> Rendered:
        """Render a unit and check it without a compiler: when it is known which units there are, or that takes long."""
        if self._loads:
            with anyio.move_on_after(HELD_S):
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
        return Rendered(effect.work, facts, at=time.time())

    async def finish(self, effect: Render) -> None:
        """Keep what was rendered for the next daemon: after an edit not before its compiler has started."""
        if effect.work.number not in self._to_keep:
            return
        try:
            if len(self._to_keep) <= FEW:
                await anyio.sleep(KEEP_AFTER_S)
        finally:
            keep = self._to_keep.pop(effect.work.number)
        await to_thread.run_sync(keep, limiter=self._threads)

    async def look_up(self, effect: LookUp) -> LookedUp:
        """See what the store has."""
        compiler = self._compiler()
        text = await self.text(effect.work.key, effect.work.generation, effect.unit, effect.overlays, effect.options)
        if text is None or f"{text.symbol}:{text.token_key}" != effect.work.tokens:
            return LookedUp(effect.work, None, at=time.time())
        workspace = self.loads.workspace(effect.work.key.scope)
        take = partial(self._facts_now, effect, text)
        request = compile_request(workspace, effect.unit, text)
        facts = await compiler.builder.find_and(request, take, self._recent_look(compiler))
        self.on_request(request, facts is not None and facts.outcome is Outcome.BUILT, False)
        return LookedUp(effect.work, facts, at=time.time())

    async def check(self, effect: Check) -> Checked:
        """Run a unit's host pass. Raises CkwatchError when the host cannot."""
        compiler = self._compiler()
        text = await self.text(effect.work.key, effect.work.generation, effect.unit, effect.overlays, effect.options)
        if text is None or f"{text.symbol}:{text.token_key}" != effect.work.tokens:
            return Checked(effect.work, at=time.time())  # as for `compile`, which comes next and tells
        request = compile_request(self.loads.workspace(effect.work.key.scope), effect.unit, text)
        listener = self._listener(effect, text)
        async with listener.listening():
            result = await compiler.builder.check(request, listener.said)
        if result is None or result.ok or result.transient:
            return Checked(effect.work, at=time.time())
        found = await to_thread.run_sync(self._placing(effect, text), result.log, limiter=self._threads)
        return Checked(effect.work, found, at=time.time())

    def _listener(self, effect: Check | Compile, text: Text) -> Listener:
        return Listener(self._placing(effect, text), lambda found: self._post(Said(effect.work, found, at=time.time())))

    def _placing(self, effect: Check | Compile, text: Text) -> Callable[[str], tuple[Diagnostic, ...]]:
        """What makes diagnostics of what a compiler of this unit says."""
        return partial(
            self._placed, effect.unit, text, _line_reader(effect.overlays), self._shows_header_warnings(effect)
        )

    def _placed(
        self, unit: Unit, text: Text, read_line: ReadLine, header_warnings: bool, log: str
    ) -> tuple[Diagnostic, ...]:
        return heard(unit, text, log, read_line, header_warnings=header_warnings)

    def _shows_header_warnings(self, effect: LookUp | Check | Compile) -> bool:
        chosen = effect.options.header_warnings
        settings = self.loads.workspace(effect.work.key.scope).settings
        return settings.compile.header_warnings if chosen is None else chosen

    async def compile(self, effect: Compile) -> Compiled:
        """Compile a unit, or take what the store has by now. Raises CkwatchError when the host cannot."""
        compiler = self._compiler()
        text = await self.text(effect.work.key, effect.work.generation, effect.unit, effect.overlays, effect.options)
        if text is None or f"{text.symbol}:{text.token_key}" != effect.work.tokens:
            # A template changed in the meantime; the news of it is on its way.
            facts = CompileFacts(Outcome.FAULTED, effect.work.tokens, finished_at=time.time())
            return Compiled(effect.work, facts, at=time.time())
        workspace = self.loads.workspace(effect.work.key.scope)
        request = compile_request(workspace, effect.unit, text)
        listener = self._listener(effect, text)
        async with listener.listening():
            result = await compiler.builder.build(
                request,
                force=effect.force,
                on_said=listener.said,
                on_start=lambda: self._post(CompileBegan(effect.work, at=time.time())),
                on_narrow=lambda: self._post(Narrowed(effect.work, at=time.time())),
                look=self._recent_look(compiler),
                side_by_side=effect.side_by_side,
                waiting=effect.waiting,
            )
        self.compiled += 1
        self.on_request(request, result.ok, True)
        full = result.message if result.fault is Fault.NO_SPACE else None
        if full != self._full:
            self._full = full
            self._post(Warned("store", full, at=time.time()))
        return Compiled(effect.work, await self._facts(effect, text, result), at=time.time())

    async def text(
        self, key: UnitKey, generation: int, unit: Unit, overlays: Mapping[str, str], options: Options
    ) -> Text | None:
        """The unit's text: the kept one, else rendered again; None when the template has errors."""
        kept = self.texts.get(key, generation)
        if kept is not None:
            return kept
        outcome = await self.outcome(key, unit, overlays, options)
        if outcome.rendered is not None:
            self.texts.put(key, generation, outcome.rendered)
        return outcome.rendered

    async def outcome(self, key: UnitKey, unit: Unit, overlays: Mapping[str, str], options: Options) -> RenderOutcome:
        """A render with all that is known of it."""
        outcome, keep = await self._outcome(self.loads.workspace(key.scope), unit, overlays, options)
        if keep is not None:
            await to_thread.run_sync(keep, limiter=self._threads)
        return outcome

    def _compiler(self) -> Compiler:
        compiler = self._tools.compiler
        if compiler is None:
            raise RuntimeError("compiling was asked for without a compiler")
        return compiler

    async def _outcome(
        self, workspace: Workspace, unit: Unit, overlays: Mapping[str, str], options: Options
    ) -> tuple[RenderOutcome, Callable[[], None] | None]:
        """The render, and what is to be called in a thread to keep it."""
        cache = None
        if not overlays and options.rules:
            cache = self._tools.render_cache(workspace.template_folders)
            if cache is not None:
                get = partial(_kept_render, cache, unit, workspace)
                kept = await to_thread.run_sync(get, limiter=self._threads)
                if kept is not None:
                    return kept, None
        settings = workspace.settings.render
        limits = RenderLimits(settings.time_limit_s, settings.output_limit_bytes)
        outcome = await self._tools.renderers(workspace.template_folders).render(unit, limits, overlays)
        if outcome.rendered is not None:
            checks = partial(_checked, unit, outcome, workspace, overlays, rules=options.rules)
            outcome = await to_thread.run_sync(checks, limiter=self._threads)
        return outcome, None if cache is None else partial(cache.put, unit, outcome)

    def _recent_look(self, compiler: Compiler) -> Look:
        now = time.monotonic()
        if self._look is None or now - self._look_at > LOOK_S:
            self._look, self._look_at = compiler.builder.look(), now
        return self._look

    async def _facts(self, effect: LookUp | Compile, text: Text, result: BuildResult) -> CompileFacts:
        return await to_thread.run_sync(partial(self._facts_now, effect, text, result), limiter=self._threads)

    def _facts_now(self, effect: LookUp | Compile, text: Text, result: BuildResult) -> CompileFacts:
        quiet = result.ok and not result.log.strip()
        shown = self._shows_header_warnings(effect)
        diagnostics = (
            () if quiet else placed(effect.unit, text, result, _line_reader(effect.overlays), header_warnings=shown)
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
            Products(artifact.folder, artifact.products),
            self._tools.headers_of(artifact),
            result.from_store,
            quiet,
            artifact.record.duration_s,
            artifact.record.peak_memory_bytes,
            _finished_at(artifact.log_file) if result.from_store else time.time(),
        )


def _kept_render(cache: RenderCache, unit: Unit, workspace: Workspace) -> RenderOutcome | None:
    kept = cache.get(unit)
    return None if kept is None else _of_own_files(kept, workspace, {})


def _checked(
    unit: Unit, outcome: RenderOutcome, workspace: Workspace, overlays: Mapping[str, str], *, rules: bool
) -> RenderOutcome:
    """The render with what shows without a compiler."""
    assert outcome.rendered is not None  # noqa: S101  # the caller has looked
    found = static_checks(unit, outcome.rendered, rules=rules)
    outcome = replace(outcome, diagnostics=(*outcome.diagnostics, *found))
    return _of_own_files(outcome, workspace, overlays)


def _of_own_files(outcome: RenderOutcome, workspace: Workspace, overlays: Mapping[str, str]) -> RenderOutcome:
    """The render, if nobody else can write the templates that it read: what is compiled of them is run here."""
    builtin = f"{ckwatch_templates.ROOT}{os.sep}"
    for path, digest in outcome.read.items():
        refusal = None if path in overlays or path.startswith(builtin) else workspace.writers.refusal(path)
        if refusal is not None:
            found = not_used(path, Source.JINJA, refusal)
            # Another mode changes no contents: any news of the file is to be looked at.
            return RenderOutcome(None, (found,), {**outcome.read, path: f"{digest} refused"}, outcome.missed)
    return outcome


def _finished_at(log: Path) -> float:
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


def _line_reader(overlays: Mapping[str, str]) -> ReadLine:
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
