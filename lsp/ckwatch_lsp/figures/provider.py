"""Hints, lenses, hovers and Information diagnostics with figures, all answered from memory.

When what they show changes, the editor is asked to refresh them. A refresh concerns all documents, so it is debounced,
and left out where nothing that is shown has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from lsprotocol import types

from ckwatch.model.delays import REFRESH
from ckwatch.model.text import Position, Range
from ckwatch.wire.figures_text import shown_timing, verification_words
from ckwatch.wire.state import Unit
from ckwatch_lsp.figures import labels
from ckwatch_lsp.figures.affected_units import AffectedUnits
from ckwatch_lsp.figures.anchors import FigureAnchor
from ckwatch_lsp.figures.freshness import figures_freshness, timing_freshness
from ckwatch_lsp.figures.pages import resource_words
from ckwatch_lsp.figures.presenter import FigurePresenter
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.debounce import Debouncer
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import HoverText, LanguageProvider, SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics

SOURCE = "ckwatch"
TIMING, RESOURCES, VERIFICATION = "figures/timing", "figures/resources", "figures/verification"


def is_wanted(session: Session) -> bool:
    """By the settings, and for "auto" where the editor shows neither lenses nor hints that it can be asked to renew."""
    wanted = session.settings.information_diagnostics
    if wanted == "auto":
        return not (session.capabilities.refreshes_hints or session.capabilities.lenses)
    return wanted is True


def information(session: Session, presenter: FigurePresenter, path: str) -> Sequence[types.Diagnostic]:
    """The figures of an open file; none of a file that is not open."""
    document = session.open_at(path) if is_wanted(session) else None
    if document is None:
        return ()
    found = []
    for anchor, label in presenter.labels(document):
        units = presenter.anchors.units(document, anchor)
        messages = [(TIMING, label)] if anchor.sweep else unit_messages(units[0], session.settings.shape)
        found += [_diagnostic(document, anchor, code, text) for code, text in messages]
    return found


def unit_messages(unit: Unit, shape: str = "") -> list[tuple[str, str]]:
    """The codes and messages of one unit."""
    found = []
    timing = shown_timing(unit, shape)
    if timing is not None:
        freshness = timing_freshness(unit, timing)
        text = f"{unit.instance} on {timing.shape}: {labels.timing_cells(timing)}"
        found.append((TIMING, text if freshness == "fresh" else f"{text} ({freshness})"))
    verified = verification_words(unit)
    if unit.figures is not None:
        freshness = figures_freshness(unit)
        text = f"{unit.instance}: {resource_words(unit.figures)}"
        text = text if freshness == "fresh" else f"{text} ({freshness})"
        # Helix shows one message of a line.
        found.append((RESOURCES, f"{text}; {verified}" if verified else text))
    elif verified:
        found.append((VERIFICATION, f"{unit.instance}: {verified}"))
    return found


def _diagnostic(document: TextDocument, anchor: FigureAnchor, code: str, message: str) -> types.Diagnostic:
    line = anchor.end.line
    text = document.line(line)
    start = Position(line, len(text) - len(text.lstrip()))
    where = anchor.name or Range(start, max(start, Position(line, len(text.rstrip()))))
    return types.Diagnostic(
        document.codec.encode_range(where),
        message,
        severity=types.DiagnosticSeverity.Information,
        code=code,
        source=SOURCE,
    )


TOOLTIPS = 64
"""Hints of one answer up to which they have their tooltips at once, for an editor that does not ask for them later."""


class FiguresProvider(LanguageProvider):
    """The places of figures."""

    def __init__(
        self,
        session: Session,
        active: ActiveUnits,
        presenter: FigurePresenter,
        affected: AffectedUnits,
    ) -> None:
        self._session = session
        self._active = active
        self._presenter = presenter
        self._affected = affected

    async def hints(self, document: TextDocument, within: Range) -> Sequence[types.InlayHint]:
        """A label at the end of each line that has figures."""
        if not self._session.settings.hints or document.uri not in self._session.documents:
            return ()
        here = self._presenter.labels(document, within.start.line, within.end.line)
        at_once = not self._session.capabilities.resolved_tooltips and len(here) <= TOOLTIPS
        return [self._hint(document, anchor, label, at_once=at_once) for anchor, label in here]

    async def resolve(self, hint: types.InlayHint) -> types.InlayHint:
        """inlayHint/resolve: the tooltip, which is the hover's page."""
        given: Any = hint.data
        uri = given.get("uri") if isinstance(given, dict) else None
        document = self._session.documents.get(uri) if isinstance(uri, str) else None
        if document is not None:
            anchor = self._presenter.anchors.at(document, document.codec.decode(hint.position))
            if anchor is not None:
                hint.tooltip = self._page(document, anchor)
        return hint

    async def lenses(self, document: TextDocument) -> Sequence[types.CodeLens]:
        """Return the actions for the units of each line."""
        if not self._session.settings.lenses or document.uri not in self._session.documents:
            return ()
        found: list[types.CodeLens] = []
        for line, group in groupby(self.written_lenses(document), key=lambda one: one[0]):
            width = len(document.line(line))
            for at, (_, lens) in enumerate(group):  # editors order them by their places
                place = Position(line, min(at, width))
                found.append(types.CodeLens(document.codec.encode_range(Range(place, place)), command=lens))
        return found

    def written_lenses(self, document: TextDocument) -> list[tuple[int, types.Command]]:
        """The lenses by line: those of the file, of the instance with the cursor, or else of the active one, and of
        instances that run."""
        anchors = self._presenter.anchors.of(document)
        is_template = document.kind is DocumentKind.TEMPLATE
        found = [] if is_template else self._lenses_of_file(document)
        shown = self._pointed_at(document, anchors)
        running = 0
        for anchor in anchors:
            briefs = [self._presenter.brief(unit) for unit in self._presenter.anchors.units(document, anchor)]
            runs = any(brief.running or brief.unit.verifying for brief in briefs)
            running += runs
            if not briefs or not (anchor is shown or (runs and running <= labels.LENSES_LIMIT)):
                continue
            if anchor.sweep:
                lenses = labels.sweep_lenses(anchor.sweep, briefs, document.uri)
            else:
                lenses = labels.unit_lenses(briefs[0], document.uri, choosable=is_template)
            found += [(anchor.end.line, lens) for lens in lenses]
        return found + self._affected_lenses(document) if is_template else found

    def _lenses_of_file(self, document: TextDocument) -> list[tuple[int, types.Command]]:
        tuned = self._presenter.anchors.tuned(document)
        line = next((at for at in range(document.line_count) if document.line(at).strip()), 0)
        return [(line, lens) for lens in labels.file_lenses(self._active.units(document), document.uri, tuned=tuned)]

    def _pointed_at(self, document: TextDocument, anchors: Sequence[FigureAnchor]) -> FigureAnchor | None:
        """The instance with the cursor; where that is not known, or above all of them, the active one."""
        line = self._session.cursors.get(document.uri, -1)
        above = [anchor for anchor in anchors if anchor.end.line <= line]
        active = self._active.unit(document)
        of_active = (anchor for anchor in anchors if active is not None and active.id in anchor.units)
        return above[-1] if above else next(of_active, next(iter(anchors), None))

    async def hover(self, document: TextDocument, position: Position) -> HoverText | None:
        """The table, on a line that has figures; what others measured, on that of a shape."""
        if not self._session.settings.hovers:
            return None
        anchor = self._presenter.anchors.at(document, position)
        if anchor is not None and self._is_on(document, anchor, position):
            text = self._presenter.page(document, anchor)
        elif document.kind is DocumentKind.KERNEL_FILE:
            text = await self._presenter.shape_page(document, position.line)
        else:
            return None
        return HoverText(text) if text else None

    def _is_on(self, document: TextDocument, anchor: FigureAnchor, position: Position) -> bool:
        """In a template only on the word: the rest of that line is of other languages."""
        if document.kind is not DocumentKind.TEMPLATE:
            return True
        column = document.line(anchor.end.line).find("def_kernel")
        return column <= position.column <= column + len("def_kernel") if column >= 0 else True

    def _affected_lenses(self, document: TextDocument) -> list[tuple[int, types.Command]]:
        units = len(self._active.units(document))
        if units == 0:
            return []
        macros = self._presenter.anchors.landmarks(document).macros
        found = [
            (macro.line, labels.affected_lens(self._affected.count(document, macro.name, units), document.uri))
            for macro in macros
        ]
        if self._presenter.anchors.shows_kernel(document) or any(macro.line == 0 for macro in macros):
            return found
        return [(0, labels.affected_lens(units, document.uri)), *found]

    def _hint(self, document: TextDocument, anchor: FigureAnchor, label: str, *, at_once: bool) -> types.InlayHint:
        return types.InlayHint(
            position=document.codec.encode(anchor.end),
            label=label,
            padding_left=True,
            tooltip=self._page(document, anchor) if at_once else None,
            data={"uri": document.uri} if self._session.capabilities.resolved_tooltips else None,
        )

    def _page(self, document: TextDocument, anchor: FigureAnchor) -> types.MarkupContent:
        capabilities = self._session.capabilities
        kind = types.MarkupKind.Markdown if capabilities.markdown else types.MarkupKind.PlainText
        return types.MarkupContent(kind, self._presenter.page(document, anchor))


