/* VALU instructions. Most are a line of vector_instructions.inc; here are the types of that table and what does not fit
 * into it: comparisons, carries, lanes that move, packed arithmetic, small floats. */
#include "float8.h"
#include "steps.h"

/* ---- Types -------------------------------------------------------------------------------------------------------- */

typedef struct {
  const uint32_t *low, *high;
  Lanes low_buffer, high_buffer;
} Source;
typedef struct {
  Lanes low, high;
} Result;

/* Which source an operand is: the bit of op_sel. */
static inline int source_number(const Instruction *i, int n) { return n - i->row->results; }

static inline void with_float_modifiers(const Operand *o, const uint32_t **values, uint32_t *buffer, uint32_t sign) {
  if (!o->neg && !o->abs) return;
  uint32_t keep = o->abs ? ~sign : ~0u, flip = o->neg ? sign : 0;
  const uint32_t *from = *values;
  for (int l = 0; l < LANES; l++) buffer[l] = (from[l] & keep) ^ flip;
  *values = buffer;
}
static inline void load_32(const Wave *w, const Instruction *i, int n, Source *s) {
  s->low = fetch(w, i, &i->operand[n], 0, s->low_buffer);
}
static inline void load_float(const Wave *w, const Instruction *i, int n, Source *s) {
  load_32(w, i, n, s);
  with_float_modifiers(&i->operand[n], &s->low, s->low_buffer, 0x80000000u);
}
static inline void load_16(const Wave *w, const Instruction *i, int n, Source *s, bool is_float) {
  const Operand *o = &i->operand[n];
  if (o->kind == LITERAL) {
    uint32_t bits = is_float ? literal_16(o) : literal_32(o);
    for (int l = 0; l < LANES; l++) s->low_buffer[l] = bits;
    s->low = s->low_buffer;
  } else {
    load_32(w, i, n, s);
    if (i->op_sel >> source_number(i, n) & 1) {
      for (int l = 0; l < LANES; l++) s->low_buffer[l] = s->low[l] >> 16;
      s->low = s->low_buffer;
    }
  }
  if (is_float) with_float_modifiers(o, &s->low, s->low_buffer, 0x8000u);
}
static inline void load_64(const Wave *w, const Instruction *i, int n, Source *s, bool is_float) {
  const Operand *o = &i->operand[n];
  if (o->kind == LITERAL) {
    uint64_t bits = is_float ? literal_f64(o) : o->is_float ? bits_of_f64(o->real) : (uint64_t)o->bits;
    for (int l = 0; l < LANES; l++) s->low_buffer[l] = (uint32_t)bits, s->high_buffer[l] = (uint32_t)(bits >> 32);
    s->low = s->low_buffer, s->high = s->high_buffer;
  } else {
    s->low = fetch(w, i, o, 0, s->low_buffer);
    s->high = fetch(w, i, o, 1, s->high_buffer);
  }
  if (is_float) with_float_modifiers(o, &s->high, s->high_buffer, 0x80000000u);
}
/* What 1.0 is as a packed operand: of f16 and bf16 the lower half, else f32 (LLVM: AMDGPU::getInlineEncodingV216). */
typedef enum { PAIR_F16, PAIR_BF16, PAIR_INTEGERS } PairType;
/* Both halves of 16 bits, as they are chosen by op_sel and op_sel_hi. */
static inline void load_pair(const Wave *w, const Instruction *i, int n, Source *s, PairType type) {
  const Operand *o = &i->operand[n];
  int source = source_number(i, n);
  bool low_from_high = i->op_sel >> source & 1, high_from_high = i->has_op_sel_hi ? i->op_sel_hi >> source & 1 : true;
  if (o->kind == LITERAL) {
    uint32_t bits = literal_32(o);
    if (o->is_float && type == PAIR_F16) bits = literal_16(o);
    if (o->is_float && type == PAIR_BF16) bits >>= 16;
    for (int l = 0; l < LANES; l++) s->low_buffer[l] = bits;
    s->low = s->low_buffer;
  } else {
    load_32(w, i, n, s);
  }
  uint32_t flip = (i->neg_lo >> source & 1 ? 0x8000u : 0) | (i->neg_hi >> source & 1 ? 0x80000000u : 0);
  if (!low_from_high && high_from_high && !flip) return;
  const uint32_t *from = s->low;
  for (int l = 0; l < LANES; l++) {
    uint32_t low = low_from_high ? from[l] >> 16 : from[l] & 0xffff, high = high_from_high ? from[l] >> 16 : from[l] & 0xffff;
    s->low_buffer[l] = (low | high << 16) ^ flip;
  }
  s->low = s->low_buffer;
}

/* Denormal sources and results are 0 as MODE says. */
static inline uint32_t without_denormal(uint32_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000u; }
static inline bool flushes(const Wave *w, unsigned allowing) { return __builtin_expect(!(w->mode >> allowing & 1), 0); }
static inline void load_f32(const Wave *w, const Instruction *i, int n, Source *s) {
  load_float(w, i, n, s);
  if (!flushes(w, DENORMAL_SOURCES)) return;
  for (int l = 0; l < LANES; l++) s->low_buffer[l] = without_denormal(s->low[l]);
  s->low = s->low_buffer;
}

#define load_F32(w, i, n, s) load_f32(w, i, n, s)
#define load_U32(w, i, n, s) load_32(w, i, n, s)
#define load_I32(w, i, n, s) load_32(w, i, n, s)
#define load_F16(w, i, n, s) load_16(w, i, n, s, true)
#define load_H16(w, i, n, s) load_16(w, i, n, s, true)
#define load_U16(w, i, n, s) load_16(w, i, n, s, false)
#define load_I16(w, i, n, s) load_16(w, i, n, s, false)
#define load_F64(w, i, n, s) load_64(w, i, n, s, true)
#define load_U64(w, i, n, s) load_64(w, i, n, s, false)
#define load_I64(w, i, n, s) load_64(w, i, n, s, false)
#define load_P32(w, i, n, s) load_pair(w, i, n, s, PAIR_INTEGERS)
#define load_PF16(w, i, n, s) load_pair(w, i, n, s, PAIR_F16)
#define load_PBF16(w, i, n, s) load_pair(w, i, n, s, PAIR_BF16)

#define VALUE_F32(s) f32_of_bits((s).low[l])
#define VALUE_U32(s) ((s).low[l])
#define VALUE_P32(s) ((s).low[l])
#define VALUE_PF16(s) ((s).low[l])
#define VALUE_PBF16(s) ((s).low[l])
#define VALUE_I32(s) ((int32_t)(s).low[l])
#define VALUE_F16(s) (f32_of_f16((s).low[l]))
#define VALUE_H16(s) ((uint16_t)(s).low[l])
#define VALUE_U16(s) ((uint16_t)(s).low[l])
#define VALUE_I16(s) ((int16_t)(s).low[l])
#define VALUE_U64(s) ((uint64_t)(s).low[l] | (uint64_t)(s).high[l] << 32)
#define VALUE_I64(s) ((int64_t)VALUE_U64(s))
#define VALUE_F64(s) f64_of_bits(VALUE_U64(s))

#define SET_F32(d, x) (d).low[l] = bits_of_f32(with_output_f32(w, i, (float)(x), DENORMAL_RESULTS))
#define SET_F16(d, x) (d).low[l] = f16_of_f32(with_output_f32(w, i, (float)(x), DENORMAL_RESULTS_16_64))
#define SET_U32(d, x) (d).low[l] = (uint32_t)(x)
#define SET_I32(d, x) (d).low[l] = (uint32_t)(int32_t)(x)
#define SET_U16(d, x) (d).low[l] = (uint16_t)(x)
#define SET_I16(d, x) (d).low[l] = (uint16_t)(x)
#define SET_U64(d, x)                                          \
  do {                                                         \
    uint64_t bits = (uint64_t)(x);                             \
    (d).low[l] = (uint32_t)bits, (d).high[l] = (uint32_t)(bits >> 32); \
  } while (0)
#define SET_I64(d, x) SET_U64(d, x)
#define SET_F64(d, x) SET_U64(d, bits_of_f64(with_output_f64(w, i, x)))

/* What results are multiplied by: nothing where MODE allows denormal ones, or wants what IEEE 754 says. -0 becomes 0. */
static inline bool is_multiplied(const Wave *w, const Instruction *i, unsigned denormals) {
  return __builtin_expect(i->omod != 0, 0) && !(w->mode >> denormals & 1) && !(w->mode >> IEEE_MODE & 1);
}
static inline float with_output_f32(const Wave *w, const Instruction *i, float x, unsigned denormals) {
  if (is_multiplied(w, i, denormals)) x = x * (i->omod == 1 ? 2.0f : i->omod == 2 ? 4.0f : 0.5f) + 0.0f;
  if (__builtin_expect(i->clamp, 0)) x = x > 0 ? (x < 1 ? x : 1) : 0;
  return x;
}
static inline double with_output_f64(const Wave *w, const Instruction *i, double x) {
  if (is_multiplied(w, i, DENORMAL_RESULTS_16_64)) x = x * (i->omod == 1 ? 2.0 : i->omod == 2 ? 4.0 : 0.5) + 0.0;
  return i->clamp ? (x > 0 ? (x < 1 ? x : 1) : 0) : x;
}

/* A 16-bit result: most instructions of gfx9 clear the upper half, unless op_sel chooses it; those that accumulate, and
 * those that are new in gfx9, keep it (LLVM: GCNSubtarget::zeroesHigh16BitsOfDest; the notes on OPSEL in the ISA). */
static void put_16(Wave *w, const Instruction *i, const uint32_t *values) {
  int sources = i->operand_count - i->row->results;
  bool high = i->op_sel >> sources & 1, keeps = i->row->flags & READS_RESULT || i->row->detail == KEEPS_UPPER_HALF;
  if (!i->half_result && ((!high && !keeps) || i->sdwa || i->dpp)) {
    put(w, i, &i->operand[0], values);
    return;
  }
  Lanes merged;
  const uint32_t *row = w->v[i->operand[0].index];
  for (int l = 0; l < LANES; l++)
    merged[l] = high ? (row[l] & 0xffff) | values[l] << 16 : (row[l] & 0xffff0000u) | (values[l] & 0xffff);
  put(w, i, &i->operand[0], merged);
}
static inline void put_64(Wave *w, const Instruction *i, const Result *d) {
  Operand high = i->operand[0];
  high.index++;
  put(w, i, &i->operand[0], d->low);
  put(w, i, &high, d->high);
}
static inline void put_f32(Wave *w, const Instruction *i, uint32_t *values) {
  if (flushes(w, DENORMAL_RESULTS))
    for (int l = 0; l < LANES; l++) values[l] = without_denormal(values[l]);
  put(w, i, &i->operand[0], values);
}
#define put_F32(w, i, d) put_f32(w, i, (d)->low)
#define put_U32(w, i, d) put(w, i, &i->operand[0], (d)->low)
#define put_I32(w, i, d) put(w, i, &i->operand[0], (d)->low)
#define put_F16(w, i, d) put_16(w, i, (d)->low)
#define put_U16(w, i, d) put_16(w, i, (d)->low)
#define put_I16(w, i, d) put_16(w, i, (d)->low)
#define put_F64(w, i, d) put_64(w, i, d)
#define put_U64(w, i, d) put_64(w, i, d)
#define put_I64(w, i, d) put_64(w, i, d)

