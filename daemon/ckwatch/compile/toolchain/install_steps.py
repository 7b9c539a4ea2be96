"""The steps that the installs have in common: the lock, fetching and unpacking Debian packages, room on the disk."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.from_thread

from ckwatch.compile.toolchain import debian
from ckwatch.compile.toolchain.debian import (
    AptPackage,
    AptSources,
    PackageStanza,
    PrivateApt,
    find_keyring,
    require_tools,
    select,
)
from ckwatch.compile.toolchain.host_distribution import add_host_parts
from ckwatch.compile.toolchain.installations import remove_tree
from ckwatch.compile.toolchain.probe import run_tool
from ckwatch.compile.toolchain.relocate import find_patchelf, relocate
from ckwatch.compile.toolchain.unpack import is_kept, unpack_deb
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.file_locks import try_lock

_MORE_SPACE = "Free some space, or set XDG_CACHE_HOME to a larger disk."


@dataclass(frozen=True, slots=True)
class InstallStep:
    """How far an install is: `done` of `total` (bytes or packages; 0 when unknown) of what `title` names."""

    title: str
    done: int = 0
    total: int = 0
    unit: str = ""


OnProgress = Callable[[InstallStep], None]


@dataclass(frozen=True, slots=True)
class InstallTools:
    """The parts of an install that need Debian's archive, its keyring, or programs that are real."""

    open_apt: Callable[[Path, AptSources], PrivateApt] = PrivateApt
    find_keyring: Callable[[], Path] = find_keyring
    select: Callable[[Iterable[PackageStanza]], Sequence[tuple[str, str]]] = select
    relocate: Callable[[Path, Path], int] = relocate
    add_host_parts: Callable[[Path, Path, Path], Awaitable[tuple[str, ...]]] = add_host_parts


USUAL_TOOLS = InstallTools()


async def archive(mirror: str | None, tools: InstallTools) -> AptSources:
    """The Debian archive to fetch from: `mirror`, else the one that this machine's apt is configured with.

    Raises `ToolchainError` where nothing can be fetched: no apt, no keyring, no patchelf, no Debian mirror.
    """
    require_tools()
    find_patchelf()
    keyring = tools.find_keyring()
    if mirror is None:
        mirror = debian.debian_mirror(await debian.configured_repositories(), debian.read_os_release(), os.environ)
    return AptSources(debian.check_mirror(mirror), keyring)


@dataclass(frozen=True, slots=True)
class SuiteSearch:
    """The first suite that has what was looked for, with its index read in `apt`; None where none has it.

    `versions` says of each suite that was looked at which version it has, or why it has none.
    """

    apt: PrivateApt | None
    suite: str
    versions: Mapping[str, str]
    hint: str | None

    @property
    def listed(self) -> str:
        """A line for each suite."""
        return "\n".join(f"  {suite}: {version}" for suite, version in self.versions.items())


async def find_suite(
    package: str,
    choices: Sequence[tuple[str, ...]],
    sources: AptSources,
    downloads: Path,
    progress: OnProgress,
    tools: InstallTools,
    fits: Callable[[str], bool] = lambda _: True,
) -> SuiteSearch:
    """Look in one suite after the other for a package whose version fits; a suite comes with those that it builds on.

    Raises `ToolchainError` when the first cannot be read: the network or the whole mirror. It may lack others.
    """
    versions: dict[str, str] = {}
    hint = None
    for suites in choices:
        suite = suites[0]
        progress(InstallStep(f"Reading the package index of Debian {suite}"))
        apt = tools.open_apt(downloads / "apt", replace(sources, suites=suites))
        try:
            await apt.update()
        except ToolchainError as error:
            if not versions:
                raise
            versions[suite] = error.message.splitlines()[0]
            hint = "Choose a full Debian mirror with CKWATCH_DEBIAN_MIRROR."
            continue
        version = await apt.version(package, suite)
        versions[suite] = debian.upstream(version) if version else "not there"
        if version and fits(debian.upstream(version)):
            return SuiteSearch(apt, suite, versions, hint)
    return SuiteSearch(None, "", versions, hint)


@asynccontextmanager
async def writing(folder: Path, progress: OnProgress) -> AsyncIterator[None]:
    """The right to write in `folder`, which is made; faults of the disk become `ToolchainError`."""
    try:
        await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
        async with _lock(folder / ".lock", progress):
            yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ToolchainError("the disk is full", _MORE_SPACE) from error
        where = f" ({error.filename})" if error.filename else ""
        raise ToolchainError(f"cannot write to {folder}: {error.strerror}{where}", "Set XDG_CACHE_HOME.") from error


