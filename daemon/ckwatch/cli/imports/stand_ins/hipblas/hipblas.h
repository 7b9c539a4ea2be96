// Written by `ckwatch import hip`: hipBLAS's types, for host code that mentions them and is never called.
#pragma once
#include <hip/hip_runtime.h>

typedef void* hipblasHandle_t;
typedef enum { HIPBLAS_STATUS_SUCCESS = 0 } hipblasStatus_t;
typedef enum { HIPBLAS_OP_N = 111, HIPBLAS_OP_T = 112, HIPBLAS_OP_C = 113 } hipblasOperation_t;
typedef enum { HIPBLAS_GEMM_DEFAULT = 160 } hipblasGemmAlgo_t;
typedef int hipblasDatatype_t;
typedef int hipblasComputeType_t;
