"""Where the work of a template's active unit goes, at the lines of the template: hints, and what is clearly lost.

A profile is counted on an emulator, which takes seconds: it is requested when a unit has a new artifact, and shown once
it is there, as long as the template has the text that it was requested for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lsprotocol import types

from ckwatch.client import Client
from ckwatch.model.delays import REFRESH
from ckwatch.model.errors import CkwatchError
from ckwatch.model.profiles import KernelProfile, ProfiledLine, ProfileHint
from ckwatch.model.text import Position, Range
from ckwatch.wire.analysis import UnitProfile
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures.freshness import figures_freshness
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.kept_answers import KeptAnswers
from ckwatch_lsp.session.providers import LanguageProvider, SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

SOURCE = "ckwatch"
KEPT = 20
LEAST_SHARE = 0.1
"""Of the instructions, for a line on which nothing is lost."""

MOST_LINES = 6
"""That have a hint."""


@dataclass(frozen=True, slots=True)
class LineNote:
    """What is shown of a line: a few words, all its figures, and the loss if there is one."""

    line: int
    label: str
    tooltip: str
    hint: ProfileHint | None = None


def line_notes(profile: UnitProfile, path: str) -> list[LineNote]:
    """The lines of a template that matter, the losses first."""
    lost = {hint.line: hint for hint in profile.hints if hint.in_template and hint.path == path}
    found: dict[int, LineNote] = {}
    here = [(kernel, line) for kernel in profile.kernels for line in kernel.lines if line.in_template]
    here.sort(key=lambda one: (one[1].line not in lost, -one[0].share(one[1].total)))
    for kernel, line in here:
        share, hint = kernel.share(line.total), lost.get(line.line)
        if line.path != path or line.line in found or len(found) == MOST_LINES:
            continue
        if hint is None and share < LEAST_SHARE:
            continue
        words = f"{100 * share:.0f} % of instructions" if hint is None else hint.text
        found[line.line] = LineNote(line.line, words, tooltip(profile, kernel, line, hint), hint)
    return sorted(found.values(), key=lambda note: note.line)


def tooltip(profile: UnitProfile, kernel: KernelProfile, line: ProfiledLine, hint: ProfileHint | None) -> str:
    """All figures of a line, as Markdown that also reads as text."""
    total = line.total
    lanes = total.lanes_at_work(kernel.wave_lanes)
    per, least, ways = total.lines_per_request, total.least_lines_per_request, total.conflict_ways
    classes = ", ".join(f"{number:,} {kind}" for kind, number in total.mix.items())
    rows = [
        *([hint.message] if hint is not None else []),
        f"{100 * kernel.share(total):.1f} % of the instructions of {kernel.name}: {classes}",
        *([f"{100 * lanes:.0f} % of the lanes are active"] if lanes is not None else []),
        *(
            [f"{per:.3g} cache lines per request, {least:.3g} at least"]
            if per is not None and least is not None
            else []
        ),
        *([f"{ways:.3g} turns of LDS per phase"] if ways is not None else []),
        *([f"waits for {', '.join(total.waits)}"] if total.waits else []),
        (
            f"counted on {kernel.workgroups:,} of {kernel.all_workgroups:,} workgroups of {profile.shape} "
            f"({profile.device.replace(':', ' ', 1)}); no times"
        ),
    ]
    return "\n\n".join(rows)


class LineProfiles(SessionListener):
    """The profiles of the active units of open templates."""

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self._active = active
        self._kept: KeptAnswers[UnitProfile] = KeptAnswers(session, KEPT)
        self._shown: dict[str, Sequence[LineNote]] = {}
        self._profiled: dict[str, set[str]] = {}
        """By active unit the URIs of the templates that show its profile."""
        self._refresh_soon = Debouncer(session.start, self._refresh, REFRESH)

    def notes(self, document: TextDocument) -> list[LineNote]:
        """What is known of the text as it is; a profile is requested where the unit has a new artifact."""
        folder, unit = self._session.folder_for(document), self._active.unit(document)
        if folder is None or unit is None or document.kind is not DocumentKind.TEMPLATE or document.path is None:
            return []
        self._profiled.setdefault(unit.id, set()).add(document.uri)
        if not self._session.settings.profile or figures_freshness(unit) != "fresh":
            return []
        key, stamp = (folder, unit.id, document.uri), self._stamp(unit, document)
        found = self._kept.known(key, stamp, lambda: self._ask(folder, unit, document.uri))
        if found is None or not self._kept.is_about(key, stamp):
            return []
        return line_notes(found, document.path)

    def _stamp(self, unit: Unit, document: TextDocument) -> tuple[object, ...]:
        return (unit.figures and unit.figures.artifact_key, document.text)

    async def _ask(self, folder: WorkspaceFolder, unit: Unit, uri: str) -> UnitProfile:
        found = await _profile(folder.ready, unit)
        self._refresh_soon(uri)
        return found

    def opened(self, document: TextDocument) -> None:
        """Request the profile of its active unit."""
        self._refresh_soon(document.uri)

    def closed(self, document: TextDocument) -> None:
        """It shows nothing any more."""
        self._shown.pop(document.uri, None)
        for uris in self._profiled.values():
            uris.discard(document.uri)

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Active units may have other artifacts."""
        if topics.moves_units or topics.any_of("active"):
            self._mark(each for each in self._session.documents.values() if self._session.folder_for(each) is folder)
        elif uris := [uri for name in topics.named("unit") for uri in self._profiled.get(name, ())]:
            self._refresh_soon(*uris)

    def configured(self) -> None:
        """Something may be shown, or not any more."""
        self._mark(self._session.documents.values())

    def _mark(self, documents: Iterable[TextDocument]) -> None:
        if uris := [document.uri for document in documents if document.kind is DocumentKind.TEMPLATE]:
            self._refresh_soon(*uris)

    async def _refresh(self, *uris: str) -> None:
        changed = []
        for document in (self._session.documents.get(uri) for uri in uris):
            if document is None:
                continue
            notes = self.notes(document)
            if notes != self._shown.get(document.uri, []):
                changed.append(document)
                self._shown[document.uri] = notes
        if changed:
            self._session.information_changed([each.path for each in changed if each.path is not None])
            if self._session.capabilities.refreshes_hints:
                await self._session.editor.refresh("hints")


