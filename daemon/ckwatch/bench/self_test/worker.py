"""The worker's side of the self-test: one function for each assumption, on an open device.

A function returns what it found. What it raises is a failure of the assumption, with the error's words; a worker that
is lost with it is the session's business.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, replace
from functools import partial

import numpy as np

from ckwatch.bench import run_job
from ckwatch.bench.event_noise import event_times_us, noise_floor
from ckwatch.bench.guarded_memory import GUARD_BYTES, GuardedMemory
from ckwatch.bench.job import Contestant, Job, Precision, SelfTestJob, SelfTestStep
from ckwatch.bench.kernel_abi import ArtifactLoader
from ckwatch.bench.leases import Lease, lease
from ckwatch.bench.numerics.comparison import OutputCheck, WrongResultError
from ckwatch.bench.numerics.inputs import make_inputs
from ckwatch.bench.numerics.row_verification import reference_of
from ckwatch.bench.numerics.storage import in_memory, poison
from ckwatch.bench.numerics.verification import check_written
from ckwatch.bench.probes.kernels import SPIN_CYCLES, ProbeKernels, probe_kernels
from ckwatch.bench.progress import Progress
from ckwatch.bench.report import DeviceReading, FailureKind, Samples
from ckwatch.bench.runtimes.cpu import OTHER_PROCESSES
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime, Launch
from ckwatch.bench.runtimes.hip_api import explained_status
from ckwatch.bench.sampling import ContestantRunner, Sampler
from ckwatch.bench.stats.comparison import SpeedVerdict, centre_and_interval, compare_interleaved
from ckwatch.bench.stats.noise_floor import jitter_us, resolution_us
from ckwatch.bench.stats.summary import median, summarize
from ckwatch.bench.worker_protocol import SelfTestDone, StepTried
from ckwatch.model import self_test as names
from ckwatch.model.contractions import matrix_view
from ckwatch.model.gpu_specs import MIB, specs_of
from ckwatch.model.kernel_problem import Buffer, Gemm, KernelProblem, TensorView, is_fnuz
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import CacheState
from ckwatch.model.self_test import AssumptionTrial, TrialOutcome
from ckwatch.model.tensors import DTYPES
from ckwatch.model.version import __version__

OnStage = Callable[[str, str], None]
Figures = dict[str, float | int | str]

PROBE = "the probe"
"""Whose fault it is when a probe that is to fail takes the worker along."""

SLEEP_S = 0.3
GATE_S = 0.03
CLOCK_SHARE = 0.002
"""By how much of a time the events' clock may differ from the host's, which is read beside it."""

CLOCK_SLACK_S = 0.001
RESOLUTION_LIMIT_US = 2.0
BUSY_S = 1.0
LIBRARY_SIZES = ((512, 512, 512), (392, 280, 328))
REPEATED_SIZE = 4096
CPU_REPEATED_SIZE = 192
TRIALS = 200
SAME_SHARE = 0.99
CACHE_STEP = 2**0.5
READ_BYTES = 1 << 30
CPU_READ_BYTES = 1 << 28
KNEE_LEAST = 1.15
"""Bandwidth from the cache over that from memory below which no size is read off."""

KNEE_FACTORS = (0.3, 2.0)
COLD_LEAST = 1.02

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


Found = tuple[TrialOutcome, str, Figures]
"""A function's finding in a sentence, and the figures that it rests on."""


def passed_if(holds: bool, sentence: str, figures: Figures | None = None) -> Found:
    return TrialOutcome.PASSED if holds else TrialOutcome.FAILED, sentence, figures or {}


passed, failed = partial(passed_if, True), partial(passed_if, False)


class _SkippedError(Exception):
    """It cannot be tried, or does not concern this device; and the figures that say so."""

    def __init__(self, sentence: str, figures: Figures | None = None) -> None:
        super().__init__(sentence)
        self.figures = figures or {}


@dataclass(slots=True)
class TestedDevice:
    """The device and tools that the functions work with."""

    job: SelfTestJob
    artifacts: Sequence[bytes]
    runtime: DeviceRuntime
    held: Lease
    at: OnStage
    probes_found: ProbeKernels | str | None = None

    __test__ = False  # it is no test of pytest's

    @property
    def probes(self) -> ProbeKernels:
        """The probe kernels. Skips what needs them where there are none."""
        if self.probes_found is None:
            number = self.job.probes
            self.probes_found = probe_kernels(self.runtime, None if number is None else self.artifacts[number])
        if isinstance(self.probes_found, str):
            raise _SkippedError(f"there are no probe kernels: {self.probes_found}")
        return self.probes_found


def self_test(job: SelfTestJob, artifacts: Sequence[bytes], whereabouts: Progress) -> SelfTestDone:
    """Try the steps of `job`; what each has shown is reported at once. The device stays this process's. Raises
    BenchmarkError."""
    held, runtime = run_job.open_device(job, time.monotonic() + job.lease_wait_s, whereabouts)
    run_steps(job, artifacts, runtime, held, whereabouts.at, whereabouts.tell)
    return SelfTestDone(device=runtime.facts, versions={**runtime.versions, "ckwatch": __version__})


def run_steps(
    job: SelfTestJob,
    artifacts: Sequence[bytes],
    runtime: DeviceRuntime,
    held: Lease,
    at: OnStage,
    tell: Callable[[StepTried], None],
) -> None:
    """Try each step of `job`, and `tell` what it has shown. Raises BenchmarkError only from the steps that are to fail
    (`names.FAULT` and its kin)."""
    tested = TestedDevice(job, artifacts, runtime, held, at)
    for number, step in enumerate(job.steps):
        at(f"trying {step.assumption}{f' ({step.name})' if step.name else ''}", "")
        begin = time.monotonic()
        outcome, sentence, figures = _tried(tested, step)
        tell(
            StepTried(
                number=number,
                trial=AssumptionTrial(
                    assumption=step.assumption,
                    subject=step.name,
                    outcome=outcome,
                    found=sentence,
                    figures={name: _short(value) for name, value in figures.items()},
                    seconds=round(time.monotonic() - begin, 3),
                ),
            )
        )


