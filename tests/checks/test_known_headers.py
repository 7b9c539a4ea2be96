"""Headers that are not found: whose they are, and what is said of them where they are included."""

from __future__ import annotations

import pytest

from checks.test_compiler_diagnostics import diagnosed
from ckwatch.checks.compiler.sources import NO_INPUTS, CompilerInputs
from ckwatch.checks.known_headers import header_advice
from ckwatch.model.rocm_libraries import LIBRARIES
from helpers.each_row import each_row

FETCH = "`ckwatch toolchain install --with {}` fetches"


@each_row(
    ("header", "said"),
    [
        ("rocprim/rocprim.hpp", "it is rocPRIM's, whose headers " + FETCH.format("rocprim")),
        ("hipblas-common/hipblas-common.h", "it is hipBLAS's, whose headers " + FETCH.format("hipblas")),
        ("thrust/device_vector.h", "it is rocThrust's, whose headers " + FETCH.format("rocthrust")),
        ("rocblas.h", "it is included as `rocblas/rocblas.h`, which " + FETCH.format("rocblas")),
        ("cuda_runtime.h", "it is CUDA's; HIP has `hip/hip_runtime.h`"),
        ("cuda_fp16.h", "it is CUDA's; HIP has `hip/hip_fp16.h`"),
        ("cooperative_groups/reduce.h", "it is CUDA's; HIP has `hip/hip_cooperative_groups.h`"),
        ("cub/cub.cuh", "it is CUDA's; ROCm has `hipcub/hipcub.hpp`, which " + FETCH.format("hipcub")),
        ("mma.h", "it is CUDA's; ROCm has `rocwmma/rocwmma.hpp`, which " + FETCH.format("rocwmma")),
        ("curand_kernel.h", "it is CUDA's; ROCm has `hiprand/hiprand_kernel.h`, which " + FETCH.format("hiprand")),
        ("cuda/std/array", "it is CUDA's, and HIP has nothing like it"),
        ("cutlass/cutlass.h", "it is CUTLASS's, which is for CUDA alone; Composable Kernel (`ck/ck.hpp`, `ck_tile/core.hpp`) is AMD's"),
        ("torch/extension.h", "it is PyTorch's; include the kernel from a file that does not include PyTorch, or give the folder of PyTorch's headers with -I in `flags`"),
        ("ATen/cuda/CUDAContext.h", "it is PyTorch's; include"),
        ("c10/util/Half.h", "it is PyTorch's; include"),
    ],
)  # fmt: skip
def test_known_headers(header: str, said: str) -> None:
    log = f"/ws/x.hip:2:10: fatal error: '{header}' file not found [Lexical or Preprocessor Issue]\n"
    (diagnostic,) = diagnosed(f"int before;\n#include <{header}>\n", log)
    assert diagnostic.message.startswith(f"'{header}' file not found: {said}")
    assert (diagnostic.code, diagnostic.span.start.line) == ("clang/file-not-found", 1)


@pytest.mark.parametrize(
    "header",
    ["mine.hpp", "torch", "cub", "cutlass", "rocprim", "detail/mma.h", "ck/ck.hpp", "my_cuda_runtime.h", "mma/a.h"],
)
def test_others_are_left_to_the_compiler(header: str) -> None:
    log = f"/ws/x.hip:1:10: fatal error: '{header}' file not found [Lexical or Preprocessor Issue]\n"
    (diagnostic,) = diagnosed(f'#include "{header}"\n', log)
    assert diagnostic.message == f"'{header}' file not found"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("hipcub/hipcb.hpp", ""),
        ("cub/cub.cuh", ": it is CUDA's; ROCm has `hipcub/hipcub.hpp`"),
        ("hipcub.hpp", ": it is included as `hipcub/hipcub.hpp`"),
    ],
)
def test_a_library_that_is_there_is_not_to_be_fetched(header: str, said: str) -> None:
    log = f"/ws/x.hip:1:10: fatal error: '{header}' file not found [Lexical or Preprocessor Issue]\n"
    inputs = CompilerInputs(libraries=("/rocm/include",))
    (diagnostic,) = diagnosed(f"#include <{header}>\n", log, inputs, {"/rocm/include/hipcub/hipcub.hpp": "//"})
    assert diagnostic.message == f"'{header}' file not found{said}"


def test_each_library_is_known_by_its_main_header() -> None:
    for name, library in LIBRARIES.items():
        assert f"--with {name}`" in (header_advice(library.header, lambda _: False) or "")


def test_in_a_header_of_somebody_else_it_stands_at_the_include() -> None:
    log = (
        "In file included from /ws/x.hip:1:\n"
        "/other/a.hpp:7:10: fatal error: 'rocprim/config.hpp' file not found [Lexical or Preprocessor Issue]\n"
    )
    (diagnostic,) = diagnosed("#include <other/a.hpp>\n", log, NO_INPUTS)
    assert (diagnostic.span.start.line, "--with rocprim" in diagnostic.message) == (0, True)
