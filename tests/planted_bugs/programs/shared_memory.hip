// As `across_workgroups.hip`: waves of one workgroup that share LDS. Reads of what was written before the last barrier are
// the most frequent; a write behind them, without another barrier, is a race with each of them, however many there were.
#include "program.hpp"

constexpr int threads = 256;

namespace read_then_written {
template <bool waits> __device__ void shift(int* y) {
    __shared__ int tile[threads];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const int next = tile[(threadIdx.x + 64) % threads];  // lds-race
    if (waits) __syncthreads();
    tile[threadIdx.x] = next + 1;  // lds-race
    __syncthreads();
    y[threadIdx.x] = tile[threads - 1 - threadIdx.x];
}
__global__ void wrong(int* y) { shift<false>(y); }
__global__ void right(int* y) { shift<true>(y); }
void run() {
    wrong<<<1, threads>>>(fresh<int>());
    int* y = fresh<int>();
    right<<<1, threads>>>(y);
    expect("read, then written", y, 0, 64);
}
}  // namespace read_then_written

namespace read_many_times {
template <bool waits> __device__ void sum(int* y) {
    __shared__ int tile[threads];
    tile[threadIdx.x] = 1;
    __syncthreads();
    int sum = 0;
#pragma unroll 1
    for (int at = 0; at < threads; at++) sum += tile[(threadIdx.x + at) % threads];  // lds-race
#pragma unroll 1
    for (int at = 0; at < threads; at++) sum += tile[at / 2];
    if (waits) __syncthreads();
    if (threadIdx.x / 64 == 1) tile[threadIdx.x + 128] = sum;  // lds-race
    y[threadIdx.x] = sum;
}
__global__ void wrong(int* y) { sum<false>(y); }
__global__ void right(int* y) { sum<true>(y); }
void run() {
    wrong<<<1, threads>>>(fresh<int>());
    int* y = fresh<int>();
    right<<<1, threads>>>(y);
    expect("read many times", y, 0, 512);
}
}  // namespace read_many_times

namespace places_from_memory {
template <bool waits> __device__ void gather(const unsigned char* places, int* y) {
    __shared__ int tile[threads];
    tile[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const int found = tile[places[threadIdx.x]];  // lds-race
    if (waits) __syncthreads();
    atomicAdd(&tile[places[threadIdx.x]], 1);  // lds-race
    y[threadIdx.x] = found;
}
__global__ void wrong(const unsigned char* places, int* y) { gather<false>(places, y); }
__global__ void right(const unsigned char* places, int* y) { gather<true>(places, y); }
void run() {
    unsigned char* places = reserved<unsigned char>(threads);
    if (hipMemset(places, 7, threads)) wrong_values++;
    wrong<<<1, threads>>>(places, fresh<int>());
    int* y = fresh<int>();
    right<<<1, threads>>>(places, y);
    expect("places from memory", y, 99, 7);
    if (hipFree(places)) wrong_values++;
}
}  // namespace places_from_memory

// One buffer is read while the other is written, with one barrier a round.
namespace two_buffers {
template <bool overlap> __device__ void rounds(int* y, int count) {
    __shared__ int tile[2 * threads];
    const int apart = overlap ? threads - 64 : threads;
    int sum = 0;
    tile[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 1
    for (int round = 0; round < count; round++) {
        tile[(round + 1) % 2 * apart + threadIdx.x] = round + 1;  // lds-race
        sum += tile[round % 2 * apart + (threadIdx.x + 192) % threads];  // lds-race
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
__global__ void wrong(int* y, int count) { rounds<true>(y, count); }
__global__ void right(int* y, int count) { rounds<false>(y, count); }
void run() {
    wrong<<<1, threads>>>(fresh<int>(), 6);
    int* y = fresh<int>();
    right<<<1, threads>>>(y, 6);
    expect("two buffers", y, 0, 15);
}
}  // namespace two_buffers

// Rows have a word behind them that nobody writes.
namespace padded_rows {
template <int last> __device__ void transposed(int* y) {
    __shared__ int tile[16][17];
    tile[threadIdx.x / 16][threadIdx.x % 16] = threadIdx.x;
    __syncthreads();
    const int sum = tile[threadIdx.x % 16][threadIdx.x / 16] + tile[threadIdx.x % 16][last];
    y[threadIdx.x] = sum;  // undefined-value
}
__global__ void wrong(int* y) { transposed<16>(y); }
__global__ void right(int* y) { transposed<15>(y); }
void run() {
    wrong<<<1, threads>>>(fresh<int>());
    int* y = fresh<int>();
    right<<<1, threads>>>(y);
    expect("padded rows", y, 255, 510);
}
}  // namespace padded_rows

int main() {
    read_then_written::run();
    read_many_times::run();
    places_from_memory::run();
    two_buffers::run();
    padded_rows::run();
    return ended();
}
