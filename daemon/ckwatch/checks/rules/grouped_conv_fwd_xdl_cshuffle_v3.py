"""Rules of `DeviceGroupedConvFwdMultipleABD_Xdl_CShuffle_V3`, for Composable Kernel 7.2.

It runs the gridwise GEMM of `DeviceGemmMultiD_Xdl_CShuffle_V3` on pixels × taps · channels, with both operands
contiguous along the channels. So parameters, definitions and rules are those, under the names that they have here,
without what is about other layouts, split-K and D tensors of several widths. What is new are the layouts and
specialisations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from ckwatch.checks.rules.expression import Lookup, UnknownValueError, Value
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3 import C_CLUSTER, C_VECTORS
from ckwatch.checks.rules.gemm_xdl_cshuffle_v3_rules import OPERATION as GEMM
from ckwatch.checks.rules.rule import (
    Definition,
    ParameterKind,
    Rule,
    TemplateParameter,
    computed,
    flag,
    integer,
    operation,
    rules,
    word,
)
from ckwatch.model.parameter_types import ParameterType, ValueKind

HEADER = "ck/tensor_operation/gpu/device/impl/device_grouped_conv_fwd_multiple_abd_xdl_cshuffle_v3.hpp"
CDE_CLUSTER = "CDEBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock"
CDE_VECTOR = "CDEBlockTransferScalarPerVector_NPerBlock"

SPECIALIZATIONS = ("Default", "Filter1x1Pad0", "Filter1x1Stride1Pad0", "OddC", "Filter3x3")
"""`ck/tensor_operation/gpu/device/convolution_forward_specialization.hpp`."""

_LAYOUTS: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "A": {
        1: ("NWGC", "GNWC", "NGCW", "G_NW_C"),
        2: ("NHWGC", "GNHWC", "NGCHW", "G_NHW_C"),
        3: ("NDHWGC", "GNDHWC", "NGCDHW", "G_NDHW_C"),
    },
    "B": {
        1: ("GKXC", "KXGC", "GKCX", "G_K_X_C"),
        2: ("GKYXC", "KYXGC", "GKCYX", "G_K_YX_C"),
        3: ("GKZYXC", "KZYXGC", "GKCZYX", "G_K_ZYX_C"),
    },
    "E": {
        1: ("NWGK", "GNWK", "NGKW", "GNKW", "G_NW_K"),
        2: ("NHWGK", "GNHWK", "NGKHW", "GNKHW", "G_NHW_K"),
        3: ("NDHWGK", "GNDHWK", "NGKDHW", "GNKDHW", "G_NDHW_K"),
    },
}
"""By the number of dimensions, those that `TransformConvFwdToGemm` has a form for."""

_RENAMED = {
    "ComputeTypeA": "AComputeDataType",
    "ComputeTypeB": "BComputeDataType",
    "LDSTypeA": "ADataType",
    "LDSTypeB": "BDataType",
    "CDataType": "EDataType",
    "GemmAccDataType": "AccDataType",
    "CElementwiseOperation": "CDEElementwiseOperation",
    C_CLUSTER: CDE_CLUSTER,
    C_VECTORS: CDE_VECTOR,
}
"""Parameters of the GEMM, as they are called here."""

_NAMES = re.compile(rf"\b(sizeof_)?({'|'.join(_RENAMED)})\b(?:\[0\])?")

_FOLDED_LAYOUT = re.compile(
    r"[AB](ContiguousDim|Folded|Sources|KFold|Pair|K0PerThreadWrite|K.*Thread(Read|ReadPerm)\d*)"
)
"""Definitions that are about operands contiguous along M or N, and about types that LDS has."""

_NOT_HERE = frozenset(
    {
        *(f"{side}-{what}" for side in "ab" for what in ("conversion", "vector-layout", "lds-fold", "lds-permutation")),
        *("c-vector-layout", "c-vector-atomic", "c-vectors", "compute-types-8-bit"),
    }
)


_COPY = re.compile(r"[ab]-(cluster|arrange-order|access-order|vector|store|buffer-loads)")


def _renamed(text: str) -> str:
    def name(found: re.Match[str]) -> str:
        kept = "" if found[2] == C_VECTORS else found[0].removeprefix(found[1] or "").removeprefix(found[2])
        return f"{found[1] or ''}{_RENAMED[found[2]]}{kept}"

    return _NAMES.sub(name, text)


def _with_names_of_here(compute: Callable[[Lookup], Value]) -> Callable[[Lookup], Value]:
    return lambda lookup: compute(lambda name: lookup(_renamed(name)))


def _definition(one: Definition) -> Definition:
    compute = None if one.compute is None else _with_names_of_here(one.compute)
    return Definition(
        _renamed(one.name), _renamed(one.formula), _renamed(one.meaning), compute, tuple(map(_renamed, one.uses))
    )


def _rule(one: Rule) -> Rule:
    # DirectLoad has a copy of its own, which asserts less
    when = f"({one.when}) and not DirectLoad" if _COPY.match(one.slug) else one.when
    return replace(
        one,
        condition=_renamed(one.condition),
        blame=tuple(map(_renamed, one.blame)),
        explanation=_renamed(one.explanation),
        when=_renamed(when),
        after=tuple(slug for slug in one.after if slug not in _NOT_HERE),
        asserted_by=_renamed(one.asserted_by),
    )


def _layout(name: str, *aliases: str) -> TemplateParameter:
    return TemplateParameter(name, ParameterKind.ENUMERATOR, aliases=aliases)


def _of_gemm(name: str, *, default: str = "", aliases: tuple[str, ...] | None = None) -> TemplateParameter:
    """The GEMM's parameter under the name that it has here."""
    of_gemm = {here: there for there, here in _RENAMED.items() if not there.startswith("LDS")}
    found = GEMM.parameters[of_gemm.get(name, name)]
    return replace(found, name=name, default=default, aliases=found.aliases if aliases is None else aliases)


