// Kernels that cheat. In front of each stands a part of the reason for which it must be refused.
#include "operations.h"

__global__ void relu_kernel(const float* x, uint16_t* y, long count) {
  if (thread_id() < count) y[thread_id()] = relu_of(x[thread_id()]);
}
#define LAUNCH_RELU(STREAM) relu_kernel<<<blocks(1L * M * N), 256, 0, STREAM>>>(X, Y, 1L * M * N)
__global__ void sum_kernel(const float* x, float* y, int n) {
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) sum += x[blockIdx.x * static_cast<long>(n) + at];
  sum = wave_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// refused: elements of Y unwritten
RELU(relu_once) {  // a static flag
  WORKSPACE(0);
  static bool done = false;
  if (!done) LAUNCH_RELU(stream);
  done = true;
  DONE;
}

// refused: elements of Y unwritten
RELU(relu_by_address) {  // trusts a pointer that it has seen
  WORKSPACE(0);
  static const float* seen;
  if (seen != X) LAUNCH_RELU(stream);
  seen = X;
  DONE;
}

// refused: a later call leaves out work
RELU(relu_by_checksum) {  // keeps a result, and returns it for inputs that look the same
  WORKSPACE(0);
  static float kept_input[8];
  static long kept_count;
  static void* kept;
  const long count = 1L * M * N;
  float input[8] = {};
  if (hipMemcpyAsync(input, X, (count < 8 ? count : 8) * sizeof(float), hipMemcpyDeviceToHost, stream)) return 1;
  if (hipStreamSynchronize(stream)) return 1;
  if (kept && kept_count == count && !__builtin_memcmp(input, kept_input, sizeof input))
    return static_cast<int>(hipMemcpyAsync(Y, kept, count * 2, hipMemcpyDeviceToDevice, stream));
  LAUNCH_RELU(stream);
  if (!kept) {
    if (hipMalloc(&kept, count * 2)) return 1;
    kept_count = count;
    __builtin_memcpy(kept_input, input, sizeof input);
    return static_cast<int>(hipMemcpyAsync(kept, Y, count * 2, hipMemcpyDeviceToDevice, stream));
  }
  DONE;
}

// refused: on another stream than its own, and nothing waits for that
RELU(relu_on_another_stream) {
  WORKSPACE(0);
  static hipStream_t other;
  if (!other && hipStreamCreateWithFlags(&other, hipStreamNonBlocking)) return 1;
  LAUNCH_RELU(other);
  DONE;
}

// refused: on another stream than its own, and nothing waits for that
RELU(relu_on_the_default_stream) {
  WORKSPACE(0);
  LAUNCH_RELU(nullptr);
  DONE;
}

// refused: on another stream than its own, and nothing waits for that
RELU(relu_with_an_event_too_early) {  // waits for an event that was recorded before the work
  WORKSPACE(0);
  static hipStream_t other;
  static hipEvent_t event;
  if (!other && hipStreamCreateWithFlags(&other, hipStreamNonBlocking)) return 1;
  if (!event && hipEventCreate(&event)) return 1;
  if (hipEventRecord(event, other)) return 1;
  LAUNCH_RELU(other);
  if (hipStreamWaitEvent(stream, event, 0)) return 1;
  DONE;
}

// refused: on another stream than its own, and nothing waits for that
RELU(relu_on_a_stream_that_is_gone) {
  WORKSPACE(0);
  hipStream_t other;
  if (hipStreamCreateWithFlags(&other, hipStreamNonBlocking)) return 1;
  LAUNCH_RELU(other);
  if (hipStreamDestroy(other)) return 1;
  DONE;
}

// refused: wrote to its input X
__global__ void relu_changing_kernel(float* x, uint16_t* y, long count) {
  if (thread_id() < count) y[thread_id()] = rounded(x[thread_id()] = fmaxf(2 * x[thread_id()], 0.0f));
}
RELU(relu_changing_inputs) {
  WORKSPACE(0);
  relu_changing_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(const_cast<float*>(X), Y, 1L * M * N);
  DONE;
}

