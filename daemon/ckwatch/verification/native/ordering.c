/* Races between the workgroups of a launch, by what happens before what, whatever the schedule.
 *
 * Each workgroup has a clock, which goes on at the first write after a wait. Each dword of memory has the last write
 * and two reads: by which workgroup, when, by which instruction; sixteen that are read together have two in common. An access that another workgroup's one is not
 * ordered before is a race if one of them writes another value than is there. An atomic operation publishes, for its
 * address, what its workgroup has released and what it has acquired; a workgroup that reads that address atomically
 * takes it over with the next invalidation of its caches, as "Memory Model" of LLVM's AMDGPUUsage implements acquire and
 * release at agent scope:
 *
 *              released by                        acquired by              read past the caches by
 *   gfx90a     s_waitcnt vmcnt(0)                 buffer_wbinvl1_vol       glc
 *   gfx942     s_waitcnt vmcnt(0): stores, sc1    buffer_inv sc1           sc1
 *   gfx950       all: buffer_wbl2 sc1 before it
 *   gfx1100    s_waitcnt_vscnt 0                  buffer_gl1_inv           glc
 *   gfx12      s_wait_storecnt 0                  global_inv of scope:     scope: SCOPE_DEV
 *                                                   SCOPE_DEV                or SCOPE_SYS
 *
 * Its reads are released where it tells of anything: a wait for loads that no wave has begun is left out by compilers.
 *
 * An atomic store of gfx90a and gfx1100 looks as any store does, so that it is one there where the same dword is accessed
 * by another workgroup's atomic operation, or is read past the caches.
 *
 * Where it is in doubt, nothing is reported: waves of one workgroup count as one, in the order in which they are
 * executed here, and a plain read of what others change atomically is none by an instruction that reads ahead for the
 * workgroup's own atomic operation, as a loop around a compare-and-swap does.
 */
#include "ordering.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "watch.h"

/* ---- Accesses of a dword ----------------------------------------------------------------------------------------- */
/* Bits of one access. Workgroups have numbers that no earlier launch had, until these are used up. */
enum {
  BY_ATOMIC = 1,     /* an atomic operation, or a load or store that passes the caches */
  SAME_VALUE = 2,    /* wrote what was there */
  IN_CACHE = 4,      /* is seen by others after a write-back alone */
  MASK_SHIFT = 4,    /* four bits: its bytes */
  SITE_SHIFT = 8,    /* 18: the instruction's index + 1; 0: not known */
  CLOCK_SHIFT = 26,  /* 18 */
  GROUP_SHIFT = 44,  /* 20 */
  MOST_SITES = (1 << 18) - 1,
  MOST_CLOCKS = (1 << 18) - 1,
  MOST_GROUPS = (1 << 20) - 1,
};
typedef uint64_t Access;
static inline uint32_t group_in(Access a) { return (uint32_t)(a >> GROUP_SHIFT); }
static inline uint32_t clock_in(Access a) { return (uint32_t)(a >> CLOCK_SHIFT) & MOST_CLOCKS; }
static inline uint32_t site_in(Access a) { return (uint32_t)(a >> SITE_SHIFT) & MOST_SITES; }
static inline unsigned mask_in(Access a) { return a >> MASK_SHIFT & 15; }

/* Under the lock of its page. */
static inline Access seen(const Access *a) { return __atomic_load_n(a, __ATOMIC_RELAXED); }
static inline void set(Access *a, Access value) { __atomic_store_n(a, value, __ATOMIC_RELAXED); }

enum { BLOCK = 16 /* dwords, from a multiple of it on */, SLOTS = 2 };
typedef Access Reads[SLOTS]; /* the first one, and the last by another */

struct RegionAccesses {
  Access *writes; /* by dword: the last one */
  Reads *reads;   /* by dword */
  Reads *blocks;  /* by block: reads of all of its dwords */
  uint64_t first_word;
  size_t words, mapped;
  _Atomic uint32_t generation;
  _Atomic uint32_t written, read_singly; /* the last workgroup that has written, that has read less than a block */
};

void free_accesses(RegionAccesses *accesses) {
  if (!accesses) return;
  if (accesses->writes != MAP_FAILED) munmap(accesses->writes, accesses->mapped);
  free(accesses);
}

static _Atomic bool keeps_none; /* for want of memory */
void drop_accesses(RegionAccesses *accesses) {
  keeps_none = true;
  if (!accesses || accesses->generation == UINT32_MAX) return;
  accesses->generation = UINT32_MAX;
  madvise(accesses->writes, accesses->mapped, MADV_DONTNEED);
}
uint64_t resident_accesses(const RegionAccesses *a) {
  return a && a->writes != MAP_FAILED ? resident_bytes(a->writes, a->mapped) : 0;
}

/* ---- Clocks ------------------------------------------------------------------------------------------------------ */
typedef struct {
  uint32_t group;
  uint32_t all, past_caches; /* its writes until then; those that need no write-back */
  uint32_t reads;
} Released;

typedef struct {
  Released *at; /* by group */
  uint32_t count, room;
} Clocks;

static const Released *released_by(const Clocks *c, uint32_t group) {
  uint32_t low = 0, high = c->count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (c->at[middle].group < group) low = middle + 1;
    else high = middle;
  }
  return low < c->count && c->at[low].group == group ? &c->at[low] : NULL;
}

static void reserve(Clocks *c, uint32_t count) {
  if (count <= c->room) return;
  c->room = count > 2 * c->room ? count : 2 * c->room;
  c->at = realloc(c->at, c->room * sizeof *c->at);
  if (!c->at) abort();
}

static void raise_to(Released *one, const Released *other) {
  if (other->all > one->all) one->all = other->all;
  if (other->past_caches > one->past_caches) one->past_caches = other->past_caches;
  if (other->reads > one->reads) one->reads = other->reads;
}

static void join_one(Clocks *c, Released one) {
  uint32_t at = c->count;
  while (at && c->at[at - 1].group >= one.group) at--; /* most often the last */
  if (at < c->count && c->at[at].group == one.group) {
    raise_to(&c->at[at], &one);
    return;
  }
  reserve(c, c->count + 1);
  memmove(&c->at[at + 1], &c->at[at], (c->count - at) * sizeof *c->at);
  c->at[at] = one;
  c->count++;
}

