"""Rules of `DeviceGemmMX_Xdl_CShuffleV3`, for Composable Kernel 7.2: products of microscaled operands, on gfx950.

A block copies its tiles from global memory straight into LDS, a wave at a time, which writes what its lanes load one
behind the other: CK has the conditions for that as a comment, and computes wrongly where they do not hold. Scales of
two tiles of the matrix instruction along either side, and of two steps along K, lie in one word. KPerBlock, AK1 and
BK1 count bytes: two elements of f4 are one. A W with layout MFMA lies as lanes read it, and does not go
through LDS.
"""

from __future__ import annotations

from ckwatch.checks.rules.batched_gemm_xdl_cshuffle_v3 import OPERATION as BATCHED
from ckwatch.checks.rules.expression import Lookup, UnknownValueError
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import A_CLUSTER, B_CLUSTER, C_CLUSTER, PIPELINES
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import BLOCK
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.rule import (
    ParameterKind,
    Rule,
    TemplateParameter,
    computed,
    definitions,
    integer,
    operation,
    rules,
)

C_VECTOR = "CShuffleBlockTransferScalarPerVector_NPerBlock"

_DEVICE = "ck/tensor_operation/gpu/device/impl/device_gemm_xdl_cshuffle_v3_mx.hpp"
_GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_mx.hpp"
_BASE = BLOCK + "blockwise_gemm_mx_pipeline_xdlops_base.hpp"
_SELECTOR = BLOCK + "blockwise_gemm_pipeline_xdlops_mx_selector.hpp"
_COPY = BLOCK + "thread_group_tensor_slice_transfer_direct_load.hpp"
_PRESHUFFLED_GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_mx_bpreshuffle.hpp"
_PRESHUFFLED_SELECTOR = BLOCK + "blockwise_gemm_pipeline_xdlops_mx_bpreshuffle_selector.hpp"
_SHUFFLE_COPY = BLOCK + "thread_group_tensor_slice_transfer_v6r1.hpp"

ELEMENTS = ("F8", "BF8", "F4")
"""Types of operands whose scales the matrix instructions apply, of those that kernel files can name."""

_WITHOUT = ("DsLayout", "DsDataType", "LDSTypeA", "LDSTypeB", "CDEShuffleBlockTransferScalarPerVectors")
_BEHIND = {
    "ADataType": (TemplateParameter("AScaleDataType", ParameterKind.OTHER),),
    "BDataType": (TemplateParameter("BScaleDataType", ParameterKind.OTHER),),
    "GemmSpec": (TemplateParameter("ScaleBlockSize", ParameterKind.INTEGER),),
    C_CLUSTER: (integer(C_VECTOR),),
}
_BATCHED = BATCHED.derived("", "", behind=_BEHIND)
_PARAMETERS = [one for one in _BATCHED.parameters.values() if one.name not in _WITHOUT]


@computed("Packed = 2 for F4, else 1  # elements in a byte", "ADataType")
def _packed(lookup: Lookup) -> int:
    return 2 if lookup("ADataType") == "F4" else 1


@computed("K0PerXdlops = K blocks of the matrix instruction  # lanes that share K", "XdlShape")
def _k_blocks(lookup: Lookup) -> int:
    found = {"16x16": 4, "32x32": 2}.get(str(lookup("XdlShape")))
    if found is None:
        raise UnknownValueError("K0PerXdlops")
    return found


_KEPT = (
    *("MWaves", "NWavesOf64", "NXdlPerWave64", "NWavesOf32", "NXdlPerWave32", "NWaves", "WaveSize", "HasKernel"),
    *("XdlShape", "lcm_AK1_BK1", "KPerThread", "CShuffleM", "CShuffleN", "AK0", "BK0", "AContiguousDim"),
    *("BContiguousDim", "sizeof_CShuffleDataType", "CBytes", "LdsLimit", "HasWmma"),
)
_DEFINITIONS = (
    *(GEMM.definitions[name] for name in _KEPT),
    BATCHED.definitions["CShuffleNXdl"],
    _packed,
    _k_blocks,
    *definitions(
        """
        KPack = max(lcm_AK1_BK1, 32 / Packed)  # bytes of a lane along K in one step
        KRepeat = KPerThread / KPack  # steps along K in a block tile
        Pipelines = 1 if BlkGemmPipelineVer == 'v1' else 2  # LDS buffers of the pipeline
        ABBytes = MPerBlock * KPerBlock if BLayout == 'MFMA' else (MPerBlock + NPerBlock) * KPerBlock  # LDS for a tile
            of A and one of B
        """
    ),
)


