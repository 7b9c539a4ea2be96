/* Lanes by sixteens: a register of the widest vector units. What is here as well for AVX-512 is what compilers make too
 * little of; where places follow each other, or are one, nothing needs to be gathered lane by lane. */
#ifndef LANES_H
#define LANES_H

#include <string.h>

#include "machine.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define CHUNK 16 /* lanes */

/* ---- Masks: a bit for each lane ---------------------------------------------------------------------------------- */

#if defined __AVX512F__ && defined __AVX512BW__
#define WIDE_MASKS
/* The masks of four chunks in one, without a way through vectors, which compilers make of shifts. */
static inline uint64_t joined_masks(__mmask16 a, __mmask16 b, __mmask16 c, __mmask16 d) {
  return _cvtmask64_u64(_mm512_kunpackd(_mm512_kunpackw(d, c), _mm512_kunpackw(b, a)));
}
#endif

/* The lanes of a row whose word is not 0. */
static inline uint64_t lanes_not_zero(const uint32_t *row) {
#ifdef WIDE_MASKS
  __m512i a = _mm512_loadu_si512(row), b = _mm512_loadu_si512(row + CHUNK), c = _mm512_loadu_si512(row + 2 * CHUNK),
          d = _mm512_loadu_si512(row + 3 * CHUNK);
  return joined_masks(_mm512_test_epi32_mask(a, a), _mm512_test_epi32_mask(b, b), _mm512_test_epi32_mask(c, c),
                      _mm512_test_epi32_mask(d, d));
#else
  uint64_t lanes = 0;
  for (unsigned l = 0; l < LANES; l++) lanes |= (uint64_t)(row[l] != 0) << l;
  return lanes;
#endif
}

/* Of two rows, `chosen` where the lane is one of `lanes`. */
static inline void choose_lanes(uint32_t *to, uint64_t lanes, const uint32_t *chosen, const uint32_t *other) {
#ifdef __AVX512F__
  for (unsigned l = 0; l < LANES; l += CHUNK)
    _mm512_storeu_si512(to + l, _mm512_mask_blend_epi32((__mmask16)(lanes >> l), _mm512_loadu_si512(other + l),
                                                        _mm512_loadu_si512(chosen + l)));
#else
  for (unsigned l = 0; l < LANES; l++) to[l] = lanes >> l & 1 ? chosen[l] : other[l];
#endif
}

/* A chunk of lanes, or 64 bytes of memory. */
typedef uint32_t Chunk __attribute__((vector_size(64), may_alias, aligned(1)));

static inline bool is_zero(Chunk chunk) {
#ifdef __AVX512F__
  return !_mm512_test_epi32_mask((__m512i)chunk, (__m512i)chunk);
#else
  uint32_t all = 0;
  for (unsigned l = 0; l < CHUNK; l++) all |= chunk[l];
  return !all;
#endif
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

static inline uint32_t highest_of(const uint32_t offset[LANES]) {
  uint32_t high = 0;
  for (int l = 0; l < LANES; l++) high = offset[l] > high ? offset[l] : high;
  return high;
}

static inline uint32_t lowest_of(const uint32_t offset[LANES]) {
  uint32_t low = UINT32_MAX;
  for (int l = 0; l < LANES; l++) low = offset[l] < low ? offset[l] : low;
  return low;
}

static inline bool all_below(const uint32_t offset[LANES], uint64_t limit) {
#ifdef __AVX512F__
  __m512i high = _mm512_max_epu32(_mm512_max_epu32(_mm512_loadu_si512(offset), _mm512_loadu_si512(offset + CHUNK)),
                                  _mm512_max_epu32(_mm512_loadu_si512(offset + 2 * CHUNK), _mm512_loadu_si512(offset + 3 * CHUNK)));
  return limit > UINT32_MAX || !_mm512_cmpge_epu32_mask(high, _mm512_set1_epi32((int)(uint32_t)limit));
#else
  return highest_of(offset) < limit;
#endif
}

/* How the places lie that the lanes of one access have in LDS, or in one region: bits by lane. */
typedef struct {
  uint64_t apart;     /* it is not the place of its chunk's first lane, */
  uint64_t irregular; /* nor behind that of the lane before */
} Layout;

static inline Layout layout_of(const uint32_t offset[LANES], unsigned bytes) {
  Layout layout = {0, 0};
#ifdef WIDE_MASKS
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i in_a_row = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)bytes)), behind[LANES / CHUNK];
  for (unsigned n = 0; n < LANES / CHUNK; n++)
    behind[n] = _mm512_sub_epi32(_mm512_loadu_si512(offset + n * CHUNK), _mm512_set1_epi32((int)offset[n * CHUNK]));
