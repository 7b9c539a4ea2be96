
#include <hip/hip_runtime.h>
#include "ck/ck.hpp"
#include "ck/utility/common_header.hpp"

// One wave: C (32×32, f32) += A (32×K) · B (K×32), f16, through LDS.

static __device__ void load_tile(const ck::half_t* __restrict__ p, ck::half4_t* lds, int k)
{
    const auto* from = reinterpret_cast<const ck::half4_t*>(p) + k * 32 * 8;
    ck::static_for<0, 32 / 8, 1>{}([&](auto i) { lds[i * 64 + threadIdx.x] = from[i * 64 + threadIdx.x]; });
}


__global__ void __launch_bounds__(64)
    product(const ck::half_t* __restrict__ a, const ck::half_t* __restrict__ b, float* c, int blocks)
{
    __shared__ ck::half4_t as[32 * 8], bs[32 * 8];
    ck::StaticBufferTupleOfVector<ck::AddressSpaceEnum::Vgpr, float, 1, 16, true> acc;
    acc.Clear();
    for(int block = 0; block < blocks; ++block)
    {

        load_tile(a, as, block);

        load_tile(b, bs, block);

        ck::block_sync_lds();
        ck::static_for<0, 32 / 8, 1>{}([&](auto i) {
            ck::intrin_mfma_f32_32x32x8f16<32, 32>::Run(
                as[i * 64 + threadIdx.x], bs[i * 64 + threadIdx.x], acc.GetVectorTypeReference(ck::Number<0>{}));
        });
        ck::block_sync_lds();
    }
    ck::static_for<0, 16, 1>{}([&](auto i) { c[i * 64 + threadIdx.x] = acc[i]; });
}
