"""Stages of a worker, and the failure that an exception meanwhile becomes."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ckwatch.bench.report import BenchmarkFailure, FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.worker_protocol import PartialResult, WaitingForDevice, WorkerStage
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.lazy_dataclass import dataclass

_Answer = TypeVar("_Answer")
SendMessage = Callable[[WorkerStage | WaitingForDevice | PartialResult], None]


@dataclass(slots=True)
class Progress:
    """The current step, for the session and for the report of a failure."""

    tell: SendMessage
    stage: str = ""
    contestant: str = ""
    device: DeviceFacts | None = None

    def at(self, stage: str, contestant: str = "") -> None:
        """From now on this is done."""
        if (stage, contestant) != (self.stage, self.contestant):
            self.stage, self.contestant = stage, contestant
            self.tell(WorkerStage(name=stage, contestant=contestant))


def or_failure(whereabouts: Progress, do: Callable[[], _Answer]) -> _Answer | BenchmarkFailure:
    """Return what `do` returns, or the failure that its exception stands for."""
    try:
        return do()
    except BenchmarkError as failure:
        about = (failure.kind, failure.message, failure.hint, failure.detail)
        return replace(_failure(whereabouts, *about), mistake=failure.mistake)
    except CkwatchError as error:
        return _failure(whereabouts, FailureKind.BROKEN, error.message, error.hint or "", "")
    except MemoryError as error:
        what = f"{whereabouts.stage}: the worker's machine has too little memory"
        return _failure(whereabouts, FailureKind.NO_MEMORY, what, "A smaller shape fits.", str(error))
    except Exception as error:  # noqa: BLE001  # a bug of ours: reported, not lost
        what = f"the worker failed while {whereabouts.stage or 'starting'}: {type(error).__name__}: {error}"
        return _failure(whereabouts, FailureKind.BROKEN, what, "This is a bug in ckwatch.", traceback.format_exc())


def _failure(whereabouts: Progress, kind: FailureKind, message: str, hint: str, detail: str) -> BenchmarkFailure:
    return BenchmarkFailure(
        kind=kind,
        message=message,
        hint=hint,
        detail=detail,
        contestant=whereabouts.contestant,
        device=whereabouts.device,
    )
