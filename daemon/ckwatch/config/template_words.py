"""The identifiers in the tags of templates: what a template can mention as a parameter.

Words are remembered for each file (`TextWords`) and for each template with all that it includes (`Closure`), beyond
one load of a workspace: a closure is put together anew only when one of its files says something else.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ckwatch.config.stamps import ByStamp, Clock, Stamp

TEMPLATE_TEXT_LIMIT_BYTES = 16 * 1024 * 1024

VARIANTS_KEPT = 4
"""Of each file and closure: editors lend different texts for the same file, and loads for them alternate."""

UNUSED_KEPT = 1000
"""So many more than twice what a load uses are kept: other loads may use them."""

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_REFERENCE = re.compile(r"\{%[-+]?\s*(?:include|extends|import|from)\b(?P<what>[^%]*)")
_LITERAL = re.compile(r"\s*(\"[^\"]*\"|'[^']*')")


@dataclass(frozen=True, slots=True, eq=False)
class TextWords:
    """The identifiers in the tags of one file, and the templates that it names; None where a name is computed.

    The same object stands for the same text of the same file.
    """

    words: frozenset[str]
    references: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Closure:
    """A template and what it includes: the files that were looked at, by template name, and all their words.

    `words` is None where they cannot be told: a file is missing, or a name is computed.
    """

    texts: tuple[tuple[str, TextWords | None], ...]
    words: frozenset[str] | None


class TemplateWords:
    """The words of template files and of closures, remembered."""

    def __init__(self, clock: Clock = time.time_ns) -> None:
        self._clock = clock
        self._by_stamp: ByStamp[TextWords] = ByStamp()
        self._by_text: dict[str, list[tuple[bytes, TextWords]]] = {}
        self._closures: dict[str, list[Closure]] = {}

    def of_file(self, path: str, stamp: Stamp) -> TextWords | None:
        """The words of the file at `path`, which has this stamp now; None if it cannot be read."""
        known = self._by_stamp.get(path, stamp)
        if known is not None:
            return known
        if stamp[2] > TEMPLATE_TEXT_LIMIT_BYTES:
            return None
        now_ns = self._clock()
        try:
            text = Path(path).read_text("utf-8", "replace")
        except OSError:
            return None
        found = self.of_text(path, text)
        self._by_stamp.put(path, stamp, now_ns, found)
        return found

    def of_text(self, path: str, text: str) -> TextWords:
        """The words of a text that stands for the file at `path`."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        variants = self._by_text.setdefault(path, [])
        for known in variants:
            if known[0] == digest:
                remember(variants, known)
                return known[1]
        words = _words_of(text)
        remember(variants, (digest, words))
        return words

    def closure(self, name: str, look: Callable[[str], TextWords | None]) -> Closure:
        """The words of the template `name` and of all that it includes; `look` gives the words of one template."""
        variants = self._closures.setdefault(name, [])
        for known in variants:
            if all(look(part) is words for part, words in known.texts):
                remember(variants, known)
                return known
        found = _collect(name, look)
        remember(variants, found)
        return found

    def forget_unused(self, names: Collection[str], paths: Collection[str]) -> None:
        """Keep memory bounded: drop what a load did not use where that has become much."""
        most = 2 * max(len(names), len(paths)) + UNUSED_KEPT
        if max(len(self._by_text), len(self._closures), len(self._by_stamp)) > most:
            self._by_stamp.keep(paths)
            self._by_text = {path: known for path, known in self._by_text.items() if path in paths}
            self._closures = {name: known for name, known in self._closures.items() if name in names}


Variant = TypeVar("Variant")


def remember(variants: list[Variant], variant: Variant) -> None:
    """Put a variant first, and drop the one that was not used for longest where there are too many."""
    if variants and variants[0] is variant:
        return
    variants[:] = [variant, *(other for other in variants if other is not variant)][:VARIANTS_KEPT]


def _words_of(text: str) -> TextWords:
    words: set[str] = set()
    for tag in _TAG.findall(text):
        words.update(map(sys.intern, _IDENTIFIER.findall(tag)))
    references: list[str] = []
    for reference in _REFERENCE.finditer(text):
        literal = _LITERAL.match(reference["what"])
        if literal is None:
            return TextWords(frozenset(words), None)
        references.append(literal[1][1:-1])
    return TextWords(frozenset(words), tuple(references))


def _collect(name: str, look: Callable[[str], TextWords | None]) -> Closure:
    words: set[str] = set()
    waiting, seen = [name], {name}
    texts: list[tuple[str, TextWords | None]] = []
    while waiting:
        part = waiting.pop()
        found = look(part)
        texts.append((part, found))
        if found is None or found.references is None:
            return Closure(tuple(texts), None)
        words |= found.words
        for reference in found.references:
            if reference not in seen:
                seen.add(reference)
                waiting.append(reference)
    if len(texts) == 1 and texts[0][1] is not None:
        return Closure(tuple(texts), texts[0][1].words)
    return Closure(tuple(texts), frozenset(words))
