/* Buffer, global, flat and scratch instructions.
 *
 * Semantics: "AMD Instinct CDNA4 Instruction Set Architecture", chapters 9, 10 and 12.14 to 12.15. Beyond these:
 *   - Loads of 8 and 16 bits with _d16 write the whole register, the other half with 0, where registers have ECC, as on
 *     gfx9: they cannot be written in part (9.1.6; LLVM: SRAMECC, d16PreservesUnusedBits).
 *   - Accesses need no alignment: ROCm enables the unaligned access mode (AMDGPUUsage, unaligned-access-mode). Atomics
 *     must be aligned.
 *   - The range of a buffer is tested as gfx950 was seen to (AMD, rocm-systems #10928): the offset in an SGPR counts,
 *     the sum of the other two wraps at 32 bits, each dword is in it as a whole or not at all; swizzling needs
 *     add_tid_enable, and an index in a VGPR takes the lane's place where nothing is swizzled.
 */
#include <stdio.h>
#include <stdlib.h>

#include "atomics.h"
#include "counting.h"
#include "lds.h"
#include "ordering.h"
#include "sampling.h"

/* ---- Reading ----------------------------------------------------------------------------------------------------- */
/* One byte in doubt makes each lane be looked at; most often the bytes of all lanes are one range without any. */
static uint64_t undefined_of_region(const Region *region, const Places *p, Reach reach, unsigned bytes,
                                    LoadShadow shadow) {
  uint64_t low = reach.low, high = reach.high;
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
    uint32_t values[4] = {0};
    if (region) {
      memcpy(values, (const void *)(uintptr_t)p->at[lane], wanted);
    } else { /* the bytes that are there arrive */
      finding(w, i, OUT_OF_BOUNDS_READ, (int)lane, p->at[lane], wanted);
      for (unsigned n = 0; n < wanted; n++)
        if (region_with(w, p->at[lane] + n, 1)) ((uint8_t *)values)[n] = *(const uint8_t *)(uintptr_t)(p->at[lane] + n);
    }
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) rows[k][lane] = values[k];
    if (!region) continue;
    if (w->launch->sampled) sample_read_at(w, region, p->at[lane], wanted);
    if (w->group->order) order_read(w, i, region, p, 1ull << lane, wanted);
    if (w->checks && region->undefined) undefined |= undefined_memory(region, p, 1ull << lane, wanted, shadow);
  }
  return undefined;
}

