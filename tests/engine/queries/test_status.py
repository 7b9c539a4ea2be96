"""The daemon's status of its workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.daemon_bench import Bench
from ckwatch.engine.queries import status


async def test_the_folders_of_headers_are_the_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    async with bench.open() as daemon:
        assert (await daemon.statuses.workspace(None)).header_folders == (str(bench.header.parent),)
        monkeypatch.setattr(status, "SHARED_FOLDERS", (bench.header.parent,))
        assert (await daemon.statuses.workspace(None)).header_folders == ()
