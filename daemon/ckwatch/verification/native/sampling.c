/* A sample of a launch's workgroups does what it would among all of them, if none of them needs what another one does:
 * no atomic operation on memory, no read of what another workgroup, or one of an earlier launch, writes or would have
 * written, no two launches that write to the same allocation. Otherwise the launch is stopped before memory changes,
 * and says why all have to be executed.
 *
 * What a kernel has written is noted byte by byte with the workgroup that did.
 */
#include "sampling.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { WHOLE_LAUNCH = UINT16_MAX }; /* the writer in a launch whose workgroups are all executed */

struct RegionWriters {
  uint16_t *by; /* by byte: the writer, 0 for none */
  size_t mapped;
  uint32_t sample;
  _Atomic uint64_t launch, partial_launch; /* the last that wrote, the last of which only some workgroups did; + 1 */
};

static _Atomic bool sampling;
static _Atomic uint32_t samples;
static _Atomic(const char *) reason;

void begin_sample(void) {
  samples++;
  reason = NULL;
  sampling = true;
}
void end_sample(void) { sampling = false; }
const char *why_whole(void) { return reason; }

void free_writers(RegionWriters *writers) {
  if (!writers) return;
  munmap(writers->by, writers->mapped);
  free(writers);
}

/* ---- Which workgroups -------------------------------------------------------------------------------------------- */
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

static int ascending(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

uint64_t *sampled_workgroups(const uint32_t grid[3], uint64_t wanted, uint64_t seed, uint64_t *count) {
  enum { PLACES = 3 }; /* of a dimension: its ends, and one between */
  uint64_t all = (uint64_t)grid[0] * grid[1] * grid[2], found = 0;
  uint64_t *list = malloc((wanted + PLACES * PLACES * PLACES) * sizeof *list);
  if (!list) abort();
  for (uint32_t n = 0; n < PLACES * PLACES * PLACES; n++) {
    uint64_t at = 0, place[3] = {n % PLACES, n / PLACES % PLACES, n / PLACES / PLACES};
    for (int d = 2; d >= 0; d--)
      at = at * grid[d] + (place[d] == 0 ? 0 : place[d] == 1 ? grid[d] - 1 : mixed(seed ^ mixed(n * 3 + (uint64_t)d)) % grid[d]);
    list[found++] = at;
  }
  for (uint64_t n = 0; n < wanted; n++) {
    uint64_t begin = (uint64_t)((unsigned __int128)all * n / wanted);
    uint64_t end = (uint64_t)((unsigned __int128)all * (n + 1) / wanted);
    if (end > begin) list[found++] = begin + mixed(seed ^ mixed(~n)) % (end - begin);
  }
  qsort(list, found, sizeof *list, ascending);
  *count = 0;
  for (uint64_t n = 0; n < found; n++)
    if (n == 0 || list[n] != list[n - 1]) list[(*count)++] = list[n];
  return list;
}

/* ---- Accesses ---------------------------------------------------------------------------------------------------- */
static NO_INLINE bool needs_whole(Wave *w, const char *why) {
  const char *none = NULL;
  atomic_compare_exchange_strong(&reason, &none, why);
  w->state = STOPPED;
  w->launch->stop = true;
  return false;
}

static NO_INLINE RegionWriters *new_writers(const Region *region) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  RegionWriters *r = region->writers;
  if (!r) {
    r = calloc(1, sizeof *r);
    if (!r) abort();
    r->mapped = region->size * sizeof *r->by;
    r->by = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->by == MAP_FAILED) abort();
    madvise(r->by, r->mapped, MADV_NOHUGEPAGE);
    r->sample = samples;
    ((Region *)region)->writers = r;
  } else if (r->sample != samples) {
    madvise(r->by, r->mapped, MADV_DONTNEED);
    r->launch = r->partial_launch = 0;
    r->sample = samples;
  }
  pthread_mutex_unlock(&lock);
  return r;
}

static inline RegionWriters *writers_of(const Region *region) { /* of this sample, or NULL */
  RegionWriters *r = region->writers;
  return r && r->sample == samples ? r : NULL;
}

static inline uint16_t writer(const Wave *w) { return w->launch->partial ? w->group->writer : WHOLE_LAUNCH; }

bool sample_read_at(Wave *w, const Region *region, uint64_t at, unsigned bytes) {
  const Launch *launch = w->launch;
  uint64_t offset = at - region->base;
  if (region->undefined && offset < region->undefined_to && offset + bytes > region->undefined_from)
    for (unsigned n = 0; n < bytes; n++)
      if (region->undefined[offset + n]) return needs_whole(w, "a workgroup reads what it has not written");
  const RegionWriters *r = writers_of(region);
  if (!r) return true;
  if (r->partial_launch && r->partial_launch != launch->dispatch_id + 1)
    return needs_whole(w, "a launch reads what an earlier one writes");
  for (unsigned n = 0; launch->partial && n < bytes; n++)
    if (r->by[offset + n] && r->by[offset + n] != w->group->writer)
      return needs_whole(w, "a workgroup reads what another one writes");
  return true;
}

