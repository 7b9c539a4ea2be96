/* The structures of HIP's headers that programs hand over. */
#ifndef HIP_TYPES_H
#define HIP_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint32_t x, y, z;
} Dim3;

typedef struct Array Array;
typedef struct Graph Graph;
typedef struct Node Node;

typedef struct { /* hipChannelFormatDesc */
  int x, y, z, w, kind;
} ChannelDescriptor;

typedef struct { /* hipExtent */
  size_t width, height, depth;
} Extent;
typedef struct { /* hipPos */
  size_t x, y, z;
} Position;
typedef struct { /* hipPitchedPtr */
  void *address;
  size_t pitch, width, height;
} PitchedPointer;

typedef struct { /* HIP_ARRAY_DESCRIPTOR */
  size_t width, height;
  int format;
  unsigned channels;
} ArrayDescriptor;
typedef struct { /* HIP_ARRAY3D_DESCRIPTOR */
  size_t width, height, depth;
  int format;
  unsigned channels, flags;
} Array3DDescriptor;

typedef struct { /* hipMemcpy3DParms */
  Array *source_array;
  Position source_position;
  PitchedPointer source;
  Array *target_array;
  Position target_position;
  PitchedPointer target;
  Extent extent;
  int kind;
} Copy3D;
typedef struct { /* hipMemcpy3DPeerParms */
  Array *source_array;
  Position source_position;
  PitchedPointer source;
  int source_device;
  Array *target_array;
  Position target_position;
  PitchedPointer target;
  int target_device;
  Extent extent;
} PeerCopy3D;

typedef struct { /* a side of hip_Memcpy2D */
  size_t x, y;
  int memory;
  void *host, *device;
  Array *array;
  size_t pitch;
} DriverSide2D;
typedef struct { /* hip_Memcpy2D */
  DriverSide2D source, target;
  size_t width, height;
} DriverCopy2D;
typedef struct { /* a side of HIP_MEMCPY3D */
  size_t x, y, z, level;
  int memory;
  void *host, *device;
  Array *array;
  size_t pitch, height;
} DriverSide3D;
typedef struct { /* HIP_MEMCPY3D */
  DriverSide3D source, target;
  size_t width, height, depth;
} DriverCopy3D;

typedef struct { /* hipKernelNodeParams */
  Dim3 block;
  void **extra, *function;
  Dim3 grid;
  void **parameters;
  unsigned shared;
} KernelNode;
typedef struct { /* hipMemsetParams */
  void *target;
  unsigned element;
  size_t height, pitch;
  unsigned value;
  size_t width;
} FillNode;
typedef struct { /* hipHostNodeParams */
  void (*function)(void *);
  void *data;
} HostNode;

typedef struct { /* hipMemLocation */
  int type, number;
} Location;
typedef struct { /* hipMemAccessDesc */
  Location location;
  int flags;
} AccessDescriptor;
typedef struct { /* hipMemPoolProps */
  int type, handle_types;
  Location location;
  void *security;
  size_t most;
  uint8_t reserved[56];
} PoolProperties;
typedef struct { /* hipMemAllocNodeParams */
  PoolProperties properties;
  const AccessDescriptor *access;
  size_t access_count, size;
  void *address;
} AllocationNode;
typedef struct { /* hipMemAllocationProp */
  int type, handle_type;
  Location location;
  void *win32;
  uint8_t compression, rdma;
  uint16_t usage;
} AllocationProperties;

typedef struct { /* hipStreamBatchMemOpParams: a wait for a value, or a write of one */
  int operation;
  void *address;
  uint64_t value;
  unsigned flags;
  uint64_t alias, mask; /* the last is none of HIP's */
} ValueOperation;
typedef struct { /* hipBatchMemOpNodeParams */
  void *context;
  unsigned count;
  ValueOperation *operations;
  unsigned flags;
} ValuesNode;

typedef struct { /* hipGraphNodeParams */
  int type, reserved_0[3];
  union {
    long long reserved_1[29];
    KernelNode kernel;
    struct {
      int flags, reserved[3];
      Copy3D copy;
    } copy;
    FillNode fill;
    HostNode host;
    Graph *graph;
    void *event;
    AllocationNode allocation;
    void *freed;
  };
  long long reserved_2;
} NodeParameters;

typedef struct { /* hipLaunchAttribute */
  int number, padding;
  union {
    char bytes[64];
    int value;
  };
} LaunchAttribute;
typedef struct { /* hipLaunchConfig_t */
  Dim3 grid, block;
  size_t shared;
  void *stream;
  const LaunchAttribute *attributes;
  unsigned attribute_count;
} LaunchConfig;
typedef struct { /* HIP_LAUNCH_CONFIG */
  Dim3 grid, block;
  unsigned shared;
  void *stream;
  const LaunchAttribute *attributes;
  unsigned attribute_count;
} DriverLaunchConfig;
typedef struct { /* hipGraphInstantiateParams */
  Node *failed;
  unsigned long long flags;
  int result;
  void *upload_stream;
} InstantiateParameters;
typedef struct { /* hipFuncAttributes */
  int binary_version, cache_mode;
  size_t constant_bytes, local_bytes;
  int most_dynamic_shared, most_threads, registers, carveout, ptx_version;
  size_t shared_bytes;
} FunctionAttributes;
typedef struct { /* hipPointerAttribute_t */
  int type, device;
  void *device_address, *host_address;
  int is_managed;
  unsigned flags;
} PointerAttributes;

#endif
