"""Installs a private, relocatable ROCm and Composable Kernel in the user's cache folder.

    indexes → resolve → choose → download → unpack → relocate → rename → try → manifest → current

Everything before the rename happens in a folder that nothing trusts, and the manifest is written last, so a run that
was killed anywhere is simply run again: what was downloaded is kept, what was half unpacked is thrown away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.from_thread

from ckwatch.compile.toolchain import composable_kernel, debian, installations
from ckwatch.compile.toolchain.composable_kernel import RELEASES, CkRelease, ComposableKernelSources
from ckwatch.compile.toolchain.debian import AptSources
from ckwatch.compile.toolchain.install_steps import (
    USUAL_TOOLS,
    InstallStep,
    InstallTools,
    OnProgress,
    archive,
    check_space,
    download,
    move_in,
    require_space,
    sweep,
    tree_name,
    try_program,
    unpack,
    writing,
)
from ckwatch.compile.toolchain.package_index import fetch, pip_index
from ckwatch.model.errors import ToolchainError
from ckwatch.system.durable_files import replace_file

# Measured: the tree of ROCm 7.2.4 with clang 22 takes 0.5 GB.
TREE_BYTES = 800_000_000


async def install(
    *,
    mirror: str | None = None,
    force: bool = False,
    progress: OnProgress = lambda _: None,
    tools: InstallTools = USUAL_TOOLS,
    tree_bytes: int = TREE_BYTES,
) -> installations.ToolchainManifest:
    """Install a toolchain and make it the one in use; with one there already and no `force`, return that.

    Raises `ToolchainError` for everything that a user can fix: no apt, no mirror, no network, a wrong signature or
    hash, packages that do not fit together, a full disk.
    """
    folder = installations.toolchains_folder(os.environ)
    if mirror is not None:
        debian.check_mirror(mirror)
    present = installations.current(folder)
    if present is not None and not force:
        return present
    sources = await archive(mirror, tools)
    async with writing(folder, progress):
        present = installations.current(folder)  # the one that held the lock may have built it
        if present is not None and not force:
            return present
        return await _build(folder, sources, progress, tools, tree_bytes)


async def install_composable_kernel(
    release: CkRelease = RELEASES[0],
    *,
    force: bool = False,
    progress: OnProgress = lambda _: None,
    fetch: Callable[..., None] = fetch,
) -> ComposableKernelSources:
    """Fetch CK's headers and ck4inductor into the cache folder, where every ROCm that lacks them finds them; when they
    are there already and no `force`, nothing is done.

    Raises `ToolchainError` for what a user can fix: no network, a wrong hash, a full disk.
    """
    cache = installations.cache_folder(os.environ)
    present = composable_kernel.find_sources(cache, release)
    if present is not None and not force:
        return present
    folder = composable_kernel.sources_folder(cache).parent
    async with writing(folder, progress):
        present = composable_kernel.find_sources(cache, release)
        if present is not None and not force:
            return present
        require_space(folder, release.size_bytes + composable_kernel.TREE_BYTES)
        title = f"Downloading Composable Kernel {release.ck_version}"
        progress(InstallStep(title, 0, release.size_bytes, "bytes"))
        fetched = folder / release.file_name

        def arrived(count: int) -> None:
            anyio.from_thread.check_cancelled()
            progress(InstallStep(title, count, release.size_bytes, "bytes"))

        def add() -> ComposableKernelSources:
            fetch(release, fetched, pip_index(), checkpoint=arrived)
            progress(InstallStep("Unpacking Composable Kernel"))
            made = composable_kernel.unpack(fetched, cache, release, checkpoint=anyio.from_thread.check_cancelled)
            fetched.unlink(missing_ok=True)
            return made

        return await anyio.to_thread.run_sync(add)


async def _build(
    folder: Path, sources: AptSources, progress: OnProgress, tools: InstallTools, tree_bytes: int
) -> installations.ToolchainManifest:
    downloads = folder / ".downloads"
    apt = tools.open_apt(downloads / "apt", sources)
    progress(InstallStep("Reading the package indexes"))
    await apt.update()
    progress(InstallStep("Choosing packages"))
    closure = await apt.resolve(debian.ROOTS)
    openmp = debian.openmp_headers(debian.llvm_major(name for name, _ in closure))
    packages = await apt.locate([*tools.select(await apt.describe(closure)), (openmp, None)])
    rocm = next(debian.upstream(package.version) for package in packages if package.name == "hipcc")
    name = tree_name(f"rocm-{rocm}", installations.LAYOUT, packages)
    check_space(folder, packages, apt.archives, tree_bytes)

    await download(apt, packages, progress)
    sweep(folder, "rocm-*", installations.MANIFEST)
    work = Path(tempfile.mkdtemp(prefix=".work-", dir=folder))
    final = folder / name
    try:
        await unpack(work, [apt.archives / package.file_name for package in packages], progress)
        major = _llvm_major(work)
        _complete_layout(work, major)
        progress(InstallStep("Relocating"))
        await anyio.to_thread.run_sync(tools.relocate, work, final)
        await anyio.to_thread.run_sync(move_in, work, final, installations.MANIFEST)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(InstallStep("Trying the compiler"))
    hint = "Please report this to ckwatch, with the output of `ckwatch doctor`."
    await try_program(final / f"usr/lib/llvm-{major}/bin/clang", "compiler", hint)
    progress(InstallStep("Completing it for this machine"))
    missing = await tools.add_host_parts(final, downloads, final / f"usr/lib/llvm-{major}/bin/clang++")
    for problem in missing:
        progress(InstallStep(f"Without {problem}"))
    versions = {package.name: debian.upstream(package.version) for package in packages}
    manifest = installations.ToolchainManifest(
        layout=installations.LAYOUT,
        name=name,
        root=final,
        llvm_major=major,
        rocm_version=versions["hipcc"],
        ck_version=versions["libcomposable-kernel-dev"],
        missing=missing,
        packages=tuple(
            installations.InstalledPackage(package.name, package.version, package.sha256) for package in packages
        ),
    )
    replace_file(final / installations.MANIFEST, manifest.to_json().encode())
    installations.set_current(folder, name)
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(downloads, ignore_errors=True))
    return manifest


def _llvm_major(root: Path) -> int:
    majors = [int(path.parent.parent.name.removeprefix("llvm-")) for path in root.glob("usr/lib/llvm-*/bin/clang")]
    if not majors:
        raise ToolchainError("the packages contain no clang", "Please report this to ckwatch.")
    return max(majors)


def _complete_layout(root: Path, major: int) -> None:
    """Add the links by which clang and hipcc find, under one ROCm folder, what Debian spreads over the system."""
    links = {
        root / "usr/amdgcn": f"lib/llvm-{major}/lib/clang/{major}/amdgcn",
        root / "usr/lib/llvm": f"llvm-{major}",
        root / "usr/llvm": f"lib/llvm-{major}",
        root / "usr/include/ck": "../../ck/include/ck",
    }
    libraries = sorted(root.glob("usr/lib/*-linux-gnu/libamdhip64.so"))
    if libraries:  # its own folder holds the C library too, and must not become a search path of the host's linker
        links[root / "usr/lib/libamdhip64.so"] = f"{libraries[0].parent.name}/libamdhip64.so"
    for place, target in links.items():
        if not place.is_symlink() and not place.exists():
            place.symlink_to(target)
