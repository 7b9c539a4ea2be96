/* MFMA and SMFMAC: small matrix products over the registers of a whole wave.
 *
 * Layouts are those of the chapters on matrix instructions in the MI300 and CDNA4 ISA documents and of AMD's matrix
 * instruction calculator. For B blocks of M × M results over K:
 *
 *   A  row i, k of block b: lane i + M · (b + B · (k / per_lane)), element k % per_lane, per_lane = K · M · B / 64
 *   B  column j in place of row i
 *   D  32×32, 16×16: row r % 4 + 4 · (lane / M) + 8 · (r / 4) (32×32), column lane % M, registers of block after block
 *      4×4: row r, column lane % 4, block lane / 4;   f64: see execute_f64
 *
 * The 8-bit formats of f8f6f4, and B of SMFMAC on gfx950, have K in halves: CHUNK elements of each lane group for the
 * lower half of K, then as many for the upper. A lane's elements are converted to f32, a row of 64 lanes for each, and
 * every k has a pointer to its row of A and of B.
 *
 * Sums are made in f32 with fused multiply-adds in the order of k. The hardware adds groups of products at once, with
 * truncation below the largest (gfx942) or in pairs (gfx90a): last bits differ. This, what XF32 cuts off and that
 * gfx90a flushes denormals of f16 and bf16 was measured by MMA-Sim (arXiv 2511.10909). */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast")
#endif

#include <math.h>
#include <string.h>

#include "float8.h"
#include "machine.h"
#include "values.h"

typedef enum { A_F32, A_XF32, A_F16, A_BF16, A_I8, A_FP8, A_BF8 } Element;

typedef struct {
  uint32_t m, blocks, k;
  Element a, b;
} Shape;

#define SHAPE(m, blocks, k, a, b) \
  ((uint32_t)(m) | (uint32_t)(blocks) << 6 | (uint32_t)(k) << 11 | (uint32_t)(a) << 19 | (uint32_t)(b) << 23)

static inline Shape shape_of(const Instruction *i) {
  uint32_t d = i->row->detail;
  return (Shape){d & 63, d >> 6 & 31, d >> 11 & 255, d >> 19 & 15, d >> 23 & 15};
}

enum {
  MAX_K = 128,
  MAX_ELEMENTS = 32, /* of one lane */
  MAX_RESULTS = 32,  /* registers */
  FP16_OVFL = 1 << 23,
  F32_INPUT_DENORMALS = 1 << 4, /* both in MODE */
};

typedef float Row64[LANES] __attribute__((aligned(64)));
typedef uint32_t Registers[LANES]; /* a row of Wave.v */
typedef float Vector __attribute__((vector_size(64), may_alias));

#define FOUR(x) x, x, x, x
#define SPLAT(x) ((Vector){FOUR(x), FOUR(x), FOUR(x), FOUR(x)})
#if defined(__clang__) && defined(__has_builtin) && __has_builtin(__builtin_elementwise_fma)
#define FMA(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#ifdef __clang__
#define WHOLE_VECTORS __attribute__((min_vector_width(512)))
#else
#define WHOLE_VECTORS
#endif

/* ---- Elements to f32 --------------------------------------------------------------------------------------------- */

static void convert_16(const Registers *from, uint32_t elements, bool is_f16, Row64 *to) {
  for (uint32_t e = 0; e < elements; e += 2, from++)
    if (is_f16) {
      uint16_t low[LANES], high[LANES];
      for (int l = 0; l < LANES; l++) low[l] = (uint16_t)(*from)[l];
      for (int l = 0; l < LANES; l++) high[l] = (uint16_t)((*from)[l] >> 16);
      for (int l = 0; l < LANES; l++) to[e][l] = f32_of_f16(low[l]);
      for (int l = 0; l < LANES; l++) to[e + 1][l] = f32_of_f16(high[l]);
    } else {
      for (int l = 0; l < LANES; l++) to[e][l] = f32_of_bits((*from)[l] << 16);
      for (int l = 0; l < LANES; l++) to[e + 1][l] = f32_of_bits((*from)[l] & 0xffff0000u);
    }
}

/* Inlined for each format. Elements are packed densely; those of six bits cross registers. */
static inline __attribute__((always_inline)) void convert_format(const Registers *from, uint32_t elements,
                                                                 SmallFormat f, Row64 *to) {
  const uint32_t width = parts_of_small(f).width;
  for (uint32_t e = 0; e < elements; e++) {
    uint32_t bit = e * width, shift = bit % 32;
    const uint32_t *low = from[bit / 32];
    if (shift + width > 32) {
      const uint32_t *high = from[bit / 32 + 1];
      for (int l = 0; l < LANES; l++) to[e][l] = f32_of_small(f, low[l] >> shift | high[l] << (32 - shift));
    } else {
      for (int l = 0; l < LANES; l++) to[e][l] = f32_of_small(f, low[l] >> shift);
    }
  }
}

