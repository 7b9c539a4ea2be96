/* Contexts, peers, limits and profilers: interfaces of one device that is always there. */
#include <stdlib.h>
#include <string.h>
#include <dlfcn.h>

#include "graphs.h"

typedef struct Context {
  unsigned flags;
  int number;
  struct Context *next;
} Context;

enum { MOST_CURRENT = 64 };
static Context primary;
static unsigned primary_uses;
static Context *contexts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread Context *current[MOST_CURRENT];
static __thread int current_count;

static bool is_context(const Context *context) {
  pthread_mutex_lock(&lock);
  const Context *one = contexts;
  while (one && one != context) one = one->next;
  pthread_mutex_unlock(&lock);
  return one || context == &primary;
}
static int push(Context *context) {
  if (!is_context(context)) return INVALID_CONTEXT;
  if (current_count == MOST_CURRENT) return OUT_OF_RESOURCES;
  current[current_count++] = context;
  return SUCCESS;
}
static int make_context(Context **made, unsigned flags, int number) {
  if (!made) return INVALID_VALUE;
  if (!is_device(number)) return INVALID_DEVICE;
  Context *context = malloc(sizeof *context);
  if (!context) return OUT_OF_MEMORY;
  pthread_mutex_lock(&lock);
  *context = (Context){flags, number, contexts};
  contexts = context;
  pthread_mutex_unlock(&lock);
  *made = context;
  return push(context);
}
static int destroy_context(Context *context) {
  if (!context) return INVALID_VALUE;
  if (!is_context(context) || context == &primary) return INVALID_CONTEXT;
  drain_all();
  pthread_mutex_lock(&lock);
  Context **link = &contexts;
  while (*link != context) link = &(*link)->next;
  *link = context->next;
  pthread_mutex_unlock(&lock);
  if (current_count && current[current_count - 1] == context) current_count--;
  free(context);
  return SUCCESS;
}
static int pop(Context **popped) {
  if (!current_count) return INVALID_CONTEXT;
  Context *context = current[--current_count];
  if (popped) *popped = context;
  return SUCCESS;
}
static int set_current(Context *context) {
  if (current_count) current_count--;
  return context ? push(context) : SUCCESS;
}
CALL(hipCtxCreate, (Context **made, unsigned flags, int number), make_context(made, flags, number))
CALL(hipCtxDestroy, (Context *context), destroy_context(context))
CALL(hipCtxPushCurrent, (Context *context), push(context))
CALL(hipCtxPopCurrent, (Context **popped), pop(popped))
CALL(hipCtxSetCurrent, (Context *context), set_current(context))
ACT(hipCtxGetCurrent, (Context **context), context, INVALID_VALUE,
    *context = current_count ? current[current_count - 1] : &primary)
ACT(hipCtxGetDevice, (int *number), number, INVALID_VALUE,
    *number = current_count ? current[current_count - 1]->number : current_device)
ACT(hipCtxGetFlags, (unsigned *flags), flags, INVALID_VALUE,
    *flags = current_count ? current[current_count - 1]->flags : 0)
CALL(hipCtxGetApiVersion, (const Context *context, unsigned *version),
     !version ? INVALID_VALUE : (*version = 4, SUCCESS))
EXPORT int hipCtxSynchronize(void) {
  ENTER(hipCtxSynchronize);
  drain_all();
  return end(broken);
}
CALL(hipDevicePrimaryCtxRetain, (Context **context, int number),
     !is_device(number) ? INVALID_DEVICE : !context ? INVALID_VALUE : (primary_uses++, *context = &primary, SUCCESS))
CALL(hipDevicePrimaryCtxRelease, (int number),
     !is_device(number) ? INVALID_DEVICE : (primary_uses -= primary_uses > 0, SUCCESS))
CALL(hipDevicePrimaryCtxReset, (int number), is_device(number) ? SUCCESS : INVALID_DEVICE)
CALL(hipDevicePrimaryCtxSetFlags, (int number, unsigned flags), is_device(number) ? SUCCESS : INVALID_DEVICE)
CALL(hipDevicePrimaryCtxGetState, (int number, unsigned *flags, int *is_active),
     !is_device(number)    ? INVALID_DEVICE
     : flags && is_active ? (*flags = 0, *is_active = primary_uses > 0, SUCCESS)
                          : INVALID_VALUE)

/* ---- Preferences that change no result --------------------------------------------------------------------------- */

