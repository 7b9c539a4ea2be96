// A namespace is a kind of mistake that crosses workgroups: kernels `wrong…` have it, at the lines that end in the code
// of the finding, and kernels `right…` do not. `run` launches them, and checks what the right ones compute.
#include "program.hpp"

__device__ int load(int* at, int order) {
    return order == __ATOMIC_ACQUIRE ? __hip_atomic_load(at, __ATOMIC_ACQUIRE, AGENT) : __hip_atomic_load(at, __ATOMIC_RELAXED, AGENT);
}

// ---- Two workgroups write, or one writes and another reads
namespace two_writes {
__global__ void wrong(int* y) {
    y[threadIdx.x] = blockIdx.x;  // memory-race
}
__global__ void right_one_value_by_all(int* y) { y[threadIdx.x] = 7; }
__global__ void right_something_changed(const int* x, int* changed) {
    if (x[blockIdx.x * 64 + threadIdx.x] > 50) *changed = 1;
}
void run() {
    wrong<<<2, 64>>>(fresh<int>());
    wrong<<<blocks, 64>>>(fresh<int>());
    right_one_value_by_all<<<blocks, 64>>>(fresh<int>());
    right_something_changed<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
}
}  // namespace two_writes

namespace sum_in_place {
__global__ void wrong(int* y) {
    y[threadIdx.x] += 1;  // memory-race
}
__global__ void right_of_its_own(int* y) { y[blockIdx.x * 64 + threadIdx.x] += 1; }
__global__ void right_atomic(float* y, const float* x) { atomicAdd(&y[threadIdx.x], x[blockIdx.x * 64 + threadIdx.x]); }
void run() {
    wrong<<<blocks, 64>>>(fresh<int>());
    right_of_its_own<<<blocks, 64>>>(fresh<int>());
    right_atomic<<<blocks, 64>>>(fresh<float>(), fresh<float>(true));
}
}  // namespace sum_in_place

namespace histogram {
__global__ void wrong(const int* x, int* counts) {
    const int bin = x[blockIdx.x * 64 + threadIdx.x] & 63;
    counts[bin] = counts[bin] + 1;  // memory-race
}
__global__ void right(const int* x, int* counts) { atomicAdd(&counts[x[blockIdx.x * 64 + threadIdx.x] & 63], 1); }
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
    right<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
}
}  // namespace histogram

namespace stencil_in_place {
__global__ void wrong_right(float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i + 1 < n) y[i] = y[i] + y[i + 1];  // memory-race
}
__global__ void wrong_left(float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i > 0) y[i] = y[i] + y[i - 1];  // memory-race
}
__global__ void right(const float* x, float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i > 0 && i + 1 < n) y[i] = x[i - 1] + x[i] + x[i + 1];
}
void run() {
    wrong_right<<<blocks, 64>>>(fresh<float>(true), items);
    wrong_left<<<blocks, 64>>>(fresh<float>(true), items);
    right<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), items);
}
}  // namespace stencil_in_place

namespace reversal_in_place {
__global__ void wrong(int* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    y[i] = y[n - 1 - i];  // memory-race
}
__global__ void right(int* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n / 2) return;
    const int other = y[n - 1 - i];
    y[n - 1 - i] = y[i];
    y[i] = other;
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), items);
    int* y = fresh<int>(true);
    right<<<blocks, 64>>>(y, items);
    expect("reversal", y, items - 1, 1);
}
}  // namespace reversal_in_place

// Tiles of 8 x 8 of a matrix of 32 x 32, a workgroup each.
namespace transposition_in_place {
__device__ int transposed(int at) { return at % 32 * 32 + at / 32; }
__device__ int place_in_tile(int row, int column) { return (row * 8 + threadIdx.x / 8) * 32 + column * 8 + threadIdx.x % 8; }
__global__ void wrong(float* y) {
    const int at = place_in_tile(blockIdx.x / 4, blockIdx.x % 4);
    const float value = y[at];  // memory-race
    __syncthreads();
    y[transposed(at)] = value;  // memory-race
}
__global__ void right(float* y) {
    const int row = blockIdx.x / 4, column = blockIdx.x % 4, at = place_in_tile(row, column), other = transposed(at);
    if (row > column) return;
    const float value = y[at], mirrored = y[other];
    __syncthreads();
    y[other] = value;
    y[at] = mirrored;
}
void run() {
    wrong<<<16, 64>>>(fresh<float>(true));
    float* y = fresh<float>(true);
    right<<<16, 64>>>(y);
    expect("transposition", y, 32, 37.0f + 1);
}
}  // namespace transposition_in_place

