"""Make docs/ckwatch.svg: what a terminal shows when the GEMM example is built with three mistakes in it.

Runs the real commands; the picture is their output.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

import ckwatch_templates

ROOT = Path(__file__).resolve().parent.parent
CKWATCH = str(Path(sys.executable).with_name("ckwatch"))
WIDTH = 118


def environment_of(workspace: Path) -> dict[str, str]:
    """That of a command of its own, with a list of trusted workspaces beside the workspace."""
    own = {"CKWATCH_NO_DAEMON": "1", "CKWATCH_TRUST_FILE": str(workspace.parent / "trusted")}
    return {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color", **own}


def shown(arguments: list[str], folder: Path) -> Text:
    """A command as typed, and what it printed."""
    done = subprocess.run(
        [CKWATCH, *arguments, "--color", "always"],
        cwd=folder, capture_output=True, text=True, env=environment_of(folder),
    )  # fmt: skip
    return Text.assemble(("$ ", "bold green"), ("ckwatch " + shlex.join(arguments), "bold"), "\n") + Text.from_ansi(
        done.stdout + done.stderr
    )


def change(path: Path, old: str, new: str) -> None:
    """Replace one occurrence; `old` must be there."""
    text = path.read_text()
    if old not in text:
        sys.exit(f"{path.name} no longer says {old!r}")
    path.write_text(text.replace(old, new, 1))


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "gemm"
        shutil.copytree(ROOT / "examples/gemm", workspace)
        subprocess.run([CKWATCH, "trust", workspace], env=environment_of(workspace), check=True)
        console.print(shown(["build", "gemm_f16/v3_128*"], workspace))
        change(workspace / "gemm_f16.kernel.toml", "MXdlPerWave = 2", "MXdlPerWave = 3")
        console.print(shown(["build", "gemm_f16/v3_128*"], workspace))
        change(workspace / "gemm_f16.kernel.toml", "MXdlPerWave = 3", "MXdlPerWave = 2")
        (workspace / "templates/ck").mkdir(parents=True)
        macros = workspace / "templates/ck/gemm_universal.hip.j2"
        shutil.copy(ckwatch_templates.ROOT / "ck/gemm_universal.hip.j2", macros)
        change(macros, "PassThrough{},", "PassThru{},")
        console.print(shown(["build", "gemm_f16/v3_128*"], workspace))
    console.save_svg(str(ROOT / "docs/ckwatch.svg"), title="ckwatch")


if __name__ == "__main__":
    main()
