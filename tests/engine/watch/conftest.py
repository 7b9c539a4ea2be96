"""A workspace to watch."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work space ü"
    folder.mkdir()
    return folder
