"""`ckwatch export KERNEL --autotune`: the fastest instances as one module, which chooses by the sizes of each call."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.build import print_written
from ckwatch.cli.export.python_module import call_line, exported_units
from ckwatch.cli.mistakes import explained
from ckwatch.cli.output import Output
from ckwatch.client import Client
from ckwatch.exported.autotuned_text import (
    AutotunedKernel,
    MeasuredShape,
    autotuned_name,
    autotuned_text,
    library_names,
    shape_rows,
)
from ckwatch.exported.module_text import function_name, write_files
from ckwatch.model.errors import CkwatchError
from ckwatch.tuning.dispatch import dispatch_set
from ckwatch.wire.figures_text import is_figure
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.shapes import find_shape

if TYPE_CHECKING:
    from ckwatch.model.timings import Timing
    from ckwatch.wire.benchmarks import RankedTiming


async def export_kernel(options: argparse.Namespace, client: Client, output: Output) -> int:
    """Build the instances and write their module; the exit status as of a unit's. Raises CkwatchError for a kernel
    without timings, and for one that is compiled for several archs."""
    kernel: str = options.unit
    await client.sync()
    async with explained(client, kernel):
        rows = await client.best(kernel)
        units = [unit for unit in await client.units(kernel) if unit.kernel == kernel]
    arch = one_arch(kernel, [unit.arch for unit in units])
    wanted = await _shapes_of(client, kernel, options.shape)
    known = times_of(rows, arch, wanted, options.device)
    if not known:
        where = "" if options.device is None else f" on {options.device}"
        others = {one.place: None for own in times_of(rows, arch, wanted, None).values() for one in own.values()}
        hint = f"its latest ones are of {', '.join(others)}; " if others else ""
        hint += f"run `ckwatch tune {kernel}` (or `ckwatch bench {kernel}`) first"
        raise CkwatchError(f"'{kernel}' has no timings to choose by{where}", hint)
    left_out = tuple(shape for shape in wanted if shape not in known)
    shapes = chosen_shapes(known)
    instances = list(dict.fromkeys(one.instance for one in shapes))
    module = options.name or autotuned_name(kernel, arch)
    libraries = library_names(module, instances)
    names = {f"{kernel}/{instance}@{arch}": libraries[instance] for instance in instances}
    built = await exported_units(client, output, names)
    if isinstance(built, int):
        return built
    exported = {instance: built[f"{kernel}/{instance}@{arch}"][0] for instance in instances}
    tuned = AutotunedKernel(name=module, units=exported, shapes=shapes)
    shared_objects = {unit.library: shared_object for unit, shared_object in built.values()}
    folder = (options.out or Path()).absolute()
    for path in await to_thread.run_sync(write_files, folder, module, autotuned_text(tuned), shared_objects):
        print_written(output, f"{kernel}@{arch}", path)
    _print(output, tuned, left_out)
    return 0


def one_arch(kernel: str, archs: Sequence[str]) -> str:
    """The arch of a kernel's units. Raises CkwatchError where there are several: the instances of each are others'."""
    several = list(dict.fromkeys(archs))
    if len(several) != 1:
        found = f"for {', '.join(several)}" if several else "for no arch"
        raise CkwatchError(f"'{kernel}' is compiled {found}, and a module is for one", "add --arch ARCH")
    return several[0]


async def _shapes_of(client: Client, kernel: str, asked: Sequence[str]) -> list[str]:
    """The names of the shapes that are asked for, or of all of the kernel file. Raises CkwatchError."""
    loaded = await to_thread.run_sync(load_workspace, client.root)
    found = [known for known in loaded.kernels if known.name == kernel]
    names = (find_shape(known, shape).name for known in found for shape in asked)
    return list(dict.fromkeys(names)) or [shape.name for known in found for shape in known.shapes]


def times_of(
    rows: Sequence[RankedTiming], arch: str, shapes: Sequence[str], device: str | None
) -> dict[str, dict[str, Timing]]:
    """Fresh timings by shape and instance, without those of an instance that was given up as clearly slower."""
    found: dict[str, dict[str, Timing]] = {shape: {} for shape in shapes}
    for row in rows:
        timing = row.timing
        if row.rank is None or timing is None or row.shape not in found or timing.arch != arch:
            continue
        if timing.standing != "fresh" or timing.given_up or not is_figure(timing):
            continue
        if device is None or device in (timing.place, timing.device, timing.pci, timing.device_description):
            found[row.shape][row.instance] = timing
    return {shape: own for shape, own in found.items() if own}


def chosen_shapes(known: Mapping[str, Mapping[str, Timing]]) -> tuple[MeasuredShape, ...]:
    """For each shape the instance of the smallest set that is within 2 % of the best on all of them."""
    times = {shape: {name: one.median_us for name, one in own.items()} for shape, own in known.items()}
    choice = dispatch_set(times).choice
    found = []
    for shape, own in known.items():
        timing = own[choice[shape]]
        found.append(
            MeasuredShape(
                shape=shape,
                instance=choice[shape],
                arguments={**timing.sizes, **timing.runtime},
                median_us=timing.median_us,
                device=", ".join(part for part in (timing.place, timing.device_description) if part),
                taken_at=timing.taken_at,
            )
        )
    return tuple(found)


def _print(output: Output, tuned: AutotunedKernel, left_out: Sequence[str]) -> None:
    first = tuned.first
    output.answer(
        event="autotuned", kernel=first.kernel, arch=first.arch, module=tuned.name, function=function_name(first),
        units=[unit.unit for unit in tuned.units.values()], shapes=tuned.shapes, left_out=left_out,
    )  # fmt: skip
    output.table(shape_rows(first, tuned.shapes))
    if left_out:
        output.text(f"left out, without timings: {', '.join(left_out)}", "yellow")
    output.text(call_line(first, tuned.name))
