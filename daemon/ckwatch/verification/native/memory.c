/* Memory of the device and of the host, and copies and fills. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graphs.h"
#include "watch.h"

static uint64_t total;
static void find_total(void) { total = machine_memory(); }
uint64_t memory_total(void) {
  static pthread_once_t found = PTHREAD_ONCE_INIT;
  pthread_once(&found, find_total);
  return (uint64_t)told_number("MEMORY", (long long)(total / 2));
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { RESERVED = 1u << 31 }; /* as `flags`: of which little is used */
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
  begin_watch();
  pthread_mutex_lock(&lock);
  bool fits = size <= memory_total() && memory_used <= memory_total() - size;
  if (fits) memory_used += size;
  pthread_mutex_unlock(&lock);
  uint8_t *memory = fits ? map_guarded(size) : NULL;
  if (!memory) {
    pthread_mutex_lock(&lock);
    if (fits) memory_used -= size;
    uint64_t used = memory_used;
    pthread_mutex_unlock(&lock);
    static atomic_bool said;
    if (!atomic_exchange(&said, true))
      fprintf(stderr, "emulated %s: hipErrorOutOfMemory for %zu bytes: of the %.2f GiB that the device has, half of this machine's, "
                      "%.2f GiB are in use\n",
              device()->name, size, (double)memory_total() / (1 << 30), (double)used / (1 << 30));
    return OUT_OF_MEMORY;
  }
  if (!keep_allocation((Allocation){memory, size, kind, flags, true, is_managed, NULL})) return OUT_OF_MEMORY;
  if (is_checked() && kind == DEVICE_MEMORY) mark_undefined((uint64_t)(uintptr_t)memory, size, true);
  *address = memory;
  return SUCCESS;
}

int reserve(void **address, size_t size) {
  *address = devices() ? map_guarded(size) : NULL;
  if (!*address || !keep_allocation((Allocation){*address, size, DEVICE_MEMORY, RESERVED, true, false, NULL}))
    return OUT_OF_MEMORY;
  if (is_checked()) mark_undefined((uint64_t)(uintptr_t)*address, size, true);
  return SUCCESS;
}

