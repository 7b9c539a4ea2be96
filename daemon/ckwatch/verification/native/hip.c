/* The functions of AMD's HIP runtime that programs with kernels of composable_kernel call, on the machine of machine.h.
 *
 * Enumerators, structure offsets and the meaning of each call are those of HIP 7's hip_runtime_api.h. Addresses of the
 * device are addresses of this process.
 *
 * Environment:
 *   CKWATCH_EMULATOR_ARCH       gfx90a, gfx942 (default), gfx950 or gfx1100
 *   CKWATCH_EMULATOR_UNCHECKED  1: results only, without looking for undefined values, races and missing waits
 *   CKWATCH_EMULATOR_THREADS    default: the CPUs that this process may use
 *   CKWATCH_EMULATOR_LIMIT      instructions of a workgroup of up to four waves, 2.5e8 by default
 *   CKWATCH_EMULATOR_OBJDUMP    LLVM's disassembler
 *   CKWATCH_EMULATOR_ERRORS     a descriptor for what is said of a crash; standard error by default
 *   CKWATCH_EMULATOR_REPORT     a file; what was found is appended to it when the process ends
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "code_object.h"
#include "dispatch.h"
#include "hip_hooks.h"
#include "streams.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* signatures are HIP's */
#define EXPORT __attribute__((visibility("default")))

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_CONFIGURATION = 9,
  INVALID_SYMBOL = 13,
  INVALID_MEMCPY_DIRECTION = 21,
  INVALID_DEVICE_FUNCTION = 98,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  FILE_NOT_FOUND = 301,
  INIT_FAILED = 303,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  OUT_OF_RESOURCES = 701,
  ALREADY_REGISTERED = 712,
  NOT_REGISTERED = 713,
  LAUNCH_FAILURE = 719,
  NOT_SUPPORTED = 801,
};

typedef struct {
  uint32_t x, y, z;
} Dim3;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int broken; /* an error that stays, as a fault of a kernel does */
static __thread int last_error;
static __thread int current_device;

void break_device(int error) { broken = error; }

static int end(int error) {
  if (error) last_error = error;
  return error;
}

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

/* ---- What went wrong, in words ----------------------------------------------------------------------------------- */

static char *problem_text;
static __thread char *told_problem;

static void set_problem(char *text) { /* which is the callee's from then on */
  if (!text) return;
  pthread_mutex_lock(&lock);
  free(problem_text);
  problem_text = text;
  pthread_mutex_unlock(&lock);
}

/* ---- Settings ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  int compute_units, clock_khz, memory_clock_khz, bus_bits, l2_bytes, lds_bytes, major, minor;
} DeviceFacts;

/* AMD's data sheets of MI210, MI300X, MI355X and RX 7900 XTX, whose compute units are pairs. */
static const DeviceFacts facts[] = {
    [GFX90A] = {"gfx90a", 104, 1700000, 1600000, 4096, 8 << 20, 64 << 10, 9, 0},
    [GFX942] = {"gfx942", 304, 2100000, 1300000, 8192, 4 << 20, 64 << 10, 9, 4},
    [GFX950] = {"gfx950", 256, 2400000, 2000000, 8192, 4 << 20, 160 << 10, 9, 5},
    [GFX1100] = {"gfx1100", 48, 2500000, 1250000, 384, 6 << 20, 64 << 10, 11, 0},
};

static pthread_once_t settled = PTHREAD_ONCE_INIT;
static Arch arch;
static bool is_arch_known;
static atomic_bool checked, traced;
static uint64_t instruction_limit;
static Choice choice = {UINT32_MAX, 0};
static LaunchCounts counts;

static void settle(void) {
  const char *unchecked = getenv("CKWATCH_EMULATOR_UNCHECKED"), *limit = getenv("CKWATCH_EMULATOR_LIMIT");
  const char *name = getenv("CKWATCH_EMULATOR_ARCH");
  if (!name || !*name) name = told_text("ARCH", "gfx942");
  checked = !(unchecked && *unchecked && strcmp(unchecked, "0") != 0);
  instruction_limit = limit && *limit ? (uint64_t)strtod(limit, NULL) : 250000000;
  char *problem = NULL;
  is_arch_known = arch_named(name, &arch);
  if (!is_arch_known && asprintf(&problem, "%s is no arch that is emulated: gfx90a, gfx942, gfx950, gfx1100", name) > 0)
    set_problem(problem);
}
static const DeviceFacts *device(void) {
  pthread_once(&settled, settle);
  return &facts[arch];
}
static int devices(void) {
  pthread_once(&settled, settle);
  return is_arch_known ? (int)told_number("DEVICES", 1) : 0;
}
static bool is_device(int number) { return number >= 0 && number < devices(); }

/* ---- Errors, versions, devices ----------------------------------------------------------------------------------- */

