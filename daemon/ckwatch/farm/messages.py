"""Messages between a daemon and its workers. Both are of one version: the names of a worker's resources hold it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from ckwatch.compile.request import CompileFault, CompileRequest, CompilerToolchain
from ckwatch.compile.store.content_hashes import ContentHashes
from ckwatch.compile.store.entries import CompilerCommand, ProductKind
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.version import __version__

PROTOCOL = 3
"""Grows with every change that the other side would not understand."""

READY = f"ckwatch:{__version__}:{PROTOCOL}"
"""The resource of workers that can be asked what they have: `DESCRIBE`."""

DESCRIBE, LOOK_AGAIN = "ckwatch-describe", "ckwatch-look-again"
RECEIVED, RECEIVE, INSTALL = "ckwatch-received", "ckwatch-receive", "ckwatch-install"
"""Requests to a worker, through the scheduler, beside tasks. `DESCRIBE` is answered by `WorkerFacts`."""


def compile_resource(identity: str) -> str:
    """The resource of workers that compile as a toolchain of this identity (`toolchain_identity`) does. There is as
    much of it as compiles may run at once."""
    return f"compile:{__version__}:{PROTOCOL}:{identity}"


def toolchain_identity(toolchain: CompilerToolchain, contents: ContentHashes) -> str:
    """The same for the same compiler and the same headers of Composable Kernel and ROCm's libraries, wherever they
    lie. Blocks; call from a worker thread."""
    digest = hashlib.sha256(f"{toolchain.identity}\n{toolchain.openmp}\n".encode())
    for folder in toolchain.include_folders:
        # of the workspace's choice the folder may be any, such as the user's own
        for path in (*_files_below(folder / "ck"), *_files_below(folder / "ck_tile")):
            digest.update(f"{path.relative_to(folder)}\0{contents.digest(str(path))}\n".encode())
    if (libraries := toolchain.roots.get("libraries")) is not None:
        for path in _files_below(libraries):
            digest.update(f"{path.relative_to(libraries)}\0{contents.digest(str(path))}\n".encode())
    return digest.hexdigest()[:16]


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield Path(parent, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """How `unit` is compiled, which has no say in what comes of it: `waiting` so many others wait for a compiler; with
    `force` whatever the store has; with `precompile` the worker makes precompiled headers, and uses them."""

    unit: str = ""
    waiting: int = 0
    force: bool = False
    precompile: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmCompile:
    """A HIP source for a worker with the same toolchain.

    `identity` is the toolchain's. Paths, those of the `request` too, begin with the name of a root,
    `<workspace>/include`: those of the toolchain lie where the worker has them, the others in a tree of `files` (path
    and SHA-256) that the worker makes. `roots` are the folders behind the names where the source comes from: what is
    compiled speaks of those. `key` is the task's.
    """

    identity: str
    request: CompileRequest
    files: tuple[tuple[str, str], ...]
    roots: Mapping[str, str]
    options: CompileOptions = CompileOptions()
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmCompiled:
    """The result of a `FarmCompile`: with a `fault` nothing was learned of the source, and `message` says why. With
    `lacks` nothing was done: the worker has no files with these SHA-256, and must be sent the job with them.

    `log`, `commands` and `headers` (path and SHA-256 of what was read) have names of roots in place of folders.
    `products` are names and contents of files by `ProductKind`.
    """

    machine: str
    ok: bool = False
    lacks: tuple[str, ...] = ()
    fault: CompileFault | None = None
    message: str = ""
    log: str = ""
    commands: tuple[CompilerCommand, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    exports: tuple[str, ...] = ()
    products: Mapping[ProductKind, tuple[str, bytes]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """Facts about a worker: its machine's name, the identities of its toolchains and the version of the first (empty if
    it has none), and the devices that it times on."""

    machine: str
    identities: tuple[str, ...] = ()
    toolchain: str = ""
    devices: tuple[DeviceFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTask:
    """A compile for a worker, with contents of its files by SHA-256."""

    job: FarmCompile
    contents: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmMeasure:
    """A measurement for a worker: `ask` is a `WorkerRequest` as JSON (`ckwatch.bench.worker_protocol`). `key` is the
    task's, and the topic on which the worker says what it does."""

    key: str
    ask: bytes
    artifacts: tuple[bytes, ...]
    time_limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmMeasured:
    """The result of a `FarmMeasure`: a report or a failure as JSON (`ckwatch.bench.worker_protocol`), or a
    `problem`."""

    report: bytes = b""
    problem: str = ""