def _tried(tested: TestedDevice, step: SelfTestStep) -> Found:
    provoked = step.assumption in (names.FAULT, names.HANG, names.CRASH)
    try:
        if not provoked:
            return FUNCTIONS[step.assumption](tested, step)
        _provoke(tested, step.assumption)
        return failed("it did not fail, as it should have")
    except _SkippedError as skip:
        return TrialOutcome.SKIPPED, str(skip), skip.figures
    except BenchmarkError as error:
        if provoked:
            raise
        if error.kind is FailureKind.NO_MEMORY:
            return TrialOutcome.SKIPPED, error.message, {}
        detail = error.detail.strip().partition("\n")[0]
        return failed(f"{error.kind}: {error.message}{f' ({detail})' if detail else ''}")
    except MemoryError:
        return TrialOutcome.SKIPPED, "the host has too little memory", {}
    except Exception as error:  # noqa: BLE001  # a bug of ours is no reason to try nothing else
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"line {place.lineno} of {place.name}"
        return failed(f"the self-test itself failed: {type(error).__name__}: {error} ({where})")


def _provoke(tested: TestedDevice, assumption: str) -> None:
    """Do what is to take the worker along."""
    if assumption == names.CRASH:
        act: Callable[[], object] = partial(ctypes.memset, 0x10, 1, 1)
    else:
        act = tested.probes.fault if assumption == names.FAULT else partial(tested.probes.spin, SPIN_CYCLES)
    tested.at(f"provoking a {assumption}", PROBE)
    act()
    tested.runtime.synchronize()


def _short(value: float | str) -> float | int | str:
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value


# What the runtime says of the device.


def _properties(tested: TestedDevice, _step: SelfTestStep) -> Found:
    facts = tested.runtime.facts
    figures: Figures = {name: value for name, value in asdict(facts).items() if name not in ("name", "pci", "machine")}
    if facts.kind == "cpu":
        known = facts.compute_units > 0 and facts.total_memory_bytes > 0
        cache = f"{facts.last_level_cache_bytes / MIB:.1f} MiB of cache" if facts.last_level_cache_bytes else "no cache"
        sentence = f"the system reports {facts.compute_units} processors and {cache}"
        return passed_if(known, sentence, figures)
    wrong = [
        what
        for what, right in (
            (f"the arch `{facts.arch}` is none", re.fullmatch(r"gfx[0-9a-f]{3,5}(:.*)?|sm_\d{2,3}", facts.arch)),
            (f"the PCI address `{facts.pci}` is none", _PCI.fullmatch(facts.pci or "")),
            (f"a clock of {facts.clock_mhz:.0f} MHz", 200 <= facts.clock_mhz <= 6000),
            (f"{facts.total_memory_bytes} bytes of memory", facts.total_memory_bytes >= 1 << 30),
        )
        if not right
    ]  # fmt: skip
    part = specs_of(facts)
    if part is None:
        sentence = f"no data sheet of {facts.description} ({facts.arch}) is known here"
        if wrong:
            return failed("; ".join(wrong), figures)
        raise _SkippedError(sentence, figures)
    figures |= {
        "sheet": part.source,
        "sheet_compute_units": part.compute_units,
        "sheet_local_memory_bytes": part.local_memory_bytes,
        "sheet_last_level_cache_bytes": part.last_level_cache_bytes,
        "sheet_clock_mhz": part.clock_mhz,
    }
    for what, own, sheet, least, most in (
        ("compute units", facts.compute_units, part.compute_units, 1.0, 1.0),
        ("bytes of LDS or shared memory", facts.local_memory_bytes, part.local_memory_bytes, 0.98, 1.02),
        ("bytes of last-level cache", facts.last_level_cache_bytes, part.last_level_cache_bytes, 0.5, 1.5),
        ("MHz", facts.clock_mhz, part.clock_mhz, 0.7, 1.3),
    ):
        if not least * sheet <= own <= most * sheet:
            wrong.append(f"{own:,.0f} {what}, where the data sheet says {sheet:,.0f}")
    if wrong:
        return failed("; ".join(wrong), figures)
    cache = f"{facts.last_level_cache_bytes / MIB:.0f} MiB of last-level cache"
    return passed(
        f"{part.name}: {facts.arch}, {facts.compute_units} compute units, {facts.local_memory_bytes >> 10} KiB of "
        f"local memory, {cache}, {facts.clock_mhz:.0f} MHz",
        figures,
    )


def _lease(tested: TestedDevice, _step: SelfTestStep) -> Found:
    again = lease(tested.runtime.facts.identity, "the self-test", wait_s=0.0, waiting=lambda _holder: None)
    if again is not None:
        again.release()
        return failed("the device was leased a second time while it was held")
    if tested.held.warning:
        return failed("the lock does not keep all users of this machine apart; `ckwatch bench` says why")
    return passed("while it is held, no other process gets it")


def _others(tested: TestedDevice, _step: SelfTestStep) -> Found:
    others = tested.runtime.others()
    if others:
        return failed(f"{len(others)} other processes compute on it", {"processes": len(others)})
    return passed("no other process is seen", {"processes": 0})


# Memory.


@contextmanager
def _guarded(runtime: DeviceRuntime, memory: GuardedMemory | None = None) -> Iterator[GuardedMemory]:
    """Yield memory, new unless given, that is given back when the device uses nothing any more."""
    memory = memory or GuardedMemory(runtime)
    try:
        yield memory
    except BaseException:
        with suppress(BenchmarkError):  # the first error is the one that counts
            runtime.synchronize()
            memory.free()
        raise
    runtime.synchronize()
    memory.free()


