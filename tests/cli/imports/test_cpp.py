"""`ckwatch import cpp`: what follows from a program of Composable Kernel, against headers that are as small as can be."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckwatch.cli import main
from ckwatch.cli.imports.ck_gemms import epilogue_steps
from ckwatch.cli.imports.cpp_program import CppProgram, read_program
from ckwatch.cli.imports.element_functions import ElementFunctions, UntranslatableError
from ckwatch.model.errors import CkwatchError
from ckwatch.workspace.loading import load_workspace
from helpers.each_row import each_row

Capture = pytest.CaptureFixture[str]

INTERFACES = """\
namespace ck { enum struct PipelineVersion { v1, v2 = 1, v4 }; }
namespace ck { namespace tensor_operation { namespace device {
template <typename ALayout, typename BLayout, typename CLayout, typename ADataType, typename BDataType,
          typename CDataType, typename AOp, typename BOp, typename COp>
struct DeviceProduct : public BaseOperator
{
    virtual std::unique_ptr<BaseArgument>
    MakeArgumentPointer(const void* p_a, const void* p_b, void* p_c, ck::index_t M, ck::index_t N, ck::index_t K,
                        ck::index_t StrideA, ck::index_t StrideB, ck::index_t StrideC, ck::index_t KSplit,
                        AOp a_element_op, BOp b_element_op, COp c_element_op) = 0;
};
template <typename ALayout, typename BLayout, typename DsLayout, typename ELayout, typename ADataType,
          typename BDataType, typename DsDataType, typename EDataType, typename AOp, typename BOp, typename CDEOp>
struct DeviceProductMultipleD : public BaseOperator
{
    virtual std::unique_ptr<BaseArgument>
    MakeArgumentPointer(const void* p_a, const void* p_b, std::array<const void*, NumDTensor> p_ds, void* p_e,
                        ck::index_t M, ck::index_t N, ck::index_t K, ck::index_t StrideA, ck::index_t StrideB,
                        std::array<ck::index_t, NumDTensor> StrideDs, ck::index_t StrideE,
                        AOp a_element_op, BOp b_element_op, CDEOp cde_element_op) = 0;
};
template <typename InDataTypeTuple, typename OutDataTypeTuple, typename ElementwiseOperation, index_t NumDim>
struct DeviceElementwise : public BaseOperator
{
    virtual std::unique_ptr<BaseArgument>
    MakeArgumentPointer(const std::array<index_t, NumDim> lengths,
                        const std::array<std::array<index_t, NumDim>, NumInput> inStridesArray,
                        const std::array<std::array<index_t, NumDim>, NumOutput> outStridesArray,
                        const std::array<const void*, NumInput> in_dev_buffers,
                        const std::array<void*, NumOutput> out_dev_buffers,
                        ElementwiseOperation elementwise_op) = 0;
};
template <typename InDataType, typename AccDataType, typename OutDataType, index_t Rank, index_t NumReduceDim,
          typename ReduceOperation, typename InElementwiseOperation, typename AccElementwiseOperation>
struct DeviceReduce : public BaseOperator
{
    virtual std::unique_ptr<BaseArgument>
    MakeArgumentPointer(const std::array<index_t, Rank> inLengths, const std::array<index_t, Rank> inStrides,
                        const std::array<index_t, NumOutDim> outLengths, const std::array<index_t, NumOutDim> outStrides,
                        const std::array<int, NumReduceDim> reduceDims, double alpha, double beta, const void* in_dev,
                        const void* in_index_dev, void* out_dev, void* out_index_dev,
                        const InElementwiseOperation in_elementwise_op,
                        const AccElementwiseOperation acc_elementwise_op) = 0;
};
template <typename InDataType, typename OutDataType>
struct DeviceSomething : public BaseOperator
{
    virtual std::unique_ptr<BaseArgument>
    MakeArgumentPointer(const std::vector<index_t> lengths, const void* in_dev, void* out_dev, double scale) = 0;
};
template <typename InDataType>
struct DeviceOfLists : public BaseOperator
{
    virtual std::unique_ptr<BaseArgument> MakeArgumentPointer(std::vector<const void*>& in, void* out) = 0;
};
}}}
"""
OPERATIONS = """\
#include "ck/tensor_operation/gpu/device/interfaces.hpp"
namespace ck { namespace tensor_operation { namespace device {
template <typename ALayout, typename BLayout, typename CLayout,
          typename ADataType, typename BDataType, typename CDataType, typename AccDataType,
          typename AElementwiseOperation, typename BElementwiseOperation, typename CElementwiseOperation,
          GemmSpecialization GemmSpec, index_t BlockSize, index_t KPerBlock, typename Lengths, bool ExtraM,
          PipelineVersion PipelineVer = PipelineVersion::v1>
struct DeviceProduct_Xdl : public DeviceProduct<ALayout, BLayout, CLayout, ADataType, BDataType, CDataType,
                                                AElementwiseOperation, BElementwiseOperation, CElementwiseOperation>
{
};
template <typename ALayout, typename BLayout, typename DsLayout, typename ELayout,
          typename ADataType, typename BDataType, typename DsDataType, typename EDataType, typename AccDataType,
          typename AElementwiseOperation, typename BElementwiseOperation, typename CDEElementwiseOperation,
          index_t BlockSize>
struct DeviceProductMultipleD_Xdl
    : public DeviceProductMultipleD<ALayout, BLayout, DsLayout, ELayout, ADataType, BDataType, DsDataType, EDataType,
                                    AElementwiseOperation, BElementwiseOperation, CDEElementwiseOperation>
{
};
template <typename InDataTypeTuple, typename OutDataTypeTuple, typename ElementwiseOperation, index_t NumDim,
          index_t BlockSize>
struct DeviceElementwiseImpl : public DeviceElementwise<InDataTypeTuple, OutDataTypeTuple, ElementwiseOperation, NumDim>
{
};
template <typename InDataType, typename AccDataType, typename OutDataType, index_t Rank, index_t NumReduceDim,
          typename ReduceOperation, typename InElementwiseOperation, typename AccElementwiseOperation,
          index_t BlockSize>
struct DeviceReduceImpl : public DeviceReduce<InDataType, AccDataType, OutDataType, Rank, NumReduceDim, ReduceOperation,
                                              InElementwiseOperation, AccElementwiseOperation>
{
};
template <typename InDataType, typename OutDataType, index_t BlockSize>
struct DeviceSomethingImpl : public DeviceSomething<InDataType, OutDataType>
{
};
template <typename InDataType, index_t BlockSize>
struct DeviceOfListsImpl : public DeviceOfLists<InDataType>
{
};
}}}
"""
COMMON = """\
#pragma once
#include "ck/ck.hpp"
#include "ck/tensor_operation/gpu/device/operations.hpp"
#include "ck/library/utility/host_tensor.hpp"
template <ck::index_t... Is>
using S = ck::Sequence<Is...>;
using F16 = ck::half_t;
using Row = ck::tensor_layout::gemm::RowMajor;
using Col = ck::tensor_layout::gemm::ColumnMajor;
namespace ew = ck::tensor_operation::element_wise;
using PassThrough = ew::PassThrough;
struct ProblemSize final { ck::index_t M = 3840; ck::index_t N = 4'096; ck::index_t K = 64 * 4; ck::index_t StrideA = -1; };
"""
PLAIN = """\
#include "common.hpp"
using ADataType = F16;
typedef float AccDataType;
#ifdef BY_COLUMNS
using BLayout = Col;
#else
using BLayout = Row;
#endif
static constexpr auto GemmDefault = ck::tensor_operation::device::GemmSpecialization::MNKPadding;
constexpr int block = 64 * 4;
// using DeviceGemm = ck::tensor_operation::device::DeviceOld<1>;
using DeviceGemm = ck::tensor_operation::device::DeviceProduct_Xdl
// ####| ALayout|
    <Row, BLayout, Row, ADataType, F16, F16, AccDataType, PassThrough, PassThrough, PassThrough, GemmDefault,
     block, 32, S<4, block / 4, 1>, 1, ck::PipelineVersion::v2>;
#include "run.inc"
int main() { return run(); }
"""
RUN = "int run() { ProblemSize size; DeviceGemm gemm; return 0; }\n"
FUSED = """\
#include "common.hpp"
using Epilogue = ew::AddAddFastGelu;
using DeviceGemm = ck::tensor_operation::device::DeviceProductMultipleD_Xdl<
    Row, Col, ck::Tuple<Row, Row>, Row, F16, F16, ck::Tuple<F16, float>, F16, float, PassThrough, PassThrough, Epilogue, 256>;
int main() { ck::index_t StrideD0 = 0; ck::index_t StrideD1 = 4096; DeviceGemm gemm; }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    device = tmp_path / "headers/ck/tensor_operation/gpu/device"
    device.mkdir(parents=True)
    (tmp_path / "headers/ck/ck.hpp").write_text("")
    (device / "interfaces.hpp").write_text(INTERFACES)
    (device / "operations.hpp").write_text(OPERATIONS)
    (tmp_path / "common.hpp").write_text(COMMON)
    (tmp_path / "run.inc").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(text: str, *words: str, status: int = 0) -> None:
    Path("program.cpp").write_text(text)
    assert main(["import", "cpp", "program.cpp", "-I", "headers", "--out", "ws", *words]) == status


def kernel_file(name: str = "program") -> dict[str, Any]:
    return tomllib.loads(Path(f"ws/kernels/{name}.kernel.toml").read_text())


def read(text: str, **macros: str) -> CppProgram:
    return read_program(Path("x.cpp"), {Path("x.cpp"): text}.__getitem__, [], macros)


def test_a_plain_gemm_leaves_nothing_open(folder: Path, capsys: Capture) -> None:
    run(PLAIN)
    assert "nothing is open" in capsys.readouterr().out
    found = kernel_file()
    assert found["operation"] == {
        "kind": "gemm", "a": {"dtype": "f16", "layout": "row"}, "b": {"dtype": "f16", "layout": "row"},
        "c": {"dtype": "f16", "layout": "row"},
    }  # fmt: skip
    assert found["shape"] == [{"M": 3840, "N": 4096, "K": 256}]
    assert found["instance"] == [{
        "name": "DeviceGemm", "GemmSpec": "MNKPadding", "BlockSize": 256, "KPerBlock": 32, "Lengths": [4, 64, 1],
        "ExtraM": True, "PipelineVer": "v2",
    }]  # fmt: skip
    template = (folder / "ws/templates/program.hip.j2").read_text()
    assert "using AccDataType" not in template
    assert "typedef float AccDataType;" in template
    assert "/* PipelineVer */ ck::PipelineVersion::{{ PipelineVer }}>" in template
    assert "/* KSplit */ kBatch" in template
    assert "host_tensor" not in template
    workspace = load_workspace(folder / "ws")
    assert not [one for one in workspace.diagnostics if one.severity.name == "ERROR"]


def test_branches_follow_macros(folder: Path) -> None:
    run(PLAIN, "-D", "BY_COLUMNS")
    assert kernel_file()["operation"]["b"] == {"dtype": "f16", "layout": "col"}
    assert kernel_file()["flags"] == ["-DBY_COLUMNS"]


def test_an_epilogue_of_ck_is_a_chain_of_steps(folder: Path) -> None:
    run(FUSED)
    operation = kernel_file()["operation"]
    assert operation["epilogue"] == ["D0", "D1", "gelu_tanh"]
    assert operation["operands"] == {
        "D0": {"does": "add", "per": "column", "dtype": "f16"},
        "D1": {"does": "add", "per": "element", "dtype": "f32", "layout": "row"},
    }
    template = (folder / "ws/templates/program.hip.j2").read_text()
    assert "/* StrideDs */ std::array<ck::index_t, 2>{ 0, LD_D1 }" in template


@pytest.mark.parametrize(
    ("name", "operands", "steps"),
    [
        ("AddAddFastGelu", ["D0", "D1"], ["D0", "D1", "gelu_tanh"]),
        ("MultiplyAdd", ["D0", "D1"], ["D0", "D1"]),
        ("AddRelu", ["D"], ["D", "relu"]),
        ("Relu", [], ["relu"]),
        ("AddHardswish", ["D"], None),
        ("AddAdd", ["D"], None),
        ("Add", ["D0", "D1"], None),
    ],
)
def test_names_of_epilogues(name: str, operands: list[str], steps: list[str] | None) -> None:
    assert epilogue_steps(name, operands) == steps


OWN = """\
struct Epilogue {
    Epilogue(float alpha, float beta) : alpha_(alpha), beta_{beta} {}
    template <typename E, typename C, typename D0, typename D1>
    __host__ __device__ void operator()(E& e, const C& c, const D0& d0, const D1& d1) const {
        // e = c;
        const float x = alpha_ * ck::type_convert<float>(c + d0) + beta_ * static_cast<float>(d1);
        e = x > 0.f ? x : ck::half_t{0};
    }
    float alpha_;
    float beta_;
};
"""


def test_an_epilogue_of_the_program_becomes_a_reference(folder: Path) -> None:
    text = FUSED.replace("using Epilogue = ew::AddAddFastGelu;", OWN)
    run(text.replace("DeviceGemm gemm;", "float beta = 2.5f; auto op = Epilogue{0.5, beta};"))
    operation = kernel_file()["operation"]
    assert operation["reference"] == "program_reference.py:outputs"
    module: dict[str, Any] = {}
    exec((folder / "ws/kernels/program_reference.py").read_text(), module)  # noqa: S102
    x, w, d0, d1 = np.eye(2), np.array([[1.0, -6], [3, 4]]), np.array([1.0, 2]), np.array([[0.0, 1], [2, 3]])
    right = np.maximum(0.5 * (x @ w + d0) + 2.5 * d1, 0)
    assert np.array_equal(module["outputs"](X=x, W=w, D0=d0, D1=d1), right)
    template = (folder / "ws/templates/program.hip.j2").read_text()
    assert "/* cde_element_op */ Epilogue{ 0.5f, 2.5f }" in template


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("e = c * d;", 6),
        ("const auto y = c + d; e = y; e -= 1.5f;", 3.5),
        ("e = c > d ? c : c < 0 ? 1 : ck::math::max(d, 7.0f);", 7),
        ("Other{}(e, c); e = e + d;", 7),
        ("Other{}.template operator()<float, float>(e, d);", 6),
        ("float y; for (;;) y = c; e = y;", None),
        ("e = unknown(c);", None),
        ("if (c > 0) e = c;", None),
        ("", None),
    ],
)
def test_operations_on_elements_are_translated_or_not(body: str, right: float | None) -> None:
    texts = {
        "Own": f"struct Own {{ void operator()(float& e, float c, float d) const {{ {body} }} }};",
        "Other": "struct Other { void operator()(float& y, const float& x) const { y = 2 * x; } };",
    }
    functions = ElementFunctions(texts.get, {})
    if right is None:
        with pytest.raises(UntranslatableError):
            functions.add("Own", 2)
        return
    functions.add("Own", 2)
    module: dict[str, Any] = {"np": np}
    exec("\n".join(functions.texts.values()), module)  # noqa: S102
    assert module["Own"](2.0, 3.0) == right


