"""`Client`: everything a program can ask of a workspace's daemon. `connect` makes one."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from anyio.from_thread import start_blocking_portal

from ckwatch.client import launch
from ckwatch.client.connection import Connection, LineIterator, Reach, ask
from ckwatch.client.events import BriefChange, Events, ReadChange, ReadUnit, in_brief, whole_change
from ckwatch.client.http import connection_to
from ckwatch.client.launch import end_of
from ckwatch.client.overlays import FAREWELL_S, ClientStateSync, Overlay, OverlayText, sendable
from ckwatch.model.errors import CkwatchError, DaemonGoneError, UnknownUnitError, plain_errors
from ckwatch.questions.clients import ClientQuestions
from ckwatch.questions.endpoint import NOTHING, Answer, AnyEndpoint, AsyncAsker, Question, Request
from ckwatch.questions.timings import TimingQuestions
from ckwatch.questions.units import UnitQuestions
from ckwatch.questions.workspace import WorkspaceQuestions
from ckwatch.system.user_files import read_file
from ckwatch.workspace.discovery import find_workspace

if TYPE_CHECKING:
    from ckwatch.client.builds import BuildResult, Sweep, UnitResult
    from ckwatch.client.cpp import CppClient
    from ckwatch.client.private import OpenEngine
    from ckwatch.client.sweep import Condition, Derived, Parameters, Values
    from ckwatch.client.tuning_changes import TuningChanges
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.tuning.results import TuningRecord, TuningRun
    from ckwatch.tuning.runner import Tuning
    from ckwatch.wire.rows import UnitRow
    from ckwatch.wire.state import Change, Status, Unit
    from ckwatch.wire.unit_changes import UnitChange
    from ckwatch.wire.verification import UnitVerification


class Client(WorkspaceQuestions, UnitQuestions, TimingQuestions, AsyncAsker):
    """A connection to the daemon of one workspace, made by `connect`.

    Patterns name units as on the command line: `KERNEL`, `KERNEL/INSTANCE`, `KERNEL/INSTANCE@ARCH`, with `*`, `?` and
    `[…]`; none means all. Where one unit is asked for, it is named by its id, in which `@ARCH` may be left out if the
    instance is compiled for one arch only. Relative paths are relative to the workspace.

    Every method raises the CkwatchError that the daemon answers with: UnknownUnitError for a pattern that names
    nothing, CkwatchError for other mistakes; DaemonGoneError when there is no daemon and none may be started,
    DaemonSilentError when it does not answer, and ProtocolError when what answers is none. A daemon that went away is
    found again, or started again where that is allowed, and a request that does no harm twice is sent to it once more.
    """

    def __init__(self, connection: Connection, tasks: TaskGroup, root: Path, status: Status, client: str) -> None:
        self.root = Path(status.root)
        """The workspace's folder, as the daemon names it in paths."""
        self.id = client
        """The daemon knows this client's own view by this name."""
        self._root_as_given = root
        self._tasks = tasks
        self._connection = connection
        self._state_sync = ClientStateSync(connection, client, tasks)
        self._is_known = False
        connection.restore = self._state_sync.settle

    async def sync(self) -> int:
        """Return when the daemon knows the files as they are now, on disk and in this client's overlays.

        `reached` of this client's events waits for the returned number.
        """
        viewer = await self._viewer()
        if viewer is None and self._state_sync.has_sent:
            viewer = self.id  # its view may not be gone yet
        body = json.dumps({"units": [], "check_only": True, "client": viewer}).encode()
        seq = 0
        async with self._connection.answer(Request("POST", ("builds",), body=body)) as exchange:
            async for line in LineIterator(exchange, UnitQuestions.building):
                seq = line.seq
        return seq

    async def kernels(self) -> dict[str, tuple[Unit, ...]]:
        """The names of the kernels, each with its units."""
        found: dict[str, list[Unit]] = {}
        for unit in await self.units():
            found.setdefault(unit.kernel, []).append(unit)
        return {name: tuple(units) for name, units in found.items()}

    async def diagnostics(self, path: str | os.PathLike[str]) -> tuple[Diagnostic, ...]:
        """The messages in a file of the workspace, of all its units."""
        return (await self._ask(ClientQuestions.file, (path,))).diagnostics

    def events(self) -> Events[Change]:
        """The state of everything, followed: first a change for each thing that is, then one whenever it changes.

        A topic that is gone has a change without state. Connections and daemons that are lost in between are replaced,
        and nothing is missed but states that lasted shorter than that. See `Events` for how it ends.
        """
        self._is_known = True
        return Events(self._connection, self._state_sync, self.id, whole_change)

    def events_in_brief(self) -> Events[BriefChange]:
        """The same with units in brief: `state.decoded()` is all that `events` gives of one."""
        return self.events_as(in_brief)

    def events_as(self, of_unit: Callable[[Mapping[str, Any]], ReadUnit]) -> Events[ReadChange[ReadUnit]]:
        """The same with units as `of_unit` makes them of their JSON, for a program that needs a part of thousands."""
        self._is_known = True
        return Events(self._connection, self._state_sync, self.id, ReadChange, of_unit)

    def events_in_rows(self) -> Events[ReadChange[UnitRow]]:
        """The same with units as rows of a table, `untimed` until they change: `unit_rows` gives them with timings."""
        from ckwatch.wire.rows import read_row

        self._is_known = True
        return Events(self._connection, self._state_sync, self.id, ReadChange, read_row, rows=True)

    # Builds.

    async def build(
        self, *patterns: str, force: bool = False, check_only: bool = False, lines: bool = False
    ) -> BuildResult:
        """Build units and wait for fresh results. Being cancelled cancels what no other client waits for.

        With `lines` what is compiled has the line tables that a profile by lines or a listing needs.
        """
        try:
            return await self._built(patterns, force=force, check_only=check_only, lines=lines)
        except DaemonGoneError:
            if force:
                raise
        return await self._built(patterns, force=False, check_only=check_only, lines=lines)

    async def rerun(self, *patterns: str) -> BuildResult:
        """Compile units again, whatever the store has, and wait."""
        return await self.build(*patterns, force=True)

    async def check(self, *patterns: str) -> BuildResult:
        """Render units and check them without a compiler."""
        return await self.build(*patterns, check_only=True)

    # This client's own view.

    @asynccontextmanager
    async def overlay(self, path: str | os.PathLike[str], text: str) -> AsyncIterator[Overlay]:
        """Put a text in place of a file's, in this client's view only, as long as the context is open.

        The file need not exist. Half a UTF-16 pair, as editors may have it, becomes U+FFFD.
        """
        self._is_known = True
        entry = self._state_sync.state.add(OverlayText(self._absolute(path), sendable(text)))
        async with self._state_sync.overlaying(entry) as overlay:
            yield overlay

    async def focus(
        self,
        *patterns: str,
        files: Iterable[str | os.PathLike[str]] = (),
        everything: bool = False,
        unsaved: Literal["edited", "looked-at", "none"] = "edited",
    ) -> None:
        """Put what this client views first: units, and those that files belong to.

        `everything`: every unit is built as long as this client is there. `unsaved`: which units that overlays have
        changed are compiled although no build asks for them. Holds until it is called again.
        """
        from ckwatch.wire.requests import FocusRequest

        chosen = FocusRequest.model_construct(
            units=list(patterns), files=[self._absolute(path) for path in files], everything=everything, unsaved=unsaved
        )
        self._is_known = True
        differs = chosen.units or chosen.files or everything or unsaved != "edited"
        await self._state_sync.set("focus", chosen if differs else None)

    async def view(self, *, archs: Sequence[str] = (), rules: bool = True, header_warnings: bool | None = None) -> None:
        """How this client sees the workspace: for other archs, without instance rules, with warnings in headers.

        Holds until it is called again; without arguments it is the workspace as it is.
        """
        from ckwatch.wire.requests import ViewRequest

        chosen = ViewRequest.model_construct(archs=list(archs), rules=rules, header_warnings=header_warnings)
        self._is_known = True
        await self._state_sync.set("view", chosen if archs or not rules or header_warnings is not None else None)

    async def editor(self, *, shows: bool) -> None:
        """Declare that this client is an editor: its overlays are then what `unsaved` returns to others. With `shows`
        it shows places, and its `events` have the topic `show`.

        What others ask an editor to show is reported once, and only the last place to one that reads slowly. Holds
        until it is called again.
        """
        from ckwatch.wire.requests import EditorRequest

        self._is_known = True
        await self._state_sync.set("editor", EditorRequest(shows=shows))

    @asynccontextmanager
    async def sweep(
        self,
        kernel: str,
        parameters: Mapping[str, Values] | None = None,
        *,
        instances: Iterable[Parameters] | None = None,
        base: str | None = None,
        where: Condition | None = None,
        derived: Derived | None = None,
        name: str | None = None,
        force: bool = False,
        check_only: bool = False,
    ) -> AsyncIterator[Sweep]:
        """Build instances that no file has, and see their results as they settle.

        `parameters`: every combination of the values for which `where` holds, which is asked in a thread, each with
        what `derived` works out from it. `instances`: these, one by one. Both stand on the parameters of the instance
        `base`, and without one on the kernel file's `[defaults]`. The instances are called `name_128_32` by their
        values, or `name_0`, `name_1`, … One that an instance rule refuses is `skipped`.

        An overlay of the kernel file has the instances at its end, in this client's view only, as long as the context
        is open. Raises CkwatchError for what is wrong with the sweep, in the words of the kernel file if it is there.
        """
        from glob import escape

        from ckwatch.client import sweep as sweeps
        from ckwatch.client.builds import Sweep

        if (parameters is None) == (instances is None):
            raise CkwatchError("a sweep needs either parameters or instances")
        if parameters is None and (where is not None or derived is not None):
            raise CkwatchError("`where` and `derived` are for a sweep of `parameters`, not of `instances`")
        await self.sync()
        present = await self.units(escape(kernel))
        if any(unit.kernel != kernel for unit in present):
            raise CkwatchError(f"'{kernel}' is not a kernel", f"sweep the kernel '{present[0].kernel}'")
        taken = dict.fromkeys(unit.instance for unit in present)
        archs = dict.fromkeys(unit.arch for unit in present)
        beneath = await self._parameters_of(kernel, base, taken, next(iter(archs))) if base is not None else {}
        prefix = name or sweeps.free_name(taken)
        if parameters is not None:
            chosen = await to_thread.run_sync(sweeps.product_of, prefix, parameters, where, beneath, derived)
        else:
            chosen = sweeps.listed(prefix, instances or ())
        if both := next((instance for instance in chosen if instance in taken), None):
            raise CkwatchError(f"the kernel has an instance `{both}`", "give the sweep another `name`")
        units = {f"{kernel}/{instance}@{arch}": own for instance, own in chosen.items() for arch in archs}
        path = present[0].place.path
        text = await to_thread.run_sync(sweeps.instance_tables, chosen, beneath)
        self._is_known = True
        entry = self._state_sync.state.add(OverlayText(path, text, await to_thread.run_sync(_text_of, path)))
        async with self._state_sync.overlaying(entry), AsyncExitStack() as stack:
            try:
                lines = await stack.enter_async_context(
                    self.building(*map(escape, units), force=force, check_only=check_only)
                )
                missing = set(units).difference((await anext(lines)).units)
                if missing:
                    raise UnknownUnitError(f"the sweep's instance '{min(missing)}' is not there")
            except UnknownUnitError as error:
                raise await self._refusal(path, error) from None
            yield Sweep(lines, units, checked=check_only)

    @asynccontextmanager
    async def adding_to(self, path: str | os.PathLike[str]) -> AsyncIterator[Overlay]:
        """Have text below that of a file, in this client's view only, as long as the context is open: at first none."""
        absolute = self._absolute(path)
        self._is_known = True
        entry = self._state_sync.state.add(OverlayText(absolute, "", await to_thread.run_sync(_text_of, absolute)))
        async with self._state_sync.overlaying(entry) as overlay:
            yield overlay

    @asynccontextmanager
    async def tune(
        self,
        kernel: str,
        parameters: Mapping[str, Values] | None = None,
        *,
        instances: Iterable[Parameters] | None = None,
        where: Condition | None = None,
        derived: Derived | None = None,
        shapes: Sequence[str] | None = None,
        arch: str | None = None,
        devices: Sequence[str] = (),
        strategy: str = "local",
        seed: int = 0,
        budget_s: float | None = None,
        measurements: int | None = None,
        patience: int | None = 40,
        racing: bool = True,
        jobs: int | None = None,
        again: bool = False,
    ) -> AsyncIterator[Tuning]:
        """Find the best instance of a kernel for each of its shapes, or some of them, as long as the context is open.

        It is looked for among the instances of the kernel file and the points of its sweeps with `tune = true`; or,
        as in `sweep`, among the combinations of `parameters`, or `instances`. `devices`: names or PCI addresses of
        devices of one kind, or `["all"]`; by default the best one. `strategy`: `local`, `random` or `all`. The run ends
        when `budget_s` seconds or so many `measurements` are used up, or when `patience` evaluations have brought no
        shape anything (None: never). `racing`: give up instances that are clearly worse. `jobs`: compiles at a time.
        What earlier runs have found is taken over, unless `again`.

        Iterate over the run to see results as they settle; `finish` waits for its end, and `record` is what was found.
        """
        await to_thread.run_sync(import_module, "ckwatch.tuning.opening")  # too slow for an event loop
        from ckwatch.client import sweep as sweeps
        from ckwatch.tuning.opening import open_tuning
        from ckwatch.tuning.plan import TuningOptions

        if parameters is not None and instances is not None:
            raise CkwatchError("a run searches either parameters or instances")
        listed = None
        if parameters is not None:
            listed = await to_thread.run_sync(sweeps.product_of, kernel, parameters, where, None, derived)
        elif instances is not None:
            listed = sweeps.listed(kernel, instances)
        chosen = TuningOptions(
            strategy=strategy,
            seed=seed,
            budget_s=budget_s,
            measurements=measurements,
            patience=patience,
            racing=racing,
            jobs=jobs,
        )
        tuning = open_tuning(
            self, kernel, chosen, shapes=shapes, arch=arch, devices=devices, listed=listed, again=again
        )
        async with tuning as run:
            yield run

    async def tuning_runs(self, kernel: str | None = None) -> list[TuningRun]:
        """The tuning runs of all processes, or those of a kernel, newest first: those that go on, that have ended and
        that were interrupted."""
        await to_thread.run_sync(import_module, "ckwatch.tuning.journal")
        from ckwatch.tuning.journal import runs_of

        return await to_thread.run_sync(runs_of, self.root, kernel)

    async def tuning_record(self, run: int) -> TuningRecord:
        """All that a run has found so far, by its number (`TuningRun.id`). Raises CkwatchError for an unknown one."""
        await to_thread.run_sync(import_module, "ckwatch.tuning.journal")
        from ckwatch.tuning.journal import record_of

        return await to_thread.run_sync(record_of, self.root, run)

    def tuning_changes(self) -> TuningChanges:
        """When to ask again: gives None at once, and then whenever something of the tuning runs has changed."""
        from ckwatch.client.tuning_changes import TuningChanges

        return TuningChanges(self._tasks, self.root)

    async def verify(self, *patterns: str, shapes: Sequence[str] = (), force: bool = False) -> list[UnitVerification]:
        """Build units, have an emulator execute them, and wait: what is known of each, those that cannot be verified
        too, with the reason. Being cancelled cancels what no other client waits for."""
        async with self.verifying(*patterns, shapes=shapes, force=force) as lines:
            return [line.result async for line in lines if line.result is not None]

    async def upgrade(self, *patterns: str, to: str, verify: bool = True) -> list[UnitChange]:
        """The changes that another toolchain would make to units, in the order of the kernel files; as `upgrading`, and
        waits. `ckwatch.wire.unit_changes.change_summary` sums up."""
        async with self.upgrading(*patterns, to=to, verify=verify) as lines:
            found = {line.change.unit: line.change async for line in lines if line.change is not None}
        return [found.pop(unit.id) for unit in await self.units(*patterns) if unit.id in found] + list(found.values())

    # The words of templates and files.

    async def readers_of(self, paths: Iterable[str]) -> dict[str, list[str]]:
        """The same for several files, by the paths as they are given."""
        from ckwatch.wire.schema import READERS_LIMIT

        given = {path: self._absolute(path) for path in paths}
        asked = list(dict.fromkeys(given.values()))
        found: list[list[str]] = []
        for start in range(0, len(asked), READERS_LIMIT):
            some = asked[start : start + READERS_LIMIT]
            answer = await self._ask(ClientQuestions.readers_of, (some,))
            found += answer
        by_path = dict(zip(asked, found, strict=True))
        return {path: by_path[absolute] for path, absolute in given.items()}

    @property
    def cpp(self) -> CppClient:
        """Questions about C++, in the view of this client: hover, completion, definition and so on."""
        from ckwatch.client.cpp import CppClient

        return CppClient(self._connection, self._absolute, self._viewer)

    # The end.

    async def stop(self) -> None:
        """End the daemon, and wait until it has ended. Another request of this client may start another."""
        try:
            await self._connection.reach(start=False)
            process = (await self.status()).pid
            with end_of(process) as ended:
                self._connection.has_stopped_it = True
                await self._ask(ClientQuestions.stop)
                await ended()
        except DaemonGoneError:
            return

    async def leave(self) -> None:
        """Leave the daemon, which drops all that it has of this client at once. `connect` ends with this."""
        if self._is_known:
            await self._connection.leave(self.id)

    async def _built(
        self, patterns: Sequence[str], *, force: bool, check_only: bool, lines: bool = False
    ) -> BuildResult:
        from ckwatch.client.builds import BuildResult, unit_result

        order: tuple[str, ...] = ()
        found: dict[str, UnitResult] = {}
        async with self.building(*patterns, force=force, check_only=check_only, lines=lines) as results:
            async for line in results:
                if line.event == "start":
                    order = line.units
                elif line.event == "unit":
                    result = unit_result(line, checked=check_only)
                    found[result.id] = result
        return BuildResult(tuple(found[unit] for unit in dict.fromkeys((*order, *found)) if unit in found))

    async def _viewer(self) -> str | None:
        """This client's id where its view is its own; the daemon then has what makes it so."""
        if not self._state_sync.state.differs:
            return None
        await self._state_sync.settle()
        return self.id

    async def _ask(
        self, question: Question[..., Answer], given: tuple[Any, ...] = (), named: Mapping[str, Any] = NOTHING
    ) -> Answer:
        viewer = await self._viewer() if question.viewed else None
        return await ask(self._connection, question, given, named, absolute=self._absolute, viewer=viewer)

    @asynccontextmanager
    async def _follow(
        self, lines: AnyEndpoint, given: tuple[Any, ...], named: Mapping[str, Any]
    ) -> AsyncIterator[LineIterator[Any]]:
        request = lines.request(given, named, self._absolute, await self._viewer())
        async with self._connection.answer(request) as exchange:
            yield LineIterator(exchange, lines)

    def _absolute(self, path: str | os.PathLike[str]) -> str:
        """As the daemon names it: by way of its own name of the workspace's folder."""
        absolute = os.path.normpath(self._root_as_given / path)
        if self._root_as_given != self.root and Path(absolute).is_relative_to(self._root_as_given):
            return str(self.root / Path(absolute).relative_to(self._root_as_given))
        return absolute

    async def _parameters_of(self, kernel: str, instance: str, present: Iterable[str], arch: str) -> Parameters:
        if instance not in present:
            from difflib import get_close_matches

            near = get_close_matches(instance, present, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"instances of '{kernel}': {', '.join(present)}"
            raise UnknownUnitError(f"no instance of '{kernel}' is called '{instance}'", hint)
        detail = await self.unit(f"{kernel}/{instance}@{arch}")
        return {name: tuple(value) if isinstance(value, list) else value for name, value in detail.parameters.items()}

    async def _refusal(self, path: str, error: UnknownUnitError) -> CkwatchError:
        """Why the overlay of a kernel file has no such instances: its mistakes, where it has any."""
        mistakes = [found for found in await self.diagnostics(path) if found.severity == "error"]
        if not mistakes:
            return error
        more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
        return CkwatchError(
            f"{path}: {mistakes[0].message}{more}", "this is the kernel file with the sweep's instances at its end"
        )


async def status_of(connection: Connection) -> Status:
    """The daemon itself."""
    return await ask(connection, WorkspaceQuestions.status)


def _text_of(path: str) -> str:
    try:
        return read_file(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CkwatchError(f"{path} cannot be read: {error}") from None


@asynccontextmanager
async def connect(
    path: str | os.PathLike[str] = ".",
    *,
    start: bool = True,
    trust: bool = False,
    client_name: str | None = None,
    private: bool = False,
    open_engine: OpenEngine | None = None,
) -> AsyncIterator[Client]:
    """A client of the daemon of the workspace that `path` lies in, which is started unless `start` is false.

    `trust` puts the workspace on the user's list of those whose code may run here. `client_name` is what the daemon
    calls the client in its log. `private` runs a daemon inside this process instead, as long as the context is open;
    `open_engine` gives it another engine.

    Raises CkwatchError: there is no workspace or it is broken; UntrustedError where its code would have to be run
    and it is not trusted; DaemonGoneError if there is none and none may be started, or if it dies.
    """
    root = await to_thread.run_sync(find_workspace, Path(path))
    async with AsyncExitStack() as stack:
        if trust:
            await to_thread.run_sync(launch.trust, root)
        if private:
            from ckwatch.client.private import private_daemon

            daemon = private_daemon(root, open_engine)
            socket = await stack.enter_async_context(daemon if _is_asyncio() else _on_asyncio(daemon))
            connection = Connection(_only(socket))
        else:
            connection = Connection(_found_or_started(root, start=start))
        status = await status_of(connection)
        async with plain_errors(), anyio.create_task_group() as tasks:
            client = Client(connection, tasks, root, status, _identity(client_name))
            try:
                yield client
            finally:
                tasks.cancel_scope.cancel()
                with anyio.move_on_after(FAREWELL_S, shield=True):
                    await client.leave()


def _is_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@asynccontextmanager
async def _on_asyncio(daemon: AbstractAsyncContextManager[Path]) -> AsyncIterator[Path]:
    """A private daemon beside trio, on an event loop in a thread of its own: its server knows asyncio only."""
    entered = ExitStack()

    def enter() -> Path:
        portal = entered.enter_context(start_blocking_portal())
        return entered.enter_context(portal.wrap_async_context_manager(daemon))

    try:
        yield await to_thread.run_sync(enter)
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(entered.close)


def _found_or_started(root: Path, *, start: bool) -> Reach:
    async def reach(may_start: bool) -> Path:
        if start and may_start:
            return (await launch.ensure_daemon(root)).socket
        found = await launch.find_daemon(root)
        if found is None:
            raise await launch.not_there(root)
        return found.socket

    return reach


def _only(socket: Path) -> Reach:
    async def reach(_may_start: bool) -> Path:
        try:
            (await connection_to(socket)).close()
        except DaemonGoneError:
            raise DaemonGoneError("the private daemon was stopped") from None
        return socket

    return reach


def _identity(name: str | None) -> str:
    """A name that no other client has."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name or "python")[:40]
    return f"{plain}-{os.urandom(8).hex()}"
