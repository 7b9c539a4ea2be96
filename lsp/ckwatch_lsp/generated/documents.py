"""Keeps generated documents up to date: what was asked for once is fetched again whenever its unit is another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from lsprotocol import types

from ckwatch.errors import CkwatchError
from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document, Edit, Kind
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.generated.files import ViewFiles
from ckwatch_lsp.generated.texts import Text, isa_text, outdated, source_text
from ckwatch_lsp.generated.uri import Generated
from ckwatch_lsp.parts import Part
from ckwatch_lsp.soon import Soon

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

SETTLE_S = 0.1
"""A unit that changes has more to tell; texts are fetched when it was quiet for so long."""


class _View:
    """A document that somebody has asked for."""

    def __init__(self, session: Session, renew: Callable[[_View], Awaitable[None]]) -> None:
        self.soon = Soon(session, partial(renew, self), SETTLE_S)
        """Has it fetched again."""
        self.text: Text | None = None
        self.state: tuple[object, ...] | None = None
        self.lock = anyio.Lock()
        self.wants_lines = False
        self.edition = 0
        """Counts edits of what it may be made of: comments are no part of a unit's state."""


class GeneratedDocuments(Part):
    """The texts, by what they are of."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._views: dict[Generated, _View] = {}
        self.files = ViewFiles()

    def known(self, generated: Generated) -> Text | None:
        """The text as it was last; None where nobody has asked yet."""
        view = self._views.get(generated)
        return None if view is None else view.text

    def of(self, document: Document) -> tuple[Generated, Text] | None:
        """What a document of ours shows."""
        generated = document.generated
        text = None if generated is None else self.known(generated)
        return None if generated is None or text is None else (generated, text)

    async def text(self, generated: Generated) -> Text:
        """The text as it is now. Raises CkwatchError where there is no such unit."""
        folder = self._session.folders.get(generated.folder)
        if folder is None:
            raise CkwatchError(f"{generated.folder} is no workspace that is open here")
        unit = folder.units.get(generated.unit)
        if unit is None and self.known(generated) is None:
            raise CkwatchError(f"there is no unit {generated.unit}", "It may have been renamed or removed.")
        view = self._views.get(generated)
        if view is None:
            view = self._views[generated] = _View(self._session, partial(self._follow, folder, generated))
        async with view.lock:
            await self._renew(folder, generated, view, unit)
        assert view.text is not None  # noqa: S101  # that is what renewing does
        return view.text

    def remains(self) -> dict[str, Any]:
        """The files that show them."""
        return self.files.remains()

    def resume(self, remains: dict[str, Any]) -> None:
        """The files are still there."""
        self.files.resume(remains)

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Fetch again what may have changed."""
        for generated, view in self._views.items():
            if generated.folder == folder.root and f"unit/{generated.unit}" in topics:
                view.soon()

    def changed(self, document: Document, edits: Sequence[Edit]) -> None:  # noqa: ARG002  # whatever they are
        """What only stands in comments is no other unit, and yet another text."""
        folder = self._session.folder_for(document)
        if folder is None or not self._views or document.kind is Kind.GENERATED:
            return
        for generated, view in self._views.items():
            if generated.view != "source" or generated.folder != folder.root:
                continue
            if document.kind is not Kind.TEMPLATE or not self._session.active.is_known_otherwise(
                document, generated.unit
            ):
                self._session.start(self._follow_edit, folder, view, document)

    def closed(self, document: Document) -> None:
        """What nobody looks at is not kept up to date."""
        if document.generated is not None and document.path is None:
            self._views.pop(document.generated, None)

    async def _follow(self, folder: Folder, generated: Generated, view: _View, *, anew: bool = False) -> None:
        async with view.lock:
            if anew:
                view.state = None
            before = view.text
            await self._renew(folder, generated, view, folder.units.get(generated.unit))
        now = view.text
        changed = now is not None and (before is None or before.text != now.text)
        if now is not None and changed and self._views.get(generated) is view:
            await self._tell(generated, now)

    async def _follow_edit(self, folder: Folder, view: _View, document: Document) -> None:
        await folder.lender.settled(document)
        view.edition += 1
        view.soon()

    async def _tell(self, generated: Generated, text: Text) -> None:
        await self.files.update(generated, text.text)
        if self._session.abilities.shows_generated:
            params = types.TextDocumentContentRefreshParams(generated.uri)
            self._session.server.workspace_text_document_content_refresh(params)

    async def _renew(self, folder: Folder, generated: Generated, view: _View, unit: Unit | None) -> None:
        state = None if unit is None else (view.edition, *_state(generated, unit))
        if state is not None and state == view.state and view.text is not None:
            return
        view.state = None
        if unit is None:
            view.text = outdated(generated.view, "the unit is gone", view.text, f"there is no unit {generated.unit}")
            return
        try:
            made = await (self._source if generated.view == "source" else self._isa)(folder, generated, view, unit)
        except CkwatchError as error:
            made = outdated(generated.view, f"{error.message}: this is what was there before", view.text, str(error))
        if view.text is None or made != view.text:
            view.text = made
        view.state = state

    async def _source(self, folder: Folder, generated: Generated, view: _View, unit: Unit) -> Text:
        rendered = await folder.ready.rendered(generated.unit, with_map=True)
        if view.text is not None and rendered.text == view.text.text:
            return (
                view.text if view.text.generation == unit.generation else source_text(rendered, None, unit.generation)
            )
        return source_text(rendered, view.text, unit.generation)

    async def _isa(self, folder: Folder, generated: Generated, view: _View, unit: Unit) -> Text:
        source = await self._source_of(generated)
        isa = await folder.ready.isa(generated.unit, lines=False)
        if not isa.has_lines and not view.wants_lines:
            view.wants_lines = True
            self._session.start(self._add_lines, folder, generated, view)
        return isa_text(isa, source, unit.generation)

    async def _source_of(self, generated: Generated) -> Text | None:
        source = Generated("source", generated.unit, generated.folder)
        try:
            return await self.text(source)
        except CkwatchError:
            return None

    async def _add_lines(self, folder: Folder, generated: Generated, view: _View) -> None:
        """Source lines take a compile; they are added when they are there."""
        try:
            isa = await folder.ready.isa(generated.unit)
        finally:
            view.wants_lines = False
        if isa.has_lines and self._views.get(generated) is view:
            # the unit may be another by now: what is shown is fetched again, not what was compiled
            await self._follow(folder, generated, view, anew=True)


def _state(generated: Generated, unit: Unit) -> tuple[object, ...]:
    """What a document depends on."""
    if generated.view == "source":
        return (unit.generation, unit.phase not in ("waiting", "rendering"), unit.symbol)
    return (unit.key, unit.fresh, unit.outcome, unit.phase in ("done", "idle"))
