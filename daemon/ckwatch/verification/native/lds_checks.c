/* Races in LDS: two bytes for each byte of LDS, one says which wave has written it, the other which have read it since
 * the group's last barrier.
 *
 * A wave's code has three of seven bits, so that no code is a part of another: what a wave finds is all its own, or
 * nobody's, if it has no bits beside those of its code. That is one operation on all bytes that a lane accesses. At a
 * barrier the bytes of those writes become nobody's that were waited for. Who accessed what, for reports and for writes
 * that nobody waited for, is in a list of each wave's last operations: as many as can be outstanding.
 *
 * Most reads are of what was written before the last barrier. A range of bytes is known that nobody has written since:
 * reads within it are only put into the lists, and the bytes say who has read them once one of them is to be written. */
#include <stdio.h>
#include <stdlib.h>

#include "checks.h"
#include "values.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { CODE = 0x7f, BY_NOTE = 0x7f /* what has written is in `notes` */, UNDEFINED = 0x80, KEPT = 0x80 };
enum { NOTED_WAVE = 0x1f, DIRECT_NOTE = 0x20 /* from memory, counted by vmcnt */, ATOMIC_NOTE = 0x40 };

static const uint8_t code_of[MAX_WAVES] = {
    0x07, 0x0b, 0x0d, 0x0e, 0x13, 0x15, 0x16, 0x19, 0x1a, 0x1c, 0x23, 0x25, 0x26, 0x29, 0x2a, 0x2c,
    0x31, 0x32, 0x34, 0x38, 0x43, 0x45, 0x46, 0x49, 0x4a, 0x4c, 0x51, 0x52, 0x54, 0x58, 0x61, 0x62,
};

struct LdsShadow {
  Chunk low, high;     /* where something was accessed since the last barrier, by lanes, */
  OfSpans lowest, highest; /* and by spans */
  bool kept;           /* something from before it is still outstanding */
  uint32_t quiet_from, quiet_to; /* nobody has written these bytes since */
  bool defined; /* all of them are */
  bool pending; /* they were read, and their readers do not say so yet */
  uint32_t operations; /* of all waves */
  uint8_t *writers, *readers, *notes;
  uint8_t *lanes; /* the lane that wrote at this offset; only of use within one operation */
  uint8_t bytes[];
};

/* A power of two between the parts would put what is looked at together into the same lines of the cache. */
static size_t part_bytes(uint32_t lds_bytes) { return ((size_t)lds_bytes + 63) / 64 * 64 + 5 * 64; }
size_t lds_shadow_bytes(uint32_t lds_bytes) { return sizeof(LdsShadow) + 4 * part_bytes(lds_bytes); }

static void forget_accesses(LdsShadow *s) {
  s->low = (Chunk){0} - 1;
  s->high = (Chunk){0};
  s->lowest = (OfSpans){0} - 1;
  s->highest = (OfSpans){0};
}

void reset_lds_shadow(Workgroup *group) {
  LdsShadow *s = group->lds_shadow;
  if (!s) return;
  size_t part = part_bytes(group->lds_bytes);
  s->writers = s->bytes, s->readers = s->writers + part, s->notes = s->readers + part, s->lanes = s->notes + part;
  memset(s->writers, UNDEFINED, group->lds_bytes);
  memset(s->readers, 0, group->lds_bytes);
  forget_accesses(s);
  s->operations = 0;
  s->quiet_from = s->quiet_to = 0;
  s->kept = s->pending = s->defined = false;
}

static uint32_t offset_of(const LdsOperation *o, unsigned lane) {
  unsigned n = lane / CHUNK;
  if (n >= o->spans.count) return o->offset[lane];
  return o->spans.first[n] + (is_span_row(&o->spans, n, o->bytes) ? lane % CHUNK * o->bytes : 0);
}

static bool covers(const LdsOperation *o, unsigned lane, uint32_t at) {
  return o->lanes >> lane & 1 && at - offset_of(o, lane) < o->bytes;
}

/* The lane of an operation that accessed a byte; -1 when none did. */
static int lane_at(const LdsOperation *o, uint32_t at) {
  for (unsigned lane = 0; lane < LANES; lane++)
    if (covers(o, lane, at)) return (int)lane;
  return -1;
}

static const LdsOperation *operation(const LdsOperations *all, uint32_t back) { /* 0: the last one */
  if (back >= all->count || back >= LDS_OPERATIONS) return NULL;
  return &all->operation[(all->count - 1 - back) % LDS_OPERATIONS];
}

