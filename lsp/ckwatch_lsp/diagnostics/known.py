"""What is known to be wrong in a file: what the daemon tells, at its places in the text as it is now.

The daemon speaks of the text that it has. When it tells of a file again, most is what it told before: that keeps the
place to which edits have moved it meanwhile, unless its unit has been looked at anew. What it does not tell any more is
kept while the unit is on its way to a result, so that nothing disappears that will be back in a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ckwatch.wire.values import Diagnostic, Fix, Related, Span, Unit
from ckwatch_lsp.diagnostics.shifting import shifted, touches
from ckwatch_lsp.documents import Edit
from ckwatch_lsp.text import Position as OurPosition
from ckwatch_lsp.text import Range

RENDERED = frozenset({"jinja", "rule", "kernel-file", "workspace"})
"""Sources whose diagnostics are there when a unit has been rendered; for others a compiler has to run."""

Edits = Mapping[str, Sequence[Edit]]
"""Edits of files by absolute path."""


@dataclass(frozen=True, slots=True)
class Known:
    """A diagnostic: as it was `told`, and as it is `now`, None where its text was deleted. `kept`: it was told before,
    and not the last time. `counted` are its units, and of how many, as they were when all had been rendered; None while
    that was never so. `otherwise` is where it is unless it was told of an older text, which it seems to have been."""

    told: Diagnostic
    now: Diagnostic | None
    kept: bool = False
    counted: tuple[tuple[str, ...], int] | None = None
    otherwise: Diagnostic | None = None


def moved(diagnostic: Diagnostic, edits: Edits) -> Diagnostic | None:
    """The diagnostic after edits of some files; None where its own text was deleted. A fix that an edit touches is
    lost, and so are the others that belong to it."""
    span = moved_span(diagnostic.span, edits)
    if span is None:
        return None
    related = tuple(_moved_related(one, edits) for one in diagnostic.related)
    fixes: tuple[Fix, ...] = ()
    for fix in diagnostic.fixes:
        place = _untouched(fix.span, edits)
        if place is None:
            fixes = ()
            break
        fixes += (fix if place is fix.span else fix.model_copy(update={"span": place}),)
    new: dict[str, object] = {}
    if span is not diagnostic.span:
        new["span"] = span
    if any(one is not other for one, other in zip(related, diagnostic.related, strict=True)):
        new["related"] = related
    if fixes != diagnostic.fixes:
        new["fixes"] = fixes
    return diagnostic.model_copy(update=new) if new else diagnostic


def moved_span(span: Span, edits: Edits) -> Span | None:
    """The place after edits of its file; None if it was deleted."""
    own = edits.get(span.path)
    if not own or all(edit.before.start.line > span.end.line for edit in own):
        return span
    before = range_in(span)
    found = shifted(before, own)
    return None if found is None else span if found == before else span_at(span.path, found)


def range_in(span: Span) -> Range:
    """The place within its file."""
    start, end = span.start, span.end
    return Range(OurPosition(start.line, start.column), OurPosition(end.line, end.column))


def span_at(path: str, found: Range) -> Span:
    """The inverse."""
    start, end = found.start, found.end
    places = {"start": _plain(start), "end": _plain(end)}
    return Span.model_validate({"path": path, **places})  # a tenth of the time that `model_construct` takes


def _plain(position: OurPosition) -> dict[str, int]:
    return {"line": position.line, "column": position.column}


def paths_of(diagnostic: Diagnostic) -> set[str]:
    """The files that it speaks of."""
    related = (one.span.path for one in diagnostic.related if one.span is not None)
    return {diagnostic.span.path, *related, *(fix.span.path for fix in diagnostic.fixes)}


def edited(known: Iterable[Known], edits: Edits) -> list[Known]:
    """The same after edits of some files."""
    return [
        one
        if one.now is None or paths_of(one.now).isdisjoint(edits)
        else replace(one, now=moved(one.now, edits), otherwise=one.otherwise and moved(one.otherwise, edits))
        for one in known
    ]


def taken(
    known: Sequence[Known],
    told: Sequence[Diagnostic],
    *,
    places: Callable[[Diagnostic], Iterator[Diagnostic | None]],
    is_new: Callable[[Diagnostic], bool],
    waiting: Callable[[Diagnostic], tuple[str, ...] | None],
) -> list[Known]:
    """What is known when the daemon tells these.

    `places` moves one from the daemon's text to the present one, then from older texts that it may be of; that is
    believed where the same is known to be at that place. `is_new` tells whether it was found anew, though it reads as
    before; `waiting` gives the units for whose sake one that is not told any more is kept, None if it is not.
    """
    present = {identity(one.now) for one in known if one.now is not None}

    def placed(diagnostic: Diagnostic, count: tuple[tuple[str, ...], int] | None) -> Known:
        candidates = places(diagnostic)
        first = next(candidates)
        if first is None or identity(first) in present:
            return Known(diagnostic, first, counted=count)
        for other in candidates:
            if other is not None and identity(other) in present:
                return Known(diagnostic, other, counted=count, otherwise=first)
        return Known(diagnostic, first, counted=count)

    before = _by(identity, known)
    matched = [_first(before, identity(diagnostic)) for diagnostic in told]
    left = [one for rest in before.values() for one in rest]
    # of a text between the last one that was told of and the present one
    alike = _by(_words, left) if any(one is None for one in matched) else {}
    found = []
    for diagnostic, same in zip(told, matched, strict=True):
        old = same
        if old is None and diagnostic.stale and (old := _first(alike, _words(diagnostic))) is not None:
            left.remove(old)
        if old is None:
            found.append(placed(diagnostic, None))
        elif not diagnostic.stale and is_new(diagnostic):
            found.append(placed(diagnostic, old.counted))
        else:
            again = (_with_units(old.now, diagnostic), _with_units(old.otherwise, diagnostic))
            found.append(Known(diagnostic, again[0], counted=old.counted, otherwise=again[1]))
    for one in left:
        units = waiting(one.told)
        if units is not None:
            now = None if one.now is None else one.now.model_copy(update={"units": units, "stale": True})
            was = one.told.model_copy(update={"units": units, "stale": True})
            found.append(Known(was, now, kept=True, counted=one.counted))
    return found


def _by(
    key: Callable[[Diagnostic], tuple[object, ...]], known: Iterable[Known]
) -> dict[tuple[object, ...], list[Known]]:
    found: dict[tuple[object, ...], list[Known]] = {}
    for one in known:
        found.setdefault(key(one.told), []).append(one)
    return found


def _first(known: Mapping[tuple[object, ...], list[Known]], key: tuple[object, ...]) -> Known | None:
    same = known.get(key)
    return same.pop(0) if same else None


def _words(diagnostic: Diagnostic) -> tuple[object, ...]:
    return (diagnostic.severity, diagnostic.source, diagnostic.code, diagnostic.message)


def identity(diagnostic: Diagnostic) -> tuple[object, ...]:
    """What makes two diagnostics of a file the same one, as the daemon sees it."""
    place = range_in(diagnostic.span)
    return (diagnostic.severity, diagnostic.source, diagnostic.code, diagnostic.message, place)


def counted(known: Iterable[Known]) -> list[Known]:
    """The same when all units have been rendered: nothing speaks of an older text, and how many have each is known."""
    settled = (one if one.otherwise is None else replace(one, now=one.otherwise, otherwise=None) for one in known)
    return [one if one.now is None else replace(one, counted=_count(one, one.now)) for one in settled]


def _count(one: Known, now: Diagnostic) -> tuple[tuple[str, ...], int]:
    before = one.counted
    if before is not None and before[1] == now.unit_count and set(before[0]) == set(now.units):
        return before
    return now.units, now.unit_count


def shown(known: Iterable[Known]) -> list[Diagnostic]:
    """What is to be shown, in the order of the text; those that stand at the same place now are one.

    Units are those that were counted last, so that a message does not change with each unit that is rendered. What a
    unit that is on its way has told is hidden by what another tells instead, of the new text.
    """
    present = [one for one in known if one.now is not None]
    new: dict[tuple[object, ...], list[Diagnostic]] = {}
    for one in present:
        if one.counted is None and one.now is not None and not one.now.stale:
            new.setdefault(_kind(one.now), []).append(one.now)
    found: dict[tuple[object, ...], Diagnostic] = {}
    for one in present:
        if one.now is None or _is_replaced(one.now, new):
            continue
        units, count = one.counted or ((), 0)
        now = one.now.model_copy(update={"units": units, "unit_count": count})
        key = identity(now)
        other = found.get(key)
        found[key] = now if other is None else _joined(other, now)
    return sorted(found.values(), key=lambda one: (range_in(one.span), one.code, one.message))


def _is_replaced(now: Diagnostic, new: Mapping[tuple[object, ...], Sequence[Diagnostic]]) -> bool:
    if not now.stale or now.source not in RENDERED:
        return False
    place = range_in(now.span)
    here = [one for one in new.get(_kind(now), ()) if _meet(place, range_in(one.span))]
    return bool(here) and all(one.message != now.message for one in here)


def _meet(one: Range, other: Range) -> bool:
    return one.start <= other.end and other.start <= one.end


def _kind(now: Diagnostic) -> tuple[object, ...]:
    return (now.severity, now.source, now.code)


def units_waiting(
    diagnostic: Diagnostic,
    units: Mapping[str, Unit],
    heard: Mapping[str, int],
    *,
    loaded: bool,
    is_left_out: Callable[[str], bool],
) -> tuple[str, ...] | None:
    """The units of a diagnostic of which there is no result yet that could do without it; None if there are none.

    `loaded`: the daemon knows its workspace. `heard`: units of which the file's state tells something new.
    `is_left_out`: of a unit that is not there, whether a mistake in its kernel file may be the reason.
    """
    if not loaded:
        return diagnostic.units
    rendered = diagnostic.source in RENDERED
    found = []
    for name in diagnostic.units:
        unit = units.get(name)
        if unit is None:
            if is_left_out(name):
                found.append(name)
        elif not unit.fresh and (unit.phase in ("waiting", "rendering") or not (rendered or name in heard)):
            found.append(name)
    return tuple(found) or None


def _joined(one: Diagnostic, other: Diagnostic) -> Diagnostic:
    first, second = (other, one) if one.stale and not other.stale else (one, other)
    units = tuple(dict.fromkeys((*first.units, *second.units)))
    count = max(first.unit_count, second.unit_count, len(units))
    return first.model_copy(update={"units": units, "unit_count": count})


def _with_units(now: Diagnostic | None, told: Diagnostic) -> Diagnostic | None:
    if now is None:
        return None
    return now.model_copy(update={"units": told.units, "unit_count": told.unit_count, "stale": told.stale})


def _moved_related(one: Related, edits: Edits) -> Related:
    if one.span is None:
        return one
    span = moved_span(one.span, edits)
    return one if span is one.span else Related.model_validate({"message": one.message, "span": span})


def _untouched(span: Span, edits: Edits) -> Span | None:
    place = range_in(span)
    for edit in edits.get(span.path, ()):
        if touches(place, edit):
            return None
        after = shifted(place, (edit,))
        if after is None:
            return None
        place = after
    return span if place == range_in(span) else span_at(span.path, place)