static inline uint64_t fetch_memory(Wave *w, const Instruction *i, const Places *p, unsigned bytes,
                                    uint32_t *const rows[4], LoadShadow shadow) {
  if (w->group->counts) count_memory(w, i, p, bytes);
  Reach reach = reach_of(p);
  const Region *region = p->partial || reach.high - reach.low > UINT32_MAX ? NULL : common_region(w, reach, bytes);
  if (!region) return fetch_memory_by_lane(w, i, p, bytes, rows, shadow);
  uint32_t offset[LANES];
  for (int l = 0; l < LANES; l++) offset[l] = (uint32_t)(p->at[l] - reach.low);
  Layout layout = layout_of(offset, bytes);
  gather(rows, (const uint8_t *)(uintptr_t)reach.low, offset, &layout, bytes);
  if (w->launch->sampled) sample_read(w, region, p, p->lanes, bytes);
  if (w->group->order) order_read(w, i, region, p, p->lanes, bytes);
  return w->checks && region->undefined ? undefined_of_region(region, p, reach, bytes, shadow) : 0;
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

/* Where all lanes access dwords at the same offset, which lie side by side: the first one's place. False: elsewhere. */
static bool is_scratch_row(const Wave *w, const Places *p, unsigned bytes, uint64_t *at) {
  uint64_t apart = 0;
  for (int l = 0; l < LANES; l++) apart |= p->at[l] ^ p->at[0];
  *at = p->scratch + (p->at[0] >> 2) * sizeof(Lanes);
  return !apart && p->at[0] % 4 == 0 && bytes % 4 == 0 && p->at[0] <= UINT32_MAX &&
         *at + bytes / 4 * sizeof(Lanes) <= (uint64_t)w->scratch_bytes * LANES;
}

static uint64_t fetch_scratch(Wave *w, const Instruction *i, const Places *p, unsigned bytes, uint32_t *const rows[4],
                              LoadShadow shadow) {
  uint64_t undefined = 0, first;
  unsigned lane;
  const uint8_t *unknown = w->checks ? scratch_shadow(w) : NULL;
  if (is_scratch_row(w, p, bytes, &first)) {
    uint64_t doubtful = 0;
    for (unsigned k = 0; unknown && k < bytes / 4; k++)
      doubtful |= lanes_not_zero((const uint32_t *)(unknown + first) + k * LANES) & p->lanes;
    for (unsigned k = 0; k < bytes / 4; k++) memcpy(rows[k], w->scratch + first + k * sizeof(Lanes), sizeof(Lanes));
    if (!doubtful) return 0;
  }
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

/* Into registers; `counter` as that of checked_load. */
static inline void read_memory(Wave *w, const Instruction *i, const Places *p, Space space, uint32_t detail,
                               unsigned index, int counter) {
  if (!p->lanes) return;
  w->polls |= i->glc || i->sc0 || i->sc1;
  unsigned bytes = detail & BYTES;
  Rows rows;
  LoadShadow shadow;
  choose_rows(w, &rows, index, p->lanes, bytes);
  uint64_t undefined = space == MEMORY ? fetch_memory(w, i, p, bytes, rows.row, shadow)
                                       : fetch_scratch(w, i, p, bytes, rows.row, shadow);
  deliver(w, index, p->lanes, detail, rows.row);
  if (w->checks) checked_load(w, i, index, p->lanes, detail, undefined, shadow, counter);
}

static inline void load(Wave *w, const Instruction *i, const Places *p, Space space, uint32_t detail, unsigned index) {
  read_memory(w, i, p, space, detail, index, VM);
  if (w->checks)
    expect_halves(w, i, VM, index, ((detail & BYTES) + 3) / 4, loaded_halves(w->launch->arch, detail), p->lanes, 0);
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */
static uint32_t mask_of(uint32_t detail) { /* the bits of a register that a store takes */
  uint32_t mask = (detail & BYTES) == 1 ? 0xff : (detail & BYTES) == 2 ? 0xffff : ~0u;
  return detail & HIGH ? mask << 16 : mask;
}

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
  if (lanes == ~0ull || lanes == UINT32_MAX) {
    for (int l = 1, end = lanes == ~0ull ? LANES : LANES / 2; l < end; l++) overlaps |= p->at[l] < p->at[l - 1] + bytes;
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
  const Region *all = p->partial || lanes != p->lanes ? NULL : common_region(w, reach_of(p), bytes);
  if (all && !all->undefined) return;
  if (all && !doubtful) {
    for (unsigned l = 0; l < LANES; l += CHUNK)
      if (in_a_row(p->at + l, bytes)) memset(all->undefined + (p->at[l] - all->base), 0, CHUNK * bytes);
      else if (p->lanes >> l & 0xffff)
        for (unsigned n = l; n < l + CHUNK; n++) memset(all->undefined + (p->at[n] - all->base), 0, bytes);
    return;
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
    uint32_t values[4];
    lane_bytes(w, index, lane, detail, values);
    if (!region) {
      finding(w, i, OUT_OF_BOUNDS_WRITE, (int)lane, p->at[lane], wanted);
      for (unsigned n = 0; n < wanted; n++) {
        const Region *part = region_with(w, p->at[lane] + n, 1);
        if (!part) continue;
        *(uint8_t *)(uintptr_t)(p->at[lane] + n) = ((uint8_t *)values)[n];
        if (w->checks && part->undefined) part->undefined[p->at[lane] + n - part->base] = 0;
      }
      continue;
    }
    memcpy((void *)(uintptr_t)p->at[lane], values, wanted);
    done |= 1ull << lane;
  }
  return done;
}

static void store_scratch(Wave *w, const Instruction *i, const Places *p, uint32_t detail, unsigned index) {
  unsigned bytes = detail & BYTES, lane;
  uint8_t *unknown = w->checks ? scratch_shadow(w) : NULL;
  uint64_t first;
  if (unknown)
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) prepare_row(w->checks, index + k);
  if (is_scratch_row(w, p, bytes, &first)) {
    for (unsigned k = 0; k < bytes / 4; k++) {
      uint32_t *row = (uint32_t *)(w->scratch + first) + k * LANES;
      choose_lanes(row, p->lanes, w->v[index + k], row);
      if (!unknown) continue;
      row = (uint32_t *)(unknown + first) + k * LANES;
      choose_lanes(row, p->lanes, w->checks->shadow.v[index + k], row);
    }
    return;
  }
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
  if (w->checks) check_use(w, i, index, (bytes + 3) / 4, stored_halves(detail), p->lanes);
  if (p->lanes && space == SCRATCH) store_scratch(w, i, p, detail, index);
  else if (p->lanes && (!w->launch->sampled || sample_store(w, p, bytes))) {
    uint64_t done = p->lanes;
    if (w->group->counts) count_memory(w, i, p, bytes);
    if (w->launch->watched) watch_store(w, i, p, p->lanes, bytes);
    if (w->group->order) order_store(w, i, p, detail, index);
    if (!p->partial && common_region(w, reach_of(p), bytes)) scatter(w, index, p->at, p->lanes, detail);
    else done = store_memory_by_lane(w, i, p, detail, index);
    if (w->group->order) order_stored(w);
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

/* ---- Buffer instructions ----------------------------------------------------------------------------------------- */
/* RDNA ("RDNA3 Instruction Set Architecture", 9.1.5): where the range is tested as that of raw memory. */
static bool is_raw_buffer(Wave *w, const Instruction *i, const Operand *descriptor, const Descriptor *d) {
  enum { RAW = 3 };
  const uint32_t *s = &w->s[descriptor->index];
  const char *why = w->launch->arch == GFX1250      ? "a descriptor of gfx1250"
                    : d->add_lane || s[1] >> 30     ? "a swizzled buffer"
                    : i->idxen                      ? "an index into a buffer"
                    : (s[3] >> 28 & 3) != RAW       ? "a buffer whose range is not tested as that of raw memory"
                                                    : NULL;
  if (why) cannot_execute(w, i, why);
  return !why;
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
  if (is_rdna(w->launch->arch) && !is_raw_buffer(w, i, descriptor, &d)) return false;
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
    uint64_t unit = i->scale ? i->row->detail & BYTES : 1; /* scale_offset */
    for (int l = 0; l < LANES; l++) p->at[l] = fixed + low[l] * unit;
  } else {
    const uint32_t *high = w->v[vector->index + 1];
    for (int l = 0; l < LANES; l++) p->at[l] = fixed + ((uint64_t)high[l] << 32 | low[l]);
  }
  fill_places(p);
  for (int l = 0; l < LANES; l += CHUNK) __builtin_prefetch((const void *)(uintptr_t)p->at[l]);
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

/* Elements of 16 bits of eight lanes change places: lane j gets element j of each of its group. */
static void transpose_lanes(uint32_t (*rows)[LANES]) {
  uint16_t in[LANES][8];
  for (int l = 0; l < LANES; l++)
    for (int n = 0; n < 8; n++) in[l][n] = (uint16_t)(rows[n / 2][l] >> 16 * (n % 2));
  for (int l = 0; l < LANES; l++)
    for (int k = 0; k < 4; k++) rows[k][l] = in[(l & ~7) + 2 * k][l & 7] | (uint32_t)in[(l & ~7) + 2 * k + 1][l & 7] << 16;
}
static void global_load_transposed(Wave *w, const Instruction *i) {
  if (EXEC_OF(w) != UINT32_MAX) {
    cannot_execute(w, i, "a transposing load with lanes that are off");
    return;
  }
  uint32_t first = i->operand[0].index;
  Places p;
  global_places(w, i, &i->operand[1], &i->operand[2], &p);
  load(w, i, &p, MEMORY, 16, first);
  transpose_lanes(&w->v[first]);
  if (!w->checks || !any_of(w->checks->undefined, first, 4)) return;
  for (uint32_t k = 0; k < 4; k++) prepare_row(w->checks, first + k);
  transpose_lanes(&w->checks->shadow.v[first]);
  for (uint32_t k = 0; k < 4; k++) note_row(w->checks, first + k, i);
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
  if (vector->kind != VECTOR) {
    for (int l = 0; l < LANES; l++) p->at[l] = fixed;
    return;
  }
  const uint32_t *row = w->v[vector->index];
  for (int l = 0; l < LANES; l++) p->at[l] = (uint32_t)(fixed + row[l]);
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

/* gfx1250: a lane adds its number, in bits 56:52, to the address of its scratch. */
static void take_own_scratch(Places *p, uint32_t private) {
  for (unsigned l = 0; l < LANES; l++)
    if ((uint32_t)(p->at[l] >> 32) == (private | l << 20)) p->at[l] &= ~(0x1full << 52);
}

static void flat_places(Wave *w, const Instruction *i, const Operand *vector, const Operand *scalar, FlatPlaces *f) {
  Places *p = &f->memory;
  global_places(w, i, vector, scalar, p); /* a scalar base: of gfx1250 */
  uint32_t shared = w->s[SHARED_BASE + 1], private = w->s[PRIVATE_BASE + 1];
  uint64_t in_lds = 0, in_scratch = 0;
  if (w->launch->arch == GFX1250) take_own_scratch(p, private);
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
  flat_places(w, i, &i->operand[1], &i->operand[2], &f);
  uint64_t all = f.memory.lanes | f.lds | f.scratch.lanes;
  uint32_t serial = w->checks && f.lds ? next_lds_serial(w, LGKM) : 0;
  read_memory(w, i, &f.memory, MEMORY, detail, index, -1);
  if (f.lds) read_lds(w, i, f.lds_offset, f.lds, detail, index, serial, -1);
  read_memory(w, i, &f.scratch, SCRATCH, detail, index, -1);
  if (!w->checks) return;
  unsigned halves = loaded_halves(w->launch->arch, detail);
  expect_halves(w, i, VM, index, (bytes + 3) / 4, halves, all, 0);
  expect_halves(w, i, LGKM, index, (bytes + 3) / 4, halves, all, serial);
}

static void flat_store(Wave *w, const Instruction *i) {
  FlatPlaces f;
  unsigned index = i->operand[1].index;
  flat_places(w, i, &i->operand[0], &i->operand[2], &f);
  uint32_t serial = w->checks && f.lds ? next_lds_serial(w, LGKM) : 0;
  if (f.lds) write_lds(w, i, f.lds_offset, f.lds, i->row->detail, index, serial);
  if (f.scratch.lanes) store_scratch(w, i, &f.scratch, i->row->detail, index);
  store(w, i, &f.memory, MEMORY, i->row->detail, index);
  if (w->checks) expect(w, i, LGKM, 0, 0, 0, serial);
}

static void flat_atomic(Wave *w, const Instruction *i) {
  FlatPlaces f;
  const Operand *o = i->operand;
  bool returns = i->glc || i->sc0;
  flat_places(w, i, &o[returns], &o[returns + 2], &f);
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

/* ---- Rows -------------------------------------------------------------------------------------------------------- */
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

#define FLOAT_ATOMICS(prefix, handler) \
  ROW(prefix "_atomic_add_f32", handler, 0, ATOMIC(ADD_FLOAT, 4)), \
      ROW(prefix "_atomic_pk_add_f16", handler, 0, ATOMIC(PK_ADD_F16, 4)), \
      ROW(prefix "_atomic_pk_add_bf16", handler, 0, ATOMIC(PK_ADD_BF16, 4)), \
      ROW(prefix "_atomic_add_f64", handler, 0, ATOMIC(ADD_FLOAT, 8)), \
      ROW(prefix "_atomic_min_f64", handler, 0, ATOMIC(MIN_FLOAT, 8)), \
      ROW(prefix "_atomic_max_f64", handler, 0, ATOMIC(MAX_FLOAT, 8))

#define RDNA_ATOMICS(prefix, handler) \
  ROW(prefix "_atomic_min_f32", handler, 0, ATOMIC(MIN_FLOAT, 4)), \
      ROW(prefix "_atomic_max_f32", handler, 0, ATOMIC(MAX_FLOAT, 4)), \
      ROW(prefix "_atomic_cmpswap_f32", handler, 0, ATOMIC(CMPSWAP_FLOAT, 4)), \
      ROW(prefix "_atomic_sub_clamp", handler, 0, ATOMIC(CLAMPED_SUB, 4)), \
      ROW(prefix "_atomic_cond_sub", handler, 0, ATOMIC(CONDITIONAL_SUB, 4))

#define FORMAT(prefix, components, bits) \
  ROW(prefix "_load_format_" components, buffer_load_format, 1, bits), \
      ROW(prefix "_store_format_" components, buffer_store_format, 0, bits)

#define FORMATS(prefix, typed) \
  FORMAT(prefix, "x", 1 | (typed)), FORMAT(prefix, "xy", 2 | (typed)), FORMAT(prefix, "xyz", 3 | (typed)), \
      FORMAT(prefix, "xyzw", 4 | (typed)), FORMAT(prefix, "d16_x", 1 | D16 | (typed)), \
      FORMAT(prefix, "d16_xy", 2 | D16 | (typed)), FORMAT(prefix, "d16_xyzw", 4 | D16 | (typed))

const Row global_memory_rows[] = {
    LOADS("buffer", buffer_load),
    STORES("buffer", buffer_store),
    INTEGER_ATOMICS("buffer", buffer_atomic, 0),
    FLOAT_ATOMICS("buffer", buffer_atomic),
    RDNA_ATOMICS("buffer", buffer_atomic),
    RDNA_ATOMICS("global", global_atomic),
    RDNA_ATOMICS("flat", flat_atomic),
    ROW("global_load_tr_b128", global_load_transposed, 1, 16),
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
    ROW("buffer_inv", execute_invalidate, 0, 0),
    ROW("buffer_invl2", execute_nothing, 0, 0),
    ROW("buffer_wbl2", execute_write_back, 0, 0),
    ROW("buffer_wbinvl1", execute_nothing, 0, 0),
    ROW("buffer_wbinvl1_vol", execute_invalidate, 0, 0),
    {.name = NULL},
};
