"""Finding the template that a kernel file names: in the workspace's folders first, then among the built-ins."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from ckwatch.config.mistakes import nearest, normal

SUFFIXES = (".hip.j2", ".cu.j2", ".cpp.j2")
"""What a template's name ends in; `.cpp.j2` is compiled for the host, the others for GPUs."""

TEMPLATE_TEXT_LIMIT_BYTES = 16 * 1024 * 1024

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_REFERENCE = re.compile(r"\{%[-+]?\s*(?:include|extends|import|from)\b(?P<what>[^%]*)")
_LITERAL = re.compile(r"\s*(\"[^\"]*\"|'[^']*')")


class TemplateSearch:
    """The search path as one load of a workspace sees it; looks are remembered while it lasts."""

    def __init__(self, folders: Sequence[Path], overlays: Mapping[str, str]) -> None:
        self.folders = tuple(folders)
        self._overlays = overlays
        self._paths: dict[str, str | None] = {}
        self._words: dict[str, frozenset[str] | None] = {}
        self._names: list[str] | None = None

    def find(self, name: str) -> str | None:
        """The absolute path of the template `name`; None if there is none."""
        if name not in self._paths:
            self._paths[name] = self._look(name)
        return self._paths[name]

    def near(self, name: str) -> str | None:
        """An existing template that `name` was probably meant to be."""
        names = self.names()
        last = {candidate.rsplit("/", 1)[-1]: candidate for candidate in reversed(names)}
        if found := nearest(name, names):
            return found
        found = nearest(name.rsplit("/", 1)[-1], last)
        return last[found] if found else None

    def names(self) -> list[str]:
        """Every template that could be named, in order of the search path."""
        if self._names is None:
            found: dict[str, None] = {}
            for folder in self.folders:
                for path in _files(folder):
                    if path.name.endswith(SUFFIXES):
                        found[path.relative_to(folder).as_posix()] = None
            self._names = list(found)
        return self._names

    def words(self, name: str) -> frozenset[str] | None:
        """The identifiers in the tags of a template and of all that it includes, imports and extends.

        None where that cannot be told: a file is missing, or a name is computed.
        """
        if name not in self._words:
            self._words[name] = self._collect(name)
        return self._words[name]

    def _look(self, name: str) -> str | None:
        # as Jinja2's loaders do: no way out of the folder
        if any(part in ("", os.pardir, os.curdir) for part in name.split("/")) or "\0" in name or "\\" in name:
            return None
        for folder in self.folders:
            path = folder / name
            # Path.is_file raises where a name is too long
            if str(path) in self._overlays or os.path.isfile(path):  # noqa: PTH113
                return str(path)
        return None

    def _collect(self, name: str) -> frozenset[str] | None:
        words: set[str] = set()
        waiting, seen = [name], {name}
        while waiting:
            path = self.find(waiting.pop())
            text = self._read(path) if path else None
            if text is None:
                return None
            for tag in _TAG.findall(text):
                words.update(_IDENTIFIER.findall(tag))
            for reference in _REFERENCE.finditer(text):
                literal = _LITERAL.match(reference["what"])
                if literal is None:
                    return None
                inner = literal[1][1:-1]
                if inner not in seen:
                    seen.add(inner)
                    waiting.append(inner)
        return frozenset(words)

    def _read(self, path: str) -> str | None:
        if path in self._overlays:
            return self._overlays[path]
        try:
            if Path(path).stat().st_size > TEMPLATE_TEXT_LIMIT_BYTES:
                return None
            return Path(path).read_text("utf-8", "replace")
        except OSError:
            return None


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(files):
            yield Path(place, name)


def is_for_host(template: str) -> bool:
    """Whether a template is compiled for the CPU."""
    return template.endswith(".cpp.j2")


def near_word(name: str, words: Mapping[str, str]) -> str | None:
    """For a parameter that a template does not mention, the one that differs in case and underscores only.

    `words` are the template's words by their normal form (`by_normal_form`).
    """
    found = words.get(normal(name))
    return found if found != name else None


def by_normal_form(words: Collection[str]) -> dict[str, str]:
    """Words by what is left of them without case and underscores; names in mixed case win."""
    return {normal(word): word for word in sorted(words, key=lambda word: (not word.islower(), word), reverse=False)}
