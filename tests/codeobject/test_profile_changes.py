"""What is different between two profiles."""

from __future__ import annotations

from ckwatch.codeobject.profile_changes import changes_of, moved_lines
from codeobject.test_profile import figures, profile_with

ROW = figures(issued=10, lanes=640, accesses=10, turns=20, phases=20, fullest=1)
COLUMN = figures(issued=10, lanes=640, accesses=10, turns=320, phases=20, fullest=16)


def texts(*changes: object) -> list[tuple[int, tuple[str, ...], bool]]:
    return [(one.line, one.texts, one.worse) for one in changes]  # type: ignore[attr-defined]


def test_a_conflict_that_came() -> None:
    found = changes_of([profile_with(figures(), ROW)], [profile_with(figures(), COLUMN)])
    assert texts(*found) == [(1, ("LDS conflict 1 → 16 ways",), True)]
    back = changes_of([profile_with(figures(), COLUMN)], [profile_with(figures(), ROW)])
    assert texts(*back) == [(1, ("LDS conflict 16 → 1 ways",), False)]


def test_equal_profiles_have_no_changes() -> None:
    assert changes_of([profile_with(figures(), COLUMN)], [profile_with(figures(), COLUMN)]) == ()


def test_cache_lines_lanes_and_issues() -> None:
    before = figures(issued=100, requests=10, cache_lines=10, least_lines=10, bytes=1280)
    after = figures(issued=200, lanes=6400, requests=10, cache_lines=640, least_lines=10, bytes=1280)
    (change,) = changes_of([profile_with(before)], [profile_with(after)])
    assert change.texts == (
        "cache lines per request 1 → 64",
        "active lanes 100 → 50 %",
        "issues per workgroup 100 → 200",
    )
    assert change.worse


def test_lines_that_came_and_went() -> None:
    one, two = profile_with(figures(), ROW), profile_with(figures())
    assert texts(*changes_of([two], [one])) == [(1, ("issues per workgroup 0 → 10",), True)]
    assert texts(*changes_of([one], [two])) == [(1, ("issues per workgroup 10 → 0",), False)]


def test_a_line_that_moved_is_the_same() -> None:
    before, after = profile_with(figures(), ROW), profile_with(figures(), figures(issued=1, lanes=64), COLUMN)
    found = changes_of([before], [after], lambda key: (key[0], key[1] + (key[1] == 1)))
    assert (2, ("LDS conflict 1 → 16 ways",), True) in texts(*found)


def test_lines_are_found_in_another_text() -> None:
    before = {"/w/k.hip.j2": "a\nlds[32]\nb\nc\ngone\nd"}
    moved = moved_lines(before, {"/w/k.hip.j2": "new\na\nlds[33]\nb\nc\nd"})
    assert [moved(("/w/k.hip.j2", line)) for line in range(6)] == [
        *(("/w/k.hip.j2", line) for line in (1, 2, 3, 4)), None, ("/w/k.hip.j2", 5),
    ]  # fmt: skip
    assert moved(("/ck/header.hpp", 7)) == ("/ck/header.hpp", 7)
