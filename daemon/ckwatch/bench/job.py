"""A job for a worker: something to measure or verify. It travels as JSON (`worker_protocol`)."""

from __future__ import annotations

from ckwatch.model.kernel_launches import ModuleLaunch
from ckwatch.model.kernel_problem import KernelProblem
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import REFERENCE_LIMIT_S, PythonReference
from ckwatch.model.roofline import CacheState
from ckwatch.model.trials import Trial
from ckwatch.model.verification import INSTRUCTION_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A kernel to time. `artifact` is the number of a shared object that goes along and `symbol` its function; None for
    the vendor's library (`library`: the best there is)."""

    name: str
    artifact: int | None = None
    symbol: str = ""

    @property
    def is_library(self) -> bool:
        return self.artifact is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """When a measurement may end, and when it must.

    It ends when the relative standard error of the median is below `relative_error`, or the noise itself does not
    change any more, after `minimum_s` and `minimum_samples`; in any case when `budget_s` of measuring are over.
    Times are per contestant and cache state. `clock_floor`: samples below this part of the clock that the warm-up
    reached are discarded. `limit_us`: it also ends when the median is certainly above. `block_s`: about the time of a
    block, a contestant's turn.
    """

    warm_up_s: float = 0.4
    minimum_s: float = 0.5
    budget_s: float = 3.0
    minimum_samples: int = 20
    maximum_samples: int = 10_000
    relative_error: float = 0.005
    clock_floor: float = 0.75
    limit_us: float | None = None
    block_s: float = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """How an instance is timed that competes with many: with one cache state, without the vendor's library beside it,
    no longer than its precision needs, and given up when its median is certainly above `limit_us`, if there is one."""

    limit_us: float | None = None


RACE_S = 0.1
"""Least time of the warm-up, which goes on until the clock is steady, and of the samples of an instance in a race."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One measurement on one device.

    `device` is `hip:N`, `cuda:N`, `cpu` or `auto`, or a PCI address; `kind` the only kind of device that can run the
    artifacts (`hip`, `cuda`, `cpu`) and `arch` the arch they are made for. Each artifact is also verified on the first
    of the `ragged` problems, whose sizes no tile divides, that it does not refuse. Several contestants take turns
    (ABBA, BAAB), so that a change of the clock meets all of them. `seeds` of the inputs: all are verified, the first is
    timed. `lease_wait_s`: how long to wait for a device that is in use; `shared`: also measure beside other processes.
    `flush_instructions`: before each launch the instruction caches are flushed, by the probe kernels
    (`ckwatch.bench.probes`), of which `probes` is the artifact's number where they are one. `reference`: the user's
    own, which the problems name; a call of it may take `reference_limit_s`.
    """

    device: str
    kind: str
    arch: str
    problem: KernelProblem
    contestants: tuple[Contestant, ...]
    ragged: tuple[KernelProblem, ...] = ()
    caches: tuple[CacheState, ...] = (CacheState.COLD, CacheState.HOT)
    precision: Precision = Precision()
    seeds: tuple[int, ...] = (1, 2)
    full_check_macs: int = 1 << 29
    lease_wait_s: float = 600.0
    shared: bool = False
    threads: int | None = None
    flush_instructions: bool = False
    probes: int | None = None
    reference: PythonReference | None = None
    reference_limit_s: float = REFERENCE_LIMIT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestStep:
    """An assumption to try. `contestants`: on which kernels, `problems`: on the first of these that they do not refuse;
    `name` is what they are called in the report. `budget_s`: how long it may take, where it can be shortened."""

    assumption: str
    name: str = ""
    contestants: tuple[Contestant, ...] = ()
    problems: tuple[KernelProblem, ...] = ()
    budget_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestJob:
    """Steps of a self-test on one device; `device`, `kind`, `arch`, `lease_wait_s`, `threads` and `probes` as those
    of a `Job`."""

    device: str
    kind: str
    arch: str
    steps: tuple[SelfTestStep, ...]
    lease_wait_s: float = 600.0
    threads: int | None = None
    probes: int | None = None


VERIFYING = "verifying "
"""How the stages of a verification begin that are problems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedLaunches:
    """Launches on the emulator: of `symbol`, on `trials`. `checked`: look at memory, races and waits too, which takes
    twice as long. `reference`, `reference_limit_s`: as those of a `Job`. `counted`: the launch that is made once more
    at the end, to count its instructions; nothing of that is checked."""

    arch: str
    symbol: str
    trials: tuple[Trial, ...]
    checked: bool = True
    instruction_limit: int = INSTRUCTION_LIMIT
    reference: PythonReference | None = None
    reference_limit_s: float = REFERENCE_LIMIT_S
    counted: Trial | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyJob(EmulatedLaunches):
    """The verification of one artifact by the emulator, without any timing.

    `library` is the emulator's libamdhip64 on this machine and `objdump` the disassembler that it runs.
    `kept_references` is the folder of the reference's results. `launch`: how the artifact, a code object, is launched;
    None for a shared object, whose function `symbol` launches its kernels.
    """

    library: str
    objdump: str
    seed: int = 1
    kept_references: str | None = None
    launch: ModuleLaunch | None = None

    @property
    def is_judged(self) -> bool:
        """Return True if a judge has drawn problems: all checks are made, and work on other streams is held back."""
        return any(trial.seed is not None for trial in self.trials)


RUNNER_DATA_LIMIT_BYTES = 512 << 20
"""Of the inputs and right outputs beside a standalone runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerDataJob:
    """Inputs and right outputs of the `problems`, by the names of their shapes, for the standalone runner of the unit
    `symbol`, to be written to `folder`; `reference`, `reference_limit_s`: as those of a `Job`."""

    folder: str
    symbol: str
    problems: tuple[tuple[str, KernelProblem], ...]
    reference: PythonReference
    reference_limit_s: float = REFERENCE_LIMIT_S
    seed: int = 1
    limit_bytes: int = RUNNER_DATA_LIMIT_BYTES
