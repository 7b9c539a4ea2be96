"""Discovery of workspaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.discovery import find_workspace, working_folder


def test_the_nearest_one_above(tmp_path: Path) -> None:
    (tmp_path / "ckwatch.toml").touch()
    (tmp_path / "a/b").mkdir(parents=True)
    assert find_workspace(tmp_path / "a/b") == tmp_path
    (tmp_path / "a/ckwatch.toml").touch()
    assert find_workspace(tmp_path / "a/b") == tmp_path / "a"


def test_a_folder_that_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(CkwatchError, match="has been deleted"):
        working_folder()
    for command in ("build", "status", "watch", "trust", "logs"):
        assert main([command]) == 2
        assert "has been deleted" in capsys.readouterr().err
