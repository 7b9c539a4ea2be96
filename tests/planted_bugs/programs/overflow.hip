// As `across_workgroups.hip`: numbers that do not fit. Large memory is reserved; only what is touched takes any.
#include "program.hpp"

constexpr size_t billion = 1ull << 30;

namespace row_times_stride {
__global__ void wrong(const signed char* x, int* y, unsigned stride) {
    const int at = static_cast<int>(threadIdx.x * stride + threadIdx.x);
    y[threadIdx.x] = x[at];  // out-of-bounds-read
}
__global__ void right(const signed char* x, int* y, unsigned stride) {
    const size_t at = static_cast<size_t>(threadIdx.x) * stride + threadIdx.x;
    y[threadIdx.x] = x[at];
}
void run() {
    signed char* x = reserved<signed char>(3 * billion);
    for (size_t row = 0; row < 3; row++)
        if (hipMemset(x + row * (billion + 1), 5, 1)) wrong_values++;
    wrong<<<1, 3>>>(x, fresh<int>(), billion);
    int* y = fresh<int>();
    right<<<1, 3>>>(x, y, billion);
    expect("row times stride", y, 2, 5);
    if (hipFree(x)) wrong_values++;
}
}  // namespace row_times_stride

// Bytes between rows do not fit into 32 bits, elements do.
namespace leading_dimension_in_bytes {
__global__ void wrong(const float* x, float* y, unsigned leading) {
    const unsigned bytes = (blockIdx.x * leading + threadIdx.x) * 4;
    y[blockIdx.x * 64 + threadIdx.x] =  // undefined-value
        *reinterpret_cast<const float*>(reinterpret_cast<const char*>(x) + bytes);  // undefined-value
}
__global__ void wrong_store(float* y, unsigned leading) {
    const unsigned bytes = (blockIdx.x * leading + threadIdx.x) * 4;
    *reinterpret_cast<float*>(reinterpret_cast<char*>(y) + bytes) = blockIdx.x;  // memory-race
}
__global__ void right(const float* x, float* y, unsigned leading) {
    const size_t bytes = (static_cast<size_t>(blockIdx.x) * leading + threadIdx.x) * 4;
    y[blockIdx.x * 64 + threadIdx.x] = *reinterpret_cast<const float*>(reinterpret_cast<const char*>(x) + bytes);
}
__global__ void right_store(float* y, unsigned leading) {
    const size_t bytes = (static_cast<size_t>(blockIdx.x) * leading + threadIdx.x) * 4;
    *reinterpret_cast<float*>(reinterpret_cast<char*>(y) + bytes) = blockIdx.x;
}
void run() {
    const unsigned leading = billion + 64;
    float* x = reserved<float>(2 * leading);
    float* y = fresh<float>();
    right_store<<<2, 64>>>(x, leading);
    expect("leading dimension, store", x, leading + 63, 1.0f);
    if (hipMemset(x, 0, 256)) wrong_values++;
    right<<<2, 64>>>(x, y, leading);
    expect("leading dimension", y, 127, 1.0f);
    wrong<<<2, 64>>>(x, y, leading);
    wrong_store<<<2, 64>>>(x, billion);
    if (hipFree(x)) wrong_values++;
}
}  // namespace leading_dimension_in_bytes

// A head of a batch begins at batch * rows * columns.
namespace product_of_sizes {
__global__ void wrong(const signed char* x, int* y, int rows, int columns) {
    const int of_batch = static_cast<int>(static_cast<unsigned>(rows) * static_cast<unsigned>(columns));
    y[blockIdx.x] = x[static_cast<ptrdiff_t>(blockIdx.x) * of_batch];  // out-of-bounds-read
}
__global__ void right(const signed char* x, int* y, int rows, int columns) {
    const ptrdiff_t of_batch = static_cast<ptrdiff_t>(rows) * columns;
    y[blockIdx.x] = x[static_cast<ptrdiff_t>(blockIdx.x) * of_batch];
}
void run() {
    const int rows = 1 << 16, columns = (1 << 15) + 1;
    const size_t of_batch = static_cast<size_t>(rows) * columns;
    signed char* x = reserved<signed char>(2 * of_batch);
    if (hipMemset(x, 3, 1) || hipMemset(x + of_batch, 3, 1)) wrong_values++;
    wrong<<<2, 1>>>(x, fresh<int>(), rows, columns);
    int* y = fresh<int>();
    right<<<2, 1>>>(x, y, rows, columns);
    expect("product of sizes", y, 1, 3);
    if (hipFree(x)) wrong_values++;
}
}  // namespace product_of_sizes

