/* Reading operands of all lanes and writing results, with modifiers, SDWA and DPP. */
#ifndef VALUES_H
#define VALUES_H

#include <math.h>
#include <string.h>

#include "lanes.h"

typedef uint32_t Lanes[LANES] __attribute__((aligned(64)));

/* ---- Scalars ---------------------------------------------------------------------------------------------------- */
static inline uint32_t scalar_of(const Wave *w, uint32_t index) {
  if (index == VCCZ) return vcc_lanes(w) == 0;
  if (index == EXECZ) return EXEC_OF(w) == 0;
  return index == NULL_REGISTER ? 0 : w->s[index];
}
static inline uint64_t scalar_pair_of(const Wave *w, uint32_t index) {
  return (uint64_t)scalar_of(w, index) | (uint64_t)scalar_of(w, index + 1) << 32;
}
static inline void put_scalar(Wave *w, uint32_t index, uint32_t value) {
  if (index != NULL_REGISTER) w->s[index] = value;
}
static inline void put_scalar_pair(Wave *w, uint32_t index, uint64_t value) {
  put_scalar(w, index, (uint32_t)value);
  put_scalar(w, index + 1, (uint32_t)(value >> 32));
}

/* A mask with a bit for each lane: gfx1100's is one register. */
static inline void put_mask(Wave *w, const Operand *o, uint64_t mask) {
  put_scalar(w, o->index, (uint32_t)mask);
  if (o->count > 1) put_scalar(w, o->index + 1, (uint32_t)(mask >> 32));
}

