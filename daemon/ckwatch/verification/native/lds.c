/* LDS instructions, and the permutations that use its network.
 *
 * Semantics: "AMD Instinct CDNA4 Instruction Set Architecture", chapters 11 and 12.13. Accesses need no alignment but
 * for atomics and the transposing reads: ROCm enables the unaligned access mode (AMDGPUUsage, unaligned-access-mode).
 */
#include "lds.h"

#include <stdio.h>

#include "atomics.h"
#include "counting.h"

uint64_t lds_lanes_by_lane(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes,
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

static inline uint64_t fetch_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes,
                                 unsigned bytes, uint32_t serial, uint32_t *const rows[4], LoadShadow shadow) {
  Layout layout = layout_of(offset, bytes);
  uint64_t good = lds_lanes(w, i, offset, lanes, bytes);
  if (w->group->counts) count_lds(w, i, false, offset, good, bytes);
  if (good == lanes) {
    gather(rows, w->group->lds, offset, &layout, bytes);
  } else {
    unsigned lane;
    for (unsigned k = 0; k < (bytes + 3) / 4; k++) memset(rows[k], 0, sizeof(Lanes));
    FOR_LANES(lane, good) {
      uint32_t values[4] = {0};
      memcpy(values, w->group->lds + offset[lane], bytes);
      for (unsigned k = 0; k < (bytes + 3) / 4; k++) rows[k][lane] = values[k];
    }
  }
  if (!w->checks || (good == lanes && note_lds(w, i, LDS_READ, LGKM, serial, offset, &layout, good, bytes))) return 0;
  return check_lds(w, i, LDS_READ, LGKM, serial, offset, good, bytes, NULL, NULL, shadow);
}

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

void read_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
              unsigned index, uint32_t serial, int counter) {
  unsigned bytes = detail & BYTES;
  Rows rows;
  LoadShadow shadow;
  choose_rows(w, &rows, index, lanes, bytes);
  uint64_t undefined = fetch_lds(w, i, offset, lanes, bytes, serial, rows.row, shadow);
  deliver(w, index, lanes, detail, rows.row);
  if (w->checks) checked_load(w, i, index, lanes, detail, undefined, shadow, counter);
}

static NO_INLINE void checked_write_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES],
                                        const Layout *layout, uint64_t lanes, uint64_t good, uint32_t detail,
                                        unsigned index, uint32_t serial) {
  unsigned bytes = detail & BYTES, count = (bytes + 3) / 4, lane;
  WaveChecks *c = w->checks;
  LoadShadow values, shadow;
  check_use(w, i, index, count, stored_halves(detail), good);
  uint64_t doubtful = 0;
  if (any_of(c->undefined, index, count))
    for (unsigned k = 0; k < count; k++) doubtful |= c->undefined_lanes[index + k] & good;
  if (!doubtful && good == lanes && note_lds(w, i, LDS_WRITE, LGKM, serial, offset, layout, good, bytes))
    return;
  if (doubtful)
    for (unsigned k = 0; k < count; k++) prepare_row(c, index + k);
  FOR_LANES(lane, good) {
    lane_bytes(w, index, lane, detail, values[lane]);
    if (doubtful) lane_bytes(&c->shadow, index, lane, detail, shadow[lane]);
  }
  check_lds(w, i, LDS_WRITE, LGKM, serial, offset, good, bytes, values, doubtful ? shadow : NULL, NULL);
}

void write_lds(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
               unsigned index, uint32_t serial) {
  Layout layout = layout_of(offset, detail & BYTES);
  uint64_t good = lds_lanes(w, i, offset, lanes, detail & BYTES), at[LANES];
  if (w->group->counts) count_lds(w, i, true, offset, good, detail & BYTES);
  if (w->checks) checked_write_lds(w, i, offset, &layout, lanes, good, detail, index, serial);
  if (good == ~0ull && (detail & BYTES) == 4 && !layout.irregular) {
    for (unsigned l = 0; l < LANES; l += CHUNK)
      *(Chunk *)(w->group->lds + offset[l]) = *(const Chunk *)(w->v[index] + l);
    return;
  }
  uint64_t base = (uint64_t)(uintptr_t)w->group->lds;
  for (int l = 0; l < LANES; l++) at[l] = base + offset[l];
  scatter(w, index, at, good, detail);
}

