"""Writes what an import makes: all of its files, or none."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckwatch.cli.command_words import workspace_at
from ckwatch.cli.output import Output, write_file
from ckwatch.cli.templates import no_template
from ckwatch.model.amounts import count
from ckwatch.model.errors import CkwatchError
from ckwatch.model.text import span
from ckwatch.system.user_files import is_there, read_file
from ckwatch.workspace.kernel_file import LoadedKernel
from ckwatch.workspace.loading import Workspace, WorkspaceReader, read_workspace
from ckwatch.workspace.template_search import TemplateSearch

SHOWN = 5


class _WithoutKernelFiles(WorkspaceReader):
    """Those that an import has written take seconds to read."""

    def kernel_file(self, path: str, *_: Any) -> LoadedKernel:
        """Nothing."""
        return LoadedKernel(None, "", span(path, 0, 0, 0, 0), ())


def workspace_of(options: argparse.Namespace) -> Workspace:
    """The workspace to import into, without its kernels."""
    return without_kernels(workspace_at(options))


def without_kernels(root: Path) -> Workspace:
    """The workspace at `root` without its kernels."""
    return read_workspace(root, {}, _WithoutKernelFiles())


def read_source(path: Path) -> str:
    """The text of a source file, which is never run. Raises CkwatchError."""
    try:
        return read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise CkwatchError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise CkwatchError(f"{path} is not text in UTF-8") from None


def template_search(workspace: Workspace, name: str) -> TemplateSearch:
    """A search in which this template is found. Raises CkwatchError where it is not."""
    search = TemplateSearch(workspace.template_folders, {})
    if search.find(name) is None:
        raise no_template(name, search.near(name))
    return search


def write_files(texts: Mapping[Path, str], *, force: bool) -> None:
    """Write each text to its file. Raises CkwatchError where one is there already, unless `force` replaces it."""
    present = [] if force else [path for path in texts if is_there(path)]
    if present:
        more = f" and {len(present) - SHOWN} more" if len(present) > SHOWN else ""
        names = ", ".join(map(str, present[:SHOWN]))
        raise CkwatchError(f"already there: {names}{more}", "--force replaces what is there")
    for path, text in texts.items():
        write_file(path, text.encode(), flushed=True)


def write_imported(
    options: argparse.Namespace,
    workspace: Workspace,
    files: Mapping[str, tuple[str, int]],
    listed: int,
    left_out: Mapping[str, int],
) -> None:
    """Write kernel files, by their names texts and how many instances they have, and say what is in none of them."""
    folder = workspace.root / "kernels" if options.output is None else Path(os.path.abspath(options.output))  # noqa: PTH100
    paths = {folder / f"{name}.kernel.toml": file for name, file in files.items()}
    if not paths:
        reasons = "; ".join(f"{number:,}: {reason}" for reason, number in left_out.items())
        raise CkwatchError(
            f"none of {listed:,} instances is left",
            f"left out are {reasons}" if reasons else "the filters leave none; see their values with fewer filters",
        )
    write_files({path: text for path, (text, _) in paths.items()}, force=options.force)
    if not folder.is_relative_to(workspace.root):
        sys.stderr.write(f"ckwatch: {folder} is not in the workspace: name it in `kernel_folders` of ckwatch.toml\n")
    instances = {str(path): number for path, (_, number) in paths.items()}
    _report(Output(options, workspace.root), listed, instances, left_out)


def _report(output: Output, listed: int, instances: Mapping[str, int], left_out: Mapping[str, int]) -> None:
    files = [{"path": path, "instances": number} for path, number in instances.items()]
    output.answer(listed=listed, files=files, left_out=left_out)
    for path, number in instances.items():
        output.text(f"wrote {path}: {count(number, 'instance')}")
    for reason, number in left_out.items():
        output.text(f"left out {count(number, 'instance')}: {reason}", "yellow")
    chosen = sum(instances.values())
    output.text(f"{chosen:,} of {listed:,} instances; next: `ckwatch check` applies the instance rules")
