"""Texts that are kept between renders."""

from __future__ import annotations

from ckwatch.core.events import UnitKey
from ckwatch.engine.handlers.render import TextCache
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
