/* Memory: the regions that the process has allocated, and the instructions that reach them: buffer, global, flat,
 * scratch, LDS and scalar memory.
 *
 * Semantics: "AMD Instinct CDNA4 Instruction Set Architecture", chapters 8 to 11 and 12.10 to 12.15. Beyond these:
 *   - Loads of 8 and 16 bits with _d16 write the whole register, the other half with 0: registers with ECC, which these
 *     GPUs always have, cannot be written in part (9.1.6; LLVM: SRAMECC, d16PreservesUnusedBits).
 *   - Accesses need no alignment: ROCm enables the unaligned access mode (AMDGPUUsage, unaligned-access-mode). Atomics
 *     and the transposing LDS reads must be aligned.
 *   - The range of a buffer is tested as gfx950 was seen to (AMD, rocm-systems #10928): the offset in an SGPR counts,
 *     the sum of the other two wraps at 32 bits, each dword is in it as a whole or not at all; swizzling needs
 *     add_tid_enable, and an index in a VGPR takes the lane's place where nothing is swizzled.
 *   - Memory atomics on f32 flush denormals on gfx90a only (LLVM: FeatureMemoryAtomicFAddF32DenormalSupport).
 *   - s_memtime and s_memrealtime count the instructions that the wave has executed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "checks.h"
#include "values.h"

#define NO_INLINE __attribute__((noinline))
#define FOR_LANES(lane, lanes) \
  for (uint64_t rest_ = (lanes); rest_ && ((lane) = (unsigned)__builtin_ctzll(rest_), true); rest_ &= rest_ - 1)

/* ---- Regions ----------------------------------------------------------------------------------------------------- */

/* Readers take the whole list with one load. Old lists are kept for a while, and regions are never freed but used
 * again, so that a reader which was overtaken by a change reads something stale and never something freed. */
typedef struct {
  uint32_t count;
  struct {
    uint64_t base;
    Region *region;
  } at[];
} Regions;

enum { OLD_LISTS = 256 };
static _Atomic(Regions *) regions;
static Regions *old_lists[OLD_LISTS];
static uint32_t next_old_list;
static Region *unused_regions; /* chained through `base` */
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

static void *allocate(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (!memory) abort();
  return memory;
}

/* The number of regions that begin at or below an address. */
static uint32_t position_of(const Regions *all, uint64_t address) {
  uint32_t low = 0, high = all ? all->count : 0;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (all->at[middle].base <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void publish(Regions *list) {
  Regions *old = atomic_exchange_explicit(&regions, list, memory_order_acq_rel);
  free(old_lists[next_old_list]);
  old_lists[next_old_list] = old;
  next_old_list = (next_old_list + 1) % OLD_LISTS;
}

static void discard(Region *region) {
  free(region->undefined);
  *region = (Region){.base = (uint64_t)(uintptr_t)unused_regions};
  unused_regions = region;
}

static bool remove_locked(uint64_t base) {
  Regions *all = atomic_load(&regions);
  uint32_t n = position_of(all, base);
  if (n == 0 || all->at[n - 1].base != base) return false;
  Regions *list = allocate(sizeof *list + (all->count - 1) * sizeof list->at[0]);
  list->count = all->count - 1;
  memcpy(list->at, all->at, (n - 1) * sizeof list->at[0]);
  memcpy(list->at + n - 1, all->at + n, (all->count - n) * sizeof list->at[0]);
  Region *gone = all->at[n - 1].region;
  publish(list);
  discard(gone);
  return true;
}

void add_region(uint64_t base, uint64_t size, RegionKind kind) {
  if (size == 0) return;
  pthread_mutex_lock(&regions_lock);
  remove_locked(base);
  Region *region = unused_regions;
  if (region) unused_regions = (Region *)(uintptr_t)region->base;
  else region = allocate(sizeof *region);
  *region = (Region){.base = base, .size = size, .kind = kind};
  Regions *all = atomic_load(&regions);
  uint32_t count = all ? all->count : 0, n = position_of(all, base);
  Regions *list = allocate(sizeof *list + (count + 1) * sizeof list->at[0]);
  list->count = count + 1;
  if (n) memcpy(list->at, all->at, n * sizeof list->at[0]);
  list->at[n].base = base;
  list->at[n].region = region;
  if (count > n) memcpy(list->at + n + 1, all->at + n, (count - n) * sizeof list->at[0]);
  publish(list);
  pthread_mutex_unlock(&regions_lock);
}

bool remove_region(uint64_t base) {
  pthread_mutex_lock(&regions_lock);
  bool found = remove_locked(base);
  pthread_mutex_unlock(&regions_lock);
  return found;
}

const Region *region_of(uint64_t address) {
  const Regions *all = atomic_load_explicit(&regions, memory_order_acquire);
  uint32_t n = position_of(all, address);
  if (n == 0) return NULL;
  const Region *region = all->at[n - 1].region;
  return address - region->base < region->size ? region : NULL;
}

const Region *nearest_region(uint64_t address) {
  const Regions *all = atomic_load_explicit(&regions, memory_order_acquire);
  uint32_t n = position_of(all, address);
  const Region *below = n ? all->at[n - 1].region : NULL, *above = all && n < all->count ? all->at[n].region : NULL;
  if (!below || !above) return below ? below : above;
  uint64_t end = below->base + below->size;
  return address < end || address - end < above->base - address ? below : above;
}

void mark_undefined(uint64_t address, uint64_t size, bool undefined) {
  pthread_mutex_lock(&regions_lock);
  while (size) {
    Region *region = (Region *)region_of(address);
    if (!region) {
      const Regions *all = atomic_load(&regions);
      uint32_t n = position_of(all, address);
      if (!all || n == all->count || all->at[n].base - address >= size) break;
      size -= all->at[n].base - address;
      address = all->at[n].base;
      continue;
    }
    uint64_t start = address - region->base, here = region->size - start < size ? region->size - start : size;
    if (undefined && !region->undefined) region->undefined = allocate(region->size);
    if (region->undefined) memset(region->undefined + start, undefined, here);
    uint64_t end = start + here, from = region->undefined_from, to = region->undefined_to;
    if (undefined && from >= to) from = start, to = end;
    else if (undefined) from = start < from ? start : from, to = end > to ? end : to;
    else if (start <= from && from < end) from = end;
    else if (start < to && to <= end) to = start;
    region->undefined_from = from;
    region->undefined_to = to;
    address += here;
    size -= here;
  }
  pthread_mutex_unlock(&regions_lock);
}

uint64_t count_undefined(uint64_t address, uint64_t size, uint64_t *first) {
  uint64_t count = 0;
  pthread_mutex_lock(&regions_lock);
  const Region *region = region_of(address);
  if (region && region->undefined) {
    uint64_t start = address - region->base, end = region->size - start < size ? region->size : start + size;
    for (uint64_t n = start; n < end; n++)
      if (region->undefined[n] && count++ == 0 && first) *first = region->base + n;
  }
  pthread_mutex_unlock(&regions_lock);
  return count;
}

/* ---- What an access is ------------------------------------------------------------------------------------------- */

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

typedef enum { MEMORY, LDS, SCRATCH } Space;

static void finding(Wave *w, const Instruction *i, FindingKind kind, int lane, uint64_t address, uint32_t bytes) {
  report(w, &(Finding){.kind = kind, .at = i, .lane = lane, .other_wave = -1, .other_lane = -1, .address = address,
                       .bytes = bytes, .has_address = true});
}

static NO_INLINE void cannot_execute(Wave *w, const Instruction *i, const char *why) {
  Finding f = {.kind = UNKNOWN_INSTRUCTION, .at = i, .lane = -1, .other_wave = -1, .other_lane = -1};
  snprintf(f.note, sizeof f.note, "%s", why);
  report_and_stop(w, &f);
}

static const Region *region_with(Wave *w, uint64_t address, uint64_t bytes) {
  const Region *region = w->last_region;
  if (!region || address - region->base >= region->size) {
    region = region_of(address);
    if (!region) return NULL;
    w->last_region = region;
    w->shares |= region->kind == DEVICE_MEMORY || region->kind == HOST_MEMORY;
  }
  return region->size - (address - region->base) >= bytes ? region : NULL;
}

/* The one region that holds what all lanes access, or NULL. */
static inline const Region *common_region(Wave *w, const Places *p, unsigned bytes) {
  uint64_t low = ~0ull, high = 0;
  for (int l = 0; l < LANES; l++) {
    low = p->at[l] < low ? p->at[l] : low;
    high = p->at[l] > high ? p->at[l] : high;
  }
  const Region *region = region_with(w, low, 1);
  return region && high - region->base + bytes <= region->size ? region : NULL;
}

static inline void fill_places(Places *p) {
  if (p->lanes == ~0ull || p->lanes == 0) return;
  uint64_t first = p->at[__builtin_ctzll(p->lanes)];
  for (int l = 0; l < LANES; l++) p->at[l] = p->lanes >> l & 1 ? p->at[l] : first;
}

/* ---- Between 64 places and registers ----------------------------------------------------------------------------- */
typedef uint32_t Quad __attribute__((vector_size(16)));
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Quad){__VA_ARGS__})
#endif

static inline uint32_t load_32(uint64_t at) {
  uint32_t value;
  memcpy(&value, (const void *)(uintptr_t)at, 4);
  return value;
}

static inline void transpose(Quad q[4]) {
  Quad a = SHUFFLE(q[0], q[1], 0, 4, 1, 5), b = SHUFFLE(q[0], q[1], 2, 6, 3, 7);
  Quad c = SHUFFLE(q[2], q[3], 0, 4, 1, 5), d = SHUFFLE(q[2], q[3], 2, 6, 3, 7);
  q[0] = SHUFFLE(a, c, 0, 1, 4, 5);
  q[1] = SHUFFLE(a, c, 2, 3, 6, 7);
  q[2] = SHUFFLE(b, d, 0, 1, 4, 5);
  q[3] = SHUFFLE(b, d, 2, 3, 6, 7);
}

static inline void gather(uint32_t *const rows[4], const uint64_t at[LANES], unsigned bytes) {
  switch (bytes) {
    case 1:
      for (int l = 0; l < LANES; l++) rows[0][l] = *(const uint8_t *)(uintptr_t)at[l];
      break;
    case 2:
      for (int l = 0; l < LANES; l++) {
        uint16_t value;
        memcpy(&value, (const void *)(uintptr_t)at[l], 2);
        rows[0][l] = value;
      }
      break;
    case 4:
      for (int l = 0; l < LANES; l++) rows[0][l] = load_32(at[l]);
      break;
    case 8:
      for (int l = 0; l < LANES; l++) {
        uint64_t value;
        memcpy(&value, (const void *)(uintptr_t)at[l], 8);
        rows[0][l] = (uint32_t)value;
        rows[1][l] = (uint32_t)(value >> 32);
      }
      break;
    case 12:
      for (int l = 0; l < LANES; l++)
        for (int k = 0; k < 3; k++) rows[k][l] = load_32(at[l] + 4 * (unsigned)k);
      break;
    default:
      for (int l = 0; l < LANES; l += 4) {
        Quad q[4];
        for (int k = 0; k < 4; k++) memcpy(&q[k], (const void *)(uintptr_t)at[l + k], 16);
        transpose(q);
        for (int k = 0; k < 4; k++) memcpy(&rows[k][l], &q[k], 16);
      }
  }
}

/* The bytes of one lane of a store. */
static inline void lane_bytes(const Wave *w, unsigned index, unsigned lane, uint32_t detail, uint32_t out[4]) {
  unsigned bytes = detail & BYTES;
  if (bytes < 4) out[0] = w->v[index][lane] >> (detail & HIGH ? 16 : 0);
  else
    for (unsigned k = 0; k < bytes / 4; k++) out[k] = w->v[index + k][lane];
}

