"""Loads a whole workspace: `ckwatch.toml`, every kernel file it names, and every problem in them."""

from __future__ import annotations

import copy
import itertools
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path, PurePath
from typing import Any

from pydantic import ValidationError

import ckwatch_templates
from ckwatch.model.amounts import count
from ckwatch.model.compiler_flags import GivenFlag, define_flag, given_flags
from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Kernel, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Span
from ckwatch.system.user_files import broken_link, is_folder
from ckwatch.workspace.compiler_flags import check_flags
from ckwatch.workspace.discovery import FILE_NAME
from ckwatch.workspace.files import SHARED_HINT, FileText, editor_text, read_text
from ckwatch.workspace.half_typed import completed
from ckwatch.workspace.kernel_file import KERNEL_FILE_SUFFIX, LoadedKernel, read_kernel
from ckwatch.workspace.kernel_globs import KernelPaths, kernel_paths
from ckwatch.workspace.named_files import NamedFiles
from ckwatch.workspace.problems import Problems, place_of
from ckwatch.workspace.settings import FarmSection, Settings
from ckwatch.workspace.sweep import SweepPlan
from ckwatch.workspace.template_search import TemplateSearch
from ckwatch.workspace.toml_document import KeyPath, TomlDocument, document_of
from ckwatch.workspace.trust import is_shared
from ckwatch.workspace.writers import Writers

DEFAULT_TEMPLATES = "templates"

MANY_FILES = 500
"""So many kernel files take seconds to load, which is logged."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace as it was read.

    `root` is the folder of `ckwatch.toml`. `kernels` are those that can be compiled, in the order of their paths;
    instances with problems are left out of them, and so are kernels with other problems. `template_folders` is the
    search path, the built-in templates last. `files` are the files that were read. `diagnostics` are sorted by file
    and place. `writers` are those whose files are used. `kernel_names` are the kernels' names by the paths of their
    files, also of kernels that are left out. `flags` are those of `[compile]` with their places,
    its defines last. `spaces` are the sweeps to tune, by kernel. `also` are the places of the names in `[toolchain]
    also`, `arch_spans` those of the archs in `[workspace]`.
    """

    root: Path
    settings: Settings
    kernels: tuple[Kernel, ...]
    diagnostics: tuple[Diagnostic, ...]
    template_folders: tuple[Path, ...]
    writers: Writers
    files: tuple[str, ...] = field(default=())
    kernel_names: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[GivenFlag, ...] = field(default=())
    spaces: Mapping[str, tuple[SweepPlan, ...]] = field(default_factory=dict)
    also: tuple[Span, ...] = ()
    arch_spans: Mapping[str, Span] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(found for found in self.diagnostics if found.severity is Severity.ERROR)

    @property
    def units(self) -> Iterator[Unit]:
        """Every unit, kernel by kernel, instance by instance, arch by arch."""
        for kernel in self.kernels:
            for instance in kernel.instances:
                for arch in kernel.archs:
                    yield Unit(kernel, instance, arch)


def load_workspace(root: Path, *, overlays: Mapping[str, str] | None = None) -> Workspace:
    """Read the workspace in the folder `root`; problems in its files are diagnostics.

    `overlays` maps absolute paths to the text to use instead of a file's, as an editor holds it; such a file need
    not exist. Raises CkwatchError if there is no `ckwatch.toml`.
    """
    return read_workspace(root, overlays or {}, WorkspaceReader())


class WorkspaceReader:
    """How one load comes by its kernel files and templates: every file is read."""

    def kept(self, path: str, *, overlaid: bool) -> str | None:  # noqa: ARG002  # for others
        """The text of the file at `path` that was last read without errors; None: such texts are not kept. `overlaid`:
        an unsaved text is read."""
        return None

    def keep(self, path: str, text: str, *, overlaid: bool) -> None:
        """Have `kept` return `text` from now on."""

    def permitted(self, root: Path, problems: Problems, settings: Settings) -> Settings:  # noqa: ARG002  # for others
        """The settings of which nothing runs that the user was not asked about."""
        return settings

    def templates(self, folders: Sequence[Path], overlays: Mapping[str, str]) -> TemplateSearch:
        """The search for templates; asked for once, before any kernel file."""
        return TemplateSearch(folders, overlays)

    def named_files(self, folders: tuple[str, ...], writers: Writers, texts: Overlays) -> NamedFiles:
        """The reader of the files that kernel files name; asked for once, before any kernel file."""
        return NamedFiles(folders, writers, texts.at)

    def kernel_file(
        self, path: str, overlay: str | None, search: TemplateSearch, settings: Settings, named: NamedFiles
    ) -> LoadedKernel:
        """The kernel file at `path`, which only the writers of `named` may be able to write, or the text `overlay` in
        its place; `named` reads those that it names."""
        read = editor_text(overlay) if overlay is not None else read_text(path, Source.KERNEL_FILE, named.writers)
        return kernel_file_of(path, read, search, settings, named)