/* Of one address or of two, `fixed` bytes behind those of a register: the places of whole chunks, with nothing to report.
 * False: nothing is done. */
static inline __attribute__((always_inline)) bool read_spans(Wave *w, const Instruction *i, const Operand *address,
                                                             const uint32_t fixed[2], unsigned accesses, uint64_t lanes,
                                                             unsigned words, unsigned index, uint32_t serial) {
  const Workgroup *group = w->group;
  WaveChecks *c = w->checks;
  unsigned bytes = 4 * words;
  uint32_t last = fixed[0] > fixed[accesses - 1] ? fixed[0] : fixed[accesses - 1];
  if (group->counts) return false;
  Spans found, *spans = c ? &c->spans : &found;
  if (!c || c->spans_next != w->next || c->spans_register != address->index || c->spans_bytes != bytes) {
    if (c) c->spans_next = 0, c->spans_register = address->index, c->spans_bytes = bytes;
    if (!find_spans(spans, w->v[address->index], lanes, bytes)) return false;
  }
  if (c) c->spans_next = address->index - index < accesses * words ? 0 : w->next + 1;
  if (!spans_end_within(spans, last, group->lds_bytes)) return false;
  if (c && !note_spans(w, i, LDS_READ, serial, spans, fixed, accesses, bytes)) return false;
  for (unsigned one = 0; one < accesses; one++)
    FOR_SPANS(n, spans) {
      const uint8_t *from = group->lds + spans->first[n] + fixed[one];
      if (is_span_row(spans, n, bytes))
        for (unsigned k = 0; k < words; k++) take_chunk(w->v[index + one * words + k] + n * CHUNK, from, words, k);
      else
        for (unsigned k = 0; k < words; k++)
          *(Chunk *)(w->v[index + one * words + k] + n * CHUNK) = (Chunk){0} + word_at(from + 4 * k);
    }
  for (unsigned one = 0; c && one < accesses; one++)
    checked_load(w, i, index + one * words, lanes, bytes, 0, NULL, LGKM);
  return true;
}

static inline __attribute__((always_inline)) bool write_spans(Wave *w, const Instruction *i, const Operand *address,
                                                              uint32_t fixed, uint64_t lanes, unsigned words,
                                                              unsigned index, uint32_t serial) {
  Spans spans;
  const Workgroup *group = w->group;
  unsigned bytes = 4 * words;
  if (group->counts || !find_spans(&spans, w->v[address->index], lanes, bytes)) return false;
  if (!spans_end_within(&spans, fixed, group->lds_bytes)) return false;
  for (unsigned n = 0; n < spans.count; n++)
    if (!is_span_row(&spans, n, bytes) || (n && spans.first[n] < spans.first[n - 1] + CHUNK * bytes)) return false;
  if (w->checks) {
    if (any_of(w->checks->in_flight, index, words) || any_of(w->checks->undefined, index, words)) return false;
    if (!note_spans(w, i, LDS_WRITE, serial, &spans, &fixed, 1, bytes)) return false;
  }
  FOR_SPANS(n, &spans) {
    const uint32_t *rows[4];
    for (unsigned k = 0; k < words; k++) rows[k] = w->v[index + k] + n * CHUNK;
    put_words(group->lds + spans.first[n] + fixed, rows, words);
  }
  return true;
}

/* By the bytes of an access. */
#define IN_SPANS(access, bytes, ...) \
  ((bytes) == 4 ? access(1, __VA_ARGS__) : (bytes) == 8 ? access(2, __VA_ARGS__) : (bytes) == 16 ? access(4, __VA_ARGS__) : false)