class FiguresRefresher(SessionListener):
    """Compares what open documents show with what they showed: those of which something has changed."""

    def __init__(self, session: Session, presenter: FigurePresenter, provider: FiguresProvider) -> None:
        self._session = session
        self._presenter = presenter
        self._provider = provider
        self._informed: dict[str, Sequence[object]] = {}
        self._hints: dict[str, Sequence[object]] = {}
        self._lenses: dict[str, Sequence[object]] = {}
        self._showing: dict[str, set[str]] = {}
        """By unit the URIs of the documents that show its figures."""
        self._refresh_soon = Debouncer(session.start, self._refresh, REFRESH)

    def opened(self, document: TextDocument) -> None:
        """Expect that figures may arrive after the editor has asked."""
        self._mark([document.uri])

    def closed(self, document: TextDocument) -> None:
        """It shows nothing any more."""
        for shown in (self._informed, self._hints, self._lenses):
            shown.pop(document.uri, None)

    def pointed(self, document: TextDocument) -> None:
        """Another instance may have the lenses."""
        if document.kind is DocumentKind.KERNEL_FILE and self._session.capabilities.refreshes_lenses:
            self._mark([document.uri])

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:
        """Figures may have changed."""
        if topics.moves_units or topics.any_of("active"):
            self._mark(
                each.uri for each in self._session.documents.values() if self._session.folder_for(each) is folder
            )
        else:
            self._mark(uri for name in topics.named("unit") for uri in self._showing.get(name, ()))
            for path in (*topics.named("readers"), *topics.named("affected")):
                self._mark(document.uri for document in self._session.documents.at(path))

    def configured(self) -> None:
        """Something may be shown, or not any more."""
        self._mark(self._session.documents)

    def _mark(self, uris: Iterable[str]) -> None:
        if stale := tuple(uris):
            self._refresh_soon(*stale)

    async def _refresh(self, *stale: str) -> None:
        documents = [each for uri in stale if (each := self._session.documents.get(uri)) is not None]
        capabilities, settings = self._session.capabilities, self._session.settings
        for document in documents:
            for anchor in self._presenter.anchors.of(document):
                for unit in anchor.units:
                    self._showing.setdefault(unit, set()).add(document.uri)
        if is_wanted(self._session) or self._informed:
            changed = _update(self._informed, documents, self._messages)
            self._session.information_changed([each.path for each in changed if each.path is not None])
        if capabilities.refreshes_hints and _update(
            self._hints, documents, self._labels if settings.hints else _nothing
        ):
            await self._session.editor.refresh("hints")
        lenses = self._provider.written_lenses if settings.lenses else _nothing
        if capabilities.refreshes_lenses and _update(self._lenses, documents, lenses):
            await self._session.editor.refresh("lenses")

    def _labels(self, document: TextDocument) -> Sequence[object]:
        return [label for _, label in self._presenter.labels(document)]

    def _messages(self, document: TextDocument) -> Sequence[object]:
        found = information(self._session, self._presenter, document.path or "")
        return [(each.code, each.message) for each in found]


def _nothing(_document: TextDocument) -> Sequence[object]:
    return ()


def _update(
    shown: dict[str, Sequence[object]],
    documents: Iterable[TextDocument],
    texts: Callable[[TextDocument], Sequence[object]],
) -> list[TextDocument]:
    """Have `shown` hold what these documents show now; those that showed something else."""
    changed = []
    for document in documents:
        found = texts(document)
        if found != shown.get(document.uri, found[:0]):
            changed.append(document)
            if found:
                shown[document.uri] = found
            else:
                del shown[document.uri]
    return changed
