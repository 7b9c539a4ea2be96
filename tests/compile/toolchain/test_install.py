"""An install from end to end on small packages, with apt and the index replaced; interrupted, repeated, refused."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.compile.toolchain import installations
from ckwatch.compile.toolchain.composable_kernel import RELEASES, CkRelease, find_sources, installed_sources
from ckwatch.compile.toolchain.debian import AptPackage, AptSources, PackageStanza
from ckwatch.compile.toolchain.install import install, install_composable_kernel
from ckwatch.compile.toolchain.install_steps import InstallStep, InstallTools
from ckwatch.model.errors import ToolchainError
from compile.toolchain.test_composable_kernel import FILES as CK_FILES
from compile.toolchain.test_composable_kernel import make_archive
from compile.toolchain.test_unpack import make_deb

pytestmark = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg on this system")

FILES: dict[str, dict[str, str | None]] = {
    "hipcc": {"usr/bin/hipcc": "#!/bin/sh\n"},
    "clang-22": {"usr/lib/llvm-22/bin/clang": "#!/bin/sh\n"},
    "libcomposable-kernel-dev": {"usr/include/ck/ck.hpp": "ck"},
    "libomp-22-dev": {"usr/lib/llvm-22/lib/clang/22/include/omp.h": ""},
    "libamdhip64-dev": {"usr/lib/x86_64-linux-gnu/libamdhip64.so": "not elf", "usr/include/hip/hip_runtime.h": ""},
}

OLD_FILES: dict[str, dict[str, str | None]] = {
    "hipcc": {"usr/bin/hipcc": "#!/usr/bin/perl\n", "usr/bin/hipvars.pm": "perl"},
    "clang-22": {"usr/lib/llvm-17/bin/clang": "#!/bin/sh\n", "usr/lib/llvm-17/bin/clang++": "#!/bin/sh\n"},
    "libomp-22-dev": {"usr/lib/llvm-17/lib/clang/17/include/omp.h": ""},
    "rocm-device-libs": {"usr/lib/x86_64-linux-gnu/amdgcn/bitcode/ocml.bc": "ocml"},
    "libamdhip64-dev": FILES["libamdhip64-dev"],
}


class Archive:
    """Stands for apt: a folder of packages, and what a test makes go wrong. `suite` is the one that has them."""

    def __init__(self, folder: Path, packages: Mapping[str, dict[str, str | None]]) -> None:
        self.folder = folder
        self.packages: dict[str, tuple[AptPackage, bytes]] = {}
        for name, files in packages.items():
            self.add(name, files)
        self.sources: dict[str, Path] = {}
        self.suite = "sid"
        self.versions: dict[str, str] = {}
        self.unreadable: set[str] = set()
        self.downloads: list[str] = []
        self.before_download: Callable[[AptPackage], Awaitable[None]] | None = None
        self.update_error: ToolchainError | None = None

    def add(self, name: str, files: dict[str, str | None], version: str = "7.2.4-1") -> None:
        """Make a package, in the place of one that has its name."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        data = make_deb(self.folder / name, files).read_bytes()
        file_name = f"{name}_{version}_all.deb"
        package = AptPackage(name, version, file_name, len(data), hashlib.sha256(data).hexdigest())
        self.packages[name] = (package, data)

    def tools(self, **replaced: Any) -> InstallTools:
        """The tools of an install from this archive."""

        def open_apt(folder: Path, sources: AptSources | None) -> Any:
            return FakeApt(self, folder, sources)

        return InstallTools(**{"open_apt": open_apt, "find_keyring": lambda: Path("/keyring"), **replaced})


