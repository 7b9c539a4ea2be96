"""What is asked for when somebody looks at a unit: its history and predictions. Answers come from memory only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import anyio

from ckwatch.client import Client
from ckwatch.errors import CkwatchError
from ckwatch.wire.timing_words import is_figure
from ckwatch.wire.timings import Timing
from ckwatch.wire.values import Unit
from ckwatch_lsp.figures.about import NOTHING, Past, Predicted
from ckwatch_lsp.parts import Part

if TYPE_CHECKING:
    from ckwatch_lsp.documents import Document
    from ckwatch_lsp.folder import Folder
    from ckwatch_lsp.session import Session

KEPT = 256
"""Units whose past is kept."""

LIMIT = 50
"""Timings of a unit that are asked for."""

_Key = tuple[str, str]
_Stamp = tuple[object, ...]


class LookedAt(Part):
    """The past of units that were looked at, those of open documents among them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[_Key, tuple[_Stamp, Past]] = {}
        self._asked: dict[_Key, _Stamp] = {}
        self._turns = anyio.CapacityLimiter(2)

    def past(self, folder: Folder, unit: Unit) -> Past:
        """What is known; if that is not of the unit as it is, it is asked for, and known the next time."""
        key, stamp = (str(folder.root), unit.id), _stamp(unit)
        kept = self._kept.get(key)
        if (kept is None or kept[0] != stamp) and self._asked.get(key) != stamp and (unit.timings or unit.figures):
            self._asked[key] = stamp
            self._session.start(self._ask, folder, unit, key, stamp)
        return NOTHING if kept is None else kept[1]

    def opened(self, document: Document) -> None:
        """Its active unit is looked at."""
        folder, unit = self._session.folder_for(document), self._session.active.unit(document)
        if folder is not None and unit is not None:
            self.past(folder, unit)

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Active units may have got other figures."""
        for document in self._session.documents.values():
            if self._session.folder_for(document) is folder:
                unit = self._session.active.unit(document)
                if unit is not None and f"unit/{unit.id}" in topics:
                    self.past(folder, unit)

    async def _ask(self, folder: Folder, unit: Unit, key: _Key, stamp: _Stamp) -> None:
        try:
            async with self._turns:
                client = folder.ready
                medians = medians_of(await client.timings(unit, limit=LIMIT)) if unit.timings else {}
                predictions = await _predictions(client, unit)
        finally:
            if self._asked.get(key) == stamp:
                del self._asked[key]
        self._kept.pop(key, None)
        self._kept[key] = (stamp, Past(medians, predictions))
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        folder.touch("past")


def medians_of(timings: Iterable[Timing]) -> dict[tuple[str, str], list[float]]:
    """Medians by shape and cache state, the oldest first."""
    found: dict[tuple[str, str], list[float]] = {}
    for timing in sorted(timings, key=lambda each: each.taken_at):
        if is_figure(timing):
            found.setdefault((timing.shape, timing.cache), []).append(timing.median_us)
    return found


async def _predictions(client: Client, unit: Unit) -> Sequence[Predicted]:
    if unit.figures is None:
        return ()
    try:
        shapes = (await client.analysis(unit)).shapes
    except CkwatchError:
        return ()  # nothing is built, or it cannot be read; the figures say what there is
    return [Predicted(each.shape, each.prediction.part, each.prediction.time_us, each.measured_us) for each in shapes]


def _stamp(unit: Unit) -> _Stamp:
    """What tells whether there is anything new."""
    return (tuple(timing.id for timing in unit.timings), unit.figures and unit.figures.artifact_key)
