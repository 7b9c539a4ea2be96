"""Formatting changes blanks and line ends, and nothing that TOML reads or a person wrote."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckwatch.model.text import Position, Range
from ckwatch.workspace.toml import TomlFile, parse_toml
from ckwatch_lsp.kernel_files.language.edits import KernelFileEdit
from ckwatch_lsp.kernel_files.language.formatting import format_file, format_lines
from helpers.each_row import each_row
from helpers.kernel_file_edits import applied
from workspace.test_toml import FILES, documents, typed

MULTILINE_TEXT = re.compile(r'"""|\'\'\'')


def formatted(text: str) -> str:
    file = parse_toml(text)
    return applied(text, file, format_file(file))


def spellings(text: str) -> str:
    """All that is neither blank nor line end."""
    return "".join(text.split())


def comments(file: TomlFile) -> list[str]:
    return [file.text[one.start : one.end].rstrip(" \t") for one in file.comments]


def read(text: str) -> Any:
    return typed(tomllib.loads(text.removeprefix("\ufeff")))


def check(text: str) -> str:
    """Check what formatting keeps of every valid text; return the formatted text."""
    file = parse_toml(text)
    edits = format_file(file)
    found = applied(text, file, edits)
    assert read(found) == read(text)
    assert comments(parse_toml(found)) == comments(file)
    assert spellings(found) == spellings(text)
    assert format_file(parse_toml(found)) == []
    assert found == "" or found.endswith("\n")
    assert found.count("\r\n") == found.count("\n") or "\r\n" not in text or text.count("\r\n") != text.count("\n")
    assert "\r\n" not in found or "\r\n" in text
    if not MULTILINE_TEXT.search(text):
        assert re.search(r"[ \t]\r?\n|[ \t]\Z", found) is None
    ends = [Range(Position(0, 0), Position(0, 0)), *(edit.range for edit in edits)]
    assert all(one.end <= other.start for one, other in pairwise(ends))
    for edit in edits:
        old = text[file.offset(edit.range.start) : file.offset(edit.range.end)]
        assert not (old + edit.text).strip(" \t\r\n=,.[]{}"), edit
        assert old != edit.text
        assert file.line_end(edit.range.start.line) >= file.offset(edit.range.start), "within a line end"
    return found


@each_row("name", FILES)
def test_the_shipped_files_are_formatted(name: str) -> None:
    assert check(FILES[name]) == FILES[name]
    assert format_file(parse_toml(FILES[name].replace("\n", "\r\n"))) == []


