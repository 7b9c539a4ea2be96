"""Sizes of tensors that follow from a kernel's indices, and from comments."""

from __future__ import annotations

import pytest

from ckwatch.cli.imports.example_shapes import example_sizes, stride_values
from ckwatch.cli.imports.hip_kernels import hip_kernels
from ckwatch.cli.imports.tensor_sizes import TensorSizes, axis_of, commented_sizes, indexed_body
from helpers.each_row import each_row

SIZES = ("n", "m", "rows", "heads", "s0", "s1")


def sizes_of(body: str, grid: str = "rows", block: str = "256", type_: str = "float") -> TensorSizes | None:
    parameters = ", ".join(f"int {name}" for name in SIZES)
    (kernel,) = hip_kernels(f"__global__ void k({type_}* p, const int* q, {parameters}) {{\n{body}\n}}")
    found = indexed_body(kernel, {name: name for name in SIZES}, (grid, block), SIZES, ["q"])
    return found.sizes_of("p", type_, {"float": 1, "float4": 4}[type_])


@each_row(
    ("body", "sizes", "strides"),
    [
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; p[i] = 1;", ["n"], []),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && i < m) p[i] = 1;", ["m"], []),
        ("for (int i = threadIdx.x; i < n; i += 256) p[blockIdx.x * n + i] = 1;", ["rows", "n"], []),
        ("const int r = blockIdx.x; for (int i = threadIdx.x; i < n; ++i) p[r * s0 + i] = 1;", ["rows", "n"], ["s0", "1"]),
        ("for (int i = 0; i < n; ++i) p[(int64_t)blockIdx.x * (2 * n) + n + i] = 1;", ["rows", "2 * n"], []),
        ("p += blockIdx.x * n; for (int i = 0; i < n; ++i) { p[i] = 1; }", ["rows", "n"], []),
        ("float* row = p + blockIdx.x * n; for (int i = 0; i < n; ++i) row[i] = 1;", ["rows", "n"], []),
        ("auto* v = reinterpret_cast<float4*>(p); for (int i = 0; i < n / 4; ++i) v[i] = x;", ["n"], []),
        ("for (int i = 0; i < n * heads; ++i) { int h = i / n; int c = i % n; p[h * s0 + c] = 1; }",
         ["heads", "n"], ["s0", "1"]),
        ("int i = 2 * threadIdx.x; if (i >= n) return; p[i] = 1; p[i + 1] = 2;", ["n"], []),
        ("int i = 2 * (BLOCK * blockIdx.x + threadIdx.x); if (i >= n) return; p[i] = 1; p[i + 1] = 2;", ["n"], []),
        ("int r = blockIdx.x; float x = r < n ? p[r] : 0;", ["n"], []),
        ("p[blockIdx.x] = 1;", ["rows"], []),
        ("int i = threadIdx.x; if (i < n) atomicAdd(&p[i], 1.0f);", ["n"], []),
        ("for (int i = threadIdx.x * 4; i < n; i += 1024) { p[i] = 1; p[i + 3] = 2; }", ["n"], []),
        ("int i = blockIdx.x / heads; p[i] = 1;", ["((rows - 1) / heads + 1)"], []),
        ("int o = blockIdx.x / (n * m); int i = (blockIdx.x - o * n * m) / n; p[o * s1 + i * s0] = 1;",
         ["((rows - 1) / (m * n) + 1)", "m", "1"], ["s1", "s0", "1"]),
        ("for (int r = 0; r < rows; ++r) { float* row = p + r * s0; for (int i = 0; i < n; ++i) row[i] = 1; }",
         ["rows", "n"], ["s0", "1"]),
        ("int at = q[blockIdx.x]; for (int i = 0; i < n; ++i) p[at * n + i] = 1;", ["q_end", "n"], []),
        ("int at = (int)q[blockIdx.x]; if (at >= m) return; for (int i = 0; i < n; ++i) p[at * n + i] = 1;",
         ["m", "n"], []),
    ],
)  # fmt: skip
def test_indices_tell_sizes(body: str, sizes: list[str], strides: list[str]) -> None:
    found = sizes_of(body)
    assert found is not None
    assert (list(found.sizes), list(found.strides)) == (sizes, strides)


