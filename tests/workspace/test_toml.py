"""A valid text is read as `tomllib` reads it, at the right positions; a broken line hides no more than itself."""

from __future__ import annotations

import tomllib
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import ckwatch
from ckwatch.workspace.toml import (
    DEPTH_LIMIT,
    TomlFile,
    TomlKind,
    TomlPair,
    TomlValue,
    _read,
    _Scanner,
    parse_toml,
    toml_string,
)
from helpers.each_row import each_row

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


def typed(value: Any) -> Any:
    """`value` such that 1, 1.0 and true differ, and not-a-number equals itself."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    return [typed(inner) for inner in value] if isinstance(value, list) else repr(value)


def inside_out(value: TomlValue) -> Any:
    """The value made of its elements and pairs."""
    if value.kind is TomlKind.ARRAY:
        return [inside_out(item) for item in value.items]
    return table_of(value.pairs) if value.kind is TomlKind.INLINE_TABLE else value.read()


def table_of(pairs: tuple[TomlPair, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        inner = found
        for part in pair.keys[:-1]:
            inner = inner.setdefault(part.name, {})
        assert pair.value is not None
        inner[pair.keys[-1].name] = inside_out(pair.value)
    return found


def check_as_tomllib(text: str) -> None:
    """Values and keys are those of `tomllib`, also when each is read from the text at its position alone."""
    expected = typed(tomllib.loads(text))
    for file in (parse_toml(text), parse_toml(text, cached=False)):
        walk(file)
        assert typed(read(file)) == expected
        for table in file.tables:
            keys = list(table.keys)
            for pair in table.pairs:
                assert pair.value is not None
                assert typed(inside_out(pair.value)) == typed(pair.value.read())
                keys += pair.keys
            for key in keys:
                assert tomllib.loads(f"{text[key.start : key.end]} = 0") == {key.name: 0}
            if table.has_header:
                header = parse_toml(text[table.start : table.header_end]).tables[-1]
                assert (header.path, header.index is None) == (table.path, table.index is None)


@each_row("name", FILES)
def test_shipped_files(name: str) -> None:
    check_as_tomllib(FILES[name])
    check_as_tomllib(FILES[name].replace("\n", "\r\n"))


@each_row(
    "text",
    [
        "",
        "a = 1",
        "a = [\n  1, # one\n  [2, 3],\n]\n",
        'a."b c".d = { x = 1, y = { z = "}" } }\n',
        "a = '''\n[x]\nb = 1\n'''\nc = 2\n",
        'a = """x \\"""" # comment\n[b]\n',
        "a = 1979-05-27T07:32:00Z\nb = 0x1F\nc = +1_000\nd = inf\ne = 1e6\nf = 0xdead_beef\n",
        "a = 1979-05-27 07:32:00.5 # comment\nb = [07:32:00, 1979-05-27 07:32:00-08:00,1979-05-27 ]\n",
        "\"quoted key\" = \"#no comment\" # comment\n'literal' = '[x]'\n",
        "[a . b]\nc = 1\n[[d]]\n[[d]]\nx = []\n",
        "a = {}\nb = [ { c = 1 }, { c = 2 } ]\n",
        'x = [\n  ["a"]\n]\ny = 1\n',
        'x = [\n  ["a"] # one\n  # two\n\n  , ["b"]\n  ,\n  ["c"]]\ny = 1\n[z]\n',
        "k = [{  },\n[']#']]\n[z]\n",
        "k = [{  },\n[''']\n''']]\n[z]\n",
        "k = [[\n['''a' ]\nx = 1'''],\n[[\"]\"]\n]]]\n[z]\n",
        'where = [\n  "MPerBlock == 1",\n  \'a = b\',\n  """c" = "d""",\n]\n[z]\na = 1\n',
        "a = " + "[" * 100 + "'\"]' # ]\n, ']'" + "]" * 100 + "\n[b]\nc = 1\n",
        "a = " + "{ b = " * 70 + '["]"]' + " }" * 70 + "\n[b]\nc = 1\n",
    ],
)
def test_valid_toml(text: str) -> None:
    if not deep(text):
        check_as_tomllib(text)
    assert read(parse_toml(text)) == tomllib.loads(text)


def deep(text: str) -> bool:
    return max(text.count("["), text.count("{")) > DEPTH_LIMIT


TRICKY = ["[a]", "[[a]]", "a = 1", "]", "}", "#", ",", '"', "'", "\\", "\n", "é", "🎉", "=", '"a" = ', " ", "b"]
FILLS = ["", " ", "\t", "\n", "\n  ", " # [x]\n", "\n# a = 1 ]\n", "\n\n"]
SCALARS = [
    *("0", "-17", "+1_000", "0xdead_beef", "0o17", "0b101", "1.5", "-0.0", "6e-10", "1E+06", "+1_0.2_5", "inf", "-nan"),
    *("true", "false", "1979-05-27", "07:32:00", "07:32:00.999", "1979-05-27T00:32:00-07:00", "1979-05-27 07:32:00Z"),
]


@st.composite
def strings(draw: st.DrawFn) -> str:
    """A string in one of the four ways to write it."""
    content = "".join(draw(st.lists(st.sampled_from(TRICKY), max_size=6)))
    match draw(st.integers(0, 3)):
        case 0 if "'" not in content and "\n" not in content:
            return f"'{content}'"
        case 1 if "'''" not in content and not content.endswith("'"):
            return f"'''{content}'''"
        case 2:
            return (
                '"""'
                + content.replace("\\", "\\\\").replace('"""', '""\\"')
                + draw(st.sampled_from(["", "\\\n  "]))
                + '"""'
            )
    return toml_string(content)


