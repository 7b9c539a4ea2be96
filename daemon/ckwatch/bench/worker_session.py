"""The daemon's side of a benchmark: gives a worker its job and turns every way in which it can end into a value.

A worker, which may run behind a launcher, exits by itself when its stdin closes. One that does not react gets a signal,
and everything that it has started ends with it. It is not trusted to survive. Its last message (the stage, and whose
kernel was running), how it ended and what it printed are all that is known of a kernel that took it down, and that is
what the failure says.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from ckwatch.bench.job import Job, SelfTestJob
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport, Devices, FailureKind
from ckwatch.bench.runtimes.hip_api import fault_in_stderr
from ckwatch.bench.worker_protocol import (
    MARK,
    PROTOCOL,
    FrameSplitter,
    GarbledError,
    Message,
    PipeFrame,
    SelfTestDone,
    StepTried,
    TrialVerified,
    VerificationDone,
    WaitingForDevice,
    WorkerHello,
    WorkerMessage,
    WorkerRequest,
    WorkerStage,
    head,
    message,
    tag,
)
from ckwatch.model.version import __version__
from ckwatch.system.async_processes import AsyncProcess, start_process
from ckwatch.system.processes import PIPE, ProcessEnd, ProcessStartError, signal_name, signal_of
from ckwatch.system.python_process import module_command, module_environment

OnMessage = Callable[[WorkerMessage], None]

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

_MANGLED = MARK[:4]
_Answer = TypeVar("_Answer", BenchmarkReport, Devices, VerificationDone, SelfTestDone)


async def measure(
    job: Job,
    artifacts: Sequence[bytes],
    *,
    command: Sequence[str] = WORKER,
    launcher: Sequence[str] = (),
    time_limit_s: float,
    on_message: OnMessage | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path = Path("/"),
    grace_s: float = GRACE_S,
) -> BenchmarkReport | BenchmarkFailure:
    """Have a worker do `job` with `artifacts`, the content of shared objects; it has ended when this returns.

    `launcher` is put in front of `command`; both are run in `folder`, with `environment` or this process's own.
    `time_limit_s` bounds the start, and the work after that, without the time of waiting for the device. `on_message`
    gets what the worker reports meanwhile, each stage of each contestant once. Nothing is raised for what a worker
    does. Cancelling ends it.
    """
    session = WorkerSession(
        WorkerRequest(protocol=PROTOCOL, job=job, artifacts=len(artifacts)),
        artifacts,
        on_message,
        time_limit_s,
        grace_s,
    )
    return await session.run([*launcher, *command], bool(launcher), environment, folder, BenchmarkReport)


async def find_devices(
    command: Sequence[str] = WORKER,
    launcher: Sequence[str] = (),
    *,
    time_limit_s: float = FIND_DEVICES_LIMIT_S,
    environment: Mapping[str, str] | None = None,
    folder: Path = Path("/"),
) -> Devices | BenchmarkFailure:
    """Ask a worker which devices there are on its machine."""
    session = WorkerSession(WorkerRequest(protocol=PROTOCOL, job=None), (), None, time_limit_s, GRACE_S)
    return await session.run([*launcher, *command], bool(launcher), environment, folder, Devices)


async def try_steps(
    job: SelfTestJob,
    artifacts: Sequence[bytes],
    *,
    command: Sequence[str] = WORKER,
    launcher: Sequence[str] = (),
    time_limit_s: float,
    on_message: OnMessage | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path = Path("/"),
    grace_s: float = GRACE_S,
) -> SelfTestDone | BenchmarkFailure:
    """Have one worker try the steps of `job`; `on_message` gets what each has shown (`StepTried`).

    As `measure`. The failure is that of a step that took the worker along, or of the host.
    """
    request = WorkerRequest(protocol=PROTOCOL, job=None, artifacts=len(artifacts), self_test=job)
    session = WorkerSession(request, artifacts, on_message, time_limit_s, grace_s)
    return await session.run([*launcher, *command], bool(launcher), environment, folder, SelfTestDone)


class LastingWorker:
    """A worker that does several jobs on one device, as `measure` each, and holds the device's lease meanwhile.

    It ends with the first job that does not end in a report, or with `close`: then the next job starts another.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] = WORKER,
        launcher: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        folder: Path = Path("/"),
        grace_s: float = GRACE_S,
    ) -> None:
        self.jobs = 0
        """How many this process has done."""
        self._arguments = [*launcher, *command]
        self._through_launcher = bool(launcher)
        self._environment = environment
        self._folder = folder
        self._grace_s = grace_s
        self._process: AsyncProcess | None = None
        self._splitter = FrameSplitter()
        self._hello: WorkerHello | None = None

    async def measure(
        self,
        job: Job,
        artifacts: Sequence[bytes],
        *,
        time_limit_s: float,
        on_message: OnMessage | None = None,
    ) -> BenchmarkReport | BenchmarkFailure:
        """As the function `measure`; jobs come one after the other. Cancelling ends the worker."""
        request = WorkerRequest(protocol=PROTOCOL, job=job, artifacts=len(artifacts), lasting=True)
        session = WorkerSession(request, artifacts, on_message, time_limit_s, self._grace_s)
        if self._process is None:
            started = await session.start(self._arguments, self._environment, self._folder)
            if isinstance(started, BenchmarkFailure):
                return started
            self._process, self._splitter, self._hello, self.jobs = started, FrameSplitter(), None, 0
        process, lasts = self._process, False
        try:
            lasts = await session.one_of_several(process, self._splitter, self._hello)
        finally:
            if not lasts:
                self._process, self.jobs = None, 0
                outcome = await session.end(
                    process, self._arguments, self._through_launcher, BenchmarkReport, session.timed_out()
                )
        if lasts:
            self._hello = session.hello
            self.jobs += 1
            assert isinstance(session.answer, BenchmarkReport)  # noqa: S101  # `lasts` says so
            return session.answer
        return outcome

    async def close(self) -> None:
        """End the worker, which gives the device back."""
        process, self._process = self._process, None
        if process is not None:
            await process.end_politely(self._grace_s)
            process.poll()  # it is reaped
            process.close()


