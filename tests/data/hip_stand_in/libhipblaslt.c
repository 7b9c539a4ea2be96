/* A stand-in for hipBLASLt in tests: f32 and f64 with beta 0, by the host, two "algorithms". No library of AMD's. */
#include "gemm.h"

enum { TRANSPOSE = 112, F32 = 0, F64 = 1, COMPUTE_32F = 2, COMPUTE_64F = 7 };

struct layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;
};

struct description {
  int compute, scale;
  int32_t operations[2];
};

struct preference {
  uint64_t workspace;
};

struct algorithm {
  uint8_t data[16];
  size_t max_workspace_bytes;
};

struct heuristic {
  struct algorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

#define MAKE(made) ((*(made) = calloc(1, sizeof **(made))) ? 0 : 3)

EXPORT int hipblasLtCreate(void **handle) {
  *handle = malloc(1);
  return 0;
}
EXPORT int hipblasLtDestroy(void *handle) { return free(handle), 0; }

EXPORT int hipblasLtGetVersion(void *handle, int *version) {
  (void)handle;
  *version = 100203; /* 1.2.3 */
  return 0;
}

EXPORT int hipblasLtMatrixLayoutCreate(struct layout **made, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  if (MAKE(made)) return 3;
  **made = (struct layout){type, rows, columns, stride};
  return 0;
}
EXPORT int hipblasLtMatrixLayoutDestroy(struct layout *layout) { return free(layout), 0; }

EXPORT int hipblasLtMatmulDescCreate(struct description **made, int compute, int scale) {
  if (MAKE(made)) return 3;
  **made = (struct description){compute, scale, {111, 111}};
  return 0;
}
EXPORT int hipblasLtMatmulDescDestroy(struct description *description) { return free(description), 0; }

EXPORT int hipblasLtMatmulDescSetAttribute(struct description *description, int attribute, const void *value,
                                           size_t size) {
  if (attribute < 0 || attribute > 1 || size != 4) return 3;
  description->operations[attribute] = *(const int32_t *)value;
  return 0;
}

EXPORT int hipblasLtMatmulPreferenceCreate(struct preference **made) { return MAKE(made); }
EXPORT int hipblasLtMatmulPreferenceDestroy(struct preference *preference) { return free(preference), 0; }

EXPORT int hipblasLtMatmulPreferenceSetAttribute(struct preference *preference, int attribute, const void *value,
                                                 size_t size) {
  if (attribute != 1 || size != 8) return 3;
  preference->workspace = *(const uint64_t *)value;
  return 0;
}

EXPORT int hipblasLtMatmulAlgoGetHeuristic(void *handle, struct description *description, struct layout *a,
                                           struct layout *b, struct layout *c, struct layout *d,
                                           struct preference *preference, int wanted, struct heuristic *found,
                                           int *count) {
  (void)handle, (void)b, (void)c, (void)preference;
  *count = 0;
  int type = description->compute == COMPUTE_64F ? F64 : F32;
  if (a->type != type || d->type != type || description->scale != type) return 7; /* not supported */
  for (int i = 0; i < wanted && i < 3; i++) {
    found[i] = (struct heuristic){.workspace_bytes = i == 2 ? (size_t)1 << 40 : 4096, .waves = 1.0f};
    found[i].algorithm.data[0] = (uint8_t)(i + 1);
    (*count)++;
  }
  return 0;
}

EXPORT int hipblasLtMatmul(void *handle, struct description *description, const void *alpha, const void *a,
                           struct layout *la, const void *b, struct layout *lb, const void *beta, const void *c,
                           struct layout *lc, void *d, struct layout *ld, const struct algorithm *algorithm,
                           void *workspace, size_t size, void *stream) {
  (void)handle, (void)c, (void)lc;
  if (algorithm->data[0] < 1 || algorithm->data[0] > 2 || size < 4096 || !workspace) return 3;
  int is_double = description->compute == COMPUTE_64F;
  double one = is_double ? *(const double *)alpha : *(const float *)alpha;
  double zero = is_double ? *(const double *)beta : *(const float *)beta;
  int ta = description->operations[0] == TRANSPOSE, tb = description->operations[1] == TRANSPOSE;
  int64_t k = (int64_t)(ta ? la->rows : la->columns);
  if (zero != 0 || k != (int64_t)(tb ? lb->columns : lb->rows)) return 3;
  struct gemm gemm = {(int64_t)ld->rows, (int64_t)ld->columns, k, is_double, one, zero,
                      {a, la->stride, ta}, {b, lb->stride, tb}, d, ld->stride};
  return launch_gemm(gemm, stream);
}
