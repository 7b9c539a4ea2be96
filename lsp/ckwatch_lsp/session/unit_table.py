"""The units of a workspace: of each what is asked of thousands at a time, and all of those that are looked at."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from ckwatch.client.events import UnitInBrief
from ckwatch.wire.state import Unit


class UnitTable(MutableMapping[str, Unit]):
    """Units by their ids. One that was looked at is the same object until it changes, and is whole from then on: units
    of an open document are looked at again and again, and thousands of a sweep would take long all at once."""

    def __init__(self) -> None:
        self._known: dict[str, UnitInBrief | Unit] = {}
        self._decoded: dict[str, Unit] = {}

    def __getitem__(self, name: str) -> Unit:
        known = self._known[name]
        if isinstance(known, Unit):
            return known
        whole = self._decoded.get(name)
        if whole is None:
            whole = self._decoded[name] = known.decoded()
        return whole

    def __setitem__(self, name: str, now: UnitInBrief | Unit) -> None:
        self._known[name] = now
        if name in self._decoded:
            self._decoded[name] = now if isinstance(now, Unit) else now.decoded()

    def __delitem__(self, name: str) -> None:
        del self._known[name]
        self._decoded.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def once(self, name: str) -> Unit:
        """Its whole state, for who looks at all units: it is not kept. Raises KeyError."""
        known = self._decoded.get(name) or self._known[name]
        return known if isinstance(known, Unit) else known.decoded()

    def forget(self) -> None:
        """Keep no whole states but of those that are looked at from now on."""
        self._decoded.clear()

    def brief(self, name: str) -> UnitInBrief | Unit | None:
        """Its phase, freshness, generation, and what is timed; None where there is no such unit."""
        return self._known.get(name)

    def path(self, name: str) -> str | None:
        """The kernel file in which it stands; None where there is no such unit."""
        known = self._known.get(name)
        return None if known is None else place_of(known)[0]


def place_of(unit: UnitInBrief | Unit) -> tuple[str, int, int, int, int]:
    """The path, and lines and columns of the start and the end."""
    if isinstance(unit, UnitInBrief):
        return unit.place
    place = unit.place
    return place.path, place.start.line, place.start.column, place.end.line, place.end.column
