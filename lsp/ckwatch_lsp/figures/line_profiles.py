"""The work of a template's active unit at the lines of the template: hints, heat, and what is clearly lost.

A profile is counted on an emulator, which takes seconds: it is requested when a unit has a new artifact, and shown once
it is there. While the text is edited the last one stays, marked stale, at the lines to which its own have moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from anyio import to_thread
from lsprotocol import types

from ckwatch.client import Client
from ckwatch.model.delays import REFRESH
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range
from ckwatch.wire.analysis import UnitProfile
from ckwatch.wire.state import Unit
from ckwatch_lsp.diagnostics.edit_tracking import shifted
from ckwatch_lsp.figures.anchors import FigureAnchors
from ckwatch_lsp.figures.freshness import figures_freshness
from ckwatch_lsp.figures.labels import MARKS, profile_lens
from ckwatch_lsp.figures.pages import markdown, plain
from ckwatch_lsp.figures.profile_notes import (
    LineHeat,
    LineNote,
    TemplateProfile,
    hint_message,
    line_page,
    template_profile,
)
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.kept_answers import KeptAnswers
from ckwatch_lsp.session.providers import HoverText, LanguageProvider, SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

SOURCE = "ckwatch"
HEAT = "ckwatch/lineHeat"
KEPT = 20
ENDLESS = 1 << 30
"""A column behind every line."""


@dataclass(slots=True)
class _Shown:
    """A document's part of a unit's profile: its notes, at the lines where they are at this revision of the text."""

    unit: str
    profile: TemplateProfile
    notes: list[LineNote]
    revision: int


class LineProfiles(SessionListener):
    """The profiles of the active units of open templates."""

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self._active = active
        self._kept: KeptAnswers[TemplateProfile] = KeptAnswers(session, KEPT)
        self._failed: dict[str, tuple[object, ...]] = {}
        """By URI the state of the unit that has no profile: it is requested again when that changes."""
        self._last: dict[str, _Shown] = {}
        self._told: dict[str, tuple[object, ...]] = {}
        self._heated: dict[str, tuple[str, tuple[LineHeat, ...]]] = {}
        """By URI the unit and its heat, as the editor was notified."""
        self._profiled: dict[str, set[str]] = {}
        """By active unit the URIs of the templates that show its profile."""
        self._refresh_soon = Debouncer(session.start, self._refresh, REFRESH)

    def current(self, document: TextDocument) -> TemplateProfile | None:
        """The profile of the text as it is, None as long as it is unknown; it is requested where the unit has a new
        artifact."""
        folder, unit = self._session.folder_for(document), self._active.unit(document)
        if folder is None or unit is None or document.kind is not DocumentKind.TEMPLATE or document.path is None:
            return None
        self._profiled.setdefault(unit.id, set()).add(document.uri)
        if not self._session.settings.profile or figures_freshness(unit) != "fresh":
            return None
        key, stamp, path = (folder, unit.id, document.uri), self._stamp(unit, document), document.path
        if self._failed.get(document.uri) == (stamp, unit.generation, unit.cause):
            self._last.pop(document.uri, None)
            return TemplateProfile(profile=_nothing(unit), lines={})
        found = self._kept.known(key, stamp, lambda: self._ask(folder, unit, stamp, document.uri, path))
        if found is None or not self._kept.is_about(key, stamp):
            return None
        last = self._last.get(document.uri)
        if last is None or last.profile is not found:
            self._last[document.uri] = _Shown(unit.id, found, list(found.notes), document.revision)
        return found

    def notes(self, document: TextDocument) -> tuple[list[LineNote], bool]:
        """The lines that matter, and True if they are those of the text as it is."""
        fresh, last, unit = (
            self.current(document) is not None,
            self._last.get(document.uri),
            self._active.unit(document),
        )
        if last is None or unit is None or last.unit != unit.id or not self._session.settings.profile:
            return [], False
        if last.revision != document.revision:
            edits = document.edits_since(last.revision)
            moved = [(note, shifted(_whole(note.line), edits)) for note in last.notes]
            last.notes = [replace(note, line=place.start.line) for note, place in moved if place is not None]
            last.revision = document.revision
        return last.notes, fresh

    def at(self, document: TextDocument) -> list[tuple[str, TemplateProfile]]:
        """The profiles of the text as it is, by instances, the active one first; others as far as they are known."""
        mine, unit, folder = self.current(document), self._active.unit(document), self._session.folder_for(document)
        if mine is None or unit is None:
            return []
        found = [(unit.instance, mine)]
        for other in self._active.units(document):
            key, stamp = (folder, other.id, document.uri), self._stamp(other, document)
            if other.id != unit.id and self._kept.is_about(key, stamp):
                known = self._kept.known(key, stamp, self._unasked)
                found += [(other.instance, known)] if known is not None else []
        return found

    def _stamp(self, unit: Unit, document: TextDocument) -> tuple[object, ...]:
        artifact = unit.figures and unit.figures.artifact_key
        return (artifact, unit.profiled_at, self._session.settings.profile_against, document.text)

    async def _ask(self, folder: WorkspaceFolder, unit: Unit, stamp: object, uri: str, path: str) -> TemplateProfile:
        try:
            profile = await compared_profile(folder.ready, unit, self._session.settings.profile_against)
            return await to_thread.run_sync(template_profile, profile, path)
        except CkwatchError:  # the unit may just be built anew
            self._failed[uri] = (stamp, unit.generation, unit.cause)
            raise
        finally:  # not before it is known, which takes a while on a busy machine
            self._refresh_soon(uri)

    async def _unasked(self) -> TemplateProfile:
        raise CkwatchError("what is kept is not requested")

    def opened(self, document: TextDocument) -> None:
        """Request the profile of its active unit."""
        self._refresh_soon(document.uri)

    def closed(self, document: TextDocument) -> None:
        """It shows nothing any more."""
        for shown in (self._failed, self._last, self._told, self._heated):
            shown.pop(document.uri, None)
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
            notes, fresh = self.notes(document)
            last = self._last.get(document.uri)
            told = (tuple(notes), fresh, last.profile.summary if fresh and last is not None else "")
            if told != self._told.get(document.uri, ((), False, "")):
                changed.append(document)
                self._told[document.uri] = told
            self._tell_heat(document)
        if changed:
            self._session.information_changed([each.path for each in changed if each.path is not None])
            if self._session.capabilities.refreshes_hints:
                await self._session.editor.refresh("hints")
            if self._session.capabilities.refreshes_lenses:
                await self._session.editor.refresh("lenses")

    def _tell_heat(self, document: TextDocument) -> None:
        """Notify the editor of lines' heat where it is another. It moves them with edits, until there is a new one."""
        if not self._session.capabilities.line_heat:
            return
        unit, known = self._active.unit(document), self.current(document)
        now = (unit.id if unit is not None else "", known.heat if known is not None else ())
        before = self._heated.get(document.uri, ("", ()))
        if known is None and before[0] == now[0] and self._session.settings.profile:
            return
        self._heated[document.uri] = now
        if now[1] != before[1]:
            lines = [{"line": one.line, "level": one.level, "share": one.share} for one in now[1]]
            self._session.editor.notify(HEAT, {"uri": document.uri, "lines": lines})