#define APART(n) _mm512_test_epi32_mask(behind[n], behind[n])
#define IRREGULAR(n) _mm512_cmpneq_epu32_mask(behind[n], in_a_row)
  layout.apart = joined_masks(APART(0), APART(1), APART(2), APART(3));
  layout.irregular = joined_masks(IRREGULAR(0), IRREGULAR(1), IRREGULAR(2), IRREGULAR(3));
#undef APART
#undef IRREGULAR
#else
  for (unsigned l = 0; l < LANES; l++) {
    uint32_t behind = offset[l] - offset[l / CHUNK * CHUNK];
    layout.apart |= (uint64_t)(behind != 0) << l;
    layout.irregular |= (uint64_t)(behind != l % CHUNK * bytes) << l;
  }
#endif
  return layout;
}
static inline bool is_row(const Layout *layout, unsigned lane) { return !(layout->irregular >> lane & 0xffff); }
static inline bool is_one_place(const Layout *layout, unsigned lane) { return !(layout->apart >> lane & 0xffff); }

static inline uint32_t word_at(const uint8_t *at) {
  uint32_t word;
  memcpy(&word, at, 4);
  return word;
}

/* Of a chunk's places in a row, each of `words` words, the k-th word. */
static inline __attribute__((always_inline)) void take_chunk(uint32_t *row, const uint8_t *from, unsigned words, unsigned k) {
#ifdef __AVX512F__
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  if (words == 2 || words == 4) {
    __m512i at = _mm512_add_epi32(_mm512_slli_epi32(lane, words / 2), _mm512_set1_epi32((int)k)), z[4];
    for (unsigned n = 0; n < words; n++) z[n] = _mm512_loadu_si512(from + 64 * n);
    __m512i taken = _mm512_permutex2var_epi32(z[0], at, z[1]);
    if (words == 4) taken = _mm512_mask_blend_epi32(0xff00, taken, _mm512_permutex2var_epi32(z[2], at, z[3]));
    _mm512_storeu_si512(row, taken);
    return;
  }
#endif
  if (words == 1) *(Chunk *)row = *(const Chunk *)from;
  else
    for (unsigned l = 0; l < CHUNK; l++) row[l] = word_at(from + 4 * (l * words + k));
}

/* The other way: puts `words` rows into places in a row, each of that many words. */
static inline __attribute__((always_inline)) void put_words(uint8_t *to, const uint32_t *const rows[4], unsigned words) {
#ifdef __AVX512F__
  if (words == 2 || words == 4) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const __m512i low_pairs = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), high_pairs = _mm512_add_epi64(low_pairs, _mm512_set1_epi64(4));
    __m512i pairs[2][2];
    for (unsigned n = 0; n < words / 2; n++) {
      __m512i one = _mm512_loadu_si512(rows[2 * n]), other = _mm512_loadu_si512(rows[2 * n + 1]);
      pairs[n][0] = _mm512_permutex2var_epi32(one, low, other), pairs[n][1] = _mm512_permutex2var_epi32(one, high, other);
    }
    for (unsigned n = 0; n < words; n++) {
      __m512i all = pairs[0][n % 2];
      if (words == 4) all = _mm512_permutex2var_epi64(pairs[0][n / 2], n % 2 ? high_pairs : low_pairs, pairs[1][n / 2]);
      _mm512_storeu_si512(to + 64 * n, all);
    }
    return;
  }