/* From behind, in place. */
static void join(Clocks *c, const Clocks *other) {
  uint32_t added = 0, n = 0, m = 0;
  for (; m < other->count; m++) {
    while (n < c->count && c->at[n].group < other->at[m].group) n++;
    added += n == c->count || c->at[n].group != other->at[m].group;
  }
  reserve(c, c->count + added);
  uint32_t to = c->count + added;
  n = c->count;
  c->count = to;
  while (m) {
    const Released *o = &other->at[m - 1];
    if (n && c->at[n - 1].group > o->group) c->at[--to] = c->at[--n];
    else if (n && c->at[n - 1].group == o->group) {
      c->at[--to] = c->at[--n];
      raise_to(&c->at[to], o);
      m--;
    } else c->at[--to] = *o, m--;
  }
}

/* What atomic operations have published for an address. */
typedef struct {
  uint64_t address;
  Clocks clocks;
  uint32_t version;
} Published;

enum { SHARDS = 64, MOST_PUBLISHED = 1 << 15 /* of a shard */ };
static const uint64_t MOST_JOINED = 2000000000; /* clocks, before no race is looked for any more */
typedef struct {
  pthread_mutex_t lock;
  Published **slots; /* hashed by address, some NULL */
  uint32_t count, room;
} Shard;

struct GroupOrder {
  Ordering *ordering;
  pthread_mutex_t lock; /* of `acquired`, which only the workgroup's own thread changes */
  uint32_t id[3];
  uint32_t group, now, all, past_caches, reads, written_back;
  _Atomic uint32_t waits_for; /* the group whose store it waits for, or 0 */
  _Atomic bool *held;         /* the lock of a page, or NULL */
  bool waited; /* nothing was written since */
  bool has_read; /* since it told of anything */
  _Atomic bool is_storing; /* accesses are noted, and memory is about to change */
  Clocks acquired, pending;
  uint64_t last_address; /* the last that was read atomically, and what was published for it then */
  uint32_t last_version;
};

/* A read of what is changed atomically. It is reported at the end, unless the instruction was seen to read ahead. */
typedef struct Doubt {
  struct Doubt *next;
  uint32_t site, reader;
  Finding finding;
} Doubt;

struct Ordering {
  Launch *launch;
  uint32_t before, generation; /* the numbers of workgroups begin after this one */
  uint64_t count;
  GroupOrder *groups;
  bool is_alone; /* on one thread */
  Shard shards[SHARDS];
  _Atomic uint8_t *reads_ahead; /* by site */
  pthread_mutex_t lock;         /* of doubts */
  Doubt *doubts;
  _Atomic uint64_t joined;
  _Atomic bool is_over; /* too much to keep: no further race is reported */
};

static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t last_number, generation;

void begin_ordering(Launch *launch, uint64_t workgroups, uint64_t threads) {
  launch->ordering = NULL;
  if (!launch->checked || keeps_none || workgroups < 2 || workgroups >= MOST_GROUPS) return;
  Ordering *o = calloc(1, sizeof *o);
  if (!o) abort();
  o->launch = launch;
  o->count = workgroups;
  o->is_alone = threads < 2;
  o->groups = calloc(workgroups, sizeof *o->groups);
  o->reads_ahead = calloc(launch->code->count + 1, 1);
  if (!o->groups || !o->reads_ahead) abort();
  pthread_mutex_init(&o->lock, NULL);
  for (int n = 0; n < SHARDS; n++) pthread_mutex_init(&o->shards[n].lock, NULL);
  pthread_mutex_lock(&numbers_lock);
  if (last_number + workgroups > MOST_GROUPS) last_number = 0, generation++;
  o->before = last_number;
  o->generation = generation;
  last_number += (uint32_t)workgroups;
  pthread_mutex_unlock(&numbers_lock);
  launch->ordering = o;
}

void begin_order(Workgroup *group, uint64_t n) {
  Ordering *o = group->launch->ordering;
  group->order = NULL;
  if (!o) return;
  GroupOrder *g = group->order = &o->groups[n];
  pthread_mutex_init(&g->lock, NULL);
  g->ordering = o;
  g->group = o->before + 1 + (uint32_t)n;
  g->now = 1;
  memcpy(g->id, group->id, sizeof g->id);
}

/* ---- Reporting --------------------------------------------------------------------------------------------------- */
static const Instruction *instruction_of(const Ordering *o, uint32_t site) {
  return site ? &o->launch->code->instructions[site - 1] : NULL;
}

static GroupOrder *order_of(const Ordering *o, uint32_t group) { return &o->groups[group - o->before - 1]; }
static const uint32_t *workgroup_of(const Ordering *o, uint32_t group) { return order_of(o, group)->id; }

/* By a wave of another workgroup than the one that is executed. */
static void report_of(const Ordering *o, const uint32_t workgroup[3], const Finding *f) {
  Workgroup group = {.launch = o->launch};
  memcpy(group.id, workgroup, sizeof group.id);
  Wave *wave = aligned_alloc(64, sizeof *wave);
  if (!wave) abort();
  wave->launch = o->launch;
  wave->group = &group;
  wave->code = o->launch->code;
  wave->id = 0;
  report(wave, f);
  free(wave);
}

typedef struct {
  Wave *w;
  const Instruction *i;
  int lane;
  uint64_t at;
  unsigned bytes;
} Use;

static Finding race_of(const Ordering *o, const Use *u, uint32_t other, const char *what, const char *why) {
  Finding f = {.kind = MEMORY_RACE, .at = u->i, .lane = u->lane, .other_wave = -1, .other_lane = -1,
               .address = u->at, .bytes = u->bytes, .has_address = true};
  const uint32_t *id = workgroup_of(o, other);
  snprintf(f.note, sizeof f.note, "%s workgroup %u, %u, %u %s", what, id[0], id[1], id[2], why);
  return f;
}

static const char *missing_between(const GroupOrder *g, Access other) {
  uint32_t group = group_in(other), when = clock_in(other);
  const Released *pending = released_by(&g->pending, group), *known = released_by(&g->acquired, group);
  if (pending && when <= (other & IN_CACHE ? pending->all : pending->past_caches))
    return "writes, without an acquire fence after the atomic operation that tells of it";
  if (!known) known = pending;
  if (known && other & IN_CACHE && when <= known->past_caches)
    return "writes, without a release fence before the atomic operation that tells of it";
  return "writes in the same launch, and nothing orders the two";
}

static NO_INLINE void report_read_of_write(const Use *u, Access write) {
  GroupOrder *g = u->w->group->order;
  if (g->ordering->is_over) return;
  Finding f = race_of(g->ordering, u, group_in(write), "reads what", missing_between(g, write));
  f.other = instruction_of(g->ordering, site_in(write));
  report(u->w, &f);
}

