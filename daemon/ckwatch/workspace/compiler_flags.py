"""Checks compiler flags in `ckwatch.toml` and kernel files, as far as that needs no compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ckwatch.model import compiler_flags
from ckwatch.model.diagnostics import Severity
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.toml_document import KeyPath


def check_flags(problems: Problems, flags: Sequence[str], where: KeyPath, root: str | None = None) -> None:
    """Report at their elements, below `where`, flags whose value is missing and, with the workspace's folder `root`,
    folders that do not exist; and those that do not go together."""
    for first, group in compiler_flags.flag_groups(flags):
        last = (*where, first + len(group) - 1)
        if compiler_flags.lacks_value(group):
            problems.at_value(last, "flag-value", f"`{group[0]}` needs a value: the next element")
        elif root is not None:
            folder = compiler_flags.folder_of(compiler_flags.absolute_flags(group, root))
            if folder and folder.startswith("/") and not os.path.isdir(folder):  # noqa: PTH112  # a name may be too long
                problems.at_value(last, "missing-folder", f"there is no folder {folder}", severity=Severity.WARNING)
    for at in compiler_flags.endless_flags(flags)[:1]:
        problems.at_value((*where, at), "endless-flags", compiler_flags.ENDLESS_ADVICE, severity=Severity.WARNING)
