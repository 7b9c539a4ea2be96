"""llvm-objdump's text, as instructions; what each of them does."""

from __future__ import annotations

import pytest

from cases.disassemblies import function_of, text_of
from ckwatch.codeobject.disassembly import Instruction, InstructionKind, functions, matrix_shape, traits
from helpers.each_row import each_row

HEADER = "\n0000000000001600 <kernel>:\n"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "\ts_waitcnt lgkmcnt(0)                                       // 000000001B38: BF8CC07F",
            Instruction(0x1B38, "s_waitcnt", "s_waitcnt lgkmcnt(0)", 4),
        ),
        (
            "\tv_mfma_f32_32x32x8_f16 v[50:65], v[158:159], v[154:155], v[50:65]// 0000000024B8: D3CC0032 04CB359E",
            Instruction(
                0x24B8, "v_mfma_f32_32x32x8_f16", "v_mfma_f32_32x32x8_f16 v[50:65], v[158:159], v[154:155], v[50:65]", 8
            ),
        ),
        (
            "\ts_cbranch_scc1 117                                         // 000000001B48: BF850075 <kernel+0x220>",
            Instruction(0x1B48, "s_cbranch_scc1", "s_cbranch_scc1 117", 4, 0x1B4C + 4 * 117),
        ),
        (
            "\ts_cbranch_scc0 65507                                       // 0000000016F0: BFA1FFE3 <kernel+0x80>",
            Instruction(0x16F0, "s_cbranch_scc0", "s_cbranch_scc0 65507", 4, 0x1680),
        ),
        (
            "\ts_branch L3                                                // 0000000016F0: BF82FFFF",
            Instruction(0x16F0, "s_branch", "s_branch L3", 4, 0x16F0),
        ),
        (
            "\ts_setpc_b64 s[2:3]                                         // 000000001340: BE801D02",
            Instruction(0x1340, "s_setpc_b64", "s_setpc_b64 s[2:3]", 4),
        ),
        (
            "\tv_dual_mov_b32 v10, 0 :: v_dual_and_b32 v9, 15, v0         // 000000001628: CA240080 0A08008F",
            Instruction(
                0x1628, "v_dual_mov_b32::v_dual_and_b32", "v_dual_mov_b32 v10, 0 :: v_dual_and_b32 v9, 15, v0", 8
            ),
        ),
    ],
)
def test_an_instruction(line: str, expected: Instruction) -> None:
    (function,) = functions(HEADER + line + "\n")
    assert function.instructions == (expected,)


def test_labels_end_no_function() -> None:
    """As in assembly that was written by hand."""
    nop = "\ts_barrier                                           // 0000000016{:02X}: BF8A0000\n"
    text = (
        HEADER
        + nop.format(0)
        + "\n0000000000001604 <loop>:\n"
        + nop.format(4)
        + "\n0000000000001608 <other>:\n"
        + nop.format(8)
    )
    assert [(one.symbol, len(one.instructions)) for one in functions(text, None, {"loop"})] == [
        ("kernel", 2),
        ("other", 1),
    ]
    assert [(one.symbol, len(one.instructions)) for one in functions(text, ["kernel"])] == [("kernel", 1)]


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("s_endpgm", ()),
        ("v_mov_b32_e32 v10, 0", ("v10", "0")),
        ("buffer_load_dwordx4 v[0:3], v9, s[28:31], 0 offen", ("v[0:3]", "v9", "s[28:31]", "0 offen")),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", ("hwreg(HW_REG_MODE, 0, 4)", "3")),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1] op_sel_hi:[0,1,1]",
         ("v[0:1]", "v[2:3]", "v[4:5]", "v[0:1] op_sel_hi:[0,1,1]")),
    ],
)  # fmt: skip
def test_operands(text: str, operands: tuple[str, ...]) -> None:
    assert Instruction(0, text.partition(" ")[0], text, 4).operands == operands


def test_functions_of_a_code_object() -> None:
    found = functions(text_of("gemm_f16.v1_16x16x128.gfx942"))
    assert [(function.address, len(function.instructions)) for function in found] == [
        (0x1D00, 18), (0x1E00, 462), (0x2900, 322),
    ]  # fmt: skip
    wanted = found[1].symbol
    assert [function.symbol for function in functions(text_of("gemm_f16.v1_16x16x128.gfx942"), [wanted])] == [wanted]


