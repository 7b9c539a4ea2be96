"""Verify: has an emulator execute what a unit compiled to, and says whether it is right.

A verification is kept on disk with its artifact, and evicted from the store with it; a thorough one serves where one of
essential problems is wanted. It is made again when the problems, `[verify]` or what the code that executes and judges
them does has changed, or when it is damaged. The lines at which findings stand are looked for anew each time, in the
present text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import field, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Protocol, TypeVar

import anyio
from anyio import to_thread

from ckwatch.bench.job import EmulatedLaunches, VerifyJob
from ckwatch.bench.worker_protocol import LaunchCounted, WorkerHello, WorkerMessage, WorkerStage
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.core.effects import Verify
from ckwatch.core.events import MAIN, ArtifactVerification, CompileFacts, VerifyFinished
from ckwatch.core.state import State
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.derived_files import DerivedFile
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.model.emulated_archs import emulated_device, not_emulated
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language, language_of
from ckwatch.model.trials import Trial
from ckwatch.model.verification import Verification, VerificationDepth
from ckwatch.system.code_version import version_of
from ckwatch.verification.judging import subject_of
from ckwatch.verification.library import FOLDER, build_library, source_files
from ckwatch.verification.problems import profiled_trial, trials_of
from ckwatch.verification.session import REFERENCES, VERIFIER, count, verify
from ckwatch.workspace.array_files import array_contents
from ckwatch.workspace.settings import VerifySection

VERIFICATIONS = DerivedFile("verification.json", Verification)

VERIFYING_MODULES = (
    "ckwatch.verification.verify_job",
    "ckwatch.verification.session",
    "ckwatch.verification.library",
    "ckwatch.bench.reference_process",
)
"""With what they import, all that has a part in the result of a trial."""

THOROUGH = VerificationDepth.THOROUGH

COUNTS_KEPT = 20

FINDING_LINES = "finding the lines"
"""The stage after the emulator has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorRun(EmulatedLaunches):
    """Launches of the shared object whose bytes are `artifact`, with the niceness `nice`. `arrays`: contents of NumPy
    files that problems name by their digests. `on_counted` gets the counts of the launch that is `counted`."""

    artifact: bytes
    time_limit_s: float
    nice: int = 0
    arrays: tuple[bytes, ...] = ()
    on_counted: Callable[[LaunchCounted], None] | None = None


