"""The same message of many units becomes one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.checks.fold import counted, fold
from ckwatch.model.diagnostics import Diagnostic, Fix, Severity, Source
from ckwatch.model.text import Span, span

HERE = span("/ws/a.hip.j2", 1, 2, 1, 5)
THERE = span("/ws/k.kernel.toml", 7, 0, 7, 1)


def made(message: str = "bad", place: Span = HERE, severity: Severity = Severity.ERROR) -> Diagnostic:
    return Diagnostic(severity, Source.CLANG, "clang/x", message, place, units=("?",), unit_count=1)


def test_equal_messages_join_and_others_stay_apart() -> None:
    folded = fold(
        {"k/a@x": [made(), made("other")], "k/b@x": [made(place=THERE)], "k/c@x": [made()], "k/d@x": []}, unit_count=4
    )
    assert [(entry.message, entry.span, entry.units, entry.unit_count) for entry in folded] == [
        ("bad", HERE, ("k/a@x", "k/c@x"), 4),
        ("other", HERE, ("k/a@x",), 4),
        ("bad", THERE, ("k/b@x",), 4),
    ]


def test_the_first_units_context_is_kept_and_doubtful_fixes_go() -> None:
    both, one = Fix(HERE, "x"), Fix(THERE, "y")
    first = replace(made(), fixes=(both, one), detail="first")
    second = replace(made(), fixes=(both,), detail="second", approximate=True)
    (folded,) = fold({"a": [first], "b": [second]}, unit_count=2)
    assert (folded.detail, folded.fixes, folded.approximate) == ("first", (both,), True)


def test_types_and_numbers_of_an_instance_do_not_tell_messages_apart() -> None:
    per_unit = {
        "k/a@x": [made("no member named 'total' in 'Sum<8>'"), made("'stage_1' is bad"), made("int")],
        "k/b@x": [made("no member named 'total' in 'Sum<4>'"), made("'stage_2' is bad"), made("float")],
        "k/c@x": [made("'kernel_0123456789ab' is bad"), made("no member named 'size' in 'Sum<4>'")],
    }
    folded = fold(per_unit, unit_count=3)
    assert [(entry.message, entry.units) for entry in folded] == [
        ("no member named 'total' in 'Sum<8>'", ("k/a@x", "k/b@x")),
        ("'stage_1' is bad", ("k/a@x", "k/b@x")),
        ("int", ("k/a@x", "k/b@x")),
        ("'kernel_0123456789ab' is bad", ("k/c@x",)),
        ("no member named 'size' in 'Sum<4>'", ("k/c@x",)),
    ]
    assert [entry.message for entry in folded[0].related] == ["also: no member named 'total' in 'Sum<4>'"]


def test_two_messages_of_one_unit_stay_two() -> None:
    folded = fold({"a": [made("stage 1"), made("stage 2")], "b": [made("stage 2"), made("stage 1")]}, unit_count=2)
    assert [(entry.message, entry.units) for entry in folded] == [("stage 1", ("a", "b")), ("stage 2", ("a", "b"))]


@pytest.mark.parametrize(
    ("units", "unit_count", "severity", "expected"),
    [
        (("a", "b", "c"), 24, Severity.ERROR, "fails in 3 of 24 units: a, b, c"),
        (("a",), 2, Severity.ERROR, "fails in 1 of 2 units: a"),
        (("a", "b", "c", "d", "e"), 5, Severity.WARNING, "occurs in 5 of 5 units: a, b, c and 2 more"),
        (("a",), 1, Severity.ERROR, ""),
        ((), 3, Severity.ERROR, ""),
    ],
)
def test_counted(units: tuple[str, ...], unit_count: int, severity: Severity, expected: str) -> None:
    assert counted(replace(made(severity=severity), units=units, unit_count=unit_count)) == expected
