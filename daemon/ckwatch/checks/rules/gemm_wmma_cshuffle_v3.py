"""Rules of CK's universal GEMMs by WMMA (waves of 32 lanes, gfx11 and gfx12), for Composable Kernel 7.2.

`DeviceGemm_Wmma_CShuffleV3`, its batched form and that with D tensors run one gridwise GEMM. How a block copies A and
B, lays them out in LDS and writes C is as in `DeviceGemmMultiD_Xdl_CShuffle_V3`: these parameters, definitions and
rules are its, in the names that these headers have. On gfx12 the pipeline v1 copies A or B by tiles of waves instead,
where nothing is padded and K1 is 8: what says how threads do it is ignored then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ckwatch.checks.rules.expression import Lookup
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import C_CLUSTER, C_VECTORS, HAS_WMMA, WMMA_ARCHS, bytes_of
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import BLOCK
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import GRID as XDL_GRID
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as XDL
from ckwatch.checks.rules.rule import (
    Definition,
    DeviceOperation,
    Rule,
    computed,
    definitions,
    flag,
    integer,
    operation,
    rules,
)

CDE_CLUSTER = f"CDE{C_CLUSTER.removeprefix('C')}"
C_VECTOR = "CShuffleBlockTransferScalarPerVector_NPerBlock"

_IMPL = "ck/tensor_operation/gpu/device/impl/"
_COMMON = f"{_IMPL}device_gemm_wmma_cshuffle_v3_common.hpp"
_GRID = "ck/tensor_operation/gpu/grid/gridwise_gemm_wmma_cshuffle_v3_common.hpp"
_TILES = "ck/tensor_operation/gpu/grid/gridwise_ab_transfer_thread_tiles.hpp"
_EPILOGUE = "ck/tensor_operation/gpu/grid/epilogue_cshuffle_v3_wmma_base.hpp"
_WMMA = "ck/tensor_operation/gpu/warp/wmma_gemm.hpp"
_PIPELINE = f"{BLOCK}blockwise_gemm_pipeline_wmmaops_base.hpp"
_SELECTOR = f"{BLOCK}blockwise_gemm_pipeline_wmma_selector.hpp"

_RENAMED = {
    "MPerXDL": "MPerWmma",
    "NPerXDL": "NPerWmma",
    "MXdlPerWave": "MRepeat",
    "NXdlPerWave": "NRepeat",
    "CShuffleMXdlPerWavePerShuffle": "CShuffleMRepeatPerShuffle",
    "CShuffleNXdlPerWavePerShuffle": "CShuffleNRepeatPerShuffle",
    "GemmAccDataType": "AccDataType",
    "LDSTypeA": "ADataType",
    "LDSTypeB": "BDataType",
    "sizeof_LDSTypeA": "sizeof_ADataType",
    "sizeof_LDSTypeB": "sizeof_BDataType",
}
_D_TENSORS = {
    "CLayout": "ELayout",
    "CDataType": "EDataType",
    "CElementwiseOperation": "CDEElementwiseOperation",
    C_CLUSTER: CDE_CLUSTER,
}
"""By names of the operation without D tensors, those of the one that has them."""

_OTHER_WMMA = ("host", "gfx1250", "gfx1251", "gfx12-5-generic")
"""The host, and archs whose WMMA multiplies 32 elements along K: CK 7.2 does not know them."""

_INSTRUCTIONS = (
    *("F16 F16 F32", "BF16 BF16 F32", "F16 F16 F16", "BF16 BF16 BF16", "I8 I8 I32"),
    *("F8 F8 F32", "F8 BF8 F32", "BF8 F8 F32", "BF8 BF8 F32"),
)


def _name(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda found: names.get(found[0], found[0]), text)


def _with_names(rule: Rule, names: Mapping[str, str]) -> Rule:
    return replace(
        rule,
        condition=_name(rule.condition, names),
        blame=tuple(_name(one, names) for one in rule.blame),
        explanation=_name(rule.explanation, names),
        source=_name(rule.source, names),
        when=_name(rule.when, names),
    )


def _definition_with_names(one: Definition, names: Mapping[str, str]) -> Definition:
    name, formula, meaning = (_name(text, names) for text in (one.name, one.formula, one.meaning))
    return Definition(name, formula, meaning, one.compute, tuple(_name(use, names) for use in one.uses))


_TYPES = "ComputeTypeA, ComputeTypeB, AccDataType"


@computed("KRow = 2 on gfx12, else 1  # groups of lanes that share K in one instruction", "")
def _k_row(lookup: Lookup) -> int:
    return 2 if str(lookup("target")).startswith("gfx12") else 1


@computed("WmmaTypes = ComputeTypeA ComputeTypeB AccDataType  # those of A, B and C", _TYPES)
def _types(lookup: Lookup) -> str:
    return " ".join(str(lookup(name)) for name in _TYPES.split(", "))


def _shared(*names: str) -> tuple[Definition, ...]:
    """Definitions of the XDL form."""
    return tuple(_definition_with_names(XDL.definitions[name], _RENAMED) for name in names)


def _of_operand(side: str, rows: str) -> tuple[Definition, ...]:
    extra, k0 = f"{side}LdsExtra", f"{side}K0"
    by_threads = _shared(f"{side}LdsElements")[0]
    return (
        *_shared(f"{side}K0", f"{side}ThreadSlice", f"{side}ContiguousDim"),
        *definitions(
            f"""
            {extra} = {side}BlockLdsExtra{rows}  # padding of {side} in LDS
            {side}ByThreads = HasKernel and not (KRow == 2 and GemmSpec == 'Default' and BlkGemmPipelineVer == 'v1' and
                {side}K1 == 8)  # 1 where threads copy {side} to LDS, 0 where waves do (Is{side}WaveTransferApplicable)
            """
        ),
        *_shared(f"{side}Folded", f"{side}K0PerThreadWrite", f"{side}KFold"),
        *definitions(
            f"""
            {side}KThreadRead = 64 / {rows}PerWmma  # lanes along K that the LDS layout of {side} counts with
            {side}K0PerThreadRead = {k0} / {side}KThreadRead  # {k0} slices per such lane (K0PerThreadRead)
            """
        ),
        *_shared(f"{side}KThreadReadPerm", f"{side}Pair"),
        replace(
            by_threads, formula=f"({by_threads.formula}) if {side}ByThreads else {rows}PerBlock * KPerBlock", uses=()
        ),
        bytes_of(f"{side}DataType"),
    )


_DEFINITIONS = (
    replace(HAS_WMMA, name="HasKernel", meaning="1 where the kernel is not empty"),
    _k_row,
    *_shared("MWaves"),
    *definitions(
        """
        NWaves = NPerBlock / (NPerWmma * NRepeat)  # waves of a block along N
        CShuffleM = CShuffleMRepeatPerShuffle * MWaves * MPerWmma  # rows of C in one shuffle through LDS
        CShuffleN = CShuffleNRepeatPerShuffle * NWaves * NPerWmma  # columns of C in one shuffle
        """
    ),
    _types,
    *_shared("lcm_AK1_BK1"),
    *definitions("KPack = max(lcm_AK1_BK1, 16)  # K of one step, of at least one instruction"),
    *_of_operand("A", "M"),
    *_of_operand("B", "N"),
    bytes_of("CShuffleDataType"),
    *_shared("ABBytes", "CBytes"),
)

_OF_KERNEL = rules(
    f"""
    wmma-arch: {{target}} has no WMMA as gfx11 and gfx12 have it. CK compiles this to an empty kernel, and
        IsSupportedArgument refuses every problem.
        :must: HasKernel  :when: target not in {_OTHER_WMMA}  :is: warning every-arch
        :source: {_GRID}, __gfx11__ and __gfx12__; {_COMMON}, IsSupportedArgument
    wmma-tile: WMMA computes tiles of 16x16.
        :must: MPerWmma == 16 and NPerWmma == 16  :blame: MPerWmma, NPerWmma  :is: host
        :source: {_WMMA}, WmmaSelector::GetWmma has no specialisation
    wmma-types: There is no WMMA for {{WmmaTypes}}.
        :must: WmmaTypes in {_INSTRUCTIONS}  :blame: ComputeTypeA, ComputeTypeB, AccDataType  :is: host
        :source: {_WMMA}, WmmaSelector::GetWmma has no specialisation
    wmma-accumulator: On gfx12, CK accumulates in F32 and I32 alone.
        :must: KRow == 1  :blame: AccDataType  :when: HasKernel and AccDataType in ('F16', 'BF16')  :after: wmma-types
        :source: {_WMMA}, wmma_f16_16x16x16_f16 has the operands of gfx11: no matching function 'Run'
    wmma-f8-arch: {{target}} has no WMMA for 8-bit floats. CK compiles this to a kernel that multiplies nothing, and
        IsSupportedArgument refuses every problem.
        :must: KRow == 2  :blame: ComputeTypeA, ComputeTypeB
        :when: HasKernel and (ComputeTypeA in ('F8', 'BF8') or ComputeTypeB in ('F8', 'BF8'))  :after: wmma-types
        :is: warning  :source: {_WMMA}, intrin_wmma_f32_16x16x16_f8f8_w32_gfx12 without __gfx12__
    m-per-block: A wave computes MPerWmma * MRepeat rows of the block tile; whole waves must cover it.
        :must: MPerBlock % (MPerWmma * MRepeat) == 0  :blame: MRepeat, MPerWmma, MPerBlock  :is: host
        :source: {_GRID}, static_assert 'Invalid tuning param!' in CheckValidity
    n-per-block: A wave computes NPerWmma * NRepeat columns of the block tile; whole waves must cover it.
        :must: NPerBlock % (NPerWmma * NRepeat) == 0  :blame: NRepeat, NPerWmma, NPerBlock  :is: host
        :source: {_GRID}, static_assert 'Invalid tuning param!' in CheckValidity
    block-size: The block's threads must be the waves of 32 lanes that cover the block tile.
        :must: BlockSize == MWaves * NWaves * 32  :blame: BlockSize, MRepeat, NRepeat, MPerBlock, NPerBlock
        :when: HasKernel  :after: wmma-tile, m-per-block, n-per-block
        :source: {_PIPELINE}, static_assert 'ThisThreadBlock::GetNumOfThread() != MWaves * NWaves * WaveSize'
    scheduler: Only the pipeline v1 has an Interwave form.
        :must: BlkGemmPipelineVer == 'v1'  :blame: BlkGemmPipeSched, BlkGemmPipelineVer
        :when: BlkGemmPipeSched == 'Interwave'  :is: host
        :source: {BLOCK}blockwise_gemm_pipeline_wmmaops_v3.hpp: no specialisation for Interwave
    wmma-pipeline: There are the pipelines v1 and v3.
        :must: BlkGemmPipelineVer in ('v1', 'v3')  :blame: BlkGemmPipelineVer  :is: host
        :source: {_SELECTOR}, static_assert 'BlockGemmPipeline configuration is not available'
    a-permuted: CK cannot read A in this form yet.
        :must: not PermuteA  :blame: PermuteA  :is: host  :source: {_GRID}, static_assert 'PermuteA is not supported'
    wmma-a-k-pack: A step along K is lcm(AK1, BK1), at least 16, and on gfx12 two groups of lanes share it.
        :must: KPack % (AK1 * KRow) == 0  :blame: AK1, BK1  :when: HasKernel
        :source: {_PIPELINE}, static_assert KPack % (A_K1 * A_KRow) == 0
    wmma-b-k-pack: A step along K is lcm(AK1, BK1), at least 16, and on gfx12 two groups of lanes share it.
        :must: KPack % (BK1 * KRow) == 0  :blame: BK1, AK1  :when: HasKernel
        :source: {_PIPELINE}, static_assert KPack % (B_K1 * B_KRow) == 0
    wmma-k-pack: A step along K must be a whole number of instructions, which multiply 16 elements along K.
        :must: KPack % 16 == 0  :blame: AK1, BK1  :when: HasKernel
        :source: {_WMMA}, static_assert 'KPack should be multiple of k_per_wmma'
    wmma-k-per-block: A block tile must be at least one step deep along K.
        :must: KPerBlock >= KPack  :blame: KPerBlock, AK1, BK1  :when: HasKernel
        :after: wmma-a-k-pack, wmma-b-k-pack  :source: {_PIPELINE}, KRepeat = KPerBlock / KPack
    k-per-block: A block tile must be whole steps along K: CK leaves out what remains, and the product is wrong.
        :must: KPerBlock % KPack == 0  :blame: KPerBlock, AK1, BK1  :when: HasKernel
        :after: wmma-a-k-pack, wmma-b-k-pack, wmma-k-per-block  :is: warning
        :source: {_PIPELINE}, KRepeat = KPerBlock / KPack
    c-shuffle-m: C leaves through LDS in steps of CShuffleMRepeatPerShuffle tiles, which must divide a wave's tiles.
        :must: MRepeat % CShuffleMRepeatPerShuffle == 0  :blame: CShuffleMRepeatPerShuffle, MRepeat  :when: HasKernel
        :source: ck/tensor_description/tensor_space_filling_curve.hpp, static_assert; {_EPILOGUE}, SpaceFillingCurveVgpr
    c-shuffle-n: C leaves through LDS in steps of CShuffleNRepeatPerShuffle tiles, which must divide a wave's tiles.
        :must: NRepeat % CShuffleNRepeatPerShuffle == 0  :blame: CShuffleNRepeatPerShuffle, NRepeat  :when: HasKernel
        :source: ck/tensor_description/tensor_space_filling_curve.hpp, static_assert; {_EPILOGUE}, SpaceFillingCurveVgpr
    """
)


def _inherited(rule: Rule) -> Rule:
    """A rule about copies of the XDL form, in the names of the WMMA form."""
    side = rule.slug[0].upper()
    guard = f"{side}ByThreads" if side in "AB" and rule.slug[1] == "-" else "HasKernel"
    form_of_32_lanes = r" and \(NXdlPerWave32 == 0 or \w+ > 0\)"
    plain = replace(
        rule,
        condition=re.sub(form_of_32_lanes, "", rule.condition),
        when=re.sub(r"\bHasKernel\b", guard, rule.when).replace("Invoker == 1 and ", ""),
        source=rule.source.replace(XDL_GRID, _TILES if side in "AB" else _GRID),
    )
    return _with_names(plain, _RENAMED)


_COPIES = tuple(
    _inherited(rule)
    for rule in XDL.rules
    if re.match(r"[ab]-(?!conversion|buffer-loads)|block-threads|c-(?:cluster|vector)", rule.slug)
    and rule.slug not in ("c-vectors", "c-vector-atomic")
)


_LDS = rules(
    f"""
    lds: A block takes more LDS than a workgroup may have. C's shuffle lies where A and B were.
        :must: max(ABBytes, CBytes) <= 65536  :blame: KPerBlock, MPerBlock, NPerBlock  :when: HasKernel
        :after: k-per-block, m-per-block, n-per-block, a-lds-fold, b-lds-fold, a-lds-permutation, b-lds-permutation
        :is: codegen  :source: {_GRID}, GetSharedMemoryNumberOfByte; the compiler: local memory exceeds limit
    """
)

_ONE_VECTOR = {C_VECTORS: C_VECTOR}


def _operation(name: str, header: str, *, d_tensors: bool = False) -> DeviceOperation:
    """The operation whose C is E, with D tensors, or which has one vector length for C."""
    names = _RENAMED | (_D_TENSORS if d_tensors else {})
    left_out = {"LDSTypeA", "LDSTypeB"} | (set() if d_tensors else {"DsLayout", "DsDataType"})
    parameters = [
        integer(C_VECTOR)
        if one.name == C_VECTORS and not d_tensors
        else replace(one, name=_name(one.name, names), default=_name(one.default, names))
        for one in XDL.parameters.values()
        if one.name not in left_out
    ]
    every = (*_OF_KERNEL, *_COPIES, *_LDS)
    known = {rule.slug for rule in every}
    every = tuple(replace(rule, after=tuple(filter(known.__contains__, rule.after))) for rule in every)
    if d_tensors:
        every = tuple(_with_names(rule, _D_TENSORS) for rule in every)
    else:
        every = tuple(
            _with_names(replace(rule, condition=rule.condition.replace(f"{C_VECTORS}[0]", C_VECTOR)), _ONE_VECTOR)
            for rule in every
        )
    permuted = (flag("PermuteA", "false"), flag("PermuteB", "false"))
    return operation(name, header, (*parameters, *permuted), _DEFINITIONS, every, archs=WMMA_ARCHS)


OPERATIONS = (
    _operation("DeviceGemm_Wmma_CShuffleV3", f"{_IMPL}device_gemm_wmma_cshuffle_v3.hpp"),
    _operation("DeviceBatchedGemm_Wmma_CShuffleV3", f"{_IMPL}device_batched_gemm_wmma_cshuffle_v3.hpp"),
    _operation(
        "DeviceGemmMultipleD_Wmma_CShuffleV3",
        f"{_IMPL}device_gemm_multiple_d_wmma_cshuffle_v3.hpp",
        d_tensors=True,
    ),
)
