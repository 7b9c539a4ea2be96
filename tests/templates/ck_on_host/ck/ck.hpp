// A stand-in for the part of Composable Kernel that `ck/gemm_universal.hip.j2` and `ck/batched_gemm.hip.j2` use: a plain GEMM behind the same types.
//
// What it copies from CK is what the template relies on: how K is cut into slices, what CheckValidity refuses, how D
// tensors are read and Y is written as vectors along N. Written from reading CK 1.2.0 (ROCm 7.2.4); it says nothing of
// tiles, LDS, registers or matrix instructions.
#pragma once

#include <hip/hip_runtime.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

#define CK_CONSTANT_ADDRESS_SPACE
#define CK_MAX_THREAD_PER_BLOCK 256

constexpr hipError_t hipErrorInvalidValue = static_cast<hipError_t>(1);

namespace ck {

using index_t = int32_t;
using long_index_t = int64_t;
using half_t = _Float16;
using bhalf_t = uint16_t;

// an 8-bit float: `Bias` is its exponent bias, `Fnuz` whether 0x80 is the only NaN
template <int MantissaBits, int Bias, bool Fnuz>
struct Float8 {
    uint8_t bits;

    float value() const {
        const int magnitude = bits & 0x7f, exponent = magnitude >> MantissaBits, mantissa = magnitude & ((1 << MantissaBits) - 1);
        const bool nan = Fnuz ? bits == 0x80 : MantissaBits == 3 ? magnitude == 0x7f : magnitude >= 0x7c;
        if (nan) return std::numeric_limits<float>::quiet_NaN();
        const float scaled = exponent == 0 ? std::ldexp(float(mantissa), 1 - Bias - MantissaBits)
                                           : std::ldexp(float(mantissa + (1 << MantissaBits)), exponent - Bias - MantissaBits);
        return bits & 0x80 ? -scaled : scaled;
    }

    // the nearest value, even where two are equally near; infinities become the largest
    static Float8 nearest(float x) {
        Float8 best{0};
        for (int code = 0; code < 256; ++code) {
            const Float8 candidate{uint8_t(code)};
            const float here = std::fabs(candidate.value() - x), there = std::fabs(best.value() - x);
            if (here < there || (here == there && (code & 1) == 0 && (best.bits & 1) != 0)) best = candidate;
        }
        return best;
    }
};

#if CK_USE_OCP_FP8
using f8_t = Float8<3, 7, false>;
using bf8_t = Float8<2, 15, false>;
#else
using f8_t = Float8<3, 8, true>;
using bf8_t = Float8<2, 16, true>;
#endif

template <class To, class From>
To type_convert(From from) {
    float value;
    if constexpr (std::is_same_v<From, bhalf_t>) {
        const uint32_t bits = uint32_t{from} << 16;
        std::memcpy(&value, &bits, sizeof value);
    } else if constexpr (std::is_same_v<From, f8_t> || std::is_same_v<From, bf8_t>) {
        value = from.value();
    } else {
        value = static_cast<float>(from);
    }
    if constexpr (std::is_same_v<To, bhalf_t>) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        return static_cast<bhalf_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    } else if constexpr (std::is_same_v<To, f8_t> || std::is_same_v<To, bf8_t>) {
        return To::nearest(value);
    } else {
        return static_cast<To>(value);
    }
}

template <index_t... Is>
struct Sequence {
    static constexpr std::array<index_t, sizeof...(Is)> values{Is...};
};

template <index_t I>
struct Number {};

template <class... Ts>
struct Tuple {
    struct Pointers : std::tuple<const Ts*...> {
        using std::tuple<const Ts*...>::tuple;
        template <index_t I>
        auto& operator()(Number<I>) {
            return std::get<I>(*this);
        }
    };
    using Types = std::tuple<Ts...>;
    static constexpr size_t size = sizeof...(Ts);
};

enum class TailNumber { Odd, Even, One, Two, Three, Four, Five, Six, Seven, Empty, Full };
enum class InMemoryDataOperationEnum { Set, AtomicAdd };
enum class BlockGemmPipelineScheduler { Intrawave, Interwave };
enum class BlockGemmPipelineVersion { v1, v2, v3, v4, v5 };

namespace tensor_layout::gemm {
struct RowMajor {};
struct ColumnMajor {};
}  // namespace tensor_layout::gemm

namespace tensor_operation {
namespace element_wise {
struct PassThrough {
    template <class Y, class X>
    void operator()(Y& y, const X& x) const {
        y = type_convert<Y>(x);
    }
};
}  // namespace element_wise
namespace device {
enum class GemmSpecialization { Default, MPadding, NPadding, KPadding, MNPadding, MKPadding, NKPadding, MNKPadding };
}
}  // namespace tensor_operation

}  // namespace ck
