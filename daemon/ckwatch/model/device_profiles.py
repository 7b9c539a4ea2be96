"""A profile that a tool took on a real device, by instructions and the source lines of its code object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledPlace:
    """An instruction of the profile. `path` and `line` (from zero) are as the tool wrote them; "" and None where it has
    no line. `address`: in the code object, None where the file has none. `kernel`: its readable name, "" where the file
    does not say it.

    Of PC sampling, `samples`, of these `issued` in which the instruction went out, and the others by `stalls`: why it
    did not; `lanes`: active ones, summed. Of a thread trace, `hits`, and cycles: `latency`, of which `stalled` and
    `idle` before it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """A file's content. `method` names how it was taken, `unit` what weighs an instruction: "samples" or "cycles".
    `notes` say what could not be read."""

    method: str
    unit: str
    places: tuple[ProfiledPlace, ...]
    notes: tuple[str, ...] = ()

    def weight(self, place: ProfiledPlace) -> int:
        """The weight of a place."""
        return place.samples if self.unit == "samples" else place.latency

    @property
    def total(self) -> int:
        """The weight of all places."""
        return sum(map(self.weight, self.places))


HOST_TRAP = "PC sampling, host trap"
STOCHASTIC = "PC sampling, stochastic"
THREAD_TRACE = "thread trace"
