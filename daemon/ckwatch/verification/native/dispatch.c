/* Workgroups on threads, waves from barrier to barrier, and the registers with which a wave begins.
 *
 * "Initial Kernel Execution State", "Kernel Descriptor" and "Kernel Argument Metadata" of LLVM's AMDGPUUsage. */
#include "dispatch.h"

#include "checks.h"
#include "counting.h"
#include "crash.h"
#include "host_calls.h"
#include "ordering.h"
#include "paths.h"
#include "sampling.h"
#include "steps.h"
#include "watch.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* kernel_code_properties */
enum {
  PRIVATE_SEGMENT_BUFFER = 1 << 0,
  DISPATCH_PTR = 1 << 1,
  QUEUE_PTR = 1 << 2,
  KERNARG_SEGMENT_PTR = 1 << 3,
  DISPATCH_ID = 1 << 4,
  FLAT_SCRATCH_INIT = 1 << 5,
  PRIVATE_SEGMENT_SIZE = 1 << 6,
};

/* compute_pgm_rsrc2 */
enum { PRIVATE_SEGMENT = 1 << 0, WORKGROUP_ID_X = 1 << 7, WORKGROUP_INFO = 1 << 10, WORKITEM_ID_SHIFT = 11 };

static const Finding no_place = {.lane = -1, .other_wave = -1, .other_lane = -1};

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static uint32_t dimensions(const Launch *launch) {
  for (uint32_t n = 3; n > 1; n--)
    if (launch->grid[n - 1] > 1 || launch->block[n - 1] > 1) return n;
  return 1;
}

void fill_hidden_arguments(const Launch *launch) {
  const Kernel *kernel = launch->kernel;
  for (uint32_t n = 0; n < kernel->argument_count; n++) {
    const KernelArgument *argument = &kernel->arguments[n];
    uint64_t value = 0;
    switch (argument->kind) {
      case BY_VALUE:
      case DYNAMIC_SHARED_POINTER: continue;
      case HIDDEN_BLOCK_COUNT_X:
      case HIDDEN_BLOCK_COUNT_Y:
      case HIDDEN_BLOCK_COUNT_Z: value = launch->grid[argument->kind - HIDDEN_BLOCK_COUNT_X]; break;
      case HIDDEN_GROUP_SIZE_X:
      case HIDDEN_GROUP_SIZE_Y:
      case HIDDEN_GROUP_SIZE_Z: value = launch->block[argument->kind - HIDDEN_GROUP_SIZE_X]; break;
      case HIDDEN_GRID_DIMS: value = dimensions(launch); break;
      case HIDDEN_PRIVATE_BASE: value = PRIVATE_APERTURE >> 32; break;
      case HIDDEN_SHARED_BASE: value = SHARED_APERTURE >> 32; break;
      case HIDDEN_QUEUE_PTR: value = (uint64_t)(uintptr_t)launch->queue; break;
      case HIDDEN_GRID_SYNC: value = (uint64_t)(uintptr_t)launch->grid_sync; break;
      case HIDDEN_DYNAMIC_LDS_SIZE: value = launch->dynamic_lds; break;
      case HIDDEN_HOSTCALL_BUFFER: value = host_call_buffer(); break;
      case HIDDEN_HEAP_V1: value = device_heap(); break;
      case HIDDEN_PRINTF_BUFFER: value = new_printf_buffer(); break;
      default: break; /* workgroups are whole, grids begin at 0, and there is nothing else to talk to */
    }
    memcpy(launch->kernarg + argument->offset, &value, argument->size < 8 ? argument->size : 8);
  }
}

static void print_what_is_buffered(const Launch *launch) {
  const Kernel *kernel = launch->kernel;
  for (uint32_t n = 0; n < kernel->argument_count; n++) {
    uint64_t printf_buffer;
    if (kernel->arguments[n].kind != HIDDEN_PRINTF_BUFFER || kernel->arguments[n].size < 8) continue;
    memcpy(&printf_buffer, launch->kernarg + kernel->arguments[n].offset, sizeof printf_buffer);
    print_buffered(kernel->object, printf_buffer);
  }
}

static bool has_argument(const Kernel *kernel, ArgumentKind kind) {
  for (uint32_t n = 0; n < kernel->argument_count; n++)
    if (kernel->arguments[n].kind == kind) return true;
  return false;
}
bool wants_packet(const Kernel *kernel) { return kernel->properties & DISPATCH_PTR; }
bool wants_queue(const Kernel *kernel) {
  return kernel->properties & QUEUE_PTR || has_argument(kernel, HIDDEN_QUEUE_PTR);
}

