"""`ckwatch inspect` and `ckwatch rank`: what compiled code objects say about performance, without a GPU.

`ckwatch.cli.code_files` does the same for files from anywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.command_words import code_path
from ckwatch.cli.kernel_figures import INDENT, Line, isa_lines, kernel_lines
from ckwatch.cli.mistakes import explained
from ckwatch.cli.output import Output, aligned, fields_of
from ckwatch.cli.progress import build_progress
from ckwatch.cli.session import asking, one_unit
from ckwatch.codeobject.report_diff import changed_figures, compare_kernels, match_kernels, warnings_of
from ckwatch.model.amounts import count, tflops, time_of
from ckwatch.model.errors import CkwatchError
from ckwatch.prediction.predict import NOT_MODELLED

if TYPE_CHECKING:
    from ckwatch.codeobject.report import CodeObjectReport, KernelReport
    from ckwatch.prediction.predict import Calibration, Prediction
    from ckwatch.prediction.ranking import RankedInstance
    from ckwatch.wire.analysis import Analysis, Calibrated, PredictedRanking, ShapePrediction


def inspect_lines(found: Analysis) -> list[Line]:
    """All that is known, for a terminal."""
    title = found.unit + (f", artifact {found.artifact_key[:12]}" if found.artifact_key else "")
    title += "" if found.fresh else ", of an earlier input"
    lines: list[Line] = [(title, "bold")]
    lines += [(f"{INDENT}{note}", "yellow") for note in found.report.notes]
    if not found.report.kernels:
        lines.append((f"{INDENT}no kernels", ""))
    for kernel in found.report.kernels:
        lines += [("", ""), *kernel_lines(kernel)]
        lines += _changed_lines(kernel, found)
    previous = dict(_earlier(found)).get("previous")
    warned = warnings_of(found.report, previous, found.lds_limit_bytes)
    if warned:
        lines.append(("", ""))
        lines += [(f"{INDENT}warning: {each.message} ({each.kernel})", "yellow") for each in warned]
    if found.shapes:
        lines += [("", ""), *shape_lines(found.shapes)]
    return lines


def inspected_unit(found: Analysis) -> dict[str, object]:
    """The fields of `inspect --json`."""
    return {
        "unit": found.unit,
        "artifact_key": found.artifact_key,
        "fresh": found.fresh,
        "arch": found.report.arch,
        "kernels": found.report.kernels,
        "notes": found.report.notes,
        "changes": {name: _changed(before, found.report) for name, before in _earlier(found)},
        "warnings": warnings_of(found.report, found.previous, found.lds_limit_bytes),
        "shapes": found.shapes,
        "left_out": NOT_MODELLED,
    }


def _changed(before: CodeObjectReport, now: CodeObjectReport) -> list[dict[str, object]]:
    return [
        {
            "kernel": None if kernel is None else kernel.resources.name,
            "before": None if old is None else old.resources.name,
            "changes": () if old is None or kernel is None else tuple(compare_kernels(old, kernel)),
        }
        for old, kernel in match_kernels(before, now)
    ]


def _changed_lines(kernel: KernelReport, found: Analysis) -> list[Line]:
    lines: list[Line] = []
    for name, earlier in _earlier(found):
        before = next((old for old, now in match_kernels(earlier, found.report) if now is kernel), None)
        changes = ["new"] if before is None else changed_figures(before, kernel)
        worse = before is not None and any(each.worse for each in compare_kernels(before, kernel))
        lines.append((f"{2 * INDENT}against {name}: {', '.join(changes) or 'the same'}", "yellow" if worse else ""))
    return lines


def shape_lines(shapes: Sequence[ShapePrediction]) -> list[Line]:
    """Bound, prediction and measurement on each shape, and what the predictions leave out."""
    parts = ", ".join(dict.fromkeys(each.prediction.part for each in shapes))
    lines: list[Line] = [(f"{INDENT}predicted for {parts}, not measured", "bold")]
    cells = [_shape_cells(each) for each in shapes]
    for each, line in zip(shapes, aligned(cells), strict=True):
        lines.append((2 * INDENT + line, ""))
        details = [*each.prediction.why, *_iteration(each.prediction), *each.prediction.notes]
        lines += [(3 * INDENT + text, "dim") for text in details]
    lines.append((f"{INDENT}not modeled: {'; '.join(NOT_MODELLED)}", "dim"))
    return lines


def _iteration(found: Prediction) -> list[str]:
    if found.iteration_us is None:
        return []
    return [f"an iteration takes {1000 * found.iteration_us:.0f} ns: loads that come later than they run ahead slow it"]


def _shape_cells(each: ShapePrediction) -> list[str]:
    found = each.prediction
    measured = ""
    if each.measured_us is not None:
        ratio = f" ({each.measured_us / found.time_us:.2f} × predicted)" if found.time_us else ""
        device = f" on {each.device}" if each.device else ""
        measured = f"measured {time_of(each.measured_us)}{device}{ratio}"
    return [
        f"{each.shape}, {found.cache}",
        "" if found.roofline_us is None else f"roofline {time_of(found.roofline_us)}",
        "" if found.bound_us is None else f"at best {with_rate(found.bound_us, found.bound_tflops)}",
        "" if found.time_us is None else f"predicted {with_rate(found.time_us, found.tflops)}",
        "" if found.time_us is None else _interval(found),
        "" if found.limited_by is None else f"limited by {found.limited_by}",
        measured,
    ]


def with_rate(time_us: float, rate: float | None) -> str:
    """`105.1 µs (1307 TFLOP/s)`."""
    return time_of(time_us) + ("" if rate is None else f" ({tflops(rate, 3)})")


def calibration_lines(found: Calibration | None) -> list[Line]:
    """How far predictions were off: each with its measurement, the worst first, and all together."""
    if found is None:
        return [("no fresh timing has a prediction to compare it with; `ckwatch bench` takes timings", "")]
    rows = [
        [
            f"{pair.ratio:.2f} ×",
            pair.unit,
            pair.shape,
            pair.device,
            f"predicted {time_of(pair.predicted_us)}",
            f"measured {time_of(pair.measured_us)}",
            "below its bound: one of them is wrong" if pair in found.below_bound else "",
        ]
        for pair in found.pairs
    ]
    order = "" if found.order is None else f"; {100 * found.order:.0f} % of pairs in the right order"
    words = (
        f"{count(len(found.pairs), 'prediction')}: measured {found.ratio:.2f} × predicted (median), "
        f"each off by {100 * (found.off - 1):.0f} % from that (geometric mean){order}"
    )
    styles = ["red" if pair in found.below_bound else "" for pair in found.pairs]
    return [(words, "bold"), *zip([INDENT + line for line in aligned(rows, frozenset({0}))], styles, strict=True)]


def calibrated_lines(found: Calibration | None, timed: int, notes: Sequence[str]) -> list[Line]:
    """The calibration over `timed` fresh timings; `notes` say why some of them have no prediction."""
    lines = [] if timed and found is None else calibration_lines(found)
    if timed and found is None:
        lines.append((f"{count(timed, 'fresh timing')}, none of them on a device that predictions know", ""))
    lines += [(f"{INDENT}{note}", "dim") for note in notes]
    return lines


def calibration_report(found: Calibrated) -> dict[str, object]:
    """The fields of `inspect --calibration --json`."""
    nothing = {"pairs": (), "ratio": None, "off": None, "order": None, "below_bound": ()}
    known = nothing if found.calibration is None else fields_of(found.calibration)
    return {**known, "timed": found.timed, "notes": found.notes}


_RIGHT = frozenset({0, 2, 3, 4, 5, 6})


def rank_lines(found: PredictedRanking) -> list[Line]:
    """The ranking for a terminal: that it is a prediction stands above it, what it leaves out below."""
    title = (
        f"{found.kernel}, {found.shape}, {found.arch}: predicted for {found.part}, {found.cache} cache, not measured"
    )
    lines: list[Line] = [(title, "bold")]
    placed = [row for row in found.rows if row.place is not None]
    rest = [row for row in found.rows if row.place is None]
    if not found.rows:
        return [*lines, (f"{INDENT}it has no instances", "")]
    heads = ["", "instance", "predicted", "80 % in", "×", "TFLOP/s", "at best", "limited by"]
    if found.measured_us:
        heads.append("measured")
    if placed:
        head, *texts = aligned([heads, *(_cells(row, found) for row in placed)], _RIGHT)
        lines.append((INDENT + head, "dim"))
        for row, text in zip(placed, texts, strict=True):
            lines.append((INDENT + text, "bold green" if row.place == 1 else ""))
            if row.because:
                lines.append((f"{3 * INDENT}{row.because}", "dim"))
    lines += [(f"{INDENT}{text}", "dim") for text in _basis_lines([row.prediction for row in placed])]
    if rest:
        lines.append((f"{INDENT}no prediction:", ""))
        lines += [(2 * INDENT + text, "dim") for text in aligned([_bound_cells(row) for row in rest])]
    return [*lines, (f"{INDENT}not modeled: {'; '.join(NOT_MODELLED)}", "dim")]


def _basis_lines(found: Sequence[Prediction]) -> list[str]:
    """From what the times were predicted, and how good such predictions were on public measurements."""
    from ckwatch.prediction.learned import record_of, source_of
    from ckwatch.prediction.predict import Basis

    lines = []
    if before := sum(one.basis is Basis.PARAMETERS for one in found):
        which = "all" if before == len(found) else f"{before} of {len(found)}"
        lines.append(f"{which} from the parameters alone, before a compile")
    slices = [one.slice for one in found]
    if any(one.formula_us is not None for one in found):
        learned = sum(one.learned for one in found)
        which = "" if learned == len(found) else f"{learned} of {len(found)} "
        source = source_of(one.slice for one in found if one.learned)
        lines.append(
            f"{which}by formulas, and what was learned from others' measurements ({source})"
            if learned
            else "by formulas alone"
        )
    record = record_of(slices)
    if record is None:
        return [*lines, "no record: no public measurements of such kernels on this part are known"] if found else lines
    seen = ", none of an N and K that the fit had seen" if record.learned else ""
    of = (
        slices[0]
        if record.slice == slices[0]
        else f"{slices[0].partition(',')[0]}, {record.slice} than the fit had seen"
    )
    inside = f"; {100 * record.inside:.0f} % of measured times were in the interval" if record.learned else ""
    return [*lines, f"record on {of}, before a compile{seen}: {record}{inside}"]


def ranked_predictions(found: PredictedRanking) -> dict[str, object]:
    """The fields of `rank --json`."""
    from ckwatch.prediction.learned import record_of, source_of

    record = record_of(row.prediction.slice for row in found.rows if row.place is not None)
    ranked = [
        {
            "instance": row.name,
            "place": row.place,
            "tied": row.tied,
            "ratio": row.ratio,
            "because": row.because,
            "prediction": row.prediction,
            "measured_us": found.measured_us.get(row.name),
        }
        for row in found.rows
    ]
    return {
        **{name: getattr(found, name) for name in ("kernel", "shape", "arch", "part", "cache")},
        "predicted": True,
        "ranked": ranked,
        "left_out": NOT_MODELLED,
        "record": record,
        "learned_from": source_of(row.prediction.slice for row in found.rows if row.prediction.learned),
    }


def _cells(row: RankedInstance, found: PredictedRanking) -> Sequence[str]:
    prediction, measured = row.prediction, found.measured_us.get(row.name)
    return [
        f"={row.place}" if row.tied else f"{row.place}",
        row.name,
        "" if prediction.time_us is None else time_of(prediction.time_us),
        _interval(prediction),
        "" if row.ratio is None else f"{row.ratio:.2f}",
        "" if prediction.tflops is None else f"{prediction.tflops:.4g}",
        "" if prediction.bound_us is None else time_of(prediction.bound_us),
        prediction.limited_by or "",
        "" if measured is None else time_of(measured),
    ]


def _interval(prediction: Prediction) -> str:
    """Between which times 80 % of such measurements were; that there is no record where none are known."""
    if prediction.low_us is None or prediction.high_us is None:
        from ckwatch.prediction.learned import record_of

        return "" if record_of([prediction.slice]) is not None else "no record"
    low, high = (time_of(one) for one in (prediction.low_us, prediction.high_us))
    return f"({low} … {high})"


def _bound_cells(row: RankedInstance) -> list[str]:
    bound_us = row.prediction.bound_us
    return [row.name, "" if bound_us is None else f"at best {time_of(bound_us)}", row.because]


async def inspect(options: argparse.Namespace) -> int:
    """Print the figures of a unit's or a file's code object, its instructions, or how far predictions were off.

    A unit is built if it was not. Raises CkwatchError for options that do not go together.
    """
    if options.calibration and (options.unit is not None or options.isa):
        raise CkwatchError("--calibration covers all units", "leave out the unit and --isa")
    if options.unit is None and not options.calibration:
        raise CkwatchError("no unit is given", "`ckwatch inspect UNIT`; --calibration needs none")
    if options.unit is not None and (path := await to_thread.run_sync(code_path, options.unit)) is not None:
        from ckwatch.cli.code_files import inspect_file

        return await inspect_file(path, options)
    if options.of_arch is not None:
        raise CkwatchError("--arch is for a file", "a unit has its arch in its name: KERNEL/INSTANCE@ARCH")
    output = Output(options)
    async with asking(options) as client:
        if options.calibration:
            await client.sync()
            calibrated = await client.calibration()
            lines = calibrated_lines(calibrated.calibration, calibrated.timed, calibrated.notes)
            return output.both(calibration_report(calibrated), lines)
        unit = await one_unit(client, options.unit)
        lists = options.isa or options.kernel is not None or options.whole or options.no_lines
        async with build_progress(client, output, [unit]):
            await client.build(unit, lines=lists and not options.no_lines)
        if not lists:
            found = await client.analysis(unit)
            return output.both(inspected_unit(found), inspect_lines(found))
        with output.working("finding its source lines"):
            isa = await client.isa(unit, options.kernel, lines=not options.no_lines)
        return output.both(isa, isa_lines(isa, whole=options.whole))


def _earlier(found: Analysis) -> tuple[tuple[str, CodeObjectReport], ...]:
    """Return earlier artifacts by name, to compare with. The previous one comes first: warnings are against it."""
    others = (("previous", found.previous), (f"baseline {found.baseline_name}", found.baseline))
    return tuple((name, report) for name, report in others if report is not None)


async def rank(options: argparse.Namespace) -> int:
    """Print the instances of a kernel by predicted time, or the kernels of files by their main loops. Raises
    CkwatchError for words and options that do not go together."""
    paths = [path for word in options.kernels if (path := await to_thread.run_sync(code_path, word)) is not None]
    if len(paths) == len(options.kernels):
        if options.shape is not None or options.part:
            raise CkwatchError("--shape and --part are for a KERNEL", "leave them out: a file does not say its problem")
        from ckwatch.cli.code_files import rank_files

        return await rank_files(paths, options)
    if paths or len(options.kernels) > 1:
        raise CkwatchError("rank takes one KERNEL, or files with code objects", "`ckwatch rank a.hsaco b.hsaco`")
    if options.kernel is not None:
        raise CkwatchError("--kernel is for a file with code objects", "`ckwatch rank FILE --kernel NAME`")
    (kernel,) = options.kernels
    async with asking(options) as client:
        await client.sync()
        async with explained(client, kernel):
            found = await client.predicted(kernel, options.shape, arch=options.of_arch, part=options.part)
    return Output(options).both(ranked_predictions(found), rank_lines(found))
