"""The features of Composable Kernel's headers that templates ask for, by name.

A feature is a declaration in a header: a class template, some of its template parameters, or a name in the header's
code. What has it is what was read: the source tree of October 2024, 1.1.0 as in flash-attn 2.8.3, 1.2.0 as in ROCm
7.2.4, and rocm-libraries after the change of pytorch#189646, which is that of ROCm 7.14.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ckwatch.headers.declarations import HeaderText
from ckwatch.model.lazy_dataclass import dataclass

CK_1_1 = "Composable Kernel 1.1.0 (flash-attn 2.8.3) and later"
CK_1_2 = "Composable Kernel 1.2.0 of ROCm 7.2 and later"
UNTIL_7_13 = "Composable Kernel up to that of ROCm 7.13"
OLDER = "Composable Kernel 1.2.0 of ROCm 7.2, and not in rocm-libraries since"
NEWEST = "Composable Kernel of rocm-libraries"
AS_OF_10_1 = "Composable Kernel of ROCm 10.1"

ANCHORS: Mapping[str, str] = {"ck": "ck/ck.hpp", "ck_tile": "ck_tile/core.hpp", "amd_detail": "hip_runtime.h"}
"""A header by which a library is known to be there, by the first folder in the names of its headers. HIP's are named as
they lie in its own folder: in the one around it may be another Composable Kernel than the compiler reads.
"""

ARCH_HEADERS: Mapping[str, str] = {"ck": "ck/ck.hpp", "ck_tile": "ck_tile/core/config.hpp"}
"""The headers that make settings of an arch's macro: without them an arch has no matrix instructions and no buffers."""

_ARCHS_SINCE: Mapping[str, str] = {"gfx1250": AS_OF_10_1, "gfx1153": NEWEST, "gfx950": CK_1_1}

_HEADERS_SINCE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "ck/tensor_operation/gpu/device/impl/device_batched_gemm_multiple_d_xdl_cshuffle_v3.hpp",
            "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_xdl_cshuffle_v3_b_preshuffle.hpp",
            "ck/tensor_operation/gpu/device/impl/device_gemm_xdl_cshuffle_v3_mx.hpp",
            "ck/tensor_operation/gpu/device/impl/device_moe_gemm.hpp",
            "ck_tile/ops/rmsnorm2d.hpp",
        ),
        CK_1_1,
    ),
    "ck/tensor_operation/gpu/device/impl/device_gemm_multiple_d_wmma_cshuffle_v3.hpp": CK_1_2,
}


@dataclass(frozen=True, slots=True)
class Feature:
    """A declaration in a header: the class template `name`, which takes the template parameters `takes` in this order,
    or a `word` in its code. `since` says what is known to have it. `usual`: Composable Kernel 1.2.0 has it, which is
    the answer where there are no headers to ask.
    """

    header: str
    name: str = ""
    takes: tuple[str, ...] = ()
    word: str = ""
    since: str = CK_1_2
    usual: bool = True


_GEMM = "ck_tile/ops/gemm/"
_FMHA = "ck_tile/ops/fmha/pipeline/"
_DEVICE = "ck/tensor_operation/gpu/device/impl/"