def test_an_epilogue_that_is_not_translated_is_left_open(folder: Path, capsys: Capture) -> None:
    run(
        FUSED.replace(
            "using Epilogue = ew::AddAddFastGelu;", "struct Epilogue { void operator()(float& e, float c); };"
        )
    )
    assert "1 line open" in capsys.readouterr().out
    assert kernel_file()["operation"]["reference"] == "?"
    errors = [one for one in load_workspace(folder / "ws").diagnostics if one.severity.name == "ERROR"]
    assert [one.code for one in errors] == ["kernel-file/open-place"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int main() {}", "names no device operation of Composable Kernel"),
        (f"#if defined(WIDE)\n{PLAIN}#endif\n", "a branch of `#if` that does not count"),
        (
            PLAIN.replace("PipelineVersion::v2", "PipelineVersion::v3"),
            "PipelineVersion of Composable Kernel in headers has no v3",
        ),
        (
            (
                "using Op = ck::tensor_operation::device::DeviceProduct<int>;\n"
                "using F = ck::tensor_operation::device::instance::DeviceOperationInstanceFactory<Op>;"
            ),
            "it takes instances from CK's library: `ckwatch import ck4inductor`",
        ),
        ("__global__ void scale(float* y) {}", "`ckwatch import hip program.cpp` takes those"),
        (PLAIN.replace("DeviceProduct_Xdl", "DeviceProduct_Xdk"), "program.cpp:12: Composable Kernel in headers"),
        (PLAIN.replace("GemmDefault,\n", "GemmDefault, 1, 2,\n"), "takes 15 to 16 template arguments, not 18"),
        (
            PLAIN.replace("using ADataType = F16", "using ADataType = ck::pk_i4_t"),
            "no dtype for the elements of DeviceGemm",
        ),
        (PLAIN.replace("common.hpp", "not_there.hpp"), "program.cpp:1: there is no not_there.hpp"),
        ('#include "ck/none.hpp"\n' + PLAIN, "program.cpp:1: Composable Kernel in headers has no header ck/none.hpp"),
        ("#ifndef INT4\n#error only with INT4\n#endif\n" + PLAIN, "program.cpp:2: #error only with INT4"),
    ],
)
def test_what_cannot_be_imported_is_one_sentence(folder: Path, capsys: Capture, text: str, message: str) -> None:
    run(text, status=2)
    shown = capsys.readouterr().err.replace(f"{folder}/", "")
    assert message in shown
    assert not (folder / "ws").exists()


