"""The protocol between a worker and its session: messages, in frames on a pipe that may lead through any launcher.

A frame is the mark, one byte that says what it holds (`J` a message as JSON, `B` an artifact), the length and the
CRC-32 of what follows. The mark is PNG's trick: it breaks when something on the way treats bytes as text, such as a
terminal that turns line feeds into carriage returns. Bytes before the first mark are a launcher's banner; bytes before
a later one are garbage.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from ckwatch.bench.job import Job, RunnerDataJob, SelfTestJob, VerifyJob
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport, Devices
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.instruction_counts import KernelCounts
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import ReferenceMistake
from ckwatch.model.self_test import AssumptionTrial
from ckwatch.model.verification import EmulatedFinding, VerifiedProblem

Task = Job | VerifyJob | SelfTestJob | RunnerDataJob

PROTOCOL = 4
"""Grows with every change that the other side would not understand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHello:
    """The worker's first word."""

    protocol: int
    version: str
    pid: int
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForDevice:
    """Somebody else holds the lease of the device; `holder` is what they wrote of themselves."""

    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStage:
    """The worker's current step, which the report of a hang or a crash names. `contestant` if it concerns one."""

    name: str
    contestant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialVerified:
    """One problem of a `VerifyJob`, by its number."""

    number: int
    problem: VerifiedProblem
    findings: tuple[EmulatedFinding, ...] = ()
    mistake: ReferenceMistake | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTried:
    """The result of one step of a `SelfTestJob`, by its number."""

    number: int
    trial: AssumptionTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestDone:
    """All steps of a `SelfTestJob` were tried. `versions` of everything that took part."""

    device: DeviceFacts
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationDone:
    """All problems of a `VerifyJob` were reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCounted:
    """The counts of `VerifyJob.counted`, by kernels in the order of their first launches. `executed`: all instructions,
    by the emulator's own count. `failure`: why the launch did not end as it should, then they are of a part of it;
    empty where it did."""

    kernels: tuple[KernelCounts, ...]
    executed: int = 0
    failure: str = ""


PartialResult = TrialVerified | StepTried | LaunchCounted
"""Told while a task goes on: a worker that ends later has not lost it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerDataWritten:
    """The folder of a `RunnerDataJob` was written, without the shapes `omitted`, which are too large."""

    omitted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRequest:
    """A request of the session, followed by `artifacts` frames of bytes: shared objects. Without `job`,
    `verify`, `self_test`, `count` and `runner_data` it asks for the devices. `lasting`: another request may follow."""

    protocol: int
    job: Job | None = None
    artifacts: int = 0
    verify: VerifyJob | None = None
    self_test: SelfTestJob | None = None
    runner_data: RunnerDataJob | None = None
    lasting: bool = False

    @classmethod
    def of(cls, task: Task | None, artifacts: int, *, lasting: bool = False) -> WorkerRequest:
        return cls(
            protocol=PROTOCOL,
            job=task if isinstance(task, Job) else None,
            artifacts=artifacts,
            verify=task if isinstance(task, VerifyJob) else None,
            self_test=task if isinstance(task, SelfTestJob) else None,
            runner_data=task if isinstance(task, RunnerDataJob) else None,
            lasting=lasting,
        )

    @property
    def task(self) -> Task | None:
        """The task; None: list the devices."""
        return self.job or self.verify or self.self_test or self.runner_data


WorkerMessage = (
    WorkerHello
    | WaitingForDevice
    | WorkerStage
    | Devices
    | PartialResult
    | VerificationDone
    | SelfTestDone
    | RunnerDataWritten
    | BenchmarkReport
    | BenchmarkFailure
)


MARK = b"\x89CKW\r\n\x1a\n"
_HEAD = struct.Struct(">8scQI")
HEAD_BYTES = _HEAD.size

MESSAGE_LIMIT_BYTES = 256 * 2**20
ARTIFACT_LIMIT_BYTES = 4 * 2**30
BANNER_LIMIT_BYTES = 2**18
"""As much as a launcher may say before the worker does."""

