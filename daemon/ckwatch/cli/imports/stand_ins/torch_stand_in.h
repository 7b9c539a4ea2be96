// Written by `ckwatch import hip`: names of PyTorch that host code around kernels mentions. That code compiles, and is
// never called. Install PyTorch and give its folder of headers to `-I` instead for host code that needs more.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include "cuda_runtime.h"

namespace c10 {

using Half = __half;
using BFloat16 = __hip_bfloat16;

struct Float8_e4m3fn {
    uint8_t x;
};
struct Float8_e4m3fnuz {
    uint8_t x;
};
struct Float8_e5m2 {
    uint8_t x;
};
struct Float8_e5m2fnuz {
    uint8_t x;
};

enum class ScalarType {
    Byte, Char, Short, Int, Long, Half, Float, Double, Bool, BFloat16, Float8_e4m3fn, Float8_e4m3fnuz, Float8_e5m2,
    Float8_e5m2fnuz
};

struct Any {
    template <typename T>
    Any(const T&) {}
    Any() {}
};

struct Device {
    template <typename... T>
    Device(const T&...) {}
    bool is_cuda() const { return true; }
    bool is_cpu() const { return false; }
    int index() const { return 0; }
    bool operator==(const Device&) const { return true; }
    bool operator!=(const Device&) const { return false; }
};

struct TensorOptions {
    template <typename... T>
    TensorOptions(const T&...) {}
    template <typename T>
    TensorOptions dtype(const T&) const { return *this; }
    template <typename... T>
    TensorOptions device(const T&...) const { return *this; }
};

struct Sizes : std::vector<int64_t> {
    using std::vector<int64_t>::vector;
    Sizes slice(int64_t, int64_t = 0) const { return *this; }
};

struct Tensor {
    template <typename T = void>
    T* data_ptr() const { return nullptr; }
    template <typename T = void>
    T* mutable_data_ptr() const { return nullptr; }
    template <typename T = void>
    const T* const_data_ptr() const { return nullptr; }
    template <typename T>
    T item() const { return T(); }
    int64_t size(int64_t) const { return 0; }
    int64_t stride(int64_t) const { return 0; }
    int64_t numel() const { return 0; }
    int64_t dim() const { return 0; }
    int64_t ndimension() const { return 0; }
    int64_t element_size() const { return 0; }
    int64_t itemsize() const { return 0; }
    int64_t nbytes() const { return 0; }
    int64_t storage_offset() const { return 0; }
    Sizes sizes() const { return {}; }
    Sizes strides() const { return {}; }
    ScalarType scalar_type() const { return ScalarType::Float; }
    ScalarType dtype() const { return ScalarType::Float; }
    Device device() const { return {}; }
    int get_device() const { return 0; }
    TensorOptions options() const { return {}; }
    bool is_contiguous() const { return true; }
    bool is_cuda() const { return true; }
    bool defined() const { return true; }
    bool has_value() const { return true; }
    Tensor contiguous() const { return *this; }
    template <typename... T>
    Tensor flatten(const T&...) const { return *this; }
    template <typename... T>
    Tensor squeeze(const T&...) const { return *this; }
    template <typename... T>
    Tensor unsqueeze(const T&...) const { return *this; }
    template <typename... T>
    Tensor slice(const T&...) const { return *this; }
    Tensor clone() const { return *this; }
    Tensor& zero_() { return *this; }
    Tensor& fill_(const Any&) { return *this; }
    Tensor& copy_(const Tensor&) { return *this; }
    Tensor t() const { return *this; }
    Tensor transpose(int64_t, int64_t) const { return *this; }
    Tensor view(const Any&) const { return *this; }
    Tensor view(std::initializer_list<int64_t>) const { return *this; }
    Tensor reshape(std::initializer_list<int64_t>) const { return *this; }
    Tensor to(const Any&) const { return *this; }
    Tensor operator[](int64_t) const { return *this; }
};

template <typename T>
using optional = std::optional<T>;
inline constexpr std::nullopt_t nullopt = std::nullopt;

}  // namespace c10

