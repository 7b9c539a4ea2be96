"""What a folder keeps of what its daemon tells."""

from __future__ import annotations

from pathlib import Path

from ckwatch.wire.state import Change, Diagnostic, File
from ckwatch_lsp.session.folders import WorkspaceFolder

PATH = "/w/k.kernel.toml"


def diagnostic(message: str) -> Diagnostic:
    place = {"line": 1, "column": 0}
    return Diagnostic.model_validate(
        {
            "severity": "error",
            "source": "rule",
            "code": "rule/one",
            "message": message,
            "span": {"path": PATH, "start": place, "end": place},
        }
    )


def tell(folder: WorkspaceFolder, *messages: str) -> None:
    state = File.model_construct(path=PATH, diagnostics=tuple(map(diagnostic, messages)), generations={})
    folder._take(Change.model_construct(seq=1, topic=f"file/{PATH}", state=state if messages else None))


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
