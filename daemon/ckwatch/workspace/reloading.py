"""Loads one workspace repeatedly, and reads only the kernel files that changed.

What a kernel file holds (`LoadedKernel`) follows from its text, from the archs and limits of the workspace, and
from what the search for templates returned while it was read. All of that is cached with it: while it is the same, the
same object is returned, so that a caller finds what changed by identity. A text is known by its digest, and the digest
of a settled file by its stamp (`ckwatch.workspace.files`).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ckwatch.model.diagnostics import Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import file_status
from ckwatch.workspace.files import Clock, FileText, Stamp, StampCache, editor_text, read_text, stamp_of
from ckwatch.workspace.kernel_file import LoadedKernel
from ckwatch.workspace.loading import Overlays, Workspace, WorkspaceReader, kernel_file_of, read_workspace
from ckwatch.workspace.named_files import NamedFiles
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.settings import LimitsSection, Settings
from ckwatch.workspace.template_search import (
    UNUSED_KEPT,
    IdentifierCache,
    TemplateQuestions,
    TemplateSearch,
    move_to_front,
)
from ckwatch.workspace.trust import named_programs, trust_file, trust_state
from ckwatch.workspace.writers import Writers


class WorkspaceLoader:
    """Loads the workspace in the folder `root`; threads may share it, and one load runs at a time.

    `clock` is compared with the times of files, to tell which were modified just now. With `guarded`, settings that
    name programs and that the user was not asked about (`ckwatch.workspace.trust`) are reported, and those of the last
    load stay in effect.
    """

    def __init__(self, root: Path, *, clock: Clock = time.time_ns, guarded: bool = False) -> None:
        self._root = Path(os.path.abspath(root))  # noqa: PTH100  # a link to the workspace stays the path it was given by
        self._known = _LoaderCache(clock)
        self._guard = _Guard() if guarded else None
        self._lock = threading.Lock()

    def load(self, overlays: Mapping[str, str] | None = None, *, scope: str | None = None) -> Workspace:
        """Load the workspace as `load_workspace` does, with the same `Kernel` objects as before where nothing about
        them changed.

        Of each file the last few variants are remembered, so that loads with different `overlays` can alternate.
        With a `scope`, tables that are half typed are as the scope last read them; "" is that of the files on disk.
        Raises CkwatchError if there is no `ckwatch.toml`.
        """
        with self._lock:
            reading = _CachingReader(self._known, self._guard, scope)
            found = read_workspace(self._root, overlays or {}, reading)
            reading.forget_unused(found.files, overlays or {})
            if self._guard is not None and self._guard.refused:
                # Once it is trusted it is loaded again.
                found = replace(found, files=(*found.files, str(trust_file())))
            return found


@dataclass(frozen=True, slots=True, eq=False)
class _CachedKernelFile:
    """A kernel file with all that it was made of.

    `words` are those of the templates when what was asked about parameters was last seen to hold: while they stay, it
    need not be asked. `named` are the digests of the files that it names. `kept` is the text that completed its tables,
    "" for a file without errors.
    """

    digest: bytes
    archs: list[str]
    limits: LimitsSection
    asked: TemplateQuestions
    words: dict[str, frozenset[str] | None]
    named: dict[str, bytes | None]
    kept: str | None
    kernel_file: LoadedKernel


class _LoaderCache:
    """The knowledge that all loads of a workspace share."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.template_words = IdentifierCache(clock)
        self.digests: StampCache[bytes] = StampCache()
        self.variants: dict[str, list[_CachedKernelFile]] = {}
        self.kept: dict[tuple[str, str], str] = {}
        """By scope and path the texts that were last read without errors."""

    def forget_unused(self, paths: Collection[str]) -> None:
        """Keep memory bounded: drop what a load did not use where that has become much."""
        if max(len(self.variants), len(self.digests)) > 2 * len(paths) + UNUSED_KEPT:
            used = frozenset(paths)
            self.digests.keep(used)
            self.variants = {path: known for path, known in self.variants.items() if path in used}


class _Guard:
    """The last settings that were trusted; `refused` of the last load are not."""

    def __init__(self) -> None:
        self._settings = Settings()
        self.refused = False

    def permitted(self, root: Path, problems: Problems, settings: Settings) -> Settings:
        state = trust_state(root, named_programs(root, problems.document.values))
        self.refused = bool(state.changed)
        for name, words in state.changed.items():
            section, _, key = name[1:].partition("] ")
            problems.at_key(
                (section, key),
                "untrusted",
                f"not in effect: {words}; you trusted this workspace without it, and it names what would run here. "
                f"`ckwatch trust {shlex.quote(str(root))}` trusts it as it is",
            )
            former = getattr(getattr(self._settings, section), key)
            part = getattr(settings, section).model_copy(update={key: former})
            settings = settings.model_copy(update={section: part})
        if not self.refused:
            self._settings = settings
        return settings


