"""The needs of a compile that the host's own distribution meets: C++ headers, and an OpenMP runtime that runs on the
host.

Debian experimental's would be too new for it, so they are fetched as the host's own packages, by the sources that its
apt is configured with, and unpacked under `host/` of the private tree. Failing here is no failure of the install:
`ckwatch doctor` names what is missing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.from_thread

from ckwatch.compile.toolchain.debian import PrivateApt
from ckwatch.compile.toolchain.probe import run_tool
from ckwatch.compile.toolchain.unpack import unpack_deb
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass

# Entry points of newer clangs that an older runtime lacks; LLVM's own definition is empty as well.
_OPENMP_NEWER = "void __kmpc_dispatch_deinit(void *location, int thread) { (void)location; (void)thread; }\n"
_OPENMP_SCRIPT = "INPUT(-l:libomp.so.5 -l:libckwatch_kmpc.a)\n"

_OPENMP_FILE = re.compile(r"usr/lib/.*libomp[^/]*\.so[^/]*")


@dataclass(frozen=True, slots=True)
class HostCxx:
    """The host's C++ as clang finds it: the GCC whose files it uses, and whether headers and linking work."""

    gcc: str | None
    headers: bool
    links: bool

    @property
    def works(self) -> bool:
        """Return True if a C++ program can be compiled and linked."""
        return self.headers and self.links


async def examine_host_cxx(
    clangxx: Path, arguments: tuple[str, ...], link_arguments: tuple[str, ...], env: Mapping[str, str]
) -> HostCxx:
    """Compile and link a small C++ library for the host with this clang++."""
    verbose = await run_tool([clangxx, "-v"], environment=env, timeout_s=60)
    found = re.search(r"^Selected GCC installation: .*/(\S+)$", verbose.stderr, re.MULTILINE)
    async with anyio.TemporaryDirectory(prefix="ckwatch-") as folder:
        source = Path(folder, "host.cpp")
        await anyio.Path(source).write_text(
            "#include <vector>\n#include <cstdlib>\nstd::vector<int> made() { return {1}; }\n"
        )
        compiled = await run_tool(
            [clangxx, *arguments, "-fPIC", "-c", source, "-o", source.with_suffix(".o")], environment=env, timeout_s=120
        )
        linked = compiled
        if compiled.exit_status == 0:
            command: list[str | Path] = [
                clangxx,
                *arguments,
                "-shared",
                source.with_suffix(".o"),
                "-o",
                source.with_suffix(".so"),
                *link_arguments,
            ]
            linked = await run_tool(command, environment=env, timeout_s=120)
    return HostCxx(found[1] if found else None, compiled.exit_status == 0, linked.exit_status == 0)


async def add_host_parts(root: Path, downloads: Path, clangxx: Path) -> tuple[str, ...]:
    """Fetch what the host lacks into `root/host`; returns what could not be had, in words for the user."""
    cxx = await examine_host_cxx(clangxx, (), (), os.environ)
    wanted = ["libomp5"]
    problems: list[str] = []
    if not cxx.works and cxx.gcc is not None:
        wanted.append(f"libstdc++-{cxx.gcc.partition('.')[0]}-dev")
    apt = PrivateApt(downloads / "apt-host", sources=None)
    try:
        await apt.update(strict=False)
    except ToolchainError as error:
        return (error.message,)
    for name in wanted:
        try:
            closure = await apt.resolve([name], suite=None)
            packages = await apt.locate([found for found in closure if found[0].startswith(name)])
            await apt.download(packages, on_bytes=lambda _: None)
            if wrong := [package.file_name for package in packages if not apt.is_intact(package)]:
                raise ToolchainError(f"{wrong[0]} does not match its hash")
            debs = [apt.archives / package.file_name for package in packages]
            if name == "libomp5":
                await anyio.to_thread.run_sync(_add_openmp, debs, root / "host")
                await _complete_openmp(root / "host/lib", clangxx)
            else:
                await anyio.to_thread.run_sync(_add_cxx, debs, root / "host")
        except ToolchainError as error:
            problems.append(f"{name}: {error.message}")
    return tuple(problems)


def _add_openmp(debs: list[Path], host: Path) -> None:
    work = host / "work"
    for deb in debs:
        unpack_deb(deb, work, keep=_OPENMP_FILE.fullmatch, checkpoint=anyio.from_thread.check_cancelled)
    libraries = [path for path in sorted(work.rglob("libomp*.so*")) if path.is_file() and not path.is_symlink()]
    if not libraries:
        raise ToolchainError("the package holds no libomp.so")
    (host / "lib").mkdir(parents=True, exist_ok=True)
    shutil.copy2(libraries[0], host / "lib/libomp.so.5")
    shutil.rmtree(work, ignore_errors=True)


async def _complete_openmp(folder: Path, clangxx: Path) -> None:
    source, archive = folder / "kmpc.c", folder / "libckwatch_kmpc.a"
    source.write_text(_OPENMP_NEWER)
    clang = clangxx.with_name("clang")
    commands: tuple[list[str | Path], ...] = (
        [clang, "-O2", "-fPIC", "-c", source, "-o", source.with_suffix(".o")],
        [clangxx.with_name("llvm-ar"), "rcsD", archive, source.with_suffix(".o")],
    )
    for command in commands:
        done = await run_tool(command, environment=os.environ, timeout_s=60)
        if done.exit_status:
            raise ToolchainError(f"cannot complete the OpenMP runtime: {done.stderr.strip()}")
    source.with_suffix(".o").unlink()
    (folder / "libomp.so").write_text(_OPENMP_SCRIPT)


def _add_cxx(debs: list[Path], host: Path) -> None:
    kept = re.compile(r"usr/include/([^/]+-linux-gnu/)?c\+\+/.+|usr/lib/gcc/[^/]+/[^/]+/lib(std|sup)c\+\+[^/]*")
    for deb in debs:
        unpack_deb(deb, host, keep=kept.fullmatch, checkpoint=anyio.from_thread.check_cancelled)
    for link in host.glob("usr/lib/gcc/*/*/libstdc++.so"):  # leads to the library, which the host has
        triple = link.parent.parent.name
        link.unlink()
        link.symlink_to(f"/usr/lib/{triple}/libstdc++.so.6")