#endif
  if (words == 1) *(Chunk *)to = *(const Chunk *)rows[0];
  else
    for (unsigned l = 0; l < CHUNK; l++)
      for (unsigned k = 0; k < words; k++) memcpy(to + 4 * (l * words + k), &rows[k][l], 4);
}

/* The places of whole chunks of lanes, each of which is one place, or places in a row: what most accesses are. */
enum { SPANS = LANES / CHUNK };
typedef uint32_t OfSpans __attribute__((vector_size(4 * SPANS), may_alias, aligned(4)));
typedef struct {
  uint32_t first[SPANS], bytes[SPANS]; /* places, up to the end of the last one */
  uint32_t count;                      /* of chunks */
  uint32_t low;
  uint64_t high; /* where the last one ends */
} Spans;

#ifdef __clang__
#define FOR_SPANS(n, spans) _Pragma("unroll") for (unsigned n = 0; n < SPANS; n++) if (n < (spans)->count)
#else
#define FOR_SPANS(n, spans) for (unsigned n = 0; n < (spans)->count; n++)
#endif
static inline bool is_span_row(const Spans *spans, unsigned n, unsigned bytes) { return spans->bytes[n] != bytes; }
static inline bool is_span_before(const Spans *spans, unsigned n) { /* the same once more */
  return n && spans->first[n] == spans->first[n - 1] && spans->bytes[n] == spans->bytes[n - 1];
}
static inline bool find_spans(Spans *spans, const uint32_t offset[LANES], uint64_t lanes, unsigned bytes) {
  if (lanes != ~0ull && lanes != UINT32_MAX) return false;
  Layout layout = layout_of(offset, bytes);
  bool irregular = false;
  uint32_t count = lanes == ~0ull ? SPANS : SPANS / 2, low = UINT32_MAX;
  uint64_t high = 0;
  OfSpans first, length; /* stored whole, since they are read so */
  for (unsigned n = 0; n < SPANS; n++) {
    bool row = is_row(&layout, n * CHUNK);
    first[n] = offset[n * CHUNK];
    length[n] = row ? CHUNK * bytes : bytes;
    if (n >= count) continue;
    irregular |= !row && !is_one_place(&layout, n * CHUNK);
    uint64_t end = (uint64_t)offset[n * CHUNK] + (row ? CHUNK * bytes : bytes);
    low = offset[n * CHUNK] < low ? offset[n * CHUNK] : low;
    high = end > high ? end : high;
  }
  *(OfSpans *)spans->first = first;
  *(OfSpans *)spans->bytes = length;
  spans->count = count, spans->low = low, spans->high = high;
  return !irregular;
}
static inline bool spans_end_within(const Spans *spans, uint32_t fixed, uint64_t limit) {
  return spans->high + fixed <= limit;
}

static inline void gather_chunk(uint32_t *row, const uint8_t *base, const uint32_t *offset) {
#ifdef __AVX512F__
  /* 32-bit offsets are signed: half of them are taken off */
  __m512i signed_offset = _mm512_xor_si512(_mm512_loadu_si512(offset), _mm512_set1_epi32(INT32_MIN));
  _mm512_storeu_si512(row, _mm512_i32gather_epi32(signed_offset, base + 0x80000000u, 1));
#else
  for (unsigned l = 0; l < CHUNK; l++) row[l] = word_at(base + offset[l]);
#endif
}

/* Reads `bytes`, a multiple of four, at each lane's offset into rows, one for each dword. No row may hold the offsets. */
static inline __attribute__((always_inline)) void gather_words(uint32_t *const rows[4], const uint8_t *base,
                                                               const uint32_t offset[LANES], const Layout *layout,
                                                               unsigned bytes) {
  for (unsigned l = 0; l < LANES; l += CHUNK) {
    const uint8_t *first = base + offset[l];
    for (unsigned k = 0; k < bytes / 4; k++)
      if (is_row(layout, l)) take_chunk(rows[k] + l, first, bytes / 4, k);
      else if (is_one_place(layout, l)) *(Chunk *)(rows[k] + l) = (Chunk){0} + word_at(first + 4 * k);
      else gather_chunk(rows[k] + l, base + 4 * k, offset + l);
  }
}

#endif