namespace at {

using c10::BFloat16;
using c10::Device;
using c10::Half;
using c10::ScalarType;
using c10::Tensor;
using c10::TensorOptions;
using c10::Float8_e4m3fn;
using c10::Float8_e4m3fnuz;
inline constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kInt = ScalarType::Int,
                            kLong = ScalarType::Long, kHalf = ScalarType::Half, kFloat = ScalarType::Float,
                            kBFloat16 = ScalarType::BFloat16, kBool = ScalarType::Bool,
                            kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kFloat8_e4m3fnuz = ScalarType::Float8_e4m3fnuz;
inline constexpr int kCUDA = 1;

template <typename... T>
Tensor empty(const T&...) { return {}; }
inline Tensor empty(std::initializer_list<int64_t>, const c10::Any& = {}) { return {}; }
inline Tensor zeros(std::initializer_list<int64_t>, const c10::Any& = {}) { return {}; }
template <typename... T>
Tensor empty_like(const Tensor&, const T&...) { return {}; }
template <typename... T>
Tensor zeros_like(const Tensor&, const T&...) { return {}; }
inline Tensor from_blob(const void*, std::initializer_list<int64_t>, const c10::Any& = {}) { return {}; }

inline c10::Device device_of(const Tensor&) { return {}; }

namespace cuda {

struct OptionalCUDAGuard {
    template <typename... T>
    OptionalCUDAGuard(const T&...) {}
};
using CUDAGuard = OptionalCUDAGuard;
using HIPGuard = OptionalCUDAGuard;

struct CUDAStream {
    hipStream_t stream() const { return nullptr; }
    operator hipStream_t() const { return nullptr; }
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline hipDeviceProp_t* getCurrentDeviceProperties() { return nullptr; }

}  // namespace cuda

namespace hip = cuda;

}  // namespace at

namespace c10 {
using at::device_of;
namespace cuda = at::cuda;
namespace hip = at::cuda;
}  // namespace c10

namespace torch {
using namespace at;
using at::ScalarType;
using at::Tensor;
using c10::nullopt;
using c10::optional;
inline constexpr ScalarType kUInt8 = ScalarType::Byte, kInt8 = ScalarType::Char, kInt32 = ScalarType::Int,
                            kInt64 = ScalarType::Long, kFloat16 = ScalarType::Half, kFloat32 = ScalarType::Float;
template <typename T>
struct CppTypeToScalarType {};
}  // namespace torch

using at::device_of;

#define TORCH_CHECK(...) {}  // as PyTorch's, it needs no semicolon
#define TORCH_CHECK_NOT_IMPLEMENTED(...) {}
#define TORCH_INTERNAL_ASSERT(...) {}
#define AT_ASSERT(...) ((void)0)
#define AT_ERROR(...) ((void)0)
#define AT_CUDA_CHECK(...) ((void)0)
#define C10_CUDA_CHECK(...) ((void)0)
#define C10_HIP_CHECK(...) ((void)0)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ((void)0)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define AT_DISPATCH_SWITCH(...) ((void)0)
#define AT_DISPATCH_CASE(...)
#define AT_DISPATCH_FLOATING_TYPES(...) ((void)0)
#define AT_DISPATCH_FLOATING_TYPES_AND2(...) ((void)0)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(...) ((void)0)
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(...) ((void)0)
#define AT_DISPATCH_INTEGRAL_TYPES(...) ((void)0)
#define AT_DISPATCH_ALL_TYPES(...) ((void)0)
#define AT_DISPATCH_ALL_TYPES_AND2(...) ((void)0)
#define TORCH_LIBRARY(...) static void ckwatch_unused_library(...)
#define PYBIND11_MODULE(...) static void ckwatch_unused_module(...)
