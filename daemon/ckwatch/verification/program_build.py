"""Compiles a HIP program of one source file for the emulator: with line tables, by the toolchain's hipcc.

A program is kept in the store by what it was made of: its text with all that it includes, the command, the toolchain.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.checks.clang_output import CLANG_DIAGNOSTIC_FLAGS, ClangMessage, parse_clang_log
from ckwatch.compile.flags import LINE_TABLES, known_flags
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import Launcher, ProcessResult, run_process
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, read_file
from ckwatch.verification.kept_folders import take, use

FOLDER = "programs"
"""The store's folder of programs."""

KEPT = 32
"""Programs that stay when another is compiled: those run last."""

SOURCE_SUFFIXES = (".hip", ".cpp", ".cc", ".cxx", ".cu")
OPTIMIZATION = ("-O3",)

BUILTINS = "linux/libclang_rt.builtins-*.a"
"""Below clang's `lib`."""

_TIME_LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """`program` is None where the compiler failed; `messages` are those of this compile, none of a stored one."""

    program: Path | None
    messages: tuple[ClangMessage, ...] = ()


def is_source(name: str) -> bool:
    """Return True for the name of a source file."""
    return name.endswith(SOURCE_SUFFIXES)


def hipcc_command(source: Path, arch: str, flags: Sequence[str], toolchain: Toolchain, program: Path) -> list[str]:
    """The command that compiles and links `source`; `flags` come last, so that they win."""
    return [*_compile_command(source, arch, flags, toolchain), *_link_arguments(toolchain), "-o", str(program)]


def _link_arguments(toolchain: Toolchain) -> list[str]:
    """The toolchain's, and as AMD's hipcc has them by default: host code that converts bf16 and f16 calls functions of
    compiler-rt's that older libgccs lack."""
    builtins = toolchain.clang.parent.parent.glob(f"lib/clang/*/lib/{BUILTINS}")
    own = ["-rtlib=compiler-rt", "--unwindlib=libgcc"] if any(builtins) else []
    return [*toolchain.link_arguments, *own]


def _compile_command(source: Path, arch: str, flags: Sequence[str], toolchain: Toolchain) -> list[str]:
    before = (*toolchain.hip_arguments, f"--offload-arch={arch}", *OPTIMIZATION, *LINE_TABLES)
    return [str(toolchain.hipcc), *before, *flags, str(source)]


async def build_program(
    source: Path,
    arch: str,
    flags: Sequence[str],
    toolchain: Toolchain,
    folder: Path,
    *,
    launch: Launcher = run_process,
    on_build: Callable[[], None] = lambda: None,
) -> BuiltProgram:
    """The program of the source file, below `folder`, compiled when it is not there.

    `on_build` is called before it is compiled. Raises CkwatchError when the store cannot be written, ToolchainError
    when hipcc cannot be started.
    """
    work = folder / f".{os.urandom(8).hex()}.partial"

    async def run(*arguments: str) -> ProcessResult:
        return await launch(arguments, environment=toolchain.environment, timeout_s=_TIME_LIMIT_S)

    try:
        await to_thread.run_sync(lambda: work.mkdir(parents=True))
        text, program = work / "preprocessed", work / source.stem
        command = _compile_command(source, arch, (*flags, *known_flags(CLANG_DIAGNOSTIC_FLAGS, toolchain)), toolchain)
        done = await run(*command, "-E", "-o", str(text))
        if not done.succeeded:
            return _failed(done)
        linking = await to_thread.run_sync(_link_arguments, toolchain)
        key = await to_thread.run_sync(_key, text, [toolchain.identity, *command, *linking])
        stored = folder / key / source.stem
        if await to_thread.run_sync(use, stored):
            return BuiltProgram(stored)
        on_build()
        done = await run(*command, *linking, "-o", str(program))
        if not done.succeeded:
            return _failed(done)
        await to_thread.run_sync(_take, work, text, stored)
        return BuiltProgram(stored, tuple(parse_clang_log(done.stderr)))
    except OSError as error:
        raise CkwatchError(f"the program cannot be stored in {folder}: {error}") from error
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(lambda: shutil.rmtree(work, ignore_errors=True))


def _failed(done: ProcessResult) -> BuiltProgram:
    messages = tuple(parse_clang_log(done.stderr))
    if not any(message.is_error for message in messages):
        printed = done.stderr.strip() or done.exit_reason.value
        raise CkwatchError(f"hipcc failed: {printed[-2000:]}")
    return BuiltProgram(None, messages)


def _key(text: Path, made_by: Sequence[str]) -> str:
    digest = hashlib.sha256("\n".join(made_by).encode(errors="surrogateescape"))
    digest.update(read_file(text, BINARY_LIMIT_BYTES))
    return digest.hexdigest()[:24]


def _take(work: Path, text: Path, stored: Path) -> None:
    text.unlink()
    take(work, stored, KEPT)
