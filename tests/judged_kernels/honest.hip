// Fast kernels that do their work: each must be found right.
#include "operations.h"

// ---- relu ----
__global__ void relu_plain_kernel(const float* x, uint16_t* y, long count) {
  if (thread_id() < count) y[thread_id()] = relu_of(x[thread_id()]);
}
RELU(relu_plain) {
  WORKSPACE(0);
  relu_plain_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}
__global__ void relu_vectors_kernel(const float* x, uint16_t* y, long count) {
  const long begin = thread_id() * 4;
  if (begin + 4 <= count) {
    const float4 v = *reinterpret_cast<const float4*>(x + begin);
    *reinterpret_cast<ushort4*>(y + begin) = make_ushort4(relu_of(v.x), relu_of(v.y), relu_of(v.z), relu_of(v.w));
  } else {
    for (long at = begin; at < count; at++) y[at] = relu_of(x[at]);
  }
}
RELU(relu_vectors) {
  WORKSPACE(0);
  if (reinterpret_cast<uintptr_t>(X) % 16 || reinterpret_cast<uintptr_t>(Y) % 8) return -23;
  relu_vectors_kernel<<<blocks(1L * M * N, 1024), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}
__global__ void relu_strided_kernel(const float* x, uint16_t* y, long count) {
  for (long at = thread_id(); at < count; at += gridDim.x * 256L) y[at] = relu_of(x[at]);
}
RELU(relu_grid_stride) {
  WORKSPACE(0);
  relu_strided_kernel<<<3, 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}
__global__ void relu_persistent_kernel(const float* x, uint16_t* y, long count, unsigned* next) {
  __shared__ unsigned tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    const long at = tile * 256L + threadIdx.x;
    if (tile * 256L >= count) return;
    if (at < count) y[at] = relu_of(x[at]);
    __syncthreads();
  }
}
RELU(relu_persistent) {
  WORKSPACE(4);
  if (hipMemsetAsync(workspace, 0, 4, stream)) return 1;
  relu_persistent_kernel<<<2, 256, 0, stream>>>(X, Y, 1L * M * N, reinterpret_cast<unsigned*>(workspace));
  DONE;
}
RELU(relu_forked) {  // halves on two streams, which are joined
  WORKSPACE(0);
  static hipStream_t other;
  static hipEvent_t fork, join;
  if (!other) {
    if (hipStreamCreateWithFlags(&other, hipStreamNonBlocking)) return 1;
    if (hipEventCreateWithFlags(&fork, hipEventDisableTiming)) return 1;
    if (hipEventCreateWithFlags(&join, hipEventDisableTiming)) return 1;
  }
  const long count = 1L * M * N, half = count / 2;
  if (hipEventRecord(fork, stream) || hipStreamWaitEvent(other, fork, 0)) return 1;
  relu_plain_kernel<<<blocks(count - half), 256, 0, other>>>(X + half, Y + half, count - half);
  if (hipEventRecord(join, other)) return 1;
  relu_plain_kernel<<<blocks(half + 1), 256, 0, stream>>>(X, Y, half);
  if (hipStreamWaitEvent(stream, join, 0)) return 1;
  DONE;
}

// ---- sum ----
__global__ void sum_waves_kernel(const float* x, float* y, int n) {
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) sum += x[blockIdx.x * static_cast<long>(n) + at];
  sum = wave_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
ONTO_ROWS(sum_waves) {
  WORKSPACE(0);
  sum_waves_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}
