"""Figures as Information diagnostics, for editors that have no better place for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from ckwatch.wire.values import Unit
from ckwatch_lsp.documents import Document
from ckwatch_lsp.figures.about import resource_words
from ckwatch_lsp.figures.anchors import Anchor
from ckwatch_lsp.figures.labels import timing_cells, trimmed
from ckwatch_lsp.figures.shown import Shown
from ckwatch_lsp.figures.standing import figures_standing, shown_timing, timing_standing
from ckwatch_lsp.text import Position, Range

if TYPE_CHECKING:
    from ckwatch_lsp.session import Session

SOURCE = "ckwatch"
TIMING, RESOURCES = "figures/timing", "figures/resources"


def is_wanted(session: Session) -> bool:
    """By the settings, and for "auto" where the editor shows neither lenses nor hints that it can be asked to renew."""
    wanted = session.settings.information_diagnostics
    if wanted == "auto":
        return not (session.abilities.refreshes_hints or session.abilities.lenses)
    return wanted is True


def information(session: Session, shown: Shown, path: str) -> Sequence[types.Diagnostic]:
    """The figures of an open file; none of a file that is not open."""
    document = session.open_at(path) if is_wanted(session) else None
    if document is None:
        return ()
    found = []
    for anchor, label in shown.labels(document):
        units = shown.anchors.units(document, anchor)
        told = [(TIMING, trimmed(label))] if anchor.sweep else texts(units[0], session.settings.shape)
        found += [_diagnostic(document, anchor, code, text) for code, text in told]
    return found


def texts(unit: Unit, shape: str = "") -> list[tuple[str, str]]:
    """The codes and messages of one unit."""
    found = []
    timing = shown_timing(unit, shape)
    if timing is not None:
        standing = timing_standing(unit, timing)
        text = f"{unit.instance} on {timing.shape}: {trimmed(timing_cells(timing))}"
        found.append((TIMING, text if standing == "fresh" else f"{text} ({standing})"))
    if unit.figures is not None:
        standing = figures_standing(unit)
        text = f"{unit.instance}: {resource_words(unit.figures)}"
        found.append((RESOURCES, text if standing == "fresh" else f"{text} ({standing})"))
    return found


def _diagnostic(document: Document, anchor: Anchor, code: str, message: str) -> types.Diagnostic:
    line = anchor.end.line
    text = document.line(line)
    start = Position(line, len(text) - len(text.lstrip()))
    where = anchor.name or Range(start, max(start, Position(line, len(text.rstrip()))))
    return types.Diagnostic(
        document.places.their_range(where),
        message,
        severity=types.DiagnosticSeverity.Information,
        code=code,
        source=SOURCE,
    )