/* The result register's old value as a source. */
static inline void load_old(const Wave *w, const Instruction *i, Source *s) {
  s->low = w->v[i->operand[0].index];
  s->high = w->v[i->operand[0].index + (i->operand[0].count > 1)];
  if (i->operand[0].half != UPPER_HALF) return;
  for (int l = 0; l < LANES; l++) s->low_buffer[l] = s->low[l] >> 16;
  s->low = s->low_buffer;
}

/* ---- What the table computes with ---------------------------------------------------------------------------------- */

static inline int64_t clamp_i64(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
static inline uint64_t clamp_u64(uint64_t x, uint64_t high) { return x > high ? high : x; }
static inline int32_t sext24(int32_t x) { return (int32_t)((uint32_t)x << 8) >> 8; }
#define min_of(a, b) ((a) < (b) ? (a) : (b))
#define max_of(a, b) ((a) > (b) ? (a) : (b))
#define med3_of(a, b, c) max_of(min_of(a, b), min_of(max_of(a, b), c))
static inline uint32_t distance(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

static inline float med3_f32(float a, float b, float c) {
  if (a != a || b != b || c != c) return min_f32(min_f32(a, b), c);
  return max_f32(min_f32(a, b), min_f32(max_f32(a, b), c));
}
#define FRACT(t, real, floor, most)         \
  static inline real fract_##t(real a) {    \
    real d = a - floor(a);                  \
    return d < most ? d : d == d ? most : d; \
  }
FRACT(f32, float, floorf, 0x1.fffffep-1f)
FRACT(f16, float, floorf, 0x1.ffcp-1f)
FRACT(f64, double, floor, 0x1.fffffffffffffp-1)
static inline double mantissa_f64(double a) {
  int exponent;
  return isfinite(a) ? frexp(a, &exponent) : a;
}
static inline int exponent_f64(double a) {
  int exponent = 0;
  if (isfinite(a)) frexp(a, &exponent);
  return exponent;
}
/* Of -1/2…1/2 turns, exact where it is zero. */
static inline double sin_of_part(double part) {
  return sin(6.283185307179586 * (fabs(part) > 0.25 ? copysign(0.5, part) - part : part));
}
static inline float sin_of_turns(float a) { return isfinite(a) ? (float)sin_of_part((double)a - rint(a)) : NAN; }
static inline float cos_of_turns(float a) { return isfinite(a) ? (float)sin_of_part(0.25 - fabs((double)a - rint(a))) : NAN; }
static inline int32_t normalized(float a, float low, float high) { return (int32_t)saturated(rint((double)a * (double)high), (double)low, (double)high); }
/* The product and sum are exact in f64; on the way to f32 the lost bits are kept as an odd last one, so that the
 * rounding to f16 is the only one. */
static inline float fma_f16(float a, float b, float c) {
  double exact = (double)a * (double)b + (double)c;
  float near = (float)exact;
  if ((double)near != exact && isfinite(near)) {
    uint32_t bits = bits_of_f32(near);
    if (fabs((double)near) > fabs(exact)) bits--;
    near = f32_of_bits(bits | 1);
  }
  return near;
}
static inline uint32_t reversed(uint32_t a) {
  a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
  a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
  a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(a);
}
/* Bytes 0…3 are of b, 4…7 of a; 8…11 signs, 12 zero, above 0xff. */
static inline uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t both = (uint64_t)a << 32 | b;
  uint32_t d = 0;
  for (int byte = 0; byte < 4; byte++) {
    uint32_t s = selector >> byte * 8 & 255, value;
    if (s <= 7) value = both >> s * 8 & 255;
    else if (s <= 11) value = both >> ((s - 8) * 16 + 15) & 1 ? 255 : 0;
    else value = s == 12 ? 0 : 255;
    d |= value << byte * 8;
  }
  return d;
}
static inline uint32_t bitop3(uint32_t a, uint32_t b, uint32_t c, uint8_t table) {
  uint32_t d = 0;
  for (int n = 0; n < 8; n++)
    if (table >> n & 1) d |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
  return d;
}
static inline uint32_t lerp_u8(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d = 0;
  for (int shift = 0; shift < 32; shift += 8)
    d |= (((a >> shift & 255) + (b >> shift & 255) + (c >> shift & 1)) >> 1) << shift;
  return d;
}
static inline uint32_t sad_u8(uint32_t a, uint32_t b, bool masked) {
  uint32_t d = 0;
  for (int shift = 0; shift < 32; shift += 8)
    if (!masked || (b >> shift & 255)) d += distance(a >> shift & 255, b >> shift & 255);
  return d;
}
static inline float dot2_f16(uint32_t a, uint32_t b, float c) {
  float low = __builtin_fmaf(f32_of_f16(a), f32_of_f16(b), c);
  return __builtin_fmaf(f32_of_f16(a >> 16), f32_of_f16(b >> 16), low);
}
static inline float dot2_bf16(uint32_t a, uint32_t b, float c) {
  float low = __builtin_fmaf(f32_of_bf16(a & 0xffff), f32_of_bf16(b & 0xffff), c);
  return __builtin_fmaf(f32_of_bits(a & 0xffff0000u), f32_of_bits(b & 0xffff0000u), low);
}
static inline uint32_t dot2_narrow_bf16(uint32_t a, uint32_t b, uint32_t c) {
  float low = __builtin_fmaf(f32_of_bf16(a & 0xffff), f32_of_bf16(b & 0xffff), f32_of_bf16(c));
  return bf16_of_f32(__builtin_fmaf(f32_of_bits(a & 0xffff0000u), f32_of_bits(b & 0xffff0000u), f32_of_bf16(bf16_of_f32(low))));
}
static inline float multiplied_for_light(float a, float b, float c) {
  const float most = 0x1.fffffep127f;
  if (!(b > -most) || !(c > 0)) return -most;
  return a == 0 || b == 0 ? 0.0f : a * b;
}
static inline float dot4_small(uint32_t a, uint32_t b, float c, SmallFormat of_a, SmallFormat of_b) {
  double sum = (double)c;
  for (int shift = 0; shift < 32; shift += 8)
    sum += (double)f32_of_small(of_a, a >> shift & 255) * (double)f32_of_small(of_b, b >> shift & 255);
  return (float)sum;
}
static inline int64_t dot_integer(uint32_t a, uint32_t b, int64_t c, int width, bool is_signed, bool clamp) {
  for (int shift = 0; shift < 32; shift += width) {
    int64_t x = a >> shift & ((1u << width) - 1), y = b >> shift & ((1u << width) - 1);
    if (is_signed) {
      x = (int64_t)((uint64_t)x << (64 - width)) >> (64 - width);
      y = (int64_t)((uint64_t)y << (64 - width)) >> (64 - width);
    }
    c += x * y;
  }
  if (clamp) return is_signed ? clamp_i64(c, INT32_MIN, INT32_MAX) : clamp_i64(c, 0, UINT32_MAX);
  return c;
}
/* Each operand is signed or not by itself. */
static inline int64_t dot_mixed(uint32_t a, uint32_t b, int64_t c, int width, uint8_t is_signed, bool clamp) {
  for (int shift = 32 - width; shift >= 0; shift -= width) {
    uint32_t x = a << shift, y = b << shift;
    int64_t wide_x = is_signed & 1 ? (int32_t)x >> (32 - width) : (int64_t)(x >> (32 - width));
    c += wide_x * (is_signed & 2 ? (int32_t)y >> (32 - width) : (int64_t)(y >> (32 - width)));
  }
  return clamp ? clamp_i64(c, INT32_MIN, INT32_MAX) : c;
}
/* Four sums of absolute differences, of bytes 0…3, 1…4, 2…5 and 3…6 of `a`. */
static inline uint64_t quad_sad_u16(uint64_t a, uint32_t b, uint64_t c, bool masked) {
  uint64_t d = 0;
  for (int n = 0; n < 4; n++) {
    uint32_t sum = sad_u8((uint32_t)(a >> 8 * n), b, masked) + (uint32_t)(c >> 16 * n & 0xffff);
    d |= (uint64_t)(sum & 0xffff) << 16 * n;
  }
  return d;
}
/* +x, -x, +y, -y, +z, -z */
static inline float cube_face(float x, float y, float z) {
  if (fabsf(z) >= fabsf(x) && fabsf(z) >= fabsf(y)) return z < 0 ? 5 : 4;
  if (fabsf(y) >= fabsf(x)) return y < 0 ? 3 : 2;
  return x < 0 ? 1 : 0;
}
static inline float cube_s(float x, float y, float z) {
  float face = cube_face(x, y, z);
  return face == 5 ? -x : face >= 2 ? x : face == 1 ? z : -z;
}
static inline float cube_t(float x, float y, float z) {
  float face = cube_face(x, y, z);
  return face == 3 ? -z : face == 2 ? z : -y;
}
/* v_div_fixup: the quotient of c / b when its approximation a meets special cases. Where the ISA document says that a
 * denominator with the exponent of infinity overflows (all of which are dealt with before), the approximation is meant:
 * the steps before it turn quotients that are too large into NaN. */
