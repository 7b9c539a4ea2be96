"""What a cursor in a kernel file is on."""

from __future__ import annotations

import pytest

from ckwatch_lsp.kernel_file.scanning import parse
from ckwatch_lsp.kernel_file.spots import spot_at
from marked import marked


@pytest.mark.parametrize(
    ("text", "kind", "path", "word", "replaced"),
    [
        ("‸", "key", "", "", ""),
        ("na‸me = 1", "key", "", "na", "name"),
        ("name ‸= 1", "nothing", "", "", ""),
        ("name =‸", "value", "name", "", ""),
        ("name = ‸\n[x]", "value", "name", "", ""),
        ("name = ‸ # c", "value", "name", "", ""),
        ('name = "a‸b"', "value", "name", '"a', '"ab"'),
        ('name = "ab"‸', "value", "name", '"ab"', '"ab"'),
        ('name = "ab" ‸', "nothing", "", "", ""),
        ('name = "ab" # c‸', "comment", "", "", ""),
        ("a = 12‸8", "value", "a", "12", "128"),
        ("a = ‸128", "value", "a", "", "128"),
        ("[x]\n‸\n[y]", "key", "x", "", ""),
        ("[x]\na = 1\n\n  ‸", "key", "x", "", ""),
        ("[x‸", "header", "x", "[x", "[x"),
        ("[[‸]]", "header", "", "[[", "[[]]"),
        ("[‸", "header", "", "[", "["),
        ("[[instance]]‸\na = 1", "header", "instance", "[[instance]]", "[[instance]]"),
        ("[[instance]] ‸\na = 1", "nothing", "instance", "", ""),
        ("[o]\na = { dt‸ }", "key", "o.a", "dt", "dt"),
        ("[o]\na = { ‸ }", "key", "o.a", "", ""),
        ("[o]\na = { dtype = ‸}", "value", "o.a.dtype", "", ""),
        ('[o]\na = { dtype = "f‸16", layout = "row" }', "value", "o.a.dtype", '"f', '"f16"'),
        ('[o]\na = { dtype = "f16", ‸ }', "key", "o.a", "", ""),
        ("a = [1, ‸]", "value", "a", "", ""),
        ("a = [1, 2‸2, 3]", "value", "a", "2", "22"),
        ("a = ‸[1]", "value", "a", "", "[1]"),
        ("a.b‸ = 1", "key", "a", "b", "b"),
        ("MPer‸\n[x]", "key", "", "MPer", "MPer"),
        ("a = [1,\n  ‸", "value", "a", "", ""),
        ("a = [{ b = ‸", "value", "a.b", "", ""),
        ("# c‸omment\na = 1", "comment", "", "", ""),
        ("a = 1\n‸# comment", "key", "", "", ""),
    ],
)
def test_spots(text: str, kind: str, path: str, word: str, replaced: str) -> None:
    plain, position = marked(text)
    file = parse(plain)
    spot = spot_at(file, position)
    start, end = file.offset(spot.range.start), file.offset(spot.range.end)
    assert (spot.kind.value, spot.dotted, spot.word, plain[start:end]) == (kind, path, word, replaced)


@pytest.mark.parametrize(
    ("text", "siblings"),
    [
        ("[x]\na = 1\n‸\nb = 2\n[y]\nc = 1", ("a", "b")),
        ("[x]\na = 1\nb‸ = 2", ("a",)),
        ("[x]\na = { p = 1, ‸, q = 2 }\nb = 1", ("p", "q")),
    ],
)
def test_keys_that_are_there_already(text: str, siblings: tuple[str, ...]) -> None:
    plain, position = marked(text)
    assert spot_at(parse(plain), position).siblings == siblings


@pytest.mark.parametrize(
    ("text", "element", "inside"),
    [
        ("a = [1, ‸]", True, False),
        ('a = ["x‸"]', True, True),
        ('a = "x‸"', False, True),
        ('a = "x"‸', False, False),
        ('a = "x‸', False, True),
    ],
)
def test_elements_and_quotes(text: str, element: bool, inside: bool) -> None:
    plain, position = marked(text)
    spot = spot_at(parse(plain), position)
    assert (spot.element, spot.inside) == (element, inside)
