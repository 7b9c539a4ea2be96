/* Counts of what is executed, instruction by instruction: how often it is issued, by how many lanes, and what its
 * accesses cost of cache lines and of turns of LDS. Exact, and no time. */
#ifndef COUNTING_H
#define COUNTING_H

#include "access.h"

enum { PHASES = 8, WIDTHS = 6 }; /* bytes of a lane: 1, 2, 4, 8, 12, 16 */

/* As codeobject/lds_banks.py has them. */
typedef struct {
  uint32_t banks, phase_count; /* banks: a power of two, as are the bytes of a line */
  uint64_t phases[PHASES]; /* lanes */
} BankRule;

typedef struct {
  uint32_t line_bytes;
  BankRule rules[2][WIDTHS]; /* reads, writes */
} CountingRules;

/* The addresses of a request that cost more than it must. */
typedef struct {
  uint64_t lanes;       /* those that take part; of LDS, in its fullest phase */
  uint64_t at[LANES];   /* by lane; of LDS, offsets */
  uint32_t bytes;       /* of a lane */
  uint32_t banks;       /* of LDS; 0: of memory */
  uint32_t cost, least; /* turns of the phase, or cache lines */
} WorstRequest;

struct InstructionCounts {
  uint64_t issued, lanes;                    /* lanes: the sum of those that were active */
  uint64_t requests, lines, least, bytes;    /* of memory; bytes: different ones of a request; least: lines that would hold them */
  uint64_t accesses, turns, phases, fullest; /* of LDS; phases: those with an active lane; fullest: most turns of a phase */
  WorstRequest *worst;                       /* that with the most cost above the least; NULL: none cost more */
};

/* NULL: no launch is counted any more. What was counted is forgotten. */
void start_counting(const CountingRules *rules);
bool is_counting(void);
/* An array for a thread that runs workgroups of this launch, to be given back. */
InstructionCounts *take_counts(const Launch *launch);
void give_counts(const Launch *launch, InstructionCounts *counts); /* which frees them */
void count_workgroups(const Launch *launch, uint64_t computed, uint64_t all);

void count_memory(Wave *w, const Instruction *i, const Places *p, unsigned bytes);
void count_lds(Wave *w, const Instruction *i, bool writes, const uint32_t offset[LANES], uint64_t lanes, unsigned bytes);

#endif
