#pragma once

#include <cstdint>

namespace copy {

inline uint32_t blocks_for(int32_t n, int32_t block) {
    return static_cast<uint32_t>((n + block - 1) / block);
}

}  // namespace copy
