"""The ways in which ROCm is installed: what a tree is known by, and where its parts lie.

| layout | root | LLVM | device libraries | CK's headers |
|---|---|---|---|---|
| AMD's packages to 7.2 | `/opt/rocm-7.2.4`, `/opt/rocm` leads there | `lib/llvm` | `amdgcn` | `composablekernel-dev` |
| AMD's packages from 7.12 on | `/opt/rocm/core-7.14` | `lib/llvm` | `lib/llvm/amdgcn` | `amdrocm-ck` |
| TheRock's tarball | any folder | `lib/llvm` | `lib/llvm/amdgcn` | |
| rocm-sdk wheels | `site-packages/_rocm_sdk_devel` | `lib/llvm` | `lib/llvm/amdgcn` | |
| Debian's packages | `/usr` | `lib/llvm-22` | `lib/llvm-22/lib/clang/22/amdgcn` | `libcomposable-kernel-dev` |
| Conda | the environment's folder | itself | `lib/clang/20/lib/amdgcn` | |
| Spack | `hip-6.4.0-HASH` | `llvm-amdgpu-6.4.0-HASH` beside it | `amdgcn` of that | `composable-kernel` |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ckwatch.compile.toolchain.composable_kernel import CK_INSTALL_COMMAND
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import read_file

_MANIFEST = "share/therock/therock_manifest.json"
WHEELS = "_rocm_sdk_devel"
WHEEL_HINT = "the extra `devel` of the package rocm, and `rocm-sdk init`, unpack them into _rocm_sdk_devel"


@dataclass(frozen=True, slots=True)
class Layout:
    """A way in which ROCm is installed; `brings_ck` is the command or the package that adds CK's headers to it."""

    title: str
    is_of: Callable[[Path], bool]
    brings_ck: str = CK_INSTALL_COMMAND


LAYOUTS = (
    Layout("rocm-sdk wheels", lambda root: root.name.startswith("_rocm_sdk_")),
    Layout("Spack", lambda root: (root / ".spack").is_dir(), "`spack install composable-kernel` and name its folder"),
    Layout("Conda", lambda root: (root / "conda-meta").is_dir()),
    Layout(
        "AMD's packages of the ROCm Core SDK",
        lambda root: re.fullmatch(r"core(-[\d.]+)?", root.resolve().name) is not None,
        "the package amdrocm-ck",
    ),
    Layout("TheRock's tarball", lambda root: (root / _MANIFEST).is_file()),
    Layout("AMD's packages", lambda root: (root / ".info/version").is_file(), "the package composablekernel-dev"),
    Layout(
        "Debian's packages",
        lambda root: root.name == "usr" and any(root.glob("lib/llvm-*")),
        "the package libcomposable-kernel-dev, where Debian has it",
    ),
    Layout("a folder", lambda _: True),
)
"""The first that a tree is of counts."""


def layout_of(root: Path) -> Layout:
    """The layout of a ROCm tree."""
    return next(layout for layout in LAYOUTS if layout.is_of(root))


def tree_in(folder: Path) -> Path:
    """The ROCm tree that a folder means: itself, the Core SDK to which its parts lead, or the wheels' of a virtual
    environment."""
    core = folder / "core"
    return core if (core / "bin/hipcc").is_file() else next(iter(wheel_trees(folder)), folder)


def llvm_folders(root: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """The folders in which clang and its tools may lie, the likeliest first."""
    yield from (root / "lib/llvm/bin", root / "llvm/bin")
    # Debian keeps several LLVMs side by side; the one for HIP has the device libraries.
    debian = [path.parents[4] / "bin" for path in root.glob("lib/llvm-*/lib/clang/*/amdgcn/bitcode")]
    yield from sorted(debian, key=lambda path: int(re.sub(r"\D", "", path.parent.name) or 0), reverse=True)
    version = re.match(r"hip-([\d.]+)", root.name)
    if version is not None:
        yield from sorted(root.parent.glob(f"llvm-amdgpu-{version[1]}*/bin"))
    yield root / "bin"
    if env.get("HIP_CLANG_PATH"):  # as Spack sets it, whose folders may have any names
        yield Path(env["HIP_CLANG_PATH"])


def bitcode_folders(root: Path, llvm: Path) -> Iterator[Path]:
    """The folders in which device libraries may lie, for the programs in `llvm`."""
    clang = llvm.parent / "lib/clang"
    yield from (root / "amdgcn/bitcode", llvm.parent / "amdgcn/bitcode")
    yield from (
        *sorted(clang.glob("*/lib/amdgcn/bitcode"), reverse=True),
        *sorted(clang.glob("*/amdgcn/bitcode"), reverse=True),
    )
    yield root / "lib/amdgcn/bitcode"
    yield from sorted(root.glob("lib/*-linux-gnu/amdgcn/bitcode"))
    yield from sorted(root.parent.glob("rocm-device-libs-*/amdgcn/bitcode"))


def wheel_trees(prefix: Path) -> list[Path]:
    """The trees of rocm-sdk wheels in a Python's folder: the whole one, else the one that lacks headers."""
    packages = sorted({found.resolve() for found in prefix.glob("lib*/python3*/site-packages")})
    trees = [package / name for package in packages for name in (WHEELS, "_rocm_sdk_core")]
    return [tree for tree in trees if (tree / "bin").is_dir()]


def rocm_version(root: Path) -> str | None:
    """The release that a ROCm tree says it is, such as `7.2.4`; None when it does not say."""
    for name in (".info/version", ".info/version-dev"):
        try:
            return read_file(root / name).decode(errors="replace").strip().partition("-")[0]
        except OSError:
            continue
    found = re.match(r"(?:rocm|core|hip)-(\d+\.\d+(\.\d+)?)", root.resolve().name)
    return found[1] if found else _release_in_header(root)


def _release_in_header(root: Path) -> str | None:
    return _numbers(root / "include/rocm-core/rocm_version.h", "ROCM_VERSION")


def hip_version(root: Path) -> str:
    """HIP's version from its header, such as `7.2.53211`; `unknown` when it does not say."""
    return _numbers(root / "include/hip/hip_version.h", "HIP_VERSION") or "unknown"


def _numbers(header: Path, name: str) -> str | None:
    """The version that macros of a header tell; None where there are none."""
    try:
        text = read_file(header).decode(errors="replace")
    except OSError:
        return None
    numbers = dict(re.findall(rf"#define {name}_(MAJOR|MINOR|PATCH) +(\d+)", text))
    return ".".join(numbers.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH")) if numbers else None
