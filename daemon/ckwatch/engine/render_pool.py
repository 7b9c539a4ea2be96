"""Renders in a pool of worker processes that can be killed.

A template may loop for ever inside one C call or ask for gigabytes; a thread cannot be stopped, a process can. Each
worker (`ckwatch.engine.render_worker`) has an address-space limit, is killed when it overruns its time, and is
replaced. The daemon lives on.
"""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import anyio

from ckwatch.core.effects import RenderPriority
from ckwatch.engine.render_request import (
    KERNELS_SENT,
    WRITERS_SENT,
    Checks,
    RenderAnswer,
    RenderRequest,
    Sent,
    SentChecks,
)
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Kernel, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.render.outcome import LENGTH_BYTES, Lookups, RenderLimits, RenderOutcome
from ckwatch.system.async_processes import AsyncProcess, start_process
from ckwatch.system.processes import PIPE, signal_name
from ckwatch.system.python_process import module_command, module_environment
from ckwatch.workspace.writers import Writers

FINISH_S = 0.1
"""A render that is no longer requested may still end by itself: a worker takes longer to start than most renders do."""

GRACE_S = 2.0
"""A worker stops itself at its time limit; this much later it is killed."""

_LARGE_BYTES = 100_000
"""Answers up to this size are unpacked in 0.1 ms."""

START_S = 0.3
"""A worker takes about so long to start."""

PASSED_OVER = 20
"""So many renders of templates that a worker has compiled may go before the one that has waited longest."""


class WorkerDiedError(Exception):
    """The worker ended before it answered."""