bool release(void *address, bool mapped) {
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

char *largest_allocation(void) {
  Allocation largest = {0};
  uint64_t most = 0, kept = 0, count = 0;
  char *text = NULL;
  pthread_mutex_lock(&lock);
  for (const Allocation *one = allocations; one; one = one->next, count++) {
    const Region *region = region_of((uint64_t)(uintptr_t)one->address);
    uint64_t checks = region ? bytes_of_checks(region) : 0, all = checks + resident_bytes(one->address, one->size);
    if (all < most) continue;
    largest = *one;
    most = all;
    kept = checks;
  }
  if (asprintf(&text, "of %" PRIu64 " allocations the one that takes most is that of %zu bytes, which takes %.2f GiB, %.2f GiB of it for the checks",
               count, largest.size, (double)most / (1 << 30), (double)kept / (1 << 30)) < 0)
    abort();
  pthread_mutex_unlock(&lock);
  return text;
}

bool is_ours(const void *address, size_t size) {
  if (allocation_of(address, size).address) return true;
  uint64_t at = (uint64_t)(uintptr_t)address;
  const Region *region = region_of(at);
  return region && size <= region->base + region->size - at;
}

static int allocate_on_device(void **address, size_t size) {
  int error = refuse_in_capture();
  return error ? error : allocate(address, size, DEVICE_MEMORY, 0, false);
}
CALL(hipMalloc, (void **address, size_t size), allocate_on_device(address, size))
EXPORT int hipExtMallocWithFlags(void **address, size_t size, unsigned flags) {
  enum { SIGNAL_MEMORY = 2 };
  ENTER(hipExtMallocWithFlags);
  if (flags == SIGNAL_MEMORY && (size != 8 || lacks("signal-memory"))) return end(INVALID_VALUE);
  return end(allocate(address, size, flags == SIGNAL_MEMORY ? HOST_MEMORY : DEVICE_MEMORY, flags, false));
}
CALL(hipMallocManaged, (void **address, size_t size, unsigned flags), allocate(address, size, HOST_MEMORY, flags, true))
static int allocate_rows(void **address, size_t *pitch, size_t width, size_t height) {
  if (!address || !pitch) return INVALID_VALUE;
  *pitch = (width + 255) & ~(size_t)255;
  return height && *pitch > memory_total() / height ? OUT_OF_MEMORY
                                                    : allocate(address, *pitch * height, DEVICE_MEMORY, 0, false);
}
CALL(hipMallocPitch, (void **address, size_t *pitch, size_t width, size_t height),
     allocate_rows(address, pitch, width, height))
CALL(hipMemAllocPitch, (void **address, size_t *pitch, size_t width, size_t height, unsigned element),
     element != 4 && element != 8 && element != 16 ? INVALID_VALUE : allocate_rows(address, pitch, width, height))
static int allocate_host(void **address, size_t size, unsigned flags) {
  return lacks("host-memory") ? OUT_OF_MEMORY : allocate(address, size, HOST_MEMORY, flags, false);
}
CALL(hipHostMalloc, (void **address, size_t size, unsigned flags), allocate_host(address, size, flags))
CALL(hipHostAlloc, (void **address, size_t size, unsigned flags), allocate_host(address, size, flags))
CALL(hipMallocHost, (void **address, size_t size), allocate_host(address, size, 0))
CALL(hipMemAllocHost, (void **address, size_t size), allocate_host(address, size, 0))

static int free_memory(void *address) {
  int error = refuse_in_capture();
  if (error) return error;
  drain_all(); /* as HIP does */
  return !address || release(address, true) ? SUCCESS : INVALID_VALUE;
}
CALL(hipFree, (void *address), free_memory(address))
CALL(hipHostFree, (void *address), free_memory(address))
CALL(hipFreeHost, (void *address), free_memory(address))
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

EXPORT int hipDrvPointerGetAttributes(unsigned count, int *attributes, void **data, void *address) {
  ENTER(hipDrvPointerGetAttributes);
  if (!count || !attributes || !data) return end(INVALID_VALUE);
  for (unsigned n = 0; n < count; n++)
    if (!data[n] || hipPointerGetAttribute(data[n], attributes[n], address) == INVALID_VALUE) return end(INVALID_VALUE);
  return SUCCESS;
}
CALL(hipPointerSetAttribute, (const int *value, int attribute, void *address),
     value && attribute == 6 && allocation_of(address, 1).address ? SUCCESS : INVALID_VALUE) /* SYNC_MEMOPS */

/* ---- Copies and fills -------------------------------------------------------------------------------------------- */

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, BY_ADDRESS, WITHOUT_UNITS = 1024 };

/* hipMemcpy3DParms of a copy between addresses. */
static Copy3D node_of(const Copy *copy) {
  size_t rows = copy->depth > 1 ? copy->target.slice / copy->target.pitch : copy->height;
  return (Copy3D){.source = {copy->source.address, copy->source.pitch, copy->width, rows},
                  .target = {copy->target.address, copy->target.pitch, copy->width, rows},
                  .extent = {copy->width, copy->height, copy->depth}, .kind = copy->kind};
}

/* One side of a copy: the device touches only what it has, and a NULL or a row that is longer than its pitch is a mistake. */
static int check_side(const Copy *copy, const Side *side, bool is_device) {
  if (copy->height * copy->depth > 1 && copy->width > side->pitch) return INVALID_PITCH;
  size_t span = side->slice * (copy->depth - 1) + side->pitch * (copy->height - 1) + copy->width;
  return is_device && !is_ours(side->address, span) ? INVALID_VALUE : SUCCESS;
}
int check_copy(const Copy *copy) {
  if (!copy->width || !copy->height || !copy->depth) return SUCCESS;
  if (!copy->target.address || !copy->source.address) return INVALID_VALUE;
  int kind = copy->kind == WITHOUT_UNITS ? DEVICE_TO_DEVICE : copy->kind;
  if (kind < HOST_TO_HOST || kind > BY_ADDRESS) return INVALID_MEMCPY_DIRECTION;
  bool to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
  bool from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
  if (kind == BY_ADDRESS) {
    to_device = allocation_of(copy->target.address, 1).address != NULL;
    from_device = allocation_of(copy->source.address, 1).address != NULL;
  }
  int error = check_side(copy, &copy->target, to_device);
  return error ? error : check_side(copy, &copy->source, from_device);
}

