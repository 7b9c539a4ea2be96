"""Daemons of tests: in folders of their own, and gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benches.own_daemons import daemon_folders, small_workspace


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Path]:
    """Folder of sockets and locks; daemons that run there at the end of the test are killed."""
    with daemon_folders(tmp_path) as folder:
        yield folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A workspace of one unit, whose mistakes show without a compiler."""
    return small_workspace(tmp_path)