static inline void scatter(const Wave *w, unsigned index, const uint64_t at[LANES], uint64_t lanes, uint32_t detail) {
  unsigned bytes = detail & BYTES, lane;
  if (bytes == 16 && lanes == ~0ull) {
    for (int l = 0; l < LANES; l += 4) {
      Quad q[4];
      for (int k = 0; k < 4; k++) memcpy(&q[k], &w->v[index + (unsigned)k][l], 16);
      transpose(q);
      for (int k = 0; k < 4; k++) memcpy((void *)(uintptr_t)at[l + k], &q[k], 16);
    }
    return;
  }
  const uint32_t *row = w->v[index];
  unsigned shift = detail & HIGH ? 16 : 0;
  switch (bytes) {
    case 1:
      FOR_LANES(lane, lanes) *(uint8_t *)(uintptr_t)at[lane] = (uint8_t)(row[lane] >> shift);
      break;
    case 2:
      FOR_LANES(lane, lanes) {
        uint16_t value = (uint16_t)(row[lane] >> shift);
        memcpy((void *)(uintptr_t)at[lane], &value, 2);
      }
      break;
    case 4:
      FOR_LANES(lane, lanes) memcpy((void *)(uintptr_t)at[lane], &row[lane], 4);
      break;
    default:
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

static uint32_t mask_of(uint32_t detail) { /* the bits of a register that a store takes */
  uint32_t mask = (detail & BYTES) == 1 ? 0xff : (detail & BYTES) == 2 ? 0xffff : ~0u;
  return detail & HIGH ? mask << 16 : mask;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static inline uint64_t load_64(const uint8_t *from, unsigned bytes) {
  uint64_t value = 0;
  memcpy(&value, from, bytes);
  return value;
}

static inline bool any_undefined(const uint8_t *undefined, unsigned bytes) {
  switch (bytes) {
    case 16: return load_64(undefined, 8) | load_64(undefined + 8, 8);
    case 12: return load_64(undefined, 8) | load_64(undefined + 8, 4);
    case 8: return load_64(undefined, 8);
    case 4: return load_64(undefined, 4);
    case 2: return load_64(undefined, 2);
    case 1: return *undefined;
    default: /* a part of a dword at the end of a buffer */
      for (unsigned n = 0; n < bytes; n++)
        if (undefined[n]) return true;
      return false;
  }
}

/* The lanes that read undefined bytes, and which. */
static NO_INLINE uint64_t undefined_memory(const Region *region, const Places *p, uint64_t lanes, unsigned bytes,
                                           LoadShadow shadow) {
  uint64_t found = 0;
  unsigned lane;
  FOR_LANES(lane, lanes) {
    const uint8_t *undefined = region->undefined + (p->at[lane] - region->base);
    if (!any_undefined(undefined, bytes)) continue;
    memset(shadow[lane], 0, sizeof shadow[lane]);
    for (unsigned n = 0; n < bytes; n++)
      if (undefined[n]) shadow[lane][n / 4] |= 0xffu << n % 4 * 8;
    found |= 1ull << lane;
  }
  return found;
}

/* One byte in doubt makes each lane be looked at; most often the bytes of all lanes are one range without any. */
static uint64_t undefined_of_region(const Region *region, const Places *p, unsigned bytes, LoadShadow shadow) {
  uint64_t low = ~0ull, high = 0;
  for (int l = 0; l < LANES; l++) {
    low = p->at[l] < low ? p->at[l] : low;
    high = p->at[l] > high ? p->at[l] : high;
  }
  if (low - region->base >= region->undefined_to || high - region->base + bytes <= region->undefined_from) return 0;
  if (high - low <= 4096 && !memchr(region->undefined + (low - region->base), 1, high - low + bytes)) return 0;
  return undefined_memory(region, p, p->lanes, bytes, shadow);
}

static NO_INLINE uint64_t fetch_memory_by_lane(Wave *w, const Instruction *i, const Places *p, unsigned bytes,
                                               uint32_t *const rows[4], LoadShadow shadow) {
  uint64_t undefined = 0;
  unsigned lane;
  for (unsigned k = 0; k < (bytes + 3) / 4; k++) memset(rows[k], 0, sizeof(Lanes));
  FOR_LANES(lane, p->lanes) {
    unsigned wanted = p->partial >> lane & 1 ? p->bytes[lane] : bytes;
    if (wanted == 0) continue;
    const Region *region = region_with(w, p->at[lane], wanted);
    if (!region) {
      finding(w, i, OUT_OF_BOUNDS_READ, (int)lane, p->at[lane], wanted);
      continue;
    }
    uint32_t values[4] = {0};
    memcpy(values, (const void *)(uintptr_t)p->at[lane], wanted);
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) rows[k][lane] = values[k];
    if (w->checks && region->undefined) undefined |= undefined_memory(region, p, 1ull << lane, wanted, shadow);
  }
  return undefined;
}

static inline uint64_t fetch_memory(Wave *w, const Instruction *i, const Places *p, unsigned bytes,
                                    uint32_t *const rows[4], LoadShadow shadow) {
  const Region *region = p->partial ? NULL : common_region(w, p, bytes);
  if (!region) return fetch_memory_by_lane(w, i, p, bytes, rows, shadow);
  gather(rows, p->at, bytes);
  return w->checks && region->undefined ? undefined_of_region(region, p, bytes, shadow) : 0;
}

/* Lanes whose bytes the workgroup has; the others are reported. */
static NO_INLINE uint64_t lds_lanes_by_lane(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes,
                                            unsigned bytes) {
  unsigned lane;
  uint64_t good = lanes;
  FOR_LANES(lane, lanes) if ((uint64_t)offset[lane] + bytes > w->group->lds_bytes) {
    Finding f = {.kind = LDS_OUT_OF_BOUNDS, .at = i, .lane = (int)lane, .other_wave = -1, .other_lane = -1,
                 .address = offset[lane], .bytes = bytes, .has_address = true};
    snprintf(f.note, sizeof f.note, "the workgroup has %u bytes of LDS", w->group->lds_bytes);
    report(w, &f);
    good &= ~(1ull << lane);
  }
  return good;
}

static inline uint64_t lds_lanes(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes,
                                 unsigned bytes) {
  uint32_t high = 0;
  for (int l = 0; l < LANES; l++) high = offset[l] > high ? offset[l] : high;
  if ((uint64_t)high + bytes <= w->group->lds_bytes) return lanes;
  return lds_lanes_by_lane(w, i, offset, lanes, bytes);
}

static inline uint64_t fetch_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes,
                                 unsigned bytes, uint32_t serial, uint32_t *const rows[4], LoadShadow shadow) {
  uint64_t good = lds_lanes(w, i, offset, lanes, bytes), at[LANES];
  uint64_t base = (uint64_t)(uintptr_t)w->group->lds;
  if (good == lanes) {
    for (int l = 0; l < LANES; l++) at[l] = base + offset[l];
    gather(rows, at, bytes);
  } else {
    unsigned lane;
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) memset(rows[k], 0, sizeof(Lanes));
    FOR_LANES(lane, good) {
      uint32_t values[4] = {0};
      memcpy(values, w->group->lds + offset[lane], bytes);
      for (unsigned k = 0; k < (bytes + 3) / 4; k++) rows[k][lane] = values[k];
    }
  }
  if (!w->checks) return 0;
  return check_lds(w, i, LDS_READ, LGKM, serial, offset, good, bytes, NULL, NULL, shadow);
}

/* Scratch of one lane: its dwords are 256 bytes apart. */
static inline uint64_t scratch_at(const Places *p, unsigned lane, uint64_t byte) {
  uint64_t offset = p->at[lane] + byte;
  return p->scratch + ((offset >> 2) * LANES + lane) * 4 + (offset & 3);
}

static uint8_t *scratch_shadow(Wave *w) {
  uint64_t bytes = (uint64_t)w->scratch_bytes * LANES;
  if (w->checks->scratch && w->checks->scratch_bytes != bytes) {
    free(w->checks->scratch);
    w->checks->scratch = NULL;
  }
  if (!w->checks->scratch) {
    w->checks->scratch = malloc(bytes ? bytes : 1);
    if (!w->checks->scratch) abort();
    memset(w->checks->scratch, 0xff, bytes);
    w->checks->scratch_bytes = bytes;
  }
  return w->checks->scratch;
}

static bool scratch_holds(Wave *w, const Instruction *i, const Places *p, unsigned lane, unsigned bytes, bool writes) {
  if (p->at[lane] <= UINT32_MAX && scratch_at(p, lane, bytes - 1) < (uint64_t)w->scratch_bytes * LANES) return true;
  Finding f = {.kind = writes ? OUT_OF_BOUNDS_WRITE : OUT_OF_BOUNDS_READ, .at = i, .lane = (int)lane, .other_wave = -1,
               .other_lane = -1};
  snprintf(f.note, sizeof f.note, "scratch: byte %llu of %u of a work-item", (unsigned long long)p->at[lane],
           w->scratch_bytes);
  report(w, &f);
  return false;
}

static uint64_t fetch_scratch(Wave *w, const Instruction *i, const Places *p, unsigned bytes, uint32_t *const rows[4],
                              LoadShadow shadow) {
  uint64_t undefined = 0;
  unsigned lane;
  const uint8_t *unknown = w->checks ? scratch_shadow(w) : NULL;
  for (unsigned k = 0; k < (bytes + 3) / 4; k++) memset(rows[k], 0, sizeof(Lanes));
  FOR_LANES(lane, p->lanes) {
    if (!scratch_holds(w, i, p, lane, bytes, false)) continue;
    uint32_t values[4] = {0}, shadows[4] = {0};
    for (unsigned n = 0; n < bytes; n++) {
      uint64_t at = scratch_at(p, lane, n);
      ((uint8_t *)values)[n] = w->scratch[at];
      if (unknown) ((uint8_t *)shadows)[n] = unknown[at];
    }
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) rows[k][lane] = values[k];
    if (shadows[0] | shadows[1] | shadows[2] | shadows[3]) {
      memcpy(shadow[lane], shadows, sizeof shadows);
      undefined |= 1ull << lane;
    }
  }
  return undefined;
}

/* What a load leaves as it is: gfx1100 has no ECC in registers. */
static inline uint32_t kept_bits(const Wave *w, uint32_t detail) {
  return detail & D16 && w->launch->arch == GFX1100 ? (detail & HIGH ? 0xffff : 0xffff0000u) : 0;
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
    else
      for (int l = 0; l < LANES; l++) row[l] = lanes >> l & 1 ? rows[k][l] : row[l];
  }
}

