"""Diagnostics that stay, move and go when the daemon sends a file's state again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import Position, Range, Span
from ckwatch.model.text import Position as At
from ckwatch.wire.state import Unit
from ckwatch_lsp.diagnostics.store import TrackedDiagnostic, counted, edited, moved, shown, taken, units_waiting
from ckwatch_lsp.session.documents import TextChange
from helpers.each_row import each_row

PATH, OTHER = "/w/a.hip.j2", "/w/b.j2"
LINE_ABOVE = {PATH: (TextChange(Range(At(0, 0), At(0, 0)), At(1, 0)),)}
LINE_GONE = {PATH: (TextChange(Range(At(4, 0), At(5, 0)), At(4, 0)),)}


def span(line: int, start: int = 0, end: int = 5, path: str = PATH) -> Span:
    return Span(path=path, start=Position(line=line, column=start), end=Position(line=line, column=end))


def told(line: int, message: str = "bad", units: tuple[str, ...] = ("k/a@x",), **more: Any) -> Diagnostic:
    given = {"severity": Severity.ERROR, "source": Source.JINJA, "code": "template/x", "unit_count": 3}
    return Diagnostic(**{**given, "message": message, "span": span(line), "units": units, **more})


def take(
    known: Sequence[TrackedDiagnostic],
    *diagnostics: Diagnostic,
    new: bool = False,
    waiting: tuple[str, ...] | None = None,
) -> list[TrackedDiagnostic]:
    """As if the daemon had the text of which it tells."""
    return taken(known, diagnostics, places=lambda one: iter((one,)), is_new=lambda _: new, waiting=lambda _: waiting)


def lines(known: Sequence[TrackedDiagnostic]) -> list[tuple[int, str]]:
    return [(one.span.start.line, one.message) for one in shown(known)]


def test_what_is_told_is_shown_in_the_order_of_the_text() -> None:
    assert lines(take([], told(4, "b"), told(1, "a"))) == [(1, "a"), (4, "b")]


def test_what_is_told_again_stays_where_the_edits_moved_it() -> None:
    known = edited(take([], told(4)), LINE_ABOVE)
    assert lines(known) == [(5, "bad")]
    assert lines(take(known, told(4))) == [(5, "bad")]
    assert lines(take(known, told(4, stale=True))) == [(5, "bad")]


def test_what_was_found_anew_is_where_it_was_found() -> None:
    known = edited(take([], told(4)), LINE_ABOVE)
    assert lines(take(known, told(4), new=True)) == [(4, "bad")]
    assert lines(take(known, told(5), new=True)) == [(5, "bad")]


def test_what_is_stale_says_nothing_new_of_where_it_stands() -> None:
    """It may speak of a text between the one of which was told before and the present one."""
    known = edited(edited(take([], told(4)), LINE_ABOVE), LINE_ABOVE)
    assert lines(take(known, told(5, stale=True), waiting=("k/a@x",))) == [(6, "bad")]
    assert lines(take(known, told(5, "other", stale=True), new=True)) == [(5, "other")]


def test_what_is_told_no_more_goes_unless_its_unit_is_on_its_way() -> None:
    known = take([], told(4))
    assert take(known) == []
    kept = take(known, waiting=("k/a@x",))
    assert [(one.kept, one.now is not None and one.now.stale) for one in kept] == [(True, True)]
    assert lines(edited(kept, LINE_ABOVE)) == [(5, "bad")]
    assert take(kept) == []
    assert [one.kept for one in take(kept, told(4))] == [False]


def test_what_was_deleted_is_not_shown_and_comes_back_when_it_is_found_again() -> None:
    known = edited(take([], told(4)), LINE_GONE)
    assert lines(known) == []
    assert lines(take(known, told(4, stale=True))) == []
    assert lines(take(known, told(4), new=True)) == [(4, "bad")]


def test_what_two_units_tell_of_one_place_is_one() -> None:
    """One has been rendered anew and tells of the present text, the other will."""
    known = edited(counted(take([], told(4, units=("k/a@x", "k/b@x")))), LINE_ABOVE)
    known = taken(
        known,
        [told(4, units=("k/b@x",), stale=True), told(5, units=("k/a@x",))],
        places=lambda one: iter((one,)),
        is_new=lambda one: not one.stale,
        waiting=lambda _: None,
    )
    (one,) = shown(known)
    assert (one.span.start.line, one.units, one.stale) == (5, ("k/a@x", "k/b@x"), False)


def test_what_is_told_of_an_older_text_is_known_by_its_place() -> None:
    """Two lines were inserted above; one unit has been rendered in between, with the first of them."""
    known = edited(edited(take([], told(4, units=("k/a@x", "k/b@x"))), LINE_ABOVE), LINE_ABOVE)
    given = [told(4, units=("k/b@x",), stale=True), told(5, units=("k/a@x",))]

    def places(one: Diagnostic) -> Iterator[Diagnostic | None]:
        yield one
        yield moved(one, LINE_ABOVE)

    known = taken(known, given, places=places, is_new=lambda one: not one.stale, waiting=lambda _: None)
    assert lines(known) == [(6, "bad")]
    assert lines(edited(known, LINE_ABOVE)) == [(7, "bad")]
    assert lines(counted(known)) == [(5, "bad"), (6, "bad")], "it was the present text after all"


def test_units_are_counted_when_all_have_been_rendered() -> None:
    known = take([], told(4, units=("k/a@x",)))
    assert [one.units for one in shown(known)] == [()]
    known = take(known, told(4, units=("k/b@x", "k/a@x")))
    assert [one.units for one in shown(known)] == [()]
    known = counted(known)
    assert [one.units for one in shown(known)] == [("k/b@x", "k/a@x")]
    known = take(known, told(4, units=("k/a@x",), stale=True))
    assert [(one.units, one.unit_count) for one in shown(known)] == [(("k/b@x", "k/a@x"), 3)]
    known = counted(take(known, told(4, units=("k/a@x", "k/b@x")), new=True))
    assert [one.units for one in shown(known)] == [("k/b@x", "k/a@x")], "the order is no news"
    assert [one.units for one in shown(counted(take(known, told(4))))] == [("k/a@x",)]


def test_what_is_told_of_the_new_text_hides_what_was_told_of_the_old_one() -> None:
    known = counted(take([], told(4, "'x' is undefined"), told(4, "other", code="template/y")))
    old = [told(4, "'x' is undefined", stale=True), told(4, "other", stale=True, code="template/y")]
    known = take(known, *old, told(4, "'xx' is undefined", units=("k/b@x",)))
    assert lines(known) == [(4, "'xx' is undefined"), (4, "other")]


def test_related_places_and_fixes_move_too() -> None:
    fix = Fix(span=span(4, 1, 2), text="x")
    given = told(
        4,
        related=[Related(message="here", span=span(3)), Related(message="there", span=span(3, path=OTHER))],
        fixes=[fix],
    )
    after = moved(given, LINE_ABOVE)
    assert after is not None
    assert [one.span and one.span.start.line for one in after.related] == [4, 3]
    assert after.fixes[0].span.start.line == 5
    elsewhere = moved(given, {OTHER: LINE_ABOVE[PATH]})
    assert elsewhere is not None
    assert [one.span and one.span.start.line for one in elsewhere.related] == [3, 4]


@pytest.mark.parametrize(("column", "left"), [(0, 0), (1, 0), (2, 0), (3, 1)])
def test_a_fix_that_an_edit_touches_is_lost(column: int, left: int) -> None:
    given = told(4, fixes=[Fix(span=span(4, 1, 2), text="x")], span=span(4, 0, 9))
    edit = TextChange(Range(At(4, column), At(4, column + 1)), At(4, column))
    after = moved(given, {PATH: (edit,)})
    assert after is not None
    assert len(after.fixes) == left


PLACE = span(0, 0, 1, "/w/k.kernel.toml")


def unit(phase: str, *, fresh: bool = False) -> Unit:
    given: dict[str, Any] = {"id": "k/a@x", "kernel": "k", "instance": "a", "arch": "x", "outcome": None}
    more: dict[str, Any] = {"place": PLACE, "phase": phase, "fresh": fresh, "errors": 0, "warnings": 0, "generation": 1}
    return Unit(**given, **more)


# (its source, its unit's phase, whether the unit is fresh, whether something new is heard of it, whether to keep it)
WAITING = [
    ("jinja", "waiting", False, False, True),
    ("rule", "rendering", False, False, True),
    ("rule", "looking", False, False, False),
    ("kernel-file", "compiling", False, False, False),
    ("jinja", "done", True, False, False),
    ("clang", "waiting", False, False, True),
    ("clang", "looking", False, False, True),
    ("clang", "compiling", False, False, True),
    ("clang", "compiling", False, True, False),
    ("clang", "idle", True, False, False),
    ("performance", "queued", False, False, True),
]


@each_row(("source", "phase", "fresh", "heard", "keep"), WAITING)
def test_which_result_is_waited_for(source: str, phase: str, fresh: bool, heard: bool, keep: bool) -> None:
    diagnostic = told(1, source=source)
    units, news = {"k/a@x": unit(phase, fresh=fresh)}, {"k/a@x": 2} if heard else {}
    found = units_waiting(diagnostic, units.get, news, loaded=True, is_left_out=lambda _: False)
    assert found == (("k/a@x",) if keep else None)


def nowhere(_unit: str) -> None:
    return None


def test_units_that_are_gone_are_waited_for_only_where_that_may_be_a_mistake() -> None:
    diagnostic = told(1, units=("k/a@x", "k/b@x"))
    assert units_waiting(diagnostic, nowhere, {}, loaded=True, is_left_out=lambda _: False) is None
    assert units_waiting(diagnostic, nowhere, {}, loaded=True, is_left_out="k/b@x".__eq__) == ("k/b@x",)
    assert units_waiting(diagnostic, nowhere, {}, loaded=False, is_left_out=lambda _: False) == diagnostic.units
    own = told(1, units=())
    assert units_waiting(own, nowhere, {}, loaded=False, is_left_out=lambda _: False) == ()
    assert units_waiting(own, nowhere, {}, loaded=True, is_left_out=lambda _: False) is None
