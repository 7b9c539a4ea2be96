"""Says of a header that is not found whose it is, and what to do: ROCm's libraries, CUDA's headers, PyTorch's.

A header is known by its first folder, or by its name where it has none. Of others nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ckwatch.model.rocm_libraries import LIBRARIES, RocmLibrary, install_command

NOT_FOUND = re.compile(r"'(?P<name>[^'\n]+)' file not found")

_RUNTIME = "hip/hip_runtime.h"
_HIP: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("cuda_runtime.h", "cuda_runtime_api.h", "cuda.h", "cuda_device_runtime_api.h", "device_functions.h"),
            *("device_launch_parameters.h", "device_atomic_functions.h", "driver_types.h", "host_defines.h"),
            *("math_functions.h", "vector_functions.h", "sm_30_intrinsics.h"),
        ),
        _RUNTIME,
    ),
    "channel_descriptor.h": "hip/channel_descriptor.h",
    "cooperative_groups.h": "hip/hip_cooperative_groups.h",
    "cooperative_groups/": "hip/hip_cooperative_groups.h",
    "cuComplex.h": "hip/hip_complex.h",
    **dict.fromkeys(("cuda_bf16.h", "cuda_bf16.hpp"), "hip/hip_bf16.h"),
    **dict.fromkeys(("cuda_fp16.h", "cuda_fp16.hpp"), "hip/hip_fp16.h"),
    **dict.fromkeys(("cuda_fp8.h", "cuda_fp8.hpp"), "hip/hip_fp8.h"),
    **dict.fromkeys(("cuda_fp6.h", "cuda_fp6.hpp"), "hip/hip_fp6.h"),
    **dict.fromkeys(("cuda_fp4.h", "cuda_fp4.hpp"), "hip/hip_fp4.h"),
    "cuda_profiler_api.h": "hip/hip_profile.h",
    "library_types.h": "hip/library_types.h",
    "math_constants.h": "hip/hip_math_constants.h",
    "nvrtc.h": "hip/hiprtc.h",
    "surface_types.h": "hip/surface_types.h",
    "texture_types.h": "hip/texture_types.h",
    "vector_types.h": "hip/hip_vector_types.h",
}
"""HIP's counterparts of a header or folder of CUDA's."""

_OF_LIBRARY: Mapping[str, tuple[str, str]] = {
    "cub/": ("hipcub", ""),
    "mma.h": ("rocwmma", ""),
    "curand.h": ("hiprand", ""),
    "curand_kernel.h": ("hiprand", "hiprand/hiprand_kernel.h"),
    **dict.fromkeys(("cublas.h", "cublas_v2.h", "cublas_api.h"), ("hipblas", "")),
    "cublasLt.h": ("hipblaslt", ""),
    **dict.fromkeys(("cufft.h", "cufftXt.h"), ("hipfft", "")),
    "cusparse.h": ("hipsparse", ""),
    "cusparse_v2.h": ("hipsparse", ""),
    "cusparseLt.h": ("hipsparselt", ""),
    **dict.fromkeys(("cusolverDn.h", "cusolverSp.h", "cusolver_common.h"), ("hipsolver", "")),
    "cudnn.h": ("miopen", ""),
    "nccl.h": ("rccl", ""),
    **dict.fromkeys(("nvToolsExt.h", "nvtx3/"), ("roctx", "")),
}
"""Which library of ROCm's has the counterpart of a header or folder of CUDA's, and in which header."""

_CUDA_ALONE = frozenset(
    {
        *("cuda_pipeline.h", "cuda_pipeline_primitives.h", "cuda_awbarrier.h", "cuda_awbarrier_primitives.h"),
        *("cudaTypedefs.h", "nvshmem.h", "nvshmemx.h", "nvml.h", "cupti.h", "cuda_texture_types.h"),
        *("crt/", "cuda/", "nv/"),
    }
)
_CUTLASS = frozenset({"cutlass/", "cute/"})
_TORCH = frozenset({"torch/", "ATen/", "c10/", "caffe2/", "pybind11/"})


def header_advice(name: str, is_there: Callable[[str], bool]) -> str | None:
    """Advice about a header that was included under `name` and not found, to be read behind a colon.

    `is_there(header)` tells if a ROCm has a library's main header: then another one of it has a wrong name, which is
    the compiler's to say, as of any header that is not known: None.
    """
    folder, slash, _ = name.partition("/")
    first = folder + slash
    if first in _TORCH:
        return (
            "it is PyTorch's; include the kernel from a file that does not include PyTorch, or give the folder of "
            "PyTorch's headers with -I in `flags`"
        )
    for library in LIBRARIES.values():
        if slash and folder in library.folders:
            fetched = f"whose headers `{install_command([library.name])}` fetches"
            return None if is_there(library.header) else f"it is {library.title}'s, {fetched}"
        if name in (f"{library.name}.h", f"{library.name}.hpp"):
            return f"it is included as `{library.header}`{_unless_there(library, is_there)}"
    if first in _HIP:
        return f"it is CUDA's; HIP has `{_HIP[first]}`"
    if first in _OF_LIBRARY:
        other, header = _OF_LIBRARY[first]
        library = LIBRARIES[other]
        return f"it is CUDA's; ROCm has `{header or library.header}`{_unless_there(library, is_there)}"
    if first in _CUDA_ALONE:
        return "it is CUDA's, and HIP has nothing like it"
    if first in _CUTLASS:
        return "it is CUTLASS's, which is for CUDA alone; Composable Kernel (`ck/ck.hpp`, `ck_tile/core.hpp`) is AMD's"
    return None


def _unless_there(library: RocmLibrary, is_there: Callable[[str], bool]) -> str:
    return "" if is_there(library.header) else f", which `{install_command([library.name])}` fetches"
