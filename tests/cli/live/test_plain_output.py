"""Output where there is no terminal."""

from __future__ import annotations

import pytest
from rich.text import Text

from ckwatch.cli.live.board import Board
from ckwatch.cli.live.plain_output import GATHERED_S, PlainOutput
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.wire.state import Change
from helpers.changes import error, file, gone, unit, workspace


def printed(found: Diagnostic) -> Text:
    return Text(f"{found.severity}: {found.message}")


def lines_after(*steps: list[Change]) -> list[list[str]]:
    """The lines after each step, one second apart."""
    lines = PlainOutput(Board(), printed)
    return [[line.plain for line in lines.after(changes, float(now))] for now, changes in enumerate(steps)]


A, B = "k/a@x", "k/long@x"
START = [workspace(), unit(A), unit(B, "done", "failed", errors=1), file("/w/t", error("m", units=(B,)))]


def test_the_beginning_is_one_line_and_the_messages() -> None:
    assert lines_after(START, [workspace()]) == [["error: m", "2 units: 1 failed, 1 built; 1 error"], []]


def test_results_from_the_store_at_the_beginning_are_only_counted() -> None:
    steps = lines_after(
        [workspace(busy=True), unit(A, "looking", None), unit(B, "looking", None)],
        [unit(A, key="1", from_store=True), unit(B, key="2", seconds=2.0)],
        [workspace()],
    )
    assert steps == [[], ["   built  k/long@x  2.0 s  (t.j2 changed)"], ["2 units: 2 built"]]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        (unit(A, key="1"), unit(A, key="2", seconds=23.4), ["   built  k/a@x  23.4 s  (t.j2 changed)"]),
        (unit(A, key="1"), unit(A, key="1"), []),
        (unit(A, key="1"), unit(A, key="2", from_store=True), ["   built  k/a@x  from the store  (t.j2 changed)"]),
        (
            unit(A, key="1"),
            unit(A, "done", "failed", errors=2, seconds=0.3, why="k.toml: Tile 1 → 2"),
            ["  failed  k/a@x  0.3 s  2 errors  (k.toml: Tile 1 → 2)"],
        ),
        (unit(A, key="1"), unit(A, "done", "faulted", why="", seconds=9), [" faulted  k/a@x  9.0 s"]),
        (unit(A, key="1"), gone(f"unit/{A}"), [" removed  k/a@x"]),
        (workspace(), gone(f"unit/{A}"), []),
    ],
)  # fmt: skip
def test_a_result_that_changed_is_a_line(before: Change, after: Change, lines: list[str]) -> None:
    _, _, last = lines_after(
        [workspace(), before], [unit(A, "queued", "built")] if before.topic != "workspace" else [], [after]
    )
    assert last[: len(lines)] == lines
    assert len(last) == len(lines) + bool(lines)


def test_a_message_waits_for_the_other_units_in_which_it_arises() -> None:
    step = [workspace(busy=True), unit(A, "compiling", None), file("/w/t", error("m"))]
    lines = PlainOutput(Board(), printed)
    assert lines.after(step, 0.0) == []
    assert lines.waiting
    assert lines.after([file("/w/t", error("m", units=("k/a@x", "k/b@x")))], GATHERED_S - 0.1) == []
    assert [line.plain for line in lines.after([], GATHERED_S)] == ["error: m"]
    assert not lines.waiting


def test_a_message_is_printed_once_while_it_is_there() -> None:
    stale, fresh = file("/w/t", error("m", stale=True)), file("/w/t", error("m"))
    steps = lines_after([workspace(), fresh], [stale], [fresh], [file("/w/t")], [stale], [fresh])
    assert [any("error: m" in line for line in lines) for lines in steps] == [True, False, False, False, False, True]


def test_what_limits_the_daemon_is_printed_once() -> None:
    steps = lines_after(
        [workspace(warnings={"watch": "polling"})],
        [workspace(warnings={"watch": "polling"}, problem="no ckwatch.toml")],
        [workspace()],
    )
    assert steps == [["watch: polling", "0 units"], ["workspace: no ckwatch.toml", "0 units"], []]
