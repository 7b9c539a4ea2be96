/* A stand-in for AMD's HIP runtime, for tests on machines without a GPU. It is no GPU and no emulator: memory is the
 * host's, kernels are host functions, events read a clock. What it does keep is the order of things: a stream is a
 * thread that takes one command after the other, so that launches return at once, a gate holds back what comes after
 * it, and freeing memory waits for everything. No time measured on it means anything.
 *
 * Enumerators, structure offsets and the meaning of each call are those of HIP 7's hip_runtime_api.h.
 *
 * Environment:
 *   HIP_STAND_IN_FAIL     calls that fail, `FUNCTION#N=ACTION` separated by `;`. N counts the calls of this function
 *                         from 1, `*` means each; ACTION is a hipError_t, or `abort` (as ROCm's runtime ends a process
 *                         whose kernel has read nowhere), `gpu-hang`, `segv`, `hang`.
 *   HIP_STAND_IN_WITHOUT  what it shall not have: `wait-value`, `signal-memory`, `host-memory`, `fence-flag`, and
 *                         `opening`: a stream that waits for a value never goes on
 *   HIP_STAND_IN_DEVICES, HIP_STAND_IN_ARCH, HIP_STAND_IN_MEMORY (bytes), HIP_STAND_IN_VERSION
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_HANDLE = 400,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int broken; /* an error that stays, as a fault of a kernel does */
static __thread int last_error;

/* ---- Environment ---------------------------------------------------------------------------------------------- */

static long long number(const char *name, long long otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoll(text) : otherwise;
}

static int without(const char *what) {
  const char *list = getenv("HIP_STAND_IN_WITHOUT");
  size_t length = strlen(what);
  for (; list && *list; list += *list ? 1 : 0) {
    size_t word = strcspn(list, ",");
    if (word == length && strncmp(list, what, length) == 0) return 1;
    list += word;
    if (!*list) break;
  }
  return 0;
}

static int devices(void) { return (int)number("HIP_STAND_IN_DEVICES", 1); }

/* ---- Injected failures ---------------------------------------------------------------------------------------- */

static struct {
  char name[64];
  int calls;
} counted[64];

static int count_call(const char *name) {
  for (int i = 0; i < 64; i++) {
    if (!counted[i].name[0]) strncpy(counted[i].name, name, 63);
    if (strcmp(counted[i].name, name) == 0) return ++counted[i].calls;
  }
  return 0;
}

static int act(const char *action) {
  if (strncmp(action, "abort", 5) == 0) {
    fprintf(stderr, "Memory access fault by GPU node-1 (Agent handle: 0x55d0c0) on address 0x7f0000001000. "
                    "Reason: Page not present or supervisor privilege.\n");
    abort();
  }
  if (strncmp(action, "gpu-hang", 8) == 0) {
    fprintf(stderr, "HW Exception by GPU node-1 (Agent handle: 0x55d0c0) reason :GPU Hang\n");
    abort();
  }
  if (strncmp(action, "segv", 4) == 0) raise(SIGSEGV);
  if (strncmp(action, "hang", 4) == 0)
    for (;;) pause();
  int error = atoi(action);
  if (error >= ILLEGAL_ADDRESS && error < 800) broken = error;
  return error;
}

static int enter(const char *name) {
  pthread_mutex_lock(&lock);
  int call = count_call(name);
  pthread_mutex_unlock(&lock);
  if (broken) return broken;
  size_t length = strlen(name);
  for (const char *rule = getenv("HIP_STAND_IN_FAIL"); rule && *rule;) {
    if (strncmp(rule, name, length) == 0 && rule[length] == '#') {
      const char *which = rule + length + 1;
      const char *action = strchr(which, '=');
      if (action && (*which == '*' || atoi(which) == call)) return act(action + 1);
    }
    rule = strchr(rule, ';');
    if (rule) rule++;
  }
  return SUCCESS;
}

static int end(int error) {
  if (error) last_error = error;
  return error;
}

