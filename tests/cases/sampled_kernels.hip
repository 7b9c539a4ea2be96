// Kernels of which a sample of the workgroups stands for all of them, or does not.
#include <hip/hip_runtime.h>

#define LAUNCH(name, ...)                                                                       \
  extern "C" int name(float *x, float *y) {                                                     \
    __VA_ARGS__;                                                                                \
    return hipGetLastError();                                                                   \
  }
constexpr int block = 64;

__global__ void twice(const float *x, float *y) {
  const int n = blockIdx.x * block + threadIdx.x;
  y[n] = 2 * x[n];
}
__global__ void in_place(float *y) { y[blockIdx.x * block + threadIdx.x] += 1; }
__global__ void total(const float *x, float *y) { atomicAdd(y, x[blockIdx.x * block + threadIdx.x]); }
__global__ void neighbours(float *y) {
  const int n = blockIdx.x * block + threadIdx.x;
  y[n] = n;
  if (blockIdx.x) y[n] += y[n - block];
}
__device__ float kept;
__global__ void keep(const float *x, float *y) {
  const int n = blockIdx.x * block + threadIdx.x;
  y[n] = x[n];
  if (n == 0) kept = x[n];
}

LAUNCH(independent, twice<<<256, block>>>(x, y))
LAUNCH(two_launches, twice<<<256, block>>>(x, y); in_place<<<256, block>>>(y))
LAUNCH(overwritten, twice<<<256, block>>>(x, y); twice<<<128, block>>>(x, y))
LAUNCH(atomics, total<<<256, block>>>(x, y))
LAUNCH(foreign_reads, neighbours<<<256, block>>>(y))
LAUNCH(variables, keep<<<256, block>>>(x, y))
LAUNCH(copied, twice<<<256, block>>>(x, y);
       hipMemcpyAsync(x, y, 64, hipMemcpyDeviceToDevice, nullptr))
