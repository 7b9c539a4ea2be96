"""Questions about C++: in templates, kernel files, rendered sources and headers, answered by the daemon's clangd."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ckwatch.client.connection import Connection, ask
from ckwatch.model.errors import CkwatchError
from ckwatch.questions.clients import ClientQuestions

if TYPE_CHECKING:
    from ckwatch.wire.cpp import (
        CppAction,
        CppAnswer,
        CppCall,
        CppCompletions,
        CppHighlight,
        CppHint,
        CppHover,
        CppLocation,
        CppName,
        CppQuestion,
        CppSignatures,
        CppSymbol,
        CppToken,
        Side,
    )
    from ckwatch.wire.state import Fix, Unit

Path = str | os.PathLike[str] | None
"""A template, a kernel file or a header; None: the rendered source of the unit that is named."""


class CppClient:
    """`Client.cpp`: what clangd says of C++, at places of templates instead of rendered texts.

    A place is a line and a column in code points, both from zero. `unit` is whose text answers, without it the first
    that is made of the file; `side` whether as compiled for the host or the device. Each method waits until clangd is
    there: it may have to be fetched, and has to read the headers first (seconds). Raises CkwatchError where there is no
    compiler or no clangd, and as `Client`.
    """

    def __init__(
        self,
        connection: Connection,
        absolute: Callable[[str | os.PathLike[str]], str],
        viewer: Callable[[], Awaitable[str | None]],
    ) -> None:
        self._connection = connection
        self._absolute = absolute
        self._viewer = viewer

    async def ask(
        self,
        question: CppQuestion,
        path: Path,
        line: int | None = None,
        column: int = 0,
        *,
        end: tuple[int, int] | None = None,
        unit: str | Unit | None = None,
        side: Side | None = None,
        trigger: str = "",
        name: str = "",
        call: str = "",
        others: bool = False,
        patience_s: float | None = None,
    ) -> CppAnswer:
        """Any question, with the whole answer: whose text answered, which text of the file it is about, why there is
        none. `patience_s`: after so long an answer that is not `ready` will do."""
        from ckwatch.wire.cpp import CppRequest, Place

        request = CppRequest.model_construct(
            question=question,
            path=None if path is None else self._absolute(path),
            unit=unit if unit is None or isinstance(unit, str) else unit.id,
            start=None if line is None else Place.model_construct(line=line, column=column),
            end=None if end is None else Place.model_construct(line=end[0], column=end[1]),
            side=side,
            trigger=trigger,
            name=name,
            call=call,
            others=others,
            patience_s=patience_s,
            client=await self._viewer(),
        )
        return await ask(self._connection, ClientQuestions.ask_cpp, (request,))

    async def hover(
        self,
        path: Path,
        line: int,
        column: int,
        *,
        unit: str | Unit | None = None,
        side: Side | None = None,
        others: bool = False,
    ) -> CppHover | None:
        """What stands at a place: its type, its value in the unit, its documentation. `others`: and where that is
        different in other instances of the template, which takes up to seconds for each."""
        return (await self.ask("hover", path, line, column, unit=unit, side=side, others=others)).hover

    async def completion(
        self,
        path: Path,
        line: int,
        column: int,
        *,
        trigger: str = "",
        unit: str | Unit | None = None,
        side: Side | None = None,
    ) -> CppCompletions | None:
        """What could be written at a place. `trigger` is the character that has just been typed."""
        return (await self.ask("completion", path, line, column, unit=unit, side=side, trigger=trigger)).completions

    async def signatures(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> CppSignatures | None:
        """What the call around a place takes."""
        return (await self.ask("signatures", path, line, column, unit=unit, side=side)).signatures

    async def definition(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppLocation, ...]:
        """Where what stands at a place is defined: in a template, or in a header."""
        return (await self.ask("definition", path, line, column, unit=unit, side=side)).locations

    async def type_definition(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppLocation, ...]:
        """Where its type is defined."""
        return (await self.ask("type-definition", path, line, column, unit=unit, side=side)).locations

    async def implementation(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppLocation, ...]:
        """What overrides or derives from it."""
        return (await self.ask("implementation", path, line, column, unit=unit, side=side)).locations

    async def references(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppLocation, ...]:
        """Where it is used in the text of the unit, its declaration included."""
        return (await self.ask("references", path, line, column, unit=unit, side=side)).locations

    async def highlights(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppHighlight, ...]:
        """Its other places in the file."""
        return (await self.ask("highlights", path, line, column, unit=unit, side=side)).highlights

    async def symbols(
        self, path: Path, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppSymbol, ...]:
        """What the C++ of a file declares."""
        return (await self.ask("symbols", path, unit=unit, side=side)).symbols

    async def tokens(
        self, path: Path, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppToken, ...]:
        """What the names in the C++ of a file are, in order."""
        return (await self.ask("tokens", path, unit=unit, side=side)).tokens

    async def hints(
        self, path: Path, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppHint, ...]:
        """Names of parameters, and deduced types."""
        return (await self.ask("hints", path, unit=unit, side=side)).hints

    async def prepare_rename(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> CppName | None:
        """The name at a place. Raises CkwatchError where it cannot be changed, which says why."""
        answer = await self.ask("prepare-rename", path, line, column, unit=unit, side=side)
        return _given(answer).name

    async def rename(
        self, path: Path, line: int, column: int, name: str, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[Fix, ...]:
        """The edits that change a name everywhere. Raises CkwatchError where an edit falls on text that a template does
        not have exactly once, which says where."""
        answer = await self.ask("rename", path, line, column, unit=unit, side=side, name=name)
        return _given(answer).edits

    async def actions(
        self,
        path: Path,
        line: int,
        column: int,
        *,
        end: tuple[int, int] | None = None,
        unit: str | Unit | None = None,
        side: Side | None = None,
    ) -> tuple[CppAction, ...]:
        """Changes of the code that clangd offers for a range, with their edits or why they cannot be made here."""
        return (await self.ask("actions", path, line, column, end=end, unit=unit, side=side)).actions

    async def calls(
        self, path: Path, line: int, column: int, *, unit: str | Unit | None = None, side: Side | None = None
    ) -> tuple[CppCall, ...]:
        """The function at a place, for `incoming_calls` and `outgoing_calls`."""
        return (await self.ask("prepare-calls", path, line, column, unit=unit, side=side)).calls

    async def incoming_calls(self, call: CppCall) -> tuple[CppCall, ...]:
        """Functions that call it."""
        return (await self.ask("incoming-calls", None, call=call.data)).calls

    async def outgoing_calls(self, call: CppCall) -> tuple[CppCall, ...]:
        """Functions that it calls."""
        return (await self.ask("outgoing-calls", None, call=call.data)).calls


def _given(answer: CppAnswer) -> CppAnswer:
    if answer.reason:
        raise CkwatchError(answer.reason)
    return answer