static const struct {
  int error;
  const char *name, *meaning;
} errors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {4, "hipErrorDeinitialized", "driver shutting down"},
    {9, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "hipErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "hipErrorInvalidSymbol", "invalid device symbol"},
    {17, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {35, "hipErrorInsufficientDriver", "driver version is insufficient for runtime version"},
    {52, "hipErrorMissingConfiguration", "__global__ function call is not configured"},
    {53, "hipErrorPriorLaunchFailure", "unspecified launch failure in prior launch"},
    {98, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {214, "hipErrorECCNotCorrectable", "uncorrectable ECC error encountered"},
    {218, "hipErrorInvalidKernelFile", "invalid kernel file"},
    {300, "hipErrorInvalidSource", "device kernel image is invalid"},
    {301, "hipErrorFileNotFound", "file not found"},
    {302, "hipErrorSharedObjectSymbolNotFound", "shared object symbol not found"},
    {303, "hipErrorSharedObjectInitFailed", "shared object initialization failed"},
    {304, "hipErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {401, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "hipErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {709, "hipErrorContextIsDestroyed", "context is destroyed"},
    {710, "hipErrorAssert", "device-side assert triggered"},
    {712, "hipErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
    {713, "hipErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {720, "hipErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "hipErrorNotSupported", "operation not supported"},
    {999, "hipErrorUnknown", "unknown error"},
    {1052, "hipErrorRuntimeMemory", "runtime memory call returned error"},
    {1053, "hipErrorRuntimeOther", "runtime call other than memory returned error"},
};

EXPORT const char *hipGetErrorName(int error) {
  for (size_t n = 0; n < sizeof errors / sizeof *errors; n++)
    if (errors[n].error == error) return errors[n].name;
  return "hipErrorUnknown";
}
EXPORT const char *hipGetErrorString(int error) {
  for (size_t n = 0; n < sizeof errors / sizeof *errors; n++)
    if (errors[n].error == error) return errors[n].meaning;
  return "unknown error";
}
EXPORT int hipDrvGetErrorName(int error, const char **text) {
  *text = hipGetErrorName(error);
  return SUCCESS;
}
EXPORT int hipDrvGetErrorString(int error, const char **text) {
  *text = hipGetErrorString(error);
  return SUCCESS;
}
EXPORT int hipGetLastError(void) {
  int failure = injected_failure("hipGetLastError"), error = failure ? failure : last_error;
  last_error = SUCCESS;
  return error;
}
EXPORT int hipExtGetLastError(void) { return hipGetLastError(); }
EXPORT int hipPeekAtLastError(void) {
  int failure = injected_failure("hipPeekAtLastError");
  return failure ? failure : last_error;
}

CALL(hipInit, (unsigned flags), flags ? INVALID_VALUE : devices() ? SUCCESS : NO_DEVICE)
ACT(hipRuntimeGetVersion, (int *version), true, SUCCESS, *version = (int)told_number("VERSION", 70253211))
ACT(hipDriverGetVersion, (int *version), true, SUCCESS, *version = (int)told_number("VERSION", 70253211))
CALL(hipGetDeviceCount, (int *count), (*count = devices(), *count ? SUCCESS : NO_DEVICE))
ACT(hipSetDevice, (int number), is_device(number), INVALID_DEVICE, current_device = number)
CALL(hipGetDevice, (int *number), (*number = current_device, devices() ? SUCCESS : NO_DEVICE))
CALL(hipDeviceGet, (int *handle, int number), (*handle = number, is_device(number) ? SUCCESS : INVALID_DEVICE))
ACT(hipGetDeviceFlags, (unsigned *flags), true, SUCCESS, *flags = 0)
CALL(hipSetDeviceFlags, (unsigned flags), SUCCESS)

static uint64_t memory_total(void) {
  return (uint64_t)told_number("MEMORY", (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2);
}
static void name_of_device(char *text, size_t size) {
  char name[64];
  snprintf(name, sizeof name, "emulated %s", device()->name);
  snprintf(text, size, "%s", told_text("DEVICE", name));
}

/* A hipDeviceProp_tR0600. */
EXPORT int hipGetDevicePropertiesR0600(void *properties, int number) {
  enum { BYTES = 1472, ARCH_NAME = 1160, UNLIMITED = INT32_MAX };
  static const struct {
    uint16_t offset;
    int value;
  } fields[] = {{304, 65536}, {320, 1024}, {324, 1024}, {328, 1024}, {332, 1024}, {336, UNLIMITED},
                {340, 65536}, {344, 65536}, {400, 1}, {576, 1}, {580, 1}, {600, 1}, {604, 1}, {624, 2048}, {628, 1},
                {648, 65536}, {652, 1}, {676, 1}, {712, 2}, {728, 1}, {1424, 100000}, {1464, 1}};
  ENTER(hipGetDevicePropertiesR0600);
  if (!is_device(number) || !properties) return end(properties ? INVALID_DEVICE : INVALID_VALUE);
  const DeviceFacts *device_facts = device();
  uint8_t *at = memset(properties, 0, BYTES);
  name_of_device((char *)at, 256);
  const struct {
    uint16_t offset;
    uint64_t value;
  } sizes[] = {{288, memory_total()}, {296, (uint64_t)device_facts->lds_bytes}, {312, INT32_MAX}, {352, INT32_MAX},
               {640, (uint64_t)device_facts->lds_bytes}, {696, (uint64_t)device_facts->lds_bytes},
               {1416, (uint64_t)device_facts->lds_bytes}};
  const struct {
    uint16_t offset;
    int value;
  } facts_at[] = {{348, device_facts->clock_khz}, {360, device_facts->major}, {364, device_facts->minor},
                  {388, number ? 104 : (int)told_number("UNITS", device_facts->compute_units)},
                  {584, (int)told_number("BUS", 0) + 8 * number}, {608, device_facts->memory_clock_khz},
                  {612, device_facts->bus_bits}, {616, device_facts->l2_bytes}, {308, (int)lanes_of_wave(arch)}};
  for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) memcpy(at + fields[n].offset, &fields[n].value, 4);
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) memcpy(at + sizes[n].offset, &sizes[n].value, 8);
  for (size_t n = 0; n < sizeof facts_at / sizeof *facts_at; n++)
    memcpy(at + facts_at[n].offset, &facts_at[n].value, 4);
  snprintf((char *)at + ARCH_NAME, 256, "%s%s", device_facts->name, arch == GFX1100 ? "" : ":sramecc+:xnack-");
  return SUCCESS;
}

EXPORT int hipDeviceGetPCIBusId(char *text, int length, int number) {
  ENTER(hipDeviceGetPCIBusId);
  if (!is_device(number)) return end(INVALID_DEVICE);
  if (!text || length <= 0) return end(INVALID_VALUE);
  long long bus = told_number("BUS", 0);
  if (bus) snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned)bus + 8u * (unsigned)number);
  else snprintf(text, (size_t)length, "emulated");
  return SUCCESS;
}
ACT(hipDeviceGetName, (char *text, int length, int number),
    is_device(number), INVALID_DEVICE, name_of_device(text, (size_t)length))
EXPORT int hipDeviceTotalMem(size_t *bytes, int number) {
  ENTER(hipDeviceTotalMem);
  *bytes = memory_total();
  return end(is_device(number) ? SUCCESS : INVALID_DEVICE);
}
EXPORT int hipDeviceComputeCapability(int *major, int *minor, int number) {
  ENTER(hipDeviceComputeCapability);
  *major = device()->major;
  *minor = device()->minor;
  return end(is_device(number) ? SUCCESS : INVALID_DEVICE);
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int number) {
  ENTER(hipDeviceGetAttribute);
  if (!value) return end(INVALID_VALUE);
  if (!is_device(number)) return end(INVALID_DEVICE);
  const DeviceFacts *device_facts = device();
  switch (attribute) {
    case 0: case 2: case 3: case 4: case 8: case 9: case 24: case 78: case 85: case 90: case 10011: case 10016:
      *value = 1; break;                                /* ECC, one engine, memory of the host, managed, … */
    case 5: *value = device_facts->clock_khz; break;    /* ClockRate */
    case 19: *value = device_facts->l2_bytes; break;    /* L2CacheSize */
    case 23: *value = device_facts->major; break;
    case 61: *value = device_facts->minor; break;
    case 25: *value = 2; break;                         /* MaxBlocksPerMultiProcessor */
    case 26: case 27: case 28: case 55: case 56: *value = 1024; break; /* of a workgroup */
    case 29: *value = INT32_MAX; break;                 /* of a grid */
    case 30: case 31: *value = 65536; break;
    case 57: *value = 2048; break;                      /* MaxThreadsPerMultiProcessor */
    case 58: case 83: *value = INT32_MAX; break;        /* MaxPitch, TotalConstantMemory */
    case 59: *value = device_facts->bus_bits; break;
    case 60: *value = device_facts->memory_clock_khz; break;
    case 63: case 10015: *value = (int)told_number("UNITS", device_facts->compute_units); break;
    case 67: *value = (int)told_number("BUS", 0); break;
    case 71: case 72: *value = 65536; break;            /* registers */
    case 74: case 75: case 76: case 10002: *value = device_facts->lds_bytes; break;
    case 84: *value = memory_total() > INT32_MAX ? INT32_MAX : (int)memory_total(); break;
    case 87: *value = (int)lanes_of_wave(arch); break;
    case 10000: case 10017: *value = 100000; break;     /* ClockInstructionRate, WallClockRate */
    case 10013: *value = !lacks("wait-value"); break;   /* CanUseStreamWaitValue */
    case 10018: *value = 1; break;                      /* NumberOfXccs */
    case 10019: *value = 512; break;                    /* MaxAvailableVgprsPerThread */
    default:
      *value = 0;
      if (attribute < 0 || (attribute > 91 && attribute < 10000) || attribute > 10020) return end(INVALID_VALUE);
  }
  return SUCCESS;
}
ACT(hipDeviceGetLimit, (size_t *value, int limit), true, SUCCESS, *value = 0)
EXPORT int hipDeviceCanAccessPeer(int *can, int number, int peer) {
  ENTER(hipDeviceCanAccessPeer);
  *can = number != peer;
  return end(is_device(number) && is_device(peer) ? SUCCESS : INVALID_DEVICE);
}
EXPORT int hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
  ENTER(hipDeviceGetStreamPriorityRange);
  if (least) *least = 1;
  if (greatest) *greatest = -1;
  return SUCCESS;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

typedef struct Allocation {
  uint8_t *address;
  size_t size;
  RegionKind kind;
  unsigned flags;
  bool is_mapped, is_managed; /* mapped here; not what the program registered */
  struct Allocation *next;
} Allocation;

enum { RESERVED = 1u << 31 }; /* as `flags`: of which little is used, so that it may be more than there is */
static Allocation *allocations;
static uint64_t memory_used;

static bool keep_allocation(Allocation wanted) {
  Allocation *allocation = malloc(sizeof *allocation);
  if (!allocation) return false;
  *allocation = wanted;
  pthread_mutex_lock(&lock);
  allocation->next = allocations;
  allocations = allocation;
  pthread_mutex_unlock(&lock);
  add_region((uint64_t)(uintptr_t)wanted.address, wanted.size, wanted.kind);
  return true;
}

static int allocate(void **address, size_t size, RegionKind kind, unsigned flags, bool is_managed) {
  if (!address) return INVALID_VALUE;
  *address = NULL;
  if (!devices()) return NO_DEVICE;
  if (!size) return SUCCESS;
  pthread_mutex_lock(&lock);
  bool fits = size <= memory_total() && memory_used <= memory_total() - size;
  if (fits) memory_used += size;
  pthread_mutex_unlock(&lock);
  uint8_t *memory = fits ? map_guarded(size) : NULL;
  if (!memory) {
    pthread_mutex_lock(&lock);
    if (fits) memory_used -= size;
    pthread_mutex_unlock(&lock);
    return OUT_OF_MEMORY;
  }
  if (!keep_allocation((Allocation){memory, size, kind, flags, true, is_managed, NULL})) return OUT_OF_MEMORY;
  if (checked && kind == DEVICE_MEMORY) mark_undefined((uint64_t)(uintptr_t)memory, size, true);
  *address = memory;
  return SUCCESS;
}

static bool release(void *address, bool mapped) {
  pthread_mutex_lock(&lock);
  Allocation **link = &allocations;
  while (*link && !((*link)->address == address && (*link)->is_mapped == mapped)) link = &(*link)->next;
  Allocation *found = *link;
  if (found) {
    *link = found->next;
    if (mapped && found->flags != RESERVED) memory_used -= found->size;
  }
  pthread_mutex_unlock(&lock);
  if (!found) return false;
  remove_region((uint64_t)(uintptr_t)address);
  if (mapped) unmap_guarded(found->address, found->size);
  free(found);
  return true;
}

/* The allocation that holds these bytes, or a copy of it with a NULL address. */
static Allocation allocation_of(const void *address, size_t size) {
  const uint8_t *at = address;
  Allocation copy = {0};
  pthread_mutex_lock(&lock);
  for (const Allocation *one = allocations; one && !copy.address; one = one->next)
    if (at >= one->address && (size_t)(at - one->address) <= one->size &&
        size <= one->size - (size_t)(at - one->address))
      copy = *one;
  pthread_mutex_unlock(&lock);
  return copy;
}

/* Whether the device may touch these bytes: an allocation, or a variable of a module. */
static bool is_ours(const void *address, size_t size) {
  if (allocation_of(address, size).address) return true;
  uint64_t at = (uint64_t)(uintptr_t)address;
  const Region *region = region_of(at);
  return region && size <= region->base + region->size - at;
}

CALL(hipMalloc, (void **address, size_t size), allocate(address, size, DEVICE_MEMORY, 0, false))
EXPORT int hipExtMallocWithFlags(void **address, size_t size, unsigned flags) {
  enum { SIGNAL_MEMORY = 2 };
  ENTER(hipExtMallocWithFlags);
  if (flags == SIGNAL_MEMORY && (size != 8 || lacks("signal-memory"))) return end(INVALID_VALUE);
  return end(allocate(address, size, flags == SIGNAL_MEMORY ? HOST_MEMORY : DEVICE_MEMORY, flags, false));
}
CALL(hipMallocManaged, (void **address, size_t size, unsigned flags), allocate(address, size, HOST_MEMORY, flags, true))
EXPORT int hipMallocPitch(void **address, size_t *pitch, size_t width, size_t height) {
  ENTER(hipMallocPitch);
  *pitch = (width + 255) & ~(size_t)255;
  return end(allocate(address, *pitch * height, DEVICE_MEMORY, 0, false));
}
static int allocate_host(void **address, size_t size, unsigned flags) {
  return lacks("host-memory") ? OUT_OF_MEMORY : allocate(address, size, HOST_MEMORY, flags, false);
}
CALL(hipHostMalloc, (void **address, size_t size, unsigned flags), allocate_host(address, size, flags))
CALL(hipHostAlloc, (void **address, size_t size, unsigned flags), allocate_host(address, size, flags))
CALL(hipMallocHost, (void **address, size_t size), allocate_host(address, size, 0))

static int free_memory(void *address) {
  drain_all(); /* as HIP does */
  return !address || release(address, true) ? SUCCESS : INVALID_VALUE;
}
CALL(hipFree, (void *address), free_memory(address))
CALL(hipHostFree, (void *address), free_memory(address))
CALL(hipFreeHost, (void *address), free_memory(address))
EXPORT int hipMallocAsync(void **address, size_t size, void *stream) {
  ENTER(hipMallocAsync);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  return end(allocate(address, size, DEVICE_MEMORY, 0, false));
}
static void release_later(void *address) { release(address, true); }
EXPORT int hipFreeAsync(void *address, void *stream) {
  ENTER(hipFreeAsync);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  if (address && allocation_of(address, 1).address != address) return end(INVALID_VALUE);
  if (address) put_call(stream_of(stream), release_later, address);
  return SUCCESS;
}

EXPORT int hipHostRegister(void *address, size_t size, unsigned flags) {
  ENTER(hipHostRegister);
  if (!address || !size) return end(INVALID_VALUE);
  if (allocation_of(address, 1).address) return end(ALREADY_REGISTERED);
  bool kept = keep_allocation((Allocation){address, size, HOST_MEMORY, flags, false, false, NULL});
  return end(kept ? SUCCESS : OUT_OF_MEMORY);
}
EXPORT int hipHostUnregister(void *address) {
  ENTER(hipHostUnregister);
  drain_all();
  return end(release(address, false) ? SUCCESS : NOT_REGISTERED);
}
EXPORT int hipHostGetDevicePointer(void **device_address, void *address, unsigned flags) {
  ENTER(hipHostGetDevicePointer);
  if (!device_address || !allocation_of(address, 1).address) return end(INVALID_VALUE);
  *device_address = address;
  return SUCCESS;
}
EXPORT int hipHostGetFlags(unsigned *flags, void *address) {
  ENTER(hipHostGetFlags);
  Allocation found = allocation_of(address, 1);
  if (!found.address) return end(INVALID_VALUE);
  *flags = found.flags;
  return SUCCESS;
}

EXPORT int hipMemGetInfo(size_t *free_bytes, size_t *total) {
  ENTER(hipMemGetInfo);
  pthread_mutex_lock(&lock);
  uint64_t used = memory_used;
  pthread_mutex_unlock(&lock);
  if (total) *total = memory_total();
  if (free_bytes) *free_bytes = memory_total() - used;
  return SUCCESS;
}
EXPORT int hipMemPtrGetInfo(void *address, size_t *size) {
  ENTER(hipMemPtrGetInfo);
  Allocation found = allocation_of(address, 1);
  *size = found.size;
  return end(found.address ? SUCCESS : INVALID_VALUE);
}
EXPORT int hipMemGetAddressRange(void **base, size_t *size, void *address) {
  ENTER(hipMemGetAddressRange);
  Allocation found = allocation_of(address, 1);
  if (!found.address) return end(NOT_FOUND);
  if (base) *base = found.address;
  if (size) *size = found.size;
  return SUCCESS;
}

/* A hipPointerAttribute_t. */
typedef struct {
  int type, device;
  void *device_address, *host_address;
  int is_managed;
  unsigned flags;
} PointerAttributes;

EXPORT int hipPointerGetAttributes(PointerAttributes *attributes, const void *address) {
  enum { UNREGISTERED, HOST, DEVICE, MANAGED };
  ENTER(hipPointerGetAttributes);
  if (!attributes) return end(INVALID_VALUE);
  Allocation found = allocation_of(address, 1);
  *attributes = (PointerAttributes){.type = UNREGISTERED, .device = -2, .host_address = (void *)address};
  if (found.address) {
    bool is_host = found.kind == HOST_MEMORY;
    *attributes = (PointerAttributes){.type = found.is_managed ? MANAGED : is_host ? HOST : DEVICE,
                                      .device_address = (void *)address,
                                      .host_address = is_host ? (void *)address : NULL,
                                      .is_managed = found.is_managed, .flags = found.flags};
  }
  return SUCCESS;
}
EXPORT int hipPointerGetAttribute(void *data, int attribute, void *address) {
  enum { MEMORY_TYPE = 2, DEVICE_POINTER, HOST_POINTER, IS_MANAGED = 8, DEVICE_ORDINAL, RANGE_START = 11, RANGE_SIZE };
  ENTER(hipPointerGetAttribute);
  Allocation found = allocation_of(address, 1);
  if (!data || !found.address) return end(INVALID_VALUE);
  switch (attribute) {
    case MEMORY_TYPE: *(unsigned *)data = found.kind == HOST_MEMORY ? 1 : 2; break;
    case DEVICE_POINTER: case HOST_POINTER: *(void **)data = address; break;
    case IS_MANAGED: *(int *)data = found.is_managed; break;
    case DEVICE_ORDINAL: *(int *)data = 0; break;
    case RANGE_START: *(void **)data = found.address; break;
    case RANGE_SIZE: *(size_t *)data = found.size; break;
    default: return end(NOT_SUPPORTED);
  }
  return SUCCESS;
}

/* ---- Copies and fills -------------------------------------------------------------------------------------------- */

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS };

