"""Caches parsed kernel files, and the daemon's answers about keys, templates, parameters and values.

A cached answer that may be out of date is used as it is, and refreshed at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from anyio import to_thread

from ckwatch.model.delays import FIRST_ANSWER, KERNEL_FILE_ANSWERS, PARAMETER_VALUES
from ckwatch.model.text import Position
from ckwatch.wire.analysis import OccupancySteps
from ckwatch.wire.language import KeyDescription, ParameterValue, TemplateDetail
from ckwatch.wire.state import Unit
from ckwatch_lsp.kernel_files.language.completion import KeyTable
from ckwatch_lsp.kernel_files.language.document import InstanceTable, KernelFileText, SweepEntry
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.kept_answers import KeptAnswers
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

KEPT = 16
LARGE = 20_000
"""Characters from which a text is worked on in a thread."""

LINE = 30
"""Characters of a line, about."""

Answer = TypeVar("Answer")


class ParsedKernelFiles:
    """The parsed documents."""

    def __init__(self, active: ActiveUnits) -> None:
        self._active = active

    async def of(self, document: TextDocument) -> KernelFileText:
        """The document as a kernel file, whatever it holds."""
        text = document.text
        return _parsed(text) if len(text) < LARGE else await to_thread.run_sync(_parsed, text)

    async def run(self, document: TextDocument, work: Callable[[], Answer]) -> Answer:
        """Do what takes as long as the text is large: in a thread where it is."""
        return work() if document.line_count < LARGE // LINE else await to_thread.run_sync(work)

    def unit_of(
        self, folder: WorkspaceFolder, document: TextDocument, instance: InstanceTable | SweepEntry | None
    ) -> Unit | None:
        """The unit to ask the daemon about: of this instance or sweep, else the document's active one."""
        active = self._active.unit(document)
        units = folder.units_at(document.path or "")
        if instance is None:
            return active or next(iter(units), None)
        if isinstance(instance, SweepEntry):
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


@lru_cache(maxsize=KEPT)
def _parsed(text: str) -> KernelFileText:
    return KernelFileText(text)


def subject_of(file: KernelFileText, position: Position, parameter: str) -> InstanceTable | SweepEntry | None:
    """Whose parameter stands at a place: an instance's or a sweep's, in `[defaults]` that of the first that has none of
    its own."""
    found = file.instance_at(position) or file.sweep_at(position)
    if found is not None:
        return found
    return next((one for one in file.instances if one.name and parameter not in one.parameters), None)


VALUES_KEPT_S = 30.0
VALUES_KEPT = 200
ANSWERS_KEPT = 1000


class DaemonAnswers(SessionListener):
    """The daemons' answers, by workspace. What may be out of date is requested again after `again_s` seconds."""

    def __init__(self, session: Session, *, again_s: float = KERNEL_FILE_ANSWERS.seconds) -> None:
        self._session = session
        self._changes: dict[WorkspaceFolder, int] = {}
        self._kept = KeptAnswers[Any](session, ANSWERS_KEPT, again_s=again_s)
        self._values = KeptAnswers[Sequence[ParameterValue]](session, VALUES_KEPT, age_s=VALUES_KEPT_S)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Templates and parameters may be others."""
        if topics.any_of("connection"):
            self._values.clear()
        if topics.any_of("connection") or topics.named("unit"):
            self._changes[folder] = self._changes.get(folder, 0) + 1
        if topics.any_of("connection") and folder.client is not None:
            for document in self._session.documents.values():
                self.opened(document)

    def opened(self, document: TextDocument) -> None:
        """Request what will be needed for the document."""
        folder = self._session.folder_for(document)
        if (
            folder is not None
            and folder.client is not None
            and document.kind in (DocumentKind.KERNEL_FILE, DocumentKind.SETTINGS)
        ):
            self._session.start(self._prepare, folder, document)

    async def _prepare(self, folder: WorkspaceFolder, document: TextDocument) -> None:
        await self.keys(folder, document.kind)
        if document.kind is DocumentKind.KERNEL_FILE:
            await self.templates(folder)
            template = _parsed(document.text).template
            name = None if template is None else template.read()
            if isinstance(name, str):
                await self.template(folder, name)

    async def keys(self, folder: WorkspaceFolder, kind: DocumentKind) -> KeyTable:
        """The keys of kernel files or of `ckwatch.toml`; none while there is no daemon."""
        found: tuple[KeyTable, KeyTable] | None = await self._answer(
            folder, "vocabulary", lambda: _keys(folder), folder.client
        )
        if found is None:
            return KeyTable(())
        return found[1] if kind is DocumentKind.SETTINGS else found[0]

    async def templates(self, folder: WorkspaceFolder) -> Mapping[str, str]:
        """The templates that a kernel file could name, with their files."""
        found: Mapping[str, str] | None = await self._answer(folder, "templates", lambda: _templates(folder))
        return found or {}

    async def template(self, folder: WorkspaceFolder, name: str) -> TemplateDetail | None:
        """Return a template's parts and parameters; None if there is none."""
        return await self._answer(folder, f"template/{name}", lambda: folder.ready.template(name))

    async def occupancy_steps(self, folder: WorkspaceFolder, unit: Unit, artifact: str) -> OccupancySteps | None:
        """Return changes that may raise the occupancy of a unit's artifact; None while they are unknown."""
        steps: OccupancySteps | None = await self._answer(
            folder, f"occupancy/{unit.id}", lambda: folder.ready.occupancy_steps(unit), artifact
        )
        return steps if steps is not None and steps.artifact_key == artifact else None

    async def values(
        self,
        folder: WorkspaceFolder,
        unit: Unit,
        parameter: str,
        parameters: Mapping[str, Any],
        *,
        wait_s: float = PARAMETER_VALUES.seconds,
    ) -> tuple[Sequence[ParameterValue], bool]:
        """Return the rules' verdicts on a parameter's values, the others being `parameters`; and True if they are
        complete.

        Without an answer in time there are none yet.
        """
        key = (folder, unit.id, parameter, json.dumps(parameters, sort_keys=True, default=str))
        given = dict(parameters)
        found = await self._values.get(
            key, "", lambda: folder.ready.values(unit.id, parameter, parameters=given), wait_s, wait_s
        )
        return found or (), found is not None

    async def _answer(
        self, folder: WorkspaceFolder, what: str, ask: Callable[[], Awaitable[Answer]], version: object = None
    ) -> Answer | None:
        """`version`: all that the answer depends on, where that is not anything that changes in the folder."""
        stamp = self._changes.get(folder, 0) if version is None else version
        found: Answer | None = await self._kept.get((folder, what), stamp, ask, FIRST_ANSWER.seconds)
        return found


async def _keys(folder: WorkspaceFolder) -> tuple[KeyTable, KeyTable]:
    vocabulary = await folder.ready.vocabulary()
    of_files: Sequence[KeyDescription] = vocabulary.kernel_file
    return KeyTable(of_files), KeyTable(vocabulary.settings)


async def _templates(folder: WorkspaceFolder) -> Mapping[str, str]:
    return {one.name: one.path for one in await folder.ready.templates()}
