"""CK Tile's headers of 1.2.0, changed as rocm-libraries has changed them for ROCm 7.14 and later.

Not those headers themselves: they cannot be installed here. What is changed is what a GEMM meets of it: the parameters of
`UniversalGemmPipelineProblem` and `CShuffleEpilogueProblem`, pipelines that find out themselves what their last rounds
are, those with two buffers in LDS that get them as one, and a kernel that makes windows one by one.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_GEMM = "ck_tile/ops/gemm/"
_RUN = """
        const auto run_rounds = [&](auto hot_loop, auto tail) {
            return PipelineImpl<Scheduler>{}.template operator()<hot_loop.value, tail.value>(\\1);
        };
        return Base::TailHandler(run_rounds, Base::BlockHasHotloop(num_loop), Base::GetBlockLoopTailNum(num_loop));"""
_WINDOWS = """
    CK_TILE_DEVICE static auto MakeEveryWindow(
        const std::array<const ADataType*, NumATensor>& a, const std::array<const BDataType*, NumBTensor>& b,
        const std::array<const void*, NumDTensor>& d, EDataType* e, const KernelArgs& k, index_t k_size, index_t m, index_t n)
    {
        return TileWindowsOf(PadViewsOf(TensorViewsOf(a, b, d, e, k, k_size)), m, n);
    }
    CK_TILE_DEVICE static auto MakeABlockWindows(
        const std::array<const ADataType*, NumATensor>& a, const KernelArgs& k, index_t k_size, index_t m)
    {
        return MakeEveryWindow(a, {}, {}, nullptr, k, k_size, m, 0).at(I0);
    }
    CK_TILE_DEVICE static auto MakeBBlockWindows(
        const std::array<const BDataType*, NumBTensor>& b, const KernelArgs& k, index_t k_size, index_t n)
    {
        return MakeEveryWindow({}, b, {}, nullptr, k, k_size, 0, n).at(I1);
    }
    CK_TILE_DEVICE static auto MakeDBlockWindows(
        const std::array<const void*, NumDTensor>& d, const KernelArgs& k, index_t m, index_t n)
    {
        return MakeEveryWindow({}, {}, d, nullptr, k, k.K, m, n).at(I2);
    }
    CK_TILE_DEVICE static auto MakeCBlockWindows(EDataType* e, const KernelArgs& k, index_t m, index_t n)
    {
        return MakeEveryWindow({}, {}, {}, e, k, k.K, m, n).at(I3);
    }
"""

_ONE_BUFFER = (
    (r"(void\* (?:__restrict__ )?)p_smem_0,\s*void\* (?:__restrict__ )?p_smem_1", r"\1p_smem"),
    (r"GetABLdsTensorViews\(p_smem_0\)", "GetABLdsTensorViews(p_smem)"),
    (
        r"GetABLdsTensorViews\(p_smem_1\)",
        "GetABLdsTensorViews(static_cast<char*>(p_smem) + Policy::template GetSmemSize<Problem>())",
    ),
    (r"return (Policy::template GetSmemSize<Problem>\(\));", r"return 2 * \1;"),
    (r"p_smem_0,\s*p_smem_1", "p_smem"),
)
_ON_DEVICE = (r"CK_TILE_HOST (static constexpr (?:bool|TailNumber))", r"CK_TILE_HOST_DEVICE \1")
_IN_HEADER: dict[str, tuple[tuple[str, str], ...]] = {
    "comp_v4": _ONE_BUFFER,
    "comp_v6": (_ON_DEVICE, (r" +concat\('x', TailNum\),\n", ""), (r",\n +concat\('_', HasHotLoop\)", "")),
    "comp_async": (_ON_DEVICE, *_ONE_BUFFER),
}

_CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    f"{_GEMM}pipeline/gemm_pipeline_problem.hpp": (
        (
            r" +bool HasHotLoop_ += true,\n +TailNumber TailNum_ += TailNumber::Full,\n( +typename AElementWise_)",
            r"\1",
        ),
        (
            (
                r"(BElementWise_ += ck_tile::element_wise::PassThrough,\n) +typename ComputeDataType_( += AsDataType_,)"
                r"(?=[^;{]*\nstruct UniversalGemmPipelineProblem)"
            ),
            r"\1 typename AComputeDataType_\2 typename BComputeDataType_ = BsDataType_,",
        ),
        (
            (
                r"(?s)(\nstruct UniversalGemmPipelineProblem\n.*?)\bComputeDataType_>::value(.*?)\bComputeDataType_>,"
                r"(.*?)<ComputeDataType_>(.*?)\n +static constexpr auto HasHotLoop[^;]*;\n[^;]*;"
            ),
            r"\1AComputeDataType_>::value\2AComputeDataType_>,\3<AComputeDataType_>\4",
        ),
    ),
    **{
        f"{_GEMM}pipeline/gemm_pipeline_ag_bg_cr_{name}.hpp": (
            (r"static constexpr (?:bool HasHotLoop|auto TailNum) *=\s*Problem::\w+;", ""),
            *_IN_HEADER.get(name, ()),
            (
                r"(?s)return PipelineImpl<Scheduler>\{\}\.template operator\(\)<HasHotLoop, TailNum>\((.*?)\);",
                _RUN,
            ),
        )
        for name in ("mem", "comp_v3", "comp_v4", "comp_v5", "comp_v6", "comp_async")
    },
    "ck_tile/ops/epilogue/cshuffle_epilogue.hpp": (
        (r" +memory_operation_enum MemoryOperation_,\n", ""),
        (r"static constexpr memory_operation_enum MemoryOperation = MemoryOperation_;", ""),
        (r"Problem::MemoryOperation", "memory_operation_enum::set"),
    ),
    f"{_GEMM}kernel/universal_gemm_kernel.hpp": (
        (r"\bMakeGemm(TensorViews|PadViews|TileWindows)\b", r"\1Of"),
        (r"EpiloguePipeline::MemoryOperation", "memory_operation_enum::set"),
        (r"(?=\n    // Non-persistent kernel entry point|\n    template <bool U = !PersistentKernel)", _WINDOWS),
    ),
}


def changed_copy(folder: Path, into: Path) -> Path:
    """Copy the `ck_tile` of `folder` into a folder, and change it."""
    shutil.copytree(folder / "ck_tile", into / "ck_tile")
    for name, changes in _CHANGES.items():
        header = into / name
        text = header.read_text()
        for pattern, replacement in changes:
            once = 1 if replacement == _WINDOWS else 0
            text, count = re.subn(pattern, replacement, text, count=once)
            assert count, (name, pattern)
        header.write_text(text)
    return into
