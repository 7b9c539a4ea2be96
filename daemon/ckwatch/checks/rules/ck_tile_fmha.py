"""Rules of `CkTileFmhaForward`: CK Tile 1.2.0's attention as `ck_tile/fmha_forward.hip.j2` puts it together.

A shape of tiles, a pipeline and a mask become a kernel. Probabilities stay in registers between the two products: CK
Tile takes the registers of the first one's result for those of the second one's operand, and does not check that they
are laid out alike. What its own instances have in common, the template therefore asserts; in a source that does not,
those rules are warnings.
"""

from __future__ import annotations

from ckwatch.checks.rules.expression import Lookup, UnknownValueError, Value
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import ELEMENT_BYTES, MATRIX_ARCHS
from ckwatch.checks.rules.rule import Definition, DeviceOperation, ParameterKind, Rule, TemplateParameter
from ckwatch.model.diagnostics import Severity
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

NAME = "CkTileFmhaForward"

PIPELINES = ("qr", "qr_async", "qr_async_trload")
"""`name` of `ck_tile/ops/fmha/pipeline/block_fmha_pipeline_qr_ks_vs*.hpp`."""

TILES = ("kM0", "kN0", "kK0", "kN1", "kK1", "kQKHeaddim")
SEQUENCES = ("Gemm0BlockWarps", "Gemm0WarpTile", "Gemm1BlockWarps", "Gemm1WarpTile")
PADS = ("kPadSeqLenQ", "kPadSeqLenK", "kPadHeadDimQ", "kPadHeadDimV")

_POSITIVE = ParameterType(ValueKind.INTEGER, lowest=1, highest=INT32_MAX)
_THREE = ParameterType(ValueKind.ARRAY, length=3, lowest=1, highest=INT32_MAX)
_FLAG = ParameterType(ValueKind.FLAG)
_WORD = ParameterType(ValueKind.CHOICE, PIPELINES)
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
    *(TemplateParameter(name, ParameterKind.INTEGER, "", _POSITIVE) for name in TILES),
    *(TemplateParameter(name, ParameterKind.SEQUENCE, "", _THREE) for name in SEQUENCES),
    *(TemplateParameter(name, ParameterKind.FLAG, "", _FLAG) for name in PADS),
    TemplateParameter("Pipeline", ParameterKind.ENUMERATOR, "", _WORD, "Pipeline"),
    TemplateParameter("kBlockPerCu", ParameterKind.INTEGER, "-1", _BLOCKS),
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


def _bytes_of_element(lookup: Lookup) -> Value:
    return ELEMENT_BYTES[str(lookup("QKVDataType"))]


def _warp_tile(lookup: Lookup) -> Value:
    tile = lookup("Gemm0WarpTile")
    if not isinstance(tile, tuple):
        raise UnknownValueError("Gemm0WarpTile")
    return "x".join(map(str, tile))


def _warp_tiles(lookup: Lookup) -> Value:
    return WARP_TILES.get(str(lookup("QKVDataType")), ("none",))


DEFINITIONS = (
    Definition(
        "NumGemm0Warps",
        "Gemm0BlockWarps[0] * Gemm0BlockWarps[1] * Gemm0BlockWarps[2]",
        "warps that multiply Q and K",
    ),
    Definition(
        "NumGemm1Warps",
        "Gemm1BlockWarps[0] * Gemm1BlockWarps[1] * Gemm1BlockWarps[2]",
        "warps that multiply probabilities and V",
    ),
    Definition("sizeof_QKV", "sizeof(QKVDataType)", "bytes of one element", _bytes_of_element, ("QKVDataType",)),
    Definition(
        "VElements", "kN1 * kK1 / (max(NumGemm0Warps, NumGemm1Warps) * 64)", "elements of V that a thread loads"
    ),
    Definition("VWidest", "min(VElements, 16 / sizeof_QKV)", "the widest load of V"),
    Definition(
        "VVector",
        "VWidest if VElements / VWidest >= 4 / sizeof_QKV else VElements / (4 / sizeof_QKV)",
        "elements of V that a thread loads at once",
    ),
    Definition("Async", "Pipeline != 'qr'", "1 where K reaches LDS without registers"),
    Definition("WarpTile", "Gemm0WarpTile as MxNxK", "the tile of one matrix product", _warp_tile, ("Gemm0WarpTile",)),
    Definition("WarpTiles", "those of QKVDataType", "warp tiles that CK Tile has", _warp_tiles, ("QKVDataType",)),
)


def _asserted(
    slug: str,
    condition: str,
    blame: tuple[str, ...],
    sentence: str,
    source: str,
    words: str,
    when: str = "1",
    after: tuple[str, ...] = (),
) -> Rule:
    """Make a rule that CK Tile's own instances obey, and that only the template asserts."""
    return Rule(
        *(slug, condition, blame, sentence, source),
        when=when,
        after=after,
        severity=Severity.WARNING,
        asserted_by=words,
        host=True,
    )


