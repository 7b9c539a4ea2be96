"""Runs one job in the worker: chooses, leases and opens a device, verifies kernels, times them, verifies them again.

Nothing is timed that was not verified, and nothing is reported that is not right after the timing too. Contestants
share their buffers, so that they differ in nothing but their code; each has a workspace of its own.

The worker imports this module once it knows its job, since numpy comes with it.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ckwatch.bench.event_noise import noise_floor
from ckwatch.bench.guarded_memory import GuardedBuffer, GuardedMemory
from ckwatch.bench.job import Contestant, Job, SelfTestJob
from ckwatch.bench.kernel_abi import NOT_SUPPORTED, ArtifactLoader, KernelFunction
from ckwatch.bench.leases import FOLDER_VARIABLE, Lease, lease
from ckwatch.bench.numerics.array_files import file_arrays
from ckwatch.bench.numerics.comparison import OutputCheck, WrongResultError
from ckwatch.bench.numerics.given_outputs import GivenReference
from ckwatch.bench.numerics.inputs import before_launch, make_inputs
from ckwatch.bench.numerics.row_verification import RowsReference, reference_of
from ckwatch.bench.numerics.storage import Storage, in_memory
from ckwatch.bench.numerics.verification import Reference, check_written
from ckwatch.bench.probes.kernels import probe_kernels
from ckwatch.bench.progress import Progress
from ckwatch.bench.reference_calls import ReferenceCalls, ReferenceMistakeError
from ckwatch.bench.report import (
    BenchmarkReport,
    ContestantResult,
    DeviceReading,
    Devices,
    FailureKind,
    NumericsVerification,
    Samples,
)
from ckwatch.bench.runtimes import processors
from ckwatch.bench.runtimes.device_runtime import BenchmarkError, DeviceRuntime, Launch
from ckwatch.bench.runtimes.hip_api import explained_status
from ckwatch.bench.runtimes.selection import AUTO, find_all_devices, runtime_module, select_device
from ckwatch.bench.sampling import ContestantRunner, Sampler
from ckwatch.bench.stats.summary import summarize
from ckwatch.bench.worker_protocol import WaitingForDevice
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import is_fnuz
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import CacheState, bound
from ckwatch.model.version import __version__

_OTHERS_POLL_S = 0.25


# nothing is closed: the end of the process does that, whatever state it is in
_HELD_DEVICES: list[tuple[Lease, DeviceRuntime]] = []


def list_devices(_job: None, _artifacts: Sequence[bytes], whereabouts: Progress) -> Devices:
    whereabouts.at("looking for devices")
    return find_all_devices()


def run_job(job: Job, artifacts: Sequence[bytes], whereabouts: Progress) -> BenchmarkReport:
    """Measure `job`. The device and its lease stay this process's until it ends, for a next job too. Raises
    BenchmarkError."""
    deadline = time.monotonic() + job.lease_wait_s
    held, runtime = open_device(job, deadline, whereabouts)
    beside = _wait_for_others(job, runtime, deadline, whereabouts)
    report = Measurement(runtime, job, whereabouts.at).report(artifacts)
    warnings = (held.warning,) if held.warning else ()
    return replace(report, notes=(*warnings, *beside, *report.notes), warning=held.warning)


def open_device(job: Job | SelfTestJob, deadline: float, whereabouts: Progress) -> tuple[Lease, DeviceRuntime]:
    """The device with its lease: the one that this process has, or the one that `job` asks for."""
    known = next((one for one in _HELD_DEVICES if _is_of(one[1].facts, job)), None)
    if known is not None:  # by the job before
        held, runtime = known
    else:
        whereabouts.at("looking for the device")
        facts = whereabouts.device = select_device(job)
        held = _lease_device(facts, deadline, whereabouts)
        whereabouts.at("opening the device")
        options = {"threads": job.threads} if facts.kind == "cpu" else {}
        runtime = runtime_module(facts.kind).open(facts, **options)
        _HELD_DEVICES.append((held, runtime))
    whereabouts.device = runtime.facts
    return held, runtime


def _is_of(facts: DeviceFacts, job: Job | SelfTestJob) -> bool:
    return job.device in (AUTO, facts.name, facts.identity) and job.kind == facts.kind


def _lease_device(facts: DeviceFacts, deadline: float, whereabouts: Progress) -> Lease:
    whereabouts.at("waiting for the device")
    holders = [""]

    def waiting(holder: str) -> None:
        holders.append(holder)
        whereabouts.tell(WaitingForDevice(holder=holder))

    holder = f"{_user()}@{platform.node()}, process {os.getpid()}"
    wait_s = max(0.0, deadline - time.monotonic())
    held = lease(facts.identity, holder, wait_s=wait_s, waiting=waiting)
    if held is None:
        by = f" by {holders[-1]}" if holders[-1] else ""
        raise BenchmarkError(
            FailureKind.BUSY,
            f"{facts.name} is measured on{by}, and was not free after {wait_s:.0f} s",
            "Benchmarks on a device are done one after the other. If that process measures nothing, end it, or let all "
            f"who measure name another folder of locks by {FOLDER_VARIABLE}.",
        )
    return held


def _wait_for_others(job: Job, runtime: DeviceRuntime, deadline: float, whereabouts: Progress) -> tuple[str, ...]:
    """Wait until no other process computes on the device. Returns what is to be noted."""
    reported: tuple[str, ...] = ()
    while others := runtime.others():
        if job.shared:
            return (f"measured beside other processes on the device: {', '.join(others)}",)
        if others != reported:
            reported = others
            whereabouts.tell(WaitingForDevice(holder=", ".join(others)))
        if time.monotonic() >= deadline:
            raise BenchmarkError(
                FailureKind.BUSY,
                f"other processes compute on {runtime.facts.name}: {', '.join(others)}",
                "Wait until they have ended, choose another device, or allow measuring beside them.",
            )
        time.sleep(_OTHERS_POLL_S)
    return ()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


OnStage = Callable[[str, str], None]
"""Gets the stage that begins, and whose it is (empty: of no contestant)."""

USUAL_FLUSH_BYTES = 256 << 20
"""The size that Triton's `do_bench` writes before each launch on a GPU. Under a power limit a kernel's clock depends on
how long the device flushes between launches: times are comparable only with equal flushes."""

FLUSH_FACTOR = 2
UNKNOWN_CACHE_BYTES = 256 * 2**20
"""Taken as the last-level cache of a device that does not tell it."""

IMPOSSIBLE_MARGIN = 0.02
"""A median this part below the roofline bound is an error of the measurement or of the kernel."""


def flush_bytes(facts: DeviceFacts, cache_bytes: int) -> int:
    """Return the bytes to write before each launch to a cold cache of this size."""
    return max(FLUSH_FACTOR * cache_bytes, USUAL_FLUSH_BYTES if facts.kind in ("hip", "cuda") else 0)


@dataclass(slots=True)
class _LoadedContestant:
    """A contestant on the device. `affinity`: on which processors its calls leave the calling thread."""

    contestant: Contestant
    function: KernelFunction | None = None
    workspace_bytes: int = 0
    workspace: GuardedBuffer | None = None
    launch: Launch | None = None
    affinity: set[int] | None = None
    digests: dict[int, bytes] = field(default_factory=dict)
    checked: list[OutputCheck] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.contestant.name


PROBLEMS_KEPT = 8
"""A worker that lasts keeps the inputs and references of so many problems and seeds: with them, verifying an instance
takes a tenth of the time."""

AnyReference = Reference | RowsReference | GivenReference

_KNOWN_INPUTS: dict[object, tuple[dict[str, Storage], AnyReference | None]] = {}


class Measurement:
    """`job` on an open device. Raises BenchmarkError; the stage of the last `at` is where."""

    def __init__(self, runtime: DeviceRuntime, job: Job, at: OnStage) -> None:
        self._runtime = runtime
        self._job = job
        self._problem = job.problem
        self._at = at
        self._notes: list[str] = []
        self._memory = GuardedMemory(runtime)
        self._buffers: dict[str, GuardedBuffer] = {}
        self._kept: dict[str, GuardedBuffer] = {}
        self._artifacts: Sequence[bytes] = ()
        self._inputs: dict[int, dict[str, Storage]] = {}
        self._references: dict[int, AnyReference] = {}
        self._flush_instructions: Launch | None = None
        self._slowed: dict[str, float] = {}
        self._in_turn: _LoadedContestant | None = None
        self._on_cpu = runtime.facts.kind == "cpu"
        self._processors = os.sched_getaffinity(0) if self._on_cpu else None
        known = job.problem.fnuz
        self._fnuz = is_fnuz(runtime.facts.arch) if known is None else known

    def report(self, artifacts: Sequence[bytes]) -> BenchmarkReport:
        began_at, began = time.time(), time.monotonic()
        self._artifacts = artifacts
        self._verify_ragged(artifacts)
        entrants = self._load(artifacts)
        self._load_instruction_flush(artifacts)
        flush_bytes = self._flush_bytes()
        self._check_memory(entrants, flush_bytes)
        self._allocate(entrants)
        flush = self._memory.allocate("the memory for flushing caches", flush_bytes)
        entrants = self._with_launches(entrants)
        readings = [self._runtime.reading()]
        self._make_inputs()
        # Last seed first, so that the one that is timed is in place.
        for seed in self._job.seeds[::-1]:
            self._verify(entrants, seed, "before timing", twice=True)
        self._at("looking at events", "")
        floor = noise_floor(self._runtime)
        measured = self._time(entrants, flush, readings)
        self._check_untouched(entrants)
        for seed in self._job.seeds:
            self._verify(entrants, seed, "after timing", twice=False)
        self._memory.free()
        return BenchmarkReport(
            device=self._runtime.facts,
            measured=self._results(entrants, measured),
            readings=tuple(readings),
            versions={**self._runtime.versions, "ckwatch": __version__},
            notes=tuple(self._notes),
            started_at=began_at,
            seconds=time.monotonic() - began,
            flushed_instructions=self._job.flush_instructions,
            noise_floor=floor,
            slowed=self._slowed,
        )

    def _verify_ragged(self, artifacts: Sequence[bytes]) -> None:
        """Each contestant on the first ragged problem that it does not refuse; the small memory is kept."""
        for contestant in self._job.contestants:
            if self._job.ragged and not contestant.is_library and not self._accepts_ragged(contestant, artifacts):
                self._notes.append(f"{contestant.name} refuses ragged shapes: it was verified on whole tiles alone")

    def _accepts_ragged(self, contestant: Contestant, artifacts: Sequence[bytes]) -> bool:
        for problem in self._job.ragged:
            job = replace(self._job, problem=problem, contestants=(contestant,), seeds=self._job.seeds[:1])
            try:
                Measurement(self._runtime, job, self._at).verify(artifacts)
            except BenchmarkError as failure:
                if failure.kind is FailureKind.REFUSED:
                    continue
                if failure.mistake is not None:
                    raise
                sizes = ", ".join(f"{each.name}={each.value}" for each in problem.arguments if each.buffer is None)
                raise BenchmarkError(
                    failure.kind,
                    f"{failure.message}, on a ragged shape: {sizes}",
                    f"Return {NOT_SUPPORTED} for sizes that the kernel does not support.",
                    failure.detail,
                ) from None
            return True
        return False

    def verify(self, artifacts: Sequence[bytes]) -> tuple[ContestantResult, ...]:
        """Verify without timing: results without samples. Raises BenchmarkError."""
        self._artifacts = artifacts
        entrants = self._load(artifacts)
        self._check_memory(entrants, 0)
        self._allocate(entrants)
        entrants = self._with_launches(entrants)
        self._make_inputs()
        for seed in self._job.seeds:
            self._verify(entrants, seed, "before timing", twice=True)
        self._memory.free()
        return self._results(entrants, {})

    def launch_for(self, artifacts: Sequence[bytes], seconds: float) -> int:
        """Launch the one contestant on the first seed's inputs, again and again for `seconds` (0: once); nothing is
        verified. Returns the number of launches. Raises BenchmarkError."""
        self._artifacts = artifacts
        entrants = self._load(artifacts)
        self._check_memory(entrants, 0)
        self._allocate(entrants)
        (entrant,) = self._with_launches(entrants)
        seed = self._job.seeds[0]
        self._at("making inputs", "")
        self._inputs[seed] = make_inputs(self._problem, seed, self._fnuz, file_arrays(self._problem, artifacts))
        for name, array in self._inputs[seed].items():
            self._runtime.upload(self._buffers[name].address, in_memory(array, self._problem.buffer(name).dtype))
        self._at("launching", entrant.name)
        self._run(entrant, seed)
        launches, until = 1, time.monotonic() + seconds
        while time.monotonic() < until and entrant.launch is not None:
            entrant.launch()
            self._runtime.synchronize()
            launches += 1
        self._memory.free()
        return launches

    def _results(
        self, entrants: Sequence[_LoadedContestant], measured: Mapping[str, Sequence[Samples]]
    ) -> tuple[ContestantResult, ...]:
        return tuple(
            ContestantResult(
                contestant=entrant.name,
                samples=tuple(measured.get(entrant.name, ())),
                workspace_bytes=entrant.workspace_bytes,
                verification=self._verification(entrant),
            )
            for entrant in entrants
        )

    def _load(self, artifacts: Sequence[bytes]) -> list[_LoadedContestant]:
        loader = ArtifactLoader(*[explained_status] * (self._job.kind == "hip"))
        entrants = []
        for contestant in self._job.contestants:
            entrant = _LoadedContestant(contestant)
            if contestant.artifact is not None:
                self._at("loading the artifact", contestant.name)
                artifact = artifacts[contestant.artifact]
                entrant.function = loader.function(contestant.name, artifact, contestant.symbol, self._problem)
                self._runtime.loaded()
                self._at("asking for the workspace", contestant.name)
                entrant.workspace_bytes = entrant.function.workspace_bytes(self._runtime.stream)
            entrants.append(entrant)
        return entrants

    def _load_instruction_flush(self, artifacts: Sequence[bytes]) -> None:
        if not self._job.flush_instructions:
            return
        self._at("loading the kernel that flushes instruction caches", "")
        probes = probe_kernels(self._runtime, None if self._job.probes is None else artifacts[self._job.probes])
        if isinstance(probes, str):
            raise BenchmarkError(
                FailureKind.BROKEN,
                f"instruction caches cannot be flushed: {probes}",
                '`instruction_cache = "warm"` under [bench] measures without.',
            )
        probes.flush_instructions()
        self._runtime.synchronize()
        self._flush_instructions = probes.flush_instructions

    def _flush_bytes(self) -> int:
        if CacheState.COLD not in self._job.caches:
            return 0
        cache_bytes = self._runtime.facts.last_level_cache_bytes
        if not cache_bytes:
            cache_bytes = UNKNOWN_CACHE_BYTES
            self._notes.append(f"the last-level cache is not known: {cache_bytes >> 20} MiB are assumed")
        return flush_bytes(self._runtime.facts, cache_bytes)

    def _check_memory(self, entrants: Sequence[_LoadedContestant], flush_bytes: int) -> None:
        """NO_MEMORY, with the sizes, before anything is allocated."""
        self._at("looking for memory", "")
        problem = self._problem
        parts = {buffer.name: buffer.size_bytes for buffer in problem.buffers}
        parts |= {f"first content of {buffer.name}": buffer.size_bytes for buffer in problem.buffers if buffer.in_out}
        parts |= {f"workspace of {entrant.name}": entrant.workspace_bytes for entrant in entrants}
        parts["flushing caches"] = flush_bytes
        if self._on_cpu:
            # Host and device are one: what inputs, outputs and poison are kept in counts too.
            parts["copies for verification"] = (len(self._job.seeds) + 3) * problem.bytes_allocated
        needed = sum(map(self._memory.bytes_for, parts.values()))
        free = self._runtime.free_memory_bytes()
        if needed > free:
            raise BenchmarkError(
                FailureKind.NO_MEMORY,
                f"{_in_megabytes(needed)} of memory are needed and {_in_megabytes(free)} are free "
                f"on {self._runtime.facts.name}",
                "A smaller shape fits, or another device.",
                "".join(f"{name}: {size} bytes\n" for name, size in parts.items() if size),
            )

    def _allocate(self, entrants: Sequence[_LoadedContestant]) -> None:
        self._at("allocating", "")
        for buffer in self._problem.buffers:
            self._buffers[buffer.name] = self._memory.allocate(buffer.name, buffer.size_bytes)
            if buffer.in_out:
                self._kept[buffer.name] = self._memory.allocate(
                    f"the first content of {buffer.name}", buffer.size_bytes
                )
        for entrant in entrants:
            if entrant.workspace_bytes:
                entrant.workspace = self._memory.allocate("its workspace", entrant.workspace_bytes)

    def _with_launches(self, entrants: Sequence[_LoadedContestant]) -> list[_LoadedContestant]:
        """Those that can be launched: not every problem has a vendor's GEMM."""
        addresses = {name: buffer.address for name, buffer in self._buffers.items()}
        able = []
        for entrant in entrants:
            if entrant.function is not None:
                workspace = entrant.workspace.address if entrant.workspace is not None else 0
                entrant.launch = entrant.function.launch(addresses, workspace, self._runtime.stream)
            else:
                self._at("asking for the vendor's library", entrant.name)
                entrant.launch = self._runtime.library(self._problem, addresses)
            if entrant.launch is not None:
                able.append(entrant)
            else:
                self._notes.append(f"{entrant.name}: {self._runtime.facts.name} has no library for this problem")
        if not able:
            raise BenchmarkError(
                FailureKind.REFUSED, f"{self._runtime.facts.name} has no library for this problem", "", ""
            )
        return able

    def _make_inputs(self) -> None:
        self._at("making inputs and references", "")
        for seed in self._job.seeds:
            key = (repr(self._problem), seed, self._fnuz, self._job.full_check_macs)
            known = _KNOWN_INPUTS.pop(key, None)
            if known is None:
                given = file_arrays(self._problem, self._artifacts)
                inputs = make_inputs(self._problem, seed, self._fnuz, given)
                known = inputs, self._reference_of(inputs, seed)
            _KNOWN_INPUTS[key] = known
            if len(_KNOWN_INPUTS) > PROBLEMS_KEPT:
                del _KNOWN_INPUTS[next(iter(_KNOWN_INPUTS))]
            self._inputs[seed] = known[0]
            if known[1] is not None:
                self._references[seed] = known[1]

    def _reference_of(self, inputs: dict[str, Storage], seed: int) -> AnyReference | None:
        """The reference of the inputs, which a user's own may replace in part."""
        if self._problem.reference is None:
            return reference_of(self._problem, inputs, self._job.full_check_macs, seed)
        if self._job.reference is None:
            raise BenchmarkError(FailureKind.BROKEN, "the job is without its reference")
        calls = ReferenceCalls(self._job.reference, self._job.reference_limit_s)
        try:
            calls.write_inputs(self._problem, inputs, seed, fnuz=self._fnuz)
            return GivenReference(self._problem, calls.outputs(self._problem, inputs))
        except ReferenceMistakeError as error:
            raise error.as_failure() from None
        finally:
            calls.close()

    def _verify(self, entrants: Sequence[_LoadedContestant], seed: int, when: str, *, twice: bool) -> None:
        for name, array in self._inputs[seed].items():
            self._runtime.upload(self._buffers[name].address, in_memory(array, self._problem.buffer(name).dtype))
        for entrant in entrants:
            self._at(f"verifying {when}, seed {seed}", entrant.name)
            outputs = self._run(entrant, seed)
            if entrant.contestant.is_library:
                continue  # it is without epilogue, and not what is asked about
            again = self._run(entrant, seed, second=True) if twice else None
            digest = _digest(outputs)
            if entrant.digests.setdefault(seed, digest) != digest:
                raise BenchmarkError(
                    FailureKind.NONDETERMINISTIC, f"seed {seed} gives another result after timing than before it"
                )
            self._at(f"comparing {when}, seed {seed}", entrant.name)
            try:
                if seed in self._references:
                    entrant.checked.append(self._references[seed].check(outputs, again))
                else:
                    check_written(self._problem, outputs, self._fnuz, again)
            except WrongResultError as wrong:
                raise BenchmarkError(wrong.kind, f"{wrong.message} ({when}, seed {seed})", "", wrong.detail) from None

    def _run(self, entrant: _LoadedContestant, seed: int, *, second: bool = False) -> dict[str, Storage]:
        """Run on poisoned memory (`second`: the second pattern), or on what the seed says of in-out ones; return the
        outputs. Raises BenchmarkError, OUT_OF_BOUNDS among others."""
        runtime = self._runtime
        outputs = {}
        for buffer in self._problem.buffers:
            if buffer.output:
                given = self._inputs[seed]
                outputs[buffer.name] = before_launch(self._problem, buffer, given, self._fnuz, second=second)
                runtime.upload(self._buffers[buffer.name].address, _as_bytes(outputs[buffer.name]))
        if entrant.workspace is not None:
            runtime.fill(entrant.workspace.address, 0xFF, entrant.workspace.size_bytes)
        self._take_turn(entrant)
        assert entrant.launch is not None  # noqa: S101  # _with_launches left out the others
        entrant.launch()
        runtime.synchronize()
        if self._on_cpu:
            entrant.affinity = os.sched_getaffinity(0)
        for name, array in outputs.items():
            runtime.download(self._buffers[name].address, _as_bytes(array))
        self._memory.check()
        return outputs

    def _take_turn(self, entrant: _LoadedContestant) -> None:
        """On the CPU contestants share threads and processors, and must not notice.

        OpenMP binds the calling thread for good, so that another contestant's threads would all start on that
        processor; and the threads of the one before still look for work.
        """
        if self._processors is not None and entrant is not self._in_turn:
            self._in_turn = entrant
            os.sched_setaffinity(0, entrant.affinity or self._processors)
            processors.settle()

    def _time(
        self, entrants: Sequence[_LoadedContestant], flush: GuardedBuffer, readings: list[DeviceReading]
    ) -> dict[str, list[Samples]]:
        sampler = Sampler(
            self._runtime, self._job.precision, flush, self._at, flush_instructions=self._flush_instructions
        )
        for name, kept in self._kept.items():
            content = self._inputs[self._job.seeds[0]][name]
            self._runtime.upload(kept.address, in_memory(content, self._problem.buffer(name).dtype))
        runners = [
            ContestantRunner(entrant.name, entrant.launch, partial(self._take_turn, entrant), self._restore)
            for entrant in entrants
            if entrant.launch is not None  # `_with_launches` left out the others
        ]
        measured: dict[str, list[Samples]] = {entrant.name: [] for entrant in entrants}
        for cache in self._job.caches:
            warm = sampler.warm_up(runners, cache)
            readings.append(self._runtime.reading())
            if not warm.steady:
                what = "the clock" if warm.clock_mhz is not None else "the launches' time"
                self._notes.append(f"{what} was not steady after {warm.seconds:.2g} s of warm-up, {cache} cache")
            for runner, samples in zip(runners, sampler.sample(runners, cache, warm.clock_mhz), strict=True):
                self._at("looking at the times", runner.name)
                self._check_possible(samples)
                measured[runner.name].append(samples)
                if samples.discarded:
                    self._notes.append(
                        f"{runner.name}, {cache}: {samples.discarded} samples were discarded, taken below "
                        f"{self._job.precision.clock_floor:.0%} of the warm-up's clock"
                    )
        readings.append(self._runtime.reading())
        self._slowed = {reason: count / sampler.blocks for reason, count in sorted(sampler.slowed.items())}
        self._notes += [
            f"slowed down by {reason} during {count} of {sampler.blocks} blocks of launches"
            for reason, count in sorted(sampler.slowed.items())
        ]
        return measured

    def _restore(self) -> None:
        """Give in-out tensors the content that they had before the first launch, on the stream."""
        for name, kept in self._kept.items():
            self._runtime.copy(self._buffers[name].address, kept.address, kept.size_bytes)

    def _check_possible(self, samples: Samples) -> None:
        limit = bound(self._problem, self._runtime.facts, samples.cache)
        if limit is None:
            return
        median_us = summarize(samples.times_us).median_us
        if median_us < limit.time_us * (1 - IMPOSSIBLE_MARGIN):
            raise BenchmarkError(
                FailureKind.IMPOSSIBLE,
                f"a median of {median_us:.4g} us ({samples.cache} cache) is below what the device can do, "
                f"{limit.time_us:.4g} us by its {limit.limited_by}",
                "The kernel leaves work out when it runs again, or the time was not measured rightly.",
            )

    def _check_untouched(self, entrants: Sequence[_LoadedContestant]) -> None:
        """OUT_OF_BOUNDS when a guard or an input was written while it was timed."""
        self._at("looking for what was written beside the outputs", entrants[0].name if len(entrants) == 1 else "")
        self._memory.check()
        for name, array in self._inputs[self._job.seeds[0]].items():
            if self._problem.buffer(name).output:
                continue
            given = in_memory(array, self._problem.buffer(name).dtype)
            found = np.empty_like(given)
            self._runtime.download(self._buffers[name].address, found)
            if not np.array_equal(found, given):
                raise BenchmarkError(FailureKind.OUT_OF_BOUNDS, f"the kernel wrote to its input {name}")

    def _verification(self, entrant: _LoadedContestant) -> NumericsVerification | None:
        if not entrant.checked:
            return None
        worst = max(entrant.checked, key=lambda checked: checked.worst_error)
        return NumericsVerification(
            seeds=self._job.seeds,
            compared=worst.compared,
            worst_error=worst.worst_error,
            relative_tolerance=worst.rtol,
            absolute_tolerance=worst.atol,
            reference=self._references[self._job.seeds[0]].description,
        )


def _as_bytes(array: Storage) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _digest(outputs: Mapping[str, Storage]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for array in outputs.values():
        digest.update(_as_bytes(array).data)
    return digest.digest()


def _in_megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:.2f} MB"