class _CachingReader(WorkspaceReader):
    """One load that reads what is not known."""

    def __init__(self, known: _LoaderCache, guard: _Guard | None, scope: str | None) -> None:
        self._known = known
        self._guard = guard
        self._scope = scope
        self._search: TemplateSearch | None = None

    def kept(self, path: str, *, overlaid: bool) -> str | None:
        if self._scope is None:
            return None
        known = self._known.kept
        saved = known.get(("", path), "")
        return known.get((self._scope, path), saved) if overlaid else saved

    def keep(self, path: str, text: str, *, overlaid: bool) -> None:
        if self._scope is not None:
            self._known.kept[self._scope if overlaid else "", path] = text

    def permitted(self, root: Path, problems: Problems, settings: Settings) -> Settings:
        return settings if self._guard is None else self._guard.permitted(root, problems, settings)

    def templates(self, folders: Sequence[Path], overlays: Mapping[str, str]) -> TemplateSearch:
        self._search = TemplateSearch(folders, overlays, self._known.template_words)
        return self._search

    def named_files(self, folders: tuple[str, ...], writers: Writers, texts: Overlays) -> NamedFiles:
        return NamedFiles(folders, writers, texts.at, self._known.digests, self._known.clock)

    def kernel_file(
        self, path: str, overlay: str | None, search: TemplateSearch, settings: Settings, named: NamedFiles
    ) -> LoadedKernel:
        loaded = self._kernel_file(path, overlay, search, settings, named)
        if loaded.text:
            self.keep(path, loaded.text, overlaid=overlay is not None)
        return loaded

    def _kernel_file(
        self, path: str, overlay: str | None, search: TemplateSearch, settings: Settings, named: NamedFiles
    ) -> LoadedKernel:
        variants = self._known.variants.setdefault(path, [])
        kept = self.kept(path, overlaid=overlay is not None)
        stamp = None if overlay is not None else _stamp_of(path)
        known = None if stamp is None else self._known.digests.get(path, stamp)
        if known is not None and (variant := _find_cached(variants, known, search, settings, named, kept)) is not None:
            return variant.kernel_file
        now_ns = self._known.clock()
        read = read_text(path, Source.KERNEL_FILE, named.writers) if overlay is None else editor_text(overlay)
        digest = _digest(read)
        # why a file could not be read may pass without a trace in its stamp
        if stamp is not None and (read.text or not read.diagnostics):
            self._known.digests.put(path, stamp, now_ns, digest)
        variant = _find_cached(variants, digest, search, settings, named, kept)
        if variant is None:
            variant = _read_and_record(path, read, digest, search, settings, named, kept)
            move_to_front(variants, variant)
        return variant.kernel_file

    def forget_unused(self, files: Collection[str], overlays: Mapping[str, str]) -> None:
        """Drop what this load, which found `files`, did not use, where that has become much; texts at once that were
        kept of files that are gone, or of what is no longer unsaved."""
        self._known.forget_unused(files)
        here = set(files)
        for scope, path in list(self._known.kept):
            if scope == self._scope and (path not in here or (scope and path not in overlays)):
                del self._known.kept[scope, path]
        if self._search is not None:
            self._search.forget_unused()


def _stamp_of(path: str) -> Stamp | None:
    try:
        return stamp_of(file_status(path))
    except OSError:
        return None


def _digest(read: FileText) -> bytes:
    content = read.text + "".join(f"\0{one}" for one in read.diagnostics)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()


def _find_cached(
    variants: list[_CachedKernelFile],
    digest: bytes,
    search: TemplateSearch,
    settings: Settings,
    named: NamedFiles,
    kept: str | None,
) -> _CachedKernelFile | None:
    """The variant that reading the kernel file again would give."""
    for variant in variants:
        if (
            variant.digest == digest
            and (variant.kept in ("", kept) or variant.kernel_file.text == kept)
            and variant.archs == settings.workspace.archs
            and variant.limits == settings.limits
            and all(search.find(name) == path for name, path in variant.asked.found.items())
            and all(_suggestions_hold(variant, template, search) for template in variant.asked.meanings)
            and all(
                search.declares(template, name) == declared
                for template, asked in variant.asked.declared.items()
                for name, declared in asked.items()
            )
            and variant.asked.names in (None, (search.folders, search.names()))
            and named.holds(variant.named)
        ):
            move_to_front(variants, variant)
            return variant
    return None


def _suggestions_hold(variant: _CachedKernelFile, template: str, search: TemplateSearch) -> bool:
    words, before = search.words(template), variant.words.get(template)
    meanings = variant.asked.meanings[template]
    # what a template prints outside of its tags says whose mistake an unread name is
    if words is not None and words == before and words.issuperset(meanings):
        return True
    if any(search.meant(template, name) != meaning for name, meaning in meanings.items()):
        return False
    variant.words[template] = words
    return True


def _read_and_record(
    path: str,
    read: FileText,
    digest: bytes,
    search: TemplateSearch,
    settings: Settings,
    named: NamedFiles,
    kept: str | None,
) -> _CachedKernelFile:
    asked = TemplateQuestions()
    search.asked = asked
    own = replace(named, asked={})
    try:
        kernel_file = kernel_file_of(path, read, search, settings, own, kept)
    finally:
        search.asked = None
    named.asked |= own.asked
    return _CachedKernelFile(
        digest=digest,
        archs=settings.workspace.archs,
        limits=settings.limits,
        asked=asked,
        words={template: search.words(template) for template in asked.meanings},
        named=own.asked,
        kept="" if kernel_file.text == read.text else kept,
        kernel_file=kernel_file,
    )