static int check_copy(const void *target, const void *source, size_t size, int kind) {
  if (!size) return SUCCESS;
  if (!target || !source) return INVALID_VALUE;
  if (kind < HOST_TO_HOST || kind > BY_ADDRESS) return INVALID_MEMCPY_DIRECTION;
  bool to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
  bool from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
  if (kind == BY_ADDRESS) {
    to_device = allocation_of(target, 1).address != NULL;
    from_device = allocation_of(source, 1).address != NULL;
  }
  if ((to_device && !is_ours(target, size)) || (from_device && !is_ours(source, size))) return INVALID_VALUE;
  return SUCCESS;
}

static int copy_now(void *target, const void *source, size_t size, int kind) {
  int error = check_copy(target, source, size, kind);
  if (error || !size) return error;
  drain(stream_of(NULL));
  copy_bytes(target, source, size);
  return broken;
}

/* Copies from or to memory of the program's own are over when the call returns: it may be freed or changed then. */
static int copy_later(void *target, const void *source, size_t size, int kind, void *handle) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  int error = check_copy(target, source, size, kind);
  if (error || !size) return error;
  put_copy(stream, target, source, size);
  if (!is_ours(target, size) || !is_ours(source, size)) drain(stream);
  return SUCCESS;
}

CALL(hipMemcpy, (void *target, const void *source, size_t size, int kind), copy_now(target, source, size, kind))
CALL(hipMemcpyAsync, (void *target, const void *source, size_t size, int kind, void *stream),
     copy_later(target, source, size, kind, stream))
