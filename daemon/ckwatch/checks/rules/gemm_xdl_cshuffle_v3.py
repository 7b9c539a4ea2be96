"""Parameters and derived quantities of `DeviceGemmMultiD_Xdl_CShuffle_V3`, as its headers compute them.

The rules over them are in `ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules`. Names are those of the headers where
these have one. The source is Composable Kernel 7.2. There the device operation holds two forms of the gridwise GEMM,
for waves of 64 and of 32 lanes. It ignores the parameter NXdlPerWave, and computes it from the others for each form
(`GetNXdlPerWave2`). The kernel for 64 lanes is empty when the block tile does not split into such waves
(`IsValidCompilationParameter`): such an instance compiles and computes nothing.

Several values differ between the compiler's host and device passes, because the matrix instruction and, on gfx950,
the LDS layout do; `target` below is the pass's architecture, or `host`.
"""

from __future__ import annotations

from collections.abc import Callable

from ckwatch.checks.rules.expression import Lookup, UnknownValueError, Value, integers
from ckwatch.checks.rules.matrix_instructions import SHAPES, MatrixInstruction, instruction
from ckwatch.checks.rules.rule import (
    Definition,
    ParameterKind,
    TemplateParameter,
    computed,
    definitions,
    flag,
    integer,
    word,
)
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

A_CLUSTER = "ABlockTransferThreadClusterLengths_AK0_M_AK1"
B_CLUSTER = "BBlockTransferThreadClusterLengths_BK0_N_BK1"
C_CLUSTER = "CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"
C_VECTORS = "CDEShuffleBlockTransferScalarPerVectors"

GEMM_SPECIALIZATIONS = (
    *("Default", "MPadding", "NPadding", "KPadding", "MNPadding", "MKPadding", "NKPadding", "MNKPadding"),
    *("OPadding", "MOPadding", "NOPadding", "KOPadding", "MNOPadding", "MKOPadding", "NKOPadding", "MNKOPadding"),
)
"""`ck/tensor_operation/gpu/device/gemm_specialization.hpp`."""

SCHEDULERS = ("Intrawave", "Interwave")
PIPELINES = ("v1", "v2", "v3", "v4", "v5")
"""`ck/utility/blkgemmpipe_scheduler.hpp`."""

_ORDER = ParameterType(ValueKind.ARRAY, lowest=0, highest=2, length=3)
_VECTORS = ParameterType(ValueKind.ARRAY, lowest=1, highest=INT32_MAX, or_integer=True)


def _cluster(length: int) -> ParameterType:
    return ParameterType(ValueKind.ARRAY, lowest=1, highest=INT32_MAX, length=length)


def _layout(name: str, *aliases: str) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.LAYOUT, aliases=aliases)


def _dtype(name: str, default: str = "", *aliases: str) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.DTYPE, default, ParameterType(ValueKind.STRING), aliases=aliases)


def _types(name: str, *aliases: str) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.TYPES, aliases=aliases)


def _sequence(name: str, declared: ParameterType, *aliases: str) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.SEQUENCE, type=declared, aliases=aliases)


def _operand_parameters(side: str, k1: str, rows: str, cluster: str) -> tuple[TemplateParameter, ...]:
    transfer = f"{side}BlockTransfer"
    return (
        _sequence(cluster, _cluster(3)),
        _sequence(f"{transfer}ThreadClusterArrangeOrder", _ORDER),
        _sequence(f"{transfer}SrcAccessOrder", _ORDER),
        integer(f"{transfer}SrcVectorDim", declared=ParameterType(ValueKind.INTEGER, lowest=0, highest=3)),
        integer(f"{transfer}SrcScalarPerVector"),
        integer(f"{transfer}DstScalarPerVector_{k1}"),
        flag(f"{side}BlockLdsExtra{rows}"),
    )


