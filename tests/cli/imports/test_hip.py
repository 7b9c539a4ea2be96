"""`ckwatch import hip`: what follows from a source, what stays open, and that nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.cli.imports.hip_kernels import hip_kernels
from ckwatch.cli.imports.hip_types import ElementType, element_type, is_size, runtime_type
from ckwatch.cli.imports.launches import kernel_launches
from ckwatch.cli.imports.missing_headers import stand_ins
from ckwatch.cli.imports.pointer_uses import Access
from ckwatch.compile.flags import HIP_FLAGS
from ckwatch.compile.toolchain.discover import discover
from ckwatch.headers.masked_text import masked
from ckwatch.model.errors import ToolchainError
from ckwatch.system.processes import run_blocking
from ckwatch.workspace.loading import load_workspace
from helpers.each_row import each_row

Capture = pytest.CaptureFixture[str]

SOURCE = """\
#include <hip/hip_runtime.h>
namespace rows {
// Not a kernel: __global__ void nothing(int);
template <typename T, int BLOCK = 256>
__global__ void __launch_bounds__(BLOCK) scale(
    T* __restrict__ out,         // [rows, n]
    const T* __restrict__ x,     // [rows, n]
    const float factor, const int n, bool negate) {
  for (int i = threadIdx.x; i < n; i += BLOCK)
    out[blockIdx.x * n + i] = x[blockIdx.x * n + i] * (T)(negate ? -factor : factor);
}
__global__ void add(float *y, const float x[], int size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) y[i] += x[i];
}
}
void launch(float* a, const float* b, int count, float f) {
  constexpr int threads = 128;
  const int columns = 64;
  dim3 grid(count / columns);
  rows::scale<float, threads><<<grid, threads, 0>>>(a, b, f, columns, false);
  hipLaunchKernelGGL(rows::add, dim3((count + threads - 1) / threads), dim3(threads), 0, 0, a, b, count);
}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "ws").mkdir()
    monkeypatch.chdir(tmp_path / "ws")
    path = tmp_path / "src/scale.cu"
    path.write_text(SOURCE)
    return path


def run(*words: str, status: int = 0) -> None:
    def no_toolchain() -> None:
        raise ToolchainError("no toolchain")

    assert main(["import", "hip", *words], dependencies={"discover": no_toolchain}) == status


def test_signatures_are_read_from_the_text() -> None:
    scale, add = hip_kernels(SOURCE)
    assert (scale.name, scale.scope, scale.line, scale.launch_bounds) == ("scale", ("rows",), 5, "BLOCK")
    assert [(one.kind, one.name, one.default) for one in scale.templates] == [
        ("typename", "T", None), ("int", "BLOCK", "256"),
    ]  # fmt: skip
    assert [(one.name, one.type, one.pointers, one.const) for one in scale.parameters] == [
        ("out", "T", 1, False), ("x", "T", 1, True), ("factor", "float", 0, True), ("n", "int", 0, True),
        ("negate", "bool", 0, False),
    ]  # fmt: skip
    assert [one.note for one in scale.parameters] == ["[rows, n]", "[rows, n]", "", "", ""]
    assert [one.access for one in add.parameters[:2]] == [Access.BOTH, Access.READ]


@each_row(
    ("statement", "access"),
    [
        ("p[i] = 1;", Access.WRITE),
        ("x = p[i];", Access.READ),
        ("copy_memcpy_1<8>(p + i, &x);", Access.WRITE),
        ("memcpy(&x, p + i, 8);", Access.READ),
        ("p[i] == 1;", Access.READ),
        ("p[i] *= 2;", Access.BOTH),
        ("++p[i];", Access.BOTH),
        ("p += i; p[0] = 1;", Access.WRITE),
        ("atomicAdd(&p[i], 1);", Access.BOTH),
        ("p[i] = 2 * p[i];", Access.BOTH),
        ("p[i] = 1; x = p[j];", Access.OWN),
        ("q = p;", Access.UNKNOWN),
        ("f(&p[i]);", Access.UNKNOWN),
        ("g(p[i]);", Access.UNKNOWN),
        ("p[i] = 1; g(p[i]);", Access.OWN),
        ("*p = 1;", Access.WRITE),
        ("x = 2 * *p;", Access.READ),
        ("x = __ldg(&p[i]);", Access.READ),
        ("p[i].x[1] = 1;", Access.WRITE),
        ("float4* q = (float4*) p + i; q[1] = x;", Access.WRITE),
        ("auto* q = reinterpret_cast<T<float, 4>*>(p); q[0] += 1;", Access.BOTH),
        ("char4* q = (char4*) p[i].x; q[0] = y;", Access.WRITE),
        ("float* q = reinterpret_cast<float*>(p[i]); q[0] = y;", Access.READ),
        ("float& q = p[i]; q = y;", Access.UNKNOWN),
        ("if (p != nullptr) p[i] = 1;", Access.WRITE),
        ("store(p + i, 1);", Access.WRITE),
        ("double_it(1, &p[i]);", Access.BOTH),
        ("show(p);", Access.READ),
        ("s.p[i] = 1;", Access.UNKNOWN),
    ],
)
def test_what_a_kernel_does_with_a_pointer(statement: str, access: Access) -> None:
    functions = """
__device__ void store(float* to, float x) { to[0] = x; }
__device__ void double_it(int i, float* __restrict__ one) { const float x = one[0]; store(one, 2 * x); }
__device__ void show(const float* one);
__device__ void show(const float* one) { }
"""
    (kernel,) = hip_kernels(f"{functions}__global__ void k(float* p, int i) {{ {statement} }}")
    assert kernel.parameters[0].access is access


