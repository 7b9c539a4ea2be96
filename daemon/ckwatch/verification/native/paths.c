/* Waits on all paths: where a register is used although, on some way through the code, its load may not have arrived.
 * Of a kernel that is judged, also where it reads a clock or sleeps.
 *
 * A forward analysis of a kernel's control flow. For each register and counter the state holds how many operations are
 * counted after the load that writes it, the least of all ways that lead to an instruction: a load is outstanding after
 * a wait for N if this is less than N. All that instructions do to these numbers keeps their order. So a load that is
 * reported is outstanding on one way, and not only if parts of several ways are put together. Lanes are not told apart,
 * as compilers do not when they place waits. A call, and what is reached by an address that the code computes from its
 * own, begins with everything arrived.
 *
 * Which branches exclude each other is not known. Kernels in assembly have such ones between a load and its use (a loop
 * is left behind an even or an odd round, and then this is tested again), so that ways with more than one decision by a
 * scalar condition between the two are left out. That no lane is left is such a decision, too: where a compiler knows that
 * one is, it places a branch by EXEC that is always taken, and code behind it that no way leads to.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "atomics.h"
#include "paths.h"

#include "ordering.h"

enum { REGISTERS = VECTOR_REGISTERS + SCALAR_REGISTERS, ARRIVED = 0xff, MOST_DECISIONS = 1 };
/* Scalars come first; the upper halves of vectors last, where loads write halves. */
enum { LOWER_UNITS = SCALAR_REGISTERS, UPPER_UNITS = REGISTERS, UNITS = REGISTERS + VECTOR_REGISTERS };
enum { LISTS = (1 + MOST_DECISIONS) * COUNTERS }; /* by decisions since the load, and by counter */

typedef struct {
  uint8_t later[LISTS][UNITS]; /* operations counted after the load; those of scalars arrive in any order: 0 */
  uint32_t load[LISTS][UNITS]; /* its index in the code */
} State;

typedef struct {
  const Code *code;
  Arch arch;
  unsigned units;   /* UNITS, or those before UPPER_UNITS: a register is as its lower half */
  State **before;   /* by instruction, of those that a block begins with and that are reached */
  bool *begins;     /* a block */
  uint32_t *waiting, waiting_count; /* blocks to go through, again */
  bool *is_waiting;
  Wave *probe;      /* executes waits */
  MissingWaits *found; /* NULL until the states are final */
} Analysis;

static void *zeros(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) abort();
  return memory;
}

/* ---- States where ways meet -------------------------------------------------------------------------------------- */
static void reach(Analysis *a, int64_t index, const State *state) {
  if (index < 0 || index >= a->code->count) return;
  bool changed = !a->before[index];
  if (changed) {
    a->before[index] = zeros(1, sizeof *state);
    *a->before[index] = *state;
  } else {
    State *into = a->before[index];
    for (int n = 0; n < LISTS; n++)
      for (unsigned u = 0; u < a->units; u++)
        if (state->later[n][u] < into->later[n][u]) {
          into->later[n][u] = state->later[n][u];
          into->load[n][u] = state->load[n][u];
          changed = true;
        }
  }
  if (!changed || a->is_waiting[index]) return;
  a->is_waiting[index] = true;
  a->waiting[a->waiting_count++] = (uint32_t)index;
}

static void reach_with_everything_arrived(Analysis *a, int64_t index) {
  static State all;
  memset(all.later, ARRIVED, sizeof all.later);
  reach(a, index, &all);
}

/* ---- Uses of registers ------------------------------------------------------------------------------------------- */
static void note_missing(Analysis *a, const Instruction *i, int counter, uint32_t load, unsigned index, const char *use) {
  MissingWaits *found = a->found;
  if (found->count && found->finding[found->count - 1].at == i) return;
  found->finding = realloc(found->finding, (found->count + 1) * sizeof *found->finding);
  if (!found->finding) abort();
  Finding *f = &found->finding[found->count++];
  *f = (Finding){.kind = MISSING_WAIT, .at = i, .other = &a->code->instructions[load], .not_executed = true, .lane = -1,
                 .other_wave = -1, .other_lane = -1};
  char name[24];
  name_register(name, sizeof name, index);
  snprintf(f->note, sizeof f->note, "%s is %s before its load has arrived (%s)", name, use,
           arch_facts[a->arch].counters[index < VECTOR_REGISTERS ? counter : COUNTERS]);
}

