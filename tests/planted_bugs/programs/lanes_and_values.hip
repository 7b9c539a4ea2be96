// As `across_workgroups.hip`: values that nothing has written, places beyond the end, barriers and lanes.
#include "program.hpp"

#include <hip/hip_cooperative_groups.h>
#include <hip/hip_fp16.h>

constexpr int threads = 256;

namespace partial_vector {
__global__ void wrong(const float4* x, float* y, int n) {
    const int i = threadIdx.x;
    if (i * 4 >= n) return;
    const float4 v = x[i];  // out-of-bounds-read
    for (int k = 0; k < 4; k++)
        if (i * 4 + k < n) y[i * 4 + k] = k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
}
__global__ void right(const float* x, float* y, int n) {
    const int i = threadIdx.x * 4;
    if (i + 4 <= n) {
        const float4 v = *reinterpret_cast<const float4*>(x + i);
        y[i] = v.x, y[i + 1] = v.y, y[i + 2] = v.z, y[i + 3] = v.w;
    } else
        for (int k = i; k < n; k++) y[k] = x[k];
}
void run() {
    float *x = reserved<float>(101), *y = fresh<float>();
    if (hipMemset(x, 0x40, 404)) wrong_values++;
    wrong<<<1, 64>>>(reinterpret_cast<float4*>(x), fresh<float>(), 101);
    right<<<1, 64>>>(x, y, 101);
    expect("partial vector", y, 100, 3.0039215087890625f);
}
}  // namespace partial_vector

namespace sum_beyond_what_was_written {
__global__ void right_fill_but_one(int* x, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n - 1) x[i] = i;
}
__global__ void wrong(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x * 2] + x[threadIdx.x * 2 + 1]; }  // undefined-value
__global__ void right_fill(int* x, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) x[i] = i;
}
__global__ void right(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x * 2] + x[threadIdx.x * 2 + 1]; }
void run() {
    int *x = reserved<int>(128), *z = reserved<int>(128), *y = fresh<int>();
    right_fill_but_one<<<2, 64>>>(x, 128);
    wrong<<<1, 64>>>(x, fresh<int>());
    right_fill<<<2, 64>>>(z, 128);
    right<<<1, 64>>>(z, y);
    expect("sum of what was written", y, 63, 253);
}
}  // namespace sum_beyond_what_was_written

namespace halo {
template <bool both> __device__ void blur(const int* x, int* y) {
    __shared__ int tile[66];
    const int t = threadIdx.x;
    tile[t + 1] = x[t];
    if (t == 0) tile[0] = 0;
    if (both && t == 63) tile[65] = 0;
    __syncthreads();
    y[t] = tile[t] + tile[t + 1] + tile[t + 2];  // undefined-value
}
__global__ void wrong(const int* x, int* y) { blur<false>(x, y); }
__global__ void right(const int* x, int* y) { blur<true>(x, y); }
void run() {
    wrong<<<1, 64>>>(fresh<int>(true), fresh<int>());
    int* y = fresh<int>();
    right<<<1, 64>>>(fresh<int>(true), y);
    expect("halo", y, 0, 1 + 38);
}
}  // namespace halo

namespace first_thread_sets_it {
template <bool waits> __device__ void scale(int* y, int by) {
    __shared__ int factor;
    factor = 0;
    __syncthreads();
    if (threadIdx.x == 0) factor = by;  // lds-race
    if (waits) __syncthreads();
    y[threadIdx.x] = factor * threadIdx.x;  // lds-race
}
__global__ void wrong(int* y, int by) { scale<false>(y, by); }
__global__ void right(int* y, int by) { scale<true>(y, by); }
void run() {
    wrong<<<1, threads>>>(fresh<int>(), 3);
    int* y = fresh<int>();
    right<<<1, threads>>>(y, 3);
    expect("first thread sets it", y, 255, 765);
}
}  // namespace first_thread_sets_it

namespace exchange_in_a_branch {
template <bool waits> __device__ void exchange(int* y) {
    __shared__ int tile[threads];
    const int t = threadIdx.x;
    int found = 0;
    tile[t] = 0;
    __syncthreads();
    if (t < 128) tile[t] = t;  // lds-race
    if (waits) __syncthreads();
    if (t < 128) found = tile[t ^ 64];  // lds-race
    y[t] = found;
}
__global__ void wrong(int* y) { exchange<false>(y); }
__global__ void right(int* y) { exchange<true>(y); }
void run() {
    wrong<<<1, threads>>>(fresh<int>());
    int* y = fresh<int>();
    right<<<1, threads>>>(y);
    expect("exchange in a branch", y, 3, 67);
}
}  // namespace exchange_in_a_branch

