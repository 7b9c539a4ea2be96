"""A watcher's knowledge after changes."""

from __future__ import annotations

import pytest

from ckwatch.cli.live.board import Board, UnitFilter, WorkRound
from ckwatch.wire.state import Change
from helpers.changes import error, file, gone, unit, workspace


def board_of(*changes: tuple[float, Change], meant: UnitFilter | None = None) -> Board:
    board = Board(meant)
    for now, change in changes:
        board.note(change, now)
    return board


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (unit("k/a@x", "compiling", "built"), "compiling"),
        (unit("k/a@x", "waiting", None), "waiting"),
        (unit("k/a@x", "done", "failed"), "failed"),
        (unit("k/a@x", "done", "faulted"), "faulted"),
        (unit("k/a@x", "idle", "checked"), "checked"),
        (unit("k/a@x", "idle", "built", fresh=False), "not built"),
        (unit("k/a@x", "idle", None), "not built"),
    ],
)
def test_states(change: Change, word: str) -> None:
    assert board_of((0, change)).counts == {word: 1}


def test_order() -> None:
    board = board_of(
        (5, unit("k/old@x", at=1)),
        (5, unit("k/idle@x", "idle", None, at=9)),
        (5, unit("k/new@x", at=3)),
        (5, unit("k/bad@x", "done", "failed", at=1)),
        (5, unit("k/queued@x", "queued", "built")),
        (5, unit("k/late@x", "compiling", "built", at=4)),
        (5, unit("k/early@x", "compiling", "built", at=2)),
        (5, unit("k/host@x", "done", "faulted", at=2)),
    )
    expected = ["host", "bad", "early", "late", "queued", "new", "old", "idle"]
    assert [found.instance for found in board.first(9)] == expected
    assert [found.instance for found in board.first(3)] == expected[:3]


def test_time_in_a_phase() -> None:
    """One that was at it when the watcher came counts from its cause; later ones from the change."""
    board = board_of((10, unit("k/a@x", "compiling", at=4)))
    assert board.since(board.units["k/a@x"]) == 4
    board.note(unit("k/a@x", "compiling", at=4), 12)
    assert board.since(board.units["k/a@x"]) == 4
    board.note(unit("k/a@x", "done", at=15), 16)
    assert board.since(board.units["k/a@x"]) == 16


def test_a_round_of_work() -> None:
    board = board_of((0, unit("k/a@x")), (0, unit("k/b@x")), (0, unit("k/c@x")))
    rounds = [board.round]
    for now, change in enumerate(
        [
            unit("k/a@x", "waiting"), unit("k/b@x", "waiting"), unit("k/a@x", "compiling"), unit("k/a@x"),
            gone("unit/k/b@x"), unit("k/c@x", "queued"),
        ],
        1,
    ):  # fmt: skip
        board.note(change, now)
        rounds.append(board.round)
    assert rounds == [
        None, WorkRound(1, None, 1, 0), WorkRound(1, None, 2, 0), WorkRound(1, None, 2, 0), WorkRound(1, None, 2, 1),
        WorkRound(1, 5, 2, 2), WorkRound(6, None, 1, 0),
    ]  # fmt: skip


def test_what_is_gone_is_forgotten() -> None:
    board = board_of((0, unit("k/a@x")), (0, file("/w/t", error("m"))), (1, gone("unit/k/a@x")), (1, gone("file//w/t")))
    assert (board.units, board.files, board.counts, board.first(5)) == ({}, {}, {}, [])
    assert board.note(gone("unit/k/a@x"), 2) is False


@pytest.mark.parametrize(
    ("patterns", "units"),
    [
        ((), ["ka/m1@x", "ka/m2@y", "kb/m1@x"]),
        (("ka",), ["ka/m1@x", "ka/m2@y"]),
        (("*/m1",), ["ka/m1@x", "kb/m1@x"]),
        (("ka/m2@y", "kb"), ["ka/m2@y", "kb/m1@x"]),
        (("/w",), ["ka/m1@x", "ka/m2@y", "kb/m1@x"]),
        (("/w/a b.kernel.toml",), ["ka/m1@x", "ka/m2@y", "kb/m1@x"]),
        (("/w/a",), []),
    ],
)
def test_words(patterns: tuple[str, ...], units: list[str]) -> None:
    every = [(0.0, unit(name)) for name in ("ka/m1@x", "ka/m2@y", "kb/m1@x")]
    assert list(board_of(*every, meant=UnitFilter(patterns)).units) == units


def test_messages_of_other_units_are_not_shown() -> None:
    board = board_of(
        (0, unit("ka/a@x")),
        (0, unit("kb/a@x")),
        (
            0,
            file(
                "/w/t",
                error("of a", units=("ka/a@x",)),
                error("of b", units=("kb/a@x",)),
                error("of no unit", units=()),
            ),
        ),
        meant=UnitFilter(["ka"]),
    )
    assert [found.message for found in board.diagnostics()] == ["of a", "of no unit"]
    assert board.note(workspace(), 1) is True
    assert board.note(unit("kb/a@x"), 1) is False