FEATURES: Mapping[str, Feature] = {
    "gemm-tails": Feature(
        f"{_GEMM}pipeline/gemm_pipeline_problem.hpp",
        "UniversalGemmPipelineProblem",
        ("HasHotLoop", "TailNum"),
        since=UNTIL_7_13,
    ),
    "cshuffle-memory-operation": Feature(
        "ck_tile/ops/epilogue/cshuffle_epilogue.hpp", "CShuffleEpilogueProblem", ("MemoryOperation",), since=OLDER
    ),
    "gemm-tensor-views": Feature(f"{_GEMM}kernel/universal_gemm_kernel.hpp", word="MakeGemmTensorViews", since=OLDER),
    "gemm-second-lds": Feature(f"{_GEMM}pipeline/gemm_pipeline_ag_bg_cr_comp_v4.hpp", word="p_smem_1", since=OLDER),
    "gemm-element-wise": Feature(
        f"{_GEMM}pipeline/gemm_pipeline_problem.hpp", "UniversalGemmPipelineProblem", ("AElementWise", "BElementWise")
    ),
    **{
        f"gemm-{name}": Feature(
            f"{_GEMM}pipeline/gemm_pipeline_ag_bg_cr_{file}.hpp", f"GemmPipelineAgBgCr{name}", since=since
        )
        for name, file, since in (
            ("Mem", "mem", CK_1_1),
            ("CompV3", "comp_v3", CK_1_1),
            ("CompV4", "comp_v4", CK_1_1),
            ("CompV5", "comp_v5", CK_1_1),
            ("CompV6", "comp_v6", CK_1_2),
            ("CompAsync", "comp_async", CK_1_2),
        )
    },
    "stream-k": Feature(
        f"{_GEMM}kernel/streamk_gemm_tile_partitioner.hpp",
        word="StreamKTilePartitioner_v2",  # declared there, and defined for each kind
        since=OLDER,
    ),
    **{
        f"waves-of-64-{name}": Feature(f"{_DEVICE}device_{file}.hpp", word="NXdlPerWave64")
        for name, file in (
            ("ab-scale", "gemm_multiple_d_xdl_cshuffle_v3_ab_scale"),
            ("mx", "gemm_xdl_cshuffle_v3_mx"),
            ("moe", "moe_gemm"),
            ("convolution", "grouped_conv_fwd_multiple_abd_xdl_cshuffle_v3"),
        )
    },
    "memory-include": Feature("ck/tensor_operation/gpu/device/device_base.hpp", word="regex", since=CK_1_1),
    "slice-of-offset": Feature(
        "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp", word="k_id", since=CK_1_1
    ),
    "whole-scale-blocks": Feature(
        "ck/tensor_operation/gpu/block/blockwise_gemm_pipeline_xdlops_v1_ab_scale.hpp", word="K0PerXdlops", since=CK_1_1
    ),
    "preshuffled-slices": Feature(
        "ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_b_preshuffle.hpp", word="k_id"
    ),
    "norm-block-shape": Feature("ck_tile/ops/common/generic_2d_block_shape.hpp", "Generic2dBlockShape", since=CK_1_1),
    "norm-block-threads": Feature(
        "ck_tile/ops/common/generic_2d_block_shape.hpp", "Generic2dBlockShape", ("ThreadPerBlock",)
    ),
    "fmha-attention-variant": Feature(
        f"{_FMHA}block_fmha_pipeline_problem.hpp", "BlockFmhaPipelineProblem", ("AttentionVariant",), since=CK_1_1
    ),
    "fmha-transposed-load": Feature(
        f"{_FMHA}block_fmha_pipeline_problem.hpp", "BlockFmhaPipelineProblem", ("kUseTrLoad",)
    ),
    **{
        f"fmha-{name}": Feature(
            f"{_FMHA}block_fmha_pipeline_{name.replace('qr', 'qr_ks_vs')}.hpp", f"BlockFmhaPipeline{title}", since=since
        )
        for name, title, since in (
            ("qr", "QRKSVS", CK_1_1),
            ("qr_async", "QRKSVSAsync", CK_1_1),
            ("qr_async_trload", "QRKSVSAsyncTrload", CK_1_2),
        )
    },
    "llvm-bf16": Feature("ck_tile/core/config.hpp", word="CK_TILE_USE_LLVM_BUILTIN_BF16"),
    "hip-ocp-types": Feature(
        "amd_detail/amd_hip_ocp_types.h", word="__amd_fp8_storage_t", since="HIP of ROCm 7.2 and later"
    ),
    "hip-internal": Feature("amd_detail/host_defines.h", word="__hip_internal", since="HIP of ROCm 5.7 and later"),
    "hip-assert": Feature("amd_detail/amd_device_functions.h", word="hip_assert", since="HIP of ROCm 6.4 and later"),
    "tf32": Feature("ck/utility/data_type.hpp", word="tf32_t"),
}
"""Features that templates may ask for. A name is about the CK Tile where its header is of `ck_tile/`."""


