"""Can the timings be trusted? CUTLASS GEMMs on an NVIDIA GPU, timed by ckwatch and by others in one process.

The same shared objects on the same buffers: ckwatch's own measuring (`ckwatch.bench.sampling` on its CUDA runtime),
Triton's `do_bench`, and a plain loop with an event pair around each launch, in turns, ten times over:

- medians in the same cache state, and how far the medians of ten runs lie apart (largest less smallest, of the median);
- twenty times each in turns: a variant that is 2 % slower must be called SLOW, another build of one source SAME.

Steps, each of which can be chosen: `build` (always), `verify` (each example through ckwatch's whole measurement, its
numerics compared, and once in a worker), `medians`, `trials`. Needs nvcc, nvidia-cutlass, cuda-bindings, PyTorch and
Triton. Everything that was measured goes to `measurement.json` in the folder of results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio

from benchmarks.cuda_kernels import Kernel, build, delayed_symbol, set_delay
from benchmarks.cuda_references import References
from benchmarks.reporting import RESULTS, Row, machine, show
from ckwatch.bench import run_job, worker_session
from ckwatch.bench.guarded_memory import GuardedMemory
from ckwatch.bench.job import Contestant, Job, Precision
from ckwatch.bench.kernel_abi import ArtifactLoader
from ckwatch.bench.numerics.inputs import before_launch, make_inputs
from ckwatch.bench.numerics.storage import Storage
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport
from ckwatch.bench.runtimes import cuda
from ckwatch.bench.runtimes.cuda import CudaRuntime
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, Launch
from ckwatch.bench.sampling import ContestantRunner, Sampler
from ckwatch.bench.stats.comparison import SpeedVerdict, compare_interleaved
from ckwatch.bench.stats.summary import summarize
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Shape
from ckwatch.model.roofline import CacheState
from ckwatch.model.tensors import DTYPES

MAIN = "gemm_f16"
INSTANCES = {MAIN: "128x256x32", "gemm_bf16_bias_relu_split_k": "128x128x32", "gemm_f32": "128x64x16"}
STEPS = ("verify", "medians", "trials")
TRIAL_SHAPE = "4096"

SLOWER = 0.02
CLOSE_ENOUGH = 0.01
NARROWER = 0.5
ENOUGH = 19


@dataclass(slots=True)
class Results:
    """Measurements and their summary."""

    rows: list[Row] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class Bench:
    """The device, and one kernel's launches on one shape."""

    def __init__(self, facts: DeviceFacts, kernel: Kernel, shape: Shape) -> None:
        self.runtime: CudaRuntime = cuda.open(facts)
        self.problem = problem_of(kernel.unit.kernel.operation, shape, kernel.unit.arch)
        self._memory = GuardedMemory(self.runtime)
        self._loader = ArtifactLoader()
        self._kernel = kernel
        self.inputs = inputs = make_inputs(self.problem, 1)
        self._addresses: dict[str, int] = {}
        for buffer in self.problem.buffers:
            size_bytes = buffer.elements * DTYPES[buffer.dtype].size_bytes
            self._addresses[buffer.name] = self._memory.allocate(buffer.name, size_bytes).address
            if buffer.name in inputs:
                self.runtime.upload(self._addresses[buffer.name], inputs[buffer.name].reshape(-1).view("u1"))
        self.sampler = Sampler(
            self.runtime,
            Precision(),
            self._memory.allocate("flush", run_job.flush_bytes(facts, facts.last_level_cache_bytes)),
            lambda _stage, _contestant: None,
        )

    def launch(self, artifact: bytes, symbol: str, stream: int | None = None) -> Launch:
        """Launches of one shared object's function on ckwatch's stream, or on another."""
        function = self._loader.function(symbol, artifact, symbol, self.problem)
        needed = function.workspace_bytes(self.runtime.stream)
        workspace = self._memory.allocate("workspace", needed).address if needed else 0
        return function.launch(self._addresses, workspace, self.runtime.stream if stream is None else stream)

    def written(self, launch: Launch, name: str) -> Storage:
        """What a launch leaves in an output that was poisoned before it."""
        buffer = self.problem.buffer(name)
        found = before_launch(self.problem, buffer, self.inputs, fnuz=False)
        self.runtime.upload(self._addresses[name], found.view("u1"))
        launch()
        self.runtime.synchronize()
        self.runtime.download(self._addresses[name], found.view("u1"))
        self._memory.check()
        return found

    def close(self) -> None:
        """Give the memory back."""
        self._memory.free()

    def medians_us(self, launch: Launch) -> dict[str, float]:
        """By ckwatch: cold, then hot, each warmed up in its own way; and the cold one in thousands of cycles."""
        runner = ContestantRunner("ours", launch)

        found = {}
        for cache in (CacheState.COLD, CacheState.HOT):
            warm = self.sampler.warm_up([runner], cache)
            samples = self.sampler.sample([runner], cache, warm.clock_mhz)[0]
            found[str(cache)] = summarize(samples.times_us).median_us
            if samples.clocks_mhz:
                pairs = zip(samples.times_us, samples.clocks_mhz, strict=True)
                found[f"{cache}, kcycles"] = summarize([time_us * mhz / 1e3 for time_us, mhz in pairs]).median_us
        return found

    def compared(self, ours: Launch, theirs: Launch, cache: CacheState) -> tuple[SpeedVerdict, float]:
        """The verdict on `ours` and the ratio of the times, measured in turns."""
        runners = [ContestantRunner("ours", ours), ContestantRunner("theirs", theirs)]
        warm = self.sampler.warm_up(runners, cache)
        mine, other = self.sampler.sample(runners, cache, warm.clock_mhz)
        found = compare_interleaved(mine.times_us, other.times_us, min(mine.blocks, other.blocks))
        return found.verdict, found.ratio