EXPORT int hipMemcpyWithStream(void *target, const void *source, size_t size, int kind, void *stream) {
  ENTER(hipMemcpyWithStream);
  int error = copy_later(target, source, size, kind, stream);
  if (!error) drain(stream_of(stream));
  return end(error ? error : broken);
}
CALL(hipMemcpyHtoD, (void *target, void *source, size_t size), copy_now(target, source, size, HOST_TO_DEVICE))
CALL(hipMemcpyDtoH, (void *target, void *source, size_t size), copy_now(target, source, size, DEVICE_TO_HOST))
CALL(hipMemcpyDtoD, (void *target, void *source, size_t size), copy_now(target, source, size, DEVICE_TO_DEVICE))
CALL(hipMemcpyHtoDAsync, (void *target, const void *source, size_t size, void *stream),
     copy_later(target, source, size, HOST_TO_DEVICE, stream))
CALL(hipMemcpyDtoHAsync, (void *target, void *source, size_t size, void *stream),
     copy_later(target, source, size, DEVICE_TO_HOST, stream))
CALL(hipMemcpyDtoDAsync, (void *target, void *source, size_t size, void *stream),
     copy_later(target, source, size, DEVICE_TO_DEVICE, stream))

static int copy_rows(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                     size_t height, int kind, void *handle, bool wait) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (!width || !height) return SUCCESS;
  if (width > target_pitch || width > source_pitch) return 12; /* hipErrorInvalidPitchValue */
  size_t to = target_pitch * (height - 1) + width, from = source_pitch * (height - 1) + width;
  int error = check_copy(target, source, to < from ? to : from, kind);
  if (error) return error;
  put_copy_rows(stream, target, target_pitch, source, source_pitch, width, height);
  if (wait || !is_ours(target, to) || !is_ours(source, from)) drain(stream);
  return SUCCESS;
}
CALL(hipMemcpy2D, (void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                   size_t height, int kind),
     copy_rows(target, target_pitch, source, source_pitch, width, height, kind, NULL, true))
CALL(hipMemcpy2DAsync, (void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                        size_t height, int kind, void *stream),
     copy_rows(target, target_pitch, source, source_pitch, width, height, kind, stream, false))

static int fill(void *target, uint32_t value, size_t count, int width, void *handle, bool wait) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (!count) return SUCCESS;
  if (!target || !is_ours(target, count * (size_t)width)) return INVALID_VALUE;
  put_fill(stream, target, count, value, width);
  if (wait) drain(stream);
  return wait ? broken : SUCCESS;
}
CALL(hipMemset, (void *target, int value, size_t size), fill(target, (uint32_t)value, size, 1, NULL, true))
CALL(hipMemsetAsync, (void *target, int value, size_t size, void *stream),
     fill(target, (uint32_t)value, size, 1, stream, false))
CALL(hipMemsetD8, (void *target, uint8_t value, size_t count), fill(target, value, count, 1, NULL, true))
CALL(hipMemsetD8Async, (void *target, uint8_t value, size_t count, void *stream),
     fill(target, value, count, 1, stream, false))
CALL(hipMemsetD16, (void *target, uint16_t value, size_t count), fill(target, value, count, 2, NULL, true))
CALL(hipMemsetD16Async, (void *target, uint16_t value, size_t count, void *stream),
     fill(target, value, count, 2, stream, false))
CALL(hipMemsetD32, (void *target, int value, size_t count), fill(target, (uint32_t)value, count, 4, NULL, true))
CALL(hipMemsetD32Async, (void *target, int value, size_t count, void *stream),
     fill(target, (uint32_t)value, count, 4, stream, false))

/* ---- Streams and events ------------------------------------------------------------------------------------------ */

static int make_stream(void **handle, unsigned flags, int priority) {
  if (!handle || flags > 1) return INVALID_VALUE;
  if (!devices()) return NO_DEVICE;
  *handle = new_stream(flags, priority);
  return *handle ? SUCCESS : OUT_OF_MEMORY;
}
CALL(hipStreamCreate, (void **stream), make_stream(stream, 0, 0))
CALL(hipStreamCreateWithFlags, (void **stream, unsigned flags), make_stream(stream, flags, 0))
CALL(hipStreamCreateWithPriority, (void **stream, unsigned flags, int priority), make_stream(stream, flags, priority))
EXPORT int hipStreamDestroy(void *stream) {
  ENTER(hipStreamDestroy);
  if ((uintptr_t)stream <= 2 || !stream_of(stream)) return end(INVALID_HANDLE);
  destroy_stream(stream);
  return SUCCESS;
}
EXPORT int hipStreamQuery(void *stream) {
  ENTER(hipStreamQuery);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  return is_idle(stream_of(stream)) ? SUCCESS : NOT_READY;
}
EXPORT int hipStreamSynchronize(void *stream) {
  ENTER(hipStreamSynchronize);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  drain(stream_of(stream));
  return end(broken);
}
ACT(hipStreamGetFlags, (void *stream, unsigned *flags),
    stream_of(stream), INVALID_HANDLE, *flags = flags_of_stream(stream_of(stream)))
ACT(hipStreamGetPriority, (void *stream, int *priority),
    stream_of(stream), INVALID_HANDLE, *priority = priority_of_stream(stream_of(stream)))
ACT(hipStreamGetDevice, (void *stream, int *number), stream_of(stream), INVALID_HANDLE, *number = 0)
EXPORT int hipStreamIsCapturing(void *stream, int *status) {
  ENTER(hipStreamIsCapturing);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  *status = 0; /* hipStreamCaptureStatusNone */
  return SUCCESS;
}
EXPORT int hipDeviceSynchronize(void) {
  ENTER(hipDeviceSynchronize);
  drain_all();
  return end(broken);
}
ACT(hipDeviceReset, (void), true, SUCCESS, drain_all())

static int wait_value(void *stream, void *address, uint64_t value, unsigned flags, uint64_t mask, int width) {
  if (lacks("wait-value") || flags > 3 || !address) return INVALID_VALUE;
  if (!stream_of(stream)) return INVALID_HANDLE;
  put_wait_value(stream_of(stream), address, value, mask, flags, width);
  return SUCCESS;
}
CALL(hipStreamWaitValue32, (void *stream, void *address, uint32_t value, unsigned flags, uint32_t mask),
     wait_value(stream, address, value, flags, mask, 4))
CALL(hipStreamWaitValue64, (void *stream, void *address, uint64_t value, unsigned flags, uint64_t mask),
     wait_value(stream, address, value, flags, mask, 8))
static int write_value(void *stream, void *address, uint64_t value, int width) {
  if (!address) return INVALID_VALUE;
  if (!stream_of(stream)) return INVALID_HANDLE;
  put_write_value(stream_of(stream), address, value, width);
  return SUCCESS;
}
CALL(hipStreamWriteValue32, (void *stream, void *address, uint32_t value, unsigned flags),
     write_value(stream, address, value, 4))
CALL(hipStreamWriteValue64, (void *stream, void *address, uint64_t value, unsigned flags),
     write_value(stream, address, value, 8))