#define READ_SPANS(words, fixed, count) read_spans(w, i, &o[1], fixed, count, lanes, words, o[0].index, serial)
#define WRITE_SPANS(words, fixed, data) write_spans(w, i, &o[0], fixed, lanes, words, o[data].index, serial)

static void ds_read(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = 0;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[1], lanes), serial = next_lds_serial(w, LGKM);
  const uint32_t fixed[2] = {(uint32_t)i->offset, 0};
  if (lanes && !IN_SPANS(READ_SPANS, i->row->detail, fixed, 1)) {
    lds_offsets(w, &o[1], (uint32_t)i->offset, lanes, offset);
    read_lds(w, i, offset, lanes, i->row->detail, o[0].index, serial, LGKM);
  }
  if (w->checks)
    expect_halves(w, i, LGKM, o[0].index, ((i->row->detail & BYTES) + 3) / 4,
                  loaded_halves(w->launch->arch, i->row->detail), lanes, serial);
}

static void ds_write(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = 0;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[0], lanes), serial = next_lds_serial(w, LGKM);
  if (lanes && !IN_SPANS(WRITE_SPANS, i->row->detail, (uint32_t)i->offset, 1)) {
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
  const uint32_t fixed[2] = {pair_offset(i, false), pair_offset(i, true)};
  if (lanes && !IN_SPANS(READ_SPANS, bytes, fixed, 2)) {
    /* both before the first result, which may be the address */
    for (unsigned n = 0; n < 2; n++) lds_offsets(w, &o[1], fixed[n], lanes, offset[n]);
    for (unsigned n = 0; n < 2; n++) read_lds(w, i, offset[n], lanes, bytes, o[0].index + n * words, serial, LGKM);
  }
  if (w->checks) expect(w, i, LGKM, o[0].index, 2 * words, lanes, serial);
}

