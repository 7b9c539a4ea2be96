/* Memory of the device and of the host, and copies and fills. */
#include "hip.h"

#include <stdlib.h>
#include <unistd.h>

uint64_t memory_total(void) {
  return (uint64_t)told_number("MEMORY", (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
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

int allocate(void **address, size_t size, RegionKind kind, unsigned flags, bool is_managed) {
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
  if (is_checked() && kind == DEVICE_MEMORY) mark_undefined((uint64_t)(uintptr_t)memory, size, true);
  *address = memory;
  return SUCCESS;
}

bool release(void *address, bool mapped) {
  pthread_mutex_lock(&lock);
  Allocation **link = &allocations;
  while (*link && !((*link)->address == address && (*link)->is_mapped == mapped)) link = &(*link)->next;
  Allocation *found = *link;
  if (found) {
    *link = found->next;
    if (mapped) memory_used -= found->size;
  }
  pthread_mutex_unlock(&lock);
  if (!found) return false;
  remove_region((uint64_t)(uintptr_t)address);
  if (mapped) unmap_guarded(found->address, found->size);
  free(found);
  return true;
}

Allocation allocation_of(const void *address, size_t size) {
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

bool is_ours(const void *address, size_t size) {
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

int copy_now(void *target, const void *source, size_t size, int kind) {
  int error = check_copy(target, source, size, kind);
  if (error || !size) return error;
  drain(stream_of(NULL));
  copy_bytes(target, source, size);
  return broken;
}

/* Copies from or to memory of the program's own are over when the call returns: it may be freed or changed then. */
int copy_later(void *target, const void *source, size_t size, int kind, void *handle) {
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
