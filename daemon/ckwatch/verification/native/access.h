/* What the instructions share that reach memory: where lanes access it, and the way between 64 places and registers. */
#ifndef ACCESS_H
#define ACCESS_H

#include "checks.h"
#include "values.h"

#define ROW(text, handler, destinations, bits) \
  {.name = text, .execute = handler, .results = destinations, .flags = IS_MEMORY, .detail = bits}

/* Row.detail of loads and stores: bytes, and how they are put into a register. */
enum { BYTES = 0xff, SIGNED = 0x100, D16 = 0x200, HIGH = 0x400 };

/* Where the lanes access memory: addresses, or offsets in LDS or in a lane's scratch. Lanes that take no part have the
 * value of the first one that does, so that loops over all lanes are harmless. */
typedef struct {
  uint64_t at[LANES];
  uint64_t lanes;
  uint64_t partial;     /* lanes of which only some bytes are in the range of a buffer: */
  uint8_t bytes[LANES]; /* these, from the first on */
  uint64_t scratch;     /* where the scratch of these offsets begins in the wave's */
} Places;

typedef enum { MEMORY, SCRATCH } Space;

static inline const Region *region_with(Wave *w, uint64_t address, uint64_t bytes) {
  const Region *region = w->last_region;
  if (!region || address - region->base >= region->size) {
    region = region_of(address);
    if (!region) return NULL;
    w->last_region = region;
    w->shares |= region->kind == DEVICE_MEMORY || region->kind == HOST_MEMORY || region->kind == DEVICE_HEAP;
  }
  return region->size - (address - region->base) >= bytes ? region : NULL;
}

typedef struct {
  uint64_t low, high;
} Reach;

static inline Reach reach_of(const Places *p) {
  Reach r = {~0ull, 0};
  for (int l = 0; l < LANES; l++) {
    r.low = p->at[l] < r.low ? p->at[l] : r.low;
    r.high = p->at[l] > r.high ? p->at[l] : r.high;
  }
  return r;
}

/* The one region that holds what all lanes access, or NULL. */
static inline const Region *common_region(Wave *w, Reach r, unsigned bytes) {
  const Region *region = region_with(w, r.low, 1);
  return region && r.high - region->base + bytes <= region->size ? region : NULL;
}

static inline void fill_places(Places *p) {
  if (p->lanes == ~0ull || p->lanes == 0) return;
  uint64_t first = p->at[__builtin_ctzll(p->lanes)];
  for (int l = 0; l < LANES; l++) p->at[l] = p->lanes >> l & 1 ? p->at[l] : first;
}

static inline void finding(Wave *w, const Instruction *i, FindingKind kind, int lane, uint64_t address,
                           uint32_t bytes) {
  report(w, &(Finding){.kind = kind, .at = i, .lane = lane, .other_wave = -1, .other_lane = -1, .address = address,
                       .bytes = bytes, .has_address = true});
}

/* ---- Between 64 places and registers ----------------------------------------------------------------------------- */
typedef uint32_t Quad __attribute__((vector_size(16)));
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Quad){__VA_ARGS__})
#endif

static inline void transpose(Quad q[4]) {
  Quad a = SHUFFLE(q[0], q[1], 0, 4, 1, 5), b = SHUFFLE(q[0], q[1], 2, 6, 3, 7);
  Quad c = SHUFFLE(q[2], q[3], 0, 4, 1, 5), d = SHUFFLE(q[2], q[3], 2, 6, 3, 7);
  q[0] = SHUFFLE(a, c, 0, 1, 4, 5);
  q[1] = SHUFFLE(a, c, 2, 3, 6, 7);
  q[2] = SHUFFLE(b, d, 0, 1, 4, 5);
  q[3] = SHUFFLE(b, d, 2, 3, 6, 7);
}