def verify(facts: DeviceFacts, kernels: Sequence[Kernel], results: Results) -> None:
    """Every example on every shape through the whole measurement with cuBLAS beside it, and one in a worker."""
    told = results.details.setdefault("verified", [])
    for kernel in kernels:
        for shape in kernel.shapes:
            job = _job(kernel, shape)
            report = _measured(facts, kernel, shape, job)
            found = _told(kernel, shape, report)
            told.append(found)
            hot = found["ours, hot"]["median_us"]
            speed = (job.problem.flops or 0) / hot / 1e6
            print(
                f"  {kernel.unit.id} {shape.name}: hot {hot:.1f} us, {speed:.0f} TFLOP/s, "
                f"library {found.get('library, hot', {}).get('median_us', 0):.1f} us, worst error "
                f"{found['worst_error']:.2f} of the tolerance, {report.seconds:.1f} s {' / '.join(report.notes)}",
                flush=True,
            )
    kernel = kernels[0]
    answer = anyio.run(_in_a_worker, _job(kernel, kernel.shapes[0]), kernel.artifact)
    if isinstance(answer, BenchmarkFailure):
        raise CkwatchError(f"in a worker: {answer.kind}: {answer.message}", f"{answer.hint}\n{answer.detail}")
    print(
        f"  in a worker: {len(answer.measured)} contestants, {answer.seconds:.1f} s, {dict(answer.versions)}",
        flush=True,
    )


def _measured(facts: DeviceFacts, kernel: Kernel, shape: Shape, job: Job) -> BenchmarkReport:
    runtime = cuda.open(facts)
    stages = ["opening"]
    try:
        return run_job.Measurement(runtime, job, lambda what, who: stages.append(f"{what} {who}")).report(
            [kernel.artifact]
        )
    except BenchmarkError as failed:
        raise CkwatchError(
            f"{kernel.unit.id}, shape {shape.name}, while {stages[-1]}: {failed.kind}: {failed.message}",
            f"{failed.hint}\n{failed.detail}",
        ) from failed


def _told(kernel: Kernel, shape: Shape, report: BenchmarkReport) -> dict[str, Any]:
    line: dict[str, Any] = {
        "unit": kernel.unit.id, "shape": shape.name, "notes": report.notes, "versions": dict(report.versions),
        "readings": [asdict(reading) for reading in report.readings], "seconds": report.seconds,
    }  # fmt: skip
    for measured in report.measured:
        for samples in measured.samples:
            line[f"{measured.contestant}, {samples.cache}"] = {
                **asdict(summarize(samples.times_us)), "stop": samples.stop, "discarded": samples.discarded,
            }  # fmt: skip
    verification = report.measured[0].verification
    return {**line, "worst_error": 0.0 if verification is None else verification.worst_error}


async def _in_a_worker(job: Job, artifact: bytes) -> Any:
    return await worker_session.measure(job, [artifact], time_limit_s=120)


def _job(kernel: Kernel, shape: Shape) -> Job:
    return Job(
        device="cuda:0",
        kind="cuda",
        arch=kernel.unit.arch,
        problem=problem_of(kernel.unit.kernel.operation, shape, kernel.unit.arch),
        contestants=(Contestant(name="ours", artifact=0, symbol=kernel.symbol), Contestant(name="library")),
    )


