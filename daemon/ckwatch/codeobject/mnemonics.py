"""Explains AMDGPU instructions, one line each.

Names of memory accesses and of matrix products are built by rule and are read by rule here; the others stand in
`TABLE`. GFX11 renamed many instructions (`ds_read_b128` is `ds_load_b128` there) without changing what they do: both
names get the same sentence. An unknown name gets no explanation rather than a guess.

A row of `TABLE` is a pattern of mnemonics (without the encoding's suffix: `_e32`, `_e64`, `_dpp`, `_sdwa`), in which
`$NAME` stands for one of `_GROUPS`, and a sentence. `{name}` in a sentence is the group of that name, spoken as `WORDS`
has it. The first row that matches counts, so what is special stands before what is general. D is the destination, A, B
and C the sources in the order of the operands; what is not marked as scalar is done for each active lane. Rows are
grouped by the document and chapter that define them: where none is named, AMD's "AMD Instinct MI300 (CDNA3)
Instruction Set Architecture Reference Guide".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from textwrap import dedent

from ckwatch.codeobject.disassembly import matrix_shape, traits


def _rows(text: str) -> list[list[str]]:
    """A word and what follows it, for each line of a text; further lines of one are indented."""
    rows = re.split(r"\n(?=\S)", dedent(text).strip())
    return [" ".join(row.split()).split(" ", 1) for row in rows]


WORDS: Mapping[str, Mapping[str, str]] = {
    kind: dict(pair.split(": ", 1) for pair in words.split("; "))
    for kind, words in _rows(
        """
        arithmetic add: A + B; sub: A − B; subrev: B − A; mul: A · B; ldexp: A · 2^B; min: the lesser of A and B; max:
            the greater of A and B; minimum: the lesser of A and B, NaN if either is; maximum: the greater of A and B,
            NaN if either is
        carried add: A + B; addc: A + B + carry; sub: A − B; subb: A − B − borrow; subrev: B − A; subbrev: B − A −
            borrow; add_co: A + B; sub_co: A − B; subrev_co: B − A; addc_co: A + B + carry; subb_co: A − B − borrow;
            subbrev_co: B − A − borrow; add_co_ci: A + B + carry; sub_co_ci: A − B − borrow; subrev_co_ci: B − A −
            borrow
        unary ceil: A rounded up; floor: A rounded down; trunc: A without its fraction; rndne: A rounded to the nearest
            even integer; fract: the fraction of A; sqrt: √A; rsq: 1 / √A; rcp: 1 / A; exp: 2^A; log: log2 A; tanh: tanh
            A; sin: sin 2πA; cos: cos 2πA
        bitwise and: A and B; or: A or B; xor: A xor B; xnor: not (A xor B); nand: not (A and B); nor: not (A or B);
            andn2: A and not B; and_not1: A and not B; orn2: A or not B; or_not1: A or not B; andn1: not A and B;
            and_not0: not A and B; orn1: not A or B; or_not0: not A or B
        masked and: EXEC and A; or: EXEC or A; xor: EXEC xor A; nand: not (EXEC and A); nor: not (EXEC or A); xnor: not
            (EXEC xor A); andn2: A and not EXEC; and_not1: A and not EXEC; andn1: EXEC and not A; and_not0: EXEC and not
            A; orn2: A or not EXEC; or_not1: A or not EXEC; orn1: EXEC or not A; or_not0: EXEC or not A
        shifted lshlrev: B << A; lshrrev: B >> A, filled with zeros; ashrrev: B >> A, filled with the sign; lshl: A <<
            B; lshr: A >> B, filled with zeros; ashr: A >> B, filled with the sign
        compared eq: A = B; ne: A ≠ B; lg: A ≠ B; lt: A < B; le: A ≤ B; gt: A > B; ge: A ≥ B; nlt: not A < B; nle: not A
            ≤ B; ngt: not A > B; nge: not A ≥ B; neq: not A = B; nlg: not A ≠ B; o: neither is NaN; u: either is NaN; f:
            false; t: true; tru: true; class: A is of a class in the mask B
        condition scc0: SCC = 0; scc1: SCC = 1; vccz: VCC = 0: true in no lane; execz: no lane is active; vccnz: VCC ≠
            0: true in some lane; execnz: some lane is active
        counted loadcnt: loads; storecnt: stores; dscnt: LDS operations; kmcnt: scalar loads and messages; samplecnt:
            image samples; bvhcnt: ray intersections; expcnt: exports; asynccnt: transfers between memory and LDS;
            tensorcnt: tensor transfers; xcnt: translations; loadcnt_dscnt: loads and LDS operations; storecnt_dscnt:
            stores and LDS operations
        three min: the least; max: the greatest; med: the middle; minimum: the least; maximum: the greatest
        """
    )
}

_GROUPS = {
    "$FLOAT": "(?P<type>f16|bf16|f32|f64)",
    "$INT": "(?P<type>[iu](?:8|16|32|64))",
    "$SIZE": "b(?P<bits>16|32|64)",
    "$BITWISE": "(?P<bitwise>and_not[01]|or_not[01]|andn[12]|orn[12]|and|or|xnor|xor|nand|nor)",
}
"""Parts of patterns."""

TABLE: tuple[str, ...] = (
    # RDNA3 Instruction Set Architecture Reference Guide (70650)
    r"""
    s_delay_alu tells the scheduler which result the next instructions wait for; saves time, changes nothing
    s_waitcnt_depctr waits for register dependencies that the hardware does not track by itself
    (ds|lds)_(direct|param)_load|v_interp_.* loads for pixel shaders
    """,
    # RDNA4 Instruction Set Architecture Reference Guide (70651)
    r"""
    s_barrier_signal.* tells the workgroup's barrier that this wave has arrived, and goes on
    s_barrier_wait waits until all waves have arrived at the barrier
    s_barrier_.* named barriers
    s_wait_alu waits for register dependencies that the hardware does not track by itself
    s_wait_(idle|event) waits for all that is outstanding, or for an event
    s_wait_(?P<counted>\w+) waits until at most so many {counted} are outstanding
    v_s_(?P<unary>exp|log|rcp|rsq|sqrt)_(?P<type>f16|f32) scalar: D = {unary}, {type}
    global_(inv|wb|wbinv) makes caches see others' writes, or others see ours
    (s_buffer|s|flat|global)_prefetch_(data.*|b8) asks for data ahead of time
    """,
    # Program Flow Control
    r"""
    s_endpgm.*|s_code_end end of the kernel for this wave
    s_nop does nothing for as many wait states as it says, until a result is ready
    s_barrier waits until all waves of the workgroup are here
    s_branch goes on elsewhere
    s_cbranch_(?P<condition>scc[01]|vccn?z|execn?z) branches if {condition}
    s_cbranch_.* branches on a condition
    s_setprio(_inc_wg)? priority of this wave among those of its SIMD, 3 the highest
    s_sleep(_var)?|s_monitor_sleep puts the wave to sleep for some periods of 64 clocks
    s_wakeup(_barrier)? wakes the workgroup's sleeping waves
    s_get_?pc_[bi]64 scalar: D = the address of the next instruction: far jumps and calls begin so
    s_set_?pc_[bi]64|s_add_pc_i64 goes on at a computed address
    s_(swap_?pc|call)_[bi]64 calls: D = the address of the next instruction, and goes on elsewhere
    s_rfe_(restore_)?[bi]64 returns from a trap
    s_sendmsg.* message to the hardware, such as that registers are free
    s_(trap|sethalt|setkill|setvskip) stops the wave, or hands it to the trap handler
    s_icache_inv empties the instruction cache
    s_(clause) the next instructions are issued without a break, for the caches' sake
    s_(inst_prefetch|set_inst_prefetch_distance|prefetch_inst.*) prefetches instructions
    s_set_gpr_idx_.* indexes vector registers by M0
    s_set_vgpr_msb upper bits of the vector registers' numbers
    s_alloc_vgpr changes the number of vector registers of the wave
    s_(setreg|getreg)_.*|s_denorm_mode|s_round_mode reads or sets a hardware register (rounding, denormals, …)
    s_(ttracedata.*|incperflevel|decperflevel|version|subvector_loop_.*) for tracing and tools
    s_mem(real)?time|s_get_shader_cycles_u64 scalar: reads the clock
    s_get_(waveid_in_workgroup|barrier_state) scalar: reads the state of the wave or of a barrier
    v_pipeflush|v_clrexcp|v_nop|v_illegal|ds_nop does nothing to data
    """,
    # Scalar Memory Operations
    r"""
    s_(dcache|gl1|atc)_.* writes back or empties the scalar cache
    s_(scratch_|buffer_)?store_.* scalar store
    s_(buffer_)?atomic_.* scalar atomic in memory
    """,
    # Scalar ALU Operations
    r"""
    s_mov(rel[sd]+(_2)?)?_$SIZE scalar: D = A, {bits} bits
    s_movk_i32 scalar: D = a constant of 16 bits, sign-extended
    s_cmovk?_[bi](32|64) scalar: D = A if SCC = 1
    s_cselect_$SIZE scalar: D = A if SCC = 1, else B
    s_$BITWISE_$SIZE scalar: D = {bitwise}, {bits} bits (often a mask of lanes); SCC: D ≠ 0
    s_(?P<masked>and_not[01]|or_not[01]|andn[12]|orn[12]|and|or|xnor|xor|nand|nor)_saveexec_b(32|64) EXEC =
        {masked}, D = EXEC before: chooses the active lanes
    s_(?P<masked>and_not[01]|andn[12])_wrexec_b(32|64) EXEC = D = {masked}: chooses the active lanes
    s_(?P<carried>add|sub)(_co)?_i32 scalar: D = {carried}, i32; SCC: overflow
    s_addk(_co)?_i32 scalar: D = D + a constant of 16 bits
    s_(?P<carried>addc|subb|add_co_ci|sub_co_ci|add_co|sub_co|add|sub)_u32 scalar: D = {carried}, u32; SCC: the
        carry
    s_(?P<arithmetic>add|sub)_nc_u64 scalar: D = {arithmetic}, u64
    s_(?P<arithmetic>min|max|add|sub|mul|minimum|maximum)(_num)?_$FLOAT scalar: D = {arithmetic}, {type}
    s_(?P<arithmetic>min|max)_$INT scalar: D = {arithmetic}, {type}; SCC: it is A
    s_mul_(i32|u64) scalar: D = A · B, lower half
    s_mulk_i32 scalar: D = D · a constant of 16 bits
    s_mul_hi_(?P<type>[iu]32) scalar: D = upper half of A · B, {type}
    s_fmac_(?P<type>f16|f32) scalar: D = A · B + D, {type}
    s_fmaak_f32 scalar: D = A · B + a constant, f32
    s_fmamk_f32 scalar: D = A · a constant + B, f32
    s_lshl(?P<n>[1-4])_add_u32 scalar: D = (A << {n}) + B; SCC: the carry
    s_(?P<shifted>lshl|lshr|ashr)_[bi](?P<bits>32|64) scalar: D = {shifted}, {bits} bits; SCC: D ≠ 0
    s_cmpk?_(?P<compared>[a-z]+)_(?P<type>[a-z]+\d+) scalar: SCC = ({compared}), {type}
    s_bitcmp(?P<n>[01])_b(32|64) scalar: SCC = bit B of A is {n}
    s_bitset(?P<n>[01])_b(32|64) scalar: bit A of D = {n}
    s_bfe_[iu](32|64) scalar: D = a run of A's bits, moved down
    s_bfm_b(32|64) scalar: D = a mask of A ones, moved up by B
    s_brev_b(32|64) scalar: D = the bits of A, backwards
    s_bcnt(?P<n>[01])_.* scalar: D = how many bits of A are {n}
    s_(ff[01]|flbit|clz|ctz|cls)_.* scalar: D = the position of the first bit of a kind
    s_not_b(32|64) scalar: D = not A; SCC: D ≠ 0
    s_abs_i32 scalar: D = |A|
    s_absdiff_i32 scalar: D = |A − B|
    s_sext_i32_i(?P<bits>8|16) scalar: D = A sign-extended from {bits} bits
    s_pack_.._b32_b16 scalar: D = two halves of A and B side by side
    s_(quadmask|wqm)_.* scalar: D = a mask of groups of four lanes
    s_bitreplicate_b64_b32 scalar: D = each bit of A twice
    s_cvt_(pk_rtz_|hi_)?(?P<to>[fiu]\d+)_(?P<from>[fiu]\d+) scalar: D = A from {from} to {to}
    s_(?P<unary>ceil|floor|trunc|rndne)_$FLOAT scalar: D = {unary}, {type}
    """,
    # Matrix Arithmetic Instructions
    r"""
    v_accvgpr_read_b32 arch VGPR D = accumulation VGPR A
    v_accvgpr_write_b32 accumulation VGPR D = A
    v_accvgpr_mov_b32 accumulation VGPR D = accumulation VGPR A
    v_mfma_ld_scale_b32|v_wmma_ld_scale.* scales for the next matrix product
    v_(mfma|smfmac|wmma|swmmac)_.* matrix unit: D = A · B + C
    """,
    # Vector ALU Operations
    r"""
    v_mov_b(?P<bits>16|32|64) D = A, {bits} bits
    v_mov(rel|rels|reld|relsd|relsd_2)_b32|v_swaprel_b32 D = A, with a register indexed by M0
    v_swap_b(16|32) exchanges A and D
    v_pk_mov_b32 D = two registers, each picked from A or B
    v_readfirstlane_b32 scalar D = A in the first active lane: the value is taken to be the same in all
    v_readlane_b32 scalar D = A in the lane numbered B (also how spilled scalars come back)
    v_writelane_b32 D = A in the lane numbered B only (also how scalars are spilled)
    v_cndmask_b(16|32) D = B where the mask is set, else A: a select without a branch
    v_(?P<arithmetic>add|sub|subrev|mul|min|max|minimum|maximum|ldexp)(_num|_legacy)?_$FLOAT D = {arithmetic},
        {type}
    v_pk_(?P<arithmetic>add|sub|mul|min|max|minimum|maximum)(_num|_lo)?_(?P<type>f16|bf16|f32|[iu]16) two at once: D
        = {arithmetic}, {type}
    v_pk_(fma|mad)_(?P<type>f16|bf16|f32|[iu]16) two at once: D = A · B + C, {type}
    v_pk_fmac_f16 two at once: D = A · B + D, f16
    v_pk_(?P<shifted>lshlrev|lshrrev|ashrrev)_[bi]16 two at once: D = {shifted}, 16 bits
    v_pk_.*(min|max).* two at once: D = least or greatest of its sources
    v_(mul|fma|fmac|mac|mad)_(legacy|dx9_zero)_$FLOAT|v_mullit_f32 D = A · B (+ C), {type}, with 0 · x = 0
    v_(fma|mad)_$FLOAT D = A · B + C, {type}
    v_(fmac|mac)_$FLOAT D = A · B + D, {type}
    v_(fmaak|madak)_$FLOAT D = A · B + a constant, {type}
    v_(fmamk|madmk)_$FLOAT D = A · a constant + B, {type}
    v_(fma|mad)_mix(lo|hi)?_(?P<type>f16|f32|bf16|f32_bf16) D = A · B + C, each source f32 or half of a register
    v_dot(?P<n>[248])_(?P<type>[a-z]+\d+)_(?P<from>\w+) D = A·B + C over {n} products, {from} summed as {type}
    v_dot(?P<n>[248])(c|acc)_(?P<type>[a-z]+\d+)_(?P<from>\w+) D = A·B + D over {n} products, {from} summed as
        {type}
    v_mad_(co_|nc_)?(?P<type>[iu]64)_[iu]32 D = A · B + C, 32 bits times 32 bits plus 64 bits: addresses
    v_mad_[iu]32_(?P<type>[iu](16|24)) D = A · B + C, A and B {type}
    v_mad_[iu]32|v_mad_(legacy_)?[iu]16 D = A · B + C, integers
    v_mul_(?P<type>[iu]32)_[iu]24 D = A · B of the lower 24 bits: faster than 32 bits
    v_mul_hi_[iu]32(_[iu]24)? D = upper half of A · B
    v_mul_lo_u16 D = lower half of A · B, 16 bits
    v_mul_lo_[iu]32|v_mul_u64 D = lower half of A · B (slower than one of 24 bits)
    v_(?P<arithmetic>add|sub|subrev|min|max)(_nc)?_$INT D = {arithmetic}, {type}
    v_(?P<carried>(addc|subb|subbrev|add|sub|subrev)_co(_ci)?|addc|subb|subbrev)_u32 D = {carried}, u32, with the
        carry in a mask of lanes: half of a 64-bit sum
    v_add3_u32 D = A + B + C
    v_add_(?P<bound>max|min)_(?P<type>[iu]32) D = {bound}(A + B, C), {type}
    v_add_lshl_u32 D = (A + B) << C
    v_lshl_add_u(?P<bits>32|64) D = (A << B) + C, {bits} bits: an address
    v_lshl_or_b32 D = (A << B) or C
    v_and_or_b32 D = (A and B) or C
    v_or3_b32 D = A or B or C
    v_xor3_b32 D = A xor B xor C
    v_xad_u32 D = (A xor B) + C: swizzled addresses
    v_bitop3_b(16|32) D = any bitwise function of A, B and C
    v_(?P<bitwise>and|or|xor|xnor)_$SIZE D = {bitwise}, {bits} bits
    v_not_b(16|32) D = not A
    v_(?P<shifted>lshlrev|lshrrev|ashrrev|lshl|lshr|ashr)_[bi](?P<bits>16|32|64) D = {shifted}, {bits} bits
    v_ashr_pk_[iu]8_i32|v_sat_pk.* narrows with saturation and packs
    v_bfe_[iu]32 D = a run of A's bits, moved down
    v_bfi_b32 D = bits of B where A is 1, of C where it is 0
    v_bfm_b32 D = a mask of A ones, moved up by B
    v_bfrev_b32 D = the bits of A, backwards (a short way to write some constants)
    v_perm_b32 D = any four bytes of A and B: repacks narrow types
    v_perm_pk16_.* looks up 16 narrow values in a table
    v_pack_b32_f16 D = two f16 side by side
    v_alignbit_b32|v_alignbyte_b32 D = 32 bits out of A and B joined, from a shift on
    v_bcnt_u32_b32 D = number of ones in A, plus B
    v_mbcnt_(lo|hi)_u32_b32 D = number of mask bits below this lane, plus B: the lane's number
    v_(ffb[hl]|clz|ctz|cls)_.* D = the position of the first bit of a kind
    v_cmps?_(?P<compared>[a-z]+)_(?P<type>[a-z]+\d+) mask of lanes = ({compared}), {type}
    v_cmps?x_(?P<compared>[a-z]+)_(?P<type>[a-z]+\d+) EXEC = ({compared}), {type}: chooses the active lanes
    v_(?P<unary>ceil|floor|trunc|rndne|fract)_$FLOAT D = {unary}, {type}
    v_(?P<unary>sqrt|rsq|rcp|exp|log|sin|cos|tanh)(_iflag|_clamp|_legacy)?_$FLOAT D ≈ {unary}, {type} (slower than
        a product)
    v_frexp_(exp|mant)_.* D = exponent or mantissa of A
    v_div_(scale|fmas|fixup)(_legacy)?_(?P<type>f\d+) a step of an exact division, {type}
    v_cvt_pk_?rtz_f16_f32|v_cvt_pk_rtz_f16_f32 D = two f32 → two f16, towards zero
    v_cvt_scale\w*_(?P<to>[a-z]+\d+)_(?P<from>[a-z]+\d+) D = scaled conversion from {from} to {to}
    v_cvt_(pk|pkaccum)_u8_f32 D = a word with one byte replaced by A as u8
    v_cvt_sr_(pk_)?(?P<to>[a-z]+\d+)_(?P<from>[a-z]+\d+) D = {from} → {to} with stochastic rounding
    v_cvt_(pk|pk_?norm|pkaccum)_(?P<to>[a-z]+\d+)_(?P<from>[a-z]+\d+) D = two {from} → {to}, packed
    v_cvt_f32_ubyte(?P<n>\d) D = byte {n} of A as f32
    v_cvt_(off_|norm_|floor_|flr_|nearest_|rpi_)?(?P<to>[a-z]+\d+)_(?P<from>[a-z]+\d+) D = A from {from} to {to}
    v_(?P<three>min|max|med|minimum|maximum)3(_num)?_(?P<type>[a-z]+\d+) D = {three} of A, B and C, {type}
    v_(maxmin|minmax|maximumminimum|minimummaximum)(_num)?_(?P<type>[a-z]+\d+) D = A held between bounds, {type}
    v_permlane(x?16|64|32)(_var|_swap)?_b32|v_permlane_.* moves values between lanes
    v_(m?q?sad\w*|lerp)_.* sums of absolute differences, or means
    v_(trig_preop|prng|screen_partition_4se)_.* a step of sine, or of random numbers
    v_cube.._f32 for graphics
    """,
    # LLVM, User Guide for AMDGPU Backend, Memory Model
    r"""
    buffer_wbinvl1(_sc|_vol)?|buffer_gl[01]_inv|buffer_inv(l2)? empties caches: what others wrote is seen (acquire)
    buffer_wbl2 writes the L2 cache back: others see what was written (release)
    """,
    # Vector Memory Operations
    r"""
    (t?buffer)_load_(d16_)?(hi_)?format_(d16_)?(hi_)?\w+ buffer → registers with conversion of format
    (t?buffer)_store_(d16_)?(hi_)?format_(d16_)?(hi_)?\w+ registers → buffer with conversion of format
    tensor_.* moves a tile between memory and LDS
    buffer_atomic_\w+ atomic in memory through a buffer descriptor
    (global|flat)_atomic_\w+ atomic in memory
    image_.* image access or sample: textures
    exp exports to the graphics pipeline
    """,
    # Data Share Operations
    r"""
    ds_bpermute(_fi)?_b32 D = A of the lane whose number B gives, without LDS memory
    ds_permute_b32 sends A to the lane whose number B gives, without LDS memory
    ds_swizzle_b32 moves values between lanes in a fixed pattern, without LDS memory
    ds_gws_.*|ds_ordered_count|ds_\w+_gs_reg_rtn|ds_append|ds_consume synchronises across workgroups
    ds_bvh_stack.* for ray tracing
    ds_(atomic_)?(async_)?barrier_arrive.*|ds_atomic_.*barrier.* arrives at a barrier in LDS
    ds_\w*(add|sub|min|max|and|or|xor|inc|dec|cmpst|cmpstore|xchg|storexchg|mskor|wrap)\w* atomic in LDS
    """,
)


_ENCODING = re.compile(r"(?:_e32|_e64|_dpp8|_dpp|_sdwa|_w32|_w64)+$")
_RESULT = re.compile(r"_(?P<result>b?[fi]\d+)_\d+x\d+x\d+")

_ELEMENT = re.compile(r"(?P<count>dword|[us]?byte|[us]?short|[biu](?P<bits>\d+))(?:x(?P<times>\d+))?")
_MEMORY = re.compile(
    r"(?P<space>s_buffer|s_scratch|s|buffer|global|flat|scratch|cluster)_(?P<way>load|store)_(?P<to_lds>lds_)?"
    r"(?P<asynchronous>async_(?:to|from)_lds_)?(?P<transposed>tr\d*_)?(?P<monitored>monitor_)?(?:addtid_)?"
    r"(?:(?P<half>d16_(?:hi_)?))?"
    r"(?P<element>block|dword(?:x\d+)?|[us]?byte|[us]?short|[biu]\d+)(?P<half_after>_d16(?:_hi)?)?(?:_addtid)?"
)
_DS = re.compile(
    r"ds_(?P<way>read|load|write|store)(?P<two>2(?:st64)?|_2addr(?:_stride64)?)?(?P<thread>_addtid)?(?P<source>_src2)?"
    r"(?P<transposed>_tr\d+)?_(?P<element>[biu]\d+)(?P<half>_d16(?:_hi)?)?(?P<transposed_after>_tr_b\d+)?"
)
_SPACES = {
    "s": ("scalar: ", "memory (constants, kernel arguments)"),
    "s_buffer": ("scalar: ", "memory by a buffer descriptor"),
    "s_scratch": ("scalar: ", "scratch"),
    "buffer": ("", "memory by a buffer descriptor"),
    "global": ("", "memory"),
    "flat": ("", "memory, LDS or scratch, as the address says"),
    "scratch": ("", "scratch (spilled registers, local arrays)"),
    "cluster": ("", "memory, for several workgroups"),
}
_NAMED_BYTES = {"dword": 4, "byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2}

_COUNTER = re.compile(r"(vmcnt|lgkmcnt|expcnt|vscnt)\((\d+)\)")
_COUNTED = {
    "vmcnt": ("vector memory operation", "vector memory operations"),
    "lgkmcnt": ("LDS or scalar memory operation", "LDS or scalar memory operations"),
    "expcnt": ("export", "exports"),
    "vscnt": ("store", "stores"),
}
_NUMBER = re.compile(r"\s*(0x[0-9a-fA-F]+|\d+)")
_TO_LDS = re.compile(r"\blds\b")
_NONTEMPORAL = re.compile(r"\bnt\b|\bth:TH_\w*NT\b")
_CROSS_LANE = re.compile(r"\b(?:row_\w+|wave_\w+|quad_perm|dpp8):?(?:\[[^]]*\]|\w+)?")


def explain(mnemonic: str, operands: str = "") -> str | None:
    """Explain an instruction; None for an unknown name.

    `operands` is the rest of the disassembled line: counters and modifiers make the sentence more precise and may be
    left out. A dual instruction is `v_dual_a::v_dual_b`, or has its second half in `operands`.
    """
    if mnemonic.startswith("v_dual_"):
        return _dual(mnemonic, operands)
    base = _ENCODING.sub("", mnemonic)
    found = _by_operands(base, operands) or _known(base)
    if found is None:
        return None
    if mnemonic.startswith("buffer_load") and _TO_LDS.search(operands):
        found = found.replace("→ registers", "→ LDS, not through registers")
    return found + _modified(mnemonic, operands)


@lru_cache(maxsize=4096)
def _known(base: str) -> str | None:
    return _matrix(base) or _memory(base) or _lds(base) or _from_table(base)


@cache
def _table() -> tuple[tuple[re.Pattern[str], str], ...]:
    """The rows of `TABLE`. Compiling the patterns takes a seventh of a daemon's start, and few daemons list code."""
    return tuple(
        (re.compile(f"(?:{re.sub('[$][A-Z]+', lambda part: _GROUPS[part[0]], pattern)})"), sentence)
        for text in TABLE
        for pattern, sentence in _rows(text)
    )


