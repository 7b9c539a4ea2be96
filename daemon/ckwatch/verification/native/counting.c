#include "counting.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "code_object.h"
#include "hip.h"

typedef struct Counted {
  char *kernel;
  const Code *code;
  InstructionCounts *counts; /* of each instruction of the code */
  uint64_t *addresses;
  uint32_t count;
  uint64_t launches, computed, all; /* workgroups */
  struct Counted *next;
} Counted;

static CountingRules rules;
static bool counting;
static Counted *counted; /* the newest first */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool is_counting(void) { return counting; }

void start_counting(const CountingRules *wanted) {
  pthread_mutex_lock(&lock);
  for (Counted *next; counted; counted = next) {
    next = counted->next;
    for (uint32_t n = 0; n < counted->count; n++) free(counted->counts[n].worst);
    free(counted->kernel);
    free(counted->counts);
    free(counted->addresses);
    free(counted);
  }
  counting = wanted != NULL;
  if (wanted) rules = *wanted;
  pthread_mutex_unlock(&lock);
}

static void *zeroed(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) abort();
  return memory;
}

InstructionCounts *take_counts(const Launch *launch) { return zeroed(launch->code->count, sizeof(InstructionCounts)); }

static Counted *counted_of(const Launch *launch) {
  for (Counted *c = counted; c; c = c->next)
    if (c->code == launch->code && !strcmp(c->kernel, launch->kernel->name)) return c;
  Counted *c = zeroed(1, sizeof *c);
  c->code = launch->code;
  c->count = launch->code->count;
  c->kernel = strdup(launch->kernel->name);
  c->counts = zeroed(c->count, sizeof *c->counts);
  c->addresses = zeroed(c->count, sizeof *c->addresses);
  for (uint32_t n = 0; n < c->count; n++)
    c->addresses[n] = launch->code->own_text_address + launch->code->instructions[n].address;
  c->next = counted;
  return counted = c;
}

static uint32_t excess(const WorstRequest *worst) { return worst ? worst->cost - worst->least : 0; }

void give_counts(const Launch *launch, InstructionCounts *mine) {
  pthread_mutex_lock(&lock);
  InstructionCounts *sum = counted_of(launch)->counts;
  for (uint32_t n = 0; n < launch->code->count; n++) {
    sum[n].issued += mine[n].issued, sum[n].lanes += mine[n].lanes;
    sum[n].requests += mine[n].requests, sum[n].lines += mine[n].lines;
    sum[n].least += mine[n].least, sum[n].bytes += mine[n].bytes;
    sum[n].accesses += mine[n].accesses, sum[n].turns += mine[n].turns, sum[n].phases += mine[n].phases;
    if (mine[n].fullest > sum[n].fullest) sum[n].fullest = mine[n].fullest;
    WorstRequest *better = mine[n].worst;
    if (excess(better) > excess(sum[n].worst)) better = sum[n].worst, sum[n].worst = mine[n].worst;
    free(better);
  }
  pthread_mutex_unlock(&lock);
  free(mine);
}

void count_workgroups(const Launch *launch, uint64_t computed, uint64_t all) {
  pthread_mutex_lock(&lock);
  Counted *c = counted_of(launch);
  c->launches++, c->computed += computed, c->all += all;
  pthread_mutex_unlock(&lock);
}

static InstructionCounts *counts_of(const Wave *w, const Instruction *i) {
  return &w->group->counts[i - w->code->instructions];
}

/* Notes the request if it costs more above the least than any before; then its addresses are to be filled in. */
static uint64_t *worse_than_before(InstructionCounts *c, uint32_t cost, uint32_t least, uint64_t lanes, unsigned bytes,
                                   uint32_t banks) {
  if (cost - least <= excess(c->worst)) return NULL;
  if (!c->worst) c->worst = zeroed(1, sizeof *c->worst);
  c->worst->cost = cost, c->worst->least = least;
  c->worst->lanes = lanes, c->worst->bytes = bytes, c->worst->banks = banks;
  return c->worst->at;
}

/* The lines of a request, and which of their bytes it wants. */
enum { SLOTS = 512, MOST_LINE_BYTES = 128 };
typedef struct {
  uint64_t line, bytes[MOST_LINE_BYTES / 64];
} Slot;

static uint64_t bits_from_to(unsigned first, unsigned end) {
  return (end - first == 64 ? ~0ull : (1ull << (end - first)) - 1) << first;
}

static void want(Slot *slot, unsigned first, unsigned end) {
  for (unsigned word = first / 64; word * 64 < end; word++) {
    unsigned from = first > word * 64 ? first - word * 64 : 0, to = end - word * 64;
    slot->bytes[word] |= bits_from_to(from, to > 64 ? 64 : to);
  }
}

