"""Rules of `DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle`, for Composable Kernel 7.2.

Parameters are those of `DeviceGemmMultiD_Xdl_CShuffle_V3`. W lies in the order in which lanes read it, and goes from
global memory straight into registers: what says how a block copies it to LDS is ignored, and its rules do not hold.
Each lane reads `KPackPerGroup` elements along K at once, for which CK takes BK1 without asking whether it is that.
The pipelines are others: v1, v2 and v3, with one or two buffers in LDS for A alone.
"""

from __future__ import annotations

from dataclasses import replace

from ckwatch.checks.rules.expression import Lookup, UnknownValueError
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import BLOCK, THREAD, VECTORS, operand_rules
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.matrix_instructions import instruction
from ckwatch.checks.rules.rule import Definition, DeviceOperation, Rule
from ckwatch.model.diagnostics import Severity

_GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d_b_preshuffle.hpp"
_SELECTOR = BLOCK + "blockwise_gemm_pipeline_xdlops_b_preshuffle_selector.hpp"
_V3 = BLOCK + "blockwise_gemm_pipeline_xdlops_b_preshuffle_v3.hpp"


def _numbers(lookup: Lookup, *names: str) -> tuple[int, ...]:
    values = tuple(lookup(name) for name in names)
    if not all(isinstance(value, int) for value in values):
        raise UnknownValueError(names[0])
    return tuple(int(value) for value in values)  # type: ignore[arg-type]


def _k_per_blk(lookup: Lookup, *, single_rate: bool) -> int:
    compute, tile, target = (str(lookup(name)) for name in ("ComputeTypeA", "XdlShape", "target"))
    found = instruction(compute, compute, tile, target, single_rate=single_rate)
    if found is None:
        raise UnknownValueError("MatrixInstruction")
    return found.k_per_blk


def _gridwise_k_per_blk(lookup: Lookup) -> int:
    compute = lookup("ComputeTypeA")
    k_per_block, vector = _numbers(lookup, "KPerBlock", "lcm_AK1_BK1")
    single = compute in {"I8", "F8"} and k_per_block < 128
    return _k_per_blk(lookup, single_rate=single or (compute in {"F16", "BF16"} and vector <= 4))


def _k_group(lookup: Lookup) -> int:
    return 2 if lookup("BDataType") == "F8" and lookup("GridwiseKPerBlk") == 32 else 1


def _pipeline_k_group(lookup: Lookup) -> int:
    return 2 if lookup("ComputeTypeA") == "F8" and lookup("KPerBlk") == 32 else 1


_CHANGED = (
    Definition("ALdsExtra", "ABlockLdsExtraM", "padding of A in LDS"),
    Definition(
        "ALdsElements",
        "(AK0 - 1) * AK1 + (MPerBlock - 1) * (KPerBlock + 1) + AK1 if ALdsExtra else MPerBlock * KPerBlock",
        "elements of A in LDS",
    ),
    Definition("CShuffleNXdl", "CShuffleNXdlPerWavePerShuffle", "XDL tiles of C along N in one shuffle"),
    Definition(
        "GridwiseKPerBlk",
        "k_per_blk of the matrix instruction",
        "consecutive K values of one lane in one instruction",
        _gridwise_k_per_blk,
        ("ComputeTypeA", "MPerXDL", "NPerXDL", "lcm_AK1_BK1", "KPerBlock"),
    ),
    Definition(
        "ABBytes",
        "(ALdsElements + lcm_AK1_BK1 - 1) / lcm_AK1_BK1 * lcm_AK1_BK1 * sizeof_LDSTypeA",
        "LDS for a tile of A",
    ),
    Definition("LdsBuffers", "1 if BlkGemmPipelineVer == 'v1' else 2", "LDS buffers of the pipeline"),
)
_NEW = (
    Definition(
        "KGroup",
        "2 if a lane feeds 32 values of f8 to one instruction, else 1",
        "parts in which a lane reads KPack elements of W",
        _k_group,
        ("BDataType", "GridwiseKPerBlk"),
    ),
    Definition(
        "PipelineKGroup",
        "KGroup, by the instruction that is issued",
        "as KGroup, for the pipeline",
        _pipeline_k_group,
        ("ComputeTypeA", "KPerBlk"),
    ),
    Definition("KPackPerGroup", "KPack / KGroup", "elements of W along K that a lane reads at once"),
    Definition("ALoads", "MPerBlock * KPerBlock / (BlockSize * ABlockTransferSrcScalarPerVector)", "loads of A"),
    Definition("AStores", "MPerBlock * KPerBlock / (BlockSize * AK1)", "stores of A to LDS"),
)

_OF_B_IN_LDS = {rule.slug for rule in operand_rules("B", "N", "BBlockTransferThreadClusterLengths_BK0_N_BK1")}
_OTHERS = {"scheduler", "xdl-cycles", "a-buffer-loads"}
_INHERITED = tuple(rule for rule in GEMM.rules if rule.slug not in _OF_B_IN_LDS | _OTHERS)
_SLUGS = frozenset(rule.slug for rule in _INHERITED)
_KEPT = tuple(replace(rule, after=tuple(slug for slug in rule.after if slug in _SLUGS)) for rule in _INHERITED)

