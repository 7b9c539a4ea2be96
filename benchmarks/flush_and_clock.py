"""Why does the same GEMM read 320 µs here and less than 300 µs there? Its clock, by what the device does in between.

One GEMM is timed hot, and cold with flushes of 1, 2, 4, 8 and 16 times the last-level cache: behind ckwatch's gate,
where launches follow each other without gaps, and in a plain loop of event pairs that the host fills as it goes. Beside
each time stand the clock and the power that were read meanwhile, what held the clock down, and cycles: the time × the
clock, and on NVIDIA GPUs also those that the device's own counters counted around a launch.

    python -m benchmarks.flush_and_clock [--device cuda:0] [--runs 5] [--size 4096] [--out FOLDER]

The GEMM is the vendor library's, and with nvcc and CUTLASS also that of `examples/cuda`. The rows go to
`flush_and_clock.json` in the folder of results, as a table to standard output.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

from benchmarks.reporting import RESULTS, machine
from ckwatch.bench.guarded_memory import GuardedMemory
from ckwatch.bench.kernel_abi import ArtifactLoader
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.storage import in_memory
from ckwatch.bench.probes.cuda import CudaProbes, CycleCounter
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime, Launch
from ckwatch.bench.runtimes.selection import find_all_devices, runtime_module
from ckwatch.bench.self_test.worker import library_problem
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import MIB, DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem, problem_of

FLUSHES = (0, 1, 2, 4, 8, 16)
"""Times the last-level cache; 0 for a hot cache."""

WARM_UP_S = 0.4
SAMPLES_S = 0.4
BLOCK = 16
COUNTED = 40
CUTLASS = ("gemm_f16", "128x256x32")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """How launches are put on the stream: `flush` times the last-level cache is written before each."""

    gated: bool
    flush: int

    @property
    def name(self) -> str:
        """As it is called in the table."""
        what = "hot" if not self.flush else f"cold, flush of {self.flush} ×"
        return f"{'gate' if self.gated else 'plain loop'}, {what}"


@dataclass(slots=True)
class Reading:
    """One run of one loop. Cycles in thousands; 0 for what cannot be read. `limited`: in which part of the readings the
    clock was held down, by reason."""

    time_us: float
    clock_mhz: float
    power_w: float
    kcycles: float
    counted_kcycles: float
    counted_mhz: float
    limited: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Bench:
    """The device with a GEMM's buffers, and what is written to flush."""

    runtime: DeviceRuntime
    problem: KernelProblem
    flush_address: int = 0
    addresses: dict[str, int] = field(default_factory=dict)
    counter: CycleCounter | None = None
    _fills: int = 0

    def prepare(self) -> None:
        """Allocate everything."""
        runtime, memory = self.runtime, GuardedMemory(self.runtime)
        for buffer in self.problem.buffers:
            self.addresses[buffer.name] = memory.allocate(buffer.name, buffer.size_bytes).address
        for name, elements in make_inputs(self.problem, 1).items():
            runtime.upload(self.addresses[name], in_memory(elements, self.problem.buffer(name).dtype))
        self.flush_address = runtime.allocate(max(FLUSHES) * self.cache_bytes)
        if runtime.facts.kind == "cuda":
            self.counter = CycleCounter(runtime, CudaProbes(runtime.stream, runtime.facts.compute_units))

    @property
    def cache_bytes(self) -> int:
        """The last-level cache, or 64 MiB."""
        return self.runtime.facts.last_level_cache_bytes or 64 * MIB

    def launch_of(self, artifact: bytes, symbol: str) -> Launch:
        """Launches of a shared object's function."""
        function = ArtifactLoader().function(symbol, artifact, symbol, self.problem)
        needed = function.workspace_bytes(self.runtime.stream)
        workspace = self.runtime.allocate(needed) if needed else 0
        return function.launch(self.addresses, workspace, self.runtime.stream)

    def run(self, launch: Launch, loop: Loop) -> Reading:
        """Warm up in this loop, then time in it."""
        self._for(WARM_UP_S, launch, loop)
        times, clocks, powers, limits, readings = self._for(SAMPLES_S, launch, loop)
        clock = statistics.median(clocks) if clocks else 0.0
        time_us = statistics.median(times)
        counted, counted_mhz = self._counted(launch, loop)
        return Reading(
            time_us=time_us,
            clock_mhz=clock,
            power_w=statistics.median(powers) if powers else 0.0,
            kcycles=time_us * clock / 1e3,
            counted_kcycles=counted,
            counted_mhz=counted_mhz,
            limited={name: count / readings for name, count in limits.items()},
        )

    def _for(
        self, seconds: float, launch: Launch, loop: Loop
    ) -> tuple[list[float], list[float], list[float], Counter[str], int]:
        runtime = self.runtime
        pairs = [(runtime.event(), runtime.event()) for _ in range(BLOCK)]
        times: list[float] = []
        clocks: list[float] = []
        powers: list[float] = []
        limits: Counter[str] = Counter()
        readings = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with runtime.gate() if loop.gated else nullcontext():
                for begin, last in pairs:
                    self._flush(loop)
                    runtime.record(begin)
                    launch()
                    runtime.record(last)
            reading = runtime.reading()
            readings += 1
            limits.update(reading.throttled_by)
            if reading.clock_mhz is not None:
                clocks.append(reading.clock_mhz)
            if reading.power_w is not None:
                powers.append(reading.power_w)
            runtime.wait(pairs[-1][1])
            times += [runtime.elapsed_us(begin, last) for begin, last in pairs]
        return times, clocks, powers, limits, readings

    def _flush(self, loop: Loop) -> None:
        if loop.flush:
            self._fills += 1
            self.runtime.fill(self.flush_address, 0x55 * (self._fills % 2), loop.flush * self.cache_bytes)

    def _counted(self, launch: Launch, loop: Loop) -> tuple[float, float]:
        """Thousands of cycles that the SMs counted around a launch, and the clock in MHz that follows; 0 elsewhere."""
        runtime, counter = self.runtime, self.counter
        if counter is None:
            return 0.0, 0.0
        cycles: list[float] = []
        clocks: list[float] = []
        begin, last = runtime.event(), runtime.event()
        for _ in range(COUNTED):
            with runtime.gate() if loop.gated else nullcontext():
                for _ in range(4):  # as the loop does, so that its clock is the loop's
                    self._flush(loop)
                    launch()
                self._flush(loop)
                runtime.record(begin)
                counter.begin()
                launch()
                counter.end()
                runtime.record(last)
            runtime.wait(last)
            counted = counter.kcycles()
            if counted is not None:
                cycles.append(counted)
                clocks.append(counted * 1e3 / runtime.elapsed_us(begin, last))
        return (statistics.median(cycles), statistics.median(clocks)) if cycles else (0.0, 0.0)


