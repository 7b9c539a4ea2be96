"""Rules of `CkTileRmsnorm2d` and `CkTileLayernorm2d`: the norms of CK Tile 1.2.0 as `ck_tile/rmsnorm.hip.j2` and
`ck_tile/layernorm.hip.j2` put them together.

Both share out rows among threads by a Generic2dBlockShape, read them in one pass or two, and may quantise what they
write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ckwatch.checks.rules.rule import Definition, DeviceOperation, ParameterKind, Rule, TemplateParameter
from ckwatch.model.diagnostics import Severity
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

RMSNORM = "CkTileRmsnorm2d"
LAYERNORM = "CkTileLayernorm2d"

VECTORS = (1, 2, 4, 8, 16)
"""Elements of 8, 16 and 32 bits that CK Tile reads or writes at once."""

FUSED_ADDS = ("NO_ADD", "PRE_ADD_STORE", "PRE_ADD")
FUSED_QUANTS = ("NO_SWEEP", "SMOOTH_DYNAMIC_QUANT", "DYNAMIC_QUANT")
X_BIASES = ("NO_BIAS", "ADD_BIAS")

SHAPE = "ck_tile/ops/common/generic_2d_block_shape.hpp"
BUFFERS = "ck_tile/core/arch/amd_buffer_addressing_builtins.hpp"

_POSITIVE = ParameterType(ValueKind.INTEGER, lowest=1, highest=INT32_MAX)
_FLAG = ParameterType(ValueKind.FLAG)


def _integer(name: str, default: str = "", declared: ParameterType = _POSITIVE) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.INTEGER, default, declared)


def _flag(name: str, default: str = "") -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.FLAG, default, _FLAG)


def _word(name: str, enumeration: str, values: tuple[str, ...]) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.ENUMERATOR, "", ParameterType(ValueKind.CHOICE, values), enumeration)


_TYPES = tuple(TemplateParameter(name, ParameterKind.DTYPE) for name in ("XDataType", "YDataType"))
_SHAPE = (
    _integer("Repeat_M", "1"),
    _integer("Repeat_N"),
    _integer("ThreadPerBlock_M"),
    _integer("ThreadPerBlock_N"),
    _integer("Vector_N"),
    _flag("kPadN", "true"),
    _flag("kTwoPass", "false"),
)

RMSNORM_PARAMETERS = (
    *_TYPES,
    _flag("kSaveInvRms"),
    _flag("kSaveUnquant"),
    _word("kFusedAdd", "Rmsnorm2dFusedAddEnum", FUSED_ADDS),
    _word("kFusedQuant", "Rmsnorm2dFusedQuantEnum", FUSED_QUANTS),
    *_SHAPE,
    _integer("kBlockPerCu", "1"),
)
LAYERNORM_PARAMETERS = (
    *_TYPES,
    _flag("kSaveMeanInvStd"),
    _word("kXbias", "Layernorm2dXBiasEnum", X_BIASES),
    _word("kFusedAdd", "Layernorm2dFusedAddEnum", FUSED_ADDS),
    _word("kFusedQuant", "Layernorm2dFusedQuantEnum", FUSED_QUANTS),
    *_SHAPE,
    _flag("kFastFDiv", "true"),
    _flag("kWelford", "true"),
    _integer("kBlockPerCu", "1"),
)

DEFINITIONS = (
    Definition("BlockSize", "ThreadPerBlock_M * ThreadPerBlock_N", "threads of a block"),
    Definition("Block_M", "Repeat_M * ThreadPerBlock_M", "rows of a block"),
    Definition("Block_N", "Repeat_N * ThreadPerBlock_N * Vector_N", "columns that a block reads at once"),
)

_THREADS = (
    Rule(
        "block-threads",
        "BlockSize <= 1024",
        ("ThreadPerBlock_M", "ThreadPerBlock_N"),
        "A block has at most 1024 threads, not {BlockSize}.",
        "__launch_bounds__, which clang ignores beyond what the arch has",
        severity=Severity.WARNING,
        asserted_by="a block has at most 1024 threads",
        host=True,
    ),
    Rule(
        "whole-waves",
        "BlockSize % 64 == 0",
        ("ThreadPerBlock_M", "ThreadPerBlock_N"),
        "A block must be whole waves of 64 threads.",
        f"{SHAPE}, static_assert((ThreadPerBlock_M * ThreadPerBlock_N) % warp_size == 0)",
        host=True,
    ),
    Rule(
        "row-threads",
        "64 % ThreadPerBlock_N == 0 if ThreadPerBlock_N <= 64 else ThreadPerBlock_N % 64 == 0",
        ("ThreadPerBlock_N",),
        "The threads of a row must divide a wave's 64, or be whole waves.",
        f"{SHAPE}, static_assert(warp_size % ThreadPerBlock_N == 0), static_assert(ThreadPerBlock_N % warp_size == 0)",
        host=True,
    ),
    Rule(
        "row-vector",
        f"Vector_N in {VECTORS}",
        ("Vector_N",),
        "CK Tile has no access to {Vector_N} elements at once.",
        f"{BUFFERS}, static_assert of amd_buffer_load_impl and amd_buffer_store_impl",
    ),
)


_TWO_PASS_QUANT = Rule(
    "two-pass-quant",
    "kFusedQuant == 'NO_SWEEP'",
    ("kTwoPass",),
    "A row that is read in two passes is never held whole, so that it cannot be quantised by its largest magnitude.",
    "ck_tile/ops/{rmsnorm2d,layernorm2d}/pipeline/*_fwd_pipeline_two_pass.hpp, static_assert(kFusedQuant …), and the "
    "epilogue's arguments",
    when="kTwoPass",
)


def _row_waves(when: str) -> Rule:
    return Rule(
        "row-waves",
        "ThreadPerBlock_N / 64 in (1, 2, 4, 8, 16)",
        ("ThreadPerBlock_N",),
        "The waves that share a row reduce it in pairs: their number must be a power of two.",
        "ck_tile/ops/reduce/block/block_reduce2d.hpp, static_assert 'wrong! only support power of 2 reduction'",
        when=f"ThreadPerBlock_N > 64{when}",
        after=("row-threads", "block-threads"),
    )


RMSNORM_RULES = (*_THREADS, _row_waves(""), _TWO_PASS_QUANT)
LAYERNORM_RULES = (
    *_THREADS,
    _row_waves(" and kFusedQuant != 'NO_SWEEP'"),
    _TWO_PASS_QUANT,
    Rule(
        "two-pass-welford",
        "kWelford",
        ("kWelford", "kTwoPass"),
        "Two passes merge what they know of their parts by Welford's algorithm.",
        "ck_tile/ops/layernorm2d/pipeline/layernorm2d_fwd_pipeline_two_pass.hpp, static_assert '2 pass only supports "
        "welford merge'",
        when="kTwoPass",
    ),
    Rule(
        "statistics-lanes",
        "ThreadPerBlock_N > 64",
        ("ThreadPerBlock_N", "kWelford"),
        "Lanes of a wave that share a row merge their parts by Welford's algorithm in different orders, and each "
        "writes its own mean and deviation to the same place. kWelford = false, or a row of whole waves, has one.",
        "ck_tile/ops/norm_reduce/block/block_norm_reduce.hpp, BlockNormReduceSync; "
        "layernorm2d_fwd_pipeline_{one,two}_pass.hpp, store_tile(mean_window …)",
        when="kSaveMeanInvStd and kWelford",
        severity=Severity.WARNING,
        asserted_by="lanes of a wave that share a row differ in its statistics by Welford's algorithm",
        host=True,
    ),
)


def _operation(name: str, parameters: Sequence[TemplateParameter], rules: tuple[Rule, ...]) -> DeviceOperation:
    by_name: Mapping[str, TemplateParameter] = {parameter.name: parameter for parameter in parameters}
    return DeviceOperation(name, SHAPE, by_name, {one.name: one for one in DEFINITIONS}, rules)


OPERATIONS = (
    _operation(RMSNORM, RMSNORM_PARAMETERS, RMSNORM_RULES),
    _operation(LAYERNORM, LAYERNORM_PARAMETERS, LAYERNORM_RULES),
)