PARAMETERS = (
    _layout("ALayout"),
    _layout("BLayout"),
    _types("DsLayout", "ds_layouts"),
    _layout("CLayout"),
    _dtype("ADataType", "", "a_element_dtype"),
    _dtype("BDataType", "", "b_element_dtype"),
    _types("DsDataType", "ds_element_dtypes"),
    _dtype("CDataType", "", "c_element_dtype"),
    _dtype("GemmAccDataType", "", "acc_dtype"),
    _dtype("CShuffleDataType", "", "c_shuffle_dtype"),
    TemplateParameter("AElementwiseOperation", ParameterKind.OTHER, aliases=("a_elementwise_op",)),
    TemplateParameter("BElementwiseOperation", ParameterKind.OTHER, aliases=("b_elementwise_op",)),
    TemplateParameter("CElementwiseOperation", ParameterKind.OTHER, aliases=("c_elementwise_op",)),
    word("GemmSpec", "GemmSpecialization", GEMM_SPECIALIZATIONS, "", "gemm_specialization"),
    *map(integer, ("BlockSize", "MPerBlock", "NPerBlock", "KPerBlock", "AK1", "BK1")),
    *map(integer, ("MPerXDL", "NPerXDL", "MXdlPerWave")),
    integer("NXdlPerWave", declared=ParameterType(ValueKind.INTEGER, highest=INT32_MAX)),
    *_operand_parameters("A", "AK1", "M", A_CLUSTER),
    *_operand_parameters("B", "BK1", "N", B_CLUSTER),
    *map(integer, ("CShuffleMXdlPerWavePerShuffle", "CShuffleNXdlPerWavePerShuffle")),
    _sequence(C_CLUSTER, _cluster(4)),
    _sequence(C_VECTORS, _VECTORS, "c_shuffle_block_transfer_scalar_per_vector_n_per_block"),
    word(*("BlkGemmPipeSched", "BlockGemmPipelineScheduler", SCHEDULERS, "Intrawave"), "block_gemm_pipeline_scheduler"),
    word(*("BlkGemmPipelineVer", "BlockGemmPipelineVersion", PIPELINES, "v1"), "block_gemm_pipeline_version"),
    _dtype("ComputeTypeA", "CDataType", "a_compute_dtype"),
    _dtype("ComputeTypeB", "ComputeTypeA", "b_compute_dtype"),
    _dtype("LDSTypeA", "ComputeTypeA"),
    _dtype("LDSTypeB", "ComputeTypeB"),
)
"""In the order of the device operation's template parameters."""

MATRIX_ARCHS = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx9-4-generic")
"""Archs with MFMA, for which CK's kernels have waves of 64 lanes (`__gfx9__` in `ck/ck.hpp`)."""

WMMA_ARCHS = ("gfx11", "gfx12")

HAS_WMMA = Definition(
    "HasWmma",
    "1 on gfx11 and gfx12",
    "1 where the arch has matrix instructions of waves of 32 lanes, for 16 elements along K",
    lambda lookup: int(str(lookup("target")).startswith(WMMA_ARCHS) and not str(lookup("target")).startswith("gfx125")),
)

PASS_THROUGH = {
    "F64": ("F64", "F32"),
    "F32": ("F32", "F64", "I32", "BF16", "F16", "I8", "F8", "BF8"),
    "F16": ("F16", "F32", "I32", "I8", "F8", "BF8"),
    "BF16": ("BF16", "F32", "F16", "I8"),
    "I32": ("I32", "I8"),
    "I8": ("I8", "I32", "F32"),
    "F8": ("F8", "F32", "F16"),
    "BF8": ("BF8", "F32", "F16"),
}
"""By a type, those that CK's PassThrough converts to it: its specialisations, in
`ck/tensor_operation/gpu/element/unary_element_wise_operation.hpp`. The general form is declared and not defined.
"""

ELEMENT_BYTES = {"F64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I8": 1, "F8": 1, "BF8": 1}

LDS_BYTES = {"gfx908": 65536, "gfx90a": 65536, "gfx942": 65536, "gfx950": 163840}
"""LDS of one compute unit of an arch without WMMA, which is also what one workgroup may take."""