def kernel_file_of(
    path: str, read: FileText, search: TemplateSearch, settings: Settings, named: NamedFiles, kept: str | None = None
) -> LoadedKernel:
    """The kernel file at `path` whose text is `read`; without a name if there is no text at all.

    With `kept`, the text that was last read without errors, tables with errors are as they are there.
    """
    if read.diagnostics and not read.text:
        return LoadedKernel(None, "", Span(path, Position(0, 0), Position(0, 0)), read.diagnostics)
    document = document_of(path, read.text, Source.KERNEL_FILE)
    loaded = read_kernel(document, search, settings.workspace.archs, settings.limits, named)
    if read.diagnostics:
        found = (*read.diagnostics, *loaded.diagnostics)
        return LoadedKernel(None, loaded.name, loaded.name_span, found)
    if not any(one.severity is Severity.ERROR for one in loaded.diagnostics):
        return replace(loaded, text=read.text)
    if kept is None:
        return loaded
    readings: list[LoadedKernel] = []

    def diagnostics_of(mended: TomlDocument) -> Sequence[Diagnostic]:
        readings.append(read_kernel(mended, search, settings.workspace.archs, settings.limits, named))
        return readings[-1].diagnostics

    mended = completed(document, loaded.diagnostics, kept, diagnostics_of)
    if mended is None or readings[-1].kernel is None:
        return replace(loaded, text=kept)
    return replace(readings[-1], diagnostics=mended.shown, text=mended.kept)


def read_workspace(root: Path, overlays: Mapping[str, str], reading: WorkspaceReader) -> Workspace:
    """`load_workspace` with kernel files and templates as `reading` gives them."""
    root = Path(os.path.abspath(root))  # noqa: PTH100  # a link to the workspace stays the path it was given by
    if root.name == FILE_NAME and not root.is_dir():
        root = root.parent
    texts = Overlays(overlays)
    path = str(root / FILE_NAME)
    overlay = texts.at(path, os.path.realpath(path))
    if overlay is None and not os.path.lexists(path):
        raise CkwatchError(f"no {FILE_NAME} in {root}", "`ckwatch init` writes one")
    shared = is_shared(root)
    refusal = None if overlay is not None else Writers.of([root], anyone=shared).refusal(path)
    if refusal is not None:
        raise CkwatchError(f"{path} is not used: {refusal}, and it names programs that would run here", SHARED_HINT)
    read = editor_text(overlay) if overlay is not None else read_text(path, Source.WORKSPACE)
    problems, chosen_settings = _read_settings(path, read.text, root, reading, overlaid=overlay is not None)
    settings = reading.permitted(root, problems, chosen_settings)
    check_flags(problems, settings.compile.flags, ("compile", "flags"), str(root))
    _report_unused_farm_keys(problems, settings.farm)
    given, usual = settings.workspace.templates, root / DEFAULT_TEMPLATES
    present = _folders(problems, "templates", given if given is not None else [usual] if is_folder(usual) else [])
    folders = (*dict.fromkeys(present), ckwatch_templates.ROOT)
    search = reading.templates(folders, texts.by_path)
    diagnostics = list(read.diagnostics)
    kernels: list[LoadedKernel] = []
    names: dict[str, str] = {}
    files = [path]
    kernel_folders = _folders(problems, "kernel_folders", settings.workspace.kernel_folders)
    writers = Writers.of([root, *kernel_folders, *folders], anyone=shared)
    named = reading.named_files(tuple(map(str, (root, *kernel_folders))), writers, texts)
    found = kernel_paths(root, settings.workspace.kernels, texts.by_path, kernel_folders)
    real_paths = {path: real for paths in found.by_pattern.values() for path, real in paths.items()}
    if len(real_paths) >= MANY_FILES:
        _log.info("loading %s", count(len(real_paths), "kernel file"))
    for kernel_path in sorted(real_paths):
        files.append(kernel_path)
        text = texts.at(kernel_path, real_paths[kernel_path])
        kernels.append(reading.kernel_file(kernel_path, text, search, settings, named))
        names[kernel_path] = kernels[-1].name or PurePath(kernel_path).name.removesuffix(KERNEL_FILE_SUFFIX)
    files += named.asked
    _report_patterns(problems, settings, found)
    diagnostics += map(_leads_out, sorted(found.outside.items()))
    chosen = _names_once(kernels, diagnostics)
    for loaded in kernels:
        diagnostics += loaded.diagnostics
    if given is not None and len(present) < len(given):
        diagnostics = [one for one in diagnostics if one.code != "kernel-file/missing-template"]  # it may be there
    diagnostics += problems.found
    diagnostics = list(dict.fromkeys(diagnostics))  # kernel files may share a reference
    order = {file: index for index, file in enumerate(files)}
    diagnostics.sort(key=lambda one: (order.get(one.span.path, 0), one.span.start, one.span.end))
    flags = _flags(problems, settings, root)
    return Workspace(
        root,
        settings,
        tuple(chosen),
        tuple(diagnostics),
        folders,
        writers,
        tuple(files),
        names,
        flags,
        {one.kernel.name: one.spaces for one in kernels if one.spaces and one.kernel in chosen and one.kernel},
        _places_of_toolchains(problems, settings),
        _places_of_archs(problems, settings),
    )