class FakeApt:  # the signatures are those of PrivateApt
    def __init__(self, archive: Archive, folder: Path, sources: AptSources | None) -> None:
        self.archive, self.suites = archive, () if sources is None else sources.suites
        self.archives = folder / "archives"
        self.archives.mkdir(parents=True, exist_ok=True)

    async def update(self) -> None:
        if self.archive.update_error:
            raise self.archive.update_error
        if self.archive.unreadable.intersection(self.suites):
            raise ToolchainError("the mirror does not carry it")

    async def version(self, name: str, suite: str | None = None) -> str | None:  # noqa: ARG002
        if name not in self.archive.packages or self.archive.suite not in self.suites:
            return None
        return self.archive.versions.get(self.suites[0], "7.2.4-1")

    async def resolve(self, names: Sequence[str], suite: str | None = None) -> tuple[tuple[str, str], ...]:  # noqa: ARG002
        return tuple((name, package.version) for name, (package, _) in self.archive.packages.items())

    async def describe(self, packages: Any) -> tuple[PackageStanza, ...]:  # noqa: ARG002
        return ()

    async def locate(
        self,
        packages: Sequence[tuple[str, str | None]],
        suite: str | None = None,  # noqa: ARG002
    ) -> tuple[AptPackage, ...]:
        return tuple(self.archive.packages[name][0] for name, _ in packages)

    async def fetch_source(self, name: str, suite: str) -> Path:  # noqa: ARG002
        if name not in self.archive.sources:
            raise ToolchainError(f"cannot locate the source package {name}")
        return self.archive.sources[name]

    def is_intact(self, package: AptPackage) -> bool:
        path = self.archives / package.file_name
        return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == package.sha256

    async def download(self, packages: Sequence[AptPackage], *, on_bytes: Callable[[int], None]) -> None:
        for package in packages:
            path = self.archives / package.file_name
            if path.exists() and path.stat().st_size == package.size_bytes:
                continue
            if self.archive.before_download:
                await self.archive.before_download(package)
            self.archive.downloads.append(package.name)
            path.write_bytes(self.archive.packages[package.name][1])
            on_bytes(package.size_bytes)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cäche with space"))
    return Archive(tmp_path / "debs", FILES)


async def no_host_parts(*_: object) -> tuple[str, ...]:
    return ("libomp5: not here",)


def no_relocation(root: Path, final: Path) -> int:
    assert root != final
    return 0


def run_install(
    archive: Archive, relocate: Callable[[Path, Path], int] = no_relocation, tree_bytes: int = 0, **options: Any
) -> Any:
    tools = archive.tools(
        select=lambda _: [(name, "") for name in archive.packages if not name.startswith("libomp")],
        relocate=relocate,
        add_host_parts=no_host_parts,
    )
    return install(mirror="http://mirror/debian", tools=tools, tree_bytes=tree_bytes, **options)


def leftovers() -> list[str]:
    folder = installations.toolchains_folder(os.environ)
    return sorted(path.name for path in folder.iterdir() if path.name not in ("current", ".lock"))


async def test_a_whole_install(archive: Archive) -> None:
    steps: list[InstallStep] = []
    manifest = await run_install(archive, progress=steps.append)
    root = manifest.root
    assert installations.current(installations.toolchains_folder(os.environ)) == manifest
    assert leftovers() == [manifest.name]
    assert (root / "ck/include/ck/ck.hpp").read_text() == "ck"
    assert (root / "usr/include/ck/ck.hpp").read_text() == "ck"
    assert (root / "usr/lib/libamdhip64.so").read_text() == "not elf"
    assert (manifest.rocm_version, manifest.llvm_major, manifest.missing) == ("7.2.4", 22, ("libomp5: not here",))
    assert {package.name for package in manifest.packages} == {*FILES}
    titles = [step.title for step in steps]
    assert titles.index("Downloading 5 packages") < titles.index("Unpacking") < titles.index("Relocating")
    assert all(0 <= step.done <= step.total for step in steps if step.total)