/* The last write to a byte, direct or not. */
static const LdsOperation *last_write(const WaveChecks *c, uint32_t at, int kind) {
  const LdsOperation *o;
  for (uint32_t back = 0; (o = operation(&c->lds_operations[kind], back)); back++)
    if (lane_at(o, at) >= 0) return o;
  return NULL;
}

static LdsOperationKind kind_of(LdsAccess access, int counter) {
  return access == LDS_READ ? LDS_READS : counter == VM ? LDS_DIRECT : LDS_WRITES;
}

/* ---- Reads of what nobody writes --------------------------------------------------------------------------------- */
static inline bool is_quiet(const LdsShadow *s, uint32_t low, uint32_t high) {
  return low >= s->quiet_from && high <= s->quiet_to;
}

static void note_pending_reads(Workgroup *group);

/* Bytes from `low` on, before `high`, are to be written: the larger part beside them stays quiet. */
static inline void begin_write(Workgroup *group, uint64_t low, uint64_t high) {
  LdsShadow *s = group->lds_shadow;
  if (high <= s->quiet_from || low >= s->quiet_to) return;
  if (s->pending) note_pending_reads(group);
  uint64_t before = low > s->quiet_from ? low - s->quiet_from : 0, behind = s->quiet_to > high ? s->quiet_to - high : 0;
  if (before > behind) s->quiet_to = (uint32_t)low;
  else if (behind) s->quiet_from = (uint32_t)high;
  else s->quiet_from = s->quiet_to = 0;
}

static void begin_writes(Workgroup *group, const uint32_t offset[LANES], uint64_t lanes, unsigned bytes) {
  uint64_t low = UINT64_MAX, high = 0;
  unsigned lane;
  if (!group->lds_shadow) return;
  FOR_LANES(lane, lanes) {
    low = offset[lane] < low ? offset[lane] : low;
    high = offset[lane] > high ? offset[lane] : high;
  }
  if (lanes) begin_write(group, low, high + bytes);
}

/* After a barrier: nobody has written these bytes since. */
static void add_quiet(LdsShadow *s, uint32_t low, uint32_t high, bool defined) {
  uint32_t from = s->quiet_from, to = s->quiet_to;
  if (low <= to && from <= high && from < to) {
    s->defined = defined && (s->defined || (low <= from && to <= high));
    s->quiet_from = low < from ? low : from;
    s->quiet_to = high > to ? high : to;
  } else if (high - low > to - from) {
    s->quiet_from = low, s->quiet_to = high, s->defined = defined;
  }
}

/* ---- The lists --------------------------------------------------------------------------------------------------- */
static inline LdsOperation *next_operation(Wave *w, const Instruction *i, LdsOperationKind kind, uint32_t serial,
                                           uint64_t lanes, unsigned bytes, bool quiet) {
  LdsOperations *all = &w->checks->lds_operations[kind];
  LdsShadow *s = w->group->lds_shadow;
  if (kind == LDS_READS) {
    if (!s->pending) all->noted = all->count;
    if (all->count - all->noted == LDS_OPERATIONS) note_pending_reads(w->group);
    s->pending |= quiet;
  }
  LdsOperation *o = &all->operation[all->count++ % LDS_OPERATIONS];
  o->at = i;
  o->lanes = lanes;
  o->serial = serial;
  o->number = ++s->operations;
  o->bytes = bytes;
  o->quiet = quiet;
  o->spans.count = 0;
  return o;
}

static inline void note_places(LdsShadow *s, const uint32_t offset[LANES], unsigned bytes) {
#ifdef __AVX512F__
  __m512i low = (__m512i)s->low, high = (__m512i)s->high;
  for (unsigned l = 0; l < LANES; l += CHUNK) {
    __m512i at = _mm512_loadu_si512(offset + l);
    low = _mm512_min_epu32(low, at);
    high = _mm512_max_epu32(high, _mm512_add_epi32(at, _mm512_set1_epi32((int)bytes)));
  }
  s->low = (Chunk)low, s->high = (Chunk)high;
#else
  for (unsigned l = 0; l < LANES; l += CHUNK) {
    Chunk at = *(const Chunk *)(offset + l), end = at + bytes;
    Chunk lower = (Chunk)(at < s->low), higher = (Chunk)(end > s->high);
    s->low = (at & lower) | (s->low & ~lower);
    s->high = (end & higher) | (s->high & ~higher);
  }
#endif
}