def test_files_that_are_there_are_kept(folder: Path, capsys: Capture) -> None:
    run(PLAIN)
    run(PLAIN, status=2)
    assert "already there" in capsys.readouterr().err
    run(PLAIN, "--force")


def test_operations_that_differ_in_parameters_are_instances(folder: Path) -> None:
    second = PLAIN[PLAIN.index("\nusing DeviceGemm") : PLAIN.index('#include "run.inc"')]
    second = second.replace("DeviceGemm", "Small").replace("block, 32", "64, 16")
    text = PLAIN.replace('#include "run.inc"', second).replace("return run();", "DeviceGemm one; Small two; ")
    run(text)
    assert [(one["name"], one["KPerBlock"]) for one in kernel_file()["instance"]] == [("DeviceGemm", 32), ("Small", 16)]
    run(text, "--operation", "Small", "--force")
    assert [one["name"] for one in kernel_file()["instance"]] == ["Small"]
    run(text, "--operation", "Smal", "--force", status=2)


def test_only_operations_that_are_used_count(folder: Path, capsys: Capture) -> None:
    second = PLAIN[PLAIN.index("\nusing DeviceGemm") : PLAIN.index('#include "run.inc"')].replace(
        "DeviceGemm", "Unused"
    )
    run(PLAIN.replace('#include "run.inc"', second.replace("block, 32", "64, 16") + '#include "run.inc"'))
    assert [one["name"] for one in kernel_file()["instance"]] == ["DeviceGemm"]
    assert "not used by the program: Unused;" in capsys.readouterr().out
    run(Path("program.cpp").read_text(), "--operation", "Unused", "--force")
    assert [(one["name"], one["KPerBlock"]) for one in kernel_file()["instance"]] == [("Unused", 16)]


