"""Finding the template that a kernel file names: in the workspace's folders first, then among the built-ins."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ckwatch.config.mistakes import nearest, normal
from ckwatch.config.stamps import Stamp, stamp_of
from ckwatch.config.template_words import TemplateWords, TextWords

SUFFIXES = (".hip.j2", ".cu.j2", ".cpp.j2")
"""What a template's name ends in; `.cpp.j2` is compiled for the host, the others for GPUs."""


class Templates(Protocol):
    """What a kernel file asks about templates."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The search path."""

    def find(self, name: str) -> str | None:
        """The absolute path of the template `name`; None if there is none."""

    def near(self, name: str) -> str | None:
        """An existing template that `name` was probably meant to be."""

    def meant(self, template: str, parameter: str) -> str | None:
        """For a parameter that `template` does not mention, the one that was probably meant; else None."""


class TemplateSearch:
    """The search path as one load of a workspace sees it: `Templates`, each file looked at once.

    `overlays` are texts to use instead of files, by path. `known` is what other loads learned.
    """

    def __init__(
        self, folders: Sequence[Path], overlays: Mapping[str, str], known: TemplateWords | None = None
    ) -> None:
        self.folders = tuple(folders)
        self._prefixes = [str(folder).removesuffix(os.sep) + os.sep for folder in folders]
        self._overlays = overlays
        self._known = known if known is not None else TemplateWords()
        self._paths: dict[str, str | None] = {}
        self._stamps: dict[str, Stamp] = {}
        self._texts: dict[str, TextWords | None] = {}
        self._words: dict[str, frozenset[str] | None] = {}
        self._forms: dict[str, dict[str, str]] = {}
        self._names: tuple[str, ...] | None = None

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

    def names(self) -> tuple[str, ...]:
        """Every template that could be named, in order of the search path."""
        if self._names is None:
            self._names = tuple(dict.fromkeys(name for prefix in self._prefixes for name in _names_in(prefix)))
        return self._names

    def words(self, name: str) -> frozenset[str] | None:
        """The identifiers in the tags of a template and of all that it includes, imports and extends.

        None where that cannot be told: a file is missing, or a name is computed.
        """
        if name not in self._words:
            self._words[name] = self._known.closure(name, self._text).words
        return self._words[name]

    def meant(self, template: str, parameter: str) -> str | None:
        """For a parameter that `template` does not mention, the one that was probably meant; else None.

        That is one which differs in case and underscores only.
        """
        words = self.words(template)
        # a template that goes through `parameters` needs no names
        if words is None or parameter in words or "parameters" in words:
            return None
        if template not in self._forms:
            self._forms[template] = by_normal_form(words)
        return self._forms[template].get(normal(parameter))

    def forget_unused(self) -> None:
        """Keep what is known bounded, by what this load used."""
        self._known.forget_unused(self._texts, {path for path in self._paths.values() if path is not None})

    def _look(self, name: str) -> str | None:
        # as Jinja2's loaders do: no way out of the folder
        if any(part in ("", os.pardir, os.curdir) for part in name.split("/")) or "\0" in name or "\\" in name:
            return None
        for prefix in self._prefixes:
            path = prefix + name
            if path in self._overlays:
                return path
            try:
                status = os.stat(path)  # noqa: PTH116  # a thousand of these are made in one load
            except (OSError, ValueError):
                continue
            if stat.S_ISREG(status.st_mode):
                self._stamps[path] = stamp_of(status)
                return path
        return None

    def _text(self, name: str) -> TextWords | None:
        """The words of the template `name` alone; None if it is not there or cannot be read."""
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> TextWords | None:
        path = self.find(name)
        if path is None:
            return None
        if path in self._overlays:
            return self._known.of_text(path, self._overlays[path])
        return self._known.of_file(path, self._stamps[path])


def _names_in(folder: str) -> Iterator[str]:
    """The templates in a folder, whose path ends in `/`."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        inside = place[len(folder) :]
        for name in sorted(files):
            if name.endswith(SUFFIXES):
                yield f"{inside}/{name}" if inside else name


def by_normal_form(words: Collection[str]) -> dict[str, str]:
    """Words by what is left of them without case and underscores; names in mixed case win."""
    return {normal(word): word for word in sorted(words, key=lambda word: (not word.islower(), word), reverse=False)}
