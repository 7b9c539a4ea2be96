"""Keys of what is compiled with a toolchain, and what `-march=native` stands for in them.

They have two levels, like ccache's direct mode. The first is known before anything runs: tokens, flags, arch,
compiler, include folders. The second is the set of headers that a compile read, each with the hash of its contents;
a stored result holds as long as its set does.

The name of the processor and a hash of its features stand for the host. The compiler is asked once per toolchain and
processor; the answer is kept beside the store, so that a build of what is known starts no process.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ckwatch.compile.flags import compile_flags
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.store.header_sets import PathRoots, digest
from ckwatch.compile.toolchain.probe import ProbeCache
from ckwatch.model.errors import ToolchainError
from ckwatch.render.tokens import token_key
from ckwatch.system.processes import ProcessStartError, run_blocking

_LINE_TABLES = re.compile(r"-g(?!0$|pubnames$|no-)[-\w=]*|-fsave-optimization-record.*|-Rpass.*|-fcoverage-mapping.*")


def flags_depend_on_places(flags: Iterable[str]) -> bool:
    """True when `flags` put line numbers into what is compiled (`-g`, coverage, optimization records)."""
    return any(_LINE_TABLES.fullmatch(flag) for flag in flags)


def request_key(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    roots: PathRoots,
    *,
    more: Sequence[str],
    products: Iterable[str],
    text: str | None = None,
    arch: str | None = None,
) -> str:
    """The first level: SHA-256, in hex, of everything that is known before a compile, headers apart.

    `more` is what else makes a difference. `text` is compiled as `request` asks, by default its own source, and `arch`
    the resolved one (never `native`). The order of flags and of include folders counts, that of products does not.
    """
    flags = compile_flags(request, toolchain)
    places = flags_depend_on_places(flags)
    folders = (*request.include_folders, *toolchain.include_folders)
    parts = {
        "arch": request.arch if arch is None else arch,
        "flags": [roots.shorten_text(flag) for flag in (*flags, *more)],
        "include_folders": [roots.shorten(f"{folder}/") for folder in folders],
        "language": request.language.value,
        "products": sorted(products),
        "tokens": token_key(request.source if text is None else text, places=places),
        "toolchain": toolchain.identity,
        "version": 1,
    }
    return digest(parts)


_CPU = re.compile(r'"-target-cpu" "([^"]+)"')
_FEATURE = re.compile(r'"-target-feature" "([^"]+)"')
_CPUINFO = re.compile(
    r"^(?:model name|vendor_id|cpu family|model|stepping|flags|Features|CPU part)\s*:.*$", re.MULTILINE
)


def native_cpu(toolchain: CompilerToolchain, memo_folder: Path | None = None) -> str:
    """The resolved host processor, `znver3-1a2b3c4d`: its name for clang and a hash of its features.

    Raises ToolchainError when clang cannot tell. Blocks; call from a worker thread.
    """
    processor = ""
    with suppress(OSError):  # the kernel's description of the first one
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
        processor = "\n".join(_CPUINFO.findall(first))
    question = hashlib.sha256(f"{toolchain.identity}\n{processor}".encode()).hexdigest()
    memo = ProbeCache(None if memo_folder is None else memo_folder / "host-cpu.json")
    answer = memo.ask(question, (), lambda: _ask_clang(toolchain))
    memo.save()
    return answer


def _ask_clang(toolchain: CompilerToolchain) -> str:
    options = ("-march=native", "-x", "c++", "-E", "-###", "/dev/null")
    arguments = [str(toolchain.clangxx), *toolchain.cpp_arguments, *options]
    try:
        printed = run_blocking(arguments, environment=toolchain.environment, timeout_s=60).stderr
    except (ProcessStartError, TimeoutError) as error:
        raise ToolchainError(f"{toolchain.clangxx} cannot be asked for this processor: {error}") from error
    cpu = _CPU.search(printed)
    if cpu is None:
        raise ToolchainError(
            f"{toolchain.clangxx} does not know this processor (-march=native)", printed.strip()[-400:] or None
        )
    features = hashlib.sha256("\n".join(sorted(_FEATURE.findall(printed))).encode()).hexdigest()
    return f"{cpu[1]}-{features[:8]}"
