/* Races in LDS: two bytes for each byte of LDS, one says which wave has written it, the other which have read it since
 * the group's last barrier.
 *
 * A wave's code has three of seven bits, so that no code is a part of another: what a wave finds is all its own, or
 * nobody's, if it has no bits beside those of its code. That is one operation on all bytes that a lane accesses. At a
 * barrier the bytes of those writes become nobody's that were waited for. Who accessed what, for reports and for writes
 * that nobody waited for, is in a list of each wave's last operations: as many as can be outstanding. */
#include <stdio.h>
#include <stdlib.h>

#include "checks.h"
#include "values.h"

#define NO_INLINE __attribute__((noinline))
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define FOR_LANES(lane, lanes) \
  for (uint64_t rest_ = (lanes); rest_ && ((lane) = (unsigned)__builtin_ctzll(rest_), true); rest_ &= rest_ - 1)

enum { CODE = 0x7f, BY_NOTE = 0x7f /* what has written is in `notes` */, UNDEFINED = 0x80, KEPT = 0x80 };
enum { NOTED_WAVE = 0x1f, DIRECT_NOTE = 0x20 /* from memory, counted by vmcnt */, ATOMIC_NOTE = 0x40 };

static const uint8_t code_of[MAX_WAVES] = {
    0x07, 0x0b, 0x0d, 0x0e, 0x13, 0x15, 0x16, 0x19, 0x1a, 0x1c, 0x23, 0x25, 0x26, 0x29, 0x2a, 0x2c,
    0x31, 0x32, 0x34, 0x38, 0x43, 0x45, 0x46, 0x49, 0x4a, 0x4c, 0x51, 0x52, 0x54, 0x58, 0x61, 0x62,
};

struct LdsShadow {
  uint32_t low, high;  /* where something was accessed since the last barrier */
  bool kept;           /* something from before it is still outstanding */
  uint32_t operations; /* of all waves */
  uint8_t *writers, *readers, *notes;
  uint8_t *lanes; /* the lane that wrote at this offset; only of use within one operation */
  uint8_t bytes[];
};

/* A power of two between the parts would put what is looked at together into the same lines of the cache. */
static size_t part_bytes(uint32_t lds_bytes) { return ((size_t)lds_bytes + 63) / 64 * 64 + 5 * 64; }
size_t lds_shadow_bytes(uint32_t lds_bytes) { return sizeof(LdsShadow) + 4 * part_bytes(lds_bytes); }

void reset_lds_shadow(Workgroup *group) {
  LdsShadow *s = group->lds_shadow;
  if (!s) return;
  size_t part = part_bytes(group->lds_bytes);
  s->writers = s->bytes, s->readers = s->writers + part, s->notes = s->readers + part, s->lanes = s->notes + part;
  memset(s->writers, UNDEFINED, group->lds_bytes);
  memset(s->readers, 0, group->lds_bytes);
  s->low = UINT32_MAX, s->high = s->operations = 0;
  s->kept = false;
}

uint32_t next_lds_serial(Wave *w, int counter) { return ++w->checks->lds_serial[counter]; }

