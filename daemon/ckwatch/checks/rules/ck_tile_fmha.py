"""Rules of `CkTileFmhaForward`: CK Tile 1.2.0's attention as `ck_tile/fmha_forward.hip.j2` puts it together.

A shape of tiles, a pipeline and a mask become a kernel. Probabilities stay in registers between the two products: CK
Tile takes the registers of the first one's result for those of the second one's operand, and does not check that they
are laid out alike. What its own instances have in common, the template therefore asserts; in a source that does not,
those rules are warnings.
"""

from __future__ import annotations

from ckwatch.checks.rules.expression import Lookup, UnknownValueError, Value
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import ELEMENT_BYTES, MATRIX_ARCHS
from ckwatch.checks.rules.rule import (
    ParameterKind,
    Rule,
    TemplateParameter,
    computed,
    definitions,
    flag,
    integer,
    operation,
    rules,
    word,
)
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

NAME = "CkTileFmhaForward"

PIPELINES = ("qr", "qr_async", "qr_async_trload")
"""`name` of `ck_tile/ops/fmha/pipeline/block_fmha_pipeline_qr_ks_vs*.hpp`."""

TILES = ("kM0", "kN0", "kK0", "kN1", "kK1", "kQKHeaddim")
SEQUENCES = ("Gemm0BlockWarps", "Gemm0WarpTile", "Gemm1BlockWarps", "Gemm1WarpTile")
PADS = ("kPadSeqLenQ", "kPadSeqLenK", "kPadHeadDimQ", "kPadHeadDimV")

_THREE = ParameterType(ValueKind.ARRAY, length=3, lowest=1, highest=INT32_MAX)
_BLOCKS = ParameterType(ValueKind.INTEGER, lowest=-1, highest=INT32_MAX)

PARAMETERS = (
    TemplateParameter("QKVDataType", ParameterKind.DTYPE),
    TemplateParameter("ODataType", ParameterKind.DTYPE),
    TemplateParameter("Head", ParameterKind.INTEGER),
    TemplateParameter("HeadV", ParameterKind.INTEGER),
    TemplateParameter("BlockMask", ParameterKind.OTHER),
    TemplateParameter("BiasEnum", ParameterKind.ENUMERATOR, enumeration="BlockAttentionBiasEnum"),
    TemplateParameter("kIsGroupMode", ParameterKind.FLAG),
    TemplateParameter("kHasLogitsSoftCap", ParameterKind.FLAG),
    TemplateParameter("kStoreLSE", ParameterKind.FLAG),
    *map(integer, TILES),
    *(TemplateParameter(name, ParameterKind.SEQUENCE, "", _THREE) for name in SEQUENCES),
    *map(flag, PADS),
    word("Pipeline", "Pipeline", PIPELINES),
    integer("kBlockPerCu", "-1", declared=_BLOCKS),
)
"""In the order of the template parameters."""

FMHA = "ck_tile/ops/fmha/"
SHAPE = FMHA + "pipeline/tile_fmha_shape.hpp"
PIPELINE = FMHA + "pipeline/block_fmha_pipeline_"
POLICY = PIPELINE + "qx_ks_vs_custom_policy.hpp"
KERNEL = FMHA + "kernel/fmha_fwd_kernel.hpp"
BLOCK = "ck_tile/ops/gemm/block/block_gemm_areg_bsmem_creg_v2.hpp"
EXAMPLE = "example/ck_tile/01_fmha/codegen/ops/fmha_fwd.py"

WARP_TILES = {
    "F16": ("32x32x8", "32x32x16", "16x16x16", "16x16x32"),
    "BF16": ("32x32x8", "32x32x16", "16x16x16", "16x16x32"),
    "F8": ("32x32x32",),
}
"""By the type of Q, K and V: the warp tiles that WarpGemmDispatcher has with TransposeC, and for f8 the policy's."""


@computed("sizeof_QKV = sizeof(QKVDataType)  # bytes of one element", "QKVDataType")
def _bytes_of_element(lookup: Lookup) -> Value:
    return ELEMENT_BYTES[str(lookup("QKVDataType"))]


@computed("WarpTile = Gemm0WarpTile as MxNxK  # the tile of one matrix product", "Gemm0WarpTile")
def _warp_tile(lookup: Lookup) -> Value:
    tile = lookup("Gemm0WarpTile")
    if not isinstance(tile, tuple):
        raise UnknownValueError("Gemm0WarpTile")
    return "x".join(map(str, tile))


@computed("WarpTiles = those of QKVDataType  # warp tiles that CK Tile has", "QKVDataType")
def _warp_tiles(lookup: Lookup) -> Value:
    return WARP_TILES.get(str(lookup("QKVDataType")), ("none",))


