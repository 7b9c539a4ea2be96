"""Timings that others measured on the shapes of the kernels of open kernel files, and the shape of each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position
from ckwatch.wire.imported_timings import ImportedTiming
from ckwatch_lsp.kernel_files.language.document import KernelFileText, values_of
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.kept_answers import KeptAnswers
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

KEPT = 1000
"""Kernels whose imported timings are kept."""


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """A `[[shape]]` of a kernel file: its name, empty where it has none, and what it gives sizes."""

    name: str
    sizes: Mapping[str, int]

    def has(self, timing: ImportedTiming) -> bool:
        """Return True if a timing is of this shape. One without a name is known by its sizes."""
        if self.name:
            return timing.shape == self.name
        return bool(timing.sizes) and all(self.sizes.get(name) == size for name, size in timing.sizes.items())


def shape_at(text: str, line: int) -> ShapeTable | None:
    """The shape whose header, or whose name, stands on a line. Reads the whole text; call from a worker thread."""
    toml = KernelFileText(text).toml
    table = toml.table_at(toml.offset(Position(line, 0)))
    name = table.pair("name")
    if table.path != ("shape",) or line not in [toml.line_of(one.start) for one in (table, name) if one is not None]:
        return None
    values = values_of({pair.name: pair for pair in table.pairs})
    sizes = {size: value for size, value in values.items() if type(value) is int}
    return ShapeTable(str(values.get("name", "")), sizes)


class ImportedTimingsCache(SessionListener):
    """The imported timings of kernels, asked for when a kernel file is opened and after each import."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept = KeptAnswers[Sequence[ImportedTiming]](session, KEPT)
        self._changes: Counter[WorkspaceFolder] = Counter()
        self._imported_at: dict[WorkspaceFolder, float | None] = {}

    def of(self, folder: WorkspaceFolder, kernel: str) -> Sequence[ImportedTiming]:
        """Return the known timings; if they may have changed, they are requested, and known the next time."""
        return self._kept.known((folder, kernel), self._changes[folder], lambda: self._ask(folder, kernel)) or ()

    def opened(self, document: TextDocument) -> None:
        """Fetch those of its kernel."""
        folder = self._session.folder_for(document)
        if folder is not None and document.kind is DocumentKind.KERNEL_FILE:
            for kernel in dict.fromkeys(unit.kernel for unit in folder.units_at(document.path or "")):
                self.of(folder, kernel)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """There may be other timings, or other shapes and instances that they are about."""
        if not (topics.moves_units or topics.any_of("workspace")):
            return
        self._changes[folder] += 1
        at = None if folder.workspace is None else folder.workspace.imported_at
        if topics.moves_units or at != self._imported_at.get(folder):
            self._imported_at[folder] = at
            for document in self._session.documents.values():
                if self._session.folder_for(document) is folder:
                    self.opened(document)

    async def _ask(self, folder: WorkspaceFolder, kernel: str) -> Sequence[ImportedTiming]:
        client = folder.ready
        try:
            found = await client.imported_timings(kernel)
        except CkwatchError:
            found = []  # the kernel is in unsaved text only, or there is no history; the daemon says so elsewhere
        folder.mark_changed("imported")
        return found
