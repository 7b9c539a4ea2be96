/* SALU instructions: SOP1, SOP2, SOPC, SOPK and SOPP of gfx9 (scalar memory is in scalar_memory.c).
 * Semantics: chapter "Scalar ALU Operations" of AMD's Instinct MI200/MI300/CDNA4 ISA documents. */
#include <stdlib.h>

#include "host_calls.h"
#include "steps.h"

#define S32(name) static void execute_##name(Wave *w, const Instruction *i)
#define STEP(name) static void perform_##name(Wave *w, const Step *s)
#define D (&i->operand[0])
#define A32 scalar_operand(w, &i->operand[1])
#define B32 scalar_operand(w, &i->operand[2])
#define A64 scalar_operand_pair(w, &i->operand[1])
#define B64 scalar_operand_pair(w, &i->operand[2])
#define step_B32 step_scalar
#define step_B64 step_pair
#define SCC_OF (w->s[SCC])

/* An expression over a, b with its type; `scc` after it sees the result as d. */
#define SOP2_32(name, type, expression, scc_statement)     \
  S32(name) {                                              \
    type a = (type)A32, b = (type)B32;                     \
    uint32_t d = (uint32_t)(expression);                   \
    (void)a, (void)b;                                      \
    scc_statement;                                         \
    put_scalar(w, D->index, d);                            \
  }                                                        \
  STEP(name) {                                             \
    type a = (type)step_scalar(w, s, 0), b = (type)step_scalar(w, s, 1);\
    uint32_t d = (uint32_t)(expression);                   \
    (void)a, (void)b;                                      \
    scc_statement;                                         \
    w->s[s->result] = d;                                   \
  }
#define SOP2_64(name, type, b_type, b_value, expression, scc_statement) \
  S32(name) {                                              \
    type a = (type)A64;                                    \
    b_type b = (b_type)b_value;                            \
    uint64_t d = (uint64_t)(expression);                   \
    (void)a, (void)b;                                      \
    scc_statement;                                         \
    put_scalar_pair(w, D->index, d);                       \
  }                                                        \
  STEP(name) {                                             \
    type a = (type)step_pair(w, s, 0);                     \
    b_type b = (b_type)step_##b_value(w, s, 1);            \
    uint64_t d = (uint64_t)(expression);                   \
    (void)a, (void)b;                                      \
    scc_statement;                                         \
    put_step_pair(w, s, d);                                \
  }
#define NOTHING (void)0
#define NOT_ZERO SCC_OF = d != 0

