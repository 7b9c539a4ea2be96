"""Every request at every position of odd texts: no feature meets what it did not expect."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lsprotocol import types
from lsprotocol.converters import get_converter

from ckwatch.client import Client
from ckwatch.engine.queries.language_vocabulary import hooks, kernel_file_keys, settings_keys
from ckwatch.model.errors import CkwatchError
from ckwatch.model.topics import Topic
from ckwatch.wire.cpp import CppAnswer, CppQuestion
from ckwatch.wire.language import ParameterDetail, ParameterValue, TemplateDetail, TemplateName, Vocabulary
from ckwatch.wire.state import Change
from ckwatch_lsp.protocol.client_capabilities import capabilities_of
from ckwatch_lsp.protocol.server import RequestFailedError
from ckwatch_lsp.protocol.uris import uri_of
from ckwatch_lsp.session.folders import ConnectionState, WorkspaceFolder
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.setup import set_up
from ckwatch_lsp.virtual_documents.store import VirtualFiles
from lsp.editing import ALL
from lsp.fake_editor import FakeEditor
from lsp.figures.made_up import figures, timing, unit

ROOT = Path("/ws")
PARAMETER = ParameterDetail(name="a", kind="integer", doc="", values=("1", "2"), rules=(), default=None)
NAMES = itertools.count()


class KnownCpp:
    """Has an answer to every question about C++, at places that may be in no text."""

    async def ask(
        self, question: CppQuestion, _path: str | None, line: int | None = None, column: int = 0, **_named: object
    ) -> CppAnswer:
        line = line or 0
        start, end = {"line": line, "character": column}, {"line": line + 1, "character": column + 5}
        reach = {"start": start, "end": end}
        place = {"uri": "file:///ws/k.hip.j2", "range": reach}
        inner = {"name": "x", "kind": 5, "range": reach, "selectionRange": reach, "children": []}
        call = {"name": question, "kind": 12, **place, "selectionRange": reach, "data": {"item": {}}}
        edit = {"range": reach, "newText": "x($1)"}
        result = {
            "hover": {"contents": {"value": "x"}, "range": reach, "produced": "`", "others": []},
            "completion": {
                "isIncomplete": False, "items": [{"label": "x", "insertTextFormat": 2, "textEdit": edit}],
            },
            "signatures": {"signatures": [{"label": "é", "parameters": [{"label": [0, 9]}]}]},
            "highlights": [{"range": reach}],
            "symbols": [{**inner, "children": [inner]}],
            "tokens": [[line, column, 3, "class", ["static", "odd"]], [line, column, 3, "odd", []]],
            "hints": [{"position": start, "label": "x", "kind": 9}],
            "prepare-rename": {"placeholder": "x", "range": reach},
            "rename": {"changes": {"file:///ws/k.hip.j2": [edit]}},
            "actions": [{"title": "x", "kind": "odd", "disabled": {"reason": "no"}}],
            "prepare-calls": [call],
            "incoming-calls": [{"from": call, "fromRanges": [reach]}],
            "outgoing-calls": [{"to": call, "fromRanges": [reach]}],
        }.get(question, [place])  # fmt: skip
        return CppAnswer(unit="k/one@gfx942", result=result)


class KnownClient:
    """Answers what needs no files; everything else cannot be answered."""

    async def vocabulary(self) -> Vocabulary:
        return Vocabulary(
            hooks=hooks(), filters=(), tests=(), globals=(), tags=(), kernel_file=kernel_file_keys(),
            settings=settings_keys(),
        )  # fmt: skip

    async def templates(self) -> list[TemplateName]:
        return [TemplateName(name="k.hip.j2", path="/ws/k.hip.j2")]

    async def template(self, *_arguments: object, **_named: object) -> TemplateDetail:
        return TemplateDetail(name="k.hip.j2", path="/ws/k.hip.j2", files={}, parameters=(PARAMETER,))

    async def values(self, *_arguments: object, **_named: object) -> list[ParameterValue]:
        return [ParameterValue(value=1, accepted=True), ParameterValue(value=2, accepted=False, refused_by=("r",))]

    @property
    def cpp(self) -> KnownCpp:
        return KnownCpp()

    async def readers_of(self, paths: Iterable[str]) -> dict[str, list[str]]:
        return {path: ["k/one@gfx942"] for path in paths}

    def __getattr__(self, name: str) -> Any:
        async def refuse(*_arguments: object, **_named: object) -> None:
            raise CkwatchError(f"{name} is not known")

        return refuse


class Asker:
    """A session with all features. `problems` is what they did not expect."""

    def __init__(self, session: Session, editor: FakeEditor) -> None:
        self.session = session
        self.editor = editor
        self.problems: list[str] = []

    async def ask_everywhere(self, suffix: str, text: str) -> None:
        """Open such a document, ask, and close it. Raises AssertionError for what was not expected."""
        uri = uri_of(ROOT / f"n{next(NAMES)}{suffix}")
        self.session.opened(types.TextDocumentItem(uri, "", 1, text))
        lines = self.session.documents[uri].codec.lines
        places = [types.Position(line, column) for line, held in enumerate(lines) for column in range(len(held) + 1)]
        end = types.Position(len(lines), 0)
        for method, (answer, _) in self.editor.requests.items():
            if not method.startswith("textDocument/") or method.startswith("textDocument/did"):
                continue
            kind: Any = types.METHOD_TO_TYPES[method][2]
            fields = {each.name for each in kind.__attrs_attrs__}
            for place in [*places, end]:
                here = types.Range(place, place)
                diagnostic = types.Diagnostic(here, "", code="rule/r")
                context = SimpleNamespace(
                    trigger_character=None, include_declaration=True, diagnostics=[diagnostic], only=None
                )
                known = {
                    "text_document": types.TextDocumentIdentifier(uri), "position": place, "positions": [place],
                    "range": here, "ranges": [here], "ch": "\n", "context": context,
                    "options": types.FormattingOptions(4, insert_spaces=True), "new_name": "b", "previous_result_id": None,
                }  # fmt: skip
                try:
                    await answer(SimpleNamespace(**{name: one for name, one in known.items() if name in fields}))
                except RequestFailedError:
                    continue
                except Exception as error:
                    error.add_note(f"{method} at {place.line}:{place.character} of {text!r}")
                    raise
                assert not self.problems, (method, place, text, self.problems)
                if method in WHOLE:
                    break
        self.session.closed(uri)


WHOLE = {
    *(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, types.TEXT_DOCUMENT_FOLDING_RANGE, types.TEXT_DOCUMENT_DOCUMENT_LINK),
    *(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, types.TEXT_DOCUMENT_CODE_LENS, types.TEXT_DOCUMENT_FORMATTING),
}
"""About no position."""


@asynccontextmanager
async def opened() -> AsyncIterator[Asker]:
    async with anyio.create_task_group() as tasks:
        able: types.ClientCapabilities = get_converter().structure(ALL, types.ClientCapabilities)
        editor = FakeEditor(capabilities_of(able, "utf-16"))
        session = Session(tasks, lambda _path: None)
        set_up(session, VirtualFiles(), editor, types.InitializeParams(able))
        folder = session.folders[ROOT] = WorkspaceFolder(ROOT, session.on_daemon_change)
        folder.client = cast("Client", KnownClient())
        folder.connection = ConnectionState.BROKEN  # it has no texts to wait for
        one = unit(timings=(timing(),), figures=figures())
        folder._take(Change(seq=0, topic=Topic(f"unit/{one.id}"), state=one))
        session.on_daemon_change(folder, Topics({f"unit/{one.id}", "units", "connection"}))
        asker = Asker(session, editor)

        class Heard(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if record.levelno >= logging.ERROR:
                    asker.problems.append(self.format(record))

        heard = Heard()
        logging.getLogger("ckwatch_lsp").addHandler(heard)
        yield asker
        logging.getLogger("ckwatch_lsp").removeHandler(heard)
        tasks.cancel_scope.cancel()


Asked = tuple[BlockingPortal, Asker]


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(opened()) as asker:
        yield portal, asker


def texts(words: str, *others: str) -> st.SearchStrategy[str]:
    """Texts of such words and other pieces."""
    return st.lists(st.sampled_from([*words.split(), *others]), max_size=9).map("".join)


TOML = texts(
    '= [ ] { } [[ ]] " \' """ , . # 1 é𝒳 - [[a.b]] template name a defaults instance sweep parameters base where shape '
    "header operation kind custom tensor",
    *("\n", "\n", " ", "\r\n", "\0", "\t", '"one"', "[[instance]]\nname = ", "[defaults]\na = ", "same_as = "),
    *("[sweep.parameters]\n", "a = [1, 2]\n", "[operation.tensors]\n"),
)


@settings(max_examples=50, deadline=None)
@given(TOML, st.sampled_from([".kernel.toml", "/ckwatch.toml"]))
@example("= 5", ".kernel.toml")
@example("=", "/ckwatch.toml")
@example(".a", ".kernel.toml")
@example("[[instance]]\n= 5", ".kernel.toml")
@example("[defaults]\n[]= {=", ".kernel.toml")
@example("[sweep]\nparameters = { = 1, .b = [", ".kernel.toml")
def test_any_toml(asked: Asked, text: str, suffix: str) -> None:
    asked[0].call(asked[1].ask_everywhere, suffix, text)


JINJA = texts(
    "{{ }} {% %} {# #} -%} ' \" ( ) [ ] | . , = é𝒳",
    *("\n", " ", "\r\n", "\0", " a ", " if ", " for ", " in ", " endif ", " set ", " macro m(", " endmacro "),
    *(" block ", " import 'x' as y", "{{ a | default(", "{% include 'x", "{% raw %}", " def_kernel("),
    *("{% call ", "{% else %}"),
)


@settings(max_examples=20, deadline=None)
@given(JINJA)
def test_any_template(asked: Asked, text: str) -> None:
    asked[0].call(asked[1].ask_everywhere, ".hip.j2", text)