def arrays(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    @st.composite
    def array(draw: st.DrawFn) -> str:
        fill = st.sampled_from(FILLS)
        text = "["
        for index, item in enumerate(draw(st.lists(items, max_size=3))):
            text += ("," if index else "") + draw(fill) + item + draw(fill)
        return text + (draw(st.sampled_from(["", ",", " ,\n"])) if text[1:].strip() else draw(fill)) + "]"

    return array()


@st.composite
def keys(draw: st.DrawFn, number: int) -> str:
    """A key that is no other's, with dots, blanks and quotes."""
    parts = [
        f"k{number}",
        *draw(st.lists(st.sampled_from(["a", "1", "-", '"[x]"', "'a = b'", '"\\u00e9\\n"', '""']), max_size=2)),
    ]
    return draw(st.sampled_from([".", " . ", "\t."])).join(parts)


def inline_tables(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    @st.composite
    def table(draw: st.DrawFn) -> str:
        found = draw(st.lists(values, max_size=3))
        return "{ " + " , ".join(f"{draw(keys(number))} = {value}" for number, value in enumerate(found)) + " }"

    return table()


values = st.recursive(
    st.sampled_from(SCALARS) | strings(), lambda inner: arrays(inner) | inline_tables(inner), max_leaves=8
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A valid TOML text."""
    text = ""
    for number in range(draw(st.integers(0, 6))):
        match draw(st.integers(0, 4)):
            case 0:
                text += f"  [ {draw(keys(number))}]" + draw(st.sampled_from(["", "\t# [x]"]))
            case 1:
                text += draw(st.sampled_from(["[[x]]", "[[x.y]]", '[["x"]]'])) + " # a, b"
            case 2:
                text += draw(st.sampled_from(["# [a]", "", "\t# a = [", "#,"]))
            case _:
                text += f"{draw(keys(number))} = {draw(values)}" + draw(st.sampled_from(["", " # ]", "\t"]))
        text += "\n"
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(documents())
@settings(max_examples=300, deadline=None)
def test_every_valid_text_is_read_as_tomllib_reads_it(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        reject()
    check_as_tomllib(text)


@given(st.text("[]{}=\"'#\n\r,.ab1 \\-\tü", max_size=40))
@settings(max_examples=300, deadline=None)
def test_texts_that_happen_to_be_valid(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        walk(parse_toml(text))
    else:
        check_as_tomllib(text)


@each_row(
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
                '["a"]',
                ",",
                '"a = 1",',
                "a = [1,",
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
    for opened in ("[", "{ b = "):
        text = "a = " + opened * 5000
        walk(parse_toml(text))


@pytest.mark.parametrize("text", ['x = "{}', 'x = "{}"\n', '"{}" = 1\n'])
def test_a_long_string_takes_memory_as_other_text_does(text: str) -> None:
    long = text.replace("{}", "v" * 1_000_000)
    tracemalloc.start()
    parse_toml(long)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * len(long)
