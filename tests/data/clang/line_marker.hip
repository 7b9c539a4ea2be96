#include <hip/hip_runtime.h>
#line 40 "nowhere.y"
__global__ void scale(float* y, const float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
# 3 "/usr/include/stdio.h" 3
    if (i < n) y[i] = factro * x[i];
}
