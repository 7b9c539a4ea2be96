"""The meaning of a command's words and options, as far as it needs no daemon."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ckwatch.codeobject.code_paths import SUFFIXES, TRITON_TEXTS, code_paths
from ckwatch.model.errors import CkwatchError
from ckwatch.system.user_files import is_file, is_folder
from ckwatch.workspace.discovery import find_workspace, working_folder

KERNEL_END, TEMPLATE_END = ".kernel.toml", ".j2"

NO_DAEMON_VARIABLE = "CKWATCH_NO_DAEMON"
"""When set to anything but nothing, every command does its own work, as with `--no-daemon`."""


Given = TypeVar("Given")


def is_private(options: argparse.Namespace) -> bool:
    """Return True if the command does without the daemon, which could outlive what `--trust-once` trusts."""
    given = getattr(options, "no_daemon", False) or getattr(options, "trust_once", False)
    return bool(given or os.environ.get(NO_DAEMON_VARIABLE))


def dependency(options: argparse.Namespace, name: str, usual: Given) -> Given:
    """Return what `main` was given by this name for the command to use, or else the usual one."""
    replacements: Mapping[str, Given] = getattr(options, "dependencies", {})
    return replacements.get(name, usual)


def patterns_of(words: Sequence[str], here: Path, root: Path) -> tuple[str, ...]:
    """The patterns that words mean; none for everything.

    A word that is a folder, a kernel file or a template is passed on as its path, as the daemon names it.
    """
    patterns: list[str] = []
    for word in words:
        path = path_of(word, here)
        if path is None:
            patterns.append(word)
            continue
        real_root = root.resolve()
        if path == real_root:
            return ()
        patterns.append(str(root / path.relative_to(real_root)) if path.is_relative_to(real_root) else str(path))
    return tuple(patterns)


def path_of(word: str, here: Path) -> Path | None:
    """The folder, kernel file or template that a word of the command line is; None for a pattern."""
    path = (here / word).resolve()
    try:
        if (link := here / word).name.endswith((KERNEL_END, TEMPLATE_END)) and link.is_symlink() and not path.exists():
            return link.parent.resolve() / link.name
        is_named = path.is_dir() or (path.name.endswith((KERNEL_END, TEMPLATE_END)) and path.exists())
    except OSError:  # a name that no file can have
        return None
    return path if is_named else None


def code_path(word: str) -> Path | None:
    """Return the path of a file or folder with code objects that a word of the command line is; None for the name of a
    unit or a kernel. A name with the suffix of such a file is one, whether it is there or not."""
    path = Path(word)
    if path.name.endswith((KERNEL_END, TEMPLATE_END)):
        return None
    if path.suffix in (*SUFFIXES, *TRITON_TEXTS) or is_file(path):
        return path
    if not is_folder(path) or any(path.rglob(f"*{KERNEL_END}")):
        return None
    return path if code_paths(path) else None


def workspace_at(options: argparse.Namespace) -> Path:
    """The workspace of `-C`, or that of the working directory. Raises CkwatchError where there is none."""
    return find_workspace(options.workspace or working_folder())


def workspace_if_any(options: argparse.Namespace) -> Path | None:
    """The workspace of `-C` or the working directory; None outside of one. Raises CkwatchError if `-C` names none."""
    try:
        return workspace_at(options)
    except CkwatchError:
        if options.workspace is not None:
            raise
        return None


def start_of(options: argparse.Namespace, words: Sequence[str]) -> Path:
    """Return the folder from which to look for the workspace: `-C`, the first path among `words`, the working
    directory."""
    here = working_folder()
    if options.workspace is not None:
        return Path(options.workspace)
    return next((path for word in words if (path := path_of(word, here)) is not None), here)
