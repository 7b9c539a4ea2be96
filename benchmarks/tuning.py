"""Does tuning find the best instance, with how few measurements, and how fast? A space of CUTLASS on an NVIDIA GPU.

    python -m benchmarks.tuning [--devices 2] [--from-results]

In one run, one after the other: every instance is built, then every one is timed on every shape, without racing (the
alternative); then the same space is tuned from nothing, with at most 15 % of the measurements. The lines say: how far
the tuned instance's time, as the exhaustive run took it, is from the exhaustive best; the parts of measurements and of
wall time. With `--devices 2` a sixth of the space, which is built, is tuned on one device and on two, in turns, with as
many measurements and the same seeds: the wall times, and how much better the instances are that one of them found. What
was measured is stored in `results/tuning.json`, with the machine.

Needs nvcc, the extra `cuda` and a GPU. Times are those of the machine that is named, of one run each on one device.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import anyio

from benchmarks.reporting import PROVEN, RESULTS
from ckwatch import CkwatchError, connect
from ckwatch.tuning.results import TuningRecord

PATH = RESULTS / "tuning.json"
PART = 0.15
"""Of the exhaustive run's measurements: as many as the tuned run may take."""

KERNEL = """
template = "cutlass/gemm_universal.cu.j2"

[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b = { dtype = "f16", layout = "col" }
c = { dtype = "f16", layout = "row" }

[[shape]]
name = "square"
M = 4096
N = 4096
K = 4096

[[shape]]
name = "few rows"
M = 256
N = 8192
K = 4096

[[shape]]
name = "tall"
M = 16384
N = 1024
K = 1024

[[sweep]]
name = "s"
%s
where = [
  "4 <= ThreadblockM // WarpM * (ThreadblockN // WarpN) <= 8",
  "(ThreadblockM + ThreadblockN) * ThreadblockK * 2 * Stages <= 232448",
]

[sweep.parameters]
ThreadblockM = [64, 128, 256]
ThreadblockN = [64, 128, 256]
ThreadblockK = [32, 64]
WarpM = [32, 64]
WarpN = [32, 64]
Stages = [3, 4, 5]
SwizzleSize = [1, 8]
"""

Found = dict[str, Any]


DEVICES_MEASUREMENTS, DEVICES_GOAL = 60, 0.55
"""Of each run on one or several devices, and of the wall time on one with two."""

FEWER = (("Stages = [3, 4, 5]", "Stages = [3]"), ("SwizzleSize = [1, 8]", "SwizzleSize = [8]"))
"""A sixth of the space, for comparing devices: what it takes to build all counts for nothing there."""


def workspace(folder: Path, name: str, *, tune: bool, store: str, fewer: bool = False) -> Path:
    """A workspace of its own, with nothing known of any timing; those with one `store` share what was compiled."""
    text = KERNEL % ("tune = true" if tune else "")
    for written, instead in FEWER if fewer else ():
        text = text.replace(written, instead)
    root = folder / name
    root.mkdir()
    settings = f'[workspace]\nkernels = ["*.kernel.toml"]\narchs = ["sm_90a"]\n[store]\nfolder = "{folder / store}"\n'
    (root / "ckwatch.toml").write_text(settings + '[bench]\ncaches = ["cold"]\nlibrary = false\nwhen = "request"\n')
    (root / "gemm.kernel.toml").write_text(text)
    return root


async def measured(root: Path, **options: Any) -> tuple[TuningRecord, float]:
    """A tuning run, and its seconds of wall time, with what it takes to begin."""
    begun = time.monotonic()
    async with connect(root, trust=True) as client, client.tune("gemm", patience=None, **options) as run:
        async for step in run:
            if step.best or step.measured % 50 == 0:
                print(f"  {step.seconds:6.1f} s  {step.measured:4} measured  {step.point.instance}", flush=True)
        record = run.record
    return record, time.monotonic() - begun


async def exhaustive(folder: Path) -> Found:
    """Compile all, then measure all."""
    root = workspace(folder, "all", tune=False, store="store-all")
    begun = time.monotonic()
    async with connect(root, trust=True) as client:
        built = await client.build()
        devices = await client.devices()
    compiled_s = time.monotonic() - begun
    print(f"{len(built.units)} instances built in {compiled_s:.1f} s, {len(built.failed)} failed", flush=True)
    record, measured_s = await measured(root, strategy="all", racing=False)
    return {
        "instances": len(built.units),
        "failed": len(built.failed),
        "compile_s": compiled_s,
        "measure_s": measured_s,
        "times_us": record.times(),
        "device": next(one.description for one in devices.devices if one.name.startswith("cuda")),
    }


async def tuned(folder: Path, measurements: int, seed: int) -> Found:
    """The same space from nothing."""
    root = workspace(folder, f"tuned-{seed}", tune=True, store=f"store-tuned-{seed}")
    record, seconds = await measured(root, measurements=measurements, seed=seed)
    return {
        "seed": seed,
        "seconds": seconds,
        "measurements": sum(len(point.results) for point in record.points),
        "instances": len(record.points),
        "best": {shape: found.instance for shape in record.run.shapes if (found := record.best(shape)) is not None},
        "reported_us": {
            shape: found.median_us for shape in record.run.shapes if (found := record.best(shape)) is not None
        },
    }