def _from_table(base: str) -> str | None:
    for pattern, sentence in _table():
        match = pattern.fullmatch(base)
        if match is not None:
            spoken = {
                name: WORDS.get(name, {}).get(value, value) for name, value in match.groupdict(default="").items()
            }
            return sentence.format_map(spoken)
    return None


def _matrix(base: str) -> str | None:
    shape, result = matrix_shape(base), _RESULT.search(base)
    if shape is None or result is None:
        return None
    types = shape.operands.removesuffix("_1k")
    a, _, b = types.partition("_")
    sources = f"{a} · {b}" if b and b != a else a
    if types == "f8f6f4":
        sources = "floats of 8, 6 or 4 bits"
    blocks = f"{shape.blocks} blocks of " if shape.blocks > 1 else ""
    sparse = base.startswith(("v_smfmac", "v_swmmac"))
    scaled = "_scale" in base
    return (
        f"matrix unit: D = A · B + C, {blocks}{shape.m}×{shape.n}×{shape.k}, {sources} summed as {result['result']}"
        f"{', two of four elements of A zero' if sparse else ''}{', scaled' if scaled else ''}"
        f"; {traits(base).flops:,} {'operations' if result['result'] == 'i32' else 'FLOPs'} a wave"
    )


def _memory(base: str) -> str | None:
    match = _MEMORY.fullmatch(base)
    if match is None:
        return None
    prefix, space = _SPACES[match["space"]]
    amount = _amount(match["element"]) + ("" if prefix else " a lane")
    if match["asynchronous"] or match["to_lds"]:
        ways = (f"{space} → LDS", f"LDS → {space}")
        waits = ", in the background" if match["asynchronous"] else ", not through registers"
    else:
        ways = (f"{space} → registers", f"registers → {space}")
        waits = ""
    text = f"{prefix}{amount}, {ways[match['way'] == 'store']}{waits}"
    if match["half"] or match["half_after"]:
        text += ", half a register"
    if match["transposed"]:
        text += ", transposed for the matrix unit"
    return text