static void note_kind(Analysis *a, const Instruction *i, FindingKind kind) {
  MissingWaits *found = a->found;
  found->finding = realloc(found->finding, (found->count + 1) * sizeof *found->finding);
  if (!found->finding) abort();
  found->finding[found->count++] =
      (Finding){.kind = kind, .at = i, .not_executed = true, .lane = -1, .other_wave = -1, .other_lane = -1};
}

/* Of a register, scalars behind the vectors; UNITS for none. */
static unsigned unit_of(const Analysis *a, unsigned index, unsigned halves, unsigned half) {
  if (index >= VECTOR_REGISTERS) return half ? UNITS : index - VECTOR_REGISTERS;
  if (a->units < UNITS) return half ? UNITS : LOWER_UNITS + index;
  return halves >> half & 1 ? (half ? UPPER_UNITS : LOWER_UNITS) + index : UNITS;
}

/* `counter`: that of a load into the registers, which one it counts already may not overtake; or -1. */
static void use(Analysis *a, State *s, const Instruction *i, unsigned first, unsigned count, unsigned halves,
                const char *how, int counter) {
  for (unsigned r = first; r < first + count && r < REGISTERS; r++)
    for (unsigned half = 0; half < 2; half++) {
      unsigned u = unit_of(a, r, halves, half);
      for (int n = 0; n < LISTS && u < UNITS; n++) {
        if (s->later[n][u] == ARRIVED || n % COUNTERS == counter) continue;
        if (counter >= 0 && s->later[n - n % COUNTERS + counter][u] != ARRIVED) continue;
        if (a->found) note_missing(a, i, n % COUNTERS, s->load[n][u], r, how);
        s->later[n][u] = ARRIVED;
      }
    }
}

static unsigned first_of(const Operand *o) { return o->kind == VECTOR ? o->index : VECTOR_REGISTERS + o->index; }

static void use_operand(Analysis *a, State *s, const Instruction *i, const Operand *o, unsigned halves, const char *how) {
  if (o->kind == VECTOR || o->kind == SCALAR) use(a, s, i, first_of(o), o->count ? o->count : 1, halves, how, -1);
}

static void expect_result(Analysis *a, State *s, const Instruction *i, int counter, unsigned first, unsigned count,
                          unsigned halves) {
  if (first < VECTOR_REGISTERS && is_counted(a->arch, counter, count, i))
    for (int n = counter; n < LISTS; n += COUNTERS)
      for (unsigned u = LOWER_UNITS; u < a->units; u++)
        if (s->later[n][u] != ARRIVED && ++s->later[n][u] >= arch_facts[a->arch].most_outstanding[counter])
          s->later[n][u] = ARRIVED;
  for (unsigned r = first; r < first + count && r < REGISTERS; r++) {
    if (r == VECTOR_REGISTERS + NULL_REGISTER) continue;
    for (unsigned half = 0; half < 2; half++) {
      unsigned u = unit_of(a, r, halves, half);
      if (u == UNITS) continue;
      for (int n = counter; n < LISTS; n += COUNTERS) s->later[n][u] = ARRIVED;
      s->later[counter][u] = 0;
      s->load[counter][u] = (uint32_t)(i - a->code->instructions);
    }
  }
}

