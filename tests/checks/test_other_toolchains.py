"""Errors of several toolchains, merged."""

from __future__ import annotations

from dataclasses import replace

from ckwatch.checks.other_toolchains import of_toolchain, with_other_toolchains
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import span
from helpers.each_row import each_row

ERROR = Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", "no member named 'a'", span("/k.j2", 1, 0, 1, 3))
WARNING = replace(ERROR, severity=Severity.WARNING, message="unused")
OTHER = replace(ERROR, message="no member named 'b'")
HERE = "no member named 'a'"


@each_row(
    ("own", "others", "expected"),
    [
        ((), {"x": ()}, []),
        ((ERROR,), {"x": (ERROR,)}, [HERE]),
        ((), {"x": (ERROR,)}, [f"only with x: {HERE}"]),
        ((), {"x": (ERROR,), "y": None}, [f"only with x: {HERE}"]),
        ((), {"x": (ERROR,), "y": (ERROR,)}, [f"with x and y only: {HERE}"]),
        ((ERROR,), {"x": (), "y": ()}, [f"only with main: {HERE}"]),
        ((ERROR,), {"x": (), "y": None}, [HERE]),
        ((ERROR,), {"x": (ERROR,), "y": ()}, [f"with main and x only: {HERE}"]),
        ((ERROR,), {"x": (OTHER,)}, [f"only with main: {HERE}", "only with x: no member named 'b'"]),
        ((WARNING,), {"x": (WARNING,)}, ["unused"]),
        ((), {"x": (ERROR, ERROR)}, [f"only with x: {HERE}"]),
    ],
)
def test_what_all_have_has_no_names(
    own: tuple[Diagnostic, ...], others: dict[str, tuple[Diagnostic, ...] | None], expected: list[str]
) -> None:
    assert [one.message for one in with_other_toolchains(own, "main", others)] == expected


def test_without_a_result_of_the_main_toolchain_others_are_compared_with_each_other() -> None:
    same = with_other_toolchains((), None, {"x": (ERROR,), "y": (ERROR,)})
    assert [one.message for one in same] == [HERE]
    fault = replace(ERROR, source=Source.HOST, message="the disk is full")
    found = with_other_toolchains((fault,), None, {"x": (ERROR,), "y": ()})
    assert [one.message for one in found] == ["the disk is full", f"only with x: {HERE}"]
    assert of_toolchain(found, "y") == (fault,)
    assert of_toolchain(found, "x") == found
