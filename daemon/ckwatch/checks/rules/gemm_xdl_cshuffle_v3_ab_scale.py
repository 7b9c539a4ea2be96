"""Rules of `DeviceGemmMultiD_ABScale_Xdl_CShuffle_V3`, for Composable Kernel 7.2.

Parameters are those of `DeviceGemmMultiD_Xdl_CShuffle_V3`, and the sizes of the blocks of X and W that share a scale.
The pipelines v1, v2 and v3 are others, which multiply what the matrix instructions add up over a block by its scales.
CK's invoker never launches v2, and its kernel takes for granted where blocks begin and end: what it would compute
wrongly is a warning here, and an error where the template asserts it.
"""

from __future__ import annotations

from dataclasses import replace

from ckwatch.checks.rules.expression import Lookup, UnknownValueError
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import BLOCK
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import GRID as GEMM_GRID
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.matrix_instructions import instruction
from ckwatch.checks.rules.rule import Definition, DeviceOperation, ParameterKind, Rule, TemplateParameter
from ckwatch.model.diagnostics import Severity
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d_ab_scale.hpp"
DEVICE = "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3_ab_scale.hpp"
_SELECTOR = BLOCK + "blockwise_gemm_pipeline_xdlops_ab_scale_selector.hpp"
_PIPELINES = BLOCK + "blockwise_gemm_pipeline_xdlops_{v1,v2,v3}_ab_scale.hpp"

_POSITIVE = ParameterType(ValueKind.INTEGER, lowest=1, highest=INT32_MAX)
_ADDED = {
    "ADataType": (TemplateParameter("AScaleDataType", ParameterKind.DTYPE),),
    "BDataType": (TemplateParameter("BScaleDataType", ParameterKind.DTYPE),),
    "BlockSize": tuple(TemplateParameter(f"ScaleBlock{axis}", ParameterKind.INTEGER, type=_POSITIVE) for axis in "MNK"),
}
"""By the parameter behind which they stand."""

PARAMETERS = tuple(parameter for one in GEMM.parameters.values() for parameter in (one, *_ADDED.get(one.name, ())))


def _gridwise_k_per_blk(lookup: Lookup) -> int:
    compute, other, tile, target = (
        str(lookup(name)) for name in ("ComputeTypeA", "ComputeTypeB", "XdlShape", "target")
    )
    vector = lookup("lcm_AK1_BK1")
    if not isinstance(vector, int):
        raise UnknownValueError("lcm_AK1_BK1")
    single = (compute in {"F16", "BF16"} and vector <= 4) or (compute == "I8" and vector <= 8)
    found = instruction(compute, other, tile, target, single_rate=single)
    if found is None:
        raise UnknownValueError("MatrixInstruction")
    return found.k_per_blk


def _lds_elements(side: str, rows: str) -> Definition:
    """Elements in LDS, whose padding lies between rows and is not always there on gfx950."""
    usual = GEMM.definitions[f"{side}LdsElements"]
    without = usual.formula.partition(" else ")[2]
    padded = f"({side}K0 - 1) * {side}K1 + ({rows}PerBlock - 1) * (KPerBlock + 1) + {side}K1"
    return Definition(usual.name, f"{padded} if {side}LdsExtra else {without}", usual.meaning)


_DEFINITIONS = (
    Definition("ALdsExtra", "ABlockLdsExtraM", "padding of A in LDS"),
    Definition("BLdsExtra", "BBlockLdsExtraN", "padding of B in LDS"),
    _lds_elements("A", "M"),
    _lds_elements("B", "N"),
    Definition(
        "GridwiseKPerBlk",
        "k_per_blk of the matrix instruction",
        "consecutive K values of one lane in one instruction",
        _gridwise_k_per_blk,
        ("ComputeTypeA", "ComputeTypeB", "MPerXDL", "NPerXDL", "lcm_AK1_BK1"),
    ),
    Definition("LdsBuffers", "1", "LDS buffers of the pipeline"),
    Definition("ScaleSliceSizeK", "(KPerBlock + ScaleBlockK - 1) / ScaleBlockK", "scales along K that a tile is given"),
    Definition(
        "ScaleSliceSizeN", "(NPerBlock + ScaleBlockN - 1) / ScaleBlockN", "scales of B along N that a tile is given"
    ),
    Definition("KStep", "K0PerXdlops * KPack", "K values of a step of the matrix instructions (AMmaKStride)"),
)

