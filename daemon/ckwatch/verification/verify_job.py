"""Verifies one artifact on the emulator in the worker: each problem once, with exact allocations and known contents.

Every tensor is an allocation of exactly its size, so that the first byte beside it is no memory. Outputs and the
workspace are marked as unwritten before a launch; what still is afterwards, the kernel left out.

The worker imports this module once it knows its job, since numpy comes with it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ckwatch.bench.job import VERIFYING, VerifyJob
from ckwatch.bench.kernel_abi import ArtifactLoader, KernelFunction
from ckwatch.bench.numerics.array_files import file_arrays
from ckwatch.bench.numerics.comparison import OutputCheck, WrongElement, WrongResultError
from ckwatch.bench.numerics.given_outputs import GivenReference
from ckwatch.bench.numerics.inputs import before_launch, make_inputs
from ckwatch.bench.numerics.row_verification import RowsReference, reference_of
from ckwatch.bench.numerics.storage import (
    Bits,
    Mask,
    Storage,
    gap_mask,
    in_memory,
    matrix_offsets,
    narrow,
    tensor_elements,
    widen,
)
from ckwatch.bench.numerics.tolerance import INTEGERS, LARGEST, SMALL_FLOATS
from ckwatch.bench.numerics.verification import Reference
from ckwatch.bench.progress import Progress
from ckwatch.bench.reference_calls import ReferenceCalls, ReferenceMistakeError
from ckwatch.bench.report import KERNEL_FAILURES, FailureKind
from ckwatch.bench.runtimes.device_runtime import BenchmarkError
from ckwatch.bench.runtimes.hip_api import explained_status
from ckwatch.bench.worker_protocol import LaunchCounted, TrialVerified, VerificationDone
from ckwatch.model.contractions import MatrixView
from ckwatch.model.kernel_problem import Buffer, KernelProblem, is_fnuz
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import ReferenceMistake
from ckwatch.model.tensor_values import ContentKind
from ckwatch.model.tensors import DTYPES
from ckwatch.model.trials import GEMM_CONTENTS, Contents, GapFill, Trial
from ckwatch.model.verification import (
    EMULATOR_LIMITS,
    EXPLANATIONS,
    FOR_JUDGES,
    STOPS,
    EmulatedFinding,
    FindingKind,
    ProblemOutcome,
    VerifiedProblem,
)
from ckwatch.verification.counting import counting_rules
from ckwatch.verification.device import EmulatedDevice
from ckwatch.verification.findings import MemoryRange, finding_of
from ckwatch.verification.module_launch import ModuleFunction
from ckwatch.verification.samples import PROBED_WORKGROUPS, sample_size
from ckwatch.verification.tensor_memory import TensorMemory, TensorPiece, pieces_of
from ckwatch.verification.undeclared_indices import (
    IndexUse,
    Probe,
    Spot,
    declared,
    probe_values,
    spots_of,
    suspects,
    use_of,
    warning_of,
)

WORKSPACE = "the workspace"
UNKNOWN_OPERATION = "the kernel's computation is not known, and no `reference` gives it"

_Function = KernelFunction | ModuleFunction

_NO_SUCH_LAUNCH = "hipErrorInvalidConfiguration"
_FLOATS_WITH_INFINITY = ("f16", "bf16", "f32", "f64")
_REFERENCE_MACS = 1 << 40
"""Problems are small: their references are whole."""

COUNTED_ELEMENTS = 1 << 18
"""Of each input of a counted launch; those behind them repeat them. Their values seldom matter to what is counted."""

THREADS = "CKWATCH_EMULATOR_THREADS"
LEAST_REPEATED = 0.75
"""Of the instructions of a launch that must be executed again on the same inputs."""

MOST_PLACES = 4
"""Wrong problems of an artifact that are executed once more to find the store of a wrong element."""


def verify_job(
    job: VerifyJob,
    artifacts: Sequence[bytes],
    progress: Progress,
    *,
    emulator: Callable[[str, str, str, int], EmulatedDevice] = EmulatedDevice,
    loader: Callable[[Callable[[int], str]], ArtifactLoader] = ArtifactLoader,
) -> VerificationDone:
    """Verify the artifact on each of the job's problems, and count a launch; each result is reported at once. Raises
    BenchmarkError when the emulator or the artifact cannot be loaded."""
    progress.at("loading the emulator")
    device = emulator(job.library, job.objdump, job.arch, job.instruction_limit)
    verifier = _Verifier(device, job, artifacts, loader(explained_status))
    try:
        if _verify_each(verifier, job, progress) and job.counted is not None:
            progress.at(f"counting {job.counted.shape}")
            failure = verifier.count(job.counted)
            progress.tell(LaunchCounted(kernels=device.counts(), executed=device.executed(), failure=failure))
    finally:
        verifier.close()
    return VerificationDone()


def _verify_each(verifier: _Verifier, job: VerifyJob, progress: Progress) -> bool:
    """Return False where the kernel does not end."""
    for number, trial in enumerate(job.trials):
        progress.at(f"{VERIFYING}{trial.name} ({trial.shape})")
        problem, findings, mistake = verifier.run(trial)
        progress.tell(TrialVerified(number=number, problem=problem, findings=findings, mistake=mistake))
        if any(one.kind is FindingKind.NO_END for one in findings):
            # each of the others would take as long as the one without end
            message = f"not tried, since the kernel does not end on {trial.name}"
            for left, other in enumerate(job.trials[number + 1 :], number + 1):
                outcome = ProblemOutcome.NOT_TRIED
                problem = VerifiedProblem(
                    name=other.name, shape=other.shape, outcome=outcome, message=message, share=0.0
                )
                progress.tell(TrialVerified(number=left, problem=problem))
            return False
    return True


@contextmanager
def _one_thread() -> Iterator[None]:
    """Launches execute the same instructions each time: how long a workgroup waits for another does not depend on what
    else the machine does."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before


