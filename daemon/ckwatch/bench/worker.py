"""The benchmark worker: `python -m ckwatch.bench.worker` reads a job from stdin, answers on stdout, and exits, unless
it is to last for another one.

The code it runs may crash, hang or kill it at any moment; its parent expects that. It exits when its stdin
closes, even in the middle of a kernel, so that nothing keeps running where a launcher led to and lost touch. What
kernels print goes to stderr: the descriptors of stdin and stdout are no longer theirs.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from queue import Queue
from typing import BinaryIO

from ckwatch.bench.job import Job, SelfTestJob
from ckwatch.bench.progress import Progress, or_failure
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport, Devices, FailureKind
from ckwatch.bench.runtimes import processors
from ckwatch.bench.worker_protocol import (
    PROTOCOL,
    FrameSplitter,
    GarbledError,
    LaunchCounted,
    Message,
    PipeFrame,
    RunnerDataWritten,
    SelfTestDone,
    VerificationDone,
    WorkerHello,
    WorkerRequest,
    message,
)
from ckwatch.model.version import __version__

_CHUNK_BYTES = 1 << 20
_LINE_BUFFERED = 1  # _IOLBF of stdio.h, in glibc and musl


def main(runners: Mapping[type, Runner] | None = None) -> None:
    """Take a job, answer, end. `runners`: what does each type of job, by default those of `BENCHMARKS`."""
    questions, answers = _keep_pipes()
    _be_expendable()
    try:
        _send(answers, WorkerHello(protocol=PROTOCOL, version=__version__, pid=os.getpid(), host=platform.node()))
        asked: Queue[_Asked] = Queue()
        threading.Thread(target=_receive, args=(questions, asked), daemon=True, name="requests").start()
        lasting = True
        while lasting and (question := asked.get()) is not None:
            answer, lasting = _answer(question, runners or BENCHMARKS, lambda one: _send(answers, one))
            with suppress(OSError, AttributeError):
                ctypes.CDLL(None).fflush(None)  # what kernels printed comes before the answer
            if answer is not None:
                _send(answers, answer)
    except BrokenPipeError:  # the client has gone
        os._exit(1)
    # Drivers that were left in a bad state crash or hang when they are closed.
    os._exit(0)


_Asked = tuple[Message, list[bytes]] | GarbledError | None
"""A request with its artifacts; None at the end of the input."""

_Answer = (
    BenchmarkReport | Devices | VerificationDone | SelfTestDone | LaunchCounted | RunnerDataWritten | BenchmarkFailure
)
Send = Callable[[Message], None]
Runner = tuple[str, str]
"""Module and name of a function that does a job with artifacts and a `Progress`. The module is imported for its job
alone, since numpy comes with it."""

BENCHMARKS: Mapping[type, Runner] = {
    Job: ("ckwatch.bench.run_job", "run_job"),
    SelfTestJob: ("ckwatch.bench.self_test.worker", "self_test"),
    type(None): ("ckwatch.bench.run_job", "list_devices"),
}
"""Runners, by the type of the job."""


def _answer(
    question: tuple[Message, list[bytes]] | GarbledError, runners: Mapping[type, Runner], send: Send
) -> tuple[_Answer | None, bool]:
    """The answer, and whether another question may follow."""
    if isinstance(question, GarbledError):
        failure = BenchmarkFailure(
            kind=FailureKind.GARBLED,
            message=f"the worker was asked something that it does not understand: {question.message}",
            hint="The launcher must pass bytes on as they are, without a terminal.",
        )
        return failure, False
    ask, artifacts = question
    if not isinstance(ask, WorkerRequest):
        return None, False  # no request
    if ask.protocol != PROTOCOL:
        failure = BenchmarkFailure(
            kind=FailureKind.GARBLED,
            message=f"the worker on {platform.node()} speaks protocol {PROTOCOL} of ckwatch {__version__}, "
            f"and is asked in protocol {ask.protocol}",
            hint="The same version of ckwatch is needed where the launcher leads to.",
        )
        return failure, ask.lasting
    task, progress = ask.task, Progress(send)
    module, name = runners[type(task)]

    def run() -> _Answer:
        if isinstance(task, Job | SelfTestJob) and task.kind == "cpu":
            processors.occupy(processors.choose(task.threads))  # before numpy is imported
        answer: _Answer = getattr(import_module(module), name)(task, artifacts, progress)
        return answer

    return or_failure(progress, run), ask.lasting


def _receive(questions: BinaryIO, asked: Queue[_Asked]) -> None:
    """Put each question with its artifacts into the queue. The end of the input ends the process, whatever it does."""
    splitter = FrameSplitter()
    frames: list[PipeFrame] = []
    ask: Message | None = None
    whole = False
    with suppress(OSError):
        while chunk := questions.read(_CHUNK_BYTES):
            try:
                for frame in splitter.feed(chunk):
                    frames.append(frame)
                    ask = ask or frame.message()
                    if len(frames) == 1 + (ask.artifacts if isinstance(ask, WorkerRequest) else 0):
                        asked.put((ask, [one.content for one in frames[1:]]))
                        frames, ask, whole = [], None, True
            except GarbledError as error:
                asked.put(error)
                return
    if not whole:
        asked.put(None)
        return
    os._exit(1)


def _keep_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Both pipes under other numbers: what a kernel reads from 0 is empty, what it writes to 1 goes to stderr."""
    questions = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    with suppress(OSError, AttributeError, ValueError):
        libc = ctypes.CDLL(None)
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, _LINE_BUFFERED, 0)
    return questions, answers


def _be_expendable() -> None:
    """No core file, and the first to go when the machine runs out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123  # no file of ours
        file.write("1000")


def _send(answers: BinaryIO, answer: Message) -> None:
    view = memoryview(message(answer))
    while view:
        view = view[answers.write(view) :]


if __name__ == "__main__":
    main()