static NO_INLINE void report_write_of_read(const Use *u, Access read) {
  GroupOrder *g = u->w->group->order;
  Ordering *o = g->ordering;
  const Instruction *reader = instruction_of(o, site_in(read));
  if (o->is_over || !reader) return;
  Use as_read = *u;
  as_read.i = reader;
  as_read.lane = -1;
  Finding f = race_of(o, &as_read, g->group, "reads what", "writes in the same launch, and nothing orders the two");
  f.other = u->i;
  report_of(o, workgroup_of(o, group_in(read)), &f);
}

static NO_INLINE void report_two_writes(const Use *u, Access write) {
  GroupOrder *g = u->w->group->order;
  if (g->ordering->is_over) return;
  Finding f = race_of(g->ordering, u, group_in(write), "writes another value than",
                      write & BY_ATOMIC ? "changes atomically" : "to one place, and nothing orders the two");
  f.other = instruction_of(g->ordering, site_in(write));
  report(u->w, &f);
}

/* A plain read by `reader`, of what `changer` changes atomically. */
static NO_INLINE void doubt(Ordering *o, uint32_t reader, uint32_t site, const Use *u, uint32_t changer,
                            const Instruction *change) {
  if (!site || o->reads_ahead[site]) return;
  pthread_mutex_lock(&o->lock);
  Doubt *d = o->doubts;
  while (d && d->site != site) d = d->next;
  if (!d) {
    d = calloc(1, sizeof *d);
    if (!d) abort();
    Use as_read = *u;
    as_read.i = instruction_of(o, site);
    as_read.lane = -1;
    d->finding = race_of(o, &as_read, changer, "reads what",
                         "changes atomically in the same launch, and nothing orders the two");
    d->finding.other = change;
    d->site = site;
    d->reader = reader;
    d->next = o->doubts;
    o->doubts = d;
  }
  pthread_mutex_unlock(&o->lock);
}

void end_ordering(Launch *launch) {
  Ordering *o = launch->ordering;
  if (!o) return;
  launch->ordering = NULL;
  for (Doubt *d = o->doubts, *next; d; d = next) {
    next = d->next;
    if (!o->reads_ahead[d->site] && !o->is_over) report_of(o, workgroup_of(o, d->reader), &d->finding);
    free(d);
  }
  for (uint64_t n = 0; n < o->count; n++) {
    free(o->groups[n].acquired.at);
    free(o->groups[n].pending.at);
  }
  for (int n = 0; n < SHARDS; n++) {
    for (uint32_t slot = 0; slot < o->shards[n].room; slot++) {
      if (!o->shards[n].slots[slot]) continue;
      free(o->shards[n].slots[slot]->clocks.at);
      free(o->shards[n].slots[slot]);
    }
    free(o->shards[n].slots);
  }
  free(o->groups);
  free((void *)o->reads_ahead);
  free(o);
}

/* ---- Locks of pages ---------------------------------------------------------------------------------------------- */
/* Of two threads that access a place, one sees what the other has noted: to look at what is noted and to note one's own
 * access is one step. A workgroup holds one lock at most, and none while it waits for another one. */
enum { PAGE = 1024 /* dwords */, LOCKS = 1024 };
static struct {
  alignas(64) _Atomic bool taken;
} locks[LOCKS];

static NO_INLINE void take_lock(_Atomic bool *lock) {
  enum { PATIENCE = 100 };
  for (int n = 0; atomic_load_explicit(lock, memory_order_relaxed) || atomic_exchange_explicit(lock, true, memory_order_acquire); n++)
    if (n >= PATIENCE) sched_yield();
}

static inline void let_go(GroupOrder *g) {
  if (!g->held) return;
  atomic_store_explicit(g->held, false, memory_order_release);
  g->held = NULL;
}

static inline void hold(GroupOrder *g, uint64_t word) {
  _Atomic bool *lock = &locks[word / PAGE % LOCKS].taken;
  if (g->ordering->is_alone || g->held == lock) return;
  let_go(g);
  if (atomic_exchange_explicit(lock, true, memory_order_acquire)) take_lock(lock);
  g->held = lock;
}

/* ---- Accesses of a region ---------------------------------------------------------------------------------------- */
static NO_INLINE RegionAccesses *new_accesses(const Ordering *o, const Region *region) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  RegionAccesses *a = region->accesses;
  if (!a) {
    a = calloc(1, sizeof *a);
    if (!a) abort();
    a->generation = UINT32_MAX; /* without room nothing is kept */
    a->first_word = region->base / 4;
    a->words = (region->base + region->size - 1) / 4 - a->first_word + 1;
    uint64_t blocks = (a->first_word + a->words - 1) / BLOCK - a->first_word / BLOCK + 1;
    a->mapped = a->words * sizeof(Access) + (a->words + blocks) * sizeof(Reads);
    a->writes = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->writes == MAP_FAILED) say_no_races();
    else {
      a->generation = o->generation;
      a->reads = (Reads *)(a->writes + a->words);
      a->blocks = a->reads + a->words;
      madvise(a->writes, a->mapped, MADV_NOHUGEPAGE); /* of a large region little is touched */
    }
    ((Region *)region)->accesses = a;
  } else if (a->generation < o->generation) {
    madvise(a->writes, a->mapped, MADV_DONTNEED);
    a->written = a->read_singly = 0;
    a->generation = o->generation;
  }
  pthread_mutex_unlock(&lock);
  return a;
}

static inline RegionAccesses *accesses_of(const Ordering *o, const Region *region) {
  if (keeps_none || (region->kind != DEVICE_MEMORY && region->kind != HOST_MEMORY && region->kind != CODE_MEMORY)) return NULL;
  RegionAccesses *a = region->accesses;
  if (a && a->generation == o->generation) return a;
  a = new_accesses(o, region);
  return a->generation == o->generation ? a : NULL;
}

static inline bool is_of(const Ordering *o, Access a) { /* this launch */
  return group_in(a) > o->before && group_in(a) - o->before <= o->count;
}

static inline bool is_foreign(const GroupOrder *g, Access a) { return is_of(g->ordering, a) && group_in(a) != g->group; }

static inline bool covers(const Released *r, Access a) {
  return r && clock_in(a) <= (a & IN_CACHE ? r->all : r->past_caches);
}

