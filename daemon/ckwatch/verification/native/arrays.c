/* Arrays, and copies of two and three dimensions. An array lies in memory row after row: no kernel reads one, since textures
 * and surfaces are refused. */
#include <stdlib.h>

#include "graphs.h"

struct Array {
  uint8_t *address;
  ChannelDescriptor channels;
  Extent extent; /* in elements; 0 for dimensions that it does not have */
  unsigned flags;
  size_t element;
  Array *next, *levels; /* of a mipmapped array, the next smaller one */
};

static Array *arrays;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t at_least_1(size_t n) { return n ? n : 1; }
static size_t pitch_of(const Array *array) { return array->extent.width * array->element; }
static size_t rows_of(const Array *array) { return at_least_1(array->extent.height); }

static bool is_array(const Array *wanted) {
  pthread_mutex_lock(&lock);
  const Array *one = arrays;
  while (one && one != wanted) one = one->next;
  pthread_mutex_unlock(&lock);
  return one;
}

/* ---- Descriptors ------------------------------------------------------------------------------------------------- */

/* hipArray_Format: bits of a channel, and their kind. */
static const struct {
  int format, bits, kind;
} formats[] = {{0x01, 8, 1}, {0x02, 16, 1}, {0x03, 32, 1}, {0x08, 8, 0}, {0x09, 16, 0}, {0x0a, 32, 0}, {0x10, 16, 2}, {0x20, 32, 2}};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool channels_of(int format, unsigned count, ChannelDescriptor *channels) {
  for (int n = 0; n < FORMATS; n++)
    if (formats[n].format == format && (count == 1 || count == 2 || count == 4)) {
      int bits = formats[n].bits;
      *channels = (ChannelDescriptor){bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 2 ? bits : 0, formats[n].kind};
      return true;
    }
  return false;
}
static int format_of(const ChannelDescriptor *channels) {
  for (int n = 0; n < FORMATS; n++)
    if (formats[n].bits == channels->x && formats[n].kind == channels->kind) return formats[n].format;
  return 0;
}
static unsigned channel_count(const ChannelDescriptor *channels) {
  return 1u + (channels->y > 0) + (channels->z > 0) + (channels->w > 0);
}
static bool is_valid(const ChannelDescriptor *channels) {
  const int bits[] = {channels->y, channels->z, channels->w};
  for (int n = 0; n < 3; n++)
    if (bits[n] && bits[n] != channels->x) return false;
  return format_of(channels) && channel_count(channels) != 3;
}

EXPORT ChannelDescriptor hipCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return (ChannelDescriptor){x, y, z, w, kind};
}
ACT(hipGetChannelDesc, (ChannelDescriptor *channels, const Array *array),
    channels && is_array(array), channels ? INVALID_HANDLE : INVALID_VALUE, *channels = array->channels)
EXPORT int hipArrayGetInfo(ChannelDescriptor *channels, Extent *extent, unsigned *flags, Array *array) {
  ENTER(hipArrayGetInfo);
  if (!is_array(array)) return end(INVALID_HANDLE);
  if (channels) *channels = array->channels;
  if (extent) *extent = array->extent;
  if (flags) *flags = array->flags;
  return SUCCESS;
}
ACT(hipArrayGetDescriptor, (ArrayDescriptor *descriptor, Array *array),
    descriptor && is_array(array), descriptor ? INVALID_HANDLE : INVALID_VALUE,
    *descriptor = ((ArrayDescriptor){array->extent.width, array->extent.height, format_of(&array->channels),
                                     channel_count(&array->channels)}))
ACT(hipArray3DGetDescriptor, (Array3DDescriptor *descriptor, Array *array),
    descriptor && is_array(array), descriptor ? INVALID_HANDLE : INVALID_VALUE,
    *descriptor = ((Array3DDescriptor){array->extent.width, array->extent.height, array->extent.depth,
                                       format_of(&array->channels), channel_count(&array->channels), array->flags}))

/* ---- Making and freeing ------------------------------------------------------------------------------------------ */

