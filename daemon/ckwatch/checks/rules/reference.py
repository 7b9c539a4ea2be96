"""Rules and parameters in words, for hover, completion and the page `docs/rules.md`.

What one parameter takes part in, what the template parameters of Composable Kernel mean, and which values they may
have. `ParameterDescription.values` are those that CK's headers know, as kernel files write them; where there are too
many to list, none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ckwatch.checks.rules.checker import OPERATIONS
from ckwatch.checks.rules.ck_tile_fmha import PIPELINES as FMHA_PIPELINES
from ckwatch.checks.rules.ck_tile_gemm import EPILOGUES
from ckwatch.checks.rules.ck_tile_gemm import PIPELINES as CK_TILE_PIPELINES
from ckwatch.checks.rules.ck_tile_normalization import VECTORS as NORM_VECTORS
from ckwatch.checks.rules.gemm_mx_xdl_cshuffle_v3 import C_VECTOR, PIPELINE_VERSIONS
from ckwatch.checks.rules.gemm_wmma_cshuffle_v3 import C_VECTOR as WMMA_C_VECTOR
from ckwatch.checks.rules.gemm_wmma_cshuffle_v3 import CDE_CLUSTER as WMMA_CDE_CLUSTER
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import (
    A_CLUSTER,
    B_CLUSTER,
    C_CLUSTER,
    C_VECTORS,
    GEMM_SPECIALIZATIONS,
    PIPELINES,
    SCHEDULERS,
)
from ckwatch.checks.rules.grouped_conv_fwd_xdl_cshuffle_v3 import CDE_CLUSTER, CDE_VECTOR, SPECIALIZATIONS
from ckwatch.checks.rules.rule import Definition, DeviceOperation, ParameterKind, Rule, blocks
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass

_PAGE_HEAD = """\
# Instance rules