SOP2_32(s_add_u32, uint32_t, a + b, SCC_OF = d < a)
SOP2_32(s_sub_u32, uint32_t, a - b, SCC_OF = b > a)
SOP2_32(s_add_i32, uint32_t, a + b, SCC_OF = (~(a ^ b) & (a ^ d)) >> 31)
SOP2_32(s_sub_i32, uint32_t, a - b, SCC_OF = ((a ^ b) & (a ^ d)) >> 31)
S32(s_addc_u32) {
  uint64_t sum = (uint64_t)A32 + B32 + SCC_OF;
  SCC_OF = sum >> 32 != 0;
  put_scalar(w, D->index, (uint32_t)sum);
}
S32(s_subb_u32) {
  uint64_t a = A32, b = (uint64_t)B32 + SCC_OF;
  SCC_OF = b > a;
  put_scalar(w, D->index, (uint32_t)(a - b));
}
SOP2_32(s_min_i32, int32_t, a < b ? a : b, SCC_OF = a < b)
SOP2_32(s_min_u32, uint32_t, a < b ? a : b, SCC_OF = a < b)
SOP2_32(s_max_i32, int32_t, a > b ? a : b, SCC_OF = a > b)
SOP2_32(s_max_u32, uint32_t, a > b ? a : b, SCC_OF = a > b)
SOP2_32(s_cselect_b32, uint32_t, SCC_OF ? a : b, NOTHING)
SOP2_64(s_cselect_b64, uint64_t, uint64_t, B64, SCC_OF ? a : b, NOTHING)
SOP2_32(s_and_b32, uint32_t, a & b, NOT_ZERO)
SOP2_64(s_and_b64, uint64_t, uint64_t, B64, a & b, NOT_ZERO)
SOP2_32(s_or_b32, uint32_t, a | b, NOT_ZERO)
SOP2_64(s_or_b64, uint64_t, uint64_t, B64, a | b, NOT_ZERO)
SOP2_32(s_xor_b32, uint32_t, a ^ b, NOT_ZERO)
SOP2_64(s_xor_b64, uint64_t, uint64_t, B64, a ^ b, NOT_ZERO)
SOP2_32(s_andn2_b32, uint32_t, a & ~b, NOT_ZERO)
SOP2_64(s_andn2_b64, uint64_t, uint64_t, B64, a & ~b, NOT_ZERO)
SOP2_32(s_orn2_b32, uint32_t, a | ~b, NOT_ZERO)
SOP2_64(s_orn2_b64, uint64_t, uint64_t, B64, a | ~b, NOT_ZERO)
SOP2_32(s_nand_b32, uint32_t, ~(a & b), NOT_ZERO)
SOP2_64(s_nand_b64, uint64_t, uint64_t, B64, ~(a & b), NOT_ZERO)
SOP2_32(s_nor_b32, uint32_t, ~(a | b), NOT_ZERO)
SOP2_64(s_nor_b64, uint64_t, uint64_t, B64, ~(a | b), NOT_ZERO)
SOP2_32(s_xnor_b32, uint32_t, ~(a ^ b), NOT_ZERO)
SOP2_64(s_xnor_b64, uint64_t, uint64_t, B64, ~(a ^ b), NOT_ZERO)
SOP2_32(s_lshl_b32, uint32_t, a << (b & 31), NOT_ZERO)
SOP2_64(s_lshl_b64, uint64_t, uint32_t, B32, a << (b & 63), NOT_ZERO)
SOP2_32(s_lshr_b32, uint32_t, a >> (b & 31), NOT_ZERO)
SOP2_64(s_lshr_b64, uint64_t, uint32_t, B32, a >> (b & 63), NOT_ZERO)
SOP2_32(s_ashr_i32, int32_t, a >> (b & 31), NOT_ZERO)
SOP2_64(s_ashr_i64, int64_t, uint32_t, B32, a >> (b & 63), NOT_ZERO)
SOP2_32(s_bfm_b32, uint32_t, ((1u << (a & 31)) - 1) << (b & 31), NOTHING)
S32(s_bfm_b64) {
  uint32_t a = A32, b = B32;
  put_scalar_pair(w, D->index, ((1ull << (a & 63)) - 1) << (b & 63));
}
SOP2_32(s_mul_i32, uint32_t, a * b, NOTHING)
SOP2_32(s_mul_hi_u32, uint32_t, (uint64_t)a * b >> 32, NOTHING)
SOP2_32(s_mul_hi_i32, int32_t, (int64_t)a * b >> 32, NOTHING)
SOP2_32(s_lshl1_add_u32, uint32_t, (a << 1) + b, SCC_OF = (((uint64_t)a << 1) + b) >> 32 != 0)
SOP2_32(s_lshl2_add_u32, uint32_t, (a << 2) + b, SCC_OF = (((uint64_t)a << 2) + b) >> 32 != 0)
SOP2_32(s_lshl3_add_u32, uint32_t, (a << 3) + b, SCC_OF = (((uint64_t)a << 3) + b) >> 32 != 0)
SOP2_32(s_lshl4_add_u32, uint32_t, (a << 4) + b, SCC_OF = (((uint64_t)a << 4) + b) >> 32 != 0)
SOP2_32(s_absdiff_i32, uint32_t, (int32_t)(a - b) < 0 ? b - a : a - b, NOT_ZERO)
SOP2_32(s_pack_ll_b32_b16, uint32_t, (a & 0xffff) | b << 16, NOTHING)
SOP2_32(s_pack_lh_b32_b16, uint32_t, (a & 0xffff) | (b & 0xffff0000), NOTHING)
SOP2_32(s_pack_hh_b32_b16, uint32_t, a >> 16 | (b & 0xffff0000), NOTHING)

static uint32_t field_u32(uint32_t a, uint32_t b) {
  uint32_t width = b >> 16 & 0x7f, offset = b & 31;
  return width == 0 ? 0 : a >> offset & (width >= 32 ? ~0u : (1u << width) - 1);
}
static uint64_t field_u64(uint64_t a, uint32_t b) {
  uint32_t width = b >> 16 & 0x7f, offset = b & 63;
  return width == 0 ? 0 : a >> offset & (width >= 64 ? ~0ull : (1ull << width) - 1);
}
SOP2_32(s_bfe_u32, uint32_t, field_u32(a, b), NOT_ZERO)
S32(s_bfe_i32) {
  uint32_t b = B32, width = b >> 16 & 0x7f, offset = b & 31;
  int64_t field = (int64_t)(int32_t)A32 >> offset;
  int32_t d = width == 0 ? 0 : width + offset >= 32 || width >= 32 ? (int32_t)field : (int32_t)((uint32_t)field << (32 - width)) >> (32 - width);
  SCC_OF = d != 0;
  put_scalar(w, D->index, (uint32_t)d);
}
SOP2_64(s_bfe_u64, uint64_t, uint32_t, B32, field_u64(a, b), NOT_ZERO)
S32(s_bfe_i64) {
  uint32_t b = B32, width = b >> 16 & 0x7f;
  int64_t field = (int64_t)A64 >> (b & 63);
  int64_t d = width == 0 ? 0 : width >= 64 ? field : (int64_t)((uint64_t)field << (64 - width)) >> (64 - width);
  SCC_OF = d != 0;
  put_scalar_pair(w, D->index, (uint64_t)d);
}

/* ---- SOP1 ---------------------------------------------------------------------------------------------------------- */
#define SOP1_32(name, type, expression, scc_statement)     \
  S32(name) {                                              \
    type a = (type)A32;                                    \
    uint32_t d = (uint32_t)(expression);                   \
    scc_statement;                                         \
    put_scalar(w, D->index, d);                            \
  }                                                        \
  STEP(name) {                                             \
    type a = (type)step_scalar(w, s, 0);                   \
    uint32_t d = (uint32_t)(expression);                   \
    scc_statement;                                         \
    w->s[s->result] = d;                                   \
  }
