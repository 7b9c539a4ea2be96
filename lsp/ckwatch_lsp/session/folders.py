"""One workspace folder and its daemon: connects, keeps the last known state, and reports changes."""

from __future__ import annotations

import enum
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from glob import escape
from pathlib import Path
from typing import Literal

import anyio
import anyio.lowlevel
from anyio import to_thread

from ckwatch.client import Client, connect
from ckwatch.client.events import BriefChange, Events, UnitInBrief
from ckwatch.client.launch import trust
from ckwatch.client.overlays import pauses
from ckwatch.model.delays import DAEMON_CHANGES, DIAGNOSTIC_CHANGES, PREVIOUS_DAEMON, UNIT_CHANGES
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError, UnknownUnitError, UntrustedError, plain_errors
from ckwatch.model.topics import Topic
from ckwatch.wire.state import Change, File, ShownPlace, Unit, Workspace
from ckwatch_lsp.session.overlays import OverlaySync
from ckwatch_lsp.session.topics import Topics


class UnitTable(MutableMapping[str, Unit]):
    """Units by their ids. One that was looked at is the same object until it changes, and is whole from then on: units
    of an open document are looked at again and again, and thousands of a sweep would take long all at once."""

    def __init__(self) -> None:
        self._known: dict[str, UnitInBrief | Unit] = {}
        self._decoded: dict[str, Unit] = {}

    def __getitem__(self, name: str) -> Unit:
        known = self._known[name]
        if isinstance(known, Unit):
            return known
        whole = self._decoded.get(name)
        if whole is None:
            whole = self._decoded[name] = known.decoded()
        return whole

    def __setitem__(self, name: str, now: UnitInBrief | Unit) -> None:
        self._known[name] = now
        if name in self._decoded:
            self._decoded[name] = now if isinstance(now, Unit) else now.decoded()

    def __delitem__(self, name: str) -> None:
        del self._known[name]
        self._decoded.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def once(self, name: str) -> Unit:
        """Its whole state, for who looks at all units: it is not kept. Raises KeyError."""
        known = self._decoded.get(name) or self._known[name]
        return known if isinstance(known, Unit) else known.decoded()

    def forget(self) -> None:
        """Keep no whole states but of those that are looked at from now on."""
        self._decoded.clear()

    def brief(self, name: str) -> UnitInBrief | Unit | None:
        """Its phase, freshness, generation, and what is timed; None where there is no such unit."""
        return self._known.get(name)

    def path(self, name: str) -> str | None:
        """The kernel file in which it stands; None where there is no such unit."""
        known = self._known.get(name)
        return None if known is None else place_of(known)[0]


def place_of(unit: UnitInBrief | Unit) -> tuple[str, int, int, int, int]:
    """The path, and lines and columns of the start and the end."""
    if isinstance(unit, UnitInBrief):
        return unit.place
    place = unit.place
    return place.path, place.start.line, place.start.column, place.end.line, place.end.column


_log = logging.getLogger(__name__)
_NUMBERS = re.compile("([0-9]+)")


def _place_in_file(unit: Unit) -> tuple[int, int, list[tuple[int, str]]]:
    """The order of a file's units. Those of a sweep stand at one place; their names say their numbers."""
    parts = [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBERS.split(unit.id)]
    return unit.place.start.line, unit.place.start.column, parts


class ConnectionState(enum.Enum):
    """The connection of a folder to its daemon."""

    STARTING = "starting"
    READY = "ready"
    UNTRUSTED = "untrusted"
    BROKEN = "broken"
    STOPPED = "stopped"


RENDERING = ("waiting", "rendering")
"""Phases of a unit whose text is not known yet."""

PATIENT_TOPICS = frozenset({"units", "rendered", "workspace"})
"""Topics that change, beside those of units, while thousands of units are rendered."""


FILES_AT_ONCE = 20
"""Kernel files whose units are decoded before other tasks have their turn."""

SHOWN_AT_INSTANCES = ("verify",)
"""Sources whose diagnostics the daemon gives at the instance, too."""


