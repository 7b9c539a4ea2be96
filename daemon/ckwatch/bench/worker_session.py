"""The daemon's side of a benchmark: gives a worker its job and turns every way in which it can end into a value.

A worker, which may run behind a launcher, exits by itself when its stdin closes. One that does not react gets a signal,
and everything that it has started ends with it. It is not trusted to survive. Its last message (the stage, and whose
kernel was running), how it ended and what it printed are all that is known of a kernel that took it down, and that is
what the failure says.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from ckwatch.bench import worker_protocol
from ckwatch.bench.job import Job
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport, Devices, FailureKind
from ckwatch.bench.runtimes.hip_api import fault_in_stderr
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.version import __version__
from ckwatch.system.async_processes import AsyncProcess, start_process
from ckwatch.system.processes import PIPE, ProcessEnd, ProcessStartError, signal_name, signal_of
from ckwatch.system.python_process import module_command, module_environment

if TYPE_CHECKING:
    from ckwatch.workspace.settings import BenchSection

OnMessage = Callable[[worker_protocol.WorkerMessage], None]

WORKER = module_command("ckwatch.bench.worker")
"""The worker of this installation."""

FIND_DEVICES_LIMIT_S = 60.0
GRACE_S = 1.0
"""For each of the polite ways to end."""
_LAST_WORDS_S = 2.0
_LARGE_BYTES = 100_000
"""Messages up to this size are unpacked in less than a millisecond."""

_FAULT_SIGNALS = frozenset(
    {
        *(signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS),
        *(signal.SIGXCPU, signal.SIGXFSZ, signal.SIGPIPE, signal.SIGALRM, signal.SIGSTKFLT),
    }
)
"""Signals that a process brings upon itself."""

_MANGLED = worker_protocol.MARK[:4]
_Answer = TypeVar(
    "_Answer",
    BenchmarkReport,
    Devices,
    worker_protocol.VerificationDone,
    worker_protocol.SelfTestDone,
    worker_protocol.RunnerDataWritten,
)


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """How a worker is started: `launcher` in front of `command`, in `folder`, with `environment` or this process's own.

    `grace_s` is for each of the polite ways to end.
    """

    command: Sequence[str] = WORKER
    launcher: Sequence[str] = ()
    folder: Path = Path("/")
    environment: Mapping[str, str] | None = None
    grace_s: float = GRACE_S

    @classmethod
    def of(cls, settings: BenchSection, folder: Path) -> WorkerStart:
        """The workspace's choice. Behind a launcher this Python's path means nothing."""
        default = ("python3", *WORKER[1:]) if settings.launcher else WORKER
        return cls(tuple(settings.worker) or default, tuple(settings.launcher), folder)


OWN = WorkerStart()
"""This installation's, on this machine."""


async def measure(
    job: Job,
    artifacts: Sequence[bytes],
    start: WorkerStart = OWN,
    *,
    time_limit_s: float,
    on_message: OnMessage | None = None,
) -> BenchmarkReport | BenchmarkFailure:
    """Have a worker do `job` with `artifacts`, the content of shared objects; as `Worker.ask`."""
    return await Worker(start).ask(job, artifacts, BenchmarkReport, time_limit_s=time_limit_s, on_message=on_message)


async def find_devices(
    start: WorkerStart = OWN, *, time_limit_s: float = FIND_DEVICES_LIMIT_S
) -> Devices | BenchmarkFailure:
    """Ask a worker which devices there are on its machine."""
    return await Worker(start).ask(None, (), Devices, time_limit_s=time_limit_s)


