// Kernels of several workgroups: each `race_…` has one mistake, at the lines that end in "// race", and each `right_…`
// has none. The program checks what the right ones compute.
#include <hip/hip_runtime.h>

#include <cstdio>

#define AGENT __HIP_MEMORY_SCOPE_AGENT

__device__ int load(int* at, int order) {
    return order == __ATOMIC_ACQUIRE ? __hip_atomic_load(at, __ATOMIC_ACQUIRE, AGENT) : __hip_atomic_load(at, __ATOMIC_RELAXED, AGENT);
}

// ---- Two workgroups write, or one writes and another reads
__global__ void race_two_writes(int* y) {
    y[threadIdx.x] = blockIdx.x;  // race
}
__global__ void right_one_value_by_all(int* y) { y[threadIdx.x] = 7; }

__global__ void race_sum_in_place(int* y) {
    y[threadIdx.x] += 1;  // race
}
__global__ void right_sum_of_ones_own(int* y) { y[blockIdx.x * 64 + threadIdx.x] += 1; }

__global__ void race_histogram(const int* x, int* counts) {
    const int bin = x[blockIdx.x * 64 + threadIdx.x] & 63;
    counts[bin] = counts[bin] + 1;  // race
}
__global__ void right_histogram(const int* x, int* counts) { atomicAdd(&counts[x[blockIdx.x * 64 + threadIdx.x] & 63], 1); }

__global__ void race_stencil_right(float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i + 1 < n) y[i] = y[i] + y[i + 1];  // race
}
__global__ void race_stencil_left(float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i > 0) y[i] = y[i] + y[i - 1];  // race
}
__global__ void right_stencil(const float* x, float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i > 0 && i + 1 < n) y[i] = x[i - 1] + x[i] + x[i + 1];
}

__global__ void race_overlapping_halves(short* y) {
    const int i = blockIdx.x * 60 + threadIdx.x;
    y[i] = blockIdx.x + 1;  // race
}

__device__ int sum_of_ids;
__global__ void race_device_variable() {
    if (threadIdx.x == 0) sum_of_ids = sum_of_ids + blockIdx.x + 1;  // race
}

// ---- Atomic and plain accesses
__global__ void race_sum_read_too_early(const int* x, int* sum, int* out) {
    atomicAdd(sum, x[blockIdx.x * 64 + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = *sum;  // race
}
__global__ void right_maximum_by_swaps(int* most, const int* x) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    for (int old = *most; old < value;) {
        const int assumed = old;
        old = atomicCAS(most, assumed, value);
        if (old == assumed) break;
    }
}
__global__ void right_maximum_if_larger(int* most, const int* x) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    if (most[value & 7] < value) atomicMax(&most[value & 7], value);
}
__global__ void right_split_sums(float* sums, const float* x) { atomicAdd(&sums[threadIdx.x], x[blockIdx.x * 64 + threadIdx.x]); }

