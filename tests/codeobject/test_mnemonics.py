"""One line on each instruction."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.codeobject.mnemonics import explain
from helpers.each_row import each_row

DATA = Path(__file__).parents[1] / "data" / "isa"
MFMA = "matrix unit: D = A · B + C, "


@each_row("mnemonic", (DATA / "mnemonics.txt").read_text().split())
def test_what_ck_compiles_to_is_explained(mnemonic: str) -> None:
    explanation = explain(mnemonic)
    assert explanation is not None
    assert "\n" not in explanation
    assert "{" not in explanation
    assert len(explanation) <= 120


@each_row(
    ("mnemonic", "text"),
    [
        ("v_mfma_f32_32x32x8_f16", f"{MFMA}32×32×8, f16 summed as f32; 16,384 FLOPs a wave"),
        ("v_mfma_f32_32x32x8bf16_1k", f"{MFMA}32×32×8, bf16 summed as f32; 16,384 FLOPs a wave"),
        ("v_mfma_f32_16x16x4f16", f"{MFMA}4 blocks of 16×16×4, f16 summed as f32; 8,192 FLOPs a wave"),
        ("v_mfma_f32_32x32x16_fp8_bf8", f"{MFMA}32×32×16, fp8 · bf8 summed as f32; 32,768 FLOPs a wave"),
        ("v_mfma_i32_16x16x32_i8", f"{MFMA}16×16×32, i8 summed as i32; 16,384 operations a wave"),
        (
            "v_smfmac_f32_32x32x16_f16",
            f"{MFMA}32×32×16, f16 summed as f32, two of four elements of A zero; 32,768 FLOPs a wave",
        ),
        (
            "v_mfma_scale_f32_16x16x128_f8f6f4",
            f"{MFMA}16×16×128, floats of 8, 6 or 4 bits summed as f32, scaled; 65,536 FLOPs a wave",
        ),
        ("v_wmma_f32_16x16x16_f16_w32", f"{MFMA}16×16×16, f16 summed as f32; 8,192 FLOPs a wave"),
        ("v_accvgpr_read_b32", "arch VGPR D = accumulation VGPR A"),
        ("ds_read_b128", "16 bytes a lane, LDS → registers"),
        ("ds_load_b128", "16 bytes a lane, LDS → registers"),
        ("ds_read2st64_b32", "twice 4 bytes a lane, LDS → registers, at two offsets, in steps of 64 elements"),
        (
            "ds_load_2addr_stride64_b32",
            "twice 4 bytes a lane, LDS → registers, at two offsets, in steps of 64 elements",
        ),
        ("ds_write_b16_d16_hi", "2 bytes a lane, registers → LDS, half a register"),
        ("ds_read_b64_tr_b16", "8 bytes a lane, LDS → registers, transposed for the matrix unit"),
        ("ds_add_rtn_f32", "atomic in LDS"),
        ("buffer_load_dwordx4", "16 bytes a lane, memory by a buffer descriptor → registers"),
        ("buffer_load_b128", "16 bytes a lane, memory by a buffer descriptor → registers"),
        ("buffer_load_ushort", "2 bytes a lane, memory by a buffer descriptor → registers"),
        ("global_store_short_d16_hi", "2 bytes a lane, registers → memory, half a register"),
        ("global_load_lds_dwordx4", "16 bytes a lane, memory → LDS, not through registers"),
        ("scratch_store_dword", "4 bytes a lane, registers → scratch (spilled registers, local arrays)"),
        ("s_load_dwordx8", "scalar: 32 bytes, memory (constants, kernel arguments) → registers"),
        ("s_load_b256", "scalar: 32 bytes, memory (constants, kernel arguments) → registers"),
        ("global_atomic_pk_add_f16", "atomic in memory"),
        ("v_add_f32_e32", "D = A + B, f32"),
        ("v_subrev_u32_e32", "D = B − A, u32"),
        ("v_fma_f32", "D = A · B + C, f32"),
        ("v_fmac_f32_e32", "D = A · B + D, f32"),
        ("v_fmamk_f32", "D = A · a constant + B, f32"),
        ("v_lshlrev_b32_e32", "D = B << A, 32 bits"),
        ("v_ashrrev_i16_e32", "D = B >> A, filled with the sign, 16 bits"),
        ("v_cvt_f16_f32_e32", "D = A from f32 to f16"),
        ("v_cvt_pkrtz_f16_f32", "D = two f32 → two f16, towards zero"),
        ("v_cmp_nlt_f32_e64", "mask of lanes = (not A < B), f32"),
        ("v_cmpx_gt_u64_e64", "EXEC = (A > B), u64: chooses the active lanes"),
        ("s_and_saveexec_b64", "EXEC = EXEC and A, D = EXEC before: chooses the active lanes"),
        ("s_andn2_saveexec_b64", "EXEC = A and not EXEC, D = EXEC before: chooses the active lanes"),
        ("s_and_not1_saveexec_b32", "EXEC = A and not EXEC, D = EXEC before: chooses the active lanes"),
        ("s_andn2_b64", "scalar: D = A and not B, 64 bits (often a mask of lanes); SCC: D ≠ 0"),
        ("s_cmp_lt_i32", "scalar: SCC = (A < B), i32"),
        ("s_cmpk_lg_i32", "scalar: SCC = (A ≠ B), i32"),
        ("s_cbranch_scc1", "branches if SCC = 1"),
        ("s_cbranch_vccnz", "branches if VCC ≠ 0: true in some lane"),
        ("s_barrier", "waits until all waves of the workgroup are here"),
        ("v_dot2_f32_f16", "D = A·B + C over 2 products, f16 summed as f32"),
        ("v_dot2c_f32_f16_e32", "D = A·B + D over 2 products, f16 summed as f32"),
        ("v_med3_f32", "D = the middle of A, B and C, f32"),
        ("v_cvt_pk_u8_f32", "D = a word with one byte replaced by A as u8"),
        ("s_addk_i32", "scalar: D = D + a constant of 16 bits"),
        ("s_getpc_b64", "scalar: D = the address of the next instruction: far jumps and calls begin so"),
        ("v_dual_fmac_f32::v_dual_mov_b32", "issued together: D = A · B + D, f32; D = A, 32 bits"),
    ],
)
def test_by_name(mnemonic: str, text: str) -> None:
    assert explain(mnemonic) == text


@each_row(
    ("mnemonic", "operands", "text"),
    [
        ("s_waitcnt", "vmcnt(0)", "waits until no vector memory operation is outstanding"),
        ("s_waitcnt", "lgkmcnt(1)", "waits until at most 1 LDS or scalar memory operation is outstanding"),
        ("s_waitcnt", "lgkmcnt(7)", "waits until at most 7 LDS or scalar memory operations are outstanding"),
        (
            "s_waitcnt",
            "vmcnt(3) lgkmcnt(0)",
            "waits until at most 3 vector memory operations and no LDS or scalar memory operation are outstanding",
        ),
        ("s_waitcnt", "", "waits for memory operations that are outstanding"),
        ("s_waitcnt_vscnt", "null, 0x0", "waits until no store is outstanding"),
        ("s_wait_loadcnt", "0x3", "waits until at most 3 loads are outstanding"),
        ("s_wait_dscnt", "0x0", "waits until no LDS operations are outstanding"),
        ("s_wait_loadcnt_dscnt", "0x203", "waits until at most 2 loads and at most 3 LDS operations are outstanding"),
        ("s_nop", "1", "does nothing for 2 wait states, until a result is ready"),
        ("s_setprio", "3", "priority 3 (3 is the highest) among the waves of the SIMD"),
        ("s_clause", "0x3", "the next 4 instructions are issued without a break, for the caches' sake"),
        (
            "buffer_load_dword",
            "v1, s[0:3], 0 offen lds",
            "4 bytes a lane, memory by a buffer descriptor → LDS, not through registers",
        ),
        (
            "buffer_load_dword",
            "v1, s[0:3], 0 offen nt",
            "4 bytes a lane, memory by a buffer descriptor → registers; not worth keeping in caches",
        ),
        ("v_add_f32_dpp", "v0, v1, v2 row_shr:1 row_mask:0xf", "D = A + B, f32; A from another lane (row_shr:1)"),
        ("v_mov_b32_dpp", "v1, v2 quad_perm:[1,0,3,2]", "D = A, 32 bits; A from another lane (quad_perm:[1,0,3,2])"),
        ("v_or_b32_sdwa", "v0, v1, v2 dst_sel:DWORD", "D = A or B, 32 bits; on bytes or halves of registers"),
        ("v_dual_mov_b32", "v1, 0 :: v_dual_add_f32 v2, v3, v4", "issued together: D = A, 32 bits; D = A + B, f32"),
    ],
)
def test_by_operands(mnemonic: str, operands: str, text: str) -> None:
    assert explain(mnemonic, operands) == text


@pytest.mark.parametrize(
    "mnemonic", ["", "...", "mov", "v_", "v_new_thing_f32", "s_new_thing", ".long", "v_dual_x_f32"]
)
def test_what_is_not_known_is_not_guessed(mnemonic: str) -> None:
    assert explain(mnemonic) is None