EXPORT int hipLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
  ENTER(hipLaunchHostFunc);
  if (!function) return end(INVALID_VALUE);
  if (!stream_of(stream)) return end(INVALID_HANDLE);
  put_call(stream_of(stream), function, data);
  return SUCCESS;
}

typedef struct {
  void *stream;
  void (*function)(void *, int, void *);
  void *data;
} Callback;
static void call_back(void *argument) {
  Callback *callback = argument;
  callback->function(callback->stream, broken, callback->data);
  free(callback);
}
EXPORT int hipStreamAddCallback(void *stream, void (*function)(void *, int, void *), void *data, unsigned flags) {
  ENTER(hipStreamAddCallback);
  Callback *callback = malloc(sizeof *callback);
  if (!function || flags || !callback || !stream_of(stream)) {
    free(callback);
    return end(stream_of(stream) ? INVALID_VALUE : INVALID_HANDLE);
  }
  *callback = (Callback){stream, function, data};
  put_call(stream_of(stream), call_back, callback);
  return SUCCESS;
}

static int make_event(void **made) {
  if (!made) return INVALID_VALUE;
  *made = new_event();
  return *made ? SUCCESS : OUT_OF_MEMORY;
}
CALL(hipEventCreate, (void **made), make_event(made))
EXPORT int hipEventCreateWithFlags(void **made, unsigned flags) {
  enum { DISABLE_SYSTEM_FENCE = 0x20000000 };
  ENTER(hipEventCreateWithFlags);
  if (flags & DISABLE_SYSTEM_FENCE && lacks("fence-flag")) return end(INVALID_VALUE);
  return end(make_event(made));
}
ACT(hipEventDestroy, (void *event), is_event(event), INVALID_HANDLE, destroy_event(event))
ACT(hipEventRecord, (void *event, void *stream),
    is_event(event) && stream_of(stream), INVALID_HANDLE, put_record(stream_of(stream), event))
ACT(hipEventRecordWithFlags, (void *event, void *stream, unsigned flags),
    is_event(event) && stream_of(stream), INVALID_HANDLE, put_record(stream_of(stream), event))
EXPORT int hipEventQuery(void *event) {
  ENTER(hipEventQuery);
  if (!is_event(event)) return end(INVALID_HANDLE);
  return is_reached(event) ? SUCCESS : NOT_READY;
}
EXPORT int hipEventSynchronize(void *event) {
  ENTER(hipEventSynchronize);
  if (!is_event(event)) return end(INVALID_HANDLE);
  wait_for_event(event);
  return end(broken);
}
ACT(hipStreamWaitEvent, (void *stream, void *event, unsigned flags),
    is_event(event) && stream_of(stream), INVALID_HANDLE, put_wait_event(stream_of(stream), event))
EXPORT int hipEventElapsedTime(float *milliseconds, void *begin, void *finish) {
  ENTER(hipEventElapsedTime);
  if (!milliseconds || !is_event(begin) || !is_event(finish)) return end(milliseconds ? INVALID_HANDLE : INVALID_VALUE);
  double elapsed;
  int error = between_events(begin, finish, &elapsed);
  /* How long the emulator took is no property of the kernel. */
  if (!error && !told_number("CLOCK", 0)) error = NOT_SUPPORTED;
  *milliseconds = error ? 0 : (float)elapsed;
  return end(error);
}

/* ---- Modules, and what host programs register -------------------------------------------------------------------- */

typedef struct Function {
  const void *host;
  char *name;
  struct Function *next;
} Function;

typedef struct HostVariable {
  const void *host;
  char *name;
  size_t size;
  void **managed; /* where the program has the pointer, for __managed__ variables */
  struct HostVariable *next;
} HostVariable;

typedef struct Module {
  const void *wrapper; /* of a fat binary that has been registered and is loaded when it is first used; or NULL */
  CodeObject *object;
  int error;
  bool tried;
  Function *functions;
  HostVariable *variables;
  struct Module *next;
} Module;

static Module *modules;
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before `lock` */

static Module *keep_module(Module wanted) {
  Module *module = malloc(sizeof *module);
  if (!module) abort();
  *module = wanted;
  pthread_mutex_lock(&modules_lock);
  module->next = modules;
  modules = module;
  pthread_mutex_unlock(&modules_lock);
  return module;
}

static void drop_module(Module *module) {
  drain_all();
  pthread_mutex_lock(&modules_lock);
  Module **link = &modules;
  while (*link && *link != module) link = &(*link)->next;
  if (*link) *link = module->next;
  pthread_mutex_unlock(&modules_lock);
  for (Function *one = module->functions, *next; one; one = next) {
    next = one->next;
    free(one->name);
    free(one);
  }
  for (HostVariable *one = module->variables, *next; one; one = next) {
    next = one->next;
    if (one->managed && *one->managed) release(*one->managed, true);
    free(one->name);
    free(one);
  }
  free_code_object(module->object);
  free(module);
}

static bool is_module(const Module *module) {
  pthread_mutex_lock(&modules_lock);
  const Module *found = modules;
  while (found && found != module) found = found->next;
  pthread_mutex_unlock(&modules_lock);
  return found;
}

static int load_registered(Module *module) { /* under modules_lock */
  if (module->tried) return module->error;
  module->tried = true;
  char *problem = NULL;
  device();
  module->error = (int)load_code_object(module->wrapper, sizeof(uint32_t) * 6, arch, &module->object, &problem);
  set_problem(problem);
  for (HostVariable *one = module->variables; one && module->object; one = one->next) {
    uint64_t size, address = one->managed ? find_variable(module->object, one->name, &size) : 0;
    if (address && size == sizeof(void *)) memcpy((void *)(uintptr_t)address, one->managed, sizeof(void *));
  }
  return module->error;
}

EXPORT void **__hipRegisterFatBinary(const void *wrapper) {
  return (void **)keep_module((Module){.wrapper = wrapper});
}
EXPORT void __hipUnregisterFatBinary(void **handle) {
  if (handle) drop_module((Module *)handle);
}
EXPORT void __hipRegisterFunction(void **handle, const void *host, char *device_name, const char *name,
                                  unsigned threads, void *thread, void *block, Dim3 *block_size, Dim3 *grid_size,
                                  int *waves) {
  Module *module = (Module *)handle;
  Function *function = malloc(sizeof *function);
  if (!module || !function) abort();
  *function = (Function){host, strdup(name), module->functions};
  module->functions = function;
}
static void keep_variable(Module *module, const void *host, const char *name, size_t size, void **managed) {
  HostVariable *variable = malloc(sizeof *variable);
  if (!module || !variable) abort();
  *variable = (HostVariable){host, strdup(name), size, managed, module->variables};
  module->variables = variable;
}
EXPORT void __hipRegisterVar(void **handle, void *host, char *host_name, char *name, int external, size_t size,
                             int constant, int global) {
  keep_variable((Module *)handle, host, name, size, NULL);
}
EXPORT void __hipRegisterManagedVar(void *handle, void **pointer, void *initial, const char *name, size_t size,
                                    unsigned alignment) {
  if (allocate(pointer, size, HOST_MEMORY, 0, true) == SUCCESS && *pointer) memcpy(*pointer, initial, size);
  keep_variable((Module *)handle, pointer, name, size, pointer);
}
EXPORT void __hipRegisterTexture(void **handle, void *host, char *name, char *device_name, int external, int normalized,
                                 int type) {
}
EXPORT void __hipRegisterSurface(void **handle, void *host, char *name, char *device_name, int type, int external) {
}

/* The kernel that a host program's function stands for. */
static int kernel_of_host(const void *host, Kernel **kernel) {
  int error = INVALID_DEVICE_FUNCTION;
  *kernel = NULL;
  pthread_mutex_lock(&modules_lock);
  for (Module *module = modules; module && !*kernel; module = module->next)
    for (const Function *one = module->functions; one; one = one->next)
      if (one->host == host) {
        /* HIP says the same whether there is no code for the device or no such kernel in it */
        if (load_registered(module) == SUCCESS) *kernel = find_kernel(module->object, one->name);
        else if (module->error != NOT_FOR_THIS_ARCH) error = module->error;
        break;
      }
  pthread_mutex_unlock(&modules_lock);
  return *kernel ? SUCCESS : error;
}

