"""A first build of 24 instances of one pipeline, with nothing in the store, against ninja running hipcc.

Goal: at most 0.9 × ninja, which runs as many jobs as there are cores, on the sources that ckwatch rendered, with its
flags. Each run has a store of its own, without precompiled headers, and units that nobody looks at: a sweep.
"""

from __future__ import annotations

import sys
import time
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from benchmarks import references
from benchmarks.choosing import alone, asked_runs
from benchmarks.edit_to_artifact import sources
from benchmarks.gemm_example import BASE, TILES, build, example_daemon, tile
from benchmarks.ninja_build import JOBS, NinjaBuild
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch.compile.toolchain.discover import discover

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/compile", "templates")

GOAL = 0.9

SWEEP = {
    f"{m_per_block}x128_{number}_{widths}": {
        **tile("v3", m_per_block=m_per_block), **each, "CShuffleMXdlPerWavePerShuffle": widths,
    }
    for m_per_block, widths, (number, each) in product((128, 256), (1, 2), enumerate((BASE, *TILES)))
}  # fmt: skip


async def compare(runs: int) -> list[Row]:
    """One row; none without ninja."""
    try:
        ninja = references.ninja()
    except references.UnavailableError as error:
        print(f"left out: {error}")
        return []
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(runs):
        async with example_daemon(SWEEP) as (example, client):
            begun_s = time.monotonic()
            await build(example, client)
            ours.append(time.monotonic() - begun_s)
            rendered = await sources(example, client)
        with TemporaryDirectory(prefix="ckwatch-benchmark-") as folder:
            plain = NinjaBuild(discover(), Path(folder) / "ninja", ninja)
            plain.write(rendered)
            theirs.append((await plain.build()).seconds)
        print(f"ckwatch {ours[-1]:.1f} s, ninja {theirs[-1]:.1f} s")
    return [
        row(
            f"first build of {len(SWEEP)} instances of one pipeline, an empty store",
            ours,
            theirs,
            reference_name=f"ninja -j{JOBS} with hipcc",
            unit="s",
            goal=f"at most {GOAL:g} ×",
            met=lambda _, ratio: ratio <= GOAL,
        )
    ]


def measure() -> list[Row]:
    """One row; none without ninja."""
    return anyio.run(compare, asked_runs())


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