@dataclass(slots=True)
class _Launched:
    """A launch that has ended: what it wrote and what the checks found."""

    outputs: dict[str, Storage] = field(default_factory=dict)
    written: dict[str, Mask] = field(default_factory=dict)
    memory: list[MemoryRange] = field(default_factory=list)
    changed_inputs: list[str] = field(default_factory=list)
    findings: tuple[EmulatedFinding, ...] = ()
    failure: BenchmarkError | None = None
    printed: str = ""
    unknown: str = ""
    workgroups: tuple[int, int] = (0, 0)
    is_sample: bool = False
    why_whole: str = ""
    whole_cost: int = 0
    executed: int = 0
    late: str = ""

    @property
    def share(self) -> float:
        """Return the part of the workgroups that were executed."""
        computed, of = self.workgroups
        return computed / of if of else 0.0

    @property
    def stands_for_all(self) -> bool:
        """Return True if the sample found what all workgroups would have: none needs the others, and each output was
        written by some."""
        if self.failure is not None and self.failure.kind is FailureKind.REFUSED:
            return True
        stopped = self.failure is not None or any(one.kind in STOPS for one in self.findings)
        return not self.why_whole and not stopped and all(one.any() for one in self.written.values())


@dataclass(frozen=True, slots=True)
class _How:
    """How a launch is executed. `traced`: report where non-finite values arise; `watched`: report the last writer of
    this element; `sample`: about how many workgroups, 0 for all; `probe`: for its cost, not for its outputs;
    `counted`: as a probe, and nothing is checked."""

    traced: bool = False
    watched: WrongElement | None = None
    sample: int = 0
    probe: bool = False
    counted: bool = False