#define ENTER(name)                                \
  do {                                             \
    int failure = enter(#name);                    \
    if (failure) return end(failure);              \
  } while (0)

/* Forgets injected failures and counts calls from 1 again: the tests' own call, HIP has no such thing. */
EXPORT void hip_stand_in_reset(void) {
  pthread_mutex_lock(&lock);
  memset(counted, 0, sizeof counted);
  broken = 0;
  last_error = 0;
  pthread_mutex_unlock(&lock);
}

/* ---- Errors, versions, devices -------------------------------------------------------------------------------- */

EXPORT int hipInit(unsigned flags) {
  ENTER(hipInit);
  return end(flags ? INVALID_VALUE : SUCCESS);
}

EXPORT int hipGetLastError(void) {
  int failure = enter("hipGetLastError");
  int error = failure ? failure : last_error;
  last_error = SUCCESS;
  return error;
}

EXPORT const char *hipGetErrorName(int error) { return error ? "an error of the stand-in" : "hipSuccess"; }
EXPORT const char *hipGetErrorString(int error) { return error ? "said by the stand-in for HIP" : "no error"; }

EXPORT int hipRuntimeGetVersion(int *version) {
  ENTER(hipRuntimeGetVersion);
  *version = (int)number("HIP_STAND_IN_VERSION", 70253211);
  return SUCCESS;
}

EXPORT int hipDriverGetVersion(int *version) {
  ENTER(hipDriverGetVersion);
  *version = (int)number("HIP_STAND_IN_VERSION", 70253211);
  return SUCCESS;
}

EXPORT int hipGetDeviceCount(int *count) {
  ENTER(hipGetDeviceCount);
  *count = devices();
  return end(*count ? SUCCESS : NO_DEVICE);
}

EXPORT int hipSetDevice(int device) {
  ENTER(hipSetDevice);
  return end(device < 0 || device >= devices() ? INVALID_DEVICE : SUCCESS);
}

static uint64_t memory_total(void) { return (uint64_t)number("HIP_STAND_IN_MEMORY", 1LL << 30); }

#ifndef WITHOUT_R0600
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device) {
  ENTER(hipGetDevicePropertiesR0600);
  if (device < 0 || device >= devices()) return end(INVALID_DEVICE);
  char *at = properties; /* a hipDeviceProp_tR0600, 1472 bytes */
  memset(at, 0, 1472);
  strcpy(at + 0, "stand-in for HIP in tests (host memory, no GPU)");
  *(size_t *)(at + 288) = memory_total();
  *(size_t *)(at + 296) = 65536;         /* sharedMemPerBlock */
  *(int *)(at + 308) = 64;               /* warpSize */
  *(int *)(at + 348) = 1700000;          /* clockRate, kHz */
  *(int *)(at + 388) = device ? 104 : 110; /* multiProcessorCount */
  *(int *)(at + 584) = 0xc1 + 8 * device;  /* pciBusID */
  *(int *)(at + 608) = 1600000;          /* memoryClockRate, kHz */
  *(int *)(at + 616) = 8 << 20;          /* l2CacheSize */
  const char *arch = getenv("HIP_STAND_IN_ARCH");
  snprintf(at + 1160, 256, "%s:sramecc+:xnack-", arch ? arch : "gfx90a");
  return SUCCESS;
}
#endif

EXPORT int hipDeviceGetPCIBusId(char *text, int length, int device) {
  ENTER(hipDeviceGetPCIBusId);
  if (device < 0 || device >= devices()) return end(INVALID_DEVICE);
  snprintf(text, (size_t)length, "0000:%02X:00.0", 0xc1 + 8 * device);
  return SUCCESS;
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER(hipDeviceGetAttribute);
  (void)device;
  if (attribute != 10013) return end(INVALID_VALUE); /* hipDeviceAttributeCanUseStreamWaitValue */
  *value = !without("wait-value");
  return SUCCESS;
}

/* ---- Streams -------------------------------------------------------------------------------------------------- */

struct event {
  int records; /* that are still to come */
  int reached;
  struct timespec at;
};

struct command {
  enum { FILL, RECORD, WAIT, CALL } kind;
  void *target;
  size_t size;
  uint32_t value, mask;
  unsigned comparison;
  void (*function)(void *);
  struct command *next;
};

struct stream {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct command *first, *last;
  int pending, closing;
  struct stream *next;
};

static struct stream *streams;

static void run(struct command *command) {
  switch (command->kind) {
    case FILL:
      memset(command->target, (int)command->value, command->size);
      break;
    case RECORD: {
      struct event *event = command->target;
      pthread_mutex_lock(&lock);
      clock_gettime(CLOCK_MONOTONIC, &event->at);
      event->records--;
      event->reached = 1;
      pthread_mutex_unlock(&lock);
      break;
    }
    case WAIT: {
      const struct timespec moment = {0, 20000};
      volatile uint32_t *value = command->target;
      while (without("opening") || !((*value & command->mask) >= command->value)) nanosleep(&moment, NULL);
      break;
    }
    case CALL:
      command->function(command->target);
      break;
  }
}

