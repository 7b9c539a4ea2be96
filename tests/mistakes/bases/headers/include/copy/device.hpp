#pragma once

#include <hip/hip_runtime.h>

#include "copy/range.hpp"

namespace copy {

__device__ inline int32_t global_index() {
    return static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
}

template <class T>
__device__ inline T load(const T* source, int32_t i) {
    static_assert(sizeof(T) >= 4, "elements of at least four bytes");
    return source[i];
}

}  // namespace copy
