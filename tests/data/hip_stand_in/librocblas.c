/* A stand-in for rocBLAS in tests: `rocblas_gemm_ex` of f32 and f64 with beta 0, by the host. No library of AMD's. */
#include "gemm.h"

#include <string.h>

struct handle {
  void *stream;
};

EXPORT int rocblas_get_version_string(char *text, size_t size) {
  strncpy(text, "0.0.0-stand-in", size);
  return 0;
}

EXPORT int rocblas_create_handle(struct handle **handle) {
  *handle = calloc(1, sizeof **handle);
  return 0;
}

EXPORT int rocblas_destroy_handle(struct handle *handle) {
  free(handle);
  return 0;
}

EXPORT int rocblas_set_stream(struct handle *handle, void *stream) {
  handle->stream = stream;
  return 0;
}

EXPORT int rocblas_gemm_ex(struct handle *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha,
                           const void *a, int a_type, int lda, const void *b, int b_type, int ldb, const void *beta,
                           const void *c, int c_type, int ldc, void *d, int d_type, int ldd, int compute_type,
                           int algorithm, int32_t solution, uint32_t flags) {
  (void)c, (void)ldc, (void)algorithm, (void)solution, (void)flags;
  int is_double = compute_type == 152; /* rocblas_datatype_f64_r */
  if (!is_double && compute_type != 151) return 3; /* rocblas_status_not_implemented */
  if (a_type != compute_type || b_type != compute_type || c_type != compute_type || d_type != compute_type) return 3;
  double one = is_double ? *(const double *)alpha : *(const float *)alpha;
  double zero = is_double ? *(const double *)beta : *(const float *)beta;
  if (zero != 0) return 3;
  struct gemm gemm = {m, n, k, is_double, one, zero, {a, lda, trans_a == 112}, {b, ldb, trans_b == 112}, d, ldd};
  return launch_gemm(gemm, handle->stream);
}