void fill_packet(const Launch *launch, uint8_t *packet) {
  struct {
    uint16_t header, setup, workgroup[3], reserved;
    uint32_t grid[3], private_bytes, group_bytes;
    uint64_t kernel_object, kernarg, reserved_2, signal;
  } content = {.header = 2 /* a kernel dispatch */, .setup = (uint16_t)dimensions(launch)};
  _Static_assert(sizeof content == PACKET_BYTES, "hsa_kernel_dispatch_packet_t");
  for (int n = 0; n < 3; n++) {
    content.workgroup[n] = (uint16_t)launch->block[n];
    content.grid[n] = launch->grid[n] * launch->block[n];
  }
  content.private_bytes = launch->kernel->scratch_bytes;
  content.group_bytes = launch->kernel->lds_bytes + launch->dynamic_lds;
  content.kernarg = (uint64_t)(uintptr_t)launch->kernarg;
  memcpy(packet, &content, sizeof content);
}

/* Of amd_queue_t only what kernels read: the apertures. */
void fill_queue(uint8_t *queue) {
  enum { GROUP_APERTURE = 0x40, PRIVATE_APERTURE_OFFSET = 0x44 };
  uint32_t group = SHARED_APERTURE >> 32, private = PRIVATE_APERTURE >> 32;
  memset(queue, 0, QUEUE_BYTES);
  memcpy(queue + GROUP_APERTURE, &group, 4);
  memcpy(queue + PRIVATE_APERTURE_OFFSET, &private, 4);
}

/* Of the mg_info of AMD's device libraries (ockl/src/cg.cl) what a barrier of the whole grid uses: its own counter, and the
 * number of workgroups. Every other launch has none. */
bool wants_grid_sync(const Launch *launch) {
  return launch->is_cooperative && has_argument(launch->kernel, HIDDEN_GRID_SYNC);
}
void fill_grid_sync(const Launch *launch, uint8_t *grid_sync) {
  enum { WORKGROUPS = 40 };
  uint32_t all = launch->grid[0] * launch->grid[1] * launch->grid[2];
  memset(grid_sync, 0, GRID_SYNC_BYTES);
  memcpy(grid_sync + WORKGROUPS, &all, 4);
}

/* ---- The start of a wave ----------------------------------------------------------------------------------------- */

static void put_initial(Wave *w, uint32_t *at, uint32_t value) {
  w->s[*at] = value;
  if (w->checks) define_scalar(w, *at);
  ++*at;
}
static void put_initial_pair(Wave *w, uint32_t *at, uint64_t value) {
  put_initial(w, at, (uint32_t)value);
  put_initial(w, at, (uint32_t)(value >> 32));
}

/* The descriptor of scratch memory, as ROCr makes it: swizzled, elements of four bytes, 64 lanes side by side. */
static void put_scratch_descriptor(Wave *w, uint32_t *at) {
  enum { SWIZZLE = 1u << 31, INDEX_STRIDE_64 = 3 << 21, ADD_TID = 1 << 23, ELEMENT_4 = 1 << 19, FORMAT_32 = 4 << 15 };
  uint64_t base = (uint64_t)(uintptr_t)w->scratch;
  put_initial(w, at, (uint32_t)base);
  put_initial(w, at, ((uint32_t)(base >> 32) & 0xffff) | SWIZZLE);
  put_initial(w, at, w->scratch_bytes * LANES);
  put_initial(w, at, ADD_TID | INDEX_STRIDE_64 | ELEMENT_4 | FORMAT_32 | 0xfac /* x, y, z, w */);
}

