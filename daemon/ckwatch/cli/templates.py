"""`ckwatch templates list|copy`: the templates that kernel files can name; a copy in the workspace is used instead."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import ckwatch_templates
from ckwatch.cli.command_words import workspace_at
from ckwatch.cli.diagnostic_text import display_path
from ckwatch.cli.output import Output, write_file
from ckwatch.model.errors import CkwatchError
from ckwatch.model.names import why_no_name
from ckwatch.model.unit_patterns import nearest_name
from ckwatch.system.user_files import read_file
from ckwatch.workspace.discovery import in_workspace, working_folder
from ckwatch.workspace.loading import DEFAULT_TEMPLATES, Workspace, load_workspace
from ckwatch.workspace.template_search import TEMPLATE_SUFFIXES

SUFFIX = ".j2"


def list_(options: argparse.Namespace) -> int:
    """Print the templates, the workspace's first; outside of a workspace the built-in ones."""
    output = Output(options)
    workspace = (
        load_workspace(workspace_at(options))
        if options.workspace is not None or in_workspace(working_folder())
        else None
    )
    folders = (ckwatch_templates.ROOT,) if workspace is None else workspace.template_folders
    found = {
        name: path for name, path in templates_of(folders).items() if options.all or name.endswith(TEMPLATE_SUFFIXES)
    }
    users: dict[str, list[str]] = {}
    for kernel in () if workspace is None else workspace.kernels:
        users.setdefault(kernel.template, []).append(kernel.name)
    facts = [
        {"name": name, "path": path, "built_in": _is_built_in(path), "kernels": users.get(name, ())}
        for name, path in found.items()
    ]
    output.answer(templates=facts)
    root = "" if workspace is None else str(workspace.root)
    table = [
        [name, "built-in" if _is_built_in(path) else display_path(str(path), root), ", ".join(users.get(name, []))]
        for name, path in found.items()
    ]
    output.table(table, heading=("NAME", "FILE", "KERNELS"), indent="")
    return 0


def copy(options: argparse.Namespace) -> int:
    """Copy a template into the workspace's first template folder."""
    workspace = load_workspace(workspace_at(options))
    found = templates_of(workspace.template_folders)
    source = found.get(options.name)
    if source is None:
        raise no_template(options.name, nearest_name(found, options.name))
    name = PurePosixPath(options.target or options.name)
    if name.is_absolute() or ".." in name.parts or not name.name.endswith(SUFFIX):
        raise CkwatchError(
            f"`{name}` is not a name of a template", f"a name is a path below a template folder that ends in {SUFFIX}"
        )
    if (reason := next(filter(None, map(why_no_name, name.parts)), None)) is not None:
        raise CkwatchError(reason)
    target = own_folder(workspace) / name
    if target.exists():
        raise CkwatchError(f"{target} is there already", "give the copy a name of its own: `templates copy NAME NEW`")
    write_file(target, read_file(source), flushed=True)
    output = Output(options, workspace.root)
    output.text(f"wrote {target}")
    if str(name) == options.name:
        output.text(f'kernels with template = "{name}" use it from now on')
    else:
        output.text(f'a kernel file uses it with template = "{name}"')
    return 0


def no_template(name: str, near: str | None) -> CkwatchError:
    """The error for a template that there is not; `near` is another one with such a name."""
    hint = f"did you mean '{near}'?" if near else "`ckwatch templates list` lists them"
    return CkwatchError(f"there is no template '{name}'", hint)


def templates_of(folders: Iterable[Path]) -> dict[str, Path]:
    """The file of each template that a search of `folders` finds, by name."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.rglob(f"*{SUFFIX}")):
            if path.is_file():
                found.setdefault(path.relative_to(folder).as_posix(), path)
    return found


def own_folder(workspace: Workspace) -> Path:
    """The workspace's first template folder."""
    own = (folder for folder in workspace.template_folders if not _is_built_in(folder))
    return next(own, workspace.root / DEFAULT_TEMPLATES)


def _is_built_in(path: Path) -> bool:
    return path.is_relative_to(Path(ckwatch_templates.__file__).parent)