namespace overlapping_stores {
__global__ void wrong(short* y) {
    const int i = blockIdx.x * 60 + threadIdx.x;
    y[i] = blockIdx.x + 1;  // memory-race
}
__global__ void right_neighbours_in_a_dword(signed char* y) {
    const int i = blockIdx.x * 63 + threadIdx.x;
    if (threadIdx.x < 63) y[i] = blockIdx.x + 1;
}
void run() {
    wrong<<<blocks, 64>>>(fresh<short>());
    right_neighbours_in_a_dword<<<blocks, 64>>>(fresh<signed char>());
}
}  // namespace overlapping_stores

// The last tile begins earlier, so that it is whole.
namespace overlapping_tiles {
__global__ void wrong(float* y, int n) {
    const int first = blockIdx.x * 64, i = (first + 64 > n ? n - 64 : first) + threadIdx.x;
    y[i] = 2 * y[i];  // memory-race
}
__global__ void right_from_another_array(const float* x, float* y, int n) {
    const int first = blockIdx.x * 64, i = (first + 64 > n ? n - 64 : first) + threadIdx.x;
    y[i] = 2 * x[i];
}
void run() {
    wrong<<<3, 64>>>(fresh<float>(true), 150);
    float* y = fresh<float>();
    right_from_another_array<<<3, 64>>>(fresh<float>(true), y, 150);
    expect("overlapping tiles", y, 1, 2 * 38.0f);
}
}  // namespace overlapping_tiles

// Four slices of 16 products for each of 64 x 4 elements.
namespace split_k {
__device__ float part(const float* x, const float* w) {
    float sum = 0;
    for (int k = 0; k < 16; k++) sum += x[(blockIdx.y * 16 + k) & 63] * w[(threadIdx.x + blockIdx.y * 16 + k) % items];
    return sum;
}
__global__ void wrong(const float* x, const float* w, float* y) {
    y[blockIdx.x * 64 + threadIdx.x] += part(x, w);  // memory-race
}
__global__ void right_atomic(const float* x, const float* w, float* y) {
    unsafeAtomicAdd(&y[blockIdx.x * 64 + threadIdx.x], part(x, w));
}
__global__ void right_partial_sums(const float* x, const float* w, float* partials) {
    partials[(blockIdx.y * gridDim.x + blockIdx.x) * 64 + threadIdx.x] = part(x, w);
}
__global__ void right_reduction(const float* partials, float* y) {
    const int i = blockIdx.x * 64 + threadIdx.x, count = gridDim.x * 64;
    y[i] = partials[i] + partials[count + i] + partials[2 * count + i] + partials[3 * count + i];
}
// A workgroup waits for the slice before, and adds to what it left.
__global__ void right_one_slice_after_the_other(const float* x, const float* w, int* turns, float* y) {
    const float sum = part(x, w);
    if (threadIdx.x == 0) while (load(&turns[blockIdx.x], __ATOMIC_RELAXED) != static_cast<int>(blockIdx.y)) {}
    __syncthreads();
    __threadfence();
    y[blockIdx.x * 64 + threadIdx.x] += sum;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) __hip_atomic_store(&turns[blockIdx.x], blockIdx.y + 1, __ATOMIC_RELAXED, AGENT);
}
void run() {
    const dim3 grid(4, 4);
    const float *x = fresh<float>(true), *w = fresh<float>(true);
    wrong<<<grid, 64>>>(x, w, fresh<float>());
    float *partials = fresh<float>(), *sums = fresh<float>(), *turns = fresh<float>();
    right_atomic<<<grid, 64>>>(x, w, fresh<float>());
    right_partial_sums<<<grid, 64>>>(x, w, partials);
    right_reduction<<<4, 64>>>(partials, sums);
    right_one_slice_after_the_other<<<grid, 64>>>(x, w, fresh<int>(), turns);
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += static_cast<float>(k * 37 % 101 + 1) * static_cast<float>((k + 1) * 37 % 101 + 1);
    expect("split K", sums, 1, sum);
    expect("split K in turns", turns, 1, sum);
}
}  // namespace split_k

