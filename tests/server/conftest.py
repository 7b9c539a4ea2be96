"""The application on a real socket."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from benches.served import Serve, Served, serving
from helpers.in_own_task import in_own_task


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private folder with a short name, as a socket needs one."""
    with tempfile.TemporaryDirectory(prefix="ckw") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", folder + os.sep + "state")
        yield Path(folder)


@pytest.fixture
def serve(runtime: Path) -> Serve:
    return partial(serving, runtime)


@pytest.fixture
async def served(serve: Serve) -> AsyncIterator[Served]:
    async with in_own_task(serve()) as served:
        yield served