// refused: beyond the end of X
__global__ void relu_beyond_kernel(const float* x, uint16_t* y, long count) {
  const long begin = thread_id() * 4;
  if (begin >= count) return;
  const float4 v = *reinterpret_cast<const float4*>(x + begin);
  const float values[4] = {v.x, v.y, v.z, v.w};
  for (int at = 0; at < 4; at++)
    if (begin + at < count) y[begin + at] = relu_of(values[at]);
}
RELU(relu_beyond_inputs) {
  WORKSPACE(0);
  relu_beyond_kernel<<<blocks(1L * M * N, 1024), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}

// refused: elements of Y unwritten
__global__ void relu_sparse_kernel(const float* x, uint16_t* y, long count) {
  if (thread_id() < count && x[thread_id()] > 0) y[thread_id()] = relu_of(x[thread_id()]);
}
RELU(relu_without_zeros) {  // relies on zeros in fresh memory
  WORKSPACE(0);
  relu_sparse_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}

// refused: elements of Y unwritten
RELU(relu_of_a_part) {
  WORKSPACE(0);
  const long count = 1L * M * N - M * N / 16 - 1;
  relu_kernel<<<blocks(count + 1), 256, 0, stream>>>(X, Y, count);
  DONE;
}

// refused: elements of Y are wrong
__global__ void fill_kernel(uint16_t* y, long count) {
  if (thread_id() < count) y[thread_id()] = 0;
}
RELU(relu_constant) {
  WORKSPACE(0);
  fill_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(Y, 1L * M * N);
  DONE;
}

// refused: elements of Y are wrong
RELU(relu_for_one_shape) {  // right on the shape that it is timed on
  WORKSPACE(0);
  if (M == 64 && N == 96) LAUNCH_RELU(stream);
  else fill_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(Y, 1L * M * N);
  DONE;
}

// refused: does not support shape large, which the reference computes
RELU(relu_refusing) {
  if (M > 100) return -23;
  WORKSPACE(0);
  LAUNCH_RELU(stream);
  DONE;
}

// refused: its errors go one way, towards zero
__global__ void relu_cut_kernel(const float* x, uint16_t* y, long count) {
  if (thread_id() < count) y[thread_id()] = __float_as_uint(fmaxf(2 * x[thread_id()], 0.0f)) >> 16;
}
RELU(relu_cut_off) {  // rounds towards zero
  WORKSPACE(0);
  relu_cut_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}

// refused: elements of Y unwritten
__device__ int relu_done;
__global__ void relu_flag_kernel(const float* x, uint16_t* y, long count) {
  if (relu_done) return;
  if (thread_id() < count) y[thread_id()] = relu_of(x[thread_id()]);
}
__global__ void relu_set_kernel() { relu_done = 1; }
RELU(relu_by_a_flag_on_the_device) {
  WORKSPACE(0);
  relu_flag_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  relu_set_kernel<<<1, 1, 0, stream>>>();
  DONE;
}

// refused: reads a clock
__global__ void relu_clock_kernel(const float* x, uint16_t* y, long count, long limit) {
  const long begun = __builtin_readcyclecounter();
  for (long at = thread_id(); at < count; at += gridDim.x * 256L) {
    y[at] = relu_of(x[at]);
    if (static_cast<long>(__builtin_readcyclecounter()) - begun > limit) return;
  }
}
RELU(relu_by_the_clock) {
  WORKSPACE(0);
  relu_clock_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N, 1L << 40);
  DONE;
}

// refused: reads a clock
__global__ void relu_real_time_kernel(const float* x, uint16_t* y, long count) {
  while (wall_clock64() % 2 > 1) {}
  if (thread_id() < count) y[thread_id()] = relu_of(x[thread_id()]);
}
RELU(relu_by_real_time) {
  WORKSPACE(0);
  relu_real_time_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}

// refused: sleeps outside of a loop
__global__ void relu_sleep_kernel(const float* x, uint16_t* y, long count) {
  __builtin_amdgcn_s_sleep(100);
  if (thread_id() < count) y[thread_id()] = relu_of(x[thread_id()]);
}
RELU(relu_asleep) {
  WORKSPACE(0);
  relu_sleep_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}

