"""Longer answers about a unit: its text with the map, its artifact, its standing in words, and the daemon's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ckwatch.machine.state import Phase, UnitState
from ckwatch.model.outcome import Outcome
from ckwatch.render.outcome import RenderOutcome
from ckwatch.runtime.shown import diagnostic_of, span_of
from ckwatch.runtime.tools import Tools
from ckwatch.sourcemap import Segment, SourceMap
from ckwatch.store import Artifact as Stored
from ckwatch.store.entry import artifact_from_json
from ckwatch.wire.messages import Artifact, ChainLink, RenderedText
from ckwatch.wire.messages import Segment as WireSegment

LOG_READ_BYTES = 1_000_000


def rendered_of(unit: str, outcome: RenderOutcome, with_map: bool) -> RenderedText:  # for a thread
    """A render as an answer."""
    text = outcome.rendered
    return RenderedText(
        unit=unit,
        text=None if text is None else text.text,
        symbol=None if text is None else text.symbol,
        token_key=None if text is None else text.token_key,
        diagnostics=tuple(diagnostic_of(one, stale=False) for one in outcome.diagnostics),
        read=dict(outcome.read),
        missed=tuple(sorted(outcome.missed)),
        map=None
        if text is None or not with_map
        else tuple(_segment(text.source_map, s) for s in text.source_map.segments),
    )


def _segment(source_map: SourceMap, segment: Segment) -> WireSegment:
    position: Any = {"line": segment.position.line, "column": segment.position.column}
    return WireSegment.model_construct(
        start=segment.start,
        end=segment.end,
        verbatim=segment.verbatim,
        exact=segment.exact,
        position=position,
        span=span_of(segment.site.span),
        label=segment.site.label,
        chain=tuple(
            ChainLink.model_construct(
                kind=link.site.kind.value,
                label=link.site.label,
                iteration=link.iteration if link.iteration >= 0 else None,
                span=span_of(link.site.span),
            )
            for link in source_map.chain(segment.frame)
        ),
    )


def artifact_of(unit: UnitState, tools: Tools) -> Artifact | None:
    """The stored result of the unit; None when there is none, or it was evicted."""
    result, compiler, store = unit.result, tools.compiler, tools.store
    if result is None or not result.key or compiler is None or store is None:
        return None
    stored: Stored | None = None
    product = next(iter(result.products.values()), None)
    try:
        if product is not None:
            folder = Path(product).parent
            stored = artifact_from_json((folder / "meta.json").read_bytes(), folder)
        else:
            stored = store.lookup(result.key, compiler.roots)
        if stored is None:
            return None
        return Artifact(
            unit=unit.key.unit,
            key=result.key,
            fresh=unit.fresh,
            outcome="built" if stored.ok else "failed",
            folder=str(stored.folder),
            symbol=stored.record.symbol,
            products={name: str(stored.folder / file) for name, file in stored.products.items()},
            commands=tuple(tuple(command.arguments) for command in stored.record.commands),
            log=stored.log,
        )
    except (OSError, ValueError):
        return None


def standing_of(unit: UnitState, toolchain_problem: str | None) -> str:
    """The unit's state in a sentence."""
    match unit.phase:
        case Phase.WAITING | Phase.RENDERING:
            return "being rendered"
        case Phase.LOOKING:
            return "rendered; looking into the store"
        case Phase.QUEUED:
            return "waiting for a free compiler"
        case Phase.COMPILING:
            return "being compiled"
        case Phase.IDLE if toolchain_problem is not None:
            return "checked; there is no compiler"
        case Phase.IDLE:
            return "checked; not compiled, because nobody has asked for it since it changed"
    if unit.render is not None and not unit.render.ok:
        return "refused before any compiler ran: the template or the instance has errors"
    if unit.outcome is Outcome.FAULTED:
        return "the host failed; nothing was learned of the kernel"
    if unit.outcome is Outcome.FAILED:
        return "the compiler found errors"
    return "built: nothing to do"


def log_tail(log_file: Path | None, lines: int) -> str:
    """The last lines of the log."""
    if log_file is None:
        return ""
    try:
        with log_file.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - LOG_READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:]) if lines > 0 else ""
