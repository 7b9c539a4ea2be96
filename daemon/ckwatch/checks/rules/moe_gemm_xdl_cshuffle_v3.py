"""Rules of `DeviceMoeGemm`, for Composable Kernel 7.2.

A GEMM with a preshuffled W that takes rows of A from where the sorted tokens are, and writes rows of C there:
parameters, definitions and rules are mostly those of `DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle`. In stage 1
(`IsInputGemm`) the pipelines multiply by two W at once, gate and up. Stage 2 adds to C atomically.
"""

from __future__ import annotations

from dataclasses import replace

from ckwatch.checks.rules.expression import Lookup, UnknownValueError, integers
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import A_CLUSTER, C_CLUSTER, C_VECTORS, gridwise_k_per_blk
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_b_preshuffle import OPERATION as PRESHUFFLED
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import BLOCK
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.rule import (
    Definition,
    ParameterKind,
    TemplateParameter,
    computed,
    flag,
    rules,
)

_GRID = "ck/tensor_operation/gpu/grid/gridwise_moe_gemm.hpp"
_SELECTOR = BLOCK + "blockwise_gemm_pipeline_xdlops_b_preshuffle_selector.hpp"
_FUSED_V3 = BLOCK + "blockwise_gemm_pipeline_xdlops_b_preshuffle_gufusion_v3.hpp"
_PREFETCHED_STAGES = 2
_NEW_PARAMETERS = (
    TemplateParameter("ActivationOP", ParameterKind.ENUMERATOR, "gelu_and_mul", None, "Activation"),
    flag("NSwizzle", "false"),
    flag("IsInputGemm", "true"),
    flag("MulRoutedWeight", "true"),
    flag("PerTokenQuant", "true"),
    TemplateParameter("IndexType", ParameterKind.OTHER, "index_t"),
)


