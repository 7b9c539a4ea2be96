"""RDNA's instructions: what gfx1100 and gfx1201 call those that gfx9 has too, and what the others compute, from the
"RDNA3 Instruction Set Architecture" and "RDNA4 Instruction Set Architecture" documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from references.instruction_text import Text, parse
from references.vector_references import VECTOR, Reference, maximum, minimum

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
    _add(f"v_minmax_{_type}", f"{_type} < {_type} {_type} {_type}", lambda a, b, c: maximum(minimum(a, b), c))
    _add(f"v_maxmin_{_type}", f"{_type} < {_type} {_type} {_type}", lambda a, b, c: minimum(maximum(a, b), c))
_add("v_fmac_f16", "f16 < f16 f16", VECTOR["v_fma_f16"].compute, old=True, ulps=VECTOR["v_fma_f16"].ulps)
for _name in ("v_fmamk_f16", "v_fmaak_f16"):
    _add(_name, "f16 < f16 f16 f16", VECTOR["v_fma_f16"].compute, ulps=VECTOR["v_fma_f16"].ulps)
_add("v_dot4_i32_iu8", "i32 < u32 u32 i32", _dot(8, 1))
_add("v_dot8_i32_iu4", "i32 < u32 u32 i32", _dot(4, 2))
_add("v_cvt_pk_i16_f32", "u32 < f32 f32", lambda a, b: _packed(a, b, -32768, 32767))
_add("v_cvt_pk_u16_f32", "u32 < f32 f32", lambda a, b: _packed(a, b, 0, 65535))
_add(
    "v_fma_dx9_zero_f32", "f32 < f32 f32 f32",
    lambda a, b, c: np.where((a == 0) | (b == 0), np.float32(0) + c, VECTOR["v_fma_f32"].compute(a, b, c)),
    ulps=VECTOR["v_fma_f32"].ulps,
)  # fmt: skip
_add("v_mullit_f32", "f32 < f32 f32 f32", lambda a, b, c: _for_light(a, b, c))
_add("v_dot2_f16_f16", "f16 < u32 u32 f16", lambda a, b, c: _dot2(a, b, c))
SIGNS = {"v_dot4_i32_iu8": " neg_lo:[1,0,0]", "v_dot8_i32_iu4": " neg_lo:[0,1,0]"}


def _minimum(a: Any, b: Any) -> Any:
    return np.where(np.isnan(a), a, np.where(np.isnan(b), b, minimum(a, b)))


def _maximum(a: Any, b: Any) -> Any:
    return -_minimum(-a, -b)


for _type in ("f16", "f32", "f64"):
    _add(f"v_minimum_{_type}", f"{_type} < {_type} {_type}", _minimum)
    _add(f"v_maximum_{_type}", f"{_type} < {_type} {_type}", _maximum)
for _type in ("f16", "f32"):
    _three = f"{_type} < {_type} {_type} {_type}"
    _add(f"v_minimummaximum_{_type}", _three, lambda a, b, c: _maximum(_minimum(a, b), c))
    _add(f"v_maximumminimum_{_type}", _three, lambda a, b, c: _minimum(_maximum(a, b), c))
    _add(f"v_minimum3_{_type}", _three, lambda a, b, c: _minimum(_minimum(a, b), c))
    _add(f"v_maximum3_{_type}", _three, lambda a, b, c: _maximum(_maximum(a, b), c))
for _name in ("minimum", "maximum"):
    _pair = VECTOR[f"v_pk_{_name}3_f16"]
    _add(f"v_pk_{_name}_f16", "f16x2 < f16x2 f16x2", lambda a, b, compute=_pair.compute: compute(a, b, b))
OF_GFX12 = {name for name in RDNA if "imum" in name}

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
    "s_set_inst_prefetch_distance 0x1", "buffer_gl0_inv", "buffer_gl1_inv", "s_gl1_inv", "s_dcache_inv",
    "s_sendmsg_rtn_b64 s[10:11], sendmsg(MSG_RTN_GET_REALTIME)", "s_sendmsg_rtn_b32 s10, sendmsg(MSG_RTN_GET_DOORBELL)",
    "buffer_load_b32 v10, v20, s[8:11], s16 offen offset:4 glc", "buffer_load_b32 v10, v20, s[0:3], 0 offen",
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


def gfx12_name(name: str) -> str:
    """The name of gfx9's or gfx1100's instruction on gfx12."""
    if re.match(r"v_(pk_)?(min|max|med3|minmax|maxmin|min3|max3)_f\d\d$", name):
        return re.sub(r"_(f\d\d)$", r"_num_\1", name)
    return name.replace("v_mad_u64_u32", "v_mad_co_u64_u32").replace("v_mad_i64_i32", "v_mad_co_i64_i32")


def gfx12_lines() -> Iterator[str]:
    """Requests to the assembler: plain, with a scalar, a constant, modifiers, and the halves that op_sel chooses."""
    for number, reference in enumerate([*VECTOR.values(), *RDNA.values()]):
        if reference.name.startswith("v_cmpx") or reference.name in LEFT_OUT:
            continue
        results = [_register(kind, 10 + 2 * n, "") for n, kind in enumerate(reference.results)]
        sources = [_register(kind, 20 + 10 * n, "") for n, kind in enumerate(reference.sources)]
        name = gfx12_name(RENAMED.get(reference.name, reference.name))
        if "fmamk_" in name or "fmaak_" in name:
            sources[1 if "mk" in name else 2] = "0x3c66" if name.endswith("f16") else "0x40490fdb"
        plain = f"{name} {', '.join(results + sources)}{SIGNS.get(reference.name, '')}"
        yield plain
        if "fmamk_" in name or "fmaak_" in name:
            continue
        wide = f"{name}_e64 " if f"{name}_e64" in plain else f"{name} "
        at = number % len(sources) if sources else 0
        if sources and reference.sources[at] not in ("m", "f64", "u64", "i64", "u128", "f32x2"):
            for other in (
                "s20",
                ("1.0", "-4.0", "0.15915494")[number % 3] if reference.sources[at][0] == "f" else "-13",
            ):
                others = ", ".join([*results, *(other if n == at else s for n, s in enumerate(sources))])
                yield f"{wide}{others}{SIGNS.get(reference.name, '')}"
        if sources and all(kind in ("f16", "f32", "f64", "m") for kind in reference.sources):
            changed = [(f"-{s}", f"|{s}|", f"-|{s}|")[(number + n) % 3] if k != "m" else s
                       for n, (s, k) in enumerate(zip(sources, reference.sources, strict=True))]  # fmt: skip
            yield wide + ", ".join([*results, *changed])
        if reference.results[0] in ("f16", "f32", "f64"):
            yield f"{plain} clamp"
        if any(kind in _HALF for kind in (*reference.results, *reference.sources)):
            for step in range(2):
                bits = [str((number >> n) + step & 1) if kind in _HALF else "0"
                        for n, kind in enumerate((*reference.sources, *reference.results))]  # fmt: skip
                yield f"{plain} op_sel:[{','.join(bits)}]"
        if name.startswith("v_pk_") and name.endswith("16"):
            low, high = ("1,0,1"[: 2 * len(sources) - 1], "0,1,0"[: 2 * len(sources) - 1])
            yield f"{plain} op_sel:[{low}] op_sel_hi:[{high}]"
            yield f"{plain} neg_lo:[{low}] neg_hi:[{high}]"
    yield from GFX12_OTHER


GFX12_OTHER = (
    "v_add_f32_e64_dpp v10, v20, v30 row_xmask:5 row_mask:0xf bank_mask:0xf",
    "v_mov_b32_dpp v10, v20 row_share:3 row_mask:0xf bank_mask:0xf fi:1",
    *(f"v_cvt_f32_{kind}_e64 v10, v20 byte_sel:{byte}" for kind in ("fp8", "bf8") for byte in range(4)),
    *(f"v_cvt_f32_{kind} v10, v20" for kind in ("fp8", "bf8")),
    *(f"v_cvt_pk_f32_{kind} v[10:11], v20{half}" for kind in ("fp8", "bf8") for half in ("", " op_sel:[1,0]")),
    *(f"v_cvt_pk_{kind}_f32 v10, v20, v30{half}" for kind in ("fp8", "bf8") for half in ("", " op_sel:[0,0,1]")),
    *(f"v_cvt_sr_{kind}_f32 v10, v20, v30 byte_sel:{byte}" for kind in ("fp8", "bf8") for byte in range(4)),
    *(f"v_dot4_f32_{a}_{b} v10, v20, v30, v40" for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
    *(f"v_s_{name}_{kind} s10, s20" for name in ("exp", "log", "rcp", "rsq", "sqrt") for kind in ("f32", "f16")),
    "v_s_exp_f32 s10, -|s20|", "v_s_rcp_f32 s10, s20 clamp", "v_permlane16_var_b32 v10, v20, v30",
    "v_permlanex16_var_b32 v10, v20, v30", "v_dual_max_num_f32 v10, v20, v30 :: v_dual_mul_f32 v21, v10, v31",
    *(f"s_{name}_{kind} s10, s20, s21" for kind in ("f32", "f16")
      for name in ("add", "sub", "mul", "min_num", "max_num", "minimum", "maximum", "fmac")),
    *(f"s_{name}_{kind} s10, s20" for kind in ("f32", "f16") for name in ("ceil", "floor", "trunc", "rndne")),
    "s_add_f32 s10, s20, 0.5", "s_add_f16 s10, s20, 0.5", "s_fmamk_f32 s10, s20, 0x40490fdb, s21",
    "s_fmaak_f32 s10, s20, s21, 0x40490fdb",
    *(f"s_cvt_{kind} s10, s20" for kind in ("f32_i32", "f32_u32", "i32_f32", "u32_f32", "f16_f32", "f32_f16", "hi_f32_f16")),
    "s_cvt_pk_rtz_f16_f32 s10, s20, s21",
    *(f"s_cmp_{name}_{kind} s20, s21" for kind in ("f32", "f16") for name in (
        "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt")),
    *(f"s_{name}_u64 s[10:11], s[20:21], s[22:23]" for name in ("add_nc", "sub_nc", "mul")),
    "s_mul_u64 s[10:11], s[20:21], -3", "s_add_co_u32 s10, s20, s21", "s_add_co_ci_u32 s10, s20, s21",
    "s_sub_co_u32 s10, s20, s21", "s_sub_co_ci_u32 s10, s20, s21", "s_add_co_i32 s10, s20, s21", "s_sub_co_i32 s10, s20, s21",
    "s_addk_co_i32 s10, 0x1234", "s_barrier_signal -1", "s_barrier_signal_isfirst -1", "s_barrier_wait -1",
    "s_barrier_signal m0", "s_wait_loadcnt 0x0", "s_wait_loadcnt 0x1", "s_wait_dscnt 0x0", "s_wait_kmcnt 0x0",
    "s_wait_storecnt 0x0", "s_wait_samplecnt 0x0", "s_wait_bvhcnt 0x0", "s_wait_expcnt 0x0", "s_wait_idle",
    "s_wait_loadcnt_dscnt 0x100", "s_wait_loadcnt_dscnt 0x1", "s_wait_storecnt_dscnt 0x0", "s_wait_alu 0xfffe",
    "s_wait_event 0x3", "s_sleep_var s20", "s_prefetch_inst s[20:21], 0x10, s16, 3", "s_prefetch_inst_pc_rel 0x10, s16, 3",
    "s_prefetch_data s[20:21], 0x10, s16, 3", "s_prefetch_data_pc_rel 0x10, s16, 3",
    "s_buffer_prefetch_data s[8:11], 0x10, s16, 3", "global_inv scope:SCOPE_DEV", "global_wb scope:SCOPE_SYS",
    "global_wbinv scope:SCOPE_SYS", "s_sendmsg_rtn_b64 s[10:11], sendmsg(MSG_RTN_GET_REALTIME)",
    "s_getreg_b32 s10, hwreg(HW_REG_SHADER_CYCLES_LO, 0, 20)",
    *(f"s_load_{kind} s10, s[20:21], 0x6" for kind in ("u8", "i8", "u16", "i16")), "s_load_b32 s10, s[20:21], 0x8",
    "s_load_b96 s[12:14], s[20:21], 0x8", "s_load_b64 s[10:11], s[20:21], s16 offset:0x8",
    *(f"s_buffer_load_{kind} s24, s[8:11], 0x6" for kind in ("u8", "i8", "u16", "i16")),
    "s_buffer_load_b96 s[24:26], s[8:11], 0x8",
    *(f"buffer_load_{kind} v10, v20, s[8:11], s16 offen offset:8" for kind in ("u8", "i8", "u16", "i16", "b32")),
    "buffer_load_b128 v[10:13], v20, s[8:11], null offen", "buffer_load_b32 v10, off, s[8:11], null offset:4",
    "buffer_load_d16_b16 v10, v20, s[8:11], null offen", "buffer_load_d16_hi_b16 v10, v20, s[8:11], null offen",
    "buffer_store_b32 v30, v20, s[8:11], null offen th:TH_STORE_NT scope:SCOPE_DEV",
    "buffer_store_b128 v[30:33], v20, s[8:11], null offen", "buffer_load_b32 v10, v20, s[8:11], null idxen",
    "buffer_atomic_add_u32 v30, v20, s[8:11], null offen th:TH_ATOMIC_RETURN",
    *(f"global_atomic_{name} v10, v[20:21], v30, off th:TH_ATOMIC_RETURN scope:SCOPE_DEV" for name in (
        "add_u32", "sub_u32", "min_i32", "max_u32", "and_b32", "or_b32", "xor_b32", "inc_u32", "dec_u32", "swap_b32",
        "add_f32", "min_num_f32", "max_num_f32", "pk_add_f16", "pk_add_bf16", "sub_clamp_u32", "cond_sub_u32")),
    "global_atomic_add_u32 v[20:21], v30, off", "global_atomic_cmpswap_b32 v10, v[20:21], v[30:31], off th:TH_ATOMIC_RETURN",
    "global_atomic_add_u64 v[10:11], v[20:21], v[30:31], off th:TH_ATOMIC_RETURN", "flat_atomic_add_u32 v[20:21], v30",
    "global_load_tr_b128 v[10:13], v[20:21], off", "global_load_b32 v10, v[20:21], off offset:-8 th:TH_LOAD_HT scope:SCOPE_SYS",
    "global_load_b32 v10, v[20:21], off", "global_load_b32 v11, v[20:21], off", "v_mov_b32 v12, v10", "s_mov_b32 s12, s10",
    "global_store_b32 v[20:21], v30, off",
    "global_load_d16_b16 v10, v[20:21], off", "ds_load_b32 v10, v20", "ds_store_b32 v20, v30", "ds_add_rtn_u32 v10, v20, v30",
    *(f"ds_{name} v10, v20, v30" for name in ("cond_sub_rtn_u32", "sub_clamp_rtn_u32", "max_num_rtn_f32", "pk_add_rtn_f16",
                                               "bpermute_b32", "bpermute_fi_b32")),
    "ds_cond_sub_u32 v20, v30", "ds_sub_clamp_u32 v20, v30",
    *(f"v_wmma_f32_16x16x16_{kind} v[40:47], v[20:23], v[30:33], v[50:57]" for kind in ("f16", "bf16")),
    "v_wmma_f32_16x16x16_f16 v[40:47], v[20:23], v[30:33], 1.0 neg_lo:[1,0,0] neg_hi:[0,1,0]",
    *(f"v_wmma_{kind}_16x16x16_{kind} v[40:43], v[20:23], v[30:33], v[50:53]" for kind in ("f16", "bf16")),
    "v_wmma_i32_16x16x16_iu8 v[40:47], v[20:21], v[30:31], v[50:57] neg_lo:[1,0,0]",
    "v_wmma_i32_16x16x16_iu4 v[40:47], v20, v30, v[50:57] neg_lo:[0,1,0] clamp",
    "v_wmma_i32_16x16x32_iu4 v[40:47], v[20:21], v[30:31], v[50:57] neg_lo:[1,1,0]",
    *(f"v_wmma_f32_16x16x16_{a}_{b} v[40:47], v[20:21], v[30:31], v[50:57]" for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
    *(f"v_swmmac_f32_16x16x32_{kind} v[40:47], v[20:23], v[30:37], v60{key}" for kind in ("f16", "bf16")
      for key in ("", " index_key:1")),
    *(f"v_swmmac_{kind}_16x16x32_{kind} v[40:43], v[20:23], v[30:37], v60" for kind in ("f16", "bf16")),
    "v_swmmac_i32_16x16x32_iu8 v[40:47], v[20:21], v[30:33], v60 index_key:1 neg_lo:[1,0,0]",
    "v_swmmac_i32_16x16x32_iu4 v[40:47], v20, v[30:31], v60 neg_lo:[1,1,0]",
    "v_swmmac_i32_16x16x64_iu4 v[40:47], v[20:21], v[30:33], v60 neg_lo:[0,1,0] clamp",
    *(f"v_swmmac_f32_16x16x32_{a}_{b} v[40:47], v[20:21], v[30:33], v60" for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
)  # fmt: skip


GFX1250_LINES = (
    *(f"v_{name}_nc_u64 v[10:11], v[20:21], v[30:31]" for name in ("add", "sub")), "v_mul_u64 v[10:11], v[20:21], v[30:31]",
    *(f"v_{name}_{kind} v[10:11], v[20:21], v[30:31]" for name in ("min", "max") for kind in ("u64", "i64")),
    "v_mad_u32 v10, v20, v30, v40", "v_mad_nc_u64_u32 v[10:11], v20, v30, v[40:41]",
    "v_mad_nc_i64_i32 v[10:11], v20, v30, v[40:41]", "v_lshl_add_u64 v[10:11], v[20:21], v30, v[40:41]",
    "v_fmamk_f64 v[10:11], v[20:21], 0x4000000000000000, v[30:31]", "v_fmaak_f64 v[10:11], v[20:21], v[30:31], 0x4000000000000000",
    "v_tanh_f32 v10, v20", "v_tanh_f16 v10, v20", "v_dual_mov_b32 v11, v20 :: v_dual_bitop2_b32 v10, v20, v30 bitop3:0x14",
    "v_fma_mix_f32_bf16 v10, v20, v30, v40 op_sel:[1,0,0] op_sel_hi:[1,1,0]",
    "v_fma_mixlo_bf16 v10, v20, v30, v40 op_sel_hi:[1,0,1]", "v_fma_mixhi_bf16 v10, v20, v30, v40 op_sel_hi:[1,0,1]",
    *(f"v_pk_{name}_bf16 v10, v20, v30" for name in ("add", "mul", "min_num", "max_num")), "v_pk_fma_bf16 v10, v20, v30, v40",
    "s_get_pc_i64 s[10:11]", "s_wait_xcnt 0x0", "s_wait_asynccnt 0x0", "s_wait_tensorcnt 0x0",
    "s_setreg_imm32_b32 hwreg(HW_REG_WAVE_SCHED_MODE, 0, 2), 2", "global_prefetch_b8 v[20:21], off offset:64",
    "global_prefetch_b8 v20, s[20:21] scope:SCOPE_SE", "flat_prefetch_b8 v[20:21]", "s_set_vgpr_msb 64",
    "v_mov_b32 v43, v20", "s_set_vgpr_msb 1", "v_mov_b32 v10, v43", "s_set_vgpr_msb 0",
    "global_load_b32 v10, v20, s[20:21] offset:8 scale_offset", "s_load_b32 s10, s[20:21], s16 offset:0x8 scale_offset",
    "flat_load_b32 v10, v20, s[20:21] scale_offset", "v_wmma_f32_16x16x32_f16 v[40:47], v[20:27], v[30:37], v[50:57]",
    "v_wmma_f32_16x16x32_bf16 v[40:47], v[20:27], v[30:37], v[50:57] matrix_a_reuse",
    *(f"v_wmma_{kind}_16x16x32_{kind} v[40:43], v[20:27], v[30:37], v[50:53]" for kind in ("f16", "bf16")),
    "v_wmma_i32_16x16x64_iu8 v[40:47], v[20:27], v[30:37], v[50:57] neg_lo:[1,0,0]",
    *(f"v_wmma_f32_16x16x64_{a}_{b} v[40:47], v[20:27], v[30:37], v[50:57]" for a in ("fp8", "bf8") for b in ("fp8", "bf8")),
)  # fmt: skip


def usual(line: str) -> Text:
    """A line of gfx1100 or gfx1201 as gfx9's instruction of the same meaning; halves become op_sel."""
    halves = re.findall(r"v\d+\.[lh]|\bv\[?\d+|\bs\d+|vcc_lo|0x[0-9a-f]+", line.partition(" // ")[0].partition(" ")[2])
    text = parse(re.sub(r"(v\d+)\.[lh]", r"\1", line).replace("vcc_lo", "vcc"))
    own = re.sub("_num(?=_)", "", text.base).replace("v_mad_co_", "v_mad_")
    text.name = USUAL.get(own, own)
    count = len(reference_of(text).results)
    upper = ["1" if half.endswith(".h") else "0" for half in halves]
    if any(".h" in half for half in halves):
        text.modifiers["op_sel"] = ",".join(upper[count:] + upper[:1])
    return text


def reference_of(text: Text) -> Reference:
    """By gfx9's name, or gfx1100's own."""
    return RDNA[text.base] if text.base in RDNA else VECTOR[text.base]
