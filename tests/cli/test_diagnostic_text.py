"""Diagnostics as a compiler prints them."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from pathlib import Path

import pytest

from ckwatch.cli.diagnostic_text import count_summary, diagnostic_text, display_path
from ckwatch.cli.output import Output, to_plain
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import span
from ckwatch.wire.encoding import to_json

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
    return str(diagnostic_text(diagnostic, read, root, detail=detail)).split("\n")


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


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        (Fix(span("/ws/t.j2", 0, 10, 0, 10), ";"), "insert `;` at 1:11"),
        (Fix(span("/ws/t.j2", 0, 10, 0, 14), ""), "remove what is at 1:11"),
        (Fix(span("/ws/inc/own.hpp", 2, 4, 2, 9), "block"), "replace by `block` at inc/own.hpp:3:5"),
        (Fix(span("/other/own.hpp", 2, 4, 2, 4), ";"), "insert `;` at /other/own.hpp:3:5"),
    ],
)
def test_a_fix_in_another_file_names_it(fix: Fix, said: str) -> None:
    assert plain(made(0, 10, 14, fixes=(fix,)))[-1] == f"    fix: {said}"


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


def printed(capsys: pytest.CaptureFixture[str], diagnostics: list[Diagnostic], color: str) -> str:
    Output(Namespace(color=color), Path("/ws")).diagnostics(diagnostics)
    return capsys.readouterr().out


def test_plain_without_a_terminal_and_colours_on_one(capsys: pytest.CaptureFixture[str]) -> None:
    diagnostics = [made(0, 10, 14), made(1, 0, 2, severity=Severity.WARNING, message="[bold]odd[/] :smile:")]
    piped = printed(capsys, diagnostics, "auto")
    terminal = printed(capsys, diagnostics, "always")
    lines = piped.splitlines()
    assert lines[0] == "t.j2:1:11: error: bad thing [clang/x]"
    assert "t.j2:2:1: warning: [bold]odd[/] :smile: [clang/x]" in lines
    assert lines[-1] == "1 error, 1 warning"
    assert "\x1b[" not in piped
    assert "\x1b[1;31merror" in terminal
    assert re.sub(r"\x1b\[[\d;]*m", "", terminal) == piped


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_the_environment_forces_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert "\x1b[" in printed(capsys, [made(0, 10, 14)], "auto")
    assert "\x1b[" not in printed(capsys, [made(0, 10, 14)], "never")


def test_nothing_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, [], "always") == ""


def test_json_is_that_of_the_daemons_diagnostics(capsys: pytest.CaptureFixture[str]) -> None:
    diagnostic = made(0, 1, 2, related=(Related("r", None),), units=("u",), approximate=True, detail="d")
    Output(Namespace(color="auto", json=True)).diagnostics([diagnostic])
    of_daemon = json.loads(to_json(diagnostic))
    assert capsys.readouterr().out == json.dumps({"event": "diagnostic"} | of_daemon, ensure_ascii=False) + "\n"


def test_summary() -> None:
    assert count_summary([Severity.ERROR, Severity.ERROR, Severity.INFORMATION]) == "2 errors, 1 note"


def test_json_is_stable() -> None:
    diagnostic = made(
        0, 1, 2, related=(Related("r", None),), fixes=(Fix(span("/ws/t.j2", 0, 1, 0, 1), ";"),), units=("u",)
    )
    assert json.loads(json.dumps(diagnostic, default=to_plain)) == {
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
        "toolchains": [],
    }
