/* Scalar memory instructions (SMEM). s_memtime and s_memrealtime count the instructions that the wave has executed.
 *
 * Semantics: "AMD Instinct CDNA4 Instruction Set Architecture", chapters 8 and 12.6. */
#include "ordering.h"
#include "sampling.h"

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
enum { OF_BUFFER = 0x100, OF_SCRATCH = 0x200, SIGN_EXTENDED = 0x400 };

/* The address, and for buffers how many bytes are in range there. */
static uint64_t scalar_address(Wave *w, const Instruction *i, uint32_t detail, uint64_t *in_range) {
  const Operand *base = &i->operand[1], *offset = &i->operand[2];
  if (w->checks) {
    check_address(w, i, base, ~0ull);
    check_address(w, i, offset, ~0ull);
  }
  uint64_t unit = detail & OF_SCRATCH ? 64 : i->scale ? detail & BYTES : 1; /* scale_offset */
  uint64_t by = offset->kind == SCALAR ? (uint64_t)scalar_of(w, offset->index) * unit
                                       : (uint64_t)offset->bits;
  by += (uint64_t)(int64_t)i->offset;
  *in_range = UINT64_MAX;
  uint64_t aligned = (detail & BYTES) < 4 ? ~0ull : ~3ull;
  if (!(detail & OF_BUFFER)) return (scalar_pair_of(w, base->index) + by) & aligned;
  if (w->launch->arch == GFX1250) cannot_execute(w, i, "a descriptor of gfx1250");
  Descriptor d = descriptor_of(w, base);
  uint64_t size = d.stride ? (uint64_t)d.stride * d.records : d.records;
  by &= aligned;
  *in_range = by < size ? size - by : 0;
  return (d.base & ~3ull) + by;
}

static void scalar_load(Wave *w, const Instruction *i) {
  uint32_t values[16] = {0}, detail = i->row->detail;
  unsigned bytes = detail & BYTES, index = i->operand[0].index;
  uint64_t in_range, address = scalar_address(w, i, detail, &in_range);
  unsigned wanted = in_range < bytes ? (unsigned)in_range / 4 * 4 : bytes, words = (bytes + 3) / 4;
  const Region *region = NULL;
  const uint8_t *from = wanted ? scalar_memory(w, i, address, wanted, false, &region) : NULL;
  if (from) memcpy(values, from, wanted);
  if (region && w->launch->sampled && !sample_read_at(w, region, address, wanted)) return;
  if (region && w->group->order) order_scalar_read(w, i, region, address, wanted);
  if (detail & SIGN_EXTENDED) values[0] = (uint32_t)(bytes == 1 ? (int8_t)values[0] : (int16_t)values[0]);
  for (unsigned k = 0; k < words; k++) put_scalar(w, index + k, values[k]);
  if (!w->checks) return;
  check_scalar_result(w, i, index, words);
  for (unsigned k = 0; k < words; k++) {
    uint32_t shadow = 0;
    if (region && region->undefined && 4 * k < wanted)
      for (unsigned n = 0; n < 4 && 4 * k + n < wanted; n++)
        if (region->undefined[address - region->base + 4 * k + n]) shadow |= (detail & SIGN_EXTENDED && n + 1 == bytes ? ~0u : 0xffu) << 8 * n;
    put_scalar_shadow(w->checks, index + k, shadow, i);
  }
  expect_scalar(w, i, index, words);
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
    if (region && w->launch->sampled && !sample_write_at(w, region, address + 4 * k, 4)) return;
    if (region && w->launch->watched) watch_write_at(w, i, address + 4 * k, 4, -1);
    if (region && w->group->order) order_scalar_write(w, i, region, address + 4 * k, 4, &value);
    memcpy(to + 4 * k, &value, 4);
    if (region && w->group->order) order_stored(w);
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
  w->polls = true;
  if (w->checks) check_scalar_use(w, i, index, second ? 2 * words : words);
  if (in_range >= bytes && scalar_memory(w, i, address, bytes, true, &region)) {
    if (address % bytes) finding(w, i, MISALIGNED, -1, address, bytes);
    else {
      uint64_t data = bytes == 8 ? scalar_pair_of(w, index) : scalar_of(w, index), other = 0;
      if (second) other = bytes == 8 ? scalar_pair_of(w, index + 2) : scalar_of(w, index + 1);
      if (region && w->launch->sampled && !sample_atomic_at(w, region, address, bytes)) return;
      if (region && w->launch->watched) watch_write_at(w, i, address, bytes, -1);
      if (region && w->group->order) order_before_atomic(w, region, address, operation);
      old = exchange(w->launch, address, operation, bytes, data, other);
      if (region && w->group->order)
        order_atomic(w, i, region, address, operation, bytes, operation != CMPSWAP || old == other, i->glc || i->sc0, -1);
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

/* ---- Rows -------------------------------------------------------------------------------------------------------- */
#define TO_X4(name, handler, results, of) \
  ROW(name, handler, results, 4 | (of)), ROW(name "x2", handler, results, 8 | (of)), \
      ROW(name "x4", handler, results, 16 | (of))
#define TO_X16(name, handler, results, of) \
  TO_X4(name, handler, results, of), ROW(name "x8", handler, results, 32 | (of)), \
      ROW(name "x16", handler, results, 64 | (of))

#define OF_GFX12(name, of) \
  ROW(name "dwordx3", scalar_load, 1, 12 | (of)), ROW(name "u8", scalar_load, 1, 1 | (of)), \
      ROW(name "i8", scalar_load, 1, 1 | SIGN_EXTENDED | (of)), ROW(name "u16", scalar_load, 1, 2 | (of)), \
      ROW(name "i16", scalar_load, 1, 2 | SIGN_EXTENDED | (of))

const Row scalar_memory_rows[] = {
    TO_X16("s_load_dword", scalar_load, 1, 0),
    TO_X16("s_buffer_load_dword", scalar_load, 1, OF_BUFFER),
    OF_GFX12("s_load_", 0),
    OF_GFX12("s_buffer_load_", OF_BUFFER),
    TO_X4("s_scratch_load_dword", scalar_load, 1, OF_SCRATCH),
    TO_X4("s_store_dword", scalar_store, 0, 0),
    TO_X4("s_buffer_store_dword", scalar_store, 0, OF_BUFFER),
    TO_X4("s_scratch_store_dword", scalar_store, 0, OF_SCRATCH),
    INTEGER_ATOMICS("s", scalar_atomic, 0),
    INTEGER_ATOMICS("s_buffer", scalar_atomic, SCALAR_BUFFER),
    ROW("s_memtime", scalar_time, 1, 0),
    ROW("s_memrealtime", scalar_time, 1, 0),
    ROW("s_dcache_inv", execute_nothing, 0, 0),
    ROW("s_dcache_inv_vol", execute_nothing, 0, 0),
    ROW("s_dcache_wb", execute_nothing, 0, 0),
    ROW("s_dcache_wb_vol", execute_nothing, 0, 0),
    ROW("s_dcache_discard", execute_nothing, 0, 0),
    ROW("s_dcache_discard_x2", execute_nothing, 0, 0),
    ROW("s_atc_probe", execute_nothing, 0, 0),
    ROW("s_atc_probe_buffer", execute_nothing, 0, 0),
    {.name = NULL},
};
