"""Keys of what is compiled with a toolchain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckwatch.compile.flags import compile_flags
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.fingerprint import compile_key, flags_depend_on_places, token_key
from ckwatch.store import Roots


def key_of(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    roots: Roots,
    *,
    text: str,
    arch: str,
    more: Sequence[str],
    products: Iterable[str],
) -> str:
    """The first-level key of `text`, compiled as `request` asks; `more` is what else makes a difference."""
    flags = compile_flags(request, toolchain)
    folders = (*request.include_folders, *toolchain.include_folders)
    return compile_key(
        tokens=token_key(text, places=flags_depend_on_places(flags)),
        language=request.language.value,
        flags=[*flags, *more],
        arch=arch,
        toolchain=toolchain.identity,
        include_folders=[roots.shorten(f"{folder}/") for folder in folders],
        products=products,
    )
