// A stand-in for HIP's runtime header: runs the kernels of a HIP source on the host, compiled by a host compiler.
//
// A block's threads are fibers that take turns at __syncthreads(), in an order that differs from turn to turn, so that
// a missing barrier shows as a wrong result. A barrier that only some threads of a block reach is an error. Blocks run
// one after the other. This says nothing of code generation, memory models or speed.
#pragma once

#include <ucontext.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

enum hipError_t { hipSuccess = 0, hipErrorOutOfMemory = 2, hipErrorInvalidConfiguration = 9, hipErrorNoDevice = 100, hipErrorLaunchFailure = 719, hipErrorUnknown = 999 };
using hipStream_t = void*;

struct dim3 {
    uint32_t x, y, z;
    constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace hip_on_host {

inline dim3 thread_index, block_index;
inline hipError_t last_error = hipSuccess;
inline ucontext_t scheduler;
inline ucontext_t* running = nullptr;
inline bool at_barrier = false;
inline void (*call_body)();

inline void enter() { call_body(); }

inline void barrier() {
    at_barrier = true;
    swapcontext(running, &scheduler);
}

inline void run_block(uint32_t threads, uint64_t& order) {
    constexpr size_t stack_bytes = 256 * 1024;
    static std::vector<std::vector<char>> stacks;
    if (stacks.size() < threads) stacks.resize(threads, std::vector<char>(stack_bytes));
    std::vector<ucontext_t> fibers(threads);
    std::vector<uint32_t> alive(threads);
    for (uint32_t i = 0; i < threads; ++i) {
        alive[i] = i;
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i].data();
        fibers[i].uc_stack.ss_size = stack_bytes;
        fibers[i].uc_link = &scheduler;
        makecontext(&fibers[i], enter, 0);
    }
    while (!alive.empty()) {
        for (size_t i = alive.size(); i > 1; --i) {
            order = order * 6364136223846793005u + 1442695040888963407u;
            std::swap(alive[i - 1], alive[(order >> 33) % i]);
        }
        std::vector<uint32_t> waiting;
        for (uint32_t i : alive) {
            thread_index = dim3(i, 0, 0);
            at_barrier = false;
            running = &fibers[i];
            swapcontext(&scheduler, &fibers[i]);
            if (at_barrier) waiting.push_back(i);
        }
        if (!waiting.empty() && waiting.size() != alive.size()) {
            std::fprintf(stderr, "hip_on_host: %zu of %zu threads reached __syncthreads()\n", waiting.size(), alive.size());
            std::abort();
        }
        alive = waiting;
    }
}

// HIP_ON_HOST_FAILING_KERNEL in the environment: launches whose name has this in it fail.
template <class Kernel>
void launch(const char* name, dim3 grid, dim3 block, const Kernel& kernel) {
    const char* failing = std::getenv("HIP_ON_HOST_FAILING_KERNEL");
    if (failing != nullptr && std::strstr(name, failing) != nullptr) {
        last_error = hipErrorLaunchFailure;
        return;
    }
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > 1024 || grid.y > 65536 || grid.z > 65535 ||
        uint64_t{grid.x} * block.x > 0xffffffffu) {
        last_error = hipErrorInvalidConfiguration;
        return;
    }
    static const Kernel* present;
    present = &kernel;
    call_body = [] { (*present)(); };
    uint64_t order = grid.x * 31 + grid.z;
    for (block_index.z = 0; block_index.z < grid.z; ++block_index.z)
        for (block_index.y = 0; block_index.y < grid.y; ++block_index.y)
            for (block_index.x = 0; block_index.x < grid.x; ++block_index.x)
                run_block(static_cast<uint32_t>(threads), order);
}

}  // namespace hip_on_host

#define threadIdx hip_on_host::thread_index
#define blockIdx hip_on_host::block_index

inline void __syncthreads() { hip_on_host::barrier(); }

#define hipLaunchKernelGGL(kernel, grid, block, lds_bytes, stream, ...) \
    ((void)(stream), hip_on_host::launch(#kernel, grid, block, [=] { kernel(__VA_ARGS__); }))

inline hipError_t hipGetLastError() {
    const hipError_t error = hip_on_host::last_error;
    hip_on_host::last_error = hipSuccess;
    return error;
}
inline const char* hipGetErrorName(hipError_t error) {
    switch (error) {
        case hipSuccess: return "hipSuccess";
        case hipErrorOutOfMemory: return "hipErrorOutOfMemory";
        case hipErrorInvalidConfiguration: return "hipErrorInvalidConfiguration";
        case hipErrorNoDevice: return "hipErrorNoDevice";
        case hipErrorLaunchFailure: return "hipErrorLaunchFailure";
        case hipErrorUnknown: return "hipErrorUnknown";
    }
    return "hipErrorUnknown";
}
inline const char* hipGetErrorString(hipError_t error) { return hipGetErrorName(error); }

// HIP_ON_HOST_NO_DEVICE and HIP_ON_HOST_MEMORY_BYTES in the environment make it fail as a device would;
// HIP_ON_HOST_NAME is the device's name.
inline hipError_t hipGetDeviceCount(int* count) {
    *count = std::getenv("HIP_ON_HOST_NO_DEVICE") != nullptr ? 0 : 1;
    return *count == 0 ? hipErrorNoDevice : hipSuccess;
}
struct hipDeviceProp_t {
    char name[256];
    char gcnArchName[256];
};
inline hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int) {
    const char* name = std::getenv("HIP_ON_HOST_NAME");
    *properties = {"stand-in on the host", "none"};
    if (name != nullptr) std::snprintf(properties->name, sizeof properties->name, "%s", name);
    return hipSuccess;
}
inline hipError_t hipStreamCreate(hipStream_t* stream) { return *stream = nullptr, hipSuccess; }
inline hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
inline hipError_t hipMalloc(void** memory, size_t bytes) {
    const char* limit = std::getenv("HIP_ON_HOST_MEMORY_BYTES");
    if (limit != nullptr && bytes > std::strtoull(limit, nullptr, 10)) return hipErrorOutOfMemory;
    return (*memory = std::malloc(bytes)) != nullptr ? hipSuccess : hipErrorOutOfMemory;
}
inline hipError_t hipFree(void* memory) { return std::free(memory), hipSuccess; }
enum hipMemcpyKind { hipMemcpyHostToDevice, hipMemcpyDeviceToHost };
inline hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind) {
    return std::memcpy(to, from, bytes), hipSuccess;
}
using hipEvent_t = std::chrono::steady_clock::time_point*;
inline hipError_t hipEventCreate(hipEvent_t* event) { return *event = new std::chrono::steady_clock::time_point, hipSuccess; }
inline hipError_t hipEventDestroy(hipEvent_t event) { return delete event, hipSuccess; }
inline hipError_t hipEventRecord(hipEvent_t event, hipStream_t) { return *event = std::chrono::steady_clock::now(), hipSuccess; }
inline hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
inline hipError_t hipEventElapsedTime(float* elapsed_ms, hipEvent_t start, hipEvent_t stop) {
    return *elapsed_ms = std::chrono::duration<float, std::milli>(*stop - *start).count(), hipSuccess;
}