@pytest.mark.parametrize(
    ("head", "name", "parameters"),
    [
        ("__global__ void k()", "k", []),
        ('extern "C" __global__ void __launch_bounds__(64, 2) k(int a)', "k", ["a"]),
        ("template <int N> __launch_bounds__(N * 2) static __global__ void k(int a, float)", "k", ["a", "argument_1"]),
        ("template <int N> __global__ std::enable_if_t<(N > 0) && (N < 9)> k(int a)", "k", ["a"]),
        ("__global__ __attribute__((amdgpu_waves_per_eu(2))) void k(const int a[4], int b = 3)", "k", ["a", "b"]),
    ],
)
def test_heads_of_kernels(head: str, name: str, parameters: list[str]) -> None:
    (kernel,) = hip_kernels(f"{head} {{ }}\n{head};")
    assert kernel.name == name
    assert [one.name for one in kernel.parameters] == parameters


@each_row(
    ("region", "launch", "grid", "block", "sizes"),
    [
        ("void f(int m) {", "k<<<m, 64>>>(p, m);", "n", "64", ()),
        ("void f(int m, int r) {", "k<<<r, 64>>>(p, m);", "r", "64", ("r",)),
        ("void f(int m) { int b = 64; dim3 g((m + b - 1) / b);", "k<<<g, b>>>(p, m);", "(n + 64 - 1) / 64", "64", ()),
        ("void f(int m) { int b = 64; b = 32;", "k<<<m, b>>>(p, m);", "n", "32", ()),
        ("void f(int m) { int b = 64; b /= 2;", "k<<<m, b>>>(p, m);", "n", "(64) / (2)", ()),
        ("void f(int m) { int b = 64; if (m > 9) b = 32;", "k<<<m, b>>>(p, m);", "n", None, ()),
        ("void f(int m) { int b = 64; if (m > 9) { b = 32; }", "k<<<m, b>>>(p, m);", "n", None, ()),
        ("void f(int m) { { dim3 g(1); } dim3 g(m);", "k<<<g, 64>>>(p, m);", "n", "64", ()),
        ("void f(int m) { int a = 1, b = 64;", "k<<<m, b>>>(p, m);", "n", "64", ()),
        ("void f(int m) { dim3 g(m); g.y = 2;", "k<<<g, 64>>>(p, m);", None, "64", ()),
        ("void f(Tensor t) { auto m = t.size(0);", "k<<<m, 64>>>(p, m);", "n", "64", ()),
        ("void f(Tensor t, int m) {", "k<<<t.size(0), 64>>>(p, m);", None, "64", ()),
        ("#define GO(B) \\\n  ", "k<<<1, B>>>(p, m)", "1", None, ()),
        ("void f(int m) {", "k<<<dim3(m / 16, 2), BLOCKS>>>(p, m);", "n / 16, 2", "BLOCKS", ()),
    ],
)
def test_launches_in_the_kernels_own_terms(
    region: str, launch: str, grid: str | None, block: str | None, sizes: tuple[str, ...]
) -> None:
    text = f"__global__ void k(float* p, int n) {{ }}\n{region} {launch}\n"
    (kernel,) = hip_kernels(text)
    found = kernel_launches(text, masked(text), kernel)[0]
    assert (found.grid, found.block, found.sizes) == (grid, block, sizes)
    assert set(found.why) == {key for key, value in (("Grid", grid), ("Block", block)) if value is None}


