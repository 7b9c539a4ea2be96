"""Who builds CUDA sources: a builder with nvcc beside the one with hipcc, made when the first is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.to_thread

from ckwatch.compile.request import CompilerToolchain
from ckwatch.errors import ToolchainError
from ckwatch.model.language import Language
from ckwatch.toolchain.nvcc import NvccToolchain

if TYPE_CHECKING:
    from ckwatch.compile.builder import Builder  # noqa: F401  # what `_Builder` is

_Builder = TypeVar("_Builder")


class CudaBuilds(Generic[_Builder]):
    """Tells a builder of `toolchain` whose a source is. `make` makes a builder with nvcc."""

    def __init__(self, toolchain: CompilerToolchain, make: Callable[[NvccToolchain], _Builder]) -> None:
        self._toolchain = toolchain
        self._make = make
        self._made: _Builder | None = None
        self._finding = anyio.Lock()

    async def builder_of(self, language: Language) -> _Builder | None:
        """The other builder that `language` needs, None where the asking one will do.

        Raises ToolchainError where the language's compiler is not there; it is looked for again each time.
        """
        has_nvcc = isinstance(self._toolchain, NvccToolchain)
        if has_nvcc == (language is Language.CU):
            return None
        if has_nvcc:
            raise ToolchainError(
                f"there is no compiler for *.{language}.j2 templates, only {self._toolchain.hipcc}",
                "Run `ckwatch toolchain install`, or set ROCM_PATH.",
            )
        async with self._finding:
            if self._made is None:
                from ckwatch.toolchain.nvcc import find_nvcc

                self._made = self._make(await anyio.to_thread.run_sync(find_nvcc, self._toolchain.environment))
        return self._made
