/* gfx12: counters by kind of memory, barriers in two parts, scalar floats (of gfx11.5, too), scalars of 64 bits.
 *
 * Semantics: "RDNA4 Instruction Set Architecture", chapters 5.5, 6 and 16; LLVM's SIInsertWaitcnts for what counts where. */
#include "ordering.h"
#include "values.h"

#define FUNCTION(name) static void execute_##name(Wave *w, const Instruction *i)
#define D (&i->operand[0])

/* ---- Waits ------------------------------------------------------------------------------------------------------- */
/* Stores have a counter of their own, for which nothing in a wave needs to wait. Combined: dscnt in bits 5:0, the other
 * in 13:8. Scalar loads arrive in any order, so that only none outstanding tells something. */
FUNCTION(s_wait_loadcnt) {
  if (w->checks) check_wait(w, i->offset1 & 63, -1, -1);
}
FUNCTION(s_wait_dscnt) {
  if (w->checks) check_wait(w, -1, i->offset1 & 63, -1);
}
FUNCTION(s_wait_loadcnt_dscnt) {
  if (w->checks) check_wait(w, i->offset1 >> 8 & 63, i->offset1 & 63, -1);
}
FUNCTION(s_wait_kmcnt) {
  if (w->checks && !(i->offset1 & 31)) check_scalar_wait(w);
}
FUNCTION(s_wait_idle) {
  (void)i;
  if (!w->checks) return;
  check_wait(w, 0, 0, -1);
  check_scalar_wait(w);
}
/* loadcnt counts an invalidation. */
void execute_invalidate_and_count(Wave *w, const Instruction *i) {
  w->polls = true;
  if (!w->checks) return;
  if (i->sc1) order_invalidate(w);
  expect(w, i, 0, 0, 0, 0, 0);
}
FUNCTION(s_wait_storecnt) {
  if (w->checks && !(i->offset1 & 63)) order_wait(w);
}
FUNCTION(s_wait_storecnt_dscnt) {
  if (!w->checks) return;
  if (!(i->offset1 >> 8 & 63)) order_wait(w);
  check_wait(w, -1, i->offset1 & 63, -1);
}

/* ---- Barriers ---------------------------------------------------------------------------------------------------- */
/* A wave waits until all others wait too, not until they have signalled: between the two they touch nothing of which the
 * first could know. */
enum { WORKGROUP_BARRIER = -1 };
static bool is_of_workgroup(Wave *w, const Instruction *i) {
  const Operand *o = &i->operand[0];
  if (o->kind == LITERAL && (int16_t)o->bits == WORKGROUP_BARRIER) return true;
  cannot_execute(w, i, "a barrier other than the workgroup's");
  return false;
}
static bool is_first_to_signal(Wave *w) {
  uint32_t others = 0;
  for (uint32_t n = 0; n < w->group->wave_count; n++) others += w->group->waves[n]->state != ENDED;
  bool first = w->group->signals++ == 0;
  if (w->group->signals >= others) w->group->signals = 0;
  return first;
}
FUNCTION(s_barrier_signal) {
  if (is_of_workgroup(w, i)) is_first_to_signal(w);
}
FUNCTION(s_barrier_signal_isfirst) {
  if (is_of_workgroup(w, i)) w->s[SCC] = is_first_to_signal(w);
}
FUNCTION(s_barrier_wait) {
  if (is_of_workgroup(w, i)) w->state = AT_BARRIER;
}

/* ---- 64 bits ----------------------------------------------------------------------------------------------------- */
#define WIDE(name, operator)                                                                             \
  FUNCTION(name) {                                                                                       \
    put_scalar_pair(w, D->index,                                                                         \
                    scalar_operand_pair(w, &i->operand[1]) operator scalar_operand_pair(w, &i->operand[2])); \
  }
WIDE(s_add_nc_u64, +)
WIDE(s_sub_nc_u64, -)
WIDE(s_mul_u64, *)