async def test_another_rocm_stands_beside(archive: Archive) -> None:
    used = await run_install(archive)
    archive.suite, archive.versions = "stable", {"stable": "5.7.1-6"}
    old_clang = {name.replace("22", "17"): files for name, files in OLD_FILES.items()}
    del archive.packages["clang-22"], archive.packages["libcomposable-kernel-dev"]
    for name, files in old_clang.items():
        archive.add(name, files, "5.7.1-6")
    beside = await run_install(archive, rocm="5.7")
    assert (beside.rocm_version, beside.ck_version, beside.llvm_major) == ("5.7.1", "", 17)
    assert re.fullmatch(r"rocm-5\.7\.1-[0-9a-f]{8}", beside.name)
    for link, target in (
        ("usr/amdgcn/bitcode/ocml.bc", "ocml"),
        ("usr/lib/llvm/bin/clang++-17", "#!/bin/sh\n"),
        ("usr/bin/hipvars.pm", "perl"),
    ):
        assert (beside.root / link).read_text() == target
    assert not (beside.root / "usr/include/ck").is_symlink()
    folder = installations.toolchains_folder(os.environ)
    assert installations.current(folder) == used
    archive.update_error = ToolchainError("no network")
    assert await run_install(archive, rocm="5") == beside
    assert await run_install(archive) == used


async def test_a_version_that_no_suite_has(archive: Archive) -> None:
    archive.suite = "sid"
    archive.versions = {"experimental": "7.2.4-1~exp1", "sid": "6.4.3-5"}
    archive.unreadable = {"oldstable"}
    with pytest.raises(ToolchainError) as caught:
        await run_install(archive, rocm="6.1")
    assert caught.value.message == (
        "Debian has no ROCm 6.1\n  experimental: 7.2.4\n  sid: 6.4.3\n  testing: not there\n  stable: not there\n"
        "  oldstable: the mirror does not carry it"
    )
    assert "CKWATCH_DEBIAN_MIRROR" in (caught.value.hint or "")
    with pytest.raises(ToolchainError, match="neither Debian sid nor sid has clang 30"):
        await run_install(archive, rocm="6.4", clang=30)


async def test_a_second_install_does_nothing_unless_forced(archive: Archive) -> None:
    first = await run_install(archive)
    archive.update_error = ToolchainError("no network")
    assert await run_install(archive) == first
    with pytest.raises(ToolchainError, match="no network"):
        await run_install(archive, force=True)
    assert installations.current(installations.toolchains_folder(os.environ)) == first
    archive.update_error = None
    assert await run_install(archive, force=True) == first
    assert leftovers() == [first.name]


async def test_an_interrupted_download_goes_on_where_it_was(archive: Archive) -> None:
    async def interrupt(package: AptPackage) -> None:
        if package.name == "libcomposable-kernel-dev":
            scope.cancel()
            await anyio.sleep_forever()

    archive.before_download = interrupt
    with anyio.CancelScope() as scope:
        await run_install(archive)
    assert scope.cancelled_caught
    assert archive.downloads == ["hipcc", "clang-22"]
    assert installations.current(installations.toolchains_folder(os.environ)) is None

    archive.before_download = None
    await run_install(archive)
    assert archive.downloads[2:] == ["libcomposable-kernel-dev", "libamdhip64-dev", "libomp-22-dev"]


async def test_a_kill_while_unpacking_leaves_nothing_that_is_trusted(archive: Archive) -> None:
    def killed(root: Path, _final: Path) -> int:
        shutil.copytree(root, root.with_name(".work-killed"), symlinks=True)  # as if there had been no time to tidy up
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run_install(archive, killed)
    assert any(name.startswith(".work-") for name in leftovers())
    assert installations.current(installations.toolchains_folder(os.environ)) is None
    manifest = await run_install(archive)
    assert leftovers() == [manifest.name]
    assert len(archive.downloads) == len(FILES)


async def test_a_compiler_that_does_not_run_is_never_made_current(archive: Archive) -> None:
    archive.add("clang-22", {"usr/lib/llvm-22/bin/clang": "#!/bin/sh\necho 'no such CPU' >&2; exit 1\n"})
    with pytest.raises(ToolchainError, match="the new compiler does not run on this machine: no such CPU"):
        await run_install(archive)
    archive.add("clang-22", FILES["clang-22"])
    assert installations.current(installations.toolchains_folder(os.environ)) is None
    manifest = await run_install(archive)
    assert leftovers() == [manifest.name]


async def test_a_file_damaged_on_disk_is_fetched_again(archive: Archive) -> None:
    package, data = archive.packages["hipcc"]
    kept = installations.toolchains_folder(os.environ) / ".downloads/apt/archives"
    kept.mkdir(parents=True)
    (kept / package.file_name).write_bytes(b"x" * len(data))
    await run_install(archive)
    assert archive.downloads.count("hipcc") == 1