namespace device_variable {
__device__ int sum_of_ids;
__global__ void wrong() {
    if (threadIdx.x == 0) sum_of_ids = sum_of_ids + blockIdx.x + 1;  // memory-race
}
__global__ void right() {
    if (threadIdx.x == 0) atomicAdd(&sum_of_ids, blockIdx.x + 1);
}
void run() {
    wrong<<<blocks, 64>>>();
    right<<<blocks, 64>>>();
}
}  // namespace device_variable

namespace bits_of_a_word {
__device__ unsigned bits_of_block(const int* x) {
    unsigned bits = 0;
    for (int k = 0; k < 16; k++) bits |= (x[blockIdx.x * 16 + k] > 50 ? 1u : 0u) << (blockIdx.x % 2 * 16 + k);
    return bits;
}
__global__ void wrong(const int* x, unsigned* bits) {
    if (threadIdx.x == 0) bits[blockIdx.x / 2] |= bits_of_block(x);  // memory-race
}
__global__ void right(const int* x, unsigned* bits) {
    if (threadIdx.x == 0) atomicOr(&bits[blockIdx.x / 2], bits_of_block(x));
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), fresh<unsigned>());
    right<<<blocks, 64>>>(fresh<int>(true), fresh<unsigned>());
}
}  // namespace bits_of_a_word

namespace compaction {
__global__ void wrong(const int* x, int* count, int* y) {
    if (threadIdx.x != 0) return;
    int at = *count;  // memory-race
    for (int k = 0; k < 64; k++)
        if (x[blockIdx.x * 64 + k] > 50) y[at++] = x[blockIdx.x * 64 + k];  // memory-race
    *count = at;  // memory-race
}
__global__ void right(const int* x, int* count, int* y) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    if (value > 50) y[atomicAdd(count, 1)] = value;
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>());
    right<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>());
}
}  // namespace compaction

namespace hash_table {
__device__ unsigned slot_of(int key) { return key * 2654435761u >> 22; }
__global__ void wrong(const int* keys, int* table) {
    const int key = keys[blockIdx.x * 64 + threadIdx.x] * 16 + blockIdx.x;
    for (unsigned at = slot_of(key), k = 0; k < 32; at = (at + 1) % items, k++) {
        if (table[at] != 0) continue;  // memory-race
        table[at] = key;               // memory-race
        return;
    }
}
__global__ void right(const int* keys, int* table) {
    const int key = keys[blockIdx.x * 64 + threadIdx.x] * 16 + blockIdx.x;
    for (unsigned at = slot_of(key);; at = (at + 1) % items) {
        const int there = table[at] ? table[at] : atomicCAS(&table[at], 0, key);
        if (there == 0 || there == key) return;
    }
}
void run() {
    wrong<<<blocks, 32>>>(fresh<int>(true), fresh<int>());
    right<<<blocks, 32>>>(fresh<int>(true), fresh<int>());
}
}  // namespace hash_table