def test_types() -> None:
    assert element_type("const half2") == ElementType("f16", 2)
    assert element_type("c10::BFloat16") == ElementType("bf16")
    assert element_type("unsigned char") == ElementType("u8")
    assert element_type("float4") == ElementType("f32", 4)
    assert element_type("unsigned short") == ElementType("u16")
    assert element_type("const size_t") == ElementType("u64")
    assert element_type("block_q4_0") is None
    assert is_size("unsigned int")
    assert not is_size("float")
    assert runtime_type("__half") == "float"
    assert runtime_type("uint3") is None


def test_what_is_open_is_an_error_at_its_place(source: Path, capsys: Capture) -> None:
    source.write_text("""__global__ void gather(float* out,  // [rows, n...]
    const float* x, const int* table, int n, int row_stride) {
  for (int i = threadIdx.x; i < n; i += 64) store(&out[blockIdx.x * n + i], x[hash(table[i]) * row_stride]);
}
void f(int rows) { gather<<<rows, 64>>>(out, x, table, n, s); }
""")
    run(str(source), "--json")
    answer = json.loads(capsys.readouterr().out)
    assert set(answer["open"]["gather"]) == {"out", "out.in_out", "x", "row_stride"}
    root = Path.cwd()
    workspace = load_workspace(root)
    assert not list(workspace.units)
    lines = (root / "kernels/gather.kernel.toml").read_text().splitlines()
    for one in workspace.errors:
        assert one.code == "kernel-file/open-place"
        assert lines[one.span.start.line][one.span.start.column :].startswith(('["?"]', '"?"'))
    assert len(workspace.errors) == 4
    assert "the source says: [rows, n...]" in workspace.errors[1].message + workspace.errors[2].message


def test_values_that_are_subscripts_are_indices(source: Path) -> None:
    source.write_text("""__global__ void move(float* out, const float* table, const float* scales,  // [rows, 2, n / 2]
    const int* from, const int* to, int n, int rows) {
  const int row = from[blockIdx.x];
  use(scales + row * n);
  for (int i = threadIdx.x; i < n; i += 64) out[to[blockIdx.x] * n + i] = table[row * n + i];
}
void f(int count, int rows) { move<<<count, 64>>>(out, table, scales, from, to, n, rows); }
""")
    run(str(source))
    text = Path("kernels/move.kernel.toml").read_text()
    assert 'index = "rows of table"' in text
    assert 'values = "permutation"\nindex = "rows of out"' in text
    assert "partial = true" in text
    assert "n = { multiple = 2 }" in text
    (unit,) = load_workspace(Path.cwd()).units
    assert [len(one.sizes) for one in unit.kernel.operation.tensors] == [2, 3, 1, 1, 2]


def test_sizes_of_the_launch_are_products_where_the_kernel_divides_them(source: Path) -> None:
    source.write_text("""__global__ void split(float* y, const float* x, int n, int a, int s1, int s2) {
  const int outer = blockIdx.x / a;
  const int inner = blockIdx.x - outer * a;
  for (int i = threadIdx.x; i < n; i += 64) y[blockIdx.x * n + i] = x[outer * s2 + inner * s1 + i];
}
void f(int rows) { split<<<rows, 64>>>(y, x, n, a, s1, s2); }
""")
    run(str(source))
    text = Path("kernels/split.kernel.toml").read_text()
    assert 'sizes = ["rows_outer", "a", "n"]  # from `x[' in text
    assert 'strides = ["s2", "s1", 1]' in text
    assert 'Grid = "(rows_outer * a)"' in text
    assert len(list(load_workspace(Path.cwd()).units)) == 1


def test_a_type_is_dispatched_around_another(source: Path) -> None:
    source.write_text("""template <typename T, typename Q> __global__ void k(Q* out, const T* in, int n) {
  for (int i = threadIdx.x; i < n; i += 64) out[i] = in[i];
}
void f(int n) {
  DISPATCH_FLOATING_TYPES(in.scalar_type(), [&] { DISPATCH_FP8_TYPES(out.type(), [&] {
    k<scalar_t, fp8_t><<<1, 64>>>(out, in, n); }); });
}
""")
    run(str(source), "--set", "Q=uint8_t")
    assert 'T = "__half"' in Path("kernels/k.kernel.toml").read_text()