static void *stream_thread(void *argument) {
  struct stream *stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!stream->first && !stream->closing) pthread_cond_wait(&stream->changed, &stream->lock);
    struct command *command = stream->first;
    if (!command) break;
    stream->first = command->next;
    if (!stream->first) stream->last = NULL;
    pthread_mutex_unlock(&stream->lock);
    run(command);
    free(command);
    pthread_mutex_lock(&stream->lock);
    stream->pending--;
    pthread_cond_broadcast(&stream->changed);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

static int put(struct stream *stream, struct command wanted) {
  if (!stream) return INVALID_HANDLE;
  struct command *command = malloc(sizeof *command);
  *command = wanted;
  command->next = NULL;
  pthread_mutex_lock(&stream->lock);
  if (stream->last) stream->last->next = command;
  else stream->first = command;
  stream->last = command;
  stream->pending++;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  return SUCCESS;
}

static void drain(struct stream *stream) {
  pthread_mutex_lock(&stream->lock);
  while (stream->pending) pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
}

static void drain_all(void) {
  for (struct stream *stream = streams; stream; stream = stream->next) drain(stream);
}

EXPORT int hipStreamCreateWithFlags(struct stream **made, unsigned flags) {
  ENTER(hipStreamCreateWithFlags);
  (void)flags;
  struct stream *stream = calloc(1, sizeof *stream);
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  pthread_create(&stream->thread, NULL, stream_thread, stream);
  pthread_mutex_lock(&lock);
  stream->next = streams;
  streams = stream;
  pthread_mutex_unlock(&lock);
  *made = stream;
  return SUCCESS;
}

EXPORT int hipStreamDestroy(struct stream *stream) {
  ENTER(hipStreamDestroy);
  if (!stream) return end(INVALID_HANDLE);
  pthread_mutex_lock(&stream->lock);
  stream->closing = 1;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  pthread_join(stream->thread, NULL);
  pthread_mutex_lock(&lock);
  struct stream **link = &streams;
  while (*link && *link != stream) link = &(*link)->next;
  if (*link) *link = stream->next;
  pthread_mutex_unlock(&lock);
  free(stream);
  return SUCCESS;
}

EXPORT int hipStreamQuery(struct stream *stream) {
  ENTER(hipStreamQuery);
  if (!stream) return end(INVALID_HANDLE);
  pthread_mutex_lock(&stream->lock);
  int pending = stream->pending;
  pthread_mutex_unlock(&stream->lock);
  return pending ? NOT_READY : SUCCESS;
}

/* Both as in HIP 7: the condition is 0 for >=, which is the only one that is known here. */
EXPORT int hipStreamWaitValue32(struct stream *stream, void *address, uint32_t value, unsigned flags, uint32_t mask) {
  ENTER(hipStreamWaitValue32);
  if (without("wait-value") || flags != 0 || !address) return end(INVALID_VALUE);
  return end(put(stream, (struct command){.kind = WAIT, .target = address, .value = value, .mask = mask}));
}

EXPORT int hipLaunchHostFunc(struct stream *stream, void (*function)(void *), void *data) {
  ENTER(hipLaunchHostFunc);
  return end(put(stream, (struct command){.kind = CALL, .target = data, .function = function}));
}

/* ---- Memory --------------------------------------------------------------------------------------------------- */

enum { FENCE = 256, PATTERN = 0xa5 }; /* bytes behind an allocation that nobody may write */

struct allocation {
  unsigned char *address;
  size_t size;
  struct allocation *next;
};

static struct allocation *allocations;
static uint64_t memory_used;

static int allocate(void **address, size_t size) {
  *address = NULL;
  if (!size) return SUCCESS;
  pthread_mutex_lock(&lock);
  int full = memory_used + size > memory_total();
  void *memory = NULL;
  if (!full && posix_memalign(&memory, 4096, size + FENCE) == 0) {
    memset((unsigned char *)memory + size, PATTERN, FENCE);
    struct allocation *allocation = malloc(sizeof *allocation);
    *allocation = (struct allocation){memory, size, allocations};
    allocations = allocation;
    memory_used += size;
    *address = memory;
  }
  pthread_mutex_unlock(&lock);
  return *address ? SUCCESS : OUT_OF_MEMORY;
}

static int is_ours(const void *address, size_t size) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (struct allocation *one = allocations; one && !found; one = one->next) {
    const unsigned char *at = address;
    found = at >= one->address && at + size <= one->address + one->size;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* A kernel that has written behind a buffer: on a GPU, a page fault (if it is lucky). */
static int trespassed(void) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (struct allocation *one = allocations; one; one = one->next)
    for (int i = 0; i < FENCE; i++) found |= one->address[one->size + (size_t)i] != PATTERN;
  pthread_mutex_unlock(&lock);
  return found;
}