def _lds(base: str) -> str | None:
    match = _DS.fullmatch(base)
    if match is None:
        return None
    reads = match["way"] in ("read", "load")
    text = f"{_amount(match['element'])} a lane, {'LDS → registers' if reads else 'registers → LDS'}"
    if match["two"]:
        steps = ", in steps of 64 elements" if "64" in match["two"] else ""
        text = f"twice {text}, at two offsets{steps}"
    if match["half"]:
        text += ", half a register"
    if match["thread"]:
        text += ", at the lane's own place"
    if match["transposed"] or match["transposed_after"]:
        text += ", transposed for the matrix unit"
    return text


def _amount(element: str) -> str:
    match = _ELEMENT.fullmatch(element)
    if match is None:
        return "several registers"
    named = _NAMED_BYTES.get(match["count"])
    size = named * int(match["times"] or 1) if named else int(match["bits"]) // 8
    return f"{size} byte{'s' if size > 1 else ''}"


def _by_operands(base: str, operands: str) -> str | None:
    if base == "s_waitcnt":
        return _waiting([(name, int(count)) for name, count in _COUNTER.findall(operands)])
    number = _NUMBER.match(operands)
    if base.startswith("s_waitcnt_") and base.endswith("cnt"):
        number = _NUMBER.match(operands.rpartition(",")[2])
        return _waiting([(base.removeprefix("s_waitcnt_"), int(number[1], 0))] if number else [])
    if number is None:
        return None
    value = int(number[1], 0)
    if base == "s_nop":
        return f"does nothing for {_plural(value + 1, 'wait state')}, until a result is ready"
    if base == "s_sleep":
        return f"the wave sleeps for about {64 * value} clocks"
    if base == "s_clause":
        return f"the next {value + 1} instructions are issued without a break, for the caches' sake"
    if base == "s_setprio":
        return f"priority {value} (3 is the highest) among the waves of the SIMD"
    counted = base.removeprefix("s_wait_").split("_")
    words = [WORDS["counted"].get(name) for name in counted]
    if not base.startswith("s_wait_") or None in words:
        return None
    counts = [value] if len(counted) == 1 else [value >> 8 & 0x3F, value & 0x3F]
    listed = " and ".join(
        f"no {word}" if not count else f"at most {count} {word}" for word, count in zip(words, counts, strict=True)
    )
    return f"waits until {listed} are outstanding"