def bytes_of(parameter: str) -> Definition:
    """The size of an element of a type."""

    def compute(lookup: Lookup) -> Value:
        dtype = str(lookup(parameter))
        if dtype not in ELEMENT_BYTES:
            raise UnknownValueError(dtype)
        return ELEMENT_BYTES[dtype]

    return Definition(f"sizeof_{parameter}", f"sizeof({parameter})", f"bytes of one {parameter}", compute, (parameter,))


def _sources(side: str) -> Definition:
    def compute(lookup: Lookup) -> Value:
        kept = str(lookup(f"LDSType{side}"))
        if kept not in PASS_THROUGH:
            raise UnknownValueError(f"{side}Sources")
        return PASS_THROUGH[kept]

    return Definition(
        f"{side}Sources",
        f"those that PassThrough converts to LDSType{side}",
        f"types that {side} can have in global memory",
        compute,
        (f"LDSType{side}",),
    )


@computed("XdlShape = MPerXDLxNPerXDL  # the tile of one matrix instruction", "MPerXDL, NPerXDL")
def _shape(lookup: Lookup) -> str:
    return f"{lookup('MPerXDL')}x{lookup('NPerXDL')}"


@computed("XdlShapes = those of ComputeTypeA  # the tiles with an instruction", "ComputeTypeA")
def _shapes(lookup: Lookup) -> tuple[str, ...]:
    return SHAPES.get(str(lookup("ComputeTypeA")), ())


def matrix_instruction(lookup: Lookup, other: str = "ComputeTypeB", *, single_rate: bool) -> MatrixInstruction:
    """The instruction that CK takes for ComputeTypeA with the type of `other`. Raises UnknownValueError for none."""
    compute, second, tile, target = (str(lookup(name)) for name in ("ComputeTypeA", other, "XdlShape", "target"))
    found = instruction(compute, second, tile, target, single_rate=single_rate)
    if found is None:
        raise UnknownValueError("MatrixInstruction")
    return found


def gridwise_k_per_blk(is_single_rate: Callable[[Lookup], bool], *uses: str, other: str = "ComputeTypeB") -> Definition:
    """The values along K of a lane by the instruction that the gridwise GEMM takes; `uses` beside its tile."""
    return Definition(
        "GridwiseKPerBlk",
        "k_per_blk of the matrix instruction",
        "consecutive K values of one lane in one instruction",
        lambda lookup: matrix_instruction(lookup, other, single_rate=is_single_rate(lookup)).k_per_blk,
        ("ComputeTypeA", *((other,) if other != "ComputeTypeA" else ()), *_XDL, *uses),
    )


def single_rate(lookup: Lookup, k1: int, *, eight_bits: bool) -> bool:
    """`is_single_rate_mfma`, which the gridwise GEMM computes from lcm(AK1, BK1) and `XdlopsGemm` from KPack."""
    compute_type = lookup("ComputeTypeA")
    if compute_type in {"F8", "BF8"}:
        return eight_bits
    return (compute_type in {"F16", "BF16"} and k1 <= 4) or (compute_type == "I8" and k1 <= 8)


def _is_single_rate(lookup: Lookup) -> bool:
    k_per_block, k1 = integers(lookup, "KPerBlock", "lcm_AK1_BK1")
    return single_rate(lookup, k1, eight_bits=k_per_block < 128 and lookup("MPerXDL") == 16)


def _wave_instruction(lookup: Lookup) -> MatrixInstruction:
    (k_pack,) = integers(lookup, "KPack")
    return matrix_instruction(lookup, "ComputeTypeA", single_rate=single_rate(lookup, k_pack, eight_bits=k_pack < 32))


def lds_bytes(lookup: Lookup) -> int:
    """LDS of the target's compute units."""
    target = str(lookup("target"))
    if HAS_WMMA.value(lookup):
        return 65536
    if target not in LDS_BYTES:
        raise UnknownValueError("LdsLimit")
    return LDS_BYTES[target]


