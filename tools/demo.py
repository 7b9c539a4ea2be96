"""The demo: real Composable Kernel templates, a real hipcc, a daemon, and errors where they were made.

In a copy of the GEMM example with three instances: builds them for gfx942, twice (the second time from the store),
makes a few mistakes and shows what ckwatch says, and then edits a template under `ckwatch watch`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from editors.which_editor import suggestion  # tools/editors

import ckwatch_templates

ROOT = Path(__file__).resolve().parent.parent
CKWATCH = str(Path(sys.executable).with_name("ckwatch"))
INSTANCES = ("v3_128x128x64_intrawave", "v1_128x128x64_intrawave", "v1_128x128x64_interwave")
TEMPLATE = "templates/ck/gemm_universal.hip.j2"

WATCHED_S = 300.0
"""A machine that takes longer is not waited for."""

MISTAKES = [
    ("an instance that Composable Kernel would reject", "gemm_f16.kernel.toml", "MXdlPerWave = 2", "MXdlPerWave = 3"),
    ("an unknown element type", "gemm_f16.kernel.toml", 'dtype = "f16"', 'dtype = "f17"'),
    ("a misspelt Jinja variable", "templates/ck/epilogue.j2", None, "// {{ activaton }}\n"),
]


class Demo:
    """A workspace in a temporary folder, trusted for the time of the demo."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "gemm"
        self.environment = os.environ | {
            "CKWATCH_TRUST_FILE": str(folder / "trusted"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.workspace.mkdir()
        shutil.copy(ROOT / "examples/gemm/ckwatch.toml", self.workspace)
        head, *instances = re.split(
            r"(?m)^(?=\[\[instance\]\])", (ROOT / "examples/gemm/gemm_f16.kernel.toml").read_text()
        )
        chosen = [one for one in instances if any(f'"{name}"' in one for name in INSTANCES)]
        (self.workspace / "gemm_f16.kernel.toml").write_text(head + "".join(chosen))

    def ckwatch(self, *arguments: str) -> int:
        """Run a command, shown as a person would type it."""
        print(f"\n$ ckwatch {' '.join(arguments)}", flush=True)
        return subprocess.run([CKWATCH, *arguments], cwd=self.workspace, env=self.environment).returncode

    def own(self, file: str) -> Path:
        """A file of the workspace; a template is copied from the built-in ones, before which it comes."""
        path = self.workspace / file
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ckwatch_templates.ROOT / Path(file).relative_to("templates"), path)
        return path

    def break_and_show(self, what: str, file: str, old: str | None, new: str) -> None:
        """Make one mistake, check, and take it back."""
        print(f"\n=== {what}", flush=True)
        path = self.own(file)
        text = path.read_text()
        path.write_text(text.replace(old, new, 1) if old else new + text)
        self.ckwatch("check")
        path.write_text(text)

    def watch(self) -> None:
        """Break and mend a template under the eyes of `ckwatch watch`."""
        print("\n=== a misspelt C++ name, saved while `ckwatch watch` runs", flush=True)
        path = self.own(TEMPLATE)
        text = path.read_text()
        print("\n$ ckwatch watch", flush=True)
        with subprocess.Popen(
            [CKWATCH, "watch"], cwd=self.workspace, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as watch:
            late = threading.Timer(WATCHED_S, watch.terminate)
            late.start()
            lines = iter(watch.stdout or ())
            self._show_until("built", 1, lines)
            print(f"--- {path.name} is broken and saved", flush=True)
            path.write_text(text.replace("PassThrough{},", "PassThru{},", 1))
            self._show_until(" failed;", 1, lines)
            print(f"--- {path.name} is mended and saved", flush=True)
            path.write_text(text)
            self._show_until("units: ", 1, lines)
            late.cancel()
            watch.terminate()

    def _show_until(self, word: str, count: int, lines: Iterator[str]) -> None:
        """Print lines up to the `count`-th one with the word."""
        for line in lines:
            print(line, end="", flush=True)
            count -= word in line
            if count <= 0:
                return


def main() -> int:
    """Build, break, watch."""
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(Path(folder))
        demo.ckwatch("doctor")
        status = demo.ckwatch("build", "--trust")
        try:
            demo.ckwatch("build")
            for mistake in MISTAKES:
                demo.break_and_show(*mistake)
            if status == 0:
                demo.watch()
            demo.ckwatch("explain", f"gemm_f16/{INSTANCES[0]}")
            demo.ckwatch("status")
        finally:
            demo.ckwatch("stop")
    print("\n`ckwatch build examples/gemm` compiles all instances, in minutes on two cores.")
    print("Next: `ckwatch init` in a folder of your own, or `ckwatch watch` in examples/gemm and edit a template.")
    print("\n".join(suggestion()))
    return status


if __name__ == "__main__":
    sys.exit(main())