// ---- Atomic and plain accesses
namespace sum_read_too_early {
__global__ void wrong(const int* x, int* sum, int* out) {
    atomicAdd(sum, x[blockIdx.x * 64 + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = *sum;  // memory-race
}
__global__ void right_by_the_last_block(const int* x, int* sum, unsigned* count, int* out) {
    atomicAdd(sum, x[blockIdx.x * 64 + threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(count, 1) == gridDim.x - 1) *out = atomicAdd(sum, 0);
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>());
    int* out = fresh<int>();
    right_by_the_last_block<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<unsigned>(), out);
    expect("sum", out, 0, sum_of_filled());
}
}  // namespace sum_read_too_early

namespace maximum {
__global__ void wrong(int* most, const int* x) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    if (*most < value) *most = value;  // memory-race
}
__global__ void right_by_swaps(int* most, const int* x) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    for (int old = *most; old < value;) {
        const int assumed = old;
        old = atomicCAS(most, assumed, value);
        if (old == assumed) break;
    }
}
__global__ void right_if_larger(int* most, const int* x) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    if (most[value & 7] < value) atomicMax(&most[value & 7], value);
}
void run() {
    wrong<<<blocks, 1>>>(fresh<int>(), fresh<int>(true));
    int* most = fresh<int>();
    right_by_swaps<<<blocks, 64>>>(most, fresh<int>(true));
    expect("maximum", most, 0, 101);
    right_if_larger<<<blocks, 64>>>(fresh<int>(), fresh<int>(true));
}
}  // namespace maximum

// The sum begins with what the first workgroup stores.
namespace plain_store_among_atomics {
__global__ void wrong(const int* x, int* y) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    if (blockIdx.x == 0) y[threadIdx.x] = value;   // memory-race
    else atomicAdd(&y[threadIdx.x], value);        // memory-race
}
__global__ void right(const int* x, int* y) { atomicAdd(&y[threadIdx.x], x[blockIdx.x * 64 + threadIdx.x]); }
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
    right<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
}
}  // namespace plain_store_among_atomics

namespace counter_reset {
// By the next workgroup that begins.
__global__ void wrong(int* count, int* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x % 4 == 0) *count = 0;  // memory-race
    out[blockIdx.x] = atomicAdd(count, 1);  // memory-race
}
__global__ void right_by_the_last(int* count, int* out) {
    if (threadIdx.x != 0) return;
    out[blockIdx.x] = atomicAdd(count, 1);
    if (out[blockIdx.x] == static_cast<int>(gridDim.x) - 1) *count = 0;
}
void run() {
    int* count = fresh<int>(true);
    wrong<<<blocks, 64>>>(count, fresh<int>());
    count = fresh<int>();
    right_by_the_last<<<blocks, 64>>>(count, fresh<int>());
    expect("counter", count, 0, 0);
}
}  // namespace counter_reset

// ---- A producer tells a consumer
namespace missing_fence {
__global__ void wrong_none(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;  // memory-race
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // memory-race
    }
}
__global__ void wrong_no_acquire(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;  // memory-race
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
    } else {
        if (threadIdx.x == 0) while (load(flag, __ATOMIC_RELAXED) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // memory-race
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
void run() {
    wrong_none<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    wrong_no_acquire<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
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
}
}  // namespace missing_fence

namespace fence_of_the_workgroup {
__global__ void wrong(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;  // memory-race
        __threadfence_block();
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __threadfence_block();
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // memory-race
    }
}
__global__ void right_of_the_system(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;
        __threadfence_system();
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) while (atomicAdd(flag, 0) == 0) {}
        __threadfence_system();
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];
    }
}
void run() {
    wrong<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    int* told = fresh<int>();
    right_of_the_system<<<2, 64>>>(fresh<int>(), fresh<int>(), told);
    expect("fences of the system", told, 3, 8);
}
}  // namespace fence_of_the_workgroup

