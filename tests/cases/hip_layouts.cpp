// Structures that programs hand to the emulator are those of HIP's headers; compiled and never run.
#include <hip/hip_runtime_api.h>

#include <cstddef>

#include "hip_types.h"

#define SAME(theirs, ours) static_assert(sizeof(theirs) == sizeof(ours), #theirs)
#define AT(theirs, field, ours, mine) static_assert(offsetof(theirs, field) == offsetof(ours, mine), #theirs "." #field)

SAME(hipChannelFormatDesc, ChannelDescriptor);
SAME(hipPitchedPtr, PitchedPointer);
SAME(HIP_ARRAY_DESCRIPTOR, ArrayDescriptor);
SAME(HIP_ARRAY3D_DESCRIPTOR, Array3DDescriptor);
AT(HIP_ARRAY3D_DESCRIPTOR, Flags, Array3DDescriptor, flags);
SAME(hipMemcpy3DParms, Copy3D);
AT(hipMemcpy3DParms, kind, Copy3D, kind);
AT(hipMemcpy3DParms, dstArray, Copy3D, target_array);
AT(hipMemcpy3DParms, extent, Copy3D, extent);
SAME(hipMemcpy3DPeerParms, PeerCopy3D);
AT(hipMemcpy3DPeerParms, dstArray, PeerCopy3D, target_array);
AT(hipMemcpy3DPeerParms, extent, PeerCopy3D, extent);
SAME(hip_Memcpy2D, DriverCopy2D);
AT(hip_Memcpy2D, dstXInBytes, DriverCopy2D, target);
AT(hip_Memcpy2D, srcPitch, DriverCopy2D, source.pitch);
SAME(HIP_MEMCPY3D, DriverCopy3D);
AT(HIP_MEMCPY3D, dstXInBytes, DriverCopy3D, target);
AT(HIP_MEMCPY3D, srcHeight, DriverCopy3D, source.height);
AT(HIP_MEMCPY3D, srcMemoryType, DriverCopy3D, source.memory);
SAME(hipKernelNodeParams, KernelNode);
AT(hipKernelNodeParams, kernelParams, KernelNode, parameters);
AT(hipKernelNodeParams, sharedMemBytes, KernelNode, shared);
AT(hipKernelNodeParams, func, KernelNode, function);
SAME(hipMemsetParams, FillNode);
AT(hipMemsetParams, width, FillNode, width);
AT(hipMemsetParams, value, FillNode, value);
AT(hipMemsetParams, height, FillNode, height);
SAME(hipHostNodeParams, HostNode);
SAME(hipMemPoolProps, PoolProperties);
SAME(hipMemAllocNodeParams, AllocationNode);
AT(hipMemAllocNodeParams, dptr, AllocationNode, address);
SAME(hipMemAllocationProp, AllocationProperties);
AT(hipMemAllocationProp, location, AllocationProperties, location);
SAME(hipStreamBatchMemOpParams, ValueOperation);
AT(hipStreamBatchMemOpParams, waitValue.value, ValueOperation, value);
AT(hipStreamBatchMemOpParams, waitValue.flags, ValueOperation, flags);
SAME(hipBatchMemOpNodeParams, ValuesNode);
AT(hipBatchMemOpNodeParams, paramArray, ValuesNode, operations);
SAME(hipGraphNodeParams, NodeParameters);
AT(hipGraphNodeParams, memcpy.copyParams, NodeParameters, copy.copy);
AT(hipGraphNodeParams, kernel, NodeParameters, kernel);
SAME(hipLaunchAttribute, LaunchAttribute);
AT(hipLaunchAttribute, val, LaunchAttribute, bytes);
SAME(hipLaunchConfig_t, LaunchConfig);
AT(hipLaunchConfig_t, attrs, LaunchConfig, attributes);
SAME(HIP_LAUNCH_CONFIG, DriverLaunchConfig);
AT(HIP_LAUNCH_CONFIG, hStream, DriverLaunchConfig, stream);
SAME(hipGraphInstantiateParams, InstantiateParameters);
AT(hipGraphInstantiateParams, uploadStream, InstantiateParameters, upload_stream);
SAME(hipFuncAttributes, FunctionAttributes);
AT(hipFuncAttributes, sharedSizeBytes, FunctionAttributes, shared_bytes);
SAME(hipPointerAttribute_t, PointerAttributes);
AT(hipPointerAttribute_t, allocationFlags, PointerAttributes, flags);
SAME(hipMemAccessDesc, AccessDescriptor);
