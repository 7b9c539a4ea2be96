"""Broken TOML: every syntax error with its place, and the values that are left."""

from __future__ import annotations

from typing import Any

from ckwatch.model.diagnostics import Source
from ckwatch.workspace.toml_document import TomlDocument, parse_values
from helpers.each_row import each_row

ROWS: list[tuple[str, list[str], dict[str, Any]]] = [
    ("a = 1", [], {"a": 1}),
    ("a = \nb = 2", ["1:5-1:5 the value is missing"], {"b": 2}),
    ("a" + ".a" * 100_000 + " = 1\nb = 2", ["1:1-1:200002 the key has 100001 parts; at most 64 are allowed"], {"b": 2}),
    (
        "b = 2\n[a" + ".a" * 64 + "]\nx = 1\n[c]\ny = 1",
        ["2:2-2:131 the key has 65 parts; at most 64 are allowed"],
        {"b": 2, "c": {"y": 1}},
    ),
    (
        "x = [{ q = 1, a" + " . 'a'" * 64 + " = 1 }]\nb = 2",
        ["1:15-1:400 the key has 65 parts; at most 64 are allowed"],
        {"b": 2},
    ),
    ("a = '" + "a." * 100 + "'", [], {"a": "a." * 100}),
    (
        "[t]\n" + "".join(f"k{i} = {i}\n" for i in range(10_003)) + "[u]\ny = 1",
        ["10002:1-10002:7 the table has too many keys; at most 10,000 are allowed"],
        {"t": {f"k{i}": i for i in range(10_000)}, "u": {"y": 1}},
    ),
    (
        "b = 2\nx = [" + "1," * 300_000 + "1]\nc = 3",
        ["2:1-2:81 the file has too many lines, keys and values; what follows the first 250,000 is not read"],
        {"b": 2},
    ),
    (
        "b = 2\n" + "# nothing\n" * 249_998 + "x = [\n  1,\n  2,\n]\n",
        ["250000:1-250000:6 the file has too many lines, keys and values; what follows the first 250,000 is not read"],
        {"b": 2},
    ),
    ("b = 2\n" + "# nothing\n" * 240_000 + "c = 3", [], {"b": 2, "c": 3}),
    (
        "a = [{" + ", ".join(f"k{i} = {i}" for i in range(10_001)) + "}]\nb = 2",
        ["1:1-1:2 the table has too many keys; at most 10,000 are allowed"],
        {"b": 2},
    ),
    ("a = yes\nb = 2", ["1:5-1:8 `yes` is not a TOML value; a string needs quotes"], {"b": 2}),
    ("a = True", ["1:5-1:9 `True` is written `true` in TOML"], {}),
    ("a = 1 b = 2\nc = 3", ["1:7-1:8 unexpected `b` after the value"], {"c": 3}),
    ("a = 'x\nb = 2", ["1:5-1:7 the string is not closed on this line"], {"b": 2}),
    ("a = [1, 2\nb = 2", ["1:5-1:10 the array is not closed: `]` is missing"], {"b": 2}),
    ("a = [\n 1\n 2\n]\nb = 2", ["3:2-3:3 a comma is missing before `2`"], {"b": 2}),
    ("a = '''x\nb = 2", ["1:5-1:9 the string is not closed"], {"b": 2}),
    (
        'a = "C:\\dir"\nb = [\n"\\w+"]\nc = 3',
        [
            r"1:8-1:10 `\d` is not an escape sequence; a backslash is written `\\`",
            r"3:2-3:4 `\w` is not an escape sequence; a backslash is written `\\`",
        ],
        {"c": 3},
    ),
    ("a\nb = 2", ["1:2-1:2 expected '=' after a key in a key/value pair"], {"b": 2}),
    ("a = 1\na = 2\nb = 3", ["2:1-2:2 `a` is given twice"], {"a": 1, "b": 3}),
    ("[t]\nx = 1\n[t]\ny = 2\n[u]\nz = 3", ["3:1-3:4 `[t]` is given twice"], {"t": {"x": 1}, "u": {"z": 3}}),
    ("[t\nx = 1\n[u]\nz = 3", ["1:3-1:3 expected ']' at the end of a table declaration"], {"u": {"z": 3}}),
    (
        "a = yes\nb = no\n[t]\nc = \nd = 1\n[[u]]\ne = 'x\n[[u]]\nf = 1",
        [
            "1:5-1:8 `yes` is not a TOML value; a string needs quotes",
            "2:5-2:7 `no` is not a TOML value; a string needs quotes",
            "4:5-4:5 the value is missing",
            "7:5-7:7 the string is not closed on this line",
        ],
        {"t": {"d": 1}, "u": [{}, {"f": 1}]},
    ),
    ("a = yes\r\nb = 2\r\n", ["1:5-1:8 `yes` is not a TOML value; a string needs quotes"], {"b": 2}),
    ("é = 'ü' x\nb = 2", ["1:1-1:2 invalid statement"], {"b": 2}),
    ("a = 'ü' x\nb = 2", ["1:9-1:10 unexpected `x` after the value"], {"b": 2}),
    ("\ta = x\nb = 2", ["1:6-1:7 `x` is not a TOML value; a string needs quotes"], {"b": 2}),
    ("b = 2\na = " + "9" * 5000, ["2:5-2:5005 an integer with thousands of digits"], {"b": 2}),
    ("b = 2\na = " + "[" * 5000, ["2:5-2:6 arrays or tables are nested too deeply"], {"b": 2}),
]


@each_row(("text", "expected", "values"), ROWS)
def test_errors_and_what_is_left(text: str, expected: list[str], values: dict[str, Any]) -> None:
    document = TomlDocument("/k.kernel.toml", text, Source.KERNEL_FILE)
    found = [f"{one.span.start}-{one.span.end} {one.message}" for one in document.diagnostics]
    assert found == expected
    assert document.values == values


def test_blanking_moves_nothing() -> None:
    text = "a = yes\nb = 2\n"
    assert parse_values(text).text == "       \nb = 2\n"


def test_what_is_given_twice_shows_the_first() -> None:
    (found,) = TomlDocument("/k.kernel.toml", "[t]\na = 1\nb = 2\na = 3\n", Source.KERNEL_FILE).diagnostics
    assert found.code == "kernel-file/duplicate-key"
    assert [str(related.span) for related in found.related] == ["/k.kernel.toml:2:1"]


def test_a_thousand_errors_are_reported_quickly() -> None:
    text = "".join(f"[t{index}]\nx = yes\ny = 1\n" for index in range(1000))
    assert len(parse_values(text).problems) == 50
