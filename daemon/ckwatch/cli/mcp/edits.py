"""Edits of an assistant: texts in its own view of the workspace, above what editors have not saved."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field

from ckwatch.cli.output import write_file
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position
from ckwatch.system.user_files import read_file

if TYPE_CHECKING:
    from ckwatch.client import Client
    from ckwatch.client.overlays import Overlay

Coordinate = Annotated[int, Field(ge=0)]


class EditPlace(BaseModel):
    """A position in a text; lines and columns count from zero, in code points."""

    model_config = ConfigDict(extra="forbid")

    line: Coordinate
    column: Coordinate


class Replacement(BaseModel):
    """A change of a text: `old`, which stands there once, or the text from `start` to `end` becomes `text`."""

    model_config = ConfigDict(extra="forbid")

    text: str
    old: str | None = None
    start: EditPlace | None = None
    end: EditPlace | None = None


@dataclass(slots=True)
class _Shown:
    """A text in the client's view. `own`: it is the assistant's, no editor's."""

    stack: AsyncExitStack
    overlay: Overlay
    text: str
    own: bool


class Edits:
    """The texts that a client shows in place of files. Use it as a context."""

    def __init__(self, client: Client, *, allow_changes: bool) -> None:
        self._client = client
        self._allow_changes = allow_changes
        self._shown: dict[str, _Shown] = {}
        self._editors: dict[str, str] = {}

    async def follow_editors(self) -> None:
        """Show what editors have not saved, except in files with an edit."""
        await self._client.sync()
        self._editors = {one.path: one.text for one in await self._client.unsaved()}
        for path in [path for path, shown in self._shown.items() if not shown.own and path not in self._editors]:
            await self._drop(path)
        for path, text in self._editors.items():
            if path not in self._shown or not self._shown[path].own:
                await self._show(path, text, own=False)

    async def apply(self, name: str, text: str | None, replacements: Sequence[Replacement]) -> str:
        """Edit a file's text, and return the difference. Raises CkwatchError."""
        path = await self.path_of(name)
        before = await self._text(path)
        if (text is None) == (not replacements):
            raise CkwatchError("give either `text` or `replacements`", "`text` is the whole file")
        after = changed(before or "", replacements) if text is None else text
        await self._show(path, after, own=True)
        return difference(path, before or "", after)

    async def discard(self, name: str) -> None:
        """Drop the edit of a file. Raises CkwatchError where there is none."""
        await self._drop(await self._edited(name))

    async def save(self, name: str) -> str:
        """Write the edit of a file to disk, and return the path. Raises CkwatchError, also where it is not allowed."""
        path = await self._edited(name)
        if not self._allow_changes:
            raise CkwatchError("nothing is written to disk", "`ckwatch mcp --allow-changes` permits it")
        if path in self._editors:
            raise CkwatchError(f"an editor has unsaved changes of {path}", "save or undo them there first")
        await to_thread.run_sync(write_file, Path(path), self._shown[path].text.encode())
        await self._drop(path)
        return path

    def unsaved(self) -> list[str]:
        """The files with an edit."""
        return sorted(path for path, shown in self._shown.items() if shown.own)

    async def close(self) -> None:
        """Drop every text."""
        for path in list(self._shown):
            await self._drop(path)

    async def _edited(self, name: str) -> str:
        path = await self.path_of(name)
        if path not in self.unsaved():
            raise CkwatchError(f"{path} has no edit", f"edited: {', '.join(self.unsaved()) or 'nothing'}")
        return path

    async def path_of(self, name: str) -> str:
        """The path of a file of the workspace, by which the daemon knows it. Raises CkwatchError for another."""
        root = self._client.root

        def find() -> str:
            path = root / name
            real = path.resolve()
            if not real.is_relative_to(root.resolve()) or real == root.resolve():
                raise CkwatchError(f"{path} is not in the workspace", f"files in {root} can be edited")
            if real.is_dir():
                raise CkwatchError(f"{path} is a folder")
            return str(path if ".." not in path.parts else real)

        try:
            return await to_thread.run_sync(find)
        except (OSError, ValueError) as error:
            raise CkwatchError(f"no file can be called '{name[:80]}': {error}") from None

    async def _text(self, path: str) -> str | None:
        if path in self._shown:
            return self._shown[path].text
        try:
            return (await to_thread.run_sync(read_file, path)).decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise CkwatchError(f"cannot read {path}: {error}") from None

    async def _show(self, path: str, text: str, *, own: bool) -> None:
        shown = self._shown.get(path)
        if shown is None:
            stack = AsyncExitStack()
            overlay = await stack.enter_async_context(self._client.overlay(path, text))
            self._shown[path] = _Shown(stack, overlay, text, own)
        elif shown.text != text or shown.own != own:
            await shown.overlay.change(text)
            shown.text, shown.own = text, own

    async def _drop(self, path: str) -> None:
        if (shown := self._shown.pop(path, None)) is not None:
            await shown.stack.aclose()


def changed(text: str, replacements: Iterable[Replacement]) -> str:
    """A text after replacements, whose places are those of the text as it was. Raises CkwatchError."""
    index = LineIndex(text)
    spans: list[tuple[int, int, str]] = []
    for one in replacements:
        if one.old is not None and one.start is None and one.end is None:
            if text.count(one.old) != 1 or not one.old:
                stands = f"stands there {text.count(one.old)} times" if one.old else "is empty"
                raise CkwatchError(f"`old` {stands}: {one.old[:80]!r}", "give a text that occurs there once")
            begin = text.index(one.old)
            spans.append((begin, begin + len(one.old), one.text))
        elif one.old is None and one.start is not None and one.end is not None:
            places = (Position(place.line, place.column) for place in (one.start, one.end))
            begin, end = (index.offset(place) for place in places)
            spans.append((begin, max(begin, end), one.text))
        else:
            raise CkwatchError("a replacement has either `old`, or `start` and `end`")
    spans.sort()
    for (_, end, _), (begin, _, _) in pairwise(spans):
        if begin < end:
            raise CkwatchError("two replacements overlap", "make one of them")
    for begin, end, new in reversed(spans):
        text = text[:begin] + new + text[end:]
    return text


def difference(path: str, before: str, after: str) -> str:
    """The unified difference of two texts."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), path, path, n=2)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
