"""Answers requests about the calls of macros and the includes of templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any, TypeVar

from anyio import to_thread
from lsprotocol import types

from ckwatch.model.text import Position
from ckwatch_lsp.session.documents import TextDocument
from ckwatch_lsp.session.providers import LanguageProvider
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter.library import TemplateLibrary, TemplateSet
from ckwatch_lsp.templates.language.calls import CallItem, Calls, extent, incoming, items_at, outgoing
from ckwatch_lsp.templates.language.index import TemplateIndex, Variable

Call = TypeVar("Call", types.CallHierarchyIncomingCall, types.CallHierarchyOutgoingCall)


class TemplateCalls(LanguageProvider):
    """Items of the editor's call hierarchy. Their `data` says in which workspace they were found, and what they are."""

    def __init__(self, session: Session, library: TemplateLibrary) -> None:
        self._session = session
        self._library = library

    async def prepare_calls(self, document: TextDocument, position: Position) -> Sequence[types.CallHierarchyItem]:
        """The macro or template at `position`."""
        folder, templates, file = await self._library.of(document)
        items = await to_thread.run_sync(items_at, templates.index, file.path, position)
        shown = [await self._shown(folder.root, templates, item) for item in items]
        return [item for item in shown if item is not None]

    async def _calls(
        self, item: types.CallHierarchyItem, ask: Callable[[TemplateIndex, CallItem], list[Calls]], kind: type[Call]
    ) -> Sequence[Call] | None:
        """Return the calls and includes of or in `item`; None if it is not of a template."""
        asked = _asked(item)
        if asked is None:
            return None
        root, own = asked
        folder = self._session.folders.get(root)
        if folder is None:
            return ()
        templates = await self._library.templates(folder)
        found = []
        for calls in await to_thread.run_sync(ask, templates.index, own):
            shown = await self._shown(root, templates, calls.item)
            caller = calls.item if ask is incoming else own
            if shown is not None:
                ranges = [await self._session.encode_range(caller.path, each) for each in calls.ranges]
                found.append(kind(shown, ranges))
        return found

    incoming_calls = partialmethod(_calls, ask=incoming, kind=types.CallHierarchyIncomingCall)
    outgoing_calls = partialmethod(_calls, ask=outgoing, kind=types.CallHierarchyOutgoingCall)

    async def _shown(self, root: Path, templates: TemplateSet, item: CallItem) -> types.CallHierarchyItem | None:
        """An item as the protocol has it; None for a macro that is not there any more."""
        reach = extent(templates.index, item)
        if reach is None:
            return None
        template, macro = templates.name_of(item.path), item.macro
        data: dict[str, Any] = {"language": "template", "root": str(root), "path": item.path}
        if macro is not None:
            data |= {"scope": macro.scope, "macro": macro.name}
        return types.CallHierarchyItem(
            name=template if macro is None else macro.name,
            kind=types.SymbolKind.File if macro is None else types.SymbolKind.Function,
            uri=self._session.uri_at(item.path),
            range=await self._session.encode_range(item.path, reach[0]),
            selection_range=await self._session.encode_range(item.path, reach[1]),
            detail=None if macro is None else template,
            data=data,
        )


def _asked(item: types.CallHierarchyItem) -> tuple[Path, CallItem] | None:
    """The workspace's folder and the item, which an editor has sent back; None if it is another language's."""
    data: Any = item.data
    match data:
        case {"language": "template", "root": str(root), "path": str(path), "scope": int(scope), "macro": str(name)}:
            return Path(root), CallItem(path, Variable(path, scope, name))
        case {"language": "template", "root": str(root), "path": str(path)}:
            return Path(root), CallItem(path)
        case _:
            return None
