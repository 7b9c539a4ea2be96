// Functions as units have them: relu(X, Y, M, N): Y = max(2 X, 0), f32 to bf16; sum(X, Y, M, N): Y = sums of rows of X, f32;
// softmax(X, Y, M, N): of rows, f32; gemm(X, W, Y, M, N, K): Y = X W, f16; add(X, Y, M, N): Y += X, f32;
// clamp(X, Y, M, N): Y = X between -1 and 1, f32.
#include <hip/hip_runtime.h>
#include <cstdint>

#define DEFINE(NAME, ...)                                                                       \
  extern "C" __attribute__((visibility("default"))) int NAME(__VA_ARGS__, size_t* workspace_size, \
                                                             uint8_t* workspace, hipStream_t stream)
#define ROWS(NAME, OUTPUT) DEFINE(NAME, const float* X, OUTPUT* Y, int M, int N)
#define RELU(NAME) ROWS(NAME, uint16_t)
#define ONTO_ROWS(NAME) ROWS(NAME, float)
#define GEMM(NAME) DEFINE(NAME, const _Float16* X, const _Float16* W, _Float16* Y, int M, int N, int K)
#define WORKSPACE(BYTES) \
  if (workspace_size) return *workspace_size = (BYTES), 0
#define DONE return static_cast<int>(hipGetLastError())

inline int blocks(long count, int each = 256) { return static_cast<int>((count + each - 1) / each); }
__device__ inline long thread_id() { return blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; }
__device__ inline uint16_t rounded(float value) {
  __bf16 narrow = static_cast<__bf16>(value);
  return __builtin_bit_cast(uint16_t, narrow);
}
__device__ inline uint16_t relu_of(float x) { return rounded(fmaxf(2 * x, 0.0f)); }
__device__ inline float wave_sum(float value) {
  for (int distance = 32; distance; distance /= 2) value += __shfl_xor(value, distance);
  return value;
}
__device__ inline float wave_max(float value) {
  for (int distance = 32; distance; distance /= 2) value = fmaxf(value, __shfl_xor(value, distance));
  return value;
}