_OTHERS = {"scheduler", "c-vector-atomic", "xdl-cycles", "a-buffer-loads", "b-buffer-loads"}


def _as_here(rule: Rule) -> Rule:
    """A rule of the universal GEMM, with its source in this gridwise GEMM; no pipeline has two buffers."""
    blame = tuple(name for name in rule.blame if rule.slug != "lds" or name != "BlkGemmPipelineVer")
    return replace(rule, blame=blame, source=rule.source.replace(GEMM_GRID, GRID))


def _buffer_loads(side: str, rows: str) -> Rule:
    load = f"{side}BlockTransferSrcScalarPerVector"
    return Rule(
        f"block-scales-{side.lower()}-loads",
        f"{rows}PerBlock * KPerBlock / (BlockSize * {load}) > 0",
        (load, "BlockSize", f"{rows}PerBlock"),
        f"The hot loop's schedule divides by the global loads of {side} per thread, and a thread has none.",
        f"{_PIPELINES}, HotLoopScheduler; ck/utility/blkgemmpipe_scheduler.hpp, {side}_Buffer_Load_Inst_Num",
        when="HasKernel and BlkGemmPipelineVer in ('v1', 'v3')",
        after=("block-scales-scheduler", "k-per-block"),
    )


_RULES = (
    Rule(
        "block-scales-pipeline",
        "BlkGemmPipelineVer in ('v1', 'v2', 'v3')",
        ("BlkGemmPipelineVer",),
        "For scales per block there are the pipelines v1, v2 and v3, and v2 is never launched.",
        f"{_SELECTOR}: 'BlockGemmPipeline configuration is not available', no type",
        host=True,
    ),
    Rule(
        "block-scales-launch",
        "BlkGemmPipelineVer in ('v1', 'v3')",
        ("BlkGemmPipelineVer",),
        "CK compiles the pipeline v2 for scales per block, and never launches it: C is never written.",
        f"{DEVICE}, Invoker::RunImp: v1 and v3 alone",
        after=("block-scales-pipeline",),
        severity=Severity.WARNING,
        asserted_by="CK launches the pipelines v1 and v3 alone",
        host=True,
    ),
    Rule(
        "block-scales-scheduler",
        "BlkGemmPipeSched == 'Intrawave'",
        ("BlkGemmPipeSched",),
        "The pipelines for scales per block have no Interwave form.",
        f"{_PIPELINES}: no specialisation for Interwave, so no member PrefetchStages",
        after=("block-scales-pipeline",),
        host=True,
    ),
    Rule(
        "block-scales-type",
        "AScaleDataType == 'F32' and BScaleDataType == 'F32'",
        ("AScaleDataType", "BScaleDataType"),
        "CK reads scales per block as f32, whatever is said.",
        f"{GRID}, using AScaleType = float",
        severity=Severity.WARNING,
        asserted_by="CK reads scales per block as f32",
        host=True,
    ),
    Rule(
        "block-scales-rows",
        "ScaleBlockM == 1",
        ("ScaleBlockM",),
        "CK gives each row of a tile a scale of its own: rows cannot share one.",
        f"{GRID}, Run: a_thread_offset counts rows, and is added to blocks of ScaleBlockM rows",
        severity=Severity.WARNING,
        asserted_by="CK reads one scale for each row of X",
        host=True,
    ),
    Rule(
        "block-scales-depth",
        "KPerBlock % ScaleBlockK == 0",
        ("KPerBlock", "ScaleBlockK"),
        "CK goes on to other scales with every tile along K, so whole blocks of scales must make up KPerBlock.",
        f"{_PIPELINES}, Run: 'assume kperblock = scaleblockk'; NumKBlockPerScale is never more than 1 in what it adds",
        severity=Severity.WARNING,
        asserted_by="CK reads new scales for every tile",
        host=True,
    ),
    Rule(
        "block-scales-vector",
        "KPerBlock == ScaleBlockK or ALayout == 'Row' and BLayout == 'Col'",
        ("KPerBlock", "ALayout", "BLayout"),
        "CK reads the scales of a tile as one vector along K. In scales of a col-major A or a row-major B, which lie "
        "like them, those are not neighbours.",
        f"{GRID}, MakeAScaleGridDesciptor_M_K and a_scale_thread_copy: SrcVectorDim 1, ScaleSliceSizeK at once",
        after=("block-scales-depth",),
        severity=Severity.WARNING,
        asserted_by="CK reads the scales of a tile as one vector",
        host=True,
    ),
    Rule(
        "block-scales-columns",
        "ScaleBlockN % NPerBlock == 0 if NPerBlock <= ScaleBlockN "
        "else NPerBlock % ScaleBlockN == 0 and ScaleBlockN % (NWaves * NPerXDL) == 0",
        ("NPerBlock", "NPerXDL", "ScaleBlockN"),
        "The columns that share a scale of B must be whole tiles, or divide one evenly in whole rounds of the waves: "
        "CK takes one scale for all that the waves compute side by side.",
        f"{_PIPELINES}, cscale_offset: n0 * num_scale_n_block / NRepeat",
        when="NXdlPerWave64 > 0",
        after=("waves", "n-per-block"),
        severity=Severity.WARNING,
        asserted_by="the columns that share a scale of W",
        host=True,
    ),
    Rule(
        "block-scales-v3-k",
        "ScaleSliceSizeK == 1",
        ("KPerBlock", "BlkGemmPipelineVer"),
        "The pipeline v3 takes one scale along K for a tile; v1 takes several.",
        f"{_PIPELINES}, static_assert 'Pipeline v3 only support scaleblocksliceK=1'",
        when="HasKernel and BlkGemmPipelineVer == 'v3'",
        after=("block-scales-depth",),
    ),
    Rule(
        "block-scales-v3-n",
        "ScaleSliceSizeN == 1",
        ("NPerBlock", "BlkGemmPipelineVer"),
        "The pipeline v3 takes one scale of B along N for a tile; v1 takes several.",
        f"{_PIPELINES}, static_assert 'Pipeline v3 only support scaleblocksliceN=1'",
        when="HasKernel and BlkGemmPipelineVer == 'v3'",
        after=("block-scales-columns",),
    ),
    Rule(
        "block-scales-step",
        "ScaleBlockK % KStep == 0",
        ("AK1", "BK1"),
        "The matrix instructions go through K in steps of {KStep}, which must not reach beyond a block of scales.",
        f"{_PIPELINES}, KRepeat / num_scale_k_block",
        when="HasKernel",
        after=("xdl-tile", "compute-types", "k-per-block", "k-pack", "block-scales-depth"),
        severity=Severity.WARNING,
        asserted_by="a step of the matrix instructions would reach beyond",
    ),
    Rule(
        "block-scales-cycles",
        "NPerXDL in (16, 32)",
        ("NPerXDL",),
        "The hot loop's schedule knows the cycles of 16 and 32 columns only.",
        "ck/utility/blkgemmpipe_scheduler.hpp, C_MFMA_Inst_Cycle has no value",
        when="HasKernel and BlkGemmPipelineVer in ('v1', 'v3')",
        after=("xdl-tile", "block-scales-scheduler"),
    ),
    _buffer_loads("A", "M"),
    _buffer_loads("B", "N"),
)

OPERATION = DeviceOperation(
    "DeviceGemmMultiD_ABScale_Xdl_CShuffle_V3",
    DEVICE,
    {parameter.name: parameter for parameter in PARAMETERS},
    {**GEMM.definitions, **{definition.name: definition for definition in _DEFINITIONS}},
    (*(_as_here(rule) for rule in GEMM.rules if rule.slug not in _OTHERS), *_RULES),
    GEMM.spelling,
)