_LIMITS = {b"J": MESSAGE_LIMIT_BYTES, b"B": ARTIFACT_LIMIT_BYTES}
_MESSAGE_TYPES: dict[str, type] = {
    "Hello": WorkerHello,
    "Waiting": WaitingForDevice,
    "Stage": WorkerStage,
    "Ask": WorkerRequest,
    "Devices": Devices,
    "Report": BenchmarkReport,
    "Failure": BenchmarkFailure,
    "TrialVerified": TrialVerified,
    "VerificationDone": VerificationDone,
    "StepTried": StepTried,
    "SelfTestDone": SelfTestDone,
    "LaunchCounted": LaunchCounted,
    "RunnerDataWritten": RunnerDataWritten,
}
"""By their tags on the pipe. A tag that changes needs another `PROTOCOL`, and then kept timings are measured again."""
_TAGS = {type_: tag for tag, type_ in _MESSAGE_TYPES.items()}

Message = WorkerMessage | WorkerRequest


class GarbledError(Exception):
    """The other side sent what is no frame, or a frame that makes no sense. `seen` is the beginning of it."""

    def __init__(self, message: str, seen: bytes = b"") -> None:
        super().__init__(message)
        self.message = message
        self.seen = seen


@dataclass(frozen=True, slots=True)
class PipeFrame:
    """A frame as it was received: its content is whole, but not decoded."""

    kind: bytes
    content: bytes

    def message(self) -> Message:
        """The message in it. Raises GarbledError."""
        if self.kind != b"J":
            raise GarbledError("an artifact came where a message was expected")
        return decode(self.content)


def frame(content: bytes, kind: bytes = b"J") -> bytes:
    """The head that belongs before `content`, and `content`."""
    return head(content, kind) + content


def head(content: bytes, kind: bytes) -> bytes:
    """The head that belongs before `content`."""
    return _HEAD.pack(MARK, kind, len(content), zlib.crc32(content))


def tag(value: Message) -> str:
    """Return the name of this kind of message on the pipe."""
    return _TAGS[type(value)]


def message(value: Message) -> bytes:
    return frame(to_json({"type": tag(value), "value": value}, inf_nan_mode="constants"))


def decode(content: bytes) -> Message:
    """The message in a frame's content. Fields that are not known are passed over. Raises GarbledError."""
    try:
        envelope = from_json(content)
        name, value = envelope["type"], envelope["value"]
        found: Message = _adapter(name).validate_python(value)
    except (ValueError, KeyError, TypeError) as error:
        raise GarbledError(_first_line(error), content[:400]) from error
    return found


class FrameSplitter:
    """Cuts a stream of bytes into frames.

    `banner` is what came before the first frame. After that nothing may stand between frames.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._begun = False
        self.banner = b""

    def feed(self, chunk: bytes) -> Iterator[PipeFrame]:
        """The frames that `chunk` completes, which is taken when they are asked for. Raises GarbledError after those
        that came before the garbage."""
        self._pending += chunk
        while self._at_mark() and len(self._pending) >= HEAD_BYTES:
            _, kind, length, checksum = _HEAD.unpack_from(self._pending)
            if length > _LIMITS.get(kind, -1):
                raise GarbledError("a frame's head makes no sense", bytes(self._pending[:400]))
            if len(self._pending) < HEAD_BYTES + length:
                break
            content = bytes(memoryview(self._pending)[HEAD_BYTES : HEAD_BYTES + length])
            if zlib.crc32(content) != checksum:
                raise GarbledError("a frame was changed on its way", content[:400])
            del self._pending[: HEAD_BYTES + length]
            yield PipeFrame(kind, content)

    @property
    def rest(self) -> bytes:
        """The bytes that arrived and are not a whole frame yet."""
        return bytes(self._pending)

    def _at_mark(self) -> bool:
        pending = self._pending
        if self._begun:
            if not MARK.startswith(pending[: len(MARK)]):
                raise GarbledError("something else than frames came", bytes(pending[:400]))
            return True
        at = pending.find(MARK)
        if at < 0:
            if len(pending) > BANNER_LIMIT_BYTES:
                raise GarbledError("no frame came", bytes(pending[:400]))
            return False
        self.banner = bytes(pending[:at])
        del pending[:at]
        self._begun = True
        return True


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_MESSAGE_TYPES[name])


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}".splitlines()[0]
