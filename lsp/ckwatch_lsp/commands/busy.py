"""What the daemon does by itself, builds after saving above all, as one progress for each workspace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ckwatch.errors import CkwatchError
from ckwatch.wire.values import Unit
from ckwatch_lsp.commands.progress import Progress
from ckwatch_lsp.commands.works import Works
from ckwatch_lsp.figures.standing import AT_WORK
from ckwatch_lsp.folder import Folder, Standing
from ckwatch_lsp.parts import Part
from ckwatch_lsp.soon import Soon

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

AFTER_S = 0.2
"""Work that takes less is not shown."""


class _Round:
    """Units that are worked on (in the order in which they came), and those that were since the last quiet moment."""

    def __init__(self) -> None:
        self.working: dict[str, None] = {}
        self.seen: set[str] = set()
        self.progress: Progress | None = None


class Busy(Part):
    """Units that a command works on are left to the command's own progress."""

    def __init__(self, server: CkwatchServer, works: Works) -> None:
        self._server = server
        self._session = server.session
        self._works = works
        self._rounds: dict[Folder, _Round] = {}
        self._soon = Soon(self._session, self._show, AFTER_S)

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Units have begun or settled."""
        if not self._session.abilities.progress:
            return
        found = self._rounds.setdefault(folder, _Round())
        for topic in topics:
            kind, _, name = topic.partition("/")
            if kind != "unit":
                continue
            unit = folder.units.get(name)
            if unit is not None and is_worked_on(unit) and not self._works.covers(folder, name):
                found.working[name] = None
                found.seen.add(name)
            else:
                found.working.pop(name, None)
        if folder.standing is not Standing.READY:
            found.working.clear()
        if found.working or found.progress is not None:
            self._soon()
        else:
            found.seen.clear()

    async def _show(self) -> None:
        for folder, found in self._rounds.items():
            if not found.working:
                if found.progress is not None:
                    found.progress.end()
                    found.progress = None
                found.seen.clear()
                continue
            if found.progress is None:
                title = "ckwatch" if len(self._rounds) == 1 else f"ckwatch, {folder.root.name}"
                found.progress = Progress(self._server, title, partial(self._cancel, folder))
            settled = len(found.seen) - len(found.working)
            first = folder.units[next(iter(found.working))]
            timing = "" if first.phase in AT_WORK else "timing "
            message = f"{settled + 1} of {len(found.seen)}: {timing}{first.kernel}/{first.instance}"
            found.progress.report(message, settled, len(found.seen))

    def _cancel(self, folder: Folder) -> None:
        found = self._rounds.get(folder)
        if found is not None and found.working:
            self._session.start(self._cancel_units, folder, tuple(found.working))

    async def _cancel_units(self, folder: Folder, units: tuple[str, ...]) -> None:
        present = [unit for unit in units if unit in folder.units]
        if present:
            try:
                await folder.ready.cancel(*present)
            except CkwatchError:
                return  # one of them has gone, or the daemon


def is_worked_on(unit: Unit) -> bool:
    """Whether a compiler or a device is, or will soon be, at work on it."""
    return unit.phase in AT_WORK or unit.measuring is not None