async def side_by_side(folder: Path, devices: int, runs: int) -> Found:
    """Tune on one device and on several, in turns, each time from nothing but what is built."""
    found: Found = {}
    async with connect(workspace(folder, "built", tune=False, store="store-all", fewer=True), trust=True) as client:
        await client.build()
        there = await client.devices()
        await client.stop()
    for at in range(2 * runs):
        seed, count = at // 2, (1, devices)[(at + at // 2) % 2]
        root = workspace(folder, f"devices-{at}", tune=True, store="store-all", fewer=True)
        options: Found = {"measurements": DEVICES_MEASUREMENTS, "patience": None, "seed": seed}
        async with connect(root, trust=True) as client:
            await client.devices()
            begun = time.monotonic()
            async with client.tune("gemm", devices=[f"cuda:{number}" for number in range(count)], **options) as run:
                record = await run.finish()
            seconds = time.monotonic() - begun
            await client.stop()
        if run.compiles:
            raise CkwatchError(f"{run.compiles} instances were compiled, which are to be in the store")
        print(f"  seed {seed}, {count} devices: {run.measured} measurements in {seconds:.1f} s", flush=True)
        best = {shape: one.median_us for shape in record.run.shapes if (one := record.best(shape)) is not None}
        one_run = {"seed": seed, "seconds": seconds, "measured": run.measured, "best_us": best}
        found.setdefault(str(count), []).append(one_run)
    described = next(one.description for one in there.devices if one.name == "cuda:0")
    return {**found, "device": f"{devices} x {described}"}


def report(found: Found) -> int:
    """Print what was found; 1 where a goal is missed."""
    machine, missed = found["machine"], 0
    print(f"{machine['device']}, {machine['cores']} processor cores, {machine['date']}")
    if "exhaustive" in found:
        whole = found["exhaustive"]
        times = whole["times_us"]
        count = sum(map(len, times.values()))
        both_s = whole["compile_s"] + whole["measure_s"]
        print(f"exhaustive, one run: {whole['instances']} instances, {len(times)} shapes, {count} measurements,")
        print(f"  compiled in {whole['compile_s']:.0f} s, then measured in {whole['measure_s']:.0f} s")
        for run in found["tuned"]:
            part, wall = run["measurements"] / count, run["seconds"] / both_s
            print(f"tuned, seed {run['seed']}: {run['measurements']} measurements ({part:.1%}), {run['seconds']:.0f} s")
            print(f"  {wall:.2f} x the wall time, {run['instances']} instances compiled")
            for shape, name in run["best"].items():
                best = min(times[shape].values())
                off = times[shape][name] / best - 1
                missed += off > 0.02
                print(
                    f"  {shape:10} {name}: {times[shape][name]:.1f} us, {off:+.1%} of the exhaustive best {best:.1f} us"
                )
            missed += part > PART or wall > 0.5
    if "devices" in found:
        one, *others = found["devices"].items()
        for count, more in others:
            alone_s, side_by_side_s = (median(run["seconds"] for run in runs) for runs in (one[1], more))
            missed += side_by_side_s > DEVICES_GOAL * alone_s
            print(
                f"{count} devices: tuned in {side_by_side_s:.1f} s, one in {alone_s:.1f} s, medians of {len(more)} runs"
            )
            doubt = "" if len(more) >= PROVEN else f"; no proof: {len(more)} of {PROVEN} runs"
            print(f"  {side_by_side_s / alone_s:.2f} x of one{doubt}")
            for shape in one[1][0]["best_us"]:
                ours, theirs = (median(run["best_us"][shape] for run in runs) for runs in (more, one[1]))
                print(f"  {shape:10} best found {ours:.1f} us, on one {theirs:.1f} us, medians")
    print("goals are met" if not missed else f"{missed} goals are missed")
    return int(missed > 0)


async def run(devices: int, seeds: list[int], runs: int) -> Found:
    """All measurements."""
    found: Found = {"machine": {"cores": len(os.sched_getaffinity(0)), "cpu": platform.processor()}}
    found["machine"]["date"] = datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if devices == 1:
            whole = found["exhaustive"] = await exhaustive(folder)
            found["machine"]["device"] = whole.pop("device")
            limit = int(PART * sum(map(len, whole["times_us"].values())))
            found["tuned"] = [await tuned(folder, limit, seed) for seed in seeds]
        else:
            found["devices"] = await side_by_side(folder, devices, runs)
            found["machine"]["device"] = found["devices"].pop("device")
    return found


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1, help="compare one device with so many")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--runs", type=int, default=PROVEN, help="of tuning on one device and on several")
    parser.add_argument("--from-results", action="store_true", help="measure nothing")
    parser.add_argument("--out", type=Path, default=PATH, help="where to store what was measured")
    options = parser.parse_args()
    stored: dict[str, Found] = json.loads(options.out.read_text()) if options.out.exists() else {}
    if not options.from_results:
        key = "one device" if options.devices == 1 else f"{options.devices} devices"
        stored[key] = anyio.run(partial(run, options.devices, options.seeds, options.runs))
        options.out.write_text(json.dumps(stored, indent=1) + "\n")
    return max(report(one) for one in stored.values())


if __name__ == "__main__":
    raise SystemExit(main())
