/* What memory instructions, checks.c and lds_checks.c share: the shadow of a wave's registers, what is outstanding, who
 * uses LDS.
 *
 * A register's shadow has a 1 for each bit that nothing has defined. Two things make it cheap: `undefined_lanes` says
 * which lanes have such a bit at all, and the 64 words of a row are only written when they are looked at (prepare_row),
 * so that a register which is undefined as a whole, or defined as a whole, costs one word.
 */
#ifndef CHECKS_H
#define CHECKS_H

#include "lanes.h"
#include "machine.h"

enum { VM, LGKM, COUNTERS };
enum { MOST_OUTSTANDING = 64 };
enum { VECTOR_WORDS = VECTOR_REGISTERS / 64, SCALAR_WORDS = 3, ALWAYS = VECTOR_WORDS + SCALAR_WORDS };

/* One operation that a counter counts. */
typedef struct {
  const Instruction *at;
  uint64_t lanes;
  uint32_t lds_serial; /* of the operation among the wave's LDS operations (LGKM) or its LDS-DMA (VM); 0 when none */
  uint16_t first;      /* the vector registers that it writes, */
  uint8_t count, halves;
  uint16_t told; /* bits of these: a use was reported, and they count as arrived */
} Outstanding;

/* What a wave has done in LDS lately, a ring of each kind. */
typedef enum { LDS_READS, LDS_WRITES, LDS_DIRECT /* from memory */, LDS_OPERATION_KINDS } LdsOperationKind;
enum { LDS_OPERATIONS = 2 * MOST_OUTSTANDING /* those with two addresses are two */ };

typedef struct {
  const Instruction *at;
  uint64_t lanes;
  uint32_t serial, number; /* among the wave's, among the group's */
  uint32_t bytes;
  bool quiet;  /* of a read: the bytes say who has read them once it is noted */
  Spans spans; /* of no chunk: each lane has its own */
  uint32_t offset[LANES];
} LdsOperation;

typedef struct {
  uint32_t count, noted; /* of reads: those whose bytes say so, see lds_checks.c */
  LdsOperation operation[LDS_OPERATIONS];
} LdsOperations;

struct WaveChecks {
  Wave shadow; /* v and s hold shadows, EXEC the real mask: fetch and put of values.h work on it */

  /* Bits by register: undefined_lanes or shadow.s is not 0; a load has not arrived. */
  union {
    struct {
      uint64_t undefined[VECTOR_WORDS], scalar_undefined[SCALAR_WORDS], always;
    };
    uint64_t any_undefined[ALWAYS + 1];
  };
  union {
    struct {
      uint64_t in_flight[VECTOR_WORDS], scalar_in_flight[SCALAR_WORDS];
    };
    uint64_t any_in_flight[ALWAYS + 1];
  };

  uint64_t undefined_lanes[VECTOR_REGISTERS];
  uint64_t has_row[VECTOR_REGISTERS / 64];   /* the row in `shadow` is exact; otherwise undefined lanes are so wholly */
  const Instruction *origin[VECTOR_REGISTERS];

  const Instruction *scalar_origin[SCALAR_REGISTERS];

  const Instruction *scalar_flight_at[SCALAR_REGISTERS];

  Outstanding outstanding[COUNTERS][MOST_OUTSTANDING]; /* rings */
  uint32_t first[COUNTERS], count[COUNTERS];
  bool overlap; /* perhaps two of them write one register */

  uint32_t lds_serial[COUNTERS], lds_done[COUNTERS]; /* the last operation, the last that is complete */
  LdsOperations lds_operations[LDS_OPERATION_KINDS];

  /* Where lanes read LDS by a register, for a read that is the very next instruction: */
  Spans spans;
  uint32_t spans_next, spans_register, spans_bytes; /* Wave.next then, 0 for none; bytes of a lane */

  uint8_t *scratch; /* the shadow of the wave's scratch memory; NULL until it is used */
  uint64_t scratch_bytes;

  uint64_t finite, numbers; /* lanes whose sources were finite, or no NaN, for check_after */
};

/* ---- Registers --------------------------------------------------------------------------------------------------- */
static inline bool any_of(const uint64_t *bits, unsigned index, unsigned count) {
  unsigned word = index / 64, bit = index % 64;
  uint64_t mask = count >= 64 ? ~0ull : (1ull << count) - 1;
  if (bits[word] >> bit & mask) return true;
  return bit + count > 64 && (bits[word + 1] & (mask >> (64 - bit))) != 0;
}

/* Whether anything that an instruction reads or writes is undefined or in flight. */
static inline bool has_doubts(const WaveChecks *c, const Instruction *i) {
  for (unsigned n = 0; n < LOOKED_AT; n++)
    if (i->looked_at[n] & (c->any_undefined[i->word[n]] | c->any_in_flight[i->word[n]])) return true;
  return false;
}

/* The same of all instructions of a run, of which none makes anything so: where nothing is, they need no look each. */
static inline bool run_has_doubts(const WaveChecks *c, const Run *run) {
  _Static_assert(REGISTER_WORDS == ALWAYS + 1, "a run has the words that the checks have");
  uint64_t doubts = 0;
  for (unsigned n = 0; n < run->words; n++)
    doubts |= run->registers[n] & (c->any_undefined[run->word[n]] | c->any_in_flight[run->word[n]]);
  return doubts != 0;
}

