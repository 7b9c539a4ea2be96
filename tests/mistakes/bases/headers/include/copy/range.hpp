#pragma once

#include <cstdint>

namespace copy {

struct Range {
    int32_t size;

    __host__ __device__ bool contains(int32_t i) const { return i >= 0 && i < size; }
};

}  // namespace copy