_XDL = ("MPerXDL", "NPerXDL")


def _n_xdl_per_wave(lanes: int) -> tuple[Definition, ...]:
    waves = f"NWavesOf{lanes}"
    return definitions(
        f"""
        {waves} = BlockSize / {lanes} / MWaves  # waves of {lanes} lanes that are left for N (GetNXdlPerWave2)
        NXdlPerWave{lanes} = 0 if {waves} == 0 else 0 if NPerBlock % (NPerXDL * {waves}) != 0 else NPerBlock / ({waves}
            * NPerXDL)  # XDL tiles along N of a wave of {lanes} lanes, which CK computes; 0: there is no such split
        """
    )


def _of_operand(side: str, rows: str, cluster: str, plain: str) -> tuple[Definition, ...]:
    """Definitions of operand `side` (A or B) with its outer dimension `rows` (M or N).

    `plain` is the layout in which K is contiguous. The LDS layout of the other one folds and pairs rows against bank
    conflicts (`GetABlockDescriptor_AK0PerBlock_MPerBlock_AK1`), which divides by quantities that may come out 0.
    """
    k0, k1, lds, layout = f"{side}K0", f"{side}K1", f"sizeof_LDSType{side}", f"{side}Layout"
    extra = f"{side}LdsExtra"
    return (
        *definitions(
            f"""
            {k0} = KPerBlock / {k1}  # slices of {k1} along K in a block tile of {side}
            {side}ThreadSlice = ({k0} / {cluster}[0], {rows}PerBlock / {cluster}[1], {k1} / {cluster}[2])  # what one
                thread copies of the block tile of {side}, as {k0}, {rows}, {k1}
            {side}ContiguousDim = 2 if {layout} == '{plain}' else 1  # the dimension along which {side} is contiguous
            {extra} = 1 if target == 'gfx950' else {side}BlockLdsExtra{rows}  # padding of {side} in LDS; always on
                gfx950
            {side}Folded = {layout} != '{plain}' and not {extra} and BlkGemmPipelineVer != 'v4'  # 1 where the LDS
                layout of {side} is folded
            {side}K0PerThreadWrite = {k0} / {cluster}[0]  # {k0} slices per writing thread
            {side}KFold = 1 if {k1} * {cluster}[1] * {lds} > 128 else 128 / ({k1} * {cluster}[1] * {lds})  # K folds in
                one row of LDS banks (kfold)
            """
        ),
        *_reading_lanes(side, rows, "", "WaveSize"),
        *_reading_lanes(side, rows, "32", "32"),
        *definitions(
            f"""
            {side}Pair = 1 if {k1} * {rows}PerXDL * {lds} > 128 else min({cluster}[1], 128 / ({k1} * {rows}PerXDL *
                {lds}))  # rows paired in one row of LDS banks ({rows.lower()}pair)
            {side}LdsElements = ({k0} - 1) * ({rows}PerBlock + {extra}) * {k1} + {rows}PerBlock * {k1} if {extra} or
                BlkGemmPipelineVer == 'v4' else {rows}PerBlock * KPerBlock if {layout} == '{plain}' else {cluster}[0] /
                {side}KFold / {side}KThreadReadPerm * {side}K0PerThreadWrite * {side}KThreadReadPerm * ({rows}PerBlock /
                {cluster}[1]) * ({side}KFold * {cluster}[1] / {side}Pair) * {side}Pair * {k1}  # elements of {side} in
                LDS
            """
        ),
        bytes_of(f"LDSType{side}"),
        _sources(side),
    )


