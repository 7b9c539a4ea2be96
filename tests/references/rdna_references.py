"""gfx1100's instructions: what it calls those that gfx9 has too, and what the others compute, from the "RDNA3 Instruction
Set Architecture" document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from references.instruction_text import Text, parse
from references.vector_references import VECTOR, Reference

RENAMED = {
    **{f"v_{kind}_{usual}": f"v_{kind}_nc_{usual}" for kind in ("add", "sub") for usual in ("u32", "i32", "u16", "i16")},
    **{f"v_cvt_pknorm_{to}_{of}": f"v_cvt_pk_norm_{to}_{of}" for to in ("i16", "u16") for of in ("f16", "f32")},
    **{f"{kind}_tru_{of}": f"{kind}_t_{of}" for kind in ("v_cmp", "v_cmpx") for of in ("f16", "f32", "f64")},
    "v_subrev_u32": "v_subrev_nc_u32", "v_addc_co_u32": "v_add_co_ci_u32", "v_subb_co_u32": "v_sub_co_ci_u32",
    "v_subbrev_co_u32": "v_subrev_co_ci_u32", "v_cvt_pkrtz_f16_f32": "v_cvt_pk_rtz_f16_f32",
    "v_cvt_rpi_i32_f32": "v_cvt_nearest_i32_f32", "v_cvt_flr_i32_f32": "v_cvt_floor_i32_f32",
    "v_ffbh_u32": "v_clz_i32_u32", "v_ffbh_i32": "v_cls_i32", "v_ffbl_b32": "v_ctz_i32_b32",
    "v_mul_legacy_f32": "v_mul_dx9_zero_f32", "v_dot2c_f32_f16": "v_dot2acc_f32_f16",
}  # fmt: skip
USUAL = {own: usual for usual, own in RENAMED.items()}
LEFT_OUT = {"v_sat_pk_u8_i16", "v_dot4_i32_i8", "v_dot8_i32_i4"}
"""Refused, as its result has 16 bits; and what the assembler takes as another spelling of v_dot4_i32_iu8."""

RDNA: dict[str, Reference] = {}


def _add(name: str, types: str, compute: Any, **others: Any) -> None:
    result, _, sources = types.partition("<")
    RDNA[name] = Reference(name, (result.strip(),), tuple(sources.split()), compute, targets="gfx1100", **others)


def _smaller(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a) | np.isnan(b), np.fmin(a, b), np.where(np.signbit(a) & (a == b), a, np.fmin(b, a)))


def _larger(a: Any, b: Any) -> Any:
    return -_smaller(-a, -b)


def _dot(width: int, signs: int) -> Any:
    def part(words: Any, shift: int, signed: int) -> Any:
        value = words >> shift & ((1 << width) - 1)
        return np.where(signed and value >> (width - 1), value - (1 << width), value)

    def dot(a: Any, b: Any, c: Any) -> Any:
        return c + sum(part(a, s, signs & 1) * part(b, s, signs & 2) for s in range(0, 32, width))

    return dot


def _packed(a: Any, b: Any, low: int, high: int) -> Any:
    """Cut off and limited to 16 bits each; NaN is 0."""
    halves = [
        np.trunc(np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0), low, high)).astype(np.int64) for x in (a, b)
    ]
    return halves[0] & 0xFFFF | (halves[1] & 0xFFFF) << 16


def _for_light(a: Any, b: Any, c: Any) -> Any:
    most = np.finfo(np.float32).max
    product = np.where((a == 0) | (b == 0), np.float32(0), a * b)
    return np.where((b > -most) & (c > 0), product, -most)


def _dot2(a: Any, b: Any, c: Any) -> Any:
    def half(words: Any, shift: int) -> Any:
        return (words >> shift & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float64)

    low = VECTOR["v_fma_f16"].compute(half(a, 0), half(b, 0), c)
    return VECTOR["v_fma_f16"].compute(half(a, 16), half(b, 16), np.asarray(low).astype(np.float16).astype(np.float64))


_add("v_mov_b16", "u16 < u16", lambda a: a)
_add("v_not_b16", "u16 < u16", lambda a: ~a)
_add("v_and_b16", "u16 < u16 u16", lambda a, b: a & b)
_add("v_or_b16", "u16 < u16 u16", lambda a, b: a | b)
_add("v_xor_b16", "u16 < u16 u16", lambda a, b: a ^ b)
_add("v_cvt_i32_i16", "i32 < i16", lambda a: a)
_add("v_cvt_u32_u16", "u32 < u16", lambda a: a)
_add("v_xor3_b32", "u32 < u32 u32 u32", lambda a, b, c: a ^ b ^ c)
for _type in ("i32", "u32"):
    _add(f"v_minmax_{_type}", f"{_type} < {_type} {_type} {_type}", lambda a, b, c: np.maximum(np.minimum(a, b), c))
    _add(f"v_maxmin_{_type}", f"{_type} < {_type} {_type} {_type}", lambda a, b, c: np.minimum(np.maximum(a, b), c))
for _type in ("f16", "f32"):
    _add(f"v_minmax_{_type}", f"{_type} < {_type} {_type} {_type}", lambda a, b, c: _larger(_smaller(a, b), c))
    _add(f"v_maxmin_{_type}", f"{_type} < {_type} {_type} {_type}", lambda a, b, c: _smaller(_larger(a, b), c))
_add("v_fmac_f16", "f16 < f16 f16", VECTOR["v_fma_f16"].compute, old=True, ulps=VECTOR["v_fma_f16"].ulps)
for _name in ("v_fmamk_f16", "v_fmaak_f16"):
    _add(_name, "f16 < f16 f16 f16", VECTOR["v_fma_f16"].compute, ulps=VECTOR["v_fma_f16"].ulps)
_add("v_dot4_i32_iu8", "i32 < u32 u32 i32", _dot(8, 1))
_add("v_dot8_i32_iu4", "i32 < u32 u32 i32", _dot(4, 2))
_add("v_cvt_pk_i16_f32", "u32 < f32 f32", lambda a, b: _packed(a, b, -32768, 32767))
_add("v_cvt_pk_u16_f32", "u32 < f32 f32", lambda a, b: _packed(a, b, 0, 65535))
_add("v_mullit_f32", "f32 < f32 f32 f32", lambda a, b, c: _for_light(a, b, c))
_add("v_dot2_f16_f16", "f16 < u32 u32 f16", lambda a, b, c: _dot2(a, b, c))
SIGNS = {"v_dot4_i32_iu8": " neg_lo:[1,0,0]", "v_dot8_i32_iu4": " neg_lo:[0,1,0]"}

_HALF = ("f16", "h16", "u16", "i16")


def _register(kind: str, first: int, half: str) -> str:
    if kind == "m":
        return "vcc_lo"
    words = {"f64": 2, "u64": 2, "i64": 2, "u128": 4}.get(kind, 1)
    return f"v[{first}:{first + words - 1}]" if words > 1 else f"v{first}{half if kind in _HALF else ''}"


def rdna_lines() -> Iterator[str]:
    """Requests to the assembler; it refuses what gfx1100 lacks."""
    for number, reference in enumerate([*VECTOR.values(), *RDNA.values()]):
        if reference.name.startswith("v_cmpx") or reference.name in LEFT_OUT:
            continue
        for step in range(2):
            halves = [(".l", ".h")[(number >> bit) + step & 1] for bit in range(4)]
            results = [_register(kind, 10 + 2 * n, halves[3]) for n, kind in enumerate(reference.results)]
            sources = [_register(kind, 20 + 10 * n, halves[n]) for n, kind in enumerate(reference.sources)]
            name = RENAMED.get(reference.name, reference.name)
            if name.startswith(("v_fmamk_", "v_fmaak_")):
                sources[1 if "mk" in name else 2] = "0x3c66" if name.endswith("f16") else "0x40490fdb"
            yield f"{name} {', '.join(results + sources)}{SIGNS.get(reference.name, '')}"
    yield from OTHER


OTHER = (
    "v_cmpx_lt_f32 v20, v30", "v_cmpx_gt_i32_e64 s20, v30", "v_add_f32_e64_dpp v10, v20, v30 row_xmask:5 row_mask:0xf bank_mask:0xf",
    "v_mov_b32_dpp v10, v20 row_share:3 row_mask:0xf bank_mask:0xf fi:1", "v_cmp_eq_u32_e64 s5, v20, v30",
    "v_add_f16_dpp v10.h, v20.l, v30.h row_ror:1 row_mask:0xf bank_mask:0xf",
    "v_cndmask_b16 v10.h, v20.l, v30.h, s20", "v_permlane16_b32 v10, v20, s20, s21", "v_permlanex16_b32 v10, v20, s20, s21",
    "v_dual_mov_b32 v10, v21 :: v_dual_mov_b32 v21, v10", "v_dual_add_f32 v10, v20, v30 :: v_dual_mul_f32 v21, v10, v31",
    "v_dual_cndmask_b32 v10, v20, v30 :: v_dual_fmac_f32 v21, v10, v31",
    *(f"s_{name}_saveexec_b32 s10, s20" for name in ("and", "or", "xor", "nand", "nor", "xnor", "and_not0", "and_not1",
                                                     "or_not0", "or_not1")),
    "s_pack_hl_b32_b16 s10, s20, s21", "s_and_not1_b32 s10, s20, s21", "s_clz_i32_u32 s10, s20", "s_ctz_i32_b32 s10, s20",
    "s_round_mode 0x0", "s_denorm_mode 0xa", "s_getreg_b32 s10, hwreg(HW_REG_MODE, 0, 8)",
    "s_delay_alu instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_3)", "s_clause 0x1", "s_waitcnt_depctr 0xfff",
    "s_waitcnt_vscnt null, 0x0", "s_waitcnt_vmcnt null, 0x0", "s_waitcnt_lgkmcnt null, 0x0", "s_waitcnt_expcnt null, 0x0",
    "v_movreld_b32 v10, v20", "v_movrels_b32 v10, v20", "v_movrelsd_b32 v10, v20", "v_movrelsd_2_b32 v10, v20",
    "v_swap_b16 v10.l, v20.h", "v_swap_b16 v10.h, v20.h", "v_permlane64_b32 v10, v20", "v_dot2_bf16_bf16 v10.l, v20, v30, v40.h",
    "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(1)", "s_waitcnt lgkmcnt(0)",
    "s_set_inst_prefetch_distance 0x1", "buffer_gl0_inv", "buffer_gl1_inv", "buffer_load_b32 v10, v20, s[0:3], 0 offen",
    "global_load_b32 v10, v[20:21], off", "global_load_b32 v11, v[20:21], off offset:4", "global_store_b32 v[20:21], v30, off",
    "global_load_d16_b16 v10, v[20:21], off", "global_load_d16_hi_b16 v10, v[20:21], off", "v_mov_b32 v12, v10",
    "ds_store_b32 v20, v30", "ds_load_b32 v10, v20", "ds_load_2addr_b32 v[10:11], v20 offset1:1",
    "ds_cmpstore_rtn_b32 v10, v20, v30, v40", "ds_bpermute_b32 v10, v20, v30", "s_load_b64 s[10:11], s[20:21], 0x8",
    "v_wmma_f32_16x16x16_f16 v[40:47], v[20:27], v[30:37], v[50:57]", "v_wmma_f32_16x16x16_bf16 v[40:47], v[20:27], v[30:37], 0",
    "v_wmma_f16_16x16x16_f16 v[40:47], v[20:27], v[30:37], v[40:47] op_sel:[0,0,1]",
    "v_wmma_bf16_16x16x16_bf16 v[40:47], v[20:27], v[30:37], v[50:57]",
    "v_wmma_i32_16x16x16_iu8 v[40:47], v[20:23], v[30:33], v[50:57] neg_lo:[1,0,0]",
    "v_wmma_i32_16x16x16_iu8 v[40:47], v[20:23], v[30:33], v[50:57] neg_lo:[0,1,0] clamp",
    "v_wmma_i32_16x16x16_iu4 v[40:47], v[20:21], v[30:31], v[50:57] neg_lo:[1,1,0]",
)  # fmt: skip


def usual(line: str) -> Text:
    """A line of gfx1100 as gfx9's instruction of the same meaning; halves become op_sel."""
    halves = re.findall(r"v\d+\.[lh]|\bv\[?\d+|\bs\d+|vcc_lo|0x[0-9a-f]+", line.partition(" // ")[0].partition(" ")[2])
    text = parse(re.sub(r"(v\d+)\.[lh]", r"\1", line).replace("vcc_lo", "vcc"))
    text.name = USUAL.get(text.base, text.base)
    count = len(reference_of(text).results)
    upper = ["1" if half.endswith(".h") else "0" for half in halves]
    if any(".h" in half for half in halves):
        text.modifiers["op_sel"] = ",".join(upper[count:] + upper[:1])
    return text


def reference_of(text: Text) -> Reference:
    """By gfx9's name, or gfx1100's own."""
    return RDNA[text.base] if text.base in RDNA else VECTOR[text.base]
