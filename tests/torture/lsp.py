"""Messages of all kinds to the language server, and random edits against a model of the text.

Every request must have one answer, none an internal error; nothing may be logged as an error; the server goes on, and
ends when it is asked to. The server's text must be the model's, which counts in the units of the editor's encoding.
"""

from __future__ import annotations

import json
import logging
import random
import re
from pathlib import Path
from typing import Any

import anyio
from lsprotocol import types

from ckwatch_lsp.session.documents import TextDocument
from lsp.editing import ALL, Editor, copy_of, editor, lasting
from torture.rounds import Rounds

REQUESTS = (
    *("hover", "completion", "signatureHelp", "definition", "references", "rename", "prepareRename"),
    *("documentHighlight", "documentSymbol", "foldingRange", "documentLink", "codeLens", "inlayHint", "codeAction"),
    *("selectionRange", "semanticTokens/full", "semanticTokens/range", "diagnostic", "formatting", "nothing"),
)
OTHERS = (
    *("workspace/symbol", "shutdow", "workspace/diagnostic", "$/unknown", "initialize", "", "completionItem/resolve"),
    *("workspace/textDocumentContent", "codeLens/resolve", "inlayHint/resolve", "workspace/executeCommand", "__init__"),
)
NOTIFICATIONS = (
    *("textDocument/didOpen", "textDocument/didChange", "textDocument/didClose", "textDocument/didSave", "$/setTrace"),
    *("workspace/didChangeConfiguration", "workspace/didChangeWatchedFiles", "workspace/didChangeWorkspaceFolders"),
    *("window/workDoneProgress/cancel", "$/cancelRequest", "$/progress", "initialized", "nothing", "ckwatch/units"),
)
COMMANDS = (
    *("ckwatch.units", "ckwatch.openSource", "ckwatch.document", "ckwatch.toGenerated", "ckwatch.toTemplate"),
    *("ckwatch.chooseInstance", "ckwatch.cancel", "ckwatch.none", ""),
)
PIECES = (
    *("{{ ", " }}", "{% macro m(a) %}", "{% endmacro %}", "{% for i in", "{#", "#}", "[[instance]]\n", '"""', "\r", "\r\n"),
    *("MPerBlock = 12", "\n", "é𝒳", "\0", "\ud800", "a.b|c(", "{% include 'x' %}", "= [1, 2", "'", "{% endblock %}", "\u2028"),
    *("(" * 500, "[" * 500, "{{" * 300, "a." * 500, "x" * 20_000, "\u202e", "[a]\n" * 300),
)  # fmt: skip
HUGE = (
    *("x" * 3_000_000, "{{" * 200_000, "[" * 200_000, "a." * 200_000, "[[instance]]\n" * 20_000, "{% if x %}" * 20_000),
    *("{{ u }}\n" * 50_000, "x = 1\n" * 50_000, "é𝒳\n" * 100_000, '"' * 500_000, "\r" * 300_000),
)
JUNK: tuple[Any, ...] = (
    *(
        None,
        0,
        -1,
        2**40,
        2**31 - 1,
        1.5,
        "",
        "x",
        [],
        {},
        [None],
        {"line": 1},
        True,
        "\ud800",
        1e308,
        [[[[[]]]]],
        -(2**70),
    ),
)
FRAMES = (
    *(b"Content-Length: x\r\n\r\n", b"Content-Length: -5\r\n\r\n", b"X: y\r\n\r\n", b"Content-Length: 99999999999999999\r\n\r\n"),
    *(b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n", b"Content-Length: 0\r\n\r\n", b"\r\n\r\n", b"Content-Length: 4\r\n\r\nnull"),
    *(b"Content-Length: 2\r\n\r\n\xff\xfe", b"Content-Length: 5\r\n\r\n[[[[[", b"Content-Length: 9\r\n\r\n{\"id\": 1}", b"garbage\r\n\r\n"),
    *(b"Content-Length: 20000\r\n\r\n" + b"[" * 20_000, b"Content-Length: 5000\r\n\r\n" + b"9" * 5000, b"Content-Length: 2\r\n\r\n{}"),
)  # fmt: skip
HUGE_SHARE = 0.01
MESSAGES = 60
INTERNAL_ERROR = -32603


class Chaos:
    """Sends what comes to mind."""

    def __init__(self, made: Editor, root: Path, chance: random.Random) -> None:
        self.made = made
        self.chance = chance
        self.uris = [
            *(path.as_uri() for path in sorted(root.iterdir()) if path.suffix == ".toml"),
            (root / "templates/new.hip.j2").as_uri(),
            "untitled:new.hip.j2",
            "ckwatch://source/gemm_f16/x@gfx942.hip?folder=/x",
            "file:///no/such/file.kernel.toml",
        ]
        self.texts = {path.as_uri(): path.read_text() for path in root.iterdir() if path.suffix == ".toml"}
        self.asked: list[int] = []
        self.sent: list[object] = []

    def junk(self, depth: int = 0) -> Any:
        """Any JSON."""
        match self.chance.randrange(4 if depth < 3 else 2):
            case 0 | 1:
                return self.chance.choice(JUNK)
            case 2:
                return [self.junk(depth + 1) for _ in range(self.chance.randrange(3))]
            case _:
                names = (
                    "textDocument",
                    "uri",
                    "position",
                    "range",
                    "start",
                    "line",
                    "character",
                    "contentChanges",
                    "context",
                )
                return {self.chance.choice(names): self.junk(depth + 1) for _ in range(self.chance.randrange(4))}  # fmt: skip

    def position(self) -> Any:
        """A place, often outside of the text."""
        if self.chance.random() < 0.05:
            return self.chance.choice(JUNK)
        return {"line": self.chance.choice((0, 3, 20, 60, 10**6)), "character": self.chance.choice((0, 4, 17, 10**6))}

    def range(self) -> Any:
        """Two places in any order."""
        return {"start": self.position(), "end": self.position()}

    def text(self) -> str:
        """Something to type, or to paste."""
        if self.chance.random() < HUGE_SHARE:
            return self.chance.choice(HUGE)
        return "".join(self.chance.choices(PIECES, k=self.chance.randrange(8)))

    def damaged(self, value: Any) -> Any:
        """`value`, with a part of it replaced or missing, now and then."""
        if self.chance.random() > 0.06:
            if isinstance(value, dict):
                found = {name: self.damaged(one) for name, one in value.items()}
                if found and self.chance.random() < 0.02:
                    found.pop(self.chance.choice(list(found)))
                return found
            return [self.damaged(one) for one in value] if isinstance(value, list) else value
        return self.junk()

    async def step(self) -> None:
        """One message."""
        chance, uri = self.chance, self.chance.choice(self.uris)
        document: Any = {"uri": uri, "version": chance.randrange(100)}
        match chance.randrange(15):
            case 0:
                text = self.texts.get(uri, "") + self.text()
                item = {"uri": uri, "languageId": "", "version": 1, "text": text}
                await self.tell("textDocument/didOpen", self.damaged({"textDocument": item}))
            case 1:
                await self.tell("textDocument/didClose", self.damaged({"textDocument": document}))
            case 2:
                await self.tell("textDocument/didSave", self.damaged({"textDocument": document}))
            case 3 | 4 | 5:
                changes: list[Any] = [{"range": self.range(), "text": self.text()} for _ in range(chance.randrange(3))]
                if chance.random() < 0.2:
                    changes.append({"text": self.text()})
                params = {"textDocument": document, "contentChanges": changes}
                await self.tell("textDocument/didChange", self.damaged(params))
            case 6:
                unit = chance.choice((None, "gemm_f16/*", 7, "x"))
                argument = self.damaged({"uri": uri, "position": self.position(), "unit": unit})
                await self.ask(
                    "workspace/executeCommand", {"command": chance.choice(COMMANDS), "arguments": [argument]}
                )
            case 7:
                await self.tell("$/cancelRequest", {"id": chance.choice([*self.asked[-3:], "none"])})
            case 8:
                params = chance.choice(({"query": "v3"}, {"previousResultIds": []}, *JUNK))
                await self.ask(chance.choice(OTHERS), params)
            case 9:
                await self.tell(chance.choice(NOTIFICATIONS), self.junk())
            case 10:
                frame = chance.choice(FRAMES)
                self.sent.append(frame[:100])
                await self.made.send_bytes(frame)
            case 11:
                await self.ask(f"textDocument/{chance.choice(REQUESTS)}", self.junk())
            case _:
                params = {
                    "textDocument": document,
                    "position": self.position(),
                    "positions": [self.position()],
                    "range": self.range(),
                    "context": {"diagnostics": [], "includeDeclaration": True},
                    "newName": chance.choice(("name", "", "1", "for")),
                    "options": {"tabSize": 2, "insertSpaces": True},
                }
                await self.ask(f"textDocument/{chance.choice(REQUESTS)}", self.damaged(params))

    async def tell(self, method: str, params: Any) -> None:
        """A notification."""
        self.sent.append({"method": method, "params": params})
        await self.made.notify(method, params)

    async def ask(self, method: str, params: Any) -> None:
        """A request."""
        self.sent.append({"method": method, "params": params})
        self.asked.append(await self.made.ask(method, params))


class Problems(logging.Handler):
    """Return the errors of the log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Called by the logger."""
        self.found.append(self.format(record))


def run(rounds: Rounds) -> None:
    """Until its time is over."""
    anyio.run(_run, rounds)


async def _run(rounds: Rounds) -> None:
    problems = Problems()
    loggers = [logging.getLogger(name) for name in ("ckwatch_lsp", "asyncio")]
    for logger in loggers:
        logger.addHandler(problems)
    (rounds.folder / "lsp").mkdir()
    try:
        root = await anyio.to_thread.run_sync(copy_of, "gemm", rounds.folder / "lsp")
        settings = root / "ckwatch.toml"
        settings.write_text(f"{settings.read_text()}\n[daemon]\nidle_exit_s = 5\n")  # one that starts last ends, too
        async with Lasting(root):
            for chance in rounds:
                if chance.random() < 0.7:
                    with rounds.watched():
                        edit_at_random(rounds, chance)
                    await anyio.lowlevel.checkpoint()
                    continue
                await rounds.watch(converse(rounds, root, chance))
                found, problems.found = problems.found, []
                if found:
                    rounds.add("\n".join(found))
    finally:
        for logger in loggers:
            logger.removeHandler(problems)


class Lasting:
    """A workspace whose daemon the first editor starts."""

    def __init__(self, root: Path) -> None:
        self._context = lasting(root)

    async def __aenter__(self) -> None:
        self._context.__enter__()

    async def __aexit__(self, *_: object) -> None:
        await anyio.to_thread.run_sync(self._context.__exit__, None, None, None)


async def converse(rounds: Rounds, root: Path, chance: random.Random) -> None:
    """A server, some messages, and what it answers."""
    encoding = chance.choice(("utf-8", "utf-16", "utf-32"))
    able = ALL | {"general": {"positionEncodings": [encoding]}}
    if chance.random() < 0.5:
        able = {"textDocument": {"diagnostic": {}}, "general": {"positionEncodings": [encoding]}}
    async with editor(root, able=able) as made:
        chaos = Chaos(made, root, chance)
        for _ in range(MESSAGES):
            await chaos.step()
            rounds.using("\n".join(map(_shown, chaos.sent)))
        for number in chaos.asked:
            answer = await made.answer(number)
            assert ("result" in answer) != ("error" in answer), answer
            assert answer.get("error", {}).get("code") != INTERNAL_ERROR, answer
        assert not made.ended


def _shown(message: object) -> str:
    return repr(message) if isinstance(message, bytes) else json.dumps(message)


TYPED = (
    *"ab{}%\n\n\r",
    "\r\n",
    "\r\n",
    "é",
    "𝒳",
    "😀",
    "e\u0301",
    "\u2028",
    "\0",
    "\ufeff",
    "{{ x }}\n",
    "line\nline\n",
    "",
)
ENCODINGS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
EDITS = 40


class Model:
    """A text as code units, and the places that an editor may name."""

    def __init__(self, text: str, encoding: str) -> None:
        self.codec, self.width = ENCODINGS[encoding]
        self.units = [text[i].encode(self.codec) for i in range(len(text))]

    @property
    def text(self) -> str:
        """The text."""
        return b"".join(self.units).decode(self.codec)

    def offset(self, line: int, units: int) -> int:
        """The character at a place; one past the end of a line is at its end, one past the last line at the text's."""
        starts = [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", self.text))]
        if line >= len(starts):
            return len(self.units)
        at = starts[line]
        end = starts[line + 1] if line + 1 < len(starts) else len(self.units)
        while at < end and self.units[at].decode(self.codec) not in "\r\n":
            width = len(self.units[at]) // self.width
            if units < width:
                return at
            units -= width
            at += 1
        return at

    def replace(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        """As the editor does."""
        first, last = sorted((self.offset(*start), self.offset(*end)))
        self.units[first:last] = [one.encode(self.codec) for one in text]


def edit_at_random(rounds: Rounds, chance: random.Random) -> None:
    """Edit a document and the model of it."""
    encoding = chance.choice(list(ENCODINGS))
    text = "".join(chance.choices(TYPED, k=chance.randrange(60)))
    model = Model(text, encoding)
    document = TextDocument("file:///w/a.hip.j2", text, 1, encoding)
    made: list[object] = [encoding, text]
    for version in range(2, EDITS):
        changes: list[types.TextDocumentContentChangeEvent] = []
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            new = "".join(chance.choices(TYPED, k=chance.randrange(6)))
            if chance.random() < 0.03:
                model = Model(new, encoding)
                changes.append(types.TextDocumentContentChangeWholeDocument(new))
                made.append(new)
                continue
            line = chance.randrange(document.line_count + 2)
            start = (line, chance.choice((0, 1, 2, 3, 5, 8, 10**6)))
            end = (line + chance.choice((0, 0, 0, 1, 2, 50)), chance.choice((0, 1, 2, 3, 5, 8, 2**31 - 1)))
            model.replace(start, end, new)
            places = types.Range(types.Position(*start), types.Position(*end))
            changes.append(types.TextDocumentContentChangePartial(places, new))
            made.append((start, end, new))
        rounds.using(json.dumps(made))
        document.change(changes, version)
        assert document.text == model.text, f"{document.text!r}, not {model.text!r}"
        fresh = TextDocument(document.uri, model.text, version, encoding)
        assert list(document.codec.lines) == list(fresh.codec.lines)
        assert document.codec.lone_returns == fresh.codec.lone_returns