#define DIV_FIXUP(t, real, exponent_bits, mantissa_bits)                                                                \
  static inline real div_fixup_##t(real a, real b, real c) {                                                           \
    enum { EXPONENTS = (1 << exponent_bits) - 1, LEAST = -EXPONENTS / 2 - mantissa_bits };                             \
    bool negative = signbit(b) != signbit(c);                                                                          \
    if (c != c) return c;                                                                                              \
    if (b != b) return b;                                                                                              \
    if ((b == 0 && c == 0) || (isinf(b) && isinf(c))) return -(real)NAN;                                               \
    if (b == 0 || isinf(c)) return negative ? -(real)INFINITY : (real)INFINITY;                                        \
    if (isinf(b) || c == 0) return negative ? -(real)0 : (real)0;                                                      \
    int numerator = (int)(bits_of_##t(c) >> mantissa_bits & EXPONENTS);                                                \
    int denominator = (int)(bits_of_##t(b) >> mantissa_bits & EXPONENTS);                                              \
    if (numerator - denominator < LEAST) return negative ? -(real)0 : (real)0;                                         \
    if (!isfinite(a)) return negative ? -(real)INFINITY : (real)INFINITY;                                              \
    return negative ? -(real)__builtin_fabs(a) : (real)__builtin_fabs(a);                                              \
  }
DIV_FIXUP(f32, float, 8, 23)
DIV_FIXUP(f64, double, 11, 52)
static inline float div_fixup_f16(float a, float b, float c) { /* nothing is said of overflow */
  bool usual = isfinite(b) && isfinite(c) && b != 0 && c != 0;
  return usual && isnan(a) ? a : div_fixup_f32(a, b, c);
}

/* 53 of the 1201 bits of 2 / pi, for the reduction of large angles; which ones the exponent of `a` says, and `b`. */
static double trig_preop_f64(double a, uint32_t b) {
  static const uint64_t two_by_pi[] = {
      0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
      0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
      0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b0000, 0};
  if (a != a) return a;
  uint32_t exponent = bits_of_f64(a) >> 52 & 0x7ff;
  uint32_t shift = (b & 31) * 53 + (exponent > 1077 ? exponent - 1077 : 0), word = shift / 64, bit = shift % 64;
  if (word + 1 >= sizeof two_by_pi / sizeof *two_by_pi) return 0;
  uint64_t bits = two_by_pi[word] << bit | (bit ? two_by_pi[word + 1] >> (64 - bit) : 0);
  return ldexp((double)(bits >> 11), -53 - (int)shift + (exponent >= 1968 ? 128 : 0));
}

#define FUNCTION(name) static void execute_##name(Wave *w, const Instruction *i)
#define EACH for (int l = 0; l < LANES; l++)

/* Where all lanes are active and no modifier changes the result, it is computed in its register: a lane's sources are
 * read before its result is written, and no lane reads another's. An instruction without modifiers stands for the one
 * that is executed, so that they need not be looked at for each lane. */
static const Instruction without_modifiers;
typedef struct {
  uint32_t *low, *high;
} Registers;
#ifdef __clang__
#define EACH_BY_ITSELF _Pragma("clang loop vectorize(assume_safety)") for (int l = 0; l < LANES; l++)
#else
#define EACH_BY_ITSELF _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++)
#endif
static inline bool computes_in_place(const Wave *w, const Instruction *i) { return i->direct && EXEC_OF(w) == ~0ull; }
#define IN_PLACE_F32 (computes_in_place(w, i) && !flushes(w, DENORMAL_RESULTS))
#define IN_PLACE_U32 computes_in_place(w, i)
#define IN_PLACE_I32 computes_in_place(w, i)
#define IN_PLACE_F64 computes_in_place(w, i)
#define IN_PLACE_U64 computes_in_place(w, i)
#define IN_PLACE_I64 computes_in_place(w, i)
#define IN_PLACE_F16 false
#define IN_PLACE_U16 false
#define IN_PLACE_I16 false
#define COMPUTE(D, values, expression)            \
  if (IN_PLACE_##D) {                             \
    uint32_t index = i->operand[0].index;         \
    Registers d = {w->v[index], w->v[index + 1]}; \
    const Instruction *i = &without_modifiers;    \
    (void)i;                                      \
    EACH_BY_ITSELF { values SET_##D(d, expression); } \
    return;                                       \
  }                                               \
  Result d;                                       \
  EACH { values SET_##D(d, expression); }         \
  put_##D(w, i, &d);

/* The same of a chunk of lanes after the other, of operands that are resolved. Else all lanes are one chunk. */
static const unsigned lane = 0;
#define LANE (lane + (unsigned)l)
#define STEP(name) static void perform_##name(Wave *w, const Step *s)
#ifdef __clang__
#define EACH_OF_CHUNK _Pragma("clang loop vectorize(assume_safety)") for (unsigned l = 0; l < CHUNK; l++)
#else
#define EACH_OF_CHUNK _Pragma("GCC ivdep") for (unsigned l = 0; l < CHUNK; l++)
#endif
enum { IN_STEPS = 1, IS_FLUSHED = 2, IS_WIDE = 4, IS_F64 = 8 };
#define STEPS_F32 (IN_STEPS | IS_FLUSHED)
#define STEPS_U32 IN_STEPS
#define STEPS_I32 IN_STEPS
#define STEPS_F64 (IN_STEPS | IS_WIDE | IS_F64)
#define STEPS_U64 (IN_STEPS | IS_WIDE)
#define STEPS_I64 (IN_STEPS | IS_WIDE)
#define STEPS_F16 0
#define STEPS_H16 0
#define STEPS_U16 0
#define STEPS_I16 0
#define STEPS_P32 0
#define STEPS_PF16 0
#define STEPS_PBF16 0
static inline bool flushes_any(const Wave *w) { return flushes(w, DENORMAL_SOURCES) || flushes(w, DENORMAL_RESULTS); }
#define TAKE(T, n, source) \
  StepSource source; \
  if (STEPS_##T & IS_WIDE) take_wide_step_source(w, s, n, &source, STEPS_##T & IS_F64); \
  else take_step_source(w, s, n, &source);
#define FOR_ACTIVE_CHUNKS(lane, active) \
  for (unsigned lane = 0, active; lane < LANES; lane += CHUNK) if ((active = (unsigned)(exec >> lane) & 0xffff))
/* Denormals that are flushed take the whole function. */
#define WHOLE_IF_FLUSHES(D, A, B, C) \
  if ((STEPS_##D | STEPS_##A | STEPS_##B | STEPS_##C) & IS_FLUSHED && flushes_any(w)) { \
    perform_whole(w, s); \
    return; \
  }
#define IN_CHUNKS(D, sources, values, expression) \
  const Instruction *i = &without_modifiers; \
  const uint64_t exec = EXEC_OF(w); \
  (void)i; \
  FOR_ACTIVE_CHUNKS(lane, active) { \
    ChunkResult d; \
    sources \
    EACH_OF_CHUNK { values SET_##D(d, expression); } \
    put_chunk(w->v[s->result] + lane, active, d.low); \
    if (STEPS_##D & IS_WIDE) put_chunk(w->v[s->result + 1] + lane, active, d.high); \
  }

#define V1(name, D, A, expression)                \
  STEP(name) {                                    \
    WHOLE_IF_FLUSHES(D, A, A, A)                  \
    TAKE(A, 0, a_)                                \
    IN_CHUNKS(D, ChunkSource sa = chunk_of(&a_, lane);, __auto_type a = VALUE_##A(sa); (void)a;, expression) \
  }                                               \
  FUNCTION(name) {                                \
    Source sa;                                    \
    load_##A(w, i, 1, &sa);                       \
    COMPUTE(D, __auto_type a = VALUE_##A(sa); (void)a;, expression) \
  }
#define M1 V1
#define K2 V2
#define K3 V3
#define V2(name, D, A, B, expression)             \
  STEP(name) {                                    \
    WHOLE_IF_FLUSHES(D, A, B, B)                  \
    TAKE(A, 0, a_)                                \
    TAKE(B, 1, b_)                                \
    IN_CHUNKS(D, ChunkSource sa = chunk_of(&a_, lane); ChunkSource sb = chunk_of(&b_, lane);, \
              __auto_type a = VALUE_##A(sa); __auto_type b = VALUE_##B(sb);, expression) \
  }                                               \
  FUNCTION(name) {                                \
    Source sa, sb;                                \
    load_##A(w, i, 1, &sa);                       \
    load_##B(w, i, 2, &sb);                       \
    COMPUTE(D, __auto_type a = VALUE_##A(sa); __auto_type b = VALUE_##B(sb);, expression) \
  }
#define V3(name, D, A, B, C, expression)          \
  STEP(name) {                                    \
    WHOLE_IF_FLUSHES(D, A, B, C)                  \
    TAKE(A, 0, a_)                                \
    TAKE(B, 1, b_)                                \
    TAKE(C, 2, c_)                                \
    IN_CHUNKS(D, ChunkSource sa = chunk_of(&a_, lane); ChunkSource sb = chunk_of(&b_, lane); \
              ChunkSource sc = chunk_of(&c_, lane);, \
              __auto_type a = VALUE_##A(sa); __auto_type b = VALUE_##B(sb); __auto_type c = VALUE_##C(sc);, expression) \
  }                                               \
  FUNCTION(name) {                                \
    Source sa, sb, sc;                            \
    load_##A(w, i, 1, &sa);                       \
    load_##B(w, i, 2, &sb);                       \
    load_##C(w, i, 3, &sc);                       \
    COMPUTE(D, __auto_type a = VALUE_##A(sa); __auto_type b = VALUE_##B(sb); __auto_type c = VALUE_##C(sc);, expression) \
  }
#define A2(name, D, A, B, expression)             \
  STEP(name) {                                    \
    WHOLE_IF_FLUSHES(D, A, B, B)                  \
    TAKE(A, 0, a_)                                \
    TAKE(B, 1, b_)                                \
    IN_CHUNKS(D, ChunkSource sa = chunk_of(&a_, lane); ChunkSource sb = chunk_of(&b_, lane); \
              ChunkSource so; so.low = w->v[s->result] + lane; so.high = w->v[s->result + 1] + lane;, \
              __auto_type a = VALUE_##A(sa); __auto_type b = VALUE_##B(sb); __auto_type old = VALUE_##D(so);, expression) \
  }                                               \
  FUNCTION(name) {                                \
    Source sa, sb, so;                            \
    load_##A(w, i, 1, &sa);                       \
    load_##B(w, i, 2, &sb);                       \
    load_old(w, i, &so);                          \
    COMPUTE(D, __auto_type a = VALUE_##A(sa); __auto_type b = VALUE_##B(sb); __auto_type old = VALUE_##D(so);, expression) \
  }
#include "vector_instructions.inc"
#undef V1
#undef V2
#undef V3
#undef A2
#undef M1
#undef K2
#undef K3

/* ---- Comparisons: a mask, 0 for lanes that are off; v_cmpx writes EXEC as well ------------------------------------- */

#define COMPARISON(name, T, expression)           \
  static inline uint64_t mask_##name(Wave *w, const Instruction *i) { \
    Source sa, sb;                                \
    Lanes holds;                                  \
    load_##T(w, i, 1, &sa);                       \
    load_##T(w, i, 2, &sb);                       \
    EACH {                                        \
      __auto_type a = VALUE_##T(sa); __auto_type b = VALUE_##T(sb); (void)a, (void)b; \
      holds[l] = (expression) != 0;               \
    }                                             \
    return lanes_not_zero(holds) & EXEC_OF(w);    \
  }                                               \
  FUNCTION(v_cmp_##name) { put_mask(w, &i->operand[0], mask_##name(w, i)); } \
  FUNCTION(v_cmpx_##name) { put_mask(w, &i->operand[0], EXEC_OF(w) = mask_##name(w, i)); } \
  STEP(v_cmp_##name) {                            \
    WHOLE_IF_FLUSHES(T, T, T, T)                  \
    TAKE(T, 0, a_)                                \
    TAKE(T, 1, b_)                                \
    const uint64_t exec = EXEC_OF(w);             \
    uint64_t mask = 0;                            \
    FOR_ACTIVE_CHUNKS(lane, active) {             \
      alignas(64) uint32_t holds[CHUNK];          \
      ChunkSource sa = chunk_of(&a_, lane), sb = chunk_of(&b_, lane); \
      EACH_OF_CHUNK {                             \
        __auto_type a = VALUE_##T(sa); __auto_type b = VALUE_##T(sb); (void)a, (void)b; \
        holds[l] = (expression) != 0;             \
      }                                           \
      mask |= (uint64_t)(mask_of_chunk(holds) & active) << lane; \
    }                                             \
    w->s[s->result] = (uint32_t)mask;             \
    if (s->result_count > 1) w->s[s->result + 1] = (uint32_t)(mask >> 32); \
  }

#define FLOAT_COMPARISONS(X, t, T) \
  X(f_##t, T, 0) X(lt_##t, T, a < b) X(eq_##t, T, a == b) X(le_##t, T, a <= b) X(gt_##t, T, a > b) \
  X(lg_##t, T, a < b || a > b) X(ge_##t, T, a >= b) X(o_##t, T, a == a && b == b) X(u_##t, T, a != a || b != b) \
  X(nge_##t, T, !(a >= b)) X(nlg_##t, T, !(a < b || a > b)) X(ngt_##t, T, !(a > b)) X(nle_##t, T, !(a <= b)) \
  X(neq_##t, T, a != b) X(nlt_##t, T, !(a < b)) X(tru_##t, T, 1)
#define INTEGER_COMPARISONS(X, t, T) \
  X(f_##t, T, 0) X(lt_##t, T, a < b) X(eq_##t, T, a == b) X(le_##t, T, a <= b) X(gt_##t, T, a > b) X(ne_##t, T, a != b) \
  X(ge_##t, T, a >= b) X(t_##t, T, 1)
#define ALL_COMPARISONS(X) \
  FLOAT_COMPARISONS(X, f16, F16) FLOAT_COMPARISONS(X, f32, F32) FLOAT_COMPARISONS(X, f64, F64) \
  INTEGER_COMPARISONS(X, i16, I16) INTEGER_COMPARISONS(X, u16, U16) INTEGER_COMPARISONS(X, i32, I32) \
  INTEGER_COMPARISONS(X, u32, U32) INTEGER_COMPARISONS(X, i64, I64) INTEGER_COMPARISONS(X, u64, U64)
ALL_COMPARISONS(COMPARISON)

/* v_cmp_class: bits of the second source: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal,
 * +normal, +inf. */
static uint32_t class_of(uint64_t bits, int exponent_bits, int mantissa_bits) {
  uint64_t mantissa = bits & ((1ull << mantissa_bits) - 1), exponent = bits >> mantissa_bits & ((1ull << exponent_bits) - 1);
  bool negative = bits >> (exponent_bits + mantissa_bits) & 1;
  if (exponent == (1ull << exponent_bits) - 1) {
    if (mantissa) return mantissa >> (mantissa_bits - 1) ? 2 : 1;
    return negative ? 4 : 512;
  }
  if (exponent) return negative ? 8 : 256;
  if (mantissa) return negative ? 16 : 128;
  return negative ? 32 : 64;
}
#define CLASS(t, T, U, exponent, mantissa)        \
  static uint64_t mask_class_##t(Wave *w, const Instruction *i) { \
    Source sa, sb;                                \
    uint64_t mask = 0;                            \
    load_##T(w, i, 1, &sa);                       \
    load_U32(w, i, 2, &sb);                       \
    EACH mask |= (uint64_t)((class_of(VALUE_##U(sa), exponent, mantissa) & sb.low[l]) != 0) << l; \
    return mask & EXEC_OF(w);                     \
  }                                               \
  FUNCTION(v_cmp_class_##t) { put_mask(w, &i->operand[0], mask_class_##t(w, i)); } \
  FUNCTION(v_cmpx_class_##t) { put_mask(w, &i->operand[0], EXEC_OF(w) = mask_class_##t(w, i)); }
CLASS(f16, F16, U16, 5, 10)
CLASS(f32, F32, U32, 8, 23)
CLASS(f64, F64, U64, 11, 52)

/* ---- Masks and carries --------------------------------------------------------------------------------------------- */

FUNCTION(v_cndmask_b32) {
  Source sa, sb;
  Lanes d;
  load_float(w, i, 1, &sa);
  load_float(w, i, 2, &sb);
  uint64_t mask = scalar_operand_pair(w, &i->operand[3]);
  choose_lanes(d, mask, sb.low, sa.low);
  put(w, i, &i->operand[0], d);
}

STEP(v_cndmask_b32) {
  const uint64_t exec = EXEC_OF(w), mask = step_pair(w, s, 2);
  TAKE(U32, 0, a_)
  TAKE(U32, 1, b_)
  FOR_ACTIVE_CHUNKS(lane, active) {
    ChunkSource sa = chunk_of(&a_, lane), sb = chunk_of(&b_, lane);
    ChunkResult d;
    EACH_OF_CHUNK d.low[l] = mask >> lane >> l & 1 ? sb.low[l] : sa.low[l];
    put_chunk(w->v[s->result] + lane, active, d.low);
  }
}

/* Sums and differences with a carry out, and maybe one in: v_addc_co_u32 v0, vcc, v1, v2, vcc. */
static inline void add_carry(Wave *w, const Instruction *i, bool with_carry, int subtract) {
  Source sa, sb;
  Lanes d, carries;
  uint64_t carry_in = with_carry ? scalar_operand_pair(w, &i->operand[4]) : 0;
  load_32(w, i, 2, &sa);
  load_32(w, i, 3, &sb);
  EACH {
    uint64_t a = sa.low[l], b = sb.low[l], c = carry_in >> l & 1, sum;
    if (subtract == 0) sum = a + b + c;
    else if (subtract == 1) sum = a - b - c;
    else sum = b - a - c;
    d[l] = (uint32_t)sum;
    carries[l] = (uint32_t)(sum >> 32);
    if (i->clamp && sum >> 32) d[l] = subtract ? 0 : ~0u;
  }
  put(w, i, &i->operand[0], d);
  put_mask(w, &i->operand[1], lanes_not_zero(carries) & EXEC_OF(w));
}
FUNCTION(v_add_co_u32) { add_carry(w, i, false, 0); }
FUNCTION(v_sub_co_u32) { add_carry(w, i, false, 1); }
FUNCTION(v_subrev_co_u32) { add_carry(w, i, false, 2); }
FUNCTION(v_addc_co_u32) { add_carry(w, i, true, 0); }
FUNCTION(v_subb_co_u32) { add_carry(w, i, true, 1); }
FUNCTION(v_subbrev_co_u32) { add_carry(w, i, true, 2); }


/* The same, and multiply-adds, by chunks of lanes: `lines` say what is computed of the sources, `holds` which bit of the mask. */
#define STEP_WITH_MASK(name, A, take_third, lines, store, holds) \
  STEP(name) {                                    \
    TAKE(A, 0, a_)                                \
    TAKE(A, 1, b_)                                \
    const uint64_t exec = EXEC_OF(w);             \
    uint64_t mask = 0;                            \
    take_third                                    \
    FOR_ACTIVE_CHUNKS(lane, active) {             \
      alignas(64) uint32_t held[CHUNK];           \
      ChunkResult d;                              \
      ChunkSource sa = chunk_of(&a_, lane), sb = chunk_of(&b_, lane); \
      EACH_OF_CHUNK {                             \
        lines                                     \
        held[l] = (uint32_t)(holds);              \
      }                                           \
      store                                       \
      mask |= (uint64_t)(mask_of_chunk(held) & active) << lane; \
    }                                             \
    put_mask(w, &s->i->operand[1], mask);         \
  }
#define PUT_LOW put_chunk(w->v[s->result] + lane, active, d.low);
#define PUT_BOTH PUT_LOW put_chunk(w->v[s->result + 1] + lane, active, d.high);
#define CARRY_STEP(name, carry, sum_of)           \
  STEP_WITH_MASK(name, U32, const uint64_t carry_in = carry;, \
                 uint64_t a = sa.low[l]; uint64_t b = sb.low[l]; uint64_t c = carry_in >> lane >> l & 1; \
                 uint64_t sum = sum_of; d.low[l] = (uint32_t)sum;, PUT_LOW, sum >> 32)
CARRY_STEP(v_add_co_u32, 0, a + b + c)
CARRY_STEP(v_sub_co_u32, 0, a - b - c)
CARRY_STEP(v_subrev_co_u32, 0, b - a - c)
CARRY_STEP(v_addc_co_u32, step_pair(w, s, 2), a + b + c)
CARRY_STEP(v_subb_co_u32, step_pair(w, s, 2), a - b - c)
CARRY_STEP(v_subbrev_co_u32, step_pair(w, s, 2), b - a - c)

#define MAD_64(name, T, A, product, carry_out)    \
  STEP_WITH_MASK(name, A, TAKE(T, 2, c_), \
                 const uint32_t *low = c_.low + (lane & c_.lanes); const uint32_t *high = c_.high + (lane & c_.lanes); \
                 uint64_t p = (uint64_t)(product); uint64_t c = low[l] | (uint64_t)high[l] << 32; uint64_t sum = p + c; \
                 SET_U64(d, sum);, PUT_BOTH, carry_out) \
  FUNCTION(name) {                                \
    Source sa, sb, sc; Result d;                  \
    Lanes carries;                                \
    load_##A(w, i, 2, &sa);                       \
    load_##A(w, i, 3, &sb);                       \
    load_##T(w, i, 4, &sc);                       \
    EACH_BY_ITSELF {                              \
      uint64_t p = (uint64_t)(product), c = VALUE_U64(sc), sum = p + c; \
      SET_U64(d, sum);                            \
      carries[l] = (uint32_t)(carry_out);         \
    }                                             \
    put_64(w, i, &d);                             \
    put_mask(w, &i->operand[1], lanes_not_zero(carries) & EXEC_OF(w)); \
  }
MAD_64(v_mad_u64_u32, U64, U32, (uint64_t)VALUE_U32(sa) * VALUE_U32(sb), sum < p)
MAD_64(v_mad_i64_i32, I64, I32, (int64_t)VALUE_I32(sa) * VALUE_I32(sb), (sum ^ ((p ^ sum) & (c ^ sum))) >> 63) /* the sign of 65 bits */

/* Whether a quotient of finite numbers that are not 0 is below the smallest normal one, whose exponent is given, or that one. */
static inline bool is_denormal_quotient(double numerator, double denominator, int smallest, bool or_equal) {
  const uint64_t mantissa = (1ull << 52) - 1;
  bool tiny_numerator = fabs(numerator) < 0x1p-1022, tiny_denominator = fabs(denominator) < 0x1p-1022;
  uint64_t n = bits_of_f64(tiny_numerator ? numerator * 0x1p64 : numerator);
  uint64_t d = bits_of_f64(tiny_denominator ? denominator * 0x1p64 : denominator);
  int exponent = (int)(n >> 52 & 0x7ff) - (int)(d >> 52 & 0x7ff) - (tiny_numerator ? 64 : 0) + (tiny_denominator ? 64 : 0);
  bool below = or_equal ? (n & mantissa) <= (d & mantissa) : (n & mantissa) < (d & mantissa);
  return exponent < smallest || (exponent == smallest && below);
}
/* Division: v_div_scale, v_div_fmas (with v_div_fixup of the table). Operands: result, mask, the value to scale, the
 * denominator, the numerator. Scales by 2^64 (f64: 2^128) where the steps between would be denormal or infinite.
 * Exponents are biased. Two things are not as the ISA document has them, whose quotients would be wrong: 1 / S1 is
 * denormal in the type of S1 (not always f64), and if S1 is scaled then, it becomes smaller (it would become infinite). */
#define DIV_SCALE(name, T, U, real, exponent_bits, mantissa_bits, far, tiny, step) \
  FUNCTION(name) {                                \
    enum { SMALLEST = 2 - (1 << (exponent_bits - 1)), EXPONENTS = (1 << exponent_bits) - 1 }; \
    Source s0, s1, s2; Result d;                  \
    Lanes scaled;                                 \
    load_##T(w, i, 2, &s0);                       \
    load_##T(w, i, 3, &s1);                       \
    load_##T(w, i, 4, &s2);                       \
    EACH_BY_ITSELF {                              \
      real x = VALUE_##T(s0), denominator = VALUE_##T(s1), numerator = VALUE_##T(s2), y = x; \
      int en = (int)(VALUE_##U(s2) >> mantissa_bits & EXPONENTS), ed = (int)(VALUE_##U(s1) >> mantissa_bits & EXPONENTS); \
      bool set = false, finite = en < EXPONENTS && ed < EXPONENTS; \
      if (numerator == 0 || denominator == 0) {   \
        set = true;                               \
        y = (real)NAN;                            \
      } else if (en - ed >= far) {                \
        set = true;                               \
        if (x == denominator) y = x * step; \
      } else if (ed == 0) {                       \
        y = x * step;                       \
      } else {                                    \
        bool small_reciprocal = ed < EXPONENTS && is_denormal_quotient(1, denominator, SMALLEST, false); \
        bool small_quotient = finite && is_denormal_quotient(numerator, denominator, SMALLEST, true); \
        set = small_quotient;                     \
        if (small_reciprocal && small_quotient) y = x == denominator ? x / step : x; \
        else if (small_reciprocal) y = x / step; \
        else if (small_quotient) y = x == numerator ? x * step : x; \
        else if (en <= tiny) y = x * step;  \
      }                                           \
      SET_##T(d, y);                              \
      scaled[l] = set;                            \
    }                                             \
    put_##T(w, i, &d);                            \
    put_mask(w, &i->operand[1], lanes_not_zero(scaled) & EXEC_OF(w)); \
  }
DIV_SCALE(v_div_scale_f32, F32, U32, float, 8, 23, 96, 23, 0x1p64f)
DIV_SCALE(v_div_scale_f64, F64, U64, double, 11, 52, 768, 53, 0x1p128)
/* The sum is scaled before it is rounded: quotients that are denormal are correct, too. */
static inline float div_fmas_f32(float a, float b, float c, bool scaled) {
  if (!scaled) return __builtin_fmaf(a, b, c);
  return (float)(__builtin_fma(a, b, c) * (fabsf(c) >= 2 ? 0x1p64 : 0x1p-64));
}
static inline double div_fmas_f64(double a, double b, double c, bool scaled) {
  double sum = __builtin_fma(a, b, c);
  if (!scaled) return sum;
  int step = fabs(c) >= 2 ? 128 : -128;
  double result = ldexp(sum, step), lost = sum - ldexp(result, -step);
  if (!isfinite(result) || fabs(lost) != 0x1p-947) return result; /* not half of the last bit, 2^-1074, before scaling */
  double product = a * b, rest = __builtin_fma(a, b, -product), first = product + c, part = first - product;
  double below = (first - sum) + ((product - (first - part)) + (c - part) + rest); /* what `sum` has been rounded by */
  return below != 0 && signbit(below) == signbit(lost) ? nextafter(result, copysign((double)INFINITY, lost)) : result;
}
#define DIV_FMAS(T, t)                            \
  FUNCTION(v_div_fmas_##t) {                      \
    Source sa, sb, sc; Result d;                  \
    uint64_t mask = VCC_OF(w);                    \
    load_##T(w, i, 1, &sa);                       \
    load_##T(w, i, 2, &sb);                       \
    load_##T(w, i, 3, &sc);                       \
    EACH_BY_ITSELF { SET_##T(d, div_fmas_##t(VALUE_##T(sa), VALUE_##T(sb), VALUE_##T(sc), mask >> l & 1)); } \
    put_##T(w, i, &d);                            \
  }
DIV_FMAS(F32, f32)
DIV_FMAS(F64, f64)

/* ---- Lanes that move ------------------------------------------------------------------------------------------------ */

FUNCTION(v_readfirstlane_b32) {
  uint64_t exec = EXEC_OF(w);
  const Operand *o = &i->operand[1];
  put_scalar(w, i->operand[0].index, o->kind == VECTOR ? w->v[o->index][exec ? __builtin_ctzll(exec) : 0] : scalar_operand(w, o));
}
FUNCTION(v_readlane_b32) {
  const Operand *o = &i->operand[1];
  put_scalar(w, i->operand[0].index, o->kind == VECTOR ? w->v[o->index][scalar_operand(w, &i->operand[2]) & (w->launch->lanes - 1)]
                                                        : scalar_operand(w, o));
}
FUNCTION(v_writelane_b32) {
  w->v[i->operand[0].index][scalar_operand(w, &i->operand[2]) & (w->launch->lanes - 1)] = scalar_operand(w, &i->operand[1]);
}
FUNCTION(v_permlane64_b32) { /* of the halves; nothing in waves of 32 */
  Lanes d;
  const uint32_t *from = w->v[i->operand[1].index];
  if (w->launch->lanes < LANES) return;
  for (int l = 0; l < LANES; l++) d[l] = from[l ^ 32];
  put_lanes(w, i->operand[0].index, d);
}
FUNCTION(v_swap_b32) {
  Lanes a, b;
  memcpy(a, w->v[i->operand[0].index], sizeof a);
  memcpy(b, w->v[i->operand[1].index], sizeof b);
  put_lanes(w, i->operand[0].index, b);
  put_lanes(w, i->operand[1].index, a);
}
static void put_half_lanes(Wave *w, const Operand *o, const Lanes halves) {
  Lanes d;
  const uint32_t *old = w->v[o->index];
  EACH d[l] = o->half == UPPER_HALF ? (old[l] & 0xffff) | halves[l] << 16 : (old[l] & 0xffff0000u) | halves[l];
  put_lanes(w, o->index, d);
}
FUNCTION(v_swap_b16) {
  const Operand *o = i->operand;
  Lanes halves[2];
  for (int n = 0; n < 2; n++)
    EACH halves[n][l] = w->v[o[n].index][l] >> (o[n].half == UPPER_HALF ? 16 : 0) & 0xffff;
  put_half_lanes(w, &o[0], halves[1]);
  put_half_lanes(w, &o[1], halves[0]);
}
/* Rows of `width` lanes: the odd ones of the first register change places with the even ones of the second. */
static void swap_rows(Wave *w, const Instruction *i, int width) {
  Lanes a, b;
  memcpy(a, w->v[i->operand[0].index], sizeof a);
  memcpy(b, w->v[i->operand[1].index], sizeof b);
  for (int l = 0; l < LANES; l++)
    if (l / width & 1) {
      uint32_t kept = a[l];
      a[l] = b[l - width];
      b[l - width] = kept;
    }
  put_lanes(w, i->operand[0].index, a);
  put_lanes(w, i->operand[1].index, b);
}
FUNCTION(v_permlane32_swap_b32) { swap_rows(w, i, 32); }
FUNCTION(v_permlane16_swap_b32) { swap_rows(w, i, 16); }
FUNCTION(v_nop) { (void)w, (void)i; }

/* ---- Packed ---------------------------------------------------------------------------------------------------------- */

#define PACKED_16(name, sources, T, expression)   \
  FUNCTION(name) {                                \
    Source sa, sb, sc;                            \
    Lanes d;                                      \
    load_pair(w, i, 1, &sa, PAIR_##T);            \
    load_pair(w, i, 2, &sb, PAIR_##T);            \
    if (sources > 2) load_pair(w, i, 3, &sc, PAIR_##T); \
    else sc.low = sa.low;                         \
    EACH {                                        \
      uint32_t packed = 0;                        \
      for (int shift = 0; shift < 32; shift += 16) { \
        __auto_type a = HALF_##T(sa.low[l] >> shift); __auto_type b = HALF_##T(sb.low[l] >> shift); \
        __auto_type c = HALF_##T(sc.low[l] >> shift); \
        (void)c;                                  \
        packed |= (uint32_t)PACK_##T(expression) << shift; \
      }                                           \
      d[l] = packed;                              \
    }                                             \
    put(w, i, &i->operand[0], d);                 \
  }
#define PAIR_I16 PAIR_INTEGERS
#define PAIR_U16 PAIR_INTEGERS
#define HALF_F16(x) (f32_of_f16(x))
#define HALF_BF16(x) (f32_of_bf16((x) & 0xffff))
#define HALF_I16(x) ((int32_t)(int16_t)(x))
#define HALF_U16(x) ((uint32_t)(x) & 0xffff)
#define PACK_F16(x) f16_of_f32(with_output_f32(w, i, (float)(x), DENORMAL_RESULTS_16_64))
#define PACK_BF16(x) bf16_of_f32(with_output_f32(w, i, (float)(x), DENORMAL_RESULTS))
#define PACK_I16(x) (uint16_t)(i->clamp ? clamp_i64((int64_t)(x), -32768, 32767) : (int64_t)(x))
#define PACK_U16(x) (uint16_t)(i->clamp ? (uint64_t)clamp_i64((int64_t)(x), 0, 65535) : (uint64_t)(x))
#define PACKED_16_ROWS(X) \
  X(v_pk_add_f16, 2, F16, a + b) X(v_pk_mul_f16, 2, F16, a * b) X(v_pk_fma_f16, 3, F16, fma_f16(a, b, c)) \
  X(v_pk_min_f16, 2, F16, min_f32(a, b)) X(v_pk_max_f16, 2, F16, max_f32(a, b)) \
  X(v_pk_minimum3_f16, 3, F16, minimum_f32(minimum_f32(a, b), c)) X(v_pk_maximum3_f16, 3, F16, maximum_f32(maximum_f32(a, b), c)) \
  X(v_pk_add_bf16, 2, BF16, a + b) X(v_pk_mul_bf16, 2, BF16, a * b) X(v_pk_fma_bf16, 3, BF16, fma_f16(a, b, c)) \
  X(v_pk_min_bf16, 2, BF16, min_f32(a, b)) X(v_pk_max_bf16, 2, BF16, max_f32(a, b)) \
  X(v_pk_minimum_f16, 2, F16, minimum_f32(a, b)) X(v_pk_maximum_f16, 2, F16, maximum_f32(a, b)) \
  X(v_pk_add_u16, 2, U16, (int64_t)a + b) X(v_pk_sub_u16, 2, U16, (int64_t)a - b) X(v_pk_mul_lo_u16, 2, U16, a * b) \
  X(v_pk_mad_u16, 3, U16, (int64_t)a * b + c) X(v_pk_add_i16, 2, I16, a + b) X(v_pk_sub_i16, 2, I16, a - b) \
  X(v_pk_mad_i16, 3, I16, (int64_t)a * b + c) X(v_pk_min_i16, 2, I16, a < b ? a : b) X(v_pk_max_i16, 2, I16, a > b ? a : b) \
  X(v_pk_min_u16, 2, U16, a < b ? a : b) X(v_pk_max_u16, 2, U16, a > b ? a : b) \
  X(v_pk_lshlrev_b16, 2, U16, b << (a & 15)) X(v_pk_lshrrev_b16, 2, U16, b >> (a & 15)) X(v_pk_ashrrev_i16, 2, I16, b >> (a & 15))
PACKED_16_ROWS(PACKED_16)
FUNCTION(v_pk_fmac_f16) {
  Source sa, sb;
  Lanes d;
  const uint32_t *old = w->v[i->operand[0].index];
  load_pair(w, i, 1, &sa, PAIR_F16);
  load_pair(w, i, 2, &sb, PAIR_F16);
  EACH {
    uint32_t packed = 0;
    for (int shift = 0; shift < 32; shift += 16)
      packed |= (uint32_t)PACK_F16(fma_f16(HALF_F16(sa.low[l] >> shift), HALF_F16(sb.low[l] >> shift), HALF_F16(old[l] >> shift))) << shift;
    d[l] = packed;
  }
  put(w, i, &i->operand[0], d);
}

/* Two f32: op_sel chooses the dword for the lower result, op_sel_hi that for the upper one. */
static inline const uint32_t *packed_dword(const Wave *w, const Instruction *i, int n, int half, uint32_t *buffer) {
  const Operand *o = &i->operand[n];
  int source = source_number(i, n);
  bool upper = half ? (i->has_op_sel_hi ? i->op_sel_hi >> source & 1 : true) : i->op_sel >> source & 1;
  const uint32_t *from = o->kind == LITERAL ? fetch(w, i, o, 0, buffer) : fetch(w, i, o, upper, buffer);
  if (!((half ? i->neg_hi : i->neg_lo) >> source & 1)) return from;
  for (int l = 0; l < LANES; l++) buffer[l] = from[l] ^ 0x80000000u;
  return buffer;
}
static inline float packed_f32(const Wave *w, uint32_t bits) {
  return f32_of_bits(flushes(w, DENORMAL_SOURCES) ? without_denormal(bits) : bits);
}
#define PACKED_32(name, sources, expression)      \
  FUNCTION(name) {                                \
    Lanes ba, bb, bc, d[2];                       \
    for (int half = 0; half < 2; half++) {        \
      const uint32_t *pa = packed_dword(w, i, 1, half, ba), *pb = packed_dword(w, i, 2, half, bb), *pc = pa; \
      if (sources > 2) pc = packed_dword(w, i, 3, half, bc); \
      if (!i->omod && !i->clamp && !flushes(w, DENORMAL_SOURCES) && !flushes(w, DENORMAL_RESULTS)) { \
        EACH {                                    \
          float a = f32_of_bits(pa[l]), b = f32_of_bits(pb[l]), c = f32_of_bits(pc[l]); \
          (void)c;                                \
          d[half][l] = bits_of_f32(expression);   \
        }                                         \
        continue;                                 \
      }                                           \
      EACH {                                      \
        float a = packed_f32(w, pa[l]), b = packed_f32(w, pb[l]), c = packed_f32(w, pc[l]); \
        (void)c;                                  \
        uint32_t bits = bits_of_f32(with_output_f32(w, i, expression, DENORMAL_RESULTS)); \
        d[half][l] = flushes(w, DENORMAL_RESULTS) ? without_denormal(bits) : bits; \
      }                                           \
    }                                             \
    put_lanes(w, i->operand[0].index, d[0]);      \
    put_lanes(w, i->operand[0].index + 1u, d[1]); \
  }
#define PACKED_STEP(name, sources, expression)    \
  STEP(name) {                                    \
    const uint64_t exec = EXEC_OF(w);             \
    bool scalar = false;                          \
    for (int n = 0; n < sources; n++) scalar |= s->kind[n] != OF_VECTOR; \
    if (scalar || flushes_any(w)) {               \
      perform_whole(w, s);                        \
      return;                                     \
    }                                             \
    FOR_ACTIVE_CHUNKS(lane, active) {             \
      ChunkResult d;                              \
      const uint32_t *of_a = w->v[s->source[0]] + lane, *of_b = w->v[s->source[1]] + lane, \
                     *of_c = w->v[s->source[sources - 1]] + lane; \
      EACH_OF_CHUNK {                             \
        float a = f32_of_bits(of_a[l]), b = f32_of_bits(of_b[l]), c = f32_of_bits(of_c[l]); \
        (void)c;                                  \
        d.low[l] = bits_of_f32(expression);       \
      }                                           \
      EACH_OF_CHUNK {                             \
        float a = f32_of_bits(of_a[l + LANES]), b = f32_of_bits(of_b[l + LANES]), c = f32_of_bits(of_c[l + LANES]); \
        (void)c;                                  \
        d.high[l] = bits_of_f32(expression);      \
      }                                           \
      put_chunk(w->v[s->result] + lane, active, d.low); \
      put_chunk(w->v[s->result + 1] + lane, active, d.high); \
    }                                             \
  }
PACKED_STEP(v_pk_add_f32, 2, a + b)
PACKED_STEP(v_pk_mul_f32, 2, a * b)
PACKED_STEP(v_pk_fma_f32, 3, __builtin_fmaf(a, b, c))
PACKED_32(v_pk_add_f32, 2, a + b)
PACKED_32(v_pk_mul_f32, 2, a * b)
PACKED_32(v_pk_fma_f32, 3, __builtin_fmaf(a, b, c))
/* The lower dword is of the first source, the upper one of the second: of each what its bit of op_sel chooses. */
FUNCTION(v_pk_mov_b32) {
  Lanes ba, bb, low, high;
  const uint32_t *a = packed_dword(w, i, 1, 0, ba), *b = packed_dword(w, i, 2, 0, bb);
  memcpy(low, a, sizeof low);
  memcpy(high, b, sizeof high);
  put_lanes(w, i->operand[0].index, low);
  put_lanes(w, i->operand[0].index + 1u, high);
}

/* v_fma_mix: op_sel_hi says that a source is f16 (or bf16: Row.detail), op_sel which half. */
enum { MIXED_BF16 = 3 };
static inline void load_mixed(const Wave *w, const Instruction *i, int n, float *values) {
  const Operand *o = &i->operand[n];
  int source = source_number(i, n);
  bool is_f16 = i->has_op_sel_hi && i->op_sel_hi >> source & 1, upper = i->op_sel >> source & 1;
  Lanes buffer;
  bool brain = i->row->detail == MIXED_BF16;
  if (o->kind == LITERAL && is_f16) {
    EACH buffer[l] = (brain && o->is_float ? literal_32(o) >> 16 : literal_16(o)) * 0x10001u;
  } else {
    const uint32_t *from = fetch(w, i, o, 0, buffer);
    if (from != buffer) memcpy(buffer, from, sizeof buffer);
  }
  const uint32_t shift = upper ? 16 : 0;
  const uint32_t kept = o->abs || i->neg_hi >> source & 1 ? 0x7fffffff : ~0u;
  const uint32_t turned = (uint32_t)(o->neg || i->neg_lo >> source & 1) << 31;
  if (!is_f16) EACH values[l] = packed_f32(w, buffer[l]);
  else if (brain) EACH values[l] = f32_of_bf16(buffer[l] >> shift & 0xffff);
  else EACH values[l] = f32_of_f16(buffer[l] >> shift & 0xffff);
  EACH values[l] = f32_of_bits((bits_of_f32(values[l]) & kept) ^ turned);
}
static inline void mixed_sum(const Wave *w, const Instruction *i, float *sums) {
  float a[LANES], b[LANES], c[LANES];
  load_mixed(w, i, 1, a);
  load_mixed(w, i, 2, b);
  load_mixed(w, i, 3, c);
  EACH sums[l] = with_output_f32(w, i, __builtin_fmaf(a[l], b[l], c[l]), DENORMAL_RESULTS);
}
FUNCTION(v_fma_mix_f32) {
  float sums[LANES];
  Lanes d;
  mixed_sum(w, i, sums);
  EACH d[l] = bits_of_f32(sums[l]);
  put_f32(w, i, d);
}
static inline void put_half(Wave *w, const Instruction *i, const uint32_t *halves, bool upper) {
  Lanes d;
  const uint32_t *row = w->v[i->operand[0].index];
  EACH d[l] = upper ? (row[l] & 0xffff) | halves[l] << 16 : (row[l] & 0xffff0000u) | (halves[l] & 0xffff);
  put_lanes(w, i->operand[0].index, d);
}
static inline void mix_half(Wave *w, const Instruction *i, bool upper) {
  float sums[LANES];
  Lanes d;
  mixed_sum(w, i, sums);
  if (i->row->detail == MIXED_BF16) EACH d[l] = bf16_of_f32(sums[l]);
  else EACH d[l] = f16_of_f32(sums[l]);
  put_half(w, i, d, upper);
}
FUNCTION(v_fma_mixlo_f16) { mix_half(w, i, false); }
FUNCTION(v_fma_mixhi_f16) { mix_half(w, i, true); }

/* ---- Small floats --------------------------------------------------------------------------------------------------- */

#define SATURATES (w->mode >> 23 & 1) /* MODE.FP16_OVFL */
static SmallFormat format_of(const Wave *w, bool is_bf8) { return is_bf8 ? bf8_of(w->launch->arch) : fp8_of(w->launch->arch); }

static inline void widen_pair(Wave *w, const Instruction *i, bool is_bf8) {
  Source s; Result d;
  SmallFormat format = format_of(w, is_bf8);
  load_32(w, i, 1, &s);
  int shift = i->op_sel & 1 ? 16 : 0;
  EACH {
    d.low[l] = bits_of_f32(f32_of_small(format, s.low[l] >> shift & 255));
    d.high[l] = bits_of_f32(f32_of_small(format, s.low[l] >> (shift + 8) & 255));
  }
  put_64(w, i, &d);
}
FUNCTION(v_cvt_pk_f32_fp8) { widen_pair(w, i, false); }
FUNCTION(v_cvt_pk_f32_bf8) { widen_pair(w, i, true); }
static inline void narrow_pair(Wave *w, const Instruction *i, bool is_bf8) {
  Source sa, sb;
  Lanes d;
  SmallFormat format = format_of(w, is_bf8);
  load_F32(w, i, 1, &sa);
  load_F32(w, i, 2, &sb);
  EACH d[l] = small_of_f32(format, VALUE_F32(sa), SATURATES) | small_of_f32(format, VALUE_F32(sb), SATURATES) << 8;
  put_half(w, i, d, i->op_sel >> 2 & 1);
}
FUNCTION(v_cvt_pk_fp8_f32) { narrow_pair(w, i, false); }
FUNCTION(v_cvt_pk_bf8_f32) { narrow_pair(w, i, true); }
static inline void narrow_stochastic(Wave *w, const Instruction *i, bool is_bf8) {
  Source sa, sb;
  Lanes d;
  SmallFormat format = format_of(w, is_bf8);
  const uint32_t *row = w->v[i->operand[0].index];
  int shift = (i->op_sel >> 2 & 3) * 8;
  load_F32(w, i, 1, &sa);
  load_32(w, i, 2, &sb);
  EACH d[l] = (row[l] & ~(255u << shift)) | small_of_f32_stochastic(format, VALUE_F32(sa), sb.low[l], SATURATES) << shift;
  put_lanes(w, i->operand[0].index, d);
}
FUNCTION(v_cvt_sr_fp8_f32) { narrow_stochastic(w, i, false); }
FUNCTION(v_cvt_sr_bf8_f32) { narrow_stochastic(w, i, true); }

/* Stochastic rounding: as many upper bits of the random number as the mantissa loses are added, the sum is cut off. */
static uint32_t f16_of_f32_stochastic(float x, uint32_t random) {
  uint32_t u = bits_of_f32(x), sign = u >> 16 & 0x8000, exponent = u >> 23 & 255, significand = u & 0x7fffff;
  if (exponent == 255) return f16_of_f32(x);
  if (exponent) significand |= 0x800000;
  else exponent = 1;
  significand += random >> 19;
  if (significand >> 24) significand >>= 1, exponent++;
  int above = (int)exponent - 127 + 14, shift = 13 + (above < 0 ? -above : 0);
  uint32_t magnitude = (above > 0 ? (uint32_t)above << 10 : 0) + (shift > 31 ? 0 : significand >> shift);
  return sign | (magnitude > 0x7c00 ? 0x7c00 : magnitude);
}
static uint32_t bf16_of_f32_stochastic(float x, uint32_t random) {
  return isfinite(x) ? (bits_of_f32(x) + (random >> 16)) >> 16 : bf16_of_f32(x);
}
#define STOCHASTIC_16(name, convert)              \
  FUNCTION(name) {                                \
    Source sa, sb;                                \
    Lanes d;                                      \
    load_F32(w, i, 1, &sa);                       \
    load_32(w, i, 2, &sb);                        \
    EACH d[l] = convert(VALUE_F32(sa), sb.low[l]); \
    put_half(w, i, d, i->op_sel >> 2 & 1);        \
  }
STOCHASTIC_16(v_cvt_sr_f16_f32, f16_of_f32_stochastic)
STOCHASTIC_16(v_cvt_sr_bf16_f32, bf16_of_f32_stochastic)

FUNCTION(v_mqsad_u32_u8) {
  Source sa, sb;
  Lanes buffer[4], d[4];
  load_64(w, i, 1, &sa, false);
  load_32(w, i, 2, &sb);
  for (int n = 0; n < 4; n++) {
    const uint32_t *c = fetch(w, i, &i->operand[3], (uint32_t)n, buffer[n]);
    EACH d[n][l] = sad_u8((uint32_t)(VALUE_U64(sa) >> 8 * n), sb.low[l], true) + c[l];
  }
  for (uint32_t n = 0; n < 4; n++) put_lanes(w, i->operand[0].index + n, d[n]);
}

/* ---- Conversions with a scale: v_cvt_scalef32_… of gfx950 ----------------------------------------------------------- */

/* The exponent of the last source is the scale: what is widened is multiplied by it, what is narrowed divided. Of detail:
 * the small format, the wide one, how many elements, and the rest. */
enum { WIDE_F32, WIDE_F16, WIDE_BF16 };
enum { NARROWS = 1 << 16, STOCHASTIC = 1 << 17, INTERLEAVED = 1 << 18 };
#define SCALED(small, wide, count) ((uint32_t)(small) | (uint32_t)(wide) << 4 | (uint32_t)(count) << 8)

static inline uint32_t next_random(uint32_t x) { return x << 1 ^ (x >> 31 ? 197u : 0u); } /* v_prng_b32 */

static inline double scale_of(uint32_t bits, int direction) {
  int exponent = (int)(bits >> 23 & 255);
  return exponent == 255 ? (double)NAN : ldexp(1, direction * (exponent - 127));
}

/* Element n of the sources in the wide format. */
static inline float wide_element(const Wave *w, const Instruction *i, uint32_t wide, uint32_t n, int l) {
  uint32_t count = i->row->detail >> 8 & 255;
  const Operand *o = &i->operand[1];
  uint32_t at = n;
  if (i->row->detail & INTERLEAVED) o = &i->operand[1 + n % 2], at = n / 2;
  else if (wide == WIDE_F32 && count == 2 && !(i->row->detail & STOCHASTIC)) o = &i->operand[1 + n], at = 0;
  uint32_t part = wide == WIDE_F32 ? at : at / 2, bits;
  if (o->kind == VECTOR) bits = w->v[o->index + part][l];
  else if (o->kind == SCALAR) bits = scalar_of(w, o->index + (o->count > 1 ? part : 0));
  else bits = wide == WIDE_F16 ? literal_16(o) : literal_32(o);
  float x = wide == WIDE_F32 ? f32_of_bits(bits)
            : wide == WIDE_F16 ? f32_of_f16(bits >> 16 * (at & 1)) : f32_of_bf16(bits >> 16 * (at & 1) & 0xffff);
  if (o->abs) x = fabsf(x);
  return o->neg ? -x : x;
}

FUNCTION(scaled_narrowing) {
  uint32_t detail = i->row->detail, wide = detail >> 4 & 15, count = detail >> 8 & 255;
  SmallFormat format = (SmallFormat)(detail & 15);
  uint32_t width = parts_of_small(format).width, registers = count == 32 ? 6 : 1;
  bool stochastic = detail & STOCHASTIC;
  Lanes scale_buffer, seed_buffer, d[6];
  const uint32_t *scale = fetch(w, i, &i->operand[i->operand_count - 1], 0, scale_buffer), *seed = NULL;
  if (stochastic) seed = fetch(w, i, &i->operand[2], 0, seed_buffer);
  uint32_t shift = 0; /* where in the register it goes */
  if (count * width == 8) shift = (i->op_sel >> 2 & 3) * 8;
  else if (count * width == 16) shift = (i->op_sel >> (wide == WIDE_F32 ? 3 : 2) & 1) * 16;
  EACH {
    double factor = scale_of(scale[l], -1);
    uint32_t random = seed ? seed[l] : 0;
    uint64_t packed[4] = {0};
    for (uint32_t n = 0; n < count; n++) {
      float x = (float)((double)wide_element(w, i, wide, n, l) * factor);
      uint64_t code = stochastic ? small_of_f32_stochastic(format, x, random, SATURATES) : small_of_f32(format, x, SATURATES);
      uint32_t bit = n * width;
      packed[bit / 64] |= code << bit % 64;
      if (bit % 64 + width > 64) packed[bit / 64 + 1] |= code >> (64 - bit % 64);
      random = next_random(random);
    }
    if (registers == 1) {
      uint32_t mask = ((1u << count * width) - 1) << shift;
      d[0][l] = (w->v[i->operand[0].index][l] & ~mask) | (uint32_t)packed[0] << shift;
    } else {
      for (uint32_t n = 0; n < 6; n++) d[n][l] = (uint32_t)(packed[n / 2] >> 32 * (n % 2));
    }
  }
  for (uint32_t n = 0; n < registers; n++) put_lanes(w, i->operand[0].index + n, d[n]);
}

FUNCTION(scaled_widening) {
  uint32_t detail = i->row->detail, wide = detail >> 4 & 15, count = detail >> 8 & 255;
  SmallFormat format = (SmallFormat)(detail & 15);
  uint32_t width = parts_of_small(format).width, shift = 0;
  uint32_t registers = wide == WIDE_F32 ? count : (count + 1) / 2;
  if (count * width == 8) shift = (i->op_sel & 3) * 8;
  else if (count * width == 16) shift = (i->op_sel & 1) * 16;
  Lanes scale_buffer, buffer[6], d[32];
  const uint32_t *scale = fetch(w, i, &i->operand[2], 0, scale_buffer), *from[6];
  for (uint32_t n = 0; n < (count == 32 ? 6 : 1); n++) from[n] = fetch(w, i, &i->operand[1], n, buffer[n]);
  EACH {
    double factor = scale_of(scale[l], 1);
    for (uint32_t n = 0; n < count; n++) {
      uint32_t bit = n * width + shift, code = from[bit / 32][l] >> bit % 32;
      if (bit % 32 + width > 32) code |= from[bit / 32 + 1][l] << (32 - bit % 32);
      double x = (double)f32_of_small(format, code) * factor;
      if (wide == WIDE_F32) {
        d[n][l] = bits_of_f32((float)x);
      } else {
        uint32_t half = wide == WIDE_F16 ? f16_of_f32((float)x) : bf16_of_f32((float)x);
        d[n / 2][l] = n % 2 ? d[n / 2][l] | half << 16 : half;
      }
    }
  }
  if (count == 1 && wide == WIDE_F16) put_half(w, i, d[0], i->op_sel >> 2 & 1);
  else for (uint32_t n = 0; n < registers; n++) put_lanes(w, i->operand[0].index + n, d[n]);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */

#define WIDTH_F32 0
#define WIDTH_F64 0
#define WIDTH_U32 0
#define WIDTH_I32 0
#define WIDTH_U64 0
#define WIDTH_I64 0
#define WIDTH_F16 CLEARS_UPPER_HALF
#define WIDTH_U16 CLEARS_UPPER_HALF
#define WIDTH_I16 CLEARS_UPPER_HALF
#define TYPE_F32 RESULT_F32
#define TYPE_F64 RESULT_F64
#define TYPE_F16 RESULT_F16
#define TYPE_U32 PLAIN_BITS
#define TYPE_I32 PLAIN_BITS
#define TYPE_U16 PLAIN_BITS
#define TYPE_I16 PLAIN_BITS
#define TYPE_U64 PLAIN_BITS
#define TYPE_I64 PLAIN_BITS
#define PERFORMED(name, D, A, B, C) STEPS_##D & STEPS_##A & STEPS_##B & STEPS_##C & IN_STEPS ? perform_##name : NULL
#define V1(name, D, A, expression) {#name, execute_##name, 1, 0, TYPE_##D, WIDTH_##D, PERFORMED(name, D, A, D, D)},
#define M1(name, D, A, expression) {#name, execute_##name, 1, MOVES, TYPE_##D, WIDTH_##D, PERFORMED(name, D, A, D, D)},
#define V2(name, D, A, B, expression) {#name, execute_##name, 1, 0, TYPE_##D, WIDTH_##D, PERFORMED(name, D, A, B, D)},
#define V3(name, D, A, B, C, expression) {#name, execute_##name, 1, 0, TYPE_##D, WIDTH_##D, PERFORMED(name, D, A, B, C)},
#define K2(name, D, A, B, expression) {#name, execute_##name, 1, 0, TYPE_##D, KEEPS_UPPER_HALF, PERFORMED(name, D, A, B, D)},
#define K3(name, D, A, B, C, expression) {#name, execute_##name, 1, 0, TYPE_##D, KEEPS_UPPER_HALF, PERFORMED(name, D, A, B, C)},
#define A2(name, D, A, B, expression) {#name, execute_##name, 1, READS_RESULT, TYPE_##D, WIDTH_##D, PERFORMED(name, D, A, B, D)},
#define COMPARISON_ROW(name, T, expression) \
  {"v_cmp_" #name, execute_v_cmp_##name, 1, 0, PLAIN_BITS, 0, PERFORMED(v_cmp_##name, T, T, T, T)}, \
  {"v_cmpx_" #name, execute_v_cmpx_##name, 1, 0, PLAIN_BITS, 0},
#define PACKED_ROW(name, sources, T, expression) {#name, execute_##name, 1, 0, PACKED_TYPE_##T, 0},
#define PACKED_TYPE_F16 RESULT_PACKED_F16
#define PACKED_TYPE_BF16 RESULT_PACKED_BF16
#define PACKED_TYPE_I16 PLAIN_BITS
#define PACKED_TYPE_U16 PLAIN_BITS
#define ROW(name, results, flags, type) {#name, execute_##name, results, flags, type, 0}
#define WITH_STEP(name) {#name, execute_##name, 2, 0, PLAIN_BITS, 0, perform_##name} /* and a mask */

const Row vector_rows[] = {
#include "vector_instructions.inc"
    ALL_COMPARISONS(COMPARISON_ROW)
    PACKED_16_ROWS(PACKED_ROW)
    ROW(v_cmp_class_f16, 1, 0, PLAIN_BITS), ROW(v_cmp_class_f32, 1, 0, PLAIN_BITS), ROW(v_cmp_class_f64, 1, 0, PLAIN_BITS),
    ROW(v_cmpx_class_f16, 1, 0, PLAIN_BITS), ROW(v_cmpx_class_f32, 1, 0, PLAIN_BITS), ROW(v_cmpx_class_f64, 1, 0, PLAIN_BITS),
    {"v_cndmask_b32", execute_v_cndmask_b32, 1, 0, PLAIN_BITS, 0, perform_v_cndmask_b32},
    WITH_STEP(v_add_co_u32), WITH_STEP(v_sub_co_u32), WITH_STEP(v_subrev_co_u32), WITH_STEP(v_addc_co_u32),
    WITH_STEP(v_subb_co_u32), WITH_STEP(v_subbrev_co_u32), WITH_STEP(v_mad_u64_u32), WITH_STEP(v_mad_i64_i32),
    ROW(v_div_scale_f32, 2, 0, PLAIN_BITS), ROW(v_div_scale_f64, 2, 0, PLAIN_BITS),
    ROW(v_div_fmas_f32, 1, READS_VCC, RESULT_F32), ROW(v_div_fmas_f64, 1, READS_VCC, RESULT_F64),
    ROW(v_readfirstlane_b32, 1, COPIES_SCALAR | MOVES, PLAIN_BITS), ROW(v_readlane_b32, 1, COPIES_SCALAR | MOVES | IGNORES_EXEC, PLAIN_BITS),
    ROW(v_writelane_b32, 1, READS_RESULT | MOVES | IGNORES_EXEC, PLAIN_BITS),
    ROW(v_permlane64_b32, 1, MOVES, PLAIN_BITS),
    ROW(v_swap_b32, 2, ALL_RESULTS_READ | MOVES, PLAIN_BITS), ROW(v_swap_b16, 2, ALL_RESULTS_READ | MOVES, PLAIN_BITS),
    ROW(v_permlane32_swap_b32, 2, ALL_RESULTS_READ | MOVES, PLAIN_BITS), ROW(v_permlane16_swap_b32, 2, ALL_RESULTS_READ | MOVES, PLAIN_BITS),
    ROW(v_nop, 0, 0, PLAIN_BITS),
    ROW(v_pk_fmac_f16, 1, READS_RESULT, RESULT_PACKED_F16),
    {"v_pk_add_f32", execute_v_pk_add_f32, 1, 0, RESULT_PACKED_F32, 0, perform_v_pk_add_f32},
    {"v_pk_mul_f32", execute_v_pk_mul_f32, 1, 0, RESULT_PACKED_F32, 0, perform_v_pk_mul_f32},
    {"v_pk_fma_f32", execute_v_pk_fma_f32, 1, 0, RESULT_PACKED_F32, 0, perform_v_pk_fma_f32},
    ROW(v_pk_mov_b32, 1, MOVES, PLAIN_BITS),
    ROW(v_fma_mix_f32, 1, 0, RESULT_F32), ROW(v_fma_mixlo_f16, 1, READS_RESULT, PLAIN_BITS), ROW(v_fma_mixhi_f16, 1, READS_RESULT, PLAIN_BITS),
    {"v_mad_mix_f32", execute_v_fma_mix_f32, 1, 0, RESULT_F32, 0},
    {"v_fma_mix_f32_bf16", execute_v_fma_mix_f32, 1, 0, RESULT_F32, MIXED_BF16},
    {"v_fma_mixlo_bf16", execute_v_fma_mixlo_f16, 1, READS_RESULT, PLAIN_BITS, MIXED_BF16},
    {"v_fma_mixhi_bf16", execute_v_fma_mixhi_f16, 1, READS_RESULT, PLAIN_BITS, MIXED_BF16},
    ROW(v_cvt_pk_f32_fp8, 1, 0, RESULT_PACKED_F32), ROW(v_cvt_pk_f32_bf8, 1, 0, RESULT_PACKED_F32),
    ROW(v_cvt_pk_fp8_f32, 1, READS_RESULT, PLAIN_BITS), ROW(v_cvt_pk_bf8_f32, 1, READS_RESULT, PLAIN_BITS),
    ROW(v_cvt_sr_fp8_f32, 1, READS_RESULT, PLAIN_BITS), ROW(v_cvt_sr_bf8_f32, 1, READS_RESULT, PLAIN_BITS),
    ROW(v_cvt_sr_f16_f32, 1, READS_RESULT, PLAIN_BITS), ROW(v_cvt_sr_bf16_f32, 1, READS_RESULT, PLAIN_BITS),
    ROW(v_mqsad_u32_u8, 1, 0, PLAIN_BITS),
#define NARROW(name, small, wide, count, more) \
  {"v_cvt_scalef32_" name, execute_scaled_narrowing, 1, (count) == 32 ? 0 : READS_RESULT, PLAIN_BITS, SCALED(small, wide, count) | NARROWS | (more)}
#define NARROW_8(small, format) \
  NARROW("pk_" small "_f32", format, WIDE_F32, 2, 0), NARROW("pk_" small "_f16", format, WIDE_F16, 2, 0), \
  NARROW("pk_" small "_bf16", format, WIDE_BF16, 2, 0), NARROW("sr_" small "_f32", format, WIDE_F32, 1, STOCHASTIC), \
  NARROW("sr_" small "_f16", format, WIDE_F16, 1, STOCHASTIC), NARROW("sr_" small "_bf16", format, WIDE_BF16, 1, STOCHASTIC)
#define NARROW_6(small, format) \
  NARROW("2xpk16_" small "_f32", format, WIDE_F32, 32, INTERLEAVED), NARROW("pk32_" small "_f16", format, WIDE_F16, 32, 0), \
  NARROW("pk32_" small "_bf16", format, WIDE_BF16, 32, 0), NARROW("sr_pk32_" small "_f32", format, WIDE_F32, 32, STOCHASTIC), \
  NARROW("sr_pk32_" small "_f16", format, WIDE_F16, 32, STOCHASTIC), NARROW("sr_pk32_" small "_bf16", format, WIDE_BF16, 32, STOCHASTIC)
    NARROW_8("fp8", E4M3), NARROW_8("bf8", E5M2), NARROW_6("fp6", E2M3), NARROW_6("bf6", E3M2),
    NARROW("pk_fp4_f32", E2M1, WIDE_F32, 2, 0), NARROW("pk_fp4_f16", E2M1, WIDE_F16, 2, 0), NARROW("pk_fp4_bf16", E2M1, WIDE_BF16, 2, 0),
    NARROW("sr_pk_fp4_f32", E2M1, WIDE_F32, 2, STOCHASTIC), NARROW("sr_pk_fp4_f16", E2M1, WIDE_F16, 2, STOCHASTIC),
    NARROW("sr_pk_fp4_bf16", E2M1, WIDE_BF16, 2, STOCHASTIC),
#define WIDEN(name, small, wide, count) {"v_cvt_scalef32_" name, execute_scaled_widening, 1, 0, PLAIN_BITS, SCALED(small, wide, count)}
#define WIDEN_8(small, format) \
  WIDEN("f32_" small, format, WIDE_F32, 1), WIDEN("pk_f32_" small, format, WIDE_F32, 2), WIDEN("pk_f16_" small, format, WIDE_F16, 2), \
  WIDEN("pk_bf16_" small, format, WIDE_BF16, 2), \
  {"v_cvt_scalef32_f16_" small, execute_scaled_widening, 1, READS_RESULT, PLAIN_BITS, SCALED(format, WIDE_F16, 1)}
#define WIDEN_6(small, format) \
  WIDEN("pk32_f32_" small, format, WIDE_F32, 32), WIDEN("pk32_f16_" small, format, WIDE_F16, 32), WIDEN("pk32_bf16_" small, format, WIDE_BF16, 32)
    WIDEN_8("fp8", E4M3), WIDEN_8("bf8", E5M2), WIDEN_6("fp6", E2M3), WIDEN_6("bf6", E3M2),
    WIDEN("pk_f32_fp4", E2M1, WIDE_F32, 2), WIDEN("pk_f16_fp4", E2M1, WIDE_F16, 2), WIDEN("pk_bf16_fp4", E2M1, WIDE_BF16, 2),
    {NULL, NULL, 0, 0, PLAIN_BITS, 0},
};