def _covered(slug: str, tile: str, per: str, blame: tuple[str, ...], words: str) -> Rule:
    return Rule(
        slug,
        f"{tile} % {per} == 0",
        blame,
        f"Whole warp tiles must cover {tile}.",
        f"{BLOCK}, the number of iterations is rounded down",
        severity=Severity.WARNING,
        asserted_by=words,
        host=True,
    )


RULES = (
    Rule(
        "fmha-arch",
        f"target in {MATRIX_ARCHS}",
        (),
        "{target} has no MFMA: this kernel needs matrix instructions of waves of 64 lanes.",
        "ck_tile/core/arch/arch.hpp, get_warp_size",
        when="kBlockPerCu >= -1",
        every_arch=True,
    ),
    Rule(
        "fmha-warps",
        "NumGemm1Warps % NumGemm0Warps == 0",
        ("Gemm1BlockWarps", "Gemm0BlockWarps"),
        "The {NumGemm1Warps} warps of the second product must be a multiple of the {NumGemm0Warps} of the first.",
        f"{SHAPE}, static_assert(NumGemm1Warps % NumGemm0Warps == 0)",
        host=True,
    ),
    Rule(
        "fmha-head-steps",
        "kQKHeaddim % kK0 == 0",
        ("kK0", "kQKHeaddim"),
        "A head of Q and K is multiplied in steps of kK0, which must divide kQKHeaddim.",
        f"{SHAPE}, static_assert 'kQKHeaddim should be divisible by kK0'",
        host=True,
    ),
    Rule(
        "fmha-head-sizes",
        "kQKHeaddim in (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 512, 1024)",
        ("kQKHeaddim",),
        "kQKHeaddim is a power of two, or 48, 96, 160 or 192.",
        f"{SHAPE}, static_assert 'only Headdim of 48, 96, 160, 192 and power-of-two is supported'",
        host=True,
    ),
    Rule(
        "fmha-head-limit",
        "kQKHeaddim <= 256",
        ("kQKHeaddim",),
        "A head of Q stays in registers: it has at most 256 elements.",
        f"{PIPELINE}qr_ks_vs*.hpp, static_assert 'hdim bigger than 256 is not suitable for this pipeline!'",
        after=("fmha-head-sizes",),
        host=True,
    ),
    Rule(
        "fmha-async-pads",
        "kPadSeqLenQ and kPadHeadDimQ and kPadHeadDimV",
        ("kPadHeadDimQ", "kPadHeadDimV", "kPadSeqLenQ"),
        "qr_async always pads the lengths of Q and the heads: kPadSeqLenQ, kPadHeadDimQ and kPadHeadDimV are true.",
        f"{PIPELINE}qr_ks_vs_async.hpp, static_assert(Problem::kPadSeqLenQ == true && …)",
        when="Pipeline == 'qr_async'",
        host=True,
    ),
    Rule(
        "fmha-warp-tile",
        "WarpTile in WarpTiles",
        ("Gemm0WarpTile",),
        "CK Tile has no warp tile {WarpTile} for attention in {QKVDataType}.",
        f"{POLICY}, GetQKBlockGemm: no specialisation of WarpGemmDispatcher, or its static_assert for f8",
    ),
    Rule(
        "fmha-v-vector",
        "VVector in (1, 2, 4, 8, 16)",
        ("kN1", "kK1"),
        "CK Tile loads V in vectors of {VVector} elements here, and has none of that width.",
        f"{POLICY}, GetAlignmentV; ck_tile/core/arch/amd_buffer_addressing_builtins.hpp, static_assert 'wrong! not "
        "implemented'",
        when="VElements > 0 and (Pipeline == 'qr_async' or Pipeline == 'qr' and not kPadHeadDimV)",
    ),
    _asserted(
        "fmha-trload-arch",
        "target == 'gfx950'",
        ("Pipeline",),
        "qr_async_trload reads V transposed from LDS, which gfx950 alone can do; elsewhere its kernel is empty.",
        f"{KERNEL}, kIsAvailable",
        "qr_async_trload is for gfx950",
        when="Pipeline == 'qr_async_trload' and target != 'host'",
    ),
    _asserted(
        "fmha-trload-bias",
        "BiasEnum == 'NO_BIAS' and not kHasLogitsSoftCap",
        ("Pipeline",),
        "qr_async_trload leaves out a bias and a bound of the scores.",
        f"{PIPELINE}qr_ks_vs_async_trload.hpp, ignore = bias_dram_block_window_tmp",
        "qr_async_trload has no bias and no soft cap",
        when="Pipeline == 'qr_async_trload'",
    ),
    _asserted(
        "fmha-async-f8",
        "QKVDataType != 'F8'",
        ("Pipeline",),
        "The asynchronous pipelines have no f8.",
        f"{EXAMPLE}, get_pipelines",
        "asynchronous pipelines have no f8",
        when="Async",
    ),
    _asserted(
        "fmha-async-head",
        "Head * sizeof_QKV % 16 == 0 and HeadV * sizeof_QKV % 16 == 0",
        ("Pipeline",),
        "Asynchronous pipelines read heads in pieces of 16 bytes, which pad no head of another size.",
        f"{EXAMPLE}, dcheck and dvcheck",
        "asynchronous pipelines need heads of whole 16 bytes",
        when="Async",
    ),
    _asserted(
        "fmha-head",
        "Head <= kQKHeaddim",
        ("kQKHeaddim",),
        "A head of Q and K, {Head} elements, must fit into kQKHeaddim.",
        f"{KERNEL}, q_dram_window is one tile of kSubQKHeaddim",
        "a head of Q and K must fit into kQKHeaddim",
    ),
    _asserted(
        "fmha-head-v",
        "HeadV <= kN1",
        ("kN1",),
        "A head of V, {HeadV} elements, must fit into kN1.",
        f"{KERNEL}, 'assume that num_tile_n1 is always 1'",
        "a head of V must fit into kN1",
    ),
    _asserted(
        "fmha-head-unpadded",
        "kPadHeadDimQ or Head == kQKHeaddim",
        ("kPadHeadDimQ", "kQKHeaddim"),
        "Without kPadHeadDimQ the elements of Q and K behind a head are read too.",
        f"{EXAMPLE}, dcheck",
        "without kPadHeadDimQ a head of Q and K must fill kQKHeaddim",
        after=("fmha-head",),
    ),
    _asserted(
        "fmha-head-v-unpadded",
        "kPadHeadDimV or HeadV == kN1",
        ("kPadHeadDimV", "kN1"),
        "Without kPadHeadDimV the elements of V and O behind a head are read and written too.",
        f"{EXAMPLE}, dvcheck",
        "without kPadHeadDimV a head of V must fill kN1",
        after=("fmha-head-v",),
    ),
    _asserted(
        "fmha-variable",
        "kPadSeqLenQ and kPadSeqLenK",
        ("kPadSeqLenK", "kPadSeqLenQ"),
        "Sequences of variable lengths end within tiles: kPadSeqLenQ and kPadSeqLenK are true.",
        f"{EXAMPLE}, 'in group mode, spad/skpad must be true'",
        "variable lengths need kPadSeqLenQ and kPadSeqLenK",
        when="kIsGroupMode",
    ),
    _asserted(
        "fmha-one-warp",
        "Gemm0BlockWarps[1] == 1 and Gemm0BlockWarps[2] == 1",
        ("Gemm0BlockWarps",),
        "A warp has whole rows of scores: the softmax adds within a warp. Warps divide the queries alone.",
        f"{PIPELINE}qr_ks_vs.hpp, block_tile_reduce_sync",
        "warps divide the queries alone",
    ),
    _asserted(
        "fmha-same-warps",
        "Gemm0BlockWarps == Gemm1BlockWarps and Gemm0WarpTile == Gemm1WarpTile",
        ("Gemm1BlockWarps", "Gemm1WarpTile"),
        "Probabilities go from one product into the other in registers: both have the same warps and warp tiles.",
        f"{BLOCK}, 'need method to check a_block_tensor and a_block_tensor_tmp have equivalent distribution'",
        "both products need the same warps and warp tiles",
    ),
    _covered(
        "fmha-rows", "kM0", "(Gemm0BlockWarps[0] * Gemm0WarpTile[0])", ("kM0",), "whole warp tiles must cover kM0"
    ),
    _covered("fmha-keys", "kN0", "Gemm0WarpTile[1]", ("kN0",), "whole warp tiles must cover kN0"),
    _covered("fmha-k0", "kK0", "Gemm0WarpTile[2]", ("kK0",), "whole warp tiles must cover kK0"),
    _covered("fmha-columns", "kN1", "Gemm1WarpTile[1]", ("kN1",), "whole warp tiles must cover kN1"),
    _covered("fmha-k1", "kK1", "Gemm1WarpTile[2]", ("kK1",), "whole warp tiles must cover kK1"),
    _asserted(
        "fmha-key-steps",
        "kN0 % kK1 == 0",
        ("kK1", "kN0"),
        "The keys of a tile are multiplied with V in steps of kK1, which must divide kN0.",
        f"{PIPELINE}qr_ks_vs*.hpp, k1_loops is rounded down",
        "kK1 must divide kN0",
    ),
)

OPERATION = DeviceOperation(
    NAME,
    KERNEL,
    {parameter.name: parameter for parameter in PARAMETERS},
    {definition.name: definition for definition in DEFINITIONS},
    RULES,
)