namespace scope_of_the_flag {
template <int scope>
__device__ void exchange(int* data, int* flag, int* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        data[0] = 8;  // memory-race
        __hip_atomic_fetch_add(flag, 1, __ATOMIC_RELEASE, scope);
    } else {
        while (__hip_atomic_fetch_add(flag, 0, __ATOMIC_ACQUIRE, scope) == 0) {}  // memory-race
        out[0] = data[0];  // memory-race
    }
}
__global__ void wrong(int* data, int* flag, int* out) { exchange<__HIP_MEMORY_SCOPE_WORKGROUP>(data, flag, out); }
__global__ void right(int* data, int* flag, int* out) { exchange<__HIP_MEMORY_SCOPE_AGENT>(data, flag, out); }
__global__ void right_of_the_system(int* data, int* flag, int* out) { exchange<__HIP_MEMORY_SCOPE_SYSTEM>(data, flag, out); }
void run() {
    wrong<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    int* told = fresh<int>();
    right<<<2, 64>>>(fresh<int>(), fresh<int>(), told);
    expect("scope", told, 0, 8);
    right_of_the_system<<<2, 64>>>(fresh<int>(), fresh<int>(), told = fresh<int>());
    expect("scope of the system", told, 0, 8);
}
}  // namespace scope_of_the_flag

namespace relaxed_flag {
template <int order>
__device__ void exchange(int* data, int* flag, int* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        data[0] = 8;  // memory-race
        __hip_atomic_store(flag, 1, order, AGENT);
    } else {
        while (load(flag, __ATOMIC_ACQUIRE) == 0) {}
        out[0] = data[0];  // memory-race
    }
}
__global__ void wrong(int* data, int* flag, int* out) { exchange<__ATOMIC_RELAXED>(data, flag, out); }
__global__ void right(int* data, int* flag, int* out) { exchange<__ATOMIC_RELEASE>(data, flag, out); }
__global__ void right_seq_cst(int* data, int* flag, int* out) { exchange<__ATOMIC_SEQ_CST>(data, flag, out); }
void run() {
    wrong<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    int* told = fresh<int>();
    right<<<2, 64>>>(fresh<int>(), fresh<int>(), told);
    expect("release", told, 0, 8);
    right_seq_cst<<<2, 64>>>(fresh<int>(), fresh<int>(), told = fresh<int>());
    expect("seq_cst", told, 0, 8);
}
}  // namespace relaxed_flag

namespace flag_before_the_value {
__global__ void wrong(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
        __syncthreads();
        data[threadIdx.x] = threadIdx.x + 5;  // memory-race
    } else {
        if (threadIdx.x == 0) while (load(flag, __ATOMIC_ACQUIRE) == 0) {}
        __syncthreads();
        out[threadIdx.x] = data[threadIdx.x];  // memory-race
    }
}
__global__ void wrong_read_before_the_flag(int* data, int* flag, int* out) {
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x + 5;  // memory-race
        __syncthreads();
        if (threadIdx.x == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELEASE, AGENT);
    } else {
        const int early = data[threadIdx.x];  // memory-race
        if (threadIdx.x == 0) while (load(flag, __ATOMIC_ACQUIRE) == 0) {}
        __syncthreads();
        out[threadIdx.x] = early;  // memory-race
    }
}
__global__ void right(int* data, int* flag, int* out) {
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
void run() {
    wrong<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    wrong_read_before_the_flag<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    int* told = fresh<int>();
    right<<<2, 64>>>(fresh<int>(), fresh<int>(), told);
    expect("flag after the value", told, 3, 8);
}
}  // namespace flag_before_the_value

// The first workgroup fills one of two buffers for each step, the second empties it.
namespace buffer_reused_too_early {
template <bool waits>
__device__ void steps(int* buffers, int* filled, int* emptied, int* out) {
    const int thread = threadIdx.x;
    int sum = 0;
    for (int k = 0; k < 6; k++) {
        int* buffer = buffers + k % 2 * 64;
        if (blockIdx.x == 0) {
            if (waits && k >= 2 && thread == 0) while (load(&emptied[k - 2], __ATOMIC_ACQUIRE) == 0) {}
            __syncthreads();
            buffer[thread] = thread + 100 * k;  // memory-race
            __syncthreads();
            if (thread == 0) __hip_atomic_store(&filled[k], 1, __ATOMIC_RELEASE, AGENT);
        } else {
            if (thread == 0) while (load(&filled[k], __ATOMIC_ACQUIRE) == 0) {}
            __syncthreads();
            sum += buffer[thread];  // memory-race
            __syncthreads();
            if (thread == 0) __hip_atomic_store(&emptied[k], 1, __ATOMIC_RELEASE, AGENT);
        }
    }
    if (blockIdx.x) out[thread] = sum;
}
__global__ void wrong(int* buffers, int* filled, int* emptied, int* out) { steps<false>(buffers, filled, emptied, out); }
__global__ void right(int* buffers, int* filled, int* emptied, int* out) { steps<true>(buffers, filled, emptied, out); }
void run() {
    wrong<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>(), fresh<int>());
    int* out = fresh<int>();
    right<<<2, 64>>>(fresh<int>(), fresh<int>(), fresh<int>(), out);
    expect("two buffers", out, 1, 6 + 1500);
}
}  // namespace buffer_reused_too_early