/* User SGPRs, then system SGPRs, each where the kernel descriptor asks for it. */
static void put_initial_scalars(Wave *w) {
  const Launch *launch = w->launch;
  const Kernel *kernel = launch->kernel;
  uint32_t at = 0, properties = kernel->properties;
  if (properties & PRIVATE_SEGMENT_BUFFER) put_scratch_descriptor(w, &at);
  if (properties & DISPATCH_PTR) put_initial_pair(w, &at, (uint64_t)(uintptr_t)launch->packet);
  if (properties & QUEUE_PTR) put_initial_pair(w, &at, (uint64_t)(uintptr_t)launch->queue);
  if (properties & KERNARG_SEGMENT_PTR) put_initial_pair(w, &at, (uint64_t)(uintptr_t)launch->kernarg);
  if (properties & DISPATCH_ID) put_initial_pair(w, &at, launch->dispatch_id);
  if (properties & FLAT_SCRATCH_INIT) put_initial_pair(w, &at, (uint64_t)(uintptr_t)w->scratch);
  if (properties & PRIVATE_SEGMENT_SIZE) put_initial(w, &at, kernel->scratch_bytes);
  /* Arguments that are there before the first instruction. Kernels that want them begin with code that loads the same
   * values, for firmware that does not preload; hardware that does starts behind it. It is harmless. */
  uint32_t preloaded = kernel->preload & 0x7f, offset = kernel->preload >> 7;
  for (uint32_t n = 0; n < preloaded && at < (launch->arch == GFX1250 ? 32 : 16); n++) {
    uint32_t value = 0;
    if ((offset + n + 1) * 4 <= kernel->kernarg_bytes) memcpy(&value, launch->kernarg + (offset + n) * 4, 4);
    put_initial(w, &at, value);
  }
  at = kernel->rsrc2 >> 1 & 31; /* user SGPRs in all; the system's follow */
  if (is_gfx12(launch->arch)) { /* in registers of the trap handler */
    w->s[TTMP0 + 9] = w->group->id[0];
    w->s[TTMP0 + 8] = w->id << 25;
    w->s[TTMP0 + 7] = (w->group->id[1] & 0xffff) | w->group->id[2] << 16;
    return;
  }
  for (int n = 0; n < 3; n++)
    if (kernel->rsrc2 & WORKGROUP_ID_X << n) put_initial(w, &at, w->group->id[n]);
  if (kernel->rsrc2 & WORKGROUP_INFO) put_initial(w, &at, launch->waves);
  /* Scratch of each wave has its own base here, so its offset in the queue's scratch is 0. */
  if (kernel->rsrc2 & PRIVATE_SEGMENT) put_initial(w, &at, 0);
}

