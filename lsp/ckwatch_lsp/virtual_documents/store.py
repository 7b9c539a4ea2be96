"""Keeps open virtual documents up to date: a requested one is fetched again when its unit changes.

Editors that show no virtual documents get files instead: read-only, private, removed with the server.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import anyio
from anyio import to_thread

from ckwatch.model.delays import VIRTUAL_TEXT
from ckwatch.model.errors import CkwatchError
from ckwatch.system.durable_files import replace_file
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures.line_profiles import compared_profile
from ckwatch_lsp.figures.pages import plain
from ckwatch_lsp.figures.profile_notes import profile_page
from ckwatch_lsp.protocol.uris import VirtualUri, parse_virtual_uri
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import DocumentKind, TextChange, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.virtual_documents.code_files import code_text
from ckwatch_lsp.virtual_documents.texts import VirtualText, isa_text, outdated, source_text

CODE_SUFFIXES = (".hsaco", ".co")
"""Of files that hold nothing but code objects."""


class VirtualFiles(SessionListener):
    """Files in a private folder, for editors that show files only: one for each document that was shown."""

    state_key: ClassVar[str] = "GeneratedDocuments"

    def __init__(self) -> None:
        self._folder: Path | None = None
        self.paths: dict[VirtualUri, Path] = {}

    def virtual_at(self, path: str | None) -> VirtualUri | None:
        """Return the virtual document of the file at `path`, if it is one of ours, or a code object, which editors show
        as the text of its figures."""
        if path is not None and path.endswith(CODE_SUFFIXES):
            return VirtualUri("code", Path(path).name, Path(path).parent)
        return next((virtual for virtual, known in self.paths.items() if str(known) == path), None)

    async def show(self, virtual: VirtualUri, text: str) -> Path:
        """The file, with this text."""
        path = self.paths.get(virtual)
        if path is None:
            path = await to_thread.run_sync(self._place, virtual)
            self.paths[virtual] = path
        content = text.encode("utf-8", "replace")
        await to_thread.run_sync(partial(replace_file, path, content, mode=0o400, flushed=False))
        return path

    def state_to_hand_over(self) -> dict[str, Any]:
        """The folder, and the files by URI."""
        if self._folder is None:
            return {}
        shown = {virtual.uri: str(path) for virtual, path in self.paths.items()}
        return {"folder": str(self._folder), "files": shown}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over the previous version's files."""
        if state:
            self._folder = Path(state["folder"])
        for uri, path in state.get("files", {}).items():
            virtual = parse_virtual_uri(uri)
            if virtual is not None:
                self.paths[virtual] = Path(path)

    def remove(self) -> None:
        """Remove all files."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def write_log(self, name: str, text: str) -> Path:
        """A file with the end of a daemon's log. Blocks; call from a worker thread."""
        folder = self._private_folder() / "logs"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{name}.log"
        path.write_text(text, "utf-8", "replace")
        return path

    def _place(self, virtual: VirtualUri) -> Path:
        # workspaces may have units of the same name
        folder = self._private_folder() / secrets.token_hex(4) / virtual.view
        path = folder / virtual.file_name
        path.parent.mkdir(parents=True, mode=0o700)
        return path

    def _private_folder(self) -> Path:
        if self._folder is None:
            runtime = os.environ.get("XDG_RUNTIME_DIR")
            usable = runtime if runtime and os.access(runtime, os.W_OK) else None
            self._folder = Path(tempfile.mkdtemp(prefix="ckwatch-views-", dir=usable))
        return self._folder


class _OpenView:
    """A document that was requested."""

    def __init__(self, start: Callable[..., Any], renew: Callable[[_OpenView], Awaitable[None]]) -> None:
        self.fetch_soon = Debouncer(start, partial(renew, self), VIRTUAL_TEXT)
        self.text: VirtualText | None = None
        self.state: tuple[object, ...] | None = None
        self.lock = anyio.Lock()
        self.wants_lines = False
        self.edition = 0
        """Counts edits of what it may be made of: comments are no part of a unit's state."""


async def _do_nothing(_view: _OpenView) -> None:
    """Follow no unit: a file is read when it is requested."""