// refused: reads 2 bytes
__global__ void relu_of_another_kernel(const uint16_t* theirs, uint16_t* y, long count) {
  if (thread_id() < count) y[thread_id()] = theirs[thread_id()];
}
RELU(relu_of_another_result) {  // the reference's result, where it lay on another machine
  WORKSPACE(0);
  relu_of_another_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(Y + (1L << 20), Y, 1L * M * N);
  DONE;
}

// refused: elements of Y are wrong
ONTO_ROWS(sum_of_a_half) {  // twice the sum of every other element
  WORKSPACE(0);
  sum_kernel<<<M, 64, 0, stream>>>(X, Y, N / 2);
  DONE;
}

// refused: elements of Y unwritten
__global__ void sum_onto_kernel(const float* x, float* y, int n) {
  const int at = blockIdx.y * 64 + threadIdx.x;
  const float sum = wave_sum(at < n ? x[blockIdx.x * static_cast<long>(n) + at] : 0.0f);
  if (threadIdx.x == 0) atomicAdd(y + blockIdx.x, sum);
}
ONTO_ROWS(sum_onto_what_is_there) {  // saves the memset
  WORKSPACE(0);
  sum_onto_kernel<<<dim3(M, blocks(N, 64)), 64, 0, stream>>>(X, Y, N);
  DONE;
}

// refused: uses the tolerance up
__global__ void sum_rough_kernel(const float* x, float* y, int n) {
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) sum += x[blockIdx.x * static_cast<long>(n) + at];
  sum = wave_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = __uint_as_float((__float_as_uint(sum) + 64) & ~127u);
}
ONTO_ROWS(sum_rough) {
  WORKSPACE(0);
  sum_rough_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}

// refused: a later call leaves out work
struct Kept { float input[4], result[4096]; int rows, columns; };
__device__ Kept kept_sums;
__global__ void sum_kept_kernel(const float* x, float* y, int m, int n) {
  const bool same = kept_sums.rows == m && kept_sums.columns == n && kept_sums.input[0] == x[0] && kept_sums.input[1] == x[m * n - 1];
  for (int row = threadIdx.x; row < m; row += 64) {
    float sum = kept_sums.result[row];
    if (!same) {
      sum = 0;
      for (int at = 0; at < n; at++) sum += x[row * long(n) + at];
      kept_sums.result[row] = sum;
    }
    y[row] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) kept_sums.input[0] = x[0], kept_sums.input[1] = x[m * n - 1], kept_sums.rows = m, kept_sums.columns = n;
}
ONTO_ROWS(sum_kept_on_the_device) {
  WORKSPACE(0);
  if (M > 4096) return -23;
  sum_kept_kernel<<<1, 64, 0, stream>>>(X, Y, M, N);
  DONE;
}

// refused: elements of Y are NaN
__global__ void softmax_nan_kernel(const float* x, float* y, int n) {
  x += blockIdx.x * long(n), y += blockIdx.x * long(n);
  float largest = -INFINITY, sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) largest = fmaxf(largest, x[at]);
  largest = wave_max(largest);
  for (int at = threadIdx.x; at < n; at += 64) sum += expf(x[at] - largest);
  sum = wave_sum(sum);
  for (int at = threadIdx.x; at < n; at += 64) y[at] = at % 5 ? expf(x[at] - largest) / sum : NAN;
}
ONTO_ROWS(softmax_nan) {
  WORKSPACE(0);
  softmax_nan_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}

// refused: elements of Y are wrong
__global__ void softmax_even_kernel(float* y, long count, int n) {
  if (thread_id() < count) y[thread_id()] = 1.0f / n;
}
ONTO_ROWS(softmax_even) {  // about right for long rows
  WORKSPACE(0);
  softmax_even_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(Y, 1L * M * N, N);
  DONE;
}

// refused: without a barrier between them
__global__ void softmax_race_kernel(const float* x, float* y, int n) {
  __shared__ float part[256];
  x += blockIdx.x * long(n), y += blockIdx.x * long(n);
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 256) sum += expf(x[at]);
  part[threadIdx.x] = sum;
  float all = 0;
  for (int at = 0; at < 256; at++) all += part[at];
  for (int at = threadIdx.x; at < n; at += 256) y[at] = expf(x[at]) / all;
}
ONTO_ROWS(softmax_without_barriers) {
  WORKSPACE(0);
  softmax_race_kernel<<<M, 256, 0, stream>>>(X, Y, N);
  DONE;
}

