"""Rules of `DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle`, for Composable Kernel 7.2.

Parameters are those of `DeviceGemmMultiD_Xdl_CShuffle_V3`. W lies in the order in which lanes read it, and goes from
global memory straight into registers: what says how a block copies it to LDS is ignored, and its rules do not hold.
Each lane reads `KPackPerGroup` elements along K at once, for which CK takes BK1 without asking whether it is that.
The pipelines are others: v1, v2 and v3, with one or two buffers in LDS for A alone.
"""

from __future__ import annotations

from ckwatch.checks.rules.expression import Lookup, integers
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import gridwise_k_per_blk
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import BLOCK, THREAD, VECTORS, operand_rules
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.rule import computed, definitions, rules

_GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d_b_preshuffle.hpp"
_SELECTOR = BLOCK + "blockwise_gemm_pipeline_xdlops_b_preshuffle_selector.hpp"
_V3 = BLOCK + "blockwise_gemm_pipeline_xdlops_b_preshuffle_v3.hpp"


def _is_single_rate(lookup: Lookup) -> bool:
    compute = lookup("ComputeTypeA")
    k_per_block, vector = integers(lookup, "KPerBlock", "lcm_AK1_BK1")
    return (compute in {"I8", "F8"} and k_per_block < 128) or (compute in {"F16", "BF16"} and vector <= 4)


@computed(
    "KGroup = 2 if a lane feeds 32 values of f8 to one instruction, else 1  "
    "# parts in which a lane reads KPack elements of W",
    "BDataType, GridwiseKPerBlk",
)
def _k_group(lookup: Lookup) -> int:
    return 2 if lookup("BDataType") == "F8" and lookup("GridwiseKPerBlk") == 32 else 1


@computed(
    "PipelineKGroup = KGroup, by the instruction that is issued  # as KGroup, for the pipeline", "ComputeTypeA, KPerBlk"
)
def _pipeline_k_group(lookup: Lookup) -> int:
    return 2 if lookup("ComputeTypeA") == "F8" and lookup("KPerBlk") == 32 else 1


_CHANGED = (
    *definitions(
        """
        ALdsExtra = ABlockLdsExtraM  # padding of A in LDS
        ALdsElements = (AK0 - 1) * AK1 + (MPerBlock - 1) * (KPerBlock + 1) + AK1 if ALdsExtra else MPerBlock * KPerBlock
            # elements of A in LDS
        CShuffleNXdl = CShuffleNXdlPerWavePerShuffle  # XDL tiles of C along N in one shuffle
        """
    ),
    gridwise_k_per_blk(_is_single_rate, "lcm_AK1_BK1", "KPerBlock", other="ComputeTypeA"),
    *definitions(
        """
        ABBytes = (ALdsElements + lcm_AK1_BK1 - 1) / lcm_AK1_BK1 * lcm_AK1_BK1 * sizeof_LDSTypeA  # LDS for a tile of A
        LdsBuffers = 1 if BlkGemmPipelineVer == 'v1' else 2  # LDS buffers of the pipeline
        """
    ),
)
_NEW = (
    _k_group,
    _pipeline_k_group,
    *definitions(
        """
        KPackPerGroup = KPack / KGroup  # elements of W along K that a lane reads at once
        ALoads = MPerBlock * KPerBlock / (BlockSize * ABlockTransferSrcScalarPerVector)  # loads of A
        AStores = MPerBlock * KPerBlock / (BlockSize * AK1)  # stores of A to LDS
        """
    ),
)

