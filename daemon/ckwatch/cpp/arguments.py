"""A unit's own compile command as clangd takes it: for one side, of clang's words only, without an output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.single_call import shown_command
from ckwatch.model.targets import Language
from ckwatch.wire.cpp import Side

_ENDS = 4
"""`-c SOURCE -o OBJECT`."""

_OF_NVCC = {"--expt-relaxed-constexpr", "--expt-extended-lambda", "--extended-lambda", "--use_fast_math"}
"""Flags of nvcc that clang does without: it allows what they allow."""

SIDES: dict[Language, dict[Side, tuple[str, ...]]] = {
    Language.HIP: {"host": ("--offload-host-only",), "device": ("--offload-device-only",)},
    Language.CU: {"host": ("--offload-host-only",), "device": ("--offload-device-only",)},
    Language.CPP: {"host": ()},
}
"""Flags that make clang compile one side only; C++ has no other."""


def clangd_arguments(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    side: Side,
    *,
    resources: Path | None,
    cuda: Sequence[str] = (),
) -> tuple[str, ...]:
    """The command, without the source at its end. `resources` is clang's folder of built-in headers, where clangd does
    not find its own; `cuda` what clang needs to find the CUDA toolkit (`cuda_arguments`)."""
    own = shown_command(request, toolchain)[1:-_ENDS]
    if request.language is Language.CU:
        own = [*_for_clang(own, request.arch), *cuda]
    given = [] if resources is None else ["-resource-dir", str(resources)]
    return (str(toolchain.clangxx), *own, *SIDES[request.language][side], *given)


def cuda_arguments(toolkit: Path, substitutes: Path) -> tuple[str, ...]:
    """Flags by which clang finds a CUDA toolkit, of which nvcc has its `nvcc.profile`. `substitutes` is a folder of
    headers that clang includes by itself and that not every toolkit has."""
    found = (f"--cuda-path={toolkit}", "-nocudalib", "-Wno-unknown-cuda-version")
    return (*found, "-isystem", str(toolkit / "include/cccl"), "-idirafter", str(substitutes))


CUDA_SUBSTITUTES = ("curand_mtgp32_kernel.h",)
"""Of these an empty one will do: clang's own wrapper of CUDA's headers includes it, and the kernels do not use it."""


def _for_clang(arguments: Sequence[str], arch: str) -> Iterator[str]:
    """nvcc's arguments as clang's."""
    yield from ("-x", "cuda", f"--cuda-gpu-arch={arch}")
    waiting = iter(arguments)
    for one in waiting:
        if one in ("-x", "-ccbin", "-arch", "-code", "-gencode", "-maxrregcount", "--threads"):
            next(waiting, None)
        elif one.startswith("-Xcompiler="):
            yield from one.removeprefix("-Xcompiler=").split(",")
        elif one in ("-Xcompiler", "--compiler-options"):
            yield from next(waiting, "").split(",")
        elif one in ("-Xptxas", "-Xnvlink", "-Xlinker", "-Xfatbin", "-Xcudafe"):
            next(waiting, None)
        elif one not in _OF_NVCC and not one.startswith(
            ("-gencode=", "-arch=", "-code=", "-ccbin=", "-Xptxas=", "-Xcudafe=")
        ):
            yield one
