/* WMMA and SWMMAC of RDNA: D = A·B + C with 16 rows and columns, in waves of 32 lanes.
 *
 * Lane l has elements of row l % 16 of A and of column l % 16 of B. On gfx1100 it has all K, lanes 16…31 repeat lanes
 * 0…15, and register r of D is row 2 · r + l / 16; 16-bit results are in the half that op_sel names. On gfx12 the lanes
 * 16…31 have the other half of K, and element r of D is row r + 8 · (l / 16), two of 16 bits in a register. Which k an
 * element of A is does not matter, as B has the same order. SWMMAC's A has two of every four k: four bits of a lane's
 * indices name them.
 *
 * Sources: "RDNA3 Instruction Set Architecture", chapter 7.9; "RDNA4 Instruction Set Architecture", chapter 7.12; AMD's
 * Matrix Instruction Calculator for gfx1100 and gfx1201. Sums are made in the order of k, each rounded to f32. */
#include "float8.h"
#include "values.h"

typedef enum { WMMA_F16, WMMA_BF16, WMMA_I8, WMMA_I4, WMMA_FP8, WMMA_BF8 } Element;
enum { NARROW = 0x100, MOST_ELEMENTS = 64 }; /* Row.detail: the types of A and B, and whether C and D have that as well */
#define TYPES(a, b) ((uint32_t)(a) | (uint32_t)(b) << 4)

typedef double Elements[32][MOST_ELEMENTS]; /* of a lane */

static uint32_t width_of(Element type) { return type <= WMMA_BF16 ? 16 : type == WMMA_I4 ? 4 : 8; }
static bool is_integer(Element type) { return type == WMMA_I8 || type == WMMA_I4; }

/* The elements of all lanes, negated as neg_lo and neg_hi say of even and odd ones. Returns how many a lane has. */
static uint32_t take_elements(const Wave *w, const Instruction *i, int source, Element type, Elements elements) {
  const Operand *o = &i->operand[1 + source];
  uint32_t width = width_of(type), count = o->count * 32u / width, in_word = 32 / width;
  bool low = i->neg_lo >> source & 1, high = i->neg_hi >> source & 1;
  for (uint32_t n = 0; n < count; n++)
    for (int l = 0; l < 32; l++) {
      uint32_t bits = w->v[o->index + n / in_word][l] >> n % in_word * width & (uint32_t)((1ull << width) - 1);
      double x;
      switch (type) {
        case WMMA_F16: x = (double)f32_of_f16(bits); break;
        case WMMA_BF16: x = (double)f32_of_bf16(bits); break;
        case WMMA_FP8: x = (double)f32_of_small(E4M3, bits); break;
        case WMMA_BF8: x = (double)f32_of_small(E5M2, bits); break;
        default: x = low && bits >> (width - 1) ? (double)bits - (double)(1u << width) : (double)bits; /* signed */
      }
      elements[l][n] = !is_integer(type) && (n % 2 ? high : low) ? -x : x;
    }
  return count;
}

/* What C is of a result, and where the result goes: element r of D in lane l. */
typedef struct {
  uint32_t word, shift;
} Where;
static Where place_of(const Instruction *i, bool narrow, bool gfx12, uint32_t r) {
  if (!narrow) return (Where){r, 0};
  return gfx12 ? (Where){r / 2, r % 2 * 16} : (Where){r, i->op_sel >> 2 & 1 ? 16 : 0};
}

static double addend_of(const Wave *w, const Instruction *i, const Operand *c, bool narrow, Element type, Where at, int l) {
  uint32_t bits = c->kind == VECTOR                      ? w->v[c->index + at.word][l] >> at.shift
                  : narrow && type == WMMA_F16 && c->kind == LITERAL ? literal_16(c)
                  : narrow && c->kind == LITERAL         ? literal_32(c) >> (c->is_float ? 16 : 0)
                                                         : scalar_operand(w, c);
  if (is_integer(type)) return (int32_t)bits;
  double x = (double)(!narrow ? f32_of_bits(bits) : type == WMMA_F16 ? f32_of_f16(bits) : f32_of_bf16(bits & 0xffff));
  if (c->abs || i->neg_hi & 4) x = fabs(x);
  return c->neg || i->neg_lo & 4 ? -x : x;
}

