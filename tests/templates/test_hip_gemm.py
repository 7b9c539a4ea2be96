"""`hip/gemm_tiled.hip.j2`: its logic runs on the host through a stand-in for HIP (`hip_on_host`)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import pytest

from tests.templates.conftest import Build
from tests.templates.gemm_case import GemmCase, GemmRun, Size
from tests.templates.gemm_rows import CASES, sizes

TEMPLATE = "hip/gemm_tiled.hip.j2"

SMALL = {"BlockSize": 64, "MPerBlock": 32, "NPerBlock": 32, "KPerBlock": 8, "MPerThread": 4, "NPerThread": 4}
WIDE = {"BlockSize": 32, "MPerBlock": 16, "NPerBlock": 64, "KPerBlock": 5, "MPerThread": 4, "NPerThread": 8}
ODD = {"BlockSize": 63, "MPerBlock": 27, "NPerBlock": 14, "KPerBlock": 3, "MPerThread": 3, "NPerThread": 2}
LARGE = {"BlockSize": 256, "MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 16, "MPerThread": 8, "NPerThread": 8}

INSTANCES: dict[str, Mapping[str, int]] = {name: SMALL for name in CASES}
INSTANCES |= {"f16": LARGE, "bf16 bias relu": WIDE, "f32 alpha beta": ODD, "f16 to f32": ODD}


@pytest.mark.parametrize("name", CASES)
def test_results(name: str, build: Build) -> None:
    case = CASES[name]
    library = build(case.unit(TEMPLATE, INSTANCES[name]), case)
    for seed, size in enumerate(sizes(name)):
        library.check(GemmRun(case, size, seed))
