"""A clangd: found or fetched, started when it is first asked, restarted when it dies, ended when idle."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.toolchain.clangd import ClangdProgram, fetch_clangd, find_clangd, major_to_fetch
from ckwatch.compile.toolchain.install_steps import InstallStep
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.cpp.clangd import Clangd, ClangdEndedError, MemoryText, OvertakenError
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.processes import resident_bytes
from ckwatch.workspace.settings import Settings

log = logging.getLogger(__name__)

IDLE = "it was not used"


@dataclass(frozen=True, slots=True)
class ClangdLimits:
    """`memory_bytes` is what its process may hold, `unread_length` how many characters of texts may wait for it.

    It is stopped after `idle_s` without a question: it holds half a gigabyte. When it has died it is started again
    after `first_pause_s`, twice as long each time, up to `longest_pause_s`, until it has lived for `steady_s`. It says
    what it can do within milliseconds, at most `start_s`. One that could not be found or fetched is looked for again
    after `find_again_s`.
    """

    memory_bytes: int
    idle_s: float = 600.0
    watch_s: float = 2.0
    first_pause_s: float = 1.0
    steady_s: float = 300.0
    start_s: float = 60.0
    longest_pause_s: float = 60.0
    find_again_s: float = 60.0
    unread_length: int = 64_000_000


Find = Callable[[Callable[[str], None]], Awaitable[ClangdProgram]]
"""The program, fetched if need be; gets a function that takes what to tell those who wait. Raises CkwatchError."""


class ClangdSupervisor:
    """Asks its clangd, and keeps it running. `tasks` outlives what is asked; `warn` gets a sentence when it has died or
    cannot be started, once until it runs steadily again, and then None."""

    def __init__(
        self,
        find: Find,
        environment: Mapping[str, str],
        folder: Path,
        settings: Path,
        tasks: TaskGroup,
        warn: Callable[[str | None], None],
        limits: ClangdLimits,
    ) -> None:
        self.status = ""
        """Why there is no answer yet, for people."""
        self.deaths = 0
        self._find = find
        self._program: ClangdProgram | None = None
        self._environment = environment
        self._folder = folder
        self._settings = settings
        self._tasks = tasks
        self._warn = warn
        self._limits = limits
        self._clangd: Clangd | None = None
        self._begun: Clangd | None = None
        """The last one, also before it can be asked."""
        self._starting: anyio.Event | None = None
        self._problem: CkwatchError | None = None
        self._try_again_at = 0.0
        self._asked_at = time.monotonic()
        self._pause_s = 0.0
        self._warned = False
        self._asking = 0
        self._is_replaced = False

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return None if self._clangd is None else self._clangd.process.pid

    async def ready(self) -> Clangd:
        """The running clangd. Raises CkwatchError where there is none to be had, and OvertakenError after `end`."""
        while self._clangd is None:
            if self._is_replaced:
                raise OvertakenError("the compiler has changed")
            if self._problem is not None and time.monotonic() < self._try_again_at:
                raise self._problem
            if self._starting is None:
                self._starting, self._problem = anyio.Event(), None
                self._tasks.start_soon(self._start, self._starting)
            await self._starting.wait()
            if self._problem is not None:
                raise self._problem
        return self._clangd

    async def program(self) -> ClangdProgram:
        """The running clangd. Raises as `ready`."""
        await self.ready()
        assert self._program is not None  # noqa: S101  # it runs
        return self._program

    async def ask(self, text: MemoryText, method: str, params: Mapping[str, Any]) -> Any:
        """The answer of the running clangd, of the next one if it dies meanwhile. Raises as `Clangd.ask`."""
        return await self._asked(lambda clangd: clangd.ask(text, method, params))

    async def ask_alone(self, text: MemoryText, method: str, params: Mapping[str, Any]) -> Any:
        """As that of `Clangd`."""
        return await self._asked(lambda clangd: clangd.ask_alone(text, method, params))

    async def edits_of(self, text: MemoryText, command: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """As that of `Clangd`."""
        found: Mapping[str, Any] | None = await self._asked(lambda clangd: clangd.edits_of(text, command))
        return found

    async def end(self) -> None:
        """End it, for another takes its place."""
        self._is_replaced = True
        if self._warned:
            self._warn(None)
        if self._begun is not None:
            await self._begun.end()

    async def _asked(self, ask: Callable[[Clangd], Awaitable[Any]]) -> Any:
        self._asking += 1
        try:
            try:
                return await ask(await self.ready())
            except ClangdEndedError:
                return await ask(await self.ready())
        finally:
            self._asking -= 1
            self._asked_at = time.monotonic()

    async def _start(self, started: anyio.Event) -> None:
        try:
            if self._pause_s:
                self.status = f"clangd has died and is started again in {self._pause_s:.0f} s"
                await anyio.sleep(self._pause_s)
            self.status = "clangd is being started"
            self._program = await self._find(partial(setattr, self, "status"))
            clangd = await Clangd.start(self._program.path, self._environment, self._folder, settings=self._settings)
            self._begun = clangd
            self._tasks.start_soon(self._live, clangd)
            await self._initialize(clangd)
            self.status = "clangd reads the text and its headers"
        except ClangdEndedError as error:
            self._problem = error  # who asks again waits for the next one
        except CkwatchError as error:
            self._problem, self._try_again_at = error, time.monotonic() + self._limits.find_again_s
            self._say(f"there are no answers about C++: {error.message}")
        except Exception as error:  # whatever it is, it must not be the end of the daemon
            log.exception("clangd cannot be started")
            self._problem = CkwatchError(f"clangd cannot be started: {error!r}", "the daemon's log says more")
            self._try_again_at = time.monotonic() + self._limits.find_again_s
            self._say(f"there are no answers about C++: {self._problem.message}")
        except BaseException:
            self._is_replaced = True  # the daemon ends
            raise
        finally:
            self._starting = None
            started.set()

    async def _initialize(self, clangd: Clangd) -> None:
        try:
            with anyio.fail_after(self._limits.start_s):
                await clangd.initialize()
        except CkwatchError:
            await clangd.end()
            raise
        except TimeoutError as error:
            await clangd.end()
            raise CkwatchError(f"clangd has not answered within {self._limits.start_s:.0f} s") from error
        if clangd.ended.is_set() or self._is_replaced:
            await clangd.end()
            raise ClangdEndedError("clangd has ended at once")
        self._clangd = clangd
        if self._warned and not self._pause_s:  # it could not be found before
            self._warned = False
            self._warn(None)

    async def _live(self, clangd: Clangd) -> None:
        began = time.monotonic()
        ended_because: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, clangd, ended_because)
            await clangd.run(lambda: self._note_end(clangd, time.monotonic() - began, ended_because))
            tasks.cancel_scope.cancel()

    def _note_end(self, clangd: Clangd, lived_s: float, because: Sequence[str]) -> None:
        """Before those who wait for it learn that it has ended."""
        if self._clangd is clangd:
            self._clangd = None
        if IDLE in because or self._is_replaced:
            return
        self.deaths += 1
        again = self._pause_s and lived_s <= self._limits.steady_s
        self._pause_s = min(self._pause_s * 2, self._limits.longest_pause_s) if again else self._limits.first_pause_s
        how = because[0] if because else clangd.how_ended
        log.warning("clangd %s after %.0f s", how, lived_s)
        self._say(f"clangd {how}; answers about C++ come again when it has been restarted")

    def _say(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)

    async def _watch(self, clangd: Clangd, ended_because: list[str]) -> None:
        began = time.monotonic()
        while True:
            await anyio.sleep(self._limits.watch_s)
            now = time.monotonic()
            if self._pause_s and now - began > self._limits.steady_s:
                self._pause_s, self._warned = 0.0, False
                self._warn(None)
            held = await to_thread.run_sync(resident_bytes, clangd.process.pid)
            if held > self._limits.memory_bytes:
                limit = self._limits.memory_bytes / 2**30
                ended_because.append(
                    f"held {held / 2**30:.1f} GiB, more than `cpp.memory_limit_bytes` of {limit:.1f} GiB, and was ended"
                )
            elif clangd.unread_length > self._limits.unread_length:
                ended_because.append("did not read what it was asked, and was ended")
            elif not self._asking and now - self._asked_at > self._limits.idle_s:
                ended_because.append(IDLE)
            if ended_because:
                clangd.to_end.set()
                return


class Clangds:
    """Supervisors by arch. `warn` gets an arch and a sentence, or None when it no longer holds."""

    def __init__(
        self, root: Path, settings_folder: Path, tasks: TaskGroup, warn: Callable[[str, str | None], None]
    ) -> None:
        self._root = root
        self._settings_folder = settings_folder
        self._tasks = tasks
        self._warn = warn
        self._known: dict[str, tuple[object, ClangdSupervisor]] = {}
        """Each with the compiler and the settings that it fits."""

    def of(self, arch: str, toolchain: Toolchain | NvccToolchain, settings: Settings) -> ClangdSupervisor:
        """The clangd of an arch; another after the compiler or the settings have changed."""
        configured, limit_bytes = settings.toolchain.clangd, settings.cpp.memory_limit_bytes
        fits = (toolchain.identity, configured, limit_bytes)
        known = self._known.get(arch)
        if known is not None and known[0] == fits:
            return known[1]
        if known is not None:
            self._tasks.start_soon(known[1].end)
        made = ClangdSupervisor(
            partial(_find_or_fetch, toolchain, configured),
            toolchain.environment,
            self._root,
            self._settings_folder,
            self._tasks,
            partial(self._warn, arch),
            ClangdLimits(limit_bytes),
        )
        self._known[arch] = (fits, made)
        return made


async def _find_or_fetch(
    toolchain: Toolchain | NvccToolchain, configured: Path | None, tell: Callable[[str], None]
) -> ClangdProgram:
    """Raises ToolchainError where there is none and none can be fetched."""

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
