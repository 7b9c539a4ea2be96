"""Renders in a pool of worker processes that can be killed.

A template may loop for ever inside one C call or ask for gigabytes; a thread cannot be stopped, a process can. Each
worker (`ckwatch.render.worker`) has an address-space limit, is killed when it overruns its time, and is replaced. The
daemon lives on.
"""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
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
        self._unread = b""
        self._lookups: dict[str, Lookups] = {}  # by template, as the worker last said

    async def start(self) -> None:
        """Start the process if it is not running."""
        if self._process is not None and self._process.poll() is None:
            return
        await self.aclose()
        command = module_command("ckwatch.render.worker", *map(str, self._folders))
        self._process = await start_process(command, environment=module_environment(), stdin=PIPE, stderr=None)
        self._unread = b""
        self._lookups.clear()

    async def render(self, unit: Unit, limits: RenderLimits, overlays: Mapping[str, str]) -> RenderOutcome:
        """Render `unit`. A worker that overruns or dies gives a diagnostic; cancellation kills it."""
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
            await self.aclose()
            raise

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
        if not await process.write(len(data).to_bytes(LENGTH_BYTES, "big") + data):
            raise WorkerDiedError
        template = unit.kernel.template
        while True:
            length = int.from_bytes(await self._read(process, LENGTH_BYTES), "big")
            data = await self._read(process, length)
            # Going to a thread takes longer than a usual render does.
            large = length > _LARGE_BYTES
            answer: RenderOutcome | Lookups = (
                await anyio.to_thread.run_sync(pickle.loads, data) if large else pickle.loads(data)  # noqa: S301  # our own
            )
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

    async def _read(self, process: AsyncProcess, size: int) -> bytes:
        """The next `size` bytes of its answers."""
        parts = [self._unread]
        missing = size - len(self._unread)
        while missing > 0:
            chunk = await process.read_stdout()
            if not chunk:
                raise WorkerDiedError
            parts.append(chunk)
            missing -= len(chunk)
        found = b"".join(parts)
        self._unread = found[size:]
        return found[:size]

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
        self._free = anyio.Semaphore(size)

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
        self, unit: Unit, limits: RenderLimits | None = None, overlays: Mapping[str, str] | None = None
    ) -> RenderOutcome:
        """Render `unit` in a free worker."""
        async with self._worker() as worker:
            return await worker.render(unit, limits or RenderLimits(), overlays or {})

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[RenderWorker]:
        async with self._free:
            worker = self._idle.pop()
            try:
                yield worker
            finally:
                self._idle.append(worker)