class RenderWorker:
    """One worker process, started by the first `render`."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders
        self._process: AsyncProcess | None = None
        self._unread = bytearray()
        self._is_asked = False
        """True once it has received a whole request."""
        self.has_started = True
        """False from the start of the process until it says something."""
        self._lookups: dict[str, Lookups] = {}  # by template, as the worker last said
        self._kernels: Sent[Kernel] = Sent(KERNELS_SENT)
        self._writers: Sent[Writers] = Sent(WRITERS_SENT)
        self.template = ""
        """That of the last render, which it has compiled."""

    @property
    def runs(self) -> bool:
        """True if the process runs."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start the process if it is not running."""
        if self.runs:
            return
        await self.aclose()
        command = module_command("ckwatch.engine.render_worker", *map(str, self._folders))
        self._process = await start_process(command, environment=module_environment(), stdin=PIPE, stderr=None)
        self.has_started = False
        self._unread.clear()
        self._lookups.clear()
        self._kernels, self._writers = Sent(KERNELS_SENT), Sent(WRITERS_SENT)

    async def render(
        self,
        unit: Unit,
        limits: RenderLimits,
        overlays: Mapping[str, str],
        checks: Checks | None,
        header_folders: tuple[Path, ...] = (),
    ) -> RenderAnswer:
        """Render `unit`. A worker that overruns or dies gives a diagnostic; cancelled, it is killed unless it ends
        soon."""
        await self.start()
        self.template = unit.kernel.template
        try:
            with anyio.fail_after(limits.time_limit_s + GRACE_S):
                return await self._exchange(unit, self._request(unit, limits, overlays, checks, header_folders))
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

    def _request(
        self,
        unit: Unit,
        limits: RenderLimits,
        overlays: Mapping[str, str],
        checks: Checks | None,
        header_folders: tuple[Path, ...],
    ) -> RenderRequest:
        # A kernel file of a thousand instances is not sent a thousand times.
        slim = partial(replace, unit.kernel, instances=(), shapes=(), key_spans={})
        number, kernel = self._kernels.number(unit.kernel, slim)
        sent = None
        if checks is not None:
            sent = SentChecks(
                checks.rules, checks.passed, *self._writers.number(checks.writers, lambda: checks.writers), checks.cache
            )
        return RenderRequest(number, kernel, unit.instance, unit.arch, limits, dict(overlays), sent, header_folders)

    async def _ends_soon(self) -> bool:
        """Read what is left of the answer."""
        process = self._process
        if not self._is_asked or process is None:
            return False
        with anyio.move_on_after(FINISH_S, shield=True), suppress(WorkerDiedError):
            while not isinstance(await self._answer(process), RenderAnswer):
                pass
            return True
        return False

    async def end(self) -> None:
        """Kill the process group, and forget what it has said."""
        await self.aclose()
        self._lookups.clear()

    async def aclose(self) -> None:
        """Kill the process group and wait for it."""
        process, self._process = self._process, None
        if process is None:
            return
        await process.kill()
        process.poll()
        process.close()

    async def _exchange(self, unit: Unit, request: RenderRequest) -> RenderAnswer:
        process = self._process
        assert process is not None  # noqa: S101  # start() has run
        data = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
        self._is_asked = False
        if not await process.write(len(data).to_bytes(LENGTH_BYTES, "big") + data):
            raise WorkerDiedError
        self._is_asked = True
        template = unit.kernel.template
        while True:
            answer = await self._answer(process)
            self.has_started = True
            if isinstance(answer, RenderAnswer):
                self._lookups[template] = Lookups(dict(answer.outcome.read), set(answer.outcome.missed))
                return answer
            known = self._lookups.setdefault(template, Lookups())
            known.read.update(answer.read)
            known.missed |= answer.missed

    def _stopped(self, unit: Unit, message: str) -> RenderAnswer:
        """The outcome of a render that did not end: a change of what it had read by then is worth another try."""
        diagnostic = Diagnostic(Severity.ERROR, Source.JINJA, "template/limit", message, unit.kernel.template_span)
        known = self._lookups.pop(unit.kernel.template, Lookups())
        return RenderAnswer(RenderOutcome(None, (diagnostic,), known.read, frozenset(known.missed)), is_clean=False)

    async def _answer(self, process: AsyncProcess) -> RenderAnswer | Lookups:
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
        answer: RenderAnswer | Lookups = (
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


@dataclass(slots=True)
class _Waiting:
    """A render that waits for a worker."""

    template: str
    called: anyio.Event = field(default_factory=anyio.Event)
    worker: RenderWorker | None = None
    """The one that it got."""
    passed_over: int = 0
    """How often one that came later was called."""


class RenderPool:
    """Up to `size` workers over one template search path; use as an async context manager.

    Another worker is started when those that have started are busy for `start_s`, or at once for what is looked at.
    """

    make_worker: ClassVar[type[RenderWorker]] = RenderWorker

    def __init__(self, folders: tuple[Path, ...], size: int = 1, *, start_s: float = START_S) -> None:
        self._start_s = start_s
        self._idle = [self.make_worker(folders) for _ in range(size)]
        self._all = tuple(self._idle)
        self._waiting: tuple[deque[_Waiting], ...] = tuple(deque() for _ in RenderPriority)

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

    async def rest(self) -> None:
        """End idle workers until one is left."""
        running = [worker for worker in self._all if worker.runs]
        for worker in [worker for worker in running if worker in self._idle][: len(running) - 1]:
            self._idle.remove(worker)
            try:
                await worker.end()
            finally:
                self._free(worker)

    async def render(
        self,
        unit: Unit,
        limits: RenderLimits | None = None,
        overlays: Mapping[str, str] | None = None,
        *,
        priority: RenderPriority = RenderPriority.OTHERS,
        checks: Checks | None = None,
        header_folders: tuple[Path, ...] = (),
    ) -> RenderAnswer:
        """Render `unit` in a free worker, by its `priority`."""
        async with self._worker(unit.kernel.template, priority) as worker:
            return await worker.render(unit, limits or RenderLimits(), overlays or {}, checks, header_folders)

    @asynccontextmanager
    async def _worker(self, template: str, priority: RenderPriority) -> AsyncIterator[RenderWorker]:
        worker = self._taken(template, start=priority is RenderPriority.LOOKED_AT)
        if worker is None:
            worker = await self._next_free(template, priority)
        try:
            yield worker
        finally:
            self._free(worker)

    def _taken(self, template: str, *, start: bool) -> RenderWorker | None:
        """Take an idle worker. One that would have to `start` is not taken while others run, without that."""
        if not self._idle:
            return None
        # The one that has this template compiled, or else one that runs.
        worker = max(self._idle, key=lambda one: (one.template == template, one.runs))
        if not (start or worker.runs) and len(self._idle) < len(self._all):
            return None
        self._idle.remove(worker)
        return worker

    async def _next_free(self, template: str, priority: RenderPriority) -> RenderWorker:
        """Wait for a worker, and start one when that takes longer than a start: most renders are done sooner."""
        waiting, queue = _Waiting(template), self._waiting[priority]
        queue.append(waiting)
        try:
            while waiting.worker is None:
                starting = any(not one.has_started and one.runs for one in self._all)
                with anyio.move_on_after(self._start_s if self._idle else math.inf):
                    await waiting.called.wait()
                if not starting:
                    break
        except BaseException:
            if waiting.worker is not None:
                self._free(waiting.worker)
            else:
                queue.remove(waiting)
            raise
        if waiting.worker is None:
            queue.remove(waiting)
            return self._taken(template, start=True) or await self._next_free(template, priority)
        return waiting.worker

    def _free(self, worker: RenderWorker) -> None:
        queue = next(filter(None, self._waiting), None)
        if queue is None:
            self._idle.append(worker)
            return
        called = queue[0]
        if queue is not self._waiting[RenderPriority.LOOKED_AT] and called.passed_over < PASSED_OVER:
            # Each worker compiles the templates that it renders: those of one template stay together.
            called.passed_over += 1
            busy = {one.template for one in self._all if one is not worker and one not in self._idle}
            called = min(queue, key=lambda one: (one.template != worker.template, one.template in busy))
        queue.remove(called)
        worker.template = called.template
        called.worker = worker
        called.called.set()