// Places are taken by one counter; another one, or a flag, must tell that they are filled.
namespace queue {
__global__ void wrong(int* count, int* values, int* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x < 8) {
        const int at = __hip_atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL, AGENT);
        values[at] = blockIdx.x + 1;  // memory-race
    } else {
        const int at = blockIdx.x - 8;
        while (load(count, __ATOMIC_ACQUIRE) <= at) {}
        out[at] = values[at];  // memory-race
    }
}
__global__ void right(int* count, int* values, int* filled, int* out) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x < 8) {
        const int at = atomicAdd(count, 1);
        values[at] = blockIdx.x + 1;
        __hip_atomic_store(&filled[at], 1, __ATOMIC_RELEASE, AGENT);
    } else {
        const int at = blockIdx.x - 8;
        while (load(&filled[at], __ATOMIC_ACQUIRE) == 0) {}
        out[at] = values[at];
    }
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(), fresh<int>(), fresh<int>());
    right<<<blocks, 64>>>(fresh<int>(), fresh<int>(), fresh<int>(), fresh<int>());
}
}  // namespace queue

// The first workgroup that comes computes a table for all.
namespace double_checked {
__global__ void wrong(int* state, int* ready, int* table, int* out) {
    if (threadIdx.x != 0) return;
    if (*ready == 0) {  // memory-race
        while (atomicCAS(state, 0, 1) != 0) {}
        __threadfence();
        if (*ready == 0) {
            for (int k = 0; k < 8; k++) table[k] = k * k;
            __threadfence();
            *ready = 1;  // memory-race
        }
        __threadfence();
        atomicExch(state, 0);
    }
    out[blockIdx.x] = table[3];  // memory-race
}
__global__ void right(int* state, int* ready, int* table, int* out) {
    if (threadIdx.x != 0) return;
    if (load(ready, __ATOMIC_ACQUIRE) == 0) {
        while (atomicCAS(state, 0, 1) != 0) {}
        __threadfence();
        if (load(ready, __ATOMIC_RELAXED) == 0) {
            for (int k = 0; k < 8; k++) table[k] = k * k;
            __hip_atomic_store(ready, 1, __ATOMIC_RELEASE, AGENT);
        }
        __threadfence();
        atomicExch(state, 0);
    }
    out[blockIdx.x] = table[3];
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(), fresh<int>(), fresh<int>(), fresh<int>());
    int* out = fresh<int>();
    right<<<blocks, 64>>>(fresh<int>(), fresh<int>(), fresh<int>(), out);
    expect("table", out, blocks - 1, 9);
}
}  // namespace double_checked

// ---- The last workgroup adds up
namespace last_workgroup {
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
        parts[blockIdx.x] = sums[0];  // memory-race
        if (fences) __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
        if (fences) __threadfence();
    }
    __syncthreads();
    if (!last || thread != 0) return;
    float sum = 0;
    for (unsigned k = 0; k < gridDim.x; k++) sum += parts[k];  // memory-race
    *out = sum;
}
__global__ void wrong(const float* x, float* parts, unsigned* count, float* out) { add_up<false>(x, parts, count, out); }
__global__ void right(const float* x, float* parts, unsigned* count, float* out) { add_up<true>(x, parts, count, out); }
__global__ void right_volatile(const float* x, volatile float* parts, unsigned* count, float* out) {
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
void run() {
    const float total = static_cast<float>(sum_of_filled());
    wrong<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), fresh<unsigned>(), fresh<float>());
    float* sum = fresh<float>();
    right<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), fresh<unsigned>(), sum);
    expect("last block", sum, 0, total);
    right_volatile<<<blocks, 64>>>(fresh<float>(true), fresh<float>(), fresh<unsigned>(), sum = fresh<float>());
    expect("last block, volatile", sum, 0, total);
    right_device_variables<<<blocks, 64>>>(fresh<float>(true), fresh<float>());
}
}  // namespace last_workgroup