static int tell_default(int *value) {
  if (!value) return INVALID_VALUE;
  *value = 0;
  return SUCCESS;
}
static int prefer(int value, int most) { return value < 0 || value > most ? INVALID_VALUE : SUCCESS; }
enum { CACHES = 3, BANKS = 2 }; /* the last of hipFuncCache_t and hipSharedMemConfig */
CALL(hipCtxGetCacheConfig, (int *config), tell_default(config))
CALL(hipCtxSetCacheConfig, (int config), prefer(config, CACHES))
CALL(hipCtxGetSharedMemConfig, (int *config), tell_default(config))
CALL(hipCtxSetSharedMemConfig, (int config), prefer(config, BANKS))
CALL(hipDeviceGetCacheConfig, (int *config), tell_default(config))
CALL(hipDeviceSetCacheConfig, (int config), prefer(config, CACHES))
CALL(hipDeviceGetSharedMemConfig, (int *config), tell_default(config))
CALL(hipDeviceSetSharedMemConfig, (int config), prefer(config, BANKS))
CALL(hipFuncSetSharedMemConfig, (const void *host, int config), prefer(config, BANKS))
CALL(hipProfilerStart, (void), NOT_SUPPORTED)
CALL(hipProfilerStop, (void), NOT_SUPPORTED)
CALL(hipSetValidDevices, (const int *numbers, int count), count < 0 || (count && !numbers) ? INVALID_VALUE : SUCCESS)

/* hipLimit_t: the stack of a work-item, what printf has to write to, the heap of malloc, and scratch memory. */
static size_t limits[] = {1024, 1 << 20, 4 << 20};
enum { LIMITS = sizeof limits / sizeof *limits, SCRATCH_LEAST = 0x1000, SCRATCH_CURRENT = 0x1002 };
static int read_limit(size_t *value, int limit) {
  if (!value) return INVALID_VALUE;
  if (limit >= SCRATCH_LEAST && limit <= SCRATCH_CURRENT) *value = 0;
  else if (limit >= 0 && limit < LIMITS) *value = limits[limit];
  else return UNSUPPORTED_LIMIT;
  return SUCCESS;
}
static int set_limit(int limit, size_t value) {
  if (limit == SCRATCH_CURRENT) return SUCCESS;
  if (limit < 0 || limit >= LIMITS) return UNSUPPORTED_LIMIT;
  limits[limit] = value;
  return SUCCESS;
}
CALL(hipDeviceGetLimit, (size_t *value, int limit), read_limit(value, limit))
CALL(hipDeviceSetLimit, (int limit, size_t value), set_limit(limit, value))

/* ---- Peers ------------------------------------------------------------------------------------------------------- */

/* All devices that there are share their memory; a single one has no peer. */
enum { MOST_DEVICES = 64 };
static bool is_enabled[MOST_DEVICES][MOST_DEVICES];

static int change_peer(int peer, bool enabled, unsigned flags) {
  if (!is_device(peer) || peer >= MOST_DEVICES || peer == current_device || flags) return flags ? INVALID_VALUE : INVALID_DEVICE;
  if (is_enabled[current_device][peer] == enabled) return enabled ? PEER_ALREADY_ENABLED : PEER_NOT_ENABLED;
  is_enabled[current_device][peer] = enabled;
  return SUCCESS;
}
CALL(hipDeviceEnablePeerAccess, (int peer, unsigned flags), change_peer(peer, true, flags))
CALL(hipDeviceDisablePeerAccess, (int peer), change_peer(peer, false, 0))
CALL(hipCtxEnablePeerAccess, (const Context *peer, unsigned flags), is_context(peer) ? SUCCESS : INVALID_CONTEXT)
CALL(hipCtxDisablePeerAccess, (const Context *peer), is_context(peer) ? SUCCESS : INVALID_CONTEXT)
static int read_peers(int *value, int attribute, int from, int to) {
  enum { RANK, ACCESS, ATOMICS, ARRAYS };
  if (!value || attribute < RANK || attribute > ARRAYS) return INVALID_VALUE;
  if (!is_device(from) || !is_device(to) || from == to) return INVALID_DEVICE;
  *value = attribute == ACCESS || attribute == ATOMICS;
  return SUCCESS;
}
CALL(hipDeviceGetP2PAttribute, (int *value, int attribute, int from, int to), read_peers(value, attribute, from, to))
CALL(hipExtGetLinkTypeAndHopCount, (int from, int to, uint32_t *type, uint32_t *hops),
     !type || !hops                                        ? INVALID_VALUE
     : !is_device(from) || !is_device(to) || from == to ? INVALID_DEVICE
                                                        : (*type = 4, *hops = 1, SUCCESS)) /* XGMI */

/* ---- Functions by name ------------------------------------------------------------------------------------------- */

static int find_function(const char *name, void **function, int *status) {
  if (!name || !*name || !function) return INVALID_VALUE;
  Dl_info own;
  void *library = dladdr(&primary, &own) ? dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  *function = library && strncmp(name, "hip", 3) == 0 ? dlsym(library, name) : NULL;
  if (library) dlclose(library);
  if (status) *status = !*function; /* found, or not */
  return *function ? SUCCESS : INVALID_VALUE;
}
CALL(hipGetProcAddress, (const char *name, void **function, int version, uint64_t flags, int *status),
     find_function(name, function, status))
CALL(hipGetDriverEntryPoint, (const char *name, void **function, unsigned long long flags, int *status),
     find_function(name, function, status))
CALL(hipGetDriverEntryPoint_spt, (const char *name, void **function, unsigned long long flags, int *status),
     find_function(name, function, status))