def test_every_branch_goes_where_objdump_says() -> None:
    text = text_of("gemm_f8_row_scales.tiles_64_64_4_4.gfx942")
    told = {}
    for function in functions(text):
        for line in text.splitlines():
            if line.endswith(">") and f"<{function.symbol}" in line and line.startswith("\t"):
                offset = line.rpartition("+0x")[2].rstrip(">") if "+0x" in line else "0"
                told[int(line.partition("// ")[2].partition(":")[0], 16)] = function.address + int(offset, 16)
    found = {
        instruction.address: instruction.target
        for function in functions(text)
        for instruction in function.instructions
        if instruction.target is not None
    }
    assert len(told) == 143
    assert found == told


def test_padding_is_no_code() -> None:
    instructions = function_of("wmma.gfx1100", "wmma").instructions
    assert instructions[-1].mnemonic == "s_endpgm"
    assert len(instructions) == 65


@pytest.mark.parametrize(
    ("text", "instructions", "unknown"),
    [
        ("", [], []),
        ("llvm-objdump: error: 'x': The file was not recognized as a valid object file\n", [], []),
        (HEADER, [0], [0]),
        (HEADER + "\ts_nop 0\n\t\t...\n", [0], [0]),
        (HEADER + "\t.long 0xffffffff  // 000000001600: FFFFFFFF\n\ts_nop 0  // 000000001604: BF800000\n", [1], [1]),
        (HEADER + "\ts_nop 0  // 000000001604: BF800000\n\ts_no", [1], [0]),
        ("\ts_nop 0  // 000000001604: BF800000\n", [], []),
    ],
)
def test_damaged_text(text: str, instructions: list[int], unknown: list[int]) -> None:
    found = functions(text)
    assert [len(function.instructions) for function in found] == instructions
    assert [function.unknown for function in found] == unknown


@each_row(
    ("mnemonic", "kind", "size"),
    [
        ("ds_read_b128", InstructionKind.LDS_READ, 16),
        ("ds_read2_b64", InstructionKind.LDS_READ, 16),
        ("ds_read2st64_b32", InstructionKind.LDS_READ, 8),
        ("ds_read_u16_d16_hi", InstructionKind.LDS_READ, 2),
        ("ds_read_b64_tr_b16", InstructionKind.LDS_READ, 8),
        ("ds_read_b96_tr_b6", InstructionKind.LDS_READ, 12),
        ("ds_load_b128", InstructionKind.LDS_READ, 16),
        ("ds_load_2addr_stride64_b64", InstructionKind.LDS_READ, 16),
        ("ds_write2st64_b32", InstructionKind.LDS_WRITE, 8),
        ("ds_write_b8_d16_hi", InstructionKind.LDS_WRITE, 1),
        ("ds_store_b128", InstructionKind.LDS_WRITE, 16),
        ("ds_add_rtn_u64", InstructionKind.LDS_WRITE, 8),
        ("ds_pk_add_f16", InstructionKind.LDS_WRITE, 4),
        ("ds_bpermute_b32", InstructionKind.OTHER, 0),
        ("buffer_load_dwordx4", InstructionKind.GLOBAL_LOAD, 16),
        ("buffer_load_dword", InstructionKind.GLOBAL_LOAD, 4),
        ("buffer_load_ubyte_d16_hi", InstructionKind.GLOBAL_LOAD, 1),
        ("buffer_load_short_d16", InstructionKind.GLOBAL_LOAD, 2),
        ("buffer_load_format_xy", InstructionKind.GLOBAL_LOAD, 8),
        ("buffer_load_format_d16_xyzw", InstructionKind.GLOBAL_LOAD, 8),
        ("global_load_lds_dwordx4", InstructionKind.GLOBAL_LOAD, 16),
        ("global_load_b128", InstructionKind.GLOBAL_LOAD, 16),
        ("global_load_d16_hi_b16", InstructionKind.GLOBAL_LOAD, 2),
        ("global_load_d16_u8", InstructionKind.GLOBAL_LOAD, 1),
        ("global_load_tr_b64", InstructionKind.GLOBAL_LOAD, 8),
        ("flat_load_dwordx3", InstructionKind.GLOBAL_LOAD, 12),
        ("scratch_load_dword", InstructionKind.GLOBAL_LOAD, 4),
        ("global_store_d16_hi_b16", InstructionKind.GLOBAL_STORE, 2),
        ("global_store_short", InstructionKind.GLOBAL_STORE, 2),
        ("buffer_store_dwordx2", InstructionKind.GLOBAL_STORE, 8),
        ("global_atomic_add_f64", InstructionKind.GLOBAL_STORE, 8),
        ("global_atomic_add", InstructionKind.GLOBAL_STORE, 4),
        ("global_atomic_cmpswap_x2", InstructionKind.GLOBAL_STORE, 8),
        ("buffer_atomic_pk_add_bf16", InstructionKind.GLOBAL_STORE, 4),
        ("buffer_inv", InstructionKind.OTHER, 0),
        ("s_load_dwordx4", InstructionKind.OTHER, 0),
        ("s_buffer_load_dword", InstructionKind.OTHER, 0),
        ("s_nop", InstructionKind.OTHER, 0),
        ("s_delay_alu", InstructionKind.OTHER, 0),
        ("s_waitcnt", InstructionKind.WAIT, 0),
        ("s_wait_loadcnt_dscnt", InstructionKind.WAIT, 0),
        ("s_barrier", InstructionKind.BARRIER, 0),
        ("s_barrier_signal", InstructionKind.BARRIER, 0),
        ("s_cbranch_execz", InstructionKind.BRANCH, 0),
        ("s_setpc_b64", InstructionKind.BRANCH, 0),
        ("s_and_saveexec_b64", InstructionKind.SALU, 0),
        ("v_accvgpr_read_b32", InstructionKind.VALU, 0),
        ("v_dual_mov_b32::v_dual_and_b32", InstructionKind.VALU, 0),
        ("v_smfmac_f32_32x32x16_f16", InstructionKind.MFMA, 0),
        ("an_instruction_of_tomorrow", InstructionKind.OTHER, 0),
    ],
)
def test_traits(mnemonic: str, kind: InstructionKind, size: int) -> None:
    assert (traits(mnemonic).kind, traits(mnemonic).bytes) == (kind, size)