class _Verifier:
    def __init__(
        self, device: EmulatedDevice, job: VerifyJob, artifacts: Sequence[bytes], loader: ArtifactLoader
    ) -> None:
        self._device = device
        self._job = job
        self._artifact, *self._array_files = artifacts
        self._loader = loader
        self._problem = ""
        kept = None if job.kept_references is None else Path(job.kept_references)
        self._calls = None if job.reference is None else ReferenceCalls(job.reference, job.reference_limit_s, kept)
        self._mistake: ReferenceMistake | None = None
        self._indices: list[IndexUse] = []
        self._samples: dict[str, int] = {}
        self._places_left = MOST_PLACES
        self._executed: dict[str, int] = {}
        self._counted = {name for trial in job.trials if trial.again for name in (trial.name, trial.again)}
        self._kept_memory: dict[tuple[str, str, int], int] = {}

    def close(self) -> None:
        """End the process of the reference."""
        if self._calls is not None:
            self._calls.close()
        for address in self._kept_memory.values():
            with suppress(BenchmarkError):
                self._device.free(address)

    def _function(self, trial: Trial) -> _Function:
        if self._job.launch is not None:
            return ModuleFunction(self._device, self._artifact, self._job.launch, trial.problem)
        return self._loader.function(trial.name, self._artifact, self._job.symbol, trial.problem)

    def run(self, trial: Trial) -> tuple[VerifiedProblem, tuple[EmulatedFinding, ...], ReferenceMistake | None]:
        """The outcome of one problem, what was found meanwhile, and a mistake of its reference."""
        self._mistake = None
        function = self._function(trial)
        trial = _with_indices(trial, self._indices)
        try:
            inputs = self._inputs(trial)
        except ReferenceMistakeError as error:
            mistake = replace(error.mistake, problem=trial.name)
            message = f"the reference is wrong: {mistake.sentence}"
            outcome = ProblemOutcome.NOT_COMPARED
            return (
                VerifiedProblem(name=trial.name, shape=trial.shape, outcome=outcome, message=message, share=0.0),
                (),
                mistake,
            )
        with _one_thread() if trial.name in self._counted else nullcontext():
            done = self._launch(trial, function, inputs)
        if spots_of(done.findings) and (found := self._undeclared(trial, function, inputs, done)) is not None:
            trial, inputs, done = found
        problem, wrong = self._judged(trial, inputs, done)
        if problem.outcome is ProblemOutcome.RIGHT and (less := self._left_out(trial, function, inputs, done)):
            problem = replace(problem, outcome=ProblemOutcome.WRONG, message=less)
        findings = done.findings
        if wrong is not None and self._places_left:
            self._places_left -= 1
            findings += self._writer(trial, function, inputs, wrong)
        if trial.hint and problem.outcome is ProblemOutcome.WRONG:
            problem = replace(problem, message=f"{problem.message}; {trial.hint}")
        if trial.hint:
            findings = tuple(one if one.kind in FOR_JUDGES else replace(one, hint=trial.hint) for one in findings)
        unexplained = problem.outcome in (ProblemOutcome.WRONG, ProblemOutcome.NOT_COMPARED)
        if unexplained and _has_non_finite(trial.compared, done, self._fnuz(trial)):
            again = self._launch(trial, function, inputs, traced=True)
            findings += tuple(one for one in again.findings if one.kind in EXPLANATIONS)
        return problem, findings, self._mistake

    def _left_out(self, trial: Trial, function: _Function, inputs: Mapping[str, Storage], done: _Launched) -> str:
        """Return how much less than before a launch with the same inputs executes, twice in a row; else empty."""
        self._executed.setdefault(trial.name, done.executed)
        before = self._executed.get(trial.again, 0)
        if not trial.again or done.executed >= LEAST_REPEATED * before:
            return ""
        with _one_thread():
            executed = self._launched(trial, function, inputs, _How()).executed
        if executed >= LEAST_REPEATED * before:
            return ""
        return (
            f"it executes {executed:,} instructions on inputs for which it executed {before:,} before: a later call "
            "leaves out work"
        )

    def count(self, trial: Trial) -> str:
        """Launch once and count; why it did not end as it should, or ""."""
        function = self._function(trial)
        self._device.count(counting_rules(self._job.arch))
        try:
            inputs = self._inputs(trial, distinct=COUNTED_ELEMENTS)
            done = self._launched(trial, function, inputs, _How(probe=True, counted=True))
        except ReferenceMistakeError as error:
            return f"the reference is wrong: {error.mistake.sentence}"
        if self._problem:
            return f"the device code cannot be executed: {self._problem}"
        stopped = next((one.message for one in done.findings if one.kind in EMULATOR_LIMITS | STOPS), done.unknown)
        if done.failure is not None and done.failure.kind is FailureKind.REFUSED:
            return f"it is refused: {_refusal(trial, done)}"
        return stopped or ("" if done.failure is None else done.failure.message)

    def _writer(
        self, trial: Trial, function: _Function, inputs: Mapping[str, Storage], wrong: WrongElement
    ) -> tuple[EmulatedFinding, ...]:
        """The store that writes a wrong element last, by another launch; none where nothing writes it."""
        again = self._launch(trial, function, inputs, watched=wrong)
        found = [one for one in again.findings if one.kind is FindingKind.WRONG_RESULT]
        return tuple(replace(one, message=f"{one.message}: {wrong.text}") for one in found[-1:])

    def _undeclared(
        self, trial: Trial, function: _Function, inputs: Mapping[str, Storage], done: _Launched
    ) -> tuple[Trial, dict[str, Storage], _Launched] | None:
        """The trial with those indices declared that lead out of bounds, and its launch, with a warning for each; None
        where it is not they that do. What is out of bounds with such indices, too, stays an error."""
        problem = trial.compared
        names = suspects(problem) if self._job.checked else []
        if not names:
            return None
        zeros = {**inputs, **{name: _filled(problem, inputs[name], name, 0) for name in names}}
        gone = spots_of(done.findings) - spots_of(self._launch(trial, function, zeros).findings)
        uses = [use for name in names if gone and (use := self._use(trial, function, zeros, name, gone)) is not None]
        if not uses:
            return None
        again = _with_indices(trial, uses)
        given = self._inputs(again)
        launched = self._launch(again, function, given)
        self._indices += uses
        cause = next(one for one in done.findings if spots_of([one]) & gone)
        launched.findings += tuple(warning_of(cause, use) for use in uses)
        return again, given, launched

    def _use(
        self, trial: Trial, function: _Function, zeros: Mapping[str, Storage], name: str, gone: set[Spot]
    ) -> IndexUse | None:
        """How the values of one input are used, by launches with two constants in it."""
        for values in probe_values(trial.compared, name):
            probes = []
            for value in values:
                constant = _filled(trial.compared, zeros[name], name, value)
                launched = self._launch(trial, function, {**zeros, name: constant})
                probes.append(Probe(value, launched.findings, launched.memory))
            use = use_of(trial.compared, name, gone, *probes)
            if use is not None:
                return use
        return None

    @property
    def _checked(self) -> bool:
        return self._job.checked or self._job.is_judged

    def _seed(self, trial: Trial) -> int:
        return self._job.seed if trial.seed is None else trial.seed

    def _fnuz(self, trial: Trial) -> bool:
        known = trial.problem.fnuz
        return is_fnuz(self._job.arch) if known is None else known

    def _inputs(self, trial: Trial, distinct: int | None = None) -> dict[str, Storage]:
        given = file_arrays(trial.compared, self._array_files)
        seed = self._seed(trial)
        inputs = make_inputs(trial.compared, seed, self._fnuz(trial), given, distinct)
        if self._calls is not None:
            self._calls.write_inputs(trial.compared, inputs, seed, fnuz=self._fnuz(trial))
        if trial.gaps is GapFill.INFINITY:
            for name, elements in inputs.items():
                buffer = trial.compared.buffer(name)
                gaps = gap_mask(trial.compared, buffer)
                if gaps is not None and buffer.dtype in _FLOATS_WITH_INFINITY and not buffer.output:
                    elements[gaps] = narrow(np.full(1, np.inf), buffer.dtype, fnuz=False)[0]
        _fill(trial, inputs)
        if self._job.reference is None or not self._job.reference.makes_inputs:
            _scale(trial, inputs, self._fnuz(trial))
        return inputs

    def _launch(
        self,
        trial: Trial,
        function: _Function,
        inputs: Mapping[str, Storage],
        *,
        traced: bool = False,
        watched: WrongElement | None = None,
    ) -> _Launched:
        """A launch of all workgroups, or of a sample where that stands for all of them."""
        sample = self._sample_of(trial, function, inputs)
        if sample:
            done = self._launched(trial, function, inputs, _How(traced, watched, sample))
            if done.stands_for_all:
                return done
            self._samples[trial.name] = 0
        return self._launched(trial, function, inputs, _How(traced, watched))

    def _sample_of(self, trial: Trial, function: _Function, inputs: Mapping[str, Storage]) -> int:
        """How many workgroups of a problem are executed; 0 for all, also where one needs what others do."""
        if not trial.may_be_sampled or not self._checked:
            return 0
        if trial.name not in self._samples:
            probe = self._launched(trial, function, inputs, _How(sample=PROBED_WORKGROUPS, probe=True))
            fits = probe.share < 1 and not probe.why_whole and probe.failure is None
            self._samples[trial.name] = sample_size(probe.workgroups[1], probe.whole_cost) if fits else 0
        return self._samples[trial.name]

    def _launched(self, trial: Trial, function: _Function, inputs: Mapping[str, Storage], how: _How) -> _Launched:
        device, done = self._device, _Launched()
        device.clear()
        checked = self._checked and not how.counted
        device.configure(
            checked=checked, traced=how.traced, judged=self._job.is_judged, workgroups=trial.workgroups,
            seed=self._seed(trial),
        )  # fmt: skip
        held: list[int] = []
        ranges = done.memory
        with _captured_stderr() as printed:
            try:
                self._run(trial, function, inputs, done, held, how)
            except BenchmarkError as failure:
                done.failure = failure
            finally:
                for address in held:
                    with suppress(BenchmarkError):
                        device.free(address)
        done.printed = printed()
        done.findings = tuple(finding_of(raw, trial.name, ranges) for raw in device.findings())
        done.workgroups, done.whole_cost = device.workgroups(), device.whole_cost()
        done.executed = device.executed()
        done.is_sample = bool(how.sample) and done.share < 1
        endless = next((one for one in done.findings if one.kind is FindingKind.NO_END), None)
        if endless is not None and trial.workgroups is not None:  # it may wait for a workgroup that was left out
            done.findings = tuple(one for one in done.findings if one is not endless)
            done.unknown = f"{endless.message}; only some of its workgroups were executed"
        self._problem = self._problem or device.problem()
        return done

    def _run(
        self,
        trial: Trial,
        function: _Function,
        inputs: Mapping[str, Storage],
        done: _Launched,
        held: list[int],
        how: _How,
    ) -> None:
        device, problem, ranges = self._device, trial.problem, done.memory
        workspace_bytes = function.workspace_bytes(0)

        def allocate(name: str, size_bytes: int, offset: int = 0) -> int:
            key = (trial.memory, name, size_bytes + offset)
            start = self._kept_memory.get(key) or (device.allocate if trial.dense is None else device.reserve)(key[2])
            if trial.memory:
                self._kept_memory[key] = start
            else:
                held.append(start)
            if not how.counted:
                device.mark_undefined(start, size_bytes + offset)
            ranges.append(MemoryRange(name=name, address=start + offset, size_bytes=size_bytes))
            return start + offset

        addresses = {}
        for buffer in problem.buffers:
            offset = DTYPES[buffer.dtype].bytes_for(trial.offset_of(buffer.name))
            addresses[buffer.name] = allocate(buffer.name, buffer.size_bytes, offset)
        memory = {name: _memory_of(device, trial, name, address) for name, address in addresses.items()}
        read = {name: problem.buffer(name) for name in inputs if not problem.buffer(name).output}
        given = {name: in_memory(inputs[name], buffer.dtype) for name, buffer in read.items()}
        for name, as_bytes in given.items():
            memory[name].upload(as_bytes)
        for buffer in trial.compared.buffers:
            if buffer.output and (buffer.in_out or not how.probe):
                done.outputs[buffer.name] = before_launch(trial.compared, buffer, inputs, self._fnuz(trial))
                memory[buffer.name].upload(in_memory(done.outputs[buffer.name], buffer.dtype))
                if not buffer.in_out:
                    memory[buffer.name].mark_undefined()
        workspace = allocate(WORKSPACE, workspace_bytes) if workspace_bytes else 0
        with self._watching(trial, memory, how.watched), self._sampling(how.sample, self._seed(trial), done):
            self._execute(trial, function, addresses, workspace, done)
        if how.probe:
            return
        for name, elements in done.outputs.items():
            as_bytes = in_memory(elements, problem.buffer(name).dtype)
            before = as_bytes.copy()
            memory[name].download(as_bytes)
            unwritten = self._unwritten(problem.buffer(name), memory[name], before, as_bytes, elements.size, how)
            done.written[name] = ~unwritten
        for name, as_bytes in given.items():
            found = np.empty_like(as_bytes)
            memory[name].download(found)
            if not np.array_equal(found, as_bytes):
                done.changed_inputs.append(name)

    def _execute(
        self, trial: Trial, function: _Function, addresses: Mapping[str, int], workspace: int, done: _Launched
    ) -> None:
        """Launch, and wait; for a judge on a stream of its own, while others do only what that one waits for."""
        device = self._device
        if not self._job.is_judged or self._job.launch is not None:
            function.launch(addresses, workspace, 0)()
            device.synchronize()
            return
        names = [name for name in done.outputs if trial.dense is None]
        places = {name: (addresses[name], trial.problem.buffer(name).size_bytes) for name in names}
        with device.others_held_back() as stream:
            function.launch(addresses, workspace, stream)()
            device.synchronize(stream)
            early = {name: device.bytes_at(*place) for name, place in places.items()}
        device.synchronize()
        late = (name for name, place in places.items() if device.bytes_at(*place) != early[name])
        done.late = next(late, "")

    def _unwritten(
        self, buffer: Buffer, memory: TensorMemory, before: Bits, after: Bits, elements: int, how: _How
    ) -> Mask:
        """Which elements of an output the launch has left, by its bytes before and after."""
        if how.sample and elements:
            return _any_of_each(~memory.sampled(after.nbytes) | memory.undefined(after.nbytes), elements)
        if buffer.in_out or not elements:  # all of it was written before
            return np.zeros(elements, np.bool_)
        if self._checked:
            return _any_of_each(memory.undefined(after.nbytes), elements)
        # the writer of a byte is unknown: what differs from the poison was written
        unwritten: Mask = np.logical_and.reduce((after == before).reshape(elements, -1), axis=1)
        if buffer.dtype in INTEGERS:  # the poison is a result too
            unwritten[:] = unwritten.all()
        return unwritten

    @contextmanager
    def _sampling(self, workgroups: int, seed: int, done: _Launched) -> Iterator[None]:
        if not workgroups:
            yield
            return
        self._device.begin_sample(workgroups, seed)
        try:
            yield
        finally:
            done.why_whole = self._device.end_sample()

    @contextmanager
    def _watching(self, trial: Trial, memory: Mapping[str, TensorMemory], wrong: WrongElement | None) -> Iterator[None]:
        if wrong is None:
            yield
            return
        dtype = DTYPES[trial.problem.buffer(wrong.buffer).dtype]
        first = wrong.offset * dtype.size_bytes // dtype.packed
        self._device.watch(memory[wrong.buffer].address_of(first), dtype.size_bytes)
        try:
            yield
        finally:
            self._device.watch(0, 0)

    def _judged(
        self, trial: Trial, inputs: Mapping[str, Storage], done: _Launched
    ) -> tuple[VerifiedProblem, WrongElement | None]:
        """The outcome, and the wrong element that it names."""
        try:
            return self._outcome(trial, inputs, done), None
        except WrongResultError as wrong:
            text = f"{wrong.message} ({_evidence(wrong)})" if wrong.detail else wrong.message
            if trial.refusal:
                text = f"it must be refused ({trial.refusal}), and is computed wrongly: {text}"
            return _ended(trial, done, ProblemOutcome.WRONG, text), wrong.element

    def _outcome(self, trial: Trial, inputs: Mapping[str, Storage], done: _Launched) -> VerifiedProblem:
        """Raises WrongResultError."""

        def ended(outcome: ProblemOutcome, message: str | None = None) -> VerifiedProblem:
            return VerifiedProblem(name=trial.name, shape=trial.shape, outcome=outcome, message=message, share=0.0)

        if self._problem:
            return ended(ProblemOutcome.NOT_VERIFIED, f"the device code cannot be executed: {self._problem}")
        unknown = done.unknown or next((one.message for one in done.findings if one.kind in EMULATOR_LIMITS), "")
        if unknown:
            return ended(ProblemOutcome.NOT_VERIFIED, unknown)
        stop = next((one for one in done.findings if one.kind in STOPS), None)
        if stop is not None:
            return ended(ProblemOutcome.WRONG, f"the kernel {stop.message.removeprefix('the kernel ')}")
        if done.failure is not None:
            if done.failure.kind is FailureKind.REFUSED:
                refused = ProblemOutcome.WRONG if trial.refusal == "" else ProblemOutcome.REFUSED
                return ended(refused, _refusal(trial, done))
            if trial.hint and _NO_SUCH_LAUNCH in done.failure.message:  # said aloud, of sizes that were not given
                return ended(ProblemOutcome.REFUSED, done.failure.message)
            blamed = done.failure.kind in KERNEL_FAILURES
            text = " ".join(part for part in (done.failure.message, _last_line(done.printed)) if part)
            return ended(ProblemOutcome.WRONG if blamed else ProblemOutcome.NOT_VERIFIED, text)
        if done.late:
            text = f"the kernel writes to {done.late} on another stream than its own, and nothing waits for that"
            return _ended(trial, done, ProblemOutcome.WRONG, text)
        if done.changed_inputs:
            text = f"the kernel wrote to its input {done.changed_inputs[0]}"
            return _ended(trial, done, ProblemOutcome.WRONG, text)
        try:
            check = self._compare(trial, inputs, done)
        except ReferenceMistakeError as error:
            if trial.seed is not None and trial.contents is not Contents.RANDOM:  # it need not be defined there
                return _ended(trial, done, ProblemOutcome.NOT_TRIED, error.mistake.sentence)
            self._mistake = replace(error.mistake, problem=trial.name)
            text = f"the reference is wrong: {self._mistake.sentence}"
            return _ended(trial, done, ProblemOutcome.NOT_COMPARED, text)
        if not trial.problem.is_compared:
            return _ended(trial, done, ProblemOutcome.NOT_COMPARED, UNKNOWN_OPERATION)
        right = _ended(trial, done, ProblemOutcome.RIGHT)
        return right if check is None or trial.seed is None else replace(right, error=check.error, drift=check.drift)

    def _compare(self, trial: Trial, inputs: Mapping[str, Storage], done: _Launched) -> OutputCheck | None:
        """Raises WrongResultError and ReferenceMistakeError."""
        problem, whole = trial.compared, done.share == 1
        reference, mistake = None, None
        try:
            reference = self._reference(problem, inputs, None if whole else done.written)
        except ReferenceMistakeError as error:
            mistake = error
        optional = {} if reference is None else reference.optional
        for name, written in done.written.items():
            view = next(view for view in problem.views if view.buffer == name)
            left = ~tensor_elements(written, view)
            if name in optional:
                left &= ~optional[name]
            if problem.buffer(name).given or done.is_sample:  # what the kernel leaves is compared, too, or not known
                continue
            if left.any() and (whole or left.all()):
                first, last = (f"{name}[{', '.join(map(str, at))}]" for at in np.argwhere(left)[[0, -1]].tolist())
                raise WrongResultError(
                    FailureKind.UNWRITTEN,
                    f"the kernel left {np.count_nonzero(left):,} of {left.size:,} elements of {name} unwritten",
                    f"the first is {first}" if first == last else f"the first is {first}, the last {last}",
                )
        if mistake is not None:
            raise mistake
        if reference is None:
            return None
        return reference.check(done.outputs) if whole else reference.check_part(done.outputs)

    def _reference(
        self, problem: KernelProblem, inputs: Mapping[str, Storage], written: Mapping[str, Mask] | None
    ) -> Reference | RowsReference | GivenReference | None:
        """Raises ReferenceMistakeError."""
        if problem.reference is None:
            return reference_of(problem, inputs, _REFERENCE_MACS, self._job.seed, written)
        if self._calls is None:
            raise BenchmarkError(FailureKind.BROKEN, "the job is without its reference")
        return GivenReference(problem, self._calls.outputs(problem, inputs), written)