// 65536 * 65537 is 65536 in 32 bits: the rest is left.
namespace count_of_elements {
__device__ void fill(signed char* y, size_t count) {
    for (size_t at = (blockIdx.x * 64 + threadIdx.x) * 65536ull; at < count; at += 128ull * 65536) y[at] = 1;
}
__global__ void fills_too_little(signed char* y, unsigned rows, unsigned columns) { fill(y, rows * columns); }
__global__ void fills(signed char* y, size_t rows, size_t columns) { fill(y, rows * columns); }
__device__ void add_up(const signed char* y, int* out) { out[threadIdx.x] = y[threadIdx.x * 65536 * 1024ull]; }  // undefined-value
__global__ void wrong(const signed char* y, int* out) { add_up(y, out); }
__global__ void right(const signed char* y, int* out) { add_up(y, out); }
void run() {
    const size_t count = 65536ull * 65537;
    signed char* y = reserved<signed char>(count);
    fills_too_little<<<2, 64>>>(y, 65536, 65537);
    wrong<<<1, 64>>>(y, fresh<int>());
    fills<<<2, 64>>>(y, 65536, 65537);
    int* out = fresh<int>();
    right<<<1, 64>>>(y, out);
    expect("count of elements", out, 63, 1);
    if (hipFree(y)) wrong_values++;
}
}  // namespace count_of_elements

namespace multiplication_in_24_bits {
__global__ void wrong(const int* x, int* y, int stride) {
    y[blockIdx.x] = x[__mul24(blockIdx.x, stride)];  // undefined-value
}
__global__ void right(const int* x, int* y, int stride) { y[blockIdx.x] = x[static_cast<int>(blockIdx.x) * stride]; }
void run() {
    const int stride = (1 << 24) + 128;
    int* x = reserved<int>(2 * stride);
    if (hipMemset(x, 0, 4) || hipMemset(x + stride, 0, 4)) wrong_values++;
    wrong<<<2, 1>>>(x, fresh<int>(), stride);
    right<<<2, 1>>>(x, fresh<int>(), stride);
    if (hipFree(x)) wrong_values++;
}
}  // namespace multiplication_in_24_bits

// 24 bits of a float are not enough for a place: even ones are met twice.
namespace place_as_a_float {
__global__ void wrong(int* y, int first) {
    const float place = static_cast<float>(first) + static_cast<float>(blockIdx.x);
    y[static_cast<int>(place)] = blockIdx.x;  // memory-race
}
__global__ void right(int* y, int first) {
    const double place = static_cast<double>(first) + blockIdx.x;
    y[static_cast<int>(place)] = blockIdx.x;
}
void run() {
    int* y = reserved<int>((1 << 24) + 64);
    wrong<<<blocks, 1>>>(y, 1 << 24);
    right<<<blocks, 1>>>(y, 1 << 24);
    expect("place as a double", y, (1 << 24) + 5, 5);
    if (hipFree(y)) wrong_values++;
}
}  // namespace place_as_a_float

namespace row_and_column_in_one_word {
__device__ unsigned packed(unsigned row, unsigned column, int bits) { return row << bits | column; }
__global__ void wrong(int* y, unsigned columns) {
    const unsigned at = packed(blockIdx.x, columns - 1, 16);
    y[static_cast<size_t>(at >> 16) * columns + (at & 0xffff)] = blockIdx.x;  // memory-race
}
__global__ void right(int* y, unsigned columns) {
    const unsigned at = packed(blockIdx.x, columns - 1, 20);
    y[static_cast<size_t>(at >> 20) * columns + (at & 0xfffff)] = blockIdx.x;
}
void run() {
    const unsigned columns = 65536 + 4;
    int* y = reserved<int>(8 * columns);
    wrong<<<2, 1>>>(y, columns);
    right<<<8, 1>>>(y, columns);
    expect("row and column", y, 5 * columns - 1, 4);
    if (hipFree(y)) wrong_values++;
}
}  // namespace row_and_column_in_one_word

// Where each workgroup's part begins.
namespace begin_in_16_bits {
__global__ void wrong(const unsigned short* begins, int* y) {
    y[begins[blockIdx.x] + threadIdx.x] = blockIdx.x;  // memory-race
}
__global__ void right(const unsigned* begins, int* y) { y[begins[blockIdx.x] + threadIdx.x] = blockIdx.x; }
void run() {
    unsigned begins[blocks];
    unsigned short short_begins[blocks];
    for (unsigned k = 0; k < blocks; k++) begins[k] = 16384 * k, short_begins[k] = static_cast<unsigned short>(16384 * k);
    unsigned* on_device = fresh<unsigned>();
    unsigned short* short_on_device = fresh<unsigned short>();
    if (hipMemcpy(on_device, begins, sizeof begins, hipMemcpyHostToDevice)) wrong_values++;
    if (hipMemcpy(short_on_device, short_begins, sizeof short_begins, hipMemcpyHostToDevice)) wrong_values++;
    int* y = reserved<int>(blocks * 16384);
    wrong<<<blocks, 64>>>(short_on_device, y);
    right<<<blocks, 64>>>(on_device, y);
    expect("begins", y, 15 * 16384, 15);
    if (hipFree(y)) wrong_values++;
}
}  // namespace begin_in_16_bits

