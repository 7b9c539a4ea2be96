"""The daemon's connection with a farm: which workers there are, compiles and timings that are sent to them.

dask's client runs on an event loop of its own, in a thread of its own: the daemon's own does not wait for it. It takes
plain data alone (`plain_data`). A worker that sends anything else gets nothing more to do.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyio import CancelScope, CapacityLimiter, to_thread

from ckwatch.bench import worker_protocol
from ckwatch.bench.job import Job
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport
from ckwatch.bench.worker_protocol import HEAD_BYTES, GarbledError, WorkerMessage, WorkerRequest
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain
from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.farm import messages
from ckwatch.farm.packing import FarmError, PackedCompile, UnfitWorkerError, pack, unpack
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.lazy_dataclass import dataclass

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

MOST, LONGEST_WORD = 1e12, 1000
"""Of the numbers and the texts that a worker says of itself."""

STRANDED = "stranded"
"""Why a task was cancelled that waits although there are workers for it."""

_T = TypeVar("_T")


_NO_FACTS = messages.WorkerFacts(machine="")


@dataclass(frozen=True, slots=True)
class ListedWorker:
    """A worker as the scheduler lists it, whatever it can do: `executing` so many tasks. `facts`: as it describes
    itself, if it is one of ckwatch's."""

    address: str
    host: str
    threads: int
    resources: Mapping[str, float]
    executing: int
    facts: messages.WorkerFacts = _NO_FACTS


_Waiting = tuple["Future[Any]", frozenset[str] | None, str]
"""A task, the workers that may have it (None: all), and the resource that it needs."""


class _StrandedError(FarmError):
    """A task that waits although there are workers for it, or whose worker went with its result."""


class _UnexplainedError(FarmError):
    """A task that failed on one of its workers, which did not say why in text."""