uint32_t *prepare_row(WaveChecks *c, unsigned index);                /* the register's shadow, exact in all lanes */
void note_row(WaveChecks *c, unsigned index, const Instruction *origin); /* after a change of that row */
static inline void define_lanes(WaveChecks *c, unsigned index, uint64_t lanes) {
  if ((c->undefined_lanes[index] &= ~lanes) == 0) {
    c->undefined[index / 64] &= ~(1ull << index % 64);
    c->has_row[index / 64] &= ~(1ull << index % 64);
  }
}
void put_scalar_shadow(WaveChecks *c, unsigned index, uint32_t bits, const Instruction *origin);

/* The halves of its registers that an operand uses. */
static inline unsigned halves_of(const Operand *o) { return o->half ? o->half : BOTH_HALVES & ~o->spared; }

/* The uses of registers by memory instructions: missing waits, undefined addresses, undefined data to memory. `lanes`
 * are those that use them. */
void check_flight(Wave *w, const Instruction *i, unsigned index, unsigned count, unsigned halves, uint64_t lanes,
                  const char *use);
static inline void check_use(Wave *w, const Instruction *i, unsigned index, unsigned count, unsigned halves,
                             uint64_t lanes) {
  if (any_of(w->checks->in_flight, index, count)) check_flight(w, i, index, count, halves, lanes, "read");
}
void check_scalar_use(Wave *w, const Instruction *i, unsigned index, unsigned count);
void check_doubtful_address(Wave *w, const Instruction *i, const Operand *o, uint64_t lanes);
static inline void check_address(Wave *w, const Instruction *i, const Operand *o, uint64_t lanes) { /* or none */
  const WaveChecks *c = w->checks;
  unsigned count = o->count ? o->count : 1;
  bool doubtful = o->kind == VECTOR   ? any_of(c->in_flight, o->index, count) || any_of(c->undefined, o->index, count)
                  : o->kind == SCALAR ? any_of(c->scalar_in_flight, o->index, count) ||
                                            any_of(c->scalar_undefined, o->index, count)
                                      : false;
  if (lanes && doubtful) check_doubtful_address(w, i, o, lanes);
}
void check_stored(Wave *w, const Instruction *i, unsigned index, unsigned count, uint64_t lanes, uint32_t mask);
void check_result(Wave *w, const Instruction *i, unsigned index, unsigned count, unsigned halves, uint64_t lanes,
                  int counter);
void check_scalar_result(Wave *w, const Instruction *i, unsigned index, unsigned count);

/* The registers hold what was loaded: shadow[lane][dword] for the lanes of `undefined`, the others are defined. */
typedef uint32_t LoadShadow[LANES][4];
void put_loaded(Wave *w, const Instruction *i, unsigned index, unsigned count, uint64_t lanes, uint64_t undefined,
                LoadShadow shadow);

/* An operation that is counted from here on. */
static inline bool is_counted(Arch arch, int counter, unsigned registers, const Instruction *i) {
  /* RDNA's stores have a counter of their own; its invalidations have not */
  return !is_rdna(arch) || counter != VM || registers || !(i->row->flags & IS_MEMORY);
}
void expect_halves(Wave *w, const Instruction *i, int counter, unsigned index, unsigned count, unsigned halves,
                   uint64_t lanes, uint32_t lds_serial);
static inline void expect(Wave *w, const Instruction *i, int counter, unsigned index, unsigned count, uint64_t lanes,
                          uint32_t lds_serial) {
  expect_halves(w, i, counter, index, count, BOTH_HALVES, lanes, lds_serial);
}
void expect_scalar(Wave *w, const Instruction *i, unsigned index, unsigned count);

/* A load of 16 bits into one half, of which the other is kept. */
static inline bool loads_half(Arch arch, const Instruction *i) {
  return !has_register_ecc(arch) && i->row->flags & IS_MEMORY && strstr(i->row->name, "_d16") && i->row->results;
}

void name_register(char *text, size_t room, unsigned index); /* scalars behind the vectors */

/* ---- LDS --------------------------------------------------------------------------------------------------------- */
typedef enum { LDS_READ, LDS_WRITE, LDS_ATOMIC } LdsAccess;

/* For each lane the offset and the number of bytes, all within the allocation, before the bytes are written; `written`
 * are the new values, [lane][byte / 4], and `undefined` their shadow (NULL: defined). Reads set the lanes of the result
 * that have undefined bytes, and their shadow. `counter` is VM for LDS-DMA. `serial` comes from next_lds_serial. */
static inline uint32_t next_lds_serial(Wave *w, int counter) { return ++w->checks->lds_serial[counter]; }
/* The same for what has nothing to report and is defined, with all offsets in the allocation, also those of lanes that
 * take no part. False: check_lds has to look at it. */
bool note_lds(Wave *w, const Instruction *i, LdsAccess access, int counter, uint32_t serial,
              const uint32_t offset[LANES], const Layout *layout, uint64_t lanes, unsigned bytes);
/* The same of the places of spans, once or twice, `fixed` bytes behind them; those of a write follow each other in rows. */
bool note_spans(Wave *w, const Instruction *i, LdsAccess access, uint32_t serial, const Spans *spans,
                const uint32_t fixed[2], unsigned accesses, unsigned bytes);
uint64_t check_lds(Wave *w, const Instruction *i, LdsAccess access, int counter, uint32_t serial,
                   const uint32_t offset[LANES], uint64_t lanes, unsigned bytes, LoadShadow written,
                   LoadShadow undefined, LoadShadow read);

#endif