EXPORT int hipMalloc(void **address, size_t size) {
  ENTER(hipMalloc);
  return end(allocate(address, size));
}

EXPORT int hipExtMallocWithFlags(void **address, size_t size, unsigned flags) {
  ENTER(hipExtMallocWithFlags);
  if (flags != 2 || size != 8 || without("signal-memory")) return end(INVALID_VALUE); /* hipMallocSignalMemory */
  return end(allocate(address, size));
}

EXPORT int hipHostMalloc(void **address, size_t size, unsigned flags) {
  ENTER(hipHostMalloc);
  (void)flags;
  return end(without("host-memory") ? OUT_OF_MEMORY : allocate(address, size));
}

EXPORT int hipFree(void *address) {
  ENTER(hipFree);
  drain_all(); /* as HIP does */
  pthread_mutex_lock(&lock);
  struct allocation **link = &allocations;
  while (*link && (*link)->address != address) link = &(*link)->next;
  struct allocation *found = *link;
  if (found) {
    *link = found->next;
    memory_used -= found->size;
    free(found->address);
    free(found);
  }
  pthread_mutex_unlock(&lock);
  return end(found || !address ? SUCCESS : INVALID_VALUE);
}

EXPORT int hipHostFree(void *address) { return hipFree(address); }

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total) {
  ENTER(hipMemGetInfo);
  *total = memory_total();
  *free_bytes = *total - memory_used;
  return SUCCESS;
}

EXPORT int hipMemcpy(void *target, const void *source, size_t size, int kind) {
  ENTER(hipMemcpy);
  const void *device = kind == 1 ? target : source; /* 1: to the device, 2: from it */
  if (kind < 1 || kind > 2 || !is_ours(device, size)) return end(INVALID_VALUE);
  memcpy(target, source, size);
  return SUCCESS;
}

EXPORT int hipMemsetAsync(void *target, int value, size_t size, struct stream *stream) {
  ENTER(hipMemsetAsync);
  if (!is_ours(target, size)) return end(INVALID_VALUE);
  return end(put(stream, (struct command){.kind = FILL, .target = target, .value = (uint32_t)value, .size = size}));
}

EXPORT int hipStreamSynchronize(struct stream *stream) {
  ENTER(hipStreamSynchronize);
  if (!stream) return end(INVALID_HANDLE);
  drain(stream);
  if (trespassed()) broken = ILLEGAL_ADDRESS;
  return end(broken);
}

/* ---- Events --------------------------------------------------------------------------------------------------- */

EXPORT int hipEventCreateWithFlags(struct event **made, unsigned flags) {
  ENTER(hipEventCreateWithFlags);
  if (flags & 0x20000000 && without("fence-flag")) return end(INVALID_VALUE); /* hipEventDisableSystemFence */
  *made = calloc(1, sizeof **made);
  return SUCCESS;
}

EXPORT int hipEventDestroy(struct event *event) {
  ENTER(hipEventDestroy);
  drain_all();
  free(event);
  return SUCCESS;
}

EXPORT int hipEventRecord(struct event *event, struct stream *stream) {
  ENTER(hipEventRecord);
  if (!event) return end(INVALID_HANDLE);
  pthread_mutex_lock(&lock);
  event->records++;
  pthread_mutex_unlock(&lock);
  return end(put(stream, (struct command){.kind = RECORD, .target = event}));
}

EXPORT int hipEventSynchronize(struct event *event) {
  ENTER(hipEventSynchronize);
  if (!event) return end(INVALID_HANDLE);
  const struct timespec moment = {0, 20000};
  for (int waiting = 1; waiting;) {
    pthread_mutex_lock(&lock);
    waiting = event->records;
    pthread_mutex_unlock(&lock);
    if (waiting) nanosleep(&moment, NULL);
  }
  if (trespassed()) broken = ILLEGAL_ADDRESS;
  return end(broken);
}

EXPORT int hipEventElapsedTime(float *milliseconds, struct event *begin, struct event *finish) {
  ENTER(hipEventElapsedTime);
  pthread_mutex_lock(&lock);
  int error = SUCCESS;
  if (begin->records || finish->records) error = NOT_READY;
  else if (!begin->reached || !finish->reached) error = INVALID_HANDLE;
  else
    *milliseconds = (float)((double)(finish->at.tv_sec - begin->at.tv_sec) * 1e3 +
                            (double)(finish->at.tv_nsec - begin->at.tv_nsec) / 1e6);
  pthread_mutex_unlock(&lock);
  return end(error);
}