/* Copies from or to memory of the program's own are over when the call returns: it may be freed or changed then. */
int copy_block(const Copy *copy, void *handle, bool wait) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  int error = wait ? refuse_in_capture() : SUCCESS;
  if (!error) error = check_copy(copy);
  if (error || !copy->width || !copy->height || !copy->depth) return error;
  error = submit(handle, &(Operation){.type = COPY_NODE, .copy = {.block = *copy, .node = node_of(copy)}});
  if (error || is_capturing(stream)) return error;
  if (wait || !is_ours(copy->target.address, 1) || !is_ours(copy->source.address, 1)) drain(stream);
  return wait ? broken : SUCCESS;
}
static Copy row(void *target, const void *source, size_t size, int kind) {
  return (Copy){{target, size, size}, {(uint8_t *)source, size, size}, size, 1, 1, kind};
}
int copy_later(void *target, const void *source, size_t size, int kind, void *stream) {
  Copy copy = row(target, source, size, kind);
  return copy_block(&copy, stream, false);
}
static int copy_and_wait(void *target, const void *source, size_t size, int kind, void *stream) {
  Copy copy = row(target, source, size, kind);
  return copy_block(&copy, stream, true);
}
int copy_now(void *target, const void *source, size_t size, int kind) {
  Copy copy = row(target, source, size, kind);
  int error = refuse_in_capture();
  if (!error) error = check_copy(&copy);
  if (error || !size) return error;
  drain(stream_of(NULL));
  copy_bytes(target, source, size);
  return broken;
}

CALL(hipMemcpy, (void *target, const void *source, size_t size, int kind), copy_now(target, source, size, kind))
CALL(hipMemcpy_spt, (void *target, const void *source, size_t size, int kind),
     copy_and_wait(target, source, size, kind, PER_THREAD))
CALL(hipMemcpyAsync, (void *target, const void *source, size_t size, int kind, void *stream),
     copy_later(target, source, size, kind, stream))
CALL(hipMemcpyAsync_spt, (void *target, const void *source, size_t size, int kind, void *stream),
     copy_later(target, source, size, kind, per_thread(stream)))
CALL(hipMemcpyWithStream, (void *target, const void *source, size_t size, int kind, void *stream),
     copy_and_wait(target, source, size, kind, stream))
CALL(hipMemcpyHtoD, (void *target, void *source, size_t size), copy_now(target, source, size, HOST_TO_DEVICE))
CALL(hipMemcpyDtoH, (void *target, void *source, size_t size), copy_now(target, source, size, DEVICE_TO_HOST))
CALL(hipMemcpyDtoD, (void *target, void *source, size_t size), copy_now(target, source, size, DEVICE_TO_DEVICE))
CALL(hipMemcpyHtoDAsync, (void *target, const void *source, size_t size, void *stream),
     copy_later(target, source, size, HOST_TO_DEVICE, stream))
CALL(hipMemcpyDtoHAsync, (void *target, void *source, size_t size, void *stream),
     copy_later(target, source, size, DEVICE_TO_HOST, stream))
CALL(hipMemcpyDtoDAsync, (void *target, void *source, size_t size, void *stream),
     copy_later(target, source, size, DEVICE_TO_DEVICE, stream))
CALL(hipMemcpyPeer, (void *target, int to, const void *source, int from, size_t size),
     is_device(to) && is_device(from) ? copy_now(target, source, size, DEVICE_TO_DEVICE) : INVALID_DEVICE)
CALL(hipMemcpyPeerAsync, (void *target, int to, const void *source, int from, size_t size, void *stream),
     is_device(to) && is_device(from) ? copy_later(target, source, size, DEVICE_TO_DEVICE, stream) : INVALID_DEVICE)
EXPORT int hipMemcpyBatchAsync(void **targets, void **sources, size_t *sizes, size_t count, void *attributes,
                               size_t *indices, size_t attribute_count, size_t *failed, void *stream) {
  ENTER(hipMemcpyBatchAsync);
  if (!targets || !sources || !sizes || !count) return end(INVALID_VALUE);
  for (size_t n = 0; n < count; n++) {
    int error = copy_later(targets[n], sources[n], sizes[n], BY_ADDRESS, stream);
    if (error && failed) *failed = n;
    if (error) return end(error);
  }
  return SUCCESS;
}

static int copy_rows(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                     size_t height, int kind, void *stream, bool wait) {
  if (width > target_pitch || width > source_pitch) return width && height ? INVALID_PITCH : SUCCESS;
  return copy_block(&(Copy){{target, target_pitch, 0}, {(uint8_t *)source, source_pitch, 0}, width, height, 1, kind},
                    stream, wait);
}
#define ROWS void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width, size_t height, int kind
CALL(hipMemcpy2D, (ROWS), copy_rows(target, target_pitch, source, source_pitch, width, height, kind, NULL, true))
CALL(hipMemcpy2D_spt, (ROWS),
     copy_rows(target, target_pitch, source, source_pitch, width, height, kind, PER_THREAD, true))
