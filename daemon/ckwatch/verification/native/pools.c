/* Memory that is taken and given back in the order of a stream, pools of it, and where managed memory shall be. */
#include <stdlib.h>

#include "graphs.h"

typedef struct Pool {
  uint64_t threshold, used, high; /* bytes */
  int reuse[3];                   /* hipMemPoolReuse…: as they are set */
  uint64_t most;
  int access;
  struct Pool *next;
} Pool;

typedef struct Taken { /* memory that counts for a pool */
  void *address;
  size_t size;
  Pool *pool;
  struct Taken *next;
} Taken;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Pool default_pool = {.reuse = {1, 1, 1}, .access = 3};
static Pool *pools, *current_pool = &default_pool;
static Taken *all_taken;

static bool is_pool(const Pool *pool) {
  pthread_mutex_lock(&lock);
  const Pool *one = pools;
  while (one && one != pool) one = one->next;
  pthread_mutex_unlock(&lock);
  return one || pool == &default_pool;
}

static int take(void **address, size_t size, Pool *pool, void *handle) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (!address || !is_pool(pool)) return INVALID_VALUE;
  if (pool->most && (size > pool->most || pool->used > pool->most - size)) return OUT_OF_MEMORY;
  int error = allocate(address, size, DEVICE_MEMORY, 0, false);
  if (error || !size) return error;
  if (is_capturing(stream))
    return submit(handle, &(Operation){.type = ALLOCATION_NODE, .allocation = {.size = size, .address = *address}});
  Taken *taken = malloc(sizeof *taken);
  if (!taken) abort();
  pthread_mutex_lock(&lock);
  *taken = (Taken){*address, size, pool, all_taken};
  all_taken = taken;
  pool->used += size;
  if (pool->used > pool->high) pool->high = pool->used;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
static void give_back(void *address) {
  pthread_mutex_lock(&lock);
  Taken **link = &all_taken;
  while (*link && (*link)->address != address) link = &(*link)->next;
  Taken *taken = *link;
  if (taken) {
    taken->pool->used -= taken->size;
    *link = taken->next;
    free(taken);
  }
  pthread_mutex_unlock(&lock);
}
static void release_later(void *address) {
  give_back(address);
  release(address, true);
}
static int give(void *address, void *handle) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (address && allocation_of(address, 1).address != address) return INVALID_VALUE;
  if (is_capturing(stream)) return submit(handle, &(Operation){.type = FREE_NODE, .freed = address});
  if (address) put_call(stream, release_later, address);
  return SUCCESS;
}
CALL(hipMallocAsync, (void **address, size_t size, void *stream), take(address, size, current_pool, stream))
CALL(hipMallocFromPoolAsync, (void **address, size_t size, Pool *pool, void *stream), take(address, size, pool, stream))
CALL(hipFreeAsync, (void *address, void *stream), give(address, stream))

/* ---- Pools ------------------------------------------------------------------------------------------------------- */