def _any_of_each(marked: Mask, elements: int) -> Mask:
    """Which elements have a marked byte."""
    each = marked.size // elements
    if each in (1, 2, 4, 8):
        return np.asarray(marked.view(f"u{each}") != 0)
    return np.asarray(marked.reshape(elements, -1).any(axis=1))


def _ended(trial: Trial, done: _Launched, outcome: ProblemOutcome, message: str | None = None) -> VerifiedProblem:
    """The outcome of a problem whose launch has ended."""
    workgroups = done.workgroups if done.share < 1 and any(done.workgroups) else None
    if message is not None and workgroups is not None:
        message = f"{message}; {workgroups[0]:,} of {workgroups[1]:,} workgroups were executed"
    return VerifiedProblem(
        name=trial.name, shape=trial.shape, outcome=outcome, message=message, share=done.share,
        workgroups=workgroups,
    )  # fmt: skip


def _with_indices(trial: Trial, uses: Sequence[IndexUse]) -> Trial:
    if not uses:
        return trial
    dense = None if trial.dense is None else declared(trial.dense, uses)
    return replace(trial, problem=declared(trial.problem, uses), dense=dense)


def _filled(problem: KernelProblem, elements: Storage, name: str, value: int) -> Storage:
    """A copy with one value in all of a tensor's elements."""
    found = elements.copy()
    tensor_elements(found, next(view for view in problem.views if view.buffer == name))[...] = value
    return found


