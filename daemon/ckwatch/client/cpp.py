"""Questions about C++: in templates, kernel files, rendered sources and headers, answered by the daemon's clangd."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from ckwatch.client.connection import Connection, ask
from ckwatch.model.errors import CkwatchError
from ckwatch.questions.clients import ClientQuestions

if TYPE_CHECKING:
    from ckwatch.wire.cpp import CppAnswer, CppQuestion, Side
    from ckwatch.wire.state import Unit

Path = str | os.PathLike[str] | None
"""A template, a kernel file or a header; None: the rendered source of the unit that is named."""

Json = Mapping[str, Any]
"""An object of the Language Server Protocol."""


class AnsweringText(TypedDict, total=False):
    """`unit`: whose text answers. `side`: as compiled for the host or the device."""

    unit: str | Unit | None
    side: Side | None


class CppClient:
    """`Client.cpp`: clangd's answers about C++, at places of templates instead of rendered texts.

    A place is a line and a column in code points, both from zero. `unit` is whose text answers, without it the first
    that is made of the file; `side` whether as compiled for the host or the device. Answers are JSON as the Language
    Server Protocol has it. Each method waits until clangd is there: it may have to be fetched, and has to read the
    headers first (seconds). Raises CkwatchError where there is no compiler or no clangd, and as `Client`.
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
        call: Json | None = None,
        declaration: bool = True,
        others: bool = False,
        patience_s: float | None = None,
    ) -> CppAnswer:
        """Any question, with the whole answer: whose text answered, which text of the file it is about, why there is
        none. `patience_s`: after so long an answer that is not `ready` will do."""
        from ckwatch.wire.cpp import CppRequest, FunctionItem, Place

        request = CppRequest.model_construct(
            question=question,
            path=None if path is None else self._absolute(path),
            unit=unit if unit is None or isinstance(unit, str) else unit.id,
            start=None if line is None else Place.model_construct(line=line, character=column),
            end=None if end is None else Place.model_construct(line=end[0], character=end[1]),
            side=side,
            trigger=trigger,
            name=name,
            call=None if call is None else FunctionItem.model_construct(**call),
            declaration=declaration,
            others=others,
            patience_s=patience_s,
            client=await self._viewer(),
        )
        return await ask(self._connection, ClientQuestions.ask_cpp, (request,))

    async def hover(
        self, path: Path, line: int, column: int, *, others: bool = False, **chosen: Unpack[AnsweringText]
    ) -> Json | None:
        """The type, the value in the unit and the documentation of what stands at a place. `others`: and where that is
        different in other instances of the template, which takes up to seconds for each."""
        return _object(await self.ask("hover", path, line, column, others=others, **chosen))

    async def completion(
        self, path: Path, line: int, column: int, *, trigger: str = "", **chosen: Unpack[AnsweringText]
    ) -> Json | None:
        """A `CompletionList` for a place. `trigger` is the character that has just been typed."""
        return _object(await self.ask("completion", path, line, column, trigger=trigger, **chosen))

    async def signatures(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> Json | None:
        """The parameters that the call around a place takes (`SignatureHelp`)."""
        return _object(await self.ask("signatures", path, line, column, **chosen))

    async def definition(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """The `Location`s of a definition: in a template, or in a header."""
        return _list(await self.ask("definition", path, line, column, **chosen))

    async def type_definition(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """The definition of its type."""
        return _list(await self.ask("type-definition", path, line, column, **chosen))

    async def implementation(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """The `Location`s of what overrides or derives from it."""
        return _list(await self.ask("implementation", path, line, column, **chosen))

    async def references(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """Its uses in the text of the unit, its declaration included."""
        return _list(await self.ask("references", path, line, column, **chosen))

    async def highlights(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """Its other places in the file."""
        return _list(await self.ask("highlights", path, line, column, **chosen))

    async def symbols(self, path: Path, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """The declarations in the C++ of a file (`DocumentSymbol`)."""
        return _list(await self.ask("symbols", path, **chosen))

    async def tokens(self, path: Path, **chosen: Unpack[AnsweringText]) -> list[Any]:
        """The names in the C++ of a file, in order: line, column, length, type and modifiers."""
        return _list(await self.ask("tokens", path, **chosen))

    async def hints(self, path: Path, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """Names of parameters, and deduced types (`InlayHint`)."""
        return _list(await self.ask("hints", path, **chosen))

    async def prepare_rename(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> Json | None:
        """The name at a place, as `placeholder` and `range`. Raises CkwatchError where it cannot be changed, which says
        why."""
        return _object(_given(await self.ask("prepare-rename", path, line, column, **chosen)))

    async def rename(
        self, path: Path, line: int, column: int, name: str, **chosen: Unpack[AnsweringText]
    ) -> Json | None:
        """The edits that change a name everywhere (`WorkspaceEdit`). Raises CkwatchError where an edit falls on text
        that a template does not have exactly once, which says where."""
        return _object(_given(await self.ask("rename", path, line, column, name=name, **chosen)))

    async def actions(
        self, path: Path, line: int, column: int, *, end: tuple[int, int] | None = None, **chosen: Unpack[AnsweringText]
    ) -> list[Json]:
        """Changes of the code that clangd offers for a range (`CodeAction`), with their edits or, as `disabled`, why
        they cannot be made here."""
        return _list(await self.ask("actions", path, line, column, end=end, **chosen))

    async def calls(self, path: Path, line: int, column: int, **chosen: Unpack[AnsweringText]) -> list[Json]:
        """The function at a place (`CallHierarchyItem`), for `incoming_calls` and `outgoing_calls`."""
        return _list(await self.ask("prepare-calls", path, line, column, **chosen))

    async def incoming_calls(self, function: Json) -> list[Json]:
        """The functions that call it."""
        return _list(await self.ask("incoming-calls", None, call=function["data"]))

    async def outgoing_calls(self, function: Json) -> list[Json]:
        """The functions that it calls."""
        return _list(await self.ask("outgoing-calls", None, call=function["data"]))


def _object(answer: CppAnswer) -> Json | None:
    found: Json | None = answer.result
    return found


def _list(answer: CppAnswer) -> list[Any]:
    return list(answer.result or ())


def _given(answer: CppAnswer) -> CppAnswer:
    if answer.reason:
        raise CkwatchError(answer.reason)
    return answer
