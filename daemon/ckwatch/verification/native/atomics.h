/* Atomic operations: what memory and LDS hold afterwards. */
#ifndef ATOMICS_H
#define ATOMICS_H

#include "access.h"

typedef enum {
  ADD, SUB, RSUB, INC, DEC, SMIN, SMAX, UMIN, UMAX, AND, OR, XOR, MSKOR, SWAP, CMPSWAP, CMPSWAP_FLOAT,
  ADD_FLOAT, MIN_FLOAT, MAX_FLOAT, PK_ADD_F16, PK_ADD_BF16, WRAP, CONDITIONAL_SWAP,
  CONDITIONAL_SUB, CLAMPED_SUB
} Operation;

/* Row.detail of atomics. */
#define ATOMIC(operation, bytes) ((uint32_t)(operation) << 8 | (bytes))

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

static inline bool has_second(Operation operation) {
  return operation == CMPSWAP || operation == CMPSWAP_FLOAT || operation == MSKOR || operation == WRAP;
}

static inline uint64_t lane_data(const Wave *w, unsigned index, unsigned lane, unsigned bytes) {
  return bytes == 8 ? (uint64_t)w->v[index + 1][lane] << 32 | w->v[index][lane] : w->v[index][lane];
}

static inline void put_result(Wave *w, unsigned index, unsigned lane, unsigned bytes, uint64_t value) {
  w->v[index][lane] = (uint32_t)value;
  if (bytes == 8) w->v[index + 1][lane] = (uint32_t)(value >> 32);
}

/* What memory holds afterwards. `data` and `second` are as the instruction's data registers, for compare-and-swap the
 * new value and what it is compared to. */
uint64_t combined(Operation operation, unsigned bytes, uint64_t old, uint64_t data, uint64_t second, bool flush_input,
                  bool flush_output);
/* On memory that other threads access as well: the value from before. */
uint64_t exchange(const Launch *launch, uint64_t at, Operation operation, unsigned bytes, uint64_t data,
                  uint64_t second);
/* Of all lanes; `result` is -1 when the value from before is not wanted. */
void memory_atomic(Wave *w, const Instruction *i, const Places *p, uint32_t detail, unsigned data, int result);

#endif
