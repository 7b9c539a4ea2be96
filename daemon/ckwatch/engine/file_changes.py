"""Decides which changed paths matter: files that were read, and kernels or templates that come or go."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ckwatch.workspace.discovery import FILE_NAME
from ckwatch.workspace.kernel_globs import compile_glob, is_skipped
from ckwatch.workspace.loading import Workspace

Digest = Callable[[str], str | None]
"""`ContentHashes.digest`."""


@dataclass(frozen=True, slots=True)
class TrackedPaths:
    """The paths that matter: files with known readers, the workspace's own, where kernels and templates lie."""

    kernel_folders: tuple[str, ...]
    tracked: Collection[str]
    files: frozenset[str]
    kernel_patterns: tuple[re.Pattern[str], ...]
    template_folders: tuple[str, ...]

    @classmethod
    def of(cls, root: Path, workspace: Workspace | None, tracked: Collection[str]) -> TrackedPaths:
        """Return the paths that matter to `workspace`; only its `ckwatch.toml` while it could not be read."""
        if workspace is None:
            return cls((), tracked, frozenset({str(root / FILE_NAME)}), (), (str(root),))
        patterns = tuple(compile_glob(pattern) for pattern in workspace.settings.workspace.kernels)
        folders = tuple(str(folder) for folder in workspace.template_folders)
        searched = tuple(map(str, (root, *workspace.settings.workspace.kernel_folders)))
        files = frozenset({*workspace.files, str(root / FILE_NAME)})
        return cls(searched, tracked, files, patterns, folders)


@dataclass(frozen=True, slots=True)
class RelevantChanges:
    """As in `FilesChanged`."""

    digests: Mapping[str, str | None]
    reload: bool
    complete: bool


def relevant_changes(paths: Iterable[str], interest: TrackedPaths, digest: Digest) -> RelevantChanges:
    """Return the meaning of changed paths. A folder that came or went may hide any number of files: then everything is
    scanned."""
    digests: dict[str, str | None] = {}
    reload, complete = False, True
    for path in paths:
        if path in interest.tracked:
            found = digest(path)
            digests[path] = found
            reload = reload or found is None
        if path in interest.files or _may_be_kernel(path, interest) or _may_be_template(path, interest):
            reload = True
        elif path not in interest.tracked and _is_or_was_folder(path, interest):
            reload, complete = True, False
    return RelevantChanges(digests, reload, complete)


def _may_be_kernel(path: str, interest: TrackedPaths) -> bool:
    for folder in interest.kernel_folders:
        prefix = folder.rstrip(os.sep) + os.sep
        name = path.removeprefix(prefix)
        if name == path or any(is_skipped(part) for part in name.split("/")[:-1]):
            continue
        if any(pattern.fullmatch(name) for pattern in interest.kernel_patterns):
            return True
    return False


def _may_be_template(path: str, interest: TrackedPaths) -> bool:
    """A template that was not read yet may be one that a kernel file names."""
    return (
        path not in interest.tracked
        and path.endswith(".j2")
        and any(path.startswith(folder + os.sep) for folder in interest.template_folders)
    )


def _is_or_was_folder(path: str, interest: TrackedPaths) -> bool:
    if os.path.isdir(path):  # noqa: PTH112  # Path.is_dir raises where a name is too long
        return True
    if os.path.lexists(path):
        return False
    below = path + os.sep
    watched: Sequence[Collection[str]] = (interest.files, interest.tracked, interest.template_folders)
    return any(one.startswith(below) or one == path for group in watched for one in group)
