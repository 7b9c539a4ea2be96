"""Write down what each editor says of itself in `initialize`, with our configuration: tests/lsp/captures/*.json.

    python -m tools.editors.capture [neovim] [emacs] [emacs-lsp-mode] [helix]

The editors of `tools.editors.install` open a template with `recording_server` in place of `ckwatch lsp`. Folder names
and process ids of the machine are replaced.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.editors.emacs_session import LSP_MODE, Emacs
from tools.editors.places import Installed, installed
from tools.editors.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "tests/lsp/captures"
TEMPLATE = "templates/kernel.hip.j2"

NEOVIM = """
vim.wait(20000, function()
  local client = vim.lsp.get_clients({ name = 'ckwatch' })[1]
  return client and client.initialized
end)
vim.cmd('qa!')
"""

EMACS = """
(progn (require 'eglot) (require 'ckwatch) (setq eglot-sync-connect t)
       (find-file (car command-line-args-left)) (apply #'eglot (eglot--guess-contact)))
"""


def neovim(editor: Installed, workspace: Path, env: Mapping[str, str]) -> None:
    """Headless, with the plugin as the only addition."""
    script = workspace / "script.lua"
    script.write_text(NEOVIM)
    plugin = f"set runtimepath^={ROOT / 'editors/neovim'}"
    command = [editor.program, "--clean", "--headless", "--cmd", plugin, TEMPLATE, "-S", str(script)]
    subprocess.run(command, cwd=workspace, env=env, check=True, timeout=60, capture_output=True)


def emacs(editor: Installed, workspace: Path, env: Mapping[str, str]) -> None:
    """Eglot in batch mode."""
    command = [editor.program, "-Q", "--batch", "-L", str(ROOT / "editors/emacs"), "--eval", EMACS, TEMPLATE]
    subprocess.run(command, cwd=workspace, env=env, check=True, timeout=120, capture_output=True)


def lsp_mode(editor: Installed, workspace: Path, env: Mapping[str, str]) -> None:
    """In a terminal: lsp-mode starts when a buffer is shown."""
    with Emacs(editor.program, _tmux(), workspace / TEMPLATE, directory=workspace, env=env, setup=LSP_MODE):
        _wait_for_file(workspace.parent / "record.jsonl")


def helix(editor: Installed, workspace: Path, env: Mapping[str, str]) -> None:
    """In a terminal; Helix has no other way."""
    settings = Path(env["XDG_CONFIG_HOME"], "helix")
    settings.mkdir(parents=True)
    shutil.copy(ROOT / "editors/helix/languages.toml", settings)
    with Terminal(_tmux(), [editor.program, TEMPLATE], directory=workspace, env=env) as terminal:
        terminal.wait_for("kernel.hip.j2")
        _wait_for_file(workspace.parent / "record.jsonl")
        terminal.keys("Escape")
        terminal.type(":q!")
        terminal.keys("Enter")


EDITORS: Mapping[str, Callable[[Installed, Path, Mapping[str, str]], None]] = {
    "neovim": neovim,
    "emacs": emacs,
    "emacs-lsp-mode": lsp_mode,
    "helix": helix,
}


def _tmux() -> str:
    tmux = installed("tmux")
    if tmux is None:
        sys.exit("tmux is missing: python -m tools.editors.install tmux")
    return tmux.program


def _wait_for_file(path: Path) -> None:
    end = time.monotonic() + 30
    while not (path.exists() and "\n" in path.read_text()) and time.monotonic() < end:
        time.sleep(0.05)


def capture(name: str) -> dict[str, Any]:
    """The first message of the editor of this name: its version and the parameters of `initialize`."""
    program = name.partition("-")[0]
    editor = installed(program)
    if editor is None:
        sys.exit(f"{name} is missing: python -m tools.editors.install {program}")
    with tempfile.TemporaryDirectory() as folder:
        workspace, record, programs = Path(folder, "workspace"), Path(folder, "record.jsonl"), Path(folder, "bin")
        (workspace / TEMPLATE).parent.mkdir(parents=True)
        programs.mkdir()
        (workspace / "ckwatch.toml").write_text("[workspace]\n")
        (workspace / TEMPLATE).write_text("// {{ name }}\n")
        server = programs / "ckwatch"
        server.write_text(
            f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tools.editors.recording_server {record}\n"
        )
        server.chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        home = Path(folder, "home")
        home.mkdir()
        places = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
        EDITORS[name](editor, workspace, {**os.environ, **places, "HOME": str(home), "PATH": path})
        first = json.loads(record.read_text().splitlines()[0])["params"]
        text = json.dumps(first).replace(str(workspace), "/workspace").replace(folder, "/home")
    parameters = json.loads(text)
    parameters["processId"] = None
    return {"editor": name, "version": editor.version, "initialize": parameters}


def main() -> None:
    """Capture what is named, or all."""
    CAPTURES.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or EDITORS:
        text = json.dumps(capture(name), indent=1, sort_keys=True, ensure_ascii=False)
        (CAPTURES / f"{name}.json").write_text(text + "\n")
        sys.stdout.write(f"{CAPTURES / name}.json\n")


if __name__ == "__main__":
    main()