namespace barrier_of_some {
__global__ void wrong(int* y, int n) {
    if (static_cast<int>(threadIdx.x) >= n) return;
    y[threadIdx.x] = 1;
    __builtin_amdgcn_s_barrier();  // divergent-barrier
    y[threadIdx.x] += y[threadIdx.x ^ 1];
}
__global__ void right(int* y, int n) {
    const bool is_in = static_cast<int>(threadIdx.x) < n;
    if (is_in) y[threadIdx.x] = 1;
    __syncthreads();
    if (is_in) y[threadIdx.x] += 1;
}
void run() {
    wrong<<<1, threads>>>(fresh<int>(), 100);
    int* y = fresh<int>();
    right<<<1, threads>>>(y, 100);
    expect("barrier of some", y, 99, 2);
}
}  // namespace barrier_of_some

namespace every_other_half {
__global__ void right_fill_but_one(short* x) { x[2 * threadIdx.x] = 1; }
__global__ void wrong(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }  // undefined-value
__global__ void right_fill(short* x) { x[2 * threadIdx.x] = x[2 * threadIdx.x + 1] = 1; }
__global__ void right(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
void run() {
    short *x = reserved<short>(128), *z = reserved<short>(128);
    right_fill_but_one<<<1, 64>>>(x);
    wrong<<<1, 64>>>(reinterpret_cast<int*>(x), fresh<int>());
    int* y = fresh<int>();
    right_fill<<<1, 64>>>(z);
    right<<<1, 64>>>(reinterpret_cast<int*>(z), y);
    expect("every other half", y, 63, 0x10001);
}
}  // namespace every_other_half

namespace dynamic_shared {
__global__ void wrong(int* y) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = threadIdx.x;  // lds-out-of-bounds
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x ^ 1];  // lds-out-of-bounds
}
__global__ void right(int* y) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
void run() {
    wrong<<<1, 64, 32 * sizeof(int)>>>(fresh<int>());
    int* y = fresh<int>();
    right<<<1, 64, 64 * sizeof(int)>>>(y);
    expect("dynamic shared", y, 2, 3);
}
}  // namespace dynamic_shared

