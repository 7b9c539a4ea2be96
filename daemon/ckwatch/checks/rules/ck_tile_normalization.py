"""Rules of `CkTileRmsnorm2d` and `CkTileLayernorm2d`: the norms of CK Tile 1.2.0 as `ck_tile/rmsnorm.hip.j2` and
`ck_tile/layernorm.hip.j2` put them together.

Both share out rows among threads by a Generic2dBlockShape, read them in one pass or two, and may quantise what they
write.
"""

from __future__ import annotations

from ckwatch.checks.rules.rule import (
    ParameterKind,
    Rule,
    TemplateParameter,
    definitions,
    flag,
    integer,
    operation,
    rules,
    word,
)

RMSNORM = "CkTileRmsnorm2d"
LAYERNORM = "CkTileLayernorm2d"

VECTORS = (1, 2, 4, 8, 16)
"""Elements of 8, 16 and 32 bits that CK Tile reads or writes at once."""

FUSED_ADDS = ("NO_ADD", "PRE_ADD_STORE", "PRE_ADD")
FUSED_QUANTS = ("NO_SWEEP", "SMOOTH_DYNAMIC_QUANT", "DYNAMIC_QUANT")
X_BIASES = ("NO_BIAS", "ADD_BIAS")

SHAPE = "ck_tile/ops/common/generic_2d_block_shape.hpp"
BUFFERS = "ck_tile/core/arch/amd_buffer_addressing_builtins.hpp"

_TYPES = tuple(TemplateParameter(name, ParameterKind.DTYPE) for name in ("XDataType", "YDataType"))
_SHAPE = (
    integer("Repeat_M", "1"),
    integer("Repeat_N"),
    integer("ThreadPerBlock_M"),
    integer("ThreadPerBlock_N"),
    integer("Vector_N"),
    flag("kPadN", "true"),
    flag("kTwoPass", "false"),
)

RMSNORM_PARAMETERS = (
    *_TYPES,
    flag("kSaveInvRms"),
    flag("kSaveUnquant"),
    word("kFusedAdd", "Rmsnorm2dFusedAddEnum", FUSED_ADDS),
    word("kFusedQuant", "Rmsnorm2dFusedQuantEnum", FUSED_QUANTS),
    *_SHAPE,
    integer("kBlockPerCu", "1"),
)
LAYERNORM_PARAMETERS = (
    *_TYPES,
    flag("kSaveMeanInvStd"),
    word("kXbias", "Layernorm2dXBiasEnum", X_BIASES),
    word("kFusedAdd", "Layernorm2dFusedAddEnum", FUSED_ADDS),
    word("kFusedQuant", "Layernorm2dFusedQuantEnum", FUSED_QUANTS),
    *_SHAPE,
    flag("kFastFDiv", "true"),
    flag("kWelford", "true"),
    integer("kBlockPerCu", "1"),
)

DEFINITIONS = definitions(
    """
    BlockSize = ThreadPerBlock_M * ThreadPerBlock_N  # threads of a block
    Block_M = Repeat_M * ThreadPerBlock_M  # rows of a block
    Block_N = Repeat_N * ThreadPerBlock_N * Vector_N  # columns that a block reads at once
    """
)

_THREADS = rules(
    f"""
    block-threads: A block has at most 1024 threads, not {{BlockSize}}.
        :must: BlockSize <= 1024  :blame: ThreadPerBlock_M, ThreadPerBlock_N  :is: warning host
        :asserted: a block has at most 1024 threads
        :source: __launch_bounds__, which clang ignores beyond what the arch has
    whole-waves: A block must be whole waves of 64 threads.
        :must: BlockSize % 64 == 0  :blame: ThreadPerBlock_M, ThreadPerBlock_N  :is: host
        :source: {SHAPE}, static_assert((ThreadPerBlock_M * ThreadPerBlock_N) % warp_size == 0)
    row-threads: The threads of a row must divide a wave's 64, or be whole waves.
        :must: 64 % ThreadPerBlock_N == 0 if ThreadPerBlock_N <= 64 else ThreadPerBlock_N % 64 == 0
        :blame: ThreadPerBlock_N  :is: host
        :source: {SHAPE}, static_assert(warp_size % ThreadPerBlock_N == 0), static_assert(ThreadPerBlock_N % warp_size
            == 0)
    row-vector: CK Tile has no access to {{Vector_N}} elements at once.
        :must: Vector_N in {VECTORS}  :blame: Vector_N
        :source: {BUFFERS}, static_assert of amd_buffer_load_impl and amd_buffer_store_impl
    """
)


_TWO_PASS_QUANT = rules(
    """
    two-pass-quant: A row that is read in two passes is never held whole, so that it cannot be quantised by its largest
        magnitude.
        :must: kFusedQuant == 'NO_SWEEP'  :blame: kTwoPass  :when: kTwoPass
        :source: ck_tile/ops/{rmsnorm2d,layernorm2d}/pipeline/*_fwd_pipeline_two_pass.hpp, static_assert(kFusedQuant
            …), and the epilogue's arguments
    """
)


def _row_waves(when: str) -> tuple[Rule, ...]:
    return rules(
        f"""
        row-waves: The waves that share a row reduce it in pairs: their number must be a power of two.
            :must: ThreadPerBlock_N / 64 in (1, 2, 4, 8, 16)  :blame: ThreadPerBlock_N
            :when: ThreadPerBlock_N > 64{when}  :after: row-threads, block-threads
            :source: ck_tile/ops/reduce/block/block_reduce2d.hpp, static_assert 'wrong! only support power of 2
                reduction'
        """
    )


RMSNORM_RULES = (*_THREADS, *_row_waves(""), *_TWO_PASS_QUANT)
LAYERNORM_RULES = (
    *_THREADS,
    *_row_waves(" and kFusedQuant != 'NO_SWEEP'"),
    *_TWO_PASS_QUANT,
    *rules(
        """
        two-pass-welford: Two passes merge what they know of their parts by Welford's algorithm.
            :must: kWelford  :blame: kWelford, kTwoPass  :when: kTwoPass
            :source: ck_tile/ops/layernorm2d/pipeline/layernorm2d_fwd_pipeline_two_pass.hpp, static_assert '2 pass only
                supports welford merge'
        statistics-lanes: Lanes of a wave that share a row merge their parts by Welford's algorithm in different orders,
            and each writes its own mean and deviation to the same place. kWelford = false, or a row of whole waves, has
            one.
            :must: ThreadPerBlock_N > 64  :blame: ThreadPerBlock_N, kWelford  :when: kSaveMeanInvStd and kWelford
            :is: warning host
            :asserted: lanes of a wave that share a row differ in its statistics by Welford's algorithm
            :source: ck_tile/ops/norm_reduce/block/block_norm_reduce.hpp, BlockNormReduceSync;
                layernorm2d_fwd_pipeline_{one,two}_pass.hpp, store_tile(mean_window …)
        """
    ),
)


OPERATIONS = (
    operation(RMSNORM, SHAPE, RMSNORM_PARAMETERS, DEFINITIONS, RMSNORM_RULES),
    operation(LAYERNORM, SHAPE, LAYERNORM_PARAMETERS, DEFINITIONS, LAYERNORM_RULES),
)
