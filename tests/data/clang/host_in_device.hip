#include <hip/hip_runtime.h>
#include <cmath>
float host_only(int n);
__global__ void k(float* y, int n) { *y = host_only(n); }
extern "C" int run(float* y, int n, hipStream_t stream) {
    k<<<dim3(1), dim3(256), 0, stream>>>(y, n);
    return 0;
}