// ---- A producer tells a consumer
__global__ void race_no_fence(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;  // race
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // race
    }
}
__global__ void race_no_acquire(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;  // race
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
    } else {
        if (threadIdx.x == 0) while (load(flag, __ATOMIC_RELAXED) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // race
    }
}
__global__ void race_fence_of_the_block(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;  // race
        __threadfence_block();
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __threadfence_block();
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // race
    }
}
__global__ void right_fences(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __syncthreads();
        __threadfence();
        out[threadIdx.x] = data[threadIdx.x];
    }
}
__global__ void right_release_and_acquire(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;
        __syncthreads();
        if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
    } else {
        if (threadIdx.x == 0) while (load(flag, __ATOMIC_ACQUIRE) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];
    }
}
__global__ void right_volatile(volatile int* data, volatile int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) *flag = 1;
    } else {
        if (threadIdx.x == 0) while (*flag == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];
    }
}
// Each waits for the one before, and so has heard of all before that.
__global__ void right_chain(int* data, int* flags, int* out) {
    const int block = blockIdx.x, thread = threadIdx.x;
    if (block && thread == 0) while (load(&flags[block - 1], __ATOMIC_ACQUIRE) == 0) {}
    __syncthreads();
    data[block * 64 + thread] = thread + block + 1;
    int sum = 0;
    for (int k = 0; k <= block; k++) sum += data[k * 64 + thread];
    out[block * 64 + thread] = sum;
    __syncthreads();
    if (thread == 0) __hip_atomic_store(&flags[block], 1, __ATOMIC_RELEASE, AGENT);
}
// Odd workgroups give their part to the even one before, as stream-K does.
__global__ void right_parts(const float* x, float* parts, int* flags, float* out) {
    const int thread = threadIdx.x, block = blockIdx.x;
    const float value = x[block * 64 + thread];
    if (block & 1) {
        parts[block * 64 + thread] = value;
        __syncthreads();
        if (thread == 0) __hip_atomic_store(&flags[block], 1, __ATOMIC_RELEASE, AGENT);
    } else {
        if (thread == 0) while (load(&flags[block + 1], __ATOMIC_ACQUIRE) == 0) {}
        __syncthreads();
        out[block * 64 + thread] = value + parts[(block + 1) * 64 + thread];
    }
}

// ---- The last workgroup adds up
template <bool fences>
__device__ void add_up(const float* x, float* parts, unsigned* count, float* out) {
    __shared__ float sums[64];
    __shared__ bool last;
    const int thread = threadIdx.x;
    sums[thread] = x[blockIdx.x * 64 + thread];
    __syncthreads();
    for (int k = 32; k; k /= 2) {
        if (thread < k) sums[thread] += sums[thread + k];
        __syncthreads();
    }
    if (thread == 0) {
        parts[blockIdx.x] = sums[0];  // race
        if (fences) __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
        if (fences) __threadfence();
    }
    __syncthreads();
    if (!last || thread != 0) return;
    float sum = 0;
    for (unsigned k = 0; k < gridDim.x; k++) sum += parts[k];  // race
    *out = sum;
}
__global__ void race_last_block(const float* x, float* parts, unsigned* count, float* out) { add_up<false>(x, parts, count, out); }
__global__ void right_last_block(const float* x, float* parts, unsigned* count, float* out) { add_up<true>(x, parts, count, out); }
__global__ void right_last_block_volatile(const float* x, volatile float* parts, unsigned* count, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        float sum = 0;
        for (int k = 0; k < 64; k++) sum += x[blockIdx.x * 64 + k];
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x != 0) return;
    float sum = 0;
    for (unsigned k = 0; k < gridDim.x; k++) sum += parts[k];
    *out = sum;
    *count = 0;
}
__device__ unsigned ticket;
__device__ float device_parts[64];
__global__ void right_device_variables(const float* x, float* out) {
    if (threadIdx.x != 0) return;
    device_parts[blockIdx.x] = x[blockIdx.x];
    __threadfence();
    const bool last = atomicAdd(&ticket, 1) == gridDim.x - 1;
    __threadfence();
    if (!last) return;
    float sum = 0;
    for (unsigned k = 0; k < gridDim.x; k++) sum += device_parts[k];
    *out = sum;
}

// ---- Locks
__global__ void race_lock_without_fences(int* lock, int* y) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    *y += 1;  // race
    atomicExch(lock, 0);
}
__global__ void right_lock(int* lock, int* y) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *y += 1;
    __threadfence();
    atomicExch(lock, 0);
}
__global__ void right_lock_with_a_store(int* lock, int* y) {
    if (threadIdx.x != 0) return;
    for (int free = 0; !__hip_atomic_compare_exchange_strong(lock, &free, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, AGENT);) free = 0;
    *y += 1;
    __hip_atomic_store(lock, 0, __ATOMIC_RELEASE, AGENT);
}
__device__ int device_lock;
__global__ void right_device_lock(int* y) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(&device_lock, 0, 1) != 0) {}
    __threadfence();
    *y += 1;
    __threadfence();
    atomicExch(&device_lock, 0);
}