class WorkerSession:
    """One job of a worker, and its life, unless it lasts for others."""

    def __init__(
        self,
        ask: WorkerRequest,
        artifacts: Sequence[bytes],
        on_message: OnMessage | None,
        time_limit_s: float,
        grace_s: float,
    ) -> None:
        self._ask = ask
        self._artifacts = artifacts
        self._on_message = on_message or (lambda _: None)
        self._time_limit_s = time_limit_s
        self._grace_s = grace_s
        self._hello: WorkerHello | None = None
        self._stage = WorkerStage(name="starting")
        self._contestant = ""
        self._told: set[WorkerStage] = set()
        self._answer: Message | None = None
        self._garbled: GarbledError | None = None
        self._silent = False
        self._splitter = FrameSplitter()
        self._stderr = OutputExcerpt()
        self._limit = anyio.CancelScope()
        self._greeted = anyio.Event()
        self._timed_out = False

    @property
    def hello(self) -> WorkerHello | None:
        """The worker's first word."""
        return self._hello

    @property
    def answer(self) -> Message | None:
        """The worker's answer."""
        return self._answer

    async def timed_out(self) -> bool:
        """Return True if the time of `one_of_several` ran out."""
        return self._timed_out

    async def run(
        self,
        arguments: Sequence[str],
        through_launcher: bool,
        environment: Mapping[str, str] | None,
        folder: Path,
        wanted: type[_Answer],
    ) -> _Answer | BenchmarkFailure:
        process = await self.start(arguments, environment, folder)
        if isinstance(process, BenchmarkFailure):
            return process
        return await self.end(process, arguments, through_launcher, wanted, self._converse(process))

    async def start(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None, folder: Path
    ) -> AsyncProcess | BenchmarkFailure:
        """The worker's process."""
        try:
            return await start_process(
                arguments, environment=module_environment(environment), folder=folder, stdin=PIPE
            )
        except ProcessStartError as error:
            return self._failure(
                FailureKind.LAUNCHER,
                f"the benchmark worker cannot be started: {error.program}: {error.reason}",
                "`[bench] launcher` and `worker` in ckwatch.toml say what is started.",
            )

    async def end(
        self,
        process: AsyncProcess,
        arguments: Sequence[str],
        through_launcher: bool,
        wanted: type[_Answer],
        conversation: Awaitable[bool],
    ) -> _Answer | BenchmarkFailure:
        """Return the outcome of the conversation, after which the process has ended."""
        try:
            timed_out = await conversation
        finally:
            signalled = await process.end_politely(self._grace_s)
            ended = process.poll()
            process.close()
        answer = self._answer
        if isinstance(answer, wanted):
            return answer
        if isinstance(answer, BenchmarkFailure):
            return self._with_output(answer)
        if self._garbled is not None:
            return self._garbled_failure(self._garbled)
        if answer is not None:
            return self._failure(FailureKind.GARBLED, f"the worker answered with {tag(answer)}")
        if timed_out and not self._silent:
            return self._overrun()
        return self._death(ended, signalled, arguments, through_launcher)

    async def one_of_several(self, process: AsyncProcess, splitter: FrameSplitter, hello: WorkerHello | None) -> bool:
        """Have a worker that lasts do this job; whether it has answered with a report, and another may follow.

        `splitter` is the one of all its jobs, `hello` its first word if it was heard. Else `end` says what happened.
        """
        self._splitter = splitter
        if hello is not None:
            self._hello = hello
            self._greeted.set()
        self._timed_out = await self._converse(process, lasting=True)
        return isinstance(self._answer, BenchmarkReport)

    async def _converse(self, process: AsyncProcess, *, lasting: bool = False) -> bool:
        """Until the worker has answered and ended (`lasting`: or answered); whether its time ran out."""
        self._allow(self._time_limit_s)
        with self._limit:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_stderr, process)
                tasks.start_soon(self._write, process)
                if lasting:
                    await self._read_stdout(process)
                    if self._is_answered:
                        tasks.cancel_scope.cancel()
                        return False
                else:
                    tasks.start_soon(self._read_stdout, process)
                await process.wait()
                # Its output is in the pipes already; a child that it left may hold them open.
                self._allow(_LAST_WORDS_S)
                tasks.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS_S
                self._greeted.set()
        return self._limit.cancelled_caught and not self._is_answered and self._garbled is None

    def _allow(self, seconds: float) -> None:
        self._limit.deadline = anyio.current_time() + seconds

    async def _write(self, process: AsyncProcess) -> None:
        await self._greeted.wait()
        if self._hello is None or self._garbled is not None:
            return
        asked = message(self._ask)
        if not await process.write(asked):
            return
        for artifact in self._artifacts:
            start = await anyio.to_thread.run_sync(head, artifact, b"B")
            if not (await process.write(start) and await process.write(artifact)):
                return

    async def _read_stderr(self, process: AsyncProcess) -> None:
        while chunk := await process.read_stderr():
            self._stderr.add(chunk)

    async def _read_stdout(self, process: AsyncProcess) -> None:
        """Take what the worker says until it has answered, then let it end by itself."""
        try:
            while chunk := await process.read_stdout():
                for frame in self._splitter.feed(chunk):
                    self._take(await _decoded(frame))
                    if self._is_answered:  # nothing that comes after it matters
                        self._allow(_LAST_WORDS_S)
                        return
            if self._splitter.rest and self._hello is not None:
                raise GarbledError("the worker's last message is not whole", self._splitter.rest[:400])
        except GarbledError as error:
            self._garbled = error
            self._limit.cancel()
            return
        self._silent = True
        self._allow(_LAST_WORDS_S)

    @property
    def _is_answered(self) -> bool:
        return self._answer is not None

    def _take(self, said: Message) -> None:
        if self._hello is None:
            if not isinstance(said, WorkerHello):
                raise GarbledError(f"the worker's first word was {tag(said)}")
            self._greet(said)
        elif isinstance(said, WaitingForDevice):
            job = self._ask.job or self._ask.self_test
            wait_s = 0.0 if job is None else job.lease_wait_s
            self._allow(wait_s + self._time_limit_s)
            self._stage = WorkerStage(name="waiting for the device")
            self._on_message(said)
        elif isinstance(said, WorkerStage):
            self._enter(said)
        elif isinstance(said, TrialVerified | StepTried):
            self._on_message(said)
        elif isinstance(said, WorkerHello | WorkerRequest):
            raise GarbledError(f"the worker said {tag(said)} in the middle of its work")
        else:
            self._answer = said

    def _greet(self, said: WorkerHello) -> None:
        self._hello = said
        if said.protocol != PROTOCOL:
            self._answer = BenchmarkFailure(
                kind=FailureKind.GARBLED,
                message=f"the worker on {said.host} is of ckwatch {said.version} (protocol {said.protocol}); "
                f"this is {__version__} (protocol {PROTOCOL})",
                hint="The same version of ckwatch is needed where the launcher leads to.",
            )
            return
        self._allow(self._time_limit_s)
        self._greeted.set()
        self._on_message(said)

    def _enter(self, said: WorkerStage) -> None:
        if self._stage.name == "waiting for the device":
            self._allow(self._time_limit_s)
        self._stage = said
        self._contestant = said.contestant or self._contestant
        if said not in self._told:
            self._told.add(said)
            self._on_message(said)

    def _overrun(self) -> BenchmarkFailure:
        limit = f"{self._time_limit_s:g} s"
        if self._hello is None:
            return self._failure(
                FailureKind.LAUNCHER,
                f"the worker did not begin within {limit}",
                "`[bench] launcher` must pass standard input and output on as they are.",
            )
        raises = "[bench] time_limit_s in ckwatch.toml raises the limit."
        if self._stage.contestant:
            what = f"{self._stage.contestant} was still running after {limit} ({self._stage.name})"
            return self._failure(FailureKind.HUNG, what, f"An endless loop, or a deadlock? {raises}")
        return self._failure(FailureKind.BROKEN, f"the worker was still {self._stage.name} after {limit}", raises)

    def _death(
        self, ended: ProcessEnd | None, signalled: bool, arguments: Sequence[str], through_launcher: bool
    ) -> BenchmarkFailure:
        """Explain that the worker ended without an answer. `signalled`: it would have run on; `ended` is None for one
        that does not even end when it is killed."""
        how = _how_it_ended(ended)
        if self._hello is None:
            if _MANGLED in self._splitter.rest:
                return self._garbled_failure(
                    GarbledError("line ends were changed on the way", self._splitter.rest[:400])
                )
            what = f"the worker did not start: {arguments[0]} {how}"
            return self._failure(FailureKind.LAUNCHER, what, "What it printed is in the details.")
        where = f"while {self._stage.name}"
        if self._stage.contestant:
            where += f" ({self._stage.contestant})"
        if ended is None or signalled:
            return self._failure(FailureKind.BROKEN, f"the worker fell silent {where}")
        number = signal_of(ended.status)
        if number is None or (ended.status >= 0 and not through_launcher):
            # A launcher's exit status is its own: ssh's 255 is a lost connection.
            if self._stage.contestant and not through_launcher:
                return self._failure(FailureKind.CRASHED, f"the kernel ended the worker, which {how}, {where}")
            return self._failure(FailureKind.BROKEN, f"the worker {how} {where}")
        said = fault_in_stderr(self._stderr.text)
        if said is not None:
            return self._failure(said[0], f"{said[1]} ({where}; the worker {how})")
        if number in _FAULT_SIGNALS and self._contestant:
            hint = ""
            if number is signal.SIGILL:
                hint = "Compiled for another processor (-march=native), or ended by the kernel itself?"
            return self._failure(FailureKind.CRASHED, f"{number.name} {where}", hint)
        if number is signal.SIGKILL and ended.oom_killed:
            return self._failure(FailureKind.NO_MEMORY, f"the machine ran out of memory {where}")
        hint = "Somebody killed it, or the machine ran out of memory." if number is signal.SIGKILL else ""
        return self._failure(FailureKind.BROKEN, f"the worker {how} {where}", hint)

    def _garbled_failure(self, error: GarbledError) -> BenchmarkFailure:
        seen = f"received: {error.seen!r}\n" if error.seen else ""
        return self._failure(
            FailureKind.GARBLED,
            f"the worker's output makes no sense: {error.message}",
            "A launcher must pass bytes on as they are, without a terminal (`ssh -T`), and print nothing in between.",
            seen,
        )

    def _failure(self, kind: FailureKind, text: str, hint: str = "", detail: str = "") -> BenchmarkFailure:
        contestant = self._contestant if kind in (FailureKind.CRASHED, FailureKind.FAULT) else self._stage.contestant
        return self._with_output(
            BenchmarkFailure(kind=kind, message=text, hint=hint, detail=detail, contestant=contestant)
        )

    def _with_output(self, failure: BenchmarkFailure) -> BenchmarkFailure:
        """With all that was printed."""
        parts = [failure.detail.rstrip("\n")]
        banner = self._splitter.banner if self._hello is not None else self._splitter.rest
        if banner.strip():
            parts.append("before the worker's first word:\n" + banner[:4000].decode("utf-8", "replace").rstrip("\n"))
        if self._stderr.text.strip():
            parts.append("standard error:\n" + self._stderr.text.rstrip("\n"))
        detail = "\n".join(part for part in parts if part)
        return BenchmarkFailure(
            kind=failure.kind,
            message=failure.message,
            hint=failure.hint,
            detail=detail,
            contestant=failure.contestant,
            device=failure.device,
        )


async def _decoded(frame: PipeFrame) -> Message:
    if len(frame.content) > _LARGE_BYTES:
        return await anyio.to_thread.run_sync(frame.message)
    return frame.message()


def _how_it_ended(ended: ProcessEnd | None) -> str:
    if ended is None:
        return "does not even end when it is killed"
    if ended.status < 0:
        return f"was killed by {signal_name(-ended.status)}"
    return f"ended with exit status {ended.status}"


class OutputExcerpt:
    """The beginning and the end of a stream of bytes."""

    def __init__(self, limit_bytes: int = 1 << 16) -> None:
        self._half = limit_bytes // 2
        self._head = b""
        self._tail = b""
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """More of it."""
        room = self._half - len(self._head)
        self._head += chunk[:room]
        rest = self._tail + chunk[room:]
        self._tail = rest[-self._half :]
        self._dropped += len(rest) - len(self._tail)

    @property
    def text(self) -> str:
        """The retained output; omissions are marked."""
        gap = f"\n… {self._dropped} bytes left out …\n".encode() if self._dropped else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")