def test_an_integer_that_is_0_is_no_size(source: Path) -> None:
    run(str(source), "add", "--set", "size=0")
    assert len(list(load_workspace(Path.cwd()).units)) == 1
    assert "sizes = []\n" in Path("kernels/add.kernel.toml").read_text()
    assert "size_ = 0\n" in Path("kernels/add.kernel.toml").read_text().partition("[defaults]")[2]


def test_an_input_may_be_made_absent_by_hand(source: Path) -> None:
    run(str(source), "scale", "--set", "T=float")
    text = Path("templates/scale.hip.j2").read_text()
    assert "{% if x %}    static_assert(sizeof(T) % sizeof({{ abi_type(x) }}) == 0" in text
    assert "\n    static_assert(sizeof(T) % sizeof({{ abi_type(out) }}) == 0" in text


def test_integers_of_the_template_on_which_sizes_depend_are_those_of_all_instances(
    source: Path, capsys: Capture
) -> None:
    source.write_text("""template <int TOP> __global__ void sum(float* y, const float* x, int n) {
  for (int i = threadIdx.x; i < n; i += 64)
    for (int k = 0; k < TOP; ++k) y[blockIdx.x * n + i] = x[blockIdx.x * TOP * n + k * n + i];
}
void f(int rows) { sum<2><<<rows, 64>>>(y, x, n); sum<4><<<rows, 64>>>(y, x, n); }
""")
    run(str(source))
    assert "--set 'TOP=4'" in capsys.readouterr().out
    text = Path("kernels/sum.kernel.toml").read_text()
    assert 'sizes = ["rows", 2, "n"]' in text
    assert text.count("[[instance]]") == 1


def test_sizes_follow_from_indices(source: Path) -> None:
    run(str(source), "scale", "--set", "T=__half")
    text = Path("kernels/scale.kernel.toml").read_text()
    assert text.count('sizes = ["(count / n)", "n"]  # from `') == 2
    (unit,) = load_workspace(Path.cwd()).units
    assert [tensor.dtype for tensor in unit.kernel.operation.tensors] == ["f16", "f16"]


def test_answers_make_a_unit(source: Path, capsys: Capture) -> None:
    run(str(source), "scale", "--set", "out=rows, n", "--set", "x=rows, n", "--set", "T=__half")
    printed = capsys.readouterr().out
    assert "nothing is open" in printed
    (unit,) = load_workspace(Path.cwd()).units
    assert unit.instance.parameters == {
        "T": "__half", "BLOCK": 128, "Grid": "count / n", "Block": "BLOCK", "SharedBytes": "0",
    }  # fmt: skip
    operation = unit.kernel.operation
    assert operation.size_arguments == ("n", "count", "rows")
    assert operation.runtime_types == {"factor": "float", "negate": "bool"}
    assert [tensor.dtype for tensor in operation.tensors] == ["f16", "f16"]
    template = Path("templates/scale.hip.j2").read_text()
    assert '#include "../../src/scale.cu"' in template
    assert "rows::scale<" in template


def test_a_reserved_name_is_another_argument(source: Path, capsys: Capture) -> None:
    run(str(source), "add", "--set", "y=size_", "--set", "x=size_")
    (unit,) = load_workspace(Path.cwd()).units
    assert unit.kernel.operation.size_arguments == ("size_",)
    assert unit.instance.parameters["Grid"] == "(size_ + 128 - 1) / 128"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "several kernels"),
        (["scal"], "did you mean `scale`?"),
        (["scale", "--set", "outt=n"], "--set outt: nothing is called so"),
        (["scale", "--set", "out"], "--set out is not NAME=VALUE"),
        (["scale", "--set", "out=n +"], "`n +` is not a size"),
        (["scale", "--set", "T=block_q4_0", "--set", "out.dtype=f17"], "there is no such dtype"),
        (["add", "--set", "y.in_out=maybe"], "it must be true or false"),
        (["scale", "-I", "nowhere"], "there is no such folder"),
        (["scale", "-p", "nowhere.json"], "cannot read nowhere.json"),
    ],
)
def test_mistakes_are_said_and_write_nothing(source: Path, words: list[str], said: str, capsys: Capture) -> None:
    run(str(source), *words, status=2)
    assert said in capsys.readouterr().err
    assert not list(Path.cwd().iterdir())