def _flags(problems: Problems, settings: Settings, root: Path) -> tuple[GivenFlag, ...]:
    """The flags and defines of `[compile]` with their places."""
    span_of = problems.document.span_of
    flags, defines = settings.compile.flags, settings.compile.defines
    spans = [span_of(("compile", "flags", index)) for index in range(len(flags))]
    places = {name: problems.document.key_span_of(("compile", "defines", name)) for name in defines}
    defined = (GivenFlag(f"-D{define_flag(name, value)}", places[name]) for name, value in defines.items())
    return (*given_flags(flags, spans, str(root)), *defined)


def _places_of_toolchains(problems: Problems, settings: Settings) -> tuple[Span, ...]:
    """The places of the entries of `[toolchain] also` that have no problem."""
    wrong = {one.span for one in problems.found}
    places = (problems.document.span_of(("toolchain", "also", index)) for index in itertools.count())
    return tuple(itertools.islice((place for place in places if place not in wrong), len(settings.toolchain.also)))


def _places_of_archs(problems: Problems, settings: Settings) -> dict[str, Span]:
    """The places of the archs of `[workspace]`; none where they are the default ones."""
    section = problems.document.values.get("workspace")
    archs = settings.workspace.archs
    if not isinstance(section, dict) or section.get("archs") != archs:
        return {}
    return {arch: problems.document.span_of(("workspace", "archs", index)) for index, arch in enumerate(archs)}


class Overlays:
    """The texts to use instead of files, found under the path they were given by or its real path."""

    def __init__(self, overlays: Mapping[str, str]) -> None:
        self.by_path = {os.path.normpath(path): text for path, text in overlays.items()}
        self._by_real = {os.path.realpath(path): path for path in self.by_path}

    def at(self, path: str, real: str) -> str | None:
        """The text that replaces the file at `path`, whose real path is `real`."""
        if path in self.by_path:
            return self.by_path[path]
        other = self._by_real.get(real)
        return self.by_path[other] if other is not None else None


def _read_settings(
    path: str, text: str, root: Path, reading: WorkspaceReader, *, overlaid: bool
) -> tuple[Problems, Settings]:
    """The settings and their problems; tables that are half typed are as they were."""
    document = document_of(path, text, Source.WORKSPACE)
    kept = reading.kept(path, overlaid=overlaid)
    former = document_of(path, kept, Source.WORKSPACE).values if kept else {}
    problems = Problems(document)
    settings = _settings(problems, root, former)
    shown = [*document.diagnostics, *problems.found]
    unknown = {document.key_span_of((name,)) for name in document.values if name not in Settings.model_fields}
    broken = document.diagnostics or [one for one in shown if one.span in unknown]
    if broken and kept is not None:
        mended = completed(document, broken, kept, lambda _document: ())
        if mended is not None:
            problems, text = Problems(mended.document), mended.kept
            settings = _settings(problems, root, former)
            shown = [*broken, *problems.found]
    if not problems.found:
        reading.keep(path, text, overlaid=overlaid)
    problems.found = shown
    return problems, settings


def _settings(problems: Problems, root: Path, former: Mapping[str, Any]) -> Settings:
    """The settings; each key that has a problem is as in `former`, else has its default; of `[toolchain] also` the
    other entries stay."""
    # every section is there, so that only one model has to be built
    values = {name: {} for name in Settings.model_fields} | problems.document.values
    settings = problems.validated(Settings, values, (), context={"root": str(root)})
    if settings is not None:
        return settings
    cleaned = copy.deepcopy(values)
    for attempt in range(len(problems.found) + 2):
        try:
            return Settings.model_validate(cleaned, strict=True, context={"root": str(root)})
        except ValidationError as error:
            for detail in reversed(error.errors(include_url=False, include_input=False)):  # the last entry first
                place = place_of(detail)
                _remove(cleaned, place)
                if attempt == 0 and len(place) > 1:
                    _restore(cleaned, former, str(place[0]), str(place[1]))
    return Settings()


