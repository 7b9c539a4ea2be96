/* Atomic operations on memory and on values. Those on f32 in memory flush denormals on gfx90a only (LLVM:
 * FeatureMemoryAtomicFAddF32DenormalSupport). */
#include "counting.h"
#include "ordering.h"
#include "sampling.h"

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

uint64_t combined(Operation operation, unsigned bytes, uint64_t old, uint64_t data, uint64_t second,
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
    case CONDITIONAL_SUB: return old >= data ? old - data : old;
    case CLAMPED_SUB: return old >= data ? old - data : 0;
    case WRAP: return old >= data ? old - data : old + second;
    case CONDITIONAL_SWAP: { /* two halves, each written if its data have the top bit set */
      uint64_t low = data & 0x80000000u ? data & 0x7fffffff : old & 0xffffffff;
      uint64_t high = data >> 63 ? data >> 32 & 0x7fffffff : old >> 32;
      return low | high << 32;
    }
  }
  return old;
}

uint64_t exchange(const Launch *launch, uint64_t at, Operation operation, unsigned bytes, uint64_t data,
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

void memory_atomic(Wave *w, const Instruction *i, const Places *p, uint32_t detail, unsigned data, int result) {
  Operation operation = detail >> 8;
  unsigned bytes = detail & BYTES, words = bytes / 4, lane;
  bool second = has_second(operation);
  uint64_t undefined = 0, ordered_at = 0;
  w->polls = true;
  LoadShadow shadow;
  if (w->launch->sampled && !sample_atomic(w, p, bytes)) return;
  if (w->launch->watched) watch_store(w, i, p, p->lanes & ~p->partial, bytes);
  if (w->group->counts && p->lanes) count_memory(w, i, p, bytes);
  if (w->checks) {
    check_use(w, i, data, second ? 2 * words : words, BOTH_HALVES, p->lanes);
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
      uint64_t other = second ? lane_data(w, data + words, lane, bytes) : 0;
      bool ordered = w->group->order && at != ordered_at;
      ordered_at = at;
      if (ordered) order_before_atomic(w, region, at, operation);
      old = exchange(w->launch, at, operation, bytes, lane_data(w, data, lane, bytes), other);
      if (ordered)
        order_atomic(w, i, region, at, operation, bytes, operation != CMPSWAP || old == other, result >= 0, (int)lane);
      uint64_t offset = at - region->base;
      if (w->checks && region->undefined && offset < region->undefined_to && offset + bytes > region->undefined_from) {
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
  check_result(w, i, (unsigned)result, words, BOTH_HALVES, p->lanes, VM);
  put_loaded(w, i, (unsigned)result, words, p->lanes, undefined, shadow);
  expect(w, i, VM, (unsigned)result, words, p->lanes, 0);
}