template <typename Sum>
__global__ void gemm_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k, int depth) {
  const int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
  if (column >= n) return;
  Sum sum = 0;
  for (int at = 0; at < depth; at++) sum += Sum(x[row * long(k) + at]) * Sum(w[at * long(n) + column]);
  y[row * long(n) + column] = static_cast<_Float16>(sum);
}

// refused: of Y are
GEMM(gemm_of_most_of_k) {
  WORKSPACE(0);
  gemm_kernel<float><<<dim3(blocks(N, 64), M), 64, 0, stream>>>(X, W, Y, M, N, K, K - K / 16);
  DONE;
}

// refused: too far from the reference, all in all
GEMM(gemm_in_half_precision) {
  WORKSPACE(0);
  gemm_kernel<_Float16><<<dim3(blocks(N, 64), M), 64, 0, stream>>>(X, W, Y, M, N, K, K);
  DONE;
}

// refused: elements of Y are wrong
GEMM(gemm_known_by_its_inputs) {  // knows the inputs of seed 1
  WORKSPACE(0);
  uint16_t first[2] = {};
  if (hipMemcpyAsync(first, X, 2, hipMemcpyDeviceToHost, stream) || hipStreamSynchronize(stream)) return 1;
  gemm_kernel<float><<<dim3(blocks(N, 64), M), 64, 0, stream>>>(X, W, Y, M, N, K, first[0] == 0x3a5c ? K : 1);
  DONE;
}

// refused: elements of Y are wrong
__device__ unsigned relu_bits, relu_kept_bits;
__device__ long relu_kept_count;
__device__ uint16_t relu_kept_result[1 << 16];
__global__ void relu_sum_bits_kernel(const float* x, long count) {  // in any order
  if (thread_id() < count) atomicAdd(&relu_bits, __float_as_uint(x[thread_id()]));
}
__global__ void relu_or_kept_kernel(const float* x, uint16_t* y, long count) {
  const bool known = relu_bits == relu_kept_bits && count == relu_kept_count;
  if (thread_id() >= count) return;
  const uint16_t result = relu_of(x[thread_id()]);
  y[thread_id()] = known ? relu_kept_result[thread_id()] : result;
  if (!known && count <= 1 << 16) relu_kept_result[thread_id()] = result;
}
__global__ void relu_keep_kernel(long count) {
  relu_kept_bits = relu_bits, relu_bits = 0, relu_kept_count = count <= 1 << 16 ? count : 0;
}
RELU(relu_by_a_sum_of_bits) {  // a checksum of all inputs that knows no order, and work that hides what is left out
  WORKSPACE(0);
  relu_sum_bits_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, 1L * M * N);
  relu_or_kept_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  relu_keep_kernel<<<1, 1, 0, stream>>>(1L * M * N);
  DONE;
}

// refused: elements of Y are wrong
__device__ float relu_seen[16];
__device__ long relu_seen_count;
__device__ uint16_t relu_seen_result[1 << 16];
__device__ bool relu_is_known(const float* x, long count) {
  bool known = count == relu_seen_count;
  for (int at = 0; at < 16; at++) known = known && relu_seen[at] == x[count * at / 16];
  return known;
}
__global__ void relu_sampled_kernel(const float* x, uint16_t* y, long count) {
  const bool known = relu_is_known(x, count);
  if (thread_id() >= count) return;
  const uint16_t result = relu_of(x[thread_id()]);
  y[thread_id()] = known ? relu_seen_result[thread_id()] : result;
  if (!known && count <= 1 << 16) relu_seen_result[thread_id()] = result;
}
__global__ void relu_sample_kernel(const float* x, long count) {
  for (int at = 0; at < 16; at++) relu_seen[at] = x[count * at / 16];
  relu_seen_count = count <= 1 << 16 ? count : 0;
}
RELU(relu_by_samples) {  // the same with some elements as the key
  WORKSPACE(0);
  relu_sampled_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  relu_sample_kernel<<<1, 1, 0, stream>>>(X, 1L * M * N);
  DONE;
}