def test_files_that_are_there_are_kept(source: Path, capsys: Capture) -> None:
    run(str(source), "add")
    path = Path("kernels/add.kernel.toml")
    path.write_text("mine")
    run(str(source), "add", status=2)
    assert "already there" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_flags_come_from_a_compile_database(source: Path) -> None:
    folder = source.parent
    (folder / "include").mkdir()
    entry = {"directory": str(folder), "file": "scale.cu", "command": "hipcc -Iinclude -DFAST=1 -O3 -c scale.cu"}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    run(str(source), "add")
    assert 'flags = ["-I../src/include", "-DFAST=1"' in Path("kernels/add.kernel.toml").read_text()


def test_stand_ins_bring_what_they_include() -> None:
    assert set(stand_ins(["torch/all.h"])) == {"torch/all.h", "torch_stand_in.h", "cuda_runtime.h"}
    assert set(stand_ins(["cuda.h", "rocprim/rocprim.hpp"])) == {"cuda.h", "cuda_runtime.h"}


LAUNCHES = """
template <typename scalar_t, scalar_t (*ACT)(const scalar_t&), bool FIRST>
__global__ void gate(scalar_t* out, const scalar_t* in, int d, uint3 fast) {
  for (int i = threadIdx.x; i < d; i += blockDim.x)
    out[blockIdx.x * d + i] = ACT(LDG(&in[blockIdx.x * 2 * d + i])) * in[blockIdx.x * 2 * d + d + i];
}
struct config { dim3 grid, block; size_t bytes; hipStream_t stream; };
#define GATE(ACT_FN, IS_FIRST)                                        \\
  int d = in.size(-1) / 2;                                            \\
  int64_t tokens = in.numel() / in.size(-1);                          \\
  const uint3 fast = make_fast(tokens);                               \\
  MY_DISPATCH_FLOATING_TYPES(in.scalar_type(), "gate", [&] {          \\
    gate<scalar_t, ACT_FN<scalar_t>, IS_FIRST>                        \\
        <<<dim3(tokens), dim3(std::min(d, 1024)), 0>>>(out.data_ptr<scalar_t>(), in.data_ptr<scalar_t>(), d, fast); \\
  });
void one(torch::Tensor& out, torch::Tensor& in) { GATE(act::silu, true); }
void two(torch::Tensor& out, torch::Tensor& in) { GATE(act::gelu, false); }
template <int BLOCK, typename T>
__global__ void scale(T* y, const T* x, const int64_t n, const T* more) { y[0] = x[0]; }
template <bool LARGE, typename T>
static void scale_cuda(const T* x, T* y, const int64_t n, const int extra) {
  if (n < 1024) {
    const dim3 block(64, 1, 1);
    const config params = {(n + 63) / 64, block, 0, 0};
    launch(scale<64>, params, y, x, n, nullptr);
  } else {
    const dim3 block(256, 1, 1);
    const config params = config(dim3(n / 256), block, block.x > 64 ? 4 * sizeof(float4) : 0, 0);
    launch(scale<256>, params, y, x, n, nullptr);
  }
}
void op(tensor* dst) {
  scale_cuda<true>((const float *) dst->src[0]->data, (float *) dst->data, dst->n, 4);
}
"""


def test_launches_in_macros_dispatches_and_function_templates() -> None:
    code = masked(LAUNCHES)
    gate, scale = hip_kernels(LAUNCHES)
    one, two = kernel_launches(LAUNCHES, code, gate)
    assert one.templates == {"scalar_t": "c10::Half", "ACT": "act::silu<c10::Half>", "FIRST": "true"}
    assert two.templates == {"scalar_t": "c10::Half", "ACT": "act::gelu<c10::Half>", "FIRST": "false"}
    assert (one.grid, one.block, one.sizes) == ("tokens", "std::min(d, 1024)", ("tokens",))
    assert one.arguments == {"fast": "make_fast(tokens)"}
    assert "MY_DISPATCH_FLOATING_TYPES" in one.choices["scalar_t"]
    small, large = kernel_launches(LAUNCHES, code, scale)
    assert small.templates == {"BLOCK": "64", "T": "float"}
    assert (small.grid, small.block, small.shared) == ("(n + 63) / 64", "64, 1, 1", "0")
    assert (large.grid, large.block) == ("n / 256", "256, 1, 1")
    assert large.shared == "256 > 64 ? 4 * sizeof(float4) : 0"
    assert small.arguments == large.arguments == {"more": "nullptr"}


def test_a_macro_that_another_macro_gets_keeps_its_parameters_open() -> None:
    text = """template <typename T> __global__ void k(T* p) { p[0] = 1; }
#define CALL(TYPE) k<TYPE><<<n, 64>>>(p)
void f(int n) { DISPATCH_BY_TYPE(x.dtype(), CALL) }
"""
    (kernel,) = hip_kernels(text)
    (launch,) = kernel_launches(text, masked(text), kernel)
    assert (launch.line, launch.grid, launch.block) == (2, "n", "64")
    assert set(launch.why) == {"T"}