static int make_array(Array **made, const ChannelDescriptor *channels, Extent extent, unsigned flags) {
  if (!made || !channels || !extent.width) return INVALID_VALUE;
  if (!is_valid(channels)) return INVALID_CHANNEL_DESCRIPTOR;
  Array *array = calloc(1, sizeof *array);
  if (!array) return OUT_OF_MEMORY;
  *array = (Array){.channels = *channels, .extent = extent, .flags = flags,
                   .element = (size_t)channels->x / 8 * channel_count(channels)};
  unsigned __int128 bytes = (unsigned __int128)pitch_of(array) * rows_of(array) * at_least_1(extent.depth);
  void *address = NULL;
  int error = bytes > memory_total() ? OUT_OF_MEMORY : allocate(&address, (size_t)bytes, DEVICE_MEMORY, 0, false);
  if (error) {
    free(array);
    return error;
  }
  array->address = address;
  pthread_mutex_lock(&lock);
  array->next = arrays;
  arrays = array;
  pthread_mutex_unlock(&lock);
  *made = array;
  return SUCCESS;
}

static int free_array(Array *array) {
  if (!array) return INVALID_VALUE;
  drain_all();
  pthread_mutex_lock(&lock);
  Array **link = &arrays;
  while (*link && *link != array) link = &(*link)->next;
  bool found = *link;
  if (found) *link = array->next;
  pthread_mutex_unlock(&lock);
  if (!found) return INVALID_CONTEXT;
  release(array->address, true);
  free(array);
  return SUCCESS;
}

static int make_by_format(Array **made, int format, unsigned count, Extent extent, unsigned flags) {
  ChannelDescriptor channels;
  return channels_of(format, count, &channels) ? make_array(made, &channels, extent, flags) : INVALID_VALUE;
}

CALL(hipMallocArray, (Array **array, const ChannelDescriptor *channels, size_t width, size_t height, unsigned flags),
     make_array(array, channels, (Extent){width, height, 0}, flags))
CALL(hipMalloc3DArray, (Array **array, const ChannelDescriptor *channels, Extent extent, unsigned flags),
     make_array(array, channels, extent, flags))
CALL(hipArrayCreate, (Array **array, const ArrayDescriptor *wanted),
     wanted ? make_by_format(array, wanted->format, wanted->channels, (Extent){wanted->width, wanted->height, 0}, 0)
            : INVALID_VALUE)
CALL(hipArray3DCreate, (Array **array, const Array3DDescriptor *wanted),
     wanted ? make_by_format(array, wanted->format, wanted->channels,
                             (Extent){wanted->width, wanted->height, wanted->depth}, wanted->flags)
            : INVALID_VALUE)
CALL(hipFreeArray, (Array *array), free_array(array))
CALL(hipArrayDestroy, (Array *array), free_array(array))

EXPORT int hipMalloc3D(PitchedPointer *made, Extent extent) {
  ENTER(hipMalloc3D);
  if (!made) return end(INVALID_VALUE);
  size_t pitch = (extent.width + 255) & ~(size_t)255;
  unsigned __int128 bytes = (unsigned __int128)pitch * extent.height * extent.depth;
  *made = (PitchedPointer){NULL, pitch, extent.width, extent.height};
  return end(bytes > memory_total() ? OUT_OF_MEMORY
                                    : allocate(&made->address, (size_t)bytes, DEVICE_MEMORY, 0, false));
}

/* A mipmapped array is its levels, each half as large as the one before. */
static int free_levels(Array *level) {
  int error = level ? SUCCESS : INVALID_VALUE;
  for (Array *next; level && !error; level = next) {
    next = is_array(level) ? level->levels : NULL;
    error = free_array(level);
  }
  return error;
}
static int make_levels(Array **made, const ChannelDescriptor *channels, Extent extent, unsigned count, unsigned flags) {
  if (!count) return INVALID_VALUE;
  Array *first = NULL, **link = &first;
  for (unsigned n = 0; n < count; n++, link = &(*link)->levels) {
    int error = make_array(link, channels, extent, flags);
    if (error) {
      if (first) free_levels(first);
      return error;
    }
    extent = (Extent){at_least_1(extent.width / 2), extent.height > 1 ? extent.height / 2 : extent.height,
                      extent.depth > 1 ? extent.depth / 2 : extent.depth};
  }
  *made = first;
  return SUCCESS;
}
static int level_of(Array **found, Array *array, unsigned level) {
  if (!found || !is_array(array)) return found ? INVALID_HANDLE : INVALID_VALUE;
  for (; array && level; level--) array = array->levels;
  if (!array) return INVALID_VALUE;
  *found = array;
  return SUCCESS;
}
static int make_levels_by_format(Array **made, const Array3DDescriptor *wanted, unsigned count) {
  ChannelDescriptor channels;
  if (!made || !wanted || !channels_of(wanted->format, wanted->channels, &channels)) return INVALID_VALUE;
  return make_levels(made, &channels, (Extent){wanted->width, wanted->height, wanted->depth}, count, wanted->flags);
}
CALL(hipMallocMipmappedArray, (Array **made, const ChannelDescriptor *channels, Extent extent, unsigned levels, unsigned flags),
     !made ? INVALID_VALUE : make_levels(made, channels, extent, levels, flags))