@computed(
    "LoadInterval = matrix instructions between two loads of the hot loop (buffer_load_issue_point_interval)  "
    "# those of both W in a stage, by its loads",
    "MXdlPerWave, ALoads, BLoads, Instructions",
)
def _least_interval(lookup: Lookup) -> int:
    """The least number of matrix instructions between two loads of the hot loop of v3 for gate and up, by which it
    divides: 0 too where it divides by the loads of a stage that has none."""
    stages, of_a, of_b, instructions = integers(lookup, "MXdlPerWave", "ALoads", "BLoads", "Instructions")
    of_b *= 2
    available = stages - _PREFETCHED_STAGES
    if available < 1:
        raise UnknownValueError("LoadInterval")
    less, longer = divmod(of_a + of_b, available)
    more = less + (longer > 0)
    each = 2 * instructions // stages
    return 0 if not less else min(each // more, each // less)


@computed(
    "Instructions = matrix instructions of a wave for a block tile  # C_MFMA_Inst_Num, of one W",
    "MPerBlock, NPerBlock, KPerBlock, MPerXDL, NPerXDL, BlockSize, K0PerXdlops, KPerBlk",
)
def _instructions(lookup: Lookup) -> int:
    m, n, k, m_xdl, n_xdl, size = integers(
        lookup, "MPerBlock", "NPerBlock", "KPerBlock", "MPerXDL", "NPerXDL", "BlockSize"
    )
    blocks, per_blk = integers(lookup, "K0PerXdlops", "KPerBlk")
    return m * n * k // (size // 64) // (m_xdl * n_xdl * blocks * per_blk)


_DEFINITIONS = (
    GEMM.definitions["CShuffleNXdl"],
    gridwise_k_per_blk(lambda _: False),
    Definition("BLoads", "NPerBlock * KPerBlock / (BlockSize * BBlockTransferSrcScalarPerVector)", "loads of one W"),
    _instructions,
    _least_interval,
)

_V3_LOOP = "HasKernel and BlkGemmPipelineVer == 'v3'"

_RULES = rules(
    f"""
    moe-pipeline: The pipeline v2 knows one W only, and stage 1 has two: gate and up.
        :must: BlkGemmPipelineVer != 'v2'  :blame: BlkGemmPipelineVer  :when: HasKernel and IsInputGemm == 1
        :after: preshuffled-pipeline
        :source: {_SELECTOR}: v2 without regard to GUFusion; {_GRID}, Run of the pipeline with c_thread_buf_up
    moe-pipeline-rounds: The pipeline v2 begins with three rounds along K, and CK runs it with less.
        :must: BlkGemmPipelineVer != 'v2'  :blame: BlkGemmPipelineVer  :when: HasKernel and IsInputGemm == 0
        :after: preshuffled-pipeline  :is: warning  :asserted: the pipelines are v1 and v3
        :source: ck/tensor_operation/gpu/device/impl/device_moe_gemm.hpp, RunImp: HasMainKBlockLoop = false for v2
    moe-v3-interval: The hot loop of v3 for gate and up divides by the matrix instructions between two loads, and there
        are too few of them, or of loads.
        :must: LoadInterval > 0  :blame: KPerBlock, MPerBlock, NPerBlock  :when: {_V3_LOOP} and IsInputGemm == 1
        :after: preshuffled-v3-rows, preshuffled-v3-stores, k-per-block, k-pack
        :source: {_FUSED_V3}, HotLoopScheduler: buffer_load_issue_point_interval_{{more,less}} is a divisor
    moe-a-order: CK looks up the tokens of a thread's rows as if the rows of the cluster were its slowest dimension:
        with another order it multiplies rows of other tokens.
        :must: ABlockTransferThreadClusterArrangeOrder[0] == 1  :blame: ABlockTransferThreadClusterArrangeOrder
        :when: HasKernel  :after: a-arrange-order  :is: warning
        :asserted: ABlockTransferThreadClusterArrangeOrder must begin with 1  :source: {_GRID}, token_pos in Run
    moe-a-threads: Each thread looks up the tokens of its rows: one without rows reads those of the next tile, and
        returns before the others if there is none.
        :must: product({A_CLUSTER}) == BlockSize  :blame: {A_CLUSTER}, BlockSize  :when: HasKernel
        :after: a-cluster-rank, a-cluster-threads, a-cluster-k0, a-cluster-m, a-cluster-k1  :is: warning
        :asserted: threads that copy X must be BlockSize  :source: {_GRID}, token_pos >= max_token_id in Run
    moe-c-threads: Each thread looks up where its rows of C go: one without rows reads beyond the sorted tokens.
        :must: product({C_CLUSTER}) == BlockSize  :blame: {C_CLUSTER}, BlockSize  :when: HasKernel
        :after: c-cluster-rank, c-cluster-threads, c-cluster-m, c-cluster-n  :is: warning
        :asserted: threads that write Y must be BlockSize  :source: {_GRID}, c_token_pos in Run
    moe-swizzle: With NSwizzle CK reads more than one value behind p_max_token_id: the tiles before each expert's.
        :must: NSwizzle == 0  :blame: NSwizzle  :when: HasKernel  :is: warning  :asserted: NSwizzle must be false
        :source: {_GRID}, ecnt_prefix in Run
    moe-c-vector-atomic: Stage 2 adds C atomically, which has no form for this many elements.
        :must: {C_VECTORS}[0] <= AtomicVector  :blame: {C_VECTORS}, CDataType  :when: HasKernel and IsInputGemm == 0
        :after: c-vector-size
        :source: ck/utility/amd_buffer_addressing_builtins.hpp, static_assert in amd_buffer_atomic_add_impl and
            amd_global_atomic_add_impl
    moe-c-vector-pairs: Stage 2 adds C atomically, and 16-bit floats are added in pairs.
        :must: {C_VECTORS}[0] % 2 == 0  :blame: {C_VECTORS}, CDataType
        :when: HasKernel and IsInputGemm == 0 and CDataType in ('F16', 'BF16')  :after: c-vector-size  :is: codegen
        :source: ck/utility/dynamic_buffer.hpp, AtomicAdd: use_amd_buffer_addressing; atomic_add is not defined for one
    moe-atomic-arch: {{target}} does not add bf16 atomically: CK compiles this to a kernel that adds nothing to C.
        :must: target in ('gfx942', 'gfx950')  :blame: CDataType
        :when: HasKernel and IsInputGemm == 0 and CDataType == 'BF16' and target != 'host'  :is: warning
        :asserted: does not add bf16 atomically
        :source: ck/utility/amd_buffer_addressing_builtins.hpp, amd_global_atomic_add_impl without __gfx942__ and
            __gfx950__
    """
)

_DERIVED = PRESHUFFLED.derived(
    "DeviceMoeGemm",
    "ck/tensor_operation/gpu/device/impl/device_moe_gemm.hpp",
    behind={"BlkGemmPipelineVer": _NEW_PARAMETERS},
    definitions=_DEFINITIONS,
    without={"c-vector-atomic"},
    rules=_RULES,
)
_BLAME = {"preshuffled-k-group": ("AK1", "BK1")}
"""Of rules that here follow from other parameters."""

OPERATION = replace(
    _DERIVED, rules=tuple(replace(rule, blame=_BLAME.get(rule.slug, rule.blame)) for rule in _DERIVED.rules)
)