static int variable_of_host(const void *host, uint64_t *address, uint64_t *size) {
  int error = INVALID_SYMBOL;
  *address = 0;
  pthread_mutex_lock(&modules_lock);
  for (Module *module = modules; module && !*address; module = module->next)
    for (const HostVariable *one = module->variables; one; one = one->next)
      if (one->host == host) {
        error = load_registered(module);
        if (error) break;
        if (one->managed) *address = (uint64_t)(uintptr_t)*one->managed, *size = one->size;
        else *address = find_variable(module->object, one->name, size);
        error = *address ? SUCCESS : INVALID_SYMBOL;
        break;
      }
  pthread_mutex_unlock(&modules_lock);
  return error;
}

static bool is_kernel(const Kernel *kernel) {
  bool found = false;
  pthread_mutex_lock(&modules_lock);
  for (const Module *module = modules; module && !found; module = module->next)
    found = module->object && kernel && find_kernel(module->object, kernel->name) == kernel;
  pthread_mutex_unlock(&modules_lock);
  return found;
}

static int load_module(void **handle, const void *image, size_t size) {
  if (!handle || !image) return INVALID_VALUE;
  if (!devices()) return NO_DEVICE;
  CodeObject *object;
  char *problem;
  int error = (int)load_code_object(image, size, arch, &object, &problem);
  if (error) {
    set_problem(problem);
    return error;
  }
  *handle = keep_module((Module){.object = object, .tried = true});
  return SUCCESS;
}
CALL(hipModuleLoadData, (void **handle, const void *image), load_module(handle, image, SIZE_MAX))
CALL(hipModuleLoadDataEx, (void **handle, const void *image, unsigned count, int *options, void **values),
     load_module(handle, image, SIZE_MAX))
EXPORT int hipModuleLoad(void **handle, const char *path) {
  ENTER(hipModuleLoad);
  if (!handle || !path) return end(INVALID_VALUE);
  FILE *file = fopen(path, "rb");
  if (!file) return end(FILE_NOT_FOUND);
  long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  uint8_t *image = size > 0 ? malloc((size_t)size) : NULL;
  rewind(file);
  bool good = image && fread(image, 1, (size_t)size, file) == (size_t)size;
  fclose(file);
  int error = good ? load_module(handle, image, (size_t)size) : INVALID_IMAGE;
  free(image);
  return end(error);
}
ACT(hipModuleUnload, (void *handle), is_module(handle), INVALID_HANDLE, drop_module(handle))
EXPORT int hipModuleGetFunction(void **function, void *handle, const char *name) {
  ENTER(hipModuleGetFunction);
  if (!function || !name || !*name) return end(INVALID_VALUE);
  if (!is_module(handle)) return end(INVALID_HANDLE);
  *function = find_kernel(((Module *)handle)->object, name);
  return end(*function ? SUCCESS : NOT_FOUND);
}
EXPORT int hipModuleGetGlobal(void **address, size_t *size, void *handle, const char *name) {
  ENTER(hipModuleGetGlobal);
  if (!name) return end(INVALID_VALUE);
  if (!is_module(handle)) return end(INVALID_HANDLE);
  uint64_t bytes = 0, found = find_variable(((Module *)handle)->object, name, &bytes);
  if (!found) return end(NOT_FOUND);
  if (address) *address = (void *)(uintptr_t)found;
  if (size) *size = bytes;
  return SUCCESS;
}
EXPORT int hipGetFuncBySymbol(void **function, const void *symbol) {
  ENTER(hipGetFuncBySymbol);
  Kernel *kernel;
  int error = kernel_of_host(symbol, &kernel);
  *function = kernel;
  return end(error);
}
EXPORT const char *hipKernelNameRef(const void *function) {
  return is_kernel(function) ? ((const Kernel *)function)->name : NULL;
}
EXPORT const char *hipKernelNameRefByPtr(const void *host, void *stream) {
  Kernel *kernel;
  return kernel_of_host(host, &kernel) == SUCCESS ? kernel->name : NULL;
}

EXPORT int hipGetSymbolAddress(void **address, const void *symbol) {
  ENTER(hipGetSymbolAddress);
  uint64_t at, size;
  int error = variable_of_host(symbol, &at, &size);
  if (!error) *address = (void *)(uintptr_t)at;
  return end(error);
}
EXPORT int hipGetSymbolSize(size_t *size, const void *symbol) {
  ENTER(hipGetSymbolSize);
  uint64_t at, bytes = 0;
  int error = variable_of_host(symbol, &at, &bytes);
  if (!error) *size = bytes;
  return end(error);
}
static int part_of_symbol(const void *symbol, size_t size, size_t offset, uint8_t **address) {
  uint64_t at, bytes = 0;
  int error = variable_of_host(symbol, &at, &bytes);
  if (!error && (offset > bytes || size > bytes - offset)) error = INVALID_VALUE;
  if (!error) *address = (uint8_t *)(uintptr_t)at + offset;
  return error;
}
#define SYMBOL_CALL(name, parameters, copy)                          \
  EXPORT int name parameters {                                       \
    ENTER(name);                                                     \
    uint8_t *address;                                                \
    int error = part_of_symbol(symbol, size, offset, &address);      \
    return end(error ? error : (copy));                              \
  }
SYMBOL_CALL(hipMemcpyToSymbol, (const void *symbol, const void *source, size_t size, size_t offset, int kind),
            copy_now(address, source, size, kind))
SYMBOL_CALL(hipMemcpyToSymbolAsync,
            (const void *symbol, const void *source, size_t size, size_t offset, int kind, void *stream),
            copy_later(address, source, size, kind, stream))
SYMBOL_CALL(hipMemcpyFromSymbol, (void *target, const void *symbol, size_t size, size_t offset, int kind),
            copy_now(target, address, size, kind))
SYMBOL_CALL(hipMemcpyFromSymbolAsync,
            (void *target, const void *symbol, size_t size, size_t offset, int kind, void *stream),
            copy_later(target, address, size, kind, stream))

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

enum { APART = 64 << 10 }; /* between the memory that a launch itself has */

typedef struct {
  Launch launch;
  Choice choice;
  uint8_t *memory;
  size_t memory_bytes;
} QueuedLaunch;

static _Atomic uint64_t dispatches;

static void forget_launch(QueuedLaunch *queued) {
  if (queued->launch.kernarg) remove_region((uint64_t)(uintptr_t)queued->launch.kernarg);
  if (queued->launch.packet) remove_region((uint64_t)(uintptr_t)queued->launch.packet);
  if (queued->launch.queue) remove_region((uint64_t)(uintptr_t)queued->launch.queue);
  unmap_guarded(queued->memory, queued->memory_bytes);
  free(queued);
}

static void run_queued(void *argument) {
  QueuedLaunch *queued = argument;
  LaunchCounts now = {0};
  if (!broken) run_launch(&queued->launch, queued->choice, &now);
  pthread_mutex_lock(&lock);
  counts.executed += now.executed;
  counts.computed += now.computed;
  counts.all += now.all;
  pthread_mutex_unlock(&lock);
  if (now.stopped) break_device(LAUNCH_FAILURE);
  forget_launch(queued);
}

/* Arguments as the caller has them: one pointer for each, or all of them in a buffer. */
static int fill_arguments(const Kernel *kernel, uint8_t *kernarg, void **parameters, void **extra) {
  enum { BUFFER_POINTER = 1, BUFFER_SIZE, LAUNCH_PARAM_END };
  if (extra) {
    const void *buffer = NULL;
    size_t size = 0;
    for (; (uintptr_t)*extra != LAUNCH_PARAM_END; extra += 2) {
      if ((uintptr_t)*extra == BUFFER_POINTER) buffer = extra[1];
      else if ((uintptr_t)*extra == BUFFER_SIZE) size = *(const size_t *)extra[1];
      else return INVALID_VALUE;
    }
    if (!buffer && size) return INVALID_VALUE;
    memcpy(kernarg, buffer, size < kernel->kernarg_bytes ? size : kernel->kernarg_bytes);
    return SUCCESS;
  }
  uint32_t given = 0;
  for (uint32_t n = 0; n < kernel->argument_count; n++) {
    const KernelArgument *argument = &kernel->arguments[n];
    if (argument->kind != BY_VALUE && argument->kind != DYNAMIC_SHARED_POINTER) continue;
    if (!parameters || !parameters[given]) return INVALID_VALUE;
    memcpy(kernarg + argument->offset, parameters[given++], argument->size);
  }
  return SUCCESS;
}