CALL(hipMipmappedArrayCreate, (Array **made, const Array3DDescriptor *wanted, unsigned levels),
     make_levels_by_format(made, wanted, levels))
CALL(hipFreeMipmappedArray, (Array *array), free_levels(array))
CALL(hipMipmappedArrayDestroy, (Array *array), free_levels(array))
CALL(hipGetMipmappedArrayLevel, (Array **found, Array *array, unsigned level), level_of(found, array, level))
CALL(hipMipmappedArrayGetLevel, (Array **found, Array *array, unsigned level), level_of(found, array, level))

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

/* The part of an array that begins at bytes x of row y of layer z. */
static int part_of_array(Array *array, size_t x, size_t y, size_t z, size_t width, size_t height, size_t depth, Side *side) {
  if (!is_array(array)) return INVALID_HANDLE;
  size_t pitch = pitch_of(array), rows = rows_of(array), layers = at_least_1(array->extent.depth);
  if (x > pitch || width > pitch - x || y > rows || height > rows - y || z > layers || depth > layers - z)
    return INVALID_VALUE;
  *side = (Side){array->address + x + pitch * (y + rows * z), pitch, pitch * rows};
  return SUCCESS;
}
static Side part_of_pointer(void *address, size_t pitch, size_t rows, size_t x, size_t y, size_t z) {
  return (Side){(uint8_t *)address + x + pitch * (y + rows * z), pitch, pitch * rows};
}

int block_of(const Copy3D *copy, Copy *block) {
  if (!copy || !!copy->source_array == !!copy->source.address || !!copy->target_array == !!copy->target.address)
    return INVALID_VALUE;
  if ((copy->source_array && !is_array(copy->source_array)) || (copy->target_array && !is_array(copy->target_array)))
    return INVALID_HANDLE;
  if (copy->source_array && copy->target_array && copy->source_array->element != copy->target_array->element)
    return INVALID_VALUE;
  size_t element = copy->source_array ? copy->source_array->element : copy->target_array ? copy->target_array->element : 1;
  Extent extent = copy->extent;
  Position from = copy->source_position, to = copy->target_position;
  *block = (Copy){.width = extent.width * element, .height = extent.height, .depth = extent.depth, .kind = copy->kind};
  if (!extent.width || !extent.height || !extent.depth) return SUCCESS;
  int error = SUCCESS;
  if (copy->source_array)
    error = part_of_array(copy->source_array, from.x * element, from.y, from.z, block->width, extent.height, extent.depth,
                          &block->source);
  else
    block->source = part_of_pointer(copy->source.address, copy->source.pitch, copy->source.height, from.x, from.y, from.z);
  if (!error && copy->target_array)
    error = part_of_array(copy->target_array, to.x * element, to.y, to.z, block->width, extent.height, extent.depth,
                          &block->target);
  else if (!error)
    block->target = part_of_pointer(copy->target.address, copy->target.pitch, copy->target.height, to.x, to.y, to.z);
  return error;
}

enum { HOST = 1, DEVICE, MANAGED, ARRAY = 10, UNIFIED = 11 }; /* hipMemoryType */

