/* LDS: what other instructions than its own do with it. */
#ifndef LDS_H
#define LDS_H

#include "access.h"

static inline uint32_t lds_base(const Wave *w, const Instruction *i, bool is_buffer) {
  uint32_t mask = !is_buffer ? 0x3fffc : w->launch->arch == GFX950 ? 0x3ffff : 0xffff;
  return (w->s[M0] & mask) + (uint32_t)i->offset;
}

/* Lanes whose bytes the workgroup has; the others are reported. */
uint64_t lds_lanes_by_lane(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, unsigned bytes);

static inline uint64_t lds_lanes(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes,
                                 unsigned bytes) {
  if (w->group->lds_bytes >= bytes && all_below(offset, (uint64_t)w->group->lds_bytes - bytes + 1)) return lanes;
  return lds_lanes_by_lane(w, i, offset, lanes, bytes);
}

void read_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
              unsigned index, uint32_t serial, int counter);
void write_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
               unsigned index, uint32_t serial);
void lds_atomic(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
                unsigned data, unsigned second, int result, uint32_t serial);

#endif
