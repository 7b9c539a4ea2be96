"""The language server is a client of the daemon and nothing more; its pure parts know neither editor nor event loop."""

from __future__ import annotations

import ast
from pathlib import Path

import ckwatch_lsp

ROOT = Path(ckwatch_lsp.__file__).parent
OF_THE_DAEMON = {"ckwatch", "ckwatch.errors", "ckwatch.garbage", "ckwatch.python", "ckwatch.client", "ckwatch.wire"}
PURE = ("jinja", "kernel_file", "text.py", "settings.py")
SHELL = {"anyio", "asyncio", "pygls", "lsprotocol", "threading", "pydantic"}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_it_knows_of_the_daemon_what_any_client_knows() -> None:
    for path in ROOT.rglob("*.py"):
        for name in imported(path):
            if name.split(".")[0] == "ckwatch":
                assert ".".join(name.split(".")[:2]) in OF_THE_DAEMON, f"{path.relative_to(ROOT)} imports {name}"


def test_pure_parts_do_nothing_to_the_world() -> None:
    for part in PURE:
        for path in (ROOT / part).rglob("*.py") if not part.endswith(".py") else [ROOT / part]:
            assert not {name.split(".")[0] for name in imported(path)} & SHELL, path