static int launch_kernel(Kernel *kernel, Dim3 grid, Dim3 block, void **parameters, void **extra, size_t shared,
                         void *handle, void *begin, void *finish) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if ((begin && !is_event(begin)) || (finish && !is_event(finish))) return INVALID_HANDLE;
  if (parameters && extra) return INVALID_VALUE;
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return INVALID_CONFIGURATION;
  uint64_t items = (uint64_t)block.x * block.y;
  if (items > 1024 || (items *= block.z) > 1024) return INVALID_CONFIGURATION;
  if ((uint64_t)grid.x * block.x > UINT32_MAX || (uint64_t)grid.y * block.y > UINT32_MAX ||
      (uint64_t)grid.z * block.z > UINT32_MAX)
    return INVALID_CONFIGURATION;
  if (items > kernel->max_workgroup) return LAUNCH_FAILURE; /* __launch_bounds__ */
  if (shared > (size_t)device()->lds_bytes || kernel->lds_bytes + shared > (size_t)device()->lds_bytes)
    return OUT_OF_RESOURCES;

  char *problem;
  const Code *code = code_of(kernel->object, &problem);
  if (!code) {
    set_problem(problem);
    return INIT_FAILED;
  }
  QueuedLaunch *queued = calloc(1, sizeof *queued);
  if (!queued) return OUT_OF_MEMORY;
  size_t argument_bytes = (kernel->kernarg_bytes + 15u) & ~15u;
  queued->memory_bytes = ((argument_bytes + 255) & ~(size_t)255) + 2 * APART + QUEUE_BYTES;
  queued->memory = map_guarded(queued->memory_bytes);
  if (!queued->memory) {
    free(queued);
    return OUT_OF_MEMORY;
  }
  Launch *launch = &queued->launch;
  launch->kernel = kernel;
  launch->code = code;
  launch->arch = arch;
  memcpy(launch->grid, &grid, sizeof launch->grid);
  memcpy(launch->block, &block, sizeof launch->block);
  launch->dynamic_lds = (uint32_t)shared;
  launch->checked = checked;
  launch->traced = traced;
  launch->waves = ((uint32_t)items + lanes_of_wave(arch) - 1) / lanes_of_wave(arch);
  launch->instruction_limit = launch->waves > 4 ? instruction_limit / 4 * launch->waves : instruction_limit;
  launch->dispatch_id = dispatches++;
  int error = fill_arguments(kernel, queued->memory, parameters, extra);
  if (error) {
    forget_launch(queued);
    return error;
  }
  if (argument_bytes) {
    launch->kernarg = queued->memory;
    add_region((uint64_t)(uintptr_t)launch->kernarg, argument_bytes, KERNEL_ARGUMENTS);
  }
  uint8_t *at = queued->memory + ((argument_bytes + 255) & ~(size_t)255) + APART;
  if (wants_packet(kernel)) {
    fill_packet(launch, at);
    launch->packet = at;
    add_region((uint64_t)(uintptr_t)at, PACKET_BYTES, KERNEL_ARGUMENTS);
  }
  at += APART;
  if (wants_queue(kernel)) {
    fill_queue(at);
    launch->queue = at;
    add_region((uint64_t)(uintptr_t)at, QUEUE_BYTES, KERNEL_ARGUMENTS);
  }
  if (argument_bytes) fill_hidden_arguments(launch);
  pthread_mutex_lock(&lock);
  queued->choice = choice;
  pthread_mutex_unlock(&lock);
  if (begin) put_record(stream, begin);
  put_call(stream, run_queued, queued);
  if (finish) put_record(stream, finish);
  return SUCCESS;
}

static int launch_host(const void *host, Dim3 grid, Dim3 block, void **parameters, size_t shared, void *stream,
                       void *begin, void *finish) {
  Kernel *kernel;
  if (!devices()) return NO_DEVICE;
  int error = kernel_of_host(host, &kernel);
  return error ? error : launch_kernel(kernel, grid, block, parameters, NULL, shared, stream, begin, finish);
}
static int launch_function(void *function, Dim3 grid, Dim3 block, size_t shared, void *stream, void **parameters,
                           void **extra, void *begin, void *finish) {
  if (!is_kernel(function)) return INVALID_HANDLE;
  return launch_kernel(function, grid, block, parameters, extra, shared, stream, begin, finish);
}

CALL(hipLaunchKernel, (const void *host, Dim3 grid, Dim3 block, void **parameters, size_t shared, void *stream),
     launch_host(host, grid, block, parameters, shared, stream, NULL, NULL))
CALL(hipExtLaunchKernel, (const void *host, Dim3 grid, Dim3 block, void **parameters, size_t shared, void *stream,
                          void *begin, void *finish, int flags),
     launch_host(host, grid, block, parameters, shared, stream, begin, finish))

typedef struct { /* hipLaunchConfig_t */
  Dim3 grid, block;
  size_t shared;
  void *stream, *attributes;
  unsigned attribute_count;
} LaunchConfig;
CALL(hipLaunchKernelExC, (const LaunchConfig *config, const void *host, void **parameters),
     !config ? INVALID_VALUE
             : launch_host(host, config->grid, config->block, parameters, config->shared, config->stream, NULL, NULL))
typedef struct { /* HIP_LAUNCH_CONFIG */
  Dim3 grid, block;
  unsigned shared;
  void *stream, *attributes;
  unsigned attribute_count;
} DriverLaunchConfig;
CALL(hipDrvLaunchKernelEx, (const DriverLaunchConfig *config, void *function, void **parameters, void **extra),
     !config ? INVALID_VALUE
             : launch_function(function, config->grid, config->block, config->shared, config->stream, parameters, extra,
                               NULL, NULL))
CALL(hipModuleLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
                             void **extra),
     launch_function(function, (Dim3){grid_x, grid_y, grid_z}, (Dim3){block_x, block_y, block_z}, shared, stream,
                     parameters, extra, NULL, NULL))

/* Sizes of the grid in work-items; only whole workgroups. */
static int launch_items(void *function, Dim3 items, Dim3 block, size_t shared, void *stream, void **parameters,
                        void **extra, void *begin, void *finish) {
  if (!block.x || !block.y || !block.z) return INVALID_CONFIGURATION;
  if (items.x % block.x || items.y % block.y || items.z % block.z) return NOT_SUPPORTED;
  return launch_function(function, (Dim3){items.x / block.x, items.y / block.y, items.z / block.z}, block, shared,
                         stream, parameters, extra, begin, finish);
}
CALL(hipExtModuleLaunchKernel, (void *function, uint32_t items_x, uint32_t items_y, uint32_t items_z, uint32_t block_x,
                                uint32_t block_y, uint32_t block_z, size_t shared, void *stream, void **parameters,
                                void **extra, void *begin, void *finish, uint32_t flags),
     launch_items(function, (Dim3){items_x, items_y, items_z}, (Dim3){block_x, block_y, block_z}, shared, stream,
                  parameters, extra, begin, finish))
CALL(hipHccModuleLaunchKernel, (void *function, uint32_t items_x, uint32_t items_y, uint32_t items_z, uint32_t block_x,
                                uint32_t block_y, uint32_t block_z, size_t shared, void *stream, void **parameters,
                                void **extra, void *begin, void *finish),
     launch_items(function, (Dim3){items_x, items_y, items_z}, (Dim3){block_x, block_y, block_z}, shared, stream,
                  parameters, extra, begin, finish))
/* Workgroups run one after the other: they cannot wait for each other. */
CALL(hipLaunchCooperativeKernel, (const void *host, Dim3 grid, Dim3 block, void **parameters, unsigned shared,
                                  void *stream),
     NOT_SUPPORTED)

enum { MOST_CONFIGURATIONS = 16 };
static __thread struct {
  Dim3 grid, block;
  size_t shared;
  void *stream;
} configurations[MOST_CONFIGURATIONS];
static __thread int configuration_count;

EXPORT int __hipPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, void *stream) {
  if (configuration_count == MOST_CONFIGURATIONS) return end(INVALID_VALUE);
  configurations[configuration_count].grid = grid;
  configurations[configuration_count].block = block;
  configurations[configuration_count].shared = shared;
  configurations[configuration_count++].stream = stream;
  return SUCCESS;
}
EXPORT int __hipPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, void **stream) {
  if (!configuration_count) return end(52); /* hipErrorMissingConfiguration */
  configuration_count--;
  *grid = configurations[configuration_count].grid;
  *block = configurations[configuration_count].block;
  *shared = configurations[configuration_count].shared;
  *stream = configurations[configuration_count].stream;
  return SUCCESS;
}

/* ---- What kernels need ------------------------------------------------------------------------------------------- */