// ---- Locks
namespace lock {
__global__ void wrong_no_fences(int* lock, int* y) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    *y += 1;  // memory-race
    atomicExch(lock, 0);
}
__global__ void wrong_no_acquire(int* lock, int* y) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    *y += 1;  // memory-race
    __hip_atomic_exchange(lock, 0, __ATOMIC_RELEASE, AGENT);
}
__global__ void wrong_no_release(int* lock, int* y) {
    if (threadIdx.x != 0) return;
    for (int free = 0; !__hip_atomic_compare_exchange_strong(lock, &free, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, AGENT);) free = 0;
    *y += 1;  // memory-race
    atomicExch(lock, 0);
}
__global__ void right_fences(int* lock, int* y) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *y += 1;
    __threadfence();
    atomicExch(lock, 0);
}
__global__ void right_store(int* lock, int* y) {
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
void run() {
    wrong_no_fences<<<blocks, 64>>>(fresh<int>(), fresh<int>());
    wrong_no_acquire<<<blocks, 64>>>(fresh<int>(), fresh<int>());
    wrong_no_release<<<blocks, 64>>>(fresh<int>(), fresh<int>());
    int* locked = fresh<int>();
    right_fences<<<blocks, 64>>>(fresh<int>(), locked);
    right_store<<<blocks, 64>>>(fresh<int>(), locked);
    right_device_lock<<<blocks, 64>>>(locked);
    expect("locks", locked, 0, 3 * blocks);
}
}  // namespace lock

// ---- Scans that look back
namespace look_back {
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
__global__ void right_one_word(const int* x, unsigned long long* states, int* out) {
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
// Values beside the states.
enum Mistake { NONE, STATE_FIRST, NO_RELEASE, NO_ACQUIRE };
template <Mistake mistake>
__device__ void scan(const int* x, int* states, int* totals, int* ends, int* out) {
    __shared__ int sums[64], before;
    const int block = blockIdx.x, i = block * 64 + threadIdx.x, sum = scan_of_block(x[i], sums);
    if (threadIdx.x == 0) {
        const int total = sums[63];
        if (mistake == STATE_FIRST) {
            __threadfence();
            atomicExch(&states[block], 1);
        }
        totals[block] = total;  // memory-race
        if (mistake != NO_RELEASE) __threadfence();
        if (mistake != STATE_FIRST) atomicExch(&states[block], 1);
        int found = 0;
        for (int k = block - 1; k >= 0;) {
            const int state = atomicAdd(&states[k], 0);
            if (state == 0) continue;
            if (mistake != NO_ACQUIRE) __threadfence();
            found += (state == 2 ? ends : totals)[k--];  // memory-race
            if (state == 2) break;
        }
        ends[block] = found + total;  // memory-race
        if (mistake != NO_RELEASE) __threadfence();
        if (mistake != STATE_FIRST) atomicExch(&states[block], 2);
        before = found;
    }
    __syncthreads();
    out[i] = before + sum;
}
__global__ void wrong_state_first(const int* x, int* states, int* totals, int* ends, int* out) { scan<STATE_FIRST>(x, states, totals, ends, out); }
__global__ void wrong_no_release(const int* x, int* states, int* totals, int* ends, int* out) { scan<NO_RELEASE>(x, states, totals, ends, out); }
__global__ void wrong_no_acquire(const int* x, int* states, int* totals, int* ends, int* out) { scan<NO_ACQUIRE>(x, states, totals, ends, out); }
__global__ void right_fences(const int* x, int* states, int* totals, int* ends, int* out) { scan<NONE>(x, states, totals, ends, out); }
void run() {
    int* scanned = fresh<int>();
    right_one_word<<<blocks, 64>>>(fresh<int>(true), fresh<unsigned long long>(), scanned);
    expect("look-back", scanned, items - 1, sum_of_filled());
    wrong_state_first<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>(), fresh<int>(), fresh<int>());
    wrong_no_release<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>(), fresh<int>(), fresh<int>());
    wrong_no_acquire<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>(), fresh<int>(), fresh<int>());
    right_fences<<<blocks, 64>>>(fresh<int>(true), fresh<int>(), fresh<int>(), fresh<int>(), scanned = fresh<int>());
    expect("look-back with fences", scanned, items - 1, sum_of_filled());
}
}  // namespace look_back

