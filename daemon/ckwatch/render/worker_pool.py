"""Renders in a pool of worker processes that can be killed.

A template may loop for ever inside one C call or ask for gigabytes; a thread cannot be stopped, a process can. Each
worker (`ckwatch.render.worker`) has an address-space limit, is killed when it overruns its time, and is replaced. The
daemon lives on.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Unit
from ckwatch.render.outcome import LENGTH_BYTES, Lookups, RenderLimits, RenderOutcome
from ckwatch.system.async_processes import AsyncProcess, start_process
from ckwatch.system.processes import PIPE, signal_name
from ckwatch.system.python_process import module_command, module_environment

FINISH_S = 0.1
"""A render that nobody wants any more may still end by itself: a worker takes longer to start than most renders do."""

GRACE_S = 2.0
"""A worker stops itself at its time limit; this much later it is killed."""

_LARGE_BYTES = 100_000
"""Answers up to this size are unpacked in 0.1 ms."""


class WorkerDiedError(Exception):
    """The worker ended before it answered."""


class RenderWorker:
    """One worker process, started by the first `render`."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._process: AsyncProcess | None = None
        self._unread = bytearray()
        self._is_asked = False
        """Whether it has got a question whole."""
        self._lookups: dict[str, Lookups] = {}  # by template, as the worker last said

    async def start(self) -> None:
        """Start the process if it is not running."""
        if self._process is not None and self._process.poll() is None:
            return
        await self.aclose()
        command = module_command("ckwatch.render.worker", *map(str, self._folders))
        self._process = await start_process(command, environment=module_environment(), stdin=PIPE, stderr=None)
        self._unread.clear()
        self._lookups.clear()

    async def render(self, unit: Unit, limits: RenderLimits, overlays: Mapping[str, str]) -> RenderOutcome:
        """Render `unit`. A worker that overruns or dies gives a diagnostic; cancelled, it is killed unless it ends
        soon."""
        await self.start()
        # A kernel file of a thousand instances is not sent a thousand times.
        slim = replace(unit, kernel=replace(unit.kernel, instances=(), shapes=(), key_spans={}))
        try:
            with anyio.fail_after(limits.time_limit_s + GRACE_S):
                return await self._exchange(slim, limits, overlays)
        except TimeoutError:
            await self.aclose()
            return self._stopped(
                unit,
                f"rendering took longer than {limits.time_limit_s:g} s and was stopped; "
                "[render] time_limit_s in ckwatch.toml raises the limit",
            )
        except WorkerDiedError:
            reason = await self._end_of_process()
            return self._stopped(unit, f"the renderer {reason}; the template may need more memory than it may use")
        except BaseException:
            if not await self._ends_soon():
                await self.aclose()
            raise

    async def _ends_soon(self) -> bool:
        """Read what is left of the answer."""
        process = self._process
        if not self._is_asked or process is None:
            return False
        with anyio.move_on_after(FINISH_S, shield=True), suppress(WorkerDiedError):
            while not isinstance(await self._answer(process), RenderOutcome):
                pass
            return True
        return False

    async def aclose(self) -> None:
        """Kill the process group and wait for it."""
        process, self._process = self._process, None
        if process is None:
            return
        await process.kill()
        process.poll()
        process.close()

    async def _exchange(self, unit: Unit, limits: RenderLimits, overlays: Mapping[str, str]) -> RenderOutcome:
        process = self._process
        assert process is not None  # noqa: S101  # start() has run
        data = pickle.dumps((unit, limits, dict(overlays)), pickle.HIGHEST_PROTOCOL)
        self._is_asked = False
        if not await process.write(len(data).to_bytes(LENGTH_BYTES, "big") + data):
            raise WorkerDiedError
        self._is_asked = True
        template = unit.kernel.template
        while True:
            answer = await self._answer(process)
            if isinstance(answer, RenderOutcome):
                self._lookups[template] = Lookups(dict(answer.read), set(answer.missed))
                return answer
            known = self._lookups.setdefault(template, Lookups())
            known.read.update(answer.read)
            known.missed |= answer.missed

    def _stopped(self, unit: Unit, message: str) -> RenderOutcome:
        """The outcome of a render that did not end: a change of what it had read by then is worth another try."""
        diagnostic = Diagnostic(Severity.ERROR, Source.JINJA, "template/limit", message, unit.kernel.template_span)
        known = self._lookups.pop(unit.kernel.template, Lookups())
        return RenderOutcome(None, (diagnostic,), known.read, frozenset(known.missed))

    async def _answer(self, process: AsyncProcess) -> RenderOutcome | Lookups:
        """The next of its answers. What has come of it is kept when this is cancelled."""
        unread = self._unread
        while len(unread) < LENGTH_BYTES or len(unread) < LENGTH_BYTES + int.from_bytes(unread[:LENGTH_BYTES], "big"):
            chunk = await process.read_stdout()
            if not chunk:
                raise WorkerDiedError
            unread += chunk
        end = LENGTH_BYTES + int.from_bytes(unread[:LENGTH_BYTES], "big")
        data = bytes(unread[LENGTH_BYTES:end])
        del unread[:end]
        # Going to a thread takes longer than a usual render does.
        large = len(data) > _LARGE_BYTES
        answer: RenderOutcome | Lookups = (
            await anyio.to_thread.run_sync(pickle.loads, data) if large else pickle.loads(data)  # noqa: S301  # our own
        )
        return answer

    async def _end_of_process(self) -> str:
        process = self._process
        if process is None:
            return "ended"
        await process.wait()
        ended = process.poll()
        await self.aclose()
        status = 0 if ended is None else ended.status
        return f"was killed by {signal_name(-status)}" if status < 0 else f"ended with status {status}"


class RenderPool:
    """Up to `size` workers over one template search path; use as an async context manager."""

    def __init__(self, folders: tuple[Path, ...], size: int = 1) -> None:
        self._idle = [RenderWorker(folders) for _ in range(size)]
        self._all = tuple(self._idle)
        self._waiting: tuple[deque[anyio.Event], deque[anyio.Event]] = (deque(), deque())
        """For a worker: those whom somebody waits for, then the others."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._all:
            await worker.aclose()

    async def start(self) -> None:
        """Start the first worker ahead of need."""
        await self._all[0].start()

    async def render(
        self,
        unit: Unit,
        limits: RenderLimits | None = None,
        overlays: Mapping[str, str] | None = None,
        *,
        awaited: bool = False,
    ) -> RenderOutcome:
        """Render `unit` in a free worker; one that a person waits for (`awaited`) before all others."""
        async with self._worker(awaited=awaited) as worker:
            return await worker.render(unit, limits or RenderLimits(), overlays or {})

    @asynccontextmanager
    async def _worker(self, *, awaited: bool) -> AsyncIterator[RenderWorker]:
        while not self._idle:
            freed, queue = anyio.Event(), self._waiting[0 if awaited else 1]
            queue.append(freed)
            try:
                await freed.wait()
            except BaseException:
                if freed.is_set():
                    self._call_next()
                else:
                    queue.remove(freed)
                raise
        worker = self._idle.pop()
        try:
            yield worker
        finally:
            self._idle.append(worker)
            self._call_next()

    def _call_next(self) -> None:
        queue = next((queue for queue in self._waiting if queue), None)
        if queue is not None and self._idle:
            queue.popleft().set()
