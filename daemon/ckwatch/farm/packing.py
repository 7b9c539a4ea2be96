"""Makes a compile ready to travel, and turns what comes back into what a compiler here would have left; for threads.

Folders are called by names, as in the store (`PathRoots`): the toolchain's lie elsewhere on a worker, the workspace's
are made there of the files that the source may include. What comes back counts only if every header that was read
there has the same contents here.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.compile.dependencies import missing_headers
from ckwatch.compile.includes import possible_includes
from ckwatch.compile.request import (
    CompileFault,
    CompileOutcome,
    CompileRequest,
    CompilerToolchain,
    CompileStatus,
)
from ckwatch.compile.single_call import write_dependencies
from ckwatch.compile.store.content_hashes import ContentHashes, steady_ns
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.store.header_sets import PathRoots, not_there
from ckwatch.farm.messages import CompileOptions, FarmCompile, FarmCompiled
from ckwatch.model.compiler_flags import INCLUDE_FOLDERS, flag_groups, folder_of
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language
from ckwatch.system.user_files import file_statuses, read_file

_HERE = re.compile(r"(?:^|[=,:]|(?<=^-[A-Za-z]))/")
"""A path of this machine in a flag."""


class FarmError(CkwatchError):
    """The farm cannot do it now; it is to be done here."""


class UnfitWorkerError(FarmError):
    """A machine that cannot compile, or that compiles something else than this one does."""

    def __init__(self, machine: str, message: str) -> None:
        super().__init__(message)
        self.machine = machine


_OF_THE_MACHINE = (CompileFault.HOST, CompileFault.NO_SPACE, CompileFault.STORE_GONE)
"""Faults that another source would meet, too."""


@dataclass(frozen=True, slots=True)
class PackedCompile:
    """A compile that is ready to travel: the message, and the contents of its files by SHA-256.

    `roots` are the folders behind its names here, `folders` those that were searched for headers. `begun_ns` is when
    the first file was looked at (`steady_ns`).
    """

    message: FarmCompile
    contents: Mapping[str, bytes]
    roots: PathRoots
    folders: tuple[Path, ...]
    begun_ns: int


def pack(
    request: CompileRequest, toolchain: CompilerToolchain, identity: str, options: CompileOptions
) -> PackedCompile:
    """The request as it travels. Raises FarmError for one that only this machine can compile."""
    if request.language is not Language.HIP:
        raise FarmError(
            "only HIP sources are compiled elsewhere: others are made for this machine's processor or its nvcc"
        )
    begun_ns = steady_ns()
    given = _given_folders(request)
    named = _named_folders(toolchain, (*map(str, request.include_folders), *given))
    roots = PathRoots(named)
    flags = tuple(map(roots.shorten_text, request.flags))
    for flag in flags:
        if _HERE.search(flag):
            raise FarmError(f"its flag `{flag}` names a file of this machine")
    own = [Path(folder) for folder in dict.fromkeys((*map(str, request.include_folders), *given))]
    try:
        paths = possible_includes(request.source, own)
    except (ValueError, OSError) as error:
        raise FarmError(str(error)) from error
    contents: dict[str, bytes] = {}
    files = []
    for path in paths:
        name = roots.shorten(path)
        if name.partition("/")[0].strip("<>") in toolchain.roots.keys() - {"workspace"}:
            continue
        if not name.startswith("<"):
            raise FarmError(f"it includes {path}, which lies in no folder that is searched for headers")
        content = read_file(path)
        digest = hashlib.sha256(content).hexdigest()
        contents[digest] = content
        files.append((name, digest))
    message = FarmCompile(
        identity=identity,
        request=replace(
            request,
            flags=flags,
            include_folders=tuple(Path(roots.shorten(f"{folder}/")) for folder in request.include_folders),
            nice=0,
        ),
        files=tuple(files),
        roots={name: str(path) for name, path in named.items()},
        options=options,
    )
    searched = (*request.include_folders, *toolchain.include_folders)
    return PackedCompile(message, contents, roots, searched, begun_ns)


def _given_folders(request: CompileRequest) -> list[str]:
    """Folders of headers that the flags name."""
    groups = (group for _, group in flag_groups(request.flags) if group[0].startswith(INCLUDE_FOLDERS))
    return [folder for group in groups if (folder := folder_of(group)) and os.path.isabs(folder)]  # noqa: PTH117


def _named_folders(toolchain: CompilerToolchain, folders: tuple[str, ...]) -> dict[str, Path]:
    """The toolchain's roots, the workspace, and a name for each other folder of headers."""
    named = dict(toolchain.roots)
    for folder in dict.fromkeys(folders):
        if not any(f"{folder}/".startswith(f"{root}/") for root in named.values()):
            named[f"folder{len(named)}"] = Path(folder)
    return named


