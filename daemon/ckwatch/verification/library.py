"""Builds the emulator, a libamdhip64 of ours, once for this machine: its sources ship as C, in `native`.

It is compiled for this very processor, by the toolchain's clang or else the host's compiler, and kept in a folder whose
name says what it was made of.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import Launcher, ProcessResult, run_process
from ckwatch.system.user_files import read_file
from ckwatch.verification.kept_folders import take, use

FOLDER = "emulator"
"""The store's folder of the library."""

SOURCES = Path(__file__).parent / "native"
LIBRARY = "libamdhip64.so.7"
"""The name that hipcc's shared objects ask for."""
OLDER_NAMES = ("libamdhip64.so.5", "libamdhip64.so.6")
"""The names that those of older ROCms ask for."""

COMPILE_FLAGS: tuple[str, ...] = (
    *("-std=gnu11", "-D_GNU_SOURCE", "-O3", "-march=native", "-fPIC", "-fno-math-errno", "-fno-strict-aliasing"),
    *("-ffp-contract=off", "-fvisibility=hidden"),
    *(["-mprefer-vector-width=512"] if platform.machine() == "x86_64" else []),  # loops are over 64 lanes
)
LINK_FLAGS = (
    *("-shared", f"-Wl,-soname,{LIBRARY}", f"-Wl,--version-script={SOURCES / 'hip.map'}", "-Wl,-z,nodelete"),
    *("-Wl,-z,defs", "-lm", "-lpthread", "-ldl"),
)

HOST_COMPILERS = ("clang", "gcc", "cc")

KEPT = 12
"""Libraries that stay when another is built: those used last, by this ckwatch, other ones and other compilers."""

_TIME_LIMIT_S = 600.0
_CPU = re.compile(r"^(?:model name|flags|Features|CPU part)\s*:.*$", re.MULTILINE)


def source_files() -> list[Path]:
    return sorted(SOURCES.iterdir())


async def build_library(
    folder: Path,
    clang: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    launch: Launcher = run_process,
    on_build: Callable[[], None] = lambda: None,
) -> Path:
    """The emulator's library below `folder`, built when it is not there: by `clang`, or else a compiler of the host.

    `on_build` is called before it is built, which takes a minute. Raises CkwatchError when there is no compiler, or it
    fails.
    """
    environment = os.environ if environment is None else environment
    compilers = [str(clang)] if clang is not None else []
    compilers += [found for name in HOST_COMPILERS if (found := shutil.which(name, path=environment.get("PATH")))]
    if not compilers:
        raise CkwatchError("there is no C compiler to build the emulator with", "install clang or gcc")
    names = await to_thread.run_sync(_folder_names, tuple(dict.fromkeys(compilers)))
    libraries = {compiler: folder / name / LIBRARY for compiler, name in names.items()}
    for library in libraries.values():
        if await to_thread.run_sync(use, library):
            return await to_thread.run_sync(_named, library)
    failures = []
    on_build()
    for compiler, library in libraries.items():
        try:
            await _build(compiler, library, environment, launch)
        except CkwatchError as error:
            failures.append(error)
        else:
            return await to_thread.run_sync(_named, library)
    raise failures[0]


def _named(library: Path) -> Path:
    """Give the library its other names."""
    for name in OLDER_NAMES:
        with suppress(OSError):  # it is there, or the store is read-only
            (library.parent / name).symlink_to(LIBRARY)
    return library


async def _build(compiler: str, library: Path, environment: Mapping[str, str], launch: Launcher) -> None:
    work = library.parent.with_name(f".{os.urandom(8).hex()}.partial")
    try:
        await to_thread.run_sync(lambda: work.mkdir(parents=True))
        sources = sorted(SOURCES.glob("*.c"))
        limiter = anyio.CapacityLimiter(len(os.sched_getaffinity(0)))
        done: list[ProcessResult] = []

        async def run(*arguments: str) -> None:
            async with limiter:
                done.append(
                    await launch([compiler, *arguments], environment=environment, folder=work, timeout_s=_TIME_LIMIT_S)
                )

        async with anyio.create_task_group() as tasks:
            for source in sources:
                tasks.start_soon(partial(run, *COMPILE_FLAGS, "-c", str(source), "-o", f"{source.stem}.o"))
        _require(compiler, done)
        await run(*(f"{source.stem}.o" for source in sources), "-o", LIBRARY, *LINK_FLAGS)
        _require(compiler, done)
        await to_thread.run_sync(_take, work, library)
    except OSError as error:
        raise CkwatchError(f"the emulator cannot be stored in {library.parent}: {error}") from error
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(lambda: shutil.rmtree(work, ignore_errors=True))


def _require(compiler: str, done: list[ProcessResult]) -> None:
    for result in done:
        if not result.succeeded:
            first = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr[-400:].strip())
            raise CkwatchError(f"{compiler} cannot build the emulator: {first or result.exit_reason.value}")


def _take(work: Path, library: Path) -> None:
    for entry in work.glob("*.o"):
        entry.unlink()
    take(work, library, KEPT)


def _folder_names(compilers: Iterable[str]) -> dict[str, str]:
    """By compiler, what its library is made of: the sources, the compiler and the processor."""
    sources = hashlib.sha256()
    for source in source_files():
        sources.update(f"{source.name}\n".encode())
        sources.update(read_file(source))
    processor = b""
    with suppress(OSError):
        first = read_file("/proc/cpuinfo").decode(errors="replace").partition("\n\n")[0]
        processor = "\n".join(_CPU.findall(first)).encode()
    names = {}
    for compiler in compilers:
        digest = sources.copy()
        status = Path(compiler).resolve().stat()
        made_by = [compiler, str(status.st_size), str(status.st_mtime_ns), *COMPILE_FLAGS, *LINK_FLAGS]
        text = "\n".join(made_by).replace(str(SOURCES), "")  # another installation of the same sources builds the same
        digest.update(text.encode() + processor)
        names[compiler] = f"{platform.machine()}-{digest.hexdigest()[:24]}"
    return names
