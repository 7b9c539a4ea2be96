"""Composable Kernel's own text, where a ROCm or a Debian package lacks parts of it: `ck`, `ck_tile` and ck4inductor.

All three travel in source distributions of Python packages, one for each of `RELEASES`. They stand apart from the ROCm
trees, and serve every one that lacks some of it; the first release does, unless the workspace names another.

<cache>/composable-kernel/<version>-<hash>/
  ck/include/ck/             the headers, with the config.h of a default build
  ck_tile/include/ck_tile/
  python/ck4inductor/        the Python package, with the instance lists that it reads
<cache>/composable-kernel/PROJECT-….tar.gz      while it is fetched and unpacked
<cache>/composable-kernel/.lock                 held by the install that runs

A folder of that name is complete: it is renamed last.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ckwatch.compile.toolchain.unpack import unpack_sources
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import read_file


@dataclass(frozen=True, slots=True)
class CkRelease:
    """A source distribution on a package index that holds Composable Kernel `ck_version` in its folder `inside`."""

    ck_version: str
    project: str
    version: str
    inside: str
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        """The name of the file on the index."""
        return f"{self.project.replace('-', '_')}-{self.version}.tar.gz"

    @property
    def name(self) -> str:
        """The name in configurations and commands."""
        return f"ck-{self.ck_version}"

    @property
    def origin(self) -> str:
        """The origin of its headers, for reports."""
        return f"{self.project} {self.version}, installed by ckwatch"


RELEASES = (
    CkRelease(
        "1.2.0", "amd-aiter", "0.1.7.post2.dev18", "aiter_meta/3rdparty/composable_kernel",
        "561b9b2baa4e75ea02890f2e54d1c2ce9e5c128bd1012b4f4780d47e1a5a41a1", 28_283_791,
    ),
    CkRelease(
        "1.1.0", "xformers", "0.0.35.dev1120", "third_party/flash-attention/csrc/composable_kernel",
        "877f7bff770abbaf6186667cded28de85751dac7a3964d5ce079f5e75a6be4fd", 14_308_712,
    ),
)  # fmt: skip
"""The first is what a ROCm without Composable Kernel is given."""
CK_INSTALL_COMMAND = "ckwatch toolchain install ck"
TREE_BYTES = 23_000_000
"""The size of the unpacked files: ck 14.3 MB, ck_tile 6.6 MB, ck4inductor 1.6 MB."""

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
    "COMMIT_ID": "",
}
"""CMake's settings in a build for all archs: the values of Debian's package."""


@dataclass(frozen=True, slots=True)
class ComposableKernelSources:
    """The source distribution as unpacked in `root`."""

    root: Path
    release: CkRelease = RELEASES[0]

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


def sources_folder(cache: Path, release: CkRelease = RELEASES[0]) -> Path:
    """The folder that `unpack` makes in ckwatch's cache folder."""
    return cache / "composable-kernel" / f"{release.ck_version}-{release.sha256[:8]}"


def installed_sources(cache: Path) -> tuple[ComposableKernelSources, ...]:
    """Return what installs have left in ckwatch's cache folder, in the order of `RELEASES`."""
    found = (ComposableKernelSources(sources_folder(cache, release), release) for release in RELEASES)
    return tuple(sources for sources in found if sources.root.is_dir())


def find_sources(cache: Path, release: CkRelease = RELEASES[0]) -> ComposableKernelSources | None:
    """Return the sources of one release that an install has left in ckwatch's cache folder."""
    return next((sources for sources in installed_sources(cache) if sources.release == release), None)


def unpack(
    archive: Path, cache: Path, release: CkRelease = RELEASES[0], *, checkpoint: Callable[[], None] = lambda: None
) -> ComposableKernelSources:
    """Unpack what is needed of the source distribution into ckwatch's cache folder; one process at a time.

    `checkpoint` may raise to stop it. Raises `ToolchainError` for a damaged file, and `OSError`.
    """
    final = sources_folder(cache, release)
    numbers = (release.ck_version, *release.ck_version.split("."))
    parts = ("", "_MAJOR", "_MINOR", "_PATCH")
    named = {f"CMAKE_PROJECT_VERSION{part}": number for part, number in zip(parts, numbers, strict=True)}
    for left in final.parent.glob(".work-*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=final.parent))
    try:
        unpack_sources(archive, partial(_place, release.inside), work, checkpoint=checkpoint)
        for name in ("config.h", "version.h"):
            template = work / f"ck/include/ck/{name}.in"
            template.with_name(name).write_text(configured(read_file(template).decode(), {**_CONFIG, **named}))
        work.chmod(0o755)
        shutil.rmtree(final, ignore_errors=True)
        work.rename(final)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return ComposableKernelSources(final, release)


def _place(folder: str, path: str) -> str | None:
    """Return the target of a file of the source distribution; None for one that is not needed."""
    if path.startswith(f"{folder}/") and path.endswith(_KEPT):
        inside = path.removeprefix(f"{folder}/")
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
