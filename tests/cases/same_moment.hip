// Two workgroups that wait for each other and then access the same places, again and again.
#include <hip/hip_runtime.h>

constexpr int launches = 300;

__device__ void meet(int* arrived) {
    if (threadIdx.x == 0) {
        __hip_atomic_fetch_add(arrived, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        while (__hip_atomic_load(arrived, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) < 2) {}
    }
    __syncthreads();
}
__global__ void both_write(int* arrived, int* row) {
    meet(arrived);
    row[threadIdx.x ^ 32 * blockIdx.x] = blockIdx.x + 1;
}
__global__ void one_reads(int* arrived, int* row) {
    meet(arrived);
    if (blockIdx.x == 0) row[threadIdx.x] = 1;
    else row[threadIdx.x + 128] = row[threadIdx.x];
}
__global__ void right(int* arrived, int* row) {
    meet(arrived);
    row[threadIdx.x + 64 * blockIdx.x] = 1;
}

int* zeros(int count) {
    int* made = nullptr;
    if (hipMalloc(&made, count * sizeof(int)) != hipSuccess || hipMemset(made, 0, count * sizeof(int)) != hipSuccess) abort();
    return made;
}

int main() {
    int *arrived = zeros(3 * launches), *rows = zeros(3 * 256 * launches);
    for (int n = 0; n < 3 * launches; n += 3) {
        both_write<<<2, 64>>>(arrived + n, rows + n * 256);
        one_reads<<<2, 64>>>(arrived + n + 1, rows + (n + 1) * 256);
        right<<<2, 64>>>(arrived + n + 2, rows + (n + 2) * 256);
    }
    return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