static NO_INLINE void checked_load(Wave *w, const Instruction *i, unsigned index, uint64_t lanes, uint32_t detail,
                                   uint64_t undefined, LoadShadow shadow, int counter) {
  unsigned bytes = detail & BYTES, count = (bytes + 3) / 4, lane;
  if (bytes < 4) FOR_LANES(lane, undefined) shadow[lane][0] = shaped(shadow[lane][0], detail);
  uint32_t kept = kept_bits(w, detail);
  if (kept && w->checks->undefined_lanes[index] & lanes) {
    const uint32_t *row = prepare_row(w->checks, index);
    FOR_LANES(lane, lanes) {
      shadow[lane][0] = (undefined >> lane & 1 ? shadow[lane][0] : 0) | (row[lane] & kept);
      undefined |= (uint64_t)(shadow[lane][0] != 0) << lane;
    }
  }
  check_result(w, i, index, count, lanes, counter);
  put_loaded(w, i, index, count, lanes, undefined, shadow);
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

static inline void load(Wave *w, const Instruction *i, const Places *p, Space space, uint32_t detail, unsigned index) {
  unsigned bytes = detail & BYTES;
  Rows rows;
  LoadShadow shadow;
  if (p->lanes) {
    choose_rows(w, &rows, index, p->lanes, bytes);
    uint64_t undefined = space == MEMORY ? fetch_memory(w, i, p, bytes, rows.row, shadow)
                                         : fetch_scratch(w, i, p, bytes, rows.row, shadow);
    deliver(w, index, p->lanes, detail, rows.row);
    if (w->checks) checked_load(w, i, index, p->lanes, detail, undefined, shadow, VM);
  }
  if (w->checks) expect(w, i, VM, index, (bytes + 3) / 4, p->lanes, 0);
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* Lanes of one store that write different values to the same address. */
static NO_INLINE void find_conflicts(Wave *w, const Instruction *i, const Places *p, uint64_t lanes, uint32_t detail,
                                      unsigned index) {
  enum { SLOTS = 256 };
  unsigned lane, bytes = detail & BYTES;
  uint8_t slots[SLOTS];
  memset(slots, 0xff, sizeof slots);
  FOR_LANES(lane, lanes) {
    uint32_t slot = (uint32_t)((p->at[lane] / bytes * 0x9e3779b97f4a7c15ull) >> 56);
    for (; slots[slot] != 0xff && p->at[slots[slot]] != p->at[lane]; slot = (slot + 1) % SLOTS) {}
    if (slots[slot] == 0xff) {
      slots[slot] = (uint8_t)lane;
      continue;
    }
    uint32_t one[4] = {0}, other[4] = {0};
    lane_bytes(w, index, slots[slot], detail, one);
    lane_bytes(w, index, lane, detail, other);
    if (memcmp(one, other, bytes) == 0) continue;
    report(w, &(Finding){.kind = WRITE_CONFLICT, .at = i, .lane = (int)lane, .other_wave = (int)w->id,
                         .other_lane = slots[slot], .address = p->at[lane], .bytes = bytes, .has_address = true});
    return;
  }
}

static void check_conflicts(Wave *w, const Instruction *i, const Places *p, uint64_t lanes, uint32_t detail,
                            unsigned index) {
  uint64_t overlaps = 0, bytes = detail & BYTES;
  if (lanes == ~0ull) {
    for (int l = 1; l < LANES; l++) overlaps |= p->at[l] < p->at[l - 1] + bytes;
  } else {
    uint64_t before = 0;
    unsigned lane;
    FOR_LANES(lane, lanes) {
      overlaps |= p->at[lane] < before;
      before = p->at[lane] + bytes;
    }
  }
  if (overlaps) find_conflicts(w, i, p, lanes, detail, index);
}

static NO_INLINE void checked_store(Wave *w, const Instruction *i, const Places *p, uint64_t lanes, uint32_t detail,
                                    unsigned index) {
  unsigned bytes = detail & BYTES, count = (bytes + 3) / 4, lane;
  WaveChecks *c = w->checks;
  check_stored(w, i, index, count, lanes, mask_of(detail));
  check_conflicts(w, i, p, lanes, detail, index);
  bool doubtful = any_of(c->undefined, index, count);
  const Region *all = p->partial || lanes != ~0ull ? NULL : common_region(w, p, bytes);
  if (all && !all->undefined) return;
  if (all && !doubtful) {
    uint64_t gaps = 0;
    for (int l = 1; l < LANES; l++) gaps |= p->at[l] ^ (p->at[l - 1] + bytes);
    if (!gaps) {
      memset(all->undefined + (p->at[0] - all->base), 0, LANES * bytes);
      return;
    }
  }
  FOR_LANES(lane, lanes) {
    unsigned wanted = p->partial >> lane & 1 ? p->bytes[lane] : bytes;
    const Region *region = region_with(w, p->at[lane], wanted);
    if (!region || !region->undefined) continue;
    uint8_t *undefined = region->undefined + (p->at[lane] - region->base);
    memset(undefined, 0, wanted);
    if (!doubtful) continue;
    ((Region *)region)->undefined_from = 0;
    ((Region *)region)->undefined_to = region->size;
    for (unsigned k = 0; k < count; k++) {
      if (!(c->undefined_lanes[index + k] >> lane & 1)) continue;
      uint32_t bits = prepare_row(c, index + k)[lane] >> (detail & HIGH ? 16 : 0);
      for (unsigned n = 0; n < 4 && 4 * k + n < wanted; n++) undefined[4 * k + n] = (bits >> n * 8 & 0xff) != 0;
    }
  }
}

static NO_INLINE uint64_t store_memory_by_lane(Wave *w, const Instruction *i, const Places *p, uint32_t detail,
                                               unsigned index) {
  unsigned bytes = detail & BYTES, lane;
  uint64_t done = 0;
  FOR_LANES(lane, p->lanes) {
    unsigned wanted = p->partial >> lane & 1 ? p->bytes[lane] : bytes;
    if (wanted == 0) continue;
    const Region *region = region_with(w, p->at[lane], wanted);
    if (!region) {
      finding(w, i, OUT_OF_BOUNDS_WRITE, (int)lane, p->at[lane], wanted);
      continue;
    }
    uint32_t values[4];
    lane_bytes(w, index, lane, detail, values);
    memcpy((void *)(uintptr_t)p->at[lane], values, wanted);
    done |= 1ull << lane;
  }
  return done;
}

static void store_scratch(Wave *w, const Instruction *i, const Places *p, uint32_t detail, unsigned index) {
  unsigned bytes = detail & BYTES, lane;
  uint8_t *unknown = w->checks ? scratch_shadow(w) : NULL;
  if (unknown)
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) prepare_row(w->checks, index + k);
  FOR_LANES(lane, p->lanes) {
    if (!scratch_holds(w, i, p, lane, bytes, true)) continue;
    uint32_t values[4], shadows[4];
    lane_bytes(w, index, lane, detail, values);
    if (unknown) lane_bytes(&w->checks->shadow, index, lane, detail, shadows);
    for (unsigned n = 0; n < bytes; n++) {
      uint64_t at = scratch_at(p, lane, n);
      w->scratch[at] = ((uint8_t *)values)[n];
      if (unknown) unknown[at] = ((uint8_t *)shadows)[n];
    }
  }
}

static inline void store(Wave *w, const Instruction *i, const Places *p, Space space, uint32_t detail, unsigned index) {
  unsigned bytes = detail & BYTES;
  if (w->checks) check_use(w, i, index, (bytes + 3) / 4, p->lanes);
  if (p->lanes && space == SCRATCH) store_scratch(w, i, p, detail, index);
  else if (p->lanes) {
    uint64_t done = p->lanes;
    if (!p->partial && common_region(w, p, bytes)) scatter(w, index, p->at, p->lanes, detail);
    else done = store_memory_by_lane(w, i, p, detail, index);
    if (w->checks) checked_store(w, i, p, done, detail, index);
  }
  if (w->checks) expect(w, i, VM, 0, 0, 0, 0);
}

/* ---- From memory to LDS ------------------------------------------------------------------------------------------ */

/* Each lane's 4 bytes, or 16 (12 of them written), follow those of the lane before; smaller ones are extended to 4. */
static void load_to_lds(Wave *w, const Instruction *i, const Places *p, Space space, uint32_t detail, uint32_t base) {
  unsigned bytes = detail & BYTES, written = bytes < 4 ? 4 : bytes, stride = written == 4 ? 4 : 16, lane;
  uint32_t serial = w->checks ? next_lds_serial(w, VM) : 0;
  if (p->lanes) {
    Rows rows;
    LoadShadow shadow, values;
    for (unsigned k = 0; k < 4; k++) rows.row[k] = rows.values[k];
    uint64_t undefined = space == MEMORY ? fetch_memory(w, i, p, bytes, rows.row, shadow)
                                         : fetch_scratch(w, i, p, bytes, rows.row, shadow);
    uint32_t offset[LANES];
    for (unsigned l = 0; l < LANES; l++) offset[l] = base + l * stride;
    uint64_t good = p->lanes == ~0ull ? lds_lanes(w, i, offset, p->lanes, written)
                                      : lds_lanes_by_lane(w, i, offset, p->lanes, written);
    if (bytes == 16)
      for (int l = 0; l < LANES; l += 4) {
        Quad q[4];
        for (int k = 0; k < 4; k++) memcpy(&q[k], &rows.values[k][l], 16);
        transpose(q);
        for (int k = 0; k < 4; k++) memcpy(values[l + k], &q[k], 16);
      }
    else
      FOR_LANES(lane, good)
        for (unsigned k = 0; k < written / 4; k++) values[lane][k] = shaped(rows.row[k][lane], detail);
    if (w->checks) {
      if (bytes < 4) FOR_LANES(lane, undefined) shadow[lane][0] = shaped(shadow[lane][0], detail);
      if (undefined) FOR_LANES(lane, p->lanes & ~undefined) memset(shadow[lane], 0, sizeof shadow[lane]);
      check_lds(w, i, LDS_WRITE, VM, serial, offset, good, written, values, undefined ? shadow : NULL, NULL);
    }
    FOR_LANES(lane, good) memcpy(w->group->lds + offset[lane], values[lane], written);
  }
  if (w->checks) expect(w, i, VM, 0, 0, 0, serial);
}

/* ---- Atomics ----------------------------------------------------------------------------------------------------- */
typedef enum {
  ADD, SUB, RSUB, INC, DEC, SMIN, SMAX, UMIN, UMAX, AND, OR, XOR, MSKOR, SWAP, CMPSWAP, CMPSWAP_FLOAT,
  ADD_FLOAT, MIN_FLOAT, MAX_FLOAT, PK_ADD_F16, PK_ADD_BF16, WRAP, CONDITIONAL_SWAP
} Operation;

/* Row.detail of atomics. */
#define ATOMIC(operation, bytes) ((uint32_t)(operation) << 8 | (bytes))

static inline float flushed(float x, bool flush) {
  return flush && x != 0 && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float add_f32(float a, float b, bool flush_input, bool flush_output) {
  a = flushed(a, flush_input), b = flushed(b, flush_input);
  if (isinf(a) && isinf(b) && signbit(a) != signbit(b)) return f32_of_bits(0x7fc00000);
  return flushed(a + b, flush_output);
}

static double add_f64(double a, double b) { /* the processor's own NaN has another sign */
  return isinf(a) && isinf(b) && a != b ? f64_of_bits(0x7ff8ull << 48) : a + b;
}

static uint32_t add_halves(uint32_t a, uint32_t b, bool brain) {
  uint32_t result = 0;
  for (unsigned shift = 0; shift < 32; shift += 16) {
    uint32_t x = a >> shift & 0xffff, y = b >> shift & 0xffff;
    uint32_t sum = brain ? bf16_of_f32(f32_of_bf16(x) + f32_of_bf16(y)) : f16_of_f32(f32_of_f16(x) + f32_of_f16(y));
    result |= sum << shift;
  }
  return result;
}

/* NaN loses against a number, -0 is less than +0; a signaling NaN is returned as a quiet one. */
static uint64_t chosen_f64(uint64_t old, uint64_t data, bool larger) {
  double a = f64_of_bits(old), b = f64_of_bits(data);
  uint64_t quiet = 1ull << 51;
  if (a != a && !(old & quiet)) return old | quiet;
  if (b != b && !(data & quiet)) return data | quiet;
  if (a != a) return b != b ? old : data;
  if (b != b) return old;
  bool less = b < a || (b == a && data >> 63 > old >> 63), greater = b > a || (b == a && data >> 63 < old >> 63);
  return (larger ? greater : less) ? data : old;
}

static uint32_t chosen_f32(uint32_t old, uint32_t data, bool larger, bool flush) {
  float a = flushed(f32_of_bits(old), flush), b = flushed(f32_of_bits(data), flush);
  uint32_t quiet = 1u << 22;
  if (a != a && !(old & quiet)) return old | quiet;
  if (b != b && !(data & quiet)) return data | quiet;
  if (a != a) return b != b ? old : data;
  if (b != b) return old;
  bool less = b < a || (b == a && data >> 31 > old >> 31), greater = b > a || (b == a && data >> 31 < old >> 31);
  return (larger ? greater : less) ? data : old;
}

/* What memory holds afterwards. `data` and `second` are as the instruction's data registers, for compare-and-swap the
 * new value and what it is compared to. */
static uint64_t combined(Operation operation, unsigned bytes, uint64_t old, uint64_t data, uint64_t second,
                         bool flush_input, bool flush_output) {
  bool wide = bytes == 8;
  switch (operation) {
    case ADD: return old + data;
    case SUB: return old - data;
    case RSUB: return data - old;
    case INC: return old >= data ? 0 : old + 1;
    case DEC: return old == 0 || old > data ? data : old - 1;
    case SMIN:
      return wide ? ((int64_t)data < (int64_t)old ? data : old) : ((int32_t)data < (int32_t)old ? data : old);
    case SMAX:
      return wide ? ((int64_t)data > (int64_t)old ? data : old) : ((int32_t)data > (int32_t)old ? data : old);
    case UMIN: return data < old ? data : old;
    case UMAX: return data > old ? data : old;
    case AND: return old & data;
    case OR: return old | data;
    case XOR: return old ^ data;
    case MSKOR: return (old & ~data) | second;
    case SWAP: return data;
    case CMPSWAP: return old == second ? data : old;
    case CMPSWAP_FLOAT:
      if (wide) return f64_of_bits(old) == f64_of_bits(second) ? data : old;
      return flushed(f32_of_bits((uint32_t)old), flush_input) == flushed(f32_of_bits((uint32_t)second), flush_input)
                 ? data : old;
    case ADD_FLOAT:
      if (!wide)
        return bits_of_f32(add_f32(f32_of_bits((uint32_t)old), f32_of_bits((uint32_t)data), flush_input, flush_output));
      return bits_of_f64(add_f64(f64_of_bits(old), f64_of_bits(data)));
    case MIN_FLOAT:
    case MAX_FLOAT:
      if (wide) return chosen_f64(old, data, operation == MAX_FLOAT);
      return chosen_f32((uint32_t)old, (uint32_t)data, operation == MAX_FLOAT, flush_input);
    case PK_ADD_F16: return add_halves((uint32_t)old, (uint32_t)data, false);
    case PK_ADD_BF16: return add_halves((uint32_t)old, (uint32_t)data, true);
    case WRAP: return old >= data ? old - data : old + second;
    case CONDITIONAL_SWAP: { /* two halves, each written if its data have the top bit set */
      uint64_t low = data & 0x80000000u ? data & 0x7fffffff : old & 0xffffffff;
      uint64_t high = data >> 63 ? data >> 32 & 0x7fffffff : old >> 32;
      return low | high << 32;
    }
  }
  return old;
}

static uint64_t lane_data(const Wave *w, unsigned index, unsigned lane, unsigned bytes) {
  return bytes == 8 ? (uint64_t)w->v[index + 1][lane] << 32 | w->v[index][lane] : w->v[index][lane];
}

/* On memory that other threads access as well: the value from before. */
static uint64_t exchange(const Launch *launch, uint64_t at, Operation operation, unsigned bytes, uint64_t data,
                         uint64_t second) {
  bool flush = launch->arch == GFX90A;
  if (bytes == 4) {
    uint32_t *word = (uint32_t *)(uintptr_t)at, old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(
        word, &old, (uint32_t)combined(operation, 4, old, (uint32_t)data, (uint32_t)second, flush, flush), true,
        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
    return old;
  }
  uint64_t *word = (uint64_t *)(uintptr_t)at, old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, combined(operation, 8, old, data, second, flush, flush), true,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
  return old;
}

static inline bool has_second(Operation operation) {
  return operation == CMPSWAP || operation == CMPSWAP_FLOAT || operation == MSKOR || operation == WRAP;
}

static void put_result(Wave *w, unsigned index, unsigned lane, unsigned bytes, uint64_t value) {
  w->v[index][lane] = (uint32_t)value;
  if (bytes == 8) w->v[index + 1][lane] = (uint32_t)(value >> 32);
}

/* `result` is -1 when the value from before is not wanted. */
static void memory_atomic(Wave *w, const Instruction *i, const Places *p, uint32_t detail, unsigned data, int result) {
  Operation operation = detail >> 8;
  unsigned bytes = detail & BYTES, words = bytes / 4, lane;
  bool second = has_second(operation);
  uint64_t undefined = 0;
  LoadShadow shadow;
  if (w->checks) {
    check_use(w, i, data, second ? 2 * words : words, p->lanes);
    check_stored(w, i, data, second ? 2 * words : words, p->lanes & ~p->partial, ~0u);
  }
  FOR_LANES(lane, p->lanes) {
    if (p->partial >> lane & 1) {
      if (result >= 0) put_result(w, (unsigned)result, lane, bytes, 0);
      continue;
    }
    uint64_t old = 0, at = p->at[lane];
    const Region *region = region_with(w, at, bytes);
    if (!region) finding(w, i, OUT_OF_BOUNDS_WRITE, (int)lane, at, bytes);
    else if (at % bytes) finding(w, i, MISALIGNED, (int)lane, at, bytes);
    else {
      old = exchange(w->launch, at, operation, bytes, lane_data(w, data, lane, bytes),
                     second ? lane_data(w, data + words, lane, bytes) : 0);
      if (w->checks && region->undefined) {
        undefined |= undefined_memory(region, p, 1ull << lane, bytes, shadow);
        if (operation == SWAP) memset(region->undefined + (at - region->base), 0, bytes);
      }
    }
    if (result >= 0) put_result(w, (unsigned)result, lane, bytes, old);
  }
  if (!w->checks) return;
  if (result < 0) {
    expect(w, i, VM, 0, 0, 0, 0);
    return;
  }
  check_result(w, i, (unsigned)result, words, p->lanes, VM);
  put_loaded(w, i, (unsigned)result, words, p->lanes, undefined, shadow);
  expect(w, i, VM, (unsigned)result, words, p->lanes, 0);
}

/* ---- Buffer instructions ----------------------------------------------------------------------------------------- */
typedef struct {
  uint64_t base;
  uint32_t stride, records, index_stride, format, number_format;
  bool swizzle, add_lane;
  uint8_t select[4];
} Descriptor;

static Descriptor descriptor_of(const Wave *w, const Operand *o) {
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

/* A buffer of which the range is tested by dwords, or as a whole (atomics and formats). False: it was reported. */
static bool buffer_places(Wave *w, const Instruction *i, const Operand *address, const Operand *descriptor,
                          const Operand *scalar, unsigned bytes, bool as_a_whole, bool is_format, Places *p,
                          Space *space) {
  if (w->checks) {
    check_address(w, i, address, EXEC_OF(w));
    check_address(w, i, descriptor, EXEC_OF(w));
    check_address(w, i, scalar, EXEC_OF(w));
  }
  Descriptor d = descriptor_of(w, descriptor);
  bool unchecked = d.add_lane && !i->idxen;
  d.swizzle &= d.add_lane;
  d.add_lane &= d.swizzle || !i->idxen;
  if (d.add_lane && !is_format) d.stride |= d.format << 14;
  uint32_t further = scalar_operand(w, scalar);
  uint64_t base = d.base + further;
  uint32_t fixed = (uint32_t)i->offset;
  const uint32_t *index = i->idxen ? w->v[address->index] : NULL;
  const uint32_t *offset = i->offen ? w->v[address->index + i->idxen] : NULL;
  p->lanes = EXEC_OF(w);
  p->partial = 0;
  *space = MEMORY;

  bool structured = index && d.stride;
  if (!index && !d.add_lane) { /* the most frequent kind */
    if (offset) {
      uint64_t beyond = 0;
      for (int l = 0; l < LANES; l++) {
        uint32_t in_record = fixed + offset[l];
        p->at[l] = base + in_record;
        beyond |= (uint64_t)((uint64_t)in_record + further + bytes > d.records) << l;
      }
      p->partial = beyond & p->lanes;
    } else {
      for (int l = 0; l < LANES; l++) p->at[l] = base + fixed;
      if ((uint64_t)fixed + further + bytes > d.records) p->partial = p->lanes;
    }
  } else {
    uint64_t scratch = (uint64_t)(uintptr_t)w->scratch, scratch_size = (uint64_t)w->scratch_bytes * LANES;
    bool is_scratch = d.swizzle && unchecked && d.index_stride == LANES && w->scratch && base >= scratch &&
                      base - scratch <= scratch_size;
    if (is_scratch) *space = SCRATCH, p->scratch = base - scratch;
    else if (d.swizzle && bytes > 4) {
      cannot_execute(w, i, "more than four bytes of a swizzled buffer");
      return false;
    }
    for (unsigned l = 0; l < LANES; l++) {
      uint32_t in_record = fixed + (offset ? offset[l] : 0);
      uint32_t record = (index ? index[l] : 0) + (d.add_lane ? l : 0);
      if (is_scratch) p->at[l] = in_record;
      else if (d.swizzle)
        p->at[l] = base + ((uint64_t)(record / d.index_stride) * d.stride + in_record / 4 * 4) * d.index_stride +
                   record % d.index_stride * 4 + in_record % 4;
      else p->at[l] = base + in_record + (uint64_t)record * d.stride;
      bool out = unchecked    ? false
                 : structured ? index[l] >= d.records
                              : (uint64_t)in_record + further + bytes > d.records;
      if (out && p->lanes >> l & 1) p->partial |= 1ull << l;
    }
  }
  if (p->partial) {
    unsigned lane;
    FOR_LANES(lane, p->partial) {
      uint64_t first = (uint64_t)(uint32_t)(fixed + (offset ? offset[lane] : 0)) + further;
      bool none = structured || as_a_whole || first >= d.records;
      p->bytes[lane] = none ? 0 : (uint8_t)((d.records - first) / 4 * 4); /* less than what is accessed */
    }
  }
  fill_places(p);
  return true;
}

static uint32_t lds_base(const Wave *w, const Instruction *i, bool is_buffer) {
  uint32_t mask = !is_buffer ? 0x3fffc : w->launch->arch == GFX950 ? 0x3ffff : 0xffff;
  return (w->s[M0] & mask) + (uint32_t)i->offset;
}

static void buffer_load(Wave *w, const Instruction *i) {
  Places p;
  Space space;
  uint32_t detail = i->row->detail;
  const Operand *o = i->operand;
  if (i->lds) {
    if (w->checks) check_scalar_use(w, i, M0, 1);
    if (buffer_places(w, i, &o[0], &o[1], &o[2], detail & BYTES, false, false, &p, &space))
      load_to_lds(w, i, &p, space, detail, lds_base(w, i, true));
    return;
  }
  if (buffer_places(w, i, &o[1], &o[2], &o[3], detail & BYTES, false, false, &p, &space))
    load(w, i, &p, space, detail, o[0].index);
}

static void buffer_store(Wave *w, const Instruction *i) {
  Places p;
  Space space;
  const Operand *o = i->operand;
  if (buffer_places(w, i, &o[1], &o[2], &o[3], i->row->detail & BYTES, false, false, &p, &space))
    store(w, i, &p, space, i->row->detail, o[0].index);
}

static void buffer_atomic(Wave *w, const Instruction *i) {
  Places p;
  Space space;
  const Operand *o = i->operand;
  if (!buffer_places(w, i, &o[1], &o[2], &o[3], i->row->detail & BYTES, true, false, &p, &space)) return;
  if (space == SCRATCH) cannot_execute(w, i, "an atomic operation on scratch");
  else memory_atomic(w, i, &p, i->row->detail, o[0].index, i->glc || i->sc0 ? (int)o[0].index : -1);
}

/* Formats of components that are as wide in memory as in registers, neither normalized nor scaled: these are not
 * converted. Row.detail: components, whether they have 16 bits (D16), and whether the format is the instruction's. */
enum { TYPED = 0x100 };

/* The bytes that are accessed, or 0: it was reported. */
static unsigned format_bytes(Wave *w, const Instruction *i, bool loads) {
  static const uint8_t wide[] = {[4] = 1, [11] = 2, [13] = 3, [14] = 4, [15] = 0};
  static const uint8_t half[] = {[2] = 1, [5] = 2, [12] = 4, [15] = 0};
  Descriptor d = descriptor_of(w, &i->operand[2]);
  bool typed = i->row->detail & TYPED;
  uint32_t format = typed ? i->format & 15 : d.format, numbers = typed ? i->format >> 4 : d.number_format;
  unsigned wanted = i->row->detail & BYTES, components = (i->row->detail & D16 ? half : wide)[format];
  bool in_order = true;
  for (unsigned k = 0; !typed && k < wanted; k++) in_order &= d.select[k] == 4 + k;
  if (i->lds) cannot_execute(w, i, "a buffer format to LDS");
  else if (numbers != 4 && numbers != 5 && numbers != 7) cannot_execute(w, i, "a buffer format that is converted");
  else if (loads ? components < wanted : components != wanted)
    cannot_execute(w, i, "a buffer format of other components than the instruction's");
  else if (!in_order) cannot_execute(w, i, "a buffer format with components in another order");
  else return wanted * (i->row->detail & D16 ? 2 : 4);
  return 0;
}

static void buffer_load_format(Wave *w, const Instruction *i) {
  const Operand *o = i->operand;
  unsigned bytes = format_bytes(w, i, true);
  Places p;
  Space space;
  if (bytes && buffer_places(w, i, &o[1], &o[2], &o[3], bytes, true, true, &p, &space))
    load(w, i, &p, space, bytes, o[0].index);
}

static void buffer_store_format(Wave *w, const Instruction *i) {
  const Operand *o = i->operand;
  unsigned bytes = format_bytes(w, i, false);
  Places p;
  Space space;
  if (bytes && buffer_places(w, i, &o[1], &o[2], &o[3], bytes, true, true, &p, &space))
    store(w, i, &p, space, bytes, o[0].index);
}

/* ---- Global, flat and scratch instructions ----------------------------------------------------------------------- */
static void global_places(Wave *w, const Instruction *i, const Operand *vector, const Operand *scalar, Places *p) {
  p->lanes = EXEC_OF(w);
  p->partial = 0;
  if (w->checks) {
    check_address(w, i, vector, p->lanes);
    check_address(w, i, scalar, p->lanes);
  }
  uint64_t fixed = (uint64_t)(int64_t)i->offset;
  const uint32_t *low = w->v[vector->index];
  if (scalar->kind == SCALAR) {
    fixed += scalar_pair_of(w, scalar->index);
    for (int l = 0; l < LANES; l++) p->at[l] = fixed + low[l];
  } else {
    const uint32_t *high = w->v[vector->index + 1];
    for (int l = 0; l < LANES; l++) p->at[l] = fixed + ((uint64_t)high[l] << 32 | low[l]);
  }
  fill_places(p);
}

static void global_store(Wave *w, const Instruction *i) {
  Places p;
  global_places(w, i, &i->operand[0], &i->operand[2], &p);
  store(w, i, &p, MEMORY, i->row->detail, i->operand[1].index);
}

static void global_atomic(Wave *w, const Instruction *i) {
  Places p;
  const Operand *o = i->operand;
  bool returns = i->glc || i->sc0;
  global_places(w, i, &o[returns], &o[returns + 2], &p);
  memory_atomic(w, i, &p, i->row->detail, o[returns + 1].index, returns ? (int)o[0].index : -1);
}

static void global_load_lds(Wave *w, const Instruction *i) {
  Places p;
  if (w->checks) check_scalar_use(w, i, M0, 1);
  global_places(w, i, &i->operand[0], &i->operand[1], &p);
  load_to_lds(w, i, &p, MEMORY, i->row->detail, lds_base(w, i, false));
}

static void global_load(Wave *w, const Instruction *i) {
  if (i->lds) { /* as gfx90a spells it */
    global_load_lds(w, i);
    return;
  }
  Places p;
  global_places(w, i, &i->operand[1], &i->operand[2], &p);
  load(w, i, &p, MEMORY, i->row->detail, i->operand[0].index);
}

static void scratch_places(Wave *w, const Instruction *i, const Operand *vector, const Operand *scalar, Places *p) {
  p->lanes = EXEC_OF(w);
  p->partial = 0;
  p->scratch = 0;
  if (w->checks) {
    check_address(w, i, vector, p->lanes);
    check_address(w, i, scalar, p->lanes);
  }
  uint32_t fixed = (uint32_t)i->offset + (scalar->kind == SCALAR ? scalar_of(w, scalar->index) : 0);
  for (int l = 0; l < LANES; l++)
    p->at[l] = (uint32_t)(fixed + (vector->kind == VECTOR ? w->v[vector->index][l] : 0));
  fill_places(p);
}

static void scratch_store(Wave *w, const Instruction *i) {
  Places p;
  scratch_places(w, i, &i->operand[0], &i->operand[2], &p);
  store(w, i, &p, SCRATCH, i->row->detail, i->operand[1].index);
}

static void scratch_load_lds(Wave *w, const Instruction *i) {
  Places p;
  if (w->checks) check_scalar_use(w, i, M0, 1);
  scratch_places(w, i, &i->operand[0], &i->operand[1], &p);
  load_to_lds(w, i, &p, SCRATCH, i->row->detail, lds_base(w, i, false));
}

static void scratch_load(Wave *w, const Instruction *i) {
  if (i->lds) {
    scratch_load_lds(w, i);
    return;
  }
  Places p;
  scratch_places(w, i, &i->operand[1], &i->operand[2], &p);
  load(w, i, &p, SCRATCH, i->row->detail, i->operand[0].index);
}

/* Flat addresses: which lanes access memory, LDS and scratch is known by the upper half of the address. */
typedef struct {
  Places memory, scratch;
  uint64_t lds;
  uint32_t lds_offset[LANES];
} FlatPlaces;

static void flat_places(Wave *w, const Instruction *i, const Operand *vector, FlatPlaces *f) {
  static const Operand none = {.kind = NO_OPERAND};
  Places *p = &f->memory;
  global_places(w, i, vector, &none, p);
  uint32_t shared = w->s[SHARED_BASE + 1], private = w->s[PRIVATE_BASE + 1];
  uint64_t in_lds = 0, in_scratch = 0;
  for (int l = 0; l < LANES; l++) {
    uint32_t upper = (uint32_t)(p->at[l] >> 32);
    in_lds |= (uint64_t)(upper == shared && shared) << l;
    in_scratch |= (uint64_t)(upper == private && private) << l;
  }
  f->lds = in_lds & p->lanes;
  f->scratch.lanes = in_scratch & p->lanes;
  f->scratch.partial = 0;
  f->scratch.scratch = 0;
  if (!(f->lds | f->scratch.lanes)) return;
  for (int l = 0; l < LANES; l++) {
    f->lds_offset[l] = (uint32_t)p->at[l];
    f->scratch.at[l] = (uint32_t)p->at[l];
  }
  if (f->lds) {
    uint32_t first = f->lds_offset[__builtin_ctzll(f->lds)];
    for (int l = 0; l < LANES; l++) f->lds_offset[l] = f->lds >> l & 1 ? f->lds_offset[l] : first;
  }
  fill_places(&f->scratch);
  p->lanes &= ~(f->lds | f->scratch.lanes);
  fill_places(p);
}

/* Both counters count a flat instruction, wherever it goes. */
static void flat_load(Wave *w, const Instruction *i) {
  FlatPlaces f;
  uint32_t detail = i->row->detail;
  unsigned bytes = detail & BYTES, index = i->operand[0].index;
  flat_places(w, i, &i->operand[1], &f);
  uint64_t all = f.memory.lanes | f.lds | f.scratch.lanes;
  uint32_t serial = w->checks && f.lds ? next_lds_serial(w, LGKM) : 0;
  LoadShadow shadow;
  for (Space space = MEMORY; space <= SCRATCH; space++) {
    uint64_t lanes = space == MEMORY ? f.memory.lanes : space == LDS ? f.lds : f.scratch.lanes, undefined;
    if (!lanes) continue;
    Rows rows;
    choose_rows(w, &rows, index, lanes, bytes);
    if (space == MEMORY) undefined = fetch_memory(w, i, &f.memory, bytes, rows.row, shadow);
    else if (space == LDS) undefined = fetch_lds(w, i, f.lds_offset, lanes, bytes, serial, rows.row, shadow);
    else undefined = fetch_scratch(w, i, &f.scratch, bytes, rows.row, shadow);
    deliver(w, index, lanes, detail, rows.row);
    if (w->checks) checked_load(w, i, index, lanes, detail, undefined, shadow, -1);
  }
  if (!w->checks) return;
  expect(w, i, VM, index, (bytes + 3) / 4, all, 0);
  expect(w, i, LGKM, index, (bytes + 3) / 4, all, serial);
}

static void write_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
                      unsigned index, uint32_t serial);

static void flat_store(Wave *w, const Instruction *i) {
  FlatPlaces f;
  unsigned index = i->operand[1].index;
  flat_places(w, i, &i->operand[0], &f);
  uint32_t serial = w->checks && f.lds ? next_lds_serial(w, LGKM) : 0;
  if (f.lds) write_lds(w, i, f.lds_offset, f.lds, i->row->detail, index, serial);
  if (f.scratch.lanes) store_scratch(w, i, &f.scratch, i->row->detail, index);
  store(w, i, &f.memory, MEMORY, i->row->detail, index);
  if (w->checks) expect(w, i, LGKM, 0, 0, 0, serial);
}

static void lds_atomic(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
                       unsigned data, unsigned second, int result, uint32_t serial);

static void flat_atomic(Wave *w, const Instruction *i) {
  FlatPlaces f;
  const Operand *o = i->operand;
  bool returns = i->glc || i->sc0;
  flat_places(w, i, &o[returns], &f);
  if (f.scratch.lanes) {
    cannot_execute(w, i, "an atomic operation on scratch");
    return;
  }
  unsigned data = o[returns + 1].index, words = (i->row->detail & BYTES) / 4;
  uint32_t serial = w->checks && f.lds ? next_lds_serial(w, LGKM) : 0;
  int result = returns ? (int)o[0].index : -1;
  if (f.lds) lds_atomic(w, i, f.lds_offset, f.lds, i->row->detail, data, data + words, result, serial);
  memory_atomic(w, i, &f.memory, i->row->detail, data, result);
  if (w->checks) expect(w, i, LGKM, returns ? o[0].index : 0, returns ? words : 0, f.lds | f.memory.lanes, serial);
}

/* ---- LDS --------------------------------------------------------------------------------------------------------- */

/* Offsets of the lanes; those that take no part have the first one's. */
static inline void lds_offsets(Wave *w, const Operand *address, uint32_t fixed, uint64_t lanes,
                               uint32_t offset[LANES]) {
  const uint32_t *row = w->v[address->index];
  if (lanes == ~0ull || lanes == 0) {
    for (int l = 0; l < LANES; l++) offset[l] = row[l] + fixed;
    return;
  }
  uint32_t first = row[__builtin_ctzll(lanes)];
  for (int l = 0; l < LANES; l++) offset[l] = (lanes >> l & 1 ? row[l] : first) + fixed;
}

static void read_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
                     unsigned index, uint32_t serial) {
  unsigned bytes = detail & BYTES;
  Rows rows;
  LoadShadow shadow;
  choose_rows(w, &rows, index, lanes, bytes);
  uint64_t undefined = fetch_lds(w, i, offset, lanes, bytes, serial, rows.row, shadow);
  deliver(w, index, lanes, detail, rows.row);
  if (w->checks) checked_load(w, i, index, lanes, detail, undefined, shadow, LGKM);
}

static NO_INLINE void checked_write_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t good,
                                        uint32_t detail, unsigned index, uint32_t serial) {
  unsigned bytes = detail & BYTES, count = (bytes + 3) / 4, lane;
  WaveChecks *c = w->checks;
  LoadShadow values, shadow;
  check_use(w, i, index, count, good);
  uint64_t doubtful = 0;
  if (any_of(c->undefined, index, count))
    for (unsigned k = 0; k < count; k++) doubtful |= c->undefined_lanes[index + k] & good;
  if (!doubtful && note_lds(w, i, LDS_WRITE, LGKM, serial, offset, good, bytes)) return;
  if (doubtful)
    for (unsigned k = 0; k < count; k++) prepare_row(c, index + k);
  FOR_LANES(lane, good) {
    lane_bytes(w, index, lane, detail, values[lane]);
    if (doubtful) lane_bytes(&c->shadow, index, lane, detail, shadow[lane]);
  }
  check_lds(w, i, LDS_WRITE, LGKM, serial, offset, good, bytes, values, doubtful ? shadow : NULL, NULL);
}

static void write_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
                      unsigned index, uint32_t serial) {
  uint64_t good = lds_lanes(w, i, offset, lanes, detail & BYTES), at[LANES];
  if (w->checks) checked_write_lds(w, i, offset, good, detail, index, serial);
  uint64_t base = (uint64_t)(uintptr_t)w->group->lds;
  for (int l = 0; l < LANES; l++) at[l] = base + offset[l];
  scatter(w, index, at, good, detail);
}