class FarmConnection:
    """One farm, for as long as its scheduler answers. Open it in a thread with `open`, and close it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        self._loop = loop
        self._client = client
        self._described: dict[str, ListedWorker] = {}
        """Workers by their addresses, with the resources that they had when they were asked for their facts: a worker
        finds its devices later than its compiler."""
        self.listed: tuple[ListedWorker, ...] = ()
        self.workers: tuple[ListedWorker, ...] = ()
        self._unfit: dict[str, tuple[str, float]] = {}
        self.refused: dict[str, str] = {}
        """Workers that sent something unacceptable, by address, and what is to be said of each."""
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
                await _on(self._loop, partial(self._client.close, timeout=CONNECT_S))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _on_client_loop(self, make: Callable[[], Awaitable[_T]]) -> _T:
        """Run a coroutine on the client's loop and return its result. Raises FarmError once the farm was released."""
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
                raise FarmError("the farm's scheduler no longer answers") from error
        except Exception as error:  # of the library, of TLS and of the network
            raise FarmError(f"the farm's scheduler is lost: {_reason(error)}") from error

    async def _look(self) -> tuple[ListedWorker, ...]:
        reading = self._client._handle_report_task
        if self._client.status != "running" or reading is None or reading.done():
            raise OSError("no connection")
        scheduler: Any = self._client.scheduler
        present = (await asyncio.wait_for(scheduler.identity(n_workers=-1), CONNECT_S))["workers"]
        self.refused = {address: why for address, why in self.refused.items() if address in present}
        self.listed = tuple(self._listed(address, info) for address, info in present.items())
        listed = {one.address: one for one in self.listed if one.address not in self.refused}
        ready = [address for address, one in listed.items() if messages.READY in one.resources]
        self._described = known = {address: one for address, one in self._described.items() if address in listed}
        news = [one for one in ready if one not in known or known[one].resources != listed[one].resources]
        await asyncio.gather(*(self._ask(listed[address]) for address in news))
        if waiting := list(self._waiting.items()):
            await self._free_stranded(waiting, ready, listed)
        return tuple(
            replace(one, facts=self._described[address].facts)
            for address, one in listed.items()
            if address in self._described and address not in self.refused
        )

    def _listed(self, address: str, info: Any) -> ListedWorker:
        """A worker as it describes itself to the scheduler."""
        from ckwatch.farm.plain_data import object_in

        try:
            if (found := object_in(info)) is not None:
                raise ValueError(found)
            resources = {name: _amount(one) for name, one in info["resources"].items()}
            executing = info["metrics"].get("task_counts", {}).get("executing", 0)
            threads = int(_amount(info["nthreads"]))
            return ListedWorker(address, str(info["host"]), threads, resources, int(_amount(executing)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self._refuse(address, f"{error} in its description")
            return ListedWorker(address, "", 0, {}, 0)

    async def _ask(self, worker: ListedWorker) -> None:
        address = worker.address
        try:
            answer = await asyncio.wait_for(self._asked(messages.DESCRIBE, address), CONNECT_S)
        except (OSError, FarmError) as error:
            if "UnpicklingError" in str(error):  # of the scheduler
                self._refuse(address, "a pickled object")
            return  # it goes, or is busy
        facts = self._accepted(answer, messages.WorkerFacts, address)
        if facts is not None and (problem := _problem_of(facts)) is not None:
            self._refuse(address, problem)
        elif facts is not None:
            self._described[address] = replace(worker, facts=facts)

    async def _asked(self, question: str, address: str, **arguments: Any) -> Any:
        """Ask a worker. Raises FarmError for what it raises."""
        scheduler: Any = self._client.scheduler
        try:
            return (await scheduler.broadcast(msg={"op": question, **arguments}, workers=[address]))[address]
        except OSError:
            raise
        except Exception as error:  # of the library, with the text of the worker's
            raise FarmError(_reason(error)) from error

    def _accepted(self, value: object, kind: type[_T], address: str) -> _T | None:
        """Return what a worker sent, or None if it is not acceptable; the worker then gets no more work."""
        from ckwatch.farm.plain_data import UnacceptableError, opened

        try:
            return opened(value, kind)
        except UnacceptableError as error:
            self._refuse(address, str(error))
            return None

    def _refuse(self, address: str, what: str) -> None:
        if address not in self.refused:
            self.refused[address] = f"the worker at {address} sent something unacceptable, and gets no work: {what}"
            log.warning("%s", self.refused[address])
        self.workers = tuple(one for one in self.workers if one.address != address)

    async def _free_stranded(
        self, waiting: Sequence[tuple[str, _Waiting]], ready: Sequence[str], listed: Mapping[str, ListedWorker]
    ) -> None:
        """Cancel what no worker will ever take."""
        scheduler: Any = self._client.scheduler
        states = await asyncio.wait_for(scheduler.get_task_status(keys=[key for key, _ in waiting]), CONNECT_S)
        for key, (future, allowed, resource) in waiting:
            able = {one for one in ready if listed[one].resources.get(resource)}
            if not (able if allowed is None else able & allowed):
                await self._client.cancel([future], force=True, reason="no-worker", msg=f"{key}: no worker is left")
            elif states[key] == "no-worker":  # the scheduler gives it to none that announces its resources later
                await self._client.cancel([future], force=True, reason=STRANDED)

    def forget(self, machine: str) -> None:
        """Ask the workers of a machine again what they have."""
        self._described = {name: one for name, one in self._described.items() if one.facts.machine != machine}

    def slots(self, identity: str) -> int:
        """How many compiles of a toolchain of this identity may run at once."""
        resource = messages.compile_resource(identity)
        return sum(int(one.resources.get(resource, 0)) for one in self.workers if one.facts.machine not in self.unfit)

    async def give(self, worker: ListedWorker, packed: PackedToolchain, on_sent: Callable[[int], object]) -> None:
        """Give the machine of `worker` a toolchain, or what it lacks of one. `on_sent` gets the bytes that have
        arrived, in another thread. Raises FarmError where that does not work."""
        try:
            await self._on_client_loop(partial(self._give, worker, packed, on_sent))
        except Exception as error:  # of the library, of the worker and of the network
            raise FarmError(_reason(error)) from error

    async def _give(self, worker: ListedWorker, packed: PackedToolchain, on_sent: Callable[[int], object]) -> None:
        tell = partial(self._asked, address=worker.address, sha256=packed.sha256)
        pieces = packed.pieces(int(_amount(await tell(messages.RECEIVED))))
        while (piece := await to_thread.run_sync(next, pieces, None)) is not None:
            await tell(messages.RECEIVE, offset=piece[0], piece=piece[1])
            on_sent(piece[0] + len(piece[1]))
        await tell(messages.INSTALL, identity=packed.identity)
        same = [one.address for one in self.workers if one.facts.machine == worker.facts.machine]
        await asyncio.gather(*(self._asked(messages.LOOK_AGAIN, address) for address in same), return_exceptions=True)

    async def compile(
        self,
        request: CompileRequest,
        folder: Path,
        toolchain: CompilerToolchain,
        identity: str,
        contents: ContentHashes,
        options: messages.CompileOptions,
    ) -> CompileOutcome:
        """Compile `request` on a worker; its files are in `folder` when this returns, as a compiler's here. Raises
        FarmError where the farm cannot, and OSError where the folder cannot be written. Cancelling ends the compiler
        there."""
        packed = await to_thread.run_sync(pack, request, toolchain, identity, options, limiter=self._packing)
        resource = messages.compile_resource(identity)
        done = await self._on_client_loop(partial(self._compile, packed, resource))
        try:
            return await to_thread.run_sync(partial(unpack, packed, done, folder, contents))
        except UnfitWorkerError as error:
            why = f"{error.message}: no compiles go there for now"
            self._unfit[error.machine] = why, time.monotonic() + UNFIT_S
            raise

    async def _compile(self, packed: PackedCompile, resource: str) -> messages.FarmCompiled:
        from ckwatch.farm.plain_data import encode
        from ckwatch.farm.worker import compile_task

        # Were the contents tasks of their own, the scheduler would send every compile to the workers that have them.
        contents: dict[str, bytes] = {}
        why, alone = "", False
        for _ in range(TRIES):
            task = messages.CompileTask(
                job=replace(packed.message, key=f"ckwatch-compile-{secrets.token_hex(8)}"), contents=contents
            )
            sent = await to_thread.run_sync(encode, task, messages.CompileTask)
            allowed = self._allowed(resource, alone=alone)
            try:
                done = await self._run(task.job.key, resource, allowed, compile_task, sent, messages.FarmCompiled)
            except _StrandedError as error:
                why = error.message
                continue
            except _UnexplainedError as error:  # the next time it is known whose fault it is
                why, alone = error.message, True
                continue
            if not done.lacks:
                return done
            contents |= {digest: packed.contents[digest] for digest in done.lacks if digest in packed.contents}
            why = f"{done.machine} does not keep the headers that it was sent"
        raise FarmError(why)

    def _allowed(self, resource: str, *, alone: bool) -> frozenset[str] | None:
        """The workers that may have a compile: one of them if `alone`; None for all."""
        able = [one for one in self.workers if one.facts.machine not in self.unfit and one.resources.get(resource)]
        if alone and able:
            return frozenset({secrets.choice(able).address})
        return frozenset(one.address for one in able) if self.unfit or self.refused else None

    async def _run(
        self,
        key: str,
        resource: str,
        allowed: frozenset[str] | None,
        task: Callable[[bytes], Any],
        message: bytes,
        kind: type[_T],
    ) -> _T:
        """Run a task and return its answer. Raises FarmError if there is none."""
        if allowed is not None and not allowed:
            raise FarmError("no worker of the farm is left for it")
        try:
            future = self._client.submit(
                task, message, key=key, resources={resource: 1}, pure=False,
                workers=None if allowed is None else sorted(allowed),
            )  # fmt: skip
        except Exception as error:  # of the library
            raise FarmError(f"the farm does not take work: {_reason(error)}") from error
        self._waiting[key] = (future, allowed, resource)
        try:
            return await self._result(future, allowed, kind)
        except (asyncio.CancelledError, FarmError):
            raise
        except Exception as error:  # of the library
            raise FarmError(f"the farm did not finish it: {_reason(error)}") from error
        finally:
            del self._waiting[key]
            if not future.done() and self._client.status == "running":
                self._keep(self._client.cancel([future], force=True))
            future.release()

    async def _result(self, future: Future[Any], allowed: frozenset[str] | None, kind: type[_T]) -> _T:
        from ckwatch.farm.plain_data import TaskError, UnacceptableError, opened

        scheduler, key = cast("Any", self._client.scheduler), future.key
        error = await cast("Awaitable[BaseException | None]", future.exception())
        if future.cancelled():
            cancelled: Any = getattr(future._state, "exception", None)  # dask shows no other way to the reason
            if getattr(cancelled, "reason", None) == STRANDED:
                raise _StrandedError("the farm's workers went while it waited for them")
            raise FarmError(f"the farm did not finish it: {_reason(cancelled)}")
        if isinstance(error, TaskError) and not error.workers_ended:
            if not await asyncio.wait_for(scheduler.get_story(keys_or_stimuli=[key]), CONNECT_S):
                raise FarmError("the farm's scheduler cannot read tasks: is the same ckwatch installed there?")
            if allowed is not None and len(allowed) == 1:
                self._refuse(next(iter(allowed)), f"{error} in place of an answer")
            raise _UnexplainedError(f"a worker sent {error} in place of an answer")
        if error is not None:
            raise FarmError(f"the farm did not finish it: {error}")
        answer = await scheduler.gather(keys=[key])
        if answer["status"] != "OK":
            raise _StrandedError("the worker that had its result has gone")
        try:
            return opened(answer["data"][key], kind)
        except UnacceptableError as problem:
            owners = (await asyncio.wait_for(scheduler.who_has(keys=[key]), CONNECT_S))[key]
            for address in owners:
                self._refuse(address, f"{problem} in place of an answer")
            raise FarmError(f"the worker at {', '.join(owners)} sent {problem} in place of an answer") from problem

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

        ask = worker_protocol.message(WorkerRequest.of(job, 0))[HEAD_BYTES:]
        sent = messages.FarmMeasure(key=key, ask=ask, artifacts=tuple(artifacts), time_limit_s=time_limit_s)
        done = await self._on_client_loop(partial(self._measure, sent, device, said))
        if done.problem:
            raise FarmError(f"{device.machine}: {done.problem}")
        try:
            report = worker_protocol.decode(done.report)
        except GarbledError as error:
            raise FarmError(f"{device.machine} sent no report: {error.message}") from error
        if not isinstance(report, BenchmarkReport | BenchmarkFailure):
            raise FarmError(f"{device.machine} sent a {type(report).__name__} in place of a report")
        return report

    async def _measure(
        self, sent: messages.FarmMeasure, device: DeviceFacts, on_message: Callable[[WorkerMessage], object] | None
    ) -> messages.FarmMeasured:
        from ckwatch.farm.plain_data import encode
        from ckwatch.farm.worker import device_resource, measure_task

        owners = frozenset(
            one.address
            for one in self.workers
            if one.facts.machine == device.machine and any(has.identity == device.identity for has in one.facts.devices)
        )
        if not owners:
            raise FarmError(f"{device.name} on {device.machine} has left the farm")
        if on_message is not None:
            self._client.subscribe_topic(sent.key, partial(self._hand_on, on_message, owners))
        try:
            message = await to_thread.run_sync(encode, sent, messages.FarmMeasure)
            return await self._run(
                sent.key, device_resource(device), owners, measure_task, message, messages.FarmMeasured
            )
        finally:
            if on_message is not None and self._client.status == "running":
                self._client.unsubscribe_topic(sent.key)

    def _hand_on(self, on_message: Callable[[WorkerMessage], object], owners: frozenset[str], event: Any) -> None:
        """Give on what a worker says while it measures. The scheduler adds the worker's address to a map."""
        from ckwatch.farm.plain_data import UnacceptableError, content_of

        info = event[1]
        fields = info if isinstance(info, dict) else {"said": info}
        try:
            said = worker_protocol.decode(content_of(fields.get("said")))
        except (UnacceptableError, GarbledError) as error:
            for address in owners if len(owners) == 1 else owners & {fields.get("worker")}:
                self._refuse(address, f"{error} in place of what it does")
        else:
            if not isinstance(said, WorkerRequest):
                on_message(said)


def _amount(info: Any) -> float:
    """A number that others say. Raises ValueError for one that makes no sense."""
    if not isinstance(info, int | float) or not 0 <= info < MOST:
        raise ValueError(f"{str(info)[:40]!r} in place of a number")
    return info


def _problem_of(facts: messages.WorkerFacts) -> str | None:
    """Return the problem with the facts that a worker reports, or None."""
    words = [facts.machine, facts.toolchain, *facts.identities]
    words += [word for one in facts.devices for word in (one.name, one.description, one.arch, one.pci or "")]
    if not facts.machine or any(len(word) > LONGEST_WORD or not word.isprintable() for word in words):
        return "names that cannot be shown"
    if any(one.machine != facts.machine for one in facts.devices):
        return "devices of another machine"
    return None


async def _connect(address: str, security: Security | None) -> Client:
    from ckwatch.farm.plain_data import PlainClient

    client: Client = PlainClient(address, security, CONNECT_S)
    try:
        await asyncio.wait_for(client, 2 * CONNECT_S)  # who takes a connection need not answer
    except BaseException:
        await client.close(timeout=CONNECT_S)
        raise
    return client


def _new_loop() -> asyncio.AbstractEventLoop:
    """An event loop in a thread of its own, until it is stopped."""
    loop = asyncio.new_event_loop()
    # What the library leaves behind when a connection breaks is not an error.
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
    """Run a coroutine on the other loop and return its result; cancelling cancels it there. Raises FarmError if that
    loop ends first."""

    async def run() -> _T:
        return await make()

    try:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))
    except asyncio.CancelledError:
        asking = asyncio.current_task()
        if asking is not None and not asking.cancelling():  # it was not cancelled here
            raise FarmError(ENDED) from None
        raise


def _reason(error: BaseException) -> str:
    """The first line of what a library says."""
    text = str(error).replace("ckwatch-t", "t").strip().splitlines()  # of `SCHEME_PREFIX`
    return text[0] if text else type(error).__name__
