"""Measure: times units. Chooses a device, has a worker measure, and keeps the timing in the history.

Two benchmarks are the same when the same code was measured on the same problem, device and driver, in the same way.
"""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.git_commit import commit_of
from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.job import RACE_S, Contestant, Job, Precision, Race
from ckwatch.bench.probes.hip import HIP_SOURCE, MORE_SYMBOLS, SYMBOL
from ckwatch.bench.report import (
    DETERMINISTIC_FAILURES,
    KERNEL_FAILURES,
    BenchmarkFailure,
    BenchmarkReport,
    Devices,
    FailureKind,
    StopReason,
    UnavailableKind,
)
from ckwatch.bench.stats.stopping import StoppingRule
from ckwatch.bench.worker_protocol import PROTOCOL, WaitingForDevice, WorkerMessage, WorkerStage
from ckwatch.bench.worker_session import OnMessage, Worker, WorkerStart, find_devices, measure
from ckwatch.compile.elf import code_digest
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.store.entries import ProductKind
from ckwatch.core.effects import Measure
from ckwatch.core.events import MAIN, MeasureFinished, ShapeTiming
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.comparison import LIBRARY
from ckwatch.engine.handlers.derived_files import store_keys
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.regressions import RegressionCheck
from ckwatch.model.devices import devices_for, names_another_device, preferred
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Shape, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import CacheState
from ckwatch.model.targets import DEVICE_KINDS, Language, arch_base, language_of
from ckwatch.workspace.array_files import array_contents
from ckwatch.workspace.settings import BenchSection
from ckwatch.workspace.shapes import find_shape, ragged_shapes

LoadProduct = Callable[[Path], bytes]
"""Reads a file of an artifact and verifies it: `BuildTools.load_product`."""


def suitable_devices(found: Devices, unit: Unit, wanted: str) -> tuple[DeviceFacts, ...] | str:
    """The devices that the unit may be timed on, all alike, or why there is none. `wanted` is `[bench] device`; it
    chooses among devices of the kind that it names."""
    kind = DEVICE_KINDS[language_of(unit.kernel.template)]
    suitable = devices_for(found.devices, kind, unit.arch, wanted)
    if suitable:
        return suitable
    devices = [device for device in found.devices if device.kind == kind]
    absent = next((one for one in found.absent if one.kind == kind), None)
    if not devices:
        why = f": {absent.why}" if absent is not None else ""
        hint = f"\n{absent.hint}" if absent is not None and absent.hint else ""
        return f"no {kind} device{why}{hint}"
    named = [device for device in devices if device.is_called(wanted)]
    if not named and names_another_device(wanted, kind):
        return f"there is no device {wanted}; there are {', '.join(device.label for device in devices)}"
    there = ", ".join(f"{device.label} ({device.arch})" for device in named or devices)
    return f"no device for {unit.arch}: there is {there}"


def job_of(
    unit: Unit,
    problem: KernelProblem,
    device: DeviceFacts,
    contestants: tuple[Contestant, ...],
    settings: BenchSection,
    ragged: tuple[KernelProblem, ...] = (),
    race: Race | None = None,
) -> Job:
    """The measurement of these contestants on one device, in a race or by themselves."""
    precision = Precision(
        budget_s=settings.budget_s,
        minimum_s=min(Precision().minimum_s, settings.budget_s),
        relative_error=settings.relative_error,
    )
    if race is not None:
        shortest_s = min(RACE_S, settings.budget_s)
        precision = replace(precision, warm_up_s=RACE_S, minimum_s=shortest_s, limit_us=race.limit_us)
    return Job(
        device=device.identity if device.pci is not None else device.name,
        kind=device.kind,
        arch=unit.arch,
        problem=problem,
        contestants=contestants,
        ragged=ragged,
        caches=tuple(CacheState(cache) for cache in dict.fromkeys(settings.caches)),
        precision=precision,
        lease_wait_s=settings.lease_wait_s,
        shared=settings.shared,
        threads=settings.threads,
        flush_instructions=flushes_instructions(settings, device),
        reference=unit.kernel.operation.reference,
    )


def flushes_instructions(settings: BenchSection, device: DeviceFacts) -> bool:
    """Return True if instruction caches are flushed before each launch: not those of a processor."""
    return settings.instruction_cache == "flush" and device.kind != "cpu"


