// See ck/ck.hpp.
#pragma once

#include "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3.hpp"

namespace ck::tensor_operation::device {

template <class ALayout, class BLayout, class DsLayout, class CLayout, class ADataType, class BDataType, class DsDataType,
          class CDataType, class GemmAccDataType, class CShuffleDataType, class AElementwiseOperation,
          class BElementwiseOperation, class CElementwiseOperation, GemmSpecialization GemmSpec, index_t BlockSize,
          index_t MPerBlock, index_t NPerBlock, index_t KPerBlock, index_t AK1, index_t BK1, index_t MPerXDL,
          index_t NPerXDL, index_t MXdlPerWave, index_t NXdlPerWave, class AThreadClusterLengths,
          class AThreadClusterArrangeOrder, class ASrcAccessOrder, index_t ASrcVectorDim, index_t ASrcScalarPerVector,
          index_t ADstScalarPerVector, bool ALdsExtraM, class BThreadClusterLengths, class BThreadClusterArrangeOrder,
          class BSrcAccessOrder, index_t BSrcVectorDim, index_t BSrcScalarPerVector, index_t BDstScalarPerVector,
          bool BLdsExtraN, index_t CShuffleMXdlPerWavePerShuffle, index_t CShuffleNXdlPerWavePerShuffle,
          class CShuffleClusterLengths, class CDEScalarPerVectors, BlockGemmPipelineScheduler Scheduler,
          BlockGemmPipelineVersion Version, class ComputeTypeA, class ComputeTypeB>
struct DeviceBatchedGemmMultiD_Xdl_CShuffle_V3 {
    using Gemm = DeviceGemmMultiD_Xdl_CShuffle_V3<
        ALayout, BLayout, DsLayout, CLayout, ADataType, BDataType, DsDataType, CDataType, GemmAccDataType,
        CShuffleDataType, AElementwiseOperation, BElementwiseOperation, CElementwiseOperation, GemmSpec, BlockSize,
        MPerBlock, NPerBlock, KPerBlock, AK1, BK1, MPerXDL, NPerXDL, MXdlPerWave, NXdlPerWave, AThreadClusterLengths,
        AThreadClusterArrangeOrder, ASrcAccessOrder, ASrcVectorDim, ASrcScalarPerVector, ADstScalarPerVector, ALdsExtraM,
        BThreadClusterLengths, BThreadClusterArrangeOrder, BSrcAccessOrder, BSrcVectorDim, BSrcScalarPerVector,
        BDstScalarPerVector, BLdsExtraN, CShuffleMXdlPerWavePerShuffle, CShuffleNXdlPerWavePerShuffle,
        CShuffleClusterLengths, CDEScalarPerVectors, Scheduler, Version, ComputeTypeA, ComputeTypeB>;
    using GridwiseGemm64 = typename Gemm::GridwiseGemm64;
    static constexpr index_t NXdlPerWave64 = NXdlPerWave;

    struct ComputePtrOffsetOfStridedBatch {
        index_t a, b;
        std::array<index_t, DsDataType::size> ds;
        index_t c;

        long_index_t GetAPtrOffset(index_t matrix) const { return long_index_t{a} * matrix; }
        long_index_t GetBPtrOffset(index_t matrix) const { return long_index_t{b} * matrix; }
        long_index_t GetCPtrOffset(index_t matrix) const { return long_index_t{c} * matrix; }
        auto GetDsPtrOffset(index_t matrix) const {
            std::array<long_index_t, DsDataType::size> offsets{};
            for (size_t i = 0; i < ds.size(); ++i) offsets[i] = long_index_t{ds[i]} * matrix;
            return offsets;
        }
    };

    struct Argument : Gemm::Argument {
        index_t Batch;
        ComputePtrOffsetOfStridedBatch compute_ptr_offset_of_batch;
    };

    static Argument MakeArgument(const void* a, const void* b, std::array<const void*, DsDataType::size> ds, void* c,
                                 index_t M, index_t N, index_t K, index_t Batch, index_t StrideA, index_t StrideB,
                                 std::array<index_t, DsDataType::size> StrideDs, index_t StrideC, index_t BatchStrideA,
                                 index_t BatchStrideB, std::array<index_t, DsDataType::size> BatchStrideDs,
                                 index_t BatchStrideC, AElementwiseOperation a_op, BElementwiseOperation b_op,
                                 CElementwiseOperation c_op, index_t KBatch) {
        return {Gemm::MakeArgument(a, b, ds, c, M, N, K, StrideA, StrideB, StrideDs, StrideC, KBatch, a_op, b_op, c_op),
                Batch,
                {BatchStrideA, BatchStrideB, BatchStrideDs, BatchStrideC}};
    }
};

}  // namespace ck::tensor_operation::device
