"""`ckwatch tune KERNEL`: finds the best instance for each shape, and writes down what was found."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ckwatch.checks.aiter_instances import LISTS, aiter_name
from ckwatch.cli.output import Output
from ckwatch.cli.session import asking
from ckwatch.model.amounts import count, duration, time_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import specs_of
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.kernels import Shape
from ckwatch.tuning.results import TIMED, EvaluationStatus, TuningRecord
from ckwatch.tuning.winners import best_shapes, write_file

if TYPE_CHECKING:
    from ckwatch.tuning.plan import TuningStep
    from ckwatch.tuning.runner import Tuning
    from ckwatch.tuning.tuned_kernel import TunedKernel
    from ckwatch.wire.benchmarks import Device

REASONS_SHOWN = 5
"""Of the reasons for which instances failed, the most frequent."""

STYLES = {EvaluationStatus.MEASURED: "cyan", EvaluationStatus.DROPPED: "dim"}


async def run(options: argparse.Namespace) -> int:
    """Tune a kernel: 1 when no instance could be timed on a shape."""
    for path in options.export:
        check_target(path, ".csv", ".json")
    for path, ending in ((options.report, ".html"), (options.aiter, ".csv")):
        if path is not None:
            check_target(path, ending)
    budget_s = budget_of(options.budget, options.spend, options.price)
    async with asking(options) as client:
        output = Output(options, client.root)
        tuning = client.tune(
            options.kernel,
            shapes=options.shape or None,
            arch=options.of_arch,
            devices=options.device,
            strategy=options.strategy,
            seed=options.seed,
            budget_s=budget_s,
            measurements=options.measurements,
            patience=options.patience or None,
            racing=not options.no_racing,
            jobs=options.jobs,
            again=options.again,
        )
        async with tuning as run:
            shown = _Tune(output, run)
            await shown.follow()
            status = shown.finish()
            await write_down(options, output, run)
            return status


def budget_of(budget_s: float | None, spend: float | None, price: float | None) -> float | None:
    """The seconds after which a run ends: by a time and by money, whichever is over first. Raises CkwatchError."""
    if (spend is None) != (price is None):
        given, missing = ("--spend", "--price") if price is None else ("--price", "--spend")
        raise CkwatchError(f"{given} needs {missing}", "as `--spend 5 --price 2.50`: two hours")
    limits = [budget_s, None if spend is None or price is None else spend / price * 3600]
    return min((limit for limit in limits if limit is not None), default=None)


def check_target(path: Path, *endings: str) -> None:
    """Raises CkwatchError for a file whose name does not say what to write, or whose folder is not there."""
    if path.suffix not in endings:
        raise CkwatchError(f"the name of {path} does not end in {' or '.join(endings)}", "give it another name")
    if not path.absolute().parent.is_dir():
        raise CkwatchError(f"there is no folder {path.absolute().parent}")


class _Tune:
    """A run as it is shown."""

    def __init__(self, output: Output, run: Tuning) -> None:
        self._output = output
        self._run = run
        self._outcomes: Counter[EvaluationStatus] = Counter()
        self._reasons: Counter[tuple[EvaluationStatus, str]] = Counter()

    async def follow(self) -> None:
        """Print each best as it is found; what goes on is shown on a terminal."""
        tuned = self._run.tuned
        self._output.answer(
            event="start", kernel=tuned.kernel.name, arch=tuned.arch, shapes=[one.name for one in tuned.shapes],
            devices=[one.label for one in self._run.devices], points=tuned.space.size, coverage=tuned.coverage,
        )  # fmt: skip
        self._output.lines((line, "") for line in self._beginning())
        with self._output.working("building") as show:
            async for step in self._run:
                self._take(step, show)

    def _beginning(self) -> list[str]:
        tuned, found = self._run.tuned, self._run.tuned.coverage
        devices = ", ".join(device.label for device in self._run.devices)
        what = f"{count(len(tuned.shapes), 'shape')}, {found.size:,} point{'s'[: found.size != 1]}, on {devices}"
        lines = [f"tuning {tuned.kernel.name}@{tuned.arch}: {what} ({self._run.devices[0].description})"]
        if len(self._run.devices) > 1:
            lines.append("  instances are ranked across these devices, by which their times differ too")
        share = f"{found.allowed_share:.1%}" if 0 < found.allowed_share < 1 else f"{found.allowed_share:.0%}"
        how = "" if found.is_exact else f" of {found.looked_at:,} that were drawn"
        lines.append(f"  allowed: {share}{how}")
        lines += [f"  refused: {one.share:6.1%}  {one.example}" for one in found.refused[:REASONS_SHOWN]]
        for gone in found.gone:
            sure = "" if gone.is_certain else ", as far as was looked"
            lines.append(f"  never allowed{sure}: {gone.parameter} = {gone.value}  ({gone.rule})")
        return lines

    def _take(self, step: TuningStep, show: Callable[[str], None]) -> None:
        result = step.result
        self._outcomes[result.status] += 1
        if result.status not in TIMED:
            self._reasons[result.status, result.reason.partition("\n")[0]] += 1
        self._output.event(
            "result", instance=step.point.instance, parameters=step.point.parameters, result=result, best=step.best,
            known=step.known, measured=step.measured, seconds=round(step.seconds, 3), device=step.point.device,
        )  # fmt: skip
        if step.best and not step.known and result.median_us is not None:
            self._output.text(
                f"{duration(step.seconds):>10}  {result.shape}  {time_of(result.median_us)}  {step.point.instance}"
            )
        show(self._progress(step))

    def _progress(self, step: TuningStep) -> str:
        options = self._run.options
        measured = f"{step.measured} of {options.measurements}" if options.measurements else str(step.measured)
        left = "" if options.budget_s is None else f", {duration(max(0.0, options.budget_s - step.seconds))} left"
        return f"{measured} measured{left}  {step.result.shape}  {step.point.instance}"

    def finish(self) -> int:
        """Print what was found; the exit status."""
        run, record = self._run, self._run.record
        found = {shape: record.best(shape) for shape in record.run.shapes}
        status = int(any(best is None for best in found.values()))
        chosen = run.dispatch_set()
        self._output.event(
            "summary", ended=run.ended, seconds=round(run.seconds, 3), measured=run.measured, compiled=run.compiles,
            best=[best for best in found.values() if best is not None], set=chosen, exit_status=status,
        )  # fmt: skip
        outcomes = [f"{number} {one.value}" for one, number in self._outcomes.most_common()]
        instances = count(len(record.points), "instance")
        self._output.text(f"{run.ended}: {instances} in {duration(run.seconds)} ({', '.join(outcomes) or 'none'})")
        for (kind, reason), number in self._reasons.most_common(REASONS_SHOWN):
            self._output.text(f"  {number} {kind.value}: {reason}", "yellow")
        rows = [["SHAPE", "BEST", "95 % INTERVAL", "SURE", "INSTANCE", "NEXT"]]
        for shape, best in found.items():
            if best is None:
                rows.append([shape, "none", "", "", "", ""])
                continue
            sure = "" if best.confidence is None else f"{best.confidence:.0%}"
            following = "" if best.runner_up_us is None else f"+{best.runner_up_us / best.median_us - 1:.1%}"
            interval = f"{time_of(best.low_us)} to {time_of(best.high_us)}"
            rows.append([shape, time_of(best.median_us), interval, sure, best.instance, following])
        self._output.table(rows, indent="")
        fastest = best_shapes(run.tuned, record)
        if len(fastest) < sum(best is not None for best in found.values()):
            self._output.text(f"with the best kBatch: {', '.join(shape.name for shape, _ in fastest)}")
        if chosen is not None and len(record.run.shapes) > 1:
            least = "fewest" if chosen.is_smallest else "few"
            names = ", ".join(chosen.instances)
            text = f"the {least} instances within {chosen.tolerance:.0%} of the best on all shapes: {names}"
            self._output.text(text)
        return status


async def write_down(options: argparse.Namespace, output: Output, run: Tuning) -> None:
    """Write what was asked for: winners into the kernel file, tables, the report."""
    record = run.record
    if options.write:
        written = await run.write_winners()
        what = (
            f"wrote {', '.join(written)} to {run.tuned.kernel.path}" if written else "the kernel file has all winners"
        )
        output.text(what)
    for path in options.export:
        text = csv_text(record) if path.suffix == ".csv" else json_text(record)
        await to_thread.run_sync(write_file, path, text)
        output.text(f"wrote {path.absolute()}")
    if options.aiter is not None:
        await to_thread.run_sync(write_aiter, options.aiter, run.tuned, record, run.devices[0])
        output.text(f"wrote {options.aiter.absolute()}")
    if options.report is not None:
        from ckwatch.tuning.report import html_report

        await to_thread.run_sync(write_file, options.report, html_report(record))
        output.text(f"wrote {options.report.absolute()}")


_KEYS, _FOUND = ("gfx", "cu_num", "M", "N", "K", "q_dtype_w"), ("kernelId", "splitK", "us", "kernelName")
AITER_COLUMNS = (*_KEYS, *_FOUND, "tflops", "bw", "errRatio")
"""Of AITER's tuned CSV files. `kernelId` is −1: the instance's place in AITER's list differs by version."""


