"""Places after edits: rows, and what holds for every text and edit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from ckwatch.model.text import Position, Range
from ckwatch_lsp.diagnostics.edit_tracking import shifted
from ckwatch_lsp.session.documents import TextChange, TextDocument, difference
from helpers.each_row import each_row


def marked(text: str) -> tuple[str, Range]:
    """The text without « and », and the range between them."""
    start, end = text.index("«"), text.index("»") - 1
    plain = text.replace("«", "").replace("»", "")
    return plain, Range(position(plain, start), position(plain, end))


def position(text: str, offset: int) -> Position:
    return Position(text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1)


def offset(text: str, place: Position) -> int:
    lines = text.split("\n")
    return sum(len(line) + 1 for line in lines[: place.line]) + place.column


def replaced(text: str, start: int, end: int, new: str) -> tuple[str, TextChange]:
    after = text[:start] + new + text[end:]
    return after, TextChange(Range(position(text, start), position(text, end)), position(after, start + len(new)))


# (text with «what is wrong», old, new, the text after with «what is wrong», None where it is gone)
ROWS = [
    ("a «bad» c", "a", "aaa", "aaa «bad» c"),
    ("a «bad» c", "a ", "a\n  ", "a\n  «bad» c"),
    ("a «bad» c", "c", "d", "a «bad» d"),
    ("one\na «bad» c", "one\n", "", "a «bad» c"),
    ("one\na «bad» c", "e\na", "e", "one «bad» c"),
    ("a «bad» c", "bad", "good", "a «good» c"),
    ("a «bad» c", "bad", "", None),
    ("a «bad» c", "a bad", "", None),
    ("a «bad» c", "ad", "", "a «b» c"),
    ("a «bad» c", "ba", "", "a «d» c"),
    ("a «bad» c", "ad c", "", "a «b»"),
    ("a «bad» c", "a b", "", "«ad» c"),
    ("a «bad» c", "ad", "a\nd", "a «ba\nd» c"),
    ("a «bad» c", "a bad c", "x", "x«»"),
    ("a «bad» c", "a bad c", "xxxxxxx", "xx«xxx»xx"),
    ("a «b\nd» c\ne", "c\ne", "c\n\ne", "a «b\nd» c\n\ne"),
    ("a «»b", "b", "cc", "a «»cc"),
    ("a «»b", " b", "", None),
    ("a «»b", "a b", "", None),
]


@each_row(("before", "old", "new", "after"), ROWS)
def test_a_place_after_an_edit(before: str, old: str, new: str, after: str | None) -> None:
    text, place = marked(before)
    start = text.index(old)
    text, edit = replaced(text, start, start + len(old), new)
    found = shifted(place, [edit])
    if after is None:
        assert found is None
    else:
        assert (text, found) == marked(after)


@pytest.mark.parametrize("place", ["«bad»", "«»bad", "bad«»"])
def test_what_is_typed_beside_a_place_is_no_part_of_it(place: str) -> None:
    text, range_ = marked(place)
    end = offset(text, range_.end)
    after, edit = replaced(text, end, end, "x")
    found = shifted(range_, [edit])
    assert found == range_
    if not range_.empty:
        after, edit = replaced(text, 0, 0, "x")
        found = shifted(range_, [edit])
        assert found is not None
        assert after[offset(after, found.start) : offset(after, found.end)] == "bad"


TEXTS = st.text(st.sampled_from("ab\n"), max_size=30)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, int, int, str, int, int]:
    text = draw(TEXTS)
    start, end, low, high = (draw(st.integers(0, len(text))) for _ in range(4))
    start, end = sorted((start, end))
    low, high = sorted((low, high))
    return text, start, end, draw(TEXTS), low, high


@given(edits())
def test_what_an_edit_does_not_touch_keeps_its_text(case: tuple[str, int, int, str, int, int]) -> None:
    text, start, end, new, low, high = case
    after, edit = replaced(text, start, end, new)
    found = shifted(Range(position(text, low), position(text, high)), [edit])
    if found is None:
        assert start <= low
        assert high <= end
        assert not new
        return
    assert found.start <= found.end <= position(after, len(after))
    first, last = offset(after, found.start), offset(after, found.end)
    if high <= start or end <= low:
        assert after[first:last] == text[low:high]
    elif low <= start and end <= high:
        assert after[first:last] == text[low:start] + new + text[end:high]


@given(TEXTS, TEXTS)
def test_the_difference_of_two_texts_makes_one_the_other(old: str, new: str) -> None:
    edit = difference(old, new)
    start, end = offset(old, edit.before.start), offset(old, edit.before.end)
    text = new[start : offset(new, edit.end)]
    assert old[:start] + text + old[end:] == new


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), TEXTS), max_size=6), TEXTS, st.integers(0, 6))
def test_a_document_knows_what_led_from_any_revision_to_the_present(
    changes: list[tuple[int, int, str]], text: str, seen: int
) -> None:
    document = TextDocument("file:///a.hip.j2", text, 0, types.PositionEncodingKind.Utf32)
    texts = [text]
    for one, other, new in changes:
        start, end = sorted((min(one, len(texts[-1])), min(other, len(texts[-1]))))
        place = types.Range(*(types.Position(p.line, p.column) for p in (position(texts[-1], i) for i in (start, end))))
        document.change([types.TextDocumentContentChangePartial(place, new)], document.revision)
        texts.append(document.text)
    revision = min(seen, document.revision)
    whole = Range(Position(0, 0), position(texts[revision], len(texts[revision])))
    # a range around everything is stretched by each edit to everything
    for edit in document.edits_since(revision):
        assert edit.before.end <= whole.end
        after = shifted(whole, [edit])
        whole = after if after is not None else Range(Position(0, 0), Position(0, 0))
        whole = Range(Position(0, 0), max(whole.end, edit.end))
    assert whole.end == position(document.text, len(document.text))
