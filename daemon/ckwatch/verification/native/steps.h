/* What is executed where nothing is in doubt: an instruction with its operands resolved, a fifth of its size. */
#ifndef STEPS_H
#define STEPS_H

#include "values.h"

enum { OF_VECTOR, OF_LITERAL, OF_SCALAR };

struct Step {
  Perform *perform;
  const Instruction *i;
  uint32_t next;   /* the index of the instruction behind it */
  uint16_t result; /* register */
  uint8_t result_count;
  uint8_t kind[3];     /* of the sources */
  uint32_t source[3]; /* register, or the bits of a literal; of branches the target, of SOPK behind them the immediate;
                         of pairs how far behind it the steps of its parts are */
};

void choose_steps(Code *code); /* of all instructions, and behind these of the parts of pairs */
void perform_whole(Wave *w, const Step *s); /* by Row.execute */

/* ---- Scalars ----------------------------------------------------------------------------------------------------- */
static inline uint32_t step_scalar(const Wave *w, const Step *s, unsigned n) {
  return s->kind[n] == OF_SCALAR ? w->s[s->source[n]] : s->source[n];
}
static inline uint64_t step_pair(const Wave *w, const Step *s, unsigned n) {
  if (s->kind[n] == OF_SCALAR) return (uint64_t)w->s[s->source[n] + 1] << 32 | w->s[s->source[n]];
  return scalar_operand_pair(w, &s->i->operand[s->i->row->results + n]);
}
static inline void put_step_pair(Wave *w, const Step *s, uint64_t value) {
  w->s[s->result] = (uint32_t)value;
  w->s[s->result + 1] = (uint32_t)(value >> 32);
}

/* ---- Vectors: a chunk of lanes after the other ------------------------------------------------------------------- */
typedef struct {
  const uint32_t *low, *high; /* of the first chunk */
  unsigned lanes;             /* a mask of their numbers: none where all lanes have the same */
  alignas(64) uint32_t same_low[CHUNK], same_high[CHUNK];
} StepSource;
typedef struct {
  const uint32_t *low, *high;
} ChunkSource;
typedef struct {
  alignas(64) uint32_t low[CHUNK], high[CHUNK];
} ChunkResult;

static inline void same_in_all(StepSource *source, uint64_t value, bool wide) {
  *(Chunk *)source->same_low = (Chunk){0} + (uint32_t)value;
  if (wide) *(Chunk *)source->same_high = (Chunk){0} + (uint32_t)(value >> 32);
  source->low = source->same_low, source->high = source->same_high;
  source->lanes = 0;
}
static inline void take_step_source(const Wave *w, const Step *s, unsigned n, StepSource *source) {
  if (s->kind[n] == OF_VECTOR) source->low = source->high = w->v[s->source[n]], source->lanes = LANES - 1;
  else same_in_all(source, step_scalar(w, s, n), false);
}
static inline uint64_t wide_literal(const Operand *o, bool is_float) {
  return is_float ? literal_f64(o) : o->is_float ? bits_of_f64(o->real) : (uint64_t)o->bits;
}
static inline void take_wide_step_source(const Wave *w, const Step *s, unsigned n, StepSource *source, bool is_float) {
  if (s->kind[n] == OF_VECTOR) {
    source->low = w->v[s->source[n]], source->high = w->v[s->source[n] + 1];
    source->lanes = LANES - 1;
    return;
  }
  const Operand *o = &s->i->operand[s->i->row->results + n];
  uint64_t value = s->kind[n] == OF_LITERAL ? wide_literal(o, is_float) : o->count > 1 ? step_pair(w, s, n) : w->s[o->index];
  same_in_all(source, value, true);
}
static inline ChunkSource chunk_of(const StepSource *source, unsigned lane) {
  unsigned at = lane & source->lanes;
  return (ChunkSource){source->low + at, source->high + at};
}

/* Writes the lanes of a chunk that are active. */
static inline void put_chunk(uint32_t *to, unsigned active, const uint32_t *values) {
  if (active == 0xffff) *(Chunk *)to = *(const Chunk *)values;
#ifdef __AVX512F__
  else _mm512_mask_storeu_epi32(to, (__mmask16)active, _mm512_loadu_si512(values));
#else
  else
    for (unsigned l = 0; l < CHUNK; l++) to[l] = active >> l & 1 ? values[l] : to[l];
#endif
}

static inline unsigned mask_of_chunk(const uint32_t *values) {
#ifdef __AVX512F__
  __m512i words = _mm512_loadu_si512(values);
  return _mm512_test_epi32_mask(words, words);
#else
  unsigned mask = 0;
  for (unsigned l = 0; l < CHUNK; l++) mask |= (unsigned)(values[l] != 0) << l;
  return mask;
#endif
}

#endif
