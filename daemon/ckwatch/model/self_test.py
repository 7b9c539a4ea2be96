"""The self-test of a device: what is taken for granted of its runtime, named, and what trying it has shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from ckwatch.model.lazy_dataclass import dataclass

GPU_KINDS = ("hip", "cuda")
ALL_KINDS = ("hip", "cuda", "cpu")


class TrialOutcome(StrEnum):
    """The result of trying an assumption; skipped: it could not be tried, or does not concern this device."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Assumption:
    """An assumption that timings rest on. `otherwise`: the meaning for timings if it did not hold. `why_not`: why it is
    assumed of GPUs alone."""

    name: str
    title: str
    otherwise: str
    why_not: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The devices that it is assumed for."""
        return GPU_KINDS if self.why_not else ALL_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionTrial:
    """The result of trying an assumption. `subject`: the thing tried if there are several, such as an instance.

    `found` is a sentence; `figures` are what it rests on, with the unit at the end of each name.
    """

    assumption: str
    outcome: TrialOutcome
    found: str
    subject: str = ""
    figures: Mapping[str, float | int | str] = field(default_factory=dict)
    seconds: float = 0.0


PROPERTIES, LEASE, COPIES, GUARDS, POISON = "properties", "lease", "copies", "guards", "poison"
GATE, RESOLUTION, ORDER, EVENT_CLOCK = "gate", "event-resolution", "event-order", "event-clock"
CLOCKS, POWER, OTHERS, LIBRARY = "clocks", "power", "other-processes", "library"
CACHE_SIZE, FLUSH, INSTRUCTIONS = "cache-size", "cache-flush", "instruction-flush"
FAULT, HANG, CRASH = "fault", "hang", "crash"
SHARED_OBJECT, WORKSPACE, NUMERICS = "shared-object", "workspace", "numerics"
SAME, REPEATS, REPEATS_READ = "same-build", "repeatable-median", "repeatable-read"

_AT_ONCE = "the processor runs a launch at once, and its events are the system's clock"

ASSUMPTIONS: Mapping[str, Assumption] = {
    one.name: one
    for one in (
        Assumption(PROPERTIES, "the device's properties are those of its data sheet",
                   "bounds and shares of them are wrong, and perhaps the structure that the runtime fills is read "
                   "with another version's layout"),
        Assumption(LEASE, "one process at a time measures on the device",
                   "others may measure at the same time, so that both times are too long"),
        Assumption(COPIES, "what is copied to the device, filled there and copied back is what it should be",
                   "no result of a kernel can be trusted"),
        Assumption(GUARDS, "a write beside a buffer is found",
                   "kernels that write out of bounds are timed as if they were right"),
        Assumption(POISON, "an element that no kernel wrote is found",
                   "kernels that leave out work are timed as if they were right"),
        Assumption(GATE, "launches wait on the device until a batch is queued",
                   "times of short kernels contain the host's time between launches", why_not=_AT_ONCE),
        Assumption(RESOLUTION, "events resolve differences of two microseconds",
                   "times of short kernels are known to that resolution only, and differences below it mean nothing"),
        Assumption(ORDER, "events that are recorded later have later times",
                   "times can be too short, or negative"),
        Assumption(EVENT_CLOCK, "the events' clock runs as the host's does",
                   "all times are off by the same factor"),
        Assumption(CLOCKS, "the device's clock can be read while it works",
                   "samples at a dropped clock are kept, and there are no cycles beside the times"),
        Assumption(POWER, "the device's power can be read, and what holds its clock down",
                   "timings taken under a power limit are not marked",
                   why_not="the power of a processor is not read"),
        Assumption(OTHERS, "nothing else computes on the device",
                   "times are those of a device that is shared", why_not="a processor is never one's own"),
        Assumption(LIBRARY, "the vendor's library is found, and its GEMM is right",
                   "kernels are compared with nothing, or with something that is wrong"),
        Assumption(CACHE_SIZE, "the last-level cache is as large as supposed",
                   "too little is written before a launch with a cold cache, or times with a hot one have a wrong "
                   "bound"),
        Assumption(FLUSH, "a launch with a cold cache takes longer than one with a hot cache",
                   "the flush does not empty the cache, and times with a cold one are too short"),
        Assumption(INSTRUCTIONS, "a kernel that is larger than the instruction cache makes the next launch slower",
                   '`instruction_cache = "flush"` has no effect',
                   why_not="instruction caches of processors are not flushed"),
        Assumption(FAULT, "a kernel that faults is reported, and the next worker can use the device",
                   "one wrong kernel ends all measurements, or is taken for the host's own failure"),
        Assumption(HANG, "a kernel that does not end is ended with its worker, and the next worker can use the device",
                   "one endless kernel ends all measurements"),
        Assumption(CRASH, "host code that crashes takes its worker along and nothing else",
                   "one wrong kernel ends all measurements"),
        Assumption(SHARED_OBJECT, "a shared object is loaded from memory, and its C function launches the kernel",
                   "nothing that ckwatch compiles can be timed"),
        Assumption(WORKSPACE, "a kernel says how much workspace it needs, and gets it",
                   "kernels that need a workspace cannot be timed"),
        Assumption(NUMERICS, "the shipped instances compute what they should",
                   "something between the compiler and the reference is wrong for this device"),
        Assumption(SAME, "two builds of one source are SAME in at least 99 % of the trials, and with a wait SLOW",
                   "verdicts of FAST and SLOW are given where there is no difference, or none where there is one"),
        Assumption(REPEATS, "medians of fresh processes lie within 0.5 %",
                   "timings that were not taken in turns cannot be compared to that precision"),
        Assumption(REPEATS_READ, "medians of fresh processes lie within 0.5 % for a kernel that waits for memory",
                   "not even a steady clock makes times repeat", why_not="a processor's memory is never one's own"),
    )
}  # fmt: skip
"""In the order in which they are tried and reported."""


def not_assumed(kind: str) -> list[AssumptionTrial]:
    """Of what is not assumed of this kind of device, why."""
    return [
        AssumptionTrial(assumption=one.name, outcome=TrialOutcome.SKIPPED, found=f"not assumed here: {one.why_not}")
        for one in ASSUMPTIONS.values()
        if kind not in one.kinds
    ]
