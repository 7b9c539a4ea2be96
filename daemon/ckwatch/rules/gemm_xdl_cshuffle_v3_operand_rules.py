"""Rules of `DeviceGemmMultiD_Xdl_CShuffle_V3` that hold for A and for B alike: how a block tile is copied and laid out.

The thread cluster, the vectors, and the LDS layout of one operand. The other rules are in
`ckwatch.rules.gemm_xdl_cshuffle_v3_rules`.
"""

from __future__ import annotations

from ckwatch.model.diagnostic import Severity
from ckwatch.rules.model import Rule

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
    copy = BLOCK + "thread_group_tensor_slice_transfer_v4r1.hpp"
    load_check = THREAD + "threadwise_tensor_slice_transfer_v3r1.hpp"
    covers = f"{copy}, static_assert 'threads should be mapped to cover entire slicing window'"
    return (
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
            f"{low}-cluster-k0",
            f"KPerBlock / {k1} % {cluster}[0] == 0",
            (cluster, "KPerBlock", k1),
            f"The thread cluster must divide the {k0} = KPerBlock / {k1} slices of {side}'s block tile.",
            covers,
            when="HasKernel",
            after=("k-per-block",),
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