def medians(facts: DeviceFacts, kernel: Kernel, runs: int, results: Results) -> None:
    """Rows: per shape the medians against the others', and how far those of `runs` runs lie apart."""
    references = References()
    results.details["versions"] = references.versions
    warm_up_s = Precision().warm_up_s
    told = results.details.setdefault("medians_us", {})
    for shape in kernel.shapes:
        bench = Bench(facts, kernel, shape)
        ours = bench.launch(kernel.artifact, kernel.symbol)
        theirs = bench.launch(kernel.artifact, kernel.symbol, references.stream)
        series: dict[str, list[float]] = {}

        def take(name: str, value: float, series: dict[str, list[float]] = series) -> None:
            series.setdefault(name, []).append(value)

        def by_ckwatch(bench: Bench = bench, ours: Launch = ours, take: Callable[[str, float], None] = take) -> None:
            for cache, value in bench.medians_us(ours).items():
                take(f"ckwatch, {cache}", value)

        def by_others(theirs: Launch = theirs, take: Callable[[str, float], None] = take) -> None:
            warm_ms = round(1e3 * warm_up_s)
            take("do_bench, warmed up", references.do_bench_us(theirs, warm_up_ms=warm_ms))
            take("do_bench", references.do_bench_us(theirs))
            take("plain, cold", references.plain_us(theirs, cold=True, warm_up_s=warm_up_s))
            take("plain, hot", references.plain_us(theirs, cold=False, warm_up_s=warm_up_s))
            references.synchronize()

        for number in range(runs):
            for step in (by_ckwatch, by_others) if number % 2 == 0 else (by_others, by_ckwatch):
                step()
        told[shape.name] = series
        gate = bench.runtime.versions["gate"]
        results.rows += median_rows(shape.name, series)
        shown = ", ".join(
            f"{name} {statistics.median(values):.2f} ±{spread_of(values):.2%}" for name, values in series.items()
        )
        print(f"  {shape.name}: {shown}; gate: {gate}", flush=True)


def median_rows(shape: str, series: dict[str, list[float]]) -> list[Row]:
    """The claims about one shape, of the medians that each timer got in its runs, by the timer's name."""
    middle = {name: statistics.median(values) for name, values in series.items()}
    rows = []
    for cache, others in (("cold", ("do_bench, warmed up", "plain, cold")), ("hot", ("plain, hot",))):
        best = min(others, key=lambda name: middle[name])
        ours = f"ckwatch, {cache}"
        ratio = middle[ours] / middle[best]
        rows.append(
            Row(
                *(f"measurement: median, {cache} cache, shape {shape}", middle[ours], middle[best], best, "us", ratio),
                *("within 1 % of the better of the others", abs(ratio - 1) <= CLOSE_ENOUGH, len(series[ours])),
            )
        )
    for name in ("do_bench", "do_bench, warmed up"):
        spread, other = spread_of(series["ckwatch, cold"]), spread_of(series[name])
        rows.append(
            Row(
                *(f"measurement: spread of the median, shape {shape}, against {name}", 100 * spread, 100 * other, name),
                *("%", spread / other if other else float("inf") if spread else 0.0, "at most half"),
                spread <= NARROWER * other,
                len(series["ckwatch, cold"]),
            )
        )
    return rows


def spread_of(values: Sequence[float]) -> float:
    """Largest less smallest, as a part of the median."""
    return (max(values) - min(values)) / statistics.median(values)


