"""Calls a user's reference in a process of its own (`reference_process`), and says what is wrong with it.

The process is started when it is called first, with nothing of this one's environment but what Python needs, and ended
with its calls. What it answers is checked as anybody's data.
"""

from __future__ import annotations

import math
import os
import selectors
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np

from ckwatch.bench.array_messages import Array, ArrayMessageError, receive, send
from ckwatch.bench.kept_arrays import KeptArrays
from ckwatch.bench.numerics.given_outputs import GivenArrays
from ckwatch.bench.numerics.storage import Storage, narrow, storage_type, tensor_elements, widen
from ckwatch.bench.numerics.tolerance import INTEGERS
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.model.kernel_problem import CalledReference, KernelProblem, TensorView
from ckwatch.model.python_references import MistakeKind, PythonReference, ReferenceMistake
from ckwatch.model.tensors import DTYPES
from ckwatch.system import processes
from ckwatch.system.python_process import module_command, module_environment

GRACE_S = 5.0
"""How much later than the process itself its time limit is enforced from outside."""

_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")
_MOST_THREADS = 8


class ReferenceMistakeError(Exception):
    """The reference has a mistake."""

    def __init__(self, mistake: ReferenceMistake) -> None:
        super().__init__(mistake.sentence)
        self.mistake = mistake

    def as_failure(self) -> BenchmarkError:
        """The failure of a benchmark that has no right results."""
        about = self.mistake
        return BenchmarkError(FailureKind.REFERENCE, f"the reference is wrong: {self}", "", about.detail, about)


class ReferenceCalls:
    """Calls of `reference`, each of which may take `limit_s`. What takes too long is not tried again, nor is
    anything larger; after the second time nothing is. `kept` is the folder of results."""

    def __init__(self, reference: PythonReference, limit_s: float, kept: Path | None = None) -> None:
        self._kept = KeptArrays(kept)
        self._reference = reference
        self._limit_s = limit_s
        self._process: processes.Process | None = None
        self._overran: list[tuple[int, ReferenceMistake]] = []
        """Calls that took too long, with the bytes of their arguments and results."""

    def outputs(self, problem: KernelProblem, inputs: Mapping[str, Storage]) -> GivenArrays:
        """The right outputs of a problem by their names. `inputs`: stored elements by buffer. Raises
        ReferenceMistakeError, and ValueError for a problem without a reference."""
        called = problem.reference
        if called is None:
            raise ValueError("there is no reference")
        if called.problem or called.digest != self._reference.digest:
            raise ReferenceMistakeError(
                ReferenceMistake(kind=MistakeKind.RAISES, message=called.problem or "the reference is another one")
            )
        tensors = (*called.inputs, *((one.name, one.view) for one in called.outputs if one.view.buffer in inputs))
        given = {name: _values(problem, view, inputs, fnuz=called.fnuz) for name, view in tensors if view is not None}
        wanted = [_wanted(problem, one.name, one.view, nan=one.nan) for one in called.outputs]
        scalars = {one.name: (one.c_type, one.value) for one in problem.arguments if one.value is not None}
        head = {
            "call": "outputs",
            "sizes": _sizes(problem, called),
            "parameters": dict(called.parameters),
            "runtime": {name: _scalar(*one) for name, one in scalars.items() if name not in called.sizes},
            "absent": [name for name, view in called.inputs if view is None],
            "arrays_wanted": wanted,
        }
        key = self._kept.key(self._reference.digest, head, given)
        found = self._kept.read(key)
        if found is not None and _is_answer(wanted, found, all_of_them=True):
            return found
        began = time.monotonic()
        found = self._ask(head, given)
        self._kept.keep(key, found, time.monotonic() - began)
        return found

    def write_inputs(self, problem: KernelProblem, inputs: Mapping[str, Storage], seed: int, *, fnuz: bool) -> None:
        """Replace what the function `inputs` of the reference's module gives, if there is one.

        `inputs`: stored elements by buffer, which are changed. Raises ReferenceMistakeError.
        """
        called = problem.reference
        if called is None or called.problem or not self._reference.makes_inputs:
            return
        outputs = ((one.name, one.view) for one in called.outputs)
        views = {name: view for name, view in (*called.inputs, *outputs) if view is not None and view.buffer in inputs}
        head = {
            "call": "inputs",
            "sizes": _sizes(problem, called),
            "parameters": dict(called.parameters),
            "seed": seed,
            "arrays_wanted": [_wanted(problem, name, view, nan=True) for name, view in views.items()],
        }
        for name, values in self._ask(head, {}).items():
            view = views[name]
            dtype = problem.buffer(view.buffer).dtype
            stored = values.astype(storage_type(dtype)) if values.dtype.kind in "iu" else narrow(values, dtype, fnuz)
            tensor_elements(inputs[view.buffer], view)[...] = stored

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.signal_group(signal.SIGKILL)
            process.wait()
            with suppress(OSError):  # what was not sent yet
                assert process.stdin is not None  # noqa: S101  # it was started with pipes
                process.stdin.close()
            process.close()

    def _ask(self, head: Mapping[str, Any], given: Mapping[str, Array]) -> dict[str, Array]:
        size = _size(head, given)
        if any(size >= too_large for too_large, _ in self._overran) or len(self._overran) > 1:
            raise ReferenceMistakeError(self._overran[-1][1])
        process = self._process or self._started()
        assert process.stdin is not None  # noqa: S101  # it was started with pipes
        assert process.stdout is not None  # noqa: S101  # as above
        try:
            with suppress(BrokenPipeError):  # why it has ended is seen below
                send(cast("BinaryIO", process.stdin), head, given)
            answer, arrays = receive(cast("BinaryIO", _Bounded(process.stdout, self._limit_s + GRACE_S)))
            known_mistake = None if (content := answer.get("mistake")) is None else _mistake(content)
            all_of_them = head["call"] == "outputs"
            if known_mistake is None and not _is_answer(head["arrays_wanted"], arrays, all_of_them=all_of_them):
                raise ValueError("other arrays")
        except TimeoutError:
            self.close()
            message = f"it had not ended after {self._limit_s:g} s"
            known_mistake = self._at_function(MistakeKind.LIMIT, message)
        except (ValueError, KeyError, TypeError):
            self.close()
            known_mistake = self._at_function(MistakeKind.RAISES, "its process answers what makes no sense")
        except (ArrayMessageError, OSError):
            process.signal_group(signal.SIGKILL)
            status = process.wait().status
            self.close()
            number = processes.signal_of(status)
            how = f"by {number.name}" if number is not None else f"with exit status {status}"
            known_mistake = self._at_function(MistakeKind.RAISES, f"it ended its process {how}")
        if known_mistake is not None:
            if known_mistake.kind is MistakeKind.LIMIT:
                self._overran.append((size, known_mistake))
            raise ReferenceMistakeError(known_mistake)
        return arrays

    def _at_function(self, kind: MistakeKind, message: str) -> ReferenceMistake:
        module = self._reference.modules[0]
        lines = module.text.splitlines()
        found = (at for at, line in enumerate(lines, 1) if line.startswith(f"def {self._reference.function}("))
        return ReferenceMistake(kind=kind, message=message, path=module.path, line=next(found, 1))

    def _started(self) -> processes.Process:
        environment = module_environment({name: os.environ[name] for name in _PASSED_ON if name in os.environ})
        threads = str(min(len(os.sched_getaffinity(0)), _MOST_THREADS))
        environment |= {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        command = module_command("ckwatch.bench.reference_process")
        process = processes.start(command, environment=environment, stdin=processes.PIPE, stderr=processes.DEVNULL)
        self._process = process
        modules = [
            {"name": one.name, "path": one.path, "text": one.text, "is_package": one.is_package}
            for one in self._reference.modules
        ]
        assert process.stdin is not None  # noqa: S101  # it was started with pipes
        head = {"modules": modules, "function": self._reference.function, "limit_s": self._limit_s}
        send(cast("BinaryIO", process.stdin), head, {})
        return process


class _Bounded:
    """A pipe that is read until `seconds` from now."""

    def __init__(self, pipe: IO[bytes], seconds: float) -> None:
        self._descriptor = pipe.fileno()
        self._deadline = time.monotonic() + seconds
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._descriptor, selectors.EVENT_READ)

    def read(self, count: int) -> bytes:
        self._wait()
        return os.read(self._descriptor, count)

    def readinto(self, view: memoryview) -> int:
        self._wait()
        return os.readv(self._descriptor, [view])

    def _wait(self) -> None:
        if not self._ready.select(max(0.0, self._deadline - time.monotonic())):
            raise TimeoutError