@pytest.mark.parametrize(
    ("sizes", "strides", "step", "axis"),
    [
        (["n", "m"], [], "m", "rows"),
        (["n", "2", "m / 2"], [], "m", "rows"),
        (["n", "m"], [], "1", "columns"),
        (["n", "heads", "m"], ["s1", "s0", "1"], "s0", "axis 1"),
        (["n", "m"], ["s0", "1"], "m", None),
    ],
)
def test_axes_are_known_by_the_elements_between_two_indices(
    sizes: list[str], strides: list[str], step: str, axis: str | None
) -> None:
    assert axis_of(sizes, strides, step) == axis


def test_sizes_of_vectors_are_those_of_their_elements() -> None:
    found = sizes_of("p[blockIdx.x * 8 + threadIdx.x] = x;", block="8", type_="float4")
    assert found is not None
    assert found.sizes == ("rows", "32")


def test_a_division_that_vectors_undo_is_a_multiple() -> None:
    found = sizes_of("float4* v = (float4*) p; for (int i = 0; i < n >> 2; ++i) v[i] = x;")
    assert found is not None
    assert (found.sizes, found.multiples) == (("n",), {"n": 4})


@pytest.mark.parametrize(
    "body",
    [
        "store(p, 1);",  # a function that may do anything
        "int i = threadIdx.x; while (i < n) i *= 2; p[i] = 1;",  # a bound that no longer holds
        "int i = f(threadIdx.x); p[i] = 1;",
        "for (int i = 0; i < n; ++i) { i += m; p[i] = 1; }",  # a bound that no longer holds
        "for (int k = 0; k < n; ++k) { p += s0; p[0] = 1; }",  # a pointer that moves in a loop
        "half2* v = (half2*) p; v[threadIdx.x] = x;",  # elements of another type
        "int i = n - threadIdx.x; p[i] = 1;",
        "if (rows > 1) p[threadIdx.x] = 1; else p[blockIdx.x] = 1;",  # which is greater?
        "p[blockIdx.x * n * m * blockIdx.y] = 1;",
    ],
)
def test_what_indices_do_not_tell_stays_open(body: str) -> None:
    assert sizes_of(body, grid="rows, 4") is None


def test_the_message_names_the_index() -> None:
    found = sizes_of("\n\np[blockIdx.x] = 1;")
    assert found is not None
    assert found.source == "`p[blockIdx.x]` in line 4"


@pytest.mark.parametrize(
    ("note", "sizes", "strides"),
    [
        ("[rows, 2 * n]", ["rows", "2 * n"], []),
        ("the rows: [..., n]", ["rows", "n"], []),
        ("[batch, n] or [rows, n]", ["rows", "n"], []),
        ("[blocks, heads, n // 2]", ["blocks", "heads", "n / 2"], []),
        ("[rows, heads, n]", ["rows", "heads", "n"], []),
        ("rows times n", None, []),
        ("[rows, n...]", None, []),
    ],
)
def test_comments_tell_sizes(note: str, sizes: list[str] | None, strides: list[str]) -> None:
    found = commented_sizes(note, "p", SIZES, "rows")
    assert (None if found is None else list(found.sizes)) == sizes


def test_a_stride_by_the_tensors_name_is_its_outermost() -> None:
    found = commented_sizes("[rows, heads, n]", "x", (*SIZES, "x_stride"), None)
    assert found is not None
    assert found.strides == ("x_stride", "n", "1")
    found = commented_sizes("[rows, num_heads, n / 2]", "x", (*SIZES, "x_stride", "head_stride"), None)
    assert found is not None
    assert found.strides == ("x_stride", "head_stride", "1")
    assert found.multiples == {"n": 2}


def test_examples_are_small_and_strides_fit() -> None:
    values = example_sizes(("a", "b", "c"), {"c": 100}, [("a", "b", "4 * c"), ("b", "c")], {"b": 48})
    assert values["c"] == 100
    assert values["b"] % 48 == 0
    assert values["a"] * values["b"] * 400 <= 1 << 22
    assert stride_values([(("a", "b"), ("s", "1")), (("b", "a", "b"), ("t", "s", "1"))], {"a": 2, "b": 3}) == {
        "s": 3, "t": 6,
    }  # fmt: skip
