"""Every text is read; what is whole has the values that TOML says, and what is broken hides no more than itself."""

from __future__ import annotations

import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ckwatch
from ckwatch.model.text import Position
from ckwatch.model.toml import TomlFile, TomlValue, _read, _Scanner, parse_toml
from ckwatch_lsp.kernel_files.language.document import KernelFileText, cursor_context
from ckwatch_lsp.kernel_files.language.outline import folds, highlights, selections, symbols

EXAMPLES = Path(ckwatch.__file__).parents[2] / "examples"
FILES = {str(path.relative_to(EXAMPLES)): path.read_text() for path in sorted(EXAMPLES.rglob("*.toml"))}


def read(file: TomlFile) -> dict[str, Any]:
    """The whole file as Python values."""
    found: dict[str, Any] = {}
    for table in file.tables:
        place = found
        for depth, name in enumerate(table.path):
            last = depth == len(table.path) - 1
            if last and table.index is not None:
                place.setdefault(name, []).append({})
            place = place.setdefault(name, {})
            if isinstance(place, list):
                place = place[-1]
        for pair in table.pairs:
            inner = place
            for part in pair.keys[:-1]:
                inner = inner.setdefault(part.name, {})
            assert pair.value is not None
            inner[pair.keys[-1].name] = pair.value.read()
    return found


@pytest.mark.parametrize("name", FILES)
def test_shipped_files_are_read_as_toml_reads_them(name: str) -> None:
    text = FILES[name]
    assert read(parse_toml(text)) == tomllib.loads(text)
    assert read(parse_toml(text.replace("\n", "\r\n"))) == tomllib.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = 1",
        "a = [\n  1, # one\n  [2, 3],\n]\n",
        'a."b c".d = { x = 1, y = { z = "}" } }\n',
        "a = '''\n[x]\nb = 1\n'''\nc = 2\n",
        'a = """x \\"""" # comment\n[b]\n',
        "a = 1979-05-27T07:32:00Z\nb = -0x1F\nc = +1_000\nd = inf\ne = 1e6\n",
        "\"quoted key\" = \"#no comment\" # comment\n'literal' = '[x]'\n",
        "[a . b]\nc = 1\n[[d]]\n[[d]]\nx = []\n",
        "a = {}\nb = [ { c = 1 }, { c = 2 } ]\n",
        '\ufeff[x]\ny = "ü🎉"\n'.removeprefix("\ufeff"),
    ],
)
def test_valid_toml(text: str) -> None:
    expected = tomllib.loads(text.replace("-0x1F", "-31"))
    found = read(parse_toml(text.replace("-0x1F", "-31")))
    assert found == expected


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a = \nb = 1\n", [("a", None), ("b", 1)]),
        ("a\nb = 1\n", [("a", None), ("b", 1)]),
        ("a = [1, 2\nb = 1\n", [("a", None), ("b", 1)]),
        ("a = [1, [2\n\n[[x]]\nb = 1\n", [("a", None), ("b", 1)]),
        ('a = "x\nb = 1\n', [("a", None), ("b", 1)]),
        ('a = """x\nb = 1\n', [("a", None), ("b", 1)]),
        ("a = { c = 1\nb = 1\n", [("a", None), ("b", 1)]),
        ("a = { c = , d\nb = 1\n", [("a", None), ("b", 1)]),
        ("= 3\nb = 1\n", [("", 3), ("b", 1)]),
        ("a = 1 2 # x\nb = 1\n", [("a", 1), ("b", 1)]),
        ("a = }\nb = 1\n", [("a", None), ("b", 1)]),
        ("[[x\nb = 1\n", [("b", 1)]),
        ("[]\nb = 1\n", [("b", 1)]),
        ("]\nb = 1\n", [("", None), ("b", 1)]),
        ("a.b. = 1\nb = 1\n", [("a.b", 1), ("b", 1)]),
    ],
)
def test_broken_lines_hide_no_others(text: str, pairs: list[tuple[str, Any]]) -> None:
    file = parse_toml(text)
    found = [
        (pair.name, None if pair.value is None else pair.value.read()) for table in file.tables for pair in table.pairs
    ]
    assert found == pairs


