"""Diagnostics as a compiler prints them."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from ckwatch.cli.diagnostic_text import count_summary, display_path, format_diagnostic, print_diagnostics
from ckwatch.cli.output import json_of
from ckwatch.engine.to_wire import diagnostic_to_wire
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import span

FILES = {
    "/ws/k.toml": ["MXdlPerWave = 3"],
    "/ws/t.j2": ["\tint x\t= blok;", "名前 = é́ + y;", "x" * 500, "a\x1b[31mb c"],
}


def read(path: str, line: int) -> str | None:
    lines = FILES.get(path, [])
    return lines[line] if line < len(lines) else None


def made(line: int, first: int, last: int, **fields: object) -> Diagnostic:
    base = Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", "bad thing", span("/ws/t.j2", line, first, line, last))
    return base if not fields else Diagnostic(**{**{name: getattr(base, name) for name in base.__slots__}, **fields})


def plain(diagnostic: Diagnostic, root: str | None = "/ws", *, detail: bool = False) -> list[str]:
    return format_diagnostic(diagnostic, read, root, detail=detail).plain.split("\n")


@pytest.mark.parametrize(
    ("first", "last", "line", "source", "carets"),
    [
        (9, 13, 0, "    1 |     int x   = blok;", "      |               ^^^^"),
        (6, 7, 0, "    1 |     int x   = blok;", "      |          ^^^"),
        (0, 2, 1, "    2 | 名前 = é́ + y;", "      | ^^^^"),
        (5, 7, 1, "    2 | 名前 = é́ + y;", "      |        ^"),
        (10, 11, 1, "    2 | 名前 = é́ + y;", "      |            ^"),
        (13, 13, 0, "    1 |     int x   = blok;", "      |                   ^"),
        (8, 9, 3, "    4 | a␛[31mb c", "      |         ^"),
    ],
)
def test_carets(first: int, last: int, line: int, source: str, carets: str) -> None:
    headline, *snippet = plain(made(line, first, last))
    assert headline == f"t.j2:{line + 1}:{first + 1}: error: bad thing [clang/x]"
    assert snippet == [source, carets]


def test_a_long_line_is_cut_around_the_caret() -> None:
    _, source, carets = plain(made(2, 300, 303))
    assert len(source) < 230
    assert source.startswith("    3 | …x")
    assert source.endswith("x…")
    assert carets.strip(" |") == "^^^"


def test_a_span_over_lines_is_marked_to_the_first_lines_end() -> None:
    diagnostic = made(0, 0, 0, span=span("/ws/t.j2", 0, 1, 1, 4))
    assert plain(diagnostic)[2] == "      |     ^^^^^^^^^^^^^^^"


def test_notes_counts_and_fixes() -> None:
    diagnostic = made(
        0, 10, 14,
        related=(Related("set here", span("/ws/k.toml", 0, 14, 0, 15)), Related("also fails: x", None), Related("far", span("/rocm/a.hpp", 6, 0, 6, 1))),
        units=("k/a@x", "k/b@x"), unit_count=3, fixes=(Fix(span("/ws/t.j2", 0, 10, 0, 14), "block"),), approximate=True,
    )  # fmt: skip
    assert plain(diagnostic)[3:] == [
        "    note: the place is approximate: the text was rearranged after it was printed",
        "    note: fails in 2 of 3 units: k/a@x, k/b@x",
        "k.toml:1:15: note: set here",
        "    1 | MXdlPerWave = 3",
        "      |               ^",
        "    note: also fails: x",
        "/rocm/a.hpp:7:1: note: far",
        "    fix: replace by `block` at 1:11",
    ]


def test_detail_and_many_notes_on_request() -> None:
    diagnostic = made(0, 10, 14, related=tuple(Related(f"n{n}", None) for n in range(12)), detail="all\nwords")
    short, full = plain(diagnostic), plain(diagnostic, detail=True)
    assert short[-1] == "    note: not shown: 4 more"
    assert full[-3:] == ["    note: n11", "    all", "    words"]


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/ws/a/b.j2", "/ws", "a/b.j2"),
        ("/ws/a/b.j2", "/ws/", "a/b.j2"),
        ("/wsx/b.j2", "/ws", "/wsx/b.j2"),
        ("/ws/b.j2", None, "/ws/b.j2"),
        ("/ws/b.j2", "/", "ws/b.j2"),
    ],
)
def test_shown_path(path: str, root: str | None, expected: str) -> None:
    assert display_path(path, root) == expected


def test_plain_without_a_terminal_and_colours_on_one() -> None:
    diagnostics = [made(0, 10, 14), made(1, 0, 2, severity=Severity.WARNING, message="[bold]odd[/] :smile:")]
    piped, terminal = io.StringIO(), io.StringIO()
    print_diagnostics(Console(file=piped, width=20), diagnostics, read, "/ws")
    print_diagnostics(Console(file=terminal, force_terminal=True, color_system="standard"), diagnostics, read, "/ws")
    lines = piped.getvalue().splitlines()
    assert lines[0] == "t.j2:1:11: error: bad thing [clang/x]"
    assert lines[3] == "t.j2:2:1: warning: [bold]odd[/] :smile: [clang/x]"
    assert lines[-1] == "1 error, 1 warning"
    assert "\x1b[" not in piped.getvalue()
    assert "\x1b[1;31merror" in terminal.getvalue()


def test_nothing_to_say() -> None:
    out = io.StringIO()
    print_diagnostics(Console(file=out), [], read)
    assert out.getvalue() == ""


def test_summary() -> None:
    assert count_summary([Severity.ERROR, Severity.ERROR, Severity.INFORMATION]) == "2 errors, 1 note"


def test_json_is_stable() -> None:
    diagnostic = made(
        0, 1, 2, related=(Related("r", None),), fixes=(Fix(span("/ws/t.j2", 0, 1, 0, 1), ";"),), units=("u",)
    )
    assert json.loads(json.dumps(json_of(diagnostic_to_wire(diagnostic, stale=False)))) == {
        "severity": "error",
        "source": "clang",
        "code": "clang/x",
        "message": "bad thing",
        "span": {"path": "/ws/t.j2", "start": {"line": 0, "column": 1}, "end": {"line": 0, "column": 2}},
        "related": [{"message": "r", "span": None}],
        "detail": "",
        "fixes": [
            {
                "span": {"path": "/ws/t.j2", "start": {"line": 0, "column": 1}, "end": {"line": 0, "column": 1}},
                "text": ";",
            }
        ],
        "units": ["u"],
        "unit_count": 0,
        "approximate": False,
        "stale": False,
    }