def _operand_rules(side: str, rows: str, cluster: str) -> tuple[Rule, ...]:
    low, k0, k1, block = side.lower(), f"{side}K0", f"{side}K1", f"{side}BlockTransfer"
    load, order, dim = f"{block}SrcScalarPerVector", f"{block}ThreadClusterArrangeOrder", f"{block}SrcVectorDim"
    extra = f"{side}BlockLdsExtra{rows}"
    in_lds = "HasKernel and BLayout != 'MFMA'" if side == "B" else "HasKernel"
    return (
        *rules(
            f"""
            mx-{low}-cluster-rank: The thread cluster of {side} has the dimensions {k0}, {rows}, {k1}, and its order
                names each once.
                :must: size({cluster}) == 3 and size({order}) == 3 and is_permutation({order})
                :blame: {cluster}, {order}  :when: {in_lds}
                :source: {_COPY}, static_assert 'Inconsistent number of dimensions across lengths and descriptors.'
            mx-{low}-cluster-threads: The thread cluster that copies {side} cannot have more threads than the block.
                :must: product({cluster}) <= BlockSize  :blame: {cluster}, BlockSize  :when: {in_lds}
                :source: {_COPY}, static_assert 'The number of threads cannot be less than the number of elements …'
            mx-{low}-load: A lane copies 4, 12 or 16 bytes of {side} to LDS at once.
                :must: {load} in (4, 12, 16)  :blame: {load}  :when: {in_lds} and target == 'gfx950'
                :source: ck/utility/amd_buffer_addressing_builtins.hpp, static_assert in amd_direct_load_global_to_lds
            """
        ),
        *(
            one
            for slug, condition, blame in (
                ("order", f"{dim} == 2 and {order} == (1, 0, 2)", f"{order}, {dim}"),
                ("depth", f"{cluster}[0] * {k1} == KPerBlock", f"{cluster}, KPerBlock, {k1}"),
                ("vector", f"{cluster}[2] * {load} == {k1}", f"{cluster}, {load}, {k1}"),
                ("threads", f"product({cluster}) == BlockSize", f"{cluster}, BlockSize"),
                ("rows", f"{rows}PerBlock % {cluster}[1] == 0", f"{rows}PerBlock, {cluster}"),
            )
            for one in rules(
                f"""
                mx-{low}-{slug}: A wave writes what its lanes load of {side} into LDS one behind the other: its threads
                    must cover whole rows of the tile in their order.
                    :must: {condition}  :blame: {blame}  :when: {in_lds}  :is: warning
                    :after: mx-{low}-cluster-rank, mx-{low}-cluster-threads, mx-{low}-load
                    :asserted: the threads that copy {side}
                    :source: {_COPY}, AreThreadClusterLengthsValid, which is not asserted
                """
            )
        ),
        *rules(
            f"""
            mx-{low}-extra: CK shuffles the tile of {side} on its way from global memory and back when it reads LDS;
                without this its layout in LDS shuffles it once more.
                :must: {extra} == 1  :blame: {extra}  :when: {in_lds}  :is: warning  :asserted: {extra} must be true
                :source: {_GRID}, Get{side}BlockDescriptor_{k0}PerBlock_{rows}PerBlock_{k1}
            """
        ),
    )


