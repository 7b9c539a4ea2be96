"""The words that templates can always use, as the daemon tells them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ckwatch.wire.language import Word
from ckwatch_lsp.jinja.names import SPECIAL_NAMES

JINJA_GLOBALS = ("range", "dict", "lipsum", "cycler", "joiner", "namespace")
"""Functions of Jinja2; they are known before the daemon has answered."""


@dataclass(frozen=True, slots=True)
class Words:
    """Hooks, filters, tests, names that are always there, statements, and names that Jinja2 binds in certain places."""

    hooks: Mapping[str, Word] = field(default_factory=dict)
    filters: Mapping[str, Word] = field(default_factory=dict)
    tests: Mapping[str, Word] = field(default_factory=dict)
    globals: Mapping[str, Word] = field(default_factory=dict)
    tags: Mapping[str, Word] = field(default_factory=dict)
    specials: Mapping[str, Word] = field(default_factory=dict)

    def of(self, kind: str) -> Mapping[str, Word]:
        """The words of a `KnownWord`'s kind."""
        found: Mapping[str, Word] = getattr(self, _KINDS[kind], {}) if kind in _KINDS else {}
        return found


_KINDS = {
    "hook": "hooks",
    "filter": "filters",
    "test": "tests",
    "global": "globals",
    "tag": "tags",
    "special": "specials",
}


def words(
    hooks: Iterable[Word] = (),
    filters: Iterable[Word] = (),
    tests: Iterable[Word] = (),
    global_names: Iterable[Word] = (),
    tags: Iterable[Word] = (),
) -> Words:
    """The words of a `Vocabulary`."""
    known = {name: Word(name=name, signature=name) for name in JINJA_GLOBALS} | _by_name(global_names)
    specials = {name: known.pop(name) for name in sorted(SPECIAL_NAMES & known.keys())}
    return Words(_by_name(hooks), _by_name(filters), _by_name(tests), known, _by_name(tags), specials)


def _by_name(values: Iterable[Word]) -> dict[str, Word]:
    return {word.name: word for word in values}