CALL(hipMemcpy2DAsync, (ROWS, void *stream),
     copy_rows(target, target_pitch, source, source_pitch, width, height, kind, stream, false))
CALL(hipMemcpy2DAsync_spt, (ROWS, void *stream),
     copy_rows(target, target_pitch, source, source_pitch, width, height, kind, per_thread(stream), false))

int check_fill(const Fill *fill) {
  if (!fill->width || !fill->height || !fill->depth) return SUCCESS;
  size_t bytes = fill->width * (size_t)fill->element;
  if (fill->height * fill->depth > 1 && bytes > fill->target.pitch) return INVALID_VALUE;
  size_t span = fill->target.slice * (fill->depth - 1) + fill->target.pitch * (fill->height - 1) + bytes;
  return fill->target.address && is_ours(fill->target.address, span) ? SUCCESS : INVALID_VALUE;
}
static int fill_block(Fill fill, void *handle, bool wait) {
  Stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  int error = wait ? refuse_in_capture() : SUCCESS;
  if (!error) error = check_fill(&fill);
  if (error || !fill.width || !fill.height || !fill.depth) return error;
  FillNode node = {fill.target.address, (unsigned)fill.element, fill.height, fill.target.pitch, fill.value, fill.width};
  error = submit(handle, &(Operation){.type = FILL_NODE, .fill = {fill, node}});
  if (error || is_capturing(stream)) return error;
  if (wait) drain(stream);
  return wait ? broken : SUCCESS;
}
static Fill line(void *target, uint32_t value, size_t count, int element) {
  return (Fill){{target, count * (size_t)element, 0}, value, element, count, 1, 1};
}
static Fill rows(void *target, size_t pitch, uint32_t value, size_t width, size_t height, int element) {
  return (Fill){{target, pitch, 0}, value, element, width, height, 1};
}
static Fill layers(PitchedPointer to, int value, Extent extent) {
  return (Fill){{to.address, to.pitch, to.pitch * to.height}, (uint32_t)value, 1, extent.width, extent.height, extent.depth};
}
/* Each waits, or has a twin that ends in Async and takes a stream. */
#define FILL_CALLS(name, parameters, fill)                         \
  CALL(name, (parameters), fill_block(fill, NULL, true))           \
  CALL(name##Async, (parameters, void *stream), fill_block(fill, stream, false))
#define SPT_FILL_CALLS(name, parameters, fill)                          \
  CALL(name##_spt, (parameters), fill_block(fill, PER_THREAD, true))    \
  CALL(name##Async_spt, (parameters, void *stream), fill_block(fill, per_thread(stream), false))
#define COMMA ,
#define LINE(type) void *target COMMA type value COMMA size_t count
#define GRID(type) void *target COMMA size_t pitch COMMA type value COMMA size_t width COMMA size_t height
#define BOX PitchedPointer target COMMA int value COMMA Extent extent
FILL_CALLS(hipMemset, LINE(int), line(target, (uint32_t)value, count, 1))
FILL_CALLS(hipMemsetD8, LINE(uint8_t), line(target, value, count, 1))
FILL_CALLS(hipMemsetD16, LINE(uint16_t), line(target, value, count, 2))
FILL_CALLS(hipMemsetD32, LINE(int), line(target, (uint32_t)value, count, 4))
FILL_CALLS(hipMemset2D, GRID(int), rows(target, pitch, (uint32_t)value, width, height, 1))
FILL_CALLS(hipMemsetD2D8, GRID(uint8_t), rows(target, pitch, value, width, height, 1))
FILL_CALLS(hipMemsetD2D16, GRID(uint16_t), rows(target, pitch, value, width, height, 2))
FILL_CALLS(hipMemsetD2D32, GRID(uint32_t), rows(target, pitch, value, width, height, 4))
FILL_CALLS(hipMemset3D, BOX, layers(target, value, extent))
SPT_FILL_CALLS(hipMemset, LINE(int), line(target, (uint32_t)value, count, 1))
SPT_FILL_CALLS(hipMemset2D, GRID(int), rows(target, pitch, (uint32_t)value, width, height, 1))
SPT_FILL_CALLS(hipMemset3D, BOX, layers(target, value, extent))
