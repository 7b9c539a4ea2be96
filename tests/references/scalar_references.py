"""Results of SALU instructions, from the chapters "SOP1", "SOP2", "SOPC" and "SOPK" of the ISA documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Compute = Callable[..., int]


@dataclass(frozen=True)
class ScalarReference:
    """`bits` of the result and of the sources; `scc` sees the result and the sources, None leaves SCC as it is.

    `scc_in`: SCC is the last argument of both. `old`: the result's old value is the first one. `immediate`: of SOPK.
    """

    name: str
    result: int
    sources: tuple[int, ...]
    compute: Compute
    scc: Compute | None = None
    scc_in: bool = False
    old: bool = False


SCALAR: dict[str, ScalarReference] = {}


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


def _add(name: str, result: int, sources: tuple[int, ...], compute: Compute, scc: Compute | None = None, *,
         scc_in: bool = False, old: bool = False) -> None:  # fmt: skip
    SCALAR[name] = ScalarReference(name, result, sources, compute, scc, scc_in, old)


def not_zero(result: int, *_sources: int) -> int:
    return int(result != 0)


def overflows(value: int) -> int:
    return int(value != signed(value))


_add("s_add_u32", 32, (32, 32), lambda a, b: a + b, lambda _d, a, b: a + b >> 32)
_add("s_sub_u32", 32, (32, 32), lambda a, b: a - b, lambda _d, a, b: int(b > a))
_add("s_add_i32", 32, (32, 32), lambda a, b: a + b, lambda _d, a, b: overflows(signed(a) + signed(b)))
_add("s_sub_i32", 32, (32, 32), lambda a, b: a - b, lambda _d, a, b: overflows(signed(a) - signed(b)))
_add("s_addc_u32", 32, (32, 32), lambda a, b, c: a + b + c, lambda _d, a, b, c: a + b + c >> 32, scc_in=True)
_add("s_subb_u32", 32, (32, 32), lambda a, b, c: a - b - c, lambda _d, a, b, c: int(b + c > a), scc_in=True)
_add("s_min_i32", 32, (32, 32), lambda a, b: min(signed(a), signed(b)), lambda _d, a, b: int(signed(a) < signed(b)))
_add("s_max_i32", 32, (32, 32), lambda a, b: max(signed(a), signed(b)), lambda _d, a, b: int(signed(a) > signed(b)))
_add("s_min_u32", 32, (32, 32), min, lambda _d, a, b: int(a < b))
_add("s_max_u32", 32, (32, 32), max, lambda _d, a, b: int(a > b))
for _bits in (32, 64):
    _t = f"b{_bits}"
    _mask = (1 << _bits) - 1
    _pair = (_bits, _bits)
    _add(f"s_cselect_{_t}", _bits, _pair, lambda a, b, c: a if c else b, scc_in=True)
    _add(f"s_and_{_t}", _bits, _pair, lambda a, b: a & b, not_zero)
    _add(f"s_or_{_t}", _bits, _pair, lambda a, b: a | b, not_zero)
    _add(f"s_xor_{_t}", _bits, _pair, lambda a, b: a ^ b, not_zero)
    _add(f"s_andn2_{_t}", _bits, _pair, lambda a, b: a & ~b, not_zero)
    _add(f"s_orn2_{_t}", _bits, _pair, lambda a, b, m=_mask: (a | ~b) & m, not_zero)
    _add(f"s_nand_{_t}", _bits, _pair, lambda a, b, m=_mask: ~(a & b) & m, not_zero)
    _add(f"s_nor_{_t}", _bits, _pair, lambda a, b, m=_mask: ~(a | b) & m, not_zero)
    _add(f"s_xnor_{_t}", _bits, _pair, lambda a, b, m=_mask: ~(a ^ b) & m, not_zero)
    _add(f"s_lshl_{_t}", _bits, (_bits, 32), lambda a, b, n=_bits: a << b % n & (1 << n) - 1, not_zero)
    _add(f"s_lshr_{_t}", _bits, (_bits, 32), lambda a, b, n=_bits: a >> b % n, not_zero)
    _add(f"s_ashr_i{_bits}", _bits, (_bits, 32), lambda a, b, n=_bits: signed(a, n) >> b % n, not_zero)
    _add(f"s_bfm_{_t}", _bits, (32, 32), lambda a, b, n=_bits: ((1 << a % n) - 1) << b % n)
    _add(f"s_mov_{_t}", _bits, (_bits,), lambda a: a)
    _add(f"s_cmov_{_t}", _bits, (_bits,), lambda old, a, c: a if c else old, scc_in=True, old=True)
    _add(f"s_not_{_t}", _bits, (_bits,), lambda a, m=_mask: ~a & m, not_zero)
    _add(f"s_brev_{_t}", _bits, (_bits,), lambda a, n=_bits: int(f"{a:0{n}b}"[::-1], 2))
    _add(f"s_wqm_{_t}", _bits, (_bits,), lambda a: sum(15 << n for n in range(0, 64, 4) if a >> n & 15), not_zero)
    _add(f"s_quadmask_{_t}", _bits, (_bits,), lambda a: sum(1 << n for n in range(16) if a >> 4 * n & 15), not_zero)
    _add(f"s_bcnt0_i32_{_t}", 32, (_bits,), lambda a, n=_bits: n - a.bit_count(), not_zero)
    _add(f"s_bcnt1_i32_{_t}", 32, (_bits,), lambda a: a.bit_count(), not_zero)
    _add(f"s_ff0_i32_{_t}", 32, (_bits,), lambda a, m=_mask: (~a & m & -(~a & m)).bit_length() - 1)
    _add(f"s_ff1_i32_{_t}", 32, (_bits,), lambda a: (a & -a).bit_length() - 1)
    _add(f"s_flbit_i32_{_t}", 32, (_bits,), lambda a, n=_bits: n - a.bit_length() if a else -1)
    _flbit = "s_flbit_i32" if _bits == 32 else "s_flbit_i32_i64"
    _add(
        _flbit, 32, (_bits,),
        lambda a, n=_bits: n - ((~a & (1 << n) - 1) if a >> (n - 1) else a).bit_length() if a not in (0, (1 << n) - 1) else -1,
    )  # fmt: skip
    _add(f"s_bitset0_{_t}", _bits, (32,), lambda old, a, n=_bits: old & ~(1 << a % n), old=True)
    _add(f"s_bitset1_{_t}", _bits, (32,), lambda old, a, n=_bits: old | 1 << a % n, old=True)
    _add(f"s_bitcmp0_{_t}", 0, (_bits, 32), lambda _a, _b: 0, lambda _d, a, b, n=_bits: ~a >> b % n & 1)
    _add(f"s_bitcmp1_{_t}", 0, (_bits, 32), lambda _a, _b: 0, lambda _d, a, b, n=_bits: a >> b % n & 1)


def field(a: int, b: int, bits: int, is_signed: bool) -> int:
    """Width in b[22:16]; what is beyond the register is zero, or the sign."""
    offset, width = b % bits, b >> 16 & 0x7F
    value = (signed(a, bits) if is_signed else a) >> offset & ((1 << width) - 1)
    return signed(value, width) if is_signed and 0 < width < bits else value


for _bits in (32, 64):
    _add(f"s_bfe_u{_bits}", _bits, (_bits, 32), lambda a, b, n=_bits: field(a, b, n, False), not_zero)
    _add(f"s_bfe_i{_bits}", _bits, (_bits, 32), lambda a, b, n=_bits: field(a, b, n, True), not_zero)
_add("s_mul_i32", 32, (32, 32), lambda a, b: a * b)
_add("s_mul_hi_u32", 32, (32, 32), lambda a, b: a * b >> 32)
_add("s_mul_hi_i32", 32, (32, 32), lambda a, b: signed(a) * signed(b) >> 32)
for _n in range(1, 5):
    _add(
        f"s_lshl{_n}_add_u32",
        32,
        (32, 32),
        lambda a, b, n=_n: (a << n) + b,
        lambda _d, a, b, n=_n: int((a << n) + b >= 1 << 32),
    )
_add("s_absdiff_i32", 32, (32, 32), lambda a, b: abs(signed(signed(a) - signed(b))), not_zero)
_add("s_abs_i32", 32, (32,), lambda a: abs(signed(a)), not_zero)
_add("s_pack_ll_b32_b16", 32, (32, 32), lambda a, b: a & 65535 | (b & 65535) << 16)
_add("s_pack_lh_b32_b16", 32, (32, 32), lambda a, b: a & 65535 | b >> 16 << 16)
_add("s_pack_hh_b32_b16", 32, (32, 32), lambda a, b: a >> 16 | b >> 16 << 16)
_add("s_sext_i32_i8", 32, (32,), lambda a: signed(a, 8))
_add("s_sext_i32_i16", 32, (32,), lambda a: signed(a, 16))
_add("s_bitreplicate_b64_b32", 64, (32,), lambda a: sum(3 << 2 * n for n in range(32) if a >> n & 1))
for _relation, _compare in {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}.items():  # fmt: skip
    _add(f"s_cmp_{_relation}_u32", 0, (32, 32), lambda _a, _b: 0, lambda _d, a, b, f=_compare: int(f(a, b)))
    _add(
        f"s_cmp_{_relation}_i32",
        0,
        (32, 32),
        lambda _a, _b: 0,
        lambda _d, a, b, f=_compare: int(f(signed(a), signed(b))),
    )
    if _relation in ("eq", "lg"):
        _add(f"s_cmp_{_relation}_u64", 0, (64, 64), lambda _a, _b: 0, lambda _d, a, b, f=_compare: int(f(a, b)))
    # the second source is the immediate
    _add(f"s_cmpk_{_relation}_u32", 0, (32, 16), lambda _a, _b: 0, lambda _d, a, b, f=_compare: int(f(a, b)))
    _add(
        f"s_cmpk_{_relation}_i32", 0, (32, 16), lambda _a, _b: 0,
        lambda _d, a, b, f=_compare: int(f(signed(a), signed(b, 16))),
    )  # fmt: skip
_add("s_movk_i32", 32, (16,), lambda b: signed(b, 16))
_add("s_cmovk_i32", 32, (16,), lambda old, b, c: signed(b, 16) if c else old, scc_in=True, old=True)
_add(
    "s_addk_i32", 32, (16,), lambda old, b: old + signed(b, 16),
    lambda _d, old, b: overflows(signed(old) + signed(b, 16)), old=True,
)  # fmt: skip
_add("s_mulk_i32", 32, (16,), lambda old, b: old * signed(b, 16), old=True)

SAVES_EXEC: dict[str, Callable[[int, int], int]] = {
    "s_and_saveexec_b64": lambda a, e: a & e, "s_or_saveexec_b64": lambda a, e: a | e,
    "s_xor_saveexec_b64": lambda a, e: a ^ e, "s_andn1_saveexec_b64": lambda a, e: ~a & e,
    "s_andn2_saveexec_b64": lambda a, e: a & ~e, "s_orn1_saveexec_b64": lambda a, e: ~a | e,
    "s_orn2_saveexec_b64": lambda a, e: a | ~e, "s_nand_saveexec_b64": lambda a, e: ~(a & e),
    "s_nor_saveexec_b64": lambda a, e: ~(a | e), "s_xnor_saveexec_b64": lambda a, e: ~(a ^ e),
    "s_andn1_wrexec_b64": lambda a, e: ~a & e, "s_andn2_wrexec_b64": lambda a, e: a & ~e,
}  # fmt: skip
"""New value of EXEC; …_saveexec gives its old value, …_wrexec the new one."""

IMMEDIATES = (0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x1234)


def scalar_lines() -> list[str]:
    """Return the records."""

    def register(first: int, bits: int) -> str:
        return f"s{first}" if bits == 32 else f"s[{first}:{first + 1}]"

    lines = [f"{name} s[10:11], s[20:21]" for name in SAVES_EXEC]
    for name, reference in SCALAR.items():
        result = [register(10, reference.result)] if reference.result else []
        sources = [register(20 + 10 * n, bits) for n, bits in enumerate(reference.sources) if bits != 16]
        if 16 in reference.sources:
            lines += [f"{name} {', '.join([*result, *sources, hex(value)])}" for value in IMMEDIATES]
            continue
        lines.append(f"{name} {', '.join([*result, *sources])}")
        lines.append(f"{name} {', '.join([*result, '-5', *sources[1:]])}")
        if 64 not in reference.sources:
            lines.append(f"{name} {', '.join([*result, '0x12345678', *sources[1:]])}")
        if len(sources) > 1:
            lines.append(f"{name} {', '.join([*result, sources[0], '23'])}")
    return [
        *lines,
        *(f"s_cbranch_{condition} 1" for condition in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")), "s_branch 1",
        *("s_mov_b32 s10, 1", "s_mov_b32 s11, 2", "s_endpgm", "s_endpgm_saved", "s_nop 3", "s_sleep 1", "s_setprio 1", "s_barrier"),
        *("s_waitcnt vmcnt(0) lgkmcnt(0)", "s_getpc_b64 s[12:13]", "s_setpc_b64 s[20:21]", "s_swappc_b64 s[12:13], s[20:21]"),
        *("s_call_b64 s[12:13], 1", "s_movrels_b32 s10, s20", "s_movrels_b64 s[10:11], s[20:21]", "s_movreld_b32 s10, s20"),
        *("s_movreld_b64 s[10:11], s[20:21]", "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s20", "s_getreg_b32 s10, hwreg(HW_REG_MODE)"),
        *("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0x5", "s_getreg_b32 s11, hwreg(HW_REG_MODE, 2, 5)", "s_sethalt 0"),
        *("s_icache_inv", "s_incperflevel 1", "s_decperflevel 1", "s_ttracedata", "s_wakeup", "s_sendmsg sendmsg(MSG_INTERRUPT)"),
        *("s_set_gpr_idx_on s20, gpr_idx(SRC0)", "s_set_gpr_idx_off", "v_mov_b32_e32 v10, v20", "s_trap 2"),
    ]  # fmt: skip