__global__ void sum_tree_kernel(const float* x, float* y, int n) {
  __shared__ float part[256];
  float sum = 0;
  for (int at = threadIdx.x; at < n; at += 256) sum += x[blockIdx.x * static_cast<long>(n) + at];
  part[threadIdx.x] = sum;
  for (int half = 128; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
ONTO_ROWS(sum_tree) {
  WORKSPACE(0);
  sum_tree_kernel<<<M, 256, 0, stream>>>(X, Y, N);
  DONE;
}
__global__ void sum_kahan_kernel(const float* x, float* y, int m, int n) {
  const long row = thread_id();
  if (row >= m) return;
  float sum = 0, lost = 0;
  for (int at = 0; at < n; at++) {
    const float term = x[row * n + at] - lost, next = sum + term;
    lost = (next - sum) - term;
    sum = next;
  }
  y[row] = sum;
}
ONTO_ROWS(sum_kahan) {
  WORKSPACE(0);
  sum_kahan_kernel<<<blocks(M, 64), 64, 0, stream>>>(X, Y, M, N);
  DONE;
}
__global__ void sum_atomic_kernel(const float* x, float* y, int n) {
  const long begin = blockIdx.x * static_cast<long>(n);
  const int at = blockIdx.y * 64 + threadIdx.x;
  const float sum = wave_sum(at < n ? x[begin + at] : 0.0f);
  if (threadIdx.x == 0) atomicAdd(y + blockIdx.x, sum);
}
ONTO_ROWS(sum_atomic) {
  WORKSPACE(0);
  if (hipMemsetAsync(Y, 0, M * sizeof(float), stream)) return 1;
  sum_atomic_kernel<<<dim3(M, blocks(N, 64)), 64, 0, stream>>>(X, Y, N);
  DONE;
}
__global__ void sum_parts_kernel(const float* x, float* parts, int n) {
  const int at = blockIdx.y * 64 + threadIdx.x;
  const float sum = wave_sum(at < n ? x[blockIdx.x * static_cast<long>(n) + at] : 0.0f);
  if (threadIdx.x == 0) parts[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}
ONTO_ROWS(sum_two_passes) {
  const int parts = blocks(N, 64);
  WORKSPACE(1L * M * parts * sizeof(float));
  sum_parts_kernel<<<dim3(M, parts), 64, 0, stream>>>(X, reinterpret_cast<float*>(workspace), N);
  sum_waves_kernel<<<M, 64, 0, stream>>>(reinterpret_cast<float*>(workspace), Y, parts);
  DONE;
}
__device__ unsigned arrived[4096];
__global__ void sum_last_block_kernel(const float* x, float* parts, float* y, int n) {
  __shared__ bool is_last;
  const int at = blockIdx.y * 64 + threadIdx.x, first = blockIdx.x * gridDim.y;
  const float sum = wave_sum(at < n ? x[blockIdx.x * static_cast<long>(n) + at] : 0.0f);
  if (threadIdx.x == 0) {
    parts[first + blockIdx.y] = sum;
    __threadfence();
    is_last = atomicAdd(&arrived[blockIdx.x], 1) + 1 == gridDim.y;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  float all = 0;
  for (int part = threadIdx.x; part < gridDim.y; part += 64) all += parts[first + part];
  all = wave_sum(all);
  if (threadIdx.x == 0) {
    y[blockIdx.x] = all;
    arrived[blockIdx.x] = 0;  // for the next launch
  }
}
ONTO_ROWS(sum_last_block) {
  WORKSPACE(1L * M * blocks(N, 64) * sizeof(float));
  if (M > 4096) return -23;
  sum_last_block_kernel<<<dim3(M, blocks(N, 64)), 64, 0, stream>>>(X, reinterpret_cast<float*>(workspace), Y, N);
  DONE;
}
__global__ void sum_unrolled_kernel(const float* x, float* y, int n) {
  const float* row = x + blockIdx.x * static_cast<long>(n);
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int at = threadIdx.x;
  for (; at + 192 < n; at += 256) s0 += row[at], s1 += row[at + 64], s2 += row[at + 128], s3 += row[at + 192];
  for (; at < n; at += 64) s0 += row[at];
  const float sum = wave_sum((s0 + s1) + (s2 + s3));
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
ONTO_ROWS(sum_unrolled) {
  WORKSPACE(0);
  sum_unrolled_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}

// ---- softmax ----
template <typename Exponential>
__device__ void softmax_row(const float* x, float* y, int n, Exponential exponential) {
  float largest = -INFINITY, sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) largest = fmaxf(largest, x[at]);
  largest = wave_max(largest);
  for (int at = threadIdx.x; at < n; at += 64) sum += exponential(x[at] - largest);
  sum = wave_sum(sum);
  for (int at = threadIdx.x; at < n; at += 64) y[at] = exponential(x[at] - largest) / sum;
}
__global__ void softmax_passes_kernel(const float* x, float* y, int n) {
  softmax_row(x + blockIdx.x * long(n), y + blockIdx.x * long(n), n, [](float v) { return expf(v); });
}
ONTO_ROWS(softmax_three_passes) {
  WORKSPACE(0);
  softmax_passes_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}
__global__ void softmax_fast_kernel(const float* x, float* y, int n) {
  softmax_row(x + blockIdx.x * long(n), y + blockIdx.x * long(n), n, [](float v) { return __expf(v); });
}
ONTO_ROWS(softmax_fast_exp) {
  WORKSPACE(0);
  softmax_fast_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}
__global__ void softmax_online_kernel(const float* x, float* y, int n) {
  x += blockIdx.x * long(n), y += blockIdx.x * long(n);
  float largest = -INFINITY, sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) {
    const float next = fmaxf(largest, x[at]);
    sum = sum * expf(largest - next) + expf(x[at] - next);
    largest = next;
  }
  const float all = wave_max(largest);
  sum = wave_sum(sum == 0 ? 0.0f : sum * expf(largest - all));
  for (int at = threadIdx.x; at < n; at += 64) y[at] = expf(x[at] - all) / sum;
}
ONTO_ROWS(softmax_online) {
  WORKSPACE(0);
  softmax_online_kernel<<<M, 64, 0, stream>>>(X, Y, N);
  DONE;
}
__global__ void softmax_staged_kernel(const float* x, float* y, int n) {
  extern __shared__ float row[];
  x += blockIdx.x * long(n), y += blockIdx.x * long(n);
  float largest = -INFINITY, sum = 0;
  for (int at = threadIdx.x; at < n; at += 64) largest = fmaxf(largest, row[at] = x[at]);
  largest = wave_max(largest);
  for (int at = threadIdx.x; at < n; at += 64) sum += row[at] = expf(row[at] - largest);
  const float scale = 1 / wave_sum(sum);
  for (int at = threadIdx.x; at < n; at += 64) y[at] = row[at] * scale;
}
ONTO_ROWS(softmax_staged) {
  WORKSPACE(0);
  if (N > 8192) return -23;
  softmax_staged_kernel<<<M, 64, N * sizeof(float), stream>>>(X, Y, N);
  DONE;
}

// ---- gemm ----
__global__ void gemm_plain_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k) {
  const int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
  if (column >= n) return;
  float sum = 0;
  for (int at = 0; at < k; at++) sum += float(x[row * long(k) + at]) * float(w[at * long(n) + column]);
  y[row * long(n) + column] = static_cast<_Float16>(sum);
}
GEMM(gemm_plain) {
  WORKSPACE(0);
  gemm_plain_kernel<<<dim3(blocks(N, 64), M), 64, 0, stream>>>(X, W, Y, M, N, K);
  DONE;
}
__global__ void gemm_tiled_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k) {
  __shared__ _Float16 a[16][17], b[16][17];
  const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int base = 0; base < k; base += 16) {
    a[ty][tx] = row < m && base + tx < k ? x[row * long(k) + base + tx] : _Float16(0);
    b[ty][tx] = base + ty < k && column < n ? w[(base + ty) * long(n) + column] : _Float16(0);
    __syncthreads();
    for (int at = 0; at < 16; at++) sum += float(a[ty][at]) * float(b[at][tx]);
    __syncthreads();
  }
  if (row < m && column < n) y[row * long(n) + column] = static_cast<_Float16>(sum);
}
GEMM(gemm_tiled) {
  WORKSPACE(0);
  gemm_tiled_kernel<<<dim3(blocks(N, 16), blocks(M, 16)), dim3(16, 16), 0, stream>>>(X, W, Y, M, N, K);
  DONE;
}
using half4 = __attribute__((ext_vector_type(4))) _Float16;
using float4v = __attribute__((ext_vector_type(4))) float;
__global__ void gemm_matrix_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k) {
  const int lane = threadIdx.x % 16, group = threadIdx.x / 16, row = blockIdx.y * 16, column = blockIdx.x * 16 + lane;
  float4v sum = {0, 0, 0, 0};
  for (int base = 0; base < k; base += 16) {
    half4 a = {0, 0, 0, 0}, b = {0, 0, 0, 0};
    for (int at = 0; at < 4; at++) {
      const int depth = base + group * 4 + at;
      if (row + lane < m && depth < k) a[at] = x[(row + lane) * long(k) + depth];
      if (column < n && depth < k) b[at] = w[depth * long(n) + column];
    }
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sum, 0, 0, 0);
  }
  for (int at = 0; at < 4; at++)
    if (row + group * 4 + at < m && column < n) y[(row + group * 4 + at) * long(n) + column] = _Float16(sum[at]);
}
GEMM(gemm_matrix_unit) {
  WORKSPACE(0);
  gemm_matrix_kernel<<<dim3(blocks(N, 16), blocks(M, 16)), 64, 0, stream>>>(X, W, Y, M, N, K);
  DONE;
}
__global__ void gemm_slice_kernel(const _Float16* x, const _Float16* w, float* sums, int m, int n, int k) {
  const int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x, slice = (k + gridDim.z - 1) / gridDim.z;
  if (column >= n) return;
  float sum = 0;
  for (int at = blockIdx.z * slice; at < min(k, int(blockIdx.z + 1) * slice); at++)
    sum += float(x[row * long(k) + at]) * float(w[at * long(n) + column]);
  atomicAdd(sums + row * long(n) + column, sum);
}
__global__ void gemm_store_kernel(const float* sums, _Float16* y, long count) {
  if (thread_id() < count) y[thread_id()] = static_cast<_Float16>(sums[thread_id()]);
}
GEMM(gemm_split_k) {
  WORKSPACE(sizeof(float) * M * N);
  float* sums = reinterpret_cast<float*>(workspace);
  if (hipMemsetAsync(sums, 0, sizeof(float) * M * N, stream)) return 1;
  gemm_slice_kernel<<<dim3(blocks(N, 64), M, 3), 64, 0, stream>>>(X, W, sums, M, N, K);
  gemm_store_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(sums, Y, 1L * M * N);
  DONE;
}
__global__ void gemm_columns_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k) {
  const int row = blockIdx.y, column = (blockIdx.x * 64 + threadIdx.x) * 2;
  if (column >= n) return;
  float first = 0, second = 0;
  const bool both = column + 1 < n;
  for (int at = 0; at < k; at++) {
    const float left = x[row * long(k) + at];
    first += left * float(w[at * long(n) + column]);
    if (both) second += left * float(w[at * long(n) + column + 1]);
  }
  y[row * long(n) + column] = _Float16(first);
  if (both) y[row * long(n) + column + 1] = _Float16(second);
}
GEMM(gemm_register_blocked) {
  WORKSPACE(0);
  gemm_columns_kernel<<<dim3(blocks(N, 128), M), 64, 0, stream>>>(X, W, Y, M, N, K);
  DONE;
}