def _size(head: Mapping[str, Any], given: Mapping[str, Array]) -> int:
    """The bytes of the arguments and of float64 results."""
    results = sum(math.prod(map(int, one["shape"])) for one in head["arrays_wanted"])
    return sum(one.nbytes for one in given.values()) + 8 * results


def _is_answer(wanted: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array], *, all_of_them: bool) -> bool:
    """Return True for arrays that were asked for: in the process that answers, all may have been changed."""
    shapes = {one["name"]: tuple(one["shape"]) for one in wanted}
    known = all(one.shape == shapes.get(name) and one.dtype.kind in "fiu" for name, one in arrays.items())
    return known and (not all_of_them or arrays.keys() == shapes.keys())


def _sizes(problem: KernelProblem, called: CalledReference) -> dict[str, int]:
    return {one.name: int(one.value or 0) for one in problem.arguments if one.name in called.sizes}


def _mistake(content: Mapping[str, Any]) -> ReferenceMistake:
    return ReferenceMistake(
        kind=MistakeKind(content["kind"]),
        message=str(content["message"]),
        path=str(content["path"]),
        line=int(content["line"]),
        detail=str(content["detail"]),
    )


def _values(problem: KernelProblem, view: TensorView, inputs: Mapping[str, Storage], *, fnuz: bool) -> Array:
    """A tensor as the reference gets it: floats as float64, integers in their own type."""
    dtype = problem.buffer(view.buffer).dtype
    stored = np.ascontiguousarray(tensor_elements(inputs[view.buffer], view)).reshape(view.sizes)
    if dtype in INTEGERS:
        return stored.astype(np.bool_) if dtype == "bool" else stored
    return widen(stored, dtype, fnuz)


def _wanted(problem: KernelProblem, name: str, view: TensorView, *, nan: bool) -> dict[str, Any]:
    dtype = problem.buffer(view.buffer).dtype
    limits = DTYPES[dtype].limits
    return {
        "name": name,
        "shape": list(view.sizes),
        "sizes": f"{dtype} of {' × '.join(map(str, view.sizes)) or 'one element'}",
        "integers": limits,
        "dtype": dtype,
        "nan": nan,
        "may_be_nan": limits is None and problem.computed is None,
    }


def _scalar(c_type: str, value: float | None) -> float:
    """A runtime argument as the kernel gets it."""
    if c_type == "float":
        return float(np.float32(value or 0.0))
    if c_type == "bool":
        return bool(value)
    return float(value or 0.0) if c_type == "double" else int(value or 0)
