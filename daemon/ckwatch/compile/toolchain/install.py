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
from ckwatch.compile.toolchain.debian import AptSources, PrivateApt
from ckwatch.compile.toolchain.install_steps import (
    USUAL_TOOLS,
    InstallStep,
    InstallTools,
    OnProgress,
    archive,
    check_space,
    download,
    find_suite,
    move_in,
    require_space,
    sweep,
    tree_name,
    try_program,
    unpack,
    writing,
)
from ckwatch.compile.toolchain.named import installed_rocm
from ckwatch.compile.toolchain.package_index import fetch, pip_index
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.toolchain_names import fits_version, is_version
from ckwatch.system.durable_files import replace_file

# Measured: the tree of ROCm 7.2.4 with clang 22 takes 0.5 GB.
TREE_BYTES = 800_000_000


_SUITES = (("experimental", "sid"), ("sid",), ("testing",), ("stable",), ("oldstable",))
"""The suites to look for a ROCm in, each with those that its packages need."""


async def install(
    rocm: str | None = None,
    *,
    clang: int | None = None,
    mirror: str | None = None,
    force: bool = False,
    progress: OnProgress = lambda _: None,
    tools: InstallTools = USUAL_TOOLS,
    tree_bytes: int = TREE_BYTES,
) -> installations.ToolchainManifest:
    """Install a toolchain; with one there already and no `force`, return that.

    Without `rocm` it is the newest of Debian, and the one in use from then on. With `rocm`, a version or the first
    numbers of one, it stands beside the one in use. `clang`: the major version of another clang than the one that
    Debian's hipcc uses; with it, the newest ROCm stands beside, too.

    Raises `ToolchainError` for everything that a user can fix: no apt, no mirror, no network, a wrong signature or
    hash, packages that do not fit together, a full disk.
    """
    folder = installations.toolchains_folder(os.environ)
    if mirror is not None:
        debian.check_mirror(mirror)
    if rocm is not None and not is_version(rocm):
        raise ToolchainError(f"`{rocm}` is not a version of ROCm", "Write it with numbers, as in --rocm 6.4.")
    wanted = _Wanted(rocm, clang)
    present = wanted.present(folder)
    if present is not None and not force:
        return present
    sources = await archive(mirror, tools)
    async with writing(folder, progress):
        present = wanted.present(folder)  # the one that held the lock may have built it
        if present is not None and not force:
            return present
        return await _build(folder, wanted, sources, progress, tools, tree_bytes)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The ROCm and the clang that were asked for, where they were."""

    rocm: str | None
    clang: int | None

    @property
    def is_usual(self) -> bool:
        return self.rocm is None and self.clang is None

    def present(self, folder: Path) -> installations.ToolchainManifest | None:
        if self.is_usual:
            return installations.current(folder)
        return installed_rocm(folder, self.rocm, str(self.clang or ""))


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
    folder: Path,
    wanted: _Wanted,
    sources: AptSources,
    progress: OnProgress,
    tools: InstallTools,
    tree_bytes: int,
) -> installations.ToolchainManifest:
    downloads = folder / ".downloads"
    apt, suite = await _rocm_suite(wanted, sources, downloads, progress, tools)
    progress(InstallStep("Choosing packages"))
    roots = [*debian.ROOTS, *([debian.CK_PACKAGE] if await apt.version(debian.CK_PACKAGE, suite) else [])]
    other_clang = () if wanted.clang is None else debian.clang_packages(wanted.clang)
    closure = await apt.resolve([*roots, *other_clang], suite)
    major = debian.llvm_major(name for name, _ in closure)
    if wanted.clang not in (None, major):
        raise ToolchainError(
            f"hipcc of Debian {suite} uses clang {major}, which is newer than {wanted.clang}",
            "Choose a newer clang, or an older ROCm with --rocm.",
        )
    packages = await apt.locate([*tools.select(await apt.describe(closure)), (debian.openmp_headers(major), None)])
    versions = {package.name: debian.upstream(package.version) for package in packages}
    rocm = versions["libamdhip64-dev"]
    prefix = f"rocm-{rocm}" if wanted.clang is None else f"rocm-{rocm}-clang-{wanted.clang}"
    name = tree_name(prefix, installations.LAYOUT, packages)
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
    manifest = installations.ToolchainManifest(
        layout=installations.LAYOUT,
        name=name,
        root=final,
        llvm_major=major,
        rocm_version=rocm,
        ck_version=versions.get(debian.CK_PACKAGE, ""),
        missing=missing,
        packages=tuple(
            installations.InstalledPackage(package.name, package.version, package.sha256) for package in packages
        ),
    )
    replace_file(final / installations.MANIFEST, manifest.to_json().encode())
    if wanted.is_usual or installations.current(folder) == manifest:
        installations.set_current(folder, name)
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(downloads, ignore_errors=True))
    return manifest


def _llvm_major(root: Path) -> int:
    majors = [int(path.parent.parent.name.removeprefix("llvm-")) for path in root.glob("usr/lib/llvm-*/bin/clang")]
    if not majors:
        raise ToolchainError("the packages contain no clang", "Please report this to ckwatch.")
    return max(majors)


async def _rocm_suite(
    wanted: _Wanted, sources: AptSources, downloads: Path, progress: OnProgress, tools: InstallTools
) -> tuple[PrivateApt, str]:
    """The suite with the ROCm that is wanted. Raises `ToolchainError` when none has it, or none has the clang."""

    def fits(version: str) -> bool:
        return wanted.rocm is None or fits_version(wanted.rocm, version)

    suites = _SUITES if wanted.clang is None else [(*dict.fromkeys((*suites, "sid")),) for suites in _SUITES]
    found = await find_suite("libamdhip64-dev", suites, sources, downloads, progress, tools, fits)
    if found.apt is None:
        title = "ROCm" if wanted.rocm is None else f"ROCm {wanted.rocm}"
        hint = "Choose one of these versions, or unpack AMD's packages of another and name that folder: `rocm` in "
        raise ToolchainError(
            f"Debian has no {title}\n{found.listed}", found.hint or f"{hint}[toolchain] of ckwatch.toml."
        )
    if wanted.clang is not None and await found.apt.version(f"clang-{wanted.clang}") is None:
        raise ToolchainError(
            f"neither Debian {found.suite} nor sid has clang {wanted.clang}",
            "Choose another version, or leave --clang out: hipcc has one of its own.",
        )
    return found.apt, found.suite


def _complete_layout(root: Path, major: int) -> None:
    """Add the links by which clang and hipcc find, under one ROCm folder, what Debian spreads over the system."""
    programs = root / f"usr/lib/llvm-{major}/bin"
    links = {
        root / "usr/lib/llvm": f"llvm-{major}",
        root / "usr/llvm": f"lib/llvm-{major}",
        programs / f"clang-{major}": "clang",  # as Debian's Perl hipcc calls it
        programs / f"clang++-{major}": "clang++",
    }
    if (root / "ck").exists():
        links[root / "usr/include/ck"] = "../../ck/include/ck"
    for bitcode in (*root.glob("usr/lib/*-linux-gnu/amdgcn"), *root.glob("usr/lib/llvm-*/lib/clang/*/amdgcn")):
        links[root / "usr/amdgcn"] = str(bitcode.relative_to(root / "usr"))
    own = programs.parent / f"lib/clang/{major}/include/__clang_hip_libdevice_declares.h"
    for declared in root.glob(f"usr/lib/llvm-*/lib/clang/*/include/{own.name}"):  # as the device libraries have it
        if declared != own and own.exists():
            own.unlink()
            links[own] = os.path.relpath(declared, own.parent)
    libraries = sorted(root.glob("usr/lib/*-linux-gnu/libamdhip64.so"))
    if libraries:  # its own folder holds the C library too, and must not become a search path of the host's linker
        links[root / "usr/lib/libamdhip64.so"] = f"{libraries[0].parent.name}/libamdhip64.so"
    for place, target in links.items():
        if not place.is_symlink() and not place.exists():
            place.symlink_to(target)
