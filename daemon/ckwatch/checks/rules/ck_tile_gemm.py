"""Rules of `CkTileGemm`: the universal GEMM of CK Tile 1.2.0 as `ck_tile/gemm_universal.hip.j2` puts it together.

A pipeline, a shape of tiles and an epilogue become a kernel; each of them has its conditions. What is copied to LDS and
to Y is laid out by one distribution of threads, whose rules hold for A, B and C alike (`distribution_rules`). Where CK
Tile leaves a function empty (a matrix instruction that the arch lacks) or takes a tile only in part, it compiles and
computes wrong results: those rules are warnings, and errors in a source that asserts them, as the template does.
"""

from __future__ import annotations

from collections.abc import Callable

from ckwatch.checks.rules.expression import Lookup, UnknownValueError, Value
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import ELEMENT_BYTES, LDS_BYTES, MATRIX_ARCHS
from ckwatch.checks.rules.rule import Definition, DeviceOperation, ParameterKind, Rule, TemplateParameter
from ckwatch.model.diagnostics import Severity
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

NAME = "CkTileGemm"

PIPELINES = ("Mem", "CompV3", "CompV4", "CompV5", "CompV6", "CompAsync")
"""`ck_tile/ops/gemm/pipeline/gemm_pipeline_ag_bg_cr_*.hpp`."""

SCHEDULERS = ("Intrawave", "Interwave")
EPILOGUES = ("Default", "CShuffle")

_POSITIVE = ParameterType(ValueKind.INTEGER, lowest=1, highest=INT32_MAX)
_COUNT = ParameterType(ValueKind.INTEGER, lowest=0, highest=INT32_MAX)
_FLAG = ParameterType(ValueKind.FLAG)


def _integer(name: str, default: str = "", *aliases: str, declared: ParameterType = _POSITIVE) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.INTEGER, default, declared, aliases=aliases)


def _flag(name: str, default: str = "", *aliases: str) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.FLAG, default, _FLAG, aliases=aliases)


def _word(name: str, enumeration: str, values: tuple[str, ...], *aliases: str) -> TemplateParameter:
    declared = ParameterType(ValueKind.CHOICE, values)
    return TemplateParameter(name, ParameterKind.ENUMERATOR, "", declared, enumeration, aliases)