// ---- All workgroups wait for all
namespace barrier_of_the_grid {
template <int waits, bool fences>
__device__ void steps(int* arrived, float* a, float* b, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    float *from = a, *to = b;
    for (int k = 0; k < 4; k++) {
        to[i] = (i ? from[i - 1] : 0) + (i + 1 < n ? from[i + 1] : 0);  // memory-race
        float* other = from;
        from = to, to = other;
        __syncthreads();
        if (threadIdx.x == 0 && k < waits) {
            if (fences) __threadfence();
            atomicAdd(arrived, 1);
            while (load(arrived, __ATOMIC_RELAXED) < static_cast<int>(gridDim.x) * (k + 1)) {}
            if (fences) __threadfence();
        }
        __syncthreads();
    }
}
__global__ void wrong_one_too_few(int* arrived, float* a, float* b, int n) { steps<2, true>(arrived, a, b, n); }
__global__ void wrong_no_fences(int* arrived, float* a, float* b, int n) { steps<3, false>(arrived, a, b, n); }
__global__ void wrong_of_the_workgroup_alone(int*, float* a, float* b, int n) { steps<0, true>(nullptr, a, b, n); }
__global__ void right(int* arrived, float* a, float* b, int n) { steps<3, true>(arrived, a, b, n); }
void run() {
    wrong_one_too_few<<<blocks, 64>>>(fresh<int>(), fresh<float>(true), fresh<float>(), items);
    wrong_no_fences<<<blocks, 64>>>(fresh<int>(), fresh<float>(true), fresh<float>(), items);
    wrong_of_the_workgroup_alone<<<blocks, 64>>>(nullptr, fresh<float>(true), fresh<float>(), items);
    right<<<blocks, 64>>>(fresh<int>(), fresh<float>(true), fresh<float>(), items);
}
}  // namespace barrier_of_the_grid

// ---- LDS is of one workgroup
namespace lds_of_another_workgroup {
__global__ void wrong(const int* x, int* y) {
    __shared__ int table[64];
    if (blockIdx.x == 0) table[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = table[63 - threadIdx.x];  // undefined-value
}
__global__ void right(const int* x, int* y) {
    __shared__ int table[64];
    table[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = table[63 - threadIdx.x];
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
    right<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
}
}  // namespace lds_of_another_workgroup

int main() {
    two_writes::run();
    sum_in_place::run();
    histogram::run();
    stencil_in_place::run();
    reversal_in_place::run();
    transposition_in_place::run();
    overlapping_stores::run();
    overlapping_tiles::run();
    split_k::run();
    device_variable::run();
    bits_of_a_word::run();
    compaction::run();
    hash_table::run();
    sum_read_too_early::run();
    maximum::run();
    plain_store_among_atomics::run();
    counter_reset::run();
    missing_fence::run();
    fence_of_the_workgroup::run();
    scope_of_the_flag::run();
    relaxed_flag::run();
    flag_before_the_value::run();
    buffer_reused_too_early::run();
    queue::run();
    double_checked::run();
    last_workgroup::run();
    lock::run();
    look_back::run();
    barrier_of_the_grid::run();
    lds_of_another_workgroup::run();
    return ended();
}
