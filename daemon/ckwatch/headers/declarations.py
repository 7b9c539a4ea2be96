"""Class templates and archs in the text of a header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from ckwatch.headers.masked_text import closing, masked, split_list
from ckwatch.model.lazy_dataclass import dataclass

_ARCH_MACRO = re.compile(r"\b__(gfx[0-9a-z_]*[0-9a-z])__")


@dataclass(frozen=True, slots=True)
class CkParameter:
    """A template parameter: its kind (`typename`, `index_t`, `bool`, an enumeration), name and default."""

    kind: str
    name: str
    default: str | None

    @property
    def is_type(self) -> bool:
        """Return True for a type."""
        return self.kind in ("typename", "class")


def class_templates(code: str, name: str) -> Iterator[tuple[tuple[CkParameter, ...], re.Match[str]]]:
    """The parameters of each primary class template of this name in a masked text, and its head up to `:` or `{`."""
    for found in re.finditer(rf"\b(?:struct|class)\s+{re.escape(name)}\s*(?::(?!:)|\{{)", code):
        start = code.rfind("template", 0, found.start())
        opening = code.find("<", start)
        if start < 0 or opening < 0:
            continue
        end = closing(code, opening)
        if end >= 0 and re.fullmatch(r"\s*", code[end + 1 : found.start()]):
            yield tuple(_parameter(one) for one in elements_of(code[opening + 1 : end])), found


def elements_of(text: str) -> list[str]:
    """The elements of a list with commas, blanks as one."""
    return [" ".join(text[start:end].split()) for start, end in split_list(text)]


def _parameter(text: str) -> CkParameter:
    before, equals, default = text.partition("=")
    words = before.split()
    return CkParameter(" ".join(words[:-1]), words[-1], default.strip() if equals else None)


@dataclass(slots=True)
class HeaderText:
    """The text of a header; what was asked of it is kept."""

    text: str
    _code: str = field(init=False, default="")
    _words: dict[str, bool] = field(init=False, default_factory=dict)
    _known: dict[str, tuple[str, ...] | None] = field(init=False, default_factory=dict)

    def mentions(self, word: str) -> bool:
        """Return True if `word` is a name in the code."""
        if word not in self._words:
            self._words[word] = any(True for _ in self._in_code(rf"\b{re.escape(word)}\b"))
        return self._words[word]

    def parameters(self, name: str) -> tuple[str, ...] | None:
        """The names of a class's template parameters, in order, empty where it has none; None where the header does not
        define it."""
        if name not in self._known:
            self._known[name] = self._parameters(name)
        return self._known[name]

    @property
    def archs(self) -> frozenset[str]:
        """The archs whose macros the code looks at, as `gfx942`; of a group, as `gfx94`."""
        self._code = masked(self.text)
        return frozenset(_ARCH_MACRO.findall(self._code))

    def _parameters(self, name: str) -> tuple[str, ...] | None:
        for declared in self._in_code(rf"\b(?:struct|class)\s+{re.escape(name)}\s*(?::(?!:)|\{{)"):
            found = next(class_templates(self._code[: declared.end()], name), None)
            return () if found is None else tuple(one.name for one in found[0])
        return None

    def _in_code(self, pattern: str) -> Iterator[re.Match[str]]:
        """The matches that are code. No more of the text is masked than is needed for that."""
        for found in re.compile(pattern).finditer(self.text):
            if len(self._code) < found.end():
                stop = self.text.find("\n", found.end())
                self._code = masked(self.text if stop < 0 else self.text[:stop])
            if self._code[found.start() : found.end()] == found[0]:
                yield found
