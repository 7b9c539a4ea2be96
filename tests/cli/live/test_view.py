"""The view: states, a size and a time make lines of text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from rich.text import Text

from ckwatch.cli.live.board import Board
from ckwatch.cli.live.view import RenderedMessages, ViewOptions, one_line, view
from ckwatch.wire.state import Change
from fakes.fake_benchmarks import timing_of
from fakes.fake_engine import figures_of
from helpers.changes import error, file, unit, workspace

SOURCES = {
    "/w/t.j2": ["int a = blok + 1;", "    " + "x" * 90 + " + blok;", "名前 = 名前 + blok;"],
    "/w/h": ["one", "two", "three", "four"],
}


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def read_line(path: str, line: int) -> str | None:
    lines = SOURCES.get(path, [])
    return lines[line] if line < len(lines) else None


def board_of(changes: Sequence[Change], now: float = 0.0) -> Board:
    board = Board()
    for change in changes:
        board.note(change, now)
    return board


def lines_of(board: Board, columns: int, rows: int, now: float = 0.0, **look: Any) -> list[Text]:
    return view(board, RenderedMessages(read_line, "/w"), ViewOptions(columns, rows, **look), now)


def shown(changes: Sequence[Change], columns: int, rows: int, now: float = 0.0, **look: Any) -> str:
    lines = [line.plain.rstrip() for line in lines_of(board_of(changes), columns, rows, now, **look)]
    return "\n".join(lines).rstrip("\n")


WORK = [
    workspace(root="/home/me/kernels", busy=True),
    unit("k/m1@gfx942", "compiling", "built", why="t.j2 changed", at=0),
    unit("k/m2@gfx942", "queued", None, why="k.kernel.toml: MPerBlock 128 → 256"),
    unit("k/m3@gfx942", "done", "failed", errors=2, seconds=23.44, at=60),
    unit("k/m4@gfx942", "done", "built", warnings=1, from_store=True, seconds=125, at=30),
    unit("k/m5@gfx942", "idle", None),
]
ERRORS = [
    workspace(),
    *(unit(f"k/m{number}@gfx942", "done", "failed", errors=1, seconds=1.5) for number in range(6)),
    file("/w/t.j2", error("no blok", "/w/t.j2:1:9", length=4, notes=5), error("no y", "/w/t.j2:1:16", length=1)),
]


def test_everything() -> None:
    assert (
        shown(WORK, 90, 16, now=7.0)
        == """\
ckwatch  kernels  5 units  1 compiling  1 queued  1 failed  1 built  1 not built
──────────────────────────────────────── 0/2  7 s

✗ failed     k/m3@gfx942     23.4 s  2 errors
● compiling  k/m1@gfx942        7 s  t.j2 changed
○ queued     k/m2@gfx942        7 s  k.kernel.toml: MPerBlock 128 → 256
✓ built      k/m4@gfx942  2 min 5 s  1 warning
· not built  k/m5@gfx942







q quits   r rebuilds   f failed only   d details   / filter"""
    )


def test_a_wait_of_some_seconds_says_for_what() -> None:
    changes = [
        workspace(busy=True, waits_for="a compiler: 2 run, of 2 at a time"),
        unit("k/m1@gfx942", "compiling", None, why="t.j2 changed", waits_for="headers that are precompiled"),
        unit("k/m2@gfx942", "queued", None, why="t.j2 changed"),
    ]
    for now, waits in ((4.0, False), (5.0, True)):
        lines = shown(changes, 120, 16, now=now)
        assert ("waits for headers that are precompiled" in lines) is waits
        assert ("waits for a compiler: 2 run, of 2 at a time" in lines) is waits
        assert ("t.j2 changed" in lines) is not waits


def test_figures_of_code_objects() -> None:
    timed = timing_of(shape="big")
    board = [
        workspace(),
        unit("k/m1@gfx942", "done", "built", figures=figures_of()),
        unit("k/m2@gfx942", "done", "built", figures=figures_of(vgpr_spills=9, standing="stale"), warnings=1),
        unit("k/m3@gfx942", "done", "built", figures=figures_of(), timings=(timed,)),
    ]
    rows = {columns: shown(board, columns, 20).splitlines()[3:6] for columns in (120, 200)}
    resources = "occupancy 2 (VGPR), 194 VGPR, no spills, MFMA 92 % predicted"
    assert rows[120] == [
        f"✓ built  k/m1@gfx942  {resources}",
        "✓ built  k/m2@gfx942  1 warning, occupancy 2 (VGPR), 194 VGPR, 9 spilled, MFMA 92 % predicted, stale",
        "✓ built  k/m3@gfx942  10.00 µs ±0 % (big)",
    ]
    assert rows[200][2] == f"✓ built  k/m3@gfx942  10.00 µs ±0 % (big), {resources}"


@pytest.mark.parametrize(
    ("columns", "rows", "expected"),
    [
        (60, 8, """\