static bool begins_with(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

static void access_memory(Analysis *a, State *s, const Instruction *i) {
  const char *name = i->row->name;
  bool scalar = begins_with(name, "s_"), atomic = strstr(name, "atomic") != NULL, returns = i->row->results > 0 && !i->lds;
  unsigned count = returns ? i->operand[0].count : 0;
  bool reads_first = !returns;
  unsigned data = returns || atomic || i->lds ? MAX_OPERANDS : !begins_with(name, "buffer_"); /* of a store */
  unsigned halves = loads_half(a->arch, i) ? loaded_halves(a->arch, i->row->detail) : BOTH_HALVES;
  if (atomic && (i->glc || i->sc0)) {
    returns = true;
    count = (i->row->detail & BYTES) / 4;
    reads_first = scalar || begins_with(name, "buffer_"); /* the data's registers */
  }
  for (unsigned n = 0; n < i->operand_count; n++)
    if (n > 0 || reads_first)
      use_operand(a, s, i, &i->operand[n], n == data ? stored_halves(i->row->detail) : BOTH_HALVES, "read");
  unsigned first = returns ? first_of(&i->operand[0]) : scalar ? VECTOR_REGISTERS : 0;
  bool lgkm = scalar || begins_with(name, "ds_"), both = begins_with(name, "flat_");
  use(a, s, i, first, count, halves, "overwritten", scalar || both ? -1 : lgkm ? LGKM : VM);
  if (!lgkm) expect_result(a, s, i, VM, first, count, halves);
  if (lgkm || both) expect_result(a, s, i, LGKM, first, count, halves);
}

/* What a wait leaves outstanding is seen by executing it while as much as possible is. */
static void wait_for(Analysis *a, State *s, const Instruction *i) {
  WaveChecks *c = a->probe->checks;
  memset(c->scalar_in_flight, 0xff, sizeof c->scalar_in_flight);
  for (int n = 0; n < COUNTERS; n++) c->first[n] = 0, c->count[n] = MOST_OUTSTANDING;
  i->execute(a->probe, i);
  for (int n = 0; n < LISTS; n++) {
    for (unsigned u = LOWER_UNITS; u < a->units; u++)
      if (s->later[n][u] >= c->count[n % COUNTERS]) s->later[n][u] = ARRIVED;
    if (!c->scalar_in_flight[0]) memset(s->later[n], ARRIVED, SCALAR_REGISTERS);
  }
}

static void decide(State *s) {
  memmove(s->later[COUNTERS], s->later[0], MOST_DECISIONS * COUNTERS * sizeof s->later[0]);
  memmove(s->load[COUNTERS], s->load[0], MOST_DECISIONS * COUNTERS * sizeof s->load[0]);
  memset(s->later[0], ARRIVED, COUNTERS * sizeof s->later[0]);
}

static void compute(Analysis *a, State *s, const Instruction *i) {
  unsigned flags = i->row->flags, reads = i->reads, vcc = VECTOR_REGISTERS + VCC;
  for (unsigned n = 0; n < i->operand_count; n++)
    if (reads >> n & 1) use_operand(a, s, i, &i->operand[n], halves_of(&i->operand[n]), "read");
  if (flags & READS_VCC) use(a, s, i, vcc, 2, BOTH_HALVES, "read", -1);
  for (unsigned n = 0; n < i->operand_count; n++)
    if (i->writes >> n & 1) use_operand(a, s, i, &i->operand[n], halves_of(&i->operand[n]), "overwritten");
  if (flags & WRITES_VCC) use(a, s, i, vcc, 2, BOTH_HALVES, "overwritten", -1);
}

static bool reads_clock(const Instruction *i) {
  const char *name = i->row->name, *text = i->text ? i->text : "";
  return begins_with(name, "s_memtime") || begins_with(name, "s_memrealtime") || begins_with(name, "s_get_shader_cycles") ||
         strstr(text, "SHADER_CYCLES") || strstr(text, "GET_REALTIME");
}

/* In a loop that accesses memory: it waits for what others write. */
static bool waits_for_others(const Code *code, const Instruction *i) {
  for (const Instruction *end = i; end < code->instructions + code->count; end++) {
    if (end->target < 0 || &code->instructions[end->target] > i) continue;
    for (const Instruction *in = &code->instructions[end->target]; in <= end; in++)
      if (in->row->flags & IS_MEMORY) return true;
  }
  return false;
}

static void go_through(Analysis *a, State *s, const Instruction *i) {
  if (a->found && reads_clock(i)) note_kind(a, i, CLOCK_READ);
  if (a->found && begins_with(i->row->name, "s_sleep") && !waits_for_others(a->code, i)) note_kind(a, i, SLEEP);
  if (i->parts)
    for (int n = 0; n < i->part_count; n++) compute(a, s, &i->parts[n]);
  else if (i->row == &unknown_row) memset(s->later, ARRIVED, sizeof s->later); /* it may count or load whatever it likes */
  else if (begins_with(i->row->name, "s_wait")) wait_for(a, s, i);
  else if (i->row->execute == execute_nothing) {}
  else if (i->row->execute == execute_invalidate_and_count) expect_result(a, s, i, VM, 0, 0, BOTH_HALVES);
  else if (i->row->flags & IS_MEMORY && !begins_with(i->row->name, "v_")) access_memory(a, s, i); /* not v_movrels */
  else compute(a, s, i);
}

/* ---- Control flow ------------------------------------------------------------------------------------------------ */
/* Where s_getpc leads together with the additions to its result behind it, which have literals; -1 if they do not. */
static int32_t address_computed_at(const Code *code, const Instruction *i) {
  uint64_t offset = 0;
  unsigned halves = 0, low = i->operand[0].index;
  for (const Instruction *next = i + 1; next < code->instructions + code->count && next <= i + 4 && halves < 2; next++) {
    const Operand *o = next->operand;
    if (!begins_with(next->row->name, "s_add") || next->operand_count != 3 || o[2].kind != LITERAL) continue;
    if (o[0].index != low + halves || o[1].index != low + halves) continue;
    offset += (uint64_t)(uint32_t)o[2].bits << 32 * halves++;
  }
  return halves == 2 ? instruction_at(code, i[1].address + offset) : -1;
}

static bool is_call(const Instruction *i) {
  return begins_with(i->row->name, "s_swappc") || begins_with(i->row->name, "s_call");
}
static bool takes_address(const Instruction *i) { return begins_with(i->row->name, "s_getpc"); }

static void find_blocks(const Code *code, bool *begins) {
  for (uint32_t n = 0; n < code->count; n++) {
    const Instruction *i = &code->instructions[n];
    int32_t target = takes_address(i) ? address_computed_at(code, i) : i->target;
    if (target >= 0) begins[target] = true;
    if (i->target >= 0 || is_call(i)) begins[n + 1] = true;
  }
}

/* Leaves the state of going on behind the branch. */
static void reach_by_branch(Analysis *a, State *state, const Instruction *i) {
  const char *name = i->row->name;
  if (i->row->flags & (READS_SCC | READS_VCC)) decide(state);
  if (strcmp(name, "s_cbranch_execz") == 0) {
    State without_lanes = *state;
    decide(&without_lanes);
    reach(a, i->target, &without_lanes);
  } else {
    reach(a, i->target, state);
    if (strcmp(name, "s_cbranch_execnz") == 0) decide(state);
  }
}

static void go_through_block(Analysis *a, uint32_t index) {
  State state = *a->before[index];
  for (bool first = true;; index++, first = false) {
    const Instruction *i = &a->code->instructions[index];
    if (index >= a->code->count || i->row == &end_row || strcmp(i->row->name, "data") == 0) return;
    if (!first && a->begins[index]) break;
    go_through(a, &state, i);
    if (takes_address(i)) reach_with_everything_arrived(a, address_computed_at(a->code, i));
    if (is_call(i)) {
      reach_with_everything_arrived(a, i->target);
      reach_with_everything_arrived(a, index + 1);
      return;
    }
    if (i->target >= 0) reach_by_branch(a, &state, i);
    if (i->row->flags & ENDS_BLOCK) return;
  }
  reach(a, index, &state);
}

static MissingWaits *find_missing_waits(const Launch *launch, Wave *probe) {
  const Code *code = launch->code;
  size_t count = code->count + 1;
  Analysis a = {.code = code, .arch = launch->arch, .units = UPPER_UNITS, .probe = probe, .before = zeros(count, sizeof *a.before),
                .begins = zeros(count, sizeof *a.begins), .waiting = zeros(count, sizeof *a.waiting),
                .is_waiting = zeros(count, sizeof *a.is_waiting)};
  probe->checks = new_wave_checks();
  find_blocks(code, a.begins);
  for (uint32_t n = 0; n < code->count; n++)
    if (loads_half(a.arch, &code->instructions[n])) a.units = UNITS;
  a.begins[launch->kernel->entry] = true;
  reach_with_everything_arrived(&a, launch->kernel->entry);
  while (a.waiting_count) {
    uint32_t index = a.waiting[--a.waiting_count];
    a.is_waiting[index] = false;
    go_through_block(&a, index);
  }
  a.found = zeros(1, sizeof *a.found);
  for (uint32_t n = 0; n < code->count; n++)
    if (a.before[n]) go_through_block(&a, n);
  for (uint32_t n = 0; n < code->count; n++) free(a.before[n]);
  free(a.before), free(a.begins), free(a.waiting), free(a.is_waiting);
  free_wave_checks(probe->checks);
  return a.found;
}

void report_missing_waits(Launch *launch) {
  static Wave wave;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  Kernel *kernel = (Kernel *)launch->kernel;
  wave.launch = launch;
  wave.code = launch->code;
  if (!kernel->missing_waits) kernel->missing_waits = find_missing_waits(launch, &wave);
  for (uint32_t n = 0; n < kernel->missing_waits->count; n++) {
    const Finding *found = &kernel->missing_waits->finding[n];
    if (found->kind == MISSING_WAIT || launch->judged) report(&wave, found);
  }
  pthread_mutex_unlock(&lock);
}

void free_missing_waits(MissingWaits *waits) {
  if (waits) free(waits->finding);
  free(waits);
}