DEFINITIONS = (
    *definitions(
        """
        NumGemm0Warps = Gemm0BlockWarps[0] * Gemm0BlockWarps[1] * Gemm0BlockWarps[2]  # warps that multiply Q and K
        NumGemm1Warps = Gemm1BlockWarps[0] * Gemm1BlockWarps[1] * Gemm1BlockWarps[2]  # warps that multiply
            probabilities and V
        """
    ),
    _bytes_of_element,
    *definitions(
        """
        VElements = kN1 * kK1 / (max(NumGemm0Warps, NumGemm1Warps) * 64)  # elements of V that a thread loads
        VWidest = min(VElements, 16 / sizeof_QKV)  # the widest load of V
        VVector = VWidest if VElements / VWidest >= 4 / sizeof_QKV else VElements / (4 / sizeof_QKV)  # elements of V
            that a thread loads at once
        Async = Pipeline != 'qr'  # 1 where K reaches LDS without registers
        """
    ),
    _warp_tile,
    _warp_tiles,
)


def _covered(slug: str, tile: str, per: str, blame: tuple[str, ...], words: str) -> tuple[Rule, ...]:
    return rules(
        f"""
        {slug}: Whole warp tiles must cover {tile}.
            :must: {tile} % {per} == 0  :blame: {", ".join(blame)}  :is: warning host  :asserted: {words}
            :source: {BLOCK}, the number of iterations is rounded down
        """
    )


