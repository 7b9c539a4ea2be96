"""A workspace to watch."""

from __future__ import annotations

from pathlib import Path

import pytest

import ckwatch.engine.watch.watcher


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polling in tests is the same, only quicker."""
    monkeypatch.setattr(ckwatch.engine.watch.watcher, "POLL_S", 0.05)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work space ü"
    folder.mkdir()
    return folder