namespace lds_place_in_16_bits {
template <typename Place>
__device__ void turn(int* y) {
    __shared__ signed char tile[48 * 1024];
    const Place at = static_cast<Place>(threadIdx.x * 768);
    tile[at] = threadIdx.x;  // lds-out-of-bounds
    __syncthreads();
    y[threadIdx.x] = tile[(63 - threadIdx.x) * 768];  // undefined-value
}
__global__ void wrong(int* y) { turn<short>(y); }
__global__ void right(int* y) { turn<unsigned short>(y); }
void run() {
    wrong<<<1, 64>>>(fresh<int>());
    int* y = fresh<int>();
    right<<<1, 64>>>(y);
    expect("place in LDS", y, 60, 3);
}
}  // namespace lds_place_in_16_bits

// More than 255 values: they are written from the end, where their number says.
namespace counter_in_8_bits {
template <typename Counter>
__device__ void write_from_behind(const int* x, int* y) {
    Counter count = 0;
    for (int k = 0; k < 300; k++) count += x[k] > 0;
    y[count - 300 + static_cast<int>(threadIdx.x)] = 1;  // out-of-bounds-write
}
__global__ void wrong(const int* x, int* y) { write_from_behind<unsigned char>(x, y); }
__global__ void right(const int* x, int* y) { write_from_behind<unsigned short>(x, y); }
void run() {
    wrong<<<1, 64>>>(fresh<int>(true), fresh<int>());
    int* y = fresh<int>();
    right<<<1, 64>>>(fresh<int>(true), y);
    expect("counter", y, 63, 1);
}
}  // namespace counter_in_8_bits

namespace signed_thread {
__global__ void wrong(const int* x, int* y) {
    const signed char thread = static_cast<signed char>(threadIdx.x);
    y[threadIdx.x] = x[thread];  // out-of-bounds-read
}
__global__ void right(const int* x, int* y) {
    const unsigned char thread = static_cast<unsigned char>(threadIdx.x);
    y[threadIdx.x] = x[thread];
}
void run() {
    wrong<<<1, 256>>>(fresh<int>(true), fresh<int>());
    right<<<1, 256>>>(fresh<int>(true), fresh<int>());
}
}  // namespace signed_thread

namespace unsigned_difference {
__global__ void wrong(const int* x, int* y) {
    const unsigned i = blockIdx.x * 64 + threadIdx.x, left = i - 1;
    y[i] = x[i] - x[left];  // out-of-bounds-read
}
__global__ void right(const int* x, int* y) {
    const unsigned i = blockIdx.x * 64 + threadIdx.x, left = i ? i - 1 : 0;
    y[i] = x[i] - x[left];
}
void run() {
    wrong<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
    right<<<blocks, 64>>>(fresh<int>(true), fresh<int>());
}
}  // namespace unsigned_difference

// Of a loop that leaves out the last element: without any, `count - 1` is the largest number.
namespace bound_below_zero {
__global__ void wrong(const int* x, int* y, unsigned count) {
    int sum = 0;
    for (unsigned k = threadIdx.x; k < count - 1 && k < 4096; k += 64) sum += x[k];  // out-of-bounds-read
    y[threadIdx.x] = sum;
}
__global__ void right(const int* x, int* y, unsigned count) {
    int sum = 0;
    for (unsigned k = threadIdx.x; k + 1 < count && k < 4096; k += 64) sum += x[k];
    y[threadIdx.x] = sum;
}
void run() {
    wrong<<<1, 64>>>(fresh<int>(true), fresh<int>(), 0);
    right<<<1, 64>>>(fresh<int>(true), fresh<int>(), 0);
    int* y = fresh<int>();
    right<<<1, 64>>>(fresh<int>(true), y, 3);
    expect("bound", y, 1, 38);
}
}  // namespace bound_below_zero

namespace distance_of_pointers {
__global__ void wrong(const signed char* begin, const signed char* end, int* y) {
    const int distance = static_cast<int>(end - begin);
    y[blockIdx.x] = begin[static_cast<ptrdiff_t>(distance) - 1 - blockIdx.x];  // out-of-bounds-read
}
__global__ void right(const signed char* begin, const signed char* end, int* y) {
    const ptrdiff_t distance = end - begin;
    y[blockIdx.x] = begin[distance - 1 - blockIdx.x];
}
void run() {
    const size_t size = 2 * billion + 7;
    signed char* x = reserved<signed char>(size);
    if (hipMemset(x + size - 2, 4, 2)) wrong_values++;
    wrong<<<2, 1>>>(x, x + size, fresh<int>());
    int* y = fresh<int>();
    right<<<2, 1>>>(x, x + size, y);
    expect("distance", y, 1, 4);
    if (hipFree(x)) wrong_values++;
}
}  // namespace distance_of_pointers

int main() {
    row_times_stride::run();
    leading_dimension_in_bytes::run();
    product_of_sizes::run();
    count_of_elements::run();
    multiplication_in_24_bits::run();
    place_as_a_float::run();
    row_and_column_in_one_word::run();
    begin_in_16_bits::run();
    lds_place_in_16_bits::run();
    counter_in_8_bits::run();
    signed_thread::run();
    unsigned_difference::run();
    bound_below_zero::run();
    distance_of_pointers::run();
    return ended();
}
