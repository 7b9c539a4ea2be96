"""Take only the files that a compile needs out of .deb and .tar.gz files.

The Composable Kernel package holds 20 MB of headers and 2 GB of static libraries; the libraries come last in the
archive, so reading stops before them.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ckwatch.model.errors import ToolchainError
from ckwatch.system.processes import ProcessStartError, start

if TYPE_CHECKING:  # a daemon loads this module, and unpacks nothing
    import tarfile

_LLVM_PROGRAMS = (
    r"clang(\+\+|-\d+|-offload-(bundler|packager)|-linker-wrapper)?|(ld\.)?lld|offload-arch|amdgpu-arch|"
    r"llvm-(ar|as|cxxfilt|dis|link|mc|mca|nm|objcopy|objdump|offload-binary|ranlib|readelf|readobj|size|strip|symbolizer)"
)

# What is kept, by the path inside the package. Everything else is left out.
KEPT = tuple(
    re.compile(pattern)
    for pattern in (
        r"usr/bin/(hip(cc|config)(\.bin|\.pl)?|hipvars\.pm)",
        rf"usr/lib/llvm-\d+/bin/({_LLVM_PROGRAMS})",
        r"usr/lib/llvm-\d+/lib/lib(LLVM|clang-cpp|LTO)[^/]*\.so[^/]*",
        r"usr/lib/llvm-\d+/lib/clang/[\d.]+/(include|amdgcn)/.+",
        r"usr/lib/llvm-\d+/lib/clang/[\d.]+/lib/.*clang_rt\.builtins[^/]*\.a",
        r"usr/lib/[^/]+-linux-gnu/amdgcn/bitcode/.+",
        r"usr/lib/clang/.+",
        r"(usr/)?lib(64)?/([^/]+-linux-gnu/)?[^/]+\.so(\.[^/]+)?",
        r"usr/include/(hip|hsa|amd_comgr|ck)/.+",
        r"usr/share/hip/version",
        r"usr/share/doc/[^/]+/copyright",
    )
)

# Nothing that is kept comes after this in the packages that reach it (members are sorted).
_STOP = re.compile(r"usr/lib/[^/]+/lib(device|utility)\w*\.a")


# Composable Kernel gets a folder of its own: on the include path of another ROCm, HIP's headers must not come with it.
# In releases before Debian 13 packages have files outside of /usr.
_MOVED = (("usr/include/ck/", "ck/include/ck/"), ("lib/", "usr/lib/"), ("lib64/", "usr/lib64/"))


def place_of(path: str) -> str:
    """Return the path in the tree of a file of a Debian package."""
    for old, new in _MOVED:
        if path.startswith(old):
            return new + path.removeprefix(old)
    return path


def is_kept(path: str) -> bool:
    """Return True if a file of a Debian package, named by its path without leading `./`, belongs in the toolchain."""
    return any(pattern.fullmatch(path) for pattern in KEPT)


def unpack_deb(
    deb: Path,
    target: Path,
    *,
    keep: Callable[[str], object] = is_kept,
    checkpoint: Callable[[], None] = lambda: None,
) -> int:
    """Unpack the files of `deb` that `keep` accepts under `target` and return their bytes.

    `checkpoint` is called for each file and may raise to stop it.

    Raises `ToolchainError` when the package is damaged, `OSError` when the disk is full.
    """
    import tarfile

    try:
        process = start(["dpkg-deb", "--fsys-tarfile", deb], environment=os.environ)
    except ProcessStartError as error:
        raise ToolchainError(error.message) from error
    assert process.stdout is not None  # noqa: S101  # both are pipes
    assert process.stderr is not None  # noqa: S101
    stopped_early = finished = False
    size = 0
    try:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                checkpoint()
                path = member.name.removeprefix("./")
                if _STOP.fullmatch(path):
                    stopped_early = True
                    break
                if keep(path):
                    size += extract(archive, member, place_of(path), target)
        finished = not stopped_early
    except tarfile.TarError as error:
        raise ToolchainError(f"{deb.name} is damaged: {error}", "Run `ckwatch toolchain install` again.") from error
    finally:
        if not finished:
            process.signal_group(signal.SIGKILL)
        process.stdout.close()
        errors = process.stderr.read()
        status = process.wait().status
        process.close()
    if status and not stopped_early:
        raise ToolchainError(
            f"dpkg-deb cannot read {deb.name}: {errors.decode(errors='replace').strip()}",
            "Run `ckwatch toolchain install` again.",
        )
    return size


def unpack_sources(
    archive_path: Path,
    place: Callable[[str], str | None],
    target: Path,
    *,
    checkpoint: Callable[[], None] = lambda: None,
) -> int:
    """Unpack a source distribution and return the bytes: `place` tells where under `target` a file goes, by its path
    inside the distribution's folder, and None for one that is left out."""
    import tarfile

    size = 0
    try:
        with tarfile.open(archive_path, mode="r:*") as archive:
            for member in archive:
                checkpoint()
                path = place(member.name.partition("/")[2]) if member.isfile() else None
                if path is not None:
                    size += extract(archive, member, path, target)
    except (tarfile.TarError, EOFError) as error:
        raise ToolchainError(f"{archive_path.name} is damaged: {error}", "Run it again.") from error
    return size


def extract(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str, target: Path) -> int:
    """Write one file or link under `target`; anything that would land outside is refused."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise ToolchainError(f"{member.name} would be unpacked outside of {target}")
    place = target / pure
    if member.issym() or member.islnk():
        link = member.linkname if member.issym() else f"/{member.linkname.removeprefix('./')}"
        if link.startswith("/"):  # packages link to absolute paths of a system that this is not
            link = "../" * (len(pure.parts) - 1) + link.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(link)
    elif member.isfile():
        source = archive.extractfile(member)
        if source is None:
            return 0
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            while chunk := source.read(1 << 20):
                file.write(chunk)
        place.chmod(0o755 if member.mode & 0o100 else 0o644)
        return member.size
    return 0
