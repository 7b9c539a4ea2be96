"""One question about one text: what clangd is asked for it, and the answer with its places in the asked file."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anyio import to_thread

from ckwatch.cpp import answers
from ckwatch.cpp.clangd import ClangdEndedError, ClangdRefusalError, MemoryText, OvertakenError
from ckwatch.cpp.mappings import Forwarding, NotForwardedError
from ckwatch.cpp.places import MEMORY_FOLDER, Location, Places, range_from, range_to_lsp, to_lsp
from ckwatch.cpp.supervisor import ClangdSupervisor
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position, Range
from ckwatch.wire.cpp import CppQuestion, CppRequest, Place

FROM_ALL_TEXTS = frozenset({"implementation", "incoming-calls", "outgoing-calls"})
"""Methods that clangd answers from all texts it has read; it says of each function where one of them has it. Of
references and renames what it finds in the asked text is known by itself, and the rest is left out."""

ROUNDS = 4
"""Rounds of a loop, or calls of a macro, that clangd is asked about."""

INVOKED, BY_CHARACTER = 1, 2
"""Why a completion is asked for (`CompletionTriggerKind`)."""

UNREAD = re.compile(rf"Files? must be saved first: {MEMORY_FOLDER}/")
"""Refusal of a rename by clangd when a text in its memory has changed since it was read."""

CLANGD_TRIGGERS = frozenset('.<>:"/*')


@dataclass(frozen=True, slots=True)
class ClangdAnswer:
    """An answer: `result` as the protocol has it, or places that another side may add to: `locations`, `edits`."""

    result: Any = None
    locations: Sequence[Location] = ()
    edits: answers.Edits = ()

    @property
    def json(self) -> Any:
        """As the protocol has it."""
        if self.locations:
            return [one.json for one in self.locations]
        return answers.workspace_edit(self.edits) if self.edits else self.result

    @property
    def places(self) -> list[Location]:
        """The places of both kinds."""
        return [*(place for place, _ in self.edits), *self.locations]

    def joined(self, other: ClangdAnswer) -> ClangdAnswer:
        """Both, each place once."""
        locations = tuple(dict.fromkeys((*self.locations, *other.locations)))
        return ClangdAnswer(self.result, locations, tuple(dict.fromkeys((*self.edits, *other.edits))))


@dataclass(frozen=True, slots=True)
class Question:
    """A request, the text that clangd is asked about, and its places. `about` finds the text of a call again."""

    request: CppRequest
    text: MemoryText
    places: Places
    supervisor: ClangdSupervisor
    about: Mapping[str, Any]

    def positions(self) -> list[Position]:
        """The places to ask clangd about; none for questions about the whole text. Raises NotForwardedError."""
        start = self.request.start
        need = METHODS[self.request.question][1]
        return [] if start is None or not need else self.places.forward(position_of(start), need)

    async def answer(self) -> ClangdAnswer:
        """The answer. Raises NotForwardedError, OvertakenError, and CkwatchError for what clangd refuses."""
        try:
            answer = await METHODS[self.request.question][2](self, self.positions())
        except ClangdRefusalError as error:
            raise ClangdRefusalError(answers.in_own_words(error.message, self.places)) from error
        if answer.result is None or self.request.question == "tokens":  # many, and without text
            return answer
        result = await to_thread.run_sync(answers.in_own_words, answer.result, self.places)  # symbols are many
        return replace(answer, result=result)

    async def _completion(self, positions: Sequence[Position]) -> ClangdAnswer:
        return await self._made(answers.completions, await self._ask(positions[0], self._context()), positions[0])

    async def _signatures(self, positions: Sequence[Position]) -> ClangdAnswer:
        found = await self._ask(positions[0]) or {}
        return ClangdAnswer(found if found.get("signatures") else None)

    async def _first_locations(self, positions: Sequence[Position]) -> ClangdAnswer:
        for position in positions[:ROUNDS]:
            given = await self._ask(position)
            found = answers.locations(given, self.places)
            if not found and answers.are_in_another_text(given, self.places):
                found = answers.locations(await self._ask(position, alone=True), self.places)
            if found:
                return ClangdAnswer(locations=found)
        return ClangdAnswer()

    async def _references(self, positions: Sequence[Position]) -> ClangdAnswer:
        context = {"context": {"includeDeclaration": self.request.declaration}}
        return ClangdAnswer(locations=answers.locations(await self._ask(positions[0], context), self.places))

    async def _highlights(self, positions: Sequence[Position]) -> ClangdAnswer:
        marked = [one for position in positions[:ROUNDS] for one in await self._ask(position) or ()]
        return ClangdAnswer(answers.highlights(marked, self.places))

    async def _symbols(self, _positions: Sequence[Position]) -> ClangdAnswer:
        return await self._made(answers.symbols, await self._ask(None))

    async def _tokens(self, _positions: Sequence[Position]) -> ClangdAnswer:
        clangd = await self.supervisor.ready()
        return await self._made(answers.tokens, await self._ask(None), clangd.token_types, clangd.token_modifiers)

    async def _hints(self, _positions: Sequence[Position]) -> ClangdAnswer:
        lines = LineIndex(self.text.text)
        whole = {"range": range_to_lsp(Range(Position(0, 0), lines.position(lines.length)))}
        start, end = self.request.start, self.request.end
        within = None if start is None or end is None else Range(position_of(start), position_of(end))
        return await self._made(answers.hints, await self._ask(None, whole), within)

    async def _rename(self, positions: Sequence[Position]) -> ClangdAnswer:
        edits = answers.edits(await self._renamed(positions[0]), self.places)
        await self._require_own(positions[0])
        return ClangdAnswer(edits=edits)

    async def _prepare_calls(self, positions: Sequence[Position]) -> ClangdAnswer:
        items = [answers.function(item, self.places, self.about) for item in await self._ask(positions[0]) or ()]
        return ClangdAnswer([item for item in items if item is not None])

    async def _calls(self, _positions: Sequence[Position]) -> ClangdAnswer:
        assert self.request.call is not None  # noqa: S101  # the request was validated
        item = self.request.call.item
        side = "from" if self.request.question == "incoming-calls" else "to"
        listed = await self._ask(None, {"item": item})
        return ClangdAnswer(answers.calls(listed, self.places, item, self.about, side))

    async def _made(self, make: Callable[..., Any], result: Any, *more: Any) -> ClangdAnswer:
        return ClangdAnswer(await to_thread.run_sync(make, result, self.places, *more))

    async def _ask(
        self, position: Position | None, more: Mapping[str, Any] | None = None, *, alone: bool = False
    ) -> Any:
        where = {} if position is None else {"position": to_lsp(position)}
        question = self.request.question
        alone |= question in FROM_ALL_TEXTS
        ask = self.supervisor.ask_alone if alone else self.supervisor.ask
        return await ask(self.text, METHODS[question][0], {**where, **(more or {})})

    async def _renamed(self, position: Position) -> Any:
        given = {"position": to_lsp(position), "newName": self.request.name}
        method = METHODS["rename"][0]
        try:
            return await self.supervisor.ask(self.text, method, given)
        except ClangdRefusalError:
            pass  # it may be another text that it refuses to change, which was edited since it was read
        try:
            return await self.supervisor.ask_alone(self.text, method, given)
        except ClangdRefusalError as error:
            if UNREAD.match(error.message):
                raise OvertakenError("the text has changed since clangd read it") from error
            raise

    def _context(self) -> Mapping[str, Any]:
        """clangd completes behind `>` and `:` only where they are the ends of `->` and `::`."""
        trigger = self.request.trigger
        if trigger not in CLANGD_TRIGGERS or not trigger:
            return {"context": {"triggerKind": INVOKED}}
        return {"context": {"triggerKind": BY_CHARACTER, "triggerCharacter": trigger}}

    async def _hover(self, positions: Sequence[Position]) -> ClangdAnswer:
        """At the first place where there is something; the others where they differ."""
        found: dict[str, Any] | None = None
        others: dict[str, None] = {}
        for position in positions[:ROUNDS]:
            one = answers.hover(await self._ask(position), self.places, position)
            if found is None:
                found = one
            elif one is not None and (other_gist := answers.gist(one)) != answers.gist(found):
                others[other_gist] = None
        if found is not None:
            found["others"] = [{"text": other_gist, "units": []} for other_gist in others if other_gist]
        return ClangdAnswer(found)

    async def _prepare_rename(self, positions: Sequence[Position]) -> ClangdAnswer:
        given = await self._ask(positions[0])
        if not given:
            raise NotForwardedError("there is no name here")
        lines = LineIndex(self.text.text)
        reach = range_from(given.get("range", given))
        text = self.text.text[lines.offset(reach.start) : lines.offset(reach.end)]
        name = answers.name_at(given, self.places, text)
        await self._require_own(positions[0])
        return ClangdAnswer(name)

    async def _require_own(self, position: Position) -> None:
        """Raise NotForwardedError for a name that a header declares: clangd would change it in the text alone."""
        for method in ("textDocument/definition", "textDocument/declaration"):
            listed = await self.supervisor.ask(self.text, method, {"position": to_lsp(position)})
            for path in answers.files(listed):
                raise NotForwardedError(f"{path} would have to be changed too")

    async def _actions(self, positions: Sequence[Position]) -> ClangdAnswer:
        start, end = positions[0], self.request.end
        stop = start if end is None else self.places.forward(position_of(end), Forwarding.EDIT)[0]
        if stop < start:
            start, stop = stop, start
        given = {
            "range": range_to_lsp(Range(start, stop)),
            "context": {"diagnostics": [], "only": ["refactor", "quickfix"], "triggerKind": 1},
        }
        found = []
        for one in await self._ask(None, given) or ():
            command = one if isinstance(one.get("command"), str) else one.get("command")
            change = one.get("edit") or (None if command is None else await self._edit_of(command))
            made = answers.action(one["title"], one.get("kind", "refactor"), change, self.places)
            if made is not None:
                found.append(made)
        return ClangdAnswer(found)

    async def _edit_of(self, command: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return await self.supervisor.edits_of(self.text, command)
        except (ClangdEndedError, OvertakenError):
            raise
        except CkwatchError:
            return None  # it was offered, and cannot be made after all


_Answer = Callable[[Question, Sequence[Position]], Awaitable[ClangdAnswer]]

METHODS: Mapping[CppQuestion, tuple[str, Forwarding, _Answer]] = {
    "hover": ("textDocument/hover", Forwarding.NAVIGATION, Question._hover),
    "completion": ("textDocument/completion", Forwarding.COMPLETION, Question._completion),
    "signatures": ("textDocument/signatureHelp", Forwarding.COMPLETION, Question._signatures),
    "definition": ("textDocument/definition", Forwarding.NAVIGATION, Question._first_locations),
    "type-definition": ("textDocument/typeDefinition", Forwarding.NAVIGATION, Question._first_locations),
    "implementation": ("textDocument/implementation", Forwarding.NAVIGATION, Question._first_locations),
    "references": ("textDocument/references", Forwarding.NAVIGATION, Question._references),
    "highlights": ("textDocument/documentHighlight", Forwarding.NAVIGATION, Question._highlights),
    "symbols": ("textDocument/documentSymbol", Forwarding.NOTHING, Question._symbols),
    "tokens": ("textDocument/semanticTokens/full", Forwarding.NOTHING, Question._tokens),
    "hints": ("textDocument/inlayHint", Forwarding.NOTHING, Question._hints),
    "prepare-rename": ("textDocument/prepareRename", Forwarding.EDIT, Question._prepare_rename),
    "rename": ("textDocument/rename", Forwarding.EDIT, Question._rename),
    "actions": ("textDocument/codeAction", Forwarding.EDIT, Question._actions),
    "prepare-calls": ("textDocument/prepareCallHierarchy", Forwarding.NAVIGATION, Question._prepare_calls),
    "incoming-calls": ("callHierarchy/incomingCalls", Forwarding.NOTHING, Question._calls),
    "outgoing-calls": ("callHierarchy/outgoingCalls", Forwarding.NOTHING, Question._calls),
}
"""clangd's methods, the kind of question that the piece of text must forward, and what becomes of the answer."""


def position_of(given: Place) -> Position:
    """A place of a request."""
    return Position(given.line, given.character)