static int driver_side(const DriverSide3D *given, const DriverCopy3D *copy, Side *side, bool *is_device) {
  *is_device = given->memory != HOST;
  if (given->memory == ARRAY)
    return part_of_array(given->array, given->x, given->y, given->z, copy->width, copy->height, copy->depth, side);
  void *address = given->memory == HOST ? given->host : given->device;
  if (!address || given->memory < HOST || (given->memory > MANAGED && given->memory != UNIFIED)) return INVALID_VALUE;
  size_t pitch = given->pitch ? given->pitch : given->x + copy->width;
  if (pitch < given->x + copy->width) return INVALID_VALUE;
  *side = part_of_pointer(address, pitch, given->height ? given->height : given->y + copy->height, given->x, given->y, given->z);
  if (given->memory == MANAGED || given->memory == UNIFIED) *is_device = allocation_of(address, 1).address;
  return SUCCESS;
}
int block_of_driver(const DriverCopy3D *copy, Copy *block) {
  if (!copy) return INVALID_VALUE;
  bool from_device, to_device;
  *block = (Copy){.width = copy->width, .height = copy->height, .depth = copy->depth};
  if (!copy->width || !copy->height || !copy->depth) return SUCCESS;
  int error = driver_side(&copy->source, copy, &block->source, &from_device);
  if (!error) error = driver_side(&copy->target, copy, &block->target, &to_device);
  if (!error) block->kind = from_device ? to_device ? 3 : 2 : to_device ? 1 : 0;
  return error;
}
static int copy_3d(const Copy3D *copy, void *stream, bool wait) {
  Copy block;
  int error = block_of(copy, &block);
  return error ? error : copy_block(&block, stream, wait);
}
static int copy_driver(const DriverCopy3D *copy, void *stream, bool wait) {
  Copy block;
  int error = block_of_driver(copy, &block);
  return error ? error : copy_block(&block, stream, wait);
}
static int copy_driver_2d(const DriverCopy2D *copy, void *stream, bool wait) {
  if (!copy) return INVALID_VALUE;
  const DriverSide2D *from = &copy->source, *to = &copy->target;
  return copy_driver(&(DriverCopy3D){{from->x, from->y, 0, 0, from->memory, from->host, from->device, from->array, from->pitch, 0},
                                     {to->x, to->y, 0, 0, to->memory, to->host, to->device, to->array, to->pitch, 0},
                                     copy->width, copy->height, 1},
                     stream, wait);
}
static int copy_peers(const PeerCopy3D *peers, void *stream, bool wait) {
  if (!peers) return INVALID_VALUE;
  if (!is_device(peers->source_device) || !is_device(peers->target_device)) return INVALID_DEVICE;
  return copy_3d(&(Copy3D){peers->source_array, peers->source_position, peers->source, peers->target_array,
                           peers->target_position, peers->target, peers->extent, 3},
                 stream, wait);
}
CALL(hipMemcpy3D, (const Copy3D *copy), copy_3d(copy, NULL, true))
CALL(hipMemcpy3DAsync, (const Copy3D *copy, void *stream), copy_3d(copy, stream, false))
CALL(hipMemcpy3D_spt, (const Copy3D *copy), copy_3d(copy, PER_THREAD, true))
CALL(hipMemcpy3DAsync_spt, (const Copy3D *copy, void *stream), copy_3d(copy, per_thread(stream), false))
CALL(hipDrvMemcpy3D, (const DriverCopy3D *copy), copy_driver(copy, NULL, true))
CALL(hipDrvMemcpy3DAsync, (const DriverCopy3D *copy, void *stream), copy_driver(copy, stream, false))
CALL(hipMemcpyParam2D, (const DriverCopy2D *copy), copy_driver_2d(copy, NULL, true))
CALL(hipMemcpyParam2DAsync, (const DriverCopy2D *copy, void *stream), copy_driver_2d(copy, stream, false))
CALL(hipDrvMemcpy2DUnaligned, (const DriverCopy2D *copy), copy_driver_2d(copy, NULL, true))
CALL(hipMemcpy3DPeer, (const PeerCopy3D *copy), copy_peers(copy, NULL, true))
CALL(hipMemcpy3DPeerAsync, (const PeerCopy3D *copy, void *stream), copy_peers(copy, stream, false))

/* Offsets and widths in bytes; an array on either side, memory on the other one. */
static int to_array(Array *array, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind,
                    void *stream, bool wait) {
  Copy block = {.source = {(uint8_t *)from, pitch, 0}, .width = width, .height = height, .depth = 1, .kind = kind};
  int error = part_of_array(array, x, y, 0, width, height, 1, &block.target);
  return error ? error : copy_block(&block, stream, wait);
}
static int from_array(void *to, size_t pitch, Array *array, size_t x, size_t y, size_t width, size_t height, int kind,
                      void *stream, bool wait) {
  Copy block = {.target = {to, pitch, 0}, .width = width, .height = height, .depth = 1, .kind = kind};
  int error = part_of_array(array, x, y, 0, width, height, 1, &block.source);
  return error ? error : copy_block(&block, stream, wait);
}
static int between_arrays(Array *to, size_t to_x, size_t to_y, Array *from, size_t from_x, size_t from_y, size_t width,
                          size_t height, int kind) {
  Copy block = {.width = width, .height = height, .depth = 1, .kind = kind};
  int error = part_of_array(to, to_x, to_y, 0, width, height, 1, &block.target);
  if (!error) error = part_of_array(from, from_x, from_y, 0, width, height, 1, &block.source);
  return error ? error : copy_block(&block, NULL, true);
}
#define TO_ARRAY (Array *array, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind)
#define FROM_ARRAY (void *to, size_t pitch, Array *array, size_t x, size_t y, size_t width, size_t height, int kind)
CALL(hipMemcpy2DToArray, TO_ARRAY, to_array(array, x, y, from, pitch, width, height, kind, NULL, true))
CALL(hipMemcpy2DToArray_spt, TO_ARRAY, to_array(array, x, y, from, pitch, width, height, kind, PER_THREAD, true))
CALL(hipMemcpy2DFromArray, FROM_ARRAY, from_array(to, pitch, array, x, y, width, height, kind, NULL, true))
CALL(hipMemcpy2DFromArray_spt, FROM_ARRAY, from_array(to, pitch, array, x, y, width, height, kind, PER_THREAD, true))
CALL(hipMemcpy2DToArrayAsync, (Array *array, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
                               int kind, void *stream),
     to_array(array, x, y, from, pitch, width, height, kind, stream, false))