static void start_wave(Wave *w) {
  Launch *launch = w->launch;
  const Kernel *kernel = launch->kernel;
  /* What is not defined has bits that show: addresses nowhere, and not a number. */
  uint32_t vectors = kernel->vgprs < kernel->accum_offset ? kernel->vgprs : kernel->accum_offset;
  memset(w->v, 0xff, vectors * sizeof w->v[0]);
  memset(w->v[256], 0xff, (kernel->vgprs - vectors > 256 ? 256 : kernel->vgprs - vectors) * sizeof w->v[0]);
  memset(w->s, 0, sizeof w->s);
  memset(w->s, 0xff, FLAT_SCRATCH * sizeof w->s[0]);
  w->next = kernel->entry;
  w->state = RUNNING;
  w->executed = w->counted = 0;
  w->last_region = NULL;
  w->shares = w->polls = false;

  uint32_t size = launch->block[0] * launch->block[1] * launch->block[2], lanes = launch->lanes;
  uint32_t first = w->id * lanes;
  if (lanes > size - first) lanes = size - first;
  w->live = lanes == LANES ? ~0ull : (1ull << lanes) - 1;
  EXEC_OF(w) = w->live;
  PAIR_OF(w, SHARED_BASE) = SHARED_APERTURE;
  PAIR_OF(w, SHARED_LIMIT) = SHARED_APERTURE + UINT32_MAX;
  PAIR_OF(w, PRIVATE_BASE) = PRIVATE_APERTURE;
  PAIR_OF(w, PRIVATE_LIMIT) = PRIVATE_APERTURE + UINT32_MAX;
  PAIR_OF(w, FLAT_SCRATCH) = launch->arch == GFX1250 ? PRIVATE_APERTURE : (uint64_t)(uintptr_t)w->scratch;
  uint32_t r = kernel->rsrc1;
  w->mode = (r >> 12 & 0xff) | (r >> 26 & 1) << 23;
  if (!is_gfx12(launch->arch)) w->mode |= (r >> 21 & 1) << 8 | (r >> 23 & 1) << 9;

  if (w->checks) {
    static const uint8_t defined[] = {EXEC, EXEC + 1, SHARED_BASE, SHARED_BASE + 1, SHARED_LIMIT, SHARED_LIMIT + 1,
                                      PRIVATE_BASE, PRIVATE_BASE + 1, PRIVATE_LIMIT, PRIVATE_LIMIT + 1, FLAT_SCRATCH,
                                      FLAT_SCRATCH + 1};
    reset_wave_checks(w);
    for (size_t n = 0; n < sizeof defined; n++) define_scalar(w, defined[n]);
    define_vector(w, 0, ~0ull);
  }
  put_initial_scalars(w);

  /* Work-item ids, packed in v0 from gfx90a on: x, y if asked for, z if asked for. */
  uint32_t ids = kernel->rsrc2 >> WORKITEM_ID_SHIFT & 3, width = launch->block[0], height = launch->block[1];
  uint32_t x = first % width, y = first / width % height, z = first / width / height;
  for (uint32_t l = 0; l < LANES; l++) {
    w->v[0][l] = x | (ids >= 1 ? y << 10 : 0) | (ids >= 2 ? z << 20 : 0);
    if (++x == width && (x = 0, ++y == height)) y = 0, z++;
  }
  if (w->scratch_bytes) memset(w->scratch, 0xff, (size_t)w->scratch_bytes * LANES);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

enum { SLICE = 1 << 17 }; /* instructions of one wave, by their costs, before the next one goes on, for those that wait for each other */

/* Those of a cooperative launch wait for all others again and again. */
static int32_t slice_of(const Launch *launch) { return launch->is_cooperative ? SLICE >> 6 : SLICE; }

static const Instruction *last_of(const Wave *w) { return &w->code->instructions[w->next - 1]; }

/* Returns how many of them were executed. */
static inline uint32_t perform(Wave *w, const Run *run) {
  const uint32_t behind = w->next + run->length;
  const Step *first = &w->code->steps[w->next], *end = first + run->length, *s = first;
  do {
    s->perform(w, s);
    s++;
  } while (s < end && __builtin_expect(w->state == RUNNING, 1));
  if (!run->branches && w->state == RUNNING) w->next = behind;
  return (uint32_t)(s - first);
}

static void run_slice(Wave *w) {
  const Run *runs = w->code->runs;
  const int32_t slice = slice_of(w->launch);
  int32_t left = slice;
  uint32_t executed = 0;
  do {
    const Run *run = &runs[w->next];
    if (run->length && (int32_t)run->cost < left) {
      left -= (int32_t)run->cost;
      executed += perform(w, run);
      continue;
    }
    const Instruction *i = &w->code->instructions[w->next++];
    i->execute(w, i);
    executed++;
    left -= i->cost;
  } while (__builtin_expect(w->state == RUNNING, 1) && left > 0);
  w->executed += executed;
  w->counted += (uint64_t)(slice - left);
}

static void run_counted_slice(Wave *w) {
  InstructionCounts *counts = w->group->counts;
  int32_t left = slice_of(w->launch);
  uint32_t executed = 0;
  do {
    InstructionCounts *c = &counts[w->next];
    const Instruction *i = &w->code->instructions[w->next++];
    c->issued++;
    c->lanes += (unsigned)__builtin_popcountll(EXEC_OF(w));
    i->execute(w, i);
    executed++;
    left -= i->cost;
  } while (w->state == RUNNING && left > 0);
  w->executed += executed;
  w->counted += (uint64_t)(slice_of(w->launch) - left);
}

static void run_checked_slice(Wave *w) {
  const Instruction *code = w->code->instructions;
  const Run *runs = w->code->runs;
  const bool traced = w->launch->traced;
  const int32_t slice = slice_of(w->launch);
  int32_t left = slice;
  uint32_t executed = 0;
  for (uint32_t by_themselves = 0; __builtin_expect(w->state == RUNNING, 1) && left > 0;) {
    const Run *run = &runs[w->next];
    if (by_themselves) by_themselves--;
    else if (run->length && !traced && (int32_t)run->cost < left) {
      if (run_has_doubts(w->checks, run)) by_themselves = run->length < 8 ? run->length - 1 : 7;
      else {
        left -= (int32_t)run->cost;
        executed += perform(w, run);
        continue;
      }
    }
    const Step *s = &w->code->steps[w->next];
    const Instruction *i = &code[w->next++];
    if (has_doubts(w->checks, i) || (traced && i->row->result_type != PLAIN_BITS)) {
      check_before(w, i);
      if (i->parts) i->execute(w, i); /* it calls the checks for each */
      else s->perform(w, s);
      check_after(w, i);
    } else {
      s->perform(w, s);
    }
    executed++;
    left -= i->cost;
  }
  w->executed += executed;
  w->counted += (uint64_t)(slice - left);
}

/* A wave that has ended counts no more for gfx9's barriers, so the others go on; what they expected of it never comes. */
static void report_divergence(Workgroup *group) {
  Wave *ended = NULL, *waiting = NULL;
  for (uint32_t n = 0; n < group->wave_count; n++) {
    Wave *w = group->waves[n];
    if (w->state == ENDED && !ended) ended = w;
    if (w->state == AT_BARRIER && !waiting) waiting = w;
  }
  if (!ended || !waiting) return;
  Finding finding = no_place;
  finding.kind = DIVERGENT_BARRIER;
  finding.at = last_of(waiting);
  finding.other = last_of(ended);
  finding.other_wave = (int)ended->id;
  report(waiting, &finding);
}

static void report_no_end(Workgroup *group) {
  Wave *running = NULL;
  uint32_t waiting = 0;
  for (uint32_t n = 0; n < group->wave_count; n++) {
    Wave *w = group->waves[n];
    if (w->state == RUNNING || (!running && w->state == AT_BARRIER)) running = w;
    waiting += w->state == AT_BARRIER;
  }
  Finding finding = no_place;
  finding.kind = NO_END;
  finding.at = running->state == RUNNING ? &running->code->instructions[running->next] : last_of(running);
  int length = snprintf(finding.note, sizeof finding.note, "%llu counted instructions of the workgroup",
                        (unsigned long long)group->launch->instruction_limit);
  if (waiting) snprintf(finding.note + length, sizeof finding.note - (size_t)length, ", %u of its %u waves at a barrier",
                        waiting, group->wave_count);
  report_and_stop(running, &finding);
}

/* Instructions of a workgroup, by their costs, before one that may wait for others lets them go on; and one that does not
 * seem to, so that few workgroups are in memory at once. */
enum { TURN = 1 << 17, LONG_TURN = 1 << 23 };

/* Runs the workgroup to its end, and returns true; or, where `others` could go on and it accesses memory that they may
 * write, for a turn. Of one that may wait for others, instructions count for the limit from the
 * last on that began or ended. */
static bool run_turn(Workgroup *group, bool others) {
  Launch *launch = group->launch;
  void (*run)(Wave *) = launch->profiled ? run_counted_slice : launch->checked ? run_checked_slice : run_slice;
  for (uint64_t executed = 0, before;;) {
    uint32_t running = 0, waiting = 0;
    bool polls = false;
    for (uint32_t n = 0; n < group->wave_count; n++) {
      Wave *w = group->waves[n];
      before = w->counted;
      crash_place.wave = w;
      if (w->state == RUNNING) run(w);
      crash_place.wave = NULL;
      executed += w->counted - before;
      if (launch->stop) return true;
      polls |= w->polls;
      running += w->state == RUNNING;
      waiting += w->state == AT_BARRIER;
    }
    if (!running && !waiting) return true;
    if (!running) {
      if (launch->checked && waiting < group->wave_count) report_divergence(group);
      if (launch->checked) check_barrier_passed(group);
      for (uint32_t n = 0; n < group->wave_count; n++)
        if (group->waves[n]->state == AT_BARRIER) group->waves[n]->state = RUNNING;
    }
    uint64_t turn = launch->is_cooperative ? TURN >> 6 : polls ? TURN : LONG_TURN;
    if (executed < turn && executed < launch->instruction_limit) continue;
    bool waits = false;
    for (uint32_t n = 0; n < group->wave_count; n++) {
      waits |= group->waves[n]->shares;
      group->waves[n]->shares = group->waves[n]->polls = false;
      group->waves[n]->last_region = NULL; /* so that the next access says what it shares */
    }
    uint64_t progress = launch->progress;
    group->executed = waits && group->progress != progress ? 0 : group->executed + executed;
    group->progress = progress;
    executed = 0;
    if (group->executed >= launch->instruction_limit) {
      report_no_end(group);
      return true;
    }
    if (waits && others) return false;
  }
}

/* ---- What a thread needs for workgroups, used again and again --------------------------------------------------- */

typedef struct Place {
  Workgroup group;
  size_t lds_bytes, shadow_bytes, scratch_bytes;
  uint8_t *scratch; /* of all waves */
  LdsShadow *lds_shadow;
  Wave *waves[MAX_WAVES];
  WaveChecks *checks[MAX_WAVES];
  struct Place *next;
} Place;

static Place *free_places;
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

static void *aligned(size_t size) {
  void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
  if (!memory) abort();
  return memory;
}

static Place *take_place(Launch *launch) {
  pthread_mutex_lock(&places_lock);
  Place *place = free_places;
  if (place) free_places = place->next;
  pthread_mutex_unlock(&places_lock);
  if (!place && !(place = calloc(1, sizeof *place))) abort();

  const Kernel *kernel = launch->kernel;
  Workgroup *group = &place->group;
  uint32_t scratch = (kernel->scratch_bytes + 3) & ~3u;
  size_t lds = kernel->lds_bytes + (size_t)launch->dynamic_lds, all_scratch = (size_t)scratch * LANES * launch->waves;
  if (lds + 64 > place->lds_bytes) {
    free(group->lds);
    group->lds = aligned(place->lds_bytes = lds + 64);
  }
  if (all_scratch > place->scratch_bytes) {
    free(place->scratch);
    place->scratch = aligned(place->scratch_bytes = all_scratch);
  }
  if (launch->checked && lds_shadow_bytes((uint32_t)lds) > place->shadow_bytes) {
    free(place->lds_shadow);
    place->lds_shadow = aligned(place->shadow_bytes = lds_shadow_bytes((uint32_t)lds));
  }
  group->lds_shadow = launch->checked ? place->lds_shadow : NULL;
  group->launch = launch;
  group->lds_bytes = (uint32_t)lds;
  group->wave_count = launch->waves;
  for (uint32_t n = 0; n < launch->waves; n++) {
    if (!place->waves[n]) place->waves[n] = memset(aligned(sizeof(Wave)), 0, sizeof(Wave));
    if (launch->checked && !place->checks[n]) place->checks[n] = new_wave_checks();
    Wave *w = group->waves[n] = place->waves[n];
    w->id = n;
    w->group = group;
    w->launch = launch;
    w->code = launch->code;
    w->scratch_bytes = scratch;
    w->scratch = scratch ? place->scratch + (size_t)n * scratch * LANES : NULL;
    w->checks = launch->checked ? place->checks[n] : NULL;
  }
  return place;
}

static void give_place(Place *place) {
  pthread_mutex_lock(&places_lock);
  place->next = free_places;
  free_places = place;
  pthread_mutex_unlock(&places_lock);
}

/* ---- Which workgroups, and on which threads ---------------------------------------------------------------------- */

typedef struct {
  Launch *launch;
  Choice choice;
  uint64_t all, computed;
  uint64_t *sample; /* the workgroups, or NULL */
  _Atomic uint64_t taken;
} Work;

/* The n-th of the chosen workgroups: the first, the last, and one at random out of each of equal shares between. */
static uint64_t chosen(const Work *work, uint64_t n) {
  if (work->sample) return work->sample[n];
  if (work->computed == work->all || n == 0) return n;
  if (n == work->computed - 1) return work->all - 1;
  uint64_t between = work->all - 2, shares = work->computed - 2;
  uint64_t begin = (uint64_t)((unsigned __int128)between * (n - 1) / shares);
  uint64_t end = (uint64_t)((unsigned __int128)between * n / shares);
  return 1 + begin + mixed(work->choice.seed ^ mixed(n)) % (end - begin);
}

static Place *begin(Work *work, uint64_t n, InstructionCounts *counts) {
  Launch *launch = work->launch;
  Place *place = take_place(launch);
  Workgroup *group = &place->group;
  uint64_t flat = chosen(work, n);
  group->id[0] = (uint32_t)(flat % launch->grid[0]);
  group->id[1] = (uint32_t)(flat / launch->grid[0] % launch->grid[1]);
  group->id[2] = (uint32_t)(flat / launch->grid[0] / launch->grid[1]);
  group->counts = counts;
  group->executed = 0;
  group->signals = 0;
  group->progress = ++launch->progress;
  group->writer = (uint16_t)(1 + n % (UINT16_MAX - 1));
  begin_order(group, n);
  memset(group->lds, 0xff, group->lds_bytes);
  if (launch->checked) reset_lds_shadow(group);
  for (uint32_t n = 0; n < group->wave_count; n++) start_wave(group->waves[n]);
  return place;
}

static void finish(Place *place) {
  Workgroup *group = &place->group;
  for (uint32_t n = 0; n < group->wave_count; n++) {
    group->launch->executed += group->waves[n]->executed;
    group->launch->counted += group->waves[n]->counted;
  }
  group->launch->progress++;
  give_place(place);
}

/* Workgroups one after the other; those that wait for others take turns, the youngest first. The oldest has every other
 * turn, so that one without end is soon known. */
static void *work_on(void *argument) {
  enum { MOST_RESIDENT = 1024, RESIDENT_BYTES = 128 << 20 };
  Work *work = argument;
  Launch *launch = work->launch;
  Place **resident = calloc(launch->is_cooperative ? work->computed : MOST_RESIDENT, sizeof *resident);
  if (!resident) abort();
  InstructionCounts *counts = launch->profiled ? take_counts(launch) : NULL;
  const Kernel *kernel = launch->kernel;
  uint64_t bytes = launch->waves * (uint64_t)(2 * sizeof(Wave) + (uint64_t)kernel->scratch_bytes * LANES);
  uint64_t room = RESIDENT_BYTES / (bytes + 4 * (uint64_t)(kernel->lds_bytes + launch->dynamic_lds)), count = 0;
  room = room < 2 ? 2 : room > MOST_RESIDENT ? MOST_RESIDENT : room;
  if (launch->is_cooperative) room = work->computed;
  bool oldest = false;
  for (uint64_t n, at, next = 0, progress = 0; !launch->stop; oldest = !oldest) {
    bool all_begun = count == room || work->taken >= work->computed;
    if (!all_begun && (n = work->taken++) < work->computed) resident[at = count++] = begin(work, n, counts);
    else if (count) at = oldest ? 0 : (next = (next && next < count && progress == launch->progress ? next : count) - 1);
    else break;
    progress = launch->progress;
    if (!run_turn(&resident[at]->group, count > 1 || !all_begun)) continue;
    finish(resident[at]);
    count--;
    memmove(resident + at, resident + at + 1, (count - at) * sizeof *resident);
  }
  while (count) finish(resident[--count]);
  free(resident);
  if (counts) give_counts(launch, counts);
  return NULL;
}

static uint32_t thread_count(void) {
  const char *told = getenv("CKWATCH_EMULATOR_THREADS");
  long wanted = told ? atol(told) : 0;
  cpu_set_t usable;
  if (wanted <= 0) wanted = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
  return wanted > 256 ? 256 : (uint32_t)wanted;
}

void run_launch(Launch *launch, Choice choice, LaunchCounts *counts) {
  tell_of_crashes();
  Work work = {.launch = launch, .choice = choice};
  work.all = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  uint64_t wanted = choice.workgroups == UINT32_MAX || launch->is_cooperative ? work.all : choice.workgroups;
  if (wanted < 2) wanted = 2; /* the first and the last */
  work.computed = wanted < work.all ? wanted : work.all;
  if (choice.is_sample && work.computed < work.all)
    work.sample = sampled_workgroups(launch->grid, work.computed, choice.seed, &work.computed);
  launch->sampled = choice.is_sample;
  launch->partial = work.computed < work.all;
  launch->watched = is_watching();
  uint64_t threads = thread_count();
  if (threads > work.computed) threads = work.computed;
  launch_begins(launch, work.computed);
  begin_ordering(launch, work.computed, threads);
  pthread_t others[256];
  uint64_t started = 0;
  while (started + 1 < threads && pthread_create(&others[started], NULL, work_on, &work) == 0) started++;
  work_on(&work);
  for (uint64_t n = 0; n < started; n++) pthread_join(others[n], NULL);
  end_ordering(launch);
  launch_ends(launch);
  if (launch->watched) report_watched(launch);
  free(work.sample);
  if (launch->checked) report_missing_waits(launch);
  print_what_is_buffered(launch);
  counts->executed = launch->executed;
  counts->all = work.all;
  counts->computed = work.computed;
  counts->whole_cost = (uint64_t)((unsigned __int128)launch->counted * work.all / work.computed);
  counts->stopped = launch->stop;
  if (launch->profiled) count_workgroups(launch, work.computed, work.all);
}
