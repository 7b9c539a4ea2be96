"""A small workspace whose `ckwatch` is a server of the tests, for what an editor's configuration does by itself."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.editors.example import ROOT, cache_home
from tools.editors.patience import PATIENCE_S

TEXT = "first line of {{ name }}\nsecond µ WRONG line\n{# a comment that isn't C++ #}\nint end;\n"


class Stage:
    """`template` and `kernel` in a workspace; `server` is run as `ckwatch`, and writes down what it is told."""

    def __init__(self, server: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ck-"))
        self.root = self.folder / "a workspace"
        self.template = self.root / "templates/kernel.hip.j2"
        self.macros = self.root / "templates/macros.j2"
        self.kernel = self.root / "gemm.kernel.toml"
        self.record = self.folder / "record.jsonl"
        self.template.parent.mkdir(parents=True)
        self.template.write_text(TEXT)
        self.macros.write_text("{% macro f() %}{% endmacro %}\n")
        self.kernel.write_text('# the kernel\ntemplate = "kernel.hip.j2"\n\n[[instance]]\nname = "v3"\n')
        (self.root / "ckwatch.toml").write_text("[workspace]\n")
        programs = self.folder / "bin"
        programs.mkdir()
        command = programs / "ckwatch"
        run = f'"{sys.executable}" -m tools.editors.{server} "{self.record}"'
        command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec {run}\n')
        command.chmod(0o755)
        home = self.folder / "home"
        home.mkdir()
        self.env = {
            **os.environ,
            **{f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "DATA")},
            "XDG_CACHE_HOME": cache_home(),
            "HOME": str(home),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def received(self, method: str, count: int = 0) -> list[dict[str, Any]]:
        """The parameters of all messages of this method that the server has got, once there are `count` of them: what
        an editor tells of its own accord comes when it comes. What there is in the end, if there are fewer."""
        end = time.monotonic() + PATIENCE_S
        while True:
            messages = [json.loads(line) for line in self.record.read_text().split("\n")[:-1]]
            found = [message.get("params") or {} for message in messages if message.get("method") == method]
            if len(found) >= count or time.monotonic() > end:
                return found
            time.sleep(0.05)

    def commands(self) -> list[tuple[str, dict[str, Any]]]:
        """The commands that the server was asked to execute, each with its argument."""
        asked = self.received("workspace/executeCommand")
        return [(one["command"].removeprefix("ckwatch."), *one["arguments"]) for one in asked]