static void convert_small(const Registers *from, uint32_t elements, SmallFormat f, Row64 *to) {
  switch (f) {
    case E4M3: convert_format(from, elements, E4M3, to); break;
    case E5M2: convert_format(from, elements, E5M2, to); break;
    case E2M3: convert_format(from, elements, E2M3, to); break;
    case E3M2: convert_format(from, elements, E3M2, to); break;
    case E2M1: convert_format(from, elements, E2M1, to); break;
    case E4M3_FNUZ: convert_format(from, elements, E4M3_FNUZ, to); break;
    default: convert_format(from, elements, E5M2_FNUZ, to); break;
  }
}

static void flush(Row64 *rows, uint32_t count, float smallest) {
  for (uint32_t e = 0; e < count; e++)
    for (int l = 0; l < LANES; l++) rows[e][l] = fabsf(rows[e][l]) < smallest ? copysignf(0, rows[e][l]) : rows[e][l];
}

static void convert(const Wave *w, uint32_t first, uint32_t elements, Element type, Row64 *to) {
  const Registers *from = &w->v[first];
  switch (type) {
    case A_F32:
      memcpy(to, from, elements * sizeof *to);
      if (!(w->mode & F32_INPUT_DENORMALS)) flush(to, elements, 0x1p-126f);
      break;
    case A_XF32: /* cut off after ten bits of the mantissa; NaN stays NaN */
      for (uint32_t e = 0; e < elements; e++)
        for (int l = 0; l < LANES; l++) {
          uint32_t u = from[e][l];
          to[e][l] = f32_of_bits((u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : u & 0xffffe000u);
        }
      break;
    case A_F16:
    case A_BF16:
      convert_16(from, elements, type == A_F16, to);
      if (w->launch->arch == GFX90A) flush(to, elements, type == A_F16 ? 0x1p-14f : 0x1p-126f);
      break;
    case A_I8: /* products and their sums over K are below 2^24, and so exact */
      for (uint32_t e = 0; e < elements; e++)
        for (int l = 0; l < LANES; l++) to[e][l] = (float)(int8_t)(from[e / 4][l] >> (e % 4 * 8));
      break;
    case A_FP8: convert_small(from, elements, fp8_of(w->launch->arch), to); break;
    case A_BF8: convert_small(from, elements, bf8_of(w->launch->arch), to); break;
  }
}

/* ---- Lane permutations ------------------------------------------------------------------------------------------- */

static void permute(Row64 *rows, uint32_t count, const uint8_t from[LANES]) {
  for (uint32_t e = 0; e < count; e++) {
    Row64 old;
    memcpy(old, rows[e], sizeof old);
    for (uint32_t l = 0; l < LANES; l++) rows[e][l] = old[from[l]];
  }
}

/* Whether cbsz, abid and blgp are of those whose effect is documented. */
static bool has_known_modifiers(const Wave *w, const Instruction *i, Shape s) {
  if (i->cbsz ? 1u << i->cbsz > s.blocks || i->abid >> i->cbsz : i->abid != 0) return false;
  return !i->blgp || s.blocks > 1 || s.a == A_F32 || w->launch->arch == GFX90A;
}

/* cbsz: every group of 1 << cbsz blocks has the A of its block number abid (AMD's matrix instruction calculator and its
 * notes on matrix cores). blgp: lanes of B. */
static void permute_sources(const Instruction *i, Shape s, Row64 *a, Row64 *b, uint32_t elements) {
  static const struct {
    uint8_t modulo, offset;
  } patterns[8] = {{64, 0}, {32, 0}, {32, 32}, {64, 16}, {16, 0}, {16, 16}, {16, 32}, {16, 48}};
  uint8_t from[LANES], in_group = (uint8_t)(s.m << i->cbsz), modulo = patterns[i->blgp & 7].modulo;
  for (uint32_t l = 0; l < LANES; l++) from[l] = (uint8_t)(l / in_group * in_group + s.m * i->abid + l % s.m);
  if (i->cbsz) permute(a, elements, from);
  for (uint32_t l = 0; l < LANES; l++) from[l] = (l % modulo + patterns[i->blgp & 7].offset) % LANES;
  if (i->blgp) permute(b, elements, from);
}

/* ---- Products ----------------------------------------------------------------------------------------------------
 * `a[k]` and `b[k]` point to row k's values of this block; C is at `c`, `stride` words from register to register. */

typedef const float *const *Ks;

WHOLE_VECTORS static void multiply_32(Registers *d, const uint32_t *c, size_t stride, Ks a, Ks b, uint32_t ks,
                                      uint32_t block) {
  for (uint32_t r = 0; r < 16; r += 4) {
    Vector sum[4][4];
    for (int q = 0; q < 4; q++)
      for (int v = 0; v < 4; v++) sum[q][v] = *(const Vector *)(c + (r + (uint32_t)q) * stride + v * 16);
    for (uint32_t k = 0; k < ks; k++) {
      const float *rows = a[k] + 32 * block + 2 * r;
      const Vector *columns = (const Vector *)(b[k] + 32 * block);
      Vector left = columns[0], right = columns[1];
      for (int q = 0; q < 4; q++) {
        Vector low = SPLAT(rows[q]), high = SPLAT(rows[q + 4]);
        sum[q][0] = FMA(low, left, sum[q][0]);
        sum[q][1] = FMA(low, right, sum[q][1]);
        sum[q][2] = FMA(high, left, sum[q][2]);
        sum[q][3] = FMA(high, right, sum[q][3]);
      }
    }
    for (int q = 0; q < 4; q++)
      for (int v = 0; v < 4; v++) *(Vector *)(d[r + (uint32_t)q] + v * 16) = sum[q][v];
  }
}

WHOLE_VECTORS static void multiply_16(Registers *d, const uint32_t *c, size_t stride, Ks a, Ks b, uint32_t ks,
                                      uint32_t block) {
  Vector sum[4][4];
  for (int q = 0; q < 4; q++)
    for (int v = 0; v < 4; v++) sum[q][v] = *(const Vector *)(c + (uint32_t)q * stride + v * 16);
  for (uint32_t k = 0; k < ks; k++) {
    const float *rows = a[k] + 16 * block;
    Vector columns = *(const Vector *)(b[k] + 16 * block);
    for (int q = 0; q < 4; q++)
      for (int v = 0; v < 4; v++) sum[q][v] = FMA(SPLAT(rows[4 * v + q]), columns, sum[q][v]);
  }
  for (int q = 0; q < 4; q++)
    for (int v = 0; v < 4; v++) *(Vector *)(d[q] + v * 16) = sum[q][v];
}

static void multiply_4(Registers *d, const uint32_t *c, size_t stride, Ks a, Ks b, uint32_t ks) {
  for (uint32_t r = 0; r < 4; r++) {
    Row64 sum;
    memcpy(sum, c + r * stride, sizeof sum);
    for (uint32_t k = 0; k < ks; k++)
      for (uint32_t l = 0; l < LANES; l++) sum[l] = __builtin_fmaf(a[k][(l & ~3u) + r], b[k][l], sum[l]);
    memcpy(d[r], sum, sizeof sum);
  }
}

static uint32_t result_registers(Shape s) { return s.m * s.m * s.blocks / LANES; }

/* Of 32×32 and 16×16 of one block. */
static inline uint32_t result_row(Shape s, uint32_t r, uint32_t l) { return r / 4 * 8 + l / s.m * 4 + r % 4; }

static void multiply(Shape s, Registers *d, const uint32_t *c, size_t stride, Ks a, Ks b) {
  uint32_t of_block = s.m * s.m / LANES;
  if (s.m == 4) multiply_4(d, c, stride, a, b, s.k);
  for (uint32_t n = 0; s.m != 4 && n < s.blocks; n++)
    (s.m == 32 ? multiply_32 : multiply_16)(d + n * of_block, c + n * of_block * stride, stride, a, b, s.k, n);
}

/* The rows of every k. `chunk`: consecutive k of one lane. */
static void find_rows(const Row64 *elements, Shape s, uint32_t chunk, const float **rows) {
  uint32_t width = s.m * s.blocks, groups = LANES / width;
  for (uint32_t k = 0; k < s.k; k++)
    rows[k] = &elements[k / (chunk * groups) * chunk + k % chunk][k / chunk % groups * width];
}

/* ---- C, and what follows the sum --------------------------------------------------------------------------------- */

typedef struct {
  const uint32_t *words;
  size_t stride;
} Addend;

static const Registers zeros __attribute__((aligned(64)));

/* C, in `copy` unless its registers are those of D or far from them. */
static Addend addend_of(const Wave *w, const Operand *c, uint32_t d, uint32_t count, bool is_kept, Registers *copy) {
  if (c->kind != VECTOR) {
    uint32_t value = scalar_operand(w, c);
    for (int l = 0; l < LANES; l++) copy[0][l] = value;
    return (Addend){copy[0], 0};
  }
  bool overlaps = c->index < d + count && d < c->index + count;
  if (!is_kept && (c->index == d || !overlaps)) return (Addend){w->v[c->index], LANES};
  memcpy(copy, w->v[c->index], count * sizeof *copy);
  return (Addend){copy[0], LANES};
}

static void add_integers(Registers *d, const Row64 *sums, Addend c, uint32_t count, bool clamp) {
  for (uint32_t r = 0; r < count; r++)
    for (int l = 0; l < LANES; l++) {
      int32_t was = (int32_t)c.words[r * c.stride + (uint32_t)l];
      int64_t sum = (int64_t)was + (int32_t)sums[r][l];
      if (clamp) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
      d[r][l] = (uint32_t)sum;
    }
}

/* MODE.FP16_OVFL, for f8f6f4 and SMFMAC: sums beyond the range of f32 become the largest value. An infinity that comes
 * from an infinite source stays, which the sum in f64 tells: that range holds every sum of finite products. */
static void saturate(Shape s, Registers *d, Addend c, Ks a, Ks b) {
  for (uint32_t r = 0; r < result_registers(s); r++)
    for (uint32_t l = 0; l < LANES; l++) {
      if ((d[r][l] & 0x7fffffff) != 0x7f800000) continue;
      uint32_t row = result_row(s, r, l);
      double sum = f32_of_bits(c.words[r * c.stride + l]);
      for (uint32_t k = 0; k < s.k; k++) sum += (double)a[k][row] * b[k][l % s.m];
      if (isfinite(sum)) d[r][l] = (d[r][l] & 0x80000000u) | 0x7f7fffff;
    }
}

/* ---- Dense ------------------------------------------------------------------------------------------------------- */

static void execute_dense(Wave *w, const Instruction *i) {
  Shape s = shape_of(i);
  if (!has_known_modifiers(w, i, s)) {
    unknown_row.execute(w, i);
    return;
  }
  Row64 a[MAX_ELEMENTS], b[MAX_ELEMENTS];
  const float *a_rows[MAX_K], *b_rows[MAX_K];
  Registers copy[MAX_RESULTS] __attribute__((aligned(64)));
  uint32_t elements = s.k * s.m * s.blocks / LANES, results = result_registers(s), d = i->operand[0].index;
  convert(w, i->operand[1].index, elements, s.a, a);
  convert(w, i->operand[2].index, elements, s.b, b);
  if (i->cbsz | i->blgp) permute_sources(i, s, a, b, elements);
  find_rows(a, s, elements, a_rows);
  find_rows(b, s, elements, b_rows);
  bool flushes = w->launch->arch == GFX90A && (s.a == A_F16 || s.a == A_BF16);
  Addend c = addend_of(w, &i->operand[3], d, results, flushes, copy);
  if (s.a == A_I8) {
    Row64 sums[MAX_RESULTS];
    multiply(s, (Registers *)sums, zeros, 0, a_rows, b_rows);
    add_integers(&w->v[d], sums, c, results, i->clamp);
    return;
  }
  if (flushes) flush((Row64 *)copy, c.stride ? results : 1, 0x1p-126f);
  multiply(s, &w->v[d], c.words, c.stride, a_rows, b_rows);
  if (flushes) flush((Row64 *)&w->v[d], results, 0x1p-126f);
}

/* ---- f8f6f4 ------------------------------------------------------------------------------------------------------ */

enum { NO_SCALE = 127 };

/* The scales of a matrix, one for each 32 of K: that of row i is in lane i + M · (k / 32). */
static bool take_scales(const Wave *w, const Instruction *i, int source, uint8_t *scales) {
  if (i->operand_count <= 5) {
    memset(scales, NO_SCALE, LANES);
    return true;
  }
  const Operand *o = &i->operand[4 + source];
  if (o->kind != VECTOR) return false;
  uint32_t high = i->has_op_sel_hi ? i->op_sel_hi : 0, byte = (i->op_sel >> source & 1) | (high >> source & 1) << 1;
  for (int l = 0; l < LANES; l++) scales[l] = (uint8_t)(w->v[o->index][l] >> byte * 8);
  return true;
}

/* Applies scales to the rows of every k. False, and nothing done, if a product could leave the range of f32. */
static bool scale_rows(const uint8_t scales[2][LANES], Shape s, Ks a, Ks b) {
  bool is_needed = false;
  for (int m = 0; m < 2; m++)
    for (int l = 0; l < LANES; l++) {
      uint8_t scale = scales[m][l];
      if (scale != 0xff && (scale < NO_SCALE - 100 || scale > NO_SCALE + 100)) return false;
      is_needed |= scale != NO_SCALE;
    }
  for (int m = 0; m < 2 && is_needed; m++) {
    Row64 factors;
    for (int l = 0; l < LANES; l++) factors[l] = f32_of_e8m0(scales[m][l]);
    for (uint32_t k = 0; k < s.k; k++) {
      float *row = (float *)(m ? b : a)[k];
      for (uint32_t n = 0; n < s.m; n++) row[n] *= factors[k / 32 * s.m + n];
    }
  }
  return true;
}

/* The same in f64, for scales near the ends of their range. */
static void multiply_in_f64(Shape s, Registers *d, Addend c, Ks a, Ks b, const uint8_t scales[2][LANES],
                            bool saturates) {
  for (uint32_t r = 0; r < result_registers(s); r++)
    for (uint32_t l = 0; l < LANES; l++) {
      uint32_t row = result_row(s, r, l), column = l % s.m;
      double sum = f32_of_bits(c.words[r * c.stride + l]);
      for (uint32_t k = 0; k < s.k; k += 32) {
        double part = 0;
        for (uint32_t n = k; n < k + 32; n++) part += (double)a[n][row] * b[n][column];
        double of_a = f32_of_e8m0(scales[0][k / 32 * s.m + row]), of_b = f32_of_e8m0(scales[1][k / 32 * s.m + column]);
        sum += part * of_a * of_b;
      }
      float result = (float)sum;
      if (saturates && isinf(result) && isfinite(sum)) result = copysignf(0x1.fffffep127f, result);
      d[r][l] = bits_of_f32(result);
    }
}

/* cbsz and blgp are the formats of A and B. */
static void execute_f8f6f4(Wave *w, const Instruction *i) {
  Shape s = shape_of(i);
  uint8_t scales[2][LANES];
  if (i->cbsz > E2M1 || i->blgp > E2M1 || !take_scales(w, i, 0, scales[0]) || !take_scales(w, i, 1, scales[1])) {
    unknown_row.execute(w, i);
    return;
  }
  Row64 a[MAX_ELEMENTS], b[MAX_ELEMENTS];
  const float *a_rows[MAX_K], *b_rows[MAX_K];
  Registers copy[MAX_RESULTS] __attribute__((aligned(64)));
  uint32_t elements = s.k * s.m / LANES, results = result_registers(s), d = i->operand[0].index;
  convert_small(&w->v[i->operand[1].index], elements, (SmallFormat)i->cbsz, a);
  convert_small(&w->v[i->operand[2].index], elements, (SmallFormat)i->blgp, b);
  find_rows(a, s, i->cbsz <= E5M2 ? 16 : 32, a_rows);
  find_rows(b, s, i->blgp <= E5M2 ? 16 : 32, b_rows);
  Addend c = addend_of(w, &i->operand[3], d, results, w->mode & FP16_OVFL, copy);
  bool saturates = w->mode & FP16_OVFL;
  if (scale_rows(scales, s, a_rows, b_rows)) {
    multiply(s, &w->v[d], c.words, c.stride, a_rows, b_rows);
    if (saturates) saturate(s, &w->v[d], c, a_rows, b_rows);
  } else {
    multiply_in_f64(s, &w->v[d], c, a_rows, b_rows, scales, saturates);
  }
}

/* ---- Sparse ---------------------------------------------------------------------------------------------------------
 * Of every four k, A has two; two bits of the index say which. A lane's indices are for its own elements, in their
 * order, from bit 0 of the chosen set. Element e of lane group g of A is for the four k from
 * 4 · ((per_lane · g + e) / 2). */

WHOLE_VECTORS static void multiply_sparse_32(Registers *d, Ks a, Ks b, const uint8_t (*ks)[32], uint32_t slots) {
  for (uint32_t r = 0; r < 16; r += 2) {
    Vector sum[2][4];
    for (int q = 0; q < 2; q++)
      for (int v = 0; v < 4; v++) sum[q][v] = *(const Vector *)(d[r + (uint32_t)q] + v * 16);
    for (uint32_t n = 0; n < slots; n++)
      for (uint32_t q = 0; q < 2; q++) {
        uint32_t low = r / 4 * 8 + r % 4 + q, high = low + 4;
        const Vector *x = (const Vector *)b[ks[n][low]], *y = (const Vector *)b[ks[n][high]];
        sum[q][0] = FMA(SPLAT(a[n][low]), x[0], sum[q][0]);
        sum[q][1] = FMA(SPLAT(a[n][low]), x[1], sum[q][1]);
        sum[q][2] = FMA(SPLAT(a[n][high]), y[0], sum[q][2]);
        sum[q][3] = FMA(SPLAT(a[n][high]), y[1], sum[q][3]);
      }
    for (int q = 0; q < 2; q++)
      for (int v = 0; v < 4; v++) *(Vector *)(d[r + (uint32_t)q] + v * 16) = sum[q][v];
  }
}

WHOLE_VECTORS static void multiply_sparse_16(Registers *d, Ks a, Ks b, const uint8_t (*ks)[32], uint32_t slots) {
  Vector sum[4][4];
  for (int q = 0; q < 4; q++)
    for (int v = 0; v < 4; v++) sum[q][v] = *(const Vector *)(d[q] + v * 16);
  for (uint32_t n = 0; n < slots; n++)
    for (int q = 0; q < 4; q++)
      for (int v = 0; v < 4; v++)
        sum[q][v] = FMA(SPLAT(a[n][4 * v + q]), *(const Vector *)b[ks[n][4 * v + q]], sum[q][v]);
  for (int q = 0; q < 4; q++)
    for (int v = 0; v < 4; v++) *(Vector *)(d[q] + v * 16) = sum[q][v];
}

static void saturate_sparse(Shape s, Registers *d, const Registers *c, Ks a, Ks b, const uint8_t (*ks)[32]) {
  for (uint32_t r = 0; r < result_registers(s); r++)
    for (uint32_t l = 0; l < LANES; l++) {
      if ((d[r][l] & 0x7fffffff) != 0x7f800000) continue;
      uint32_t row = result_row(s, r, l);
      double sum = f32_of_bits(c[r][l]);
      for (uint32_t n = 0; n < s.k / 2; n++) sum += (double)a[n][row] * b[ks[n][row]][l % s.m];
      if (isfinite(sum)) d[r][l] = (d[r][l] & 0x80000000u) | 0x7f7fffff;
    }
}

static void execute_sparse(Wave *w, const Instruction *i) {
  Shape s = shape_of(i);
  Row64 a[MAX_ELEMENTS], b[MAX_ELEMENTS];
  const float *a_rows[MAX_K / 2], *b_rows[MAX_K];
  uint8_t ks[MAX_K / 2][32];
  uint32_t of_b = s.k * s.m / LANES, of_a = of_b / 2, results = result_registers(s);
  uint32_t chunk = s.a == A_F16 || s.a == A_BF16 ? 8 : 16; /* of B: two chunks when K is the doubled one of gfx950 */
  convert(w, i->operand[1].index, of_a, s.a, a);
  convert(w, i->operand[2].index, of_b, s.b, b);
  find_rows(b, s, chunk, b_rows);
  Shape compressed = s;
  compressed.k = s.k / 2;
  find_rows(a, compressed, of_a, a_rows);

  /* Sets of 2 · of_a bits; cbsz other than 0 chooses the first. */
  uint32_t sets = 32 / (2 * of_a), set = (i->cbsz & 3) || sets == 1 ? 0 : i->abid & (sets - 1);
  const uint32_t *indices = w->v[i->operand[3].index];
  for (uint32_t n = 0; n < compressed.k; n++)
    for (uint32_t row = 0; row < s.m; row++) {
      uint32_t index = indices[n / of_a * s.m + row] >> (set * 2 * of_a + n % of_a * 2) & 3;
      ks[n][row] = (uint8_t)(n / 2 * 4 + index);
    }

  Registers *d = &w->v[i->operand[0].index], before[MAX_RESULTS / 2] __attribute__((aligned(64)));
  void (*product)(Registers *, Ks, Ks, const uint8_t (*)[32], uint32_t) =
      s.m == 32 ? multiply_sparse_32 : multiply_sparse_16;
  memcpy(before, d, results * sizeof *before);
  if (s.a == A_I8) {
    Row64 sums[MAX_RESULTS / 2] = {{0}};
    product((Registers *)sums, a_rows, b_rows, ks, compressed.k);
    add_integers(d, sums, (Addend){before[0], LANES}, results, i->clamp);
    return;
  }
  product(d, a_rows, b_rows, ks, compressed.k);
  if (w->mode & FP16_OVFL) saturate_sparse(s, d, before, a_rows, b_rows, ks);
}

/* ---- f64 ------------------------------------------------------------------------------------------------------------
 * A's row i, k of block b in lane i + M · (b + B · k). D: row i, column j of 16×16 in registers 2 · (i / 4) and the
 * next, lane 16 · (i % 4) + j; of 4×4 in lane 16 · b + 4 · i + j. Bits of `neg` (in blgp's field, from gfx942 on)
 * negate A, B and C. */
static void execute_f64(Wave *w, const Instruction *i) {
  Shape s = shape_of(i);
  if (i->cbsz || i->abid || (i->blgp && w->launch->arch == GFX90A)) {
    unknown_row.execute(w, i);
    return;
  }
  uint32_t negated = i->blgp | i->neg_lo, pairs = s.m == 16 ? 4 : 1;
  double from[3][4][LANES];
  for (uint32_t source = 0; source < 3; source++) {
    const Operand *o = &i->operand[1 + source];
    uint64_t sign = (uint64_t)(negated >> source & 1) << 63, literal = o->kind == VECTOR ? 0 : literal_f64(o);
    for (uint32_t p = 0; p < (source == 2 ? pairs : 1); p++)
      for (int l = 0; l < LANES; l++) {
        const Registers *low = &w->v[o->index + 2 * p];
        uint64_t bits = o->kind == VECTOR ? (uint64_t)low[0][l] | (uint64_t)low[1][l] << 32 : literal;
        from[source][p][l] = f64_of_bits(bits ^ sign);
      }
  }
  Registers *d = &w->v[i->operand[0].index];
  for (uint32_t p = 0; p < pairs; p++)
    for (uint32_t l = 0; l < LANES; l++) {
      double sum = from[2][p][l];
      uint32_t column = l % s.m, block = s.m == 16 ? 0 : l / 16, row = s.m == 16 ? 4 * p + l / 16 : l / 4 % 4;
      for (uint32_t k = 0; k < 4; k++)
        sum = __builtin_fma(from[0][0][row + s.m * block + 16 * k], from[1][0][column + s.m * block + 16 * k], sum);
      uint64_t bits = bits_of_f64(sum);
      d[2 * p][l] = (uint32_t)bits;
      d[2 * p + 1][l] = (uint32_t)(bits >> 32);
    }
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

enum { MATRIX = IS_MATRIX | IGNORES_EXEC };

#define DENSE(name, m, blocks, k, type) {name, execute_dense, 1, MATRIX, RESULT_F32, SHAPE(m, blocks, k, type, type)}
#define EIGHT(name, m, k, a, b) {name, execute_dense, 1, MATRIX, RESULT_F32, SHAPE(m, 1, k, a, b)}
#define WHOLE(name, m, blocks, k) {name, execute_dense, 1, MATRIX, PLAIN_BITS, SHAPE(m, blocks, k, A_I8, A_I8)}
#define MIXED(name, m, k) {name, execute_f8f6f4, 1, MATRIX, RESULT_F32, SHAPE(m, 1, k, A_FP8, A_FP8)}
#define DOUBLE(name, m, blocks) {name, execute_f64, 1, MATRIX, RESULT_F64, SHAPE(m, blocks, 4, 0, 0)}
#define SPARSE(name, m, k, a, b, result) {name, execute_sparse, 1, MATRIX | READS_RESULT, result, SHAPE(m, 1, k, a, b)}
#define ALL_EIGHT(prefix, macro, ...)                                                                      \
  macro(prefix "_fp8_fp8", __VA_ARGS__, A_FP8, A_FP8), macro(prefix "_fp8_bf8", __VA_ARGS__, A_FP8, A_BF8), \
      macro(prefix "_bf8_fp8", __VA_ARGS__, A_BF8, A_FP8), macro(prefix "_bf8_bf8", __VA_ARGS__, A_BF8, A_BF8)
#define SPARSE_FLOAT(name, m, k, a, b) SPARSE(name, m, k, a, b, RESULT_F32)

/* All that LLVM 22 accepts for gfx90a, gfx942 and gfx950, names that it only reads included, but for
 * v_mfma_ld_scale_b32, which is always part of v_mfma_scale_*. */
const Row matrix_rows[] = {
    DENSE("v_mfma_f32_32x32x1f32", 32, 2, 1, A_F32),
    DENSE("v_mfma_f32_32x32x1_2b_f32", 32, 2, 1, A_F32),
    DENSE("v_mfma_f32_16x16x1f32", 16, 4, 1, A_F32),
    DENSE("v_mfma_f32_16x16x1_4b_f32", 16, 4, 1, A_F32),
    DENSE("v_mfma_f32_4x4x1f32", 4, 16, 1, A_F32),
    DENSE("v_mfma_f32_4x4x1_16b_f32", 4, 16, 1, A_F32),
    DENSE("v_mfma_f32_32x32x2f32", 32, 1, 2, A_F32),
    DENSE("v_mfma_f32_32x32x2_f32", 32, 1, 2, A_F32),
    DENSE("v_mfma_f32_16x16x4f32", 16, 1, 4, A_F32),
    DENSE("v_mfma_f32_16x16x4_f32", 16, 1, 4, A_F32),

    DENSE("v_mfma_f32_32x32x4xf32", 32, 1, 4, A_XF32),
    DENSE("v_mfma_f32_32x32x4_xf32", 32, 1, 4, A_XF32),
    DENSE("v_mfma_f32_16x16x8xf32", 16, 1, 8, A_XF32),
    DENSE("v_mfma_f32_16x16x8_xf32", 16, 1, 8, A_XF32),

    DENSE("v_mfma_f32_32x32x4f16", 32, 2, 4, A_F16),
    DENSE("v_mfma_f32_32x32x4_2b_f16", 32, 2, 4, A_F16),
    DENSE("v_mfma_f32_16x16x4f16", 16, 4, 4, A_F16),
    DENSE("v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, A_F16),
    DENSE("v_mfma_f32_4x4x4f16", 4, 16, 4, A_F16),
    DENSE("v_mfma_f32_4x4x4_16b_f16", 4, 16, 4, A_F16),
    DENSE("v_mfma_f32_32x32x8f16", 32, 1, 8, A_F16),
    DENSE("v_mfma_f32_32x32x8_f16", 32, 1, 8, A_F16),
    DENSE("v_mfma_f32_16x16x16f16", 16, 1, 16, A_F16),
    DENSE("v_mfma_f32_16x16x16_f16", 16, 1, 16, A_F16),
    DENSE("v_mfma_f32_32x32x16f16", 32, 1, 16, A_F16),
    DENSE("v_mfma_f32_32x32x16_f16", 32, 1, 16, A_F16),
    DENSE("v_mfma_f32_16x16x32f16", 16, 1, 32, A_F16),
    DENSE("v_mfma_f32_16x16x32_f16", 16, 1, 32, A_F16),

    /* gfx90a's old ones: two elements of a lane. The last but one is, for gfx942, also a name of 32x32x4_2b, which the
     * disassembler does not print. */
    DENSE("v_mfma_f32_32x32x2bf16", 32, 2, 2, A_BF16),
    DENSE("v_mfma_f32_16x16x2bf16", 16, 4, 2, A_BF16),
    DENSE("v_mfma_f32_4x4x2bf16", 4, 16, 2, A_BF16),
    DENSE("v_mfma_f32_32x32x4bf16", 32, 1, 4, A_BF16),
    DENSE("v_mfma_f32_16x16x8bf16", 16, 1, 8, A_BF16),

    DENSE("v_mfma_f32_32x32x4bf16_1k", 32, 2, 4, A_BF16),
    DENSE("v_mfma_f32_32x32x4_2b_bf16", 32, 2, 4, A_BF16),
    DENSE("v_mfma_f32_16x16x4bf16", 16, 4, 4, A_BF16),
    DENSE("v_mfma_f32_16x16x4bf16_1k", 16, 4, 4, A_BF16),
    DENSE("v_mfma_f32_16x16x4_4b_bf16", 16, 4, 4, A_BF16),
    DENSE("v_mfma_f32_4x4x4bf16", 4, 16, 4, A_BF16),
    DENSE("v_mfma_f32_4x4x4bf16_1k", 4, 16, 4, A_BF16),
    DENSE("v_mfma_f32_4x4x4_16b_bf16", 4, 16, 4, A_BF16),
    DENSE("v_mfma_f32_32x32x8bf16", 32, 1, 8, A_BF16),
    DENSE("v_mfma_f32_32x32x8bf16_1k", 32, 1, 8, A_BF16),
    DENSE("v_mfma_f32_32x32x8_bf16", 32, 1, 8, A_BF16),
    DENSE("v_mfma_f32_16x16x16bf16", 16, 1, 16, A_BF16),
    DENSE("v_mfma_f32_16x16x16bf16_1k", 16, 1, 16, A_BF16),
    DENSE("v_mfma_f32_16x16x16_bf16", 16, 1, 16, A_BF16),
    DENSE("v_mfma_f32_32x32x16bf16", 32, 1, 16, A_BF16),
    DENSE("v_mfma_f32_32x32x16_bf16", 32, 1, 16, A_BF16),
    DENSE("v_mfma_f32_16x16x32bf16", 16, 1, 32, A_BF16),
    DENSE("v_mfma_f32_16x16x32_bf16", 16, 1, 32, A_BF16),

    ALL_EIGHT("v_mfma_f32_32x32x16", EIGHT, 32, 16),
    ALL_EIGHT("v_mfma_f32_16x16x32", EIGHT, 16, 32),

    MIXED("v_mfma_f32_16x16x128_f8f6f4", 16, 128),
    MIXED("v_mfma_f32_32x32x64_f8f6f4", 32, 64),
    MIXED("v_mfma_scale_f32_16x16x128_f8f6f4", 16, 128),
    MIXED("v_mfma_scale_f32_32x32x64_f8f6f4", 32, 64),

    WHOLE("v_mfma_i32_32x32x4i8", 32, 2, 4),
    WHOLE("v_mfma_i32_32x32x4_2b_i8", 32, 2, 4),
    WHOLE("v_mfma_i32_16x16x4i8", 16, 4, 4),
    WHOLE("v_mfma_i32_16x16x4_4b_i8", 16, 4, 4),
    WHOLE("v_mfma_i32_4x4x4i8", 4, 16, 4),
    WHOLE("v_mfma_i32_4x4x4_16b_i8", 4, 16, 4),
    WHOLE("v_mfma_i32_32x32x8i8", 32, 1, 8),
    WHOLE("v_mfma_i32_16x16x16i8", 16, 1, 16),
    WHOLE("v_mfma_i32_32x32x16i8", 32, 1, 16),
    WHOLE("v_mfma_i32_32x32x16_i8", 32, 1, 16),
    WHOLE("v_mfma_i32_16x16x32i8", 16, 1, 32),
    WHOLE("v_mfma_i32_16x16x32_i8", 16, 1, 32),
    WHOLE("v_mfma_i32_32x32x32i8", 32, 1, 32),
    WHOLE("v_mfma_i32_32x32x32_i8", 32, 1, 32),
    WHOLE("v_mfma_i32_16x16x64i8", 16, 1, 64),
    WHOLE("v_mfma_i32_16x16x64_i8", 16, 1, 64),

    DOUBLE("v_mfma_f64_16x16x4f64", 16, 1),
    DOUBLE("v_mfma_f64_16x16x4_f64", 16, 1),
    DOUBLE("v_mfma_f64_4x4x4f64", 4, 4),
    DOUBLE("v_mfma_f64_4x4x4_4b_f64", 4, 4),

    SPARSE("v_smfmac_f32_16x16x32_f16", 16, 32, A_F16, A_F16, RESULT_F32),
    SPARSE("v_smfmac_f32_32x32x16_f16", 32, 16, A_F16, A_F16, RESULT_F32),
    SPARSE("v_smfmac_f32_16x16x32_bf16", 16, 32, A_BF16, A_BF16, RESULT_F32),
    SPARSE("v_smfmac_f32_32x32x16_bf16", 32, 16, A_BF16, A_BF16, RESULT_F32),
    SPARSE("v_smfmac_i32_16x16x64_i8", 16, 64, A_I8, A_I8, PLAIN_BITS),
    SPARSE("v_smfmac_i32_32x32x32_i8", 32, 32, A_I8, A_I8, PLAIN_BITS),
    ALL_EIGHT("v_smfmac_f32_16x16x64", SPARSE_FLOAT, 16, 64),
    ALL_EIGHT("v_smfmac_f32_32x32x32", SPARSE_FLOAT, 32, 32),
    SPARSE("v_smfmac_f32_16x16x64_f16", 16, 64, A_F16, A_F16, RESULT_F32),
    SPARSE("v_smfmac_f32_32x32x32_f16", 32, 32, A_F16, A_F16, RESULT_F32),
    SPARSE("v_smfmac_f32_16x16x64_bf16", 16, 64, A_BF16, A_BF16, RESULT_F32),
    SPARSE("v_smfmac_f32_32x32x32_bf16", 32, 32, A_BF16, A_BF16, RESULT_F32),
    SPARSE("v_smfmac_i32_16x16x128_i8", 16, 128, A_I8, A_I8, PLAIN_BITS),
    SPARSE("v_smfmac_i32_32x32x64_i8", 32, 64, A_I8, A_I8, PLAIN_BITS),
    ALL_EIGHT("v_smfmac_f32_16x16x128", SPARSE_FLOAT, 16, 128),
    ALL_EIGHT("v_smfmac_f32_32x32x64", SPARSE_FLOAT, 32, 64),
    {0},
};
