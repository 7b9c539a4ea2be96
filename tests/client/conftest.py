"""A client of a fake daemon on a real socket."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from benches.client_bench import Bench, bench
from ckwatch.client import Client, launch
from fakes.patience import PATIENCE_S
from helpers.in_own_task import in_own_task


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A private folder with a short name, as a socket needs one."""
    with tempfile.TemporaryDirectory(prefix="ckw") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", folder + os.sep + "state")
        monkeypatch.setattr(launch, "STOP_LIMIT_S", PATIENCE_S)
        monkeypatch.setenv("CKWATCH_TRUST_FILE", folder + os.sep + "trusted")
        yield Path(folder)


@pytest.fixture
def nothing_blocks() -> Iterator[None]:
    """The client keeps nobody else from their turn."""
    with blockbuster_ctx("ckwatch.client"):
        yield


@pytest.fixture
async def daemon(runtime: Path) -> AsyncIterator[Bench]:
    async with in_own_task(bench(runtime)) as made:
        yield made


@pytest.fixture
async def client(daemon: Bench) -> AsyncIterator[Client]:
    async with in_own_task(daemon.client()) as client:
        yield client
