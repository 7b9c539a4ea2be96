"""Places of keys and values, in code points, and files that are no UTF-8."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.model.diagnostics import Source
from ckwatch.workspace.files import decode_text, read_text
from ckwatch.workspace.toml_document import KeyPath, TomlDocument
from helpers.each_row import each_row

TEXT = """top = 1
[operation]
kind = "gemm"
a = { dtype = "f16", layout = "row" }
b.dtype = 'f32'
"quoted key".c = [1, [2, 3]]
[[instance]]
name = "é"; MPerBlock = 1
[[instance]]
name = "zwei"
[instance.more]
x = 1
[[sweep]]
[sweep.parameters]
MPerBlock = [
  128, # first
  256,
]
""".replace('"é"; MPerBlock', '"é"\n\tß = "ä" # ö\nMPerBlock')

BROKEN_KEY_FREE = TEXT.replace("\tß", '\t"ß"')

ROWS: list[tuple[KeyPath, str, str]] = [
    (("top",), "1:1-1:4", "1:7-1:8"),
    (("operation",), "2:2-2:11", "2:1-2:12"),
    (("operation", "a"), "4:1-4:2", "4:5-4:38"),
    (("operation", "a", "layout"), "4:22-4:28", "4:31-4:36"),
    (("operation", "b"), "5:1-5:2", "5:1-5:16"),
    (("operation", "b", "dtype"), "5:3-5:8", "5:11-5:16"),
    (("operation", "quoted key", "c", 1, 1), "6:26-6:27", "6:26-6:27"),
    (("instance", 0), "7:3-7:11", "7:1-7:13"),
    (("instance", 0, "name"), "8:1-8:5", "8:8-8:11"),
    (("instance", 0, "ß"), "9:2-9:5", "9:8-9:11"),
    (("instance", 1, "name"), "12:1-12:5", "12:8-12:14"),
    (("instance", 1, "more", "x"), "14:1-14:2", "14:5-14:6"),
    (("sweep", 0, "parameters", "MPerBlock", 1), "19:3-19:6", "19:3-19:6"),
    (("operation", "nothing", "here"), "2:1-2:12", "2:1-2:12"),
    (("nothing",), "1:1-1:1", "1:1-1:1"),
]


@each_row("ending", ["\n", "\r\n"])
@each_row(("path", "key", "value"), ROWS)
def test_places(path: KeyPath, key: str, value: str, ending: str) -> None:
    document = TomlDocument("/f", BROKEN_KEY_FREE.replace("\n", ending), Source.KERNEL_FILE)
    assert document.diagnostics == ()
    key_span, value_span = document.key_span_of(path), document.span_of(path)
    assert f"{key_span.start}-{key_span.end}" == key
    assert f"{value_span.start}-{value_span.end}" == value


@pytest.mark.parametrize(
    ("written", "start", "end", "expected"),
    [
        ('"MPerBlock > 1"', 0, 9, "1:6-1:15"),
        ("'MPerBlock > 1'", 12, 13, "1:18-1:19"),
        ('"ä > b"', 4, 5, "1:10-1:11"),
        (r'"\u0061 > b"', 4, 5, "1:5-1:17"),
        ("'''a > b'''", 4, 5, "1:5-1:16"),
    ],
)
def test_places_within_strings(written: str, start: int, end: int, expected: str) -> None:
    document = TomlDocument("/f", f"w = {written}\n", Source.KERNEL_FILE)
    span = document.span_within(("w",), start, end)
    assert f"{span.start}-{span.end}" == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a = 1\n", []),
        (b"\xef\xbb\xbfa = 1\n", []),
        ("# größe\n".encode(), []),
        (b"a = 1\nb = 'gr\xf6\xdfe'\n", ["2:8 byte 0xF6 (`ö` in Latin-1)", "2:9 byte 0xDF (`ß` in Latin-1)"]),
        (b"# \xc3\xa4 \xe4\n", ["1:5 byte 0xE4"]),
        ("a = 1\n".encode("utf-16"), ["1:1 cannot be read: written in UTF-16"]),
        (b"\xff" * 50, [f"1:{column} byte 0xFF" for column in (1, *range(2, 11))]),
    ],
)
def test_bytes(content: bytes, expected: list[str]) -> None:
    if content.startswith(b"\xff\xff"):
        content = b" " + content
        expected = [row.replace(f"1:{index + 1} ", f"1:{index + 2} ") for index, row in enumerate(expected)]
    found = decode_text("/f", content, Source.KERNEL_FILE).diagnostics
    assert len(found) == len(expected)
    for diagnostic, row in zip(found, expected, strict=True):
        place, _, message = row.partition(" ")
        assert str(diagnostic.span.start) == place
        assert diagnostic.message.startswith(message)


def test_a_byte_order_mark_moves_nothing() -> None:
    read = decode_text("/f", b"\xef\xbb\xbfa = 1\n", Source.KERNEL_FILE)
    span = TomlDocument("/f", read.text, Source.KERNEL_FILE).key_span_of(("a",))
    assert str(span.start) == "1:1"


def test_unreadable_files(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "no such file"), (tmp_path, "is a directory")):
        (found,) = read_text(str(path), Source.KERNEL_FILE).diagnostics
        assert found.code == "kernel-file/unreadable"
        assert why in found.message
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    (found,) = read_text(str(large), Source.KERNEL_FILE).diagnostics
    assert found.message == "cannot be read: larger than 8 MiB"


HABITS = [
    # (text, place, message, what the fix makes of the line)
    ("a: 1", "1:2", "not `:`", "a = 1"),
    ("a = 1,", "1:6", "no comma", "a = 1"),
    ("a = 1;", "1:6", "`;`", "a = 1"),
    ("a = 1 // one", "1:7", "begins with `#`", "a = 1 # one"),
    ("// one", "1:1", "begins with `#`", "# one"),
    ("a = None", "1:5", "TOML has no `None`", None),
    ("a = True", "1:5", "`true`", "a = true"),
    ("a = 016", "1:5", "does not begin with 0", "a = 16"),
    ("a = 0x", "1:5", "digits are missing", None),
    ("a = (1, 2)", "1:5", "[1, 2]", "a = [1, 2]"),
    ("a = [1 2]", "1:8", "comma is missing before `2`", "a = [1 , 2]"),
    ("a = [1,\n2\nb = 3", "1:5", "the array is not closed", None),
    ("a = { b = 1 c = 2 }", "1:13", "comma is missing before `c`", "a = { b = 1 , c = 2 }"),
    ("a = { b = 1, }", "1:12", "inline table", "a = { b = 1 }"),
    ("a = { b = 1", "1:5", "inline table is not closed", None),
    ("a = { b: 1 }", "1:8", "not `:`", "a = { b = 1 }"),
    ('a = "x', "1:5", "not closed", None),
    ('a = { b = "x }', "1:11", "not closed", None),
    ("\ta = 'x", "1:6", "not closed", None),
    ("é = 1\n# ü\nb = \u201cx\u201d", "1:1", "", None),
    ("b = \u201cx\u201d", "1:5", "not a quotation mark of TOML", 'b = "x\u201d'),
    ("= 1", "1:1", "key is missing", None),
    ('{ "a": 1 }', "1:1", "JSON", None),
    ("[instance]\nname = 'a'\n[[instance]]\nname = 'b'", "1:1", "[[instance]]", "[[instance]]"),
    ("[[instance]]\r\nname = 'a'\r\n[instance]\r\nname = 'b'", "3:1", "[[instance]]", "[[instance]]"),
]


@each_row(("text", "place", "message", "fixed"), HABITS)
def test_habits_of_other_languages(text: str, place: str, message: str, fixed: str | None) -> None:
    found = TomlDocument("/k.kernel.toml", text, Source.KERNEL_FILE).diagnostics[0]
    assert (str(found.span.start), message in found.message) == (place, True), found.message
    lines = text.splitlines()
    line = lines[found.span.start.line]
    made = [line[: found.span.start.column] + fix.text + line[found.span.end.column :] for fix in found.fixes]
    assert made == ([] if fixed is None else [fixed])
