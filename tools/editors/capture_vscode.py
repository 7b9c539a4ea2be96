"""Write down what VS Code says of itself in `initialize`, with our extension: tests/lsp/captures/vscode.json.

    PYTHONPATH=tests python -m tools.editors.capture_vscode

As `capture` does for the other editors; code-server and Chromium of `vscode_install` open the example.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from editors.vscode_page import opened, served
from tools.editors.vscode_install import install, package_extension

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "tests/lsp/captures/vscode.json"
CKWATCH = Path(sys.executable).with_name("ckwatch")
LIMIT_S = 60.0


def main() -> None:
    """Write the file."""
    vscode = install()
    with tempfile.TemporaryDirectory() as folder:
        workspace, record = Path(folder, "workspace"), Path(folder, "record.jsonl")
        (workspace / "templates").mkdir(parents=True)
        (workspace / "ckwatch.toml").write_text("[workspace]\n")
        (workspace / "templates/kernel.hip.j2").write_text("// {{ name }}\n")
        command = Path(folder, "ckwatch")
        command.write_text(
            f"#!/bin/sh\n[ $1 = lsp ] || exec {CKWATCH} $@\n"
            f"PYTHONPATH={ROOT} exec {sys.executable} -m tools.editors.recording_server {record}\n"
        )
        command.chmod(0o755)
        settings = {"ckwatch.command": str(command), "security.workspace.trust.enabled": False}
        home = Path(folder, "home")
        extension = package_extension(ROOT / "editors/vscode")
        with (
            served(vscode, home, extension, settings, dict(os.environ)) as address,
            opened(vscode, f"{address}?folder={workspace}"),
        ):
            end = time.monotonic() + LIMIT_S
            while not (record.exists() and "\n" in record.read_text()) and time.monotonic() < end:
                time.sleep(0.1)
        first = json.loads(record.read_text().splitlines()[0])["params"]
        text = json.dumps(first).replace(str(workspace), "/workspace").replace(folder, "/home")
    parameters = json.loads(text)
    parameters["processId"] = None
    version = f"{parameters['clientInfo']['name']} {parameters['clientInfo'].get('version', '')}"
    found = {"editor": "vscode", "version": version, "initialize": parameters}
    CAPTURE.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{CAPTURE}\n")


if __name__ == "__main__":
    main()