static void ds_read(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = 0;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[1], lanes), serial = next_lds_serial(w, LGKM);
  if (lanes) {
    lds_offsets(w, &o[1], (uint32_t)i->offset, lanes, offset);
    read_lds(w, i, offset, lanes, i->row->detail, o[0].index, serial);
  }
  if (w->checks) expect(w, i, LGKM, o[0].index, ((i->row->detail & BYTES) + 3) / 4, lanes, serial);
}

static void ds_write(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = 0;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[0], lanes), serial = next_lds_serial(w, LGKM);
  if (lanes) {
    lds_offsets(w, &o[0], (uint32_t)i->offset, lanes, offset);
    write_lds(w, i, offset, lanes, i->row->detail, o[1].index, serial);
  }
  if (w->checks) expect(w, i, LGKM, 0, 0, 0, serial);
}

/* Row.detail of those with two addresses: bytes of one; the offsets count these, or 64 of them. */
enum { STRIDE_64 = 0x100 };

static uint32_t pair_offset(const Instruction *i, bool second) {
  uint32_t unit = (i->row->detail & BYTES) * (i->row->detail & STRIDE_64 ? 64 : 1);
  return (uint32_t)(second ? i->offset1 : i->offset) * unit;
}

static void ds_read2(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[2][LANES], serial = 0;
  unsigned bytes = i->row->detail & BYTES, words = bytes / 4;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[1], lanes), serial = next_lds_serial(w, LGKM);
  if (lanes) {
    /* both before the first result, which may be the address */
    for (unsigned n = 0; n < 2; n++) lds_offsets(w, &o[1], pair_offset(i, n), lanes, offset[n]);
    for (unsigned n = 0; n < 2; n++) read_lds(w, i, offset[n], lanes, bytes, o[0].index + n * words, serial);
  }
  if (w->checks) expect(w, i, LGKM, o[0].index, 2 * words, lanes, serial);
}

