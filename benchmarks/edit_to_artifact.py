"""From an edit of one instance to its artifact, against hipcc on the same rendered source.

Goal: at most 0.36 × one hipcc call, with ckwatch's flags and without its ladder; 0.10 × where only host code changed.
The second reference is the command of PyTorch Inductor's ROCm backend for the same source. The unit was built before,
nothing else runs, and the edited instance is one that no store has. The first edit of every run gives it a tile with
which it was never compiled; the second one leaves that tile and changes the text, as an edit of the template does; the
third changes a value in the exported function, which the host alone reads. The fourth is typed in an editor: a new
tile, unsaved for two seconds, in which the daemon begins with it; the time counts from its save.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import anyio

from benchmarks.choosing import alone, asked_runs
from benchmarks.gemm_example import (
    BUILD_LIMIT_S,
    ONE,
    TILES,
    Example,
    Follower,
    Parameters,
    build,
    example_daemon,
    following,
    rest,
    until_idle,
)
from benchmarks.hipcc import Hipcc, Run
from benchmarks.reporting import DAEMON_CODE, Row, row
from benchmarks.saving import save
from ckwatch.client import Client
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import CkwatchError
from ckwatch.wire.state import Unit

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/compile", "templates")

GOAL, HOST_GOAL = 0.36, 0.10

UNSAVED_S = 2.0
"""How long a text is unsaved after its last keystroke."""

_editions = count(int(time.time()) % 1_000_000 * 1000)

Source = tuple[str, str]
"""A rendered text and the name of its exported function."""


async def built_as_it_is(example: Example, client: Client) -> None:
    """Look at all units, and build them before any edit."""
    print(f"building {len(example.units)} units as they are")
    await client.focus(*example.units)
    await build(example, client)
    await until_idle(client)


def edition(number: int) -> Parameters:
    """The next edited tile, in a text that nobody has compiled before."""
    return {**TILES[number % len(TILES)], "edition": next(_editions)}


async def artifacts(
    example: Example, follower: Follower, text: str, file: Path | None = None
) -> tuple[float, tuple[Unit, ...]]:
    """Save the kernel file, or another; seconds until all units have fresh artifacts, and the units."""
    before = follower.keys()
    begun_s = time.monotonic()
    save(file or example.kernel_file, text)
    told_s, units = await follower.until(lambda: follower.built(example.units, before), BUILD_LIMIT_S)
    return told_s - begun_s, units


async def artifacts_of_typed(example: Example, client: Client, follower: Follower, text: str) -> float:
    """Show the daemon a text as an editor does before it is saved; seconds from the save until all units have fresh
    artifacts."""
    async with client.overlay(example.kernel_file, text):
        await anyio.sleep(UNSAVED_S)
        seconds, _ = await artifacts(example, follower, text)
    return seconds


async def sources(example: Example, client: Client) -> list[Source]:
    """The current renderings of the units."""
    found = []
    for unit in example.units:
        rendered = await client.rendered(unit)
        if rendered.text is None or rendered.symbol is None:
            raise CkwatchError(f"{unit} renders to nothing")
        found.append((rendered.text, rendered.symbol))
    return found


def succeeded(run: Run) -> float:
    """The seconds of a run that must have left its shared object behind."""
    if not run.ok:
        raise CkwatchError("hipcc fails", run.text[-2000:])
    return run.seconds


def _within(goal: float) -> Callable[[float, float], bool]:
    return lambda _, ratio: ratio <= goal


async def compare(runs: int) -> list[Row]:
    """The rows."""
    by_tile: list[float] = []
    by_text: list[float] = []
    by_host: list[float] = []
    by_typed: list[float] = []
    by_hipcc, by_inductor = [], []
    async with example_daemon(ONE) as (example, client), following(client) as follower:
        hipcc = Hipcc(discover(), example.root.parent / "hipcc")
        await built_as_it_is(example, client)
        for number in range(runs):
            for times in (by_tile, by_text):
                seconds, units = await artifacts(example, follower, example.kernel_text(edition(number)))
                if units[0].from_store:
                    raise CkwatchError("the edited instance was in the store")
                times.append(seconds)
                await until_idle(client)
            host_edit = example.template_text(f"(void){next(_editions)}LL;")
            by_host.append((await artifacts(example, follower, host_edit, example.template))[0])
            await until_idle(client)
            typed = example.kernel_text(edition(number))
            by_typed.append(await artifacts_of_typed(example, client, follower, typed))
            await until_idle(client)
            ((text, symbol),) = await sources(example, client)
            await rest(example, follower)
            by_hipcc.append(succeeded(await hipcc.shared_object(text, symbol)))
            by_inductor.append(succeeded(await hipcc.inductor(text)))
            print(
                f"ckwatch {by_tile[-1]:.2f} s, text alone {by_text[-1]:.2f} s, host code {by_host[-1]:.2f} s, "
                f"typed before {by_typed[-1]:.2f} s, "
                f"hipcc {by_hipcc[-1]:.2f} s, Inductor's command {by_inductor[-1]:.2f} s"
            )
    name = "one edited instance: edit to artifact"
    rows = [
        row(
            what,
            ours,
            by_hipcc,
            reference_name="one hipcc call",
            unit="s",
            goal=f"at most {goal:.2f} ×",
            met=_within(goal),
            alike=True,
        )
        for what, ours, goal in (
            (name, by_tile, GOAL),
            (f"{name}, the same tile in another text", by_text, GOAL),
            (f"{name}, a value that only the host reads", by_host, HOST_GOAL),
            (f"{name}, from a save {UNSAVED_S:.0f} s after the last keystroke", by_typed, GOAL),
        )
    ]
    inductor = "the command of PyTorch Inductor's ROCm backend"
    against_inductor = row(
        f"{name}, against Inductor", by_tile, by_inductor, reference_name=inductor, unit="s", goal="", alike=True
    )
    return [*rows, against_inductor]


def measure() -> list[Row]:
    """Five rows."""
    return anyio.run(compare, asked_runs())


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
