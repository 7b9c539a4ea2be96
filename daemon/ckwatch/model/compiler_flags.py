"""Compiler flags as a person writes them in a list: which belong together, which name files, which concern linking."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Sequence

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span

INCLUDE_FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter", "--include-path")
"""They name a folder of headers, in the same element (`-Iinclude`) or the next."""

_FOLDERS = (*INCLUDE_FOLDERS, "-L", "-F", "-B", "-iframework", "-isysroot", "--sysroot", "--library-path")
_JOINED_BY_EQUALS = frozenset({"--include-path", "--sysroot", "--library-path"})
_TAKES_A_VALUE = frozenset({
    *_FOLDERS, "-l", "-mllvm", "-D", "-U", "-include", "-imacros", "-x", "-target", "--param", "-u", "-z", "-T",
    "-Xclang", "-Xarch_host", "-Xarch_device", "-Xlinker", "-Xpreprocessor", "-Xassembler", "-Xoffload-linker",
    "-Xcompiler", "-Xptxas", "-Xcudafe", "-Xnvlink", "-Xfatbin", "-Xcicc", "-gencode", "-arch", "-maxrregcount",
})  # fmt: skip
_LINK_PREFIXES = ("-l", "-L", "-Wl,", "-rdynamic", "-static", "-fuse-ld=", "--ld-path=", "--library-path")
_LINK_FLAGS = frozenset({"-Xlinker", "-u", "-z", "-T"})
_LINK_INPUT = re.compile(r"[^-].*\.(?:o|a|so(?:\.[0-9.]+)?)")
_NVCC_LINE_INFO = "-lineinfo"


_ENDLESS = (
    re.compile(r"--?amdgpu-early-inline-all(=(true|1))?"),
    re.compile(r"--?amdgpu-function-calls=(false|0)"),
)
ENDLESS_ADVICE = (
    "`-amdgpu-early-inline-all=true` together with `-amdgpu-function-calls=false` keeps the compiles of some kernels "
    "from ending: leave both out, as PyTorch 2.15 does"
)


@dataclass(frozen=True, slots=True)
class GivenFlag:
    """An element of `flags` in `ckwatch.toml` or a kernel file as compilers get it, or a define as its flag
    `-DNAME=VALUE`."""

    text: str
    span: Span


def flag_groups(flags: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each flag with its value where that is an element of its own, and the index of its first element.

    A flag whose value is missing stands alone.
    """
    at = 0
    while at < len(flags):
        size = 2 if flags[at] in _TAKES_A_VALUE else 1
        yield at, tuple(flags[at : at + size])
        at += size


def concerns_linking(group: tuple[str, ...]) -> bool:
    """Return True if a group of `flag_groups` is for the linker: a library or its folder, an object file, its own
    options."""
    flag = group[0]
    if flag in _LINK_FLAGS or _LINK_INPUT.fullmatch(flag):
        return True
    return flag.startswith(_LINK_PREFIXES) and flag != _NVCC_LINE_INFO


def endless_flags(flags: Sequence[str]) -> tuple[int, ...]:
    """The indices of the flags that `ENDLESS_ADVICE` speaks of; none unless both are there."""
    inlined, called = ([at for at, flag in enumerate(flags) if one.fullmatch(flag)] for one in _ENDLESS)
    return tuple(sorted(inlined + called)) if inlined and called else ()


def given_flags(flags: Sequence[str], spans: Sequence[Span], folder: str) -> tuple[GivenFlag, ...]:
    """`absolute_flags` with their places; `spans` are those of `flags`."""
    return tuple(GivenFlag(text, span) for text, span in zip(absolute_flags(flags, folder), spans, strict=False))


def define_flag(name: str, value: str | int | bool) -> str:
    """Return the text after `-D` for an entry of `[compile.defines]`."""
    if isinstance(value, bool):
        return name if value else f"{name}=0"
    return f"{name}={value}"


def lacks_value(group: tuple[str, ...]) -> bool:
    """Return True if the value that a flag takes from the next element is missing."""
    return len(group) == 1 and group[0] in _TAKES_A_VALUE


def folder_of(group: tuple[str, ...]) -> str | None:
    """The folder that a group names, as it is written; None when it names none."""
    flag = group[0]
    if flag in _FOLDERS:
        return group[1] if len(group) > 1 else None
    for name in sorted(_FOLDERS, key=len, reverse=True):
        if flag.startswith(f"{name}=" if name in _JOINED_BY_EQUALS else name):
            return flag[len(name) :].removeprefix("=") if name in _JOINED_BY_EQUALS else flag[len(name) :]
    return None


def absolute_flags(flags: Sequence[str], folder: str) -> tuple[str, ...]:
    """`flags` with the folders and object files that they name relative to `folder` as absolute paths.

    A flag at the end whose value is missing is left out: it would take what comes after all flags.
    """
    return tuple(part for _, group in flag_groups(flags) for part in _absolute(group, folder) if not lacks_value(group))


def _absolute(group: tuple[str, ...], folder: str) -> tuple[str, ...]:
    named = group[0] if _LINK_INPUT.fullmatch(group[0]) else folder_of(group)
    if not named or named.startswith(("/", "=", "$")):
        return group
    *before, last = group
    return (*before, last.removesuffix(named) + os.path.normpath(os.path.join(folder, named)))  # noqa: PTH118