/* Reads at each lane's offset. No row may hold the offsets. */
static inline void gather(uint32_t *const rows[4], const uint8_t *base, const uint32_t offset[LANES],
                          const Layout *layout, unsigned bytes) {
  switch (bytes) {
    case 1:
      for (int l = 0; l < LANES; l++) rows[0][l] = base[offset[l]];
      break;
    case 2:
      for (int l = 0; l < LANES; l++) {
        uint16_t value;
        memcpy(&value, base + offset[l], 2);
        rows[0][l] = value;
      }
      break;
    case 4: gather_words(rows, base, offset, layout, 4); break;
    case 8: gather_words(rows, base, offset, layout, 8); break;
    case 12: gather_words(rows, base, offset, layout, 12); break;
    default: gather_words(rows, base, offset, layout, 16);
  }
}

/* The bytes of one lane of a store. */
static inline void lane_bytes(const Wave *w, unsigned index, unsigned lane, uint32_t detail, uint32_t out[4]) {
  unsigned bytes = detail & BYTES;
  if (bytes < 4) out[0] = w->v[index][lane] >> (detail & HIGH ? 16 : 0);
  else
    for (unsigned k = 0; k < bytes / 4; k++) out[k] = w->v[index + k][lane];
}

/* Each lane's place of a chunk is behind that of the lane before. */
static inline bool in_a_row(const uint64_t at[CHUNK], uint64_t bytes) {
  uint64_t gaps = 0;
  for (unsigned l = 0; l < CHUNK; l++) gaps |= at[l] ^ (at[0] + l * bytes);
  return !gaps;
}

static inline void scatter(const Wave *w, unsigned index, const uint64_t at[LANES], uint64_t all, uint32_t detail) {
  unsigned bytes = detail & BYTES, shift = detail & HIGH ? 16 : 0, lane;
  for (unsigned first = 0; first < LANES; first += CHUNK) {
    uint64_t lanes = all & 0xffffull << first;
    const uint32_t *rows[4];
    for (unsigned k = 0; k < 4; k++) rows[k] = w->v[index + (k < bytes / 4 ? k : 0)] + first;
    uint8_t *to = (uint8_t *)(uintptr_t)at[first];
    bool whole = lanes >> first == 0xffff, row = whole && bytes >= 4 && in_a_row(at + first, bytes);
    if (row && bytes == 4) put_words(to, rows, 1);
    else if (row && bytes == 8) put_words(to, rows, 2);
    else if (row && bytes == 16) put_words(to, rows, 4);
    else if (whole && bytes == 16)
      for (unsigned l = 0; l < CHUNK; l += 4) {
        Quad q[4];
        for (unsigned k = 0; k < 4; k++) memcpy(&q[k], rows[k] + l, 16);
        transpose(q);
        for (unsigned k = 0; k < 4; k++) memcpy((void *)(uintptr_t)at[first + l + k], &q[k], 16);
      }
    else if (bytes == 1) FOR_LANES(lane, lanes) *(uint8_t *)(uintptr_t)at[lane] = (uint8_t)(w->v[index][lane] >> shift);
    else if (bytes == 2)
      FOR_LANES(lane, lanes) {
        uint16_t value = (uint16_t)(w->v[index][lane] >> shift);
        memcpy((void *)(uintptr_t)at[lane], &value, 2);
      }
    else if (bytes == 4) FOR_LANES(lane, lanes) memcpy((void *)(uintptr_t)at[lane], &w->v[index][lane], 4);
    else
      FOR_LANES(lane, lanes) {
        uint32_t values[4];
        lane_bytes(w, index, lane, detail, values);
        memcpy((void *)(uintptr_t)at[lane], values, bytes);
      }
  }
}

static inline uint32_t shaped(uint32_t raw, uint32_t detail) {
  switch (detail & (BYTES | SIGNED)) {
    case 1: raw = (uint8_t)raw; break;
    case 2: raw = (uint16_t)raw; break;
    case 1 | SIGNED: raw = (uint32_t)(int8_t)raw; break;
    case 2 | SIGNED: raw = (uint32_t)(int16_t)raw; break;
  }
  if (detail & D16) raw = detail & HIGH ? raw << 16 : raw & 0xffff;
  return raw;
}