def _memory_of(device: EmulatedDevice, trial: Trial, name: str, address: int) -> TensorMemory:
    if trial.dense is None:
        return TensorMemory(device, address, [TensorPiece(0, 0, trial.problem.buffer(name).size_bytes)])
    return TensorMemory(device, address, pieces_of(trial.dense, trial.problem, name))


def _has_non_finite(problem: KernelProblem, done: _Launched, fnuz: bool) -> bool:
    """Return True if the kernel wrote an infinity or NaN to a tensor."""
    for name, written in done.written.items():
        buffer = problem.buffer(name)
        gaps = gap_mask(problem, buffer)
        elements = done.outputs[name][written if gaps is None else written & ~gaps]
        if not np.isfinite(widen(elements, buffer.dtype, fnuz)).all():
            return True
    return False


def _fill(trial: Trial, inputs: Mapping[str, Storage]) -> None:
    """Replace random inputs by those of the trial; gaps stay."""
    problem, gemm = trial.compared, trial.compared.gemm
    if gemm is None or gemm.x.windows or trial.contents not in GEMM_CONTENTS:
        return

    def put(view: MatrixView, values: npt.ArrayLike) -> None:
        """Equal matrices."""
        stored = narrow(np.asarray(values, np.float64), problem.buffer(view.buffer).dtype, gemm.fnuz)
        rows, columns = (np.arange(size) for size in view.sizes)
        for matrix in range(view.matrices):
            inputs[view.buffer][matrix_offsets(view, matrix, rows, columns)] = stored

    if trial.contents is Contents.SIGNED_SCALES:
        for view in (step.operand for step in gemm.steps if step.scale):
            if view is not None and problem.buffer(view.buffer).dtype != "e8m0":
                several = any(stride for _, stride in (*view.rows, *view.columns))
                along = 0 if any(stride for _, stride in view.rows) else 1
                put(view, np.indices(view.sizes)[along] % 3 - 1 if several else -1.0)
        return
    if trial.contents is Contents.LARGEST:
        k, n = gemm.w.sizes
        picked = np.arange(gemm.x.sizes[0]) * 7 % k
        put(gemm.x, np.eye(k)[picked])
        largest = min(_largest(problem.buffer(view.buffer).dtype, fnuz=gemm.fnuz) for view in (gemm.w, gemm.y))
        rows, columns = np.indices((k, n))
        put(gemm.w, largest * (1 - 2 * ((rows + columns) % 2)) / (1 + (rows * 3 + columns) % 5))
        return
    for view in (gemm.x, gemm.w):
        put(view, 1.0 if trial.contents is Contents.ONES else 0.0)


