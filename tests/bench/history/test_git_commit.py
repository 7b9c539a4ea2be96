"""The commit of a workspace, by the git that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.bench.history import git_commit
from ckwatch.system.async_processes import ProcessResult, run_process
from fakes.patience import PATIENCE_S

commit_of = partial(git_commit.commit_of, time_limit_s=PATIENCE_S)

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    """Return git's output, without the settings of whoever runs the test."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
    }  # fmt: skip
    command = ["git", "-C", str(folder), "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace in a repository that has other things too."""
    git(tmp_path, "init", "-q", "-b", "main")
    made = tmp_path / "kernels für größe"
    made.mkdir()
    (made / "ckwatch.toml").touch()
    (made / "t.hip.j2").write_text("int a;\n")
    (tmp_path / "common.hpp").write_text("int b;\n")
    (tmp_path / ".gitignore").write_text("*.ignored.j2\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    return made


def nothing(root: Path) -> None:
    """As committed."""


def another_template(root: Path) -> None:
    (root / "t.hip.j2").write_text("int c;\n")


def another_header(root: Path) -> None:
    (root.parent / "common.hpp").write_text("int c;\n")


def removed(root: Path) -> None:
    (root / "t.hip.j2").unlink()


def staged(root: Path) -> None:
    another_template(root)
    git(root, "add", ".")


def new_template(root: Path) -> None:
    (root / "deep").mkdir()
    (root / "deep/ü.hip.j2").touch()


def new_elsewhere(root: Path) -> None:
    (root.parent / "other.hip.j2").touch()


def no_source(root: Path) -> None:
    (root / "notes.txt").touch()


def ignored(root: Path) -> None:
    (root / "x.ignored.j2").touch()


def touched(root: Path) -> None:
    os.utime(root / "t.hip.j2", (1, 1))


@pytest.mark.parametrize(
    ("change", "dirty"),
    [
        (nothing, False),
        (another_template, True),
        (another_header, True),
        (removed, True),
        (staged, True),
        (new_template, True),
        (new_elsewhere, False),
        (no_source, False),
        (ignored, False),
        (touched, False),
    ],
)
async def test_dirty(root: Path, change: Callable[[Path], None], dirty: bool) -> None:
    change(root)
    head = git(root, "rev-parse", "HEAD")
    assert await commit_of(root) == head + ("-dirty" if dirty else "")


async def test_another_branch_and_no_branch(root: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    git(root, "checkout", "-q", "-b", "other")
    git(root, "commit", "-q", "--allow-empty", "-m", "second")
    assert await commit_of(root) == git(root, "rev-parse", "HEAD") != first
    git(root, "checkout", "-q", first)
    assert await commit_of(root) == first


async def test_the_environment_names_no_other_repository(root: Path) -> None:
    environment = {**os.environ, "GIT_DIR": "/nowhere", "GIT_WORK_TREE": "/nowhere", "GIT_INDEX_FILE": "/nowhere"}
    assert await commit_of(root, environment) == git(root, "rev-parse", "HEAD")


async def test_a_setting_of_the_repository_runs_nothing(root: Path, tmp_path: Path) -> None:
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    git(root, "config", "core.fsmonitor", str(hook))
    assert await commit_of(root) is not None
    assert not (tmp_path / "ran").exists()


async def test_none_before_the_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert await commit_of(tmp_path) is None


async def test_no_repository_no_folder_no_git(tmp_path: Path, root: Path) -> None:
    assert await commit_of(tmp_path / "gone") is None
    assert await commit_of(root, {"PATH": str(tmp_path)}, launch=without_git) is None
    shutil.rmtree(tmp_path / ".git")
    assert await commit_of(root) is None


async def without_git(arguments: tuple[str, ...], **more: Any) -> ProcessResult:
    """A machine where no program is called git."""
    return await run_process(("no-program-is-called-so", *arguments[1:]), **more)


async def test_a_git_that_does_not_end_is_ended(root: Path) -> None:
    begun: list[Path] = []

    async def slow(arguments: tuple[str, ...], **more: Any) -> ProcessResult:
        begun.append(more["folder"])
        return await run_process(("sleep", "1000"), **more)

    with anyio.fail_after(PATIENCE_S):
        assert await commit_of(root, time_limit_s=0.05, launch=slow) is None
    assert begun == [root]
