"""`ckwatch import profile FILE…`: what a profiler saw on a device, by lines and kernels; lines of a unit's text at its
template."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ckwatch.cli.output import Output, aligned
from ckwatch.cli.progress import build_progress
from ckwatch.cli.session import asking, one_unit
from ckwatch.codeobject.counted_counters import counted_counters, same_kernel
from ckwatch.codeobject.tools.profilers import read_profile_file
from ckwatch.model.errors import CkwatchError

if TYPE_CHECKING:
    from ckwatch.client import Client
    from ckwatch.model.device_profiles import MeasuredKernel
    from ckwatch.model.profiles import KernelProfile
    from ckwatch.wire.analysis import UnitDeviceProfile

INDENT = "  "


async def run(options: argparse.Namespace) -> int:
    """Print each profile. Raises CkwatchError for a file that is none, and a unit that has no build."""
    output = Output(options)
    root = ""
    counted: tuple[KernelProfile, ...] = ()
    if options.unit is None:
        from ckwatch.wire.analysis import UnitDeviceProfile

        files = list(map(str, options.files))
        profiles = [
            UnitDeviceProfile.of(await read_profile_file(file, os.environ), str(file)) for file in options.files
        ]
    else:
        async with asking(options) as client:
            unit = await one_unit(client, options.unit)
            root = str(client.root)
            files = [str(file.absolute()) for file in options.files]
            async with build_progress(client, output, [unit]):
                await client.build(unit)
            profiles = [await client.import_profile(unit, file) for file in files]
            if any(kernel.counters for one in profiles for kernel in one.kernels):
                counted = await _counted(client, unit, options.shape)
    output.answer(profiles=profiles)
    for file, one in zip(files, profiles, strict=True):
        output.lines(device_profile_lines(file, one, options.top, counted, root))
    return 0


async def _counted(client: Client, unit: str, shape: str | None) -> tuple[KernelProfile, ...]:
    """The unit's kernels as an emulator counts them; none where it cannot."""
    try:
        return (await client.profile(unit, shape, lines=False)).kernels
    except CkwatchError:
        return ()


def device_profile_lines(
    title: str, found: UnitDeviceProfile, top: int, counted: Sequence[KernelProfile] = (), root: str = ""
) -> Iterator[tuple[str, str]]:
    """The lines of a device's profile for a terminal, with their styles. Paths below `root` are relative to it;
    `counted`: the unit's kernels on an emulator, whose figures stand beside counters."""
    on = f" on {found.device}" if found.device else ""
    weighed = f", {found.total:,} {found.weighed_by}" if found.lines else ""
    yield f"{title}: {found.method}{on}{weighed}", "bold"
    if found.other_build:
        yield f"{INDENT}taken of another build: {found.other_build}", "yellow"
    for note in found.notes:
        yield f"{INDENT}{note}", "yellow"
    yield from _line_table(found, top, root)
    for kernel in found.kernels:
        yield from _kernel_lines(kernel, counted)


def _line_table(found: UnitDeviceProfile, top: int, root: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in found.lines if line.weight]
    if not lines:
        return
    executed = any(line.executed for line in lines)
    rows = [
        [
            f"{100 * line.weight / found.total:.1f} %",
            f"{line.weight:,}",
            f"{line.issued:,}" if line.issued else "",
            *([f"{line.executed:,}"] if executed else []),
            ", ".join(f"{count:,} {reason}" for reason, count in list(line.stalls.items())[:3]),
            "no source line" if line.line is None else f"{_below(root, line.path)}:{line.line + 1}",
        ]
        for line in lines
    ]
    heads = ("share", found.weighed_by, "issued", *(["executed"] if executed else []), "otherwise", "")
    head, *texts = aligned(rows[:top], frozenset(range(len(heads) - 2)), heads)
    yield INDENT + head, "dim"
    for text in texts:
        yield INDENT + text, ""
    if len(rows) > top:
        yield f"{INDENT}and {len(rows) - top} more; --top shows them", "dim"


def _below(root: str, path: str) -> str:
    return path.removeprefix(f"{root}/") if root else path


def _kernel_lines(kernel: MeasuredKernel, counted: Sequence[KernelProfile]) -> Iterator[tuple[str, str]]:
    took = "" if kernel.time_ns is None else f", {kernel.time_ns / 1000 / kernel.launches:,.1f} µs each"
    yield f"{INDENT}{kernel.name}: {kernel.launches:,} launch{'es' * (kernel.launches != 1)}{took}", ""
    own = next((one for one in counted if same_kernel(kernel.name, one)), None)
    ours = {} if own is None else counted_counters(own)
    rows = []
    for name, total in kernel.counters.items():
        each = total / kernel.counted[name]
        beside = ""
        if own is not None and name in ours:
            part = (
                ""
                if own.workgroups == own.all_workgroups
                else f" from {own.workgroups} of {own.all_workgroups} workgroups"
            )
            beside = f"counted {_number(ours[name])} a launch{part}"
        rows.append([name, _number(total), _number(each), beside])
    if rows:
        head, *texts = aligned(rows, frozenset({1, 2}), ("counter", "measured", "a launch", ""))
        yield 2 * INDENT + head, "dim"
        for text in texts:
            yield 2 * INDENT + text, ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