#define SOP1_64(name, type, expression, scc_statement)     \
  S32(name) {                                              \
    type a = (type)A64;                                    \
    uint64_t d = (uint64_t)(expression);                   \
    scc_statement;                                         \
    put_scalar_pair(w, D->index, d);                       \
  }                                                        \
  STEP(name) {                                             \
    type a = (type)step_pair(w, s, 0);                     \
    uint64_t d = (uint64_t)(expression);                   \
    scc_statement;                                         \
    put_step_pair(w, s, d);                                \
  }
#define SOP1_64_32(name, expression, scc_statement)        \
  S32(name) {                                              \
    uint64_t a = A64;                                      \
    uint32_t d = (uint32_t)(expression);                   \
    scc_statement;                                         \
    put_scalar(w, D->index, d);                            \
  }                                                        \
  STEP(name) {                                             \
    uint64_t a = step_pair(w, s, 0);                       \
    uint32_t d = (uint32_t)(expression);                   \
    scc_statement;                                         \
    w->s[s->result] = d;                                   \
  }
static uint32_t reversed_32(uint32_t a) {
  uint32_t d = 0;
  for (int bit = 0; bit < 32; bit++) d |= (a >> bit & 1) << (31 - bit);
  return d;
}
static uint64_t reversed_64(uint64_t a) { return (uint64_t)reversed_32((uint32_t)a) << 32 | reversed_32((uint32_t)(a >> 32)); }
static uint32_t quads_32(uint32_t a) {
  uint32_t d = 0;
  for (int q = 0; q < 8; q++) d |= (uint32_t)((a >> q * 4 & 15) != 0) << q;
  return d;
}
static uint64_t quads_64(uint64_t a) {
  uint64_t d = 0;
  for (int q = 0; q < 16; q++) d |= (uint64_t)((a >> q * 4 & 15) != 0) << q;
  return d;
}
static uint64_t whole_quads(uint64_t a, int bits) {
  uint64_t d = 0;
  for (int q = 0; q < bits / 4; q++) d |= (a >> q * 4 & 15) ? 15ull << q * 4 : 0;
  return d;
}
/* Leading bits equal to the sign, -1 if all are. */
static uint32_t leading_signs_32(uint32_t a) {
  uint32_t x = (int32_t)a < 0 ? ~a : a;
  return x ? (uint32_t)__builtin_clz(x) : ~0u;
}
static uint32_t leading_signs_64(uint64_t a) {
  uint64_t x = (int64_t)a < 0 ? ~a : a;
  return x ? (uint32_t)__builtin_clzll(x) : ~0u;
}
SOP1_32(s_mov_b32, uint32_t, a, NOTHING)
SOP1_64(s_mov_b64, uint64_t, a, NOTHING)
S32(s_cmov_b32) { if (SCC_OF) put_scalar(w, D->index, A32); }
S32(s_cmov_b64) { if (SCC_OF) put_scalar_pair(w, D->index, A64); }
SOP1_32(s_not_b32, uint32_t, ~a, NOT_ZERO)
SOP1_64(s_not_b64, uint64_t, ~a, NOT_ZERO)
SOP1_32(s_wqm_b32, uint32_t, whole_quads(a, 32), NOT_ZERO)
SOP1_64(s_wqm_b64, uint64_t, whole_quads(a, 64), NOT_ZERO)
SOP1_32(s_brev_b32, uint32_t, reversed_32(a), NOTHING)
SOP1_64(s_brev_b64, uint64_t, reversed_64(a), NOTHING)
SOP1_32(s_bcnt0_i32_b32, uint32_t, 32 - __builtin_popcount(a), NOT_ZERO)
SOP1_64_32(s_bcnt0_i32_b64, 64 - __builtin_popcountll(a), NOT_ZERO)
SOP1_32(s_bcnt1_i32_b32, uint32_t, __builtin_popcount(a), NOT_ZERO)
SOP1_64_32(s_bcnt1_i32_b64, __builtin_popcountll(a), NOT_ZERO)
SOP1_32(s_ff0_i32_b32, uint32_t, ~a ? (uint32_t)__builtin_ctz(~a) : ~0u, NOTHING)
SOP1_64_32(s_ff0_i32_b64, ~a ? (uint32_t)__builtin_ctzll(~a) : ~0u, NOTHING)
SOP1_32(s_ff1_i32_b32, uint32_t, a ? (uint32_t)__builtin_ctz(a) : ~0u, NOTHING)
SOP1_64_32(s_ff1_i32_b64, a ? (uint32_t)__builtin_ctzll(a) : ~0u, NOTHING)
SOP1_32(s_flbit_i32_b32, uint32_t, a ? (uint32_t)__builtin_clz(a) : ~0u, NOTHING)
SOP1_64_32(s_flbit_i32_b64, a ? (uint32_t)__builtin_clzll(a) : ~0u, NOTHING)
SOP1_32(s_flbit_i32, uint32_t, leading_signs_32(a), NOTHING)
SOP1_64_32(s_flbit_i32_i64, leading_signs_64(a), NOTHING)
SOP1_32(s_sext_i32_i8, uint32_t, (int32_t)(int8_t)a, NOTHING)
SOP1_32(s_sext_i32_i16, uint32_t, (int32_t)(int16_t)a, NOTHING)
S32(s_bitset0_b32) { put_scalar(w, D->index, scalar_of(w, D->index) & ~(1u << (A32 & 31))); }
S32(s_bitset1_b32) { put_scalar(w, D->index, scalar_of(w, D->index) | 1u << (A32 & 31)); }
S32(s_bitset0_b64) { put_scalar_pair(w, D->index, scalar_pair_of(w, D->index) & ~(1ull << (A32 & 63))); }
S32(s_bitset1_b64) { put_scalar_pair(w, D->index, scalar_pair_of(w, D->index) | 1ull << (A32 & 63)); }
SOP1_32(s_quadmask_b32, uint32_t, quads_32(a), NOT_ZERO)
SOP1_64(s_quadmask_b64, uint64_t, quads_64(a), NOT_ZERO)
SOP1_32(s_abs_i32, uint32_t, (int32_t)a < 0 ? 0u - a : a, NOT_ZERO)
S32(s_bitreplicate_b64_b32) {
  uint32_t a = A32;
  uint64_t d = 0;
  for (int bit = 0; bit < 32; bit++) d |= (uint64_t)(a >> bit & 1) * 3 << bit * 2;
  put_scalar_pair(w, D->index, d);
}
#define SAVE_EXEC(name, expression)                        \
  S32(s_##name##_saveexec_b64) {                           \
    uint64_t a = A64, exec = EXEC_OF(w);                   \
    put_scalar_pair(w, D->index, exec);                    \
    EXEC_OF(w) = (expression);                             \
    SCC_OF = EXEC_OF(w) != 0;                              \
  }                                                        \
  STEP(s_##name##_saveexec_b64) {                          \
    uint64_t a = step_pair(w, s, 0), exec = EXEC_OF(w);    \
    put_step_pair(w, s, exec);                             \
    EXEC_OF(w) = (expression);                             \
    SCC_OF = EXEC_OF(w) != 0;                              \
  }