_COMMON = {rule.slug: rule for rule in GEMM.rules}
_RULES = (
    *(_COMMON[slug] for slug in ("matrix-arch", "matrix-arch-empty")),
    *rules(
        f"""
        mx-arch: {{target}} has no matrix instructions that apply scales: gfx950 has.
            :must: target == 'gfx950'  :when: target != 'host'  :is: warning every-arch
            :asserted: microscaled operands need gfx950
            :source: {_GRID}, __gfx950__ around kernel_gemm_xdl_cshuffle_v3_mx
        """
    ),
    *(_COMMON[slug] for slug in ("waves", "m-per-block", "n-per-block", "block-size", "no-kernel", "block-threads")),
    *(_COMMON[slug] for slug in ("n-xdl-per-wave", "c-shuffle-m")),
    *rules(
        f"""
        mx-types: Scaled matrix instructions take 8-bit floats, or f4 with f4.
            :must: ADataType in {ELEMENTS} and BDataType in {ELEMENTS} and (ADataType == 'F4') == (BDataType == 'F4')
            :blame: ADataType, BDataType  :is: host
            :source: {_DEVICE}, static_assert in IsValidCompilationParameter; {_BASE}, static_assert APackedSize ==
                BPackedSize
        mx-scale-block: The matrix instructions apply a scale to each 32 elements along K.
            :must: ScaleBlockSize == 32  :blame: ScaleBlockSize  :is: warning  :asserted: blocks of 32
            :source: {_DEVICE}, static_assert 'Only ScaleBlockSize 32 is supported'
        mx-xdl-tile: Scaled matrix instructions compute tiles of 16x16 and of 32x32.
            :must: XdlShape in ('16x16', '32x32')  :blame: MPerXDL, NPerXDL  :is: host
            :source: ck/tensor_operation/gpu/warp/xdlops_gemm.hpp, MfmaSelector::GetMfma has no specialisation
        mx-k-per-block: Each lane walks its share of KPerBlock in steps of KPack, which also holds whole AK1 and BK1
            vectors.
            :must: KPerThread % KPack == 0 and KRepeat > 0  :blame: KPerBlock, AK1, BK1  :after: mx-xdl-tile
            :source: {_BASE}, static_assert 'Wrong KPack setting; try increasing KPerThread or decreasing KPack'
        mx-k-pairs: Scales of two steps along K lie together: KPerBlock must be a whole number of two matrix
            instructions.
            :must: KRepeat % 2 == 0  :blame: KPerBlock  :when: HasKernel  :after: mx-xdl-tile, mx-k-per-block
            :is: warning  :asserted: KPerBlock must be a whole number of two  :source: {_GRID}, KXdlPack
        mx-tile-pairs: Scales of two XDL tiles along M and along N lie together: a wave needs an even number of each.
            :must: MXdlPerWave % 2 == 0 and NXdlPerWave64 % 2 == 0  :blame: MXdlPerWave, NPerBlock, BlockSize
            :when: HasKernel  :is: warning  :asserted: a wave needs an even number of XDL tiles
            :source: {_GRID}, MXdlPack and NXdlPack
        mx-c-shuffle: C leaves through LDS in steps of whole pairs of XDL tiles, which must divide a wave's tiles.
            :must: CShuffleMXdlPerWavePerShuffle % 2 == 0 and CShuffleNXdlPerWavePerShuffle % 2 == 0 and NXdlPerWave64 %
                CShuffleNXdlPerWavePerShuffle == 0
            :blame: CShuffleMXdlPerWavePerShuffle, CShuffleNXdlPerWavePerShuffle
            :when: NXdlPerWave64 > 0 and WaveSize == 64  :source: {_GRID}, static_assert in Run
        mx-pipeline: For microscaled operands there are the pipelines v1 and v3.
            :must: BlkGemmPipelineVer in ('v1', 'v3')  :blame: BlkGemmPipelineVer  :is: host
            :source: {_SELECTOR}: 'MX GEMM Pipeline configuration is not available', no type
        mx-preshuffled-pipeline: For microscaled operands with a preshuffled W there is the pipeline v3.
            :must: BlkGemmPipelineVer == 'v3'  :blame: BlkGemmPipelineVer  :when: BLayout == 'MFMA'  :after: mx-pipeline
            :is: host  :source: {_PRESHUFFLED_SELECTOR}: 'MX GEMM Pipeline configuration is not available', no type
        mx-preshuffled-types: What a lane multiplies of f8 comes in two pieces, half an instruction apart along K: a
            preshuffled W is f4.
            :must: BDataType == 'F4'  :blame: BDataType  :when: BLayout == 'MFMA'  :after: mx-types  :is: warning
            :asserted: a preshuffled W of f8 is not supported  :source: {_BASE}, KThreadChunk
        mx-preshuffled-b-k1: CK copies BK1 bytes of W along K for each lane, and multiplies KPack of them.
            :must: BK1 == KPack  :blame: BK1, AK1  :when: BLayout == 'MFMA'  :after: mx-xdl-tile, mx-preshuffled-types
            :is: warning  :asserted: BK1 must be what a lane reads
            :source: {_PRESHUFFLED_GRID}, SliceLengths of b_blockwise_copy and KPack
        mx-preshuffled-b-vector: The bytes of W that a lane reads must be a whole number of load vectors.
            :must: BK1 % BBlockTransferSrcScalarPerVector == 0  :blame: BBlockTransferSrcScalarPerVector, BK1
            :when: HasKernel and BLayout == 'MFMA'
            :source: ck/tensor_operation/gpu/thread/threadwise_tensor_slice_transfer.hpp, static_assert in
                ThreadwiseTensorSliceTransfer_v2
        mx-scheduler: The pipelines for microscaled operands have no Interwave form.
            :must: BlkGemmPipeSched == 'Intrawave'  :blame: BlkGemmPipeSched  :after: mx-pipeline  :is: host
            :source: {BLOCK}blockwise_gemm_pipeline_xdlops_{{v1,v3}}_mx.hpp: no specialisation for Interwave
        """
    ),
    *_operand_rules("A", "M", A_CLUSTER),
    *_operand_rules("B", "N", B_CLUSTER),
    *rules(
        f"""
        mx-c-cluster: The threads that write C must cover the rows and columns of one shuffle: 1, MPerBlock, 1,
            NPerBlock.
            :must: size({C_CLUSTER}) == 4 and {C_CLUSTER}[0] == 1 and {C_CLUSTER}[2] == 1 and CShuffleM % {C_CLUSTER}[1]
                == 0 and CShuffleN % {C_CLUSTER}[3] == 0
            :blame: {C_CLUSTER}  :when: HasKernel  :after: mx-c-shuffle
            :source: {_SHUFFLE_COPY}, static_assert 'wrong! threads should be mapped to cover entire slicing window'
        mx-c-cluster-threads: The thread cluster that writes C cannot have more threads than the block.
            :must: product({C_CLUSTER}) <= BlockSize  :blame: {C_CLUSTER}, BlockSize  :when: HasKernel
            :source: {_SHUFFLE_COPY}, static_assert 'wrong! ThreadGroup::GetNumOfThread() too small'
        mx-c-vector: The columns that a thread writes must be a whole number of store vectors.
            :must: CShuffleN / {C_CLUSTER}[3] % {C_VECTOR} == 0 and {C_VECTOR} in (1, 2, 4, 8, 16)
            :blame: {C_VECTOR}, {C_CLUSTER}  :when: HasKernel  :after: mx-c-cluster
            :source: ck/tensor_operation/gpu/thread/threadwise_tensor_slice_transfer_v6r1.hpp, static_assert 'wrong!
                cannot evenly divide'
        mx-lds: A block takes more LDS than a compute unit has. v3 has two buffers.
            :must: Pipelines * max(ABBytes, CBytes) <= LdsLimit
            :blame: KPerBlock, MPerBlock, NPerBlock, BlkGemmPipelineVer  :when: HasKernel and target == 'gfx950'
            :after: m-per-block, n-per-block, mx-k-per-block  :is: codegen
            :source: {_GRID}, GetSharedMemoryNumberOfByte; the compiler: local memory exceeds limit
        """
    ),
)

OPERATION = operation("DeviceGemmMX_Xdl_CShuffleV3", _DEVICE, _PARAMETERS, _DEFINITIONS, _RULES, GEMM.spelling)

PIPELINE_VERSIONS = tuple(name for name in PIPELINES if name in ("v1", "v3"))
"""Values of `BlkGemmPipelineVer`."""
