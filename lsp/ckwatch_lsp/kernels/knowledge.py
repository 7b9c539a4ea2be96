"""What the daemon of a workspace knows of keys, templates, parameters and values, kept so that answers need not wait.

What may be another since it was asked for is given as it was, and asked for again at the same time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from ckwatch.errors import CkwatchError
from ckwatch.wire.language import Key, ParameterValue, TemplateDetail
from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document, Kind
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.kernel_file.document import KernelFile
from ckwatch_lsp.kernel_file.keys import Keys
from ckwatch_lsp.parts import Part

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

PATIENCE_S = 0.012
"""How long a list of values waits for the daemon's judgement; the editor asks again when it comes later."""

FIRST_S = 5.0
"""How long an answer waits for what the daemon has never told."""

AGAIN_S = 0.5
"""What may be another is asked for no more often: while a daemon renders a workspace, everything may be."""

VALUES_KEPT_S = 30.0
VALUES_KEPT = 200

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Answer]):
    """An answer, and what the folder's count of news was when it was asked for; when it came."""

    answer: Answer
    news: int
    at: float


@dataclass(frozen=True, slots=True)
class _Judged:
    """The daemon's judgement of a parameter's values; None while it is being waited for."""

    at: float
    values: Sequence[ParameterValue] | None
    done: anyio.Event


class Knowledge(Part):
    """Of all workspaces."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[tuple[Folder, str], _Kept[Any]] = {}
        self._asking: dict[tuple[Folder, str], anyio.Event] = {}
        self._news: dict[Folder, int] = {}
        self._values: dict[tuple[Folder, str, str, str], _Judged] = {}

    def told(self, folder: Folder, topics: frozenset[str]) -> None:
        """Templates and parameters may be others."""
        if "standing" in topics:
            self._values.clear()
        if any(topic == "standing" or topic.startswith("unit/") for topic in topics):
            self._news[folder] = self._news.get(folder, 0) + 1
        if "standing" in topics and folder.client is not None:
            for document in self._session.documents.values():
                self.opened(document)

    def opened(self, document: Document) -> None:
        """What will be asked about it is asked for now."""
        folder = self._session.folder_for(document)
        if folder is not None and folder.client is not None and document.kind in (Kind.KERNEL_FILE, Kind.SETTINGS):
            self._session.start(self._prepare, folder, document)

    async def _prepare(self, folder: Folder, document: Document) -> None:
        await self.keys(folder, document.kind)
        if document.kind is Kind.KERNEL_FILE:
            await self.templates(folder)
            template = KernelFile(document.text).template
            name = None if template is None else template.read()
            if isinstance(name, str):
                await self.template(folder, name)

    async def keys(self, folder: Folder, kind: Kind) -> Keys:
        """The keys of kernel files or of `ckwatch.toml`; none while there is no daemon."""
        found: tuple[Keys, Keys] | None = await self._answer(folder, "vocabulary", lambda: _keys(folder))
        if found is None:
            return Keys(())
        return found[1] if kind is Kind.SETTINGS else found[0]

    async def templates(self, folder: Folder) -> Mapping[str, str]:
        """The templates that a kernel file could name, with their files."""
        found: Mapping[str, str] | None = await self._answer(folder, "templates", lambda: _templates(folder))
        return found or {}

    async def template(self, folder: Folder, name: str) -> TemplateDetail | None:
        """What a template is made of and asks for; None if there is none."""
        return await self._answer(folder, f"template/{name}", lambda: folder.ready.template(name))

    async def values(
        self, folder: Folder, unit: Unit, parameter: str, parameters: Mapping[str, Any], *, wait_s: float = PATIENCE_S
    ) -> tuple[Sequence[ParameterValue], bool]:
        """What the rules say of a parameter's values, the others being `parameters`; and whether that is all.

        Without an answer in time there are none yet.
        """
        key = (folder, unit.id, parameter, json.dumps(parameters, sort_keys=True, default=str))
        known = self._values.get(key)
        if known is None or (known.values is not None and time.monotonic() - known.at > VALUES_KEPT_S):
            known = _Judged(time.monotonic(), None, anyio.Event())
            self._values[key] = known
            if len(self._values) > VALUES_KEPT:
                del self._values[next(iter(self._values))]
            self._session.start(self._judge, key, known, dict(parameters))
        if known.values is None:
            with anyio.move_on_after(wait_s):
                await known.done.wait()
            known = self._values.get(key, known)
        return known.values or (), known.values is not None

    async def _judge(self, key: tuple[Folder, str, str, str], asked: _Judged, parameters: dict[str, Any]) -> None:
        folder, unit, parameter, _ = key
        values: Sequence[ParameterValue] = ()
        try:
            values = await folder.ready.values(unit, parameter, parameters=parameters)
        except CkwatchError:
            self._values.pop(key, None)
        else:
            self._values[key] = _Judged(time.monotonic(), values, asked.done)
        finally:
            asked.done.set()

    async def _answer(self, folder: Folder, what: str, ask: Callable[[], Awaitable[Answer]]) -> Answer | None:
        key, news = (folder, what), self._news.get(folder, 0)
        kept = self._kept.get(key)
        if (kept is None or kept.news != news) and key not in self._asking:
            self._asking[key] = anyio.Event()
            self._session.start(self._ask, key, ask)
        if kept is None:
            with anyio.move_on_after(FIRST_S):
                await self._asking[key].wait()
            kept = self._kept.get(key)
        return None if kept is None else kept.answer

    async def _ask(self, key: tuple[Folder, str], ask: Callable[[], Awaitable[Any]]) -> None:
        try:
            if key in self._kept:
                await anyio.sleep(max(0.0, self._kept[key].at + AGAIN_S - time.monotonic()))
            news = self._news.get(key[0], 0)
            self._kept[key] = _Kept(await ask(), news, time.monotonic())
        except CkwatchError:
            self._kept.pop(key, None)
        finally:
            self._asking.pop(key).set()


async def _keys(folder: Folder) -> tuple[Keys, Keys]:
    vocabulary = await folder.ready.vocabulary()
    of_files: Sequence[Key] = vocabulary.kernel_file
    return Keys(of_files), Keys(vocabulary.settings)


async def _templates(folder: Folder) -> Mapping[str, str]:
    return {one.name: one.path for one in await folder.ready.templates()}