typedef struct { /* hipFuncAttributes */
  int binary_version, cache_mode;
  size_t constant_bytes, local_bytes;
  int most_dynamic_shared, most_threads, registers, carveout, ptx_version;
  size_t shared_bytes;
} FunctionAttributes;

EXPORT int hipFuncGetAttributes(FunctionAttributes *attributes, const void *host) {
  ENTER(hipFuncGetAttributes);
  Kernel *kernel;
  int error = kernel_of_host(host, &kernel);
  if (error || !attributes) return end(error ? error : INVALID_VALUE);
  *attributes = (FunctionAttributes){.binary_version = 90, .local_bytes = kernel->scratch_bytes,
                                     .most_dynamic_shared = device()->lds_bytes - (int)kernel->lds_bytes,
                                     .most_threads = (int)kernel->max_workgroup, .registers = (int)kernel->vgprs,
                                     .ptx_version = 30, .shared_bytes = kernel->lds_bytes};
  return SUCCESS;
}
EXPORT int hipFuncGetAttribute(int *value, int attribute, void *function) {
  enum { MAX_THREADS, SHARED_BYTES, CONST_BYTES, LOCAL_BYTES, REGISTERS, PTX, BINARY, CACHE_MODE, MAX_DYNAMIC };
  ENTER(hipFuncGetAttribute);
  if (!value || !is_kernel(function)) return end(value ? INVALID_HANDLE : INVALID_VALUE);
  const Kernel *kernel = function;
  switch (attribute) {
    case MAX_THREADS: *value = (int)kernel->max_workgroup; break;
    case SHARED_BYTES: *value = (int)kernel->lds_bytes; break;
    case LOCAL_BYTES: *value = (int)kernel->scratch_bytes; break;
    case REGISTERS: *value = (int)kernel->vgprs; break;
    case PTX: *value = 30; break;
    case BINARY: *value = 90; break;
    case MAX_DYNAMIC: *value = device()->lds_bytes - (int)kernel->lds_bytes; break;
    case CONST_BYTES: case CACHE_MODE: *value = 0; break;
    default: return end(INVALID_VALUE);
  }
  return SUCCESS;
}
EXPORT int hipFuncSetAttribute(const void *host, int attribute, int value) {
  ENTER(hipFuncSetAttribute);
  Kernel *kernel;
  return end(kernel_of_host(host, &kernel));
}
CALL(hipFuncSetCacheConfig, (const void *host, int config), SUCCESS)

/* Workgroups of a kernel on one compute unit: four SIMDs of 512 registers for 8 waves at most, and its LDS. */
static int workgroups_per_unit(const Kernel *kernel, int items, size_t shared) {
  if (items <= 0 || items > (int)kernel->max_workgroup) return 0;
  int lanes = (int)lanes_of_wave(arch), waves = (items + lanes - 1) / lanes, by_registers = 512 / (int)kernel->vgprs;
  int resident = 4 * (by_registers > 8 ? 8 : by_registers), fit = resident / waves;
  size_t lds = kernel->lds_bytes + shared;
  int by_lds = lds ? (int)((size_t)device()->lds_bytes / lds) : fit;
  return fit < by_lds ? fit : by_lds;
}
static int occupancy_of_host(int *count, const void *host, int items, size_t shared) {
  Kernel *kernel;
  int error = kernel_of_host(host, &kernel);
  if (!error && !count) error = INVALID_VALUE;
  if (!error) *count = workgroups_per_unit(kernel, items, shared);
  return error;
}
CALL(hipOccupancyMaxActiveBlocksPerMultiprocessor, (int *count, const void *host, int items, size_t shared),
     occupancy_of_host(count, host, items, shared))
CALL(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *count, const void *host, int items, size_t shared,
                                                             unsigned flags),
     occupancy_of_host(count, host, items, shared))
EXPORT int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *count, void *function, int items, size_t shared) {
  ENTER(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor);
  if (!count || !is_kernel(function)) return end(count ? INVALID_HANDLE : INVALID_VALUE);
  *count = workgroups_per_unit(function, items, shared);
  return SUCCESS;
}
EXPORT int hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *host, size_t shared, int limit) {
  ENTER(hipOccupancyMaxPotentialBlockSize);
  Kernel *kernel;
  int error = kernel_of_host(host, &kernel);
  if (error) return end(error);
  int best = 0, most = limit > 0 && limit < (int)kernel->max_workgroup ? limit : (int)kernel->max_workgroup;
  for (int items = most; items > 0; items -= LANES) {
    int resident = workgroups_per_unit(kernel, items, shared) * items;
    if (resident > best) best = resident, *block = items;
  }
  if (!best) return end(OUT_OF_RESOURCES);
  *grid = device()->compute_units * (best / *block);
  return SUCCESS;
}

/* ---- The emulator's own ------------------------------------------------------------------------------------------ */

EXPORT uint32_t ckwatch_emulator_finding_count(void) { return finding_count(); }
EXPORT char *ckwatch_emulator_finding(uint32_t n) { return finding_json(n); } /* for ckwatch_emulator_free */
EXPORT void ckwatch_emulator_free(void *memory) { free(memory); }
EXPORT void ckwatch_emulator_set_checked(int value) {
  pthread_once(&settled, settle);
  checked = value != 0;
}
EXPORT void ckwatch_emulator_set_traced(int value) { traced = value != 0; }
/* Memory that may be more than the device has, since little of it is touched; for hipFree. */
EXPORT int ckwatch_emulator_reserve(void **address, uint64_t size) {
  *address = devices() ? map_guarded(size) : NULL;
  if (!*address || !keep_allocation((Allocation){*address, size, DEVICE_MEMORY, RESERVED, true, false, NULL}))
    return end(OUT_OF_MEMORY);
  if (checked) mark_undefined((uint64_t)(uintptr_t)*address, size, true);
  return SUCCESS;
}
EXPORT void ckwatch_emulator_mark_undefined(const void *address, uint64_t size) {
  mark_undefined((uint64_t)(uintptr_t)address, size, true);
}
/* One byte for each byte of memory: 1 where nothing has written it. */
EXPORT void ckwatch_emulator_undefined(const void *address, uint64_t size, uint8_t *bytes) {
  uint64_t at = (uint64_t)(uintptr_t)address;
  const Region *region = region_of(at);
  memset(bytes, 0, size);
  if (!region || !region->undefined) return;
  uint64_t rest = region->base + region->size - at;
  memcpy(bytes, region->undefined + (at - region->base), size < rest ? size : rest);
}
/* How many workgroups of each later launch are computed, and which: 0 for all. */
EXPORT void ckwatch_emulator_choose(uint32_t workgroups, uint64_t seed) {
  pthread_mutex_lock(&lock);
  choice = (Choice){workgroups ? workgroups : UINT32_MAX, seed};
  pthread_mutex_unlock(&lock);
}
/* Of all launches since the last ckwatch_emulator_clear. */
EXPORT void ckwatch_emulator_counts(uint64_t *executed, uint64_t *workgroups, uint64_t *of_workgroups) {
  drain_all();
  pthread_mutex_lock(&lock);
  if (executed) *executed = counts.executed;
  if (workgroups) *workgroups = counts.computed;
  if (of_workgroups) *of_workgroups = counts.all;
  pthread_mutex_unlock(&lock);
}
/* Forgets findings, counts, the last problem, and an error that stays. */
EXPORT void ckwatch_emulator_clear(void) {
  drain_all();
  clear_findings();
  pthread_mutex_lock(&lock);
  counts = (LaunchCounts){0};
  free(problem_text);
  problem_text = NULL;
  broken = 0;
  pthread_mutex_unlock(&lock);
  last_error = 0;
}
/* The last problem in words, until this thread asks again; NULL when there is none. */
EXPORT const char *ckwatch_emulator_problem(void) {
  pthread_mutex_lock(&lock);
  free(told_problem);
  told_problem = problem_text ? strdup(problem_text) : NULL;
  pthread_mutex_unlock(&lock);
  return told_problem;
}

__attribute__((destructor)) static void append_report(void) {
  const char *path = getenv("CKWATCH_EMULATOR_REPORT");
  FILE *file = path && *path ? fopen(path, "a") : NULL;
  if (!file) return;
  char *text;
  for (uint32_t n = 0; (text = finding_json(n)); n++) {
    fprintf(file, "%s\n", text);
    free(text);
  }
  if (problem_text) fprintf(stderr, "emulated %s: %s\n", device()->name, problem_text);
  fclose(file);
}
