"""Rules of `CkTileGemm`: the universal GEMM of CK Tile 1.2.0 as `ck_tile/gemm_universal.hip.j2` puts it together.

A pipeline, a shape of tiles and an epilogue become a kernel; each of them has its conditions. What is copied to LDS and
to Y is laid out by one distribution of threads, whose rules hold for A, B and C alike (`distribution_rules`). Where CK
Tile leaves a function empty (a matrix instruction that the arch lacks) or takes a tile only in part, it compiles and
computes wrong results: those rules are warnings, and errors in a source that asserts them, as the template does.
"""

from __future__ import annotations

from collections.abc import Callable

from ckwatch.checks.rules.expression import Lookup, Value, integers
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import HAS_WMMA, MATRIX_ARCHS, WMMA_ARCHS, bytes_of, lds_bytes
from ckwatch.checks.rules.rule import (
    Definition,
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

NAME = "CkTileGemm"

PIPELINES = ("Mem", "CompV3", "CompV4", "CompV5", "CompV6", "CompAsync")
"""`ck_tile/ops/gemm/pipeline/gemm_pipeline_ag_bg_cr_*.hpp`."""

SCHEDULERS = ("Intrawave", "Interwave")
EPILOGUES = ("Default", "CShuffle")

_COUNT = ParameterType(ValueKind.INTEGER, lowest=0, highest=INT32_MAX)


PARAMETERS = (
    TemplateParameter("ALayout", ParameterKind.LAYOUT, aliases=("layout_a",)),
    TemplateParameter("BLayout", ParameterKind.LAYOUT, aliases=("layout_b",)),
    TemplateParameter("CLayout", ParameterKind.LAYOUT, aliases=("layout_c",)),
    TemplateParameter("ADataType", ParameterKind.DTYPE, aliases=("datatype_a",)),
    TemplateParameter("BDataType", ParameterKind.DTYPE, aliases=("datatype_b",)),
    TemplateParameter("AccDataType", ParameterKind.DTYPE),
    TemplateParameter("CDataType", ParameterKind.DTYPE, aliases=("datatype_c",)),
    *(integer(f"Tile{axis}", "", f"{axis}_Tile") for axis in "MNK"),
    *(integer(f"Warp{axis}", "", f"{axis}_Warp") for axis in "MNK"),
    *(integer(f"WarpTile{axis}", "", f"{axis}_Warp_Tile") for axis in "MNK"),
    *(flag(f"kPad{axis}", "", f"{axis}_is_padded", f"pad_{axis}") for axis in "MNK"),
    word("Pipeline", "Pipeline", PIPELINES),
    word("Scheduler", "GemmPipelineScheduler", SCHEDULERS),
    word("Epilogue", "Epilogue", EPILOGUES),
    flag("TransposeC", "false"),
    integer("kBlockPerCu", "1"),
    integer("TilePartitionerGroupNum", "8", "TileParitionerGroupNum"),
    integer("TilePartitionerM01", "4", "TileParitionerM01"),
    integer("PersistentBlocks", declared=_COUNT),
    integer("StreamKBlocks", "0", declared=_COUNT),
)
"""In the order of the template parameters."""

_FLOAT_TILES = {
    "32x32x8": True,
    "32x32x16": True,
    "16x16x16": True,
    "16x16x32": True,
    "4x64x16": False,
    "64x4x16": False,
}
_WMMA = {"16x16x16": True}
_WIDE_TILES = {"16x16x128": True, "32x32x64": False}

WARP_TILES = {
    ("F32", "F32", "F32"): {"16x16x4": False, "16x16x16": True},
    ("F16", "F16", "F32"): _FLOAT_TILES,
    ("BF16", "BF16", "F32"): _FLOAT_TILES,
    **{
        (one, one, "F32"): {
            "32x32x16": True,
            "32x32x32": False,
            "16x16x32": True,
            "16x16x64": False,
            **_WIDE_TILES,
            **_WMMA,
        }
        for one in ("F8", "BF8")
    },
    ("F8", "BF8", "F32"): {"32x32x16": True, "32x32x32": False, "16x16x32": False, **_WIDE_TILES, **_WMMA},
    ("BF8", "F8", "F32"): {"32x32x16": True, **_WIDE_TILES, **_WMMA},
    ("I8", "I8", "I32"): {"32x32x16": True, "16x16x32": True, **_WMMA},
}
"""By the types of A, B and the accumulator: the warp tiles that WarpGemmDispatcher has, and whether it has them with
TransposeC. `ck_tile/ops/gemm/warp/warp_gemm_dispatcher.hpp`."""


_EIGHT_BITS = ("F8", "BF8", "I8")
_EMPTY_TILES = {
    **{("gfx950", one): frozenset(_WMMA) for one in _EIGHT_BITS},
    **{("gfx942", one): frozenset((*_WIDE_TILES, *_WMMA)) for one in _EIGHT_BITS},
    **{("gfx90a", one): frozenset((*_WIDE_TILES, *_WMMA, "16x16x32", "16x16x64")) for one in _EIGHT_BITS},
}
_ONLY_TILES = {("gfx950", "BF16"): frozenset({"32x32x16", "16x16x32"})}
"""By an arch and the type of A: warp tiles for which the arch has no matrix instruction, and the only ones for which CK
Tile uses one. `ck_tile/ops/gemm/warp/warp_gemm_attribute_mfma_impl.hpp`."""

_READ_IN_TWO = ("32x32x16", "16x16x32")
_READ_IN_FOUR = ("32x32x64", "16x16x128")
"""Warp tiles whose operands can be read from LDS transposed in two and in four accesses."""

SHAPE = "ck_tile/ops/gemm/"
BLOCK = SHAPE + "block/block_universal_gemm_as_bs_cr.hpp"
PIPELINE = SHAPE + "pipeline/gemm_pipeline_ag_bg_cr_"
DISPATCH = SHAPE + "warp/warp_gemm_dispatcher.hpp"
INSTRUCTIONS = SHAPE + "warp/warp_gemm_attribute_mfma_impl.hpp"
DISTRIBUTION = "ck_tile/core/algorithm/static_encoding_pattern.hpp"
SHUFFLE = "ck_tile/ops/epilogue/cshuffle_epilogue.hpp"


_TILE = ("WarpTileM", "WarpTileN", "WarpTileK")
_TYPES = ("ADataType", "BDataType", "AccDataType")


@computed(
    "WarpTile = WarpTileMxWarpTileNxWarpTileK  # the tile of one matrix instruction, or of a few along K",
    "WarpTileM, WarpTileN, WarpTileK",
)
def _warp_tile(lookup: Lookup) -> Value:
    return "x".join(str(value) for value in integers(lookup, *_TILE))


def _tiles_of(lookup: Lookup, keep: Callable[[str], bool] = bool) -> tuple[str, ...]:
    a, b, accumulator = (str(lookup(name)) for name in _TYPES)
    transposed = lookup("TransposeC")
    tiles = WARP_TILES.get((a, b, accumulator), {})
    return tuple(tile for tile, both in tiles.items() if (both or not transposed) and keep(tile)) or ("none",)


@computed(
    "InstructionTiles = those of WarpTiles for which the arch has a matrix instruction  "
    "# the others are empty functions",
    "ADataType, BDataType, AccDataType, TransposeC",
)
def _instruction_tiles(lookup: Lookup) -> Value:
    target, dtype = str(lookup("target")), str(lookup("ADataType"))
    if lookup("HasWmma"):
        known = dtype not in ("F8", "BF8") or target.startswith("gfx12")
        return _tiles_of(lookup, lambda tile: known and dtype != "F32" and tile in _WMMA)
    if dtype == "I8" and target not in ("gfx942", "gfx950"):
        return ("none",)
    only = _ONLY_TILES.get((target, dtype))
    without = _EMPTY_TILES.get((target, dtype), frozenset())
    return _tiles_of(lookup, lambda tile: tile not in without and (only is None or tile in only))


@computed(
    "TransposedTiles = those of WarpTiles that CK Tile can read transposed  # warp tiles for such operands",
    "ADataType, BDataType, AccDataType, TransposeC",
)
def _transposed_tiles(lookup: Lookup) -> Value:
    """By `wg_attr_num_access` of the pipelines' policies, of which WarpGemmDispatcher has few forms."""
    elements = 8 // integers(lookup, "sizeof_ADataType")[0]
    transposed = lookup("TransposeC")

    def has_form(tile: str) -> bool:
        _, n, k = map(int, tile.split("x"))
        accesses, rest = divmod(n * k // 64, elements)
        return not rest and (
            accesses == 1
            or (accesses == 2 and tile in _READ_IN_TWO)
            or (accesses == 4 and tile in _READ_IN_FOUR and not transposed)
        )

    return _tiles_of(lookup, has_form)


def _vector(across: str, each: str, size: str) -> str:
    """`GetGlobalVectorLoadSize`."""
    return (
        " ".join(
            f"{width} / {size} if {across} % ({width} / {size}) == 0 and {each} % ({width} / {size}) == 0 else"
            for width in (16, 8)
        )
        + " 1"
    )


def _operand(side: str, rows: str, plain: str) -> tuple[Definition, ...]:
    """How a block tile of `side` (A or B) is read, whose outer dimension is `rows`; `plain` is the layout in which K is
    contiguous."""
    across, along = f"{side}Across", f"{side}Along"
    return (
        *definitions(
            f"""
            {across} = TileK if {side}Layout == '{plain}' else Tile{rows}  # contiguous elements of a block tile of
                {side}
            {along} = Tile{rows} if {side}Layout == '{plain}' else TileK  # lines of a block tile of {side}
            {side}PerThread = Tile{rows} * TileK / BlockSize  # elements of {side} that a thread reads for a round
            {side}Vector = {_vector(across, f"{side}PerThread", f"sizeof_{side}DataType")}  # elements of {side} that a
                thread reads at once (GetVectorSize{side})
            """
        ),
        *_distribution(side, f"{side}Vector", across, along, "BlockSize", "Warps / WaveGroups"),
    )


def _distribution(what: str, vector: str, across: str, along: str, threads: str, warps: str) -> tuple[Definition, ...]:
    """How the threads of `warps` warps are laid out over a tile (tile_distribution_encoding_pattern_2d)."""
    return definitions(
        f"""
        {what}X1 = min({vector}, {across} * {along} / ({threads}))  # elements of {what} that a thread moves at once
        {what}X0 = {across} / {what}X1  # threads along a line of {what}
        {what}Y1 = WarpLanes / {what}X0  # lines of {what} that a warp moves at once
        {what}Lines = {what}Y1 * ({warps})  # lines of {what} that all warps move at once
        """
    )


DEFINITIONS = (
    HAS_WMMA,
    *definitions(
        """
        WarpLanes = 32 if HasWmma else 64  # lanes of a warp
        Warps = WarpM * WarpN * WarpK  # warps of a block
        BlockSize = Warps * WarpLanes  # threads of a block
        WaveGroups = 2 if Pipeline == 'CompV5' else 1  # groups of warps that take turns (NumWaveGroups)
        Buffers = 2 if Pipeline in ('CompV4', 'CompAsync') else 1  # buffers in LDS for the tiles of A and B
        """
    ),
    *map(bytes_of, ("ADataType", "BDataType", "AccDataType", "CDataType")),
    _warp_tile,
    Definition(
        "WarpTiles",
        "those of ADataType, BDataType and AccDataType",
        "the warp tiles that CK Tile has",
        _tiles_of,
        (*_TYPES, "TransposeC"),
    ),
    _instruction_tiles,
    Definition(
        "LoadsTransposed",
        "target == 'gfx950' and Pipeline != 'CompV5' and (ALayout == 'Col' or BLayout == 'Row')",
        "1 where gfx950's transposing reads from LDS are used",
    ),
    _transposed_tiles,
    *_operand("A", "M", "Row"),
    *_operand("B", "N", "Col"),
    *definitions(
        """
        AccumulatorsPerThread = WarpTileM * WarpTileN / WarpLanes  # elements of C of a thread in one warp tile
        CVector = min(WarpTileN * WarpN if CLayout == 'Row' else WarpTileM * WarpM, 16 / sizeof_CDataType) if Epilogue
            == 'CShuffle' else 4 if (CLayout == 'Row') == TransposeC else 1  # elements of C that a thread writes at
            once (GetVectorSizeC)
        Shuffles = max(1, CVector / AccumulatorsPerThread)  # warp tiles along M that CShuffle moves at once, at most
        ShufflesAlongM = min(Shuffles, TileM / (WarpTileM * WarpM))  # warp tiles along M that CShuffle moves at once
            (NumMXdlPerWavePerShuffle)
        MPerShuffle = WarpTileM * WarpM * (1 if TileM % (WarpTileM * WarpM * ShufflesAlongM) != 0 else ShufflesAlongM)
            # rows of C that CShuffle moves through LDS at once (MPerIterationShuffle)
        NPerShuffle = WarpTileN * WarpN  # columns of C that CShuffle moves through LDS at once (NPerIterationShuffle)
        """
    ),
    *_distribution("C", "CVector", "NPerShuffle", "MPerShuffle", "WarpM * WarpN * WarpLanes", "WarpM * WarpN"),
    *definitions(
        """
        PipelineBytes = TileK * (TileM * sizeof_ADataType + TileN * sizeof_BDataType)  # bytes of LDS for tiles of A and
            B
        ResultBytes = TileM * TileN * sizeof_AccDataType if Pipeline == 'CompV5' else 0  # bytes of LDS in which
            CompV5's warps add their products
        ShuffleBytes = MPerShuffle * NPerShuffle * sizeof_CDataType if Epilogue == 'CShuffle' else 0  # bytes of LDS for
            the epilogue
        """
    ),
    Definition("LdsLimit", "65536, on gfx950 163840", "bytes of LDS that one block may use", lds_bytes),
)


def distribution_rules(what: str, across: str, along: str, blame: tuple[str, ...], when: str = "1") -> tuple[Rule, ...]:
    """How the threads of a block are laid out over a tile of `what`."""
    low = what.lower()
    return rules(
        f"""
        {low}-threads: A line of {what}, {across} elements, is shared by {{{what}X0}} threads, which must divide a
            warp's 64.
            :must: {what}X0 * {what}Y1 == WarpLanes  :blame: {", ".join(blame)}  :when: {when}
            :source: {DISTRIBUTION}, static_assert 'X0 * Y1 must cover whole wavefront!'
        {low}-lines: The warps move {{{what}Lines}} lines of {what} at once, which must divide the tile's {along}.
            :must: {along} % {what}Lines == 0  :blame: {", ".join(blame)}  :when: {when}  :after: {low}-threads
            :source: {DISTRIBUTION}, static_assert 'Y0, Y1, Y2 must cover whole YPerTile'
        """
    )


def _covered(axis: str, blame: tuple[str, ...]) -> tuple[Rule, ...]:
    """Whole warp tiles must make up the block tile along M or N."""
    condition = f"Tile{axis} % (Warp{axis} * WarpTile{axis}) == 0"
    sentence = f"Whole warp tiles of all warps must cover Tile{axis}."
    words = f"whole warp tiles must cover Tile{axis}"
    asserted = f"{BLOCK}, static_assert 'Warps should cover all Block tile!'"
    low = axis.lower()
    return rules(
        f"""
        {low}-warps: {sentence}
            :must: {condition}  :blame: {", ".join(blame)}  :when: Pipeline in ('Mem', 'CompV3')  :source: {asserted}
        {low}-warps-unchecked: {sentence} This pipeline does not check it, and leaves out what is left over.
            :must: {condition}  :blame: {", ".join(blame)}  :when: Pipeline not in ('Mem', 'CompV3')  :is: warning host
            :asserted: {words}
            :source: {SHAPE}block/block_gemm_areg_breg_creg_v1.hpp, {axis}IterPerWarp is rounded down
        """
    )


RULES = (
    *rules(
        f"""
        tile-arch: {{target}} has neither MFMA nor the WMMA of gfx11 and gfx12: this kernel needs matrix instructions.
            :must: HasWmma or target in {MATRIX_ARCHS}  :when: PersistentBlocks >= 0  :is: every-arch
            :source: ck_tile/ops/gemm/warp/warp_gemm_attribute_{{mfma,wmma}}_impl.hpp, #if defined(__gfx…__)
        warp-tile: CK Tile has no warp tile {{WarpTile}} for the types {{ADataType}}, {{BDataType}} and {{AccDataType}}.
            :must: WarpTile in WarpTiles  :blame: {", ".join(_TILE)}
            :source: {DISPATCH}, no specialisation of WarpGemmDispatcher
        mixed-types: Mem and CompV3 multiply B in the type of A, {{ADataType}}, and read {{BDataType}} as if it were
            that.
            :must: ADataType == BDataType or Pipeline not in ('Mem', 'CompV3')  :blame: Pipeline  :after: warp-tile
            :is: warning host  :asserted: Mem and CompV3 multiply W in the type of X
            :source: {PIPELINE}{{mem,comp_v3}}.hpp, ComputeDataType
        warp-tile-instruction: {{target}} has no matrix instruction for {{ADataType}} in warp tiles {{WarpTile}}: CK
            Tile multiplies nothing.
            :must: WarpTile in InstructionTiles  :blame: WarpTileK, WarpTileM, WarpTileN  :after: warp-tile
            :is: warning  :asserted: the arch has no matrix instruction for this warp tile
            :source: {INSTRUCTIONS}, #if defined(__gfx…__)
        warp-tile-transposed: On gfx950 a column-major A or a row-major B is read transposed from LDS; CK Tile cannot
            read {{WarpTile}} so.
            :must: WarpTile in TransposedTiles  :blame: WarpTileK, WarpTileM, WarpTileN  :when: LoadsTransposed
            :after: warp-tile, warp-tile-instruction  :source: {DISPATCH}, no specialisation with this AttrNumAccess
        """
    ),
    *_covered("M", ("TileM", "WarpM", "WarpTileM")),
    *_covered("N", ("TileN", "WarpN", "WarpTileN")),
    *rules(
        f"""
        k-warp-tiles: Whole warp tiles must cover TileK; what is left over is not multiplied.
            :must: TileK % WarpTileK == 0  :blame: TileK, WarpTileK  :is: warning host
            :asserted: whole warp tiles must cover TileK  :source: {BLOCK}, KIterPerWarp is rounded down
        k-warps: Only CompV5 shares K among warps, two of them; with the other pipelines further warps would compute the
            same.
            :must: WarpK == WaveGroups  :blame: WarpK, Pipeline  :is: warning host
            :asserted: CompV5 has WarpK = 2, the other pipelines 1  :source: {BLOCK}, WarpK is not looked at
        v5-warps: CompV5 has two warps, which differ along K.
            :must: WarpM * WarpN == 1  :blame: WarpM, WarpN  :when: Pipeline == 'CompV5'  :is: warning host
            :asserted: CompV5 has one warp along M and N  :source: {PIPELINE}comp_v5.hpp, warp_id is 0 or 1
        pipeline-layouts: CompV5 and CompAsync take operands along which K is contiguous: neither transposes one.
            :must: ALayout == 'Row' and BLayout == 'Col'  :blame: Pipeline  :when: Pipeline in ('CompV5', 'CompAsync')
            :is: warning host  :asserted: CompV5 and CompAsync need a row-major X and a column-major W
            :source: ck_tile/core/tensor/transpose_tile.hpp, static_assert(in_offset % vec_length_in == 0);
                {PIPELINE}comp_async.hpp, windows of MPerBlock and KPerBlock whatever the layout
        v5-persistent: CompV5's warps no longer meet once one of them writes Y, so that a block computes one tile.
            :must: PersistentBlocks == 0  :blame: PersistentBlocks  :when: Pipeline == 'CompV5'  :is: warning host
            :asserted: CompV5 has no persistent form  :source: {PIPELINE}comp_v5.hpp, there is no UsePersistentKernel
        stream-k-pipeline: With Stream-K a block learns how many rounds it has while it runs, for which {{Pipeline}} has
            no form.
            :must: Pipeline in ('Mem', 'CompV3', 'CompV4')  :blame: Pipeline, StreamKBlocks  :when: StreamKBlocks > 0
            :is: warning host  :asserted: Stream-K needs Mem, CompV3 or CompV4
            :source: {PIPELINE}{{comp_v5,comp_v6,comp_async}}.hpp: BlockHasHotloop and TailHandler are the host's, and
                CompV5's warps no longer meet once one of them writes Y
        stream-k-persistent: Stream-K's blocks take tile after tile by themselves: PersistentBlocks or StreamKBlocks
            says how many.
            :must: PersistentBlocks == 0  :blame: PersistentBlocks, StreamKBlocks  :when: StreamKBlocks > 0
            :is: warning host  :asserted: StreamKBlocks are persistent: PersistentBlocks must be 0
            :source: {SHAPE}kernel/streamk_gemm_tile_partitioner.hpp, the grid is that of the partitioner
        tile-scheduler: Only Mem has a form for Interwave.
            :must: Scheduler == 'Intrawave' or Pipeline == 'Mem'  :blame: Scheduler, Pipeline
            :source: {PIPELINE}*.hpp, PipelineImpl is empty
        async-arch: CompAsync loads 16 bytes at once from memory to LDS, which gfx950 alone can do.
            :must: target == 'gfx950'  :blame: Pipeline  :when: Pipeline == 'CompAsync'
            :source: ck_tile/core/arch/amd_buffer_addressing.hpp, static_assert
        cshuffle-layout: CShuffle writes row-major matrices only; Default writes both.
            :must: CLayout == 'Row'  :blame: Epilogue  :when: Epilogue == 'CShuffle'
            :source: {SHUFFLE}, static_assert 'the CShuffle Epilogue only supports the Row Major Output layout'
        tile-block-size: A block has at most 1024 threads.
            :must: BlockSize <= 1024  :blame: WarpM, WarpN  :is: warning host
            :asserted: a block has at most 1024 threads
            :source: ck_tile/host/kernel_launch.hpp, __launch_bounds__: it compiles, and cannot be launched
        """
    ),
    *distribution_rules("A", "AAcross", "AAlong", ("TileK", "TileM")),
    *distribution_rules("B", "BAcross", "BAlong", ("TileK", "TileN")),
    *rules(
        f"""
        k-power-of-two: CK Tile permutes K in LDS against bank conflicts by XOR, which leaves the tile if it is not a
            power of two.
            :must: TileK in {tuple(2**exponent for exponent in range(2, 13))}  :blame: TileK
            :after: a-threads, b-threads, k-warp-tiles  :is: warning host  :asserted: TileK must be a power of two
            :source: {SHAPE}pipeline/gemm_universal_pipeline_ag_bg_cr_policy.hpp, make_xor_transform
        """
    ),
    *distribution_rules(
        "C",
        "NPerShuffle",
        "MPerShuffle",
        ("WarpN", "WarpM", "WarpTileN"),
        when="Epilogue == 'CShuffle' and CLayout == 'Row'",
    ),
    *rules(
        """
        tile-lds: {target} has {LdsLimit} bytes of LDS for a block.
            :must: Buffers * max(PipelineBytes, ResultBytes, ShuffleBytes) <= LdsLimit
            :blame: TileK, TileM, TileN, Pipeline  :after: m-warps, n-warps, warp-tile  :is: codegen
            :source: the code generator: local memory exceeds limit
        """
    ),
)

_HEADER = "ck_tile/ops/gemm/kernel/universal_gemm_kernel.hpp"
OPERATION = operation(NAME, _HEADER, PARAMETERS, DEFINITIONS, RULES, archs=("gfx9", *WMMA_ARCHS))
