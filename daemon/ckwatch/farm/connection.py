"""The daemon's connection with a farm: which workers there are, compiles and timings that are sent to them.

dask's client runs on an event loop of its own, in a thread of its own: the daemon's own does not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CancelScope, CapacityLimiter, to_thread

from ckwatch.bench.job import Job
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain
from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.farm.messages import READY, CompileOptions, WorkerFacts, compile_resource
from ckwatch.farm.packing import FarmError, PackedCompile, UnfitWorkerError, pack, unpack
from ckwatch.model.gpu_specs import DeviceFacts

if TYPE_CHECKING:
    from distributed import Client, Future, Security

    from ckwatch.bench.worker_session import OnMessage
    from ckwatch.farm.giving import PackedToolchain

log = logging.getLogger(__name__)

CONNECT_S = 5.0
"""How long a scheduler may take to answer."""

MISSED_ANSWERS = 3
"""After so many questions without an answer the scheduler is lost."""

UNFIT_S = 300.0
"""How long a machine that could not compile gets nothing."""

TRIES = 4
"""A compile is submitted so often: workers may lack headers of the source, and may go while it waits."""

ENDED = "the connection with the farm has ended"

STRANDED = "stranded"
"""Why a task was cancelled that waits although there are workers for it."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ListedWorker:
    """A worker as the scheduler lists it, whatever it can do: `executing` so many tasks."""

    address: str
    host: str
    threads: int
    resources: Mapping[str, float]
    executing: int


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker as the scheduler and it describe it."""

    address: str
    threads: int
    resources: Mapping[str, float]
    facts: WorkerFacts


_Waiting = tuple["Future[Any]", frozenset[str] | None, str]
"""A task, the workers that may have it (None: all), and the resource that it needs."""


class _StrandedError(FarmError):
    """A task that waits although there are workers for it."""


class FarmConnection:
    """One farm, for as long as its scheduler answers. Open it in a thread with `open`, and close it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        self._loop = loop
        self._client = client
        self._facts: dict[str, WorkerFacts] = {}
        self.listed: tuple[ListedWorker, ...] = ()
        self.workers: tuple[KnownWorker, ...] = ()
        self._unfit: dict[str, tuple[str, float]] = {}
        self._missed = 0
        self._closed = False
        self._packing = CapacityLimiter(1)  # many at once would keep what is looked at from its compiler
        self._waiting: dict[str, _Waiting] = {}

    @classmethod
    async def open(cls, address: str, security: Security | None) -> FarmConnection:
        """Connect. Raises FarmError where no scheduler answers, or where it refuses the certificate."""
        loop = await to_thread.run_sync(_new_loop)
        try:
            client = await _on(loop, partial(_connect, address, security))
        except Exception as error:  # of the library, of TLS and of the network
            loop.call_soon_threadsafe(loop.stop)
            raise FarmError(f"the farm at {address} does not answer: {_reason(error)}") from error
        return cls(loop, client)

    async def close(self) -> None:
        """Let the farm go; what it does for this daemon ends there."""
        self._closed = True
        try:
            with CancelScope(shield=True):
                await _on(self._loop, partial(_close, self._client))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _on_client_loop(self, make: Callable[[], Awaitable[_T]]) -> _T:
        """What a coroutine answers that runs where the client does. Raises FarmError once the farm was let go."""
        if self._closed:
            raise FarmError(ENDED)
        return await _on(self._loop, make)

    @property
    def unfit(self) -> dict[str, str]:
        """Machines that get no compiles for now, and why."""
        now_s = time.monotonic()
        self._unfit = {machine: one for machine, one in self._unfit.items() if one[1] > now_s}
        return {machine: why for machine, (why, _) in self._unfit.items()}

    async def refresh(self) -> None:
        """Learn which workers there are. Raises FarmError when the scheduler is lost."""
        try:
            self.workers = await self._on_client_loop(self._look)
            self._missed = 0
        except TimeoutError as error:  # a scheduler that is busy answers the next time
            self._missed += 1
            if self._missed >= MISSED_ANSWERS:
                raise FarmError("the farm's scheduler does not answer any more") from error
        except Exception as error:  # of the library, of TLS and of the network
            raise FarmError(f"the farm's scheduler is lost: {_reason(error)}") from error

    async def _look(self) -> tuple[KnownWorker, ...]:
        if self._client.status != "running":
            raise OSError("no connection")
        scheduler: Any = self._client.scheduler
        answer = await asyncio.wait_for(scheduler.identity(n_workers=-1), CONNECT_S)
        listed = answer["workers"]
        self.listed = tuple(
            ListedWorker(
                address,
                one["host"],
                one["nthreads"],
                one["resources"],
                int(one["metrics"].get("task_counts", {}).get("executing", 0)),
            )
            for address, one in listed.items()
        )
        ready = [address for address, one in listed.items() if READY in one["resources"]]
        self._facts = {address: facts for address, facts in self._facts.items() if address in listed}
        new = [address for address in ready if address not in self._facts]
        if new:
            from ckwatch.farm.worker import describe

            told = await asyncio.wait_for(self._client.run(describe, workers=new, on_error="ignore"), CONNECT_S)
            self._facts |= {address: facts for address, facts in told.items() if isinstance(facts, WorkerFacts)}
        if waiting := list(self._waiting.items()):
            await self._free_stranded(waiting, ready, listed)
        return tuple(
            KnownWorker(address, one["nthreads"], one["resources"], self._facts[address])
            for address, one in listed.items()
            if address in self._facts
        )

    async def _free_stranded(
        self, waiting: Sequence[tuple[str, _Waiting]], ready: Sequence[str], listed: Mapping[str, Any]
    ) -> None:
        """Cancel what no worker will ever take."""
        scheduler: Any = self._client.scheduler
        states = await asyncio.wait_for(scheduler.get_task_status(keys=[key for key, _ in waiting]), CONNECT_S)
        for key, (future, allowed, resource) in waiting:
            able = {one for one in ready if listed[one]["resources"].get(resource)}
            if not (able if allowed is None else able & allowed):
                await self._client.cancel([future], force=True, reason="no-worker", msg=f"{key}: no worker is left")
            elif states[key] == "no-worker":  # the scheduler gives it to none that announces its resources later
                await self._client.cancel([future], force=True, reason=STRANDED)

    def forget(self, machine: str) -> None:
        """Ask the workers of a machine again what they have."""
        self._facts = {address: facts for address, facts in self._facts.items() if facts.machine != machine}

    def slots(self, identity: str) -> int:
        """How many compiles of a toolchain of this identity may run at once."""
        resource = compile_resource(identity)
        return sum(int(one.resources.get(resource, 0)) for one in self.workers if one.facts.machine not in self.unfit)

    async def give(self, worker: KnownWorker, packed: PackedToolchain, on_sent: Callable[[int], object]) -> None:
        """Give the machine of `worker` a toolchain, or what it lacks of one. `on_sent` gets the bytes that have
        arrived, in another thread. Raises FarmError where that does not work."""
        try:
            await self._on_client_loop(partial(self._give, worker, packed, on_sent))
        except Exception as error:  # of the library, of the worker and of the network
            raise FarmError(_reason(error)) from error

    async def _give(self, worker: KnownWorker, packed: PackedToolchain, on_sent: Callable[[int], object]) -> None:
        from ckwatch.farm.worker import install_received, look_again, receive_piece, received_bytes

        there = [worker.address]
        arrived = (await self._client.run(received_bytes, packed.sha256, workers=there))[worker.address]
        pieces = packed.pieces(arrived)
        while (piece := await to_thread.run_sync(next, pieces, None)) is not None:
            await self._client.run(receive_piece, packed.sha256, *piece, workers=there)
            on_sent(piece[0] + len(piece[1]))
        await self._client.run(install_received, packed.sha256, packed.identity, workers=there)
        same = [one.address for one in self.workers if one.facts.machine == worker.facts.machine]
        await self._client.run(look_again, workers=same, on_error="ignore")

    async def compile(
        self,
        request: CompileRequest,
        folder: Path,
        toolchain: CompilerToolchain,
        identity: str,
        contents: ContentHashes,
        options: CompileOptions,
    ) -> CompileOutcome:
        """Compile `request` on a worker; its files are in `folder` when this returns, as a compiler's here.

        Raises FarmError where the farm cannot, and OSError where the folder cannot be written. Cancelling ends the
        compiler there.
        """
        packed = await to_thread.run_sync(pack, request, toolchain, identity, options, limiter=self._packing)
        allowed = None
        if self.unfit:
            allowed = frozenset(one.address for one in self.workers if one.facts.machine not in self.unfit)
        resource = compile_resource(identity)
        done = await self._on_client_loop(partial(self._compile, packed, resource, allowed))
        try:
            return await to_thread.run_sync(partial(unpack, packed, done, folder, contents))
        except UnfitWorkerError as error:
            why = f"{error.message}: no compiles go there for now"
            self._unfit[error.machine] = why, time.monotonic() + UNFIT_S
            raise

    async def _compile(self, packed: PackedCompile, resource: str, allowed: frozenset[str] | None) -> Any:
        from ckwatch.farm.worker import compile_task

        # Were the contents tasks of their own, the scheduler would send every compile to the workers that have them.
        contents: dict[str, bytes] = {}
        why = ""
        for _ in range(TRIES):
            message = replace(packed.message, key=_new_key())
            try:
                done = await self._run(message.key, resource, allowed, compile_task, message, contents)
            except _StrandedError as error:
                why = error.message
                continue
            if not done.lacks:
                return done
            contents |= {digest: packed.contents[digest] for digest in done.lacks if digest in packed.contents}
            why = f"{done.machine} does not keep the headers that it was sent"
        raise FarmError(why)

    async def _run(
        self, key: str, resource: str, allowed: Iterable[str] | None, task: Callable[..., Any], *arguments: Any
    ) -> Any:
        """What a task answers. Raises FarmError where nothing came of it."""
        limited = None if allowed is None else frozenset(allowed)
        try:
            future = self._client.submit(
                task, *arguments, key=key, resources={resource: 1}, pure=False,
                workers=None if limited is None else sorted(limited),
            )  # fmt: skip
        except Exception as error:  # of the library
            raise FarmError(f"the farm does not take work: {_reason(error)}") from error
        self._waiting[key] = (future, limited, resource)
        try:
            return await future.result()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # of the library; a worker that dies may raise anything
            if getattr(error, "reason", None) == STRANDED:
                raise _StrandedError("the farm's workers went while it waited for them") from error
            raise FarmError(f"the farm did not finish it: {_reason(error)}") from error
        finally:
            del self._waiting[key]
            if not future.done() and self._client.status == "running":
                self._keep(self._client.cancel([future], force=True))
            future.release()

    def _keep(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def devices(self) -> tuple[DeviceFacts, ...]:
        """Those of other machines, each once."""
        found: dict[tuple[str, str], DeviceFacts] = {}
        for worker in self.workers:
            for device in worker.facts.devices:
                found.setdefault((worker.facts.machine, device.identity), device)
        return tuple(found.values())

    async def measure(
        self,
        job: Job,
        artifacts: Sequence[bytes],
        device: DeviceFacts,
        *,
        time_limit_s: float,
        on_message: OnMessage | None = None,
    ) -> BenchmarkReport | BenchmarkFailure:
        """Time on a device of another machine. Raises FarmError where the farm cannot; cancelling ends it there."""
        key = f"ckwatch-measure-{secrets.token_hex(8)}"
        said: Callable[[Any], object] | None = None
        if on_message is not None:
            here = asyncio.get_running_loop()

            def said(message: Any) -> None:
                here.call_soon_threadsafe(on_message, message)

        measured = partial(self._measure, key, job, list(artifacts), device, time_limit_s, said)
        done: BenchmarkReport | BenchmarkFailure | None = await self._on_client_loop(measured)
        if done is None:
            raise FarmError("the farm was told to stop the measurement")
        return done

    async def _measure(
        self,
        key: str,
        job: Job,
        artifacts: list[bytes],
        device: DeviceFacts,
        time_limit_s: float,
        on_message: Callable[[Any], object] | None,
    ) -> Any:
        from ckwatch.farm.worker import device_resource, measure_task

        owners = [
            one.address
            for one in self.workers
            if one.facts.machine == device.machine and any(has.identity == device.identity for has in one.facts.devices)
        ]
        if not owners:
            raise FarmError(f"{device.name} on {device.machine} has left the farm")
        if on_message is not None:
            self._client.subscribe_topic(key, partial(_hand_on, on_message))
        try:
            return await self._run(
                key, device_resource(device), owners, measure_task, key, job, artifacts, time_limit_s
            )
        finally:
            if on_message is not None and self._client.status == "running":
                self._client.unsubscribe_topic(key)


def _new_key() -> str:
    return f"ckwatch-compile-{secrets.token_hex(8)}"


def _hand_on(on_message: Callable[[Any], object], event: tuple[float, Any]) -> None:
    from ckwatch.bench.worker_protocol import decode

    on_message(decode(event[1]))


async def _connect(address: str, security: Security | None) -> Client:
    from distributed import Client

    client: Any = Client(
        address, security=security, asynchronous=True, timeout=CONNECT_S, set_as_default=False, name="ckwatch"
    )
    try:
        await client
    except BaseException:
        await client.close(timeout=CONNECT_S)
        raise
    found: Client = client
    return found


async def _close(client: Client) -> None:
    await client.close(timeout=CONNECT_S)


def _new_loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread of its own, until it is stopped."""
    loop = asyncio.new_event_loop()
    # What the library leaves behind when a connection breaks concerns nobody.
    loop.set_exception_handler(lambda _loop, context: log.debug("%s", context.get("message")))

    def run() -> None:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()

    threading.Thread(target=run, name="ckwatch-farm", daemon=True).start()
    return loop


async def _on(loop: asyncio.AbstractEventLoop, make: Callable[[], Awaitable[_T]]) -> _T:
    """What a coroutine answers that runs on the other loop; cancelling cancels it there. Raises FarmError where that
    loop ends before."""

    async def run() -> _T:
        return await make()

    try:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))
    except asyncio.CancelledError:
        asking = asyncio.current_task()
        if asking is not None and not asking.cancelling():  # nobody here has cancelled it
            raise FarmError(ENDED) from None
        raise


def _reason(error: BaseException) -> str:
    """The first line of what a library says."""
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
