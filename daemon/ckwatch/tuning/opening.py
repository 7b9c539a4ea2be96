"""The begin of a tuning run: the kernel, the devices, the journal, and the points to begin with."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.model.devices import can_run, devices_for
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.targets import DEVICE_KINDS, language_of
from ckwatch.prediction.predict import target_of_device
from ckwatch.tuning.client import TuningClient
from ckwatch.tuning.journal import TuningJournal, journal_path
from ckwatch.tuning.plan import TuningOptions
from ckwatch.tuning.runner import Tuning
from ckwatch.tuning.space import Parameters, Point
from ckwatch.tuning.tuned_kernel import TunedKernel, read_tuned_kernel

if TYPE_CHECKING:
    from ckwatch.wire.benchmarks import Device, Devices

KNOWN_SEEDS = 3
"""So many of the best known instances on a shape begin a search."""

TRANSFERRED = 8
"""The best instances of so many other shapes follow, the nearest shape's first."""


@asynccontextmanager
async def open_tuning(
    client: TuningClient,
    kernel: str,
    options: TuningOptions,
    *,
    shapes: Sequence[str] | None = None,
    arch: str | None = None,
    devices: Sequence[str] = (),
    listed: Mapping[str, Parameters] | None = None,
    again: bool = False,
) -> AsyncIterator[Tuning]:
    """A tuning run, which goes on as long as the context is open and ends with it; see `Client.tune`."""
    found = await client.devices()
    tuned = await to_thread.run_sync(
        partial(read_tuned_kernel, client.root, kernel, arch=arch, shapes=shapes, listed=listed, seed=options.seed)
    )
    chosen = chosen_devices(tuned, found, devices)
    tuned = replace(tuned, target=await to_thread.run_sync(target_of_device, facts_of(chosen[0])))
    journal = TuningJournal(await to_thread.run_sync(journal_path, client.root))
    try:
        if again:
            await to_thread.run_sync(journal.forget, kernel)
        async with client.adding_to(tuned.kernel.path) as overlay:
            seeds = await _seeds(client, tuned, options.seed)
            tuning = Tuning(client, tuned, options, chosen, journal, overlay, seeds=seeds, again=again)
            with closing(tuning):
                async with plain_errors(), anyio.create_task_group() as tasks:
                    await tasks.start(tuning.run)
                    yield tuning
                    tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(journal.close)


def chosen_devices(tuned: TunedKernel, found: Devices, wanted: Sequence[str]) -> tuple[Device, ...]:
    """The devices to measure on, all of one kind: those that are `wanted`, by name or PCI address (of another machine
    behind `HOST/`), `all` for every one like the best, and by default the best. Raises CkwatchError."""
    kind = DEVICE_KINDS[language_of(tuned.kernel.template)]
    by_itself = list(wanted) in ([], ["auto"], ["all"])
    if by_itself:
        there = devices_for(found.devices, kind, tuned.arch)
    else:
        there = tuple(one for one in found.devices if one.kind == kind and can_run(tuned.arch, one))
    if not there:
        why = found.absent.get(kind) or f"there is {', '.join(one.label for one in found.devices) or 'none'}"
        raise CkwatchError(f"there is no device to time '{tuned.kernel.name}' for {tuned.arch} on", why)
    if by_itself:
        return there if list(wanted) == ["all"] else (there[0],)
    chosen = []
    for name in dict.fromkeys(wanted):
        device = next((one for one in there if one.is_called(name)), None)
        if device is None:
            raise CkwatchError(f"there is no device {name}", f"there is {', '.join(one.label for one in there)}")
        chosen.append(device)
    if len({one.description for one in chosen}) > 1:
        kinds = ", ".join(f"{one.label} is a {one.description}" for one in chosen)
        raise CkwatchError("instances are compared on devices of one kind", kinds)
    return tuple(chosen)


def facts_of(device: Device) -> DeviceFacts:
    """The device as its runtime names it."""
    return DeviceFacts(**asdict(device))


async def _seeds(client: TuningClient, tuned: TunedKernel, seed: int) -> dict[str, list[Point]]:
    """Return where to begin for each shape: the best here on it and on the nearest others, or what others have found,
    then the predicted best."""
    known: dict[str, list[Point]] = {}
    for ranked in await client.best(tuned.kernel.name) if tuned.kernel.instances else []:
        if ranked.rank is None or ranked.rank > KNOWN_SEEDS or ranked.timing is None:
            continue
        if (point := tuned.point_of(ranked.timing.parameters)) is not None:
            known.setdefault(ranked.shape, []).append(point)
    for imported in await client.imported_timings(tuned.kernel.name, arch=tuned.arch):
        if imported.parameters and imported.shape:
            like = tuned.points_like(imported.parameters)
            known.setdefault(imported.shape, []).extend(like[:KNOWN_SEEDS])
    sizes = {shape.name: shape.sizes for shape in (*tuned.kernel.shapes, *tuned.shapes)}
    found = {}
    for shape in tuned.shapes:
        near = nearest(shape.sizes, {name: sizes[name] for name in known if name in sizes and name != shape.name})
        elsewhere = [point for name in near[:TRANSFERRED] for point in known[name][:1]]
        predicted = await to_thread.run_sync(tuned.predicted_best, shape.name, seed)
        found[shape.name] = list(dict.fromkeys([*known.get(shape.name, ()), *elsewhere, *predicted]))
    return found


def nearest(sizes: Mapping[str, int], others: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The names of other shapes, the nearest first, by the sum of |log2 ratio| over the sizes that both have."""

    def distance(name: str) -> float:
        own = others[name]
        return sum(abs(math.log2(max(size, 1) / max(own[one], 1))) for one, size in sizes.items() if one in own)

    return sorted(others, key=distance)
