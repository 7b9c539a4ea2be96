"""`ckwatch dispatch KERNEL`: few instances and a decision tree that chooses among them by the sizes of each call."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from anyio import to_thread

from ckwatch.checks.aiter_instances import LISTS, aiter_name
from ckwatch.checks.supported_shapes import unsupported_reason
from ckwatch.cli.export.autotune import one_arch, times_of
from ckwatch.cli.mistakes import explained
from ckwatch.cli.output import Output
from ckwatch.cli.session import asking
from ckwatch.cli.shapes import read_logs
from ckwatch.cli.tune import AITER_COLUMNS, aiter_row, check_target
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Kernel, Shape
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.prediction.predict import PredictionTarget, predict, target_of
from ckwatch.tuning.dispatcher import Dispatcher, cpp_text, dispatcher, python_text
from ckwatch.tuning.winners import write_file
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.shapes import find_shape

ENDINGS = (".hpp", ".h", ".py")
MOST_SHAPES = 1000


@dataclass(frozen=True, slots=True)
class ShapeTimes:
    """Shapes with the times of the instances in µs, and how often each is called. `left_out`: shapes without times;
    `compute_units`: of the part that the times are of, None where that is not known."""

    kernel: Kernel
    arch: str
    shapes: Mapping[str, Shape]
    weights: Mapping[str, float]
    times: Mapping[str, Mapping[str, float]]
    where: str
    compute_units: int | None

    def sizes_of(self, shape: str) -> dict[str, int]:
        """The sizes that a caller gives, without leading dimensions."""
        return {name: self.shapes[shape].sizes[name] for name in called_sizes(self.kernel)}

    @property
    def left_out(self) -> list[str]:
        """Shapes that no instance has a time on."""
        return [name for name in self.shapes if not self.times.get(name)]


def called_sizes(kernel: Kernel) -> list[str]:
    """The sizes that a shape must give."""
    operation = kernel.operation
    return [name for name in operation.size_arguments if name not in operation.size_defaults]


async def run(options: argparse.Namespace) -> int:
    """Write a dispatcher. Raises CkwatchError."""
    for path in options.out:
        check_target(path, *ENDINGS)
    for path in (options.aiter, options.hipblaslt):
        if path is not None:
            check_target(path, ".csv")
    measured_by = options.by == "measured"
    for wrong, why in (
        (options.part and measured_by, "--part is for predicted times: leave out --by measured, or name a --device"),
        (options.device is not None and not measured_by, "--device is for measured times: add --by measured"),
        (options.top is not None and not options.shapes, "--top chooses among the shapes of a log: add --shapes"),
    ):
        if wrong:
            raise CkwatchError(*why.split(": ", 1))
    output = Output(options)
    async with asking(options) as client:
        kernel = await to_thread.run_sync(_kernel, client.root, options.kernel)
        if kernel is None:
            async with explained(client, options.kernel):
                await client.best(options.kernel)
            raise CkwatchError(f"there is no kernel '{options.kernel}'")
        arch = options.of_arch or one_arch(kernel.name, kernel.archs)
        if arch not in kernel.archs:
            raise CkwatchError(f"'{kernel.name}' is not compiled for {arch}", f"it is for {', '.join(kernel.archs)}")
        shapes, weights = await to_thread.run_sync(_shapes, kernel, options.shapes, options.top or MOST_SHAPES)
        if measured_by:
            rows = await client.best(kernel.name)
            own = times_of(rows, arch, list(shapes), options.device)
            measured = {shape: {name: one.median_us for name, one in found.items()} for shape, found in own.items()}
            places = dict.fromkeys(
                one.device_description or one.place for found in own.values() for one in found.values()
            )
            usual = target_of(arch)
            units = None if usual is None else usual.part.compute_units
            known = ShapeTimes(kernel, arch, shapes, weights, measured, f"measured on {', '.join(places)}", units)
            hint = f"run `ckwatch bench {kernel.name}` first, or leave out --by measured"
        else:
            target = _target(arch, options.part)
            times = await to_thread.run_sync(partial(_predicted, kernel, arch, shapes, target))
            where, units = f"predicted for {target.part.name}", target.part.compute_units
            known = ShapeTimes(kernel, arch, shapes, weights, times, where, units)
            hint = "no instance supports a shape and has a predicted time"
    if not any(known.times.values()):
        raise CkwatchError(f"'{kernel.name}' has no times to choose by", hint)
    sizes_of = {name: known.sizes_of(name) for name in known.times}
    found = await to_thread.run_sync(dispatcher, known.times, sizes_of, known.weights, options.tolerance)
    summary = _summary(known, found)
    written = await to_thread.run_sync(_write, options, known, found, summary)
    output.answer(
        kernel=kernel.name, arch=arch, source=known.where, instances=found.instances,
        choices={name: found.choose(own) for name, own in sizes_of.items()}, seen=found.seen, unseen=found.unseen,
        left_out=known.left_out, paths=written,
    )  # fmt: skip
    output.lines((line, "") for line in (*(f"wrote {path}" for path in written), *summary.splitlines()))
    return 0


def _kernel(root: Path, name: str) -> Kernel | None:
    return next((one for one in load_workspace(root).kernels if one.name == name), None)


def _target(arch: str, part: str) -> PredictionTarget:
    try:
        target = target_of(arch, part)
    except ValueError as error:
        raise CkwatchError(str(error)) from None
    if target is None:
        raise CkwatchError(f"there is nothing known of {arch} to predict times by", "--by measured uses timings")
    return target


def _shapes(kernel: Kernel, logs: Sequence[Path], top: int) -> tuple[dict[str, Shape], dict[str, float]]:
    """The shapes of logs, or of the kernel file, and how often each is called."""
    if not logs:
        if not kernel.shapes:
            raise CkwatchError(f"'{kernel.name}' has no shape", "give a log with --shapes, or add a [[shape]]")
        return {shape.name: shape for shape in kernel.shapes}, {}
    needed = set(called_sizes(kernel))
    found, weights = {}, {}
    for one in read_logs(logs)[:top]:
        if set(one.sizes) == needed:
            shape = find_shape(kernel, ",".join(f"{name}={size}" for name, size in one.sizes.items()))
            found[shape.name], weights[shape.name] = shape, float(one.count)
    if not found:
        raise CkwatchError(
            f"none of the logged shapes is one of '{kernel.name}'", f"its sizes are {', '.join(sorted(needed))}"
        )
    return found, weights


def _predicted(
    kernel: Kernel, arch: str, shapes: Mapping[str, Shape], target: PredictionTarget
) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, shape in shapes.items():
        problem = problem_of(kernel.operation, shape, arch)
        own = found[name] = {}
        for instance in kernel.instances:
            if not unsupported_reason(instance.parameters, problem):
                time_us = predict(None, instance.parameters, problem, target).time_us
                if time_us is not None and time_us > 0:
                    own[instance.name] = time_us
    return found


def _summary(known: ShapeTimes, found: Dispatcher) -> str:
    least = "the fewest" if found.is_smallest else "few"
    measured = sum(map(bool, known.times.values()))
    scope = f"within {found.tolerance:.0%} of the best on {count(measured, 'shape')}"
    lines = [
        f"{known.kernel.name}@{known.arch}: {least} instances {scope}, times {known.where}",
        *(f"  {one}" for one in found.instances),
        f"by the tree: {found.seen:.3f} x the best on average",
    ]
    if (unseen := found.unseen) is not None:
        lines.append(
            f"on shapes left out in turn: {unseen.mean:.3f} x on average, {unseen.high:.3f} x at the 90th percentile, "
            f"{unseen.within:.0%} within {found.tolerance:.0%}, {unseen.refused} of {unseen.shapes} refused"
        )
    else:
        lines.append("not checked on unseen shapes: there are too few")
    if known.left_out:
        lines.append(f"left out, without times: {', '.join(known.left_out[:5])}{', …' * (len(known.left_out) > 5)}")
    return "\n".join(lines)


def _write(options: argparse.Namespace, known: ShapeTimes, found: Dispatcher, summary: str) -> list[str]:
    """Write the files that are asked for; their paths."""
    about = f"Chooses an instance of {known.kernel.name} by size; written by ckwatch.\n\n{summary}"
    texts: list[tuple[Path, str]] = []
    for path in options.out:
        text = python_text(found, about) if path.suffix == ".py" else cpp_text(found, known.kernel.name, about)
        texts.append((path, text))
    if options.aiter is not None:
        texts.append((options.aiter, _aiter_text(known, found)))
    if options.hipblaslt is not None:
        texts.append((options.hipblaslt, _hipblaslt_text(known, found)))
    for path, text in texts:
        write_file(path, text)
    return [str(path.absolute()) for path, _ in texts]


def _choices(known: ShapeTimes, found: Dispatcher) -> list[tuple[Shape, str, float]]:
    """Shapes with the chosen instances and their times."""
    chosen = [(known.shapes[name], found.choose(known.sizes_of(name)), own) for name, own in known.times.items()]
    return [(shape, instance, own[instance]) for shape, instance, own in chosen if instance in own]


def _aiter_text(known: ShapeTimes, found: Dispatcher) -> str:
    parameters = {one.name: one.parameters for one in known.kernel.instances}
    text = io.StringIO()
    writer = csv.DictWriter(text, AITER_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for shape, instance, time_us in _choices(known, found):
        name = aiter_name(parameters[instance], known.kernel.operation)
        if name is None:
            raise CkwatchError(f"AITER has no name for '{instance}'", f"it names instances of {', '.join(LISTS)}")
        problem = problem_of(known.kernel.operation, shape, known.arch)
        writer.writerow(aiter_row(name, known.arch, known.compute_units, shape, problem, time_us))
    return text.getvalue()


def _hipblaslt_text(known: ShapeTimes, found: Dispatcher) -> str:
    """As `hipblaslt-bench` counts: in columns, so that m is N and n is M; `solution` names the instance."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("transA", "transB", "batch_count", "m", "n", "k", "a_type", "b_type", "d_type", "solution", "us"))
    for shape, instance, time_us in _choices(known, found):
        problem = problem_of(known.kernel.operation, shape, known.arch)
        gemm = problem.gemm
        if gemm is None:
            raise CkwatchError(f"'{known.kernel.name}' is not a GEMM")
        x, w = problem.buffer(gemm.x.buffer).dtype, problem.buffer(gemm.w.buffer).dtype
        layouts = {name: tensor.layout for name, tensor in known.kernel.operation.inputs if tensor is not None}
        transposed = ["T" if layouts.get(name) == "col" else "N" for name in ("W", "X")]
        sizes = [shape.sizes.get("B", 1), *(shape.sizes[name] for name in "NMK")]
        y = known.kernel.operation.outputs[0][1].dtype
        writer.writerow((*transposed, *sizes, w, x, y, instance, f"{time_us:.4g}"))
    return text.getvalue()