async def test_a_mirror_that_delivers_other_files_is_refused(archive: Archive) -> None:
    package, data = archive.packages["clang-22"]
    archive.packages["clang-22"] = (package, b"x" * len(data))
    with pytest.raises(ToolchainError, match="do not match their hashes: clang-22"):
        await run_install(archive)
    assert installations.current(installations.toolchains_folder(os.environ)) is None


async def test_too_little_space_is_said_before_anything_is_fetched(archive: Archive) -> None:
    with pytest.raises(ToolchainError, match=r"1000000000\.0 GB are needed"):
        await run_install(archive, tree_bytes=10**18)
    assert archive.downloads == []


@pytest.mark.parametrize(
    ("number", "message"), [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "cannot write to .*Permission denied")]
)
async def test_faults_of_the_disk(archive: Archive, number: int, message: str) -> None:
    def fail(*_: Path) -> int:
        raise OSError(number, os.strerror(number), "/some/file")

    with pytest.raises(ToolchainError, match=message) as caught:
        await run_install(archive, fail)
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


async def test_two_installs_do_the_work_once(archive: Archive) -> None:
    steps: list[InstallStep] = []
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: run_install(archive, progress=steps.append))
        group.start_soon(lambda: run_install(archive, progress=steps.append))
    assert sorted(archive.downloads) == sorted(FILES)
    assert any(step.title.startswith("Waiting for another") for step in steps)


async def test_a_wrong_mirror_is_said_at_once(archive: Archive) -> None:
    with pytest.raises(ToolchainError, match="not the URL"):
        await install(mirror="nonsense")


@pytest.mark.parametrize("version", ["abc", "", "7.", "rocm-6.4", "6.4-1", "٦"])
async def test_what_is_no_version_is_refused_before_indexes_are_read(archive: Archive, version: str) -> None:
    archive.update_error = ToolchainError("indexes were read")
    with pytest.raises(ToolchainError) as caught:
        await run_install(archive, rocm=version)
    assert caught.value.message == f"`{version}` is not a version of ROCm"
    assert caught.value.hint == "Write it with numbers, as in --rocm 6.4."


class FakeIndex:
    """A package index with a small source distribution. `targets`: the files that were fetched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.targets: list[Path] = []

    def fetch(self, wanted: CkRelease, target: Path, _settings: object, *, checkpoint: Callable[[int], None]) -> None:
        self.targets.append(target)
        files = {name.replace(RELEASES[0].inside, wanted.inside): text for name, text in CK_FILES.items()}
        content = make_archive(self.folder / "x.tar.gz", files).read_bytes()
        checkpoint(len(content))
        target.write_bytes(content)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cäche with space"))
    return FakeIndex(tmp_path)


async def test_composable_kernel_alone(index: FakeIndex) -> None:
    steps: list[InstallStep] = []
    made = await install_composable_kernel(progress=steps.append, fetch=index.fetch)
    cache = installations.cache_folder(os.environ)
    assert find_sources(cache) == made
    assert await install_composable_kernel(fetch=index.fetch) == made
    assert len(index.targets) == 1
    await install_composable_kernel(force=True, fetch=index.fetch)
    assert len(index.targets) == 2
    assert sorted(path.name for path in made.root.parent.iterdir()) == [".lock", made.root.name]
    assert [step.title for step in steps][-1] == "Unpacking Composable Kernel"
    other = await install_composable_kernel(RELEASES[1], fetch=index.fetch)
    assert installed_sources(cache) == (made, other)
    assert other.root.name == "1.1.0-877f7bff"
    assert not installations.toolchains_folder(os.environ).exists()


async def test_two_at_a_time_fetch_it_once(index: FakeIndex) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: install_composable_kernel(fetch=index.fetch))
        group.start_soon(lambda: install_composable_kernel(fetch=index.fetch))
    assert len(index.targets) == 1


async def test_a_full_disk_is_said(index: FakeIndex) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(ToolchainError, match="the disk is full"):
        await install_composable_kernel(fetch=fail)