def _nothing(unit: Unit) -> UnitProfile:
    return UnitProfile(unit=unit.id, artifact_key="", device="", shape="", shape_name="", kernels=())


def _whole(line: int) -> Range:
    return Range(Position(line, 0), Position(line, ENDLESS))


async def compared_profile(client: Client, unit: Unit, against: str) -> UnitProfile:
    """Return the profile compared with `against` (`previous`, `baseline`, a unit, or an instance of the same kernel),
    or with nothing where that has none. Raises CkwatchError where there is no profile."""
    is_earlier = against.partition(":")[0] in ("previous", "baseline")
    named = against if is_earlier or "/" in against else f"{unit.kernel}/{against}@{unit.arch}"
    try:
        return await client.profile(unit.id, against=named)
    except CkwatchError:
        return await client.profile(unit.id)


class LineProfileProvider(LanguageProvider):
    """Hints at the ends of lines, their hovers, and a lens at the kernel."""

    def __init__(self, session: Session, profiles: LineProfiles, anchors: FigureAnchors) -> None:
        self._session = session
        self._profiles = profiles
        self._anchors = anchors

    async def hints(self, document: TextDocument, within: Range) -> Sequence[types.InlayHint]:
        """A few words at the end of each line that matters."""
        if not self._session.settings.hints or document.uri not in self._session.documents:
            return ()
        notes, fresh = self._profiles.notes(document)
        known = self._profiles.at(document)[:1] if fresh else []
        kind = types.MarkupKind.Markdown if self._session.capabilities.markdown else types.MarkupKind.PlainText
        return [
            types.InlayHint(
                position=document.codec.encode(Position(note.line, len(document.line(note.line)))),
                label=MARKS["fresh" if fresh else "stale"] + note.label,
                padding_left=True,
                tooltip=types.MarkupContent(kind, self._page(known, note.line)) if known else None,
            )
            for note in notes
            if within.start.line <= note.line <= within.end.line
        ]

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """All figures of the line, of each instance that was profiled."""
        if not self._session.settings.hovers or document.uri not in self._session.documents:
            return None
        text = self._page(self._profiles.at(document), position.line)
        return HoverText(text) if text else None

    async def lenses(self, document: TextDocument) -> Sequence[types.CodeLens]:
        """A summary at the kernel, which opens the profile."""
        if not self._session.settings.lenses or document.uri not in self._session.documents:
            return ()
        known = self._profiles.current(document)
        if known is None or not known.summary:
            return ()
        return [
            types.CodeLens(
                document.codec.encode_range(Range(Position(anchor.end.line, 0), Position(anchor.end.line, 0))),
                command=profile_lens(known.summary, known.profile.unit, document.uri),
            )
            for anchor in self._anchors.of(document)
        ]

    def _page(self, known: Sequence[tuple[str, TemplateProfile]], line: int) -> str:
        blocks = line_page(known, line)
        return markdown(blocks) if self._session.capabilities.markdown else plain(blocks)