namespace freed_memory {
__global__ void wrong(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }  // out-of-bounds-read
__global__ void right(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
void run() {
    int *x = reserved<int>(100000), *y = fresh<int>();
    if (hipFree(x)) wrong_values++;
    wrong<<<1, 64>>>(x, fresh<int>());
    right<<<1, 64>>>(fresh<int>(true), y);
    expect("freed memory", y, 0, 1);
}
}  // namespace freed_memory

namespace memory_of_the_host {
__global__ void wrong(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }  // out-of-bounds-read
__global__ void right(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
void run() {
    static int host[64];
    wrong<<<1, 64>>>(host, fresh<int>());
    int *pinned, *y = fresh<int>();
    if (hipHostMalloc(&pinned, sizeof host, 0)) wrong_values++;
    for (int i = 0; i < 64; i++) pinned[i] = i;
    right<<<1, 64>>>(pinned, y);
    expect("memory of the host", y, 5, 5);
}
}  // namespace memory_of_the_host

namespace one_too_many {
__global__ void wrong(int* y, int n) {
    for (int i = threadIdx.x; i <= n; i += 64) y[i] = i;  // out-of-bounds-write
}
__global__ void right(int* y, int n) {
    for (int i = threadIdx.x; i < n; i += 64) y[i] = i;
}
void run() {
    wrong<<<1, 64>>>(reserved<int>(1000), 1000);
    int* y = reserved<int>(1000);
    right<<<1, 64>>>(y, 1000);
    expect("one too many", y, 999, 999);
}
}  // namespace one_too_many

namespace misaligned_counter {
__global__ void wrong(char* y) { atomicAdd(reinterpret_cast<int*>(y + 2), 1); }  // misaligned
__global__ void right(char* y) { atomicAdd(reinterpret_cast<int*>(y + 4), 1); }
void run() {
    wrong<<<1, 64>>>(fresh<char>());
    char* y = fresh<char>();
    right<<<1, 64>>>(y);
    expect<int>("misaligned counter", reinterpret_cast<int*>(y), 1, 64);
}
}  // namespace misaligned_counter

namespace flag_that_nobody_sets {
__global__ void wrong(const int* flag, int* y) {
    if (*flag) y[threadIdx.x] = 1;  // undefined-value
}
__global__ void right(const int* flag, int* y) {
    if (*flag) y[threadIdx.x] = 1;
}
void run() {
    wrong<<<1, 64>>>(reserved<int>(1), fresh<int>());
    int *flag = reserved<int>(1), *y = fresh<int>();
    if (hipMemset(flag, 1, 4)) wrong_values++;
    right<<<1, 64>>>(flag, y);
    expect("flag", y, 5, 1);
}
}  // namespace flag_that_nobody_sets

namespace ticket_before_the_stores {
template <bool waits> __device__ void sum(const int* x, int* parts, int* count, int* y) {
    __shared__ int ticket;
    const int t = threadIdx.x;
    parts[blockIdx.x * threads + t] = x[t] + 1;  // memory-race
    if (waits) __threadfence(), __syncthreads();
    if (t == 0) {
        __threadfence();
        ticket = atomicAdd(count, 1);
    }
    __syncthreads();
    if (ticket != static_cast<int>(gridDim.x) - 1) return;
    __threadfence();
    int total = 0;
    for (unsigned b = 0; b < gridDim.x; b++) total += parts[b * threads + t];  // memory-race
    y[t] = total;
}
__global__ void wrong(const int* x, int* parts, int* count, int* y) { sum<false>(x, parts, count, y); }
__global__ void right(const int* x, int* parts, int* count, int* y) { sum<true>(x, parts, count, y); }
void run() {
    wrong<<<4, threads>>>(fresh<int>(true), fresh<int>(), fresh<int>(), fresh<int>());
    int* y = fresh<int>();
    right<<<4, threads>>>(fresh<int>(true), fresh<int>(), fresh<int>(), y);
    expect("ticket", y, 1, 4 * 39);
}
}  // namespace ticket_before_the_stores

namespace private_array {
__global__ void wrong(const int* x, int* y, int n) {
    int counts[200];
    for (int i = 0; i < 199; i++) counts[i] = i;
    for (int i = 0; i < n; i++) counts[x[i] % 199] += i;
    y[threadIdx.x] = counts[199 - x[threadIdx.x] / 101];  // undefined-value
}
__global__ void right(const int* x, int* y, int n) {
    int counts[200];
    for (int i = 0; i < 200; i++) counts[i] = i;
    for (int i = 0; i < n; i++) counts[x[i] % 199] += i;
    y[threadIdx.x] = counts[199 - x[threadIdx.x] / 101];
}
void run() {
    wrong<<<1, 64>>>(fresh<int>(true), fresh<int>(), 20);
    int* y = fresh<int>();
    right<<<1, 64>>>(fresh<int>(true), y, 0);
    expect("private array", y, 0, 199);
}
}  // namespace private_array

namespace leaves_before_the_barrier {
template <bool together> __device__ void search(const int* x, int* y) {
    __shared__ int found;
    const int t = threadIdx.x;
    if (t == 0) found = 0;
    __syncthreads();
    for (int i = 0; i < 4; i++) {
        if (x[i * threads + t] == 101) found = 1;
        if (!together && t >= 128 && i == 2) break;
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();  // divergent-barrier
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    }
    y[t] = t;
}
__global__ void wrong(const int* x, int* y) { search<false>(x, y); }
__global__ void right(const int* x, int* y) { search<true>(x, y); }
void run() {
    wrong<<<1, threads>>>(fresh<int>(true), fresh<int>());
    int* y = fresh<int>();
    right<<<1, threads>>>(fresh<int>(true), y);
    expect("leaves before", y, 200, 200);
}
}  // namespace leaves_before_the_barrier

namespace bytes_of_a_tile {
template <bool waits> __device__ void reverse(unsigned char* y) {
    __shared__ unsigned char tile[threads];
    tile[threadIdx.x] = 0;
    __syncthreads();
    tile[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);  // lds-race
    if (waits) __syncthreads();
    y[threadIdx.x] = tile[threads - 1 - threadIdx.x];  // lds-race
}
__global__ void wrong(unsigned char* y) { reverse<false>(y); }
__global__ void right(unsigned char* y) { reverse<true>(y); }
void run() {
    wrong<<<1, threads>>>(fresh<unsigned char>());
    unsigned char* y = fresh<unsigned char>();
    right<<<1, threads>>>(y);
    expect<unsigned char>("bytes of a tile", y, 0, 255);
}
}  // namespace bytes_of_a_tile

namespace halves_beyond_the_end {
__global__ void wrong(const __half* x, __half* y, int n) {
    const int i = (blockIdx.x * 64 + threadIdx.x) * 2;
    if (i < n) *reinterpret_cast<__half2*>(y + i) = *reinterpret_cast<const __half2*>(x + i);  // out-of-bounds-write
}
__global__ void right(const __half* x, __half* y, int n) {
    const int i = (blockIdx.x * 64 + threadIdx.x) * 2;
    if (i + 1 < n) *reinterpret_cast<__half2*>(y + i) = *reinterpret_cast<const __half2*>(x + i);
    else if (i < n) y[i] = x[i];
}
void run() {
    __half* x = fresh<__half>();
    wrong<<<2, 64>>>(x, reserved<__half>(201), 201);
    __half* y = reserved<__half>(201);
    right<<<2, 64>>>(x, y, 201);
    expect<unsigned short>("halves", reinterpret_cast<unsigned short*>(y), 200, 0);
}
}  // namespace halves_beyond_the_end

namespace lanes_that_write_one_place {
__global__ void wrong(const int* x, int* y) { y[x[threadIdx.x] % 8] = threadIdx.x; }  // write-conflict
__global__ void right(const int* x, int* y) { atomicMax(&y[x[threadIdx.x] % 8], static_cast<int>(threadIdx.x)); }
void run() {
    wrong<<<1, 64>>>(fresh<int>(true), fresh<int>());
    int* y = fresh<int>();
    right<<<1, 64>>>(fresh<int>(true), y);
    expect("one place", y, 1, 63);
}
}  // namespace lanes_that_write_one_place

namespace sums_of_lanes {
__global__ void wrong(const float* x, float* y) {
    __shared__ float parts[8];
    float v = x[threadIdx.x];
    for (int by = warpSize / 2; by; by /= 2) v += __shfl_down(v, by);
    if (threadIdx.x % warpSize == 0) parts[threadIdx.x / warpSize] = v;
    __syncthreads();
    if (threadIdx.x < 8) {
        v = parts[threadIdx.x];
        for (int by = 4; by; by /= 2) v += __shfl_down(v, by);
        if (threadIdx.x == 0) *y = v;  // undefined-value
    }
}
__global__ void right(const float* x, float* y) {
    __shared__ float parts[8];
    float v = x[threadIdx.x];
    for (int by = warpSize / 2; by; by /= 2) v += __shfl_down(v, by);
    if (threadIdx.x % warpSize == 0) parts[threadIdx.x / warpSize] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / warpSize ? parts[threadIdx.x] : 0;
    for (int by = 4; by; by /= 2) v += __shfl_down(v, by);
    if (threadIdx.x == 0) *y = v;
}
void run() {
    float* x = fresh<float>(true);
    wrong<<<1, 64>>>(x, fresh<float>());
    float *y = fresh<float>(), sum = 0;
    right<<<1, threads>>>(x, y);
    for (int i = 0; i < threads; i++) sum += static_cast<float>(i * 37 % 101 + 1);
    expect("sums of lanes", y, 0, sum);
}
}  // namespace sums_of_lanes

namespace tile_of_a_group {
namespace cg = cooperative_groups;
template <bool waits> __device__ void rotate(int* y) {
    __shared__ int tile[threads];
    const cg::thread_block block = cg::this_thread_block();
    const auto part = cg::tiled_partition<16>(block);
    const int rank = block.thread_rank();
    tile[rank] = 0;
    block.sync();
    int v = rank;
    for (int by = part.size() / 2; by; by /= 2) v += part.shfl_xor(v, by);
    tile[rank] = v;  // lds-race
    if (waits) block.sync();
    else part.sync();
    y[rank] = tile[(rank + 64) % threads];  // lds-race
}
__global__ void wrong(int* y) { rotate<false>(y); }
__global__ void right(int* y) { rotate<true>(y); }
void run() {
    wrong<<<1, threads>>>(fresh<int>());
    int* y = fresh<int>();
    right<<<1, threads>>>(y);
    expect("tile of a group", y, 0, 64 * 16 + 120);
}
}  // namespace tile_of_a_group

int main() {
    partial_vector::run();
    sum_beyond_what_was_written::run();
    halo::run();
    first_thread_sets_it::run();
    exchange_in_a_branch::run();
    barrier_of_some::run();
    every_other_half::run();
    dynamic_shared::run();
    freed_memory::run();
    memory_of_the_host::run();
    one_too_many::run();
    misaligned_counter::run();
    flag_that_nobody_sets::run();
    ticket_before_the_stores::run();
    private_array::run();
    leaves_before_the_barrier::run();
    bytes_of_a_tile::run();
    halves_beyond_the_end::run();
    lanes_that_write_one_place::run();
    sums_of_lanes::run();
    tile_of_a_group::run();
    return ended();
}
