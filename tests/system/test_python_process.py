"""Python processes of ours import nothing from the folder that they run in."""

from __future__ import annotations

import os
import shlex

import pytest

from ckwatch.system.python_process import module_command, module_environment, shell_python


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
