"""Instructions that are recorded beside those of the vector references' forms."""

from __future__ import annotations

SHAPES = {
    "v_mfma_f32_16x16x16_bf16": (4, 2, 2),
    "v_mfma_f32_16x16x16_f16": (4, 2, 2),
    "v_mfma_f32_16x16x16bf16_1k": (4, 2, 2),
    "v_mfma_f32_16x16x16f16": (4, 2, 2),
    "v_mfma_f32_16x16x1_4b_f32": (16, 1, 1),
    "v_mfma_f32_16x16x1f32": (16, 1, 1),
    "v_mfma_f32_16x16x2bf16": (16, 1, 1),
    "v_mfma_f32_16x16x32_bf16": (4, 4, 4),
    "v_mfma_f32_16x16x32_bf8_bf8": (4, 2, 2),
    "v_mfma_f32_16x16x32_bf8_fp8": (4, 2, 2),
    "v_mfma_f32_16x16x32_f16": (4, 4, 4),
    "v_mfma_f32_16x16x32_fp8_bf8": (4, 2, 2),
    "v_mfma_f32_16x16x32_fp8_fp8": (4, 2, 2),
    "v_mfma_f32_16x16x4_4b_bf16": (16, 2, 2),
    "v_mfma_f32_16x16x4_4b_f16": (16, 2, 2),
    "v_mfma_f32_16x16x4_f32": (4, 1, 1),
    "v_mfma_f32_16x16x4bf16_1k": (16, 2, 2),
    "v_mfma_f32_16x16x4f16": (16, 2, 2),
    "v_mfma_f32_16x16x4f32": (4, 1, 1),
    "v_mfma_f32_16x16x8_xf32": (4, 2, 2),
    "v_mfma_f32_16x16x8bf16": (4, 1, 1),
    "v_mfma_f32_32x32x16_bf16": (16, 4, 4),
    "v_mfma_f32_32x32x16_bf8_bf8": (16, 2, 2),
    "v_mfma_f32_32x32x16_bf8_fp8": (16, 2, 2),
    "v_mfma_f32_32x32x16_f16": (16, 4, 4),
    "v_mfma_f32_32x32x16_fp8_bf8": (16, 2, 2),
    "v_mfma_f32_32x32x16_fp8_fp8": (16, 2, 2),
    "v_mfma_f32_32x32x1_2b_f32": (32, 1, 1),
    "v_mfma_f32_32x32x1f32": (32, 1, 1),
    "v_mfma_f32_32x32x2_f32": (16, 1, 1),
    "v_mfma_f32_32x32x2bf16": (32, 1, 1),
    "v_mfma_f32_32x32x2f32": (16, 1, 1),
    "v_mfma_f32_32x32x4_2b_bf16": (32, 2, 2),
    "v_mfma_f32_32x32x4_2b_f16": (32, 2, 2),
    "v_mfma_f32_32x32x4_xf32": (16, 2, 2),
    "v_mfma_f32_32x32x4bf16": (16, 1, 1),
    "v_mfma_f32_32x32x4bf16_1k": (32, 2, 2),
    "v_mfma_f32_32x32x4f16": (32, 2, 2),
    "v_mfma_f32_32x32x8_bf16": (16, 2, 2),
    "v_mfma_f32_32x32x8_f16": (16, 2, 2),
    "v_mfma_f32_32x32x8bf16_1k": (16, 2, 2),
    "v_mfma_f32_32x32x8f16": (16, 2, 2),
    "v_mfma_f32_4x4x1_16b_f32": (4, 1, 1),
    "v_mfma_f32_4x4x1f32": (4, 1, 1),
    "v_mfma_f32_4x4x2bf16": (4, 1, 1),
    "v_mfma_f32_4x4x4_16b_bf16": (4, 2, 2),
    "v_mfma_f32_4x4x4_16b_f16": (4, 2, 2),
    "v_mfma_f32_4x4x4bf16_1k": (4, 2, 2),
    "v_mfma_f32_4x4x4f16": (4, 2, 2),
    "v_mfma_f64_16x16x4_f64": (8, 2, 2),
    "v_mfma_f64_16x16x4f64": (8, 2, 2),
    "v_mfma_f64_4x4x4_4b_f64": (2, 2, 2),
    "v_mfma_f64_4x4x4f64": (2, 2, 2),
    "v_mfma_i32_16x16x16i8": (4, 1, 1),
    "v_mfma_i32_16x16x32_i8": (4, 2, 2),
    "v_mfma_i32_16x16x4_4b_i8": (16, 1, 1),
    "v_mfma_i32_16x16x4i8": (16, 1, 1),
    "v_mfma_i32_16x16x64_i8": (4, 4, 4),
    "v_mfma_i32_32x32x16_i8": (16, 2, 2),
    "v_mfma_i32_32x32x32_i8": (16, 4, 4),
    "v_mfma_i32_32x32x4_2b_i8": (32, 1, 1),
    "v_mfma_i32_32x32x4i8": (32, 1, 1),
    "v_mfma_i32_32x32x8i8": (16, 1, 1),
    "v_mfma_i32_4x4x4_16b_i8": (4, 1, 1),
    "v_mfma_i32_4x4x4i8": (4, 1, 1),
    "v_smfmac_f32_16x16x128_bf8_bf8": (4, 4, 8),
    "v_smfmac_f32_16x16x128_bf8_fp8": (4, 4, 8),
    "v_smfmac_f32_16x16x128_fp8_bf8": (4, 4, 8),
    "v_smfmac_f32_16x16x128_fp8_fp8": (4, 4, 8),
    "v_smfmac_f32_16x16x32_bf16": (4, 2, 4),
    "v_smfmac_f32_16x16x32_f16": (4, 2, 4),
    "v_smfmac_f32_16x16x64_bf16": (4, 4, 8),
    "v_smfmac_f32_16x16x64_bf8_bf8": (4, 2, 4),
    "v_smfmac_f32_16x16x64_bf8_fp8": (4, 2, 4),
    "v_smfmac_f32_16x16x64_f16": (4, 4, 8),
    "v_smfmac_f32_16x16x64_fp8_bf8": (4, 2, 4),
    "v_smfmac_f32_16x16x64_fp8_fp8": (4, 2, 4),
    "v_smfmac_f32_32x32x16_bf16": (16, 2, 4),
    "v_smfmac_f32_32x32x16_f16": (16, 2, 4),
    "v_smfmac_f32_32x32x32_bf16": (16, 4, 8),
    "v_smfmac_f32_32x32x32_bf8_bf8": (16, 2, 4),
    "v_smfmac_f32_32x32x32_bf8_fp8": (16, 2, 4),
    "v_smfmac_f32_32x32x32_f16": (16, 4, 8),
    "v_smfmac_f32_32x32x32_fp8_bf8": (16, 2, 4),
    "v_smfmac_f32_32x32x32_fp8_fp8": (16, 2, 4),
    "v_smfmac_f32_32x32x64_bf8_bf8": (16, 4, 8),
    "v_smfmac_f32_32x32x64_bf8_fp8": (16, 4, 8),
    "v_smfmac_f32_32x32x64_fp8_bf8": (16, 4, 8),
    "v_smfmac_f32_32x32x64_fp8_fp8": (16, 4, 8),
    "v_smfmac_i32_16x16x128_i8": (4, 4, 8),
    "v_smfmac_i32_16x16x64_i8": (4, 2, 4),
    "v_smfmac_i32_32x32x32_i8": (16, 2, 4),
    "v_smfmac_i32_32x32x64_i8": (16, 4, 8),
}
"""Registers of D and C, of A and of B, for every MFMA and SMFMAC except f8f6f4; A of SMFMAC is half as long."""