// ---- Scans that look back
__device__ int scan_of_block(int value, int* sums) {
    const int thread = threadIdx.x;
    sums[thread] = value;
    __syncthreads();
    for (int k = 1; k < 64; k *= 2) {
        const int before = thread >= k ? sums[thread - k] : 0;
        __syncthreads();
        sums[thread] += before;
        __syncthreads();
    }
    return sums[thread];
}
// State and value in one word: nothing else needs an order.
__global__ void right_look_back(const int* x, unsigned long long* states, int* out) {
    __shared__ int sums[64], before;
    const int block = blockIdx.x, i = block * 64 + threadIdx.x, sum = scan_of_block(x[i], sums);
    if (threadIdx.x == 0) {
        const unsigned total = sums[63];
        unsigned found = 0;
        if (block) __hip_atomic_store(&states[block], 1ull << 32 | total, __ATOMIC_RELAXED, AGENT);
        for (int k = block - 1; k >= 0;) {
            const unsigned long long state = __hip_atomic_load(&states[k], __ATOMIC_RELAXED, AGENT);
            if (state >> 32 == 0) continue;
            found += static_cast<unsigned>(state);
            if (state >> 32 == 2) break;
            k--;
        }
        __hip_atomic_store(&states[block], 2ull << 32 | (found + total), __ATOMIC_RELAXED, AGENT);
        before = found;
    }
    __syncthreads();
    out[i] = before + sum;
}
// Values beside the states, with fences.
__global__ void right_look_back_with_fences(const int* x, int* states, int* totals, int* ends, int* out) {
    __shared__ int sums[64], before;
    const int block = blockIdx.x, i = block * 64 + threadIdx.x, sum = scan_of_block(x[i], sums);
    if (threadIdx.x == 0) {
        const int total = sums[63];
        totals[block] = total;
        __threadfence();
        atomicExch(&states[block], 1);
        int found = 0;
        for (int k = block - 1; k >= 0;) {
            const int state = atomicAdd(&states[k], 0);
            if (state == 0) continue;
            __threadfence();
            if (state == 2) {
                found += ends[k];
                break;
            }
            found += totals[k--];
        }
        ends[block] = found + total;
        __threadfence();
        atomicExch(&states[block], 2);
        before = found;
    }
    __syncthreads();
    out[i] = before + sum;
}

// ---- All workgroups wait for all
template <int waits>
__device__ void steps(int* arrived, float* a, float* b, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    float *from = a, *to = b;
    for (int k = 0; k < 4; k++) {
        to[i] = (i ? from[i - 1] : 0) + (i + 1 < n ? from[i + 1] : 0);  // race
        float* other = from;
        from = to, to = other;
        __syncthreads();
        if (threadIdx.x == 0 && k < waits) {
            __threadfence();
            atomicAdd(arrived, 1);
            while (load(arrived, __ATOMIC_RELAXED) < static_cast<int>(gridDim.x) * (k + 1)) {}
            __threadfence();
        }
        __syncthreads();
    }
}
__global__ void race_one_barrier_too_few(int* arrived, float* a, float* b, int n) { steps<2>(arrived, a, b, n); }
__global__ void right_barriers(int* arrived, float* a, float* b, int n) { steps<3>(arrived, a, b, n); }

// ---- The program
constexpr int blocks = 16, items = blocks * 64;
static int wrong = 0;

template <typename T>
static T* fresh(bool filled = false) {
    T *memory, content[items];
    for (int i = 0; i < items; i++) content[i] = filled ? static_cast<T>(i * 37 % 101 + 1) : T();
    if (hipMalloc(&memory, sizeof content) || hipMemcpy(memory, content, sizeof content, hipMemcpyHostToDevice)) wrong++;
    return memory;
}
template <typename T>
static void expect(const char* what, const T* memory, int at, T value) {
    T content[items];
    if (hipMemcpy(content, memory, sizeof content, hipMemcpyDeviceToHost)) wrong++;
    if (content[at] == value) return;
    std::printf("%s: %g, not %g\n", what, static_cast<double>(content[at]), static_cast<double>(value));
    wrong++;
}

