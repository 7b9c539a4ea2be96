"""Requests of clients: for their own view (unsaved text, focus, options), and to editors. Each becomes an event."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from anyio import to_thread

from ckwatch.core import events
from ckwatch.engine.file_diagnostics import normal_path
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.snapshot import SentUnitCache
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.text import text_digest
from ckwatch.system.user_files import file_status
from ckwatch.wire.messages import UnsavedText

LARGE_CHARACTERS = 256 * 1024
"""A text up to this size has its digest in 1 ms; a thread may take longer to begin while every core is busy."""


async def _digest(text: str) -> str:
    return text_digest(text) if len(text) <= LARGE_CHARACTERS else await to_thread.run_sync(text_digest, text)


def _require_file(path: str) -> None:
    try:
        is_file = stat.S_ISREG(file_status(path).st_mode)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CkwatchError(f"cannot show {path}: {why.lower()}") from None
    if not is_file or not os.access(path, os.R_OK):
        raise CkwatchError(f"cannot show {path}: it is {'not readable' if is_file else 'not a file'}")


class ClientRequests:
    """The clients that have a view of their own. `len` counts them."""

    def __init__(self, loop: EngineLoop, lookup: UnitLookup, sent: SentUnitCache) -> None:
        self._loop = loop
        self._lookup = lookup
        self._sent = sent
        self._clients: set[str] = set()
        self._editors: dict[str, bool] = {}
        """The clients that are editors, and whether they show places."""

    def __len__(self) -> int:
        return len(self._clients)

    async def overlay(self, client: str, path: str, text: str | None) -> None:
        """Use an unsaved text in place of a file; None: the file again."""
        self._clients.add(client)
        name = normal_path(path)
        digest = None if text is None else await _digest(text)
        await self._loop.post(events.OverlayChanged(client, name, text, digest))

    async def focus(
        self, client: str, patterns: Sequence[str], files: Sequence[str], *, everything: bool, unsaved: events.AutoBuild
    ) -> None:
        """Set what the client views. Raises UnknownUnitError, but not for the id of a unit, which may be gone."""
        self._clients.add(client)
        names: set[str] = set()
        if patterns:
            await self._lookup.loaded()
        for pattern in patterns:
            try:
                names.update(await self._lookup.names(client, [pattern]))
            except UnknownUnitError:
                if "@" not in pattern:
                    raise
        state = self._loop.state
        for file in files:
            path = normal_path(file)
            names |= {key.unit for key in state.graph.readers(path)}
            names |= {name for name, unit in state.members(client).items() if unit.kernel.path == path}
        await self._loop.post(events.FocusChanged(client, frozenset(names), everything, unsaved))

    async def view(self, client: str, options: events.ViewOverrides) -> None:
        """How the client's view differs."""
        self._clients.add(client)
        await self._loop.post(events.OptionsChanged(client, options))

    async def editor(self, client: str, *, shows: bool) -> None:
        """Take the client for an editor, which shows places or does not."""
        self._clients.add(client)
        await self._set_editors({**self._editors, client: shows})

    async def unsaved(self) -> list[UnsavedText]:
        """The texts that editors have not saved; of a file that several edit, the one of who came last."""
        views = self._loop.state.views
        found = {
            path: text for client in self._editors if client in views for path, text in views[client].overlays.items()
        }
        return [UnsavedText(path=path, text=text) for path, text in sorted(found.items())]

    async def show(self, path: str, line: int, column: int) -> int:
        """Have the editors show a place; how many there are. Raises CkwatchError for what is no file to read."""
        name = normal_path(path)
        await to_thread.run_sync(_require_file, name)
        count = sum(self._editors.values())
        await self._loop.post(events.ShowRequested(name, line, column))
        return count

    async def _set_editors(self, editors: dict[str, bool]) -> None:
        if editors != self._editors:
            self._editors = editors
            shown = frozenset(client for client, shows in editors.items() if shows)
            await self._loop.post(events.EditorsChanged(shown))

    async def forget(self, client: str) -> None:
        """The client has disconnected."""
        self._clients.discard(client)
        await self._set_editors({editor: shows for editor, shows in self._editors.items() if editor != client})
        await self._loop.post(events.ClientLost(client))
        self._loop.feed.forget(client)
        self._sent.forget(client)