static void ds_write2(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = 0;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[0], lanes), serial = next_lds_serial(w, LGKM);
  for (unsigned n = 0; lanes && n < 2; n++) {
    lds_offsets(w, &o[0], pair_offset(i, n), lanes, offset);
    write_lds(w, i, offset, lanes, i->row->detail & BYTES, o[1 + n].index, serial);
  }
  if (w->checks) expect(w, i, LGKM, 0, 0, 0, serial);
}

static uint64_t aligned_lanes(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes,
                              unsigned bytes) {
  unsigned lane;
  uint64_t aligned = lanes;
  FOR_LANES(lane, lanes) if (offset[lane] % bytes) {
    finding(w, i, MISALIGNED, (int)lane, offset[lane], bytes);
    aligned &= ~(1ull << lane);
  }
  return aligned;
}

/* The waves of a workgroup take turns on one thread: plain reads and writes. MODE tells what becomes of denormals. */
static void lds_atomic(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
                       unsigned data, unsigned second, int result, uint32_t serial) {
  Operation operation = detail >> 8;
  unsigned bytes = detail & BYTES, words = bytes / 4, lane;
  bool flush_input = !(w->mode & 0x10), flush_output = !(w->mode & 0x20);
  bool halves = operation == PK_ADD_F16 || operation == PK_ADD_BF16;
  if (halves) flush_input = flush_output = false;
  uint64_t good = aligned_lanes(w, i, offset, lds_lanes(w, i, offset, lanes, bytes), bytes), undefined = 0;
  LoadShadow shadow;
  if (w->checks) {
    LoadShadow doubt;
    bool doubtful = any_of(w->checks->undefined, data, words);
    check_use(w, i, data, words, lanes);
    if (has_second(operation)) {
      check_use(w, i, second, words, lanes);
      doubtful |= any_of(w->checks->undefined, second, words);
    }
    if (doubtful)
      for (unsigned k = 0; k < words; k++) {
        const uint32_t *row = prepare_row(w->checks, data + k);
        const uint32_t *other = has_second(operation) ? prepare_row(w->checks, second + k) : row;
        FOR_LANES(lane, good) doubt[lane][k] = row[lane] | other[lane];
      }
    undefined = check_lds(w, i, LDS_ATOMIC, LGKM, serial, offset, good, bytes, NULL, doubtful ? doubt : NULL, shadow);
  }
  /* What is returned may overwrite the data of a later lane only in that lane's own registers. */
  FOR_LANES(lane, lanes) {
    uint64_t old = 0;
    if (good >> lane & 1) {
      memcpy(&old, w->group->lds + offset[lane], bytes);
      uint64_t one = lane_data(w, data, lane, bytes);
      uint64_t two = has_second(operation) ? lane_data(w, second, lane, bytes) : 0;
      uint64_t value = combined(operation, bytes, old, one, two, flush_input, flush_output);
      memcpy(w->group->lds + offset[lane], &value, bytes);
    }
    if (result >= 0) put_result(w, (unsigned)result, lane, bytes, old);
  }
  if (w->checks && result >= 0) checked_load(w, i, (unsigned)result, lanes, bytes, undefined, shadow, LGKM);
}

