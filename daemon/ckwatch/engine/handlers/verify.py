"""Verify: has an emulator execute what a unit compiled to, and says whether it is right.

A verification is kept on disk with its artifact, and evicted from the store with it; a thorough one serves where one of
essential problems is wanted. It is made again when the problems, `[verify]` or what the code that executes and judges
them does has changed, or when it is damaged. The lines at which findings stand are looked for anew each time, in the
present text.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from ckwatch.bench.job import CountJob, VerifyJob
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
from ckwatch.model.emulated_archs import EMULATED_ARCHS, emulated_device
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Unit
from ckwatch.model.python_references import REFERENCE_LIMIT_S, PythonReference
from ckwatch.model.targets import Language, language_of
from ckwatch.model.trials import Trial
from ckwatch.model.verification import Verification, VerificationDepth
from ckwatch.system.code_version import version_of
from ckwatch.verification.library import FOLDER, build_library, source_files
from ckwatch.verification.problems import trials_of
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

FINDING_LINES = "finding the lines"
"""The stage after the emulator has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorRun:
    """A run of the emulator: `symbol` of the shared object whose bytes are `artifact`, on these trials; with the
    niceness `nice`. `arrays`: contents of NumPy files that problems name by their digests."""

    arch: str
    symbol: str
    trials: tuple[Trial, ...]
    artifact: bytes
    checked: bool
    instruction_limit: int
    time_limit_s: float
    reference: PythonReference | None = None
    reference_limit_s: float = REFERENCE_LIMIT_S
    nice: int = 0
    arrays: tuple[bytes, ...] = ()


class Emulate(Protocol):
    """Executes a run; `on_stage` gets what it does. Raises CkwatchError where there is no emulator. Cancelling ends
    everything that it started."""

    async def __call__(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> Verification: ...

    async def count(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> LaunchCounted:
        """Execute the first trial and count its instructions."""
        ...


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
        return f"{unit.arch} is not emulated; {', '.join(EMULATED_ARCHS[:-1])} and {EMULATED_ARCHS[-1]} are"
    return ""


@dataclass(eq=False)
class VerifyRunner:
    """Verifies units, one at a time, and counts launches beside that: a person waits for a profile. `on_stage` gets the
    unit's id and what the emulator does."""

    _state: State
    _view_loader: ViewLoader
    _tools: BuildTools
    _emulate: Emulate
    _place: Place
    _at_work: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _counting: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    on_stage: Callable[[str, str], None] = field(default=lambda _unit, _stage: None, init=False)

    @property
    def settings(self) -> VerifySection:
        """`[verify]` of the workspace."""
        return self._view_loader.workspace(MAIN).settings.verify

    async def verify(self, effect: Verify) -> VerifyFinished:
        """A verification; one that was executed just now still without the places of its findings.

        Raises CkwatchError when the host cannot, LostArtifactError when the store lost the artifact.
        """
        unit, artifact = effect.unit, effect.result.artifact
        problem = why_not_emulated(unit)
        if problem:
            return VerifyFinished(effect.work, None, problem, at=time.time())
        if effect.known is not None:
            return await self._placed(effect, effect.known)
        depths = (THOROUGH,) if effect.awaited else (VerificationDepth.ESSENTIAL, THOROUGH)
        limit = self.settings.instruction_limit
        plans = await to_thread.run_sync(_plans, unit, depths, effect.checked, limit)
        found = None if effect.force else await to_thread.run_sync(self._read, artifact, plans)
        if found is not None:
            return await self._placed(effect, found)
        nice = 0 if effect.awaited else self._view_loader.workspace(MAIN).settings.compile.nice
        key, plan = next(iter(plans.items()))
        found = await self._executed(unit, effect.result, plan.trials, effect.checked, limit, nice)
        found = replace(found, depth=plan.depth)
        if found.is_final:
            await to_thread.run_sync(self._keep, artifact, key, found)
        return self._finished(effect, found, 0 if found.findings else effect.work.generation)

    async def verify_trials(self, unit: UnitState, result: CompileFacts, trials: Sequence[Trial]) -> Verification:
        """Verify single problems, with the places of findings as far as they are known; the result is not kept.

        Raises CkwatchError where no emulator executes the unit, or the host cannot.
        """
        problem = why_not_emulated(unit.unit)
        if problem:
            raise CkwatchError(problem)
        checks, limit = self.settings.checks, self.settings.instruction_limit
        found = replace(await self._executed(unit.unit, result, trials, checks, limit), depth=None)
        if not found.findings:
            return found
        self.on_stage(unit.unit.id, FINDING_LINES)
        return await self._place(unit, found)

    async def counted(self, unit: Unit, result: CompileFacts, trial: Trial) -> LaunchCounted:
        """Execute one launch and count its instructions. Raises CkwatchError as `verify_trials`, and where it does not
        come to an end."""
        problem = why_not_emulated(unit)
        if problem:
            raise CkwatchError(problem)
        run = await self._run_of(unit, result, (trial,), False, self.settings.instruction_limit, 0)
        async with self._counting:
            return await self._emulate.count(run, lambda stage: self.on_stage(unit.id, stage))

    async def _executed(
        self,
        unit: Unit,
        result: CompileFacts,
        trials: Sequence[Trial],
        checked: bool,
        instruction_limit: int,
        nice: int = 0,
    ) -> Verification:
        run = await self._run_of(unit, result, trials, checked, instruction_limit, nice)
        async with self._at_work:
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
        return VerifyFinished(effect.work, result, at=time.time())

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
        """Execute the first of a run's trials and count its instructions. Raises CkwatchError as a run, and where the
        worker does not come to an end."""
        job = CountJob(launch=await self._job(run, on_stage))
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
            arch=run.arch,
            symbol=run.symbol,
            trials=run.trials,
            library=str(library),
            objdump=str(toolchain.objdump),
            checked=run.checked,
            instruction_limit=run.instruction_limit,
            reference=run.reference,
            reference_limit_s=run.reference_limit_s,
            kept_references=str(store.folder / REFERENCES),
        )


def _reporter(run: EmulatorRun, on_stage: Callable[[str], None]) -> Callable[[WorkerMessage], None]:
    """Passes a worker's stages on, and gives it the run's niceness."""

    def report(message: WorkerMessage) -> None:
        if isinstance(message, WorkerHello) and run.nice:
            with suppress(OSError):  # it may have ended
                os.setpriority(os.PRIO_PGRP, message.pid, run.nice)
        elif isinstance(message, WorkerStage):
            on_stage(message.name)

    return report
