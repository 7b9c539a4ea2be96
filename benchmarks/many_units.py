"""5,000 units at once: a daemon started on them, a branch checked out in which all differ, all built anew.

Goals: at most 4 s from the start of the daemon's process until all states are known; at most 5 s from the start of `git
checkout` of 5,000 differing files (all templates, all kernel files, 3,000 others) until every unit is rendered, checked
by lint and rules, and its result found in the store; at least 400 units/s with a compiler that takes no time.

The daemon is a process of its own, asked by a client. Its compiler is a function in it; all that is around a compile is
done as ever, but nothing is forced onto the disk. The store has the results of both branches, and the daemon before it
ended at rest. The alternatives, in the same run, while no daemon runs: ninja on 5,000 edges, each of which starts a
process that is done at once and names 1,000 headers (nothing is rendered or checked); `git checkout` and `git status`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import anyio
from anyio import to_thread

from benchmarks import references
from benchmarks.choosing import alone, asked_runs
from benchmarks.large_workspace import DIFFERENT, MAIN, OTHER, UNITS, LargeWorkspace, git_in, large_workspace, save
from benchmarks.ninja_build import JOBS
from benchmarks.quick_compiler import HEADERS, QuickCompiler
from benchmarks.quick_daemon import INSIDE, apart, daemon_of
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.client import Client, connect

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/compile")

WARM, CHECKOUT, REBUILD = "warm start", "checkout", "rebuild"
POLL_S = 0.25
"""Each time the daemon counts all units; asked more often, it would do little else."""

LIMIT_S = 1500.0

Watch = Callable[[str, int], AbstractContextManager[object]]
"""Told of a job and the daemon's process; what it gives is entered while the job is done."""

Seconds = dict[str, list[float]]
Keys = dict[str, str | None]

RESTING = {"done", "idle"}
"""Phases in which all is known of a unit that can be without a compiler."""


async def at_rest(client: Client) -> Keys:
    """Return when nothing runs in the background either: the keys of all units, which must have been built."""
    with anyio.fail_after(LIMIT_S):
        while (await client.status()).busy:
            await anyio.sleep(POLL_S)
    return await keys_of(client)


async def keys_of(client: Client) -> Keys:
    """Of all units, where they have been built from the present input."""
    units = await client.units()
    assert len(units) == UNITS
    return {unit.id: unit.key for unit in units if unit.fresh and unit.outcome == "built"}


async def known(client: Client, keys: Keys) -> float:
    """When the daemon has come to know the files as they are and that the units have these keys, by the monotonic
    clock."""
    with anyio.fail_after(LIMIT_S):
        await client.sync()
        while True:
            if (await client.status()).phases.keys() <= RESTING:
                found_s = time.monotonic()
                if await keys_of(client) == keys:
                    return found_s
            await anyio.sleep(POLL_S)


async def checkout(large: LargeWorkspace, branch: str) -> None:
    """As a user does it."""
    await to_thread.run_sync(large.git, "checkout", "--quiet", "--force", branch)


async def prepare(large: LargeWorkspace) -> tuple[Keys, Keys]:
    """Build both branches and end at rest on `MAIN`: the keys on it, and on the other."""
    found = []
    async with daemon_of(large.root), connect(large.root, start=False) as client:
        for branch in (OTHER, MAIN):
            await checkout(large, branch)
            await client.build()
            found.append(await at_rest(client))
    other, main = found
    assert len(main) == UNITS
    assert not main.items() & other.items(), "some units are the same on both branches"
    return main, other


async def session(large: LargeWorkspace, main: Keys, other: Keys, watch: Watch, found: Seconds) -> None:
    """A daemon's life, with each job once."""
    began_s = time.monotonic()
    async with daemon_of(large.root) as process, connect(large.root, start=False) as client:
        with watch(WARM, process):
            found.setdefault(WARM, []).append(await known(client, main) - began_s)
        await at_rest(client)
        began_s = time.monotonic()
        with watch(CHECKOUT, process):
            await checkout(large, OTHER)
            found.setdefault(CHECKOUT, []).append(await known(client, other) - began_s)
        await checkout(large, MAIN)
        await known(client, main)
        await at_rest(client)
        text = large.common.read_text()
        began_s = time.monotonic()
        with watch(REBUILD, process):
            save(large.common, f"constexpr int shared = {time.time_ns()};\n")
            await client.build()
            found.setdefault(REBUILD, []).append(time.monotonic() - began_s)
        assert not main.items() & (await at_rest(client)).items(), "some units were not built anew"
        save(large.common, text)
        await known(client, main)
        await at_rest(client)


