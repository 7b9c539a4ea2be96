/* What the files of HIP's functions share: errors, the device, memory, and macros that a function begins with. */
#ifndef HIP_H
#define HIP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code_object.h"
#include "hip_hooks.h"
#include "hip_types.h"
#include "regions.h"
#include "streams.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* signatures are HIP's */
#define EXPORT __attribute__((visibility("default")))

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_CONFIGURATION = 9,
  INVALID_PITCH = 12,
  INVALID_SYMBOL = 13,
  INVALID_MEMCPY_DIRECTION = 21,
  INVALID_DEVICE_FUNCTION = 98,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  UNSUPPORTED_LIMIT = 215,
  FILE_NOT_FOUND = 301,
  INIT_FAILED = 303,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  OUT_OF_RESOURCES = 701,
  PEER_ALREADY_ENABLED = 704,
  PEER_NOT_ENABLED = 705,
  ALREADY_REGISTERED = 712,
  NOT_REGISTERED = 713,
  LAUNCH_FAILURE = 719,
  COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_MERGE = 902,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURE_IMPLICIT = 906,
  CAPTURED_EVENT = 907,
  CAPTURE_WRONG_THREAD = 908,
  GRAPH_UPDATE_FAILURE = 910,
  INVALID_CHANNEL_DESCRIPTOR = 911,
};

extern atomic_int broken; /* an error that stays, as a fault of a kernel does */

void break_device(int error);
void forget_last_error(void);
int end(int error); /* `error`, which is the thread's last one unless it is SUCCESS */

#define ENTER(name)                                                \
  do {                                                             \
    int failure = injected_failure(#name);                         \
    if (failure || broken) return end(failure ? failure : broken); \
  } while (0)

/* A function that ends with `answer`, unless a failure is injected or an earlier error stays. */
#define CALL(name, parameters, answer)                                    \
  EXPORT int name parameters {                                            \
    int failure = injected_failure(#name);                                \
    return end(failure ? failure : broken ? (int)broken : (int)(answer)); \
  }
/* One that does `action` if what it is given holds. */
#define ACT(name, parameters, holds, otherwise, action) \
  EXPORT int name parameters {                          \
    ENTER(name);                                        \
    if (!(holds)) return end(otherwise);                \
    action;                                             \
    return SUCCESS;                                     \
  }

/* Functions that end in `_spt` take this thread's own stream where others take the default one. */
#define PER_THREAD ((void *)2)
static inline void *per_thread(void *stream) { return stream ? stream : PER_THREAD; }

/* ---- hip.c ------------------------------------------------------------------------------------------------------- */

void set_problem(char *text); /* what went wrong, in words; the callee's from then on */
/* Says once that the device cannot do this, and ends with hipErrorNotSupported. */
int refuse(atomic_bool *said, const char *sentence);
#define REFUSE(sentence)            \
  do {                              \
    static atomic_bool said;        \
    return refuse(&said, sentence); \
  } while (0)

typedef struct {
  const char *name;
  int compute_units, clock_khz, memory_clock_khz, bus_bits, l2_bytes, lds_bytes, major, minor;
} DeviceFacts;

const DeviceFacts *device(void);
Arch device_arch(void);
int devices(void);
bool is_device(int number);
bool is_checked(void);
extern __thread int current_device;

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

typedef struct Allocation {
  uint8_t *address;
  size_t size;
  RegionKind kind;
  unsigned flags;
  bool is_mapped, is_managed; /* mapped here; not what the program registered */
  struct Allocation *next;
} Allocation;

uint64_t memory_total(void);
int allocate(void **address, size_t size, RegionKind kind, unsigned flags, bool is_managed);
int reserve(void **address, size_t size); /* more than the device may have, since little of it is touched */
bool release(void *address, bool mapped);
Allocation allocation_of(const void *address, size_t size); /* a copy; its address is NULL when there is none */
bool is_ours(const void *address, size_t size);             /* the device may touch these bytes */
int copy_now(void *target, const void *source, size_t size, int kind);
int copy_later(void *target, const void *source, size_t size, int kind, void *handle);

/* ---- modules.c --------------------------------------------------------------------------------------------------- */

int kernel_of_host(const void *host, Kernel **kernel); /* the kernel that a host program's function stands for */
bool is_kernel(const Kernel *kernel);

#endif