def _scale(trial: Trial, inputs: Mapping[str, Storage], fnuz: bool) -> None:
    """Change random inputs as a judge asks: floats without a meaning in the kernel file but a normal distribution."""
    for name, elements in inputs.items():
        buffer = trial.compared.buffer(name)
        plain = buffer.values is None or buffer.values.kind is ContentKind.NORMAL
        if trial.seed is None or not plain or buffer.scale or buffer.dtype not in _FLOATS_WITH_INFINITY:
            continue
        view = next(view for view in trial.compared.views if view.buffer == name)
        stored = tensor_elements(elements, view)
        values = widen(stored, buffer.dtype, fnuz)
        rows = np.indices(view.sizes)[0] if view.sizes else np.zeros(())
        match trial.contents:
            case Contents.ZEROS | Contents.ONES if trial.compared.gemm is None:
                values = np.full_like(values, trial.contents is Contents.ONES)
            case Contents.LARGE:
                values = values * 4
            case Contents.SMALL:
                values = values / 1024
            case Contents.UNEVEN:
                values = values * 2.0 ** (rows % 7 - 3)
            case Contents.SHUFFLED if values.ndim:
                values = _generator(trial, name).permutation(values)
            case Contents.ONE_CHANGED if values.size:
                flat = values.reshape(-1)
                at = _generator(trial, name).integers(flat.size)
                flat[at] = flat[np.abs(flat - flat[at]).argmax()]
                values = flat.reshape(values.shape)
            case Contents.SHIFTED:
                values = values + 100
            case Contents.NON_FINITE if values.size:
                flat = values.reshape(-1)
                places = _generator(trial, name).integers(flat.size, size=(3, 1 + flat.size // 200))
                flat[places] = np.array([[np.inf], [-np.inf], [np.nan]])
                values = flat.reshape(values.shape)
            case _:
                continue
        stored[...] = narrow(values, buffer.dtype, fnuz)


def _generator(trial: Trial, name: str) -> np.random.Generator:
    """Random numbers for a tensor of a trial."""
    return np.random.default_rng([trial.seed or 0, *name.encode()])


def _largest(dtype: str, *, fnuz: bool) -> float:
    """The most that an operand may be whose result is itself, scaled by less than three; its cube is still an f32."""
    if dtype in INTEGERS:
        return INTEGERS[dtype][1]
    form = SMALL_FLOATS.get((dtype, fnuz))
    return min((LARGEST.get(dtype, np.inf) if form is None else form.largest) / 4, 2.0**40)


def _refusal(trial: Trial, done: _Launched) -> str:
    """By the kernel's own words, by CK's rules, or without any."""
    reason = trial.refusal or _last_line(done.printed) or "no reason is given"
    own_words = (reason.partition("not supported: ")[2] or reason).partition(" (M=")[0]
    return f"it refuses a shape that it should support: {own_words}" if trial.refusal == "" else own_words


def _evidence(wrong: WrongResultError) -> str:
    """An element with its values, where one is named, and the tolerance."""
    first, *others = wrong.detail.splitlines()
    element = next((line for line in others if ", reference " in line), "")
    return f"{element}; {first}" if element else first


def _last_line(printed: str) -> str:
    return next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "")


@contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """Capture what is written to descriptor 2 meanwhile, also by C; it is passed on at the end."""
    own = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        text = b""
        try:
            yield lambda: text.decode(errors="replace")
        finally:
            os.dup2(own, 2)
            file.seek(0)
            text = file.read()
            os.write(own, text)
            os.close(own)