def _restore(values: dict[str, Any], former: Mapping[str, Any], section: str, key: str) -> None:
    """Give a key of a section that was removed the value that it had before."""
    before, now = former.get(section), values.get(section)
    if isinstance(before, dict) and isinstance(now, dict) and key in before and key not in now:
        now[key] = before[key]


def _remove(values: dict[str, Any], where: tuple[int | str, ...]) -> None:
    """Remove the key of a section in which the place `where` lies, or the entry of `[toolchain] also`."""
    section = values.get(str(where[0]))
    if where[:2] == ("toolchain", "also") and len(where) > 2:
        del values["toolchain"]["also"][where[2]]
    elif len(where) > 1 and isinstance(section, dict):
        section.pop(str(where[1]), None)
    else:
        values.pop(str(where[0]), None)


def _folders(problems: Problems, key: str, folders: Sequence[Path]) -> list[Path]:
    """Those of the folders under `key` of `[workspace]` that there are; the others are reported."""
    found = []
    for index, folder in enumerate(folders):
        if is_folder(folder):
            found.append(folder)
        else:
            link = broken_link(folder)
            message = f"{folder} is {link}" if link else f"there is no folder {folder}"
            problems.at_value(("workspace", key, index), "missing-folder", message)
    return found


def _report_unused_farm_keys(problems: Problems, farm: FarmSection) -> None:
    """Warn of keys that are of no use without a cluster, and of certificates that are not there; of a table without
    errors, which may be why."""
    document = problems.document
    given = document.values.get("farm")
    keys = list(given) if isinstance(given, dict) else []
    lines = {line for key in keys for line in range(*_lines(document, ("farm", key)))}
    if any(one.span.start.line in lines for one in problems.found):
        return
    for key in ("workers", "most_workers", "port", "options") if farm.cluster is None else ():
        if key in keys:
            message = f"`{key}` is of a `cluster`, and there is none"
            problems.at_key(("farm", key), "no-cluster", message, severity=Severity.WARNING)
    if farm.certificates is not None and not is_folder(farm.certificates):
        message = f"there is no folder {farm.certificates}; `ckwatch farm certificates` fills one"
        problems.at_value(("farm", "certificates"), "no-certificates", message, severity=Severity.WARNING)


def _lines(document: TomlDocument, path: KeyPath) -> tuple[int, int]:
    return document.key_span_of(path).start.line, document.span_of(path).end.line + 1


def _leads_out(link: tuple[str, str]) -> Diagnostic:
    """A link that is not followed."""
    path, real = link
    folder = real if is_folder(real) else os.path.dirname(real)  # noqa: PTH120
    message = (
        f"not read: this link leads out of the workspace, to {real}; `kernel_folders` in [workspace] of {FILE_NAME} "
        f"names further folders: {json.dumps([folder])}"
    )
    place = Span(path, Position(0, 0), Position(0, 0))
    return Diagnostic(Severity.WARNING, Source.WORKSPACE, "workspace/outside", message, place)


def _report_patterns(problems: Problems, settings: Settings, kernel_paths: KernelPaths) -> None:
    """Warn of globs that find nothing."""
    found = kernel_paths.by_pattern
    place: KeyPath = ("workspace", "kernels")
    warning = Severity.WARNING
    if place not in problems.document:
        if not any(found.values()) and not kernel_paths.outside:
            message = "there is no kernel file (*.kernel.toml) in this workspace; `ckwatch init` shows one"
            problems.add("no-kernel-file", message, problems.document.beginning, severity=warning)
        return
    for index, pattern in enumerate(settings.workspace.kernels):
        if not found[pattern] and (*place, index) in problems.document:
            problems.at_value((*place, index), "no-kernel-file", f"`{pattern}` finds no file", severity=warning)


def _names_once(loaded: list[LoadedKernel], diagnostics: list[Diagnostic]) -> list[Kernel]:
    """The kernels whose name is not taken; the others are reported."""
    first: dict[str, LoadedKernel] = {}
    chosen = []
    for one in loaded:
        if one.name and one.name in first:
            diagnostics.append(
                Diagnostic(
                    Severity.ERROR,
                    Source.KERNEL_FILE,
                    "kernel-file/duplicate-kernel",
                    f"two kernel files are called `{one.name}`; give one another `name`",
                    one.name_span,
                    (Related("first given here", first[one.name].name_span),),
                )
            )
            continue
        first[one.name] = one
        if one.kernel is not None:
            chosen.append(one.kernel)
    return chosen