static int make_pool(Pool **made, const PoolProperties *properties) {
  enum { PINNED = 1, ON_DEVICE = 1 };
  if (!made || !properties || properties->type != PINNED) return INVALID_VALUE;
  if (properties->location.type != ON_DEVICE || !is_device(properties->location.number)) return INVALID_VALUE;
  if (properties->handle_types) REFUSE("memory pools with handles for other processes are not emulated");
  Pool *pool = malloc(sizeof *pool);
  if (!pool) return OUT_OF_MEMORY;
  *pool = (Pool){.reuse = {1, 1, 1}, .most = properties->most, .access = 3};
  pthread_mutex_lock(&lock);
  pool->next = pools;
  *made = pools = pool;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
static int destroy_pool(Pool *pool) {
  if (!is_pool(pool) || pool == &default_pool) return INVALID_VALUE;
  drain_all();
  pthread_mutex_lock(&lock);
  Pool **link = &pools;
  while (*link != pool) link = &(*link)->next;
  *link = pool->next;
  for (Taken *taken = all_taken; taken; taken = taken->next)
    if (taken->pool == pool) taken->pool = &default_pool;
  if (current_pool == pool) current_pool = &default_pool;
  pthread_mutex_unlock(&lock);
  free(pool);
  return SUCCESS;
}
CALL(hipMemPoolCreate, (Pool **pool, const PoolProperties *properties), make_pool(pool, properties))
CALL(hipMemPoolDestroy, (Pool *pool), destroy_pool(pool))
CALL(hipMemPoolTrimTo, (Pool *pool, size_t kept), is_pool(pool) ? SUCCESS : INVALID_VALUE)

static int give_pool(Pool **found, int number, Pool *pool) {
  if (!found) return INVALID_VALUE;
  if (!is_device(number)) return INVALID_DEVICE;
  *found = pool;
  return SUCCESS;
}
CALL(hipDeviceGetDefaultMemPool, (Pool **pool, int number), give_pool(pool, number, &default_pool))
CALL(hipDeviceGetMemPool, (Pool **pool, int number), give_pool(pool, number, current_pool))
CALL(hipDeviceSetMemPool, (int number, Pool *pool),
     !is_device(number) ? INVALID_DEVICE : !is_pool(pool) ? INVALID_VALUE : (current_pool = pool, SUCCESS))

enum { FIRST_REUSE = 1, LAST_REUSE = 3, THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH }; /* hipMemPoolAttr */

/* Nothing is kept, so that what is reserved is what is used. */
static int read_pool(const Pool *pool, int attribute, void *value) {
  if (!is_pool(pool) || !value) return INVALID_VALUE;
  if (attribute >= FIRST_REUSE && attribute <= LAST_REUSE) *(int *)value = pool->reuse[attribute - FIRST_REUSE];
  else if (attribute == THRESHOLD) *(uint64_t *)value = pool->threshold;
  else if (attribute == RESERVED || attribute == USED) *(uint64_t *)value = pool->used;
  else if (attribute == RESERVED_HIGH || attribute == USED_HIGH) *(uint64_t *)value = pool->high;
  else return INVALID_VALUE;
  return SUCCESS;
}
static int change_pool(Pool *pool, int attribute, const void *value) {
  if (!is_pool(pool) || !value) return INVALID_VALUE;
  if (attribute >= FIRST_REUSE && attribute <= LAST_REUSE) pool->reuse[attribute - FIRST_REUSE] = *(const int *)value;
  else if (attribute == THRESHOLD) pool->threshold = *(const uint64_t *)value;
  else if ((attribute == RESERVED_HIGH || attribute == USED_HIGH) && !*(const uint64_t *)value) pool->high = pool->used;
  else return INVALID_VALUE;
  return SUCCESS;
}
CALL(hipMemPoolGetAttribute, (const Pool *pool, int attribute, void *value), read_pool(pool, attribute, value))
CALL(hipMemPoolSetAttribute, (Pool *pool, int attribute, const void *value), change_pool(pool, attribute, value))
ACT(hipMemPoolGetAccess, (int *flags, const Pool *pool, const Location *location),
    flags && is_pool(pool) && location && is_device(location->number), INVALID_VALUE, *flags = pool->access)
CALL(hipMemPoolSetAccess, (Pool *pool, const AccessDescriptor *access, size_t count),
     is_pool(pool) && (access || !count) && (!count || is_device(access->location.number)) ? SUCCESS : INVALID_VALUE)

/* ---- Managed memory ---------------------------------------------------------------------------------------------- */

/* Where memory shall be changes no result: what programs say is kept, and read back. */
enum { CPU = -1, NOWHERE = -2 };
typedef struct Advice {
  const void *address;
  bool is_read_mostly, is_coarse;
  int preferred, accessed_by, prefetched;
  struct Advice *next;
} Advice;
static Advice *advices;

static Advice *advice_for(const void *address, size_t size) { /* under the lock; NULL where the memory is not managed */
  Allocation found = allocation_of(address, size);
  if (!found.address || !found.is_managed) return NULL;
  Advice *advice = advices;
  while (advice && advice->address != found.address) advice = advice->next;
  if (advice) return advice;
  advice = malloc(sizeof *advice);
  if (!advice) abort();
  *advice = (Advice){found.address, false, false, NOWHERE, NOWHERE, NOWHERE, advices};
  return advices = advice;
}
static int advise(const void *address, size_t size, int what, int number) {
  enum { SET_READ = 1, UNSET_READ, SET_PREFERRED, UNSET_PREFERRED, SET_ACCESSED, UNSET_ACCESSED, SET_COARSE = 100, UNSET_COARSE };
  if (!address || !size) return INVALID_VALUE;
  if (number != CPU && !is_device(number)) return INVALID_DEVICE;
  pthread_mutex_lock(&lock);
  Advice *advice = advice_for(address, size);
  int error = advice ? SUCCESS : INVALID_VALUE;
  if (advice) switch (what) {
    case SET_READ: case UNSET_READ: advice->is_read_mostly = what == SET_READ; break;
    case SET_PREFERRED: advice->preferred = number; break;
    case UNSET_PREFERRED: advice->preferred = NOWHERE; break;
    case SET_ACCESSED: advice->accessed_by = number; break;
    case UNSET_ACCESSED: advice->accessed_by = NOWHERE; break;
    case SET_COARSE: case UNSET_COARSE: advice->is_coarse = what == SET_COARSE; break;
    default: error = INVALID_VALUE;
  }
  pthread_mutex_unlock(&lock);
  return error;
}
static int prefetch(const void *address, size_t size, int number, void *stream) {
  if (!address || !size) return INVALID_VALUE;
  if (number != CPU && !is_device(number)) return INVALID_DEVICE;
  if (!stream_of(stream)) return INVALID_HANDLE;
  pthread_mutex_lock(&lock);
  Advice *advice = advice_for(address, size);
  if (advice) advice->prefetched = number;
  pthread_mutex_unlock(&lock);
  return advice ? SUCCESS : INVALID_VALUE;
}
static int read_range(int *values, size_t size, int attribute, const void *address, size_t count) {
  enum { READ_MOSTLY = 1, PREFERRED, ACCESSED_BY, PREFETCHED, COHERENCY = 100 };
  if (!values || !address || !count || size < 4 || size % 4) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  const Advice *advice = advice_for(address, count);
  int error = advice && (attribute == ACCESSED_BY || size == 4) ? SUCCESS : INVALID_VALUE;
  if (!error) switch (attribute) {
    case READ_MOSTLY: *values = advice->is_read_mostly; break;
    case PREFERRED: *values = advice->preferred; break;
    case ACCESSED_BY:
      for (size_t n = 0; n < size / 4; n++) values[n] = n ? NOWHERE : advice->accessed_by;
      break;
    case PREFETCHED: *values = advice->prefetched; break;
    case COHERENCY: *values = advice->is_coarse; break;
    default: error = INVALID_VALUE;
  }
  pthread_mutex_unlock(&lock);
  return error;
}
static int place_of(Location location) { return location.type == 1 ? location.number : CPU; } /* hipMemLocationTypeDevice */

CALL(hipMemAdvise, (const void *address, size_t size, int what, int number), advise(address, size, what, number))
CALL(hipMemAdvise_v2, (const void *address, size_t size, int what, Location place),
     advise(address, size, what, place_of(place)))
CALL(hipMemPrefetchAsync, (const void *address, size_t size, int number, void *stream),
     prefetch(address, size, number, stream))
CALL(hipMemPrefetchAsync_v2, (const void *address, size_t size, Location place, unsigned flags, void *stream),
     prefetch(address, size, place_of(place), stream))
CALL(hipMemRangeGetAttribute, (void *value, size_t size, int attribute, const void *address, size_t count),
     read_range(value, size, attribute, address, count))
EXPORT int hipMemRangeGetAttributes(void **values, size_t *sizes, int *attributes, size_t number, const void *address,
                                    size_t count) {
  ENTER(hipMemRangeGetAttributes);
  int error = values && sizes && attributes && number ? SUCCESS : INVALID_VALUE;
  for (size_t n = 0; n < number && !error; n++) error = read_range(values[n], sizes[n], attributes[n], address, count);
  return end(error);
}