CALL(hipMemcpy2DToArrayAsync_spt, (Array *array, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                   size_t height, int kind, void *stream),
     to_array(array, x, y, from, pitch, width, height, kind, per_thread(stream), false))
CALL(hipMemcpy2DFromArrayAsync, (void *to, size_t pitch, Array *array, size_t x, size_t y, size_t width, size_t height,
                                 int kind, void *stream),
     from_array(to, pitch, array, x, y, width, height, kind, stream, false))
CALL(hipMemcpy2DFromArrayAsync_spt, (void *to, size_t pitch, Array *array, size_t x, size_t y, size_t width, size_t height,
                                     int kind, void *stream),
     from_array(to, pitch, array, x, y, width, height, kind, per_thread(stream), false))
CALL(hipMemcpy2DArrayToArray, (Array *to, size_t to_x, size_t to_y, Array *from, size_t from_x, size_t from_y, size_t width,
                               size_t height, int kind),
     between_arrays(to, to_x, to_y, from, from_x, from_y, width, height, kind))

/* Any number of bytes, row after row. */
static int linear_part(Array *array, size_t x, size_t y, size_t size, Side *side) {
  if (!is_array(array)) return INVALID_HANDLE;
  size_t all = pitch_of(array) * rows_of(array) * at_least_1(array->extent.depth), at = x + pitch_of(array) * y;
  if (at > all || size > all - at) return INVALID_VALUE;
  *side = (Side){array->address + at, size, size};
  return SUCCESS;
}
static int to_array_linear(Array *array, size_t x, size_t y, const void *from, size_t size, int kind) {
  Side part;
  int error = linear_part(array, x, y, size, &part);
  return error ? error : copy_now(part.address, from, size, kind);
}
static int from_array_linear(void *to, Array *array, size_t x, size_t y, size_t size, int kind) {
  Side part;
  int error = linear_part(array, x, y, size, &part);
  return error ? error : copy_now(to, part.address, size, kind);
}
CALL(hipMemcpyToArray, (Array *array, size_t x, size_t y, const void *from, size_t size, int kind),
     to_array_linear(array, x, y, from, size, kind))
CALL(hipMemcpyFromArray, (void *to, Array *array, size_t x, size_t y, size_t size, int kind),
     from_array_linear(to, array, x, y, size, kind))
CALL(hipMemcpyFromArray_spt, (void *to, Array *array, size_t x, size_t y, size_t size, int kind),
     from_array_linear(to, array, x, y, size, kind))
CALL(hipMemcpyHtoA, (Array *array, size_t at, const void *from, size_t size),
     to_array(array, at, 0, from, size, size, 1, 1, NULL, true))
CALL(hipMemcpyHtoAAsync, (Array *array, size_t at, const void *from, size_t size, void *stream),
     to_array(array, at, 0, from, size, size, 1, 1, stream, false))
CALL(hipMemcpyDtoA, (Array *array, size_t at, const void *from, size_t size),
     to_array(array, at, 0, from, size, size, 1, 3, NULL, true))
CALL(hipMemcpyAtoH, (void *to, Array *array, size_t at, size_t size),
     from_array(to, size, array, at, 0, size, 1, 2, NULL, true))
CALL(hipMemcpyAtoHAsync, (void *to, Array *array, size_t at, size_t size, void *stream),
     from_array(to, size, array, at, 0, size, 1, 2, stream, false))
CALL(hipMemcpyAtoD, (void *to, Array *array, size_t at, size_t size),
     from_array(to, size, array, at, 0, size, 1, 3, NULL, true))
CALL(hipMemcpyAtoA, (Array *to, size_t to_at, Array *from, size_t from_at, size_t size),
     between_arrays(to, to_at, 0, from, from_at, 0, size, 1, 3))
