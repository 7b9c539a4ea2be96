"""Writes what an import makes: all of its files, or none."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckwatch.model.errors import CkwatchError
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import is_there
from ckwatch.workspace.discovery import find_workspace, working_folder
from ckwatch.workspace.loading import LoadedKernelFile, Workspace, WorkspaceReader, read_workspace

SHOWN = 5


class _WithoutKernelFiles(WorkspaceReader):
    """Those that an import has written take seconds to read."""

    def kernel_file(self, *_: Any) -> LoadedKernelFile:
        """Nothing."""
        return LoadedKernelFile((), None)


def workspace_of(options: argparse.Namespace) -> Workspace:
    """The workspace to import into, without its kernels."""
    return read_workspace(find_workspace(options.workspace or working_folder()), {}, _WithoutKernelFiles())


def write_files(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write each text to its file. Raises CkwatchError where one is there already, unless `force` replaces it."""
    present = [] if force else [path for path in texts if is_there(path)]
    if present:
        more = f" and {len(present) - SHOWN} more" if len(present) > SHOWN else ""
        names = ", ".join(map(str, present[:SHOWN]))
        raise CkwatchError(f"already there: {names}{more}", "--force replaces what is there")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text.encode())
        except OSError as error:
            raise CkwatchError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
