"""A clangd: found or fetched, started when it is first asked, restarted when it dies, ended when idle."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.toolchain.clangd import ClangdProgram
from ckwatch.cpp.clangd import Clangd, ClangdEndedError, LentText
from ckwatch.model.errors import CkwatchError
from ckwatch.system.processes import resident_bytes

log = logging.getLogger(__name__)

IDLE_S = 600.0
"""A clangd that nobody has asked for so long is ended: it holds half a gigabyte."""

WATCH_S = 5.0

IDLE = "idle"

FIND_AGAIN_S = 60.0
"""A clangd that could not be found or fetched is looked for again after so long."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Before it is started again, when it has died: twice as long each time."""

STEADY_S = 300.0
"""One that lived so long starts anew with the first pause."""


@dataclass(frozen=True, slots=True)
class ClangdLimits:
    """`memory_bytes` is what its process may hold."""

    memory_bytes: int
    idle_s: float = IDLE_S
    watch_s: float = WATCH_S
    first_pause_s: float = FIRST_PAUSE_S


Find = Callable[[Callable[[str], None]], Awaitable[ClangdProgram]]
"""The program, fetched if need be; gets a function that takes what to tell those who wait. Raises CkwatchError."""


class ClangdSupervisor:
    """Asks its clangd, and keeps it running. `tasks` outlives what is asked; `warn` gets a sentence when it has died,
    once until it has been steady again, and then None."""

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
        self._starting: anyio.Event | None = None
        self._problem: CkwatchError | None = None
        self._try_again_at = 0.0
        self._asked_at = time.monotonic()
        self._pause_s = 0.0
        self._warned = False
        self._asking = 0

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return None if self._clangd is None else self._clangd.process.pid

    async def ready(self) -> Clangd:
        """The running clangd. Raises CkwatchError where there is none to be had."""
        while self._clangd is None or self._clangd.ended.is_set():
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
        """What runs. Raises as `ready`."""
        await self.ready()
        assert self._program is not None  # noqa: S101  # it runs
        return self._program

    async def ask(self, text: LentText, method: str, params: Mapping[str, Any]) -> Any:
        """The answer of the running clangd, of the next one if it dies meanwhile. Raises as `Clangd.ask`."""
        return await self._asked(lambda clangd: clangd.ask(text, method, params))

    async def edits_of(self, text: LentText, command: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """As that of `Clangd`."""
        found: Mapping[str, Any] | None = await self._asked(lambda clangd: clangd.edits_of(text, command))
        return found

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """As that of `Clangd`."""
        return await self._asked(lambda clangd: clangd.call(method, params))

    async def end(self) -> None:
        """End it; the next question starts another."""
        if self._clangd is not None:
            await self._clangd.process.kill()

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
            self._program = await self._find(self._set_status)
            clangd = await Clangd.start(self._program.path, self._environment, self._folder, settings=self._settings)
            self._tasks.start_soon(self._live, clangd)
            await clangd.initialize()
            self._clangd = clangd
            self.status = "clangd reads the headers"
        except CkwatchError as error:
            self._problem, self._try_again_at = error, time.monotonic() + FIND_AGAIN_S
            self._say(f"there are no answers about C++: {error.message}")
        finally:
            self._starting = None
            started.set()

    def _set_status(self, text: str) -> None:
        self.status = text

    async def _live(self, clangd: Clangd) -> None:
        began = time.monotonic()
        why: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, clangd, why)
            await clangd.run()
            tasks.cancel_scope.cancel()
        if self._clangd is clangd:
            self._clangd = None
        if why == [IDLE]:
            return
        lived_s = time.monotonic() - began
        self.deaths += 1
        self._pause_s = self._limits.first_pause_s if lived_s > STEADY_S or not self._pause_s else self._pause_s * 2
        self._pause_s = min(self._pause_s, LONGEST_PAUSE_S)
        how = why[0] if why else clangd.how_ended
        log.warning("clangd %s after %.0f s", how, lived_s)
        self._say(f"clangd {how}; answers about C++ come again when it has been restarted")

    def _say(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)

    async def _watch(self, clangd: Clangd, why: list[str]) -> None:
        began = time.monotonic()
        while True:
            await anyio.sleep(self._limits.watch_s)
            now = time.monotonic()
            if self._pause_s and now - began > STEADY_S:
                self._pause_s, self._warned = 0.0, False
                self._warn(None)
            held = await to_thread.run_sync(resident_bytes, clangd.process.pid)
            if held > self._limits.memory_bytes:
                limit = self._limits.memory_bytes / 2**30
                why.append(
                    f"held {held / 2**30:.1f} GiB, more than `cpp.memory_limit_bytes` of {limit:.1f} GiB, and was ended"
                )
            elif not self._asking and now - self._asked_at > self._limits.idle_s:
                why.append(IDLE)
            if why:
                await clangd.process.kill()
                return