SAVE_EXEC(and, a & exec)
SAVE_EXEC(or, a | exec)
SAVE_EXEC(xor, a ^ exec)
SAVE_EXEC(andn1, ~a & exec)
SAVE_EXEC(andn2, a & ~exec)
SAVE_EXEC(orn1, ~a | exec)
SAVE_EXEC(orn2, a | ~exec)
SAVE_EXEC(nand, ~(a & exec))
SAVE_EXEC(nor, ~(a | exec))
SAVE_EXEC(xnor, ~(a ^ exec))
S32(s_andn1_wrexec_b64) {
  EXEC_OF(w) = ~A64 & EXEC_OF(w);
  put_scalar_pair(w, D->index, EXEC_OF(w));
  SCC_OF = EXEC_OF(w) != 0;
}
S32(s_andn2_wrexec_b64) {
  EXEC_OF(w) = A64 & ~EXEC_OF(w);
  put_scalar_pair(w, D->index, EXEC_OF(w));
  SCC_OF = EXEC_OF(w) != 0;
}
static uint64_t address_of_next(const Wave *w) { return w->code->text_address + w->code->instructions[w->next].address; }
static void jump(Wave *w, const Instruction *i, uint64_t address) {
  int32_t index = instruction_at(w->code, address - w->code->text_address);
  if (index >= 0) w->next = (uint32_t)index;
  else leave_code(w, i, "it jumps to %#llx, where no instruction begins", (unsigned long long)address);
}
static void branch(Wave *w, const Instruction *i) {
  int words = (int16_t)i->offset1;
  if (i->target >= 0) w->next = (uint32_t)i->target;
  else leave_code(w, i, "it branches %d bytes %s, where no instruction begins", abs(words) * 4, words < 0 ? "back" : "on");
}
S32(s_getpc_b64) { (void)i; put_scalar_pair(w, D->index, address_of_next(w)); }
S32(s_setpc_b64) { jump(w, i, scalar_operand_pair(w, &i->operand[0])); }
S32(s_swappc_b64) {
  uint64_t to = A64;
  put_scalar_pair(w, D->index, address_of_next(w));
  jump(w, i, to);
}
/* The register M0 behind an operand's; VCC, and a stop, where that is none of the numbered ones. */
static uint32_t relative(Wave *w, const Instruction *i, const Operand *o) {
  uint32_t index = o->index + (w->s[M0] & 127);
  if (index + o->count <= VCC) return index;
  report_and_stop(w, &(Finding){.kind = UNKNOWN_INSTRUCTION, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1,
                                .note = "a relative index beyond the scalar registers"});
  return VCC;
}
S32(s_movrels_b32) { put_scalar(w, D->index, scalar_of(w, relative(w, i, &i->operand[1]))); }
S32(s_movrels_b64) { put_scalar_pair(w, D->index, scalar_pair_of(w, relative(w, i, &i->operand[1]))); }
S32(s_movreld_b32) { put_scalar(w, relative(w, i, D), A32); }
S32(s_movreld_b64) { put_scalar_pair(w, relative(w, i, D), A64); }

/* ---- SOPC ---------------------------------------------------------------------------------------------------------- */
#define COMPARE(name, type, operator) \
  S32(name) { SCC_OF = (type)scalar_operand(w, &i->operand[0]) operator(type) scalar_operand(w, &i->operand[1]); } \
  STEP(name) { SCC_OF = (type)step_scalar(w, s, 0) operator(type) step_scalar(w, s, 1); }