static inline bool is_before(const GroupOrder *g, Access a, bool past_caches) {
  if (!is_foreign(g, a)) return true;
  return covers(released_by(&g->acquired, group_in(a)), a) ||
         (past_caches && covers(released_by(&g->pending, group_in(a)), a));
}

/* A write of `group` after what another one has read. */
static inline bool is_read_before(const GroupOrder *g, Access read, bool past_caches) {
  if (!is_foreign(g, read)) return true;
  const Released *known = released_by(&g->acquired, group_in(read));
  const Released *pending = past_caches ? released_by(&g->pending, group_in(read)) : NULL;
  return (known && clock_in(read) <= known->reads) || (pending && clock_in(read) <= pending->reads);
}

static inline bool has_scoped_stores(const Launch *launch) { return launch->arch != GFX90A && launch->arch != GFX1100; }
static inline bool needs_write_back(const Launch *launch) { return launch->arch == GFX942 || launch->arch == GFX950; }

static inline bool passes_caches(const Launch *launch, const Instruction *i) {
  return has_scoped_stores(launch) ? i->sc1 : i->glc;
}

static inline Access access_by(const GroupOrder *g, const Instruction *i, unsigned flags) {
  const Code *code = g->ordering->launch->code;
  uint64_t site = (uint64_t)(i - code->instructions) + 1;
  if (site > MOST_SITES || site > code->count) site = 0;
  return (uint64_t)g->group << GROUP_SHIFT | (uint64_t)g->now << CLOCK_SHIFT | site << SITE_SHIFT | flags;
}

/* The bytes of a dword that an access of [at, at + bytes) touches. */
static inline unsigned mask_of_word(uint64_t word, uint64_t at, unsigned bytes) {
  uint64_t begin = word * 4, from = at > begin ? at - begin : 0, to = at + bytes - begin;
  return (15u << from) & 15 & (to >= 4 ? 15 : (1u << to) - 1);
}

static inline bool may_be_atomic_store(const Launch *launch, Access write) {
  return !has_scoped_stores(launch) && mask_in(write) == 15;
}

static inline bool is_read_atomically(const Ordering *o, const RegionAccesses *a, uint64_t n) {
  Access first = seen(&a->reads[n][0]), last = seen(&a->reads[n][1]);
  return (is_of(o, first) && first & BY_ATOMIC) || (is_of(o, last) && last & BY_ATOMIC);
}

static inline uint64_t block_of(const RegionAccesses *a, uint64_t n) {
  return (a->first_word + n) / BLOCK - a->first_word / BLOCK;
}

/* The k-th read of the n-th dword: its own, then its block's. */
enum { READS = 2 * SLOTS };
static inline Access read_of(const RegionAccesses *a, uint64_t n, unsigned k) {
  return seen(k < SLOTS ? &a->reads[n][k] : &a->blocks[block_of(a, n)][k - SLOTS]);
}

static inline void note_single_reads(const GroupOrder *g, RegionAccesses *a) { /* under the lock of their page */
  if (a->read_singly < g->group) a->read_singly = g->group;
}

/* ---- Reads ------------------------------------------------------------------------------------------------------- */
static void note_read(const GroupOrder *g, RegionAccesses *a, uint64_t n, Access mine) {
  Access *at = &a->reads[n][!is_read_before(g, seen(&a->reads[n][0]), false)], there = seen(at);
  if (group_in(there) == g->group && !(there & BY_ATOMIC)) mine &= ~(Access)BY_ATOMIC; /* the plain read counts */
  note_single_reads(g, a);
  set(at, mine);
}

static NO_INLINE void check_read(const Use *u, Access write, unsigned mask, bool past_caches) {
  GroupOrder *g = u->w->group->order;
  const Launch *launch = g->ordering->launch;
  if (!(mask_in(write) & mask) || write & SAME_VALUE || is_before(g, write, past_caches)) return;
  if (past_caches && (write & BY_ATOMIC || may_be_atomic_store(launch, write))) return;
  if (write & BY_ATOMIC)
    doubt(g->ordering, g->group, site_in(access_by(g, u->i, 0)), u, group_in(write),
          instruction_of(g->ordering, site_in(write)));
  else report_read_of_write(u, write);
}

static void acquire(GroupOrder *g, uint64_t word, Access write);

static inline bool is_written(const GroupOrder *g, const RegionAccesses *a) { return a->written > g->ordering->before; }

static inline void read_lane(Wave *w, const Instruction *i, RegionAccesses *a, uint64_t at, unsigned bytes, int lane,
                             Access mine) {
  GroupOrder *g = w->group->order;
  const Access same = ~((Access)MOST_SITES << SITE_SHIFT | SAME_VALUE | IN_CACHE);
  for (uint64_t word = at / 4, last = (at + bytes - 1) / 4; word <= last; word++) {
    uint64_t n = word - a->first_word;
    Access now = mine | (Access)mask_of_word(word, at, bytes) << MASK_SHIFT;
    hold(g, word);
    if (is_written(g, a)) {
      Access write = seen(&a->writes[n]);
      if (is_foreign(g, write))
        check_read(&(Use){w, i, lane, at, bytes}, write, mask_in(now), mine & BY_ATOMIC);
      if (mine & BY_ATOMIC) acquire(g, word, write);
    }
    if (((seen(&a->reads[n][0]) ^ now) & same) != 0) note_read(g, a, n, now);
  }
}

/* Whole dwords, many at a time. */
#ifdef __AVX512F__
static inline __m512i each(uint64_t value) { return _mm512_set1_epi64((long long)value); }

static inline __mmask8 foreign_ones(const GroupOrder *g, __m512i accesses) {
  __m512i group = _mm512_srli_epi64(accesses, GROUP_SHIFT), number = _mm512_sub_epi64(group, each(g->ordering->before + 1));
  return _mm512_cmplt_epu64_mask(number, each(g->ordering->count)) & _mm512_cmpneq_epi64_mask(group, each(g->group));
}
#endif

static inline bool any_foreign(const GroupOrder *g, const Access *a, uint64_t count) {
  bool foreign = false;
#ifdef __AVX512F__
  __mmask8 found = 0;
  for (; count >= 8; a += 8, count -= 8) found |= foreign_ones(g, _mm512_loadu_si512(a));
  foreign = found;
#endif
  for (; count; a++, count--) foreign |= is_foreign(g, seen(a));
  return foreign;
}

/* Of whole dwords or blocks that no other workgroup writes, by a workgroup that has heard of no other: what most reads
 * are. Where none writes at all, any read at this time will do; else it is as note_read has it. */