/* The halves of a register that a load writes. */
static inline unsigned loaded_halves(Arch arch, uint32_t detail) {
  return detail & D16 && !has_register_ecc(arch) ? (detail & HIGH ? UPPER_HALF : LOWER_HALF) : BOTH_HALVES;
}
static inline unsigned stored_halves(uint32_t detail) {
  return (detail & BYTES) > 2 ? BOTH_HALVES : detail & HIGH ? UPPER_HALF : LOWER_HALF;
}
static inline uint32_t kept_bits(const Wave *w, uint32_t detail) {
  unsigned halves = loaded_halves(w->launch->arch, detail);
  return halves == UPPER_HALF ? 0xffff : halves == LOWER_HALF ? 0xffff0000u : 0;
}

/* Puts what was read into the registers of the lanes. */
static inline void deliver(Wave *w, unsigned index, uint64_t lanes, uint32_t detail, uint32_t *const rows[4]) {
  unsigned bytes = detail & BYTES;
  uint32_t kept = kept_bits(w, detail);
  if (bytes < 4)
    for (int l = 0; l < LANES; l++) rows[0][l] = shaped(rows[0][l], detail) | (w->v[index][l] & kept);
  for (unsigned k = 0; k < (bytes + 3) / 4; k++) {
    uint32_t *row = w->v[index + k];
    if (row == rows[k]) continue;
    if (lanes == ~0ull) memcpy(row, rows[k], sizeof(Lanes));
    else choose_lanes(row, lanes, rows[k], row);
  }
}

typedef struct {
  alignas(64) uint32_t values[4][LANES];
  uint32_t *row[4];
} Rows;

/* Rows to read into: the registers themselves if all of them are written as they are read. */
static inline void choose_rows(Wave *w, Rows *rows, unsigned index, uint64_t lanes, unsigned bytes) {
  for (unsigned k = 0; k < 4; k++)
    rows->row[k] = lanes == ~0ull && bytes >= 4 && k < bytes / 4 ? w->v[index + k] : rows->values[k];
}

/* The shadows of what `deliver` has put into registers; `counter` is -1 where the caller notes what is expected. */
void check_doubtful_load(Wave *w, const Instruction *i, unsigned index, uint64_t lanes, uint32_t detail,
                         uint64_t undefined, LoadShadow shadow, int counter);
static inline void checked_load(Wave *w, const Instruction *i, unsigned index, uint64_t lanes, uint32_t detail,
                                uint64_t undefined, LoadShadow shadow, int counter) {
  const WaveChecks *c = w->checks;
  unsigned count = ((detail & BYTES) + 3) / 4;
  if (undefined || any_of(c->undefined, index, count) || any_of(c->in_flight, index, count))
    check_doubtful_load(w, i, index, lanes, detail, undefined, shadow, counter);
}
/* The lanes that read undefined bytes of a region, and which. */
uint64_t undefined_memory(const Region *region, const Places *p, uint64_t lanes, unsigned bytes, LoadShadow shadow);

/* ---- Descriptors of buffers -------------------------------------------------------------------------------------- */
typedef struct {
  uint64_t base;
  uint32_t stride, records, index_stride, format, number_format;
  bool swizzle, add_lane;
  uint8_t select[4];
} Descriptor;

static inline Descriptor descriptor_of(const Wave *w, const Operand *o) {
  const uint32_t *s = &w->s[o->index];
  Descriptor d = {.base = (uint64_t)(s[1] & 0xffff) << 32 | s[0],
                  .stride = s[1] >> 16 & 0x3fff,
                  .records = s[2],
                  .swizzle = s[1] >> 31,
                  .index_stride = 8u << (s[3] >> 21 & 3),
                  .add_lane = s[3] >> 23 & 1,
                  .number_format = s[3] >> 12 & 7,
                  .format = s[3] >> 15 & 15};
  for (int n = 0; n < 4; n++) d.select[n] = s[3] >> 3 * n & 7;
  return d;
}

#endif