def device_of(wanted: str) -> DeviceFacts:
    """The GPU of this name, or the best. Raises CkwatchError."""
    found = [one for one in find_all_devices().devices if one.kind in ("cuda", "hip") and wanted in ("auto", one.name)]
    if not found:
        raise CkwatchError(f"there is no GPU {wanted}", "this needs an NVIDIA or an AMD GPU")
    return found[0]


def library_bench(facts: DeviceFacts, size: int) -> tuple[str, Bench, Launch]:
    """The vendor's GEMM. Raises CkwatchError without one."""
    runtime = runtime_module(facts.kind).open(facts)
    bench = Bench(runtime, library_problem(facts.kind, size, size, size))
    bench.prepare()
    launch = runtime.library(bench.problem, bench.addresses)
    if launch is None:
        raise CkwatchError("the vendor's library is not installed", "cuBLAS, hipBLASLt or rocBLAS")
    return f"{runtime.library_name}, {size}³", bench, launch


def cutlass_bench(facts: DeviceFacts, size: int, folder: Path) -> tuple[str, Bench, Launch]:
    """The GEMM of `examples/cuda`. Raises CkwatchError where it cannot be built."""
    from benchmarks.cuda_kernels import build

    kernel_name, instance = CUTLASS
    kernel = anyio.run(build, {kernel_name: instance}, "", folder)[kernel_name]
    shape = next((one for one in kernel.shapes if one.name == str(size)), None)
    if shape is None:
        raise CkwatchError(f"examples/cuda has no shape {size} of {kernel_name}")
    runtime = runtime_module(facts.kind).open(facts)
    bench = Bench(runtime, problem_of(kernel.unit.kernel.operation, shape, kernel.unit.arch))
    bench.prepare()
    return f"CUTLASS {instance}, {size}³", bench, bench.launch_of(kernel.artifact, kernel.symbol)


