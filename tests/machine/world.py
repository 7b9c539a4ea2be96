"""A simulated world around the state machine: disk, watcher, store, workers and clients.

Work is answered when the test wants it, with what was on disk at any time since it began. After each step the state is
checked, and so is what clients have been told: nothing is shown that was not published, and what is said to be current
is what the world would give now.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ckwatch.events import (
    MAIN,
    AnyEvent,
    BuildRequested,
    Cancel,
    CancelRequested,
    Changed,
    Compile,
    Compiled,
    CompileFacts,
    Continue,
    Continued,
    Effect,
    Ended,
    FilesChanged,
    Load,
    Loaded,
    LoadedWorkspace,
    LookedUp,
    LookUp,
    Record,
    Recorded,
    Render,
    Rendered,
    Scan,
    Scanned,
    Tell,
    UnitKey,
    WorkKind,
)
from ckwatch.machine.check import check, is_at_rest
from ckwatch.machine.files import is_quiet
from ckwatch.machine.state import Phase, State, UnitState
from ckwatch.machine.step import start, step
from ckwatch.machine.units import is_wanted
from ckwatch.model.diagnostic import Diagnostic, Severity, Source
from ckwatch.model.kernel import Unit
from ckwatch.model.outcome import Outcome
from ckwatch.model.text import span
from machine.language import TOML, Read, Text, compile_text, kernel_units, lines_of, render, same_result

WorkEffect = Load | Scan | Render | LookUp | Compile | Record
AtMost = 5000


@dataclass(slots=True)
class Outstanding:
    """A work that has not been answered. `version` is the world's when it began."""

    effect: WorkEffect
    version: int
    known: dict[str, str | None]
    disputed: frozenset[str]
    workspace: LoadedWorkspace | None
    cancelled: bool = False


@dataclass(slots=True)
class Asked:
    """A request as its maker sees it."""

    event: BuildRequested
    version: int
    told: list[str] = field(default_factory=list)
    problem: str | None = None
    done: bool = False