SMALL_SHAPES = {"v_mfma_f32_16x16x128_f8f6f4": 4, "v_mfma_f32_32x32x64_f8f6f4": 16}
SMALL_REGISTERS = (8, 8, 6, 6, 4)
"""Of A or B in fp8, bf8, fp6, bf6 and fp4."""


def vector(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def _matrix() -> list[str]:
    lines = []
    for name, (d, a, b) in SHAPES.items():
        sources = f"{name} {vector(4, d)}, {vector(64, a)}, {vector(96, b)}"
        if "smfmac" in name:
            lines += [f"{sources}, v202 {rest}".strip() for rest in ("", "abid:1", "abid:2", "cbsz:1 abid:1")]
            continue
        same = f"{sources}, {vector(4, d)}"
        sources += f", {vector(160, d)}"
        constant = sources.replace(vector(160, d), "1.0")
        neg = ["neg:[1,0,0]", "neg:[0,1,1]", "blgp:3"] if "f64" in name else []
        lines += [sources, same, constant, *(f"{sources} {rest}" for rest in neg)]
        if "f64" not in name:
            lines += [f"{sources} {rest}" for rest in ("cbsz:1 abid:1", "cbsz:2 abid:3", "cbsz:4 abid:13")]
            lines += [f"{sources} blgp:{n}" for n in (1, 2, 3, 4, 5, 7)]
    for name, d in SMALL_SHAPES.items():
        for left, a in enumerate(SMALL_REGISTERS):
            for right, b in enumerate(SMALL_REGISTERS):
                text = f"{vector(4, d)}, {vector(64, a)}, {vector(96, b)}, {vector(160, d)}"
                formats = f"{f'cbsz:{left} ' if left else ''}{f'blgp:{right}' if right else ''}"
                selects = ["", "op_sel:[1,0,0] op_sel_hi:[0,1,0]", "op_sel:[0,1,0] op_sel_hi:[1,1,0]"][
                    (left + right) % 3
                ]
                lines.append(f"{name} {text} {formats}".strip())
                lines.append(f"{name.replace('mfma', 'mfma_scale')} {text}, v200, v201 {selects} {formats}".strip())
    return lines


MATRIX = _matrix()

_SMALL_PAIRS = [(f"v_cvt_{kind}_{small}", small) for small in ("fp8", "bf8") for kind in ("f32", "pk_f32")]


def _scaled() -> list[str]:
    """v_cvt_scalef32_…"""
    lines = []
    for small in ("fp8", "bf8"):
        for wide in ("f32", "f16"):
            lines += [
                f"v_cvt_scalef32_{wide}_{small} v10, v20, v30 {bits}".strip()
                for bits in ("", "op_sel:[1,0,0]", "op_sel:[0,1,1]" if wide == "f16" else "op_sel:[1,1,0]")
            ]
        for wide in ("f32", "f16", "bf16"):
            result = "v[10:11]" if wide == "f32" else "v10"
            lines += [
                f"v_cvt_scalef32_pk_{wide}_{small} {result}, v20, v30 {bits}".strip() for bits in ("", "op_sel:[1,0,0]")
            ]
            sources = "v20, v30, v40" if wide == "f32" else "v20, v30"
            lines += [
                f"v_cvt_scalef32_pk_{small}_{wide} v10, {sources} {bits}".strip()
                for bits in ("", "op_sel:[0,0,0,1]" if wide == "f32" else "op_sel:[0,0,1]")
            ]
            lines += [
                f"v_cvt_scalef32_sr_{small}_{wide} v10, v20, v30, v40 {bits}".strip()
                for bits in ("", "op_sel:[0,0,1,0]", "op_sel:[0,0,1,1]")
            ]
    for wide in ("f32", "f16", "bf16"):
        result, sources = ("v[10:11]", "v20, v30, v40") if wide == "f32" else ("v10", "v20, v30")
        lines += [
            f"v_cvt_scalef32_pk_{wide}_fp4 {result}, v20, v30 {bits}".strip()
            for bits in ("", "op_sel:[0,1,0]", "op_sel:[1,1,0]")
        ]
        for bits in ("", "op_sel:[0,0,1,0]", "op_sel:[0,0,1,1]"):
            lines.append(f"v_cvt_scalef32_pk_fp4_{wide} v10, {sources} {bits}".strip())
            pair = "v[20:21]" if wide == "f32" else "v20"
            lines.append(f"v_cvt_scalef32_sr_pk_fp4_{wide} v10, {pair}, v30, v40 {bits}".strip())
        for small in ("fp6", "bf6"):
            count = 32 if wide == "f32" else 16
            lines.append(f"v_cvt_scalef32_pk32_{wide}_{small} {vector(100, count)}, v[20:25], v40")
            lines.append(f"v_cvt_scalef32_sr_pk32_{small}_{wide} v[100:105], {vector(20, count)}, v60, v61")
            if wide == "f32":
                lines.append(f"v_cvt_scalef32_2xpk16_{small}_f32 v[100:105], v[20:35], v[40:55], v60")
            else:
                lines.append(f"v_cvt_scalef32_pk32_{small}_{wide} v[100:105], v[20:35], v40")
    return lines


DIVISION_F64 = [
    "v_div_scale_f64 v[50:51], s[10:11], v[30:31], v[30:31], v[20:21]",
    "v_rcp_f64_e32 v[52:53], v[50:51]",
    "v_fma_f64 v[54:55], -v[50:51], v[52:53], 1.0",
    "v_fma_f64 v[52:53], v[52:53], v[54:55], v[52:53]",
    "v_fma_f64 v[54:55], -v[50:51], v[52:53], 1.0",
    "v_fma_f64 v[52:53], v[52:53], v[54:55], v[52:53]",
    "v_div_scale_f64 v[54:55], vcc, v[20:21], v[30:31], v[20:21]",
    "v_mul_f64 v[56:57], v[54:55], v[52:53]",
    "v_fma_f64 v[50:51], -v[50:51], v[56:57], v[54:55]",
    "v_div_fmas_f64 v[50:51], v[50:51], v[52:53], v[56:57]",
    "v_div_fixup_f64 v[10:11], v[50:51], v[30:31], v[20:21]",
]

OTHER = [
    *DIVISION_F64,
    *("v_readfirstlane_b32 s10, v20", "v_readlane_b32 s10, v20, s21", "v_readlane_b32 s10, v20, 5"),
    *("v_writelane_b32 v10, s20, s21", "v_writelane_b32 v10, -3, 63", "v_swap_b32 v10, v20", "v_nop"),
    *("v_permlane32_swap_b32 v10, v20", "v_permlane16_swap_b32 v10, v20"),
    *(f"v_pk_mov_b32 v[10:11], v[20:21], v[30:31] op_sel:[{a},{b}] op_sel_hi:[{c},{d}]"
      for a, b, c, d in ((0, 0, 1, 1), (1, 0, 0, 1), (0, 1, 0, 0), (1, 1, 1, 0))),
    *("v_div_fmas_f32 v10, v20, v30, v40", "v_div_fmas_f64 v[10:11], v[20:21], v[30:31], v[40:41]"),
    *(f"v_fma_mix{kind} v10, {sources} {bits}".strip()
      for kind in ("_f32", "lo_f16", "hi_f16")
      for sources in ("v20, v30, v40", "-v20, |v30|, -|v40|")
      for bits in ("", "op_sel_hi:[1,1,1]", "op_sel:[1,0,1] op_sel_hi:[1,0,1]", "op_sel:[0,1,0] op_sel_hi:[1,1,0] clamp")),
    *(f"v_bitop3_b32 v10, v20, v30, v40 bitop3:{table:#x}" for table in (0x14, 0x27, 0x96, 0xEA, 0x80)),
    *(f"v_bitop3_b16 v10, v20, v30, v40 bitop3:{table:#x}" for table in (0x14, 0x27, 0x96)),
    "v_bitop3_b16 v10, v20, v30, v40 bitop3:0x36 op_sel:[1,0,1,1]",
    *(f"{name}{suffix}" for name, small in _SMALL_PAIRS
      for suffix in ((" v10, v20", "_sdwa v10, v20 src0_sel:BYTE_2", "_sdwa v10, v20 src0_sel:BYTE_1") if "pk" not in name
                     else (" v[10:11], v20", "_sdwa v[10:11], v20 src0_sel:WORD_1"))),
    *(f"v_cvt_pk_{small}_f32 v10, {sources} {bits}".strip() for small in ("fp8", "bf8")
      for sources in ("v20, v30", "-v20, |v30|") for bits in ("", "op_sel:[0,0,1]")),
    *(f"v_cvt_sr_{small}_f32 v10, v20, v30 {bits}".strip() for small in ("fp8", "bf8")
      for bits in ("", "op_sel:[0,0,1,0]", "op_sel:[0,0,0,1]", "op_sel:[0,0,1,1]")),
    *(f"v_cvt_sr_{half}_f32 v10, v20, v30 {bits}".strip() for half in ("f16", "bf16") for bits in ("", "op_sel:[0,0,1]")),
    *_scaled(),
    # A division as the compiler writes it.
    *("v_div_scale_f32 v50, s[10:11], v30, v30, v20", "v_div_scale_f32 v51, vcc, v20, v30, v20", "v_rcp_f32_e32 v52, v50"),
    *("v_fma_f32 v53, -v50, v52, 1.0", "v_fma_f32 v52, v53, v52, v52", "v_mul_f32_e32 v53, v51, v52"),
    *("v_fma_f32 v54, -v50, v53, v51", "v_fma_f32 v53, v54, v52, v53", "v_fma_f32 v50, -v50, v53, v51"),
    *("v_div_fmas_f32 v50, v50, v52, v53", "v_div_fixup_f32 v10, v50, v30, v20"),
]  # fmt: skip
