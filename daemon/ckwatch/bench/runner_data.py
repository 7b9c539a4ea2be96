"""Inputs and right outputs for a standalone runner that has no reference of its own: one of a user's, in Python.

The folder has a text index, `index.txt`, and raw little-endian files beside it: `SHAPE.input.BUFFER`, a buffer as it is
in memory, and `SHAPE.expected.OUTPUT`, an output's right elements in C order, int64 where integers must be equal, else
float64. `ckwatch_templates/runner/given_main.j2` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ckwatch.bench.job import RunnerDataJob
from ckwatch.bench.numerics.array_files import file_arrays
from ckwatch.bench.numerics.given_outputs import GivenReference, RightOutput
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.storage import Storage, in_memory
from ckwatch.bench.numerics.tensor_contents import GivenArrayError
from ckwatch.bench.numerics.tolerance import LARGEST, half_subnormal
from ckwatch.bench.progress import Progress
from ckwatch.bench.reference_calls import ReferenceCalls, ReferenceMistakeError
from ckwatch.bench.report import FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.worker_protocol import RunnerDataWritten
from ckwatch.model.kernel_problem import KernelProblem, TensorView
from ckwatch.model.tensors import DTYPES

_MEBIBYTE = 1 << 20


def runner_data(job: RunnerDataJob, artifacts: Sequence[bytes], progress: Progress) -> RunnerDataWritten:
    """Write the folder of a job; `artifacts` are the NumPy files that its problems name.

    Shapes are written in their order as long as all files fit into the job's limit. Raises BenchmarkError for a mistake
    of the reference, where no shape fits, and where nothing can be written.
    """
    fitting, omitted, total = [], [], 0
    for name, problem in job.problems:
        if total + (size := _bytes_of(problem)) <= job.limit_bytes:
            fitting.append((name, problem))
            total += size
        else:
            omitted.append(name)
    if not fitting:
        least = min(_bytes_of(problem) for _, problem in job.problems) / _MEBIBYTE
        message = f"inputs and right outputs of the smallest shape have {least:,.0f} MiB"
        hint = f"a runner may have {job.limit_bytes // _MEBIBYTE} MiB of them: add a smaller [[shape]]"
        raise BenchmarkError(FailureKind.REFERENCE, message, hint)
    calls = ReferenceCalls(job.reference, job.reference_limit_s)
    folder = Path(job.folder)
    try:
        folder.mkdir(exist_ok=True)
        for old in (folder / "index.txt", *folder.glob("*.input.*"), *folder.glob("*.expected.*")):
            old.unlink(missing_ok=True)
        lines = [f"ckwatch-runner-data {job.symbol}"]
        for number, (name, problem) in enumerate(fitting):
            progress.at(f"computing right outputs of {name}")
            lines += [f"shape {number} {name}", *_written(folder, number, problem, calls, job, artifacts)]
        lines += [f"omitted {name}" for name in omitted]
        (folder / "index.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    except ReferenceMistakeError as error:
        raise error.as_failure() from None
    except GivenArrayError as error:
        raise BenchmarkError(FailureKind.REFERENCE, str(error)) from None
    except OSError as error:
        raise BenchmarkError(FailureKind.BROKEN, f"{folder} cannot be written: {error.strerror}") from None
    finally:
        calls.close()
    return RunnerDataWritten(omitted=tuple(omitted))


def _bytes_of(problem: KernelProblem) -> int:
    """The size of a problem's files."""
    outputs = () if problem.reference is None else problem.reference.outputs
    expected = sum(8 * math.prod(one.view.sizes) for one in outputs)
    return expected + sum(buffer.size_bytes for buffer in problem.buffers if buffer.given)


def _written(
    folder: Path,
    number: int,
    problem: KernelProblem,
    calls: ReferenceCalls,
    job: RunnerDataJob,
    artifacts: Sequence[bytes],
) -> Iterator[str]:
    """The lines of a shape in the index; its files are written."""
    fnuz = bool(problem.fnuz)
    inputs = make_inputs(problem, job.seed, fnuz, file_arrays(problem, artifacts))
    calls.write_inputs(problem, inputs, job.seed, fnuz=fnuz)
    right = GivenReference(problem, calls.outputs(problem, inputs)).right_outputs
    for argument in problem.arguments:
        if argument.value is not None:
            value = argument.value
            yield f"argument {int(value) if isinstance(value, bool) else value!r}"
    numbers = {buffer.name: at for at, buffer in enumerate(problem.buffers)}
    for at, buffer in enumerate(problem.buffers):
        if buffer.given and buffer.elements:
            _write_input(folder / f"{number}.input.{at}", inputs, buffer.name, buffer.dtype)
        yield f"buffer {buffer.elements} {int(buffer.given)}"
    for view in problem.views:
        if problem.buffer(view.buffer).output:
            yield f"view {_view(view, numbers)}"
    for at, output in enumerate(right):
        (folder / f"{number}.expected.{at}").write_bytes(np.ascontiguousarray(output.elements).tobytes())
        yield _output(problem, output, numbers, fnuz=fnuz)


def _write_input(path: Path, inputs: Mapping[str, Storage], buffer: str, dtype: str) -> None:
    path.write_bytes(in_memory(inputs[buffer], dtype).tobytes())


def _output(problem: KernelProblem, output: RightOutput, numbers: Mapping[str, int], *, fnuz: bool) -> str:
    dtype = problem.buffer(output.view.buffer).dtype
    tolerance = (*output.tolerance, LARGEST.get(dtype, math.inf), 2 * half_subnormal(dtype, fnuz))
    exact, mantissa = int(output.elements.dtype.kind == "i"), DTYPES[dtype].mantissa_bits
    values = " ".join(repr(float(one)) for one in tolerance)
    return f"output {output.name} {exact} {mantissa} {values} {_view(output.view, numbers)}"


def _view(view: TensorView, numbers: Mapping[str, int]) -> str:
    return " ".join(map(str, (numbers[view.buffer], len(view.sizes), *view.sizes, *view.strides)))
