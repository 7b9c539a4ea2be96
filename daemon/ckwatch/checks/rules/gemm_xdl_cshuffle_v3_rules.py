"""Rules of `DeviceGemmMultiD_Xdl_CShuffle_V3`: what its headers assert, and what cannot be instantiated.

The device operation's `Run` names every kernel that any problem may need, so each instance instantiates all tails of
its pipeline and both ways to write C (set, and atomic add for split-K), whatever is run later. What
`IsSupportedArgument` tests depends on the problem's sizes and is no rule here. Where an instance compiles to a kernel
that is empty, or an argument is ignored, the rule is a warning.

`operand_rules` are those that hold for A and for B alike, which say how a block tile is copied and laid out: the thread
cluster, the vectors, and the LDS layout of one operand.
"""

from __future__ import annotations

from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import (
    A_CLUSTER,
    B_CLUSTER,
    C_CLUSTER,
    C_VECTORS,
    DEFINITIONS,
    MATRIX_ARCHS,
    PARAMETERS,
)
from ckwatch.checks.rules.rule import Rule, operation, rules

GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp"
BLOCK = "ck/tensor_operation/gpu/block/"
THREAD = "ck/tensor_operation/gpu/thread/"
SCHEDULES = BLOCK + "blockwise_gemm_pipeline_xdlops_{v3,v4,v5}.hpp"
VECTORS = "ck/utility/dtype_vector.hpp, specialisations of vector_type"
VECTOR_SIZES = "(1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 32, 64, 128, 256)"


