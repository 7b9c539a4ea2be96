"""State that a folder keeps of its daemon."""

from __future__ import annotations

from pathlib import Path

from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Position, Span, span
from ckwatch.model.topics import Topic
from ckwatch.wire.state import Change, File
from ckwatch_lsp.session.folders import WorkspaceFolder
from fakes.fake_engine import unit_of

PATH = "/w/k.kernel.toml"


def diagnostic(message: str) -> Diagnostic:
    return Diagnostic(Severity.ERROR, Source.RULE, "rule/one", message, span(PATH, 1, 0, 1, 0))


def tell(folder: WorkspaceFolder, *messages: str) -> None:
    state = File(path=PATH, diagnostics=tuple(map(diagnostic, messages)), generations={})
    folder._take(Change(seq=1, topic=Topic(f"file/{PATH}"), state=state if messages else None))


def told(folder: WorkspaceFolder) -> list[list[str]]:
    return [[one.message for one in state.diagnostics] for state, _ in folder.take_states(PATH)]


def test_what_was_away_for_a_moment_is_heard_of() -> None:
    folder = WorkspaceFolder(Path("/w"), lambda _folder, _topics: None)
    tell(folder, "one")
    assert told(folder) == [["one"]]
    tell(folder)
    tell(folder)
    tell(folder, "one")
    tell(folder, "one")
    assert told(folder) == [[], ["one"]]
    # nothing is new: what is known
    assert told(folder) == [["one"]]


async def test_units_stand_in_the_order_of_the_files_whatever_came_first() -> None:
    folder = WorkspaceFolder(Path("/w"), lambda _folder, _topics: None)
    for seq, (name, line) in enumerate({"k/s_16@host": 5, "k/s_4@host": 5, "j/one@host": 7, "k/one@host": 2}.items()):
        at = Position(line=line, column=0)
        place = Span(path=f"/w/{name[0]}.kernel.toml", start=at, end=at)
        folder._take(Change(seq=seq, topic=Topic(f"unit/{name}"), state=unit_of(name, place=place)))
    assert [unit.id for unit in await folder.units_in_order()] == [
        "j/one@host",
        "k/one@host",
        "k/s_4@host",
        "k/s_16@host",
    ]