static inline void note_reads(const GroupOrder *g, Reads *reads, uint64_t count, Access mine, bool written) {
  const Access same = written ? ~((Access)MOST_SITES << SITE_SHIFT | SAME_VALUE | IN_CACHE)
                              : ~0ull << CLOCK_SHIFT | 15 << MASK_SHIFT | BY_ATOMIC;
  Reads *end = reads + count;
#ifdef __AVX512F__
  enum { FIRST = 0x55, SECOND = 0xaa };
  for (; reads + 4 <= end; reads += 4) {
    __m512i there = _mm512_loadu_si512(reads);
    unsigned known = _mm512_testn_epi64_mask(_mm512_xor_si512(there, each(mine)), each(same));
    known = (known & FIRST) | (written ? 0 : (known & SECOND) >> 1);
    unsigned foreign = foreign_ones(g, there) & FIRST & ~known, own = FIRST & ~known & ~foreign;
    if (own | foreign) _mm512_mask_storeu_epi64(reads, (__mmask8)(own | foreign << 1), each(mine));
  }
#endif
  for (; reads < end; reads++) {
    Access first = (*reads)[0], other = (*reads)[1];
    if (!((first ^ mine) & same) || (!written && !((other ^ mine) & same))) continue;
    set(&(*reads)[is_foreign(g, first)], mine);
  }
}

/* Of `count` dwords from the n-th on. False where another workgroup has written one. */
static bool note_range(GroupOrder *g, RegionAccesses *a, uint64_t n, uint64_t count, Access mine) {
  for (uint64_t here; count; n += here, count -= here) {
    uint64_t word = a->first_word + n, first = -word % BLOCK, blocks;
    here = count < PAGE - word % PAGE ? count : PAGE - word % PAGE;
    first = first < here ? first : here;
    blocks = (here - first) / BLOCK;
    hold(g, word);
    bool written = is_written(g, a);
    if (written && any_foreign(g, a->writes + n, here)) return false;
    if (here != blocks * BLOCK) note_single_reads(g, a);
    note_reads(g, a->reads + n, first, mine, written);
    if (blocks) note_reads(g, a->blocks + block_of(a, n + first), blocks, mine, written);
    note_reads(g, a->reads + n + first + blocks * BLOCK, here - first - blocks * BLOCK, mine, written);
  }
  return true;
}

/* The lanes of `lanes` whose place is not behind that of the lane before, nor, of reads, the same; and those behind lanes
 * that take no part. All places are multiples of 4, or it is 0. */
static inline uint64_t first_of_runs(const Places *p, uint64_t lanes, unsigned bytes, bool reads) {
  uint64_t first = 0, unaligned = bytes;
  for (unsigned l = 0; l < LANES; l++) unaligned |= p->at[l];
  if (unaligned & 3) return 0;
#ifdef __AVX512F__
  const __m512i step = each(bytes), same = each(reads ? 0 : bytes);
  for (unsigned l = 0; l < LANES; l += 8) {
    __m512i at = _mm512_loadu_si512(p->at + l);
    __m512i before = l ? _mm512_loadu_si512(p->at + l - 1) : _mm512_alignr_epi64(at, at, 7);
    __m512i behind = _mm512_sub_epi64(at, before);
    first |= (uint64_t)(_mm512_cmpneq_epi64_mask(behind, step) & _mm512_cmpneq_epi64_mask(behind, same)) << l;
  }
#else
  for (unsigned l = 1; l < LANES; l++) {
    uint64_t behind = p->at[l] - p->at[l - 1];
    first |= (uint64_t)(behind != bytes && !(reads && behind == 0)) << l;
  }
#endif
  return (first | 1 | ~lanes << 1) & lanes;
}

/* Takes the first run of `left` away: returns its first lane, and in *last its last one. */
static inline unsigned next_run(uint64_t *left, uint64_t lanes, unsigned *last) {
  unsigned first = (unsigned)__builtin_ctzll(*left);
  *left &= *left - 1;
  uint64_t behind = (~lanes | *left) & ~1ull << first;
  *last = behind ? (unsigned)__builtin_ctzll(behind) - 1 : LANES - 1;
  return first;
}

static bool note_whole_reads(GroupOrder *g, RegionAccesses *a, const Places *p, unsigned bytes, Access mine) {
  uint64_t left = first_of_runs(p, p->lanes, bytes, true);
  if (!left) return false;
  mine |= 15 << MASK_SHIFT;
  for (unsigned last; left;) {
    unsigned first = next_run(&left, p->lanes, &last);
    if (!note_range(g, a, p->at[first] / 4 - a->first_word, (p->at[last] + bytes - p->at[first]) / 4, mine)) return false;
  }
  return true;
}

/* Some bytes of a dword. False where another workgroup has written it. */
static inline bool note_part(GroupOrder *g, RegionAccesses *a, uint64_t word, unsigned mask, Access mine) {
  const Access same = ~((Access)MOST_SITES << SITE_SHIFT | SAME_VALUE | IN_CACHE);
  uint64_t n = word - a->first_word;
  hold(g, word);
  if (is_written(g, a) && is_foreign(g, seen(&a->writes[n]))) return false;
  mine |= (Access)mask << MASK_SHIFT;
  if (((seen(&a->reads[n][0]) ^ mine) & same) != 0) note_read(g, a, n, mine);
  return true;
}

/* Reads of bytes and half words that lie side by side, or in one place, as neighbouring lanes most often have them. */
static bool note_narrow_reads(GroupOrder *g, RegionAccesses *a, const Places *p, unsigned bytes, Access mine) {
  uint64_t left = p->lanes;
  while (left) {
    unsigned lane = (unsigned)__builtin_ctzll(left);
    uint64_t from = p->at[lane], to = from + bytes;
    for (left &= left - 1; left; left &= left - 1) {
      uint64_t at = p->at[__builtin_ctzll(left)];
      if (at < from || at > to) break;
      if (at + bytes > to) to = at + bytes;
    }
    uint64_t first = from / 4, last = (to - 1) / 4, whole = (from + 3) / 4, end = to / 4;
    if (from % 4 && !note_part(g, a, first, mask_of_word(first, from, (unsigned)(to - from)), mine)) return false;
    if (to % 4 && (last != first || from % 4 == 0) && !note_part(g, a, last, mask_of_word(last, from, (unsigned)(to - from)), mine))
      return false;
    if (whole < end && !note_range(g, a, whole - a->first_word, end - whole, mine | 15 << MASK_SHIFT)) return false;
  }
  return true;
}

