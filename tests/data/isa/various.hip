#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
extern "C" __global__ void various(const __half* x, __half* y, int n, float s, int* count, const double* d)
{
    __shared__ float part[64];
    float m = -1e30f, sum = 0;
    for(int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, __half2float(x[blockIdx.x * n + i]) * s);
    part[threadIdx.x & 63] = m; __syncthreads();
    for(int i = 0; i < 64; ++i) m = fmaxf(m, part[i]);
    for(int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(__half2float(x[blockIdx.x * n + i]) - m);
    sum += __shfl_xor(sum, 16); sum += __shfl_xor(sum, 1);
    atomicAdd(count, (int)(sum / 3.0f) % 7); 
    double t = d[threadIdx.x] * 3.5 + sqrt(d[0]); long long q = (long long)t * n;
    for(int i = threadIdx.x; i < n; i += blockDim.x) y[blockIdx.x * n + i] = __float2half(__expf(__half2float(x[i]) - m) / sum + sinf(t) + (float)q + powf(s, m) + __popc(i) + (i % n));
}
