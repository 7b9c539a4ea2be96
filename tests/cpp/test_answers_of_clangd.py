"""The rows of `answers/*.toml`, asked of the real clangd by the client of a daemon: one for each table."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import ckwatch_templates
from ckwatch.client.blocking import SyncClient, connect_sync
from ckwatch.cpp.places import path_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import Position
from ckwatch.wire.cpp import ABOUT_CALL, CppAnswer
from ckwatch.workspace.trust import trust
from helpers.cpp_answers import RENDERED, Judging, Row, Table, cursors, says, tables
from helpers.cuda_wheels import cuda_packages

ROOT = Path(__file__).parent.parent.parent
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]


@dataclass(frozen=True, slots=True)
class Opened:
    """A table's workspace, and the client of its daemon."""

    root: Path
    client: SyncClient

    def path(self, file: str) -> Path | None:
        """Of a template or kernel file; None for the rendered source."""
        if file == RENDERED:
            return None
        own = self.root / (f"templates/{file}" if file.endswith(".j2") else file)
        return own if own.exists() else ckwatch_templates.ROOT / file

    def judge(self, row: Row) -> list[str]:
        """Ask, and say what is wrong with the answer."""
        unsaved: dict[str, str] = {}
        for edit in row.unsaved:
            path = str(self.path(edit.file))
            text = unsaved.get(path) or _text(path)
            assert text.count(edit.old) == 1, f"stands {text.count(edit.old)} times in {edit.file}: {edit.old}"
            unsaved[path] = text.replace(edit.old, edit.new)

        def texts(path: str) -> str:
            if path:
                return unsaved.get(path) or _text(path)
            assert row.unit is not None
            return self.client.rendered(row.unit).text or ""

        asked = self.path(row.file)
        with ExitStack() as stack:
            for path, text in unsaved.items():
                stack.enter_context(self.client.overlay(path, text))
            if unsaved:
                self.client.sync()
            name = "" if asked is None else str(asked)
            start, end = cursors(texts(name), row.at) if row.at else (None, None)
            if row.then:
                assert start is not None
                cpp = self.client.client.cpp
                found = self.client.loop.run(
                    partial(cpp.definition, asked, start.line, start.column, unit=row.unit, side=row.side)
                )
                assert found, "there is no definition"
                name = path_of(found[0]["uri"]) or ""
                asked = Path(name)
                start, end = cursors(texts(name), row.then)
            try:
                answer = self._ask(row, asked, start, end)
            except CkwatchError as error:
                return [] if row.raises and says(row.raises, error.message) else [f"it raises {error.message}"]
            wrong = Judging(row, answer, name, texts).judge()
            digest = hashlib.sha256(texts(name).encode()).hexdigest()
            is_made_of_it = not row.then and not row.reason and not row.file.endswith(".toml")
            if answer.digest not in ("", digest) or (is_made_of_it and not answer.digest):
                wrong.append(f"the answer is about another text of {row.file}")
            if row.raises:
                wrong.append(f"it does not raise {row.raises}")
            return wrong

    def _ask(self, row: Row, asked: Path | None, start: Position | None, end: Position | None) -> CppAnswer:
        ask = partial(
            self.client.client.cpp.ask,
            "prepare-calls" if row.ask in ABOUT_CALL else row.ask,
            asked,
            None if start is None else start.line,
            0 if start is None else start.column,
            end=None if end is None else (end.line, end.column),
            unit=row.unit,
            side=row.side,
            trigger=row.trigger,
            name=row.new_name,
            others=row.others,
        )
        answer = self.client.loop.run(ask)
        if row.ask not in ABOUT_CALL:
            return answer
        assert len(answer.result) == 1, f"one function stands there, not {answer.result}"
        return self.client.loop.run(partial(self.client.client.cpp.ask, row.ask, None, call=answer.result[0]["data"]))


def _text(path: str) -> str:
    return Path(path).read_bytes().decode("utf-8")


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The workspace of the table that is asked for."""
    table: Table = request.param
    root = tmp_path_factory.mktemp("answers") / "workspace ü"
    root.mkdir()
    for kernel in table.examples:
        shutil.copy(ROOT / "examples" / kernel, root)
    for name in table.own:
        own = root / "templates" / name
        own.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ckwatch_templates.ROOT / name, own)
    for name, text in table.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace("\n", "\r\n" if name in table.crlf else "\n").encode())
    trust(root)
    with pytest.MonkeyPatch.context() as patch:
        if table.needs == "cuda":
            packages = cuda_packages()
            patch.syspath_prepend(packages)
            patch.setenv("CUDA_HOME", str(next(packages.glob("nvidia/cu*"))))
        with connect_sync(root, private=True) as client:
            yield Opened(root, client)


def _rows() -> Iterator[object]:
    for table in tables():
        for row in table.row:
            marks = [pytest.mark.xfail(reason=row.fails)] if row.fails else []
            yield pytest.param(table, row, id=f"{table}: {row}", marks=marks)


@pytest.mark.parametrize(("opened", "row"), list(_rows()), indirect=["opened"], scope="module")
def test_the_answer_is_that_of_the_row(opened: Opened, row: Row) -> None:
    wrong = opened.judge(row)
    place = f"{row.ask} in {row.file} at\n    {row.at or 'the whole'}{' → ' if row.then else ''}{row.then}"
    assert not wrong, "\n".join([f"{row.name}: {place}", *wrong])
