"""Daemons of tests: in folders of their own, and gone afterwards."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ckwatch.client import launch
from ckwatch.wire.endpoint import Endpoint, owner
from fakes.patience import PATIENCE_S


@pytest.fixture
def daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets and locks are; what runs there at the end of the test is killed."""
    with tempfile.TemporaryDirectory(prefix="ckw") as folder:  # short, as a socket needs it
        monkeypatch.setattr(launch, "STOP_LIMIT_S", PATIENCE_S)
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("CKWATCH_TRUST_FILE", str(tmp_path / "trusted"))
        monkeypatch.delenv("CKWATCH_NO_DAEMON", raising=False)
        yield Path(folder)
        for lock in Path(folder).glob("ckwatch/*.lock"):
            process = owner(Endpoint(lock.with_suffix(".sock"), lock, lock))
            if process not in (None, os.getpid()):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A workspace of one unit, whose mistakes show without a compiler."""
    root = tmp_path / "w s"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").touch()
    (root / "templates/t.hip.j2").write_text("int a = {{ Tile }};\n")
    (root / "k.kernel.toml").write_text(
        'template = "t.hip.j2"\n[operation]\nkind = "custom"\nsizes = ["N"]\n'
        '[[operation.output]]\nname = "Y"\ndtype = "f32"\nsizes = ["N"]\n[[instance]]\nname = "one"\nTile = 1\n'
    )
    return root