def json_text(record: TuningRecord) -> str:
    """The whole record."""
    best = {shape: found for shape in record.run.shapes if (found := record.best(shape)) is not None}
    content = {
        "schema": 1,
        **asdict(record.run),
        "shapes": record.run.shapes,
        "space_size": record.coverage.size,
        "points": list(map(asdict, record.points)),
        "coverage": asdict(record.coverage),
        "best": {shape: asdict(found) for shape, found in best.items()},
    }
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
    for shape, best in best_shapes(tuned, record):
        problem = tuned.problems[shape.name]
        name = aiter_name(best.parameters, tuned.kernel.operation)
        if name is None:
            known = ", ".join(LISTS)
            raise CkwatchError(
                f"AITER has no name for '{best.instance}'",
                f"it names instances of {known}; `--export FILE.csv` has all",
            )
        units = None if part is None else part.compute_units
        writer.writerow(aiter_row(name, tuned.arch, units, shape, problem, best.median_us))
    write_file(path, text.getvalue())


def aiter_row(
    name: str, arch: str, compute_units: int | None, shape: Shape, problem: KernelProblem, time_us: float
) -> dict[str, object]:
    """A line of AITER's tuned CSV, by `AITER_COLUMNS`."""
    slices = int(shape.runtime.get("kBatch", 1))
    return {
        "gfx": arch.partition(":")[0],
        "cu_num": "" if compute_units is None else compute_units,
        **{size: shape.sizes[size] for size in ("M", "N", "K")},
        "q_dtype_w": _dtype_of(problem),
        "kernelId": -1,
        "splitK": slices.bit_length() - 1,
        "us": round(time_us, 4),
        "kernelName": name,
        "tflops": "" if problem.flops is None else round(problem.flops / time_us / 1e6, 2),
        "bw": round(problem.bytes_moved / time_us / 1e3, 2),
        "errRatio": 0,
    }


def _dtype_of(problem: KernelProblem) -> str:
    dtype = problem.buffer(problem.gemm.w.buffer).dtype if problem.gemm is not None else ""
    fnuz = problem.fnuz is True
    return {"i8": "torch.int8", "f8": f"torch.float8_e4m3{'fnuz' if fnuz else 'fn'}"}.get(dtype, dtype)
