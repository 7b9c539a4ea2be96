"""Rules of `DeviceGemmMultiD_ABScale_Xdl_CShuffle_V3`, for Composable Kernel 7.2.

Parameters are those of `DeviceGemmMultiD_Xdl_CShuffle_V3`, and the sizes of the blocks of X and W that share a scale.
The pipelines v1, v2 and v3 are others, which multiply what the matrix instructions add up over a block by its scales.
CK's invoker never launches v2, and its kernel takes for granted where blocks begin and end: what it would compute
wrongly is a warning here, and an error where the template asserts it.
"""

from __future__ import annotations

from dataclasses import replace

from ckwatch.checks.rules.expression import Lookup, integers
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import gridwise_k_per_blk, single_rate
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import BLOCK
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import GRID as GEMM_GRID
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.rule import (
    Definition,
    ParameterKind,
    Rule,
    TemplateParameter,
    definitions,
    integer,
    rules,
)

GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d_ab_scale.hpp"
DEVICE = "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3_ab_scale.hpp"
_SELECTOR = BLOCK + "blockwise_gemm_pipeline_xdlops_ab_scale_selector.hpp"
_PIPELINES = BLOCK + "blockwise_gemm_pipeline_xdlops_{v1,v2,v3}_ab_scale.hpp"

_ADDED = {
    "ADataType": (TemplateParameter("AScaleDataType", ParameterKind.DTYPE),),
    "BDataType": (TemplateParameter("BScaleDataType", ParameterKind.DTYPE),),
    "BlockSize": tuple(integer(f"ScaleBlock{axis}") for axis in "MNK"),
}
"""By the parameter behind which they stand."""


def _is_single_rate(lookup: Lookup) -> bool:
    return single_rate(lookup, integers(lookup, "lcm_AK1_BK1")[0], eight_bits=False)


def _lds_elements(side: str, rows: str) -> Definition:
    """Elements in LDS, whose padding lies between rows and is not always there on gfx950."""
    usual = GEMM.definitions[f"{side}LdsElements"]
    without = usual.formula.partition(" else ")[2]
    padded = f"({side}K0 - 1) * {side}K1 + ({rows}PerBlock - 1) * (KPerBlock + 1) + {side}K1"
    return Definition(usual.name, f"{padded} if {side}LdsExtra else {without}", usual.meaning)


_DEFINITIONS = (
    *definitions(
        """
        ALdsExtra = ABlockLdsExtraM  # padding of A in LDS
        BLdsExtra = BBlockLdsExtraN  # padding of B in LDS
        """
    ),
    _lds_elements("A", "M"),
    _lds_elements("B", "N"),
    gridwise_k_per_blk(_is_single_rate, "lcm_AK1_BK1"),
    *definitions(
        """
        LdsBuffers = 1  # LDS buffers of the pipeline
        ScaleSliceSizeK = (KPerBlock + ScaleBlockK - 1) / ScaleBlockK  # scales along K that a tile is given
        ScaleSliceSizeN = (NPerBlock + ScaleBlockN - 1) / ScaleBlockN  # scales of B along N that a tile is given
        KStep = K0PerXdlops * KPack  # K values of a step of the matrix instructions (AMmaKStride)
        """
    ),
)


def _as_here(rule: Rule) -> Rule:
    """A rule of the universal GEMM, with its source in this gridwise GEMM; no pipeline has two buffers."""
    blame = tuple(name for name in rule.blame if rule.slug != "lds" or name != "BlkGemmPipelineVer")
    return replace(rule, blame=blame, source=rule.source.replace(GEMM_GRID, GRID))


def _buffer_loads(side: str, rows: str) -> tuple[Rule, ...]:
    load = f"{side}BlockTransferSrcScalarPerVector"
    return rules(
        f"""
        block-scales-{side.lower()}-loads: The hot loop's schedule divides by the global loads of {side} per thread, and
            a thread has none.
            :must: {rows}PerBlock * KPerBlock / (BlockSize * {load}) > 0  :blame: {load}, BlockSize, {rows}PerBlock
            :when: HasKernel and BlkGemmPipelineVer in ('v1', 'v3')  :after: block-scales-scheduler, k-per-block
            :source: {_PIPELINES}, HotLoopScheduler; ck/utility/blkgemmpipe_scheduler.hpp, {side}_Buffer_Load_Inst_Num
        """
    )