def benchmark_key(
    products: Mapping[str, str], load: LoadProduct, problem: KernelProblem, device: DeviceFacts, settings: BenchSection
) -> str:
    """Equal where the same code was measured on the same problem, device and driver, in the same way. Blocks; call
    from a worker thread. Raises as `measured_code`."""
    code = measured_code(products, load)
    machine = [device.machine] if device.machine else [*settings.launcher] or [socket.gethostname()]
    place = (device.identity, device.description, device.arch, device.driver, device.runtime)
    instructions = flushes_instructions(settings, device)
    parts = (PROTOCOL, code, asdict(problem), place, machine, settings.caches, settings.threads, instructions)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def measured_code(products: Mapping[str, str], load: LoadProduct) -> str:
    """The digest of an artifact's code. Blocks; call from a worker thread.

    `load` reads a file of the artifact, and what it raises passes. Raises CkwatchError for one that is no object.
    """
    path = products.get(ProductKind.OBJECT.value) or products[ProductKind.SHARED_OBJECT.value]
    try:
        return code_digest(load(Path(path)))
    except ValueError as error:
        raise CkwatchError(f"{path} cannot be read: {error}", "build the unit with --force") from error


def race_settings(settings: BenchSection) -> BenchSection:
    """The settings of a race: the first cache state that the workspace times, and no library."""
    cache = "cold" if "cold" in settings.caches else "hot"
    return settings.model_copy(update={"caches": [cache], "library": False})


ITS_OWN_FAULT = DETERMINISTIC_FAILURES | {FailureKind.HUNG}
"""Failures in a race that are not tried again in a fresh worker: no other instance brings them about."""

GIVEN_UP = ":given-up"
"""Ends the key of a timing that was given up in a race, which others must not take for a whole one."""

RACES_PER_WORKER = 50
"""After so many measurements a worker makes room for a fresh one, and for others that wait for the device."""

RACE_LIMIT_S = 120.0
"""An instance in a race that takes longer is taken to hang, where `[bench] time_limit_s` is not less."""

RACE_PAUSE_S = 3.0
"""A worker gives its device back when no race has come for so long."""

OTHERS_WAIT_S = 10.0
"""A device that is in use is waited for no longer where another one may do it."""

DEVICES_RETRY_S = 30.0
"""When there was no device, the worker is asked again after so long."""

PREVIOUS_CONTESTANT = "before"
"""The contestant that is an earlier artifact."""

DETAIL_CHARACTERS = 2000
"""How much of a worker's output is shown when the worker, not the kernel, is at fault."""

OnStage = Callable[[str, str, str], None]
"""Gets the unit, the shape, and what the worker does."""


class DeviceFarm(Protocol):
    """Machines that announce devices. `MeasureRunner.farm_changed` is called whenever `devices` changes."""

    def devices(self) -> Sequence[DeviceFacts]:
        """The devices there are now, each with its `machine`. Cheap, without I/O."""
        ...

    async def measure(
        self,
        job: Job,
        artifacts: Sequence[bytes],
        device: DeviceFacts,
        *,
        time_limit_s: float,
        on_message: OnMessage | None,
    ) -> BenchmarkReport | BenchmarkFailure:
        """As `ckwatch.bench.worker_session.measure`, by a worker of the device's machine. Raises CkwatchError where the
        machine cannot, or is gone."""
        ...