def operand_rules(side: str, rows: str, cluster: str) -> tuple[Rule, ...]:
    """The rules of operand `side` (A or B), whose outer dimension is `rows` and whose thread cluster is `cluster`."""
    low = side.lower()
    k0, k1, block = f"{side}K0", f"{side}K1", f"{side}BlockTransfer"
    order, access = f"{block}ThreadClusterArrangeOrder", f"{block}SrcAccessOrder"
    dim, load = f"{block}SrcVectorDim", f"{block}SrcScalarPerVector"
    store = f"{block}DstScalarPerVector_{k1}"
    copy = BLOCK + "thread_group_tensor_slice_transfer_v4r1.hpp"
    load_check = THREAD + "threadwise_tensor_slice_transfer_v3r1.hpp"
    covers = f"{copy}, static_assert 'threads should be mapped to cover entire slicing window'"
    return rules(
        f"""
        {low}-conversion: CK's PassThrough cannot convert {{{side}DataType}} to {{LDSType{side}}}, in which {side} is
            multiplied.
            :must: {side}DataType in {side}Sources  :blame: {side}DataType, LDSType{side}
            :when: HasKernel and {side}ElementwiseOperation == 'PassThrough'
            :after: xdl-tile, compute-types, compute-types-8-bit  :is: codegen
            :source: ck/tensor_operation/gpu/element/unary_element_wise_operation.hpp, PassThrough is not defined for
                them
        {low}-cluster-rank: The thread cluster of {side} has the dimensions {k0}, {rows}, {k1}.
            :must: size({cluster}) == 3  :blame: {cluster}  :when: HasKernel
            :source: {copy}, static_assert 'nDim not consistent'
        {low}-arrange-order: The arrange order names each of the three dimensions once.
            :must: size({order}) == 3 and is_permutation({order})  :blame: {order}  :when: HasKernel
            :source: {copy}, static_assert 'nDim not consistent'; sequence maps must be valid
        {low}-access-order: The access order names each of the three dimensions once.
            :must: size({access}) == 3 and is_permutation({access})  :blame: {access}  :when: HasKernel
            :source: {copy}, static_assert 'nDim not consistent'; sequence maps must be valid
        {low}-k0: A block tile of {side} must be at least one slice of {k1} deep.
            :must: KPerBlock >= {k1}  :blame: KPerBlock, {k1}  :when: HasKernel  :after: k-per-block  :source: {covers}
        {low}-cluster-k0: The thread cluster must divide the {k0} = KPerBlock / {k1} slices of {side}'s block tile.
            :must: KPerBlock / {k1} % {cluster}[0] == 0  :blame: {cluster}, KPerBlock, {k1}  :when: HasKernel
            :after: k-per-block, {low}-k0  :source: {covers}
        {low}-cluster-{rows.lower()}: The thread cluster must divide {rows}PerBlock.
            :must: {rows}PerBlock % {cluster}[1] == 0  :blame: {cluster}, {rows}PerBlock  :when: HasKernel
            :source: {covers}
        {low}-cluster-k1: The thread cluster must divide {k1}.
            :must: {k1} % {cluster}[2] == 0  :blame: {cluster}, {k1}  :when: HasKernel  :source: {covers}
        {low}-cluster-threads: The thread cluster that copies {side} cannot have more threads than the block.
            :must: product({cluster}) <= BlockSize  :blame: {cluster}, BlockSize  :when: HasKernel
            :source: {copy}, static_assert 'ThreadGroup::GetNumOfThread() too small'
        {low}-vector-dim: The vectors of {side} lie along {k0} (0), {rows} (1) or {k1} (2). CK takes 3 for none of them.
            :must: {dim} in (0, 1, 2, 3)  :blame: {dim}  :when: HasKernel
            :source: {load_check}, SliceLengths::At(SrcVectorDim)
        {low}-vector: The slice of {side} that a thread copies must be a whole number of load vectors.
            :must: {side}ThreadSlice[{dim}] % {load} == 0  :blame: {load}, {cluster}  :when: HasKernel
            :after: k-per-block, {low}-cluster-k0, {low}-cluster-{rows.lower()}, {low}-cluster-k1
            :source: {load_check}, static_assert 'SliceLengths[SrcVectorDim] must be divisible by SrcScalarPerVector'
        {low}-vector-layout: CK loads vectors of neighbouring elements along this dimension, but {side} is contiguous
            along another: the product is wrong.
            :must: {load} == 1 or {dim} == {side}ContiguousDim  :blame: {dim}, {side}Layout, {load}  :when: HasKernel
            :is: warning  :asserted: {dim} must be  :source: {load_check}, RunRead
        {low}-vector-size: There is no vector load of this many elements.
            :must: {load} in (1, 2, 3, 4, 5, 6, 7, 8, 13, 16)  :blame: {load}  :when: HasKernel
            :source: {VECTORS}; {load_check}, VectorSizeLookupTable
        {low}-store-size: A thread stores this many elements of {side} to LDS as one vector, and there is no vector of
            this size.
            :must: {store} in {VECTOR_SIZES}  :blame: {store}  :when: HasKernel
            :source: {VECTORS}; {load_check}, dst_vector_type
        {low}-k1-vector: A lane reads {k1} elements of {side} from LDS as one vector, and there is no vector of this
            size.
            :must: {k1} in {VECTOR_SIZES}  :blame: {k1}  :when: HasKernel  :source: {VECTORS}
        {low}-lds-fold: With {side} contiguous along {rows}, the LDS layout divides by the {k0} slices per reading lane.
            :must: {side}K0PerThreadRead > 0 and (NXdlPerWave32 == 0 or {side}K0PerThreadRead32 > 0)
            :blame: KPerBlock, {k1}, {rows}PerXDL  :when: {side}Folded  :after: k-per-block, waves  :is: host
            :source: {GRID}, Get{side}BlockDescriptor_{k0}PerBlock_{rows}PerBlock_{k1}: K0PerThreadRead is a divisor
        {low}-lds-permutation: With {side} contiguous along {rows}, the LDS layout divides by the permuted reading
            lanes.
            :must: {side}KThreadReadPerm > 0 and (NXdlPerWave32 == 0 or {side}KThreadReadPerm32 > 0)
            :blame: {cluster}, {rows}PerXDL, {k1}  :when: {side}Folded
            :after: k-per-block, waves, {low}-lds-fold, {low}-cluster-k0  :is: host
            :source: {GRID}, Get{side}BlockDescriptor_{k0}PerBlock_{rows}PerBlock_{k1}: KThreadReadPerm is a divisor
        {low}-buffer-loads: The hot loop's schedule divides by the global loads of {side} per thread, and a thread has
            none.
            :must: {rows}PerBlock * KPerBlock / (BlockSize * {load}) > 0  :blame: {load}, BlockSize, {rows}PerBlock
            :when: HasKernel and BlkGemmPipelineVer in ('v3', 'v4', 'v5')  :after: scheduler, k-per-block
            :source: {SCHEDULES}, HotLoopScheduler; ck/utility/blkgemmpipe_scheduler.hpp, {side}_Buffer_Load_Inst_Num
        """
    )


_DEVICE = "ck/tensor_operation/gpu/device/device_base.hpp"
_PIPELINE = BLOCK + "blockwise_gemm_pipeline_xdlops_base.hpp"
_XDLOPS = "ck/tensor_operation/gpu/warp/xdlops_gemm.hpp"
_BUFFER = "ck/utility/amd_buffer_addressing.hpp"

_EIGHT_BITS = "('F8', 'BF8')"

_SHUFFLE_COPY = BLOCK + "thread_group_tensor_slice_transfer_v7r3.hpp"

