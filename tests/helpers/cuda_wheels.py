"""NVIDIA's compiler and headers from the package index, kept between runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ckwatch.compile.toolchain import installations

PACKAGES = (
    "nvidia-cuda-nvcc==13.*",
    "nvidia-cuda-crt==13.*",
    "nvidia-nvvm==13.*",
    "nvidia-cuda-runtime==13.*",
    "nvidia-cuda-cccl==13.*",
    "nvidia-cutlass==4.*",
)


def cuda_packages() -> Path:
    """The folder that they are installed in; the test is skipped where the package index does not have them."""
    digest = hashlib.sha256("\n".join(PACKAGES).encode()).hexdigest()[:8]
    folder = installations.cache_folder(os.environ) / f"tests/cuda-{digest}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(made), *PACKAGES]
    result = subprocess.run(pip, capture_output=True, text=True, check=False)
    if result.returncode:
        shutil.rmtree(made)
        pytest.skip(f"NVIDIA's packages cannot be installed: {result.stderr.strip().splitlines()[-1:]}")
    if not folder.exists():
        made.rename(folder)
    return folder