def _waiting(counters: list[tuple[str, int]]) -> str:
    if not counters:
        return "waits for memory operations that are outstanding"
    listed = [
        f"no {_COUNTED[name][0]}" if not count else f"at most {_plural(count, *_COUNTED[name])}"
        for name, count in counters
        if name in _COUNTED
    ]
    verb = "is" if len(listed) == 1 and counters[0][1] < 2 else "are"
    return f"waits until {' and '.join(listed)} {verb} outstanding"


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _dual(mnemonic: str, operands: str) -> str | None:
    names = [*mnemonic.split("::"), *re.findall(r"::\s*(v_dual_\w+)", operands)][:2]
    halves = [explain("v_" + name.removeprefix("v_dual_")) for name in names]
    texts = [half for half in halves if half is not None]
    return "issued together: " + "; ".join(texts) if len(texts) == len(names) else None


def _modified(mnemonic: str, operands: str) -> str:
    if not mnemonic.startswith("v_"):
        return "; not worth keeping in caches" if _NONTEMPORAL.search(operands) else ""
    if "_dpp" in mnemonic:
        lanes = _CROSS_LANE.search(operands)
        return f"; A from another lane{f' ({lanes[0]})' if lanes is not None else ''}"
    return "; on bytes or halves of registers" if mnemonic.endswith("_sdwa") else ""