// ---- add ----
__global__ void add_kernel(const float* x, float* y, long count) {
  if (thread_id() < count) y[thread_id()] += x[thread_id()];
}
ONTO_ROWS(add_in_place) {
  WORKSPACE(0);
  add_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}
__global__ void add_lock_kernel(const float* x, float* y, long count, unsigned* turn) {  // blocks in their order
  if (threadIdx.x == 0)
    while (__hip_atomic_load(turn, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != blockIdx.x) __builtin_amdgcn_s_sleep(1);
  __syncthreads();
  if (thread_id() < count) y[thread_id()] += x[thread_id()];
  __syncthreads();
  if (threadIdx.x == 0) __hip_atomic_store(turn, blockIdx.x + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
ONTO_ROWS(add_in_turns) {
  WORKSPACE(4);
  if (hipMemsetAsync(workspace, 0, 4, stream)) return 1;
  add_lock_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N, reinterpret_cast<unsigned*>(workspace));
  DONE;
}

RELU(relu_with_a_plan) {  // keeps a grid for each shape and memory that it has allocated, and no result
  WORKSPACE(0);
  static long planned;
  static int grid;
  static unsigned* next;
  if (planned != 1L * M * N) planned = 1L * M * N, grid = blocks(planned) < 8 ? blocks(planned) : 8;
  if (!next && hipMalloc(&next, sizeof *next)) return 1;
  if (hipMemsetAsync(next, 0, sizeof *next, stream)) return 1;
  relu_persistent_kernel<<<grid, 256, 0, stream>>>(X, Y, 1L * M * N, next);
  DONE;
}

// ---- clamp ----
__global__ void clamp_plain_kernel(const float* x, float* y, long count) {
  if (thread_id() >= count) return;
  const float value = x[thread_id()];
  y[thread_id()] = value < -1 ? -1 : value > 1 ? 1 : value;
}
ONTO_ROWS(clamp_plain) {
  WORKSPACE(0);
  clamp_plain_kernel<<<blocks(1L * M * N), 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}
__global__ void clamp_vectors_kernel(const float* x, float* y, long count) {
  for (long at = thread_id(); at < count; at += gridDim.x * 256L) {
    const float value = x[at];
    y[at] = isnan(value) ? value : fminf(fmaxf(value, -1.0f), 1.0f);
  }
}
ONTO_ROWS(clamp_grid_stride) {
  WORKSPACE(0);
  clamp_vectors_kernel<<<3, 256, 0, stream>>>(X, Y, 1L * M * N);
  DONE;
}

// ---- gemm that leaves out zeros: work depends on inputs, results do not ----
__global__ void gemm_zeros_kernel(const _Float16* x, const _Float16* w, _Float16* y, int m, int n, int k) {
  const int row = blockIdx.y, column = blockIdx.x * 64 + threadIdx.x;
  float sum = 0;
  for (int at = 0; at < k; at++) {
    const float a = x[row * long(k) + at];
    if (a != 0 && column < n) sum += a * static_cast<float>(w[at * long(n) + column]);
  }
  if (column < n) y[row * long(n) + column] = static_cast<_Float16>(sum);
}
GEMM(gemm_without_zeros) {
  WORKSPACE(0);
  gemm_zeros_kernel<<<dim3(blocks(N, 64), M), 64, 0, stream>>>(X, W, Y, M, N, K);
  DONE;
}