class _RaceWorker:
    """A worker that lasts, and since when it has had nothing to do."""

    def __init__(self, start: WorkerStart) -> None:
        self.start = start
        self.worker = Worker(start)
        self.close = self.worker.close
        self._users = 0
        self._idle_since = time.monotonic()

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """As long as it is open, the worker has something to do."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._idle_since = time.monotonic()

    def is_idle_for(self, seconds: float) -> bool:
        """Return True if it has been idle for so long."""
        return not self._users and time.monotonic() - self._idle_since >= seconds


def was_given_up(report: BenchmarkReport) -> bool:
    """Return True if a measurement ended because it was certainly above its limit."""
    return any(samples.stop is StopReason.SLOWER for one in report.measured for samples in one.samples)


@dataclass(eq=False)
class MeasureRunner:
    """Times units, one at a time on each device, here and on the machines of `farm`. `on_stage` is called when a worker
    starts something else, `on_warning` with what limits measurements, None when nothing does, and `on_devices` with all
    devices, once they are known and when there are others."""

    _root: Path
    _view_loader: ViewLoader
    _tools: BuildTools
    _history: HistoryRecorder
    farm: DeviceFarm | None = None
    _asking: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _found: tuple[WorkerStart, Devices | BenchmarkFailure, float] | None = field(default=None, init=False)
    _announced: tuple[DeviceFacts, ...] = field(default=(), init=False)
    _racing: dict[str, _RaceWorker] = field(default_factory=dict, init=False)
    _raced: anyio.Event = field(default_factory=anyio.Event, init=False)
    _warnings: dict[str, str] = field(default_factory=dict, init=False)
    on_stage: OnStage = field(default=lambda _unit, _shape, _stage: None, init=False)
    on_warning: Callable[[str | None], None] = field(default=lambda _text: None, init=False)
    on_devices: Callable[[tuple[DeviceFacts, ...]], Awaitable[None]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._regressions = RegressionCheck(self._history)

    @property
    def settings(self) -> BenchSection:
        """`[bench]` of the workspace."""
        return self._view_loader.workspace(MAIN).settings.bench

    async def devices(self, *, again: bool = False) -> Devices | BenchmarkFailure:
        """The devices of the worker's machine, as last found, and those of the farm; the worker is asked again after a
        while when it had none."""
        found = await self._found_by_worker(again=again)
        known = () if self.settings.launcher or isinstance(found, BenchmarkFailure) else found.devices
        own = {(socket.gethostname(), one.identity) for one in known}
        elsewhere = tuple(
            device
            for device in (() if self.farm is None else self.farm.devices())
            if (device.machine, device.identity) not in own  # a worker of this machine has what is known already
        )
        if isinstance(found, BenchmarkFailure):
            absent = [UnavailableKind(kind=kind, why=found.message, hint=found.hint) for kind in DEVICE_KINDS.values()]
            every = Devices(devices=elsewhere, absent=tuple(absent))
        else:
            every = replace(found, devices=(*found.devices, *elsewhere))
        if every.devices != self._announced and self.on_devices is not None:
            self._announced = every.devices
            await self.on_devices(every.devices)
        return found if isinstance(found, BenchmarkFailure) and not elsewhere else every

    async def farm_changed(self) -> None:
        """The farm has other devices than before."""
        if self._found is not None:  # or no device was requested yet
            await self.devices()

    async def _found_by_worker(self, *, again: bool) -> Devices | BenchmarkFailure:
        worker = WorkerStart.of(self.settings, self._root)
        async with self._asking:
            known, now = self._found, time.monotonic()
            if known is not None and known[0] == worker and not again:
                useless = isinstance(known[1], BenchmarkFailure) or not known[1].devices
                if not useless or now - known[2] < DEVICES_RETRY_S:
                    return known[1]
            found = await find_devices(worker)
            self._found = (worker, found, now)
            return found

    async def measure(self, effect: Measure) -> MeasureFinished:
        """A timing, from the history where it has one. Raises CkwatchError when the host cannot, LostArtifactError when
        the store lost the artifact."""
        unit, settings = effect.unit, self.settings
        try:
            shape = find_shape(unit.kernel, effect.shape)
        except CkwatchError:
            return MeasureFinished(effect.work, None, f"shape '{effect.shape}' is gone")
        chosen = await self._device_for(effect)
        if isinstance(chosen, str):
            failed = "" if effect.place is None else effect.place.address
            return MeasureFinished(effect.work, None, chosen, failed)
        device, has_others = chosen
        if has_others:
            settings = settings.model_copy(update={"lease_wait_s": min(settings.lease_wait_s, OTHERS_WAIT_S)})
        problem = problem_of(unit.operation, shape, unit.arch)
        if effect.race is not None:
            settings = race_settings(settings)
        if effect.flush_instructions:
            settings = settings.model_copy(update={"instruction_cache": "flush"})
        key = await to_thread.run_sync(
            benchmark_key, effect.result.products, self._tools.load_product, problem, device, settings
        )
        record = TimingRecord(
            unit=unit.id,
            kernel=unit.kernel.name,
            instance=unit.instance.name,
            arch=unit.arch,
            shape=shape.name,
            contestant=unit.id,
            artifact_key=effect.result.artifact,
            benchmark_key=key,
            taken_at=time.time(),
            parameters=dict(unit.instance.parameters),
            sizes=dict(shape.sizes),
            runtime=dict(shape.runtime),
            problem=problem,
            toolchain=self._tools.identity,
        )
        known = None if effect.force else await self._known(key)
        if known is None and effect.race is not None and not effect.force:
            known = await self._given_up(key, effect.race)
        if known is not None:
            return await self._finished(effect, shape, await self._taken_over(record, known), 0.0)
        began = time.monotonic()
        commit = await commit_of(self._root)
        outcome = await self._ask_for(effect, record, shape, device, settings)
        record = replace(record, commit=commit, taken_at=time.time())
        if isinstance(outcome, BenchmarkReport):
            outcome = replace(outcome, raced=effect.race is not None)
            record = replace(record, report=outcome, benchmark_key=key + GIVEN_UP * was_given_up(outcome))
            self._warn(device, outcome.warning)
        elif outcome.kind in KERNEL_FAILURES:
            record = replace(record, failure=outcome if outcome.device is not None else replace(outcome, device=device))
        elif outcome.mistake is not None:
            mistake = replace(outcome.mistake, problem=shape.name)
            return MeasureFinished(effect.work, None, outcome.message, mistake=mistake)
        else:
            if not device.machine:
                self._found = None  # the devices may have changed
            return MeasureFinished(effect.work, None, _sentence(outcome), device.address)
        return await self._finished(effect, shape, await self._kept(record), time.monotonic() - began)

    async def _device_for(self, effect: Measure) -> tuple[DeviceFacts, bool] | str:
        """The device to measure on, and whether another one may do it as well; or why there is none."""
        found = await self.devices()
        if isinstance(found, BenchmarkFailure):
            return _sentence(found)
        place = effect.place
        if place is not None:
            there = next((device for device in found.devices if device.address == place.address), None)
            return f"{place.label} is gone" if there is None else (there, effect.has_others)
        suitable = suitable_devices(found, effect.unit, effect.device or self.settings.device)
        if isinstance(suitable, str):
            return suitable
        device = preferred(suitable, effect.last_device)
        return device, len(suitable) > 1 and device.address != effect.last_device

    def _warn(self, device: DeviceFacts, warning: str) -> None:
        """Pass on what limits measurements on any of the devices."""
        self._warnings[device.address] = warning
        self.on_warning("\n".join(dict.fromkeys(filter(None, self._warnings.values()))) or None)

    async def _known(self, key: str) -> TimingRecord | None:
        timings = self._history.timings
        try:
            return None if timings is None else await to_thread.run_sync(timings.by_key, key)
        except HistoryError:
            return None  # the user is warned of a history that cannot be used; measuring goes on without it

    async def _given_up(self, key: str, race: Race) -> TimingRecord | None:
        """A timing that was given up in an earlier race, and would be given up in this one."""
        known = await self._known(key + GIVEN_UP)
        if known is None or known.measured is None or race.limit_us is None:
            return None
        times_us = known.measured.samples[0].times_us
        rule = StoppingRule(Precision(limit_us=race.limit_us))
        await to_thread.run_sync(rule.add, times_us)
        return known if rule.certainly_above(race.limit_us) else None

    async def _taken_over(self, record: TimingRecord, known: TimingRecord) -> TimingRecord:
        """The record of the same code under this unit's name."""
        if (known.unit, known.artifact_key, known.shape) == (record.unit, record.artifact_key, record.shape):
            return known
        return await self._kept(
            replace(
                record,
                report=known.report,
                failure=known.failure,
                contestant=known.contestant,
                taken_at=known.taken_at,
                commit=known.commit,
            )
        )

    async def _kept(self, record: TimingRecord) -> TimingRecord:
        timings = self._history.timings
        try:
            numbers = [] if timings is None else await to_thread.run_sync(timings.add, [record])
        except HistoryError:
            return record
        return replace(record, id=numbers[0]) if numbers else record

    async def _ask_for(
        self, effect: Measure, record: TimingRecord, shape: Shape, device: DeviceFacts, settings: BenchSection
    ) -> BenchmarkReport | BenchmarkFailure:
        """Have the unit's artifact measured, and the vendor's library beside it. Raises CkwatchError."""
        own = Contestant(name=record.contestant, artifact=0, symbol=effect.result.symbol)
        assert record.problem is not None  # noqa: S101  # `measure` has just set it
        comparable = settings.library and record.problem.gemm is not None and effect.race is None
        contestants = (own, Contestant(name=LIBRARY)) if comparable else (own,)
        content = await to_thread.run_sync(self._tools.load_product, _shared_object(effect))
        operation, arch = effect.unit.operation, effect.unit.arch
        ragged = tuple(problem_of(operation, other, arch) for other in ragged_shapes(operation, shape))
        job = job_of(effect.unit, record.problem, device, contestants, settings, ragged, effect.race)
        arrays = await to_thread.run_sync(array_contents, operation)
        job, contents = await self._with_probes(self._with_limit(job), [content, *arrays])
        if effect.race is not None and not device.machine:
            return await self._race(job, contents, effect.shape)
        if not device.machine and (racing := self._racing.pop(job.device, None)) is not None:
            await racing.close()  # it holds the device
        return await self._ask(job, contents, effect.shape, device)

    async def _with_probes(self, job: Job, artifacts: list[bytes]) -> tuple[Job, list[bytes]]:
        """The job with the probe kernels among its artifacts, if it needs them from here. Raises CkwatchError."""
        if not job.flush_instructions or job.kind != "hip":
            return job, artifacts
        compiler = self._tools.present_compiler()
        result = await compiler.builder.build(
            CompileRequest(
                source=HIP_SOURCE,
                symbol=SYMBOL,
                more_exports=MORE_SYMBOLS,
                language=Language.HIP,
                arch=arch_base(job.arch),
            )
        )
        if result.artifact is None or result.artifact.shared_object is None:
            raise CkwatchError(
                "the kernel that flushes instruction caches does not compile",
                next((line for line in result.log.splitlines() if "error" in line), result.message or None),
            )
        probes = await to_thread.run_sync(self._tools.load_product, result.artifact.shared_object)
        return replace(job, probes=len(artifacts)), [*artifacts, probes]

    async def _race(self, job: Job, artifacts: Sequence[bytes], shape: str) -> BenchmarkReport | BenchmarkFailure:
        """Measure in a worker that lasts for the next one of the race. What fails in a worker that has measured others
        is tried once more in a fresh one, so that one job does not fail for an error of another."""
        start = WorkerStart.of(self.settings, self._root)
        racing = self._racing.get(job.device)
        if racing is not None and (racing.start != start or racing.worker.jobs >= RACES_PER_WORKER):
            del self._racing[job.device]
            await racing.close()
            racing = None
        if racing is None or job.kind == "cpu":
            # on the processor, what threads a kernel has left behind would disturb the next one
            racing = _RaceWorker(start)
        async with racing.used():
            before = racing.worker.jobs
            measure_once = partial(
                racing.worker.ask,
                job,
                artifacts,
                BenchmarkReport,
                time_limit_s=min(self.settings.time_limit_s, RACE_LIMIT_S),
                on_message=self._reporting(job, shape),
                lasting=True,
            )
            outcome = await measure_once()
            if isinstance(outcome, BenchmarkFailure) and before and outcome.kind not in ITS_OWN_FAULT:
                outcome = await measure_once()
        if job.kind == "cpu":
            await racing.close()
        else:
            self._racing[job.device] = racing
            self._raced.set()
        return outcome

    async def close(self) -> None:
        """End the workers that last."""
        while self._racing:
            await self._racing.popitem()[1].close()

    async def end_idle_races(self) -> None:
        """Give devices back that no race needs any more, again and again, until cancelled."""
        while True:
            if not self._racing:
                self._raced = anyio.Event()
                await self._raced.wait()
            await anyio.sleep(RACE_PAUSE_S)
            for device, racing in list(self._racing.items()):
                # while another one was closed, this one may have been taken, or closed too
                if self._racing.get(device) is racing and racing.is_idle_for(RACE_PAUSE_S):
                    del self._racing[device]
                    await racing.close()

    async def _ask(
        self, job: Job, artifacts: Sequence[bytes], shape: str, device: DeviceFacts
    ) -> BenchmarkReport | BenchmarkFailure:
        report, limit_s = self._reporting(job, shape), self.settings.time_limit_s
        if not device.machine:
            start = WorkerStart.of(self.settings, self._root)
            return await measure(job, artifacts, start, time_limit_s=limit_s, on_message=report)
        if self.farm is None:
            return BenchmarkFailure(kind=FailureKind.LOST, message=f"{device.machine} is gone")
        try:
            outcome = await self.farm.measure(job, artifacts, device, time_limit_s=limit_s, on_message=report)
        except CkwatchError as error:
            return BenchmarkFailure(kind=FailureKind.LOST, message=error.message, hint=error.hint or "", device=device)
        # the machine's own worker does not know what it is called here
        if outcome.device is None:
            return outcome
        return replace(outcome, device=replace(outcome.device, machine=device.machine))

    def _reporting(self, job: Job, shape: str) -> OnMessage:
        name = job.contestants[0].name

        def report(message: WorkerMessage) -> None:
            if isinstance(message, WaitingForDevice):
                self.on_stage(name, shape, f"waits for the device: {message.holder}")
            elif isinstance(message, WorkerStage):
                self.on_stage(name, shape, message.name)

        return report

    async def _finished(self, effect: Measure, shape: Shape, record: TimingRecord, seconds: float) -> MeasureFinished:
        """The record as it is shown, compared with others."""
        again = partial(self._interleaved, effect) if seconds and effect.race is None else None
        rows, diagnostics = await self._regressions.check(effect.unit, shape, record, self.settings.regression, again)
        raced = record.report is not None and record.report.raced
        device = "" if record.device is None else record.device.address
        timing = ShapeTiming(shape.name, effect.result.artifact, tuple(rows), diagnostics, seconds, raced, device)
        return MeasureFinished(effect.work, timing)

    async def _interleaved(self, effect: Measure, record: TimingRecord, other: TimingRecord) -> BenchmarkReport | None:
        """Both artifacts in turns, ours first; None when the other has gone, or it did not work."""
        store, device = self._tools.store, record.device
        if store is None or device is None or record.problem is None or other.problem != record.problem:
            return None
        theirs = await to_thread.run_sync(store.entry, *store_keys(other.artifact_key))
        if theirs is None or theirs.shared_object is None or len(theirs.record.exports) != 1:
            return None
        own = (effect.unit.id, effect.result.symbol, _shared_object(effect))
        before = (PREVIOUS_CONTESTANT, theirs.record.exports[0], theirs.shared_object)
        settings = self.settings
        if effect.flush_instructions:
            settings = settings.model_copy(update={"instruction_cache": "flush"})
        try:
            outcome = await self.in_turns(
                effect.unit, effect.shape, record.problem, device, (own, before), settings=settings
            )
        except CkwatchError:  # the store has lost one of them
            return None
        return None if isinstance(outcome, BenchmarkFailure) else outcome

    async def in_turns(
        self,
        unit: Unit,
        shape: str,
        problem: KernelProblem,
        device: DeviceFacts,
        artifacts: Sequence[tuple[str, str, Path]],
        *,
        settings: BenchSection,
        ragged: tuple[KernelProblem, ...] = (),
    ) -> BenchmarkReport | BenchmarkFailure:
        """Measure artifacts in turns, each its contestant's name, its function and its shared object; they are verified
        in this order. Nothing is kept in the history. Raises CkwatchError, LostArtifactError when the store lost
        one."""
        contents = [await to_thread.run_sync(self._tools.load_product, path) for _, _, path in artifacts]
        contestants = tuple(
            Contestant(name=name, artifact=at, symbol=symbol) for at, (name, symbol, _) in enumerate(artifacts)
        )
        contents += await to_thread.run_sync(array_contents, unit.operation)
        job, contents = await self._with_probes(
            self._with_limit(job_of(unit, problem, device, contestants, settings, ragged)), contents
        )
        return await self._ask(job, contents, shape, device)

    def _with_limit(self, job: Job) -> Job:
        limit_s = self._view_loader.workspace(MAIN).settings.verify.reference_time_limit_s
        return replace(job, reference_limit_s=limit_s)


def _shared_object(effect: Measure) -> Path:
    return Path(effect.result.products[ProductKind.SHARED_OBJECT.value])


def _sentence(failure: BenchmarkFailure) -> str:
    return "\n".join(
        part for part in (failure.message, failure.hint, failure.detail.strip()[:DETAIL_CHARACTERS]) if part
    )