def lost_at_lines(session: Session, profiles: LineProfiles, path: str) -> list[types.Diagnostic]:
    """The clear losses at lines of an open template, as diagnostics of severity hint, and what costs more than
    before."""
    document = session.open_at(path)
    found = []
    for note in profiles.notes(document)[0] if document is not None else ():
        if document is None:
            continue
        text = document.line(note.line)
        where = document.codec.encode_range(
            Range(Position(note.line, len(text) - len(text.lstrip())), Position(note.line, len(text.rstrip())))
        )
        if note.worse:
            found.append(
                types.Diagnostic(
                    *(where, note.worse, types.DiagnosticSeverity.Information), code="profile/worse", source=SOURCE
                )
            )
        if note.hint is not None:
            pattern, related, message = note.hint.pattern, session.capabilities.related, hint_message(note.hint)
            at = types.Location(document.uri, where)
            if not note.hint.in_template:
                start = types.Position(note.hint.line, 0)
                at = types.Location(session.uri_at(note.hint.path), types.Range(start, start))
            found.append(
                types.Diagnostic(
                    where,
                    f"{message}. {pattern}" if pattern and not related else message,
                    severity=types.DiagnosticSeverity.Hint,
                    code=f"profile/{note.hint.kind}",
                    source=SOURCE,
                    related_information=[types.DiagnosticRelatedInformation(at, pattern or note.hint.text)]
                    if related and (pattern or not note.hint.in_template)
                    else None,
                )
            )
    return found