bool sample_read(Wave *w, const Region *region, const Places *p, uint64_t lanes, unsigned bytes) {
  if (!region->undefined && !writers_of(region)) return true;
  unsigned lane;
  FOR_LANES(lane, lanes)
    if (!sample_read_at(w, region, p->at[lane], bytes)) return false;
  return true;
}

bool sample_write_at(Wave *w, const Region *region, uint64_t at, unsigned bytes) {
  const Launch *launch = w->launch;
  uint64_t me = launch->dispatch_id + 1;
  if (launch->partial && region->kind != DEVICE_MEMORY)
    return needs_whole(w, "a workgroup changes memory that outlives the launch");
  RegionWriters *r = writers_of(region);
  if (!r) r = new_writers(region);
  if (launch->partial && r->launch && r->launch != me)
    return needs_whole(w, "several launches write to one tensor");
  r->launch = me;
  if (launch->partial) r->partial_launch = me;
  for (unsigned n = 0; n < bytes; n++) r->by[at - region->base + n] = writer(w);
  return true;
}

bool sample_store(Wave *w, const Places *p, unsigned bytes) {
  unsigned lane;
  FOR_LANES(lane, p->lanes) {
    unsigned wanted = p->partial >> lane & 1 ? p->bytes[lane] : bytes;
    const Region *region = wanted ? region_with(w, p->at[lane], wanted) : NULL;
    if (region && !sample_write_at(w, region, p->at[lane], wanted)) return false;
  }
  return true;
}

bool sample_atomic_at(Wave *w, const Region *region, uint64_t at, unsigned bytes) {
  if (w->launch->partial) return needs_whole(w, "workgroups change memory by atomic operations");
  return sample_read_at(w, region, at, bytes) && sample_write_at(w, region, at, bytes);
}

bool sample_atomic(Wave *w, const Places *p, unsigned bytes) {
  unsigned lane;
  FOR_LANES(lane, p->lanes & ~p->partial) {
    const Region *region = region_with(w, p->at[lane], bytes);
    if (region && !sample_atomic_at(w, region, p->at[lane], bytes)) return false;
  }
  return true;
}

void sample_on_host(const void *address) {
  if (!sampling) return;
  const Region *region = region_of((uint64_t)(uintptr_t)address);
  const RegionWriters *r = region ? writers_of(region) : NULL;
  const char *none = NULL;
  if (r && r->partial_launch) atomic_compare_exchange_strong(&reason, &none, "what a kernel writes is copied or filled");
}

void sampled_bytes(uint64_t at, uint64_t size, uint8_t *bytes) {
  const Region *region = region_of(at);
  const RegionWriters *r = region ? writers_of(region) : NULL;
  memset(bytes, 0, size);
  uint64_t offset = r ? at - region->base : 0;
  for (uint64_t n = 0; r && n < size && n < region->size - offset; n++) bytes[n] = r->by[offset + n] != 0;
}

/* ---- The last writer of one place -------------------------------------------------------------------------------- */
static uint64_t watched, watched_bytes;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  const Instruction *at;
  uint32_t workgroup[3], wave;
  int lane;
} last_writer;

void watch_memory(uint64_t at, uint64_t bytes) {
  watched = at;
  watched_bytes = bytes;
}
bool is_watching(void) { return watched_bytes != 0; }

void watch_write_at(Wave *w, const Instruction *i, uint64_t at, unsigned bytes, int lane) {
  if (at >= watched + watched_bytes || at + bytes <= watched) return;
  pthread_mutex_lock(&watch_lock);
  last_writer.at = i;
  memcpy(last_writer.workgroup, w->group->id, sizeof last_writer.workgroup);
  last_writer.wave = w->id;
  last_writer.lane = lane;
  pthread_mutex_unlock(&watch_lock);
}

void watch_store(Wave *w, const Instruction *i, const Places *p, uint64_t lanes, unsigned bytes) {
  unsigned lane;
  FOR_LANES(lane, lanes) watch_write_at(w, i, p->at[lane], p->partial >> lane & 1 ? p->bytes[lane] : bytes, (int)lane);
}

void report_watched(Launch *launch) {
  if (!last_writer.at) return;
  Workgroup group = {.launch = launch};
  memcpy(group.id, last_writer.workgroup, sizeof group.id);
  Wave *wave = aligned_alloc(64, sizeof *wave);
  if (!wave) abort();
  wave->launch = launch;
  wave->group = &group;
  wave->code = launch->code;
  wave->id = last_writer.wave;
  report(wave, &(Finding){.kind = WRONG_RESULT, .at = last_writer.at, .lane = last_writer.lane, .other_wave = -1,
                          .other_lane = -1, .address = watched, .bytes = (uint32_t)watched_bytes, .has_address = true});
  free(wave);
  last_writer.at = NULL;
}