async def _profile(client: Client, unit: Unit) -> UnitProfile:
    """Return the profile; an empty one where there can be none, which is not asked for again."""
    try:
        return await client.profile(unit.id)
    except CkwatchError:
        return UnitProfile(unit=unit.id, artifact_key="", device="", shape="", shape_name="", kernels=())


class LineProfileProvider(LanguageProvider):
    """Hints at the ends of lines."""

    def __init__(self, session: Session, profiles: LineProfiles) -> None:
        self._session = session
        self._profiles = profiles

    async def hints(self, document: TextDocument, within: Range) -> Sequence[types.InlayHint]:
        """A few words at the end of each line that matters."""
        if not self._session.settings.hints or document.uri not in self._session.documents:
            return ()
        markdown = types.MarkupKind.Markdown if self._session.capabilities.markdown else types.MarkupKind.PlainText
        return [
            types.InlayHint(
                position=document.codec.encode(Position(note.line, len(document.line(note.line)))),
                label=note.label,
                padding_left=True,
                tooltip=types.MarkupContent(markdown, note.tooltip),
            )
            for note in self._profiles.notes(document)
            if within.start.line <= note.line <= within.end.line
        ]


def lost_at_lines(session: Session, profiles: LineProfiles, path: str) -> list[types.Diagnostic]:
    """What is clearly lost at lines of an open template, as diagnostics of severity hint."""
    document = session.open_at(path)
    found = []
    for note in profiles.notes(document) if document is not None else ():
        if note.hint is None or document is None:
            continue
        text = document.line(note.line)
        where = Range(Position(note.line, len(text) - len(text.lstrip())), Position(note.line, len(text.rstrip())))
        found.append(
            types.Diagnostic(
                document.codec.encode_range(where),
                note.hint.message,
                severity=types.DiagnosticSeverity.Hint,
                code=f"profile/{note.hint.kind}",
                source=SOURCE,
            )
        )
    return found