_MATRIX_ARCHS = "(" + ", ".join(f"'{arch}'" for arch in MATRIX_ARCHS) + ")"
_EMPTY_KERNELS = f"ck/ck.hpp, __gfx9__; {_DEVICE}, IsValidGemmCompilationParameter: WaveSize == get_warp_size()"

RULES = (
    *rules(
        f"""
        matrix-arch: {{target}} has no MFMA: this kernel needs matrix instructions of waves of 64 lanes.
            :must: target in {_MATRIX_ARCHS}  :when: Invoker == 0  :is: every-arch  :source: {_EMPTY_KERNELS}
        matrix-arch-empty: {{target}} has no MFMA, and CK's form for WMMA takes tiles of 16x16 in waves of 32 lanes. CK
            compiles this to an empty kernel: C is never written.
            :must: target in {_MATRIX_ARCHS} or HasWmma and MPerXDL == 16 and NPerXDL == 16 and NXdlPerWave32 > 0
            :blame: MPerXDL, NPerXDL  :when: Invoker == 1 and target != 'host'  :is: warning every-arch
            :source: {_EMPTY_KERNELS}
        f8-arch: {{target}} has no matrix instructions for 8-bit floats: CK converts each element and takes those for
            f32, which is right and slow, and compiles for minutes.
            :must: target in ('gfx942', 'gfx950', 'gfx9-4-generic')  :blame: ComputeTypeA
            :when: HasKernel and ComputeTypeA in {_EIGHT_BITS}  :is: warning
            :source: ck/utility/amd_xdlops.hpp, intrin_mfma_f32_32x32x16f8f8 and its kin without __gfx94__
        f64-arch: {{target}} has no matrix instruction for f64: CK compiles this to a kernel that multiplies nothing.
            :must: target != 'gfx908'  :blame: ComputeTypeA  :when: HasKernel and ComputeTypeA == 'F64'  :is: warning
            :source: ck/utility/amd_xdlops.hpp, intrin_mfma_f64_16x16x4f64 without __gfx90a__
        waves: A wave's tile must fit into the block tile.
            :must: MPerBlock / (MPerXDL * MXdlPerWave) > 0 and NPerBlock / NPerXDL > 0
            :blame: MXdlPerWave, MPerXDL, NPerXDL, MPerBlock, NPerBlock  :is: host
            :source: {_DEVICE}, static_assert in GetNXdlPerWave2; {GRID}, division by the number of waves
        m-per-block: A wave computes MPerXDL * MXdlPerWave rows of the block tile; whole waves must cover it.
            :must: MPerBlock % (MPerXDL * MXdlPerWave) == 0  :blame: MXdlPerWave, MPerXDL, MPerBlock
            :when: NXdlPerWave64 > 0 or NXdlPerWave32 > 0  :after: waves  :is: host
            :source: {GRID}, static_assert in CheckValidity
        n-per-block: Whole XDL tiles must cover the columns of the block tile.
            :must: NPerBlock % NPerXDL == 0  :blame: NPerXDL, NPerBlock  :after: waves
            :source: {_PIPELINE}, static_assert in the constructor
        block-size: The block's threads must split evenly among the waves that cover the block tile, of 64 lanes and of
            32.
            :must: BlockSize % (MWaves * NWaves) == 0 and (NXdlPerWave32 == 0 or BlockSize % (MWaves * NWavesOf32) == 0)
            :blame: BlockSize, MXdlPerWave, MPerXDL, NPerXDL, MPerBlock, NPerBlock
            :after: waves, m-per-block, n-per-block
            :source: {_PIPELINE}, static_assert 'ThisThreadBlock::GetNumOfThread() != MWaves * NWaves * WaveSize'
        no-kernel: The block does not split into waves of 64 lanes that cover the block tile. CK compiles this to an
            empty kernel: C is never written.
            :must: NXdlPerWave64 > 0 and WaveSize == 64
            :blame: BlockSize, MXdlPerWave, MPerXDL, NPerXDL, MPerBlock, NPerBlock
            :after: waves, m-per-block, n-per-block, block-size  :is: warning  :asserted: CK would run an empty kernel
            :source: {_DEVICE}, GetNXdlPerWave2 and IsValidGemmCompilationParameter
        block-threads: CK compiles its kernels for at most 256 threads (CK_MAX_THREAD_PER_BLOCK); a larger block cannot
            be launched.
            :must: BlockSize <= 256  :blame: BlockSize  :is: warning  :source: ck/ck.hpp; {GRID}, __launch_bounds__
        n-xdl-per-wave: CK 7.2 computes this value from BlockSize and the tiles, and ignores the one given; older
            versions reject it.
            :must: NXdlPerWave == NXdlPerWave64  :blame: NXdlPerWave
            :after: waves, m-per-block, n-per-block, block-size, no-kernel  :is: warning
            :source: {_DEVICE}, GetNXdlPerWave2
        c-shuffle-m: C leaves through LDS in steps of CShuffleMXdlPerWavePerShuffle XDL tiles, which must divide a
            wave's tiles.
            :must: MXdlPerWave % CShuffleMXdlPerWavePerShuffle == 0  :blame: CShuffleMXdlPerWavePerShuffle, MXdlPerWave
            :when: HasKernel  :source: {GRID}, static_assert in Run
        c-shuffle-n: C leaves through LDS in steps that must divide a wave's XDL tiles along N. CK compiles this to an
            empty kernel, and IsSupportedArgument refuses every problem.
            :must: NXdlPerWave64 % CShuffleNXdl == 0  :blame: CShuffleNXdlPerWavePerShuffle, NPerBlock, BlockSize
            :after: waves, m-per-block, n-per-block, block-size, no-kernel  :is: warning
            :asserted: CK would run an empty kernel  :source: {GRID}, IsValidCompilationParameter and CheckValidity
        xdl-tile: No matrix instruction computes a tile of {{XdlShape}} in {{ComputeTypeA}}.
            :must: XdlShape in XdlShapes  :blame: MPerXDL, NPerXDL, ComputeTypeA  :is: host
            :source: {_XDLOPS}, MfmaSelector::GetMfma has no specialisation
        compute-types: Matrix instructions take both operands in one type, or both in 8-bit floats.
            :must: ComputeTypeA == ComputeTypeB or (ComputeTypeA in {_EIGHT_BITS} and ComputeTypeB in {_EIGHT_BITS})
            :blame: ComputeTypeB, ComputeTypeA  :is: host
            :source: {_XDLOPS}, MfmaSelector::GetMfma has no specialisation
        compute-types-8-bit: CK cannot multiply {{ComputeTypeA}} with {{ComputeTypeB}}: on the way from LDS to registers
            it converts both to one type, and there is no such conversion.
            :must: ComputeTypeA == ComputeTypeB  :blame: ComputeTypeB, ComputeTypeA
            :when: HasKernel and ComputeTypeA in {_EIGHT_BITS} and ComputeTypeB in {_EIGHT_BITS}
            :source: {THREAD}threadwise_tensor_slice_transfer.hpp, type_convert in ThreadwiseTensorSliceTransfer_v4
        k-per-block: Each lane walks its share of KPerBlock in steps of KPack, which also holds whole AK1 and BK1
            vectors.
            :must: KPerThread % KPack == 0  :blame: KPerBlock, AK1, BK1  :after: xdl-tile, compute-types
            :source: {_PIPELINE}, static_assert 'Wrong KPack setting; try increasing KPerThread or decreasing KPack'
        k-pack: KPack must be a whole number of matrix instructions.
            :must: KPack % KPerBlk == 0  :blame: AK1, BK1  :after: xdl-tile, compute-types
            :source: {_XDLOPS}, static_assert 'KPack should be a multiple of k_per_blk'
        scheduler: Only the pipelines v1 and v2 have an Interwave form.
            :must: BlkGemmPipelineVer in ('v1', 'v2')  :blame: BlkGemmPipeSched, BlkGemmPipelineVer
            :when: BlkGemmPipeSched == 'Interwave'  :is: host
            :source: {SCHEDULES}: no specialisation for Interwave, so no member PrefetchStages
        xdl-cycles: The hot loop's schedule knows the cycles of 16 and 32 columns only.
            :must: NPerXDL in (16, 32)  :blame: NPerXDL  :when: HasKernel and BlkGemmPipelineVer in ('v3', 'v5')
            :after: xdl-tile, scheduler  :source: ck/utility/blkgemmpipe_scheduler.hpp, C_MFMA_Inst_Cycle has no value
        """
    ),
    *operand_rules("A", "M", A_CLUSTER),
    *operand_rules("B", "N", B_CLUSTER),
    *rules(
        f"""
        k-pack-vector: A lane's operands for one step are one vector, and there is no vector of this size.
            :must: KPack in {VECTOR_SIZES}  :blame: AK1, BK1  :when: HasKernel
            :after: xdl-tile, compute-types, k-pack, a-k1-vector, b-k1-vector  :source: {VECTORS}
        c-cluster-rank: The thread cluster of C has the dimensions MBlock, MPerBlock, NBlock, NPerBlock.
            :must: size({C_CLUSTER}) == 4  :blame: {C_CLUSTER}  :when: HasKernel
            :source: {_SHUFFLE_COPY}, static_assert 'nDim not consistent'
        c-cluster-blocks: A block writes one tile of C, so the cluster is 1 along MBlock and NBlock.
            :must: {C_CLUSTER}[0] == 1 and {C_CLUSTER}[2] == 1  :blame: {C_CLUSTER}  :when: HasKernel
            :after: c-cluster-rank
            :source: {_SHUFFLE_COPY}, static_assert 'threads should be mapped to cover entire slicing window'
        c-cluster-m: The threads that write C must cover the rows of one shuffle.
            :must: CShuffleM % {C_CLUSTER}[1] == 0  :blame: {C_CLUSTER}, CShuffleMXdlPerWavePerShuffle  :when: HasKernel
            :after: m-per-block
            :source: {_SHUFFLE_COPY}, static_assert 'threads should be mapped to cover entire slicing window'
        c-cluster-n: The threads that write C must cover the columns of one shuffle.
            :must: CShuffleN % {C_CLUSTER}[3] == 0  :blame: {C_CLUSTER}, CShuffleNXdlPerWavePerShuffle  :when: HasKernel
            :after: n-per-block
            :source: {_SHUFFLE_COPY}, static_assert 'threads should be mapped to cover entire slicing window'
        c-cluster-threads: The thread cluster that writes C cannot have more threads than the block.
            :must: product({C_CLUSTER}) <= BlockSize  :blame: {C_CLUSTER}, BlockSize  :when: HasKernel
            :source: {_SHUFFLE_COPY}, static_assert 'ThreadGroup::GetNumOfThread() too small'
        c-vector: The columns that a thread writes must be a whole number of store vectors.
            :must: CShuffleN / {C_CLUSTER}[3] % {C_VECTORS}[0] == 0
            :blame: {C_VECTORS}, {C_CLUSTER}, CShuffleNXdlPerWavePerShuffle  :when: HasKernel
            :after: xdl-tile, n-per-block, c-cluster-n
            :source: {THREAD}threadwise_tensor_slice_transfer_v7r3.hpp, static_assert 'cannot evenly divide'
        c-vector-layout: CK stores vectors of neighbouring elements along N, but C is contiguous along M: what it writes
            is wrong.
            :must: {C_VECTORS}[0] == 1 or CLayout == 'Row'  :blame: {C_VECTORS}, CLayout  :when: HasKernel  :is: warning
            :asserted: needs {C_VECTORS} = [1]  :source: {GRID}, DstVectorDim of the copy of C
        c-vector-size: There is no global store of this many elements.
            :must: {C_VECTORS}[0] in (1, 2, 4, 8, 16)  :blame: {C_VECTORS}  :when: HasKernel
            :source: {_BUFFER}, static_assert in amd_buffer_store_impl
        c-vector-atomic: Split-K adds C atomically, which has no form for this many elements.
            :must: {C_VECTORS}[0] <= AtomicVector  :blame: {C_VECTORS}, CDataType
            :when: Invoker == 1 and HasKernel and CDataType in ('F32', 'I32', 'F16', 'BF16')  :after: c-vector-size
            :source: {_BUFFER}, static_assert in amd_buffer_atomic_add_impl and amd_global_atomic_add_impl
        c-vectors: There is one vector length for C and one for each tensor that the epilogue reads.
            :must: size({C_VECTORS}) > NumDTensor  :blame: {C_VECTORS}, DsDataType  :when: HasKernel
            :source: {THREAD}threadwise_tensor_slice_transfer_v7r3.hpp, SrcScalarPerVectors{{}}[i]
        lds: A block takes more LDS than a compute unit has. C's shuffle lies where A and B were; v4 has two buffers.
            :must: LdsBuffers * max(ABBytes, CBytes) <= LdsLimit
            :blame: KPerBlock, MPerBlock, NPerBlock, BlkGemmPipelineVer  :when: HasKernel
            :after: k-per-block, m-per-block, n-per-block, a-lds-fold, b-lds-fold, a-lds-permutation, b-lds-permutation
            :is: codegen  :source: {GRID}, GetSharedMemoryNumberOfByte; the compiler: local memory exceeds limit
        """
    ),
)
"""In the order in which they are checked: a rule comes after those that it names in `after`."""

OPERATION = operation(
    "DeviceGemmMultiD_Xdl_CShuffle_V3",
    "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3.hpp",
    PARAMETERS,
    DEFINITIONS,
    RULES,
    {"MPerXDL": "MPerXdl", "NPerXDL": "NPerXdl"},
)
