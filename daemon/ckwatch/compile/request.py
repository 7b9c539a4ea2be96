"""A request to the compiler, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from ckwatch.compile.store.entries import Artifact, ArtifactRecord, CompilerCommand, ProductKind, wall_s
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language

USUAL_PRODUCTS = frozenset(
    {ProductKind.SHARED_OBJECT, ProductKind.OBJECT, ProductKind.CODE_OBJECT, ProductKind.DEPENDENCIES}
)


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One source to compile.

    `source` is the rendered text with its final function name `symbol`, the only name that the shared object exports
    (`more_exports` adds others). `arch` is the GPU's, `gfx942`; for C++ any name of the host, which the key replaces by
    the processor that it is. `flags`, `defines` (`NAME` or `NAME=VALUE`) and `include_folders` are the workspace's and
    the kernel file's own; they come after the defaults and win. Without `products` it is only checked: analyzed as for
    a compile, and no code is made of it. `timeout_s` bounds the processor time of each compiler process, `stalled_s`
    the time that it uses none; `nice` is their least niceness.
    Requests of the same `kernel` differ in parameters: what one has instantiated helps the others. `lines`: line tables
    shall stand beside the code object. They change none of the other products, and so are in no key. Requests are equal
    if their keys are.
    """

    source: str
    symbol: str
    language: Language
    arch: str
    flags: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    include_folders: tuple[Path, ...] = ()
    more_exports: tuple[str, ...] = ()
    products: frozenset[ProductKind] = USUAL_PRODUCTS
    timeout_s: float = field(default=1800.0, compare=False)
    stalled_s: float = field(default=600.0, compare=False)
    nice: int = field(default=0, compare=False)
    kernel: str = field(default="", compare=False)
    lines: bool = field(default=False, compare=False)

    @property
    def is_check(self) -> bool:
        """Return True if no code is to be made of the source."""
        return not self.products

    @property
    def exports(self) -> tuple[str, ...]:
        """The names that the shared object exports."""
        return (self.symbol, *self.more_exports)


class CompilerToolchain(Protocol):
    """The parts of a toolchain that a compile needs.

    `hipcc` and `clangxx` are programs; `hip_arguments`, `cpp_arguments` and `link_arguments` come before all others
    (`--rocm-path=…`; `-L…`). `include_folders` hold CK's headers, in the order of the search; their warnings are not
    shown. `environment` is the whole environment of the processes. `identity` changes whenever the compiler does.
    `roots` names folders for stored paths. `openmp` tells whether clang's OpenMP runtime can be linked.
    `unknown_flags` are flags of ckwatch's own that the compiler is too old for.
    """

    @property
    def hipcc(self) -> Path: ...
    @property
    def clangxx(self) -> Path: ...
    @property
    def hip_arguments(self) -> tuple[str, ...]: ...
    @property
    def cpp_arguments(self) -> tuple[str, ...]: ...
    @property
    def link_arguments(self) -> tuple[str, ...]: ...
    @property
    def include_folders(self) -> tuple[Path, ...]: ...
    @property
    def environment(self) -> Mapping[str, str]: ...
    @property
    def identity(self) -> str: ...
    @property
    def roots(self) -> Mapping[str, Path]: ...
    @property
    def openmp(self) -> bool: ...
    @property
    def unknown_flags(self) -> tuple[str, ...]: ...


def record_of(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    commands: tuple[CompilerCommand, ...],
    *,
    ok: bool = True,
    exports: tuple[str, ...] = (),
) -> ArtifactRecord:
    """The record of a compile by `commands`."""
    language = request.language
    names = (request.symbol, request.arch, language.value, toolchain.identity, language.source_name)
    return ArtifactRecord(ok, *names, commands, exports)


class CompileStatus(StrEnum):
    """How a compile ended. A transient end says nothing of the kernel and is never stored."""

    OK = "ok"
    FAILED = "failed"
    TRANSIENT = "transient"


class CompileFault(StrEnum):
    """Why a compile has no result that could be stored."""

    KILLED = "killed"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    NO_SPACE = "no space left"
    UNREADABLE_HEADER = "a header that cannot be read"
    HEADERS_CHANGED = "headers changed meanwhile"
    STORE_GONE = "the store was deleted meanwhile"
    HOST = "the compiler cannot work here"


@dataclass(frozen=True, slots=True)
class CompileOutcome:
    """The outcome of a compile.

    `log` is what was printed, with the source called `request.language.source_name`. `files` lie in the folder the
    compile ran in. `headers` are absolute paths, `missing` the names of headers that were not found. `begun_ns` is the
    time before the first process (`steady_ns`). `message` explains `fault` to a person.
    """

    status: CompileStatus
    log: str
    commands: tuple[CompilerCommand, ...]
    begun_ns: int
    fault: CompileFault | None = None
    message: str = ""
    files: Mapping[ProductKind, Path] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Wall time of all processes."""
        return wall_s(self.commands)


@dataclass(frozen=True, slots=True)
class BuildOutcome:
    """A unit's build: `artifact` when there is something to keep (also a failure), else `outcome` says why not.

    `outcome` is None when the artifact was found in the store. `source_text` is the text that `log` speaks of: it has
    the tokens of the request's, perhaps not its blanks and comments (`fingerprint.TokenIndex` moves places over).
    """

    key: str
    artifact: Artifact | None
    outcome: CompileOutcome | None
    from_store: bool
    log: str
    source_text: str

    @property
    def ok(self) -> bool:
        """Return True if there is a shared object."""
        return self.artifact is not None and self.artifact.ok

    @property
    def fault(self) -> CompileFault | None:
        """Set when nothing was learned of the kernel."""
        return None if self.artifact is not None or self.outcome is None else self.outcome.fault

    @property
    def message(self) -> str:
        """Describe `fault` for a reader."""
        return "" if self.outcome is None else self.outcome.message