class Alternatives:
    """Programs that do less, in `folder`, which is kept as the workspace is."""

    def __init__(self, large: LargeWorkspace) -> None:
        self._clone = large.folder / "clone"
        self._edges = large.folder / "edges"
        self._common = self._edges / "common"
        self._ninja = references.ninja()
        if not self._clone.exists():
            git_in(large.root, "clone", "--quiet", "--branch", OTHER, str(large.root), str(self._clone))
            git_in(self._clone, "branch", "--quiet", MAIN, f"origin/{MAIN}")
        if not self._common.exists():
            self._write()
            self._run_ninja()

    def _write(self) -> None:
        compiler = QuickCompiler(self._edges / "compiler")
        compiler.make()
        headers = compiler.folder / "headers"
        headers.write_text(f"o: {' '.join(headers.read_text().split())}\n")
        lines = [
            "rule compile",
            f"  command = QUICK_COMPILER={compiler.folder} CC_PRINT_HEADERS_FILE=$out.d {compiler.program} -c $out",
            "  depfile = $out.d",
            "  deps = gcc",
            *(f"build {number}.o: compile {self._common}" for number in range(UNITS)),
        ]
        (self._edges / "build.ninja").write_text("\n".join(lines) + "\n")
        self._common.touch()

    def _run_ninja(self) -> None:
        command = [str(self._ninja), f"-j{JOBS}", "--quiet"]
        subprocess.run(command, cwd=self._edges, check=True, stdout=subprocess.DEVNULL)

    def run(self, found: Seconds) -> None:
        """Each once."""
        self._common.touch()
        for job in (REBUILD, WARM):  # the second time there is nothing to do
            began_s = time.monotonic()
            self._run_ninja()
            found.setdefault(job, []).append(time.monotonic() - began_s)
        git_in(self._clone, "checkout", "--quiet", MAIN)
        began_s = time.monotonic()
        git_in(self._clone, "checkout", "--quiet", OTHER)
        git_in(self._clone, "status")
        found.setdefault(CHECKOUT, []).append(time.monotonic() - began_s)


def unwatched(_job: str, _process: int) -> AbstractContextManager[object]:
    """A `Watch` that does nothing."""
    return nullcontext()


def compared(runs: int, watch: Watch = unwatched) -> tuple[Seconds, Seconds]:
    """Seconds of each job: ours, and those of the alternatives."""
    large, ours, others = large_workspace(), Seconds(), Seconds()
    with apart(**{INSIDE: "1"}):
        keys = anyio.run(prepare, large)
        alternatives = Alternatives(large)
        for _ in range(runs):
            anyio.run(session, large, *keys, watch, ours)
            alternatives.run(others)
            print(*(f"{job}: {times[-1]:.2f} s, {others[job][-1]:.2f} s" for job, times in ours.items()), sep="; ")
    return ours, others


def measure() -> list[Row]:
    """Three rows."""
    ours, others = compared(asked_runs())
    edges = f"{UNITS:,} edges of {HEADERS:,} headers"
    return [
        row(
            f"daemon started on {UNITS:,} units: until all states are known",
            ours[WARM],
            others[WARM],
            reference_name=f"ninja with nothing to do, {edges}",
            unit="s",
            goal="at most 4 s",
            met=lambda seconds, _: seconds <= 4,
        ),
        row(
            f"`git checkout` of {DIFFERENT:,} differing files: until {UNITS:,} units are checked and looked up",
            ours[CHECKOUT],
            others[CHECKOUT],
            reference_name="`git checkout` and `git status` alone",
            unit="s",
            goal="at most 5 s",
            met=lambda seconds, _: seconds <= 5,
        ),
        row(
            f"{UNITS:,} units built anew, a compiler that takes no time",
            [UNITS / seconds for seconds in ours[REBUILD]],
            [UNITS / seconds for seconds in others[REBUILD]],
            reference_name=f"ninja -j{JOBS}, {edges}, each a process that is done at once",
            unit="units/s",
            goal="at least 400 units/s",
            met=lambda rate, _: rate >= 400,
        ),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