/* ds_*_rtn_* have a result; compare-and-store has what is compared to first. */
enum { RETURNS = 0x10000, COMPARES_FIRST = 0x20000 };

static void ds_atomic(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = 0, detail = i->row->detail & 0xffff;
  bool returns = i->row->detail & RETURNS, swapped = i->row->detail & COMPARES_FIRST;
  const Operand *o = &i->operand[returns];
  unsigned words = (detail & BYTES) / 4;
  if (w->checks) check_address(w, i, &o[0], lanes), serial = next_lds_serial(w, LGKM);
  if (lanes) {
    lds_offsets(w, &o[0], (uint32_t)i->offset, lanes, offset);
    if (detail >> 8 == CONDITIONAL_SWAP)
      for (int l = 0; l < LANES; l++) offset[l] &= 0xfff8;
    unsigned first = o[1].index, second = has_second(detail >> 8) ? o[2].index : first;
    lds_atomic(w, i, offset, lanes, detail, swapped ? second : first, swapped ? first : second,
               returns ? (int)i->operand[0].index : -1, serial);
  }
  if (w->checks) expect(w, i, LGKM, returns ? i->operand[0].index : 0, returns ? words : 0, lanes, serial);
}

static void ds_exchange2(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[2][LANES], serial = 0;
  unsigned bytes = i->row->detail & BYTES, words = bytes / 4;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[1], lanes), serial = next_lds_serial(w, LGKM);
  if (lanes) {
    alignas(64) uint32_t data[4][LANES];
    for (unsigned n = 0; n < 2; n++) {
      lds_offsets(w, &o[1], pair_offset(i, n), lanes, offset[n]);
      for (unsigned k = 0; k < words; k++) memcpy(data[n * words + k], w->v[o[2 + n].index + k], sizeof(Lanes));
    }
    unsigned lane;
    uint64_t good[2], undefined[2] = {0, 0};
    LoadShadow shadow[2];
    for (unsigned n = 0; n < 2; n++) {
      good[n] = aligned_lanes(w, i, offset[n], lds_lanes(w, i, offset[n], lanes, bytes), bytes);
      if (!w->checks) continue;
      check_use(w, i, o[2 + n].index, words, lanes);
      LoadShadow doubt;
      for (unsigned k = 0; k < words; k++) {
        const uint32_t *row = prepare_row(w->checks, o[2 + n].index + k);
        for (int l = 0; l < LANES; l++) doubt[l][k] = row[l];
      }
      undefined[n] = check_lds(w, i, LDS_ATOMIC, LGKM, serial, offset[n], good[n], bytes, NULL, doubt, shadow[n]);
    }
    FOR_LANES(lane, lanes) {
      uint64_t old[2] = {0, 0};
      for (unsigned n = 0; n < 2; n++)
        if (good[n] >> lane & 1) memcpy(&old[n], w->group->lds + offset[n][lane], bytes);
      for (unsigned n = 0; n < 2; n++) {
        for (unsigned k = 0; k < words && good[n] >> lane & 1; k++)
          memcpy(w->group->lds + offset[n][lane] + 4 * k, &data[n * words + k][lane], 4);
        put_result(w, o[0].index + n * words, lane, bytes, old[n]);
      }
    }
    for (unsigned n = 0; w->checks && n < 2; n++)
      checked_load(w, i, o[0].index + n * words, lanes, bytes, undefined[n], shadow[n], LGKM);
  }
  if (w->checks) expect(w, i, LGKM, o[0].index, 2 * words, lanes, serial);
}

/* ds_append and ds_consume: one operation of the wave at M0, by the number of its active lanes. */
static void ds_count(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  if (w->checks) check_scalar_use(w, i, M0, 1);
  uint32_t serial = w->checks ? next_lds_serial(w, LGKM) : 0;
  const Operand *o = i->operand;
  if (lanes) {
    uint32_t offset[LANES], old = 0;
    for (int l = 0; l < LANES; l++) offset[l] = lds_base(w, i, true);
    uint64_t first = lanes & -lanes, good = lds_lanes(w, i, offset, first, 4);
    LoadShadow shadow;
    uint64_t undefined =
        w->checks ? check_lds(w, i, LDS_ATOMIC, LGKM, serial, offset, good, 4, NULL, NULL, shadow) : 0;
    if (good) {
      uint32_t count = (uint32_t)__builtin_popcountll(lanes), sum;
      memcpy(&old, w->group->lds + offset[0], 4);
      sum = i->row->detail ? old + count : old - count;
      memcpy(w->group->lds + offset[0], &sum, 4);
    }
    unsigned lane, source = (unsigned)__builtin_ctzll(lanes);
    FOR_LANES(lane, lanes) w->v[o[0].index][lane] = old;
    if (undefined) FOR_LANES(lane, lanes) shadow[lane][0] = shadow[source][0];
    if (w->checks) checked_load(w, i, o[0].index, lanes, 4, undefined ? lanes : 0, shadow, LGKM);
  }
  if (w->checks) expect(w, i, LGKM, o[0].index, 1, lanes, serial);
}

static void addtid_offsets(Wave *w, const Instruction *i, uint32_t offset[LANES], uint64_t lanes) {
  if (w->checks) check_scalar_use(w, i, M0, 1);
  uint32_t base = lds_base(w, i, true);
  unsigned first = lanes ? (unsigned)__builtin_ctzll(lanes) : 0;
  for (unsigned l = 0; l < LANES; l++) offset[l] = base + 4 * (lanes >> l & 1 ? l : first);
}

static void ds_read_addtid(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = w->checks ? next_lds_serial(w, LGKM) : 0;
  addtid_offsets(w, i, offset, lanes);
  if (lanes) read_lds(w, i, offset, lanes, 4, i->operand[0].index, serial);
  if (w->checks) expect(w, i, LGKM, i->operand[0].index, 1, lanes, serial);
}

static void ds_write_addtid(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = w->checks ? next_lds_serial(w, LGKM) : 0;
  addtid_offsets(w, i, offset, lanes);
  if (lanes) write_lds(w, i, offset, lanes, 4, i->operand[0].index, serial);
  if (w->checks) expect(w, i, LGKM, 0, 0, 0, serial);
}

/* Row.detail: bits of an element. The 16 lanes of a group hold a matrix of which each has a part of a row, 64 or 96
 * bits; each gets the column of its number (11.4; rows follow each other by lanes). */
static unsigned __int128 transposed(const unsigned __int128 in[LANES], unsigned lane, unsigned bits,
                                    unsigned elements) {
  unsigned lanes_of_row = 16 / elements, column = lane % 16;
  unsigned __int128 result = 0, mask = ((unsigned __int128)1 << bits) - 1;
  for (unsigned row = 0; row < elements; row++) {
    unsigned from = lane / 16 * 16 + row * lanes_of_row + column / elements;
    result |= (in[from] >> column % elements * bits & mask) << row * bits;
  }
  return result;
}

static void ds_read_transposed(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w), undefined = 0;
  const Operand *o = i->operand;
  unsigned bits = i->row->detail, bytes = bits == 6 ? 12 : 8, elements = bytes * 8 / bits, words = bytes / 4, lane;
  unsigned alignment = bits == 6 ? 16 : 8;
  uint32_t offset[LANES], serial = 0;
  if (w->checks) check_address(w, i, &o[1], lanes), serial = next_lds_serial(w, LGKM);
  if (lanes) {
    Rows rows;
    LoadShadow shadow;
    unsigned __int128 in[LANES];
    for (unsigned k = 0; k < 4; k++) rows.row[k] = rows.values[k];
    lds_offsets(w, &o[1], (uint32_t)i->offset, lanes, offset);
    FOR_LANES(lane, lanes) if (offset[lane] % alignment) {
      finding(w, i, MISALIGNED, (int)lane, offset[lane], bytes);
      break;
    }
    uint64_t doubt = fetch_lds(w, i, offset, lanes, bytes, serial, rows.row, shadow);
    for (unsigned l = 0; l < LANES; l++) {
      in[l] = 0;
      for (unsigned k = 0; k < words && lanes >> l & 1; k++)
        in[l] |= (unsigned __int128)rows.row[k][l] << 32 * k;
    }
    for (unsigned l = 0; l < LANES; l++) {
      unsigned __int128 value = transposed(in, l, bits, elements);
      for (unsigned k = 0; k < words; k++) rows.row[k][l] = (uint32_t)(value >> 32 * k);
    }
    deliver(w, o[0].index, lanes, bytes, rows.row);
    if (w->checks) {
      if (doubt || lanes != ~0ull) { /* lanes that are not active bring nothing that is defined */
        for (unsigned l = 0; l < LANES; l++) {
          in[l] = lanes >> l & 1 ? 0 : ~(unsigned __int128)0;
          for (unsigned k = 0; k < words && doubt >> l & 1; k++) in[l] |= (unsigned __int128)shadow[l][k] << 32 * k;
        }
        FOR_LANES(lane, lanes) {
          unsigned __int128 value = transposed(in, lane, bits, elements);
          if (value) undefined |= 1ull << lane;
          for (unsigned k = 0; k < 4; k++) shadow[lane][k] = (uint32_t)(value >> 32 * k);
        }
      }
      checked_load(w, i, o[0].index, lanes, bytes, undefined, shadow, LGKM);
    }
  }
  if (w->checks) expect(w, i, LGKM, o[0].index, words, lanes, serial);
}

/* ---- Permutations: they only use the network of LDS -------------------------------------------------------------- */