static inline uint32_t bits_of_f32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float f32_of_bits(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
static inline uint64_t bits_of_f64(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static inline double f64_of_bits(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
#ifdef __FLT16_MAX__
static inline float f32_of_f16(uint32_t b) { uint16_t u = (uint16_t)b; _Float16 x; memcpy(&x, &u, 2); return (float)x; }
static inline uint32_t f16_of_f32(float f) { _Float16 x = (_Float16)f; uint16_t u; memcpy(&u, &x, 2); return u; }
#else /* GCC before 12 */
static inline float f32_of_f16(uint32_t b) {
  float magnitude = f32_of_bits((b & 0x7fff) << 13) * 0x1p112f; /* the difference of the biases */
  uint32_t special = (b & 0x7c00) == 0x7c00 ? 0x7f800000u | (b & 0x3ff ? 0x400000 : 0) : 0;
  return f32_of_bits(bits_of_f32(magnitude) | special | (b & 0x8000) << 16);
}
static inline uint32_t f16_of_f32(float x) {
  uint32_t u = bits_of_f32(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | (magnitude >> 13 & 0x3ff);
  if (magnitude >= 0x47800000) return sign | 0x7c00;
  /* The last bit of 0.5 is the smallest number of f16: their sum is rounded to it. */
  if (magnitude < 0x38800000) return sign | (bits_of_f32(f32_of_bits(magnitude) + 0.5f) - bits_of_f32(0.5f));
  return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
}
#endif
static inline float f32_of_bf16(uint32_t b) { return f32_of_bits(b << 16); }
static inline uint32_t bf16_of_f32(float x) { /* to nearest even */
  uint32_t u = bits_of_f32(x);
  if (x != x) return (u >> 16 | 0x40) & 0xffff;
  return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

/* As IEEE 754-2008 minNum and maxNum; -0 is below +0: equal numbers differ in their signs alone. Without branches, so that
 * compilers take many lanes at once. */
#define MIN_AND_MAX(t, real)                                                              \
  static inline real min_##t(real a, real b) {                                            \
    real other = a == b ? t##_of_bits(bits_of_##t(a) | bits_of_##t(b)) : b;               \
    return (a < b) | ((b != b) & (a == a)) ? a : other;                                   \
  }                                                                                       \
  static inline real max_##t(real a, real b) {                                            \
    real other = a == b ? t##_of_bits(bits_of_##t(a) & bits_of_##t(b)) : b;               \
    return (a > b) | ((b != b) & (a == a)) ? a : other;                                   \
  }
MIN_AND_MAX(f32, float)
MIN_AND_MAX(f64, double)
/* As IEEE 754-2019 minimum and maximum: NaN goes on. */
static inline float minimum_f32(float a, float b) { return a != a ? a : b != b ? b : min_f32(a, b); }
static inline float maximum_f32(float a, float b) { return a != a ? a : b != b ? b : max_f32(a, b); }
static inline int64_t saturated(double x, double low, double high) {
  if (x != x) return 0;
  return x <= low ? (int64_t)low : x >= high ? (int64_t)high : (int64_t)x;
}
static inline uint32_t f16_towards_zero(float x) {
  if (!isfinite(x)) return f16_of_f32(x);
  uint32_t bits = f16_of_f32(x);
  if (fabsf(f32_of_f16(bits)) > fabsf(x)) bits--;
  return bits;
}

/* A literal's bits as a 32-bit, 16-bit or 64-bit operand of a float or an integer instruction. */
static inline uint32_t literal_32(const Operand *o) { return o->is_float ? bits_of_f32((float)o->real) : (uint32_t)o->bits; }
static inline uint32_t literal_16(const Operand *o) { return o->is_float ? f16_of_f32((float)o->real) : (uint32_t)o->bits & 0xffff; }
static inline uint64_t literal_f64(const Operand *o) {
  if (o->is_float) return bits_of_f64(o->real);
  bool upper_half = o->is_hex && (uint64_t)o->bits <= UINT32_MAX; /* gfx1250 has whole ones, too */
  return upper_half ? (uint64_t)o->bits << 32 : (uint64_t)o->bits;
}

/* A scalar operand: a scalar register or a literal. */
static inline uint32_t scalar_operand(const Wave *w, const Operand *o) {
  return o->kind == SCALAR ? scalar_of(w, o->index) : literal_32(o);
}
static inline uint64_t scalar_operand_pair(const Wave *w, const Operand *o) {
  if (o->kind == SCALAR) return scalar_pair_of(w, o->index);
  return o->is_float ? bits_of_f64(o->real) : (uint64_t)o->bits;
}

/* ---- Vectors: slow paths in values.c ---------------------------------------------------------------------------- */

/* All lanes of dword `part` of a source: SDWA selection and DPP applied, no float modifiers. `buffer` may be used. */
const uint32_t *fetch_slow(const Wave *w, const Instruction *i, const Operand *o, uint32_t part, uint32_t *buffer);

static inline const uint32_t *fetch(const Wave *w, const Instruction *i, const Operand *o, uint32_t part, uint32_t *buffer) {
  if (o->plain) return w->v[o->index + part];
  if (part || o->kind == VECTOR || o->select || o->sext) return fetch_slow(w, i, o, part, buffer);
  uint32_t value = scalar_operand(w, o);
  for (int l = 0; l < LANES; l++) buffer[l] = value;
  return buffer;
}

/* Writes the lanes of EXEC to a vector register. */
static inline void put_lanes(Wave *w, uint32_t index, const uint32_t *values) {
  uint64_t exec = EXEC_OF(w);
  uint32_t *row = w->v[index];
  if (exec == ~0ull) {
    memcpy(row, values, sizeof(Lanes));
    return;
  }
  choose_lanes(row, exec, values, row);
}

/* Writes a 32-bit or (16-bit, in the low half) result with the instruction's SDWA and DPP; clamp and omod are the
 * caller's. */
void put_slow(Wave *w, const Instruction *i, const Operand *o, const uint32_t *values);
static inline void put(Wave *w, const Instruction *i, const Operand *o, const uint32_t *values) {
  if (!i->sdwa && !i->dpp) put_lanes(w, o->index, values);
  else put_slow(w, i, o, values);
}

#endif