static void put_sum(uint32_t *word, const Instruction *i, bool narrow, Element type, Where at, double exact, float sum) {
  if (is_integer(type)) {
    if (i->clamp) exact = exact < INT32_MIN ? INT32_MIN : exact > INT32_MAX ? INT32_MAX : exact;
    *word = (uint32_t)(int64_t)exact;
  } else if (!narrow) {
    *word = bits_of_f32(sum);
  } else {
    uint32_t half = type == WMMA_F16 ? f16_of_f32(sum) : bf16_of_f32(sum);
    *word = (*word & ~(0xffffu << at.shift)) | half << at.shift;
  }
}

/* Lanes 16…31 of gfx1100 have nothing of their own. */
static bool repeats(const Wave *w, const Operand *o) {
  for (int r = 0; r < o->count; r++)
    if (memcmp(w->v[o->index + r], w->v[o->index + r] + 16, 16 * sizeof(uint32_t)) != 0) return false;
  return true;
}

/* `indices` is NULL where A has all k. */
static void multiply(Wave *w, const Instruction *i, const Operand *c, const uint32_t *indices) {
  static __thread Elements a, b;
  if (w->launch->lanes == LANES) {
    cannot_execute(w, i, "a matrix instruction of a wave of 64 lanes");
    return;
  }
  Element type = i->row->detail & 15;
  bool narrow = i->row->detail & NARROW, gfx12 = is_gfx12(w->launch->arch);
  uint32_t count = take_elements(w, i, 0, type, a), d = i->operand[0].index, words = i->operand[0].count;
  take_elements(w, i, 1, i->row->detail >> 4 & 15, b);
  uint32_t results[8][32];
  for (uint32_t n = 0; n < words; n++) memcpy(results[n], w->v[d + n], sizeof results[n]);
  for (uint32_t r = 0; r < 8; r++)
    for (int l = 0; l < 32; l++) {
      int row = gfx12 ? (int)r + l / 16 * 8 : 2 * (int)r + l / 16, column = l % 16;
      Where at = place_of(i, narrow, gfx12, r);
      double exact = addend_of(w, i, c, narrow, type, at, l);
      float sum = (float)exact;
      for (int half = 0; half < (gfx12 ? 32 : 16); half += 16)
        for (uint32_t n = 0; n < count; n++) {
          uint32_t k = indices ? n / 2 * 4 + (indices[row + half] >> (16 * i->abid + 2 * n) & 3) : n;
          double product = a[row + half][n] * b[column + half][k];
          exact += product;
          sum = (float)((double)sum + product);
        }
      put_sum(&results[at.word][l], i, narrow, type, at, exact, sum);
    }
  for (uint32_t n = 0; n < words; n++) memcpy(w->v[d + n], results[n], sizeof results[n]);
}

static void execute_wmma(Wave *w, const Instruction *i) {
  if (!is_gfx12(w->launch->arch) && !(repeats(w, &i->operand[1]) && repeats(w, &i->operand[2])))
    cannot_execute(w, i, "lanes 16 to 31 do not repeat lanes 0 to 15");
  else
    multiply(w, i, &i->operand[3], NULL);
}

static void execute_swmmac(Wave *w, const Instruction *i) {
  multiply(w, i, &i->operand[0], w->v[i->operand[3].index]);
}

#define WMMA(name, flags, result, a, b) {"v_wmma_" name, execute_wmma, 1, IS_MATRIX | (flags), result, TYPES(a, b)}
#define NARROW_WMMA(name, type) \
  {"v_wmma_" name, execute_wmma, 1, IS_MATRIX | READS_RESULT, PLAIN_BITS, TYPES(type, type) | NARROW}
#define SWMMAC(name, result, a, b) \
  {"v_swmmac_" name, execute_swmmac, 1, IS_MATRIX | READS_RESULT, result, TYPES(a, b)}