/* Which lane each lane gets its value from; 64: none, that is 0. */
static void put_permuted(Wave *w, const Instruction *i, unsigned to, unsigned from, const uint8_t source[LANES]) {
  uint64_t lanes = EXEC_OF(w);
  Lanes values;
  for (int l = 0; l < LANES; l++) values[l] = source[l] < LANES ? w->v[from][source[l]] : 0;
  if (w->checks) {
    LoadShadow shadow;
    uint64_t undefined = 0, used = 0;
    unsigned lane;
    FOR_LANES(lane, lanes) if (source[lane] < LANES) used |= 1ull << source[lane];
    check_use(w, i, from, 1, used);
    if (w->checks->undefined_lanes[from] & used) {
      const uint32_t *row = prepare_row(w->checks, from);
      FOR_LANES(lane, lanes) {
        shadow[lane][0] = source[lane] < LANES ? row[source[lane]] : 0;
        undefined |= (uint64_t)(shadow[lane][0] != 0) << lane;
      }
    }
    const Instruction *origin = w->checks->origin[from];
    check_result(w, i, to, 1, lanes, LGKM);
    put_loaded(w, undefined && origin ? origin : i, to, 1, lanes, undefined, shadow);
    expect(w, i, LGKM, to, 1, lanes, 0);
  }
  put_lanes(w, to, values);
}

static void ds_bpermute(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  const Operand *o = i->operand;
  uint8_t source[LANES];
  if (w->checks) check_address(w, i, &o[1], lanes);
  for (int l = 0; l < LANES; l++) {
    uint32_t from = (w->v[o[1].index][l] + (uint32_t)i->offset) / 4 % lanes_of_wave(w->launch->arch);
    source[l] = lanes >> from & 1 ? (uint8_t)from : LANES;
  }
  put_permuted(w, i, o[0].index, o[2].index, source);
}

static void ds_permute(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  const Operand *o = i->operand;
  uint8_t source[LANES];
  unsigned lane;
  if (w->checks) check_address(w, i, &o[1], lanes);
  memset(source, LANES, sizeof source);
  FOR_LANES(lane, lanes)
    source[(w->v[o[1].index][lane] + (uint32_t)i->offset) / 4 % lanes_of_wave(w->launch->arch)] = (uint8_t)lane;
  put_permuted(w, i, o[0].index, o[2].index, source);
}

static unsigned swizzled(uint32_t offset, unsigned lane) {
  unsigned in_half = lane & 31, half = lane & 32, mask = offset & 31;
  if (offset >= 0xe000) { /* FFT */
    unsigned reversed = 0;
    for (unsigned bit = 0; bit < 5; bit++) reversed |= (in_half >> bit & 1) << (4 - bit);
    return (reversed >> __builtin_popcount(mask)) | (in_half & mask) | half;
  }
  if (offset >= 0xc000) { /* rotation */
    unsigned by = offset >> 5 & 31;
    if (offset >> 10 & 1) by = -by;
    return (in_half & mask) | ((in_half + by) & ~mask & 31) | half;
  }
  if (offset & 0x8000) return (lane & ~3u) | (offset >> (lane & 3) * 2 & 3);
  return (((in_half & mask) | (offset >> 5 & 31)) ^ (offset >> 10 & 31)) | half;
}

static void ds_swizzle(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint8_t source[LANES];
  for (unsigned l = 0; l < LANES; l++) {
    unsigned from = swizzled((uint32_t)i->offset & 0xffff, l);
    source[l] = lanes >> from & 1 ? (uint8_t)from : LANES;
  }
  put_permuted(w, i, i->operand[0].index, i->operand[1].index, source);
}

/* ---- Scalar memory ----------------------------------------------------------------------------------------------- */
static uint8_t *scalar_memory(Wave *w, const Instruction *i, uint64_t address, unsigned bytes, bool writes,
                              const Region **found) {
  const Region *region = *found = region_with(w, address, bytes);
  if (region) return (uint8_t *)(uintptr_t)address;
  uint64_t scratch = (uint64_t)(uintptr_t)w->scratch, size = (uint64_t)w->scratch_bytes * LANES;
  if (w->scratch && address - scratch < size && size - (address - scratch) >= bytes)
    return (uint8_t *)(uintptr_t)address;
  finding(w, i, writes ? OUT_OF_BOUNDS_WRITE : OUT_OF_BOUNDS_READ, -1, address, bytes);
  return NULL;
}

/* Row.detail: bytes, and what the base is. */
enum { OF_BUFFER = 0x100, OF_SCRATCH = 0x200 };

/* The address, and for buffers how many bytes are in range there. */
static uint64_t scalar_address(Wave *w, const Instruction *i, uint32_t detail, uint64_t *in_range) {
  const Operand *base = &i->operand[1], *offset = &i->operand[2];
  if (w->checks) {
    check_address(w, i, base, ~0ull);
    check_address(w, i, offset, ~0ull);
  }
  uint64_t by = offset->kind == SCALAR ? (uint64_t)scalar_of(w, offset->index) * (detail & OF_SCRATCH ? 64 : 1)
                                       : (uint64_t)offset->bits;
  by += (uint64_t)(int64_t)i->offset;
  *in_range = UINT64_MAX;
  if (!(detail & OF_BUFFER)) return (scalar_pair_of(w, base->index) + by) & ~3ull;
  Descriptor d = descriptor_of(w, base);
  uint64_t size = d.stride ? (uint64_t)d.stride * d.records : d.records;
  by &= ~3ull;
  *in_range = by < size ? size - by : 0;
  return (d.base & ~3ull) + by;
}

static void scalar_load(Wave *w, const Instruction *i) {
  uint32_t values[16] = {0}, detail = i->row->detail;
  unsigned bytes = detail & BYTES, index = i->operand[0].index;
  uint64_t in_range, address = scalar_address(w, i, detail, &in_range);
  unsigned wanted = in_range < bytes ? (unsigned)in_range / 4 * 4 : bytes;
  const Region *region = NULL;
  const uint8_t *from = wanted ? scalar_memory(w, i, address, wanted, false, &region) : NULL;
  if (from) memcpy(values, from, wanted);
  for (unsigned k = 0; k < bytes / 4; k++) put_scalar(w, index + k, values[k]);
  if (!w->checks) return;
  check_scalar_result(w, i, index, bytes / 4);
  for (unsigned k = 0; k < bytes / 4; k++) {
    uint32_t shadow = 0;
    if (region && region->undefined && 4 * k < wanted)
      for (unsigned n = 0; n < 4; n++)
        if (region->undefined[address - region->base + 4 * k + n]) shadow |= 0xffu << 8 * n;
    put_scalar_shadow(w->checks, index + k, shadow, i);
  }
  expect_scalar(w, i, index, bytes / 4);
}

static void scalar_store(Wave *w, const Instruction *i) {
  uint32_t detail = i->row->detail;
  unsigned bytes = detail & BYTES, index = i->operand[0].index;
  uint64_t in_range, address = scalar_address(w, i, detail, &in_range);
  unsigned wanted = in_range < bytes ? (unsigned)in_range / 4 * 4 : bytes;
  const Region *region;
  if (w->checks) check_scalar_use(w, i, index, bytes / 4);
  uint8_t *to = wanted ? scalar_memory(w, i, address, wanted, true, &region) : NULL;
  for (unsigned k = 0; to && k < wanted / 4; k++) {
    uint32_t value = scalar_of(w, index + k);
    memcpy(to + 4 * k, &value, 4);
  }
  if (!w->checks) return;
  if (to && region && region->undefined) memset(region->undefined + (address - region->base), 0, wanted);
  expect_scalar(w, i, 0, 0);
}

/* Row.detail: as vector atomics, and whether the base is a buffer. */
enum { SCALAR_BUFFER = 0x10000 };

static void scalar_atomic(Wave *w, const Instruction *i) {
  uint32_t detail = i->row->detail;
  Operation operation = detail >> 8 & 0xff;
  unsigned bytes = detail & BYTES, index = i->operand[0].index, words = bytes / 4;
  uint64_t in_range, address = scalar_address(w, i, detail & SCALAR_BUFFER ? OF_BUFFER : 0, &in_range);
  bool second = has_second(operation);
  uint64_t old = 0;
  const Region *region;
  if (w->checks) check_scalar_use(w, i, index, second ? 2 * words : words);
  if (in_range >= bytes && scalar_memory(w, i, address, bytes, true, &region)) {
    if (address % bytes) finding(w, i, MISALIGNED, -1, address, bytes);
    else {
      uint64_t data = bytes == 8 ? scalar_pair_of(w, index) : scalar_of(w, index), other = 0;
      if (second) other = bytes == 8 ? scalar_pair_of(w, index + 2) : scalar_of(w, index + 1);
      old = exchange(w->launch, address, operation, bytes, data, other);
    }
  }
  bool returns = i->glc || i->sc0;
  if (returns) {
    put_scalar(w, index, (uint32_t)old);
    if (bytes == 8) put_scalar(w, index + 1, (uint32_t)(old >> 32));
  }
  if (!w->checks) return;
  for (unsigned k = 0; returns && k < words; k++) put_scalar_shadow(w->checks, index + k, 0, NULL);
  expect_scalar(w, i, returns ? index : 0, returns ? words : 0);
}

static void scalar_time(Wave *w, const Instruction *i) {
  unsigned index = i->operand[0].index;
  put_scalar_pair(w, index, w->executed);
  if (!w->checks) return;
  check_scalar_result(w, i, index, 2);
  for (unsigned k = 0; k < 2; k++) put_scalar_shadow(w->checks, index + k, 0, NULL);
  expect_scalar(w, i, index, 2);
}

