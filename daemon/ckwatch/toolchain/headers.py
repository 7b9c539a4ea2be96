"""Find Composable Kernel's headers: where the workspace says, in the ROCm tree, or where ckwatch installed them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ckwatch.errors import ToolchainError
from ckwatch.toolchain.model import Headers
from ckwatch.toolchain.places import Manifest

CK_PROBE = "ck/ck.hpp"
CK_TILE_PROBE = "ck_tile/core.hpp"


def find_ck(configured: Path | None, rocm: Path, installed: Manifest | None) -> Headers | None:
    """The folder that holds `ck/`, or None when there is none.

    Raises `ToolchainError` when the folder that the workspace names does not hold it.
    """
    for folder, origin in _places(configured, rocm, installed, "ck", CK_PROBE):
        return Headers(folder, _ck_version(folder), origin)
    return None


def find_ck_tile(configured: Path | None, ck: Path | None, rocm: Path, installed: Manifest | None) -> Headers | None:
    """The folder that holds `ck_tile/`, or None; a CK checkout that the workspace names brings its own.

    Raises `ToolchainError` when the folder that the workspace names for it does not hold it.
    """
    if configured is None and ck is not None:
        configured = next((folder for folder in _variants(ck) if (folder / CK_TILE_PROBE).is_file()), None)
    for folder, origin in _places(configured, rocm, installed, "ck_tile", CK_TILE_PROBE):
        ours = installed is not None and folder == installed.root / "ck_tile/include"
        return Headers(folder, installed.ck_tile_version if ours and installed else _ck_version(folder), origin)
    return None


def _places(
    configured: Path | None, rocm: Path, installed: Manifest | None, name: str, probe: str
) -> Iterator[tuple[Path, str]]:
    if configured is not None:
        found = next((folder for folder in _variants(configured) if (folder / probe).is_file()), None)
        if found is None:
            raise ToolchainError(
                f"[toolchain] {name} = {configured}: no {probe} there",
                f"Name a folder that holds {probe} or include/{probe}.",
            )
        if name == "ck" and not (found / "ck/config.h").is_file():
            raise ToolchainError(
                f"[toolchain] ck = {configured}: a source tree without its generated ck/config.h",
                "Configure it with CMake and install its headers, then name the folder they are installed in.",
            )
        yield found, "ckwatch.toml"
    # A tree that ckwatch installed keeps each library in a folder of its own, so that it can serve another ROCm too.
    ours = installed.root / name / "include" if installed is not None else None
    if (rocm / "include" / probe).is_file() and (installed is None or rocm != installed.root / "usr"):
        yield rocm / "include", "ROCm"
    if ours is not None and (ours / probe).is_file():
        yield ours, "installed by ckwatch"


def _variants(folder: Path) -> tuple[Path, ...]:
    """How a user may mean a header folder: itself, its `include`, or the library's own folder in it."""
    return folder, folder / "include", folder.parent


def _ck_version(folder: Path) -> str | None:
    try:
        text = (folder / "ck/version.h").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"#define CK_VERSION +\"?([0-9][\w.+-]*)", text)
    return found[1] if found else None
