"""The results of a tuning run as tables: all of them, and AITER's tuned CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckwatch.checks.aiter_instances import LISTS, aiter_name
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import specs_of
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.tuning.results import TuningRecord
from ckwatch.tuning.winners import write_file

if TYPE_CHECKING:
    from ckwatch.tuning.tuned_kernel import TunedKernel
    from ckwatch.wire.benchmarks import Device

_KEYS, _FOUND = ("gfx", "cu_num", "M", "N", "K", "q_dtype_w"), ("kernelId", "splitK", "us", "kernelName")
AITER_COLUMNS = (*_KEYS, *_FOUND, "tflops", "bw", "errRatio")
"""Of AITER's tuned CSV files. `kernelId` is −1: the instance's place in AITER's list differs by version."""


def json_text(record: TuningRecord) -> str:
    """The whole record."""
    best = {shape: found for shape in record.shapes if (found := record.best(shape)) is not None}
    content = {"schema": 1, **asdict(record), "best": {shape: asdict(found) for shape, found in best.items()}}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def csv_text(record: TuningRecord) -> str:
    """A line for each result: instance, parameters, shape, how it ended, times in µs."""
    names = list(dict.fromkeys(name for point in record.points for name in point.parameters))
    fields = ("order", "seconds", "device", "instance", "shape", "status", "median_us", "low_us", "high_us", "reason")
    text = io.StringIO()
    writer = csv.DictWriter(text, [*fields, *names], restval="", lineterminator="\n")
    writer.writeheader()
    for point in record.points:
        for result in point.results:
            row: dict[str, Any] = {
                "order": point.order,
                "seconds": round(point.seconds, 3),
                "device": point.device,
                "instance": point.instance,
                **asdict(result),
                **point.parameters,
            }
            writer.writerow(row)
    return text.getvalue()


def write_aiter(path: Path, tuned: TunedKernel, record: TuningRecord, device: Device) -> None:
    """The best for each shape as a line of AITER's tuned CSV. Raises CkwatchError for a kernel that AITER has not."""
    from ckwatch.tuning.opening import facts_of

    part = specs_of(facts_of(device))
    text = io.StringIO()
    writer = csv.DictWriter(text, AITER_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for shape in tuned.shapes:
        best = record.best(shape.name)
        if best is None:
            continue
        problem = tuned.problems[shape.name]
        name = aiter_name(best.parameters)
        if name is None:
            known = ", ".join(LISTS)
            raise CkwatchError(
                f"AITER has no name for '{best.instance}'",
                f"it names instances of {known}; `--export FILE.csv` has all",
            )
        slices = int(shape.runtime.get("kBatch", 1))
        writer.writerow(
            {
                "gfx": tuned.arch.partition(":")[0],
                "cu_num": "" if part is None else part.compute_units,
                **{size: shape.sizes[size] for size in ("M", "N", "K")},
                "q_dtype_w": _dtype_of(problem),
                "kernelId": -1,
                "splitK": slices.bit_length() - 1,
                "us": round(best.median_us, 4),
                "kernelName": name,
                "tflops": "" if problem.flops is None else round(problem.flops / best.median_us / 1e6, 2),
                "bw": round(problem.bytes_moved / best.median_us / 1e3, 2),
                "errRatio": 0,
            }
        )
    write_file(path, text.getvalue())


def _dtype_of(problem: KernelProblem) -> str:
    dtype = problem.buffer(problem.gemm.w.buffer).dtype if problem.gemm is not None else ""
    fnuz = problem.fnuz is True
    return {"i8": "torch.int8", "f8": f"torch.float8_e4m3{'fnuz' if fnuz else 'fn'}"}.get(dtype, dtype)