_SHARED = tuple(GEMM.parameters)[
    tuple(GEMM.parameters).index("BlockSize") : tuple(GEMM.parameters).index("CShuffleNXdlPerWavePerShuffle") + 1
]

PARAMETERS = (
    integer("NDimSpatial", declared=ParameterType(ValueKind.INTEGER, lowest=1, highest=3)),
    *map(_layout, ("ALayout", "BLayout")),
    _of_gemm("DsLayout", aliases=()),
    _layout("ELayout"),
    *map(_of_gemm, ("ADataType", "BDataType", "AccDataType", "CShuffleDataType")),
    _of_gemm("DsDataType", aliases=("ds_element_dtype",)),
    _of_gemm("EDataType", aliases=("e_element_dtype",)),
    *map(_of_gemm, ("AElementwiseOperation", "BElementwiseOperation")),
    _of_gemm("CDEElementwiseOperation", aliases=("cde_elementwise_op",)),
    word("ConvForwardSpecialization", "ConvolutionForwardSpecialization", SPECIALIZATIONS),
    _of_gemm("GemmSpec"),
    *map(_of_gemm, _SHARED),
    _of_gemm(CDE_CLUSTER, aliases=()),
    integer(CDE_VECTOR),
    _of_gemm("BlkGemmPipeSched", default="Intrawave"),
    _of_gemm("BlkGemmPipelineVer", default="v1"),
    _of_gemm("AComputeDataType", default="ADataType"),
    _of_gemm("BComputeDataType", default="AComputeDataType"),
    flag("DirectLoad", "false"),
)
"""In the order of the device operation's template parameters."""


def _layouts_of(side: str) -> Definition:
    def compute(lookup: Lookup) -> Value:
        dimensions = lookup("NDimSpatial")
        if not isinstance(dimensions, int) or dimensions not in _LAYOUTS[side]:
            raise UnknownValueError(f"{side}Layouts")
        return _LAYOUTS[side][dimensions]

    return Definition(
        f"{side}Layouts",
        f"those of {side} in NDimSpatial dimensions",
        "layouts that CK has a form for",
        compute,
        ("NDimSpatial",),
    )