_OF_B_IN_LDS = {rule.slug for rule in operand_rules("B", "N", "BBlockTransferThreadClusterLengths_BK0_N_BK1")}
_V3_LOOP = "HasKernel and BlkGemmPipelineVer == 'v3'"
_RULES = rules(
    f"""
    preshuffled-pipeline: For a preshuffled W there are the pipelines v1, v2 and v3.
        :must: BlkGemmPipelineVer in ('v1', 'v2', 'v3')  :blame: BlkGemmPipelineVer  :is: host
        :source: {_SELECTOR}: 'BlockGemmPipeline configuration is not available', no type
    preshuffled-scheduler: The pipelines for a preshuffled W have no Interwave form.
        :must: BlkGemmPipeSched == 'Intrawave'  :blame: BlkGemmPipeSched  :after: preshuffled-pipeline  :is: host
        :source: {BLOCK}blockwise_gemm_pipeline_xdlops_b_preshuffle_{{v1,v2,v3}}.hpp: no specialisation for Interwave
    preshuffled-v3-rows: The pipeline v3 for a preshuffled W goes through at least four XDL tiles along M.
        :must: MXdlPerWave >= 4  :blame: MXdlPerWave, BlkGemmPipelineVer  :when: BlkGemmPipelineVer == 'v3'  :is: host
        :source: {_SELECTOR}, static_assert 'MRepeat should at least be 4 in BlockGemmPipelineVersion::v3'
    preshuffled-b-k1: CK reads BK1 elements of W along K for each lane, and multiplies what a lane reads at once:
        KPackPerGroup.
        :must: BK1 == KPackPerGroup  :blame: BK1, AK1  :when: HasKernel
        :after: xdl-tile, compute-types, k-per-block, k-pack  :is: warning  :asserted: BK1 must be what a lane reads
        :source: {_GRID}, GetBBlockDescriptor_BK0PerBlock_NPerBlock_BK1 and KPackPerGroup
    preshuffled-a-k1: A lane reads its KPackPerGroup elements of A from LDS in vectors of AK1.
        :must: KPackPerGroup % AK1 == 0  :blame: AK1, BK1  :when: HasKernel
        :after: xdl-tile, compute-types, k-per-block, k-pack, preshuffled-b-k1
        :source: {THREAD}threadwise_tensor_slice_transfer.hpp, vectors of ThreadwiseTensorSliceTransfer_v4
    preshuffled-a-groups: Where a lane's elements come in two groups, CK takes the second one to be AK1 behind the
        first.
        :must: KGroup == 1 or AK1 == KPackPerGroup  :blame: AK1, BK1  :when: HasKernel
        :after: xdl-tile, compute-types, k-per-block, k-pack, preshuffled-b-k1, preshuffled-a-k1  :is: warning
        :asserted: AK1 must be what a lane reads
        :source: {BLOCK}blockwise_gemm_pipeline_xdlops_b_preshuffle_v1.hpp, Number<kg0 * A_K1>
    preshuffled-k-group: CK chooses the matrix instruction twice, by KPerBlock and by KPack, and must come to the same
        one.
        :must: KGroup == PipelineKGroup  :blame: KPerBlock, AK1, BK1  :when: HasKernel
        :after: xdl-tile, compute-types, k-per-block, k-pack  :is: warning
        :asserted: CK's pipeline takes another matrix instruction
        :source: {_GRID}, KGroup; {BLOCK}blockwise_gemm_pipeline_xdlops_base.hpp, KGroup
    preshuffled-b-vector: The elements of W that a lane reads must be a whole number of load vectors.
        :must: BK1 % BBlockTransferSrcScalarPerVector == 0  :blame: BBlockTransferSrcScalarPerVector, BK1
        :when: HasKernel
        :source: {THREAD}threadwise_tensor_slice_transfer.hpp, static_assert in ThreadwiseTensorSliceTransfer_v2
    preshuffled-b-vector-size: There is no vector load of this many elements.
        :must: BBlockTransferSrcScalarPerVector in (1, 2, 3, 4, 5, 6, 7, 8, 13, 16)
        :blame: BBlockTransferSrcScalarPerVector  :when: HasKernel  :source: {VECTORS}
    preshuffled-v3-stores: The hot loop of v3 stores to LDS as often as it loads A: a thread loads AK1 elements at once.
        :must: ALoads == AStores  :blame: ABlockTransferSrcScalarPerVector, AK1  :when: {_V3_LOOP}
        :after: preshuffled-v3-rows, k-per-block
        :source: {_V3}, static_assert num_buffer_load_inst_a == num_ds_write_inst_a
    preshuffled-v3-loads: The hot loop of v3 spreads its loads of A over stages, and a thread has none.
        :must: ALoads > 0  :blame: ABlockTransferSrcScalarPerVector, BlockSize, MPerBlock, KPerBlock  :when: {_V3_LOOP}
        :after: preshuffled-v3-rows, preshuffled-v3-stores, k-per-block
        :source: {_V3}, static_assert 'The buffer load a stages should always have a value over 0.'
    preshuffled-v3-cycles: The hot loop's schedule knows the cycles of 16 and 32 columns only.
        :must: NPerXDL in (16, 32)  :blame: NPerXDL  :when: {_V3_LOOP}  :after: xdl-tile, preshuffled-v3-rows
        :source: ck/utility/blkgemmpipe_scheduler.hpp, C_MFMA_Inst_Cycle has no value
    """
)

OPERATION = GEMM.derived(
    "DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle",
    "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3_b_preshuffle.hpp",
    definitions=(*_CHANGED, *_NEW),
    without={*_OF_B_IN_LDS, "scheduler", "xdl-cycles", "a-buffer-loads"},
    rules=_RULES,
)