def walk(file: TomlFile) -> None:
    """Ask everything of a file, at every place: positions are in order and nothing is raised."""
    text = file.text

    def check(value: TomlValue, start: int, end: int) -> None:
        assert start <= value.start < value.end <= end
        assert text[value.start : value.end] == value.text
        at = value.start
        for item in value.items:
            check(item, at, value.end)
            at = item.end
        for pair in value.pairs:
            assert value.start < pair.start <= pair.end <= value.end

    end = 0
    for table in file.tables:
        assert end <= table.start <= table.header_end <= max(table.end, table.header_end) <= table.next <= len(text)
        end = table.next
        at = table.header_end
        for pair in table.pairs:
            assert at <= pair.start <= pair.key_end <= pair.end <= table.end
            at = pair.end
            if pair.value is not None:
                check(pair.value, pair.start, pair.end)
    assert end == len(text)
    for one, other in pairwise(file.comments):
        assert one.end <= other.start


def ask_everywhere(text: str) -> None:
    document = KernelFileText(text)
    walk(document.toml)
    symbols(document.toml)
    folds(document.toml)
    list(document.parameter_pairs())
    lines = text.split("\n")
    places = {
        Position(line, column)
        for line in range(0, len(lines) + 2, max(1, len(lines) // 7))
        for column in (0, 3, 17, 1000)
    }
    for place in places:
        spot = cursor_context(document.toml, place)
        assert spot.range.start <= spot.range.end
        around = selections(document.toml, place)
        assert all(outer.covers(inner) for inner, outer in pairwise(around))
        highlights(document, place)
        document.instance_at(place)
        document.sweep_at(place)


@given(st.sampled_from(sorted(FILES)), st.data())
@settings(max_examples=60, deadline=None)
def test_prefixes_and_mutations_are_read(name: str, data: st.DataObject) -> None:
    text = FILES[name]
    cut = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 30))
    added = data.draw(st.text("[]{}=\"'#\n\r,.ab1 \\ü", max_size=6))
    kept = data.draw(st.sampled_from([text[cut + removed :], ""]))
    ask_everywhere(text[:cut] + added + kept)


@given(st.text("[]{}=\"'#\n\r,.ab1 \\-\tü\0", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read(text: str) -> None:
    ask_everywhere(text)


def in_one_piece(text: str) -> list[object]:
    """The tables as they are read when the text is not taken apart."""
    counts: dict[tuple[str, ...], int] = {}
    found: list[object] = []
    for block in _Scanner(text).piece().blocks:
        path = tuple(part.name for part in block.keys)
        index = counts.get(path, 0) if block.double else None
        counts[path] = counts.get(path, 0) + block.double
        found.append((path, index, block.start, block.header_end, block.end, block.pairs))
    return found


@given(
    st.lists(
        st.sampled_from(
            [
                "[x]",
                "[[x]]",
                "[",
                "a = 1",
                "a = [",
                "]",
                "[1]",
                "[1, 2],",
                "b = {",
                "}",
                'c = """',
                '"""',
                "# c",
                "",
                "'",
                "  [y",
            ]
        ),
        max_size=12,
    )
)
@settings(max_examples=300, deadline=None)
def test_pieces_make_no_difference(lines: list[str]) -> None:
    text = "\n".join(lines)
    found = [(one.path, one.index, one.start, one.header_end, one.end, one.pairs) for one in parse_toml(text).tables]
    assert found == in_one_piece(text)
    assert parse_toml(text).comments == _Scanner(text).piece().comments


def test_an_edit_is_read_again_and_nothing_else() -> None:
    text = FILES["gemm/gemm_f16.kernel.toml"]
    parse_toml(text)
    before = _read.cache_info().misses
    for size in ("1280", "12", "1", ""):
        parse_toml(text.replace("MPerBlock = 128", f"MPerBlock = {size}", 1))
    assert _read.cache_info().misses - before <= 5


def test_deep_arrays_end() -> None:
    ask_everywhere("a = " + "[" * 5000)
    ask_everywhere("a = " + "{ b = " * 5000)
