"""Finds toolchains by the names that configurations and commands have for them (`model.toolchain_names`).

A name means what ckwatch has installed, else a ROCm below `/opt`; the newest where several fit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ckwatch.compile.toolchain import composable_kernel, installations
from ckwatch.compile.toolchain.composable_kernel import ComposableKernelSources
from ckwatch.compile.toolchain.installations import ToolchainManifest
from ckwatch.compile.toolchain.layouts import rocm_version
from ckwatch.compile.toolchain.model import FixedToolchainChoice, HeaderLibrary, ToolchainChoice
from ckwatch.model.errors import ToolchainError
from ckwatch.model.toolchain_names import fits_version, is_toolchain_name, toolchain_parts
from ckwatch.system.user_files import is_folder


def chosen_by_name(
    name: str, choice: ToolchainChoice, env: Mapping[str, str], *, folder: Path | None = None
) -> FixedToolchainChoice:
    """Return the choice with the ROCm and the Composable Kernel that a name joins; the rest of `choice` stays.

    Relative paths begin in `folder`, the working directory by default. Raises `ToolchainError` for what is neither a
    name nor a folder; names of what is not installed are left to `discover`.
    """
    rocm, ck, ck_tile = choice.rocm, choice.ck, choice.ck_tile
    for part in toolchain_parts(name):
        path = Path(part)
        if not is_toolchain_name(part):
            path = Path(os.path.normpath((folder or Path.cwd()) / path.expanduser()))
            if not is_folder(str(path)):
                known = ", ".join(installed_names(env)) or "none"
                raise ToolchainError(
                    f"no toolchain is called {path.name!r}, and there is no folder {path}",
                    f"Installed: {known}. Others: `ckwatch toolchain install --rocm 7.2`, or the path of a ROCm tree.",
                )
        if part.startswith("ck-") or (path.is_absolute() and holds_ck(path) and not (path / "bin").is_dir()):
            ck, ck_tile = path, None
        else:
            rocm = path
    return FixedToolchainChoice(rocm, ck, ck_tile, choice.clangd)


def installed_names(env: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the toolchains and Composable Kernels that ckwatch has installed, the one in use first."""
    trees = installations.installed(installations.toolchains_folder(env))
    sources = composable_kernel.installed_sources(installations.cache_folder(env))
    return (*dict.fromkeys(short_name(tree) for tree in trees), *(one.release.name for one in sources))


def short_name(manifest: ToolchainManifest) -> str:
    """`rocm-7.2.4` of `rocm-7.2.4-d8e62b55`."""
    return re.sub(r"-[0-9a-f]{8}$", "", manifest.name)


def find_rocm(name: str, env: Mapping[str, str], opt: Path) -> Path:
    """Return the folder of the ROCm that a name means. Raises `ToolchainError` where there is none."""
    folder = installations.toolchains_folder(env)
    trees = installations.installed(folder)
    wanted, _, clang = name.removeprefix("rocm-").partition("-clang-")
    found = next((tree for tree in trees if tree.name == name), None) or installed_rocm(folder, wanted, clang)
    if found is not None:
        return found.root / "usr"
    places = (*opt.glob("rocm*"), *opt.glob("rocm/core*"))
    below = [(root, version) for root in places if (version := rocm_version(root)) is not None]
    for root, version in sorted(below, key=lambda one: (version_rank(one[1]), one[0].name), reverse=True):
        if not clang and root.is_dir() and fits_version(wanted, version):
            return root
    there = {short_name(tree) for tree in trees} | {f"rocm-{version}" for _, version in below}
    with_clang = f" --clang {clang}" if clang else ""
    raise ToolchainError(
        f"{name} is not installed; there is {', '.join(sorted(there, key=version_rank)) or 'no other'}",
        f"Run `ckwatch toolchain install --rocm {wanted}{with_clang}`, or name the folder of a ROCm tree.",
    )


def installed_rocm(folder: Path, version: str | None, clang: str) -> ToolchainManifest | None:
    """Return the newest tree in `folder` that fits a version of ROCm and another clang's; `clang` is empty for
    hipcc's own."""
    trees = sorted(installations.installed(folder), key=lambda tree: version_rank(tree.rocm_version), reverse=True)
    for tree in trees:
        is_wanted = version is None or fits_version(version, tree.rocm_version)
        if is_wanted and short_name(tree).partition("-clang-")[2] == clang:
            return tree
    return None


def find_ck(name: str, env: Mapping[str, str]) -> ComposableKernelSources:
    """Return the Composable Kernel that a name means. Raises `ToolchainError` where there is none."""
    sources = composable_kernel.installed_sources(installations.cache_folder(env))
    wanted = name.removeprefix("ck-")
    for one in sources:
        if fits_version(wanted, one.release.ck_version):
            return one
    raise ToolchainError(
        f"{name} is not installed; there is {', '.join(one.release.name for one in sources) or 'no other'}",
        f"Run `ckwatch toolchain install --ck {wanted}`, or name a folder that holds ck/ck.hpp.",
    )


def find_ck4inductor(choice: ToolchainChoice | None, env: Mapping[str, str]) -> HeaderLibrary | None:
    """Return the folder from which Python imports ck4inductor: that of the Composable Kernel that the workspace names,
    a checkout or the wheel, where it has one; else of what ckwatch has installed, else of an activated environment.
    Raises `ToolchainError` for a name of what is not there."""
    sources = next(iter(composable_kernel.installed_sources(installations.cache_folder(env))), None)
    ck = None if choice is None else choice.ck
    if ck is not None and not ck.is_absolute():
        sources = find_ck(str(ck), env)
    elif ck is not None:
        near = (place for folder in (ck, *ck.parents[:2]) for place in (folder / "python", folder.parent))
        if (named := _with_ck4inductor(near)) is not None:
            return HeaderLibrary(named, None, "ckwatch.toml")
    if sources is not None:
        return HeaderLibrary(sources.python, sources.release.ck_version, sources.release.origin)
    prefixes = [Path(env[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]
    wheel = _with_ck4inductor(
        found for prefix in prefixes for found in sorted(prefix.glob("lib/python3*/site-packages"))
    )
    return None if wheel is None else HeaderLibrary(wheel, None, "the wheel")


def _with_ck4inductor(folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / "ck4inductor").is_dir()), None)


def holds_ck(folder: Path) -> bool:
    """Return True if Composable Kernel's headers lie in a folder, or in the `include` in it."""
    return any((folder / place).is_file() for place in ("ck/ck.hpp", "include/ck/ck.hpp", "ck.hpp"))


def version_rank(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to sort by."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
