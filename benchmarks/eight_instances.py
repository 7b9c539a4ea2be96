"""Eight edited instances until all artifacts are there, against ninja running hipcc, with ccache and without.

Goals: cold at most 0.48 × ninja, and 0.48 × ninja with ccache; after switching to another branch and back at most
0.5 × ninja with ccache; the memory of all children together at most 1.2 × that of ninja's. ninja runs as many jobs as
there are cores, on the sources that ckwatch rendered, with its flags. Each run has another tile: ratios are medians of
the runs' ratios.

The eight differ in pipeline, scheduler and size. They were built before with another tile; the edit is one save of the
kernel file and gives them a tile and a text that no store and no cache has seen. A switch replaces the kernel file and
the template as git does: the files are removed and written anew. ckwatch reacts to both switches; ninja is called after
the second one only. Memory is sampled during the cold builds, in those of ckwatch and of ninja without ccache.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio

from benchmarks import references
from benchmarks.choosing import alone, asked_runs
from benchmarks.edit_to_artifact import artifacts, built_as_it_is, edition, sources
from benchmarks.gemm_example import BUILD_LIMIT_S, EIGHT, Example, Follower, example_daemon, following, rest, until_idle
from benchmarks.ninja_build import JOBS, NinjaBuild
from benchmarks.process_memory import peak_below
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import CkwatchError

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/compile", "templates")

COLD_GOAL, AGAIN_GOAL, MEMORY_GOAL = 0.48, 0.5, 1.2


class Times:
    """Samples of all rows: seconds, and megabytes."""

    def __init__(self) -> None:
        self.cold: list[float] = []
        self.ninja: list[float] = []
        self.ccache: list[float] = []
        self.again: list[float] = []
        self.ccache_again: list[float] = []
        self.memory: list[float] = []
        self.ninja_memory: list[float] = []

    def rows(self) -> list[Row]:
        """Those that have a reference."""
        name = f"{len(EIGHT)} edited instances: edit to all artifacts"
        again = f"{len(EIGHT)} instances after switching a branch away and back"
        memory = "peak memory of all children in a cold build of 8"
        plain, cached = f"ninja -j{JOBS} with hipcc", f"ninja -j{JOBS} with ccache and hipcc"
        table = [
            (name, self.cold, self.ninja, plain, "s", COLD_GOAL),
            (f"{name}, against ccache", self.cold, self.ccache, f"{cached}, cold", "s", COLD_GOAL),
            (again, self.again, self.ccache_again, cached, "s", AGAIN_GOAL),
            (memory, self.memory, self.ninja_memory, plain, "MB", MEMORY_GOAL),
        ]
        return [
            row(
                what,
                ours,
                theirs,
                reference_name=reference,
                unit=unit,
                goal=f"at most {goal:g} ×",
                met=lambda _, ratio, goal=goal: ratio <= goal,  # type: ignore[misc]
                alike=True,
            )
            for what, ours, theirs, reference, unit, goal in table
            if theirs
        ]


def switch(example: Example, kernel_text: str) -> None:
    """Replace the kernel file and the template as git does."""
    for path, text in ((example.kernel_file, kernel_text), (example.template, example.template_text())):
        path.unlink()
        path.write_text(text)


async def away_and_back(example: Example, follower: Follower, text: str) -> float:
    """Switch to what was there at first, and back to `text`, which is built: seconds from the switch back."""
    here = follower.keys()
    switch(example, example.kernel_text())
    _, units = await follower.until(lambda: follower.built(example.units, here), BUILD_LIMIT_S)
    await until_idle(follower.client)
    there = {unit.id: unit.key for unit in units}
    begun_s = time.monotonic()
    switch(example, text)
    told_s, units = await follower.until(lambda: follower.built(example.units, there), BUILD_LIMIT_S)
    if any(unit.key != here[unit.id] for unit in units):
        raise CkwatchError("after the switch back the artifacts are not those from before")
    return told_s - begun_s


async def tools(toolchain: Toolchain, folder: Path) -> tuple[NinjaBuild | None, NinjaBuild | None]:
    """ninja without and with ccache, as far as they can be had; says what cannot."""
    try:
        ninja = references.ninja()
    except references.UnavailableError as error:
        print(f"left out: everything against ninja: {error}")
        return None, None
    plain = NinjaBuild(toolchain, folder / "ninja", ninja)
    try:
        return plain, NinjaBuild(toolchain, folder / "ninja-ccache", ninja, await references.ccache())
    except references.UnavailableError as error:
        print(f"left out: everything against ccache: {error}")
        return plain, None


async def compare(runs: int) -> list[Row]:
    """All rows."""
    times = Times()
    async with example_daemon(EIGHT) as (example, client), following(client) as follower:
        plain, cached = await tools(discover(), example.root.parent)
        if plain is None:
            return []
        daemon = (await client.status()).pid
        await built_as_it_is(example, client)
        for number in range(runs):
            text = example.kernel_text(edition(number))
            with peak_below(daemon) as peak:
                seconds, units = await artifacts(example, follower, text)
            if any(unit.from_store for unit in units):
                raise CkwatchError("edited instances were in the store")
            times.cold.append(seconds)
            times.memory.append(peak.megabytes)
            print(f"ckwatch {seconds:.1f} s, {peak.megabytes:.0f} MB (sampling took {peak.busy_s:.1f} s)")
            rendered = await sources(example, client)
            await until_idle(client)
            times.again.append(await away_and_back(example, follower, text))
            print(f"ckwatch, branch away and back {times.again[-1]:.2f} s")
            await rest(example, follower)
            others = await sources(example, client)
            plain.write(rendered)
            built = await plain.build()
            times.ninja.append(built.seconds)
            times.ninja_memory.append(built.peak_mb)
            print(f"ninja {built.seconds:.1f} s, {built.peak_mb:.0f} MB")
            if cached is not None:
                await with_ccache(cached, rendered, others, times)
    return times.rows()


async def with_ccache(
    cached: NinjaBuild, rendered: list[tuple[str, str]], others: list[tuple[str, str]], times: Times
) -> None:
    """A cold build, and one after the sources were others for a while."""
    cached.write(rendered)
    times.ccache.append((await cached.build()).seconds)
    cached.write(others)
    cached.write(rendered)
    hits = await cached.hits()
    times.ccache_again.append((await cached.build()).seconds)
    hits = await cached.hits() - hits
    print(f"ninja with ccache {times.ccache[-1]:.1f} s, again {times.ccache_again[-1]:.2f} s ({hits} hits)")
    if hits != len(rendered):
        print("ccache has not answered all of them: its time after the switch is not that of a warm cache")


def measure() -> list[Row]:
    """Four rows; fewer without ccache, none without ninja."""
    return anyio.run(compare, asked_runs())


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
