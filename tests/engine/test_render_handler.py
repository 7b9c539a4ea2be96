"""Texts that are kept between renders."""

from __future__ import annotations

from ckwatch.core.events import UnitKey
from ckwatch.engine.handlers.render import TEXTS_AT_REST, TextCache
from ckwatch.model.source_map import SourceMap
from ckwatch.render.outcome import Rendered


def rendered(text: str) -> Rendered:
    return Rendered(text, SourceMap(text, [], []), "k", "t", frozenset())


def test_texts_of_the_present_generation_only() -> None:
    texts = TextCache(limit=10)
    key, other = UnitKey("", "a"), UnitKey("", "b")
    texts.put(key, 1, rendered("12345"))
    assert texts.get(key, 1)
    assert texts.get(key, 2) is None
    texts.put(other, 1, rendered("123456"))
    assert texts.get(key, 1) is None
    texts.put(other, 2, rendered("x" * 100))
    assert texts.get(other, 2), "the last one is kept however long it is"
    texts.drop(other)
    assert texts.get(other, 2) is None


def test_few_texts_are_kept_at_rest_however_short_they_are() -> None:
    texts = TextCache()
    keys = [UnitKey("", str(number)) for number in range(TEXTS_AT_REST + 1)]
    for key in keys:
        texts.put(key, 1, rendered("1"))
    assert texts.get(keys[0], 1)
    texts.rest()
    assert texts.get(keys[1], 1) is None, "the least recently used one"
    assert texts.get(keys[0], 1)
    assert texts.get(keys[2], 1)


def test_few_texts_are_kept_that_no_compiler_needs() -> None:
    texts = TextCache()
    keys = [UnitKey("", str(number)) for number in range(TEXTS_AT_REST + 2)]
    for key in keys:
        texts.put(key, 1, rendered("1"))
    texts.put(keys[0], 2, rendered("2"))
    for key in keys:
        texts.settle(key, 1)
    assert texts.get(keys[0], 2), "a newer text, which a compiler may need"
    assert texts.get(keys[1], 1) is None
    assert texts.get(keys[2], 1)
