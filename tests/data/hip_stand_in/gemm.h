/* The multiplication that the stand-ins for AMD's libraries do, in f32 or f64, when the stream comes to it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

extern int hipLaunchHostFunc(void *stream, void (*function)(void *), void *data);

struct operand {
  const void *at;
  int64_t stride;
  int transposed;
};

struct gemm {
  int64_t m, n, k;
  int is_double;
  double alpha, beta;
  struct operand a, b;
  void *c;
  int64_t c_stride;
};

static double element(const struct operand *matrix, int is_double, int64_t row, int64_t column) {
  int64_t at = matrix->transposed ? row * matrix->stride + column : column * matrix->stride + row;
  return is_double ? ((const double *)matrix->at)[at] : (double)((const float *)matrix->at)[at];
}

static void multiply(void *data) {
  struct gemm *gemm = data;
  for (int64_t column = 0; column < gemm->n; column++)
    for (int64_t row = 0; row < gemm->m; row++) {
      double sum = 0;
      for (int64_t i = 0; i < gemm->k; i++)
        sum += element(&gemm->a, gemm->is_double, row, i) * element(&gemm->b, gemm->is_double, i, column);
      int64_t at = column * gemm->c_stride + row;
      if (gemm->is_double) ((double *)gemm->c)[at] = gemm->alpha * sum;
      else ((float *)gemm->c)[at] = (float)(gemm->alpha * sum);
    }
  free(gemm);
}

static int launch_gemm(struct gemm wanted, void *stream) {
  struct gemm *gemm = malloc(sizeof *gemm);
  *gemm = wanted;
  return hipLaunchHostFunc(stream, multiply, gemm);
}