RULES = (
    *rules(
        f"""
        fmha-arch: {{target}} has no MFMA: this kernel needs matrix instructions of waves of 64 lanes.
            :must: target in {MATRIX_ARCHS}  :when: kBlockPerCu >= -1  :is: every-arch
            :source: ck_tile/core/arch/arch.hpp, get_warp_size
        fmha-warps: The {{NumGemm1Warps}} warps of the second product must be a multiple of the {{NumGemm0Warps}} of the
            first.
            :must: NumGemm1Warps % NumGemm0Warps == 0  :blame: Gemm1BlockWarps, Gemm0BlockWarps  :is: host
            :source: {SHAPE}, static_assert(NumGemm1Warps % NumGemm0Warps == 0)
        fmha-head-steps: A head of Q and K is multiplied in steps of kK0, which must divide kQKHeaddim.
            :must: kQKHeaddim % kK0 == 0  :blame: kK0, kQKHeaddim  :is: host
            :source: {SHAPE}, static_assert 'kQKHeaddim should be divisible by kK0'
        fmha-head-sizes: kQKHeaddim is a power of two, or 48, 96, 160 or 192.
            :must: kQKHeaddim in (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 512, 1024)  :blame: kQKHeaddim
            :is: host  :source: {SHAPE}, static_assert 'only Headdim of 48, 96, 160, 192 and power-of-two is supported'
        fmha-head-limit: A head of Q stays in registers: it has at most 256 elements.
            :must: kQKHeaddim <= 256  :blame: kQKHeaddim  :after: fmha-head-sizes  :is: host
            :source: {PIPELINE}qr_ks_vs*.hpp, static_assert 'hdim bigger than 256 is not suitable for this pipeline!'
        fmha-async-pads: qr_async always pads the lengths of Q and the heads: kPadSeqLenQ, kPadHeadDimQ and kPadHeadDimV
            are true.
            :must: kPadSeqLenQ and kPadHeadDimQ and kPadHeadDimV  :blame: kPadHeadDimQ, kPadHeadDimV, kPadSeqLenQ
            :when: Pipeline == 'qr_async'  :is: host
            :source: {PIPELINE}qr_ks_vs_async.hpp, static_assert(Problem::kPadSeqLenQ == true && …)
        fmha-warp-tile: CK Tile has no warp tile {{WarpTile}} for attention in {{QKVDataType}}.
            :must: WarpTile in WarpTiles  :blame: Gemm0WarpTile
            :source: {POLICY}, GetQKBlockGemm: no specialisation of WarpGemmDispatcher, or its static_assert for f8
        fmha-v-vector: CK Tile loads V in vectors of {{VVector}} elements here, and has none of that width.
            :must: VVector in (1, 2, 4, 8, 16)  :blame: kN1, kK1
            :when: VElements > 0 and (Pipeline == 'qr_async' or Pipeline == 'qr' and not kPadHeadDimV)
            :source: {POLICY}, GetAlignmentV; ck_tile/core/arch/amd_buffer_addressing_builtins.hpp, static_assert
                'wrong! not implemented'
        fmha-trload-arch: qr_async_trload reads V transposed from LDS, which gfx950 alone can do; elsewhere its kernel
            is empty.
            :must: target == 'gfx950'  :blame: Pipeline  :when: Pipeline == 'qr_async_trload' and target != 'host'
            :is: warning host  :asserted: qr_async_trload is for gfx950  :source: {KERNEL}, kIsAvailable
        fmha-trload-bias: qr_async_trload leaves out a bias and a bound of the scores.
            :must: BiasEnum == 'NO_BIAS' and not kHasLogitsSoftCap  :blame: Pipeline
            :when: Pipeline == 'qr_async_trload'  :is: warning host
            :asserted: qr_async_trload has no bias and no soft cap
            :source: {PIPELINE}qr_ks_vs_async_trload.hpp, ignore = bias_dram_block_window_tmp
        fmha-async-f8: The asynchronous pipelines have no f8.
            :must: QKVDataType != 'F8'  :blame: Pipeline  :when: Async  :is: warning host
            :asserted: asynchronous pipelines have no f8  :source: {EXAMPLE}, get_pipelines
        fmha-async-head: Asynchronous pipelines read heads in pieces of 16 bytes, which pad no head of another size.
            :must: Head * sizeof_QKV % 16 == 0 and HeadV * sizeof_QKV % 16 == 0  :blame: Pipeline  :when: Async
            :is: warning host  :asserted: asynchronous pipelines need heads of whole 16 bytes
            :source: {EXAMPLE}, dcheck and dvcheck
        fmha-head: A head of Q and K, {{Head}} elements, must fit into kQKHeaddim.
            :must: Head <= kQKHeaddim  :blame: kQKHeaddim  :is: warning host
            :asserted: a head of Q and K must fit into kQKHeaddim
            :source: {KERNEL}, q_dram_window is one tile of kSubQKHeaddim
        fmha-head-v: A head of V, {{HeadV}} elements, must fit into kN1.
            :must: HeadV <= kN1  :blame: kN1  :is: warning host  :asserted: a head of V must fit into kN1
            :source: {KERNEL}, 'assume that num_tile_n1 is always 1'
        fmha-head-unpadded: Without kPadHeadDimQ the elements of Q and K behind a head are read too.
            :must: kPadHeadDimQ or Head == kQKHeaddim  :blame: kPadHeadDimQ, kQKHeaddim  :after: fmha-head
            :is: warning host  :asserted: without kPadHeadDimQ a head of Q and K must fill kQKHeaddim
            :source: {EXAMPLE}, dcheck
        fmha-head-v-unpadded: Without kPadHeadDimV the elements of V and O behind a head are read and written too.
            :must: kPadHeadDimV or HeadV == kN1  :blame: kPadHeadDimV, kN1  :after: fmha-head-v  :is: warning host
            :asserted: without kPadHeadDimV a head of V must fill kN1  :source: {EXAMPLE}, dvcheck
        fmha-variable: Sequences of variable lengths end within tiles: kPadSeqLenQ and kPadSeqLenK are true.
            :must: kPadSeqLenQ and kPadSeqLenK  :blame: kPadSeqLenK, kPadSeqLenQ  :when: kIsGroupMode  :is: warning host
            :asserted: variable lengths need kPadSeqLenQ and kPadSeqLenK
            :source: {EXAMPLE}, 'in group mode, spad/skpad must be true'
        fmha-one-warp: A warp has whole rows of scores: the softmax adds within a warp. Warps divide the queries alone.
            :must: Gemm0BlockWarps[1] == 1 and Gemm0BlockWarps[2] == 1  :blame: Gemm0BlockWarps  :is: warning host
            :asserted: warps divide the queries alone  :source: {PIPELINE}qr_ks_vs.hpp, block_tile_reduce_sync
        fmha-same-warps: Probabilities go from one product into the other in registers: both have the same warps and
            warp tiles.
            :must: Gemm0BlockWarps == Gemm1BlockWarps and Gemm0WarpTile == Gemm1WarpTile
            :blame: Gemm1BlockWarps, Gemm1WarpTile  :is: warning host
            :asserted: both products need the same warps and warp tiles
            :source: {BLOCK}, 'need method to check a_block_tensor and a_block_tensor_tmp have equivalent distribution'
        """
    ),
    *_covered(
        "fmha-rows", "kM0", "(Gemm0BlockWarps[0] * Gemm0WarpTile[0])", ("kM0",), "whole warp tiles must cover kM0"
    ),
    *_covered("fmha-keys", "kN0", "Gemm0WarpTile[1]", ("kN0",), "whole warp tiles must cover kN0"),
    *_covered("fmha-k0", "kK0", "Gemm0WarpTile[2]", ("kK0",), "whole warp tiles must cover kK0"),
    *_covered("fmha-columns", "kN1", "Gemm1WarpTile[1]", ("kN1",), "whole warp tiles must cover kN1"),
    *_covered("fmha-k1", "kK1", "Gemm1WarpTile[2]", ("kK1",), "whole warp tiles must cover kK1"),
    *rules(
        f"""
        fmha-key-steps: The keys of a tile are multiplied with V in steps of kK1, which must divide kN0.
            :must: kN0 % kK1 == 0  :blame: kK1, kN0  :is: warning host  :asserted: kK1 must divide kN0
            :source: {PIPELINE}qr_ks_vs*.hpp, k1_loops is rounded down
        """
    ),
)

OPERATION = operation(NAME, KERNEL, PARAMETERS, DEFINITIONS, RULES)
