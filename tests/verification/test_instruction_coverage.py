"""No instruction is in the emulator's tables that no test executes, but for those that are named here."""

from __future__ import annotations

import re
from pathlib import Path

from references.instruction_text import parse
from references.memory_references import NOTHING, TIMES, has_reference, is_refused
from references.rdna_references import RDNA
from references.scalar_references import SAVES_EXEC, SCALAR
from references.vector_references import VECTOR
from references.wave_emulator import ARCHITECTURES, WaveEmulator, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"
TESTS = Path(__file__).parent

NOT_PRINTED = {
    *("v_mul_lo_i32", "v_accvgpr_read", "v_accvgpr_write", "v_mad_mix_f32"),
}
"""Names that the disassembler has for no target of ours: other spellings, and instructions of older targets."""

RDNA_TABLES = (3, 7, 8)
MEMORY = (4, 5, 6)
"""The tables of memory instructions."""

SPELLED_OTHERWISE = {
    *("global_atomic_sub_clamp", "global_atomic_cond_sub", "global_atomic_cmpswap_f32"),
    *("s_load_dwordx3", "s_buffer_load_dwordx3"),
}
"""gfx9's way to write what gfx12 has; of gfx1100 alone."""

OF_RDNA = {
    *(f"{space}_atomic_{name}" for space in ("global", "flat", "buffer")
      for name in ("min_f32", "max_f32", "cmpswap_f32", "sub_clamp", "cond_sub")),
    *(f"{space}_{kind}" for space in ("s_load", "s_buffer_load") for kind in ("u8", "i8", "u16", "i16", "dwordx3")),
    *("ds_cond_sub_u32", "ds_cond_sub_rtn_u32", "ds_sub_clamp_u32", "ds_sub_clamp_rtn_u32", "ds_bpermute_fi_b32"),
    "global_load_tr_b128",
}  # fmt: skip
"""Of the tables of memory instructions what gfx9 lacks: tests are in test_rdna4_instructions.py."""

ONLY_REPORTED = {"s_trap"}
"""Their effect is a finding; the tests of findings cover it."""

OUT_OF_VIEW = {"s_set_gpr_idx_idx", "s_set_gpr_idx_mode"}
"""The compiler writes s_set_gpr_idx_on and _off alone, which test_relative_vector_registers has."""


def executed() -> set[str]:
    return {parse(line).base for target in ARCHITECTURES for line in recorded(DATA, target) if not is_refused(line)}


def test_every_vector_instruction_has_a_reference(emulator: WaveEmulator) -> None:
    special = "".join((TESTS / f"test_{name}_instructions.py").read_text() for name in ("special", "rdna", "rdna4"))
    scaled = {name for name in executed() if name.startswith("v_cvt_scalef32_")}
    missing = [
        name for name in emulator.instructions(0)
        if name not in {*VECTOR, *RDNA, *scaled, *NOT_PRINTED, *SMALL_FLOATS, *NEW_IN_GFX12} and f'"{name}"' not in special
    ]  # fmt: skip
    assert missing == []
    assert {*VECTOR, *scaled, *SMALL_FLOATS} <= executed()


SMALL_FLOATS = {
    *(f"v_cvt_{wide}_{kind}" for wide in ("f32", "pk_f32") for kind in ("fp8", "bf8")),
    *(f"v_cvt_{way}_{kind}_f32" for way in ("pk", "sr") for kind in ("fp8", "bf8")),
}
NEW_IN_GFX12 = {
    *(f"v_dot4_f32_{a}_{b}" for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
    *(f"v_pk_{name}_bf16" for name in ("add", "mul", "fma", "min", "max")),
    *(f"v_fma_{name}_bf16" for name in ("mixlo", "mixhi")),
    *("v_tanh_f16", "v_tanh_f32", "v_bitop2_b32", "v_fma_mix_f32_bf16"),
}
"""Parametrized in test_rdna4_instructions.py."""
"""Parametrized in test_special_instructions.py by these same parts."""


def test_every_scalar_instruction_has_a_reference(emulator: WaveEmulator) -> None:
    tested = (TESTS / "test_scalar_instructions.py").read_text()
    branches = {f"s_cbranch_{name}" for name in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")}
    known = {*SCALAR, *SAVES_EXEC, *branches, *ONLY_REPORTED, *OUT_OF_VIEW}
    missing = [
        name for name in emulator.instructions(1)
        if name not in known and f'"{name}' not in tested
    ]  # fmt: skip
    assert missing == []


def test_every_matrix_instruction_is_executed(emulator: WaveEmulator) -> None:
    """Names that the disassembler prints; the table has the older spellings as well, with the same handler."""
    from_text = {name for name in executed() if name.startswith(("v_mfma", "v_smfmac"))}
    assert from_text <= set(emulator.instructions(2))
    assert len(from_text) > 80


def test_every_instruction_of_rdna_is_executed(emulator: WaveEmulator) -> None:
    """By its name without `_num`, which the tables leave out."""
    recorded_names = {
        re.sub("_num(?=_)", "", parse(line).base)
        for target in ("gfx1100", "gfx1201", "gfx1250")
        for line in recorded(DATA, target)
    }
    assert {name for table in RDNA_TABLES for name in emulator.instructions(table)} <= recorded_names


def test_every_memory_instruction_has_a_reference(emulator: WaveEmulator) -> None:
    lines = [line for target in ARCHITECTURES for line in recorded(DATA, target)]
    tested = {parse(line).base for line in lines if has_reference(line)}
    in_tables = {name for table in MEMORY for name in emulator.instructions(table)}
    assert in_tables - OF_RDNA == tested | NOTHING | TIMES
    of_gfx12 = {re.sub("_num(?=_)", "", parse(line).base) for line in recorded(DATA, "gfx1201")}
    assert {name for name in OF_RDNA if not name.startswith(("flat_", "buffer_"))} <= of_gfx12 | SPELLED_OTHERWISE


def test_what_is_executed_is_known(emulator: WaveEmulator) -> None:
    tables = {name for table in (*range(3), *MEMORY) for name in emulator.instructions(table)}
    assert executed() <= tables
