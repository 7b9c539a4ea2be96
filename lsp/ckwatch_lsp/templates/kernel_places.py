"""Where kernel files mention parameters of templates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch_lsp.documents import Kind
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.kernel_file.document import KernelFile
from ckwatch_lsp.kernel_file.names import Place, parameter_places
from ckwatch_lsp.templates.files import Shelf

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session


async def kernel_places(
    session: Session, folder: Folder, shelf: Shelf, name: str, templates: Collection[str]
) -> list[tuple[str, Place]]:
    """The places of the parameter `name` in kernel files of the templates at these paths, with the files' paths."""
    texts: dict[str, str] = {}
    for path in kernel_files(session, folder):
        document = await session.text_at(path)
        if document is not None:
            texts[path] = document.text
    return await to_thread.run_sync(_places_in, texts, shelf.names, name, templates)


def kernel_files(session: Session, folder: Folder) -> list[str]:
    """The kernel files of a workspace, as far as they have units or are open."""
    paths = dict.fromkeys(unit.place.path for unit in folder.units.values())
    paths.update(dict.fromkeys(path for path in folder.files if path.endswith(".kernel.toml")))
    for document in session.documents.values():
        if document.kind is Kind.KERNEL_FILE and document.path is not None and session.folder_for(document) is folder:
            paths[document.path] = None
    return list(paths)


def _places_in(
    texts: Mapping[str, str], names: Mapping[str, str], name: str, templates: Collection[str]
) -> list[tuple[str, Place]]:
    found: list[tuple[str, Place]] = []
    for path, text in texts.items():
        if name not in text:
            continue
        file = KernelFile(text)
        template = file.template.read() if file.template is not None else None
        if isinstance(template, str) and names.get(template) in templates:
            found += [(path, place) for place in parameter_places(file, name)]
    return found