async def download(apt: PrivateApt, packages: Sequence[AptPackage], progress: OnProgress) -> None:
    """Fetch packages into the archives of `apt`, each with the hash of the signed index, or raise `ToolchainError`."""
    total = sum(package.size_bytes for package in packages)
    title = f"Downloading {len(packages)} packages"
    progress(InstallStep(title, 0, total, "bytes"))
    for attempt in (1, 2):
        await apt.download(packages, on_bytes=lambda done: progress(InstallStep(title, done, total, "bytes")))
        progress(InstallStep("Checking hashes"))
        wrong = await anyio.to_thread.run_sync(_wrong, apt, packages)
        if not wrong:
            return
        for package in wrong:  # apt itself compares only the size of a file that was there before
            (apt.archives / package.file_name).unlink(missing_ok=True)
        if attempt == 2:
            names = ", ".join(package.name for package in wrong)
            raise ToolchainError(
                f"the mirror delivered files that do not match their hashes: {names}",
                "Run it again later, or choose another mirror with --mirror URL.",
            )


def _wrong(apt: PrivateApt, packages: Sequence[AptPackage]) -> list[AptPackage]:
    wrong = []
    for package in packages:
        anyio.from_thread.check_cancelled()
        if not apt.is_intact(package):
            wrong.append(package)
    return wrong


async def unpack(
    work: Path, debs: Sequence[Path], progress: OnProgress, keep: Callable[[str], object] = is_kept
) -> None:
    """Unpack the files of packages that `keep` accepts, by their path inside of the package, under `work`."""

    def run() -> None:
        for index, deb in enumerate(debs):
            progress(InstallStep("Unpacking", index, len(debs), "packages"))
            unpack_deb(deb, work, keep=keep, checkpoint=anyio.from_thread.check_cancelled)
        progress(InstallStep("Unpacking", len(debs), len(debs), "packages"))

    await anyio.to_thread.run_sync(run)


def move_in(work: Path, final: Path, manifest: str) -> None:
    """Give a tree its name, in the place of one that has it; it is not trusted before it has its `manifest`."""
    work.chmod(0o755)
    if final.exists():
        remove_tree(final, manifest)
    work.rename(final)


async def try_program(program: Path, what: str, hint: str) -> None:
    """Raise `ToolchainError` where a new program does not run on this machine."""
    done = await run_tool([program, "--version"], environment=os.environ, timeout_s=60)
    if done.exit_status:
        printed = (done.stderr or done.stdout).strip()
        raise ToolchainError(f"the new {what} does not run on this machine: {printed}", hint)


def tree_name(prefix: str, layout: int, packages: Sequence[AptPackage]) -> str:
    """The same packages give the same name, so that a finished tree is recognised and paths stay stable."""
    content = json.dumps([layout, *sorted(package.sha256 for package in packages)])
    return f"{prefix}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def sweep(folder: Path, trees: str, manifest: str) -> None:
    """Throw away what earlier runs left half unpacked; the lock is held, so no other process works there."""
    unfinished = [tree for tree in folder.glob(trees) if not (tree / manifest).exists()]
    for left in (*folder.glob(".work-*"), *unfinished):
        shutil.rmtree(left, ignore_errors=True)


def check_space(folder: Path, packages: Sequence[AptPackage], archives: Path, tree_bytes: int) -> None:
    """Raise `ToolchainError` where the disk of `folder` cannot hold a tree and those of its packages that are not in
    `archives` yet."""
    missing = sum(package.size_bytes for package in packages if not (archives / package.file_name).exists())
    require_space(folder, tree_bytes + missing)


def require_space(folder: Path, wanted_bytes: int) -> None:
    """Raise `ToolchainError` where the disk of `folder` has less room than that."""
    free = shutil.disk_usage(folder).free
    if free < wanted_bytes:
        raise ToolchainError(
            f"{wanted_bytes / 1e9:.1f} GB are needed in {folder}, {free / 1e9:.1f} GB are free", _MORE_SPACE
        )


@asynccontextmanager
async def _lock(path: Path, progress: OnProgress) -> AsyncIterator[None]:
    while (descriptor := try_lock(path)) is None:
        progress(InstallStep("Waiting for another installation"))
        await anyio.sleep(0.5)
    try:
        yield
    finally:
        os.close(descriptor)
