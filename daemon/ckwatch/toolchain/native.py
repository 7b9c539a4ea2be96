"""What `native` means on this machine, by language."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ckwatch.config.archs import ARCHS, CUDA_ARCH
from ckwatch.model.language import Language
from ckwatch.toolchain.devices import amd_devices, nvidia_devices


def native_arch(language: Language, env: Mapping[str, str] | None = None) -> str | None:
    """The arch of the machine's first GPU of a language's vendor; without one `CUDA_ARCH` for CUDA, and None for HIP.

    CUDA's is the one with all of the device's instructions (`sm_90a`) where there is such. It may ask nvidia-smi.
    """
    if language is not Language.CU:
        return next((device.arch for device in amd_devices() if device.arch), None)
    found = next((device.arch for device in nvidia_devices(os.environ if env is None else env)), CUDA_ARCH)
    return f"{found}a" if f"{found}a" in ARCHS else found