class VirtualDocuments(SessionListener):
    """The texts of virtual documents, by URI."""

    def __init__(self, session: Session, active: ActiveUnits, files: VirtualFiles) -> None:
        self._session = session
        self._active = active
        self._views: dict[VirtualUri, _OpenView] = {}
        self.files = files

    def of(self, document: TextDocument) -> tuple[VirtualUri, VirtualText] | None:
        """Return the content of a document of ours, as it was requested last."""
        view = None if document.virtual is None else self._views.get(document.virtual)
        return None if document.virtual is None or view is None or view.text is None else (document.virtual, view.text)

    async def text(self, virtual: VirtualUri) -> VirtualText:
        """The text as it is now. Raises CkwatchError where there is no such unit."""
        if virtual.view == "code":
            return await self._code(virtual)
        folder = self._session.folders.get(virtual.folder)
        if folder is None:
            raise CkwatchError(f"{virtual.folder} is not an open workspace")
        unit = folder.units.get(virtual.unit)
        view = self._views.get(virtual)
        if unit is None and (view is None or view.text is None):
            raise CkwatchError(f"there is no unit {virtual.unit}", "It may have been renamed or removed.")
        if view is None:
            view = self._views[virtual] = _OpenView(self._session.start, partial(self._follow, folder, virtual))
        async with view.lock:
            await self._renew(folder, virtual, view, unit)
        assert view.text is not None  # noqa: S101  # that is what renewing does
        return view.text

    async def _code(self, virtual: VirtualUri) -> VirtualText:
        """The text of a file with code objects, read again when that has changed."""
        path = virtual.folder / virtual.unit
        view = self._views.setdefault(virtual, _OpenView(self._session.start, _do_nothing))
        async with view.lock:
            try:
                status = await to_thread.run_sync(path.stat)
            except OSError as error:
                raise CkwatchError(f"{path} cannot be read: {error.strerror}") from error
            state = (status.st_mtime_ns, status.st_size)
            if view.text is None or view.state != state:
                view.text = await code_text(path)
                view.state = state
            return view.text

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Fetch again what may have changed."""
        for virtual, view in self._views.items():
            if virtual.folder == folder.root and f"unit/{virtual.unit}" in topics:
                view.fetch_soon()

    def changed(self, document: TextDocument, edits: Sequence[TextChange]) -> None:  # noqa: ARG002  # whatever they are
        """Refresh after an edit: a change in comments makes no other unit, and yet another text."""
        folder = self._session.folder_for(document)
        if folder is None or not self._views or document.kind is DocumentKind.VIRTUAL:
            return
        for virtual, view in self._views.items():
            if virtual.view != "source" or virtual.folder != folder.root:
                continue
            if document.kind is not DocumentKind.TEMPLATE or not self._active.excludes(document, virtual.unit):
                self._session.start(self._follow_edit, folder, view, document)

    def closed(self, document: TextDocument) -> None:
        """Do not keep a closed document up to date."""
        if document.virtual is not None and (document.path is None or document.virtual.view == "code"):
            self._views.pop(document.virtual, None)

    async def _follow(
        self, folder: WorkspaceFolder, virtual: VirtualUri, view: _OpenView, *, refetch: bool = False
    ) -> None:
        async with view.lock:
            if refetch:
                view.state = None
            before = view.text
            await self._renew(folder, virtual, view, folder.units.get(virtual.unit))
        now = view.text
        changed = now is not None and (before is None or before.text != now.text)
        if now is not None and changed and self._views.get(virtual) is view:
            await self._tell(virtual, now)

    async def _follow_edit(self, folder: WorkspaceFolder, view: _OpenView, document: TextDocument) -> None:
        await folder.overlays.settled(document)
        view.edition += 1
        view.fetch_soon()

    async def _tell(self, virtual: VirtualUri, text: VirtualText) -> None:
        if virtual in self.files.paths:
            await self.files.show(virtual, text.text)
        if self._session.capabilities.shows_virtual_documents:
            self._session.editor.refresh_content(virtual.uri)

    async def _renew(self, folder: WorkspaceFolder, virtual: VirtualUri, view: _OpenView, unit: Unit | None) -> None:
        state = None if unit is None else (view.edition, *_state(virtual, unit))
        if state is not None and state == view.state and view.text is not None:
            return
        view.state = None
        if unit is None:
            view.text = outdated(virtual.view, "the unit is gone", view.text, f"there is no unit {virtual.unit}")
            return
        try:
            makers = {"source": self._source, "isa": self._isa, "profile": self._profile}
            made = await makers[virtual.view](folder, virtual, view, unit)
        except CkwatchError as error:
            made = outdated(virtual.view, f"{error.message}: this is the previous text", view.text, str(error))
        if view.text is None or made != view.text:
            view.text = made
        view.state = state

    async def _source(self, folder: WorkspaceFolder, virtual: VirtualUri, view: _OpenView, unit: Unit) -> VirtualText:
        rendered = await folder.ready.rendered(virtual.unit, with_map=True)
        if view.text is not None and rendered.text == view.text.text:
            return (
                view.text if view.text.generation == unit.generation else source_text(rendered, None, unit.generation)
            )
        return source_text(rendered, view.text, unit.generation)

    async def _isa(self, folder: WorkspaceFolder, virtual: VirtualUri, view: _OpenView, unit: Unit) -> VirtualText:
        source = await self._source_of(virtual)
        isa = await folder.ready.isa(virtual.unit, lines=False)
        if not isa.has_lines and not view.wants_lines:
            view.wants_lines = True
            self._session.start(self._add_lines, folder, virtual, view)
        return isa_text(isa, source, unit.generation)

    async def _profile(
        self, folder: WorkspaceFolder, _virtual: VirtualUri, _view: _OpenView, unit: Unit
    ) -> VirtualText:
        profile = await compared_profile(folder.ready, unit, self._session.settings.profile_against)
        text = await to_thread.run_sync(lambda: plain(profile_page(profile)))
        return VirtualText(text=f"{text}\n", stale=False, generation=unit.generation)

    async def _source_of(self, virtual: VirtualUri) -> VirtualText | None:
        source = VirtualUri("source", virtual.unit, virtual.folder)
        try:
            return await self.text(source)
        except CkwatchError:
            return None

    async def _add_lines(self, folder: WorkspaceFolder, virtual: VirtualUri, view: _OpenView) -> None:
        """Source lines take a compile; they are added when they are there."""
        try:
            isa = await folder.ready.isa(virtual.unit)
        finally:
            view.wants_lines = False
        if isa.has_lines and self._views.get(virtual) is view:
            # the unit may be another by now: what is shown is fetched again, not what was compiled
            await self._follow(folder, virtual, view, refetch=True)


def _state(virtual: VirtualUri, unit: Unit) -> tuple[object, ...]:
    """Return the state that a document depends on."""
    if virtual.view == "source":
        return (unit.generation, unit.phase not in ("waiting", "rendering"), unit.symbol)
    profiled_at = unit.profiled_at if virtual.view == "profile" else None
    return (unit.key, unit.fresh, unit.outcome, unit.phase in ("done", "idle"), profiled_at)