int main() {
    int total = 0;
    for (int i = 0; i < items; i++) total += i * 37 % 101 + 1;
    race_two_writes<<<2, 64>>>(fresh<int>());
    race_two_writes<<<blocks, 64>>>(fresh<int>());
    right_one_value_by_all<<<blocks, 64>>>(fresh<int>());
    race_sum_in_place<<<blocks, 64>>>(fresh<int>());
    right_sum_of_ones_own<<<blocks, 64>>>(fresh<int>());
    race_histogram<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
    right_histogram<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
    race_stencil_right<<<blocks, 64>>>(fresh<float>(true), items);
    race_stencil_left<<<blocks, 64>>>(fresh<float>(true), items);
    right_stencil<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), items);
    race_overlapping_halves<<<blocks, 64>>>(fresh<short>());
    race_device_variable<<<blocks, 64>>>();
    race_sum_read_too_early<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>());
    int* most = fresh<int>();
    right_maximum_by_swaps<<<blocks, 64>>>(most, fresh<int>(true));
    expect("maximum", most, 0, 101);
    right_maximum_if_larger<<<blocks, 64>>>(fresh<int>(), fresh<int>(true));
    right_split_sums<<<blocks, 64>>>(fresh<float>(), fresh<float>(true));
    race_no_fence<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    race_no_acquire<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    race_fence_of_the_block<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    int* told = fresh<int>();
    right_fences<<<2, 64>>>(fresh<int>(), fresh<int>(), told);
    expect("fences", told, 3, 8);
    right_release_and_acquire<<<2, 64>>>(fresh<int>(), fresh<int>(), told = fresh<int>());
    expect("release and acquire", told, 3, 8);
    right_volatile<<<2, 64>>>(fresh<int>(), fresh<int>(), told = fresh<int>());
    expect("volatile", told, 3, 8);
    right_chain<<<blocks, 64>>>(fresh<int>(), fresh<int>(), told = fresh<int>());
    expect("chain", told, 64 * 2 + 1, 2 + 3 + 4);
    right_parts<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), fresh<int>(), fresh<float>());
    race_last_block<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), fresh<unsigned>(), fresh<float>());
    float* sum = fresh<float>();
    right_last_block<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), fresh<unsigned>(), sum);
    expect("last block", sum, 0, static_cast<float>(total));
    right_last_block_volatile<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), fresh<unsigned>(), sum = fresh<float>());
    expect("last block, volatile", sum, 0, static_cast<float>(total));
    right_device_variables<<<blocks, 64>>>(fresh<float>(true), fresh<float>());
    race_lock_without_fences<<<blocks, 64>>>(fresh<int>(), fresh<int>());
    int* locked = fresh<int>();
    right_lock<<<blocks, 64>>>(fresh<int>(), locked);
    right_lock_with_a_store<<<blocks, 64>>>(fresh<int>(), locked);
    right_device_lock<<<blocks, 64>>>(locked);
    expect("locks", locked, 0, 3 * blocks);
    int* scanned = fresh<int>();
    right_look_back<<<blocks, 64>>>(fresh<int>(true), fresh<unsigned long long>(), scanned);
    expect("look-back", scanned, items - 1, total);
    right_look_back_with_fences<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>(), fresh<int>(), scanned = fresh<int>());
    expect("look-back with fences", scanned, items - 1, total);
    race_one_barrier_too_few<<<blocks, 64>>>(fresh<int>(), fresh<float>(true), fresh<float>(), items);
    right_barriers<<<blocks, 64>>>(fresh<int>(), fresh<float>(true), fresh<float>(), items);
    if (hipDeviceSynchronize()) wrong++;
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
