// Plain kernels as people write them first, without matrix instructions; `emulated_kernels.py` launches them.
#include <hip/hip_runtime.h>

// C = A·B, row-major, n a multiple of 16; 16×16 threads.
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int n) {
  __shared__ float tile_a[16][16], tile_b[16][16];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    tile_a[y][x] = a[row * n + k + x];
    tile_b[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// The same with 64×64 tiles of which each of 256 threads computes 4×4; n a multiple of 64.
extern "C" __global__ void gemm_blocked(const float *a, const float *b, float *c, int n) {
  __shared__ float tile_a[16][64], tile_b[16][64];
  int thread = threadIdx.x, x = thread % 16 * 4, y = thread / 16 * 4, row = blockIdx.y * 64, column = blockIdx.x * 64;
  float sums[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    for (int i = thread; i < 1024; i += 256) {
      tile_a[i % 16][i / 16] = a[(row + i / 16) * n + k + i % 16];
      tile_b[i / 64][i % 64] = b[(k + i / 64) * n + column + i % 64];
    }
    __syncthreads();
    for (int i = 0; i < 16; i++)
      for (int m = 0; m < 4; m++)
        for (int l = 0; l < 4; l++) sums[m][l] += tile_a[i][y + m] * tile_b[i][x + l];
    __syncthreads();
  }
  for (int m = 0; m < 4; m++)
    for (int l = 0; l < 4; l++) c[(row + y + m) * n + column + x + l] = sums[m][l];
}

// y = a·x + y, n elements.
extern "C" __global__ void elementwise(const float *x, float *y, float a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = a * x[i] + y[i];
}

// One sum a workgroup of 256 threads.
extern "C" __global__ void reduction(const float *x, float *sums, int n) {
  __shared__ float partial[256];
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

// The mean of five neighbours; n×n, the border as it is.
extern "C" __global__ void stencil(const float *in, float *out, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= n || y >= n) return;
  float value = in[y * n + x];
  if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
    value = 0.2f * (value + in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
  out[y * n + x] = value;
}

// Rows of softmax: one workgroup of 256 threads a row, n columns.
extern "C" __global__ void softmax(const float *x, float *y, int n) {
  __shared__ float partial[256];
  const float *row = x + blockIdx.x * n;
  float most = -INFINITY;
  for (int i = threadIdx.x; i < n; i += 256) most = fmaxf(most, row[i]);
  partial[threadIdx.x] = most;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + step]);
    __syncthreads();
  }
  most = partial[0];
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += __expf(row[i] - most);
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  sum = partial[0];
  for (int i = threadIdx.x; i < n; i += 256) y[blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}

// 32×32 tiles through LDS, 32×8 threads, n×n.
extern "C" __global__ void transposition(const float *in, float *out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

// Sums of all elements up to each, of 256 by a workgroup, in log steps.
extern "C" __global__ void scan(const float *x, float *y) {
  __shared__ float values[2][256];
  int t = threadIdx.x, from = 0;
  values[0][t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    float sum = values[from][t];
    if (t >= step) sum += values[from][t - step];
    from = 1 - from;
    values[from][t] = sum;
    __syncthreads();
  }
  y[blockIdx.x * 256 + t] = values[from][t];
}

// Steps of 3n + 1 until 1: integers, and lanes that end at different times.
extern "C" __global__ void branches(unsigned *steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned value = i + 1, count = 0;
  while (value != 1) {
    value = value % 2 ? 3 * value + 1 : value / 2;
    count++;
  }
  steps[i] = count;
}

// A table built by scalar instructions: n rounds of a generator that all threads share.
extern "C" __global__ void scalars(unsigned *out, unsigned seed, int n) {
  unsigned state = seed, sum = 0;
  for (int i = 0; i < n; i++) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    if (state & 1) sum += state % 7;
    else sum ^= state / 5;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum + threadIdx.x;
}