class Worker:
    """A worker, started by the first task. It ends with that, or does several (`lasting`) on one device, whose lease it
    holds meanwhile, until one does not end in the wanted answer, or `close`: then the next task starts another."""

    def __init__(self, start: WorkerStart = OWN) -> None:
        self.jobs = 0
        """How many this process has done."""
        self._start = start
        self._process: AsyncProcess | None = None
        self._splitter = worker_protocol.FrameSplitter()
        self._hello: worker_protocol.WorkerHello | None = None

    async def ask(
        self,
        task: worker_protocol.Task | None,
        artifacts: Sequence[bytes],
        wanted: type[_Answer],
        *,
        time_limit_s: float,
        on_message: OnMessage | None = None,
        lasting: bool = False,
    ) -> _Answer | BenchmarkFailure:
        """Have it do `task`; it has ended when this returns, unless it is `lasting`. One task at a time.

        `time_limit_s` bounds the start, and the work after that, without the time of waiting for the device.
        `on_message` gets what the worker reports meanwhile, each stage of each contestant once. Nothing is raised for
        what a worker does. Cancelling ends it.
        """
        if self._process is None:
            self._splitter, self._hello, self.jobs = worker_protocol.FrameSplitter(), None, 0
        request = worker_protocol.WorkerRequest.of(task, len(artifacts), lasting=lasting)
        report = on_message or (lambda _: None)
        session = _Session(request, artifacts, report, time_limit_s, self._splitter, self._hello)
        start: WorkerStart = self._start
        arguments = [*start.launcher, *start.command]
        if self._process is None:
            try:
                self._process = await start_process(
                    arguments, environment=module_environment(start.environment), folder=start.folder, stdin=PIPE
                )
            except ProcessStartError as error:
                return session.failure(
                    FailureKind.LAUNCHER,
                    f"the benchmark worker cannot be started: {error.program}: {error.reason}",
                    "`[bench] launcher` and `worker` in ckwatch.toml say what is started.",
                )
        process, lasts, timed_out = self._process, False, False
        try:
            timed_out = await session.converse(process)
            lasts = lasting and isinstance(session.answer, wanted)
        finally:
            if not lasts:
                self._process, self.jobs = None, 0
                signalled = await process.end_politely(start.grace_s)
                ended = process.poll()
                process.close()
        if isinstance(session.answer, wanted):
            self._hello = session.hello
            self.jobs += lasts
            return session.answer
        return session.outcome(ended, signalled, timed_out, arguments, bool(start.launcher))

    async def close(self) -> None:
        """End the worker, which gives the device back."""
        process, self._process = self._process, None
        if process is not None:
            await process.end_politely(self._start.grace_s)
            process.poll()  # it is reaped
            process.close()


@dataclass(slots=True)
class OutputExcerpt:
    """The beginning and the end of a stream of bytes."""

    half_bytes: int = 1 << 15
    _head: bytes = b""
    _tail: bytes = b""
    _dropped: int = 0

    def add(self, chunk: bytes) -> None:
        room = self.half_bytes - len(self._head)
        self._head += chunk[:room]
        rest = self._tail + chunk[room:]
        self._tail = rest[-self.half_bytes :]
        self._dropped += len(rest) - len(self._tail)

    @property
    def text(self) -> str:
        """The retained output; omissions are marked."""
        gap = f"\n… {self._dropped} bytes left out …\n".encode() if self._dropped else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")