const Row wmma_rows[] = {
    WMMA("f32_16x16x16_f16", 0, RESULT_F32, WMMA_F16, WMMA_F16),
    WMMA("f32_16x16x16_bf16", 0, RESULT_F32, WMMA_BF16, WMMA_BF16),
    NARROW_WMMA("f16_16x16x16_f16", WMMA_F16),
    NARROW_WMMA("bf16_16x16x16_bf16", WMMA_BF16),
    WMMA("i32_16x16x16_iu8", 0, PLAIN_BITS, WMMA_I8, WMMA_I8),
    WMMA("i32_16x16x16_iu4", 0, PLAIN_BITS, WMMA_I4, WMMA_I4),
    /* gfx12 */
    WMMA("i32_16x16x32_iu4", 0, PLAIN_BITS, WMMA_I4, WMMA_I4),
    WMMA("f32_16x16x16_fp8_fp8", 0, RESULT_F32, WMMA_FP8, WMMA_FP8),
    WMMA("f32_16x16x16_fp8_bf8", 0, RESULT_F32, WMMA_FP8, WMMA_BF8),
    WMMA("f32_16x16x16_bf8_fp8", 0, RESULT_F32, WMMA_BF8, WMMA_FP8),
    WMMA("f32_16x16x16_bf8_bf8", 0, RESULT_F32, WMMA_BF8, WMMA_BF8),
    /* gfx1250 */
    WMMA("f32_16x16x32_f16", 0, RESULT_F32, WMMA_F16, WMMA_F16),
    WMMA("f32_16x16x32_bf16", 0, RESULT_F32, WMMA_BF16, WMMA_BF16),
    NARROW_WMMA("f16_16x16x32_f16", WMMA_F16),
    NARROW_WMMA("bf16_16x16x32_bf16", WMMA_BF16),
    WMMA("i32_16x16x64_iu8", 0, PLAIN_BITS, WMMA_I8, WMMA_I8),
    WMMA("f32_16x16x64_fp8_fp8", 0, RESULT_F32, WMMA_FP8, WMMA_FP8),
    WMMA("f32_16x16x64_fp8_bf8", 0, RESULT_F32, WMMA_FP8, WMMA_BF8),
    WMMA("f32_16x16x64_bf8_fp8", 0, RESULT_F32, WMMA_BF8, WMMA_FP8),
    WMMA("f32_16x16x64_bf8_bf8", 0, RESULT_F32, WMMA_BF8, WMMA_BF8),
    /* of gfx12 alone */
    SWMMAC("f32_16x16x32_f16", RESULT_F32, WMMA_F16, WMMA_F16),
    SWMMAC("f32_16x16x32_bf16", RESULT_F32, WMMA_BF16, WMMA_BF16),
    SWMMAC("f16_16x16x32_f16", PLAIN_BITS, WMMA_F16 | NARROW, WMMA_F16),
    SWMMAC("bf16_16x16x32_bf16", PLAIN_BITS, WMMA_BF16 | NARROW, WMMA_BF16),
    SWMMAC("i32_16x16x32_iu8", PLAIN_BITS, WMMA_I8, WMMA_I8),
    SWMMAC("i32_16x16x32_iu4", PLAIN_BITS, WMMA_I4, WMMA_I4),
    SWMMAC("i32_16x16x64_iu4", PLAIN_BITS, WMMA_I4, WMMA_I4),
    SWMMAC("f32_16x16x32_fp8_fp8", RESULT_F32, WMMA_FP8, WMMA_FP8),
    SWMMAC("f32_16x16x32_fp8_bf8", RESULT_F32, WMMA_FP8, WMMA_BF8),
    SWMMAC("f32_16x16x32_bf8_fp8", RESULT_F32, WMMA_BF8, WMMA_FP8),
    SWMMAC("f32_16x16x32_bf8_bf8", RESULT_F32, WMMA_BF8, WMMA_BF8),
    {NULL, NULL, 0, 0, PLAIN_BITS, 0},
};