_V3_LOOP = "HasKernel and BlkGemmPipelineVer == 'v3'"
_RULES = (
    Rule(
        "preshuffled-pipeline",
        "BlkGemmPipelineVer in ('v1', 'v2', 'v3')",
        ("BlkGemmPipelineVer",),
        "For a preshuffled W there are the pipelines v1, v2 and v3.",
        f"{_SELECTOR}: 'BlockGemmPipeline configuration is not available', no type",
        host=True,
    ),
    Rule(
        "preshuffled-scheduler",
        "BlkGemmPipeSched == 'Intrawave'",
        ("BlkGemmPipeSched",),
        "The pipelines for a preshuffled W have no Interwave form.",
        f"{BLOCK}blockwise_gemm_pipeline_xdlops_b_preshuffle_{{v1,v2,v3}}.hpp: no specialisation for Interwave",
        after=("preshuffled-pipeline",),
        host=True,
    ),
    Rule(
        "preshuffled-v3-rows",
        "MXdlPerWave >= 4",
        ("MXdlPerWave", "BlkGemmPipelineVer"),
        "The pipeline v3 for a preshuffled W goes through at least four XDL tiles along M.",
        f"{_SELECTOR}, static_assert 'MRepeat should at least be 4 in BlockGemmPipelineVersion::v3'",
        when="BlkGemmPipelineVer == 'v3'",
        host=True,
    ),
    Rule(
        "preshuffled-b-k1",
        "BK1 == KPackPerGroup",
        ("BK1", "AK1"),
        "CK reads BK1 elements of W along K for each lane, and multiplies what a lane reads at once: KPackPerGroup.",
        f"{_GRID}, GetBBlockDescriptor_BK0PerBlock_NPerBlock_BK1 and KPackPerGroup",
        when="HasKernel",
        after=("xdl-tile", "compute-types", "k-per-block", "k-pack"),
        severity=Severity.WARNING,
        asserted_by="BK1 must be what a lane reads",
    ),
    Rule(
        "preshuffled-a-k1",
        "KPackPerGroup % AK1 == 0",
        ("AK1", "BK1"),
        "A lane reads its KPackPerGroup elements of A from LDS in vectors of AK1.",
        f"{THREAD}threadwise_tensor_slice_transfer.hpp, vectors of ThreadwiseTensorSliceTransfer_v4",
        when="HasKernel",
        after=("xdl-tile", "compute-types", "k-per-block", "k-pack", "preshuffled-b-k1"),
    ),
    Rule(
        "preshuffled-a-groups",
        "KGroup == 1 or AK1 == KPackPerGroup",
        ("AK1", "BK1"),
        "Where a lane's elements come in two groups, CK takes the second one to be AK1 behind the first.",
        f"{BLOCK}blockwise_gemm_pipeline_xdlops_b_preshuffle_v1.hpp, Number<kg0 * A_K1>",
        when="HasKernel",
        after=("xdl-tile", "compute-types", "k-per-block", "k-pack", "preshuffled-b-k1", "preshuffled-a-k1"),
        severity=Severity.WARNING,
        asserted_by="AK1 must be what a lane reads",
    ),
    Rule(
        "preshuffled-k-group",
        "KGroup == PipelineKGroup",
        ("KPerBlock", "AK1", "BK1"),
        "CK chooses the matrix instruction twice, by KPerBlock and by KPack, and must come to the same one.",
        f"{_GRID}, KGroup; {BLOCK}blockwise_gemm_pipeline_xdlops_base.hpp, KGroup",
        when="HasKernel",
        after=("xdl-tile", "compute-types", "k-per-block", "k-pack"),
        severity=Severity.WARNING,
        asserted_by="CK's pipeline takes another matrix instruction",
    ),
    Rule(
        "preshuffled-b-vector",
        "BK1 % BBlockTransferSrcScalarPerVector == 0",
        ("BBlockTransferSrcScalarPerVector", "BK1"),
        "The elements of W that a lane reads must be a whole number of load vectors.",
        f"{THREAD}threadwise_tensor_slice_transfer.hpp, static_assert in ThreadwiseTensorSliceTransfer_v2",
        when="HasKernel",
    ),
    Rule(
        "preshuffled-b-vector-size",
        "BBlockTransferSrcScalarPerVector in (1, 2, 3, 4, 5, 6, 7, 8, 13, 16)",
        ("BBlockTransferSrcScalarPerVector",),
        "There is no vector load of this many elements.",
        VECTORS,
        when="HasKernel",
    ),
    Rule(
        "preshuffled-v3-stores",
        "ALoads == AStores",
        ("ABlockTransferSrcScalarPerVector", "AK1"),
        "The hot loop of v3 stores to LDS as often as it loads A: a thread loads AK1 elements at once.",
        f"{_V3}, static_assert num_buffer_load_inst_a == num_ds_write_inst_a",
        when=_V3_LOOP,
        after=("preshuffled-v3-rows", "k-per-block"),
    ),
    Rule(
        "preshuffled-v3-loads",
        "ALoads > 0",
        ("ABlockTransferSrcScalarPerVector", "BlockSize", "MPerBlock", "KPerBlock"),
        "The hot loop of v3 spreads its loads of A over stages, and a thread has none.",
        f"{_V3}, static_assert 'The buffer load a stages should always have a value over 0.'",
        when=_V3_LOOP,
        after=("preshuffled-v3-rows", "preshuffled-v3-stores", "k-per-block"),
    ),
    Rule(
        "preshuffled-v3-cycles",
        "NPerXDL in (16, 32)",
        ("NPerXDL",),
        "The hot loop's schedule knows the cycles of 16 and 32 columns only.",
        "ck/utility/blkgemmpipe_scheduler.hpp, C_MFMA_Inst_Cycle has no value",
        when=_V3_LOOP,
        after=("xdl-tile", "preshuffled-v3-rows"),
    ),
)

OPERATION = DeviceOperation(
    "DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle",
    "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3_b_preshuffle.hpp",
    GEMM.parameters,
    {**GEMM.definitions, **{definition.name: definition for definition in (*_CHANGED, *_NEW)}},
    (*_KEPT, *_RULES),
    GEMM.spelling,
)
