"""One question about one text: what clangd is asked for it, and the answer with its places in the asked file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from ckwatch.cpp import answers
from ckwatch.cpp.clangd import ClangdEndedError, ClangdRefusalError, LentText, OvertakenError
from ckwatch.cpp.mappings import Forwarding, NotForwardedError
from ckwatch.cpp.places import Places, range_from, range_to_lsp, to_lsp
from ckwatch.cpp.supervisor import ClangdSupervisor
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import LineIndex, Position, Range
from ckwatch.wire.cpp import AboutCall, CppAction, CppAnswer, CppHover, CppQuestion, CppRequest, OtherValue, Place

METHODS: Mapping[CppQuestion, tuple[str, Forwarding]] = {
    "hover": ("textDocument/hover", Forwarding.NAVIGATION),
    "completion": ("textDocument/completion", Forwarding.COMPLETION),
    "signatures": ("textDocument/signatureHelp", Forwarding.COMPLETION),
    "definition": ("textDocument/definition", Forwarding.NAVIGATION),
    "type-definition": ("textDocument/typeDefinition", Forwarding.NAVIGATION),
    "implementation": ("textDocument/implementation", Forwarding.NAVIGATION),
    "references": ("textDocument/references", Forwarding.NAVIGATION),
    "highlights": ("textDocument/documentHighlight", Forwarding.NAVIGATION),
    "symbols": ("textDocument/documentSymbol", Forwarding.NOTHING),
    "tokens": ("textDocument/semanticTokens/full", Forwarding.NOTHING),
    "hints": ("textDocument/inlayHint", Forwarding.NOTHING),
    "prepare-rename": ("textDocument/prepareRename", Forwarding.EDIT),
    "rename": ("textDocument/rename", Forwarding.EDIT),
    "actions": ("textDocument/codeAction", Forwarding.EDIT),
    "prepare-calls": ("textDocument/prepareCallHierarchy", Forwarding.NAVIGATION),
    "incoming-calls": ("callHierarchy/incomingCalls", Forwarding.NOTHING),
    "outgoing-calls": ("callHierarchy/outgoingCalls", Forwarding.NOTHING),
}
"""What clangd is asked, and what has to be forwarded through the piece of text that is asked about."""

FROM_ALL_TEXTS = frozenset({"implementation", "incoming-calls", "outgoing-calls"})
"""What clangd answers from all texts that it has read, and says of each function where one of them has it. Of
references and renames what it finds in the asked text is known by itself, and the rest is left out."""

ROUNDS = 4
"""Rounds of a loop, or calls of a macro, that clangd is asked about."""

INVOKED, BY_CHARACTER = 1, 2
"""Why a completion is asked for (`CompletionTriggerKind`)."""

CLANGD_TRIGGERS = frozenset('.<>:"/*')


@dataclass(frozen=True, slots=True)
class Question:
    """A request, the text that clangd is asked about, and its places. `about` is what `CppCall.data` holds besides the
    function, to find the text again."""

    request: CppRequest
    text: LentText
    places: Places
    supervisor: ClangdSupervisor
    about: Mapping[str, Any]

    def positions(self) -> list[Position]:
        """Where clangd is asked; none for questions about the whole text. Raises NotForwardedError."""
        start = self.request.start
        need = METHODS[self.request.question][1]
        return [] if start is None or not need else self.places.forward(_place(start), need)

    async def answer(self) -> CppAnswer:
        """The answer. Raises NotForwardedError, OvertakenError, and CkwatchError for what clangd refuses."""
        positions = self.positions()
        first = positions[0] if positions else Position(0, 0)
        question = self.request.question
        match question:
            case "hover":
                return CppAnswer(hover=await self._hover(positions))
            case "completion":
                listed = await self._ask(first, self._context())
                found = await to_thread.run_sync(answers.completions, listed, self.places, first)
                return CppAnswer.model_construct(completions=found)
            case "signatures":
                return CppAnswer(signatures=answers.signatures(await self._ask(first)))
            case "definition" | "type-definition" | "implementation":
                for position in positions[:ROUNDS]:
                    found_at = answers.locations(await self._ask(position), self.places)
                    if found_at:
                        return CppAnswer(locations=found_at)
                return CppAnswer()
            case "references":
                listed = await self._ask(first, {"context": {"includeDeclaration": True}})
                return CppAnswer(locations=answers.locations(listed, self.places))
            case "highlights":
                marked = [one for position in positions[:ROUNDS] for one in await self._ask(position) or ()]
                return CppAnswer(highlights=answers.highlights(marked, self.places))
            case "symbols":
                listed = await self._ask(None)
                return CppAnswer(symbols=await to_thread.run_sync(answers.symbols, listed, self.places))
            case "tokens":
                return await self._tokens()
            case "hints":
                whole = {"range": range_to_lsp(self._whole)}
                listed = await self._ask(None, whole)
                return CppAnswer(hints=await to_thread.run_sync(answers.hints, listed, self.places, self._asked_range))
            case "prepare-rename":
                return await self._prepare_rename(first)
            case "rename":
                changed = await self._renamed(first)
                edits = answers.edits(changed, self.places)
                await self._require_own(first)
                return CppAnswer(edits=edits)
            case "actions":
                return CppAnswer(actions=await self._actions(first))
            case "prepare-calls":
                items = [(item, self.text.uri, ()) for item in await self._ask(first) or ()]
                return CppAnswer(calls=answers.calls(items, self.places, self.about))
            case "incoming-calls" | "outgoing-calls":
                return await self._calls(question == "incoming-calls")

    async def _ask(self, position: Position | None, more: Mapping[str, Any] | None = None) -> Any:
        where = {} if position is None else {"position": to_lsp(position)}
        question = self.request.question
        ask = self.supervisor.ask_alone if question in FROM_ALL_TEXTS else self.supervisor.ask
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
            raise ClangdRefusalError(answers.in_own_words(error.message, self.places)) from error

    def _context(self) -> Mapping[str, Any]:
        """clangd completes behind `>` and `:` only where they are the ends of `->` and `::`."""
        trigger = self.request.trigger
        if trigger not in CLANGD_TRIGGERS or not trigger:
            return {"context": {"triggerKind": INVOKED}}
        return {"context": {"triggerKind": BY_CHARACTER, "triggerCharacter": trigger}}

    async def _hover(self, positions: Sequence[Position]) -> CppHover | None:
        """At the first place where there is something; the others where they differ."""
        found: CppHover | None = None
        others: dict[str, None] = {}
        for position in positions[:ROUNDS]:
            one = answers.hover(await self._ask(position), self.places, position)
            if found is None:
                found = one
            elif one is not None and (said := answers.gist(one.markdown)) != answers.gist(found.markdown):
                others[said] = None
        if found is None:
            return None
        elsewhere = tuple(OtherValue(text=said, units=()) for said in others if said)
        return found.model_copy(update={"others": elsewhere})

    async def _tokens(self) -> CppAnswer:
        clangd = await self.supervisor.ready()
        result = await self._ask(None)
        legend = (clangd.token_types, clangd.token_modifiers)
        found = await to_thread.run_sync(answers.tokens, result, self.places, *legend)
        return CppAnswer.model_construct(tokens=found)

    async def _prepare_rename(self, position: Position) -> CppAnswer:
        given = await self._ask(position)
        if not given:
            raise NotForwardedError("there is no name here")
        lines = LineIndex(self.text.text)
        reach = range_from(given.get("range", given))
        text = self.text.text[lines.offset(reach.start) : lines.offset(reach.end)]
        name = answers.name_at(given, self.places, text)
        await self._require_own(position)
        return CppAnswer(name=name)

    async def _require_own(self, position: Position) -> None:
        """Raise NotForwardedError for a name that a header declares: clangd would change it in the text alone."""
        for method in ("textDocument/definition", "textDocument/declaration"):
            listed = await self.supervisor.ask(self.text, method, {"position": to_lsp(position)})
            for path in answers.files(listed):
                raise NotForwardedError(f"{path} would have to be changed too")

    async def _actions(self, start: Position) -> tuple[CppAction, ...]:
        end = self.request.end
        stop = start if end is None else self.places.forward(_place(end), Forwarding.EDIT)[0]
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
        return tuple(found)

    async def _edit_of(self, command: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return await self.supervisor.edits_of(self.text, command)
        except (ClangdEndedError, OvertakenError):
            raise
        except CkwatchError:
            return None  # it was offered, and cannot be made after all

    async def _calls(self, incoming: bool) -> CppAnswer:
        item = self.about["item"]
        about = {name: value for name, value in self.about.items() if name != "item"}
        side = "from" if incoming else "to"
        listed = [
            (one[side], one["from"]["uri"] if incoming else item["uri"], one["fromRanges"])
            for one in await self._ask(None, {"item": item}) or ()
        ]
        return CppAnswer(calls=answers.calls(listed, self.places, about))

    @property
    def _asked_range(self) -> Range | None:
        """The range of the asked file that is meant, if one is given."""
        start, end = self.request.start, self.request.end
        return None if start is None or end is None else Range(_place(start), _place(end))

    @property
    def _whole(self) -> Range:
        lines = LineIndex(self.text.text)
        return Range(Position(0, 0), lines.position(lines.length))


def about_call(data: str) -> Mapping[str, Any]:
    """What a `CppCall` holds of its own, by name. Raises CkwatchError for anything else."""
    try:
        found = AboutCall.model_validate_json(data)
    except ValueError as error:
        raise CkwatchError("`call` is not the data of a CppCall") from error
    return {"unit": found.unit, "side": found.side, "path": found.path, "item": found.item}


def _place(given: Place) -> Position:
    return Position(given.line, given.column)