void count_memory(Wave *w, const Instruction *i, const Places *p, unsigned bytes) {
  Slot slots[SLOTS];
  uint16_t used[2 * LANES];
  uint8_t taken[SLOTS] = {0};
  uint32_t count = 0, last = SLOTS, shift = (uint32_t)__builtin_ctz(rules.line_bytes);
  unsigned lane;
  FOR_LANES(lane, p->lanes) {
    uint64_t end = p->at[lane] + (p->partial >> lane & 1 ? p->bytes[lane] : bytes);
    for (uint64_t place = p->at[lane]; place < end;) {
      uint64_t line = place >> shift, behind = (line + 1) << shift;
      uint64_t until = end < behind ? end : behind;
      uint32_t slot = last;
      if (slot == SLOTS || slots[slot].line != line)
        for (slot = (uint32_t)(line * 0x9e3779b97f4a7c15ull >> 55); taken[slot] && slots[slot].line != line;)
          slot = (slot + 1) % SLOTS;
      if (!taken[slot]) {
        taken[slot] = 1;
        slots[slot] = (Slot){.line = line};
        used[count++] = (uint16_t)slot;
      }
      want(&slots[slot], (unsigned)(place - (line << shift)), (unsigned)(until - (line << shift)));
      last = slot;
      place = until;
    }
  }
  uint64_t wanted = 0;
  for (uint32_t n = 0; n < count; n++)
    wanted += (unsigned)(__builtin_popcountll(slots[used[n]].bytes[0]) + __builtin_popcountll(slots[used[n]].bytes[1]));
  InstructionCounts *c = counts_of(w, i);
  c->requests++;
  c->lines += count;
  c->bytes += wanted;
  uint32_t least = (uint32_t)((wanted + rules.line_bytes - 1) / rules.line_bytes);
  c->least += least;
  uint64_t *at = worse_than_before(c, count, least, p->lanes, bytes, 0);
  if (at) FOR_LANES(lane, p->lanes) at[lane] = p->at[lane];
}

void count_lds(Wave *w, const Instruction *i, bool writes, const uint32_t offset[LANES], uint64_t lanes, unsigned bytes) {
  enum { WORDS = 1 << 16, MOST_BANKS = 64 };
  static _Thread_local uint32_t seen[WORDS], serial; /* the phase that asked for a word last */
  static const uint8_t width_of[] = {[1] = 0, [2] = 1, [4] = 2, [8] = 3, [12] = 4, [16] = 5};
  const BankRule *rule = &rules.rules[writes][width_of[bytes]];
  InstructionCounts *c = counts_of(w, i);
  c->accesses++;
  for (uint32_t n = 0; n < rule->phase_count; n++) {
    uint64_t together = rule->phases[n] & lanes;
    if (!together) continue;
    if (!++serial) memset(seen, 0, sizeof seen), serial = 1;
    uint8_t asked[MOST_BANKS] = {0}, most = 0;
    unsigned lane;
    FOR_LANES(lane, together)
      for (uint32_t word = offset[lane] / 4, end = (offset[lane] + bytes - 1) / 4; word <= end; word++) {
        if (seen[word % WORDS] == serial) continue;
        seen[word % WORDS] = serial;
        uint8_t turns = ++asked[word & (rule->banks - 1)];
        most = turns > most ? turns : most;
      }
    c->turns += most;
    c->phases++;
    c->fullest = most > c->fullest ? most : c->fullest;
    uint64_t *at = worse_than_before(c, most, 1, together, bytes, rule->banks);
    if (at) FOR_LANES(lane, together) at[lane] = offset[lane];
  }
}

/* ---- For the worker ---------------------------------------------------------------------------------------------- */
EXPORT void ckwatch_emulator_count(const CountingRules *wanted) { start_counting(wanted); }

EXPORT uint32_t ckwatch_emulator_counted_kernels(void) {
  uint32_t count = 0;
  for (const Counted *c = counted; c; c = c->next) count++;
  return count;
}

/* The n-th kernel, the newest first: its name, and how many instructions its code has. */
EXPORT const char *ckwatch_emulator_counted_kernel(uint32_t n, uint32_t *instructions, uint64_t *launches,
                                                   uint64_t *computed, uint64_t *all) {
  const Counted *c = counted;
  while (n-- && c) c = c->next;
  if (!c) return NULL;
  *instructions = c->count;
  *launches = c->launches, *computed = c->computed, *all = c->all;
  return c->kernel;
}

/* `addresses` as the disassembler prints them, and the counts of each instruction, whose worst requests stay until counting begins
 * again. */
EXPORT void ckwatch_emulator_read_counts(uint32_t n, uint64_t *addresses, InstructionCounts *counts) {
  const Counted *c = counted;
  while (n-- && c) c = c->next;
  if (!c) return;
  memcpy(addresses, c->addresses, c->count * sizeof *addresses);
  memcpy(counts, c->counts, c->count * sizeof *counts);
}
