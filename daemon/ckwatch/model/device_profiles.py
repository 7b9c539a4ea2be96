"""A profile that a tool took on a real device, by instructions and the source lines of its code object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field

from ckwatch.model.instruction_counts import InstructionCounts
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledPlace:
    """An instruction of the profile. `path` and `line` (from zero) are as the tool wrote them; "" and None where it has
    no line. `address`: in the code object, None where the file has none. `kernel`: its readable name, "" where the file
    does not say it.

    Of sampling, `samples`, of these `issued` in which the instruction went out, and the others by `stalls`: why it
    did not; `lanes`: active ones, summed. Of a thread trace, `hits`, and cycles: `latency`, of which `stalled` and
    `idle` before it. Of ncu, `hits` by warps and their `lanes`, with other `counts` of the instruction; `source`: the
    text of the line that was compiled.
    """

    text: str
    path: str = ""
    line: int | None = None
    address: int | None = None
    kernel: str = ""
    samples: int = 0
    issued: int = 0
    lanes: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)
    hits: int = 0
    latency: int = 0
    stalled: int = 0
    idle: int = 0
    counts: InstructionCounts | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineWeight:
    """A line (from zero; None: no line is known) of a profile, its weight, the samples in which its instructions were
    `issued`, how often they were `executed` by waves (0 where the file does not count that), what its waves waited for,
    the number of its instructions, and its text where the file has it."""

    path: str
    line: int | None
    weight: int
    issued: int
    executed: int
    stalls: Mapping[str, int]
    instructions: int
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredKernel:
    """A kernel's launches on a device: `workgroups` and `time_ns` of all, None where the file does not have them, and
    its hardware `counters` by name, each summed over `counted` launches and all instances of the counter (XCDs, shader
    engines, …)."""

    name: str
    launches: int
    workgroups: int | None = None
    time_ns: int | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """A file's content. `method` names how it was taken, `unit` what weighs an instruction: "samples" or "cycles".
    `kernels`: times and counters of whole launches. `device`: its name, "" where the file does not say it. `notes` say
    what could not be read."""

    method: str
    unit: str
    places: tuple[ProfiledPlace, ...]
    kernels: tuple[MeasuredKernel, ...] = ()
    device: str = ""
    notes: tuple[str, ...] = ()

    def weight(self, place: ProfiledPlace) -> int:
        """The weight of a place."""
        return place.samples if self.unit == "samples" else place.latency

    @property
    def total(self) -> int:
        """The weight of all places."""
        return sum(map(self.weight, self.places))

    def by_line(self) -> tuple[LineWeight, ...]:
        """The lines, the heaviest first; together they have the whole weight."""
        members: dict[tuple[str, int | None], list[ProfiledPlace]] = {}
        for place in self.places:
            members.setdefault((place.path, place.line), []).append(place)
        found = []
        for (path, line), places in members.items():
            stalls: Counter[str] = Counter()
            for place in places:
                stalls.update(place.stalls)
                if place.stalled:
                    stalls["stalled"] += place.stalled
                if place.idle:
                    stalls["idle"] += place.idle
            found.append(
                LineWeight(
                    path=path,
                    line=line,
                    weight=sum(map(self.weight, places)),
                    issued=sum(one.issued for one in places),
                    executed=sum(one.hits for one in places),
                    stalls=dict(stalls.most_common()),
                    instructions=len(places),
                    source=places[0].source,
                )
            )
        return tuple(sorted(found, key=lambda one: (-one.weight, one.path, -1 if one.line is None else one.line)))


HOST_TRAP = "PC sampling, host trap"
STOCHASTIC = "PC sampling, stochastic"
THREAD_TRACE = "thread trace"
WARP_SAMPLING = "warp sampling"
COUNTERS = "counters"
KERNEL_TIMES = "kernel times"


class NoProfileError(ValueError):
    """A file that is no profile that is known; the message says why."""
