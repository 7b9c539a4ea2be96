"""Which bits of a result are undefined when some of the sources are: only the store of such a bit is a mistake."""

from __future__ import annotations

import numpy as np
import pytest

from references.wave_emulator import LANES, WaveEmulator, WaveState

LOAD = "global_load_dwordx4 v[20:23], v[0:1], off // DC5C8000 147F0000"
WAIT = "s_waitcnt vmcnt(0) // BF8C0F70"
BYTE = "global_store_byte v[2:3], v10, off // DC608000 007F0A02"
SHORT = "global_store_short v[2:3], v10, off // DC688000 007F0A02"
DWORD = "global_store_dword v[2:3], v10, off // DC708000 007F0A02"
PAIR = "global_store_dwordx2 v[2:3], v[10:11], off // DC748000 007F0A02"


@pytest.mark.parametrize(
    ("line", "undefined", "store", "is_mistake"),
    [
        ("v_pk_mov_b32 v[10:11], v[20:21], v[22:23] op_sel:[1,0] // D3B3480A 18022D14", {0, 3}, PAIR, False),
        ("v_pk_mov_b32 v[10:11], v[20:21], v[22:23] op_sel:[1,0] // D3B3480A 18022D14", {2}, PAIR, True),
        ("v_pk_mul_f32 v[10:11], v[20:21], v[22:23] op_sel_hi:[0,1] // D3B1400A 10022D14", {1}, PAIR, False),
        ("v_pk_mul_f32 v[10:11], v[20:21], v[22:23] // D3B1400A 18022D14", {1}, DWORD, False),
        ("v_pk_mul_f32 v[10:11], v[20:21], v[22:23] // D3B1400A 18022D14", {1}, PAIR, True),
    ],
)
def test_dwords_that_are_not_chosen(
    emulator: WaveEmulator, line: str, undefined: set[int], store: str, is_mistake: bool
) -> None:
    found = reports(emulator, line, store, {4 * dword + byte for dword in undefined for byte in range(4)})
    assert found is is_mistake


@pytest.mark.parametrize(
    ("line", "undefined", "store", "is_mistake"),
    [
        ("v_pk_lshrrev_b16 v10, v20, v21 op_sel_hi:[1,0] // D385400A 08022B14", {6, 7}, DWORD, False),
        ("v_pk_lshrrev_b16 v10, v20, v21 // D385400A 18022B14", {6, 7}, SHORT, False),
        ("v_pk_lshrrev_b16 v10, v20, v21 // D385400A 18022B14", {6, 7}, DWORD, True),
        ("v_mad_legacy_u16 v10, v20, v21, v22 // D1EB000A 045A2B14", {1, 5, 9}, BYTE, False),
        ("v_mad_legacy_u16 v10, v20, v21, v22 // D1EB000A 045A2B14", {1}, SHORT, True),
        ("v_lshlrev_b16_e32 v10, 8, v20 // 54142888", {1, 2, 3}, DWORD, False),
        ("v_lshrrev_b16_e32 v10, 8, v20 // 56142888", {0, 2, 3}, DWORD, False),
        ("v_bitop3_b32 v10, v20, v21, v22 bitop3:0xf0 // D234060A C45A2B14", {4, 9}, DWORD, False),
        ("v_bitop3_b32 v10, v20, v21, v22 bitop3:0xc0 // D234060A 045A2B14", {4}, DWORD, True),
    ],
)
def test_bits_that_do_not_count(
    emulator: WaveEmulator, line: str, undefined: set[int], store: str, is_mistake: bool
) -> None:
    assert reports(emulator, line, store, undefined) is is_mistake


def reports(emulator: WaveEmulator, line: str, store: str, undefined: set[int]) -> bool:
    state = WaveState(memory=np.full(32 * LANES, 0x3F, np.uint8), undefined=np.zeros(32 * LANES, np.uint8))
    for byte in undefined:
        state.undefined[byte : 16 * LANES : 16] = 1
    addresses = emulator.memory_address + np.arange(LANES, dtype=np.uint64) * 16
    for row, place in ((0, addresses), (2, addresses + np.uint64(16 * LANES))):
        state.vectors[row : row + 2] = place.view(np.uint32).reshape(LANES, 2).T
    emulator.run([LOAD, WAIT, line, store], "gfx950", state, checked=True, reports=True)
    return bool(emulator.finding())
