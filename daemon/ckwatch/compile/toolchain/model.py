"""The toolchain as values: what a compile, an analysis and a report need to know of a compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ckwatch.workspace.settings import ToolchainSection

_HIDDEN_INPUTS = frozenset(
    {
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH"),
        *("GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "CCC_ADD_ARGS", "CC_PRINT_OPTIONS", "CL", "_CL_"),
        *("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
        *("HIPCC_COMPILE_FLAGS_APPEND", "HIPCC_LINK_FLAGS_APPEND", "HIPCC_VERBOSE", "HIP_COMPILE_CXX_AS_HIP"),
        *("HIP_COMPILER", "HIP_RUNTIME", "HIP_ROCCLR_HOME", "DEVICE_LIB_PATH"),
    }
)


def without_hidden_inputs(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what changes a compile and does not show in its arguments, which are its key."""
    return {name: value for name, value in environment.items() if name not in _HIDDEN_INPUTS}


class ToolchainSource(StrEnum):
    """The source of a toolchain, in the order of the search."""

    CONFIG = "ckwatch.toml"
    ENVIRONMENT = "ROCM_PATH"
    ROCM_HOME = "ROCM_HOME"
    HIP_PATH = "HIP_PATH"
    SYSTEM = "/opt/rocm"
    PATH = "hipcc on PATH"
    WHEELS = "rocm-sdk wheels"
    INSTALLED = "installed by ckwatch"


@dataclass(frozen=True, slots=True)
class FixedToolchainChoice:
    """Choices of a workspace's `[toolchain]`; none unless given."""

    rocm: Path | None = None
    ck: Path | None = None
    ck_tile: Path | None = None
    clangd: Path | None = None


ToolchainChoice: TypeAlias = "ToolchainSection | FixedToolchainChoice"
"""Folders and programs that win over what discovery finds."""


@dataclass(frozen=True, slots=True)
class HeaderLibrary:
    """One header library: `folder` goes on the include path; `version` is None when the headers do not tell it."""

    folder: Path
    version: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler that was found, with all that it takes to run it.

    `hip_arguments` come first on every HIP compile, `cpp_arguments` on every host compile, `link_arguments` on every
    link, whether hipcc or clang++ is called. `environment` is the whole environment for the compiler's processes.
    `include_folders` hold the headers of CK and of ROCm's `libraries`, in the order of the search. `identity` is the
    same for the same compiler wherever it lies, and changes with its content. `notes` say what discovery passed over,
    for `ckwatch doctor`. `unknown_flags` are those of ckwatch that this compiler is too old for.
    `workspace` is the folder of the workspace that it compiles for, where there is one: then equal workspaces share
    what is stored.
    """

    source: ToolchainSource
    root: Path
    hipcc: Path
    clang: Path
    clangxx: Path
    lld: Path
    readelf: Path
    objdump: Path
    mca: Path | None
    device_libraries: Path
    hip_include: Path
    hip_library: Path | None
    ck: HeaderLibrary | None
    ck_tile: HeaderLibrary | None
    hip_arguments: tuple[str, ...]
    cpp_arguments: tuple[str, ...]
    link_arguments: tuple[str, ...]
    openmp: bool
    hip_version: str
    clang_version: str
    rocm_version: str | None
    identity: str
    environment: Mapping[str, str] = field(repr=False, hash=False)
    notes: tuple[str, ...] = ()
    unknown_flags: tuple[str, ...] = ()
    workspace: Path | None = None
    libraries: Path | None = None
    """The folder of headers that `ckwatch toolchain install --with` fills; it may not be there."""

    @property
    def title(self) -> str:
        """The toolchain's name, and its location."""
        return f"ROCm {self.rocm_version} at {self.root}" if self.rocm_version else f"the ROCm at {self.root}"

    @property
    def include_folders(self) -> tuple[Path, ...]:
        """The folders of CK's headers, each once, with a workspace's own choice first, then that of the libraries."""
        kernels = (headers.folder for headers in (self.ck, self.ck_tile) if headers is not None)
        return tuple(dict.fromkeys((*kernels, *([] if self.libraries is None else [self.libraries]))))

    @property
    def feature_folders(self) -> tuple[Path, ...]:
        """The folders that are searched for features: `include_folders`, and HIP's own, not the one that it shares."""
        return (*self.include_folders, self.hip_include / "hip")

    @property
    def roots(self) -> Mapping[str, Path]:
        """Named folders by which stored paths are kept short and movable; the most specific comes first."""
        named = {"ck": self.ck, "ck_tile": self.ck_tile}
        found = {name: headers.folder for name, headers in named.items() if headers is not None} | {"rocm": self.root}
        if self.libraries is not None:
            found["libraries"] = self.libraries
        return found if self.workspace is None else found | {"workspace": self.workspace}


def clang_major(toolchain: Toolchain) -> int:
    """The major version of the compiler's clang. Raises `ToolchainError` when it does not say."""
    found = re.search(r"version (\d+)\.", toolchain.clang_version)
    if found is None:
        raise ToolchainError(f"the compiler reports no version: {toolchain.clang_version}")
    return int(found[1])
