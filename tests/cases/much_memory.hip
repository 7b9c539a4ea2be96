// Fills as many MiB as its argument says, then waits for the end of its input.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void fill(int *a, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) a[i] = i;
}

int main(int, char **arguments) {
  int n = atoi(arguments[1]) << 18, last = 0, *a;
  if (hipError_t error = hipMalloc(&a, n * sizeof(int))) return printf("%s\n", hipGetErrorName(error)), 3;
  fill<<<(n + 255) / 256, 256>>>(a, n);
  if (hipMemcpy(&last, a + n - 1, sizeof(int), hipMemcpyDeviceToHost) != hipSuccess) return 4;
  printf("%s\n", last == n - 1 ? "right" : "wrong");
  fflush(stdout);
  getchar();
}