def table(name: str, found: dict[str, list[Reading]]) -> list[str]:
    """Rows for people: medians over the runs, with the spread of the times."""

    figures: tuple[tuple[str, Callable[[Reading], float], str, bool], ...] = (
        ("time", lambda one: one.time_us, "{:.1f} µs", True),
        ("clock", lambda one: one.clock_mhz, "{:.0f} MHz", False),
        ("power", lambda one: one.power_w, "{:.0f} W", False),
        ("cycles", lambda one: one.kcycles, "{:.1f} k", True),
        ("counted cycles", lambda one: one.counted_kcycles, "{:.1f} k", True),
        ("counted clock", lambda one: one.counted_mhz, "{:.0f} MHz", False),
    )
    heading = [cell for title, _, _, spread in figures for cell in ([title, "spread"] if spread else [title])]
    lines = [
        f"{name}, {len(next(iter(found.values())))} runs",
        "",
        f"| loop | {' | '.join(heading)} | held down by |",
        f"|---|{'---|' * (len(heading) + 1)}",
    ]
    for loop, readings in found.items():
        cells = [loop]
        for _, value, text, spread in figures:
            values = [value(one) for one in readings]
            middle = statistics.median(values)
            cells.append(text.format(middle))
            if spread:
                cells.append(f"{(max(values) - min(values)) / (middle or 1):.2%}")
        parts = {
            reason: statistics.median(one.limited.get(reason, 0.0) for one in readings)
            for reason in sorted({reason for one in readings for reason in one.limited})
        }
        cells.append(", ".join(f"{reason} {part:.0%}" for reason, part in parts.items()) or "nothing")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> int:
    """The exit status: 2 where nothing could be timed."""
    options = _options()
    try:
        facts = device_of(options.device)
    except (CkwatchError, BenchmarkError) as error:
        print(f"{error.message}; {error.hint or ''}", file=sys.stderr)
        return 2
    print(
        f"{facts.description}, driver {facts.driver}, {facts.last_level_cache_bytes / MIB:.0f} MiB of cache", flush=True
    )
    content: dict[str, object] = {"machine": machine(), "device": asdict(facts), "runs": options.runs}
    kernels: dict[str, dict[str, list[dict[str, object]]]] = {}
    content["kernels"] = kernels
    loops = [Loop(gated=gated, flush=flush) for gated in (True, False) for flush in FLUSHES]
    folder = Path(options.folder or tempfile.mkdtemp(prefix="ckwatch-flush-and-clock-"))
    made: list[Callable[[], tuple[str, Bench, Launch]]] = [lambda: library_bench(facts, options.size)]
    if facts.kind == "cuda" and not options.library_only:
        made.append(lambda: cutlass_bench(facts, options.size, folder))
    for make in made:
        try:
            name, bench, launch = make()
        except (CkwatchError, BenchmarkError) as error:
            print(f"left out: {error.message}", flush=True)
            continue
        found: dict[str, list[Reading]] = {loop.name: [] for loop in loops}
        for number in range(options.runs):
            for loop in loops if number % 2 == 0 else loops[::-1]:
                found[loop.name].append(bench.run(launch, loop))
            print(f"  run {number + 1} of {options.runs} done", flush=True)
        content["versions"] = bench.runtime.versions
        kernels[name] = {loop: [asdict(one) for one in readings] for loop, readings in found.items()}
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "flush_and_clock.json").write_text(json.dumps(content, indent=1, default=str) + "\n")
        print("\n".join(["", *table(name, found), ""]), flush=True)
    return 0 if kernels else 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="cuda:N or hip:N; the best by default")
    parser.add_argument("--runs", type=int, default=5, help="runs of each loop, in turns")
    parser.add_argument("--size", type=int, default=4096, help="M, N and K")
    parser.add_argument("--library-only", action="store_true", help="leave CUTLASS's GEMM out")
    parser.add_argument("--folder", help="where artifacts are kept for the next time; a temporary one otherwise")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where flush_and_clock.json goes")
    options = parser.parse_args()
    if options.runs < 1 or options.size < 64:
        parser.error("--runs is at least 1, and --size at least 64")
    return options


if __name__ == "__main__":
    sys.exit(main())