static void ds_write2(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  uint32_t offset[LANES], serial = 0;
  const Operand *o = i->operand;
  if (w->checks) check_address(w, i, &o[0], lanes), serial = next_lds_serial(w, LGKM);
  for (unsigned n = 0; lanes && n < 2; n++) {
    if (IN_SPANS(WRITE_SPANS, i->row->detail & BYTES, pair_offset(i, n), 1 + n)) continue;
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
void lds_atomic(Wave *w, const Instruction *i, const uint32_t offset[LANES], uint64_t lanes, uint32_t detail,
                unsigned data, unsigned second, int result, uint32_t serial) {
  Operation operation = detail >> 8;
  unsigned bytes = detail & BYTES, words = bytes / 4, lane;
  bool flush_input = !(w->mode & 0x10), flush_output = !(w->mode & 0x20);
  bool halves = operation == PK_ADD_F16 || operation == PK_ADD_BF16;
  if (halves) flush_input = flush_output = false;
  uint64_t good = aligned_lanes(w, i, offset, lds_lanes(w, i, offset, lanes, bytes), bytes), undefined = 0;
  LoadShadow shadow;
  if (w->group->counts) count_lds(w, i, true, offset, good, bytes);
  if (w->checks) {
    LoadShadow doubt;
    bool doubtful = any_of(w->checks->undefined, data, words);
    check_use(w, i, data, words, BOTH_HALVES, lanes);
    if (has_second(operation)) {
      check_use(w, i, second, words, BOTH_HALVES, lanes);
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
      if (w->group->counts) count_lds(w, i, true, offset[n], good[n], bytes);
      if (!w->checks) continue;
      check_use(w, i, o[2 + n].index, words, BOTH_HALVES, lanes);
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
  if (lanes) read_lds(w, i, offset, lanes, 4, i->operand[0].index, serial, LGKM);
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
  uint32_t row[LANES + 1];
  memcpy(row, w->v[from], sizeof(Lanes));
  row[LANES] = 0;
  for (int l = 0; l < LANES; l++) values[l] = row[source[l]];
  if (w->checks) {
    LoadShadow shadow;
    uint64_t undefined = 0, used = 0;
    unsigned lane;
    for (int l = 0; l < LANES; l++) used |= (lanes >> l & (source[l] < LANES)) << (source[l] & 63);
    check_use(w, i, from, 1, BOTH_HALVES, used);
    if (w->checks->undefined_lanes[from] & used) {
      const uint32_t *unknown = prepare_row(w->checks, from);
      FOR_LANES(lane, lanes) {
        shadow[lane][0] = source[lane] < LANES ? unknown[source[lane]] : 0;
        undefined |= (uint64_t)(shadow[lane][0] != 0) << lane;
      }
    }
    const Instruction *origin = w->checks->origin[from];
    check_result(w, i, to, 1, BOTH_HALVES, lanes, LGKM);
    put_loaded(w, undefined && origin ? origin : i, to, 1, lanes, undefined, shadow);
    expect(w, i, LGKM, to, 1, lanes, 0);
  }
  put_lanes(w, to, values);
}

/* Halves of a wave of 64 are apart on gfx11 (LLVM: supportsWaveWideBPermute). */
static uint32_t permuted_lanes(const Wave *w) { return w->launch->arch == GFX1100 ? 32 : w->launch->lanes; }

/* Row.detail: lanes that are off are read, too. */
static void ds_bpermute(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  const Operand *o = i->operand;
  uint8_t source[LANES];
  if (w->checks) check_address(w, i, &o[1], lanes);
  const uint32_t *at = w->v[o[1].index], offset = (uint32_t)i->offset, among = permuted_lanes(w) - 1;
  const uint64_t readable = i->row->detail ? ~0ull : lanes;
  for (int l = 0; l < LANES; l++) {
    uint32_t from = ((at[l] + offset) / 4 & among) | (l & 32 & ~among);
    source[l] = (uint8_t)(readable >> from & 1 ? from : LANES);
  }
  put_permuted(w, i, o[0].index, o[2].index, source);
}

static void ds_permute(Wave *w, const Instruction *i) {
  uint64_t lanes = EXEC_OF(w);
  const Operand *o = i->operand;
  uint8_t source[LANES];
  const uint32_t among = permuted_lanes(w) - 1;
  unsigned lane;
  if (w->checks) check_address(w, i, &o[1], lanes);
  memset(source, LANES, sizeof source);
  FOR_LANES(lane, lanes)
    source[((w->v[o[1].index][lane] + (uint32_t)i->offset) / 4 & among) | (lane & 32 & ~among)] = (uint8_t)lane;
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

/* ---- Rows -------------------------------------------------------------------------------------------------------- */
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

const Row lds_rows[] = {
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
    DS_ATOMIC("cond_sub", "u32", CONDITIONAL_SUB, 4),
    DS_ATOMIC("sub_clamp", "u32", CLAMPED_SUB, 4),
    ROW("ds_append", ds_count, 1, 1),
    ROW("ds_consume", ds_count, 1, 0),
    ROW("ds_read_addtid_b32", ds_read_addtid, 1, 0),
    ROW("ds_write_addtid_b32", ds_write_addtid, 0, 0),
    ROW("ds_read_b64_tr_b16", ds_read_transposed, 1, 16),
    ROW("ds_read_b64_tr_b8", ds_read_transposed, 1, 8),
    ROW("ds_read_b64_tr_b4", ds_read_transposed, 1, 4),
    ROW("ds_read_b96_tr_b6", ds_read_transposed, 1, 6),
    ROW("ds_bpermute_b32", ds_bpermute, 1, 0),
    ROW("ds_bpermute_fi_b32", ds_bpermute, 1, 1),
    ROW("ds_permute_b32", ds_permute, 1, 0),
    ROW("ds_swizzle_b32", ds_swizzle, 1, 0),
    ROW("ds_nop", execute_nothing, 0, 0),
    {.name = NULL},
};
