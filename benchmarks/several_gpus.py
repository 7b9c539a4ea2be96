"""Are timings on two GPUs side by side as good as one after the other on one, and how much sooner are they there?

    python -m benchmarks.several_gpus [--instances 8] [--runs 5] [--gpus 2] [--out FOLDER]

A GEMM in plain CUDA in so many tiles is compiled once. Then the real daemon times all of it on one device, named in
`[bench] device`, and on as many as are alike, by `device = "auto"`, in turns; each has a workspace of its own, with a
history that knows nothing of the other. Printed are the ratio of wall times, and whether both say the same: that every
result is right, and that no instance is FAST in one and SLOW in the other, against itself or against any other one.
Everything that was measured goes to `several_gpus.json` in the folder of results.

Needs nvcc, cuda-bindings and two equal NVIDIA GPUs of one machine; `--gpus 1` tries the program out on one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import combinations, product
from pathlib import Path

import anyio

from benchmarks.quick_daemon import apart
from benchmarks.reporting import PROVEN, RESULTS, Row, machine, row, show
from ckwatch import CkwatchError, connect
from ckwatch.bench.stats.comparison import SpeedVerdict, compare
from ckwatch.bench.stats.summary import TimeSummary, summarize
from ckwatch.client import Client

GOAL = 0.6
"""Of the wall time on one device, with two."""

SHAPE = "2048"
SETTINGS = """
[workspace]
archs = ["{arch}"]
[store]
folder = "{store}"
[bench]
device = "{device}"
when = "request"
caches = ["cold"]
library = false
"""
KERNEL = """
template = "tiles.cu.j2"

[operation]
kind = "gemm"
a = { dtype = "f32", layout = "row" }
b = { dtype = "f32", layout = "row" }
c = { dtype = "f32", layout = "row" }

[[shape]]
name = "2048"
M = 2048
N = 2048
K = 2048
"""
TEMPLATE = r"""{{ header }}
{{ globals }}

namespace {
constexpr int TileM = {{ TileM }}, TileN = {{ TileN }}, TileK = {{ TileK }}, PerThread = {{ PerThread }};
constexpr int Rows = TileM / PerThread, Columns = TileN / PerThread, Threads = Rows * Columns;

__global__ void __launch_bounds__(Threads) multiply(
    const float* x, const float* w, float* y, int M, int N, int K, int lda, int ldb, int ldc) {
    __shared__ float a[TileM][TileK + 1], b[TileK][TileN];
    const int m0 = blockIdx.y * TileM, n0 = blockIdx.x * TileN;
    const int row = threadIdx.x / Columns, column = threadIdx.x % Columns;
    float sums[PerThread][PerThread] = {};
    for (int k0 = 0; k0 < K; k0 += TileK) {
        for (int at = threadIdx.x; at < TileM * TileK; at += Threads) {
            const int m = at / TileK, k = at % TileK;
            a[m][k] = m0 + m < M && k0 + k < K ? x[int64_t{m0 + m} * lda + k0 + k] : 0.0f;
        }
        for (int at = threadIdx.x; at < TileK * TileN; at += Threads) {
            const int k = at / TileN, n = at % TileN;
            b[k][n] = k0 + k < K && n0 + n < N ? w[int64_t{k0 + k} * ldb + n0 + n] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < TileK; ++k)
            for (int i = 0; i < PerThread; ++i)
                for (int j = 0; j < PerThread; ++j) sums[i][j] += a[row + i * Rows][k] * b[k][column + j * Columns];
        __syncthreads();
    }
    for (int i = 0; i < PerThread; ++i)
        for (int j = 0; j < PerThread; ++j) {
            const int m = m0 + row + i * Rows, n = n0 + column + j * Columns;
            if (m < M && n < N) y[int64_t{m} * ldc + n] = sums[i][j];
        }
}
}  // namespace

extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y], names_str="X, W, Y") }} {
    if (kBatch != 1) return -23;
    if (workspace_size != nullptr) {
        *workspace_size = 0;
        return 0;
    }
    const dim3 blocks((N + TileN - 1) / TileN, (M + TileM - 1) / TileM);
    multiply<<<blocks, Threads, 0, stream>>>(X, W, Y, M, N, K, LDA, LDB, LDC);
    return cudaGetLastError();
}
"""
TILES = [
    {"TileM": m, "TileN": n, "TileK": k, "PerThread": 4}
    for k, (m, n) in product((8, 16, 32), ((32, 32), (32, 64), (64, 32), (64, 64), (64, 128), (128, 64)))
]


@dataclass(slots=True)
class Run:
    """All instances, timed once: seconds of wall time, and by unit where, the summary, and whether it was right."""

    seconds: float
    devices: dict[str, str] = field(default_factory=dict)
    times: dict[str, TimeSummary] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def workspace(folder: Path, name: str, instances: int, arch: str, device: str) -> Path:
    """A workspace that knows nothing of any timing; all share what is compiled."""
    root = folder / name
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text(SETTINGS.format(arch=arch, store=folder / "store", device=device))
    (root / "templates/tiles.cu.j2").write_text(TEMPLATE)
    text = KERNEL
    for tile in TILES[:instances]:
        text += f'\n[[instance]]\nname = "{tile["TileM"]}x{tile["TileN"]}x{tile["TileK"]}"\n'
        text += "".join(f"{name} = {value}\n" for name, value in tile.items())
    (root / "tiles.kernel.toml").write_text(text)
    return root


async def timed(client: Client) -> Run:
    """Time all instances anew. Raises CkwatchError where one has no time."""
    run = Run(0.0)
    numbers: dict[str, int] = {}
    began = time.perf_counter()
    async with client.bench(force=True) as lines:
        async for line in lines:
            if line.event == "skipped":
                raise CkwatchError(f"{line.unit} was not timed: {line.text}")
            if line.timing is None:
                continue
            if line.timing.failure is not None or not line.timing.verified:
                run.wrong.append(f"{line.timing.unit}: {line.timing.failure or 'not verified'}")
            else:
                run.devices[line.timing.unit] = line.timing.place
                numbers[line.timing.unit] = line.timing.id
    run.seconds = time.perf_counter() - began
    for unit, number in numbers.items():
        (detail,) = await client.timing(number)
        run.times[unit] = summarize(detail.times_us)
    return run


def verdicts(pairs: Sequence[tuple[TimeSummary, TimeSummary]]) -> Counter[str]:
    """How often each verdict comes of two measurements that were taken apart."""
    return Counter(compare(ours, theirs).verdict.value for ours, theirs in pairs)


def contradictions(one: Mapping[str, TimeSummary], other: Mapping[str, TimeSummary]) -> list[str]:
    """Pairs of instances of which the first is FAST in one run and SLOW in the other."""
    found = []
    for a, b in combinations(sorted(one.keys() & other.keys()), 2):
        both = {compare(run[a], run[b]).verdict for run in (one, other)}
        if both >= {SpeedVerdict.FAST, SpeedVerdict.SLOW}:
            found.append(f"{a} and {b}")
    return found


def report(single: Sequence[Run], several: Sequence[Run], gpus: int) -> tuple[list[Row], dict[str, object]]:
    """The rows, and what both kinds of runs say of the instances."""
    wrong = [text for run in (*single, *several) for text in run.wrong]
    instances = len(single[0].times)
    repeated = verdicts([(a.times[unit], b.times[unit]) for a, b in combinations(single, 2) for unit in a.times])
    same: list[tuple[TimeSummary, TimeSummary]] = []
    other: list[tuple[TimeSummary, TimeSummary]] = []
    for one, many in zip(single, several, strict=True):
        for unit in one.times.keys() & many.times.keys():
            pair = (many.times[unit], one.times[unit])
            (same if many.devices[unit] == one.devices[unit] else other).append(pair)
    clashes = [
        text for one, many in zip(single, several, strict=True) for text in contradictions(one.times, many.times)
    ]
    by_itself = [text for a, b in combinations(single, 2) for text in contradictions(a.times, b.times)]
    apart_by = [abs(mine.median_us / theirs.median_us - 1) for mine, theirs in other]
    details: dict[str, object] = {
        "wrong": wrong,
        "devices": dict(Counter(place for run in several for place in run.devices.values())),
        "one device against itself": dict(repeated),
        "several against one, the same device": dict(verdicts(same)),
        "several against one, another device": dict(verdicts(other)),
        "medians on another device differ by": statistics.median(apart_by) if apart_by else None,
        "pairs FAST in one and SLOW in the other": clashes,
        "the same on one device twice": by_itself,
    }
    name = f"{instances} instances timed on {gpus} GPUs side by side"
    goal = f"at most {GOAL} with two" if gpus > 1 else "a trial of the program"
    reached = (lambda _ours, ratio: ratio <= GOAL) if gpus > 1 else None
    ours, reference = [run.seconds for run in several], [run.seconds for run in single]
    rows = [row(name, ours, reference, reference_name="one GPU", unit="s", goal=goal, met=reached)]
    return rows, details


async def measured(
    folder: Path, instances: int, runs: int, gpus: int
) -> tuple[list[Run], list[Run], dict[str, object]]:
    """Both kinds of runs in turns, and the devices. Raises CkwatchError where there are too few GPUs."""
    arch, first = "sm_90", "cuda:0"
    probe = workspace(folder, "devices", 0, arch, "auto")
    async with connect(probe, trust=True) as client:
        found = await client.devices()
        await client.stop()
    there = [device for device in found.devices if device.name.startswith("cuda:") and not device.machine]
    alike = [device for device in there if (device.description, device.arch) == (there[0].description, there[0].arch)]
    if len(alike) < gpus:
        why = found.absent.get("cuda") or f"there is {', '.join(device.description for device in there) or 'none'}"
        raise CkwatchError(f"this needs {gpus} equal NVIDIA GPUs, and there are {len(alike)}", why)
    arch, first = alike[0].arch, alike[0].name
    roots = [workspace(folder, name, instances, arch, device) for name, device in (("one", first), ("all", "auto"))]
    single: list[Run] = []
    several: list[Run] = []
    async with connect(roots[0], trust=True) as one, connect(roots[1], trust=True) as many:
        for client in (one, many):
            built = await client.build()
            if built.failed:
                raise CkwatchError(f"{len(built.failed)} instances do not compile")
            await client.devices()
        for number in range(runs):
            order = [(one, single), (many, several)]
            for client, kept in order if number % 2 == 0 else order[::-1]:
                kept.append(await timed(client))
                print(f"  {len(single)} and {len(several)} of {runs} runs, {kept[-1].seconds:.1f} s", flush=True)
        for client in (one, many):
            await client.stop()
    facts: dict[str, object] = {"gpus": len(alike), "description": alike[0].description, "driver": alike[0].driver}
    return single, several, facts


def main() -> int:
    """The exit status: 1 where the two disagree or the goal is missed, 2 where nothing could be timed."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="ckwatch-several-gpus-") as folder, apart():
        try:
            what = partial(measured, Path(folder), options.instances, options.runs, options.gpus)
            single, several, facts = anyio.run(what)
        except CkwatchError as error:
            print(f"error: {error.message}; {error.hint or ''}", file=sys.stderr)
            return 2
    rows, details = report(single, several, int(str(facts["gpus"])) if options.gpus > 1 else 1)
    print(f"{facts['gpus']} x {facts['description']}, driver {facts['driver']}", flush=True)
    show(rows)
    for name, value in details.items():
        print(f"{name}: {value}", flush=True)
    content = {
        "machine": machine(), "device": facts, "rows": [asdict(one) for one in rows], "found": details,
        "one": [asdict(run) for run in single], "several": [asdict(run) for run in several],
    }  # fmt: skip
    if options.runs >= PROVEN and options.gpus > 1:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "several_gpus.json").write_text(json.dumps(content, indent=1, default=str) + "\n")
    else:
        print(f"fewer than {PROVEN} runs, or one GPU: not written to the results")
    agree = not details["wrong"] and not details["pairs FAST in one and SLOW in the other"]
    return 0 if agree and all(one.met is not False for one in rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=8, help=f"how many tiles, up to {len(TILES)}")
    parser.add_argument("--runs", type=int, default=PROVEN, help="runs of each kind, in turns")
    parser.add_argument("--gpus", type=int, default=2, help="how many equal GPUs there must be")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where several_gpus.json goes")
    options = parser.parse_args()
    if options.runs < 1 or options.gpus < 1 or not 1 <= options.instances <= len(TILES):
        parser.error(f"--runs and --gpus are at least 1, --instances between 1 and {len(TILES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