@each_row(
    ("text", "expected"),
    [
        ("", ""),
        (" \n\n", ""),
        ("a=1", "a = 1\n"),
        ("\ufeff\n a=1\n", "\ufeffa = 1\n"),
        ("a   =\t1   \n", "a = 1\n"),
        ("a . 'b' .c=1\n", "a.'b'.c = 1\n"),
        ("[ a . b ]\n[[ c ]] \n", "[a.b]\n\n[[c]]\n"),
        ("a = 1\n\n\n\nb = 2\n\n\n", "a = 1\n\nb = 2\n"),
        ("[a]\n  b = 1\n    # c\n", "[a]\nb = 1\n# c\n"),
        # comments behind values stay where they stand, often below each other
        ("a = 1#one\nb = 2 #  two  \nc = 3     # three\n", "a = 1  #one\nb = 2 #  two\nc = 3     # three\n"),
        # comments right above a header belong to it, but for pairs that are commented out
        ("a = 1\n# b\n# c\n[d]\n", "a = 1\n\n# b\n# c\n[d]\n"),
        ("a = 1\n# b\n\n[d]\n", "a = 1\n# b\n\n[d]\n"),
        ("a = 1\n# b = 2\n# c\n[d]\n", "a = 1\n# b = 2\n\n# c\n[d]\n"),
        ("a = 1  # b\n[d]\n", "a = 1  # b\n\n[d]\n"),
        ("# b\n[d]\n", "# b\n[d]\n"),
        ("\n\n# b\n\n\n# c\n[d]\n", "# b\n\n# c\n[d]\n"),
        # values keep their spelling
        ("a = 0x1F\nb = 'x'\nc = 1_000\nd = 1979-05-27 07:32:00\n", "a = 0x1F\nb = 'x'\nc = 1_000\nd = 1979-05-27 07:32:00\n"),
        ("a = [1,2 ,[ 3 ],]\nb = [ ]\nc={x=1,y . z={ }}\n", "a = [1, 2, [3],]\nb = []\nc = { x = 1, y.z = {} }\n"),
        ('a = [ "x,  y" , \'=  \' ]\n', 'a = ["x,  y", \'=  \']\n'),
        # arrays over several lines keep them
        ("a=[\n   1,  2,  \n  10,20, # c  \n]  \n", "a = [\n   1,  2,\n  10,20, # c\n]\n"),
        ('a = [  \n  """x  \n\n\ny""",  \n]\n', 'a = [\n  """x  \n\n\ny""",\n]\n'),
        ('a = """  \n  b   =1  \n"""  \n', 'a = """  \n  b   =1  \n"""\n'),
        ("a=1\r\n\r\n\r\n[b]\r\n\tc=2", "a = 1\r\n\r\n[b]\r\nc = 2\r\n"),
        ("a=[\r\n1, \r\n]\r\n# x \r\n[b]\r\n", "a = [\r\n1,\r\n]\r\n\r\n# x\r\n[b]\r\n"),
    ],
)  # fmt: skip
def test_texts(text: str, expected: str) -> None:
    assert check(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a=",
        "a=1\n[b",
        'a="x\n',
        "a=1\na=2\n",
        "a=[1,\n",
        "a=1 # \rb\n",
        "a=" + "[" * 9000,
        "[" + "a." * 9000 + "b]",
        "\0",
    ],
)
def test_what_is_no_toml_is_left_alone(text: str) -> None:
    assert format_file(parse_toml(text)) == []


def test_values_that_are_too_deep_to_be_read_are_left_alone() -> None:
    text = "a = " + "[ " * 70 + "1 ,2" + " ]" * 70 + "\n"
    assert check(text).count("1 ,2") == 1


def test_lines_of_a_file() -> None:
    text = "a=1\nb=2\n[c]\nd=3\n"
    file = parse_toml(text)

    def lines(start: int, end: int, column: int = 0) -> str:
        return applied(text, file, format_lines(file, Range(Position(start, 0), Position(end, column))))

    assert lines(1, 2) == "a=1\nb = 2\n[c]\nd=3\n"
    assert lines(1, 1) == lines(1, 2)
    assert lines(1, 2, 1) == "a=1\nb = 2\n\n[c]\nd=3\n"
    assert lines(0, 99) == formatted(text) == "a = 1\nb = 2\n\n[c]\nd = 3\n"


def test_edits_are_as_small_as_can_be() -> None:
    file = parse_toml("[a]\nb =1\n\n\n\nc = 2\n")
    assert format_file(file) == [
        KernelFileEdit(Range(Position(1, 3), Position(1, 3)), " "),
        KernelFileEdit(Range(Position(3, 0), Position(5, 0)), ""),
    ]


@given(documents() | st.text("[]{}=\"'#\n\r,.ab1 \\-\tü", max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assert format_file(parse_toml(text)) == []
    else:
        check(text)


@given(st.sampled_from(sorted(FILES)), st.data())
@settings(max_examples=100, deadline=None)
def test_what_was_typed_without_care(name: str, data: st.DataObject) -> None:
    """The shipped files come back when blanks were lost or added."""
    lines = FILES[name].split("\n")
    for number in data.draw(st.lists(st.integers(0, len(lines) - 2), max_size=8, unique=True)):
        line = lines[number]
        spoilt = [f"{line}  ", f"\t{line}", line or "\n\n"]
        if "#" not in line and '"' not in line:
            spoilt += [line.replace(" = ", "="), line.replace(" = ", "  =\t"), line.replace(", ", ",")]
        lines[number] = data.draw(st.sampled_from(spoilt))
    assert check("\n".join(lines)) == FILES[name]
