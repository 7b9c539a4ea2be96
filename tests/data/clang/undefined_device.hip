#include <hip/hip_runtime.h>
__device__ float elsewhere(int);
__global__ void k(float* y, int n) { *y = elsewhere(n); }
extern "C" int run(float* y, int n, hipStream_t stream) {
    k<<<dim3(1), dim3(256), 0, stream>>>(y, n);
    return 0;
}
