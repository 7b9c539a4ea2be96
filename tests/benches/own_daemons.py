"""Folders in which daemons of tests run, and a small workspace for one."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ckwatch.client import launch
from ckwatch.wire.endpoint import Endpoint, owner
from fakes.patience import PATIENCE_S


@contextmanager
def daemon_folders(place: Path) -> Iterator[Path]:
    """Have sockets and locks in the folder that is given, and all else of daemons in `place`; what runs at the end is
    killed."""
    with tempfile.TemporaryDirectory(prefix="ckw") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "STOP_LIMIT_S", PATIENCE_S)
        patch.setenv("XDG_RUNTIME_DIR", folder)  # short, as a socket needs it
        patch.setenv("XDG_STATE_HOME", str(place / "state"))
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        patch.setenv("CKWATCH_TRUST_FILE", str(place / "trusted"))
        patch.delenv("CKWATCH_NO_DAEMON", raising=False)
        try:
            yield Path(folder)
        finally:
            for lock in Path(folder).glob("ckwatch/*.lock"):
                process = owner(Endpoint(lock.with_suffix(".sock"), lock, lock))
                if process not in (None, os.getpid()):
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)


def small_workspace(place: Path) -> Path:
    """A workspace of one unit, whose mistakes show without a compiler."""
    root = place / "w s"
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").touch()
    (root / "templates/t.hip.j2").write_text("int a = {{ Tile }};\n")
    (root / "k.kernel.toml").write_text(
        'template = "t.hip.j2"\n[operation]\nkind = "custom"\nsizes = ["N"]\n'
        '[[operation.output]]\nname = "Y"\ndtype = "f32"\nsizes = ["N"]\n[[instance]]\nname = "one"\nTile = 1\n'
    )
    return root