@each_row(
    ("mnemonic", "shape"),
    [
        ("v_mfma_f32_32x32x8_f16", (32, 32, 8, 1)),
        ("v_mfma_f32_32x32x8f16", (32, 32, 8, 1)),
        ("v_mfma_f32_32x32x4f16", (32, 32, 4, 2)),
        ("v_mfma_f32_4x4x4f16", (4, 4, 4, 16)),
        ("v_mfma_f32_4x4x4_16b_f16", (4, 4, 4, 16)),
        ("v_mfma_f32_32x32x1f32", (32, 32, 1, 2)),
        ("v_mfma_f32_32x32x2f32", (32, 32, 2, 1)),
        ("v_mfma_f32_16x16x2bf16", (16, 16, 2, 4)),
        ("v_mfma_f32_32x32x4bf16", (32, 32, 4, 1)),
        ("v_mfma_f32_32x32x4bf16_1k", (32, 32, 4, 2)),
        ("v_mfma_f32_16x16x16bf16_1k", (16, 16, 16, 1)),
        ("v_mfma_i32_16x16x16i8", (16, 16, 16, 1)),
        ("v_mfma_i32_32x32x16_i8", (32, 32, 16, 1)),
        ("v_mfma_f64_16x16x4f64", (16, 16, 4, 1)),
        ("v_mfma_f64_4x4x4f64", (4, 4, 4, 4)),
        ("v_mfma_f32_32x32x4_xf32", (32, 32, 4, 1)),
        ("v_mfma_f32_16x16x32_fp8_bf8", (16, 16, 32, 1)),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", (16, 16, 128, 1)),
        ("v_smfmac_f32_16x16x64_bf8_fp8", (16, 16, 64, 1)),
        ("v_wmma_f32_16x16x16_f16", (16, 16, 16, 1)),
        ("v_swmmac_f32_16x16x32_f16", (16, 16, 32, 1)),
        ("v_mov_b32_e32", None),
    ],
)
def test_matrix_shapes(mnemonic: str, shape: tuple[int, int, int, int] | None) -> None:
    found = matrix_shape(mnemonic)
    assert (found and (found.m, found.n, found.k, found.blocks)) == shape
    if shape is not None:
        m, n, k, blocks = shape
        assert traits(mnemonic).flops == 2 * m * n * k * blocks


@each_row(
    ("mnemonic", "flops"),
    [
        ("v_fma_f32", 2),
        ("v_fmac_f32_e32", 2),
        ("v_pk_fma_f32", 4),
        ("v_pk_mul_f16", 2),
        ("v_fma_mix_f32", 2),
        ("v_dot2_f32_f16", 4),
        ("v_dot4_i32_iu8", 8),
        ("v_add_f32_e32", 1),
        ("v_dual_fmac_f32::v_dual_mul_f32", 3),
        ("v_add_u32_e32", 0),
        ("v_cvt_f32_f16", 0),
        ("s_add_f32", 0),
    ],
)
def test_flops_of_a_lane(mnemonic: str, flops: int) -> None:
    assert traits(mnemonic).flops == flops