PARAMETERS = (
    TemplateParameter("ALayout", ParameterKind.LAYOUT, aliases=("layout_a",)),
    TemplateParameter("BLayout", ParameterKind.LAYOUT, aliases=("layout_b",)),
    TemplateParameter("CLayout", ParameterKind.LAYOUT, aliases=("layout_c",)),
    TemplateParameter("ADataType", ParameterKind.DTYPE, aliases=("datatype_a",)),
    TemplateParameter("BDataType", ParameterKind.DTYPE, aliases=("datatype_b",)),
    TemplateParameter("AccDataType", ParameterKind.DTYPE),
    TemplateParameter("CDataType", ParameterKind.DTYPE, aliases=("datatype_c",)),
    *(_integer(f"Tile{axis}", "", f"{axis}_Tile") for axis in "MNK"),
    *(_integer(f"Warp{axis}", "", f"{axis}_Warp") for axis in "MNK"),
    *(_integer(f"WarpTile{axis}", "", f"{axis}_Warp_Tile") for axis in "MNK"),
    *(_flag(f"kPad{axis}", "", f"{axis}_is_padded", f"pad_{axis}") for axis in "MNK"),
    _word("Pipeline", "Pipeline", PIPELINES),
    _word("Scheduler", "GemmPipelineScheduler", SCHEDULERS),
    _word("Epilogue", "Epilogue", EPILOGUES),
    _flag("TransposeC", "false"),
    _integer("kBlockPerCu", "1"),
    _integer("TilePartitionerGroupNum", "8", "TileParitionerGroupNum"),
    _integer("TilePartitionerM01", "4", "TileParitionerM01"),
    _integer("PersistentBlocks", declared=_COUNT),
    _integer("StreamKBlocks", "0", declared=_COUNT),
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


def _number(lookup: Lookup, name: str) -> int:
    value = lookup(name)
    if not isinstance(value, int):
        raise UnknownValueError(name)
    return value


def _bytes_of(parameter: str) -> Definition:
    def compute(lookup: Lookup) -> Value:
        dtype = str(lookup(parameter))
        if dtype not in ELEMENT_BYTES:
            raise UnknownValueError(dtype)
        return ELEMENT_BYTES[dtype]

    return Definition(f"sizeof_{parameter}", f"sizeof({parameter})", f"bytes of one {parameter}", compute, (parameter,))


_TILE = ("WarpTileM", "WarpTileN", "WarpTileK")
_TYPES = ("ADataType", "BDataType", "AccDataType")


def _warp_tile(lookup: Lookup) -> Value:
    return "x".join(str(_number(lookup, name)) for name in _TILE)


def _tiles_of(lookup: Lookup, keep: Callable[[str], bool] = bool) -> tuple[str, ...]:
    a, b, accumulator = (str(lookup(name)) for name in _TYPES)
    transposed = lookup("TransposeC")
    tiles = WARP_TILES.get((a, b, accumulator), {})
    return tuple(tile for tile, both in tiles.items() if (both or not transposed) and keep(tile)) or ("none",)


def _instruction_tiles(lookup: Lookup) -> Value:
    target, dtype = str(lookup("target")), str(lookup("ADataType"))
    if dtype == "I8" and target not in ("gfx942", "gfx950"):
        return ("none",)
    only = _ONLY_TILES.get((target, dtype))
    without = _EMPTY_TILES.get((target, dtype), frozenset())
    return _tiles_of(lookup, lambda tile: tile not in without and (only is None or tile in only))


def _transposed_tiles(lookup: Lookup) -> Value:
    """By `wg_attr_num_access` of the pipelines' policies, of which WarpGemmDispatcher has few forms."""
    elements = 8 // _number(lookup, "sizeof_ADataType")
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


def _lds_limit(lookup: Lookup) -> Value:
    target = str(lookup("target"))
    if target not in LDS_BYTES:
        raise UnknownValueError("LdsLimit")
    return LDS_BYTES[target]


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
        Definition(
            across,
            f"TileK if {side}Layout == '{plain}' else Tile{rows}",
            f"contiguous elements of a block tile of {side}",
        ),
        Definition(along, f"Tile{rows} if {side}Layout == '{plain}' else TileK", f"lines of a block tile of {side}"),
        Definition(
            f"{side}PerThread", f"Tile{rows} * TileK / BlockSize", f"elements of {side} that a thread reads for a round"
        ),
        Definition(
            f"{side}Vector",
            _vector(across, f"{side}PerThread", f"sizeof_{side}DataType"),
            f"elements of {side} that a thread reads at once (GetVectorSize{side})",
        ),
        *_distribution(side, f"{side}Vector", across, along, "BlockSize", "Warps / WaveGroups"),
    )


def _distribution(what: str, vector: str, across: str, along: str, threads: str, warps: str) -> tuple[Definition, ...]:
    """How the threads of `warps` warps are laid out over a tile (tile_distribution_encoding_pattern_2d)."""
    return (
        Definition(
            f"{what}X1",
            f"min({vector}, {across} * {along} / ({threads}))",
            f"elements of {what} that a thread moves at once",
        ),
        Definition(f"{what}X0", f"{across} / {what}X1", f"threads along a line of {what}"),
        Definition(f"{what}Y1", f"64 / {what}X0", f"lines of {what} that a warp moves at once"),
        Definition(f"{what}Lines", f"{what}Y1 * ({warps})", f"lines of {what} that all warps move at once"),
    )


