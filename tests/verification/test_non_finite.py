"""The place at which an infinity or NaN first arises; ordinary infinities, such as the initial maximum of a softmax, are not told."""

from __future__ import annotations

import json

import numpy as np
import pytest

from helpers.each_row import each_row
from references.wave_emulator import ALL_ARCHITECTURES, LANES, WaveEmulator, WaveState

INF, NAN = float("inf"), float("nan")
FINITE, INFINITE = "its sources are finite", "its sources are infinite"


def found(emulator: WaveEmulator, line: str, architecture: str, state: WaveState) -> str:
    """The note of the only finding, or nothing."""
    emulator.run([line], architecture, state, checked=True, reports=True, traced=True)
    assert not emulator.finding(1)
    told = emulator.finding()
    return str(json.loads(told)["note"]) if told else ""


def f32(a: float, b: float) -> WaveState:
    state = WaveState()
    state.exec_mask = 0xFF
    state.vectors[20], state.vectors[30] = (np.float32(value).view(np.uint32) for value in (a, b))
    state.vectors[20, 8:] = np.float32(NAN).view(np.uint32)  # of lanes that are not active
    return state


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
@each_row(
    ("line", "a", "b", "note"),
    [
        ("v_sub_f32_e32 v10, v20, v30", -INF, -INF, f"v10 is NaN, {INFINITE}"),
        ("v_mul_f32_e32 v10, v20, v30", INF, 0.0, f"v10 is NaN, {INFINITE}"),
        ("v_mul_f32_e32 v10, 0x7f800000, v20", 0.0, 0.0, f"v10 is NaN, {INFINITE}"),
        ("v_mul_f32_e32 v10, v20, v30", 1e30, 1e30, f"v10 is infinite, {FINITE}"),
        ("v_rcp_f32_e32 v10, v20", 0.0, 0.0, f"v10 is infinite, {FINITE}"),
        ("v_log_f32_e32 v10, v20", 0.0, 0.0, f"v10 is infinite, {FINITE}"),
        ("v_sqrt_f32_e32 v10, v20", -1.0, 0.0, f"v10 is NaN, {FINITE}"),
        ("v_cvt_f16_f32_e32 v10, v20", 1e6, 0.0, f"v10 is infinite, {FINITE}"),
        ("v_cvt_f16_f32_e32 v10, v20", INF, 0.0, ""),
        ("v_mov_b32_e32 v10, 0xff800000", 0.0, 0.0, ""),
        ("v_max_f32_e32 v10, 0xff800000, v20", 3.0, 0.0, ""),
        ("v_max_f32_e32 v10, 0xff800000, v20", -INF, 0.0, ""),
        ("v_sub_f32_e32 v10, v20, v30", -INF, 3.0, ""),
        ("v_add_f32_e32 v10, v20, v30", NAN, -INF, ""),
        ("v_exp_f32_e32 v10, v20", -INF, 0.0, ""),
        ("v_add_f32_e32 v10, v20, v30", 1.0, 2.0, ""),
    ],
)
def test_infinity_arises_from_finite_values_and_nan_from_numbers(
    emulator: WaveEmulator, architecture: str, line: str, a: float, b: float, note: str
) -> None:
    words = " // 0 0" if "0x" in line else " // 0"
    assert found(emulator, line + words, architecture, f32(a, b)) == note


@pytest.mark.parametrize(
    ("line", "dtype", "values", "note"),
    [
        ("v_sub_f16_e32 v10, v20, v30", np.float16, (INF, INF), f"v10 is NaN, {INFINITE}"),
        ("v_sub_f16_e32 v10, v20, v30", np.float16, (INF, 1), ""),
        ("v_pk_mul_f16 v10, v20, v30", np.float16, (300, 300), f"v10 is infinite, {FINITE}"),
        ("v_add_f64 v[10:11], v[20:21], v[30:31]", np.float64, (INF, -INF), f"v11 is NaN, {INFINITE}"),
        ("v_mul_f64 v[10:11], v[20:21], v[30:31]", np.float64, (1e300, 1e300), f"v11 is infinite, {FINITE}"),
    ],
)
def test_other_widths(
    emulator: WaveEmulator, line: str, dtype: type[np.floating], values: tuple[float, float], note: str
) -> None:
    state = WaveState()
    for first, value in zip((20, 30), values, strict=True):
        words = np.full(8 // np.dtype(dtype).itemsize, value, dtype).view(np.uint32)
        state.vectors[first : first + 2] = words[:, None]
    assert found(emulator, f"{line} // 0 0", "gfx942", state) == note


def test_a_product_of_matrices_with_an_infinity(emulator: WaveEmulator) -> None:
    line = "v_mfma_f32_32x32x2f32 v[0:15], v20, v30, v[0:15] // 0 0"
    for a, b, note in ((INF, 0.0, INFINITE), (1e30, 1e30, FINITE), (NAN, 1.0, ""), (INF, 1.0, "")):
        state = WaveState()
        state.vectors[20] = np.full(LANES, a, np.float32).view(np.uint32)
        state.vectors[30] = np.full(LANES, b, np.float32).view(np.uint32)
        assert note in (told := found(emulator, line, "gfx942", state)), told
        assert bool(told) is bool(note)