_RULES = (
    *rules(
        f"""
        block-scales-pipeline: For scales per block there are the pipelines v1, v2 and v3, and v2 is never launched.
            :must: BlkGemmPipelineVer in ('v1', 'v2', 'v3')  :blame: BlkGemmPipelineVer  :is: host
            :source: {_SELECTOR}: 'BlockGemmPipeline configuration is not available', no type
        block-scales-launch: CK compiles the pipeline v2 for scales per block, and never launches it: C is never
            written.
            :must: BlkGemmPipelineVer in ('v1', 'v3')  :blame: BlkGemmPipelineVer  :after: block-scales-pipeline
            :is: warning host  :asserted: CK launches the pipelines v1 and v3 alone
            :source: {DEVICE}, Invoker::RunImp: v1 and v3 alone
        block-scales-scheduler: The pipelines for scales per block have no Interwave form.
            :must: BlkGemmPipeSched == 'Intrawave'  :blame: BlkGemmPipeSched  :after: block-scales-pipeline  :is: host
            :source: {_PIPELINES}: no specialisation for Interwave, so no member PrefetchStages
        block-scales-type: CK reads scales per block as f32, whatever is said.
            :must: AScaleDataType == 'F32' and BScaleDataType == 'F32'  :blame: AScaleDataType, BScaleDataType
            :is: warning host  :asserted: CK reads scales per block as f32  :source: {GRID}, using AScaleType = float
        block-scales-rows: CK gives each row of a tile a scale of its own: rows cannot share one.
            :must: ScaleBlockM == 1  :blame: ScaleBlockM  :is: warning host
            :asserted: CK reads one scale for each row of X
            :source: {GRID}, Run: a_thread_offset counts rows, and is added to blocks of ScaleBlockM rows
        block-scales-depth: CK goes on to other scales with every tile along K, so whole blocks of scales must make up
            KPerBlock.
            :must: KPerBlock % ScaleBlockK == 0  :blame: KPerBlock, ScaleBlockK  :is: warning host
            :asserted: CK reads new scales for every tile
            :source: {_PIPELINES}, Run: 'assume kperblock = scaleblockk'; NumKBlockPerScale is never more than 1 in what
                it adds
        block-scales-vector: CK reads the scales of a tile as one vector along K. In scales of a col-major A or a
            row-major B, which lie like them, those are not neighbours.
            :must: KPerBlock == ScaleBlockK or ALayout == 'Row' and BLayout == 'Col'
            :blame: KPerBlock, ALayout, BLayout  :after: block-scales-depth  :is: warning host
            :asserted: CK reads the scales of a tile as one vector
            :source: {GRID}, MakeAScaleGridDesciptor_M_K and a_scale_thread_copy: SrcVectorDim 1, ScaleSliceSizeK at
                once
        block-scales-columns: The columns that share a scale of B must be whole tiles, or divide one evenly in whole
            rounds of the waves: CK takes one scale for all that the waves compute side by side.
            :must: ScaleBlockN % NPerBlock == 0 if NPerBlock <= ScaleBlockN else NPerBlock % ScaleBlockN == 0 and
                ScaleBlockN % (NWaves * NPerXDL) == 0
            :blame: NPerBlock, NPerXDL, ScaleBlockN  :when: NXdlPerWave64 > 0  :after: waves, n-per-block
            :is: warning host  :asserted: the columns that share a scale of W
            :source: {_PIPELINES}, cscale_offset: n0 * num_scale_n_block / NRepeat
        block-scales-v3-k: The pipeline v3 takes one scale along K for a tile; v1 takes several.
            :must: ScaleSliceSizeK == 1  :blame: KPerBlock, BlkGemmPipelineVer
            :when: HasKernel and BlkGemmPipelineVer == 'v3'  :after: block-scales-depth
            :source: {_PIPELINES}, static_assert 'Pipeline v3 only support scaleblocksliceK=1'
        block-scales-v3-n: The pipeline v3 takes one scale of B along N for a tile; v1 takes several.
            :must: ScaleSliceSizeN == 1  :blame: NPerBlock, BlkGemmPipelineVer
            :when: HasKernel and BlkGemmPipelineVer == 'v3'  :after: block-scales-columns
            :source: {_PIPELINES}, static_assert 'Pipeline v3 only support scaleblocksliceN=1'
        block-scales-step: The matrix instructions go through K in steps of {{KStep}}, which must not reach beyond a
            block of scales.
            :must: ScaleBlockK % KStep == 0  :blame: AK1, BK1  :when: HasKernel
            :after: xdl-tile, compute-types, k-per-block, k-pack, block-scales-depth  :is: warning
            :asserted: a step of the matrix instructions would reach beyond
            :source: {_PIPELINES}, KRepeat / num_scale_k_block
        block-scales-cycles: The hot loop's schedule knows the cycles of 16 and 32 columns only.
            :must: NPerXDL in (16, 32)  :blame: NPerXDL  :when: HasKernel and BlkGemmPipelineVer in ('v1', 'v3')
            :after: xdl-tile, block-scales-scheduler
            :source: ck/utility/blkgemmpipe_scheduler.hpp, C_MFMA_Inst_Cycle has no value
        """
    ),
    *_buffer_loads("A", "M"),
    *_buffer_loads("B", "N"),
)

_DERIVED = GEMM.derived(
    "DeviceGemmMultiD_ABScale_Xdl_CShuffle_V3",
    DEVICE,
    behind=_ADDED,
    definitions=_DEFINITIONS,
    without={"scheduler", "c-vector-atomic", "xdl-cycles", "a-buffer-loads", "b-buffer-loads"},
    rules=_RULES,
)
OPERATION = replace(_DERIVED, rules=tuple(map(_as_here, _DERIVED.rules)))