DEFINITIONS = (
    Definition("Warps", "WarpM * WarpN * WarpK", "warps of a block"),
    Definition("BlockSize", "Warps * 64", "threads of a block"),
    Definition("WaveGroups", "2 if Pipeline == 'CompV5' else 1", "groups of warps that take turns (NumWaveGroups)"),
    Definition("Buffers", "2 if Pipeline in ('CompV4', 'CompAsync') else 1", "buffers in LDS for the tiles of A and B"),
    *map(_bytes_of, ("ADataType", "BDataType", "AccDataType", "CDataType")),
    Definition(
        "WarpTile",
        "WarpTileMxWarpTileNxWarpTileK",
        "the tile of one matrix instruction, or of a few along K",
        _warp_tile,
        _TILE,
    ),
    Definition(
        "WarpTiles",
        "those of ADataType, BDataType and AccDataType",
        "the warp tiles that CK Tile has",
        _tiles_of,
        (*_TYPES, "TransposeC"),
    ),
    Definition(
        "InstructionTiles",
        "those of WarpTiles for which the arch has a matrix instruction",
        "the others are empty functions",
        _instruction_tiles,
        (*_TYPES, "TransposeC"),
    ),
    Definition(
        "LoadsTransposed",
        "target == 'gfx950' and Pipeline != 'CompV5' and (ALayout == 'Col' or BLayout == 'Row')",
        "1 where gfx950's transposing reads from LDS are used",
    ),
    Definition(
        "TransposedTiles",
        "those of WarpTiles that CK Tile can read transposed",
        "warp tiles for such operands",
        _transposed_tiles,
        (*_TYPES, "TransposeC"),
    ),
    *_operand("A", "M", "Row"),
    *_operand("B", "N", "Col"),
    Definition("AccumulatorsPerThread", "WarpTileM * WarpTileN / 64", "elements of C of a thread in one warp tile"),
    Definition(
        "CVector",
        "min(WarpTileN * WarpN if CLayout == 'Row' else WarpTileM * WarpM, 16 / sizeof_CDataType) "
        "if Epilogue == 'CShuffle' else 4 if (CLayout == 'Row') == TransposeC else 1",
        "elements of C that a thread writes at once (GetVectorSizeC)",
    ),
    Definition(
        "Shuffles", "max(1, CVector / AccumulatorsPerThread)", "warp tiles along M that CShuffle moves at once, at most"
    ),
    Definition(
        "ShufflesAlongM",
        "min(Shuffles, TileM / (WarpTileM * WarpM))",
        "warp tiles along M that CShuffle moves at once (NumMXdlPerWavePerShuffle)",
    ),
    Definition(
        "MPerShuffle",
        "WarpTileM * WarpM * (1 if TileM % (WarpTileM * WarpM * ShufflesAlongM) != 0 else ShufflesAlongM)",
        "rows of C that CShuffle moves through LDS at once (MPerIterationShuffle)",
    ),
    Definition(
        "NPerShuffle",
        "WarpTileN * WarpN",
        "columns of C that CShuffle moves through LDS at once (NPerIterationShuffle)",
    ),
    *_distribution("C", "CVector", "NPerShuffle", "MPerShuffle", "WarpM * WarpN * 64", "WarpM * WarpN"),
    Definition(
        "PipelineBytes",
        "TileK * (TileM * sizeof_ADataType + TileN * sizeof_BDataType)",
        "bytes of LDS for tiles of A and B",
    ),
    Definition(
        "ResultBytes",
        "TileM * TileN * sizeof_AccDataType if Pipeline == 'CompV5' else 0",
        "bytes of LDS in which CompV5's warps add their products",
    ),
    Definition(
        "ShuffleBytes",
        "MPerShuffle * NPerShuffle * sizeof_CDataType if Epilogue == 'CShuffle' else 0",
        "bytes of LDS for the epilogue",
    ),
    Definition("LdsLimit", "65536, on gfx950 163840", "bytes of LDS that one block may use", _lds_limit),
)


def distribution_rules(what: str, across: str, along: str, blame: tuple[str, ...], when: str = "1") -> tuple[Rule, ...]:
    """How the threads of a block are laid out over a tile of `what`."""
    low = what.lower()
    return (
        Rule(
            f"{low}-threads",
            f"{what}X0 * {what}Y1 == 64",
            blame,
            f"A line of {what}, {across} elements, is shared by {{{what}X0}} threads, which must divide a warp's 64.",
            f"{DISTRIBUTION}, static_assert 'X0 * Y1 must cover whole wavefront!'",
            when=when,
        ),
        Rule(
            f"{low}-lines",
            f"{along} % {what}Lines == 0",
            blame,
            f"The warps move {{{what}Lines}} lines of {what} at once, which must divide the tile's {along}.",
            f"{DISTRIBUTION}, static_assert 'Y0, Y1, Y2 must cover whole YPerTile'",
            when=when,
            after=(f"{low}-threads",),
        ),
    )


def _covered(axis: str, blame: tuple[str, ...]) -> tuple[Rule, ...]:
    """Whole warp tiles must make up the block tile along M or N."""
    condition = f"Tile{axis} % (Warp{axis} * WarpTile{axis}) == 0"
    sentence = f"Whole warp tiles of all warps must cover Tile{axis}."
    words = f"whole warp tiles must cover Tile{axis}"
    asserted = f"{BLOCK}, static_assert 'Warps should cover all Block tile!'"
    low = axis.lower()
    return (
        Rule(f"{low}-warps", condition, blame, sentence, asserted, when="Pipeline in ('Mem', 'CompV3')"),
        Rule(
            f"{low}-warps-unchecked",
            condition,
            blame,
            f"{sentence} This pipeline does not check it, and leaves out what is left over.",
            SHAPE + f"block/block_gemm_areg_breg_creg_v1.hpp, {axis}IterPerWarp is rounded down",
            when="Pipeline not in ('Mem', 'CompV3')",
            severity=Severity.WARNING,
            asserted_by=words,
            host=True,
        ),
    )