@computed(
    "Transposed = 1 for NGCHW, GKCYX, NGKHW and for NGCDHW, GKCZYX, NGKDHW  "
    "# 1 where CK computes in copies with channels last",
    "ALayout, BLayout, ELayout",
)
def _transposed(lookup: Lookup) -> Value:
    given = tuple(str(lookup(name)) for name in ("ALayout", "BLayout", "ELayout"))
    return int(given in {("NGCHW", "GKCYX", "NGKHW"), ("NGCDHW", "GKCZYX", "NGKDHW")})


def _lds_elements(side: str, rows: str) -> Definition:
    k0, k1, extra = f"{side}K0", f"{side}K1", f"{side}LdsExtra"
    return Definition(
        f"{side}LdsElements",
        f"({k0} - 1) * ({rows}PerBlock + {extra}) * {k1} + {rows}PerBlock * {k1} "
        f"if not DirectLoad and ({extra} or BlkGemmPipelineVer == 'v4') else {rows}PerBlock * KPerBlock",
        f"elements of {side} in LDS",
    )


_OWN = (
    Definition("CShuffleNXdl", "CShuffleNXdlPerWavePerShuffle", "XDL tiles of C along N in one shuffle"),
    _lds_elements("A", "M"),
    _lds_elements("B", "N"),
    *map(_layouts_of, "ABE"),
    _transposed,
)

DEFINITIONS = (
    *(
        _definition(one)
        for one in GEMM.definitions.values()
        if not _FOLDED_LAYOUT.fullmatch(one.name) and one.name not in ("AtomicVector", "NumDTensor")
    ),
    *_OWN,
)

_TRANSFORM = "ck/tensor_operation/operator_transform/transform_conv_fwd_to_gemm.hpp"
_CHANNELS_FIRST_A = "('NGCW', 'NGCHW', 'NGCDHW')"
_CHANNELS_FIRST_B = "('GKCX', 'GKCYX', 'GKCZYX')"
_CHANNELS_FIRST_E = "('NGKW', 'NGKHW', 'NGKDHW')"


def _known_layout(side: str, what: str) -> tuple[Rule, ...]:
    return rules(
        f"""
        {side.lower()}-layout: CK has no {what} of the layout {{{side}Layout}} in {{NDimSpatial}} dimensions.
            :must: {side}Layout in {side}Layouts  :blame: {side}Layout, NDimSpatial  :is: host
            :source: {_TRANSFORM}, enable_if of Make{"C" if side == "E" else side}Descriptor
        """
    )


def _vector_dim(side: str) -> tuple[Rule, ...]:
    dim = f"{side}BlockTransferSrcVectorDim"
    return rules(
        f"""
        {side.lower()}-vector-channels: CK reads vectors of channels: with another dimension IsSupportedArgument refuses
            every problem.
            :must: {dim} == 2  :blame: {dim}  :is: warning  :asserted: {dim} must be 2
            :source: {HEADER}, IsSupportedArgument
        """
    )


