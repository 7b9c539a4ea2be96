"""Edits for files that are about to be renamed: what includes, imports, extends or names them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anyio import to_thread
from lsprotocol import types

from ckwatch.model.text import Range
from ckwatch_lsp.kernel_files.language.document import KernelFileText, inner_range
from ckwatch_lsp.kernel_files.language.reference_names import reference_of
from ckwatch_lsp.protocol.uris import path_of
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.templates.adapter.library import TemplateLibrary, TemplateSet
from ckwatch_lsp.templates.adapter.provider import texts_of
from ckwatch_templates import ROOT

RENAMED = types.FileOperationRegistrationOptions(
    [
        types.FileOperationFilter(
            types.FileOperationPattern("**/*.{j2,py}", types.FileOperationPatternKind.File), "file"
        ),
        types.FileOperationFilter(types.FileOperationPattern("**", types.FileOperationPatternKind.Folder), "file"),
    ]
)
"""Files and folders whose new names an editor tells before it renames them."""

Place = tuple[str, Range, str]
"""A path, a place in the file, and the text to write there."""


class FileRenames:
    """Answers workspace/willRenameFiles."""

    def __init__(self, session: Session, library: TemplateLibrary) -> None:
        self._session = session
        self._library = library

    async def answer(self, params: types.RenameFilesParams) -> types.WorkspaceEdit | None:
        """Templates' names in templates and kernel files, references' names in kernel files."""
        moved = {
            old: new
            for one in params.files
            if (old := path_of(one.old_uri)) is not None and (new := path_of(one.new_uri)) is not None
        }
        edits: dict[str, list[types.TextEdit]] = {}
        for folder in list(self._session.folders.values()):
            templates = await self._library.templates(folder)
            folders = self._library.folders(folder)
            texts = await texts_of(self._session, folder)
            for path, reach, text in await to_thread.run_sync(_places, moved, templates, folders, texts):
                place = types.TextEdit(await self._session.encode_range(path, reach), text)
                edits.setdefault(self._session.uri_at(path), []).append(place)
        return self._session.workspace_edit(edits) if edits else None


def _places(
    moved: Mapping[str, str], templates: TemplateSet, folders: Sequence[str], texts: Mapping[str, str]
) -> list[Place]:
    found: list[Place] = []
    names = {
        name: new_name
        for name, path in templates.names.items()
        if (new := new_path(path, moved)) is not None and (new_name := _name_in(folders, new)) is not None
    }
    for path, file in templates.index.files.items() if names else ():
        if not Path(path).is_relative_to(ROOT):
            found += (
                (path, file.template.lines.range(link.start, link.end), names[link.name])
                for link in file.names.links
                if link.name in names and link.keyword != "hook"
            )
    for path, text in texts.items():
        found += _in_kernel_file(path, KernelFileText(text), names, moved)
    return found


def _in_kernel_file(
    path: str, file: KernelFileText, names: Mapping[str, str], moved: Mapping[str, str]
) -> Iterator[Place]:
    name = file.template.read() if file.template is not None else None
    if file.template is not None and isinstance(name, str) and name in names:
        yield path, inner_range(file, file.template), names[name]
    reference = reference_of(file)
    if reference is not None:
        here = os.path.dirname(path)  # noqa: PTH120  # Path cannot hold every name
        new = new_path(os.path.normpath(os.path.join(here, reference.file)), moved)  # noqa: PTH118  # as above
        if new is not None:
            yield path, reference.range, Path(os.path.relpath(new, here)).as_posix()


def new_path(path: str, moved: Mapping[str, str]) -> str | None:
    """The path that the file at `path` will have; None if it stays."""
    for old, new in moved.items():
        if path == old:
            return new
        if path.startswith(f"{old}/"):
            return new + path[len(old) :]
    return None


def _name_in(folders: Sequence[str], path: str) -> str | None:
    """The name of the template at `path`; None outside of all folders."""
    inside = next((folder for folder in folders if path.startswith(f"{folder}/")), None)
    return None if inside is None else path[len(inside) + 1 :]