def _reading_lanes(side: str, rows: str, form: str, lanes: str) -> tuple[Definition, ...]:
    read, per_read = f"{side}KThreadRead{form}", f"{side}K0PerThreadRead{form}"
    folds = f"{side}KFold * {side}K0PerThreadWrite / {per_read}"
    of_form = f" of {lanes} lanes" if form else ""
    return definitions(
        f"""
        {read} = {lanes} / {rows}PerXDL  # lanes along K when a wave{of_form} reads {side} from LDS
        {per_read} = {side}K0 / {read}  # {side}K0 slices per such lane (K0PerThreadRead)
        {side}KThreadReadPerm{form} = {read} / ({folds}) if {folds} > 1 else {read}  # permuted reading lanes
            (KThreadReadPerm)
        """
    )


DEFINITIONS = (
    Definition("MWaves", "MPerBlock / (MPerXDL * MXdlPerWave)", "waves of a block along M"),
    *_n_xdl_per_wave(64),
    *_n_xdl_per_wave(32),
    *definitions(
        """
        NWaves = NPerBlock / (NPerXDL * max(NXdlPerWave64, 1))  # waves of a block along N
        WaveSize = BlockSize / (MWaves * NWaves)  # lanes of a wave, which must come out as 64
        CShuffleNXdl = min(CShuffleNXdlPerWavePerShuffle, max(NXdlPerWave64, 1))  # XDL tiles of C along N in one
            shuffle; CK takes the smaller one
        HasKernel = NXdlPerWave64 > 0 and WaveSize == 64 and NXdlPerWave64 % CShuffleNXdl == 0  # 1 when the kernel for
            waves of 64 lanes is not empty (IsValidCompilationParameter)
        """
    ),
    _shape,
    _shapes,
    Definition("lcm_AK1_BK1", "lcm(AK1, BK1)", "the smallest K that both LDS vectors divide"),
    gridwise_k_per_blk(_is_single_rate, "lcm_AK1_BK1", "KPerBlock"),
    Definition("KPack", "max(lcm_AK1_BK1, GridwiseKPerBlk)", "consecutive K values of a lane in one step"),
    Definition(
        "KPerBlk",
        "k_per_blk of the matrix instruction for KPack",
        "as GridwiseKPerBlk, for the instruction that is issued",
        lambda lookup: _wave_instruction(lookup).k_per_blk,
        ("ComputeTypeA", *_XDL, "KPack"),
    ),
    Definition(
        "K0PerXdlops",
        "K blocks of the matrix instruction",
        "lanes that share K in one instruction",
        lambda lookup: _wave_instruction(lookup).k_blocks,
        ("ComputeTypeA", *_XDL, "KPack"),
    ),
    *definitions(
        """
        KPerThread = KPerBlock / K0PerXdlops  # K values of a lane in one block tile
        CShuffleM = CShuffleMXdlPerWavePerShuffle * MWaves * MPerXDL  # rows of C in one shuffle through LDS
        CShuffleN = CShuffleNXdl * NWaves * NPerXDL  # columns of C in one shuffle
        """
    ),
    *_of_operand("A", "M", A_CLUSTER, "Row"),
    *_of_operand("B", "N", B_CLUSTER, "Col"),
    bytes_of("CShuffleDataType"),
    *definitions(
        """
        ABBytes = (ALdsElements + lcm_AK1_BK1 - 1) / lcm_AK1_BK1 * lcm_AK1_BK1 * sizeof_LDSTypeA + (BLdsElements +
            lcm_AK1_BK1 - 1) / lcm_AK1_BK1 * lcm_AK1_BK1 * sizeof_LDSTypeB  # LDS for a tile of A and one of B
        CBytes = CShuffleM * CShuffleN * sizeof_CShuffleDataType  # LDS for the shuffle of C, in the same place
        LdsBuffers = 2 if BlkGemmPipelineVer == 'v4' else 1  # LDS buffers of the pipeline
        """
    ),
    Definition("LdsLimit", "64 KiB, 160 KiB on gfx950", "LDS of a compute unit", lds_bytes),
    Definition("AtomicVector", "4 if CDataType in ('F32', 'I32') else 8", "elements that can be added to C at once"),
    HAS_WMMA,
    Definition("NumDTensor", "size(DsDataType)", "tensors that the epilogue reads"),
)