def unpack(packed: PackedCompile, done: FarmCompiled, folder: Path, contents: ContentHashes) -> CompileOutcome:
    """Unpack into `folder` what a compiler here would have left there. Raises FarmError where nothing was learned, for
    a product that is not what was sent, and where a header that was read there is another one here
    (`UnfitWorkerError`). Raises OSError where the folder cannot be written."""
    roots = packed.roots
    if done.fault is CompileFault.TIMED_OUT:  # it would here, too
        log = roots.expand_text(done.log)
        return CompileOutcome(CompileStatus.TRANSIENT, log, (), packed.begun_ns, done.fault, done.message)
    if done.fault is not None:
        message = f"{done.machine}: {done.message or done.fault.value}"
        raise UnfitWorkerError(done.machine, message) if done.fault in _OF_THE_MACHINE else FarmError(message)
    headers = {roots.expand(name): digest for name, digest in done.headers.items()}
    log = roots.expand_text(done.log)
    missing = tuple(missing_headers(log))
    sent = {name for name, _ in packed.message.files}
    digests, _ = contents.digests(list(headers))
    for (name, digest), (path, _), own in zip(done.headers.items(), headers.items(), digests, strict=True):
        if own == digest:
            continue
        if name in sent:
            raise FarmError(f"{path} changed meanwhile")
        raise UnfitWorkerError(done.machine, f"{done.machine} has another {path} than this machine")
    earlier = sorted(not_there(tuple(headers), missing, packed.folders))
    for path, status in zip(earlier, file_statuses(earlier), strict=True):
        if status is not None:
            raise FarmError(f"{done.machine} was not sent {path}, which would be read here")
    if not done.ok and (why := _not_of_the_source(log, missing)):
        raise FarmError(f"{done.machine}: {why}")
    paths = tuple(sorted(headers))
    files: dict[ProductKind, Path] = {}
    for kind, (name, content) in done.products.items():
        if name != os.path.basename(name) or name in ("", ".", ".."):  # noqa: PTH119
            raise FarmError(f"{done.machine} sent a file called {name!r}")
        files[kind] = folder / name
        if kind is ProductKind.DEPENDENCIES:
            write_dependencies(files[kind], paths)
        else:
            files[kind].write_bytes(content)
    if done.ok and ProductKind.SHARED_OBJECT not in files:
        raise FarmError(f"{done.machine} sent no shared object")
    return CompileOutcome(
        CompileStatus.OK if done.ok else CompileStatus.FAILED,
        log,
        tuple(
            replace(command, arguments=tuple(map(roots.expand_text, command.arguments))) for command in done.commands
        ),
        packed.begun_ns,
        files=files,
        headers=paths,
        missing=missing,
        exports=done.exports,
    )


def _not_of_the_source(log: str, missing: tuple[str, ...]) -> str:
    """Why a failure may come of the machine, and is looked at here: a header or a library that it lacks. Empty where
    the source is at fault."""
    if missing:
        return f"it found no {missing[0]}"
    errors = [one for one in parse_clang_log(log) if one.is_error]
    unplaced = next((one.text for one in errors if one.position is None), None)
    return "the compiler printed nothing" if not errors else unplaced or ""