def test_a_dispatched_type_is_that_of_the_unit(source: Path, capsys: Capture) -> None:
    source.write_text(LAUNCHES)
    run(str(source), "gate", "--out", "other")
    assert "line 17 launches it otherwise" in capsys.readouterr().out
    run(str(source), "gate", "--json")
    assert set(json.loads(capsys.readouterr().out)["open"]["gate"]) == set()
    text = Path("kernels/gate.kernel.toml").read_text()
    assert 'scalar_t = "c10::Half"  # line 16 is in MY_DISPATCH_FLOATING_TYPES, which has more types' in text
    assert "false" not in text.partition("[[instance]]")[2]
    assert text.count('dtype = "f16"') == 2
    assert 'sizes = ["tokens", "2 * d"]' in text
    assert 'sizes = ["tokens", "d"]' in text


CACHE = """
template <typename scalar_t, typename cache_t>
__global__ void store(const scalar_t* key,  // [tokens, n]
    cache_t* cache,                         // [blocks,
                                            //  n / 2, 2]
    const int64_t* slots, int n, int key_stride, int row_bytes) {
  for (int i = threadIdx.x; i < n; i += 64) copy(key + blockIdx.x * key_stride + i, cache + slots[blockIdx.x] * n + i);
}
#define STORE(T, C) store<T, C><<<tokens, 64>>>(key, cache, slots, n, key_stride, row_bytes)
void f(int tokens) { BY_TYPE(STORE) }
"""


def test_one_answer_for_all_tensors_of_a_type_and_for_arguments_that_follow(source: Path) -> None:
    source.write_text(CACHE)
    words = ["scalar_t=uint16_t", "cache_t=uint16_t", "scalar_t.dtype=f16", "cache_t.dtype=f16", "row_bytes=2 * n"]
    run(str(source), *(word for one in words for word in ("--set", one)), "--set", "cache.in_out=true")
    (unit,) = load_workspace(Path.cwd()).units
    key, slots, cache = unit.kernel.operation.tensors
    assert (key.dtype, key.sizes, key.strides) == ("f16", ("tokens", "n"), ("key_stride", "1"))
    assert (slots.sizes, cache.sizes) == (("tokens",), ("blocks", "n / 2", "2"))
    assert unit.instance.parameters["row_bytes"] == "2 * n"
    assert "row_bytes" not in unit.kernel.operation.size_arguments


def test_types_that_are_open_leave_no_questions_of_their_own(source: Path, capsys: Capture) -> None:
    source.write_text(CACHE)
    run(str(source), "--json")
    open_ones = json.loads(capsys.readouterr().out)["open"]["store"]
    assert set(open_ones) == {"scalar_t", "cache_t", "cache.in_out", "row_bytes"}
    assert Path("kernels/store.kernel.toml").read_text().count('dtype = "?"') == 2


TORCH_HOST = """
#include <torch/all.h>
#include <c10/cuda/CUDAGuard.h>
void f(torch::Tensor& out, torch::Tensor& in) {
  TORCH_CHECK(in.is_cuda(), "PyTorch's needs no semicolon")
  TORCH_CHECK(in.size(0) % 8 == 0);
  int64_t rows[2] = {};
  auto table = torch::from_blob(rows, {2}, torch::kInt64).to(in.device());
  auto rest = torch::empty_like(in, in.options()).flatten(1, -1);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(in));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "f", [&] { k<scalar_t><<<1, 64, 0, stream>>>(rest.data_ptr<scalar_t>()); });
}
"""


@pytest.mark.toolchain
def test_host_code_for_pytorch_compiles_with_the_stand_ins(tmp_path: Path) -> None:
    toolchain = discover()
    for name, text in stand_ins(["torch/all.h", "c10/cuda/CUDAGuard.h"]).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    source = tmp_path / "host.hip"
    source.write_text(TORCH_HOST)
    words = [str(toolchain.clangxx), *toolchain.hip_arguments, *HIP_FLAGS, "--offload-host-only", "-fsyntax-only"]
    for folder in toolchain.include_folders:
        words += ["-isystem", str(folder)]
    done = run_blocking([*words, f"-I{tmp_path}", str(source)], environment=toolchain.environment, timeout_s=120)
    assert "error:" not in done.stderr
    assert done.returncode == 0
