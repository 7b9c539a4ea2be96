"""Composable Kernel's own text, where a ROCm or a Debian package lacks parts of it: `ck`, `ck_tile` and ck4inductor.

All three travel in the source distribution of amd-aiter. It stands apart from the ROCm trees,
and serves every one that lacks some of it.

<cache>/composable-kernel/<version>-<hash>/
  ck/include/ck/             the headers, with the config.h of a default build
  ck_tile/include/ck_tile/
  python/ck4inductor/        the Python package, with the instance lists that it reads
<cache>/composable-kernel/amd_aiter-….tar.gz    while it is fetched and unpacked
<cache>/composable-kernel/.lock                 held by the install that runs

A folder of that name is complete: it is renamed last.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ckwatch.compile.toolchain.unpack import unpack_sources
from ckwatch.system.user_files import read_file


@dataclass(frozen=True, slots=True)
class SourceDistribution:
    """A file on a package index; `holds` says what for."""

    project: str
    version: str
    file_name: str
    sha256: str
    size_bytes: int
    holds: str


AITER = SourceDistribution(
    "amd-aiter",
    "0.1.7.post2.dev18",
    "amd_aiter-0.1.7.post2.dev18.tar.gz",
    "561b9b2baa4e75ea02890f2e54d1c2ce9e5c128bd1012b4f4780d47e1a5a41a1",
    28_283_791,
    "Composable Kernel's headers",
)
CK_VERSION = "1.2.0"
CK_INSTALL_COMMAND = "ckwatch toolchain install ck"
SOURCES_ORIGIN = f"{AITER.project} {AITER.version}, installed by ckwatch"
TREE_BYTES = 23_000_000
"""The size of the unpacked files: ck 14.3 MB, ck_tile 6.6 MB, ck4inductor 1.6 MB."""

_ROOT = "aiter_meta/3rdparty/composable_kernel"
_INSTANCES = "tensor_operation_instance/gpu"
# The instance lists lie where ck4inductor's own package has them, which reads no other file of CK.
_PLACES = {
    "LICENSE": "LICENSE",
    "include/ck/": "ck/include/ck/",
    "include/ck_tile/": "ck_tile/include/ck_tile/",
    "python/ck4inductor/": "python/ck4inductor/",
    **{
        f"library/{folder}/": f"python/ck4inductor/library/{folder}/"
        for folder in (
            f"src/{_INSTANCES}/gemm_universal",
            f"src/{_INSTANCES}/gemm_universal_batched",
            f"include/ck/library/{_INSTANCES}/grouped_conv_fwd",
        )
    },
}
_KEPT = (".hpp", ".inc", ".in", ".py", "LICENSE")

_CONFIG: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *(f"CK_ENABLE_{name}" for name in ("INT8", "FP8", "BF8", "FP16", "BF16", "FP32", "FP64")),
            *("CK_ENABLE_DL_KERNELS", "CK_ENABLE_DPP_KERNELS", "CK_USE_XDL", "CK_USE_WMMA", "CK_USE_WMMA_FP8"),
            "CK_USE_OCP_FP8",
        ),
        "ON",
    ),
    **dict(
        zip(
            (f"CMAKE_PROJECT_VERSION{part}" for part in ("", "_MAJOR", "_MINOR", "_PATCH")),
            (CK_VERSION, *CK_VERSION.split(".")),
            strict=True,
        )
    ),
    "COMMIT_ID": "",
}
"""CMake's settings in a build for all archs: the values of Debian's package."""


@dataclass(frozen=True, slots=True)
class ComposableKernelSources:
    """The source distribution as unpacked in `root`."""

    root: Path

    @property
    def ck(self) -> Path:
        """The folder that holds `ck/`."""
        return self.root / "ck/include"

    @property
    def ck_tile(self) -> Path:
        """The folder that holds `ck_tile/`."""
        return self.root / "ck_tile/include"

    @property
    def python(self) -> Path:
        """The folder from which Python imports `ck4inductor`."""
        return self.root / "python"


def sources_folder(cache: Path) -> Path:
    """The folder that `unpack` makes in ckwatch's cache folder."""
    return cache / "composable-kernel" / f"{CK_VERSION}-{AITER.sha256[:8]}"


def find_sources(cache: Path) -> ComposableKernelSources | None:
    """Return the sources that an install has left in ckwatch's cache folder."""
    root = sources_folder(cache)
    return ComposableKernelSources(root) if root.is_dir() else None


def unpack(archive: Path, cache: Path, *, checkpoint: Callable[[], None] = lambda: None) -> ComposableKernelSources:
    """Unpack what is needed of the source distribution into ckwatch's cache folder; one process at a time.

    `checkpoint` may raise to stop it. Raises `ToolchainError` for a damaged file, and `OSError`.
    """
    final = sources_folder(cache)
    for left in final.parent.glob(".work-*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=final.parent))
    try:
        unpack_sources(archive, _place, work, checkpoint=checkpoint)
        for name in ("config.h", "version.h"):
            template = work / f"ck/include/ck/{name}.in"
            template.with_name(name).write_text(configured(read_file(template).decode(), _CONFIG))
        work.chmod(0o755)
        shutil.rmtree(final, ignore_errors=True)
        work.rename(final)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return ComposableKernelSources(final)


def _place(path: str) -> str | None:
    """Return the target of a file of the source distribution; None for one that is not needed."""
    if path.startswith(f"{_ROOT}/") and path.endswith(_KEPT):
        inside = path.removeprefix(f"{_ROOT}/")
        for old, new in _PLACES.items():
            if inside.startswith(old):
                return new + inside.removeprefix(old)
    return None


def configured(template: str, values: Mapping[str, str]) -> str:
    """Apply CMake's `configure_file` to a header."""

    def define(found: re.Match[str]) -> str:
        name = found[1]
        return f"#define {name}{found[2]}" if values.get(name) else f"/* #undef {name} */"

    text = re.sub(r"^#cmakedefine (\w+)(.*)$", define, template, flags=re.MULTILINE)
    return re.sub(r"@(\w+)@", lambda found: values.get(found[1], ""), text)
