"""Kernels as a text declares them."""

from __future__ import annotations

import pytest

from ckwatch.checks.device_code.declarations import KernelDeclaration, kernel_declarations
from helpers.each_row import each_row


def declared(text: str) -> list[KernelDeclaration]:
    return kernel_declarations(text)


@each_row(
    ("text", "names"),
    [
        ("__global__ void k(float* x) { }", ["k"]),
        ("template <int B, class T = float> __global__ void k(T* x) { }\n__global__ void l() {}", ["k", "l"]),
        ("// __global__ void c() {}\n__global__ void k(int n);\nvoid __global__ k(int n) { }", ["k"]),
        ("__global__ __launch_bounds__(256) void k() { }", ["k"]),
        ("__global__ void __launch_bounds__(256, 2) k() { }", ["k"]),
        ("__global__ __attribute__((amdgpu_waves_per_eu(4))) void k() { }", ["k"]),
        ('extern "C" __global__ std::enable_if_t<true, void> k() { }', ["k"]),
        ("#define KERNEL static __global__\nKERNEL void k() { }", ["k"]),
        (
            "#define MAKE(NAME, T) \\\n  __global__ void NAME(T* x) { \\\n  }\nMAKE(one, float)\nMAKE(two, int)",
            ["one", "two"],
        ),
        ("#define MAKE(N) __global__ void scale_##N(float* x) { }\nMAKE(f32)", ["scale_f32"]),
        ("#define MAKE(N) __global__ void N() { }\n#define OTHER 3\n__global__ void k() { }", ["k"]),
    ],
)
def test_the_kernels_of_a_text_have_the_names_that_it_gives_them(text: str, names: list[str]) -> None:
    found = declared(text)

    assert [one.name for one in found] == names
    assert all(one.name in text[one.start : one.end] or one.macro for one in found)


def test_a_bound_goes_behind_the_word_that_makes_a_function_a_kernel() -> None:
    text = "#define MAKE(N) __global__ void N() { }\nMAKE(k)\ntemplate <int B>\n__global__\nvoid l() { }"

    assert [text[: one.insert_at].split()[-1] for one in declared(text)] == ["__global__", "__global__"]


@pytest.mark.parametrize(
    ("head", "threads", "occupancy"),
    [
        ("__launch_bounds__(1024)", "1024", None),
        ("__launch_bounds__(THREADS, 8)", "THREADS", "8"),
        ("__launch_bounds__(min<int>(256, 512))", "min<int>(256, 512)", None),
        ("__attribute__((amdgpu_flat_work_group_size(64, 1024)))", "1024", None),
        ("__attribute__((amdgpu_waves_per_eu(4, 8)))", None, "4"),
        ("[[clang::amdgpu_waves_per_eu(4)]]", None, "4"),
    ],
)
def test_attributes_bound_a_kernels_threads_and_ask_for_an_occupancy(
    head: str, threads: str | None, occupancy: str | None
) -> None:
    text = f"__global__ void other() {{ }}\n{head} __global__ void k() {{ }}"
    (bound,) = declared(text)[1].bounds
    found = [None if one is None else one.text for one in (bound.threads, bound.occupancy)]

    assert found == [threads, occupancy]
    assert declared(text)[0].bounds == ()


def test_a_macro_that_bounds_its_kernels_is_where_the_bound_stands() -> None:
    text = "#define KERNEL __global__ __launch_bounds__(1024)\nKERNEL void k() { }"
    (bound,) = declared(text)[0].bounds

    assert bound.threads is not None
    assert text[bound.threads.start : bound.threads.end] == "1024"


def test_shared_arrays_are_those_of_the_body_with_a_size_of_its_own() -> None:
    text = "__global__ void k() { __shared__ float a[16][128 + 4], b[4]; extern __shared__ int d[]; __shared__ int n; }"

    assert [(one.name, text[one.start : one.end]) for one in declared(text)[0].shared] == [
        ("a", "__shared__ float a[16][128 + 4], b[4]"),
        ("n", "__shared__ int n"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__global__",
        "__global__ void k(",
        "__global__ void k() {",
        "#define M(x) __global__",
        "__global__ void k() {{",
    ],
)
def test_a_text_that_is_cut_short_is_read_as_far_as_it_goes(text: str) -> None:
    assert [one.name for one in declared(text)] in ([], ["k"])