def test_json(folder: Path, capsys: Capture) -> None:
    run(PLAIN, "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["open"] == {"program": {}}
    assert len(answer["files"]) == 3


ELEMENTWISE = """\
#include "common.hpp"
struct AddHalf { void operator()(F16& y, const F16& a, const float& b) const { y = a + 0.5f * b; } };
using Sum = ck::tensor_operation::device::DeviceElementwiseImpl<ck::Tuple<F16, float>, ck::Tuple<F16>, AddHalf, 2, 64>;
int main() {
    ck::index_t M = 128, N = 64, Stride = 64;
    std::array<ck::index_t, 2> lengths = {M, N};
    std::array<ck::index_t, 2> a_strides = {Stride, 1};
    std::array<ck::index_t, 2> b_strides = {0, 1};
    std::array<ck::index_t, 2> c_strides = {1, M};
    Sum sum;
    auto argument = sum.MakeArgumentPointer(lengths, {a_strides, b_strides}, {c_strides}, input, output, AddHalf{});
}
"""


def test_elementwise_operations_have_the_strides_of_the_program(folder: Path) -> None:
    run(ELEMENTWISE)
    operation = kernel_file()["operation"]
    assert operation["sizes"] == ["M", "N"]
    assert [one.get("strides") for one in operation["input"]] == [None, ["0", "1"]]
    assert operation["output"][0]["strides"] == ["1", "M"]
    assert kernel_file()["shape"] == [{"M": 128, "N": 64}]
    module: dict[str, Any] = {}
    exec((folder / "ws/kernels/program_reference.py").read_text(), module)  # noqa: S102
    assert module["outputs"](np.float64(3), np.float64(4)) == 5
    template = (folder / "ws/templates/program.hip.j2").read_text()
    assert "std::array<ck::index_t, 2>{N, 1}, std::array<ck::index_t, 2>{0, 1}" in template
    assert not [one for one in load_workspace(folder / "ws").diagnostics if one.severity.name == "ERROR"]


REDUCTION = """\
#include "common.hpp"
constexpr ck::ReduceTensorOp OpId = ck::ReduceTensorOp::AVG;
template <typename InOutType, typename AccType, ck::ReduceTensorOp OpId, ck::index_t Rank, ck::index_t NumReduceDim>
int reduce(const std::vector<size_t>& inLengths) {
    using In = typename ck::reduce_unary_operator<OpId, true, true>::InElementwiseOperation;
    using Acc = typename ck::reduce_unary_operator<OpId, true, true>::AccElementwiseOperation;
    using Reduce = ck::tensor_operation::device::DeviceReduceImpl<InOutType, AccType, InOutType, Rank, NumReduceDim,
                                                                  ck::reduce::Add, In, Acc, 256>;
    Reduce one;
}
int main() {
    std::vector<size_t> inLengths = {16, 64, 32};
    std::vector<int> reduceDims = {0, 2};
    if (half) reduce<F16, float, OpId, Shape::Rank_, Shape::NumReduceDim_>(inLengths);
    else reduce<float, float, OpId, Shape::Rank_, Shape::NumReduceDim_>(inLengths);
}
"""


def test_template_arguments_of_functions_are_those_of_the_first_call(folder: Path) -> None:
    run(REDUCTION)
    operation = kernel_file()["operation"]
    assert (operation["sizes"], operation["input"][0]["dtype"]) == (["L0", "L1", "L2"], "f16")
    assert (operation["output"][0]["sizes"], kernel_file()["shape"][0]["L1"]) == (["L1"], 64)
    assert "In.mean(axis=(0, 2))" in (folder / "ws/kernels/program_reference.py").read_text()
    template = (folder / "ws/templates/program.hip.j2").read_text()
    assert template.index("using InOutType = F16;") > template.index("using F16 =")
    assert "/* Rank */ 3,\n        /* NumReduceDim */ 2," in template


def test_other_operations_have_marked_lines(folder: Path, capsys: Capture) -> None:
    something = "using It = ck::tensor_operation::device::DeviceSomethingImpl<F16, Unknown, 64>; int main() { It one; }"
    run(f'#include "common.hpp"\n{something}\n')
    assert "5 lines open" in capsys.readouterr().out
    operation = kernel_file()["operation"]
    assert (operation["kind"], operation["runtime"], operation["input"][0]["dtype"]) == (
        "custom", {"scale": "double"}, "f16",
    )  # fmt: skip
    errors = [one.code for one in load_workspace(folder / "ws").diagnostics if one.severity.name == "ERROR"]
    assert errors == ["kernel-file/open-place"] * 5
    lists = "using It = ck::tensor_operation::device::DeviceOfListsImpl<F16, 64>; int main() { It one; }"
    run(f'#include "common.hpp"\n{lists}\n', "--force", status=2)
    assert "takes lists that a C function cannot pass on" in capsys.readouterr().err


TILE = """\
#include "ck_tile/ops/gemm.hpp"
struct ConfigBase {
    static constexpr bool kPadM = false;
    static constexpr auto Scheduler = ck_tile::GemmPipelineScheduler::Intrawave;
    static constexpr ck_tile::index_t M_Tile = 1;
};
template <typename T>
struct ConfigWide : public ConfigBase {
    static constexpr ck_tile::index_t M_Tile = 256;
    static constexpr ck_tile::index_t K_Tile = 128 / sizeof(T);
    static constexpr ck_tile::index_t K_Warp_Tile = warp_tile<T>();
};
struct Unused {};
struct Invoker {
    template <typename GemmConfig, typename ADataType, typename BDataType, typename AccDataType, typename CDataType,
              typename ALayout, typename BLayout, typename CLayout>
    static float gemm(const ck_tile::GemmHostArgs& args, const ck_tile::stream_config& s) {
#if CK_TILE_USE_WMMA
        constexpr ck_tile::index_t M_Warp = 4;
#else
        constexpr ck_tile::index_t M_Warp = 2;
#endif
        return ck_tile::launch_kernel(s, ck_tile::make_kernel(Kernel<GemmConfig, M_Warp>{}, {{1, 2}}));
    }
};
auto create_args() { return parser.insert("m", "3840", "").insert("b_layout", "C", "").insert("prec", "fp16", ""); }
template <template <typename> typename GemmConfig> int run_gemm_example() {
    ck_tile::GemmHostArgs args = {a_buf.GetDeviceBuffer(), b_buf.GetDeviceBuffer(), c_buf.GetDeviceBuffer(), kbatch,
                                  M, N, K, stride_A, stride_B, stride_C};
}
template <typename ADataType> int with_type() { return run_gemm_example<ConfigWide>(); }
int main() { int N = 512; return with_type<ck_tile::half_t>(); }
"""


def test_constants_of_a_ck_tile_program_are_parameters(folder: Path) -> None:
    run(TILE)
    found = kernel_file()
    assert found["operation"]["b"] == {"dtype": "f16", "layout": "col"}
    assert found["shape"] == [{"M": 3840, "N": 512, "K": 1024}]
    assert found["instance"] == [{
        "name": "ConfigWide", "M_Tile": 256, "K_Tile": 64, "kPadM": False, "Scheduler": "Intrawave", "M_Warp": 2,
    }]  # fmt: skip
    template = (folder / "ws/templates/program.hip.j2").read_text()
    assert "M_Tile = 1;" in template
    assert "K_Warp_Tile = warp_tile<T>();" in template
    assert "ConfigWide<{{ dtype(X) }}>" in template
    assert "struct Unused" not in template
    assert "using ADataType" not in template
    assert not [one for one in load_workspace(folder / "ws").diagnostics if one.severity.name == "ERROR"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TILE.replace("run_gemm_example<ConfigWide>()", "0"),
            "the configuration of `Invoker::gemm` is not written out",
        ),
        (TILE.replace("typename ALayout", "typename Other"), "`Invoker::gemm` is not a GEMM of CK Tile"),
        (TILE.replace('"fp16"', '"pk_int4_t"'), "kernel files have no dtype for `pk_int4_t`"),
        (TILE.replace("kbatch,", "workspace,"), "the argument workspace of ck_tile::GemmHostArgs is not known"),
    ],
)
def test_what_of_ck_tile_is_not_known_is_said(folder: Path, capsys: Capture, text: str, message: str) -> None:
    run(text, status=2)
    assert message in capsys.readouterr().err


