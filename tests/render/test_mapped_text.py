"""Mapped text is a `str` first: every operation gives what `str` gives, and the nodes always cover the text."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.text import Position, span
from ckwatch.render.mapped_text import MappedText, concat, printed, replace, verbatim
from ckwatch.render.outcome import map_of

SITE = Site(SiteKind.TEXT, span("/t/a.j2", 3, 2, 9, 0), "text")
PRINT = Site(SiteKind.EXPRESSION, span("/t/a.j2", 7, 0, 7, 9), "x")


def sample(text: str) -> MappedText:
    """Half copied, half printed."""
    half = len(text) // 2
    return concat([verbatim(text[:half], SITE), printed(text[half:], PRINT)])


def covered(text: str) -> bool:
    segments = map_of(MappedText(text), SITE).segments
    at = 0
    for segment in segments:
        if segment.start != at or segment.end <= segment.start:
            return False
        at = segment.end
    return at == len(text)


OPERATIONS: list[Callable[[str], Any]] = [
    lambda s: s.upper(),
    lambda s: s.strip(),
    lambda s: s.lstrip("ab"),
    lambda s: s.rstrip("ab "),
    lambda s: s.title(),
    lambda s: s.center(30),
    lambda s: s.expandtabs(3),
    lambda s: s.replace("a", "bb"),
    lambda s: s.replace("ab", ""),
    lambda s: s.replace("", "-"),
    lambda s: s.replace("a", "b", 1),
    lambda s: s[1:4],
    lambda s: s[-3:],
    lambda s: s[::2],
    lambda s: s[4:1],
    lambda s: s + "x",
    lambda s: "x" + s,
    lambda s: s * 3,
    lambda s: -1 * s,
    lambda s: s.removeprefix("a"),
    lambda s: s.removesuffix("b"),
    lambda s: s.join(["1", "2", "3"]),
    lambda s: "".join(s.splitlines(keepends=True)),
    lambda s: s.splitlines(),
    lambda s: s.split(),
    lambda s: s.partition("a"),
    lambda s: s.zfill(12),
    lambda s: s.casefold(),
    lambda s: list(s),
    lambda s: f"{s}!",
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
@given(text=st.text(alphabet="ab \t\nßé😀", max_size=12))
def test_operations_agree_with_str(number: int, text: str) -> None:
    result = OPERATIONS[number](sample(text))
    expected = OPERATIONS[number](text)
    assert result == expected
    assert type(expected) is type(result) or isinstance(result, MappedText)
    for part in [result] if isinstance(result, str) else result:
        assert covered(part)


def test_a_cut_starts_at_its_own_place() -> None:
    text = verbatim("one\n  two", SITE)[6:]
    (segment,) = map_of(text, SITE).segments
    assert (segment.position, segment.verbatim) == (Position(4, 2), True)


def test_replaced_text_belongs_to_the_site_it_stands_at() -> None:
    segments = map_of(replace(verbatim("int KERNEL_NAME()", SITE), "KERNEL_NAME", "gemm_12ab"), SITE).segments
    assert [(s.start, s.end, s.verbatim, s.position) for s in segments] == [
        (0, 4, True, Position(3, 2)),
        (4, 13, False, Position(3, 2)),
        (13, 15, True, Position(3, 17)),
    ]


def test_rearranged_text_is_approximate() -> None:
    assert map_of(MappedText(sample("abc").upper()), SITE).exact
    assert not map_of(MappedText("made of something"), SITE).exact


def test_it_survives_pickling() -> None:
    text = sample("abc def")
    copy = pickle.loads(pickle.dumps(text))
    assert (copy, type(copy), copy._nodes) == (text, MappedText, text._nodes)