ckwatch  kernels  5 units  ●1  ○1  ✗1  ✓1  ·1
──────────────────────────────────────── 0/2  7 s
✗ failed     k/m3     23.4 s
● compiling  k/m1        7 s
○ queued     k/m2        7 s
✓ built      k/m4  2 min 5 s
· not built  k/m5"""),
        (34, 6, """\
ckwatch  5 units  ●1  ○1  ✗1  ✓1 …
✗ k/m3     23.4 s
● k/m1        7 s
○ k/m2        7 s
✓ k/m4  2 min 5 s
· k/m5"""),
        (20, 5, """\
ckwatch  5 units  ●…
✗ k/m3
● k/m1
○ k/m2
… 2 more: 1 built, …"""),
        (20, 1, "ckwatch  5 units  ●…"),
    ],
)  # fmt: skip
def test_small_terminals(columns: int, rows: int, expected: str) -> None:
    assert shown(WORK, columns, rows, now=7.0) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (30, """\
ckwatch  w  6 units  6 failed
nothing to do

✗ failed  k/m0@gfx942  1.5 s  1 error
✗ failed  k/m1@gfx942  1.5 s  1 error
✗ failed  k/m2@gfx942  1.5 s  1 error
✗ failed  k/m3@gfx942  1.5 s  1 error
✗ failed  k/m4@gfx942  1.5 s  1 error
✗ failed  k/m5@gfx942  1.5 s  1 error

2 errors
t.j2:1:9: error: no blok [c/x]
    1 | int a = blok + 1;
      |         ^^^^
h:1:1: note: see 1
    1 | one
      | ^
h:2:1: note: see 2
    2 | two
      | ^
h:3:1: note: see 3
    3 | three
      | ^

t.j2:1:16: error: no y [c/x]
    1 | int a = blok + 1;
      |                ^


q quits   r rebuilds   f failed only   d details   / filter   ↑ ↓ messages"""),
        (13, """\
ckwatch  w  6 units  6 failed
nothing to do
✗ failed  k/m0@gfx942  1.5 s  1 error
✗ failed  k/m1@gfx942  1.5 s  1 error
✗ failed  k/m2@gfx942  1.5 s  1 error
✗ 3 more failed
2 errors
t.j2:1:9: error: no blok [c/x]
    1 | int a = blok + 1;
      |         ^^^^
t.j2:1:16: error: no y [c/x]
    1 | int a = blok + 1;
      |                ^"""),
        (9, """\
ckwatch  w  6 units  6 failed
nothing to do
✗ failed  k/m0@gfx942  1.5 s  1 error
✗ 5 more failed
2 errors
t.j2:1:9: error: no blok [c/x]
    1 | int a = blok + 1;
      |         ^^^^
