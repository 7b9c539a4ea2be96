#include <hip/hip_runtime.h>
__global__ void k(float* y, int n) {
    __shared__ float tile[20000];
    tile[n] = *y; __syncthreads(); y[n] = tile[n * 3 % 777];
}
extern "C" int run(float* y, int n, hipStream_t stream) {
    k<<<dim3(1), dim3(256), 0, stream>>>(y, n);
    return 0;
}
