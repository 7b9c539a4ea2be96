"""An example workspace of one's own with a daemon of its own, for an editor to open.

The toolchain and the store are the user's, so that what was built before is not built again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ckwatch_templates
from tools.editors.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


def cache_home() -> str:
    """The user's cache folder."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return given if Path(given).is_absolute() else str(Path.home() / ".cache")


BRIEF_TIMING = """
[bench]
caches = ["hot"]
budget_s = 0.05
relative_error = 0.9
library = false
"""
"""Settings with which a time is there soon, however inexact."""


SHOW = """
import sys
from ckwatch import connect_sync
folder, path, line, column = sys.argv[1:]
with connect_sync(folder) as client:
    client.show(path, int(line), int(column))
"""


class Example:
    """A copy of `examples/NAME` with one kernel and some of its instances; gone when the context ends.

    `settings` is appended to its `ckwatch.toml`.
    """

    def __init__(
        self,
        name: str,
        kernel: str,
        instances: Sequence[str] = (),
        *,
        templates: Sequence[str] = (),
        settings: str = "",
        trusted: bool = True,
    ) -> None:
        self._trusted = trusted
        self.folder = Path(tempfile.mkdtemp(prefix="ck-"))
        self.root = self.folder / name
        self.kernel = self.root / f"{kernel}.kernel.toml"
        self.home = self.folder / "home"
        self.runtime = self.folder / "run"
        source = ROOT / "examples" / name
        self.root.mkdir()
        self.home.mkdir()
        self.runtime.mkdir(mode=0o700)
        (self.root / "ckwatch.toml").write_text((source / "ckwatch.toml").read_text() + settings)
        head, *blocks = re.split(r"(?m)^(?=\[\[instance\]\])", (source / self.kernel.name).read_text())
        chosen = [block for block in blocks if not instances or any(f'"{one}"' in block for one in instances)]
        self.kernel.write_text(head + "".join(chosen))
        for template in templates:
            (self.root / "templates" / template).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ckwatch_templates.ROOT / template, self.root / "templates" / template)
        homes = {f"XDG_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CONFIG", "STATE", "DATA")}
        self.env = {
            **os.environ,
            **homes,
            "HOME": str(self.home),
            "XDG_CACHE_HOME": cache_home(),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "CKWATCH_TRUST_FILE": str(self.folder / "trusted"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
        }

    def __enter__(self) -> Self:
        if self._trusted:
            self.ckwatch("trust")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(subprocess.CalledProcessError):
            self.ckwatch("stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def ckwatch(self, *arguments: str) -> str:
        """Output of a command of ckwatch. Raises CalledProcessError when it fails."""
        command = [str(Path(sys.executable).with_name("ckwatch")), *arguments, "-C", str(self.root)]
        return subprocess.run(
            command, env=self.env, cwd=self.root, check=True, capture_output=True, text=True, timeout=PATIENCE_S
        ).stdout

    def show(self, path: Path, text: str) -> None:
        """Ask the editors to show the first `text` of a file, as another program does."""
        place = map(str, self.place_of(text, path))
        command = [sys.executable, "-c", SHOW, str(self.root), str(path), *place]
        subprocess.run(command, env=self.env, check=True, capture_output=True, timeout=PATIENCE_S)

    def place_of(self, text: str, path: Path) -> tuple[int, int]:
        """Line and column, from zero, of the first `text` of a file."""
        line = self.line_of(text, path)
        return line, path.read_text().splitlines()[line].index(text)

    def status(self) -> dict[str, Any]:
        """The daemon's status."""
        status: dict[str, Any] = json.loads(self.ckwatch("status", "--json"))
        return status

    def kill_daemon(self) -> int:
        """Kill the daemon without a word; its process number."""
        process = int(self.status()["pid"])
        os.kill(process, signal.SIGKILL)
        return process

    def line_of(self, text: str, path: Path | None = None) -> int:
        """The number, from zero, of the first line of a file (the kernel file) that contains `text`."""
        lines = (path or self.kernel).read_text().splitlines()
        return next(number for number, line in enumerate(lines) if text in line)