static bool covers(const LdsOperation *o, unsigned lane, uint32_t at) {
  return o->lanes >> lane & 1 && at - o->offset[lane] < o->bytes;
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

static void record(Wave *w, const Instruction *i, LdsOperationKind kind, uint32_t serial, const uint32_t offset[LANES],
                   uint64_t lanes, unsigned bytes) {
  LdsShadow *s = w->group->lds_shadow;
  LdsOperations *all = &w->checks->lds_operations[kind];
  LdsOperation *o = &all->operation[all->count++ % LDS_OPERATIONS];
  o->at = i;
  o->lanes = lanes;
  o->serial = serial;
  o->number = ++s->operations;
  o->bytes = bytes;
  memcpy(o->offset, offset, sizeof o->offset);
  uint32_t low = UINT32_MAX, high = 0;
  for (int l = 0; l < LANES; l++) {
    low = offset[l] < low ? offset[l] : low;
    high = offset[l] > high ? offset[l] : high;
  }
  s->low = low < s->low ? low : s->low;
  s->high = high + bytes > s->high ? high + bytes : s->high;
  if (s->high > w->group->lds_bytes) s->high = w->group->lds_bytes;
}

/* Where nothing is special: every byte that is accessed was written by this wave, or before the last barrier. */
typedef uint8_t Word1 __attribute__((may_alias));
typedef uint16_t Word2 __attribute__((may_alias, aligned(1)));
typedef uint32_t Word4 __attribute__((may_alias, aligned(1)));
typedef uint64_t Word8 __attribute__((may_alias, aligned(1)));
typedef uint64_t Word16 __attribute__((vector_size(16), may_alias, aligned(1)));

#define EACH_WORD(at) \
  for (unsigned l = 0; l < LANES; l++) \
    for (unsigned k = 0, at = offset[l]; k < words; k++, at += sizeof own)

#define FOR_WORDS(Word) \
  ALWAYS_INLINE bool read_##Word(LdsShadow *s, uint8_t code, const uint32_t offset[LANES], unsigned words) { \
    Word own, foreign = {0}, none = {0}; \
    memset(&own, code, sizeof own); \
    EACH_WORD(at) { \
      foreign |= *(Word *)(s->writers + at) & ~own; \
      *(Word *)(s->readers + at) |= own; \
    } \
    return memcmp(&foreign, &none, sizeof none) == 0; \
  } \
  ALWAYS_INLINE bool write_##Word(LdsShadow *s, uint8_t code, const uint32_t offset[LANES], unsigned words) { \
    Word own, other, foreign = {0}, none = {0}; \
    memset(&own, code, sizeof own); \
    memset(&other, CODE & ~code, sizeof other); \
    EACH_WORD(at) foreign |= (*(Word *)(s->writers + at) | *(Word *)(s->readers + at)) & other; \
    if (memcmp(&foreign, &none, sizeof none) != 0) return false; \
    EACH_WORD(at) *(Word *)(s->writers + at) = own; \
    return true; \
  } \
  ALWAYS_INLINE bool direct_##Word(LdsShadow *s, uint8_t wave, const uint32_t offset[LANES], unsigned words) { \
    Word own, note; \
    if (!write_##Word(s, code_of[wave], offset, words)) return false; \
    memset(&own, BY_NOTE, sizeof own); \
    memset(&note, wave | DIRECT_NOTE, sizeof note); \
    EACH_WORD(at) *(Word *)(s->writers + at) = own, *(Word *)(s->notes + at) = note; \
    return true; \
  }
FOR_WORDS(Word1)
FOR_WORDS(Word2)
FOR_WORDS(Word4)
FOR_WORDS(Word8)
FOR_WORDS(Word16)

#define BY_BYTES(access, s, code, offset, bytes) \
  ((bytes) == 16  ? access##_Word16(s, code, offset, 1) \
   : (bytes) == 8 ? access##_Word8(s, code, offset, 1) \
   : (bytes) == 4 ? access##_Word4(s, code, offset, 1) \
   : (bytes) == 2 ? access##_Word2(s, code, offset, 1) \
   : (bytes) == 1 ? access##_Word1(s, code, offset, 1) \
                  : access##_Word4(s, code, offset, (bytes) / 4))

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

/* Lanes that take no part have the offset of one that does, unless some are out of bounds. */
static bool is_usual(Wave *w, LdsAccess access, int counter, const uint32_t offset[LANES], uint64_t lanes,
                     unsigned bytes) {
  LdsShadow *s = w->group->lds_shadow;
  uint32_t highest = 0;
  for (int l = 0; l < LANES; l++) highest = offset[l] > highest ? offset[l] : highest;
  if (access == LDS_ATOMIC || (uint64_t)highest + bytes > w->group->lds_bytes) return false;
  if (access == LDS_READ) return BY_BYTES(read, s, code_of[w->id], offset, bytes);
  if (!are_apart(s, offset, lanes, bytes)) return false;
  if (counter == VM) return lanes == ~0ull && BY_BYTES(direct, s, (uint8_t)w->id, offset, bytes);
  return BY_BYTES(write, s, code_of[w->id], offset, bytes);
}

bool note_lds(Wave *w, const Instruction *i, LdsAccess access, int counter, uint32_t serial,
              const uint32_t offset[LANES], uint64_t lanes, unsigned bytes) {
  if (!w->group->lds_shadow || !lanes) return true;
  bool usual = is_usual(w, access, counter, offset, lanes, bytes);
  if (usual) record(w, i, kind_of(access, counter), serial, offset, lanes, bytes);
  return usual;
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
  if (!undefined && note_lds(w, i, access, counter, serial, offset, lanes, bytes)) return 0;
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
  record(w, i, kind_of(access, counter), serial, offset, lanes, bytes);
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
    FOR_LANES(lane, o->lanes) for (uint32_t at = o->offset[lane]; at < o->offset[lane] + o->bytes; at++) {
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
    w->checks->lds_operations[LDS_READS].count = 0;
    if (w->state == ENDED) continue;
    keep_outstanding(w, LDS_WRITES);
    keep_outstanding(w, LDS_DIRECT);
  }
  if (whole || s->kept) s->low = 0, s->high = group->lds_bytes;
  uint8_t *restrict writers = s->writers, *restrict readers = s->readers;
  for (size_t at = s->low, end = s->high; at < end; at++) {
    writers[at] &= readers[at] & KEPT ? CODE | UNDEFINED : UNDEFINED;
    readers[at] = 0;
  }
  s->low = UINT32_MAX, s->high = 0;
}