/* ---- Floats ------------------------------------------------------------------------------------------------------ */
static float flushed(const Wave *w, float x, unsigned allowing) {
  return !(w->mode >> allowing & 1) && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static float take_F32(const Wave *w, const Operand *o) {
  return flushed(w, f32_of_bits(scalar_operand(w, o)), DENORMAL_SOURCES);
}
static float take_F16(const Wave *w, const Operand *o) {
  return f32_of_f16(o->kind == LITERAL ? literal_16(o) : scalar_operand(w, o));
}
static int32_t take_I32(const Wave *w, const Operand *o) { return (int32_t)scalar_operand(w, o); }
static uint32_t take_U32(const Wave *w, const Operand *o) { return scalar_operand(w, o); }
static void put_F32(Wave *w, const Operand *o, float x) {
  put_scalar(w, o->index, bits_of_f32(flushed(w, x, DENORMAL_RESULTS)));
}
static void put_F16(Wave *w, const Operand *o, float x) { put_scalar(w, o->index, f16_of_f32(x)); }
static void put_U32(Wave *w, const Operand *o, int64_t x) { put_scalar(w, o->index, (uint32_t)x); }

#define F1(name, R, A, expression)              \
  FUNCTION(name) {                              \
    __auto_type a = take_##A(w, &i->operand[1]); \
    put_##R(w, D, expression);                  \
  }
#define F2(name, R, A, expression)              \
  FUNCTION(name) {                              \
    __auto_type a = take_##A(w, &i->operand[1]); \
    __auto_type b = take_##A(w, &i->operand[2]); \
    put_##R(w, D, expression);                  \
  }
#define F3(name, R, A, third, expression)       \
  FUNCTION(name) {                              \
    __auto_type a = take_##A(w, &i->operand[1]); \
    __auto_type b = take_##A(w, &i->operand[2]); \
    __auto_type c = take_##A(w, &i->operand[third]); \
    put_##R(w, D, expression);                  \
  }
/* The sum is exact in f64 as far as its rounding to f16 goes: v_fma_f16 has the whole of it. */
static float fused_F32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static float fused_F16(float a, float b, float c) {
  double exact = (double)a * (double)b + (double)c;
  float near = (float)exact;
  if ((double)near == exact || !isfinite(near)) return near;
  uint32_t bits = bits_of_f32(near);
  if (fabs((double)near) > fabs(exact)) bits--;
  return f32_of_bits(bits | 1); /* the lost bits are an odd last one */
}
#define OF_BOTH(F)                                        \
  F##2(s_add_, a + b) F##2(s_sub_, a - b) F##2(s_mul_, a *b) F##2(s_min_, min_f32(a, b)) F##2(s_max_, max_f32(a, b)) \
  F##2(s_minimum_, minimum_f32(a, b)) F##2(s_maximum_, maximum_f32(a, b)) F##1(s_ceil_, ceilf(a))                 \
  F##1(s_floor_, floorf(a)) F##1(s_trunc_, truncf(a)) F##1(s_rndne_, rintf(a))
#define SINGLE2(name, expression) F2(name##f32, F32, F32, expression)
#define SINGLE1(name, expression) F1(name##f32, F32, F32, expression)
#define HALF2(name, expression) F2(name##f16, F16, F16, expression)
#define HALF1(name, expression) F1(name##f16, F16, F16, expression)
OF_BOTH(SINGLE)
OF_BOTH(HALF)
F3(s_fmac_f32, F32, F32, 0, fused_F32(a, b, c))
F3(s_fmac_f16, F16, F16, 0, fused_F16(a, b, c))
F3(s_fmamk_f32, F32, F32, 3, fused_F32(a, b, c))
F3(s_fmaak_f32, F32, F32, 3, fused_F32(a, b, c))
F1(s_cvt_f32_i32, F32, I32, (float)a)
F1(s_cvt_f32_u32, F32, U32, (float)a)
F1(s_cvt_i32_f32, U32, F32, saturated((double)a, -2147483648.0, 2147483647.0))
F1(s_cvt_u32_f32, U32, F32, saturated((double)a, 0, 4294967295.0))
F1(s_cvt_f16_f32, F16, F32, a)
F1(s_cvt_f32_f16, F32, F16, a)
F1(s_cvt_hi_f32_f16, F32, U32, f32_of_f16(a >> 16))
F2(s_cvt_pk_rtz_f16_f32, U32, F32, f16_towards_zero(a) | f16_towards_zero(b) << 16)

#define COMPARISONS(X, t, T)                                                                             \
  X(lt_##t, T, a < b) X(eq_##t, T, a == b) X(le_##t, T, a <= b) X(gt_##t, T, a > b) X(lg_##t, T, a < b || a > b) \
  X(ge_##t, T, a >= b) X(o_##t, T, a == a && b == b) X(u_##t, T, a != a || b != b) X(nge_##t, T, !(a >= b)) \
  X(nlg_##t, T, !(a < b || a > b)) X(ngt_##t, T, !(a > b)) X(nle_##t, T, !(a <= b)) X(neq_##t, T, a != b) \
  X(nlt_##t, T, !(a < b))
#define COMPARISON(name, T, expression)         \
  FUNCTION(s_cmp_##name) {                      \
    float a = take_##T(w, &i->operand[0]), b = take_##T(w, &i->operand[1]); \
    w->s[SCC] = (expression) != 0;              \
  }
COMPARISONS(COMPARISON, f32, F32)
COMPARISONS(COMPARISON, f16, F16)

/* Transcendental functions of a scalar, in the vector unit. */
static float modified(const Instruction *i, float x, bool after) {
  const Operand *o = &i->operand[1];
  if (!after) {
    if (o->abs) x = fabsf(x);
    return o->neg ? -x : x;
  }
  return i->clamp ? (x > 0 ? (x < 1 ? x : 1) : 0) : x;
}
#define OF_SCALAR(name, expression)                                                                    \
  FUNCTION(v_s_##name##_f32) {                                                                         \
    float a = modified(i, take_F32(w, &i->operand[1]), false);                                         \
    float factor = i->omod && !(w->mode >> DENORMAL_RESULTS & 1) ? (i->omod == 1 ? 2.0f : i->omod == 2 ? 4.0f : 0.5f) : 1; \
    put_F32(w, D, modified(i, (expression) * factor, true));                                           \
  }                                                                                                    \
  FUNCTION(v_s_##name##_f16) {                                                                         \
    float a = modified(i, take_F16(w, &i->operand[1]), false);                                         \
    put_F16(w, D, modified(i, expression, true));                                                      \
  }
OF_SCALAR(exp, exp2f(a))
OF_SCALAR(log, log2f(a))
OF_SCALAR(rcp, 1.0f / a)
OF_SCALAR(rsq, 1.0f / __builtin_sqrtf(a))
OF_SCALAR(sqrt, __builtin_sqrtf(a))

/* ---- Lanes ------------------------------------------------------------------------------------------------------- */
/* The lane of its row, or of the other row of 16, that the second source's lower four bits name. */
static void permute_rows(Wave *w, const Instruction *i, unsigned other_row) {
  const uint32_t *from = w->v[i->operand[1].index], *old = w->v[i->operand[0].index];
  const uint32_t *select = w->v[i->operand[2].index];
  bool fetches_inactive = i->op_sel & 1, bound_control = i->op_sel & 2;
  Lanes d;
  for (unsigned l = 0; l < LANES; l++) {
    unsigned source = ((l & ~15u) ^ other_row) | (select[l] & 15);
    bool active = fetches_inactive || EXEC_OF(w) >> source & 1;
    d[l] = active ? from[source] : bound_control ? 0 : old[l];
  }
  put_lanes(w, i->operand[0].index, d);
}
FUNCTION(v_permlane16_var_b32) { permute_rows(w, i, 0); }
FUNCTION(v_permlanex16_var_b32) { permute_rows(w, i, 16); }

/* ---- The table --------------------------------------------------------------------------------------------------- */
#define NOTHING(name) {name, execute_nothing, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0}
#define ENCODED(name) {#name, execute_##name, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0}
#define SCALAR_ROW(name, results, flags) {#name, execute_##name, results, IGNORES_EXEC | (flags), PLAIN_BITS, 0}
#define SINGLE_ROW1(name, expression) SCALAR_ROW(name##f32, 1, 0),
#define SINGLE_ROW2(name, expression) SCALAR_ROW(name##f32, 1, 0),
#define HALF_ROW1(name, expression) SCALAR_ROW(name##f16, 1, 0),
#define HALF_ROW2(name, expression) SCALAR_ROW(name##f16, 1, 0),
#define COMPARISON_ROW(name, T, expression) SCALAR_ROW(s_cmp_##name, 0, WRITES_SCC),

const Row rdna4_rows[] = {
    ENCODED(s_wait_loadcnt), ENCODED(s_wait_dscnt), ENCODED(s_wait_loadcnt_dscnt), ENCODED(s_wait_kmcnt), ENCODED(s_wait_idle),
    {"s_wait_storecnt_dscnt", execute_s_wait_storecnt_dscnt, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0},
    {"s_wait_storecnt", execute_s_wait_storecnt, 0, IGNORES_EXEC | OPERANDS_IN_ENCODING, PLAIN_BITS, 0},
    NOTHING("s_wait_samplecnt"), NOTHING("s_wait_bvhcnt"), NOTHING("s_wait_expcnt"),
    NOTHING("s_wait_alu"), NOTHING("s_wait_xcnt"),
    NOTHING("s_wait_asynccnt"), NOTHING("s_wait_tensorcnt"), NOTHING("s_set_vgpr_msb"), NOTHING("s_wait_event"), NOTHING("s_sleep_var"), NOTHING("s_prefetch_inst"),
    NOTHING("s_prefetch_inst_pc_rel"), NOTHING("s_prefetch_data"), NOTHING("s_prefetch_data_pc_rel"),
    NOTHING("s_buffer_prefetch_data"), NOTHING("global_prefetch_b8"), NOTHING("flat_prefetch_b8"), NOTHING("global_wb"),
    {"global_inv", execute_invalidate_and_count, 0, IGNORES_EXEC, PLAIN_BITS, 0},
    {"global_wbinv", execute_invalidate_and_count, 0, IGNORES_EXEC, PLAIN_BITS, 0},
    SCALAR_ROW(s_barrier_signal, 0, 0), SCALAR_ROW(s_barrier_signal_isfirst, 0, WRITES_SCC), SCALAR_ROW(s_barrier_wait, 0, 0),
    SCALAR_ROW(s_add_nc_u64, 1, 0), SCALAR_ROW(s_sub_nc_u64, 1, 0), SCALAR_ROW(s_mul_u64, 1, 0),
    OF_BOTH(SINGLE_ROW) OF_BOTH(HALF_ROW)
    SCALAR_ROW(s_fmac_f32, 1, READS_RESULT), SCALAR_ROW(s_fmac_f16, 1, READS_RESULT), SCALAR_ROW(s_fmamk_f32, 1, 0), SCALAR_ROW(s_fmaak_f32, 1, 0),
    SCALAR_ROW(s_cvt_f32_i32, 1, 0), SCALAR_ROW(s_cvt_f32_u32, 1, 0), SCALAR_ROW(s_cvt_i32_f32, 1, 0), SCALAR_ROW(s_cvt_u32_f32, 1, 0),
    SCALAR_ROW(s_cvt_f16_f32, 1, 0), SCALAR_ROW(s_cvt_f32_f16, 1, 0), SCALAR_ROW(s_cvt_hi_f32_f16, 1, 0), SCALAR_ROW(s_cvt_pk_rtz_f16_f32, 1, 0),
    COMPARISONS(COMPARISON_ROW, f32, F32) COMPARISONS(COMPARISON_ROW, f16, F16)
    SCALAR_ROW(v_s_exp_f32, 1, 0), SCALAR_ROW(v_s_log_f32, 1, 0), SCALAR_ROW(v_s_rcp_f32, 1, 0), SCALAR_ROW(v_s_rsq_f32, 1, 0), SCALAR_ROW(v_s_sqrt_f32, 1, 0),
    SCALAR_ROW(v_s_exp_f16, 1, 0), SCALAR_ROW(v_s_log_f16, 1, 0), SCALAR_ROW(v_s_rcp_f16, 1, 0), SCALAR_ROW(v_s_rsq_f16, 1, 0), SCALAR_ROW(v_s_sqrt_f16, 1, 0),
    {"v_permlane16_var_b32", execute_v_permlane16_var_b32, 1, READS_RESULT, PLAIN_BITS, 0},
    {"v_permlanex16_var_b32", execute_v_permlanex16_var_b32, 1, READS_RESULT, PLAIN_BITS, 0},
    {NULL, NULL, 0, 0, PLAIN_BITS, 0},
};
