/* Operands and results with SDWA and DPP; see values.h. */
#include "values.h"

/* The lane that `lane` reads by a DPP control; -1 if it is invalid. */
static int dpp_source(int control, int lane) {
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

static inline uint64_t readable_lanes(const Wave *w, const Instruction *i) { return i->fetch_inactive ? ~0ull : EXEC_OF(w); }

static uint32_t selected(uint32_t value, uint8_t select, bool sext) {
  switch (select) {
    case BYTE_0: case BYTE_1: case BYTE_2: case BYTE_3:
      value = value >> (select - BYTE_0) * 8 & 255;
      return sext ? (uint32_t)(int8_t)value : value;
    case WORD_0: case WORD_1:
      value = value >> (select - WORD_0) * 16 & 0xffff;
      return sext ? (uint32_t)(int16_t)value : value;
    default: return value;
  }
}

const uint32_t *fetch_slow(const Wave *w, const Instruction *i, const Operand *o, uint32_t part, uint32_t *buffer) {
  if (o->kind == VECTOR) {
    const uint32_t *row = w->v[o->index + part];
    if (i->dpp && o == &i->operand[i->row->results]) {
      uint64_t exec = readable_lanes(w, i);
      for (int l = 0; l < LANES; l++) {
        int from = dpp_source(i->dpp_control, l);
        buffer[l] = from >= 0 && exec >> from & 1 ? row[from] : 0;
      }
      row = buffer;
    }
    if (o->select == DWORD) return row;
    for (int l = 0; l < LANES; l++) buffer[l] = selected(row[l], o->select, o->sext);
    return buffer;
  }
  uint32_t value = 0;
  if (o->kind == SCALAR) value = o->count > 1 || part == 0 ? scalar_of(w, o->index + part) : 0;
  else if (part == 0) value = literal_32(o);
  else value = o->is_float ? 0 : (uint32_t)(o->bits >> 32);
  value = selected(value, o->select, o->sext);
  for (int l = 0; l < LANES; l++) buffer[l] = value;
  return buffer;
}

void put_slow(Wave *w, const Instruction *i, const Operand *o, const uint32_t *values) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t *row = w->v[o->index];
  if (i->dpp)
    for (int l = 0; l < LANES; l++) {
      int from = dpp_source(i->dpp_control, l);
      bool valid = from >= 0 && readable_lanes(w, i) >> from & 1;
      if (!(i->row_mask >> (l >> 4) & 1) || !(i->bank_mask >> (l >> 2 & 3) & 1) || (!valid && !i->bound_ctrl))
        lanes &= ~(1ull << l);
    }
  for (int l = 0; l < LANES; l++) {
    if (!(lanes >> l & 1)) continue;
    uint32_t value = values[l];
    if (i->sdwa && i->dst_select != DWORD) {
      bool is_byte = i->dst_select <= BYTE_3;
      int shift = is_byte ? (i->dst_select - BYTE_0) * 8 : (i->dst_select - WORD_0) * 16;
      uint32_t width = is_byte ? 8 : 16, mask = (1u << width) - 1;
      uint32_t kept = i->dst_unused == 2 ? row[l] & ~(mask << shift) : 0;
      value &= mask;
      if (i->dst_unused == 1 && value >> (width - 1)) kept |= (uint32_t)(~0ull << (shift + width));
      value = kept | value << shift;
    }
    row[l] = value;
  }
}
