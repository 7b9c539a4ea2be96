"""Which editors are tested when there is little time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.run_editor_tests import GROUPS, ROOT, Group, run_within

FOLDER = Path(__file__).parent


def test_every_test_in_an_editor_belongs_to_one_of_them() -> None:
    marked = {
        str(path.relative_to(ROOT))
        for path in FOLDER.glob("test_*.py")
        if "pytest.mark.editors" in path.read_text() and path != Path(__file__)
    }
    found = Counter(file for group in GROUPS for file in group.files)
    assert marked <= found.keys()
    assert set(found.values()) == {1}


def test_what_there_is_no_time_for_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[tuple[Sequence[str], float | None]] = []

    def run(files: Sequence[str], limit_s: float | None) -> int:
        ran.append((files, limit_s))
        return len(ran) - 1

    groups = (
        Group("one", "test_neovim.py", 5),
        Group("two", "test_vscode.py", 500),
        Group("three", "test_helix.py", 1),
    )
    assert run_within(groups, 100.0, run) == 1
    assert [files for files, _ in ran] == [("tests/editors/test_neovim.py",), ("tests/editors/test_helix.py",)]
    assert "two: NOT RUN, they may take 500 s and 100 s are left" in capsys.readouterr().out
    ran.clear()
    assert run_within(groups, None, run) == 2
    assert [limit for _, limit in ran] == [None] * 3