void order_read(Wave *w, const Instruction *i, const Region *region, const Places *p, uint64_t lanes, unsigned bytes) {
  GroupOrder *g = w->group->order;
  RegionAccesses *a = accesses_of(g->ordering, region);
  if (!a) return;
  bool past_caches = passes_caches(w->launch, i);
  g->has_read = true;
  Access mine = access_by(g, i, past_caches ? BY_ATOMIC : 0);
  bool is_noted = !past_caches && !g->acquired.count && lanes == p->lanes &&
                  (bytes < 4 ? note_narrow_reads(g, a, p, bytes, mine) : note_whole_reads(g, a, p, bytes, mine));
  if (!is_noted) {
    unsigned lane;
    uint64_t before = 0;
    FOR_LANES(lane, lanes) {
      if (p->at[lane] == before) continue;
      before = p->at[lane];
      read_lane(w, i, a, before, bytes, (int)lane, mine);
    }
  }
  let_go(g);
}

void order_scalar_read(Wave *w, const Instruction *i, const Region *region, uint64_t at, unsigned bytes) {
  GroupOrder *g = w->group->order;
  RegionAccesses *a = accesses_of(g->ordering, region);
  if (!a) return;
  g->has_read = true;
  read_lane(w, i, a, at, bytes, -1, access_by(g, i, 0));
  let_go(g);
}

/* ---- Writes ------------------------------------------------------------------------------------------------------ */
static void tick(GroupOrder *g) {
  if (++g->now > MOST_CLOCKS) g->now = MOST_CLOCKS, g->ordering->is_over = true;
}

/* The clock goes on, so that what was written before the last wait can be told from what is written after it. */
static void begin_write(GroupOrder *g) {
  if (!g->waited) return;
  g->waited = false;
  tick(g);
}

static void publish(GroupOrder *g, uint64_t word);

/* Whether all that `g` waits for, through others, is itself, and they are younger: then it goes on, and one of them will
 * see what it has written. */
static bool ends_circle(const GroupOrder *g, const GroupOrder *other) {
  while (other != g) {
    uint32_t next = other->waits_for;
    if (!next || other->group < g->group) return false;
    other = order_of(g->ordering, next);
  }
  return true;
}

/* True where another workgroup has written what this one is about to write: seen once it has. */
static NO_INLINE bool writes_the_same(GroupOrder *g, Access write, uint64_t at, const void *value, uint64_t bytes) {
  const GroupOrder *other = order_of(g->ordering, group_in(write));
  bool gives_way = false;
  g->waits_for = other->group;
  while (other->is_storing && !(gives_way = ends_circle(g, other))) sched_yield();
  g->waits_for = 0;
  return gives_way || memcmp((const void *)(uintptr_t)at, value, bytes) == 0;
}

static void write_word(const Use *u, RegionAccesses *a, uint64_t word, Access mine, bool past_caches) {
  GroupOrder *g = u->w->group->order;
  const Launch *launch = g->ordering->launch;
  uint64_t n = word - a->first_word;
  bool same_value = mine & SAME_VALUE, maybe_atomic = past_caches || may_be_atomic_store(launch, mine);
  Access write = seen(&a->writes[n]);
  bool unordered = !is_before(g, write, past_caches);
  bool both_atomic = maybe_atomic && (write & BY_ATOMIC || (may_be_atomic_store(launch, write) &&
                                                            is_read_atomically(g->ordering, a, n)));
  if (unordered && !same_value && mask_in(write) & mask_in(mine) && !both_atomic) report_two_writes(u, write);
  for (unsigned k = 0; k < READS && !same_value; k++) {
    Access read = read_of(a, n, k);
    if (!(mask_in(read) & mask_in(mine)) || (read & BY_ATOMIC && maybe_atomic) || is_read_before(g, read, past_caches))
      continue;
    report_write_of_read(u, read);
  }
  if (unordered && same_value && !(write & SAME_VALUE)) return;
  if (group_in(write) == g->group && clock_in(write) == g->now && (write & 7) == (mine & 7))
    mine |= write & (15 << MASK_SHIFT);
  set(&a->writes[n], mine);
}

static void write_lane(Wave *w, const Instruction *i, RegionAccesses *a, uint64_t at, unsigned bytes, const void *values,
                       int lane, Access mine) {
  GroupOrder *g = w->group->order;
  Use use = {w, i, lane, at, bytes};
  for (uint64_t word = at / 4, last = (at + bytes - 1) / 4; word <= last; word++) {
    uint64_t from = word * 4 > at ? word * 4 : at, to = word * 4 + 4 < at + bytes ? word * 4 + 4 : at + bytes;
    uint64_t n = word - a->first_word;
    bool same = memcmp((const void *)(uintptr_t)from, (const uint8_t *)values + (from - at), to - from) == 0;
    hold(g, word);
    Access write = seen(&a->writes[n]);
    if (is_foreign(g, write)) {
      let_go(g);
      same = writes_the_same(g, write, from, (const uint8_t *)values + (from - at), to - from);
      hold(g, word);
    }
    Access now = mine | (same ? SAME_VALUE : 0) | (Access)mask_of_word(word, at, bytes) << MASK_SHIFT;
    bool foreign = mask_in(now) != 15 || is_foreign(g, seen(&a->writes[n]));
    for (unsigned k = 0; k < READS; k++) foreign |= is_foreign(g, read_of(a, n, k));
    if (foreign) write_word(&use, a, word, now, mine & BY_ATOMIC);
    else set(&a->writes[n], now);
    if (mine & BY_ATOMIC) publish(g, word);
  }
}

static RegionAccesses *begin_writes(Wave *w, const Region *region) {
  GroupOrder *g = w->group->order;
  RegionAccesses *a = accesses_of(g->ordering, region);
  if (a && a->written < g->group) a->written = g->group;
  return a;
}

static Access store_by(Wave *w, const Instruction *i) {
  begin_write(w->group->order);
  const Launch *launch = w->launch;
  bool by_atomic = has_scoped_stores(launch) && i->sc1;
  return access_by(w->group->order, i, by_atomic ? BY_ATOMIC : needs_write_back(launch) ? IN_CACHE : 0);
}

void order_scalar_write(Wave *w, const Instruction *i, const Region *region, uint64_t at, unsigned bytes,
                        const void *values) {
  RegionAccesses *a = begin_writes(w, region);
  w->group->order->is_storing = true;
  if (a) write_lane(w, i, a, at, bytes, values, -1, store_by(w, i));
  let_go(w->group->order);
}