What makes Composable Kernel reject an instance is checked before a compiler runs. Each rule mirrors a check in CK's
headers, or something that cannot be instantiated, and names it. Instances are found in the rendered C++, by the
comments that name their arguments (`/* MPerBlock */ 128`, or `/* m_per_block */ 128` as PyTorch Inductor writes
them), or by position; a constant that is defined once in the text stands for its value. A rule is silent when it
cannot read an argument (an alias, an expression in C++), and a hint says so ([not-checked](#not-checked)). **A rule
never rejects an instance that compiles**; warnings are for instances that compile and do not do what they say, or do
it slowly. The diagnostic's code is `rule/` and the rule's name.

A condition reads as in C++: `/` is integer division. Names that are no template parameters are defined in a table
after the rules of their operation. "Host and device" says which compiler passes would find the mistake: most are
found only by the device pass, seconds later.

Any parameter of a condition can be the mistake. The one that is underlined was changed since the unit last passed, if
the daemon saw that; else one other value of it mends all that is broken, here and in the instances that take it from
the same place. Of several such parameters it is the one that differs from its counterpart (`AK1` from `BK1`), is no
power of two, or has a value that is rare among the kernel's instances. The fix is a value with which no rule is broken.

### `not-checked`

A hint at the kernel file's `template`: which device operations have no rules, and which arguments could not be read.
Only the compiler checks those.

### `refused-shape`

A warning at a `[[shape]]` of the kernel file: which of its instances would compute nothing on it, why, and what to
write instead. It is what CK checks when the kernel is called; an instance that has errors is not counted.

### `ck-arch`

An error at the arch, for a source that includes CK's headers, where these do not look at the arch's macro: the compiler
may know gfx1250, the headers of CK 1.2.0 do not. Read are `ck/ck.hpp` and `ck_tile/core/config.hpp` of the headers that
the compile would find. Templates without its headers (`hip/gemm_tiled.hip.j2`, one's own) compile.

### `ck-feature`

An error where CK's headers lack what a unit needs: a header, a class template or one of its parameters; or HIP's lack
what a header of CK uses. It names the feature, the header, and what is known to have it; nothing else is said of the
unit, and no compiler is started. A sweep skips such combinations.
The features are listed in [the toolchain](toolchain.md#which-composable-kernel).

This page is written by `python -m ckwatch.checks.rules`. How the rules were compared with the compiler is in
`benchmarks/rules_against_hipcc.py`.
"""


def rules_of(device_operation: str, parameter: str) -> tuple[Rule, ...]:
    """The rules that `parameter` takes part in, through definitions too; none for an unknown operation."""
    operation = OPERATIONS.get(device_operation)
    if operation is None:
        return ()
    return tuple(rule for rule in operation.rules if parameter in operation.parameters_of(rule.names))


def rules_page() -> str:
    """The text of `docs/rules.md`."""
    before: list[DeviceOperation] = []
    sections = [_PAGE_HEAD]
    for operation in OPERATIONS.values():
        sections.append(_operation_section(operation, before))
        before.append(operation)
    return "\n".join(sections)


def _operation_section(operation: DeviceOperation, before: Sequence[DeviceOperation]) -> str:
    """Describe the rules of an operation; those that it shares with one of the operations `before` it are described
    there."""
    parts = [f"## {operation.name}\n", f"`{operation.header}`, Composable Kernel 7.2.\n"]
    known: set[Rule | Definition] = set()
    for other in before:
        common = [rule for rule in operation.rules if rule in other.rules and rule not in known]
        known.update(common, (one for one in operation.definitions.values() if one in other.definitions.values()))
        if common:
            slugs = ", ".join(f"[`{rule.slug}`](#{rule.slug})" for rule in common)
            named = "all" if len(common) == len(other.rules) else slugs
            parts.append(f"Rules of {other.name} that hold here, too: {named}.\n")
    parts += [_rule_section(rule) for rule in operation.rules if rule not in known]
    definitions = [definition for definition in operation.definitions.values() if definition not in known]
    if definitions:
        parts += ["### Definitions\n", "| name | formula | meaning |", "|---|---|---|"]
    parts += [f"| `{definition.name}` | `{definition.formula}` | {definition.meaning} |" for definition in definitions]
    return "\n".join(parts) + "\n"


def _rule_section(rule: Rule) -> str:
    explanation = rule.explanation.replace("{target}", "The arch").replace("{", "").replace("}", "")
    where = "code generation" if rule.codegen else "host and device" if rule.host else "device only"
    lines = [f"### `{rule.slug}`\n", f"`{rule.condition}`\n", explanation, ""]
    if rule.when != "1":
        lines.append(f"- Applies when `{rule.when}`.")
    outcome = "found by " + where if rule.severity == "error" else "a warning: it compiles"
    if rule.asserted_by:
        outcome += ", unless the template itself asserts it, as `ck/gemm_universal.hip.j2` does; there it is an error"
    lines += [f"- Source: {rule.source}.", f"- {outcome[0].upper()}{outcome[1:]}.", ""]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ParameterDescription:
    """A parameter for people: what it is, and the values that it may have."""

    doc: str
    values: tuple[ParameterValue, ...] = ()


def _described(text: str) -> dict[str, ParameterDescription]:
    """Read descriptions from text: `name: sentences | (1, 2, 4)` each, the values if there are some."""
    found = {}
    for block in blocks(text):
        name, _, description = block.partition(": ")
        doc, _, values = description.partition(" | ")
        found[name] = ParameterDescription(doc, ast.literal_eval(values) if values else ())
    return found


_GEMM_SPECS = tuple(name for name in GEMM_SPECIALIZATIONS if "O" not in name)
"""Those of a GEMM: O is the third dimension of two GEMMs in a row."""

_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
_DTYPES = ("F16", "BF16", "F32", "F8", "BF8", "I8")


def _operand_descriptions(
    side: str, rows: str, operand: str, contiguous: str, cluster: str
) -> dict[str, ParameterDescription]:
    """How a block copies one operand to LDS."""
    k0, k1, transfer = f"{side}K0", f"{side}K1", f"{side}BlockTransfer"
    order = f"the dimensions {k0}, {rows} and {k1} as 0, 1 and 2, each once, the fastest last"
    return _described(
        f"""
        {cluster}: How the threads of a block are laid out over its tile of {side} ({operand}), as {k0}, {rows}, {k1};
            the product is at most `BlockSize`.
        {transfer}ThreadClusterArrangeOrder: In which order the threads of the cluster are counted: {order}. | {_ORDERS}
        {transfer}SrcAccessOrder: In which order a thread walks its part of {side} in global memory: {order}. |
            {_ORDERS}
        {transfer}SrcVectorDim: The dimension of {operand} along which vectors are read, which must be the contiguous
            one: {contiguous}. | (1, 2)
        {transfer}SrcScalarPerVector: Elements of {operand} that a thread reads from global memory at once. |
            (1, 2, 4, 8, 16)
        {transfer}DstScalarPerVector_{k1}: Elements of {side} that a thread writes to LDS at once, along {k1}. |
            (1, 2, 4, 8, 16)
        {side}BlockLdsExtra{rows}: Whether the tile of {side} in LDS is padded against bank conflicts. | (True, False)
        {k1}: Elements of {operand} along K that lie together in LDS. | (1, 2, 4, 8, 16, 32)
        """
    )


_GEMM_XDL_CSHUFFLE_V3: Mapping[str, ParameterDescription] = {
    **_described(
        f"""
        GemmSpec: Sizes that need not be multiples of the tile: those that are named are padded. `Default` pads none. |
            {_GEMM_SPECS}
        BlockSize: Threads of a block, a multiple of 64. | (64, 128, 192, 256, 512, 1024)
        MPerBlock: Rows of Y that one block computes.
        NPerBlock: Columns of Y that one block computes.
        KPerBlock: How deep along K the tiles of X and W in LDS are.
        MPerXDL: Rows of the tile of one matrix instruction (MFMA). | (4, 8, 16, 32, 64)
        NPerXDL: Columns of the tile of one matrix instruction (MFMA). | (16, 32, 64)
        MXdlPerWave: Tiles of the matrix instruction that one wave computes along M.
        NXdlPerWave: Tiles of the matrix instruction that one wave computes along N. CK 7.2 works it out from the other
            parameters.
        """
    ),
    **_operand_descriptions("A", "M", "X", "2 where it is row-major, 1 where it is column-major", A_CLUSTER),
    **_operand_descriptions("B", "N", "W", "1 where it is row-major, 2 where it is column-major", B_CLUSTER),
    **_described(
        f"""
        CShuffleMXdlPerWavePerShuffle: Tiles along M of each wave that go through LDS at once on the way out.
        CShuffleNXdlPerWavePerShuffle: Tiles along N of each wave that go through LDS at once on the way out.
        {C_CLUSTER}: How the threads of a block are laid out over the part of Y that goes through LDS, as MBlock,
            MPerBlock, NBlock, NPerBlock; the product is `BlockSize`.
        {C_VECTORS}: Elements of Y that a thread writes at once, `[n]` or `n`. The template adds the widths of the D
            tensors.
        BlkGemmPipeSched: How a block overlaps loads with matrix instructions: within a wave, or between waves (v1 and
            v2 only). | {SCHEDULERS}
        BlkGemmPipelineVer: The block's pipeline: v1 is the plain one, v2 is for memory-bound problems, v3 to v5 are for
            compute-bound ones; v4 has two buffers in LDS, v5 two in registers for what it prefetches. | {PIPELINES}
        CShuffleDataType: Type in which Y goes through LDS. Default: the accumulator's if there is an epilogue, else
            Y's. | {_DTYPES}
        ComputeTypeA: Type that X is multiplied in. Default: the wider of X's and W's types. | {_DTYPES}
        ComputeTypeB: Type that W is multiplied in. Default: the wider of X's and W's types. | {_DTYPES}
        """
    ),
}

_GEMM_WMMA_CSHUFFLE_V3: Mapping[str, ParameterDescription] = {
    **{
        WMMA_C_VECTOR if name == C_VECTORS else name: one
        for name, one in _GEMM_XDL_CSHUFFLE_V3.items()
        if "Xdl" not in name and "XDL" not in name
    },
    **_described(
        """
        BlockSize: Threads of a block, a multiple of 32. | (32, 64, 128, 256)
        MPerWmma: Rows of the tile of one matrix instruction (WMMA). | (16,)
        NPerWmma: Columns of the tile of one matrix instruction (WMMA). | (16,)
        MRepeat: Tiles of the matrix instruction that one wave computes along M.
        NRepeat: Tiles of the matrix instruction that one wave computes along N.
        CShuffleMRepeatPerShuffle: Tiles along M of each wave that go through LDS at once on the way out.
        CShuffleNRepeatPerShuffle: Tiles along N of each wave that go through LDS at once on the way out.
        BlkGemmPipeSched: How a block overlaps loads with matrix instructions: within a wave, or between waves (v1
            only). | ('Intrawave', 'Interwave')
        BlkGemmPipelineVer: The block's pipeline: v1 is the plain one, v3 is for compute-bound problems. | ('v1', 'v3')
        PermuteA: Whether X lies in the order of block tiles, which CK cannot read yet. | (False,)
        PermuteB: Whether W lies in the order of block tiles. | (True, False)
        """
    ),
}

_GEMM_MX_XDL_CSHUFFLE_V3: Mapping[str, ParameterDescription] = {
    **{
        name: one
        for name, one in _GEMM_XDL_CSHUFFLE_V3.items()
        if name not in (C_VECTORS, "ComputeTypeA", "ComputeTypeB")
    },
    **_described(
        f"""
        KPerBlock: How deep along K the tiles of X and W in LDS are, in bytes.
        BlkGemmPipelineVer: The block's pipeline: v1 is the plain one, v3 has two buffers in LDS. | {PIPELINE_VERSIONS}
        BlkGemmPipeSched: How a block overlaps loads with matrix instructions. | ('Intrawave',)
        {C_VECTOR}: Elements of Y that a thread writes at once. | (1, 2, 4, 8, 16)
        """
    ),
}

_GROUPED_CONV_FWD_XDL_CSHUFFLE_V3: Mapping[str, ParameterDescription] = {
    **_described(
        f"""
        ConvForwardSpecialization: What the convolution is known to be: filters of one element without pads
            (Filter1x1Pad0), without strides too (Filter1x1Stride1Pad0), or of three along each axis on one channel per
            group (Filter3x3). Others are refused. OddC is as Default. | {SPECIALIZATIONS}
        """
    ),
    **{
        name: one
        for name, one in _GEMM_XDL_CSHUFFLE_V3.items()
        if name not in (C_CLUSTER, C_VECTORS, "ComputeTypeA", "ComputeTypeB")
    },
    **_described(
        f"""
        GemmSpec: Sizes that need not be multiples of the tile: those that are named are padded. M are the pixels of Y,
            N its channels, K the taps · channels of X. | {_GEMM_SPECS}
        MPerBlock: Pixels of Y that one block computes.
        NPerBlock: Channels of Y that one block computes.
        KPerBlock: How many taps · channels the tiles of X and W in LDS have.
        """
    ),
    **{
        f"{side}BlockTransferSrcVectorDim": ParameterDescription(
            f"The dimension of {tensor} along which vectors are read: 2, the channels.", (2,)
        )
        for side, tensor in (("A", "X"), ("B", "W"))
    },
    CDE_CLUSTER: _GEMM_XDL_CSHUFFLE_V3[C_CLUSTER],
    **_described(
        f"""
        {CDE_VECTOR}: Channels of Y and Bias that a thread writes and reads at once. NGCHW is transposed in vectors of
            as many. | (1, 2, 4, 8, 16)
        AComputeDataType: Type that X is multiplied in. Default: X's. | {_DTYPES}
        BComputeDataType: Type that W is multiplied in. Default: as `AComputeDataType`. | {_DTYPES}
        DirectLoad: Whether X and W go to LDS without registers between: on gfx950 only, with the pipelines v1 and v4. |
            (True, False)
        """
    ),
}

_CK_TILE_GEMM: Mapping[str, ParameterDescription] = _described(
    f"""
    TileM: Rows of Y that a block computes at once.
    TileN: Columns of Y that a block computes at once.
    TileK: How deep along K the tiles of X and W in LDS are.
    WarpM: Warps of a block along M. | (1, 2, 4, 8)
    WarpN: Warps of a block along N. | (1, 2, 4, 8)
    WarpK: Warps of a block along K: 2 with CompV5, else 1. | (1, 2)
    WarpTileM: Rows of a warp's matrix instruction (MFMA). | (4, 16, 32, 64)
    WarpTileN: Columns of a warp's matrix instruction (MFMA). | (4, 16, 32, 64)
    WarpTileK: Elements along K of a warp's matrix instruction; CK Tile makes the larger ones of several where the arch
        has none. | (4, 8, 16, 32, 64, 128)
    kPadM: True if M need not be a multiple of TileM; without it, M must be one where X or Y is column-major. |
        (True, False)
    kPadN: True if N need not be a multiple of TileN; without it, N must be one where W or Y is row-major. |
        (True, False)
    kPadK: True if K need not be a multiple of TileK; without it, K must be one where X is row-major or W column-major.
        | (True, False)
    Pipeline: How a block overlaps loads with matrix instructions: Mem is for memory-bound problems, CompV3 to CompV6
        for compute-bound ones. CompV4 has two buffers in LDS, CompV5 two warps that take turns, CompV6 loads three
        rounds ahead; CompAsync, on gfx950, loads to LDS without registers. | {CK_TILE_PIPELINES}
    Scheduler: Within a warp (Intrawave), or between warps (Mem only). | {SCHEDULERS}
    Epilogue: How Y is written: as the accumulators lie in registers (Default), or through LDS, 16 bytes at once
        (CShuffle, row-major only). | {EPILOGUES}
    TransposeC: Whether a thread's accumulators lie along N instead of M: Default then writes four elements of a row at
        once. | (True, False)
    kBlockPerCu: Waves per SIMD that the registers must leave room for; CK Tile calls it blocks per compute unit. |
        (1, 2, 3, 4)
    TilePartitionerGroupNum: Groups of blocks that work on neighbouring tiles, for the caches of the dies. |
        (1, 4, 8, 16)
    TilePartitionerM01: Tiles along M that a group takes in turn. | (1, 2, 4, 8)
    PersistentBlocks: Blocks of a persistent kernel, each of which computes tile after tile: about as many as run at
        once. 0: as many blocks as there are tiles.
    StreamKBlocks: Blocks that share the rounds along K of all tiles: about as many as run at once. 0: a tile is one
        block's.
    """
)

_MOE_GEMM: Mapping[str, ParameterDescription] = {
    **_GEMM_XDL_CSHUFFLE_V3,
    **_described(
        f"""
        MPerBlock: Sorted pairs of a token and an expert that one block computes: block_m.
        NSwizzle: The order of blocks by the tiles of each expert, which is no input here. | (False,)
        CShuffleDataType: Type in which Y goes through LDS. Default: F32. | {_DTYPES}
        """
    ),
}

_CK_TILE_NORMALIZATION: Mapping[str, ParameterDescription] = _described(
    f"""
    Repeat_M: Rows that each thread takes part in. | (1, 2, 4)
    Repeat_N: Vectors of a row that each thread reads in one pass. | (1, 2, 3, 4, 5, 6, 8)
    ThreadPerBlock_M: Rows that the threads of a block share at once. | (1, 2, 4, 8, 16)
    ThreadPerBlock_N: Threads that share a row: up to 64 of one wave, which exchange sums in registers, or whole waves,
        which exchange them through LDS. | (4, 8, 16, 32, 64, 128, 256, 512, 1024)
    Vector_N: Elements that a thread reads at once; N must be a multiple. | {NORM_VECTORS}
    kPadN: True if N need not be a multiple of Repeat_N * ThreadPerBlock_N * Vector_N. | (True, False)
    kTwoPass: Whether rows are read twice, first for the sums, so that they may be of any length. One pass keeps a row
        in registers. | (True, False)
    kBlockPerCu: Waves per SIMD that the registers must leave room for; CK Tile calls it blocks per compute unit. |
        (1, 2, 4, 8)
    """
)

_CK_TILE_FMHA: Mapping[str, ParameterDescription] = _described(
    f"""
    kM0: Queries that one block computes. | (16, 32, 64, 128, 256)
    kN0: Keys that a block takes at once. | (32, 64, 128, 256)
    kK0: Elements of a head by which Q and K are multiplied at once. | (16, 32, 64, 128)
    kN1: Elements of a head of V and O, padded. | (32, 64, 128, 192, 256)
    kK1: Keys by which probabilities and V are multiplied at once. | (16, 32, 64)
    kQKHeaddim: Elements of a head of Q and K, padded. | (32, 48, 64, 96, 128, 160, 192, 256)
    Gemm0BlockWarps: Warps of a block that multiply Q and K: along queries, 1 and 1.
    Gemm0WarpTile: The tile of a warp's matrix product for Q and K: M, N and K.
    Gemm1BlockWarps: Warps that multiply probabilities and V, as Gemm0BlockWarps.
    Gemm1WarpTile: The tile of a warp's matrix product for V, as Gemm0WarpTile.
    kPadSeqLenQ: True if the length of Q need not be a multiple of kM0. | (True, False)
    kPadSeqLenK: True if the length of K need not be a multiple of kN0. | (True, False)
    kPadHeadDimQ: Whether a head of Q and K need not fill kQKHeaddim; with qr, elements are then read one by one. |
        (True, False)
    kPadHeadDimV: Whether a head of V need not fill kN1; with qr, elements are then read and written one by one. |
        (True, False)
    Pipeline: How K and V are loaded: through registers (qr), K past them into LDS (qr_async), or, on gfx950, both and V
        read from there transposed (qr_async_trload). Q stays in registers. | {FMHA_PIPELINES}
    kBlockPerCu: Waves per SIMD that the registers must leave room for; CK Tile calls it blocks per compute unit, and
        chooses it where it is −1. | (-1, 1, 2, 3, 4)
    """
)

_CK_TILE_LAYERNORM: Mapping[str, ParameterDescription] = {
    **_CK_TILE_NORMALIZATION,
    **_described(
        """
        kFastFDiv: Whether divisions are by the approximate reciprocal. | (True, False)
        kWelford: Whether the variance is of the distances from the mean (Welford's algorithm), or the mean of squares
            less the square of the mean, which is faster and less exact. | (True, False)
        """
    ),
}

DESCRIPTIONS: Mapping[str, Mapping[str, ParameterDescription]] = {
    "DeviceGemmMultiD_Xdl_CShuffle_V3": _GEMM_XDL_CSHUFFLE_V3,
    "DeviceBatchedGemmMultiD_Xdl_CShuffle_V3": _GEMM_XDL_CSHUFFLE_V3,
    "DeviceGemmMultiD_Xdl_CShuffle_V3_BPreshuffle": _GEMM_XDL_CSHUFFLE_V3,
    "DeviceGemmMX_Xdl_CShuffleV3": _GEMM_MX_XDL_CSHUFFLE_V3,
    "DeviceGemmMultiD_ABScale_Xdl_CShuffle_V3": _GEMM_XDL_CSHUFFLE_V3,
    "DeviceGroupedConvFwdMultipleABD_Xdl_CShuffle_V3": _GROUPED_CONV_FWD_XDL_CSHUFFLE_V3,
    "DeviceMoeGemm": _MOE_GEMM,
    **dict.fromkeys(("DeviceGemm_Wmma_CShuffleV3", "DeviceBatchedGemm_Wmma_CShuffleV3"), _GEMM_WMMA_CSHUFFLE_V3),
    "DeviceGemmMultipleD_Wmma_CShuffleV3": {
        {C_CLUSTER: WMMA_CDE_CLUSTER, WMMA_C_VECTOR: C_VECTORS}.get(name, name): one
        for name, one in _GEMM_WMMA_CSHUFFLE_V3.items()
    },
    "CkTileGemm": _CK_TILE_GEMM,
    "CkTileFmhaForward": _CK_TILE_FMHA,
    "CkTileRmsnorm2d": {
        name: text for name, text in _CK_TILE_NORMALIZATION.items() if name not in ("kFastFDiv", "kWelford")
    },
    "CkTileLayernorm2d": _CK_TILE_LAYERNORM,
}

KIND_NAMES: Mapping[ParameterKind, str] = {
    ParameterKind.INTEGER: "integer",
    ParameterKind.FLAG: "true or false",
    ParameterKind.SEQUENCE: "array of integers",
    ParameterKind.DTYPE: "string",
    ParameterKind.LAYOUT: "string",
    ParameterKind.ENUMERATOR: "string",
    ParameterKind.TYPES: "string",
    ParameterKind.OTHER: "string",
}
"""How a kernel file writes a parameter of a kind."""


def parameter_description(device_operation: str, parameter: str) -> ParameterDescription | None:
    """Describe a parameter of a device operation; None for one that kernel files do not give."""
    return DESCRIPTIONS.get(device_operation, {}).get(parameter)


def parameter_kind_name(device_operation: str, parameter: str) -> str:
    """How a kernel file writes the parameter, in words; empty for an unknown one."""
    operation = OPERATIONS.get(device_operation)
    found = None if operation is None else operation.parameters.get(parameter)
    return "" if found is None else KIND_NAMES[found.kind]