@each_row(
    ("text", "resolved"),
    [
        ("using A = B; using B = ck::half_t;", "ck::half_t"),
        ("namespace d = ck::device; using A = d::Thing;", "ck::device::Thing"),
        ("template <int... Is> using S = ck::Sequence<Is...>; using A = S<1, 2>;", "ck::Sequence<1, 2>"),
        ("template <int N, typename T = int> using S = X<T, N>; using A = S<3>;", "X<int, 3>"),
        ("#define A B\n", "B"),
        ("#if V > 2 && defined(W)\nusing A = x;\n#elif V\nusing A = y;\n#else\nusing A = z;\n#endif\n", "y"),
        ("#if 0\n#if 1\nusing A = x;\n#else\nusing A = y;\n#endif\n#else\nusing A = z;\n#endif\n", "z"),
        ("/* using A = x; */ const char* s = \"using A = y;\"; using A = z;", "z"),
        ("struct Y { using A = x; }; void f() { g(); } using A = z;", "z"),
        ("using ns::A;", "ns::A"),
    ],
)  # fmt: skip
def test_names_are_resolved(text: str, resolved: str) -> None:
    assert read(text, V="2").resolved("A") == resolved


def test_errors_name_the_file_that_was_included(tmp_path: Path) -> None:
    (tmp_path / "inner.hpp").write_text("\n\n#error no\n")
    path = tmp_path / "outer.cpp"
    path.write_text('int a;\n#include "inner.hpp"\n')
    with pytest.raises(CkwatchError, match=r"inner\.hpp:3: #error no"):
        read_program(path, lambda one: one.read_text(), [], {})
