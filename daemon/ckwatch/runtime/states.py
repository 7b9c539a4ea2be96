"""The states of a snapshot: units are put into the form in which they are sent when it is their turn to be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ckwatch.wire import values as wire

State = wire.Unit | wire.File | wire.Workspace


class States(Mapping[str, State]):
    """By topic: `others`, then what `unit` gives for each of `names`; None leaves it out."""

    def __init__(
        self, others: Mapping[str, State], names: Iterable[str], unit: Callable[[str], wire.Unit | None]
    ) -> None:
        self._others = others
        self._names = tuple(names)
        self._unit = unit

    def __getitem__(self, topic: str) -> State:
        if topic in self._others:
            return self._others[topic]
        kind, _, name = topic.partition("/")
        unit = self._unit(name) if kind == "unit" else None
        if unit is None:
            raise KeyError(topic)
        return unit

    def __iter__(self) -> Iterator[str]:
        yield from self._others
        for name in self._names:
            if self._unit(name) is not None:
                yield f"unit/{name}"

    def __len__(self) -> int:
        return sum(1 for _ in self)
