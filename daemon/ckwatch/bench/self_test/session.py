"""The client's side of the self-test: gives workers their steps, and puts together what they have shown.

After a step that takes its worker along, another one goes on. Those that must do so have a worker each, and the next
one has to find the device as it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import anyio

from ckwatch.bench.job import SelfTestJob, SelfTestStep
from ckwatch.bench.report import BenchmarkFailure, FailureKind
from ckwatch.bench.worker_protocol import SelfTestDone, StepTried, WaitingForDevice, WorkerMessage, WorkerStage
from ckwatch.bench.worker_session import Worker, WorkerStart
from ckwatch.model import self_test as names
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.self_test import AssumptionTrial, TrialOutcome, not_assumed

TIME_LIMIT_S = 180.0
"""For the steps of one worker, which are shortened to less than that."""

PROVOKED_LIMIT_S = 10.0
"""After which a probe that does not end has been waited for long enough, the start of its worker included."""

FRESH_PROCESSES = 5
REPEATS_WITHIN = 0.005
LONG_US = 100.0
STEADY_CLOCK = 0.01
"""Medians of the clock that lie further apart are those of clocks that are not steady."""

LOST_WORKERS = 8
"""After so many that ended before their steps no other is started."""

EARLY = (
    *(names.PROPERTIES, names.LEASE, names.OTHERS, names.COPIES, names.GUARDS, names.POISON, names.GATE),
    *(names.RESOLUTION, names.ORDER, names.EVENT_CLOCK, names.LIBRARY, names.CLOCKS, names.POWER, names.CACHE_SIZE),
    *(names.FLUSH, names.INSTRUCTIONS),
)
"""Assumptions that need no kernels but the probes."""

EXPECTED: Mapping[str, FailureKind] = {
    names.FAULT: FailureKind.FAULT,
    names.HANG: FailureKind.HUNG,
    names.CRASH: FailureKind.CRASHED,
}
"""The failures that must be reported when something is provoked; a fault of the processor is a crash."""

OnTrial = Callable[[AssumptionTrial], None]
OnStage = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSteps:
    """Steps on kernels: the `numerics` of each, in this order for at most `numerics_s`; `same`: two builds of one
    source (None: the vendor's library), for at most `same_s`."""

    numerics: Sequence[SelfTestStep] = ()
    same: SelfTestStep | None = None
    numerics_s: float = 30.0
    same_s: float = 40.0


async def run_self_test(
    job: SelfTestJob,
    artifacts: Sequence[bytes],
    kernels: KernelSteps,
    start: WorkerStart,
    on_trial: OnTrial,
    on_stage: OnStage = lambda _stage: None,
) -> SelfTestDone | None:
    """Try every assumption on the device of `job`, whose steps are left empty; `on_trial` gets each trial at once. What
    took part, if a worker came to its end."""
    runner = StepRunner(job, artifacts, start, on_trial, on_stage)
    for trial in not_assumed(job.kind):
        on_trial(trial)
    assumed = {name for name, one in names.ASSUMPTIONS.items() if job.kind in one.kinds}
    await runner.steps([SelfTestStep(assumption=name) for name in EARLY if name in assumed])
    for name in EXPECTED:
        await runner.provoke(name)
    await runner.numerics(kernels.numerics, kernels.numerics_s)
    same = kernels.same or SelfTestStep(assumption=names.SAME)
    await runner.steps([replace(same, assumption=names.SAME, budget_s=kernels.same_s)])
    # first the one that takes little power: no limit is left from the other
    repeats = [SelfTestStep(assumption=names.REPEATS_READ)] if names.REPEATS_READ in assumed else []
    await runner.repeats([*repeats, replace(same, assumption=names.REPEATS)])
    return runner.done


@dataclass(slots=True)
class StepRunner:
    """Tries one thing after the other in workers; `done` is what took part in the last that came to its end."""

    job: SelfTestJob
    artifacts: Sequence[bytes]
    start: WorkerStart
    take: OnTrial
    on_stage: OnStage
    done: SelfTestDone | None = None

    async def steps(self, steps: Sequence[SelfTestStep], *, deadline: float = float("inf")) -> list[AssumptionTrial]:
        """Try steps, those behind one that takes its worker along in another; what was shown, which is kept."""
        shown: list[AssumptionTrial] = []
        left = list(steps)
        for _ in range(LOST_WORKERS):
            if not left or anyio.current_time() >= deadline:
                break
            before = len(shown)

            def note(trial: AssumptionTrial) -> None:
                shown.append(trial)
                self.take(trial)

            failure = await self._try(left, note, TIME_LIMIT_S, deadline)
            left = left[len(shown) - before :]
            if failure is None or not left or anyio.current_time() >= deadline:
                break
            lost = f"the worker was lost: {_words(failure)}"
            shown.append(self._untried(left.pop(0), TrialOutcome.FAILED, lost))
        for step in left:
            why = "there was no time left" if anyio.current_time() >= deadline else "the workers before it were lost"
            shown.append(self._untried(step, TrialOutcome.SKIPPED, why))
        return shown

    def _untried(self, step: SelfTestStep, outcome: TrialOutcome, why: str) -> AssumptionTrial:
        trial = AssumptionTrial(assumption=step.assumption, subject=step.name, outcome=outcome, found=why)
        self.take(trial)
        return trial

    async def provoke(self, assumption: str) -> None:
        """A step that must end its worker, and whether the next worker finds the device as it should be."""
        began = anyio.current_time()
        expected = EXPECTED[names.CRASH if (assumption, self.job.kind) == (names.FAULT, "cpu") else assumption]
        tried: list[AssumptionTrial] = []
        failure = await self._try([SelfTestStep(assumption=assumption)], tried.append, PROVOKED_LIMIT_S)
        after: list[AssumptionTrial] = []
        broken = await self._try([SelfTestStep(assumption=names.COPIES)], after.append, TIME_LIMIT_S)
        if tried:
            outcome, words = tried[0].outcome, tried[0].found
        elif failure is None:
            outcome, words = TrialOutcome.FAILED, "nothing was reported"
        else:
            right = failure.kind is expected
            outcome = TrialOutcome.PASSED if right else TrialOutcome.FAILED
            words = f"reported as `{failure.kind}`: {_words(failure)}"
            if not right:
                words += f", where `{expected}` is right"
        if broken is not None or not after or after[0].outcome is not TrialOutcome.PASSED:
            outcome = TrialOutcome.FAILED
            why = after[0].found if after else _words(broken) if broken is not None else "no message"
            words += f"; the next worker cannot use the device: {why}"
        elif outcome is TrialOutcome.PASSED:
            words += "; the next worker used the device"
        self.take(
            AssumptionTrial(
                assumption=assumption,
                outcome=outcome,
                found=words,
                seconds=round(anyio.current_time() - began, 3),
            )
        )

    async def numerics(self, steps: Sequence[SelfTestStep], budget_s: float) -> None:
        """The numerics of kernels, and what they show of shared objects and workspaces."""
        shown = await self.steps(steps, deadline=anyio.current_time() + budget_s)
        right = [one for one in shown if one.outcome is TrialOutcome.PASSED]
        sized = [one for one in right if one.figures.get("workspace_bytes")]
        for name, some, words in (
            (names.SHARED_OBJECT, right, "{} were loaded, launched, and right"),
            (names.WORKSPACE, sized, "{} asked for a workspace and were right with it"),
        ):
            tried = [one for one in shown if one.outcome is not TrialOutcome.SKIPPED]
            outcome = TrialOutcome.PASSED if some else TrialOutcome.SKIPPED
            found = words.format(f"{len(some)} of {len(tried)} shipped instances")
            if not some:
                found = "no shipped instance that needs one was run" if right else "no shipped instance was run"
                if tried and not right:
                    outcome, found = TrialOutcome.FAILED, f"none of {len(tried)} shipped instances was right"
            self.take(AssumptionTrial(assumption=name, outcome=outcome, found=found))

    async def repeats(self, steps: Sequence[SelfTestStep]) -> None:
        """Medians of fresh processes, each of which takes every step."""
        shown: dict[str, list[AssumptionTrial]] = {step.assumption: [] for step in steps}
        left = list(steps)
        for number in range(FRESH_PROCESSES):
            self.on_stage(f"timing in process {number + 1} of {FRESH_PROCESSES}")
            failure = await self._try(left, lambda trial: shown[trial.assumption].append(trial), TIME_LIMIT_S)
            for step in left[:]:
                trials = shown[step.assumption]
                if len(trials) <= number and failure is not None:
                    words = f"a worker was lost: {_words(failure)}"
                    self.take(AssumptionTrial(assumption=step.assumption, outcome=TrialOutcome.FAILED, found=words))
                elif trials[-1].outcome is not TrialOutcome.PASSED:
                    self.take(trials[-1])
                else:
                    continue
                left.remove(step)
            if not left:
                return
        for step in left:
            trials = shown[step.assumption]
            self.take(replace(repeated(trials), seconds=round(sum(one.seconds for one in trials), 3)))

    async def _try(
        self,
        steps: Sequence[SelfTestStep],
        note: Callable[[AssumptionTrial], None],
        limit_s: float,
        deadline: float = float("inf"),
    ) -> BenchmarkFailure | None:
        """Have one worker try these steps; how it ended, if that was before the last."""

        def take(message: WorkerMessage) -> None:
            if isinstance(message, StepTried):
                note(message.trial)
            elif isinstance(message, WorkerStage):
                self.on_stage(message.name)
            elif isinstance(message, WaitingForDevice):
                self.on_stage(f"waiting for the device: {message.holder}")

        answer: SelfTestDone | BenchmarkFailure | None = None
        with anyio.CancelScope(deadline=deadline):
            job = replace(self.job, steps=tuple(steps))
            answer = await Worker(self.start).ask(
                job, self.artifacts, SelfTestDone, time_limit_s=limit_s, on_message=take
            )
        if isinstance(answer, SelfTestDone):
            self.done = answer
            return None
        return answer or BenchmarkFailure(kind=FailureKind.BROKEN, message="there was no time left")


def repeated(shown: Sequence[AssumptionTrial]) -> AssumptionTrial:
    """Combine the medians of several processes; each trial is one of the same assumption that passed.

    Cycles are those that the device counted, where all have them.
    """
    times = [float(one.figures["median_us"]) for one in shown]
    clocks = [float(one.figures["clock_mhz"]) for one in shown if "clock_mhz" in one.figures]
    counted = all("counted_kcycles" in one.figures for one in shown)
    name = "counted_kcycles" if counted else "kcycles"
    cycles = [float(one.figures[name]) for one in shown if name in one.figures]
    limits = sorted({name for one in shown for name in one.figures if name.startswith("limited_by_")})
    spread = _spread(times)
    figures: dict[str, float | int | str] = {
        "processes": len(shown),
        "median_us": sorted(times)[len(times) // 2],
        "spread_percent": round(100 * spread, 4),
        "medians_us": " ".join(f"{value:.5g}" for value in times),
    }
    words = f"{len(shown)} processes: {min(times):.5g} to {max(times):.5g} us, {100 * spread:.2g} % apart"
    steady = not limits
    if len(cycles) == len(clocks) == len(shown):
        steady = steady and _spread(clocks) <= STEADY_CLOCK
        figures |= {
            "cycles_spread_percent": round(100 * _spread(cycles), 4),
            name: " ".join(f"{value:.5g}" for value in cycles),
            "clocks_mhz": " ".join(f"{value:.0f}" for value in clocks),
        }
        words += (
            f"; at {min(clocks):.0f} to {max(clocks):.0f} MHz, {min(cycles):.5g} to {max(cycles):.5g} thousand cycles"
            f"{' counted' if counted else ''}, {100 * _spread(cycles):.2g} % apart"
        )
    if limits:
        reasons = " and ".join(name.removeprefix("limited_by_") for name in limits)
        figures["limited_by"] = reasons
        words += f"; the clock was held down by {reasons}"
    what = shown[0].found.rpartition("; ")[2]
    outcome = TrialOutcome.PASSED if spread <= REPEATS_WITHIN else TrialOutcome.FAILED
    if outcome is TrialOutcome.FAILED and not steady:
        within = bool(cycles) and _spread(cycles) <= REPEATS_WITHIN
        outcome = TrialOutcome.PASSED if within else TrialOutcome.SKIPPED
        words += "; the cycles repeat" if within else "; the clocks were not steady: no conclusion"
    elif outcome is TrialOutcome.FAILED and figures["median_us"] < LONG_US:  # type: ignore[operator]
        outcome = TrialOutcome.SKIPPED
        words += f"; this is expected of kernels above {LONG_US:.0f} us only"
    return AssumptionTrial(assumption=shown[0].assumption, outcome=outcome, found=f"{words}; {what}", figures=figures)


def _spread(values: Iterable[float]) -> float:
    """Largest less smallest, as a part of the median."""
    ordered = sorted(values)
    return (ordered[-1] - ordered[0]) / ordered[len(ordered) // 2] if ordered else 0.0


def _words(failure: BenchmarkFailure) -> str:
    """A failure in one line, without its output."""
    return "; ".join(failure.message.splitlines())