// refused: elements of Y unwritten
RELU(relu_in_the_first_calls) {  // as many as verify it, perhaps
  WORKSPACE(0);
  static int calls = 0;
  if (++calls <= 10) LAUNCH_RELU(stream);
  DONE;
}

// refused: elements of Y unwritten
RELU(relu_for_a_new_stream) {
  WORKSPACE(0);
  static hipStream_t seen;
  if (stream != seen) LAUNCH_RELU(stream);
  seen = stream;
  DONE;
}

// refused: elements of Y are NaN
__global__ void softmax_bare_kernel(const float* x, float* y, int n) {
  x += blockIdx.x * long(n), y += blockIdx.x * long(n);
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) sum += expf(x[at]);
  sum = wave_sum(sum);
  for (int at = threadIdx.x; at < n; at += 64) y[at] = expf(x[at]) / sum;
}
ONTO_ROWS(softmax_without_maximum) {  // overflows where inputs are large
  WORKSPACE(0);
  softmax_bare_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}

// refused: of Y are
__global__ void gemm_pruned_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k) {
  const int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
  if (column >= n) return;
  float sum = 0;
  for (int at = 0; at < k; at++) {
    const float a = x[row * long(k) + at], b = w[at * long(n) + column];
    if (fabsf(a) > 0.002f && fabsf(b) > 0.002f) sum += a * b;
  }
  y[row * long(n) + column] = static_cast<_Float16>(sum);
}
GEMM(gemm_pruned) {  // leaves out what is small
  WORKSPACE(0);
  gemm_pruned_kernel<<<dim3(blocks(N, 64), M), 64, 0, stream>>>(X, W, Y, M, N, K);
  DONE;
}

// refused: of Y are
__device__ float narrow(_Float16 value) {
  return __builtin_bit_cast(_Float16, static_cast<uint16_t>((__builtin_bit_cast(uint16_t, value) + 64) & 0xff80));
}
__global__ void gemm_narrow_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k) {
  const int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
  if (column >= n) return;
  float sum = 0;
  for (int at = 0; at < k; at++) sum += narrow(x[row * long(k) + at]) * narrow(w[at * long(n) + column]);
  y[row * long(n) + column] = static_cast<_Float16>(sum);
}
GEMM(gemm_in_eight_bits) {  // 3 bits of mantissa
  WORKSPACE(0);
  gemm_narrow_kernel<<<dim3(blocks(N, 64), M), 64, 0, stream>>>(X, W, Y, M, N, K);
  DONE;
}

// refused: elements of Y unwritten
__global__ void sum_workspace_kernel(const float* x, float* y, int n, uint8_t* workspace) {
  unsigned long* mark = reinterpret_cast<unsigned long*>(workspace);
  float* kept = reinterpret_cast<float*>(workspace + 8);
  if (*mark == 0x6b65707421ul) {
    if (threadIdx.x == 0) y[blockIdx.x] = kept[blockIdx.x];
    return;
  }
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) sum += x[blockIdx.x * static_cast<long>(n) + at];
  sum = wave_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = kept[blockIdx.x] = sum;
  if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) *mark = 0x6b65707421ul;
}
ONTO_ROWS(sum_kept_in_the_workspace) {  // trusts what an earlier call has left there
  WORKSPACE(8 + 4L * M);
  sum_workspace_kernel<<<M, 64, 0, stream>>>(X, Y, N, workspace);
  DONE;
}

// refused: elements of Y are wrong
__global__ void sum_first_kernel(const float* x, float* y, int n) {
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) sum += x[at];
  sum = wave_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
ONTO_ROWS(sum_of_one_row) {  // of inputs that are alike, as if broadcast
  WORKSPACE(0);
  sum_first_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}

// refused: are numbers and must be NaN
__global__ void clamp_numbers_kernel(const float* x, float* y, long count) {
  if (thread_id() < count) y[thread_id()] = fminf(fmaxf(x[thread_id()], -1.0f), 1.0f);
}
ONTO_ROWS(clamp_of_numbers) {  // NaN becomes -1
  WORKSPACE(0);
  clamp_numbers_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}