class Emulate(Protocol):
    """Executes a run; `on_stage` gets what it does. Raises CkwatchError where there is no emulator. Cancelling ends
    everything that it started."""

    async def __call__(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> Verification: ...

    async def count(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> LaunchCounted:
        """Count what is `counted`, and verify nothing."""
        ...


_K = TypeVar("_K")
_V = TypeVar("_V")
_CountKey = tuple[str, Trial]
"""The artifact and what is launched."""

Place = Callable[[UnitState, Verification], Awaitable[Verification]]
"""Adds the lines of findings in the unit's present text, as far as they are known."""


def why_not_emulated(unit: Unit) -> str:
    """Why no emulator executes the unit; empty where one does."""
    language = language_of(unit.kernel.template)
    if language is not Language.HIP:
        what = "the host's processor" if language is Language.CPP else "NVIDIA's GPUs"
        return (
            f"it is compiled for {what}; an emulator executes code of AMD's GPUs only, `ckwatch bench` verifies others"
        )
    if emulated_device(unit.arch) is None:
        return not_emulated(unit.arch)
    return ""


@dataclass(eq=False)
class VerifyRunner:
    """Verifies units, one at a time, and counts launches beside that: a person waits for a profile. What verifies a new
    artifact of a unit that was profiled counts it, too, without another worker. `on_stage` gets the unit's id and what
    the emulator does."""

    _state: State
    _view_loader: ViewLoader
    _tools: BuildTools
    _emulate: Emulate
    _place: Place
    _at_work: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _counting: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _profiled: dict[str, str | None] = field(default_factory=dict, init=False)
    """By unit, the shape that it was profiled on last."""
    _counts: dict[_CountKey, LaunchCounted] = field(default_factory=dict, init=False)
    _coming: dict[_CountKey, anyio.Event] = field(default_factory=dict, init=False)
    """The counts that a verification takes."""
    on_stage: Callable[[str, str], None] = field(default=lambda _unit, _stage: None, init=False)

    @property
    def settings(self) -> VerifySection:
        """`[verify]` of the workspace."""
        return self._view_loader.workspace(MAIN).settings.verify

    async def verify(self, effect: Verify) -> VerifyFinished:
        """A verification; one that was executed just now still without the places of its findings. Raises CkwatchError
        when the host cannot, LostArtifactError when the store lost the artifact."""
        problem = why_not_emulated(effect.unit)
        if problem:
            return VerifyFinished(effect.work, None, problem)
        if effect.known is not None:
            return await self._placed(effect, effect.known)
        found, is_new = await self.verification_of(
            effect.unit, effect.result, checked=effect.checked, awaited=effect.awaited, force=effect.force
        )
        if not is_new:
            return await self._placed(effect, found)
        return self._finished(effect, found, 0 if found.findings else effect.work.generation)

    async def verification_of(
        self, unit: Unit, result: CompileFacts, *, checked: bool, awaited: bool, force: bool = False
    ) -> tuple[Verification, bool]:
        """Return the verification of an artifact without the places of its findings, the kept one unless `force`; True
        if it was executed now. `awaited`: a thorough one, without making way for other programs. Raises CkwatchError
        when the host cannot, LostArtifactError when the store lost the artifact."""
        depths = (THOROUGH,) if awaited else (VerificationDepth.ESSENTIAL, THOROUGH)
        limit = self.settings.instruction_limit
        plans = await to_thread.run_sync(_plans, unit, depths, checked, limit)
        found = None if force else await to_thread.run_sync(self._read, result.artifact, plans)
        if found is not None:
            return found, False
        nice = 0 if awaited else self._view_loader.workspace(MAIN).settings.compile.nice
        key, plan = next(iter(plans.items()))
        counted = None if awaited else await to_thread.run_sync(self._to_count, unit, result.artifact)
        found = await self._executed(unit, result, plan.trials, checked, limit, nice, counted)
        found = replace(found, depth=plan.depth)
        if found.is_final:
            await to_thread.run_sync(self._keep, result.artifact, key, found)
        return found, True

    async def verify_trials(
        self, unit: UnitState, result: CompileFacts, trials: Sequence[Trial], reference: Unit | None = None
    ) -> Verification:
        """Verify single problems, with the places of findings as far as they are known; the result is not kept.
        `reference`: the unit whose operation it is compared by, itself without one. Raises CkwatchError where no
        emulator executes the unit, or the host cannot."""
        problem = why_not_emulated(unit.unit)
        if problem:
            raise CkwatchError(problem)
        checks = self.settings.checks or any(trial.seed is not None for trial in trials)
        limit = self.settings.instruction_limit
        subject = unit.unit if reference is None else subject_of(unit.unit, reference)
        found = replace(await self._executed(subject, result, trials, checks, limit), depth=None)
        if not found.findings:
            return found
        self.on_stage(unit.unit.id, FINDING_LINES)
        return await self._place(unit, found)

    async def counted(self, unit: Unit, result: CompileFacts, shape: str | None) -> tuple[Trial, LaunchCounted]:
        """The counts of a launch on the shape, which are the same each time: known ones, those of the verification that
        is at work, or else of a worker. Raises CkwatchError as `verify_trials` and `profiled_trial`, and where the
        launch does not come to an end."""
        problem = why_not_emulated(unit)
        if problem:
            raise CkwatchError(problem)
        trial = await to_thread.run_sync(profiled_trial, unit, shape)
        key = (result.artifact, trial)
        _keep_last(self._profiled, unit.id, shape)
        if (coming := self._coming.get(key)) is not None:
            await coming.wait()
        async with self._counting:
            found = self._counts.get(key)
            if found is None:
                run = await self._run_of(unit, result, (), False, self.settings.instruction_limit, 0)
                run = replace(run, counted=trial)
                found = await self._emulate.count(run, lambda stage: self.on_stage(unit.id, stage))
        _keep_last(self._counts, key, found)
        return trial, found

    def _to_count(self, unit: Unit, artifact: str) -> Trial | None:
        """The launch of an artifact for a profile that will be asked for; blocks."""
        if unit.id not in self._profiled:
            return None
        try:
            trial = profiled_trial(unit, self._profiled[unit.id])
        except CkwatchError:  # reported to the client that asks for the profile
            return None
        return None if (artifact, trial) in self._counts else trial

    async def _executed(
        self,
        unit: Unit,
        result: CompileFacts,
        trials: Sequence[Trial],
        checked: bool,
        instruction_limit: int,
        nice: int = 0,
        counted: Trial | None = None,
    ) -> Verification:
        run = await self._run_of(unit, result, trials, checked, instruction_limit, nice)
        async with self._at_work, AsyncExitStack() as stack:
            if counted is not None:
                key, coming = (result.artifact, counted), anyio.Event()
                self._coming[key] = coming
                stack.callback(coming.set)
                stack.callback(self._coming.pop, key)
                run = replace(run, counted=counted, on_counted=partial(_keep_last, self._counts, key))
            self.on_stage(unit.id, "starting")
            return await self._emulate(run, lambda stage: self.on_stage(unit.id, stage))

    async def _run_of(
        self,
        unit: Unit,
        result: CompileFacts,
        trials: Sequence[Trial],
        checked: bool,
        instruction_limit: int,
        nice: int,
    ) -> EmulatorRun:
        path = Path(result.products[ProductKind.SHARED_OBJECT.value])
        return EmulatorRun(
            arch=unit.arch,
            symbol=result.symbol,
            trials=tuple(trials),
            artifact=await to_thread.run_sync(self._tools.load_product, path),
            checked=checked,
            instruction_limit=instruction_limit,
            time_limit_s=self.settings.time_limit_s,
            reference=unit.kernel.operation.reference,
            reference_limit_s=self.settings.reference_time_limit_s,
            nice=nice,
            arrays=await to_thread.run_sync(array_contents, unit.kernel.operation),
        )

    def _finished(self, effect: Verify, found: Verification, generation: int) -> VerifyFinished:
        result = ArtifactVerification(effect.result.artifact, found, effect.work.key, generation, effect.unit.kernel)
        return VerifyFinished(effect.work, result)

    async def _placed(self, effect: Verify, found: Verification) -> VerifyFinished:
        """The same with the lines of its findings, as far as they are known."""
        unit = self._state.find(effect.work.key)
        generation = effect.work.generation if unit is None else unit.input.generation
        if unit is None or not found.findings:
            return self._finished(effect, found, generation)
        found = replace(found, findings=tuple(replace(one, place=None, other_place=None) for one in found.findings))
        self.on_stage(effect.unit.id, FINDING_LINES)
        return self._finished(effect, await self._place(unit, found), generation)

    async def kept(self, unit: Unit, artifact: str) -> Verification | None:
        """Return the kept verification of an artifact, findings without their places; executes nothing."""
        if why_not_emulated(unit):
            return None
        checks, limit = self.settings.checks, self.settings.instruction_limit
        plans = await to_thread.run_sync(_plans, unit, tuple(VerificationDepth), checks, limit)
        return await to_thread.run_sync(self._read, artifact, plans)

    def _read(self, artifact: str, plans: Mapping[str, _Plan]) -> Verification | None:
        """One that was made by one of the plans, whatever it was wanted for then."""
        content = VERIFICATIONS.read(self._tools, artifact)
        made = ((plan, VERIFICATIONS.value(content, key=key)) for key, plan in plans.items())
        return next((replace(found, depth=plan.depth) for plan, found in made if found is not None), None)

    def _keep(self, artifact: str, key: str, found: Verification) -> None:
        VERIFICATIONS.keep(self._tools, artifact, found, key=key)


def _keep_last(kept: dict[_K, _V], key: _K, value: _V) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > COUNTS_KEPT:
        del kept[next(iter(kept))]


@cache
def code_version() -> str:
    """Changes with what the code does that makes verifications; blocks, call from a worker thread.

    Trials are in the key themselves, so the code that chooses them is not in here.
    """
    return version_of(VERIFYING_MODULES, source_files())


@dataclass(frozen=True, slots=True)
class _Plan:
    """The trials of a verification. If the thorough problems are the essential ones, all is `depth` thorough."""

    depth: VerificationDepth
    trials: tuple[Trial, ...]


def _plans(unit: Unit, depths: Iterable[VerificationDepth], checked: bool, instruction_limit: int) -> dict[str, _Plan]:
    """The plans of these depths by their keys; blocks, call from a worker thread."""
    plans = (_Plan(depth, trials_of(unit, depth)) for depth in depths)
    return {verification_key(one.trials, checked=checked, instruction_limit=instruction_limit): one for one in plans}


def verification_key(trials: Sequence[Trial], *, checked: bool, instruction_limit: int) -> str:
    """Equal where the same would be done with an artifact, by the same code; blocks, call from a worker thread."""
    done = (code_version(), checked, instruction_limit, tuple(trials))
    return hashlib.sha256(repr(done).encode()).hexdigest()


class WorkerEmulator:
    """Fits `ckwatch.engine.handlers.verify.Emulate`. A worker runs in the folder `root`."""

    def __init__(self, tools: BuildTools, root: Path) -> None:
        self._tools = tools
        self._root = root
        self._building = anyio.Lock()

    async def __call__(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> Verification:
        """Execute a run. Raises CkwatchError without the toolchain's disassembler, or a compiler for the emulator."""
        job = await self._job(run, on_stage)
        start, report = replace(VERIFIER, folder=self._root), _reporter(run, on_stage)
        limit_s = run.time_limit_s
        return await verify(job, run.artifact, start, time_limit_s=limit_s, on_message=report, arrays=run.arrays)

    async def count(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> LaunchCounted:
        """Raises CkwatchError as a run, and where the worker does not come to an end."""
        job = await self._job(run, on_stage)
        start, report = replace(VERIFIER, folder=self._root), _reporter(run, on_stage)
        limit_s = run.time_limit_s
        return await count(job, run.artifact, start, time_limit_s=limit_s, on_message=report, arrays=run.arrays)

    async def _job(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> VerifyJob:
        compiler, store = self._tools.compiler, self._tools.store
        toolchain = None if compiler is None else compiler.toolchain
        if store is None or not isinstance(toolchain, Toolchain):
            problem = self._tools.problem or "there is no ROCm here"
            raise CkwatchError(f"the emulator needs the disassembler of a ROCm toolchain: {problem}")
        async with self._building:
            on_stage("building the emulator")
            library = await build_library(store.folder / FOLDER, toolchain.clang)
        return VerifyJob(
            **{one.name: getattr(run, one.name) for one in fields(EmulatedLaunches)},
            library=str(library),
            objdump=str(toolchain.objdump),
            kept_references=str(store.folder / REFERENCES),
        )


def _reporter(run: EmulatorRun, on_stage: Callable[[str], None]) -> Callable[[WorkerMessage], None]:
    """Passes a worker's stages and counts on, and gives it the run's niceness."""

    def report(message: WorkerMessage) -> None:
        if isinstance(message, WorkerHello) and run.nice:
            with suppress(OSError):  # it may have ended
                os.setpriority(os.PRIO_PGRP, message.pid, run.nice)
        elif isinstance(message, WorkerStage):
            on_stage(message.name)
        elif isinstance(message, LaunchCounted) and run.on_counted is not None:
            run.on_counted(message)

    return report