static void record(Wave *w, const Instruction *i, LdsOperationKind kind, uint32_t serial, const uint32_t offset[LANES],
                   uint64_t lanes, unsigned bytes, bool quiet) {
  LdsShadow *s = w->group->lds_shadow;
  LdsOperation *o = next_operation(w, i, kind, serial, lanes, bytes, quiet);
  memcpy(o->offset, offset, sizeof o->offset);
  if (!quiet) note_places(s, offset, bytes);
}

/* Where nothing is special: every byte that is accessed was written by this wave, or before the last barrier. A chunk of
 * lanes that accesses one place, or places in a row, is looked at as one. */
typedef uint8_t Word1 __attribute__((may_alias));
typedef uint16_t Word2 __attribute__((may_alias, aligned(1)));
typedef uint32_t Word4 __attribute__((may_alias, aligned(1)));
typedef uint64_t Word8 __attribute__((may_alias, aligned(1)));

#define AT(Word, bytes, at) (*(Word *)((bytes) + (at)))

#define EACH_BYTE 0x0101010101010101ull
#define FOR_CHUNKS(l) for (unsigned l = 0; l < LANES; l += CHUNK)

ALWAYS_INLINE uint64_t read_range(LdsShadow *s, uint64_t own, uint32_t at, unsigned bytes) {
  uint64_t foreign = 0;
  if (bytes % sizeof(Chunk) == 0) {
    Chunk others = {0}, codes = (Chunk){0} + (uint32_t)own;
    for (uint32_t end = at + bytes; at < end; at += sizeof(Chunk)) {
      Chunk readers = AT(Chunk, s->readers, at);
      others |= AT(Chunk, s->writers, at) & ~codes;
      if (!is_zero(codes & ~readers)) AT(Chunk, s->readers, at) = readers | codes;
    }
    return !is_zero(others);
  }
  for (uint32_t end = at + bytes; at < end; at += 8) {
    foreign |= AT(Word8, s->writers, at) & ~own;
    AT(Word8, s->readers, at) |= own;
  }
  return foreign;
}

ALWAYS_INLINE uint64_t others_in_range(const LdsShadow *s, uint64_t other, uint32_t at, unsigned bytes) {
  uint64_t foreign = 0;
  if (bytes % sizeof(Chunk) == 0) {
    Chunk others = {0};
    for (uint32_t end = at + bytes; at < end; at += sizeof(Chunk))
      others |= AT(Chunk, s->writers, at) | AT(Chunk, s->readers, at);
    return !is_zero(others & ((Chunk){0} + (uint32_t)other));
  }
  for (uint32_t end = at + bytes; at < end; at += 8)
    foreign |= (AT(Word8, s->writers, at) | AT(Word8, s->readers, at)) & other;
  return foreign;
}

