/* The regions of memory that the process has allocated. */
#include "regions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watch.h"

/* Readers take the whole list with one load. Old lists are kept for a while, and regions are never freed but used
 * again, so that a reader which was overtaken by a change reads something stale and never something freed. */
typedef struct {
  uint32_t count;
  struct {
    uint64_t base;
    Region *region;
  } at[];
} Regions;

enum { OLD_LISTS = 256 };
static _Atomic(Regions *) regions;
static Regions *old_lists[OLD_LISTS];
static uint32_t next_old_list;
static Region *unused_regions; /* chained through `base` */
static pthread_mutex_t regions_lock = PTHREAD_MUTEX_INITIALIZER;

static void *allocate(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (!memory) abort();
  return memory;
}

/* The number of regions that begin at or below an address. */
static uint32_t position_of(const Regions *all, uint64_t address) {
  uint32_t low = 0, high = all ? all->count : 0;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (all->at[middle].base <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static void publish(Regions *list) {
  Regions *old = atomic_exchange_explicit(&regions, list, memory_order_acq_rel);
  free(old_lists[next_old_list]);
  old_lists[next_old_list] = old;
  next_old_list = (next_old_list + 1) % OLD_LISTS;
}

/* ---- One byte for each byte of memory ---------------------------------------------------------------------------- */

/* Of a large region these are reserved, not filled: fresh pages are 0, and where all are 1 the same pages of a file lie
 * behind one another, of which a write makes a copy. */
enum { LARGE = 1 << 26, REPEATED = 1 << 24 };
static int ones_file = -1;
static pthread_once_t ones_made = PTHREAD_ONCE_INIT;

static void make_ones(void) {
  int file = memfd_create("undefined", MFD_CLOEXEC);
  uint8_t *content = file < 0 || ftruncate(file, REPEATED) != 0
                         ? MAP_FAILED
                         : mmap(NULL, REPEATED, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (content == MAP_FAILED) abort();
  memset(content, 1, REPEATED);
  munmap(content, REPEATED);
  ones_file = file;
}

static uint8_t *allocate_shadow(uint64_t size) {
  if (size < LARGE) return allocate(size);
  uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) end_without_memory();
  madvise(memory, size, MADV_NOHUGEPAGE);
  return memory;
}

static void free_shadow(uint8_t *shadow, uint64_t size) {
  if (size < LARGE) free(shadow);
  else munmap(shadow, size);
}

static void fill_shadow(uint8_t *at, uint64_t size, bool undefined) {
  enum { PAGE = 4096, NEW = PROT_READ | PROT_WRITE, HOW = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE };
  uint8_t *from = (uint8_t *)(((uintptr_t)at + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
  uint8_t *to = (uint8_t *)((uintptr_t)(at + size) & ~(uintptr_t)(PAGE - 1));
  if (size < LARGE) {
    memset(at, undefined, size);
    return;
  }
  memset(at, undefined, (size_t)(from - at));
  memset(to, undefined, (size_t)(at + size - to));
  if (undefined) pthread_once(&ones_made, make_ones);
  for (uint64_t step; from < to; from += step) {
    step = (uint64_t)(to - from);
    if (undefined && step > REPEATED) step = REPEATED;
    void *made = undefined ? mmap(from, step, NEW, HOW, ones_file, 0) : mmap(from, step, NEW, HOW | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) end_without_memory();
  }
}

static void discard(Region *region) {
  free_accesses(region->accesses);
  free_writers(region->writers);
  if (region->undefined) free_shadow(region->undefined, region->size);
  *region = (Region){.base = (uint64_t)(uintptr_t)unused_regions};
  unused_regions = region;
}

static bool remove_locked(uint64_t base) {
  Regions *all = atomic_load(&regions);
  uint32_t n = position_of(all, base);
  if (n == 0 || all->at[n - 1].base != base) return false;
  Regions *list = allocate(sizeof *list + (all->count - 1) * sizeof list->at[0]);
  list->count = all->count - 1;
  memcpy(list->at, all->at, (n - 1) * sizeof list->at[0]);
  memcpy(list->at + n - 1, all->at + n, (all->count - n) * sizeof list->at[0]);
  Region *gone = all->at[n - 1].region;
  publish(list);
  discard(gone);
  return true;
}

void add_region(uint64_t base, uint64_t size, RegionKind kind) {
  if (size == 0) return;
  pthread_mutex_lock(&regions_lock);
  remove_locked(base);
  Region *region = unused_regions;
  if (region) unused_regions = (Region *)(uintptr_t)region->base;
  else region = allocate(sizeof *region);
  *region = (Region){.base = base, .size = size, .kind = kind};
  Regions *all = atomic_load(&regions);
  uint32_t count = all ? all->count : 0, n = position_of(all, base);
  Regions *list = allocate(sizeof *list + (count + 1) * sizeof list->at[0]);
  list->count = count + 1;
  if (n) memcpy(list->at, all->at, n * sizeof list->at[0]);
  list->at[n].base = base;
  list->at[n].region = region;
  if (count > n) memcpy(list->at + n + 1, all->at + n, (count - n) * sizeof list->at[0]);
  publish(list);
  pthread_mutex_unlock(&regions_lock);
}

bool remove_region(uint64_t base) {
  pthread_mutex_lock(&regions_lock);
  bool found = remove_locked(base);
  pthread_mutex_unlock(&regions_lock);
  return found;
}

const Region *region_of(uint64_t address) {
  const Regions *all = atomic_load_explicit(&regions, memory_order_acquire);
  uint32_t n = position_of(all, address);
  if (n == 0) return NULL;
  const Region *region = all->at[n - 1].region;
  return address - region->base < region->size ? region : NULL;
}

const Region *nearest_region(uint64_t address) {
  const Regions *all = atomic_load_explicit(&regions, memory_order_acquire);
  uint32_t n = position_of(all, address);
  const Region *below = n ? all->at[n - 1].region : NULL, *above = all && n < all->count ? all->at[n].region : NULL;
  if (!below || !above) return below ? below : above;
  uint64_t end = below->base + below->size;
  return address < end || address - end < above->base - address ? below : above;
}

void mark_undefined(uint64_t address, uint64_t size, bool undefined) {
  pthread_mutex_lock(&regions_lock);
  while (size) {
    Region *region = (Region *)region_of(address);
    if (!region) {
      const Regions *all = atomic_load(&regions);
      uint32_t n = position_of(all, address);
      if (!all || n == all->count || all->at[n].base - address >= size) break;
      size -= all->at[n].base - address;
      address = all->at[n].base;
      continue;
    }
    uint64_t start = address - region->base, here = region->size - start < size ? region->size - start : size;
    if (undefined && !region->undefined) region->undefined = allocate_shadow(region->size);
    if (region->undefined) fill_shadow(region->undefined + start, here, undefined);
    uint64_t end = start + here, from = region->undefined_from, to = region->undefined_to;
    if (undefined && from >= to) from = start, to = end;
    else if (undefined) from = start < from ? start : from, to = end > to ? end : to;
    else if (start <= from && from < end) from = end;
    else if (start < to && to <= end) to = start;
    region->undefined_from = from;
    region->undefined_to = to;
    address += here;
    size -= here;
  }
  pthread_mutex_unlock(&regions_lock);
}

uint64_t count_undefined(uint64_t address, uint64_t size, uint64_t *first) {
  uint64_t count = 0;
  pthread_mutex_lock(&regions_lock);
  const Region *region = region_of(address);
  if (region && region->undefined) {
    uint64_t start = address - region->base, end = region->size - start < size ? region->size : start + size;
    for (uint64_t n = start; n < end; n++)
      if (region->undefined[n] && count++ == 0 && first) *first = region->base + n;
  }
  pthread_mutex_unlock(&regions_lock);
  return count;
}

void forget_accesses(void) {
  pthread_mutex_lock(&regions_lock);
  const Regions *all = atomic_load(&regions);
  for (uint32_t n = 0; all && n < all->count; n++) drop_accesses(all->at[n].region->accesses);
  pthread_mutex_unlock(&regions_lock);
}

uint64_t bytes_of_checks(const Region *region) {
  return (region->undefined ? resident_bytes(region->undefined, region->size) : 0) + resident_accesses(region->accesses);
}
