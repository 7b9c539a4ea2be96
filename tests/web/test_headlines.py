"""The page's first lines: each kind with its number and its address, the worst first, and few of them."""

from __future__ import annotations

from benches.timed_units import failed_row, timing_row, unit_row
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Position, Span
from ckwatch.model.verification import VerificationOutcome
from ckwatch_web.content import Content
from ckwatch_web.static_html import page
from ckwatch_web.views.headlines import MOST, headlines

NOW = 1e9 + 3600


def lines(*rows: object, diagnostics: tuple[Diagnostic, ...] = ()) -> list[tuple[str, str, str]]:
    found = headlines(rows, diagnostics, NOW)  # type: ignore[arg-type]
    return [(one.kind, one.text, one.address) for one in found.lines]


def error(message: str, unit: str) -> Diagnostic:
    start = Position(line=0, column=0)
    span = Span(path="/w/t.j2", start=start, end=start)
    return Diagnostic(severity=Severity.ERROR, source=Source.CLANG, code="c", message=message, span=span, units=(unit,))


def test_a_workspace_in_which_all_is_well() -> None:
    assert lines(unit_row("a"), unit_row("b", outcome="checked")) == [
        ("calm", "1 of 2 units built, nothing is wrong", "")
    ]


def test_what_failed_is_said_of_each_kernel_with_its_first_error() -> None:
    found = lines(
        unit_row("a", outcome="failed", errors=2),
        unit_row("b"),
        unit_row("c", kernel="other", outcome="faulted"),
        diagnostics=(error("no member named 'x'\nin line 3", "k/a@gfx942"),),
    )
    assert found == [
        ("broken", "k: 1 of 2 units failed: no member named 'x'", "#messages"),
        ("broken", "other: 1 of 1 unit failed", "#messages"),
    ]


def test_an_error_in_a_file_is_said_where_no_unit_has_it() -> None:
    found = lines(unit_row("a"), diagnostics=(error("the name has 141 characters", "gone/x@gfx942"),))
    assert [(kind, text.partition(": ")[2]) for kind, text, _ in found] == [("broken", "the name has 141 characters")]


def test_wrong_results_lead_to_what_was_found() -> None:
    failed = VerificationOutcome.FAILED.value
    assert lines(
        unit_row("a", verification="wrong in 3 of 4 shapes", verification_outcome=failed, verification_fresh=True),
        unit_row("b", verification="wrong before", verification_outcome=failed),
        unit_row("c", [failed_row("t")]),
    ) == [
        ("broken", "k/a@gfx942: wrong in 3 of 4 shapes", "/verification?unit=k%2Fa%40gfx942"),
        ("broken", "k/c@gfx942 on t: wrong result: at 1", "/history?unit=k%2Fc%40gfx942"),
    ]


def test_sure_changes_are_told_the_largest_first() -> None:
    slow = timing_row(
        "s", 131.0, previous_verdict="SLOW", previous_ratio=1.31, baseline_verdict="FAST", baseline_ratio=0.9
    )
    slower = timing_row("t", 200.0, previous_verdict="SLOW", previous_ratio=2.0)
    unsure = timing_row("u", 150.0, previous_verdict="UNSURE", previous_ratio=1.6)
    old = timing_row("v", 150.0, previous_verdict="SLOW", previous_ratio=1.6, taken_at=NOW - 90_000)
    found = lines(unit_row("a", [slow, slower, unsure, old]))
    assert [(kind, text) for kind, text, _ in found if kind != "best"] == [
        ("slower", "k/a@gfx942 on t, cold: 200.0 µs, +100 % against the artifact before"),
        ("slower", "k/a@gfx942 on s, cold: 131.0 µs, +31.0 % against the artifact before"),
        ("faster", "k/a@gfx942 on s, cold: 131.0 µs, −10.0 % against the baseline"),
    ]
    assert found[0][2] == "/history?unit=k%2Fa%40gfx942&shape=t"


def test_the_best_instance_is_that_of_the_shape_that_most_were_timed_on() -> None:
    found = lines(
        unit_row("a", [timing_row("s", 100.0), timing_row("t", 900.0)]),
        unit_row("b", [timing_row("s", 90.0)]),
        unit_row("c", [timing_row("s", 70.0, verified=False)]),
        unit_row("d", [timing_row("s", 80.0, standing="stale")], kernel="l"),
    )
    assert ("best", "k: b takes 90.00 µs on s, cold, the least of 2; a +11.1 %", "/heat-map?kernel=k") in found
    assert ("best", "l: d takes 80.00 µs on s, cold; that was an earlier artifact", "/heat-map?kernel=l") in found


def test_what_runs_is_counted() -> None:
    assert lines(unit_row("a", phase="compiling"), unit_row("b", phase="compiling"), unit_row("c", verifying=True)) == [
        ("running", "2 compiling, 1 being verified", "#queues")
    ]


def test_few_of_a_kind_are_told() -> None:
    found = lines(*(unit_row("a", kernel=f"k{number}", outcome="failed") for number in range(40)))
    assert len(found) == MOST
    assert found[-1][1] == f"units of {40 - MOST + 1} more kernels failed"


def test_in_a_file_they_are_text() -> None:
    content = Content(title="", blocks=(headlines([unit_row("<b>", outcome="failed")], (), NOW),))
    text = page(content, "Now", menu=(), others=(), csv_of={})
    assert 'aria-label="broken">✗</span> <span>k: 1 of 1 unit failed</span>' in text
