"""The toolchains that ckwatch installed: where they lie, and which one is in use.

<cache>/toolchains/<name>/             one complete tree; `ckwatch-toolchain.json` is written last and marks it so
<cache>/toolchains/current             link to the one in use
<cache>/toolchains/.downloads/         packages of an install in progress, kept when it is interrupted
<cache>/toolchains/.lock               held by the install that runs
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import read_file

MANIFEST = "ckwatch-toolchain.json"
LAYOUT = 4
_CURRENT = "current"


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """One package that went into a tree."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ToolchainManifest:
    """The contents of a tree, and the folder in which it lies.

    `missing` tells what could not be fetched for this host, and why.
    """

    layout: int
    name: str
    root: Path
    llvm_major: int
    rocm_version: str
    ck_version: str
    missing: tuple[str, ...]
    packages: tuple[InstalledPackage, ...]

    def to_json(self) -> str:
        """The manifest as it stands in the tree."""
        return json.dumps(asdict(self), indent=2, default=str) + "\n"

    @classmethod
    def from_json(cls, text: str) -> ToolchainManifest:
        """Raises `ValueError` when the text is not a manifest of this layout."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data["layout"] != LAYOUT:
                raise ValueError(f"layout {data['layout']} is not {LAYOUT}")
            packages = tuple(InstalledPackage(**package) for package in data.pop("packages"))
            missing = tuple(map(str, data.pop("missing")))
            data.pop("ck_tile_version", None)  # of trees that had ck_tile from elsewhere
            return cls(packages=packages, missing=missing, root=Path(data.pop("root")), **data)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a toolchain manifest: {error}") from error


@dataclass(frozen=True, slots=True)
class HostExtras:
    """Extras of a tree for its host: C++ headers if the host has none, and an OpenMP runtime.

    Both come from the host's own distribution, since programs that are linked against them run on the host.
    """

    header_arguments: tuple[str, ...] = ()
    link_arguments: tuple[str, ...] = ()
    openmp_arguments: tuple[str, ...] = ()

    @property
    def openmp(self) -> bool:
        """Return True if `-fopenmp` can be linked."""
        return bool(self.openmp_arguments)


def host_extras(manifest: ToolchainManifest) -> HostExtras:
    """The compiler arguments for what lies under `host/` of an installed tree."""
    host = manifest.root / "host"
    headers: list[str] = []
    for folder in sorted(host.glob("usr/include/c++/*")) + sorted(host.glob("usr/include/*-linux-gnu/c++/*")):
        headers += ["-stdlib++-isystem", str(folder)]
    links = [f"-L{folder.parent}" for folder in sorted(host.glob("usr/lib/gcc/*/*/libstdc++.so"))]
    openmp: list[str] = []
    if (host / "lib/libomp.so").exists():
        options = [f"-L{host / 'lib'}", f"-Wl,-rpath,{host / 'lib'}"]
        openmp = ["--start-no-unused-arguments", *options, "--end-no-unused-arguments"]
    return HostExtras(tuple(headers), tuple(links), tuple(openmp))


def cache_folder(env: Mapping[str, str] | None = None) -> Path:
    """The user's cache folder for ckwatch, `$XDG_CACHE_HOME/ckwatch` by default."""
    if env is not None:
        base = env.get("XDG_CACHE_HOME", "")
        if base and Path(base).is_absolute():
            return Path(base) / "ckwatch"
        if env.get("HOME"):
            return Path(env["HOME"]) / ".cache" / "ckwatch"
    return user_cache_path("ckwatch", appauthor=False)


def toolchains_folder(env: Mapping[str, str] | None = None) -> Path:
    """The folder of all installed toolchains; it may not exist."""
    return cache_folder(env) / "toolchains"


def read_manifest(tree: Path) -> ToolchainManifest | None:
    """The manifest of a complete tree, wherever it was copied or moved (`relocate.settle` makes it run there); else
    None. Where links lead to it, its root is the name that it was installed under."""
    try:
        manifest = ToolchainManifest.from_json(read_file(tree / MANIFEST).decode())
    except (OSError, ValueError):
        return None
    is_there = os.path.realpath(manifest.root) == os.path.realpath(tree)
    return manifest if is_there else replace(manifest, root=tree.absolute())


def installed(folder: Path) -> tuple[ToolchainManifest, ...]:
    """The complete toolchains in `folder`, the one in use first, then the newest first."""
    try:
        trees = [entry for entry in folder.iterdir() if not entry.name.startswith(".") and entry.name != _CURRENT]
    except OSError:
        return ()
    current = _current_name(folder)
    found = [(tree.name == current, _age(tree), manifest) for tree in trees if (manifest := read_manifest(tree))]
    return tuple(manifest for *_, manifest in sorted(found, key=lambda entry: entry[:2], reverse=True))


def current(folder: Path) -> ToolchainManifest | None:
    """The toolchain in use: the one that `current` names, else the newest complete one."""
    name = _current_name(folder)
    return (read_manifest(folder / name) if name else None) or next(iter(installed(folder)), None)


def set_current(folder: Path, name: str) -> None:
    """Make `name` the toolchain in use, atomically."""
    temporary = folder / f".current.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(name)
    temporary.replace(folder / _CURRENT)


def remove_tree(tree: Path, manifest: str = MANIFEST) -> None:
    """Delete a tree, and a link that leads to it; its manifest goes first, so that a half-deleted tree is never
    trusted."""
    with suppress(FileNotFoundError):
        (tree / manifest).unlink()
    shutil.rmtree(tree.resolve(), ignore_errors=True)
    if tree.is_symlink():
        tree.unlink()


def _current_name(folder: Path) -> str | None:
    try:
        return (folder / _CURRENT).readlink().name
    except OSError:
        return None


def _age(tree: Path) -> float:
    try:
        return (tree / MANIFEST).stat().st_mtime
    except OSError:
        return 0.0
