/* The checks of what memory instructions read; see access.h. */
#include "access.h"

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

uint64_t undefined_memory(const Region *region, const Places *p, uint64_t lanes, unsigned bytes,
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

void check_doubtful_load(Wave *w, const Instruction *i, unsigned index, uint64_t lanes, uint32_t detail,
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
  check_result(w, i, index, count, loaded_halves(w->launch->arch, detail), lanes, counter);
  put_loaded(w, i, index, count, lanes, undefined, shadow);
}
