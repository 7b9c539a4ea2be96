"""What a tuning run found, written down: winners into the kernel file, tables, AITER's tuned CSV."""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckwatch.checks.aiter_instances import LISTS, aiter_name
from ckwatch.cli.imports.kernel_texts import table_text
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import specs_of
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import read_file
from ckwatch.tuning.results import TuningRecord
from ckwatch.workspace.loading import load_workspace

if TYPE_CHECKING:
    from ckwatch.client.tuning_plan import TuningPlan
    from ckwatch.tuning.dispatch import DispatchSet
    from ckwatch.wire.benchmarks import Device

AITER_COLUMNS = ("gfx", "cu_num", "M", "N", "K", "q_dtype_w", "kernelId", "splitK", "us", "kernelName", "tflops", "bw")
"""Of AITER's tuned CSV files; `kernelId` is −1 for instances that are in no list of AITER's."""


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


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises CkwatchError."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise CkwatchError(f"{path} cannot be written: {error.strerror or error}") from None


def write_winners(plan: TuningPlan, record: TuningRecord, chosen: DispatchSet | None) -> list[str]:
    """Append the instances of the smallest set to the kernel file, but for those that it has; their names.

    Raises CkwatchError where the file was changed so that it does not take them; it is then as it was.
    """
    path = Path(plan.kernel.path)
    mine = dict.fromkeys(() if chosen is None else chosen.instances)
    points = {point.instance: point for point in record.points if point.instance in mine}
    try:
        before = read_file(path)
        values = tomllib.loads(before.decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise CkwatchError(f"{path} cannot be read: {error}", "mend the file: the results are kept") from None
    present = {instance.name for instance in plan.kernel.instances}
    present |= {str(one.get("name")) for one in values.get("instance", ()) if isinstance(one, dict)}
    new = [name for name in mine if name in points and name not in present]
    if not new:
        return []
    blocks = []
    for name in new:
        best = [f"{shape} ({_best_words(record, shape)})" for shape, own in _choices(chosen) if own == name]
        parameters = points[name].parameters
        own = {key: value for key, value in parameters.items() if not _is_default(values, key, value)}
        comment = f"# fastest that was found, or nearly so: {', '.join(best)}\n" if best else ""
        blocks.append(f"\n{comment}[[instance]]\n{table_text({'name': name, **own})}")
    newline = b"" if before.endswith(b"\n") else b"\n"
    write(path, (before + newline).decode("utf-8-sig") + "".join(blocks))
    loaded = {kernel.name: kernel for kernel in load_workspace(plan.root).kernels}.get(plan.kernel.name)
    taken = {} if loaded is None else {instance.name: instance.parameters for instance in loaded.instances}
    if any(dict(taken.get(name, {})) != dict(points[name].parameters) for name in new):
        replace_file(path, before)
        raise CkwatchError(
            f"{path} does not take the winners: its tables have changed meanwhile",
            "tune again: what was measured is not measured twice",
        )
    return new


def _choices(chosen: DispatchSet | None) -> Iterable[tuple[str, str]]:
    return () if chosen is None else chosen.choice.items()


def _best_words(record: TuningRecord, shape: str) -> str:
    best = record.best(shape)
    return "" if best is None else f"{best.median_us:.4g} µs"


def _is_default(values: Mapping[str, Any], key: str, value: object) -> bool:
    default = values.get("defaults", {}).get(key)
    return default is not None and json.dumps(default) == json.dumps(value)


def write_aiter(path: Path, plan: TuningPlan, record: TuningRecord, device: Device) -> None:
    """The best for each shape as a line of AITER's tuned CSV. Raises CkwatchError for a kernel that AITER has not."""
    from ckwatch.client.tuning import facts_of

    part = specs_of(facts_of(device))
    text = io.StringIO()
    writer = csv.DictWriter(text, AITER_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for shape in plan.shapes:
        best = record.best(shape.name)
        if best is None:
            continue
        problem = plan.problems[shape.name]
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
                "gfx": plan.arch.partition(":")[0],
                "cu_num": "" if part is None else part.compute_units,
                **{size: shape.sizes[size] for size in ("M", "N", "K")},
                "q_dtype_w": _dtype_of(problem),
                "kernelId": -1,
                "splitK": slices.bit_length() - 1,
                "us": round(best.median_us, 4),
                "kernelName": name,
                "tflops": "" if problem.flops is None else round(problem.flops / best.median_us / 1e6, 2),
                "bw": round(problem.bytes_moved / best.median_us / 1e3, 2),
            }
        )
    write(path, text.getvalue())


def _dtype_of(problem: KernelProblem) -> str:
    dtype = problem.buffer(problem.gemm.w.buffer).dtype if problem.gemm is not None else ""
    fnuz = problem.fnuz is True
    return {"i8": "torch.int8", "f8": f"torch.float8_e4m3{'fnuz' if fnuz else 'fn'}"}.get(dtype, dtype)
