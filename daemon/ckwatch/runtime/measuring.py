"""Timing what a unit compiled to: a worker is asked, the history keeps what it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.bench.messages import Stage, Waiting, WorkerMessage
from ckwatch.bench.session import find_devices, measure
from ckwatch.compile.request import ProductKind
from ckwatch.config.settings import BenchSection
from ckwatch.effects import Measure
from ckwatch.errors import CkwatchError
from ckwatch.events import MAIN, Measured, ShapeTiming
from ckwatch.history import HistoryError, TimingRecord
from ckwatch.history.commit import commit_of
from ckwatch.history.comparing import LIBRARY
from ckwatch.model.kernel import Shape
from ckwatch.runtime.benchmark_jobs import Worker, benchmark_key, job_of, suitable
from ckwatch.runtime.loads import Loads
from ckwatch.runtime.memoirs import Memoirs
from ckwatch.runtime.tools import Tools
from ckwatch.runtime.verdicts import Verdicts
from ckwatch.timing.calls import problem_of
from ckwatch.timing.job import Contestant, Job
from ckwatch.timing.report import KERNELS_FAULT, DeviceFacts, Devices, Failure, Report

ASKED_AGAIN_S = 30.0
"""Where there was no device, it is looked for again after so long."""

BEFORE = "before"
"""The contestant that is an earlier artifact."""

DETAIL = 2000
"""Characters of what a worker printed that are told where it, and not the kernel, is at fault."""

OnStage = Callable[[str, str, str], None]
"""Is told unit, shape, and what is done."""


class Measurements:
    """Times units, one at a time. `on_stage` is told what the worker does."""

    def __init__(self, root: Path, loads: Loads, tools: Tools, memoirs: Memoirs) -> None:
        self._root = root
        self._loads = loads
        self._tools = tools
        self._memoirs = memoirs
        self._verdicts = Verdicts(memoirs)
        self._asking = anyio.Lock()
        self._found: tuple[Worker, Devices | Failure, float] | None = None
        self.on_stage: OnStage = lambda _unit, _shape, _stage: None

    @property
    def settings(self) -> BenchSection:
        """The workspace's."""
        return self._loads.workspace(MAIN).settings.bench

    async def devices(self, *, again: bool = False) -> Devices | Failure:
        """What the worker's machine has. What is known is told; where there was nothing, it is looked anew in time."""
        worker = Worker.of(self.settings)
        async with self._asking:
            known, now = self._found, time.monotonic()
            if known is not None and known[0] == worker and not again:
                useless = isinstance(known[1], Failure) or not known[1].devices
                if not useless or now - known[2] < ASKED_AGAIN_S:
                    return known[1]
            found = await find_devices(worker.command, worker.launcher, folder=self._root)
            self._found = (worker, found, now)
            return found

    async def measure(self, effect: Measure) -> Measured:
        """A timing, from the history where it has one.

        Raises CkwatchError when the host cannot, LostArtifactError when the store has not what was compiled.
        """
        unit, settings = effect.unit, self.settings
        shape = next((shape for shape in unit.kernel.shapes if shape.name == effect.shape), None)
        if shape is None:
            return Measured(effect.work, None, f"there is no shape '{effect.shape}' any more", at=time.time())
        found = await self.devices()
        device = (
            _sentence(found) if isinstance(found, Failure) else suitable(found, unit, effect.device or settings.device)
        )
        if isinstance(device, str):
            return Measured(effect.work, None, device, at=time.time())
        problem = problem_of(unit.kernel.operation, shape, unit.arch)
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
        if known is not None:
            return await self._told(effect, shape, await self._taken_over(record, known), 0.0)
        began = time.monotonic()
        commit = await commit_of(self._root)
        outcome = await self._ask_for(effect, record, device)
        record = replace(record, commit=commit, taken_at=time.time())
        if isinstance(outcome, Report):
            record = replace(record, report=outcome)
        elif outcome.kind in KERNELS_FAULT:
            record = replace(record, failure=outcome if outcome.device is not None else replace(outcome, device=device))
        else:
            self._found = None  # perhaps it is another device by now
            return Measured(effect.work, None, _sentence(outcome), at=time.time())
        return await self._told(effect, shape, await self._kept(record), time.monotonic() - began)

    async def _known(self, key: str) -> TimingRecord | None:
        timings = self._memoirs.timings
        try:
            return None if timings is None else await to_thread.run_sync(timings.by_key, key)
        except HistoryError:
            return None  # the user is told of a history that cannot be used; measuring goes on without it

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
        timings = self._memoirs.timings
        try:
            numbers = [] if timings is None else await to_thread.run_sync(timings.add, [record])
        except HistoryError:
            return record
        return replace(record, id=numbers[0]) if numbers else record

    async def _ask_for(self, effect: Measure, record: TimingRecord, device: DeviceFacts) -> Report | Failure:
        """Have the unit's artifact measured, and the vendor's library beside it."""
        own = Contestant(name=record.contestant, artifact=0, symbol=_symbol(effect))
        assert record.problem is not None  # noqa: S101  # `measure` has just set it
        comparable = self.settings.library and record.problem.gemm is not None
        contestants = (own, Contestant(name=LIBRARY)) if comparable else (own,)
        content = await to_thread.run_sync(self._tools.load_product, _shared_object(effect))
        job = job_of(effect.unit, record.problem, device, contestants, self.settings)
        return await self._ask(job, [content], effect.shape)

    async def _ask(self, job: Job, artifacts: Sequence[bytes], shape: str) -> Report | Failure:
        worker = Worker.of(self.settings)
        name = job.contestants[0].name

        def heard(message: WorkerMessage) -> None:
            if isinstance(message, Waiting):
                self.on_stage(name, shape, f"waits for the device: {message.holder}")
            elif isinstance(message, Stage):
                self.on_stage(name, shape, message.name)

        return await measure(
            job,
            artifacts,
            command=worker.command,
            launcher=worker.launcher,
            time_limit_s=self.settings.time_limit_s,
            on_message=heard,
            folder=self._root,
        )

    async def _told(self, effect: Measure, shape: Shape, record: TimingRecord, seconds: float) -> Measured:
        """The record as it is shown, compared with others."""
        again = partial(self._interleaved, effect) if seconds else None
        rows, diagnostics = await self._verdicts.of(effect.unit, shape, record, self.settings.regression, again)
        timing = ShapeTiming(shape.name, effect.result.artifact, rows, diagnostics, seconds)
        return Measured(effect.work, timing, at=time.time())

    async def _interleaved(self, effect: Measure, record: TimingRecord, other: TimingRecord) -> Report | None:
        """Both artifacts in turns, ours first; None when the other has gone, or it did not work."""
        store, device = self._tools.store, record.device
        if store is None or device is None or record.problem is None or other.problem != record.problem:
            return None
        key, _, headers = other.artifact_key.partition(".")
        theirs = await to_thread.run_sync(store.entry, key, headers)
        if theirs is None or theirs.shared_object is None or len(theirs.record.exports) != 1:
            return None
        try:
            before = await to_thread.run_sync(self._tools.load_product, theirs.shared_object)
        except CkwatchError:
            return None
        contents = [await to_thread.run_sync(self._tools.load_product, _shared_object(effect)), before]
        contestants = (
            Contestant(name=effect.unit.id, artifact=0, symbol=_symbol(effect)),
            Contestant(name=BEFORE, artifact=1, symbol=theirs.record.exports[0]),
        )
        job = job_of(effect.unit, record.problem, device, contestants, self.settings)
        outcome = await self._ask(job, contents, effect.shape)
        return None if isinstance(outcome, Failure) else outcome


def _shared_object(effect: Measure) -> Path:
    return Path(effect.result.products[ProductKind.SHARED_OBJECT.value])


def _symbol(effect: Measure) -> str:
    return effect.result.tokens.partition(":")[0]


def _sentence(failure: Failure) -> str:
    return "\n".join(part for part in (failure.message, failure.hint, failure.detail.strip()[:DETAIL]) if part)
