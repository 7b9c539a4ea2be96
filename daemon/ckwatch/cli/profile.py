"""`ckwatch profile`: where a kernel's work goes, line by line, counted on an emulator."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.command_words import code_path
from ckwatch.cli.imports.profile import device_profile_lines
from ckwatch.cli.mistakes import explained
from ckwatch.cli.output import Output, aligned, write_file
from ckwatch.cli.progress import build_progress
from ckwatch.cli.session import asking, one_unit
from ckwatch.codeobject.profile_files import pprof, speedscope
from ckwatch.model.errors import CkwatchError
from ckwatch.model.profile_cells import PROFILE_COLUMNS, percent, profile_cells
from ckwatch.workspace.discovery import working_folder

if TYPE_CHECKING:
    from ckwatch.model.profiles import KernelProfile, ProfiledLine, ProfileFigures, ProfileHint
    from ckwatch.wire.analysis import UnitDeviceProfile, UnitProfile

INDENT = "  "
_RIGHT = frozenset(range(len(PROFILE_COLUMNS) - 1))

EARLIER = {"previous": "the previous build", "baseline": "the baseline"}
"""Names that `--against` takes besides units; of a baseline also `baseline:NAME`."""

NOT_TIMES = "counts are exact for what was executed, and no times"


def profile_lines(found: UnitProfile, by: str, top: int, root: str = "") -> Iterator[tuple[str, str]]:
    """The lines of a profile for a terminal, with their styles; `by` line, instruction, loop or function. Paths below
    `root` are relative to it, those of headers to their include folder."""
    if found.kernels or found.on_device is None:
        yield from _counted_lines(found, by, top, root)
    if found.on_device is not None:
        if found.kernels:
            yield "", ""
        yield from device_profile_lines(_sampled(found.on_device), found.on_device, top, found.kernels, root)


def _sampled(found: UnitDeviceProfile) -> str:
    shape = f", {found.shape_name}" if found.shape_name else ""
    return f"{found.unit}{shape}, on a device ({found.source})"


def _counted_lines(found: UnitProfile, by: str, top: int, root: str) -> Iterator[tuple[str, str]]:
    named = ", ".join(filter(None, (found.unit, _shape(found))))
    yield f"{named}, counted ({device_words(found.device)}): {NOT_TIMES}", "bold"
    if found.failure:
        yield f"{INDENT}the launch did not end as it should: {found.failure}", "yellow"
    for kernel in found.kernels:
        yield "", ""
        yield f"{INDENT}{kernel.name}", "bold"
        executed = f"{kernel.workgroups:,} of {kernel.all_workgroups:,} workgroups"
        launches = f" in {kernel.launches} launches" if kernel.launches != 1 else ""
        yield f"{INDENT}{kernel.total.counts.issued:,} instructions of {executed}{launches}", ""
        for note in kernel.notes:
            yield f"{INDENT}{note}", "yellow"
        if kernel.cycle_notes:
            yield f"{INDENT}cycles are an estimate: {'; '.join(kernel.cycle_notes)}", "dim"
        yield from _table(_ROWS[by](kernel, root), top)
    yield from _hint_lines(found.hints, top, root)


def _hint_lines(hints: Sequence[ProfileHint], top: int, root: str) -> Iterator[tuple[str, str]]:
    if hints:
        yield "", ""
    for hint in hints[:top]:
        yield f"{INDENT}{_short(hint.path, root)}:{hint.line + 1}: {hint.message}", "yellow"
        if hint.pattern:
            yield f"{2 * INDENT}{hint.pattern}", ""


def device_words(device: str) -> str:
    """`emulated gfx942` for `emulated:gfx942`."""
    return device.replace(":", " ", 1)


def _shape(found: UnitProfile) -> str:
    return (
        f"{found.shape_name} ({found.shape})" if found.shape_name and found.shape_name != found.shape else found.shape
    )


def _table(rows: Sequence[Sequence[str]], top: int) -> Iterator[tuple[str, str]]:
    if not rows:
        return
    head, *texts = aligned([(*PROFILE_COLUMNS, ""), *rows[:top]], _RIGHT)
    yield INDENT + head, "dim"
    for text in texts:
        yield INDENT + text, ""
    if len(rows) > top:
        yield f"{INDENT}and {len(rows) - top} more; --top shows them", "dim"


def _cells(kernel: KernelProfile, figures: ProfileFigures, place: str) -> list[str]:
    return [*profile_cells(kernel, figures), place]


def _weight(figures: ProfileFigures) -> tuple[int, int]:
    """The rank of a line: their estimated cycles where there are any, then issues."""
    return 0 if figures.cycles is None else figures.cycles.total, figures.counts.issued


def _by_line(kernel: KernelProfile, root: str) -> list[list[str]]:
    """Lines of the template with all that was called there, and those of headers by themselves."""
    shown = [(line, line.total if line.in_template else line.own) for line in kernel.lines]
    shown = [(line, figures) for line, figures in shown if figures.counts.issued]
    shown.sort(key=lambda one: (one[0].in_template, _weight(one[1])), reverse=True)
    return [_cells(kernel, figures, _place(line, root)) for line, figures in shown]


def _place(line: ProfiledLine, root: str) -> str:
    return f"{_short(line.path, root)}:{line.line + 1}" + (f" {line.function}" if line.function else "")


def _short(path: str, root: str) -> str:
    if root and path.startswith(f"{root}/"):
        return path[len(root) + 1 :]
    return path.rpartition("/include/")[2] or path


def _by_instruction(kernel: KernelProfile, root: str) -> list[list[str]]:
    from ckwatch.codeobject.disassembly import Instruction
    from ckwatch.codeobject.profile import figures_of

    found = []
    for one in kernel.instructions:
        if one.counts.issued:
            instruction = Instruction(one.address, one.text.partition(" ")[0], one.text, 0)
            figures = figures_of([(instruction, one.counts)], one.cycles)
            place = _at(kernel, one.at, root)
            found.append((_weight(figures), _cells(kernel, figures, f"{one.address:x}: {one.text}{place}")))
    return [cells for _, cells in sorted(found, key=lambda one: one[0], reverse=True)]


def _at(kernel: KernelProfile, line: int | None, root: str) -> str:
    found = None if line is None else kernel.lines[line]
    return "" if found is None else f"  {_short(found.path, root)}:{found.line + 1}"


def _by_loop(kernel: KernelProfile, root: str) -> list[list[str]]:
    return [
        _cells(
            kernel,
            loop.figures,
            f"{INDENT * (loop.depth - 1)}loop {number + 1}, {loop.rounds:,} rounds{', the main loop' * loop.main}"
            f"{_at(kernel, loop.at, root)}",
        )
        for number, loop in enumerate(kernel.loops)
        if loop.figures.counts.issued
    ]


def _by_function(kernel: KernelProfile, _root: str) -> list[list[str]]:
    """Functions with all that was inlined into them."""
    total: dict[str, tuple[int, int]] = {}
    for stack in kernel.stacks:
        for function in dict.fromkeys(stack.functions):
            cycles, issued = total.get(function, (0, 0))
            total[function] = cycles + (stack.cycles or 0), issued + stack.issued
    all_issued = max(1, kernel.total.counts.issued)
    return [
        [
            percent(issued / all_issued),
            f"{issued:,}",
            percent(kernel.cycle_share(cycles)),
            *[""] * (len(PROFILE_COLUMNS) - 3),
            function,
        ]
        for function, (cycles, issued) in sorted(total.items(), key=lambda one: one[1], reverse=True)
    ]


_ROWS: dict[str, Callable[[KernelProfile, str], list[list[str]]]] = {
    "line": _by_line,
    "instruction": _by_instruction,
    "loop": _by_loop,
    "function": _by_function,
}


async def profile(options: argparse.Namespace) -> int:
    """Print where the work of the kernels of a unit or a file goes; a unit is built if it was not. Raises
    CkwatchError."""
    output = Output(options)
    if (path := await to_thread.run_sync(code_path, options.unit)) is not None:
        from ckwatch.cli.code_file_profile import profile_file

        found = await profile_file(path, options, output)
        return await _print(found, options, output, str(working_folder()))
    if options.args is not None or options.of_arch is not None:
        raise CkwatchError("--args and --arch are for a file", "a unit's kernel file says how it is launched")
    if options.device is not None:
        return await _on_device(options, output)
    async with asking(options) as client:
        units = [await one_unit(client, options.unit)]
        if options.against is not None and options.against.partition(":")[0] not in EARLIER:
            units.append(await one_unit(client, options.against))
        async with build_progress(client, output, units):
            await client.build(*units, lines=not options.no_lines)
        unit, against = units[0], units[-1] if len(units) > 1 else options.against
        with output.working(f"executing {' and '.join(units)} on the emulator"):
            async with explained(client, unit):
                found = await client.profile(unit, options.shape, lines=not options.no_lines, against=against)
    return await _print(found, options, output, str(client.root), against)


async def _print(
    found: UnitProfile, options: argparse.Namespace, output: Output, root: str, against: str | None = None
) -> int:
    """Print a counted profile and write the files that are asked for; paths are shown below `root`."""
    for path, write in ((options.speedscope, speedscope), (options.pprof, pprof)):
        if path is not None:
            if not found.kernels:
                raise CkwatchError(f"'{found.unit}' has no kernel to write")
            largest = max(found.kernels, key=lambda kernel: kernel.total.counts.issued)
            await to_thread.run_sync(write_file, path, write(largest, found.unit))
    output.answer(found)
    if output.for_people:
        output.lines(profile_lines(found, options.by, options.top, root))
        output.lines(change_lines(found, against, options.top, root))
    return 0


async def _on_device(options: argparse.Namespace, output: Output) -> int:
    """Print what the profiler of a device's vendor saw of a unit. Raises CkwatchError."""
    counted_only = {"--by": options.by != "line", "--against": options.against, "--no-lines": options.no_lines}
    counted_only |= {"--speedscope": options.speedscope, "--pprof": options.pprof}
    if unfit := [name for name, given in counted_only.items() if given]:
        raise CkwatchError(f"{unfit[0]} is for counted profiles, without --device")
    async with asking(options) as client:
        unit = await one_unit(client, options.unit)
        async with build_progress(client, output, [unit]):
            await client.build(unit)
        with output.working(f"profiling {unit} on {options.device}"):
            async with explained(client, unit):
                found = await client.profile_on_device(unit, options.device, options.shape)
        root = str(client.root)
    output.answer(found)
    output.lines(device_profile_lines(_sampled(found), found, options.top, root=root))
    output.lines(_hint_lines(found.hints, options.top, root))
    return 0


def change_lines(found: UnitProfile, against: str | None, top: int, root: str) -> Iterator[tuple[str, str]]:
    """The differences from the profile that was asked for, if one was."""
    if against is None:
        return
    yield "", ""
    kind, _, name = against.partition(":")
    title = f"{EARLIER.get(kind, against)}{f' {name}' * (kind in EARLIER and bool(name))}"
    if not found.against:
        yield f"{INDENT}against {title}: it was not profiled on this shape; this build is compared with later ones", ""
        return
    yield f"{INDENT}against {title}" + ("" if found.changes else ": the same"), "bold"
    for one in found.changes[:top]:
        yield f"{2 * INDENT}{_short(one.path, root)}:{one.line + 1}: {', '.join(one.texts)}", "yellow" * one.worse
    if len(found.changes) > top:
        yield f"{2 * INDENT}and {len(found.changes) - top} more; --top shows them", "dim"
