"""f16 as compilers without `_Float16` get it, such as GCC before 12, against numpy's."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from ckwatch.verification.library import COMPILE_FLAGS, SOURCES

CONVERSIONS = """
#include "values.h"
#define EXPORT __attribute__((visibility("default")))
EXPORT void narrow(const float *x, uint16_t *y, int n) { for (int i = 0; i < n; i++) y[i] = (uint16_t)f16_of_f32(x[i]); }
EXPORT void widen(const uint16_t *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = f32_of_f16(x[i]); }
"""


@pytest.fixture(scope="module")
def conversions(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("half")
    (folder / "half.c").write_text(CONVERSIONS)
    command = [compiler, *COMPILE_FLAGS, "-U__FLT16_MAX__", f"-I{SOURCES}", "-shared", f"{folder}/half.c"]
    subprocess.run([*command, "-o", f"{folder}/half.so", "-lm"], check=True)
    return ctypes.CDLL(str(folder / "half.so"))


def test_every_half_is_widened(conversions: ctypes.CDLL) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16)
    found = np.empty(halves.size, np.float32)
    conversions.widen(ctypes.c_void_p(halves.ctypes.data), ctypes.c_void_p(found.ctypes.data), halves.size)
    wanted = halves.view(np.float16).astype(np.float32)
    assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.filterwarnings("ignore:overflow")
def test_floats_are_rounded_to_even(conversions: ctypes.CDLL) -> None:
    ties = (np.arange(1 << 15, dtype=np.uint32) << 13) + 0x38001000  # halfway between two halves
    steps = np.arange(0, 1 << 32, 9973, dtype=np.uint32)
    small = (np.arange(1 << 10, dtype=np.float32) + 0.5) * np.float32(2**-24)  # the same of subnormal ones
    floats = np.concatenate([steps, ties, ties - 1, ties + 1, small.view(np.uint32)]).view(np.float32)
    found = np.empty(floats.size, np.uint16)
    conversions.narrow(ctypes.c_void_p(floats.ctypes.data), ctypes.c_void_p(found.ctypes.data), floats.size)
    wanted, is_nan = floats.astype(np.float16).view(np.uint16), np.isnan(floats)
    assert np.array_equal(found[~is_nan], wanted[~is_nan])
    assert np.isnan(found.view(np.float16)[is_nan]).all()