def _between_events_us(runtime: DeviceRuntime, launch: Launch, before: Launch | None = None) -> float:
    """Microseconds between an event before a launch and one behind it, queued together behind `before`."""
    begin, end = runtime.event(), runtime.event()
    with runtime.gate():
        if before is not None:
            before()
        runtime.record(begin)
        launch()
        runtime.record(end)
    runtime.wait(end)
    return runtime.elapsed_us(begin, end)


def _copies(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime, size = tested.runtime, 1 << 20
    with _guarded(runtime) as memory:
        buffer = memory.allocate("copies", size)
        there = np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8)
        back = np.zeros(size, dtype=np.uint8)
        runtime.upload(buffer.address, there)
        runtime.fill(buffer.address, 0x5A, size // 2)
        runtime.download(buffer.address, back)
        there[: size // 2] = 0x5A
        wrong = int(np.count_nonzero(there != back))
        memory.check()
        aligned = (buffer.address - GUARD_BYTES) % 256 == 0
    if wrong:
        return failed(f"{wrong:,} of {size:,} bytes came back wrong")
    return passed("1 MiB came back as it should") if aligned else failed("memory is not aligned to 256 bytes")


def _guards(tested: TestedDevice, _step: SelfTestStep) -> Found:
    with _guarded(tested.runtime) as memory:
        buffer = memory.allocate("the probed buffer", 1000)
        tested.runtime.fill(buffer.address, 0, buffer.size_bytes)
        memory.check()
        missed = [
            where
            for where, at in (("before", buffer.address - 1), ("behind", buffer.address + buffer.size_bytes))
            if not _is_found(tested.runtime, memory, at)
        ]
    if missed:
        return failed(f"one byte written {' and '.join(missed)} a buffer was not found")
    return passed("one byte written before a buffer was found, and one behind it")


def _is_found(runtime: DeviceRuntime, memory: GuardedMemory, address: int) -> bool:
    runtime.fill(address, 0, 1)
    try:
        memory.check()
    except BenchmarkError as error:
        return error.kind is FailureKind.OUT_OF_BOUNDS
    return False


def _poison(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime = tested.runtime
    problem = library_problem(runtime.facts.kind, 32, 32, 32)
    buffer = problem.buffer("Y")
    fnuz = is_fnuz(runtime.facts.arch)
    missed = []
    with _guarded(runtime) as memory:
        address = memory.allocate("an output", buffer.size_bytes).address
        for what, written in (("nothing", 0), ("all but one element", buffer.elements - 1)):
            outputs = poison(buffer, fnuz)
            as_bytes = in_memory(outputs, buffer.dtype)
            runtime.upload(address, as_bytes)
            runtime.fill(address, 0, buffer.size_bytes // buffer.elements * written)
            runtime.download(address, as_bytes)
            try:
                check_written(problem, {buffer.name: outputs}, fnuz)
                missed.append(what)
            except WrongResultError as wrong:
                if wrong.kind is not FailureKind.UNWRITTEN:
                    missed.append(what)
    if missed:
        return failed(f"that {' and '.join(missed)} was written was not noticed")
    return passed("an output that nothing wrote was found, and one that lacked an element")


# Events and the gate.


def _gate(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime = tested.runtime
    state = runtime.versions.get("gate", "")
    figures: Figures = {"gate": state}
    before, begin, end = runtime.event(), runtime.event(), runtime.event()
    with _guarded(runtime) as memory:
        address = memory.allocate("a page", 4096).address
        runtime.fill(address, 0, 4096)
        runtime.synchronize()
        runtime.record(before)
        with runtime.gate():
            runtime.record(begin)
            runtime.fill(address, 1, 4096)
            time.sleep(GATE_S)  # what the host does between two launches
            runtime.record(end)
        runtime.wait(end)
        held_us, inside_us = runtime.elapsed_us(before, begin), runtime.elapsed_us(begin, end)
    figures |= {"held_us": held_us, "inside_us": inside_us}
    sentence = (
        f"{state}: while the host took {GATE_S * 1e3:.0f} ms to queue two launches the stream was held back for "
        f"{held_us / 1e3:.1f} ms, and {inside_us:.1f} us lay between its events"
    )
    holds = held_us >= 0.8 * GATE_S * 1e6 and inside_us <= 0.2 * GATE_S * 1e6
    return passed_if(holds, sentence, figures)


def _resolution(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime = tested.runtime
    empty: list[float] = []
    filled: list[float] = []
    for _ in range(4):
        some, others = event_times_us(runtime)
        empty += some
        filled += others
    resolution, jitter, middle = resolution_us([*empty, *filled]), jitter_us(empty), median(empty)
    figures: Figures = {
        "resolution_us": resolution,
        "jitter_us": jitter,
        "empty_pair_us": middle,
        "events": runtime.versions.get("events", "default flags"),
    }
    sentence = (
        f"times differ by {resolution:.3g} us at least; a pair of events with nothing between takes "
        f"{middle:.3g} us, half of them within {jitter:.3g} us; events {figures['events']}"
    )
    if resolution == 0:
        return failed("all event pairs took the same time, whatever was between them", figures)
    return passed_if(resolution <= RESOLUTION_LIMIT_US, sentence, figures)


def _order(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime = tested.runtime
    events = [runtime.event() for _ in range(50)]
    with _guarded(runtime) as memory:
        address = memory.allocate("memory", 1 << 16).address
        with runtime.gate():
            for number, event in enumerate(events):
                runtime.fill(address, number, 1 << 16)
                runtime.record(event)
        runtime.wait(events[-1])
        times = [runtime.elapsed_us(events[0], event) for event in events]
    back = sum(second < first for first, second in itertools.pairwise(times))
    if back:
        return failed(f"{back} of {len(events)} events lay before the one that was recorded earlier")
    return passed(f"{len(events)} events in order, over {times[-1]:.1f} us", {"span_us": times[-1]})


def _event_clock(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime = tested.runtime
    begin, end = runtime.event(), runtime.event()
    runtime.record(begin)
    runtime.wait(begin)
    began = time.perf_counter()
    time.sleep(SLEEP_S)
    runtime.record(end)
    runtime.wait(end)
    host_us = (time.perf_counter() - began) * 1e6
    device_us = runtime.elapsed_us(begin, end)
    figures: Figures = {"host_us": host_us, "device_us": device_us, "ratio": device_us / host_us}
    sentence = f"{device_us / 1e3:.2f} ms by events, {host_us / 1e3:.2f} ms by the host's clock"
    close = abs(device_us - host_us) <= CLOCK_SHARE * host_us + CLOCK_SLACK_S * 1e6
    return passed_if(close, sentence, figures)


# Clocks and power.


def _under_load(tested: TestedDevice) -> tuple[list[DeviceReading], float]:
    """Readings in `BUSY_S` while the vendor's GEMM runs, or fills of memory, and the seconds that one takes."""
    runtime, found, reading_s = tested.runtime, list[DeviceReading](), 0.0
    with _guarded(runtime) as memory:
        launch = _load(tested, memory)
        last = runtime.event()
        end = time.monotonic() + BUSY_S
        while time.monotonic() < end:
            begun = time.monotonic()
            while time.monotonic() - begun < 0.002:
                launch()
            runtime.record(last)
            before = time.perf_counter()
            found.append(runtime.reading())
            reading_s += time.perf_counter() - before
            runtime.wait(last)
    return found, reading_s / len(found)


def _load(tested: TestedDevice, memory: GuardedMemory) -> Launch:
    runtime = tested.runtime
    size = 384 if runtime.facts.kind == "cpu" else 2048
    library, _ = _library_launch(tested, memory, library_problem(runtime.facts.kind, size, size, size))
    if library is not None:
        return library
    buffer = memory.allocate("memory", 1 << 24)
    return partial(runtime.fill, buffer.address, 1, buffer.size_bytes)


def _uploaded(tested: TestedDevice, memory: GuardedMemory, problem: KernelProblem) -> dict[str, int]:
    """The addresses of a problem's buffers, with inputs."""
    addresses = {buffer.name: memory.allocate(buffer.name, buffer.size_bytes).address for buffer in problem.buffers}
    for name, elements in make_inputs(problem, 1, is_fnuz(tested.runtime.facts.arch)).items():
        tested.runtime.upload(addresses[name], in_memory(elements, problem.buffer(name).dtype))
    return addresses


def _library_launch(
    tested: TestedDevice, memory: GuardedMemory, problem: KernelProblem
) -> tuple[Launch | None, dict[str, int]]:
    """The vendor's GEMM, None where there is none, and the addresses of its buffers."""
    addresses = _uploaded(tested, memory, problem)
    return tested.runtime.library(problem, addresses), addresses


def _clocks(tested: TestedDevice, _step: SelfTestStep) -> Found:
    found, reading_s = _under_load(tested)
    versions = tested.runtime.versions
    source = next((f"{name} {versions[name]}" for name in ("NVML", "amdsmi") if name in versions), "the system")
    clocks = [one.clock_mhz for one in found if one.clock_mhz is not None]
    if not clocks:
        sentence = f"no clock can be read ({source})"
        if tested.runtime.facts.kind == "cpu":
            raise _SkippedError(sentence)
        return failed(sentence)
    figures: Figures = {
        "source": source,
        "readings": len(found),
        "reading_us": reading_s * 1e6,
        "changes_per_s": sum(first != second for first, second in itertools.pairwise(clocks)) / BUSY_S,
        "clock_median_mhz": median(clocks),
        "clock_least_mhz": min(clocks),
        "clock_most_mhz": max(clocks),
    }
    if temperatures := [one.temperature_c for one in found if one.temperature_c is not None]:
        figures["temperature_c"] = max(temperatures)
    return passed(
        f"{source}: {len(found)} readings in {BUSY_S:g} s, each {reading_s * 1e3:.2f} ms; "
        f"{median(clocks):.0f} MHz under load ({min(clocks):.0f} to {max(clocks):.0f})",
        figures,
    )


def _power(tested: TestedDevice, _step: SelfTestStep) -> Found:
    found, _ = _under_load(tested)
    throttled = Counter(reason for one in found for reason in one.throttled_by)
    figures: Figures = {f"limited_by_{reason}": count for reason, count in throttled.items()}
    figures["readings"] = len(found)
    limits = ", ".join(f"{reason} in {count} of {len(found)} readings" for reason, count in throttled.items())
    held = f"the clock was held down by {limits}" if limits else "nothing held the clock down"
    powers = [one.power_w for one in found if one.power_w is not None]
    if not powers:
        return failed(f"no power can be read; {held}", figures)
    figures |= {"power_median_w": median(powers), "power_most_w": max(powers)}
    return passed(f"{median(powers):.0f} W under load, {max(powers):.0f} W at most; {held}", figures)


# The library.


def library_problem(kind: str, m: int, n: int, k: int) -> KernelProblem:
    """Y = X · W with f32 sums, X and Y row-major, W column-major."""
    dtype = "f32" if kind == "cpu" else "f16"  # what each library multiplies fastest and everywhere
    tensors = (("X", (m, k), (k, 1)), ("W", (k, n), (1, k)), ("Y", (m, n), (n, 1)))
    views = tuple(TensorView(buffer=name, sizes=sizes, strides=strides) for name, sizes, strides in tensors)
    x, w, y = (matrix_view(name, sizes, strides) for name, sizes, strides in tensors)
    return KernelProblem(
        buffers=tuple(
            Buffer(name=name, dtype=dtype, elements=rows * columns, output=name == "Y")
            for name, (rows, columns), _ in tensors
        ),
        views=views,
        arguments=(),
        computed=Gemm(x=x, w=w, y=y, accumulator="f32"),
        flops=2 * m * n * k,
        bytes_moved=DTYPES[dtype].bytes_for(m * k + k * n + m * n),
    )


def _library(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime = tested.runtime
    compared, worst = 0, 0.0
    for sizes in LIBRARY_SIZES:
        problem = library_problem(runtime.facts.kind, *sizes)
        try:
            checked = _library_check(tested, problem)
        except WrongResultError as wrong:
            return failed(f"{runtime.library_name}: {wrong.message} ({'x'.join(map(str, sizes))})")
        compared, worst = compared + checked.compared, max(worst, checked.worst_error)
    return passed(
        f"{runtime.library_name}: {compared:,} elements are right, the worst at {100 * worst:.0f} % of the tolerance",
        {"library": runtime.library_name, "compared": compared, "worst_error": worst},
    )


def _library_check(tested: TestedDevice, problem: KernelProblem) -> OutputCheck:
    """The vendor's GEMM compared. Raises WrongResultError."""
    runtime = tested.runtime
    fnuz = is_fnuz(runtime.facts.arch)
    with _guarded(runtime) as memory:
        launch, addresses = _library_launch(tested, memory, problem)
        if launch is None:
            raise _SkippedError(f"there is no library for a GEMM of {problem.buffers[0].dtype}")
        buffer = problem.buffer("Y")
        outputs = poison(buffer, fnuz)
        as_bytes = in_memory(outputs, buffer.dtype)
        runtime.upload(addresses["Y"], as_bytes)
        launch()
        runtime.synchronize()
        runtime.download(addresses["Y"], as_bytes)
        memory.check()
    reference = reference_of(problem, make_inputs(problem, 1, fnuz), 1 << 30, 1)
    assert reference is not None  # noqa: S101  # what a GEMM computes is known
    return reference.check({"Y": outputs})


# Caches.


def _cache_size(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime, probes = tested.runtime, tested.probes
    reported = runtime.facts.last_level_cache_bytes
    if not reported:
        raise _SkippedError("the runtime reports no last-level cache")
    flush = run_job.flush_bytes(runtime.facts, reported)
    largest = min(int(4 * reported), runtime.free_memory_bytes() // 4) // 4096 * 4096
    if largest < 2 * reported:
        raise _SkippedError("there is too little free memory for working sets of twice the cache")
    with _guarded(runtime) as memory:
        address = memory.allocate("memory", largest).address
        runtime.fill(address, 1, largest)
        bandwidths = [
            (size, _bandwidth_gbps(runtime, probes, address, size)) for size in working_sets(reported // 16, largest)
        ]
    figures: Figures = {f"gbps_at_{size / MIB:.3g}_mib": gbps for size, gbps in bandwidths}
    figures["reported_mib"] = reported / MIB
    found = cache_knee(bandwidths)
    if isinstance(found, str):
        raise _SkippedError(found, figures)
    figures["found_mib"] = found / MIB
    sentence = (
        f"reads slow down beyond {found / MIB:.3g} MiB; the runtime reports {reported / MIB:.3g} MiB, and "
        f"{flush / MIB:.4g} MiB are written to flush it"
    )
    least, most = KNEE_FACTORS
    fits = found <= flush and least * reported <= found <= most * reported
    return passed_if(fits, sentence, figures)


def working_sets(smallest: int, largest: int) -> list[int]:
    """Sizes from `smallest` to `largest`, each about 1.4 times the last, in whole pages."""
    count = max(1, math.floor(math.log(largest / max(smallest, 4096), CACHE_STEP) + 1e-9))
    sizes = {max(4096, round(largest / CACHE_STEP**number / 4096) * 4096) for number in range(count + 1)}
    return sorted(sizes)


def cache_knee(bandwidths: Sequence[tuple[int, float]]) -> float | str:
    """The working set at which the bandwidth has fallen half of the way, as a ratio, from the cache's to the memory's.

    `bandwidths` ascend by size, the last three beyond the cache. Else why there is none: the two are nearly the
    same, or the bandwidth falls and rises again.
    """
    slow = median([gbps for _, gbps in bandwidths[-3:]])
    within = bandwidths[:-3]
    # the largest, not the smallest sets: those may be limited by launches
    peak = max(range(len(within)), key=lambda at: within[at][1]) if within else 0
    if not within or within[peak][1] < KNEE_LEAST * slow:
        return "the bandwidth does not drop where working sets outgrow the cache"
    limit = math.sqrt(within[peak][1] * slow)
    falls = [(one, other) for one, other in itertools.pairwise(bandwidths[peak:]) if one[1] >= limit > other[1]]
    if len(falls) != 1 or bandwidths[-1][1] >= limit:
        return "the bandwidth falls and rises again: the device was not at rest"
    ((size, gbps), (beyond, lower)) = falls[0]
    share = math.log(gbps / limit) / math.log(gbps / lower)
    return float(size * (beyond / size) ** share)


def _bandwidth_gbps(runtime: DeviceRuntime, probes: ProbeKernels, address: int, size: int) -> float:
    wanted = CPU_READ_BYTES if runtime.facts.kind == "cpu" else READ_BYTES
    passes = max(2, round(wanted / size))
    once, often = (partial(probes.read, address, size, count) for count in (1, passes))
    return size * passes / min(_between_events_us(runtime, often, once) for _ in range(3)) / 1e3


BRIEF = Precision(warm_up_s=0.1, minimum_s=0.1, budget_s=1.0, relative_error=0.002)


def _sampler(tested: TestedDevice, memory: GuardedMemory, precision: Precision, *, cold: bool) -> Sampler:
    facts = tested.runtime.facts
    size = run_job.flush_bytes(facts, facts.last_level_cache_bytes or run_job.UNKNOWN_CACHE_BYTES) if cold else 0
    return Sampler(tested.runtime, precision, memory.allocate("the memory for flushing caches", size), tested.at)


def _sampled(sampler: Sampler, launch: Launch, cache: CacheState) -> Samples:
    runner = ContestantRunner(PROBE, launch)
    warm = sampler.warm_up([runner], cache)
    return sampler.sample([runner], cache, warm.clock_mhz)[0]


def _flush(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime, probes = tested.runtime, tested.probes
    reported = runtime.facts.last_level_cache_bytes or 32 * MIB
    size = max(1 << 16, reported // 4) // 4096 * 4096
    with _guarded(runtime) as memory:
        buffer = memory.allocate("the working set", size)
        sampler = _sampler(tested, memory, BRIEF, cold=True)
        medians = {
            cache: summarize(_sampled(sampler, lambda: probes.read(buffer.address, size, 1), cache).times_us).median_us
            for cache in (CacheState.HOT, CacheState.COLD)
        }
    cold, hot = medians[CacheState.COLD], medians[CacheState.HOT]
    figures: Figures = {"working_set_mib": size / MIB, "cold_us": cold, "hot_us": hot, "ratio": cold / hot}
    sentence = f"{size / MIB:.3g} MiB are read in {hot:.4g} us from the cache, and in {cold:.4g} us after a flush"
    return passed_if(cold >= COLD_LEAST * hot, sentence, figures)


FLUSHED_ROUNDS = 9
"""The difference is some hundredths of a small GEMM's time; its interval of 95 % has to lie above none."""


def _instructions(tested: TestedDevice, _step: SelfTestStep) -> Found:
    runtime, probes = tested.runtime, tested.probes
    with _guarded(runtime) as memory:
        size = 256
        library, _ = _library_launch(tested, memory, library_problem(runtime.facts.kind, size, size, size))
        buffer = memory.allocate("memory", 1 << 12)
        launch = library or (lambda: probes.read(buffer.address, buffer.size_bytes, 1))
        probes.flush_instructions()
        runtime.synchronize()
        flush = memory.allocate("nothing", 0)
        medians: dict[bool, list[float]] = {False: [], True: []}

        def flush_ten_times() -> None:
            for _ in range(10):
                probes.flush_instructions()

        for _ in range(FLUSHED_ROUNDS):
            for flushed in (False, True):
                sampler = Sampler(
                    runtime,
                    BRIEF,
                    flush,
                    tested.at,
                    flush_instructions=probes.flush_instructions if flushed else None,
                )
                medians[flushed].append(summarize(_sampled(sampler, launch, CacheState.HOT).times_us).median_us)
        flush_us = _between_events_us(runtime, flush_ten_times) / 10
    warm, cold = median(medians[False]), median(medians[True])
    ratios = [math.log(after / before) for before, after in zip(medians[False], medians[True], strict=True)]
    least, centre, _ = centre_and_interval(ratios)
    figures: Figures = {
        "warm_us": warm,
        "flushed_us": cold,
        "flush_us": flush_us,
        "ratio": math.exp(centre),
        "ratio_least": math.exp(least),
    }
    what = f"a GEMM of {size}³" if library is not None else "a read of 4 KiB"
    sentence = f"{what} takes {warm:.4g} us, and {cold:.4g} us after a flush, which takes {flush_us:.4g} us itself"
    return passed_if(least > 0, sentence, figures)


# Kernels.


def _job(tested: TestedDevice, step: SelfTestStep, problem: KernelProblem) -> Job:
    return Job(
        device=tested.job.device,
        kind=tested.job.kind,
        arch=tested.job.arch,
        problem=problem,
        contestants=step.contestants,
        seeds=(1,),
        full_check_macs=1 << 27,
        threads=tested.job.threads,
    )


def _numerics(tested: TestedDevice, step: SelfTestStep) -> Found:
    refused = ""
    for problem in step.problems:
        sizes = ", ".join(f"{one.name}={one.value}" for one in problem.arguments if one.buffer is None)
        try:
            measurement = run_job.Measurement(tested.runtime, _job(tested, step, problem), tested.at)
            (found,) = measurement.verify(tested.artifacts)
        except BenchmarkError as error:
            if error.kind is FailureKind.REFUSED:
                refused = error.message
                continue
            raise
        figures: Figures = {"sizes": sizes, "workspace_bytes": found.workspace_bytes}
        verification = found.verification
        if verification is None:
            return passed(f"it runs; what it computes is not known ({sizes})", figures)
        figures |= {"compared": verification.compared, "worst_error": verification.worst_error}
        return passed(
            f"{verification.compared:,} elements are right, the worst at {100 * verification.worst_error:.0f} % of the "
            f"tolerance ({sizes})",
            figures,
        )
    raise _SkippedError(f"it refuses every shape that was tried: {refused}")


def _bench(
    tested: TestedDevice, step: SelfTestStep, precision: Precision, purpose: str
) -> tuple[GuardedMemory, Sampler, list[Launch]]:
    """Launches on buffers that they share, and the timing loop: on the first problem that the contestants do not
    refuse, with the vendor's library where no kernel is given."""
    runtime, facts = tested.runtime, tested.runtime.facts
    size = CPU_REPEATED_SIZE if facts.kind == "cpu" else REPEATED_SIZE
    contestants = step.contestants or (Contestant(name="library"), Contestant(name="library again"))
    for problem in step.problems or (library_problem(facts.kind, size, size, size),):
        memory, launches = GuardedMemory(runtime), list[Launch | None]()
        addresses = _uploaded(tested, memory, problem)
        sampler = _sampler(tested, memory, precision, cold=False)
        loader = ArtifactLoader(*[explained_status] * (facts.kind == "hip"))
        try:
            for one in contestants:
                if one.artifact is None:
                    launches.append(runtime.library(problem, addresses))
                    continue
                # a copy: an image that is loaded twice is two in memory
                artifact = bytes(bytearray(tested.artifacts[one.artifact]))
                function = loader.function(one.name, artifact, one.symbol, problem)
                runtime.loaded()
                needed = function.workspace_bytes(runtime.stream)
                workspace = memory.allocate("its workspace", needed).address if needed else 0
                launches.append(function.launch(addresses, workspace, runtime.stream))
        except BenchmarkError as error:
            memory.free()
            if error.kind is FailureKind.REFUSED:
                continue
            raise
        known = [launch for launch in launches if launch is not None]
        if len(known) == len(contestants):
            return memory, sampler, known
        memory.free()
    raise _SkippedError(f"there is no kernel to {purpose}: neither a compiler nor the vendor's library")


BLOCKS_AT_MOST = 100
"""A comparison that is unsure takes more of them, as one by `ckwatch bench` does within its budget."""

QUIET_SHARE = 0.05
"""Of the blocks of launches that other processes may disturb."""

PAIRED = Precision(minimum_s=0.0, budget_s=3.0, minimum_samples=2, relative_error=1.0, clock_floor=0.5, block_s=0.002)
"""Ends with the number of blocks that a comparison by pairs needs. A power limit may take the clock far down after the
warm-up, and pairs of neighbours are comparable there as well."""

SLOWER_TRIALS = 20
SLOWER_BY = 0.02
SLOWER_BUDGET_SHARE = 0.25
SUPPOSED_MHZ = 2000.0
"""The clock to assume if none is known, as by the probe for the processor."""


@dataclass(slots=True)
class _Trials:
    """Comparisons of one launch with another: the verdicts, and of each the ratio and the median of the first one."""

    verdicts: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)
    times_us: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)

    def compare(
        self, sampler: Sampler, runners: Sequence[ContestantRunner], floor_us: float, count: int, budget_s: float
    ) -> None:
        """At least one comparison, and `count` if the time suffices; who begins changes from one to the next."""
        warm = sampler.warm_up(runners, CacheState.HOT)
        end = time.monotonic() + budget_s
        while not self.ratios or (len(self.ratios) < count and time.monotonic() < end):
            order = 1 if len(self.ratios) % 2 == 0 else -1
            mine, theirs, blocks = list[float](), list[float](), 0
            verdict = None
            while verdict is None or (verdict.verdict is SpeedVerdict.UNSURE and blocks < BLOCKS_AT_MOST):
                first, second = sampler.sample(runners[::order], CacheState.HOT, warm.clock_mhz)[::order]
                mine += first.times_us
                theirs += second.times_us
                blocks += first.blocks
                self.clocks += first.clocks_mhz
                verdict = compare_interleaved(mine, theirs, blocks, floor_us=floor_us)
            self.verdicts[verdict.verdict.value] += 1
            self.ratios.append(verdict.ratio)
            self.times_us.append(median(mine))


def _same(tested: TestedDevice, step: SelfTestStep) -> Found:
    memory, sampler, launches = _bench(tested, step, PAIRED, "compare with itself")
    what = step.name or f"{tested.runtime.library_name} against itself"
    equal = _Trials()
    with _guarded(tested.runtime, memory):
        floor_us = noise_floor(tested.runtime).us
        runners = [ContestantRunner(f"build {number}", launch) for number, launch in enumerate(launches, start=1)]
        equal.compare(sampler, runners, floor_us, TRIALS, step.budget_s)
        disturbed = sampler.slowed[OTHER_PROCESSES] > QUIET_SHARE * sampler.blocks
        time_us, trials = median(equal.times_us), len(equal.ratios)
        figures: Figures = {
            **{verdict.value: equal.verdicts[verdict.value] for verdict in SpeedVerdict},
            "trials": trials,
            "median_us": time_us,
            "noise_floor_us": floor_us,
            "ratio_least": min(equal.ratios),
            "ratio_most": max(equal.ratios),
            **_clock_figures(time_us, equal.clocks, sampler),
        }
        slower = _slower(tested, sampler, runners, figures, step.budget_s * SLOWER_BUDGET_SHARE)
    same = equal.verdicts[SpeedVerdict.SAME.value]
    sentence = (
        f"{same} of {trials} trials are SAME, {equal.verdicts['UNSURE']} UNSURE, {equal.verdicts['FAST']} FAST, "
        f"{equal.verdicts['SLOW']} SLOW; ratios of {min(equal.ratios):.4f} to {max(equal.ratios):.4f} at "
        f"{time_us:.4g} us{_clock_words(figures)}"
    )
    is_seen = True
    if slower is not None:
        count, of, ratio = slower.verdicts[SpeedVerdict.SLOW.value], len(slower.ratios), median(slower.ratios)
        is_seen = count >= SAME_SHARE * of
        figures |= {"slower_trials": of, "slower_told": count, "slower_ratio": ratio}
        sentence += f"; with a wait behind each launch {count} of {of} are SLOW, by {ratio - 1:.1%}"
    sentence += f"; {what}"
    if trials < TRIALS:
        sentence += f"; {TRIALS - trials} trials did not fit into {step.budget_s:.0f} s"
    holds = same >= SAME_SHARE * trials and is_seen
    if not holds and disturbed:
        raise _SkippedError(f"{sentence}; the machine was not quiet: no conclusion", figures)
    return passed_if(holds, sentence, figures)


def _slower(
    tested: TestedDevice,
    sampler: Sampler,
    runners: Sequence[ContestantRunner],
    figures: Figures,
    budget_s: float,
) -> _Trials | None:
    """The first with a wait of at least 2 % behind each launch, against the other one; None without probes."""
    try:
        probes = tested.probes
    except _SkippedError:
        return None
    first, other = runners
    mhz = float(figures.get("clock_mhz", tested.runtime.facts.clock_mhz)) or SUPPOSED_MHZ
    cycles = round(SLOWER_BY * float(figures["median_us"]) * mhz)

    def launch_and_wait() -> None:
        first.launch()
        probes.spin(cycles)

    found = _Trials()
    waiting = ContestantRunner(f"{first.name} and a wait", launch_and_wait)
    found.compare(sampler, (waiting, other), float(figures["noise_floor_us"]), SLOWER_TRIALS, budget_s)
    return found


def _clock_figures(time_us: float, clocks: Sequence[float], sampler: Sampler) -> Figures:
    figures: Figures = {}
    if clocks:
        figures |= {
            "clock_mhz": median(clocks),
            "clock_least_mhz": min(clocks),
            "clock_most_mhz": max(clocks),
            "kcycles": time_us * median(clocks) / 1e3,
        }
    figures |= {f"limited_by_{reason}": count for reason, count in sampler.slowed.items()}
    if sampler.slowed:
        figures["blocks"] = sampler.blocks
    return figures


def _clock_words(figures: Figures) -> str:
    words = ""
    if "clock_mhz" in figures:
        words = f", {figures['clock_mhz']:.0f} MHz, {figures['kcycles']:.5g} thousand cycles"
    limits = [name.removeprefix("limited_by_") for name in figures if name.startswith("limited_by_")]
    return words + (f", held down by {' and '.join(limits)}" if limits else "")


REPEATED = Precision(warm_up_s=0.4, minimum_s=0.4, budget_s=1.5, relative_error=0.001)
READ_CACHES = 10
"""How many times the last-level cache is read by the kernel that reads memory."""

COUNTED_ROUNDS = 20
COUNTED_LAUNCHES = 8
COUNTED_BEFORE = 4


def _repeats(tested: TestedDevice, step: SelfTestStep) -> Found:
    """One process's median; the session compares those of several."""
    one = step.contestants[:1] or (Contestant(name="library"),)
    memory, sampler, (launch,) = _bench(tested, replace(step, contestants=one), REPEATED, "time")
    with _guarded(tested.runtime, memory):
        return _timed(tested, sampler, launch, step.name or tested.runtime.library_name)


def _repeats_read(tested: TestedDevice, _step: SelfTestStep) -> Found:
    """The same for the probe that reads memory."""
    runtime, probes = tested.runtime, tested.probes
    wanted = READ_CACHES * (runtime.facts.last_level_cache_bytes or run_job.UNKNOWN_CACHE_BYTES)
    size = min(wanted, runtime.free_memory_bytes() // 4) // 4096 * 4096
    with _guarded(runtime) as memory:
        buffer = memory.allocate("memory", size)
        sampler = _sampler(tested, memory, REPEATED, cold=False)
        return _timed(tested, sampler, lambda: probes.read(buffer.address, size, 1), f"reads of {size / MIB:.4g} MiB")


def _timed(tested: TestedDevice, sampler: Sampler, launch: Launch, what: str) -> Found:
    runner = ContestantRunner(PROBE, launch)
    warm = sampler.warm_up([runner], CacheState.HOT)
    sampler.slowed.clear()  # what ran before may have met a limit that the warm-up outlasts
    sampler.blocks = 0
    (samples,) = sampler.sample([runner], CacheState.HOT, warm.clock_mhz)
    summary = summarize(samples.times_us)
    figures: Figures = {
        "median_us": summary.median_us,
        "relative_error": summary.relative_error,
        "samples": summary.count,
        **_clock_figures(summary.median_us, samples.clocks_mhz, sampler),
    }
    if samples.clocks_mhz:
        cycles = [time_us * mhz / 1e3 for time_us, mhz in zip(samples.times_us, samples.clocks_mhz, strict=True)]
        figures["kcycles"] = median(cycles)
    counted = _counted_kcycles(tested, launch)
    if counted is not None:
        figures["counted_kcycles"] = counted
    return passed(f"{summary.median_us:.5g} us{_clock_words(figures)}; {what}", figures)


def _counted_kcycles(tested: TestedDevice, launch: Launch) -> float | None:
    """Thousands of cycles from one launch to the next by the device's own counters; None where it has none of them.

    The clock that the driver tells is read a few times in a second, between launches, and rounded.
    """
    from ckwatch.bench.probes.cuda import CudaProbes, CycleCounter

    runtime = tested.runtime
    if runtime.facts.kind != "cuda" or not isinstance(probes := tested.probes, CudaProbes):
        return None
    counter = CycleCounter(runtime, probes)
    found = []
    for _ in range(COUNTED_ROUNDS):
        with runtime.gate():
            for _ in range(COUNTED_BEFORE):
                launch()
            counter.begin()
            for _ in range(COUNTED_LAUNCHES):
                launch()
            counter.end()
        runtime.synchronize()
        counted = counter.kcycles()
        if counted is not None:
            found.append(counted / COUNTED_LAUNCHES)
    return median(found) if found else None


FUNCTIONS: Mapping[str, Callable[[TestedDevice, SelfTestStep], Found]] = {
    names.PROPERTIES: _properties,
    names.LEASE: _lease,
    names.OTHERS: _others,
    names.COPIES: _copies,
    names.GUARDS: _guards,
    names.POISON: _poison,
    names.GATE: _gate,
    names.RESOLUTION: _resolution,
    names.ORDER: _order,
    names.EVENT_CLOCK: _event_clock,
    names.CLOCKS: _clocks,
    names.POWER: _power,
    names.LIBRARY: _library,
    names.CACHE_SIZE: _cache_size,
    names.FLUSH: _flush,
    names.INSTRUCTIONS: _instructions,
    names.NUMERICS: _numerics,
    names.SAME: _same,
    names.REPEATS: _repeats,
    names.REPEATS_READ: _repeats_read,
}