NEEDED_OF_HIP: Mapping[str, tuple[str, str]] = {
    "__hip_internal": ("ck/utility/amd_ck_fp8.hpp", "hip-internal"),
    "__hip_assert": ("ck/utility/amd_ck_fp8.hpp", "hip-assert"),
}
"""Names of HIP that a header of Composable Kernel uses, that header, and the feature of headers that have them."""


@dataclass(frozen=True, slots=True)
class FeatureAnswer:
    """An answer about a feature of headers. `lacking` is why they do not have it and what does, in one sentence; empty
    if they do."""

    has: bool
    lacking: str = ""


FindText = Callable[[str], HeaderText | None]
FindFolder = Callable[[str], str | None]
"""The folder that holds a header; None where no folder does."""


def answer(feature: Feature, text_of: FindText, folder_of: FindFolder) -> FeatureAnswer:
    """Return whether the headers that `text_of` gives have the feature."""
    folder = folder_of(ANCHORS[library_of(feature.header)])
    if folder is None:
        return FeatureAnswer(feature.usual)
    text = text_of(feature.header)
    if text is None:
        return FeatureAnswer(False, lacking_header(feature.header, folder, feature.since))
    if feature.name:
        lacking = lacking_parameters(feature.header, feature.name, feature.takes, text, folder, feature.since)
        return FeatureAnswer(not lacking, lacking)
    if text.mentions(feature.word):
        return FeatureAnswer(True)
    return FeatureAnswer(False, f"{feature.header} in {folder} has no `{feature.word}`; {_has_it(feature.since)}")


def library_of(header: str) -> str:
    """`ck` or `ck_tile`: the first folder in the header's name."""
    return header.partition("/")[0]


def lacking_header(header: str, folder: str, since: str = "") -> str:
    """The sentence for a header that Composable Kernel in `folder` does not have."""
    known = since or _HEADERS_SINCE.get(header, "")
    library = "HIP" if library_of(header) == "amd_detail" else "Composable Kernel"
    return f"{library} in {folder} has no {header}" + (f"; {_has_it(known)}" if known else "")


def lacking_parameters(
    header: str, name: str, takes: tuple[str, ...], text: HeaderText, folder: str, since: str = CK_1_2
) -> str:
    """Why the class template `name` cannot be given the parameters in this order, others between them; empty if it
    can."""
    found = text.parameters(name)
    if found is None:
        return f"{header} in {folder} declares no `{name}`; {_has_it(since)}"
    left = iter([plain(one) for one in found])
    missing = next((one for one in takes if plain(one) not in left), None)
    if missing is None:
        return ""
    words = "takes no" if plain(missing) not in map(plain, found) else "takes in another order its parameter"
    return f"`{name}` of {header} in {folder} {words} `{missing}`; {_has_it(since)}"


def lacking_arch(arch: str, header: str, text: HeaderText, folder: str) -> str:
    """Why headers have nothing for an arch; empty if they have. `header` is one of `ARCH_HEADERS`."""
    macro = arch.partition(":")[0].replace("-", "_")
    if macro in text.archs or not text.archs:  # one that names none may leave them to another header
        return ""
    family = macro[:-2]
    known = sorted(one for one in text.archs if len(one) == len(macro) and one.startswith(family))
    named = f", of {family} {' and '.join(known)} alone" if known else ""
    since = _ARCHS_SINCE.get(macro)
    return f"Composable Kernel in {folder} knows no {arch} ({header}{named})" + (f"; {_has_it(since)}" if since else "")


def plain(name: str) -> str:
    """A template parameter's name without the underscore at its end, underscores and case."""
    return name.replace("_", "").lower()


def _has_it(since: str) -> str:
    return f"it is in {since}"
