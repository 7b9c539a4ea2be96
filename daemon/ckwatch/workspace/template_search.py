"""Finds the template that a kernel file names, and the identifiers that the template can mention as parameters.

The workspace's folders are searched before the built-in templates.

The identifiers in the tags of templates are cached for each file (`FileIdentifiers`) and for each template with all
that it includes (`IncludeClosure`), beyond one load of a workspace: a closure is built again only when one of its
files has other identifiers.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeVar

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import declarations
from ckwatch.system.user_files import file_status, is_file, read_file
from ckwatch.workspace.files import Clock, Stamp, StampCache, stamp_of
from ckwatch.workspace.parameters import RESERVED
from ckwatch.workspace.problems import nearest, normalized

NEAR_NAMES = 0.8
"""How alike a parameter and a name in a template are for one to be a slip of the other, from 0 to 1."""

SHORTEST_NEAR = 4

VARIANTS_KEPT = 4
"""Of each file and closure: editors have different unsaved texts of the same file, and loads for them alternate."""

UNUSED_KEPT = 1000
"""So many more than twice what a load uses are kept: other loads may use them."""

SETS_KEPT = 200

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_REFERENCE = re.compile(r"\{%[-+]?\s*(?:include|extends|import|from)\b(?P<what>[^%]*)")
_LITERAL = re.compile(r"\s*(\"[^\"]*\"|'[^']*')")


@dataclass(frozen=True, slots=True, eq=False)
class FileIdentifiers:
    """The identifiers in the tags of one file, and the templates that it names; None where a name is computed.

    `printed` are identifiers outside of tags, `repeated` those that stand anywhere in the file more than once, and
    `typed` those whose type a comment declares; `*` where it declares those of a device operation. The same object
    stands for the same text of the same file.
    """

    words: frozenset[str]
    references: tuple[str, ...] | None
    printed: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    typed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class IncludeClosure:
    """A template and what it includes: the files that were read, by template name, and all their words.

    `words` is None where they are not known: a file is missing, or a name is computed.
    """

    texts: tuple[tuple[str, FileIdentifiers | None], ...]
    words: frozenset[str] | None


class IdentifierCache:
    """The words of template files and of closures, remembered."""

    def __init__(self, clock: Clock = time.time_ns) -> None:
        self._clock = clock
        self._by_stamp: StampCache[FileIdentifiers] = StampCache()
        self._by_text: dict[str, list[tuple[bytes, FileIdentifiers]]] = {}
        self._closures: dict[str, list[IncludeClosure]] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        """The last different sets of words: a thousand templates that are written alike share them."""

    def of_file(self, path: str, stamp: Stamp) -> FileIdentifiers | None:
        """The words of the file at `path`, which has this stamp now; None if it cannot be read."""
        known = self._by_stamp.get(path, stamp)
        if known is not None:
            return known
        now_ns = self._clock()
        try:
            text = read_file(path).decode("utf-8", "replace")
        except OSError:
            return None
        found = self.of_text(path, text)
        self._by_stamp.put(path, stamp, now_ns, found)
        return found

    def of_text(self, path: str, text: str) -> FileIdentifiers:
        """The words of a text that stands for the file at `path`."""
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        variants = self._by_text.setdefault(path, [])
        for known in variants:
            if known[0] == digest:
                move_to_front(variants, known)
                return known[1]
        words = self._shared(_words_of(text))
        move_to_front(variants, (digest, words))
        return words

    def closure(self, name: str, look: Callable[[str], FileIdentifiers | None]) -> IncludeClosure:
        """The words of the template `name` and of all that it includes; `look` gives the words of one template."""
        variants = self._closures.setdefault(name, [])
        for known in variants:
            if all(look(part) is words for part, words in known.texts):
                move_to_front(variants, known)
                return known
        found = _collect(name, look)
        if found.words is not None:
            found = replace(found, words=self._once(found.words))
        move_to_front(variants, found)
        return found

    def _shared(self, found: FileIdentifiers) -> FileIdentifiers:
        return replace(
            found,
            words=self._once(found.words),
            printed=self._once(found.printed),
            repeated=self._once(found.repeated),
            typed=self._once(found.typed),
        )

    def _once(self, words: frozenset[str]) -> frozenset[str]:
        known = self._sets.setdefault(words, words)
        if len(self._sets) > SETS_KEPT:
            del self._sets[next(iter(self._sets))]
        return known

    def forget_unused(self, names: Collection[str], paths: Collection[str]) -> None:
        """Keep memory bounded: drop what a load did not use where that has become much."""
        most = 2 * max(len(names), len(paths)) + UNUSED_KEPT
        if max(len(self._by_text), len(self._closures), len(self._by_stamp)) > most:
            self._by_stamp.keep(paths)
            self._by_text = {path: known for path, known in self._by_text.items() if path in paths}
            self._closures = {name: known for name, known in self._closures.items() if name in names}


Variant = TypeVar("Variant")


def move_to_front(variants: list[Variant], variant: Variant) -> None:
    """Put a variant first, and drop the one that was not used for longest where there are too many."""
    if variants and variants[0] is variant:
        return
    variants[:] = [variant, *(other for other in variants if other is not variant)][:VARIANTS_KEPT]


def _words_of(text: str) -> FileIdentifiers:
    words: set[str] = set()
    for tag in _TAG.findall(text):
        words.update(map(sys.intern, _IDENTIFIER.findall(tag)))
    counts = Counter(_IDENTIFIER.findall(text))
    printed = frozenset(map(sys.intern, _IDENTIFIER.findall(_TAG.sub(" ", text))))
    repeated = frozenset(sys.intern(word) for word, count in counts.items() if count > 1)
    typed = frozenset("*" if one.operation else one.name for one in declarations("", text))
    references: list[str] = []
    for reference in _REFERENCE.finditer(text):
        literal = _LITERAL.match(reference["what"])
        if literal is None:
            return FileIdentifiers(frozenset(words), None, printed, repeated, typed)
        references.append(literal[1][1:-1])
    return FileIdentifiers(frozenset(words), tuple(references), printed, repeated, typed)


def _collect(name: str, look: Callable[[str], FileIdentifiers | None]) -> IncludeClosure:
    words: set[str] = set()
    waiting, seen = [name], {name}
    texts: list[tuple[str, FileIdentifiers | None]] = []
    while waiting:
        part = waiting.pop()
        found = look(part)
        texts.append((part, found))
        if found is None or found.references is None:
            return IncludeClosure(tuple(texts), None)
        words |= found.words
        for reference in found.references:
            if reference not in seen:
                seen.add(reference)
                waiting.append(reference)
    if len(texts) == 1 and texts[0][1] is not None:
        return IncludeClosure(tuple(texts), texts[0][1].words)
    return IncludeClosure(tuple(texts), frozenset(words))


TEMPLATE_SUFFIXES = (".hip.j2", ".cu.j2", ".cpp.j2")
"""Suffixes of templates; `.cpp.j2` is compiled for the host, the others for GPUs."""


TemplateNames = tuple[tuple[Path, ...], tuple[str, ...]]
"""The search path, and every template that could be named: what the message about a missing template is made of."""


@dataclass(slots=True)
class TemplateQuestions:
    """The questions of a kernel file about templates, with their answers: those of `find`, and by template and
    parameter those of `meant` and `declares`. `names` were looked at by `near`."""

    found: dict[str, str | None] = field(default_factory=dict)
    meanings: dict[str, dict[str, str | None]] = field(default_factory=dict)
    declared: dict[str, dict[str, bool]] = field(default_factory=dict)
    names: TemplateNames | None = None


class TemplateSearch:
    """The search path as one load of a workspace sees it, each file read once.

    `overlays` are texts to use instead of files, by path. `known` is what other loads learned. `asked` notes questions.
    """

    def __init__(
        self, folders: Sequence[Path], overlays: Mapping[str, str], known: IdentifierCache | None = None
    ) -> None:
        self.folders = tuple(folders)
        self._prefixes = [str(folder).removesuffix(os.sep) + os.sep for folder in folders]
        self._overlays = overlays
        self._known = known if known is not None else IdentifierCache()
        self._paths: dict[str, str | None] = {}
        self._stamps: dict[str, Stamp] = {}
        self._texts: dict[str, FileIdentifiers | None] = {}
        self._words: dict[str, frozenset[str] | None] = {}
        self._forms: dict[str, dict[str, str]] = {}
        self._names: tuple[str, ...] | None = None
        self._parsed: dict[str, bool] = {}
        self.asked: TemplateQuestions | None = None

    def find(self, name: str) -> str | None:
        """The absolute path of the template `name`; None if there is none."""
        found = self._find(name)
        if self.asked is not None:
            self.asked.found[name] = found
        return found

    def near(self, name: str) -> str | None:
        """An existing template that `name` was probably meant to be."""
        names = self.names()
        if self.asked is not None:
            self.asked.names = (self.folders, names)
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

        None where that is not known: a file is missing, or a name is computed.
        """
        if name not in self._words:
            self._words[name] = self._known.closure(name, self._text).words
        return self._words[name]

    def meant(self, template: str, parameter: str) -> str | None:
        """For a parameter that `template` does not mention, the one that was probably meant; else None.

        None also where the template has the mistake: it prints the name elsewhere, and what it mentions only once.
        """
        found = self._meant(template, parameter)
        if self.asked is not None:
            self.asked.meanings.setdefault(template, {})[parameter] = found
        return found

    def _meant(self, template: str, parameter: str) -> str | None:
        words = self.words(template)
        # a template that goes through `parameters` needs no names
        if words is None or parameter in words or "parameters" in words:
            return None
        if template not in self._forms:
            self._forms[template] = by_normal_form(words - RESERVED)
        forms, sought = self._forms[template], normalized(parameter)
        if sought in forms:
            return forms[sought] if self._is_readable(template) else None
        near = difflib.get_close_matches(sought, forms, n=1, cutoff=NEAR_NAMES) if len(sought) >= SHORTEST_NEAR else []
        if not near:
            return None
        found = forms[near[0]]
        files = [one for _, one in self._known.closure(template, self._text).texts if one is not None]
        mentions = sum(1 + (found in one.repeated) for one in files if found in one.words or found in one.printed)
        printed_here = any(parameter in one.printed for one in files)
        return None if (printed_here and mentions == 1) or not self._is_readable(template) else found

    def _is_readable(self, template: str) -> bool:
        """Return True if a template and its includes can be parsed: the identifiers of a broken one are incomplete."""
        return all(self._can_be_parsed(name) for name, _ in self._known.closure(template, self._text).texts)

    def _can_be_parsed(self, name: str) -> bool:
        if name not in self._parsed:
            # Jinja2 takes a tenth of a second to load, and is needed where a parameter seems to be a slip only
            from jinja2 import Environment, TemplateSyntaxError

            path = self._find(name) or ""
            try:
                text = self._overlays[path] if path in self._overlays else read_file(path).decode()
                Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]).parse(text)  # noqa: S701  # C++
            except TemplateSyntaxError as error:
                # an unknown filter or test breaks nothing
                self._parsed[name] = (error.message or "").startswith("No ")
            except (OSError, ValueError, RecursionError):
                self._parsed[name] = False
            else:
                self._parsed[name] = True
        return self._parsed[name]

    def declares(self, template: str, parameter: str) -> bool:
        """Return True if `template`, or one of its includes, declares a type of `parameter`."""
        files = self._known.closure(template, self._text).texts
        found = any(one is not None and (parameter in one.typed or "*" in one.typed) for _, one in files)
        if self.asked is not None:
            self.asked.declared.setdefault(template, {})[parameter] = found
        return found

    def forget_unused(self) -> None:
        """Keep what is known bounded, by what this load used."""
        self._known.forget_unused(self._texts, {path for path in self._paths.values() if path is not None})

    def _find(self, name: str) -> str | None:
        if name not in self._paths:
            self._paths[name] = self._look(name)
        return self._paths[name]

    def _look(self, name: str) -> str | None:
        # as Jinja2's loaders do: no way out of the folder
        if any(part in ("", os.pardir, os.curdir) for part in name.split("/")) or "\0" in name or "\\" in name:
            return None
        for prefix in self._prefixes:
            path = prefix + name
            if path in self._overlays:
                return path
            try:
                status = file_status(path)
            except (OSError, ValueError) as error:
                if isinstance(error, TimeoutError):
                    return path  # whoever reads it says so
                continue
            if not stat.S_ISDIR(status.st_mode):
                self._stamps[path] = stamp_of(status)
                return path
        return None

    def _text(self, name: str) -> FileIdentifiers | None:
        """The words of the template `name` alone; None if it is not there or cannot be read."""
        if name not in self._texts:
            self._texts[name] = self._read(name)
        return self._texts[name]

    def _read(self, name: str) -> FileIdentifiers | None:
        path = self._find(name)
        if path is None:
            return None
        if path in self._overlays:
            return self._known.of_text(path, self._overlays[path])
        stamp = self._stamps.get(path)
        return None if stamp is None else self._known.of_file(path, stamp)


def _names_in(folder: str) -> Iterator[str]:
    """The templates in a folder, whose path ends in `/`."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        inside = place[len(folder) :]
        for name in sorted(files):
            if name.endswith(TEMPLATE_SUFFIXES) and is_file(f"{place}/{name}"):
                yield f"{inside}/{name}" if inside else name


def by_normal_form(words: Collection[str]) -> dict[str, str]:
    """Words by what is left of them without case and underscores; names in mixed case win."""
    return {
        normalized(word): word for word in sorted(words, key=lambda word: (not word.islower(), word), reverse=False)
    }