/* Readers are only noted where they are not yet: lanes that read the same place do not wait for each other. */
#define FOR_WORDS(Word) \
  ALWAYS_INLINE uint64_t read_place_##Word(LdsShadow *s, uint64_t own, uint32_t at, unsigned bytes) { \
    uint64_t foreign = 0; \
    for (uint32_t end = at + bytes; at < end; at += sizeof(Word)) { \
      Word readers = AT(Word, s->readers, at); \
      foreign |= (uint64_t)AT(Word, s->writers, at) & (Word)~own; \
      if ((readers & (Word)own) != (Word)own) AT(Word, s->readers, at) = (Word)(readers | own); \
    } \
    return foreign; \
  } \
  ALWAYS_INLINE uint64_t others_##Word(LdsShadow *s, uint64_t other, uint32_t at, unsigned bytes) { \
    uint64_t foreign = 0; \
    for (uint32_t end = at + bytes; at < end; at += sizeof(Word)) \
      foreign |= (uint64_t)(AT(Word, s->writers, at) | AT(Word, s->readers, at)) & (Word)other; \
    return foreign; \
  } \
  ALWAYS_INLINE void note_##Word(uint8_t *notes, uint64_t note, uint32_t at, unsigned bytes) { \
    for (uint32_t end = at + bytes; at < end; at += sizeof(Word)) AT(Word, notes, at) = (Word)note; \
  } \
  ALWAYS_INLINE bool read_##Word(LdsShadow *s, uint8_t code, const uint32_t offset[LANES], const Layout *layout, \
                                 unsigned bytes) { \
    uint64_t own = EACH_BYTE * code, foreign = 0; \
    FOR_CHUNKS(l) \
      if (l && offset[l] == offset[l - CHUNK] && is_row(layout, l) && is_row(layout, l - CHUNK)) continue; \
      else if (is_row(layout, l)) foreign |= read_range(s, own, offset[l], CHUNK * bytes); \
      else if (is_one_place(layout, l)) foreign |= read_place_##Word(s, own, offset[l], bytes); \
      else \
        for (unsigned n = l; n < l + CHUNK; n++) foreign |= read_place_##Word(s, own, offset[n], bytes); \
    return !foreign; \
  } \
  ALWAYS_INLINE void note_lanes_##Word(uint8_t *notes, uint8_t note, const uint32_t offset[LANES], \
                                       const Layout *layout, unsigned bytes) { \
    uint64_t each = EACH_BYTE * note; \
    FOR_CHUNKS(l) \
      if (is_row(layout, l)) memset(notes + offset[l], note, CHUNK * bytes); \
      else \
        for (unsigned n = l; n < l + CHUNK; n++) note_##Word(notes, each, offset[n], bytes); \
  } \
  ALWAYS_INLINE bool write_##Word(LdsShadow *s, uint8_t code, const uint32_t offset[LANES], const Layout *layout, \
                                  unsigned bytes) { \
    uint64_t other = EACH_BYTE * (CODE & ~code), foreign = 0; \
    FOR_CHUNKS(l) \
      if (is_row(layout, l)) foreign |= others_in_range(s, other, offset[l], CHUNK * bytes); \
      else \
        for (unsigned n = l; n < l + CHUNK; n++) foreign |= others_##Word(s, other, offset[n], bytes); \
    if (!foreign) note_lanes_##Word(s->writers, code, offset, layout, bytes); \
    return !foreign; \
  } \
  ALWAYS_INLINE bool direct_##Word(LdsShadow *s, uint8_t wave, const uint32_t offset[LANES], const Layout *layout, \
                                   unsigned bytes) { \
    if (!write_##Word(s, code_of[wave], offset, layout, bytes)) return false; \
    note_lanes_##Word(s->writers, BY_NOTE, offset, layout, bytes); \
    note_lanes_##Word(s->notes, wave | DIRECT_NOTE, offset, layout, bytes); \
    return true; \
  }
FOR_WORDS(Word8)
FOR_WORDS(Word4)
FOR_WORDS(Word2)
FOR_WORDS(Word1)

#define BY_BYTES(access, s, code, offset, layout, bytes) \
  ((bytes) == 16  ? access##_Word8(s, code, offset, layout, 16) \
   : (bytes) == 8 ? access##_Word8(s, code, offset, layout, 8) \
   : (bytes) == 4 ? access##_Word4(s, code, offset, layout, 4) \
   : (bytes) == 2 ? access##_Word2(s, code, offset, layout, 2) \
   : (bytes) == 1 ? access##_Word1(s, code, offset, layout, 1) \
                  : access##_Word4(s, code, offset, layout, bytes))

/* Reads of dwords as `read_Word4` notes them; lanes whose places lie anyhow are looked at together. Bytes of two lanes that
 * are one get the same. */
#ifdef __AVX512F__
ALWAYS_INLINE __m512i read_lanes(LdsShadow *s, __m512i own, __m512i at) {
  __m512i readers = _mm512_i32gather_epi32(at, s->readers, 1);
  __mmask16 missing = _mm512_test_epi32_mask(_mm512_andnot_si512(readers, own), own);
  if (missing) _mm512_mask_i32scatter_epi32(s->readers, missing, at, _mm512_or_si512(readers, own), 1);
  return _mm512_andnot_si512(own, _mm512_i32gather_epi32(at, s->writers, 1));
}

ALWAYS_INLINE bool read_dwords(LdsShadow *s, uint8_t code, const uint32_t offset[LANES], const Layout *layout,
                               unsigned words) {
  const __m512i own = _mm512_set1_epi8((char)code);
  __m512i foreign = _mm512_setzero_si512();
  uint64_t in_places = 0;
  for (unsigned l = 0; l < LANES; l += CHUNK) {
    bool row = is_row(layout, l);
    if (l && offset[l] == offset[l - CHUNK] && row && is_row(layout, l - CHUNK)) continue;
    if (row) in_places |= read_range(s, EACH_BYTE * code, offset[l], 64 * words);
    else if (is_one_place(layout, l)) in_places |= read_place_Word4(s, EACH_BYTE * code, offset[l], 4 * words);
    else
      for (unsigned k = 0; k < words; k++) {
        __m512i at = _mm512_add_epi32(_mm512_loadu_si512(offset + l), _mm512_set1_epi32((int)(4 * k)));
        foreign = _mm512_or_si512(foreign, read_lanes(s, own, at));
      }
  }
  return !in_places && !_mm512_test_epi32_mask(foreign, foreign);
}
#else
#define read_dwords(s, code, offset, layout, words) read_Word4(s, code, offset, layout, 4 * (words))
#endif

/* No two lanes write the same byte. */
static bool are_apart(LdsShadow *s, const uint32_t offset[LANES], uint64_t lanes, unsigned bytes) {
  uint32_t near = 0, shared = 0, all = bytes;
  for (int l = 1; l < LANES; l++) near |= offset[l] - offset[l - 1] - bytes; /* the highest bit: less than `bytes` */
  if (lanes == ~0ull && !(near >> 31)) return true;
  for (int l = 0; l < LANES; l++) all |= offset[l];
  unsigned lane, step = all & -all; /* what all lanes begin and end at multiples of */
  FOR_LANES(lane, lanes) for (unsigned n = 0; n < bytes; n += step) s->lanes[offset[lane] + n] = (uint8_t)lane;
  FOR_LANES(lane, lanes) for (unsigned n = 0; n < bytes; n += step) shared |= s->lanes[offset[lane] + n] ^ lane;
  return shared == 0;
}

ALWAYS_INLINE bool read_usual(LdsShadow *s, uint8_t code, const uint32_t offset[LANES], const Layout *layout,
                              unsigned bytes) {
  switch (bytes) {
    case 4: return read_dwords(s, code, offset, layout, 1);
    case 8: return read_dwords(s, code, offset, layout, 2);
    case 12: return read_dwords(s, code, offset, layout, 3);
    case 16: return read_dwords(s, code, offset, layout, 4);
    default: return BY_BYTES(read, s, code, offset, layout, bytes);
  }
}

/* Lanes that take no part have the offset of one that does, unless some are out of bounds. */
static bool is_usual(Wave *w, LdsAccess access, int counter, const uint32_t offset[LANES], const Layout *layout,
                     uint64_t lanes, unsigned bytes, bool quiet) {
  LdsShadow *s = w->group->lds_shadow;
  if (access == LDS_ATOMIC) return false;
  if (quiet && s->defined) return true;
  uint8_t code = quiet ? 0 : code_of[w->id];
  if (access == LDS_READ) return read_usual(s, code, offset, layout, bytes);
  if (!are_apart(s, offset, lanes, bytes)) return false;
  if (counter == VM) return lanes == ~0ull && BY_BYTES(direct, s, (uint8_t)w->id, offset, layout, bytes);
  return BY_BYTES(write, s, code, offset, layout, bytes);
}

bool note_lds(Wave *w, const Instruction *i, LdsAccess access, int counter, uint32_t serial,
              const uint32_t offset[LANES], const Layout *layout, uint64_t lanes, unsigned bytes) {
  if (!w->group->lds_shadow || !lanes) return true;
  bool quiet = access == LDS_READ && is_quiet(w->group->lds_shadow, lowest_of(offset), highest_of(offset) + bytes);
  if (access != LDS_READ) begin_writes(w->group, offset, lanes, bytes);
  bool usual = is_usual(w, access, counter, offset, layout, lanes, bytes, quiet);
  if (usual) record(w, i, kind_of(access, counter), serial, offset, lanes, bytes, quiet);
  return usual;
}

ALWAYS_INLINE uint64_t read_span(LdsShadow *s, uint64_t own, uint32_t at, bool row, unsigned bytes) {
  if (row) return read_range(s, own, at, CHUNK * bytes);
  return bytes % 8 ? read_place_Word4(s, own, at, bytes) : read_place_Word8(s, own, at, bytes);
}

static inline void note_place_of_spans(LdsShadow *s, OfSpans at, OfSpans end) {
  OfSpans lower = (OfSpans)(at < s->lowest), higher = (OfSpans)(end > s->highest);
  s->lowest = (at & lower) | (s->lowest & ~lower);
  s->highest = (end & higher) | (s->highest & ~higher);
}

static void note_read(LdsShadow *s, const LdsOperation *o, uint8_t code) {
  if (o->spans.count) {
    OfSpans at = *(const OfSpans *)o->spans.first, end = at + *(const OfSpans *)o->spans.bytes;
    FOR_SPANS(n, &o->spans)
      if (!is_span_before(&o->spans, n))
        read_span(s, EACH_BYTE * code, at[n], is_span_row(&o->spans, n, o->bytes), o->bytes);
    note_place_of_spans(s, at, end);
    return;
  }
  Layout layout = layout_of(o->offset, o->bytes);
  read_usual(s, code, o->offset, &layout, o->bytes);
  note_places(s, o->offset, o->bytes);
}

static NO_INLINE void note_pending_reads(Workgroup *group) {
  group->lds_shadow->pending = false;
  for (uint32_t n = 0; n < group->wave_count; n++) {
    LdsOperations *reads = &group->waves[n]->checks->lds_operations[LDS_READS];
    for (; reads->noted < reads->count; reads->noted++) {
      const LdsOperation *o = &reads->operation[reads->noted % LDS_OPERATIONS];
      if (o->quiet) note_read(group->lds_shadow, o, code_of[n]);
    }
  }
}

ALWAYS_INLINE bool note_spans_of(Wave *w, const Instruction *i, LdsAccess access, uint32_t serial, const Spans *spans,
                                 const uint32_t fixed[2], unsigned accesses, unsigned bytes) {
  LdsShadow *s = w->group->lds_shadow;
  uint8_t code = code_of[w->id];
  uint32_t low = spans->low + (accesses > 1 && fixed[1] < fixed[0] ? fixed[1] : fixed[0]);
  uint32_t high = (uint32_t)spans->high + (accesses > 1 && fixed[1] > fixed[0] ? fixed[1] : fixed[0]);
  bool quiet = access == LDS_READ && is_quiet(s, low, high), known = quiet && s->defined;
  if (access == LDS_WRITE) begin_write(w->group, low, high);
  uint64_t own = quiet ? 0 : EACH_BYTE * code, foreign = 0;
  for (unsigned one = 0; one < accesses && !known; one++)
    FOR_SPANS(n, spans) {
      uint32_t at = spans->first[n] + fixed[one];
      if (access == LDS_WRITE) foreign |= others_in_range(s, EACH_BYTE * (CODE & ~code), at, CHUNK * bytes);
      else if (!is_span_before(spans, n)) foreign |= read_span(s, own, at, is_span_row(spans, n, bytes), bytes);
    }
  if (foreign) return false;
  uint64_t lanes = spans->count == SPANS ? ~0ull : UINT32_MAX;
  for (unsigned one = 0; one < accesses; one++) {
    LdsOperation *o = next_operation(w, i, access == LDS_READ ? LDS_READS : LDS_WRITES, serial, lanes, bytes, quiet);
    OfSpans at = *(const OfSpans *)spans->first + fixed[one], length = *(const OfSpans *)spans->bytes, end = at + length;
    *(OfSpans *)o->spans.first = at;
    *(OfSpans *)o->spans.bytes = length;
    o->spans.count = spans->count;
    if (quiet) continue;
    note_place_of_spans(s, at, end);
    if (access == LDS_WRITE)
      FOR_SPANS(n, spans)
        for (uint32_t to = at[n]; to < end[n]; to += sizeof(Chunk)) AT(Chunk, s->writers, to) = (Chunk){0} + (uint32_t)own;
  }
  return true;
}

bool note_spans(Wave *w, const Instruction *i, LdsAccess access, uint32_t serial, const Spans *spans,
                const uint32_t fixed[2], unsigned accesses, unsigned bytes) {
#define NOTED(accesses, bytes) note_spans_of(w, i, LDS_READ, serial, spans, fixed, accesses, bytes)
  if (!w->group->lds_shadow) return true;
  if (access == LDS_WRITE) return note_spans_of(w, i, LDS_WRITE, serial, spans, fixed, accesses, bytes);
  if (accesses == 1) return bytes == 4 ? NOTED(1, 4) : bytes == 8 ? NOTED(1, 8) : NOTED(1, 16);
  return bytes == 4 ? NOTED(2, 4) : NOTED(2, 8);
#undef NOTED
}

/* ---- What is special --------------------------------------------------------------------------------------------- */
typedef struct {
  Wave *w;
  const Instruction *i;
  unsigned lane;
  uint32_t address, bytes;
  bool reported;
} LdsUse;

static void report_use(LdsUse *u, FindingKind kind, const LdsOperation *other, int other_wave, int other_lane,
                       const char *note) {
  if (u->reported) return;
  u->reported = true;
  Finding f = {.kind = kind, .at = u->i, .other = other ? other->at : NULL, .lane = (int)u->lane,
               .other_wave = other_wave, .other_lane = other_lane, .address = u->address, .bytes = u->bytes,
               .has_address = true};
  snprintf(f.note, sizeof f.note, "%s", note);
  report(u->w, &f);
}

static NO_INLINE void report_race_with_write(LdsUse *u, unsigned writer, uint32_t at) {
  const WaveChecks *c = u->w->group->waves[writer]->checks;
  const LdsOperation *write = last_write(c, at, LDS_WRITES), *direct = last_write(c, at, LDS_DIRECT);
  if (!write || (direct && direct->number > write->number)) write = direct;
  report_use(u, LDS_RACE, write, (int)writer, write ? lane_at(write, at) : -1, "written by the other wave");
}

static NO_INLINE void report_race_with_read(LdsUse *u, uint32_t at) {
  const Workgroup *group = u->w->group;
  const LdsOperation *first = NULL, *o;
  int reader = -1;
  for (unsigned n = 0; n < group->wave_count; n++) {
    const LdsOperations *reads = &group->waves[n]->checks->lds_operations[LDS_READS];
    if (n == u->w->id) continue;
    for (uint32_t back = 0; (o = operation(reads, back)); back++)
      if (lane_at(o, at) >= 0 && (!first || o->number < first->number)) first = o, reader = (int)n;
    if (reader < 0 && (group->lds_shadow->readers[at] & CODE) == code_of[n]) reader = (int)n;
  }
  report_use(u, LDS_RACE, first, reader, -1, "read by the other wave");
}

static unsigned wave_of_code(uint8_t code) {
  unsigned wave = 0;
  while (wave < MAX_WAVES - 1 && code_of[wave] != code) wave++;
  return wave;
}

/* Writes of what is there already are no races that matter. */
static bool changes_lds(const Workgroup *group, LdsAccess access, uint32_t at, uint8_t value) {
  return access != LDS_WRITE || group->lds[at] != value;
}

static NO_INLINE void check_same_operation(LdsUse *u, const uint32_t offset[LANES], uint64_t lanes,
                                           LoadShadow written) {
  unsigned one, other;
  FOR_LANES(one, lanes) for (uint64_t before = lanes & ((1ull << one) - 1); before; before &= before - 1) {
    other = (unsigned)__builtin_ctzll(before);
    uint32_t low = offset[one] > offset[other] ? offset[one] : offset[other];
    uint32_t end = (offset[one] < offset[other] ? offset[one] : offset[other]) + u->bytes;
    for (uint32_t at = low; at < end; at++)
      if (((uint8_t *)written[one])[at - offset[one]] != ((uint8_t *)written[other])[at - offset[other]]) {
        u->lane = one;
        u->address = at;
        report_use(u, WRITE_CONFLICT, NULL, (int)u->w->id, (int)other, "LDS");
        return;
      }
  }
}

/* What others, or this wave's own operation that it has not waited for, have done to a byte. */
static void check_byte(LdsUse *u, LdsAccess access, int counter, uint32_t at, const uint8_t *value) {
  Wave *w = u->w;
  LdsShadow *s = w->group->lds_shadow;
  uint8_t own = code_of[w->id], writer = s->writers[at] & CODE;
  if (writer == BY_NOTE) {
    unsigned wave = s->notes[at] & NOTED_WAVE;
    if (wave == w->id && s->notes[at] & DIRECT_NOTE && counter != VM) {
      const LdsOperation *load = last_write(w->checks, at, LDS_DIRECT);
      if (load && load->serial > w->checks->lds_done[VM])
        report_use(u, MISSING_WAIT, load, -1, -1, "LDS bytes are used before they have arrived from memory (vmcnt)");
      else s->writers[at] = own | (s->writers[at] & UNDEFINED);
    } else if (wave != w->id && !(access == LDS_ATOMIC && s->notes[at] & ATOMIC_NOTE) &&
               changes_lds(w->group, access, at, value ? *value : 0)) {
      report_race_with_write(u, wave, at);
    }
  } else if (writer && writer != own && changes_lds(w->group, access, at, value ? *value : 0)) {
    report_race_with_write(u, wave_of_code(writer), at);
  }
  if (access != LDS_READ && s->readers[at] & CODE & ~own && changes_lds(w->group, access, at, value ? *value : 0))
    report_race_with_read(u, at);
}

uint64_t check_lds(Wave *w, const Instruction *i, LdsAccess access, int counter, uint32_t serial,
                   const uint32_t offset[LANES], uint64_t lanes, unsigned bytes, LoadShadow written,
                   LoadShadow undefined, LoadShadow read) {
  LdsShadow *s = w->group->lds_shadow;
  Layout layout = layout_of(offset, bytes);
  bool within = (uint64_t)highest_of(offset) + bytes <= w->group->lds_bytes;
  if (access != LDS_READ) begin_writes(w->group, offset, lanes, bytes);
  if (!undefined && within && note_lds(w, i, access, counter, serial, offset, &layout, lanes, bytes)) return 0;
  if (!s || !lanes) return 0;
  bool direct = counter == VM, atomic = access == LDS_ATOMIC;
  bool exchanges = atomic && strncmp(i->row->name, "ds_wrxchg", 9) == 0;
  uint8_t own = code_of[w->id];
  uint64_t found = 0;
  unsigned lane;
  LdsUse use = {.w = w, .i = i, .bytes = bytes};
  FOR_LANES(lane, lanes) {
    uint32_t words[4] = {0};
    use.lane = lane;
    use.address = offset[lane];
    uint8_t bits = 0;
    for (unsigned n = 0; n < bytes; n++)
      bits |= s->writers[offset[lane] + n] | (access == LDS_READ ? 0 : s->readers[offset[lane] + n]);
    for (unsigned n = 0; n < bytes && (bits & ~own || access == LDS_READ); n++) {
      uint32_t at = offset[lane] + n;
      if (bits & ~own)
        check_byte(&use, access, counter, at, written ? (const uint8_t *)written[lane] + n : NULL);
      if (access != LDS_WRITE && s->writers[at] & UNDEFINED) words[n / 4] |= 0xffu << n % 4 * 8;
      if (access == LDS_READ) s->readers[at] |= own;
    }
    if (words[0] | words[1] | words[2] | words[3]) {
      found |= 1ull << lane;
      memcpy(read[lane], words, sizeof words);
    }
  }
  if (access == LDS_WRITE && !use.reported && !are_apart(s, offset, lanes, bytes))
    check_same_operation(&use, offset, lanes, written);
  record(w, i, kind_of(access, counter), serial, offset, lanes, bytes, false);
  if (access == LDS_READ) return found;
  uint8_t writer = direct || atomic ? BY_NOTE : own, note = (uint8_t)(w->id | (direct ? DIRECT_NOTE : ATOMIC_NOTE));
  FOR_LANES(lane, lanes) for (unsigned n = 0; n < bytes; n++) {
    uint32_t at = offset[lane] + n;
    bool doubtful = (undefined && ((uint8_t *)undefined[lane])[n]) ||
                    (atomic && !exchanges && s->writers[at] & UNDEFINED);
    s->writers[at] = writer | (doubtful ? UNDEFINED : 0);
    s->notes[at] = note;
  }
  return found;
}

/* ---- Barriers ---------------------------------------------------------------------------------------------------- */
static void keep_outstanding(const Wave *w, LdsOperationKind kind) {
  LdsShadow *s = w->group->lds_shadow;
  const LdsOperation *o;
  unsigned lane;
  for (uint32_t back = 0; (o = operation(&w->checks->lds_operations[kind], back)); back++) {
    if (o->serial <= w->checks->lds_done[kind == LDS_DIRECT ? VM : LGKM]) return;
    FOR_LANES(lane, o->lanes) for (uint32_t at = offset_of(o, lane), end = at + o->bytes; at < end; at++) {
      uint8_t writer = s->writers[at] & CODE;
      if (writer == code_of[w->id] || (writer == BY_NOTE && (s->notes[at] & NOTED_WAVE) == w->id))
        s->readers[at] |= KEPT;
    }
    s->kept = true;
  }
}

void check_barrier_passed(Workgroup *group) {
  LdsShadow *s = group->lds_shadow;
  if (!s) return;
  bool whole = s->kept;
  s->kept = false;
  for (uint32_t n = 0; n < group->wave_count; n++) {
    const Wave *w = group->waves[n];
    w->checks->lds_operations[LDS_READS].count = w->checks->lds_operations[LDS_READS].noted = 0;
    if (w->state == ENDED) continue;
    keep_outstanding(w, LDS_WRITES);
    keep_outstanding(w, LDS_DIRECT);
  }
  uint32_t low = UINT32_MAX, high = 0;
  for (unsigned n = 0; n < SPANS; n++) {
    low = s->lowest[n] < low ? s->lowest[n] : low;
    high = s->highest[n] > high ? s->highest[n] : high;
  }
  for (unsigned n = 0; n < CHUNK; n++) {
    low = s->low[n] < low ? s->low[n] : low;
    high = s->high[n] > high ? s->high[n] : high;
  }
  if (whole || s->kept || high > group->lds_bytes) high = group->lds_bytes;
  if (whole || s->kept) low = 0;
  uint8_t *restrict writers = s->writers, *restrict readers = s->readers, left = 0;
  for (size_t at = low, end = high; at < end; at++) {
    writers[at] &= readers[at] & KEPT ? CODE | UNDEFINED : UNDEFINED;
    left |= writers[at];
    readers[at] = 0;
  }
  if (low < high && !(left & CODE)) add_quiet(s, low, high, !left);
  s->pending = false;
  forget_accesses(s);
}