static inline void set_all(Access *writes, Access mine, unsigned count, const uint32_t *before, const uint32_t *values) {
  unsigned n = 0;
#ifdef __AVX512F__
  for (; n + 8 <= count; n += 8) {
    __m256i there = _mm256_loadu_si256((const void *)(before + n)), value = _mm256_loadu_si256((const void *)(values + n));
    __mmask8 same = _mm512_testn_epi64_mask(_mm512_cvtepu32_epi64(_mm256_xor_si256(there, value)), each(~0ull));
    _mm512_storeu_si512(writes + n, _mm512_mask_or_epi64(each(mine), same, each(mine), each(SAME_VALUE)));
  }
#endif
  for (; n < count; n++) set(&writes[n], mine | (before[n] == values[n] ? SAME_VALUE : 0));
}

/* Of dwords side by side that are about to be `values`. False where another workgroup has accessed one. */
static bool note_words_written(const Wave *w, RegionAccesses *a, uint64_t word, unsigned count, const uint32_t *values,
                               Access mine) {
  GroupOrder *g = w->group->order;
  mine |= 15 << MASK_SHIFT;
  for (unsigned here; count; word += here, values += here, count -= here) {
    uint64_t n = word - a->first_word;
    here = (unsigned)(PAGE - word % PAGE);
    here = count < here ? count : here;
    hold(g, word);
    if (any_foreign(g, a->writes + n, here) ||
        (a->read_singly > g->ordering->before && any_foreign(g, a->reads[n], SLOTS * here)) ||
        any_foreign(g, a->blocks[block_of(a, n)], SLOTS * (block_of(a, n + here - 1) - block_of(a, n) + 1)))
      return false;
    set_all(a->writes + n, mine, here, (const uint32_t *)(uintptr_t)(word * 4), values);
  }
  return true;
}

/* Of lanes with places in a row, each of whole dwords. */
static bool note_row_written(const Wave *w, RegionAccesses *a, const Places *p, unsigned first, unsigned last,
                             unsigned bytes, unsigned index, Access mine) {
  const unsigned words = bytes / 4, count = (last - first + 1) * words;
  uint32_t values[4 * LANES];
  for (unsigned k = 0; words > 1 && k < words; k++)
    for (unsigned l = first; l <= last; l++) values[(l - first) * words + k] = w->v[index + k][l];
  return note_words_written(w, a, p->at[first] / 4, count, words > 1 ? values : w->v[index] + first, mine);
}

/* Of lanes that store a byte or a half word, those that store whole dwords together. The others are returned. */
static uint64_t note_narrow_writes(const Wave *w, RegionAccesses *a, const Places *p, uint32_t detail, unsigned index,
                                   Access mine) {
  const unsigned bytes = detail & BYTES, each = 4 / bytes, shift = detail & HIGH ? 16 : 0;
  const uint32_t *row = w->v[index], mask = bytes == 1 ? 0xff : 0xffff;
  uint64_t others = p->lanes;
  for (unsigned first = 0, last; first < LANES; first = last + 1) {
    last = first;
    if (!(p->lanes >> first & 1) || p->at[first] % 4) continue;
    while (last + 1 < LANES && p->lanes >> (last + 1) & 1 && p->at[last + 1] == p->at[last] + bytes) last++;
    const unsigned words = (last - first + 1) / each;
    uint32_t values[LANES] = {0};
    for (unsigned n = 0; n < words * each; n++) values[n / each] |= (row[first + n] >> shift & mask) << n % each * bytes * 8;
    if (words && note_words_written(w, a, p->at[first] / 4, words, values, mine))
      others &= ~(~0ull >> (LANES - words * each) << first);
  }
  return others;
}

void order_store(Wave *w, const Instruction *i, const Places *p, uint32_t detail, unsigned index) {
  GroupOrder *g = w->group->order;
  unsigned lane, bytes = detail & BYTES;
  uint64_t left = 0, by_lane = p->lanes & ~p->partial;
  Access mine = store_by(w, i);
  g->is_storing = true;
  const Region *region = p->partial || mine & BY_ATOMIC ? NULL : common_region(w, reach_of(p), bytes);
  RegionAccesses *a = NULL;
  if (region) {
    a = begin_writes(w, region);
    left = a && bytes >= 4 ? first_of_runs(p, p->lanes, bytes, false) : 0;
    if (left || !a) by_lane = 0;
    else if (bytes < 4) by_lane = note_narrow_writes(w, a, p, detail, index, mine);
  }
  for (unsigned last; left;) {
    unsigned first = next_run(&left, p->lanes, &last);
    if (!note_row_written(w, a, p, first, last, bytes, index, mine))
      by_lane |= ~0ull >> (LANES - 1 - last) & ~0ull << first;
  }
  FOR_LANES(lane, by_lane) {
    const Region *here = region_with(w, p->at[lane], bytes);
    if (!here) continue;
    if (here != region) a = begin_writes(w, region = here);
    uint32_t values[4];
    lane_bytes(w, index, lane, detail, values);
    if (a) write_lane(w, i, a, p->at[lane], bytes, values, (int)lane, mine);
  }
  let_go(g);
}

void order_stored(Wave *w) { w->group->order->is_storing = false; }

/* ---- Atomic operations, and what they tell ----------------------------------------------------------------------- */
static uint64_t hash_of(uint64_t word) { return word * 0x9e3779b97f4a7c15ull; }
static Shard *shard_of(Ordering *o, uint64_t word) { return &o->shards[hash_of(word) >> 58]; }
static uint32_t slot_of(const Shard *s, uint64_t word) { return (uint32_t)(hash_of(word) >> 20) & (s->room - 1); }

/* Under the shard's lock; NULL where nothing was published, or could be. */
static Published *published_for(Ordering *o, Shard *s, uint64_t word, bool make) {
  if (make && 2 * s->count >= s->room) {
    Shard larger = {.room = s->room ? 2 * s->room : 16};
    larger.slots = calloc(larger.room, sizeof(Published *));
    if (!larger.slots) abort();
    for (uint32_t n = 0; n < s->room; n++) {
      if (!s->slots[n]) continue;
      uint32_t at = slot_of(&larger, s->slots[n]->address);
      while (larger.slots[at]) at = (at + 1) & (larger.room - 1);
      larger.slots[at] = s->slots[n];
    }
    free(s->slots);
    s->slots = larger.slots;
    s->room = larger.room;
  }
  if (!s->room) return NULL;
  uint32_t at = slot_of(s, word);
  for (; s->slots[at]; at = (at + 1) & (s->room - 1))
    if (s->slots[at]->address == word) return s->slots[at];
  if (!make) return NULL;
  if (s->count == MOST_PUBLISHED) {
    o->is_over = true;
    return NULL;
  }
  Published *p = s->slots[at] = calloc(1, sizeof *p);
  if (!p) abort();
  p->address = word;
  s->count++;
  return p;
}