RULES = (
    Rule(
        "tile-arch",
        f"target in {MATRIX_ARCHS}",
        (),
        "{target} has no MFMA: this kernel needs matrix instructions of waves of 64 lanes.",
        "ck_tile/core/arch/arch.hpp, get_warp_size",
        when="PersistentBlocks >= 0",
        every_arch=True,
    ),
    Rule(
        "warp-tile",
        "WarpTile in WarpTiles",
        _TILE,
        "CK Tile has no warp tile {WarpTile} for the types {ADataType}, {BDataType} and {AccDataType}.",
        f"{DISPATCH}, no specialisation of WarpGemmDispatcher",
    ),
    Rule(
        "mixed-types",
        "ADataType == BDataType or Pipeline not in ('Mem', 'CompV3')",
        ("Pipeline",),
        "Mem and CompV3 multiply B in the type of A, {ADataType}, and read {BDataType} as if it were that.",
        PIPELINE + "{mem,comp_v3}.hpp, ComputeDataType",
        after=("warp-tile",),
        severity=Severity.WARNING,
        asserted_by="Mem and CompV3 multiply W in the type of X",
        host=True,
    ),
    Rule(
        "warp-tile-instruction",
        "WarpTile in InstructionTiles",
        ("WarpTileK", "WarpTileM", "WarpTileN"),
        "{target} has no matrix instruction for {ADataType} in warp tiles {WarpTile}: CK Tile multiplies nothing.",
        f"{INSTRUCTIONS}, #if defined(__gfx…__)",
        after=("warp-tile",),
        severity=Severity.WARNING,
        asserted_by="the arch has no matrix instruction for this warp tile",
    ),
    Rule(
        "warp-tile-transposed",
        "WarpTile in TransposedTiles",
        ("WarpTileK", "WarpTileM", "WarpTileN"),
        "On gfx950 a column-major A or a row-major B is read transposed from LDS; CK Tile cannot read {WarpTile} so.",
        f"{DISPATCH}, no specialisation with this AttrNumAccess",
        when="LoadsTransposed",
        after=("warp-tile", "warp-tile-instruction"),
    ),
    *_covered("M", ("TileM", "WarpM", "WarpTileM")),
    *_covered("N", ("TileN", "WarpN", "WarpTileN")),
    Rule(
        "k-warp-tiles",
        "TileK % WarpTileK == 0",
        ("TileK", "WarpTileK"),
        "Whole warp tiles must cover TileK; what is left over is not multiplied.",
        f"{BLOCK}, KIterPerWarp is rounded down",
        severity=Severity.WARNING,
        asserted_by="whole warp tiles must cover TileK",
        host=True,
    ),
    Rule(
        "k-warps",
        "WarpK == WaveGroups",
        ("WarpK", "Pipeline"),
        "Only CompV5 shares K among warps, two of them; with the other pipelines further warps would compute the same.",
        f"{BLOCK}, WarpK is not looked at",
        severity=Severity.WARNING,
        asserted_by="CompV5 has WarpK = 2, the other pipelines 1",
        host=True,
    ),
    Rule(
        "v5-warps",
        "WarpM * WarpN == 1",
        ("WarpM", "WarpN"),
        "CompV5 has two warps, which differ along K.",
        f"{PIPELINE}comp_v5.hpp, warp_id is 0 or 1",
        when="Pipeline == 'CompV5'",
        severity=Severity.WARNING,
        asserted_by="CompV5 has one warp along M and N",
        host=True,
    ),
    Rule(
        "pipeline-layouts",
        "ALayout == 'Row' and BLayout == 'Col'",
        ("Pipeline",),
        "CompV5 and CompAsync take operands along which K is contiguous: neither transposes one.",
        "ck_tile/core/tensor/transpose_tile.hpp, static_assert(in_offset % vec_length_in == 0); "
        f"{PIPELINE}comp_async.hpp, windows of MPerBlock and KPerBlock whatever the layout",
        when="Pipeline in ('CompV5', 'CompAsync')",
        severity=Severity.WARNING,
        asserted_by="CompV5 and CompAsync need a row-major X and a column-major W",
        host=True,
    ),
    Rule(
        "v5-persistent",
        "PersistentBlocks == 0",
        ("PersistentBlocks",),
        "CompV5's warps no longer meet once one of them writes Y, so that a block computes one tile.",
        f"{PIPELINE}comp_v5.hpp, there is no UsePersistentKernel",
        when="Pipeline == 'CompV5'",
        severity=Severity.WARNING,
        asserted_by="CompV5 has no persistent form",
        host=True,
    ),
    Rule(
        "stream-k-pipeline",
        "Pipeline in ('Mem', 'CompV3', 'CompV4')",
        ("Pipeline", "StreamKBlocks"),
        "With Stream-K a block learns how many rounds it has while it runs, for which {Pipeline} has no form.",
        f"{PIPELINE}{{comp_v5,comp_v6,comp_async}}.hpp: BlockHasHotloop and TailHandler are the host's, and CompV5's "
        "warps no longer meet once one of them writes Y",
        when="StreamKBlocks > 0",
        severity=Severity.WARNING,
        asserted_by="Stream-K needs Mem, CompV3 or CompV4",
        host=True,
    ),
    Rule(
        "stream-k-persistent",
        "PersistentBlocks == 0",
        ("PersistentBlocks", "StreamKBlocks"),
        "Stream-K's blocks take tile after tile by themselves: PersistentBlocks or StreamKBlocks says how many.",
        SHAPE + "kernel/streamk_gemm_tile_partitioner.hpp, the grid is that of the partitioner",
        when="StreamKBlocks > 0",
        severity=Severity.WARNING,
        asserted_by="StreamKBlocks are persistent: PersistentBlocks must be 0",
        host=True,
    ),
    Rule(
        "tile-scheduler",
        "Scheduler == 'Intrawave' or Pipeline == 'Mem'",
        ("Scheduler", "Pipeline"),
        "Only Mem has a form for Interwave.",
        f"{PIPELINE}*.hpp, PipelineImpl is empty",
    ),
    Rule(
        "async-arch",
        "target == 'gfx950'",
        ("Pipeline",),
        "CompAsync loads 16 bytes at once from memory to LDS, which gfx950 alone can do.",
        "ck_tile/core/arch/amd_buffer_addressing.hpp, static_assert",
        when="Pipeline == 'CompAsync'",
    ),
    Rule(
        "cshuffle-layout",
        "CLayout == 'Row'",
        ("Epilogue",),
        "CShuffle writes row-major matrices only; Default writes both.",
        f"{SHUFFLE}, static_assert 'the CShuffle Epilogue only supports the Row Major Output layout'",
        when="Epilogue == 'CShuffle'",
    ),
    Rule(
        "tile-block-size",
        "BlockSize <= 1024",
        ("WarpM", "WarpN"),
        "A block has at most 1024 threads.",
        "ck_tile/host/kernel_launch.hpp, __launch_bounds__: it compiles, and cannot be launched",
        severity=Severity.WARNING,
        asserted_by="a block has at most 1024 threads",
        host=True,
    ),
    *distribution_rules("A", "AAcross", "AAlong", ("TileK", "TileM")),
    *distribution_rules("B", "BAcross", "BAlong", ("TileK", "TileN")),
    Rule(
        "k-power-of-two",
        f"TileK in {tuple(2**exponent for exponent in range(2, 13))}",
        ("TileK",),
        "CK Tile permutes K in LDS against bank conflicts by XOR, which leaves the tile if it is not a power of two.",
        SHAPE + "pipeline/gemm_universal_pipeline_ag_bg_cr_policy.hpp, make_xor_transform",
        after=("a-threads", "b-threads", "k-warp-tiles"),
        severity=Severity.WARNING,
        asserted_by="TileK must be a power of two",
        host=True,
    ),
    *distribution_rules(
        "C",
        "NPerShuffle",
        "MPerShuffle",
        ("WarpN", "WarpM", "WarpTileN"),
        when="Epilogue == 'CShuffle' and CLayout == 'Row'",
    ),
    Rule(
        "tile-lds",
        "Buffers * max(PipelineBytes, ResultBytes, ShuffleBytes) <= LdsLimit",
        ("TileK", "TileM", "TileN", "Pipeline"),
        "{target} has {LdsLimit} bytes of LDS for a block.",
        "the code generator: local memory exceeds limit",
        codegen=True,
        after=("m-warps", "n-warps", "warp-tile"),
    ),
)

OPERATION = DeviceOperation(
    NAME,
    "ck_tile/ops/gemm/kernel/universal_gemm_kernel.hpp",
    {parameter.name: parameter for parameter in PARAMETERS},
    {definition.name: definition for definition in DEFINITIONS},
    RULES,
)
