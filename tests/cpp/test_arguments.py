"""Arguments with which clangd compiles a unit: those of the unit's own command that clang knows, for one side."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.cpp.arguments import CUDA_SUBSTITUTES, SIDES, clangd_arguments, cuda_arguments
from ckwatch.model.targets import Language
from fakes.fake_compiler import FakeToolchain

TOOLCHAIN = FakeToolchain(Path("/rocm/hipcc"), Path("/rocm/clang++"), include_folders=(Path("/ck/include"),))
NVCC = NvccToolchain("path", Path("/cuda/bin/nvcc"), Path("/usr/bin/g++"), "13", "g++ 14", None, "1")
REQUEST = CompileRequest(
    "int k;\n", "k", Language.HIP, "gfx942",
    flags=("-DOWN=1", "-lm"), defines=("MORE",), include_folders=(Path("/w/include"),),
)  # fmt: skip


def pairs(arguments: tuple[str, ...], name: str) -> list[str]:
    return [after for one, after in pairwise(arguments) if one == name]


@pytest.mark.parametrize("side", ["host", "device"])
def test_hip(side: str) -> None:
    found = clangd_arguments(REQUEST, TOOLCHAIN, "host" if side == "host" else "device", resources=Path("/r"))
    assert found[:2] == ("/rocm/clang++", "--rocm-path=/rocm")
    assert pairs(found, "-x") == ["hip"]
    assert [one for one in found if one.startswith("--offload")] == ["--offload-arch=gfx942", f"--offload-{side}-only"]
    assert pairs(found, "-resource-dir") == ["/r"]
    assert {"-DOWN=1", "-DMORE", "-std=c++20"} <= {*found}
    assert pairs(found, "-iquote") == ["/w/include"]
    assert pairs(found, "-isystem") == ["/ck/include"]
    assert not {"-c", "-o", "-lm", "kernel.hip", "-MD"} & {*found}
    assert not any(one.startswith("-cuid") for one in found)


def test_cpp() -> None:
    found = clangd_arguments(replace(REQUEST, language=Language.CPP), TOOLCHAIN, "host", resources=None)
    assert found[0] == "/rocm/clang++"
    assert pairs(found, "-x") == ["c++"]
    assert not any(one.startswith("--offload") for one in found)
    assert "-resource-dir" not in found
    assert list(SIDES[Language.CPP]) == ["host"]


def test_cuda() -> None:
    request = replace(
        REQUEST,
        language=Language.CU,
        arch="sm_90a",
        flags=(
            *("-DOWN=1", "--use_fast_math", "-Xptxas", "-v", "-Xptxas=-O3", "-maxrregcount", "64"),
            *("-ccbin", "/usr/bin/g++", "-Xcompiler", "-Wall,-fopenmp", "-gencode", "arch=compute_80,code=sm_80"),
            *("--extended-lambda", "-Xcudafe", "--diag_suppress=20012", "-arch=sm_90"),
        ),
    )
    found = clangd_arguments(request, NVCC, "device", resources=None, cuda=("--cuda-path=/cuda",))
    assert found[:4] == ("/usr/bin/g++", "-x", "cuda", "--cuda-gpu-arch=sm_90a")
    assert {"-std=c++17", "-fPIC", "-fvisibility=hidden", "-DOWN=1", "-DMORE", "-Wall", "-fopenmp"} <= {*found}
    assert found[-2:] == ("--cuda-path=/cuda", "--offload-device-only")
    words = " ".join(found)
    for nvcc in ("gencode", "Xptxas", "maxrregcount", "64", "ccbin", "fast_math", "lambda", "cudafe", "sm_80", "expt"):
        assert nvcc not in words, nvcc
    assert not {"-v", "-c", "-o", "-Xcompiler", "sm_90", "-arch=sm_90", "cu"} & {*found}


def test_the_folders_of_cuda() -> None:
    found = cuda_arguments(Path("/cuda"), Path("/substitutes"))
    assert "--cuda-path=/cuda" in found
    assert pairs(found, "-isystem") == ["/cuda/include/cccl"]
    assert pairs(found, "-idirafter") == ["/substitutes"]
    assert CUDA_SUBSTITUTES