class WorkspaceFolder:
    """The workspace at `root`. `on_change` is called soon after a change, with the topics that changed; at once where
    these are diagnostics of a file that `is_open`. `shows`: the editor can show places for other clients.
    """

    def __init__(
        self,
        root: Path,
        on_change: Callable[[WorkspaceFolder, Topics], None],
        *,
        start: bool = True,
        shows: bool = False,
        is_open: Callable[[str], bool] = lambda _path: True,
    ) -> None:
        self.root = root
        self._inside = f"{root}{os.sep}"
        self.connection = ConnectionState.STARTING
        self.problem: CkwatchError | None = None
        """Why it is broken or untrusted."""
        self.workspace: Workspace | None = None
        self.units = UnitTable()
        self._by_path: dict[str, dict[str, None]] = {}
        self.phases = Counter[str]()
        """How many units are in which phase."""
        self.timed: dict[str, None] = {}
        """The units that are being timed."""
        self._elsewhere: dict[str, dict[str, list[Diagnostic]]] = {}
        """Errors in files outside of the workspace, by unit and file."""
        self.files: dict[str, File] = {}
        """Diagnostics by absolute path."""
        self.overlaid: dict[str, Mapping[str, int]] = {}
        """By the path of such a file: which revisions of open documents the daemon had when it reported it."""
        self._unseen_states: dict[str, list[tuple[File, Mapping[str, int]]]] = {}
        self.client: Client | None = None
        self._shown: ShownPlace | None = None
        self.overlays = OverlaySync()
        self._on_change = on_change
        self._start = start
        self._shows = shows
        self._is_open = is_open
        self._wake = anyio.Event()
        self._changed: set[str] = set()
        self._has_changes = anyio.Event()
        self._is_urgent = anyio.Event()
        self._focus: tuple[tuple[str, ...], tuple[str, ...], Literal["looked-at", "none"]] = ((), (), "looked-at")
        """Units, files, and which unsaved texts are compiled."""
        self._focus_changed = anyio.Event()
        self._events: Events[BriefChange] | None = None
        self._known_at = -1
        """`overlays.changes` when the daemon's states were known to be about the present texts."""
        self.progressed = anyio.Event()
        """Set when the daemon reports anything or its connection changes; then there is another one."""

    async def run(self) -> None:
        """Be connected as long as that is possible. Ends only by being cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._report_changes)
            waits = pauses()
            while True:
                self._wake = anyio.Event()
                reached = False
                try:
                    async with connect(self.root, start=self._start, client_name="lsp") as client:
                        reached = True
                        await self._follow(client)
                    self._set_connection(ConnectionState.STOPPED)
                except UntrustedError as error:
                    self._set_connection(ConnectionState.UNTRUSTED, error)
                except CkwatchError as error:
                    self._set_connection(ConnectionState.BROKEN, error)
                finally:
                    self.client = self._events = None
                if reached and self.connection is ConnectionState.BROKEN:
                    waits = pauses()
                # a daemon that was stopped stays stopped until the user does something
                limit_s = next(waits) if self.connection is ConnectionState.BROKEN else None
                with anyio.move_on_after(limit_s) if limit_s is not None else anyio.CancelScope():
                    await self._wake.wait()

    def take_shown(self) -> ShownPlace | None:
        """The place to be shown, if there is a new one since the last call."""
        place, self._shown = self._shown, None
        return place

    def wake(self) -> None:
        """Try to reach the daemon again: something has changed."""
        self._wake.set()

    @property
    def ready(self) -> Client:
        """The client. Raises CkwatchError, with the reason, where there is no daemon."""
        if self.client is None:
            if self.problem is not None:
                raise self.problem
            raise CkwatchError(f"there is no daemon for {self.root} yet", "Try again in a moment.")
        return self.client

    def diagnostics(self, path: str) -> Sequence[Diagnostic]:
        """The daemon's diagnostics of a file."""
        known = self.files.get(path)
        return () if known is None else known.diagnostics

    def units_at(self, path: str) -> list[Unit]:
        """The units whose instances stand in the kernel file at `path`."""
        return sorted((self.units[name] for name in self._by_path.get(path, ())), key=_place_in_file)

    def kernel_files(self) -> list[str]:
        """The paths of the kernel files that have units."""
        return [path for path, units in self._by_path.items() if units]

    async def units_in_order(self) -> list[Unit]:
        """All units, kernel file by kernel file, in the order of their instances; changes come in any order."""
        found = []
        for index, path in enumerate(sorted(self._by_path)):
            if index % FILES_AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()
            found += sorted((self.units.once(name) for name in self._by_path[path]), key=_place_in_file)
        return found

    @property
    def is_loaded(self) -> bool:
        """True if there is a daemon that knows its workspace."""
        return self.connection is ConnectionState.READY and self.workspace is not None and self.workspace.loaded

    @property
    def is_rendering(self) -> bool:
        """True if any unit is waiting for its render."""
        return any(self.phases[phase] for phase in RENDERING)

    def errors_elsewhere(self, path: str) -> Iterator[tuple[Unit, Diagnostic]]:
        """The errors in files outside of the workspace, each with the first unit of the kernel file at `path` that has
        it."""
        seen = set[int]()
        for unit in self.units_at(path) if self._elsewhere else ():
            for errors in self._elsewhere.get(unit.id, {}).values():
                for error in errors:
                    if id(error) not in seen:
                        seen.add(id(error))
                        yield unit, error

    async def caught_up(self) -> bool:
        """Wait for the daemon's states of the open documents as they are now, and report them; False if there is no
        daemon. Units may still wait for their render or their compiler: what they had before is marked as stale."""
        while self.connection in (ConnectionState.STARTING, ConnectionState.READY):
            loaded = self.workspace is not None and self.workspace.loaded
            if loaded and self._known_at == self.overlays.changes:
                self._report()
                return True
            client, events = self.client, self._events
            if not loaded or client is None or events is None:
                await self.progressed.wait()
                continue
            await self.overlays.all_settled()
            changes = self.overlays.changes
            try:
                seq = await client.sync()
            except CkwatchError as error:
                _log.info("%s: %s", self.root, error)
                await self.progressed.wait()
                continue
            await events.reached(seq)
            if events is self._events and changes == self.overlays.changes:
                self._known_at = changes
        return False

    def _progress(self) -> None:
        self.progressed.set()
        self.progressed = anyio.Event()

    def focus(self, units: Sequence[str], *, files: Sequence[str] = (), compile_unsaved: bool = True) -> None:
        """Work on these units first, and build them whenever they change, unsaved if `compile_unsaved`."""
        before, self._focus = self._focus, (tuple(units), tuple(files), "looked-at" if compile_unsaved else "none")
        if self._focus != before:
            self._focus_changed.set()

    async def trust(self) -> None:
        """Put the workspace on the user's list, and connect."""
        await to_thread.run_sync(trust, self.root)
        self.wake()

    async def restart(self) -> None:
        """Stop the daemon, and start another."""
        client = self.client
        if client is not None:
            await client.stop()
        self.wake()

    async def _follow(self, client: Client) -> None:
        self.client = client
        self.problem = None
        seen: set[str] = set()
        loaded = announced = False
        async with plain_errors(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._send_focus, client)
            tasks.start_soon(self.overlays.run, client)
            async with client.events_in_brief() as changes:
                self._events = changes
                async for change in changes:
                    self._take(change)
                    seen.add(change.topic)
                    if not announced:  # not before it follows: it would miss a place that is counted as shown
                        announced = True
                        tasks.start_soon(partial(client.editor, shows=self._shows))
                    state = change.state
                    if not loaded and isinstance(state, Workspace) and state.loaded:
                        loaded = True
                        self._set_connection(ConnectionState.READY)
                        tasks.start_soon(self._drop_unknown, seen)
            tasks.cancel_scope.cancel()

    async def _drop_unknown(self, seen: set[str]) -> None:
        """Another daemon may not know what the one before did."""
        await anyio.sleep(PREVIOUS_DAEMON.seconds)
        for topic in [*map(Topic.unit, self.units), *map(Topic.file, self.files)]:
            if topic not in seen:
                self._take(BriefChange(0, topic))
        seen.clear()

    def _take(self, change: Change | BriefChange) -> None:
        kind, name, state = change.topic.kind, change.topic.name, change.state
        if kind == "unit":
            self._take_unit(name, state if isinstance(state, UnitInBrief | Unit) else None)
        elif kind == "file":
            if not name.startswith(self._inside):
                self._take_outside(name, state if isinstance(state, File) else None)
            if isinstance(state, File):
                self.files[name] = state
            else:
                self.files.pop(name, None)
            self.overlaid[name] = self.overlays.sent()
            self._keep_state(name)
        elif kind == "workspace" and isinstance(state, Workspace):
            self.workspace = state
        elif kind == "show" and isinstance(state, ShownPlace):
            self._shown = state
        self.mark_changed(change.topic)
        self._progress()

    def _take_unit(self, name: str, now: UnitInBrief | Unit | None) -> None:
        before = self.units.brief(name)
        is_there = before is not None and now is not None and place_of(before) == place_of(now)
        if not is_there:
            self.mark_changed("units")
            self._mark_elsewhere(name)
        if before is not None:
            self._by_path[place_of(before)[0]].pop(name)
            self.phases[before.phase] -= 1
        if now is None:
            self.units.pop(name, None)
            self.timed.pop(name, None)
            return
        self.units[name] = now
        self._by_path.setdefault(place_of(now)[0], {})[name] = None
        self.phases[now.phase] += 1
        if now.measuring is None:
            self.timed.pop(name, None)
        else:
            self.timed.setdefault(name)
        was_awaited = before is None or before.phase in RENDERING or before.generation != now.generation
        if was_awaited and now.phase not in RENDERING:
            self.mark_changed("rendered")
        if not is_there:
            self._mark_elsewhere(name)

    def _take_outside(self, path: str, now: File | None) -> None:
        before = self.files.get(path)
        concerned = {unit: None for one in before.diagnostics for unit in one.units} if before is not None else {}
        for unit in concerned:
            self._elsewhere.get(unit, {}).pop(path, None)
        for one in now.diagnostics if now is not None else ():
            for unit in one.units if one.severity == "error" and one.source not in SHOWN_AT_INSTANCES else ():
                concerned[unit] = None
                self._elsewhere.setdefault(unit, {}).setdefault(path, []).append(one)
        for unit in concerned:
            self._mark_elsewhere(unit)
            if not self._elsewhere.get(unit, True):
                del self._elsewhere[unit]

    def _mark_elsewhere(self, unit: str) -> None:
        """The kernel file in which the unit stands may have other errors, if the unit has any outside."""
        path = self.units.path(unit) if unit in self._elsewhere else None
        if path is not None:
            self.mark_changed(f"elsewhere/{path}")

    def take_states(self, path: str) -> list[tuple[File, Mapping[str, int]]]:
        """The states of a file since the last call, in order, each with the revisions that the daemon had: what was
        away for a moment is new when it is back, though it reads as before."""
        return self._unseen_states.pop(path, None) or [self._current_state(path)]

    def _keep_state(self, path: str) -> None:
        news, present = self._unseen_states.setdefault(path, []), self._current_state(path)
        if news and news[-1][0].diagnostics == present[0].diagnostics:
            news.pop()
        news.append(present)

    def _current_state(self, path: str) -> tuple[File, Mapping[str, int]]:
        nothing = File(path=path, diagnostics=(), generations={})
        return self.files.get(path, nothing), self.overlaid.get(path, {})

    def _set_connection(self, connection: ConnectionState, problem: CkwatchError | None = None) -> None:
        if connection is ConnectionState.BROKEN:
            _log.warning("%s: %s", self.root, problem)
        self.connection, self.problem = connection, problem
        self._known_at = -1
        self.mark_changed("connection")
        self._progress()

    def mark_changed(self, topic: str) -> None:
        """Report `topic` as changed soon."""
        self._changed.add(topic)
        self._has_changes.set()
        if not self._is_patient(topic):
            self._is_urgent.set()

    def _is_patient(self, topic: str) -> bool:
        kind, _, name = topic.partition("/")
        return kind == "unit" or topic in PATIENT_TOPICS or (kind == "file" and not self._is_open(name))

    async def _report_changes(self) -> None:
        reported_s = 0.0
        while True:
            await self._has_changes.wait()
            due_s = max(anyio.current_time() + DAEMON_CHANGES.seconds, reported_s + UNIT_CHANGES.seconds)
            with anyio.CancelScope(deadline=due_s):
                await self._is_urgent.wait()
            await anyio.sleep_until(reported_s + DIAGNOSTIC_CHANGES.seconds)
            self._report()
            reported_s = anyio.current_time()

    def _report(self) -> None:
        if self._changed:
            topics, self._changed = Topics(self._changed), set()
            self._has_changes, self._is_urgent = anyio.Event(), anyio.Event()
            self._on_change(self, topics)

    async def _send_focus(self, client: Client) -> None:
        while True:
            self._focus_changed = anyio.Event()
            units, files, unsaved = self._focus
            try:
                await client.focus(*map(escape, units), files=files, unsaved=unsaved)
            except UnknownUnitError as error:
                _log.info("%s: %s", self.root, error)
            await self._focus_changed.wait()