… 1 error more"""),
    ],
)  # fmt: skip
def test_messages_share_the_rows_with_units(rows: int, expected: str) -> None:
    assert shown(ERRORS, 80, rows) == expected


MANY = [
    workspace(),
    *(unit(f"k/bad{number}@x", "done", "failed", errors=1, at=number) for number in range(30)),
    *(unit(f"k/queued{number}@x", "queued", None) for number in range(30)),
]


def test_failures_are_counted_where_they_stand() -> None:
    lines = shown(MANY, 80, 24).split("\n")[3:-1]
    marks = "".join(line[0] for line in lines)
    assert marks == "✗" * 10 + "○" * 9 + "…"
    assert lines[9] == "✗ 21 more failed"
    assert lines[-1] == "… 21 more: 21 queued"


def test_a_unit_that_was_built_and_has_errors_is_marked() -> None:
    assert shown([workspace(), unit("k/a@x", "done", "built", errors=1)], 80, 20).split("\n")[3].startswith("✗ built")


def test_units_can_be_filtered_and_told_in_detail() -> None:
    def rows(**look: Any) -> list[str]:
        return [line for line in shown(WORK, 100, 20, now=7.0, **look).split("\n")[3:-1] if line]

    assert [line.split()[2] for line in rows(failed_only=True)] == ["k/m3@gfx942"]
    assert [line.split()[2] for line in rows(filter="M1")] == ["k/m1@gfx942"]
    assert rows(filter="nothing") == []
    assert rows(filter="m4", details=True) == [
        "✓ built  k/m4@gfx942  2 min 5 s  1 warning, 00:00:30, from the store, t.j2 changed"
    ]
    assert shown(WORK, 100, 20, filter="m4", typing=True).endswith("units with: m4▏  Enter keeps, Esc clears")


@pytest.mark.parametrize(
    ("place", "length", "columns", "source", "carets"),
    [
        ("/w/t.j2:1:9", 4, 30, "    1 | int a = blok + 1;", "      |         ^^^^"),
        ("/w/t.j2:1:9", 4, 22, "    1 | int a = blok …", "      |         ^^^^"),
        ("/w/t.j2:2:98", 4, 40, f"    2 | …{'x' * 23} + blok;", f"      | {' ' * 27}^^^^"),
        ("/w/t.j2:3:11", 4, 20, "    3 | … 前 + blok;", "      |        ^^^^"),
        ("/w/t.j2:3:11", 4, 16, "    3 | …+ blok;", "      |    ^^^^"),
    ],
)
def test_carets_stay_in_sight(place: str, length: int, columns: int, source: str, carets: str) -> None:
    text = shown([workspace(), file("/w/t.j2", error("m", place, length=length))], columns, 24)
    lines = text.split("\n")
    at = next(index for index, line in enumerate(lines) if line.startswith("      | "))
    assert lines[at - 1 : at + 1] == [source, carets]


def test_a_stale_message_keeps_its_source_line_and_is_dim(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = RenderedMessages(read_line, "/w")
    board = board_of([workspace(), file("/w/t.j2", error("no blok", "/w/t.j2:1:9", length=4))])
    before = [line.plain for line in view(board, pages, ViewOptions(60, 20), 0)]
    monkeypatch.setitem(SOURCES, "/w/t.j2", ["int a = block + 1;"])
    board.note(file("/w/t.j2", error("no blok", "/w/t.j2:1:9", length=4, stale=True)), 1)
    pages.renew(board.diagnostics())
    lines = view(board, pages, ViewOptions(60, 20), 1)
    index = before.index("    1 | int a = blok + 1;")
    assert lines[index].plain == before[index]
    assert any("dim" in str(span.style) for span in lines[index].spans)
    assert lines[index - 2].plain == "1 error, all from before the change"
    board.note(file("/w/t.j2", error("no blok", "/w/t.j2:1:9", length=4)), 2)
    pages.renew(board.diagnostics())
    assert view(board, pages, ViewOptions(60, 20), 2)[index].plain == "    1 | int a = block + 1;"


def test_fresh_errors_come_first_and_each_once() -> None:
    changes = [
        workspace(),
        file("/w/a", error("w", severity="warning"), error("old", stale=True), error("hint", severity="hint")),
        file("/w/b", error("new"), error("new")),
    ]
    lines = shown(changes, 80, 24).split("\n")
    assert [line.split(": ")[1:] for line in lines if line.startswith("t.j2:")] == [
        ["error", "new [c/x]"], ["error", "old [c/x]"], ["warning", "w [c/x]"],
    ]  # fmt: skip
    assert "2 errors, 1 warning, 1 from before the change" in lines


def test_messages_can_be_stepped_through() -> None:
    changes = [workspace(), file("/w/t.j2", *(error(f"m{number}", f"/w/t.j2:1:{number}") for number in range(1, 9)))]
    text = shown(changes, 80, 12, first=6)
    assert "8 errors, from number 7 on" in text
    assert [number for number in range(1, 9) if f"m{number}" in text] == [7, 8]
    assert "m8" in shown(changes, 80, 12, first=99)


@pytest.mark.parametrize(
    ("changes", "look", "line"),
    [
        ([], {}, "waiting for the daemon"),
        ([workspace(loaded=False)], {}, "loading"),
        ([workspace()], {}, "no units"),
        ([workspace(), unit("k/a@x")], {}, "nothing to do"),
        ([workspace(), unit("k/a@x", "compiling"), unit("k/a@x")], {}, "1 unit in 0.00 s, at 00:00:00"),
        ([workspace(), unit("k/a@x")], {"note": "the daemon has ended", "live": False}, "the daemon has ended"),
    ],
)
def test_progress(changes: list[Change], look: dict[str, Any], line: str) -> None:
    assert shown(changes, 60, 20, **look).split("\n")[1] == line


def test_what_limits_the_daemon_is_shown() -> None:
    changes = [workspace(problem="no ckwatch.toml\nwrite one", warnings={"watch": "too many files, raise the limit"})]
    assert shown(changes, 40, 20).split("\n")[2:5] == [
        "no ckwatch.toml", "write one", "watch: too many files, raise the limit",
    ]  # fmt: skip


@pytest.mark.parametrize("changes", [[], WORK, ERRORS, [*WORK, *ERRORS, workspace(warnings={"a": "long " * 60})]])
def test_it_fits_every_terminal(changes: list[Change]) -> None:
    board = board_of(changes)
    for columns, rows in product((1, 2, 5, 10, 20, 39, 40, 69, 70, 200), (1, 2, 3, 5, 7, 8, 15, 16, 40)):
        lines = lines_of(board, columns, rows)
        assert len(lines) <= rows, (columns, rows)
        assert all(line.cell_len <= columns for line in lines), (columns, rows)


def test_one_line() -> None:
    assert one_line(board_of(ERRORS)) == "6 units: 6 failed; 2 errors"
    assert one_line(board_of([])) == "0 units"
