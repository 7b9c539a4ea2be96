/* Operands and results with SDWA and DPP; see values.h. */
#include "values.h"

#include <pthread.h>

/* The lane that `lane` reads by a DPP control; -1 if it is invalid. */
static int find_dpp_source(int control, int lane) {
  int row = lane & ~15, in_row = lane & 15;
  if (control <= 0xff) return (lane & ~3) | (control >> (lane & 3) * 2 & 3);
  if (control >= 0x101 && control <= 0x10f) return in_row + (control & 15) < 16 ? lane + (control & 15) : -1;
  if (control >= 0x111 && control <= 0x11f) return in_row >= (control & 15) ? lane - (control & 15) : -1;
  if (control >= 0x121 && control <= 0x12f) return row | ((in_row - (control & 15)) & 15);
  if (control >= 0x150 && control <= 0x15f) return row | (control & 15);
  if (control >= 0x160 && control <= 0x16f) return lane ^ (control & 15);
  switch (control) {
    case 0x130: return lane < 63 ? lane + 1 : -1;
    case 0x134: return (lane + 1) & 63;
    case 0x138: return lane > 0 ? lane - 1 : -1;
    case 0x13c: return (lane - 1) & 63;
    case 0x140: return row | (15 - in_row);
    case 0x141: return (lane & ~7) | (7 - (lane & 7));
    case 0x142: return row ? row - 1 : -1;
    case 0x143: return lane >= 32 ? 31 : -1;
    default: return -1;
  }
}


/* The same from a table. */
enum { DPP_CONTROLS = 0x170 };
static int8_t dpp_sources[DPP_CONTROLS][LANES];
static pthread_once_t dpp_found = PTHREAD_ONCE_INIT;
static void find_dpp_sources(void) {
  for (int control = 0; control < DPP_CONTROLS; control++)
    for (int l = 0; l < LANES; l++) dpp_sources[control][l] = (int8_t)find_dpp_source(control, l);
}
static const int8_t *sources_of(const Instruction *i) {
  pthread_once(&dpp_found, find_dpp_sources);
  return dpp_sources[i->dpp_control < DPP_CONTROLS ? i->dpp_control : DPP_CONTROLS - 1];
}

static inline uint64_t readable_lanes(const Wave *w, const Instruction *i) { return i->fetch_inactive ? ~0ull : EXEC_OF(w); }

/* Bits of a select: how far the value is shifted up, so that they are the uppermost, and down again. */
typedef struct {
  uint32_t up, down;
} Select;
static inline Select select_of(const Operand *o) {
  if (o->select <= BYTE_3 && o->select >= BYTE_0) return (Select){24 - (o->select - BYTE_0) * 8u, 24};
  if (o->select == WORD_0 || o->select == WORD_1) return (Select){16 - (o->select - WORD_0) * 16u, 16};
  return (Select){0, 0};
}
static inline void select_bits(uint32_t *values, const uint32_t *row, unsigned count, const Operand *o) {
  const Select s = select_of(o);
  if (o->sext) for (unsigned l = 0; l < count; l++) values[l] = (uint32_t)((int32_t)(row[l] << s.up) >> s.down);
  else for (unsigned l = 0; l < count; l++) values[l] = row[l] << s.up >> s.down;
}

const uint32_t *fetch_slow(const Wave *w, const Instruction *i, const Operand *o, uint32_t part, uint32_t *buffer) {
  if (o->kind == VECTOR) {
    const uint32_t *row = w->v[o->index + part];
    if (i->dpp && o == &i->operand[i->row->results]) {
      const uint64_t exec = readable_lanes(w, i);
      const int8_t *from = sources_of(i);
      for (int l = 0; l < LANES; l++) buffer[l] = from[l] >= 0 && exec >> (from[l] & 63) & 1 ? row[from[l] & 63] : 0;
      row = buffer;
    }
    if (o->select == DWORD) return row;
    select_bits(buffer, row, LANES, o);
    return buffer;
  }
  uint32_t value = 0;
  if (o->kind == SCALAR) value = o->count > 1 || part == 0 ? scalar_of(w, o->index + part) : 0;
  else if (part == 0) value = literal_32(o);
  else value = o->is_float ? 0 : (uint32_t)(o->bits >> 32);
  select_bits(&value, &value, 1, o);
  for (int l = 0; l < LANES; l++) buffer[l] = value;
  return buffer;
}

void put_slow(Wave *w, const Instruction *i, const Operand *o, const uint32_t *values) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t *row = w->v[o->index];
  if (i->dpp) {
    const int8_t *from = sources_of(i);
    const uint64_t readable = readable_lanes(w, i);
    for (int l = 0; l < LANES; l++) {
      bool valid = from[l] >= 0 && readable >> from[l] & 1;
      if (!(i->row_mask >> (l >> 4) & 1) || !(i->bank_mask >> (l >> 2 & 3) & 1) || (!valid && !i->bound_ctrl))
        lanes &= ~(1ull << l);
    }
  }
  if (!i->sdwa || i->dst_select == DWORD) {
    choose_lanes(row, lanes, values, row);
    return;
  }
  const bool is_byte = i->dst_select <= BYTE_3;
  const uint32_t shift = is_byte ? (i->dst_select - BYTE_0) * 8u : (i->dst_select - WORD_0) * 16u;
  const uint32_t width = is_byte ? 8 : 16, mask = (1u << width) - 1, above = (uint32_t)(~0ull << (shift + width));
  for (int l = 0; l < LANES; l++) {
    if (!(lanes >> l & 1)) continue;
    uint32_t value = values[l] & mask, kept = i->dst_unused == 2 ? row[l] & ~(mask << shift) : 0;
    if (i->dst_unused == 1 && value >> (width - 1)) kept |= above;
    row[l] = kept | value << shift;
  }
}
