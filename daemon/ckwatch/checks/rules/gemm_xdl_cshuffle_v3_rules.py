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
from ckwatch.checks.rules.rule import DeviceOperation, Rule
from ckwatch.model.diagnostics import Severity

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
    return (
        Rule(
            f"{low}-conversion",
            f"{side}DataType in {side}Sources",
            (f"{side}DataType", f"LDSType{side}"),
            f"CK's PassThrough cannot convert {{{side}DataType}} to {{LDSType{side}}}, in which {side} is multiplied.",
            "ck/tensor_operation/gpu/element/unary_element_wise_operation.hpp, PassThrough is not defined for them",
            when=f"HasKernel and {side}ElementwiseOperation == 'PassThrough'",
            after=("xdl-tile", "compute-types", "compute-types-8-bit"),
            codegen=True,
        ),
        Rule(
            f"{low}-cluster-rank",
            f"size({cluster}) == 3",
            (cluster,),
            f"The thread cluster of {side} has the dimensions {k0}, {rows}, {k1}.",
            f"{copy}, static_assert 'nDim not consistent'",
            when="HasKernel",
        ),
        Rule(
            f"{low}-arrange-order",
            f"size({order}) == 3 and is_permutation({order})",
            (order,),
            "The arrange order names each of the three dimensions once.",
            f"{copy}, static_assert 'nDim not consistent'; sequence maps must be valid",
            when="HasKernel",
        ),
        Rule(
            f"{low}-access-order",
            f"size({access}) == 3 and is_permutation({access})",
            (access,),
            "The access order names each of the three dimensions once.",
            f"{copy}, static_assert 'nDim not consistent'; sequence maps must be valid",
            when="HasKernel",
        ),
        Rule(
            f"{low}-k0",
            f"KPerBlock >= {k1}",
            ("KPerBlock", k1),
            f"A block tile of {side} must be at least one slice of {k1} deep.",
            covers,
            when="HasKernel",
            after=("k-per-block",),
        ),
        Rule(
            f"{low}-cluster-k0",
            f"KPerBlock / {k1} % {cluster}[0] == 0",
            (cluster, "KPerBlock", k1),
            f"The thread cluster must divide the {k0} = KPerBlock / {k1} slices of {side}'s block tile.",
            covers,
            when="HasKernel",
            after=("k-per-block", f"{low}-k0"),
        ),
        Rule(
            f"{low}-cluster-{rows.lower()}",
            f"{rows}PerBlock % {cluster}[1] == 0",
            (cluster, f"{rows}PerBlock"),
            f"The thread cluster must divide {rows}PerBlock.",
            covers,
            when="HasKernel",
        ),
        Rule(
            f"{low}-cluster-k1",
            f"{k1} % {cluster}[2] == 0",
            (cluster, k1),
            f"The thread cluster must divide {k1}.",
            covers,
            when="HasKernel",
        ),
        Rule(
            f"{low}-cluster-threads",
            f"product({cluster}) <= BlockSize",
            (cluster, "BlockSize"),
            f"The thread cluster that copies {side} cannot have more threads than the block.",
            f"{copy}, static_assert 'ThreadGroup::GetNumOfThread() too small'",
            when="HasKernel",
        ),
        Rule(
            f"{low}-vector-dim",
            f"{dim} in (0, 1, 2, 3)",
            (dim,),
            f"The vectors of {side} lie along {k0} (0), {rows} (1) or {k1} (2). CK takes 3 for none of them.",
            f"{load_check}, SliceLengths::At(SrcVectorDim)",
            when="HasKernel",
        ),
        Rule(
            f"{low}-vector",
            f"{side}ThreadSlice[{dim}] % {load} == 0",
            (load, cluster),
            f"The slice of {side} that a thread copies must be a whole number of load vectors.",
            f"{load_check}, static_assert 'SliceLengths[SrcVectorDim] must be divisible by SrcScalarPerVector'",
            when="HasKernel",
            after=("k-per-block", f"{low}-cluster-k0", f"{low}-cluster-{rows.lower()}", f"{low}-cluster-k1"),
        ),
        Rule(
            f"{low}-vector-layout",
            f"{load} == 1 or {dim} == {side}ContiguousDim",
            (dim, f"{side}Layout", load),
            f"CK loads vectors of neighbouring elements along this dimension, but {side} is contiguous along another: "
            "the product is wrong.",
            f"{load_check}, RunRead",
            when="HasKernel",
            severity=Severity.WARNING,
            asserted_by=f"{dim} must be",
        ),
        Rule(
            f"{low}-vector-size",
            f"{load} in (1, 2, 3, 4, 5, 6, 7, 8, 13, 16)",
            (load,),
            "There is no vector load of this many elements.",
            f"{VECTORS}; {load_check}, VectorSizeLookupTable",
            when="HasKernel",
        ),
        Rule(
            f"{low}-store-size",
            f"{store} in {VECTOR_SIZES}",
            (store,),
            f"A thread stores this many elements of {side} to LDS as one vector, and there is no vector of this size.",
            f"{VECTORS}; {load_check}, dst_vector_type",
            when="HasKernel",
        ),
        Rule(
            f"{low}-k1-vector",
            f"{k1} in {VECTOR_SIZES}",
            (k1,),
            f"A lane reads {k1} elements of {side} from LDS as one vector, and there is no vector of this size.",
            VECTORS,
            when="HasKernel",
        ),
        Rule(
            f"{low}-lds-fold",
            f"{side}K0PerThreadRead > 0 and (NXdlPerWave32 == 0 or {side}K0PerThreadRead32 > 0)",
            ("KPerBlock", k1, f"{rows}PerXDL"),
            f"With {side} contiguous along {rows}, the LDS layout divides by the {k0} slices per reading lane.",
            f"{GRID}, Get{side}BlockDescriptor_{k0}PerBlock_{rows}PerBlock_{k1}: K0PerThreadRead is a divisor",
            when=f"{side}Folded",
            after=("k-per-block", "waves"),
            host=True,
        ),
        Rule(
            f"{low}-lds-permutation",
            f"{side}KThreadReadPerm > 0 and (NXdlPerWave32 == 0 or {side}KThreadReadPerm32 > 0)",
            (cluster, f"{rows}PerXDL", k1),
            f"With {side} contiguous along {rows}, the LDS layout divides by the permuted reading lanes.",
            f"{GRID}, Get{side}BlockDescriptor_{k0}PerBlock_{rows}PerBlock_{k1}: KThreadReadPerm is a divisor",
            when=f"{side}Folded",
            after=("k-per-block", "waves", f"{low}-lds-fold", f"{low}-cluster-k0"),
            host=True,
        ),
        Rule(
            f"{low}-buffer-loads",
            f"{rows}PerBlock * KPerBlock / (BlockSize * {load}) > 0",
            (load, "BlockSize", f"{rows}PerBlock"),
            f"The hot loop's schedule divides by the global loads of {side} per thread, and a thread has none.",
            f"{SCHEDULES}, HotLoopScheduler; ck/utility/blkgemmpipe_scheduler.hpp, {side}_Buffer_Load_Inst_Num",
            when="HasKernel and BlkGemmPipelineVer in ('v3', 'v4', 'v5')",
            after=("scheduler", "k-per-block"),
        ),
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
    Rule(
        "matrix-arch",
        f"target in {_MATRIX_ARCHS}",
        (),
        "{target} has no MFMA: this kernel needs matrix instructions of waves of 64 lanes.",
        _EMPTY_KERNELS,
        when="Invoker == 0",
        every_arch=True,
    ),
    Rule(
        "matrix-arch-empty",
        f"target in {_MATRIX_ARCHS} or HasWmma and MPerXDL == 16 and NPerXDL == 16 and NXdlPerWave32 > 0",
        ("MPerXDL", "NPerXDL"),
        "{target} has no MFMA, and CK's form for WMMA takes tiles of 16x16 in waves of 32 lanes. CK compiles this to "
        "an empty kernel: C is never written.",
        _EMPTY_KERNELS,
        when="Invoker == 1 and target != 'host'",
        severity=Severity.WARNING,
        every_arch=True,
    ),
    Rule(
        "f8-arch",
        "target in ('gfx942', 'gfx950', 'gfx9-4-generic')",
        ("ComputeTypeA",),
        "{target} has no matrix instructions for 8-bit floats: CK converts each element and takes those for f32, which "
        "is right and slow, and compiles for minutes.",
        "ck/utility/amd_xdlops.hpp, intrin_mfma_f32_32x32x16f8f8 and its kin without __gfx94__",
        when=f"HasKernel and ComputeTypeA in {_EIGHT_BITS}",
        severity=Severity.WARNING,
    ),
    Rule(
        "f64-arch",
        "target != 'gfx908'",
        ("ComputeTypeA",),
        "{target} has no matrix instruction for f64: CK compiles this to a kernel that multiplies nothing.",
        "ck/utility/amd_xdlops.hpp, intrin_mfma_f64_16x16x4f64 without __gfx90a__",
        when="HasKernel and ComputeTypeA == 'F64'",
        severity=Severity.WARNING,
    ),
    Rule(
        "waves",
        "MPerBlock / (MPerXDL * MXdlPerWave) > 0 and NPerBlock / NPerXDL > 0",
        ("MXdlPerWave", "MPerXDL", "NPerXDL", "MPerBlock", "NPerBlock"),
        "A wave's tile must fit into the block tile.",
        f"{_DEVICE}, static_assert in GetNXdlPerWave2; {GRID}, division by the number of waves",
        host=True,
    ),
    Rule(
        "m-per-block",
        "MPerBlock % (MPerXDL * MXdlPerWave) == 0",
        ("MXdlPerWave", "MPerXDL", "MPerBlock"),
        "A wave computes MPerXDL * MXdlPerWave rows of the block tile; whole waves must cover it.",
        f"{GRID}, static_assert in CheckValidity",
        when="NXdlPerWave64 > 0 or NXdlPerWave32 > 0",
        after=("waves",),
        host=True,
    ),
    Rule(
        "n-per-block",
        "NPerBlock % NPerXDL == 0",
        ("NPerXDL", "NPerBlock"),
        "Whole XDL tiles must cover the columns of the block tile.",
        f"{_PIPELINE}, static_assert in the constructor",
        after=("waves",),
    ),
    Rule(
        "block-size",
        "BlockSize % (MWaves * NWaves) == 0 and (NXdlPerWave32 == 0 or BlockSize % (MWaves * NWavesOf32) == 0)",
        ("BlockSize", "MXdlPerWave", "MPerXDL", "NPerXDL", "MPerBlock", "NPerBlock"),
        "The block's threads must split evenly among the waves that cover the block tile, of 64 lanes and of 32.",
        f"{_PIPELINE}, static_assert 'ThisThreadBlock::GetNumOfThread() != MWaves * NWaves * WaveSize'",
        after=("waves", "m-per-block", "n-per-block"),
    ),
    Rule(
        "no-kernel",
        "NXdlPerWave64 > 0 and WaveSize == 64",
        ("BlockSize", "MXdlPerWave", "MPerXDL", "NPerXDL", "MPerBlock", "NPerBlock"),
        "The block does not split into waves of 64 lanes that cover the block tile. CK compiles this to an empty "
        "kernel: C is never written.",
        f"{_DEVICE}, GetNXdlPerWave2 and IsValidGemmCompilationParameter",
        after=("waves", "m-per-block", "n-per-block", "block-size"),
        severity=Severity.WARNING,
        asserted_by="CK would run an empty kernel",
    ),
    Rule(
        "block-threads",
        "BlockSize <= 256",
        ("BlockSize",),
        "CK compiles its kernels for at most 256 threads (CK_MAX_THREAD_PER_BLOCK); a larger block cannot be launched.",
        f"ck/ck.hpp; {GRID}, __launch_bounds__",
        severity=Severity.WARNING,
    ),
    Rule(
        "n-xdl-per-wave",
        "NXdlPerWave == NXdlPerWave64",
        ("NXdlPerWave",),
        "CK 7.2 computes this value from BlockSize and the tiles, and ignores the one given; older versions reject it.",
        f"{_DEVICE}, GetNXdlPerWave2",
        after=("waves", "m-per-block", "n-per-block", "block-size", "no-kernel"),
        severity=Severity.WARNING,
    ),
    Rule(
        "c-shuffle-m",
        "MXdlPerWave % CShuffleMXdlPerWavePerShuffle == 0",
        ("CShuffleMXdlPerWavePerShuffle", "MXdlPerWave"),
        "C leaves through LDS in steps of CShuffleMXdlPerWavePerShuffle XDL tiles, which must divide a wave's tiles.",
        f"{GRID}, static_assert in Run",
        when="HasKernel",
    ),
    Rule(
        "c-shuffle-n",
        "NXdlPerWave64 % CShuffleNXdl == 0",
        ("CShuffleNXdlPerWavePerShuffle", "NPerBlock", "BlockSize"),
        "C leaves through LDS in steps that must divide a wave's XDL tiles along N. CK compiles this to an empty "
        "kernel, and IsSupportedArgument refuses every problem.",
        f"{GRID}, IsValidCompilationParameter and CheckValidity",
        after=("waves", "m-per-block", "n-per-block", "block-size", "no-kernel"),
        severity=Severity.WARNING,
        asserted_by="CK would run an empty kernel",
    ),
    Rule(
        "xdl-tile",
        "XdlShape in XdlShapes",
        ("MPerXDL", "NPerXDL", "ComputeTypeA"),
        "No matrix instruction computes a tile of {XdlShape} in {ComputeTypeA}.",
        f"{_XDLOPS}, MfmaSelector::GetMfma has no specialisation",
        host=True,
    ),
    Rule(
        "compute-types",
        f"ComputeTypeA == ComputeTypeB or (ComputeTypeA in {_EIGHT_BITS} and ComputeTypeB in {_EIGHT_BITS})",
        ("ComputeTypeB", "ComputeTypeA"),
        "Matrix instructions take both operands in one type, or both in 8-bit floats.",
        f"{_XDLOPS}, MfmaSelector::GetMfma has no specialisation",
        host=True,
    ),
    Rule(
        "compute-types-8-bit",
        "ComputeTypeA == ComputeTypeB",
        ("ComputeTypeB", "ComputeTypeA"),
        "CK cannot multiply {ComputeTypeA} with {ComputeTypeB}: on the way from LDS to registers it converts both to "
        "one type, and there is no such conversion.",
        f"{THREAD}threadwise_tensor_slice_transfer.hpp, type_convert in ThreadwiseTensorSliceTransfer_v4",
        when=f"HasKernel and ComputeTypeA in {_EIGHT_BITS} and ComputeTypeB in {_EIGHT_BITS}",
    ),
    Rule(
        "k-per-block",
        "KPerThread % KPack == 0",
        ("KPerBlock", "AK1", "BK1"),
        "Each lane walks its share of KPerBlock in steps of KPack, which also holds whole AK1 and BK1 vectors.",
        f"{_PIPELINE}, static_assert 'Wrong KPack setting; try increasing KPerThread or decreasing KPack'",
        after=("xdl-tile", "compute-types"),
    ),
    Rule(
        "k-pack",
        "KPack % KPerBlk == 0",
        ("AK1", "BK1"),
        "KPack must be a whole number of matrix instructions.",
        f"{_XDLOPS}, static_assert 'KPack should be a multiple of k_per_blk'",
        after=("xdl-tile", "compute-types"),
    ),
    Rule(
        "scheduler",
        "BlkGemmPipelineVer in ('v1', 'v2')",
        ("BlkGemmPipeSched", "BlkGemmPipelineVer"),
        "Only the pipelines v1 and v2 have an Interwave form.",
        f"{SCHEDULES}: no specialisation for Interwave, so no member PrefetchStages",
        when="BlkGemmPipeSched == 'Interwave'",
        host=True,
    ),
    Rule(
        "xdl-cycles",
        "NPerXDL in (16, 32)",
        ("NPerXDL",),
        "The hot loop's schedule knows the cycles of 16 and 32 columns only.",
        "ck/utility/blkgemmpipe_scheduler.hpp, C_MFMA_Inst_Cycle has no value",
        when="HasKernel and BlkGemmPipelineVer in ('v3', 'v5')",
        after=("xdl-tile", "scheduler"),
    ),
    *operand_rules("A", "M", A_CLUSTER),
    *operand_rules("B", "N", B_CLUSTER),
    Rule(
        "k-pack-vector",
        f"KPack in {VECTOR_SIZES}",
        ("AK1", "BK1"),
        "A lane's operands for one step are one vector, and there is no vector of this size.",
        VECTORS,
        when="HasKernel",
        after=("xdl-tile", "compute-types", "k-pack", "a-k1-vector", "b-k1-vector"),
    ),
    Rule(
        "c-cluster-rank",
        f"size({C_CLUSTER}) == 4",
        (C_CLUSTER,),
        "The thread cluster of C has the dimensions MBlock, MPerBlock, NBlock, NPerBlock.",
        f"{_SHUFFLE_COPY}, static_assert 'nDim not consistent'",
        when="HasKernel",
    ),
    Rule(
        "c-cluster-blocks",
        f"{C_CLUSTER}[0] == 1 and {C_CLUSTER}[2] == 1",
        (C_CLUSTER,),
        "A block writes one tile of C, so the cluster is 1 along MBlock and NBlock.",
        f"{_SHUFFLE_COPY}, static_assert 'threads should be mapped to cover entire slicing window'",
        when="HasKernel",
        after=("c-cluster-rank",),
    ),
    Rule(
        "c-cluster-m",
        f"CShuffleM % {C_CLUSTER}[1] == 0",
        (C_CLUSTER, "CShuffleMXdlPerWavePerShuffle"),
        "The threads that write C must cover the rows of one shuffle.",
        f"{_SHUFFLE_COPY}, static_assert 'threads should be mapped to cover entire slicing window'",
        when="HasKernel",
        after=("m-per-block",),
    ),
    Rule(
        "c-cluster-n",
        f"CShuffleN % {C_CLUSTER}[3] == 0",
        (C_CLUSTER, "CShuffleNXdlPerWavePerShuffle"),
        "The threads that write C must cover the columns of one shuffle.",
        f"{_SHUFFLE_COPY}, static_assert 'threads should be mapped to cover entire slicing window'",
        when="HasKernel",
        after=("n-per-block",),
    ),
    Rule(
        "c-cluster-threads",
        f"product({C_CLUSTER}) <= BlockSize",
        (C_CLUSTER, "BlockSize"),
        "The thread cluster that writes C cannot have more threads than the block.",
        f"{_SHUFFLE_COPY}, static_assert 'ThreadGroup::GetNumOfThread() too small'",
        when="HasKernel",
    ),
    Rule(
        "c-vector",
        f"CShuffleN / {C_CLUSTER}[3] % {C_VECTORS}[0] == 0",
        (C_VECTORS, C_CLUSTER, "CShuffleNXdlPerWavePerShuffle"),
        "The columns that a thread writes must be a whole number of store vectors.",
        f"{THREAD}threadwise_tensor_slice_transfer_v7r3.hpp, static_assert 'cannot evenly divide'",
        when="HasKernel",
        after=("xdl-tile", "n-per-block", "c-cluster-n"),
    ),
    Rule(
        "c-vector-layout",
        f"{C_VECTORS}[0] == 1 or CLayout == 'Row'",
        (C_VECTORS, "CLayout"),
        "CK stores vectors of neighbouring elements along N, but C is contiguous along M: what it writes is wrong.",
        f"{GRID}, DstVectorDim of the copy of C",
        when="HasKernel",
        severity=Severity.WARNING,
        asserted_by=f"needs {C_VECTORS} = [1]",
    ),
    Rule(
        "c-vector-size",
        f"{C_VECTORS}[0] in (1, 2, 4, 8, 16)",
        (C_VECTORS,),
        "There is no global store of this many elements.",
        f"{_BUFFER}, static_assert in amd_buffer_store_impl",
        when="HasKernel",
    ),
    Rule(
        "c-vector-atomic",
        f"{C_VECTORS}[0] <= AtomicVector",
        (C_VECTORS, "CDataType"),
        "Split-K adds C atomically, which has no form for this many elements.",
        f"{_BUFFER}, static_assert in amd_buffer_atomic_add_impl and amd_global_atomic_add_impl",
        when="Invoker == 1 and HasKernel and CDataType in ('F32', 'I32', 'F16', 'BF16')",
        after=("c-vector-size",),
    ),
    Rule(
        "c-vectors",
        f"size({C_VECTORS}) > NumDTensor",
        (C_VECTORS, "DsDataType"),
        "There is one vector length for C and one for each tensor that the epilogue reads.",
        f"{THREAD}threadwise_tensor_slice_transfer_v7r3.hpp, SrcScalarPerVectors{{}}[i]",
        when="HasKernel",
    ),
    Rule(
        "lds",
        "LdsBuffers * max(ABBytes, CBytes) <= LdsLimit",
        ("KPerBlock", "MPerBlock", "NPerBlock", "BlkGemmPipelineVer"),
        "A block takes more LDS than a compute unit has. C's shuffle lies where A and B were; v4 has two buffers.",
        f"{GRID}, GetSharedMemoryNumberOfByte; the compiler: local memory exceeds limit",
        when="HasKernel",
        after=(
            "k-per-block",
            "m-per-block",
            "n-per-block",
            "a-lds-fold",
            "b-lds-fold",
            "a-lds-permutation",
            "b-lds-permutation",
        ),
        codegen=True,
    ),
)
"""In the order in which they are checked: a rule comes after those that it names in `after`."""

OPERATION = DeviceOperation(
    "DeviceGemmMultiD_Xdl_CShuffle_V3",
    "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3.hpp",
    {parameter.name: parameter for parameter in PARAMETERS},
    {definition.name: definition for definition in DEFINITIONS},
    RULES,
    {"MPerXDL": "MPerXdl", "NPerXDL": "NPerXdl"},
)