#define COMPARE_ALL(type, suffix)             \
  COMPARE(s_cmp_eq_##suffix, type, ==)        \
  COMPARE(s_cmp_lg_##suffix, type, !=)        \
  COMPARE(s_cmp_gt_##suffix, type, >)         \
  COMPARE(s_cmp_ge_##suffix, type, >=)        \
  COMPARE(s_cmp_lt_##suffix, type, <)         \
  COMPARE(s_cmp_le_##suffix, type, <=)
COMPARE_ALL(int32_t, i32)
COMPARE_ALL(uint32_t, u32)
STEP(s_cmp_eq_u64) { SCC_OF = step_pair(w, s, 0) == step_pair(w, s, 1); }
S32(s_cmp_eq_u64) { SCC_OF = scalar_operand_pair(w, &i->operand[0]) == scalar_operand_pair(w, &i->operand[1]); }
STEP(s_cmp_lg_u64) { SCC_OF = step_pair(w, s, 0) != step_pair(w, s, 1); }
S32(s_cmp_lg_u64) { SCC_OF = scalar_operand_pair(w, &i->operand[0]) != scalar_operand_pair(w, &i->operand[1]); }
STEP(s_bitcmp0_b32) { SCC_OF = !(step_scalar(w, s, 0) >> (step_scalar(w, s, 1) & 31) & 1); }
S32(s_bitcmp0_b32) { SCC_OF = !(scalar_operand(w, &i->operand[0]) >> (scalar_operand(w, &i->operand[1]) & 31) & 1); }
STEP(s_bitcmp1_b32) { SCC_OF = step_scalar(w, s, 0) >> (step_scalar(w, s, 1) & 31) & 1; }
S32(s_bitcmp1_b32) { SCC_OF = scalar_operand(w, &i->operand[0]) >> (scalar_operand(w, &i->operand[1]) & 31) & 1; }
S32(s_bitcmp0_b64) { SCC_OF = !(scalar_operand_pair(w, &i->operand[0]) >> (scalar_operand(w, &i->operand[1]) & 63) & 1); }
S32(s_bitcmp1_b64) { SCC_OF = scalar_operand_pair(w, &i->operand[0]) >> (scalar_operand(w, &i->operand[1]) & 63) & 1; }

/* ---- SOPK: the immediate is in offset1 ------------------------------------------------------------------------------ */
#define IMMEDIATE ((int32_t)(int16_t)i->offset1)
#define UNSIGNED_IMMEDIATE ((uint32_t)i->offset1)
#define STEP_IMMEDIATE ((int32_t)(int16_t)s->source[2])
#define STEP_UNSIGNED_IMMEDIATE (s->source[2])
#define COMPARE_K(name, type, operator, immediate) \
  S32(name) { SCC_OF = (type)scalar_operand(w, &i->operand[0]) operator immediate; } \
  STEP(name) { SCC_OF = (type)step_scalar(w, s, 0) operator STEP_##immediate; }
STEP(s_movk_i32) { w->s[s->result] = (uint32_t)STEP_IMMEDIATE; }
S32(s_movk_i32) { put_scalar(w, D->index, (uint32_t)IMMEDIATE); }
S32(s_cmovk_i32) { if (SCC_OF) put_scalar(w, D->index, (uint32_t)IMMEDIATE); }
COMPARE_K(s_cmpk_eq_i32, int32_t, ==, IMMEDIATE)
COMPARE_K(s_cmpk_lg_i32, int32_t, !=, IMMEDIATE)
COMPARE_K(s_cmpk_gt_i32, int32_t, >, IMMEDIATE)
COMPARE_K(s_cmpk_ge_i32, int32_t, >=, IMMEDIATE)
COMPARE_K(s_cmpk_lt_i32, int32_t, <, IMMEDIATE)
COMPARE_K(s_cmpk_le_i32, int32_t, <=, IMMEDIATE)
COMPARE_K(s_cmpk_eq_u32, uint32_t, ==, UNSIGNED_IMMEDIATE)
COMPARE_K(s_cmpk_lg_u32, uint32_t, !=, UNSIGNED_IMMEDIATE)
COMPARE_K(s_cmpk_gt_u32, uint32_t, >, UNSIGNED_IMMEDIATE)
COMPARE_K(s_cmpk_ge_u32, uint32_t, >=, UNSIGNED_IMMEDIATE)
COMPARE_K(s_cmpk_lt_u32, uint32_t, <, UNSIGNED_IMMEDIATE)
COMPARE_K(s_cmpk_le_u32, uint32_t, <=, UNSIGNED_IMMEDIATE)
S32(s_addk_i32) {
  uint32_t a = scalar_of(w, D->index), b = (uint32_t)IMMEDIATE, d = a + b;
  SCC_OF = (~(a ^ b) & (a ^ d)) >> 31;
  put_scalar(w, D->index, d);
}
S32(s_mulk_i32) { put_scalar(w, D->index, scalar_of(w, D->index) * (uint32_t)IMMEDIATE); }
S32(s_call_b64) {
  put_scalar_pair(w, D->index, address_of_next(w));
  branch(w, i);
}
/* Hardware registers: MODE is kept, of the others the compiler reads none whose value changes a result. Rounding other
 * than to the nearest even is not modelled. SCHED_MODE of gfx12 leaves dependencies of registers to the s_wait_alu that LLVM
 * writes (SIInsertWaitcnts.cpp, expert scheduling mode): a time, no value. */
enum { HW_MODE = 1, HW_XCC_ID = 20, HW_SCHED_MODE = 26, HW_IB_STS2 = 28 /* of gfx1250 its bits 9:6, the cluster: none */, HW_CYCLES = 29, HW_CYCLES_HIGH = 30, ROUNDING = 15 };
static uint32_t hardware_mask(uint32_t immediate) {
  uint32_t width = (immediate >> 11 & 31) + 1;
  return width >= 32 ? ~0u : (1u << width) - 1;
}
S32(s_getreg_b32) {
  uint32_t id = i->offset1 & 63, shift = i->offset1 >> 6 & 31;
  if (is_rdna(w->launch->arch) && (id == HW_CYCLES || id == HW_CYCLES_HIGH)) {
    uint32_t cycles = (uint32_t)(w->executed >> (id == HW_CYCLES ? 0 : 32));
    put_scalar(w, D->index, cycles >> shift & hardware_mask((uint32_t)i->offset1));
    return;
  }
  if (w->launch->arch == GFX1250 && id == HW_IB_STS2 && shift == 6) {
    put_scalar(w, D->index, 0);
    return;
  }
  if (id != HW_MODE && (id != HW_XCC_ID || is_rdna(w->launch->arch))) {
    unknown_row.execute(w, i);
    return;
  }
  put_scalar(w, D->index, (id == HW_MODE ? w->mode : 0) >> shift & hardware_mask((uint32_t)i->offset1));
}
static void set_mode(Wave *w, const Instruction *i, uint32_t value) {
  uint32_t shift = i->offset1 >> 6 & 31, mask = hardware_mask((uint32_t)i->offset1) << shift;
  if ((i->offset1 & 63) == HW_MODE) w->mode = (w->mode & ~mask) | (value << shift & mask);
  else if ((i->offset1 & 63) != HW_SCHED_MODE || !is_gfx12(w->launch->arch)) unknown_row.execute(w, i);
  if (w->mode & ROUNDING) unknown_row.execute(w, i);
}
S32(s_setreg_b32) { set_mode(w, i, scalar_operand(w, &i->operand[0])); }
S32(s_setreg_imm32_b32) { set_mode(w, i, scalar_operand(w, &i->operand[0])); }

/* ---- SOPP ---------------------------------------------------------------------------------------------------------- */
S32(s_nop) { (void)w, (void)i; }
S32(s_endpgm) { (void)i; w->state = ENDED; }
S32(s_barrier) { (void)i; w->state = AT_BARRIER; }
S32(s_trap) {
  Finding f = {.kind = TRAP, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1};
  last_error_line(f.note, sizeof f.note);
  report_and_stop(w, &f);
}
S32(s_sendmsg) { (void)i; answer_host_calls(w); }
STEP(s_branch) { w->next = s->source[0]; }
S32(s_branch) { branch(w, i); }
#define BRANCH(name, condition) \
  S32(s_cbranch_##name) { if (condition) branch(w, i); } \
  STEP(s_cbranch_##name) { w->next = (condition) ? s->source[0] : s->next; }
BRANCH(scc0, !SCC_OF)
BRANCH(scc1, SCC_OF)
BRANCH(vccz, vcc_lanes(w) == 0)
BRANCH(vccnz, vcc_lanes(w) != 0)
BRANCH(execz, EXEC_OF(w) == 0)
BRANCH(execnz, EXEC_OF(w) != 0)
/* The immediate of gfx9: vmcnt in bits 3:0 and 15:14, expcnt in 6:4, lgkmcnt in 11:8. All ones: do not wait. */
S32(s_waitcnt) {
  if (!w->checks) return;
  int vm = (i->offset1 & 15) | (i->offset1 >> 10 & 0x30), exp = i->offset1 >> 4 & 7, lgkm = i->offset1 >> 8 & 15;
  check_wait(w, vm == 63 ? -1 : vm, lgkm == 15 ? -1 : lgkm, exp == 7 ? -1 : exp);
}

/* Relative indexing: M0[7:0] is added to the vector registers of the sources and the result that M0[15:12] names, until
 * s_set_gpr_idx_off. Each instruction between is executed from a copy with its registers shifted. */
static void execute_shifted(Wave *w, const Instruction *i) {
  static __thread Instruction copies[64]; /* findings and origins point to them for a while */
  uint32_t shift = w->s[M0] & 255, which = w->s[M0] >> 12 & 15;
  Instruction *shifted = &copies[(i->address / 4 + shift) % 64];
  *shifted = *i;
  bool is_vector = i->text[0] == 'v';
  for (int n = 0; is_vector && n < i->operand_count; n++) {
    Operand *o = &shifted->operand[n];
    uint32_t bit = n < i->row->results ? 8 : 1u << (n - i->row->results);
    if (o->kind != VECTOR || !(which & bit)) continue;
    if ((o->index & 255) + shift + o->count > 256) {
      report_and_stop(w, &(Finding){.kind = UNKNOWN_INSTRUCTION, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1,
                                    .note = "a relative index beyond the vector registers"});
      return;
    }
    o->index = (uint16_t)(o->index + shift);
  }
  bool checked = w->checks && !(i->row->flags & IS_MEMORY);
  if (checked) check_before(w, shifted);
  i->execute(w, is_vector ? shifted : i);
  if (checked) check_after(w, shifted);
}
S32(s_set_gpr_idx_on) {
  enum { MOST = 1 << 16 }; /* the compiler puts no loop between the two */
  for (uint32_t n = 0; w->state == RUNNING && strcmp(i->row->name, "s_set_gpr_idx_off") != 0; n++) {
    if (i->execute == execute_s_set_gpr_idx_on)
      w->s[M0] = (w->s[M0] & 0xffff0f00u) | (scalar_operand(w, &i->operand[0]) & 255) | (i->offset1 >> 8 & 15) << 12;
    else
      execute_shifted(w, i);
    if (n == MOST)
      report_and_stop(w, &(Finding){.kind = NO_END, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1,
                                    .note = "65,536 instructions after s_set_gpr_idx_on and before s_set_gpr_idx_off"});
    if (w->state == RUNNING) i = &w->code->instructions[w->next++];
  }
}
S32(s_set_gpr_idx_idx) { w->s[M0] = (w->s[M0] & ~255u) | (scalar_operand(w, &i->operand[0]) & 255); }
S32(s_set_gpr_idx_mode) { w->s[M0] = (w->s[M0] & 0xffff0fffu) | (uint32_t)(i->offset1 & 15) << 12; }

#define ROW(name, results, flags) {#name, execute_##name, results, flags, PLAIN_BITS, 0}
#define PERFORMED(name, results, flags) {#name, execute_##name, results, flags, PLAIN_BITS, 0, perform_##name}
#define P1(name) PERFORMED(name, 1, IGNORES_EXEC)
#define P1C(name) PERFORMED(name, 1, IGNORES_EXEC | WRITES_SCC)
#define P0C(name) PERFORMED(name, 0, IGNORES_EXEC | WRITES_SCC)
#define R1(name) ROW(name, 1, IGNORES_EXEC)
#define R1C(name) ROW(name, 1, IGNORES_EXEC | WRITES_SCC)
#define R0C(name) ROW(name, 0, IGNORES_EXEC | WRITES_SCC)
#define R0(name) ROW(name, 0, IGNORES_EXEC)

/* A target is printed as a number or as a symbol's name, which the encoding does not need. */
enum { TO_LABEL = IGNORES_EXEC | IS_BRANCH | OPERANDS_IN_ENCODING };

const Row scalar_rows[] = {
    P1C(s_add_u32), P1C(s_sub_u32), P1C(s_add_i32), P1C(s_sub_i32),
    ROW(s_addc_u32, 1, IGNORES_EXEC | WRITES_SCC | READS_SCC), ROW(s_subb_u32, 1, IGNORES_EXEC | WRITES_SCC | READS_SCC),
    P1C(s_min_i32), P1C(s_min_u32), P1C(s_max_i32), P1C(s_max_u32),
    PERFORMED(s_cselect_b32, 1, IGNORES_EXEC | READS_SCC), PERFORMED(s_cselect_b64, 1, IGNORES_EXEC | READS_SCC),
    P1C(s_and_b32), P1C(s_and_b64), P1C(s_or_b32), P1C(s_or_b64), P1C(s_xor_b32), P1C(s_xor_b64), P1C(s_andn2_b32),
    P1C(s_andn2_b64), P1C(s_orn2_b32), P1C(s_orn2_b64), P1C(s_nand_b32), P1C(s_nand_b64), P1C(s_nor_b32),
    P1C(s_nor_b64), P1C(s_xnor_b32), P1C(s_xnor_b64), P1C(s_lshl_b32), P1C(s_lshl_b64), P1C(s_lshr_b32),
    P1C(s_lshr_b64), P1C(s_ashr_i32), P1C(s_ashr_i64), P1(s_bfm_b32), R1(s_bfm_b64), P1(s_mul_i32), P1(s_mul_hi_u32),
    P1(s_mul_hi_i32), P1C(s_lshl1_add_u32), P1C(s_lshl2_add_u32), P1C(s_lshl3_add_u32), P1C(s_lshl4_add_u32),
    P1C(s_absdiff_i32), P1(s_pack_ll_b32_b16), P1(s_pack_lh_b32_b16), P1(s_pack_hh_b32_b16), P1C(s_bfe_u32),
    R1C(s_bfe_i32), P1C(s_bfe_u64), R1C(s_bfe_i64),
    PERFORMED(s_mov_b32, 1, IGNORES_EXEC | MOVES), PERFORMED(s_mov_b64, 1, IGNORES_EXEC | MOVES),
    ROW(s_cmov_b32, 1, IGNORES_EXEC | READS_SCC | READS_RESULT), ROW(s_cmov_b64, 1, IGNORES_EXEC | READS_SCC | READS_RESULT),
    P1C(s_not_b32), P1C(s_not_b64), P1C(s_wqm_b32), P1C(s_wqm_b64), P1(s_brev_b32), P1(s_brev_b64),
    P1C(s_bcnt0_i32_b32), P1C(s_bcnt0_i32_b64), P1C(s_bcnt1_i32_b32), P1C(s_bcnt1_i32_b64), P1(s_ff0_i32_b32),
    P1(s_ff0_i32_b64), P1(s_ff1_i32_b32), P1(s_ff1_i32_b64), P1(s_flbit_i32_b32), P1(s_flbit_i32_b64), P1(s_flbit_i32),
    P1(s_flbit_i32_i64), P1(s_sext_i32_i8), P1(s_sext_i32_i16),
    ROW(s_bitset0_b32, 1, IGNORES_EXEC | READS_RESULT), ROW(s_bitset1_b32, 1, IGNORES_EXEC | READS_RESULT),
    ROW(s_bitset0_b64, 1, IGNORES_EXEC | READS_RESULT), ROW(s_bitset1_b64, 1, IGNORES_EXEC | READS_RESULT),
    P1C(s_quadmask_b32), P1C(s_quadmask_b64), P1C(s_abs_i32), R1(s_bitreplicate_b64_b32),
    P1C(s_and_saveexec_b64), P1C(s_or_saveexec_b64), P1C(s_xor_saveexec_b64), P1C(s_andn1_saveexec_b64),
    P1C(s_andn2_saveexec_b64), P1C(s_orn1_saveexec_b64), P1C(s_orn2_saveexec_b64), P1C(s_nand_saveexec_b64),
    P1C(s_nor_saveexec_b64), P1C(s_xnor_saveexec_b64), R1C(s_andn1_wrexec_b64), R1C(s_andn2_wrexec_b64),
    R1(s_getpc_b64), ROW(s_setpc_b64, 0, IGNORES_EXEC | ENDS_BLOCK | IS_BRANCH),
    ROW(s_swappc_b64, 1, IGNORES_EXEC | ENDS_BLOCK | IS_BRANCH), R1(s_movrels_b32), R1(s_movrels_b64), R1(s_movreld_b32),
    R1(s_movreld_b64),
    P0C(s_cmp_eq_i32), P0C(s_cmp_lg_i32), P0C(s_cmp_gt_i32), P0C(s_cmp_ge_i32), P0C(s_cmp_lt_i32), P0C(s_cmp_le_i32),
    P0C(s_cmp_eq_u32), P0C(s_cmp_lg_u32), P0C(s_cmp_gt_u32), P0C(s_cmp_ge_u32), P0C(s_cmp_lt_u32), P0C(s_cmp_le_u32),
    P0C(s_cmp_eq_u64), P0C(s_cmp_lg_u64), P0C(s_bitcmp0_b32), P0C(s_bitcmp1_b32), R0C(s_bitcmp0_b64), R0C(s_bitcmp1_b64),
    P1(s_movk_i32), ROW(s_cmovk_i32, 1, IGNORES_EXEC | READS_SCC | READS_RESULT), P0C(s_cmpk_eq_i32), P0C(s_cmpk_lg_i32),
    P0C(s_cmpk_gt_i32), P0C(s_cmpk_ge_i32), P0C(s_cmpk_lt_i32), P0C(s_cmpk_le_i32), P0C(s_cmpk_eq_u32),
    P0C(s_cmpk_lg_u32), P0C(s_cmpk_gt_u32), P0C(s_cmpk_ge_u32), P0C(s_cmpk_lt_u32), P0C(s_cmpk_le_u32),
    ROW(s_addk_i32, 1, IGNORES_EXEC | WRITES_SCC | READS_RESULT), ROW(s_mulk_i32, 1, IGNORES_EXEC | READS_RESULT),
    ROW(s_call_b64, 1, IGNORES_EXEC | ENDS_BLOCK), R1(s_getreg_b32), R0(s_setreg_b32), R0(s_setreg_imm32_b32),
    {"s_nop", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0}, {"s_sleep", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0},
    {"s_setprio", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0}, {"s_sethalt", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0},
    {"s_icache_inv", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0}, {"s_incperflevel", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0},
    {"s_decperflevel", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0}, {"s_ttracedata", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0},
    {"s_wakeup", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0}, R0(s_sendmsg),
    ROW(s_endpgm, 0, IGNORES_EXEC | ENDS_BLOCK), {"s_endpgm_saved", execute_s_endpgm, 0, IGNORES_EXEC | ENDS_BLOCK, PLAIN_BITS, 0},
    R0(s_barrier), R0(s_trap), PERFORMED(s_branch, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING | ENDS_BLOCK),
    PERFORMED(s_cbranch_scc0, 0, TO_LABEL | READS_SCC), PERFORMED(s_cbranch_scc1, 0, TO_LABEL | READS_SCC),
    PERFORMED(s_cbranch_vccz, 0, TO_LABEL | READS_VCC), PERFORMED(s_cbranch_vccnz, 0, TO_LABEL | READS_VCC),
    PERFORMED(s_cbranch_execz, 0, TO_LABEL), PERFORMED(s_cbranch_execnz, 0, TO_LABEL),
    R0(s_waitcnt), R0(s_set_gpr_idx_on), R0(s_set_gpr_idx_idx), R0(s_set_gpr_idx_mode),
    {"s_set_gpr_idx_off", execute_s_nop, 0, IGNORES_EXEC, PLAIN_BITS, 0}, {NULL, NULL, 0, 0, PLAIN_BITS, 0},
};
