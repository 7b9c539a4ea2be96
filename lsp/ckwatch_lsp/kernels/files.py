"""Kernel files as they are open or on disk, read once for each text."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread

from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document
from ckwatch_lsp.folder import Folder
from ckwatch_lsp.kernel_file.document import Instance, KernelFile, Sweep
from ckwatch_lsp.text import Position

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

KEPT = 16
LARGE = 20_000
"""Characters from which a text is worked on in a thread."""

LINE = 30
"""Characters of a line, about."""

Answer = TypeVar("Answer")


class KernelFiles:
    """What documents say."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: OrderedDict[str, tuple[str, KernelFile]] = OrderedDict()

    async def of(self, document: Document) -> KernelFile:
        """The document as a kernel file, whatever it holds."""
        text = document.text
        kept = self._kept.get(document.uri)
        if kept is not None and kept[0] == text:
            self._kept.move_to_end(document.uri)
            return kept[1]
        file = KernelFile(text) if len(text) < LARGE else await to_thread.run_sync(KernelFile, text)
        self._kept[document.uri] = (text, file)
        self._kept.move_to_end(document.uri)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return file

    async def with_care(self, document: Document, work: Callable[[], Answer]) -> Answer:
        """Do what takes as long as the text is large: in a thread where it is."""
        return work() if document.line_count < LARGE // LINE else await to_thread.run_sync(work)

    def unit_of(self, folder: Folder, document: Document, instance: Instance | Sweep | None) -> Unit | None:
        """The unit to ask the daemon about: of this instance or sweep, else the document's active one."""
        active = self._session.active.unit(document)
        units = folder.units_at(document.path or "")
        if instance is None:
            return active or next(iter(units), None)
        if isinstance(instance, Sweep):
            mine = [
                unit
                for unit in units
                if unit.instance == instance.name or unit.instance.startswith(f"{instance.name}_")
            ]
        else:
            mine = [unit for unit in units if unit.instance == instance.name]
        if active is not None:
            mine.sort(key=lambda unit: (unit.id != active.id, unit.arch != active.arch))
        return next(iter(mine), active or next(iter(units), None))


def subject_of(file: KernelFile, position: Position, parameter: str) -> Instance | Sweep | None:
    """Whose parameter stands at a place: an instance's or a sweep's, in `[defaults]` that of the first that has none of
    its own."""
    found = file.instance_at(position) or file.sweep_at(position)
    if found is not None:
        return found
    return next((one for one in file.instances if one.name and parameter not in one.parameters), None)
