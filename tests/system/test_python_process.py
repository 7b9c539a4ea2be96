"""Python processes of ours import nothing from the folder that they run in."""

from __future__ import annotations

import ast
import os
import shlex
from pathlib import Path

import pytest

import ckwatch
import ckwatch_lsp
from ckwatch.system.python_process import module_command, module_environment, shell_python

PACKAGES = (Path(ckwatch.__file__).parent, Path(ckwatch_lsp.__file__).parent)
NOT_STARTED = {"compile/toolchain/relocate.py", "system/installation.py"}
"""Look for a program beside the interpreter, and name the interpreter in a hint."""


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("/a", "/a"),
        ("", None),
        (":", None),
        (":/a", "/a"),
        ("/a:", "/a"),
        ("/a::/b", "/a:/b"),
        (".", None),
        ("src:/a:../x", "/a"),
    ],
)
def test_entries_that_mean_the_working_folder_are_left_out(given: str, left: str | None) -> None:
    cleaned = module_environment({"PYTHONPATH": given.replace(":", os.pathsep), "HOME": "/h"})
    assert cleaned == ({"HOME": "/h"} if left is None else {"HOME": "/h", "PYTHONPATH": left.replace(":", os.pathsep)})


def test_the_working_folder_is_not_on_the_path() -> None:
    assert module_command("ckwatch", "lsp")[1:] == ("-P", "-m", "ckwatch", "lsp")


def test_a_shell_reads_this_python_as_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/home/a b/$(x)/python")
    assert shlex.split(f"{shell_python()} -m ckwatch") == ["/home/a b/$(x)/python", "-P", "-m", "ckwatch"]


def test_every_python_is_started_so() -> None:
    """`sys.executable` stands in one module."""
    found = set()
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and node.attr == "executable":
                    found.add(str(path.relative_to(package)))
    assert found - NOT_STARTED == {"system/python_process.py"}
