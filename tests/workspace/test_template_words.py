"""The words of template files, remembered."""

from __future__ import annotations

from ckwatch.workspace import template_search
from ckwatch.workspace.template_search import IdentifierCache

TEXT = "{# Tile: int #}\n{{ Tile }} int number = %d;\n"


def test_templates_that_are_written_alike_share_their_words() -> None:
    cache = IdentifierCache()
    first, second = (cache.of_text(f"/ws/{number}.j2", TEXT % number) for number in range(2))
    assert first is not second
    assert "Tile" in first.words
    assert first.words is second.words
    assert first.printed is second.printed
    assert first.repeated is second.repeated
    closures = [cache.closure(f"{number}.j2", lambda _, words=words: words) for number, words in enumerate((first, second))]  # type: ignore[misc]  # fmt: skip
    assert closures[0].words is closures[1].words


def test_only_the_last_sets_are_kept() -> None:
    cache = IdentifierCache()
    for number in range(template_search.SETS_KEPT):
        cache.of_text(f"/ws/{number}.j2", f"{{{{ name_{number} }}}}")
    assert len(cache._sets) <= template_search.SETS_KEPT