static void publish(GroupOrder *g, uint64_t word) {
  Ordering *o = g->ordering;
  if (g->has_read) {
    g->reads = g->now;
    g->has_read = false;
    tick(g);
  }
  if (o->is_over || !(g->all | g->past_caches | g->reads | g->acquired.count)) return;
  Shard *s = shard_of(o, word);
  pthread_mutex_lock(&s->lock);
  Published *p = published_for(o, s, word, true);
  if (p) {
    join_one(&p->clocks, (Released){g->group, g->all, g->past_caches, g->reads});
    if (g->acquired.count) join(&p->clocks, &g->acquired);
    p->version++;
    o->joined += p->clocks.count;
  }
  pthread_mutex_unlock(&s->lock);
  if (o->joined > MOST_JOINED) o->is_over = true;
}

/* Takes over what was published for an address; and, by the store that is there, what its workgroup had released. */
static void acquire(GroupOrder *g, uint64_t word, Access write) {
  Ordering *o = g->ordering;
  if (o->is_over) return;
  Shard *s = shard_of(o, word);
  pthread_mutex_lock(&s->lock);
  Published *p = published_for(o, s, word, false);
  if (p && (g->last_address != word || g->last_version != p->version)) {
    g->last_address = word;
    g->last_version = p->version;
    join(&g->pending, &p->clocks);
    o->joined += g->pending.count;
  }
  pthread_mutex_unlock(&s->lock);
  if (has_scoped_stores(o->launch) || !is_foreign(g, write) || write & BY_ATOMIC) return;
  GroupOrder *other = order_of(o, group_in(write));
  uint32_t released = clock_in(write) - 1;
  const Released *known = released_by(&g->pending, group_in(write));
  if (known && known->all >= released && known->reads > released) return;
  join_one(&g->pending, (Released){group_in(write), released, released, clock_in(write)});
  pthread_mutex_lock(&other->lock);
  join(&g->pending, &other->acquired);
  pthread_mutex_unlock(&other->lock);
}

static void check_atomic(const Use *u, RegionAccesses *a, uint64_t word, Access mine) {
  GroupOrder *g = u->w->group->order;
  Ordering *o = g->ordering;
  uint64_t n = word - a->first_word;
  Access write = seen(&a->writes[n]);
  if (!is_before(g, write, true) && !(write & (BY_ATOMIC | SAME_VALUE)) && !may_be_atomic_store(o->launch, write) &&
      mask_in(write) & mask_in(mine))
    report_two_writes(u, write);
  for (unsigned k = 0; k < READS; k++) {
    Access read = read_of(a, n, k);
    if (!is_of(o, read) || read & BY_ATOMIC) continue;
    if (group_in(read) == g->group) o->reads_ahead[site_in(read)] = 1;
    else if (!is_read_before(g, read, true)) doubt(o, group_in(read), site_in(read), u, g->group, u->i);
  }
}

static bool is_own_plain_write(const GroupOrder *g, Access write) { /* that others must not overtake */
  return group_in(write) == g->group && !(write & (BY_ATOMIC | SAME_VALUE));
}

static bool is_of_floats(Operation operation) { return operation >= ADD_FLOAT && operation <= PK_ADD_BF16; }

/* That memory has changed and that it is noted is one step for others, too: they may see the last of a number of atomic
 * operations, and store plainly what it was the signal for. */
void order_before_atomic(Wave *w, const Region *region, uint64_t at, Operation operation) {
  begin_writes(w, region);
  hold(w->group->order, at / 4);
  if (!is_of_floats(operation)) publish(w->group->order, at / 4);
}

void order_atomic(Wave *w, const Instruction *i, const Region *region, uint64_t at, Operation operation, unsigned bytes,
                  bool changed, bool returns, int lane) {
  GroupOrder *g = w->group->order;
  RegionAccesses *a = accesses_of(g->ordering, region);
  if (!a) {
    let_go(g);
    return;
  }
  returns &= !is_of_floats(operation); /* sums, that tell nothing */
  Use use = {w, i, lane, at, bytes};
  if (changed) begin_write(g);
  for (uint64_t word = at / 4, last = (at + bytes - 1) / 4; word <= last; word++) {
    uint64_t n = word - a->first_word;
    Access mine = access_by(g, i, BY_ATOMIC) | (Access)15 << MASK_SHIFT;
    check_atomic(&use, a, word, mine);
    if (returns && word == at / 4) acquire(g, word, seen(&a->writes[n]));
    if (changed && !is_own_plain_write(g, seen(&a->writes[n]))) set(&a->writes[n], mine);
    else if (group_in(seen(&a->reads[n][0])) != g->group) note_read(g, a, n, mine);
  }
  let_go(g);
}

/* ---- Fences ------------------------------------------------------------------------------------------------------ */
void order_wait(Wave *w) {
  GroupOrder *g = w->group ? w->group->order : NULL;
  if (!g) return;
  g->past_caches = g->now;
  if (!needs_write_back(w->launch)) g->all = g->now;
  else if (g->written_back > g->all) g->all = g->written_back;
  g->waited = true;
}

void order_invalidate(Wave *w) {
  GroupOrder *g = w->group->order;
  if (!g || !g->pending.count) return;
  pthread_mutex_lock(&g->lock);
  join(&g->acquired, &g->pending);
  pthread_mutex_unlock(&g->lock);
  g->ordering->joined += g->acquired.count;
  g->pending.count = 0;
  g->last_address = 0;
}

/* Of agent scope or wider: sc1 where there are scopes. */
void execute_write_back(Wave *w, const Instruction *i) {
  GroupOrder *g = w->group->order;
  if (!g || !i->sc1) return;
  g->written_back = g->now; /* others will see it after the next wait */
  g->waited = true;
}
void execute_invalidate(Wave *w, const Instruction *i) {
  w->polls = true;
  if (i->sc1 || !needs_write_back(w->launch)) order_invalidate(w);
}