@dataclass(slots=True)
class _Session:
    """One task of a worker. `splitter` is the one of all its tasks, `hello` its first word if it was heard."""

    request: worker_protocol.WorkerRequest
    artifacts: Sequence[bytes]
    on_message: OnMessage
    time_limit_s: float
    splitter: worker_protocol.FrameSplitter
    hello: worker_protocol.WorkerHello | None
    answer: worker_protocol.Message | None = None
    _stage: worker_protocol.WorkerStage = field(default_factory=lambda: worker_protocol.WorkerStage(name="starting"))
    _contestant: str = ""
    _reported: set[worker_protocol.WorkerStage] = field(default_factory=set)
    _garbled: worker_protocol.GarbledError | None = None
    _silent: bool = False
    _stderr: OutputExcerpt = field(default_factory=OutputExcerpt)
    _limit: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _greeted: anyio.Event = field(default_factory=anyio.Event)

    def outcome(
        self, ended: ProcessEnd | None, signalled: bool, timed_out: bool, arguments: Sequence[str], launched: bool
    ) -> BenchmarkFailure:
        """The failure that a process without the wanted answer has ended in."""
        if isinstance(self.answer, BenchmarkFailure):
            return self._with_output(self.answer)
        if self._garbled is not None:
            return self._garbled_failure(self._garbled)
        if self.answer is not None:
            return self.failure(FailureKind.GARBLED, f"the worker answered with {worker_protocol.tag(self.answer)}")
        if timed_out and not self._silent:
            return self._overrun()
        return self._death(ended, signalled, arguments, launched)

    async def converse(self, process: AsyncProcess) -> bool:
        """Until the worker has answered and ended (one that lasts: or answered); whether its time ran out."""
        self._allow(self.time_limit_s)
        with self._limit:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_stderr, process)
                tasks.start_soon(self._write, process)
                if self.request.lasting:
                    await self._read_stdout(process)
                    if self.answer is not None:
                        tasks.cancel_scope.cancel()
                        return False
                else:
                    tasks.start_soon(self._read_stdout, process)
                await process.wait()
                # Its output is in the pipes already; a child that it left may hold them open.
                self._allow(_LAST_WORDS_S)
                tasks.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
                self._greeted.set()
        return self._limit.cancelled_caught and self.answer is None and self._garbled is None

    def _allow(self, seconds: float) -> None:
        self._limit.deadline = anyio.current_time() + seconds

    async def _write(self, process: AsyncProcess) -> None:
        if self.hello is None:
            await self._greeted.wait()
        if self.hello is None or self._garbled is not None:
            return
        if not await process.write(worker_protocol.message(self.request)):
            return
        for artifact in self.artifacts:
            start = await anyio.to_thread.run_sync(worker_protocol.head, artifact, b"B")
            if not (await process.write(start) and await process.write(artifact)):
                return

    async def _read_stderr(self, process: AsyncProcess) -> None:
        while chunk := await process.read_stderr():
            self._stderr.add(chunk)

    async def _read_stdout(self, process: AsyncProcess) -> None:
        """Take what the worker says until it has answered, then let it end by itself."""
        try:
            while chunk := await process.read_stdout():
                for frame in self.splitter.feed(chunk):
                    self._take(await _decoded(frame))
                    if self.answer is not None:  # nothing that comes after it matters
                        self._allow(_LAST_WORDS_S)
                        return
            if self.splitter.rest and self.hello is not None:
                raise worker_protocol.GarbledError("the worker's last message is not whole", self.splitter.rest[:400])
        except worker_protocol.GarbledError as error:
            self._garbled = error
            self._limit.cancel()
            return
        self._silent = True
        self._allow(_LAST_WORDS_S)

    def _take(self, reply: worker_protocol.Message) -> None:
        if self.hello is None:
            if not isinstance(reply, worker_protocol.WorkerHello):
                raise worker_protocol.GarbledError(f"the worker's first word was {worker_protocol.tag(reply)}")
            self._greet(reply)
        elif isinstance(reply, worker_protocol.WaitingForDevice):
            self._allow(getattr(self.request.task, "lease_wait_s", 0.0) + self.time_limit_s)
            self._stage = worker_protocol.WorkerStage(name="waiting for the device")
            self.on_message(reply)
        elif isinstance(reply, worker_protocol.WorkerStage):
            self._enter(reply)
        elif isinstance(reply, worker_protocol.PartialResult):
            self.on_message(reply)
        elif isinstance(reply, worker_protocol.WorkerHello | worker_protocol.WorkerRequest):
            raise worker_protocol.GarbledError(
                f"the worker sent {worker_protocol.tag(reply)} in the middle of its work"
            )
        else:
            self.answer = reply

    def _greet(self, reply: worker_protocol.WorkerHello) -> None:
        self.hello = reply
        if reply.protocol != worker_protocol.PROTOCOL:
            self.answer = BenchmarkFailure(
                kind=FailureKind.GARBLED,
                message=f"the worker on {reply.host} is of ckwatch {reply.version} (protocol {reply.protocol}); "
                f"this is {__version__} (protocol {worker_protocol.PROTOCOL})",
                hint="The same version of ckwatch is needed where the launcher leads to.",
            )
            return
        self._allow(self.time_limit_s)
        self._greeted.set()
        self.on_message(reply)

    def _enter(self, reply: worker_protocol.WorkerStage) -> None:
        if self._stage.name == "waiting for the device":
            self._allow(self.time_limit_s)
        self._stage = reply
        self._contestant = reply.contestant or self._contestant
        if reply not in self._reported:
            self._reported.add(reply)
            self.on_message(reply)

    def _overrun(self) -> BenchmarkFailure:
        limit = f"{self.time_limit_s:g} s"
        if self.hello is None:
            return self.failure(
                FailureKind.LAUNCHER,
                f"the worker did not begin within {limit}",
                "`[bench] launcher` must pass standard input and output on as they are.",
            )
        raises = "[bench] time_limit_s in ckwatch.toml raises the limit."
        if self._stage.contestant:
            what = f"{self._stage.contestant} was still running after {limit} ({self._stage.name})"
            return self.failure(FailureKind.HUNG, what, f"An endless loop, or a deadlock? {raises}")
        return self.failure(FailureKind.BROKEN, f"the worker was still {self._stage.name} after {limit}", raises)

    def _death(
        self, ended: ProcessEnd | None, signalled: bool, arguments: Sequence[str], through_launcher: bool
    ) -> BenchmarkFailure:
        """Explain that the worker ended without an answer. `signalled`: it would have run on; `ended` is None for one
        that does not even end when it is killed."""
        how = _how_it_ended(ended)
        if self.hello is None:
            if _MANGLED in self.splitter.rest:
                return self._garbled_failure(
                    worker_protocol.GarbledError("line ends were changed on the way", self.splitter.rest[:400])
                )
            what = f"the worker did not start: {arguments[0]} {how}"
            return self.failure(FailureKind.LAUNCHER, what, "What it printed is in the details.")
        where = f"while {self._stage.name}"
        if self._stage.contestant:
            where += f" ({self._stage.contestant})"
        if ended is None or signalled:
            return self.failure(FailureKind.BROKEN, f"the worker fell silent {where}")
        number = signal_of(ended.status)
        if number is None or (ended.status >= 0 and not through_launcher):
            # A launcher's exit status is its own: ssh's 255 is a lost connection.
            if self._stage.contestant and not through_launcher:
                return self.failure(FailureKind.CRASHED, f"the kernel ended the worker, which {how}, {where}")
            return self.failure(FailureKind.BROKEN, f"the worker {how} {where}")
        reply = fault_in_stderr(self._stderr.text)
        if reply is not None:
            return self.failure(reply[0], f"{reply[1]} ({where}; the worker {how})")
        if number in _FAULT_SIGNALS and self._contestant:
            hint = ""
            if number is signal.SIGILL:
                hint = "Compiled for another processor (-march=native), or ended by the kernel itself?"
            return self.failure(FailureKind.CRASHED, f"{number.name} {where}", hint)
        if number is signal.SIGKILL and ended.oom_killed:
            return self.failure(FailureKind.NO_MEMORY, f"the machine ran out of memory {where}")
        hint = "Somebody killed it, or the machine ran out of memory." if number is signal.SIGKILL else ""
        return self.failure(FailureKind.BROKEN, f"the worker {how} {where}", hint)

    def _garbled_failure(self, error: worker_protocol.GarbledError) -> BenchmarkFailure:
        seen = f"received: {error.seen!r}\n" if error.seen else ""
        return self.failure(
            FailureKind.GARBLED,
            f"the worker's output makes no sense: {error.message}",
            "A launcher must pass bytes on as they are, without a terminal (`ssh -T`), and print nothing in between.",
            seen,
        )

    def failure(self, kind: FailureKind, text: str, hint: str = "", detail: str = "") -> BenchmarkFailure:
        contestant = self._contestant if kind in (FailureKind.CRASHED, FailureKind.FAULT) else self._stage.contestant
        return self._with_output(
            BenchmarkFailure(kind=kind, message=text, hint=hint, detail=detail, contestant=contestant)
        )

    def _with_output(self, failure: BenchmarkFailure) -> BenchmarkFailure:
        parts = [failure.detail.rstrip("\n")]
        banner = self.splitter.banner if self.hello is not None else self.splitter.rest
        if banner.strip():
            parts.append("before the worker's first word:\n" + banner[:4000].decode("utf-8", "replace").rstrip("\n"))
        if self._stderr.text.strip():
            parts.append("standard error:\n" + self._stderr.text.rstrip("\n"))
        detail = "\n".join(part for part in parts if part)
        return replace(failure, detail=detail)


async def _decoded(frame: worker_protocol.PipeFrame) -> worker_protocol.Message:
    if len(frame.content) > _LARGE_BYTES:
        return await anyio.to_thread.run_sync(frame.message)
    return frame.message()


def _how_it_ended(ended: ProcessEnd | None) -> str:
    if ended is None:
        return "does not even end when it is killed"
    if ended.status < 0:
        return f"was killed by {signal_name(-ended.status)}"
    return f"ended with exit status {ended.status}"