def trials(facts: DeviceFacts, kernel: Kernel, count: int, results: Results) -> None:
    """Rows: how often the slower variant was called SLOW and the other build SAME."""
    shape = next(shape for shape in kernel.shapes if shape.name == TRIAL_SHAPE)
    bench = Bench(facts, kernel, shape)
    base = bench.launch(kernel.artifact, kernel.symbol)
    again = bench.launch(bytes(bytearray(kernel.again)), kernel.symbol)
    slower = bench.launch(kernel.delayed, delayed_symbol(kernel.symbol))
    told = results.details.setdefault("trials", {"shape": shape.name, "same bytes": kernel.again == kernel.artifact})
    for cache in (CacheState.COLD, CacheState.HOT):

        def ratio_at(cycles: int, cache: CacheState = cache) -> float:
            set_delay(cycles)
            return bench.compared(slower, base, cache)[1]

        cycles, ratio = find_delay(ratio_at)
        told[f"delay, {cache}"] = {"cycles": cycles, "ratio": ratio}
        print(f"  {cache}: a delay of {cycles} cycles makes it {100 * (ratio - 1):.2f} % slower", flush=True)
        for name, ours, wanted in (
            (f"a variant that is 2 % slower is called SLOW, {cache} cache", slower, SpeedVerdict.SLOW),
            (f"two builds of one source are called SAME, {cache} cache", again, SpeedVerdict.SAME),
        ):
            found = [bench.compared(ours, base, cache) for _ in range(count)]
            right = sum(verdict is wanted for verdict, _ in found)
            told[name] = [{"verdict": verdict, "ratio": ratio} for verdict, ratio in found]
            enough = right >= min(ENOUGH, count)
            results.rows.append(
                Row(
                    f"measurement: {name}",
                    right,
                    count,
                    "trials",
                    "trials",
                    right / count,
                    "at least 19 of 20",
                    enough,
                    count,
                )
            )
            ratios = [ratio for _, ratio in found]
            print(f"  {name}: {right} of {count}, ratios {min(ratios):.4f} to {max(ratios):.4f}", flush=True)


def find_delay(ratio_at: Callable[[int], float]) -> tuple[int, float]:
    """The delay that makes the variant 2 % slower, to a twentieth of that: cycles, and the ratio that was measured.

    Raises CkwatchError where it is slower than that without a delay.
    """
    low, high = 0, 1000
    least = ratio_at(low)
    if least > 1 + SLOWER:
        raise CkwatchError(f"the variant is {100 * (least - 1):.2f} % slower without any delay: choose a larger shape")
    while ratio_at(high) < 1 + SLOWER:
        low, high = high, 2 * high
    for _ in range(12):
        middle = (low + high) // 2
        ratio = ratio_at(middle)
        if abs(ratio - 1 - SLOWER) < SLOWER / 20:
            break
        low, high = (middle, high) if ratio < 1 + SLOWER else (low, middle)
    return middle, ratio


def main() -> int:
    """The exit status: 1 when a step failed; goals that were missed are in the rows."""
    options = _options()
    results = Results()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="ckwatch-measurement-"))
    begun = time.monotonic()

    def step(name: str, do: Callable[[], Any]) -> Any:
        print(f"— {name} (after {time.monotonic() - begun:.0f} s)", flush=True)
        try:
            return do()
        except Exception as error:  # noqa: BLE001  # what the other steps measured is kept
            results.failed.append(name)
            print(f"FAILED in step {name}: {type(error).__name__}: {error}", flush=True)
            if isinstance(error, CkwatchError):
                print(error.hint or "", flush=True)
            elif isinstance(error, BenchmarkError):
                print(error.kind, error.hint, error.detail, flush=True)
            traceback.print_exc(file=sys.stdout)
            return None
        finally:
            _keep(results, options.out)

    built = step("build", lambda: anyio.run(build, INSTANCES, MAIN, folder))
    devices = step("device", cuda.find)
    if devices:
        print(f"  {asdict(devices[0])}", flush=True)
        results.details["device"] = asdict(devices[0])
    if built and devices:
        kernel = built[MAIN]
        if "verify" in options.steps:
            step("verify", lambda: verify(devices[0], list(built.values()), results))
        if "trials" in options.steps:
            step("trials", lambda: trials(devices[0], kernel, options.trials, results))
        if "medians" in options.steps:
            step("medians", lambda: medians(devices[0], kernel, options.runs, results))
    print(f"— done after {time.monotonic() - begun:.0f} s", flush=True)
    show(results.rows)
    return 1 if results.failed or not (built and devices) else 0


def _keep(results: Results, folder: Path) -> None:
    """Write the results so far: a machine may be taken away at any time."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **results.details, "rows": [asdict(row) for row in results.rows]}
    text = json.dumps({**content, "failed": results.failed}, indent=1, default=str)
    (folder / "measurement.json").write_text(text + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", default=list(STEPS), metavar="STEP", help=f"of {', '.join(STEPS)}; all")
    parser.add_argument("--runs", type=int, default=10, help="runs of each timer on each shape")
    parser.add_argument("--trials", type=int, default=20, help="comparisons of each pair")
    parser.add_argument("--folder", help="where artifacts are kept for the next time; a temporary one otherwise")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where measurement.json goes")
    options = parser.parse_args()
    unknown = [name for name in options.steps if name not in STEPS]
    if unknown:
        parser.error(f"there is no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