/* Caches are not modeled. */
static void nothing(Wave *w, const Instruction *i) {
  (void)w;
  (void)i;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */
#define ROW(text, handler, destinations, bits) \
  {.name = text, .execute = handler, .results = destinations, .flags = IS_MEMORY, .detail = bits}

#define LOADS(prefix, handler) \
  ROW(prefix "_load_ubyte", handler, 1, 1), ROW(prefix "_load_sbyte", handler, 1, 1 | SIGNED), \
      ROW(prefix "_load_ushort", handler, 1, 2), ROW(prefix "_load_sshort", handler, 1, 2 | SIGNED), \
      ROW(prefix "_load_dword", handler, 1, 4), ROW(prefix "_load_dwordx2", handler, 1, 8), \
      ROW(prefix "_load_dwordx3", handler, 1, 12), ROW(prefix "_load_dwordx4", handler, 1, 16), \
      ROW(prefix "_load_ubyte_d16", handler, 1, 1 | D16), \
      ROW(prefix "_load_ubyte_d16_hi", handler, 1, 1 | D16 | HIGH), \
      ROW(prefix "_load_sbyte_d16", handler, 1, 1 | SIGNED | D16), \
      ROW(prefix "_load_sbyte_d16_hi", handler, 1, 1 | SIGNED | D16 | HIGH), \
      ROW(prefix "_load_short_d16", handler, 1, 2 | D16), ROW(prefix "_load_short_d16_hi", handler, 1, 2 | D16 | HIGH)

#define STORES(prefix, handler) \
  ROW(prefix "_store_byte", handler, 0, 1), ROW(prefix "_store_byte_d16_hi", handler, 0, 1 | HIGH), \
      ROW(prefix "_store_short", handler, 0, 2), ROW(prefix "_store_short_d16_hi", handler, 0, 2 | HIGH), \
      ROW(prefix "_store_dword", handler, 0, 4), ROW(prefix "_store_dwordx2", handler, 0, 8), \
      ROW(prefix "_store_dwordx3", handler, 0, 12), ROW(prefix "_store_dwordx4", handler, 0, 16)

#define LOADS_TO_LDS(prefix, handler) \
  ROW(prefix "_load_lds_ubyte", handler, 0, 1), ROW(prefix "_load_lds_sbyte", handler, 0, 1 | SIGNED), \
      ROW(prefix "_load_lds_ushort", handler, 0, 2), ROW(prefix "_load_lds_sshort", handler, 0, 2 | SIGNED), \
      ROW(prefix "_load_lds_dword", handler, 0, 4)

#define INTEGER_ATOMIC(prefix, name, handler, operation, extra) \
  ROW(prefix "_atomic_" name, handler, 0, ATOMIC(operation, 4) | (extra)), \
      ROW(prefix "_atomic_" name "_x2", handler, 0, ATOMIC(operation, 8) | (extra))

#define INTEGER_ATOMICS(prefix, handler, extra) \
  INTEGER_ATOMIC(prefix, "swap", handler, SWAP, extra), INTEGER_ATOMIC(prefix, "cmpswap", handler, CMPSWAP, extra), \
      INTEGER_ATOMIC(prefix, "add", handler, ADD, extra), INTEGER_ATOMIC(prefix, "sub", handler, SUB, extra), \
      INTEGER_ATOMIC(prefix, "smin", handler, SMIN, extra), INTEGER_ATOMIC(prefix, "umin", handler, UMIN, extra), \
      INTEGER_ATOMIC(prefix, "smax", handler, SMAX, extra), INTEGER_ATOMIC(prefix, "umax", handler, UMAX, extra), \
      INTEGER_ATOMIC(prefix, "and", handler, AND, extra), INTEGER_ATOMIC(prefix, "or", handler, OR, extra), \
      INTEGER_ATOMIC(prefix, "xor", handler, XOR, extra), INTEGER_ATOMIC(prefix, "inc", handler, INC, extra), \
      INTEGER_ATOMIC(prefix, "dec", handler, DEC, extra)

#define FLOAT_ATOMICS(prefix, handler) \
  ROW(prefix "_atomic_add_f32", handler, 0, ATOMIC(ADD_FLOAT, 4)), \
      ROW(prefix "_atomic_pk_add_f16", handler, 0, ATOMIC(PK_ADD_F16, 4)), \
      ROW(prefix "_atomic_pk_add_bf16", handler, 0, ATOMIC(PK_ADD_BF16, 4)), \
      ROW(prefix "_atomic_add_f64", handler, 0, ATOMIC(ADD_FLOAT, 8)), \
      ROW(prefix "_atomic_min_f64", handler, 0, ATOMIC(MIN_FLOAT, 8)), \
      ROW(prefix "_atomic_max_f64", handler, 0, ATOMIC(MAX_FLOAT, 8))

#define FORMAT(prefix, components, bits) \
  ROW(prefix "_load_format_" components, buffer_load_format, 1, bits), \
      ROW(prefix "_store_format_" components, buffer_store_format, 0, bits)

#define FORMATS(prefix, typed) \
  FORMAT(prefix, "x", 1 | (typed)), FORMAT(prefix, "xy", 2 | (typed)), FORMAT(prefix, "xyz", 3 | (typed)), \
      FORMAT(prefix, "xyzw", 4 | (typed)), FORMAT(prefix, "d16_x", 1 | D16 | (typed)), \
      FORMAT(prefix, "d16_xy", 2 | D16 | (typed)), FORMAT(prefix, "d16_xyzw", 4 | D16 | (typed))

#define DS_ATOMIC(name, type, operation, bytes) \
  ROW("ds_" name "_" type, ds_atomic, 0, ATOMIC(operation, bytes)), \
      ROW("ds_" name "_rtn_" type, ds_atomic, 1, ATOMIC(operation, bytes) | RETURNS)

#define DS_ATOMICS(bits, bytes) \
  DS_ATOMIC("add", "u" bits, ADD, bytes), DS_ATOMIC("sub", "u" bits, SUB, bytes), \
      DS_ATOMIC("rsub", "u" bits, RSUB, bytes), DS_ATOMIC("inc", "u" bits, INC, bytes), \
      DS_ATOMIC("dec", "u" bits, DEC, bytes), DS_ATOMIC("min", "i" bits, SMIN, bytes), \
      DS_ATOMIC("max", "i" bits, SMAX, bytes), DS_ATOMIC("min", "u" bits, UMIN, bytes), \
      DS_ATOMIC("max", "u" bits, UMAX, bytes), DS_ATOMIC("and", "b" bits, AND, bytes), \
      DS_ATOMIC("or", "b" bits, OR, bytes), DS_ATOMIC("xor", "b" bits, XOR, bytes), \
      DS_ATOMIC("mskor", "b" bits, MSKOR, bytes), DS_ATOMIC("add", "f" bits, ADD_FLOAT, bytes), \
      DS_ATOMIC("min", "f" bits, MIN_FLOAT, bytes), DS_ATOMIC("max", "f" bits, MAX_FLOAT, bytes), \
      ROW("ds_cmpst_b" bits, ds_atomic, 0, ATOMIC(CMPSWAP, bytes) | COMPARES_FIRST), \
      ROW("ds_cmpst_rtn_b" bits, ds_atomic, 1, ATOMIC(CMPSWAP, bytes) | COMPARES_FIRST | RETURNS), \
      ROW("ds_cmpst_f" bits, ds_atomic, 0, ATOMIC(CMPSWAP_FLOAT, bytes) | COMPARES_FIRST), \
      ROW("ds_cmpst_rtn_f" bits, ds_atomic, 1, ATOMIC(CMPSWAP_FLOAT, bytes) | COMPARES_FIRST | RETURNS), \
      ROW("ds_wrxchg_rtn_b" bits, ds_atomic, 1, ATOMIC(SWAP, bytes) | RETURNS), \
      ROW("ds_wrxchg2_rtn_b" bits, ds_exchange2, 1, bytes), \
      ROW("ds_wrxchg2st64_rtn_b" bits, ds_exchange2, 1, (bytes) | STRIDE_64), \
      ROW("ds_read2_b" bits, ds_read2, 1, bytes), ROW("ds_read2st64_b" bits, ds_read2, 1, (bytes) | STRIDE_64), \
      ROW("ds_write2_b" bits, ds_write2, 0, bytes), ROW("ds_write2st64_b" bits, ds_write2, 0, (bytes) | STRIDE_64)

const Row memory_rows[] = {
    LOADS("buffer", buffer_load),
    STORES("buffer", buffer_store),
    INTEGER_ATOMICS("buffer", buffer_atomic, 0),
    FLOAT_ATOMICS("buffer", buffer_atomic),
    FORMATS("buffer", 0),
    FORMATS("tbuffer", TYPED),
    LOADS("global", global_load),
    STORES("global", global_store),
    LOADS_TO_LDS("global", global_load_lds),
    ROW("global_load_lds_dwordx3", global_load_lds, 0, 12),
    ROW("global_load_lds_dwordx4", global_load_lds, 0, 16),
    INTEGER_ATOMICS("global", global_atomic, 0),
    FLOAT_ATOMICS("global", global_atomic),
    LOADS("flat", flat_load),
    STORES("flat", flat_store),
    INTEGER_ATOMICS("flat", flat_atomic, 0),
    FLOAT_ATOMICS("flat", flat_atomic),
    LOADS("scratch", scratch_load),
    STORES("scratch", scratch_store),
    LOADS_TO_LDS("scratch", scratch_load_lds),

    ROW("buffer_inv", nothing, 0, 0),
    ROW("buffer_invl2", nothing, 0, 0),
    ROW("buffer_wbl2", nothing, 0, 0),
    ROW("buffer_wbinvl1", nothing, 0, 0),
    ROW("buffer_wbinvl1_vol", nothing, 0, 0),

    ROW("s_load_dword", scalar_load, 1, 4),
    ROW("s_load_dwordx2", scalar_load, 1, 8),
    ROW("s_load_dwordx4", scalar_load, 1, 16),
    ROW("s_load_dwordx8", scalar_load, 1, 32),
    ROW("s_load_dwordx16", scalar_load, 1, 64),
    ROW("s_buffer_load_dword", scalar_load, 1, 4 | OF_BUFFER),
    ROW("s_buffer_load_dwordx2", scalar_load, 1, 8 | OF_BUFFER),
    ROW("s_buffer_load_dwordx4", scalar_load, 1, 16 | OF_BUFFER),
    ROW("s_buffer_load_dwordx8", scalar_load, 1, 32 | OF_BUFFER),
    ROW("s_buffer_load_dwordx16", scalar_load, 1, 64 | OF_BUFFER),
    ROW("s_scratch_load_dword", scalar_load, 1, 4 | OF_SCRATCH),
    ROW("s_scratch_load_dwordx2", scalar_load, 1, 8 | OF_SCRATCH),
    ROW("s_scratch_load_dwordx4", scalar_load, 1, 16 | OF_SCRATCH),
    ROW("s_store_dword", scalar_store, 0, 4),
    ROW("s_store_dwordx2", scalar_store, 0, 8),
    ROW("s_store_dwordx4", scalar_store, 0, 16),
    ROW("s_buffer_store_dword", scalar_store, 0, 4 | OF_BUFFER),
    ROW("s_buffer_store_dwordx2", scalar_store, 0, 8 | OF_BUFFER),
    ROW("s_buffer_store_dwordx4", scalar_store, 0, 16 | OF_BUFFER),
    ROW("s_scratch_store_dword", scalar_store, 0, 4 | OF_SCRATCH),
    ROW("s_scratch_store_dwordx2", scalar_store, 0, 8 | OF_SCRATCH),
    ROW("s_scratch_store_dwordx4", scalar_store, 0, 16 | OF_SCRATCH),
    INTEGER_ATOMICS("s", scalar_atomic, 0),
    INTEGER_ATOMICS("s_buffer", scalar_atomic, SCALAR_BUFFER),
    ROW("s_memtime", scalar_time, 1, 0),
    ROW("s_memrealtime", scalar_time, 1, 0),
    ROW("s_dcache_inv", nothing, 0, 0),
    ROW("s_dcache_inv_vol", nothing, 0, 0),
    ROW("s_dcache_wb", nothing, 0, 0),
    ROW("s_dcache_wb_vol", nothing, 0, 0),
    ROW("s_dcache_discard", nothing, 0, 0),
    ROW("s_dcache_discard_x2", nothing, 0, 0),
    ROW("s_atc_probe", nothing, 0, 0),
    ROW("s_atc_probe_buffer", nothing, 0, 0),

    ROW("ds_read_u8", ds_read, 1, 1),
    ROW("ds_read_i8", ds_read, 1, 1 | SIGNED),
    ROW("ds_read_u16", ds_read, 1, 2),
    ROW("ds_read_i16", ds_read, 1, 2 | SIGNED),
    ROW("ds_read_u8_d16", ds_read, 1, 1 | D16),
    ROW("ds_read_u8_d16_hi", ds_read, 1, 1 | D16 | HIGH),
    ROW("ds_read_i8_d16", ds_read, 1, 1 | SIGNED | D16),
    ROW("ds_read_i8_d16_hi", ds_read, 1, 1 | SIGNED | D16 | HIGH),
    ROW("ds_read_u16_d16", ds_read, 1, 2 | D16),
    ROW("ds_read_u16_d16_hi", ds_read, 1, 2 | D16 | HIGH),
    ROW("ds_read_b32", ds_read, 1, 4),
    ROW("ds_read_b64", ds_read, 1, 8),
    ROW("ds_read_b96", ds_read, 1, 12),
    ROW("ds_read_b128", ds_read, 1, 16),
    ROW("ds_write_b8", ds_write, 0, 1),
    ROW("ds_write_b8_d16_hi", ds_write, 0, 1 | HIGH),
    ROW("ds_write_b16", ds_write, 0, 2),
    ROW("ds_write_b16_d16_hi", ds_write, 0, 2 | HIGH),
    ROW("ds_write_b32", ds_write, 0, 4),
    ROW("ds_write_b64", ds_write, 0, 8),
    ROW("ds_write_b96", ds_write, 0, 12),
    ROW("ds_write_b128", ds_write, 0, 16),
    DS_ATOMICS("32", 4),
    DS_ATOMICS("64", 8),
    DS_ATOMIC("pk_add", "f16", PK_ADD_F16, 4),
    DS_ATOMIC("pk_add", "bf16", PK_ADD_BF16, 4),
    ROW("ds_wrap_rtn_b32", ds_atomic, 1, ATOMIC(WRAP, 4) | RETURNS),
    ROW("ds_condxchg32_rtn_b64", ds_atomic, 1, ATOMIC(CONDITIONAL_SWAP, 8) | RETURNS),
    ROW("ds_append", ds_count, 1, 1),
    ROW("ds_consume", ds_count, 1, 0),
    ROW("ds_read_addtid_b32", ds_read_addtid, 1, 0),
    ROW("ds_write_addtid_b32", ds_write_addtid, 0, 0),
    ROW("ds_read_b64_tr_b16", ds_read_transposed, 1, 16),
    ROW("ds_read_b64_tr_b8", ds_read_transposed, 1, 8),
    ROW("ds_read_b64_tr_b4", ds_read_transposed, 1, 4),
    ROW("ds_read_b96_tr_b6", ds_read_transposed, 1, 6),
    ROW("ds_bpermute_b32", ds_bpermute, 1, 0),
    ROW("ds_permute_b32", ds_permute, 1, 0),
    ROW("ds_swizzle_b32", ds_swizzle, 1, 0),
    ROW("ds_nop", nothing, 0, 0),
    {.name = NULL},
};