_OWN_RULES = (
    *_known_layout("A", "input"),
    *_known_layout("B", "filter"),
    *_known_layout("E", "output"),
    *rules(
        f"""
        a-channels-first: CK reads an input in {{ALayout}} only for filters of one element, without stride and pads. It
            transposes NGCHW with GKCYX and NGKHW, and NGCDHW with GKCZYX and NGKDHW.
            :must: ConvForwardSpecialization == 'Filter1x1Stride1Pad0'
            :blame: ConvForwardSpecialization, ALayout, BLayout, ELayout
            :when: ALayout in {_CHANNELS_FIRST_A} and not Transposed  :after: a-layout  :is: host
            :source: {_TRANSFORM}, static_assert in MakeADescriptor_M_K
        b-channels-first: CK reads a filter in {{BLayout}} only if it has one element. It transposes GKCYX with NGCHW
            and NGKHW, and GKCZYX with NGCDHW and NGKDHW.
            :must: ConvForwardSpecialization in ('Filter1x1Stride1Pad0', 'Filter1x1Pad0')
            :blame: ConvForwardSpecialization, BLayout, ALayout, ELayout
            :when: BLayout in {_CHANNELS_FIRST_B} and not Transposed  :after: b-layout, a-channels-first  :is: host
            :source: {_TRANSFORM}, static_assert in MakeBDescriptor_N_K
        channels-first-copies: With {{ALayout}} and {{ELayout}} CK takes the strides of copies with channels last, which
            it makes only if the filter is channels first, too: what it computes is wrong.
            :must: Transposed == 1  :blame: BLayout, ELayout, ALayout
            :when: ALayout in ('NGCHW', 'NGCDHW') and ELayout in ('NGKHW', 'NGKDHW')
            :after: a-channels-first, b-channels-first  :is: warning  :asserted: takes the strides of copies
            :source: ck/tensor_operation/operator_transform/transform_conv_ngchw_to_nhwgc.hpp, TransposeInOutStrides: it
                does not look at the filter
        """
    ),
    *_vector_dim("A"),
    *_vector_dim("B"),
    *rules(
        f"""
        a-channels-apart: CK loads vectors of channels, and in {{ALayout}} these do not lie side by side: the product is
            wrong.
            :must: ABlockTransferSrcScalarPerVector == 1  :blame: ABlockTransferSrcScalarPerVector, ALayout
            :when: ALayout in {_CHANNELS_FIRST_A} and not Transposed  :is: warning
            :asserted: needs ABlockTransferSrcScalarPerVector = 1
            :source: {HEADER}, IsSupportedArgument: it does not look at the layout
        e-channels-apart: CK stores vectors of channels, and in {{ELayout}} these do not lie side by side: what it
            writes is wrong.
            :must: {CDE_VECTOR} == 1  :blame: {CDE_VECTOR}, ELayout
            :when: ELayout in {_CHANNELS_FIRST_E} and not Transposed  :is: warning  :asserted: needs {CDE_VECTOR} = 1
            :source: {HEADER}, IsSupportedArgument: it does not look at the layout
        filter-3x3-channels: Filter3x3 is for one input channel per group, of which there are no vectors: every problem
            is refused.
            :must: ABlockTransferSrcScalarPerVector == 1 and BBlockTransferSrcScalarPerVector == 1
            :blame: ABlockTransferSrcScalarPerVector, BBlockTransferSrcScalarPerVector, ConvForwardSpecialization
            :when: ConvForwardSpecialization == 'Filter3x3'  :is: warning
            :source: {_TRANSFORM}, MakeADescriptor_M_K without channels; {HEADER}, IsSupportedArgument
        direct-load-arch: {{target}} cannot load 16 bytes per lane to LDS without registers. CK compiles this to an
            empty kernel, and IsSupportedArgument refuses every problem.
            :must: target == 'gfx950'  :blame: DirectLoad  :when: DirectLoad and target != 'host'  :is: warning
            :asserted: DirectLoad needs gfx950
            :source: {HEADER}, kernel_grouped_conv_fwd_xdl_cshuffle_v3 without __gfx950__, IsSupportedArgument
        direct-load-pipeline: Only the pipelines v1 and v4 have a form for DirectLoad.
            :must: BlkGemmPipelineVer in ('v1', 'v4')  :blame: BlkGemmPipelineVer, DirectLoad  :when: DirectLoad
            :is: host
            :source: ck/tensor_operation/gpu/block/blockwise_gemm_pipeline_xdlops_selector.hpp: no member PrefetchStages
                of void
        direct-load-scheduler: With DirectLoad no pipeline has an Interwave form.
            :must: BlkGemmPipeSched == 'Intrawave'  :blame: BlkGemmPipeSched, DirectLoad  :when: DirectLoad
            :after: scheduler  :is: host
            :source: ck/tensor_operation/gpu/block/blockwise_gemm_pipeline_xdlops_{{v1,v4}}.hpp: no specialisation for
                Interwave
        """
    ),
)

RULES = (*(_rule(one) for one in GEMM.rules if one.slug not in _NOT_HERE), *_OWN_RULES)
"""In the order in which they are checked."""

OPERATION = operation(
    "DeviceGroupedConvFwdMultipleABD_Xdl_CShuffle_V3", HEADER, PARAMETERS, DEFINITIONS, RULES, GEMM.spelling
)
