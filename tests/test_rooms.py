"""Which room may import which: pure rooms stay free of I/O and of the shell."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ckwatch

ROOT = Path(ckwatch.__file__).parent
PURE = (
    "model",
    "sourcemap",
    "fingerprint",
    "rules",
    "diagnostics",
    "events",
    "effects",
    "devicetext",
    "machine",
    "graph",
    "timetrace",
    "timing",
    "stats",
    "analysis",
)
SHELL = (
    *("config", "render", "toolchain", "compile", "store", "build", "cli", "watch", "history", "runtime", "serve"),
    *("client", "wire", "endpoint", "readiness", "trust", "bench", "device", "charts", "export", "analyze", "garbage"),
    *("python", "writers"),
)
FORBIDDEN_IN_PURE = {"anyio", "asyncio", "subprocess", "socket", "sqlite3", "rich", "jinja2", "pydantic"}
RICH_ALLOWED = {"diagnostics/terminal.py"}  # prints to a console that it is given


def modules(room: str) -> list[Path]:
    folder = ROOT / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_know_no_shell(room: str) -> None:
    for path in modules(room):
        relative = str(path.relative_to(ROOT))
        allowed = {"rich"} if relative in RICH_ALLOWED else set()
        for name in imported(path):
            top = name.split(".")[0]
            assert top not in FORBIDDEN_IN_PURE - allowed, f"{relative} imports {name}"
            if top == "ckwatch" and "." in name:
                assert name.split(".")[1] not in SHELL, f"{relative} imports {name}"


def test_every_module_is_in_a_room() -> None:
    rooms = {path.stem if path.is_file() else path.name for path in ROOT.iterdir() if not path.name.startswith("__")}
    assert rooms - {"py"} <= {*PURE, *SHELL, "errors", "lint", "py"}, rooms