class World:
    """Everything but the machine."""

    def __init__(self, files: Mapping[str, str], state: State | None = None) -> None:
        self.files = dict(files)
        self.version = 0
        self.history: dict[str, list[tuple[int, str | None]]] = {path: [(0, text)] for path, text in files.items()}
        self.state = state or State(root="/ws")
        self.works: dict[int, Outstanding] = {}
        self.unseen: dict[str, None] = {}
        self.inbox: list[FilesChanged] = []
        self.continues = 0
        self.unread: set[str] = set()
        self.texts: dict[UnitKey, tuple[int, Text]] = {}
        self.workspaces: dict[str, LoadedWorkspace] = {}
        self.store: dict[tuple[str, ...], dict[str, CompileFacts]] = {}
        self.compiles: list[UnitKey] = []
        self.not_found: set[tuple[UnitKey, int]] = set()
        self.requests: dict[str, Asked] = {}
        self.shown: dict[str, dict[str, object]] = {MAIN: {}}
        self.shown_files: dict[tuple[str, str], object] = {}
        self.rested: dict[str, str] = {}
        self.take(start(self.state))

    # The disk.

    def write(self, path: str, text: str | None) -> None:
        """Someone saves, or removes, a file."""
        if self.files.get(path) == text:
            return
        self.version += 1
        self.history.setdefault(path, [(0, None)]).append((self.version, text))
        if text is None:
            del self.files[path]
        else:
            self.files[path] = text
        self.unseen[path] = None
        if path == TOML:
            self.rested = {}  # other settings make units idle without an edit

    def between(self, path: str, version: int) -> list[str | None]:
        """The contents of the file from `version` until now."""
        changes = self.history.get(path, [(0, None)])
        before = [text for at, text in changes if at <= version]
        return [*before[-1:], *(text for at, text in changes if at > version)] or [None]

    def notice(self) -> None:
        """The watcher looks at the files that changed; the news of it lies in the inbox from now on."""
        reload = any(path.endswith(".toml") for path in self.unseen)
        self.inbox.append(FilesChanged({path: self.files.get(path) for path in self.unseen}, reload=reload))
        self.unseen.clear()

    def deliver(self) -> None:
        """The oldest news reaches the machine."""
        if not self.inbox:
            self.notice()
        self.send(self.inbox.pop(0))

    # The machine.

    def send(self, event: AnyEvent) -> tuple[Effect, ...]:
        """One step, checked."""
        if isinstance(event, CancelRequested):
            self.rested = {}
        if isinstance(event, BuildRequested):
            self.requests[event.request] = Asked(event, self.version)
        effects = step(self.state, event)
        check(self.state)
        self.take(effects)
        self.verify()
        return effects

    def take(self, effects: tuple[Effect, ...]) -> None:
        """What the machine asks for becomes outstanding; what it says is noted."""
        for effect in effects:
            match effect:
                case Load() | Scan() | Render() | LookUp() | Compile() | Record():
                    assert effect.work.number not in self.works
                    known, disputed = self.state.graph.known_digests()
                    workspace = self.workspaces.get(effect.work.key.scope) or self.workspaces.get(MAIN)
                    self.works[effect.work.number] = Outstanding(effect, self.version, known, disputed, workspace)
                    if isinstance(effect, Compile):
                        self._begin_compile(effect)
                case Cancel(work):
                    assert not self.works[work.number].cancelled, "stopped twice"
                    self.works[work.number].cancelled = True
                case Changed(scope, topic):
                    self._publish(scope, topic)
                case Tell():
                    self._told(effect)
                case Continue():
                    self.continues += 1
                case _:
                    pass

    def _begin_compile(self, effect: Compile) -> None:
        work = effect.work
        assert effect.force or (work.key, work.generation) in self.not_found, "compiled without a look at the store"
        compiling = [one.effect.work for one in self.works.values() if one.effect.work.kind is WorkKind.COMPILE]
        assert len(compiling) <= max(self.state.jobs, 1)
        if len(compiling) > 1 and self.state.memory_bytes is not None:
            assert sum(one.expected_memory_bytes for one in compiling) <= self.state.memory_bytes
        unit = self.state.find(work.key)
        assert unit is not None
        looked_at = {name for focus in self.state.focus.values() for name in focus.units}
        if not self.state.wants and work.key.unit not in looked_at:
            waiting = {key.unit for key in self.state.compile_queue.keys if self._sees(key)}
            assert not waiting & looked_at, "what is looked at comes first"

    def _sees(self, key: UnitKey) -> bool:
        unit = self.state.find(key)
        return any(
            key.unit in focus.units and self.state.seen(client, key.unit) is unit
            for client, focus in self.state.focus.items()
        )

    def _told(self, tell: Tell) -> None:
        asked = self.requests[tell.request]
        assert not asked.done, f"{tell} after the end"
        if tell.unit is None:
            asked.done, asked.problem = True, tell.problem
            return
        assert tell.unit not in asked.told, f"{tell} twice"
        asked.told.append(tell.unit)
        unit = self.state.seen(asked.event.scope, tell.unit)
        if tell.problem is not None or unit is None or None in self.between(TOML, asked.version):
            return
        kernel = unit.unit.kernel.path
        overlays = self.state.scopes[unit.key.scope].overlays
        texts = [overlays[kernel]] if kernel in overlays else self.between(kernel, asked.version)
        archs = (unit.unit.arch,)
        found = [kernel_units(kernel, text, archs) for text in texts if text is not None]
        same = [one for units in found if units for one in units.units if one.id == tell.unit]
        said = f"{tell} is older than its request: {kernel}"
        assert any(one.instance.parameters == unit.unit.instance.parameters for one in same), said
        if asked.event.check_only:
            return
        assert unit.phase is Phase.DONE, f"{tell}: {unit.phase}"
        if unit.result is not None and unit.result.outcome is Outcome.FAULTED:
            return
        assert unit.render is not None
        seen = unit.render.reads.items() | dict.fromkeys(unit.render.missed).items()
        if unit.render.ok:
            assert unit.result is not None
            assert unit.result.headers is not None
            seen |= unit.result.headers.present.items() | dict.fromkeys(unit.result.headers.absent).items()
        for path, digest in seen:
            if path not in overlays:
                assert digest in self.between(path, asked.version), f"{tell} is older than its request: {path}"

    # Workers.

    def reader(self, version: int, seed: int) -> Read:
        """Reads files as they are, or with a seed as they were at some time since `version`; each once."""
        chance, kept = random.Random(seed), dict[str, str | None]()  # noqa: S311  # reproducible by intention

        def read(path: str) -> str | None:
            if path not in kept:
                kept[path] = chance.choice(self.between(path, version)) if seed else self.files.get(path)
            return kept[path]

        return read

    def answer(self, number: int, *, seed: int = 0, fault: str | None = None, cancelled: bool = False) -> None:
        """A work ends: as it should, broken down, or because it was cancelled."""
        work = self.works[number].effect.work
        event: AnyEvent = Ended(work, fault) if fault or cancelled else self._done(self.works[number], seed)
        del self.works[number]
        if work.kind is WorkKind.LOAD:
            (self.unread.add if fault else self.unread.discard)(work.key.scope)
        self.send(event)

    def _done(self, one: Outstanding, seed: int) -> AnyEvent:
        read = self.reader(one.version, seed)
        effect = one.effect
        match effect:
            case Load():
                workspace = self.load(read, effect.overlays, effect.options.archs)
                if workspace is None:
                    return Loaded(effect.work, None, "there is no ckwatch.toml")
                self.workspaces[effect.work.key.scope] = workspace
                return Loaded(effect.work, workspace)
            case Scan():
                now = {path: read(path) for path in one.known}
                changed = {path: text for path, text in now.items() if path in one.disputed or text != one.known[path]}
                return Scanned(effect.work, changed)
            case Render():
                facts, text = render(_over(read, effect.overlays), effect.unit, effect.options)
                if text is not None:
                    self.texts[effect.work.key] = (effect.work.generation, text)
                return Rendered(effect.work, facts)
            case Record():
                return Recorded(effect.work)
            case LookUp() | Compile():
                return self._built(one, effect, read, seed)

    def _built(self, one: Outstanding, effect: LookUp | Compile, read: Read, seed: int) -> AnyEvent:
        key, work = effect.work.key, effect.work
        workspace = self.workspaces.get(key.scope) or self.workspaces[MAIN]
        if seed % 2 and one.workspace is not None:
            workspace = one.workspace
        if workspace.toolchain_problem is not None:
            return Ended(work, "no compiler")
        kept = self.texts.get(key)
        text = kept[1] if kept is not None and kept[0] == work.generation and seed % 5 != 4 else None
        if text is None:
            _, text = render(_over(read, effect.overlays), effect.unit, effect.options)
        looks = isinstance(effect, LookUp)
        if text is None or text.tokens != work.tokens:
            facts = CompileFacts(Outcome.FAULTED, work.tokens)
            return self._not_found(work.key, work.generation, effect) if looks else Compiled(work, facts)
        first = (text.tokens, effect.unit.arch, str(effect.unit.kernel.flags), workspace.settings)
        made = compile_text(read, text, effect.unit, workspace.settings, effect.options)
        assert made.headers is not None
        entries = self.store.setdefault(first, {})
        headers = made.headers.name
        if headers in entries and not (isinstance(effect, Compile) and effect.force):
            made = replace(made, from_store=True)
            return LookedUp(work, made) if looks else Compiled(work, made)
        if looks:
            return self._not_found(work.key, work.generation, effect)
        self.compiles.append(key)
        entries[headers] = made
        return Compiled(work, made)

    def _not_found(self, key: UnitKey, generation: int, effect: LookUp | Compile) -> LookedUp:
        self.not_found.add((key, generation))
        return LookedUp(effect.work, None)

    def load(self, read: Read, overlays: Mapping[str, str], archs: tuple[str, ...]) -> LoadedWorkspace | None:
        """The workspace as it reads now; None without a ckwatch.toml."""
        if read(TOML) is None:
            return None
        over = _over(read, overlays)
        settings, jobs, problem, everything = "", 1, None, False
        for word, *rest in lines_of(over(TOML) or ""):
            if word == "settings":
                settings = rest[0]
            elif word == "jobs":
                jobs = int(rest[0])
            elif word == "no-compiler":
                problem = "there is no hipcc"
            elif word == "everything":
                everything = True
        kernels, diagnostics, files = [], [], [TOML]
        for path in sorted({*self.history, *overlays}):
            text = over(path)
            if not path.endswith(".kernel.toml") or text is None:
                continue
            files.append(path)
            found = kernel_units(path, text, archs)
            if found is not None:
                kernels.append(found)
            else:
                place = span(path, 0, 0, 0, 1)
                diagnostics.append(Diagnostic(Severity.ERROR, Source.KERNEL_FILE, "kernel-file/x", "broken", place))
        return LoadedWorkspace(tuple(kernels), tuple(diagnostics), tuple(files), settings, jobs, problem, everything)

    # What clients see.

    def _publish(self, scope: str, topic: str) -> None:
        kind, _, name = topic.partition("/")
        clients = [scope] if scope != MAIN else list(self.shown)
        for client in clients:
            if kind == "unit":
                self.shown.setdefault(client, {})[name] = _visible(self.state.seen(client, name))
        if kind == "file":
            self.shown_files[scope, name] = self._file(scope, name)

    def _file(self, scope: str, path: str) -> object:
        known = self.state.scopes.get(scope)
        if known is None:
            return ((), {})
        units = {
            name: [diagnostic for diagnostic in unit.diagnostics if diagnostic.span.path == path]
            for name, unit in known.units.items()
        }
        return (known.diagnostics.get(path, ()), {name: found for name, found in units.items() if found})

    def follow(self, client: str) -> None:
        """From now on it is checked what this client is told."""
        names = {*self.state.main.members, *self.state.members(client)}
        self.shown.setdefault(client, {name: _visible(self.state.seen(client, name)) for name in names})

    def verify(self) -> None:
        """What must hold whatever happens."""
        for client, shown in self.shown.items():
            for name in {*self.state.main.members, *self.state.members(client), *shown}:
                now = _visible(self.state.seen(client, name))
                assert shown.get(name) == now, f"{client or 'main'} has not been told of {name}"
        for scope in self.state.scopes.values():
            paths = {*scope.diagnostics, *(one.span.path for unit in scope.units.values() for one in unit.diagnostics)}
            for path in paths | {path for name, path in self.shown_files if name == scope.name}:
                known = self.shown_files.get((scope.name, path), ((), {}))
                assert known == self._file(scope.name, path), f"{path} was not published"
        if not self.unseen and not self.inbox and is_quiet(self.state):
            self.verify_fresh()

    def verify_fresh(self) -> None:
        """All news has reached the machine: what it calls current must be so."""
        if self.files.get(TOML) is None:
            return
        for scope in self.state.scopes.values():
            if {MAIN, scope.name} & self.unread:
                continue
            expected = self.expected(scope.name)
            for name, unit in scope.units.items():
                if unit.fresh:
                    assert name in expected, f"{unit.key} is no more"
                    self._verify_unit(unit, *expected[name])

    def expected(self, scope: str) -> dict[str, tuple[Unit, LoadedWorkspace]]:
        """The units of a scope as the files say now."""
        view = self.state.scopes.get(scope, self.state.main)
        workspace = self.load(self.files.get, view.overlays, view.options.archs)
        assert workspace is not None
        return {unit.id: (unit, workspace) for kernel in workspace.kernels for unit in kernel.units}

    def _verify_unit(self, unit: UnitState, expected: Unit, workspace: LoadedWorkspace) -> None:
        view = self.state.scopes[unit.key.scope]
        said = f"{unit.key} is said to be current"
        assert unit.unit.instance == expected.instance, said
        assert unit.unit.kernel.flags == expected.kernel.flags, said
        if unit.render is None:
            assert unit.result is not None and unit.result.outcome is Outcome.FAULTED, said  # noqa: PT018
            return
        facts, text = render(_over(self.files.get, view.overlays), expected, view.options)
        assert unit.render == facts, said
        if unit.phase is Phase.DONE and facts.ok and unit.result and unit.result.outcome is not Outcome.FAULTED:
            assert text is not None
            now = compile_text(self.files.get, text, expected, workspace.settings, view.options)
            assert same_result(unit.result, now), said

    # Rest.

    def drain(self) -> None:
        """Let everything that is under way come to its end, and look at what came of it."""
        for _ in range(AtMost):
            if self.continues:
                self.proceed()
            elif self.unseen or self.inbox:
                self.deliver()
            elif self.unread & self.state.scopes.keys():
                self.unread.clear()
                self.send(FilesChanged({}, reload=True))
            elif self.works:
                number = min(self.works)
                self.answer(number, cancelled=self.works[number].cancelled)
            else:
                break
        else:
            raise AssertionError(f"no rest: {list(self.works.values())[:3]}")
        self.verify_rest()

    def proceed(self) -> None:
        """The machine goes on with what was too much for one step."""
        self.continues -= 1
        self.send(Continued())

    def verify_rest(self) -> None:
        """Nothing is left to do: all is as a fresh computation would have it."""
        assert is_at_rest(self.state)
        for asked in self.requests.values():
            assert asked.done, f"{asked.event.request} was never answered"
        if self.files.get(TOML) is None:
            return
        for client in {*self.state.scopes, *self.shown}:
            expected = self.expected(client)
            assert self.state.members(client).keys() == expected.keys()
            for name, (unit, workspace) in expected.items():
                seen = self.state.seen(client, name)
                assert seen is not None
                assert seen.fresh
                self._verify_unit_of(client, seen, unit, workspace)
                if seen.phase is Phase.IDLE:
                    edited = client == MAIN and self.rested.get(name, seen.tokens) != seen.tokens
                    assert not edited or workspace.toolchain_problem, f"{seen.key} was edited and not compiled"
                    idle = not is_wanted(self.state, seen) or workspace.toolchain_problem is not None
                    assert idle, f"{seen.key} was wanted"

        units = self.state.main.units.items()
        self.rested = {
            name: unit.tokens for name, unit in units if unit.phase in (Phase.IDLE, Phase.DONE) and unit.tokens
        }

    def _verify_unit_of(self, client: str, seen: UnitState, unit: Unit, workspace: LoadedWorkspace) -> None:
        view = self.state.scopes.get(client, self.state.main)
        if seen.key.scope == view.name:
            self._verify_unit(seen, unit, workspace)
            return
        # The client follows the workspace: it must look the same with its own texts and options.
        if seen.render is not None:
            facts, text = render(_over(self.files.get, view.overlays), unit, view.options)
            assert seen.render == facts, f"{client} should have its own {unit.id}"
            if seen.phase is Phase.DONE and facts.ok and seen.result and seen.result.outcome is not Outcome.FAULTED:
                assert text is not None
                now = compile_text(self.files.get, text, unit, workspace.settings, view.options)
                assert same_result(seen.result, now), f"{client} should have its own {unit.id}"


def _over(read: Read, overlays: Mapping[str, str]) -> Read:
    return lambda path: overlays[path] if path in overlays else read(path)


def _visible(unit: UnitState | None) -> object:
    if unit is None:
        return None
    return (unit.phase, unit.fresh, unit.outcome, unit.diagnostics, unit.cause, unit.unit.instance.span)
