"""`experimental/serverStatus`: how each workspace's daemon is, in rust-analyzer's shape."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from ckwatch_lsp.folder import Folder, Standing
from ckwatch_lsp.parts import Part
from ckwatch_lsp.soon import Soon

if TYPE_CHECKING:
    from ckwatch_lsp.server import CkwatchServer

METHOD = "experimental/serverStatus"


@dataclass(frozen=True, slots=True)
class Status:
    """`quiescent`: nothing is being done."""

    health: Literal["ok", "warning", "error"]
    quiescent: bool
    message: str
    folder: str


class StatusPart(Part):
    """Tells it when it is another."""

    def __init__(self, server: CkwatchServer) -> None:
        self._server = server
        self._told: dict[Folder, Status] = {}
        self._changed: dict[Folder, None] = {}
        self._soon = Soon(server.session, self._tell)

    def told(self, folder: Folder, topics: frozenset[str]) -> None:  # noqa: ARG002  # nearly all of them count
        """Something is another."""
        if self._server.session.abilities.server_status:
            self._changed[folder] = None
            self._soon()

    async def _tell(self) -> None:
        changed, self._changed = self._changed, {}
        for folder in changed:
            status = status_of(folder)
            if self._told.get(folder) != status:
                self._told[folder] = status
                self._server.protocol.notify(METHOD, asdict(status))


def status_of(folder: Folder) -> Status:
    """How it stands with a workspace."""
    name, workspace = str(folder.root), folder.workspace
    problem = "" if folder.problem is None else folder.problem.message
    match folder.standing:
        case Standing.STARTING:
            return Status("ok", False, "the daemon is being started", name)
        case Standing.UNTRUSTED:
            return Status("warning", True, problem or "the workspace is not trusted", name)
        case Standing.BROKEN:
            return Status("error", True, problem or "there is no daemon", name)
        case Standing.STOPPED:
            return Status("warning", True, "the daemon was stopped", name)
    if workspace is None:
        return Status("ok", False, "the workspace is being read", name)
    work = work_words(folder)
    quiet = not workspace.busy and not work
    if workspace.problem is not None:
        return Status("error", quiet, workspace.problem, name)
    if workspace.warnings:
        topic, text = next(iter(workspace.warnings.items()))
        return Status("warning", quiet, f"{topic}: {text}", name)
    count = len(folder.units)
    return Status("ok", quiet, work or f"{count} unit{'' if count == 1 else 's'}", name)


def work_words(folder: Folder) -> str:
    """`3 compiling, 12 queued, timing gemm_f16/v3`; empty where nothing is done."""
    phases = Counter[str](unit.phase for unit in folder.units.values())
    parts = [f"{phases[name]} {name}" for name in ("compiling", "queued") if phases[name]]
    timed = next((unit for unit in folder.units.values() if unit.measuring is not None), None)
    if timed is not None:
        parts.append(f"timing {timed.kernel}/{timed.instance}")
    return ", ".join(parts)
