"""What `ckwatch doctor` says of CUDA: nvcc, CUTLASS's headers, and what timing on an NVIDIA GPU needs."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ckwatch.errors import ToolchainError
from ckwatch.toolchain.devices import FoundDevice
from ckwatch.toolchain.nvcc import CUTLASS_HINT, INSTALL_HINT, find_nvcc


@dataclass(frozen=True, slots=True)
class CudaCheck:
    """One thing that was looked at. `mend` is what to do where it is not `there`."""

    name: str
    there: bool
    detail: str
    mend: str | None = None


def cuda_checks(env: Mapping[str, str], devices: Sequence[FoundDevice]) -> tuple[CudaCheck, ...]:
    """nvcc first; then what matters only with it, or with an NVIDIA GPU. Starts processes."""
    try:
        found = find_nvcc(env)
    except ToolchainError as error:
        checks = [CudaCheck("CUDA", False, " ".join(error.message.split()), error.hint or INSTALL_HINT)]
    else:
        detail = f"nvcc {found.version}, {found.source}: {found.nvcc}; host compiler {found.host_version}"
        checks = [CudaCheck("CUDA", True, detail)]
        if found.cutlass is None:
            checks.append(CudaCheck("CUTLASS", False, "no headers found", CUTLASS_HINT))
        else:
            headers = found.cutlass
            checks.append(CudaCheck("CUTLASS", True, f"{headers.version}, {headers.origin}: {headers.folder}"))
    if any(device.name.startswith("cuda:") for device in devices):
        mend = "pip install cuda-bindings nvidia-ml-py"
        there = _is_there("cuda.bindings")
        said = "importable" if there else "not installed: kernels cannot be timed"
        checks.append(CudaCheck("cuda-bindings", there, said, None if there else mend))
    return tuple(checks)


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
